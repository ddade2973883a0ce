//! Eight lanes by the 52-bit multiply-add of AVX-512 IFMA.
//!
//! Radix 2^51, five limbs, one vector a limb. A high half of a product weighs 2^52 = 2 · 2^51, so high
//! halves are summed apart and doubled once. Operands of a product must be below 2^52 limb by limb;
//! every operation leaves limbs below 2^51 + 2^14, so each sum or difference is carried once.
//!
//! Loops, not `map` or `from_fn`: their closures lack the target features of their caller, so builds with little
//! optimisation would call every intrinsic as a function.

use core::arch::x86_64::*;

use super::field::{Lanes, Limbs, MASK51, Step, canonical_bytes, limbs_of};
use super::{Bytes32, Multiples, Uniform};
use crate::Backend;

/// Whether this machine runs the functions of this module.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512ifma")
}

instantiate!(Field8, "avx512f,avx512vl,avx512dq,avx512ifma");

/// Eight field elements, limb by limb. Only made inside the functions that `instantiate!` writes,
/// which is what makes the intrinsics below sound to call.
#[derive(Clone, Copy)]
pub(super) struct Field8([__m512i; 5]);

/// Adds each limb's overflow beyond 51 bits to the next one, all at once.
#[inline(always)]
fn carried(l: [__m512i; 5]) -> Field8 {
    // SAFETY: see `Field8`.
    unsafe {
        let mask = _mm512_set1_epi64(MASK51 as i64);
        let mut c = l;
        let mut low = l;
        for i in 0..5 {
            c[i] = _mm512_srli_epi64::<51>(l[i]);
            low[i] = _mm512_and_si512(l[i], mask);
        }
        Field8([
            _mm512_add_epi64(low[0], times_19(c[4])),
            _mm512_add_epi64(low[1], c[0]),
            _mm512_add_epi64(low[2], c[1]),
            _mm512_add_epi64(low[3], c[2]),
            _mm512_add_epi64(low[4], c[3]),
        ])
    }
}

#[inline(always)]
fn times_19(x: __m512i) -> __m512i {
    // SAFETY: see `Field8`.
    unsafe {
        let three = _mm512_add_epi64(x, _mm512_slli_epi64::<1>(x));
        _mm512_add_epi64(three, _mm512_slli_epi64::<4>(x))
    }
}

/// Folds ten limbs, given as sums of low and of high halves, into five.
#[inline(always)]
fn folded(low: [__m512i; 10], high: [__m512i; 10]) -> Field8 {
    // SAFETY: see `Field8`.
    unsafe {
        let mut t = [_mm512_setzero_si512(); 10];
        for k in 0..10 {
            t[k] = _mm512_add_epi64(low[k], _mm512_slli_epi64::<1>(high[k]));
        }
        let mut r = [_mm512_setzero_si512(); 5];
        for k in 0..5 {
            r[k] = _mm512_add_epi64(t[k], times_19(t[k + 5]));
        }
        carried(r)
    }
}

impl Lanes for Field8 {
    const N: usize = 8;

    #[inline(always)]
    fn load(bytes: &[Bytes32]) -> Self {
        let mut limbs = [[0u64; 8]; 5];
        for (lane, b) in bytes.iter().enumerate().take(8) {
            for (row, limb) in limbs.iter_mut().zip(limbs_of(b)) {
                row[lane] = limb;
            }
        }
        // SAFETY: see `Field8`; each row is 64 readable bytes.
        unsafe {
            let mut r = [_mm512_setzero_si512(); 5];
            for i in 0..5 {
                r[i] = _mm512_loadu_si512(limbs[i].as_ptr().cast());
            }
            Field8(r)
        }
    }

    #[inline(always)]
    fn small(value: u64) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let zero = _mm512_setzero_si512();
            Field8([_mm512_set1_epi64(value as i64), zero, zero, zero, zero])
        }
    }

    #[inline(always)]
    fn splat(limbs: &Limbs) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let mut r = [_mm512_setzero_si512(); 5];
            for i in 0..5 {
                r[i] = _mm512_set1_epi64(limbs[i] as i64);
            }
            Field8(r)
        }
    }

    #[inline(always)]
    fn to_bytes(self) -> [Bytes32; 8] {
        let mut rows = [[0u64; 8]; 5];
        for (row, limb) in rows.iter_mut().zip(self.0) {
            // SAFETY: see `Field8`; `row` is 64 writable bytes.
            unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), limb) };
        }
        std::array::from_fn(|lane| canonical_bytes(std::array::from_fn(|i| rows[i][lane])))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let mut r = self.0;
            for (limb, other) in r.iter_mut().zip(other.0) {
                *limb = _mm512_add_epi64(*limb, other);
            }
            carried(r)
        }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // Plus 2p, whose limbs exceed those of any operand.
        // SAFETY: see `Field8`.
        unsafe {
            let first = _mm512_set1_epi64((1 << 52) - 38);
            let rest = _mm512_set1_epi64((1 << 52) - 2);
            let mut r = self.0;
            for (i, (limb, other)) in r.iter_mut().zip(other.0).enumerate() {
                let two_p = if i == 0 { first } else { rest };
                *limb = _mm512_sub_epi64(_mm512_add_epi64(*limb, two_p), other);
            }
            carried(r)
        }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let mut low = [_mm512_setzero_si512(); 10];
            let mut high = [_mm512_setzero_si512(); 10];
            for i in 0..5 {
                for j in 0..5 {
                    let (a, b) = (self.0[i], other.0[j]);
                    low[i + j] = _mm512_madd52lo_epu64(low[i + j], a, b);
                    high[i + j + 1] = _mm512_madd52hi_epu64(high[i + j + 1], a, b);
                }
            }
            folded(low, high)
        }
    }

    #[inline(always)]
    fn square(self) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let mut low = [_mm512_setzero_si512(); 10];
            let mut high = [_mm512_setzero_si512(); 10];
            for i in 0..5 {
                for j in i + 1..5 {
                    let (a, b) = (self.0[i], self.0[j]);
                    low[i + j] = _mm512_madd52lo_epu64(low[i + j], a, b);
                    high[i + j + 1] = _mm512_madd52hi_epu64(high[i + j + 1], a, b);
                }
            }
            // Products of different limbs count twice.
            for k in 1..9 {
                low[k] = _mm512_slli_epi64::<1>(low[k]);
                high[k] = _mm512_slli_epi64::<1>(high[k]);
            }
            for i in 0..5 {
                let a = self.0[i];
                low[2 * i] = _mm512_madd52lo_epu64(low[2 * i], a, a);
                high[2 * i + 1] = _mm512_madd52hi_epu64(high[2 * i + 1], a, a);
            }
            folded(low, high)
        }
    }

    #[inline(always)]
    fn apart<S: Step<Self>>(step: S) -> S::Output {
        // SAFETY: see `Field8`.
        unsafe { apart(step) }
    }

    #[inline(always)]
    fn mul_small(self, factor: u32) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let c = _mm512_set1_epi64(i64::from(factor));
            let mut low = [_mm512_setzero_si512(); 10];
            let mut high = [_mm512_setzero_si512(); 10];
            for i in 0..5 {
                low[i] = _mm512_madd52lo_epu64(low[i], self.0[i], c);
                high[i + 1] = _mm512_madd52hi_epu64(high[i + 1], self.0[i], c);
            }
            folded(low, high)
        }
    }

    #[inline(always)]
    fn select(mask: u8, a: Self, b: Self) -> Self {
        // SAFETY: see `Field8`.
        unsafe {
            let mut r = a.0;
            for (limb, b) in r.iter_mut().zip(b.0) {
                *limb = _mm512_mask_blend_epi64(mask, *limb, b);
            }
            Field8(r)
        }
    }
}
