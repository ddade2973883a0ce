//! The linear code behind silent correlations, pinned.
//!
//! **Paper.** S. Raghuraman, P. Rindal, T. Tanguy, *Expand-Convolute Codes for Pseudorandom Correlation
//! Generators from LPN*, CRYPTO 2023 (RRT23).
//!
//! **Parameters.** Rate 1/2; systematic; expander of weight 7, one position from each of seven equal parts;
//! convolution with 24 random coefficients and a last one that is always 1, run twice and wrapped around the
//! end: the setting called `ExConv7x24` in the authors' library libOTe. The encoding of noise (e, f), both of
//! the code's dimension, is e + Expand(Convolve(D·Convolve(f))).
//!
//! **Constants.** D is a diagonal matrix of public constants. Over GF(2) it is 1. Over GF(2^64) and GF(2^128)
//! each row has a random constant of GF(2^64) other than 0. Without it all coefficients are 0 or 1, the bits
//! of an element never mix, and the code consists of as many codes over GF(2) as an element has bits, with
//! one common noise support. Joint tests of these planes are cheaper than any single test ([`crate::lpn`] has
//! the estimate, and `examples/lpn.rs` the experiment). With D, words that meet noise of both halves leave only two planes,
//! those of GF(2^128) over GF(2^64): a joint test on a generic set of positions gains at most a factor of 2^64 on an advantage
//! of 2^-t. So constants of GF(2^64) serve both fields; they cost two thirds of those of GF(2^128), and vectors over GF(2^64)
//! stay in their field. Vectors over GF(2^64) + GF(2^8)·u have constants of GF(2^8), uniform but for 0, and nine planes over
//! it. Words that the expander maps to 0 are over GF(2) whatever the constants are, and meet the noise of the systematic half
//! alone: [`crate::lpn::kernel_words`].
//!
//! **Distance.** The convolution run twice and wrapped around keeps a word that the expander puts into a
//! small region from staying light. We assume a relative distance of 0.15 ([`DISTANCE_PERCENT`]), as libOTe
//! did when we pinned the code; it says 0.25 now, which takes fewer noise positions. Ours is an *estimate*, on
//! which the security of every silent correlation rests; no proof covers these exact parameters. For
//! comparison, 0.11 is the Gilbert-Varshamov distance of binary codes of this rate: lighter words do not exist
//! in most codes. The estimate does not mean that nobody finds a lighter word. Words that are 0 on long gaps of
//! the parity half take 50 linear conditions per gap, and with four intervals and some 200 rows of the pinned
//! code one of relative weight 0.1433 was found with constants (n = 1 118 208), one of 0.0802 for bits (n = 512
//! 000). They do not break regular noise, since they cover whole blocks and each block has a noise position.
//! **Security rests on noise in contiguous regular blocks; noise of any other shape must not be used with this
//! code.** Such words with a gap in every block are a separate attack: [`crate::lpn::structured_words`].
//!
//! Coefficients, constants and positions come from AES in counter mode under a fixed public key: one code for
//! everybody, as in the assumption.

use std::sync::LazyLock;

use vesica_kernels::Backend;
use vesica_kernels::binary::scale_groups;
use vesica_kernels::code::{SLACK, convolve, expand};
use vesica_primitives::block::{Block, Cipher};

use crate::field::{Coefficients, byte_element};

/// Relative weight of the words assumed in the single test, in percent: an estimate, see the module.
pub const DISTANCE_PERCENT: u64 = 15;

/// Rows whose randomness is generated at a time.
const PIECE: usize = 1 << 10;

/// The generator of the code: domain and index to random bits.
static GENERATOR: LazyLock<Cipher> =
    LazyLock::new(|| Cipher::public("vesica/1 expand-convolute code 7x24", &[0; 32]));

/// Random blocks number `first` … of a domain.
fn random(domain: u128, first: usize, blocks: &mut [Block]) {
    for (i, block) in blocks.iter_mut().enumerate() {
        *block = domain << 64 | (first + i) as u128;
    }
    GENERATOR.encrypt(blocks);
}

/// Multiplies rows number `first` …, an even number, by their constants, if there are any.
fn multiply_by_constants<const L: usize>(
    rows: &mut [[u64; L]],
    first: usize,
    coefficients: Coefficients,
) {
    let mut blocks = [0; PIECE / 2];
    for (piece, rows) in rows.chunks_mut(PIECE).enumerate() {
        random(3, (first + piece * PIECE) / 2, &mut blocks);
        let constants: &mut [u64] = bytemuck::must_cast_slice_mut(&mut blocks);
        let constants = &mut constants[..rows.len()];
        // 0 has no inverse.
        match coefficients {
            Coefficients::Bits => return,
            Coefficients::Bytes => constants
                .iter_mut()
                .for_each(|c| *c = byte_element(1 + (*c % 255) as u8)),
            // The least of the other constants takes its place.
            Coefficients::Words => constants.iter_mut().for_each(|c| *c |= u64::from(*c == 0)),
        }
        let (elements, _) = rows.as_flattened_mut().as_chunks_mut::<2>();
        scale_groups(Backend::Best, elements, constants);
    }
}

/// Rows that the parity half needs beyond its length.
pub(crate) const EXTRA: usize = SLACK;

/// Convolve·D·Convolve: replaces the parity half. The last [`EXTRA`] rows are working space and start as zeros.
pub(crate) fn convolve_twice<const L: usize>(rows: &mut [[u64; L]], coefficients: Coefficients) {
    let n = rows.len() - EXTRA;
    let mut blocks = [0; PIECE / 4];
    for pass in 0..2 {
        let mut multiplied = 0;
        for start in (0..n).step_by(PIECE) {
            let end = (start + PIECE).min(n);
            if pass == 1 {
                // Rows get their constant before the second convolution adds anything to them.
                let ahead = (end + EXTRA).next_multiple_of(2).min(n);
                let rows = &mut rows[multiplied..ahead];
                multiply_by_constants(rows, multiplied, coefficients);
                multiplied = ahead;
            }
            random(pass, start / 4, &mut blocks);
            let coefficients: &[u32] = bytemuck::must_cast_slice(&blocks);
            let mut coefficients = coefficients[..end - start].to_vec();
            coefficients.iter_mut().for_each(|c| *c >>= 8);
            convolve(Backend::Best, &mut rows[start..end + EXTRA], &coefficients);
        }
        // What went beyond the end wraps around to the start.
        for i in 0..EXTRA {
            let beyond = std::mem::replace(&mut rows[n + i], [0; L]);
            for (row, word) in rows[i % n].iter_mut().zip(beyond) {
                *row ^= word;
            }
        }
    }
}

/// Adds to `out` rows number `first` … of Expand(`parity`), the parity half without its extra rows.
pub(crate) fn add_expanded<const L: usize>(
    parity: &[[u64; L]],
    first: usize,
    out: &mut [[u64; L]],
) {
    let mut blocks = [[0; 2]; PIECE];
    for (piece, out) in out.chunks_mut(PIECE).enumerate() {
        let blocks: &mut [[Block; 2]] = &mut blocks[..out.len()];
        random(2, 2 * (first + piece * PIECE), blocks.as_flattened_mut());
        expand(parity, bytemuck::must_cast_slice(blocks), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use vesica_reference::silent::{Constants, encode};

    const ALL: [(Coefficients, Constants); 3] = [
        (Coefficients::Bits, Constants::None),
        (Coefficients::Bytes, Constants::Bytes),
        (Coefficients::Words, Constants::Words),
    ];

    #[test]
    fn encoding_follows_its_definition() {
        for (n, k) in [(64, 50), (1500, 1300), (2048, 2048)] {
            for (coefficients, constants) in ALL {
                let mut words = vec![0; n + k];
                random(9, 0, &mut words);
                let elements: Vec<Vec<Block>> = words.iter().map(|word| vec![*word]).collect();
                let expected = encode(&elements[..n], &elements[n..], constants);
                let rows: Vec<[u64; 2]> = bytemuck::cast_slice(&words).to_vec();
                let mut parity = rows[..n].to_vec();
                parity.resize(n + EXTRA, [0; 2]);
                convolve_twice(&mut parity, coefficients);
                let mut out = rows[n..].to_vec();
                let (a, b) = out.split_at_mut(17);
                add_expanded(&parity[..n], 0, a);
                add_expanded(&parity[..n], 17, b);
                let out: Vec<Block> = out.iter().map(|row| bytemuck::must_cast(*row)).collect();
                assert_eq!(out, expected.concat());

                // Two elements in a row have the same coefficients.
                let mut pairs: Vec<[u64; 4]> = rows[..n]
                    .iter()
                    .map(|[a, b]| [*a, *b, *b, *a])
                    .chain([[0; 4]; EXTRA])
                    .collect();
                convolve_twice(&mut pairs, coefficients);
                let mut swapped: Vec<[u64; 2]> = rows[..n].iter().map(|[a, b]| [*b, *a]).collect();
                swapped.resize(n + EXTRA, [0; 2]);
                convolve_twice(&mut swapped, coefficients);
                for ((pair, one), other) in pairs.iter().zip(&parity).zip(&swapped) {
                    assert_eq!(*pair, [one[0], one[1], other[0], other[1]]);
                }
            }
        }
    }

    #[test]
    fn published_vectors() {
        let text = include_str!("../../../vectors/silent.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        let constants = vectors["constants"].as_array().unwrap();
        for case in constants {
            let row = case["row"].as_u64().unwrap() as usize;
            for (of, coefficients) in [
                ("constant", Coefficients::Words),
                ("byte", Coefficients::Bytes),
            ] {
                let mut rows = [[1, 0]; 2];
                multiply_by_constants(&mut rows, row / 2 * 2, coefficients);
                assert_eq!(hex(&rows[row % 2][0].to_le_bytes()), case[of]);
            }
        }
        let half = |name: &str| -> Vec<[u64; 2]> {
            (0..1100)
                .map(|i| {
                    let digest = blake3::hash(format!("{name} {i}").as_bytes());
                    bytemuck::pod_read_unaligned(&digest.as_bytes()[..16])
                })
                .collect()
        };
        let encodings = vectors["encodings"].as_array().unwrap();
        assert_eq!(encodings.len(), ALL.len());
        for (case, (coefficients, _)) in encodings.iter().zip(ALL) {
            let name = format!("{coefficients:?}");
            assert_eq!(case["coefficients"], name.to_lowercase());
            let (mut parity, mut out) = (half("parity"), half("systematic"));
            parity.resize(1100 + EXTRA, [0; 2]);
            convolve_twice(&mut parity, coefficients);
            add_expanded(&parity[..1100], 0, &mut out);
            let digest = blake3::hash(bytemuck::cast_slice(&out));
            assert_eq!(hex(digest.as_bytes()), case["blake3"]);
        }
        assert_eq!(constants.len(), 6);
    }

    /// What `lpn::kernel_words` counts on: some e^-7 of the inputs are used by no output, so that combinations of outputs need
    /// not depend on the parity half.
    #[test]
    fn some_inputs_of_the_expander_are_unused() {
        let n = 1 << 14;
        // Every input by itself, as a bit of one of many words.
        let mut unused = 0;
        for first in (0..n).step_by(128) {
            let mut parity = vec![[0u64; 2]; n];
            for i in 0..128 {
                parity[first + i][i / 64] = 1 << (i % 64);
            }
            let mut out = vec![[0u64; 2]; n];
            add_expanded(&parity, 0, &mut out);
            let used = out.iter().fold(0, |used, row| {
                used | bytemuck::must_cast::<[u64; 2], Block>(*row)
            });
            unused += used.count_zeros();
        }
        // 14.9 are expected.
        assert!((4..30).contains(&unused), "{unused}");
    }

    /// Low-weight noise must not give low-weight words: the lightest of single and double positions.
    #[test]
    fn light_noise_is_spread() {
        let n = 2000;
        for position in [0, 1, n / 2, n - 2, n - 1] {
            let mut rows = vec![[0u64; 2]; n + EXTRA];
            rows[position] = [1, 2];
            convolve_twice(&mut rows, Coefficients::Bits);
            let heavy = rows[..n].iter().filter(|r| r[0] == 1).count();
            assert!((n / 3..2 * n / 3).contains(&heavy), "{position}: {heavy}");
        }
    }

    /// A word with one noise value has as many different elements as rows, unless it has no constants.
    #[test]
    fn constants_mix_the_bits_of_an_element() {
        let n = 2000;
        for (coefficients, most) in [
            (Coefficients::Bits, 2),
            (Coefficients::Bytes, 256),
            (Coefficients::Words, n),
        ] {
            let mut rows = vec![[0u64; 2]; n + EXTRA];
            rows[0] = [1, 2];
            convolve_twice(&mut rows, coefficients);
            let values: HashSet<[u64; 2]> = rows[..n].iter().copied().collect();
            assert!((most * 9 / 10..=most).contains(&values.len()));
        }
    }
}
