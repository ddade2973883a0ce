//! Long correlations from short messages: silent vector oblivious linear evaluation (VOLE) over GF(2^64), GF(2^128) and what
//! is between them ([`NineBytes`](crate::field::NineBytes)), and silent correlated oblivious transfer (OT).
//!
//! **Papers.** E. Boyle, G. Couteau, N. Gilboa, Y. Ishai, *Compressing Vector OLE*, CCS 2018, and with
//! L. Kohl, P. Rindal and P. Scholl, *Efficient Two-Round OT Extension and Silent Non-Interactive Secure
//! Computation*, CCS 2019; the code is that of RRT23 ([`crate::code`]); the check is that of C. Weng,
//! K. Yang, J. Katz, X. Wang, *Wolverine*, S&P 2021, and *Ferret*, CCS 2020.
//!
//! **What it gives.** The receiver holds a and c, the sender b and Δ, with c_i = Δ·a_i + b_i in
//! GF(2^128); a_i is a random element of the field, or for [`Bit`] a random bit, and Δ is odd then.
//!
//! **How.** Noise e of weight t, one position in each of t equal blocks, is shared as Δ·e = c' + b' with one
//! punctured tree per block. The sender knows all leaves, the receiver all but the one at its noise position;
//! it gets that one with Δ·y added, from one entry of a base VOLE (for bits, y is 1 and none is needed). Both
//! then apply the code, which makes e look random and keeps the equation. Sums of tree levels are sent by OT,
//! from an extension of the 128 base OTs that make the base VOLE. Long vectors consist of chunks, each with
//! its own noise, all under one Δ. The trees are grown again whenever a chunk is needed, which costs little
//! compared with the code and bounds memory.
//!
//! **Assumption.** Dual LPN with regular noise for the pinned code. [`crate::lpn`] lists the attacks,
//! assuming that the peer knows every entry of a, and [`noise_weight`](crate::lpn::noise_weight) is the least
//! t at which all of them fail: for one chunk 546 over the large fields, 300 over GF(2). Over large fields the linear
//! test with a word of relative weight δ = 0.15 decides; over bits, words made for regular noise do. Over a
//! large field, in which noise values are uniform, the test's advantage is (1 − δ)^t. That is stricter than
//! the (1 − 2δ)^t that some implementations use for all fields: it needs about twice as many trees. δ is an estimate, and lighter
//! words are known ([`crate::code`]). They cover whole blocks, where regular noise always has a position. So
//! security rests on noise in contiguous, regular blocks: no other shape of noise may be used with this code.
//! All chunks share one public code, and whoever finds the noise of one has what it wants: t grows with their number,
//! so that κ is 128 at every length. Every bucket of a run has a correlation of its own; 2^b buckets cost b bits.
//!
//! **Adversary.** Semi-honest or malicious. If malicious, the extension runs its own check, and one random
//! linear combination of all leaves is compared before the halves are used. A receiver passes with wrong
//! messages only if it has guessed a set that contains Δ, a sender only if it has guessed a set that contains
//! the noise positions: it learns c bits with probability 2^-c, and a wrong guess ends the run. The order is
//! such that neither gains from an abort: the receiver commits to its value, the sender sends its own, the
//! receiver compares and opens, the sender compares. No input has been used by then.
//!
//! **One Δ.** The choices of the base OTs are those of Δ (`Pieces::choices`), for the base VOLE and for the extension,
//! as in Wolverine. Of each key two seeds are made, one for either. What the receiver guesses in the two
//! checks are bits of one secret: c bits in all with probability 2^-c. The pads of the extension are hashes of its
//! correlation under AES keys of their own, ideal ciphers: until somebody evaluates one at a guess of Δ, the pads that the
//! receiver lacks are uniform, so are the tree sums under them, and so the leaves that hide Δ or b. Therefore
//! **no pad of the extension masks a value that depends on Δ**: tree sums do not. Trees, which hide b behind leaves, are
//! sent before both checks are over, and a receiver that cheats in one may learn Δ and is caught in it. That is safe as no
//! input has been used by then, and nothing of a set-up outlives it that failed. For bits Δ is odd, and has 127 bits to be
//! found.
//!
//! **Security.** Finding a node of a tree takes 2^128 evaluations of AES, since each level has its own keys
//! (`tree.rs`), and Δ has 128 bits. The pads of the tree sums come from the extension, whose hash has a key for each OT
//! ([`crate::ot_extension`]).
//!
//! **Deviation.** The challenge comes from a hash of the messages instead of a coin.

mod receiver;
mod sender;

pub use receiver::{Receiver, WaitingReceiver};
pub use sender::{Sender, UncheckedSender};

use std::marker::PhantomData;
use std::ops::Range;

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::binary::{inner_product128, multiply128};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_wire::{Channel, End, Error, Frames, Kind, Misbehaviour, Traffic, recv_rows, send_rows};
use zeroize::{Zeroize, Zeroizing};

use crate::base_ot::{self, KeyAgreement};
use crate::base_vole::{self, Message, Pieces};
use crate::choices::Choices;
use crate::code::{EXTRA, add_expanded, convolve_twice};
use crate::field::{Coefficients, Field};
use crate::ot_extension::{self, COLUMNS, Security};
use crate::shape::Shape;
use crate::tree::{Trees, mask};
use crate::vole;

/// Masked sums of the base VOLE.
const BASE_SUMS: Kind = Kind {
    code: 48,
    name: "base VOLE sums",
};

/// Corrections of the base VOLE.
const BASE_CORRECTIONS: Kind = Kind {
    code: 49,
    name: "base VOLE corrections",
};

/// Masked sums of tree levels, and for each tree the sum of its leaves with the noise added.
const TREES: Kind = Kind {
    code: 50,
    name: "VOLE trees",
};

/// The receiver's random linear combination of the noise, and its commitment.
const COMBINATION: Kind = Kind {
    code: 51,
    name: "VOLE combination",
};

/// The sender's side of the check.
const CHECK: Kind = Kind {
    code: 52,
    name: "VOLE check",
};

/// The receiver's opening.
const OPENING: Kind = Kind {
    code: 53,
    name: "VOLE opening",
};

/// The kind of elements in the receiver's half of a correlation.
pub trait Noise: Send + Sync + 'static {
    /// Bits of an element.
    const BITS: u32;
    /// Mask of the bits of a leaf that count.
    const LEAF: Block;
    /// Whether the value at a noise position is always 1.
    const BINARY: bool;
    /// The coefficients of the code.
    const COEFFICIENTS: Coefficients;
    /// The element in GF(2^128) with these coordinates.
    fn element(coordinates: Block) -> Block;
}

/// Bits: correlated oblivious transfer. The lowest bit of c is a; that of b is 0, and that of Δ is 1.
#[derive(Clone, Copy, Debug)]
pub struct Bit;

impl Noise for Bit {
    const BITS: u32 = 1;
    const LEAF: Block = !1;
    const BINARY: bool = true;
    const COEFFICIENTS: Coefficients = Coefficients::Bits;

    fn element(coordinates: Block) -> Block {
        coordinates
    }
}

impl<F: Field> Noise for F {
    const BITS: u32 = F::BITS;
    const LEAF: Block = Block::MAX;
    const BINARY: bool = false;
    const COEFFICIENTS: Coefficients = F::COEFFICIENTS;

    fn element(coordinates: Block) -> Block {
        F::from_block(coordinates).to_block()
    }
}

/// Sessions of the parts of a setup.
struct Sessions {
    oracle: Oracle,
}

impl Sessions {
    fn new(session: &[u8; 32], shape: &Shape, bits: u32) -> Self {
        let oracle = Oracle::new("vesica/1 silent", session);
        let shape: Vec<u8> = [shape.length, shape.chunks, shape.trees, shape.block]
            .iter()
            .flat_map(|n| (*n as u64).to_le_bytes())
            .chain(bits.to_le_bytes())
            .collect();
        let bound = oracle.hash(&[&shape]);
        Sessions {
            oracle: Oracle::new("vesica/1 silent parts", &bound),
        }
    }

    /// The same sessions, depending also on what the receiver has sent in the base OTs, which it cannot choose
    /// according to the resulting session.
    fn bound_to(&self, bound: &[u8; 32]) -> Self {
        let bound = self.oracle.hash(&[b"bound", bound]);
        Sessions {
            oracle: Oracle::new("vesica/1 silent parts", &bound),
        }
    }

    fn part(&self, name: &'static str) -> [u8; 32] {
        self.oracle.hash(&[name.as_bytes()])
    }
}

/// What the setup of `length` entries sends, between the receiver and the sender of the run. The check of a malicious run
/// comes last.
pub fn traffic<N: Noise>(
    traffic: &mut Traffic,
    security: Security,
    agreement: KeyAgreement,
    length: usize,
) {
    let shape = Shape::new(length, N::BITS);
    base_ot::traffic(traffic, End::Receiver, agreement, COLUMNS);
    let mut message = Frames::rows(COLUMNS, 32);
    for (bytes, count) in base_parts::<N>(base_bits::<N>(&shape, security).len()) {
        if count > 0 {
            message += Frames::rows(count, Pieces::of(&shape).corrections() * bytes);
        }
    }
    message += ot_extension::frames(shape.all_trees() * shape.depth, security);
    traffic.flow(End::Receiver, message);
    let trees = Frames::rows(shape.all_trees(), 16 * (2 * shape.depth + 1));
    traffic.flow(End::Sender, trees);
    if security.is_malicious() {
        traffic.flow(End::Receiver, Frames::rows(1, 48));
        traffic.flow(End::Sender, Frames::rows(1, 16));
        traffic.flow(End::Receiver, Frames::rows(1, 48));
    }
}

/// What the challenge of the check depends on.
struct Transcript(blake3::Hasher);

impl Transcript {
    fn new(sessions: &Sessions) -> Self {
        Transcript(blake3::Hasher::new_keyed(&sessions.part("transcript")))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// One challenge seed per chunk.
    fn challenges(&self, chunks: usize) -> Vec<Block> {
        let digest = *self.0.finalize().as_bytes();
        let (seed, _) = digest.split_at(16);
        let seed = Block::from_le_bytes(std::array::from_fn(|i| seed[i]));
        let mut seeds = vec![0; chunks];
        Prg::new(seed).fill(&mut seeds);
        seeds
    }
}

/// Masks of the coordinates of the base VOLE's entries: one for each tree unless the noise is binary, and in a malicious run
/// one for the entry that hides the combination.
fn base_bits<N: Noise>(shape: &Shape, security: Security) -> Vec<Block> {
    let trees = if N::BINARY { 0 } else { shape.all_trees() };
    let mut bits = vec![Block::MAX >> (128 - N::BITS); trees];
    if security.is_malicious() {
        bits.push(Block::MAX);
    }
    bits
}

/// The two seeds of a base OT's key: for the extension, and for the base VOLE.
fn two_seeds(key: Block) -> Zeroizing<[Block; 2]> {
    let mut seeds = Zeroizing::new([0; 2]);
    Prg::new(key).fill(&mut *seeds);
    seeds
}

fn blocks_of<const N: usize>(bytes: &[u8; N], first: usize) -> Block {
    Block::from_le_bytes(std::array::from_fn(|i| bytes[first + i]))
}

/// Room for the leaves of a tree.
fn leaves(shape: &Shape) -> Zeroizing<Vec<Block>> {
    Zeroizing::new(vec![0; 1 << shape.depth])
}

/// The parity halves of chunks after Convolve·D·Convolve. `fill` makes the rows of a block, from the numbers of its chunk
/// and its tree. A convolution takes one thread, so those of several chunks run side by side.
fn parities<N: Noise, const L: usize>(
    shape: &Shape,
    chunks: Range<usize>,
    fill: impl Fn(usize, usize, &mut [Block], &mut [[u64; L]]) + Sync,
) -> Vec<Zeroizing<Vec<[u64; L]>>> {
    let half = shape.trees / 2;
    let n = half * shape.block;
    let parity = |chunk| {
        let mut rows = Zeroizing::new(vec![[0; L]; n + EXTRA]);
        parallel::each_with(
            rows[..n].chunks_exact_mut(shape.block).enumerate(),
            || leaves(shape),
            |leaves, (tree, rows)| fill(chunk, half + tree, leaves, rows),
        );
        convolve_twice(&mut rows, N::COEFFICIENTS);
        rows.truncate(n);
        rows
    };
    parallel::map(chunks, parity)
}

/// Encodes chunks of single blocks, the first with the number `first`, into `out`. `grow` makes the tree of these numbers
/// of a chunk and a tree in it.
fn encode_blocks<N: Noise>(
    shape: &Shape,
    first: usize,
    out: &mut [Block],
    grow: impl Fn(usize, usize, &mut [Block]) + Sync,
) {
    let chunks = shape.chunks_of(first, out.len());
    let parities = parities::<N, 2>(shape, chunks, |chunk, tree, leaves, rows| {
        grow(chunk, tree, leaves);
        rows.copy_from_slice(bytemuck::must_cast_slice(&leaves[..rows.len()]));
    });
    let chunks = out.chunks_mut(shape.chunk.max(1)).zip(parities);
    for (chunk, (out, parity)) in (first..).zip(chunks) {
        parallel::each_with(
            out.chunks_mut(shape.block).enumerate(),
            || leaves(shape),
            |leaves, (tree, out)| {
                grow(chunk, tree, leaves);
                out.copy_from_slice(&leaves[..out.len()]);
                let rows = bytemuck::must_cast_slice_mut::<Block, [u64; 2]>(out);
                add_expanded(&parity, tree * shape.block, rows);
            },
        );
    }
}

/// The binding and hiding commitment to a value with 32 random bytes after it.
fn commitment(sessions: &Sessions, opening: &[u8; 48]) -> [u8; 32] {
    Oracle::new("vesica/1 silent commitment", &sessions.part("commitment")).hash(&[opening])
}

/// Splits `entries` into those for trees and the one for the check, each with the bytes of a correction.
fn base_parts<N: Noise>(entries: usize) -> [(usize, usize); 2] {
    // There is an even number of trees, and at most one entry for the check.
    let check = entries % 2;
    [(N::BITS as usize / 8, entries - check), (16, check)]
}

#[cfg(test)]
mod tests;
