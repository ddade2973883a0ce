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

#[cfg(target_arch = "aarch64")]
mod aarch64;
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
use crate::backend::first_version;

/// Every operation, written once for all versions.
mod generic {
    pub(super) use super::bins::{evaluate_bins, interpolate_bins};
    pub(super) use super::butterflies::{forward, inverse};
    pub(super) use super::direct::evaluate_blocks;
    pub(super) use super::ops::{invert_all, multiply, multiply_assign, scale_assign};
}

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => "vpclmulqdq";
        "x86_64" if x86::available(backend) => "pclmulqdq";
        "aarch64" if aarch64::available(backend) => "pmull";
        else "portable"
    )
}

macro_rules! dispatch {
    ($backend:ident, $field:expr, $call:ident($($arg:expr),*)) => {
        first_version!($backend:
            "x86_64" if x86::wide_available($backend) && $field.folds_once() =>
                x86::wide::$call($field, $($arg),*);
            "x86_64" if x86::available($backend) => x86::narrow::$call($field, $($arg),*);
            "aarch64" if aarch64::available($backend) => aarch64::$call($field, $($arg),*);
            else generic::$call::<portable::Portable>($field, $($arg),*)
        )
    };
}

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

    /// Coefficients of 1, x, x², … of the polynomials of degree below `size` through the points of each bin:
    /// bin b has points number b·`size` to (b + 1)·`size` − 1, their values are at the same places in each
    /// slice, and so are its coefficients in `out`. Returns `false` and leaves `out` unspecified if a bin has
    /// two equal points. 2.5·`size`² products per bin, and `size`² more a slice without reduction.
    ///
    /// # Panics
    /// If `size` is 0 or does not divide the number of points, or the slices differ in length from the
    /// points.
    pub fn interpolate_bins(
        self,
        backend: Backend,
        size: usize,
        points: &[u128],
        values: [&[u128]; SLICES],
        out: [&mut [u128]; SLICES],
    ) -> bool {
        assert!(points.len().is_multiple_of(size));
        assert!(values.iter().all(|v| v.len() == points.len()));
        assert!(out.iter().all(|o| o.len() == points.len()));
        dispatch!(backend, self, interpolate_bins(size, points, values, out))
    }

    /// The values at `points[i]` of the polynomials of bin `bins[i]`, laid out as
    /// [`Field::interpolate_bins`] leaves them. Fast if points of a bin are neighbours.
    ///
    /// # Panics
    /// If there is no such bin, `size` is 0, or the lengths do not fit.
    pub fn evaluate_bins(
        self,
        backend: Backend,
        size: usize,
        coefficients: [&[u128]; SLICES],
        bins: &[u32],
        points: &[u128],
        out: [&mut [u128]; SLICES],
    ) {
        assert!(size > 0);
        assert_eq!(bins.len(), points.len());
        assert!(out.iter().all(|o| o.len() == points.len()));
        dispatch!(
            backend,
            self,
            evaluate_bins(size, coefficients, bins, points, out)
        )
    }
}

impl Transform {
    /// For each block of n = 2^`log_size` elements: from coefficients of X_0 … X_{n−1} to values at the n
    /// elements with indices `coset` ^ 0 … `coset` ^ (n − 1).
    ///
    /// # Panics
    /// If n does not divide the number of elements and `coset`, or is above 2^[`MAX_LOG`].
    pub fn forward(&self, backend: Backend, data: &mut [u128], log_size: u32, coset: u64) {
        self.check(data, log_size, coset);
        dispatch!(backend, self.field, forward(data, log_size, self, coset))
    }

    /// The inverse of [`Transform::forward`].
    ///
    /// # Panics
    /// As [`Transform::forward`].
    pub fn inverse(&self, backend: Backend, data: &mut [u128], log_size: u32, coset: u64) {
        self.check(data, log_size, coset);
        dispatch!(backend, self.field, inverse(data, log_size, self, coset))
    }

    fn check(&self, data: &[u128], log_size: u32, coset: u64) {
        assert!(log_size <= MAX_LOG);
        let n = 1usize << log_size;
        assert!(data.len().is_multiple_of(n) && coset.is_multiple_of(n as u64));
    }

    /// Values of polynomials: `coefficients` is a row of blocks of 2^`log_size` coefficients of X_0, X_1, …,
    /// each a polynomial; `out[i]` becomes the value at `points[i]` of block number i >> `log_shared`. For a
    /// few points per block: 2^`log_size` products per point.
    ///
    /// # Panics
    /// If the lengths do not fit, or a block has more than 2^[`MAX_LOG`] coefficients.
    pub fn evaluate_blocks(
        &self,
        backend: Backend,
        coefficients: &[u128],
        log_size: u32,
        log_shared: u32,
        points: &[u128],
        out: &mut [u128],
    ) {
        assert!(log_size <= MAX_LOG);
        assert_eq!(points.len(), out.len());
        assert!(points.len().div_ceil(1 << log_shared) << log_size <= coefficients.len());
        dispatch!(
            backend,
            self.field,
            evaluate_blocks(coefficients, log_size, log_shared, points, self, out)
        )
    }
}

#[cfg(test)]
mod tests;
