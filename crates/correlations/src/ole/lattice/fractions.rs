//! Numbers modulo q as fractions of q: multiples of 2^-192·q, least significant limb first.

use vesica_primitives::block::{Block, Prg};
use zeroize::Zeroizing;

/// Limbs of 64 bits of a fraction.
pub const LIMBS: usize = 3;

/// Fractions whose floods are drawn at a time.
const CHUNK: usize = 128;

/// A fraction of q, in units of 2^-192·q.
pub type Fraction = [u64; LIMBS];

/// The coefficients of a polynomial, wiped when dropped.
pub type Fractions = Zeroizing<Vec<Fraction>>;

/// Adds uniform numbers of `bits` bits to the fractions, and takes half of their range off.
///
/// # Panics
/// If `bits` is 0 or a fraction has no more.
pub fn flood(fractions: &mut Fractions, bits: u32, prg: &mut Prg) {
    assert!((1..64 * LIMBS as u32).contains(&bits));
    // Bits of a limb that lie below bit `end` of the fraction.
    let below = |end: u32, limb: usize| match end.saturating_sub(64 * limb as u32) {
        bits @ 0..64 => (1 << bits) - 1,
        _ => u64::MAX,
    };
    let mask: Fraction = std::array::from_fn(|limb| below(bits, limb));
    let half: Fraction = std::array::from_fn(|limb| below(bits, limb) & !below(bits - 1, limb));
    let mut words = Zeroizing::new([0; LIMBS * CHUNK]);
    for fractions in fractions.chunks_mut(CHUNK) {
        fill_words(prg, &mut words[..]);
        let words = words.as_chunks::<LIMBS>().0;
        for (fraction, words) in fractions.iter_mut().zip(words) {
            let flood = std::array::from_fn(|limb| words[limb] & mask[limb]);
            // −h is the complement of h, plus 1.
            *fraction = add(add(*fraction, flood, 0), half.map(|limb| !limb), 1);
        }
    }
}

/// ⌊2^192/divisor⌋, for divisors above 1.
pub(super) fn reciprocal(divisor: u64) -> Fraction {
    let mut out = [0; LIMBS];
    let mut rest = 1;
    for limb in out.iter_mut().rev() {
        let number = u128::from(rest) << 64;
        *limb = (number / u128::from(divisor)) as u64;
        rest = (number % u128::from(divisor)) as u64;
    }
    out
}

/// sum + factor·number modulo 2^192.
#[inline(always)]
pub(super) fn multiply_add(sum: Fraction, factor: u64, number: Fraction) -> Fraction {
    let mut carry = 0;
    std::array::from_fn(|i| {
        let limb = u128::from(factor) * u128::from(number[i]) + u128::from(sum[i]) + carry;
        carry = limb >> 64;
        limb as u64
    })
}

/// a + b + carry modulo 2^192.
#[inline(always)]
pub(super) fn add(a: Fraction, b: Fraction, carry: u64) -> Fraction {
    let mut carry = u128::from(carry);
    std::array::from_fn(|i| {
        let limb = u128::from(a[i]) + u128::from(b[i]) + carry;
        carry = limb >> 64;
        limb as u64
    })
}

/// Words of a generator, an even number of them.
pub(super) fn fill_words(prg: &mut Prg, out: &mut [u64]) {
    let mut blocks = Zeroizing::new([0 as Block; 128]);
    let (pairs, rest) = out.as_chunks_mut::<2>();
    assert!(rest.is_empty());
    for pairs in pairs.chunks_mut(blocks.len()) {
        let blocks = &mut blocks[..pairs.len()];
        prg.fill(blocks);
        for (pair, block) in pairs.iter_mut().zip(blocks.iter()) {
            *pair = [*block as u64, (block >> 64) as u64];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;

    fn number(fraction: Fraction) -> BigUint {
        let limbs = fraction.iter().rev();
        limbs.fold(BigUint::ZERO, |sum, limb| (sum << 64) + *limb)
    }

    #[test]
    fn arithmetic_is_that_of_integers() {
        let one = BigUint::from(1u8);
        for divisor in [2, 3, 40_961, (1 << 62) - 57, u64::MAX] {
            let fraction = reciprocal(divisor);
            assert_eq!(number(fraction), (&one << 192) / divisor);
            for factor in [0, 1, 12_345, u64::MAX] {
                let sum = [u64::MAX, 5, 1 << 63];
                let expected = (number(sum) + number(fraction) * factor) % (&one << 192);
                assert_eq!(number(multiply_add(sum, factor, fraction)), expected);
            }
        }
    }

    /// The mean of 4096 numbers uniform on 2^b is within five standard deviations of 0, their variance within five of
    /// 2^2b/12, and every one in range.
    #[test]
    fn floods_are_centred_and_uniform() {
        for bits in [1, 30, 64, 65, 128, 150, 170, 191] {
            let mut fractions: Fractions = Zeroizing::new(vec![[0; LIMBS]; 4096]);
            flood(&mut fractions, bits, &mut Prg::new(1));
            let half = BigUint::from(1u8) << (bits - 1);
            let scaled = fractions.iter().map(|fraction| {
                let shifted = (number(*fraction) + &half) % (BigUint::from(1u8) << 192);
                assert!(shifted < &half << 1);
                // In 2^-53 of the range.
                let top = (shifted << 53) >> bits;
                u64::try_from(top).unwrap() as f64 / 2f64.powi(53) - 0.5
            });
            let values: Vec<f64> = scaled.collect();
            let unit = 2f64.powi(-(bits.min(53) as i32));
            let mean = values.iter().sum::<f64>() / 4096.0 + unit / 2.0;
            let variance = values.iter().map(|x| x * x).sum::<f64>() / 4096.0;
            assert!(
                mean.abs() < 5.0 * (1.0 / 12f64).sqrt() / 64.0,
                "{bits}: {mean}"
            );
            if bits > 20 {
                // The fourth moment of the uniform distribution on (−1/2, 1/2) is 1/80.
                let deviation = (1.0 / 80.0 - 1.0 / 144f64).sqrt() / 64.0;
                assert!(
                    (variance - 1.0 / 12.0).abs() < 5.0 * deviation,
                    "{bits}: {variance}"
                );
            }
        }
    }
}
