//! How many queries each client has made: a file of records, each of which raises a client's total.
//!
//! A total is raised in blocks, and on the disk before an answer leaves. So a crash loses at most a block of a client's
//! quota and never gives any back, and most queries do not wait for the disk. A batch that a client sends again costs
//! nothing: the hashes of its last batches are kept too.
//!
//! The file begins with how many records it had when it was last written as a whole. A record is the client's fingerprint (32 bytes), its total (8), the hash of a batch (32, zeros if there is none) and the
//! first 8 bytes of a keyed hash of these and of the record's place. What a crash has left of the last records fails that
//! check, and is cut off; no record that the file began with is among them.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vesica_files::{WholeFile, open_regular};
use vesica_primitives::voprf::Element;
use vesica_session::{Fingerprint, Identity};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::error::{Error, StoreProblem};

/// What names of its file begin with; the first digits of the key follow.
const FILE: &str = "ledger";
const MAGIC: &[u8; 16] = b"vesica ledger 1\n";
const HEAD: usize = MAGIC.len() + 8 + CHECK;
const RECORD: usize = 32 + 8 + 32 + CHECK;
const CHECK: usize = 8;
/// By how many queries a total is raised at least.
const BLOCK: u64 = 256;
/// Batches of a client that are remembered.
const MAX_BATCHES: usize = 64;

/// A client's account.
#[derive(Clone, Debug, Default)]
struct Account {
    /// Queries that were answered.
    used: u64,
    /// The total on the disk.
    reserved: u64,
    /// Records up to the one that raised it.
    raised: u64,
    /// Hashes of the last batches, oldest first.
    batches: VecDeque<[u8; 32]>,
}

impl Account {
    fn remember(&mut self, batch: [u8; 32]) {
        if self.batches.len() == MAX_BATCHES {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }
}

#[derive(Debug)]
struct Accounts {
    of: HashMap<Fingerprint, Account>,
    /// All totals together.
    reserved: u64,
    file: Arc<File>,
    records: u64,
    /// Why the file cannot be written any more.
    broken: Option<String>,
}

/// The accounts of all clients under a key.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    key: Zeroizing<[u8; 32]>,
    /// Queries of all clients together, at most.
    cap: u64,
    accounts: Mutex<Accounts>,
    /// Records that are on the disk for certain.
    synchronised: AtomicU64,
    /// Held by who synchronises the file.
    synchronising: Mutex<()>,
}

impl Ledger {
    fn name(oprf_key: &Element) -> String {
        let digits: String = oprf_key.bytes()[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("{FILE}-{digits}")
    }

    fn key(identity: &Identity, oprf_key: &Element) -> Zeroizing<[u8; 32]> {
        let key = identity.derive_key("vesica/1 ledger of a published set");
        Zeroizing::new(blake3::keyed_hash(&key, oprf_key.bytes()).into())
    }

    /// Makes the ledger of a new key, of no queries.
    pub(crate) fn create(
        directory: &Path,
        identity: &Identity,
        oprf_key: &Element,
    ) -> Result<(), Error> {
        let path = directory.join(Ledger::name(oprf_key));
        let key = Ledger::key(identity, oprf_key);
        let made = rewrite(&path, &key, &HashMap::new());
        made.map(drop).map_err(|e| Error::io(&path, &e))
    }

    /// Removes the ledgers of keys that were before this one.
    pub(crate) fn remove_others(directory: &Path, oprf_key: &Element) -> Result<(), Error> {
        let own = Ledger::name(oprf_key);
        let remove = || -> io::Result<()> {
            for entry in directory.read_dir()? {
                let name = entry?.file_name();
                let is_ledger = |name: &str| name.starts_with(&format!("{FILE}-")) && name != own;
                if name.to_str().is_some_and(is_ledger) {
                    std::fs::remove_file(directory.join(name))?;
                }
            }
            Ok(())
        };
        remove().map_err(|e| Error::io(directory, &e))
    }

    /// Opens the ledger of a key, which was made with it. What was reserved counts as used.
    pub(crate) fn open(
        directory: &Path,
        identity: &Identity,
        oprf_key: &Element,
        cap: u64,
    ) -> Result<Ledger, Error> {
        let path = directory.join(Ledger::name(oprf_key));
        let key = Ledger::key(identity, oprf_key);
        let accounts = match open_regular(&path) {
            Ok(file) => {
                let read = read(file, &key).map_err(|e| Error::io(&path, &e))?;
                read.ok_or_else(|| Error::store(directory, StoreProblem::Unreadable(FILE)))?
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Error::store(directory, StoreProblem::NoLedger));
            }
            Err(e) => return Err(Error::io(&path, &e)),
        };
        let (file, records) = rewrite(&path, &key, &accounts).map_err(|e| Error::io(&path, &e))?;
        Ok(Ledger {
            key,
            cap,
            accounts: Mutex::new(Accounts {
                reserved: accounts.values().map(|account| account.reserved).sum(),
                of: accounts,
                file: Arc::new(file),
                records,
                broken: None,
            }),
            synchronised: AtomicU64::new(records),
            synchronising: Mutex::new(()),
            path,
        })
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queries that were answered or lost in a crash.
    pub(crate) fn answered(&self) -> u64 {
        self.accounts()
            .of
            .values()
            .map(|account| account.used)
            .sum()
    }

    /// Queries that this client may still make.
    pub(crate) fn left(&self, client: Fingerprint, quota: u64) -> u64 {
        let accounts = self.accounts();
        let account = accounts.of.get(&client);
        let (used, reserved) = account.map_or((0, 0), |account| (account.used, account.reserved));
        let free = self.cap.saturating_sub(accounts.reserved) + (reserved - used);
        quota.saturating_sub(used).min(free)
    }

    /// Takes a batch of so many queries from a client's quota, which is on the disk when this returns. Nothing for one of
    /// its last batches. Returns whether it was a new one.
    ///
    /// # Errors
    /// Resource: the quota, or that of the key, does not suffice, or the disk fails.
    pub(crate) fn debit(
        &self,
        client: Fingerprint,
        quota: u64,
        batch: [u8; 32],
        queries: u64,
    ) -> Result<bool, WireError> {
        let mut accounts = self.accounts();
        let Accounts {
            of,
            reserved: all,
            file,
            records,
            broken,
        } = &mut *accounts;
        if let Some(why) = broken {
            return Err(storage(why));
        }
        let account = of.entry(client).or_default();
        if account.batches.contains(&batch) {
            let (file, raised) = (Arc::clone(file), account.raised);
            drop(accounts);
            return self.synchronise(&file, raised).map(|()| false);
        }
        let used = account.used + queries;
        if used > quota {
            let left = quota.saturating_sub(account.used);
            return Err(WireError::limit(
                Limit::Queries,
                format!("the quota of {quota} queries has {left} left, and {queries} were asked"),
            ));
        }
        let mut total = account.reserved;
        if used > total {
            let needed = used - total;
            let free = self.cap.saturating_sub(*all);
            if needed > free {
                return Err(WireError::limit(
                    Limit::Queries,
                    format!(
                        "the published key answers {free} more queries, and {queries} were asked"
                    ),
                ));
            }
            total += needed.max(BLOCK).min(free).min(quota - total);
        }
        let record = record(&self.key, *records, client, total, &batch);
        if let Err(e) = (&**file).write_all(&record) {
            // Half a record may be in the file: nothing may follow it.
            let why = e.to_string();
            *broken = Some(why.clone());
            return Err(storage(&why));
        }
        *records += 1;
        if total > account.reserved {
            account.raised = *records;
        }
        *all += total - account.reserved;
        account.reserved = total;
        account.used = used;
        account.remember(batch);
        let (file, raised) = (Arc::clone(file), account.raised);
        drop(accounts);
        self.synchronise(&file, raised).map(|()| true)
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
            let accounts = self.accounts();
            (accounts.records, accounts.broken.clone())
        };
        if let Some(why) = broken {
            return Err(storage(&why));
        }
        file.sync_data().map_err(|e| self.fail(&e))?;
        self.synchronised.store(written, Ordering::Release);
        Ok(())
    }

    /// Nothing is answered any more: what a failed disk has of the file is unknown.
    fn fail(&self, cause: &io::Error) -> WireError {
        let why = cause.to_string();
        self.accounts().broken = Some(why.clone());
        storage(&why)
    }

    /// Gives back what was reserved and not used, once no client is served any more.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let mut accounts = self.accounts();
        if accounts.broken.is_some() {
            return Ok(());
        }
        for account in accounts.of.values_mut() {
            account.reserved = account.used;
            account.raised = 0;
        }
        let rewritten = rewrite(&self.path, &self.key, &accounts.of);
        let (file, records) = rewritten.map_err(|e| Error::io(&self.path, &e))?;
        accounts.reserved = accounts.of.values().map(|account| account.reserved).sum();
        (accounts.file, accounts.records) = (Arc::new(file), records);
        self.synchronised.store(records, Ordering::Release);
        Ok(())
    }
}

fn storage(why: &str) -> WireError {
    WireError::limit(
        Limit::Storage,
        format!("the count of queries cannot be kept: {why}"),
    )
}

fn check(key: &[u8; 32], place: u64, fields: &[u8]) -> [u8; CHECK] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&place.to_le_bytes());
    hasher.update(fields);
    let hash = hasher.finalize();
    *hash.as_bytes().first_chunk().expect("32 bytes")
}

fn record(
    key: &[u8; 32],
    place: u64,
    client: Fingerprint,
    total: u64,
    batch: &[u8; 32],
) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..32].copy_from_slice(client.as_bytes());
    record[32..40].copy_from_slice(&total.to_le_bytes());
    record[40..72].copy_from_slice(batch);
    let check = check(key, place, &record[..RECORD - CHECK]);
    record[RECORD - CHECK..].copy_from_slice(&check);
    record
}

/// The accounts in a file; `None` if it is damaged elsewhere than at its end.
fn read(file: File, key: &[u8; 32]) -> io::Result<Option<HashMap<Fingerprint, Account>>> {
    let mut input = BufReader::new(file);
    let mut head = [0; HEAD];
    match input.read_exact(&mut head) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (magic, rest) = head.split_at(MAGIC.len());
    let (count, sum) = rest.split_at(8);
    let count = u64::from_le_bytes(count.try_into().expect("8 bytes"));
    if magic != MAGIC || sum != check(key, u64::MAX, &count.to_le_bytes()) {
        return Ok(None);
    }
    let mut accounts: HashMap<Fingerprint, Account> = HashMap::new();
    let (mut bytes, mut place, mut ended) = ([0; RECORD], 0, None);
    loop {
        match input.read_exact(&mut bytes) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                let first_lost = ended.unwrap_or(place);
                return Ok((first_lost >= count).then_some(accounts));
            }
            read => read?,
        }
        let (fields, sum) = bytes.split_at(RECORD - CHECK);
        let is_whole = check(key, place, fields) == sum;
        if !is_whole {
            ended = ended.or(Some(place));
        } else if ended.is_some() {
            return Ok(None);
        } else {
            let (client, rest) = fields.split_first_chunk().expect("72 bytes");
            let (total, batch) = rest.split_first_chunk().expect("40 bytes");
            let account = accounts
                .entry(Fingerprint::from_bytes(*client))
                .or_default();
            account.reserved = account.reserved.max(u64::from_le_bytes(*total));
            account.used = account.reserved;
            let batch: [u8; 32] = batch.try_into().expect("32 bytes");
            if batch != [0; 32] {
                account.remember(batch);
            }
        }
        place += 1;
    }
}

/// Replaces the file with one that says the same in fewer records; returns it, open at its end, and their number.
fn rewrite(
    path: &Path,
    key: &[u8; 32],
    accounts: &HashMap<Fingerprint, Account>,
) -> io::Result<(File, u64)> {
    let mut bytes = Vec::new();
    let mut place = 0u64;
    for (client, account) in accounts {
        let none = [[0; 32]];
        let batches = match account.batches.is_empty() {
            true => none.iter().collect::<Vec<_>>(),
            false => account.batches.iter().collect(),
        };
        for batch in batches {
            bytes.extend_from_slice(&record(key, place, *client, account.reserved, batch));
            place += 1;
        }
    }
    let count = place.to_le_bytes();
    let head = [&MAGIC[..], &count, &check(key, u64::MAX, &count)];
    let mut file = WholeFile::create(path)?;
    file.write_all(&head.concat())?;
    file.write_all(&bytes)?;
    file.commit()?;
    let file = File::options().append(true).open(path)?;
    Ok((file, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_primitives::voprf::{Mode, SecretKey};

    fn client(number: u8) -> Fingerprint {
        Fingerprint::from_bytes([number; 32])
    }

    fn batch(number: u8) -> [u8; 32] {
        [number; 32]
    }

    fn oprf_key() -> Element {
        SecretKey::derive(Mode::Voprf, &[7; 32], b"test").public_key()
    }

    /// A new directory with the ledger of a key.
    fn place(identity: &Identity) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        Ledger::create(directory.path(), identity, &oprf_key()).unwrap();
        directory
    }

    fn used(ledger: &Ledger, number: u8) -> u64 {
        1_000_000 - ledger.left(client(number), 1_000_000).min(1_000_000)
    }

    #[test]
    fn quotas_are_kept_across_crashes_and_stops() {
        let identity = Identity::generate().unwrap();
        let directory = place(&identity);
        let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 10_000_000).unwrap();
        let ledger = open();
        assert!(ledger.debit(client(1), 1000, batch(1), 10).unwrap());
        assert_eq!(used(&ledger, 1), 10);
        // Again: nothing.
        assert!(!ledger.debit(client(1), 1000, batch(1), 10).unwrap());
        assert!(ledger.debit(client(2), 1000, batch(1), 300).unwrap());
        assert_eq!((used(&ledger, 1), used(&ledger, 2)), (10, 300));
        // A crash: the block is gone, the batches are known.
        drop(ledger);
        let ledger = open();
        assert_eq!((used(&ledger, 1), used(&ledger, 2)), (BLOCK, 300));
        assert!(!ledger.debit(client(1), 1000, batch(1), 10).unwrap());
        assert!(ledger.debit(client(1), 1000, batch(2), 700).unwrap());
        let refused = ledger.debit(client(1), 1000, batch(3), 100).unwrap_err();
        let words = "the quota of 1000 queries has 44 left, and 100 were asked";
        assert_eq!(refused.to_string(), words);
        assert!(matches!(
            refused,
            WireError::Resource {
                limit: Limit::Queries,
                ..
            }
        ));
        // A stop: what was reserved and not used comes back.
        assert!(ledger.debit(client(3), 1000, batch(3), 1).unwrap());
        ledger.close().unwrap();
        drop(ledger);
        let ledger = open();
        assert_eq!(used(&ledger, 3), 1);
        assert_eq!(ledger.answered(), 956 + 300 + 1);
    }

    #[test]
    fn the_key_has_a_cap_of_its_own() {
        let identity = Identity::generate().unwrap();
        let directory = place(&identity);
        let ledger = Ledger::open(directory.path(), &identity, &oprf_key(), 300).unwrap();
        assert!(ledger.debit(client(1), 1000, batch(1), 10).unwrap());
        // The block of the other client counts.
        assert_eq!(ledger.left(client(2), 1000), 300 - BLOCK);
        let refused = ledger.debit(client(2), 1000, batch(2), 45).unwrap_err();
        let words = "the published key answers 44 more queries, and 45 were asked";
        assert_eq!(refused.to_string(), words);
        assert!(ledger.debit(client(2), 1000, batch(2), 44).unwrap());
        assert!(ledger.debit(client(1), 1000, batch(3), 246).unwrap());
        assert!(ledger.debit(client(1), 1000, batch(4), 1).is_err());
    }

    #[test]
    fn torn_ends_are_cut_and_other_damage_is_refused() {
        let identity = Identity::generate().unwrap();
        let directory = place(&identity);
        let path = directory.path().join(Ledger::name(&oprf_key()));
        let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40);
        let ledger = open().unwrap();
        for number in 1..=5 {
            ledger
                .debit(client(number), 1 << 30, batch(number), 1000)
                .unwrap();
        }
        drop(ledger);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len(), HEAD + 5 * RECORD);
        for end in HEAD..=whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let records = (end - HEAD) / RECORD;
            assert_eq!(open().unwrap().answered(), 1000 * records as u64, "{end}");
        }
        // Zeros, as a file system may leave them.
        let mut zeros = whole.clone();
        zeros[HEAD + 3 * RECORD..].fill(0);
        std::fs::write(&path, &zeros).unwrap();
        assert_eq!(open().unwrap().answered(), 3000);
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let problem = StoreProblem::Unreadable(FILE);
            matches!(open(), Err(Error::Store { problem: found, .. }) if found == problem)
        };
        let mut spoilt = whole.clone();
        spoilt[HEAD + RECORD + 33] ^= 1;
        assert!(refused(&spoilt));
        // What the file began with is not a torn end.
        std::fs::write(&path, &whole).unwrap();
        drop(open().unwrap());
        let whole = std::fs::read(&path).unwrap();
        for end in 0..whole.len() {
            assert!(refused(&whole[..end]), "{end}");
        }
        let mut moved = whole.clone();
        moved.drain(HEAD..HEAD + RECORD);
        assert!(refused(&moved));
        assert!(refused(b"vesica"));
    }

    #[test]
    fn a_key_is_not_served_without_its_own_ledger() {
        let identity = Identity::generate().unwrap();
        let directory = place(&identity);
        let other = SecretKey::derive(Mode::Voprf, &[8; 32], b"test").public_key();
        let problem = |key: &Element| match Ledger::open(directory.path(), &identity, key, 10) {
            Err(Error::Store { problem, .. }) => problem,
            found => panic!("{found:?}"),
        };
        assert_eq!(problem(&other), StoreProblem::NoLedger);
        let path = |key: &Element| directory.path().join(Ledger::name(key));
        std::fs::rename(path(&oprf_key()), path(&other)).unwrap();
        assert_eq!(problem(&other), StoreProblem::Unreadable(FILE));
        assert_eq!(problem(&oprf_key()), StoreProblem::NoLedger);
        Ledger::create(directory.path(), &identity, &oprf_key()).unwrap();
        Ledger::remove_others(directory.path(), &oprf_key()).unwrap();
        assert!(path(&oprf_key()).exists() && !path(&other).exists());
    }
}
