//! The portable convolution compiled for AVX2; and for rows of two words, one with its state in 512-bit
//! registers.

use crate::Backend;

/// Whether [`narrow`] may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2) && is_x86_feature_detected!("avx2")
}

/// Whether [`wide`] may run.
pub(super) fn wide_available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && available(backend)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("bmi2")
}

/// AVX2.
pub(super) mod narrow {
    use super::super::portable;

    /// See [`super::super::convolve`].
    ///
    /// # Safety
    /// The CPU must have AVX2.
    #[target_feature(enable = "avx2")]
    pub(in super::super) unsafe fn convolve<const L: usize>(
        rows: &mut [[u64; L]],
        coefficients: &[u32],
    ) {
        portable::convolve(rows, coefficients);
    }
}

/// AVX-512, for rows of two words: four words leave too few registers, and then the tables of the portable
/// version are twice as fast.
pub(super) mod wide {
    use super::super::{SLACK, STATE, portable};
    use core::arch::x86_64::*;

    /// Words of a row.
    const L: usize = 2;

    /// Rows in a register.
    const G: usize = 8 / L;

    /// Registers that hold a group of rows with everything that it reaches.
    const WINDOW: usize = (G + SLACK).div_ceil(G);

    /// See [`super::super::convolve`].
    ///
    /// # Safety
    /// The CPU must have AVX-512 F and DQ, AVX2, and BMI2.
    #[target_feature(enable = "avx512f,avx512dq,avx2,bmi2")]
    pub(in super::super) unsafe fn convolve(words: &mut [u64], coefficients: &[u32]) {
        let (rows, _) = words.as_chunks_mut::<L>();
        let done = groups(rows, coefficients);
        portable::convolve(&mut rows[done..], &coefficients[done..]);
    }

    /// Convolves as many rows as leave whole registers in reach, and returns how many those are.
    #[target_feature(enable = "avx512f,avx512dq,bmi2")]
    #[inline]
    fn groups(rows: &mut [[u64; L]], coefficients: &[u32]) -> usize {
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
                    let source = broadcast(window[0], r);
                    let bits = coefficients[g * G + r] & ((1 << STATE) - 1) | 1 << STATE;
                    let masks = spread(u64::from(bits) << (r + 1));
                    for (w, register) in window.iter_mut().enumerate() {
                        let mask = (masks >> (8 * w)) as __mmask8;
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
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn broadcast(v: __m512i, r: usize) -> __m512i {
        match r {
            0 => _mm512_shuffle_i64x2::<0x00>(v, v),
            1 => _mm512_shuffle_i64x2::<0x55>(v, v),
            2 => _mm512_shuffle_i64x2::<0xaa>(v, v),
            _ => _mm512_shuffle_i64x2::<0xff>(v, v),
        }
    }

    /// Each bit twice: a mask bit for every word of a row.
    #[target_feature(enable = "bmi2")]
    #[inline]
    fn spread(bits: u64) -> u64 {
        _pdep_u64(bits, 0x5555_5555_5555_5555) * 3
    }
}
