//! PMULL of ARMv8 on one element.

use core::arch::aarch64::*;

use super::bins::SLICES;
use super::generic;
use super::ops::Arithmetic;
use super::{Field, Transform};
use crate::Backend;
use crate::pmull::{high, low, swap, word_down, word_up, xor};

/// Whether the functions of this module may run.
pub(super) fn available(backend: Backend) -> bool {
    crate::pmull::available(backend)
}

macro_rules! instantiate {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = "neon,aes")]
        pub(super) unsafe fn $name(field: Field, $($arg: $ty),*) $(-> $ret)? {
            generic::$name::<Neon>(field, $($arg),*)
        }
    )*};
}

instantiate!(
    fn multiply(a: u128, b: u128) -> u128;
    fn multiply_assign(a: &mut [u128], b: &[u128]);
    fn scale_assign(a: &mut [u128], factor: u128);
    fn invert_all(values: &mut [u128]) -> bool;
    fn evaluate_blocks(
        coefficients: &[u128],
        log_size: u32,
        log_shared: u32,
        points: &[u128],
        transform: &Transform,
        out: &mut [u128],
    );
    fn forward(data: &mut [u128], log_size: u32, transform: &Transform, coset: u64);
    fn inverse(data: &mut [u128], log_size: u32, transform: &Transform, coset: u64);
    fn interpolate_bins(
        size: usize,
        points: &[u128],
        values: [&[u128]; SLICES],
        out: [&mut [u128]; SLICES],
    ) -> bool;
    fn evaluate_bins(
        size: usize,
        coefficients: [&[u128]; SLICES],
        bins: &[u32],
        points: &[u128],
        out: [&mut [u128]; SLICES],
    );
);

/// Only used from the functions that `instantiate!` writes, which is what makes the intrinsics below sound
/// to call.
struct Neon;

/// The constants of a field.
#[derive(Clone, Copy)]
struct Constants {
    /// 128 − k, and how far the other word goes the other way: 64 less that. Negative counts shift right.
    left: int64x2_t,
    right: int64x2_t,
    carry_left: int64x2_t,
    carry_right: int64x2_t,
    /// The modulus without its leading term; shifted if that fits into 64 bits.
    modulus: uint64x2_t,
    folds_once: bool,
}

/// As [`Arithmetic::shift`].
#[inline(always)]
fn shift_left(c: Constants, v: uint64x2_t) -> uint64x2_t {
    // SAFETY: see `Neon`.
    unsafe {
        let carry = vshlq_u64(word_up(v), c.carry_right);
        vorrq_u64(vshlq_u64(v, c.left), carry)
    }
}

impl Arithmetic for Neon {
    type Vector = uint64x2_t;
    /// The coefficients of 1, x^64 and x^128.
    type Wide = [uint64x2_t; 3];
    type Constants = Constants;
    const LOG_LANES: u32 = 0;

    #[inline(always)]
    fn constants(field: Field) -> Constants {
        let shift = i64::from(field.shift());
        let folds_once = field.folds_once();
        let modulus = if folds_once {
            field.low << shift
        } else {
            field.low
        };
        // SAFETY: see `Neon`.
        unsafe {
            Constants {
                left: vdupq_n_s64(shift),
                right: vdupq_n_s64(-shift),
                carry_left: vdupq_n_s64(64 - shift),
                carry_right: vdupq_n_s64(shift - 64),
                modulus: vdupq_n_u64(modulus),
                folds_once,
            }
        }
    }

    #[inline(always)]
    fn load(from: &[u128]) -> uint64x2_t {
        let from: &[u128; 1] = from.first_chunk().expect("enough elements");
        // SAFETY: 16 readable bytes; see `Neon`.
        unsafe { vld1q_u64(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(to: &mut [u128], v: uint64x2_t) {
        let to: &mut [u128; 1] = to.first_chunk_mut().expect("enough room");
        // SAFETY: 16 writable bytes; see `Neon`.
        unsafe { vst1q_u64(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn splat(element: u128) -> uint64x2_t {
        Self::load(&[element])
    }

    #[inline(always)]
    fn add(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        xor(a, b)
    }

    #[inline(always)]
    fn shift(c: Constants, v: uint64x2_t) -> uint64x2_t {
        shift_left(c, v)
    }

    #[inline(always)]
    fn unshift(c: Constants, v: uint64x2_t) -> uint64x2_t {
        // SAFETY: see `Neon`.
        unsafe {
            let carry = vshlq_u64(word_down(v), c.carry_left);
            vorrq_u64(vshlq_u64(v, c.right), carry)
        }
    }

    #[inline(always)]
    fn zero() -> [uint64x2_t; 3] {
        [Self::splat(0); 3]
    }

    #[inline(always)]
    fn accumulate(sums: [uint64x2_t; 3], a: uint64x2_t, b: uint64x2_t) -> [uint64x2_t; 3] {
        let crossed = xor(low(a, swap(b)), high(a, swap(b)));
        [
            xor(sums[0], low(a, b)),
            xor(sums[1], crossed),
            xor(sums[2], high(a, b)),
        ]
    }

    #[inline(always)]
    fn reduce_shifted(c: Constants, [p0, p1, p2]: [uint64x2_t; 3]) -> uint64x2_t {
        if c.folds_once {
            let p1 = xor(p1, high(p2, c.modulus));
            let above = xor(p2, word_down(p1));
            return xor(xor(p0, word_up(p1)), low(above, c.modulus));
        }
        // As in `Portable`.
        let above = xor(p2, word_down(p1));
        let first = xor(low(above, c.modulus), word_up(high(above, c.modulus)));
        // SAFETY: see `Neon`.
        let again = unsafe { vshlq_u64(first, c.carry_right) };
        let second = high(again, c.modulus);
        xor(xor(p0, word_up(p1)), shift_left(c, xor(first, second)))
    }

    #[inline(always)]
    fn split(_: u32, x: uint64x2_t, y: uint64x2_t) -> (uint64x2_t, uint64x2_t) {
        (x, y)
    }

    #[inline(always)]
    fn join(_: u32, a: uint64x2_t, b: uint64x2_t) -> (uint64x2_t, uint64x2_t) {
        (a, b)
    }

    #[inline(always)]
    fn spread(_: u32, factors: &[u128]) -> uint64x2_t {
        Self::load(factors)
    }
}
