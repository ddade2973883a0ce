//! How many queries each client has made, in an embedded database ([`redb`]) that has each question on the disk before its
//! answer leaves. So a crash loses nothing of a client's quota and gives nothing back. A batch that a client sends again costs
//! nothing, up to 16 times: the hashes of its last batches are kept too. Clients that ask at the same time share one wait for the
//! disk.
//!
//! A client that comes back may ask for a batch only if that was paid for. Otherwise it is withdrawn, and not answered any
//! more: its bytes may still be on their way over the connection that was lost, where nobody waits for the answer. Which ones
//! were withdrawn is kept in memory alone, since those connections end with the process.
//!
//! The database has a row for each client, and a head: the last release, how many queries all rows have together, so that none
//! can be missing, and how often it was written. The key of a row is a keyed hash of the client's fingerprint; its value is a
//! salt (32 bytes) and what a [`Sealed`] message says under it, a key of the publisher's identity and the OPRF's key, bound to
//! the key of the row: the queries (8), how many batches are remembered (4), and each of these with how often it was asked
//! again (32 and 8).
//!
//! Commits are of two phases: where pages of one that has succeeded are damaged, the file is refused, and does not go back to
//! the commit before. One bit, which has no checksum, tells which of the two latest states counts: the other is taken if it
//! is the later one.
//!
//! The file is written anew whenever it is opened. A server that has it open elsewhere, where locks do not reach, finds that it
//! has lost it, and answers no more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{Builder, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};
use vesica_files::{FileId, WholeFile, catching, keep_name, many, open_named};
use vesica_primitives::sealed::{Sealed, TAG};
use vesica_primitives::voprf::Element;
use vesica_session::codec::{Reader, bad};
use vesica_session::{Fingerprint, Identity, random};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::error::{Error, StoreProblem};
use crate::header::MAX_QUERIES;

mod version_2;

/// What names of its file begin with; the first digits of the key follow.
const FILE: &str = "quotas";
/// Bytes of the key in the name.
const NAMED: usize = 8;
/// What files of the database begin with.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// Where the bit is that tells which of two states counts.
const STATE: (usize, u8) = (MAGIC.len(), 1);
/// Where the sizes of pages and regions are, which are always the same.
const SIZES: std::ops::Range<usize> = 12..24;
const ROWS: TableDefinition<&[u8; 32], &[u8]> = TableDefinition::new("vesica quotas 1");
const SALT: usize = 32;
/// Bytes of pages that are kept in memory.
const CACHE: usize = 1 << 20;
/// Batches of a client that are remembered.
const MAX_BATCHES: usize = 64;
/// How often one of these is answered again at no cost.
const MAX_REPEATS: u64 = 16;
/// Withdrawn batches of a client that are remembered: twice what eight connections recall after a crash.
const MAX_WITHDRAWN: usize = 512;

/// A question that was paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    hash: [u8; 32],
    /// How often it was asked again.
    repeats: u64,
}

/// A client's account.
#[derive(Clone, Debug, Default)]
struct Account {
    /// Queries that were answered.
    used: u64,
    /// The last batches, the one that was asked last at the end.
    batches: VecDeque<Batch>,
    /// The last batches that were withdrawn before they were asked.
    withdrawn: VecDeque<[u8; 32]>,
}

impl Account {
    /// A batch that was paid for, asked once more, if it may be asked so often.
    fn again(&self, hash: [u8; 32]) -> Option<Batch> {
        let known = self.batches.iter().find(|known| known.hash == hash);
        let repeats = known.map(|known| known.repeats + 1);
        let repeats = repeats.filter(|repeats| *repeats <= MAX_REPEATS)?;
        Some(Batch { hash, repeats })
    }

    fn withdraw(&mut self, hash: [u8; 32]) {
        self.withdrawn.retain(|known| *known != hash);
        if self.withdrawn.len() == MAX_WITHDRAWN {
            self.withdrawn.pop_front();
        }
        self.withdrawn.push_back(hash);
    }

    fn remember(&mut self, batch: Batch) {
        self.batches.retain(|known| known.hash != batch.hash);
        if self.batches.len() == MAX_BATCHES {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.used.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(self.batches.len() as u32).to_le_bytes());
        for batch in &self.batches {
            bytes.extend_from_slice(&batch.hash);
            bytes.extend_from_slice(&batch.repeats.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Account, WireError> {
        let mut reader = Reader::new("account of a client", bytes);
        let mut account = Account {
            used: reader.u64()?,
            ..Account::default()
        };
        let batches = reader.u32()? as usize;
        for _ in 0..batches.min(MAX_BATCHES) {
            let (hash, repeats) = (reader.array()?, reader.u64()?);
            account.batches.push_back(Batch { hash, repeats });
        }
        reader.end()?;
        let fits = account.used <= MAX_QUERIES && batches <= MAX_BATCHES;
        let mut batches = account.batches.iter();
        match fits && batches.all(|batch| batch.repeats <= MAX_REPEATS) {
            true => Ok(account),
            false => Err(bad("account of a client", "more than anybody may ask")),
        }
    }
}

/// The key of a row.
type Row = [u8; 32];
type Accounts = HashMap<Row, Account>;

/// What all have used together. Each is bounded, but not how many there are in a file.
fn sum(accounts: &Accounts) -> u64 {
    let used = accounts.values().map(|account| account.used);
    used.fold(0, u64::saturating_add)
}

/// What makes keys of rows, and seals their values.
struct Seals {
    rows: Zeroizing<[u8; 32]>,
    values: Zeroizing<[u8; 32]>,
}

impl Seals {
    fn of(identity: &Identity, oprf_key: &Element) -> Seals {
        let key = identity.derive_key("vesica/1 quotas of a published set");
        let of = |what: &[u8]| {
            let key = blake3::keyed_hash(&key, &[oprf_key.bytes(), what].concat());
            Zeroizing::new(key.into())
        };
        Seals {
            rows: of(b"rows"),
            values: of(b"values"),
        }
    }

    fn row(&self, client: Fingerprint) -> Row {
        blake3::keyed_hash(&self.rows, client.as_bytes()).into()
    }

    /// The key of the head, which is no client's: their fingerprints are longer.
    fn head(&self) -> Row {
        blake3::keyed_hash(&self.rows, b"head").into()
    }

    fn seal(&self, row: &Row, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut salt = [0; SALT];
        random::fill(&mut salt).map_err(io::Error::other)?;
        let mut value = Vec::with_capacity(SALT + content.len() + TAG);
        value.extend_from_slice(&salt);
        Sealed::new(&self.values, &[&salt]).write(row, content, &mut value)?;
        Ok(value)
    }

    /// What the value of a row says; `None` if that is not what was written there.
    fn open(&self, row: &Row, value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (salt, mut sealed) = value.split_first_chunk::<SALT>()?;
        let length = sealed.len() as u64;
        let sealed_under = Sealed::new(&self.values, &[salt]);
        sealed_under.read(row, length, &mut sealed).ok()
    }
}

/// A database in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        (&*rest).read_exact(out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.lock().resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.lock();
        let place = bytes.get_mut(offset as usize..).unwrap_or_default();
        let place = place.get_mut(..data.len());
        let place = place.ok_or(io::ErrorKind::UnexpectedEof)?;
        place.copy_from_slice(data);
        Ok(())
    }
}

fn database(backend: impl StorageBackend) -> Result<redb::Database, redb::Error> {
    let mut builder = Builder::new();
    Ok(builder.set_cache_size(CACHE).create_with_backend(backend)?)
}

/// Writes rows, all of them or none, which are on the disk when this returns.
fn commit(database: &redb::Database, rows: &[(Row, Vec<u8>)]) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    let mut table = transaction.open_table(ROWS)?;
    for (row, value) in rows {
        table.insert(row, &**value)?;
    }
    drop(table);
    Ok(transaction.commit()?)
}

/// What a file says.
struct Kept {
    accounts: Accounts,
    /// The last release that was seen.
    release: u64,
    /// How often it was written.
    writes: u64,
}

impl Kept {
    /// Nothing, as long as this is the last release.
    fn new(release: u64) -> Kept {
        Kept {
            accounts: Accounts::new(),
            release,
            writes: 0,
        }
    }

    /// What is in a database; `None` if that is damaged, or was not written with these keys.
    fn read(bytes: Vec<u8>, seals: &Seals) -> Option<Kept> {
        let new = Memory::default();
        database(new.clone()).ok()?;
        // Other sizes would take any amount of memory; and one without any bytes would be a new one.
        let is_one = bytes.starts_with(MAGIC) && bytes.get(SIZES) == new.lock().get(SIZES);
        let (at, bit) = STATE;
        let mut other = is_one.then(|| bytes.clone())?;
        *other.get_mut(at)? ^= bit;
        let kept = Kept::read_state(bytes, seals)?;
        let other = Kept::read_state(other, seals);
        other
            .into_iter()
            .chain([kept])
            .max_by_key(|kept| kept.writes)
    }

    fn read_state(bytes: Vec<u8>, seals: &Seals) -> Option<Kept> {
        let rows = || -> Result<Vec<(Row, Vec<u8>)>, redb::Error> {
            let mut database = database(Memory(Arc::new(Mutex::new(bytes))))?;
            database.check_integrity()?;
            let (transaction, mut rows) = (database.begin_read()?, Vec::new());
            for entry in transaction.open_table(ROWS)?.iter()? {
                let (row, value) = entry?;
                rows.push((*row.value(), value.value().to_vec()));
            }
            Ok(rows)
        };
        let rows = catching(rows).ok()?.ok()?;
        let mut kept = Kept::new(0);
        let (mut head, mut answered) = (None, 0);
        for (row, value) in rows {
            let content = seals.open(&row, &value)?;
            if row == seals.head() {
                let mut reader = Reader::new("head of the quotas", &content);
                (kept.release, answered) = (reader.u64().ok()?, reader.u64().ok()?);
                kept.writes = reader.u64().ok()?;
                head = Some(reader.end().ok()?);
            } else {
                kept.accounts.insert(row, Account::decode(&content).ok()?);
            }
        }
        head?;
        (answered == sum(&kept.accounts)).then_some(kept)
    }

    fn head(seals: &Seals, [release, answered, writes]: [u64; 3]) -> io::Result<(Row, Vec<u8>)> {
        let content = [release, answered, writes].map(u64::to_le_bytes);
        let head = seals.head();
        Ok((head, seals.seal(&head, content.as_flattened())?))
    }

    /// Also counts what another file says of the same clients, of which each has asked at least as much as either says.
    fn add(&mut self, other: Kept) {
        self.release = self.release.max(other.release);
        for (row, theirs) in other.accounts {
            let own = self.accounts.entry(row).or_default();
            own.used = own.used.max(theirs.used);
            for batch in theirs.batches {
                if !own.batches.iter().any(|known| known.hash == batch.hash) {
                    own.remember(batch);
                }
            }
        }
    }

    /// Replaces the file at a path by a database that says this.
    fn write(&self, path: &Path, seals: &Seals) -> io::Result<()> {
        let rows = self.accounts.iter();
        let rows = rows.map(|(row, account)| Ok((*row, seals.seal(row, &account.encode())?)));
        let mut rows: Vec<_> = rows.collect::<io::Result<_>>()?;
        let head = [self.release, sum(&self.accounts), self.writes];
        rows.push(Kept::head(seals, head)?);
        let memory = Memory::default();
        let write = || -> Result<(), redb::Error> {
            let mut database = database(memory.clone())?;
            commit(&database, &rows)?;
            database.compact()?;
            Ok(())
        };
        write().map_err(cause)?;
        let mut file = WholeFile::create(path)?;
        file.write_all(&memory.lock())?;
        file.commit_for_good()
    }
}

struct Open {
    accounts: Accounts,
    /// What all have used together.
    answered: u64,
    /// The last release that was seen.
    release: u64,
    /// How often the file was written.
    writes: u64,
    /// Changes so far, and the accounts that were changed since the last that were written.
    changes: u64,
    changed: HashSet<Row>,
    /// Why the file cannot be written any more.
    broken: Option<String>,
}

impl Open {
    /// The account of a client, as long as the file can be written.
    fn account(&mut self, row: Row) -> Result<&mut Account, WireError> {
        match &self.broken {
            Some(why) => Err(storage(why)),
            None => Ok(self.accounts.entry(row).or_default()),
        }
    }

    /// Notes that an account has changed; returns which change it is.
    fn change(&mut self, row: Row) -> u64 {
        self.changed.insert(row);
        self.changes += 1;
        self.changes
    }
}

/// The accounts of all clients under a key.
pub(crate) struct Quotas {
    path: PathBuf,
    seals: Seals,
    /// Queries of all clients together, at most.
    cap: u64,
    /// Until it is dropped.
    database: Option<redb::Database>,
    file: FileId,
    open: Mutex<Open>,
    /// Changes that are on the disk for certain.
    kept: AtomicU64,
    /// Held by who writes to the disk.
    keeping: Mutex<()>,
}

/// Does not show its keys.
impl std::fmt::Debug for Quotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Quotas").field(&self.path).finish()
    }
}

/// A database that has failed is not closed: that would write to it once more.
impl Drop for Quotas {
    fn drop(&mut self) {
        if self.lock().broken.is_some() {
            std::mem::forget(self.database.take());
        }
    }
}

/// What a batch costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debit {
    /// It is new, and was taken from the quota.
    Paid,
    /// Nothing: it was paid for before.
    Repeated,
    /// Nothing, and it is not answered: it was to cost nothing, and was not paid for.
    Withdrawn,
}

/// Names of files with quotas, and what these begin with: as they are made, and as they were.
const KINDS: [(&str, &[u8]); 2] = [(FILE, MAGIC), (version_2::FILE, version_2::MAGIC)];

fn name(kind: &str, oprf_key: &Element) -> String {
    let digits = oprf_key.bytes()[..NAMED].iter();
    let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-{digits}")
}

/// Whether the name of a file is one that a key gives.
fn is_name(kind: &str, name: &str) -> bool {
    let digits = name
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix('-'));
    digits.is_some_and(|digits| {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == 2 * NAMED && digits.bytes().all(is_digit)
    })
}

/// Whether a file begins like this.
fn begins(path: &Path, begin: &[u8]) -> bool {
    let found = || -> io::Result<bool> {
        let mut found = vec![0; begin.len()];
        open_named(path)?.read_exact(&mut found)?;
        Ok(found == begin)
    };
    let is_file = path.symlink_metadata().is_ok_and(|there| there.is_file());
    is_file && found().unwrap_or(false)
}

impl Quotas {
    /// Makes the quotas of a new key, of no queries. Those that are there stay: no count begins again.
    pub(crate) fn create(
        directory: &Path,
        identity: &Identity,
        oprf_key: &Element,
    ) -> Result<(), Error> {
        for (kind, _) in KINDS {
            let path = directory.join(name(kind, oprf_key));
            match path.symlink_metadata() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                there => return there.map(drop).map_err(|e| Error::io(&path, &e)),
            }
        }
        let path = directory.join(name(FILE, oprf_key));
        let made = Kept::new(1).write(&path, &Seals::of(identity, oprf_key));
        made.map_err(|e| Error::io(&path, &e))
    }

    /// Whether there are quotas of this key.
    pub(crate) fn are_in(directory: &Path, oprf_key: &Element) -> bool {
        let mut kinds = KINDS.iter();
        kinds.any(|(kind, begin)| begins(&directory.join(name(kind, oprf_key)), begin))
    }

    /// Removes the quotas of keys that were before this one, and no other file.
    pub(crate) fn remove_others(directory: &Path, oprf_key: &Element) -> Result<(), Error> {
        let remove = || -> io::Result<()> {
            for entry in directory.read_dir()? {
                let file = entry?.file_name();
                let path = directory.join(&file);
                let is_other = |(kind, begin): &(&str, &[u8])| {
                    let file = file.to_str().filter(|file| is_name(kind, file));
                    file.is_some_and(|file| file != name(kind, oprf_key)) && begins(&path, begin)
                };
                if KINDS.iter().any(is_other) {
                    std::fs::remove_file(path)?;
                }
            }
            Ok(())
        };
        remove().map_err(|e| Error::io(directory, &e))
    }

    /// Opens the quotas of a key, which were made with it, when this is the last release.
    pub(crate) fn open(
        directory: &Path,
        identity: &Identity,
        oprf_key: &Element,
        cap: u64,
        release: u64,
    ) -> Result<Quotas, Error> {
        let path = directory.join(name(FILE, oprf_key));
        let former = directory.join(name(version_2::FILE, oprf_key));
        let seals = Seals::of(identity, oprf_key);
        let kept = bytes_of(&path)?.map(|bytes| Kept::read(bytes, &seals).ok_or(FILE));
        let former_kept = bytes_of(&former)?.map(|bytes| {
            let kept = version_2::read(&bytes, identity, oprf_key, &seals);
            kept.ok_or(version_2::FILE)
        });
        let unreadable = |file| Error::store(directory, StoreProblem::Unreadable(file));
        let both = (
            kept.transpose().map_err(unreadable)?,
            former_kept.transpose().map_err(unreadable)?,
        );
        let kept = match both {
            // It was cut while it took the other over, which may have been served since.
            (Some(mut kept), Some(former)) => {
                kept.add(former);
                kept
            }
            (Some(kept), None) | (None, Some(kept)) => kept,
            (None, None) => return Err(Error::store(directory, StoreProblem::NoQuotas)),
        };
        if kept.release > release {
            let problem = StoreProblem::Older {
                last: release,
                found: kept.release,
            };
            return Err(Error::store(directory, problem));
        }
        let opened = || -> io::Result<_> {
            let writes = kept.writes + 1;
            let kept = Kept {
                release,
                writes,
                ..kept
            };
            kept.write(&path, &seals)?;
            if begins(&former, version_2::MAGIC) {
                std::fs::remove_file(&former)?;
                keep_name(&former)?;
            }
            let file = File::options().read(true).write(true).open(&path)?;
            let id = FileId::of(&file)?;
            let backend = FileBackend::new(file).map_err(redb::Error::from);
            let database = backend.and_then(database).map_err(cause)?;
            Ok((kept, database, id))
        };
        let (kept, database, file) = opened().map_err(|e| Error::io(&path, &e))?;
        Ok(Quotas {
            seals,
            cap,
            database: Some(database),
            file,
            open: Mutex::new(Open {
                answered: sum(&kept.accounts),
                accounts: kept.accounts,
                release,
                writes: kept.writes,
                changes: 0,
                changed: HashSet::new(),
                broken: None,
            }),
            kept: AtomicU64::new(0),
            keeping: Mutex::new(()),
            path,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queries that were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.lock().answered
    }

    /// Queries that this client may still make.
    pub(crate) fn left(&self, client: Fingerprint, quota: u64) -> u64 {
        let open = self.lock();
        let account = open.accounts.get(&self.seals.row(client));
        let used = account.map_or(0, |account| account.used);
        let free = self.cap.saturating_sub(open.answered);
        quota.saturating_sub(used).min(free)
    }

    /// Has what is written from now on say that this release was the last.
    pub(crate) fn saw(&self, release: u64) {
        let mut open = self.lock();
        open.release = open.release.max(release);
    }

    /// Takes a batch of so many queries from a client's quota, which is on the disk when this returns. Nothing for one of
    /// its last batches, up to [`MAX_REPEATS`] times.
    ///
    /// # Errors
    /// Resource: the quota, or that of the key, does not suffice, or the disk fails. `Closed`: the client has withdrawn it
    /// over another connection.
    pub(crate) fn debit(
        &self,
        client: Fingerprint,
        quota: u64,
        batch: [u8; 32],
        queries: u64,
    ) -> Result<Debit, WireError> {
        let row = self.seals.row(client);
        let mut open = self.lock();
        let free = self.cap.saturating_sub(open.answered);
        let account = open.account(row)?;
        if account.withdrawn.contains(&batch) {
            return Err(WireError::Closed);
        }
        let (batch, debit) = match account.again(batch) {
            Some(batch) => (batch, Debit::Repeated),
            None => {
                check_left(account.used, quota, free, queries)?;
                account.used += queries;
                let hash = batch;
                (Batch { hash, repeats: 0 }, Debit::Paid)
            }
        };
        account.remember(batch);
        if debit == Debit::Paid {
            open.answered += queries;
        }
        let change = open.change(row);
        drop(open);
        self.keep(change).map_err(|e| storage(&e.to_string()))?;
        Ok(debit)
    }

    /// Has a batch that was paid for cost nothing once more. One that was not is withdrawn: it is not answered any more.
    ///
    /// # Errors
    /// Resource: the disk fails.
    pub(crate) fn recall(&self, client: Fingerprint, batch: [u8; 32]) -> Result<Debit, WireError> {
        let row = self.seals.row(client);
        let mut open = self.lock();
        let account = open.account(row)?;
        let Some(batch) = account.again(batch) else {
            account.withdraw(batch);
            return Ok(Debit::Withdrawn);
        };
        account.remember(batch);
        let change = open.change(row);
        drop(open);
        self.keep(change).map_err(|e| storage(&e.to_string()))?;
        Ok(Debit::Repeated)
    }

    /// Gives back what was taken for a batch of which nothing has left, unless it was asked again meanwhile: another
    /// connection of the client may have that answer. A crash before the next write keeps it.
    pub(crate) fn give_back(&self, client: Fingerprint, batch: [u8; 32], queries: u64) {
        let row = self.seals.row(client);
        let mut open = self.lock();
        let Some(account) = open.accounts.get_mut(&row) else {
            return;
        };
        let unanswered = Batch {
            hash: batch,
            repeats: 0,
        };
        if account.batches.contains(&unanswered) {
            account.used -= queries;
            account.batches.retain(|known| *known != unanswered);
            open.answered -= queries;
            open.change(row);
        }
    }

    /// Has so many changes on the disk when it returns. Clients that wait at the same time share one wait.
    fn keep(&self, changes: u64) -> io::Result<()> {
        let _one = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        if self.kept.load(Ordering::Acquire) >= changes {
            return Ok(());
        }
        let (written, contents, head) = {
            let mut guard = self.lock();
            let open = &mut *guard;
            // An error of the disk is told once: a later call would succeed over what is lost.
            if let Some(why) = &open.broken {
                return Err(io::Error::other(why.clone()));
            }
            let changed = open.changed.drain();
            let contents = changed.map(|row| (row, open.accounts[&row].encode()));
            let contents: Vec<(Row, Vec<u8>)> = contents.collect();
            open.writes += 1;
            let head = [open.release, open.answered, open.writes];
            (open.changes, contents, head)
        };
        let write = || -> io::Result<()> {
            let rows = contents.iter();
            let rows = rows.map(|(row, content)| Ok((*row, self.seals.seal(row, content)?)));
            let mut rows: Vec<_> = rows.collect::<io::Result<_>>()?;
            rows.push(Kept::head(&self.seals, head)?);
            let database = self.database.as_ref().expect("it is open");
            commit(database, &rows).map_err(cause)
        };
        let write = || catching(write).unwrap_or_else(|panic| Err(io::Error::other(panic)));
        // Nothing is answered any more after an error: what a failed disk has of the file is unknown.
        let broken = |e: &io::Error| self.lock().broken = Some(e.to_string());
        write().inspect_err(broken)?;
        // Whether the place can be looked at is another matter.
        if !self.has_place()? {
            let replaced = io::Error::other("it was moved or replaced while it was in use");
            return Err(replaced).inspect_err(broken);
        }
        self.kept.store(written, Ordering::Release);
        Ok(())
    }

    /// Whether no other file has this one's name: somebody else serves the database, on a file system whose locks do not reach
    /// that far, or has put a copy in its place.
    fn has_place(&self) -> io::Result<bool> {
        match open_named(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            named => Ok(FileId::of(&named?)? == self.file),
        }
    }

    /// Writes what was given back, and the last release, once no client is served any more.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let changes = {
            let mut open = self.lock();
            if open.broken.is_some() {
                return Ok(());
            }
            open.changes += 1;
            open.changes
        };
        self.keep(changes).map_err(|e| Error::io(&self.path, &e))
    }
}

/// The operating system's error, if it is one.
fn cause(error: redb::Error) -> io::Error {
    match error {
        redb::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The bytes of a file, if there is one.
fn bytes_of(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    let read = open_named(path).and_then(|mut file| file.read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(path, &e)),
    }
}

/// Fails unless a client's quota, and the `free` queries of the key, suffice for further ones.
fn check_left(used: u64, quota: u64, free: u64, queries: u64) -> Result<(), WireError> {
    let left = quota.saturating_sub(used);
    if queries > left {
        return Err(WireError::limit(
            Limit::Queries,
            format!("the quota of {quota} queries has {left} left, and {queries} were asked"),
        ));
    }
    match queries > free {
        true => Err(WireError::limit(
            Limit::Queries,
            format!(
                "the published key answers {}, and {queries} were asked",
                many(free, "more query")
            ),
        )),
        false => Ok(()),
    }
}

fn storage(why: &str) -> WireError {
    WireError::limit(
        Limit::Storage,
        format!("the count of queries cannot be kept: {why}"),
    )
}

#[cfg(test)]
mod tests;
