//! What a hash table puts into its bins.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use vesica_primitives::parallel;

/// An item in a bin, and the number of the hash function that put it there.
///
/// Protocols hash the function's number along with the item, so that an item whose functions
/// agree cannot give two equal values (PRTY19, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Entry(u32);

/// Maximum number of items of a table: an entry has 30 bits for the item's number.
pub(crate) const MAX_ITEMS: usize = 1 << 30;

impl Entry {
    /// Item number `item`, below 2^30, by function number `function`, below 4.
    pub fn new(item: u32, function: u32) -> Self {
        debug_assert!(function < 4 && (item as usize) < MAX_ITEMS);
        Entry(item << 2 | function)
    }

    /// The entry with this [`Entry::code`].
    pub(crate) fn from_code(code: u32) -> Self {
        Entry(code)
    }

    /// The entry as a number.
    pub(crate) fn code(self) -> u32 {
        self.0
    }

    /// The item's number among the keys given.
    pub fn item(self) -> usize {
        (self.0 >> 2) as usize
    }

    /// The function's number, from 0.
    pub fn function(self) -> usize {
        (self.0 & 3) as usize
    }
}

/// Bins with any number of entries, one after the other.
#[derive(Clone, PartialEq, Eq)]
pub struct Bins {
    /// Bin b's entries are `entries[ends[b - 1]..ends[b]]`.
    ends: Vec<u32>,
    entries: Vec<Entry>,
}

vesica_primitives::opaque!(Bins);

impl Bins {
    /// The bins of `items` items that have equally many each: `entry(item, j)` is in the j-th of those that `bins_of` tells,
    /// within a bin in the order of the items.
    ///
    /// # Panics
    /// If there are 2^30 items, or 2^32 entries or more.
    pub(crate) fn of_items<'a>(
        bins: usize,
        items: usize,
        bins_of: impl Fn(usize) -> &'a [u32] + Sync,
        entry: impl Fn(u32, u32) -> Entry + Sync,
    ) -> Self {
        assert!(items < MAX_ITEMS, "less than 2^30 items");
        let entry = |item, which| entry(item, which).code();
        let (ends, entries) = counting_sort(bins, items, bins_of, entry);
        let entries = entries.into_iter().map(Entry::from_code).collect();
        Bins { ends, entries }
    }

    /// Number of bins.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no bins.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entries of a bin.
    ///
    /// # Panics
    /// If there is no such bin.
    pub fn bin(&self, bin: usize) -> &[Entry] {
        &self.entries[self.begin(bin)..self.ends[bin] as usize]
    }

    /// The entries of all bins, in the order of the bins.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the entries of a bin begin among all [`entries`](Bins::entries); for the number of bins, the
    /// number of entries.
    ///
    /// # Panics
    /// If there is no such bin.
    pub fn begin(&self, bin: usize) -> usize {
        match bin {
            0 => 0,
            _ => self.ends[bin - 1] as usize,
        }
    }

    /// The bin of an entry, given its position among all [`entries`](Bins::entries); for a position beyond
    /// the last, the number of bins.
    pub fn bin_of(&self, place: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= place)
    }

    /// Entries of the fullest bin.
    pub fn fullest(&self) -> usize {
        (0..self.len())
            .map(|b| self.bin(b).len())
            .max()
            .unwrap_or(0)
    }
}

/// Sorts entries by bucket, on all threads. Each item has equally many buckets, and `entry(item, j)` goes to the j-th of
/// them. Returns where each bucket ends, and the entries of one bucket after the other, within a bucket in the order of the
/// items.
///
/// # Panics
/// If there are 2^32 items or entries or more, or a bucket is not below `buckets`.
pub(crate) fn counting_sort<'a>(
    buckets: usize,
    items: usize,
    buckets_of: impl Fn(usize) -> &'a [u32] + Sync,
    entry: impl Fn(u32, u32) -> u32 + Sync,
) -> (Vec<u32>, Vec<u32>) {
    assert!(u32::try_from(items).is_ok(), "less than 2^32 items");
    let each = if items > 0 { buckets_of(0).len() } else { 0 };
    // Each thread counts some items, and puts them where those of the threads before it end. The counts of several threads
    // take no more memory than the entries.
    let most = (items * each / buckets.max(1)).max(1);
    let share = items
        .div_ceil(rayon::current_num_threads().min(most))
        .max(1);
    let shares: Vec<_> = (0..items)
        .step_by(share)
        .map(|first| first..items.min(first + share))
        .collect();
    let count = |share: &Range<usize>| {
        let mut counts = vec![0u32; buckets];
        for item in share.clone() {
            buckets_of(item)
                .iter()
                .for_each(|b| counts[*b as usize] += 1);
        }
        counts
    };
    let mut nexts = parallel::map(shares.iter(), count);
    let mut sum = 0u32;
    let ends = (0..buckets).map(|bucket| {
        for next in &mut nexts {
            let end = sum.checked_add(next[bucket]);
            next[bucket] = sum;
            sum = end.expect("less than 2^32 entries");
        }
        sum
    });
    let ends = ends.collect();
    let entries: Vec<_> = (0..sum).map(|_| AtomicU32::new(0)).collect();
    parallel::each(shares.into_iter().zip(&mut nexts), |(share, next)| {
        for item in share {
            for (which, bucket) in (0..).zip(buckets_of(item)) {
                let to = &mut next[*bucket as usize];
                entries[*to as usize].store(entry(item as u32, which), Ordering::Relaxed);
                *to += 1;
            }
        }
    });
    let entries = entries.into_iter().map(AtomicU32::into_inner).collect();
    (ends, entries)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    #[test]
    fn entries_stand_in_their_bins() {
        let pairs = [(2, 0), (0, 1), (2, 2), (3, 3), (2, 4)];
        let bin_of = |item: usize| slice::from_ref(&pairs[item].0);
        let bins = Bins::of_items(5, 5, bin_of, |item, _| Entry::new(item, item % 3));
        assert_eq!((bins.len(), bins.fullest(), bins.is_empty()), (5, 3, false));
        for b in 0..5 {
            let expected: Vec<Entry> = pairs
                .iter()
                .filter(|(bin, _)| *bin == b)
                .map(|(_, item)| Entry::new(*item, item % 3))
                .collect();
            assert_eq!(bins.bin(b as usize), expected);
        }
        assert_eq!((bins.begin(0), bins.begin(3), bins.begin(5)), (0, 4, 5));
        assert_eq!(bins.entries().len(), 5);
        let of: Vec<usize> = (0..6).map(|place| bins.bin_of(place)).collect();
        assert_eq!(of, [0, 2, 2, 2, 3, 5]);
        assert_eq!((bins.bin(2)[1].item(), bins.bin(2)[1].function()), (2, 2));
        let none = Bins::of_items(0, 0, |_| &[], Entry::new);
        assert!(none.is_empty() && none.fullest() == 0 && none.begin(0) == 0);
    }

    #[test]
    fn bins_are_the_same_on_any_number_of_threads() {
        let bins_of: Vec<[u32; 3]> = (0..1000u32)
            .map(|i| [i % 7, i * i % 11, i * 31 % 97])
            .collect();
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let bins = pool
                .unwrap()
                .install(|| Bins::of_items(100, bins_of.len(), |item| &bins_of[item], Entry::new));
            for bin in 0..100 {
                let here = bins_of.iter().zip(0..).flat_map(|(bins, item)| {
                    let here = (0..).zip(bins).filter(move |(_, b)| **b == bin);
                    here.map(move |(function, _)| Entry::new(item, function))
                });
                assert!(here.eq(bins.bin(bin as usize).iter().copied()));
            }
        }
    }
}
