//! Curve25519 by textbook formulas over big integers.

use num_bigint::BigUint;

const A: u32 = 486_662;

/// p = 2^255 − 19.
pub(crate) fn p() -> BigUint {
    (BigUint::from(1u8) << 255) - 19u8
}

pub(crate) fn inverse(x: &BigUint) -> BigUint {
    x.modpow(&(p() - 2u8), &p())
}

pub(crate) fn minus(a: &BigUint, b: &BigUint) -> BigUint {
    (a + p() - b % p()) % p()
}

pub(crate) fn to_bytes(x: &BigUint) -> [u8; 32] {
    let mut bytes = x.to_bytes_le();
    bytes.resize(32, 0);
    bytes.try_into().unwrap()
}

/// The order of the base point times the cofactor: 8·(2^252 + 27742317777372353535851937790883648493).
pub fn group_order() -> BigUint {
    let low: BigUint = "27742317777372353535851937790883648493".parse().unwrap();
    ((BigUint::from(1u8) << 252) + low) * 8u8
}

/// Elligator 2: the u-coordinate of a representative, whose two high bits do not count.
pub fn elligator(representative: &[u8; 32]) -> [u8; 32] {
    let mut r = *representative;
    r[31] &= 0x3f;
    let r = BigUint::from_bytes_le(&r);
    let a = BigUint::from(A);
    let w = minus(&p(), &(&a * inverse(&(1u8 + 2u8 * &r * &r)))) % p();
    let right_side = (&w * &w * &w + &a * &w * &w + &w) % p();
    let is_square = right_side.modpow(&((p() - 1u8) / 2u8), &p()) <= BigUint::from(1u8);
    let other = minus(&minus(&BigUint::ZERO, &a), &w);
    to_bytes(if is_square { &w } else { &other })
}

/// Whether `u` is −A/(1 + 2r²) for the representative r: the value that Elligator 2 tries first.
pub fn is_first_elligator_value(representative: &[u8; 32], u: &[u8; 32]) -> bool {
    let mut r = *representative;
    r[31] &= 0x3f;
    let r = BigUint::from_bytes_le(&r);
    (BigUint::from_bytes_le(u) * (1u8 + 2u8 * &r * &r) + A) % p() == BigUint::ZERO
}

/// u(scalar · P) by the ladder of RFC 7748, section 5.
pub fn multiply(scalar: &BigUint, u: &[u8; 32]) -> [u8; 32] {
    let m = p();
    let x1 = BigUint::from_bytes_le(u) % &m;
    let (mut x2, mut z2) = (BigUint::from(1u8), BigUint::ZERO);
    let (mut x3, mut z3) = (x1.clone(), BigUint::from(1u8));
    for bit in (0..256).rev() {
        let set = scalar.bit(bit);
        if set {
            (x2, z2, x3, z3) = (x3, z3, x2, z2);
        }
        let (a, b) = (&x2 + &z2, minus(&x2, &z2));
        let (c, d) = (&x3 + &z3, minus(&x3, &z3));
        let (da, cb) = (&d * &a % &m, &c * &b % &m);
        let (aa, bb) = (&a * &a % &m, &b * &b % &m);
        let e = minus(&aa, &bb);
        let sum = &da + &cb;
        let difference = minus(&da, &cb);
        x3 = &sum * &sum % &m;
        z3 = &x1 * &difference * &difference % &m;
        x2 = &aa * &bb % &m;
        z2 = &e * (&aa + 121_665u32 * &e) % &m;
        if set {
            (x2, z2, x3, z3) = (x3, z3, x2, z2);
        }
    }
    to_bytes(&(x2 * inverse(&z2) % &m))
}
