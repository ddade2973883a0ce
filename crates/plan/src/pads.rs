//! What is left of κ where a party comes to know pads that it was not meant to have: every use of a hash of correlated
//! OTs, in one list.
//!
//! **The search.** A pad that a party lacks is H(t ⊕ Δ, i), where it knows t and i. It comes to know some of these where
//! what they mask is public or can be guessed. Let all hashes have one permutation π: H(x, i) = π(π(x) ⊕ i) ⊕ π(x), TMMO
//! of Guo, Katz, Wang and Yu (S&P 2020). For w = π(x) ⊕ i that is H(x, i) ⊕ i = π(w) ⊕ w, as it is for their MMO, H(x) =
//! π(x) ⊕ x, and w = x. So one evaluation, at any w,
//! and one look-up compare a guess with all q pads that are known in c bits. About q/2^c agree by accident, and each of
//! these takes another evaluation to rule out. Of 2^s values of w, q are right: T evaluations succeed with a probability
//! of T·q/2^s and cost T·(1 + q/2^c), so that a search costs 2^s·max(1/q, 2^-c) at least. Where few hashes have a key in common, these are q.
//!
//! **What is counted** are operations: evaluations, and look-ups in a table of what they gave. One can do the work of the
//! other. Whoever evaluates π in a subspace of the values of w alone, and rules guesses out by look-ups in that table, needs
//! far fewer evaluations, and look-ups in the place of those that it saves.
//!
//! **Several runs.** Keys of hashes come from the session, and so does that of a bucket's run from the session of all. An
//! operation under one of these keys tests a guess at the secret of one run, and the chance to find any of many secrets
//! grows with the operations alone. What has a key without a session are the streams of OLE halves, which are in the list
//! for that reason.

use vesica_circuit::cost::{self, Bins};
use vesica_circuit::{MAX_BITS, NARROW, Number, PADS_PER_KEY, WIDTH, Width, entry_delta_bits};
use vesica_oprf::programmable::{LEAST_SHARE, bins};
use vesica_primitives::block::Rekeyed;
use vesica_psi::ole::{Ot, lambda_of_events};
use vesica_psi::{
    MAX_GROUP_WIRES, MAX_GROUPS, MAX_HIDDEN_GROUPS, MAX_STRING_BYTES, MAX_VALUE_COLUMNS, Ole,
    Params,
};

/// How hashes and permutations belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// [`CorrelationRobust`](vesica_primitives::block::CorrelationRobust): one key for all hashes of a run.
    OneKey,
    /// [`Rekeyed`] or [`TileHash`](vesica_primitives::block::TileHash): a key for so many blocks.
    KeyFor(u64),
}

/// A use of a hash.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// What the pads mask.
    pub masked: &'static str,
    /// How they are made.
    pub hash: Hash,
    /// s: bits of what a search is for, Δ or a seed.
    pub secret_bits: u32,
    /// q: the most pads of a run that a party can come to know.
    pub known: u64,
    /// c: the most bits that it knows of each.
    pub known_bits: u32,
}

impl Use {
    /// κ: log₂ of the operations that a search takes, evaluations of AES and look-ups of these together, rounded down.
    pub fn kappa(&self) -> u32 {
        let per_key = match self.hash {
            Hash::OneKey => self.known,
            Hash::KeyFor(blocks) => blocks.min(self.known),
        };
        let gain = u64::BITS - per_key.saturating_sub(1).leading_zeros();
        self.secret_bits - gain.min(self.known_bits)
    }
}

/// Δ of correlated OTs in bulk is odd.
const DELTA_BITS: u32 = 127;

/// Most executions of an OPPRF that share λ in a circuit.
const OPPRFS: u32 = 2;

/// How far the noise of both sides can be from 0 in a count: at the least ε, of a millionth for each, and λ of some 130 bits.
const MAX_NOISE_SPAN: u64 = 1 << 28;

/// Upper bounds for any circuit of the registry over one bucket, under one Δ: of the blocks of pads that multiply
/// values and strings, of the pads of entries of either width that compare strings, and of the COTs that serve
/// ANDs. Opening the matches of several buckets takes more of the latter under one Δ. A party knows one bit of
/// their pads, so that κ is the same.
fn correlations(params: &Params) -> [u64; 4] {
    let each = params.lambda_each(OPPRFS);
    let params = &Params {
        lambda: each,
        ..params.clone()
    };
    // No table has more bins than with the smallest share.
    // In a union the sender's items are there.
    let items = params.receiver_size.max(params.sender_size);
    let bins = bins::table(items, each + LEAST_SHARE).bins;
    // A shared bit for each bin or for each of its candidates. Short vectors are multiplied by COTs, and so more bits may
    // take fewer. Nothing takes more than under a minimum and with a size.
    let noisy = |shares| Bins {
        span: MAX_NOISE_SPAN,
        ..Bins::from(shares)
    };
    let open = |shares| {
        let mut numbers = vec![Number::no_sum(1); MAX_GROUPS * MAX_VALUE_COLUMNS];
        numbers.resize(
            numbers.len() + MAX_GROUPS,
            Number::no_size(shares, 1, MAX_NOISE_SPAN),
        );
        cost::open(noisy(shares), &numbers, 1, 1)
    };
    let products = |shares| {
        let bins = noisy(shares);
        let size = cost::sizes(bins, MAX_HIDDEN_GROUPS, 1) + open(shares);
        let numbers = [
            cost::inner_product(bins, 1, each),
            cost::sums_of_receiver(bins, MAX_HIDDEN_GROUPS, 1),
            cost::sums_of_sender(bins, MAX_VALUE_COLUMNS, 1),
        ];
        // Pads of rows are of several blocks, with two values in each. A word of bits comes after the values.
        // Groups have as many columns, at least.
        let values = MAX_HIDDEN_GROUPS.div_ceil(2) * shares;
        let strings = MAX_STRING_BYTES.div_ceil(16) * shares;
        let cots = numbers.map(|number| (size + number).cots + values);
        // Shares of values and strings of both sides.
        cots.into_iter().chain([2 * (values + strings)]).max()
    };
    let products = products(bins).max(products(3 * bins)).unwrap_or(0);
    let ands = cost::matches(3 * bins) + open(3 * bins);
    let [usual, narrow] = [tables::<WIDTH>(3 * bins), tables::<NARROW>(3 * bins)];
    [products, usual, narrow, ands.cots].map(|count| count as u64)
}

/// Pads that the other side lacks of the entries over GF(2^W) that compare as many strings.
fn tables<const W: u32>(strings: usize) -> usize {
    ((1 << W) - 1) * cost::transfers::<W>(strings, MAX_BITS, 1, false).entries
}

/// Upper bounds for a union over one bucket, in which the sender's items are in the table, and for numbers by group: of switches,
/// of which each shows a bit of a pad at most, and of the blocks of pads that mask rows.
fn of_union(params: &Params) -> [u64; 2] {
    let slots = params.sender_size;
    // No table has more bins than with the smallest share, nor a run more cells than candidates.
    let each = params.lambda_each(OPPRFS);
    let bins = bins::table(slots, each + LEAST_SHARE).bins;
    let width = Width::new(MAX_ROW_BYTES, slots, u32::from(u8::MAX));
    let blocks = (width.row + width.tag).div_ceil(16);
    let wires = bins.max(MAX_GROUP_WIRES as usize);
    [cost::permutation(wires).reverse_cots, blocks * slots].map(|count| count as u64)
}

/// The most bytes of a row that is handed over.
const MAX_ROW_BYTES: usize = 1 << 12;

/// The uses of hashes in runs of these sizes and λ, where `exact` is the number of bits of an item in `ole-ot`. `None` if
/// that has no tuples for such items.
pub fn uses(params: &Params, exact: Option<u32>) -> Option<[Use; 11]> {
    let tuples = Ole::<Ot>::shape(params, exact).ok()?;
    let [products, usual, narrow, ands] = correlations(params);
    let [switches, rows] = of_union(params);
    Some([
        Use {
            // The sender's dummy is public, and most entries of a bin are dummies.
            masked: "tuples of ole-ot",
            hash: Hash::KeyFor(Rekeyed::PER_KEY as u64),
            secret_bits: DELTA_BITS,
            known: Ot::pad_blocks(tuples, lambda_of_events(params.lambda)),
            known_bits: 128,
        },
        Use {
            // Values are ±1 where bins are counted, and 0 in empty bins; strings end with zeros. Each block has a key.
            masked: "values and strings in circuits",
            hash: Hash::KeyFor(1),
            secret_bits: DELTA_BITS,
            known: products,
            known_bits: 128,
        },
        Use {
            // All pads of an entry but one, of a bit for each of three candidates.
            masked: "digit tables in circuits",
            hash: Hash::KeyFor(PADS_PER_KEY as u64),
            secret_bits: entry_delta_bits::<WIDTH>(),
            known: usual,
            known_bits: 3,
        },
        Use {
            masked: "narrow digit tables in circuits",
            hash: Hash::KeyFor(PADS_PER_KEY as u64),
            secret_bits: entry_delta_bits::<NARROW>(),
            known: narrow,
            known_bits: 3,
        },
        Use {
            masked: "triples in circuits",
            hash: Hash::OneKey,
            secret_bits: DELTA_BITS,
            known: ands,
            known_bits: 1,
        },
        Use {
            masked: "switches in circuits",
            hash: Hash::OneKey,
            secret_bits: DELTA_BITS,
            known: switches,
            known_bits: 1,
        },
        Use {
            // The receiver has the rows of items in common, and zeros follow each. Each block has a key.
            masked: "rows in circuits",
            hash: Hash::KeyFor(1),
            secret_bits: DELTA_BITS,
            known: rows,
            known_bits: 128,
        },
        Use {
            // Of a tree a party lacks one node in each level, and one of the two that follow from it is known: it is Δ
            // and something known. Each level of each tree has a key.
            masked: "nodes of trees of COTs and entries",
            hash: Hash::KeyFor(1),
            secret_bits: DELTA_BITS,
            known: u64::MAX,
            known_bits: 128,
        },
        Use {
            // The hash of the leaf that the receiver lacks, plus x·Δ for its x: as hard to guess as Δ. Each tree has a key.
            masked: "leaves of trees of entries",
            hash: Hash::KeyFor(1),
            secret_bits: entry_delta_bits::<NARROW>(),
            known: u64::MAX,
            known_bits: 128,
        },
        Use {
            // Sums of tree nodes, of which the receiver knows none that it should not.
            masked: "messages of the OT extension",
            hash: Hash::KeyFor(1),
            secret_bits: 128,
            known: u64::MAX,
            known_bits: 128,
        },
        Use {
            // The secret is the key, and what an evaluation under it shows is one block of every stream that has its
            // number: of one stream, since they start at random. Dummies show most values of a half.
            masked: "values of OLE halves",
            hash: Hash::KeyFor(1),
            secret_bits: 128,
            known: u64::MAX,
            known_bits: 128,
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_psi::{KeyAgreement, Security};

    fn params(receiver_size: usize, sender_size: usize) -> Params {
        Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size,
            sender_size,
            key_agreement: KeyAgreement::default(),
            session: [0; 32],
        }
    }

    fn of(receiver_size: usize, sender_size: usize, exact: Option<u32>) -> [Use; 11] {
        uses(&params(receiver_size, sender_size), exact).unwrap()
    }

    /// κ of each use at all sizes, up to the largest.
    #[test]
    fn no_use_loses_more_than_the_bits_that_its_pads_mask() {
        let largest = 1 << 26;
        for (receiver, sender) in [
            (1 << 16, 1 << 16),
            (1 << 20, 1 << 20),
            (largest, largest),
            (1, largest),
            (largest, 1),
        ] {
            let kappa = of(receiver, sender, Some(32)).map(|used| used.kappa());
            let expected = [125, 127, 121, 120, 126, 126, 127, 127, 123, 128, 128];
            assert_eq!(kappa, expected, "{receiver} {sender}");
        }
        let hashed = of(1 << 20, 1 << 20, None);
        assert_eq!(hashed[0].kappa(), 125);
    }

    /// What one key for all would leave to those whose pads can be known: why they have a key each.
    #[test]
    fn one_key_would_lose_the_number_of_known_pads() {
        let sizes = [(16, Some(32)), (20, Some(32)), (20, None), (26, Some(32))];
        let left = sizes.map(|(log, exact)| {
            let uses = of(1 << log, 1 << log, exact);
            [uses[0], uses[1]].map(|used| {
                let hash = Hash::OneKey;
                Use { hash, ..used }.kappa()
            })
        });
        assert_eq!(left, [[104, 102], [100, 98], [96, 98], [96, 92]]);
    }
    /// Of the streams of 2^24 halves of the largest shapes no two have a block's number in common, but with probability
    /// below 2^-40. Two have one if their starts differ by a difference of two rows, in units of 2^64, and of two blocks in
    /// rows.
    #[test]
    fn streams_of_halves_do_not_meet() {
        let halves_log = 24;
        for (receiver, sender, exact) in [
            (1 << 26, 1 << 26, Some(32)),
            (1, 1 << 26, Some(32)),
            (1 << 20, 1 << 20, None),
        ] {
            let shape = Ole::<Ot>::shape(&params(receiver, sender), exact).unwrap();
            // u and v; and a block has two residues at least, of which some three quarters at most are left out.
            let rows = 2 * (shape.blocks() * shape.per_bin) as u64;
            let blocks = 2 * shape.width(0) as u64;
            let pairs = 2 * halves_log - 1;
            let differences = (2 * rows).ilog2() + 1 + (2 * blocks).ilog2() + 1;
            assert!(pairs + differences + 40 <= 128, "{receiver} {sender}");
        }
    }
}
