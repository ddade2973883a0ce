//! Interpolation and multi-point evaluation over GF(2^256) in O(n log² n).
//!
//! A polynomial is the vector of its coefficients of X_0, X_1, …, the basis of
//! [`vesica_kernels::binary`], in which additive transforms need no conversion. X_0 is 1 and every other
//! X_j has degree j, so degrees, constants and uniform polynomials look as in the monomial basis.
//!
//! Evaluation goes down a subproduct tree. A node of level k stands for 2^k points and holds
//! M = Π (x − x_i). Going from a parent to a child needs P mod M; instead of a division this takes a
//! Montgomery step: with S = s_k + s_k(α), which vanishes on the coset α + V_k, the quotient
//! (P − T·M)/S, for T = P/M on that coset, is P/S modulo M and has degree below 2^k. On the coset
//! α + β_k + V_k the value of S is 1, which makes the quotient one subtraction there. What remains at a
//! leaf is the value over Π S_k(x_i), and that product is put back at the end. In the X_j basis,
//! reduction modulo S is one addition, so a child costs four transforms of size 2^k and no power series.
//!
//! Interpolation is the usual Σ y_i/M′(x_i) · M/(x − x_i) up the same tree; the derivative of s_i is 1,
//! which makes M′ a sum of shifted coefficients.
//!
//! Memory is 64·n·log₂ n bytes for n points. All access patterns depend on sizes alone.

use vesica_kernels::Backend;
pub use vesica_kernels::binary::Element;
use vesica_kernels::binary::{
    Transform, cantor_element, evaluate_blocks, invert_all, multiply_assign, scale_assign,
};

/// Index of α in the Cantor basis: outside every V_k in use.
const COSET: u64 = 1 << 40;

/// Up to 2^this many points or coefficients, evaluation without a tree is faster (`cargo bench -p
/// vesica-primitives`).
const LOG_DIRECT: u32 = 6;

/// Levels at the bottom of a tree that are evaluated directly: the points are known by then, and each
/// level skipped saves an inversion.
const LOG_LEAF: u32 = 4;

/// Points evaluated through one tree: bounds the memory of an evaluation.
const LOG_BATCH: u32 = 16;

/// Why points cannot be worked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Two points are equal.
    #[error("interpolation points are not distinct")]
    RepeatedPoint,
    /// A point lies in a set of size 2^41 that random points avoid save with probability 2^-215.
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

/// The coefficients of the polynomial of degree below n through n points.
///
/// # Panics
/// If the slices differ in length.
pub fn interpolate(points: &[Element], values: &[Element]) -> Result<Vec<Element>, Error> {
    assert_eq!(points.len(), values.len());
    if points.is_empty() {
        return Ok(Vec::new());
    }
    let tree = Tree::new(points);
    let mut weights = tree.evaluate(vec![tree.root_derivative()])?.swap_remove(0);
    if !invert_all(Backend::Best, &mut weights) {
        return Err(Error::RepeatedPoint);
    }
    multiply_assign(Backend::Best, &mut weights, values);
    let mut coefficients = tree.combine(weights);
    coefficients.truncate(points.len());
    Ok(coefficients)
}

/// The values of a polynomial at `points`.
pub fn evaluate(coefficients: &[Element], points: &[Element]) -> Result<Vec<Element>, Error> {
    let log = log_ceil(coefficients.len())
        .min(log_ceil(points.len()))
        .min(LOG_BATCH);
    if log <= LOG_DIRECT {
        return Ok(evaluate_directly(coefficients, points));
    }
    let mut values = Vec::with_capacity(points.len());
    for batch in points.chunks(1 << log) {
        if log_ceil(batch.len()) < log {
            values.extend(evaluate(coefficients, batch)?);
        } else {
            values.extend(evaluate_batch(coefficients, log, batch)?);
        }
    }
    Ok(values)
}

/// Evaluation at up to 2^`log` points, one block of 2^`log` coefficients at a time.
fn evaluate_batch(
    coefficients: &[Element],
    log: u32,
    points: &[Element],
) -> Result<Vec<Element>, Error> {
    let mut blocks: Vec<Vec<Element>> = coefficients.chunks(1 << log).map(<[_]>::to_vec).collect();
    // A short last block, as one point more than a power of two leaves, is not worth a tree.
    let short = blocks
        .pop_if(|last| last.len() <= 1 << LOG_DIRECT)
        .map(|last| evaluate_directly(&last, points));
    for block in &mut blocks {
        block.resize(1 << log, [0; 4]);
    }
    let mut parts = Tree::new(points).evaluate(blocks)?;
    parts.extend(short);
    if parts.len() == 1 {
        return Ok(parts.swap_remove(0));
    }
    // X_{b·2^log + j} = X_j · X_b(s_log): the parts are the coefficients of a polynomial in s_log(x).
    let log_parts = log_ceil(parts.len());
    let mut rows = vec![[0; 4]; points.len() << log_parts];
    for (b, part) in parts.iter().enumerate() {
        for (row, value) in rows.chunks_exact_mut(1 << log_parts).zip(part) {
            row[b] = *value;
        }
    }
    let mut s = points.to_vec();
    for _ in 0..log {
        next_subspace_value(&mut s);
    }
    let mut values = vec![[0; 4]; points.len()];
    evaluate_blocks(Backend::Best, &rows, log_parts, 0, &s, &mut values);
    Ok(values)
}

/// The quadratic algorithm.
fn evaluate_directly(coefficients: &[Element], points: &[Element]) -> Vec<Element> {
    let log = log_ceil(coefficients.len());
    let mut padded = coefficients.to_vec();
    padded.resize(1 << log, [0; 4]);
    let mut values = vec![[0; 4]; points.len()];
    evaluate_blocks(Backend::Best, &padded, log, 63, points, &mut values);
    values
}

/// The smallest k with 2^k ≥ max(n, 1).
fn log_ceil(n: usize) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

fn add_to(a: &mut Element, b: &Element) {
    for (a, b) in a.iter_mut().zip(b) {
        *a ^= b;
    }
}

/// From s_k(x) to s_{k+1}(x) = s_k(x)² + s_k(x).
fn next_subspace_value(values: &mut [Element]) {
    let before = values.to_vec();
    multiply_assign(Backend::Best, values, &before);
    for (value, before) in values.iter_mut().zip(&before) {
        add_to(value, before);
    }
}

/// For each pair of neighbouring blocks of `size`, the second before the first.
fn siblings_swapped(data: &[Element], size: usize) -> Vec<Element> {
    let mut swapped = Vec::with_capacity(data.len());
    for pair in data.chunks_exact(2 * size) {
        swapped.extend_from_slice(&pair[size..]);
        swapped.extend_from_slice(&pair[..size]);
    }
    swapped
}

/// The subproduct tree of n points, by the values of its nodes.
///
/// Level k has one block of 2^k elements a node, for an even number of nodes that covers the points;
/// nodes beyond the last point are the polynomial 1.
struct Tree {
    points: Vec<Element>,
    log: u32,
    transform: Transform,
    /// Per level k below the root, the values of M on α + V_k.
    first: Vec<Vec<Element>>,
    /// The same on α + β_k + V_k.
    second: Vec<Vec<Element>>,
    /// The root's M, less s_log if that is its leading term.
    root: Vec<Element>,
}

impl Tree {
    /// # Panics
    /// If there are no points.
    fn new(points: &[Element]) -> Self {
        let n = points.len();
        let log = log_ceil(n);
        let transform = Transform::new(log);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut low = points.to_vec();
        for k in 0..log {
            let size = 1usize << k;
            pad_with_ones(&mut low, size);
            // A node that is full has the leading term s_k, which is constant on each coset.
            let full = n >> k << k;
            let s = cantor_element(COSET >> k);
            let on_coset = |coset: u64, s: u64| {
                let mut values = low.clone();
                transform.forward(Backend::Best, &mut values, k, coset);
                values[..full].iter_mut().for_each(|v| v[0] ^= s);
                values
            };
            let on_first = on_coset(COSET, s);
            let on_second = on_coset(COSET ^ size as u64, s ^ 1);

            // The parent's values on α + V_{k+1}, where s_{k+1} is constant as well.
            let products = |values: &[Element]| {
                let mut products = siblings_swapped(values, size);
                multiply_assign(Backend::Best, &mut products, values);
                products
            };
            let (a, b) = (products(&on_first), products(&on_second));
            low.clear();
            for (a, b) in a.chunks_exact(2 * size).zip(b.chunks_exact(2 * size)) {
                low.extend_from_slice(&a[..size]);
                low.extend_from_slice(&b[..size]);
            }
            let s = cantor_element(COSET >> (k + 1));
            let full = n >> (k + 1) << (k + 1);
            low[..full].iter_mut().for_each(|v| v[0] ^= s);
            transform.inverse(Backend::Best, &mut low, k + 1, COSET);
            first.push(on_first);
            second.push(on_second);
        }
        Tree {
            points: points.to_vec(),
            log,
            transform,
            first,
            second,
            root: low,
        }
    }

    /// M′ of the root: the derivative of X_j is the sum of X_{j − 2^i} over the set bits i of j.
    fn root_derivative(&self) -> Vec<Element> {
        let mut derivative = vec![[0; 4]; self.root.len()];
        for bit in 0..self.log {
            for (j, d) in derivative.iter_mut().enumerate() {
                if j >> bit & 1 == 0 {
                    add_to(d, &self.root[j | 1 << bit]);
                }
            }
        }
        if self.points.len() == 1 << self.log {
            derivative[0][0] ^= 1;
        }
        derivative
    }

    /// The values at all points of polynomials of 2^log coefficients each.
    fn evaluate(&self, mut polynomials: Vec<Vec<Element>>) -> Result<Vec<Vec<Element>>, Error> {
        let leaf = self.log.min(LOG_LEAF);
        for k in (leaf..self.log).rev() {
            let mut inverses = self.first[k as usize].clone();
            if !invert_all(Backend::Best, &mut inverses) {
                return Err(Error::ReservedPoint);
            }
            for p in &mut polynomials {
                *p = self.reduce(p, k, &inverses);
            }
        }
        let n = self.points.len();
        let weights = self.weights(leaf);
        let values = polynomials.iter().map(|p| {
            let mut values = vec![[0; 4]; n];
            evaluate_blocks(Backend::Best, p, leaf, leaf, &self.points, &mut values);
            multiply_assign(Backend::Best, &mut values, &weights);
            values
        });
        Ok(values.collect())
    }

    /// From residues at level k + 1 to residues, over S_k, at level k.
    fn reduce(&self, parents: &[Element], k: u32, inverses: &[Element]) -> Vec<Element> {
        let size = 1usize << k;
        let (here, there) = (COSET, COSET ^ size as u64);
        let transform = |data: &mut [Element], coset: u64| {
            self.transform.forward(Backend::Best, data, k, coset);
        };
        let back = |data: &mut [Element], coset: u64| {
            self.transform.inverse(Backend::Best, data, k, coset);
        };

        // P = P_low + s_k·P_high = (P_low + s_k(α)·P_high) + S·P_high.
        let parents = &parents[..inverses.len()];
        let mut low = Vec::with_capacity(inverses.len() / 2);
        let mut high = Vec::with_capacity(inverses.len() / 2);
        for parent in parents.chunks_exact(2 * size) {
            low.extend_from_slice(&parent[..size]);
            high.extend_from_slice(&parent[size..]);
        }
        let mut scaled = high.clone();
        scale_assign(Backend::Best, &mut scaled, cantor_element(COSET >> k));
        low.iter_mut().zip(&scaled).for_each(|(l, s)| add_to(l, s));

        let for_both = |data: &[Element]| {
            let mut both = Vec::with_capacity(2 * data.len());
            for block in data.chunks_exact(size) {
                both.extend_from_slice(block);
                both.extend_from_slice(block);
            }
            both
        };
        // T = P/M where S vanishes.
        let mut on_first = low.clone();
        transform(&mut on_first, here);
        let mut t = for_both(&on_first);
        multiply_assign(Backend::Best, &mut t, inverses);
        back(&mut t, here);
        // (P − T·M)/S where S is 1.
        transform(&mut t, there);
        multiply_assign(Backend::Best, &mut t, &self.second[k as usize]);
        transform(&mut low, there);
        t.iter_mut()
            .zip(for_both(&low))
            .for_each(|(t, l)| add_to(t, &l));
        back(&mut t, there);
        t.iter_mut()
            .zip(for_both(&high))
            .for_each(|(t, h)| add_to(t, &h));
        t
    }

    /// For each point, the product of S_k over the levels that a reduction to `leaf` passes.
    fn weights(&self, leaf: u32) -> Vec<Element> {
        let mut weights = vec![[1, 0, 0, 0]; self.points.len()];
        let mut s = self.points.clone();
        for k in 0..self.log {
            if k >= leaf {
                let constant = cantor_element(COSET >> k);
                let mut factors = s.clone();
                factors.iter_mut().for_each(|f| f[0] ^= constant);
                multiply_assign(Backend::Best, &mut weights, &factors);
            }
            next_subspace_value(&mut s);
        }
        weights
    }

    /// Σ w_i · M/(x − x_i), up the tree: N = N_left·M_right + N_right·M_left.
    fn combine(&self, weights: Vec<Element>) -> Vec<Element> {
        let mut numerators = weights;
        for k in 0..self.log {
            let size = 1usize << k;
            numerators.resize(self.first[k as usize].len(), [0; 4]);
            let crossed = |coset: u64, nodes: &[Element]| {
                let mut products = numerators.clone();
                self.transform
                    .forward(Backend::Best, &mut products, k, coset);
                multiply_assign(Backend::Best, &mut products, &siblings_swapped(nodes, size));
                products
            };
            let on_first = crossed(COSET, &self.first[k as usize]);
            let on_second = crossed(COSET ^ size as u64, &self.second[k as usize]);
            let mut parents = Vec::with_capacity(numerators.len());
            let pairs = on_first
                .chunks_exact(2 * size)
                .zip(on_second.chunks_exact(2 * size));
            for (a, b) in pairs {
                for values in [a, b] {
                    let (left, right) = values.split_at(size);
                    parents.extend(left.iter().zip(right).map(|(l, r)| {
                        let mut sum = *l;
                        add_to(&mut sum, r);
                        sum
                    }));
                }
            }
            self.transform
                .inverse(Backend::Best, &mut parents, k + 1, COSET);
            numerators = parents;
        }
        numerators
    }
}

/// Adds nodes that are the polynomial 1, up to an even number of them.
fn pad_with_ones(low: &mut Vec<Element>, size: usize) {
    if (low.len() / size) % 2 == 1 {
        let start = low.len();
        low.resize(start + size, [0; 4]);
        low[start] = [1, 0, 0, 0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_chacha::ChaCha12Rng;
    use rand_core::{Rng, SeedableRng};
    use vesica_reference::field;

    fn random(n: usize, rng: &mut ChaCha12Rng) -> Vec<Element> {
        (0..n)
            .map(|_| std::array::from_fn(|_| rng.next_u64()))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn small_cases_match_the_reference(n in 1usize..40, m in 0usize..50, seed: u64) {
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            let (points, values) = (random(n, &mut rng), random(n, &mut rng));
            let coefficients = interpolate(&points, &values).unwrap();
            prop_assert_eq!(coefficients.len(), n);
            let others = random(m, &mut rng);
            let got = evaluate(&coefficients, &others).unwrap();
            for (x, y) in others.iter().zip(&got) {
                prop_assert_eq!(*y, field::evaluate(&coefficients, *x));
                prop_assert_eq!(*y, field::lagrange_at(&points, &values, *x));
            }
        }
    }

    /// Sizes around every power of two, and unequal ones: what was put in comes out.
    #[test]
    fn interpolation_and_evaluation_invert_each_other() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let mut sizes = vec![1, 2, 3, 100, 1000];
        for k in 2..11 {
            sizes.extend([(1 << k) - 1, 1 << k, (1 << k) + 1]);
        }
        for n in sizes {
            let (points, values) = (random(n, &mut rng), random(n, &mut rng));
            let coefficients = interpolate(&points, &values).unwrap();
            assert_eq!(evaluate(&coefficients, &points).unwrap(), values, "{n}");
        }
    }

    #[test]
    fn unequal_sizes_match_the_reference() {
        let mut rng = ChaCha12Rng::seed_from_u64(2);
        for (n, m) in [
            (1, 700),
            (33, 700),
            (700, 33),
            (2000, 40),
            (300, 1100),
            (700, 1),
            (257, 64),
        ] {
            let coefficients = random(n, &mut rng);
            let points = random(m, &mut rng);
            let values = evaluate(&coefficients, &points).unwrap();
            for i in (0..m).step_by(1 + m / 20) {
                assert_eq!(
                    values[i],
                    field::evaluate(&coefficients, points[i]),
                    "{n} {m}"
                );
            }
        }
    }

    #[test]
    fn points_that_cannot_be_used_are_errors() {
        let mut rng = ChaCha12Rng::seed_from_u64(3);
        let mut points = random(50, &mut rng);
        points[49] = points[3];
        assert_eq!(interpolate(&points, &points), Err(Error::RepeatedPoint));
        points[49] = [cantor_element(COSET ^ 5), 0, 0, 0];
        assert_eq!(interpolate(&points, &points), Err(Error::ReservedPoint));
        // Zero is an ordinary point.
        points[49] = [0; 4];
        let coefficients = interpolate(&points, &points).unwrap();
        assert_eq!(evaluate(&coefficients, &[[0; 4]]).unwrap(), [[0; 4]]);
    }

    #[test]
    fn a_random_polynomial_looks_uniform() {
        // Coefficients of an interpolation of uniform values: bits are balanced, whatever the points.
        let mut rng = ChaCha12Rng::seed_from_u64(4);
        let points: Vec<Element> = (1..=512).map(|i| [i, 0, 0, 0]).collect();
        let coefficients = interpolate(&points, &random(512, &mut rng)).unwrap();
        let ones: u32 = coefficients.iter().flatten().map(|w| w.count_ones()).sum();
        let bits = 512 * 256;
        // Six standard deviations.
        assert!(ones.abs_diff(bits / 2) < 6 * 182, "{ones} of {bits}");
    }

    #[test]
    fn bytes_and_elements_convert() {
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8);
        assert_eq!(element_to_bytes(&element_from_bytes(&bytes)), bytes);
        assert_eq!(element_from_bytes(&bytes)[0], 0x0706_0504_0302_0100);
    }
}
