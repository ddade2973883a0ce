//! Randomness, items, and known answers.

use std::convert::Infallible;

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng, TryCryptoRng, TryRng};
use serde_json::Value;

/// A generator that gives the same for the same seed.
pub fn rng(seed: u64) -> ChaCha12Rng {
    ChaCha12Rng::seed_from_u64(seed)
}

/// A source of randomness that gives out these bytes, and panics when there are no more.
#[derive(Clone, Debug)]
pub struct Script(pub Vec<u8>);

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("keys are made from bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("keys are made from bytes")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.0.drain(..bytes.len()).collect::<Vec<u8>>());
        Ok(())
    }
}

impl TryCryptoRng for Script {}

/// Random items; of two calls with one seed, the longer result starts with the shorter one.
pub fn items(seed: u64, count: usize) -> Vec<[u8; 32]> {
    let mut items = vec![[0; 32]; count];
    rng(seed).fill_bytes(items.as_flattened_mut());
    items
}

/// Digests that stand for these numbers.
pub fn digests(numbers: impl IntoIterator<Item = u64>) -> Vec<[u8; 32]> {
    let digest = |number: u64| *blake3::hash(&number.to_le_bytes()).as_bytes();
    numbers.into_iter().map(digest).collect()
}

/// The bytes of a string of hexadecimal digits in `vectors/`.
///
/// # Panics
/// If it is anything else.
pub fn bytes(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap();
    let byte = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// As [`bytes`], where their number is known.
pub fn array<const N: usize>(value: &Value) -> [u8; N] {
    bytes(value).try_into().unwrap()
}
