//! What the noise of silent correlations costs to attack, and why the code has constants.
//!
//! ```text
//! cargo run --release -p vesica-correlations --example lpn
//! ```
//!
//! First the estimates of `vesica_correlations::lpn`, in bits, for each field and size; with them the weights that
//! other distances of the code would ask for. Then an experiment: a code with coefficients 0 and 1 over GF(2^64) is
//! told from random by the rank of a few dozen values although no single value is unusual, and the same code with
//! constants is not.

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_correlations::code::DISTANCE_PERCENT;
use vesica_correlations::lpn::{ATTACKS, Instance, coefficient_bits, noise_weight, weight};
use vesica_kernels::Backend;
use vesica_kernels::binary::multiply128;
use vesica_reference::silent::encode;

/// Entries of a block of the longest chunk.
const BLOCK: usize = 1 << 12;

/// Entries of the toy's vector; the noise has twice as many positions.
const ENTRIES: usize = 120;

/// Noise positions of the toy: blocks of six.
const WEIGHT: usize = 40;

/// Words of the dual code that a region is to hold.
const WORDS: usize = 80;

/// The coefficients of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// 0 and 1.
    Binary,
    /// Those of the pinned code over GF(2^64).
    Constants,
}

fn product(a: u64, b: u64) -> u64 {
    multiply128(Backend::Best, a.into(), b.into()) as u64
}

/// a^(2^64 − 2).
fn inverse(a: u64) -> u64 {
    let (mut power, mut result) = (a, 1);
    for _ in 1..64 {
        power = product(power, power);
        result = product(result, power);
    }
    result
}

fn inner_product(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum ^ product(*a, *b))
}

/// The matrix that noise is multiplied by: a row for each entry, a column for each position.
fn matrix(code: Code) -> Vec<Vec<u64>> {
    let unit = |i: usize| {
        let mut unit = vec![0; 2 * ENTRIES];
        unit[i] = 1;
        unit
    };
    let units: Vec<Vec<u128>> = (0..2 * ENTRIES).map(unit).collect();
    let (systematic, parity) = units.split_at(ENTRIES);
    encode(parity, systematic, code == Code::Constants)
        .into_iter()
        .map(|row| row.into_iter().map(|c| c as u64).collect())
        .collect()
}

/// A basis of the vectors w for which the combination w of the matrix's rows is 0 in the given columns.
fn combinations(matrix: &[Vec<u64>], columns: &[usize]) -> Vec<Vec<u64>> {
    let mut equations: Vec<Vec<u64>> = columns
        .iter()
        .map(|column| matrix.iter().map(|row| row[*column]).collect())
        .collect();
    let mut pivots = Vec::new();
    for unknown in 0..matrix.len() {
        let done = pivots.len();
        let Some(found) = (done..equations.len()).find(|i| equations[*i][unknown] != 0) else {
            continue;
        };
        equations.swap(done, found);
        let factor = inverse(equations[done][unknown]);
        let pivot: Vec<u64> = equations[done]
            .iter()
            .map(|c| product(*c, factor))
            .collect();
        for equation in &mut equations {
            let factor = equation[unknown];
            for (c, p) in equation.iter_mut().zip(&pivot) {
                *c ^= product(factor, *p);
            }
        }
        equations[done] = pivot;
        pivots.push(unknown);
    }
    (0..matrix.len())
        .filter(|unknown| !pivots.contains(unknown))
        .map(|free| {
            let mut solution = vec![0; matrix.len()];
            solution[free] = 1;
            for (equation, pivot) in equations.iter().zip(&pivots) {
                solution[*pivot] = equation[free];
            }
            solution
        })
        .collect()
}

/// The rank of words as vectors over GF(2).
fn rank(words: &[u64]) -> usize {
    let mut basis: Vec<u64> = Vec::new();
    for word in words {
        let rest = basis.iter().fold(*word, |rest, b| rest.min(rest ^ b));
        if rest != 0 {
            basis.push(rest);
        }
    }
    basis.len()
}

/// What a joint test makes of a vector.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Values that are 0, each of which a single test would have noticed.
    zeros: usize,
    /// Rank of all values, at most 64.
    rank: usize,
}

/// Values of words of the dual code that a random region holds, at what the code makes of noise and at a random
/// vector.
fn joint_test(code: Code, seed: u64) -> [Outcome; 2] {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let matrix = matrix(code);
    let mut noise = vec![0; 2 * ENTRIES];
    for block in noise.chunks_mut(2 * ENTRIES / WEIGHT) {
        let position = rng.next_u32() as usize % block.len();
        block[position] = rng.next_u64() | 1;
    }
    let from_noise: Vec<u64> = matrix
        .iter()
        .map(|row| inner_product(row, &noise))
        .collect();
    let random: Vec<u64> = (0..ENTRIES).map(|_| rng.next_u64()).collect();
    let mut outside: Vec<usize> = (0..2 * ENTRIES).collect();
    while outside.len() > ENTRIES - WORDS {
        outside.swap_remove(rng.next_u32() as usize % outside.len());
    }
    let words = combinations(&matrix, &outside);
    [from_noise, random].map(|vector| {
        let values: Vec<u64> = words.iter().map(|w| inner_product(w, &vector)).collect();
        Outcome {
            zeros: values.iter().filter(|value| **value == 0).count(),
            rank: rank(&values),
        }
    })
}

fn estimates() {
    println!("Bit operations of each attack, log₂, at a distance of {DISTANCE_PERCENT} %\n");
    print!("field     coefficients  t    entries");
    ATTACKS
        .iter()
        .for_each(|attack| print!("  {:>16}", attack.name));
    println!();
    for (bits, coefficients) in [1, 64, 128]
        .map(|bits| (bits, coefficient_bits(bits)))
        .into_iter()
        .chain([(64, 1), (128, 1)])
    {
        let weight = noise_weight(bits);
        for entries in [1 << 12, 1 << 16, weight / 2 * BLOCK] {
            let instance = Instance {
                entries,
                positions: 2 * entries,
                weight,
                field_bits: bits,
                coefficient_bits: coefficients,
                distance_percent: DISTANCE_PERCENT,
            };
            print!("GF(2^{bits:<3})  GF(2^{coefficients:<2})      {weight:<4} {entries:<7}");
            for attack in ATTACKS {
                print!("  {:>16}", (attack.cost)(&instance).log2());
            }
            println!();
        }
    }
    println!("\nSources");
    for attack in ATTACKS {
        println!("- {}: {}", attack.name, attack.source);
    }
    println!("\nWeights for other distances: GF(2), GF(2^64), GF(2^128)");
    for percent in [11, 15, 20] {
        let weights = [1, 64, 128].map(|bits| weight(bits, coefficient_bits(bits), percent));
        println!("{percent} %: {weights:?}");
    }
}

fn main() {
    estimates();
    println!(
        "\nJoint tests: {ENTRIES} entries over GF(2^64), {WEIGHT} noise positions of {}, values of {WORDS} words",
        2 * ENTRIES
    );
    for code in [Code::Binary, Code::Constants] {
        let [noise, random] = joint_test(code, 1);
        println!(
            "{code:?}: rank {} and {} zeros; a random vector has rank {} and {} zeros",
            noise.rank, noise.zeros, random.rank, random.zeros
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: Outcome = Outcome { zeros: 0, rank: 64 };

    #[test]
    fn planes_of_a_binary_code_are_told_from_random_together() {
        for seed in 0..3 {
            let [noise, random] = joint_test(Code::Binary, seed);
            assert_eq!(random, RANDOM);
            assert!(noise.rank <= WEIGHT, "{noise:?}");
        }
    }

    #[test]
    fn constants_leave_nothing_to_joint_tests() {
        for seed in 0..3 {
            assert_eq!(joint_test(Code::Constants, seed), [RANDOM, RANDOM]);
        }
    }
}
