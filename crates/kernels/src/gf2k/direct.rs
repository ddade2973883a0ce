//! Evaluation at single points, in the basis of the transforms.

use super::ops::{Arithmetic, load_padded, store_part};
use super::{Field, MAX_LOG, Transform};

/// Up to 2^this coefficients are multiplied by their X_j, which all polynomials at a point share, and
/// summed before any reduction.
const LOG_SUMMED: u32 = 4;

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
