//! The two halves of an expand-convolute code (Raghuraman, Rindal and Tanguy, CRYPTO 2023) on rows of
//! several words, over GF(2).
//!
//! A row is `L` words of 64 bits, two or four; vectors that are encoded together share rows, so that each
//! random access fetches all of them.
//!
//! - [`convolve`]: row i is added to row i + 1 + j wherever bit j of its coefficients is set, j below
//!   [`STATE`], and always to row i + 1 + [`STATE`]; rows in ascending order, so that a row passes on what it
//!   has received.
//! - [`expand`]: to each output row, [`WEIGHT`] rows are added, one from each of as many equal parts of
//!   the input.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Backend;
use crate::backend::first_version;

/// Rows after a row to which it is added at random.
pub const STATE: usize = 24;

/// Rows added to each output row.
pub const WEIGHT: usize = 7;

/// Rows after the last that [`convolve`] writes to.
pub const SLACK: usize = STATE + 1;

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => "avx512";
        "x86_64" if x86::available(backend) => "avx2";
        else "portable"
    )
}

/// Adds rows to their successors: all rows but the last [`SLACK`] have coefficients, the low [`STATE`]
/// bits of a word each. Coefficients decide addresses, so they must be public. Long inputs can be given in
/// overlapping pieces, first to last.
///
/// # Panics
/// If `rows.len() != coefficients.len() + SLACK`, or `L` is neither 2 nor 4.
pub fn convolve<const L: usize>(backend: Backend, rows: &mut [[u64; L]], coefficients: &[u32]) {
    assert!(L == 2 || L == 4);
    assert_eq!(rows.len(), coefficients.len() + SLACK);
    first_version!(backend:
        "x86_64" if L == 2 && x86::wide_available(backend) =>
            x86::wide::convolve(rows.as_flattened_mut(), coefficients);
        "x86_64" if x86::available(backend) => x86::narrow::convolve(rows, coefficients);
        else portable::convolve(rows, coefficients)
    )
}

/// Rows that are prefetched.
const AHEAD: usize = 16;

/// `out[i] += Σ_j input[start_j + ⌊random[i][j]·length_j / 2^32⌋]`, part j being the rows from
/// start_j = ⌊j·n / WEIGHT⌋ to the next start. The last word of `random[i]` is not used.
///
/// # Panics
/// If the lengths differ or the input has fewer than [`WEIGHT`] rows or 2^32 or more.
pub fn expand<const L: usize>(input: &[[u64; L]], random: &[[u32; 8]], out: &mut [[u64; L]]) {
    let n = input.len();
    assert!((WEIGHT..1 << 32).contains(&n));
    assert_eq!(random.len(), out.len());
    let parts: [&[[u64; L]]; WEIGHT] =
        std::array::from_fn(|j| &input[j * n / WEIGHT..(j + 1) * n / WEIGHT]);
    let place = |j: usize, r: u32| ((u64::from(r) * parts[j].len() as u64) >> 32) as usize;
    for (i, (random_row, out)) in random.iter().zip(out).enumerate() {
        if let Some(later) = random.get(i + AHEAD) {
            for (j, part) in parts.iter().enumerate() {
                crate::prefetch(part, place(j, later[j]));
            }
        }
        let mut sum = *out;
        for (j, part) in parts.iter().enumerate() {
            for (sum, word) in sum.iter_mut().zip(&part[place(j, random_row[j])]) {
                *sum ^= word;
            }
        }
        *out = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mixer good enough for test inputs.
    fn word(i: u64) -> u64 {
        let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn rows<const L: usize>(n: usize) -> Vec<[u64; L]> {
        (0..n)
            .map(|i| std::array::from_fn(|j| word((i * L + j) as u64)))
            .collect()
    }

    /// What [`convolve`] means, bit by bit.
    fn slow<const L: usize>(rows: &mut [[u64; L]], coefficients: &[u32]) {
        for (i, coefficients) in coefficients.iter().enumerate() {
            for j in (0..STATE).filter(|j| coefficients >> j & 1 == 1) {
                add(rows, i, i + 1 + j);
            }
            add(rows, i, i + 1 + STATE);
        }
    }

    fn add<const L: usize>(rows: &mut [[u64; L]], from: usize, to: usize) {
        let row = rows[from];
        for (word, added) in rows[to].iter_mut().zip(row) {
            *word ^= added;
        }
    }

    fn convolutions_agree<const L: usize>() {
        for n in (0..70).chain([1000]) {
            // Whole words: their high bits mean nothing.
            let coefficients: Vec<u32> = (0..n).map(|i| word(i as u64) as u32).collect();
            let start = rows::<L>(n + SLACK);
            let mut expected = start.clone();
            slow(&mut expected, &coefficients);
            for backend in Backend::ALL {
                let mut rows = start.clone();
                convolve(backend, &mut rows, &coefficients);
                assert_eq!(rows, expected, "{backend:?}, {n}");

                let mut pieces = start.clone();
                let half = n / 2;
                let (first, second) = coefficients.split_at(half);
                convolve(backend, &mut pieces[..half + SLACK], first);
                convolve(backend, &mut pieces[half..], second);
                assert_eq!(pieces, expected, "{backend:?}, {n}");
            }
        }
    }

    #[test]
    fn backends_and_pieces_agree() {
        convolutions_agree::<2>();
        convolutions_agree::<4>();
    }

    #[test]
    fn a_single_row_spreads_as_its_coefficients_say() {
        let mut rows = vec![[0u64; 2]; 1 + SLACK];
        rows[0] = [5, 6];
        convolve(Backend::Best, &mut rows, &[0b101]);
        for (i, row) in rows.iter().enumerate() {
            let reached = [0, 1, 3, SLACK].contains(&i);
            assert_eq!(*row, if reached { [5, 6] } else { [0, 0] });
        }
    }

    #[test]
    fn expansion_adds_one_row_of_each_part() {
        let input = rows::<4>(100);
        let random: Vec<[u32; 8]> = (0..50)
            .map(|i| std::array::from_fn(|j| word(i * 8 + j as u64) as u32))
            .chain([[u32::MAX; 8], [0; 8]])
            .collect();
        let mut out = rows::<4>(52);
        let before = out.clone();
        expand(&input, &random, &mut out);
        for ((random, before), out) in random.iter().zip(before).zip(out) {
            let mut expected = before;
            for (j, random) in random[..WEIGHT].iter().enumerate() {
                let (start, end) = (j * 100 / WEIGHT, (j + 1) * 100 / WEIGHT);
                let at = start + ((u64::from(*random) * (end - start) as u64) >> 32) as usize;
                for (e, word) in expected.iter_mut().zip(input[at]) {
                    *e ^= word;
                }
            }
            assert_eq!(out, expected);
        }
    }
}
