//! A joint coin toss: the sender commits to its half before it sees the receiver's.
//!
//! The sender sends its opening together with the coin, so that a receiver's half altered on its way ends the
//! run. This protects honest receivers only, as a dishonest one may send any half: without it, two different
//! coins and masks that never match would pass for an empty intersection.

use rand_core::CryptoRng;
use vesica_primitives::oracle::Oracle;
use vesica_wire::{Channel, Error, Frames, Kind, Misbehaviour, recv_rows, send_rows};

/// The sender's commitment to its half of the coin.
pub const COMMITMENT: Kind = Kind {
    code: 54,
    name: "coin commitment",
};

/// A half of the coin; the sender's comes with the randomness of the commitment, and with the coin.
pub const COIN: Kind = Kind {
    code: 55,
    name: "coin",
};

/// A coin, or a half of it.
pub type Coin = [u8; 16];

/// Bytes of a half and of the commitment's randomness.
const OPENING: usize = 48;

/// The frames of a coin: the sender's commitment, the receiver's half, and the sender's opening.
pub(crate) fn frames() -> [Frames; 3] {
    [32, 16, OPENING + 16].map(|bytes| Frames::rows(1, bytes))
}

/// The sender's half of a coin, to which it has committed.
pub struct Committed([u8; OPENING]);

impl Committed {
    /// Tosses a half, and sends the commitment.
    pub fn send(
        channel: &mut dyn Channel,
        oracle: &Oracle,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let mut opening = [0; OPENING];
        rng.fill_bytes(&mut opening);
        send_rows(channel, COMMITMENT, &oracle.hash(&[&opening]), 32)?;
        Ok(Committed(opening))
    }

    /// Opens the commitment; returns the coin made with the receiver's half `theirs`.
    pub fn open(self, channel: &mut dyn Channel, theirs: Coin) -> Result<Coin, Error> {
        let coin = joined(theirs, &self.0);
        send_rows(channel, COIN, &[&self.0[..], &coin].concat(), OPENING + 16)?;
        Ok(coin)
    }
}

/// Receives the receiver's half.
pub fn recv_half(channel: &mut dyn Channel) -> Result<Coin, Error> {
    received(channel, COIN)
}

/// Tosses the receiver's half, and sends it.
pub fn send_half(channel: &mut dyn Channel, rng: &mut dyn CryptoRng) -> Result<Coin, Error> {
    let mut half = [0; 16];
    rng.fill_bytes(&mut half);
    send_rows(channel, COIN, &half, 16)?;
    Ok(half)
}

/// The sender's commitment, as the receiver holds it.
pub struct Sealed([u8; 32]);

impl Sealed {
    /// Receives the commitment.
    pub fn receive(channel: &mut dyn Channel) -> Result<Self, Error> {
        Ok(Sealed(received(channel, COMMITMENT)?))
    }

    /// Receives the opening; returns the coin made with this side's half `own`.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` if the opening does not match the commitment, or the coin is not the
    /// sum of both halves.
    pub fn opened(
        self,
        channel: &mut dyn Channel,
        oracle: &Oracle,
        own: Coin,
    ) -> Result<Coin, Error> {
        let message = received::<{ OPENING + 16 }>(channel, COIN)?;
        let (theirs, coin) = message.split_at(OPENING);
        let problem = |problem| Misbehaviour::BadValue {
            what: COIN.name,
            problem,
        };
        if oracle.hash(&[theirs]) != self.0 {
            return Err(problem("not what was committed to").into());
        }
        if coin != joined(own, theirs) {
            return Err(problem("not the sum of both halves").into());
        }
        Ok(joined(own, theirs))
    }
}

/// The sum of a half and the other half, the first part of an opening.
fn joined(mut coin: Coin, opening: &[u8]) -> Coin {
    coin.iter_mut().zip(opening).for_each(|(c, o)| *c ^= o);
    coin
}

fn received<const N: usize>(channel: &mut dyn Channel, kind: Kind) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    recv_rows(channel, kind, N, 1, |row| {
        bytes.copy_from_slice(row);
        Ok(())
    })?;
    Ok(bytes)
}
