//! ristretto255 (RFC 9496): deriving elements and multiplying them by one scalar.
//!
//! An element is a set of points of the Edwards form. Doubles of points are encoded without square roots, many with
//! one inversion, as curve25519-dalek does; so callers pass half of their scalar.

use zeroize::Zeroizing;

use super::edwards::{D, Extended};
use super::field::{Lanes, Step};
use super::multiples::{DIGITS, Digit, recode};
use super::powers::{SQRT_MINUS_ONE, everywhere, invert_all, is_negative, sqrt_ratio_or_of_i};
use super::{Bytes32, CHUNK};

/// √(−d − 1), the root that RFC 9496 takes.
const SQRT_AD_MINUS_ONE: Bytes32 = [
    0x1b, 0x2e, 0x7b, 0x49, 0xa0, 0xf6, 0x97, 0x7e, 0xbd, 0x54, 0x78, 0x1b, 0x0c, 0x8e, 0x9d, 0xaf,
    0xfd, 0xd1, 0xf5, 0x31, 0xc9, 0xfc, 0x3c, 0x0f, 0xac, 0x48, 0x83, 0x2b, 0xbf, 0x31, 0x69, 0x37,
];

/// 1/√(−1 − d), the root that RFC 9496 takes.
const INVSQRT_A_MINUS_D: Bytes32 = [
    0xea, 0x40, 0x5d, 0x80, 0xaa, 0xfd, 0xc8, 0x99, 0xbe, 0x72, 0x41, 0x5a, 0x17, 0x16, 0x2f, 0x9d,
    0x40, 0xd8, 0x01, 0xfe, 0x91, 0x7b, 0xc2, 0x16, 0xa2, 0xfc, 0xaf, 0xcf, 0x05, 0x89, 0x6c, 0x78,
];

/// The 64 bytes from which an element is derived.
pub type Uniform = [u8; 64];

/// Encodings of 2·`half`·P for the element P of each string.
#[inline(always)]
pub(super) fn multiply_derived<F: Lanes>(half: &Bytes32, strings: &[Uniform], out: &mut [Bytes32]) {
    let mut digits = Zeroizing::new([Digit::default(); DIGITS + 1]);
    recode(&*Zeroizing::new([*half; 8]), &mut digits);
    let d = everywhere(&D);
    for (strings, out) in strings.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        let mut products = Vec::with_capacity(CHUNK / F::N);
        for strings in strings.chunks(F::N) {
            let mut halves = [[[0; 32]; 8]; 2];
            for (lane, string) in strings.iter().enumerate() {
                let (low, high) = string.split_at(32);
                halves[0][lane].copy_from_slice(low);
                halves[1][lane].copy_from_slice(high);
            }
            let (a, b) = (F::load(&halves[0][..F::N]), F::load(&halves[1][..F::N]));
            let (a, b) = (F::apart(Map { t: a, d }), F::apart(Map { t: b, d }));
            let element = a.plus(b.addend(d));
            products.push(multiply(&digits, element, d));
        }
        encode_doubles(&products, d, out);
    }
}

/// MAP of RFC 9496, section 4.3.4.
struct Map<F> {
    t: F,
    d: F,
}

impl<F: Lanes> Step<F> for Map<F> {
    type Output = Extended<F>;

    #[inline(always)]
    fn run(self) -> Extended<F> {
        let Map { t, d } = self;
        let (zero, one) = (F::small(0), F::small(1));
        let minus_one = zero.sub(one);
        let r = everywhere::<F>(&SQRT_MINUS_ONE).mul(t.square());
        let u = r.add(one).mul(one.sub(d.square()));
        let v = minus_one.sub(r.mul(d)).mul(r.add(d));
        let (root, is_square) = sqrt_ratio_or_of_i(u, v);
        let s = absolute(root);
        let other = zero.sub(absolute(s.mul(t)));
        let s = F::select(is_square, other, s);
        let c = F::select(is_square, r, minus_one);
        let n = c.mul(r.sub(one)).mul(d.sub(one).square()).sub(v);
        let s2 = s.square();
        let w0 = s.add(s).mul(v);
        let w1 = n.mul(everywhere(&SQRT_AD_MINUS_ONE));
        let (w2, w3) = (one.sub(s2), one.add(s2));
        Extended([w0.mul(w3), w2.mul(w1), w1.mul(w3), w0.mul(w2)])
    }
}

/// The one of x and −x whose encoding is even.
#[inline(always)]
fn absolute<F: Lanes>(x: F) -> F {
    negated(is_negative(x), x)
}

/// −x in the lanes of the mask, x in all others.
#[inline(always)]
fn negated<F: Lanes>(mask: u8, x: F) -> F {
    F::select(mask, x, F::small(0).sub(x))
}

/// The multiple by a scalar below 2^254, whose last digit is 0: four doublings and one addition for each of the
/// others.
#[inline(always)]
fn multiply<F: Lanes>(digits: &[Digit; DIGITS + 1], point: Extended<F>, d: F) -> Extended<F> {
    let (zero, one) = (F::small(0), F::small(1));
    let mut multiples = [[zero; 4]; 8];
    let mut multiple = point;
    let first = point.addend(d);
    for entry in &mut multiples {
        *entry = multiple.addend(d);
        multiple = multiple.plus(first);
    }
    let mut sum = Extended::neutral();
    for digit in digits[..DIGITS].iter().rev() {
        sum = sum.times_16();
        let mut chosen = [one, one, zero, one.add(one)];
        for (mask, entry) in digit.sizes.iter().zip(&multiples) {
            for (chosen, coordinate) in chosen.iter_mut().zip(entry) {
                *chosen = F::select(*mask, *chosen, *coordinate);
            }
        }
        let [plus, minus, product, double_z] = chosen;
        sum = sum.plus([
            F::select(digit.negative, plus, minus),
            F::select(digit.negative, minus, plus),
            negated(digit.negative, product),
            double_z,
        ]);
    }
    sum
}

/// Writes the encodings of 2·P for each point P.
#[inline(always)]
fn encode_doubles<F: Lanes>(points: &[Extended<F>], d: F, out: &mut [Bytes32]) {
    let root = everywhere::<F>(&SQRT_MINUS_ONE);
    let magic = everywhere::<F>(&INVSQRT_A_MINUS_D);
    let mut parts = Vec::with_capacity(points.len());
    let mut inverses = Vec::with_capacity(points.len());
    for Extended([x, y, z, t]) in points {
        let (xx, yy, zz) = (x.square(), y.square(), z.square());
        let dtt = t.square().mul(d);
        // 2·P is (e/f, g/h).
        let [e, f, g, h] = [x.mul(y.add(*y)), zz.add(dtt), yy.add(xx), zz.sub(dtt)];
        parts.push([e, f, g, h]);
        inverses.push(e.mul(g).mul(f.mul(h)));
    }
    invert_all(&mut inverses);
    for (([e, f, g, h], inverse), out) in parts.into_iter().zip(inverses).zip(out.chunks_mut(F::N))
    {
        let (eg, fh) = (e.mul(g), f.mul(h));
        let (z_inverse, t_inverse) = (eg.mul(inverse), fh.mul(inverse));
        // Turns by a point of order 4 until x·y is not negative.
        let turns = is_negative(eg.mul(z_inverse));
        let turned = [
            F::select(turns, e, g),
            F::select(turns, g, F::small(0).sub(e)),
            F::select(turns, h, f.mul(root)),
        ];
        let magic = F::select(turns, magic, root);
        let [e, g, h] = turned;
        let g = negated(is_negative(h.mul(e).mul(z_inverse)), g);
        let s = h.sub(g).mul(magic).mul(g.mul(t_inverse));
        out.copy_from_slice(&absolute(s).to_bytes()[..out.len()]);
    }
}
