//! Ring, moduli and flooding for given tuples, and the bounds that they meet.
//!
//! **Computational security.** Secrets are uniform ternary, errors have the standard deviation √10.5 = 3.24. How many bits
//! of security that is depends on what lattice reduction is taken to cost, at block size β and dimension d:
//!
//! | N, bits of q | 4096, 106 | 8192, 133 | 8192, 159 | 8192, 212 |
//! |---|---|---|---|---|
//! | homomorphic encryption standard: 0.292·β + 16.4 + log₂(8·d) | 131 | 224 | 182 | 132 |
//! | core-SVP, classical: 0.292·β | 99 | 191 | 148 | 98 |
//! | core-SVP, quantum: 0.265·β | 90 | 173 | 135 | 89 |
//!
//! The first is the model of the *Homomorphic Encryption Security Standard* (Albrecht et al., HomomorphicEncryption.org
//! 2018), which allows q up to 2^109 and 2^218 at 128 bits; the newer *Security Guidelines for Implementing Homomorphic
//! Encryption* (Bossuat et al., ePrint 2024/463) allow 2^106 and 2^214. Core-SVP (Alkim, Ducas, Pöppelmann, Schwabe,
//! *Post-quantum key exchange – a new hope*, USENIX Security 2016) counts one call of a sieve, and neither its polynomial
//! factors nor its memory. The 128 bits claimed of the first and the last ring are those of the standard, and not of
//! core-SVP. The tests compute β for the primal attack.
//!
//! **What the flooding hides.** The noise of an answer, in units of 1 of q, is
//!
//!   ν = u·(e + ε) + e₁·z + e′·w,
//!
//! where e and e′ are the errors of ciphertext and public key, ε = ⌈q·s/t⌋ − q·s/t, z the secret key, and w and e₁ the
//! randomness of the encryption of zero. All but u are drawn independently of u, all but u, z and ε are centred
//! binomial of variance 10.5 (z: 2/3), and ε is uniform among the (k/t) of absolute value below 1/2, since s is uniform
//! in all slots. So for every u, whose coefficients are at most t/2 in absolute value,
//!
//!   E ν_i² ≤ N·(t/2)²·(10.5 + 1/12) + N·10.5·2/3 + N·10.5²,
//!
//! and E|ν_i| is at most the root. A shift by ν moves the uniform distribution on 2^b numbers by a statistical distance
//! of |ν|/2^b; conditional on all secrets the floods of different coefficients are independent, so their distances add
//! up, and the expected sum bounds the distance of what is sent, together with all secrets, from what is sent by a
//! simulator that knows only the results. No tail and no worst case enters. This takes honest keys and ciphertexts: the
//! protocol is semi-honest.
//!
//! **When decryption fails.** Everything is bounded in the worst case but one: c₁, rounded to a modulus q′, is off by
//! ρ with |ρ_j| ≤ 1/2, which z multiplies. c₁ does not depend on z (z hides in the other half), so (ρ·z)_i is a sum
//! of N independent terms, and a ternary variable z_j has E exp(x·z_j) ≤ exp(x²/3). Hence
//! Pr[|(ρ·z)_i| ≥ y] ≤ 2·exp(−3·y²/N) for every ρ (Chernoff's bound).
//!
//! Each of the two events has half of 2^-λ.

use vesica_kernels::residues::Modulus;
use vesica_kernels::residues::rns::MAX_BITS;
use vesica_primitives::prime;
use vesica_primitives::scaled::{Round, Scaled};
use vesica_primitives::security::lambda_each;

use super::fractions::LIMBS;
use super::plain::Words64;
use crate::ole::Shape;

/// Ring dimensions and numbers of ciphertext primes, the cheapest first.
const RINGS: [(usize, usize); 4] = [(4096, 4), (8192, 5), (8192, 6), LARGEST];

const LARGEST: (usize, usize) = (8192, 8);

/// ⌊2^26.5⌋: the ciphertext primes are the largest below it that are 1 modulo twice the largest dimension.
const PRIMES_BELOW: u64 = 94_906_265;

/// Coins of a centred binomial error: the number of heads less the mean. Its variance is a quarter of that.
pub const COINS: u32 = 42;

/// Bits of a [fraction](super::fractions::Fraction).
const FRACTION_BITS: u32 = 64 * LIMBS as u32;

/// Events that share 2^-λ.
pub const EVENTS: u32 = 2;

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters<T = Modulus> {
    /// N: slots of a ciphertext.
    pub length: usize,
    /// t, which is the modulus Q of tuples.
    pub plain: T,
    /// The primes whose product is q.
    pub primes: Vec<Modulus>,
    /// How many of the primes remain in q′, the modulus to which c₁ of an answer is switched.
    pub kept: usize,
    /// Bits to which c₀ of an answer is rounded.
    pub body_bits: u32,
    /// b: a flood is uniform on 2^b multiples of 2^-192·q.
    pub flood_bits: u32,
    /// Coefficients of all answers.
    pub coefficients: u64,
}

impl Parameters<Words64> {
    /// For one coefficient modulo 2^64 that is flooded by so many bits, in the larger of the rings, and not switched.
    pub(super) fn words(flood_bits: u32) -> Parameters<Words64> {
        let (length, primes) = LARGEST;
        Parameters {
            length,
            plain: Words64,
            primes: ciphertext_primes(primes, 0),
            kept: primes,
            body_bits: 64,
            flood_bits,
            coefficients: 1,
        }
    }
}

/// Maximum bits of t: a transform modulo t adds up to 4·t in 64 bits.
const MAX_PLAIN_BITS: u32 = 62;

impl Parameters {
    /// The cheapest for tuples of a shape, or `None` if none reach λ: Q has to be a prime that is 1 modulo 2N and
    /// small enough.
    pub fn new(shape: Shape, lambda: u32) -> Option<Parameters> {
        if shape.modulus.bits() > MAX_PLAIN_BITS {
            return None;
        }
        let q = shape.modulus.get();
        RINGS.iter().find_map(|&(length, primes)| {
            let step = 2 * length as u64;
            let batches = q % step == 1 && prime::smallest(q, step) == Some(shape.modulus);
            let ciphertexts = shape.bins.div_ceil(length) as u64;
            let coefficients = ciphertexts
                .checked_mul(length as u64)?
                .checked_mul(shape.per_bin as u64)?;
            let parameters = Parameters {
                length,
                plain: shape.modulus,
                primes: ciphertext_primes(primes, q),
                kept: 0,
                body_bits: 0,
                flood_bits: 0,
                coefficients: coefficients.max(1),
            };
            parameters
                .flooded(lambda)
                .filter(|_| batches)?
                .switched(lambda)
        })
    }

    /// With the least flooding that hides the noise.
    fn flooded(self, lambda: u32) -> Option<Parameters> {
        let bits = (0..FRACTION_BITS - 1).find(|bits| {
            let distance = self.distance_of(*bits);
            distance.at_most(at_most(lambda))
        })?;
        Some(Parameters {
            flood_bits: bits,
            ..self
        })
    }

    /// With the fewest bits for an answer that decrypts.
    fn switched(self, lambda: u32) -> Option<Parameters> {
        let widths = (1..=self.primes.len()).flat_map(|kept| {
            let fits = |bits: &u32| {
                let deviation = self.deviation(kept, *bits, lambda);
                deviation.at_most(self.margin())
            };
            // A width that is packed: see `residues::pack`.
            let bits = (2..=vesica_kernels::residues::MAX_BITS).find(fits)?;
            Some((kept, bits))
        });
        let (kept, body_bits) = widths.min_by_key(|(kept, bits)| *kept as u32 * MAX_BITS + bits)?;
        Some(Parameters {
            kept,
            body_bits,
            ..self
        })
    }

    /// At least the statistical distance between all answers of a run and simulated ones.
    pub fn distance(&self) -> Scaled {
        self.distance_of(self.flood_bits)
    }

    fn distance_of(&self, flood_bits: u32) -> Scaled {
        self.mean_noise()
            .times_whole(self.coefficients, Round::Up)
            .times(power(-i64::from(flood_bits)), Round::Up)
    }

    /// At least E|ν_i|, in units of 2^-192·q, rounding errors included.
    pub fn mean_noise(&self) -> Scaled {
        let length = self.length as u64;
        let coins = u64::from(COINS);
        // The root of a sum is at most the sum of the roots.
        let by_u = half(self.plain).times_whole(root(length * (3 * coins + 1), 12), Round::Up);
        let others = root(length * coins * (8 + 3 * coins), 48);
        let noise = by_u.plus(whole(others), Round::Up);
        self.in_fractions(noise)
    }

    /// At least |ν_i|, in units of 2^-192·q, rounding errors included.
    pub fn largest_noise(&self) -> Scaled {
        let (length, error) = (self.length as u64, u64::from(COINS / 2));
        let by_u = half(self.plain).times_whole(length * (error + 1), Round::Up);
        let noise = by_u.plus(whole(length * error * (1 + error)), Round::Up);
        self.in_fractions(noise)
    }

    /// A bound in units of 1 of q in units of 2^-192·q, with what is lost when numbers become fractions: less than a
    /// prime for each of the primes, t for the plaintext, and 1.
    fn in_fractions(&self, noise: Scaled) -> Scaled {
        let noise = noise.times(power(i64::from(FRACTION_BITS)), Round::Up);
        let noise = self
            .primes
            .iter()
            .fold(noise, |noise, prime| noise.over(prime.get(), Round::Up));
        let lost = whole(self.plain.get() + 1);
        let lost = lost.plus(whole((self.primes.len() as u64) << MAX_BITS), Round::Up);
        noise.plus(lost, Round::Up)
    }

    /// At least how far a decrypted coefficient is off, as a fraction of q′, but with half the probability 2^-λ.
    fn deviation(&self, kept: usize, body_bits: u32, lambda: u32) -> Scaled {
        let flood = power(i64::from(self.flood_bits) - 1);
        let noise = flood
            .plus(self.largest_noise(), Round::Up)
            .times(power(-i64::from(FRACTION_BITS)), Round::Up);
        let mask = self.primes[..kept]
            .iter()
            .fold(whole(self.switching(lambda)), |sum, prime| {
                sum.over(prime.get(), Round::Up)
            });
        let body = power(-i64::from(body_bits) - 1);
        // What the receiver loses when residues become fractions of 128 bits.
        let lost = power(i64::from(MAX_BITS) + 4 - 128);
        [mask, body, lost]
            .into_iter()
            .fold(noise, |sum, term| sum.plus(term, Round::Up))
    }

    /// y with Pr[|(ρ·z)_i| ≥ y for any i of any answer] ≤ 2^-λ/2.
    fn switching(&self, lambda: u32) -> u64 {
        // 2·coefficients·exp(−3·y²/N) ≤ 2^-λ/2; ln 2 < 0.6932. Dropping several primes one by one makes |ρ_j| a
        // little more than 1/2, for which a 2^-17 is added.
        let log = u64::from(lambda_each(lambda, EVENTS)) + 1;
        let log = log + u64::from(self.coefficients.next_power_of_two().ilog2());
        let square = self.length as u64 * 6932 * log;
        root(square + (square >> 17) + 1, 30_000)
    }

    /// At most 1/(2t): as a fraction of q′, how far a coefficient may be off.
    fn margin(&self) -> Scaled {
        power(-1).over(self.plain.get(), Round::Down)
    }
}

/// The smallest modulus of at least `least` with which such tuples can be made, if any.
pub fn modulus(least: u64, bins: usize, per_bin: usize, lambda: u32) -> Option<Modulus> {
    [RINGS[0], LARGEST].iter().find_map(|(length, _)| {
        let modulus = prime::smallest(least, 2 * *length as u64)?;
        let shape = Shape {
            modulus,
            bins,
            per_bin,
        };
        Parameters::new(shape, lambda).map(|_| modulus)
    })
}

/// The largest primes below [`PRIMES_BELOW`] that are 1 modulo 2^14 and not `plain`.
fn ciphertext_primes(count: usize, plain: u64) -> Vec<Modulus> {
    let step = 2 * LARGEST.0 as u64;
    let mut below = PRIMES_BELOW / step * step + 1;
    let mut primes = Vec::new();
    while primes.len() < count {
        below -= step;
        let prime = prime::smallest(below, step).filter(|prime| prime.get() == below);
        primes.extend(prime.filter(|prime| prime.get() != plain));
    }
    primes
}

/// Half of 2^-λ: the share of one of the [`EVENTS`].
fn at_most(lambda: u32) -> Scaled {
    power(-i64::from(lambda_each(lambda, EVENTS)))
}

fn power(exponent: i64) -> Scaled {
    Scaled::power_of_two(exponent)
}

fn whole(value: u64) -> Scaled {
    power(0).times_whole(value, Round::Up)
}

fn half(modulus: Modulus) -> Scaled {
    power(-1).times_whole(modulus.get(), Round::Up)
}

/// At least the square root of a quotient.
fn root(numerator: u64, denominator: u64) -> u64 {
    let square = numerator.div_ceil(denominator);
    let root = square.isqrt();
    root + u64::from(root * root < square)
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;

    fn shape(q: u64, bins: usize, per_bin: usize) -> Shape {
        Shape {
            modulus: Modulus::new(q),
            bins,
            per_bin,
        }
    }

    /// 2^20 items, and 28 comparisons in each of 1.27·2^20 bins.
    fn largest_in_use() -> Shape {
        shape(40_961, 1_331_692, 28)
    }

    #[test]
    fn the_largest_size_in_use() {
        let parameters = Parameters::new(largest_in_use(), 40).unwrap();
        assert_eq!(parameters.length, 4096);
        assert_eq!((parameters.kept, parameters.body_bits), (1, 17));
        assert_eq!(parameters.coefficients, 326 * 4096 * 28);
        // √(4096·127/12)·t/2 = 2^22.0, in units of 1 of q = 2^105.99.
        assert_eq!(parameters.mean_noise().log2(), 22 + 192 - 106);
        assert_eq!(parameters.flood_bits, 175);
        // √(4096/3·ln 2^(40 + 1 + 1 + 26)).
        assert_eq!(parameters.switching(40), 254);
    }

    #[test]
    fn floods_are_as_long_as_they_must_be() {
        for (q, bins, per_bin) in [(40_961, 1, 1), (40_961, 1 << 20, 28), (65_537, 100, 3)] {
            for lambda in [20, 30, 40] {
                let parameters = Parameters::new(shape(q, bins, per_bin), lambda).unwrap();
                assert!(parameters.distance().at_most(power(-i64::from(lambda) - 1)));
                let shorter = parameters.distance_of(parameters.flood_bits - 1);
                assert!(!shorter.at_most(power(-i64::from(lambda) - 1)));
                let deviation = |kept, bits| {
                    parameters
                        .deviation(kept, bits, lambda)
                        .at_most(parameters.margin())
                };
                assert!(deviation(parameters.kept, parameters.body_bits));
                assert!(!deviation(parameters.kept, parameters.body_bits - 1));
            }
        }
    }

    #[test]
    fn moduli_stay_below_those_of_the_guidelines() {
        for ((_, count), bits) in RINGS.iter().zip([106, 133, 159, 212]) {
            // A plaintext modulus among the primes is passed over.
            let all = ciphertext_primes(*count, 40_961);
            for plain in [40_961, all[0].get(), all[3].get()] {
                let primes = ciphertext_primes(*count, plain);
                assert!(
                    primes
                        .iter()
                        .all(|p| p.get() != plain && p.bits() == MAX_BITS)
                );
                let one = BigUint::from(1u8);
                let q = primes.iter().fold(one.clone(), |q, p| q * p.get());
                assert!(q < &one << bits && q > one << (bits - 1));
            }
        }
    }

    /// The least block size β with which the primal attack recovers the unique shortest vector, and the dimension d of the
    /// lattice, for q of so many bits: σ·√β ≤ δ^(2β−d−1)·vol^(1/d) with δ = (β/(2πe)·(πβ)^(1/β))^(1/(2(β−1))), of all
    /// numbers m of samples (Alkim et al., section 6.3). The secret is scaled to the size of the error (Bai and Galbraith,
    /// ACISP 2014), so that d = N + m + 1.
    fn primal_attack(length: usize, bits: f64) -> (u32, usize) {
        use std::f64::consts::{E, PI};
        let (n, error, secret) = (
            length as f64,
            f64::sqrt(f64::from(COINS) / 4.0),
            f64::sqrt(2.0 / 3.0),
        );
        let excess = |beta: u32, samples: usize| {
            let (b, m) = (f64::from(beta), samples as f64);
            let d = n + m + 1.0;
            let delta = ((b / (2.0 * PI * E)).log2() + (PI * b).log2() / b) / (2.0 * (b - 1.0));
            let volume = (m * bits + n * (error / secret).log2()) / d;
            (2.0 * b - d - 1.0) * delta + volume - error.log2() - b.log2() / 2.0
        };
        let samples = || (length / 4..3 * length).step_by(16);
        let best = |beta: u32| {
            let excesses = samples().map(|m| (excess(beta, m), m));
            excesses.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
        };
        let beta = (60..2000).find(|beta| best(*beta).0 >= 0.0).unwrap();
        (beta, length + best(beta).1 + 1)
    }

    /// Bits by the models of the module's table: the standard's, core-SVP, and that against a quantum computer.
    fn security(length: usize, bits: f64) -> [u32; 3] {
        let (beta, d) = primal_attack(length, bits);
        let beta = f64::from(beta);
        let standard = 0.292 * beta + 16.4 + (8.0 * d as f64).log2();
        [standard, 0.292 * beta, 0.265 * beta].map(|bits| bits as u32)
    }

    #[test]
    fn bits_of_security_are_those_of_the_table() {
        let of = |(length, primes): (usize, usize)| (length, 26.5 * primes as f64);
        let attacks = RINGS
            .map(of)
            .map(|(length, bits)| primal_attack(length, bits).0);
        assert_eq!(attacks, [341, 655, 510, 338]);
        let bits = RINGS.map(of).map(|(length, bits)| security(length, bits));
        assert_eq!(
            bits,
            [
                [131, 99, 90],
                [224, 191, 173],
                [182, 148, 135],
                [132, 98, 89]
            ]
        );
        // Where the standard's tables end at 128 bits.
        assert_eq!(
            [security(4096, 109.0)[0], security(8192, 218.0)[0]],
            [127, 128]
        );
        // Larger rings for the same tuples: see `docs/protocols/ole.md`.
        assert_eq!(security(16384, 26.5 * 8.0), [291, 257, 233]);
    }

    /// The larger q is, the larger Q may be.
    #[test]
    fn rings_have_no_more_primes_than_tuples_need() {
        for (bits, ring) in [(16, 0), (18, 0), (20, 1), (30, 1), (42, 2), (61, 3)] {
            let modulus = modulus(1 << (bits - 1), 1 << 18, 26, 40).unwrap();
            assert_eq!(modulus.bits(), bits);
            let parameters = Parameters::new(shape(modulus.get(), 1 << 18, 26), 40).unwrap();
            assert_eq!(
                (parameters.length, parameters.primes.len()),
                RINGS[ring],
                "{bits}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let fits = |q, lambda| Parameters::new(shape(q, 1 << 20, 28), lambda).is_some();
        assert!(fits(40_961, 40));
        // Not 1 modulo 8192; a composite number that is; too much security.
        assert!(!fits(16_381, 40) && !fits(8193, 40) && !fits(40_961, 200));
        for (least, length) in [(2, 4096), (40_962, 4096), (1 << 17, 8192), (1 << 60, 8192)] {
            let modulus = modulus(least, 1 << 20, 28, 40).unwrap();
            let parameters = Parameters::new(shape(modulus.get(), 1 << 20, 28), 40).unwrap();
            assert_eq!(parameters.length, length);
            assert!(
                modulus.get() >= least && (modulus.get() - 1).is_multiple_of(2 * length as u64)
            );
        }
        // Hashed items at λ = 40 need 61 bits or so.
        assert!(modulus(3 << 60, 1 << 20, 28, 40).is_some());
        assert!(modulus(1 << 48, 1 << 20, 28, 64).is_some());
        assert_eq!(modulus(1 << 62, 1, 1, 40), None);
        assert_eq!(modulus(1 << 56, 1 << 20, 28, 64), None);
        assert_eq!(
            Parameters::new(shape(40_961, usize::MAX, usize::MAX), 40),
            None
        );
    }

    #[test]
    fn roots_are_rounded_up() {
        assert_eq!(
            [root(16, 1), root(17, 1), root(16, 3), root(0, 5)],
            [4, 5, 3, 0]
        );
    }
}
