//! What the noise of silent correlations costs to attack, and why the code has constants.
//!
//! ```text
//! cargo run --release -p vesica-correlations --example lpn
//! ```
//!
//! First the estimates of `vesica_correlations::lpn`, in bits, for each field and size, of dual and of primal LPN; with
//! them the weights that other distances of the code would ask for. Then two experiments: a code with coefficients 0 and
//! 1 over GF(2^64) is told from random by the rank of a few dozen values although no single value is unusual, and the
//! same code with constants is not; and so are the samples of a sparse matrix over GF(16).

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_correlations::bulk::{self, Optimize};
use vesica_correlations::code::DISTANCE_PERCENT;
use vesica_correlations::lpn::primal::{self, Primal, ROW_WEIGHT};
use vesica_correlations::lpn::{ATTACKS, Instance, KAPPA, instances, noise_weight, weight};
use vesica_kernels::Backend;
use vesica_kernels::binary::multiply128;
use vesica_reference::silent::{Constants, encode};

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
    /// Those of the pinned code over GF(2^8).
    Bytes,
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
    let constants = match code {
        Code::Binary => Constants::None,
        Code::Bytes => Constants::Bytes,
        Code::Constants => Constants::Words,
    };
    encode(parity, systematic, constants)
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

/// Secrets of primal LPN, its blocks, and samples of a block.
const SECRETS: usize = 40;

/// Its blocks, with a noise position each.
const BLOCKS: usize = 12;

/// Samples of a block.
const SAMPLES: usize = 10;

/// Halves of the samples that are tried.
const TRIALS: usize = 30;

/// A random element of GF(16), a subfield of GF(2^64): a power of one of order 15, or 0.
fn sixteenth(rng: &mut ChaCha12Rng, least: u32) -> u64 {
    let power = |base: u64, exponent: u64| {
        (0..64).rev().fold(1, |result, bit| {
            let square = product(result, result);
            if exponent >> bit & 1 == 1 {
                product(square, base)
            } else {
                square
            }
        })
    };
    let generator = (2..)
        .map(|element| power(element, u64::MAX / 15))
        .find(|element| power(*element, 5) != 1 && power(*element, 3) != 1)
        .expect("half of the elements");
    match least + rng.next_u32() % (16 - least) {
        0 => 0,
        exponent => power(generator, exponent.into()),
    }
}

/// How many of `trials` random halves of the samples have words of the dual code whose values on the samples are all
/// mapped to 0 by some functional to bits: as many bits as random values have are missing in their rank, four.
fn joint_tests_of_samples(code: Code, trials: usize, seed: u64) -> usize {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let rows: Vec<Vec<u64>> = (0..BLOCKS * SAMPLES)
        .map(|_| {
            let mut row = vec![0; SECRETS];
            for segment in row.chunks_mut(SECRETS / ROW_WEIGHT) {
                let place = rng.next_u32() as usize % segment.len();
                segment[place] = match code {
                    Code::Binary => 1,
                    Code::Bytes | Code::Constants => sixteenth(&mut rng, 1),
                };
            }
            row
        })
        .collect();
    let secrets: Vec<u64> = (0..SECRETS).map(|_| sixteenth(&mut rng, 0)).collect();
    let mut samples: Vec<u64> = rows
        .iter()
        .map(|row| inner_product(row, &secrets))
        .collect();
    for block in samples.chunks_mut(SAMPLES) {
        block[rng.next_u32() as usize % SAMPLES] ^= sixteenth(&mut rng, 0);
    }
    let columns: Vec<usize> = (0..SECRETS).collect();
    let distinguished = (0..trials).filter(|_| {
        let mut chosen: Vec<usize> = (0..rows.len()).collect();
        while chosen.len() > rows.len() / 2 {
            chosen.swap_remove(rng.next_u32() as usize % chosen.len());
        }
        let part: Vec<Vec<u64>> = chosen.iter().map(|i| rows[*i].clone()).collect();
        let values: Vec<u64> = chosen.iter().map(|i| samples[*i]).collect();
        let words = combinations(&part, &columns);
        let values: Vec<u64> = words
            .iter()
            .map(|word| inner_product(word, &values))
            .collect();
        rank(&values) < 4
    });
    distinguished.count()
}

/// Primal LPN of every extension of the sources in bulk, and the bits of each attack on it.
fn primal_estimates() -> Vec<String> {
    let mut rows = Vec::new();
    for bits in [1, 3, 4] {
        let mut seen = Vec::new();
        for (log, optimize) in
            (8..=26).flat_map(|log| [Optimize::Time, Optimize::Traffic].map(|o| (log, o)))
        {
            let sizes = match bits {
                1 => bulk::sizes(1 << log, optimize),
                _ => bulk::subfield::sizes(bits, 1 << log, optimize),
            };
            for size in sizes {
                if seen.contains(&size.depth) {
                    continue;
                }
                seen.push(size.depth);
                let instance = Primal {
                    field_bits: bits,
                    coefficient_bits: bits,
                    secrets: size.base(),
                    weight: size.trees(),
                    block: size.leaves(),
                };
                let mut row = format!(
                    "2^{log}…    GF({:<2})  {:<6}  {:<4}  {:<4}",
                    1 << bits,
                    instance.secrets,
                    instance.weight,
                    instance.block
                );
                for attack in primal::ATTACKS {
                    row += &format!("  {:>11}", instance.cost(attack).log2());
                }
                rows.push(row);
            }
        }
    }
    rows
}

/// Dual LPN over each field, of the shortest chunk, a middle one and the longest, and the bits of each attack on it.
fn dual_estimates() -> Vec<String> {
    let mut rows = Vec::new();
    let pinned = [1, 64, 72, 128].into_iter();
    let pinned = pinned.flat_map(|of| instances(of).iter().map(move |pair| (of, *pair)));
    for (of, (bits, coefficients)) in pinned.chain([(64, (64, 1)), (128, (128, 1))]) {
        let weight = noise_weight(of, 1);
        for entries in [1 << 12, 1 << 16, weight / 2 * BLOCK] {
            let instance = Instance {
                entries,
                positions: 2 * entries,
                weight,
                field_bits: bits,
                coefficient_bits: coefficients,
                distance_percent: DISTANCE_PERCENT,
            };
            let mut row =
                format!("GF(2^{bits:<3})  GF(2^{coefficients:<2})      {weight:<4} {entries:<7}");
            for attack in ATTACKS {
                row += &format!("  {:>16}", (attack.cost)(&instance).log2());
            }
            rows.push(row);
        }
    }
    rows
}

fn print_estimates() {
    println!("Bit operations of each attack, log₂, at a distance of {DISTANCE_PERCENT} %\n");
    let names = ATTACKS.map(|attack| format!("  {:>16}", attack.name));
    println!("field     coefficients  t    entries{}", names.concat());
    println!("{}", dual_estimates().join("\n"));
    println!("\nSources");
    for attack in ATTACKS {
        println!("- {}: {}", attack.name, attack.source);
    }
    println!("\nWeights for other distances: GF(2), GF(2^64), GF(2^8)^9, GF(2^128)");
    for percent in [11, 15, 20] {
        let weights = [1, 64, 72, 128].map(|bits| {
            let of =
                |(field, coefficients): &(u32, u32)| weight(*field, *coefficients, percent, KAPPA);
            instances(bits).iter().map(of).max()
        });
        println!("{percent} %: {weights:?}");
    }
    println!("\nPrimal LPN with ten elements per row: k secrets, t blocks of b samples\n");
    let names = primal::ATTACKS.map(|attack| format!("  {:>11}", attack.name));
    println!("entries  field    k       t     b   {}", names.concat());
    println!("{}", primal_estimates().join("\n"));
}

fn main() {
    print_estimates();
    println!(
        "\nJoint tests: {ENTRIES} entries over GF(2^64), {WEIGHT} noise positions of {}, values of {WORDS} words",
        2 * ENTRIES
    );
    for code in [Code::Binary, Code::Bytes, Code::Constants] {
        let [noise, random] = joint_test(code, 1);
        println!(
            "{code:?}: rank {} and {} zeros; a random vector has rank {} and {} zeros",
            noise.rank, noise.zeros, random.rank, random.zeros
        );
    }
    println!(
        "\nJoint tests: {} samples over GF(16), {BLOCKS} noise positions, values of words on half of the samples",
        BLOCKS * SAMPLES
    );
    for code in [Code::Binary, Code::Constants] {
        let distinguished = joint_tests_of_samples(code, TRIALS, 1);
        println!("{code:?}: {distinguished} of {TRIALS} halves are unlike random values");
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
            assert_eq!(joint_test(Code::Bytes, seed), [RANDOM, RANDOM]);
        }
    }

    /// Fifteen functionals, each of which maps the noise in half of the samples to 0 with probability (3/4)^12: one half in
    /// two is distinguished. With coefficients, all noise has to be 0 there: one half in two thousand.
    #[test]
    fn samples_of_a_binary_matrix_are_told_from_random_together() {
        for seed in 0..3 {
            let binary = joint_tests_of_samples(Code::Binary, TRIALS, seed);
            assert!((TRIALS / 5..TRIALS).contains(&binary), "{binary}");
            assert_eq!(joint_tests_of_samples(Code::Constants, TRIALS, seed), 0);
        }
    }

    /// Every row that is printed: an estimate that moves is looked at.
    #[test]
    #[rustfmt::skip]
    fn every_row_is_pinned() {
        assert_eq!(dual_estimates(), [
            "GF(2^1  )  GF(2^1 )      300  4096                  154               850               313               146               283               260               142",
            "GF(2^1  )  GF(2^1 )      300  65536                 154               212               317               146               315               298               198",
            "GF(2^1  )  GF(2^1 )      300  614400                154               128               320               146               320               299               244",
            "GF(2^64 )  GF(2^64)      546  4096                  128              2450               559               206               559               546               145",
            "GF(2^64 )  GF(2^64)      546  65536                 128               454               563               206               563               546               199",
            "GF(2^64 )  GF(2^64)      546  1118208               128               232               567               206               567               546               256",
            "GF(2^72 )  GF(2^8 )      546  4096                  128              2450               483               154               559               546               145",
            "GF(2^72 )  GF(2^8 )      546  65536                 128               454               487               154               563               546               199",
            "GF(2^72 )  GF(2^8 )      546  1118208               128               232               492               154               567               546               256",
            "GF(2^8  )  GF(2^8 )      546  4096                  128              2450               559               218               559               546               145",
            "GF(2^8  )  GF(2^8 )      546  65536                 128               454               563               218               563               546               199",
            "GF(2^8  )  GF(2^8 )      546  1118208               128               232               567               218               567               546               256",
            "GF(2^128)  GF(2^64)      546  4096                  128              2450               430               142               559               546               145",
            "GF(2^128)  GF(2^64)      546  65536                 128               454               434               142               563               546               199",
            "GF(2^128)  GF(2^64)      546  1118208               128               232               439               142               567               546               256",
            "GF(2^64 )  GF(2^1 )      546  4096                  128              2450               175               206               559               546               145",
            "GF(2^64 )  GF(2^1 )      546  65536                 128               454               179               206               563               546               199",
            "GF(2^64 )  GF(2^1 )      546  1118208               128               232               183               206               567               546               256",
            "GF(2^128)  GF(2^1 )      546  4096                  128              2450               111               142               559               546               145",
            "GF(2^128)  GF(2^1 )      546  65536                 128               454               115               142               563               546               199",
            "GF(2^128)  GF(2^1 )      546  1118208               128               232               119               142               567               546               256",
        ]);
        assert_eq!(primal_estimates(), [
            "2^15…    GF(2 )  20480   1280  128           138          138          152          138          163",
            "2^18…    GF(2 )  163840  2560  1024          132          132          148          132          150",
            "2^20…    GF(2 )  327680  3072  2048          129          129          147          129          147",
            "2^18…    GF(8 )  163840  1536  1024          129          224          146          129          170",
            "2^20…    GF(8 )  327680  1536  2048          129          224          147          129          159",
            "2^18…    GF(16)  163840  2048  1024          131          209          148          131          180",
            "2^20…    GF(16)  327680  2048  2048          131          209          149          131          177",
        ]);
    }
}
