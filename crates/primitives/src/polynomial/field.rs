//! What the algorithms need from a field, and the fields that provide it.

use vesica_kernels::Backend;
use vesica_kernels::binary::{self, cantor_element};
use vesica_kernels::gf2k;

/// A field with additive transforms over a basis β_0 = 1, β_1, ….
///
/// With s_i the monic polynomial whose roots are the span V_i of β_0 … β_{i−1} and ŝ_i = s_i/s_i(β_i), a
/// polynomial is the vector of its coefficients of X_0, X_1, …, where X_j is the product of ŝ_i over the set
/// bits i of j. The element with index j is Σ β_i over the set bits i of j; ŝ_i is linear over GF(2), so it
/// is constant on cosets of V_i.
pub trait Field: Sync {
    /// An element.
    type Element: Copy + Send + Sync + PartialEq + std::fmt::Debug;
    /// An element of the subfield that the basis spans.
    type Scalar: Copy + Send + Sync;
    /// 0.
    const ZERO: Self::Element;
    /// 1.
    const ONE: Self::Element;
    /// Up to 2^this points are evaluated through one tree: bounds the memory of an evaluation.
    const LOG_BATCH: u32;
    /// Up to 2^this many points or coefficients, evaluation without a tree is faster (`cargo bench -p
    /// vesica-primitives`).
    const LOG_DIRECT: u32;

    /// `a += b`.
    fn add(a: &mut Self::Element, b: &Self::Element);
    /// `a += b`.
    fn add_scalar(a: &mut Self::Element, b: Self::Scalar);
    /// `a[i] *= b[i]`, for slices of equal lengths.
    fn multiply_assign(&self, a: &mut [Self::Element], b: &[Self::Element]);
    /// `a[i] *= factor`.
    fn scale_assign(&self, a: &mut [Self::Element], factor: Self::Scalar);
    /// Replaces every element by its inverse, or returns `false` if one is 0.
    fn invert_all(&self, values: &mut [Self::Element]) -> bool;

    /// For each block of n = 2^`log` elements: from coefficients of X_0 … X_{n−1} to values at the n elements
    /// with indices `coset` ^ 0 … `coset` ^ (n − 1).
    fn forward(&self, data: &mut [Self::Element], log: u32, coset: u64);
    /// The inverse of [`Field::forward`].
    fn inverse(&self, data: &mut [Self::Element], log: u32, coset: u64);
    /// As [`binary::evaluate_blocks`].
    fn evaluate_blocks(
        &self,
        coefficients: &[Self::Element],
        log_size: u32,
        log_shared: u32,
        points: &[Self::Element],
        out: &mut [Self::Element],
    );

    /// ŝ_level at the element with index `index`.
    fn subspace_value(&self, level: u32, index: u64) -> Self::Scalar;
    /// From ŝ_level(x) to ŝ_{level+1}(x), for each x.
    fn next_subspace_values(&self, level: u32, values: &mut [Self::Element]);
    /// The leading term of a monic polynomial of degree 2^level, at the element with index `index`.
    fn leading_value(&self, level: u32, index: u64) -> Self::Scalar;
    /// The derivative of that term, which is a constant.
    fn leading_derivative(&self, level: u32) -> Self::Scalar;
    /// The derivative of ŝ_level, a constant as well.
    fn subspace_derivative(&self, level: u32) -> Self::Scalar;
}

/// GF(2^256) as the tower of [`vesica_kernels::binary`], with the Cantor basis: every ŝ_i is monic and has
/// the derivative 1.
pub struct Tower {
    transform: binary::Transform,
}

impl Tower {
    /// For up to 2^`log` points and coefficients per tree; takes 2^(`log` + 2) bytes.
    pub fn new(log: u32) -> Self {
        Tower {
            transform: binary::Transform::new(log),
        }
    }
}

impl Field for Tower {
    type Element = binary::Element;
    type Scalar = u64;
    const ZERO: Self::Element = [0; 4];
    const ONE: Self::Element = [1, 0, 0, 0];
    const LOG_BATCH: u32 = 16;
    const LOG_DIRECT: u32 = 6;

    fn add(a: &mut Self::Element, b: &Self::Element) {
        for (a, b) in a.iter_mut().zip(b) {
            *a ^= b;
        }
    }

    fn add_scalar(a: &mut Self::Element, b: u64) {
        a[0] ^= b;
    }

    fn multiply_assign(&self, a: &mut [Self::Element], b: &[Self::Element]) {
        binary::multiply_assign(Backend::Best, a, b);
    }

    fn scale_assign(&self, a: &mut [Self::Element], factor: u64) {
        if factor != 1 {
            binary::scale_assign(Backend::Best, a, factor);
        }
    }

    fn invert_all(&self, values: &mut [Self::Element]) -> bool {
        binary::invert_all(Backend::Best, values)
    }

    fn forward(&self, data: &mut [Self::Element], log: u32, coset: u64) {
        self.transform.forward(Backend::Best, data, log, coset);
    }

    fn inverse(&self, data: &mut [Self::Element], log: u32, coset: u64) {
        self.transform.inverse(Backend::Best, data, log, coset);
    }

    fn evaluate_blocks(
        &self,
        coefficients: &[Self::Element],
        log_size: u32,
        log_shared: u32,
        points: &[Self::Element],
        out: &mut [Self::Element],
    ) {
        binary::evaluate_blocks(
            Backend::Best,
            coefficients,
            log_size,
            log_shared,
            points,
            out,
        );
    }

    fn subspace_value(&self, level: u32, index: u64) -> u64 {
        cantor_element(index >> level)
    }

    fn next_subspace_values(&self, _: u32, values: &mut [Self::Element]) {
        let before = values.to_vec();
        self.multiply_assign(values, &before);
        for (value, before) in values.iter_mut().zip(&before) {
            Self::add(value, before);
        }
    }

    fn leading_value(&self, level: u32, index: u64) -> u64 {
        self.subspace_value(level, index)
    }

    fn leading_derivative(&self, _: u32) -> u64 {
        1
    }

    fn subspace_derivative(&self, _: u32) -> u64 {
        1
    }
}

/// GF(2^k) for a k from 65 to 128, with the basis 1, x, x², …: an element is a string of k bits.
pub struct Gf2k {
    transform: gf2k::Transform,
    /// Per level, the coefficient of ŝ in a monic polynomial: c_0 = 1, c_{i+1} = c_i²/δ_{i+1}.
    leading: Vec<u128>,
    /// Per level, the derivative of ŝ: the product of all δ up to there.
    derivative: Vec<u128>,
}

impl Gf2k {
    /// The field of 2^`bits` elements; takes 50 KiB, so share it.
    ///
    /// # Panics
    /// If `bits` is not from 65 to 128.
    pub fn new(bits: u32) -> Self {
        let field = gf2k::Field::new(bits);
        let transform = gf2k::Transform::new(field);
        let multiply = |a, b| field.multiply(Backend::Best, a, b);
        let levels = 0..=gf2k::MAX_LOG;
        let mut inverses: Vec<u128> = levels.clone().map(|i| transform.delta(i)).collect();
        assert!(
            field.invert_all(Backend::Best, &mut inverses),
            "no δ is zero"
        );
        let (mut leading, mut derivative) = (vec![1], vec![1]);
        for i in levels.skip(1) {
            let (c, d) = (leading[i as usize - 1], derivative[i as usize - 1]);
            leading.push(multiply(multiply(c, c), inverses[i as usize]));
            derivative.push(multiply(d, transform.delta(i)));
        }
        Gf2k {
            transform,
            leading,
            derivative,
        }
    }

    /// The field's arithmetic.
    pub fn field(&self) -> gf2k::Field {
        self.transform.field()
    }
}

impl Field for Gf2k {
    type Element = u128;
    type Scalar = u128;
    const ZERO: u128 = 0;
    const ONE: u128 = 1;
    const LOG_BATCH: u32 = 22;
    const LOG_DIRECT: u32 = 7;

    fn add(a: &mut u128, b: &u128) {
        *a ^= b;
    }

    fn add_scalar(a: &mut u128, b: u128) {
        *a ^= b;
    }

    fn multiply_assign(&self, a: &mut [u128], b: &[u128]) {
        self.field().multiply_assign(Backend::Best, a, b);
    }

    fn scale_assign(&self, a: &mut [u128], factor: u128) {
        self.field().scale_assign(Backend::Best, a, factor);
    }

    fn invert_all(&self, values: &mut [u128]) -> bool {
        self.field().invert_all(Backend::Best, values)
    }

    fn forward(&self, data: &mut [u128], log: u32, coset: u64) {
        self.transform.forward(Backend::Best, data, log, coset);
    }

    fn inverse(&self, data: &mut [u128], log: u32, coset: u64) {
        self.transform.inverse(Backend::Best, data, log, coset);
    }

    fn evaluate_blocks(
        &self,
        coefficients: &[u128],
        log_size: u32,
        log_shared: u32,
        points: &[u128],
        out: &mut [u128],
    ) {
        self.transform.evaluate_blocks(
            Backend::Best,
            coefficients,
            log_size,
            log_shared,
            points,
            out,
        );
    }

    fn subspace_value(&self, level: u32, index: u64) -> u128 {
        self.transform.subspace_value(level, index)
    }

    fn next_subspace_values(&self, level: u32, values: &mut [u128]) {
        let before = values.to_vec();
        self.multiply_assign(values, &before);
        for (value, before) in values.iter_mut().zip(&before) {
            *value ^= before;
        }
        self.scale_assign(values, self.transform.delta(level + 1));
    }

    fn leading_value(&self, level: u32, index: u64) -> u128 {
        let (c, s) = (
            self.leading[level as usize],
            self.subspace_value(level, index),
        );
        self.field().multiply(Backend::Best, c, s)
    }

    fn leading_derivative(&self, level: u32) -> u128 {
        let (c, d) = (
            self.leading[level as usize],
            self.derivative[level as usize],
        );
        self.field().multiply(Backend::Best, c, d)
    }

    fn subspace_derivative(&self, level: u32) -> u128 {
        self.derivative[level as usize]
    }
}
