//! OLE tuples from oblivious transfers (OTs), chosen by the bits of s.
//!
//! **Paper.** KBM23, section IV-D, after N. Gilboa, *Two Party RSA Key Generation*, CRYPTO 1999.
//!
//! **Adversary.** Semi-honest.
//!
//! **What is revealed.** Nothing: both parties' messages are uniform.
//!
//! **Steps**, for each bin, whose s has ℓ bits:
//! 1. Both take ℓ random correlated OTs. The receiver sends which of its random choice bits are not those of s.
//! 2. From OT number i, both of whose keys it has, the sender makes residues a_i and b_i for every row, and sends a_i +
//!    2^i·u − b_i. It sets v = Σ a_i.
//! 3. The receiver has a_i if bit i of s is 0, and otherwise makes a_i + 2^i·u from b_i and what was sent. The sum of
//!    all is r = v + u·s.
//!
//! **Deviations.** The paper chooses by the bits of r_B, so that every product takes ℓ OTs. Here they are chosen by those
//! of s, of which a bin has one: all rows share ℓ OTs, a factor of β fewer. The OTs are those of [`bulk`], at 1.3 bits of
//! traffic each.
//!
//! **Pads.** A key is hashed to a pad. The receiver comes to know most of the pads that it was not meant to have: the
//! sender's dummy is public, and most entries of a bin are dummies. So four blocks of a pad have an AES key of their own,
//! and an evaluation of AES tests a guess at Δ against no more than these.
//!
//! **Uniform residues.** A key is hashed to some candidates of ℓ bits more than there are rows, and those below Q are
//! taken. Too few are left in any of all OTs with probability at most 2^-λ (`spare`); zeros stand for those.

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::residues::{self, Modulus};
use vesica_primitives::block::{Block, Rekeyed};
use vesica_primitives::parallel;
use vesica_primitives::scaled::{Round, Scaled};
use vesica_primitives::security::KeyAgreement;
use vesica_wire::{
    Channel, End, Error, Frames, Kind, MAX_FRAME, Misbehaviour, Traffic, recv_exact,
};
use zeroize::Zeroizing;

use super::{BLOCK, ReceiverHalf, Rows, SenderHalf, Shape, Source};
use crate::bulk::traffic::Cots;
use crate::bulk::{self, Optimize, SemiHonest};
use crate::cot;

/// Frames with the corrections of choice bits of one block.
pub const CHOICES: Kind = Kind {
    code: 106,
    name: "tuple choices",
};

/// Frames with the offers for some bins of a block.
pub const OFFERS: Kind = Kind {
    code: 107,
    name: "tuple offers",
};

/// Maximum number of COTs taken at a time, if more than one block's: 32 MiB. Each time costs a round trip.
const COTS: usize = 1 << 21;

/// Number of candidates beyond `rows` with which a key gives `rows` residues, except with probability 2^-`lambda` in any
/// of `keys` keys.
///
/// A candidate is rejected with probability p = 1 − Q/2^ℓ; more than e of n + e are with probability at most
/// C(n + e, e + 1)·p^(e+1).
fn spare(modulus: Modulus, rows: usize, keys: u64, lambda: u32) -> usize {
    let up = Round::Up;
    let rejected = (1u64 << modulus.bits()) - modulus.get();
    let p = Scaled::power_of_two(-i64::from(modulus.bits())).times_whole(rejected, up);
    let rare = Scaled::power_of_two(-i64::from(lambda));
    let mut chance = Scaled::power_of_two(0).times_whole(keys.max(1), up);
    for e in 0.. {
        // C(n + e, e + 1) is the product of (n + i)/(i + 1) for i from 0 to e.
        chance = chance
            .times_whole(rows as u64 + e, up)
            .over(e + 1, up)
            .times(p, up);
        if chance.at_most(rare) {
            return e as usize;
        }
    }
    unreachable!("p is at most one half")
}

/// How OTs become tuples: what both parties know.
struct Layout {
    shape: Shape,
    /// Candidates of a key.
    candidates: usize,
    hash: Rekeyed,
}

impl Layout {
    fn new(shape: Shape, lambda: u32, session: &[u8; 32]) -> Self {
        let keys = 2 * shape.bins as u64 * u64::from(shape.modulus.bits());
        let spare = spare(shape.modulus, shape.per_bin, keys, lambda);
        Layout {
            shape,
            candidates: shape.per_bin + spare,
            hash: Rekeyed::new("vesica/1 tuple keys", session),
        }
    }

    /// ℓ, the OTs of a bin.
    fn bits(&self) -> usize {
        self.shape.modulus.bits() as usize
    }

    /// All OTs.
    fn transfers(&self) -> usize {
        self.shape.bins * self.bits()
    }

    /// Blocks into which a key is hashed.
    fn pad_blocks(&self) -> usize {
        (self.candidates * self.bits()).div_ceil(128)
    }

    /// Bytes of the offer of an OT.
    fn offer_bytes(&self) -> usize {
        self.shape.modulus.bytes(self.shape.per_bin)
    }

    /// Bytes of the offers of a bin.
    fn bin_bytes(&self) -> usize {
        self.bits() * self.offer_bytes()
    }

    /// Bytes of the corrections of a block.
    fn choice_bytes(&self, block: usize) -> usize {
        (self.shape.width(block) * self.bits()).div_ceil(8)
    }

    /// Batches of blocks whose COTs are taken together.
    fn batches(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (blocks, each) = (self.shape.blocks(), (COTS / (BLOCK * self.bits())).max(1));
        (0..blocks)
            .step_by(each)
            .map(move |first| first..blocks.min(first + each))
    }

    /// Number of the first OT of a block.
    fn first(&self, block: usize) -> usize {
        self.shape.bins.min(block * BLOCK) * self.bits()
    }

    /// Bins whose offers make up one message, which is a frame unless it is that of one bin.
    fn bins_together(&self) -> usize {
        (MAX_FRAME / self.bin_bytes()).max(1)
    }
}

/// Buffers for the work on one bin.
struct Scratch {
    /// Keys for a choice bit of 0, then for one of 1; or those that the receiver has.
    keys: Zeroizing<Vec<Block>>,
    /// The first blocks of all keys' pads, then the second, and so on.
    pads: Zeroizing<Vec<Block>>,
    pad: Zeroizing<Vec<Block>>,
    candidates: Zeroizing<Vec<u64>>,
    kept: Zeroizing<Vec<u64>>,
    /// Residues of the keys for a choice bit of 0 and of 1, or of those that the receiver has.
    residues: [Zeroizing<Vec<u64>>; 2],
    offer: Zeroizing<Vec<u64>>,
}

impl Scratch {
    fn new(layout: &Layout) -> Self {
        let (bits, rows) = (layout.bits(), layout.shape.per_bin);
        Scratch {
            keys: Zeroizing::new(vec![0; 2 * bits]),
            pads: Zeroizing::new(vec![0; 2 * bits * layout.pad_blocks()]),
            pad: Zeroizing::new(vec![0; layout.pad_blocks()]),
            candidates: Zeroizing::new(vec![0; layout.candidates]),
            kept: Zeroizing::new(vec![0; layout.candidates + 1]),
            residues: [(); 2].map(|()| Zeroizing::new(vec![0; bits * rows])),
            offer: Zeroizing::new(vec![0; rows]),
        }
    }

    /// Sets the residues to those of a bin's keys with each of the offsets added, `per_bin` of each key. The first key is
    /// that of OT number `first`.
    fn residues(&mut self, layout: &Layout, keys: &[Block], offsets: &[Block], first: usize) {
        let all = offsets.len() * keys.len();
        let (inputs, pads) = (
            &mut self.keys[..all],
            &mut self.pads[..all * layout.pad_blocks()],
        );
        for (inputs, offset) in inputs.chunks_exact_mut(keys.len()).zip(offsets) {
            for (to, key) in inputs.iter_mut().zip(keys) {
                *to = key ^ offset;
            }
        }
        layout.hash.expand(first, keys.len(), inputs, pads);
        let modulus = layout.shape.modulus;
        let rows = self.residues.iter_mut();
        let rows = rows.flat_map(|rows| rows.chunks_exact_mut(layout.shape.per_bin));
        for (p, out) in rows.take(all).enumerate() {
            for (to, from) in self.pad.iter_mut().zip(pads[p..].iter().step_by(all)) {
                *to = *from;
            }
            let bytes: &[u8] = bytemuck::must_cast_slice(&self.pad);
            residues::unpack(Backend::Best, modulus, bytes, &mut self.candidates);
            // Whether one is rejected or not: the peer knows both keys of an OT, and time would tell which one this is.
            let (start, end) = (0, modulus.get());
            let count = residues::select(&self.candidates, start, end, &mut self.kept);
            for ((out, kept), number) in out.iter_mut().zip(self.kept.iter()).zip(0..) {
                *out = kept & u64::from(number < count).wrapping_neg();
            }
        }
    }
}

/// Element i·`width` + j becomes element j·height + i.
fn transposed(from: &[u64], width: usize) -> Zeroizing<Vec<u64>> {
    let height = from.len() / width;
    let mut to = Zeroizing::new(vec![0; from.len()]);
    for (j, column) in to.chunks_exact_mut(height).enumerate() {
        for (to, from) in column.iter_mut().zip(from[j..].iter().step_by(width)) {
            *to = *from;
        }
    }
    to
}

/// The sender at one block.
struct Sender<'a> {
    layout: &'a Layout,
    delta: Block,
    /// The keys of the block's OTs for a choice bit of 0.
    keys: &'a [Block],
    /// Number of the first of them.
    first: usize,
}

impl<'a> Sender<'a> {
    /// Step 1: applies the receiver's corrections to the COTs `q`.
    fn new(
        layout: &'a Layout,
        block: usize,
        delta: Block,
        q: &'a mut [Block],
        corrections: &[u8],
    ) -> Self {
        for (i, q) in q.iter_mut().enumerate() {
            let bit = Block::from(corrections[i / 8] >> (i % 8) & 1);
            *q ^= bit.wrapping_neg() & delta;
        }
        let first = layout.first(block);
        Sender {
            layout,
            delta,
            keys: q,
            first,
        }
    }

    /// Step 2 for one bin: from its u, which is used up, to its v and the packed offers.
    fn bin(
        &self,
        bin: usize,
        u: &mut [u64],
        v: &mut [u64],
        offers: &mut [u8],
        scratch: &mut Scratch,
    ) {
        let layout = self.layout;
        let (bits, rows, modulus) = (layout.bits(), u.len(), layout.shape.modulus);
        let (keys, first) = (&self.keys[bin * bits..][..bits], self.first + bin * bits);
        scratch.residues(layout, keys, &[0, self.delta], first);
        let [zeros, ones] = &scratch.residues;
        let pairs = zeros.chunks_exact(rows).zip(ones.chunks_exact(rows));
        for ((zero, one), out) in pairs.zip(offers.chunks_exact_mut(layout.offer_bytes())) {
            residues::offer_bit(Backend::Best, modulus, zero, one, u, v, &mut scratch.offer);
            residues::pack(Backend::Best, modulus, &scratch.offer, out);
        }
    }

    /// Step 2: sends the offers, and returns the v of the block, row by row.
    fn offers(&self, channel: &mut dyn Channel, u: &[u64]) -> Result<Zeroizing<Vec<u64>>, Error> {
        let rows = self.layout.shape.per_bin;
        let width = u.len() / rows;
        let mut u = transposed(u, width);
        let mut v = Zeroizing::new(vec![0; u.len()]);
        let together = self.layout.bins_together();
        let each = self.layout.bin_bytes();
        let parts = u
            .chunks_mut(together * rows)
            .zip(v.chunks_mut(together * rows));
        for (part, (u, v)) in parts.enumerate() {
            let mut offers = vec![0; u.len() / rows * each];
            let bins = u.chunks_exact_mut(rows).zip(v.chunks_exact_mut(rows));
            let bins = bins.zip(offers.chunks_exact_mut(each)).enumerate();
            parallel::each_with(
                bins,
                || Scratch::new(self.layout),
                |scratch, (i, ((u, v), offers))| {
                    self.bin(part * together + i, u, v, offers, scratch);
                },
            );
            for frame in offers.chunks(MAX_FRAME) {
                channel.send(OFFERS, frame.to_vec())?;
            }
        }
        Ok(transposed(&v, rows))
    }
}

/// The receiver at one block.
struct Receiver<'a> {
    layout: &'a Layout,
    s: &'a [u64],
    /// The block's COTs.
    t: &'a [Block],
    /// Number of the first of them.
    first: usize,
}

impl Receiver<'_> {
    /// Step 1: the corrections.
    fn corrections(&self, block: usize) -> Vec<u8> {
        let bits = self.layout.bits();
        let mut out = vec![0; self.layout.choice_bytes(block)];
        for (i, t) in self.t.iter().enumerate() {
            let wanted = self.s[i / bits] >> (i % bits);
            out[i / 8] |= ((wanted as u8 ^ *t as u8) & 1) << (i % 8);
        }
        out
    }

    /// Step 3 for one bin: from the packed offers to its r.
    fn bin(
        &self,
        bin: usize,
        offers: &[u8],
        r: &mut [u64],
        scratch: &mut Scratch,
    ) -> Result<(), Misbehaviour> {
        let layout = self.layout;
        let (bits, rows, modulus) = (layout.bits(), r.len(), layout.shape.modulus);
        let keys = &self.t[bin * bits..][..bits];
        scratch.residues(layout, keys, &[0], self.first + bin * bits);
        for (bit, known) in scratch.residues[0].chunks_exact(rows).enumerate() {
            let (packed, offer) = (&offers[bit * layout.offer_bytes()..], &mut scratch.offer);
            super::unpack(OFFERS, modulus, packed, offer)?;
            let mask = (self.s[bin] >> bit & 1).wrapping_neg();
            residues::take_bit(Backend::Best, modulus, known, offer, mask, r);
        }
        Ok(())
    }

    /// Step 3: receives the offers, and returns the r of the block, row by row.
    fn take(&self, channel: &mut dyn Channel) -> Result<Zeroizing<Vec<u64>>, Error> {
        let (rows, width) = (self.layout.shape.per_bin, self.s.len());
        let mut r = Zeroizing::new(vec![0; width * rows]);
        let together = self.layout.bins_together();
        let each = self.layout.bin_bytes();
        for (part, r) in r.chunks_mut(together * rows).enumerate() {
            let length = r.len() / rows * each;
            let mut offers = Vec::with_capacity(length);
            while offers.len() < length {
                let left = (length - offers.len()).min(MAX_FRAME);
                offers.extend(recv_exact(channel, OFFERS, left)?);
            }
            let bins = r.chunks_exact_mut(rows).zip(offers.chunks_exact(each));
            parallel::try_each_with(
                bins.enumerate(),
                || Scratch::new(self.layout),
                |scratch, (i, (r, offers))| self.bin(part * together + i, offers, r, scratch),
            )?;
        }
        Ok(transposed(&r, rows))
    }
}

/// Makes the sender's half from a source of COTs.
fn send_with(
    channel: &mut dyn Channel,
    layout: &Layout,
    source: &mut dyn cot::Sender,
    rng: &mut dyn CryptoRng,
) -> Result<SenderHalf, Error> {
    let shape = layout.shape;
    let half = SenderHalf::random(shape, rng);
    let mut all_v = Rows::new(shape);
    let delta = Zeroizing::new(source.delta());
    for blocks in layout.batches() {
        let first = layout.first(blocks.start);
        let mut q = Zeroizing::new(vec![0; layout.first(blocks.end) - first]);
        source.extend(channel, rng, &mut q)?;
        // All of them: the receiver sends them before it reads an offer.
        let corrections: Vec<Vec<u8>> = blocks
            .clone()
            .map(|block| recv_exact(channel, CHOICES, layout.choice_bytes(block)))
            .collect::<Result<_, _>>()?;
        for (block, corrections) in blocks.zip(corrections) {
            let own = layout.first(block) - first..layout.first(block + 1) - first;
            let sender = Sender::new(layout, block, *delta, &mut q[own], &corrections);
            let width = shape.width(block);
            let mut u = Zeroizing::new(vec![0; width * shape.per_bin]);
            for (row, u) in u.chunks_exact_mut(width).enumerate() {
                half.u(block, row, u);
            }
            let v = sender.offers(channel, &u)?;
            for (row, v) in v.chunks_exact(width).enumerate() {
                all_v.set(block, row, v);
            }
            channel.progress(block as u64 + 1, shape.blocks() as u64);
        }
    }
    channel.flush()?;
    Ok(half.with_v(all_v))
}

/// Makes the receiver's half from a source of COTs.
fn receive_with(
    channel: &mut dyn Channel,
    layout: &Layout,
    source: &mut dyn cot::Receiver,
    rng: &mut dyn CryptoRng,
) -> Result<ReceiverHalf, Error> {
    let shape = layout.shape;
    let mut half = ReceiverHalf::random(shape, rng);
    for blocks in layout.batches() {
        let first = layout.first(blocks.start);
        let mut t = Zeroizing::new(vec![0; layout.first(blocks.end) - first]);
        source.extend(channel, rng, &mut t)?;
        let s: Vec<_> = blocks
            .clone()
            .map(|block| {
                let mut s = Zeroizing::new(vec![0; shape.width(block)]);
                half.s(block, &mut s);
                s
            })
            .collect();
        let receivers = blocks.clone().zip(&s).map(|(block, s)| Receiver {
            layout,
            s,
            t: &t[layout.first(block) - first..layout.first(block + 1) - first],
            first: layout.first(block),
        });
        let receivers: Vec<_> = receivers.collect();
        for (block, receiver) in blocks.clone().zip(&receivers) {
            channel.send(CHOICES, receiver.corrections(block))?;
        }
        channel.flush()?;
        for (block, receiver) in blocks.zip(&receivers) {
            let r = receiver.take(channel)?;
            for (row, r) in r.chunks_exact(shape.width(block)).enumerate() {
                half.r_mut().set(block, row, r);
            }
            channel.progress(block as u64 + 1, shape.blocks() as u64);
        }
    }
    Ok(half)
}

/// The source.
pub struct Ot;

impl Ot {
    /// Blocks of all pads that a receiver lacks in a run.
    pub fn pad_blocks(shape: Shape, lambda: u32) -> u64 {
        let layout = Layout::new(shape, lambda, &[0; 32]);
        (layout.transfers() * layout.pad_blocks()) as u64
    }
}

impl Source for Ot {
    const PROTOCOL: &'static str = "ole-ot";

    const HAS_BASE_TRANSFERS: bool = true;

    fn traffic(
        traffic: &mut Traffic,
        shape: Shape,
        lambda: u32,
        agreement: KeyAgreement,
    ) -> Option<()> {
        if shape.per_bin == 0 {
            return Some(());
        }
        let layout = Layout::new(shape, lambda, &[0; 32]);
        let (count, optimize) = (layout.transfers(), Optimize::Time);
        let mut cots = Cots::setup(traffic, End::Sender, count, optimize, agreement);
        for blocks in layout.batches() {
            let count = layout.first(blocks.end) - layout.first(blocks.start);
            cots.extend(traffic, count);
            let (mut choices, mut offers) = (Frames::default(), Frames::default());
            for block in blocks {
                choices += Frames::one(layout.choice_bytes(block));
                let width = shape.width(block);
                for first in (0..width).step_by(layout.bins_together()) {
                    let bins = layout.bins_together().min(width - first);
                    offers += Frames::rows(bins * layout.bin_bytes(), 1);
                }
            }
            traffic.flow(End::Receiver, choices);
            traffic.flow(End::Sender, offers);
        }
        Some(())
    }

    fn receive(
        channel: &mut dyn Channel,
        shape: Shape,
        lambda: u32,
        agreement: KeyAgreement,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<ReceiverHalf, Error> {
        if shape.per_bin == 0 {
            return Ok(ReceiverHalf::random(shape, rng));
        }
        let layout = Layout::new(shape, lambda, session);
        let (kind, optimize) = (SemiHonest, Optimize::Time);
        let count = layout.transfers();
        let mut source =
            bulk::Receiver::setup(channel, session, kind, count, optimize, agreement, rng)?;
        receive_with(channel, &layout, &mut source, rng)
    }

    fn send(
        channel: &mut dyn Channel,
        shape: Shape,
        lambda: u32,
        agreement: KeyAgreement,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<SenderHalf, Error> {
        if shape.per_bin == 0 {
            return Ok(SenderHalf::random(shape, rng));
        }
        let layout = Layout::new(shape, lambda, session);
        let (kind, optimize) = (SemiHonest, Optimize::Time);
        let count = layout.transfers();
        let mut source =
            bulk::Sender::setup(channel, session, kind, count, optimize, agreement, rng)?;
        send_with(channel, &layout, &mut source, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use crate::ole::{largest_from, tests::check};
    use std::collections::HashSet;
    use vesica_primitives::block::{Cipher, Prg};
    use vesica_primitives::prime::uniform;
    use vesica_testing::{honest, misbehaviour, rng, try_both};
    use vesica_wire::memory_pair;

    fn shape(bits: u32, bins: usize, per_bin: usize) -> Shape {
        let modulus = largest_from(1 << (bits - 1)).unwrap();
        Shape {
            modulus,
            bins,
            per_bin,
        }
    }

    #[test]
    fn halves_fit_on_ideal_transfers() {
        for (bits, bins, per_bin) in [(3, 10, 5), (14, 5000, 3), (16, 1, 1), (63, 40, 30)] {
            let layout = || Layout::new(shape(bits, bins, per_bin), 40, &[3; 32]);
            let (mut q, mut t) = ideal::cots(5);
            let (receiver, sender) = honest(
                |channel| receive_with(channel, &layout(), &mut t, &mut rng(1)),
                |channel| send_with(channel, &layout(), &mut q, &mut rng(2)),
            );
            check(&receiver, &sender);
        }
    }

    /// The blocks of pads that a receiver lacks and comes to know, first ones only: with its values of a run in which all
    /// entries of a bin but a few are the dummy. With each its row t and the number of its OT.
    fn known_pads(layout: &Layout, delta: Block) -> Vec<(Block, Block, usize)> {
        let (modulus, rows, bits) = (layout.shape.modulus, layout.shape.per_bin, layout.bits());
        let (dummy, items) = (modulus.get() - 1, 20..23);
        let (mut prg, mut known) = (Prg::new(5), Vec::new());
        let (mut sending, mut receiving) = (Scratch::new(layout), Scratch::new(layout));
        for bin in 0..layout.shape.bins {
            let first = bin * bits;
            let [mut s, mut x] = [[0]; 2];
            uniform(&mut prg, 0, modulus.get(), &mut s);
            uniform(&mut prg, 0, modulus.get() - 2, &mut x);
            let (s, x) = (s[0], x[0]);
            let mut t = vec![0; bits];
            prg.fill(&mut t);
            let is_one = |i: usize| Block::from(s >> i & 1).wrapping_neg();
            let keys: Vec<Block> = (0..bits).map(|i| t[i] ^ is_one(i) & delta).collect();
            let mut u = vec![0; rows];
            uniform(&mut prg, 1, modulus.get(), &mut u);
            let (mut v, mut offers) = (vec![0; rows], vec![0; layout.bin_bytes()]);
            let keys = &keys[..];
            let sender = Sender {
                layout,
                delta,
                keys,
                first,
            };
            let chosen = u.clone();
            sender.bin(0, &mut u, &mut v, &mut offers, &mut sending);
            let y = (0..rows).map(|j| if items.contains(&j) { 77 } else { dummy });
            let c = modulus.minus(s, x);
            let answers = y.zip(&chosen).zip(&v);
            let answers =
                answers.map(|((y, u), v)| modulus.plus(modulus.times(*u, modulus.plus(c, y)), *v));
            // From here on, what the receiver has: s, x, r, t, the offers and the answers.
            let r = |j: usize| modulus.plus(modulus.times(chosen[j], s), v[j]);
            let inverse = modulus.power_vartime(modulus.minus(dummy, x), modulus.get() - 2);
            let found = answers
                .enumerate()
                .map(|(j, d)| modulus.times(modulus.minus(d, r(j)), inverse));
            let mut found: Vec<u64> = found.collect();
            receiving.residues(layout, &t, &[0], first);
            for (i, t) in t.iter().enumerate() {
                let mut offer = vec![0; rows];
                let packed = &offers[i * layout.offer_bytes()..];
                super::super::unpack(OFFERS, modulus, packed, &mut offer).unwrap();
                let own = &receiving.residues[0][i * rows..];
                let pad = (0..128 / bits).fold(0, |pad, j| {
                    let lacked = match s >> i & 1 {
                        0 => modulus.minus(modulus.plus(own[j], found[j]), offer[j]),
                        _ => modulus.plus(modulus.minus(offer[j], found[j]), own[j]),
                    };
                    pad | Block::from(lacked) << (bits * j)
                });
                known.push((pad, *t, first + i));
                found.iter_mut().for_each(|u| *u = modulus.plus(*u, *u));
            }
        }
        known
    }

    /// Δ, were it guessed, shows at one pad by each evaluation of AES, and the evaluations that showed at all of them
    /// when all had one key show at none.
    #[test]
    fn known_pads_are_tested_one_by_one() {
        let layout = Layout::new(shape(14, 64, 26), 40, &[3; 32]);
        let delta: Block = 0x0123_4567_89ab_cdef_1122_3344_5566_7789;
        let known = known_pads(&layout, delta);
        let each = layout.pad_blocks();
        let low = |block: Block| block & (Block::MAX >> 2);
        let pads: HashSet<Block> = known.iter().map(|(pad, ..)| *pad).collect();
        let tweaked = known
            .iter()
            .map(|(pad, _, i)| low(pad ^ (i * each) as Block));
        let tweaked: HashSet<Block> = tweaked.collect();
        let public = Cipher::public("vesica/1 tuple keys", &[3; 32]);
        let (mut own, mut others, mut common) = (0, 0, 0);
        for (pad, t, i) in &known {
            let shows = |number: usize| {
                let mut pad = vec![0; each];
                layout.hash.expand(number, 1, &[t ^ delta], &mut pad);
                low(pad[0])
            };
            own += usize::from(shows(*i) == *pad);
            others += usize::from(pads.contains(&shows((i + 100) % known.len())));
            let mut w = [t ^ delta];
            public.encrypt(&mut w);
            w[0] ^= (i * each) as Block;
            public.feed_forward(&mut w);
            common += usize::from(tweaked.contains(&low(w[0])));
        }
        // A candidate that is rejected moves those after it.
        assert!(own * 100 > 97 * known.len(), "{own}");
        assert_eq!((others, common), (0, 0));
    }

    /// A bin whose offers fill more than a frame.
    #[test]
    fn long_bins_take_several_frames() {
        let layout = || Layout::new(shape(60, 2, 5000), 40, &[3; 32]);
        assert!(layout().bin_bytes() > MAX_FRAME);
        let (mut q, mut t) = ideal::cots(5);
        let (receiver, sender) = honest(
            |channel| receive_with(channel, &layout(), &mut t, &mut rng(1)),
            |channel| send_with(channel, &layout(), &mut q, &mut rng(2)),
        );
        check(&receiver, &sender);
    }

    #[test]
    fn halves_fit_on_real_transfers() {
        for (bits, bins, per_bin) in [(14, 300, 4), (9, 3, 0)] {
            let shape = shape(bits, bins, per_bin);
            let (receiver, sender) = honest(
                |channel| {
                    Ot::receive(
                        channel,
                        shape,
                        40,
                        KeyAgreement::Classical,
                        &[3; 32],
                        &mut rng(1),
                    )
                },
                |channel| {
                    Ot::send(
                        channel,
                        shape,
                        40,
                        KeyAgreement::Classical,
                        &[3; 32],
                        &mut rng(2),
                    )
                },
            );
            check(&receiver, &sender);
        }
    }

    /// Moduli of few bits, of whose candidates many are rejected.
    #[test]
    fn residues_of_keys_are_uniform() {
        for bits in [3, 4, 7] {
            let layout = Layout::new(shape(bits, 100, 50), 40, &[3; 32]);
            let q = layout.shape.modulus.get() as usize;
            let mut scratch = Scratch::new(&layout);
            let mut out = Vec::new();
            for first in (0..2000).step_by(layout.bits()) {
                let keys: Vec<Block> = (first..).take(layout.bits()).map(|i| i as Block).collect();
                scratch.residues(&layout, &keys, &[0], first);
                out.extend_from_slice(&scratch.residues[0]);
            }
            let mut counts = vec![0f64; q];
            for value in out {
                counts[value as usize] += 1.0;
            }
            let mean = counts.iter().sum::<f64>() / q as f64;
            let chi: f64 = counts.iter().map(|c| (c - mean) * (c - mean) / mean).sum();
            let freedom = (q - 1) as f64;
            assert!(chi < freedom + 6.0 * (2.0 * freedom).sqrt(), "{bits} {chi}");
        }
    }

    /// The exact tail, summed, meets the bound.
    #[test]
    fn keys_have_enough_candidates() {
        for (bits, rows, keys, lambda) in [
            (14, 26, 1 << 26, 40),
            (3, 26, 1000, 40),
            (7, 5, 1 << 20, 64),
        ] {
            let modulus = largest_from(1 << (bits - 1)).unwrap();
            let spare = spare(modulus, rows, keys, lambda);
            let p = 1.0 - modulus.get() as f64 / f64::from(1u32 << bits);
            let n = rows + spare;
            let mut term = (1.0 - p).powi(n as i32);
            let mut tail = 0.0;
            for i in 0..=n {
                if i > spare {
                    tail += term;
                }
                term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
            }
            let chance = (tail * keys as f64).log2();
            assert!(chance <= -f64::from(lambda), "{bits}: {chance}");
            println!("{bits} bits, {rows} rows: {spare} spare, 2^{chance:.1}");
        }
    }

    #[test]
    fn wrong_messages_are_refused() {
        let shape = shape(14, 10, 4);
        let layout = Layout::new(shape, 40, &[3; 32]);
        let (mut q, mut t) = ideal::cots(5);
        let length = 10 * layout.bin_bytes();
        for (bytes, byte, expected) in [
            (
                length,
                0xff,
                Misbehaviour::BadValue {
                    what: OFFERS.name,
                    problem: "not below the modulus",
                },
            ),
            (
                length - 1,
                0,
                Misbehaviour::WrongLength {
                    what: OFFERS.name,
                    bytes: length - 1,
                },
            ),
        ] {
            let (received, _) = try_both(
                memory_pair(),
                |channel| receive_with(channel, &layout, &mut t, &mut rng(1)).map(drop),
                |channel| {
                    channel.recv(CHOICES, 18)?;
                    channel.send(OFFERS, vec![byte; bytes])?;
                    channel.flush()
                },
            );
            assert_eq!(misbehaviour(received), expected);
        }
        let (_, sent) = try_both(
            memory_pair(),
            |channel| {
                channel.send(CHOICES, vec![0; 17])?;
                channel.flush()
            },
            |channel| send_with(channel, &layout, &mut q, &mut rng(1)).map(drop),
        );
        let expected = Misbehaviour::WrongLength {
            what: CHOICES.name,
            bytes: 17,
        };
        assert_eq!(misbehaviour(sent), expected);
    }
}
