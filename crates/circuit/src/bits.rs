//! Bits shared by XOR, packed.
//!
//! Everything here is local: no message, no correlation. Addition of shared bits is [`BitShares::add`] on both
//! sides; a public constant is added by one party alone.

use std::fmt;

use rand_core::CryptoRng;
use vesica_primitives::block::{Block, Prg};
use zeroize::Zeroizing;

/// One party's shares of a row of bits: bit i is bit i % 64 of word i / 64. Bits beyond the last are zero.
#[derive(Clone, PartialEq, Eq)]
pub struct BitShares {
    words: Zeroizing<Vec<u64>>,
    len: usize,
}

impl BitShares {
    /// Shares of `len` bits from packed words; bits beyond the last are cleared.
    ///
    /// # Panics
    /// If there are not exactly as many words as `len` bits need.
    pub fn from_words(mut words: Zeroizing<Vec<u64>>, len: usize) -> Self {
        assert_eq!(words.len(), len.div_ceil(64));
        if let Some(last) = words.last_mut() {
            *last &= u64::MAX >> (len.next_multiple_of(64) - len);
        }
        BitShares { words, len }
    }

    /// Shares of `len` bits, each the lowest bit of what `bit` returns for its number.
    pub fn from_fn(len: usize, bit: impl Fn(usize) -> u64) -> Self {
        let mut words = Zeroizing::new(vec![0; len.div_ceil(64)]);
        for i in 0..len {
            words[i / 64] |= (bit(i) & 1) << (i % 64);
        }
        BitShares { words, len }
    }

    /// Shares that are all 0: those of bits which the peer alone knows.
    pub fn zeros(len: usize) -> Self {
        BitShares::from_fn(len, |_| 0)
    }

    /// Uniform ones.
    pub(crate) fn random(rng: &mut dyn CryptoRng, len: usize) -> Self {
        let mut blocks = Zeroizing::new(vec![0; len.div_ceil(128)]);
        Prg::random(rng).fill(&mut blocks);
        let words = &bytemuck::cast_slice::<Block, u64>(&blocks)[..len.div_ceil(64)];
        BitShares::from_words(Zeroizing::new(words.to_vec()), len)
    }

    /// The first `len` of them.
    pub(crate) fn first(&self, len: usize) -> Self {
        let words = self.words[..len.div_ceil(64)].to_vec();
        BitShares::from_words(Zeroizing::new(words), len)
    }

    /// `count` shares from number `first` on, from 1 to 64, the lowest bit first.
    #[inline(always)]
    pub(crate) fn read_at(&self, first: usize, count: usize) -> u64 {
        let (word, shift) = (first / 64, first % 64);
        let high = match shift + count > 64 {
            true => self.words[word + 1] << (64 - shift),
            false => 0,
        };
        (self.words[word] >> shift | high) & (u64::MAX >> (64 - count))
    }

    /// Adds `count` bits, from 1 to 64, to the shares from number `first` on. The others of `bits` are 0.
    #[inline(always)]
    pub(crate) fn add_at(&mut self, first: usize, count: usize, bits: u64) {
        let (word, shift) = (first / 64, first % 64);
        self.words[word] ^= bits << shift;
        if shift + count > 64 {
            self.words[word + 1] ^= bits >> (64 - shift);
        }
    }

    /// Appends other shares.
    pub fn append(&mut self, other: &BitShares) {
        let (first, len) = (self.len, self.len + other.len);
        let mut words = Zeroizing::new(vec![0; len.div_ceil(64)]);
        words[..self.words.len()].copy_from_slice(&self.words);
        for i in 0..other.len {
            words[(first + i) / 64] |= other.get(i) << ((first + i) % 64);
        }
        *self = BitShares { words, len };
    }

    /// The shares one by one.
    pub(crate) fn bools(&self) -> Zeroizing<Vec<bool>> {
        Zeroizing::new((0..self.len).map(|i| self.get(i) == 1).collect())
    }

    /// What [`BitShares::bools`] gives.
    pub(crate) fn from_bools(bools: &[bool]) -> Self {
        BitShares::from_fn(bools.len(), |i| bools[i].into())
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The share of bit number `i`, 0 or 1.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn get(&self, i: usize) -> u64 {
        assert!(i < self.len);
        self.words[i / 64] >> (i % 64) & 1
    }

    /// All shares, packed.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds other shares, bit by bit.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn add(&mut self, other: &BitShares) {
        assert_eq!(self.len, other.len);
        for (word, other) in self.words.iter_mut().zip(&*other.words) {
            *word ^= other;
        }
    }

    /// Number of bytes of the packed shares.
    pub(crate) fn bytes(len: usize) -> usize {
        len.div_ceil(8)
    }

    /// Appends the packed shares, lowest bit of the first byte first.
    pub(crate) fn write(words: &[u64], len: usize, to: &mut Vec<u8>) {
        let end = to.len() + BitShares::bytes(len);
        to.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        to.truncate(end);
        if !len.is_multiple_of(8)
            && let Some(last) = to.last_mut()
        {
            *last &= 0xff >> (8 - len % 8);
        }
    }

    /// The words of `len` packed bits; nothing if a bit beyond the last is set.
    pub(crate) fn read(bytes: &[u8], len: usize) -> Option<Zeroizing<Vec<u64>>> {
        assert_eq!(bytes.len(), BitShares::bytes(len));
        let mut words = Zeroizing::new(vec![0; len.div_ceil(64)]);
        for (i, byte) in bytes.iter().enumerate() {
            words[i / 8] |= u64::from(*byte) << (8 * (i % 8));
        }
        let tail = words.last().map_or(0, |last| match len % 64 {
            0 => 0,
            used => last >> used,
        });
        (tail == 0).then_some(words)
    }
}

impl fmt::Debug for BitShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BitShares({} bits)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_come_back(bits in prop::collection::vec(0u64..2, 0..300)) {
            let shares = BitShares::from_fn(bits.len(), |i| bits[i]);
            prop_assert_eq!(shares.len(), bits.len());
            prop_assert_eq!(shares.is_empty(), bits.is_empty());
            let back: Vec<u64> = (0..bits.len()).map(|i| shares.get(i)).collect();
            prop_assert_eq!(&back, &bits);
            let mut bytes = vec![7];
            BitShares::write(shares.words(), shares.len(), &mut bytes);
            prop_assert_eq!(bytes.len(), 1 + bits.len().div_ceil(8));
            let words = BitShares::read(&bytes[1..], bits.len()).unwrap();
            prop_assert_eq!(BitShares::from_words(words, bits.len()), shares);
        }

        #[test]
        fn nothing_is_written_or_read_beyond_the_last_bit(len in 0usize..300) {
            let full = vec![u64::MAX; len.div_ceil(64)];
            let mut bytes = Vec::new();
            BitShares::write(&full, len, &mut bytes);
            let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            prop_assert_eq!(ones as usize, len);
            prop_assert!(BitShares::read(&bytes, len).is_some());
            let shares = BitShares::from_words(Zeroizing::new(full), len);
            let ones: u32 = shares.words().iter().map(|word| word.count_ones()).sum();
            prop_assert_eq!(ones as usize, len);
            if !len.is_multiple_of(8) {
                *bytes.last_mut().unwrap() |= 0x80;
                prop_assert!(BitShares::read(&bytes, len).is_none());
            }
        }
    }

    #[test]
    fn shares_are_read_and_changed_from_any_place_on() {
        for len in [1, 63, 64, 65, 200] {
            let bits = BitShares::from_fn(len, |i| (i * i + i / 3) as u64);
            for first in 0..len {
                for count in 1..=64.min(len - first) {
                    let read = bits.read_at(first, count);
                    let expected = (0..count).map(|i| bits.get(first + i) << i);
                    assert_eq!(read, expected.sum::<u64>(), "{len} {first} {count}");
                    let mut changed = BitShares::zeros(len);
                    changed.add_at(first, count, read);
                    let here = first..first + count;
                    let kept = |i| if here.contains(&i) { bits.get(i) } else { 0 };
                    assert_eq!(changed, BitShares::from_fn(len, kept));
                }
                let expected = BitShares::from_fn(first, |i| bits.get(i));
                assert_eq!(bits.first(first), expected);
            }
        }
    }

    #[test]
    fn shares_follow_each_other() {
        for (one, two) in [(0, 0), (0, 70), (64, 3), (63, 130), (70, 0)] {
            let bit = |i: usize| (i * i) as u64 >> 2;
            let mut all = BitShares::from_fn(one, bit);
            all.append(&BitShares::from_fn(two, |i| bit(one + i)));
            assert_eq!(all, BitShares::from_fn(one + two, bit));
        }
    }

    #[test]
    fn shares_add_up_and_are_not_shown() {
        let mut sum = BitShares::from_fn(70, |i| i as u64);
        sum.add(&BitShares::from_fn(70, |i| u64::from(i >= 64)));
        let expected = BitShares::from_fn(70, |i| i as u64 ^ u64::from(i >= 64));
        assert_eq!(sum, expected);
        sum.add(&BitShares::zeros(70));
        assert_eq!(sum, expected);
        assert_eq!(format!("{sum:?}"), "BitShares(70 bits)");
    }
}
