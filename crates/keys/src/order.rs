//! The order of the matches that both sides of a run share.
//!
//! The place of a key is the first 16 bytes of the BLAKE3 hash of its digest under a key of the run. Keys that match
//! are numbered from 1 in ascending order of their places, so that equal matches have equal numbers on both sides. Rows
//! with the same key have the same number, one after the other as in the input.

use std::fmt::{self, Debug};

use crate::error::Result;
use crate::rows::RowSet;
use crate::store::KeyStore;

/// Fewest rows that are put in order at once, whatever the memory.
const MIN_ROWS: usize = 1 << 16;

/// Fewest bytes of rows that are put in order at once.
const MIN_BYTES: usize = 1 << 20;

/// Bytes for each row that is put in order: an [`Entry`], and as many again before the greater half is dropped.
const ROW_BYTES: u64 = 2 * size_of::<Entry>() as u64;

/// What a result in the common order is made from.
#[derive(Clone, Copy)]
pub struct CommonOrder<'a> {
    keys: &'a KeyStore,
    key: [u8; 32],
    memory: u64,
}

/// Shows neither keys nor what orders them.
impl Debug for CommonOrder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommonOrder").finish_non_exhaustive()
    }
}

impl KeyStore {
    /// The order that the rows of matching keys have on both sides, under the key of a run, of keys that were not given
    /// away. To put rows in order takes approximately `memory` bytes; what does not fit takes more passes over the table.
    pub fn common_order(&self, key: [u8; 32], memory: u64) -> CommonOrder<'_> {
        CommonOrder {
            keys: self,
            key,
            memory,
        }
    }
}

impl<'a> CommonOrder<'a> {
    /// Approximate bytes for rows that are put in order.
    pub fn bytes_of_rows(&self) -> usize {
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
pub struct Numbered {
    /// The number of its key among those that match, from 1 on.
    pub number: u32,
    /// The row, counted from 0.
    pub row: u32,
}

/// The rows that match in the common order, in parts that fit into memory.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    order: CommonOrder<'a>,
    /// The last row of the parts so far, and its number.
    last: Option<(Entry, u32)>,
    done: bool,
}

impl<'a> Parts<'a> {
    /// All of them.
    pub fn new(order: CommonOrder<'a>) -> Parts<'a> {
        Parts {
            order,
            last: None,
            done: false,
        }
    }

    /// The next part, in order; `None` after the last. The first may be empty.
    ///
    /// # Errors
    /// Keys on disk cannot be read back.
    pub fn next(&mut self, matched: &RowSet) -> Result<Option<Vec<Numbered>>> {
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
    use crate::gather::{Gather, Record};
    use crate::layout::Layout;
    use crate::store::NO_ITEM;

    /// Many rows for some keys, and one key with more rows than are put in order at once.
    fn keys(memory: u64) -> KeyStore {
        let mut gather = Gather::new(Layout::default(), memory, &std::env::temp_dir()).unwrap();
        for i in 0..200_000u64 {
            let key = match i % 4 {
                0 => 0,
                _ => i * i % 50_021,
            };
            let digest = *blake3::hash(&key.to_le_bytes()).as_bytes();
            let record = (i % 9 != 7).then(|| Record::of(&digest));
            gather.add(record.as_ref()).unwrap();
        }
        gather.finish().unwrap()
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
        let keys_in_memory = keys(u64::MAX);
        let (block, row_items) = keys_in_memory.gathered().unwrap();
        let matches: Vec<bool> = block.digests.iter().map(|d| d[0] != 7).collect();
        let matched = keys_in_memory.rows_of(&matches);
        let of = |memory| keys_in_memory.common_order([9; 32], memory);

        // Said directly.
        let hash = |digest: &[u8; 32]| {
            let hash = blake3::keyed_hash(&[9; 32], digest);
            u128::from_be_bytes(*hash.as_bytes().first_chunk().expect("it has 32 bytes"))
        };
        let digests = block.digests.iter().zip(&matches);
        let matching = digests.filter(|(_, matches)| **matches);
        let mut places: Vec<u128> = matching.map(|(digest, _)| hash(digest)).collect();
        places.sort_unstable();
        let number = |digest: &[u8; 32]| {
            let own = hash(digest);
            places.partition_point(|place| *place < own) as u32 + 1
        };
        let numbers: Vec<u32> = block.digests.iter().map(number).collect();
        let mut expected: Vec<Numbered> = matched
            .iter()
            .map(|row| Numbered {
                number: numbers[row_items[row as usize] as usize],
                row: row as u32,
            })
            .collect();
        expected.sort_unstable();
        assert!(row_items.contains(&NO_ITEM));

        let (found, parts) = all(of(u64::MAX), &matched);
        assert!(found == expected);
        assert_eq!(
            (parts, found.last().unwrap().number),
            (1, places.len() as u32)
        );
        let (found, parts) = all(of(0), &matched);
        assert!(found == expected && parts > 1, "{parts}");
        let directory = tempfile::tempdir().unwrap();
        for given in [1 << 20, u64::MAX] {
            let mut keys = keys(given);
            for is_split in [false, true] {
                if is_split {
                    let assign =
                        |digests: &[[u8; 32]]| digests.iter().map(|d| d[9].into()).collect();
                    keys.split(directory.path(), 256, assign).unwrap();
                }
                for memory in [0, u64::MAX] {
                    let order = keys.common_order([9; 32], memory);
                    assert!(all(order, &matched).0 == expected, "{is_split} {memory}");
                }
            }
        }
        let none = RowSet::none(200_000);
        assert_eq!(all(of(0), &none), (Vec::new(), 1));
    }
}
