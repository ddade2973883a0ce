//! The order of keys while rows come together, in memory and on disk.

use std::io;

/// Bits by which keys are told apart before they are sorted.
const PARTITION_BITS: u32 = 10;

/// Parts of a run, by the first bits of tags.
pub(crate) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Bits of a tag that keys of a partition differ in.
pub(crate) const REST_BITS: u32 = u32::BITS - PARTITION_BITS;

/// The order of keys: that of their tags, which are the first 32 bits of the first 64 bits of their digests times a random
/// odd number, and of the digests themselves where these are the same.
///
/// Digests are hashes of keys without a secret, so that whoever puts rows into the table could look for keys whose digests
/// begin alike, and fill one partition with them. Of any two digests that differ in these bits, the products agree in their
/// first k bits for at most 2^(1 - k) of the numbers (M. Dietzfelbinger and others, *A Reliable Randomized Algorithm for the
/// Closest-Pair Problem*, Journal of Algorithms 25, 1997).
#[derive(Clone, Copy)]
pub(crate) struct Mix(u64);

impl Mix {
    pub(crate) fn random() -> io::Result<Mix> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Mix(u64::from_le_bytes(bytes) | 1))
    }

    pub(crate) fn tag(self, [a, b, c, d, e, f, g, h, ..]: &[u8; 32]) -> u32 {
        let head = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        (head.wrapping_mul(self.0) >> 32) as u32
    }

    /// What a digest is sorted by: its tag, and its index.
    pub(crate) fn entry(self, digest: &[u8; 32], index: usize) -> u64 {
        u64::from(self.tag(digest)) << 32 | index as u64
    }
}

/// Does not show the number.
impl std::fmt::Debug for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mix")
    }
}

/// The partition of an [entry](Mix::entry).
pub(crate) fn partition(entry: u64) -> usize {
    (entry >> (u64::BITS - PARTITION_BITS)) as usize
}

/// The index in an [entry](Mix::entry).
pub(crate) fn index(entry: u64) -> usize {
    entry as u32 as usize
}

/// Puts ascending entries in the order of their digests, and of their indices where these are the same.
pub(crate) fn sort_ties(entries: &mut [u64], digests: &[[u8; 32]]) {
    for tied in entries.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
        if tied.len() > 1 {
            tied.sort_by_key(|entry| digests[index(*entry)]);
        }
    }
}
