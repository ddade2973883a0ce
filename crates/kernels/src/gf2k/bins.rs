//! Many small polynomials: one for each bin and slice, in the monomial basis.

use super::Field;
use super::ops::{self, Arithmetic, MAX_LANES, load_padded, store_part};

/// Values per point, one for each polynomial; the polynomials share powers and products of points.
pub const SLICES: usize = 4;

/// Points of bins whose inversions share one chain.
const BATCH: usize = 1 << 10;

/// Element number i of each of several successive bins; the last bin stands in for missing ones.
#[inline(always)]
fn load_across<A: Arithmetic>(from: &[u128], size: usize, i: usize) -> A::Vector {
    let last = from.len() - size;
    let mut lanes = [0; MAX_LANES];
    for (bin, lane) in lanes[..A::LANES].iter_mut().enumerate() {
        *lane = from[(bin * size).min(last) + i];
    }
    A::load(&lanes)
}

/// Leaves M = Π (x + x_i), without its leading term, in `product`; the points are shifted.
#[inline(always)]
fn multiply_out<A: Arithmetic>(c: A::Constants, points: &[A::Vector], product: &mut [A::Vector]) {
    for (i, x) in points.iter().enumerate() {
        product[i] = A::unshift(c, *x);
        if i > 0 {
            product[i] = A::add(product[i], product[i - 1]);
            for j in (1..i).rev() {
                product[j] = A::add(A::scale(c, *x, product[j]), product[j - 1]);
            }
            product[0] = A::scale(c, *x, product[0]);
        }
    }
}

/// M′ at every point, by Horner's rule in x²: only the odd terms of M have a derivative.
#[inline(always)]
fn derivatives<A: Arithmetic>(
    c: A::Constants,
    points: &[A::Vector],
    product: &[A::Vector],
    squares: &mut [A::Vector],
    out: &mut [u128],
) {
    let size = points.len();
    for (square, x) in squares.iter_mut().zip(points) {
        let unreduced = A::accumulate(A::zero(), *x, A::unshift(c, *x));
        *square = A::reduce_shifted(c, unreduced);
    }
    let (top, leading) = if size % 2 == 1 {
        (size, A::splat(1))
    } else {
        (size - 1, product[size - 1])
    };
    for out in out.chunks_exact_mut(A::LANES) {
        A::store(out, leading);
    }
    for j in (1..top).step_by(2).rev() {
        for (out, square) in out.chunks_exact_mut(A::LANES).zip(squares.iter()) {
            let value = A::add(A::scale(c, *square, A::load(out)), product[j]);
            A::store(out, value);
        }
    }
}

#[inline(always)]
pub(super) fn interpolate_bins<A: Arithmetic>(
    field: Field,
    size: usize,
    points: &[u128],
    values: [&[u128]; SLICES],
    mut out: [&mut [u128]; SLICES],
) -> bool {
    let c = A::constants(field);
    let zero = A::splat(0);
    // Bins whose points and polynomials stand side by side in vectors.
    let group = A::LANES * size;
    let batch = (BATCH / group).max(1);
    let mut shifted = vec![zero; batch * size];
    let mut products = vec![zero; batch * size];
    let mut inverses = vec![0; batch * group];
    let mut scratch = vec![zero; size];
    let mut weights = vec![[zero; SLICES]; size];

    for start in (0..points.len()).step_by(batch * group) {
        let end = points.len().min(start + batch * group);
        let groups = || (start..end).step_by(group).enumerate();
        for (index, first) in groups() {
            let points = &points[first..end.min(first + group)];
            let shifted = &mut shifted[index * size..][..size];
            let product = &mut products[index * size..][..size];
            for (i, x) in shifted.iter_mut().enumerate() {
                *x = A::shift(c, load_across::<A>(points, size, i));
            }
            multiply_out::<A>(c, shifted, product);
            let derivative = &mut inverses[index * group..][..group];
            derivatives::<A>(c, shifted, product, &mut scratch, derivative);
        }
        let inverses = &mut inverses[..groups().count() * group];
        if !ops::invert_all::<A>(field, inverses) {
            return false;
        }
        for (index, first) in groups() {
            let end = end.min(first + group);
            for (i, weights) in weights.iter_mut().enumerate() {
                let inverse = A::load(&inverses[index * group + i * A::LANES..]);
                let inverse = A::shift(c, inverse);
                for (weight, values) in weights.iter_mut().zip(values) {
                    let value = load_across::<A>(&values[first..end], size, i);
                    let unreduced = A::accumulate(A::zero(), inverse, value);
                    *weight = A::reduce_shifted(c, unreduced);
                }
            }
            // Σ w_i·M/(x + x_i), a coefficient of all quotients at a time, from the top.
            let shifted = &shifted[index * size..][..size];
            let product = &products[index * size..][..size];
            let quotients = &mut scratch;
            quotients.fill(A::splat(1));
            for j in (0..size).rev() {
                let mut sums = [A::zero(); SLICES];
                for ((quotient, weights), x) in quotients.iter_mut().zip(&weights).zip(shifted) {
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = A::accumulate(*sum, *weight, *quotient);
                    }
                    *quotient = A::add(A::scale(c, *x, *quotient), product[j]);
                }
                for (sum, out) in sums.into_iter().zip(&mut out) {
                    let mut lanes = [0; MAX_LANES];
                    A::store(&mut lanes, A::reduce(c, sum));
                    for (bin, lane) in out[first..end].chunks_exact_mut(size).zip(lanes) {
                        bin[j] = lane;
                    }
                }
            }
        }
    }
    true
}

#[inline(always)]
pub(super) fn evaluate_bins<A: Arithmetic>(
    field: Field,
    size: usize,
    coefficients: [&[u128]; SLICES],
    bins: &[u32],
    points: &[u128],
    mut out: [&mut [u128]; SLICES],
) {
    let c = A::constants(field);
    let mut start = 0;
    for run in bins.chunk_by(|a, b| a == b) {
        let first = run[0] as usize * size;
        let bin = coefficients.map(|slice| &slice[first..first + size]);
        let end = start + run.len();
        while start < end {
            let next = end.min(start + A::LANES);
            let x = load_padded::<A>(&points[start..next], 0);
            let mut power = A::shift(c, A::splat(1));
            let mut sums = [A::zero(); SLICES];
            for j in 0..size {
                for (sum, bin) in sums.iter_mut().zip(bin) {
                    *sum = A::accumulate(*sum, power, A::splat(bin[j]));
                }
                power = A::reduce_shifted(c, A::accumulate(A::zero(), power, x));
            }
            for (sum, out) in sums.into_iter().zip(&mut out) {
                store_part::<A>(&mut out[start..next], A::reduce(c, sum));
            }
            start = next;
        }
    }
}
