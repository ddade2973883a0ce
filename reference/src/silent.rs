//! The two pure parts of silent correlations, written out: trees of seeds, and the expand-convolute code.

use std::sync::LazyLock;

use crate::{field, rijndael};

fn aes(key: u128, block: u128) -> u128 {
    u128::from_le_bytes(rijndael::encrypt_128(
        &key.to_le_bytes(),
        &block.to_le_bytes(),
    ))
}

/// The AES key of a label in a session.
fn public_key(label: &str, session: &[u8; 32]) -> u128 {
    let key = blake3::derive_key(label, session);
    u128::from_le_bytes(std::array::from_fn(|i| key[i]))
}

/// The leaves of tree number `tree` with this root.
///
/// Child number `side` of node p at depth `level` is AES(k, p) + p, where k is the key of (tree, level,
/// side).
pub fn tree(session: &[u8; 32], tree: u64, root: u128, depth: u32) -> Vec<u128> {
    let master = public_key("vesica/1 tree keys", session);
    let mut nodes = vec![root];
    for level in 0..depth {
        let keys = [0, 1].map(|side| {
            aes(
                master,
                u128::from(tree) << 64 | u128::from(2 * level + side),
            )
        });
        nodes = nodes
            .iter()
            .flat_map(|p| keys.map(|key| aes(key, *p) ^ p))
            .collect();
    }
    nodes
}

/// Word number `i` of the random words of 32 bits of a domain of the code.
fn word(key: u128, domain: u128, i: usize) -> u32 {
    (aes(key, domain << 64 | (i / 4) as u128) >> (32 * (i % 4))) as u32
}

/// Which constants a code has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constants {
    /// None: 1 in all rows.
    None,
    /// Elements of GF(2^8).
    Bytes,
    /// Elements of GF(2^64).
    Words,
}

/// The elements of GF(2^8) in GF(2^64), each at the number that its bits 0, 1, 2, 3, 4, 6, 10 and 13 are.
static BYTES: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let times = |a: u64, b: u64| field::multiply([a, 0, 0, 0], [b, 0, 0, 0])[0];
    // x^((2^64 − 1)/255), with x a generator: its powers are all elements but 0.
    let (mut root, mut square, mut exponent) = (1, 2, u64::MAX / 255);
    while exponent > 0 {
        if exponent & 1 == 1 {
            root = times(root, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    let number = |element: u64| -> usize {
        let places = [0, 1, 2, 3, 4, 6, 10, 13].iter().enumerate();
        places
            .map(|(i, place)| ((element >> place & 1) as usize) << i)
            .sum()
    };
    let (mut all, mut power) = (vec![0; 256], 1);
    for _ in 0..255 {
        power = times(power, root);
        all[number(power)] = power;
    }
    all
});

/// The constant of row `i` of the parity half, in GF(2^64): two of them are words of a block of domain 3. Of GF(2^64) it is
/// the word, or 1 for 0; of GF(2^8) that with the number 1 + the word's residue modulo 255.
pub fn constant(constants: Constants, i: usize) -> u64 {
    let key = public_key("vesica/1 expand-convolute code 7x24", &[0; 32]);
    let block = aes(key, 3 << 64 | (i / 2) as u128);
    let word = (block >> (64 * (i % 2))) as u64;
    match constants {
        Constants::None => 1,
        Constants::Bytes => BYTES[1 + (word % 255) as usize],
        Constants::Words => word.max(1),
    }
}

/// c·x, for an element x of GF(2^128) and c of GF(2^64).
fn scale(c: u64, x: u128) -> u128 {
    let [low, high, ..] = field::multiply([c, 0, 0, 0], [x as u64, (x >> 64) as u64, 0, 0]);
    u128::from(low) | u128::from(high) << 64
}

/// systematic + Expand(Convolve(D·Convolve(parity))), where D is the constants. A row has any number of elements of
/// GF(2^128), the same for all rows.
pub fn encode(
    parity: &[Vec<u128>],
    systematic: &[Vec<u128>],
    constants: Constants,
) -> Vec<Vec<u128>> {
    let key = public_key("vesica/1 expand-convolute code 7x24", &[0; 32]);
    let n = parity.len();
    let add = |a: &mut [u128], b: &[u128]| a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
    let mut rows = parity.to_vec();
    for pass in 0..2 {
        if pass == 1 {
            for (i, row) in rows.iter_mut().enumerate() {
                let constant = constant(constants, i);
                row.iter_mut().for_each(|x| *x = scale(constant, *x));
            }
        }
        for i in 0..n {
            let row = rows[i].clone();
            let bits = word(key, pass, i) >> 8 | 1 << 24;
            for j in (0..25).filter(|j| bits >> j & 1 == 1) {
                // Around the end, to rows that are done.
                add(&mut rows[(i + 1 + j) % n], &row);
            }
        }
    }
    let mut out = systematic.to_vec();
    for (i, out) in out.iter_mut().enumerate() {
        for j in 0..7 {
            let (start, end) = (j * n / 7, (j + 1) * n / 7);
            let random = u64::from(word(key, 2, 8 * i + j));
            add(
                out,
                &rows[start + ((random * (end - start) as u64) >> 32) as usize],
            );
        }
    }
    out
}
