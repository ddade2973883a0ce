//! The number of bins of a two-choice table, and their capacity.

use crate::bins::MAX_ITEMS;

/// The shape of a two-choice table: a function of the number of items and of λ, the same on every machine
/// (integers only).
///
/// # Failure
/// There are m = ⌈n/λ⌉ bins for n items. Each item has two distinct ones, all pairs equally likely. By Hall's
/// theorem an assignment within capacity c exists if and only if, for every set of t bins, at most t·c items
/// have both of their bins among these t, so
///
///   P\[failure\] ≤ Σ_{1<t<m} C(m,t) · P\[Bin(n, t(t−1)/(m(m−1))) > t·c\].
///
/// PRTY19 gives c = ⌈n/m⌉ + 1, with a probability of failure of O(1/m)^(n/m) (P. Sanders, S. Egner, J. Korst,
/// *Fast Concurrent Access to Parallel Disks*, SODA 2000). The sum is 2^-68 for λ = 40 and m = 28, and falls
/// with m; but it is only 2^-33 for m = 7. So from three bins to λ/2 the capacity is higher by ⌊λ/14⌋. Tests
/// sum the bound for all n up to λ² and for some larger n. The bound is ours and nobody else has checked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Maximum number of items.
    pub items: usize,
    /// Number of bins.
    pub bins: usize,
    /// Maximum number of items of a bin.
    pub capacity: usize,
}

impl Parameters {
    /// For `items` items, with a probability of failure of at most 2^-`lambda`.
    ///
    /// # Panics
    /// If `lambda` is 0 or exceeds 128, or `items` 2^30.
    pub fn new(items: usize, lambda: u32) -> Self {
        assert!((1..=128).contains(&lambda), "1 to 128 bits of security");
        assert!(items <= MAX_ITEMS, "at most 2^30 items");
        let lambda = lambda as usize;
        let bins = items.div_ceil(lambda).max(1);
        let even = items.div_ceil(bins);
        let capacity = match bins {
            1 => items,
            2 => even + 1,
            3.. if bins < lambda.div_ceil(2) => even + 1 + lambda / 14,
            _ => even + 1,
        };
        Parameters {
            items,
            bins,
            capacity,
        }
    }

    /// Any number of bins of any capacity; the caller is responsible for the probability of failure.
    ///
    /// # Panics
    /// If there is no bin.
    pub fn with_bins(items: usize, bins: usize, capacity: usize) -> Self {
        assert!(bins > 0, "a bin");
        Parameters {
            items,
            bins,
            capacity,
        }
    }
}
