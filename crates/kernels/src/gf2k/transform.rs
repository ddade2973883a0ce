//! Additive Fourier transforms, and direct evaluation in their basis.

use super::ops::{self, Arithmetic, load_padded, store_part};
#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Field, dispatch, portable};
use crate::Backend;

/// The largest transform has 2^this elements.
pub const MAX_LOG: u32 = 32;

/// Indices of elements have this many bits.
const INDEX_BITS: usize = 64;

/// Transforms of at most 2^this elements go layer by layer with prepared factors; larger ones split
/// first, to stay in cache.
const LOG_IN_CACHE: u32 = 10;

/// Up to 2^this coefficients are multiplied by their X_j, which all polynomials at a point share, and
/// summed before any reduction.
const LOG_SUMMED: u32 = 4;

/// The basis, and the factors of transforms in it.
pub struct Transform {
    field: Field,
    /// δ_i, for i up to [`MAX_LOG`]; δ_0 is 1.
    deltas: Vec<u128>,
    /// ŝ_i(β_j) per layer i, shifted.
    basis: Vec<[u128; INDEX_BITS]>,
    /// Per layer i below [`LOG_IN_CACHE`], ŝ_i at the elements with indices j·2^(i+1), shifted.
    factors: Vec<Vec<u128>>,
}

impl Transform {
    /// Transforms of up to 2^[`MAX_LOG`] elements; takes some 50 KiB.
    pub fn new(field: Field) -> Self {
        let mut values: [u128; INDEX_BITS] = std::array::from_fn(|j| 1 << j);
        let mut deltas = vec![1];
        let shifted = |values: &[u128; INDEX_BITS]| values.map(|v| v << field.shift());
        let mut basis = vec![shifted(&values)];
        for i in 0..MAX_LOG as usize {
            let before = values;
            field.multiply_assign(Backend::Best, &mut values, &before);
            values.iter_mut().zip(before).for_each(|(v, b)| *v ^= b);
            let mut delta = [values[i + 1]];
            // ŝ_i(β_{i+1}) is neither 0 nor 1, as β_{i+1} is in neither coset of V_i that those belong to.
            assert!(field.invert_all(Backend::Best, &mut delta));
            field.scale_assign(Backend::Best, &mut values, delta[0]);
            deltas.push(delta[0]);
            basis.push(shifted(&values));
        }
        let factors = (0..LOG_IN_CACHE as usize).map(|i| {
            let mut factors = vec![0];
            for beta in &basis[i][i + 1..LOG_IN_CACHE as usize] {
                for j in 0..factors.len() {
                    factors.push(factors[j] ^ beta);
                }
            }
            factors
        });
        let factors = factors.collect();
        Transform {
            field,
            deltas,
            basis,
            factors,
        }
    }

    /// The field of the elements.
    pub fn field(&self) -> Field {
        self.field
    }

    /// δ_i of the recurrence ŝ_i = δ_i·(ŝ_{i−1}² + ŝ_{i−1}); 1 for i = 0.
    ///
    /// # Panics
    /// If i is above [`MAX_LOG`].
    pub fn delta(&self, i: u32) -> u128 {
        self.deltas[i as usize]
    }

    /// ŝ_i at the element with index `index`.
    ///
    /// # Panics
    /// If i is above [`MAX_LOG`].
    pub fn subspace_value(&self, i: u32, index: u64) -> u128 {
        self.shifted_value(i, index) >> self.field.shift()
    }

    #[inline(always)]
    fn shifted_value(&self, i: u32, index: u64) -> u128 {
        let basis = &self.basis[i as usize];
        let (mut sum, mut left) = (0, index >> i);
        while left != 0 {
            sum ^= basis[(i + left.trailing_zeros()) as usize];
            left &= left - 1;
        }
        sum
    }

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
    /// few points a block: 2^`log_size` products a point.
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

/// Layers within a vector of any backend.
const NEAR_LAYERS: usize = ops::MAX_LANES.ilog2() as usize;

/// The factors of a layer within a vector, for blocks of 2^`log` elements: what the coset adds, and
/// the first four factors for blocks so small that they repeat.
#[derive(Clone, Copy)]
struct Near {
    offset: u128,
    repeated: [u128; ops::MAX_LANES],
}

#[inline(always)]
fn near(transform: &Transform, log: u32, coset: u64) -> [Near; NEAR_LAYERS] {
    std::array::from_fn(|layer| Near {
        offset: transform.shifted_value(layer as u32, coset),
        repeated: std::array::from_fn(|j| {
            let blocks = 1 << log.saturating_sub(layer as u32 + 1);
            transform.factors[layer][j % blocks]
        }),
    })
}

/// Which way a transform goes. Not a closure: what a closure calls is compiled for the features of the
/// closure, which are the machine's least unless it happens to be inlined.
trait Direction {
    /// One butterfly, with a shifted factor.
    fn step<A: Arithmetic>(
        c: A::Constants,
        t: A::Vector,
        a: A::Vector,
        b: A::Vector,
    ) -> (A::Vector, A::Vector);
    /// Layer number i in order of use, of `count` layers.
    fn layer(i: u32, count: u32) -> u32;
}

/// From coefficients to values: `a += t·b`, then `b += a`, and large blocks first.
struct Forward;

impl Direction for Forward {
    #[inline(always)]
    fn step<A: Arithmetic>(
        c: A::Constants,
        t: A::Vector,
        a: A::Vector,
        b: A::Vector,
    ) -> (A::Vector, A::Vector) {
        let a = A::add(a, A::scale(c, t, b));
        (a, A::add(b, a))
    }

    #[inline(always)]
    fn layer(i: u32, count: u32) -> u32 {
        count - 1 - i
    }
}

/// From values to coefficients: `b += a`, then `a += t·b`, and small blocks first.
struct Inverse;

impl Direction for Inverse {
    #[inline(always)]
    fn step<A: Arithmetic>(
        c: A::Constants,
        t: A::Vector,
        a: A::Vector,
        b: A::Vector,
    ) -> (A::Vector, A::Vector) {
        let b = A::add(b, a);
        (A::add(a, A::scale(c, t, b)), b)
    }

    #[inline(always)]
    fn layer(i: u32, _: u32) -> u32 {
        i
    }
}

/// The layers below a vector's size, on two vectors that stand at `position` in a block of 2^`log`.
#[inline(always)]
fn near_layers<A: Arithmetic, D: Direction>(
    c: A::Constants,
    transform: &Transform,
    log: u32,
    near: &[Near; NEAR_LAYERS],
    position: usize,
    pair: &mut [u128],
) {
    let (mut x, mut y) = (A::load(pair), A::load(&pair[A::LANES..]));
    let count = A::LOG_LANES.min(log);
    for i in 0..count {
        let layer = D::layer(i, count);
        let Near { offset, repeated } = &near[layer as usize];
        let factors = if log > A::LOG_LANES {
            &transform.factors[layer as usize][position >> (layer + 1)..]
        } else {
            repeated
        };
        let t = A::add(A::spread(layer, factors), A::splat(*offset));
        let (a, b) = A::split(layer, x, y);
        let (a, b) = D::step::<A>(c, t, a, b);
        (x, y) = A::join(layer, a, b);
    }
    A::store(pair, x);
    A::store(&mut pair[A::LANES..], y);
}

/// One layer of one block.
#[inline(always)]
fn far_layer<A: Arithmetic, D: Direction>(c: A::Constants, block: &mut [u128], t: u128) {
    let t = A::splat(t);
    let (a, b) = block.split_at_mut(block.len() / 2);
    let (a, b) = (a.chunks_exact_mut(A::LANES), b.chunks_exact_mut(A::LANES));
    for (a, b) in a.zip(b) {
        let (x, y) = D::step::<A>(c, t, A::load(a), A::load(b));
        A::store(a, x);
        A::store(b, y);
    }
}

/// All layers of blocks of 2^`log` elements, up to 2^[`LOG_IN_CACHE`].
#[inline(always)]
fn in_cache<A: Arithmetic, D: Direction>(
    c: A::Constants,
    part: &mut [u128],
    log: u32,
    transform: &Transform,
    coset: u64,
) {
    let near_count = A::LOG_LANES.min(log);
    let near = near(transform, log, coset);
    for i in 0..log {
        let layer = D::layer(i, log);
        if layer >= near_count {
            let offset = transform.shifted_value(layer, coset);
            let factors = &transform.factors[layer as usize];
            for block in part.chunks_exact_mut(1 << log) {
                for (block, t) in block.chunks_exact_mut(2 << layer).zip(factors) {
                    far_layer::<A, D>(c, block, t ^ offset);
                }
            }
        } else if layer == D::layer(0, near_count) {
            // All near layers at once; what is not a whole pair of vectors, through a copy.
            let mut pairs = part.chunks_exact_mut(2 * A::LANES);
            for (i, pair) in (&mut pairs).enumerate() {
                let position = (2 * A::LANES * i) & ((1 << log) - 1);
                near_layers::<A, D>(c, transform, log, &near, position, pair);
            }
            let rest = pairs.into_remainder();
            if !rest.is_empty() {
                let mut pair = [0; 2 * ops::MAX_LANES];
                pair[..rest.len()].copy_from_slice(rest);
                near_layers::<A, D>(c, transform, log, &near, 0, &mut pair);
                rest.copy_from_slice(&pair[..rest.len()]);
            }
        }
    }
}

#[inline(always)]
pub(super) fn forward<A: Arithmetic>(
    field: Field,
    data: &mut [u128],
    log_size: u32,
    transform: &Transform,
    coset: u64,
) {
    let c = A::constants(field);
    for start in (0..data.len()).step_by(1 << LOG_IN_CACHE) {
        let end = data.len().min(start + (1 << LOG_IN_CACHE));
        let within = start as u64 & ((1 << log_size) - 1);
        let log = log_size.min(LOG_IN_CACHE);
        // Every larger block that this part begins, largest first: depth first, so that a part is finished
        // while it is near.
        let begun = log_size.min(if start == 0 {
            u32::MAX
        } else {
            start.trailing_zeros()
        });
        for log in (log + 1..=begun).rev() {
            let t = transform.shifted_value(log - 1, coset ^ within);
            far_layer::<A, Forward>(c, &mut data[start..start + (1 << log)], t);
        }
        in_cache::<A, Forward>(c, &mut data[start..end], log, transform, coset ^ within);
    }
}

#[inline(always)]
pub(super) fn inverse<A: Arithmetic>(
    field: Field,
    data: &mut [u128],
    log_size: u32,
    transform: &Transform,
    coset: u64,
) {
    let c = A::constants(field);
    for start in (0..data.len()).step_by(1 << LOG_IN_CACHE) {
        let end = data.len().min(start + (1 << LOG_IN_CACHE));
        let within = start as u64 & ((1 << log_size) - 1);
        let log = log_size.min(LOG_IN_CACHE);
        in_cache::<A, Inverse>(c, &mut data[start..end], log, transform, coset ^ within);
        // Every larger block that this part completes, smallest first.
        for log in log + 1..=log_size.min(end.trailing_zeros()) {
            let first = end - (1 << log);
            let within = first as u64 & ((1 << log_size) - 1);
            let t = transform.shifted_value(log - 1, coset ^ within);
            far_layer::<A, Inverse>(c, &mut data[first..end], t);
        }
    }
}

#[inline(always)]
pub(super) fn evaluate_blocks<A: Arithmetic>(
    field: Field,
    coefficients: &[u128],
    log_size: u32,
    log_shared: u32,
    points: &[u128],
    transform: &Transform,
    out: &mut [u128],
) {
    let c = A::constants(field);
    let summed = log_size.min(LOG_SUMMED);
    // Values at parts of a block, while they wait for their neighbours.
    let mut waiting = [A::splat(0); MAX_LOG as usize + 1];
    let shared = 1usize << log_shared.min(usize::BITS - 1);
    for ((block, points), out) in coefficients
        .chunks_exact(1 << log_size)
        .zip(points.chunks(shared))
        .zip(out.chunks_mut(shared))
    {
        for (points, out) in points.chunks(A::LANES).zip(out.chunks_mut(A::LANES)) {
            // ŝ_i, shifted.
            let mut s = load_padded::<A>(points, 0);
            let mut subspace = [A::splat(0); MAX_LOG as usize];
            for (i, subspace) in subspace.iter_mut().enumerate().take(log_size as usize) {
                let shifted = A::shift(c, s);
                *subspace = shifted;
                let sum = A::add(A::scale(c, shifted, s), s);
                s = A::scale(c, A::splat(transform.deltas[i + 1] << field.shift()), sum);
            }
            // X_j, shifted.
            let mut basis = [A::shift(c, A::splat(1)); 1 << LOG_SUMMED];
            for i in 0..summed as usize {
                for j in 0..1 << i {
                    let product = A::scale(c, subspace[i], A::unshift(c, basis[j]));
                    basis[j | 1 << i] = A::shift(c, product);
                }
            }
            for (index, part) in block.chunks_exact(1 << summed).enumerate() {
                let mut sum = A::zero();
                for (x, coefficient) in basis.iter().zip(part) {
                    sum = A::accumulate(sum, *x, A::splat(*coefficient));
                }
                let mut value = A::reduce(c, sum);
                // A part that ends an upper half joins its lower half.
                let level = (summed + index.trailing_ones()) as usize;
                for i in summed as usize..level {
                    value = A::add(waiting[i], A::scale(c, subspace[i], value));
                }
                waiting[level] = value;
            }
            store_part::<A>(out, waiting[log_size as usize]);
        }
    }
}
