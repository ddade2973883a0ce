//! What the parties send: rows of residues in as few bits as their moduli have, one ciphertext per frame.

use vesica_kernels::Backend;
use vesica_kernels::residues::{self, Modulus};
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error, Kind, Misbehaviour, recv_exact};

use super::bfv::Answer;
use super::parameters::Parameters;
use super::ring::Polynomial;
use crate::ole;

/// Frame with the seed of all masks of the receiver's, and the body of its public key.
pub const PUBLIC_KEY: Kind = Kind {
    code: 100,
    name: "lattice public key",
};

/// Frames with the body of a ciphertext of s, one each.
pub const CIPHERTEXT: Kind = Kind {
    code: 101,
    name: "lattice ciphertext",
};

/// Frames with an answer, one each.
pub const ANSWER: Kind = Kind {
    code: 102,
    name: "lattice answer",
};

/// A frame with the answer to all ciphertexts of an inner product.
pub const SUM: Kind = Kind {
    code: 103,
    name: "lattice inner product",
};

const SEED_BYTES: usize = 16;

/// Bytes of a polynomial modulo some primes.
pub(super) fn polynomial_bytes<T>(parameters: &Parameters<T>, primes: usize) -> usize {
    let rows = parameters.primes[..primes].iter();
    rows.map(|p| p.bytes(parameters.length)).sum()
}

/// A modulus with as many bits as the body of an answer: it says how wide numbers are packed.
fn width(parameters: &Parameters) -> Modulus {
    Modulus::new((1 << parameters.body_bits) - 1)
}

/// Bytes of a [`PUBLIC_KEY`].
pub fn public_key_bytes<T>(parameters: &Parameters<T>) -> usize {
    SEED_BYTES + ciphertext_bytes(parameters)
}

/// Bytes of a [`CIPHERTEXT`].
pub fn ciphertext_bytes<T>(parameters: &Parameters<T>) -> usize {
    polynomial_bytes(parameters, parameters.primes.len())
}

/// Bytes of an [`ANSWER`].
pub fn answer_bytes(parameters: &Parameters) -> usize {
    let body = width(parameters).bytes(parameters.length);
    body + polynomial_bytes(parameters, parameters.kept)
}

/// A public key as bytes.
pub fn public_key_to_bytes<T>(
    parameters: &Parameters<T>,
    seed: Block,
    body: &Polynomial,
) -> Vec<u8> {
    let mut out = seed.to_le_bytes().to_vec();
    out.extend(ciphertext_to_bytes(parameters, body));
    out
}

/// The body of a ciphertext as bytes.
pub fn ciphertext_to_bytes<T>(parameters: &Parameters<T>, body: &Polynomial) -> Vec<u8> {
    let mut out = vec![0; ciphertext_bytes(parameters)];
    pack(parameters, body, &mut out);
    out
}

/// An answer as bytes: c₀, then the rows of c₁.
pub fn answer_to_bytes(parameters: &Parameters, answer: &Answer) -> Vec<u8> {
    let mut out = vec![0; answer_bytes(parameters)];
    let width = width(parameters);
    let (body, mask) = out.split_at_mut(width.bytes(parameters.length));
    residues::pack(Backend::Best, width, &answer.body, body);
    pack(parameters, &answer.mask, mask);
    out
}

/// Receives the seed and the body of a public key.
pub fn receive_public_key<T>(
    channel: &mut dyn Channel,
    parameters: &Parameters<T>,
) -> Result<(Block, Polynomial), Error> {
    let frame = recv_exact(channel, PUBLIC_KEY, public_key_bytes(parameters))?;
    let (seed, body) = frame.split_at(SEED_BYTES);
    let seed = Block::from_le_bytes(seed.try_into().expect("16 bytes"));
    let body = unpack(parameters, parameters.primes.len(), PUBLIC_KEY, body)?;
    Ok((seed, body))
}

/// Receives the body of a ciphertext.
pub fn receive_ciphertext<T>(
    channel: &mut dyn Channel,
    parameters: &Parameters<T>,
) -> Result<Polynomial, Error> {
    let frame = recv_exact(channel, CIPHERTEXT, ciphertext_bytes(parameters))?;
    let body = unpack(parameters, parameters.primes.len(), CIPHERTEXT, &frame)?;
    Ok(body)
}

/// Receives an answer.
pub fn receive_answer(channel: &mut dyn Channel, parameters: &Parameters) -> Result<Answer, Error> {
    let frame = recv_exact(channel, ANSWER, answer_bytes(parameters))?;
    let width = width(parameters);
    let (packed, mask) = frame.split_at(width.bytes(parameters.length));
    let mut body = vec![0; parameters.length];
    residues::unpack(Backend::Best, width, packed, &mut body);
    let mask = unpack(parameters, parameters.kept, ANSWER, mask)?;
    Ok(Answer { body, mask })
}

/// Packs the rows of a polynomial.
pub(super) fn pack<T>(parameters: &Parameters<T>, polynomial: &Polynomial, mut out: &mut [u8]) {
    let mut wide = vec![0; parameters.length];
    for (p, row) in parameters.primes.iter().zip(polynomial.rows()) {
        for (wide, value) in wide.iter_mut().zip(row) {
            *wide = u64::from(*value);
        }
        let (packed, rest) = out.split_at_mut(p.bytes(parameters.length));
        residues::pack(Backend::Best, *p, &wide, packed);
        out = rest;
    }
}

/// Unpacks a polynomial modulo the first `count` primes; all its residues must be below their primes.
pub(super) fn unpack<T>(
    parameters: &Parameters<T>,
    count: usize,
    kind: Kind,
    mut bytes: &[u8],
) -> Result<Polynomial, Misbehaviour> {
    let mut out = Polynomial::zero(parameters.length, count);
    let mut wide = vec![0; parameters.length];
    for (p, row) in parameters.primes.iter().zip(out.rows_mut()) {
        let (packed, rest) = bytes.split_at(p.bytes(parameters.length));
        ole::unpack(kind, *p, packed, &mut wide)?;
        for (value, wide) in row.iter_mut().zip(&wide) {
            *value = *wide as u32;
        }
        bytes = rest;
    }
    Ok(out)
}
