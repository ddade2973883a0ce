//! The operations, written once for every backend.

use super::Field;

/// The most elements that a vector of any backend holds.
pub(super) const MAX_LANES: usize = 4;

/// Independent chains of an inversion of many, so that none waits for the one before it.
const CHAINS: usize = 4;

/// What a backend provides: vectors of elements, lane by lane.
pub(super) trait Arithmetic {
    /// `1 << LOG_LANES` elements.
    type Vector: Copy;
    /// A product, or a sum of products, before its reduction.
    type Wide: Copy;
    /// The field's constants, in registers.
    type Constants: Copy;
    /// How many elements a vector holds.
    const LOG_LANES: u32;
    /// The same, not its logarithm.
    const LANES: usize = 1 << Self::LOG_LANES;

    fn constants(field: Field) -> Self::Constants;
    /// The first elements of a slice that has enough of them.
    fn load(from: &[u128]) -> Self::Vector;
    /// To the first elements of a slice that has enough of them.
    fn store(to: &mut [u128], v: Self::Vector);
    /// The same element in every lane.
    fn splat(element: u128) -> Self::Vector;
    fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Times x^(128−k), which makes it the shifted operand of a product.
    fn shift(c: Self::Constants, v: Self::Vector) -> Self::Vector;
    /// The inverse of [`Arithmetic::shift`].
    fn unshift(c: Self::Constants, v: Self::Vector) -> Self::Vector;
    fn zero() -> Self::Wide;
    /// `sum` plus the product of a shifted operand and another.
    fn accumulate(sum: Self::Wide, shifted: Self::Vector, b: Self::Vector) -> Self::Wide;
    /// The element that a sum of products stands for, shifted.
    fn reduce_shifted(c: Self::Constants, sum: Self::Wide) -> Self::Vector;

    /// The element that a sum of products stands for.
    #[inline(always)]
    fn reduce(c: Self::Constants, sum: Self::Wide) -> Self::Vector {
        Self::unshift(c, Self::reduce_shifted(c, sum))
    }

    /// The product of a shifted operand and another.
    #[inline(always)]
    fn scale(c: Self::Constants, shifted: Self::Vector, b: Self::Vector) -> Self::Vector {
        Self::reduce(c, Self::accumulate(Self::zero(), shifted, b))
    }

    /// The product.
    #[inline(always)]
    fn multiply(c: Self::Constants, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        Self::scale(c, Self::shift(c, a), b)
    }

    /// Of two neighbouring vectors, the lower and the upper halves of each block of `2 << layer` elements.
    /// Only called for layers below [`Arithmetic::LOG_LANES`].
    fn split(layer: u32, x: Self::Vector, y: Self::Vector) -> (Self::Vector, Self::Vector);
    /// The inverse of [`Arithmetic::split`].
    fn join(layer: u32, a: Self::Vector, b: Self::Vector) -> (Self::Vector, Self::Vector);
    /// The factors of the blocks that [`Arithmetic::split`] takes apart, each as often as a half is long.
    fn spread(layer: u32, factors: &[u128]) -> Self::Vector;
}

/// A vector of a slice's elements, with `fill` where it has too few.
#[inline(always)]
pub(super) fn load_padded<A: Arithmetic>(from: &[u128], fill: u128) -> A::Vector {
    let mut lanes = [fill; MAX_LANES];
    lanes[..from.len()].copy_from_slice(from);
    A::load(&lanes)
}

/// As much of a vector as a slice has room for.
#[inline(always)]
pub(super) fn store_part<A: Arithmetic>(to: &mut [u128], v: A::Vector) {
    let mut lanes = [0; MAX_LANES];
    A::store(&mut lanes, v);
    to.copy_from_slice(&lanes[..to.len()]);
}

#[inline(always)]
pub(super) fn multiply<A: Arithmetic>(field: Field, a: u128, b: u128) -> u128 {
    let c = A::constants(field);
    let mut product = [0];
    store_part::<A>(&mut product, A::multiply(c, A::splat(a), A::splat(b)));
    product[0]
}

#[inline(always)]
pub(super) fn multiply_assign<A: Arithmetic>(field: Field, a: &mut [u128], b: &[u128]) {
    let c = A::constants(field);
    let (mut a, mut b) = (a.chunks_exact_mut(A::LANES), b.chunks_exact(A::LANES));
    for (a, b) in (&mut a).zip(&mut b) {
        let product = A::multiply(c, A::load(a), A::load(b));
        A::store(a, product);
    }
    let (a, b) = (a.into_remainder(), b.remainder());
    if !a.is_empty() {
        let product = A::multiply(c, load_padded::<A>(a, 0), load_padded::<A>(b, 0));
        store_part::<A>(a, product);
    }
}

#[inline(always)]
pub(super) fn scale_assign<A: Arithmetic>(field: Field, a: &mut [u128], factor: u128) {
    let c = A::constants(field);
    let factor = A::shift(c, A::splat(factor));
    let mut a = a.chunks_exact_mut(A::LANES);
    for a in &mut a {
        let product = A::scale(c, factor, A::load(a));
        A::store(a, product);
    }
    let a = a.into_remainder();
    if !a.is_empty() {
        let product = A::scale(c, factor, load_padded::<A>(a, 0));
        store_part::<A>(a, product);
    }
}

/// a^(2^k − 2), by a chain that doubles the length of a run of ones.
#[inline(always)]
fn invert<A: Arithmetic>(field: Field, a: A::Vector) -> A::Vector {
    let c = A::constants(field);
    // run(m) = a^(2^m − 1), up to m = k − 1.
    let target = field.bits - 1;
    let mut run = a;
    let mut length = 1;
    for bit in (0..target.ilog2()).rev() {
        let mut shifted = run;
        for _ in 0..length {
            shifted = A::multiply(c, shifted, shifted);
        }
        run = A::multiply(c, shifted, run);
        length *= 2;
        if target >> bit & 1 == 1 {
            run = A::multiply(c, A::multiply(c, run, run), a);
            length += 1;
        }
    }
    A::multiply(c, run, run)
}

/// Montgomery's trick in every lane of [`CHAINS`] vectors, and once more across them.
#[inline(always)]
pub(super) fn invert_all<A: Arithmetic>(field: Field, values: &mut [u128]) -> bool {
    let c = A::constants(field);
    let row = CHAINS * A::LANES;
    let rest = values.len() / row * row;
    let mut last = [1; CHAINS * MAX_LANES];
    last[..values.len() - rest].copy_from_slice(&values[rest..]);
    let last_row = &mut last[..row];

    let one = A::splat(1);
    let mut prefix = vec![0; rest];
    let mut products = [one; CHAINS];
    for (values, prefix) in values[..rest]
        .chunks_exact(row)
        .zip(prefix.chunks_exact_mut(row))
    {
        for (i, product) in products.iter_mut().enumerate() {
            A::store(&mut prefix[i * A::LANES..], *product);
            *product = A::multiply(c, A::load(&values[i * A::LANES..]), *product);
        }
    }
    let before_last = products;
    let mut all = [0; CHAINS * MAX_LANES];
    let all = &mut all[..row];
    for (i, product) in products.iter_mut().enumerate() {
        *product = A::multiply(c, A::load(&last_row[i * A::LANES..]), *product);
        A::store(&mut all[i * A::LANES..], *product);
    }

    if !invert_few::<A>(field, all) {
        return false;
    }
    for (i, product) in products.iter_mut().enumerate() {
        let inverse = A::load(&all[i * A::LANES..]);
        let value = A::load(&last_row[i * A::LANES..]);
        A::store(
            &mut last_row[i * A::LANES..],
            A::multiply(c, inverse, before_last[i]),
        );
        *product = A::multiply(c, inverse, value);
    }
    for (values, prefix) in values[..rest]
        .chunks_exact_mut(row)
        .zip(prefix.chunks_exact(row))
        .rev()
    {
        for (i, inverse) in products.iter_mut().enumerate() {
            let values = &mut values[i * A::LANES..];
            let shifted = A::shift(c, *inverse);
            let value = A::load(values);
            A::store(
                values,
                A::scale(c, shifted, A::load(&prefix[i * A::LANES..])),
            );
            *inverse = A::scale(c, shifted, value);
        }
    }
    let short = values.len() - rest;
    values[rest..].copy_from_slice(&last[..short]);
    true
}

/// Montgomery's trick one element after the other.
#[inline(always)]
fn invert_few<A: Arithmetic>(field: Field, values: &mut [u128]) -> bool {
    let mut prefix = [0; CHAINS * MAX_LANES];
    let mut product = 1;
    for (v, prefix) in values.iter().zip(&mut prefix) {
        *prefix = product;
        product = multiply::<A>(field, product, *v);
    }
    if product == 0 {
        return false;
    }
    let mut inverse = [0];
    store_part::<A>(&mut inverse, invert::<A>(field, A::splat(product)));
    let mut inverse = inverse[0];
    for (v, before) in values.iter_mut().zip(prefix).rev() {
        let result = multiply::<A>(field, inverse, before);
        inverse = multiply::<A>(field, inverse, *v);
        *v = result;
    }
    true
}
