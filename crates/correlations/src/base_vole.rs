//! A few vector oblivious linear evaluations (VOLEs) from oblivious transfers (OTs): the seeds of silent
//! ones.
//!
//! **Paper.** L. Roy, *SoftSpokenOT*, CRYPTO 2022 (the small-field construction of section 3), for pieces
//! of four bits of Δ; with pieces of one bit it is the COPE of Keller, Orsini and Scholl (CCS 2016).
//!
//! **What it gives.** Receiver: y_i and c_i; sender: b_i and Δ, with c_i = Δ·y_i + b_i in GF(2^128).
//!
//! **How.** For each piece Δ_j the receiver makes a tree of 16 seeds, and the sender learns all but number
//! Δ_j of them. From the vectors r_{j,x} expanded from the seeds, the receiver computes u_j = Σ_x r_{j,x} and
//! v_j = Σ_x x̂·r_{j,x}, where x̂ is x at the bits of the piece. The sender can compute w_j = Σ_x (x̂ +
//! Δ̂_j)·r_{j,x} = v_j + Δ̂_j·u_j, since the seed that it lacks has factor 0. The receiver corrects every u_j
//! to the same y = u_0 by sending u_j + y.
//!
//! **Adversary.** A receiver that sends wrong sums or corrections makes c wrong by an amount that depends on
//! Δ. Nothing here detects that. The caller must check the result; the receiver then passes only if it has
//! guessed a set of values that contains Δ. A sender sends nothing here.

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::binary::{add_scaled128, multiply128};
use vesica_primitives::block::{Block, Prg};
use zeroize::{Zeroize, Zeroizing};

use crate::tree::{Trees, mask};

/// Bits of Δ in a piece.
const PIECE_BITS: usize = 4;

/// Pieces of Δ.
const PIECES: usize = 128 / PIECE_BITS;

/// Seeds of a piece.
const SEEDS: usize = 1 << PIECE_BITS;

/// Number of base OTs used: one per bit of Δ.
pub(crate) const TRANSFERS: usize = 128;

/// Number of corrections per entry.
pub(crate) const CORRECTIONS: usize = PIECES - 1;

/// For each level of each piece's tree, the index of its base OT and the bit of Δ that decides it: the path
/// down starts with a piece's highest bit.
fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..TRANSFERS).map(|i| {
        let (piece, level) = (i / PIECE_BITS, i % PIECE_BITS);
        (i, PIECE_BITS * piece + PIECE_BITS - 1 - level)
    })
}

/// The choices of the sender, which receives the base OTs: the sides that are not on the path of its Δ.
pub(crate) fn choices(delta: Block) -> Block {
    places().fold(0, |choices, (transfer, bit)| {
        choices | (!delta >> bit & 1) << transfer
    })
}

/// Expands a seed into vector entries; `bits` masks each to its subfield.
fn entries(seed: Block, bits: &[Block], out: &mut [Block]) {
    Prg::new(seed).fill(out);
    for (out, bits) in out.iter_mut().zip(bits) {
        *out &= bits;
    }
}

/// The receiver's half.
pub(crate) struct Receiver {
    /// y_i.
    pub(crate) y: Zeroizing<Vec<Block>>,
    /// c_i.
    pub(crate) c: Zeroizing<Vec<Block>>,
}

/// What the receiver sends.
pub(crate) struct Message {
    /// Masked sums, two for each base OT.
    pub(crate) sums: Vec<[Block; 2]>,
    /// Corrections, [`CORRECTIONS`] for each entry.
    pub(crate) corrections: Vec<[Block; CORRECTIONS]>,
}

/// Makes the receiver's half from both keys of the base OTs. `bits[i]` masks entry i to its subfield.
pub(crate) fn receiver(
    session: &[u8; 32],
    keys: &[[Block; 2]],
    bits: &[Block],
    rng: &mut dyn CryptoRng,
) -> (Receiver, Message) {
    assert_eq!(keys.len(), TRANSFERS);
    let trees = Trees::new(session, PIECE_BITS);
    let n = bits.len();
    let mut half = Receiver {
        y: Zeroizing::new(vec![0; n]),
        c: Zeroizing::new(vec![0; n]),
    };
    let mut message = Message {
        sums: Vec::with_capacity(TRANSFERS),
        corrections: vec![[0; CORRECTIONS]; n],
    };
    let mut seeds = Zeroizing::new([0; SEEDS]);
    let mut vectors = Vectors::new(n);
    for (piece, keys) in keys.chunks_exact(PIECE_BITS).enumerate() {
        let mut root = Zeroizing::new([0; 16]);
        rng.fill_bytes(root.as_mut());
        let mut sums = [[0; 2]; PIECE_BITS];
        trees.expand(
            piece,
            Block::from_le_bytes(*root),
            &mut *seeds,
            Some(&mut sums),
        );
        for (sum, key) in sums.iter().zip(keys) {
            message.sums.push([sum[0] ^ key[0], sum[1] ^ key[1]]);
        }
        sums.zeroize();
        vectors.sum(&seeds, 0, bits);
        vectors.add_weighted(piece, &mut half.c);
        if piece == 0 {
            half.y.copy_from_slice(&vectors.all);
            continue;
        }
        for (i, corrections) in message.corrections.iter_mut().enumerate() {
            corrections[piece - 1] = vectors.all[i] ^ half.y[i];
        }
    }
    (half, message)
}

/// Makes the sender's half b from its keys of the base OTs, which it chose by [`choices`].
pub(crate) fn sender(
    session: &[u8; 32],
    delta: Block,
    keys: &[Block],
    bits: &[Block],
    message: &Message,
) -> Zeroizing<Vec<Block>> {
    assert_eq!(keys.len(), TRANSFERS);
    assert_eq!(message.sums.len(), TRANSFERS);
    assert_eq!(message.corrections.len(), bits.len());
    let trees = Trees::new(session, PIECE_BITS);
    let chosen = choices(delta);
    let mut b = Zeroizing::new(vec![0; bits.len()]);
    let mut seeds = Zeroizing::new([0; SEEDS]);
    let mut vectors = Vectors::new(bits.len());
    for piece in 0..PIECES {
        let point = (delta >> (PIECE_BITS * piece)) as usize % SEEDS;
        let mut sums = Zeroizing::new([0; PIECE_BITS]);
        for (level, sum) in sums.iter_mut().enumerate() {
            let transfer = PIECE_BITS * piece + level;
            let [left, right] = message.sums[transfer];
            let right_chosen = 0u128.wrapping_sub(chosen >> transfer & 1);
            *sum = left ^ (right_chosen & (left ^ right)) ^ keys[transfer];
        }
        trees.expand_punctured(piece, point, &*sums, &mut *seeds);
        vectors.sum(&seeds, point, bits);
        vectors.add_weighted(piece, &mut b);
        if piece > 0 {
            let factor = delta & ((SEEDS as Block - 1) << (PIECE_BITS * piece));
            for (b, corrections) in b.iter_mut().zip(&message.corrections) {
                *b ^= multiply128(Backend::Best, factor, corrections[piece - 1]);
            }
        }
    }
    b
}

/// Sums over the vectors of one piece.
struct Vectors {
    one: Zeroizing<Vec<Block>>,
    /// The sum of all.
    all: Zeroizing<Vec<Block>>,
    /// For each bit, the sum of those whose number, relative to the punctured point, has that bit.
    with_bit: [Zeroizing<Vec<Block>>; PIECE_BITS],
}

impl Vectors {
    fn new(n: usize) -> Self {
        let zeros = || Zeroizing::new(vec![0; n]);
        Vectors {
            one: zeros(),
            all: zeros(),
            with_bit: std::array::from_fn(|_| zeros()),
        }
    }

    fn sum(&mut self, seeds: &[Block; SEEDS], point: usize, bits: &[Block]) {
        self.all.fill(0);
        self.with_bit.iter_mut().for_each(|sum| sum.fill(0));
        for (x, seed) in seeds.iter().enumerate() {
            entries(*seed, bits, &mut self.one);
            for (sum, r) in self.all.iter_mut().zip(self.one.iter()) {
                *sum ^= r;
            }
            for (bit, sum) in self.with_bit.iter_mut().enumerate() {
                let counts = mask((x ^ point) >> bit & 1, 1);
                for (sum, r) in sum.iter_mut().zip(self.one.iter()) {
                    *sum ^= counts & r;
                }
            }
        }
    }

    /// Adds Σ_x x̂·r_x for the piece.
    fn add_weighted(&self, piece: usize, out: &mut [Block]) {
        for (bit, sum) in self.with_bit.iter().enumerate() {
            let place = 1 << (PIECE_BITS * piece + bit);
            add_scaled128(Backend::Best, out, place, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Choices;
    use crate::ideal::random_transfers;
    use rand_core::Rng;
    use vesica_testing::rng;

    const SESSION: [u8; 32] = [4; 32];

    fn run(delta: Block, bits: &[Block], spoil: impl Fn(&mut Message)) -> (Receiver, Vec<Block>) {
        let chosen = Choices::from_blocks(Zeroizing::new(vec![choices(delta)]), TRANSFERS);
        let (pairs, picked) = random_transfers(3, &chosen);
        let mut rng = rng(9);
        let (half, mut message) = receiver(&SESSION, &pairs, bits, &mut rng);
        spoil(&mut message);
        let b = sender(&SESSION, delta, &picked, bits, &message);
        (half, b.to_vec())
    }

    fn fits(delta: Block, half: &Receiver, b: &[Block]) -> bool {
        (0..b.len()).all(|i| half.c[i] == b[i] ^ multiply128(Backend::Portable, delta, half.y[i]))
    }

    #[test]
    fn halves_fit_for_any_delta() {
        let bits = [Block::MAX, u64::MAX.into(), Block::MAX, 1];
        let mut rng = rng(1);
        for delta in [0, 1, Block::MAX, u128::from(rng.next_u64()) << 64 | 5] {
            let (half, b) = run(delta, &bits, |_| ());
            assert!(fits(delta, &half, &b));
            assert!(half.y[1] >> 64 == 0 && half.y[3] >> 1 == 0 && half.y[0] >> 64 != 0);
        }
    }

    #[test]
    fn a_wrong_message_shows_in_the_halves() {
        let bits = [Block::MAX; 3];
        let delta = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
        let (half, b) = run(delta, &bits, |m| m.corrections[1][4] ^= 1);
        assert!(!fits(delta, &half, &b));
        // The sum on the side that the sender looks at, and on the other.
        let chosen = choices(delta) as usize & 1;
        let (half, b) = run(delta, &bits, |m| m.sums[0][chosen] ^= 1);
        assert!(!fits(delta, &half, &b));
        let (half, b) = run(delta, &bits, |m| m.sums[0][chosen ^ 1] ^= 1);
        assert!(fits(delta, &half, &b));
    }
}
