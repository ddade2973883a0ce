//! Cuckoo hashing: every item in one of k bins, at most one item per bin (R. Pagh, F. F. Rodler, *Cuckoo
//! Hashing*, ESA 2001; with more than two functions D. Fotakis and others, STACS 2003). A stash, if there is one,
//! takes a few items without a bin (A. Kirsch, M. Mitzenmacher, U. Wieder, SIAM J. Comput. 39(4), 2009).
//!
//! Places are found by local search (M. Khosla, *Balls into Bins Made Faster*, ESA 2013): a bin has a label,
//! a lower bound on the number of moves that would free it; an item takes the bin with the least label, and
//! the item that was there looks for another. The search takes linear time if the table has room, needs no
//! randomness, and leaves as few items without a bin as any placement: how many these are depends on the set of
//! items and on the functions, not on order or luck. See [`Parameters`] for how likely it is that there are too many.
//!
//! An item's bins are distinct. So no item can have the same value twice in a bin, however a protocol uses
//! the function numbers in an [`Entry`].
//!
//! The order of work, and so time and memory accesses, depend on the keys.

mod parameters;

pub use parameters::Parameters;

use std::collections::HashSet;

use vesica_kernels::prefetch;
use vesica_primitives::block::{Block, Cipher};
use vesica_primitives::parallel;

use crate::EncodingFailed;
use crate::bins::Entry;

/// Maximum number of hash functions of a table.
pub const MAX_HASHES: usize = 4;

/// Keys hashed together.
const HASHED: usize = 128;

/// Keys hashed by one job.
const JOB: usize = 1 << 12;

/// Items whose memory is prefetched.
const AHEAD: usize = 24;

/// The value for no entry.
const EMPTY: u32 = u32::MAX;

/// The hash functions of a table: what both sides of a protocol share.
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
            cipher: Cipher::public("vesica/1 cuckoo bins", session),
        }
    }

    /// Their parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The bins of each key in the order of the functions: distinct bins in the first `hashes` entries of the array. The
    /// rest is 0.
    pub fn bins(&self, keys: &[Block]) -> Vec<[u32; MAX_HASHES]> {
        let mut bins = vec![[0; MAX_HASHES]; keys.len()];
        let jobs = bins.chunks_mut(JOB).zip(keys.chunks(JOB));
        parallel::each(jobs, |(bins, keys)| match self.parameters.hashes {
            2 => self.bins_of::<2>(keys, bins),
            3 => self.bins_of::<3>(keys, bins),
            _ => self.bins_of::<4>(keys, bins),
        });
        bins
    }

    fn bins_of<const K: usize>(&self, keys: &[Block], out: &mut [[u32; MAX_HASHES]]) {
        let bins = self.parameters.bins as u64;
        let mut blocks = [0; 2 * HASHED];
        for (keys, out) in keys.chunks(HASHED).zip(out.chunks_mut(HASHED)) {
            let blocks = &mut blocks[..2 * keys.len()];
            for (pair, key) in blocks.as_chunks_mut::<2>().0.iter_mut().zip(keys) {
                *pair = [*key, *key ^ 1];
            }
            self.cipher.feed_forward(blocks);
            for (out, pair) in out.iter_mut().zip(blocks.as_chunks::<2>().0) {
                let numbers = [
                    pair[0] as u64,
                    (pair[0] >> 64) as u64,
                    pair[1] as u64,
                    (pair[1] >> 64) as u64,
                ];
                *out = distinct::<K>(bins, &numbers);
            }
        }
    }
}

/// `K` distinct numbers below `bins`, from uniform 64-bit numbers: the j-th selects among the remaining bins.
#[inline(always)]
fn distinct<const K: usize>(bins: u64, numbers: &[u64; 4]) -> [u32; MAX_HASHES] {
    let mut chosen = [0u32; MAX_HASHES];
    // The previous ones, ascending.
    let mut taken = [u32::MAX; K];
    for j in 0..K {
        let left = bins - j as u64;
        let mut bin = ((u128::from(numbers[j]) * u128::from(left)) >> 64) as u32;
        for taken in &taken[..j] {
            bin += u32::from(bin >= *taken);
        }
        chosen[j] = bin;
        let mut moving = bin;
        for taken in &mut taken[..=j] {
            (*taken, moving) = (moving.min(*taken), moving.max(*taken));
        }
    }
    chosen
}

/// A cuckoo table: what is in each bin.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    /// Entry of each bin, or [`EMPTY`].
    slots: Vec<u32>,
    /// Items without a bin.
    stash: Vec<u32>,
}

vesica_primitives::opaque!(Table);

impl Table {
    /// Finds a place for every key, in a bin if possible and otherwise in the stash.
    ///
    /// # Errors
    /// [`EncodingFailed`] if there is no placement, because some items have too few bins among them, such as
    /// more than k equal keys, and the stash is too small for the others.
    ///
    /// # Panics
    /// If there are more keys than the functions' parameters allow, or than 2^30.
    pub fn new(functions: &Functions, keys: &[Block]) -> Result<Self, EncodingFailed> {
        assert!(keys.len() <= functions.parameters.items, "too many keys");
        Self::place(functions.parameters, &functions.bins(keys))
    }

    /// Finds a place for every item, given the bins of each in the order of its functions; an item's bins may be equal.
    /// For functions other than [`Functions`].
    ///
    /// # Errors
    /// As [`Table::new`].
    ///
    /// # Panics
    /// If there are more than 2^30 items, or a bin is not one of the parameters'.
    pub fn place(
        parameters: Parameters,
        bins: &[[u32; MAX_HASHES]],
    ) -> Result<Self, EncodingFailed> {
        assert!(bins.len() < crate::bins::MAX_ITEMS);
        match parameters.hashes {
            2 => Search::<2>::run(parameters, bins),
            3 => Search::<3>::run(parameters, bins),
            _ => Search::<4>::run(parameters, bins),
        }
    }

    /// Number of bins.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no bins.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What is in a bin.
    ///
    /// # Panics
    /// If there is no such bin.
    pub fn bin(&self, bin: usize) -> Option<Entry> {
        let slot = self.slots[bin];
        (slot != EMPTY).then(|| Entry::from_code(slot))
    }

    /// The items without a bin: no more than the stash has places for.
    pub fn stash(&self) -> &[u32] {
        &self.stash
    }

    /// What is in each bin, in their order.
    pub fn bins(&self) -> impl ExactSizeIterator<Item = Option<Entry>> + '_ {
        (0..self.slots.len()).map(|bin| self.bin(bin))
    }
}

/// A bin during the search: its entry, and its label.
type State = [u32; 2];

struct Search<'a, const K: usize> {
    bins: &'a [[u32; MAX_HASHES]],
    states: Vec<State>,
    /// Items that lost their places, or have none yet.
    waiting: Vec<u32>,
    /// Items that no bin can be made free for.
    stash: Vec<u32>,
    /// Places of the stash.
    places: usize,
}

/// From this label on it is checked that there is a way to an empty bin. Hardly any label of a table with room gets as
/// far, so the checks take no time, and neither do items for which there is no way.
const UNUSUAL: u32 = 64;

impl<const K: usize> Search<'_, K> {
    fn run(parameters: Parameters, bins: &[[u32; MAX_HASHES]]) -> Result<Table, EncodingFailed> {
        let mut search = Search::<K> {
            bins,
            states: vec![[EMPTY, 0]; parameters.bins],
            waiting: Vec::new(),
            stash: Vec::new(),
            places: parameters.stash,
        };
        for item in 0..bins.len() {
            if let Some(later) = bins.get(item + AHEAD) {
                search.ask(later);
            }
            search.step(item as u32)?;
        }
        while !search.waiting.is_empty() {
            let waiting = std::mem::take(&mut search.waiting);
            for (i, item) in waiting.iter().enumerate() {
                if let Some(later) = waiting.get(i + 2 * AHEAD) {
                    prefetch(bins, *later as usize);
                }
                if let Some(later) = waiting.get(i + AHEAD) {
                    search.ask(&bins[*later as usize]);
                }
                search.step(*item)?;
            }
        }
        let slots = search.states.iter().map(|state| state[0]).collect();
        let stash = search.stash;
        Ok(Table { slots, stash })
    }

    /// Prefetches an item's bins.
    #[inline(always)]
    fn ask(&self, bins: &[u32; MAX_HASHES]) {
        for bin in &bins[..K] {
            prefetch(&self.states, *bin as usize);
        }
    }

    /// Puts an item into its bin with the least label; the item that was there waits.
    ///
    /// The label of a bin whose item needs at least m moves to go elsewhere is at most m + 1: empty bins have
    /// 0, an arriving item sets its bin's label to one more than the least label of its other bins, and
    /// labels only grow.
    #[inline(always)]
    fn step(&mut self, item: u32) -> Result<(), EncodingFailed> {
        let bins = &self.bins[item as usize];
        let (mut least, mut function, mut other) = (u32::MAX, 0, u32::MAX);
        for (j, bin) in bins[..K].iter().enumerate() {
            let label = self.states[*bin as usize][1];
            if label < least {
                (other, least, function) = (least, label, j);
            } else {
                other = other.min(label);
            }
        }
        if least >= UNUSUAL && self.is_stuck(item) {
            if self.stash.len() == self.places {
                return Err(EncodingFailed);
            }
            self.stash.push(item);
            return Ok(());
        }
        let state = &mut self.states[bins[function] as usize];
        let code = Entry::new(item, function as u32).code();
        let [before, _] = std::mem::replace(state, [code, other.saturating_add(1)]);
        if before != EMPTY {
            self.waiting.push(Entry::from_code(before).item() as u32);
        }
        Ok(())
    }

    /// Whether no moves free a bin for an item: all bins that it and the items in its way could be in are taken by
    /// these items. Then the items of the table span it in the transversal matroid of items and bins, and together
    /// with those that wait they go on to: no placement puts aside fewer items than the search does.
    #[cold]
    fn is_stuck(&self, item: u32) -> bool {
        let (mut seen, mut ahead) = (HashSet::new(), vec![item]);
        while let Some(item) = ahead.pop() {
            for bin in &self.bins[item as usize][..K] {
                let [code, _] = self.states[*bin as usize];
                if code == EMPTY {
                    return false;
                }
                if seen.insert(code) {
                    ahead.push(Entry::from_code(code).item() as u32);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
