//! Rijndael with 256-bit blocks and a 256-bit key (Daemen and Rijmen, *The Design of Rijndael*), and its
//! use under a public key of the run as the ideal permutation Π of RT21, section 2.4.
//!
//! A block is eight columns of four bytes. One round of AES works on four columns, so a round here is a
//! byte permutation that turns the two halves into what the AES row shift expects, followed by an AES
//! round on each half. The AES round comes from the `aes` crate, which uses the CPU's instructions where
//! it can and constant-time code elsewhere.

use aes::Block;
use aes::hazmat::{cipher_round, equiv_inv_cipher_round, inv_mix_columns, mix_columns};

/// A 256-bit string.
pub type Block256 = [u8; 32];

/// Rounds for blocks of 256 bits.
const ROUNDS: usize = 14;

/// Row r of a 256-bit block is shifted by this many columns.
const SHIFTS: [usize; 4] = [0, 1, 3, 4];

/// For each byte in front of the AES rounds, the byte of the state that goes there. AES shifts row r of a
/// half by r; this does the rest of [`SHIFTS`].
const BEFORE_ROUND: [usize; 32] = byte_order(true);

/// The same for the inverse rounds, which shift the other way.
const BEFORE_INVERSE_ROUND: [usize; 32] = byte_order(false);

const fn byte_order(forward: bool) -> [usize; 32] {
    let mut order = [0; 32];
    let mut at = 0;
    while at < 32 {
        let (half, column, row) = (at / 16, at % 16 / 4, at % 4);
        // The column of the half in which AES's own shift will leave this byte.
        let lands = if forward {
            (column + 4 - row) % 4
        } else {
            (column + row) % 4
        };
        let source = if forward {
            (4 * half + lands + SHIFTS[row]) % 8
        } else {
            (4 * half + lands + 8 - SHIFTS[row]) % 8
        };
        order[at] = 4 * source + row;
        at += 1;
    }
    order
}

type Halves = [Block; 2];

fn split(block: &Block256, order: Option<&[usize; 32]>) -> Halves {
    let mut halves = [Block::default(); 2];
    for at in 0..32 {
        halves[at / 16][at % 16] = block[order.map_or(at, |o| o[at])];
    }
    halves
}

fn join(halves: &Halves) -> Block256 {
    std::array::from_fn(|at| halves[at / 16][at % 16])
}

fn xor(block: &mut Block256, key: &Block256) {
    for (b, k) in block.iter_mut().zip(key) {
        *b ^= k;
    }
}

/// Rijndael-256 under one key.
pub struct Rijndael256 {
    keys: [Block256; ROUNDS + 1],
    /// Keys of the inverse rounds 1 … 13, through the inverse of the column mixing.
    inverse_keys: [Halves; ROUNDS],
}

impl Rijndael256 {
    /// Expands a 256-bit key.
    pub fn new(key: &Block256) -> Self {
        let mut words = [[0u8; 4]; 8 * (ROUNDS + 1)];
        for (word, bytes) in words.iter_mut().zip(key.chunks_exact(4)) {
            word.copy_from_slice(bytes);
        }
        let mut round_constant = 1u8;
        for i in 8..words.len() {
            let mut t = words[i - 1];
            if i % 8 == 0 {
                t.rotate_left(1);
                t = substitute(t);
                t[0] ^= round_constant;
                round_constant = (round_constant << 1) ^ ((round_constant >> 7) * 0x1b);
            } else if i % 8 == 4 {
                t = substitute(t);
            }
            words[i] = std::array::from_fn(|b| words[i - 8][b] ^ t[b]);
        }
        let mut keys = [[0; 32]; ROUNDS + 1];
        for (key, words) in keys.iter_mut().zip(words.chunks_exact(8)) {
            key.copy_from_slice(words.as_flattened());
        }
        let inverse_keys = std::array::from_fn(|round| {
            let mut halves = split(&keys[round], None);
            halves.iter_mut().for_each(inv_mix_columns);
            halves
        });
        Rijndael256 { keys, inverse_keys }
    }

    /// Encrypts one block.
    pub fn encrypt(&self, block: &Block256) -> Block256 {
        let mut state = *block;
        xor(&mut state, &self.keys[0]);
        for key in &self.keys[1..ROUNDS] {
            let mut halves = split(&state, Some(&BEFORE_ROUND));
            for (half, key) in halves.iter_mut().zip(split(key, None)) {
                cipher_round(half, &key);
            }
            state = join(&halves);
        }
        // The last round has no column mixing.
        let mut halves = split(&state, Some(&BEFORE_ROUND));
        for half in &mut halves {
            cipher_round(half, &Block::default());
            inv_mix_columns(half);
        }
        state = join(&halves);
        xor(&mut state, &self.keys[ROUNDS]);
        state
    }

    /// Decrypts one block.
    pub fn decrypt(&self, block: &Block256) -> Block256 {
        let mut state = *block;
        xor(&mut state, &self.keys[ROUNDS]);
        for keys in self.inverse_keys[1..].iter().rev() {
            let mut halves = split(&state, Some(&BEFORE_INVERSE_ROUND));
            for (half, key) in halves.iter_mut().zip(keys) {
                equiv_inv_cipher_round(half, key);
            }
            state = join(&halves);
        }
        let mut halves = split(&state, Some(&BEFORE_INVERSE_ROUND));
        for half in &mut halves {
            equiv_inv_cipher_round(half, &Block::default());
            mix_columns(half);
        }
        state = join(&halves);
        xor(&mut state, &self.keys[0]);
        state
    }
}

/// The S-box on each byte of a word: an AES round on four equal columns, less the column mixing.
fn substitute(word: [u8; 4]) -> [u8; 4] {
    let mut block = Block::default();
    for column in block.chunks_exact_mut(4) {
        column.copy_from_slice(&word);
    }
    cipher_round(&mut block, &Block::default());
    inv_mix_columns(&mut block);
    // Equal columns make the row shift vanish.
    [block[0], block[1], block[2], block[3]]
}

/// Π of one run: Rijndael-256 under a public key that is a hash of the run's session.
///
/// Nothing computed before the session is known helps to find inputs or outputs of a desired form.
pub struct IdealPermutation(Rijndael256);

impl IdealPermutation {
    /// Π of the run named `session`. Expands one key; reuse it for all blocks of the run.
    pub fn new(session: &[u8; 32]) -> Self {
        IdealPermutation(Rijndael256::new(&blake3::derive_key(
            "vesica/1 ideal permutation Rijndael-256 key",
            session,
        )))
    }

    /// Π(x).
    pub fn apply(&self, x: &Block256) -> Block256 {
        self.0.encrypt(x)
    }

    /// Π⁻¹(x).
    pub fn invert(&self, x: &Block256) -> Block256 {
        self.0.decrypt(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(s: &str) -> Block256 {
        std::array::from_fn(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap())
    }

    #[test]
    fn published_vectors() {
        let text = include_str!("../../../vectors/rijndael-256.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let cases = vectors["cases"].as_array().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let field = |name: &str| hex(case[name].as_str().unwrap());
            let cipher = Rijndael256::new(&field("key"));
            assert_eq!(cipher.encrypt(&field("plaintext")), field("ciphertext"));
            assert_eq!(cipher.decrypt(&field("ciphertext")), field("plaintext"));
        }
    }

    proptest! {
        #[test]
        fn matches_the_reference(key: Block256, block: Block256) {
            let cipher = Rijndael256::new(&key);
            let expected = vesica_reference::rijndael::encrypt_256(&key, &block);
            prop_assert_eq!(cipher.encrypt(&block), expected);
            prop_assert_eq!(cipher.decrypt(&expected), block);
        }

        #[test]
        fn the_ideal_permutation_inverts(session: [u8; 32], x: Block256) {
            let pi = IdealPermutation::new(&session);
            prop_assert_eq!(pi.invert(&pi.apply(&x)), x);
            prop_assert_eq!(pi.apply(&pi.invert(&x)), x);
        }
    }

    #[test]
    fn every_session_has_a_permutation_of_its_own() {
        let images: std::collections::HashSet<Block256> = (0..100)
            .map(|i| IdealPermutation::new(&[i; 32]).apply(&[7; 32]))
            .collect();
        assert_eq!(images.len(), 100);
    }
}
