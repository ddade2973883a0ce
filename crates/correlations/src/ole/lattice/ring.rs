//! Polynomials modulo q and X^N + 1.

use std::ops::{Deref, DerefMut};

use vesica_kernels::Backend;
use vesica_kernels::residues::Modulus;
use vesica_kernels::residues::ntt::{Ntt, below};
use vesica_kernels::residues::rns;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::prime::uniform;
use zeroize::Zeroizing;

use super::fractions::fill_words;
use super::parameters::COINS;
use super::plain::Plain;

/// Numbers of the error distribution that are drawn at a time.
const CHUNK: usize = 256;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Words that begin a cache line, wiped when dropped. Vectors of 64 bytes that cross lines take transforms twice the
/// loads and stores.
pub(super) struct Words {
    words: Zeroizing<Vec<u32>>,
    start: usize,
    length: usize,
}

impl Words {
    /// All zero.
    pub(super) fn zero(length: usize) -> Words {
        let words = Zeroizing::new(vec![0; length + LINE / size_of::<u32>()]);
        // At most a line: the start is a matter of speed alone.
        let start = words.as_ptr().align_offset(LINE).min(words.len() - length);
        Words {
            words,
            start,
            length,
        }
    }

    /// Forgets all but the first words.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }
}

impl Deref for Words {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words[self.start..][..self.length]
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.words[self.start..][..self.length]
    }
}

impl Clone for Words {
    fn clone(&self) -> Words {
        let mut out = Words::zero(self.length);
        out.copy_from_slice(self);
        out
    }
}

/// A polynomial: a row of N residues for each ciphertext prime, wiped when dropped.
#[derive(Clone)]
pub struct Polynomial {
    length: usize,
    pub(super) residues: Words,
}

impl Polynomial {
    pub(super) fn zero(length: usize, primes: usize) -> Polynomial {
        Polynomial {
            length,
            residues: Words::zero(length * primes),
        }
    }

    /// The residues modulo each prime.
    pub fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.residues.chunks_exact(self.length)
    }

    /// The same, to be changed.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [u32]> {
        self.residues.chunks_exact_mut(self.length)
    }

    pub(super) fn row(&self, prime: usize) -> &[u32] {
        &self.residues[prime * self.length..][..self.length]
    }
}

/// N, and the primes whose product is q.
pub struct Ring {
    length: usize,
    transforms: Vec<Ntt<u32>>,
}

impl Ring {
    /// Tables for a ring.
    ///
    /// # Panics
    /// As [`Ntt::new`].
    pub fn new(length: usize, primes: &[Modulus]) -> Ring {
        Ring {
            length,
            transforms: primes.iter().map(|p| Ntt::new(*p, length)).collect(),
        }
    }

    /// The primes.
    pub fn primes(&self) -> impl Iterator<Item = Modulus> {
        self.transforms.iter().map(Ntt::modulus)
    }

    /// The transform modulo a prime.
    pub(super) fn transform(&self, prime: usize) -> &Ntt<u32> {
        &self.transforms[prime]
    }

    /// Zero.
    pub fn zero(&self) -> Polynomial {
        Polynomial::zero(self.length, self.transforms.len())
    }

    /// A uniform polynomial, in values, from a public seed.
    pub fn uniform(&self, seed: Block) -> Polynomial {
        let mut out = self.zero();
        let mut prg = Prg::new(seed);
        let mut row = vec![0; self.length];
        for (p, out) in self.primes().zip(out.rows_mut()) {
            uniform(&mut prg, 0, p.get(), &mut row);
            copy(&row, out);
        }
        out
    }

    /// A polynomial of the error distribution, in values.
    pub fn error(&self, prg: &mut Prg) -> Polynomial {
        let mut out = self.zero();
        self.add_error(prg, &mut out);
        self.forward(&mut out);
        out
    }

    /// Adds an error, in coefficients.
    pub fn add_error(&self, prg: &mut Prg, polynomial: &mut Polynomial) {
        let mut words = Zeroizing::new([0; CHUNK]);
        let mut small = Zeroizing::new([0; CHUNK]);
        for start in (0..self.length).step_by(CHUNK) {
            fill_words(prg, &mut words[..]);
            rns::centred_ones(Backend::Best, COINS, &words[..], &mut small[..]);
            self.add_small(&small[..], start, polynomial);
        }
    }

    /// Numbers modulo t, in −t/2 to t/2, modulo each prime.
    pub fn centred(&self, plain: &[u64], t: impl Plain) -> Polynomial {
        let mut out = self.zero();
        for (p, row) in self.primes().zip(out.rows_mut()) {
            let above = (p.get() - t.modulo(p)) as u32;
            let p = p.get();
            if let Some(t) = t.below(p) {
                let half = t as u32 / 2;
                for (out, value) in row.iter_mut().zip(plain) {
                    let value = *value as u32;
                    // All bits are set where the number is negative.
                    let negative = ((half.wrapping_sub(value) as i32) >> 31) as u32;
                    *out = value + (negative & above);
                }
                continue;
            }
            let reciprocal = u64::MAX / p;
            let reduce = |value: u64| {
                let quotient = ((u128::from(value) * u128::from(reciprocal)) >> 64) as u64;
                let rest = (value - quotient * p) as u32;
                below(below(rest, 2 * p as u32), p as u32)
            };
            for (out, value) in row.iter_mut().zip(plain) {
                let negative = t.negative(*value) as u32;
                *out = below(reduce(*value) + (negative & above), p as u32);
            }
        }
        out
    }

    /// Adds a polynomial to another, both in values or both in coefficients.
    pub fn add(&self, to: &mut Polynomial, from: &Polynomial) {
        for (p, (to, from)) in self.primes().zip(to.rows_mut().zip(from.rows())) {
            let p = p.get() as u32;
            for (to, from) in to.iter_mut().zip(from) {
                *to = below(*to + from, p);
            }
        }
    }

    /// Adds small numbers to the coefficients from number `start` on.
    pub fn add_small(&self, small: &[i32], start: usize, polynomial: &mut Polynomial) {
        for (p, row) in self.primes().zip(polynomial.rows_mut()) {
            let p = p.get() as u32;
            for (out, small) in row[start..].iter_mut().zip(small) {
                let residue = (*small as u32).wrapping_add((small >> 31) as u32 & p);
                *out = below(*out + residue, p);
            }
        }
    }

    /// Replaces coefficients by values.
    pub fn forward(&self, polynomial: &mut Polynomial) {
        let mut scratch = Words::zero(self.length);
        for (ntt, row) in self.transforms.iter().zip(polynomial.rows_mut()) {
            ntt.forward(Backend::Best, row, &mut scratch);
        }
    }

    /// Replaces values by coefficients.
    pub fn inverse(&self, polynomial: &mut Polynomial) {
        let mut scratch = Words::zero(self.length);
        for (ntt, row) in self.transforms.iter().zip(polynomial.rows_mut()) {
            ntt.inverse(Backend::Best, row, &mut scratch);
        }
    }
}

pub(super) fn copy(from: &[u64], to: &mut [u32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from as u32;
    }
}
