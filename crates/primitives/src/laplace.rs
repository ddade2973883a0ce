//! Exact discrete Laplace noise, for numbers that are differentially private.
//!
//! **Paper.** C. Canonne, G. Kamath, T. Steinke, *The Discrete Gaussian for Differential Privacy*, NeurIPS 2020: algorithms 1
//! (Bernoulli of exp(−γ)) and 2 (discrete Laplace). Added to a whole number that changes by at most Δ between neighbours,
//! noise of scale Δ/ε makes it ε-differentially private, exactly: P(v + Z = x) ≤ e^ε · P(v′ + Z = x) for every x.
//!
//! **Exact.** All arithmetic is on integers; ε is a decimal, and the scale a fraction in lowest terms. Noise of floating-point
//! numbers does not have the distribution that is claimed (I. Mironov, *On Significance of the Least Significant Bits for
//! Differential Privacy*, CCS 2012).
//!
//! **Time.** [`Scale::laplace_vartime`] takes a time that depends on the noise. Draw it where nobody waits for it, and never
//! between two messages to a peer from which it hides something.

use std::fmt;
use std::str::FromStr;

use rand_core::CryptoRng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units of an [`Epsilon`] in 1: it has six decimals.
const UNITS: u32 = 1_000_000;
/// The largest ε, in units. Beyond it noise hides nothing.
const MAX_EPSILON: u32 = 100 * UNITS;
/// Bits of the numerator of a scale, so that its multiples fit into 128 bits.
const MAX_SCALE_BITS: u32 = 96;

/// A privacy parameter ε: a decimal above 0 and up to 100, with at most six decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epsilon(u32);

impl Epsilon {
    /// So many millionths; `None` for 0, and for more than 100.
    pub fn from_millionths(units: u32) -> Option<Epsilon> {
        (1..=MAX_EPSILON).contains(&units).then_some(Epsilon(units))
    }

    /// The number of millionths.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// Divides it by these weights, none of which is 0: the parts add up to it. What is left after rounding down goes to the
    /// first ones, a millionth each. `None` if a part would be 0, or there is none.
    pub fn split(self, weights: &[u32]) -> Option<Vec<Epsilon>> {
        let all: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let part = |weight: &u32| {
            let units = (u64::from(self.0) * u64::from(*weight)).checked_div(all)?;
            u32::try_from(units).ok()
        };
        let mut parts = weights.iter().map(part).collect::<Option<Vec<u32>>>()?;
        let left = self.0.checked_sub(parts.iter().sum())?;
        parts
            .iter_mut()
            .take(left as usize)
            .for_each(|part| *part += 1);
        let parts = parts.into_iter().map(Epsilon::from_millionths);
        parts
            .collect::<Option<Vec<_>>>()
            .filter(|parts| !parts.is_empty())
    }
}

/// Without zeros at its end, as in `0.5`.
impl fmt::Display for Epsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / UNITS, self.0 % UNITS);
        match rest {
            0 => write!(f, "{whole}"),
            _ => write!(f, "{whole}.{}", format!("{rest:06}").trim_end_matches('0')),
        }
    }
}

/// What an [`Epsilon`] is.
pub const EPSILON_FORM: &str =
    "epsilon is a number above 0 and up to 100, with at most six decimals, as 0.5";

/// Digits with a point among them, or none. Fails for anything else and for what is out of range.
impl FromStr for Epsilon {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Epsilon, &'static str> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let read = || {
            let is_short = whole.len() <= 3 && decimals.len() <= 6;
            let is_decimal = is_short && is_number(whole) && is_number(decimals);
            let units = is_decimal.then(|| format!("{whole}{decimals:0<6}"))?;
            units.parse().ok().and_then(Epsilon::from_millionths)
        };
        read().ok_or(EPSILON_FORM)
    }
}

impl Serialize for Epsilon {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Epsilon {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Epsilon, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// ln 2, ln 20 and ln 40 in units of 10^-7, rounded up.
const LN_2: u128 = 6_931_472;
const LN_20: u128 = 29_957_323;
const LN_40: u128 = 36_888_795;
const LN_UNITS: u128 = 10_000_000;

/// The scale Δ/ε of noise: P(Z = z) is proportional to exp(−|z|/scale). A fraction in lowest terms, whose numerator is below
/// 2^96.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    numerator: u128,
    denominator: u128,
}

impl Scale {
    /// That of noise which hides a change by `sensitivity` with ε. `None` if nothing changes, or if it has more than 96 bits.
    pub fn new(sensitivity: u128, epsilon: Epsilon) -> Option<Scale> {
        let numerator = sensitivity.checked_mul(UNITS.into())?;
        let denominator = u128::from(epsilon.0);
        let common = gcd(numerator, denominator);
        let scale = Scale {
            numerator: numerator / common,
            denominator: denominator / common,
        };
        (sensitivity > 0 && scale.numerator >> MAX_SCALE_BITS == 0).then_some(scale)
    }

    /// T: noise is beyond ±T with probability at most 2^-(λ + 1), so the sum of two noises is beyond the sum of their T with
    /// probability at most 2^-λ. `None` if it has more than 128 bits.
    ///
    /// T = ⌈scale·(λ + 1)·ln 2⌉: for p = exp(−1/scale), P(|Z| > T) = 2·p^(T + 1)/(1 + p) ≤ p^T.
    pub fn span(self, lambda: u32) -> Option<u128> {
        self.times(u128::from(lambda) + 1, LN_2)
    }

    /// Half the width of an interval around 0 in which noise is with a probability of 95 % at least: ⌈scale·ln 20⌉.
    pub fn half_width(self) -> Option<u128> {
        self.times(1, LN_20)
    }

    /// The same for 97.5 %: the sum of two such half-widths is one of 95 % for the sum of two noises.
    pub fn half_width_of_two(self) -> Option<u128> {
        self.times(1, LN_40)
    }

    /// The scale times a number and a logarithm, rounded up.
    fn times(self, factor: u128, logarithm: u128) -> Option<u128> {
        let product = self.numerator.checked_mul(factor)?.checked_mul(logarithm)?;
        Some(product.div_ceil(self.denominator * LN_UNITS))
    }

    /// Noise of this scale (algorithm 2). `None`, with a probability below 2^-100, for noise that no counter here holds.
    pub fn laplace_vartime(self, rng: &mut dyn CryptoRng) -> Option<i128> {
        let Scale {
            numerator: t,
            denominator: s,
        } = self;
        loop {
            let u = below(t, rng);
            if !bernoulli_exp(u, t, rng)? {
                continue;
            }
            let mut v = 0u128;
            while bernoulli_exp(1, 1, rng)? {
                v = v.checked_add(1)?;
            }
            let size = t.checked_mul(v)?.checked_add(u)? / s;
            let is_negative = below(2, rng) == 1;
            // 0 has one sign.
            if !is_negative || size > 0 {
                let size = i128::try_from(size).ok()?;
                return Some(if is_negative { -size } else { size });
            }
        }
    }
}

/// As a fraction, or as a whole number if it is one.
impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A uniform number below `bound`, which is at least 1, by rejection.
pub fn below(bound: u128, rng: &mut dyn CryptoRng) -> u128 {
    let bits = u128::BITS - (bound - 1).leading_zeros();
    if bits == 0 {
        return 0;
    }
    loop {
        let word = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let drawn = word >> (u128::BITS - bits);
        if drawn < bound {
            return drawn;
        }
    }
}

/// 1 with probability exp(−u/t), for u ≤ t (algorithm 1). `None` if a counter overflows.
fn bernoulli_exp(u: u128, t: u128, rng: &mut dyn CryptoRng) -> Option<bool> {
    let mut k = 1u128;
    while below(t.checked_mul(k)?, rng) < u {
        k += 1;
    }
    Some(k % 2 == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    fn epsilon(text: &str) -> Epsilon {
        text.parse().unwrap()
    }

    fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    #[test]
    fn epsilon_is_an_exact_decimal() {
        for (text, units) in [
            ("1", 1_000_000),
            ("0.1", 100_000),
            ("0.000001", 1),
            ("100", 100_000_000),
            ("2.50", 2_500_000),
        ] {
            assert_eq!(epsilon(text).millionths(), units);
            assert_eq!(epsilon(&epsilon(text).to_string()), epsilon(text));
        }
        assert_eq!(
            [epsilon("2.50").to_string(), epsilon("010").to_string()],
            ["2.5", "10"]
        );
        for wrong in [
            "",
            "0",
            "0.0",
            "-1",
            "1e3",
            "100.000001",
            "101",
            "0.0000001",
            ".5",
            "1.",
            "1.2.3",
            "+1",
            "inf",
            "NaN",
            "9999999999",
        ] {
            assert_eq!(wrong.parse::<Epsilon>(), Err(EPSILON_FORM), "{wrong}");
        }
    }

    #[test]
    fn parts_of_an_epsilon_add_up_to_it() {
        let units = |of: &str, weights: &[u32]| {
            let parts = epsilon(of).split(weights)?;
            Some(
                parts
                    .iter()
                    .map(|part| part.millionths())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(units("1", &[1]), Some(vec![1_000_000]));
        assert_eq!(
            units("1", &[1, 1, 1]),
            Some(vec![333_334, 333_333, 333_333])
        );
        assert_eq!(units("0.000005", &[1, 2]), Some(vec![2, 3]));
        assert_eq!(
            units("100", &[u32::MAX, u32::MAX]),
            Some(vec![50_000_000; 2])
        );
        for nothing in [&[][..], &[0], &[1, 0, 1, 1, 1, 1]] {
            assert_eq!(units("0.000003", nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn spans_are_those_of_the_design() {
        let scale = |of, by| Scale::new(of, epsilon(by)).unwrap();
        assert_eq!(scale(1, "0.1").span(40), Some(285));
        assert_eq!(scale(1, "1").span(40), Some(29));
        assert_eq!(scale(2_000_000, "0.5").span(40), Some(113_676_141));
        let (one, two) = (
            scale(1, "1").half_width(),
            scale(1, "1").half_width_of_two(),
        );
        assert_eq!((one, two), (Some(3), Some(4)));
        assert_eq!(scale(1, "0.1").half_width(), Some(30));
        assert_eq!(
            [scale(1, "0.3").to_string(), scale(7, "3.5").to_string()],
            ["10/3", "2"]
        );
        assert_eq!(Scale::new(0, epsilon("1")), None);
        assert_eq!(Scale::new(1 << 96, epsilon("1")), None);
        assert_eq!(Scale::new(u128::MAX, epsilon("1")), None);
        assert!(Scale::new((1 << 96) - 1, epsilon("1")).is_some());
        // The widest that there are fit.
        assert!(scale((1 << 96) - 1, "1").span(128).is_some());
    }

    /// The constants are above the logarithms, and by less than a unit.
    #[test]
    fn logarithms_are_rounded_up() {
        for (constant, of) in [(LN_2, 2.0f64), (LN_20, 20.0), (LN_40, 40.0)] {
            let over = constant as f64 - of.ln() * LN_UNITS as f64;
            assert!((0.0..1.0).contains(&over), "{of}: {over}");
        }
    }

    /// P(|Z| > x) is at most what is claimed, by the formula of a geometric series.
    #[test]
    fn tails_are_below_what_is_said() {
        for (of, by) in [
            (1, "0.1"),
            (1, "3"),
            (1, "100"),
            (7, "0.3"),
            (12_345, "0.01"),
        ] {
            let scale = Scale::new(of, epsilon(by)).unwrap();
            let p = (-(scale.denominator as f64) / scale.numerator as f64).exp();
            let beyond = |x: Option<u128>| 2.0 * p.powf(x.unwrap() as f64 + 1.0) / (1.0 + p);
            for lambda in [40, 64] {
                let log = beyond(scale.span(lambda)).log2();
                assert!(log <= -f64::from(lambda) - 1.0, "{of}/{by}: {log}");
            }
            assert!(beyond(scale.half_width()) <= 0.05);
            assert!(beyond(scale.half_width_of_two()) <= 0.025);
        }
    }

    /// How far counts are from those expected, in standard deviations of χ². Cells of fewer than 20 are left out.
    fn deviation(cells: impl IntoIterator<Item = (f64, f64)>) -> f64 {
        let kept = cells.into_iter().filter(|(_, expected)| *expected > 20.0);
        let (mut chi, mut freedom) = (0.0, 0.0);
        for (found, expected) in kept {
            chi += (found - expected).powi(2) / expected;
            freedom += 1.0;
        }
        assert!(freedom >= 3.0);
        (chi - freedom) / f64::sqrt(2.0 * freedom)
    }

    #[test]
    fn small_noise_has_the_exact_distribution() {
        const RUNS: u32 = 40_000;
        for (of, by, seed) in [
            (1, "1", 1),
            (7, "2", 2),
            (1, "3", 3),
            (20, "1", 4),
            (3, "0.7", 5),
        ] {
            let scale = Scale::new(of, epsilon(by)).unwrap();
            let rng = &mut rng(seed);
            let mut found = BTreeMap::<i128, f64>::new();
            for _ in 0..RUNS {
                *found
                    .entry(scale.laplace_vartime(rng).unwrap())
                    .or_default() += 1.0;
            }
            let p = (-(scale.denominator as f64) / scale.numerator as f64).exp();
            let expected =
                |z: i128| f64::from(RUNS) * (1.0 - p) / (1.0 + p) * p.powi(z.unsigned_abs() as i32);
            let cell = |z: i128| (found.get(&z).copied().unwrap_or(0.0), expected(z));
            let off = deviation((-300..=300).map(cell));
            assert!(off.abs() < 5.0, "{of}/{by}: {off}");
        }
    }

    /// Above 2^40 no value comes twice: counts of intervals, and of the lowest bits.
    #[test]
    fn large_noise_has_the_distribution() {
        const RUNS: u32 = 20_000;
        let scale = Scale::new((1 << 41) + 1, epsilon("0.3")).unwrap();
        let (t, rng) = (
            scale.numerator as f64 / scale.denominator as f64,
            &mut rng(6),
        );
        let mut intervals = BTreeMap::<i64, f64>::new();
        let mut bits = [0.0; 8];
        for _ in 0..RUNS {
            let noise = scale.laplace_vartime(rng).unwrap();
            *intervals
                .entry((noise as f64 / t * 4.0).floor() as i64)
                .or_default() += 1.0;
            bits[(noise & 7) as usize] += 1.0;
        }
        // Continuous at this scale: half of the mass on each side.
        let mass = |i: i64| {
            let near = i.max(-i - 1) as f64 / 4.0;
            0.5 * ((-near).exp() - (-near - 0.25).exp())
        };
        let cell = |i: i64| {
            let found = intervals.get(&i).copied().unwrap_or(0.0);
            (found, f64::from(RUNS) * mass(i))
        };
        let off = [
            deviation((-60..60).map(cell)),
            deviation(bits.map(|found| (found, f64::from(RUNS) / 8.0))),
        ];
        assert!(off.iter().all(|off| off.abs() < 5.0), "{off:?}");
    }

    /// A planted fault: a quarter of the ones are zeros.
    #[test]
    fn a_wrong_distribution_is_seen() {
        const RUNS: u32 = 40_000;
        let (scale, rng) = (Scale::new(2, epsilon("1")).unwrap(), &mut rng(7));
        let mut found = BTreeMap::<i128, f64>::new();
        for _ in 0..RUNS {
            let noise = scale.laplace_vartime(rng).unwrap();
            let noise = if noise == 1 && below(4, rng) == 0 {
                0
            } else {
                noise
            };
            *found.entry(noise).or_default() += 1.0;
        }
        let p = (-0.5f64).exp();
        let expected =
            |z: i128| f64::from(RUNS) * (1.0 - p) / (1.0 + p) * p.powi(z.unsigned_abs() as i32);
        let off =
            deviation((-20..=20).map(|z| (found.get(&z).copied().unwrap_or(0.0), expected(z))));
        assert!(off > 5.0, "{off}");
    }

    #[test]
    fn exponents_are_met_exactly() {
        const RUNS: u32 = 40_000;
        for (u, t) in [(0, 1), (1, 1), (1, 2), (3, 7)] {
            let rng = &mut rng(8);
            let ones = (0..RUNS)
                .filter(|_| bernoulli_exp(u, t, rng).unwrap())
                .count() as f64;
            let p = (-(u as f64) / t as f64).exp();
            let sigma = f64::sqrt(f64::from(RUNS) * p * (1.0 - p)).max(1e-9);
            let off = (ones - f64::from(RUNS) * p) / sigma;
            assert!(off.abs() < 5.0, "{u}/{t}: {off}");
        }
    }

    #[test]
    fn a_counter_that_overflows_is_no_noise() {
        assert_eq!(bernoulli_exp(u128::MAX, u128::MAX, &mut AlwaysZero), None);
    }

    /// A generator of zeros, by which every draw is below what is asked.
    struct AlwaysZero;

    impl rand_core::TryRng for AlwaysZero {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(0)
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(0)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(0);
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for AlwaysZero {}
}
