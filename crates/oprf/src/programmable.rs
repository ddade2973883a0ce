//! Batched oblivious programmable pseudorandom functions (OPPRFs), the second stage of circuit PSI: after a run, the
//! two parties have strings for each hash bin that are equal if and only if they share the bin's item.
//!
//! **Papers.** N. Chandran, D. Gupta, A. Shah, *Circuit-PSI With Linear Complexity via Relaxed Batch OPPRF*, PoPETs
//! 2022 (CGS22), figures 2 to 4; the circuit PSI of *Faster Than Ever: A New Lightweight Private Set Intersection and
//! Its Variants* (LTSXQ26), figures 16 to 19, on an oblivious pseudorandom function (OPRF) of full strength; and the
//! batch OPPRF of Pinkas, Schneider, Tkachenko and Yanai (EUROCRYPT 2019, PSTY19), which both build on.
//!
//! **Adversary.** Semi-honest.
//!
//! **The protocol.** The receiver has at most one key per bin ([`Queries`]), the sender any number ([`Points`]), and
//! a *target* for each of its keys: a tag of ℓ bits, which is the same for all keys of a bin, and a payload of w bits.
//! 1. A batched OPRF ([`BatchOprf`]: VOLE on all keys at once): the receiver has F(q) for its queries, the sender F(x)
//!    for its points.
//! 2. The sender expands F(x) to pads of ℓ + w bits, hides each target with a pad of its point, and sends all of them
//!    as one [`Hint`].
//! 3. The receiver finds one or three *candidates* for each bin in the hint ([`Hint::CANDIDATES`]). If its query is a
//!    point of that bin, exactly one candidate is that point's target; other candidates are random.
//!
//! What does not fit into a string of 256 bits is sent in further *parts*: hints of the same points under pads of their
//! own, whose strings hold two blocks of the payload instead of a tag and one.
//!
//! | hint | candidates | bits | source |
//! |---|---|---|---|
//! | [`OkvsHint`] | 1 | slots of a random-band oblivious key-value store (OKVS) | LTSXQ26, figure 16, steps 6 and 7 |
//! | [`RelaxedHint`] | 3 | slots of a second cuckoo table | CGS22, figure 3 |
//! | [`TableHint`] | 1 | four slots and a nonce per bin, at most three points in each | CGS22, figure 10 |
//!
//! [`bins`] makes queries and points from two sets of items: cuckoo hashing on one side, simple hashing on the other.
//! [`membership`] makes them from the three candidates and the sender's tag, so that one string per bin remains
//! (CGS22, figure 7).
//!
//! **What each side sees.** The sender sees the OPRF's messages and nothing else. The receiver also sees the hint,
//! which is uniform whatever the sender's keys and targets, and candidates: in a bin where it matches, one of them is
//! the sender's target, so tags must be uniform, and payloads too. Whoever has a payload to hand over adds a uniform
//! mask per bin and keeps the mask. Numbers of queries, points and bins are those of [`Shape`] and do not depend on
//! items. The time of a party's work depends on its own keys, not on matches.
//!
//! All points of a bin share their tag, so two points of a bin whose F could be guessed would check each other. F has
//! 128 bits of strength for each point that the receiver does not hold, and every pad hashes the number of its bin,
//! so that a guess is good for one bin only.
//!
//! **λ.** Four events share 2^-λ, such that the bytes of a run are fewest ([`Split`]): the receiver's items cannot be
//! placed into bins; one of the OPRF's own events; the hint cannot be encoded; some candidate that is no target equals
//! its bin's tag. A bit more for the first three costs next to nothing, a bit of a tag is paid in every bin, and for up
//! to 3·2^20 points or so the OPRF may run over GF(2^64) if it gets a fourth or more: so tags take most of what is left. A
//! 256th is for what is computed on the strings ([`LEFT_SHARE`]).
//!
//! A failure ends the run with an error and is never retried. The tables have no stash, and enough room that none is
//! needed, unless the caller chooses another table of bins ([`bins`]).
//!
//! **Deviations.** The papers' receiver also asks for a random dummy key in each empty bin, so that the number of its
//! queries is that of the bins. Here it asks for its items only and draws random candidates for empty bins: their
//! number is public as well, which ones are empty stays hidden in the OPRF, and a random pad makes a dummy's candidate
//! uniform in any case. This saves 21 % of VOLE, which hides empty bins as KKRT does.

mod batch;
pub mod bins;
pub mod membership;
mod okvs;
mod pads;
mod relaxed;
pub mod slots;
mod table;

use rand_core::CryptoRng;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, End, Error, Frames, Traffic};
use zeroize::Zeroizing;

use crate::{Output, Params};

pub use batch::{BatchOprf, Key, Points, Queries};
pub use okvs::{OKVS, OkvsHint};
pub use pads::{Layout, Pads, Program, Strings, Target, TargetOf};
pub use relaxed::{RELAXED, RelaxedHint};
pub use table::{NONCES, TABLE, TableHint};

/// Maximum number of points of a run, and of items that it puts into bins: the tables' entries have 30 bits for a
/// number.
pub const MAX_POINTS: u64 = 1 << 30;

/// How the events of a run share 2^-λ: statistical security of each in bits, and what is left for tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Of the OPRF.
    pub oprf: u32,
    /// Of the hint's encoding.
    pub hint: u32,
    /// ℓ, the bits of a tag: a uniform candidate equals the tag of its bin with probability 2^-ℓ, and all of them
    /// together with at most what the other events leave (CGS22, section 5.1, and LTSXQ26, section VI, whose ℓ have
    /// the same terms for all of 2^-λ).
    pub tag_bits: u32,
}

/// The smallest share of 2^-λ that an event gets is 2^-6 of it.
pub const LEAST_SHARE: u32 = 6;

const SHARES: std::ops::RangeInclusive<u32> = 1..=LEAST_SHARE;

/// 2^-8 of 2^-λ is left for what is computed on the strings.
pub const LEFT_SHARE: u32 = 8;

/// 2^-λ in units of what is left.
const WHOLE: u64 = 1 << LEFT_SHARE;

/// Bits on the wire in a membership test per candidate and bit of its tag, rounded: what a bit less saves.
const MEMBERSHIP_BITS: u64 = 6;

/// What both parties know of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of queries as the receiver's size, and of points as the sender's. No two runs may share the
    /// session.
    pub params: Params,
    /// Number of bins.
    pub bins: usize,
    /// Bits of a payload.
    pub payload_bits: u32,
    /// How the events share 2^-λ.
    pub split: Split,
}

impl Shape {
    /// The parameters of the OPRF.
    fn oprf_params(&self) -> Params {
        Params {
            security: Security::SemiHonest,
            lambda: self.split.oprf,
            session: derived("vesica/1 opprf oprf", &self.params.session),
            ..self.params.clone()
        }
    }
}

/// A session of its own for one part of a run.
fn derived(label: &'static str, session: &[u8; 32]) -> [u8; 32] {
    Oracle::new(label, session).hash(&[])
}

/// ⌈log₂⌉ of a number; 0 for 0.
fn log_up(number: u64) -> u32 {
    number.max(1).next_power_of_two().ilog2()
}

/// How the sender tells the receiver targets hidden by pads.
pub trait Hint: Send + Sync {
    /// Candidates per bin.
    const CANDIDATES: usize;

    /// Bits of the hint on the wire, without the headers of frames, for strings of `string_bits` bits.
    fn bits(&self, shape: &Shape, string_bits: u32) -> u64;

    /// The frames of the hint, for strings of `string_bits` bits.
    fn frames(&self, shape: &Shape, string_bits: u32) -> Frames;

    /// Approximate memory in bytes on the side that needs more, queries, points and F included, for strings of
    /// `string_bits` bits; added up from what is held at once, not measured.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64;

    /// Maximum bits of statistical security of the encoding.
    fn max_lambda_each(&self, shape: &Shape) -> u32;

    /// Sends the targets under pads. `W` is [`Layout::words`].
    ///
    /// # Errors
    /// The channel's; `Resource` if the points cannot be encoded.
    fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        program: &Program<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error>;

    /// Writes the candidates of each query into `strings`, given F of the queries. `W` is [`Layout::words`].
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a hint that is not of the shape.
    fn receive<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        queries: &Queries,
        outputs: &[Output],
        strings: &mut Strings,
    ) -> Result<(), Error>;
}

/// An OPPRF: an OPRF and a hint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opprf<O, H> {
    /// The OPRF.
    pub oprf: O,
    /// The hint.
    pub hint: H,
}

impl<O: BatchOprf, H: Hint> Opprf<O, H> {
    /// The shape of a run on so many queries and points, with the number of bins for each share of 2^-λ that placing
    /// the receiver's items may have: the one with the fewest bytes. Nothing if it cannot reach λ.
    fn shape_of(&self, params: &Params, payload_bits: u32, bins: &[(u64, usize)]) -> Option<Shape> {
        let lambda = params.lambda;
        let [queries, points] = [params.receiver_size, params.sender_size].map(|n| n as u64);
        let shape = |bins, oprf, hint| Shape {
            params: params.clone(),
            bins,
            payload_bits,
            split: Split {
                oprf: lambda + oprf,
                hint: lambda + hint,
                tag_bits: 0,
            },
        };
        let mut best: Option<(u64, Shape)> = None;
        for &(placing, bins) in bins {
            for (oprf, hint) in SHARES.flat_map(|oprf| SHARES.map(move |hint| (oprf, hint))) {
                let mut shape = shape(bins, oprf, hint);
                let taken = 1 + placing + (WHOLE >> oprf) + (WHOLE >> hint);
                if taken >= WHOLE
                    || shape.split.oprf > self.oprf.max_lambda(queries, points)
                    || shape.split.hint > self.hint.max_lambda_each(&shape)
                {
                    continue;
                }
                let candidates = (H::CANDIDATES * bins) as u64;
                let tag_bits = lambda + log_up((WHOLE * candidates).div_ceil(WHOLE - taken));
                if tag_bits > Block::BITS {
                    continue;
                }
                shape.split.tag_bits = tag_bits;
                let bits = self.hint.bits(&shape, tag_bits + payload_bits)
                    + MEMBERSHIP_BITS * candidates * u64::from(tag_bits);
                let bytes = self.oprf.bytes(&shape.oprf_params(), bins) + bits / 8;
                if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
                    best = Some((bytes, shape));
                }
            }
        }
        best.map(|(_, shape)| shape)
    }

    /// How the strings of each part are laid out.
    pub fn layouts(&self, shape: &Shape) -> Vec<Layout> {
        let first = shape.payload_bits.min(Block::BITS);
        let mut layouts = vec![Layout::new(shape.split.tag_bits, first)];
        let mut left = shape.payload_bits - first;
        while left > 0 {
            let [low, high] = [left.min(Block::BITS), left.saturating_sub(Block::BITS)];
            layouts.push(Layout::new(low, high.min(Block::BITS)));
            left = high.saturating_sub(Block::BITS);
        }
        layouts
    }

    /// Adds what a run sends.
    pub fn traffic(&self, shape: &Shape, traffic: &mut Traffic) {
        let params = shape.oprf_params();
        self.oprf.traffic(&params, shape.bins, traffic);
        for layout in self.layouts(shape) {
            let hint = self.hint.frames(shape, layout.bits());
            traffic.flow(End::Sender, hint);
        }
    }

    /// Approximate memory use of a run in bytes, on the side that needs more: that of the OPRF or that of the hint with
    /// the widest strings, which come one after the other.
    pub fn working_bytes(&self, shape: &Shape) -> u64 {
        let queries = shape.params.receiver_size as u64;
        let oprf = self
            .oprf
            .working_bytes(queries, shape.params.sender_size as u64);
        let layouts = self.layouts(shape).into_iter();
        let hints = layouts.map(|layout| self.hint.working_bytes(shape, layout.bits()));
        hints.fold(oprf, u64::max)
    }

    /// A uniform tag for each bin.
    pub fn random_tags(&self, shape: &Shape, rng: &mut dyn CryptoRng) -> Zeroizing<Vec<Block>> {
        let mut tags = Zeroizing::new(vec![0; shape.bins]);
        Prg::random(rng).fill(&mut tags);
        let unused = Block::BITS - shape.split.tag_bits;
        tags.iter_mut().for_each(|tag| *tag >>= unused);
        tags
    }

    /// Runs the receiver; returns the candidates of all bins.
    ///
    /// # Errors
    /// The channel's and the OPRF's; `PeerMisbehaved` for a hint that is not of the shape.
    ///
    /// # Panics
    /// If `queries` does not fit `shape`.
    pub fn receive(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        queries: &Queries,
        rng: &mut dyn CryptoRng,
    ) -> Result<Strings, Error> {
        assert_eq!(queries.len(), shape.params.receiver_size);
        assert_eq!(queries.bins(), shape.bins);
        let layouts = self.layouts(shape).into_iter().enumerate();
        let random =
            |(part, layout)| Strings::random(H::CANDIDATES, shape.bins, layout, part, &mut *rng);
        let mut parts: Vec<Strings> = layouts.map(random).collect();
        // Step 1.
        let outputs = self
            .oprf
            .receive_batch(channel, &shape.oprf_params(), queries, rng)?;
        // Step 3.
        channel.begin_phase("hint");
        let hint = &self.hint;
        for strings in &mut parts {
            match strings.layout().words() {
                1 => hint.receive::<1>(channel, shape, queries, &outputs, strings)?,
                2 => hint.receive::<2>(channel, shape, queries, &outputs, strings)?,
                3 => hint.receive::<3>(channel, shape, queries, &outputs, strings)?,
                _ => hint.receive::<4>(channel, shape, queries, &outputs, strings)?,
            }
        }
        let further = parts.split_off(1);
        Ok(parts.remove(0).with_further(further))
    }

    /// Runs the sender: `target` says what each point of `points` has in each part.
    ///
    /// # Errors
    /// The channel's and the OPRF's; `Resource` if the points cannot be encoded, which has a probability of at most
    /// its share for distinct points.
    ///
    /// # Panics
    /// If `points` does not fit `shape`, or a target has more bits than the layout.
    pub fn send(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        points: &Points,
        target: &(dyn Fn(usize, usize, usize) -> Target + Sync),
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        assert_eq!(points.len(), shape.params.sender_size);
        assert_eq!(points.bins(), shape.bins);
        // Step 1.
        let outputs = self
            .oprf
            .send_batch(channel, &shape.oprf_params(), points, rng)?;
        // Step 2.
        channel.begin_phase("hint");
        let hint = &self.hint;
        for (part, layout) in self.layouts(shape).into_iter().enumerate() {
            let program = Program {
                part,
                layout,
                points,
                outputs: &outputs,
                target: &|bin, point| target(bin, point, part),
            };
            match layout.words() {
                1 => hint.send::<1>(channel, shape, &program, rng)?,
                2 => hint.send::<2>(channel, shape, &program, rng)?,
                3 => hint.send::<3>(channel, shape, &program, rng)?,
                _ => hint.send::<4>(channel, shape, &program, rng)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
