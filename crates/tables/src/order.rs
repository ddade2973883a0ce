//! The order of the matches that both sides of a run share.
//!
//! The place of a key is the first 16 bytes of the BLAKE3 hash of its digest under a key of the run. Keys that match
//! are numbered from 1 in ascending order of their places, so that equal matches have equal numbers on both sides. Rows
//! with the same key have the same number, one after the other as in the input.

use std::fmt::{self, Debug};

use crate::bucket::Buckets;
use crate::error::Result;
use crate::rows::RowSet;
use crate::runs::Runs;

/// Fewest rows that are put in order at once, whatever the memory.
const MIN_ROWS: usize = 1 << 16;

/// Fewest bytes of rows that are put in order at once.
const MIN_BYTES: usize = 1 << 20;

/// Bytes for each row that is put in order: an [`Entry`], and as many again before the greater half is dropped.
const ROW_BYTES: u64 = 2 * size_of::<Entry>() as u64;

/// The keys of a table with their rows, wherever they are.
#[derive(Clone, Copy)]
pub(crate) enum KeyRows<'a> {
    /// The distinct digests, and for each row the index of its own, or one beyond them all.
    Memory(&'a [[u8; 32]], &'a [u32]),
    Runs(&'a Runs),
    Buckets(&'a Buckets),
}

impl KeyRows<'_> {
    /// Hands every key to `each`, with each of its rows, in any order.
    fn each(self, mut each: impl FnMut(&[u8; 32], u32)) -> Result<()> {
        match self {
            KeyRows::Memory(digests, row_items) => {
                for (row, item) in (0..).zip(row_items) {
                    if let Some(digest) = digests.get(*item as usize) {
                        each(digest, row);
                    }
                }
                Ok(())
            }
            KeyRows::Runs(runs) => runs.each(each),
            KeyRows::Buckets(buckets) => buckets.each(each),
        }
    }
}

/// What a result in the common order is made from.
#[derive(Clone, Copy)]
pub struct CommonOrder<'a> {
    keys: KeyRows<'a>,
    key: [u8; 32],
    memory: u64,
}

/// Shows neither keys nor what orders them.
impl Debug for CommonOrder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommonOrder").finish_non_exhaustive()
    }
}

impl<'a> CommonOrder<'a> {
    /// The order of these keys under the key of a run. To put rows in order takes approximately `memory` bytes.
    pub(crate) fn new(keys: KeyRows<'a>, key: [u8; 32], memory: u64) -> CommonOrder<'a> {
        CommonOrder { keys, key, memory }
    }

    /// Approximate bytes for rows that are put in order.
    pub(crate) fn bytes_of_rows(&self) -> usize {
        let bytes = usize::try_from(self.memory / 2).unwrap_or(usize::MAX);
        bytes.max(MIN_BYTES)
    }

    /// The place of a key.
    fn place(&self, digest: &[u8; 32]) -> [u8; 16] {
        let hash = *blake3::keyed_hash(&self.key, digest).as_bytes();
        std::array::from_fn(|i| hash[i])
    }

    /// The rows after `last` in order, as many as fit into memory.
    fn after(&self, matched: &RowSet, last: Option<Entry>) -> Result<Gathered> {
        let most = usize::try_from(self.memory / 2 / ROW_BYTES).unwrap_or(usize::MAX);
        let most = most.max(MIN_ROWS);
        let mut entries: Vec<Entry> = Vec::new();
        let mut limit: Option<Entry> = None;
        self.keys.each(|digest, row| {
            if !matched.contains(row.into()) {
                return;
            }
            let place = self.place(digest);
            let entry = Entry { place, row };
            if last.is_some_and(|last| entry <= last) || limit.is_some_and(|limit| entry > limit) {
                return;
            }
            entries.push(entry);
            if entries.len() == most.saturating_mul(2) {
                entries.select_nth_unstable(most - 1);
                entries.truncate(most);
                limit = entries.last().copied();
            }
        })?;
        entries.sort_unstable();
        Ok(Gathered {
            more: limit.is_some(),
            entries,
        })
    }
}

struct Gathered {
    /// In ascending order.
    entries: Vec<Entry>,
    /// Whether others follow.
    more: bool,
}

/// A row that matches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    place: [u8; 16],
    row: u32,
}

/// Without its place, which follows from the key.
impl Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entry")
    }
}

/// A row of a result in the common order: results are sorted by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    pub(crate) row: u32,
}

/// The rows that match in the common order, in parts that fit into memory.
#[derive(Clone, Debug)]
pub(crate) struct Parts<'a> {
    order: CommonOrder<'a>,
    /// The last row of the parts so far, and its number.
    last: Option<(Entry, u32)>,
    done: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(order: CommonOrder<'a>) -> Parts<'a> {
        Parts {
            order,
            last: None,
            done: false,
        }
    }

    /// The next part, in order; `None` after the last. The first may be empty.
    pub(crate) fn next(&mut self, matched: &RowSet) -> Result<Option<Vec<Numbered>>> {
        if self.done {
            return Ok(None);
        }
        let before = self.last.map(|(entry, _)| entry);
        let Gathered { entries, more } = self.order.after(matched, before)?;
        self.done = !more;
        let mut part = Vec::with_capacity(entries.len());
        for entry in entries {
            let number = match self.last {
                None => 1,
                Some((last, number)) if last.place == entry.place => number,
                Some((_, number)) => number + 1,
            };
            self.last = Some((entry, number));
            let row = entry.row;
            part.push(Numbered { number, row });
        }
        Ok(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SourceOptions;
    use crate::source::Source;
    use crate::spool::{KeyStore, read_keys_within};
    use crate::{KeySpec, read_keys};

    /// Many rows for some keys, and one key with more rows than are put in order at once.
    fn table() -> Source {
        let key = |i: u64| match i % 4 {
            0 => 0,
            _ => i * i % 50_021,
        };
        let rows = (0..200_000).map(|i| format!("{}\n", key(i)));
        let text = format!("k\n{}", rows.collect::<String>());
        Source::from_bytes("t.csv", text.into(), SourceOptions::default()).unwrap()
    }

    fn all(order: CommonOrder<'_>, matched: &RowSet) -> (Vec<Numbered>, usize) {
        let mut parts = Parts::new(order);
        let (mut all, mut count) = (Vec::new(), 0);
        while let Some(part) = parts.next(matched).unwrap() {
            all.extend(part);
            count += 1;
        }
        (all, count)
    }

    #[test]
    fn the_order_is_that_of_the_places_wherever_keys_are_and_however_few_fit() {
        let (source, spec) = (table(), KeySpec::parse::<&str>("k", &[]).unwrap());
        let keys = read_keys(&source, &spec).unwrap();
        let matches: Vec<bool> = keys.digests().iter().map(|d| d[0] != 7).collect();
        let matched = keys.rows_of(&matches);
        let of = |memory| keys.common_order(keys.digests(), [9; 32], memory);

        // Said directly.
        let hash = |digest: &[u8; 32]| {
            let hash = blake3::keyed_hash(&[9; 32], digest);
            u128::from_be_bytes(*hash.as_bytes().first_chunk().expect("it has 32 bytes"))
        };
        let digests = keys.digests().iter().zip(&matches);
        let matching = digests.filter(|(_, matches)| **matches);
        let mut places: Vec<u128> = matching.map(|(digest, _)| hash(digest)).collect();
        places.sort_unstable();
        let number = |digest: &[u8; 32]| {
            let own = hash(digest);
            places.partition_point(|place| *place < own) as u32 + 1
        };
        let numbers: Vec<u32> = keys.digests().iter().map(number).collect();
        let mut expected: Vec<Numbered> = matched
            .iter()
            .map(|row| Numbered {
                number: numbers[keys.row_items()[row as usize] as usize],
                row: row as u32,
            })
            .collect();
        expected.sort_unstable();

        let (found, parts) = all(of(u64::MAX), &matched);
        assert!(found == expected);
        assert_eq!(
            (parts, found.last().unwrap().number),
            (1, places.len() as u32)
        );
        let (found, parts) = all(of(0), &matched);
        assert!(found == expected && parts > 1, "{parts}");
        let directory = tempfile::tempdir().unwrap();
        let store = read_keys_within(&source, &spec, &[], None, 0, directory.path()).unwrap();
        let KeyStore::Disk(mut spool) = store else {
            panic!("no memory was given");
        };
        for is_split in [false, true] {
            if is_split {
                let assign = |digests: &[[u8; 32]]| digests.iter().map(|d| d[9].into()).collect();
                spool.split(directory.path(), 256, assign).unwrap();
            }
            for memory in [0, u64::MAX] {
                let order = spool.common_order([9; 32], memory);
                assert!(all(order, &matched).0 == expected, "{is_split} {memory}");
            }
        }
        let none = RowSet::none(200_000);
        assert_eq!(all(of(0), &none), (Vec::new(), 1));
    }
}
