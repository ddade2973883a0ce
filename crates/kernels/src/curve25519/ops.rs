//! The curve operations, written once for every backend.

use super::field::{Lanes, Step};
use super::powers::{invert_all, is_zero, is_zero_or_one, quadratic_character, sqrt_ratio};
pub(super) use super::ristretto::multiply_derived;
use super::{Bytes32, CHUNK, Multiples};
use zeroize::Zeroizing;

/// The curve's coefficient A.
const A: u32 = 486_662;

/// u³ + A·u² + u.
#[inline(always)]
pub(super) fn curve_right_side<F: Lanes>(u: F) -> F {
    let u2 = u.square();
    u2.mul(u).add(u2.mul_small(A)).add(u)
}

/// For each scalar bit, highest first, a mask with that bit of every lane.
#[inline(always)]
fn bit_masks(scalars: &[Bytes32]) -> Zeroizing<[u8; 256]> {
    let mut masks = Zeroizing::new([0u8; 256]);
    for byte in 0..32 {
        let mut x = 0u64;
        for (lane, s) in scalars.iter().enumerate() {
            x |= u64::from(s[byte]) << (8 * lane);
        }
        // Transposes an 8 × 8 bit matrix, one row a byte (Hacker's Delight, section 7-3).
        let t = (x ^ (x >> 7)) & 0x00aa_00aa_00aa_00aa;
        x ^= t ^ (t << 7);
        let t = (x ^ (x >> 14)) & 0x0000_cccc_0000_cccc;
        x ^= t ^ (t << 14);
        let t = (x ^ (x >> 28)) & 0x0000_0000_f0f0_f0f0;
        x ^= t ^ (t << 28);
        for (bit, mask) in x.to_le_bytes().into_iter().enumerate() {
            masks[255 - (8 * byte + bit)] = mask;
        }
    }
    masks
}

/// The Montgomery ladder (RFC 7748, section 5) without the final division: (X : Z).
struct Ladder<'a, F> {
    masks: &'a [u8; 256],
    u: F,
}

impl<F: Lanes> Step<F> for Ladder<'_, F> {
    type Output = (F, F);

    #[inline(always)]
    fn run(self) -> (F, F) {
        let Ladder { masks, u } = self;
        let (mut x2, mut z2) = (F::small(1), F::small(0));
        let (mut x3, mut z3) = (u, F::small(1));
        let mut swapped = 0u8;
        for mask in masks {
            let swap = swapped ^ mask;
            swapped = *mask;
            // Sums and differences first: swapping those is the same as swapping the points.
            let (s2, d2) = (x2.add(z2), x2.sub(z2));
            let (s3, d3) = (x3.add(z3), x3.sub(z3));
            let (a, b) = (F::select(swap, s2, s3), F::select(swap, d2, d3));
            let da = d3.mul(s2);
            let cb = s3.mul(d2);
            // Swapping both points exchanges these two products; their sum and squared difference stay.
            x3 = da.add(cb).square();
            z3 = da.sub(cb).square().mul(u);
            let (aa, bb) = (a.square(), b.square());
            let e = aa.sub(bb);
            x2 = aa.mul(bb);
            z2 = e.mul(bb.add(e.mul_small((A + 2) / 4)));
        }
        (F::select(swapped, x2, x3), F::select(swapped, z2, z3))
    }
}

#[inline(always)]
fn store<F: Lanes>(x: F, out: &mut [Bytes32]) {
    out.copy_from_slice(&x.to_bytes()[..out.len()]);
}

/// Writes the u-coordinates that fractions stand for; takes the fractions.
#[inline(always)]
fn divide_all<F: Lanes>(fractions: &mut Vec<(F, F)>, out: &mut [Bytes32]) {
    let mut inverses: Vec<F> = fractions.iter().map(|(_, z)| *z).collect();
    invert_all(&mut inverses);
    let results = out.chunks_mut(F::N);
    for (((x, _), inverse), out) in fractions.drain(..).zip(inverses).zip(results) {
        store(x.mul(inverse), out);
    }
}

// The loops are written out: what a closure does would be compiled without the features of its backend.

#[inline(always)]
pub(super) fn multiply<F: Lanes>(scalars: &[Bytes32], points: &[Bytes32], out: &mut [Bytes32]) {
    let mut fractions = Vec::with_capacity(CHUNK / F::N);
    let inputs = scalars.chunks(CHUNK).zip(points.chunks(CHUNK));
    for ((scalars, points), out) in inputs.zip(out.chunks_mut(CHUNK)) {
        for (scalars, points) in scalars.chunks(F::N).zip(points.chunks(F::N)) {
            let masks = &bit_masks(scalars);
            let u = F::load(points);
            fractions.push(F::apart(Ladder { masks, u }));
        }
        divide_all(&mut fractions, out);
    }
}

#[inline(always)]
pub(super) fn multiply_by_one_scalar<F: Lanes>(
    scalar: &Bytes32,
    points: &[Bytes32],
    out: &mut [Bytes32],
) {
    let masks = bit_masks(&*Zeroizing::new([*scalar; 8]));
    let mut fractions = Vec::with_capacity(CHUNK / F::N);
    for (points, out) in points.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        for points in points.chunks(F::N) {
            let (masks, u) = (&masks, F::load(points));
            fractions.push(F::apart(Ladder { masks, u }));
        }
        divide_all(&mut fractions, out);
    }
}

#[inline(always)]
pub(super) fn multiply_one_point<F: Lanes>(
    scalars: &[Bytes32],
    point: &Multiples,
    out: &mut [Bytes32],
) {
    let mut fractions: Vec<(F, F)> = Vec::with_capacity(CHUNK / F::N);
    for (scalars, out) in scalars.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        for scalars in scalars.chunks(F::N) {
            fractions.push(point.multiply(scalars));
        }
        divide_all(&mut fractions, out);
    }
}

#[inline(always)]
pub(super) fn multiply_and_encode<F: Lanes>(
    scalars: &[Bytes32],
    base: &Multiples,
    v_is_negative: &[u8],
    out: &mut [Bytes32],
    found: &mut [u8],
) {
    for from in (0..scalars.len()).step_by(F::N) {
        let to = scalars.len().min(from + F::N);
        let (x, z) = base.multiply::<F>(&scalars[from..to]);
        let mut negative = 0u8;
        for (lane, sign) in v_is_negative[from..to].iter().enumerate() {
            negative |= (sign & 1) << lane;
        }
        let (r, ok) = encode(x, z, negative);
        let bytes = r.to_bytes();
        for lane in 0..to - from {
            out[from + lane] = absolute(bytes[lane]);
            found[from + lane] = ok >> lane & 1;
        }
    }
}

/// Inverse Elligator 2 of u = X/Z: a representative, up to sign, and the mask of lanes that have one.
///
/// r² = −u/(2(u + A)) for one sign of v and −(u + A)/(2u) for the other (section 5.3 of the paper).
#[inline(always)]
fn encode<F: Lanes>(x: F, z: F, v_is_negative: u8) -> (F, u8) {
    let x_plus_az = x.add(z.mul_small(A));
    let top = F::select(v_is_negative, x, x_plus_az);
    let bottom = F::select(v_is_negative, x_plus_az, x);
    let n = F::small(0).sub(top);
    let d = bottom.add(bottom);
    let (r, found) = sqrt_ratio(n, d);
    let degenerate = is_zero(x.mul(z).mul(x_plus_az));
    (r, found & !degenerate)
}

/// The one of r and p − r that is at most (p − 1)/2, for canonical r.
#[inline(always)]
fn absolute(r: Bytes32) -> Bytes32 {
    // r is above (p − 1)/2 exactly if 2r mod p is odd.
    let negate = doubled_is_odd(&r);
    let minus = super::portable::Field::small(0).sub(super::portable::Field::load(&[r]));
    let minus = minus.to_bytes()[0];
    let mask = negate.wrapping_neg();
    std::array::from_fn(|i| r[i] ^ (mask & (r[i] ^ minus[i])))
}

#[inline(always)]
fn doubled_is_odd(r: &Bytes32) -> u8 {
    let r = super::portable::Field::load(&[*r]);
    r.add(r).to_bytes()[0][0] & 1
}

/// Elligator 2 with `top_byte` saying which bits of an element's last byte count.
///
/// With d = 1 + 2r² and w = −A/d the result is w if w³ + A·w² + w is a square, else −A − w. That
/// right-hand side equals −A·(A² − A²·d + d²)/d³, which is a square exactly if −A·d·(A² − A²·d + d²) is.
/// d is never 0, since −1/2 is no square.
#[inline(always)]
pub(super) fn map_to_curve<F: Lanes>(elements: &[Bytes32], top_byte: u8, out: &mut [Bytes32]) {
    let one = F::small(1);
    let a = F::small(u64::from(A));
    let minus_a = F::small(0).sub(a);
    for start in (0..elements.len()).step_by(CHUNK) {
        let end = elements.len().min(start + CHUNK);
        let mut ds = Vec::new();
        for from in (start..end).step_by(F::N) {
            let to = end.min(from + F::N);
            let mut masked = [[0; 32]; 8];
            masked[..to - from].copy_from_slice(&elements[from..to]);
            for m in &mut masked {
                m[31] &= top_byte;
            }
            let r2 = F::load(&masked[..F::N]).square();
            ds.push(one.add(r2.add(r2)));
        }
        let mut inverses = ds.clone();
        invert_all(&mut inverses);
        let results = out[start..end].chunks_mut(F::N);
        for ((d, inverse), out) in ds.into_iter().zip(inverses).zip(results) {
            let w = minus_a.mul(inverse);
            let a2 = a.square();
            let inner = a2.sub(a2.mul(d)).add(d.square());
            let on_curve = is_zero_or_one(quadratic_character(minus_a.mul(d).mul(inner)));
            store(F::select(on_curve, minus_a.sub(w), w), out);
        }
    }
}
