//! The keys of a table in buckets, on disk.
//!
//! [`Buckets::split`] goes through sorted [`Runs`] once. Of each bucket it writes the distinct keys in the order of these,
//! so that a bucket is loaded without a sort, and apart from them, for each row, the index of its key and its number, so that
//! its rows are marked without a search.

use std::path::Path;

use rayon::prelude::*;
use vesica_kernels::memory::KeepFreed;
use zeroize::Zeroizing;

use crate::blob::{Blob, TAG, unwritable};
use crate::block::KeyBlock;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::mix::index;
use crate::rows::RowSet;
use crate::runs::{Merged, Part, ReadLast, Runs};

/// Most and fewest keys that are written at once, if nothing goes with them: 16 KiB of them, or 2.
const MAX_CHUNK_KEYS: u64 = 1 << 9;
const MIN_CHUNK_KEYS: u64 = 1 << 6;

/// Rows that are written at once for each key that is.
const ROWS_PER_KEY: usize = 4;

/// How much is written at once.
#[derive(Clone, Copy)]
struct ChunkSize {
    /// Bytes of a key, and of those what goes with it.
    key: usize,
    beside: usize,
    keys: usize,
}

impl ChunkSize {
    /// As much as fits into `memory` for so many buckets. The number of buckets is not this side's alone to choose.
    fn within(memory: u64, buckets: usize, layout: &Layout) -> ChunkSize {
        let (key, beside) = (layout.bucket_key_bytes(), layout.beside_in_bucket());
        let size = |keys| ChunkSize { key, beside, keys };
        let [none, one] = [0, 1].map(|keys| size(keys).pending_bytes());
        let memory = (memory / buckets as u64).saturating_sub(none);
        let keys = memory / (one - none);
        let of = |keys: u64| (keys * 32 / key as u64).max(1);
        let most = of(MAX_CHUNK_KEYS).max(MIN_CHUNK_KEYS);
        size(keys.clamp(of(MIN_CHUNK_KEYS), most) as usize)
    }

    /// Keys with what goes with them.
    fn key_bytes(self) -> usize {
        self.key * self.keys + TAG
    }

    /// What goes with keys while it is apart.
    fn beside_bytes(self) -> usize {
        self.beside * self.keys
    }

    /// Numbers while they are apart.
    fn number_bytes(self) -> usize {
        8 * self.keys
    }

    fn row_bytes(self) -> usize {
        8 * self.rows() + TAG
    }

    fn rows(self) -> usize {
        ROWS_PER_KEY * self.keys
    }

    /// Bytes of what is still to be written of a bucket.
    fn pending_bytes(self) -> u64 {
        let apart = self.number_bytes() + self.beside_bytes();
        (self.key_bytes() + apart + self.row_bytes()) as u64
    }
}

/// Most groups of keys on which threads work side by side.
const MAX_GROUPS: u64 = 64;

/// Chunks of rows that are read at once.
const CHUNKS_AT_ONCE: usize = 64;

/// The keys and rows of all buckets.
#[derive(Debug)]
pub(crate) struct Buckets {
    blob: Blob,
    layout: Layout,
    /// Of each group of keys, what each bucket has of it.
    groups: Vec<Vec<Portion>>,
}

/// The keys that a bucket has of a group, and their rows.
#[derive(Debug, Default)]
struct Portion {
    keys: u32,
    key_chunks: Vec<Chunk>,
    row_chunks: Vec<Chunk>,
}

/// Keys: digests, after these their numbers and then what goes with them if there is something. Or rows: for each the index
/// of its key in the portion, and its number.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    place: u64,
    len: u32,
}

/// A portion, and what is still to be written of it.
struct Pending {
    chunk: ChunkSize,
    portion: Portion,
    digests: Vec<u8>,
    numbers: Vec<u8>,
    beside: Zeroizing<Vec<u8>>,
    rows: Vec<u8>,
}

impl Pending {
    fn new(chunk: ChunkSize) -> Pending {
        Pending {
            chunk,
            portion: Portion::default(),
            digests: Vec::new(),
            numbers: Vec::new(),
            beside: Zeroizing::default(),
            rows: Vec::new(),
        }
    }

    /// Adds the key at this index of those that are merged, and what goes with it.
    fn key(&mut self, blob: &Blob, merged: &Merged, key: usize, beside: &[u8]) -> Result<u32> {
        let (digest, number) = (&merged.digests()[key], merged.number(key));
        // A buffer that grows would take twice what it has to.
        reserve(&mut self.digests, self.chunk.key_bytes());
        self.digests.extend_from_slice(digest);
        if let Some(number) = number {
            reserve(&mut self.numbers, self.chunk.number_bytes());
            self.numbers.extend_from_slice(&number.to_le_bytes());
        }
        if !beside.is_empty() {
            reserve(&mut self.beside, self.chunk.beside_bytes());
            self.beside.extend_from_slice(beside);
        }
        let index = self.portion.keys;
        self.portion.keys += 1;
        if self.digests.len() == 32 * self.chunk.keys {
            self.write_keys(blob)?;
        }
        Ok(index)
    }

    fn row(&mut self, blob: &Blob, key: u32, row: u32) -> Result<()> {
        reserve(&mut self.rows, self.chunk.row_bytes());
        self.rows.extend_from_slice(&key.to_le_bytes());
        self.rows.extend_from_slice(&row.to_le_bytes());
        match self.rows.len() == 8 * self.chunk.rows() {
            true => self.write_rows(blob),
            false => Ok(()),
        }
    }

    fn write_keys(&mut self, blob: &Blob) -> Result<()> {
        let len = (self.digests.len() / 32) as u32;
        self.digests.append(&mut self.numbers);
        self.digests.append(&mut self.beside);
        write(blob, &mut self.digests, len, &mut self.portion.key_chunks)
    }

    fn write_rows(&mut self, blob: &Blob) -> Result<()> {
        let len = (self.rows.len() / 8) as u32;
        write(blob, &mut self.rows, len, &mut self.portion.row_chunks)
    }

    /// Writes the rest, and begins another portion.
    fn finish(&mut self, blob: &Blob) -> Result<Portion> {
        self.write_keys(blob)?;
        self.write_rows(blob)?;
        Ok(std::mem::take(&mut self.portion))
    }
}

/// Makes room for a whole buffer where there is none yet.
fn reserve(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.capacity() == 0 {
        buffer.reserve_exact(bytes);
    }
}

/// Writes a chunk of `len` elements unless there are none, and leaves no bytes.
fn write(blob: &Blob, bytes: &mut Vec<u8>, len: u32, chunks: &mut Vec<Chunk>) -> Result<()> {
    if len > 0 {
        let place = blob.append(bytes).map_err(unwritable)?;
        chunks.push(Chunk { place, len });
        bytes.clear();
    }
    Ok(())
}

impl Buckets {
    /// Puts every key into the one of `buckets` buckets that `assign` names for its digest. The runs are empty afterwards.
    pub(crate) fn split(
        runs: &Runs,
        directory: &Path,
        buckets: usize,
        assign: impl Fn(&[[u8; 32]]) -> Vec<u32> + Sync,
    ) -> Result<Buckets> {
        let blob = Blob::create(directory).map_err(unwritable)?;
        // One part of the runs takes the memory of the other.
        let _reused = KeepFreed::begin();
        Buckets::split_to(blob, runs, buckets, assign)
    }

    fn split_to(
        blob: Blob,
        runs: &Runs,
        buckets: usize,
        assign: impl Fn(&[[u8; 32]]) -> Vec<u32> + Sync,
    ) -> Result<Buckets> {
        let layout = runs.layout();
        let chunk = ChunkSize::within(runs.memory(), buckets, layout);
        let pending = || {
            (0..buckets)
                .map(|_| Pending::new(chunk))
                .collect::<Vec<_>>()
        };
        let parts = runs.parts();
        // No more than fit into memory, and of which a bucket has some chunks.
        let chunks = runs.keys() / (chunk.keys * buckets) as u64;
        let memory = runs.memory() / (chunk.pending_bytes() * buckets as u64);
        let groups = chunks.min(memory).clamp(1, MAX_GROUPS) as usize;
        let groups = parts.chunks(parts.len().div_ceil(groups)).enumerate();
        let last = runs.read_last(&parts);
        // Threads take groups in their order, so that few files of runs are read in part.
        let groups = groups.par_bridge().map_init(
            || (Merged::default(), pending()),
            |(merged, pending), (number, parts)| {
                let split = split_group(runs, parts, &last, &blob, &assign, merged, pending);
                split.map(|portions| (number, portions))
            },
        );
        let groups = groups.collect::<Result<Vec<_>>>();
        let mut groups =
            groups.map_err(|e| e.for_want_of(|cause| last.missing(blob.written(), cause)))?;
        groups.sort_unstable_by_key(|(number, _)| *number);
        let groups = groups.into_iter().map(|(_, portions)| portions).collect();
        Ok(Buckets {
            groups,
            layout: layout.clone(),
            blob,
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.groups.first().map_or(0, Vec::len)
    }

    /// How many keys a bucket has.
    pub(crate) fn keys(&self, bucket: usize) -> usize {
        let keys = self.portions(bucket).map(|portion| portion.keys as usize);
        keys.sum()
    }

    /// The distinct keys of a bucket.
    pub(crate) fn load(&self, bucket: usize) -> Result<KeyBlock<'static>> {
        let (keys, label) = (self.keys(bucket), self.layout.label);
        let (has_numbers, columns) = (self.layout.has_numbers, self.layout.columns.len());
        let mut digests = vec![[0; 32]; keys];
        let mut numbers = vec![0; if has_numbers { keys } else { 0 }];
        let mut labels = Zeroizing::new(vec![0; label * keys]);
        let mut values = Zeroizing::new(vec![0; columns * keys]);
        let (mut digests_left, mut numbers_left) = (&mut *digests, &mut *numbers);
        let (mut labels_left, mut values_left) = (&mut labels[..], &mut values[..]);
        let chunks = self
            .portions(bucket)
            .flat_map(|portion| &portion.key_chunks);
        let tasks = chunks.map(|chunk| {
            let len = chunk.len as usize;
            let numbers = len.min(numbers_left.len());
            let digests = digests_left.split_off_mut(..len).unwrap_or_default();
            let numbers = numbers_left.split_off_mut(..numbers).unwrap_or_default();
            let labels = labels_left.split_off_mut(..label * len).unwrap_or_default();
            let values = values_left.split_off_mut(..columns * len);
            (chunk, digests, numbers, labels, values.unwrap_or_default())
        });
        let tasks: Vec<_> = tasks.collect();
        type Task<'t> = (
            &'t Chunk,
            &'t mut [[u8; 32]],
            &'t mut [u64],
            &'t mut [u8],
            &'t mut [i64],
        );
        let read = |bytes: &mut Zeroizing<Vec<u8>>, task: Task<'_>| {
            let (chunk, digests, numbers, labels, values) = task;
            self.read(chunk, self.layout.bucket_key_bytes(), bytes)?;
            let (read, of_numbers, beside) = self.layout.cut(bytes, digests.len());
            digests.copy_from_slice(read);
            for (number, bytes) in numbers.iter_mut().zip(of_numbers) {
                *number = u64::from_le_bytes(*bytes);
            }
            if columns == 0 {
                labels.copy_from_slice(beside);
                return Ok(());
            }
            let beside = beside.chunks_exact(self.layout.beside_in_bucket());
            for (place, beside) in beside.enumerate() {
                let (of_key, of_columns) = beside.split_at(label);
                labels[place * label..][..label].copy_from_slice(of_key);
                let values = &mut values[place * columns..][..columns];
                for (value, bytes) in values.iter_mut().zip(of_columns.as_chunks().0) {
                    *value = i64::from_le_bytes(*bytes);
                }
            }
            Ok(())
        };
        tasks
            .into_par_iter()
            .try_for_each_init(Zeroizing::default, read)?;
        let mut block = KeyBlock::from(digests);
        block.numbers = has_numbers.then(|| numbers.into());
        block.values = (columns > 0).then(|| std::mem::take(&mut *values).into());
        block.labels = (label > 0).then(|| std::mem::take(&mut *labels).into());
        Ok(block)
    }

    /// [Sets](RowSet::set) every row of a bucket to the entry of its key in `matched`. Whatever that has, it reads the same
    /// bytes and writes the same words.
    pub(crate) fn mark(&self, bucket: usize, matched: &[bool], rows: &mut RowSet) -> Result<()> {
        let mut chunks = Vec::new();
        let mut left = matched;
        for portion in self.portions(bucket) {
            let (of_portion, others) = left.split_at(portion.keys as usize);
            chunks.extend(portion.row_chunks.iter().map(|chunk| (chunk, of_portion)));
            left = others;
        }
        assert!(left.is_empty(), "one entry per key");
        let read = |chunks: &[(&Chunk, &[bool])], bytes: &mut Vec<Vec<u8>>| {
            bytes.resize_with(chunks.len(), Vec::new);
            let chunks = chunks.par_iter().zip(&mut *bytes);
            chunks
                .map(|((chunk, _), bytes)| self.read(chunk, 8, bytes))
                .collect::<Result<()>>()
        };
        // While some are read, those before are marked.
        let (mut present, mut next): (Vec<Vec<u8>>, _) = (Vec::new(), Vec::new());
        let mut batches = chunks.chunks(CHUNKS_AT_ONCE);
        let mut batch: &[(&Chunk, &[bool])] = &[];
        loop {
            let following = batches.next().unwrap_or_default();
            let set = || {
                for ((_, matched), bytes) in batch.iter().zip(&present) {
                    for (key, row) in pairs(bytes) {
                        rows.set(row.into(), matched[key as usize]);
                    }
                }
            };
            rayon::join(|| read(following, &mut next), set).0?;
            if following.is_empty() {
                return Ok(());
            }
            (present, next) = (next, present);
            batch = following;
        }
    }

    /// Hands each row of a bucket to `each`, with the index of its key among those of the bucket.
    pub(crate) fn rows(
        &self,
        bucket: usize,
        each: &mut dyn FnMut(usize, u32) -> Result<()>,
    ) -> Result<()> {
        let (mut bytes, mut first) = (Vec::new(), 0);
        for portion in self.portions(bucket) {
            for chunk in &portion.row_chunks {
                self.read(chunk, 8, &mut bytes)?;
                pairs(&bytes).try_for_each(|(key, row)| each(first + key as usize, row))?;
            }
            first += portion.keys as usize;
        }
        Ok(())
    }

    /// Hands every key to `each`, with each of its rows, in any order.
    pub(crate) fn each(&self, mut each: impl FnMut(&[u8; 32], u32)) -> Result<()> {
        let mut bytes = Vec::new();
        for portion in self.groups.iter().flatten() {
            let mut digests = Vec::with_capacity(portion.keys as usize);
            for chunk in &portion.key_chunks {
                self.read(chunk, self.layout.bucket_key_bytes(), &mut bytes)?;
                let (of_chunk, _) = bytes.as_chunks::<32>();
                digests.extend_from_slice(&of_chunk[..chunk.len as usize]);
            }
            for chunk in &portion.row_chunks {
                self.read(chunk, 8, &mut bytes)?;
                pairs(&bytes).for_each(|(key, row)| each(&digests[key as usize], row));
            }
        }
        Ok(())
    }

    /// What each group has of a bucket.
    fn portions(&self, bucket: usize) -> impl Iterator<Item = &Portion> {
        self.groups.iter().map(move |group| &group[bucket])
    }

    /// Reads a chunk of elements of so many bytes.
    fn read(&self, chunk: &Chunk, element: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let length = chunk.len as usize * element;
        let read = self.blob.read(chunk.place, length, bytes);
        read.map_err(Error::Unreadable)
    }

    /// Bytes written and read so far.
    #[cfg(test)]
    pub(crate) fn traffic(&self) -> [u64; 2] {
        self.blob.traffic()
    }
}

/// The keys and the rows of a chunk.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let (pairs, _) = bytes.as_chunks();
    pairs.iter().map(|[a, b, c, d, e, f, g, h]| {
        let key = u32::from_le_bytes([*a, *b, *c, *d]);
        (key, u32::from_le_bytes([*e, *f, *g, *h]))
    })
}

/// Writes what each bucket has of some parts.
fn split_group(
    runs: &Runs,
    parts: &[Part],
    last: &ReadLast<'_>,
    blob: &Blob,
    assign: impl Fn(&[[u8; 32]]) -> Vec<u32>,
    merged: &mut Merged,
    pending: &mut [Pending],
) -> Result<Vec<Portion>> {
    let (mut keys, mut beside) = (Vec::new(), Zeroizing::default());
    for part in parts {
        let merged = runs.merge(part, merged)?;
        let buckets = assign(merged.digests());
        if buckets.len() < merged.digests().len() {
            return Err(Error::Stopped);
        }
        // Of each key of each run its index in its bucket's portion.
        keys.resize(buckets.len(), 0);
        for same in merged.distinct() {
            let first = index(same[0]);
            let pending = &mut pending[buckets[first] as usize];
            runs.beside_in_bucket(merged, same, &mut beside);
            let key = pending.key(blob, merged, first, &beside)?;
            for entry in same {
                keys[index(*entry)] = key;
            }
        }
        runs.rows(part, merged, |index, row| {
            pending[buckets[index] as usize].row(blob, keys[index], row)
        })?;
        last.done(part);
    }
    let portions = pending.iter_mut().map(|pending| pending.finish(blob));
    portions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::{Gather, Record};
    #[cfg(target_os = "linux")]
    use crate::runs::tests::on_one_thread;
    use crate::runs::tests::{label, layout, number, plain, runs_of, tables};
    use std::collections::BTreeMap;

    fn split(runs: &Runs, buckets: usize) -> Buckets {
        let of = |digest: &[u8; 32]| bucket_of(digest, buckets);
        let assign = |digests: &[[u8; 32]]| digests.iter().map(of).collect();
        Buckets::split(runs, &std::env::temp_dir(), buckets, assign).unwrap()
    }

    fn bucket_of(digest: &[u8; 32], buckets: usize) -> u32 {
        u32::from(digest[31]) % buckets as u32
    }

    #[test]
    fn buckets_have_the_sorted_keys_and_mark_their_rows() {
        for keys in tables() {
            let plain = plain(&keys);
            for (run, buckets) in [(0, 1), (700, 3), (1 << 20, 256)] {
                let split = split(&runs_of(&keys, run), buckets);
                let (mut none, mut all) = (RowSet::none(3000), RowSet::none(3000));
                plain
                    .values()
                    .flatten()
                    .for_each(|row| all.insert((*row).into()));
                for bucket in 0..buckets {
                    let loaded = split.load(bucket).unwrap();
                    let of_bucket = |d: &&[u8; 32]| bucket_of(d, buckets) == bucket as u32;
                    let expected: Vec<_> = plain.keys().filter(of_bucket).copied().collect();
                    let digests = &loaded.digests;
                    let mut sorted = digests.to_vec();
                    sorted.sort_unstable();
                    assert_eq!(sorted, expected);
                    let numbers = loaded.numbers.as_ref().unwrap();
                    assert!(numbers.iter().copied().eq(digests.iter().map(number)));
                    let labels: Vec<u8> = digests.iter().flat_map(label).collect();
                    assert_eq!(**loaded.labels.as_ref().unwrap(), labels);
                    let matched: Vec<_> = digests.iter().map(|d| d[3].is_multiple_of(3)).collect();
                    for rows in [&mut none, &mut all] {
                        split.mark(bucket, &matched, rows).unwrap();
                    }
                }
                let chosen = plain
                    .iter()
                    .filter(|(digest, _)| digest[3].is_multiple_of(3));
                let mut expected = RowSet::none(3000);
                for row in chosen.flat_map(|(_, rows)| rows) {
                    expected.insert((*row).into());
                }
                // What was there before is overwritten, in every row with a key.
                assert!(none == expected && all == expected, "{buckets}");
                let mut found = BTreeMap::<_, Vec<_>>::new();
                split
                    .each(|digest, row| found.entry(*digest).or_default().push(row))
                    .unwrap();
                assert!(found == plain);
            }
        }
    }

    /// However many buckets a peer's memory makes.
    #[test]
    fn what_is_still_to_be_written_is_bounded() {
        for memory in [0, 1 << 20, 16 << 20, 1 << 40] {
            for buckets in [1, 64, 1024] {
                let chunk = ChunkSize::within(memory, buckets, &layout());
                let pending = chunk.pending_bytes() * buckets as u64;
                assert!(
                    pending <= memory.max(6 << 20),
                    "{memory} {buckets}: {pending}"
                );
                assert!(pending <= 42 << 20);
            }
        }
        let keys = |memory, label| {
            let layout = Layout {
                label,
                ..Layout::default()
            };
            ChunkSize::within(memory, 1024, &layout).keys
        };
        assert_eq!(keys(42 << 20, 0), 1 << 9);
        // However long labels are.
        assert_eq!(keys(0, 4096), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_says_what_is_missing() {
        let keys = tables().swap_remove(2);
        let rows = keys.len() as u64 - keys.len() as u64 / 7;
        let runs = runs_of(&keys, 700);
        let assign = |digests: &[[u8; 32]]| vec![0; digests.len()];
        let split = || Buckets::split_to(Blob::full(), &runs, 1, assign);
        let error = on_one_thread(|| split().unwrap_err());
        let Error::NoRoom { missing, .. } = error else {
            panic!("{error}");
        };
        // What buckets are made of goes while they are written.
        let in_buckets = (48 + layout().label as u64) * rows;
        assert!((1..in_buckets).contains(&missing), "{missing} {in_buckets}");
    }

    /// What the documents say of the bytes of a row.
    #[test]
    fn a_row_is_written_and_read_as_often_as_it_has_to_be() {
        let rows: u32 = 200_000;
        let mut digest = [0u64; 4];
        let memory = 16 << 20;
        let mut gather = Gather::new(Layout::default(), memory, &std::env::temp_dir()).unwrap();
        for row in 0..rows {
            // As good as random: the finalizer of splitmix64.
            digest[0] = u64::from(row)
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            digest[0] = (digest[0] ^ digest[0] >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            digest[0] ^= digest[0] >> 27;
            digest[3] = digest[0].wrapping_mul(0x94d0_49bb_1331_11eb);
            let bytes = digest.map(u64::to_be_bytes);
            let digest = std::array::from_fn(|i| bytes[i / 8][i % 8]);
            gather.add(Some(&Record::of(&digest))).unwrap();
        }
        let runs = gather.into_runs();
        assert_eq!(runs.count(0).unwrap().0, u64::from(rows));
        let buckets = split(&runs, 4);
        let mut marked = RowSet::none(rows.into());
        for bucket in 0..4 {
            let keys = buckets.keys(bucket);
            assert_eq!(buckets.load(bucket).unwrap().len(), keys);
            buckets
                .mark(bucket, &vec![true; keys], &mut marked)
                .unwrap();
        }
        assert_eq!(marked.iter().count(), rows as usize);
        let [written, read] = [0, 1].map(|i| runs.traffic()[i] + buckets.traffic()[i]);
        for (bytes, each) in [(written, 76), (read, 108)] {
            let expected = each * u64::from(rows);
            // A bit for the first row of each key, and the tags of blocks.
            assert!(
                bytes > expected && bytes < expected * 103 / 100,
                "{bytes} {expected}"
            );
        }
    }
}
