//! The convolution with its state in 512-bit registers.

use core::arch::x86_64::*;

use super::{SLACK, STATE};
use crate::Backend;

pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("bmi2")
}

/// Convolves as many rows as leave whole registers in reach, and returns how many those are.
///
/// # Safety
/// The CPU must have AVX-512 F and DQ, and BMI2.
#[target_feature(enable = "avx512f,avx512dq,bmi2")]
pub(super) unsafe fn convolve<const L: usize>(
    rows: &mut [[u64; L]],
    coefficients: &[u32],
) -> usize {
    match L {
        // SAFETY: as the caller's.
        2 => unsafe { run::<L, 4, 8>(rows, coefficients) },
        // SAFETY: as the caller's.
        _ => unsafe { run::<L, 2, 14>(rows, coefficients) },
    }
}

/// `G` rows of `L` words fill a register, and `WINDOW` registers hold a group of rows with everything
/// that it reaches.
///
/// # Safety
/// As [`convolve`].
#[target_feature(enable = "avx512f,avx512dq,bmi2")]
#[inline]
unsafe fn run<const L: usize, const G: usize, const WINDOW: usize>(
    rows: &mut [[u64; L]],
    coefficients: &[u32],
) -> usize {
    assert!(G * L == 8 && G * WINDOW > G - 1 + SLACK);
    // The window of the last group that fits.
    let groups = (coefficients.len() / G).min((rows.len() / G + 1).saturating_sub(WINDOW));
    if groups == 0 {
        return 0;
    }
    let start = rows.as_mut_ptr().cast::<u64>();
    // SAFETY: register w of group g covers the words 8·(g + w) … + 8, and g + w is below
    // groups + WINDOW − 1 ≤ rows.len() / G.
    unsafe {
        let mut window = [_mm512_setzero_si512(); WINDOW];
        for (w, register) in window[..WINDOW - 1].iter_mut().enumerate() {
            *register = _mm512_loadu_si512(start.add(8 * w).cast());
        }
        for g in 0..groups {
            window[WINDOW - 1] = _mm512_loadu_si512(start.add(8 * (g + WINDOW - 1)).cast());
            for r in 0..G {
                let source = broadcast::<L>(window[0], r);
                let bits = coefficients[g * G + r] | 1 << STATE;
                let masks = spread::<L>(u64::from(bits) << (r + 1));
                for (w, register) in window.iter_mut().enumerate() {
                    let mask = (masks[w / 8] >> (8 * (w % 8))) as __mmask8;
                    *register = _mm512_mask_xor_epi64(*register, mask, *register, source);
                }
            }
            _mm512_storeu_si512(start.add(8 * g).cast(), window[0]);
            for w in 1..WINDOW {
                window[w - 1] = window[w];
            }
        }
        for (w, register) in window[..WINDOW - 1].iter().enumerate() {
            _mm512_storeu_si512(start.add(8 * (groups + w)).cast(), *register);
        }
    }
    groups * G
}

/// Row r of a register, in every place.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn broadcast<const L: usize>(v: __m512i, r: usize) -> __m512i {
    match (L, r) {
        (2, 0) => _mm512_shuffle_i64x2::<0x00>(v, v),
        (2, 1) => _mm512_shuffle_i64x2::<0x55>(v, v),
        (2, 2) => _mm512_shuffle_i64x2::<0xaa>(v, v),
        (2, _) => _mm512_shuffle_i64x2::<0xff>(v, v),
        (_, 0) => _mm512_shuffle_i64x2::<0x44>(v, v),
        _ => _mm512_shuffle_i64x2::<0xee>(v, v),
    }
}

/// Each bit L times: a mask bit for every word of a row.
#[target_feature(enable = "bmi2")]
#[inline]
fn spread<const L: usize>(bits: u64) -> [u64; 2] {
    match L {
        2 => [_pdep_u64(bits, 0x5555_5555_5555_5555) * 3, 0],
        _ => [
            _pdep_u64(bits, 0x1111_1111_1111_1111) * 15,
            _pdep_u64(bits >> 16, 0x1111_1111_1111_1111) * 15,
        ],
    }
}
