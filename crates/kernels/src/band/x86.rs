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

use super::{Block, Row, Singular, WORD};

/// Whether the kernels may run.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f")
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
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn eliminate<const W: usize>(
    block: &mut Block<W>,
    rows: &[Row],
    values: &[[u64; W]],
    carried: &mut Vec<(Row, [u64; W])>,
) -> Result<(), Singular> {
    for (row, value) in rows.iter().zip(values) {
        // The first word decides what comes next, so it has a copy of its own.
        let mut lead = row[0];
        let mut sum = load(row);
        let mut value = *value;
        loop {
            if lead == 0 {
                let next = _mm512_maskz_compress_epi64(0xfe, sum);
                if _mm512_test_epi64_mask(next, next) == 0 {
                    return Err(Singular);
                }
                carried.push((words(next), value));
                break;
            }
            let column = lead.trailing_zeros() as usize;
            let pivot = block.lead[column];
            if pivot == 0 {
                block.lead[column] = lead;
                block.rows[column] = words(sum);
                block.values[column] = value;
                break;
            }
            lead ^= pivot;
            sum = _mm512_xor_si512(sum, load(&block.rows[column]));
            for (a, b) in value.iter_mut().zip(&block.values[column]) {
                *a ^= b;
            }
        }
    }
    Ok(())
}

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
    let identity = _mm512_set1_epi64(IDENTITY);
    // The matrices of eight words of slots, number b at b % 8, those of words `have` being up to date.
    let mut window = [[[_mm512_setzero_si512(); W]; 8]; 8];
    let mut have = 0..0;
    let mut next = 0;
    for run in frames.chunk_by(|a, b| a == b) {
        let first = run[0] as usize;
        let kept = if have.contains(&first) {
            have.end
        } else {
            first
        };
        for word in kept..first + 8 {
            for (g, matrices) in window[word % 8].iter_mut().enumerate() {
                let mut group = [[0; W]; 8];
                let from = (word * WORD + 8 * g).min(slots.len());
                let to = (from + 8).min(slots.len());
                group[..to - from].copy_from_slice(&slots[from..to]);
                for (w, matrix) in matrices.iter_mut().enumerate() {
                    let bytes = transpose(gather(&group, w));
                    *matrix = _mm512_gf2p8affine_epi64_epi8::<0>(identity, bytes);
                }
            }
        }
        have = first..first + 8;
        let these = next..next + run.len();
        next = these.end;
        for (rows, out) in rows[these.clone()].chunks(8).zip(out[these].chunks_mut(8)) {
            let mut eight = [[0; 8]; 8];
            eight[..rows.len()].copy_from_slice(rows);
            let bytes = transpose_rows(&eight);
            let mut sums = [_mm512_setzero_si512(); W];
            for q in 0..8 {
                accumulate(&mut sums, &window[(first + q) % 8], &bytes[q]);
            }
            let mut results = [[0; W]; 8];
            for (w, sum) in sums.into_iter().enumerate() {
                scatter(&mut results, w, untranspose(sum));
            }
            out.copy_from_slice(&results[..rows.len()]);
        }
    }
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
    let mut bytes = [[0; 8]; 8];
    for (q, bytes) in bytes.iter_mut().enumerate() {
        *bytes = words(transpose(gather(rows, q)));
    }
    bytes
}

/// Word `w` of eight values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn gather<const W: usize>(values: &[[u64; W]; 8], w: usize) -> __m512i {
    let mut chosen = [0; 8];
    for (word, value) in chosen.iter_mut().zip(values) {
        *word = value[w];
    }
    load(&chosen)
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
