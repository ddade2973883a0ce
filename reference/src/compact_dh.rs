//! The sender of RT21 from its figures: hashes, a polynomial, a permutation, a key agreement, hashes.

use crate::{curve, field, rijndael};
use num_bigint::BigUint;

/// Which figure of the paper.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Figure 4.
    Malicious,
    /// Figure 5.
    SemiHonest1,
    /// Figure 6.
    SemiHonest2,
}

fn oracle(label: &str, session: &[u8; 32], input: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(&blake3::derive_key(label, session), input).as_bytes()
}

fn to_element(bytes: &[u8; 32]) -> field::Element {
    std::array::from_fn(|i| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap()))
}

/// The sender's public key and its masks. Its exponent is reduced from 64 bytes.
pub fn sender(
    variant: Variant,
    session: &[u8; 32],
    secret: &[u8],
    polynomial: &[field::Element],
    items: &[[u8; 32]],
) -> ([u8; 32], Vec<[u8; 32]>) {
    let mut base = [0; 32];
    base[0] = 9;
    let a = BigUint::from_bytes_le(secret) % (curve::group_order() / 8u8);
    let public = curve::multiply(&a, &base);
    let key = blake3::derive_key("vesica/1 ideal permutation Rijndael-256 key", session);
    let masks = items.iter().map(|x| {
        let point = to_element(&oracle("vesica/1 compact-dh H1", session, x));
        let value = field::evaluate(polynomial, point);
        let bytes: Vec<u8> = value.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut message = bytes.try_into().unwrap();
        if variant != Variant::SemiHonest2 {
            message = rijndael::encrypt_256(&key, &message);
        }
        // The cofactor 8 removes the component of low order.
        let secret = curve::multiply(&(&a * 8u8), &curve::elligator(&message));
        oracle(
            "vesica/1 compact-dh H2",
            session,
            &[x.as_slice(), &secret, &message].concat(),
        )
    });
    (public, masks.collect())
}
