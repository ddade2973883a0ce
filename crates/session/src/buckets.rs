//! Sets that do not fit into memory, cut into buckets that do.
//!
//! A salted hash decides the bucket of each item on both sides, so that equal items meet, and the protocol
//! runs once per bucket. The salt comes from both nonces, so nobody can prepare items that all fall into one
//! bucket. How full a bucket is would reveal something about a set, so each side pads every bucket with
//! random strings to the one size that [`capacity`](vesica_plan::buckets::capacity) computes.

use vesica_kernels::{Backend, blake3::keyed_hash_many};
use vesica_plan::buckets::MAX_BUCKETS;
use vesica_psi::Item;

/// Names the bucket of every item of a run.
#[derive(Clone)]
pub struct Assignment {
    salt: [u8; 32],
    buckets: u32,
}

impl Assignment {
    /// From a salt that both sides have agreed on; `buckets` is a power of two.
    pub(crate) fn new(salt: [u8; 32], buckets: u32) -> Assignment {
        assert!(buckets.is_power_of_two() && buckets <= MAX_BUCKETS);
        Assignment { salt, buckets }
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket of the key with this digest: the first bits of its keyed BLAKE3. The time varies with the
    /// number of buckets only.
    pub fn bucket(&self, digest: &[u8; 32]) -> u32 {
        self.bucket_of(blake3::keyed_hash(&self.salt, digest).as_bytes())
    }

    /// The bucket of each of these keys, on the thread that asks.
    pub fn buckets_of(&self, digests: &[[u8; 32]]) -> Vec<u32> {
        /// Keys that are hashed at once.
        const BATCH: usize = 64;
        let mut buckets = vec![0; digests.len()];
        if self.buckets > 1 {
            let mut hashes = [[0; 32]; BATCH];
            for (digests, buckets) in digests.chunks(BATCH).zip(buckets.chunks_mut(BATCH)) {
                let hashes = &mut hashes[..digests.len()];
                let inputs = digests.as_flattened();
                keyed_hash_many(Backend::Best, &self.salt, inputs, 32, hashes);
                for (bucket, hash) in buckets.iter_mut().zip(&*hashes) {
                    *bucket = self.bucket_of(hash);
                }
            }
        }
        buckets
    }

    fn bucket_of(&self, [a, b, c, d, ..]: &[u8; 32]) -> u32 {
        let first = u64::from(u32::from_be_bytes([*a, *b, *c, *d]));
        ((first * u64::from(self.buckets)) >> 32) as u32
    }
}

/// The session of one bucket's run, from that of the whole run.
pub(crate) fn bucket_session(session: &[u8; 32], bucket: u32) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(session);
    hasher
        .update(b"vesica/1 bucket")
        .update(&bucket.to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// Pads a bucket to `size` items with uniform 256-bit strings, which are no item of either side; `false` if
/// it has more already.
pub(crate) fn pad(items: &mut Vec<Item>, size: usize, rng: &mut dyn rand_core::CryptoRng) -> bool {
    let fits = items.len() <= size;
    items.reserve_exact(size.saturating_sub(items.len()));
    while items.len() < size {
        let mut dummy = [0; 32];
        rng.fill_bytes(&mut dummy);
        items.push(dummy);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    use vesica_plan::buckets::capacity;

    #[test]
    fn items_spread_over_all_buckets_by_their_salt() {
        let digests: Vec<[u8; 32]> = (0u32..4000)
            .map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes())
            .collect();
        let count = |salt: u8| {
            let assignment = Assignment::new([salt; 32], 8);
            let mut counts = [0u64; 8];
            for digest in &digests {
                counts[assignment.bucket(digest) as usize] += 1;
            }
            counts
        };
        let (one, other) = (count(1), count(2));
        assert_ne!(one, other);
        for load in one.into_iter().chain(other) {
            assert!(load > 300 && load <= capacity(4000, 8, 40));
        }
        for buckets in [1, 2, 8, MAX_BUCKETS] {
            let assignment = Assignment::new([1; 32], buckets);
            let one_by_one = digests.iter().map(|digest| assignment.bucket(digest));
            assert_eq!(
                assignment.buckets_of(&digests),
                one_by_one.collect::<Vec<_>>()
            );
        }
        assert_eq!(Assignment::new([1; 32], 1).bucket(&digests[0]), 0);
        let assignment = Assignment::new([1; 32], MAX_BUCKETS);
        let hash = blake3::keyed_hash(&[1; 32], &digests[0]);
        let first = u16::from_be_bytes([hash.as_bytes()[0], hash.as_bytes()[1]]);
        assert_eq!(assignment.bucket(&digests[0]), u32::from(first >> 6));
    }

    #[test]
    fn padding_fills_up_and_says_when_there_is_too_much() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let mut items = vec![[7; 32]; 3];
        assert!(pad(&mut items, 5, &mut rng));
        assert_eq!(items[..3], [[7; 32]; 3]);
        assert_eq!(items.len(), 5);
        assert_ne!(items[3], items[4]);
        assert!(!pad(&mut items, 4, &mut rng));
    }
}
