//! Carry-less products by integer multiplication on operands with holes, so that no carry reaches a bit
//! that counts (the method of BearSSL's `ctmul64`).

use super::ops::Arithmetic;
use super::{Element, REDUCTION};

/// The low 64 bits of a carry-less product.
fn low_product(a: u64, b: u64) -> u64 {
    const HOLES: u64 = 0x1111_1111_1111_1111;
    let a: [u64; 4] = std::array::from_fn(|i| a & HOLES << i);
    let b: [u64; 4] = std::array::from_fn(|i| b & HOLES << i);
    (0..4).fold(0, |sum, i| {
        let column = (0..4).fold(0, |c, j| c ^ a[j].wrapping_mul(b[(i + 4 - j) % 4]));
        sum | column & HOLES << i
    })
}

/// The carry-less product of two words, as (low, high).
pub(crate) fn product(a: u64, b: u64) -> (u64, u64) {
    let high = low_product(a.reverse_bits(), b.reverse_bits()).reverse_bits() >> 1;
    (low_product(a, b), high)
}

/// The product in GF(2^64).
pub(super) fn multiply64(a: u64, b: u64) -> u64 {
    let (low, high) = product(a, b);
    // x^64 is x^4 + x^3 + x + 1, and what passes x^64 then is below x^4.
    const { assert!(REDUCTION == 0b11011) };
    let times = |h: u64| h ^ h << 1 ^ h << 3 ^ h << 4;
    low ^ times(high) ^ times(high >> 63 ^ high >> 61 ^ high >> 60)
}

/// a·x in GF(2^64).
fn shifted(a: u64) -> u64 {
    a << 1 ^ (a >> 63).wrapping_neg() & REDUCTION
}

fn multiply128(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    let m0 = multiply64(a[0], b[0]);
    let m1 = multiply64(a[1], b[1]);
    let cross = multiply64(a[0] ^ a[1], b[0] ^ b[1]) ^ m0 ^ m1;
    [m0 ^ m1, cross ^ shifted(m1)]
}

pub(super) struct Portable;

impl Arithmetic for Portable {
    type Wide = u128;

    #[inline(always)]
    fn accumulate128(sum: u128, a: u128, b: u128) -> u128 {
        let halves = |v: u128| [v as u64, (v >> 64) as u64];
        let [low, high] = multiply128(halves(a), halves(b));
        sum ^ u128::from(low) ^ (u128::from(high) << 64)
    }

    #[inline(always)]
    fn reduce128(sum: u128) -> u128 {
        sum
    }

    #[inline(always)]
    fn multiply(a: Element, b: Element) -> Element {
        let xor = |p: [u64; 2], q: [u64; 2]| [p[0] ^ q[0], p[1] ^ q[1]];
        let (a0, a1) = ([a[0], a[1]], [a[2], a[3]]);
        let (b0, b1) = ([b[0], b[1]], [b[2], b[3]]);
        let m0 = multiply128(a0, b0);
        let m1 = multiply128(a1, b1);
        let cross = xor(xor(multiply128(xor(a0, a1), xor(b0, b1)), m0), m1);
        let low = xor(m0, m1);
        // x²·u times m1, where u² = x·u + 1.
        let [low1, high1] = m1.map(|word| shifted(shifted(word)));
        let high = xor(cross, [high1, low1 ^ shifted(high1)]);
        [low[0], low[1], high[0], high[1]]
    }

    #[inline(always)]
    fn scale(a: Element, factor: u64) -> Element {
        a.map(|c| multiply64(c, factor))
    }

    #[inline(always)]
    fn scale128(a: [u64; 2], factor: u64) -> [u64; 2] {
        a.map(|c| multiply64(c, factor))
    }
}
