//! What a hash table puts into its bins.

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins {
    /// Bin b's entries are `entries[ends[b - 1]..ends[b]]`.
    ends: Vec<u32>,
    entries: Vec<Entry>,
}

impl Bins {
    /// Lays out the entries that `each` reports with their bins. It is called twice and must report the same
    /// both times; within a bin entries keep that order.
    ///
    /// # Panics
    /// If there are 2^32 entries or more.
    pub(crate) fn collect(bins: usize, mut each: impl FnMut(&mut Collector)) -> Self {
        let mut counting = Collector {
            ends: vec![0; bins + 1],
            entries: None,
        };
        each(&mut counting);
        let mut sum = 0;
        for end in &mut counting.ends {
            sum += u64::from(*end);
            *end = u32::try_from(sum).expect("less than 2^32 entries");
        }
        let mut placing = Collector {
            ends: counting.ends,
            entries: Some(vec![Entry(0); sum as usize]),
        };
        each(&mut placing);
        let Collector { mut ends, entries } = placing;
        ends.pop();
        Bins {
            ends,
            entries: entries.unwrap_or_default(),
        }
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

/// Takes entries with their bins: first it counts them, then it puts them where they go.
pub(crate) struct Collector {
    /// First, after bin b's own index, how many entries it has; then, at b, where its next entry goes, which
    /// ends up as the end of the bin.
    ends: Vec<u32>,
    entries: Option<Vec<Entry>>,
}

impl Collector {
    #[inline]
    pub(crate) fn put(&mut self, bin: u32, entry: Entry) {
        match &mut self.entries {
            None => self.ends[bin as usize + 1] += 1,
            Some(entries) => {
                let to = &mut self.ends[bin as usize];
                entries[*to as usize] = entry;
                *to += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_in_their_bins() {
        let pairs = [(2, 0), (0, 1), (2, 2), (3, 3), (2, 4)];
        let bins = Bins::collect(5, |to| {
            for (bin, item) in pairs {
                to.put(bin, Entry::new(item, item % 3));
            }
        });
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
        let none = Bins::collect(0, |_| ());
        assert!(none.is_empty() && none.fullest() == 0 && none.begin(0) == 0);
    }
}
