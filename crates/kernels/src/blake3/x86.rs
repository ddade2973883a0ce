//! Sixteen lanes of AVX-512, or eight of AVX2.

use core::arch::x86_64::*;
use std::array::from_fn;

use super::ops::{self, BLOCK, Lanes, MAX_LANES};
use super::portable::padded;
use crate::Backend;

/// Whether [`hash_narrow`] may run.
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2) && is_x86_feature_detected!("avx2")
}

/// Whether [`hash_wide`] may run.
pub(super) fn wide_available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
}

macro_rules! instantiate {
    ($name:ident, $lanes:ident, $features:literal) => {
        /// As [`ops::hash`].
        ///
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<'a>(
            key: &[u8; 32],
            mode: u32,
            input: impl Fn(usize) -> &'a [u8],
            out: &mut [[u8; 32]],
        ) {
            ops::hash::<$lanes>(key, mode, input, out)
        }
    };
}

instantiate!(hash_narrow, Narrow, "avx2");
instantiate!(hash_wide, Wide, "avx512f,avx512bw");

/// Only used from [`hash_narrow`], which is what makes the intrinsics below sound to call.
#[derive(Clone, Copy)]
struct Narrow(__m256i);

/// Only used from [`hash_wide`], which is what makes the intrinsics below sound to call.
#[derive(Clone, Copy)]
struct Wide(__m512i);

impl Lanes for Narrow {
    const COUNT: usize = 8;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: see `Narrow`.
        Narrow(unsafe { _mm256_set1_epi32(word as i32) })
    }

    #[inline(always)]
    fn from_words(words: &[u32; MAX_LANES]) -> Self {
        // SAFETY: more than 32 readable bytes; see `Narrow`.
        Narrow(unsafe { _mm256_loadu_si256(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see `Narrow`.
        Narrow(unsafe { _mm256_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see `Narrow`.
        Narrow(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate<const BITS: i32>(self) -> Self {
        // SAFETY: see `Narrow`.
        Narrow(unsafe {
            match BITS {
                16 => _mm256_shuffle_epi8(
                    self.0,
                    byte_order(0x0d0c_0f0e_0908_0b0a, 0x0504_0706_0100_0302),
                ),
                8 => _mm256_shuffle_epi8(
                    self.0,
                    byte_order(0x0c0f_0e0d_080b_0a09, 0x0407_0605_0003_0201),
                ),
                _ => _mm256_or_si256(
                    _mm256_srl_epi32(self.0, _mm_cvtsi32_si128(BITS)),
                    _mm256_sll_epi32(self.0, _mm_cvtsi32_si128(32 - BITS)),
                ),
            }
        })
    }

    #[inline(always)]
    fn load(inputs: &[&[u8]; MAX_LANES], from: usize) -> [Self; 16] {
        // SAFETY: see `Narrow`.
        unsafe { load_narrow(inputs, from) }
    }

    #[inline(always)]
    fn store(words: [Self; 8], out: &mut [[u8; 32]; MAX_LANES]) {
        // SAFETY: see `Narrow`.
        let hashes = unsafe { transpose_narrow(from_fn(|w| words[w].0)) };
        for (out, hash) in out.iter_mut().zip(hashes) {
            // SAFETY: 32 writable bytes; see `Narrow`.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), hash) }
        }
    }
}

/// As [`Lanes::load`].
#[inline]
#[target_feature(enable = "avx2")]
fn load_narrow(inputs: &[&[u8]; MAX_LANES], from: usize) -> [Narrow; 16] {
    let blocks: [_; Narrow::COUNT] = from_fn(|i| padded(inputs[i], from));
    let half = |h: usize| {
        transpose_narrow(from_fn(|i| {
            let half = &blocks[i][h * BLOCK / 2..][..BLOCK / 2];
            // SAFETY: the slice has 32 readable bytes.
            unsafe { _mm256_loadu_si256(half.as_ptr().cast()) }
        }))
    };
    let halves = [half(0), half(1)];
    from_fn(|w| Narrow(halves[w / 8][w % 8]))
}

/// The same order of bytes for both halves of a shuffle.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_order(high: i64, low: i64) -> __m256i {
    _mm256_set_epi64x(high, low, high, low)
}

/// The matrix of eight by eight words, transposed.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_narrow(v: [__m256i; 8]) -> [__m256i; 8] {
    // Within each 128-bit half: pair[2i + s] holds words 2s and 2s + 1 of v[2i] and v[2i + 1].
    let pair: [_; 8] = from_fn(|i| match i % 2 {
        0 => _mm256_unpacklo_epi32(v[i], v[i + 1]),
        _ => _mm256_unpackhi_epi32(v[i - 1], v[i]),
    });
    // four[4j + w]: word w of v[4j] … v[4j + 3], and word 4 + w in the other half.
    let four: [_; 8] = from_fn(|k| {
        let (a, b) = (pair[k / 4 * 4 + k % 4 / 2], pair[k / 4 * 4 + k % 4 / 2 + 2]);
        match k % 2 {
            0 => _mm256_unpacklo_epi64(a, b),
            _ => _mm256_unpackhi_epi64(a, b),
        }
    });
    from_fn(|w| match w / 4 {
        0 => _mm256_permute2x128_si256::<0x20>(four[w], four[4 + w]),
        _ => _mm256_permute2x128_si256::<0x31>(four[w - 4], four[w]),
    })
}

impl Lanes for Wide {
    const COUNT: usize = 16;

    #[inline(always)]
    fn splat(word: u32) -> Self {
        // SAFETY: see `Wide`.
        Wide(unsafe { _mm512_set1_epi32(word as i32) })
    }

    #[inline(always)]
    fn from_words(words: &[u32; MAX_LANES]) -> Self {
        // SAFETY: 64 readable bytes; see `Wide`.
        Wide(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see `Wide`.
        Wide(unsafe { _mm512_add_epi32(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: see `Wide`.
        Wide(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn rotate<const BITS: i32>(self) -> Self {
        // SAFETY: see `Wide`.
        Wide(unsafe { _mm512_ror_epi32::<BITS>(self.0) })
    }

    #[inline(always)]
    fn load(inputs: &[&[u8]; MAX_LANES], from: usize) -> [Self; 16] {
        // SAFETY: see `Wide`.
        unsafe { load_wide(inputs, from) }
    }

    #[inline(always)]
    fn store(words: [Self; 8], out: &mut [[u8; 32]; MAX_LANES]) {
        // SAFETY: see `Wide`.
        unsafe { store_wide(words, out) }
    }
}

/// One block of an input, from byte `from` on, with zeros after its end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_block(input: &[u8], from: usize) -> __m512i {
    let rest = input.get(from..).unwrap_or(&[]);
    let mask = match rest.len() {
        0 => 0,
        length => u64::MAX >> (BLOCK - length.min(BLOCK)),
    };
    // SAFETY: the mask allows no byte beyond the slice.
    unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) }
}

/// As [`Lanes::load`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_wide(inputs: &[&[u8]; MAX_LANES], from: usize) -> [Wide; 16] {
    let mut blocks = [_mm512_setzero_si512(); 16];
    for (block, input) in blocks.iter_mut().zip(inputs) {
        *block = load_block(input, from);
    }
    // four[j][w]: words w, 4 + w, 8 + w and 12 + w of blocks 4j … 4j + 3, one lane each.
    let four: [[_; 4]; 4] = from_fn(|j| transpose_fours(from_fn(|i| blocks[4 * j + i])));
    // words[w][l]: word 4l + w of every block.
    let words: [[_; 4]; 4] = from_fn(|w| transpose_lanes(from_fn(|j| four[j][w])));
    from_fn(|i| Wide(words[i % 4][i / 4]))
}

/// As [`Lanes::store`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_wide(words: [Wide; 8], out: &mut [[u8; 32]; MAX_LANES]) {
    let halves: [_; 2] = from_fn(|h| transpose_fours(from_fn(|w| words[4 * h + w].0)));
    for i in 0..4 {
        // Lane l of halves[h][i] is half h of output 4l + i.
        let (low, high) = (halves[0][i], halves[1][i]);
        let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        let last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        for (l, order) in [first, last].into_iter().enumerate() {
            let pair = _mm512_permutex2var_epi64(low, order, high);
            let pair = [
                _mm512_castsi512_si256(pair),
                _mm512_extracti64x4_epi64::<1>(pair),
            ];
            for (k, hash) in pair.into_iter().enumerate() {
                let out = &mut out[4 * (2 * l + k) + i];
                // SAFETY: 32 writable bytes.
                unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), hash) }
            }
        }
    }
}

/// The matrices of four by four words in each of the four 128-bit lanes, transposed.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_fours(v: [__m512i; 4]) -> [__m512i; 4] {
    let low: [_; 2] = from_fn(|i| _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]));
    let high: [_; 2] = from_fn(|i| _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    [
        _mm512_unpacklo_epi64(low[0], low[1]),
        _mm512_unpackhi_epi64(low[0], low[1]),
        _mm512_unpacklo_epi64(high[0], high[1]),
        _mm512_unpackhi_epi64(high[0], high[1]),
    ]
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
