//! A batched oblivious pseudorandom function (OPRF) from a pseudorandom code over oblivious-transfer (OT)
//! extension, with one evaluation per bin of a cuckoo table: the baseline that later papers measure against.
//!
//! **Paper.** V. Kolesnikov, R. Kumaresan, M. Rosulek, N. Trieu, *Efficient Batched Oblivious PRF with
//! Applications to Private Set Intersection*, CCS 2016: BaRK-OPRF (figure 2) and the intersection over
//! it (figure 8), without a stash.
//!
//! **Adversary.** Semi-honest. A receiver that deviates can use words that encode no item, and learn bits of
//! the sender's secret from what matches.
//!
//! **What is revealed.** The sizes of both sets, which the contract tells anyway. The numbers of the bin and
//! of the hash function of an output show where the receiver has put an item, which depends on its other
//! items: they stay with the receiver.
//!
//! **The figure.** C is a code of ℓ bits. There are β bins; each item of the receiver's is in one of its
//! three.
//! 1. In ℓ base OTs with reversed roles, the sender obtains secret bits s and one seed of each pair, the
//!    receiver all pairs. The expanded seeds are the columns of matrices of β rows: T and U on the receiver's
//!    side; the sender has column j of T if s_j = 0, of U if s_j = 1.
//! 2. For each bin the receiver sends the row of T ⊕ U, plus C(y) for the bin's item y. With it the sender
//!    makes its matrix Q: q_b = t_b ⊕ (s ∧ C(y)).
//! 3. F(x) in bin b is H(q_b ⊕ (s ∧ C(x)), b, i), for each of the three bins of x, where i is the hash
//!    function. For x = y that is H(t_b, b, i), which the receiver knows.
//!
//! For x ≠ y, the input of H differs from t_b by s ∧ (C(x) ⊕ C(y)). Code words look random, so all of the
//! sender's evaluations meet a distance of 128 or more, except with a small probability, if ℓ is [`width()`]
//! of three times its number of items.
//!
//! **λ.** Four events share 2^-λ ([`EVENTS`]): the receiver's items cannot all be placed in the table; some
//! evaluation meets a distance below 128; masks of different items collide; 128-bit halves of different items
//! are equal.
//!
//! **Deviations.** An item's three bins are distinct, and the number of the hash function is hashed all the
//! same (PRTY19, section 4.3). The table has no stash; see [`cuckoo::Parameters`] for what that costs. Empty
//! bins have the code word 0 instead of a dummy item's: rows on the wire are uniform either way. ℓ is not a
//! constant but the least that the bound allows, in whole bytes.
//!
//! [`receive_batch`] and [`send_batch`] run the same steps on the caller's bins, in which the sender may have any keys.

mod matrix;
mod outputs;

use rand_core::CryptoRng;
use vesica_correlations::base_ot::{self, KeyAgreement};
use vesica_correlations::choices::Choices;
use vesica_encodings::{Bins, Entry, cuckoo, simple};
use vesica_kernels::prefetch;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, End, Error, Frames, Kind, Limit, MAX_FRAME, Traffic, recv_rows};
use zeroize::Zeroizing;

use crate::width::width;
use crate::{
    Item, ItemCost, Oprf, Output, Outputs, Params, PostQuantum, Spec, bytes, halves,
    max_lambda_of_short,
};

use matrix::{Code, Matrix};
use outputs::Inputs;

/// Frames with rows of T ⊕ U ⊕ C.
pub const ROWS: Kind = Kind {
    code: 57,
    name: "code rows",
};

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 4;

/// Number of hash functions, and of outputs per item of the sender.
pub const HASHES: usize = 3;

/// Maximum number of pieces of 128 columns.
const MAX_PIECES: usize = 5;

/// Bins of one frame; a multiple of 128.
const CHUNK: usize = 1 << 13;

/// A chunk's rows, however long, fill no more than a frame.
const _: () = assert!(CHUNK * MAX_PIECES * 16 <= MAX_FRAME);

/// Bins or outputs that one task works on.
const TASK: usize = 1 << 10;

/// Items processed together.
const BATCH: usize = 128;

/// Items whose memory is prefetched.
const AHEAD: usize = 32;

/// One batch of instances: what both parties know of it.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// The statistical security and the session.
    params: &'a Params,
    /// Number of bins.
    bins: usize,
    /// Bytes of a row: ℓ/8.
    row_bytes: usize,
}

impl<'a> Batch<'a> {
    /// A batch of `bins` bins in which the sender evaluates F `evaluations` times.
    pub fn new(params: &'a Params, bins: usize, evaluations: usize) -> Self {
        Batch {
            params,
            bins,
            row_bytes: width(evaluations as u64, params.lambda_each(EVENTS)).div_ceil(8),
        }
    }

    /// The batch of two sets.
    fn of_sets(params: &'a Params) -> Self {
        let bins = functions(params).parameters().bins;
        Batch::new(params, bins, HASHES * params.sender_size)
    }

    /// Bytes of the corrections.
    pub fn bytes(&self) -> u64 {
        self.rows().payload
    }

    fn rows(&self) -> Frames {
        Frames {
            payload: (self.bins * self.row_bytes) as u64,
            count: self.bins.div_ceil(CHUNK) as u64,
        }
    }

    /// Adds what a run sends.
    pub fn traffic(&self, traffic: &mut Traffic) {
        base_ot::traffic(
            traffic,
            End::Receiver,
            KeyAgreement::Classical,
            self.columns(),
        );
        traffic.flow(End::Receiver, self.rows());
    }

    /// ℓ, the number of columns.
    fn columns(&self) -> usize {
        8 * self.row_bytes
    }

    /// Pieces of 128 columns, the last of which may be incomplete.
    fn pieces(&self) -> usize {
        self.columns().div_ceil(128)
    }
}

/// ℓ, the number of columns for two sets.
pub fn columns(params: &Params) -> usize {
    Batch::of_sets(params).columns()
}

/// The hash functions and the number of bins.
pub fn functions(params: &Params) -> cuckoo::Functions {
    let lambda = params.lambda_each(EVENTS);
    let parameters = cuckoo::Parameters::new(params.receiver_size, HASHES, lambda);
    cuckoo::Functions::new(parameters, &params.session)
}

fn output_oracle(params: &Params) -> Oracle {
    Oracle::new("vesica/1 kkrt output", &params.session)
}

/// What the items' bins are computed from.
fn keys(items: &[Item]) -> Vec<Block> {
    parallel::map_items(items, |item| halves(item)[0])
}

/// What the receiver asks for in a bin.
#[derive(Clone, Copy)]
pub struct Query {
    /// What the code word is made of.
    pub value: Block,
    /// The number of the hash function that put it there.
    pub function: usize,
}

vesica_primitives::opaque!(Query);

/// What the sender evaluates F on, those of the first bin first.
pub trait Evaluations: Sync {
    /// Where the evaluations of a bin begin; for the number of bins, their number.
    fn begin(&self, bin: usize) -> usize;

    /// The bin of an evaluation.
    fn bin_of(&self, place: usize) -> usize;

    /// What evaluation number `place` asks for.
    fn query(&self, place: usize) -> Query;

    /// Asks for the memory of an evaluation that comes soon, if there is one.
    fn prefetch(&self, _place: usize) {}
}

/// The items of a set in all their bins.
struct HashedItems<'a> {
    items: &'a [Item],
    table: Bins,
}

impl Evaluations for HashedItems<'_> {
    fn begin(&self, bin: usize) -> usize {
        self.table.begin(bin)
    }

    fn bin_of(&self, place: usize) -> usize {
        self.table.bin_of(place)
    }

    #[inline(always)]
    fn query(&self, place: usize) -> Query {
        query(self.items, self.table.entries()[place])
    }

    #[inline(always)]
    fn prefetch(&self, place: usize) {
        if let Some(later) = self.table.entries().get(place) {
            prefetch(self.items, later.item());
        }
    }
}

/// What an entry of a table of items asks for.
fn query(items: &[Item], entry: Entry) -> Query {
    Query {
        value: halves(&items[entry.item()])[1],
        function: entry.function(),
    }
}

/// The receiver after the base OTs, at one chunk of bins.
struct Receiver<Q> {
    /// What it asks for in each bin.
    queries: Q,
    code: Code,
    oracle: Oracle,
    row_bytes: usize,
    t: Matrix,
    u: Matrix,
    /// The first bin of the chunk.
    first: usize,
    /// The queries of the chunk's bins.
    entries: Vec<Option<Query>>,
}

impl<Q: Fn(usize) -> Option<Query> + Sync> Receiver<Q> {
    /// Step 1: the seeds of T and U.
    fn new(batch: &Batch, queries: Q, pairs: &[[Block; 2]]) -> Self {
        let pieces = batch.pieces();
        Receiver {
            queries,
            code: Code::new(batch),
            oracle: output_oracle(batch.params),
            row_bytes: batch.row_bytes,
            t: Matrix::new(pieces, pairs.iter().map(|pair| pair[0])),
            u: Matrix::new(pieces, pairs.iter().map(|pair| pair[1])),
            first: 0,
            entries: Vec::with_capacity(CHUNK),
        }
    }

    /// Step 1: advances to the next `count` rows of T and U, those of the bins from `first` on.
    fn advance(&mut self, first: usize, count: usize) {
        rayon::join(|| self.t.next(count), || self.u.next(count));
        self.first = first;
        self.entries.resize(count, None);
        parallel::each_item(&mut self.entries, |row, entry| {
            *entry = (self.queries)(first + row);
        });
    }

    /// Step 2: the chunk's rows of T ⊕ U ⊕ C.
    fn rows(&self) -> Vec<u8> {
        let mut rows = vec![0; self.entries.len() * self.row_bytes];
        let tasks = rows
            .chunks_mut(TASK * self.row_bytes)
            .zip(self.entries.chunks(TASK));
        parallel::each(tasks.enumerate(), |(task, (rows, entries))| {
            self.write_rows(task * TASK, entries, rows);
        });
        rows
    }

    /// Step 2 for one task: `entries`, the first of which is number `start` of the chunk.
    fn write_rows(&self, start: usize, entries: &[Option<Query>], rows: &mut [u8]) {
        let mut words = [[0; BATCH]; MAX_PIECES];
        let mut values = [0; BATCH];
        let batches = rows.chunks_mut(BATCH * self.row_bytes);
        for (batch, (rows, entries)) in batches.zip(entries.chunks(BATCH)).enumerate() {
            let start = start + batch * BATCH;
            let values = &mut values[..entries.len()];
            for (value, entry) in values.iter_mut().zip(entries) {
                *value = entry.map_or(0, |query| query.value);
            }
            self.code.words(values, &mut words);
            let rows = rows.chunks_mut(self.row_bytes).zip(entries);
            for (i, (row, entry)) in rows.enumerate() {
                let taken = Block::from(entry.is_some()).wrapping_neg();
                let sums = self.t.row(start + i).zip(self.u.row(start + i)).zip(&words);
                for (to, ((t, u), words)) in row.chunks_mut(16).zip(sums) {
                    let sum = t ^ u ^ (taken & words[i]);
                    to.copy_from_slice(&sum.to_le_bytes()[..to.len()]);
                }
            }
        }
    }

    /// Step 3: appends F of the chunk's queries.
    fn outputs(&self, values: &mut Vec<Output>) {
        let entries = self.entries.iter().enumerate();
        let filled: Vec<(usize, Query)> = entries
            .filter_map(|(row, entry)| entry.map(|query| (row, query)))
            .collect();
        let from = values.len();
        values.resize(from + filled.len(), [0; 2]);
        let tasks = values[from..].chunks_mut(TASK).zip(filled.chunks(TASK));
        parallel::each(tasks, |(values, filled)| {
            let mut inputs = Inputs::new(self.row_bytes);
            for (values, filled) in values.chunks_mut(BATCH).zip(filled.chunks(BATCH)) {
                for (i, (row, query)) in filled.iter().enumerate() {
                    let bin = self.first + row;
                    inputs.set(i, self.t.row(*row), bin, query.function);
                }
                inputs.hash(&self.oracle, values);
            }
        });
    }
}

/// The sender after the base OTs, at one chunk of bins.
struct Sender<'a, E> {
    evaluations: &'a E,
    code: Code,
    oracle: Oracle,
    row_bytes: usize,
    s: &'a [Block],
    q: Matrix,
    /// The first bin of the chunk.
    first: usize,
}

impl<'a, E: Evaluations> Sender<'a, E> {
    /// Step 1: s, and the seeds of its columns of T and U.
    fn new(batch: &Batch, evaluations: &'a E, s: &'a Choices, seeds: &[Block]) -> Self {
        Sender {
            evaluations,
            code: Code::new(batch),
            oracle: output_oracle(batch.params),
            row_bytes: batch.row_bytes,
            s: s.blocks(),
            q: Matrix::new(batch.pieces(), seeds.iter().copied()),
            first: 0,
        }
    }

    /// Step 1: advances to the next `count` rows of those columns, the rows of the bins from `first` on.
    fn advance(&mut self, first: usize, count: usize) {
        self.q.next(count);
        self.first = first;
    }

    /// Step 2: Q of the chunk, with the receiver's rows.
    fn add(&mut self, rows: &[u8]) {
        self.q.add(self.s, rows, self.row_bytes);
    }

    /// Step 3: F for the chunk's evaluations, the first of which is number `begin` of all.
    fn outputs(&self, begin: usize, outputs: &mut [Output]) {
        let tasks = outputs.chunks_mut(TASK).enumerate();
        parallel::each(tasks, |(task, outputs)| {
            self.write_outputs(begin + task * TASK, outputs);
        });
    }

    /// Step 3 for one task: the evaluations from number `start` of all on.
    fn write_outputs(&self, start: usize, outputs: &mut [Output]) {
        let mut words = [[0; BATCH]; MAX_PIECES];
        let mut values = [0; BATCH];
        let mut functions = [0; BATCH];
        let mut inputs = Inputs::new(self.row_bytes);
        let mut bin = self.evaluations.bin_of(start);
        for (batch, outputs) in outputs.chunks_mut(BATCH).enumerate() {
            let start = start + batch * BATCH;
            let values = &mut values[..outputs.len()];
            for (i, value) in values.iter_mut().enumerate() {
                self.evaluations.prefetch(start + i + AHEAD);
                let query = self.evaluations.query(start + i);
                (*value, functions[i]) = (query.value, query.function);
            }
            self.code.words(values, &mut words);
            for (i, function) in functions[..outputs.len()].iter().enumerate() {
                while self.evaluations.begin(bin + 1) <= start + i {
                    bin += 1;
                }
                let pieces = self.q.row(bin - self.first).zip(self.s).zip(&words);
                let row = pieces.map(|((q, s), words)| q ^ (s & words[i]));
                inputs.set(i, row, bin, *function);
            }
            inputs.hash(&self.oracle, outputs);
        }
    }
}

static SPEC: Spec = Spec {
    name: "kkrt",
    source: "Kolesnikov, Kumaresan, Rosulek and Trieu 2016",
    security: Security::SemiHonest,
    exact: None,
    cheaper: None,
    // Some 200 bytes per item of the sender, which has three outputs for each.
    post_quantum: PostQuantum::Never,
    max_items: 1 << 26,
    max_lambda: |receiver_size, sender_size| {
        Some(max_lambda_of_short::<Kkrt>(receiver_size, sender_size))
    },
    item_cost: ItemCost {
        bytes: 256,
        aes_blocks: 10_000,
    },
    working_bytes: |receiver_size, sender_size| {
        let both = bytes(receiver_size.saturating_add(sender_size), 150);
        both.saturating_add(bytes(sender_size, 82))
    },
};

/// The protocol. The receiver has F of each item for the one bin where it is, the sender for all its bins,
/// those of the first bin first, in the order of [`simple::table`].
///
/// `Resource` if the items cannot all be placed in the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kkrt;

impl Oprf for Kkrt {
    const OUTPUTS_PER_ITEM: usize = HASHES;

    const OUTPUT_BITS: usize = 128;

    const EVENTS: u32 = EVENTS;

    type Prepared = ();

    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) {}

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        Batch::of_sets(params).traffic(traffic);
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let pairs = base_transfers(channel, &Batch::of_sets(params), rng)?;
        receive_with(channel, params, items, &pairs)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let (s, seeds) = base_choices(channel, &Batch::of_sets(params), rng)?;
        send_with(channel, params, items, &s, &seeds)
    }
}

/// Step 1, the receiver: the base OTs.
fn base_transfers(
    channel: &mut dyn Channel,
    batch: &Batch,
    rng: &mut dyn CryptoRng,
) -> Result<Zeroizing<Vec<[Block; 2]>>, Error> {
    channel.begin_phase("correlations");
    base_ot::send(channel, &batch.params.session, batch.columns(), rng)
}

/// Step 1, the sender: s, and one seed of each pair.
fn base_choices(
    channel: &mut dyn Channel,
    batch: &Batch,
    rng: &mut dyn CryptoRng,
) -> Result<(Choices, Zeroizing<Vec<Block>>), Error> {
    channel.begin_phase("correlations");
    let s = Choices::random(batch.columns(), rng);
    let seeds = base_ot::receive(channel, &batch.params.session, s.clone(), rng)?;
    Ok((s, seeds))
}

/// The receiver, from the seeds of base OTs.
fn receive_with(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    pairs: &[[Block; 2]],
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.receiver_size);
    channel.begin_phase("hashing");
    let table = cuckoo::Table::new(&functions(params), &keys(items))
        .map_err(|e| Error::limit(Limit::Encoding, e))?;
    let queries = |bin| Some(query(items, table.bin(bin)?));
    let values = receive_queries(channel, &Batch::of_sets(params), queries, pairs)?;
    let numbers = table.bins().flatten().map(|entry| entry.item() as u32);
    Ok(Outputs::Short {
        values,
        numbers: numbers.collect(),
    })
}

/// The sender, from the secret bits and the seeds of base OTs.
fn send_with(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    s: &Choices,
    seeds: &[Block],
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.sender_size);
    channel.begin_phase("hashing");
    let table = simple::table(&functions(params), &keys(items));
    let hashed = HashedItems { items, table };
    let values = send_evaluations(channel, &Batch::of_sets(params), &hashed, s, seeds)?;
    let numbers = hashed.table.entries().iter();
    Ok(Outputs::Short {
        values,
        numbers: numbers.map(|entry| entry.item() as u32).collect(),
    })
}

/// Runs the receiver of a batch, on what it asks for in each bin; returns F of the queries, those of the first bin first.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for a sender whose base OTs fail a check.
pub fn receive_batch(
    channel: &mut dyn Channel,
    batch: &Batch,
    queries: impl Fn(usize) -> Option<Query> + Sync,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<Output>, Error> {
    let pairs = base_transfers(channel, batch, rng)?;
    receive_queries(channel, batch, queries, &pairs)
}

/// Runs the sender of a batch; returns F of its evaluations.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for a receiver whose base OTs fail a check, or with rows of a wrong length.
pub fn send_batch(
    channel: &mut dyn Channel,
    batch: &Batch,
    evaluations: &impl Evaluations,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<Output>, Error> {
    let (s, seeds) = base_choices(channel, batch, rng)?;
    send_evaluations(channel, batch, evaluations, &s, &seeds)
}

/// Steps 2 and 3, the receiver, on what it asks for in each bin.
fn receive_queries(
    channel: &mut dyn Channel,
    batch: &Batch,
    queries: impl Fn(usize) -> Option<Query> + Sync,
    pairs: &[[Block; 2]],
) -> Result<Vec<Output>, Error> {
    channel.begin_phase("oprf");
    let bins = batch.bins;
    let mut receiver = Receiver::new(batch, queries, pairs);
    let mut values = Vec::with_capacity(batch.params.receiver_size);
    for first in (0..bins).step_by(CHUNK) {
        let count = CHUNK.min(bins - first);
        receiver.advance(first, count);
        channel.send(ROWS, receiver.rows())?;
        receiver.outputs(&mut values);
        channel.progress((first + count) as u64, bins as u64);
    }
    Ok(values)
}

/// Steps 2 and 3, the sender.
fn send_evaluations(
    channel: &mut dyn Channel,
    batch: &Batch,
    evaluations: &impl Evaluations,
    s: &Choices,
    seeds: &[Block],
) -> Result<Vec<Output>, Error> {
    channel.begin_phase("oprf");
    let bins = batch.bins;
    let mut values = vec![[0; 2]; evaluations.begin(bins)];
    let mut sender = Sender::new(batch, evaluations, s, seeds);
    for first in (0..bins).step_by(CHUNK) {
        let count = CHUNK.min(bins - first);
        sender.advance(first, count);
        recv_rows(channel, ROWS, batch.row_bytes, count, |rows| {
            sender.add(rows);
            Ok(())
        })?;
        let (begin, end) = (evaluations.begin(first), evaluations.begin(first + count));
        sender.outputs(begin, &mut values[begin..end]);
        channel.progress((first + count) as u64, bins as u64);
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
