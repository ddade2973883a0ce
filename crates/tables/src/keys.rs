//! The first pass: from rows to items.

use std::iter;
use std::num::NonZeroU64;
use std::ops::Range;

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::counts::Counts;
use crate::error::{Error, ErrorKind, Result, ValueProblem};
use crate::key::KeySpec;
use crate::labels::{Labels, differ};
use crate::number::ValueColumn;
use crate::order::{CommonOrder, KeyRows};
use crate::repeated::Frequent;
use crate::rows::RowSet;
use crate::runs::Shape;
use crate::value::Item;

/// What is gathered of each item besides its digest.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    numbers: bool,
    /// Columns of values.
    columns: usize,
    /// Bytes of a label.
    label: usize,
}

impl Beside {
    /// A digest, what it takes to find its repetitions, or afterwards to count them, a number, so many values, a label and a line for each item, and its
    /// item's index for each row.
    fn bytes(self, rows: u64, items: u64) -> u64 {
        let number = if self.numbers { 8 } else { 0 };
        let line = match self.columns == 0 && self.label == 0 {
            true => 0,
            false => LINE_BYTES,
        };
        let more = number + line + Sums::BYTES * self.columns as u64 + self.label as u64;
        4 * rows + (32 + 18 + more) * items
    }
}

impl Counts {
    /// Approximate memory for the keys in bytes.
    pub fn bytes_in_memory(&self) -> u64 {
        Beside::default().bytes(self.rows, self.items)
    }
}

/// What the keys of a table take at most: if each row has a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes {
    /// Bytes in memory, if all of them are there.
    pub in_memory: u64,
    /// Bytes on the disk, if they have to be there, with as many threads as the present pool has.
    pub on_disk: u64,
}

impl KeyBytes {
    /// Of a table of so many rows, whose keys go with so many columns of values and bytes of text.
    pub fn of(rows: u64, key: &KeySpec, columns: usize, text: usize) -> KeyBytes {
        let has_numbers = key.bits().is_some();
        let beside = Beside {
            numbers: has_numbers,
            columns,
            label: text,
        };
        let shape = Shape {
            has_numbers,
            label: text,
            columns,
        };
        KeyBytes {
            in_memory: beside.bytes(rows, rows),
            on_disk: shape.disk_bytes(rows),
        }
    }
}

/// The keys of a table: what the protocol works on, and the way back to the rows. Uses 32 bytes per item, 8 more if keys
/// are numbers, and 4 bytes per row.
#[derive(Clone, Default)]
pub struct Keys {
    digests: Vec<[u8; 32]>,
    numbers: Option<Vec<u64>>,
    row_items: Vec<u32>,
    /// Those of one item after the other's.
    values: Option<Vec<i64>>,
    /// That of one item after the other's.
    labels: Option<Labels>,
    /// A hash of the values of all rows, if there are some.
    pub(crate) rows_values: Option<[u8; 32]>,
    beside: Beside,
    counts: Counts,
}

/// Without the keys, and all that goes with them.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// What a run works on: see [`Keys::digests`], [`Keys::numbers`], [`Keys::values`] and [`Keys::labels`].
pub struct KeyColumns {
    /// The digests of the keys.
    pub digests: Vec<[u8; 32]>,
    /// The keys, if they are numbers.
    pub numbers: Option<Vec<u64>>,
    /// The values of each, one key's after the other's.
    pub values: Option<Vec<i64>>,
    /// The texts that go with each, one key's after the other's.
    pub labels: Option<Zeroizing<Vec<u8>>>,
}

impl Keys {
    /// The entry of [`Keys::row_items`] for a row that has no item and never matches.
    pub const NO_ITEM: u32 = u32::MAX;

    /// The 32-byte digests of the distinct keys, in order of first appearance.
    ///
    /// # Panics
    /// If they have been given away.
    pub fn digests(&self) -> &[[u8; 32]] {
        assert_eq!(self.digests.len(), self.items(), "the digests are here");
        &self.digests
    }

    /// Gives away what a run works on: the digests, and what goes with them. What is about rows stays: items keep their
    /// numbers.
    pub fn take_columns(&mut self) -> KeyColumns {
        KeyColumns {
            digests: std::mem::take(&mut self.digests),
            numbers: self.numbers.take(),
            values: self.values.take(),
            labels: self.labels.take().map(Labels::into_bytes),
        }
    }

    /// Approximate memory use in bytes, while they are read.
    pub(crate) fn bytes(&self) -> u64 {
        let (rows, items) = (self.row_items.len(), self.digests.len());
        self.beside.bytes(rows as u64, items as u64)
    }

    /// How many distinct keys there are.
    fn items(&self) -> usize {
        self.counts.items as usize
    }

    /// The key of each digest itself, if keys are numbers of a declared width
    /// ([`KeySpec::bits`](crate::KeySpec::bits)).
    pub fn numbers(&self) -> Option<&[u64]> {
        self.numbers.as_deref()
    }

    /// The values of each digest, one digest's after the other's, if the pass read values: the sums of its rows' values in
    /// units of each [`ValueColumn`].
    pub fn values(&self) -> Option<&[i64]> {
        self.values.as_deref()
    }

    /// The texts of each digest, one digest's after the other's, if the pass read some: as many bytes as
    /// [`TextColumns::bytes`](crate::TextColumns::bytes) says.
    pub fn labels(&self) -> Option<&[u8]> {
        let labels = self.labels.as_ref()?;
        Some(labels.get(0..self.items()))
    }

    /// That of an item, of which there are none if the pass read none.
    pub(crate) fn label(&self, item: usize) -> &[u8] {
        self.labels.as_ref().map_or(&[], |labels| labels.of(item))
    }

    /// Bytes of each.
    pub(crate) fn label_bytes(&self) -> usize {
        self.beside.label
    }

    /// For each row the index of its item in [`Keys::digests`], or [`Keys::NO_ITEM`].
    pub fn row_items(&self) -> &[u32] {
        &self.row_items
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }

    /// One entry for each item, `true` at the given indices: what
    /// [`Keys::rows_of`] takes.
    ///
    /// # Errors
    /// Usage: an index out of range.
    pub fn matched(&self, items: impl IntoIterator<Item = usize>) -> Result<Vec<bool>> {
        let mut matched = vec![false; self.items()];
        for item in items {
            match matched.get_mut(item) {
                Some(entry) => *entry = true,
                None => return Err(Error::usage(format!("there is no item {item}"))),
            }
        }
        Ok(matched)
    }

    /// The first row of each item, counted from 0.
    pub fn first_rows(&self) -> Vec<u64> {
        let mut first = vec![u64::MAX; self.items()];
        for (row, item) in (0..).zip(&self.row_items) {
            // NO_ITEM is beyond every index.
            if let Some(first) = first.get_mut(*item as usize) {
                *first = row.min(*first);
            }
        }
        first
    }

    /// The order that the rows of matching keys have on both sides, under the key of a run; `digests` are those of these
    /// keys, wherever they are now. To put rows in order takes approximately `memory` bytes; what does not fit takes more
    /// passes over the table.
    ///
    /// # Panics
    /// If there are more or fewer digests.
    pub fn common_order<'a>(
        &'a self,
        digests: &'a [[u8; 32]],
        key: [u8; 32],
        memory: u64,
    ) -> CommonOrder<'a> {
        assert_eq!(digests.len(), self.items(), "all digests");
        CommonOrder::new(KeyRows::Memory(digests, &self.row_items), key, memory)
    }

    /// The rows whose item matched. `matched` has one entry for each of [`Keys::digests`].
    pub fn rows_of(&self, matched: &[bool]) -> RowSet {
        let mut rows = RowSet::none(self.row_items.len() as u64);
        self.mark(None, matched, &mut rows);
        rows
    }

    /// Chooses the rows whose item matched, and leaves out those whose item did not: of all items, or
    /// of the distinct ones that `items` lists. `matched` has one entry for each of them, in that
    /// order. Rows of other items, and rows without one, stay as they are.
    ///
    /// The time depends only on this side's table and on `items`, not on what matched.
    ///
    /// # Panics
    /// If `matched` has another length, `items` has an index out of range, or `rows` is of another table.
    pub fn mark(&self, items: Option<&[u32]>, matched: &[bool], rows: &mut RowSet) {
        assert_eq!(
            rows.rows(),
            self.row_items.len() as u64,
            "this table's rows"
        );
        let Some(items) = items else {
            assert_eq!(matched.len(), self.items(), "one entry per item");
            // NO_ITEM is beyond every index.
            let chosen = |row| matched.get(self.row_items[row as usize] as usize).copied();
            return rows.set_all(chosen);
        };
        assert_eq!(matched.len(), items.len(), "one entry per item");
        // For each item whether it is listed, and whether it matched.
        let mut listed = vec![(false, false); self.items()];
        for (item, matched) in items.iter().zip(matched) {
            listed[*item as usize] = (true, *matched);
        }
        rows.set_all(|row| {
            let item = listed.get(self.row_items[row as usize] as usize);
            item.and_then(|(listed, matched)| listed.then_some(*matched))
        });
    }
}

/// Fewest digests that are gathered before repetitions are dropped; in unit tests, whose tables are small, fewer.
const MIN_GATHERED: usize = if cfg!(test) { 64 } else { 1 << 18 };

/// Gathers items. Repetitions are found by sorting, once as many rows have come together as there are distinct items:
/// looking up each row would miss the cache each time.
#[derive(Default)]
pub(crate) struct Collector<'a> {
    keys: Keys,
    /// So many digests are distinct, and keep their indices. The others, one for each row, may be repetitions.
    distinct: usize,
    /// So many rows have the index of a distinct digest. The others have that of their own.
    numbered: usize,
    /// The [entries](entry) of the first digests, ascending: of the distinct ones, at least.
    sorted: Vec<u64>,
    sums: Option<Sums<'a>>,
    /// Line on which the first row of each digest starts, if it has values or a label.
    lines: Vec<Option<NonZeroU64>>,
}

/// What a row adds to the values of its item, and what goes with it; they count for nothing without columns of such.
#[derive(Clone, Default)]
pub(crate) struct RowValues {
    /// That of the first column, and those of the others.
    pub(crate) first: i64,
    pub(crate) others: Vec<i64>,
    /// The texts, empty for a row without a key.
    pub(crate) label: Zeroizing<Vec<u8>>,
    /// Line on which the row starts, in text formats.
    pub(crate) line: Option<u64>,
}

impl RowValues {
    /// The values of all columns, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = i64> {
        iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// The sums of values over the rows of each item.
struct Sums<'a> {
    columns: &'a [ValueColumn],
    /// Those of one item after the other's. Fewer than 2^32 terms of 64 bits, so that no sum overflows, in whichever order
    /// its terms come.
    sums: Vec<i128>,
}

/// Bytes for the line of each item.
const LINE_BYTES: u64 = 8;

impl Sums<'_> {
    /// Bytes for each value: a sum, and at the end the value that comes of it.
    const BYTES: u64 = 16 + 8;

    /// A row with an item that may be new.
    fn push(&mut self, values: &RowValues) {
        self.sums.extend(values.all().map(i128::from));
    }

    /// Where the sums of an entry are.
    fn of(&self, entry: usize) -> Range<usize> {
        entry * self.columns.len()..(entry + 1) * self.columns.len()
    }

    /// Makes an entry that of an item: its first row.
    fn move_to(&mut self, item: usize, entry: usize) {
        let (to, from) = (self.of(item).start, self.of(entry));
        self.sums.copy_within(from, to);
    }

    /// Adds an entry, which is of a later row, to an item.
    fn add_to(&mut self, item: usize, entry: usize) {
        for (to, from) in self.of(item).zip(self.of(entry)) {
            self.sums[to] += self.sums[from];
        }
    }

    fn truncate(&mut self, items: usize) {
        let sums = self.of(items).start;
        self.sums.truncate(sums);
    }

    /// The values of the items, whose first rows start on these lines. An error names the first row of its item.
    fn finish(self, row_items: &[u32], lines: &[Option<NonZeroU64>]) -> Result<Vec<i64>> {
        let value = |(number, sum): (usize, &i128)| {
            let (item, column) = (number / self.columns.len(), number % self.columns.len());
            let column = &self.columns[column];
            column.within(*sum).ok_or_else(|| {
                let mut rows = (0..).zip(row_items).filter(|(_, i)| **i as usize == item);
                let first = rows.next().map_or(0, |(row, _): (u64, _)| row);
                let line = lines[item].map(NonZeroU64::get);
                column.beyond(rows.next().is_none()).at_row(first + 1, line)
            })
        };
        self.sums.iter().enumerate().map(value).collect()
    }
}

/// What a digest is sorted by: 32 of its bits, and its index.
fn entry(digest: &[u8; 32], index: usize) -> u64 {
    let tag = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
    u64::from(tag) << 32 | index as u64
}

/// For each digest the index of the first that is the same, from the entries of all, ascending; nothing if all are
/// distinct.
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

impl<'a> Collector<'a> {
    /// Gathers the numbers that keys are too, if they are some, the values of columns, and labels of so many bytes.
    pub(crate) fn new(numbers: bool, columns: &'a [ValueColumn], label: usize) -> Self {
        Collector {
            keys: Keys {
                numbers: numbers.then(Vec::new),
                labels: (label > 0).then(|| Labels::new(label)),
                beside: Beside {
                    numbers,
                    columns: columns.len(),
                    label,
                },
                ..Keys::default()
            },
            sums: (!columns.is_empty()).then(|| Sums {
                columns,
                sums: Vec::new(),
            }),
            ..Collector::default()
        }
    }

    /// Adds the item of the next row, and its values.
    pub(crate) fn add(&mut self, item: Item, values: RowValues) -> Result<()> {
        let Keys {
            digests,
            numbers,
            row_items,
            labels,
            counts,
            ..
        } = &mut self.keys;
        if counts.rows >= u64::from(Keys::NO_ITEM) {
            let limit = u64::from(Keys::NO_ITEM);
            return Err(Error::new(ErrorKind::TooMany {
                what: "rows",
                limit,
            }));
        }
        counts.rows += 1;
        counts.add(&item);
        row_items.push(match item {
            Item::Blank | Item::Invalid { .. } => Keys::NO_ITEM,
            Item::Digest { digest, number, .. } => {
                if let Some(numbers) = numbers {
                    numbers.push(number);
                }
                if let Some(sums) = &mut self.sums {
                    sums.push(&values);
                }
                if let Some(labels) = labels {
                    labels.push(&values.label);
                }
                if self.sums.is_some() || labels.is_some() {
                    self.lines.push(values.line.and_then(NonZeroU64::new));
                }
                digests.push(digest);
                // There are no more of them than rows, which fit.
                digests.len() as u32 - 1
            }
        });
        match self.gathered() >= MIN_GATHERED.max(self.distinct) {
            true => self.drop_repetitions(),
            false => Ok(()),
        }
    }

    /// Digests that may be repetitions.
    fn gathered(&self) -> usize {
        self.keys.digests.len() - self.distinct
    }

    /// Leaves each digest where it was first, in order of first appearance, and numbers the items of rows anew. An error
    /// changes nothing, and comes again.
    pub(crate) fn drop_repetitions(&mut self) -> Result<()> {
        let Keys {
            digests,
            numbers: key_numbers,
            row_items,
            labels,
            counts,
            ..
        } = &mut self.keys;
        if digests.len() == self.distinct {
            self.numbered = row_items.len();
            return Ok(());
        }
        let before = self.sorted.len();
        let new = digests[before..].par_iter().enumerate();
        let mut new: Vec<u64> = new.map(|(i, digest)| entry(digest, before + i)).collect();
        new.par_sort_unstable();
        self.sorted.append(&mut new);
        // Two runs, which this sort finds and merges.
        self.sorted.par_sort();
        let mut numbers = first_of_each(&self.sorted, digests);
        if let Some(labels) = labels {
            let differs = |(index, first): &(u32, &u32)| {
                labels.of(*index as usize) != labels.of(**first as usize)
            };
            if let Some((index, first)) = (0..).zip(&numbers).find(differs) {
                let row = |of: u32| row_items.iter().take_while(|item| **item != of).count() as u64;
                let line = self.lines[index as usize].map(NonZeroU64::get);
                return Err(differ(row(*first), row(index), line));
            }
        }
        let new_rows = &mut row_items[self.numbered..];
        let once = |sums: &Sums<'a>| sums.columns.iter().find(|column| !column.sums_repeated);
        if let Some(column) = self.sums.as_ref().and_then(once) {
            let repeated = (0..).zip(&numbers).find(|(index, first)| index != *first);
            if let Some((index, _)) = repeated {
                let row = new_rows.iter().take_while(|item| **item != index).count();
                let line = self.lines[index as usize].map(NonZeroU64::get);
                let row = (self.numbered + row) as u64 + 1;
                return Err(column.wrong(ValueProblem::Repeated).at_row(row, line));
            }
        }
        if !numbers.is_empty() {
            self.sorted
                .retain(|entry| numbers[*entry as u32 as usize] == *entry as u32);
            self.sorted.shrink_to_fit();
            let mut items = 0;
            for index in 0..numbers.len() {
                let first = numbers[index] as usize;
                if first == index {
                    digests[items] = digests[index];
                    if let Some(numbers) = key_numbers {
                        numbers[items] = numbers[index];
                    }
                    if let Some(sums) = &mut self.sums {
                        sums.move_to(items, index);
                    }
                    if let Some(labels) = labels {
                        labels.move_to(items, index);
                    }
                    if let Some(line) = self.lines.get(index) {
                        self.lines[items] = *line;
                    }
                    numbers[index] = items as u32;
                    items += 1;
                } else {
                    // The first has its number already.
                    numbers[index] = numbers[first];
                    counts.duplicates += 1;
                    if let Some(sums) = &mut self.sums {
                        sums.add_to(numbers[index] as usize, index);
                    }
                }
            }
            digests.truncate(items);
            if let Some(numbers) = key_numbers {
                numbers.truncate(items);
            }
            if let Some(sums) = &mut self.sums {
                sums.truncate(items);
            }
            if let Some(labels) = labels {
                labels.truncate(items);
            }
            self.lines.truncate(items);
            for entry in &mut self.sorted {
                let number = numbers[*entry as u32 as usize];
                *entry = *entry >> 32 << 32 | u64::from(number);
            }
            new_rows.par_iter_mut().for_each(|item| {
                // NO_ITEM is beyond every index.
                if let Some(number) = numbers.get(*item as usize) {
                    *item = *number;
                }
            });
        }
        self.distinct = digests.len();
        self.numbered = row_items.len();
        Ok(())
    }

    /// Whether the keys so far take at most `memory` bytes, give or take a sixteenth of them that may be repetitions.
    pub(crate) fn fits(&mut self, memory: u64) -> Result<bool> {
        if self.keys.bytes() <= memory {
            return Ok(true);
        }
        let rows = self.keys.row_items.len() as u64;
        if self.keys.beside.bytes(rows, self.distinct as u64) > memory {
            return Ok(false);
        }
        // Not for every few rows, however little memory is left.
        if self.gathered() < (self.distinct / 16).max(64) {
            return Ok(true);
        }
        self.drop_repetitions()?;
        Ok(self.keys.bytes() <= memory)
    }

    pub(crate) fn finish(mut self) -> Result<Keys> {
        self.drop_repetitions()?;
        if let Some(sums) = self.sums.take() {
            self.keys.values = Some(sums.finish(&self.keys.row_items, &self.lines)?);
        }
        let mut keys = self.into_keys();
        // In the memory that finding repetitions took.
        let (rows, items, duplicates) =
            (keys.counts.rows, keys.counts.items, keys.counts.duplicates);
        keys.counts.frequent = Frequent::in_memory(rows, items, duplicates, &keys.row_items);
        Ok(keys)
    }

    /// The keys so far, and the sums of the values of each, whatever their bounds.
    pub(crate) fn unjudged(mut self) -> Result<(Keys, Vec<i128>)> {
        self.drop_repetitions()?;
        let sums = self.sums.take().map_or(Vec::new(), |sums| sums.sums);
        Ok((self.into_keys(), sums))
    }

    fn into_keys(mut self) -> Keys {
        self.keys.counts.items = self.keys.digests.len() as u64;
        self.keys.digests.shrink_to_fit();
        if let Some(numbers) = &mut self.keys.numbers {
            numbers.shrink_to_fit();
        }
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn items_are_numbered_by_first_appearance() {
        // Tags collide on purpose, and repetitions are near and far apart.
        let column = ValueColumn {
            name: "v".into(),
            scale: 0,
            bound: 1000 * 1000,
            sums_repeated: true,
        };
        let columns = [column.clone(), column];
        let value = |first: i64| RowValues {
            first,
            others: vec![-2 * first],
            ..RowValues::default()
        };
        let mut collector = Collector::new(true, &columns, 0);
        let mut sums = Vec::new();
        let mut first: HashMap<[u8; 32], u32> = HashMap::new();
        let mut expected = Vec::new();
        for i in 0..1000u32 {
            if i % 17 == 0 {
                collector
                    .add(
                        if i % 2 == 0 {
                            Item::Blank
                        } else {
                            Item::Invalid { number_form: false }
                        },
                        value(1),
                    )
                    .unwrap();
                expected.push(Keys::NO_ITEM);
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
            let digest = Item::Digest {
                digest,
                number: u64::from(digest[0]) << 8 | u64::from(digest[31]),
                changed: i % 10 == 0,
                null_word: false,
            };
            collector.add(digest, value(i.into())).unwrap();
        }
        let keys = collector.finish().unwrap();
        let number = |digest: &[u8; 32]| u64::from(digest[0]) << 8 | u64::from(digest[31]);
        let numbers: Vec<u64> = keys.digests().iter().map(number).collect();
        assert_eq!(keys.numbers(), Some(&*numbers));
        assert_eq!(keys.values(), Some(&*sums));
        assert_eq!(keys.row_items(), expected);
        let counts = keys.counts();
        assert_eq!(
            counts.rows,
            counts.items + counts.duplicates + counts.blanks + counts.invalid
        );
        assert_eq!((counts.rows, counts.items), (1000, first.len() as u64));
        for (digest, item) in first {
            assert_eq!(keys.digests()[item as usize], digest);
        }
    }

    #[test]
    fn a_repeated_key_with_a_value_is_refused_where_it_is() {
        let column = ValueColumn {
            name: "v".into(),
            scale: 0,
            bound: 9,
            sums_repeated: false,
        };
        let columns = [
            ValueColumn {
                sums_repeated: true,
                ..column.clone()
            },
            column,
        ];
        // Before repetitions are dropped for the first time, later, and at the end.
        for repeated in [2, 63, 64, 300, 999] {
            let mut collector = Collector::new(false, &columns, 0);
            let mut add = |row: u64| {
                let digest = match row % 10 == 1 {
                    true => Item::Invalid { number_form: false },
                    false => Item::Digest {
                        digest: *blake3::hash(&(row % repeated).to_le_bytes()).as_bytes(),
                        number: 0,
                        changed: false,
                        null_word: false,
                    },
                };
                let line = Some(row + 5);
                let values = RowValues {
                    first: 1,
                    others: vec![1],
                    line,
                    ..RowValues::default()
                };
                collector.add(digest, values)
            };
            let added = (0..1000).try_for_each(&mut add);
            let error = added.and_then(|()| collector.finish().map(drop));
            let error = error.unwrap_err();
            let place = error.place();
            assert_eq!(place.row, Some(repeated + 1), "{error}");
            assert_eq!(place.line, Some(repeated + 5), "{error}");
        }
    }

    #[test]
    fn different_digests_that_begin_alike_are_distinct() {
        let digest = |i: u32| {
            let mut digest = [7; 32];
            digest[28..].copy_from_slice(&(i % 500).to_le_bytes());
            digest
        };
        let mut collector = Collector::new(false, &[], 0);
        for i in 0..3000 {
            let item = Item::Digest {
                digest: digest(i),
                number: 0,
                changed: false,
                null_word: false,
            };
            collector.add(item, RowValues::default()).unwrap();
        }
        let keys = collector.finish().unwrap();
        assert_eq!(keys.digests(), (0..500).map(digest).collect::<Vec<_>>());
        assert!(
            (0..)
                .zip(keys.row_items())
                .all(|(i, item)| *item == i % 500)
        );
    }

    #[test]
    fn rows_without_a_key_count_towards_the_memory() {
        let mut collector = Collector::new(false, &[], 0);
        let mut add = |item| {
            collector.add(item, RowValues::default()).unwrap();
            collector.fits(1000).unwrap()
        };
        assert!(add(Item::Digest {
            digest: [1; 32],
            number: 0,
            changed: false,
            null_word: false,
        }));
        let fitting = (0..1000).take_while(|_| add(Item::Blank)).count();
        assert!(fitting > 200 && fitting < 250, "{fitting}");
    }

    #[test]
    fn rows_are_marked_as_their_items_matched() {
        let keys = Keys {
            digests: vec![[0; 32]; 4],
            numbers: None,
            row_items: vec![2, 0, Keys::NO_ITEM, 1, 2, 3, 0],
            values: None,
            labels: None,
            rows_values: None,
            beside: Beside::default(),
            counts: Counts {
                items: 4,
                ..Counts::default()
            },
        };
        let marked = |items: Option<&[u32]>, matched: &[bool], before: bool| {
            let mut rows = RowSet::none(7);
            (0..7).for_each(|row| rows.set(row, before));
            keys.mark(items, matched, &mut rows);
            rows.iter().collect::<Vec<_>>()
        };
        let (yes, no) = (true, false);
        for before in [yes, no] {
            let kept: &[u64] = if before { &[2] } else { &[] };
            let with = |rows: &[u64]| {
                let mut rows = [kept, rows].concat();
                rows.sort_unstable();
                rows
            };
            assert_eq!(
                marked(None, &[yes, no, yes, no], before),
                with(&[0, 1, 4, 6])
            );
            assert_eq!(marked(None, &[no; 4], before), with(&[]));
        }
        assert_eq!(marked(Some(&[3, 2]), &[no, yes], no), [0, 4]);
        assert_eq!(marked(Some(&[3, 2]), &[no, yes], yes), [0, 1, 2, 3, 4, 6]);
        assert!(marked(Some(&[]), &[], no).is_empty());
    }
}
