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

use rand_core::CryptoRng;
use rayon::prelude::*;
use vesica_correlations::base_ot;
use vesica_correlations::choices::Choices;
use vesica_encodings::{Bins, Entry, cuckoo, simple};
use vesica_kernels::transpose::transpose128;
use vesica_kernels::{Backend, prefetch};
use vesica_primitives::block::{Block, Cipher, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, Kind, Limit, MAX_FRAME, recv_rows};
use zeroize::Zeroizing;

use crate::width::width;
use crate::{Item, Oprf, Outputs, Params, Spec, bytes, halves, max_lambda_of_short, output};

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

/// Columns that one task expands.
const TASK_COLUMNS: usize = 64;

/// Bins or outputs that one task works on.
const TASK: usize = 1 << 10;

/// Items processed together.
const BATCH: usize = 128;

/// Items whose memory is prefetched.
const AHEAD: usize = 32;

/// Bytes of a row: ℓ/8.
fn row_bytes(params: &Params) -> usize {
    let evaluations = (HASHES * params.sender_size) as u64;
    width(evaluations, params.lambda_each(EVENTS)).div_ceil(8)
}

/// ℓ, the number of columns.
pub fn columns(params: &Params) -> usize {
    8 * row_bytes(params)
}

/// Pieces of 128 columns, the last of which may be incomplete.
fn pieces(params: &Params) -> usize {
    columns(params).div_ceil(128)
}

/// The hash functions and the number of bins.
pub fn functions(params: &Params) -> cuckoo::Functions {
    let lambda = params.lambda_each(EVENTS);
    let parameters = cuckoo::Parameters::new(params.receiver_size, HASHES, lambda);
    cuckoo::Functions::new(parameters, &params.session)
}

static SPEC: Spec = Spec {
    name: "kkrt",
    source: "Kolesnikov, Kumaresan, Rosulek and Trieu 2016",
    security: Security::SemiHonest,
    has_semi_honest_form: false,
    // Some 200 bytes per item of the sender, which has three outputs for each.
    max_items: 1 << 26,
    max_lambda: |receiver_size, sender_size| {
        Some(max_lambda_of_short::<Kkrt>(receiver_size, sender_size))
    },
    working_bytes: |receiver_size, sender_size| {
        let both = bytes(receiver_size.saturating_add(sender_size), 150);
        both.saturating_add(bytes(sender_size, 82))
    },
};

fn output_oracle(params: &Params) -> Oracle {
    Oracle::new("vesica/1 kkrt output", &params.session)
}

/// C: AES of the item's second half under as many public keys of the run as there are pieces.
///
/// The paper's code word is a pseudorandom function of the item; both sides know the key, which is drawn
/// after the items. The items here are hashed with a salt from both parties, drawn together with the key.
struct Code(Vec<Cipher>);

impl Code {
    fn new(params: &Params) -> Self {
        let labels = [
            "vesica/1 kkrt code 0",
            "vesica/1 kkrt code 1",
            "vesica/1 kkrt code 2",
            "vesica/1 kkrt code 3",
            "vesica/1 kkrt code 4",
        ];
        let ciphers = labels[..pieces(params)]
            .iter()
            .map(|label| Cipher::public(label, &params.session));
        Code(ciphers.collect())
    }

    /// Each piece of the words of at most [`BATCH`] items: `words[piece][i]`.
    fn words(&self, values: &[Block], words: &mut [[Block; BATCH]; MAX_PIECES]) {
        for (cipher, words) in self.0.iter().zip(words) {
            let words = &mut words[..values.len()];
            words.copy_from_slice(values);
            cipher.encrypt(words);
        }
    }
}

/// Expands seeds into rows, a chunk of bins at a time.
struct Matrix {
    generators: Vec<Prg>,
    columns: Zeroizing<Vec<Block>>,
    /// The rows of the chunk: those of piece p begin at p times [`CHUNK`].
    rows: Zeroizing<Vec<Block>>,
}

impl Matrix {
    fn new(pieces: usize, seeds: impl ExactSizeIterator<Item = Block>) -> Self {
        Matrix {
            generators: seeds.map(Prg::new).collect(),
            columns: Zeroizing::new(vec![0; pieces * CHUNK]),
            rows: Zeroizing::new(vec![0; pieces * CHUNK]),
        }
    }

    /// Advances to the next `count` rows, at most [`CHUNK`]; bits beyond the last column are 0.
    fn next(&mut self, count: usize) {
        let blocks = count.div_ceil(128);
        self.columns
            .par_chunks_mut(CHUNK)
            .zip(self.rows.par_chunks_mut(CHUNK))
            .zip(self.generators.par_chunks_mut(128))
            .for_each(|((columns, rows), generators)| {
                let columns = &mut columns[..128 * blocks];
                // Clears leftovers of the previous chunk, if it was longer.
                columns[generators.len() * blocks..].fill(0);
                (&mut *generators, columns.par_chunks_mut(blocks))
                    .into_par_iter()
                    .with_min_len(TASK_COLUMNS)
                    .for_each(|(generator, column)| generator.fill(column));
                let columns = bytemuck::must_cast_slice(columns);
                transpose128(Backend::Best, columns, &mut rows[..128 * blocks]);
            });
    }

    /// Piece `piece` of row `row` of the chunk.
    #[inline(always)]
    fn get(&self, row: usize, piece: usize) -> Block {
        self.rows[piece * CHUNK + row]
    }
}

/// The input of H: a row, then the numbers of bin and function. With a row of up to 448 bits it fits into 64
/// bytes, one block of the hash.
#[inline(always)]
fn input<const N: usize>(pieces: &[Block], bin: usize, function: usize) -> [u8; N] {
    let mut input = [0; N];
    for (to, piece) in input.chunks_exact_mut(16).zip(pieces) {
        to.copy_from_slice(&piece.to_le_bytes());
    }
    // The last piece of a row that just fits has 64 bits.
    let tag = (bin as u64) << 2 | function as u64;
    input[N - 8..].copy_from_slice(&tag.to_le_bytes());
    input
}

/// Whether rows and tags fit into one block of the hash.
fn short(params: &Params) -> bool {
    row_bytes(params) <= 56
}

/// The protocol. The receiver has F of each item for the one bin where it is, the sender for all its bins,
/// those of the first bin first, in the order of [`simple::table`].
///
/// `Resource` if the items cannot all be placed in the table.
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

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("correlations");
        let pairs = base_ot::send(channel, &params.session, columns(params), rng)?;
        receive_with(channel, params, items, &pairs)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("correlations");
        let s = Choices::random(columns(params), rng);
        let seeds = base_ot::receive(channel, &params.session, s.clone(), rng)?;
        send_with(channel, params, items, &s, &seeds)
    }
}

/// The receiver, from the seeds of base OTs.
fn receive_with(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    pairs: &[[Block; 2]],
) -> Result<Outputs, Error> {
    if short(params) {
        receive_over::<64>(channel, params, items, pairs)
    } else {
        receive_over::<96>(channel, params, items, pairs)
    }
}

fn receive_over<const N: usize>(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    pairs: &[[Block; 2]],
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.receiver_size);
    channel.begin_phase("hashing");
    let table = {
        let keys: Vec<Block> = items.par_iter().map(|item| halves(item)[0]).collect();
        cuckoo::Table::new(&functions(params), &keys)
            .map_err(|e| Error::limit(Limit::Encoding, e))?
    };
    channel.begin_phase("oprf");
    let (code, oracle) = (Code::new(params), output_oracle(params));
    let (pieces, row_bytes) = (pieces(params), row_bytes(params));
    // Step 1.
    let mut t = Matrix::new(pieces, pairs.iter().map(|pair| pair[0]));
    let mut u = Matrix::new(pieces, pairs.iter().map(|pair| pair[1]));
    let mut masks = Vec::with_capacity(items.len());
    let mut numbers = Vec::with_capacity(items.len());
    let mut here = vec![None; CHUNK];
    for first in (0..table.len()).step_by(CHUNK) {
        let count = CHUNK.min(table.len() - first);
        rayon::join(|| t.next(count), || u.next(count));
        let here = &mut here[..count];
        for (i, entry) in here.iter_mut().enumerate() {
            *entry = table.bin(first + i);
        }
        // Step 2.
        let mut rows = vec![0; count * row_bytes];
        rows.par_chunks_mut(TASK * row_bytes)
            .zip(here.par_chunks(TASK))
            .enumerate()
            .for_each(|(task, (rows, here))| {
                let mut words = [[0; BATCH]; MAX_PIECES];
                let mut values = [0; BATCH];
                let batches = rows.chunks_mut(BATCH * row_bytes).zip(here.chunks(BATCH));
                for (batch, (rows, here)) in batches.enumerate() {
                    let start = task * TASK + batch * BATCH;
                    let values = &mut values[..here.len()];
                    for (value, entry) in values.iter_mut().zip(here) {
                        *value = entry.map_or(0, |entry| halves(&items[entry.item()])[1]);
                    }
                    code.words(values, &mut words);
                    for (i, (row, entry)) in rows.chunks_mut(row_bytes).zip(here).enumerate() {
                        let taken = Block::from(entry.is_some()).wrapping_neg();
                        for (piece, to) in row.chunks_mut(16).enumerate() {
                            let row = t.get(start + i, piece) ^ u.get(start + i, piece);
                            let sum = row ^ (taken & words[piece][i]);
                            to.copy_from_slice(&sum.to_le_bytes()[..to.len()]);
                        }
                    }
                }
            });
        channel.send(ROWS, rows)?;
        // Step 3.
        let hashed: Vec<(usize, Entry)> = here
            .iter()
            .enumerate()
            .filter_map(|(i, entry)| entry.map(|entry| (i, entry)))
            .collect();
        let from = masks.len();
        masks.resize(from + hashed.len(), [0; 2]);
        masks[from..]
            .par_chunks_mut(TASK)
            .zip(hashed.par_chunks(TASK))
            .for_each(|(masks, hashed)| {
                let mut inputs = Zeroizing::new([[0; N]; BATCH]);
                let mut hashes = [[0; 32]; BATCH];
                let mut row = Zeroizing::new([0; MAX_PIECES]);
                for (masks, hashed) in masks.chunks_mut(BATCH).zip(hashed.chunks(BATCH)) {
                    for (to, (i, entry)) in inputs.iter_mut().zip(hashed) {
                        for (piece, to) in row[..pieces].iter_mut().enumerate() {
                            *to = t.get(*i, piece);
                        }
                        *to = input(&row[..pieces], first + i, entry.function());
                    }
                    let count = hashed.len();
                    oracle.hash_many(&inputs[..count], &mut hashes[..count]);
                    for (mask, hash) in masks.iter_mut().zip(&hashes) {
                        *mask = output(hash);
                    }
                }
            });
        numbers.extend(hashed.iter().map(|(_, entry)| entry.item() as u32));
        channel.progress((first + count) as u64, table.len() as u64);
    }
    Ok(Outputs::Short {
        values: masks,
        numbers,
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
    if short(params) {
        send_over::<64>(channel, params, items, s, seeds)
    } else {
        send_over::<96>(channel, params, items, s, seeds)
    }
}

fn send_over<const N: usize>(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    s: &Choices,
    seeds: &[Block],
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.sender_size);
    channel.begin_phase("hashing");
    let table: Bins = {
        let keys: Vec<Block> = items.par_iter().map(|item| halves(item)[0]).collect();
        simple::table(&functions(params), &keys)
    };
    channel.begin_phase("oprf");
    let (code, oracle) = (Code::new(params), output_oracle(params));
    let (pieces, row_bytes) = (pieces(params), row_bytes(params));
    let s = s.blocks();
    // Step 1.
    let mut q = Matrix::new(pieces, seeds.iter().copied());
    let mut masks = vec![[0; 2]; table.entries().len()];
    for first in (0..table.len()).step_by(CHUNK) {
        let count = CHUNK.min(table.len() - first);
        q.next(count);
        // Step 2.
        recv_rows(channel, ROWS, row_bytes, count, |rows| {
            for (piece, (q, s)) in q.rows.chunks_mut(CHUNK).zip(s).enumerate() {
                let bytes = 16.min(row_bytes - 16 * piece);
                for (q, row) in q.iter_mut().zip(rows.chunks_exact(row_bytes)) {
                    let mut word = [0; 16];
                    word[..bytes].copy_from_slice(&row[16 * piece..][..bytes]);
                    *q ^= s & Block::from_le_bytes(word);
                }
            }
            Ok(())
        })?;
        // Step 3.
        let (begin, end) = (table.begin(first), table.begin(first + count));
        let entries = &table.entries()[begin..end];
        masks[begin..end]
            .par_chunks_mut(TASK)
            .zip(entries.par_chunks(TASK))
            .enumerate()
            .for_each(|(task, (masks, entries))| {
                let mut words = [[0; BATCH]; MAX_PIECES];
                let mut values = [0; BATCH];
                let mut inputs = Zeroizing::new([[0; N]; BATCH]);
                let mut hashes = [[0; 32]; BATCH];
                let mut row = Zeroizing::new([0; MAX_PIECES]);
                let mut bin = table.bin_of(begin + task * TASK);
                let batches = masks.chunks_mut(BATCH).zip(entries.chunks(BATCH));
                for (batch, (masks, entries)) in batches.enumerate() {
                    let start = begin + task * TASK + batch * BATCH;
                    let count = entries.len();
                    for (i, (value, entry)) in values.iter_mut().zip(entries).enumerate() {
                        if let Some(later) = table.entries().get(start + i + AHEAD) {
                            prefetch(items, later.item());
                        }
                        *value = halves(&items[entry.item()])[1];
                    }
                    code.words(&values[..count], &mut words);
                    for (i, (to, entry)) in inputs.iter_mut().zip(entries).enumerate() {
                        while table.begin(bin + 1) <= start + i {
                            bin += 1;
                        }
                        for (piece, to) in row[..pieces].iter_mut().enumerate() {
                            *to = q.get(bin - first, piece) ^ (s[piece] & words[piece][i]);
                        }
                        *to = input(&row[..pieces], bin, entry.function());
                    }
                    oracle.hash_many(&inputs[..count], &mut hashes[..count]);
                    for (mask, hash) in masks.iter_mut().zip(&hashes) {
                        *mask = output(hash);
                    }
                }
            });
        channel.progress((first + count) as u64, table.len() as u64);
    }
    let numbers = table.entries().iter().map(|entry| entry.item() as u32);
    Ok(Outputs::Short {
        values: masks,
        numbers: numbers.collect(),
    })
}

#[cfg(test)]
mod tests;
