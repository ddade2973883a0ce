//! Entries of a VOLE over a subfield, GF(8) or GF(16), in bulk: what [`crate::subfield`] says, on top of a source of COTs
//! under the same Δ.
//!
//! **Paper.** C. Weng, K. Yang, J. Katz, X. Wang, *Wolverine*, S&P 2021, for the extension of a subfield VOLE by LPN, with
//! the trees of *Half-Tree* (EUROCRYPT 2023) whose leaves are hashed (`bulk/tree.rs`), and regular noise. Parameters are
//! ours ([`crate::lpn::primal`]).
//!
//! **How.** As for COTs ([`super`]): k entries are the base vector, and t trees of depth d give t·2^d new ones. What is
//! different:
//!
//! 1. The choice bits that fix the point of a tree come from the source of COTs, d for each tree, since an entry has none.
//! 2. The leaves are hashed, so that nobody knows what they add up to. A tree takes an entry, z = y + x·Δ. The sender
//!    adds y + Σ leaves to its message. The receiver adds z and all leaves but the one that it lacks, and has that
//!    one + x·Δ.
//! 3. To each leaf, both parties add ten entries of the base vector, each multiplied by a random element other than 0.
//!    So x becomes A·u + e over the field, with the x of the trees as noise values.
//!
//! The first base comes from COTs, W for each entry ([`crate::subfield::FromCots`]). The last k + t of an extension are
//! kept for the next one. The receiver sends nothing.
//!
//! **Cost.** 3.9 evaluations of AES per entry, and the random accesses of a COT. With [`Optimize::Time`] 1.5 bits, with
//! [`Optimize::Traffic`] 0.8, and a COT's traffic for each level of a tree, 0.01 to 0.02 bits.
//!
//! **Assumption.** Primal LPN over the field with regular noise and ten random elements per row. A noise value is uniform,
//! so one in 2^W is 0; [`crate::lpn::primal`] counts the noise that remains. Coefficients 0 and 1 would leave W binary
//! instances with one support.
//!
//! **Adversary.** Semi-honest, with the same consequences as for COTs.
//!
//! **Security.** Every tree has its own key for the hash of its leaves. An entry's Δ has 124 unknown bits over GF(16), 123
//! over GF(8): its first element is 1, so that x is seen in z. To keep x apart from z would take as long as another
//! product. The choice bits, noise values and base vector of an extension are used once, in that extension. Row and tree
//! numbers go on through all extensions.
//!
//! **Deviations.** Noise values are not corrected, so that messages go one way: that costs a sixteenth of the noise. There
//! is no consistency check.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_wire::{Channel, Error, Misbehaviour, recv_exact};
use zeroize::Zeroizing;

use super::extension::Batch;
use super::parties::{Tree, grow, grow_punctured};
use super::source::{Party, Source};
use super::{Optimize, SemiHonest, Sessions, Size, TREES};
use crate::cot;
use crate::subfield::{self, FromCots, Subfield};
use crate::tree::mask;

pub use super::sizes::{entry_cots as cots, entry_kappa as kappa, entry_sizes as sizes};

impl Sessions {
    fn entries(session: &[u8; 32], width: u32) -> Self {
        let label = match width {
            3 => "vesica/1 bulk entries over GF(8)",
            _ => "vesica/1 bulk entries over GF(16)",
        };
        Sessions(Oracle::new(label, session))
    }
}

/// The sender's end of a source, on top of one of COTs.
pub struct Sender<const W: u32, C: cot::Sender>(Source<SendingParty<W, C>>);

struct SendingParty<const W: u32, C>(FromCots<W, C>);

impl<const W: u32, C: cot::Sender> Sender<W, C> {
    /// Makes the base of the extensions from COTs; the peer calls [`Receiver::setup`].
    ///
    /// `session` must be new for every source of a run. `expected` is the number of entries that the run will ask for.
    /// It decides the [`sizes`] along with `optimize`; both must be the same on both sides. `source` has to make
    /// [`cots`] for this.
    ///
    /// # Errors
    /// Those of `source`.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        _: SemiHonest,
        expected: usize,
        optimize: Optimize,
        source: C,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::with_sizes(channel, session, sizes(W, expected, optimize), source, rng)
    }

    fn with_sizes(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        sizes: &'static [Size],
        source: C,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let party = SendingParty(FromCots::new(source));
        let sessions = Sessions::entries(session, W);
        Source::setup(party, (), &sessions, sizes, channel, rng).map(Sender)
    }
}

impl<const W: u32, C: cot::Sender> Party for SendingParty<W, C> {
    type Base = ();

    fn base(
        &mut self,
        (): &mut (),
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        subfield::Sender::extend_entries(&mut self.0, channel, rng, out)
    }

    fn grow(
        &mut self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let mut cots = batch.room_for_choices();
        cot::Sender::extend(&mut self.0, channel, rng, &mut cots)?;
        let delta = Zeroizing::new(cot::Sender::delta(&self.0));
        let finish = |tree: Tree, leaves: &mut [Block], message: &mut [u8]| {
            let trees = &batch.extension.trees;
            let sum = trees.hash_leaves::<W>(tree.number, leaves);
            let masked = batch.cots[tree.index] ^ sum;
            message.copy_from_slice(&masked.to_le_bytes());
        };
        let message = grow(batch, *delta, &cots, finish, rng, out);
        channel.send(TREES, message)
    }
}

impl<const W: u32, C: cot::Sender> cot::Sender for Sender<W, C> {
    fn delta(&self) -> Block {
        cot::Sender::delta(&self.0.party().0)
    }

    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        cot::Sender::extend(&mut self.0.party_mut()?.0, channel, rng, q)
    }
}

impl<const W: u32, C: cot::Sender> subfield::Sender<W> for Sender<W, C> {
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        y: &mut [Block],
    ) -> Result<(), Error> {
        self.0.extend(channel, rng, y)
    }
}

/// The receiver's end of a source, on top of one of COTs.
pub struct Receiver<const W: u32, C: cot::Receiver>(Source<ReceivingParty<W, C>>);

struct ReceivingParty<const W: u32, C>(FromCots<W, C>);

impl<const W: u32, C: cot::Receiver> Receiver<W, C> {
    /// Makes the base of the extensions from COTs; the peer calls [`Sender::setup`], where the arguments are explained.
    ///
    /// # Errors
    /// Those of `source`.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        _: SemiHonest,
        expected: usize,
        optimize: Optimize,
        source: C,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::with_sizes(channel, session, sizes(W, expected, optimize), source, rng)
    }

    fn with_sizes(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        sizes: &'static [Size],
        source: C,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let party = ReceivingParty(FromCots::new(source));
        let sessions = Sessions::entries(session, W);
        Source::setup(party, (), &sessions, sizes, channel, rng).map(Receiver)
    }
}

impl<const W: u32, C: cot::Receiver> Party for ReceivingParty<W, C> {
    type Base = ();

    fn base(
        &mut self,
        (): &mut (),
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        subfield::Receiver::extend_entries(&mut self.0, channel, rng, out)
    }

    fn grow(
        &mut self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let mut cots = batch.room_for_choices();
        cot::Receiver::extend(&mut self.0, channel, rng, &mut cots)?;
        let message = recv_exact(channel, TREES, batch.message())?;
        let sum = |message: &[u8]| message.last_chunk().map(|sum| Block::from_le_bytes(*sum));
        let mut sums = message
            .chunks(batch.extension.size.message())
            .filter_map(sum);
        if sums.any(|sum| sum != Subfield::<W>::without_first(sum)) {
            return Err(Misbehaviour::BadValue {
                what: TREES.name,
                problem: "a sum of leaves is none",
            }
            .into());
        }
        let finish = |tree: Tree, point: usize, leaves: &mut [Block], masked: &[u8]| {
            let trees = &batch.extension.trees;
            let sum = trees.hash_leaves::<W>(tree.number, leaves);
            let masked = Block::from_le_bytes(masked.try_into().expect("a block"));
            // What the leaf at the point lacks of all that the others and z leave of the sender's sum.
            let missing = masked ^ batch.cots[tree.index] ^ sum;
            for (i, leaf) in leaves.iter_mut().enumerate() {
                *leaf ^= mask(i, point) & missing;
            }
        };
        grow_punctured(batch, &cots, &message, finish, out);
        Ok(())
    }
}

impl<const W: u32, C: cot::Receiver> cot::Receiver for Receiver<W, C> {
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        cot::Receiver::extend(&mut self.0.party_mut()?.0, channel, rng, t)
    }
}

impl<const W: u32, C: cot::Receiver> subfield::Receiver<W> for Receiver<W, C> {
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        z: &mut [Block],
    ) -> Result<(), Error> {
        self.0.extend(channel, rng, z)
    }
}

#[cfg(test)]
mod tests;
