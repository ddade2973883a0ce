//! Sets that do not fit into memory, cut into buckets that do.
//!
//! Both sides put an item into the bucket that a salted hash names, so that equal items meet, and
//! run the protocol once a bucket. The salt is agreed after both nonces: nobody prepares items that
//! all fall into one bucket. How full a bucket is would tell something about a set, so each side
//! fills every bucket up with random strings to the one size that [`capacity`] gives.

use vesica_psi::{Item, Protocol};

/// Most buckets of a run.
pub const MAX_BUCKETS: u32 = 1 << 10;

/// Items of both sides together that a bucket must be worth: with fewer, padding would be most of
/// the work, and a peer with little memory could make it all of the work.
const LEAST_ITEMS: u64 = 256;

/// How a run is cut; the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Number of buckets, a power of two.
    pub buckets: u32,
    /// Items of the receiver in each bucket, padding included.
    pub receiver: u64,
    /// Items of the sender in each bucket, padding included.
    pub sender: u64,
}

/// Keys of `vole` from which on the receiver's linear system grows no further: those of one bin of its
/// store.
const SYSTEM: u64 = (1 << 20) + (1 << 18);

/// Bytes that a run of `protocol` takes on the side that needs more, about: items, masks and what the
/// protocol works on, with one thread.
///
/// - RT21's polynomial takes 64·n·log₂ n bytes for n items of the receiver, and its masks some 150 bytes
///   an item of either side, as do the blinded items of classic DH. KKRT has three masks for each of the
///   sender's items, and takes some 70 bytes more for them.
/// - `vole` takes 110 bytes an item of the receiver and 90 for those of one linear system, which every
///   further thread has of its own; on the other side 90 bytes an item of the sender and 26 an item of
///   the receiver. Measured by `vesica bench` at 2^20 to 2^24 items, rounded up.
/// - Sparse extensions keep a row of 64 bytes a point, of which `spot-fast` has two for each of the
///   sender's items; `spot-low` has a tree besides, 32·n·log₂ n bytes for n items, and `sparse-okvs` has the
///   slots of the store on both sides, and on the receiver's a linear system of 140 bytes an item. Measured
///   at 2^10 and 2^20 items.
pub fn working_bytes(protocol: Protocol, receiver_size: u64, sender_size: u64) -> u64 {
    let bytes = |items: u64, each: u64| items.saturating_mul(each);
    let both = bytes(receiver_size.saturating_add(sender_size), 150);
    match protocol {
        Protocol::CompactDh | Protocol::CompactDhSh1 | Protocol::CompactDhSh2 => {
            let log = u64::from(receiver_size.max(2).next_power_of_two().trailing_zeros());
            both.saturating_add(bytes(receiver_size, 64 * log))
        }
        Protocol::Dh => both,
        Protocol::Kkrt => both.saturating_add(bytes(sender_size, 70)),
        Protocol::SparseOkvs => {
            let system = bytes(receiver_size.min(SYSTEM), 140);
            let receiver = bytes(receiver_size, 230).saturating_add(system);
            let sender = bytes(sender_size, 150).saturating_add(bytes(receiver_size, 75));
            receiver.max(sender)
        }
        Protocol::SpotFast => bytes(receiver_size, 170).max(bytes(sender_size, 280)),
        Protocol::SpotLow => {
            let largest = receiver_size.max(sender_size);
            let log = u64::from(largest.max(2).next_power_of_two().trailing_zeros());
            bytes(largest, 260 + 32 * log)
        }
        Protocol::Vole => {
            let system = bytes(receiver_size.min(SYSTEM), 90);
            let receiver = bytes(receiver_size, 110).saturating_add(system);
            let sender = bytes(sender_size, 90).saturating_add(bytes(receiver_size, 26));
            receiver.max(sender)
        }
    }
}

/// The fewest buckets with which a run stays within `memory` bytes on either side; `None` if no
/// number does.
pub fn split(
    protocol: Protocol,
    receiver_size: u64,
    sender_size: u64,
    lambda: u32,
    memory: u64,
) -> Option<Split> {
    let most = (receiver_size.saturating_add(sender_size) / LEAST_ITEMS).max(1);
    (0..=MAX_BUCKETS.ilog2())
        .map(|log| 1 << log)
        .take_while(|buckets| u64::from(*buckets) <= most)
        .map(|buckets| Split {
            buckets,
            receiver: capacity(receiver_size, buckets, lambda),
            sender: capacity(sender_size, buckets, lambda),
        })
        .find(|split| working_bytes(protocol, split.receiver, split.sender) <= memory)
}

/// Items that each of `buckets` buckets is filled up to, so that no bucket of `items` items gets
/// more, but with probability 2^-`lambda`.
///
/// A bucket's load is binomial with mean μ = items/buckets. By Chernoff's bound (Mitzenmacher and
/// Upfal, *Probability and Computing*, theorem 4.4) it is c or more with probability at most
/// exp(−(c·ln(c/μ) − c + μ)) for c > μ; a union bound over the buckets leads to the smallest c with
/// c·ln(c/μ) − c + μ ≥ (λ + log₂ buckets)·ln 2, and c − 1 items are the most.
pub fn capacity(items: u64, buckets: u32, lambda: u32) -> u64 {
    if buckets <= 1 || items == 0 {
        return items;
    }
    let mean = items as f64 / f64::from(buckets);
    let wanted = (f64::from(lambda) + f64::from(buckets).log2()) * std::f64::consts::LN_2;
    let rare = |c: u64| {
        let c = c as f64;
        c * (c / mean).ln() - c + mean >= wanted
    };
    // No bucket holds more than everything.
    let (mut below, mut enough) = (mean.floor() as u64, items.saturating_add(1));
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if rare(middle) {
            enough = middle;
        } else {
            below = middle;
        }
    }
    enough - 1
}

/// Names the bucket of every item of a run.
#[derive(Clone)]
pub struct Assignment {
    salt: [u8; 32],
    buckets: u32,
}

impl Assignment {
    /// By a salt that both sides have agreed on; `buckets` is a power of two.
    pub(crate) fn new(salt: [u8; 32], buckets: u32) -> Assignment {
        assert!(buckets.is_power_of_two() && buckets <= MAX_BUCKETS);
        Assignment { salt, buckets }
    }

    /// Number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket of the key with this digest: the first bits of its keyed BLAKE3. Takes variable
    /// time in the number of buckets alone.
    pub fn bucket(&self, digest: &[u8; 32]) -> u32 {
        if self.buckets == 1 {
            return 0;
        }
        let hash = blake3::keyed_hash(&self.salt, digest);
        let [a, b, c, d, ..] = *hash.as_bytes();
        u32::from_be_bytes([a, b, c, d]) >> (32 - self.buckets.ilog2())
    }
}

/// The session of one bucket's run, from that of the whole run.
pub(crate) fn bucket_session(session: &[u8; 32], bucket: u32) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(session);
    hasher
        .update(b"vesica 2026-11 bucket")
        .update(&bucket.to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// Fills a bucket up to `size` items with uniform strings of 256 bits, which are no item of either
/// side; `false` if there are more already.
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
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn a_bucket_holds_enough_and_not_much_more() {
        for (items, buckets, lambda) in [
            (1000u64, 8, 40),
            (4000, 8, 40),
            (1 << 20, 16, 40),
            (1 << 26, 64, 40),
            (1 << 26, 64, 64),
            (1 << 28, 1024, 128),
        ] {
            let capacity = capacity(items, buckets, lambda);
            let mean = items as f64 / f64::from(buckets);
            // The bound itself, at the size and one below it.
            let tail = |c: f64| (-(c * (c / mean).ln() - c + mean)).exp() * f64::from(buckets);
            let target = (-f64::from(lambda)).exp2();
            assert!(tail(capacity as f64 + 1.0) <= target * 1.000001);
            assert!(tail(capacity as f64) > target * 0.999999);
            // Within what a normal tail of so many bits would ask for, roughly doubled.
            let bits = f64::from(lambda) + f64::from(buckets).log2();
            let normal = mean + 2.0 * (2.0 * bits * mean).sqrt();
            assert!((capacity as f64) < normal, "{items} {buckets}: {capacity}");
        }
        assert_eq!(capacity(0, 8, 40), 0);
        assert_eq!(capacity(77, 1, 40), 77);
        // A few items may all fall into one bucket.
        assert_eq!(capacity(3, 1024, 40), 3);
        for items in 1..200 {
            assert!(capacity(items, 8, 40) <= items);
            assert!(capacity(items, 8, 40) >= items.div_ceil(8));
        }
    }

    /// The exact tail of the binomial distribution, for sizes where it can be summed.
    #[test]
    fn the_bound_covers_the_binomial_tail() {
        for (items, buckets, lambda) in [(50u64, 4u32, 10u32), (200, 8, 12), (300, 16, 20)] {
            let p = 1.0 / f64::from(buckets);
            let capacity = capacity(items, buckets, lambda);
            let mut term = (1.0 - p).powi(items as i32);
            let mut within = 0.0;
            for k in 0..=capacity {
                within += term;
                term *= (items - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
            }
            let overflow = f64::from(buckets) * (1.0 - within);
            assert!(overflow <= (-f64::from(lambda)).exp2(), "{overflow}");
        }
    }

    #[test]
    fn a_run_is_cut_until_it_fits_and_no_further_than_is_worth_it() {
        let dh = |n_r, n_s, memory| split(Protocol::Dh, n_r, n_s, 40, memory);
        assert_eq!(
            dh(1000, 2000, u64::MAX),
            Some(Split {
                buckets: 1,
                receiver: 1000,
                sender: 2000
            })
        );
        for memory in [100_000, 300_000, 1 << 20] {
            let split = dh(2000, 4000, memory).unwrap();
            let bytes = |s: &Split| working_bytes(Protocol::Dh, s.receiver, s.sender);
            assert!(bytes(&split) <= memory);
            if split.buckets > 1 {
                let fewer = split.buckets / 2;
                let larger = Split {
                    buckets: fewer,
                    receiver: capacity(2000, fewer, 40),
                    sender: capacity(4000, fewer, 40),
                };
                assert!(bytes(&larger) > memory);
            }
        }
        assert_eq!(dh(1000, 1000, 1), None);
        assert_eq!(dh(u64::MAX, u64::MAX, 1 << 40), None);
        assert_eq!(dh(0, 0, 0).map(|s| s.buckets), Some(1));
        // `vole` takes less of a large set, and its receiver more than its sender.
        assert_eq!(working_bytes(Protocol::Vole, 1000, 1000), 200_000);
        assert_eq!(working_bytes(Protocol::Vole, 0, 1000), 90_000);
        let large = 1 << 26;
        let vole = split(Protocol::Vole, large, large, 40, 2 << 30).unwrap();
        assert_eq!(vole.buckets, 4);
        // RT21 takes more for its polynomial.
        let rt = split(Protocol::CompactDh, 4000, 4000, 40, 1 << 20).unwrap();
        assert!(rt.buckets > dh(4000, 4000, 1 << 20).unwrap().buckets);
    }

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
        assert_eq!(Assignment::new([1; 32], 1).bucket(&digests[0]), 0);
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
