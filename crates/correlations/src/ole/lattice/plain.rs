//! What coefficients of plaintexts are: numbers modulo t.

use vesica_kernels::residues::Modulus;
use vesica_kernels::residues::ntt::Ntt;

use super::fractions::{Fraction, reciprocal};

/// What t is.
pub trait Plain: Copy + Send + Sync {
    /// What turns slots into coefficients, if there are any.
    type Slots: Send + Sync;

    /// Tables for polynomials of that length.
    fn slots(self, length: usize) -> Self::Slots;

    /// t, if it is below another number.
    fn below(self, other: u64) -> Option<u64>;

    /// t modulo another number.
    fn modulo(self, other: Modulus) -> u64;

    /// A number modulo t.
    fn reduce(self, a: u64) -> u64;

    /// a·b modulo t.
    fn times(self, a: u64, b: u64) -> u64;

    /// −a modulo t.
    fn negate(self, a: u64) -> u64;

    /// All bits set if the number, modulo t, stands for a negative one: above t/2.
    fn negative(self, a: u64) -> u64;

    /// ⌊2^192/t⌋.
    fn reciprocal(self) -> Fraction;
}

impl Plain for Modulus {
    type Slots = Slots;

    fn slots(self, length: usize) -> Slots {
        match self.bits() <= u32::BITS - 2 {
            true => Slots::Narrow(Ntt::new(self, length)),
            false => Slots::Wide(Ntt::new(self, length)),
        }
    }

    fn below(self, other: u64) -> Option<u64> {
        Some(self.get()).filter(|t| *t < other)
    }

    fn modulo(self, other: Modulus) -> u64 {
        self.get() % other.get()
    }

    fn reduce(self, a: u64) -> u64 {
        a % self.get()
    }

    fn times(self, a: u64, b: u64) -> u64 {
        Modulus::times(self, a, b)
    }

    fn negate(self, a: u64) -> u64 {
        self.minus(0, a)
    }

    fn negative(self, a: u64) -> u64 {
        (((self.get() / 2).wrapping_sub(a) as i64) >> 63) as u64
    }

    fn reciprocal(self) -> Fraction {
        reciprocal(self.get())
    }
}

/// t = 2^64, without slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words64;

impl Plain for Words64 {
    type Slots = ();

    fn slots(self, _: usize) {}

    fn below(self, _: u64) -> Option<u64> {
        None
    }

    fn modulo(self, other: Modulus) -> u64 {
        (u64::MAX % other.get() + 1) % other.get()
    }

    fn reduce(self, a: u64) -> u64 {
        a
    }

    fn times(self, a: u64, b: u64) -> u64 {
        a.wrapping_mul(b)
    }

    fn negate(self, a: u64) -> u64 {
        a.wrapping_neg()
    }

    fn negative(self, a: u64) -> u64 {
        ((a as i64) >> 63) as u64
    }

    fn reciprocal(self) -> Fraction {
        [0, 0, 1]
    }
}

/// The transform between slots and coefficients of plaintexts.
pub enum Slots {
    /// Modulo a prime that fits 32 bits.
    Narrow(Ntt<u32>),
    /// Modulo any other.
    Wide(Ntt<u64>),
}
