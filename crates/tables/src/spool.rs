//! Keys of tables that do not fit into memory, kept on disk for the duration of a run.
//!
//! Only digests and row numbers go to disk, never rows, and they go into scratch files: encrypted, without a name.
//! Whoever gets hold of the disk cannot test guesses.
//!
//! A [`Spool`] has the keys in sorted [`Runs`] at first, and after [`Spool::split`] in [`Buckets`]. For a row that has a key
//! of its own that is 76 bytes written and 108 read, from the first pass to its mark: 36 for the run that it is in, 32 read
//! again to count distinct keys, and 36 to split them, which writes 40 that are read as 32 of the bucket and 8 of its rows. What
//! has been split is given back to the disk.

use std::path::Path;

use blake3::Hasher;
use vesica_kernels::memory::KeepFreed;
use zeroize::Zeroizing;

use crate::bucket::{Bucket, Buckets};
use crate::bucket_file::{BucketFile, in_temporary_file};
use crate::columns_read::ColumnsRead;
use crate::counts::Counts;
use crate::digests::SetHash;
use crate::error::{Error, ErrorKind, Result};
use crate::handed::{PeerColumn, unreadable};
use crate::handed_rows::{HandedKeys, HandedRows};
use crate::items::{ItemSink, TakeItems};
use crate::key::KeySpec;
use crate::keys::{Collector, Keys, RowValues};
use crate::labels::TextColumns;
use crate::number::ValueColumn;
use crate::order::{CommonOrder, KeyRows};
use crate::repeated::{Repeated, Top, occurrences};
use crate::rows::RowSet;
use crate::runs::{Merged, Record, RunWriter, Runs, Shape, add_values, index};
use crate::scan::scan;
use crate::source::Source;
use crate::value::Item;

/// The keys of a table, wherever they fit.
#[derive(Debug)]
pub enum KeyStore {
    /// In memory.
    Memory(Box<Keys>),
    /// On disk.
    Disk(Box<Spool>),
}

impl KeyStore {
    /// The keys with the most rows, at most `most` of them, each with two rows or more.
    pub(crate) fn most_repeated(&self, most: usize) -> Result<Vec<Repeated>> {
        let mut top = Top::new(most);
        match self {
            _ if self.counts().duplicates == 0 => {}
            KeyStore::Memory(keys) => {
                top.add(&occurrences(keys.digests().len(), keys.row_items()));
            }
            KeyStore::Disk(spool) => {
                let runs = spool.sorted()?;
                let mut merged = Merged::default();
                for part in runs.parts() {
                    let merged = runs.merge(&part, &mut merged)?;
                    top.add(&runs.occurrences(&part, merged)?);
                }
            }
        }
        Ok(top.keys)
    }
}

impl KeyStore {
    /// The counts.
    pub fn counts(&self) -> &Counts {
        match self {
            KeyStore::Memory(keys) => keys.counts(),
            KeyStore::Disk(spool) => spool.counts(),
        }
    }

    fn counts_mut(&mut self) -> &mut Counts {
        match self {
            KeyStore::Memory(keys) => keys.counts_mut(),
            KeyStore::Disk(spool) => &mut spool.counts,
        }
    }

    /// A hash of the key of every row, in order, and of its values: equal for two tables whose rows have the same, and the
    /// same wherever the keys are.
    pub fn identity(&self) -> [u8; 32] {
        match self {
            KeyStore::Memory(keys) => {
                let mut rows = RowKeys::new();
                for item in keys.row_items() {
                    rows.add(keys.digests().get(*item as usize));
                }
                with_values(rows.finish(), keys.rows_values)
            }
            KeyStore::Disk(spool) => spool.identity,
        }
    }
}

/// A hash of the keys of rows, and of their values if they have some.
fn with_values(keys: [u8; 32], values: Option<[u8; 32]>) -> [u8; 32] {
    let Some(values) = values else {
        return keys;
    };
    let mut hasher = Hasher::new_derive_key("vesica/1 keys and values of all rows");
    hasher.update(&keys);
    hasher.update(&values);
    *hasher.finalize().as_bytes()
}

/// Hashes the values of rows in order.
struct AllValues {
    hasher: Hasher,
    /// Values that are not hashed yet: together they fill the lanes of BLAKE3.
    pending: Zeroizing<Vec<u8>>,
}

impl AllValues {
    const PENDING: usize = 1 << 14;

    fn new() -> AllValues {
        AllValues {
            hasher: Hasher::new_derive_key("vesica/1 values of all rows"),
            pending: Zeroizing::new(Vec::with_capacity(AllValues::PENDING)),
        }
    }

    /// Adds those of a row, as many as every other has.
    fn add(&mut self, values: &RowValues) {
        for value in values.all() {
            self.pending.extend(value.to_le_bytes());
            if self.pending.len() == AllValues::PENDING {
                self.hash();
            }
        }
    }

    fn hash(&mut self) {
        self.hasher.update(&self.pending);
        self.pending.clear();
    }

    fn finish(mut self) -> [u8; 32] {
        self.hash();
        *self.hasher.finalize().as_bytes()
    }
}

/// Hashes the keys of rows in order.
struct RowKeys {
    hasher: Hasher,
    /// Keys that are not hashed yet: together they fill the lanes of BLAKE3, one by one they do not.
    pending: Vec<[u8; 32]>,
}

impl RowKeys {
    const PENDING: usize = 1 << 11;

    fn new() -> RowKeys {
        RowKeys {
            hasher: Hasher::new_derive_key("vesica/1 keys of all rows"),
            pending: Vec::with_capacity(RowKeys::PENDING),
        }
    }

    fn add(&mut self, key: Option<&[u8; 32]>) {
        self.pending.push(key.copied().unwrap_or_default());
        if self.pending.len() == RowKeys::PENDING {
            self.hash();
        }
    }

    fn hash(&mut self) {
        self.hasher.update(self.pending.as_flattened());
        self.pending.clear();
    }

    fn finish(mut self) -> [u8; 32] {
        self.hash();
        *self.hasher.finalize().as_bytes()
    }
}

/// First pass: reads the key columns of every row, into memory if the keys take at most `memory` bytes there,
/// or else into unnamed files in `directory`, 36 bytes per row, 44 if keys are numbers. If columns of values are given, the
/// values of all rows that have a key are read with them. Values, and the texts of further columns, go with the keys
/// wherever these are.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place; texts that do not fit, or differ in rows of one key. Usage: a
/// directory in which no file can be
/// created. Resource: more than 2³² − 1 rows, or a full disk.
pub fn read_keys_within(
    source: &Source,
    key: &KeySpec,
    values: &[ValueColumn],
    texts: Option<&TextColumns>,
    memory: u64,
    directory: &Path,
) -> Result<KeyStore> {
    let wanted = ColumnsRead::new(key, values, source.rows().added()).with_texts(texts);
    let label = texts.map_or(0, TextColumns::bytes);
    let store = StoreBuilder::new(memory, directory, key, values, label);
    let mut sink = ItemSink::new(wanted, store);
    let facts = scan(source, wanted, &mut sink)?;
    let rest = sink.finish().and_then(StoreBuilder::finish);
    let mut keys = rest.map_err(|e| source.locate(e, &facts.ends))?;
    keys.counts_mut().not_utf8 = facts.not_utf8;
    Ok(keys)
}

/// First pass, into memory: 32 bytes per distinct key and 4 per row.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place. Resource: more than 2³² − 1 rows.
pub fn read_keys(source: &Source, key: &KeySpec) -> Result<Keys> {
    match read_keys_within(source, key, &[], None, u64::MAX, Path::new(""))? {
        KeyStore::Memory(keys) => Ok(*keys),
        KeyStore::Disk(_) => unreachable!("no table takes all bytes of 64-bit memory"),
    }
}

/// Gathers items in memory, and on disk once they take too much memory.
pub(crate) struct StoreBuilder<'a> {
    memory: u64,
    directory: &'a Path,
    columns: &'a [ValueColumn],
    values: Option<AllValues>,
    store: Building<'a>,
}

enum Building<'a> {
    Memory(Box<Collector<'a>>),
    Disk(Box<Writer>),
}

impl<'a> StoreBuilder<'a> {
    pub(crate) fn new(
        memory: u64,
        directory: &'a Path,
        key: &KeySpec,
        values: &'a [ValueColumn],
        label: usize,
    ) -> StoreBuilder<'a> {
        let has_numbers = key.bits().is_some();
        StoreBuilder {
            memory,
            directory,
            columns: values,
            values: (!values.is_empty()).then(AllValues::new),
            store: Building::Memory(Box::new(Collector::new(has_numbers, values, label))),
        }
    }

    pub(crate) fn finish(self) -> Result<KeyStore> {
        let values = self.values.map(AllValues::finish);
        let writer = match self.store {
            Building::Disk(writer) => *writer,
            Building::Memory(mut collector) => {
                collector.drop_repetitions()?;
                if collector.fits(self.memory)? {
                    let mut keys = collector.finish()?;
                    keys.rows_values = values;
                    return Ok(KeyStore::Memory(keys.into()));
                }
                Writer::take_over(self.directory, *collector, self.columns, self.memory)?
            }
        };
        let spool = writer.finish(values);
        spool
            .map(|spool| KeyStore::Disk(spool.into()))
            .map_err(|e| in_directory(e, self.directory))
    }
}

impl TakeItems for StoreBuilder<'_> {
    fn add(&mut self, item: Item, values: RowValues) -> Result<()> {
        if let Some(all) = &mut self.values {
            all.add(&values);
        }
        match &mut self.store {
            Building::Disk(writer) => writer
                .add(item, &values)
                .map_err(|e| in_directory(e, self.directory)),
            Building::Memory(collector) => {
                collector.add(item, values)?;
                if !collector.fits(self.memory)? {
                    let collector = std::mem::take(&mut **collector);
                    let writer =
                        Writer::take_over(self.directory, collector, self.columns, self.memory)?;
                    self.store = Building::Disk(Box::new(writer));
                }
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<()> {
        match &mut self.store {
            Building::Disk(_) => Ok(()),
            Building::Memory(collector) => collector.drop_repetitions(),
        }
    }
}

/// An error about the file of keys, which has no name.
fn in_directory(e: Error, directory: &Path) -> Error {
    e.in_path(&directory.display().to_string())
}

/// Fills a spool with the keys of rows.
struct Writer {
    runs: RunWriter,
    counts: Counts,
    rows: RowKeys,
    /// Columns of values.
    columns: usize,
    /// What goes with the key of the next row.
    beside: Zeroizing<Vec<u8>>,
    /// One run of keys takes the memory of the other.
    reused: Option<KeepFreed>,
}

impl Writer {
    /// A spool that begins with the keys that have been read into memory, which have values of these columns.
    fn take_over(
        directory: &Path,
        collector: Collector<'_>,
        columns: &[ValueColumn],
        memory: u64,
    ) -> Result<Writer> {
        let (keys, sums) = collector.unjudged()?;
        let in_directory = |e| in_directory(e, directory);
        let shape = Shape {
            has_numbers: keys.numbers().is_some(),
            label: keys.label_bytes(),
            columns: columns.len(),
        };
        let half = memory / 2;
        let mut writer = Writer {
            // Half of it, since the keys are in memory while the first run is written.
            runs: RunWriter::create(directory, shape, columns, half).map_err(in_directory)?,
            counts: Counts {
                rows: 0,
                items: 0,
                duplicates: 0,
                ..*keys.counts()
            },
            rows: RowKeys::new(),
            columns: columns.len(),
            beside: Zeroizing::new(Vec::with_capacity(shape.beside())),
            reused: None,
        };
        let mut first = 0;
        for item in keys.row_items() {
            let item = *item as usize;
            let number = keys.numbers().and_then(|numbers| numbers.get(item));
            let key = keys.digests().get(item);
            let key = key.map(|digest| (digest, *number.unwrap_or(&0)));
            if key.is_some() && shape.beside() > 0 {
                // Items have numbers in the order of their first rows, to which their sums go.
                let sums = sums.iter().skip(columns.len() * item);
                let is_first = item == first;
                let sums = sums.map(|sum| if is_first { *sum } else { 0 });
                writer.set_beside(keys.label(item), sums);
                first += usize::from(is_first);
            }
            writer.next_row(key).map_err(in_directory)?;
        }
        // What the keys took so far is for other uses.
        drop((keys, sums));
        writer.reused = Some(KeepFreed::begin());
        Ok(writer)
    }

    /// Sets what goes with the key of the next row: its label, and the first of these values.
    fn set_beside(&mut self, label: &[u8], values: impl Iterator<Item = i128>) {
        self.beside.clear();
        self.beside.extend_from_slice(label);
        add_values(&mut self.beside, values.take(self.columns));
    }

    /// Adds the item of the next row, and what goes with it.
    fn add(&mut self, item: Item, values: &RowValues) -> Result<()> {
        self.counts.add(&item);
        match item {
            Item::Blank | Item::Invalid { .. } => self.next_row(None),
            Item::Digest { digest, number, .. } => {
                self.set_beside(&values.label, values.all().map(i128::from));
                self.next_row(Some((&digest, number)))
            }
        }
    }

    /// Adds the digest of the next row and its number, with what goes with it.
    fn next_row(&mut self, key: Option<(&[u8; 32], u64)>) -> Result<()> {
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
        self.rows.add(key.map(|(digest, _)| digest));
        let Some((&digest, number)) = key else {
            return Ok(());
        };
        self.runs.push(&Record {
            digest,
            row,
            number,
            beside: &self.beside,
        })
    }

    /// Counts distinct keys. `values` is a hash of the values of rows, if they have some.
    fn finish(self, values: Option<[u8; 32]>) -> Result<Spool> {
        let _reused = self.reused;
        let runs = self.runs.finish()?;
        let mut counts = self.counts;
        (counts.items, counts.frequent) = runs.count(counts.rows)?;
        counts.duplicates = counts.rows - counts.blanks - counts.invalid - counts.items;
        Ok(Spool {
            stage: Stage::Sorted(runs),
            handed: None,
            counts,
            identity: with_values(self.rows.finish(), values),
        })
    }
}

/// The keys of a table, on disk.
pub struct Spool {
    stage: Stage,
    /// What the peer has handed over.
    handed: Option<HandedKeys>,
    counts: Counts,
    identity: [u8; 32],
}

/// Without the hash of the keys, with which guesses at all of them could be tested.
impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// How far the keys are.
#[derive(Debug)]
enum Stage {
    Sorted(Runs),
    Split(Buckets),
}

impl Spool {
    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Adds every distinct key to the hash of a set.
    ///
    /// # Errors
    /// Resource: the file cannot be read back. Usage: the keys are split already.
    pub fn hash(&self, into: &mut SetHash) -> Result<()> {
        let runs = self.sorted()?;
        let mut merged = Merged::default();
        for part in runs.parts() {
            let merged = runs.merge(&part, &mut merged)?;
            for same in merged.distinct() {
                into.add(&merged.digests()[index(same[0])]);
            }
        }
        Ok(())
    }

    /// Puts every key into the one of `buckets` buckets that `assign` names for its digest: it is given some, and returns as
    /// many numbers. Once only, also if it fails.
    ///
    /// # Errors
    /// Usage or Resource: the file cannot be written or read back.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn split(
        &mut self,
        directory: &Path,
        buckets: usize,
        assign: impl Fn(&[[u8; 32]]) -> Vec<u32> + Sync,
    ) -> Result<()> {
        let split = Buckets::split(self.sorted()?, directory, buckets, assign);
        self.stage = Stage::Split(split.map_err(in_temporary_file)?);
        Ok(())
    }

    /// The keys before they are split.
    pub(crate) fn sorted(&self) -> Result<&Runs> {
        match &self.stage {
            Stage::Sorted(runs) => Ok(runs),
            Stage::Split(_) => Err(Error::usage("the keys are in buckets already")),
        }
    }

    /// The keys once they are split.
    fn buckets(&self) -> Result<&Buckets> {
        match &self.stage {
            Stage::Sorted(_) => Err(Error::usage("the keys are in no buckets yet")),
            Stage::Split(buckets) => Ok(buckets),
        }
    }

    /// The order that the rows of matching keys have on both sides, under the key of a run. To put rows in order takes
    /// approximately `memory` bytes; what does not fit takes more passes over the table.
    pub fn common_order(&self, key: [u8; 32], memory: u64) -> CommonOrder<'_> {
        let keys = match &self.stage {
            Stage::Sorted(runs) => KeyRows::Runs(runs),
            Stage::Split(buckets) => KeyRows::Buckets(buckets),
        };
        CommonOrder::new(keys, key, memory)
    }

    /// The distinct keys of one bucket: 32 bytes of memory for each, or 40, and those of its texts, however many rows have
    /// them.
    ///
    /// # Errors
    /// Resource: the file cannot be read back. Usage: the keys are not split.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn load(&self, bucket: usize) -> Result<Bucket> {
        self.buckets()?.load(bucket)
    }

    /// Chooses exactly the rows of a bucket whose key matched: [sets](RowSet::set) each to the entry of its key in `matched`,
    /// which has one entry for each of [`Bucket::digests`].
    ///
    /// The time depends only on this side's table: whatever matched, it reads the same bytes and writes the same words of
    /// `rows`.
    ///
    /// # Errors
    /// Resource: the file cannot be read back. Usage: the keys are not split.
    ///
    /// # Panics
    /// If there is no such bucket, `matched` is of another length, or `rows` is of another table.
    pub fn mark(&self, bucket: usize, matched: &[bool], rows: &mut RowSet) -> Result<()> {
        self.buckets()?.mark(bucket, matched, rows)
    }

    /// The first row of each of [`Bucket::digests`], counted from 0.
    ///
    /// # Errors
    /// Resource: the file cannot be read back. Usage: the keys are not split.
    ///
    /// # Panics
    /// If there is no such bucket.
    pub fn first_rows(&self, bucket: usize) -> Result<Vec<u64>> {
        self.buckets()?.first_rows(bucket)
    }

    /// Keeps what the peer has handed over for the keys of a bucket: a label of `bytes` bytes for each of
    /// [`Bucket::digests`], one after the other, zeros where it does not match. The time depends only on their number.
    ///
    /// # Errors
    /// Usage or Resource: the file cannot be written.
    pub fn keep_labels(
        &mut self,
        directory: &Path,
        bucket: usize,
        labels: &[u8],
        bytes: usize,
    ) -> Result<()> {
        let handed = match &mut self.handed {
            Some(handed) => handed,
            none => {
                let file = BucketFile::create(directory)?;
                none.insert(HandedKeys { file, bytes })
            }
        };
        handed.file.add(bucket, labels)
    }

    /// What the peer has handed over for the rows that match, in labels of so many columns; `None` if that is nothing. Takes
    /// approximately `memory` bytes, and a bucket's labels.
    ///
    /// # Errors
    /// Usage or Resource: a file cannot be written or read back.
    pub fn handed_over(
        &self,
        directory: &Path,
        columns: &[PeerColumn],
        matched: &RowSet,
        memory: u64,
    ) -> Result<Option<HandedRows>> {
        let Some(handed) = &self.handed else {
            return Ok(None);
        };
        let buckets = self.buckets()?;
        let rows_of = |bucket: usize, each: &mut dyn FnMut(usize, u32) -> Result<()>| {
            buckets.rows(bucket, each)
        };
        let unreadable = |labels: &[u8]| unreadable(labels, handed.bytes, columns);
        let rows = HandedRows::new(handed, directory, matched, memory, unreadable, rows_of);
        rows.map(Some).map_err(in_temporary_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorClass, ValueProblem};
    use crate::options::SourceOptions;
    use std::collections::BTreeMap;

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
        let store = read_keys_within(source, key, &[], None, memory, directory.path()).unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        match store {
            KeyStore::Disk(spool) => (directory, *spool),
            KeyStore::Memory(_) => panic!("it fits into {memory} bytes"),
        }
    }

    /// The rows whose key `chosen` picks.
    fn expected(keys: &Keys, chosen: impl Fn(&[u8; 32]) -> bool) -> RowSet {
        let matched: Vec<bool> = keys.digests().iter().map(chosen).collect();
        keys.rows_of(&matched)
    }

    #[test]
    fn a_spool_says_what_memory_says() {
        let (source, key) = table(3000);
        let keys = read_keys(&source, &key).unwrap();
        let chosen = |digest: &[u8; 32]| digest[7].is_multiple_of(3);
        let expected = expected(&keys, chosen);
        for memory in [0, 20_000] {
            let (_directory, spool) = spooled(&source, &key, memory);
            assert_eq!(spool.counts(), keys.counts());
            let in_memory = KeyStore::Memory(keys.clone().into());
            assert_eq!(in_memory.identity(), spool.identity, "{memory}");
            let [mut of_spool, mut of_memory] = [(); 2].map(|()| SetHash::new(&[7; 32]));
            spool.hash(&mut of_spool).unwrap();
            keys.digests().iter().for_each(|key| of_memory.add(key));
            assert_eq!(of_spool.finish(), of_memory.finish());
            let repeated = KeyStore::Disk(spool.into()).most_repeated(5).unwrap();
            assert_eq!(repeated, in_memory.most_repeated(5).unwrap());
            assert_eq!(repeated.len(), 5);
            for buckets in [1, 4, 2] {
                let (directory, mut spool) = spooled(&source, &key, memory);
                let of = |digest: &[u8; 32]| u32::from(digest[31]) % buckets;
                let assign = |digests: &[[u8; 32]]| digests.iter().map(of).collect();
                assert_eq!(
                    spool.load(0).err().map(|e| e.class()),
                    Some(ErrorClass::Usage)
                );
                spool
                    .split(directory.path(), buckets as usize, assign)
                    .unwrap();
                // What earlier runs left is overwritten, in every row that has a key.
                let (mut none, mut all) = (RowSet::none(3000), RowSet::none(3000));
                for (row, item) in (0..).zip(keys.row_items()) {
                    all.set(row, *item != Keys::NO_ITEM);
                }
                let mut digests = Vec::new();
                for bucket in 0..buckets {
                    let loaded = spool.load(bucket as usize).unwrap();
                    assert!(loaded.digests.iter().all(|d| of(d) == bucket));
                    let matched: Vec<bool> = loaded.digests.iter().map(chosen).collect();
                    for rows in [&mut none, &mut all] {
                        spool.mark(bucket as usize, &matched, rows).unwrap();
                    }
                    digests.extend(loaded.digests);
                }
                assert!(none == expected && all == expected, "{buckets}");
                let mut every = keys.digests().to_vec();
                every.sort_unstable();
                digests.sort_unstable();
                assert!(digests == every);
                let again = spool.split(directory.path(), 1, |_| Vec::new());
                assert_eq!(again.unwrap_err().class(), ErrorClass::Usage);
            }
        }
    }

    #[test]
    fn repeated_keys_count_once_towards_the_memory() {
        // Each key in three rows or so, far apart.
        let (source, key) = table(3000);
        let needed = read_keys(&source, &key).unwrap().counts().bytes_in_memory();
        let directory = tempfile::tempdir().unwrap();
        let read = |memory| read_keys_within(&source, &key, &[], None, memory, directory.path());
        assert!(matches!(read(needed).unwrap(), KeyStore::Memory(_)));
        assert!(matches!(read(needed - 1).unwrap(), KeyStore::Disk(_)));
    }

    #[test]
    fn values_go_to_disk_with_their_keys() {
        let columns = |bound, sums_repeated| {
            ["v", "w"].map(|name| ValueColumn {
                name: name.into(),
                scale: 0,
                bound,
                sums_repeated,
            })
        };
        let read = |rows: &str, columns: &[ValueColumn], memory| {
            let text = format!("k,v,w\n{rows}");
            let source = Source::from_bytes("t.csv", text.into(), SourceOptions::default());
            let key = KeySpec::parse::<&str>("k", &[]).unwrap();
            let directory = std::env::temp_dir();
            read_keys_within(&source.unwrap(), &key, columns, None, memory, &directory)
        };
        // The sum of the first key is within the bound only once all rows have been read, and is in several runs.
        let most = i64::MAX as u64;
        let mut rows = format!("a,{most},5\na,{most},5\n");
        for i in 0..3000 {
            rows.push_str(&format!("{},{i},-{i}\n", i * i % 1009));
        }
        let beyond = rows.clone();
        rows.push_str(&format!("a,-{most},0\n"));
        let summed = columns(most, true);
        let KeyStore::Memory(keys) = read(&rows, &summed, u64::MAX).unwrap() else {
            panic!("it fits");
        };
        let values = keys.values().unwrap().chunks(2).map(<[i64]>::to_vec);
        let expected: BTreeMap<_, _> = keys.digests().iter().copied().zip(values).collect();
        assert!(expected.values().any(|sums| *sums == [i64::MAX, 10]));
        for memory in [0, 20_000, 40_000] {
            let KeyStore::Disk(mut spool) = read(&rows, &summed, memory).unwrap() else {
                panic!("it fits into {memory}");
            };
            assert_eq!(spool.identity, KeyStore::Memory(keys.clone()).identity());
            let of = |digest: &[u8; 32]| u32::from(digest[31]) % 3;
            let assign = |digests: &[[u8; 32]]| digests.iter().map(of).collect();
            spool.split(&std::env::temp_dir(), 3, assign).unwrap();
            let mut found = BTreeMap::new();
            for bucket in 0..3 {
                let Bucket {
                    digests,
                    values,
                    labels,
                    ..
                } = spool.load(bucket).unwrap();
                assert!(labels.is_none());
                let values = values.unwrap();
                found.extend(
                    digests
                        .into_iter()
                        .zip(values.chunks(2).map(<[i64]>::to_vec)),
                );
            }
            assert!(found == expected, "{memory}");
            // What must not be is refused wherever the keys are.
            let once: String = (0..3000).map(|i| format!("{i},{i},1\n")).collect();
            for (rows, columns, problem, row) in [
                (
                    &beyond,
                    &summed,
                    ValueProblem::SumAboveBound {
                        bound: most,
                        scale: 0,
                    },
                    1,
                ),
                (
                    &format!("{once}b,3001,1\n"),
                    &columns(3000, true),
                    ValueProblem::AboveBound {
                        bound: 3000,
                        scale: 0,
                    },
                    3001,
                ),
                (
                    &format!("{once}7,0,0\n"),
                    &columns(3000, false),
                    ValueProblem::Repeated,
                    3001,
                ),
            ] {
                for memory in [memory, u64::MAX] {
                    let error = read(rows, columns, memory).unwrap_err();
                    let ErrorKind::BadValue { problem: found } = error.kind() else {
                        panic!("{error}");
                    };
                    assert_eq!(
                        (*found, error.place().row),
                        (problem, Some(row)),
                        "{memory}"
                    );
                }
            }
        }
    }

    #[test]
    fn keys_that_fit_stay_in_memory() {
        let (source, key) = table(100);
        let nowhere = Path::new("/nowhere");
        let store = read_keys_within(&source, &key, &[], None, 1 << 20, nowhere).unwrap();
        assert!(matches!(store, KeyStore::Memory(_)));
        let error = read_keys_within(&source, &key, &[], None, 0, nowhere).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    }

    #[test]
    fn other_values_are_another_identity() {
        let column = ValueColumn {
            name: "v".into(),
            scale: 0,
            bound: 1000,
            sums_repeated: true,
        };
        let identity = |rows: &str| {
            let text = format!("k,v\n{rows}");
            let source = Source::from_bytes("t.csv", text.into(), SourceOptions::default());
            let key = KeySpec::parse::<&str>("k", &[]).unwrap();
            let values = std::slice::from_ref(&column);
            let nowhere = Path::new("");
            let read = read_keys_within(&source.unwrap(), &key, values, None, u64::MAX, nowhere);
            read.unwrap().identity()
        };
        let first = identity("a,1\nb,2\na,3\n");
        assert_eq!(identity("a,1\nb,2\na,3\n"), first);
        assert_ne!(identity("a,3\nb,2\na,1\n"), first);
        assert_ne!(identity("a,1\nb,2\na,4\n"), first);
        assert_ne!(identity("a,2\nb,4\na,2\n"), first);
    }

    #[test]
    fn other_keys_are_another_identity() {
        let identity = |rows| {
            let (source, key) = table(rows);
            KeyStore::Memory(read_keys(&source, &key).unwrap().into()).identity()
        };
        assert_eq!(identity(50), identity(50));
        assert_ne!(identity(50), identity(51));
    }
}
