//! Two ascending sequences of masks, merged.

use vesica_wire::Misbehaviour;

use super::frames::Decoder;
use super::order::Order;

/// Masks that are read before they are compared.
const BLOCK: usize = 256;

/// What one frame has in common with the own masks.
pub(super) struct Hits<const W: usize> {
    /// The frame's first mask.
    pub(super) first: [u64; W],
    /// The frame's last mask.
    pub(super) last: [u64; W],
    /// Index of an own mask and offset in the frame of the first mask that equals it.
    pub(super) pairs: Vec<(u32, u32)>,
}

/// Finds the masks of a frame among the own ones.
pub(super) fn hits<const W: usize>(
    mut frame: Decoder<W>,
    order: &Order<W>,
) -> Result<Hits<W>, Misbehaviour> {
    let mut block = [[0; W]; BLOCK];
    let mut count = frame.read(&mut block)?;
    let mut result = Hits {
        first: block[0],
        last: block[0],
        pairs: Vec::new(),
    };
    let mut own = order.entries();
    own = &own[own.partition_point(|entry| entry.0 < block[0])..];
    let mut offset = 0;
    while count > 0 {
        let (mut i, mut j) = (0, 0);
        // Which side goes on is a coin toss that no branch should depend on.
        while i < count && j < own.len() {
            let (theirs, ours) = (block[i][0], own[j].0[0]);
            if theirs == ours {
                let (mask, index) = &own[j];
                if *mask == block[i] {
                    result.pairs.push((*index, (offset + i) as u32));
                }
                let theirs_first = block[i] < *mask;
                i += usize::from(theirs_first);
                j += usize::from(!theirs_first);
            } else {
                i += usize::from(theirs < ours);
                j += usize::from(ours < theirs);
            }
        }
        own = &own[j..];
        offset += count;
        result.last = block[count - 1];
        count = frame.read(&mut block)?;
    }
    Ok(result)
}
