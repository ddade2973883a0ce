//! What is left of κ where a party comes to know pads that it was not meant to have: every use of a hash of correlated
//! OTs, in one list.
//!
//! **The search.** A pad that a party lacks is H(t ⊕ Δ, i), where it knows t and i. It comes to know some of these where
//! what they mask is public or can be guessed. Let all hashes have one permutation π: H(x, i) = π(π(x) ⊕ i) ⊕ π(x), TMMO
//! of Guo, Katz, Wang and Yu (S&P 2020). For w = π(x) ⊕ i that is H(x, i) ⊕ i = π(w) ⊕ w. So one evaluation, at any w,
//! and one look-up compare a guess with all q pads that are known in c bits. About q/2^c agree by accident, and each of
//! these takes another evaluation to rule out. Of 2^s values of w, q are right: T evaluations succeed with a probability
//! of T·q/2^s and cost T·(1 + q/2^c), so that a search costs 2^s·max(1/q, 2^-c) at least. Where few hashes have a key in common, these are q.

use vesica_oprf::programmable::bins;
use vesica_primitives::block::Rekeyed;
use vesica_psi::ole::Ot;
use vesica_psi::{Ole, Params};

/// How hashes and permutations belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// [`CorrelationRobust`](vesica_primitives::block::CorrelationRobust): one key for all hashes of a run.
    OneKey,
    /// [`Rekeyed`]: a key for so many blocks.
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
    /// κ: log₂ of the evaluations of AES that a search takes, rounded down.
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

/// Products of a bin: its value, and 1 if bins are counted too.
const PRODUCTS: u64 = 2;

/// More COTs than an inner product without homomorphic encryption takes, and a guard.
const INNER_COTS: u64 = 64 << 12 | 65;

/// Digits of the longest strings that are compared, of which a bin has up to three.
const DIGITS: u64 = 3 * 32;

/// The uses of hashes in runs of these sizes and λ, where `exact` is the number of bits of an item in `ole-ot`. `None` if
/// that has no tuples for such items.
pub fn uses(params: &Params, exact: Option<u32>) -> Option<[Use; 5]> {
    let bins = bins::shape(params, 64).bins as u64;
    let tuples = Ole::<Ot>::shape(params, exact).ok()?;
    let bits = u64::from(tuples.modulus.bits());
    let ots = tuples.bins as u64 * bits;
    Some([
        Use {
            // The sender's dummy is public, and most entries of a bin are dummies.
            masked: "tuples of ole-ot",
            hash: Hash::KeyFor(Rekeyed::PER_KEY as u64),
            secret_bits: DELTA_BITS,
            known: ots * (tuples.per_bin as u64 * bits).div_ceil(128),
            known_bits: 128,
        },
        Use {
            // Values are ±1 where bins are counted, and 0 in empty bins.
            masked: "values in circuits",
            hash: Hash::KeyFor(1),
            secret_bits: DELTA_BITS,
            known: PRODUCTS * bins + INNER_COTS,
            known_bits: 64,
        },
        Use {
            // 15 pads of one bit for each of three candidates.
            masked: "digit tables in circuits",
            hash: Hash::OneKey,
            secret_bits: DELTA_BITS,
            known: 15 * DIGITS * bins,
            known_bits: 3,
        },
        Use {
            masked: "triples in circuits",
            hash: Hash::OneKey,
            secret_bits: DELTA_BITS,
            known: 2 * DIGITS * bins,
            known_bits: 1,
        },
        Use {
            // Sums of tree nodes in all protocols, of which the receiver knows none that it should not; any messages in
            // the library.
            masked: "messages of the OT extension",
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
    use vesica_psi::Security;

    fn of(receiver_size: usize, sender_size: usize, exact: Option<u32>) -> [Use; 5] {
        let params = Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size,
            sender_size,
            session: [0; 32],
        };
        uses(&params, exact).unwrap()
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
            assert_eq!(kappa, [125, 127, 124, 126, 128], "{receiver} {sender}");
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
        assert_eq!(left, [[104, 108], [101, 105], [96, 105], [96, 99]]);
    }
}
