//! Prime moduli, and uniform residues from a generator.

use vesica_kernels::residues::{self, MAX_BITS, Modulus};
use zeroize::Zeroizing;

use crate::block::{Block, Prg};

/// The largest prime of exactly `bits` bits that is 1 modulo `step`, if there is one.
///
/// # Panics
/// If `bits` is not in 2..=63, or `step` is 0.
pub fn largest(bits: u32, step: u64) -> Option<Modulus> {
    assert!((2..=MAX_BITS).contains(&bits));
    let first = ((1u64 << bits) - 2) / step * step + 1;
    let mut candidate = first;
    while candidate >> (bits - 1) == 1 {
        if is_prime_vartime(candidate) {
            return Some(Modulus::new(candidate));
        }
        candidate = candidate.checked_sub(step)?;
    }
    None
}

/// The smallest prime of at least `least`, of 2 to 63 bits, that is 1 modulo an even `step`, if there is one.
///
/// # Panics
/// If `step` is odd or 0.
pub fn smallest(least: u64, step: u64) -> Option<Modulus> {
    assert!(step > 0 && step.is_multiple_of(2));
    let first = least.saturating_sub(1).checked_next_multiple_of(step)?;
    let mut candidate = first.max(step).checked_add(1)?;
    while candidate >> MAX_BITS == 0 {
        if is_prime_vartime(candidate) {
            return Some(Modulus::new(candidate));
        }
        candidate = candidate.checked_add(step)?;
    }
    None
}

/// Whether an odd number below 2^63 is prime: the test of Miller and Rabin with the first twelve primes as bases,
/// which is right below 3·10^24 (J. Sorenson, J. Webster, Mathematics of Computation 2017).
fn is_prime_vartime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 || n.is_multiple_of(2) {
        return n == 2;
    }
    if BASES.contains(&n) {
        return true;
    }
    let modulus = Modulus::new(n);
    let twos = (n - 1).trailing_zeros();
    BASES.iter().all(|base| {
        let mut power = modulus.power_vartime(*base % n, (n - 1) >> twos);
        if power == 1 {
            return true;
        }
        for _ in 1..twos {
            if power == n - 1 {
                break;
            }
            power = modulus.times(power, power);
        }
        power == n - 1
    })
}

/// Blocks drawn at a time.
const DRAWN: usize = 64;

/// Fills `out` with independent uniform numbers in `start..end`, each a function of the generator's output and of how
/// many were drawn before: candidates of as many bits as `end − 1` has, those out of range left out.
///
/// # Panics
/// If the range is empty or `end` exceeds 2^63.
pub fn uniform(prg: &mut Prg, start: u64, end: u64, out: &mut [u64]) {
    assert!(start < end && end <= 1 << MAX_BITS);
    let bits = u64::BITS - (end - 1).leading_zeros();
    let width = [16, 32, 64].into_iter().find(|width| *width >= bits);
    let width = width.expect("at most 63 bits");
    let mask = (1 << bits) - 1;
    let mut blocks = Zeroizing::new([0 as Block; DRAWN]);
    let mut candidates = Zeroizing::new([0; DRAWN * 8]);
    let mut kept = Zeroizing::new([0; DRAWN * 8 + 1]);
    let mut filled = 0;
    while filled < out.len() {
        let each = 128 / width as usize;
        // Some more than the share of candidates that is accepted on average.
        let left = (out.len() - filled).min(DRAWN * each) as u128;
        let share = left * u128::from(mask + 1) / u128::from(end - start);
        let drawn = (share as usize / each + 2).min(DRAWN);
        prg.fill(&mut blocks[..drawn]);
        let candidates = &mut candidates[..drawn * each];
        match width {
            16 => spread::<8>(&blocks[..drawn], mask, candidates),
            32 => spread::<4>(&blocks[..drawn], mask, candidates),
            _ => spread::<2>(&blocks[..drawn], mask, candidates),
        }
        let count = residues::select(candidates, start, end, &mut kept[..]);
        let count = count.min(out.len() - filled);
        out[filled..filled + count].copy_from_slice(&kept[..count]);
        filled += count;
    }
}

/// Cuts every block into `N` pieces, lowest first, and keeps the masked bits of each.
fn spread<const N: usize>(blocks: &[Block], mask: u64, out: &mut [u64]) {
    for (out, block) in out.as_chunks_mut::<N>().0.iter_mut().zip(blocks) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = (block >> (i * 128 / N)) as u64 & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_found() {
        let small: Vec<u64> = (0..200).filter(|n| is_prime_vartime(*n)).collect();
        let divided = |n: &u64| *n > 1 && (2..*n).all(|d| !n.is_multiple_of(d));
        assert_eq!(small, (0..200).filter(divided).collect::<Vec<_>>());
        // Strong pseudoprimes to the bases 2, 3, 5 and 7.
        for composite in [3_215_031_751, 3_474_749_660_383, 341_550_071_728_321] {
            assert!(!is_prime_vartime(composite));
        }
        assert_eq!(largest(14, 2).unwrap().get(), 16381);
        assert_eq!(largest(16, 8192).unwrap().get(), 40961);
        assert_eq!(largest(62, 2).unwrap().get(), (1 << 62) - 57);
        assert_eq!(largest(63, 2).unwrap().get(), (1 << 63) - 25);
        assert_eq!(largest(13, 8192), None);
        assert_eq!(largest(2, 2).unwrap().get(), 3);
        for (least, step, prime) in [
            (0, 2, 3),
            (3, 2, 3),
            (4, 2, 5),
            (2, 8192, 40961),
            (40961, 8192, 40961),
            (40962, 8192, 65537),
            ((1 << 62) - 57, 2, (1 << 62) - 57),
        ] {
            assert_eq!(smallest(least, step).unwrap().get(), prime);
        }
        assert_eq!(smallest((1 << 63) - 24, 2), None);
        assert_eq!(smallest(u64::MAX, 2), None);
    }

    #[test]
    fn residues_are_in_range_and_evenly_spread() {
        for (start, end) in [
            (0, 7),
            (1, 5),
            (0, 40961),
            (1, (1 << 40) - 87),
            (3, 4),
            (0, 1 << 62),
        ] {
            let mut out = vec![0; 20_000];
            uniform(&mut Prg::new(5), start, end, &mut out);
            assert!(out.iter().all(|value| (start..end).contains(value)));
            let mean = out.iter().map(|value| (value - start) as f64).sum::<f64>() / 20_000.0;
            let range = (end - start) as f64;
            // Five standard deviations.
            assert!((mean - (range - 1.0) / 2.0).abs() <= 5.0 * range / 12f64.sqrt() / 141.0);
            let mut again = vec![0; 20_000];
            uniform(&mut Prg::new(5), start, end, &mut again);
            assert_eq!(out, again);
        }
        uniform(&mut Prg::new(1), 0, 9, &mut []);
    }
}
