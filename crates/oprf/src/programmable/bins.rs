//! The first stage of circuit PSI: queries and points from two sets of items.
//!
//! The receiver puts its items into a cuckoo table with three hash functions, each into one of its three bins (CGS22,
//! figure 8, step 1; LTSXQ26, figure 16, step 2). The sender puts each of its items into all three (steps 2 and 3). An
//! item that both have is in the receiver's bin for one function, and among the sender's entries of that bin for the
//! same function.
//!
//! The key of an item for a function is a hash of both, as in LTSXQ26's figure 16: 256 bits that look random, as those
//! of items do. An item's three bins are distinct, so that a key belongs to one bin, and no item is twice in a bin.
//!
//! The number of bins is that of [`cuckoo::Parameters`] for this event's share of 2^-λ: 1.27 per item of the receiver
//! for large sets, more for small ones. The papers have 1.27 for all.
//!
//! A table may have a stash. As many empty bins as it has items then get the key of such an item for one more
//! function, which no point has: the number of queries does not tell how full the stash is.

use vesica_encodings::{Bins, Entry, cuckoo, simple};
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_primitives::security::Security;
use vesica_wire::{Error, Limit};

use super::{
    BatchOprf, Hint, Key, MAX_POINTS, Opprf, Points, Queries, SHARES, Shape, WHOLE, derived,
};
use crate::{Item, Params, halves};

/// Number of hash functions.
pub const HASHES: usize = 3;

/// The function of a key that no point has.
const NO_FUNCTION: u32 = HASHES as u32;

/// Keys hashed together.
const BATCH: usize = 256;

/// The number of bins for a number of items and λ.
pub type Sizing = fn(items: usize, lambda: u32) -> cuckoo::Parameters;

/// The table without a stash.
pub fn table(items: usize, lambda: u32) -> cuckoo::Parameters {
    cuckoo::Parameters::new(items, HASHES, lambda)
}

impl<O: BatchOprf, H: Hint> Opprf<O, H> {
    /// The table of the receiver's items and the shape of the OPPRF on the bins of two sets, or nothing if it cannot
    /// reach λ.
    ///
    /// # Panics
    /// If a set has 2^30 items or more, or the sender's three entries per item are as many.
    pub fn plan(
        &self,
        params: &Params,
        payload_bits: u32,
        table: Sizing,
    ) -> Option<(cuckoo::Parameters, Shape)> {
        let points = HASHES * params.sender_size;
        assert!((points as u64) < MAX_POINTS, "too many items");
        let of = Params {
            security: Security::SemiHonest,
            sender_size: points,
            ..params.clone()
        };
        let tables =
            SHARES.map(|share| (share, table(params.receiver_size, params.lambda + share)));
        let tables: Vec<_> = tables.collect();
        let bins: Vec<_> = tables
            .iter()
            .map(|(share, table)| (WHOLE >> share, table.bins))
            .collect();
        let shape = self.shape_of(&of, payload_bits, &bins)?;
        // Tables of equal size are equal: the safest of them has been chosen.
        let (_, table) = tables
            .into_iter()
            .rfind(|(_, table)| table.bins == shape.bins)?;
        Some((table, shape))
    }
}

fn functions(params: &Params, table: cuckoo::Parameters) -> cuckoo::Functions {
    let session = derived("vesica/1 opprf bins", &params.session);
    cuckoo::Functions::new(table, &session)
}

/// What the items' bins are computed from.
fn keys(items: &[Item]) -> Vec<Block> {
    parallel::map_items(items, |item| halves(item)[0])
}

/// The keys of entries of a table of items.
fn keys_of(params: &Params, items: &[Item], entries: &[Entry]) -> Vec<Key> {
    let oracle = Oracle::new("vesica/1 opprf key", &params.session);
    let mut keys = vec![[0; 32]; entries.len()];
    let batches = keys.chunks_mut(BATCH).zip(entries.chunks(BATCH));
    parallel::each(batches, |(keys, entries)| {
        let mut inputs = [[0; 40]; BATCH];
        for (input, entry) in inputs.iter_mut().zip(entries) {
            input[..32].copy_from_slice(&items[entry.item()]);
            input[32..].copy_from_slice(&(entry.function() as u64).to_le_bytes());
        }
        oracle.hash_many(&inputs[..keys.len()], keys);
    });
    keys
}

/// The receiver's items in their bins.
pub struct ReceiverBins {
    /// Which item is in each bin, and which are in no bin.
    pub table: cuckoo::Table,
    /// A query for each item. For one in no bin, it is about nothing.
    pub queries: Queries,
}

impl ReceiverBins {
    /// Puts each item into one of its bins in a table of [`Opprf::plan`]. Items for which it has no bin are in its
    /// stash.
    ///
    /// # Errors
    /// `Resource` if the stash is too small, with probability at most the share of this event for distinct items.
    ///
    /// # Panics
    /// If `items` does not fit `params`, or the table has fewer bins than there are items.
    pub fn new(params: &Params, table: cuckoo::Parameters, items: &[Item]) -> Result<Self, Error> {
        assert_eq!(items.len(), params.receiver_size);
        assert!(items.len() <= table.bins, "a bin for each query");
        let table = cuckoo::Table::new(&functions(params, table), &keys(items))
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        let mut unasked = table
            .stash()
            .iter()
            .map(|item| Entry::new(*item, NO_FUNCTION));
        let asked =
            |(bin, entry): (u32, Option<Entry>)| Some((bin, entry.or_else(|| unasked.next())?));
        let (at, entries): (Vec<u32>, Vec<Entry>) =
            (0..).zip(table.bins()).filter_map(asked).unzip();
        let queries = Queries::new(table.len(), at, keys_of(params, items, &entries));
        Ok(ReceiverBins { table, queries })
    }
}

/// The sender's items in their bins.
pub struct SenderBins {
    /// Which items are in each bin: entry i is point i.
    pub table: Bins,
    /// A point for each item and function.
    pub points: Points,
}

impl SenderBins {
    /// Puts each item into its three bins of a table of [`Opprf::plan`].
    ///
    /// # Panics
    /// If `items` does not fit `params`.
    pub fn new(params: &Params, table: cuckoo::Parameters, items: &[Item]) -> Self {
        assert_eq!(items.len(), params.sender_size);
        let table = simple::table(&functions(params, table), &keys(items));
        let ends = (0..table.len()).map(|bin| table.begin(bin + 1) as u32);
        let points = Points::new(ends.collect(), keys_of(params, items, table.entries()));
        SenderBins { table, points }
    }
}
