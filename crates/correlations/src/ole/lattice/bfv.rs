//! The encryption scheme of Z. Brakerski (CRYPTO 2012), J. Fan and F. Vercauteren (ePrint 2012/144) with a plaintext in
//! every slot (N. Smart, F. Vercauteren, Designs, Codes and Cryptography 2014): one function per step, randomness as an
//! argument.
//!
//! Plaintexts are polynomials modulo t, which is a prime with a number in each slot, or 2^64, with one in each coefficient
//! ([`plain`](super::plain)). A ciphertext (c₀, c₁) of m modulo t has c₀ + c₁·z = q/t·m + noise modulo q and X^N + 1. Here c₀ is called the body
//! and c₁ the mask. A public key is an encryption of zero. [`Scheme::lift`] makes body and message fractions of q in
//! units of 2^-192·q, in which a message is v/t and a flood of any size is a few words.

use vesica_kernels::Backend;
use vesica_kernels::residues::Modulus;
use vesica_kernels::residues::ntt::below;
use vesica_kernels::residues::rns::{self, Multiplier};
use vesica_primitives::block::Prg;
use vesica_primitives::prime::uniform;
use zeroize::Zeroizing;

use super::fractions::{self, Fraction, Fractions, LIMBS, multiply_add, reciprocal};
use super::parameters::Parameters;
use super::plain::{Plain, Slots};
use super::ring::{Polynomial, Ring, Words, copy};

/// The secret key z, in values.
pub struct SecretKey(Polynomial);

impl SecretKey {
    /// z, in values.
    pub fn values(&self) -> &Polynomial {
        &self.0
    }
}

/// A ciphertext modulo q, in values.
pub struct Ciphertext {
    /// c₀.
    pub body: Polynomial,
    /// c₁.
    pub mask: Polynomial,
}

/// A ciphertext modulo q, in coefficients.
pub struct Coefficients {
    /// c₀.
    pub body: Polynomial,
    /// c₁.
    pub mask: Polynomial,
}

/// A ciphertext with the fewest bits that decrypt: c₀ modulo 2^b, and c₁ modulo the product of the primes that are kept.
pub struct Answer {
    /// c₀: numbers of [`Parameters::body_bits`] bits.
    pub body: Vec<u64>,
    /// c₁: a row for each of [`Parameters::kept`] primes.
    pub mask: Polynomial,
}

/// What the steps of one run share.
pub struct Scheme<T: Plain = Modulus> {
    parameters: Parameters<T>,
    slots: T::Slots,
    ring: Ring,
    /// 1/(q/p) modulo each prime p.
    complements: Vec<Multiplier>,
    /// The same for q′.
    kept_complements: Vec<Multiplier>,
    /// ⌊2^192/p⌋.
    reciprocals: Vec<Fraction>,
    /// −1/t modulo each prime.
    encoders: Vec<Multiplier>,
    /// 1/d modulo each prime before d, for each prime d that is dropped.
    dropped: Vec<Vec<Multiplier>>,
    /// q modulo t.
    remainder: u64,
}

impl<T: Plain> Scheme<T> {
    /// Tables for a run's parameters.
    pub fn new(parameters: Parameters<T>) -> Scheme<T> {
        let (length, plain) = (parameters.length, parameters.plain);
        let primes = &parameters.primes;
        let product = |modulus: Modulus, factors: &[Modulus]| {
            factors
                .iter()
                .filter(|factor| **factor != modulus)
                .fold(1, |product, factor| {
                    modulus.times(product, factor.get() % modulus.get())
                })
        };
        let complements = |factors: &[Modulus]| {
            let complement = |p: &Modulus| Multiplier::new(*p, invert(*p, product(*p, factors)));
            factors.iter().map(complement).collect()
        };
        let encoder = |p: &Modulus| {
            let inverse = invert(*p, plain.modulo(*p));
            Multiplier::new(*p, p.minus(0, inverse))
        };
        let inverses = |last: usize| {
            let d = primes[last].get();
            let before = primes[..last].iter();
            before
                .map(|p| Multiplier::new(*p, invert(*p, d % p.get())))
                .collect()
        };
        let remainder = primes
            .iter()
            .fold(1, |product, p| plain.times(product, plain.reduce(p.get())));
        Scheme {
            slots: plain.slots(length),
            dropped: (parameters.kept..primes.len()).map(inverses).collect(),
            ring: Ring::new(length, primes),
            complements: complements(primes),
            kept_complements: complements(&primes[..parameters.kept]),
            reciprocals: primes.iter().map(|p| reciprocal(p.get())).collect(),
            encoders: primes.iter().map(encoder).collect(),
            remainder,
            parameters,
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters<T> {
        &self.parameters
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// A secret key: coefficients uniform in −1, 0 and 1.
    pub fn secret_key(&self, prg: &mut Prg) -> SecretKey {
        let mut digits = Zeroizing::new(vec![0; self.parameters.length]);
        uniform(prg, 0, 3, &mut digits);
        let small: Zeroizing<Vec<i32>> =
            Zeroizing::new(digits.iter().map(|digit| *digit as i32 - 1).collect());
        let mut key = self.ring.zero();
        self.ring.add_small(&small, 0, &mut key);
        self.ring.forward(&mut key);
        SecretKey(key)
    }

    /// The body of a ciphertext of `plain` (coefficients modulo t; none for zero) under a uniform mask:
    /// c₀ = −c₁·z + ⌈q·m/t⌋ + e, in values.
    pub fn encrypt(
        &self,
        key: &SecretKey,
        mask: &Polynomial,
        plain: Option<&[u64]>,
        prg: &mut Prg,
    ) -> Polynomial {
        let mut body = match plain {
            Some(plain) => self.scale_up(plain),
            None => self.ring.zero(),
        };
        self.ring.add_error(prg, &mut body);
        self.ring.forward(&mut body);
        let mut product = Zeroizing::new(vec![0; self.parameters.length]);
        for (i, row) in body.rows_mut().enumerate() {
            let p = self.parameters.primes[i];
            let terms = [(mask.row(i), key.0.row(i))];
            rns::inner_product(Backend::Best, p, &terms, &mut product);
            let p = p.get() as u32;
            for (value, product) in row.iter_mut().zip(product.iter()) {
                *value = below(*value + p - product, p);
            }
        }
        body
    }

    /// ⌈q·m/t⌋ modulo each prime: q·m is 0 there, and the multiple of t nearest to it is q·m less what it is modulo t.
    fn scale_up(&self, plain: &[u64]) -> Polynomial {
        let t = self.parameters.plain;
        let rest = plain.iter().map(|m| t.times(*m, self.remainder));
        let rest: Zeroizing<Vec<u64>> = Zeroizing::new(rest.collect());
        let mut out = self.ring.centred(&rest, t);
        for (encoder, row) in self.encoders.iter().zip(out.rows_mut()) {
            rns::scale(Backend::Best, encoder, row);
        }
        out
    }

    /// A plaintext to multiply ciphertexts by, from coefficients modulo t; in values.
    pub fn factor(&self, plain: &[u64]) -> Polynomial {
        let mut out = self.ring.centred(plain, self.parameters.plain);
        self.ring.forward(&mut out);
        out
    }

    /// Σ cᵢ·mᵢ. With a public key for a c, and an [error](Ring::error) for its m, that term is most of an encryption of
    /// zero, of which [`Ring::add_error`] on the mask and the flood are the rest.
    ///
    /// # Panics
    /// If there are more than [`rns::MAX_TERMS`] terms.
    pub fn inner_product(&self, terms: &[(&Ciphertext, &Polynomial)]) -> Ciphertext {
        let half = |of: fn(&Ciphertext) -> &Polynomial| {
            let mut out = self.ring.zero();
            for (i, row) in out.rows_mut().enumerate() {
                let terms: Vec<(&[u32], &[u32])> = terms
                    .iter()
                    .map(|(ciphertext, factor)| (of(ciphertext).row(i), factor.row(i)))
                    .collect();
                rns::inner_product(Backend::Best, self.parameters.primes[i], &terms, row);
            }
            out
        };
        Ciphertext {
            body: half(|ciphertext| &ciphertext.body),
            mask: half(|ciphertext| &ciphertext.mask),
        }
    }

    /// A ciphertext's coefficients.
    pub fn coefficients(&self, ciphertext: Ciphertext) -> Coefficients {
        let Ciphertext { mut body, mut mask } = ciphertext;
        self.ring.inverse(&mut body);
        self.ring.inverse(&mut mask);
        Coefficients { body, mask }
    }

    /// A body, with `plain` (coefficients modulo t) added to the message, as fractions of q.
    pub fn lift(&self, mut body: Polynomial, plain: &[u64]) -> Fractions {
        for (complement, row) in self.complements.iter().zip(body.rows_mut()) {
            rns::scale(Backend::Best, complement, row);
        }
        let reciprocal = self.parameters.plain.reciprocal();
        let mut out: Fractions = Zeroizing::new(vec![[0; LIMBS]; plain.len()]);
        for (out, plain) in out.iter_mut().zip(plain) {
            *out = multiply_add(*out, *plain, reciprocal);
        }
        for (row, reciprocal) in body.rows().zip(&self.reciprocals) {
            for (out, value) in out.iter_mut().zip(row) {
                *out = multiply_add(*out, u64::from(*value), *reciprocal);
            }
        }
        out
    }

    /// Adds uniform numbers of [`Parameters::flood_bits`] bits, less half of their range.
    pub fn flood(&self, fractions: &mut Fractions, prg: &mut Prg) {
        fractions::flood(fractions, self.parameters.flood_bits, prg);
    }

    /// c₁·z, in coefficients, from the coefficients of c₁.
    pub fn times_key(&self, key: &SecretKey, mask: &Polynomial) -> Polynomial {
        let mut mask = mask.clone();
        self.ring.forward(&mut mask);
        let mut product = self.ring.zero();
        for (i, row) in product.rows_mut().enumerate() {
            let p = self.parameters.primes[i];
            rns::inner_product(Backend::Best, p, &[(mask.row(i), key.0.row(i))], row);
        }
        self.ring.inverse(&mut product);
        product
    }

    /// What the holder of the key sees of a ciphertext beyond its message (coefficients modulo t): c₀ + c₁·z − q/t·m.
    /// The flood hides it; nothing but tests and attacks looks.
    pub fn noise(
        &self,
        key: &SecretKey,
        body: &Fractions,
        mask: &Polynomial,
        message: &[u64],
    ) -> Fractions {
        let t = self.parameters.plain;
        let negated: Vec<u64> = message.iter().map(|m| t.negate(*m)).collect();
        let mut out = self.lift(self.times_key(key, mask), &negated);
        for (out, body) in out.iter_mut().zip(body.iter()) {
            *out = fractions::add(*out, *body, 0);
        }
        out
    }
}

impl Scheme {
    /// Replaces slots by the coefficients of the polynomial that has them, modulo t.
    pub fn encode(&self, slots: &mut [u64]) {
        match &self.slots {
            Slots::Narrow(ntt) => {
                narrow(slots, |x, scratch| ntt.inverse(Backend::Best, x, scratch))
            }
            Slots::Wide(ntt) => {
                ntt.inverse(
                    Backend::Best,
                    slots,
                    &mut Zeroizing::new(vec![0; slots.len()]),
                );
            }
        }
    }

    /// Replaces coefficients by slots.
    pub fn decode(&self, coefficients: &mut [u64]) {
        match &self.slots {
            Slots::Narrow(ntt) => narrow(coefficients, |x, scratch| {
                ntt.forward(Backend::Best, x, scratch);
            }),
            Slots::Wide(ntt) => {
                let mut scratch = Zeroizing::new(vec![0; coefficients.len()]);
                ntt.forward(Backend::Best, coefficients, &mut scratch);
            }
        }
    }

    /// Rounds a flooded body and its mask to what is sent.
    pub fn switch(&self, body: &Fractions, mut mask: Polynomial) -> Answer {
        let Parameters {
            length,
            primes,
            kept,
            body_bits,
            ..
        } = &self.parameters;
        // Half a unit, and then whole ones.
        let half = 1 << (63 - body_bits);
        let round =
            |fraction: &Fraction| fraction[LIMBS - 1].wrapping_add(half) >> (64 - body_bits);
        for last in (*kept..primes.len()).rev() {
            let (rest, dropped) = mask.residues.split_at_mut(last * length);
            let inverses = &self.dropped[last - kept];
            for (inverse, row) in inverses.iter().zip(rest.chunks_exact_mut(*length)) {
                rns::divide(
                    Backend::Best,
                    inverse,
                    primes[last],
                    &dropped[..*length],
                    row,
                );
            }
        }
        mask.residues.truncate(kept * length);
        Answer {
            body: body.iter().map(round).collect(),
            mask,
        }
    }

    /// The coefficients of an answer's message.
    pub fn decrypt(&self, key: &SecretKey, answer: &Answer) -> Zeroizing<Vec<u64>> {
        let Parameters {
            length,
            body_bits,
            plain,
            ..
        } = &self.parameters;
        let start = answer.body.iter();
        let start = start.map(|body| u128::from(*body) << (128 - body_bits));
        let mut fractions: Zeroizing<Vec<u128>> = Zeroizing::new(start.collect());
        let (mut values, mut scratch) = (Words::zero(*length), Words::zero(*length));
        for (i, row) in answer.mask.rows().enumerate() {
            let ntt = self.ring.transform(i);
            scratch.copy_from_slice(row);
            ntt.forward(Backend::Best, &mut scratch, &mut values);
            let terms = [(&scratch[..], key.0.row(i))];
            rns::inner_product(Backend::Best, ntt.modulus(), &terms, &mut values);
            ntt.inverse(Backend::Best, &mut values, &mut scratch);
            rns::scale(Backend::Best, &self.kept_complements[i], &mut values);
            let [_, low, high] = self.reciprocals[i];
            let reciprocal = u128::from(high) << 64 | u128::from(low);
            for (fraction, value) in fractions.iter_mut().zip(values.iter()) {
                *fraction = fraction.wrapping_add(reciprocal.wrapping_mul(u128::from(*value)));
            }
        }
        let t = u128::from(plain.get());
        let round = |fraction: &u128| {
            // ⌊t·fraction + 1/2⌋, which is t where it should be 0.
            let low = (u128::from(*fraction as u64) * t) >> 64;
            let rounded = (((fraction >> 64) * t + low) + (1 << 63)) >> 64;
            let rounded = rounded as u64;
            rounded.min(rounded.wrapping_sub(plain.get()))
        };
        Zeroizing::new(fractions.iter().map(round).collect())
    }
}

/// Transforms 64-bit words that hold 32 bits.
fn narrow(values: &mut [u64], transform: impl FnOnce(&mut [u32], &mut [u32])) {
    let mut words = Words::zero(values.len());
    copy(values, &mut words);
    transform(&mut words, &mut Words::zero(values.len()));
    for (value, word) in values.iter_mut().zip(words.iter()) {
        *value = u64::from(*word);
    }
}

/// 1/a modulo a prime.
fn invert(modulus: Modulus, a: u64) -> u64 {
    modulus.power_vartime(a, modulus.get() - 2)
}
