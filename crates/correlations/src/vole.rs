//! The interface of a vector oblivious linear evaluation (VOLE) whose setup overlaps with other work: the
//! silent one of [`crate::silent`], or the ideal one of [`crate::ideal`] in tests.
//!
//! The receiver holds a and c, the sender b and Δ, with c_i = Δ·a_i + b_i in GF(2^128).

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};

use crate::shape::Shape;

/// The sender's half, before the receiver has passed the checks of the setup.
pub trait UncheckedSender {
    /// How the correlation is cut into chunks.
    fn shape(&self) -> &Shape;

    /// A hash of the setup, to which the receiver has contributed after the session was fixed: the sender
    /// cannot have chosen the session according to it.
    fn session(&self) -> [u8; 32];

    /// Entries b of chunks, the first with the number `first`, for work ahead: nothing that depends on them may go out
    /// before [`finish`](Self::finish).
    ///
    /// # Panics
    /// If `b` does not have the length of whole chunks.
    fn expand(&self, first: usize, b: &mut [Block]);

    /// Ends the setup; returns Δ.
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a receiver that fails a check.
    fn finish(self, channel: &mut dyn Channel) -> Result<Block, Error>;
}

/// The receiver's half, before the sender has sent its part of the setup.
pub trait WaitingReceiver<F> {
    /// The half when the setup has ended.
    type Receiver: Receiver<F>;

    /// The same hash as [`UncheckedSender::session`].
    fn session(&self) -> [u8; 32];

    /// Ends the setup.
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a sender that fails a check.
    fn finish(
        self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self::Receiver, Error>;
}

/// The receiver's half.
pub trait Receiver<F> {
    /// How the correlation is cut into chunks.
    fn shape(&self) -> &Shape;

    /// Entries a and c of chunks, the first with the number `first`. Use each chunk only once.
    ///
    /// # Panics
    /// If `a` and `c` do not have the length of whole chunks.
    fn expand(&self, first: usize, a: &mut [F], c: &mut [Block]);
}
