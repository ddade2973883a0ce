//! Step 1: F of the receiver's queries and of the sender's points.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Traffic};
use zeroize::Zeroizing;

use crate::vole::{Events, Vole};
use crate::{Item, Oprf, Output, Outputs, Params, halves};

/// What a party asks about, or programs, in a bin: 256 bits that look random. Keys of different bins differ.
pub type Key = Item;

/// The receiver's keys, at most one per bin.
#[derive(Clone)]
pub struct Queries {
    bins: usize,
    /// The bin of each key, ascending.
    at: Vec<u32>,
    keys: Vec<Key>,
}

impl Queries {
    /// Queries in `bins` bins: `keys[i]` in bin `at[i]`.
    ///
    /// # Panics
    /// If `at` does not ascend strictly, or names a bin that does not exist, or is not as long as `keys`.
    pub fn new(bins: usize, at: Vec<u32>, keys: Vec<Key>) -> Self {
        assert_eq!(at.len(), keys.len(), "one bin per key");
        assert!(at.is_sorted_by(|a, b| a < b), "one key per bin");
        assert!(at.last().is_none_or(|bin| (*bin as usize) < bins));
        Queries { bins, at, keys }
    }

    /// Number of queries.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no queries.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// The bin of each key.
    pub fn at(&self) -> &[u32] {
        &self.at
    }

    /// The keys, in the order of their bins.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The first halves of the keys, by which they enter a hint.
    pub(super) fn halves(&self) -> Vec<Block> {
        first_halves(&self.keys)
    }
}

/// The sender's keys, any number per bin.
#[derive(Clone)]
pub struct Points {
    /// Bin b's keys are `keys[ends[b - 1]..ends[b]]`.
    ends: Vec<u32>,
    keys: Vec<Key>,
}

impl Points {
    /// Points of which bin b has `keys[ends[b - 1]..ends[b]]`.
    ///
    /// # Panics
    /// If `ends` descends, or does not end with the number of keys, which are fewer than 2^30.
    pub fn new(ends: Vec<u32>, keys: Vec<Key>) -> Self {
        assert!((keys.len() as u64) < super::MAX_POINTS, "too many points");
        assert!(ends.is_sorted());
        assert_eq!(ends.last().map_or(0, |end| *end as usize), keys.len());
        Points { ends, keys }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of bins.
    pub fn bins(&self) -> usize {
        self.ends.len()
    }

    /// The keys, in the order of their bins.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The first halves of the keys, by which they enter a hint.
    pub(super) fn halves(&self) -> Vec<Block> {
        first_halves(&self.keys)
    }

    /// The bins of consecutive points from number `start` on, without an end.
    pub(super) fn bins_from(&self, start: usize) -> impl Iterator<Item = usize> {
        let mut bin = self.bin_of(start);
        (start..).map(move |point| {
            while self.ends.get(bin).is_some_and(|end| *end as usize <= point) {
                bin += 1;
            }
            bin
        })
    }

    /// The bin of a point; for the number of points, that of bins.
    pub fn bin_of(&self, point: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= point)
    }

    /// Where the points of a bin begin; for the number of bins, the number of points.
    pub fn begin(&self, bin: usize) -> usize {
        match bin {
            0 => 0,
            _ => self.ends[bin - 1] as usize,
        }
    }
}

fn first_halves(keys: &[Key]) -> Vec<Block> {
    parallel::map_items(keys, |key| halves(key)[0])
}

/// An OPRF on the keys of bins, of 128 bits.
pub trait BatchOprf: Send + Sync {
    /// Maximum bits of statistical security for these numbers of queries and points.
    fn max_lambda(&self, queries: u64, points: u64) -> u32;

    /// Bytes of the messages whose length depends on λ.
    fn bytes(&self, params: &Params, bins: usize) -> u64;

    /// Adds all that a run sends.
    fn traffic(&self, params: &Params, bins: usize, traffic: &mut Traffic);

    /// Approximate memory use of a run in bytes, on the side that needs more, for these numbers of queries and points,
    /// keys and outputs included.
    fn working_bytes(&self, queries: u64, points: u64) -> u64;

    /// Runs the receiver; returns F of the queries, in their order. `params` has the number of queries as the
    /// receiver's size, and that of points as the sender's.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a sender that fails a check; `Resource` for an event among those of the
    /// OPRF.
    fn receive_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        queries: &Queries,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error>;

    /// Runs the sender; returns F of the points, in their order.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a receiver that fails a check.
    fn send_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        points: &Points,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error>;
}

/// One run on all keys: they name their bins, so a multi-point OPRF serves. No masks are compared, so the event that
/// two of them collide has no share (`Events::of_batch`).
impl BatchOprf for Vole {
    fn max_lambda(&self, queries: u64, points: u64) -> u32 {
        // Where each event of a run of items has a fourth of 2^-λ, two of a batch have an eighth.
        (self.spec().max_lambda)(queries, points)
            .map_or(u32::MAX, |lambda| lambda.saturating_sub(1))
    }

    fn bytes(&self, params: &Params, _: usize) -> u64 {
        Events::of_batch(params).bytes(params)
    }

    fn traffic(&self, params: &Params, _: usize, traffic: &mut Traffic) {
        Events::of_batch(params).traffic(params, traffic);
    }

    fn working_bytes(&self, queries: u64, points: u64) -> u64 {
        (self.spec().working_bytes)(queries, points)
    }

    fn receive_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        queries: &Queries,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        let events = Events::of_batch(params);
        events
            .receive(channel, params, &queries.keys, rng)
            .map(in_order)
    }

    fn send_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        points: &Points,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        let events = Events::of_batch(params);
        events
            .send(channel, params, &points.keys, rng)
            .map(in_order)
    }
}

/// Outputs in the order of the items, one per item.
fn in_order(outputs: Outputs) -> Zeroizing<Vec<Output>> {
    let (values, numbers) = outputs.into_short();
    let values = Zeroizing::new(values);
    let mut in_order = Zeroizing::new(vec![[0; 2]; values.len()]);
    for (value, number) in values.iter().zip(numbers) {
        in_order[number as usize] = *value;
    }
    in_order
}
