//! Random correlated oblivious transfers (COTs) in bulk: tens of millions per second and thread, at 0.7 or 1.4
//! bits of traffic each.
//!
//! **Paper.** K. Yang, C. Weng, X. Lan, J. Zhang, X. Wang, *Ferret: Fast Extension for Correlated OT with
//! Small Communication*, CCS 2020, with regular noise, and the trees of *Half-Tree* (EUROCRYPT 2023, `bulk/tree.rs`).
//! Parameters are ours ([`crate::lpn::primal`]).
//!
//! **What it gives.** What [`crate::cot`] says: the sender has an odd Δ and even q_i, the receiver t_i = q_i ⊕
//! x_i·Δ, where the random choice bit x_i is the lowest bit of t_i.
//!
//! **How.** An extension turns k + t·d COTs into t·2^d new ones:
//!
//! 1. For each of t trees of depth d, whose levels add up to Δ, the choice bits of d COTs fix a random leaf. The
//!    sender masks one sum of each level, so that the receiver gets all leaves but that one; the others' sum is
//!    that one with Δ added. Bit 0 of the leaves is cleared.
//! 2. The k other COTs are the base vector. To each leaf, both parties add ten of its entries, one of each tenth,
//!    which a public random matrix chooses. The choice bits become A·u + e with u those of the base vector and e the noise at
//!    the fixed leaves.
//!
//! The last k + t·d of an extension are kept for the next one and never given out. The receiver sends nothing
//! after the setup: the sender's messages go one way, tree by tree, as COTs are asked for. A small extension
//! makes the base of a larger one ([`sizes`]); the first base comes from an extension of 128 base OTs
//! ([`crate::ot_extension`]), which serves runs of a few thousand COTs alone.
//!
//! **Cost.** 2.3 evaluations of AES per COT, and ten random accesses to the base vector of 2.5 or 5 MiB
//! ([`Optimize`]). A source holds at most 12 MiB whatever is asked of it: the base vector, the next one while it is
//! made, the COTs for trees, and up to 2^16 COTs of the OT extension or 2^11 that are left over.
//!
//! **Assumption.** Primal LPN with regular noise and ten ones per row, with a fresh matrix for every extension.
//! [`crate::lpn::primal`] lists the attacks, assuming that the peer knows all choice bits that are given out. None of
//! them takes fewer than 2^128 bit operations on one extension by the counts there, sparse rows included. An attack on
//! whichever extension falls first gains the logarithm of their number at most ([`kappa`]).
//!
//! **Adversary.** Semi-honest, and [`SemiHonest`] says so at every call of a setup. A malicious receiver gains
//! nothing: the first base is made with malicious security, and after it the receiver sends nothing. A malicious
//! sender does: with a wrong sum it makes some of the receiver's outputs wrong depending on the noise position, and
//! if it learns whether they are, it learns a bit of the noise. Ferret's check against that is left out.
//!
//! **Security.** The unknown node of a level is Δ plus a known block. Every level of every tree has its own AES key, so
//! an evaluation of AES tests a guess at Δ in one place, whatever the number of trees. Δ has 127 unknown bits. A masked
//! sum reveals only what the receiver gets of it: with t = q ⊕ x·Δ, it is t plus the sum that x opens.
//!
//! **Deviations.** Choice bits fix the noise positions, so the receiver's corrections are not needed. Levels of trees
//! have keys of their own. A row of the matrix has its ones in different tenths of the base vector. Messages are sent
//! when their trees are needed.
//!
//! After an error a source is dead: every later call returns the error again.

mod extension;
mod parties;
mod sizes;
mod source;
pub mod subfield;
pub mod traffic;
mod tree;

pub use sizes::{Optimize, Size, kappa, sizes};

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, Kind};
use zeroize::Zeroizing;

use crate::base_ot::{self, KeyAgreement};
use crate::choices::Choices;
use crate::cot;
use crate::ot_extension::{self, COLUMNS};
use source::Source;

/// Frames with the masked sums of trees.
const TREES: Kind = Kind {
    code: 45,
    name: "COT trees",
};

/// The adversary that a source withstands. There is no other level, and none can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct SemiHonest;

/// Sessions of the parts of a source.
struct Sessions(Oracle);

impl Sessions {
    fn new(session: &[u8; 32]) -> Self {
        Sessions(Oracle::new("vesica/1 bulk COTs", session))
    }

    /// The session of the base OTs, which fail if the parties do not agree on the sizes.
    fn base(&self, sizes: &[Size]) -> [u8; 32] {
        let sizes: Vec<u8> = sizes
            .iter()
            .flat_map(|size| [size.log_segment, size.depth, size.trees()])
            .flat_map(|n| (n as u64).to_le_bytes())
            .collect();
        self.0.hash(&[b"base", &sizes])
    }

    /// The session of the extension of the base OTs, or of one size.
    fn part(&self, size: Option<&Size>) -> [u8; 32] {
        let depth = size.map_or(0, |size| size.depth as u64);
        self.0.hash(&[b"part", &depth.to_le_bytes()])
    }
}

/// The sender's end of a source.
pub struct Sender(Source<parties::Sender>);

impl Sender {
    /// Runs the base OTs and all extensions before the first COTs; the peer calls [`Receiver::setup`].
    ///
    /// `session` must be new for every source of a run. `expected` is the number of COTs that the run will ask
    /// for. It decides the [`sizes`] along with `optimize`; both must be the same on both sides, and so must how the base OTs
    /// agree on keys. More COTs can be had, at the cost of each with these sizes.
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a receiver that cheats in the OT extension.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        _: SemiHonest,
        expected: usize,
        optimize: Optimize,
        agreement: KeyAgreement,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::with_sizes(channel, session, sizes(expected, optimize), agreement, rng)
    }

    fn with_sizes(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        sizes: &'static [Size],
        agreement: KeyAgreement,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let base = Sessions::new(session).base(sizes);
        let delta = Zeroizing::new(Choices::random(COLUMNS, rng).blocks()[0] | 1);
        let chosen = Choices::from_blocks(Zeroizing::new(vec![*delta]), COLUMNS);
        let (keys, bound) = base_ot::receive_and_bind(channel, &base, agreement, chosen, rng)?;
        let sessions = Sessions::new(&bound);
        let (keys, _) = keys.as_chunks::<COLUMNS>();
        let first = sessions.part(None);
        let extension = ot_extension::Sender::new(&first, Security::Malicious, *delta, &keys[0]);
        let party = parties::Sender { delta };
        Source::setup(party, extension, &sessions, sizes, channel, rng).map(Sender)
    }
}

impl cot::Sender for Sender {
    fn delta(&self) -> Block {
        *self.0.party().delta
    }

    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        self.0.extend(channel, rng, q)
    }
}

/// The receiver's end of a source.
pub struct Receiver(Source<parties::Receiver>);

impl Receiver {
    /// Runs the base OTs and all extensions before the first COTs; the peer calls [`Sender::setup`], where the
    /// arguments are explained.
    ///
    /// # Errors
    /// The channel's.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        _: SemiHonest,
        expected: usize,
        optimize: Optimize,
        agreement: KeyAgreement,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::with_sizes(channel, session, sizes(expected, optimize), agreement, rng)
    }

    fn with_sizes(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        sizes: &'static [Size],
        agreement: KeyAgreement,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let base = Sessions::new(session).base(sizes);
        let (keys, bound) = base_ot::send_and_bind(channel, &base, agreement, COLUMNS, rng)?;
        let sessions = Sessions::new(&bound);
        let (keys, _) = keys.as_chunks::<COLUMNS>();
        let first = sessions.part(None);
        let extension = ot_extension::Receiver::new(&first, Security::Malicious, &keys[0], rng);
        let party = parties::Receiver;
        Source::setup(party, extension, &sessions, sizes, channel, rng).map(Receiver)
    }
}

impl cot::Receiver for Receiver {
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        self.0.extend(channel, rng, t)
    }
}

#[cfg(test)]
mod tests;
