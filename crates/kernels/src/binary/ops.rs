//! The operations, written once for every backend.

use super::{Element, cantor_element};

/// What a backend provides.
pub(super) trait Arithmetic {
    /// Product in GF(2^256).
    fn multiply(a: Element, b: Element) -> Element;
    /// Product with an element of GF(2^64).
    fn scale(a: Element, factor: u64) -> Element;

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

/// Transforms of at most this many elements go layer by layer; larger ones first split, to stay in cache.
const IN_CACHE: usize = 1 << 10;

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
pub(super) fn inner_product<A: Arithmetic>(a: &[Element], b: &[Element]) -> Element {
    a.iter()
        .zip(b)
        .fold([0; 4], |sum, (a, b)| add(sum, A::multiply(*a, *b)))
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
    size: usize,
    points: &[Element],
    out: &mut [Element],
) {
    let mut block = vec![[0; 4]; size];
    for ((c, x), out) in coefficients.chunks_exact(size).zip(points).zip(out) {
        block.copy_from_slice(c);
        // Halves from the top: the upper half of a block is multiplied by s_i(x).
        let mut s = [ONE; 64];
        s[0] = *x;
        let layers = size.trailing_zeros() as usize;
        for i in 1..layers {
            s[i] = add(A::multiply(s[i - 1], s[i - 1]), s[i - 1]);
        }
        let mut n = size;
        for s in s[..layers].iter().rev() {
            n /= 2;
            let (low, high) = block.split_at_mut(n);
            for (l, h) in low.iter_mut().zip(high) {
                *l = add(*l, A::multiply(*h, *s));
            }
        }
        *out = block[0];
    }
}

#[inline(always)]
pub(super) fn forward<A: Arithmetic>(data: &mut [Element], twiddles: &[u64], coset: u64) {
    let layers = data.len().trailing_zeros();
    let offsets: [u64; 64] = std::array::from_fn(|i| cantor_element(coset >> i));
    // A stack of (start, log of size): depth first, so that halves are finished while in cache.
    let mut pending = vec![(0usize, layers)];
    while let Some((start, log)) = pending.pop() {
        let n = 1usize << log;
        if n > IN_CACHE {
            let half = n / 2;
            let (a, b) = data[start..start + n].split_at_mut(half);
            A::butterflies(a, b, twiddles[start >> log] ^ offsets[log as usize - 1]);
            pending.push((start + half, log - 1));
            pending.push((start, log - 1));
            continue;
        }
        for layer in (0..log).rev() {
            let half = 1usize << layer;
            let first = start >> (layer + 1);
            for (j, block) in data[start..start + n]
                .chunks_exact_mut(2 * half)
                .enumerate()
            {
                let (a, b) = block.split_at_mut(half);
                A::butterflies(a, b, twiddles[first + j] ^ offsets[layer as usize]);
            }
        }
    }
}

#[inline(always)]
pub(super) fn inverse<A: Arithmetic>(data: &mut [Element], twiddles: &[u64], coset: u64) {
    let layers = data.len().trailing_zeros();
    let offsets: [u64; 64] = std::array::from_fn(|i| cantor_element(coset >> i));
    let size = data.len();
    for (block_index, block) in data.chunks_mut(IN_CACHE).enumerate() {
        for layer in 0..block.len().trailing_zeros() {
            let half = 1usize << layer;
            let first = (block_index * IN_CACHE) >> (layer + 1);
            for (j, pair) in block.chunks_exact_mut(2 * half).enumerate() {
                let (a, b) = pair.split_at_mut(half);
                A::inverse_butterflies(a, b, twiddles[first + j] ^ offsets[layer as usize]);
            }
        }
    }
    for layer in size.min(IN_CACHE).trailing_zeros()..layers {
        let half = 1usize << layer;
        for (j, pair) in data.chunks_exact_mut(2 * half).enumerate() {
            let (a, b) = pair.split_at_mut(half);
            A::inverse_butterflies(a, b, twiddles[j] ^ offsets[layer as usize]);
        }
    }
}
