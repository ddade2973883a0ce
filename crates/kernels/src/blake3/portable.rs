//! One input at a time.

use std::array::from_fn;

use super::ops::{BLOCK, Lanes, MAX_LANES};

impl Lanes for u32 {
    const COUNT: usize = 1;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        word
    }

    #[inline(always)]
    fn from_words(words: &[u32; MAX_LANES]) -> Self {
        words[0]
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn rotate<const BITS: i32>(self) -> Self {
        self.rotate_right(BITS as u32)
    }

    #[inline(always)]
    fn load(inputs: &[&[u8]; MAX_LANES], from: usize) -> [Self; 16] {
        let block = padded(inputs[0], from);
        from_fn(|w| {
            let word = block[4 * w..][..4].try_into().expect("four bytes");
            u32::from_le_bytes(word)
        })
    }

    #[inline(always)]
    fn store(words: [Self; 8], out: &mut [[u8; 32]; MAX_LANES]) {
        for (bytes, word) in out[0].chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The block of `input` from byte `from` on, with zeros after its end.
#[inline(always)]
pub(super) fn padded(input: &[u8], from: usize) -> [u8; BLOCK] {
    let rest = input.get(from..).unwrap_or(&[]);
    match rest.first_chunk() {
        Some(block) => *block,
        None => {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            block
        }
    }
}
