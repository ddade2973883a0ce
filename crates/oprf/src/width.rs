//! The number of columns of a sparse or pseudorandom-code oblivious-transfer extension.

use vesica_primitives::scaled::{Round, Scaled};

/// Bits of computational security, and the Hamming weight that the extension's hash needs.
const KAPPA: u64 = 128;

/// The least ℓ, up to rounding, with n·Σ_{i<κ} C(ℓ,i) / 2^ℓ ≤ 2^-λ for κ = 128 and n `evaluations` of the
/// sender's: PRTY19, Proposition 2.
///
/// Each of the sender's evaluations meets a random string of ℓ bits, which has fewer than κ ones with
/// probability Σ_{i<κ} C(ℓ,i) / 2^ℓ; with κ ones or more, its output is hidden by as many bits of the
/// sender's secret. In PRTY19's spot-low n is the sender's number of items, in spot-fast twice that; in
/// [`kkrt`](crate::kkrt) three times that: its code words have this distance by the same argument.
///
/// The computation rounds up, in the same way on every machine: ℓ is never too small.
///
/// # Panics
/// If `lambda` is 0, for which ℓ would mean nothing.
pub fn width(evaluations: u64, lambda: u32) -> usize {
    assert!(lambda > 0);
    let target = Scaled::power_of_two(-i64::from(lambda));
    let is_wide_enough = |columns: u64| too_light(evaluations.max(1), columns).at_most(target);
    // Strings of κ − 1 bits are all light.
    let (mut narrow, mut wide) = (KAPPA - 1, 2 * KAPPA);
    while !is_wide_enough(wide) {
        (narrow, wide) = (wide, 2 * wide);
    }
    while wide - narrow > 1 {
        let middle = (narrow + wide) / 2;
        if is_wide_enough(middle) {
            wide = middle;
        } else {
            narrow = middle;
        }
    }
    wide as usize
}

/// n·Σ_{i<κ} C(ℓ,i) / 2^ℓ at most.
fn too_light(evaluations: u64, columns: u64) -> Scaled {
    let mut binomial = Scaled::power_of_two(0);
    let mut sum = binomial;
    for i in 1..KAPPA {
        binomial = binomial
            .times_whole(columns + 1 - i, Round::Up)
            .over(i, Round::Up);
        sum = sum.plus(binomial, Round::Up);
    }
    sum.times_whole(evaluations, Round::Up)
        .times(Scaled::power_of_two(-(columns as i64)), Round::Up)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRTY19, figure 6, and the same for λ = 64.
    #[test]
    fn widths_match_the_published_table() {
        let published = [416, 420, 424, 428, 432, 436, 440, 444, 448];
        let stronger = [463, 466, 470, 474, 477, 481, 484, 488, 491];
        for (i, (narrow, wide)) in published.into_iter().zip(stronger).enumerate() {
            let evaluations = 1 << (10 + 2 * i);
            assert_eq!(width(evaluations, 40), narrow);
            assert_eq!(width(evaluations, 64), wide);
        }
    }

    #[test]
    fn widths_are_the_least_that_do() {
        // log₂ Σ_{i<κ} C(ℓ,i) / 2^ℓ, summed from the largest term down.
        let log = |columns: usize| {
            let choose = |i: usize| -> f64 {
                (0..i)
                    .map(|j| ((columns - j) as f64 / (i - j) as f64).log2())
                    .sum()
            };
            let kappa = KAPPA as usize;
            let most = choose(kappa - 1);
            let sum: f64 = (0..kappa).map(|i| (choose(i) - most).exp2()).sum();
            most + sum.log2() - columns as f64
        };
        for (evaluations, lambda) in [(0, 1), (1, 1), (1, 40), (3 << 20, 40), (u64::MAX, 128)] {
            let columns = width(evaluations, lambda);
            let wanted = -f64::from(lambda) - (evaluations.max(1) as f64).log2();
            assert!(log(columns) <= wanted + 1e-6, "{evaluations} {lambda}");
            assert!(log(columns - 1) > wanted - 1e-6, "{evaluations} {lambda}");
        }
    }
}
