//! AVX-512 with GFNI, whose affine instruction transposes eight squares of 8 by 8 bits at once, and
//! AVX2, which picks one bit of 32 bytes at a time.

use core::arch::x86_64::*;

use crate::Backend;
use std::array::from_fn;

/// Whether [`transpose_narrow`] may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2) && is_x86_feature_detected!("avx2")
}

/// Whether [`transpose_wide`] may run.
pub(super) fn wide_available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("gfni")
}

/// Bytes of a column in a tile of the wide version. Several cache lines, because each column is in
/// another page of memory, and tiles of all columns stay in the first-level cache.
const TILE: usize = 4 * LINE;

/// Bytes of a cache line and of a register.
const LINE: usize = 64;

/// `columns` and `rows` as in [`super::transpose128`].
///
/// # Safety
/// The CPU must have the features named in the attribute.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) unsafe fn transpose_wide(columns: &[u8], rows: &mut [u128]) {
    let stride = rows.len() / 8;
    // tile[g][q]: columns 8g … 8g + 7 of 64 rows from 64q on, one byte a row.
    let mut tile = [[_mm512_setzero_si512(); TILE / 8]; 16];
    for (index, rows) in rows.chunks_mut(8 * TILE).enumerate() {
        let bytes = rows.len() / 8;
        for (group, squares) in tile.iter_mut().enumerate() {
            let start = 8 * group * stride + index * TILE;
            for (line, squares) in squares.chunks_exact_mut(8).enumerate() {
                let offset = line * LINE;
                if offset >= bytes {
                    break;
                }
                for c in 0..8 {
                    // The same line of the next tile, which the machine cannot foresee.
                    let next = start + c * stride + offset + TILE;
                    _mm_prefetch::<_MM_HINT_T1>(columns.as_ptr().wrapping_add(next).cast());
                }
                let bytes = (bytes - offset).min(LINE);
                let mask = u64::MAX >> (LINE - bytes);
                let loaded = from_fn(|c| {
                    let column = &columns[start + c * stride + offset..][..bytes];
                    // SAFETY: the mask allows `bytes` bytes, which the slice has.
                    unsafe { _mm512_maskz_loadu_epi8(mask, column.as_ptr().cast()) }
                });
                squares.copy_from_slice(&transpose_squares(loaded));
            }
        }
        for (q, rows) in rows.chunks_exact_mut(64).enumerate() {
            let out = transpose_bytes(from_fn(|group| tile[group][q]));
            for (four, value) in rows.chunks_exact_mut(4).zip(out) {
                // SAFETY: four rows are 64 writable bytes.
                unsafe { _mm512_storeu_si512(four.as_mut_ptr().cast(), value) }
            }
        }
    }
}

/// Eight columns of 512 bits to 8 times 64 rows of one byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn transpose_squares(columns: [__m512i; 8]) -> [__m512i; 8] {
    // Word c of result q becomes word q of column c.
    let even: [_; 4] = from_fn(|j| _mm512_unpacklo_epi64(columns[2 * j], columns[2 * j + 1]));
    let odd: [_; 4] = from_fn(|j| _mm512_unpackhi_epi64(columns[2 * j], columns[2 * j + 1]));
    let (even, odd) = (transpose_lanes(even), transpose_lanes(odd));

    // Byte p of word c to byte 7 − c of word p: the affine instruction numbers its rows backwards.
    let gather: [u8; 64] = from_fn(|i| (8 * (7 - i % 8) + i / 8) as u8);
    // SAFETY: 64 readable bytes.
    let gather = unsafe { _mm512_loadu_si512(gather.as_ptr().cast()) };
    // Byte i is 1 << i: bit c of byte i of the product is bit i of byte 7 − c of the matrix.
    let identity = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    from_fn(|q| {
        let words = if q % 2 == 0 { even[q / 2] } else { odd[q / 2] };
        let matrices = _mm512_permutexvar_epi8(gather, words);
        _mm512_gf2p8affine_epi64_epi8::<0>(identity, matrices)
    })
}

/// The matrix of 128-bit lanes, transposed.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_lanes(v: [__m512i; 4]) -> [__m512i; 4] {
    let low: [_; 2] = from_fn(|i| _mm512_shuffle_i64x2::<0x44>(v[2 * i], v[2 * i + 1]));
    let high: [_; 2] = from_fn(|i| _mm512_shuffle_i64x2::<0xee>(v[2 * i], v[2 * i + 1]));
    [
        _mm512_shuffle_i64x2::<0x88>(low[0], low[1]),
        _mm512_shuffle_i64x2::<0xdd>(low[0], low[1]),
        _mm512_shuffle_i64x2::<0x88>(high[0], high[1]),
        _mm512_shuffle_i64x2::<0xdd>(high[0], high[1]),
    ]
}

/// Sixteen bytes of each of 64 rows, given by byte and wanted by row: byte 16·l + g of result k
/// becomes byte 4·k + l of value g.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn transpose_bytes(v: [__m512i; 16]) -> [__m512i; 16] {
    // The first step also brings row 4·k + l to lane l; the others stay in their lanes.
    let pick = |first: usize| -> __m512i {
        let picks: [u8; 64] = from_fn(|i| {
            let (lane, k, value) = (i / 16, first + i % 16 / 2, i % 2);
            (64 * value + 4 * k + lane) as u8
        });
        // SAFETY: 64 readable bytes.
        unsafe { _mm512_loadu_si512(picks.as_ptr().cast()) }
    };
    let (low, high) = (pick(0), pick(8));
    // Names count the rows in a lane: each result holds rows 4·k + l for k from its first index on.
    let eight: [[_; 8]; 2] = [
        from_fn(|i| _mm512_permutex2var_epi8(v[2 * i], low, v[2 * i + 1])),
        from_fn(|i| _mm512_permutex2var_epi8(v[2 * i], high, v[2 * i + 1])),
    ];
    let four: [[_; 4]; 4] = from_fn(|k| {
        let v = &eight[k / 2];
        from_fn(|i| match k % 2 {
            0 => _mm512_unpacklo_epi16(v[2 * i], v[2 * i + 1]),
            _ => _mm512_unpackhi_epi16(v[2 * i], v[2 * i + 1]),
        })
    });
    let two: [[_; 2]; 8] = from_fn(|k| {
        let v = &four[k / 2];
        from_fn(|i| match k % 2 {
            0 => _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
            _ => _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]),
        })
    });
    from_fn(|k| {
        let v = &two[k / 2];
        match k % 2 {
            0 => _mm512_unpacklo_epi64(v[0], v[1]),
            _ => _mm512_unpackhi_epi64(v[0], v[1]),
        }
    })
}

/// `columns` and `rows` as in [`super::transpose128`].
///
/// # Safety
/// The CPU must have the features named in the attribute.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_narrow(columns: &[u8], rows: &mut [u128]) {
    let stride = rows.len() / 8;
    for (block, rows) in rows.chunks_exact_mut(128).enumerate() {
        // quarters[w][i]: columns 32w … 32w + 31 of row i.
        let mut quarters = [[0u32; 128]; 4];
        for (w, quarter) in quarters.iter_mut().enumerate() {
            let mut bytes = [_mm256_setzero_si256(); 16];
            for (c, to) in bytes.iter_mut().enumerate() {
                let low = &columns[(32 * w + c) * stride + 16 * block..][..16];
                let high = &columns[(32 * w + 16 + c) * stride + 16 * block..][..16];
                // SAFETY: both slices have 16 readable bytes.
                *to = unsafe { _mm256_loadu2_m128i(high.as_ptr().cast(), low.as_ptr().cast()) };
            }
            transpose_bytes_narrow(&mut bytes);
            for (p, mut bytes) in bytes.into_iter().enumerate() {
                for bit in (0..8).rev() {
                    quarter[8 * p + bit] = _mm256_movemask_epi8(bytes) as u32;
                    bytes = _mm256_slli_epi16::<1>(bytes);
                }
            }
        }
        for (i, row) in rows.iter_mut().enumerate() {
            // Not by `quarters.map`, which would copy all of it for every row.
            let [a, b, c, d] = [0, 1, 2, 3].map(|w| u128::from(quarters[w][i]));
            *row = a | b << 32 | c << 64 | d << 96;
        }
    }
}

/// Byte c of each half of value p becomes byte p of that half of value c: a step makes the highest bit of a byte's
/// value the lowest of its place.
// No closures: they are called by code without AVX2, and so not inlined.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_bytes_narrow(v: &mut [__m256i; 16]) {
    for _ in 0..4 {
        let from = *v;
        for i in 0..8 {
            v[2 * i] = _mm256_unpacklo_epi8(from[i], from[i + 8]);
            v[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[i + 8]);
        }
    }
}
