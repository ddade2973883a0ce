//! Masks in ascending order, without moving them: their leading words and indices are sorted.
//!
//! Masks are uniform, so the order of their first bits cuts them into parts of nearly equal sizes,
//! and the next bits sort a part but for a few neighbours. Whatever the masks are, the order is
//! right; the time is that of uniform ones only for uniform ones.

use rayon::prelude::*;

use super::{shortened, top};

/// The leading word of a mask, cut to the width, and the mask's index.
pub(super) type Entry = (u64, u32);

/// A part has about so many masks, as a power of two.
const PART: u32 = 9;

/// Most bits that choose a part: more parts than this are more than caches follow.
const MOST_PART_BITS: u32 = 12;

/// Parts with more than so many masks under one value of their next bits are sorted by comparing.
const CROWD: u32 = 24;

/// Masks, and in which order they ascend.
pub(super) struct Order<'a, const W: usize> {
    masks: &'a [[u64; W]],
    width: usize,
    entries: Vec<Entry>,
    /// Where each part begins, and the end of the last.
    starts: Vec<usize>,
    /// Bits that chose the part.
    part_bits: u32,
    /// Parts that are in order.
    sorted: usize,
}

impl<'a, const W: usize> Order<'a, W> {
    /// Cuts the masks into parts.
    pub(super) fn new(masks: &'a [[u64; W]], width: usize) -> Self {
        let lead = top(width);
        let part_bits = (masks.len().max(1).ilog2().saturating_sub(PART)).min(MOST_PART_BITS);
        let part = |mask: &[u64; W]| (mask[0] & lead).unbounded_shr(64 - part_bits) as usize;
        let mut starts = vec![0usize; (1 << part_bits) + 1];
        for mask in masks {
            starts[part(mask) + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0, 0); masks.len()];
        for (i, mask) in masks.iter().enumerate() {
            let at = &mut next[part(mask)];
            entries[*at] = (mask[0] & lead, i as u32);
            *at += 1;
        }
        Order {
            masks,
            width,
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
        let (masks, width, part_bits) = (self.masks, self.width, self.part_bits);
        parts
            .into_par_iter()
            .with_min_len(8)
            .for_each_init(Scratch::default, |scratch, part| {
                scratch.sort(part, part_bits);
                settle_ties(part, masks, width);
            });
        self.sorted = last;
    }

    /// All entries; those that [`Self::sort_until`] has reached are in order.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The mask of an entry, cut to the width.
    #[inline]
    pub(super) fn mask(&self, entry: Entry) -> [u64; W] {
        let mut mask = [0; W];
        if W > 1 {
            mask = shortened(&self.masks[entry.1 as usize], self.width);
        }
        mask[0] = entry.0;
        mask
    }
}

#[derive(Default)]
struct Scratch {
    places: Vec<u32>,
    entries: Vec<Entry>,
}

impl Scratch {
    /// Sorts a part by leading words, all of which begin with the same `skip` bits.
    fn sort(&mut self, part: &mut [Entry], skip: u32) {
        if part.len() < 2 {
            return;
        }
        let bits = part.len().ilog2() + 1;
        let bucket = |entry: &Entry| (entry.0 << skip >> (64 - bits)) as usize;
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
            part.sort_unstable_by_key(|entry| entry.0);
            return;
        }
        if self.entries.len() < part.len() {
            self.entries.resize(part.len(), (0, 0));
        }
        for entry in part.iter() {
            let place = &mut self.places[bucket(entry)];
            self.entries[*place as usize] = *entry;
            *place += 1;
        }
        for (i, entry) in self.entries[..part.len()].iter().enumerate() {
            let mut at = i;
            while at > 0 && part[at - 1].0 > entry.0 {
                part[at] = part[at - 1];
                at -= 1;
            }
            part[at] = *entry;
        }
    }
}

/// Sorts masks with the same leading word by the other words.
fn settle_ties<const W: usize>(part: &mut [Entry], masks: &[[u64; W]], width: usize) {
    if W == 1 || !part.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return;
    }
    for run in part.chunk_by_mut(|a, b| a.0 == b.0) {
        run.sort_unstable_by_key(|entry| shortened(&masks[entry.1 as usize], width));
    }
}
