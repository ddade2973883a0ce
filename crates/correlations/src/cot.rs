//! The interface of a source of random correlated oblivious transfers (COTs) in bulk.
//!
//! The sender holds Δ and q_i, the receiver t_i = q_i ⊕ x_i·Δ with random choice bits x_i. Δ is odd and q_i even, so
//! x_i is the lowest bit of t_i.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};

/// The sender's end.
pub trait Sender {
    /// The difference, which is odd and the same for all COTs of this source.
    fn delta(&self) -> Block;

    /// Fills `q` with the next COTs, while the receiver fills as many.
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a receiver that fails a check.
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error>;
}

impl<S: Sender + ?Sized> Sender for Box<S> {
    fn delta(&self) -> Block {
        (**self).delta()
    }

    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        (**self).extend(channel, rng, q)
    }
}

/// The receiver's end.
pub trait Receiver {
    /// Fills `t` with the next COTs, while the sender fills as many.
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved` for a sender that fails a check.
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error>;
}

impl<R: Receiver + ?Sized> Receiver for Box<R> {
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        (**self).extend(channel, rng, t)
    }
}
