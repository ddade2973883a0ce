//! The distinct keys of one bucket, gathered from as many records as there are.

/// Fewest digests of a stream that are gathered at once, whatever the memory: 2 MiB of them.
pub(crate) const MIN_GATHERED: usize = 1 << 16;

/// Gathers the distinct digests among many, or whatever begins with one and follows from it: all of them, or the smallest.
pub(crate) struct Distinct<K> {
    digests: Vec<K>,
    /// Length at which repetitions are dropped again.
    compact_at: usize,
    most: usize,
    /// Greater digests are left out. `None` as long as there is room for all.
    pub(crate) limit: Option<K>,
}

impl<K: Copy + Ord> Distinct<K> {
    /// Keeps at least the `most / 2` smallest and at most `most`, or all if there are fewer.
    pub(crate) fn new(most: usize) -> Self {
        Distinct {
            digests: Vec::new(),
            compact_at: most.min(MIN_GATHERED),
            most,
            limit: None,
        }
    }

    pub(crate) fn add(&mut self, digest: &K) {
        if self.digests.len() == self.compact_at {
            self.compact();
        }
        if self.limit.is_none_or(|limit| *digest <= limit) {
            self.digests.push(*digest);
        }
    }

    fn compact(&mut self) {
        // Those of the last time are in order already, which this sort exploits.
        self.digests.sort();
        self.digests.dedup();
        if self.digests.len() > self.most / 2 && self.compact_at == self.most {
            self.digests.truncate(self.most / 2);
            self.limit = self.digests.last().copied();
        }
        let room = (2 * self.digests.len()).max(MIN_GATHERED);
        self.compact_at = room.min(self.most);
    }

    /// The digests, ascending.
    pub(crate) fn finish(mut self) -> Vec<K> {
        self.digests.sort();
        self.digests.dedup();
        self.digests.shrink_to_fit();
        self.digests
    }
}

/// The distinct keys of one bucket.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    pub(crate) stream: usize,
    pub(crate) digests: Vec<[u8; 32]>,
    pub(crate) numbers: Option<Vec<u64>>,
    index: Index,
}

impl Bucket {
    pub(crate) fn new(stream: usize, digests: Vec<[u8; 32]>) -> Bucket {
        Bucket {
            stream,
            index: Index::new(&digests),
            digests,
            numbers: None,
        }
    }

    /// The same with the number that each key is.
    pub(crate) fn with_numbers(self, numbers: Vec<u64>) -> Bucket {
        Bucket {
            numbers: Some(numbers),
            ..self
        }
    }

    /// The key of each digest itself, if keys are numbers.
    pub fn numbers(&self) -> Option<&[u64]> {
        self.numbers.as_deref()
    }

    /// The distinct digests, in ascending order.
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// Where among them a digest is.
    pub(crate) fn find(&self, digest: &[u8; 32]) -> Option<usize> {
        let range = self.index.range(digest);
        let start = range.start;
        let found = self.digests[range].binary_search(digest).ok()?;
        Some(start + found)
    }
}

/// Where digests with the same leading bits start in an ascending list. Digests are random, so few of them
/// share an entry, and a search costs two cache misses rather than one per halving.
#[derive(Clone, Debug, Default)]
struct Index {
    /// The leading eight bytes of the first digest.
    first: u64,
    /// Bits that are dropped from the distance to it.
    shift: u32,
    /// For each distance, where its digests start; the last entry is where all end.
    starts: Vec<u32>,
}

impl Index {
    fn new(digests: &[[u8; 32]]) -> Index {
        let (Some(first), Some(last)) = (digests.first(), digests.last()) else {
            return Index::default();
        };
        let first = leading(first);
        let span = leading(last) - first;
        // About one entry per digest.
        let span_bits = u64::BITS - span.leading_zeros();
        let shift = span_bits.saturating_sub(digests.len().ilog2());
        let places = (span >> shift) as usize + 1;
        let mut starts = vec![0u32; places + 1];
        for digest in digests {
            starts[((leading(digest) - first) >> shift) as usize + 1] += 1;
        }
        for place in 0..places {
            starts[place + 1] += starts[place];
        }
        Index {
            first,
            shift,
            starts,
        }
    }

    /// The range in which a digest is if it is present.
    fn range(&self, digest: &[u8; 32]) -> std::ops::Range<usize> {
        let place = leading(digest)
            .checked_sub(self.first)
            .map(|distance| (distance >> self.shift) as usize);
        match place.and_then(|place| Some((place, self.starts.get(place.checked_add(1)?)?))) {
            Some((place, end)) => self.starts[place] as usize..*end as usize,
            None => 0..0,
        }
    }
}

fn leading(digest: &[u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_digests_are_gathered_in_bounded_memory() {
        // Distinct ones in order, the same with many repetitions, one alone, and more than fit.
        for (number, range) in [
            (1000, 1000),
            (50_000, 1000),
            (50_000, 1),
            (150_000, 100_000),
        ] {
            let digest = |i: u64| *blake3::hash(&(i * i * 31 % range).to_le_bytes()).as_bytes();
            let mut digests: Vec<_> = (0..number).map(digest).collect();
            if number == range {
                digests.sort_unstable();
            }
            let mut expected = digests.clone();
            expected.sort_unstable();
            expected.dedup();
            for most in [64, 4096, usize::MAX] {
                if expected.len() / 1000 > most {
                    continue;
                }
                let (mut passes, mut found) = (0, Vec::new());
                loop {
                    let mut distinct = Distinct::new(most);
                    for digest in &digests {
                        if found.last().is_none_or(|last| digest > last) {
                            distinct.add(digest);
                        }
                        let bound = most.min(MIN_GATHERED.max(2 * expected.len()));
                        assert!(distinct.digests.len() <= bound);
                    }
                    passes += 1;
                    let more = distinct.limit.is_some();
                    found.extend(distinct.finish());
                    if !more {
                        break;
                    }
                }
                assert!(found == expected, "{number} {range} {most}");
                assert!(passes <= expected.len() / (most / 2) + 1, "{passes} passes");
            }
        }
    }

    #[test]
    fn digests_are_found_whatever_they_are() {
        let mut alike = vec![[0; 32]; 3];
        (alike[1][31], alike[2][8]) = (1, 7);
        let mut ends = vec![[0; 32], [255; 32], [128; 32]];
        ends.sort_unstable();
        let random: Vec<_> = (0..5000u32)
            .map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes())
            .collect();
        for mut digests in [Vec::new(), vec![[9; 32]], alike, ends, random.clone()] {
            digests.sort_unstable();
            let bucket = Bucket::new(0, digests.clone());
            for (i, digest) in digests.iter().enumerate() {
                assert_eq!(bucket.find(digest), Some(i));
            }
            for other in random.iter().chain(&[[1; 32], [254; 32], [0; 32]]) {
                assert_eq!(bucket.find(other), digests.binary_search(other).ok());
            }
        }
    }
}
