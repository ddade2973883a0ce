//! Inverses, square roots and quadratic characters, which all are powers.

use super::Bytes32;
use super::field::{Lanes, Step};

/// A square root of −1 modulo p: 2^((p − 1)/4).
pub(super) const SQRT_MINUS_ONE: Bytes32 = [
    0xb0, 0xa0, 0x0e, 0x4a, 0x27, 0x1b, 0xee, 0xc4, 0x78, 0xe4, 0x2f, 0xad, 0x06, 0x18, 0x43, 0x2f,
    0xa7, 0xd7, 0xfb, 0x3d, 0x99, 0x00, 0x4d, 0x2b, 0x0b, 0xdf, 0xc1, 0x4f, 0x80, 0x24, 0x83, 0x2b,
];

#[inline(always)]
pub(super) fn everywhere<F: Lanes>(bytes: &Bytes32) -> F {
    F::load(&[*bytes; 8][..F::N])
}

#[inline(always)]
fn square_times<F: Lanes>(mut x: F, times: usize) -> F {
    for _ in 0..times {
        x = x.square();
    }
    x
}

/// x^(2^252 − 3), from which inverse, square root and quadratic character all follow.
struct Power<F>(F);

impl<F: Lanes> Step<F> for Power<F> {
    type Output = F;

    #[inline(always)]
    fn run(self) -> F {
        let x = self.0;
        let x2 = x.square();
        let x9 = square_times(x2, 2).mul(x);
        let x11 = x9.mul(x2);
        let e5 = x11.square().mul(x9); // 2^5 − 1
        let e10 = square_times(e5, 5).mul(e5);
        let e20 = square_times(e10, 10).mul(e10);
        let e40 = square_times(e20, 20).mul(e20);
        let e50 = square_times(e40, 10).mul(e10);
        let e100 = square_times(e50, 50).mul(e50);
        let e200 = square_times(e100, 100).mul(e100);
        let e250 = square_times(e200, 50).mul(e50);
        square_times(e250, 2).mul(x)
    }
}

/// 1/x, and 0 for 0: x^(p − 2), where p − 2 = 8·(2^252 − 3) + 3.
#[inline(always)]
pub(super) fn invert<F: Lanes>(x: F) -> F {
    square_times(F::apart(Power(x)), 3).mul(x.square().mul(x))
}

/// 1 for squares, −1 for non-squares, 0 for 0: x^((p − 1)/2), where (p − 1)/2 = 4·(2^252 − 3) + 2.
#[inline(always)]
pub(super) fn quadratic_character<F: Lanes>(x: F) -> F {
    square_times(F::apart(Power(x)), 2).mul(x.square())
}

/// A square root of n/d, and the mask of lanes that have one; d is not 0.
#[inline(always)]
pub(super) fn sqrt_ratio<F: Lanes>(n: F, d: F) -> (F, u8) {
    let (root, check) = F::apart(FourthRoot(n, d));
    let direct = is_zero(check.sub(n));
    let turned = is_zero(check.add(n));
    let root = F::select(turned, root, root.mul(everywhere(&SQRT_MINUS_ONE)));
    (root, direct | turned)
}

/// SQRT_RATIO_M1 of RFC 9496, section 4.2, but for the sign: as [`sqrt_ratio`], and a square root of √−1·n/d in the
/// other lanes; 0 where d is.
#[inline(always)]
pub(super) fn sqrt_ratio_or_of_i<F: Lanes>(n: F, d: F) -> (F, u8) {
    let (root, check) = F::apart(FourthRoot(n, d));
    let i = everywhere::<F>(&SQRT_MINUS_ONE);
    let direct = is_zero(check.sub(n));
    let turned = is_zero(check.add(n));
    let turned_of_i = is_zero(check.add(n.mul(i)));
    let root = F::select(turned | turned_of_i, root, root.mul(i));
    (root, direct | turned)
}

/// Of n and d: an r with r⁴ = n²/d² or −n²/d², and d·r².
struct FourthRoot<F>(F, F);

impl<F: Lanes> Step<F> for FourthRoot<F> {
    type Output = (F, F);

    #[inline(always)]
    fn run(self) -> (F, F) {
        let FourthRoot(n, d) = self;
        // sqrt(n/d) = n·d³·(n·d⁷)^((p − 5)/8), or that times sqrt(−1) (RFC 8032, section 5.1.3).
        let d3 = d.square().mul(d);
        let d7 = d3.square().mul(d);
        let root = n.mul(d3).mul(F::apart(Power(n.mul(d7))));
        (root, root.square().mul(d))
    }
}

/// Mask of the lanes that hold 0.
#[inline(always)]
pub(super) fn is_zero<F: Lanes>(x: F) -> u8 {
    let mut mask = 0;
    for (lane, bytes) in x.to_bytes().iter().enumerate().take(F::N) {
        let any = bytes.iter().fold(0u8, |acc, b| acc | b);
        mask |= (((u16::from(any) + 0xff) >> 8) as u8 ^ 1) << lane;
    }
    mask
}

/// Mask of the lanes that hold a value with an odd encoding, as RFC 9496 calls it: a negative one.
#[inline(always)]
pub(super) fn is_negative<F: Lanes>(x: F) -> u8 {
    let mut mask = 0;
    for (lane, bytes) in x.to_bytes().iter().enumerate().take(F::N) {
        mask |= (bytes[0] & 1) << lane;
    }
    mask
}

/// Mask of the lanes that hold 0 or 1.
#[inline(always)]
pub(super) fn is_zero_or_one<F: Lanes>(x: F) -> u8 {
    is_zero(x.mul(x.sub(F::small(1))))
}

/// Replaces every element by its inverse, all lanes at the price of one inversion and three products
/// each (Montgomery's trick). Zeros stay zero.
#[inline(always)]
pub(super) fn invert_all<F: Lanes>(values: &mut [F]) {
    F::apart(Inversions(values));
}

struct Inversions<'a, F>(&'a mut [F]);

impl<F: Lanes> Step<F> for Inversions<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let values = self.0;
        let zeros: Vec<u8> = values.iter().map(|v| is_zero(*v)).collect();
        let mut prefix = Vec::with_capacity(values.len());
        let mut product = F::small(1);
        for (v, zero) in values.iter_mut().zip(&zeros) {
            *v = F::select(*zero, *v, F::small(1));
            prefix.push(product);
            product = product.mul(*v);
        }
        let mut inverse = invert(product);
        for ((v, before), zero) in values.iter_mut().zip(prefix).zip(&zeros).rev() {
            let result = inverse.mul(before);
            inverse = inverse.mul(*v);
            *v = F::select(*zero, result, F::small(0));
        }
    }
}
