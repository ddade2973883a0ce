//! How many buckets a run has, and how large each is.

use vesica_primitives::load::fullest;
use vesica_psi::lambda_each;

/// Maximum number of buckets of a run.
pub const MAX_BUCKETS: u32 = 1 << 10;

/// Number of runs over which together the overflow of a bucket is as improbable as λ says; a power of two.
///
/// A peer that opens its nonce last can hang up once it knows where the items of a guessed set would fall,
/// and wait for this side's user to start again.
pub const ATTEMPTS: u32 = 1 << 10;

/// Maximum number of items of a side in a run, which takes them in buckets if they are more than [`MAX_BUCKET_ITEMS`].
pub const MAX_ITEMS: u64 = 1 << 31;

/// Maximum number of items of a side in a bucket, whatever the protocol, and of a peer unless more are allowed.
pub const MAX_BUCKET_ITEMS: u64 = 1 << 28;

/// Minimum number of items of both sides together in a bucket: with fewer, padding would be most of the work,
/// and a peer with little memory could make it all of the work.
const MIN_ITEMS: u64 = 256;

/// How a run is cut into buckets; the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Number of buckets, a power of two.
    pub buckets: u32,
    /// Items of the receiver in each bucket, padding included.
    pub receiver: u64,
    /// Items of the sender in each bucket, padding included.
    pub sender: u64,
}

/// The fewest buckets with which a run stays within `memory` bytes on either side, and within `most_items` items of either
/// side in a bucket; `None` if no number does.
/// `working_bytes` is what the run of a bucket takes, by the sizes of the receiver's and the sender's items in it and its
/// bits of statistical security. Of 2^-λ, a quarter is for bucket overflow on each side, and half for the protocol in
/// all buckets.
pub fn split(
    [receiver_size, sender_size]: [u64; 2],
    lambda: u32,
    memory: u64,
    most_items: u64,
    working_bytes: impl Fn([u64; 2], u32) -> u64,
) -> Option<Split> {
    splits(
        [receiver_size, sender_size],
        lambda,
        most_items,
        working_bytes,
    )
    .find_map(|(split, bytes)| (bytes <= memory).then_some(split))
}

/// The least memory in bytes with which [`split`] finds a number of buckets.
pub fn least_memory(
    sizes: [u64; 2],
    lambda: u32,
    most_items: u64,
    working_bytes: impl Fn([u64; 2], u32) -> u64,
) -> Option<u64> {
    let bytes = splits(sizes, lambda, most_items, working_bytes).map(|(_, bytes)| bytes);
    bytes.min()
}

/// The ways to cut a run, with rising numbers of buckets, and the bytes that a bucket then takes.
pub(crate) fn splits(
    [receiver_size, sender_size]: [u64; 2],
    lambda: u32,
    most_items: u64,
    working_bytes: impl Fn([u64; 2], u32) -> u64,
) -> impl Iterator<Item = (Split, u64)> {
    let most = (receiver_size.saturating_add(sender_size) / MIN_ITEMS).max(1);
    (0..=MAX_BUCKETS.ilog2())
        .map(|log| 1 << log)
        .take_while(move |buckets| u64::from(*buckets) <= most)
        .map(move |buckets| {
            let capacity = |items| capacity(items, buckets, lambda_each(lambda, 4));
            Split {
                buckets,
                receiver: capacity(receiver_size),
                sender: capacity(sender_size),
            }
        })
        .filter(move |split| split.receiver.max(split.sender) <= most_items)
        .map(move |split| {
            let lambda = lambda_of_bucket(lambda, split.buckets);
            (split, working_bytes([split.receiver, split.sender], lambda))
        })
}

/// Bits of statistical security of the run over each of `buckets` buckets, in a run with `lambda` bits.
pub(crate) fn lambda_of_bucket(lambda: u32, buckets: u32) -> u32 {
    match buckets {
        1 => lambda,
        _ => lambda_each(lambda_each(lambda, 2), buckets),
    }
}

/// The most items of a side where a protocol takes at most `max_items` in a bucket: one that takes the most goes on in
/// several.
pub fn most_items(max_items: u64) -> u64 {
    match max_items >= MAX_BUCKET_ITEMS {
        true => MAX_ITEMS,
        false => max_items,
    }
}

/// Bits of statistical security of each of so many attempts at each of `buckets` buckets.
pub fn lambda_of_attempt(lambda: u32, buckets: u32, attempts: u32) -> u32 {
    lambda_each(lambda_of_bucket(lambda, buckets), attempts)
}

/// Number of items to which each of `buckets` buckets is padded. The probability that, in any of [`ATTEMPTS`]
/// runs, some bucket of `items` items gets more is at most 2^-`lambda`.
///
/// A bucket's load is binomial with p = 1/buckets. Hoeffding's bound, and a union bound over buckets and attempts, give
/// the result; it is the same on every machine, and never too small.
pub fn capacity(items: u64, buckets: u32, lambda: u32) -> u64 {
    // What follows does not overflow below 2^48. No run is that large, and no bucket holds more than all
    // items.
    if buckets <= 1 || items == 0 || items >= 1 << 48 {
        return items;
    }
    let bits = lambda + ATTEMPTS.ilog2() + buckets.ilog2();
    fullest(items, 1, buckets.into(), bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    const CASES: [(u64, u32, u32); 12] = [
        (1000, 8, 40),
        (4000, 8, 40),
        (4000, 2, 40),
        (5000, 2, 64),
        (1 << 20, 2, 40),
        (1 << 20, 16, 40),
        (1 << 26, 64, 40),
        (1 << 26, 64, 64),
        (100_000_000, 1024, 40),
        (1 << 28, 1024, 128),
        (1 << 32, 4, 40),
        (1 << 32, 1024, 128),
    ];

    /// The exponent of two that [`capacity`] has to reach.
    fn bits(buckets: u32, lambda: u32) -> f64 {
        f64::from(lambda) + f64::from(ATTEMPTS).log2() + f64::from(buckets).log2()
    }

    /// The smallest c > μ from which on `bits` of a tail bound are at least those wanted; less one.
    fn by_floats(items: u64, buckets: u32, lambda: u32, bound: impl Fn(f64, f64) -> f64) -> u64 {
        let mean = items as f64 / f64::from(buckets);
        let (mut below, mut enough) = (mean as u64, items + 1);
        while enough - below > 1 {
            let middle = below + (enough - below) / 2;
            match bound(middle as f64, mean) / std::f64::consts::LN_2 >= bits(buckets, lambda) {
                true => enough = middle,
                false => below = middle,
            }
        }
        enough - 1
    }

    #[test]
    fn capacities_are_those_of_the_bound_in_floating_point() {
        for (items, buckets, lambda) in CASES {
            let n = items as f64;
            // Logarithms of 1 + x, or whole items would be lost in differences of large numbers.
            let ours = |c: f64, mean: f64| {
                -c * ((mean - c) / c).ln_1p() - (n - c) * ((c - mean) / (n - c)).ln_1p()
            };
            let found = capacity(items, buckets, lambda);
            let expected = by_floats(items, buckets, lambda, ours);
            assert!(
                found.abs_diff(expected) <= 1,
                "{items} {buckets}: {found} {expected}"
            );
            // The bound that versions before had is weaker: c·ln(c/μ) − c + μ.
            let poisson = |c: f64, mean: f64| -c * ((mean - c) / c).ln_1p() - c + mean;
            let before = by_floats(items, buckets, lambda, poisson);
            assert!(found <= before + 1, "{items} {buckets}: {found} {before}");
            let mean = n / f64::from(buckets);
            let normal = mean + 2.0 * (2.0 * bits(buckets, lambda) * mean).sqrt();
            assert!((found as f64) < normal, "{items} {buckets}: {found}");
        }
    }

    /// Both sides compute them, so that they must not change within a version of the handshake.
    #[test]
    fn capacities_are_known() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../../vectors/buckets.json")).unwrap();
        let vectors = vectors["capacities"].as_array().unwrap();
        for vector in vectors {
            let number = |name: &str| vector[name].as_u64().unwrap();
            let (buckets, lambda) = (number("buckets") as u32, number("lambda") as u32);
            assert_eq!(
                capacity(number("items"), buckets, lambda),
                number("capacity"),
                "{vector}"
            );
        }
        assert!(vectors.len() > CASES.len());
    }

    #[test]
    fn capacities_of_small_and_of_impossible_sets() {
        assert_eq!(capacity(0, 8, 40), 0);
        assert_eq!(capacity(77, 1, 40), 77);
        // A few items may all fall into one bucket.
        assert_eq!(capacity(3, 1024, 40), 3);
        for items in 1..200 {
            assert!(capacity(items, 8, 40) <= items);
            assert!(capacity(items, 8, 40) >= items.div_ceil(8));
        }
        for items in [(1 << 48) - 1, 1 << 48, u64::MAX] {
            for buckets in [2, 1024] {
                let found = capacity(items, buckets, 128);
                assert!(found <= items && found >= items / u64::from(buckets));
            }
        }
    }

    /// The exact tail of the binomial distribution, for sizes where it can be summed.
    #[test]
    fn the_bound_covers_the_binomial_tail() {
        for (items, buckets, lambda) in [
            (50u64, 4u32, 1u32),
            (200, 8, 4),
            (300, 16, 12),
            (400, 2, 10),
        ] {
            let p = 1.0 / f64::from(buckets);
            let capacity = capacity(items, buckets, lambda);
            let mut term = (1.0 - p).powi(items as i32);
            let mut within = 0.0;
            for k in 0..=capacity {
                within += term;
                term *= (items - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
            }
            let overflow = f64::from(buckets) * (1.0 - within) * f64::from(ATTEMPTS);
            assert!(overflow <= (-f64::from(lambda)).exp2(), "{overflow}");
            assert!(capacity < items, "the bound says something");
        }
    }

    #[test]
    fn a_run_is_cut_until_it_fits_and_no_further_than_is_worth_it() {
        let spec = |name| Registry::standard().get(name).unwrap().spec();
        let working_bytes =
            |name| move |sizes, lambda| spec(name).working_bytes_of(sizes, None, lambda);
        let split_of = |name, sizes, memory| split(sizes, 40, memory, 1 << 28, working_bytes(name));
        let dh = |n_r, n_s, memory| split_of("dh", [n_r, n_s], memory);
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
            let bytes = |s: &Split| (spec("dh").working_bytes)(s.receiver, s.sender);
            assert!(bytes(&split) <= memory);
            if split.buckets > 1 {
                let fewer = split.buckets / 2;
                let larger = Split {
                    buckets: fewer,
                    receiver: capacity(2000, fewer, 42),
                    sender: capacity(4000, fewer, 42),
                };
                assert!(bytes(&larger) > memory);
            }
        }
        assert_eq!(dh(1000, 1000, 1), None);
        let least = least_memory([1000; 2], 40, 1 << 28, working_bytes("dh")).unwrap();
        assert!(dh(1000, 1000, least).is_some() && dh(1000, 1000, least - 1).is_none());
        assert_eq!(dh(u64::MAX, u64::MAX, 1 << 40), None);
        assert_eq!(dh(0, 0, 0).map(|s| s.buckets), Some(1));
        // `vole` takes less of a large set, and its receiver more than its sender.
        assert_eq!((spec("vole").working_bytes)(1000, 1000), 200_000);
        assert_eq!((spec("vole").working_bytes)(0, 1000), 90_000);
        let large = 1 << 26;
        let vole = split_of("vole", [large; 2], 2 << 30).unwrap();
        assert_eq!(vole.buckets, 4);
        // Sets that are too large for one bucket, in any memory, and the largest.
        let larger = split_of("vole", [1 << 29, 100], u64::MAX).unwrap();
        assert_eq!(larger.buckets, 4);
        let largest = split_of("vole", [MAX_ITEMS; 2], 5 << 30).unwrap();
        assert_eq!(largest.buckets, 64);
        // RT21 takes more for its polynomial.
        let rt = split_of("compact-dh", [4000; 2], 1 << 20).unwrap();
        assert!(rt.buckets > dh(4000, 4000, 1 << 20).unwrap().buckets);
    }
}
