//! The sender of the base oblivious transfers (OTs), step by step: two strings, two secrets, two keys.

use crate::curve;
use num_bigint::BigUint;

fn oracle(label: &str, key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    *blake3::keyed_hash(&blake3::derive_key(label, key), &parts.concat()).as_bytes()
}

fn xor(a: &[u8; 32], b: &[u8; 32]) -> [u8; 32] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// φ at `b`, for transfer number `i`.
pub fn evaluate(session: &[u8; 32], i: u64, function: &[[u8; 32]; 2], b: u8) -> [u8; 32] {
    let (own, other) = (&function[usize::from(b)], &function[usize::from(1 - b)]);
    let parts: [&[u8]; 3] = [&[b], &i.to_le_bytes(), other];
    xor(own, &oracle("vesica/1 base-ot function", session, &parts))
}

/// The sender's public key, and what it agrees on with both strings of each OT. Its exponent is reduced from 64 bytes.
pub fn agreed(
    session: &[u8; 32],
    secret: &[u8],
    functions: &[[[u8; 32]; 2]],
) -> ([u8; 32], Vec<[[u8; 32]; 2]>) {
    let mut base = [0; 32];
    base[0] = 9;
    let a = BigUint::from_bytes_le(secret) % (curve::group_order() / 8u8);
    let agreed = (0u64..).zip(functions).map(|(i, function)| {
        [0u8, 1].map(|b| {
            let point = curve::elligator(&evaluate(session, i, function, b));
            curve::multiply(&(&a * 8u8), &point)
        })
    });
    (curve::multiply(&a, &base), agreed.collect())
}

/// The sender's public key and both keys of each OT.
pub fn sender(
    session: &[u8; 32],
    secret: &[u8],
    functions: &[[[u8; 32]; 2]],
) -> ([u8; 32], Vec<[[u8; 16]; 2]>) {
    let (public, agreed) = agreed(session, secret, functions);
    let count = (functions.len() as u64).to_le_bytes();
    let batch = oracle("vesica/1 base-ot batch", session, &[&count, &public]);
    let keys = (0u64..)
        .zip(functions.iter().zip(&agreed))
        .map(|(i, (function, agreed))| {
            [0u8, 1].map(|b| {
                let [r0, r1] = function;
                let agreed = &agreed[usize::from(b)];
                let parts: [&[u8]; 5] = [&[b], &i.to_le_bytes(), r0, r1, agreed];
                let key = oracle("vesica/1 base-ot key", &batch, &parts);
                std::array::from_fn(|k| key[k])
            })
        });
    (public, keys.collect())
}
