//! How many queries each client has made: a file of encrypted records, each of which raises a client's total.
//!
//! A total is raised in blocks, and on the disk before an answer leaves. So a crash loses at most a block of a client's
//! quota and never gives any back, and most queries do not wait for the disk. A batch that a client sends again costs
//! nothing, some times: the hashes of its last batches are kept too.
//!
//! A client that comes back may ask for a batch only if that was paid for. Otherwise it is withdrawn, and not answered any
//! more: its bytes may still be on their way over the connection that was lost, where nobody waits for the answer. Which ones
//! were withdrawn is kept in memory alone, since those connections end with the process.
//!
//! ```text
//! "vesica ledger 2\n" │ salt, 32 │ head, 32 │ records of 112 bytes
//! ```
//!
//! Each is a [`Sealed`] message under a key of the publisher's identity, the OPRF's key, the salt and its place; the salt is
//! fresh whenever the file is written as a whole. The head says how many records the file began with, and the last release. A
//! record is a client's fingerprint (32 bytes), its total (8), the hash of a batch (32, zeros if there is none), how often
//! that was asked again (8), the last release (8), and how many records before it were on the disk for certain (8).
//!
//! Blocks of a file reach the disk in any order, so that a crash of the machine may leave any of the records that were not
//! synchronised. No answer relied on one of them: those that are missing are ignored. One that the head or another record
//! says was on the disk is not among them, and a ledger without it is refused.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vesica_files::{FileId, WholeFile, many, open_named};
use vesica_primitives::sealed::{Sealed, TAG};
use vesica_primitives::voprf::Element;
use vesica_session::codec::{Reader, bad};
use vesica_session::{Fingerprint, Identity, random};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::error::{Error, StoreProblem};
use crate::header::MAX_QUERIES;

/// What names of its file begin with; the first digits of the key follow.
const FILE: &str = "ledger";
/// Bytes of the key in the name.
const NAMED: usize = 8;
const MAGIC: &[u8; 16] = b"vesica ledger 2\n";
/// What ledgers of all versions begin with.
const ANY_VERSION: &[u8] = MAGIC.split_at(14).0;
const SALT: usize = 32;
const HEAD: usize = 16 + TAG;
const RECORD: usize = 32 + 8 + 32 + 8 + 8 + 8 + TAG;
/// By how many queries a total is raised at least.
const BLOCK: u64 = 256;
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
    /// The total on the disk.
    reserved: u64,
    /// Records up to the one that raised it.
    raised: u64,
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
}

type Accounts = HashMap<Fingerprint, Account>;

/// What a file says of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    client: Fingerprint,
    total: u64,
    batch: Batch,
    release: u64,
    /// Records that were on the disk when it was written.
    synchronised: u64,
}

impl Record {
    fn encode(&self) -> [u8; RECORD - TAG] {
        let mut bytes = [0; RECORD - TAG];
        let numbers = [self.batch.repeats, self.release, self.synchronised];
        bytes[..32].copy_from_slice(self.client.as_bytes());
        bytes[32..40].copy_from_slice(&self.total.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.batch.hash);
        bytes[72..].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Record, WireError> {
        let mut reader = Reader::new("record of the ledger", bytes);
        let record = Record {
            client: Fingerprint::from_bytes(reader.array()?),
            total: reader.u64()?,
            batch: Batch {
                hash: reader.array()?,
                repeats: reader.u64()?,
            },
            release: reader.u64()?,
            synchronised: reader.u64()?,
        };
        reader.end()?;
        match record.total <= MAX_QUERIES && record.batch.repeats <= MAX_REPEATS {
            true => Ok(record),
            false => Err(bad("record of the ledger", "more than anybody may ask")),
        }
    }
}

/// The keys of head and records of one file.
struct Seals {
    key: Zeroizing<[u8; 32]>,
    salt: [u8; SALT],
}

impl Seals {
    /// That of a place; records are counted from 1, after the head.
    fn of(&self, place: u64) -> Sealed {
        Sealed::new(&self.key, &[b"ledger", &self.salt, &place.to_le_bytes()])
    }

    fn seal(&self, place: u64, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut sealed = Vec::with_capacity(content.len() + TAG);
        self.of(place).write(MAGIC, content, &mut sealed)?;
        Ok(sealed)
    }

    /// The content at a place; `None` if that is not what was written there.
    fn open(&self, place: u64, mut sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let length = sealed.len() as u64;
        self.of(place).read(MAGIC, length, &mut sealed).ok()
    }
}

struct Open {
    accounts: Accounts,
    /// All totals together.
    reserved: u64,
    /// The last release that was seen.
    release: u64,
    file: Arc<File>,
    seals: Seals,
    records: u64,
    /// Why the file cannot be written any more.
    broken: Option<String>,
}

impl Open {
    /// The account of a client, as long as the file can be written.
    fn account(&mut self, client: Fingerprint) -> Result<&mut Account, WireError> {
        match &self.broken {
            Some(why) => Err(storage(why)),
            None => Ok(self.accounts.entry(client).or_default()),
        }
    }
}

/// Whether a file begins like a ledger.
fn is_ledger(path: &Path) -> bool {
    let begins = || -> io::Result<bool> {
        let mut begin = [0; ANY_VERSION.len()];
        open_named(path)?.read_exact(&mut begin)?;
        Ok(begin == *ANY_VERSION)
    };
    let is_file = path.symlink_metadata().is_ok_and(|there| there.is_file());
    is_file && begins().unwrap_or(false)
}

/// The accounts of all clients under a key.
pub(crate) struct Ledger {
    path: PathBuf,
    key: Zeroizing<[u8; 32]>,
    /// Queries of all clients together, at most.
    cap: u64,
    open: Mutex<Open>,
    /// Records that are on the disk for certain.
    synchronised: AtomicU64,
    /// Held by who synchronises the file.
    synchronising: Mutex<()>,
}

/// Does not show its key.
impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ledger").field(&self.path).finish()
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

impl Ledger {
    fn name(oprf_key: &Element) -> String {
        let digits: String = oprf_key.bytes()[..NAMED]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{FILE}-{digits}")
    }

    fn key(identity: &Identity, oprf_key: &Element) -> Zeroizing<[u8; 32]> {
        let key = identity.derive_key("vesica/1 ledger of a published set");
        Zeroizing::new(blake3::keyed_hash(&key, oprf_key.bytes()).into())
    }

    /// Makes the ledger of a new key, of no queries. One that is there stays: no count begins again.
    pub(crate) fn create(
        directory: &Path,
        identity: &Identity,
        oprf_key: &Element,
    ) -> Result<(), Error> {
        let path = directory.join(Ledger::name(oprf_key));
        match path.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            there => return there.map(drop).map_err(|e| Error::io(&path, &e)),
        }
        let key = Ledger::key(identity, oprf_key);
        let made = rewrite(&path, &key, &Accounts::new(), 1);
        made.map(drop).map_err(|e| Error::io(&path, &e))
    }

    /// Whether the name of a file is one that a key gives.
    fn is_name(name: &str) -> bool {
        let digits = name
            .strip_prefix(FILE)
            .and_then(|rest| rest.strip_prefix('-'));
        digits.is_some_and(|digits| {
            digits.len() == 2 * NAMED
                && digits
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    }

    /// Whether there is a ledger of this key.
    pub(crate) fn is_in(directory: &Path, oprf_key: &Element) -> bool {
        is_ledger(&directory.join(Ledger::name(oprf_key)))
    }

    /// Removes the ledgers of keys that were before this one, and no other file.
    pub(crate) fn remove_others(directory: &Path, oprf_key: &Element) -> Result<(), Error> {
        let own = Ledger::name(oprf_key);
        let remove = || -> io::Result<()> {
            for entry in directory.read_dir()? {
                let name = entry?.file_name();
                let path = directory.join(&name);
                let is_other = |name: &str| Ledger::is_name(name) && name != own;
                if name.to_str().is_some_and(is_other) && is_ledger(&path) {
                    std::fs::remove_file(path)?;
                }
            }
            Ok(())
        };
        remove().map_err(|e| Error::io(directory, &e))
    }

    /// Opens the ledger of a key, which was made with it, when this is the last release. What was reserved counts as used.
    pub(crate) fn open(
        directory: &Path,
        identity: &Identity,
        oprf_key: &Element,
        cap: u64,
        release: u64,
    ) -> Result<Ledger, Error> {
        let path = directory.join(Ledger::name(oprf_key));
        let key = Ledger::key(identity, oprf_key);
        let read = open_named(&path).and_then(|file| read(file, &key));
        let read = read.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::store(directory, StoreProblem::NoLedger),
            _ => Error::io(&path, &e),
        })?;
        let (accounts, seen) =
            read.ok_or_else(|| Error::store(directory, StoreProblem::Unreadable(FILE)))?;
        if seen > release {
            let problem = StoreProblem::Older {
                last: release,
                found: seen,
            };
            return Err(Error::store(directory, problem));
        }
        let written = rewrite(&path, &key, &accounts, release);
        let (file, seals, records) = written.map_err(|e| Error::io(&path, &e))?;
        Ok(Ledger {
            key,
            cap,
            open: Mutex::new(Open {
                reserved: reserved(&accounts),
                accounts,
                release,
                file: Arc::new(file),
                seals,
                records,
                broken: None,
            }),
            synchronised: AtomicU64::new(records),
            synchronising: Mutex::new(()),
            path,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queries that were answered or lost in a crash.
    pub(crate) fn answered(&self) -> u64 {
        let open = self.lock();
        let used = open.accounts.values().map(|account| account.used);
        used.fold(0, u64::saturating_add)
    }

    /// Queries that this client may still make.
    pub(crate) fn left(&self, client: Fingerprint, quota: u64) -> u64 {
        let open = self.lock();
        let account = open.accounts.get(&client);
        let (used, reserved) = account.map_or((0, 0), |account| (account.used, account.reserved));
        let free = self.cap.saturating_sub(open.reserved) + (reserved - used);
        quota.saturating_sub(used).min(free)
    }

    /// Has the records from now on say that this release was the last.
    pub(crate) fn saw(&self, release: u64) {
        let mut open = self.lock();
        open.release = open.release.max(release);
    }

    /// Takes a batch of so many queries from a client's quota, which is on the disk when this returns. Nothing for one of
    /// its last batches, some times.
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
        let mut open = self.lock();
        let free = self.cap.saturating_sub(open.reserved);
        let account = open.account(client)?;
        if account.withdrawn.contains(&batch) {
            return Err(WireError::Closed);
        }
        if let Some(batch) = account.again(batch) {
            return self.repeat(open, client, batch);
        }
        let (used, total) = (
            account.used + queries,
            total(account, quota, free, queries)?,
        );
        let batch = Batch {
            hash: batch,
            repeats: 0,
        };
        self.record(open, client, batch, used, total)?;
        Ok(Debit::Paid)
    }

    /// Has a batch that was paid for cost nothing once more. One that was not is withdrawn: it is not answered any more.
    ///
    /// # Errors
    /// Resource: the disk fails.
    pub(crate) fn recall(&self, client: Fingerprint, batch: [u8; 32]) -> Result<Debit, WireError> {
        let mut open = self.lock();
        let account = open.account(client)?;
        match account.again(batch) {
            Some(batch) => self.repeat(open, client, batch),
            None => {
                account.withdraw(batch);
                Ok(Debit::Withdrawn)
            }
        }
    }

    fn repeat(
        &self,
        mut open: MutexGuard<'_, Open>,
        client: Fingerprint,
        batch: Batch,
    ) -> Result<Debit, WireError> {
        let account = open.account(client)?;
        let (used, total) = (account.used, account.reserved);
        self.record(open, client, batch, used, total)?;
        Ok(Debit::Repeated)
    }

    /// Writes down what a client has used with a batch, and its total, which is on the disk when this returns.
    fn record(
        &self,
        mut guard: MutexGuard<'_, Open>,
        client: Fingerprint,
        batch: Batch,
        used: u64,
        total: u64,
    ) -> Result<(), WireError> {
        let open = &mut *guard;
        let record = Record {
            client,
            total,
            batch,
            release: open.release,
            synchronised: self.synchronised.load(Ordering::Acquire),
        };
        let sealed = open.seals.seal(open.records + 1, &record.encode());
        let written = sealed.and_then(|sealed| (&*open.file).write_all(&sealed));
        if let Err(e) = written {
            // Half a record may be in the file: nothing may follow it.
            let why = e.to_string();
            open.broken = Some(why.clone());
            return Err(storage(&why));
        }
        open.records += 1;
        let account = open.accounts.entry(client).or_default();
        if total > account.reserved {
            account.raised = open.records;
        }
        open.reserved += total - account.reserved;
        (account.reserved, account.used) = (total, used);
        account.remember(batch);
        let (file, raised) = (Arc::clone(&open.file), account.raised);
        drop(guard);
        self.synchronise(&file, raised)
    }

    /// Gives back what was taken for a batch of which nothing has left, unless it was asked again meanwhile: another
    /// connection of the client may have that answer.
    pub(crate) fn give_back(&self, client: Fingerprint, batch: [u8; 32], queries: u64) {
        let mut open = self.lock();
        let Some(account) = open.accounts.get_mut(&client) else {
            return;
        };
        let unanswered = Batch {
            hash: batch,
            repeats: 0,
        };
        if account.batches.contains(&unanswered) {
            account.used = account.used.saturating_sub(queries);
            account.batches.retain(|known| *known != unanswered);
        }
    }

    /// Has so many records on the disk when it returns. Clients that wait at the same time share one wait.
    fn synchronise(&self, file: &File, records: u64) -> Result<(), WireError> {
        let is_done = || self.synchronised.load(Ordering::Acquire) >= records;
        if is_done() {
            return Ok(());
        }
        let _one = self
            .synchronising
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if is_done() {
            return Ok(());
        }
        // An error of the disk is told once: a later call would succeed over what is lost.
        let (written, broken) = {
            let open = self.lock();
            (open.records, open.broken.clone())
        };
        if let Some(why) = broken {
            return Err(storage(&why));
        }
        let synchronised = file.sync_data().and_then(|()| self.check_place(file));
        synchronised.map_err(|e| self.fail(&e))?;
        self.synchronised.store(written, Ordering::Release);
        Ok(())
    }

    /// Fails if another file has the ledger's name: somebody else serves the database, on a file system whose locks do not
    /// reach that far, or has put a copy in its place.
    fn check_place(&self, file: &File) -> io::Result<()> {
        let named = match open_named(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            named => Some(FileId::of(&named?)?),
        };
        match named == Some(FileId::of(file)?) {
            true => Ok(()),
            false => Err(io::Error::other(
                "it was moved or replaced while it was in use",
            )),
        }
    }

    /// Nothing is answered any more: what a failed disk has of the file is unknown.
    fn fail(&self, cause: &io::Error) -> WireError {
        let why = cause.to_string();
        self.lock().broken = Some(why.clone());
        storage(&why)
    }

    /// Gives back what was reserved and not used, once no client is served any more.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let mut open = self.lock();
        if open.broken.is_some() {
            return Ok(());
        }
        let fail = |e| Error::io(&self.path, &e);
        self.check_place(&open.file).map_err(fail)?;
        for account in open.accounts.values_mut() {
            account.reserved = account.used;
            account.raised = 0;
        }
        let rewritten = rewrite(&self.path, &self.key, &open.accounts, open.release);
        let (file, seals, records) = rewritten.map_err(fail)?;
        open.reserved = reserved(&open.accounts);
        (open.file, open.seals, open.records) = (Arc::new(file), seals, records);
        self.synchronised.store(records, Ordering::Release);
        Ok(())
    }
}

/// A client's total that suffices for further queries, if its quota and the `free` ones of the key do.
fn total(account: &Account, quota: u64, free: u64, queries: u64) -> Result<u64, WireError> {
    let used = account.used + queries;
    if used > quota {
        let left = quota.saturating_sub(account.used);
        return Err(WireError::limit(
            Limit::Queries,
            format!("the quota of {quota} queries has {left} left, and {queries} were asked"),
        ));
    }
    let needed = used.saturating_sub(account.reserved);
    if needed > free {
        return Err(WireError::limit(
            Limit::Queries,
            format!(
                "the published key answers {}, and {queries} were asked",
                many(free, "more query")
            ),
        ));
    }
    let raise = match needed {
        0 => 0,
        _ => needed.max(BLOCK).min(free).min(quota - account.reserved),
    };
    Ok(account.reserved + raise)
}

/// All totals together. Each is bounded, but not how many there are in a file.
fn reserved(accounts: &Accounts) -> u64 {
    let totals = accounts.values().map(|account| account.reserved);
    totals.fold(0, u64::saturating_add)
}

fn storage(why: &str) -> WireError {
    WireError::limit(
        Limit::Storage,
        format!("the count of queries cannot be kept: {why}"),
    )
}

/// The accounts in a file, and the last release; `None` if a record is missing that was on the disk.
fn read(file: File, key: &Zeroizing<[u8; 32]>) -> io::Result<Option<(Accounts, u64)>> {
    let mut input = BufReader::new(file);
    let mut start = [0; MAGIC.len() + SALT + HEAD];
    if fill(&mut input, &mut start)? < start.len() {
        return Ok(None);
    }
    let (magic, rest) = start.split_at(MAGIC.len());
    let (salt, head) = rest.split_first_chunk().expect("salt and head");
    let (key, salt) = (key.clone(), *salt);
    let seals = Seals { key, salt };
    let Some(head) = seals.open(0, head).filter(|_| magic == MAGIC) else {
        return Ok(None);
    };
    let mut reader = Reader::new("head of the ledger", &head);
    let (Ok(mut synchronised), Ok(mut release)) = (reader.u64(), reader.u64()) else {
        return Ok(None);
    };
    let mut accounts = Accounts::new();
    let (mut bytes, mut place, mut first_lost) = ([0; RECORD], 0, None);
    loop {
        place += 1;
        let length = fill(&mut input, &mut bytes)?;
        if length == 0 {
            let first_lost = first_lost.unwrap_or(place);
            return Ok((first_lost > synchronised).then_some((accounts, release)));
        }
        let content = seals.open(place, &bytes[..length]);
        let Some(record) = content.and_then(|content| Record::decode(&content).ok()) else {
            first_lost.get_or_insert(place);
            continue;
        };
        synchronised = synchronised.max(record.synchronised);
        release = release.max(record.release);
        let account = accounts.entry(record.client).or_default();
        account.reserved = account.reserved.max(record.total);
        account.used = account.reserved;
        if record.batch.hash != [0; 32] {
            account.remember(record.batch);
        }
    }
}

/// Reads as many bytes as there is room for, or as are left; returns how many.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Replaces the file with one that says the same in fewer records; returns it, open at its end, and their number.
fn rewrite(
    path: &Path,
    key: &Zeroizing<[u8; 32]>,
    accounts: &Accounts,
    release: u64,
) -> io::Result<(File, Seals, u64)> {
    let mut salt = [0; SALT];
    random::fill(&mut salt).map_err(io::Error::other)?;
    let seals = Seals {
        key: key.clone(),
        salt,
    };
    let none = Batch {
        hash: [0; 32],
        repeats: 0,
    };
    let (mut bytes, mut records) = (Vec::new(), 0);
    for (client, account) in accounts {
        let without = account.batches.is_empty().then_some(&none);
        for batch in account.batches.iter().chain(without) {
            let record = Record {
                client: *client,
                total: account.reserved,
                batch: *batch,
                release,
                synchronised: 0,
            };
            records += 1;
            bytes.extend_from_slice(&seals.seal(records, &record.encode())?);
        }
    }
    let head = [records, release].map(u64::to_le_bytes);
    let head = seals.seal(0, head.as_flattened())?;
    let mut file = WholeFile::create(path)?;
    file.write_all(&[MAGIC, &salt[..], &head].concat())?;
    file.write_all(&bytes)?;
    file.commit_for_good()?;
    let file = File::options().append(true).open(path)?;
    Ok((file, seals, records))
}

#[cfg(test)]
mod tests;
