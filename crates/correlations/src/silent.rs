//! Long correlations from short messages: silent vector OLE over GF(2^64) and GF(2^128), and silent
//! correlated oblivious transfer.
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
//! punctured tree a block: the sender knows all leaves, the receiver all but the one at its position,
//! which it gets with Δ·y added from one entry of a base vector OLE (for bits, y is 1
//! and nothing is needed). Both then apply the code, which makes e look random and keeps the
//! equation. Sums of tree levels travel by oblivious transfer, under an extension of 128 base transfers; 128
//! more make the base vector OLE. Long vectors come in chunks, each with noise of its own under one Δ; the
//! trees are grown again whenever a chunk is asked for, which costs little beside the code and bounds memory.
//!
//! **Assumption.** Dual LPN with regular noise for the pinned code. A linear test with a vector of
//! relative weight δ has bias (1 − δ·q/(q−1))^t over a field of q elements, so t = 128 / −log₂(1 − δ·q/(q−1))
//! leaves 2^-128 for every vector of at least the code's distance ([`noise_weight`]). Guessing enough
//! positions without noise (pooled Gauss, Prange) succeeds with probability 2^-t at rate 1/2, far below;
//! the algebraic attack on regular noise of Briaud and Øygarden (EUROCRYPT 2023) concerns rates and
//! weights far from these. The bound for large fields is stricter than the (1 − 2δ)^t that implementations use for
//! all fields: it takes about twice the trees.
//!
//! **Adversary.** Semi-honest, or malicious: then the extension runs its own check, and one random linear
//! combination of all leaves is compared before the halves are used. A receiver passes with wrong
//! messages only if it has guessed a set that contains Δ, a sender only if it has guessed a set that
//! contains the noise positions: 2^-c for c bits that it learns by it, and a wrong guess ends the run.
//! The order is such that neither gains from an abort: the receiver commits to its value, the sender shows
//! its own, the receiver compares and opens, the sender compares. No input has been used by then.
//!
//! **Deviations.** The challenge comes from a hash of the messages instead of a coin; the repetition of trees
//! under one pair of public keys of the run is covered in the ideal-cipher model with a loss of log₂ of
//! the number of nodes.

use std::marker::PhantomData;

use rand_core::CryptoRng;
use rayon::prelude::*;
use vesica_kernels::Backend;
use vesica_kernels::binary::{inner_product128, multiply128};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_wire::{Channel, Error, Kind, Misbehaviour, recv_rows, send_rows};
use zeroize::{Zeroize, Zeroizing};

use crate::base_ot;
use crate::base_vole::{self, CORRECTIONS, Holder, Message};
use crate::choices::Choices;
use crate::code::{DISTANCE_PERCENT, EXTRA, add_expanded, convolve_twice};
use crate::field::Field;
use crate::ot_extension::{self, COLUMNS, Security};
use crate::tree::{Trees, mask};

/// Masked sums of the base vector OLE.
const BASE_SUMS: Kind = Kind {
    code: 48,
    name: "base VOLE sums",
};

/// Corrections of the base vector OLE.
const BASE_CORRECTIONS: Kind = Kind {
    code: 49,
    name: "base VOLE corrections",
};

/// Masked sums of tree levels, and what makes up for a hole.
const TREES: Kind = Kind {
    code: 50,
    name: "VOLE trees",
};

/// The receiver's combination of noise, and its commitment.
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

/// Leaves of a tree of the longest chunk. A chunk's parity half, 16 or 32 bytes an entry, is what the code
/// jumps about in; trees are used best where a chunk just fits.
const MOST_LEAVES: usize = 1 << 12;

/// Entries of the shortest chunk: shorter vectors are cut from it, since the code's distance is an estimate
/// for long ones.
const SHORTEST_CHUNK: usize = 1 << 12;

/// What the receiver's half of a correlation is made of.
pub trait Noise: Send + Sync + 'static {
    /// Bits of an element.
    const BITS: u32;
    /// Bits that count in a leaf.
    const LEAF: Block;
    /// Whether the value at a noise position is always 1.
    const BINARY: bool;
}

/// Bits: correlated oblivious transfer. The lowest bit of c is a; that of b is 0, and that of Δ is 1.
#[derive(Clone, Copy, Debug)]
pub struct Bit;

impl Noise for Bit {
    const BITS: u32 = 1;
    const LEAF: Block = !1;
    const BINARY: bool = true;
}

impl<F: Field> Noise for F {
    const BITS: u32 = F::BITS;
    const LEAF: Block = Block::MAX;
    const BINARY: bool = false;
}

/// Positions with noise: the smallest even t with (1 − δ·q/(q−1))^t ≤ 2^-128 at the code's distance δ
/// over a field of q = 2^`bits` elements.
pub fn noise_weight(bits: u32) -> usize {
    const { assert!(DISTANCE_PERCENT == 15) };
    // 128 / −log₂(1 − 0.15·q/(q−1)), rounded up; fields between have values between.
    if bits == 1 { 250 } else { 546 }
}

/// How a correlation of a length is cut into chunks, blocks and trees: a function of length and field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries in all.
    pub length: usize,
    /// Chunks of equal length, the last one cut.
    pub chunks: usize,
    /// Entries of a chunk.
    pub chunk: usize,
    /// Trees of a chunk: half of them for the parity half of the code.
    pub trees: usize,
    /// Entries of a block: leaves of a tree that are used.
    pub block: usize,
    /// Levels of a tree, so that it has at least as many leaves.
    pub depth: usize,
}

impl Shape {
    /// The shape for `length` entries over a field of 2^`bits` elements.
    pub fn new(length: usize, bits: u32) -> Self {
        let trees = noise_weight(bits);
        let chunks = length.div_ceil(trees / 2 * MOST_LEAVES).max(1);
        let chunk = length.div_ceil(chunks);
        let block = chunk.max(SHORTEST_CHUNK).div_ceil(trees / 2);
        Shape {
            length,
            chunks,
            chunk,
            trees,
            block,
            depth: block.next_power_of_two().trailing_zeros() as usize,
        }
    }

    /// Entries of a chunk, the last one being shorter.
    pub fn chunk_length(&self, chunk: usize) -> usize {
        self.chunk
            .min(self.length - (chunk * self.chunk).min(self.length))
    }

    fn all_trees(&self) -> usize {
        self.chunks * self.trees
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

    /// The same, depending on the receiver's key of the base transfers as well, which it cannot choose
    /// by what follows from it.
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

/// What the challenge of the check depends on.
struct Transcript(blake3::Hasher);

impl Transcript {
    fn new(sessions: &Sessions) -> Self {
        Transcript(blake3::Hasher::new_keyed(&sessions.part("transcript")))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// A seed of challenges for each chunk.
    fn challenges(&self, chunks: usize) -> Vec<Block> {
        let digest = *self.0.finalize().as_bytes();
        let (seed, _) = digest.split_at(16);
        let seed = Block::from_le_bytes(std::array::from_fn(|i| seed[i]));
        let mut seeds = vec![0; chunks];
        Prg::new(seed).fill(&mut seeds);
        seeds
    }
}

/// Masks of the base vector OLE's entries: one for each tree unless the noise is binary, and in a
/// malicious run one that hides the combination.
fn base_bits<N: Noise>(shape: &Shape, security: Security) -> Vec<Block> {
    let trees = if N::BINARY { 0 } else { shape.all_trees() };
    let mut bits = vec![Block::MAX >> (128 - N::BITS); trees];
    if security == Security::Malicious {
        bits.push(Block::MAX);
    }
    bits
}

fn blocks_of<const N: usize>(bytes: &[u8; N], first: usize) -> Block {
    Block::from_le_bytes(std::array::from_fn(|i| bytes[first + i]))
}

/// The sender's half.
pub struct Sender<N> {
    shape: Shape,
    trees: Trees,
    delta: Zeroizing<Block>,
    roots: Zeroizing<Vec<Block>>,
    noise: PhantomData<N>,
}

impl<N: Noise> Sender<N> {
    /// Runs the setup for `length` entries; the peer calls [`Receiver::setup`].
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a receiver that does not pass a check.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::begin(channel, session, security, length, rng)?.finish(channel)
    }

    /// The setup without the check, which [`UncheckedSender::finish`] is.
    ///
    /// # Errors
    /// As [`Sender::setup`].
    pub fn begin(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<UncheckedSender<N>, Error> {
        let shape = Shape::new(length, N::BITS);
        let sessions = Sessions::new(session, &shape, N::BITS);
        let mut secret = || {
            let mut bytes = Zeroizing::new([0; 16]);
            rng.fill_bytes(bytes.as_mut());
            Zeroizing::new(Block::from_le_bytes(*bytes))
        };
        let (s, mut delta) = (secret(), secret());
        *delta |= Block::from(N::BINARY);
        let bits = base_bits::<N>(&shape, security);
        // Base transfers: for the extension, then for the base vector OLE.
        let chosen = Zeroizing::new(vec![*s, base_vole::choices(*delta)]);
        let chosen = Choices::from_blocks(chosen, COLUMNS + base_vole::TRANSFERS);
        let (keys, bound) =
            base_ot::receive_and_bind(channel, &sessions.part("base transfers"), chosen, rng)?;
        let sessions = sessions.bound_to(&bound);
        let mut transcript = Transcript::new(&sessions);
        let (for_extension, for_vole) = keys.split_at(COLUMNS);
        let (for_extension, _) = for_extension.as_chunks::<COLUMNS>();
        let mut extension =
            ot_extension::Sender::new(&sessions.part("extension"), security, *s, &for_extension[0]);
        // Base vector OLE.
        let message = receive_base::<N>(channel, &bits, &mut transcript)?;
        let b = base_vole::take(
            &sessions.part("base VOLE"),
            *delta,
            for_vole,
            &bits,
            &message,
        );
        drop(message);
        // Trees.
        let trees = Trees::new(&sessions.part("trees"), shape.depth);
        let depth = trees.depth();
        let pads = extension.random(channel, shape.all_trees() * depth)?;
        let mut roots = Zeroizing::new(vec![0; shape.all_trees()]);
        rng.fill_bytes(bytemuck::must_cast_slice_mut::<Block, u8>(&mut roots));
        let sender = Sender {
            shape,
            trees,
            delta,
            roots,
            noise: PhantomData,
        };
        let row = 2 * depth + 1;
        let mut rows = vec![0; shape.all_trees() * row];
        rows.par_chunks_exact_mut(row).enumerate().for_each_init(
            || Zeroizing::new(vec![0; sender.trees.leaves()]),
            |leaves, (i, row)| {
                let mut sums = Zeroizing::new(vec![[0; 2]; depth]);
                sender
                    .trees
                    .expand(sender.roots[i], leaves, Some(&mut sums));
                let pads = &pads[i * depth..][..depth];
                for (level, (sums, pads)) in sums.iter().zip(pads).enumerate() {
                    row[2 * level] = sums[0] ^ pads[0];
                    row[2 * level + 1] = sums[1] ^ pads[1];
                }
                let leaf_sum = leaves.iter().fold(0, |sum, leaf| sum ^ (leaf & N::LEAF));
                let at_hole = if N::BINARY { *sender.delta } else { b[i] };
                row[2 * depth] = leaf_sum ^ at_hole;
            },
        );
        let bytes = bytemuck::must_cast_slice::<Block, u8>(&rows);
        transcript.add(bytes);
        send_rows(channel, TREES, bytes, 16 * row)?;
        let hidden_by = (security == Security::Malicious).then(|| b[b.len() - 1]);
        Ok(UncheckedSender {
            sender,
            sessions,
            transcript,
            hidden_by,
        })
    }

    /// Compares one random linear combination with the receiver.
    fn check(
        &self,
        channel: &mut dyn Channel,
        sessions: &Sessions,
        transcript: &Transcript,
        hidden_by: Block,
    ) -> Result<(), Error> {
        let shape = &self.shape;
        let own = transcript
            .challenges(shape.chunks)
            .par_iter()
            .enumerate()
            .map(|(chunk, seed)| {
                let mut factors = Prg::new(*seed);
                let mut chi = vec![0; self.trees.leaves()];
                let mut leaves = vec![0; self.trees.leaves()];
                let mut sum = 0;
                for tree in 0..shape.trees {
                    factors.fill(&mut chi);
                    self.leaves(chunk, tree, &mut leaves);
                    sum ^= inner_product128(Backend::Best, &chi, &leaves);
                }
                sum
            })
            .reduce(|| 0, |a, b| a ^ b)
            ^ hidden_by;
        let mut combination = [0; 48];
        recv_rows(channel, COMBINATION, 48, 1, |row| {
            combination.copy_from_slice(row);
            Ok(())
        })?;
        let x = blocks_of(&combination, 0);
        let value = own ^ multiply128(Backend::Best, *self.delta, x);
        send_rows(channel, CHECK, &value.to_le_bytes(), 16)?;
        let mut opening = [0; 48];
        recv_rows(channel, OPENING, 48, 1, |row| {
            opening.copy_from_slice(row);
            Ok(())
        })?;
        let committed = commitment(sessions, &opening);
        if committed[..] != combination[16..] {
            return Err(Misbehaviour::BadValue {
                what: OPENING.name,
                problem: "not what was committed to",
            }
            .into());
        }
        if blocks_of(&opening, 0) != value {
            return Err(Misbehaviour::BadValue {
                what: OPENING.name,
                problem: "the correlation is inconsistent",
            }
            .into());
        }
        Ok(())
    }

    /// How the correlation is cut.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Δ.
    pub fn delta(&self) -> Block {
        *self.delta
    }

    fn leaves(&self, chunk: usize, tree: usize, leaves: &mut [Block]) {
        let root = self.roots[chunk * self.shape.trees + tree];
        self.trees.expand(root, leaves, None);
        if N::BINARY {
            leaves.iter_mut().for_each(|leaf| *leaf &= N::LEAF);
        }
    }

    /// Entries b of one chunk. Every chunk can be made any number of times, and must be used once.
    ///
    /// # Panics
    /// If `b` does not have the chunk's length.
    pub fn expand(&self, chunk: usize, b: &mut [Block]) {
        assert_eq!(b.len(), self.shape.chunk_length(chunk));
        encode_blocks(&self.shape, b, |tree, leaves| {
            self.leaves(chunk, tree, leaves)
        });
    }
}

/// Encodes one chunk of single blocks, whose trees `grow` makes, into `out`.
fn encode_blocks(shape: &Shape, out: &mut [Block], grow: impl Fn(usize, &mut [Block]) + Sync) {
    let half = shape.trees / 2;
    let n = half * shape.block;
    let leaves = || Zeroizing::new(vec![0; 1 << shape.depth]);
    let mut parity = Zeroizing::new(vec![0; n + EXTRA]);
    parity[..n]
        .par_chunks_exact_mut(shape.block)
        .enumerate()
        .for_each_init(leaves, |leaves, (tree, rows)| {
            grow(half + tree, leaves);
            rows.copy_from_slice(&leaves[..rows.len()]);
        });
    convolve_twice(bytemuck::must_cast_slice_mut::<Block, [u64; 2]>(
        &mut parity,
    ));
    let parity = bytemuck::must_cast_slice::<Block, [u64; 2]>(&parity[..n]);
    out.par_chunks_mut(shape.block)
        .enumerate()
        .for_each_init(leaves, |leaves, (tree, out)| {
            grow(tree, leaves);
            out.copy_from_slice(&leaves[..out.len()]);
            let rows = bytemuck::must_cast_slice_mut::<Block, [u64; 2]>(out);
            add_expanded(parity, tree * shape.block, rows);
        });
}

/// A sender whose receiver has not yet passed the check of a malicious run.
pub struct UncheckedSender<N> {
    sender: Sender<N>,
    sessions: Sessions,
    transcript: Transcript,
    /// The entry that hides the combination, if there is a check.
    hidden_by: Option<Block>,
}

impl<N: Noise> UncheckedSender<N> {
    /// How the correlation is cut.
    pub fn shape(&self) -> &Shape {
        &self.sender.shape
    }

    /// A hash of the run that the receiver has contributed to after the session was fixed: the sender
    /// cannot have chosen the session by it.
    pub fn session(&self) -> [u8; 32] {
        self.sessions.part("after")
    }

    /// As [`Sender::expand`], for work ahead: nothing that depends on it may go out before the check.
    pub fn expand(&self, chunk: usize, b: &mut [Block]) {
        self.sender.expand(chunk, b);
    }

    /// The check, if the run is malicious.
    ///
    /// # Errors
    /// As [`Sender::setup`].
    pub fn finish(self, channel: &mut dyn Channel) -> Result<Sender<N>, Error> {
        if let Some(hidden_by) = self.hidden_by {
            let (sessions, transcript) = (&self.sessions, &self.transcript);
            self.sender
                .check(channel, sessions, transcript, hidden_by)?;
        }
        Ok(self.sender)
    }
}

/// The binding and hiding commitment to a value with 32 random bytes after it.
fn commitment(sessions: &Sessions, opening: &[u8; 48]) -> [u8; 32] {
    Oracle::new("vesica/1 silent commitment", &sessions.part("commitment")).hash(&[opening])
}

/// Sends the holder's message of the base vector OLE.
fn send_base<N: Noise>(
    channel: &mut dyn Channel,
    message: &Message,
    transcript: &mut Transcript,
) -> Result<(), Error> {
    let sums = bytemuck::must_cast_slice::<[Block; 2], u8>(&message.sums);
    transcript.add(sums);
    send_rows(channel, BASE_SUMS, sums, 32)?;
    for (bytes, entries) in base_parts::<N>(&message.corrections) {
        if entries.is_empty() {
            continue;
        }
        let mut rows = Vec::with_capacity(entries.len() * CORRECTIONS * bytes);
        for correction in entries.as_flattened() {
            rows.extend_from_slice(&correction.to_le_bytes()[..bytes]);
        }
        transcript.add(&rows);
        send_rows(channel, BASE_CORRECTIONS, &rows, CORRECTIONS * bytes)?;
    }
    Ok(())
}

/// Entries for trees and the one for the check, with the bytes of a correction.
fn base_parts<N: Noise>(
    corrections: &[[Block; CORRECTIONS]],
) -> [(usize, &[[Block; CORRECTIONS]]); 2] {
    // The entry for the check, if there is one, is the only one over the large field beside those of trees.
    let trees = corrections.len() - corrections.len() % 2;
    let (trees, check) = corrections.split_at(trees);
    [(N::BITS as usize / 8, trees), (16, check)]
}

/// Receives it.
fn receive_base<N: Noise>(
    channel: &mut dyn Channel,
    bits: &[Block],
    transcript: &mut Transcript,
) -> Result<Message, Error> {
    let mut message = Message {
        sums: Vec::with_capacity(base_vole::TRANSFERS),
        corrections: Vec::with_capacity(bits.len()),
    };
    recv_rows(channel, BASE_SUMS, 32, base_vole::TRANSFERS, |rows| {
        transcript.add(rows);
        let (blocks, _) = rows.as_chunks::<16>();
        let (pairs, _) = blocks.as_chunks::<2>();
        let sums = pairs.iter().map(|pair| pair.map(Block::from_le_bytes));
        message.sums.extend(sums);
        Ok(())
    })?;
    let counts = base_parts::<N>(&vec![[0; CORRECTIONS]; bits.len()]).map(|(b, e)| (b, e.len()));
    for (bytes, count) in counts {
        if count == 0 {
            continue;
        }
        recv_rows(
            channel,
            BASE_CORRECTIONS,
            CORRECTIONS * bytes,
            count,
            |rows| {
                transcript.add(rows);
                for row in rows.chunks_exact(CORRECTIONS * bytes) {
                    let mut entry = [0; CORRECTIONS];
                    for (block, bytes) in entry.iter_mut().zip(row.chunks_exact(bytes)) {
                        let mut wide = [0; 16];
                        wide[..bytes.len()].copy_from_slice(bytes);
                        *block = Block::from_le_bytes(wide);
                    }
                    message.corrections.push(entry);
                }
                Ok(())
            },
        )?;
    }
    Ok(message)
}

/// What the receiver knows of one tree.
struct Hole {
    place: usize,
    /// Sums beside the way to the hole.
    sums: Vec<Block>,
    /// y, the noise there.
    noise: Block,
    /// What the hole's leaf is, once all others are added.
    leaf: Block,
}

impl Drop for Hole {
    fn drop(&mut self) {
        self.place.zeroize();
        self.sums.zeroize();
        self.noise.zeroize();
        self.leaf.zeroize();
    }
}

/// A receiver that waits for the sender's trees.
pub struct WaitingReceiver<N> {
    shape: Shape,
    trees: Trees,
    sessions: Sessions,
    transcript: Transcript,
    base: Holder,
    /// The entries that hide the combination, if there is a check.
    hidden_by: Option<(Block, Block)>,
    places: Zeroizing<Vec<usize>>,
    pads: Zeroizing<Vec<Block>>,
    noise: PhantomData<N>,
}

impl<N: Noise> WaitingReceiver<N> {
    /// That of [`UncheckedSender::session`].
    pub fn session(&self) -> [u8; 32] {
        self.sessions.part("after")
    }

    /// Takes the trees, and checks them in a malicious run.
    ///
    /// # Errors
    /// As [`Receiver::setup`].
    pub fn finish(
        self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<Receiver<N>, Error> {
        let WaitingReceiver {
            shape,
            trees,
            sessions,
            mut transcript,
            base,
            hidden_by,
            places,
            pads,
            noise: _,
        } = self;
        let depth = trees.depth();
        let row = 2 * depth + 1;
        let mut holes = Vec::with_capacity(shape.all_trees());
        recv_rows(channel, TREES, 16 * row, shape.all_trees(), |rows| {
            transcript.add(rows);
            for bytes in rows.chunks_exact(16 * row) {
                let i = holes.len();
                let (blocks, _) = bytes.as_chunks::<16>();
                let block = |at: usize| Block::from_le_bytes(blocks[at]);
                let sums = (0..depth).map(|level| {
                    let right = 0u128.wrapping_sub((!places[i] >> (depth - level - 1) & 1) as u128);
                    let (left_sum, right_sum) = (block(2 * level), block(2 * level + 1));
                    left_sum ^ (right & (left_sum ^ right_sum)) ^ pads[i * depth + level]
                });
                let (noise, own) = if N::BINARY {
                    (1, 0)
                } else {
                    (base.y[i], base.c[i])
                };
                holes.push(Hole {
                    place: places[i],
                    sums: sums.collect(),
                    noise,
                    leaf: block(2 * depth) ^ own,
                });
            }
            Ok(())
        })?;
        let receiver = Receiver {
            shape,
            trees,
            holes,
            noise: PhantomData,
        };
        if let Some(hidden_by) = hidden_by {
            receiver.check(channel, &sessions, &transcript, hidden_by, rng)?;
        }
        Ok(receiver)
    }
}

/// The receiver's half.
pub struct Receiver<N> {
    shape: Shape,
    trees: Trees,
    holes: Vec<Hole>,
    noise: PhantomData<N>,
}

impl<N: Noise> Receiver<N> {
    /// Runs the setup for `length` entries; the peer calls [`Sender::setup`].
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a sender that does not pass a check.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::begin(channel, session, security, length, rng)?.finish(channel, rng)
    }

    /// The setup up to the point where the sender has work to do, so that the receiver may do some of
    /// its own; [`WaitingReceiver::finish`] goes on.
    ///
    /// # Errors
    /// As [`Receiver::setup`].
    pub fn begin(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        length: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<WaitingReceiver<N>, Error> {
        let shape = Shape::new(length, N::BITS);
        let sessions = Sessions::new(session, &shape, N::BITS);
        let bits = base_bits::<N>(&shape, security);
        let (keys, bound) = base_ot::send_and_bind(
            channel,
            &sessions.part("base transfers"),
            COLUMNS + base_vole::TRANSFERS,
            rng,
        )?;
        let sessions = sessions.bound_to(&bound);
        let mut transcript = Transcript::new(&sessions);
        let (for_extension, for_vole) = keys.split_at(COLUMNS);
        let (for_extension, _) = for_extension.as_chunks::<COLUMNS>();
        let mut extension = ot_extension::Receiver::new(
            &sessions.part("extension"),
            security,
            &for_extension[0],
            rng,
        );
        let (base, message) = base_vole::hold(&sessions.part("base VOLE"), for_vole, &bits, rng);
        send_base::<N>(channel, &message, &mut transcript)?;
        let trees = Trees::new(&sessions.part("trees"), shape.depth);
        let depth = trees.depth();
        let places = places(&shape, rng);
        let chosen = sides(&places, depth);
        let pads = extension.random(channel, &chosen)?;
        Ok(WaitingReceiver {
            shape,
            trees,
            sessions,
            transcript,
            hidden_by: (security == Security::Malicious)
                .then(|| (base.y[bits.len() - 1], base.c[bits.len() - 1])),
            base,
            places,
            pads,
            noise: PhantomData,
        })
    }

    /// Compares one random linear combination with the sender.
    fn check(
        &self,
        channel: &mut dyn Channel,
        sessions: &Sessions,
        transcript: &Transcript,
        hidden_by: (Block, Block),
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let shape = &self.shape;
        let (x, value) = transcript
            .challenges(shape.chunks)
            .par_iter()
            .enumerate()
            .map(|(chunk, seed)| {
                let mut factors = Prg::new(*seed);
                let mut chi = vec![0; self.trees.leaves()];
                let mut leaves = vec![0; self.trees.leaves()];
                let mut sums = (0, 0);
                for tree in 0..shape.trees {
                    factors.fill(&mut chi);
                    let hole = self.leaves(chunk, tree, &mut leaves);
                    let factor = chi
                        .iter()
                        .enumerate()
                        .fold(0, |found, (i, chi)| found | (mask(i, hole.place) & chi));
                    sums.0 ^= multiply128(Backend::Best, factor, hole.noise);
                    sums.1 ^= inner_product128(Backend::Best, &chi, &leaves);
                }
                sums
            })
            .reduce(|| (0, 0), |a, b| (a.0 ^ b.0, a.1 ^ b.1));
        let (x, value) = (x ^ hidden_by.0, value ^ hidden_by.1);
        let mut opening = [0; 48];
        opening[..16].copy_from_slice(&value.to_le_bytes());
        rng.fill_bytes(&mut opening[16..]);
        let mut combination = [0; 48];
        combination[..16].copy_from_slice(&x.to_le_bytes());
        combination[16..].copy_from_slice(&commitment(sessions, &opening));
        send_rows(channel, COMBINATION, &combination, 48)?;
        recv_rows(channel, CHECK, 16, 1, |row| {
            if *row != value.to_le_bytes() {
                return Err(Misbehaviour::BadValue {
                    what: CHECK.name,
                    problem: "the correlation is inconsistent",
                }
                .into());
            }
            Ok(())
        })?;
        send_rows(channel, OPENING, &opening, 48)
    }

    /// How the correlation is cut.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// c before the code: all leaves of a tree, the hole filled.
    fn leaves(&self, chunk: usize, tree: usize, leaves: &mut [Block]) -> &Hole {
        let hole = &self.holes[chunk * self.shape.trees + tree];
        self.trees.expand_punctured(hole.place, &hole.sums, leaves);
        if N::BINARY {
            leaves.iter_mut().for_each(|leaf| *leaf &= N::LEAF);
        }
        let missing = leaves.iter().fold(hole.leaf, |sum, leaf| sum ^ leaf);
        for (i, leaf) in leaves.iter_mut().enumerate() {
            *leaf ^= mask(i, hole.place) & missing;
        }
        hole
    }
}

impl<F: Field> Receiver<F> {
    /// Entries a and c of one chunk. Every chunk can be made any number of times, and must be used once.
    ///
    /// # Panics
    /// If `a` and `c` do not have the chunk's length.
    pub fn expand(&self, chunk: usize, a: &mut [F], c: &mut [Block]) {
        let shape = &self.shape;
        assert_eq!(a.len(), shape.chunk_length(chunk));
        assert_eq!(c.len(), a.len());
        let half = shape.trees / 2;
        let n = half * shape.block;
        // A row holds an entry of e and of c', so that the code fetches both at once.
        let fill = |tree: usize, leaves: &mut [Block], rows: &mut [[u64; 4]]| {
            let hole = self.leaves(chunk, tree, leaves);
            for (i, (row, leaf)) in rows.iter_mut().zip(leaves.iter()).enumerate() {
                let noise = mask(i, hole.place) & hole.noise;
                *row = bytemuck::must_cast::<[Block; 2], [u64; 4]>([noise, *leaf]);
            }
        };
        let leaves = || Zeroizing::new(vec![0; 1 << shape.depth]);
        let mut parity = Zeroizing::new(vec![[0u64; 4]; n + EXTRA]);
        parity[..n]
            .par_chunks_exact_mut(shape.block)
            .enumerate()
            .for_each_init(leaves, |leaves, (tree, rows)| {
                fill(half + tree, leaves, rows);
            });
        convolve_twice(&mut parity);
        a.par_chunks_mut(shape.block)
            .zip(c.par_chunks_mut(shape.block))
            .enumerate()
            .for_each_init(
                || (leaves(), Zeroizing::new(vec![[0u64; 4]; shape.block])),
                |(leaves, rows), (tree, (a, c))| {
                    let rows = &mut rows[..a.len()];
                    fill(tree, leaves, rows);
                    add_expanded(&parity[..n], tree * shape.block, rows);
                    for ((a, c), row) in a.iter_mut().zip(c.iter_mut()).zip(rows) {
                        let [noise, leaf] = bytemuck::must_cast::<[u64; 4], [Block; 2]>(*row);
                        *a = F::from_block(noise);
                        *c = leaf;
                    }
                },
            );
    }
}

impl Receiver<Bit> {
    /// Entries c of one chunk, the lowest bit of each being a. Every chunk can be made any number of
    /// times, and must be used once.
    ///
    /// # Panics
    /// If `c` does not have the chunk's length.
    pub fn expand(&self, chunk: usize, c: &mut [Block]) {
        assert_eq!(c.len(), self.shape.chunk_length(chunk));
        encode_blocks(&self.shape, c, |tree, leaves| {
            self.leaves(chunk, tree, leaves);
        });
    }
}

/// For each level of each tree, the side beside the way to its place: 1 for the right one.
fn sides(places: &[usize], depth: usize) -> Choices {
    let count = places.len() * depth;
    let mut blocks = Zeroizing::new(vec![0; count.div_ceil(128)]);
    for (tree, place) in places.iter().enumerate() {
        for level in 0..depth {
            let i = tree * depth + level;
            let right = !place >> (depth - level - 1) & 1;
            blocks[i / 128] |= (right as Block) << (i % 128);
        }
    }
    Choices::from_blocks(blocks, count)
}

/// A uniform position in each block.
fn places(shape: &Shape, rng: &mut dyn CryptoRng) -> Zeroizing<Vec<usize>> {
    let mut random = Zeroizing::new(vec![[0u8; 16]; shape.all_trees()]);
    rng.fill_bytes(random.as_flattened_mut());
    // 96 bits times fewer than 2^32 leaves: uniform up to 2^-64.
    let place = |bytes: &[u8; 16]| {
        (((u128::from_le_bytes(*bytes) >> 32) * shape.block as u128) >> 96) as usize
    };
    Zeroizing::new(random.iter().map(place).collect())
}

#[cfg(test)]
mod tests;
