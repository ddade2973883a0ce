//! From rows to distinct keys: in memory while they fit there, and in sorted [runs](crate::runs) on disk once they do not.
//!
//! Repetitions are found by sorting, once as many rows have come together as there are distinct keys: looking up each row
//! would miss the cache each time. Keys keep the order of their first rows. What is written to disk is what memory has, in
//! the order in which it is sorted there.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::blob::unwritable;
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::groups::KeysOfGroups;
use crate::identity::{RowKeys, RowValues};
use crate::layout::{Clash, Labels, Layout};
use crate::mix::{Mix, index};
use crate::repeated::Frequent;
use crate::runs::{RowsOfKeys, Runs};
use crate::store::{Counts, KeyStore, NO_ITEM};

/// Fewest keys that are gathered before repetitions are dropped; in unit tests, whose tables are small, fewer.
const MIN_GATHERED: usize = if cfg!(test) { 64 } else { 1 << 18 };

/// Fewest bytes in memory from which a run is written before all rows are there, whatever the memory.
pub(crate) const MIN_RUN: u64 = 54 * if cfg!(test) { 64 } else { 1 << 16 };

/// A run has at most a row for so many bytes of the memory. Rows whose keys all differ take more, and so are one run.
const RUN_ROW_BYTES: u64 = 50;

/// Bytes for the line of each key.
const LINE_BYTES: u64 = 8;

/// The key of a row.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Its digest.
    pub digest: [u8; 32],
    /// The key itself, if keys are numbers; else 0.
    pub number: u64,
    /// What goes with it, as [`Layout::put`] writes it.
    pub beside: &'a [u8],
    /// Line of a text on which the row starts, if it is known.
    pub line: Option<u64>,
}

/// Shows nothing of it.
impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").finish_non_exhaustive()
    }
}

impl Record<'_> {
    /// A key with which nothing goes.
    pub fn of(digest: &[u8; 32]) -> Record<'static> {
        Record {
            digest: *digest,
            number: 0,
            beside: &[],
            line: None,
        }
    }
}

/// Bytes in memory for each key of a layout while they come together: its digest, what it takes to find its repetitions or
/// afterwards to count them, its number, its label, its values as sums and then as values, and its line.
fn bytes_of_key(layout: &Layout) -> u64 {
    let number = if layout.has_numbers { 8 } else { 0 };
    let line = if layout.is_bare() { 0 } else { LINE_BYTES };
    32 + 18 + number + line + layout.beside() as u64 + 8 * layout.columns.len() as u64
}

/// Bytes in memory for each row: the index of its key.
const ROW_BYTES: u64 = 4;

/// What the keys of a table take at most: if each row has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes {
    /// Bytes in memory, if all of them are there.
    pub in_memory: u64,
    /// Bytes on the disk, if they have to be there, with as many threads as the present pool has.
    pub on_disk: u64,
}

impl KeyBytes {
    /// Of a table of so many rows.
    pub fn of(rows: u64, layout: &Layout) -> KeyBytes {
        KeyBytes {
            in_memory: KeyBytes::in_memory(rows, rows, layout),
            on_disk: layout.disk_bytes(rows),
        }
    }

    /// Approximate bytes in memory of so many rows with so many distinct keys.
    pub fn in_memory(rows: u64, items: u64, layout: &Layout) -> u64 {
        ROW_BYTES * rows + bytes_of_key(layout) * items
    }
}

/// Gathers the keys of rows.
pub struct Gather {
    layout: Layout,
    /// Bytes of a key in memory.
    key_bytes: u64,
    memory: u64,
    directory: PathBuf,
    mix: Mix,
    /// Those of the rows that are in memory. The first `distinct` differ, and keep their indices. The others, one for each
    /// row, may be repetitions.
    columns: Columns,
    distinct: usize,
    /// For each of these rows the index of its key, or [`NO_ITEM`]. Those after the first `numbered` have one of their own.
    row_items: Vec<u32>,
    numbered: usize,
    /// Lines on which the rows of keys start, if something goes with keys.
    lines: Vec<Option<NonZeroU64>>,
    /// The [entries](Mix::entry) of the first keys, ascending: of the distinct ones, at least.
    sorted: Vec<u64>,
    /// Rows before these, which are on disk.
    first_row: u64,
    /// Rows with a key.
    with_key: u64,
    values: Option<RowValues>,
    spilled: Option<(Runs, RowKeys)>,
}

/// Shows nothing of them.
impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").finish_non_exhaustive()
    }
}

/// For each key the index of the first with the same digest, from the [entries](Mix::entry) of all, ascending; nothing if
/// all are distinct.
fn first_of_each(entries: &[u64], digests: &[[u8; 32]]) -> Vec<u32> {
    let digest = |index: u32| digests[index as usize];
    let (mut first, mut group) = (Vec::new(), Vec::new());
    let same_tag = entries.chunk_by(|a, b| a >> 32 == b >> 32);
    for same_tag in same_tag.filter(|entries| entries.len() > 1) {
        group.clear();
        group.extend(same_tag.iter().map(|entry| *entry as u32));
        // Indices of the same digest stay in order.
        group.sort_by_key(|index| digest(*index));
        for same in group.chunk_by(|a, b| digest(*a) == digest(*b)) {
            if same.len() > 1 && first.is_empty() {
                first.extend(0..digests.len() as u32);
            }
            for index in &same[1..] {
                first[*index as usize] = same[0];
            }
        }
    }
    first
}

impl Gather {
    /// Gathers keys with which this goes, in about `memory` bytes. What does not fit goes to unnamed files in `directory`.
    ///
    /// # Errors
    /// As the system's source of random bytes.
    pub fn new(layout: Layout, memory: u64, directory: &Path) -> Result<Gather> {
        Ok(Gather {
            key_bytes: bytes_of_key(&layout),
            memory,
            directory: directory.to_owned(),
            mix: Mix::random().map_err(unwritable)?,
            columns: Columns::new(&layout),
            distinct: 0,
            row_items: Vec::new(),
            numbered: 0,
            lines: Vec::new(),
            sorted: Vec::new(),
            first_row: 0,
            with_key: 0,
            values: (!layout.columns.is_empty()).then(RowValues::new),
            spilled: None,
            layout,
        })
    }

    /// What goes with each key.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes in memory from which a run is written before all rows are there.
    fn most(&self) -> u64 {
        self.memory.max(MIN_RUN)
    }

    /// Rows so far.
    fn rows(&self) -> u64 {
        self.first_row + self.row_items.len() as u64
    }

    /// Adds the key of the next row, or a row without one.
    ///
    /// # Errors
    /// More rows than can be numbered, rows of one key that do not go together, or a file that cannot be written.
    ///
    /// # Panics
    /// If what goes with the key has another layout.
    #[inline]
    pub fn add(&mut self, record: Option<&Record<'_>>) -> Result<()> {
        if self.rows() >= u64::from(NO_ITEM) {
            let limit = u64::from(NO_ITEM);
            return Err(Error::TooManyRows { limit });
        }
        if let Some(values) = &mut self.values {
            values.add(&self.layout, record.map(|record| record.beside));
        }
        self.row_items.push(match record {
            None => NO_ITEM,
            Some(record) => {
                assert_eq!(record.beside.len(), self.layout.beside(), "the layout");
                self.with_key += 1;
                self.columns.digests.push(record.digest);
                if self.layout.has_numbers {
                    self.columns.numbers.push(record.number);
                }
                if !record.beside.is_empty() {
                    self.columns.beside.push(record.beside);
                    self.lines.push(record.line.and_then(NonZeroU64::new));
                }
                // There are no more of them than rows, which fit.
                self.columns.len() as u32 - 1
            }
        });
        let is_due = self.gathered() >= MIN_GATHERED.max(self.distinct) && self.spilled.is_none();
        match is_due || self.bytes(self.columns.len()) > self.most() {
            true => self.make_room(is_due),
            false => Ok(()),
        }
    }

    /// Drops repetitions if that is due, and writes a run if what is in memory does not fit there.
    #[cold]
    fn make_room(&mut self, is_due: bool) -> Result<()> {
        if is_due {
            self.drop_repetitions()?;
        }
        match self.fits()? {
            true => Ok(()),
            false => self.spill(),
        }
    }

    /// Meets the errors that the rows so far would lead to later. An error changes nothing, and comes again.
    ///
    /// # Errors
    /// Rows of one key that do not go together.
    pub fn check(&mut self) -> Result<()> {
        self.drop_repetitions()
    }

    /// Keys that may be repetitions.
    fn gathered(&self) -> usize {
        self.columns.len() - self.distinct
    }

    /// Bytes of what is in memory, if so many keys of it are distinct.
    fn bytes(&self, items: usize) -> u64 {
        ROW_BYTES * self.row_items.len() as u64 + self.key_bytes * items as u64
    }

    /// Whether what is in memory fits there, give or take a sixteenth of it that may be repetitions.
    fn fits(&mut self) -> Result<bool> {
        let memory = self.most();
        if self.bytes(self.columns.len()) <= memory {
            return Ok(true);
        }
        if self.bytes(self.distinct) > memory {
            return Ok(false);
        }
        // Not for every few rows, however little memory is left.
        if self.gathered() < (self.distinct / 16).max(64) {
            return Ok(true);
        }
        self.drop_repetitions()?;
        Ok(self.bytes(self.distinct) <= memory)
    }

    /// Leaves each key where it was first, and numbers the keys of rows anew.
    fn drop_repetitions(&mut self) -> Result<()> {
        let digests = &self.columns.digests;
        let before = self.sorted.len();
        if digests.len() > before {
            let new = digests[before..].par_iter().enumerate();
            let new = new.map(|(i, digest)| self.mix.entry(digest, before + i));
            let mut new: Vec<u64> = new.collect();
            new.par_sort_unstable();
            self.sorted.append(&mut new);
            // Two runs, which this sort finds and merges.
            self.sorted.par_sort();
        }
        if digests.len() > self.distinct {
            let numbers = first_of_each(&self.sorted, digests);
            if !numbers.is_empty() {
                self.check_repetitions(&numbers)?;
                self.renumber(numbers);
            }
        }
        self.distinct = self.columns.len();
        self.numbered = self.row_items.len();
        Ok(())
    }

    /// Fails if what goes with a key clashes with that of its [first row](first_of_each).
    fn check_repetitions(&self, first: &[u32]) -> Result<()> {
        let repeated = (0..).zip(first).filter(|(index, first)| index != *first);
        let mut taken = HashMap::new();
        for (index, first) in repeated {
            let [earlier, later] = [*first, index].map(|key| self.columns.beside.of(key as usize));
            let clash = match self.layout.labels {
                Labels::Same | Labels::Group(_) => self.layout.clash(earlier, later),
                // Of all rows so far, of which none is added yet.
                Labels::Slots(slots) => {
                    let taken = taken.entry(*first);
                    let taken = taken.or_insert_with(|| self.layout.taken(earlier));
                    *taken += self.layout.taken(later);
                    (*taken > slots).then_some(Clash::Rows(slots))
                }
            };
            let Some(clash) = clash else {
                // Without labels, all or none clash.
                match self.layout.label {
                    0 => return Ok(()),
                    _ => continue,
                }
            };
            let row = |key: u32| {
                let rows = self.row_items.iter().take_while(|item| **item != key);
                self.first_row + rows.count() as u64
            };
            let line = self.line(index as usize);
            return Err(Error::clashing(clash, [row(*first), row(index)], line));
        }
        Ok(())
    }

    fn line(&self, key: usize) -> Option<u64> {
        self.lines.get(key).copied().flatten().map(NonZeroU64::get)
    }

    /// Drops what repeats an earlier key, given the [first of each](first_of_each).
    fn renumber(&mut self, mut numbers: Vec<u32>) {
        self.sorted
            .retain(|entry| numbers[index(*entry)] == *entry as u32);
        self.sorted.shrink_to_fit();
        let mut items = 0;
        for index in 0..numbers.len() {
            let first = numbers[index] as usize;
            if first == index {
                self.columns.move_to(items, index);
                if let Some(line) = self.lines.get(index) {
                    self.lines[items] = *line;
                }
                numbers[index] = items as u32;
                items += 1;
            } else {
                // The first has its number already.
                numbers[index] = numbers[first];
                let item = numbers[index] as usize;
                let (sums, later) = self.columns.beside.pair(item, index);
                self.layout.add(sums, later);
            }
        }
        self.columns.truncate(items);
        self.lines.truncate(items);
        for entry in &mut self.sorted {
            *entry = *entry >> 32 << 32 | u64::from(numbers[index(*entry)]);
        }
        let new_rows = &mut self.row_items[self.numbered..];
        new_rows.par_iter_mut().for_each(|item| {
            // NO_ITEM is beyond every index.
            if let Some(number) = numbers.get(*item as usize) {
                *item = *number;
            }
        });
    }

    /// Writes what is in memory as a run, and begins anew.
    pub(crate) fn spill(&mut self) -> Result<()> {
        self.drop_repetitions()?;
        // Keys that many rows have may have more of them than a run takes.
        let at_once = usize::try_from(self.most() / RUN_ROW_BYTES).unwrap_or(usize::MAX);
        let (runs, keys) = match &mut self.spilled {
            Some(spilled) => spilled,
            none => {
                let (layout, merged) = (self.layout.clone(), self.memory / 2);
                let runs = Runs::create(&self.directory, self.mix, layout, merged)?;
                none.insert((runs, RowKeys::new()))
            }
        };
        keys.add(&self.row_items, &self.columns.digests);
        let mut written = 0;
        for part in self.row_items.chunks(at_once) {
            let rows = RowsOfKeys::new(part, self.distinct, self.first_row);
            runs.write(
                &self.columns,
                &mut self.sorted,
                &rows,
                written,
                self.with_key,
            )?;
            self.first_row += part.len() as u64;
            // Keys have numbers in the order of their first rows.
            let last = part.iter().filter(|item| **item != NO_ITEM).max();
            written = last.map_or(written, |last| written.max(*last as usize + 1));
        }
        self.columns.truncate(0);
        self.row_items.clear();
        self.lines.clear();
        self.sorted.clear();
        (self.distinct, self.numbered) = (0, 0);
        Ok(())
    }

    /// All keys, in memory if they take at most as much as was given.
    ///
    /// # Errors
    /// Rows of one key that do not go together, values beyond their bounds, or a file that cannot be written or read back.
    pub fn finish(mut self) -> Result<KeyStore> {
        self.drop_repetitions()?;
        let values = self.values.take().map(RowValues::finish);
        let (rows, with_key) = (self.rows(), self.with_key);
        let counts = |items, frequent| Counts {
            rows,
            with_key,
            items,
            frequent,
        };
        if self.spilled.is_none() && self.bytes(self.distinct) <= self.memory {
            self.judge()?;
            let mut groups = KeysOfGroups::new(&self.layout);
            self.columns
                .beside
                .iter()
                .try_for_each(|beside| groups.add(beside))?;
            let items = self.columns.len() as u64;
            self.sorted = Vec::new();
            let row_items = self.row_items;
            // In the memory that finding repetitions took.
            let frequent = Frequent::in_memory(rows, items, with_key - items, &row_items);
            let keys = self.columns.finish(&self.layout);
            let counts = counts(items, frequent);
            let store = KeyStore::in_memory(keys, row_items, counts, values);
            return Ok(store.with_groups(groups));
        }
        self.spill()?;
        let (runs, keys) = self.spilled.take().expect("a run was written");
        // What the keys took so far is for other uses.
        drop(self);
        let (items, frequent, groups) = runs.count(rows)?;
        let counts = counts(items, frequent);
        let store = KeyStore::on_disk(runs, counts, keys.finish(), values);
        Ok(store.with_groups(groups))
    }

    /// Fails if the values of a key are beyond their bounds.
    fn judge(&self) -> Result<()> {
        if self.layout.columns.is_empty() {
            return Ok(());
        }
        for (item, beside) in self.columns.beside.iter().enumerate() {
            if let Some(column) = self.layout.beyond(beside) {
                let rows = (self.first_row..).zip(&self.row_items);
                let mut rows = rows.filter(|(_, i)| **i as usize == item);
                let row = rows.next().map_or(0, |(row, _)| row);
                let has_one_row = rows.next().is_none();
                let line = self.line(item);
                return Err(Error::Beyond {
                    column,
                    has_one_row,
                    row,
                    line,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::layout::Column;

    impl Gather {
        /// The runs of all rows.
        pub(crate) fn into_runs(mut self) -> Runs {
            self.spill().unwrap();
            self.spilled.unwrap().0
        }

        /// Writes what is in memory to such files.
        #[cfg(target_os = "linux")]
        pub(crate) fn spill_to(&mut self, file: fn() -> crate::blob::Blob) -> Result<()> {
            let layout = self.layout.clone();
            let mut runs = Runs::create(&self.directory, self.mix, layout, self.memory)?;
            runs.files.fill_with(file);
            self.spilled = Some((runs, RowKeys::new()));
            self.spill()
        }
    }

    fn gather(layout: Layout) -> Gather {
        Gather::new(layout, u64::MAX, &std::env::temp_dir()).unwrap()
    }

    fn values(columns: [bool; 2], bound: u64) -> Layout {
        Layout {
            has_numbers: false,
            columns: columns
                .map(|sums_repeated| Column {
                    bound,
                    sums_repeated,
                })
                .to_vec(),
            label: 0,
            ..Layout::default()
        }
    }

    #[test]
    fn keys_are_numbered_by_first_appearance() {
        // First bytes collide on purpose, and repetitions are near and far apart.
        let layout = Layout {
            has_numbers: true,
            ..values([true, true], 1000 * 1000)
        };
        let mut gather = gather(layout.clone());
        let mut sums = Vec::new();
        let mut first: HashMap<[u8; 32], u32> = HashMap::new();
        let mut expected = Vec::new();
        let number = |digest: &[u8; 32]| u64::from(digest[0]) << 8 | u64::from(digest[31]);
        for i in 0..1000u32 {
            if i % 17 == 0 {
                gather.add(None).unwrap();
                expected.push(NO_ITEM);
                continue;
            }
            let mut digest = [0; 32];
            digest[0] = (i % 7) as u8;
            digest[31] = (i * i % 251) as u8;
            let next = first.len() as u32;
            let item = *first.entry(digest).or_insert(next);
            expected.push(item);
            sums.resize(2 * first.len(), 0);
            sums[2 * item as usize] += i64::from(i);
            sums[2 * item as usize + 1] -= 2 * i64::from(i);
            let mut beside = Vec::new();
            let of_row = [i64::from(i), -2 * i64::from(i)];
            layout.put(&[], of_row.into_iter(), &mut beside);
            let record = Record {
                number: number(&digest),
                beside: &beside,
                ..Record::of(&digest)
            };
            gather.add(Some(&record)).unwrap();
        }
        let keys = gather.finish().unwrap();
        let counts = keys.counts();
        assert_eq!((counts.rows, counts.items), (1000, first.len() as u64));
        let with_key = expected.iter().filter(|item| **item != NO_ITEM);
        assert_eq!(counts.with_key, with_key.count() as u64);
        let (block, row_items) = keys.gathered().unwrap();
        let numbers: Vec<u64> = block.digests.iter().map(number).collect();
        assert_eq!(block.numbers.as_deref(), Some(&*numbers));
        assert_eq!(block.values.as_deref(), Some(&*sums));
        assert_eq!(row_items, expected);
        for (digest, item) in first {
            assert_eq!(block.digests[item as usize], digest);
        }
    }

    #[test]
    fn a_repeated_key_with_a_value_is_refused_where_it_is() {
        // Before repetitions are dropped for the first time, later, and at the end.
        for repeated in [2, 63, 64, 300, 999] {
            let layout = values([true, false], 9);
            let mut gather = gather(layout.clone());
            let mut beside = Vec::new();
            layout.put(&[], [1, 1].into_iter(), &mut beside);
            let add = |row: u64| {
                let digest = *blake3::hash(&(row % repeated).to_le_bytes()).as_bytes();
                let record = Record {
                    beside: &beside,
                    line: Some(row + 5),
                    ..Record::of(&digest)
                };
                gather.add((row % 10 != 1).then_some(&record))
            };
            let added = (0..1000).try_for_each(add);
            let finished = added.and_then(|()| gather.finish().map(drop));
            let Err(Error::Repeated { column, row, line }) = finished else {
                panic!("{finished:?}");
            };
            assert_eq!(
                (column, row, line),
                (1, repeated, Some(repeated + 5)),
                "{repeated}"
            );
        }
    }

    /// Wherever keys are, and whatever repeats.
    #[test]
    fn keys_of_groups_are_counted_once_and_clashes_are_found() {
        let layout = |most| Layout {
            label: 3,
            labels: Labels::Group(most),
            ..values([true, true], 9)
        };
        let gathered = |memory: u64, most: usize, other: Option<u64>| {
            let layout = layout(most);
            let directory = tempfile::tempdir().unwrap();
            let mut gather = Gather::new(layout.clone(), memory, directory.path())?;
            for row in 0..3000u64 {
                let key = row % 700;
                let group = match key % 4 + u64::from(other == Some(row)) {
                    3 => [0; 3],
                    group => [b'g', group as u8, 0],
                };
                let mut beside = Vec::new();
                layout.put(&group, [0, 1].into_iter(), &mut beside);
                let digest = *blake3::hash(&key.to_le_bytes()).as_bytes();
                let record = Record {
                    beside: &beside,
                    ..Record::of(&digest)
                };
                gather.add(Some(&record))?;
            }
            gather.finish()
        };
        for memory in [u64::MAX, 20_000, 0] {
            let keys = gathered(memory, 3, None).unwrap();
            let found: Vec<(Vec<u8>, u64)> = keys
                .groups()
                .map(|(label, keys)| (label.to_vec(), keys))
                .collect();
            let expected = [0, 1, 2].map(|group: u8| (vec![b'g', group], 175));
            let expected = expected.map(|(label, keys)| match label[1] {
                0 => (b"g".to_vec(), keys),
                _ => (label, keys),
            });
            assert_eq!(found, expected, "{memory}");
            assert!(matches!(
                gathered(memory, 2, None),
                Err(Error::TooManyGroups { limit: 2 })
            ));
            for row in [700, 1401, 2998] {
                let Err(Error::GroupsDiffer {
                    first, row: found, ..
                }) = gathered(memory, 3, Some(row))
                else {
                    panic!("{memory} {row}");
                };
                assert_eq!([first, found], [row % 700, row], "{memory}");
            }
        }
    }

    #[test]
    fn different_digests_that_begin_alike_are_distinct() {
        let digest = |i: u32| {
            let mut digest = [7; 32];
            digest[28..].copy_from_slice(&(i % 500).to_le_bytes());
            digest
        };
        let mut gather = gather(Layout::default());
        for i in 0..3000 {
            gather.add(Some(&Record::of(&digest(i)))).unwrap();
        }
        let keys = gather.finish().unwrap();
        let (block, row_items) = keys.gathered().unwrap();
        assert_eq!(*block.digests, (0..500).map(digest).collect::<Vec<_>>());
        assert!((0..).zip(row_items).all(|(i, item)| *item == i % 500));
    }

    /// However many rows a key has, none of what is written or read at once has many of them.
    #[test]
    fn a_key_in_all_rows_is_in_runs_of_few() {
        let layout = values([true, true], 1 << 40);
        let mut gather = Gather::new(layout.clone(), 0, &std::env::temp_dir()).unwrap();
        let mut beside = Vec::new();
        layout.put(&[], [3, -1].into_iter(), &mut beside);
        let record = |row: u64| Record {
            beside: &beside,
            ..Record::of(&[(row % 50 == 7).into(); 32])
        };
        for row in 0..5000 {
            gather.add((row % 9 != 4).then_some(&record(row))).unwrap();
        }
        let most = gather.most() / RUN_ROW_BYTES;
        let runs = gather.into_runs();
        assert!(runs.longest() <= most, "{} {most}", runs.longest());
        let mut found = 0;
        for part in runs.parts() {
            let mut merged = Default::default();
            let merged = runs.merge(&part, &mut merged).unwrap();
            for same in merged.distinct() {
                let mut beside = zeroize::Zeroizing::default();
                runs.beside_in_bucket(merged, same, &mut beside);
                let digest = merged.digests()[index(same[0])];
                let of_key = |row: &u64| row % 9 != 4 && (*row % 50 == 7) == (digest[0] == 1);
                let rows = (0..5000).filter(of_key).count() as i64;
                assert_eq!(
                    **beside,
                    *[3 * rows, -rows].map(i64::to_le_bytes).as_flattened()
                );
                found += 1;
            }
        }
        assert_eq!(found, 2);
    }

    #[test]
    fn rows_without_a_key_count_towards_the_memory() {
        let memory = MIN_RUN + 1000;
        let mut gather = Gather::new(Layout::default(), memory, &std::env::temp_dir()).unwrap();
        gather.add(Some(&Record::of(&[1; 32]))).unwrap();
        let mut fits = || {
            gather.add(None).unwrap();
            gather.spilled.is_none()
        };
        let fitting = (0..5000).take_while(|_| fits()).count() as u64;
        assert!(
            ((memory - 54) / 4..=memory / 4).contains(&fitting),
            "{fitting}"
        );
    }
}
