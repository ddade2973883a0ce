//! Functions over the intersection, from XOR shares b_i of which bins match. The receiver learns the result.
//!
//! **Functions.** CGS22, sections 5 and 6, computed as follows, with payloads as integers modulo 2^64.
//! - *Size.* Σ b_i in the smallest ring that holds the number of bins: one product of 1 by a shared bit per bin.
//! - *Sum of the receiver's payloads.* Σ b_i·v_i: one product per bin.
//! - *Sum of the sender's payloads.* The receiver has z_i = v_i + τ_i modulo 2^64 where b_i = 1, and anything
//!   elsewhere; the sender has τ_i. Σ b_i·z_i − Σ b_i·τ_i: one product per bin in each direction.
//! - *Inner product.* Σ b_i·w_i·v_i with w_i the receiver's: b_i·(w_i·z_i) by a product, b_i·τ_i by one in the
//!   reverse direction, which leaves shares ρ_i + ρ′_i, and Σ w_i·ρ′_i by one inner product of the receiver's
//!   vector and the sender's, homomorphically if they are long.
//! - *Minimum.* The size in a ring with one bit more, a comparison, and a guard (see [`crate::compare`]).
//! - *Matches under a minimum.* Each b_i AND the comparison's bit.
//!
//! The products of either party's payloads can also stay shared: the shares of both parties are uniform but for their
//! sum.
//!
//! **Opening.** The sender sends its share of the result, and the receiver adds its own. Modulo the ring that share
//! is the result minus the receiver's share, so it tells the receiver nothing that the result does not: it needs no
//! fresh mask. Under a minimum it also sends its share of the comparison's bit, and the guarded value is 0 if there
//! are too few matches. Bits of matches are opened in the same way. The receiver never sends its share of either: the sender learns nothing, and not whether
//! the minimum was met.
//!
//! **Telling.** Where both want the result, the receiver then [tells](Answer::tell) the sender, in one frame whose length
//! is always the same. It speaks last: it can lie, or leave, once it knows the result.
//!
//! **Adversary.** Semi-honest. Results beyond 2^63 wrap around: the contract has to bound the payloads. A size is a
//! number of bins, so each matching item has to be in one bin only.

use std::ops::RangeInclusive;

use rand_core::CryptoRng;
use vesica_correlations::ole::lattice::inner_product;
use vesica_wire::{Channel, Error, Misbehaviour};
use zeroize::Zeroizing;

use crate::arithmetic::{Ring, Shares, by_lattice, sum};
use crate::bits::BitShares;
use crate::compare::at_least;
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::engine::{Receiver, Sender};
use crate::messages::{BitReader, BitWriter, OUTCOME, SHARES, receive_bits};
use crate::triples::{Party, and};

/// Bits of what the receiver tells the sender.
const OUTCOME_BITS: usize = 1 + 64;

/// Opened bits in one frame.
pub(crate) const PIECE: usize = 1 << 20;

/// What the receiver learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value, signed.
    Value(i64),
    /// Only that there are fewer matches than the minimum.
    TooFew,
}

impl Answer {
    /// Tells it to the sender: a bit, 1 for a value, and the value in 64 bits, 0 if there is none.
    ///
    /// # Errors
    /// The channel's.
    pub fn tell(self, channel: &mut dyn Channel) -> Result<(), Error> {
        let (is_value, value) = match self {
            Answer::Value(value) => (1, value as u64),
            Answer::TooFew => (0, 0),
        };
        let mut writer = BitWriter::with_capacity(OUTCOME_BITS);
        writer.push(is_value, 1);
        writer.push(value, 64);
        channel.send(OUTCOME, writer.finish())
    }

    /// What the receiver [tells](Answer::tell): a value in `range`, or, if there is a minimum, that too few match. Nothing
    /// makes it tell the truth.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a frame of another length, bits beyond the last, and an answer that no run of
    /// this kind has.
    pub fn told(
        channel: &mut dyn Channel,
        range: RangeInclusive<i64>,
        has_minimum: bool,
    ) -> Result<Answer, Error> {
        channel.flush()?;
        let frame = receive_bits(channel, OUTCOME, OUTCOME_BITS)?;
        let mut reader = BitReader::new(&frame);
        let (is_value, value) = (reader.next(1) == 1, reader.next(64) as i64);
        let problem = match is_value {
            true if range.contains(&value) => return Ok(Answer::Value(value)),
            true => "out of range",
            false if !has_minimum => "withheld without a minimum",
            false if value != 0 => "a value that is withheld",
            false => return Ok(Answer::TooFew),
        };
        let what = OUTCOME.name;
        Err(Misbehaviour::BadValue { what, problem }.into())
    }
}

/// The ring of a size that is opened.
pub(crate) fn size_ring(bins: usize) -> Ring {
    Ring::holding(bins as u64)
}

/// The ring of a size that is compared with up to `bins` + 1: one bit more, for the sign.
pub(crate) fn signed_size_ring(bins: usize) -> Ring {
    Ring::new(Ring::holding(bins as u64 + 1).bits() + 1)
}

/// A minimum that no size meets is as good as any other.
fn clamp(minimum: u64, bins: usize) -> u64 {
    minimum.min(bins as u64 + 1)
}

/// What is opened: a value in a ring, and perhaps first the bit that guards it.
#[derive(Clone, Copy)]
struct Opened {
    ring: Ring,
    share: u64,
}

impl<R> Receiver<R> {
    /// The number of matches, if it is at least `minimum`; 0 asks for no comparison.
    ///
    /// # Errors
    /// The channel's and the source's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
    pub fn size(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<Answer, Error> {
        let bins = matches.len();
        if minimum == 0 {
            let ring = size_ring(bins);
            let share = self.size_share(channel, rng, ring, matches)?;
            return self.open(channel, Opened { ring, share });
        }
        let ring = signed_size_ring(bins);
        let share = self.size_share(channel, rng, ring, matches)?;
        self.guarded(channel, rng, Opened { ring, share }, share, (minimum, bins))
    }

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
        let bins = matches.len();
        let ring = signed_size_ring(bins);
        let size = self.size_share(channel, rng, ring, matches)?;
        let minimum = clamp(minimum, bins);
        let enough = at_least(&mut self.main, channel, rng, ring, size, minimum)?;
        let bits = guarded_bits(&mut self.main, channel, rng, matches, &enough)?;
        let mut opened = Vec::with_capacity(bins);
        while opened.len() < bins {
            let piece = PIECE.min(bins - opened.len());
            let frame = receive_bits(channel, SHARES, piece)?;
            let mut reader = BitReader::new(&frame);
            let from = opened.len();
            opened.extend((from..from + piece).map(|i| bits.get(i) ^ reader.next(1) == 1));
        }
        Ok(opened)
    }

    /// Shares of `values[i]` modulo 2^64 where bin i matches, and of 0 elsewhere.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many values as bins.
    pub fn shares_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        values: &[i64],
    ) -> Result<Shares, Error> {
        let values: Shares = Zeroizing::new(values.iter().map(|value| *value as u64).collect());
        self.main.select(channel, rng, Ring::FULL, &values, matches)
    }

    /// The sum of `values[i]` over the matching bins, if there are at least `minimum`; 0 asks for no comparison.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many values as bins.
    pub fn sum_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        values: &[i64],
        minimum: u64,
    ) -> Result<Answer, Error> {
        let shares = self.shares_of_receiver(channel, rng, matches, values)?;
        self.answer(channel, rng, sum(&shares), matches, minimum)
    }

    /// A share of the number of matches.
    fn size_share(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        ring: Ring,
        matches: &BitShares,
    ) -> Result<u64, Error> {
        let ones = vec![1; matches.len()];
        let shares = self.main.select(channel, rng, ring, &ones, matches)?;
        Ok(ring.reduce(sum(&shares)))
    }

    /// Opens a value modulo 2^64, under a minimum if there is one.
    fn answer(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        share: u64,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<Answer, Error> {
        let ring = Ring::FULL;
        if minimum == 0 {
            return self.open(channel, Opened { ring, share });
        }
        let bins = matches.len();
        let size = self.size_share(channel, rng, signed_size_ring(bins), matches)?;
        self.guarded(channel, rng, Opened { ring, share }, size, (minimum, bins))
    }

    /// Opens a value.
    fn open(&mut self, channel: &mut dyn Channel, value: Opened) -> Result<Answer, Error> {
        let [theirs] = receive_shares(channel, [value.ring])?;
        let value = value.ring.reduce(value.share.wrapping_add(theirs));
        Ok(Answer::Value(value as i64))
    }

    /// Opens a value if the size, of which this is a share, is at least `minimum`.
    fn guarded(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        value: Opened,
        size: u64,
        (minimum, bins): (u64, usize),
    ) -> Result<Answer, Error> {
        let (ring, minimum) = (signed_size_ring(bins), clamp(minimum, bins));
        let enough = at_least(&mut self.main, channel, rng, ring, size, minimum)?;
        let share = self
            .main
            .guard(channel, rng, value.ring, value.share, &enough)?;
        let [bit, theirs] = receive_shares(channel, [Ring::new(1), value.ring])?;
        let value = value.ring.reduce(share.wrapping_add(theirs));
        Ok(match enough.get(0) ^ bit {
            1 => Answer::Value(value as i64),
            _ => Answer::TooFew,
        })
    }
}

impl Receiver<ChoiceEnd> {
    /// Shares of the sender's payload modulo 2^64 where bin i matches, and of 0 elsewhere. `masked[i]` is the payload
    /// plus the sender's mask if bin i matches, and anything otherwise.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many values as bins.
    pub fn shares_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masked: &[u64],
    ) -> Result<Shares, Error> {
        let ring = Ring::FULL;
        let values = self.main.select(channel, rng, ring, masked, matches)?;
        let masks = self.reverse.multiply(channel, rng, ring, matches)?;
        Ok(differences(values, &masks))
    }

    /// The sum of the sender's payloads over the matching bins, if there are at least `minimum`; 0 asks for no
    /// comparison. `masked` is as in [`Receiver::shares_of_sender`].
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many values as bins.
    pub fn sum_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masked: &[u64],
        minimum: u64,
    ) -> Result<Answer, Error> {
        let shares = self.shares_of_sender(channel, rng, matches, masked)?;
        self.answer(channel, rng, sum(&shares), matches, minimum)
    }

    /// The sum of `weights[i]` times the sender's payload over the matching bins, with `masked` and `minimum` as in
    /// [`Receiver::sum_of_sender`]. What homomorphic encryption shows is within 2^-(`lambda` + 8) of nothing.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many weights and values as bins.
    pub fn inner_product(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (weights, masked): (&[i64], &[u64]),
        (minimum, lambda): (u64, u32),
    ) -> Result<Answer, Error> {
        assert_eq!(weights.len(), masked.len());
        let ring = Ring::FULL;
        let weights: Shares = Zeroizing::new(weights.iter().map(|w| *w as u64).collect());
        let products = weights.iter().zip(masked).map(|(w, z)| w.wrapping_mul(*z));
        let products: Shares = Zeroizing::new(products.collect());
        let values = self.main.select(channel, rng, ring, &products, matches)?;
        let masks = self.reverse.multiply(channel, rng, ring, matches)?;
        let theirs = match by_lattice(weights.len(), lambda) {
            true => inner_product::hold(channel, &self.session, &weights, rng)?,
            false => self.main.inner_product(channel, rng, &weights)?,
        };
        let own = weights.iter().zip(&*masks).fold(0u64, |sum, (w, mask)| {
            sum.wrapping_add(w.wrapping_mul(*mask))
        });
        let share = sum(&values).wrapping_sub(own).wrapping_sub(theirs);
        self.answer(channel, rng, share, matches, minimum)
    }
}

impl<R> Sender<R> {
    /// The other side of [`Receiver::size`].
    ///
    /// # Errors
    /// As there.
    pub fn size(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<(), Error> {
        let bins = matches.len();
        if minimum == 0 {
            let ring = size_ring(bins);
            let share = self.size_share(channel, rng, ring, matches)?;
            return send_shares(channel, &[(ring, share)]);
        }
        let ring = signed_size_ring(bins);
        let share = self.size_share(channel, rng, ring, matches)?;
        self.guarded(channel, rng, Opened { ring, share }, share, (minimum, bins))
    }

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
        let bins = matches.len();
        let ring = signed_size_ring(bins);
        let size = self.size_share(channel, rng, ring, matches)?;
        let minimum = clamp(minimum, bins);
        let enough = at_least(&mut self.main, channel, rng, ring, size, minimum)?;
        let bits = guarded_bits(&mut self.main, channel, rng, matches, &enough)?;
        for from in (0..bins).step_by(PIECE) {
            let mut writer = BitWriter::with_capacity(PIECE);
            (from..bins.min(from + PIECE)).for_each(|i| writer.push(bits.get(i), 1));
            channel.send(SHARES, writer.finish())?;
        }
        Ok(())
    }

    /// The other side of [`Receiver::shares_of_receiver`].
    ///
    /// # Errors
    /// As there.
    pub fn shares_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
    ) -> Result<Shares, Error> {
        self.main.multiply(channel, rng, Ring::FULL, matches)
    }

    /// The other side of [`Receiver::sum_of_receiver`].
    ///
    /// # Errors
    /// As there.
    pub fn sum_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<(), Error> {
        let shares = self.shares_of_receiver(channel, rng, matches)?;
        self.answer(channel, rng, sum(&shares), matches, minimum)
    }

    /// A share of the number of matches.
    fn size_share(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        ring: Ring,
        matches: &BitShares,
    ) -> Result<u64, Error> {
        let shares = self.main.multiply(channel, rng, ring, matches)?;
        Ok(ring.reduce(sum(&shares)))
    }

    /// The other side of [`Receiver::answer`].
    fn answer(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        share: u64,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<(), Error> {
        let ring = Ring::FULL;
        if minimum == 0 {
            return send_shares(channel, &[(ring, share)]);
        }
        let bins = matches.len();
        let size = self.size_share(channel, rng, signed_size_ring(bins), matches)?;
        self.guarded(channel, rng, Opened { ring, share }, size, (minimum, bins))
    }

    /// The other side of [`Receiver::guarded`].
    fn guarded(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        value: Opened,
        size: u64,
        (minimum, bins): (u64, usize),
    ) -> Result<(), Error> {
        let (ring, minimum) = (signed_size_ring(bins), clamp(minimum, bins));
        let enough = at_least(&mut self.main, channel, rng, ring, size, minimum)?;
        let share = self
            .main
            .guard(channel, rng, value.ring, value.share, &enough)?;
        send_shares(
            channel,
            &[(Ring::new(1), enough.get(0)), (value.ring, share)],
        )
    }
}

impl Sender<ValueEnd> {
    /// The other side of [`Receiver::shares_of_sender`]: `masks[i]` is what was added to the payload of bin i.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there are not as many masks as bins.
    pub fn shares_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &[u64],
    ) -> Result<Shares, Error> {
        let ring = Ring::FULL;
        let values = self.main.multiply(channel, rng, ring, matches)?;
        let masks = self.reverse.select(channel, rng, ring, masks, matches)?;
        Ok(differences(values, &masks))
    }

    /// The other side of [`Receiver::sum_of_sender`], with `masks` as in [`Sender::shares_of_sender`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there are not as many masks as bins.
    pub fn sum_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &[u64],
        minimum: u64,
    ) -> Result<(), Error> {
        let shares = self.shares_of_sender(channel, rng, matches, masks)?;
        self.answer(channel, rng, sum(&shares), matches, minimum)
    }

    /// The other side of [`Receiver::inner_product`], with `masks` as in [`Sender::shares_of_sender`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there are not as many masks as bins.
    pub fn inner_product(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &[u64],
        (minimum, lambda): (u64, u32),
    ) -> Result<(), Error> {
        let ring = Ring::FULL;
        let values = self.main.multiply(channel, rng, ring, matches)?;
        let masks = self.reverse.select(channel, rng, ring, masks, matches)?;
        let theirs = match by_lattice(masks.len(), lambda) {
            true => inner_product::help(channel, &self.session, &masks, rng)?,
            false => self.main.inner_product(channel, rng, &masks)?,
        };
        let share = sum(&values).wrapping_sub(theirs);
        self.answer(channel, rng, share, matches, minimum)
    }
}

/// The shared bits where the shared bit `condition` is 1, and zeros otherwise.
fn guarded_bits(
    party: &mut impl Party,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    bits: &BitShares,
    condition: &BitShares,
) -> Result<BitShares, Error> {
    let repeated = BitShares::from_fn(bits.len(), |_| condition.get(0));
    let mut triples = party.triples(channel, rng, bits.words().len())?;
    Ok(and(channel, &mut triples, &[bits], &[&repeated])?.remove(0))
}

/// Differences modulo 2^64.
fn differences(mut from: Shares, less: &[u64]) -> Shares {
    let pairs = from.iter_mut().zip(less);
    pairs.for_each(|(from, less)| *from = from.wrapping_sub(*less));
    from
}

/// The sender's last message of a number.
fn send_shares(channel: &mut dyn Channel, shares: &[(Ring, u64)]) -> Result<(), Error> {
    let mut writer = BitWriter::with_capacity(128);
    for (ring, share) in shares {
        writer.push(ring.reduce(*share), ring.bits());
    }
    channel.send(SHARES, writer.finish())
}

/// The sender's shares modulo these rings.
fn receive_shares<const N: usize>(
    channel: &mut dyn Channel,
    rings: [Ring; N],
) -> Result<[u64; N], Error> {
    let bits = rings.iter().map(|ring| ring.bits() as usize).sum();
    let frame = receive_bits(channel, SHARES, bits)?;
    let mut reader = BitReader::new(&frame);
    Ok(rings.map(|ring| reader.next(ring.bits())))
}

#[cfg(test)]
mod tests;
