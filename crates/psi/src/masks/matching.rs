//! Merges two ascending sequences of masks in time independent of what they share.
//!
//! The receiver sends its next message after this, so the sender could read the size of the intersection from
//! the delay. Each step of the merge therefore compares one pair of masks, without a branch on the outcome,
//! and advances in one of the sequences. The number of steps for a block is its number of masks plus that of
//! own masks in its range. So a sender that chooses its masks next to a guessed one cannot make a match
//! decide the steps of a whole block.

use vesica_wire::Misbehaviour;

use super::frames::Decoder;
use super::order::{Entry, Order};

/// Masks read at a time before they are compared.
const BLOCK: usize = 256;

/// What a frame has in common with the own masks.
pub(super) struct Hits<const W: usize> {
    /// The frame's first mask.
    pub(super) first: [u64; W],
    /// The frame's last mask.
    pub(super) last: [u64; W],
    /// Position, in ascending order, of the first own mask that is not below `first`.
    pub(super) start: usize,
    /// For each own mask from `start` up to `last`, whether it is in the frame.
    pub(super) own: Vec<bool>,
    /// For each of these, how many masks of the frame are below it.
    pub(super) ranks: Vec<u32>,
    /// For each mask of the frame, whether it is an own one; only the first of equal masks.
    pub(super) theirs: Vec<bool>,
}

/// Finds the masks of a frame among the own ones. Ranks only if `ranked`.
pub(super) fn hits<const W: usize>(
    mut frame: Decoder<W>,
    order: &Order<W>,
    ranked: bool,
) -> Result<Hits<W>, Misbehaviour> {
    let mut block = [[0; W]; BLOCK];
    let mut count = frame.read(&mut block)?;
    let (first, mut last) = (block[0], block[0]);
    let entries = order.entries();
    let start = entries.partition_point(|entry| entry.0 < first);
    let entries = &entries[start..];
    let (mut own, mut ranks, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    let mut j = 0;
    while count > 0 {
        last = block[count - 1];
        let end = j + entries[j..].partition_point(|entry| entry.0 <= last);
        // One more, for a step that has no own mask left to compare with.
        own.resize(end + 1, false);
        if ranked {
            ranks.resize(end + 1, 0);
        }
        let offset = theirs.len();
        theirs.resize(offset + count, false);
        let theirs = &mut theirs[offset..];
        merge(&block[..count], &entries[j..end], |i, at, hit| {
            own[j + at] |= hit;
            theirs[i.min(count - 1)] |= hit;
            if ranked {
                // The last step at an own mask is the one that advances to the next.
                ranks[j + at] = (offset + i) as u32;
            }
        });
        j = end;
        count = frame.read(&mut block)?;
    }
    own.truncate(j);
    ranks.truncate(j);
    Ok(Hits {
        first,
        last,
        start,
        own,
        ranks,
        theirs,
    })
}

/// Merges masks with own ones, both ascending: in as many steps as there are of both, each of which gets its place in both
/// sequences and whether the masks there are equal. A place may be the end of its sequence, and then they are not.
#[inline]
pub(super) fn merge<const W: usize>(
    masks: &[[u64; W]],
    own: &[Entry<W>],
    mut step: impl FnMut(usize, usize, bool),
) {
    let none = [u64::MAX; W];
    let (mut i, mut j) = (0, 0);
    for _ in 0..masks.len() + own.len() {
        let (more_theirs, more_own) = (i < masks.len(), j < own.len());
        let mask = masks.get(i).unwrap_or(&none);
        let ours = own.get(j).map_or(&none, |entry| &entry.0);
        step(i, j, equal(mask, ours) & more_theirs & more_own);
        let theirs_next = !more_own | (below(mask, ours) & more_theirs);
        i += usize::from(theirs_next);
        j += usize::from(!theirs_next);
    }
}

/// Whether a = b, without a branch.
#[inline]
fn equal<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    difference == 0
}

/// Whether a < b, without a branch: the borrow of a − b.
#[inline]
fn below<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    let words = a.iter().zip(b).rev();
    words.fold(false, |borrow, (a, b)| {
        let (difference, first) = a.overflowing_sub(*b);
        let (_, second) = difference.overflowing_sub(u64::from(borrow));
        first | second
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comparisons_are_those_of_the_language(
            a: [u64; 4], b: [u64; 4], same in 0usize..=4, by in -1i64..=1,
        ) {
            let mut near = a;
            near[same..].copy_from_slice(&b[same..]);
            let mut next = a;
            next[same % 4] = next[same % 4].wrapping_add_signed(by);
            for b in [b, near, next, a] {
                prop_assert_eq!(equal(&a, &b), a == b);
                prop_assert_eq!(below(&a, &b), a < b);
                prop_assert_eq!(below(&b, &a), b < a);
            }
        }
    }
}
