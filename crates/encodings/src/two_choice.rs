//! Two-choice hashing (PRTY19, section 4): every item in one of two bins, bins of nearly equal loads.
//!
//! The receiver's items go into m = ⌈n/λ⌉ bins, each to one of its two, such that no bin has more than a
//! capacity of about ⌈n/m⌉ + 1 ([`Parameters`]); protocols pad the bins to it. The sender has each of its
//! items in both bins ([`both`]). The assignment follows the paper's algorithm 1: all items go to their first
//! bin, and then, in passes, each to the one of its bins that has fewer others. When passes no longer help,
//! chains of moves lead from a bin that is too full to one that is not. So failure means that there is no
//! such assignment.
//!
//! **Deviation.** An item's bins are distinct, unless there is only one bin. Otherwise three bins would be
//! too few: items without a choice would overfill a bin too often. Protocols still hash the number of the
//! function (section 4.3): with one bin, both functions lead there.
//!
//! The order of work, and so time and memory accesses, depend on the keys.

mod parameters;

pub use parameters::Parameters;

use std::slice;

use vesica_primitives::block::{Block, Cipher};

use crate::EncodingFailed;
use crate::bins::{Bins, Entry};

/// Keys hashed together.
const HASHED: usize = 128;

/// Passes of the algorithm's last loop before chains of moves take over.
const PASSES: usize = 16;

/// The two functions of a run: what both sides of a protocol share.
///
/// Keys are 128-bit strings that look uniform: hashes of salted items.
#[derive(Clone)]
pub struct Functions {
    parameters: Parameters,
    cipher: Cipher,
}

impl Functions {
    /// The functions of a run.
    pub fn new(parameters: Parameters, session: &[u8; 32]) -> Self {
        Functions {
            parameters,
            cipher: Cipher::public("vesica/1 two-choice bins", session),
        }
    }

    /// Their parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Calls `each` with the two bins of every key, in the order of the keys.
    fn for_each(&self, keys: &[Block], mut each: impl FnMut([u32; 2])) {
        let bins = self.parameters.bins as u64;
        let scaled =
            |number: u64, count: u64| ((u128::from(number) * u128::from(count)) >> 64) as u32;
        let mut blocks = [0; HASHED];
        for keys in keys.chunks(HASHED) {
            let blocks = &mut blocks[..keys.len()];
            blocks.copy_from_slice(keys);
            self.cipher.feed_forward(blocks);
            for block in blocks {
                let first = scaled(*block as u64, bins);
                let second = match bins {
                    1 => 0,
                    _ => scaled((*block >> 64) as u64, bins - 1),
                };
                each([first, second + u32::from(bins > 1 && second >= first)]);
            }
        }
    }
}

/// For each bin the items that could be there, two entries per item; in each bin in the order of the items.
/// The sender's table. There may be any number of keys: the parameters bound only the other side's.
///
/// # Panics
/// If there are 2^30 keys or more.
pub fn both(functions: &Functions, keys: &[Block]) -> Bins {
    let mut pairs = Vec::with_capacity(keys.len());
    functions.for_each(keys, |bins| pairs.push(bins));
    let bins_of = |item: usize| &pairs[item][..];
    Bins::of_items(functions.parameters.bins, keys.len(), bins_of, Entry::new)
}

/// For each bin the items that go there, every item in one of its bins and at most the capacity in each;
/// in each bin in the order of the items. The receiver's table.
///
/// # Errors
/// [`EncodingFailed`] if no assignment respects the capacity.
///
/// # Panics
/// If there are more keys than the functions' parameters allow.
pub fn assign(functions: &Functions, keys: &[Block]) -> Result<Bins, EncodingFailed> {
    let Parameters {
        items,
        bins,
        capacity,
    } = functions.parameters;
    assert!(keys.len() <= items, "too many keys");
    let mut pairs = Vec::with_capacity(keys.len());
    functions.for_each(keys, |bins| pairs.push(bins));
    let mut assignment = Assignment::first(bins, pairs);
    let mut excess = usize::MAX;
    for _ in 0..PASSES {
        assignment.pass();
        let before = std::mem::replace(&mut excess, assignment.excess(capacity));
        if excess == 0 || excess >= before {
            break;
        }
    }
    if excess > 0 {
        assignment.relieve(capacity)?;
    }
    Ok(assignment.table())
}

/// Which of its bins each item is in.
struct Assignment {
    pairs: Vec<[u32; 2]>,
    /// 0 or 1 for each item.
    choices: Vec<u8>,
    /// Items in each bin.
    loads: Vec<u32>,
}

impl Assignment {
    /// Lines 1 and 2 of the algorithm: every item in its first bin.
    fn first(bins: usize, pairs: Vec<[u32; 2]>) -> Self {
        let mut loads = vec![0; bins];
        for [first, _] in &pairs {
            loads[*first as usize] += 1;
        }
        Assignment {
            choices: vec![0; pairs.len()],
            pairs,
            loads,
        }
    }

    /// Lines 3 and 4: each item goes to its bin with fewer items, itself not counted.
    fn pass(&mut self) {
        for (pair, choice) in self.pairs.iter().zip(&mut self.choices) {
            let here = pair[usize::from(*choice)] as usize;
            let there = pair[usize::from(1 - *choice)] as usize;
            let moves = u8::from(self.loads[there] + 1 < self.loads[here]);
            self.loads[here] -= u32::from(moves);
            self.loads[there] += u32::from(moves);
            *choice ^= moves;
        }
    }

    /// What is in each bin.
    fn table(&self) -> Bins {
        let choice = |item: usize| usize::from(self.choices[item]);
        let bin_of = |item: usize| slice::from_ref(&self.pairs[item][choice(item)]);
        let entry = |item: u32, _| Entry::new(item, choice(item as usize) as u32);
        Bins::of_items(self.loads.len(), self.pairs.len(), bin_of, entry)
    }

    /// Number of items beyond the capacity.
    fn excess(&self, capacity: usize) -> usize {
        self.loads
            .iter()
            .map(|load| (*load as usize).saturating_sub(capacity))
            .sum()
    }

    /// Moves items along shortest chains of bins from those above the capacity to those below it, each of
    /// which takes time linear in the items.
    fn relieve(&mut self, capacity: usize) -> Result<(), EncodingFailed> {
        let capacity = capacity as u32;
        while let Some(start) = self.loads.iter().position(|load| *load > capacity) {
            // The item by which each bin was reached.
            let mut by = vec![None; self.loads.len()];
            let table = self.table();
            let mut reached = vec![start];
            let mut next = 0;
            let end = loop {
                let bin = *reached.get(next).ok_or(EncodingFailed)?;
                next += 1;
                if self.loads[bin] < capacity {
                    break bin;
                }
                for entry in table.bin(bin) {
                    let item = entry.item();
                    let other = self.pairs[item][usize::from(1 - self.choices[item])] as usize;
                    if other != start && by[other].is_none() {
                        by[other] = Some(item);
                        reached.push(other);
                    }
                }
            };
            let mut at = end;
            while let Some(item) = by[at] {
                let choice = &mut self.choices[item];
                at = self.pairs[item][usize::from(*choice)] as usize;
                *choice ^= 1;
            }
            self.loads[start] -= 1;
            self.loads[end] += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
