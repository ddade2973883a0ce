//! Keys of rows, sorted on disk: the external sort of a table's keys.
//!
//! Rows come in any number. What fits into memory is written as a run, once repetitions are found: for each of
//! [`PARTITIONS`] partitions the distinct digests in [order](Mix) and the rows of each. [`Runs::merge`] brings the runs of
//! a part of a partition together, which fits into the cache unless there are very many rows. All of this is done side by
//! side on all threads, a partition each.
//!
//! A run that has a key in every row takes 4 bytes per row, so that memory does not depend on how often keys repeat.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rayon::prelude::*;
use vesica_kernels::prefetch;
use zeroize::Zeroizing;

use crate::blob::{Blob, unwritable};
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::groups::KeysOfGroups;
use crate::layout::{Clash, Layout};
use crate::mix::{Mix, PARTITIONS, REST_BITS, index, partition, sort_ties};
use crate::repeated::{Frequent, Occurrences};

/// Files of runs, each of as many partitions: what is of no more use goes file by file.
const FILES: usize = 32;

/// Bytes in memory for each key of the runs that are merged.
const MERGED_BYTES: u64 = 32 + 8 + 8 + 4 + 4 + 8;

/// Least memory for keys that are merged, whatever the limit: 2 MiB.
const MIN_MERGED: u64 = 2 << 20;

/// Bytes on disk for each row, besides its key: in a run, and in a bucket.
const RUN_ROW_BYTES: u64 = 4;
const BUCKET_ROW_BYTES: u64 = 8;

/// Keys that are fetched ahead while a run is written: they are anywhere among those in memory.
const AHEAD: usize = 16;

/// Bytes on disk.
impl Layout {
    /// Of so many rows that have a key each, in runs.
    fn run_bytes(&self, rows: u64) -> u64 {
        rows.saturating_mul(self.key_bytes() as u64 + RUN_ROW_BYTES)
    }

    /// Of keys and rows in buckets.
    fn bucket_bytes(&self, keys: u64, rows: u64) -> u64 {
        let keys = keys.saturating_mul(self.bucket_key_bytes() as u64);
        keys.saturating_add(rows.saturating_mul(BUCKET_ROW_BYTES))
    }

    /// The most that are there at once for so many rows that have a key each: in runs, in buckets, or while runs become
    /// buckets on all threads.
    pub(crate) fn disk_bytes(&self, rows: u64) -> u64 {
        let runs = self.run_bytes(rows);
        let most = runs.max(self.bucket_bytes(rows, rows));
        most.saturating_add(runs / FILES as u64 * open_files() as u64)
    }
}

/// A partition of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    /// Where its distinct keys are: digests, after these their numbers and then what goes with them if there is something.
    keys_at: u64,
    /// Where its rows are: a bit for each, 1 where it is the first of its key, and after these the rows, those of one
    /// key after the other's.
    rows_at: u64,
    keys: u32,
    rows: u32,
}

/// Sorted runs of the keys of a table.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Each of as many partitions, one after the other.
    pub(crate) files: Vec<Blob>,
    mix: Mix,
    layout: Layout,
    /// Approximate bytes for keys that are merged.
    memory: u64,
    /// Each has [`PARTITIONS`] sections.
    runs: Vec<Vec<Section>>,
}

/// How many files are read in part, at most, while threads take one piece of all runs after the other and make buckets of
/// it: each thread is within one, and its piece may begin within another, which has an end that is not read yet.
fn open_files() -> usize {
    (2 * rayon::current_num_threads()).min(FILES)
}

/// The number of a partition's file.
fn file_of(partition: usize) -> usize {
    partition / (PARTITIONS / FILES)
}

/// Part of a partition: digests whose [tags](Mix::tag) begin with the same bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    partition: usize,
    /// The bits of the tags that keys of a partition differ in.
    rests: Range<u32>,
}

/// For each key in memory its rows, ascending.
pub(crate) struct RowsOfKeys {
    /// Where those of each key end.
    ends: Vec<u32>,
    rows: Vec<u32>,
}

impl RowsOfKeys {
    /// Of so many keys, by the index of its key, or one beyond them all, for each row from the first on.
    pub(crate) fn new(row_items: &[u32], items: usize, first_row: u64) -> RowsOfKeys {
        let mut starts = vec![0; items];
        for item in row_items {
            if let Some(rows) = starts.get_mut(*item as usize) {
                *rows += 1;
            }
        }
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        let mut rows = vec![0; next as usize];
        for (row, item) in row_items.iter().enumerate() {
            if let Some(place) = starts.get_mut(*item as usize) {
                // Rows have numbers of 32 bits.
                rows[*place as usize] = (first_row + row as u64) as u32;
                *place += 1;
            }
        }
        RowsOfKeys { ends: starts, rows }
    }

    fn of(&self, key: usize) -> &[u32] {
        let start = key.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[start as usize..self.ends[key] as usize]
    }
}

impl Runs {
    /// None yet, in files in `directory`. Keys are merged in approximately `memory` bytes.
    pub(crate) fn create(directory: &Path, mix: Mix, layout: Layout, memory: u64) -> Result<Runs> {
        let files = (0..FILES).map(|_| Blob::create(directory));
        Ok(Runs {
            files: files.collect::<io::Result<_>>().map_err(unwritable)?,
            mix,
            layout,
            memory,
            runs: Vec::new(),
        })
    }

    /// Writes those of some keys, which differ, that have rows here as a run, by the ascending [entries](Mix::entry) of all.
    /// The first `written` of them are in a run before, with the sums of all their rows. `with_key` rows have come so far.
    pub(crate) fn write(
        &mut self,
        keys: &Columns,
        entries: &mut [u64],
        rows: &RowsOfKeys,
        written: usize,
        with_key: u64,
    ) -> Result<()> {
        if rows.rows.is_empty() {
            return Ok(());
        }
        let mut rest = entries;
        let partitions = (0..PARTITIONS).map(|number| {
            let end = rest.partition_point(|entry| partition(*entry) <= number);
            rest.split_off_mut(..end).unwrap_or_default()
        });
        let partitions: Vec<&mut [u64]> = partitions.collect();
        let sections = partitions.into_par_iter().enumerate();
        let sections = sections.map_init(Buffers::default, |buffers, (partition, entries)| {
            sort_ties(entries, &keys.digests);
            let of_run = (keys, rows, written);
            buffers.write(self.file(partition), &self.layout, entries, of_run)
        });
        let run = sections.collect::<Result<_>>();
        let run = run.map_err(|e| {
            e.for_want_of(|_| {
                let most = self.layout.disk_bytes(with_key);
                let lacks = most.saturating_sub(self.written());
                // This run's at least.
                lacks.max(self.layout.run_bytes(rows.rows.len() as u64))
            })
        });
        self.runs.push(run?);
        Ok(())
    }

    /// Approximate bytes for keys that are merged.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// What goes with each key.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The file of a partition.
    fn file(&self, partition: usize) -> &Blob {
        &self.files[file_of(partition)]
    }

    /// Bytes that have been written.
    fn written(&self) -> u64 {
        self.files.iter().map(Blob::written).sum()
    }

    /// The rows of all runs.
    pub(crate) fn row_count(&self) -> u64 {
        let sections = self.runs.iter().flatten();
        sections.map(|section| u64::from(section.rows)).sum()
    }

    /// The keys of all runs.
    pub(crate) fn keys(&self) -> u64 {
        let sections = self.runs.iter().flatten();
        sections.map(|section| u64::from(section.keys)).sum()
    }

    /// All digests in parts one after the other, so small that each thread can work on one within the memory.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let memory = self.memory.max(MIN_MERGED) / rayon::current_num_threads() as u64;
        self.parts_within(memory)
    }

    /// All digests in such parts, which take approximately `memory` bytes each.
    fn parts_within(&self, memory: u64) -> Vec<Part> {
        let of_partition = |partition: usize| {
            let keys = self.runs.iter().map(|run| u64::from(run[partition].keys));
            let bytes = keys.sum::<u64>() * (MERGED_BYTES + self.layout.beside() as u64);
            let parts = bytes.div_ceil(memory.max(1));
            // As many as there are first bytes of such bits are always enough.
            let bits = parts.next_power_of_two().ilog2().min(8);
            let rests = 1 << (REST_BITS - bits);
            (0..1 << bits).map(move |part| Part {
                partition,
                rests: part * rests..(part + 1) * rests,
            })
        };
        (0..PARTITIONS).flat_map(of_partition).collect()
    }

    /// The keys of a part, in the memory of an earlier one.
    pub(crate) fn merge<'m>(&self, part: &Part, merged: &'m mut Merged) -> Result<&'m Merged> {
        merged.clear(&self.layout);
        for run in &self.runs {
            let section = &run[part.partition];
            merged.starts.push(merged.keys.len());
            let keys = self.read_keys(section, part, merged)?;
            merged.keys_of_sections.push(keys);
        }
        merged.merge(self.mix);
        Ok(merged)
    }

    /// Reads which keys of a section belong to the part, and adds these.
    fn read_keys(&self, section: &Section, part: &Part, merged: &mut Merged) -> Result<Range<u32>> {
        if section.keys == 0 {
            return Ok(0..0);
        }
        let count = section.keys as usize;
        let length = count * self.layout.key_bytes();
        let place = section.keys_at;
        self.read(part, place, length, &mut merged.bytes)?;
        let (digests, numbers, beside) = self.layout.cut(&merged.bytes, count);
        let rest = |digest: &[u8; 32]| self.mix.tag(digest) & (u32::MAX >> (u32::BITS - REST_BITS));
        let below = |end: u32| digests.partition_point(|digest| rest(digest) < end);
        let keys = below(part.rests.start)..below(part.rests.end);
        let into = &mut merged.keys;
        into.digests.extend_from_slice(&digests[keys.clone()]);
        if self.layout.has_numbers {
            let numbers = numbers[keys.clone()].iter().copied();
            into.numbers.extend(numbers.map(u64::from_le_bytes));
        }
        let each = self.layout.beside();
        into.beside
            .push(&beside[keys.start * each..keys.end * each]);
        Ok(keys.start as u32..keys.end as u32)
    }

    /// Hands every key to `each`, with each of its rows, in any order.
    pub(crate) fn each(&self, mut each: impl FnMut(&[u8; 32], u32)) -> Result<()> {
        let mut merged = Merged::default();
        for part in self.parts() {
            let merged = self.merge(&part, &mut merged)?;
            self.rows(&part, merged, |index, row| {
                each(&merged.digests()[index], row);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// How many distinct keys there are, which of them are frequent among so many rows, and how many are in each group. Fails
    /// if one has different labels, is repeated and must not be, or has values beyond their bounds.
    pub(crate) fn count(&self, rows: u64) -> Result<(u64, Frequent, KeysOfGroups)> {
        let parts = self.parts();
        let least = Frequent::least(rows);
        let counts = parts.par_iter().map_init(
            || (Merged::default(), Zeroizing::default()),
            |(merged, beside), part| {
                let merged = self.merge(part, merged)?;
                let mut groups = KeysOfGroups::new(&self.layout);
                if !self.layout.is_bare() {
                    self.check(part, merged, beside, &mut groups)?;
                }
                let frequent = self.frequent(part, merged, least)?;
                Ok((merged.distinct().count() as u64, frequent, groups))
            },
        );
        let none = || (0, Frequent::default(), KeysOfGroups::new(&self.layout));
        counts.try_reduce(none, |a, b| Ok((a.0 + b.0, a.1.and(b.1), a.2.and(b.2)?)))
    }

    /// The keys of a part that at least so many rows have.
    fn frequent(&self, part: &Part, merged: &Merged, least: u64) -> Result<Frequent> {
        // All rows that a run has beyond one for each key may be of the same.
        let sections = self.runs.iter().map(|run| &run[part.partition]);
        let most = sections.map(|section| u64::from(section.rows - section.keys.saturating_sub(1)));
        // Only few parts, if any, are read again.
        match most.sum::<u64>() < least {
            true => Ok(Frequent::default()),
            false => Ok(Frequent::of(&self.occurrences(part, merged)?, least)),
        }
    }

    /// The rows of each of the merged keys, which are distinct, in [order](Mix).
    pub(crate) fn occurrences(&self, part: &Part, merged: &Merged) -> Result<Vec<Occurrences>> {
        let mut keys = vec![0; merged.keys.len()];
        let mut distinct = 0;
        for same in merged.distinct() {
            same.iter().for_each(|entry| keys[index(*entry)] = distinct);
            distinct += 1;
        }
        let mut found = vec![Occurrences::default(); distinct];
        self.rows(part, merged, |index, row| {
            found[keys[index]].add(row);
            Ok(())
        })?;
        Ok(found)
    }

    /// Checks what goes with the keys of a part, and counts those of each group.
    fn check(
        &self,
        part: &Part,
        merged: &Merged,
        beside: &mut Vec<u8>,
        groups: &mut KeysOfGroups,
    ) -> Result<()> {
        for same in merged.distinct() {
            let first = index(same[0]);
            if let Err((clash, other)) = self.join_all(merged, same, beside) {
                let row = |key| {
                    let rows = self.first_rows(part, merged, |index| index == key)?;
                    Ok(rows[0].map_or(0, u64::from))
                };
                return Err(Error::clashing(clash, [row(first)?, row(other)?], None));
            }
            if let Some(column) = self.layout.beyond(beside) {
                let is_same = |key| same.iter().any(|entry| index(*entry) == key);
                let [first, second] = self.first_rows(part, merged, is_same)?;
                return Err(Error::Beyond {
                    column,
                    has_one_row: second.is_none(),
                    row: first.map_or(0, u64::from),
                    line: None,
                });
            }
            groups.add(beside)?;
        }
        Ok(())
    }

    /// The first two rows of some of the merged keys.
    fn first_rows(
        &self,
        part: &Part,
        merged: &Merged,
        is_one: impl Fn(usize) -> bool,
    ) -> Result<[Option<u32>; 2]> {
        let mut first = [None; 2];
        self.rows(part, merged, |index, row| {
            if let Some(free) = first.iter_mut().find(|row| row.is_none())
                && is_one(index)
            {
                *free = Some(row);
            }
            Ok(())
        })?;
        Ok(first)
    }

    /// Joins what goes with a key in all runs that have it; where it clashes, why and with which of its entries.
    fn join_all(
        &self,
        merged: &Merged,
        same: &[u64],
        beside: &mut Vec<u8>,
    ) -> Result<(), (Clash, usize)> {
        beside.clear();
        beside.extend_from_slice(merged.beside(index(same[0])));
        same[1..].iter().try_for_each(|entry| {
            let (other, later) = (index(*entry), merged.beside(index(*entry)));
            match self.layout.clash(beside, later) {
                Some(clash) => Err((clash, other)),
                None => {
                    self.layout.add(beside, later);
                    Ok(())
                }
            }
        })
    }

    /// What goes with a key in its [bucket](Layout::beside_in_bucket), once keys have been [counted](Runs::count).
    pub(crate) fn beside_in_bucket(&self, merged: &Merged, same: &[u64], beside: &mut Vec<u8>) {
        if self.layout.is_bare() {
            return;
        }
        let joined = self.join_all(merged, same, beside);
        joined.unwrap_or_else(|_| unreachable!("keys that clash are not counted"));
        self.layout.narrow(beside);
    }

    /// Hands the rows of merged keys to `each`: the index of the key among [`Merged::digests`], and a row. Those of one key
    /// come in ascending order.
    pub(crate) fn rows(
        &self,
        part: &Part,
        merged: &Merged,
        mut each: impl FnMut(usize, u32) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        let sections = self.runs.iter().map(|run| &run[part.partition]);
        let of_part = merged.keys_of_sections.iter().zip(&merged.starts);
        for (section, (keys, start)) in sections.zip(of_part) {
            if keys.is_empty() {
                continue;
            }
            let count = section.rows as usize;
            let first_bytes = count.div_ceil(8);
            let length = first_bytes + 4 * count;
            self.read(part, section.rows_at, length, &mut bytes)?;
            let (first, rows) = bytes.split_at(first_bytes);
            let (rows, _) = rows.as_chunks();
            // One more than the key of the row.
            let mut key = 0;
            for (place, row) in rows.iter().enumerate() {
                key += u32::from(first[place / 8] >> (place % 8) & 1);
                if keys.start < key && key <= keys.end {
                    let index = start + (key - 1 - keys.start) as usize;
                    each(index, u32::from_le_bytes(*row))?;
                }
            }
        }
        Ok(())
    }

    fn read(&self, part: &Part, place: u64, length: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let read = self.file(part.partition).read(place, length, bytes);
        read.map_err(Error::Unreadable)
    }

    /// For those who read each of these parts a last time.
    pub(crate) fn read_last(&self, parts: &[Part]) -> ReadLast<'_> {
        let mut left: Vec<_> = self.files.iter().map(|_| AtomicUsize::new(0)).collect();
        for part in parts {
            *left[file_of(part.partition)].get_mut() += 1;
        }
        ReadLast {
            runs: self,
            left,
            emptied: AtomicU64::new(0),
        }
    }

    /// The most rows of a section.
    #[cfg(test)]
    pub(crate) fn longest(&self) -> u64 {
        let sections = self.runs.iter().flatten();
        let rows = sections.map(|section| u64::from(section.rows));
        rows.max().unwrap_or(0)
    }

    /// Bytes written and read so far.
    #[cfg(test)]
    pub(crate) fn traffic(&self) -> [u64; 2] {
        let files = self.files.iter().map(Blob::traffic);
        files.fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
    }
}

/// Gives runs back to the disk, file by file.
pub(crate) struct ReadLast<'a> {
    runs: &'a Runs,
    /// How many parts of each file are still to be read.
    left: Vec<AtomicUsize>,
    /// Bytes of the files that have been emptied.
    emptied: AtomicU64,
}

impl ReadLast<'_> {
    /// A part has been read: with the last one of its file that is emptied.
    pub(crate) fn done(&self, part: &Part) {
        let file = file_of(part.partition);
        // Who empties the file comes after all who have read it.
        if self.left[file].fetch_sub(1, Ordering::AcqRel) == 1 {
            let file = &self.runs.files[file];
            // A file that cannot be emptied takes room, and does no other harm.
            if file.clear().is_ok() {
                self.emptied.fetch_add(file.written(), Ordering::Relaxed);
            }
        }
    }

    /// Bytes that the disk lacks, or the file of buckets where it is that which must not become longer, if so many are in it
    /// already.
    pub(crate) fn missing(&self, in_buckets: u64, cause: &io::Error) -> u64 {
        let runs = self.runs;
        let in_all_buckets = runs.layout.bucket_bytes(runs.keys(), runs.row_count());
        if cause.kind() == io::ErrorKind::FileTooLarge {
            return in_all_buckets.saturating_sub(in_buckets);
        }
        let mut files: Vec<u64> = runs.files.iter().map(Blob::written).collect();
        files.sort_unstable();
        let in_runs: u64 = files.iter().sum();
        let open: u64 = files.iter().rev().take(open_files()).sum();
        let most = in_runs.max(in_all_buckets) + open;
        let there = in_runs - self.emptied.load(Ordering::Relaxed) + in_buckets;
        most.saturating_sub(there)
    }
}

/// The keys of all runs in one part of a partition.
#[derive(Default)]
pub(crate) struct Merged {
    /// Those of one run after the other's, each run's in [order](Mix).
    keys: Columns,
    /// Which keys of each run's section these are, and where they start among all.
    keys_of_sections: Vec<Range<u32>>,
    starts: Vec<usize>,
    /// The [entries](Mix::entry) of all, ascending.
    entries: Vec<u64>,
    bytes: Zeroizing<Vec<u8>>,
}

impl Merged {
    fn clear(&mut self, layout: &Layout) {
        self.keys.reset(layout);
        self.keys_of_sections.clear();
        self.starts.clear();
        self.entries.clear();
    }

    fn merge(&mut self, mix: Mix) {
        let digests = self.keys.digests.iter().enumerate();
        let entries = digests.map(|(index, digest)| mix.entry(digest, index));
        self.entries.extend(entries);
        let of_one_run = self.keys_of_sections.iter().map(ExactSizeIterator::len);
        if self.keys.len() > of_one_run.max().unwrap_or(0) {
            // Ascending runs, which this sort finds and merges.
            self.entries.sort();
            sort_ties(&mut self.entries, &self.keys.digests);
        }
    }

    /// The digests of all runs; a key that several runs have is here as often.
    pub(crate) fn digests(&self) -> &[[u8; 32]] {
        &self.keys.digests
    }

    /// The number that a key is, if keys are numbers.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        self.keys.number(index)
    }

    /// What goes with a key in its run, empty if nothing does.
    fn beside(&self, index: usize) -> &[u8] {
        self.keys.beside.of(index)
    }

    /// The distinct keys in [order](Mix), each as the indices among [`Merged::digests`] that it has.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &[u64]> {
        let digest = |entry: &u64| &self.keys.digests[index(*entry)];
        let same = move |a: &u64, b: &u64| a >> 32 == b >> 32 && digest(a) == digest(b);
        self.entries.chunk_by(same)
    }
}

/// What a thread needs to write the partitions of a run.
#[derive(Default)]
struct Buffers {
    keys: Vec<u8>,
    numbers: Vec<u8>,
    beside: Zeroizing<Vec<u8>>,
    /// Whether each row is the first of its key, in bits.
    first: Vec<u8>,
    rows: Vec<u8>,
}

impl Buffers {
    /// Writes a partition of keys in [order](Mix).
    fn write(
        &mut self,
        file: &Blob,
        layout: &Layout,
        entries: &[u64],
        (from, of_keys, written): (&Columns, &RowsOfKeys, usize),
    ) -> Result<Section> {
        let Buffers {
            keys,
            numbers,
            beside,
            first,
            rows,
        } = self;
        for buffer in [&mut *keys, numbers, beside, first, rows] {
            buffer.clear();
        }
        for (place, entry) in entries.iter().enumerate() {
            if let Some(later) = entries.get(place + AHEAD) {
                prefetch(&from.digests, index(*later));
                prefetch(&of_keys.ends, index(*later));
            }
            let key = index(*entry);
            let of_key = of_keys.of(key);
            if of_key.is_empty() {
                continue;
            }
            keys.extend_from_slice(&from.digests[key]);
            if let Some(number) = from.number(key) {
                numbers.extend_from_slice(&number.to_le_bytes());
            }
            beside.extend_from_slice(from.beside.of(key));
            if key < written {
                layout.clear_sums(beside);
            }
            let place = rows.len() / 4;
            for row in of_key {
                rows.extend_from_slice(&row.to_le_bytes());
            }
            first.resize((rows.len() / 4).div_ceil(8), 0);
            first[place / 8] |= 1 << (place % 8);
        }
        if rows.is_empty() {
            return Ok(Section::default());
        }
        let (distinct, count) = (keys.len() / 32, rows.len() / 4);
        keys.extend_from_slice(numbers);
        keys.extend_from_slice(beside);
        first.extend_from_slice(rows);
        Ok(Section {
            keys_at: file.append(keys).map_err(unwritable)?,
            rows_at: file.append(first).map_err(unwritable)?,
            // Both are at most as many as rows, which have numbers of 32 bits.
            keys: distinct as u32,
            rows: count as u32,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
