//! The OPRF of RFC 9497 over ristretto255 (RFC 9496), by affine formulas over big integers, and what `oprf-dh` makes
//! of it.

use num_bigint::BigUint;
use sha2::{Digest, Sha512};

use crate::curve::{group_order, inverse, minus, p, to_bytes};

const TAG: &[u8] = b"HashToGroup-OPRFV1-\x01-ristretto255-SHA512";

/// x and y on −x² + y² = 1 + d·x²y².
pub type Point = [BigUint; 2];

fn number(decimal: &str) -> BigUint {
    decimal.parse().expect("a number")
}

fn d() -> BigUint {
    minus(
        &BigUint::ZERO,
        &(121_665u32 * inverse(&BigUint::from(121_666u32)) % p()),
    )
}

fn sqrt_minus_one() -> BigUint {
    BigUint::from(2u8).modpow(&((p() - 1u8) / 4u8), &p())
}

fn is_negative(x: &BigUint) -> bool {
    (x % p()).bit(0)
}

fn absolute(x: &BigUint) -> BigUint {
    match is_negative(x) {
        true => minus(&BigUint::ZERO, x),
        false => x % p(),
    }
}

/// SQRT_RATIO_M1 (RFC 9496, section 4.2), from the square root of a quotient.
fn sqrt_ratio(u: &BigUint, v: &BigUint) -> (bool, BigUint) {
    let quotient = u * inverse(v) % p();
    let is_square = quotient.modpow(&((p() - 1u8) / 2u8), &p()) <= BigUint::from(1u8);
    let square = match is_square {
        true => quotient,
        false => quotient * sqrt_minus_one() % p(),
    };
    // p is 5 modulo 8.
    let root = square.modpow(&((p() + 3u8) / 8u8), &p());
    let root = match &root * &root % p() == square {
        true => root,
        false => root * sqrt_minus_one() % p(),
    };
    (is_square, absolute(&root))
}

fn add([x1, y1]: &Point, [x2, y2]: &Point) -> Point {
    let product = d() * x1 * x2 % p() * y1 % p() * y2 % p();
    let one = BigUint::from(1u8);
    [
        (x1 * y2 + x2 * y1) * inverse(&(&one + &product)) % p(),
        (y1 * y2 + x1 * x2) * inverse(&minus(&one, &product)) % p(),
    ]
}

/// The multiple of a point.
pub fn multiply(scalar: &BigUint, point: &Point) -> Point {
    let mut sum = [BigUint::ZERO, BigUint::from(1u8)];
    for bit in (0..scalar.bits()).rev() {
        sum = add(&sum, &sum);
        if scalar.bit(bit) {
            sum = add(&sum, point);
        }
    }
    sum
}

/// The generator: the base point of Ed25519, with y = 4/5 and an even x.
pub fn generator() -> Point {
    let y = 4u8 * inverse(&BigUint::from(5u8)) % p();
    let y2 = &y * &y;
    let (_, x) = sqrt_ratio(&minus(&y2, &BigUint::from(1u8)), &(d() * &y2 + 1u8));
    [x, y]
}

/// MAP (section 4.3.4).
fn map(t: &[u8]) -> Point {
    let one = BigUint::from(1u8);
    let t = BigUint::from_bytes_le(t) % (&one << 255);
    let r: BigUint = sqrt_minus_one() * &t * &t % p();
    let u = (&r + 1u8) * minus(&one, &(d() * d())) % p();
    let minus_one = p() - 1u8;
    let v = minus(&minus_one, &(&r * d())) * (&r + d()) % p();
    let (is_square, root) = sqrt_ratio(&u, &v);
    let (s, c) = match is_square {
        true => (root, minus_one),
        false => (minus(&BigUint::ZERO, &absolute(&(root * &t))), r.clone()),
    };
    let difference = minus(&d(), &one);
    let n = minus(&(c * minus(&r, &one) % p() * &difference * &difference), &v);
    let w0 = 2u8 * &s * v % p();
    let w1 =
        n * number("25063068953384623474111414158702152701244531502492656460079210482610430750235");
    let s2 = &s * &s % p();
    let (w2, w3) = (minus(&one, &s2), &one + &s2);
    [w0 * inverse(&(w1 % p())) % p(), w2 * inverse(&w3) % p()]
}

/// The element that is derived from 64 bytes (section 4.3.4).
pub fn derive(string: &[u8]) -> Point {
    add(&map(&string[..32]), &map(&string[32..]))
}

/// ENCODE (section 4.3.2) with Z = 1.
pub fn encode([x, y]: &Point) -> [u8; 32] {
    let one = BigUint::from(1u8);
    let t = x * y % p();
    let u1 = (&one + y) * minus(&one, y) % p();
    let u2 = &t;
    let (_, root) = sqrt_ratio(&one, &(&u1 * u2 * u2));
    let (den1, den2) = (&root * &u1 % p(), &root * u2 % p());
    let z_inverse = &den1 * &den2 * &t % p();
    let magic =
        number("54469307008909316920995813868745141605393597292927456921205312896311721017578");
    let (x, y, den) = match is_negative(&(&t * &z_inverse)) {
        true => (
            y * sqrt_minus_one() % p(),
            x * sqrt_minus_one() % p(),
            den1 * magic % p(),
        ),
        false => (x.clone(), y.clone(), den2),
    };
    let y = match is_negative(&(&x * &z_inverse)) {
        true => minus(&BigUint::ZERO, &y),
        false => y,
    };
    to_bytes(&absolute(&(den * minus(&one, &y))))
}

/// `hash_to_ristretto255` of RFC 9497, section 4.1, of an input of at most 255 bytes.
fn hash_to_group(input: &[u8]) -> Point {
    let end = [TAG, &[TAG.len() as u8]].concat();
    let first = Sha512::digest([&[0; 128][..], input, &[0, 64, 0], &end].concat());
    derive(&Sha512::digest([&first[..], &[1], &end].concat()))
}

/// `Evaluate` of RFC 9497, section 3.3.1.
pub fn evaluate(key: &BigUint, input: &[u8]) -> [u8; 64] {
    let element = encode(&multiply(key, &hash_to_group(input)));
    let length = (input.len() as u16).to_be_bytes();
    Sha512::digest([&length, input, &[0, 32], &element, b"Finalize"].concat()).into()
}

/// The public key of a sender of `oprf-dh` and its masks. Its key is reduced from 64 bytes.
pub fn sender(session: &[u8; 32], secret: &[u8], items: &[[u8; 32]]) -> ([u8; 32], Vec<[u8; 32]>) {
    let key = BigUint::from_bytes_le(secret) % (group_order() / 8u8);
    let oracle = blake3::derive_key("vesica/1 oprf-dh input", session);
    let masks = items.iter().map(|item| {
        let output = evaluate(&key, blake3::keyed_hash(&oracle, item).as_bytes());
        std::array::from_fn(|i| output[i])
    });
    (encode(&multiply(&key, &generator())), masks.collect())
}
