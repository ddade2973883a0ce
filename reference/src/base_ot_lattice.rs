//! The sender of hybrid base oblivious transfers, step by step: two vectors, two ciphertexts and two keys for each.

use ml_kem::kem::{Decapsulate, KeyExport};
use ml_kem::ml_kem_768::{DecapsulationKey, EncapsulationKey};

use crate::base_ot;

const Q: u32 = 3329;

fn oracle(label: &str, key: &[u8; 32], parts: &[&[u8]], length: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new_keyed(&blake3::derive_key(label, key));
    hasher.update(&parts.concat());
    let mut out = vec![0; length];
    hasher.finalize_xof().fill(&mut out);
    out
}

fn bit(bytes: &[u8], i: usize) -> u32 {
    u32::from(bytes[i / 8] >> (i % 8) & 1)
}

/// The numbers of twelve bits each in a string, lowest bits first.
pub fn numbers(bytes: &[u8]) -> Vec<u32> {
    (0..bytes.len() * 8 / 12)
        .map(|n| (0..12).map(|i| bit(bytes, 12 * n + i) << i).sum())
        .collect()
}

fn string(numbers: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; numbers.len() * 12 / 8];
    for i in 0..numbers.len() * 12 {
        bytes[i / 8] |= ((numbers[i / 12] >> (i % 12) & 1) << (i % 8)) as u8;
    }
    bytes
}

fn fold(session: &[u8; 32], b: u8, i: u64, rho: &[u8], t: &[u8]) -> Vec<u8> {
    let parts: [&[u8]; 4] = [&[b], &i.to_le_bytes(), rho, t];
    oracle("vesica/1 base-ot lattice fold", session, &parts, 48)
}

fn mask(session: &[u8; 32], b: u8, i: u64, rho: &[u8], w: &[u8]) -> Vec<u32> {
    let parts: [&[u8]; 4] = [&[b], &i.to_le_bytes(), rho, w];
    let stream = oracle("vesica/1 base-ot lattice mask", session, &parts, 3 * 840);
    let polynomials = stream.chunks(840).flat_map(|stream| {
        let below = numbers(stream).into_iter().filter(|number| *number < Q);
        below.take(256).collect::<Vec<_>>()
    });
    polynomials.collect()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// ML-KEM-768: the encapsulation key of a seed.
pub fn encapsulation_key(seed: &[u8; 64]) -> Vec<u8> {
    let key = DecapsulationKey::from_seed((*seed).into());
    key.encapsulation_key().to_bytes().to_vec()
}

/// ML-KEM-768: a ciphertext and its secret.
///
/// # Panics
/// For what is no key.
pub fn encapsulate(key: &[u8], message: &[u8; 32]) -> (Vec<u8>, Vec<u8>) {
    let key: [u8; 1184] = key.try_into().expect("a key");
    let key = EncapsulationKey::new(&key.into()).expect("a key");
    let (ciphertext, secret) = key.encapsulate_deterministic(&(*message).into());
    (ciphertext.to_vec(), secret.to_vec())
}

/// ML-KEM-768: the secret of a ciphertext.
pub fn decapsulate(seed: &[u8; 64], ciphertext: &[u8; 1088]) -> Vec<u8> {
    let key = DecapsulationKey::from_seed((*seed).into());
    key.decapsulate(&(*ciphertext).into()).to_vec()
}

/// The encapsulation key that φ is at `b`, for transfer number `i`.
pub fn evaluate(session: &[u8; 32], i: u64, function: &[u8], b: u8) -> Vec<u8> {
    let (rho, rest) = function.split_at(32);
    let (s, t) = rest.split_at(48);
    let w = xor(s, &fold(session, b, i, rho, t));
    let masks = mask(session, b, i, rho, &w);
    let t: Vec<u32> = numbers(t)
        .iter()
        .zip(masks)
        .map(|(t, mask)| (t + Q - mask) % Q)
        .collect();
    [&string(&t), rho].concat()
}

/// The φ that is at `c` the key of the seed in the first 64 bytes of `random`, with w in the other 48.
pub fn program(session: &[u8; 32], i: u64, random: &[u8], c: u8) -> Vec<u8> {
    let (seed, w) = random.split_at(64);
    let key = encapsulation_key(seed.try_into().expect("64 bytes"));
    let (t, rho) = key.split_at(1152);
    let masks = mask(session, c, i, rho, w);
    let t: Vec<u32> = numbers(t)
        .iter()
        .zip(masks)
        .map(|(t, mask)| (t + mask) % Q)
        .collect();
    let t = string(&t);
    [rho, &xor(w, &fold(session, c, i, rho, &t)), &t].concat()
}

/// The sender's public key, both ciphertexts of each transfer, and both keys.
pub type Sent = ([u8; 32], Vec<Vec<u8>>, Vec<[[u8; 16]; 2]>);

/// What the sender sends, and its keys. Its exponent is reduced from 64 bytes;
/// `messages` are what it encapsulates.
pub fn sender(
    session: &[u8; 32],
    secret: &[u8],
    functions: &[[[u8; 32]; 2]],
    lattice_functions: &[Vec<u8>],
    messages: &[[[u8; 32]; 2]],
) -> Sent {
    let (public, agreed) = base_ot::agreed(session, secret, functions);
    let (mut ciphertexts, mut shared) = (Vec::new(), Vec::new());
    for (i, (function, messages)) in (0u64..).zip(lattice_functions.iter().zip(messages)) {
        let sent = [0u8, 1].map(|b| {
            let key = evaluate(session, i, function, b);
            encapsulate(&key, &messages[usize::from(b)])
        });
        ciphertexts.push([&sent[0].0[..], &sent[1].0].concat());
        shared.push(sent.map(|(_, shared)| shared));
    }
    let count = (functions.len() as u64).to_le_bytes();
    let parts: [&[u8]; 5] = [
        &count,
        &public,
        functions.as_flattened().as_flattened(),
        &lattice_functions.concat(),
        &ciphertexts.concat(),
    ];
    let digest = oracle("vesica/1 hybrid base-ot batch", session, &parts, 32);
    let digest: [u8; 32] = digest.try_into().expect("32 bytes");
    let keys = (0u64..)
        .zip(agreed.iter().zip(&shared))
        .map(|(i, (agreed, shared))| {
            [0u8, 1].map(|b| {
                let at = usize::from(b);
                let parts: [&[u8]; 4] = [&[b], &i.to_le_bytes(), &agreed[at], &shared[at]];
                let key = oracle("vesica/1 hybrid base-ot key", &digest, &parts, 16);
                key.try_into().expect("16 bytes")
            })
        });
    (public, ciphertexts, keys.collect())
}
