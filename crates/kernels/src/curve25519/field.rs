//! What a backend provides: arithmetic modulo 2^255 − 19 on `N` elements at a time.

use super::Bytes32;

/// `N` field elements. One bit a lane makes a mask, lane 0 lowest.
pub(super) trait Lanes: Copy {
    /// Elements held.
    const N: usize;

    /// Loads up to `N` elements of 255 bits each; missing lanes become 0.
    fn load(bytes: &[Bytes32]) -> Self;
    /// The same element in every lane, from limbs below 2^51.
    fn splat(limbs: &Limbs) -> Self;
    /// The same small constant in every lane; below 2^51.
    fn small(value: u64) -> Self;
    /// Fully reduced encodings; the first `N` entries count.
    fn to_bytes(self) -> [Bytes32; 8];

    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// Square.
    fn square(self) -> Self;
    /// Runs a step in a function of its own with the features of the backend. All else is inlined: copies of long
    /// steps in every operation were most of the time that this crate takes to compile.
    fn apart<S: Step<Self>>(step: S) -> S::Output;
    /// Product with a constant below 2^20.
    fn mul_small(self, factor: u32) -> Self;
    /// Lane by lane: `b` where the mask bit is set, else `a`.
    fn select(mask: u8, a: Self, b: Self) -> Self;
}

/// What [`Lanes::apart`] runs on elements `F`. Not a closure: that would be compiled without the features of the backend.
pub(super) trait Step<F> {
    /// What it returns.
    type Output;
    /// Always inlined, into the function of the backend.
    fn run(self) -> Self::Output;
}

/// An element as five limbs of 51 bits.
pub(super) type Limbs = [u64; 5];

/// Low 51 bits.
pub(super) const MASK51: u64 = (1 << 51) - 1;

/// Splits 255 bits into five limbs of 51.
#[inline(always)]
pub(super) fn limbs_of(bytes: &Bytes32) -> [u64; 5] {
    let word = |i: usize| {
        let mut w = [0u8; 8];
        w.copy_from_slice(&bytes[8 * i..8 * i + 8]);
        u64::from_le_bytes(w)
    };
    let (w0, w1, w2, w3) = (word(0), word(1), word(2), word(3));
    [
        w0 & MASK51,
        (w0 >> 51 | w1 << 13) & MASK51,
        (w1 >> 38 | w2 << 26) & MASK51,
        (w2 >> 25 | w3 << 39) & MASK51,
        (w3 >> 12) & MASK51,
    ]
}

/// The one encoding of a value given by limbs below 2^63.
#[inline(never)]
pub(super) fn canonical_bytes(mut l: [u64; 5]) -> Bytes32 {
    // Two passes bring every limb below 2^51, save for a last carry of at most 19 into limb 0.
    for _ in 0..2 {
        for i in 0..4 {
            l[i + 1] += l[i] >> 51;
            l[i] &= MASK51;
        }
        l[0] += 19 * (l[4] >> 51);
        l[4] &= MASK51;
    }
    // q is 1 exactly if the value is at least p: then value + 19 reaches 2^255.
    let mut q = (l[0] + 19) >> 51;
    for limb in &l[1..] {
        q = (limb + q) >> 51;
    }
    l[0] += 19 * q;
    for i in 0..4 {
        l[i + 1] += l[i] >> 51;
        l[i] &= MASK51;
    }
    l[4] &= MASK51;
    let words = [
        l[0] | l[1] << 51,
        l[1] >> 13 | l[2] << 38,
        l[2] >> 26 | l[3] << 25,
        l[3] >> 39 | l[4] << 12,
    ];
    let mut out = [0u8; 32];
    for (bytes, word) in out.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}
