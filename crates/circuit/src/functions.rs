//! Functions over the intersection, from XOR shares b_i of which bins match. The receiver learns the result.
//!
//! **Functions.** CGS22, sections 5 and 6, computed as follows, with payloads as integers modulo 2^64.
//! - *Size.* Σ b_i, or Σ b_i·e_i over the bins of a group, in the smallest ring that holds the number of bins: one product of
//!   1 by a shared bit per bin.
//! - *Sums of the receiver's payloads.* Σ b_i·v_i: one product per bin, of a row of all payloads.
//! - *Sums of the sender's payloads.* The receiver has z_i = v_i + τ_i modulo 2^64 where b_i = 1, and anything
//!   elsewhere; the sender has τ_i. Σ b_i·z_i − Σ b_i·τ_i: one product of a row per bin in each direction, both at the
//!   same time.
//! - *Inner product.* Σ b_i·w_i·v_i with w_i the receiver's: b_i·(w_i·z_i) by a product, b_i·τ_i by one in the
//!   reverse direction, which leaves shares ρ_i + ρ′_i, and Σ w_i·ρ′_i by one inner product of the receiver's
//!   vector and the sender's, homomorphically if they are long.
//! - *Minimum.* For each number, how many bins match and add to it, in a ring with one bit more than a size takes; a
//!   comparison of all of these counts; and a guard of each number (see [`crate::compare`]). A payload of 0 adds nothing.
//!   With the sender's payload comes a bit that says whether it is 0, masked by another one. Multiplied in the same rows,
//!   these leave shares of which bins match and add. A size is counted by itself, where no other number is.
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
//! **Noise.** Numbers that are to be differentially private have noise added to the shares of which they are opened, and counts to
//! those that are compared (`docs/differential-privacy.md`). Sizes and counts are in rings with room for it, of up to `span`
//! beyond either end: a size from -span on, and a count whose difference from the minimum has a sign.
//!
//! **Telling.** Where both want the result, the receiver then [tells](Answer::tell) the sender, in one frame whose length
//! is always the same. It speaks last: it can lie, or leave, once it knows the result.
//!
//! **Adversary.** Semi-honest. Results beyond 2^63 wrap around: the contract has to bound the payloads. A size is a
//! number of bins, so each matching item has to be in one bin only.
//!
//! **Parts.** Where a run has several parts, sizes and counts are shared in the ring that holds the bins of all. Each party
//! adds up its shares, and numbers are opened, or compared with a minimum, once all parts have run: shares are uniform, and
//! sums of shares are shares of sums. The matches of all parts are each ANDed with the one bit that says whether enough
//! match in all of them.

mod matches;

use std::iter;
use std::ops::RangeInclusive;

use rand_core::CryptoRng;
use vesica_correlations::ole::lattice::inner_product;
use vesica_wire::{Channel, Error, Frames, Misbehaviour};
use zeroize::Zeroizing;

use crate::arithmetic::{Ends, Ring, Row, Shares, by_lattice, sum};
use crate::bits::BitShares;
use crate::compare::all_at_least;
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::engine::{Receiver, Sender};
use crate::messages::{BitReader, BitWriter, OUTCOME, SHARES, receive_bits};
use crate::triples::{Party, and};
pub(crate) use matches::OpensMatches;

/// What the receiver learns.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// The values, signed, in the order in which they were opened.
    Values(Vec<i64>),
    /// Only that for one of them there are fewer matches than the minimum.
    TooFew,
}

vesica_primitives::opaque!(Answer);

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

    /// The frames of that.
    pub(crate) fn told_frames(count: usize) -> Frames {
        Frames::one(outcome_bits(count).div_ceil(8))
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

/// The ring of a size that is opened: it holds those from -`span` to `bins` + `span`.
pub(crate) fn size_ring(bins: usize, span: u64) -> Ring {
    Ring::holding(bins as u64 + 2 * span)
}

/// The ring of a size, with noise up to `span`, that is compared with up to `bins` + 1: the difference has a sign, of one bit
/// more.
pub(crate) fn signed_size_ring(bins: usize, span: u64) -> Ring {
    Ring::new(Ring::holding(bins as u64 + 1 + span).bits() + 1)
}

/// A minimum that no size meets is as good as any other, unless noise can meet it: a contract rules that out.
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
    /// The value is this far below 0 at most; elements of the ring from there on stand for values below 0.
    span: u64,
}

impl Number {
    /// A size over so many bins of all parts, with noise up to `span`, whose shares are zeros.
    pub fn no_size(bins: usize, minimum: u64, span: u64) -> Number {
        Number {
            ring: ring_of_size(bins, minimum, span),
            share: 0,
            count: None,
            span,
        }
    }

    /// A sum whose shares are zeros.
    pub fn no_sum(minimum: u64) -> Number {
        Number::sum(0, (minimum > 0).then_some(0))
    }

    /// A sum modulo 2^64, signed, of which this party has a share, and one of its count.
    fn sum(share: u64, count: Option<u64>) -> Number {
        Number {
            ring: Ring::FULL,
            share,
            count,
            span: 1 << 63,
        }
    }

    /// Numbers like this one, whose shares are zeros, with these.
    fn with_each(self, shares: &[u64]) -> Vec<Number> {
        let ring = self.ring;
        let with = |share: &u64| Number {
            share: ring.reduce(*share),
            ..self
        };
        shares.iter().map(with).collect()
    }

    /// The value of an element of the ring.
    fn value(&self, element: u64) -> i64 {
        let above_least = self.ring.reduce(element.wrapping_add(self.span));
        above_least.wrapping_sub(self.span) as i64
    }

    /// That in which its shares add up.
    pub(crate) fn ring(&self) -> Ring {
        self.ring
    }

    /// Whether it has a count of its own to compare with a minimum.
    pub(crate) fn is_counted(&self) -> bool {
        self.count.is_some()
    }

    /// The share, and that of the count if there is one.
    pub(crate) fn shares(&self) -> impl Iterator<Item = u64> {
        iter::once(self.share).chain(self.count)
    }

    /// The same number with these [shares](Number::shares), as many as it takes, which may be sums of those of parts.
    pub(crate) fn with_shares(mut self, mut shares: impl Iterator<Item = u64>) -> Number {
        for share in iter::once(&mut self.share).chain(&mut self.count) {
            *share = shares.next().unwrap_or(0);
        }
        self
    }
}

/// What decides whether numbers are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// As many bins have to match and add to each number.
    pub minimum: u64,
    /// Of so many, at least one.
    pub bins: usize,
    /// So many sets, each of equally many numbers, are opened each by itself; number i is of set i modulo these.
    pub sets: usize,
}

impl Least {
    /// For all numbers together.
    pub fn of_all(minimum: u64, bins: usize) -> Least {
        Least {
            minimum,
            bins,
            sets: 1,
        }
    }
}

/// A party's shares of numbers that are opened together.
struct Opened<'a> {
    numbers: &'a [Number],
    least: Least,
    /// How far noise reaches in what they count.
    span: u64,
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
        let values = self.numbers.iter().zip(sums);
        values.map(|(number, sum)| number.value(sum)).collect()
    }

    /// For each set a share of whether every count is at least the minimum.
    fn enough(
        &self,
        party: &mut impl Party,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<BitShares, Error> {
        enough(party, channel, rng, &self.counts(), (self.least, self.span))
    }

    /// What is told of each set, by whether it is.
    fn answers(&self, values: &[i64], is_told: impl Fn(usize) -> bool) -> Vec<Answer> {
        let sets = self.least.sets;
        let of_set = |set| values.iter().skip(set).step_by(sets).copied().collect();
        let answer = |set| match is_told(set) {
            true => Answer::Values(of_set(set)),
            false => Answer::TooFew,
        };
        (0..sets).map(answer).collect()
    }
}

/// Opens numbers to the receiver, without a minimum; the other party calls [`send_numbers`]. Returns what it learns of each
/// set.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
pub(crate) fn receive_numbers(
    channel: &mut dyn Channel,
    numbers: &[Number],
    least: Least,
) -> Result<Vec<Answer>, Error> {
    let opened = Opened {
        numbers,
        least,
        span: 0,
    };
    let theirs = receive_shares(channel, opened.rings())?;
    let values = opened.values(&opened.shares(), &theirs);
    Ok(opened.answers(&values, |_| true))
}

/// The other side of [`receive_numbers`].
///
/// # Errors
/// The channel's.
pub(crate) fn send_numbers(channel: &mut dyn Channel, numbers: &[Number]) -> Result<(), Error> {
    let shares = numbers.iter().map(|number| (number.ring, number.share));
    send_shares(channel, shares)
}

/// Sums modulo 2^64, with the counts that go with them.
fn sums(shares: &[u64], counts: Option<&[u64]>) -> Vec<Number> {
    let number = |(i, share): (usize, &u64)| Number::sum(*share, counts.map(|counts| counts[i]));
    shares.iter().enumerate().map(number).collect()
}

/// The sum of each segment of each column, segments of these lengths.
fn segment_sums(columns: &[Shares], segments: &[usize]) -> Vec<u64> {
    let of_column = |column: &Shares| {
        // Bins beyond the last segment count nowhere.
        let mut rest = &column[..];
        let sums = segments
            .iter()
            .map(|length| sum(rest.split_off(..*length).unwrap_or_default()));
        sums.collect::<Vec<u64>>()
    };
    columns.iter().flat_map(of_column).collect()
}

/// The sum of each column.
fn column_sums(columns: &[Shares]) -> Vec<u64> {
    columns.iter().map(|column| sum(column)).collect()
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
        rows(&slices(&self.string))
    }
}

fn slices(columns: &[Shares]) -> Vec<&[u64]> {
    columns.iter().map(|column| &column[..]).collect()
}

/// 1 for each value that is not 0, in a time that does not depend on them.
fn adding(values: &[i64]) -> Shares {
    let bit = |value: &i64| ((value | value.wrapping_neg()) as u64) >> 63;
    Zeroizing::new(values.iter().map(bit).collect())
}

/// Equally long columns one after the other.
fn joined_bits(columns: &[BitShares]) -> BitShares {
    let mut all = BitShares::zeros(0);
    columns.iter().for_each(|column| all.append(column));
    all
}

/// The sum of each of so many equally long columns, one after the other.
fn sums_of(shares: &[u64], columns: usize) -> Vec<u64> {
    let each = shares.len().checked_div(columns).unwrap_or(0);
    let column = |i: usize| sum(&shares[i * each..(i + 1) * each]);
    (0..columns).map(column).collect()
}

/// The words of all columns, those of one bin after those of the other.
fn rows(columns: &[&[u64]]) -> Shares {
    let bins = columns.first().map_or(0, |column| column.len());
    // One that grew would leave copies behind.
    let mut words = Zeroizing::new(Vec::with_capacity(bins * columns.len()));
    for bin in 0..bins {
        words.extend(columns.iter().map(|column| column[bin]));
    }
    words
}

/// The reverse of [`rows`], of at least one column.
fn columns(rows: Shares, count: usize) -> Vec<Shares> {
    if count == 1 {
        return vec![rows];
    }
    let column = |i: usize| Zeroizing::new(rows.iter().skip(i).step_by(count).copied().collect());
    (0..count).map(column).collect()
}

/// Shares of the products of all columns by the same shared bits.
fn select(
    end: &mut ValueEnd,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    ring: Ring,
    values: &[&[u64]],
    bits: &BitShares,
) -> Result<Vec<Shares>, Error> {
    let shares = match values {
        [values] => end.select(channel, rng, ring, values, bits)?,
        _ => end.select(
            channel,
            rng,
            Row::of(values.len(), ring),
            &rows(values),
            bits,
        )?,
    };
    Ok(columns(shares, values.len()))
}

/// The other side of [`select`].
fn multiply(
    end: &mut ChoiceEnd,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    ring: Ring,
    (bits, count): (&BitShares, usize),
) -> Result<Vec<Shares>, Error> {
    let shares = match count {
        1 => end.multiply(channel, rng, ring, bits)?,
        _ => end.multiply(channel, rng, Row::of(count, ring), bits)?,
    };
    Ok(columns(shares, count))
}

/// Shares of the products of both parties' payloads by the shared bits of which bins match.
struct Products {
    /// For each value, that of the receiver and that of the sender.
    values: Vec<[Shares; 2]>,
    /// The sums of both parties' bits.
    adding: Vec<BitShares>,
}

impl Products {
    fn new(
        ends: Ends<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (values, adding): (&[&[u64]], &[Shares]),
    ) -> Result<Products, Error> {
        if let ([values], []) = (values, adding) {
            let products = ends.products(channel, rng, Ring::FULL, values, matches)?;
            return Ok(Products {
                values: vec![products],
                adding: Vec::new(),
            });
        }
        let group = Row::of(values.len(), Ring::FULL).with_bits(adding.len());
        let bit = |bin: usize| (0..).zip(adding).map(move |(i, bits)| bits[bin] << i);
        let bits: Shares = Zeroizing::new((0..matches.len()).map(|bin| bit(bin).sum()).collect());
        let mut all = values.to_vec();
        if !adding.is_empty() {
            all.push(&bits);
        }
        let products = ends.products(channel, rng, group, &rows(&all), matches)?;
        let [mut receiver, mut sender] = products.map(|rows| columns(rows, all.len()));
        let bits = [&mut receiver, &mut sender].map(|columns| columns.split_off(values.len()));
        let [ours, theirs] = bits.each_ref().map(|bits| bits.first());
        let bits = ours.zip(theirs);
        let sums = |i: usize| {
            let bit = |bin: usize| bits.map_or(0, |(one, other)| (one[bin] ^ other[bin]) >> i);
            BitShares::from_fn(matches.len(), bit)
        };
        Ok(Products {
            values: receiver
                .into_iter()
                .zip(sender)
                .map(|(a, b)| [a, b])
                .collect(),
            adding: (0..adding.len()).map(sums).collect(),
        })
    }

    /// Shares of the sender's values: what the receiver has is those and the sender's masks.
    fn unmasked(self) -> Vec<Shares> {
        let difference = |[mut masked, masks]: [Shares; 2]| {
            let pairs = masked.iter_mut().zip(&*masks);
            pairs.for_each(|(masked, mask)| *masked = masked.wrapping_sub(*mask));
            masked
        };
        self.values.into_iter().map(difference).collect()
    }
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
        let ones = vec![1; matches.len()];
        let all = (&[&ones[..]][..], &[matches.len()][..]);
        Ok(self.sizes(channel, rng, matches, all, minimum)?.remove(0))
    }

    /// For each column, and for each segment of so many bins of it, the number of matches where the column is 1, to be
    /// [opened](Receiver::open) under `minimum`; 0 asks for no comparison. A column is 0 or 1 for each bin, and segments follow
    /// each other from the first bin on.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    ///
    /// # Panics
    /// If a column has more or fewer bins.
    pub fn sizes(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (columns, segments): (&[&[u64]], &[usize]),
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let size = Number::no_size(self.parts * matches.len(), minimum, self.span);
        let shares = select(&mut self.main, channel, rng, size.ring, columns, matches)?;
        Ok(size.with_each(&segment_sums(&shares, segments)))
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
        select(
            &mut self.main,
            channel,
            rng,
            Ring::FULL,
            &slices(&values),
            matches,
        )
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
        let group = Row::of_bytes(bytes);
        self.main.select(channel, rng, group, words, matches)
    }

    /// For each column, and for each segment of so many bins of it as those of [`Receiver::sizes`], the sum of `values[i]` over
    /// the matching bins, to be [opened](Receiver::open) under `minimum`; 0 asks for no comparison.
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
        (values, segments): (&[&[i64]], &[usize]),
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let shares = self.shares_of_receiver(channel, rng, matches, values)?;
        let totals = segment_sums(&shares, segments);
        if minimum == 0 {
            return Ok(sums(&totals, None));
        }
        let ring = signed_size_ring(self.parts * matches.len(), self.span);
        let adding: Vec<Shares> = values.iter().map(|values| adding(values)).collect();
        let counts = select(
            &mut self.main,
            channel,
            rng,
            ring,
            &slices(&adding),
            matches,
        )?;
        Ok(sums(&totals, Some(&segment_sums(&counts, segments))))
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

    /// Opens the numbers of each set for which enough bins match and add to each of them; a minimum of 0 asks for no comparison.
    /// Returns what it learns of each set.
    ///
    /// # Errors
    /// As [`Receiver::size`].
    pub fn open(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        numbers: &[Number],
        least: Least,
    ) -> Result<Vec<Answer>, Error> {
        if least.minimum == 0 {
            return receive_numbers(channel, numbers, least);
        }
        let span = self.span;
        let opened = Opened {
            numbers,
            least,
            span,
        };
        let enough = opened.enough(&mut self.main, channel, rng)?;
        let own = self.main.guard(channel, rng, &opened.shares(), &enough)?;
        let bits = std::iter::repeat_n(Ring::new(1), least.sets);
        let theirs = receive_shares(channel, bits.chain(opened.rings()))?;
        let (bits, theirs) = theirs.split_at(least.sets);
        let values = opened.values(&own, theirs);
        Ok(opened.answers(&values, |set| enough.get(set) ^ bits[set] == 1))
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
        let all = (&slices(&masked.values)[..], &[][..]);
        Ok(Products::new(self.ends(), channel, rng, matches, all)?.unmasked())
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
        let (group, strings) = (Row::of_bytes(bytes), masked.strings());
        let products = self
            .ends()
            .products(channel, rng, group, &strings, matches)?;
        Ok(exclusive_or(products))
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
        if minimum == 0 {
            let shares = self.shares_of_sender(channel, rng, matches, masked)?;
            return Ok(sums(&column_sums(&shares), None));
        }
        let all = (&slices(&masked.values)[..], &masked.adding[..]);
        let products = Products::new(self.ends(), channel, rng, matches, all)?;
        let ones = vec![1; matches.len()];
        let counts = self.counts(channel, rng, &ones, &products.adding)?;
        Ok(sums(&column_sums(&products.unmasked()), Some(&counts)))
    }

    /// For each column the share of the sum of `own[i]` where the column's shared bit i is 1.
    fn counts(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        own: &[u64],
        adding: &[BitShares],
    ) -> Result<Vec<u64>, Error> {
        let ring = signed_size_ring(self.parts * own.len(), self.span);
        let all = Zeroizing::new(own.repeat(adding.len()));
        let bits = joined_bits(adding);
        let shares = self.main.select(channel, rng, ring, &all, &bits)?;
        Ok(sums_of(&shares, adding.len()))
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
        let own = adding(weights);
        let weights = unsigned(weights);
        let products = weights.iter().zip(&**masked_values);
        let products = products.map(|(w, z)| w.wrapping_mul(*z));
        let products: Shares = Zeroizing::new(products.collect());
        let bits = adding_under(masked, minimum);
        let all = (&[&products[..]][..], bits);
        let Products { values, adding } = Products::new(self.ends(), channel, rng, matches, all)?;
        let [[values, masks]] = &values[..] else {
            panic!("one product for one weight");
        };
        let theirs = match by_lattice(weights.len(), lambda) {
            true => inner_product::hold(channel, &self.session, &weights, rng)?,
            false => sum(&self.main.integer_products(channel, rng, &weights)?),
        };
        let of_masks = weights.iter().zip(&**masks).fold(0u64, |sum, (w, mask)| {
            sum.wrapping_add(w.wrapping_mul(*mask))
        });
        let share = sum(values).wrapping_sub(of_masks).wrapping_sub(theirs);
        let count = match minimum {
            0 => None,
            _ => Some(self.counts(channel, rng, &own, &adding)?[0]),
        };
        Ok(Number::sum(share, count))
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
        let all = (1, &[matches.len()][..]);
        Ok(self.sizes(channel, rng, matches, all, minimum)?.remove(0))
    }

    /// The other side of [`Receiver::sizes`], of so many columns.
    ///
    /// # Errors
    /// As there.
    pub fn sizes(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        matches: &BitShares,
        (columns, segments): (usize, &[usize]),
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let size = Number::no_size(self.parts * matches.len(), minimum, self.span);
        let of = (matches, columns);
        let shares = multiply(&mut self.main, channel, rng, size.ring, of)?;
        Ok(size.with_each(&segment_sums(&shares, segments)))
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
        multiply(&mut self.main, channel, rng, Ring::FULL, (matches, columns))
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
        let group = Row::of_bytes(bytes);
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
        (columns, segments): (usize, &[usize]),
        minimum: u64,
    ) -> Result<Vec<Number>, Error> {
        let shares = self.shares_of_receiver(channel, rng, matches, columns)?;
        let totals = segment_sums(&shares, segments);
        if minimum == 0 {
            return Ok(sums(&totals, None));
        }
        let ring = signed_size_ring(self.parts * matches.len(), self.span);
        let counts = multiply(&mut self.main, channel, rng, ring, (matches, columns))?;
        Ok(sums(&totals, Some(&segment_sums(&counts, segments))))
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
        least: Least,
    ) -> Result<(), Error> {
        if least.minimum == 0 {
            return send_numbers(channel, numbers);
        }
        let span = self.span;
        let opened = Opened {
            numbers,
            least,
            span,
        };
        let enough = opened.enough(&mut self.main, channel, rng)?;
        let shares = self.main.guard(channel, rng, &opened.shares(), &enough)?;
        let bits = (0..least.sets).map(|set| (Ring::new(1), enough.get(set)));
        let shares = opened.rings().zip(shares.iter().copied());
        send_shares(channel, bits.chain(shares))
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
        let all = (&slices(&masks.values)[..], &[][..]);
        Ok(Products::new(self.ends(), channel, rng, matches, all)?.unmasked())
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
        let (group, strings) = (Row::of_bytes(bytes), masks.strings());
        let products = self
            .ends()
            .products(channel, rng, group, &strings, matches)?;
        Ok(exclusive_or(products))
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
        if minimum == 0 {
            let shares = self.shares_of_sender(channel, rng, matches, masks)?;
            return Ok(sums(&column_sums(&shares), None));
        }
        let all = (&slices(&masks.values)[..], &masks.adding[..]);
        let products = Products::new(self.ends(), channel, rng, matches, all)?;
        let counts = self.counts(channel, rng, &products.adding)?;
        Ok(sums(&column_sums(&products.unmasked()), Some(&counts)))
    }

    /// The other side of [`Receiver::counts`].
    fn counts(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        adding: &[BitShares],
    ) -> Result<Vec<u64>, Error> {
        let bins = adding.first().map_or(0, BitShares::len);
        let ring = signed_size_ring(self.parts * bins, self.span);
        let bits = joined_bits(adding);
        let shares = self.main.multiply(channel, rng, ring, &bits)?;
        Ok(sums_of(&shares, adding.len()))
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
        let all = (&[&own[..]][..], adding_under(masks, minimum));
        let Products { values, adding } = Products::new(self.ends(), channel, rng, matches, all)?;
        let [[values, shares]] = &values[..] else {
            panic!("one product for one weight");
        };
        let theirs = match by_lattice(shares.len(), lambda) {
            true => inner_product::help(channel, &self.session, shares, rng)?,
            false => sum(&self.main.integer_products(channel, rng, shares)?),
        };
        let share = sum(values).wrapping_sub(theirs);
        let count = match minimum {
            0 => None,
            _ => Some(self.counts(channel, rng, &adding)?[0]),
        };
        Ok(Number::sum(share, count))
    }
}

/// For each set a share of whether each of its counts, with noise up to `span`, is at least the minimum.
fn enough(
    party: &mut impl Party,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    counts: &[u64],
    (least, span): (Least, u64),
) -> Result<BitShares, Error> {
    let ring = signed_size_ring(least.bins, span);
    let minimum = clamp(least.minimum, least.bins);
    all_at_least(party, channel, rng, ring, (counts, least.sets), minimum)
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

/// The sums of strings.
fn exclusive_or([mut one, other]: [Shares; 2]) -> Shares {
    let pairs = one.iter_mut().zip(&*other);
    pairs.for_each(|(one, other)| *one ^= other);
    one
}

/// What says which payloads add to a number, if that counts.
fn adding_under(payloads: &Payloads, minimum: u64) -> &[Shares] {
    match minimum {
        0 => &[],
        _ => &payloads.adding,
    }
}

/// Values as integers modulo 2^64.
fn unsigned(values: &[i64]) -> Shares {
    Zeroizing::new(values.iter().map(|value| *value as u64).collect())
}

/// The ring of a size that is opened under a minimum, if there is one.
fn ring_of_size(bins: usize, minimum: u64, span: u64) -> Ring {
    match minimum {
        0 => size_ring(bins, span),
        _ => signed_size_ring(bins, span),
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
