//! PMULL of ARMv8.

use core::arch::aarch64::*;

use super::ops::{self, Arithmetic};
use super::{Element, REDUCTION};
use crate::Backend;
use crate::pmull::{high, low, swap, word_up, xor};

/// Whether the functions of this module may run.
pub(super) fn available(backend: Backend) -> bool {
    crate::pmull::available(backend)
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
    fn multiply_assign(a: &mut [Element], b: &[Element]);
    fn scale_assign(a: &mut [Element], factor: u64);
    fn scale_groups(elements: &mut [[u64; 2]], factors: &[u64]);
    fn invert_all(values: &mut [Element]) -> bool;
    fn inner_product(a: &[Element], b: &[Element]) -> Element;
    fn evaluate_blocks(
        coefficients: &[Element],
        log_size: u32,
        log_shared: u32,
        points: &[Element],
        out: &mut [Element],
    );
    fn multiply128(a: u128, b: u128) -> u128;
    fn inner_product128(a: &[u128], b: &[u128]) -> u128;
    fn add_scaled128(out: &mut [u128], factor: u128, x: &[u128]);
    fn add_scaled64(out: &mut [u128], factor: u128, x: &[u64]);
    fn forward(data: &mut [Element], log_size: u32, twiddles: &[u64], coset: u64);
    fn inverse(data: &mut [Element], log_size: u32, twiddles: &[u64], coset: u64);
);

/// Only used from the functions that `instantiate!` writes, which is what makes the intrinsics below sound
/// to call.
struct Neon;

#[inline(always)]
fn load(a: &Element) -> (uint64x2_t, uint64x2_t) {
    // SAFETY: an element is 32 readable bytes; see `Neon`.
    unsafe { (vld1q_u64(a.as_ptr()), vld1q_u64(a.as_ptr().add(2))) }
}

#[inline(always)]
fn store(low: uint64x2_t, high: uint64x2_t) -> Element {
    let mut out = [0; 4];
    // SAFETY: an element is 32 writable bytes; see `Neon`.
    unsafe {
        vst1q_u64(out.as_mut_ptr(), low);
        vst1q_u64(out.as_mut_ptr().add(2), high);
    }
    out
}

/// The same word in both halves.
#[inline(always)]
fn both(word: u64) -> uint64x2_t {
    // SAFETY: see `Neon`.
    unsafe { vdupq_n_u64(word) }
}

/// Two unreduced products to two elements of GF(2^64), packed.
#[inline(always)]
fn reduce(p0: uint64x2_t, p1: uint64x2_t) -> uint64x2_t {
    let r = both(REDUCTION);
    // SAFETY: see `Neon`.
    unsafe {
        let (first0, first1) = (high(p0, r), high(p1, r));
        let (second0, second1) = (high(first0, r), high(first1, r));
        vzip1q_u64(xor(xor(p0, first0), second0), xor(xor(p1, first1), second1))
    }
}

/// Times x, where the product has at most 128 bits.
#[inline(always)]
fn times_x(v: uint64x2_t) -> uint64x2_t {
    // SAFETY: see `Neon`.
    unsafe {
        let carry = word_up(vshrq_n_u64::<63>(v));
        vorrq_u64(vshlq_n_u64::<1>(v), carry)
    }
}

/// Both halves added.
#[inline(always)]
fn halves_added(v: uint64x2_t) -> uint64x2_t {
    xor(v, swap(v))
}

/// Product of two elements of GF(2^128), unreduced: coefficients of 1 and of u.
#[inline(always)]
fn product128(a: uint64x2_t, b: uint64x2_t) -> (uint64x2_t, uint64x2_t) {
    let m0 = low(a, b);
    // Of 127 bits.
    let m1 = high(a, b);
    let cross = low(halves_added(a), halves_added(b));
    let sum = xor(m0, m1);
    (sum, xor(xor(cross, sum), times_x(m1)))
}

/// Three sums of products of 64-bit words: of the low ones, the high ones, and the sums of both.
#[derive(Clone, Copy)]
struct Unreduced([uint64x2_t; 3]);

impl Default for Unreduced {
    #[inline(always)]
    fn default() -> Self {
        Unreduced([both(0); 3])
    }
}

#[inline(always)]
fn block(a: u128) -> uint64x2_t {
    // SAFETY: both types are 128 plain bits.
    unsafe { std::mem::transmute::<u128, uint64x2_t>(a) }
}

impl Arithmetic for Neon {
    type Wide = Unreduced;

    #[inline(always)]
    fn accumulate128(Unreduced(sums): Unreduced, a: u128, b: u128) -> Unreduced {
        let (a, b) = (block(a), block(b));
        Unreduced([
            xor(sums[0], low(a, b)),
            xor(sums[1], high(a, b)),
            xor(sums[2], low(halves_added(a), halves_added(b))),
        ])
    }

    #[inline(always)]
    fn reduce128(Unreduced([low, high, cross]): Unreduced) -> u128 {
        // u² = x·u + 1; `high` has 127 bits.
        let c0 = xor(low, high);
        let c1 = xor(xor(cross, c0), times_x(high));
        // SAFETY: both types are 128 plain bits.
        unsafe { std::mem::transmute::<uint64x2_t, u128>(reduce(c0, c1)) }
    }

    #[inline(always)]
    fn multiply(a: Element, b: Element) -> Element {
        let ((a0, a1), (b0, b1)) = (load(&a), load(&b));
        let m0 = product128(a0, b0);
        let m1 = product128(a1, b1);
        let cross = product128(xor(a0, a1), xor(b0, b1));
        let sum = (xor(m0.0, m1.0), xor(m0.1, m1.1));
        // x²·u·(p0 + p1·u) = x²·p1 + (x²·p0 + x³·p1)·u, on reduced p so that nothing overflows.
        let p = reduce(m1.0, m1.1);
        let gamma0 = high(p, both(4));
        let gamma1 = xor(low(p, both(4)), high(p, both(8)));
        let high0 = xor(xor(cross.0, sum.0), gamma0);
        let high1 = xor(xor(cross.1, sum.1), gamma1);
        store(reduce(sum.0, sum.1), reduce(high0, high1))
    }

    #[inline(always)]
    fn scale(a: Element, factor: u64) -> Element {
        let f = both(factor);
        let (c01, c23) = load(&a);
        store(
            reduce(low(c01, f), high(c01, f)),
            reduce(low(c23, f), high(c23, f)),
        )
    }

    #[inline(always)]
    fn scale128(a: [u64; 2], factor: u64) -> [u64; 2] {
        let f = both(factor);
        // SAFETY: both types are 128 plain bits.
        unsafe {
            let v = std::mem::transmute::<[u64; 2], uint64x2_t>(a);
            std::mem::transmute::<uint64x2_t, [u64; 2]>(reduce(low(v, f), high(v, f)))
        }
    }
}
