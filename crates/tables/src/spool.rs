//! Keys of tables that do not fit into memory, kept on disk while a run lasts.
//!
//! Only digests and row numbers go to the disk, never rows; and they go there encrypted, under a key
//! that is nowhere but in this process's memory, into a file that has no name: whoever gets hold of
//! the disk cannot test guesses, and a process that is killed leaves nothing.
//!
//! A [`Spool`] is a number of streams of records, a digest and a row each. All rows of a key are in
//! one stream: first by the digest's first byte, and after [`Spool::split`] as the caller says.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use blake3::Hasher;

use crate::error::{Error, ErrorKind, Result};
use crate::key::KeySpec;
use crate::keys::{Collector, Counts, Keys};
use crate::rows::RowSet;
use crate::scan::{At, Sink, scan};
use crate::source::Source;
use crate::value::{Canonical, Item, Row};

/// Streams of the first pass, by the first byte of digests.
const PARTITIONS: usize = 256;
/// Bytes of a digest and of a row number.
const RECORD: usize = 32 + 4;
/// Bytes of a stream that are written at once.
const CHUNK: usize = 448 * RECORD;

/// The keys of a table, wherever they fit.
#[derive(Debug)]
pub enum KeyStore {
    /// In memory.
    Memory(Keys),
    /// On disk.
    Disk(Spool),
}

impl KeyStore {
    /// The counts.
    pub fn counts(&self) -> &Counts {
        match self {
            KeyStore::Memory(keys) => keys.counts(),
            KeyStore::Disk(spool) => spool.counts(),
        }
    }

    /// A hash of the key of every row, in order: equal for two tables whose rows have the same keys,
    /// and the same wherever the keys are.
    pub fn identity(&self) -> [u8; 32] {
        match self {
            KeyStore::Memory(keys) => {
                let mut rows = RowKeys::new();
                for item in keys.row_items() {
                    rows.add(keys.digests().get(*item as usize));
                }
                rows.finish()
            }
            KeyStore::Disk(spool) => spool.identity,
        }
    }
}

/// Hashes the keys of rows in order.
struct RowKeys(Hasher);

impl RowKeys {
    fn new() -> RowKeys {
        RowKeys(Hasher::new_derive_key(
            "vesica tables 2026-11 keys of all rows, version 1",
        ))
    }

    fn add(&mut self, key: Option<&[u8; 32]>) {
        self.0.update(key.unwrap_or(&[0; 32]));
    }

    fn finish(self) -> [u8; 32] {
        *self.0.finalize().as_bytes()
    }
}

/// First pass: reads the key columns of every row, into memory as long as the keys take at most
/// `memory` bytes there, and else into an unnamed file in `directory`, 36 bytes a row.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place. Usage: a directory in which no file can
/// be made. Resource: more than 2³² − 1 rows, or a full disk.
pub fn read_keys_within(
    source: &Source,
    key: &KeySpec,
    memory: u64,
    directory: &Path,
) -> Result<KeyStore> {
    let mut sink = StoreSink {
        canonical: Canonical::new(key),
        memory,
        directory,
        store: Building::Memory(Collector::default()),
    };
    scan(source, key, &mut sink)?;
    sink.drain()?;
    match sink.store {
        Building::Memory(collector) => Ok(KeyStore::Memory(collector.finish())),
        Building::Disk(writer) => writer
            .finish()
            .map(KeyStore::Disk)
            .map_err(|e| e.in_path(&directory.display().to_string())),
    }
}

struct StoreSink<'a> {
    canonical: Canonical<'a>,
    memory: u64,
    directory: &'a Path,
    store: Building,
}

enum Building {
    Memory(Collector),
    Disk(Box<Writer>),
}

impl StoreSink<'_> {
    fn drain(&mut self) -> Result<()> {
        let StoreSink {
            canonical,
            memory,
            directory,
            store,
        } = self;
        let on_disk = |e: Error| e.in_path(&directory.display().to_string());
        canonical.drain(|item| match store {
            Building::Disk(writer) => writer.add(item).map_err(on_disk),
            Building::Memory(collector) => {
                collector.add(item)?;
                if collector.bytes() > *memory {
                    let keys = std::mem::take(collector).finish();
                    let writer = Writer::take_over(directory, &keys).map_err(on_disk)?;
                    *store = Building::Disk(Box::new(writer));
                }
                Ok(())
            }
        })
    }
}

impl Sink for StoreSink<'_> {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        let full = self
            .canonical
            .add(row, |_, _, _| {})
            .map_err(|e| e.at_row(at.row, at.line))?;
        if full { self.drain() } else { Ok(()) }
    }
}

/// Fills a spool with the keys of rows.
struct Writer {
    streams: Streams,
    counts: Counts,
    rows: RowKeys,
}

impl Writer {
    /// A spool that begins with the keys that have been read into memory.
    fn take_over(directory: &Path, keys: &Keys) -> Result<Writer> {
        let mut writer = Writer {
            streams: Streams::create(directory, PARTITIONS)?,
            counts: Counts {
                rows: 0,
                items: 0,
                duplicates: 0,
                ..*keys.counts()
            },
            rows: RowKeys::new(),
        };
        for item in keys.row_items() {
            writer.next_row(keys.digests().get(*item as usize))?;
        }
        Ok(writer)
    }

    /// Adds the item of the next row.
    fn add(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Blank => {
                self.counts.blanks += 1;
                self.next_row(None)
            }
            Item::Invalid => {
                self.counts.invalid += 1;
                self.next_row(None)
            }
            Item::Digest { digest, changed } => {
                self.counts.changed += u64::from(changed);
                self.next_row(Some(&digest))
            }
        }
    }

    fn next_row(&mut self, digest: Option<&[u8; 32]>) -> Result<()> {
        let Some(row) = u32::try_from(self.counts.rows)
            .ok()
            .filter(|row| *row < Keys::NO_ITEM)
        else {
            let limit = u64::from(Keys::NO_ITEM);
            return Err(Error::new(ErrorKind::TooMany {
                what: "rows",
                limit,
            }));
        };
        self.counts.rows += 1;
        self.rows.add(digest);
        match digest {
            Some(digest) => self.streams.push(usize::from(digest[0]), digest, row),
            None => Ok(()),
        }
    }

    /// Counts distinct keys, one partition in memory after another.
    fn finish(mut self) -> Result<Spool> {
        self.streams.flush()?;
        let mut spool = Spool {
            streams: self.streams,
            counts: self.counts,
            identity: self.rows.finish(),
        };
        for stream in 0..PARTITIONS {
            let bucket = spool.load(stream)?;
            spool.counts.items += bucket.digests.len() as u64;
            spool.counts.duplicates += (bucket.rows.len() - bucket.digests.len()) as u64;
        }
        Ok(spool)
    }
}

/// The keys of a table, on disk.
#[derive(Debug)]
pub struct Spool {
    streams: Streams,
    counts: Counts,
    identity: [u8; 32],
}

impl Spool {
    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Puts every key into the one of `buckets` buckets that `bucket` names for its digest.
    ///
    /// # Errors
    /// Usage or Resource: the file cannot be written or read back.
    pub fn split(
        &mut self,
        directory: &Path,
        buckets: usize,
        bucket: impl Fn(&[u8; 32]) -> usize,
    ) -> Result<()> {
        let mut split = Streams::create(directory, buckets)?;
        for stream in 0..self.streams.chunks.len() {
            self.streams.read(stream, |digest, row| {
                split.push(bucket(digest), digest, row)
            })?;
        }
        split.flush()?;
        self.streams = split;
        Ok(())
    }

    /// The keys of one bucket.
    ///
    /// # Errors
    /// Resource: the file cannot be read back.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn load(&mut self, bucket: usize) -> Result<Bucket> {
        let mut records = Vec::new();
        self.streams.read(bucket, |digest, row| {
            records.push((*digest, row));
            Ok(())
        })?;
        records.sort_unstable();
        let mut loaded = Bucket::default();
        for (digest, row) in records {
            if loaded.digests.last() != Some(&digest) {
                loaded.digests.push(digest);
                loaded.ends.push(0);
            }
            loaded.rows.push(row);
            if let Some(end) = loaded.ends.last_mut() {
                // There are no more rows than fit.
                *end = loaded.rows.len() as u32;
            }
        }
        Ok(loaded)
    }
}

/// The keys of one bucket, and the rows that have them.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    digests: Vec<[u8; 32]>,
    rows: Vec<u32>,
    /// For each digest, where its rows end.
    ends: Vec<u32>,
}

impl Bucket {
    /// The distinct digests, in ascending order.
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// The rows with the key of this index, ascending; none if there is no such key.
    pub fn rows_of(&self, index: usize) -> &[u32] {
        let Some(end) = self.ends.get(index) else {
            return &[];
        };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.rows[start as usize..*end as usize]
    }

    /// Chooses no row of the bucket any longer.
    pub fn forget(&self, chosen: &mut RowSet) {
        for row in &self.rows {
            chosen.remove(u64::from(*row));
        }
    }
}

/// Streams of records in one unnamed file, encrypted. A stream is a list of chunks.
struct Streams {
    file: File,
    /// Of the keystream: the XOF of keyed BLAKE3, a byte of the file and of the stream each.
    key: [u8; 32],
    end: u64,
    /// What has not been written of each stream.
    pending: Vec<Vec<u8>>,
    /// Place and length of each stream's chunks.
    chunks: Vec<Vec<(u64, u32)>>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams")
            .field("streams", &self.chunks.len())
            .field("bytes", &self.end)
            .finish_non_exhaustive()
    }
}

impl Streams {
    fn create(directory: &Path, streams: usize) -> Result<Streams> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|e| unwritable(io::Error::other(e)))?;
        Ok(Streams {
            file: tempfile::tempfile_in(directory).map_err(unwritable)?,
            key,
            end: 0,
            pending: vec![Vec::new(); streams],
            chunks: vec![Vec::new(); streams],
        })
    }

    fn push(&mut self, stream: usize, digest: &[u8; 32], row: u32) -> Result<()> {
        let pending = &mut self.pending[stream];
        pending.extend_from_slice(digest);
        pending.extend_from_slice(&row.to_le_bytes());
        if pending.len() >= CHUNK {
            self.write(stream)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        for stream in 0..self.pending.len() {
            if !self.pending[stream].is_empty() {
                self.write(stream)?;
            }
            self.pending[stream] = Vec::new();
        }
        Ok(())
    }

    fn write(&mut self, stream: usize) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.pending[stream]);
        self.mask(self.end, &mut bytes);
        self.file
            .seek(SeekFrom::Start(self.end))
            .and_then(|_| self.file.write_all(&bytes))
            .map_err(unwritable)?;
        self.chunks[stream].push((self.end, bytes.len() as u32));
        self.end += bytes.len() as u64;
        bytes.clear();
        self.pending[stream] = bytes;
        Ok(())
    }

    /// Hands every record of a flushed stream to `each`.
    fn read(
        &mut self,
        stream: usize,
        mut each: impl FnMut(&[u8; 32], u32) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for (start, length) in &self.chunks[stream] {
            bytes.resize(*length as usize, 0);
            self.file
                .seek(SeekFrom::Start(*start))
                .and_then(|_| self.file.read_exact(&mut bytes))
                .map_err(unwritable)?;
            self.mask(*start, &mut bytes);
            for record in bytes.chunks_exact(RECORD) {
                let mut digest = [0; 32];
                digest.copy_from_slice(&record[..32]);
                let mut row = [0; 4];
                row.copy_from_slice(&record[32..]);
                each(&digest, u32::from_le_bytes(row))?;
            }
        }
        Ok(())
    }

    /// Encrypts or decrypts bytes at a place of the file. No place is written twice.
    fn mask(&self, start: u64, bytes: &mut [u8]) {
        let mut keystream = Hasher::new_keyed(&self.key).finalize_xof();
        keystream.set_position(start);
        let mut mask = vec![0; bytes.len()];
        keystream.fill(&mut mask);
        for (byte, mask) in bytes.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
}

fn unwritable(e: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::read_keys;
    use crate::source::SourceOptions;
    use std::collections::HashMap;

    fn table(rows: u32) -> (Source, KeySpec) {
        let mut text = "mail,n\n".to_owned();
        for i in 0..rows {
            match i % 10 {
                3 => text.push_str(",3\n"),
                7 => text.push_str("nonsense,7\n"),
                _ => text.push_str(&format!("U{}@example.com,{i}\n", i * i % 997)),
            }
        }
        let source = Source::from_bytes("t.csv", text.into(), SourceOptions::default()).unwrap();
        (source, KeySpec::parse("mail", &["mail=email"]).unwrap())
    }

    fn spooled(source: &Source, key: &KeySpec, memory: u64) -> (tempfile::TempDir, Spool) {
        let directory = tempfile::tempdir().unwrap();
        let store = read_keys_within(source, key, memory, directory.path()).unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        match store {
            KeyStore::Disk(spool) => (directory, spool),
            KeyStore::Memory(_) => panic!("it fits into {memory} bytes"),
        }
    }

    /// The rows of every key.
    fn rows_of_keys(keys: &Keys) -> HashMap<[u8; 32], Vec<u32>> {
        let mut rows: HashMap<_, Vec<u32>> = HashMap::new();
        for (row, item) in (0..).zip(keys.row_items()) {
            if let Some(digest) = keys.digests().get(*item as usize) {
                rows.entry(*digest).or_default().push(row);
            }
        }
        rows
    }

    #[test]
    fn a_spool_says_what_memory_says() {
        let (source, key) = table(3000);
        let keys = read_keys(&source, &key).unwrap();
        let expected = rows_of_keys(&keys);
        for memory in [0, 20_000] {
            let (directory, mut spool) = spooled(&source, &key, memory);
            assert_eq!(spool.counts(), keys.counts());
            assert_eq!(
                KeyStore::Memory(keys.clone()).identity(),
                spool.identity,
                "{memory}"
            );
            for buckets in [1, 4, 2] {
                let of = |digest: &[u8; 32]| usize::from(digest[31]) % buckets;
                spool.split(directory.path(), buckets, of).unwrap();
                let mut seen = HashMap::new();
                for bucket in 0..buckets {
                    let loaded = spool.load(bucket).unwrap();
                    for (index, digest) in loaded.digests().iter().enumerate() {
                        assert_eq!(of(digest), bucket);
                        seen.insert(*digest, loaded.rows_of(index).to_vec());
                    }
                    assert!(loaded.rows_of(loaded.digests().len()).is_empty());
                }
                assert_eq!(seen, expected);
            }
        }
    }

    #[test]
    fn keys_that_fit_stay_in_memory() {
        let (source, key) = table(100);
        let nowhere = Path::new("/nowhere");
        let store = read_keys_within(&source, &key, 1 << 20, nowhere).unwrap();
        assert!(matches!(store, KeyStore::Memory(_)));
        let error = read_keys_within(&source, &key, 0, nowhere).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }

    #[test]
    fn other_keys_are_another_identity() {
        let identity = |rows| {
            let (source, key) = table(rows);
            KeyStore::Memory(read_keys(&source, &key).unwrap()).identity()
        };
        assert_eq!(identity(50), identity(50));
        assert_ne!(identity(50), identity(51));
    }

    #[test]
    fn no_digest_is_on_the_disk_as_it_is() {
        let (source, key) = table(200);
        let (_directory, mut spool) = spooled(&source, &key, 0);
        let mut bytes = vec![0; spool.streams.end as usize];
        spool.streams.file.seek(SeekFrom::Start(0)).unwrap();
        spool.streams.file.read_exact(&mut bytes).unwrap();
        let digests: Vec<_> = rows_of_keys(&read_keys(&source, &key).unwrap())
            .into_keys()
            .collect();
        assert!(digests.len() > 100);
        for digest in digests {
            assert!(!bytes.windows(8).any(|w| *w == digest[..8]));
        }
    }

    #[test]
    fn forgotten_rows_are_those_of_the_bucket() {
        let (source, key) = table(300);
        let (directory, mut spool) = spooled(&source, &key, 0);
        spool
            .split(directory.path(), 2, |d| usize::from(d[9] & 1))
            .unwrap();
        let mut chosen = RowSet::none(300);
        let buckets = [spool.load(0).unwrap(), spool.load(1).unwrap()];
        for bucket in &buckets {
            for row in &bucket.rows {
                chosen.insert(u64::from(*row));
            }
        }
        buckets[0].forget(&mut chosen);
        let mut left: Vec<u32> = buckets[1].rows.clone();
        left.sort_unstable();
        assert!(chosen.iter().eq(left.into_iter().map(u64::from)));
    }
}
