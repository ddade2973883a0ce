//! The AES instructions of ARMv8.

use core::arch::aarch64::*;

use super::ops::{self, Arithmetic};
use super::{BITS, Key};
use crate::Backend;

/// Whether the functions of this module may run.
#[inline]
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && cfg!(target_endian = "little")
        && std::arch::is_aarch64_feature_detected!("aes")
}

macro_rules! instantiate {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = "neon,aes")]
        pub(super) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            ops::$name::<Neon>($($arg),*)
        }
    )*};
}

instantiate!(
    fn encrypt(key: &Key, blocks: &mut [u128]);
    fn feed_forward(key: &Key, blocks: &mut [u128]);
    fn feed_forward_under_each(keys: &[u128], blocks: &mut [u128]);
    fn children(keys: &[Key; 2], nodes: &mut [u128]) -> [u128; 2];
    fn bits(keys: &[Key], blocks: &[u128; BITS], out: &mut [u128]);
    fn hash_words(key: &Key, offsets: &[u128], inputs: &[u128], out: &mut [u64]);
);

/// Derives the ten further round keys of each key from its first.
///
/// # Safety
/// The CPU must have the features named in the attribute.
#[target_feature(enable = "neon,aes")]
pub(super) unsafe fn expand<const N: usize>(keys: &mut [Key; N]) {
    ops::expand::<Neon, N>(keys);
}

/// AESE adds the key before it substitutes. Compiled for the instruction, unlike what is inlined into its callers.
#[target_feature(enable = "neon,aes")]
#[inline]
fn add_and_substitute(x: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    vaeseq_u8(x, key)
}

#[target_feature(enable = "neon,aes")]
#[inline]
fn mix_columns(x: uint8x16_t) -> uint8x16_t {
    vaesmcq_u8(x)
}

/// Only used from the functions above, which is what makes the intrinsics below sound to call.
struct Neon;

impl Arithmetic for Neon {
    type Vector = uint8x16_t;

    #[inline(always)]
    fn load(block: &u128) -> uint8x16_t {
        // SAFETY: a block is 16 readable bytes; see `Neon`.
        unsafe { vld1q_u8(std::ptr::from_ref(block).cast()) }
    }

    #[inline(always)]
    fn store(block: &mut u128, value: uint8x16_t) {
        // SAFETY: a block is 16 writable bytes; see `Neon`.
        unsafe { vst1q_u8(std::ptr::from_mut(block).cast(), value) }
    }

    #[inline(always)]
    fn zero() -> uint8x16_t {
        Self::load(&0)
    }

    #[inline(always)]
    fn add(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: see `Neon`.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn round(round: usize, x: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
        // SAFETY: see `Neon`.
        unsafe {
            match round {
                10 => veorq_u8(x, key),
                9 => add_and_substitute(x, key),
                _ => mix_columns(add_and_substitute(x, key)),
            }
        }
    }

    #[inline(always)]
    fn next_round_key(key: uint8x16_t, constant: u8) -> uint8x16_t {
        // The last column, rotated by a byte, in all four columns.
        let rotated = u128::from(0x0c0f_0e0d_u32) * 0x0000_0001_0000_0001_0000_0001_0000_0001;
        // SAFETY: see `Neon`.
        unsafe {
            // With the same word in all four columns, the shift of rows changes nothing.
            let zero = Self::zero();
            let last = vqtbl1q_u8(key, Self::load(&rotated));
            let word = add_and_substitute(last, zero);
            let constant = vreinterpretq_u8_u32(vdupq_n_u32(u32::from(constant)));
            let mut next = veorq_u8(key, vextq_u8::<12>(zero, key));
            next = veorq_u8(next, vextq_u8::<8>(zero, next));
            veorq_u8(veorq_u8(next, word), constant)
        }
    }

    #[inline(always)]
    fn shift_left(x: uint8x16_t) -> uint8x16_t {
        // SAFETY: see `Neon`.
        unsafe { vreinterpretq_u8_u64(vshlq_n_u64::<1>(vreinterpretq_u64_u8(x))) }
    }

    #[inline(always)]
    fn highest_bits(x: &[uint8x16_t; 8]) -> u8 {
        // SAFETY: see `Neon`.
        unsafe {
            // The odd bytes of two registers, three times: the last bytes of all eight end up in order, in
            // the odd places.
            let two = |i: usize| vuzp2q_u8(x[2 * i], x[2 * i + 1]);
            let low = vuzp2q_u8(two(0), two(1));
            let high = vuzp2q_u8(two(2), two(3));
            let last = vreinterpretq_u16_u8(vuzp2q_u8(low, high));
            let negative = vshrq_n_u16::<15>(last);
            let places = [0, 1, 2, 3, 4, 5, 6, 7];
            let places = vld1q_s16(places.as_ptr());
            vaddvq_u16(vshlq_u16(negative, places)) as u8
        }
    }
}
