//! BLAKE3 of many short inputs at once, one input per lane.
//!
//! From "BLAKE3: one function, fast everywhere" by O'Connor, Aumasson, Neves and Wilcox-O'Hearn (version
//! 2021-11), sections 2.1 to 2.4. An input of at most 128 bytes is a single chunk of one or two blocks, whose
//! last compression is also the root's, so no tree is needed. One input at a time would leave most of a wide
//! vector unit idle.
//!
//! Takes the same time for all inputs of the same lengths.

mod ops;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Backend;
use crate::backend::first_version;
use ops::{DERIVE_KEY_MATERIAL, KEYED_HASH};

/// Length in bytes of the longest input: two blocks.
pub const MAX_INPUT: usize = 128;

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => "avx512";
        "x86_64" if x86::available(backend) => "avx2";
        else "portable"
    )
}

/// `out[i]` becomes the keyed hash of the `i`-th input of `length` bytes; the inputs are concatenated in
/// `inputs`.
///
/// # Panics
/// If `inputs` is not `length` bytes for each output, or `length` exceeds [`MAX_INPUT`].
pub fn keyed_hash_many(
    backend: Backend,
    key: &[u8; 32],
    inputs: &[u8],
    length: usize,
    out: &mut [[u8; 32]],
) {
    assert!(length <= MAX_INPUT);
    assert_eq!(inputs.len(), length * out.len());
    let input = |i: usize| &inputs[i * length..][..length];
    hash(backend, key, KEYED_HASH, input, out);
}

/// `out[i]` becomes the first 32 bytes of the key derived from the material `inputs[i]`. The lengths
/// may differ. `context_key` is the hash of the context string, as the specification's function
/// `derive_key` computes it in its first stage.
///
/// # Panics
/// If there are not as many inputs as outputs, or one is longer than [`MAX_INPUT`].
pub fn derive_key_each(
    backend: Backend,
    context_key: &[u8; 32],
    inputs: &[&[u8]],
    out: &mut [[u8; 32]],
) {
    assert_eq!(inputs.len(), out.len());
    assert!(inputs.iter().all(|input| input.len() <= MAX_INPUT));
    hash(
        backend,
        context_key,
        DERIVE_KEY_MATERIAL,
        |i| inputs[i],
        out,
    );
}

fn hash<'a>(
    backend: Backend,
    key: &[u8; 32],
    mode: u32,
    input: impl Fn(usize) -> &'a [u8],
    out: &mut [[u8; 32]],
) {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => x86::hash_wide(key, mode, input, out);
        "x86_64" if x86::available(backend) => x86::hash_narrow(key, mode, input, out);
        else ops::hash::<u32>(key, mode, input, out)
    )
}
