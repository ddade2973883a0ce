//! AVX-512 with byte permutations and GFNI.
//!
//! `gf2p8affineqb` takes 64-bit lanes: eight bytes of one operand, and a bit matrix in the other whose
//! row i is byte 7−i; every byte y becomes the byte whose bit i is the parity of row i AND y.
//!
//! - The *matrix* of eight slots (one 64-bit word of them): lane k is the bit matrix whose row i has bit
//!   8k+i of each slot, the first slot in bit 0.
//! - *Transposed* rows or values: lane k has byte k of each of eight 64-bit words, the first in byte 7.
//!
//! So the affine product of (byte j of eight rows, in every lane) by (matrix of slots 8j … 8j+7) is what
//! these slots contribute to eight transposed values.

// No closures here: one that is handed to `array::from_fn` or `map` is called by code without these
// features, and so not inlined.

use core::arch::x86_64::*;

pub(super) use super::avx2::eliminate;
use super::{Row, Run, Runs, WORD, avx2, slots_of};
use crate::Backend;

/// Whether the kernels may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && avx2::available(backend)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("gfni")
}

/// The identity as a bit matrix, and also the operand that makes the affine product transpose its matrix.
const IDENTITY: i64 = 0x0102_0408_1020_4080;

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

/// # Safety
/// The CPU must have the features named in the attribute.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) unsafe fn back_substitute<const W: usize>(rows: &[Row], slots: &mut [[u64; W]]) {
    let identity = _mm512_set1_epi64(IDENTITY);
    // The matrices of the last eight words; word number b is at b % 8.
    let mut window = [[[_mm512_setzero_si512(); W]; 8]; 8];
    let blocks = rows.as_chunks::<WORD>().0.iter();
    let slots = slots.as_chunks_mut::<WORD>().0.iter_mut();
    for (word, (rows, slots)) in blocks.zip(slots).enumerate().rev() {
        let groups = rows.as_chunks::<8>().0;
        let mut bytes = [[[0; 8]; 8]; 8];
        let mut diagonal = [0; 8];
        for (g, group) in groups.iter().enumerate() {
            bytes[g] = transpose_rows(group);
            diagonal[g] = bytes[g][0][g];
        }
        let inverses = words(invert_unitriangular(diagonal));
        for (g, slots) in slots.as_chunks_mut::<8>().0.iter_mut().enumerate().rev() {
            let mut sums = [_mm512_setzero_si512(); W];
            for (w, sum) in sums.iter_mut().enumerate() {
                *sum = transpose(gather(slots, w));
            }
            for q in 1..8 {
                accumulate(&mut sums, &window[(word + q) % 8], &bytes[g][q]);
            }
            // The newest matrices last: the others need not wait for them.
            for j in (g + 1..8).rev() {
                let byte = _mm512_set1_epi64(bytes[g][0][j] as i64);
                for (sum, matrix) in sums.iter_mut().zip(&window[word % 8][j]) {
                    *sum =
                        _mm512_xor_si512(*sum, _mm512_gf2p8affine_epi64_epi8::<0>(byte, *matrix));
                }
            }
            let inverse = _mm512_set1_epi64(inverses[g] as i64);
            for (w, sum) in sums.into_iter().enumerate() {
                let sum = _mm512_gf2p8affine_epi64_epi8::<0>(identity, sum);
                let matrix = _mm512_gf2p8affine_epi64_epi8::<0>(sum, inverse);
                window[word % 8][g][w] = matrix;
                let solved = _mm512_gf2p8affine_epi64_epi8::<0>(identity, matrix);
                scatter(slots, w, untranspose(solved));
            }
        }
    }
}

/// # Safety
/// The CPU must have the features named in the attribute.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) unsafe fn combine<const W: usize>(
    slots: &[[u64; W]],
    frames: &[u32],
    rows: &[Row],
    out: &mut [[u64; W]],
) {
    // The matrices of eight words of slots, number b at b % 8.
    let mut window = [[[_mm512_setzero_si512(); W]; 8]; 8];
    for Run {
        first,
        fresh,
        places,
    } in Runs::new(frames)
    {
        for word in fresh {
            for (g, matrices) in window[word % 8].iter_mut().enumerate() {
                *matrices = to_matrices(&slots_of(slots, word * WORD + 8 * g));
            }
        }
        let (groups, rest) = rows[places.clone()].as_chunks::<8>();
        let (out, out_rest) = out[places].as_chunks_mut::<8>();
        for (rows, out) in groups.iter().zip(out) {
            combine_eight(&window, first, rows, out);
        }
        if !rest.is_empty() {
            let mut rows = [[0; 8]; 8];
            let mut out = [[0; W]; 8];
            rows[..rest.len()].copy_from_slice(rest);
            combine_eight(&window, first, &rows, &mut out);
            out_rest.copy_from_slice(&out[..rest.len()]);
        }
    }
}

/// The values of eight rows in the frame of word `first`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn combine_eight<const W: usize>(
    window: &[[[__m512i; W]; 8]; 8],
    first: usize,
    rows: &[Row; 8],
    out: &mut [[u64; W]; 8],
) {
    let bytes = transpose_rows(rows);
    let mut sums = [_mm512_setzero_si512(); W];
    for (q, bytes) in bytes.iter().enumerate() {
        accumulate(&mut sums, &window[(first + q) % 8], bytes);
    }
    for (w, sum) in sums.into_iter().enumerate() {
        scatter(out, w, untranspose(sum));
    }
}

/// The matrices of eight slots.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn to_matrices<const W: usize>(slots: &[[u64; W]; 8]) -> [__m512i; W] {
    let identity = _mm512_set1_epi64(IDENTITY);
    let mut matrices = [_mm512_setzero_si512(); W];
    for (w, matrix) in matrices.iter_mut().enumerate() {
        *matrix = _mm512_gf2p8affine_epi64_epi8::<0>(identity, transpose(gather(slots, w)));
    }
    matrices
}

/// Adds what the 64 slots of a word contribute to eight values, given the rows' bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn accumulate<const W: usize>(
    sums: &mut [__m512i; W],
    matrices: &[[__m512i; W]; 8],
    bytes: &[u64; 8],
) {
    for (matrices, byte) in matrices.iter().zip(bytes) {
        let byte = _mm512_set1_epi64(*byte as i64);
        for (sum, matrix) in sums.iter_mut().zip(matrices) {
            *sum = _mm512_xor_si512(*sum, _mm512_gf2p8affine_epi64_epi8::<0>(byte, *matrix));
        }
    }
}

/// Inverts eight matrices with ones on the diagonal and zeros before it in each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn invert_unitriangular(matrices: Row) -> __m512i {
    let identity = _mm512_set1_epi64(IDENTITY);
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

/// Writes word `w` of eight values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn scatter<const W: usize>(values: &mut [[u64; W]; 8], w: usize, from: __m512i) {
    for (value, word) in values.iter_mut().zip(words(from)) {
        value[w] = word;
    }
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
