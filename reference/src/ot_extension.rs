//! One tile of an oblivious-transfer extension, both roles at once, a bit at a time.

use crate::{field, rijndael};

/// What the two parties have after one tile.
pub struct Tile {
    /// The receiver's matrix as sent.
    pub matrix: Vec<u8>,
    /// The receiver's hashes as sent: of its choices, then of its columns.
    pub check: Vec<u8>,
    /// The sender's rows.
    pub sender: Vec<u128>,
    /// The receiver's rows.
    pub receiver: Vec<u128>,
}

fn aes(key: u128, block: u128) -> u128 {
    u128::from_le_bytes(rijndael::encrypt_128(
        &key.to_le_bytes(),
        &block.to_le_bytes(),
    ))
}

/// AES in counter mode, from block number `first`.
fn stream(seed: u128, first: u128, blocks: usize) -> Vec<u128> {
    (0..blocks as u128).map(|i| aes(seed, first + i)).collect()
}

fn first_half(digest: &[u8]) -> u128 {
    u128::from_le_bytes(std::array::from_fn(|i| digest[i]))
}

/// Product in GF(2^128), the subfield of [`field`].
fn multiply(a: u128, b: u128) -> u128 {
    let element = |x: u128| [x as u64, (x >> 64) as u64, 0, 0];
    let [low, high, ..] = field::multiply(element(a), element(b));
    u128::from(low) | u128::from(high) << 64
}

/// Row i: bit i of every column.
fn rows(columns: &[Vec<u128>]) -> Vec<u128> {
    let bit = |i: usize, column: &[u128]| column[i / 128] >> (i % 128) & 1;
    (0..128 * columns[0].len())
        .map(|i| {
            let bits = columns.iter().enumerate();
            bits.fold(0, |row, (j, column)| row | bit(i, column) << j)
        })
        .collect()
}

/// The first tile of an extension: `s` are the sender's bits, `pairs` the receiver's seeds, and `choices` the
/// receiver's choice bits, 128 per piece; the last piece belongs to the unused rows.
pub fn tile(session: &[u8; 32], s: u128, pairs: &[[u128; 2]; 128], choices: &[u128]) -> Tile {
    let pieces = choices.len();
    let xor =
        |a: &[u128], b: &[u128]| -> Vec<u128> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
    let (mut matrix, mut own, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (j, [zero, one]) in pairs.iter().enumerate() {
        let column = |seed: u128| stream(seed, (j as u128) << 64, pieces);
        let (zero, one) = (column(*zero), column(*one));
        let message = xor(&xor(&zero, &one), choices);
        let other = if s >> j & 1 == 0 {
            zero.clone()
        } else {
            xor(&one, &message)
        };
        matrix.extend(message.iter().flat_map(|d| d.to_le_bytes()));
        own.push(zero);
        others.push(other);
    }

    let key = blake3::derive_key("vesica/1 ot-extension challenge", session);
    let place = 0u64.to_le_bytes();
    let digest = blake3::keyed_hash(&key, &[&place, matrix.as_slice()].concat());
    let factors = stream(first_half(digest.as_bytes()), 0, pieces - 1);
    let hash = |column: &[u128]| {
        let products = factors.iter().zip(column).map(|(f, v)| multiply(*f, *v));
        products.fold(column[pieces - 1], |sum, product| sum ^ product)
    };
    let hashes = [hash(choices)]
        .into_iter()
        .chain(own.iter().map(|t| hash(t)));
    Tile {
        check: hashes.flat_map(|h| h.to_le_bytes()).collect(),
        matrix,
        sender: rows(&others),
        receiver: rows(&own),
    }
}

/// The key made from a row.
pub fn random_key(session: &[u8; 32], row: u64, value: u128) -> u128 {
    let label = "vesica/1 ot-extension random";
    let public = first_half(&blake3::derive_key(label, session));
    aes(aes(public, row.into()), value) ^ value
}
