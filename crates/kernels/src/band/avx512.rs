//! [GFNI](super::affine) in registers of 512 bits, with byte permutations.

use core::arch::x86_64::*;

use super::affine::{IDENTITY, affine_kernels};
pub(super) use super::avx2::{eliminate, mirror};
use super::{Row, Run, Runs, WORD, gfni, slots_of};
use crate::Backend;

/// Whether the kernels may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && gfni::available(backend)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
}

affine_kernels!("avx512f,avx512bw,avx512vbmi,gfni");

type Lanes = __m512i;

/// Byte 8k+u is byte k of word 7−u.
const LOAD: [u8; 64] = {
    let mut index = [0; 64];
    let mut i = 0;
    while i < 64 {
        index[i] = (8 * (7 - i % 8) + i / 8) as u8;
        i += 1;
    }
    index
};

/// The inverse of [`LOAD`].
const STORE: [u8; 64] = {
    let mut index = [0; 64];
    let mut i = 0;
    while i < 64 {
        index[LOAD[i] as usize] = i as u8;
        i += 1;
    }
    index
};

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word as i64)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, b)
}

/// Eight bytes by one matrix, in every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn multiply(bytes: __m512i, matrices: __m512i) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(bytes, matrices)
}

/// Inverts eight matrices with ones on the diagonal and zeros before it in each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn invert_unitriangular(matrices: Row) -> __m512i {
    let identity = splat(IDENTITY);
    let above = _mm512_xor_si512(load(&matrices), identity);
    let mut inverse = identity;
    for t in (1..8u8).rev() {
        // Where a row has bit t, add row t, which is byte 7−t of its lane.
        let rows = _mm512_test_epi8_mask(above, _mm512_set1_epi8((1u8 << t) as i8));
        let (low, high) = (7 - t, 15 - t);
        let bytes = u64::from_ne_bytes([low; 8]) as i64;
        let index =
            _mm512_broadcast_i32x4(_mm_set_epi64x(u64::from_ne_bytes([high; 8]) as i64, bytes));
        inverse = _mm512_xor_si512(inverse, _mm512_maskz_shuffle_epi8(rows, inverse, index));
    }
    inverse
}

/// Byte 7−r of `[q][j]` is byte 8q+j of row r.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn transpose_rows(rows: &[Row; 8]) -> [[u64; 8]; 8] {
    // Columns 2p of two rows and 2p+1 of the same two, then lane p of four such.
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
    let (r0, r1, r2, r3) = (load(r0), load(r1), load(r2), load(r3));
    let (r4, r5, r6, r7) = (load(r4), load(r5), load(r6), load(r7));
    let even = four_lanes([
        _mm512_unpacklo_epi64(r0, r1),
        _mm512_unpacklo_epi64(r2, r3),
        _mm512_unpacklo_epi64(r4, r5),
        _mm512_unpacklo_epi64(r6, r7),
    ]);
    let odd = four_lanes([
        _mm512_unpackhi_epi64(r0, r1),
        _mm512_unpackhi_epi64(r2, r3),
        _mm512_unpackhi_epi64(r4, r5),
        _mm512_unpackhi_epi64(r6, r7),
    ]);
    let mut bytes = [[0; 8]; 8];
    for p in 0..4 {
        bytes[2 * p] = words(transpose(even[p]));
        bytes[2 * p + 1] = words(transpose(odd[p]));
    }
    bytes
}

/// Transposes a 4×4 matrix of 128-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn four_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (
        _mm512_shuffle_i64x2::<0x44>(a, b),
        _mm512_shuffle_i64x2::<0xee>(a, b),
    );
    let (cd_low, cd_high) = (
        _mm512_shuffle_i64x2::<0x44>(c, d),
        _mm512_shuffle_i64x2::<0xee>(c, d),
    );
    [
        _mm512_shuffle_i64x2::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i64x2::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i64x2::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high),
    ]
}

/// Word `w` of eight values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather<const W: usize>(values: &[[u64; W]; 8], w: usize) -> __m512i {
    let [a, b, c, d, e, f, g, h] = values;
    let [a, b, c, d] = [a[w] as i64, b[w] as i64, c[w] as i64, d[w] as i64];
    let [e, f, g, h] = [e[w] as i64, f[w] as i64, g[w] as i64, h[w] as i64];
    _mm512_set_epi64(h, g, f, e, d, c, b, a)
}

/// Eight words to transposed form.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn transpose(words: __m512i) -> __m512i {
    // SAFETY: 64 readable bytes.
    let index = unsafe { _mm512_loadu_si512(LOAD.as_ptr().cast()) };
    _mm512_permutexvar_epi8(index, words)
}

/// Transposed form to eight words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn untranspose(bytes: __m512i) -> __m512i {
    // SAFETY: 64 readable bytes.
    let index = unsafe { _mm512_loadu_si512(STORE.as_ptr().cast()) };
    _mm512_permutexvar_epi8(index, bytes)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &Row) -> __m512i {
    // SAFETY: a row is 64 readable bytes.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn words(from: __m512i) -> Row {
    let mut out = [0; 8];
    // SAFETY: a row is 64 writable bytes.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), from) };
    out
}
