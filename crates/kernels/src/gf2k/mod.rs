//! GF(2^k) for any k from 65 to 128, with additive Fourier transforms and small polynomials in bulk.
//!
//! An element is a `u128` whose bit i is the coefficient of x^i, with no bit set from k on; so every
//! string of k bits is an element, and a uniform string is a uniform element. The moduli are those of
//! Seroussi's table, of the least weight there is.
//!
//! Products: with s = 128 − k and the modulus x^k + r, one operand is shifted left by s. The product is
//! then taken modulo x^128 + r·x^s, whose leading term falls on the edge of a register: two more
//! carry-less products reduce it. That needs r·x^s to fit into 64 bits, as for every k from 91 on and most
//! below; the others fold twice. Sums of products are reduced once.
//!
//! The transforms are those of Lin, Chung and Han (FOCS 2014) over the basis β_i = x^i: with s_i the monic
//! polynomial whose roots are the span of β_0 … β_{i−1} and ŝ_i = s_i / s_i(β_i), a polynomial is given by
//! its coefficients of X_j = Π ŝ_i over the set bits i of j. X_j has degree j. The element with index j is Σ β_i over the
//! set bits i of j, which is j itself. From ŝ_0 = x, each next is ŝ_{i+1} = δ_{i+1}·(ŝ_i² + ŝ_i) with a
//! constant that makes ŝ_{i+1}(β_{i+1}) = 1.

mod bins;
mod butterflies;
mod direct;
mod modulus;
mod ops;
mod portable;
mod transform;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use bins::SLICES;
pub use transform::{MAX_LOG, Transform};

use crate::Backend;

/// The version that [`Backend::Best`] stands for on this machine.
pub fn backend_name() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if x86::wide_available() {
            return "vpclmulqdq";
        }
        if x86::available() {
            return "pclmulqdq";
        }
    }
    "portable"
}

macro_rules! dispatch {
    ($backend:expr, $field:expr, $call:ident($($arg:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if $backend == Backend::Best {
            if x86::wide_available() && $field.folds_once() {
                // SAFETY: the CPU has the features that the function was compiled for.
                return unsafe { x86::wide::$call($field, $($arg),*) };
            }
            if x86::available() {
                // SAFETY: as above.
                return unsafe { x86::narrow::$call($field, $($arg),*) };
            }
        }
        let _ = $backend;
        ops::$call::<portable::Portable>($field, $($arg),*)
    }};
}
use dispatch;

/// The field GF(2^k).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    bits: u32,
    /// The modulus without x^k.
    low: u64,
}

impl Field {
    /// The field of 2^`bits` elements.
    ///
    /// # Panics
    /// If `bits` is not from 65 to 128.
    pub fn new(bits: u32) -> Self {
        assert!((65..=128).contains(&bits));
        Field {
            bits,
            low: modulus::low_terms(bits),
        }
    }

    /// k.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// The modulus without its leading term x^k.
    pub fn modulus(self) -> u64 {
        self.low
    }

    /// All bits that an element may have set.
    pub fn mask(self) -> u128 {
        u128::MAX >> self.shift()
    }

    /// 128 − k: how far an operand is shifted.
    fn shift(self) -> u32 {
        128 - self.bits
    }

    /// Whether the shifted modulus, less its leading term, fits into 64 bits.
    fn folds_once(self) -> bool {
        self.shift() < self.low.leading_zeros()
    }

    /// a·b.
    pub fn multiply(self, backend: Backend, a: u128, b: u128) -> u128 {
        dispatch!(backend, self, multiply(a, b))
    }

    /// `a[i] *= b[i]`.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn multiply_assign(self, backend: Backend, a: &mut [u128], b: &[u128]) {
        assert_eq!(a.len(), b.len());
        dispatch!(backend, self, multiply_assign(a, b))
    }

    /// `a[i] *= factor`.
    pub fn scale_assign(self, backend: Backend, a: &mut [u128], factor: u128) {
        dispatch!(backend, self, scale_assign(a, factor))
    }

    /// Replaces every element by its inverse. 0 has none: if any element is 0, returns `false` and leaves
    /// the values unspecified.
    pub fn invert_all(self, backend: Backend, values: &mut [u128]) -> bool {
        dispatch!(backend, self, invert_all(values))
    }
}

#[cfg(test)]
mod tests;
