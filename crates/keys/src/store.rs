//! The keys of a table as one store: in memory, or on disk once they did not fit there.
//!
//! Only digests, what goes with them and row numbers go to disk, never rows, and they go into [blobs](crate::Blob):
//! encrypted, without a name. Whoever gets hold of the disk cannot test guesses. For a row that has a key of its own that is
//! 76 bytes written and 108 read, from the first pass to its mark: 36 for the run that it is in, 32 read again to count
//! distinct keys, and 36 to split them, which writes 40 that are read as 32 of the bucket and 8 of its rows. What has been
//! split is given back to the disk.
//!
//! This is the only place that knows where keys are.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::block::KeyBlock;
use crate::bucket_file::BucketFile;
use crate::buckets::Buckets;
use crate::by_row::{Kept, Ranges};
use crate::error::{Error, Result};
use crate::groups::KeysOfGroups;
use crate::identity::{RowKeys, with_values};
use crate::mix::index;
use crate::repeated::{Frequent, Repeated, Top, occurrences};
use crate::rows::RowSet;
use crate::runs::{Merged, Runs};

/// In the place of the key of a row that has none.
pub const NO_ITEM: u32 = u32::MAX;

/// Keys that a thread puts into buckets at once.
const KEYS_AT_ONCE: usize = 1 << 12;

/// What was counted while rows came together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All rows.
    pub rows: u64,
    /// Rows with a key.
    pub with_key: u64,
    /// Distinct keys.
    pub items: u64,
    /// The keys that very many rows have.
    pub frequent: Frequent,
}

/// The keys of a table with what goes with them, and the way back to its rows.
pub struct KeyStore {
    place: Place,
    counts: Counts,
    /// A hash of the values of all rows, if there are some.
    values: Option<[u8; 32]>,
    /// How many keys are in each group.
    groups: KeysOfGroups,
    /// What was handed over for keys, and bytes of each label of it.
    kept: Option<(Kept, usize)>,
    /// Labels of it that are none.
    unreadable: usize,
}

/// Where keys are.
enum Place {
    Memory(InMemory),
    /// On disk, with a hash of the keys of all rows: first sorted, and then in buckets.
    Sorted(Runs, [u8; 32]),
    Split(Buckets, [u8; 32]),
}

/// Keys in memory: 32 bytes for each, 8 more if keys are numbers, and 4 for each row.
struct InMemory {
    /// Those of one bucket after the other's.
    keys: KeyBlock<'static>,
    /// Where those of each bucket end.
    ends: Vec<usize>,
    /// For each row the index of its key, or [`NO_ITEM`].
    row_items: Vec<u32>,
    /// The first row of each key, once it was asked for.
    first_rows: OnceLock<Vec<u32>>,
}

/// Without the keys, all that goes with them, and what guesses at all of them could be tested with.
impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyStore")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl InMemory {
    /// The indices of the keys of a bucket.
    fn bucket(&self, bucket: usize) -> Range<usize> {
        let start = bucket.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[bucket]
    }

    /// Puts the keys of a bucket next to each other.
    fn split(
        &mut self,
        buckets: usize,
        assign: impl Fn(&[[u8; 32]]) -> Vec<u32> + Sync,
    ) -> Result<()> {
        self.first_rows = OnceLock::new();
        if buckets == 1 {
            self.ends = vec![self.keys.len()];
            return Ok(());
        }
        let parts = self.keys.digests.par_chunks(KEYS_AT_ONCE);
        let mut places: Vec<u32> = parts.flat_map_iter(&assign).collect();
        if places.len() < self.keys.len() {
            return Err(Error::Stopped);
        }
        let mut starts = vec![0; buckets];
        for bucket in &places {
            starts[*bucket as usize] += 1;
        }
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        for place in &mut places {
            let next = &mut starts[*place as usize];
            *place = *next as u32;
            *next += 1;
        }
        self.keys.permute(&places);
        self.ends = starts;
        self.row_items.par_iter_mut().for_each(|item| {
            // NO_ITEM is beyond every index.
            if let Some(place) = places.get(*item as usize) {
                *item = *place;
            }
        });
        Ok(())
    }

    /// The first row of each key of a bucket.
    fn first_rows(&self, bucket: usize) -> &[u32] {
        let of_all = self.first_rows.get_or_init(|| {
            let keys = self.ends.last().copied().unwrap_or(0);
            let mut first = vec![NO_ITEM; keys];
            for (row, item) in self.row_items.iter().enumerate().rev() {
                if let Some(first) = first.get_mut(*item as usize) {
                    *first = row as u32;
                }
            }
            first
        });
        &of_all[self.bucket(bucket)]
    }

    /// The place of a row's key in this bucket; out of it if that is in another, or there is none.
    fn place(&self, row: usize, of: &Range<usize>) -> usize {
        self.row_items[row].wrapping_sub(of.start as u32) as usize
    }
}

fn no_buckets<T>() -> Result<T> {
    Err(Error::Usage("the keys are in no buckets yet"))
}

impl KeyStore {
    pub(crate) fn in_memory(
        keys: KeyBlock<'static>,
        row_items: Vec<u32>,
        counts: Counts,
        values: Option<[u8; 32]>,
    ) -> KeyStore {
        let ends = vec![keys.len()];
        let keys = InMemory {
            keys,
            ends,
            row_items,
            first_rows: OnceLock::new(),
        };
        KeyStore::new(Place::Memory(keys), counts, values)
    }

    pub(crate) fn on_disk(
        runs: Runs,
        counts: Counts,
        keys: [u8; 32],
        values: Option<[u8; 32]>,
    ) -> KeyStore {
        KeyStore::new(Place::Sorted(runs, keys), counts, values)
    }

    fn new(place: Place, counts: Counts, values: Option<[u8; 32]>) -> KeyStore {
        KeyStore {
            place,
            counts,
            values,
            groups: KeysOfGroups::default(),
            kept: None,
            unreadable: 0,
        }
    }

    /// The same with how many keys are in each group.
    pub(crate) fn with_groups(self, groups: KeysOfGroups) -> KeyStore {
        KeyStore { groups, ..self }
    }

    /// The label of each group, without zeros at its end, and how many keys it has. Empty where
    /// [labels do not say groups](crate::Labels::Group).
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let found = self.groups.found().iter();
        found.map(|(label, keys)| (&label[..], *keys))
    }

    /// Keys that are known to be distinct, one in each row, in memory.
    ///
    /// # Errors
    /// Usage: there is not one number for each, or not equally many values or bytes of a label. More than 2^32 - 1 keys.
    pub fn of_distinct(keys: KeyBlock<'_>) -> Result<KeyStore> {
        keys.check()?;
        let Some(items) = u32::try_from(keys.len()).ok().filter(|n| *n < NO_ITEM) else {
            let limit = u64::from(NO_ITEM);
            return Err(Error::TooManyRows { limit });
        };
        let counts = Counts {
            rows: items.into(),
            with_key: items.into(),
            items: items.into(),
            frequent: Frequent::default(),
        };
        let row_items = (0..items).collect();
        let keys = keys.into_owned();
        Ok(KeyStore::in_memory(keys, row_items, counts, None))
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many distinct keys there are.
    fn items(&self) -> usize {
        self.counts.items as usize
    }

    /// Whether they are in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    /// The keys in memory, unless they are on disk, in several buckets or given away, in the order of their first rows; and
    /// for each row the index of its key, or [`NO_ITEM`].
    pub fn gathered(&self) -> Option<(&KeyBlock<'static>, &[u32])> {
        match &self.place {
            Place::Memory(memory) if memory.ends == [memory.keys.len()] => {
                Some((&memory.keys, &memory.row_items))
            }
            _ => None,
        }
    }

    /// The digests of keys that are in memory, in the order of their first rows.
    ///
    /// # Panics
    /// If they are elsewhere, in several buckets or given away.
    pub fn digests(&self) -> &[[u8; 32]] {
        let (keys, _) = self.gathered().expect("the keys are in memory");
        &keys.digests
    }

    /// For each row the index of its key among these, or [`NO_ITEM`].
    ///
    /// # Panics
    /// As [`KeyStore::digests`].
    pub fn row_items(&self) -> &[u32] {
        let (_, row_items) = self.gathered().expect("the keys are in memory");
        row_items
    }

    /// One entry for each key, `true` at the given indices: what [`KeyStore::rows_of`] takes.
    ///
    /// # Errors
    /// Usage: an index out of range.
    pub fn matched(&self, items: impl IntoIterator<Item = usize>) -> Result<Vec<bool>> {
        let mut matched = vec![false; self.items()];
        for item in items {
            let entry = matched.get_mut(item);
            *entry.ok_or(Error::Usage("there is no such item"))? = true;
        }
        Ok(matched)
    }

    /// A hash of the key of every row, in order, and of its values: equal for two tables whose rows have the same, wherever
    /// their keys are.
    ///
    /// # Panics
    /// If the keys have been given away.
    pub fn identity(&self) -> [u8; 32] {
        let keys = match &self.place {
            Place::Memory(memory) => {
                assert_eq!(memory.keys.len(), self.items(), "the keys are here");
                let mut rows = RowKeys::new();
                rows.add(&memory.row_items, &memory.keys.digests);
                rows.finish()
            }
            Place::Sorted(_, keys) | Place::Split(_, keys) => *keys,
        };
        with_values(keys, self.values)
    }

    /// The keys with the most rows, at most `most` of them, each with two rows or more.
    ///
    /// # Errors
    /// The keys cannot be read back. Usage: they are on disk and split.
    pub fn most_repeated(&self, most: usize) -> Result<Vec<Repeated>> {
        let mut top = Top::new(most);
        match &self.place {
            _ if self.counts.with_key == self.counts.items => {}
            Place::Memory(memory) => top.add(&occurrences(self.items(), &memory.row_items)),
            Place::Sorted(runs, _) => {
                let mut merged = Merged::default();
                for part in runs.parts() {
                    let merged = runs.merge(&part, &mut merged)?;
                    top.add(&runs.occurrences(&part, merged)?);
                }
            }
            Place::Split(..) => return Err(Error::Usage("the keys are in buckets already")),
        }
        Ok(top.keys)
    }

    /// Hands over the digest of every distinct key.
    ///
    /// # Errors
    /// The keys cannot be read back.
    pub fn each_digest(&self, mut each: impl FnMut(&[u8; 32])) -> Result<()> {
        match &self.place {
            Place::Memory(memory) => memory.keys.digests.iter().for_each(each),
            Place::Sorted(runs, _) => {
                let mut merged = Merged::default();
                for part in runs.parts() {
                    let merged = runs.merge(&part, &mut merged)?;
                    for same in merged.distinct() {
                        each(&merged.digests()[index(same[0])]);
                    }
                }
            }
            Place::Split(buckets, _) => {
                for bucket in 0..buckets.len() {
                    let keys = buckets.load(bucket)?;
                    keys.digests.iter().for_each(&mut each);
                }
            }
        }
        Ok(())
    }

    /// How many buckets the keys are in; 0 if they are on disk and not split.
    pub fn buckets(&self) -> usize {
        match &self.place {
            Place::Memory(memory) => memory.ends.len(),
            Place::Sorted(..) => 0,
            Place::Split(buckets, _) => buckets.len(),
        }
    }

    /// Puts every key into the one of `buckets` buckets that `assign` names for its digest: it is given some, and returns as
    /// many numbers, or none to stop. Keys on disk go to another file in `directory`, once only, also if that fails. Keys in
    /// memory are in one bucket before.
    ///
    /// # Errors
    /// The files cannot be written or read back. [`Error::Stopped`]. Usage: the keys are on disk and split already, or were
    /// given away.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn split(
        &mut self,
        directory: &Path,
        buckets: usize,
        assign: impl Fn(&[[u8; 32]]) -> Vec<u32> + Sync,
    ) -> Result<()> {
        let items = self.items();
        (self.kept, self.unreadable) = (None, 0);
        match &mut self.place {
            Place::Memory(memory) => {
                check_here(memory, items)?;
                memory.split(buckets, assign)?;
            }
            Place::Sorted(runs, keys) => {
                let split = Buckets::split(runs, directory, buckets, assign)?;
                self.place = Place::Split(split, *keys);
            }
            Place::Split(..) => return Err(Error::Usage("the keys are in buckets already")),
        }
        Ok(())
    }

    /// The keys of one bucket: 32 bytes of memory for each, or 40, and those of what goes with them, however many rows have
    /// them. If they are all that is in memory and the store need not `keep` them, they are given away, and with them what
    /// only keys are good for: rows can still be marked.
    ///
    /// # Errors
    /// The keys cannot be read back. Usage: they are on disk and not split, or were given away.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn load(&mut self, bucket: usize, keep: bool) -> Result<KeyBlock<'_>> {
        let items = self.items();
        match &mut self.place {
            Place::Memory(memory) => {
                check_here(memory, items)?;
                Ok(match !keep && memory.ends.len() == 1 {
                    true => std::mem::take(&mut memory.keys),
                    false => memory.keys.lend(memory.bucket(bucket)),
                })
            }
            Place::Sorted(..) => no_buckets(),
            Place::Split(buckets, _) => buckets.load(bucket),
        }
    }

    /// Chooses exactly the rows of a bucket whose key matched: [sets](RowSet::set) each to the entry of its key in `matched`,
    /// which has one entry for each key of [`KeyStore::load`]. Rows of other buckets, and rows without a key, stay as they
    /// are.
    ///
    /// The time depends only on this side's table: whatever matched, it reads the same bytes and writes the same words of
    /// `rows`.
    ///
    /// # Errors
    /// The keys cannot be read back. Usage: they are on disk and not split.
    ///
    /// # Panics
    /// If there is no such bucket, `matched` is of another length, or `rows` is of another table.
    pub fn mark(&self, bucket: usize, matched: &[bool], rows: &mut RowSet) -> Result<()> {
        assert_eq!(rows.rows(), self.counts.rows, "this table's rows");
        match &self.place {
            Place::Memory(memory) => {
                let of = memory.bucket(bucket);
                assert_eq!(matched.len(), of.len(), "one entry per key");
                rows.set_all(|row| matched.get(memory.place(row as usize, &of)).copied());
                Ok(())
            }
            Place::Sorted(..) => no_buckets(),
            Place::Split(buckets, _) => buckets.mark(bucket, matched, rows),
        }
    }

    /// Hands each row of a bucket to `each`, with the index of its key among those of the bucket.
    fn rows(&self, bucket: usize, each: &mut dyn FnMut(usize, u32) -> Result<()>) -> Result<()> {
        match &self.place {
            Place::Memory(memory) => {
                let of = memory.bucket(bucket);
                for row in 0..memory.row_items.len() {
                    let place = memory.place(row, &of);
                    if place < of.len() {
                        each(place, row as u32)?;
                    }
                }
                Ok(())
            }
            Place::Sorted(..) => no_buckets(),
            Place::Split(buckets, _) => buckets.rows(bucket, each),
        }
    }

    /// Hands every key to `each`, with each of its rows, in any order.
    pub(crate) fn each(&self, mut each: impl FnMut(&[u8; 32], u32)) -> Result<()> {
        match &self.place {
            Place::Memory(memory) => {
                for (row, item) in (0..).zip(&memory.row_items) {
                    if let Some(digest) = memory.keys.digests.get(*item as usize) {
                        each(digest, row);
                    }
                }
                Ok(())
            }
            Place::Sorted(runs, _) => runs.each(each),
            Place::Split(buckets, _) => buckets.each(each),
        }
    }

    /// The first row of each key of a bucket, counted from 0.
    ///
    /// # Errors
    /// As [`KeyStore::mark`].
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn first_rows(&self, bucket: usize) -> Result<Vec<u64>> {
        let keys = match &self.place {
            Place::Memory(memory) => {
                let rows = memory.first_rows(bucket).iter();
                return Ok(rows.map(|row| u64::from(*row)).collect());
            }
            Place::Sorted(..) => return no_buckets(),
            Place::Split(buckets, _) => buckets.keys(bucket),
        };
        let mut first = vec![u64::MAX; keys];
        self.rows(bucket, &mut |key, row| {
            first[key] = first[key].min(row.into());
            Ok(())
        })?;
        Ok(first)
    }

    /// The rows whose key matched, of keys that are in memory in one bucket. `matched` has one entry for each of them.
    ///
    /// # Panics
    /// If they are elsewhere, or `matched` is of another length.
    pub fn rows_of(&self, matched: &[bool]) -> RowSet {
        let mut rows = RowSet::none(self.counts.rows);
        let marked = self.mark(0, matched, &mut rows);
        marked.expect("keys in memory are marked");
        rows
    }

    /// Keeps what the peer has handed over for the keys of a bucket: a label of `bytes` bytes for each, one after the other,
    /// zeros where it does not match. All of them stay in memory if they take at most `memory` bytes and the keys are there
    /// too; else they go to a file in `directory`. The time depends only on their number.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// If there is not one for each key of the bucket.
    pub fn keep(
        &mut self,
        bucket: usize,
        labels: &[u8],
        bytes: usize,
        memory: u64,
        directory: &Path,
    ) -> Result<()> {
        let all = self.counts.items.saturating_mul(bytes as u64);
        let in_memory = match &self.place {
            Place::Memory(keys) if all <= memory => Some(keys.bucket(bucket)),
            _ => None,
        };
        let (kept, _) = match (&mut self.kept, &in_memory) {
            (Some(kept), _) => kept,
            (none, Some(_)) => {
                let labels = Zeroizing::new(vec![0; all as usize]);
                none.insert((Kept::InMemory(labels), bytes))
            }
            (none, None) => none.insert((Kept::OnDisk(BucketFile::create(directory)?), bytes)),
        };
        match (kept, in_memory) {
            (Kept::InMemory(all), Some(keys)) => {
                assert_eq!(labels.len(), keys.len() * bytes, "one label per key");
                all[keys.start * bytes..keys.end * bytes].copy_from_slice(labels);
                Ok(())
            }
            (Kept::OnDisk(file), _) => file.add(bucket, labels),
            _ => Err(Error::Usage("labels come before they are arranged")),
        }
    }

    /// Puts what was [kept](KeyStore::keep) where the rows that match find it, in approximately `memory` bytes and those of
    /// a bucket's labels. `unreadable` counts labels that are none. Returns whether something was kept.
    ///
    /// # Errors
    /// A file cannot be written or read back.
    pub fn arrange(
        &mut self,
        directory: &Path,
        matched: &RowSet,
        memory: u64,
        unreadable: impl Fn(&[u8]) -> usize,
    ) -> Result<bool> {
        match &self.kept {
            None => return Ok(false),
            Some((Kept::InMemory(labels), _)) => self.unreadable = unreadable(labels),
            Some((Kept::OnDisk(file), bytes)) => {
                let rows_of = |bucket: usize, each: &mut dyn FnMut(usize, u32) -> Result<()>| {
                    self.rows(bucket, each)
                };
                let rows = Ranges::new(
                    file, *bytes, directory, matched, memory, unreadable, rows_of,
                );
                let (rows, bytes) = (rows?, *bytes);
                self.unreadable = rows.unreadable();
                self.kept = Some((Kept::ByRow(rows), bytes));
            }
            Some((Kept::ByRow(_), _)) => {}
        }
        Ok(true)
    }

    /// How many labels are none of those that [`KeyStore::arrange`] expects.
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Bytes of a label that was kept; 0 if none was.
    pub fn label_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// What was kept for a row, once it is [arranged](KeyStore::arrange): zeros, or nothing, if the row does not match. Rows
    /// are asked for in ascending order, or it takes long.
    ///
    /// # Errors
    /// It cannot be read back.
    pub fn label(&self, row: u64) -> Result<Cow<'_, [u8]>> {
        match (&self.kept, &self.place) {
            (Some((Kept::ByRow(rows), _)), _) => Ok(rows.label(row)?.into()),
            (Some((Kept::InMemory(labels), bytes)), Place::Memory(memory)) => {
                let item = memory.row_items.get(row as usize).copied();
                let label = item.filter(|item| *item != NO_ITEM).and_then(|item| {
                    let start = item as usize * bytes;
                    labels.get(start..start + bytes)
                });
                Ok(label.unwrap_or_default().into())
            }
            _ => Ok(Cow::default()),
        }
    }
}

/// Refuses a second use of keys that were given away.
fn check_here(memory: &InMemory, items: usize) -> Result<()> {
    match memory.keys.len() == items {
        true => Ok(()),
        false => Err(Error::Usage("the keys have been given to an earlier run")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gather::{Gather, KeyBytes, Record};
    use crate::layout::{Column, Layout};
    use crate::runs::tests::tables;

    /// What goes with a key: its number, the sums over its rows of a column and of its negative, and its label.
    type Beside = (u64, [i64; 2], Vec<u8>);

    fn layout() -> Layout {
        let column = Column {
            bound: u64::MAX,
            sums_repeated: true,
        };
        Layout {
            has_numbers: true,
            columns: vec![column; 2],
            label: 5,
            ..Layout::default()
        }
    }

    fn number(digest: &[u8; 32]) -> u64 {
        u64::from(digest[0]) << 8 | u64::from(digest[31])
    }

    fn label(digest: &[u8; 32]) -> Vec<u8> {
        digest[3..8].to_vec()
    }

    /// Whether a row has a key.
    fn has_key(row: usize) -> bool {
        row % 7 != 6
    }

    fn store(keys: &[[u8; 32]], memory: u64) -> KeyStore {
        let mut gather = Gather::new(layout(), memory, &std::env::temp_dir()).unwrap();
        let mut beside = Vec::new();
        for (row, digest) in keys.iter().enumerate() {
            let values = [row as i64, -(row as i64)];
            beside.clear();
            layout().put(&label(digest), values.into_iter(), &mut beside);
            let record = Record {
                number: number(digest),
                beside: &beside,
                ..Record::of(digest)
            };
            gather.add(has_key(row).then_some(&record)).unwrap();
        }
        gather.finish().unwrap()
    }

    fn chosen(digest: &[u8; 32]) -> bool {
        digest[31].is_multiple_of(3)
    }

    /// The same tables in memory and on disk, in one bucket and in several, against a plain map of keys and rows.
    #[test]
    fn a_store_says_the_same_wherever_its_keys_are() {
        let directory = tempfile::tempdir().unwrap();
        for keys in tables() {
            let with_key = || keys.iter().enumerate().filter(|(row, _)| has_key(*row));
            let mut expected = BTreeMap::<[u8; 32], Vec<u32>>::new();
            for (row, digest) in with_key() {
                expected.entry(*digest).or_default().push(row as u32);
            }
            let of_key = |digest: &[u8; 32]| -> Beside {
                let rows = &expected[digest];
                let sum = rows.iter().map(|row| i64::from(*row)).sum();
                (number(digest), [sum, -sum], label(digest))
            };
            let (mut matching, mut all) = (
                RowSet::none(keys.len() as u64),
                RowSet::none(keys.len() as u64),
            );
            for (row, digest) in with_key() {
                matching.set(row as u64, chosen(digest));
                all.insert(row as u64);
            }
            let in_memory = store(&keys, u64::MAX);
            assert!(in_memory.is_in_memory());
            let hash = |keys: &KeyStore| {
                let mut hash = crate::SetHash::new(&[7; 32]);
                keys.each_digest(|key| hash.add(key)).unwrap();
                hash.finish()
            };
            for memory in [0, 20_000, u64::MAX] {
                for buckets in [1, 3, 200] {
                    let mut stored = store(&keys, memory);
                    let (rows, items) = (keys.len() as u64, expected.len() as u64);
                    let bytes = KeyBytes::in_memory(rows, items, &layout());
                    assert_eq!(stored.is_in_memory(), bytes <= memory);
                    assert_eq!(stored.counts(), in_memory.counts());
                    assert_eq!(stored.counts().items, expected.len() as u64);
                    assert_eq!(stored.identity(), in_memory.identity(), "{memory}");
                    assert_eq!(hash(&stored), hash(&in_memory));
                    assert_eq!(
                        stored.most_repeated(5).unwrap(),
                        in_memory.most_repeated(5).unwrap()
                    );
                    let of = |digest: &[u8; 32]| u32::from(digest[31]) % buckets;
                    let assign = |digests: &[[u8; 32]]| digests.iter().map(of).collect();
                    stored
                        .split(directory.path(), buckets as usize, assign)
                        .unwrap();
                    assert_eq!(stored.identity(), in_memory.identity());
                    assert_eq!(hash(&stored), hash(&in_memory));
                    let mut found = BTreeMap::new();
                    let [mut none, mut before] = [RowSet::none(keys.len() as u64), all.clone()];
                    for bucket in 0..buckets as usize {
                        let firsts = stored.first_rows(bucket).unwrap();
                        let block = stored.load(bucket, true).unwrap();
                        let matched: Vec<bool> = block.digests.iter().map(chosen).collect();
                        let numbers = block.numbers.as_deref().unwrap();
                        let values = block.values.as_deref().unwrap().as_chunks::<2>().0;
                        let labels = block.labels.as_deref().unwrap();
                        let mut kept = labels.to_vec();
                        for (place, digest) in block.digests.iter().enumerate() {
                            assert_eq!(of(digest), bucket as u32);
                            assert_eq!(firsts[place], u64::from(expected[digest][0]));
                            let label = labels[5 * place..][..5].to_vec();
                            found.insert(*digest, (numbers[place], values[place], label));
                            if !chosen(digest) {
                                kept[5 * place..][..5].fill(0);
                            }
                        }
                        drop(block);
                        for rows in [&mut none, &mut before] {
                            stored.mark(bucket, &matched, rows).unwrap();
                        }
                        // Labels stay with keys in memory, or do not.
                        let room = if memory == 20_000 { u64::MAX } else { 0 };
                        let room = if buckets == 3 { u64::MAX - room } else { room };
                        stored
                            .keep(bucket, &kept, 5, room, directory.path())
                            .unwrap();
                    }
                    let plain: BTreeMap<_, _> =
                        expected.keys().map(|key| (*key, of_key(key))).collect();
                    assert!(found == plain, "{memory} {buckets}");
                    // What was there before is overwritten, in every row with a key.
                    assert!(none == matching && before == matching);
                    let count = |labels: &[u8]| labels.chunks(5).filter(|l| l[0] == 0).count();
                    assert!(stored.arrange(directory.path(), &none, 0, count).unwrap());
                    for (row, digest) in keys.iter().enumerate() {
                        let matches = none.contains(row as u64);
                        let found = stored.label(row as u64).unwrap();
                        match matches {
                            true => assert_eq!(*found, label(digest), "{row}"),
                            false => assert!(found.iter().all(|byte| *byte == 0)),
                        }
                    }
                    let none = expected.keys().filter(|d| !chosen(d) || d[3] == 0);
                    assert_eq!(stored.unreadable(), none.count());
                }
            }
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn keys_are_given_away_once_and_split_on_disk_once() {
        let keys = tables().swap_remove(3);
        let mut stored = store(&keys, u64::MAX);
        let kept = stored.load(0, true).unwrap().into_owned();
        assert_eq!(stored.load(0, false).unwrap(), kept);
        let usage = |result: Result<()>| assert!(matches!(result, Err(Error::Usage(_))));
        usage(stored.load(0, true).map(drop));
        // The way back to rows stays.
        assert_eq!(stored.rows_of(&vec![true; kept.len()]).iter().count(), 2572);
        let directory = std::env::temp_dir();
        usage(stored.split(&directory, 1, |_| Vec::new()));
        let mut stored = store(&keys, 0);
        usage(stored.load(0, true).map(drop));
        usage(stored.first_rows(0).map(drop));
        let assign = |digests: &[[u8; 32]]| vec![0; digests.len()];
        stored.split(&directory, 1, assign).unwrap();
        usage(stored.split(&directory, 1, assign));
    }

    #[test]
    fn distinct_keys_are_their_own_rows() {
        let digests = [[1; 32], [2; 32]];
        let mut stored = KeyStore::of_distinct(KeyBlock::from(&digests)).unwrap();
        assert_eq!(
            stored.rows_of(&[false, true]).iter().collect::<Vec<_>>(),
            [1]
        );
        assert_eq!(*stored.load(0, false).unwrap().digests, digests);
        let mut uneven = KeyBlock::from(&digests);
        uneven.labels = Some(Cow::Borrowed(&[1, 2, 3]));
        assert!(KeyStore::of_distinct(uneven).is_err());
    }

    #[test]
    fn what_must_not_be_is_refused_wherever_keys_are() {
        let once = Column {
            bound: 3000,
            sums_repeated: false,
        };
        let sums = Column {
            sums_repeated: true,
            ..once
        };
        let most = i64::MAX as u64;
        let large = Column {
            bound: most,
            ..sums
        };
        // Keys, values, and the column's rule.
        let many = |column, more: &[(u8, i64)]| {
            let rows =
                (0..3000u32).map(|i| (*blake3::hash(&i.to_le_bytes()).as_bytes(), i64::from(i)));
            let more = more.iter().map(|(key, value)| ([*key; 32], *value));
            (rows.chain(more).collect::<Vec<_>>(), column)
        };
        let most = most as i64;
        for memory in [0, 20_000, 40_000, u64::MAX] {
            let read = |(rows, column): (Vec<([u8; 32], i64)>, Column)| {
                let layout = Layout {
                    columns: vec![column],
                    ..Layout::default()
                };
                let mut gather = Gather::new(layout.clone(), memory, &std::env::temp_dir())?;
                let mut beside = Vec::new();
                for (digest, value) in rows {
                    beside.clear();
                    layout.put(&[], [value].into_iter(), &mut beside);
                    let record = Record {
                        beside: &beside,
                        ..Record::of(&digest)
                    };
                    gather.add(Some(&record))?;
                }
                gather.finish()
            };
            // The sum is within the bound only once all rows have been read.
            let mut stored = read(many(large, &[(1, most), (1, most), (1, -most)])).unwrap();
            let assign = |digests: &[[u8; 32]]| vec![0; digests.len()];
            stored.split(&std::env::temp_dir(), 1, assign).unwrap();
            let block = stored.load(0, true).unwrap();
            let place = block.digests.iter().position(|d| *d == [1; 32]).unwrap();
            assert_eq!(block.values.as_deref().unwrap()[place], most);
            drop(block);
            let refused = |rows| read(rows).map(drop).unwrap_err();
            let beyond = |error: Error| match error {
                Error::Beyond {
                    row, has_one_row, ..
                } => (row, has_one_row),
                error => panic!("{error}"),
            };
            let error = refused(many(large, &[(1, most), (1, most)]));
            assert_eq!(beyond(error), (3000, false), "{memory}");
            assert_eq!(beyond(refused(many(sums, &[(2, 3001)]))), (3000, true));
            let error = refused(many(once, &[(2, 0), (2, 0)]));
            assert!(
                matches!(error, Error::Repeated { row: 3001, .. }),
                "{error}"
            );
        }
    }
}
