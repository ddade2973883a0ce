//! The layers of a transform.

use std::marker::PhantomData;

use super::Field;
use super::ops::{self, Arithmetic};
use super::transform::Transform;
use crate::additive::{self, Direction, Forward, Inverse, Layers};

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

/// One butterfly, with a shifted factor. Not a closure: what a closure calls is compiled for the features of the
/// closure, which are the machine's least unless it happens to be inlined.
#[inline(always)]
fn step<A: Arithmetic, D: Direction>(
    c: A::Constants,
    t: A::Vector,
    a: A::Vector,
    b: A::Vector,
) -> (A::Vector, A::Vector) {
    if D::FORWARD {
        let a = A::add(a, A::scale(c, t, b));
        (a, A::add(b, a))
    } else {
        let b = A::add(b, a);
        (A::add(a, A::scale(c, t, b)), b)
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
        let (a, b) = step::<A, D>(c, t, a, b);
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
        let (x, y) = step::<A, D>(c, t, A::load(a), A::load(b));
        A::store(a, x);
        A::store(b, y);
    }
}

/// The butterflies over a coset.
struct Butterflies<'a, A: Arithmetic, D> {
    constants: A::Constants,
    transform: &'a Transform,
    coset: u64,
    direction: PhantomData<D>,
}

impl<A: Arithmetic, D: Direction> Layers for Butterflies<'_, A, D> {
    type Element = u128;
    type Direction = D;

    #[inline(always)]
    fn layer(&self, block: &mut [u128], layer: u32, position: u64) {
        let t = self.transform.shifted_value(layer, self.coset ^ position);
        far_layer::<A, D>(self.constants, block, t);
    }

    #[inline(always)]
    fn in_cache(&self, part: &mut [u128], log: u32, position: u64) {
        let (c, transform, coset) = (self.constants, self.transform, self.coset ^ position);
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
}

#[inline(always)]
fn go<A: Arithmetic, D: Direction>(
    field: Field,
    data: &mut [u128],
    log_size: u32,
    transform: &Transform,
    coset: u64,
) {
    let butterflies = Butterflies::<A, D> {
        constants: A::constants(field),
        transform,
        coset,
        direction: PhantomData,
    };
    additive::transform(&butterflies, data, log_size);
}

#[inline(always)]
pub(super) fn forward<A: Arithmetic>(
    field: Field,
    data: &mut [u128],
    log_size: u32,
    transform: &Transform,
    coset: u64,
) {
    go::<A, Forward>(field, data, log_size, transform, coset);
}

#[inline(always)]
pub(super) fn inverse<A: Arithmetic>(
    field: Field,
    data: &mut [u128],
    log_size: u32,
    transform: &Transform,
    coset: u64,
) {
    go::<A, Inverse>(field, data, log_size, transform, coset);
}
