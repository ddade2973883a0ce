//! AVX2: elimination in 256-bit registers, and tables of four slots that byte shuffles look up for sixteen rows
//! at a time.
//!
//! A table of four slots has one entry of a byte for each of their sums, and so there is one table for each byte
//! of the slots. `pshufb` takes sixteen such indices and finds sixteen such entries, in each half of a register:
//! the lower half is for the first four of eight slots, the upper half for the others. What both contribute to
//! the values of sixteen rows is added at the end.

// No closures here: one that is handed to `array::from_fn` or `map` is called by code without these
// features, and so not inlined.

use core::arch::x86_64::*;

use super::{Block, Row, Run, Runs, Singular, WORD, portable, slots_of};
use crate::Backend;

/// Whether the kernels may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2)
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
}

/// Rows that are looked up together.
const ROWS: usize = 16;

/// Of eight slots, the tables of each byte of one word.
type Tables = [__m256i; 8];

/// The tables of a word of slots.
type Word<const W: usize> = [[Tables; W]; 8];

/// Of sixteen rows, the lower halves and then the upper halves of byte 8q + j at `[q][j]`.
type Nibbles = [[__m256i; 8]; 8];

/// # Safety
/// The CPU must have AVX2 and BMI1.
#[target_feature(enable = "avx2,bmi1")]
pub(super) unsafe fn mirror(rows: &mut [Row]) {
    portable::mirror(rows);
}

/// # Safety
/// The CPU must have AVX2 and BMI1.
#[target_feature(enable = "avx2,bmi1")]
pub(super) unsafe fn eliminate<const W: usize>(
    block: &mut Block<W>,
    rows: &[Row],
    values: &[[u64; W]],
    carried: &mut Vec<(Row, [u64; W])>,
) -> Result<(), Singular> {
    portable::eliminate(block, rows, values, carried)
}

/// # Safety
/// The CPU must have AVX2 and BMI1.
#[target_feature(enable = "avx2,bmi1")]
pub(super) unsafe fn back_substitute<const W: usize>(rows: &[Row], slots: &mut [[u64; W]]) {
    // The tables of the last eight words; word number b is at b % 8.
    let mut window: [Word<W>; 8] = [[[[_mm256_setzero_si256(); 8]; W]; 8]; 8];
    let mut tables = [[[0; W]; 16]; WORD / 4];
    let blocks = rows.as_chunks::<WORD>().0.iter();
    let slots = slots.as_chunks_mut::<WORD>().0.iter_mut();
    for (word, (rows, slots)) in blocks.zip(slots).enumerate().rev() {
        let groups = rows.as_chunks::<ROWS>().0.iter();
        for (rows, slots) in groups.zip(slots.as_chunks_mut::<ROWS>().0) {
            let nibbles = nibbles(rows);
            for w in 0..W {
                let mut sums = [_mm256_setzero_si256(); 8];
                for q in 1..8 {
                    accumulate(&mut sums, &window[(word + q) % 8], w, &nibbles[q]);
                }
                for (slot, sum) in slots.iter_mut().zip(values(&sums)) {
                    slot[w] ^= sum;
                }
            }
        }
        portable::solve_word(rows, slots, &mut tables);
        tabulate(&mut window[word % 8], slots);
    }
}

/// # Safety
/// The CPU must have AVX2 and BMI1.
#[target_feature(enable = "avx2,bmi1")]
pub(super) unsafe fn combine<const W: usize>(
    slots: &[[u64; W]],
    frames: &[u32],
    rows: &[Row],
    out: &mut [[u64; W]],
) {
    // The tables of eight words of slots, number b at b % 8.
    let mut window: [Word<W>; 8] = [[[[_mm256_setzero_si256(); 8]; W]; 8]; 8];
    for Run {
        first,
        fresh,
        places,
    } in Runs::new(frames)
    {
        for word in fresh {
            tabulate(&mut window[word % 8], &slots_of(slots, word * WORD));
        }
        let (groups, rest) = rows[places.clone()].as_chunks::<ROWS>();
        let (out, out_rest) = out[places].as_chunks_mut::<ROWS>();
        for (rows, out) in groups.iter().zip(out) {
            combine_rows(&window, first, rows, out);
        }
        if !rest.is_empty() {
            let mut rows = [[0; 8]; ROWS];
            let mut out = [[0; W]; ROWS];
            rows[..rest.len()].copy_from_slice(rest);
            combine_rows(&window, first, &rows, &mut out);
            out_rest.copy_from_slice(&out[..rest.len()]);
        }
    }
}

/// The values of sixteen rows in the frame of word `first`.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn combine_rows<const W: usize>(
    window: &[Word<W>; 8],
    first: usize,
    rows: &[Row; ROWS],
    out: &mut [[u64; W]; ROWS],
) {
    let nibbles = nibbles(rows);
    for w in 0..W {
        let mut sums = [_mm256_setzero_si256(); 8];
        for (q, nibbles) in nibbles.iter().enumerate() {
            accumulate(&mut sums, &window[(first + q) % 8], w, nibbles);
        }
        for (out, sum) in out.iter_mut().zip(values(&sums)) {
            out[w] = sum;
        }
    }
}

/// Adds what the 64 slots of a word contribute to each byte of word `w` of the values.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn accumulate<const W: usize>(sums: &mut Tables, word: &Word<W>, w: usize, nibbles: &[__m256i; 8]) {
    for (tables, nibbles) in word.iter().zip(nibbles) {
        for (sum, table) in sums.iter_mut().zip(&tables[w]) {
            *sum = _mm256_xor_si256(*sum, _mm256_shuffle_epi8(*table, *nibbles));
        }
    }
}

/// The tables of a word of slots.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn tabulate<const W: usize>(word: &mut Word<W>, slots: &[[u64; W]; WORD]) {
    // Sum i of four slots is sum i % 4 of the first two and sum i / 4 of the others.
    let inner = _mm256_set1_epi32(0x0302_0100);
    let outer =
        _mm256_broadcastsi128_si256(_mm_set_epi32(0x0303_0303, 0x0202_0202, 0x0101_0101, 0));
    for (tables, slots) in word.iter_mut().zip(slots.as_chunks::<8>().0) {
        for (w, tables) in tables.iter_mut().enumerate() {
            let first = sums_of_two(slots, 0, w);
            let second = sums_of_two(slots, 2, w);
            for (k, table) in tables.iter_mut().enumerate() {
                let byte = _mm256_set1_epi8(4 * (k % 4) as i8);
                *table = _mm256_xor_si256(
                    _mm256_shuffle_epi8(first[k / 4], _mm256_add_epi8(inner, byte)),
                    _mm256_shuffle_epi8(second[k / 4], _mm256_add_epi8(outer, byte)),
                );
            }
        }
    }
}

/// The four sums of each byte of word `w` of slots c and c + 1, and in the upper halves of c + 4 and c + 5: bytes
/// 4k … 4k + 3 are for byte k, of the first four bytes and of the others.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn sums_of_two<const W: usize>(slots: &[[u64; W]; 8], c: usize, w: usize) -> [__m256i; 2] {
    let a = _mm256_set_epi64x(0, slots[c + 4][w] as i64, 0, slots[c][w] as i64);
    let b = _mm256_set_epi64x(0, slots[c + 5][w] as i64, 0, slots[c + 1][w] as i64);
    let without_b = _mm256_unpacklo_epi8(_mm256_setzero_si256(), a);
    let with_b = _mm256_unpacklo_epi8(b, _mm256_xor_si256(a, b));
    [
        _mm256_unpacklo_epi16(without_b, with_b),
        _mm256_unpackhi_epi16(without_b, with_b),
    ]
}

/// The nibbles of rows, as the tables take them.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn nibbles(rows: &[Row; ROWS]) -> Nibbles {
    let shift = _mm256_set_epi64x(4, 4, 0, 0);
    let mask = _mm256_set1_epi8(15);
    let mut nibbles = [[_mm256_setzero_si256(); 8]; 8];
    for (half, nibbles) in nibbles.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let mut bytes = [_mm256_setzero_si256(); ROWS];
        for (to, row) in bytes.iter_mut().zip(rows) {
            let words = row.as_chunks::<4>().0;
            // SAFETY: four words are 32 readable bytes.
            *to = unsafe { _mm256_loadu_si256(words[half].as_ptr().cast()) };
        }
        // A step makes the highest bit of a byte's row the lowest of its place: four make rows of columns.
        for _ in 0..4 {
            let from = bytes;
            for i in 0..8 {
                bytes[2 * i] = _mm256_unpacklo_epi8(from[i], from[i + 8]);
                bytes[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[i + 8]);
            }
        }
        for (i, pair) in bytes.iter().enumerate() {
            let low = _mm256_permute2x128_si256::<0x00>(*pair, *pair);
            let high = _mm256_permute2x128_si256::<0x11>(*pair, *pair);
            let (q, j) = (i / 8, i % 8);
            nibbles[q][j] = _mm256_and_si256(_mm256_srlv_epi64(low, shift), mask);
            nibbles[q + 2][j] = _mm256_and_si256(_mm256_srlv_epi64(high, shift), mask);
        }
    }
    nibbles
}

/// A word of sixteen values, from what each half of the registers has found of each byte.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn values(sums: &Tables) -> [u64; ROWS] {
    let mut bytes = [_mm_setzero_si128(); 8];
    for (byte, sum) in bytes.iter_mut().zip(sums) {
        *byte = _mm_xor_si128(
            _mm256_castsi256_si128(*sum),
            _mm256_extracti128_si256::<1>(*sum),
        );
    }
    // As in `nibbles`; the three steps that make words of eight registers.
    for _ in 0..3 {
        let from = bytes;
        for i in 0..4 {
            bytes[2 * i] = _mm_unpacklo_epi8(from[i], from[i + 4]);
            bytes[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + 4]);
        }
    }
    let mut values = [0; ROWS];
    for (to, from) in values.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        // SAFETY: two words are 16 writable bytes.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), from) };
    }
    values
}
