//! Shares of integers modulo 2^k and of strings of bits, and products of a value by a bit or by an integer.
//!
//! **Papers.** N. Gilboa, *Two Party RSA Key Generation*, CRYPTO 1999; the correlated form is that of G. Asharov,
//! Y. Lindell, T. Schneider, M. Zohner, CCS 2013.
//!
//! **A value by a bit.** The value end has v, the choice end c. With pads h₀ and h₁ of one COT, exchanged if the
//! correction c ⊕ x is 1, the value end sends h₀ − h₁ + v and has the share −h₀; the choice end has h_c, plus the
//! message if c = 1: together c·v.
//!
//! **A value by a shared bit.** If the value end also has a share a of the bit, a ⊕ c = a + (1 − 2a)·c: it adds a·v
//! and multiplies (1 − 2a)·v by c. With v = 1 this turns XOR shares into additive ones.
//!
//! **A row by a bit** is the same in the group of rows ([`Row`]): some integers, and behind them a string of bits under
//! exclusive or. Pads are as long: a block of 128 bits of a pad is a hash of the COT under a tweak of its own. It takes one
//! COT however long the row.
//!
//! **Both ways.** Where each party multiplies a row of its own by the same shared bits, in opposite directions, both do
//! it at the same time ([`Ends::products`]), in the messages of one.
//!
//! **A value by an integer.** 64 products by bits: bit j multiplies 2^j·v modulo 2^64, of which the lowest j bits
//! are 0 and not sent. Where only the sum over all pairs is wanted, long vectors take a tenth of that by homomorphic
//! encryption ([`inner_product`], from [`LATTICE`] entries on).
//!
//! **Adversary.** Semi-honest. The value end sees c ⊕ x, uniform; the choice end sees v under the pad that it
//! lacks. Its share is uniform given the value end's input, and the other way round: −h₀ is a pad that the choice
//! end lacks, or the message depends on one. **Cost** modulo 2^k: 1 COT, 1 bit from the choice end, k bits from the
//! value end, two message flows per window; by an integer 64 COTs, 64 bits and 2080 bits.
//!
//! **Memory.** Three words per word of the products of a window of 2^20 bits, four both ways, or 66 words per product of a
//! window of 2^16 integers: 24, 32 and 33 MiB.

use std::ops::Range;

use rand_core::CryptoRng;
use vesica_correlations::ole::lattice::inner_product;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, Direction, Masked, ValueEnd, WINDOW_BYTES};
use crate::messages::{BitReader, BitWriter, CHOICES, FACTORS, MULTIPLES, VALUES, receive_bits};

/// The integers modulo 2^k, for k from 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    bits: u32,
}

impl Ring {
    /// The integers modulo 2^64.
    pub(crate) const FULL: Ring = Ring { bits: 64 };

    /// The integers modulo 2^`bits`.
    ///
    /// # Panics
    /// If `bits` is not between 1 and 64.
    pub(crate) fn new(bits: u32) -> Self {
        assert!((1..=64).contains(&bits));
        Ring { bits }
    }

    /// The smallest ring that holds 0 to `max`.
    pub(crate) fn holding(max: u64) -> Self {
        Ring::new((u64::BITS - max.leading_zeros()).max(1))
    }

    /// k.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// The representative below 2^k.
    pub(crate) fn reduce(self, value: u64) -> u64 {
        value & u64::MAX >> (64 - self.bits)
    }
}

/// What values and their shares add up in. Products are compiled for each kind, since those of one word are most of what
/// there is and need no loops over the words of each.
pub(crate) trait Elements: Copy {
    /// Bits of an element.
    fn bits(self) -> usize;

    /// Words of an element.
    fn words(self) -> usize;

    /// Bits of a word of an element.
    fn bits_of(self, word: usize) -> u32;

    /// The sum of two words number `word`, perhaps with bits too many.
    fn add(self, word: usize, one: u64, other: u64) -> u64;

    /// What adds up to 0 with a word number `word`, perhaps with bits too many.
    fn negate(self, word: usize, value: u64) -> u64;

    /// A word of an element without the bits that it has too many.
    fn reduce(self, word: usize, value: u64) -> u64 {
        value & u64::MAX >> (64 - self.bits_of(word))
    }

    /// Products of one frame; a multiple of 64.
    fn piece(self) -> usize {
        (PIECE / self.words() / 64).max(1) * 64
    }

    /// Products whose pads are kept at once; a multiple of 64.
    fn window(self) -> usize {
        (WINDOW / self.words() / 64).max(1) * 64
    }
}

impl Elements for Ring {
    fn bits(self) -> usize {
        self.bits as usize
    }

    fn words(self) -> usize {
        1
    }

    fn bits_of(self, _: usize) -> u32 {
        self.bits
    }

    fn add(self, _: usize, one: u64, other: u64) -> u64 {
        one.wrapping_add(other)
    }

    fn negate(self, _: usize, value: u64) -> u64 {
        value.wrapping_neg()
    }
}

/// Some integers of one word each, and behind them a string of bits under exclusive or, of which the first word has the
/// lowest. Bits that a last word has too many are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    ring: Ring,
    integers: usize,
    string_bits: usize,
}

impl Row {
    /// So many integers.
    pub(crate) fn of(integers: usize, ring: Ring) -> Row {
        Row {
            ring,
            integers,
            string_bits: 0,
        }
    }

    /// A string of so many bytes.
    pub(crate) fn of_bytes(bytes: usize) -> Row {
        Row::of(0, Ring::FULL).with_bits(8 * bytes)
    }

    /// The same integers before a string of so many bits.
    pub(crate) fn with_bits(self, string_bits: usize) -> Row {
        Row {
            string_bits,
            ..self
        }
    }
}

impl From<Ring> for Row {
    fn from(ring: Ring) -> Row {
        Row::of(1, ring)
    }
}

impl Elements for Row {
    fn bits(self) -> usize {
        self.integers * self.ring.bits as usize + self.string_bits
    }

    fn words(self) -> usize {
        self.integers + self.string_bits.div_ceil(64)
    }

    fn bits_of(self, word: usize) -> u32 {
        match word.checked_sub(self.integers) {
            None => self.ring.bits,
            Some(word) => (self.string_bits - 64 * word).min(64) as u32,
        }
    }

    fn add(self, word: usize, one: u64, other: u64) -> u64 {
        match word < self.integers {
            true => one.wrapping_add(other),
            false => one ^ other,
        }
    }

    fn negate(self, word: usize, value: u64) -> u64 {
        match word < self.integers {
            true => value.wrapping_neg(),
            false => value,
        }
    }
}

/// Shares of one integer, or of the words of one row, per bin.
pub(crate) type Shares = Zeroizing<Vec<u64>>;

/// Σ of shares, modulo 2^64.
pub(crate) fn sum(shares: &[u64]) -> u64 {
    shares.iter().fold(0, |sum, share| sum.wrapping_add(*share))
}

/// Words of products of one frame; a multiple of 64.
pub(crate) const PIECE: usize = 1 << 15;

/// Words of products whose pads are kept at once.
pub(crate) const WINDOW: usize = WINDOW_BYTES / 32;

/// Frames that a party sends before it takes the peer's, where both send as much: half of what a channel queues, so that
/// neither waits for a peer that waits.
const AHEAD: usize = 8;

/// Products by integers of one frame.
const LONG_PIECE: usize = 1 << 11;

/// Products by integers whose pads are kept at once.
pub(crate) const LONG_WINDOW: usize = WINDOW_BYTES / 512;

/// Bits that a product by an integer takes from the value end: 64 − j for each bit j.
pub(crate) const LONG_BITS: usize = 64 * 65 / 2;

/// Entries from which an inner product by homomorphic encryption takes fewer bytes and less time than one by COTs. Its key
/// and its answer have as many bytes as the COTs and multiples of 2,300 entries.
const LATTICE: usize = 1 << 12;

/// Whether vectors of so many entries are multiplied by homomorphic encryption.
pub(crate) fn by_lattice(entries: usize, lambda: u32) -> bool {
    entries >= LATTICE && inner_product::reaches(entries, lambda)
}

fn mask(bit: u64) -> u64 {
    bit.wrapping_neg()
}

/// Two pads for each word of a window's values.
type Pads = Zeroizing<Vec<[u64; 2]>>;

/// A range in parts of at most `each`.
fn parts(range: Range<usize>, each: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let end = range.end;
    range
        .step_by(each)
        .map(move |start| start..end.min(start + each))
}

impl ValueEnd {
    /// Both pads of each word of the next `count` products.
    fn word_pads(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        group: impl Elements,
        count: usize,
    ) -> Result<Pads, Error> {
        let words = group.words();
        let mut pads = Zeroizing::new(vec![[0; 2]; words * count]);
        self.pad_blocks(
            channel,
            rng,
            Masked::Values,
            [count, words.div_ceil(2)],
            |[start, block], zero, one| {
                let pads = pads.chunks_exact_mut(words).skip(start);
                for (pads, (zero, one)) in pads.zip(zero.iter().zip(one)) {
                    for (half, pad) in pads[2 * block..].iter_mut().take(2).enumerate() {
                        *pad = [zero, one].map(|block| (block >> (64 * half)) as u64);
                    }
                }
            },
        )?;
        Ok(pads)
    }

    /// Shares of value i, all words of one value after those of the other, times the shared bit i.
    ///
    /// # Panics
    /// If there are not as many bits as values.
    pub(crate) fn select(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        group: impl Elements,
        values: &[u64],
        bits: &BitShares,
    ) -> Result<Shares, Error> {
        assert_eq!(values.len(), group.words() * bits.len());
        let mut shares = Zeroizing::new(Vec::with_capacity(values.len()));
        for window in parts(0..bits.len(), group.window()) {
            let pads = self.word_pads(channel, rng, group, window.len())?;
            let masking = Masking::new(channel, group, (values, bits), window, pads)?;
            for piece in masking.pieces() {
                channel.send(VALUES, masking.message(piece, &mut shares))?;
            }
        }
        Ok(shares)
    }

    /// Shares of `values[i]`·fᵢ modulo 2^64, where the fᵢ are those of [`ChoiceEnd::integer_products`].
    pub(crate) fn integer_products(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        values: &[u64],
    ) -> Result<Shares, Error> {
        let mut shares = Zeroizing::new(vec![0u64; values.len()]);
        let windows = values.chunks(LONG_WINDOW);
        for (values, shares) in windows.zip(shares.chunks_mut(LONG_WINDOW)) {
            let mut pads = Zeroizing::new(Vec::with_capacity(64 * values.len()));
            self.pads(
                channel,
                rng,
                Masked::Values,
                64 * values.len(),
                |start, zero, one| {
                    for (i, (zero, one)) in zero.iter().zip(one).enumerate() {
                        let (zero, one) = (*zero as u64, *one as u64);
                        let (k, j) = ((start + i) / 64, (start + i) % 64);
                        shares[k] = shares[k].wrapping_sub(zero << j);
                        pads.push(zero.wrapping_sub(one));
                    }
                },
            )?;
            let mut frames = Vec::new();
            for piece in values.chunks(LONG_PIECE) {
                frames.push(receive_bits(channel, FACTORS, 64 * piece.len())?);
            }
            let pieces = values.chunks(LONG_PIECE).zip(pads.chunks(64 * LONG_PIECE));
            let pieces = pieces.zip(shares.chunks_mut(LONG_PIECE));
            for (((values, pads), shares), corrections) in pieces.zip(&frames) {
                let message = mask_multiples(values, pads, corrections, shares);
                channel.send(MULTIPLES, message)?;
            }
        }
        Ok(shares)
    }
}

/// What the value end needs for the messages of a window.
struct Masking<'a, G> {
    group: G,
    values: &'a [u64],
    bits: &'a BitShares,
    window: Range<usize>,
    pads: Pads,
    /// The choice end's corrections, piece by piece.
    corrections: Vec<Vec<u8>>,
}

impl<'a, G: Elements> Masking<'a, G> {
    /// Takes the choice end's corrections.
    fn new(
        channel: &mut dyn Channel,
        group: G,
        (values, bits): (&'a [u64], &'a BitShares),
        window: Range<usize>,
        pads: Pads,
    ) -> Result<Self, Error> {
        let pieces = parts(window.clone(), group.piece());
        let corrections = pieces.map(|piece| receive_bits(channel, CHOICES, piece.len()));
        let corrections = corrections.collect::<Result<_, _>>()?;
        Ok(Masking {
            group,
            values,
            bits,
            window,
            pads,
            corrections,
        })
    }

    fn pieces(&self) -> impl Iterator<Item = Range<usize>> + Clone + use<G> {
        parts(self.window.clone(), self.group.piece())
    }

    /// The messages h₀ − h₁ + (1 − 2a)·v of a piece, for shares a of the bits; appends the shares a·v − h₀.
    fn message(&self, piece: Range<usize>, shares: &mut Vec<u64>) -> Vec<u8> {
        let (group, words) = (self.group, self.group.words());
        let start = piece.start - self.window.start;
        let mut writer = BitWriter::with_capacity(piece.len() * group.bits());
        let mut corrections = BitReader::new(&self.corrections[start / group.piece()]);
        let values = self.values[words * piece.start..].chunks_exact(words);
        let pads = self.pads[words * start..].chunks_exact(words);
        for ((i, value), pads) in piece.zip(values).zip(pads) {
            let (own, correction) = (mask(self.bits.get(i)), mask(corrections.next(1)));
            for (word, (v, [zero, one])) in value.iter().zip(pads).enumerate() {
                let exchanged = (zero ^ one) & correction;
                let (zero, one) = (zero ^ exchanged, one ^ exchanged);
                let signed = v ^ (v ^ group.negate(word, *v)) & own;
                let less = group.add(word, zero, group.negate(word, one));
                let message = group.reduce(word, group.add(word, less, signed));
                writer.push(message, group.bits_of(word));
                let share = group.add(word, v & own, group.negate(word, zero));
                shares.push(group.reduce(word, share));
            }
        }
        writer.finish()
    }
}

/// The messages of a piece of products by integers, from the differences h₀ − h₁ of their pads. Adds what exchanged
/// pads change to the shares −Σ 2^j·h₀.
fn mask_multiples(values: &[u64], pads: &[u64], corrections: &[u8], shares: &mut [u64]) -> Vec<u8> {
    let mut writer = BitWriter::with_capacity(values.len() * LONG_BITS);
    let mut corrections = BitReader::new(corrections);
    for ((value, pads), share) in values.iter().zip(pads.chunks_exact(64)).zip(shares) {
        let exchanged = corrections.next(64);
        for (j, difference) in pads.iter().enumerate() {
            let sign = mask(exchanged >> j & 1);
            *share = share.wrapping_add((difference & sign) << j);
            let message = (difference ^ sign).wrapping_sub(sign).wrapping_add(*value);
            let width = 64 - j as u32;
            writer.push(Ring::new(width).reduce(message), width);
        }
    }
    writer.finish()
}

impl ChoiceEnd {
    /// Puts the pads of a window's products by these bits into `shares`, and sends the corrections.
    fn choose(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        group: impl Elements,
        (bits, window): (&BitShares, Range<usize>),
        shares: &mut [u64],
    ) -> Result<Corrections, Error> {
        let words = group.words();
        let mut corrections = Zeroizing::new(vec![0; window.len().div_ceil(64)]);
        self.pad_blocks(
            channel,
            rng,
            Masked::Values,
            [window.len(), words.div_ceil(2)],
            |[start, block], rows, pads| {
                let shares = shares.chunks_exact_mut(words).skip(window.start + start);
                for (i, (share, (t, pad))) in shares.zip(rows.iter().zip(pads)).enumerate() {
                    if block == 0 {
                        let k = start + i;
                        let correction = *t as u64 & 1 ^ bits.get(window.start + k);
                        corrections[k / 64] |= correction << (k % 64);
                    }
                    for (half, share) in share[2 * block..].iter_mut().take(2).enumerate() {
                        *share = (pad >> (64 * half)) as u64;
                    }
                }
            },
        )?;
        Ok(corrections)
    }

    /// The other side of [`ValueEnd::select`].
    pub(crate) fn multiply(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        group: impl Elements,
        bits: &BitShares,
    ) -> Result<Shares, Error> {
        let mut shares: Shares = Zeroizing::new(vec![0; group.words() * bits.len()]);
        for window in parts(0..bits.len(), group.window()) {
            let of = (bits, window.clone());
            let corrections = self.choose(channel, rng, group, of, &mut shares)?;
            send_corrections(channel, group, window.len(), &corrections)?;
            for piece in parts(window, group.piece()) {
                unmask_values(channel, group, bits, piece, &mut shares)?;
            }
        }
        Ok(shares)
    }

    /// The other side of [`ValueEnd::integer_products`].
    pub(crate) fn integer_products(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        factors: &[u64],
    ) -> Result<Shares, Error> {
        let mut shares = Zeroizing::new(vec![0u64; factors.len()]);
        let windows = factors.chunks(LONG_WINDOW);
        for (factors, shares) in windows.zip(shares.chunks_mut(LONG_WINDOW)) {
            let mut corrections = Zeroizing::new(factors.to_vec());
            self.pads(
                channel,
                rng,
                Masked::Values,
                64 * factors.len(),
                |start, rows, pads| {
                    for (i, (t, pad)) in rows.iter().zip(pads).enumerate() {
                        let (k, j) = ((start + i) / 64, (start + i) % 64);
                        corrections[k] ^= (*t as u64 & 1) << j;
                        shares[k] = shares[k].wrapping_add((*pad as u64) << j);
                    }
                },
            )?;
            for words in corrections.chunks(LONG_PIECE) {
                let mut message = Vec::new();
                BitShares::write(words, 64 * words.len(), &mut message);
                channel.send(FACTORS, message)?;
            }
            let pieces = factors.chunks(LONG_PIECE);
            for (factors, shares) in pieces.zip(shares.chunks_mut(LONG_PIECE)) {
                let message = receive_bits(channel, MULTIPLES, factors.len() * LONG_BITS)?;
                let mut multiples = BitReader::new(&message);
                for (factor, share) in factors.iter().zip(shares) {
                    for j in 0..64 {
                        let multiple = multiples.next(64 - j) & mask(factor >> j & 1);
                        *share = share.wrapping_add(multiple << j);
                    }
                }
            }
        }
        Ok(shares)
    }
}

/// Corrections of a window, packed.
type Corrections = Zeroizing<Vec<u64>>;

fn send_corrections(
    channel: &mut dyn Channel,
    group: impl Elements,
    count: usize,
    corrections: &Corrections,
) -> Result<(), Error> {
    let pieces = parts(0..count, group.piece());
    for (piece, words) in pieces.zip(corrections.chunks(group.piece() / 64)) {
        let mut message = Vec::new();
        BitShares::write(words, piece.len(), &mut message);
        channel.send(CHOICES, message)?;
    }
    Ok(())
}

/// Takes the messages of a piece, and adds those of bits that are 1 to the shares.
fn unmask_values(
    channel: &mut dyn Channel,
    group: impl Elements,
    bits: &BitShares,
    piece: Range<usize>,
    shares: &mut [u64],
) -> Result<(), Error> {
    let words = group.words();
    let message = receive_bits(channel, VALUES, piece.len() * group.bits())?;
    let mut values = BitReader::new(&message);
    let shares = shares[words * piece.start..].chunks_exact_mut(words);
    for (i, share) in piece.zip(shares) {
        let choice = mask(bits.get(i));
        for (word, share) in share.iter_mut().enumerate() {
            let message = values.next(group.bits_of(word)) & choice;
            *share = group.reduce(word, group.add(word, *share, message));
        }
    }
    Ok(())
}

/// A party's ends of both directions.
pub(crate) struct Ends<'a> {
    pub(crate) value: &'a mut ValueEnd,
    pub(crate) choice: &'a mut ChoiceEnd,
    /// That of the value end.
    pub(crate) direction: Direction,
}

impl Ends<'_> {
    /// Shares of the PSI receiver's value i times the shared bit i, and of the sender's: those of [`ValueEnd::select`] and
    /// [`ChoiceEnd::multiply`] in both directions. The peer does the same at the same time.
    ///
    /// # Panics
    /// If there are not as many bits as values.
    pub(crate) fn products(
        self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        group: impl Elements,
        values: &[u64],
        bits: &BitShares,
    ) -> Result<[Shares; 2], Error> {
        assert_eq!(values.len(), group.words() * bits.len());
        let mut own = Zeroizing::new(Vec::with_capacity(values.len()));
        let mut others: Shares = Zeroizing::new(vec![0; values.len()]);
        let Ends {
            value,
            choice,
            direction,
        } = self;
        for window in parts(0..bits.len(), group.window()) {
            let of = (bits, window.clone());
            // Both parties take those of the main direction first.
            let (pads, corrections);
            match direction {
                Direction::Main => {
                    pads = value.word_pads(channel, rng, group, window.len())?;
                    corrections = choice.choose(channel, rng, group, of, &mut others)?;
                }
                Direction::Reverse => {
                    corrections = choice.choose(channel, rng, group, of, &mut others)?;
                    pads = value.word_pads(channel, rng, group, window.len())?;
                }
            }
            send_corrections(channel, group, window.len(), &corrections)?;
            let masking = Masking::new(channel, group, (values, bits), window, pads)?;
            let pieces: Vec<_> = masking.pieces().collect();
            for (i, piece) in pieces.iter().enumerate() {
                channel.send(VALUES, masking.message(piece.clone(), &mut own))?;
                if let Some(due) = i.checked_sub(AHEAD) {
                    unmask_values(channel, group, bits, pieces[due].clone(), &mut others)?;
                }
            }
            for piece in &pieces[pieces.len().saturating_sub(AHEAD)..] {
                unmask_values(channel, group, bits, piece.clone(), &mut others)?;
            }
        }
        Ok(match direction {
            Direction::Main => [own, others],
            Direction::Reverse => [others, own],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{SIZES, blocks, run, share};
    use proptest::prelude::*;
    use vesica_testing::rng;
    use vesica_wire::MAX_FRAME;

    /// Values with extremes among them.
    fn values(count: usize) -> Vec<u64> {
        let extremes = [0, 1, u64::MAX, i64::MAX as u64, i64::MIN as u64];
        let random = blocks(8, count);
        let pick = |i: usize| extremes.get(i % 9).map_or(random[i] as u64, |value| *value);
        (0..count).map(pick).collect()
    }

    #[test]
    fn rings_hold_what_they_say() {
        for (max, bits) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (u64::MAX, 64)] {
            assert_eq!(Ring::holding(max), Ring::new(bits));
            assert_eq!(Ring::new(bits).reduce(max), max);
        }
        assert_eq!(Ring::new(3).reduce(u64::MAX), 7);
        assert_eq!(Ring::FULL.reduce(u64::MAX), u64::MAX);
    }

    #[test]
    fn values_are_multiplied_by_shared_bits() {
        for count in SIZES.into_iter().chain([WINDOW + 65]) {
            for ring in [1, 2, 22, 63, 64].map(Ring::new) {
                let values = values(count);
                let bit = |i: usize| i.is_multiple_of(3);
                let bits = share(9, bit, count);
                let (one, two) = run(
                    10,
                    |engine, channel| {
                        engine
                            .main
                            .select(channel, &mut rng(1), ring, &values, &bits[0])
                    },
                    |engine, channel| engine.main.multiply(channel, &mut rng(2), ring, &bits[1]),
                );
                assert_eq!((one.len(), two.len()), (count, count));
                for i in 0..count {
                    assert_eq!(
                        [one[i], two[i]].map(|share| ring.reduce(share)),
                        [one[i], two[i]]
                    );
                    let sum = ring.reduce(one[i].wrapping_add(two[i]));
                    assert_eq!(sum, ring.reduce(values[i] * u64::from(bit(i))), "{ring:?}");
                }
            }
        }
    }

    /// Exclusive or of both ends' shares of strings of `bytes` bytes, after products by every third bit.
    fn selected(bytes: usize, strings: &[u64], bits: &[BitShares; 2]) -> Vec<u64> {
        let group = Row::of_bytes(bytes);
        let (one, two) = run(
            12,
            |engine, channel| {
                engine
                    .main
                    .select(channel, &mut rng(1), group, strings, &bits[0])
            },
            |engine, channel| engine.main.multiply(channel, &mut rng(2), group, &bits[1]),
        );
        one.iter().zip(&*two).map(|(a, b)| a ^ b).collect()
    }

    #[test]
    fn strings_are_multiplied_by_shared_bits() {
        for (bytes, count) in [
            (1, 200),
            (7, 65),
            (8, WINDOW + 65),
            (9, WINDOW / 2 + 64),
            (16, 63),
            (17, 129),
            (256, 1200),
        ] {
            let group = Row::of_bytes(bytes);
            let words = group.words();
            assert!(group.piece() * group.bits() / 8 <= MAX_FRAME);
            let random = values(words * count);
            let strings: Vec<u64> = (0..words * count)
                .map(|i| group.reduce(i % words, random[i]))
                .collect();
            let bit = |i: usize| i.is_multiple_of(3);
            let found = selected(bytes, &strings, &share(9, bit, count));
            for (i, found) in found.iter().enumerate() {
                let expected = strings[i] * u64::from(bit(i / words));
                assert_eq!(*found, expected, "word {i} of strings of {bytes} bytes");
            }
        }
    }

    fn products(values: &[u64], factors: &[u64]) -> Vec<u64> {
        let (one, two) = run(
            11,
            |engine, channel| engine.main.integer_products(channel, &mut rng(1), values),
            |engine, channel| engine.main.integer_products(channel, &mut rng(2), factors),
        );
        let opened = one.iter().zip(&*two).map(|(a, b)| a.wrapping_add(*b));
        opened.collect()
    }

    fn plain(values: &[u64], factors: &[u64]) -> Vec<u64> {
        let products = values.iter().zip(factors).map(|(a, b)| a.wrapping_mul(*b));
        products.collect()
    }

    #[test]
    fn integers_are_multiplied() {
        for count in [0, 1, 2, 63, 64, 65, 500, LONG_WINDOW + 3] {
            let (a, mut b) = (values(count), values(count));
            b.rotate_left(count.min(4));
            assert_eq!(products(&a, &b), plain(&a, &b), "{count}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn any_integers_are_multiplied(
            pairs in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        ) {
            let (a, b): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
            prop_assert_eq!(products(&a, &b), plain(&a, &b));
        }

        #[test]
        fn any_strings_are_multiplied_by_any_bits(
            bytes in 1usize..40,
            bits in prop::collection::vec(any::<bool>(), 0..80),
            seed in any::<u64>(),
        ) {
            let group = Row::of_bytes(bytes);
            let words = group.words();
            let random = blocks(seed, words * bits.len());
            let reduced = random.iter().enumerate();
            let strings: Vec<u64> = reduced
                .map(|(i, block)| group.reduce(i % words, *block as u64))
                .collect();
            let found = selected(bytes, &strings, &share(seed, |i| bits[i], bits.len()));
            let plain = strings.iter().enumerate();
            let plain: Vec<u64> = plain.map(|(i, word)| word * u64::from(bits[i / words])).collect();
            prop_assert_eq!(found, plain);
        }
    }
}
