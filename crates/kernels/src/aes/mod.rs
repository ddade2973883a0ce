//! AES-128 (FIPS 197) of many blocks under one key, and functions of it block by block: π(x) ⊕ x, and the
//! children of the nodes of a tree; also few blocks under each of many keys, and few bits of each block.
//!
//! A block is sixteen bytes, least significant first. Neither time nor addresses depend on keys or
//! blocks; the portable version is that of the `aes` crate.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod ops;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Backend;
use crate::backend::first_version;
use zeroize::ZeroizeOnDrop;

/// An expanded key.
///
/// The first word is the key itself, which is all that the portable version needs. The others are the
/// ten further round keys, or 0 on a machine without AES instructions.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Key([u128; 11]);

impl Key {
    /// Expands a key.
    #[inline]
    pub fn new(key: u128) -> Self {
        let [key] = Self::expand([key]);
        key
    }

    /// A key whose round keys are still to come.
    #[inline(always)]
    fn unexpanded(key: u128) -> Self {
        let mut round_keys = [0; 11];
        round_keys[0] = key;
        Key(round_keys)
    }

    /// Expands several keys. The rounds of one key depend on each other, so about four keys together take
    /// little longer than one.
    #[inline]
    pub fn expand<const N: usize>(keys: [u128; N]) -> [Self; N] {
        #[allow(unused_mut)]
        let mut expanded = keys.map(Key::unexpanded);
        #[cfg(target_arch = "x86_64")]
        if x86::available(Backend::Best) {
            // SAFETY: the CPU has the features that the function was compiled for.
            unsafe { x86::expand(&mut expanded) };
        }
        #[cfg(target_arch = "aarch64")]
        if aarch64::available(Backend::Best) {
            // SAFETY: the CPU has the features that the function was compiled for.
            unsafe { aarch64::expand(&mut expanded) };
        }
        expanded
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => "vaes avx512";
        "x86_64" if x86::available(backend) => "aes-ni";
        "aarch64" if aarch64::available(backend) => "armv8 aes";
        else "portable"
    )
}

macro_rules! dispatch {
    ($backend:ident, $call:ident($($arg:expr),*)) => {
        first_version!($backend:
            "x86_64" if x86::wide_available($backend) => x86::wide::$call($($arg),*);
            "x86_64" if x86::available($backend) => x86::narrow::$call($($arg),*);
            "aarch64" if aarch64::available($backend) => aarch64::$call($($arg),*);
            else portable::$call($($arg),*)
        )
    };
}

/// Encrypts every block in place.
pub fn encrypt(backend: Backend, key: &Key, blocks: &mut [u128]) {
    dispatch!(backend, encrypt(key, blocks))
}

/// π(x) ⊕ x for every block x in place, where π is encryption under the key.
pub fn feed_forward(backend: Backend, key: &Key, blocks: &mut [u128]) {
    dispatch!(backend, feed_forward(key, blocks))
}

/// From one level of a binary tree to the next, in place: the first half of `nodes` are the nodes of a
/// level, and all become their children, π₀(p) ⊕ p at 2i and π₁(p) ⊕ p at 2i + 1 for node p at i. Returns
/// the sums (⊕) of the left and of the right children.
///
/// # Panics
/// If the number of blocks is odd.
pub fn children(backend: Backend, keys: &[Key; 2], nodes: &mut [u128]) -> [u128; 2] {
    assert!(nodes.len().is_multiple_of(2));
    dispatch!(backend, children(keys, nodes))
}

/// π(x) ⊕ x for every block x in place, where all planes of blocks are under the same keys: of n keys, number i is that
/// of the blocks i, i + n, i + 2n, and so on. The keys are expanded as they are used.
///
/// # Panics
/// If the blocks are no whole number of planes.
pub fn feed_forward_under_each(backend: Backend, keys: &[u128], blocks: &mut [u128]) {
    assert!(blocks.len().is_multiple_of(keys.len()));
    dispatch!(backend, feed_forward_under_each(keys, blocks))
}

/// Blocks that [`bits`] takes.
pub const BITS: usize = 128;

/// A matrix of bits: bit j of `out[i]` is the highest of `blocks[j]` encrypted under `keys[i]`.
///
/// # Panics
/// If there are not as many words as keys.
pub fn bits(backend: Backend, keys: &[Key], blocks: &[u128; BITS], out: &mut [u128]) {
    assert_eq!(keys.len(), out.len());
    dispatch!(backend, bits(keys, blocks, out))
}

/// Bits of the hashes π(x) ⊕ x of all sums x of an input and an offset: bit i·n + u of row c of `out` is bit 127 − c of
/// the hash of `inputs[i]` ⊕ `offsets[u]`, for n offsets. The rows follow each other, each of whole words; bits beyond
/// the last are 0.
///
/// # Panics
/// If there are not 4, 8 or 16 offsets, or `out` is not a whole number of rows.
pub fn hash_bits(backend: Backend, key: &Key, offsets: &[u128], inputs: &[u128], out: &mut [u64]) {
    assert!(matches!(offsets.len(), 4 | 8 | 16));
    let words = (inputs.len() * offsets.len()).div_ceil(64);
    if words == 0 {
        return;
    }
    assert!(out.len().is_multiple_of(words));
    hash_words(backend, key, offsets, inputs, out);
    let used = (inputs.len() * offsets.len() - 1) % 64;
    for row in out.chunks_exact_mut(words) {
        row[words - 1] &= u64::MAX >> (63 - used);
    }
}

/// As [`hash_bits`], with any bits beyond the last.
fn hash_words(backend: Backend, key: &Key, offsets: &[u128], inputs: &[u128], out: &mut [u64]) {
    dispatch!(backend, hash_words(key, offsets, inputs, out))
}

#[cfg(test)]
mod tests;
