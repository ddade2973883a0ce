//! Many multiples of one point, from a table of some of them.
//!
//! A scalar becomes 64 digits from −8 to 7 to the base 16 and a carry, and each picks one of the table's multiples: 65
//! additions of seven products each, where a ladder takes some 2300 products.

use zeroize::Zeroizing;

use super::edwards::{D, Extended};
use super::field::{Lanes, Limbs, limbs_of};
use super::portable::Field;
use super::powers::{everywhere, invert, invert_all, sqrt_ratio};
use super::{Bytes32, is_on_curve};

/// Digits that pick from eight multiples; one more is 0 or 1.
pub(super) const DIGITS: usize = 64;

/// A point (x, y) as y + x, y − x and 2d·xy.
type Affine = [Limbs; 3];

/// 16^i·j times a point P, for i below 64 and j from 1 to 8, and 16^64·P.
pub struct Multiples(Vec<Affine>);

impl Multiples {
    /// Of the point with this u-coordinate; which of its two points does not matter, since only u-coordinates
    /// of multiples are of interest. `None` if there is none on the curve. Takes as long as some ten ladders, and the
    /// point is not secret.
    pub fn new(u: &Bytes32) -> Option<Self> {
        if !is_on_curve(u) {
            return None;
        }
        let (one, d): (Field, Field) = (Field::small(1), everywhere(&D));
        let u = Field::load(&[*u]);
        let y = u.sub(one).mul(invert(u.add(one)));
        // −x² + y² = 1 + d·x²y².
        let y2 = y.square();
        let (x, _) = sqrt_ratio(y2.sub(one), d.mul(y2).add(one));
        let mut points = Vec::with_capacity(8 * DIGITS + 1);
        let mut step = Extended([x, y, one, x.mul(y)]);
        for _ in 0..DIGITS {
            let mut multiple = step;
            for _ in 0..8 {
                points.push(multiple);
                multiple = multiple.plus(step.addend(d));
            }
            let eight = points[points.len() - 1];
            step = eight.plus(eight.addend(d));
        }
        points.push(step);
        let mut inverses: Vec<Field> = points.iter().map(|Extended([_, _, z, _])| *z).collect();
        invert_all(&mut inverses);
        let affine = points.iter().zip(inverses).map(|(point, inverse)| {
            let [x, y, ..] = point.0.map(|coordinate| coordinate.mul(inverse));
            let product = x.mul(y).mul(d.add(d));
            [y.add(x), y.sub(x), product].map(|value| limbs_of(&value.to_bytes()[0]))
        });
        Some(Multiples(affine.collect()))
    }

    /// The u-coordinates, as fractions, of the multiples by up to `N` scalars.
    #[inline(always)]
    pub(super) fn multiply<F: Lanes>(&self, scalars: &[Bytes32]) -> (F, F) {
        let (zero, one) = (F::small(0), F::small(1));
        let mut digits = Zeroizing::new([Digit::default(); DIGITS + 1]);
        recode(scalars, &mut digits);
        let mut sum = Extended::neutral();
        for (masks, multiples) in digits.iter().zip(self.0.chunks(8)) {
            let mut chosen = [one, one, zero];
            for (mask, multiple) in masks.sizes.iter().zip(multiples) {
                for (chosen, coordinate) in chosen.iter_mut().zip(multiple) {
                    *chosen = F::select(*mask, *chosen, F::splat(coordinate));
                }
            }
            let [plus, minus, product] = chosen;
            let negative = masks.negative;
            let chosen = [
                F::select(negative, plus, minus),
                F::select(negative, minus, plus),
                F::select(negative, product, zero.sub(product)),
            ];
            let z = sum.0[2];
            sum = sum.add(chosen, z.add(z));
        }
        let Extended([_, y, z, _]) = sum;
        (z.add(y), z.sub(y))
    }
}

/// A digit of every lane: lanes with the digits ±1 to ±8, and lanes with a negative one.
#[derive(Clone, Copy, Default)]
pub(super) struct Digit {
    pub(super) sizes: [u8; 8],
    pub(super) negative: u8,
}

impl zeroize::DefaultIsZeroes for Digit {}

/// The signed digits of scalars to the base 16, lowest first; the last one is 0 or 1. Written in place, so that no
/// copy of them stays behind.
pub(super) fn recode(scalars: &[Bytes32], digits: &mut [Digit; DIGITS + 1]) {
    for (lane, scalar) in scalars.iter().enumerate() {
        let mut carry = 0;
        for (i, digit) in digits.iter_mut().enumerate() {
            let nibble = scalar
                .get(i / 2)
                .map_or(0, |byte| byte >> (4 * (i % 2)) & 15);
            let value = nibble + carry;
            // From 8 on it is the digit value − 16, and one more of the next.
            carry = (value + 8) >> 4;
            let negative = carry.wrapping_neg();
            let size = (value ^ negative)
                .wrapping_sub(negative)
                .wrapping_add(negative & 16);
            digit.negative |= (carry & 1) << lane;
            for (j, mask) in (1..).zip(&mut digit.sizes) {
                // 1 if the size is j.
                let equal = ((u16::from(size ^ j) + 0xff) >> 8) as u8 ^ 1;
                *mask |= equal << lane;
            }
        }
    }
}
