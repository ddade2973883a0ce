//! The `aes` crate, which takes constant time on every machine.

use super::{BITS, Key};
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Block};
use zeroize::{Zeroize, Zeroizing};

/// Blocks encrypted together.
const BATCH: usize = 64;

fn cipher(key: &Key) -> Aes128Enc {
    Aes128Enc::new(&key.0[0].to_le_bytes().into())
}

/// Calls `write` with each block and its encryption.
fn encrypt_each(cipher: &Aes128Enc, blocks: &mut [u128], write: impl Fn(&mut u128, u128)) {
    let mut bytes = Zeroizing::new([[0; 16]; BATCH]);
    for chunk in blocks.chunks_mut(BATCH) {
        let bytes = &mut bytes[..chunk.len()];
        for (bytes, block) in bytes.iter_mut().zip(chunk.iter()) {
            *bytes = block.to_le_bytes();
        }
        cipher.encrypt_blocks(Block::cast_slice_from_core_mut(bytes));
        for (block, bytes) in chunk.iter_mut().zip(bytes) {
            write(block, u128::from_le_bytes(*bytes));
        }
    }
}

/// See [`super::encrypt`].
pub(super) fn encrypt(key: &Key, blocks: &mut [u128]) {
    encrypt_each(&cipher(key), blocks, |block, image| *block = image);
}

/// See [`super::feed_forward`].
pub(super) fn feed_forward(key: &Key, blocks: &mut [u128]) {
    encrypt_each(&cipher(key), blocks, |block, image| *block ^= image);
}

/// See [`super::feed_forward_under_each`].
pub(super) fn feed_forward_under_each(keys: &[u128], blocks: &mut [u128]) {
    let mut column = Zeroizing::new(vec![0; blocks.len() / keys.len().max(1)]);
    for (i, key) in keys.iter().enumerate() {
        let places = || (i..).step_by(keys.len());
        for (from, place) in column.iter_mut().zip(places()) {
            *from = blocks[place];
        }
        encrypt(&Key::unexpanded(*key), &mut column);
        for (image, place) in column.iter().zip(places()) {
            blocks[place] ^= image;
        }
    }
}

/// See [`super::children`].
pub(super) fn children(keys: &[Key; 2], nodes: &mut [u128]) -> [u128; 2] {
    let parents = nodes.len() / 2;
    let ciphers = [cipher(&keys[0]), cipher(&keys[1])];
    let mut sums = [0; 2];
    let mut sides = [[0; BATCH]; 2];
    // From the back, so that no child takes the place of a parent that is still needed.
    for start in (0..parents).step_by(BATCH).rev() {
        let count = BATCH.min(parents - start);
        for (side, cipher) in sides.iter_mut().zip(&ciphers) {
            let side = &mut side[..count];
            side.copy_from_slice(&nodes[start..start + count]);
            encrypt_each(cipher, side, |block, image| *block ^= image);
        }
        let children = &mut nodes[2 * start..2 * (start + count)];
        for (i, node) in children.iter_mut().enumerate() {
            *node = sides[i % 2][i / 2];
            sums[i % 2] ^= *node;
        }
    }
    sides.zeroize();
    sums
}

/// See [`super::bits`].
pub(super) fn bits(keys: &[Key], blocks: &[u128; BITS], out: &mut [u128]) {
    let mut images = Zeroizing::new([0; BITS]);
    for (key, out) in keys.iter().zip(out) {
        images.copy_from_slice(blocks);
        encrypt(key, &mut *images);
        let bits = images.iter().enumerate().map(|(j, x)| x >> 127 << j);
        *out = bits.fold(0, |sum, bit| sum | bit);
    }
}

/// See [`super::hash_words`].
pub(super) fn hash_words(key: &Key, offsets: &[u128], inputs: &[u128], out: &mut [u64]) {
    let cipher = cipher(key);
    let words = (inputs.len() * offsets.len()).div_ceil(64);
    let mut sums = Zeroizing::new([0; 64]);
    out.fill(0);
    for (word, inputs) in inputs.chunks(64 / offsets.len()).enumerate() {
        let sums = &mut sums[..inputs.len() * offsets.len()];
        for (sums, input) in sums.chunks_exact_mut(offsets.len()).zip(inputs) {
            for (sum, offset) in sums.iter_mut().zip(offsets) {
                *sum = input ^ offset;
            }
        }
        encrypt_each(&cipher, sums, |block, image| *block ^= image);
        for (c, row) in out.chunks_exact_mut(words).enumerate() {
            for (i, hash) in sums.iter().enumerate() {
                row[word] |= ((hash >> (127 - c)) as u64 & 1) << i;
            }
        }
    }
}
