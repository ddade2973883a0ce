//! The linear code behind silent correlations, pinned.
//!
//! **Paper.** S. Raghuraman, P. Rindal, T. Tanguy, *Expand-Convolute Codes for Pseudorandom Correlation
//! Generators from LPN*, CRYPTO 2023 (RRT23).
//!
//! **Parameters.** Rate 1/2; systematic; expander of weight 7, one position from each of seven equal
//! parts; convolution with 24 random coefficients and a last one that is always 1, run twice and around
//! the end: the setting called `ExConv7x24` in the authors' library libOTe. An encoding of noise
//! (e, f), both of the code's dimension, is e + Expand(Convolve²(f)).
//!
//! **Distance.** The convolution run twice and wrapped around keeps a word that the expander puts into a
//! small region from staying light. libOTe takes 0.15 as the relative distance that nobody finds a
//! lighter word below ([`DISTANCE_PERCENT`]); for comparison, 0.11 is the Gilbert-Varshamov distance at this
//! rate. No proof covers these exact parameters: it is an estimate that the security of every silent
//! correlation rests on.
//!
//! Coefficients and positions come from AES in counter mode under a fixed public key: one code for
//! everybody, as the assumption has it.

use std::sync::LazyLock;

use vesica_kernels::Backend;
use vesica_kernels::code::{SLACK, convolve, expand};
use vesica_primitives::block::{Block, Cipher};

/// Relative minimum distance, in percent; see the module.
pub const DISTANCE_PERCENT: u32 = 15;

/// Rows whose randomness is made at a time.
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

/// Rows that the parity half needs beyond its length.
pub(crate) const EXTRA: usize = SLACK;

/// Convolve²: replaces the parity half. The last [`EXTRA`] rows are working space and start as zeros.
pub(crate) fn convolve_twice<const L: usize>(rows: &mut [[u64; L]]) {
    let n = rows.len() - EXTRA;
    let mut blocks = [0; PIECE / 4];
    for pass in 0..2 {
        for start in (0..n).step_by(PIECE) {
            let end = (start + PIECE).min(n);
            random(pass, start / 4, &mut blocks);
            let coefficients: &[u32] = bytemuck::must_cast_slice(&blocks);
            let mut coefficients = coefficients[..end - start].to_vec();
            coefficients.iter_mut().for_each(|c| *c >>= 8);
            convolve(Backend::Best, &mut rows[start..end + EXTRA], &coefficients);
        }
        // What went beyond the end comes back at the start.
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

    /// The code written out, without batches.
    fn slow(parity: &[[u64; 2]], systematic: &[[u64; 2]]) -> Vec<[u64; 2]> {
        let add = |a: &mut [u64; 2], b: [u64; 2]| {
            a[0] ^= b[0];
            a[1] ^= b[1];
        };
        let n = parity.len();
        let word = |domain: u128, i: usize| {
            let mut block = [0];
            random(domain, i / 4, &mut block);
            (block[0] >> (32 * (i % 4))) as u32
        };
        let mut rows = parity.to_vec();
        for pass in 0..2 {
            for i in 0..n {
                let bits = word(pass, i) >> 8 | 1 << 24;
                let row = rows[i];
                let mut wrapped = Vec::new();
                for j in 0..25 {
                    if bits >> j & 1 == 1 {
                        match rows.get_mut(i + 1 + j) {
                            Some(target) => add(target, row),
                            None => wrapped.push(i + 1 + j - n),
                        }
                    }
                }
                for i in wrapped {
                    add(&mut rows[i], row);
                }
            }
        }
        let mut out = systematic.to_vec();
        for (i, out) in out.iter_mut().enumerate() {
            for j in 0..7 {
                let (start, end) = (j * n / 7, (j + 1) * n / 7);
                let r = u64::from(word(2, 8 * i + j));
                add(
                    out,
                    rows[start + ((r * (end - start) as u64) >> 32) as usize],
                );
            }
        }
        out
    }

    #[test]
    fn encoding_follows_its_definition() {
        for (n, k) in [(64, 50), (1500, 1300), (2048, 2048)] {
            let mut words = vec![0; n + k];
            random(9, 0, &mut words);
            let rows: Vec<[u64; 2]> = words
                .iter()
                .map(|w| [*w as u64, (*w >> 64) as u64])
                .collect();
            let expected = slow(&rows[..n], &rows[n..]);
            let mut parity = rows[..n].to_vec();
            parity.resize(n + EXTRA, [0; 2]);
            convolve_twice(&mut parity);
            let mut out = rows[n..].to_vec();
            let (a, b) = out.split_at_mut(17);
            add_expanded(&parity[..n], 0, a);
            add_expanded(&parity[..n], 17, b);
            assert_eq!(out, expected);
        }
    }

    /// Low-weight noise must not give low-weight words: the lightest of single and double positions.
    #[test]
    fn light_noise_is_spread() {
        let n = 2000;
        for position in [0, 1, n / 2, n - 2, n - 1] {
            let mut rows = vec![[0u64; 2]; n + EXTRA];
            rows[position] = [1, 2];
            convolve_twice(&mut rows);
            let heavy = rows[..n].iter().filter(|r| r[0] == 1).count();
            assert!((n / 3..2 * n / 3).contains(&heavy), "{position}: {heavy}");
        }
    }
}
