//! Functions over the intersection, from XOR shares b_i of which bins match. The receiver learns the result.
//!
//! **Functions.** CGS22, sections 5 and 6, computed as follows, with payloads as integers modulo 2^64.
//! - *Size.* Σ b_i in the smallest ring that holds the number of bins: one product of 1 by a shared bit per bin.
//! - *Sums of the receiver's payloads.* Σ b_i·v_i: one product per bin and payload.
//! - *Sums of the sender's payloads.* The receiver has z_i = v_i + τ_i modulo 2^64 where b_i = 1, and anything
//!   elsewhere; the sender has τ_i. Σ b_i·z_i − Σ b_i·τ_i: one product per bin in each direction.
//! - *Inner product.* Σ b_i·w_i·v_i with w_i the receiver's: b_i·(w_i·z_i) by a product, b_i·τ_i by one in the
//!   reverse direction, which leaves shares ρ_i + ρ′_i, and Σ w_i·ρ′_i by one inner product of the receiver's
//!   vector and the sender's, homomorphically if they are long.
//! - *Minimum.* For each number, how many bins match and add to it, in a ring with one bit more than a size takes; a
//!   comparison of all of these counts; and a guard of each number (see [`crate::compare`]). A payload of 0 adds nothing.
//!   With the sender's payload comes a bit that says whether it is 0, masked by another one; a product of bits in each
//!   direction leaves shares of which bins match and add. A size is counted by itself, where no other number is.
//! - *Matches under a minimum.* Each b_i AND the comparison's bit.
//!
//! The products of either party's payloads can also stay shared: the shares of both parties are uniform but for their
//! sum. So can those of strings of bytes (CGS22, appendix D), which are computed in the same way under exclusive or: the
//! receiver's by one product per bin, the sender's, masked by τ_i, by one in each direction.
//!
//! **Opening.** The sender sends its share of the result, and the receiver adds its own. Modulo the ring that share
//! is the result minus the receiver's share, so it tells the receiver nothing that the result does not: it needs no
//! fresh mask. Under a minimum it also sends its share of the comparison's bit, and the guarded values are 0 if there
//! are too few matches. Bits of matches are opened in the same way. The receiver never sends its share of either: the
//! sender learns nothing, and not whether the minimum was met.
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

use crate::arithmetic::{Group, Ring, Shares, by_lattice, sum};
use crate::bits::BitShares;
use crate::compare::all_at_least;
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::engine::{Receiver, Sender};
use crate::messages::{BitReader, BitWriter, OUTCOME, SHARES, receive_bits};
use crate::triples::{Party, and};

/// Opened bits in one frame.
pub(crate) const PIECE: usize = 1 << 20;

/// What the receiver learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The values, signed, in the order in which they were opened.
    Values(Vec<i64>),
    /// Only that for one of them there are fewer matches than the minimum.
    TooFew,
}

impl Answer {
    /// Tells it to the sender: a bit, 1 for values, and `count` values in 64 bits each, 0 if they are withheld.
    ///
    /// # Errors
    /// The channel's.
    ///
    /// # Panics
    /// If there are more or fewer values.
    pub fn tell(&self, channel: &mut dyn Channel, count: usize) -> Result<(), Error> {
        let withheld = vec![0; count];
        let (is_told, values) = match self {
            Answer::Values(values) => (1, values),
            Answer::TooFew => (0, &withheld),
        };
        assert_eq!(values.len(), count);
        let mut writer = BitWriter::with_capacity(outcome_bits(count));
        writer.push(is_told, 1);
        values
            .iter()
            .for_each(|value| writer.push(*value as u64, 64));
        channel.send(OUTCOME, writer.finish())
    }

    /// What the receiver [tells](Answer::tell): values in these ranges, or, if there is a minimum, that too few match.
    /// Nothing makes it tell the truth.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a frame of another length, bits beyond the last, and an answer that no run of
    /// this kind has.
    pub fn told(
        channel: &mut dyn Channel,
        ranges: &[RangeInclusive<i64>],
        has_minimum: bool,
    ) -> Result<Answer, Error> {
        channel.flush()?;
        let frame = receive_bits(channel, OUTCOME, outcome_bits(ranges.len()))?;
        let mut reader = BitReader::new(&frame);
        let is_told = reader.next(1) == 1;
        let values: Vec<i64> = ranges.iter().map(|_| reader.next(64) as i64).collect();
        let are_in_range = || {
            ranges
                .iter()
                .zip(&values)
                .all(|(of, value)| of.contains(value))
        };
        let problem = match is_told {
            true if are_in_range() => return Ok(Answer::Values(values)),
            true => "out of range",
            false if !has_minimum => "withheld without a minimum",
            false if values.iter().any(|value| *value != 0) => "a value that is withheld",
            false => return Ok(Answer::TooFew),
        };
        let what = OUTCOME.name;
        Err(Misbehaviour::BadValue { what, problem }.into())
    }
}

/// Bits of what the receiver tells the sender.
fn outcome_bits(count: usize) -> usize {
    1 + 64 * count
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

/// A party's share of a number that is opened.
#[derive(Clone, Copy)]
pub struct Number {
    ring: Ring,
    share: u64,
    /// Under a minimum, the share of how many bins add to it; a size counts by itself.
    count: Option<u64>,
}

/// A party's shares of numbers that are opened together.
struct Opened<'a> {
    numbers: &'a [Number],
    bins: usize,
}

impl Opened<'_> {
    /// What is compared with a minimum. No number has more bins than the size.
    fn counts(&self) -> Vec<u64> {
        let counts: Vec<u64> = self.numbers.iter().filter_map(|n| n.count).collect();
        match counts.is_empty() {
            true => self.shares().to_vec(),
            false => counts,
        }
    }

    fn shares(&self) -> Shares {
        Zeroizing::new(self.numbers.iter().map(|number| number.share).collect())
    }

    fn rings(&self) -> impl Iterator<Item = Ring> {
        self.numbers.iter().map(|number| number.ring)
    }

    /// What the shares of both parties add up to.
    fn values(&self, own: &[u64], theirs: &[u64]) -> Vec<i64> {
        let shares = own.iter().zip(theirs);
        let sums = shares.map(|(own, theirs)| own.wrapping_add(*theirs));
        let values = self
            .rings()
            .zip(sums)
            .map(|(ring, sum)| ring.reduce(sum) as i64);
        values.collect()
    }

    /// A share of whether every count is at least `minimum`.
    fn enough(
        &self,
        party: &mut impl Party,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        minimum: u64,
    ) -> Result<BitShares, Error> {
        let (ring, minimum) = (signed_size_ring(self.bins), clamp(minimum, self.bins));
        all_at_least(party, channel, rng, ring, &self.counts(), minimum)
    }
}

/// Sums modulo 2^64, with the counts that go with them.
fn sums(shares: &[Shares], counts: Option<&[Shares]>) -> Vec<Number> {
    let number = |(i, shares): (usize, &Shares)| Number {
        ring: Ring::FULL,
        share: sum(shares),
        count: counts.map(|counts| sum(&counts[i])),
    };
    shares.iter().enumerate().map(number).collect()
}

/// What a party has of the sender's payloads, for each bin.
#[derive(Clone, Default)]
pub struct Payloads {
    /// For each payload modulo 2^64: the receiver has it plus the sender's mask where the bin matches, and anything
    /// elsewhere; the sender has the mask.
    pub values: Vec<Zeroizing<Vec<u64>>>,
    /// The same of a bit for each payload, modulo 2, under a minimum: 1 if it is not 0.
    pub adding: Vec<Zeroizing<Vec<u64>>>,
    /// The same of each word of a string, under exclusive or, if the sender has strings.
    pub string: Vec<Zeroizing<Vec<u64>>>,
}

impl Payloads {
    /// The strings, all words of one bin after those of the other.
    fn strings(&self) -> Shares {
        let bins = self.string.first().map_or(0, |column| column.len());
        // One that grew would leave copies behind.
        let mut words = Zeroizing::new(Vec::with_capacity(bins * self.string.len()));
        for bin in 0..bins {
            words.extend(self.string.iter().map(|column| column[bin]));
        }
        words
    }
}

/// 1 for each value that is not 0, in a time that does not depend on them.
fn adding(values: &[i64]) -> Shares {
    let bit = |value: &i64| ((value | value.wrapping_neg()) as u64) >> 63;
    Zeroizing::new(values.iter().map(bit).collect())
}

/// Equally long columns one after the other.
fn joined<'a>(columns: impl IntoIterator<Item = &'a Shares>) -> Shares {
    let mut all = Zeroizing::new(Vec::new());
    columns
        .into_iter()
        .for_each(|column| all.extend_from_slice(column));
    all
}

fn joined_bits(columns: &[&BitShares]) -> BitShares {
    let mut all = BitShares::zeros(0);
    columns.iter().for_each(|column| all.append(column));
    all
}

/// The reverse of [`joined`].
fn split(all: Shares, columns: usize) -> Vec<Shares> {
    let each = all.len().checked_div(columns).unwrap_or(0);
    let column = |i: usize| Zeroizing::new(all[i * each..(i + 1) * each].to_vec());
    (0..columns).map(column).collect()
}

/// Shares of the products of columns of values by columns of shared bits.
fn select(
    end: &mut ValueEnd,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    ring: Ring,
    values: &[Shares],
    bits: &[&BitShares],
) -> Result<Vec<Shares>, Error> {
    let (all, bits) = (joined(values), joined_bits(bits));
    let shares = end.select(channel, rng, ring, &all, &bits)?;
    Ok(split(shares, values.len()))
}

/// The other side of [`select`].
fn multiply(
    end: &mut ChoiceEnd,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    ring: Ring,
    bits: &[&BitShares],
) -> Result<Vec<Shares>, Error> {
    let shares = end.multiply(channel, rng, ring, &joined_bits(bits))?;
    Ok(split(shares, bits.len()))
}

/// The sums of shares of bits.
fn added(one: &[Shares], other: &[Shares]) -> Vec<BitShares> {
    let column =
        |(one, other): (&Shares, &Shares)| BitShares::from_fn(one.len(), |i| one[i] ^ other[i]);
    one.iter().zip(other).map(column).collect()
}

impl Receiver {
    /// The number of matches, to be [opened](Receiver::open) under `minimum`; 0 asks for no comparison.
    ///
    /// # Errors
    /// The channel's and the source's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
    pub fn size(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        minimum: u64,
    ) -> Result<Number, Error> {
        let ring = ring_of_size(matches.len(), minimum);
        let share = self.size_share(channel, rng, ring, matches)?;
        Ok(Number {
            ring,
            share,
            count: None,
        })
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
        let enough = all_at_least(&mut self.main, channel, rng, ring, &[size], minimum)?;
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

    /// For each column of values, shares of `values[i]` modulo 2^64 where bin i matches, and of 0 elsewhere.
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
        values: &[&[i64]],
    ) -> Result<Vec<Shares>, Error> {
        let values: Vec<Shares> = values.iter().map(|values| unsigned(values)).collect();
        let matches = vec![matches; values.len()];
        select(&mut self.main, channel, rng, Ring::FULL, &values, &matches)
    }

    /// Shares under exclusive or of a string of `bytes` bytes for each bin, where it matches, and of zeros elsewhere. All
    /// words of one string, of eight bytes each with the lowest first, come after those of the other.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many strings as bins.
    pub fn string_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (bytes, words): (usize, &[u64]),
    ) -> Result<Shares, Error> {
        let group = Group::Strings(bytes);
        self.main.select(channel, rng, group, words, matches)
    }

    /// For each column the sum of `values[i]` over the matching bins, to be [opened](Receiver::open) under `minimum`; 0
    /// asks for no comparison.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If there are not as many values as bins.
    pub fn sums_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        values: &[&[i64]],
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let shares = self.shares_of_receiver(channel, rng, matches, values)?;
        if minimum == 0 {
            return Ok(sums(&shares, None));
        }
        let ring = signed_size_ring(matches.len());
        let adding: Vec<Shares> = values.iter().map(|values| adding(values)).collect();
        let matches = vec![matches; values.len()];
        let counts = select(&mut self.main, channel, rng, ring, &adding, &matches)?;
        Ok(sums(&shares, Some(&counts)))
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

    /// Opens numbers over `bins` bins, of which there is at least one, if for each at least `minimum` bins match and add
    /// to it; 0 asks for no comparison.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    pub fn open(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        numbers: &[Number],
        (minimum, bins): (u64, usize),
    ) -> Result<Answer, Error> {
        let opened = Opened { numbers, bins };
        if minimum == 0 {
            let theirs = receive_shares(channel, opened.rings())?;
            return Ok(Answer::Values(opened.values(&opened.shares(), &theirs)));
        }
        let enough = opened.enough(&mut self.main, channel, rng, minimum)?;
        let own = self.main.guard(channel, rng, &opened.shares(), &enough)?;
        let rings = std::iter::once(Ring::new(1)).chain(opened.rings());
        let theirs = receive_shares(channel, rings)?;
        Ok(match enough.get(0) ^ theirs[0] {
            1 => Answer::Values(opened.values(&own, &theirs[1..])),
            _ => Answer::TooFew,
        })
    }

    /// For each of the sender's payloads, shares of it modulo 2^64 where bin i matches, and of 0 elsewhere.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many values as bins.
    pub fn shares_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masked: &Payloads,
    ) -> Result<Vec<Shares>, Error> {
        let matches = vec![matches; masked.values.len()];
        let (values, ring) = (&masked.values, Ring::FULL);
        let values = select(&mut self.main, channel, rng, ring, values, &matches)?;
        let masks = multiply(self.reverse(), channel, rng, ring, &matches)?;
        Ok(differences(values, &masks))
    }

    /// Shares of the sender's string of `bytes` bytes for each bin, as those of [`Receiver::string_of_receiver`].
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many strings as bins.
    pub fn string_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (bytes, masked): (usize, &Payloads),
    ) -> Result<Shares, Error> {
        let group = Group::Strings(bytes);
        let strings = masked.strings();
        let strings = self.main.select(channel, rng, group, &strings, matches)?;
        let masks = self.reverse().multiply(channel, rng, group, matches)?;
        Ok(exclusive_or(strings, &masks))
    }

    /// The sum of each of the sender's payloads over the matching bins, to be [opened](Receiver::open) under `minimum`; 0
    /// asks for no comparison.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many values as bins, or, under a minimum, not as
    /// many bits.
    pub fn sums_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masked: &Payloads,
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let shares = self.shares_of_sender(channel, rng, matches, masked)?;
        if minimum == 0 {
            return Ok(sums(&shares, None));
        }
        let ones = vec![Zeroizing::new(vec![1; matches.len()]); shares.len()];
        let counts = self.counts(channel, rng, matches, masked, &ones)?;
        Ok(sums(&shares, Some(&counts)))
    }

    /// For each of the sender's payloads, shares of `own[i]` where bin i matches and the payload is not 0.
    fn counts(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masked: &Payloads,
        own: &[Shares],
    ) -> Result<Vec<Shares>, Error> {
        let all = vec![matches; masked.adding.len()];
        let (bits, bit) = (&masked.adding, Ring::new(1));
        let bits = select(&mut self.main, channel, rng, bit, bits, &all)?;
        let masks = multiply(self.reverse(), channel, rng, bit, &all)?;
        let adding = added(&bits, &masks);
        let adding: Vec<&BitShares> = adding.iter().collect();
        let ring = signed_size_ring(matches.len());
        select(&mut self.main, channel, rng, ring, own, &adding)
    }

    /// The sum of `weights[i]` times the sender's one payload over the matching bins, to be [opened](Receiver::open) under
    /// `minimum`; 0 asks for no comparison. What homomorphic encryption shows is within 2^-(`lambda` + 8) of nothing.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many weights and values as bins, or, under a
    /// minimum, not as many bits.
    pub fn inner_product(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (weights, masked): (&[i64], &Payloads),
        (minimum, lambda): (u64, u32),
    ) -> Result<Number, Error> {
        let [masked_values] = &masked.values[..] else {
            panic!("one payload for one weight");
        };
        assert_eq!(weights.len(), masked_values.len());
        let ring = Ring::FULL;
        let own = adding(weights);
        let weights = unsigned(weights);
        let products = weights.iter().zip(&**masked_values);
        let products = products.map(|(w, z)| w.wrapping_mul(*z));
        let products: Shares = Zeroizing::new(products.collect());
        let values = self.main.select(channel, rng, ring, &products, matches)?;
        let masks = self.reverse().multiply(channel, rng, ring, matches)?;
        let theirs = match by_lattice(weights.len(), lambda) {
            true => inner_product::hold(channel, &self.session, &weights, rng)?,
            false => sum(&self.main.integer_products(channel, rng, &weights)?),
        };
        let of_masks = weights.iter().zip(&*masks).fold(0u64, |sum, (w, mask)| {
            sum.wrapping_add(w.wrapping_mul(*mask))
        });
        let share = sum(&values).wrapping_sub(of_masks).wrapping_sub(theirs);
        let count = match minimum {
            0 => None,
            _ => Some(sum(&self.counts(channel, rng, matches, masked, &[own])?[0])),
        };
        Ok(Number { ring, share, count })
    }
}

impl Sender {
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
    ) -> Result<Number, Error> {
        let ring = ring_of_size(matches.len(), minimum);
        let share = self.size_share(channel, rng, ring, matches)?;
        Ok(Number {
            ring,
            share,
            count: None,
        })
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
        let enough = all_at_least(&mut self.main, channel, rng, ring, &[size], minimum)?;
        let bits = guarded_bits(&mut self.main, channel, rng, matches, &enough)?;
        for from in (0..bins).step_by(PIECE) {
            let mut writer = BitWriter::with_capacity(PIECE);
            (from..bins.min(from + PIECE)).for_each(|i| writer.push(bits.get(i), 1));
            channel.send(SHARES, writer.finish())?;
        }
        Ok(())
    }

    /// The other side of [`Receiver::shares_of_receiver`], of so many columns.
    ///
    /// # Errors
    /// As there.
    pub fn shares_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        columns: usize,
    ) -> Result<Vec<Shares>, Error> {
        let matches = vec![matches; columns];
        multiply(&mut self.main, channel, rng, Ring::FULL, &matches)
    }

    /// The other side of [`Receiver::string_of_receiver`].
    ///
    /// # Errors
    /// As there.
    pub fn string_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        bytes: usize,
    ) -> Result<Shares, Error> {
        let group = Group::Strings(bytes);
        self.main.multiply(channel, rng, group, matches)
    }

    /// The other side of [`Receiver::sums_of_receiver`], of so many columns.
    ///
    /// # Errors
    /// As there.
    pub fn sums_of_receiver(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        columns: usize,
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let shares = self.shares_of_receiver(channel, rng, matches, columns)?;
        if minimum == 0 {
            return Ok(sums(&shares, None));
        }
        let ring = signed_size_ring(matches.len());
        let counts = multiply(&mut self.main, channel, rng, ring, &vec![matches; columns])?;
        Ok(sums(&shares, Some(&counts)))
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

    /// The other side of [`Receiver::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        numbers: &[Number],
        (minimum, bins): (u64, usize),
    ) -> Result<(), Error> {
        let opened = Opened { numbers, bins };
        if minimum == 0 {
            return send_shares(channel, opened.rings().zip(opened.shares().iter().copied()));
        }
        let enough = opened.enough(&mut self.main, channel, rng, minimum)?;
        let shares = self.main.guard(channel, rng, &opened.shares(), &enough)?;
        let bit = (Ring::new(1), enough.get(0));
        let shares = opened.rings().zip(shares.iter().copied());
        send_shares(channel, std::iter::once(bit).chain(shares))
    }

    /// The other side of [`Receiver::shares_of_sender`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many masks as bins.
    pub fn shares_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &Payloads,
    ) -> Result<Vec<Shares>, Error> {
        let matches = vec![matches; masks.values.len()];
        let (masks, ring) = (&masks.values, Ring::FULL);
        let values = multiply(&mut self.main, channel, rng, ring, &matches)?;
        let masks = select(self.reverse(), channel, rng, ring, masks, &matches)?;
        Ok(differences(values, &masks))
    }

    /// The other side of [`Receiver::string_of_sender`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many masks as bins.
    pub fn string_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (bytes, masks): (usize, &Payloads),
    ) -> Result<Shares, Error> {
        let group = Group::Strings(bytes);
        let strings = self.main.multiply(channel, rng, group, matches)?;
        let masks = masks.strings();
        let masks = self
            .reverse()
            .select(channel, rng, group, &masks, matches)?;
        Ok(exclusive_or(strings, &masks))
    }

    /// The other side of [`Receiver::sums_of_sender`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many masks as bins.
    pub fn sums_of_sender(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &Payloads,
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let shares = self.shares_of_sender(channel, rng, matches, masks)?;
        if minimum == 0 {
            return Ok(sums(&shares, None));
        }
        let counts = self.counts(channel, rng, matches, masks)?;
        Ok(sums(&shares, Some(&counts)))
    }

    /// The other side of [`Receiver::counts`].
    fn counts(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &Payloads,
    ) -> Result<Vec<Shares>, Error> {
        let all = vec![matches; masks.adding.len()];
        let (bits, bit) = (&masks.adding, Ring::new(1));
        let own = multiply(&mut self.main, channel, rng, bit, &all)?;
        let masks = select(self.reverse(), channel, rng, bit, bits, &all)?;
        let adding = added(&own, &masks);
        let adding: Vec<&BitShares> = adding.iter().collect();
        let ring = signed_size_ring(matches.len());
        multiply(&mut self.main, channel, rng, ring, &adding)
    }

    /// The other side of [`Receiver::inner_product`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the engine has no reverse direction, or there are not as many masks as bins.
    pub fn inner_product(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        masks: &Payloads,
        (minimum, lambda): (u64, u32),
    ) -> Result<Number, Error> {
        let [own] = &masks.values[..] else {
            panic!("one payload for one weight");
        };
        let ring = Ring::FULL;
        let values = self.main.multiply(channel, rng, ring, matches)?;
        let shares = self.reverse().select(channel, rng, ring, own, matches)?;
        let theirs = match by_lattice(shares.len(), lambda) {
            true => inner_product::help(channel, &self.session, &shares, rng)?,
            false => sum(&self.main.integer_products(channel, rng, &shares)?),
        };
        let share = sum(&values).wrapping_sub(theirs);
        let count = match minimum {
            0 => None,
            _ => Some(sum(&self.counts(channel, rng, matches, masks)?[0])),
        };
        Ok(Number { ring, share, count })
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
fn differences(mut from: Vec<Shares>, less: &[Shares]) -> Vec<Shares> {
    for (from, less) in from.iter_mut().zip(less) {
        let pairs = from.iter_mut().zip(&**less);
        pairs.for_each(|(from, less)| *from = from.wrapping_sub(*less));
    }
    from
}

/// Sums of strings.
fn exclusive_or(mut one: Shares, other: &[u64]) -> Shares {
    one.iter_mut()
        .zip(other)
        .for_each(|(one, other)| *one ^= other);
    one
}

/// Values as integers modulo 2^64.
fn unsigned(values: &[i64]) -> Shares {
    Zeroizing::new(values.iter().map(|value| *value as u64).collect())
}

/// The ring of a size that is opened under a minimum, if there is one.
fn ring_of_size(bins: usize, minimum: u64) -> Ring {
    match minimum {
        0 => size_ring(bins),
        _ => signed_size_ring(bins),
    }
}

/// The sender's last message of numbers.
fn send_shares(
    channel: &mut dyn Channel,
    shares: impl Iterator<Item = (Ring, u64)>,
) -> Result<(), Error> {
    let mut writer = BitWriter::with_capacity(128);
    for (ring, share) in shares {
        writer.push(ring.reduce(share), ring.bits());
    }
    channel.send(SHARES, writer.finish())
}

/// The sender's shares modulo these rings.
fn receive_shares(
    channel: &mut dyn Channel,
    rings: impl Iterator<Item = Ring>,
) -> Result<Vec<u64>, Error> {
    let rings: Vec<Ring> = rings.collect();
    let bits = rings.iter().map(|ring| ring.bits() as usize).sum();
    let frame = receive_bits(channel, SHARES, bits)?;
    let mut reader = BitReader::new(&frame);
    Ok(rings.iter().map(|ring| reader.next(ring.bits())).collect())
}

#[cfg(test)]
mod tests;
