//! One lane: five 51-bit limbs in 64-bit words, products in 128 bits.

use super::Bytes32;
use super::field::{Lanes, Limbs, MASK51, Step, canonical_bytes, limbs_of};

/// Products and differences leave limbs below 2^52, and sums are not carried: at most seven terms may be added
/// before the next product or difference, which take limbs below 2^55 − 304.
#[derive(Clone, Copy)]
pub(super) struct Field([u64; 5]);

/// Adds each limb's overflow beyond 51 bits to the next one, for limbs below 2^57.
#[inline(always)]
fn carried(mut l: [u64; 5]) -> Field {
    for i in 0..4 {
        l[i + 1] += l[i] >> 51;
        l[i] &= MASK51;
    }
    l[0] += 19 * (l[4] >> 51);
    l[4] &= MASK51;
    Field(l)
}

#[inline(always)]
fn reduced(wide: [u128; 5]) -> Field {
    let mut l = [0u64; 5];
    let mut carry = 0u128;
    for (limb, w) in l.iter_mut().zip(wide) {
        let sum = w + carry;
        *limb = sum as u64 & MASK51;
        carry = sum >> 51;
    }
    // What 2^255 carries comes back as 19, and may leave one more bit for the next limb.
    let first = u128::from(l[0]) + 19 * carry;
    l[0] = first as u64 & MASK51;
    l[1] += (first >> 51) as u64;
    Field(l)
}

impl Lanes for Field {
    const N: usize = 1;

    #[inline(always)]
    fn load(bytes: &[Bytes32]) -> Self {
        Field(limbs_of(&bytes[0]))
    }

    #[inline(always)]
    fn small(value: u64) -> Self {
        Field([value, 0, 0, 0, 0])
    }

    #[inline(always)]
    fn splat(limbs: &Limbs) -> Self {
        Field(*limbs)
    }

    #[inline(always)]
    fn to_bytes(self) -> [Bytes32; 8] {
        let mut out = [[0; 32]; 8];
        out[0] = canonical_bytes(self.0);
        out
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Field(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // Plus 16p, so that no limb goes below zero.
        const SIXTEEN_P: [u64; 5] = [
            (1 << 55) - 304,
            (1 << 55) - 16,
            (1 << 55) - 16,
            (1 << 55) - 16,
            (1 << 55) - 16,
        ];
        carried(std::array::from_fn(|i| {
            self.0[i] + SIXTEEN_P[i] - other.0[i]
        }))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let (a, b) = (self.0, other.0);
        let m = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let b19: [u64; 5] = std::array::from_fn(|i| b[i] * 19);
        reduced([
            m(a[0], b[0]) + m(a[1], b19[4]) + m(a[2], b19[3]) + m(a[3], b19[2]) + m(a[4], b19[1]),
            m(a[0], b[1]) + m(a[1], b[0]) + m(a[2], b19[4]) + m(a[3], b19[3]) + m(a[4], b19[2]),
            m(a[0], b[2]) + m(a[1], b[1]) + m(a[2], b[0]) + m(a[3], b19[4]) + m(a[4], b19[3]),
            m(a[0], b[3]) + m(a[1], b[2]) + m(a[2], b[1]) + m(a[3], b[0]) + m(a[4], b19[4]),
            m(a[0], b[4]) + m(a[1], b[3]) + m(a[2], b[2]) + m(a[3], b[1]) + m(a[4], b[0]),
        ])
    }

    #[inline(always)]
    fn square(self) -> Self {
        let a = self.0;
        let m = |x: u64, y: u64| u128::from(x) * u128::from(y);
        let (two0, two1, two2) = (2 * a[0], 2 * a[1], 2 * a[2]);
        let (a3_19, a4_19) = (19 * a[3], 19 * a[4]);
        reduced([
            m(a[0], a[0]) + m(two1, a4_19) + m(two2, a3_19),
            m(two0, a[1]) + m(two2, a4_19) + m(a[3], a3_19),
            m(two0, a[2]) + m(a[1], a[1]) + m(2 * a[3], a4_19),
            m(two0, a[3]) + m(two1, a[2]) + m(a[4], a4_19),
            m(two0, a[4]) + m(two1, a[3]) + m(a[2], a[2]),
        ])
    }

    #[inline(never)]
    fn apart<S: Step<Self>>(step: S) -> S::Output {
        step.run()
    }

    #[inline(always)]
    fn mul_small(self, factor: u32) -> Self {
        reduced(self.0.map(|limb| u128::from(limb) * u128::from(factor)))
    }

    #[inline(always)]
    fn select(mask: u8, a: Self, b: Self) -> Self {
        let m = u64::from(mask & 1).wrapping_neg();
        Field(std::array::from_fn(|i| a.0[i] ^ (m & (a.0[i] ^ b.0[i]))))
    }
}
