//! Interpolation and multi-point evaluation over binary fields in O(n log² n).
//!
//! A polynomial is the vector of its coefficients of X_0, X_1, …, the basis of [`Field`], in which additive
//! transforms need no conversion. X_0 is 1 and every other X_j has degree j, so degrees, constants and
//! uniform polynomials look as in the monomial basis. The fields are [`Tower`], GF(2^256), and [`Gf2k`],
//! GF(2^k) for k from 65 to 128. [`bins`] handles polynomials of some forty coefficients each, which need
//! other methods.
//!
//! Evaluation goes down a subproduct tree. A node of level k covers 2^k points and holds M = Π (x − x_i).
//! Going from a parent to a child needs P mod M; instead of a division this takes a Montgomery step: with S =
//! ŝ_k + ŝ_k(α), which vanishes on the coset α + V_k, the quotient (P − T·M)/S, for T = P/M on that coset, is
//! P/S modulo M and has degree below 2^k. On the coset α + β_k + V_k the value of S is 1, which makes the
//! quotient one subtraction there. At a leaf, what remains is the value divided by Π S_k(x_i), and that
//! product is multiplied back at the end. In the X_j basis, reduction modulo S is one addition, so a child
//! costs four transforms of size 2^k and no power series.
//!
//! Interpolation is the usual Σ y_i/M′(x_i) · M/(x − x_i) up the same tree; the derivative of ŝ_i is
//! constant, which makes M′ a sum of shifted coefficients.
//!
//! A tree serves any number of polynomials: [`Evaluator`] and [`Interpolator`] keep what depends only on the
//! points. It takes two elements per point and level, so 40·n·16 bytes over GF(2^k) for n = 2^20 points, and
//! needs a few times 16·n bytes more to work. Nodes of a level are distributed over the threads of the
//! current rayon pool. All access patterns depend only on sizes.
//!
//! ```
//! use vesica_primitives::polynomial::{Evaluator, Gf2k, Interpolator};
//!
//! let field = Gf2k::new(109);
//! let interpolator = Interpolator::new(&field, &[5, 6, 7])?;
//! let evaluator = Evaluator::new(&field, &[6, 8], 3)?;
//! for slice in [[10, 20, 30], [1, 1, 1]] {
//!     let coefficients = interpolator.interpolate(&slice);
//!     assert_eq!(evaluator.evaluate(&coefficients)[0], slice[1]);
//! }
//! # Ok::<(), vesica_primitives::polynomial::Error>(())
//! ```

pub mod bins;
mod evaluate;
mod field;
mod interpolate;
mod tree;

pub use evaluate::{Evaluator, evaluate_all};
pub use field::{Field, Gf2k, Tower};
pub use interpolate::Interpolator;
pub use vesica_kernels::binary::Element;

/// Index of α in the basis: outside every V_k in use.
const COSET: u64 = 1 << 40;

/// Levels at the bottom of a tree that are evaluated directly: the points are known by then, and each
/// level skipped saves an inversion.
const LOG_LEAF: u32 = 4;

/// Why points cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two points are equal.
    #[error("interpolation points are not distinct")]
    RepeatedPoint,
    /// A point is among the transform's own points: α + V_{m−1} for a tree of up to 2^m points. A uniform
    /// point of GF(2^k) is there with probability 2^(m−1−k).
    #[error("a point lies on the transform's own points")]
    ReservedPoint,
}

/// The field element of 32 little-endian bytes; every string is one.
pub fn element_from_bytes(bytes: &[u8; 32]) -> Element {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

/// The 32 bytes of a field element.
pub fn element_to_bytes(element: &Element) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(element) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The coefficients of the polynomial over GF(2^256) of degree below n through n points.
///
/// # Panics
/// If the slices differ in length.
pub fn interpolate(points: &[Element], values: &[Element]) -> Result<Vec<Element>, Error> {
    assert_eq!(points.len(), values.len());
    let field = Tower::new(log_ceil(points.len()));
    Ok(Interpolator::new(&field, points)?.interpolate(values))
}

/// The values of a polynomial over GF(2^256) at `points`.
pub fn evaluate(coefficients: &[Element], points: &[Element]) -> Result<Vec<Element>, Error> {
    let log = log_ceil(coefficients.len()).min(log_ceil(points.len()));
    let field = Tower::new(log.min(Tower::LOG_BATCH));
    Ok(evaluate_all(&field, &[coefficients], points)?.swap_remove(0))
}

/// The smallest k with 2^k ≥ max(n, 1).
fn log_ceil(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests;
