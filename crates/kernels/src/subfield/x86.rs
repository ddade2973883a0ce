//! All sums of a row side by side: four blocks in two registers of AVX2, or in one of AVX-512.

use core::arch::x86_64::*;

use super::Subfield;
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
}

/// Rows for which addresses and masks are made together, so that the loop that adds blocks has little else to do.
const ROWS: usize = 64;

/// The segment that each block of some rows is from.
struct Segments<const N: usize>;

impl<const N: usize> Segments<N> {
    const OF: [[u32; N]; ROWS] = {
        let mut segments = [[0; N]; ROWS];
        let mut i = 0;
        while i < N * ROWS {
            segments[i / N][i % N] = (i % N) as u32;
            i += 1;
        }
        segments
    };
}

/// Where in a base vector of N segments the blocks of some rows are.
#[target_feature(enable = "avx2")]
#[inline]
fn indices<const N: usize>(length: usize, places: &[[u16; N]], indices: &mut [[u32; N]; ROWS]) {
    let log = length.trailing_zeros();
    let segments = Segments::<N>::OF.as_flattened().iter();
    let places = places.as_flattened().iter().zip(segments);
    for (index, (place, segment)) in indices.as_flattened_mut().iter_mut().zip(places) {
        *index = segment << log | u32::from(*place) & (length as u32 - 1);
    }
}

/// α times every element. For W = 4, bits beyond the planes leave the words by themselves.
#[target_feature(enable = "avx2")]
#[inline]
fn double<const W: u32>(v: __m256i) -> __m256i {
    let plane = _mm_cvtsi32_si128(Subfield::<W>::PLANE as i32);
    let last = _mm_cvtsi32_si128(((W - 1) * Subfield::<W>::PLANE) as i32);
    let carries = _mm256_srl_epi64(v, last);
    let mut shifted = _mm256_sll_epi64(v, plane);
    if W * Subfield::<W>::PLANE < 64 {
        let used = _mm256_set1_epi64x(Subfield::<W>::MASK as i64);
        shifted = _mm256_and_si256(shifted, used);
    }
    let carries = _mm256_xor_si256(carries, _mm256_sll_epi64(carries, plane));
    _mm256_xor_si256(shifted, carries)
}

/// Adds Σ α^j·(sum j) to a block: sums 0 and 1, and 2 and 3.
#[target_feature(enable = "avx2")]
#[inline]
fn add_combined<const W: u32>(low: __m256i, high: __m256i, out: &mut u128) {
    let high = double::<W>(double::<W>(high));
    let sums = _mm256_xor_si256(low, high);
    let swapped = _mm256_permute4x64_epi64::<0b01_00_11_10>(double::<W>(sums));
    let sum = _mm256_castsi256_si128(_mm256_xor_si256(sums, swapped));
    let out = std::ptr::from_mut(out).cast();
    // SAFETY: a block is 16 readable and writable bytes.
    unsafe { _mm_storeu_si128(out, _mm_xor_si128(sum, _mm_loadu_si128(out))) };
}

/// AVX2.
pub(super) mod narrow {
    use super::*;

    /// For each coefficient, all ones in the blocks of the sums that it takes part in.
    #[repr(align(32))]
    struct Masks([[[u64; 4]; 2]; 16]);

    static MASKS: Masks = {
        let mut masks = [[[0; 4]; 2]; 16];
        let mut i = 0;
        while i < 16 * 8 {
            let (coefficient, word) = (i / 8, i % 8);
            if coefficient >> (word / 2) & 1 == 1 {
                masks[coefficient][word / 4][word % 4] = u64::MAX;
            }
            i += 1;
        }
        Masks(masks)
    };

    /// See [`super::super::add_products`].
    ///
    /// # Safety
    /// The CPU must have AVX2.
    #[target_feature(enable = "avx2")]
    pub(in super::super) unsafe fn add_products<const W: u32, const N: usize>(
        base: &[u128],
        places: &[[u16; N]],
        coefficients: &[[u8; N]],
        out: &mut [u128],
    ) {
        let mut at = [[0; N]; ROWS];
        let rows = places.chunks(ROWS).zip(coefficients.chunks(ROWS));
        for (out, (places, coefficients)) in out.chunks_mut(ROWS).zip(rows) {
            indices(base.len() / N, places, &mut at);
            for ((out, at), coefficients) in out.iter_mut().zip(&at).zip(coefficients) {
                let (mut low, mut high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
                for j in 0..N {
                    let masks = &MASKS.0[usize::from(coefficients[j]) % 16];
                    // SAFETY: the length of a segment is a power of two, so index j is in segment j; masks are aligned.
                    unsafe {
                        let block = _mm_loadu_si128(base.as_ptr().add(at[j] as usize).cast());
                        let block = _mm256_broadcastsi128_si256(block);
                        let [first, second] =
                            [0, 1].map(|i| _mm256_load_si256(masks[i].as_ptr().cast()));
                        low = _mm256_xor_si256(low, _mm256_and_si256(block, first));
                        high = _mm256_xor_si256(high, _mm256_and_si256(block, second));
                    }
                }
                add_combined::<W>(low, high, out);
            }
        }
    }
}

/// AVX-512: a coefficient masks the addition of a block to four sums.
pub(super) mod wide {
    use super::*;

    /// See [`super::super::add_products`].
    ///
    /// # Safety
    /// The CPU must have AVX-512 F and DQ, and AVX2.
    #[target_feature(enable = "avx512f,avx512dq,avx2")]
    pub(in super::super) unsafe fn add_products<const W: u32, const N: usize>(
        base: &[u128],
        places: &[[u16; N]],
        coefficients: &[[u8; N]],
        out: &mut [u128],
    ) {
        let mut at = [[0; N]; ROWS];
        let mut masks = [[0; N]; ROWS];
        let rows = places.chunks(ROWS).zip(coefficients.chunks(ROWS));
        for (out, (places, coefficients)) in out.chunks_mut(ROWS).zip(rows) {
            let flat = masks.as_flattened_mut().iter_mut();
            for (mask, coefficient) in flat.zip(coefficients.as_flattened()) {
                *mask = words(*coefficient);
            }
            indices(base.len() / N, places, &mut at);
            for ((out, at), masks) in out.iter_mut().zip(&at).zip(&masks) {
                let mut sums = _mm512_setzero_si512();
                for j in 0..N {
                    // SAFETY: the length of a segment is a power of two, so index j is in segment j.
                    let block =
                        unsafe { _mm_loadu_si128(base.as_ptr().add(at[j] as usize).cast()) };
                    let block = _mm512_broadcast_i32x4(block);
                    sums = _mm512_mask_xor_epi64(sums, masks[j], sums, block);
                }
                let low = _mm512_castsi512_si256(sums);
                add_combined::<W>(low, _mm512_extracti64x4_epi64::<1>(sums), out);
            }
        }
    }

    /// Each of the four bits twice: a mask bit for each word of a sum.
    #[inline(always)]
    fn words(coefficient: u8) -> u8 {
        let c = coefficient;
        (c & 1 | (c & 2) << 1 | (c & 4) << 2 | (c & 8) << 3) * 3
    }
}
