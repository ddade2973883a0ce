//! Masks in ascending order, with their indices.
//!
//! Masks are uniform, so their first bits divide them into parts of nearly equal size, and the next bits sort
//! a part except for a few neighbours. Masks of any distribution are sorted correctly; only the speed relies
//! on uniformity.

use std::sync::atomic::{AtomicBool, Ordering};

use vesica_primitives::parallel;

use super::{less, shortened, top};

/// A mask, cut to the width, and its index.
pub(super) type Entry<const W: usize> = ([u64; W], u32);

/// log₂ of the approximate number of masks in a part.
const PART: u32 = 9;

/// Maximum bits that choose a part: caches cannot keep up with more parts.
const MAX_PART_BITS: u32 = 12;

/// Parts with more than this many masks under one value of their next bits are sorted by comparison.
const CROWD: u32 = 24;

/// Flags that one job puts into another order.
const PLACED: usize = 1 << 14;

/// Masks, being brought into ascending order.
pub(super) struct Order<const W: usize> {
    entries: Vec<Entry<W>>,
    /// Where each part begins, and where the last one ends.
    starts: Vec<usize>,
    /// Bits that chose the part.
    part_bits: u32,
    /// How many parts are in order.
    sorted: usize,
}

impl<const W: usize> Order<W> {
    /// Cuts the masks into parts.
    pub(super) fn new(masks: &[[u64; W]], width: usize) -> Self {
        let lead = top(width);
        let part_bits = (masks.len().max(1).ilog2().saturating_sub(PART)).min(MAX_PART_BITS);
        let part = |mask: &[u64; W]| (mask[0] & lead).unbounded_shr(64 - part_bits) as usize;
        let parts = 1usize << part_bits;
        // Each thread takes some masks, and counts how much room these need in every part.
        let share = masks.len().div_ceil(rayon::current_num_threads()).max(1);
        let count = |masks: &[[u64; W]]| {
            let mut counts = vec![0usize; parts];
            masks.iter().for_each(|mask| counts[part(mask)] += 1);
            counts
        };
        let counts = parallel::map(masks.chunks(share), count);
        let mut entries = vec![([0; W], 0); masks.len()];
        let mut rooms: Vec<Vec<_>> = counts.iter().map(|_| Vec::with_capacity(parts)).collect();
        let mut starts = vec![0];
        let mut rest = &mut entries[..];
        for part in 0..parts {
            for (rooms, counts) in rooms.iter_mut().zip(&counts) {
                let (room, others) = rest.split_at_mut(counts[part]);
                rooms.push(room.iter_mut());
                rest = others;
            }
            starts.push(masks.len() - rest.len());
        }
        let shares = rooms.iter_mut().zip(masks.chunks(share));
        parallel::each(shares.enumerate(), |(number, (rooms, masks))| {
            for (i, mask) in (number * share..).zip(masks) {
                if let Some(room) = rooms[part(mask)].next() {
                    *room = (shortened(mask, width), i as u32);
                }
            }
        });
        Order {
            entries,
            starts,
            part_bits,
            sorted: 0,
        }
    }

    /// Puts at least the first `count` masks in order.
    pub(super) fn sort_until(&mut self, count: usize) {
        let first = self.sorted;
        let end = self.starts.partition_point(|start| *start < count);
        let last = end.min(self.starts.len() - 1);
        if last <= first {
            return;
        }
        let mut rest = &mut self.entries[self.starts[first]..self.starts[last]];
        let mut parts = Vec::with_capacity(last - first);
        for bounds in self.starts[first..=last].windows(2) {
            let (part, others) = rest.split_at_mut(bounds[1] - bounds[0]);
            parts.push(part);
            rest = others;
        }
        let part_bits = self.part_bits;
        parallel::each_with(parts.into_iter(), Scratch::<W>::default, |scratch, part| {
            scratch.sort(part, part_bits);
        });
        self.sorted = last;
    }

    /// All entries; those that [`Self::sort_until`] has reached are in order.
    pub(super) fn entries(&self) -> &[Entry<W>] {
        &self.entries
    }
}

/// Flags in another order: the i-th goes to `place(i)`, and no two to the same place. The time does not depend on the
/// flags.
pub(super) fn reordered(flags: &[bool], place: impl Fn(usize) -> u32 + Sync) -> Vec<bool> {
    let places: Vec<_> = flags.iter().map(|_| AtomicBool::new(false)).collect();
    parallel::each(flags.chunks(PLACED).enumerate(), |(chunk, flags)| {
        for (i, flag) in (chunk * PLACED..).zip(flags) {
            places[place(i) as usize].store(*flag, Ordering::Relaxed);
        }
    });
    places.into_iter().map(AtomicBool::into_inner).collect()
}

#[derive(Default)]
struct Scratch<const W: usize> {
    places: Vec<u32>,
    entries: Vec<Entry<W>>,
}

impl<const W: usize> Scratch<W> {
    /// Sorts a part, whose masks all begin with the same `skip` bits.
    fn sort(&mut self, part: &mut [Entry<W>], skip: u32) {
        if part.len() < 2 {
            return;
        }
        let bits = part.len().ilog2() + 1;
        let bucket = |entry: &Entry<W>| (entry.0[0] << skip >> (64 - bits)) as usize;
        self.places.clear();
        self.places.resize(1 << bits, 0);
        for entry in part.iter() {
            self.places[bucket(entry)] += 1;
        }
        let (mut sum, mut most) = (0, 0);
        for place in &mut self.places {
            most = most.max(*place);
            sum += std::mem::replace(place, sum);
        }
        if most > CROWD {
            part.sort_unstable();
            return;
        }
        if self.entries.len() < part.len() {
            self.entries.resize(part.len(), ([0; W], 0));
        }
        for entry in part.iter() {
            let place = &mut self.places[bucket(entry)];
            self.entries[*place as usize] = *entry;
            *place += 1;
        }
        for (i, entry) in self.entries[..part.len()].iter().enumerate() {
            let mut at = i;
            while at > 0 && less(&entry.0, &part[at - 1].0) {
                part[at] = part[at - 1];
                at -= 1;
            }
            part[at] = *entry;
        }
    }
}
