//! Why an answer of [`vesica_correlations::ole::lattice`] has an encryption of zero and a flood: what its receiver
//! finds of u where one of them is left out.

use std::f64::consts::PI;

use vesica_correlations::ole::lattice::bfv::{Ciphertext, Coefficients, Scheme};
use vesica_correlations::ole::lattice::fractions::Fractions;

/// The u of all slots, if the answer is u times the ciphertext, plus v, with or without a flood: c₁ of the answer
/// divided by c₁ of the ciphertext, which the receiver drew. One prime is enough, since u is small.
pub fn divide_masks(scheme: &Scheme, ciphertext: &Ciphertext, answer: &Coefficients) -> Vec<u64> {
    let mut values = answer.mask.clone();
    scheme.ring().forward(&mut values);
    let p = scheme.parameters().primes[0];
    let divisors = ciphertext.mask.rows().next().expect("a row");
    let row = values.rows_mut().next().expect("a row");
    for (value, divisor) in row.iter_mut().zip(divisors) {
        let inverse = p.power_vartime(u64::from(*divisor), p.get() - 2);
        *value = p.times(u64::from(*value), inverse) as u32;
    }
    scheme.ring().inverse(&mut values);
    let (p, t) = (p.get(), scheme.parameters().plain.get());
    let coefficients = values.rows().next().expect("a row").iter();
    let mut slots: Vec<u64> = coefficients
        .map(|value| match u64::from(*value) {
            value if value > p / 2 => t - (p - value) % t,
            value => value % t,
        })
        .map(|value| value % t)
        .collect();
    scheme.decode(&mut slots);
    slots
}

/// Nearly the coefficients of u, from the noise of an answer that has not been flooded and that of its ciphertext: the
/// former is u times the latter and a small rest, so their quotient over the reals is u and a small rest.
pub fn divide_noise(scheme: &Scheme, ciphertext: &Fractions, answer: &Fractions) -> Vec<f64> {
    let primes = scheme.parameters().primes.iter();
    let q: f64 = primes.map(|p| p.get() as f64).product();
    let numbers = |noise: &Fractions| -> Vec<f64> {
        let signed =
            |[_, low, high]: &[u64; 3]| (u128::from(*high) << 64 | u128::from(*low)) as i128;
        noise
            .iter()
            .map(|fraction| signed(fraction) as f64 * (q / 2f64.powi(128)))
            .collect()
    };
    // The ciphertext's noise is whole: e and ε apart, whose sum the receiver knows.
    let (e, answer) = (numbers(ciphertext), numbers(answer));
    let n = e.len();
    let turns: Vec<(f64, f64)> = (0..2 * n)
        .map(|i| (PI * i as f64 / n as f64).sin_cos())
        .collect();
    // Values at the odd powers of exp(πi/N), of one half of all conjugate pairs.
    let at = |x: &[f64], power: usize| {
        let terms = x.iter().enumerate().map(|(j, x)| {
            let (sin, cos) = turns[power * j % (2 * n)];
            (x * cos, x * sin)
        });
        terms.fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1))
    };
    let quotients: Vec<(usize, f64, f64)> = (0..n / 2)
        .map(|i| {
            let power = 2 * i + 1;
            let ((a, b), (c, d)) = (at(&answer, power), at(&e, power));
            let norm = c * c + d * d;
            (power, (a * c + b * d) / norm, (b * c - a * d) / norm)
        })
        .collect();
    (0..n)
        .map(|j| {
            let terms = quotients.iter().map(|(power, re, im)| {
                let (sin, cos) = turns[power * j % (2 * n)];
                re * cos + im * sin
            });
            terms.sum::<f64>() * 2.0 / n as f64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_correlations::ole::Shape;
    use vesica_correlations::ole::lattice::bfv::SecretKey;
    use vesica_correlations::ole::lattice::{Parameters, modulus};
    use vesica_primitives::block::{Block, Prg};
    use vesica_primitives::prime::uniform;

    /// A receiver, a ciphertext of its, and a sender's u and v; slots and coefficients.
    struct Run {
        scheme: Scheme,
        key: SecretKey,
        public: Ciphertext,
        ciphertext: Ciphertext,
        s: [Vec<u64>; 2],
        u: [Vec<u64>; 2],
        v: [Vec<u64>; 2],
    }

    impl Run {
        fn new() -> Run {
            let (bins, per_bin) = (1 << 20, 28);
            let shape = Shape {
                modulus: modulus(40_961, bins, per_bin, 40).unwrap(),
                bins,
                per_bin,
            };
            let scheme = Scheme::new(Parameters::new(shape, 40).unwrap());
            let key = scheme.secret_key(&mut Prg::new(1));
            let random = |seed: Block| {
                let mut slots = vec![0; scheme.parameters().length];
                uniform(&mut Prg::new(seed), 1, shape.modulus.get(), &mut slots);
                let mut coefficients = slots.clone();
                scheme.encode(&mut coefficients);
                [slots, coefficients]
            };
            let encrypt = |seed: Block, plain: Option<&[u64]>| {
                let mask = scheme.ring().uniform(seed);
                let body = scheme.encrypt(&key, &mask, plain, &mut Prg::new(seed + 1));
                Ciphertext { body, mask }
            };
            let [s, u, v] = [2, 3, 4].map(random);
            Run {
                public: encrypt(10, None),
                ciphertext: encrypt(20, Some(&s[1])),
                s,
                u,
                v,
                scheme,
                key,
            }
        }

        /// An answer with or without the encryption of zero; its body is lifted, but not flooded.
        fn answer(&self, zero: bool) -> (Coefficients, Fractions) {
            let (scheme, mut prg) = (&self.scheme, Prg::new(5));
            let (u, w) = (scheme.factor(&self.u[1]), scheme.ring().error(&mut prg));
            let terms = [(&self.ciphertext, &u), (&self.public, &w)];
            let product = scheme.inner_product(&terms[..if zero { 2 } else { 1 }]);
            let mut answer = scheme.coefficients(product);
            if zero {
                scheme.ring().add_error(&mut prg, &mut answer.mask);
            }
            let body = scheme.lift(answer.body.clone(), &self.v[1]);
            (answer, body)
        }

        fn noise_of_ciphertext(&self) -> Fractions {
            let copy = Ciphertext {
                body: self.ciphertext.body.clone(),
                mask: self.ciphertext.mask.clone(),
            };
            let Coefficients { body, mask } = self.scheme.coefficients(copy);
            let body = self.scheme.lift(body, &vec![0; self.s[1].len()]);
            self.scheme.noise(&self.key, &body, &mask, &self.s[1])
        }

        fn noise_of_answer(&self, body: &Fractions, answer: &Coefficients) -> Fractions {
            let t = self.scheme.parameters().plain;
            // r, which the receiver decrypts.
            let slots = self.s[0].iter().zip(&self.u[0]).zip(&self.v[0]);
            let mut r: Vec<u64> = slots
                .map(|((s, u), v)| t.plus(t.times(*s, *u), *v))
                .collect();
            self.scheme.encode(&mut r);
            self.scheme.noise(&self.key, body, &answer.mask, &r)
        }

        /// How far numbers are from the coefficients of u, in the mean.
        fn distance(&self, found: &[f64]) -> f64 {
            let t = self.scheme.parameters().plain.get() as f64;
            let pairs = found.iter().zip(&self.u[1]);
            let distances = pairs.map(|(found, u)| {
                let u = *u as f64;
                (found - if u > t / 2.0 { u - t } else { u }).abs()
            });
            distances.sum::<f64>() / found.len() as f64
        }
    }

    #[test]
    fn without_an_encryption_of_zero_u_is_found() {
        let run = Run::new();
        let (answer, _) = run.answer(false);
        assert_eq!(
            divide_masks(&run.scheme, &run.ciphertext, &answer),
            run.u[0]
        );
        let (answer, _) = run.answer(true);
        let found = divide_masks(&run.scheme, &run.ciphertext, &answer);
        let hits = found.iter().zip(&run.u[0]).filter(|(a, b)| a == b).count();
        // A tenth of a slot is right by chance.
        assert!(hits < 5, "{hits}");
    }

    #[test]
    fn without_a_flood_most_bits_of_u_are_found() {
        let run = Run::new();
        let (answer, mut body) = run.answer(true);
        let ciphertext = run.noise_of_ciphertext();
        let noise = run.noise_of_answer(&body, &answer);
        let close = run.distance(&divide_noise(&run.scheme, &ciphertext, &noise));
        // Of ±20 480, a mean distance of 10 240 from 0.
        println!("mean distance {close}");
        assert!(close < 100.0, "{close}");
        run.scheme.flood(&mut body, &mut Prg::new(6));
        let noise = run.noise_of_answer(&body, &answer);
        let far = run.distance(&divide_noise(&run.scheme, &ciphertext, &noise));
        assert!(far > 1e9, "{far}");
    }
}
