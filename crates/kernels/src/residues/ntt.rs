//! Negacyclic number-theoretic transforms: what multiplies polynomials modulo X^N + 1 and a prime p that is 1 modulo
//! 2N, N being a power of two.
//!
//! Each stage splits every X^m − r into X^(m/2) − √r and X^(m/2) + √r, and has the geometry of M. Pease (Journal of
//! the ACM 1968): it reads elements i and i + N/2 and writes elements 2i and 2i + 1, whatever the stage, so that all
//! stages are vectors of neighbours. Products by roots have precomputed quotients (V. Shoup, NTL), and residues stay
//! below 4p or 2p until the end (D. Harvey, *Faster arithmetic for number-theoretic transforms*, Journal of Symbolic
//! Computation 2014).
//!
//! The values come in bit-reversed order. Time and addresses do not depend on them.

use super::Modulus;
use crate::Backend;
use crate::backend::first_version;

/// Shortest table of roots of a stage: a vector or two.
const LANES: usize = 16;

/// Least number of coefficients.
pub const MIN_LENGTH: usize = 2 * LANES;

/// A word that holds four times a residue.
pub trait Word: sealed::Word {}

impl Word for u32 {}

impl Word for u64 {}

mod sealed {
    use crate::Backend;

    /// Arithmetic modulo 2^[`Word::BITS`].
    pub trait Word: Copy + Default {
        /// Bits of the word.
        const BITS: u32;
        /// The lower bits.
        fn from_u64(value: u64) -> Self;
        /// The word as a number.
        fn to_u64(self) -> u64;
        /// The upper half of a product.
        fn high(self, other: Self) -> Self;
        /// The lower half of a product.
        fn low(self, other: Self) -> Self;
        /// A sum.
        fn plus(self, other: Self) -> Self;
        /// A difference.
        fn minus(self, other: Self) -> Self;
        /// The smaller one.
        fn smaller(self, other: Self) -> Self;
        /// [`super::forward`] in the version for `backend`.
        fn forward(backend: Backend, ntt: &super::Ntt<Self>, x: &mut [Self], y: &mut [Self]);
        /// [`super::inverse`] in the version for `backend`.
        fn inverse(backend: Backend, ntt: &super::Ntt<Self>, x: &mut [Self], y: &mut [Self]);
    }
}

macro_rules! word {
    ($word:ty, $wide:ty, $forward:path, $inverse:path) => {
        impl sealed::Word for $word {
            const BITS: u32 = <$word>::BITS;

            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as $word
            }

            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn high(self, other: Self) -> Self {
                ((self as $wide * other as $wide) >> <$word>::BITS) as $word
            }

            #[inline(always)]
            fn low(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }

            fn forward(backend: Backend, ntt: &Ntt<Self>, x: &mut [Self], y: &mut [Self]) {
                $forward(backend, ntt, x, y);
            }

            fn inverse(backend: Backend, ntt: &Ntt<Self>, x: &mut [Self], y: &mut [Self]) {
                $inverse(backend, ntt, x, y);
            }
        }
    };
}

word!(u32, u64, forward32, inverse32);
word!(u64, u128, forward64, inverse64);

/// A factor with its quotient ⌊factor·2^BITS / p⌋.
#[derive(Clone, Copy)]
pub(super) struct Factor<W>(pub(super) W, pub(super) W);

impl<W: Word> Factor<W> {
    pub(super) fn new(factor: u64, p: u64) -> Self {
        let quotient = (u128::from(factor) << W::BITS) / u128::from(p);
        Factor(W::from_u64(factor), W::from_u64(quotient as u64))
    }
}

/// Congruent to factor·x and below 2p, for any x.
#[inline(always)]
pub(super) fn times<W: Word>(x: W, factor: W, quotient: W, p: W) -> W {
    x.low(factor).minus(x.high(quotient).low(p))
}

/// `x`, or `x − bound` where `x` is not below `bound`.
#[inline(always)]
pub fn below<W: Word>(x: W, bound: W) -> W {
    x.smaller(x.minus(bound))
}

/// Factors that are used together, and their quotients, in cache lines of their own.
#[repr(align(64))]
struct Line<W> {
    factors: [W; LANES],
    quotients: [W; LANES],
}

/// The factors of all stages, one after the other.
struct Factors<W>(Vec<Line<W>>);

/// A transform: N and p with their tables.
pub struct Ntt<W> {
    modulus: Modulus,
    length: usize,
    roots: Factors<W>,
    inverse_roots: Factors<W>,
    inverse_length: Factor<W>,
}

impl<W: Word> Ntt<W> {
    /// Tables for `length` coefficients modulo a prime.
    ///
    /// # Panics
    /// If the length is not a power of two and at least [`MIN_LENGTH`], the modulus not a prime that is 1 modulo
    /// twice the length, or four times the modulus does not fit the word. Not every composite modulus is noticed.
    pub fn new(modulus: Modulus, length: usize) -> Ntt<W> {
        let p = modulus.get();
        assert!(length.is_power_of_two() && length >= MIN_LENGTH);
        assert!((p - 1).is_multiple_of(2 * length as u64) && modulus.bits() <= W::BITS - 2);
        let root = (2..2000)
            .map(|base| modulus.power_vartime(base % p, (p - 1) / (2 * length as u64)))
            .find(|root| modulus.power_vartime(*root, length as u64) == p - 1)
            .expect("half of a prime's residues are not squares");
        let inverse = modulus.power_vartime(root, 2 * length as u64 - 1);
        Ntt {
            modulus,
            length,
            roots: Factors::new(modulus, length, root),
            inverse_roots: Factors::new(modulus, length, inverse),
            inverse_length: Factor::new(modulus.power_vartime(length as u64, p - 2), p),
        }
    }

    /// p.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// N.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Replaces coefficients by values; both are below p. `scratch` is overwritten.
    ///
    /// # Panics
    /// If a length is not N.
    pub fn forward(&self, backend: Backend, values: &mut [W], scratch: &mut [W]) {
        assert!(values.len() == self.length && scratch.len() == self.length);
        W::forward(backend, self, values, scratch);
    }

    /// Replaces values by coefficients; both are below p. `scratch` is overwritten.
    ///
    /// # Panics
    /// If a length is not N.
    pub fn inverse(&self, backend: Backend, values: &mut [W], scratch: &mut [W]) {
        assert!(values.len() == self.length && scratch.len() == self.length);
        W::inverse(backend, self, values, scratch);
    }
}

impl<W: Word> Factors<W> {
    /// Stage s has a factor for each of its 2^s blocks, in order, repeated until there are [`LANES`].
    fn new(modulus: Modulus, length: usize, root: u64) -> Factors<W> {
        let mut all = Vec::new();
        let stages = length.trailing_zeros();
        for stage in 0..stages {
            // Block b of stage s has X^m − r with r = ψ^(N·(2·rev(b) + 1)/2^s), rev reversing s bits; its factor is √r.
            let blocks = 1usize << stage;
            let factor = |block: usize| {
                let reversed = (block << 1).reverse_bits() >> (usize::BITS - stage - 1);
                let exponent = (length >> (stage + 1)) * (2 * reversed + 1);
                Factor::<W>::new(modulus.power_vartime(root, exponent as u64), modulus.get())
            };
            all.extend((0..blocks.max(LANES)).map(|i| factor(i % blocks)));
        }
        let line = |factors: &[Factor<W>; LANES]| Line {
            factors: factors.map(|factor| factor.0),
            quotients: factors.map(|factor| factor.1),
        };
        Factors(all.as_chunks().0.iter().map(line).collect())
    }

    /// The factors of a stage.
    #[inline(always)]
    fn stage(&self, stage: u32) -> &[Line<W>] {
        let lanes = LANES.trailing_zeros();
        // Stages up to number `lanes` have one vector each.
        let start = if stage < lanes {
            stage as usize
        } else {
            lanes as usize - 1 + (1usize << (stage - lanes))
        };
        let count = 1usize << stage.saturating_sub(lanes);
        &self.0[start..start + count]
    }
}

/// One stage from coefficients to values: from below 4p to below 4p.
#[inline(always)]
fn forward_stage<W: Word>(ntt: &Ntt<W>, stage: u32, x: &[W], y: &mut [W]) {
    let p = W::from_u64(ntt.modulus.get());
    let twice = p.plus(p);
    let lines = ntt.roots.stage(stage);
    let (low, high) = x.split_at(ntt.length / 2);
    let (low, high) = (low.as_chunks::<LANES>().0, high.as_chunks::<LANES>().0);
    let out = y.as_chunks_mut::<{ 2 * LANES }>().0;
    let count = lines.len();
    let groups = low.chunks_exact(count).zip(high.chunks_exact(count));
    for (out, (low, high)) in out.chunks_exact_mut(count).zip(groups) {
        for (i, line) in lines.iter().enumerate() {
            for lane in 0..LANES {
                let a = below(low[i][lane], twice);
                let b = times(high[i][lane], line.factors[lane], line.quotients[lane], p);
                out[i][2 * lane] = a.plus(b);
                out[i][2 * lane + 1] = a.plus(twice).minus(b);
            }
        }
    }
}

/// One stage back: from below 2p to below 2p.
#[inline(always)]
fn inverse_stage<W: Word>(ntt: &Ntt<W>, stage: u32, x: &[W], y: &mut [W]) {
    let p = W::from_u64(ntt.modulus.get());
    let twice = p.plus(p);
    let lines = ntt.inverse_roots.stage(stage);
    let (low, high) = y.split_at_mut(ntt.length / 2);
    let (low, high) = (
        low.as_chunks_mut::<LANES>().0,
        high.as_chunks_mut::<LANES>().0,
    );
    let pairs = x.as_chunks::<{ 2 * LANES }>().0;
    let count = lines.len();
    let groups = low
        .chunks_exact_mut(count)
        .zip(high.chunks_exact_mut(count));
    for (pairs, (low, high)) in pairs.chunks_exact(count).zip(groups) {
        for (i, line) in lines.iter().enumerate() {
            for lane in 0..LANES {
                let (a, b) = (pairs[i][2 * lane], pairs[i][2 * lane + 1]);
                low[i][lane] = below(a.plus(b), twice);
                let difference = a.plus(twice).minus(b);
                high[i][lane] = times(difference, line.factors[lane], line.quotients[lane], p);
            }
        }
    }
}

#[inline(always)]
fn forward<W: Word>(ntt: &Ntt<W>, x: &mut [W], y: &mut [W]) {
    let stages = ntt.length.trailing_zeros();
    for stage in 0..stages {
        match stage % 2 {
            0 => forward_stage(ntt, stage, x, y),
            _ => forward_stage(ntt, stage, y, x),
        }
    }
    let p = W::from_u64(ntt.modulus.get());
    let reduce = |value: W| below(below(value, p.plus(p)), p);
    if stages % 2 == 1 {
        for (x, y) in x.iter_mut().zip(y) {
            *x = reduce(*y);
        }
    } else {
        for x in x {
            *x = reduce(*x);
        }
    }
}

#[inline(always)]
fn inverse<W: Word>(ntt: &Ntt<W>, x: &mut [W], y: &mut [W]) {
    let stages = ntt.length.trailing_zeros();
    for stage in (0..stages).rev() {
        match (stages - 1 - stage) % 2 {
            0 => inverse_stage(ntt, stage, x, y),
            _ => inverse_stage(ntt, stage, y, x),
        }
    }
    let p = W::from_u64(ntt.modulus.get());
    let Factor(factor, quotient) = ntt.inverse_length;
    let scale = |value: W| below(times(value, factor, quotient, p), p);
    if stages % 2 == 1 {
        for (x, y) in x.iter_mut().zip(y) {
            *x = scale(*y);
        }
    } else {
        for x in x {
            *x = scale(*x);
        }
    }
}

versions! {
    fn forward32(ntt: &Ntt<u32>, x: &mut [u32], y: &mut [u32]) {
        forward(ntt, x, y);
    }
}

versions! {
    fn inverse32(ntt: &Ntt<u32>, x: &mut [u32], y: &mut [u32]) {
        inverse(ntt, x, y);
    }
}

/// There is no vector product of 64 by 64 bits.
fn forward64(_: Backend, ntt: &Ntt<u64>, x: &mut [u64], y: &mut [u64]) {
    forward(ntt, x, y);
}

fn inverse64(_: Backend, ntt: &Ntt<u64>, x: &mut [u64], y: &mut [u64]) {
    inverse(ntt, x, y);
}

#[cfg(test)]
mod tests;
