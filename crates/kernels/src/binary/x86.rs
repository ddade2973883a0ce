//! PCLMULQDQ, and its 512-bit form for the butterflies.

use core::arch::x86_64::*;

use super::ops::{self, Arithmetic};
use super::{Element, REDUCTION};
use crate::Backend;

/// Whether [`narrow`] may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2)
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx")
}

/// Whether [`wide`] may run.
pub(super) fn wide_available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && available(backend)
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
}

macro_rules! instantiate {
    ($module:ident, $backend:ident, $features:literal) => {
        pub(super) mod $module {
            use super::*;

            instantiate!(@ $backend, $features,
                fn multiply_assign(a: &mut [Element], b: &[Element]);
                fn scale_assign(a: &mut [Element], factor: u64);
                fn scale_groups(elements: &mut [[u64; 2]], factors: &[u64]);
                fn invert_all(values: &mut [Element]) -> bool;
                fn inner_product(a: &[Element], b: &[Element]) -> Element;
                fn evaluate_blocks(
                    coefficients: &[Element], log_size: u32, log_shared: u32,
                    points: &[Element], out: &mut [Element]
                );
                fn multiply128(a: u128, b: u128) -> u128;
                fn inner_product128(a: &[u128], b: &[u128]) -> u128;
                fn add_scaled128(out: &mut [u128], factor: u128, x: &[u128]);
                fn add_scaled64(out: &mut [u128], factor: u128, x: &[u64]);
                fn forward(data: &mut [Element], log_size: u32, twiddles: &[u64], coset: u64);
                fn inverse(data: &mut [Element], log_size: u32, twiddles: &[u64], coset: u64);
            );
        }
    };
    (@ $backend:ident, $features:literal,
        $(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {$(
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            ops::$name::<$backend>($($arg),*)
        }
    )*};
}

instantiate!(narrow, Narrow, "avx,pclmulqdq");
instantiate!(wide, Wide, "avx,pclmulqdq,vpclmulqdq,avx512f,avx512vl");

/// 128-bit registers. Only used from the functions that `instantiate!` writes, which is what makes the
/// intrinsics below sound to call.
pub(super) struct Narrow;

/// As [`Narrow`], with 512-bit butterflies.
pub(super) struct Wide;

#[inline(always)]
fn load(a: &Element) -> (__m128i, __m128i) {
    // SAFETY: an element is 32 readable bytes; see `Narrow`.
    unsafe {
        let p = a.as_ptr().cast::<__m128i>();
        (_mm_loadu_si128(p), _mm_loadu_si128(p.add(1)))
    }
}

#[inline(always)]
fn store(low: __m128i, high: __m128i) -> Element {
    let mut out = [0; 4];
    // SAFETY: an element is 32 writable bytes; see `Narrow`.
    unsafe {
        let p = out.as_mut_ptr().cast::<__m128i>();
        _mm_storeu_si128(p, low);
        _mm_storeu_si128(p.add(1), high);
    }
    out
}

/// Two unreduced products to two elements of GF(2^64), packed.
#[inline(always)]
fn reduce(p0: __m128i, p1: __m128i) -> __m128i {
    // SAFETY: see `Narrow`.
    unsafe {
        let r = _mm_set_epi64x(0, REDUCTION as i64);
        let fold = |p: __m128i| {
            let first = _mm_clmulepi64_si128::<0x01>(p, r);
            let second = _mm_clmulepi64_si128::<0x01>(first, r);
            _mm_xor_si128(_mm_xor_si128(p, first), second)
        };
        _mm_unpacklo_epi64(fold(p0), fold(p1))
    }
}

/// Product of two elements of GF(2^128), unreduced: coefficients of 1 and of u.
#[inline(always)]
fn multiply128(a: __m128i, b: __m128i) -> (__m128i, __m128i) {
    // SAFETY: see `Narrow`.
    unsafe {
        let m0 = _mm_clmulepi64_si128::<0x00>(a, b);
        let m1 = _mm_clmulepi64_si128::<0x11>(a, b);
        let a_sum = _mm_xor_si128(a, _mm_unpackhi_epi64(a, a));
        let b_sum = _mm_xor_si128(b, _mm_unpackhi_epi64(b, b));
        let cross = _mm_clmulepi64_si128::<0x00>(a_sum, b_sum);
        // m1 has 127 bits, so one shift left by x loses none.
        let carry = _mm_slli_si128::<8>(_mm_srli_epi64::<63>(m1));
        let x_m1 = _mm_or_si128(_mm_slli_epi64::<1>(m1), carry);
        let low = _mm_xor_si128(m0, m1);
        (low, _mm_xor_si128(_mm_xor_si128(cross, low), x_m1))
    }
}

/// Three sums of products of 64-bit words: of the low ones, the high ones, and the sums of both.
#[derive(Clone, Copy)]
pub(super) struct Unreduced([__m128i; 3]);

impl Default for Unreduced {
    #[inline(always)]
    fn default() -> Self {
        // SAFETY: SSE2 is part of every x86-64.
        Unreduced([unsafe { _mm_setzero_si128() }; 3])
    }
}

#[inline(always)]
fn block(a: u128) -> __m128i {
    // SAFETY: SSE2 is part of every x86-64; both types are 128 plain bits.
    unsafe { std::mem::transmute::<u128, __m128i>(a) }
}

impl Arithmetic for Narrow {
    type Wide = Unreduced;

    #[inline(always)]
    fn accumulate128(Unreduced([low, high, cross]): Unreduced, a: u128, b: u128) -> Unreduced {
        let (a, b) = (block(a), block(b));
        // SAFETY: see `Narrow`.
        unsafe {
            let a_sum = _mm_xor_si128(a, _mm_unpackhi_epi64(a, a));
            let b_sum = _mm_xor_si128(b, _mm_unpackhi_epi64(b, b));
            Unreduced([
                _mm_xor_si128(low, _mm_clmulepi64_si128::<0x00>(a, b)),
                _mm_xor_si128(high, _mm_clmulepi64_si128::<0x11>(a, b)),
                _mm_xor_si128(cross, _mm_clmulepi64_si128::<0x00>(a_sum, b_sum)),
            ])
        }
    }

    #[inline(always)]
    fn reduce128(Unreduced([low, high, cross]): Unreduced) -> u128 {
        // SAFETY: see `Narrow`; both types are 128 plain bits.
        unsafe {
            // u² = x·u + 1; `high` has 127 bits, so one shift left by x loses none.
            let carry = _mm_slli_si128::<8>(_mm_srli_epi64::<63>(high));
            let x_high = _mm_or_si128(_mm_slli_epi64::<1>(high), carry);
            let c0 = _mm_xor_si128(low, high);
            let c1 = _mm_xor_si128(_mm_xor_si128(cross, c0), x_high);
            std::mem::transmute::<__m128i, u128>(reduce(c0, c1))
        }
    }

    #[inline(always)]
    fn multiply(a: Element, b: Element) -> Element {
        let ((a0, a1), (b0, b1)) = (load(&a), load(&b));
        // SAFETY: see `Narrow`.
        unsafe {
            let m0 = multiply128(a0, b0);
            let m1 = multiply128(a1, b1);
            let cross = multiply128(_mm_xor_si128(a0, a1), _mm_xor_si128(b0, b1));
            let low = (_mm_xor_si128(m0.0, m1.0), _mm_xor_si128(m0.1, m1.1));
            // x²·u·(p0 + p1·u) = x²·p1 + (x²·p0 + x³·p1)·u, on reduced p so that nothing overflows.
            let p = reduce(m1.0, m1.1);
            let k = _mm_set_epi64x(8, 4);
            let gamma0 = _mm_clmulepi64_si128::<0x01>(p, k);
            let gamma1 = _mm_xor_si128(
                _mm_clmulepi64_si128::<0x00>(p, k),
                _mm_clmulepi64_si128::<0x11>(p, k),
            );
            let high0 = _mm_xor_si128(_mm_xor_si128(cross.0, low.0), gamma0);
            let high1 = _mm_xor_si128(_mm_xor_si128(cross.1, low.1), gamma1);
            store(reduce(low.0, low.1), reduce(high0, high1))
        }
    }

    #[inline(always)]
    fn scale(a: Element, factor: u64) -> Element {
        let (low, high) = load(&a);
        // SAFETY: see `Narrow`.
        unsafe {
            let f = _mm_set_epi64x(0, factor as i64);
            let half = |v: __m128i| {
                reduce(
                    _mm_clmulepi64_si128::<0x00>(v, f),
                    _mm_clmulepi64_si128::<0x01>(v, f),
                )
            };
            store(half(low), half(high))
        }
    }

    #[inline(always)]
    fn scale128(a: [u64; 2], factor: u64) -> [u64; 2] {
        // SAFETY: see `Narrow`; both types are 128 plain bits.
        unsafe {
            let v = std::mem::transmute::<[u64; 2], __m128i>(a);
            let f = _mm_set_epi64x(0, factor as i64);
            std::mem::transmute::<__m128i, [u64; 2]>(reduce(
                _mm_clmulepi64_si128::<0x00>(v, f),
                _mm_clmulepi64_si128::<0x01>(v, f),
            ))
        }
    }
}

/// Two elements times a factor that stands in every 128-bit lane of `t`.
#[inline(always)]
fn scale_pair(v: __m512i, t: __m512i, r: __m512i) -> __m512i {
    // SAFETY: only used by `Wide`.
    unsafe {
        let fold = |p: __m512i| {
            let first = _mm512_clmulepi64_epi128::<0x01>(p, r);
            let second = _mm512_clmulepi64_epi128::<0x01>(first, r);
            _mm512_ternarylogic_epi64::<0x96>(p, first, second)
        };
        let even = fold(_mm512_clmulepi64_epi128::<0x00>(v, t));
        let odd = fold(_mm512_clmulepi64_epi128::<0x01>(v, t));
        _mm512_unpacklo_epi64(even, odd)
    }
}

impl Wide {
    /// Runs `step` on pairs of elements of `a` and `b`; an odd last one is left to the caller.
    #[inline(always)]
    fn pairs(
        a: &mut [Element],
        b: &mut [Element],
        t: u64,
        step: impl Fn(__m512i, __m512i, __m512i, __m512i) -> (__m512i, __m512i),
    ) {
        // SAFETY: only used by `Wide`; each chunk is 64 readable and writable bytes.
        unsafe {
            let t = _mm512_set1_epi64(t as i64);
            let r = _mm512_set1_epi64(REDUCTION as i64);
            for (a, b) in a.chunks_exact_mut(2).zip(b.chunks_exact_mut(2)) {
                let (pa, pb) = (a.as_mut_ptr().cast(), b.as_mut_ptr().cast());
                let (x, y) = step(_mm512_loadu_si512(pa), _mm512_loadu_si512(pb), t, r);
                _mm512_storeu_si512(pa.cast(), x);
                _mm512_storeu_si512(pb.cast(), y);
            }
        }
    }
}

impl Arithmetic for Wide {
    type Wide = Unreduced;

    #[inline(always)]
    fn accumulate128(sum: Unreduced, a: u128, b: u128) -> Unreduced {
        Narrow::accumulate128(sum, a, b)
    }

    #[inline(always)]
    fn reduce128(sum: Unreduced) -> u128 {
        Narrow::reduce128(sum)
    }

    #[inline(always)]
    fn multiply(a: Element, b: Element) -> Element {
        Narrow::multiply(a, b)
    }

    #[inline(always)]
    fn scale(a: Element, factor: u64) -> Element {
        Narrow::scale(a, factor)
    }

    #[inline(always)]
    fn scale128(a: [u64; 2], factor: u64) -> [u64; 2] {
        Narrow::scale128(a, factor)
    }

    #[inline(always)]
    fn butterflies(a: &mut [Element], b: &mut [Element], t: u64) {
        if a.len() < 2 {
            return Narrow::butterflies(a, b, t);
        }
        Self::pairs(a, b, t, |a, b, t, r| {
            // SAFETY: only used by `Wide`.
            unsafe {
                let a = _mm512_xor_si512(a, scale_pair(b, t, r));
                (a, _mm512_xor_si512(b, a))
            }
        });
    }

    #[inline(always)]
    fn inverse_butterflies(a: &mut [Element], b: &mut [Element], t: u64) {
        if a.len() < 2 {
            return Narrow::inverse_butterflies(a, b, t);
        }
        Self::pairs(a, b, t, |a, b, t, r| {
            // SAFETY: only used by `Wide`.
            unsafe {
                let b = _mm512_xor_si512(b, a);
                (_mm512_xor_si512(a, scale_pair(b, t, r)), b)
            }
        });
    }
}
