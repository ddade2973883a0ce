//! The layers of a transform.

use super::Field;
use super::ops::{self, Arithmetic};
use super::transform::{LOG_IN_CACHE, Transform};

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
