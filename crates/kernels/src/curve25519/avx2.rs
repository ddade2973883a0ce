//! Four lanes by the 32-bit multiplication of AVX2.
//!
//! Radix 2^25.5: ten limbs of 26 and 25 bits in turn, one vector a limb, each limb in a 64-bit lane. Limb i
//! weighs 2^⌈25.5·i⌉, so that the product of two odd limbs counts twice, and what passes 2^255 counts 19
//! times. Every operation leaves limbs below 2^26 + 2^17; times 19 they fit into 32 bits, and ten doubled
//! products into 64.

// No closures with intrinsics here, and no loops around what must stay in registers: the former are called from
// code without AVX2, and the latter are not unrolled.

use core::arch::asm;
use core::arch::x86_64::*;

use super::field::{Lanes, Limbs, Step, canonical_bytes, limbs_of};
use super::{Bytes32, Multiples, Uniform};
use crate::Backend;

/// Whether this machine runs the functions of this module.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2) && is_x86_feature_detected!("avx2")
}

instantiate!(Field4, "avx2");

/// Four field elements, limb by limb. Only made inside the functions that `instantiate!` writes, which is
/// what makes the intrinsics below sound to call.
#[derive(Clone, Copy)]
pub(super) struct Field4([__m256i; 10]);

/// Bits of limb `i`.
const fn bits(i: usize) -> i32 {
    26 - (i as i32 & 1)
}

/// The products of the low halves of all lanes.
///
/// As an intrinsic it is a product of 64-bit lanes to the compiler, who forgets between loads and stores that the
/// high halves are 0 and then multiplies them as well.
///
/// # Safety
/// The CPU must have AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn product(a: __m256i, b: __m256i) -> __m256i {
    let out;
    // SAFETY: the caller's.
    unsafe {
        asm!(
            "vpmuludq {out}, {a}, {b}",
            out = lateout(ymm_reg) out,
            a = in(ymm_reg) a,
            b = in(ymm_reg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    out
}

/// 19·x for x below 2^59.
#[inline(always)]
fn times_19(x: __m256i) -> __m256i {
    // SAFETY: see `Field4`.
    unsafe {
        let three = _mm256_add_epi64(x, _mm256_slli_epi64::<1>(x));
        _mm256_add_epi64(three, _mm256_slli_epi64::<4>(x))
    }
}

/// What limb `i` has beyond its bits.
#[inline(always)]
fn beyond(i: usize, limb: __m256i) -> __m256i {
    // SAFETY: see `Field4`.
    unsafe {
        match bits(i) {
            26 => _mm256_srli_epi64::<26>(limb),
            _ => _mm256_srli_epi64::<25>(limb),
        }
    }
}

/// The bits of limb `i`.
#[inline(always)]
fn within(i: usize, limb: __m256i) -> __m256i {
    // SAFETY: see `Field4`.
    unsafe { _mm256_and_si256(limb, _mm256_set1_epi64x((1 << bits(i)) - 1)) }
}

/// Adds each limb's overflow to the next one, all at once: for limbs below 2^29.
#[inline(always)]
fn carried(l: [__m256i; 10]) -> Field4 {
    let mut out = l;
    for i in 0..10 {
        let before = (i + 9) % 10;
        let carry = beyond(before, l[before]);
        let carry = if i == 0 { times_19(carry) } else { carry };
        // SAFETY: see `Field4`.
        out[i] = unsafe { _mm256_add_epi64(within(i, l[i]), carry) };
    }
    Field4(out)
}

/// Adds the overflow of limb `i` to the next one.
#[inline(always)]
fn pass_on(l: &mut [__m256i; 10], i: usize) {
    let carry = beyond(i, l[i]);
    let carry = if i == 9 { times_19(carry) } else { carry };
    let next = (i + 1) % 10;
    l[i] = within(i, l[i]);
    // SAFETY: see `Field4`.
    l[next] = unsafe { _mm256_add_epi64(l[next], carry) };
}

/// Adds overflows limb by limb, in two chains that run side by side: for limbs below 2^63.
#[inline(always)]
fn reduced(mut l: [__m256i; 10]) -> Field4 {
    pass_on(&mut l, 0);
    pass_on(&mut l, 4);
    pass_on(&mut l, 1);
    pass_on(&mut l, 5);
    pass_on(&mut l, 2);
    pass_on(&mut l, 6);
    pass_on(&mut l, 3);
    pass_on(&mut l, 7);
    pass_on(&mut l, 4);
    pass_on(&mut l, 8);
    pass_on(&mut l, 9);
    pass_on(&mut l, 0);
    Field4(l)
}

/// Sums of products.
macro_rules! sums {
    ($($x:ident * $y:ident $(+ $xs:ident * $ys:ident)*),* $(,)?) => {[$({
        let sum = product($x, $y);
        $(let sum = _mm256_add_epi64(sum, product($xs, $ys));)*
        sum
    }),*]};
}

impl Lanes for Field4 {
    const N: usize = 4;

    #[inline(always)]
    fn load(bytes: &[Bytes32]) -> Self {
        let mut limbs = [[0u64; 4]; 10];
        for (lane, bytes) in bytes.iter().enumerate().take(4) {
            for (i, limb) in limbs_of(bytes).into_iter().enumerate() {
                limbs[2 * i][lane] = limb & ((1 << 26) - 1);
                limbs[2 * i + 1][lane] = limb >> 26;
            }
        }
        let mut out = Self::small(0);
        for (limb, row) in out.0.iter_mut().zip(&limbs) {
            // SAFETY: see `Field4`; each row is 32 readable bytes.
            *limb = unsafe { _mm256_loadu_si256(row.as_ptr().cast()) };
        }
        out
    }

    #[inline(always)]
    fn small(value: u64) -> Self {
        // SAFETY: see `Field4`.
        unsafe {
            let mut limbs = [_mm256_setzero_si256(); 10];
            limbs[0] = _mm256_set1_epi64x((value & ((1 << 26) - 1)) as i64);
            limbs[1] = _mm256_set1_epi64x((value >> 26) as i64);
            Field4(limbs)
        }
    }

    #[inline(always)]
    fn splat(limbs: &Limbs) -> Self {
        let mut out = Self::small(0);
        for (pair, limb) in out.0.chunks_exact_mut(2).zip(limbs) {
            // SAFETY: see `Field4`.
            unsafe {
                pair[0] = _mm256_set1_epi64x((limb & ((1 << 26) - 1)) as i64);
                pair[1] = _mm256_set1_epi64x((limb >> 26) as i64);
            }
        }
        out
    }

    #[inline(always)]
    fn to_bytes(self) -> [Bytes32; 8] {
        let mut rows = [[0u64; 4]; 10];
        for (row, limb) in rows.iter_mut().zip(self.0) {
            // SAFETY: see `Field4`; `row` is 32 writable bytes.
            unsafe { _mm256_storeu_si256(row.as_mut_ptr().cast(), limb) };
        }
        let mut out = [[0; 32]; 8];
        for (lane, out) in out[..4].iter_mut().enumerate() {
            let pairs = std::array::from_fn(|i| rows[2 * i][lane] + (rows[2 * i + 1][lane] << 26));
            *out = canonical_bytes(pairs);
        }
        out
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let mut sum = self.0;
        for (a, b) in sum.iter_mut().zip(other.0) {
            // SAFETY: see `Field4`.
            *a = unsafe { _mm256_add_epi64(*a, b) };
        }
        carried(sum)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // Plus 2p, whose limbs exceed those of any operand.
        let mut difference = self.0;
        for (i, (a, b)) in difference.iter_mut().zip(other.0).enumerate() {
            let two_p = (2 << bits(i)) - if i == 0 { 38 } else { 2 };
            // SAFETY: see `Field4`.
            *a = unsafe { _mm256_sub_epi64(_mm256_add_epi64(*a, _mm256_set1_epi64x(two_p)), b) };
        }
        carried(difference)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see `Field4`.
        unsafe {
            let (a, b) = (self.0, other.0);
            let nineteen = _mm256_set1_epi64x(19);
            let (mut double, mut folded) = (a, b);
            for i in (1..10).step_by(2) {
                double[i] = _mm256_add_epi64(a[i], a[i]);
            }
            for i in 1..10 {
                folded[i] = product(b[i], nineteen);
            }
            let [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9] = a;
            let [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9] = b;
            let [_, d1, _, d3, _, d5, _, d7, _, d9] = double;
            let [_, f1, f2, f3, f4, f5, f6, f7, f8, f9] = folded;
            reduced(sums![
                a0 * b0
                    + d1 * f9
                    + a2 * f8
                    + d3 * f7
                    + a4 * f6
                    + d5 * f5
                    + a6 * f4
                    + d7 * f3
                    + a8 * f2
                    + d9 * f1,
                a0 * b1
                    + a1 * b0
                    + a2 * f9
                    + a3 * f8
                    + a4 * f7
                    + a5 * f6
                    + a6 * f5
                    + a7 * f4
                    + a8 * f3
                    + a9 * f2,
                a0 * b2
                    + d1 * b1
                    + a2 * b0
                    + d3 * f9
                    + a4 * f8
                    + d5 * f7
                    + a6 * f6
                    + d7 * f5
                    + a8 * f4
                    + d9 * f3,
                a0 * b3
                    + a1 * b2
                    + a2 * b1
                    + a3 * b0
                    + a4 * f9
                    + a5 * f8
                    + a6 * f7
                    + a7 * f6
                    + a8 * f5
                    + a9 * f4,
                a0 * b4
                    + d1 * b3
                    + a2 * b2
                    + d3 * b1
                    + a4 * b0
                    + d5 * f9
                    + a6 * f8
                    + d7 * f7
                    + a8 * f6
                    + d9 * f5,
                a0 * b5
                    + a1 * b4
                    + a2 * b3
                    + a3 * b2
                    + a4 * b1
                    + a5 * b0
                    + a6 * f9
                    + a7 * f8
                    + a8 * f7
                    + a9 * f6,
                a0 * b6
                    + d1 * b5
                    + a2 * b4
                    + d3 * b3
                    + a4 * b2
                    + d5 * b1
                    + a6 * b0
                    + d7 * f9
                    + a8 * f8
                    + d9 * f7,
                a0 * b7
                    + a1 * b6
                    + a2 * b5
                    + a3 * b4
                    + a4 * b3
                    + a5 * b2
                    + a6 * b1
                    + a7 * b0
                    + a8 * f9
                    + a9 * f8,
                a0 * b8
                    + d1 * b7
                    + a2 * b6
                    + d3 * b5
                    + a4 * b4
                    + d5 * b3
                    + a6 * b2
                    + d7 * b1
                    + a8 * b0
                    + d9 * f9,
                a0 * b9
                    + a1 * b8
                    + a2 * b7
                    + a3 * b6
                    + a4 * b5
                    + a5 * b4
                    + a6 * b3
                    + a7 * b2
                    + a8 * b1
                    + a9 * b0,
            ])
        }
    }

    #[inline(always)]
    fn square(self) -> Self {
        // SAFETY: see `Field4`.
        unsafe {
            let a = self.0;
            let nineteen = _mm256_set1_epi64x(19);
            let (mut double, mut quadruple, mut folded) = (a, a, a);
            for i in 0..10 {
                double[i] = _mm256_add_epi64(a[i], a[i]);
                quadruple[i] = _mm256_add_epi64(double[i], double[i]);
                folded[i] = product(a[i], nineteen);
            }
            // Different limbs meet twice, and odd ones count twice.
            let [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9] = a;
            let [d0, d1, d2, d3, d4, d5, d6, d7, d8, d9] = double;
            let [_, q1, _, q3, _, q5, _, q7, _, _] = quadruple;
            let [_, _, _, _, _, f5, f6, f7, f8, f9] = folded;
            reduced(sums![
                a0 * a0 + q1 * f9 + d2 * f8 + q3 * f7 + d4 * f6 + d5 * f5,
                d0 * a1 + d2 * f9 + d3 * f8 + d4 * f7 + d5 * f6,
                d0 * a2 + d1 * a1 + q3 * f9 + d4 * f8 + q5 * f7 + a6 * f6,
                d0 * a3 + d1 * a2 + d4 * f9 + d5 * f8 + d6 * f7,
                d0 * a4 + q1 * a3 + a2 * a2 + q5 * f9 + d6 * f8 + d7 * f7,
                d0 * a5 + d1 * a4 + d2 * a3 + d6 * f9 + d7 * f8,
                d0 * a6 + q1 * a5 + d2 * a4 + d3 * a3 + q7 * f9 + a8 * f8,
                d0 * a7 + d1 * a6 + d2 * a5 + d3 * a4 + d8 * f9,
                d0 * a8 + q1 * a7 + d2 * a6 + q3 * a5 + a4 * a4 + d9 * f9,
                d0 * a9 + d1 * a8 + d2 * a7 + d3 * a6 + d4 * a5,
            ])
        }
    }

    #[inline(always)]
    fn apart<S: Step<Self>>(step: S) -> S::Output {
        // SAFETY: see `Field4`.
        unsafe { apart(step) }
    }

    #[inline(always)]
    fn mul_small(self, factor: u32) -> Self {
        // SAFETY: see `Field4`.
        unsafe {
            let factor = _mm256_set1_epi64x(i64::from(factor));
            let mut products = self.0;
            for limb in &mut products {
                *limb = product(*limb, factor);
            }
            reduced(products)
        }
    }

    #[inline(always)]
    fn select(mask: u8, a: Self, b: Self) -> Self {
        // SAFETY: see `Field4`.
        unsafe {
            let lanes = _mm256_set_epi64x(8, 4, 2, 1);
            let chosen = _mm256_and_si256(_mm256_set1_epi64x(i64::from(mask)), lanes);
            let chosen = _mm256_cmpeq_epi64(chosen, lanes);
            let mut out = a.0;
            for (a, b) in out.iter_mut().zip(b.0) {
                *a = _mm256_blendv_epi8(*a, b, chosen);
            }
            Field4(out)
        }
    }
}
