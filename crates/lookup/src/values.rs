//! The values that a client has got: in memory as far as they fit there, and else in encrypted files without names.
//!
//! What does not fit is written as a run in the order of digests. Runs of about one length become one, so that the number of
//! runs is about the logarithm of their length, and that of the times that a value is written. The values of many digests are
//! found by reading each block of a run at most once.
//!
//! Values in memory are not wiped: a tree moves them about. What is read back from files, and copied to be used, is.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};

use vesica_keys::{Blob, Error as KeysError, TAG};
use vesica_primitives::voprf::OUTPUT_BYTES;
use vesica_session::Interrupt;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::header::Value;

/// Bytes of a digest and its value.
const RECORD: usize = 32 + OUTPUT_BYTES;
/// Bytes of memory for a value: nodes of a tree are half full at least.
const IN_MEMORY: u64 = 2 * RECORD as u64;
/// Records that are read at once.
const AT_ONCE: usize = 256;
/// Values that are in memory at most, whatever that is: 3 MiB; in unit tests, which have few, fewer.
const MIN_IN_MEMORY: u64 = if cfg!(test) { AT_ONCE as u64 } else { 1 << 14 };
/// Digests that are looked for before the next look at the interrupt.
const BETWEEN_CHECKS: usize = 1 << 12;

/// A digest and its value.
type Record = Zeroizing<[u8; RECORD]>;

fn record(digest: &[u8; 32], value: &Value) -> Record {
    let mut record = Zeroizing::new([0; RECORD]);
    let (head, rest) = record.split_at_mut(32);
    head.copy_from_slice(digest);
    rest.copy_from_slice(value);
    record
}

/// Records in ascending order of their digests.
struct Block {
    first: [u8; 32],
    place: u64,
    records: usize,
}

/// Blocks in ascending order, in a file of their own.
struct Run {
    blob: Blob,
    blocks: Vec<Block>,
    records: u64,
}

impl Run {
    /// Writes records, which ascend, to a file in `directory`.
    fn write(
        directory: &Path,
        interrupt: &Interrupt,
        records: impl Iterator<Item = io::Result<Record>>,
    ) -> Result<Run, Error> {
        let mut run = Run {
            blob: Blob::create(directory).map_err(KeysError::Unwritable)?,
            blocks: Vec::new(),
            records: 0,
        };
        let mut block = Vec::with_capacity(AT_ONCE * RECORD + TAG);
        for record in records {
            block.extend_from_slice(&*record.map_err(KeysError::Unreadable)?);
            if block.len() == AT_ONCE * RECORD {
                interrupt.check()?;
                run.append(&mut block)?;
            }
        }
        if !block.is_empty() {
            run.append(&mut block)?;
        }
        Ok(run)
    }

    /// Adds a block, and leaves none of its bytes.
    fn append(&mut self, block: &mut Vec<u8>) -> Result<(), Error> {
        let first = block[..32].try_into().expect("32 bytes");
        let records = block.len() / RECORD;
        let place = self.blob.append(block).map_err(KeysError::Unwritable)?;
        block.clear();
        self.blocks.push(Block {
            first,
            place,
            records,
        });
        self.records += records as u64;
        Ok(())
    }

    fn read(&self, block: &Block, records: &mut Zeroizing<Vec<u8>>) -> io::Result<()> {
        #[cfg(test)]
        tests::READ.set(tests::READ.get() + 1);
        self.blob.read(block.place, block.records * RECORD, records)
    }

    /// All records, ascending.
    fn iter(&self) -> impl Iterator<Item = io::Result<Record>> {
        let mut records: Zeroizing<Vec<u8>> = Zeroizing::default();
        let (mut blocks, mut next) = (self.blocks.iter(), 0);
        iter::from_fn(move || {
            if next == records.len() {
                if let Err(error) = self.read(blocks.next()?, &mut records) {
                    return Some(Err(error));
                }
                next = 0;
            }
            let mut record = Zeroizing::new([0; RECORD]);
            record.copy_from_slice(&records[next..][..RECORD]);
            next += RECORD;
            Some(Ok(record))
        })
    }

    /// Finds the values of the digests in this order, which is ascending.
    fn find(
        &self,
        digests: &[[u8; 32]],
        order: &[usize],
        known: &mut [Option<Value>],
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let mut records: Zeroizing<Vec<u8>> = Zeroizing::default();
        let mut loaded = None;
        for place in order {
            let digest = &digests[*place];
            let after = self.blocks.partition_point(|block| block.first <= *digest);
            let Some(number) = after.checked_sub(1) else {
                continue;
            };
            if loaded != Some(number) {
                interrupt.check()?;
                let read = self.read(&self.blocks[number], &mut records);
                read.map_err(KeysError::Unreadable)?;
                loaded = Some(number);
            }
            let (records, _) = records.as_chunks::<RECORD>();
            if let Ok(found) = records.binary_search_by(|record| record[..32].cmp(digest)) {
                known[*place] = records[found][32..].try_into().ok();
            }
        }
        Ok(())
    }
}

/// The records of two runs as one.
fn merge(a: &Run, b: &Run) -> impl Iterator<Item = io::Result<Record>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    iter::from_fn(move || match (a.peek(), b.peek()) {
        (None, _) => b.next(),
        (Some(Ok(first)), Some(Ok(other))) if other[..32] < first[..32] => b.next(),
        _ => a.next(),
    })
}

/// Values by their digests.
pub(crate) struct Values {
    recent: BTreeMap<[u8; 32], Value>,
    /// The others, each run with at least twice as many as the next.
    runs: Vec<Run>,
    memory: u64,
    directory: PathBuf,
    interrupt: Interrupt,
}

impl Values {
    /// None yet. What does not fit into about `memory` bytes goes to files in `directory`. The interrupt ends whatever reads
    /// or writes these, but for [`Values::write`].
    pub(crate) fn new(memory: u64, directory: &Path, interrupt: &Interrupt) -> Values {
        Values {
            recent: BTreeMap::new(),
            runs: Vec::new(),
            memory,
            directory: directory.to_owned(),
            interrupt: interrupt.clone(),
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.recent.clear();
        self.runs.clear();
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        let spilled: u64 = self.runs.iter().map(|run| run.records).sum();
        spilled + self.recent.len() as u64
    }

    /// How many are in memory at most, in whole blocks.
    fn fit(&self) -> u64 {
        let fit = (self.memory / IN_MEMORY).max(MIN_IN_MEMORY);
        fit - fit % AT_ONCE as u64
    }

    /// Adds the value of a digest that has none yet, to those in memory.
    pub(crate) fn insert(&mut self, digest: [u8; 32], value: Value) {
        self.recent.insert(digest, value);
    }

    /// Writes what is in memory to a file if it is as much as fits there. All stays where it is if that fails.
    pub(crate) fn make_room(&mut self) -> Result<(), Error> {
        if (self.recent.len() as u64) < self.fit() {
            return Ok(());
        }
        let records = self.recent.iter();
        let records = records.map(|(digest, value)| Ok(record(digest, value)));
        let run = Run::write(&self.directory, &self.interrupt, records)?;
        self.runs.push(run);
        self.recent.clear();
        while let [.., a, b] = &self.runs[..]
            && a.records < 2 * b.records
        {
            let run = Run::write(&self.directory, &self.interrupt, merge(a, b))?;
            self.runs.truncate(self.runs.len() - 2);
            self.runs.push(run);
        }
        Ok(())
    }

    /// For each digest its value, if it is known.
    pub(crate) fn of(&self, digests: &[[u8; 32]]) -> Result<Zeroizing<Vec<Option<Value>>>, Error> {
        let mut known = Zeroizing::new(Vec::with_capacity(digests.len()));
        for digests in digests.chunks(BETWEEN_CHECKS) {
            self.interrupt.check()?;
            known.extend(
                digests
                    .iter()
                    .map(|digest| self.recent.get(digest).copied()),
            );
        }
        if self.runs.is_empty() {
            return Ok(known);
        }
        let mut order: Vec<usize> = (0..digests.len()).collect();
        order.retain(|place| known[*place].is_none());
        order.sort_unstable_by_key(|place| &digests[*place]);
        for run in &self.runs {
            run.find(digests, &order, &mut known, &self.interrupt)?;
        }
        Ok(known)
    }

    /// Writes digests and values one after the other, in any order, whatever interrupts the rest.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (digest, value) in &self.recent {
            out.write_all(digest)?;
            out.write_all(value)?;
        }
        let mut records = Zeroizing::default();
        for run in &self.runs {
            for block in &run.blocks {
                run.read(block, &mut records)?;
                out.write_all(&records)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Blocks that this thread has read.
        pub(super) static READ: Cell<u64> = const { Cell::new(0) };
    }

    fn digest(i: u32) -> [u8; 32] {
        *blake3::hash(&i.to_le_bytes()).as_bytes()
    }

    fn value(i: u32) -> Value {
        let mut value = [7; OUTPUT_BYTES];
        value[..4].copy_from_slice(&i.to_le_bytes());
        value
    }

    #[test]
    fn every_value_is_found_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        for memory in [0, 1 << 17, u64::MAX] {
            let mut values = Values::new(memory, place.path(), &Interrupt::new());
            for i in 0..3000 {
                values.insert(digest(i), value(i));
                values.make_room().unwrap();
                assert!((values.recent.len() as u64) < values.fit());
            }
            assert_eq!(values.len(), 3000);
            assert_eq!(values.runs.is_empty(), memory == u64::MAX);
            let asked: Vec<_> = (0..6000).step_by(7).rev().collect();
            let digests: Vec<_> = asked.iter().map(|i| digest(*i)).collect();
            let known = values.of(&digests).unwrap();
            for (i, known) in asked.into_iter().zip(known.iter()) {
                assert_eq!(*known, (i < 3000).then(|| value(i)), "{i}");
            }
            let mut written = Vec::new();
            values.write(&mut written).unwrap();
            let mut records: Vec<_> = written.chunks(RECORD).collect();
            records.sort_unstable();
            let all = (0..3000).map(|i| [&digest(i)[..], &value(i)].concat());
            let mut all: Vec<_> = all.collect();
            all.sort_unstable();
            assert_eq!(records, all);
            values.clear();
            let known = values.of(&digests[..1]).unwrap();
            assert_eq!((values.len(), &known[..]), (0, &[None][..]));
        }
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }

    /// Where nothing can be written, what there is stays.
    #[test]
    fn values_that_cannot_be_written_are_not_lost() {
        let mut values = Values::new(0, Path::new("/nowhere"), &Interrupt::new());
        for i in 0..300 {
            values.insert(digest(i), value(i));
        }
        values.make_room().unwrap_err();
        assert_eq!(values.of(&[digest(7)]).unwrap()[..], [Some(value(7))]);
        assert_eq!(values.len(), 300);
    }

    fn filled(count: u32, interrupt: &Interrupt) -> Values {
        let mut values = Values::new(0, &std::env::temp_dir(), interrupt);
        for i in 0..count {
            values.insert(digest(i), value(i));
            values.make_room().unwrap();
        }
        values
    }

    /// Blocks that are read do not grow with the square of what there is, whether it comes or is looked for.
    #[test]
    fn few_blocks_are_read_with_little_memory() {
        const BLOCKS: u64 = 100;
        READ.set(0);
        let count = BLOCKS as u32 * AT_ONCE as u32;
        let values = filled(count, &Interrupt::new());
        // 64, 32 and 4: what fits is one block, and no block is nearly empty.
        let runs = values.runs.iter().map(|run| run.blocks.len());
        assert_eq!(runs.collect::<Vec<_>>(), [64, 32, 4]);
        assert!(READ.take() <= BLOCKS * BLOCKS.ilog2() as u64);
        // As those of a table in ascending buckets, of fewer than a block.
        let mut digests: Vec<_> = (0..count).map(digest).collect();
        digests.sort_unstable();
        let buckets = digests.chunks(100);
        let most = BLOCKS + buckets.len() as u64 * values.runs.len() as u64;
        for bucket in buckets {
            assert!(values.of(bucket).unwrap().iter().all(Option::is_some));
        }
        assert!(READ.get() <= most, "{} {most}", READ.get());
    }

    #[test]
    fn an_interrupt_ends_what_takes_long_and_loses_nothing() {
        let interrupt = Interrupt::new();
        let mut values = filled(3 * AT_ONCE as u32, &interrupt);
        interrupt.raise();
        let ended = values.of(&[digest(7)]).unwrap_err();
        assert_eq!(ended.to_string(), "interrupted");
        for i in 3000..3300 {
            values.insert(digest(i), value(i));
        }
        values.make_room().unwrap_err();
        let mut written = Vec::new();
        values.write(&mut written).unwrap();
        assert_eq!(written.len(), (3 * AT_ONCE + 300) * RECORD);
    }
}
