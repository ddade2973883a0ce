//! Rows of 32-bit residues modulo several primes that represent one large number each (a residue number system, RNS):
//! inner products, and division by one of the primes.
//!
//! Time and addresses do not depend on the residues.

use super::ntt::{Factor, below, times};
use super::{Modulus, low};
use crate::Backend;
use crate::backend::first_version;

/// Values that are summed at a time.
const CHUNK: usize = 64;

/// Maximum number of products in [`inner_product`].
pub const MAX_TERMS: usize = 16;

/// Maximum bits of the modulus of [`inner_product`].
pub const MAX_BITS: u32 = 27;

versions! {
    /// `out[i] = Σ a[i]·b[i]` over the pairs of rows, for residues.
    ///
    /// # Panics
    /// If lengths differ, there are more than [`MAX_TERMS`] pairs, or the modulus has more than [`MAX_BITS`] bits.
    pub fn inner_product(modulus: Modulus, terms: &[(&[u32], &[u32])], out: &mut [u32]) {
        let n = out.len();
        assert!(terms.len() <= MAX_TERMS && modulus.bits() <= MAX_BITS);
        assert!(terms.iter().all(|(a, b)| a.len() == n && b.len() == n));
        let (p, bits) = (modulus.get(), modulus.bits());
        // Sums are below 2^(2·bits + 4), so that their part from bit `bits − 1` on fits 32 bits, and the quotient of
        // P. Barrett (CRYPTO 1986) is at most 2 too small.
        let reciprocal = (1 << (bits + 31)) / p;
        let mut sums = [0u64; CHUNK];
        for (chunk, out) in out.chunks_mut(sums.len()).enumerate() {
            let start = chunk * sums.len();
            let sums = &mut sums[..out.len()];
            sums.fill(0);
            for (a, b) in terms {
                let (a, b) = (&a[start..][..sums.len()], &b[start..][..sums.len()]);
                for i in 0..sums.len() {
                    sums[i] += u64::from(a[i]) * u64::from(b[i]);
                }
            }
            for (sum, out) in sums.iter().zip(out) {
                let quotient = (low(*sum >> (bits - 1)) * low(reciprocal)) >> 32;
                let rest = (sum - low(quotient) * low(p)) as u32;
                *out = below(below(rest, 2 * p as u32), p as u32);
            }
        }
    }
}

/// A constant to multiply residues by.
#[derive(Clone, Copy)]
pub struct Multiplier {
    modulus: Modulus,
    factor: Factor<u32>,
}

impl Multiplier {
    /// From a residue.
    ///
    /// # Panics
    /// If it is none, or the modulus has more than [`MAX_BITS`] bits.
    pub fn new(modulus: Modulus, factor: u64) -> Multiplier {
        assert!(factor < modulus.get() && modulus.bits() <= MAX_BITS);
        Multiplier {
            modulus,
            factor: Factor::new(factor, modulus.get()),
        }
    }
}

versions! {
    /// Multiplies residues by a constant.
    pub fn scale(multiplier: &Multiplier, row: &mut [u32]) {
        let (p, Factor(factor, quotient)) = (multiplier.modulus.get() as u32, multiplier.factor);
        for value in row {
            *value = below(times(*value, factor, quotient, p), p);
        }
    }
}

versions! {
    /// The residues modulo p of the integer nearest to x/d, from those of x modulo p, in `row`, and modulo the odd d,
    /// in `last`; `inverse` is 1/d modulo p.
    ///
    /// # Panics
    /// If the lengths differ, or d has more than [`MAX_BITS`] bits.
    pub fn divide(inverse: &Multiplier, d: Modulus, last: &[u32], row: &mut [u32]) {
        let n = row.len();
        assert!(last.len() == n && d.bits() <= MAX_BITS);
        let last = &last[..n];
        let (p, Factor(factor, quotient)) = (inverse.modulus.get() as u32, inverse.factor);
        let d = d.get() as u32;
        let half = d / 2;
        // A multiple of p above d, so that nothing is negative.
        let above = d.next_multiple_of(p);
        for i in 0..n {
            // x + ⌊d/2⌋, less what it is modulo d.
            let rest = below(last[i] + half, d);
            row[i] = below(times(row[i] + half + above - rest, factor, quotient, p), p);
        }
    }
}

versions! {
    /// Counts ones among the lowest `bits` bits of each word, and subtracts half of `bits`: the centred binomial
    /// distribution, if the words are uniform.
    ///
    /// # Panics
    /// If the lengths differ, or `bits` is odd or more than 62.
    pub fn centred_ones(bits: u32, words: &[u64], out: &mut [i32]) {
        let n = out.len();
        assert!(words.len() == n && bits.is_multiple_of(2) && bits <= 62);
        let words = &words[..n];
        let mask = (1 << bits) - 1;
        for i in 0..n {
            out[i] = (words[i] & mask).count_ones() as i32 - (bits / 2) as i32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residues(p: u64, seed: u64, count: usize) -> Vec<u32> {
        let mut state = seed;
        let next = |i: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match i % 7 {
                0 => p as u32 - 1,
                1 => 0,
                _ => ((u128::from(state) * u128::from(p)) >> 64) as u32,
            }
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn inner_products_are_reduced() {
        for p in [65_537, (1 << 26) + 1, (1 << 27) - 1, 3] {
            let modulus = Modulus::new(p);
            for terms in [0, 1, 2, MAX_TERMS] {
                for n in [0, 5, 64, 131] {
                    let rows: Vec<Vec<u32>> = (0..2 * terms)
                        .map(|row| match terms == MAX_TERMS {
                            true => vec![p as u32 - 1; n],
                            false => residues(p, row as u64, n),
                        })
                        .collect();
                    let pairs: Vec<(&[u32], &[u32])> = rows
                        .chunks(2)
                        .map(|pair| (&pair[0][..], &pair[1][..]))
                        .collect();
                    for backend in Backend::ALL {
                        let mut out = vec![9; n];
                        inner_product(backend, modulus, &pairs, &mut out);
                        for (i, out) in out.iter().enumerate() {
                            let sum: u128 = pairs
                                .iter()
                                .map(|(a, b)| u128::from(a[i]) * u128::from(b[i]))
                                .sum();
                            assert_eq!(u128::from(*out), sum % u128::from(p));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn constants_multiply() {
        for p in [3, 65_537, (1 << 27) - 1] {
            for factor in [0, 1, p / 2, p - 1] {
                let multiplier = Multiplier::new(Modulus::new(p), factor);
                let values = residues(p, 4, 101);
                for backend in Backend::ALL {
                    let mut row = values.clone();
                    scale(backend, &multiplier, &mut row);
                    for (out, value) in row.iter().zip(&values) {
                        assert_eq!(u64::from(*out), u64::from(*value) * factor % p);
                    }
                }
            }
        }
    }

    #[test]
    fn quotients_are_rounded() {
        for (p, d) in [
            (94_863_361, 94_781_441),
            (94_781_441, 94_863_361),
            (65_537, 7),
            (7, 65_537),
        ] {
            let modulus = Modulus::new(p);
            let inverse = Multiplier::new(modulus, modulus.power_vartime(d % p, p - 2));
            let near = [
                0,
                1,
                d / 2,
                d / 2 + 1,
                d - 1,
                d,
                p * d - d / 2 - 1,
                p * d - d / 2,
                p * d - 1,
            ];
            let mut numbers = near.to_vec();
            numbers.extend((0..50).map(|i| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i) % (p * d)));
            let last: Vec<u32> = numbers.iter().map(|x| (x % d) as u32).collect();
            for backend in Backend::ALL {
                let mut row: Vec<u32> = numbers.iter().map(|x| (x % p) as u32).collect();
                divide(backend, &inverse, Modulus::new(d), &last, &mut row);
                for (out, x) in row.iter().zip(&numbers) {
                    assert_eq!(u64::from(*out), (x + d / 2) / d % p);
                }
            }
        }
    }

    #[test]
    fn ones_are_counted() {
        let words = [
            0,
            1,
            u64::MAX,
            0b1011 << 38,
            1 << 42,
            0x5555_5555_5555_5555,
            9,
            10,
            11,
        ];
        for backend in Backend::ALL {
            let mut out = [0; 9];
            centred_ones(backend, 42, &words, &mut out);
            assert_eq!(out, [-21, -20, 21, -18, -21, 0, -19, -19, -18]);
        }
    }
}
