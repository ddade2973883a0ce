//! A few vector oblivious linear evaluations (VOLEs) from oblivious transfers (OTs): the seeds of silent
//! ones.
//!
//! **Paper.** L. Roy, *SoftSpokenOT*, CRYPTO 2022 (the small-field construction of section 3), for pieces
//! of four or eight bits of Δ; with pieces of one bit it is the COPE of Keller, Orsini and Scholl (CCS 2016).
//!
//! **What it gives.** Receiver: y_i and c_i; sender: b_i and Δ, with c_i = Δ·y_i + b_i in GF(2^128).
//!
//! **How.** For each piece Δ_j of k bits the receiver makes a tree of 2^k seeds, and the sender learns all but number
//! Δ_j of them. From the vectors r_{j,x} expanded from the seeds, the receiver computes u_j = Σ_x r_{j,x} and
//! v_j = Σ_x x̂·r_{j,x}, where x̂ is x at the bits of the piece. The sender can compute w_j = Σ_x (x̂ +
//! Δ̂_j)·r_{j,x} = v_j + Δ̂_j·u_j, since the seed that it lacks has factor 0. The receiver corrects every u_j
//! to the same y = u_0 by sending u_j + y.
//!
//! **Adversary.** A receiver that sends wrong sums or corrections makes c wrong by an amount that depends on
//! Δ. Nothing here detects that. The caller must check the result; the receiver then passes only if it has
//! guessed a set of values that contains Δ. (Wrong sums can make the error any function of a piece. That two of its values
//! agree by accident in what a check over GF(2^128) compares has a probability of 2^-113 for each piece of eight bits, before
//! the guess.) A sender sends nothing here.

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::binary::{add_scaled128, multiply128};
use vesica_primitives::block::{Block, Prg};
use zeroize::Zeroizing;

use crate::ot_extension::COLUMNS;
use crate::shape::Shape;
use crate::tree::Trees;

/// How Δ is cut: into pieces of so many bits, each with a tree of as many levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    bits: usize,
}

impl Pieces {
    /// For the setup of a correlation. With eight bits there are half as many corrections, and eight times as many blocks of
    /// AES: these are some milliseconds, which long correlations need not take for a hundredth of their bytes.
    pub(crate) fn of(shape: &Shape) -> Self {
        Pieces {
            bits: if shape.depth <= 8 { 8 } else { 4 },
        }
    }

    fn count(self) -> usize {
        COLUMNS / self.bits
    }

    /// Seeds of a piece.
    fn seeds(self) -> usize {
        1 << self.bits
    }

    /// Number of corrections for each entry.
    pub(crate) fn corrections(self) -> usize {
        self.count() - 1
    }

    /// For each level of each piece's tree, the index of its base OT and the bit of Δ that decides it: the path
    /// down starts with a piece's highest bit.
    fn places(self) -> impl Iterator<Item = (usize, usize)> {
        let bits = self.bits;
        (0..COLUMNS).map(move |i| {
            let (piece, level) = (i / bits, i % bits);
            (i, bits * piece + bits - 1 - level)
        })
    }

    /// The choices of the sender, which receives the base OTs: the sides that are not on the path of its Δ.
    pub(crate) fn choices(self, delta: Block) -> Block {
        self.places().fold(0, |choices, (transfer, bit)| {
            choices | (!delta >> bit & 1) << transfer
        })
    }

    fn piece(self, delta: Block, piece: usize) -> usize {
        (delta >> (self.bits * piece)) as usize % self.seeds()
    }
}

/// Expands a seed into the coordinates of vector entries.
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
    /// [`Pieces::corrections`] for each entry, one entry's after the other's.
    pub(crate) corrections: Vec<Block>,
}

/// Where the entries y_i are from. Sums and corrections are of coordinates, since elements are linear in them.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    /// A mask of the coordinates of each: all bits for one of GF(2^128).
    pub(crate) bits: &'a [Block],
    /// The element with these coordinates, of the entries that are not of GF(2^128).
    pub(crate) element: fn(Block) -> Block,
}

impl Entries<'_> {
    /// The element of entry i.
    fn element(self, i: usize, coordinates: Block) -> Block {
        match self.bits[i] {
            Block::MAX => coordinates,
            _ => (self.element)(coordinates),
        }
    }

    /// Coordinates to elements.
    fn to_elements(self, entries: &mut [Block]) {
        for (i, entry) in entries.iter_mut().enumerate() {
            *entry = self.element(i, *entry);
        }
    }
}

/// Makes the receiver's half from both keys of the base OTs.
pub(crate) fn receiver(
    session: &[u8; 32],
    pieces: Pieces,
    keys: &[[Block; 2]; COLUMNS],
    of: Entries<'_>,
    rng: &mut dyn CryptoRng,
) -> (Receiver, Message) {
    let trees = Trees::new(session, pieces.bits);
    let n = of.bits.len();
    let mut half = Receiver {
        y: Zeroizing::new(vec![0; n]),
        c: Zeroizing::new(vec![0; n]),
    };
    let mut message = Message {
        sums: Vec::with_capacity(COLUMNS),
        corrections: vec![0; n * pieces.corrections()],
    };
    let mut seeds = Zeroizing::new(vec![0; pieces.seeds()]);
    let mut vectors = Vectors::new(pieces, n);
    for (piece, keys) in keys.chunks_exact(pieces.bits).enumerate() {
        let mut root = Zeroizing::new([0; 16]);
        rng.fill_bytes(root.as_mut());
        let mut sums = Zeroizing::new(vec![[0; 2]; pieces.bits]);
        let root = Block::from_le_bytes(*root);
        trees.expand(piece, root, &mut seeds, Some(&mut sums));
        for (sum, key) in sums.iter().zip(keys) {
            message.sums.push([sum[0] ^ key[0], sum[1] ^ key[1]]);
        }
        vectors.sum(&seeds, 0, of);
        vectors.add_weighted(piece, &mut half.c);
        if piece == 0 {
            half.y.copy_from_slice(&vectors.all);
            continue;
        }
        let corrections = message.corrections.chunks_exact_mut(pieces.corrections());
        for (i, corrections) in corrections.enumerate() {
            corrections[piece - 1] = vectors.all[i] ^ half.y[i];
        }
    }
    of.to_elements(&mut half.y);
    (half, message)
}

/// Makes the sender's half b from its keys of the base OTs, which it chose by [`Pieces::choices`].
pub(crate) fn sender(
    session: &[u8; 32],
    pieces: Pieces,
    delta: Block,
    keys: &[Block; COLUMNS],
    of: Entries<'_>,
    message: &Message,
) -> Zeroizing<Vec<Block>> {
    assert_eq!(message.sums.len(), COLUMNS);
    let n = of.bits.len();
    assert_eq!(message.corrections.len(), n * pieces.corrections());
    let trees = Trees::new(session, pieces.bits);
    let chosen = pieces.choices(delta);
    let mut b = Zeroizing::new(vec![0; n]);
    let mut seeds = Zeroizing::new(vec![0; pieces.seeds()]);
    let mut vectors = Vectors::new(pieces, n);
    for piece in 0..pieces.count() {
        let point = pieces.piece(delta, piece);
        let mut sums = Zeroizing::new(vec![0; pieces.bits]);
        for (level, sum) in sums.iter_mut().enumerate() {
            let transfer = pieces.bits * piece + level;
            let [left, right] = message.sums[transfer];
            let right_chosen = 0u128.wrapping_sub(chosen >> transfer & 1);
            *sum = left ^ (right_chosen & (left ^ right)) ^ keys[transfer];
        }
        trees.expand_punctured(piece, point, &sums, &mut seeds);
        vectors.sum(&seeds, point, of);
        vectors.add_weighted(piece, &mut b);
        if piece > 0 {
            let factor = delta & ((pieces.seeds() as Block - 1) << (pieces.bits * piece));
            let corrections = message.corrections.chunks_exact(pieces.corrections());
            for (i, (b, corrections)) in b.iter_mut().zip(corrections).enumerate() {
                let correction = of.element(i, corrections[piece - 1]);
                *b ^= multiply128(Backend::Best, factor, correction);
            }
        }
    }
    b
}

/// Sums over the vectors of one piece.
struct Vectors {
    pieces: Pieces,
    /// The sum of all, in coordinates.
    all: Zeroizing<Vec<Block>>,
    /// For each bit, the sum of those whose number, relative to the punctured point, has that bit.
    with_bit: Vec<Zeroizing<Vec<Block>>>,
    /// For each level of a tree of sums, the sum of the right half of what is added up.
    right: Vec<Zeroizing<Vec<Block>>>,
}

impl Vectors {
    fn new(pieces: Pieces, n: usize) -> Self {
        let zeros = || Zeroizing::new(vec![0; n]);
        let each = || (0..pieces.bits).map(|_| zeros()).collect();
        Vectors {
            pieces,
            all: zeros(),
            with_bit: each(),
            right: each(),
        }
    }

    fn sum(&mut self, seeds: &[Block], point: usize, of: Entries<'_>) {
        self.with_bit.iter_mut().for_each(|sum| sum.fill(0));
        let vector = |x: usize, out: &mut [Block]| entries(seeds[x ^ point], of.bits, out);
        let levels = self.pieces.bits;
        add_up(
            levels,
            0,
            &vector,
            &mut self.with_bit,
            &mut self.right,
            &mut self.all,
        );
        self.with_bit.iter_mut().for_each(|sum| of.to_elements(sum));
    }

    /// Adds Σ_x x̂·r_x for the piece.
    fn add_weighted(&self, piece: usize, out: &mut [Block]) {
        for (bit, sum) in self.with_bit.iter().enumerate() {
            let place = 1 << (self.pieces.bits * piece + bit);
            add_scaled128(Backend::Best, out, place, sum);
        }
    }
}

/// Makes `out` the sum of the 2^`level` vectors from number `first` on, and adds to `with_bit` those that have each of
/// `level` bits: two additions for each vector.
fn add_up(
    level: usize,
    first: usize,
    vector: &dyn Fn(usize, &mut [Block]),
    with_bit: &mut [Zeroizing<Vec<Block>>],
    scratch: &mut [Zeroizing<Vec<Block>>],
    out: &mut [Block],
) {
    let Some(bit) = level.checked_sub(1) else {
        return vector(first, out);
    };
    add_up(bit, first, vector, with_bit, scratch, out);
    let (scratch, right) = scratch.split_at_mut(bit);
    let right = &mut *right[0];
    add_up(bit, first | 1 << bit, vector, with_bit, scratch, right);
    for ((out, sum), right) in out
        .iter_mut()
        .zip(with_bit[bit].iter_mut())
        .zip(right.iter())
    {
        *out ^= right;
        *sum ^= right;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Choices;
    use crate::field::{Field, NineBytes};
    use crate::ideal::random_transfers;
    use rand_core::Rng;
    use vesica_testing::rng;

    const SESSION: [u8; 32] = [4; 32];
    const BOTH: [Pieces; 2] = [Pieces { bits: 4 }, Pieces { bits: 8 }];

    fn run(
        pieces: Pieces,
        delta: Block,
        of: Entries<'_>,
        spoil: impl Fn(&mut Message),
    ) -> (Receiver, Vec<Block>) {
        let chosen = Zeroizing::new(vec![pieces.choices(delta)]);
        let chosen = Choices::from_blocks(chosen, COLUMNS);
        let (pairs, picked) = random_transfers(3, &chosen);
        let [pairs] = pairs.as_chunks().0 else {
            panic!("as many as columns")
        };
        let [picked] = picked.as_chunks().0 else {
            panic!("as many as columns")
        };
        let mut rng = rng(9);
        let (half, mut message) = receiver(&SESSION, pieces, pairs, of, &mut rng);
        spoil(&mut message);
        let b = sender(&SESSION, pieces, delta, picked, of, &message);
        (half, b.to_vec())
    }

    fn fits(delta: Block, half: &Receiver, b: &[Block]) -> bool {
        (0..b.len()).all(|i| half.c[i] == b[i] ^ multiply128(Backend::Portable, delta, half.y[i]))
    }

    #[test]
    fn halves_fit_for_any_delta() {
        let bits = [Block::MAX, u64::MAX.into(), Block::MAX, 1];
        let of = Entries {
            bits: &bits,
            element: |block| block,
        };
        let mut rng = rng(1);
        for pieces in BOTH {
            for delta in [0, 1, Block::MAX, u128::from(rng.next_u64()) << 64 | 5] {
                let (half, b) = run(pieces, delta, of, |_| ());
                assert!(fits(delta, &half, &b), "{pieces:?}");
                assert!(half.y[1] >> 64 == 0 && half.y[3] >> 1 == 0 && half.y[0] >> 64 != 0);
                // Nine bytes, whose elements are not their coordinates.
                let nine = Entries {
                    bits: &[Block::MAX >> 56; 4],
                    element: |block| NineBytes::from_block(block).to_block(),
                };
                let (half, b) = run(pieces, delta, nine, |_| ());
                assert!(fits(delta, &half, &b), "{pieces:?}");
                let is_element = |y: &Block| NineBytes::of_element(*y).to_block() == *y;
                assert!(half.y.iter().all(is_element));
                assert!(half.y.iter().any(|y| y >> 72 != 0));
            }
        }
    }

    #[test]
    fn a_wrong_message_shows_in_the_halves() {
        let of = Entries {
            bits: &[Block::MAX; 3],
            element: |block| block,
        };
        let delta = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
        for pieces in BOTH {
            let spoilt = pieces.corrections() + 4;
            let (half, b) = run(pieces, delta, of, |m| m.corrections[spoilt] ^= 1);
            assert!(!fits(delta, &half, &b));
            // The sum on the side that the sender looks at, and on the other.
            let chosen = pieces.choices(delta) as usize & 1;
            let (half, b) = run(pieces, delta, of, |m| m.sums[0][chosen] ^= 1);
            assert!(!fits(delta, &half, &b));
            let (half, b) = run(pieces, delta, of, |m| m.sums[0][chosen ^ 1] ^= 1);
            assert!(fits(delta, &half, &b));
        }
    }

    /// The sums of a tree are those of each vector by itself.
    #[test]
    fn vectors_add_up() {
        for pieces in BOTH {
            let seeds: Vec<Block> = (0..pieces.seeds() as Block).map(|x| x * x + 7).collect();
            let (point, bits) = (pieces.seeds() - 3, [Block::MAX; 2]);
            let of = Entries {
                bits: &bits,
                element: |block| block,
            };
            let mut vectors = Vectors::new(pieces, 2);
            vectors.sum(&seeds, point, of);
            vectors.sum(&seeds, point, of);
            let (mut all, mut with_bit) = ([0; 2], vec![[0; 2]; pieces.bits]);
            for (x, seed) in seeds.iter().enumerate() {
                let mut one = [0; 2];
                entries(*seed, &bits, &mut one);
                for i in 0..2 {
                    all[i] ^= one[i];
                    for (bit, sum) in with_bit.iter_mut().enumerate() {
                        sum[i] ^= one[i] * ((x ^ point) >> bit & 1) as Block;
                    }
                }
            }
            assert_eq!(*vectors.all, all);
            for (sum, expected) in vectors.with_bit.iter().zip(with_bit) {
                assert_eq!(**sum, expected);
            }
        }
    }
}
