//! What the peer has handed over for keys, and the way from there to rows.
//!
//! Labels come bucket by bucket, in the order of its keys. Where keys are in memory and their labels fit there, they stay
//! there. Otherwise they are written as they come, and once all are there, each row that matches gets its own, in a file
//! with a part for each range of rows ([`Ranges`]): as many rows as have labels that fit into memory. Both files are
//! encrypted and have no names.

use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use zeroize::Zeroizing;

use crate::blob::{Blob, TAG, unwritable};
use crate::bucket_file::{BucketFile, CHUNK_BYTES, Chunk};
use crate::error::Result;
use crate::rows::RowSet;

/// Fewest bytes of labels of a range, whatever the memory.
const MIN_RANGE: u64 = 1 << 20;

/// What was handed over.
pub(crate) enum Kept {
    /// The label of each key in memory, one after the other.
    InMemory(Zeroizing<Vec<u8>>),
    /// Those of each bucket's keys.
    OnDisk(BucketFile),
    /// Those of the rows that match.
    ByRow(Ranges),
}

/// Labels of the rows that match.
pub(crate) struct Ranges {
    blob: Blob,
    bytes: usize,
    /// Rows of a range.
    range: u64,
    /// For each range records of a row, in four bytes, and its label.
    ranges: Vec<Vec<Chunk>>,
    unreadable: usize,
    loaded: Mutex<Loaded>,
}

/// The labels of one range.
#[derive(Default)]
struct Loaded {
    number: Option<usize>,
    labels: Zeroizing<Vec<u8>>,
}

impl Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranges").finish_non_exhaustive()
    }
}

impl Ranges {
    /// Those of the rows in `matched`, of `bytes` bytes each. `unreadable` counts labels that are none, and `rows_of` hands each row of a bucket to
    /// a function, with the index of its key in the bucket. Takes approximately `memory` bytes, and a label of each key of
    /// a bucket.
    pub(crate) fn new(
        keys: &BucketFile,
        bytes: usize,
        directory: &Path,
        matched: &RowSet,
        memory: u64,
        unreadable: impl Fn(&[u8]) -> usize,
        rows_of: impl Fn(usize, &mut dyn FnMut(usize, u32) -> Result<()>) -> Result<()>,
    ) -> Result<Ranges> {
        let record = 4 + bytes;
        let range = memory.max(MIN_RANGE) / bytes as u64;
        let range = range.clamp(1, matched.rows().max(1));
        let count = matched.rows().div_ceil(range) as usize;
        // As many bytes for what is still to be written as for a range.
        let at_once = memory.max(MIN_RANGE) as usize / count.max(1);
        let at_once = at_once.min(CHUNK_BYTES) / record * record;
        let mut pending = vec![Zeroizing::new(Vec::new()); count];
        let mut all = Ranges {
            blob: Blob::create(directory).map_err(unwritable)?,
            bytes,
            range,
            ranges: vec![Vec::new(); count],
            unreadable: 0,
            loaded: Mutex::default(),
        };
        for bucket in 0..keys.buckets() {
            let labels = keys.read(bucket)?;
            all.unreadable += unreadable(&labels);
            rows_of(bucket, &mut |key, row| {
                if !matched.contains(row.into()) {
                    return Ok(());
                }
                let number = (u64::from(row) / range) as usize;
                let rows = &mut pending[number];
                if rows.capacity() == 0 {
                    rows.reserve_exact(at_once.max(record) + TAG);
                }
                rows.extend_from_slice(&row.to_le_bytes());
                rows.extend_from_slice(&labels[key * bytes..(key + 1) * bytes]);
                match rows.len() >= at_once {
                    true => all.write(number, rows),
                    false => Ok(()),
                }
            })?;
        }
        for (number, rows) in pending.iter_mut().enumerate() {
            all.write(number, rows)?;
        }
        Ok(all)
    }

    /// Writes records of a range, and leaves none.
    fn write(&mut self, number: usize, rows: &mut Vec<u8>) -> Result<()> {
        let bytes = rows.len();
        if bytes > 0 {
            let place = self.blob.append(rows).map_err(unwritable)?;
            self.ranges[number].push(Chunk { place, bytes });
            rows.clear();
        }
        Ok(())
    }

    /// How many keys have labels that are none.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// The label of a row, zeros if it does not match.
    pub(crate) fn label(&self, row: u64) -> Result<Vec<u8>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (row / self.range) as usize;
        if loaded.number != Some(number) {
            loaded.number = None;
            self.load(number, &mut loaded.labels)?;
            loaded.number = Some(number);
        }
        let start = (row % self.range) as usize * self.bytes;
        Ok(loaded.labels[start..start + self.bytes].to_vec())
    }

    fn load(&self, number: usize, labels: &mut Zeroizing<Vec<u8>>) -> Result<()> {
        let all = self.range as usize * self.bytes;
        labels.clear();
        labels.resize(all, 0);
        let mut block = Zeroizing::new(Vec::new());
        for chunk in self.ranges.get(number).into_iter().flatten() {
            chunk.read(&self.blob, &mut block)?;
            for record in block.chunks_exact(4 + self.bytes) {
                let (row, label) = record.split_at(4);
                let row = row
                    .iter()
                    .rev()
                    .fold(0, |row, byte| row << 8 | u64::from(*byte));
                let start = (row % self.range) as usize * self.bytes;
                labels[start..start + self.bytes].copy_from_slice(label);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys in three buckets with a few rows each, and labels that name the key.
    #[test]
    fn every_row_gets_the_label_of_its_key() {
        let rows = 50_000u32;
        for (bytes, memory) in [(40, 0), (40, 1 << 30), (4096, 1 << 22)] {
            let directory = std::env::temp_dir();
            // Row r has key r / 2 * 7919 mod a few thousand; every fifth has none.
            let key = |row: u32| (row / 2 * 7919 % 3001) as usize;
            let label = |key: usize| {
                let mut label = vec![0; bytes];
                label[..8].copy_from_slice(&(key as u64 + 1).to_le_bytes());
                label
            };
            let mut keys = BucketFile::create(&directory).unwrap();
            for bucket in [2, 0, 1] {
                let labels: Vec<u8> = (bucket..3001).step_by(3).flat_map(label).collect();
                keys.add(bucket, &labels).unwrap();
            }
            let mut matched = RowSet::none(rows.into());
            let matches = |row: u32| row % 5 != 4 && key(row) % 4 != 1;
            (0..rows).for_each(|row| matched.set(row.into(), matches(row)));
            let rows_of = |bucket: usize, each: &mut dyn FnMut(usize, u32) -> Result<()>| {
                let of_bucket = (0..rows).filter(|row| row % 5 != 4 && key(*row) % 3 == bucket);
                of_bucket
                    .into_iter()
                    .try_for_each(|row| each(key(row) / 3, row))
            };
            let firsts = |labels: &[u8]| {
                let labels = labels.chunks(bytes);
                labels.filter(|label| label[0] % 2 == 1).count()
            };
            let handed =
                Ranges::new(&keys, bytes, &directory, &matched, memory, firsts, rows_of).unwrap();
            assert_eq!(handed.unreadable(), 3001 / 2 + 1);
            let ranges = handed.ranges.len();
            assert_eq!(ranges > 1, memory < 1 << 30, "{ranges}");
            for row in 0..rows {
                let expected = match matches(row) {
                    true => label(key(row)),
                    false => vec![0; bytes],
                };
                assert!(handed.label(row.into()).unwrap() == expected, "{row}");
            }
        }
    }
}
