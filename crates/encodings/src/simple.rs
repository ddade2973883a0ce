//! Simple hashing, the other side of a [cuckoo](crate::cuckoo) table: every item in each of its k bins.

use vesica_primitives::block::Block;
use vesica_primitives::load;

use crate::bins::{Bins, Entry, MAX_ITEMS};
use crate::cuckoo::{Functions, MAX_HASHES, Parameters};
use vesica_primitives::scaled::{Round, Scaled};

/// The bins with all items, k entries per item; in each bin in the order of the items.
///
/// There may be any number of keys: the functions' parameters bound only the other side's.
///
/// # Panics
/// If there are 2^30 keys, or 2^32 entries or more.
pub fn table(functions: &Functions, keys: &[Block]) -> Bins {
    let Parameters { hashes, bins, .. } = functions.parameters();
    let places = functions.bins(keys);
    table_of(bins, hashes, keys.len(), |item| &places[item])
}

/// The bins with all items as [`table`] makes them, given the bins of each in the order of its first `hashes` functions;
/// an item's bins may be equal. For functions other than [`Functions`].
///
/// # Panics
/// As [`table`], or if a bin is not below `bins`.
pub fn table_of<'a>(
    bins: usize,
    hashes: usize,
    items: usize,
    places: impl Fn(usize) -> &'a [u32; MAX_HASHES] + Sync,
) -> Bins {
    Bins::of_items(bins, items, |item| &places(item)[..hashes], Entry::new)
}

/// A number of entries that the fullest bin of [`table`] exceeds with probability at most 2^-`lambda`, for
/// protocols that pad bins; the same on every machine (integers only).
///
/// An item is in a given bin with probability p = k/β, independently of others. So a bin has more than L of n
/// items with probability Σ_{i>L} C(n,i)·p^i·(1−p)^(n−i), at most the first of these terms divided by 1 − r,
/// where r is the ratio of the second to the first. The union bound over β bins must be at most 2^-λ.
///
/// # Panics
/// If `items` exceeds 2^30.
pub fn most_entries(items: usize, parameters: &Parameters, lambda: u32) -> usize {
    assert!(items <= MAX_ITEMS, "at most 2^30 items");
    bound(
        items as u64,
        parameters.hashes as u64,
        parameters.bins as u64,
        lambda,
    )
}

/// As [`most_entries`], for functions that are independent on an item and may agree: k·n entries, each in a given bin
/// with probability 1/β.
///
/// # Panics
/// If `items` exceeds 2^30.
pub fn most_entries_that_may_agree(items: usize, parameters: &Parameters, lambda: u32) -> usize {
    assert!(items <= MAX_ITEMS, "at most 2^30 items");
    let entries = (items * parameters.hashes) as u64;
    bound(entries, 1, parameters.bins as u64, lambda)
}

/// Mean load above which Hoeffding's bound replaces the sum: it is a few entries larger, of many.
const MANY: u64 = 1000;

/// The bound for n independent entries, each in a given one of `bins` bins with probability k/`bins`.
fn bound(n: u64, k: u64, bins: u64, lambda: u32) -> usize {
    if k == bins {
        return n as usize;
    }
    if n * k / bins > MANY {
        let events = bins.next_power_of_two().ilog2();
        return load::fullest(n, k, bins, lambda + events) as usize;
    }
    let rare = Scaled::power_of_two(-i64::from(lambda));
    let up = Round::Up;
    // The term of i = 0, for all bins.
    let none = Scaled::power_of_two(0)
        .times_whole(bins - k, up)
        .over(bins, up);
    let mut term = none.power(n, up).times_whole(bins, up);
    for most in 0..n {
        // Of i = most + 1.
        term = term
            .times_whole((n - most) * k, up)
            .over((most + 1) * (bins - k), up);
        let (next, this) = ((n - most - 1) * k, (most + 2) * (bins - k));
        if next < this
            && term
                .times_whole(this, up)
                .over(this - next, up)
                .at_most(rare)
        {
            return most as usize;
        }
    }
    n as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_primitives::block::Prg;

    fn keys(seed: Block, count: usize) -> Vec<Block> {
        let mut keys = vec![0; count];
        Prg::new(seed).fill(&mut keys);
        keys
    }

    #[test]
    fn every_item_is_in_each_of_its_bins() {
        for hashes in 2..=4 {
            for count in [0, 1, 5, 1300] {
                let parameters = Parameters::with_bins(7, hashes, 100);
                let functions = Functions::new(parameters, &[3; 32]);
                let keys = keys(1, count);
                let table = table(&functions, &keys);
                assert_eq!((table.len(), table.entries().len()), (100, hashes * count));
                let places = functions.bins(&keys);
                for bin in 0..100 {
                    let entries = table.bin(bin);
                    assert!(entries.is_sorted());
                    for entry in entries {
                        assert_eq!(places[entry.item()][entry.function()] as usize, bin);
                    }
                }
            }
        }
    }

    /// The exact tail, summed; and that the bound is not one entry too large.
    #[test]
    fn the_fullest_bin_is_bounded() {
        for (items, hashes, bins, lambda) in [
            (100, 3, 127, 10),
            (1000, 3, 1270, 40),
            (1000, 2, 40, 40),
            (64, 4, 300, 20),
            (5000, 3, 50, 64),
        ] {
            let parameters = Parameters::with_bins(items, hashes, bins);
            let most = most_entries(items, &parameters, lambda);
            let p = hashes as f64 / bins as f64;
            let tail = |above: usize| {
                let mut log = (items as f64) * (1.0 - p).ln();
                let mut sum = 0.0;
                for i in 0..=items {
                    if i > above {
                        sum += log.exp();
                    }
                    log += ((items - i) as f64 / (i + 1) as f64 * p / (1.0 - p)).ln();
                }
                sum * bins as f64
            };
            let rare = (-f64::from(lambda)).exp2();
            assert!(tail(most) <= rare * 1.000_001, "{items} {most}");
            assert!(tail(most - 1) > rare * 0.8, "{items} {most}");
            let simpler = load::fullest(
                items as u64,
                hashes as u64,
                bins as u64,
                lambda + bins.next_power_of_two().ilog2(),
            ) as usize;
            assert!(
                (most..=most + most / 10 + 3).contains(&simpler),
                "{most} {simpler}"
            );
        }
        // One item against very many.
        let few = Parameters::that_may_agree(1, 40).unwrap();
        let most = most_entries_that_may_agree(1 << 24, &few, 40);
        let mean = 3.0 * f64::from(1 << 24) / few.bins as f64;
        assert!((1.0..1.02).contains(&(most as f64 / mean)), "{most}");
        assert_eq!(most_entries(0, &Parameters::new(0, 3, 40), 40), 0);
        assert_eq!(most_entries(9, &Parameters::new(1, 3, 40), 40), 9);
        // KBM23, table II, has 28, 28, 29 and 29, for functions that may agree on an item.
        for (log, most) in [(20, 26), (22, 26), (24, 27), (26, 27)] {
            let n: usize = 1 << log;
            let parameters = Parameters::with_bins(n, 3, (n * 127).div_ceil(100));
            assert_eq!(most_entries(n, &parameters, 40), most);
            assert_eq!(most_entries_that_may_agree(n, &parameters, 40), most);
        }
        let one = Parameters::with_bins(0, 3, 1000);
        assert_eq!(most_entries_that_may_agree(0, &one, 40), 0);
    }

    /// One in about sixteen tables may exceed a bound made for λ = 4.
    #[test]
    fn loads_keep_to_the_bound() {
        let parameters = Parameters::with_bins(500, 3, 635);
        let most = most_entries(500, &parameters, 4);
        let above = (0..1000)
            .filter(|seed| {
                let functions = Functions::new(parameters, &[1; 32]);
                table(&functions, &keys(*seed, 500)).fullest() > most
            })
            .count();
        assert!((3..90).contains(&above), "{above}");
    }
}
