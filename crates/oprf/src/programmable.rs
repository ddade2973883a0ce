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
//! **λ.** Four events share 2^-λ ([`EVENTS`]): the receiver's items cannot be placed into bins; one of the OPRF's own
//! events, which share what is left to them; the hint cannot be encoded; some candidate that is no target equals its
//! bin's tag, which is why ℓ = λ + 2 + ⌈log₂(candidates · bins)⌉ ([`Opprf::tag_bits`]).
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
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::{Output, Params};

pub use batch::{BatchOprf, Key, Points, Queries};
pub use okvs::{OKVS, OkvsHint};
pub use pads::{Layout, Pads, Program, Strings, Target, TargetOf};
pub use relaxed::{RELAXED, RelaxedHint};
pub use table::{NONCES, TABLE, TableHint};

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 4;

/// Maximum number of points of a run, and of items that it puts into bins: the tables' entries have 30 bits for a
/// number.
pub const MAX_POINTS: u64 = 1 << 30;

/// What both parties know of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of queries as the receiver's size, and of points as the sender's. No two runs may share the
    /// session.
    pub params: Params,
    /// Number of bins.
    pub bins: usize,
    /// Bits of a payload, at most 128.
    pub payload_bits: u32,
}

impl Shape {
    /// Statistical security in bits of each of the [`EVENTS`].
    pub fn lambda_each(&self) -> u32 {
        self.params.lambda_each(EVENTS)
    }

    /// The parameters of the OPRF.
    fn oprf_params(&self) -> Params {
        Params {
            security: Security::SemiHonest,
            lambda: self.lambda_each(),
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
    /// ℓ, the bits of a tag: a uniform candidate equals the tag of its bin with probability 2^-ℓ, and all of them
    /// together with at most one event's share of 2^-λ (CGS22, section 5.1, and LTSXQ26, section VI, whose ℓ have the
    /// same terms without the split).
    ///
    /// # Panics
    /// If that is more than 128.
    pub fn tag_bits(&self, shape: &Shape) -> u32 {
        let bits = shape.lambda_each() + log_up((H::CANDIDATES * shape.bins) as u64);
        assert!(bits <= Block::BITS, "at most 128 bits per tag");
        bits
    }

    /// How strings are laid out.
    ///
    /// # Panics
    /// As [`Opprf::tag_bits`], or if payloads have more than 128 bits.
    pub fn layout(&self, shape: &Shape) -> Layout {
        Layout::new(self.tag_bits(shape), shape.payload_bits)
    }

    /// Maximum bits of statistical security of a run.
    pub fn max_lambda(&self, shape: &Shape) -> u32 {
        let points = shape.params.sender_size as u64;
        let oprf = self
            .oprf
            .max_lambda(shape.params.receiver_size as u64, points);
        let tags = Block::BITS - log_up((H::CANDIDATES * shape.bins) as u64);
        let each = oprf.min(tags).min(self.hint.max_lambda_each(shape));
        each.saturating_sub(log_up(EVENTS.into()))
    }

    /// Approximate memory use of a run in bytes, on the side that needs more: that of the OPRF or that of the hint,
    /// which come one after the other.
    ///
    /// # Panics
    /// As [`Opprf::layout`].
    pub fn working_bytes(&self, shape: &Shape) -> u64 {
        let queries = shape.params.receiver_size as u64;
        let oprf = self
            .oprf
            .working_bytes(queries, shape.params.sender_size as u64);
        let hint = self.hint.working_bytes(shape, self.layout(shape).bits());
        oprf.max(hint)
    }

    /// A uniform tag for each bin.
    pub fn random_tags(&self, shape: &Shape, rng: &mut dyn CryptoRng) -> Zeroizing<Vec<Block>> {
        let mut tags = Zeroizing::new(vec![0; shape.bins]);
        Prg::random(rng).fill(&mut tags);
        let unused = Block::BITS - self.tag_bits(shape);
        tags.iter_mut().for_each(|tag| *tag >>= unused);
        tags
    }

    /// Runs the receiver; returns the candidates of all bins.
    ///
    /// # Errors
    /// The channel's and the OPRF's; `PeerMisbehaved` for a hint that is not of the shape.
    ///
    /// # Panics
    /// If `queries` does not fit `shape`, or `shape` exceeds [`Opprf::max_lambda`].
    pub fn receive(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        queries: &Queries,
        rng: &mut dyn CryptoRng,
    ) -> Result<Strings, Error> {
        assert!(shape.params.lambda <= self.max_lambda(shape));
        assert_eq!(queries.len(), shape.params.receiver_size);
        assert_eq!(queries.bins(), shape.bins);
        let mut strings = Strings::random(H::CANDIDATES, shape.bins, self.layout(shape), rng);
        // Step 1.
        let outputs = self
            .oprf
            .receive_batch(channel, &shape.oprf_params(), queries, rng)?;
        // Step 3.
        channel.begin_phase("hint");
        let hint = &self.hint;
        match strings.layout().words() {
            1 => hint.receive::<1>(channel, shape, queries, &outputs, &mut strings)?,
            2 => hint.receive::<2>(channel, shape, queries, &outputs, &mut strings)?,
            3 => hint.receive::<3>(channel, shape, queries, &outputs, &mut strings)?,
            _ => hint.receive::<4>(channel, shape, queries, &outputs, &mut strings)?,
        }
        Ok(strings)
    }

    /// Runs the sender: `target` says what each point of `points` has.
    ///
    /// # Errors
    /// The channel's and the OPRF's; `Resource` if the points cannot be encoded, which has a probability of at most
    /// one event's share for distinct points.
    ///
    /// # Panics
    /// If `points` does not fit `shape`, `shape` exceeds [`Opprf::max_lambda`], or a target has more bits than
    /// the layout.
    pub fn send(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        points: &Points,
        target: &TargetOf<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        assert!(shape.params.lambda <= self.max_lambda(shape));
        assert_eq!(points.len(), shape.params.sender_size);
        assert_eq!(points.bins(), shape.bins);
        // Step 1.
        let outputs = self
            .oprf
            .send_batch(channel, &shape.oprf_params(), points, rng)?;
        // Step 2.
        channel.begin_phase("hint");
        let (hint, layout) = (&self.hint, self.layout(shape));
        let program = Program {
            layout,
            points,
            outputs: &outputs,
            target,
        };
        match layout.words() {
            1 => hint.send::<1>(channel, shape, &program, rng),
            2 => hint.send::<2>(channel, shape, &program, rng),
            3 => hint.send::<3>(channel, shape, &program, rng),
            _ => hint.send::<4>(channel, shape, &program, rng),
        }
    }
}

#[cfg(test)]
mod tests;
