//! From rows to sorted runs on disk.

use std::io;
use std::path::Path;

use rayon::prelude::*;
use vesica_kernels::prefetch;
use zeroize::Zeroizing;

use super::{FILES, Mix, PARTITIONS, Record, Runs, Section, Shape, index, sort};
use crate::error::Result;
use crate::labels::Labels;
use crate::number::ValueColumn;
use crate::scratch::{Scratch, unwritable};

/// Rows of a partition that are fetched ahead: they are anywhere among those of a run.
const AHEAD: usize = 16;

/// Fewest rows of a run, whatever the memory: 3 MiB of them. In unit tests, whose tables are small, fewer.
pub(super) const MIN_RUN: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// Bytes in memory for each row of a run that is still to be written, and for its number: with what sorts them.
pub(super) const ROW_BYTES: u64 = 32 + 4 + 8;
pub(super) const NUMBER_BYTES: u64 = 8;

/// Gathers rows, and writes them as runs.
pub(crate) struct RunWriter {
    pub(super) runs: Runs,
    /// The rows of the next run, at most `most`.
    digests: Vec<[u8; 32]>,
    rows: Vec<u32>,
    numbers: Vec<u64>,
    beside: Labels,
    most: usize,
    /// The [entries](Mix::entry) of these rows, while they are sorted.
    entries: Vec<u64>,
    /// Rows so far.
    pushed: u64,
}

impl RunWriter {
    /// Writes keys of this shape, which have values of these columns, to files in `directory`, and uses approximately
    /// `memory` bytes.
    ///
    /// # Panics
    /// If the shape has other columns.
    pub(crate) fn create(
        directory: &Path,
        shape: Shape,
        columns: &[ValueColumn],
        memory: u64,
    ) -> Result<RunWriter> {
        assert_eq!(shape.columns, columns.len(), "the columns of the shape");
        let number_bytes = if shape.has_numbers { NUMBER_BYTES } else { 0 };
        let row_bytes = ROW_BYTES + number_bytes + shape.beside() as u64;
        // The index of an entry has 32 bits.
        let most = (memory / row_bytes).min(1 << 31) as usize;
        // Labels as long as thousands of keys would make the fewest rows of a run many bytes.
        let fewest = (MIN_RUN as u64 * ROW_BYTES / row_bytes).max(1) as usize;
        let files = (0..FILES).map(|_| Scratch::create(directory));
        Ok(RunWriter {
            runs: Runs {
                files: files.collect::<io::Result<_>>().map_err(unwritable)?,
                mix: Mix::random().map_err(unwritable)?,
                shape,
                columns: columns.to_vec(),
                memory,
                runs: Vec::new(),
            },
            digests: Vec::new(),
            rows: Vec::new(),
            numbers: Vec::new(),
            beside: Labels::new(shape.beside()),
            most: most.max(fewest),
            entries: Vec::new(),
            pushed: 0,
        })
    }

    /// Adds the key of a row; rows come in ascending order.
    pub(crate) fn push(&mut self, record: &Record<'_>) -> Result<()> {
        if self.digests.len() == self.most {
            self.write()?;
        }
        self.pushed += 1;
        self.digests.push(record.digest);
        self.rows.push(record.row);
        if self.runs.shape.has_numbers {
            self.numbers.push(record.number);
        }
        self.beside.push(record.beside);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Runs> {
        self.write()?;
        Ok(self.runs)
    }

    /// Bytes that the disk lacks for the rows so far, if each has a key of its own: this run's at least.
    fn missing(&self) -> u64 {
        let shape = self.runs.shape;
        let most = shape.disk_bytes(self.pushed);
        let lacks = most.saturating_sub(self.runs.written());
        lacks.max(shape.run_bytes(self.digests.len() as u64))
    }

    /// Writes the rows so far as a run.
    fn write(&mut self) -> Result<()> {
        if self.digests.is_empty() {
            return Ok(());
        }
        let mix = self.runs.mix;
        let mut starts = [0; PARTITIONS];
        for digest in &self.digests {
            starts[mix.partition(digest)] += 1;
        }
        let lengths = starts;
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        self.entries.resize(self.digests.len(), 0);
        for (index, digest) in self.digests.iter().enumerate() {
            let start = &mut starts[mix.partition(digest)];
            self.entries[*start] = mix.entry(digest, index);
            *start += 1;
        }
        let mut rest = &mut *self.entries;
        let partitions = lengths.map(|length| {
            let (of_partition, others) = std::mem::take(&mut rest).split_at_mut(length);
            rest = others;
            of_partition
        });
        let rows = RowsOfRun {
            runs: &self.runs,
            digests: &self.digests,
            rows: &self.rows,
            numbers: self.runs.shape.has_numbers.then_some(&*self.numbers),
            beside: &self.beside,
        };
        let sections = partitions.into_par_iter().zip(0..PARTITIONS);
        let sections = sections.map_init(Default::default, |buffers, (entries, partition)| {
            rows.write(self.runs.file(partition), entries, buffers)
        });
        let run = sections.collect::<Result<_>>();
        self.runs
            .runs
            .push(run.map_err(|e| e.for_want_of(|_| self.missing()))?);
        self.digests.clear();
        self.rows.clear();
        self.numbers.clear();
        self.beside.truncate(0);
        Ok(())
    }
}

/// The rows of a run that is being written.
struct RowsOfRun<'a> {
    /// The runs before it.
    runs: &'a Runs,
    digests: &'a [[u8; 32]],
    rows: &'a [u32],
    numbers: Option<&'a [u64]>,
    beside: &'a Labels,
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

impl RowsOfRun<'_> {
    /// Writes a partition.
    fn write(&self, file: &Scratch, entries: &mut [u64], buffers: &mut Buffers) -> Result<Section> {
        if entries.is_empty() {
            return Ok(Section::default());
        }
        sort(entries, self.digests);
        let Buffers {
            keys,
            numbers,
            beside,
            first,
            rows,
        } = buffers;
        for buffer in [
            &mut *keys,
            &mut *numbers,
            &mut **beside,
            &mut *first,
            &mut *rows,
        ] {
            buffer.clear();
        }
        first.resize(entries.len().div_ceil(8), 0);
        // The first row of the present key.
        let mut last: Option<usize> = None;
        for (place, entry) in entries.iter().enumerate() {
            if let Some(later) = entries.get(place + AHEAD) {
                prefetch(self.digests, index(*later));
                prefetch(self.rows, index(*later));
            }
            let index = index(*entry);
            let digest = &self.digests[index];
            if let Some(last) = last.filter(|last| self.digests[*last] == *digest) {
                let of_key = beside.len() - self.runs.shape.beside();
                let joined = self.runs.join(&mut beside[of_key..], self.beside.of(index));
                joined.map_err(|clash| {
                    let rows = [last, index].map(|index| Some(self.rows[index]));
                    self.runs.clash(&clash, rows)
                })?;
            } else {
                keys.extend_from_slice(digest);
                if let Some(all) = self.numbers {
                    numbers.extend_from_slice(&all[index].to_le_bytes());
                }
                beside.extend_from_slice(self.beside.of(index));
                first[place / 8] |= 1 << (place % 8);
                last = Some(index);
            }
            rows.extend_from_slice(&self.rows[index].to_le_bytes());
        }
        let count = keys.len() / 32;
        keys.extend_from_slice(numbers);
        keys.extend_from_slice(beside);
        first.extend_from_slice(rows);
        Ok(Section {
            keys_at: file.append(keys).map_err(unwritable)?,
            rows_at: file.append(first).map_err(unwritable)?,
            // Both are at most as many as rows, which have numbers of 32 bits.
            keys: count as u32,
            rows: entries.len() as u32,
        })
    }
}
