//! The values that a client has got: in memory as far as they fit there, and else in an encrypted file without a name.
//!
//! What does not fit is written as a run in the order of digests. So the values of many digests are found by reading each
//! block of a run at most once, and all of them are written elsewhere without being in memory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use vesica_keys::{Blob, TAG};
use vesica_primitives::voprf::OUTPUT_BYTES;
use zeroize::Zeroizing;

use crate::header::Value;

/// Bytes of a digest and its value.
pub(crate) const RECORD: usize = 32 + OUTPUT_BYTES;
/// Bytes of memory for a value: nodes of a tree are half full at least.
const IN_MEMORY: u64 = 2 * RECORD as u64;
/// Records that are read at once.
const AT_ONCE: usize = 256;

/// Records in ascending order of their digests.
struct Block {
    first: [u8; 32],
    place: u64,
    bytes: usize,
}

/// Values by their digests.
pub(crate) struct Values {
    recent: BTreeMap<[u8; 32], Value>,
    /// The others, of which there are so many, in runs of blocks.
    blob: Option<Blob>,
    runs: Vec<Vec<Block>>,
    spilled: u64,
    memory: u64,
    directory: PathBuf,
}

impl Values {
    /// None yet. What does not fit into about `memory` bytes goes to a file in `directory`.
    pub(crate) fn new(memory: u64, directory: &Path) -> Values {
        Values {
            recent: BTreeMap::new(),
            blob: None,
            runs: Vec::new(),
            spilled: 0,
            memory,
            directory: directory.to_owned(),
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        *self = Values::new(self.memory, &self.directory);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.spilled + self.recent.len() as u64
    }

    /// How many fit into memory.
    pub(crate) fn fit(&self) -> u64 {
        (self.memory / IN_MEMORY).max(AT_ONCE as u64)
    }

    /// Adds the value of a digest that has none yet, to those in memory.
    pub(crate) fn insert(&mut self, digest: [u8; 32], value: Value) {
        self.recent.insert(digest, value);
    }

    /// Writes what is in memory to the file if it is more than fits there. All stays where it is if that fails.
    pub(crate) fn make_room(&mut self) -> io::Result<()> {
        if self.recent.len() as u64 <= self.fit() {
            return Ok(());
        }
        let blob = match self.blob.take() {
            Some(blob) => blob,
            None => Blob::create(&self.directory)?,
        };
        let blob = self.blob.insert(blob);
        let (mut run, mut records) = (Vec::new(), self.recent.iter().peekable());
        while let Some((first, _)) = records.peek() {
            let first = **first;
            let mut block = Vec::with_capacity(AT_ONCE * RECORD + TAG);
            for (digest, value) in records.by_ref().take(AT_ONCE) {
                block.extend_from_slice(digest);
                block.extend_from_slice(value);
            }
            let bytes = block.len();
            let place = blob.append(&mut block)?;
            run.push(Block {
                first,
                place,
                bytes,
            });
        }
        self.runs.push(run);
        self.spilled += self.recent.len() as u64;
        self.recent.clear();
        Ok(())
    }

    /// For each digest its value, if it is known.
    pub(crate) fn of(&self, digests: &[[u8; 32]]) -> io::Result<Vec<Option<Value>>> {
        let known = digests
            .iter()
            .map(|digest| self.recent.get(digest).copied());
        let mut known: Vec<_> = known.collect();
        let Some(blob) = &self.blob else {
            return Ok(known);
        };
        let mut order: Vec<usize> = (0..digests.len()).collect();
        order.retain(|place| known[*place].is_none());
        order.sort_unstable_by_key(|place| &digests[*place]);
        for run in &self.runs {
            find(run, blob, digests, &order, &mut known)?;
        }
        Ok(known)
    }

    /// Writes digests and values one after the other, in any order.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (digest, value) in &self.recent {
            out.write_all(digest)?;
            out.write_all(value)?;
        }
        let mut records = Zeroizing::default();
        for block in self.runs.iter().flatten() {
            let blob = self.blob.as_ref().expect("what runs are in");
            blob.read(block.place, block.bytes, &mut records)?;
            out.write_all(&records)?;
        }
        Ok(())
    }
}

/// Finds the values that a run has of the digests in this order, which is ascending.
fn find(
    run: &[Block],
    blob: &Blob,
    digests: &[[u8; 32]],
    order: &[usize],
    known: &mut [Option<Value>],
) -> io::Result<()> {
    let mut records: Zeroizing<Vec<u8>> = Zeroizing::default();
    let mut loaded = None;
    for place in order {
        let digest = &digests[*place];
        let after = run.partition_point(|block| block.first <= *digest);
        let Some(number) = after.checked_sub(1) else {
            continue;
        };
        if loaded != Some(number) {
            blob.read(run[number].place, run[number].bytes, &mut records)?;
            loaded = Some(number);
        }
        let (records, _) = records.as_chunks::<RECORD>();
        if let Ok(found) = records.binary_search_by(|record| record[..32].cmp(digest)) {
            known[*place] = records[found][32..].try_into().ok();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut values = Values::new(memory, place.path());
            for i in 0..3000 {
                values.insert(digest(i), value(i));
                values.make_room().unwrap();
                assert!(values.recent.len() as u64 <= values.fit());
            }
            assert_eq!(values.len(), 3000);
            assert_eq!(values.runs.is_empty(), memory == u64::MAX);
            let asked: Vec<_> = (0..6000).step_by(7).rev().collect();
            let digests: Vec<_> = asked.iter().map(|i| digest(*i)).collect();
            let known = values.of(&digests).unwrap();
            for (i, known) in asked.into_iter().zip(known) {
                assert_eq!(known, (i < 3000).then(|| value(i)), "{i}");
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
            assert_eq!(
                (values.len(), values.of(&digests[..1]).unwrap()),
                (0, vec![None])
            );
        }
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }

    /// Where nothing can be written, what there is stays.
    #[test]
    fn values_that_cannot_be_written_are_not_lost() {
        let mut values = Values::new(0, Path::new("/nowhere"));
        for i in 0..300 {
            values.insert(digest(i), value(i));
        }
        values.make_room().unwrap_err();
        assert_eq!(values.of(&[digest(7)]).unwrap(), [Some(value(7))]);
        assert_eq!(values.len(), 300);
    }
}
