//! Permutation-based hashing (Y. Arbitman, M. Naor, G. Segev, FOCS 2010; for set intersection B. Pinkas, T. Schneider,
//! G. Segev, M. Zohner, USENIX Security 2015): a number's bin says part of what it is, so that only the rest has to be
//! compared there.
//!
//! A function here is a permutation of pairs (bin, suffix), with as many suffixes as numbers of the given width need,
//! and at least sixteen.
//! So two different numbers in one bin have different suffixes there. Where the papers add a hash of the suffix to the
//! bin, which is one round of a Feistel network, these are four rounds, and each function has its own: runs of
//! consecutive numbers, such as addresses or customer numbers, would otherwise stay runs, and tables would overflow
//! that hold random numbers easily.
//!
//! The functions of a number may agree on its bin; [`Parameters::that_may_agree`] allows for it.

use vesica_primitives::block::{Block, Cipher};

use crate::cuckoo::{MAX_HASHES, Parameters};

/// Hash functions, where a protocol does not say how many.
pub const HASHES: usize = 3;

/// Rounds of the Feistel network.
const ROUNDS: u32 = 4;

/// The fewest suffixes: a round changes a bin by a hash of its suffix, so that with few of them a run of numbers would
/// stay a few runs.
const MIN_SUFFIXES: u64 = 16;

/// Numbers hashed together.
const BATCH: usize = 64;

/// The functions of a table: what both sides of a protocol share.
#[derive(Clone)]
pub struct Functions<const K: usize = HASHES> {
    parameters: Parameters,
    suffixes: u64,
    cipher: Cipher,
}

/// Where a number may be: for each function the bin, and there the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Places<const K: usize = HASHES> {
    /// The bins, in the order of the functions; the rest is 0.
    pub bins: [u32; MAX_HASHES],
    /// What is compared in the bin: the suffix, in a range of its own for each function.
    pub values: [u64; K],
}

vesica_primitives::opaque!(Places);

impl<const K: usize> Default for Places<K> {
    fn default() -> Self {
        Places {
            bins: [0; MAX_HASHES],
            values: [0; K],
        }
    }
}

impl<const K: usize> Functions<K> {
    /// The functions of a run, for numbers below 2^`width`.
    ///
    /// # Panics
    /// If there are not `K` functions, or 2^62 suffixes or more.
    pub fn new(parameters: Parameters, width: u32, session: &[u8; 32]) -> Self {
        assert_eq!(parameters.hashes, K);
        let suffixes = suffixes(parameters, width);
        assert!(
            suffixes < 1 << 62,
            "too few bins for numbers of {width} bits"
        );
        Functions {
            parameters,
            suffixes: suffixes as u64,
            cipher: Cipher::public("vesica/1 permuted bins", session),
        }
    }

    /// Their parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// The number of values: all [`Places::values`] are below.
    pub fn values(&self) -> u64 {
        K as u64 * self.suffixes
    }

    /// The places of every number.
    ///
    /// # Panics
    /// If `numbers` and `out` differ in length.
    pub fn places(&self, numbers: &[u128], out: &mut [Places<K>]) {
        assert_eq!(numbers.len(), out.len());
        let bins = self.parameters.bins as u128;
        let mut pairs = [[0u64; 2]; BATCH];
        let mut blocks = [0 as Block; BATCH];
        for (numbers, out) in numbers.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            for function in 0..K {
                let pairs = &mut pairs[..numbers.len()];
                for (pair, number) in pairs.iter_mut().zip(numbers) {
                    *pair = match u64::try_from(*number) {
                        Ok(number) => [number % bins as u64, number / bins as u64],
                        Err(_) => [(number % bins) as u64, (number / bins) as u64],
                    };
                }
                self.permute(function, pairs, &mut blocks[..numbers.len()]);
                for (out, [bin, suffix]) in out.iter_mut().zip(pairs) {
                    out.bins[function] = *bin as u32;
                    out.values[function] = function as u64 * self.suffixes + *suffix;
                }
            }
        }
    }

    /// The permutation of a function: the halves take turns at being changed by a hash of the other.
    fn permute(&self, function: usize, pairs: &mut [[u64; 2]], blocks: &mut [Block]) {
        let moduli = [self.parameters.bins as u64, self.suffixes];
        for round in 0..ROUNDS {
            let (from, to) = (round as usize % 2, 1 - round as usize % 2);
            let tag = (Block::from(round) << 8 | function as Block) << 64;
            for (block, pair) in blocks.iter_mut().zip(&*pairs) {
                *block = tag | Block::from(pair[from]);
            }
            self.cipher.feed_forward(blocks);
            for (pair, block) in pairs.iter_mut().zip(&*blocks) {
                let sum = pair[to] + reduce(*block as u64, moduli[to]);
                pair[to] = sum.min(sum.wrapping_sub(moduli[to]));
            }
        }
    }
}

/// Suffixes of numbers below 2^`width`.
pub fn suffixes(parameters: Parameters, width: u32) -> u128 {
    let needed = (1u128 << width).div_ceil(parameters.bins as u128);
    needed.max(MIN_SUFFIXES.into())
}

/// A number below `bound` from a uniform one.
#[inline(always)]
fn reduce(uniform: u64, bound: u64) -> u64 {
    ((u128::from(uniform) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::Table;
    use std::collections::HashSet;

    fn places(functions: &Functions, numbers: &[u128]) -> Vec<Places> {
        let mut places = vec![Places::default(); numbers.len()];
        functions.places(numbers, &mut places);
        places
    }

    #[test]
    fn a_bin_and_a_value_are_one_number() {
        for (bins, width) in [(10, 8), (300, 8), (7, 12), (4096, 12), (5, 1)] {
            let parameters = Parameters::with_bins(1, HASHES, bins);
            let functions = Functions::new(parameters, width, &[1; 32]);
            let numbers: Vec<u128> = (0..1 << width).collect();
            let mut seen = HashSet::new();
            for places in places(&functions, &numbers) {
                for (bin, value) in places.bins.into_iter().zip(places.values) {
                    assert!((bin as usize) < bins && value < functions.values());
                    assert!(seen.insert((bin, value)));
                }
            }
        }
    }

    #[test]
    fn wide_numbers_differ_and_sessions_do() {
        let parameters = Parameters::that_may_agree(1 << 16, 40).unwrap();
        let of = |session| Functions::new(parameters, 78, &[session; 32]);
        let numbers = [1, 2, 1 << 77, (1 << 78) - 1, u128::from(u64::MAX) + 1];
        let (one, other) = (places(&of(1), &numbers), places(&of(2), &numbers));
        assert_ne!(one, other);
        assert_eq!(one, places(&of(1), &numbers));
    }

    /// As many numbers as bins, nearly, so that there would be two suffixes: a function moves neighbours apart.
    #[test]
    fn runs_that_fill_the_bins_are_broken_up() {
        let parameters = Parameters::with_bins(20_000, HASHES, 25_400);
        let functions = Functions::new(parameters, 15, &[4; 32]);
        assert_eq!(functions.values(), 3 * MIN_SUFFIXES);
        let numbers: Vec<u128> = (0..20_000).collect();
        let places = places(&functions, &numbers);
        for function in 0..HASHES {
            let apart = |pair: &&[Places]| {
                let [a, b] = [pair[0], pair[1]].map(|places| i64::from(places.bins[function]));
                (b - a).rem_euclid(25_400) != 1
            };
            assert!(places.windows(2).filter(apart).count() > 18_000);
        }
    }

    /// Runs of consecutive numbers, and numbers that agree modulo the number of bins or in their upper halves, fill
    /// bins as random ones do: their loads have the variance of a Poisson distribution, and all are placed.
    #[test]
    fn numbers_in_patterns_are_spread() {
        let n = 4000usize;
        let parameters = Parameters::that_may_agree(n, 40).unwrap();
        let functions = Functions::new(parameters, 32, &[3; 32]);
        let bins = parameters.bins;
        let patterns: [Box<dyn Fn(usize) -> u128>; 4] = [
            Box::new(|i| i as u128),
            Box::new(|i| (i / 2 + i % 2 * 0x0800_0000) as u128),
            Box::new(move |i| (i * bins) as u128),
            Box::new(|i| (i as u128) << 16),
        ];
        for pattern in patterns {
            let numbers: Vec<u128> = (0..n).map(pattern).collect();
            let places = places(&functions, &numbers);
            let mut loads = vec![0f64; bins];
            for places in &places {
                for bin in &places.bins[..HASHES] {
                    loads[*bin as usize] += 1.0;
                }
            }
            let mean = (HASHES * n) as f64 / bins as f64;
            let squares = loads.iter().map(|load| (load - mean) * (load - mean));
            let variance = squares.sum::<f64>() / bins as f64;
            assert!(
                (0.85..1.15).contains(&(variance / mean)),
                "{variance} {mean}"
            );
            let bins_of: Vec<_> = places.iter().map(|places| places.bins).collect();
            Table::place(parameters, &bins_of).unwrap();
        }
    }
}
