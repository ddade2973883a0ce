//! GF(2^64) and the towers GF(2^128) and GF(2^256) over it, with additive Fourier transforms.
//!
//! - GF(2^64) is GF(2)\[x\] modulo x^64 + x^4 + x^3 + x + 1; bit i of a word is the coefficient of x^i.
//! - GF(2^128) is GF(2^64)\[u\] modulo u² + x·u + 1.
//! - GF(2^256) is GF(2^128)\[w\] modulo w² + (x²·u)·w + 1.
//!
//! Both extensions are irreducible because the trace of the inverse of the middle coefficient is 1. An
//! [`Element`] (c0, c1, c2, c3) is c0 + c1·u + (c2 + c3·u)·w. Multiplying it by an element of GF(2^64) is
//! four small products, so the tower suits transforms whose points lie in GF(2^64).
//!
//! The transforms are those of Lin, Chung and Han (FOCS 2014) over the Cantor basis β_0 = 1,
//! β_i = β_{i+1}² + β_{i+1}: with s_i the monic polynomial whose roots are the span of
//! β_0 … β_{i−1}, a polynomial is given by its coefficients of X_j = Π s_i over the set bits i of j.
//! In the Cantor basis s_i(β_i) = 1, so all twiddle factors are sums of basis elements.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod ops;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use portable::product as carryless_product;

use crate::Backend;
use crate::backend::first_version;
use std::sync::OnceLock;

/// An element of GF(2^256): four coefficients in GF(2^64), lowest first.
pub type Element = [u64; 4];

/// The polynomial x^64 + x^4 + x^3 + x + 1 without its leading term.
const REDUCTION: u64 = 0x1b;

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
    ($backend:ident, $call:ident($($arg:expr),*)) => {
        first_version!($backend:
            "x86_64" if x86::wide_available($backend) => x86::wide::$call($($arg),*);
            "x86_64" if x86::available($backend) => x86::narrow::$call($($arg),*);
            "aarch64" if aarch64::available($backend) => aarch64::$call($($arg),*);
            else ops::$call::<portable::Portable>($($arg),*)
        )
    };
}

/// `a[i] *= b[i]` in GF(2^256).
///
/// # Panics
/// If the slices differ in length.
pub fn multiply_assign(backend: Backend, a: &mut [Element], b: &[Element]) {
    assert_eq!(a.len(), b.len());
    dispatch!(backend, multiply_assign(a, b))
}

/// `a[i] *= factor`, with the factor in GF(2^64).
pub fn scale_assign(backend: Backend, a: &mut [Element], factor: u64) {
    dispatch!(backend, scale_assign(a, factor))
}

/// Replaces every element by its inverse. 0 has none: if any element is 0, returns `false` and leaves the values unspecified.
pub fn invert_all(backend: Backend, values: &mut [Element]) -> bool {
    dispatch!(backend, invert_all(values))
}

/// Σ a\[i\]·b\[i\].
///
/// # Panics
/// If the slices differ in length.
pub fn inner_product(backend: Backend, a: &[Element], b: &[Element]) -> Element {
    assert_eq!(a.len(), b.len());
    dispatch!(backend, inner_product(a, b))
}

/// Values of polynomials in the X_j basis: `coefficients` is a row of blocks of 2^`log_size` elements,
/// each a polynomial; `out[i]` becomes the value at `points[i]` of block number i >> `log_shared`.
///
/// The cost is quadratic: 2^`log_size` products per point.
///
/// # Panics
/// If the lengths do not fit.
pub fn evaluate_blocks(
    backend: Backend,
    coefficients: &[Element],
    log_size: u32,
    log_shared: u32,
    points: &[Element],
    out: &mut [Element],
) {
    assert_eq!(points.len(), out.len());
    assert!(points.len().div_ceil(1 << log_shared) << log_size <= coefficients.len());
    dispatch!(
        backend,
        evaluate_blocks(coefficients, log_size, log_shared, points, out)
    )
}

/// The product in GF(2^128): an element is c0 + c1·u, c0 in the low 64 bits.
pub fn multiply128(backend: Backend, a: u128, b: u128) -> u128 {
    dispatch!(backend, multiply128(a, b))
}

/// Σ a\[i\]·b\[i\] in GF(2^128).
///
/// # Panics
/// If the slices differ in length.
pub fn inner_product128(backend: Backend, a: &[u128], b: &[u128]) -> u128 {
    assert_eq!(a.len(), b.len());
    dispatch!(backend, inner_product128(a, b))
}

/// `out[i] += factor·x[i]` in GF(2^128).
///
/// # Panics
/// If the slices differ in length.
pub fn add_scaled128(backend: Backend, out: &mut [u128], factor: u128, x: &[u128]) {
    assert_eq!(out.len(), x.len());
    dispatch!(backend, add_scaled128(out, factor, x))
}

/// `out[i] += factor·x[i]` with the x\[i\] in the subfield GF(2^64).
///
/// # Panics
/// If the slices differ in length.
pub fn add_scaled64(backend: Backend, out: &mut [u128], factor: u128, x: &[u64]) {
    assert_eq!(out.len(), x.len());
    dispatch!(backend, add_scaled64(out, factor, x))
}

/// Multiplies elements of GF(2^128) by factors in GF(2^64), one factor per element or per two successive elements.
///
/// # Panics
/// If the number of elements is neither that of the factors nor twice that.
pub fn scale_groups(backend: Backend, elements: &mut [[u64; 2]], factors: &[u64]) {
    assert!([factors.len(), 2 * factors.len()].contains(&elements.len()));
    dispatch!(backend, scale_groups(elements, factors))
}

/// The Cantor basis β_0 … β_63 of GF(2^64).
pub fn cantor_basis() -> &'static [u64; 64] {
    static BASIS: OnceLock<[u64; 64]> = OnceLock::new();
    BASIS.get_or_init(|| {
        // Columns of the linear map y ↦ y² + y, put into echelon form with the y that leads to each.
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for bit in 1..64 {
            let y = 1u64 << bit;
            let (mut image, mut source) = (portable::multiply64(y, y) ^ y, y);
            for &(i, s) in &rows {
                if image ^ i < image {
                    image ^= i;
                    source ^= s;
                }
            }
            rows.push((image, source));
            rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.0));
        }
        let mut basis = [1u64; 64];
        for i in 1..64 {
            let (mut target, mut root) = (basis[i - 1], 0);
            for &(image, source) in &rows {
                if target ^ image < target {
                    target ^= image;
                    root ^= source;
                }
            }
            debug_assert_eq!(target, 0);
            basis[i] = root;
        }
        basis
    })
}

/// The element Σ β_i over the set bits i of `index`.
pub fn cantor_element(index: u64) -> u64 {
    let basis = cantor_basis();
    (0..64)
        .filter(|i| index >> i & 1 == 1)
        .fold(0, |sum, i| sum ^ basis[i])
}

/// Transforms of up to a fixed size.
pub struct Transform {
    /// Entry j is the element with index 2j.
    twiddles: Vec<u64>,
}

impl Transform {
    /// Transforms of up to 2^`log_size` elements.
    pub fn new(log_size: u32) -> Self {
        let mut twiddles = vec![0u64];
        for bit in 1..log_size {
            let beta = cantor_basis()[bit as usize];
            for j in 0..twiddles.len() {
                twiddles.push(twiddles[j] ^ beta);
            }
        }
        Transform { twiddles }
    }

    /// For each block of n = 2^`log_size` elements: from coefficients of X_0 … X_{n−1} to values at the n
    /// elements with indices `coset` ^ 0 … `coset` ^ (n − 1).
    ///
    /// # Panics
    /// If n does not divide the number of elements and `coset`, or is above the prepared size.
    pub fn forward(&self, backend: Backend, data: &mut [Element], log_size: u32, coset: u64) {
        self.check(data, log_size, coset);
        dispatch!(backend, forward(data, log_size, &self.twiddles, coset))
    }

    /// The inverse of [`Transform::forward`].
    ///
    /// # Panics
    /// As [`Transform::forward`].
    pub fn inverse(&self, backend: Backend, data: &mut [Element], log_size: u32, coset: u64) {
        self.check(data, log_size, coset);
        dispatch!(backend, inverse(data, log_size, &self.twiddles, coset))
    }

    fn check(&self, data: &[Element], log_size: u32, coset: u64) {
        let n = 1usize << log_size;
        assert!(n <= 2 * self.twiddles.len());
        assert!(data.len().is_multiple_of(n) && coset.is_multiple_of(n as u64));
    }
}

#[cfg(test)]
mod tests;
