//! The operations, written once for every backend.

use std::marker::PhantomData;

use super::{Element, cantor_element};
use crate::additive::{self, Direction, Forward, Inverse, Layers};

/// What a backend provides.
pub(super) trait Arithmetic {
    /// Product in GF(2^256).
    fn multiply(a: Element, b: Element) -> Element;
    /// Product with an element of GF(2^64).
    fn scale(a: Element, factor: u64) -> Element;

    /// Product of an element of GF(2^128) with one of GF(2^64).
    fn scale128(a: [u64; 2], factor: u64) -> [u64; 2];

    /// A product in GF(2^128) before its reduction; sums of such are reduced once.
    type Wide: Copy + Default;
    /// `sum` plus the unreduced product.
    fn accumulate128(sum: Self::Wide, a: u128, b: u128) -> Self::Wide;
    /// The element that a sum of products stands for.
    fn reduce128(sum: Self::Wide) -> u128;

    /// `a += t·b`, then `b += a`.
    #[inline(always)]
    fn butterflies(a: &mut [Element], b: &mut [Element], t: u64) {
        for (a, b) in a.iter_mut().zip(b) {
            *a = add(*a, Self::scale(*b, t));
            *b = add(*b, *a);
        }
    }

    /// The inverse: `b += a`, then `a += t·b`.
    #[inline(always)]
    fn inverse_butterflies(a: &mut [Element], b: &mut [Element], t: u64) {
        for (a, b) in a.iter_mut().zip(b) {
            *b = add(*b, *a);
            *a = add(*a, Self::scale(*b, t));
        }
    }
}

#[inline(always)]
pub(super) fn add(a: Element, b: Element) -> Element {
    [a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]]
}

const ONE: Element = [1, 0, 0, 0];

#[inline(always)]
pub(super) fn multiply_assign<A: Arithmetic>(a: &mut [Element], b: &[Element]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = A::multiply(*a, *b);
    }
}

#[inline(always)]
pub(super) fn scale_assign<A: Arithmetic>(a: &mut [Element], factor: u64) {
    for a in a {
        *a = A::scale(*a, factor);
    }
}

#[inline(always)]
pub(super) fn scale_groups<A: Arithmetic>(elements: &mut [[u64; 2]], factors: &[u64]) {
    #[inline(always)]
    fn each<A: Arithmetic, const N: usize>(elements: &mut [[u64; 2]], factors: &[u64]) {
        let (groups, _) = elements.as_chunks_mut::<N>();
        for (group, factor) in groups.iter_mut().zip(factors) {
            for element in group {
                *element = A::scale128(*element, *factor);
            }
        }
    }
    if elements.len() == factors.len() {
        each::<A, 1>(elements, factors);
    } else {
        each::<A, 2>(elements, factors);
    }
}

#[inline(always)]
pub(super) fn inner_product<A: Arithmetic>(a: &[Element], b: &[Element]) -> Element {
    a.iter()
        .zip(b)
        .fold([0; 4], |sum, (a, b)| add(sum, A::multiply(*a, *b)))
}

#[inline(always)]
pub(super) fn multiply128<A: Arithmetic>(a: u128, b: u128) -> u128 {
    A::reduce128(A::accumulate128(A::Wide::default(), a, b))
}

#[inline(always)]
pub(super) fn inner_product128<A: Arithmetic>(a: &[u128], b: &[u128]) -> u128 {
    // Two sums, so that neither waits for the other.
    let mut sums = [A::Wide::default(); 2];
    let (a2, a1) = a.as_chunks::<2>();
    let (b2, b1) = b.as_chunks::<2>();
    for (a, b) in a2.iter().zip(b2) {
        sums[0] = A::accumulate128(sums[0], a[0], b[0]);
        sums[1] = A::accumulate128(sums[1], a[1], b[1]);
    }
    for (a, b) in a1.iter().zip(b1) {
        sums[0] = A::accumulate128(sums[0], *a, *b);
    }
    A::reduce128(sums[0]) ^ A::reduce128(sums[1])
}

#[inline(always)]
pub(super) fn add_scaled128<A: Arithmetic>(out: &mut [u128], factor: u128, x: &[u128]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out ^= multiply128::<A>(factor, *x);
    }
}

#[inline(always)]
pub(super) fn add_scaled64<A: Arithmetic>(out: &mut [u128], factor: u128, x: &[u64]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out ^= multiply128::<A>(factor, u128::from(*x));
    }
}

/// a^(2^256 − 2), by a chain that doubles the length of a run of ones.
#[inline(always)]
fn invert<A: Arithmetic>(a: Element) -> Element {
    // run(k) = a^(2^k − 1); 255 = 0b1111_1111 is reached as 1, 2·1+1, …
    let mut run = a;
    let mut length = 1u32;
    for bit in (0..7).rev() {
        let mut shifted = run;
        for _ in 0..length {
            shifted = A::multiply(shifted, shifted);
        }
        run = A::multiply(shifted, run);
        length *= 2;
        if 255u32 >> bit & 1 == 1 {
            run = A::multiply(A::multiply(run, run), a);
            length += 1;
        }
    }
    A::multiply(run, run)
}

#[inline(always)]
pub(super) fn invert_all<A: Arithmetic>(values: &mut [Element]) -> bool {
    let mut prefix = Vec::with_capacity(values.len());
    let mut product = ONE;
    for v in values.iter() {
        prefix.push(product);
        product = A::multiply(product, *v);
    }
    if product == [0; 4] {
        return false;
    }
    let mut inverse = invert::<A>(product);
    for (v, before) in values.iter_mut().zip(prefix).rev() {
        let result = A::multiply(inverse, before);
        inverse = A::multiply(inverse, *v);
        *v = result;
    }
    true
}

#[inline(always)]
pub(super) fn evaluate_blocks<A: Arithmetic>(
    coefficients: &[Element],
    log_size: u32,
    log_shared: u32,
    points: &[Element],
    out: &mut [Element],
) {
    let mut folded = vec![[0; 4]; 1 << log_size];
    for (i, (x, out)) in points.iter().zip(out).enumerate() {
        let block = &coefficients[(i >> log_shared) << log_size..][..1 << log_size];
        // Powers of the substitution: s_0 = x, s_{i+1} = s_i² + s_i.
        let mut s = [*x; 64];
        for i in 1..log_size as usize {
            s[i] = add(A::multiply(s[i - 1], s[i - 1]), s[i - 1]);
        }
        // Halves from the top: the upper half of a block is multiplied by s_i(x).
        folded.copy_from_slice(block);
        for layer in (0..log_size as usize).rev() {
            let (low, high) = folded[..2 << layer].split_at_mut(1 << layer);
            for (l, h) in low.iter_mut().zip(high) {
                *l = add(*l, A::multiply(*h, s[layer]));
            }
        }
        *out = folded[0];
    }
}

/// Per layer, the part of the twiddle factors that the coset contributes.
#[inline(always)]
fn offsets(log_size: u32, coset: u64) -> [u64; 64] {
    let mut offsets = [0; 64];
    for layer in 0..log_size {
        offsets[layer as usize] = cantor_element(coset >> layer);
    }
    offsets
}

/// The butterflies over a coset.
struct Butterflies<'a, A, D> {
    twiddles: &'a [u64],
    offsets: [u64; 64],
    version: PhantomData<(A, D)>,
}

impl<A: Arithmetic, D: Direction> Layers for Butterflies<'_, A, D> {
    type Element = Element;
    type Direction = D;

    #[inline(always)]
    fn layer(&self, block: &mut [Element], layer: u32, position: u64) {
        let twiddle = self.twiddles[(position >> (layer + 1)) as usize];
        let t = twiddle ^ self.offsets[layer as usize];
        let (a, b) = block.split_at_mut(1 << layer);
        match D::FORWARD {
            true => A::butterflies(a, b, t),
            false => A::inverse_butterflies(a, b, t),
        }
    }

    #[inline(always)]
    fn in_cache(&self, blocks: &mut [Element], log: u32, position: u64) {
        for block in blocks.chunks_exact_mut(1 << log) {
            for i in 0..log {
                let layer = D::layer(i, log);
                let positions = (position..).step_by(2 << layer);
                for (block, position) in block.chunks_exact_mut(2 << layer).zip(positions) {
                    self.layer(block, layer, position);
                }
            }
        }
    }
}

#[inline(always)]
fn go<A: Arithmetic, D: Direction>(
    data: &mut [Element],
    log_size: u32,
    twiddles: &[u64],
    coset: u64,
) {
    let butterflies = Butterflies::<A, D> {
        twiddles,
        offsets: offsets(log_size, coset),
        version: PhantomData,
    };
    additive::transform(&butterflies, data, log_size);
}

#[inline(always)]
pub(super) fn forward<A: Arithmetic>(
    data: &mut [Element],
    log_size: u32,
    twiddles: &[u64],
    coset: u64,
) {
    go::<A, Forward>(data, log_size, twiddles, coset);
}

#[inline(always)]
pub(super) fn inverse<A: Arithmetic>(
    data: &mut [Element],
    log_size: u32,
    twiddles: &[u64],
    coset: u64,
) {
    go::<A, Inverse>(data, log_size, twiddles, coset);
}
