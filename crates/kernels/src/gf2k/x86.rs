//! PCLMULQDQ on one element, and VPCLMULQDQ on four.

use core::arch::x86_64::*;

use super::bins::SLICES;
use super::generic;
use super::ops::Arithmetic;
use super::{Field, Transform};
use crate::Backend;

/// Whether [`narrow`] may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2)
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("avx")
}

/// Whether [`wide`] may run, for fields whose products need one fold.
pub(super) fn wide_available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && available(backend)
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi2")
}

macro_rules! instantiate {
    ($module:ident, $backend:ident, $features:literal) => {
        pub(super) mod $module {
            use super::*;

            instantiate!(@ $backend, $features,
                fn multiply(a: u128, b: u128) -> u128;
                fn multiply_assign(a: &mut [u128], b: &[u128]);
                fn scale_assign(a: &mut [u128], factor: u128);
                fn invert_all(values: &mut [u128]) -> bool;
                fn evaluate_blocks(
                    coefficients: &[u128], log_size: u32, log_shared: u32, points: &[u128],
                    transform: &Transform, out: &mut [u128]
                );
                fn forward(data: &mut [u128], log_size: u32, transform: &Transform, coset: u64);
                fn inverse(data: &mut [u128], log_size: u32, transform: &Transform, coset: u64);
                fn interpolate_bins(
                    size: usize, points: &[u128], values: [&[u128]; SLICES],
                    out: [&mut [u128]; SLICES]
                ) -> bool;
                fn evaluate_bins(
                    size: usize, coefficients: [&[u128]; SLICES], bins: &[u32], points: &[u128],
                    out: [&mut [u128]; SLICES]
                );
            );
        }
    };
    (@ $backend:ident, $features:literal,
        $(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {$(
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = $features)]
        pub(in super::super) unsafe fn $name(field: Field, $($arg: $ty),*) $(-> $ret)? {
            generic::$name::<$backend>(field, $($arg),*)
        }
    )*};
}

instantiate!(narrow, Narrow, "avx,pclmulqdq");
instantiate!(
    wide,
    Wide,
    "avx,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vbmi2"
);

/// 128-bit registers. Only used from the functions that `instantiate!` writes, which is what makes the
/// intrinsics below sound to call.
pub(super) struct Narrow;

/// 512-bit registers, for fields whose products need one fold; otherwise as [`Narrow`].
pub(super) struct Wide;

/// The constants of a field.
#[derive(Clone, Copy)]
pub(super) struct NarrowConstants {
    /// 128 − k, and 64 less that; k − 64, all in the low word.
    left: __m128i,
    right: __m128i,
    above: __m128i,
    /// The modulus without its leading term; shifted if that fits into 64 bits.
    modulus: __m128i,
    folds_once: bool,
}

/// As [`NarrowConstants`].
#[derive(Clone, Copy)]
pub(super) struct WideConstants {
    shift: __m512i,
    modulus: __m512i,
}

#[inline(always)]
fn shift_left(c: NarrowConstants, v: __m128i) -> __m128i {
    // SAFETY: see `Narrow`.
    unsafe {
        let carry = _mm_srl_epi64(_mm_slli_si128::<8>(v), c.right);
        _mm_or_si128(_mm_sll_epi64(v, c.left), carry)
    }
}

impl Arithmetic for Narrow {
    type Vector = __m128i;
    /// The coefficients of 1, x^64 and x^128.
    type Wide = [__m128i; 3];
    type Constants = NarrowConstants;
    const LOG_LANES: u32 = 0;

    #[inline(always)]
    fn constants(field: Field) -> NarrowConstants {
        let shift = field.shift() as i64;
        let folds_once = field.folds_once();
        let modulus = if folds_once {
            field.low << shift
        } else {
            field.low
        };
        // SAFETY: see `Narrow`.
        unsafe {
            NarrowConstants {
                left: _mm_set_epi64x(0, shift),
                right: _mm_set_epi64x(0, 64 - shift),
                above: _mm_set_epi64x(0, 64 - shift),
                modulus: _mm_set_epi64x(0, modulus as i64),
                folds_once,
            }
        }
    }

    #[inline(always)]
    fn load(from: &[u128]) -> __m128i {
        let from: &[u128; 1] = from.first_chunk().expect("enough elements");
        // SAFETY: 16 readable bytes; see `Narrow`.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(to: &mut [u128], v: __m128i) {
        let to: &mut [u128; 1] = to.first_chunk_mut().expect("enough room");
        // SAFETY: 16 writable bytes; see `Narrow`.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn splat(element: u128) -> __m128i {
        Self::load(&[element])
    }

    #[inline(always)]
    fn add(a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn shift(c: NarrowConstants, v: __m128i) -> __m128i {
        shift_left(c, v)
    }

    #[inline(always)]
    fn unshift(c: NarrowConstants, v: __m128i) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe {
            let carry = _mm_sll_epi64(_mm_srli_si128::<8>(v), c.right);
            _mm_or_si128(_mm_srl_epi64(v, c.left), carry)
        }
    }

    #[inline(always)]
    fn zero() -> [__m128i; 3] {
        // SAFETY: see `Narrow`.
        [unsafe { _mm_setzero_si128() }; 3]
    }

    #[inline(always)]
    fn accumulate([p0, p1, p2]: [__m128i; 3], a: __m128i, b: __m128i) -> [__m128i; 3] {
        // SAFETY: see `Narrow`.
        unsafe {
            let crossed = _mm_xor_si128(
                _mm_clmulepi64_si128::<0x01>(a, b),
                _mm_clmulepi64_si128::<0x10>(a, b),
            );
            [
                _mm_xor_si128(p0, _mm_clmulepi64_si128::<0x00>(a, b)),
                _mm_xor_si128(p1, crossed),
                _mm_xor_si128(p2, _mm_clmulepi64_si128::<0x11>(a, b)),
            ]
        }
    }

    #[inline(always)]
    fn reduce_shifted(c: NarrowConstants, [p0, p1, p2]: [__m128i; 3]) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe {
            let xor = |a, b| _mm_xor_si128(a, b);
            if c.folds_once {
                let p1 = xor(p1, _mm_clmulepi64_si128::<0x01>(p2, c.modulus));
                let above = xor(p2, _mm_srli_si128::<8>(p1));
                let low = xor(p0, _mm_slli_si128::<8>(p1));
                return xor(low, _mm_clmulepi64_si128::<0x00>(above, c.modulus));
            }
            // As in `Portable`.
            let above = xor(p2, _mm_srli_si128::<8>(p1));
            let first = xor(
                _mm_clmulepi64_si128::<0x00>(above, c.modulus),
                _mm_slli_si128::<8>(_mm_clmulepi64_si128::<0x01>(above, c.modulus)),
            );
            let again = _mm_srl_epi64(first, c.above);
            let second = _mm_clmulepi64_si128::<0x01>(again, c.modulus);
            let low = xor(p0, _mm_slli_si128::<8>(p1));
            xor(low, shift_left(c, xor(first, second)))
        }
    }

    #[inline(always)]
    fn split(_: u32, x: __m128i, y: __m128i) -> (__m128i, __m128i) {
        (x, y)
    }

    #[inline(always)]
    fn join(_: u32, a: __m128i, b: __m128i) -> (__m128i, __m128i) {
        (a, b)
    }

    #[inline(always)]
    fn spread(_: u32, factors: &[u128]) -> __m128i {
        Self::load(factors)
    }
}

/// Exclusive or of three.
#[inline(always)]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    // SAFETY: only used by `Wide`.
    unsafe { _mm512_ternarylogic_epi64::<0x96>(a, b, c) }
}

/// The sum of both halves of each element, in both halves.
#[inline(always)]
fn halves_added(v: __m512i) -> __m512i {
    // SAFETY: only used by `Wide`.
    unsafe { _mm512_xor_si512(v, _mm512_shuffle_epi32::<0b01_00_11_10>(v)) }
}

impl Arithmetic for Wide {
    type Vector = __m512i;
    /// Sums of products of low halves, of sums of halves, and of high halves (Karatsuba): carry-less
    /// products of this width are what limits the speed.
    type Wide = [__m512i; 3];
    type Constants = WideConstants;
    const LOG_LANES: u32 = 2;

    #[inline(always)]
    fn constants(field: Field) -> WideConstants {
        debug_assert!(field.folds_once());
        // SAFETY: see `Wide`.
        unsafe {
            WideConstants {
                shift: _mm512_set1_epi64(i64::from(field.shift())),
                modulus: _mm512_set1_epi64((field.low << field.shift()) as i64),
            }
        }
    }

    #[inline(always)]
    fn load(from: &[u128]) -> __m512i {
        let from: &[u128; 4] = from.first_chunk().expect("enough elements");
        // SAFETY: 64 readable bytes; see `Wide`.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(to: &mut [u128], v: __m512i) {
        let to: &mut [u128; 4] = to.first_chunk_mut().expect("enough room");
        // SAFETY: 64 writable bytes; see `Wide`.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) }
    }

    #[inline(always)]
    fn splat(element: u128) -> __m512i {
        // SAFETY: see `Wide`.
        unsafe { _mm512_broadcast_i32x4(Narrow::splat(element)) }
    }

    #[inline(always)]
    fn add(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: see `Wide`.
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    fn shift(c: WideConstants, v: __m512i) -> __m512i {
        // SAFETY: see `Wide`.
        unsafe { _mm512_shldv_epi64(v, _mm512_bslli_epi128::<8>(v), c.shift) }
    }

    #[inline(always)]
    fn unshift(c: WideConstants, v: __m512i) -> __m512i {
        // SAFETY: see `Wide`.
        unsafe { _mm512_shrdv_epi64(v, _mm512_bsrli_epi128::<8>(v), c.shift) }
    }

    #[inline(always)]
    fn zero() -> [__m512i; 3] {
        // SAFETY: see `Wide`.
        [unsafe { _mm512_setzero_si512() }; 3]
    }

    #[inline(always)]
    fn accumulate([p0, p1, p2]: [__m512i; 3], a: __m512i, b: __m512i) -> [__m512i; 3] {
        // SAFETY: see `Wide`.
        unsafe {
            let (a_sum, b_sum) = (halves_added(a), halves_added(b));
            [
                _mm512_xor_si512(p0, _mm512_clmulepi64_epi128::<0x00>(a, b)),
                _mm512_xor_si512(p1, _mm512_clmulepi64_epi128::<0x00>(a_sum, b_sum)),
                _mm512_xor_si512(p2, _mm512_clmulepi64_epi128::<0x11>(a, b)),
            ]
        }
    }

    #[inline(always)]
    fn reduce_shifted(c: WideConstants, [p0, p1, p2]: [__m512i; 3]) -> __m512i {
        // SAFETY: see `Wide`.
        unsafe {
            let p1 = xor3(p1, p0, p2);
            let p1 = _mm512_xor_si512(p1, _mm512_clmulepi64_epi128::<0x01>(p2, c.modulus));
            let above = _mm512_xor_si512(p2, _mm512_bsrli_epi128::<8>(p1));
            let folded = _mm512_clmulepi64_epi128::<0x00>(above, c.modulus);
            xor3(p0, _mm512_bslli_epi128::<8>(p1), folded)
        }
    }

    #[inline(always)]
    fn split(layer: u32, x: __m512i, y: __m512i) -> (__m512i, __m512i) {
        // SAFETY: see `Wide`.
        unsafe {
            if layer == 0 {
                (
                    _mm512_shuffle_i64x2::<0b10_00_10_00>(x, y),
                    _mm512_shuffle_i64x2::<0b11_01_11_01>(x, y),
                )
            } else {
                Self::join(1, x, y)
            }
        }
    }

    #[inline(always)]
    fn join(layer: u32, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        // SAFETY: see `Wide`.
        unsafe {
            let low = _mm512_shuffle_i64x2::<0b01_00_01_00>(a, b);
            let high = _mm512_shuffle_i64x2::<0b11_10_11_10>(a, b);
            if layer == 1 {
                return (low, high);
            }
            (
                _mm512_shuffle_i64x2::<0b11_01_10_00>(low, low),
                _mm512_shuffle_i64x2::<0b11_01_10_00>(high, high),
            )
        }
    }

    #[inline(always)]
    fn spread(layer: u32, factors: &[u128]) -> __m512i {
        if layer == 0 {
            return Self::load(factors);
        }
        let two: &[u128; 2] = factors.first_chunk().expect("enough elements");
        // SAFETY: 32 readable bytes; see `Wide`.
        unsafe {
            let two = _mm512_castsi256_si512(_mm256_loadu_si256(two.as_ptr().cast()));
            _mm512_shuffle_i64x2::<0b01_01_00_00>(two, two)
        }
    }
}
