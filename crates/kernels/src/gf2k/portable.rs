//! One element at a time, on integers.

use super::Field;
use super::ops::Arithmetic;
use crate::binary::carryless_product;

/// A product of 64-bit words.
fn product(a: u64, b: u64) -> u128 {
    let (low, high) = carryless_product(a, b);
    u128::from(low) | u128::from(high) << 64
}

/// A product by a modulus, which has few bits.
fn product_by_low(a: u64, mut low: u64) -> u128 {
    let mut product = 0;
    while low != 0 {
        product ^= u128::from(a) << low.trailing_zeros();
        low &= low - 1;
    }
    product
}

fn low(v: u128) -> u64 {
    v as u64
}

fn high(v: u128) -> u64 {
    (v >> 64) as u64
}

pub(super) struct Portable;

/// The constants of a field.
#[derive(Clone, Copy)]
pub(super) struct Constants {
    bits: u32,
    shift: u32,
    low: u64,
    folds_once: bool,
}

impl Arithmetic for Portable {
    type Vector = u128;
    /// The coefficients of 1, x^64 and x^128.
    type Wide = [u128; 3];
    type Constants = Constants;
    const LOG_LANES: u32 = 0;

    #[inline(always)]
    fn constants(field: Field) -> Constants {
        Constants {
            bits: field.bits,
            shift: field.shift(),
            low: field.low,
            folds_once: field.folds_once(),
        }
    }

    #[inline(always)]
    fn load(from: &[u128]) -> u128 {
        from[0]
    }

    #[inline(always)]
    fn store(to: &mut [u128], v: u128) {
        to[0] = v;
    }

    #[inline(always)]
    fn splat(element: u128) -> u128 {
        element
    }

    #[inline(always)]
    fn add(a: u128, b: u128) -> u128 {
        a ^ b
    }

    #[inline(always)]
    fn shift(c: Constants, v: u128) -> u128 {
        v << c.shift
    }

    #[inline(always)]
    fn unshift(c: Constants, v: u128) -> u128 {
        v >> c.shift
    }

    #[inline(always)]
    fn zero() -> [u128; 3] {
        [0; 3]
    }

    #[inline(always)]
    fn accumulate(sum: [u128; 3], a: u128, b: u128) -> [u128; 3] {
        let p0 = product(low(a), low(b));
        let p2 = product(high(a), high(b));
        let p1 = product(low(a) ^ high(a), low(b) ^ high(b)) ^ p0 ^ p2;
        [sum[0] ^ p0, sum[1] ^ p1, sum[2] ^ p2]
    }

    #[inline(always)]
    fn reduce_shifted(c: Constants, [p0, p1, p2]: [u128; 3]) -> u128 {
        if c.folds_once {
            let r = c.low << c.shift;
            let p1 = p1 ^ product_by_low(high(p2), r);
            return p0 ^ p1 << 64 ^ product_by_low(low(p2) ^ high(p1), r);
        }
        // What stands above x^k, times r, has at most 127 bits; what of that stands above x^k again, times
        // r, has fewer than k.
        let above = p2 ^ p1 >> 64;
        let first = product_by_low(low(above), c.low) ^ product_by_low(high(above), c.low) << 64;
        let second = product_by_low(low(first >> c.bits), c.low);
        p0 ^ p1 << 64 ^ (first ^ second) << c.shift
    }

    fn split(_: u32, x: u128, y: u128) -> (u128, u128) {
        (x, y)
    }

    fn join(_: u32, a: u128, b: u128) -> (u128, u128) {
        (a, b)
    }

    fn spread(_: u32, factors: &[u128]) -> u128 {
        factors[0]
    }
}
