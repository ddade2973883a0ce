//! The receiver's choice bits, packed and wiped after use.

use std::fmt;

use rand_core::CryptoRng;
use subtle::Choice;
use vesica_primitives::block::Block;
use zeroize::Zeroizing;

/// A row of choice bits: bit i is bit i % 128 of block i / 128. Bits beyond the last are zero.
#[derive(Clone)]
pub struct Choices {
    blocks: Zeroizing<Vec<Block>>,
    count: usize,
}

impl Choices {
    /// Uniformly random bits.
    pub fn random(count: usize, rng: &mut dyn CryptoRng) -> Self {
        let mut blocks = Zeroizing::new(vec![0; count.div_ceil(128)]);
        rng.fill_bytes(bytemuck::must_cast_slice_mut::<Block, u8>(&mut blocks));
        Choices::from_blocks(blocks, count)
    }

    /// The first `count` bits of `blocks`.
    ///
    /// # Panics
    /// If there are not exactly as many blocks as `count` bits need.
    pub fn from_blocks(mut blocks: Zeroizing<Vec<Block>>, count: usize) -> Self {
        assert_eq!(blocks.len(), count.div_ceil(128));
        if let Some(last) = blocks.last_mut() {
            *last &= Block::MAX >> (count.next_multiple_of(128) - count);
        }
        Choices { blocks, count }
    }

    /// Number of bits.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bit number `i`.
    ///
    /// # Panics
    /// If there is no such bit.
    pub fn get(&self, i: usize) -> Choice {
        assert!(i < self.count);
        Choice::from((self.blocks[i / 128] >> (i % 128) & 1) as u8)
    }

    /// All bits, packed.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

impl fmt::Debug for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choices({} bits)", self.count)
    }
}

impl FromIterator<bool> for Choices {
    fn from_iter<I: IntoIterator<Item = bool>>(bits: I) -> Self {
        let bits = bits.into_iter();
        // Reserves room for all bits if their number is known: growing would leave copies behind.
        let mut blocks = Zeroizing::new(Vec::with_capacity(bits.size_hint().0.div_ceil(128)));
        let mut count = 0;
        for bit in bits {
            if count % 128 == 0 {
                blocks.push(0);
            }
            blocks[count / 128] |= Block::from(bit) << (count % 128);
            count += 1;
        }
        Choices { blocks, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_testing::rng;

    proptest! {
        #[test]
        fn bits_come_back(bits in prop::collection::vec(any::<bool>(), 0..400)) {
            let choices: Choices = bits.iter().copied().collect();
            prop_assert_eq!(choices.len(), bits.len());
            prop_assert_eq!(choices.is_empty(), bits.is_empty());
            let back: Vec<bool> = (0..bits.len()).map(|i| choices.get(i).into()).collect();
            prop_assert_eq!(back, bits);
        }

        #[test]
        fn nothing_is_set_beyond_the_last_bit(count in 0usize..400, seed: u64) {
            let choices = Choices::random(count, &mut rng(seed));
            prop_assert_eq!(choices.blocks().len(), count.div_ceil(128));
            let ones: u32 = choices.blocks().iter().map(|b| b.count_ones()).sum();
            let counted = (0..count).filter(|i| bool::from(choices.get(*i))).count();
            prop_assert_eq!(ones as usize, counted);
        }
    }
}
