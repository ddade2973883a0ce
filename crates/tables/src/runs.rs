//! Keys of rows, sorted on disk: the external sort of a table's keys.
//!
//! Rows come in any number. As many as fit into memory are sorted, repetitions found, and written as a run: for each of
//! [`PARTITIONS`] partitions the distinct digests in [order](Mix) and the rows of each. [`Runs::merge`] brings the runs of
//! a part of a partition together, which fits into the cache unless there are very many rows. All of this is done side by
//! side on all threads, a partition each.
//!
//! A run that has a key in every row takes 4 bytes per row, so that memory does not depend on how often keys repeat.

mod write;

pub(crate) use write::RunWriter;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rayon::prelude::*;
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result, ValueProblem};
use crate::labels::{Labels, differ};
use crate::number::ValueColumn;
use crate::repeated::{Frequent, Occurrences};
use crate::scratch::Scratch;

/// Bits by which keys are told apart before they are sorted.
const PARTITION_BITS: u32 = 10;

/// Parts of a run, by the first bits of digests.
const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Files of runs, each of as many partitions: what is of no more use goes file by file.
const FILES: usize = 32;

/// Bytes in memory for each key of the runs that are merged.
const MERGED_BYTES: u64 = 32 + 8 + 8 + 4 + 4 + 8;

/// Least memory for keys that are merged, whatever the limit: 2 MiB.
const MIN_MERGED: u64 = 2 << 20;

/// Bytes on disk for each row, besides its key: in a run, and in a bucket.
const RUN_ROW_BYTES: u64 = 4;
const BUCKET_ROW_BYTES: u64 = 8;

/// The key of a row.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) digest: [u8; 32],
    pub(crate) row: u32,
    /// The key itself, if keys are numbers; else 0.
    pub(crate) number: u64,
    /// The texts that go with it, and after these its [values](add_values); empty if there are none.
    pub(crate) beside: &'a [u8],
}

/// Bytes of a value of a row, and of the sum of those that a key has in a run: fewer than 2^32 terms of 64 bits.
const SUM_BYTES: usize = 16;

/// Bytes of the value of a key.
pub(crate) const VALUE_BYTES: usize = 8;

/// Appends the values of a row to what goes with its key.
pub(crate) fn add_values(beside: &mut Vec<u8>, values: impl IntoIterator<Item = i128>) {
    beside.extend(values.into_iter().flat_map(i128::to_le_bytes));
}

/// What goes with the digest of a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    /// Whether keys are numbers.
    pub(crate) has_numbers: bool,
    /// Bytes of a label.
    pub(crate) label: usize,
    /// Columns of values.
    pub(crate) columns: usize,
}

impl Shape {
    /// Bytes of what goes with a key in a run: its label, and the sum of each column.
    pub(crate) fn beside(self) -> usize {
        self.label + SUM_BYTES * self.columns
    }

    /// Bytes of so many rows that have a key each, in runs.
    fn run_bytes(self, rows: u64) -> u64 {
        rows.saturating_mul(self.key_bytes() as u64 + RUN_ROW_BYTES)
    }

    /// Bytes of keys and rows in buckets.
    fn bucket_bytes(self, keys: u64, rows: u64) -> u64 {
        let keys = keys.saturating_mul(self.in_buckets().key_bytes() as u64);
        keys.saturating_add(rows.saturating_mul(BUCKET_ROW_BYTES))
    }

    /// The most bytes that are on the disk at once for so many rows that have a key each: in runs, in buckets, or while runs
    /// become buckets on all threads.
    pub(crate) fn disk_bytes(self, rows: u64) -> u64 {
        let runs = self.run_bytes(rows);
        let most = runs.max(self.bucket_bytes(rows, rows));
        most.saturating_add(runs / FILES as u64 * open_files() as u64)
    }

    /// The shape of keys in buckets, whose sums are known: there is nothing to add any more, and values are bytes as labels
    /// are.
    pub(crate) fn in_buckets(self) -> Shape {
        Shape {
            label: self.label + VALUE_BYTES * self.columns,
            columns: 0,
            ..self
        }
    }

    /// Bytes of a key's number on disk.
    fn number_bytes(self) -> usize {
        if self.has_numbers { 8 } else { 0 }
    }

    /// Bytes of a key on disk.
    pub(crate) fn key_bytes(self) -> usize {
        32 + self.number_bytes() + self.beside()
    }

    /// Cuts so many keys, one column after the other, into digests, numbers and what goes with them.
    pub(crate) fn columns(self, keys: &[u8], count: usize) -> (&[[u8; 32]], &[[u8; 8]], &[u8]) {
        let (digests, rest) = keys.split_at(32 * count);
        let (numbers, beside) = rest.split_at(self.number_bytes() * count);
        (digests.as_chunks().0, numbers.as_chunks().0, beside)
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

/// Why what goes with a key in two rows or runs does not go together.
enum Clash {
    /// Its labels are different.
    Labels,
    /// It is repeated, and this column's values must not be added.
    Repeated(usize),
}

/// The sums in what goes with a key, after its label.
fn sums_of(beside: &[u8], label: usize) -> impl Iterator<Item = i128> {
    let (sums, _) = beside[label..].as_chunks();
    sums.iter().map(|sum| i128::from_le_bytes(*sum))
}

/// Sorted runs of the keys of a table.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Each of as many partitions, one after the other.
    files: Vec<Scratch>,
    mix: Mix,
    shape: Shape,
    /// What the values of keys are.
    columns: Vec<ValueColumn>,
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

/// Part of a partition: digests whose [tag](Mix::tag) begins with some bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    partition: usize,
    /// The tags, as numbers of 33 bits.
    tags: Range<u64>,
}

impl Runs {
    /// Approximate bytes for keys that are merged.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// What goes with each key.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// The file of a partition.
    fn file(&self, partition: usize) -> &Scratch {
        &self.files[file_of(partition)]
    }

    /// Bytes that have been written.
    fn written(&self) -> u64 {
        self.files.iter().map(Scratch::written).sum()
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
            let bytes = keys.sum::<u64>() * (MERGED_BYTES + self.shape.beside() as u64);
            let parts = bytes.div_ceil(memory.max(1));
            // As many as there are first bytes of a tag are always enough.
            let bits = parts.next_power_of_two().ilog2().min(8);
            let tags = 1 << (u32::BITS - bits);
            (0..1 << bits).map(move |part| Part {
                partition,
                tags: part * tags..(part + 1) * tags,
            })
        };
        (0..PARTITIONS).flat_map(of_partition).collect()
    }

    /// The keys of a part, in the memory of an earlier one.
    pub(crate) fn merge<'m>(&self, part: &Part, merged: &'m mut Merged) -> Result<&'m Merged> {
        merged.clear(self.shape.beside());
        for run in &self.runs {
            let section = &run[part.partition];
            merged.starts.push(merged.digests.len());
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
        let length = count * self.shape.key_bytes();
        let place = section.keys_at;
        self.read(part, place, length, &mut merged.bytes)?;
        let (digests, numbers, beside) = self.shape.columns(&merged.bytes, count);
        let below =
            |end: u64| digests.partition_point(|digest| u64::from(self.mix.tag(digest)) < end);
        let keys = below(part.tags.start)..below(part.tags.end);
        merged.digests.extend_from_slice(&digests[keys.clone()]);
        if self.shape.has_numbers {
            let numbers = numbers[keys.clone()].iter().copied();
            merged.numbers.extend(numbers.map(u64::from_le_bytes));
        }
        let each = self.shape.beside();
        merged
            .beside
            .push(&beside[keys.start * each..keys.end * each]);
        Ok(keys.start as u32..keys.end as u32)
    }

    /// Hands every key to `each`, with each of its rows, in any order.
    pub(crate) fn each(&self, mut each: impl FnMut(&[u8; 32], u32)) -> Result<()> {
        let mut merged = Merged::default();
        for part in self.parts() {
            let merged = self.merge(&part, &mut merged)?;
            self.rows(&part, merged, |index, row| {
                each(&merged.digests[index], row);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// How many distinct keys there are, and which of them are frequent among so many rows. Fails if one has different
    /// labels, is repeated and must not be, or has values beyond their bounds.
    pub(crate) fn count(&self, rows: u64) -> Result<(u64, Frequent)> {
        let parts = self.parts();
        let least = Frequent::least(rows);
        let counts = parts.par_iter().map_init(
            || (Merged::default(), Zeroizing::default()),
            |(merged, beside), part| {
                let merged = self.merge(part, merged)?;
                if self.shape.beside() > 0 {
                    self.check(part, merged, beside)?;
                }
                let frequent = self.frequent(part, merged, least)?;
                Ok((merged.distinct().count() as u64, frequent))
            },
        );
        let none = || (0, Frequent::default());
        counts.try_reduce(none, |a, b| Ok((a.0 + b.0, a.1.and(b.1))))
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
        let mut keys = vec![0; merged.digests.len()];
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

    /// Checks what goes with the keys of a part.
    fn check(&self, part: &Part, merged: &Merged, beside: &mut Vec<u8>) -> Result<()> {
        for same in merged.distinct() {
            let first = index(same[0]);
            if let Err((clash, other)) = self.join_all(merged, same, beside) {
                let row = |key| {
                    let rows = self.first_rows(part, merged, |index| index == key)?;
                    Ok(rows[0])
                };
                return Err(self.clash(&clash, [row(first)?, row(other)?]));
            }
            let sums = sums_of(beside, self.shape.label).zip(&self.columns);
            let mut beyond = sums.filter(|(sum, column)| column.within(*sum).is_none());
            if let Some((_, column)) = beyond.next() {
                let is_same = |key| same.iter().any(|entry| index(*entry) == key);
                let [first, second] = self.first_rows(part, merged, is_same)?;
                let row = first.map_or(0, u64::from);
                return Err(column.beyond(second.is_none()).at_row(row + 1, None));
            }
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
            let other = index(*entry);
            self.join(beside, merged.beside(other))
                .map_err(|clash| (clash, other))
        })
    }

    /// Adds what another row or run has for a key.
    fn join(&self, beside: &mut [u8], other: &[u8]) -> Result<(), Clash> {
        let (label, sums) = beside.split_at_mut(self.shape.label);
        let (other_label, other_sums) = other.split_at(self.shape.label);
        if label != other_label {
            return Err(Clash::Labels);
        }
        let (sums, other_sums) = (sums.as_chunks_mut().0, other_sums.as_chunks().0);
        for (column, (sum, other)) in sums.iter_mut().zip(other_sums).enumerate() {
            if !self.columns[column].sums_repeated {
                return Err(Clash::Repeated(column));
            }
            *sum = (i128::from_le_bytes(*sum) + i128::from_le_bytes(*other)).to_le_bytes();
        }
        Ok(())
    }

    /// The error of a key for its first row, and the row that clashes.
    fn clash(&self, clash: &Clash, [first, row]: [Option<u32>; 2]) -> Error {
        let [first, row] = [first, row].map(|row| row.map_or(0, u64::from));
        match clash {
            Clash::Labels => differ(first, row, None),
            Clash::Repeated(column) => self.columns[*column]
                .wrong(ValueProblem::Repeated)
                .at_row(row + 1, None),
        }
    }

    /// What goes with a key in its [bucket](Shape::in_buckets), once keys have been [counted](Runs::count).
    pub(crate) fn beside_in_bucket(&self, merged: &Merged, same: &[u64], beside: &mut Vec<u8>) {
        if self.shape.beside() == 0 {
            return;
        }
        let joined = self.join_all(merged, same, beside);
        joined.unwrap_or_else(|_| unreachable!("keys that clash are not counted"));
        let label = self.shape.label;
        for column in 0..self.shape.columns {
            let from = label + SUM_BYTES * column;
            // A sum within its bound has its value's bytes first.
            beside.copy_within(from..from + VALUE_BYTES, label + VALUE_BYTES * column);
        }
        beside.truncate(self.shape.in_buckets().beside());
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
        read.map_err(|e| Error::new(ErrorKind::Scratch(e)))
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

    /// Bytes written and read so far.
    #[cfg(test)]
    pub(crate) fn traffic(&self) -> [u64; 2] {
        let files = self.files.iter().map(Scratch::traffic);
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
        let in_all_buckets = runs.shape.bucket_bytes(runs.keys(), runs.row_count());
        if cause.kind() == io::ErrorKind::FileTooLarge {
            return in_all_buckets.saturating_sub(in_buckets);
        }
        let mut files: Vec<u64> = runs.files.iter().map(Scratch::written).collect();
        files.sort_unstable();
        let in_runs: u64 = files.iter().sum();
        let open: u64 = files.iter().rev().take(open_files()).sum();
        let most = in_runs.max(in_all_buckets) + open;
        let there = in_runs - self.emptied.load(Ordering::Relaxed) + in_buckets;
        most.saturating_sub(there)
    }
}

/// The keys of all runs in one part of a partition.
pub(crate) struct Merged {
    /// Those of one run after the other's, each run's in [order](Mix).
    digests: Vec<[u8; 32]>,
    numbers: Vec<u64>,
    beside: Labels,
    /// Which keys of each run's section these are, and where they start among all.
    keys_of_sections: Vec<Range<u32>>,
    starts: Vec<usize>,
    /// The [entries](Mix::entry) of all, ascending.
    entries: Vec<u64>,
    bytes: Zeroizing<Vec<u8>>,
}

impl Default for Merged {
    fn default() -> Merged {
        Merged {
            digests: Vec::new(),
            numbers: Vec::new(),
            beside: Labels::new(0),
            keys_of_sections: Vec::new(),
            starts: Vec::new(),
            entries: Vec::new(),
            bytes: Zeroizing::default(),
        }
    }
}

impl Merged {
    /// Makes room for keys with so many bytes beside them.
    fn clear(&mut self, beside: usize) {
        self.digests.clear();
        self.numbers.clear();
        self.beside.reset(beside);
        self.keys_of_sections.clear();
        self.starts.clear();
        self.entries.clear();
    }

    fn merge(&mut self, mix: Mix) {
        let digests = self.digests.iter().enumerate();
        let entries = digests.map(|(index, digest)| mix.entry(digest, index));
        self.entries.extend(entries);
        if self.digests.len()
            > self
                .keys_of_sections
                .iter()
                .map(|keys| keys.len())
                .max()
                .unwrap_or(0)
        {
            // Ascending runs, which this sort finds and merges.
            self.entries.sort();
            sort_ties(&mut self.entries, &self.digests);
        }
    }

    /// The digests of all runs; a key that several runs have is here as often.
    pub(crate) fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// The number that a key is, if keys are numbers.
    pub(crate) fn number(&self, index: usize) -> Option<u64> {
        self.numbers.get(index).copied()
    }

    /// What goes with a key in its run, empty if nothing does.
    fn beside(&self, index: usize) -> &[u8] {
        self.beside.of(index)
    }

    /// The distinct keys in [order](Mix), each as the indices among [`Merged::digests`] that it has.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = &[u64]> {
        let digest = |entry: &u64| &self.digests[index(*entry)];
        let same = move |a: &u64, b: &u64| a >> 32 == b >> 32 && digest(a) == digest(b);
        self.entries.chunk_by(same)
    }
}

/// The index in an [entry](Mix::entry).
pub(crate) fn index(entry: u64) -> usize {
    entry as u32 as usize
}

/// The order of keys: that of the first 64 bits of their digests times a random odd number, and of the digests themselves
/// where these are the same.
///
/// Digests are hashes of keys without a secret, so that whoever puts rows into the table could look for keys whose digests
/// begin alike, and fill one partition with them. Of any two digests that differ in these bits, the products agree in their
/// first k bits for at most 2^(1 - k) of the numbers (M. Dietzfelbinger and others, *A Reliable Randomized Algorithm for the
/// Closest-Pair Problem*, Journal of Algorithms 25, 1997).
#[derive(Clone, Copy)]
struct Mix(u64);

impl Mix {
    fn random() -> io::Result<Mix> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Mix(u64::from_le_bytes(bytes) | 1))
    }

    fn of(self, digest: &[u8; 32]) -> u64 {
        leading(digest).wrapping_mul(self.0)
    }

    fn partition(self, digest: &[u8; 32]) -> usize {
        (self.of(digest) >> (u64::BITS - PARTITION_BITS)) as usize
    }

    /// The bits after those that name the partition.
    fn tag(self, digest: &[u8; 32]) -> u32 {
        (self.of(digest) << PARTITION_BITS >> 32) as u32
    }

    /// What a digest of a partition is sorted by: its tag, and its index.
    fn entry(self, digest: &[u8; 32], index: usize) -> u64 {
        u64::from(self.tag(digest)) << 32 | index as u64
    }
}

/// Does not show the number.
impl std::fmt::Debug for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mix")
    }
}

fn leading(digest: &[u8; 32]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(bytes)
}

/// Puts the entries of a partition in the order of their digests, and of their indices where these are the same.
fn sort(entries: &mut [u64], digests: &[[u8; 32]]) {
    entries.sort_unstable();
    sort_ties(entries, digests);
}

/// The same for entries in ascending order.
fn sort_ties(entries: &mut [u64], digests: &[[u8; 32]]) {
    for tied in entries.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
        if tied.len() > 1 {
            tied.sort_by_key(|entry| digests[index(*entry)]);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
