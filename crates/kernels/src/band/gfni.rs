//! [GFNI](super::affine) in registers of 256 bits: processors of recent years without AVX-512.

use core::arch::x86_64::*;

use super::affine::{IDENTITY, affine_kernels};
pub(super) use super::avx2::{eliminate, mirror};
use super::{Row, Run, Runs, WORD, avx2, slots_of};
use crate::Backend;

/// Whether the kernels may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Gfni) && avx2::available(backend) && is_x86_feature_detected!("gfni")
}

affine_kernels!("avx2,bmi1,gfni");

/// The first four lanes, and the others.
type Lanes = [__m256i; 2];

/// The first byte of each of two words in every half of a register, then the second of each, and so on, the second word
/// first.
const INTERLEAVE: [u8; 16] = [8, 0, 9, 1, 10, 2, 11, 3, 12, 4, 13, 5, 14, 6, 15, 7];

/// The inverse of [`INTERLEAVE`].
const SEPARATE: [u8; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 14];

/// Pairs of bytes at odd places, then the others.
const ODD_PAIRS_FIRST: [u8; 16] = [2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13];

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u64) -> Lanes {
    [_mm256_set1_epi64x(word as i64); 2]
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: Lanes, b: Lanes) -> Lanes {
    [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])]
}

/// Eight bytes by one matrix, in every lane.
#[inline]
#[target_feature(enable = "avx2,gfni")]
fn multiply(bytes: Lanes, matrices: Lanes) -> Lanes {
    [
        _mm256_gf2p8affine_epi64_epi8::<0>(bytes[0], matrices[0]),
        _mm256_gf2p8affine_epi64_epi8::<0>(bytes[1], matrices[1]),
    ]
}

/// Inverts eight matrices with ones on the diagonal and zeros before it in each row.
#[inline]
#[target_feature(enable = "avx2,bmi1,gfni")]
fn invert_unitriangular(matrices: Row) -> Lanes {
    let identity = splat(IDENTITY);
    let above = add(load(&matrices), identity);
    let mut inverse = identity;
    for t in (1..8u8).rev() {
        // Where a row has bit t, add row t, which is byte 7−t of its lane.
        let bit = _mm256_set1_epi8((1u8 << t) as i8);
        let (low, high) = (7 - t, 15 - t);
        let bytes = u64::from_ne_bytes([low; 8]) as i64;
        let high = u64::from_ne_bytes([high; 8]) as i64;
        let index = _mm256_broadcastsi128_si256(_mm_set_epi64x(high, bytes));
        for (inverse, above) in inverse.iter_mut().zip(above) {
            let rows = _mm256_cmpeq_epi8(_mm256_and_si256(above, bit), bit);
            let added = _mm256_and_si256(rows, _mm256_shuffle_epi8(*inverse, index));
            *inverse = _mm256_xor_si256(*inverse, added);
        }
    }
    inverse
}

/// Byte 7−r of `[q][j]` is byte 8q+j of row r.
#[inline]
#[target_feature(enable = "avx2,bmi1,gfni")]
fn transpose_rows(rows: &[Row; 8]) -> [[u64; 8]; 8] {
    let mut bytes = [[0; 8]; 8];
    for (q, bytes) in bytes.iter_mut().enumerate() {
        *bytes = words(transpose(gather(rows, q)));
    }
    bytes
}

/// Word `w` of eight values.
#[inline]
#[target_feature(enable = "avx2,bmi1,gfni")]
fn gather<const W: usize>(values: &[[u64; W]; 8], w: usize) -> Lanes {
    let [a, b, c, d, e, f, g, h] = values;
    let [a, b, c, d] = [a[w] as i64, b[w] as i64, c[w] as i64, d[w] as i64];
    let [e, f, g, h] = [e[w] as i64, f[w] as i64, g[w] as i64, h[w] as i64];
    [_mm256_set_epi64x(d, c, b, a), _mm256_set_epi64x(h, g, f, e)]
}

/// Eight words to transposed form.
#[inline]
#[target_feature(enable = "avx2,bmi1,gfni")]
fn transpose([a, b]: Lanes) -> Lanes {
    // Pairs of bytes of words 1 and 0, 3 and 2 in one register, of 5 and 4, 7 and 6 in the other.
    let interleave = both_halves(&INTERLEAVE);
    let (a, b) = (
        _mm256_shuffle_epi8(a, interleave),
        _mm256_shuffle_epi8(b, interleave),
    );
    let first = _mm256_permute2x128_si256::<0x20>(a, b);
    let second = _mm256_permute2x128_si256::<0x31>(a, b);
    // Fours of bytes, of words 3 to 0 in one half and of words 7 to 4 in the other.
    let order = _mm256_set_epi32(3, 7, 2, 6, 1, 5, 0, 4);
    [
        _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi16(second, first), order),
        _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi16(second, first), order),
    ]
}

/// Transposed form to eight words: the steps of [`transpose`] backwards.
#[inline]
#[target_feature(enable = "avx2,bmi1,gfni")]
fn untranspose([low, high]: Lanes) -> Lanes {
    let order = _mm256_set_epi32(6, 4, 2, 0, 7, 5, 3, 1);
    let pairs = both_halves(&ODD_PAIRS_FIRST);
    let low = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(low, order), pairs);
    let high = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(high, order), pairs);
    let first = _mm256_unpacklo_epi64(low, high);
    let second = _mm256_unpackhi_epi64(low, high);
    let separate = both_halves(&SEPARATE);
    [
        _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x20>(first, second), separate),
        _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x31>(first, second), separate),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn both_halves(bytes: &[u8; 16]) -> __m256i {
    // SAFETY: 16 readable bytes.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &Row) -> Lanes {
    let [low, high] = [&words[..4], &words[4..]];
    // SAFETY: four words are 32 readable bytes.
    unsafe {
        [
            _mm256_loadu_si256(low.as_ptr().cast()),
            _mm256_loadu_si256(high.as_ptr().cast()),
        ]
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn words([low, high]: Lanes) -> Row {
    let mut out = [0; 8];
    let (first, others) = out.split_at_mut(4);
    // SAFETY: four words are 32 writable bytes.
    unsafe {
        _mm256_storeu_si256(first.as_mut_ptr().cast(), low);
        _mm256_storeu_si256(others.as_mut_ptr().cast(), high);
    }
    out
}
