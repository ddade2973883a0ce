//! Which bins match, if enough do in all parts of a run.

use rand_core::CryptoRng;
use vesica_wire::{Channel, Error};

use super::{Least, enough, guarded_bits, signed_size_ring};
use crate::bits::BitShares;
use crate::engine::{Receiver, Sender};
use crate::messages::{SHARES, receive_packed, send_packed};
use crate::triples::Party;

/// The steps of [`Receiver::matches`], which are taken for each part by themselves.
pub(crate) trait OpensMatches {
    /// Which bins match, for the party that learns it.
    type Opened;

    /// A share of the number of matches, in the ring of that of all parts. Those of parts add up.
    fn count(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
    ) -> Result<u64, Error>;

    /// Whose ANDs compare.
    fn main(&mut self) -> &mut impl Party;

    /// A share of whether at least `minimum` of `bins` bins match, from one of how many do.
    fn enough(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        count: u64,
        (minimum, bins): (u64, usize),
    ) -> Result<BitShares, Error> {
        let least = Least::of_all(minimum, bins);
        enough(self.main(), channel, rng, &[count], (least, 0))
    }

    /// Which bins match if the shared bit is 1, and none otherwise.
    fn open_matches(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        enough: &BitShares,
    ) -> Result<Self::Opened, Error>;

    /// All steps over the only part.
    fn all_steps(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<Self::Opened, Error> {
        let count = self.count(channel, rng, matches)?;
        let enough = self.enough(channel, rng, count, (minimum, matches.len()))?;
        self.open_matches(channel, rng, matches, &enough)
    }
}

impl Receiver {
    /// Which bins match if at least `minimum` do, and none otherwise.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    pub fn matches(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<Vec<bool>, Error> {
        self.all_steps(channel, rng, matches, minimum)
    }
}

impl OpensMatches for Receiver {
    type Opened = Vec<bool>;

    fn count(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
    ) -> Result<u64, Error> {
        let ring = signed_size_ring(self.parts * matches.len(), 0);
        self.size_share(channel, rng, ring, matches)
    }

    fn main(&mut self) -> &mut impl Party {
        &mut self.main
    }

    fn open_matches(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        enough: &BitShares,
    ) -> Result<Vec<bool>, Error> {
        let mut bits = guarded_bits(&mut self.main, channel, rng, matches, enough)?;
        bits.add(&receive_packed(channel, SHARES, bits.len())?);
        Ok(bits.bools().to_vec())
    }
}

impl Sender {
    /// The other side of [`Receiver::matches`].
    ///
    /// # Errors
    /// As there.
    pub fn matches(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<(), Error> {
        self.all_steps(channel, rng, matches, minimum)
    }
}

impl OpensMatches for Sender {
    type Opened = ();

    fn count(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
    ) -> Result<u64, Error> {
        let ring = signed_size_ring(self.parts * matches.len(), 0);
        self.size_share(channel, rng, ring, matches)
    }

    fn main(&mut self) -> &mut impl Party {
        &mut self.main
    }

    fn open_matches(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        enough: &BitShares,
    ) -> Result<(), Error> {
        let bits = guarded_bits(&mut self.main, channel, rng, matches, enough)?;
        send_packed(channel, SHARES, &bits)
    }
}
