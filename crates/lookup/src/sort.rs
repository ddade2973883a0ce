//! Masks in ascending order, with what goes with each, in bounded memory.
//!
//! What does not fit goes to unnamed files as sorted runs, which are merged. It is not encrypted: all of it is to be
//! published.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::header::MASK_BYTES;

/// Fewest entries of a run.
const MIN_RUN: usize = if cfg!(test) { 64 } else { 1 << 14 };
/// Bytes of a run that are read at once.
const READ: usize = 1 << 16;

/// A mask with its payload.
pub(crate) type Entry = (u128, Vec<u8>);

/// Gathers entries.
pub(crate) struct Sorter {
    directory: PathBuf,
    payload: usize,
    most: usize,
    entries: Vec<Entry>,
    runs: Vec<File>,
}

impl Sorter {
    /// For payloads of so many bytes, in about so many bytes of memory.
    pub(crate) fn new(directory: &Path, payload: usize, memory: u64) -> Sorter {
        let entry = size_of::<Entry>() + payload;
        Sorter {
            directory: directory.to_owned(),
            payload,
            most: ((memory / entry as u64) as usize).max(MIN_RUN),
            entries: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, entry: Entry) -> io::Result<()> {
        debug_assert_eq!(entry.1.len(), self.payload);
        if self.entries.len() == self.most {
            self.write()?;
        }
        self.entries.push(entry);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.entries.par_sort_unstable();
        let mut file = BufWriter::new(tempfile::tempfile_in(&self.directory)?);
        for (mask, payload) in self.entries.drain(..) {
            file.write_all(&mask.to_be_bytes())?;
            file.write_all(&payload)?;
        }
        let mut file = file.into_inner().map_err(|e| e.into_error())?;
        file.rewind()?;
        self.runs.push(file);
        Ok(())
    }

    /// Hands all entries to `each`, in order.
    pub(crate) fn finish<E: From<io::Error>>(
        mut self,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.runs.is_empty() {
            self.entries.par_sort_unstable();
            return self.entries.drain(..).try_for_each(each);
        }
        self.write()?;
        drop(self.entries);
        let files = self.runs.drain(..);
        let mut runs: Vec<_> = files
            .map(|run| BufReader::with_capacity(READ, run))
            .collect();
        let mut heap = BinaryHeap::new();
        for (index, run) in runs.iter_mut().enumerate() {
            heap.extend(next(run, self.payload)?.map(|entry| Reverse((entry, index))));
        }
        while let Some(Reverse((entry, index))) = heap.pop() {
            each(entry)?;
            let entry = next(&mut runs[index], self.payload)?;
            heap.extend(entry.map(|entry| Reverse((entry, index))));
        }
        Ok(())
    }
}

/// The next entry of a run.
fn next(run: &mut BufReader<File>, payload: usize) -> io::Result<Option<Entry>> {
    let mut mask = [0; MASK_BYTES];
    match run.read_exact(&mut mask) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut rest = vec![0; payload];
    run.read_exact(&mut rest)?;
    Ok(Some((u128::from_be_bytes(mask), rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_whether_they_fit_or_not() {
        let directory = tempfile::tempdir().unwrap();
        for (count, payload) in [(0, 0), (50, 3), (1000, 0), (1000, 3)] {
            let mut sorter = Sorter::new(directory.path(), payload, 0);
            let mut expected: Vec<Entry> = Vec::new();
            for i in 0..count {
                let mask = u128::from(i * 7919 % 1009u32) << 64;
                let entry = (mask, vec![i as u8; payload]);
                expected.push(entry.clone());
                sorter.push(entry).unwrap();
            }
            expected.sort();
            let mut sorted = Vec::new();
            let finished = sorter.finish(|entry| {
                sorted.push(entry);
                Ok::<_, io::Error>(())
            });
            finished.unwrap();
            assert!(sorted == expected, "{count}");
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
