//! Encoding a set as one message, and distributing it over bins.
//!
//! An oblivious key-value store ([`Okvs`], Garimella, Pinkas, Rosulek, Trieu and Yanai, CRYPTO 2021)
//! hides which keys it was made from when its values are random: every slot of an encoding of random
//! values is uniform.
//!
//! Hash tables let two sides compare bin by bin: one puts each item into one bin, in a [`cuckoo`] or a
//! [`two_choice`] table, the other into each bin where it could be ([`simple`]).

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bins;
pub mod cuckoo;
pub mod permuted;
pub mod random_band;
pub mod simple;
pub mod two_choice;

pub use bins::{Bins, Entry};

use vesica_primitives::block::{Block, Prg};

/// Encoding failed, which has probability at most 2^-λ for distinct keys, or keys repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the keys cannot be encoded: some are equal, or an event of negligible probability happened"
)]
pub struct EncodingFailed;

/// A linear key-value store: a key selects slots, and its value is their XOR.
///
/// Keys are 128-bit strings that look uniform: hashes of salted items. A value is `W` words of 64 bits.
pub trait Okvs: Sync {
    /// Number of slots of an encoding: this many values go over the wire.
    fn size(&self) -> usize;

    /// An encoding under which each key has its value; slots that no key determines come from `filler`.
    /// The time depends on the keys, not on the values.
    ///
    /// # Errors
    /// [`EncodingFailed`]; there is no retry.
    ///
    /// # Panics
    /// If there is not one value per key, or there are more keys than the OKVS was made for.
    fn encode<const W: usize>(
        &self,
        keys: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed>;

    /// Writes the value of key i to `out[i]`, for any number of any keys.
    ///
    /// # Panics
    /// If the length of `encoding` is not [`size`](Okvs::size), or `keys` and `out` differ in length.
    fn decode<const W: usize>(&self, encoding: &[[u64; W]], keys: &[Block], out: &mut [[u64; W]]);
}
