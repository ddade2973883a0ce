//! The directory in which a run keeps the state that another can resume.
//!
//! It holds a journal and a lock. The journal says which job it belongs to, how far it came and which rows
//! matched so far. It is replaced as a whole, and is on disk before the run continues, so that even a killed
//! process leaves a complete one. Both files are removed once the result is in its place, and earlier if there
//! is nothing to resume.
//!
//! **Encryption.** What a journal holds tests guesses: the salt of the buckets and the matches of each bucket rule
//! out most keys that did not match. So a journal is a [`Sealed`] message under a key that only this side's identity
//! can derive, with a salt of 256 bits drawn for each time that it is written. Its length depends only on the number
//! of rows. A journal that is damaged, or written by another, is not read, nor is one that an earlier version wrote
//! in clear, or in which it kept numbers otherwise.
//!
//! [`Owner`] is a part of what is sealed and compared once it has been opened, not associated data: whoever has the
//! identity learns whether the peer or the options are others, and nobody else learns anything.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use vesica_files::{
    FileId, NotLocked, PrivateFile, is_at, is_exhausted, is_unfinished, keep_name, open_own,
    open_unlinked, private_directory,
};
use vesica_primitives::sealed::Sealed;
use vesica_session::terms::REVEAL;
use vesica_session::{Error as SessionError, Identity, State};
use vesica_tables::RowSet;
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::{Error, WorkDirProblem};

const JOURNAL: &str = "journal";
pub(crate) const LOCK: &str = "lock";
const MAGIC: &[u8; 8] = b"vesicaj5";
/// What journals began with that an earlier version wrote, which kept sums of shares in place of those of each bucket.
const EARLIER: &[u8; 8] = b"vesicaj4";
/// What journals began with that earlier versions wrote in clear.
const IN_CLEAR: [&[u8; 8]; 3] = [b"vesicaj1", b"vesicaj2", b"vesicaj3"];
/// Bytes of a head without shares: enough for the longest contract and the matches of each bucket.
const HEAD: usize = 64 << 10;
/// Bytes of a word of shares in a head, with what is between words.
const WORD: usize = 21;
const SALT: usize = 32;
/// What is legible of a journal: magic and salt.
const LEGIBLE: usize = MAGIC.len() + SALT;

/// Which run a journal belongs to. No other run may use its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// The peer's fingerprint.
    pub(crate) peer: String,
    /// What the run is about: role, protocol, security and so on, in words.
    pub(crate) terms: String,
}

/// How far a run got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) head: Head,
    /// Rows that have matched.
    pub(crate) matched: RowSet,
}

/// A journal without its rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) owner: Owner,
    /// Keyed hash of the keys of all rows.
    pub(crate) input: [u8; 32],
    pub(crate) state: State,
    /// When it was written.
    pub(crate) written: SystemTime,
    /// Whether this side needs no peer for its rows: a receiver once it has found them all, a sender only
    /// once the receiver has confirmed. Until then the two resume together, or neither does.
    pub(crate) confirmed: bool,
    /// Rows of the table.
    pub(crate) rows: u64,
}

/// The keys that an identity derives for its journals.
pub(crate) struct Keys {
    journal: Zeroizing<[u8; 32]>,
    input: Zeroizing<[u8; 32]>,
}

impl Keys {
    pub(crate) fn of(identity: &Identity) -> Keys {
        Keys {
            journal: identity.derive_key("vesica/1 sealed journal"),
            input: identity.derive_key("vesica/1 journal input"),
        }
    }

    /// The hash by which a journal identifies an input.
    pub(crate) fn input(&self, identity: &[u8; 32]) -> [u8; 32] {
        *blake3::keyed_hash(&self.input, identity).as_bytes()
    }
}

/// Writes a magic number and a fresh salt, and the content sealed under a key of this side's identity.
pub(crate) fn seal(
    magic: &[u8; 8],
    key: &[u8; 32],
    content: &[u8],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut legible = [0; LEGIBLE];
    let (head, salt) = legible.split_at_mut(magic.len());
    head.copy_from_slice(magic);
    getrandom::fill(salt).map_err(io::Error::other)?;
    out.write_all(&legible)?;
    Sealed::new(key, &[&legible]).write(&legible, content, out)
}

/// What [`seal`] has sealed under the same magic number and key; `None` if it is anything else.
pub(crate) fn unseal(magic: &[u8; 8], key: &[u8; 32], bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (legible, mut rest) = bytes.split_at_checked(LEGIBLE)?;
    legible.strip_prefix(magic)?;
    let length = rest.len() as u64;
    let sealed = Sealed::new(key, &[legible]);
    sealed.read(legible, length, &mut rest).ok()
}

impl Head {
    /// Whether the answer is complete and only its rows are not written yet.
    pub(crate) fn is_answer(&self) -> bool {
        self.state.is_complete() && self.confirmed
    }

    /// Its bytes in a journal, however many buckets are finished: of numbers there is room for the name and the shares of
    /// each.
    fn bytes(&self) -> usize {
        let contract = &self.state.contract;
        match contract.get(&REVEAL).is_value() {
            true => HEAD + contract.buckets as usize * WORD * (5 + contract.numbers().len()),
            false => HEAD,
        }
    }
}

impl Journal {
    /// Writes magic and salt, and sealed: the length of the head in 8 bytes; the head as JSON, filled up with spaces, so that
    /// numbers of matches do not show in its length; then one bit per row.
    fn encode(head: &Head, matched: &RowSet, keys: &Keys, out: &mut impl Write) -> io::Result<()> {
        let bytes = head.bytes();
        let mut content = (bytes as u64).to_le_bytes().to_vec();
        serde_json::to_writer(&mut content, head)?;
        if content.len() > 8 + bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        content.resize(8 + bytes, b' ');
        content.extend_from_slice(&matched.to_bytes());
        seal(MAGIC, &keys.journal, &content, out)
    }

    /// Reads exactly what [`Journal::encode`] writes under the same keys.
    fn decode(bytes: &[u8], keys: &Keys) -> Option<Journal> {
        let content = unseal(MAGIC, &keys.journal, bytes)?;
        let (length, content) = content.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (head, bits) = content.split_at_checked(length)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let matched = RowSet::from_bytes(head.rows, bits).ok()?;
        Some(Journal { head, matched })
    }
}

/// A directory that only this run uses.
pub(crate) struct WorkDir {
    path: PathBuf,
    keys: Keys,
    owner: Owner,
    /// Held for the duration of the run.
    lock: Option<File>,
    /// Whether there is a journal to keep.
    kept: bool,
}

impl WorkDir {
    /// Creates the directory, for this user only, or takes over one that holds nothing but what a run left.
    /// Returns also what the same run left.
    ///
    /// Fails with exit code 2 for a directory that cannot be created, is a link, is in use, holds other files
    /// or may be changed by other users, for what another identity's run or an earlier version left, and for a damaged
    /// journal.
    pub(crate) fn open(
        path: &Path,
        keys: Keys,
        owner: Owner,
    ) -> Result<(WorkDir, Option<Journal>), Error> {
        let lock = lock(path, JOURNAL)?;
        let mut work = WorkDir {
            path: path.to_owned(),
            keys,
            owner,
            lock: Some(lock),
            kept: true,
        };
        let journal = work.read()?;
        work.kept = journal.is_some();
        Ok((work, journal))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// What an earlier run left, if one did.
    fn read(&self) -> Result<Option<Journal>, Error> {
        let Some((bytes, _)) = read_if_there(&self.path, JOURNAL)? else {
            return Ok(None);
        };
        if IN_CLEAR.iter().any(|magic| bytes.starts_with(*magic)) {
            return Err(refused(&self.path, WorkDirProblem::JournalInClear));
        }
        if bytes.starts_with(EARLIER) {
            return Err(refused(&self.path, WorkDirProblem::EarlierJournal));
        }
        let Some(journal) = Journal::decode(&bytes, &self.keys) else {
            return Err(refused(&self.path, WorkDirProblem::Unreadable));
        };
        let other = if journal.head.owner.peer != self.owner.peer {
            WorkDirProblem::OtherPeer
        } else if journal.head.owner.terms != self.owner.terms {
            WorkDirProblem::OtherOptions
        } else {
            return Ok(Some(journal));
        };
        Err(refused(&self.path, other))
    }

    /// Replaces the journal; it is on the disk when this returns. Takes time that depends on the
    /// number of rows, and not on which of them matched.
    pub(crate) fn write(&mut self, head: &Head, matched: &RowSet) -> Result<(), WireError> {
        let write = || -> io::Result<()> {
            let path = self.path.join(JOURNAL);
            let mut journal = PrivateFile::create(&path)?;
            Journal::encode(head, matched, &self.keys, &mut journal)?;
            journal.replace()?;
            keep_name(&path)
        };
        // The peer hears of it too, and not of where it is.
        write().map_err(|e| {
            WireError::limit(
                Limit::Storage,
                format!("the journal cannot be written: {e}"),
            )
        })?;
        self.kept = true;
        Ok(())
    }

    /// Removes the journal: there is nothing to resume any longer.
    ///
    /// Fails with exit code 7 if the journal stays: another run would take its answer for its own.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let lock = self.lock.as_ref();
        let here = lock.is_some_and(|lock| is_at(lock, &self.path.join(LOCK)));
        let removed = match here {
            true => remove(&self.path),
            false => Err(io::Error::other("it was moved or replaced during the run")),
        };
        self.kept = removed.is_err();
        removed.map_err(|e| {
            let path = self.path.display();
            let line = format!(
                "the result is in its place, but the journal in {path} stays: {e}; remove it"
            );
            SessionError::Run(WireError::limit(Limit::Storage, line)).into()
        })
    }
}

/// Creates a directory, for this user only, or takes over one with nothing but a file of this name and what is left of
/// a killed process, and locks it.
///
/// Fails as [`WorkDir::open`] does.
pub(crate) fn lock(path: &Path, own: &str) -> Result<File, Error> {
    prepare_work_dir(path)?;
    let problem = |e: io::Error| failed(path, &e);
    let mut parts = Vec::new();
    for entry in fs::read_dir(path).map_err(problem)? {
        let name = entry.map_err(problem)?.file_name();
        let text = name.to_string_lossy();
        if is_unfinished(&text) {
            parts.push(name);
        } else if name != own && name != LOCK {
            return Err(refused(path, WorkDirProblem::OtherFiles));
        }
    }
    let lock = take_lock(path)?;
    for part in parts {
        // Of a run that was killed; as well as it can.
        let _ = fs::remove_file(path.join(part));
    }
    Ok(lock)
}

/// Locks a directory by a file in it, which is made if there is none.
pub(crate) fn take_lock(path: &Path) -> Result<File, Error> {
    let lock = open_own(&path.join(LOCK), Some(0o600)).map_err(|e| failed(path, &e))?;
    vesica_files::lock(&lock).map_err(|cause| match cause {
        NotLocked::InUse => refused(path, WorkDirProblem::InUse),
        NotLocked::NoLocks => refused(path, WorkDirProblem::NoLocks),
        NotLocked::Io(e) => failed(path, &e),
    })?;
    if !is_at(&lock, &path.join(LOCK)) {
        // A run that has just ended took the lock and its file with it.
        return Err(refused(path, WorkDirProblem::InUse));
    }
    Ok(lock)
}

/// The bytes of the file of this name in a directory, and which file it is, if there is one.
pub(crate) fn read_if_there(path: &Path, name: &str) -> Result<Option<(Vec<u8>, FileId)>, Error> {
    let read = || -> io::Result<_> {
        let mut file = open_unlinked(OpenOptions::new().read(true), &path.join(name))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok((bytes, FileId::of(&file)?))
    };
    match read() {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(path, &e)),
    }
}

/// Removes the journal from a directory, and synchronises the directory.
fn remove(path: &Path) -> io::Result<()> {
    let journal = path.join(JOURNAL);
    match fs::remove_file(&journal) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    keep_name(&journal)
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Best effort: what stays is empty.
        let _ = fs::remove_file(self.path.join(LOCK));
        self.lock = None;
        let _ = fs::remove_dir(&self.path);
    }
}

/// Whether a run has left something in a work directory that another can resume.
pub(crate) fn has_journal(path: &Path) -> bool {
    path.join(JOURNAL).is_file()
}

/// Whether a run of this identity has left an answer in a work directory, as far as can be seen.
pub(crate) fn has_answer(path: &Path, identity: &Identity) -> bool {
    let bytes = read_if_there(path, JOURNAL).ok().flatten();
    let journal = bytes.and_then(|(bytes, _)| Journal::decode(&bytes, &Keys::of(identity)));
    journal.is_some_and(|journal| journal.head.is_answer())
}

/// Creates a work directory, for this user only, unless there is one. Every run with a work directory does
/// this itself; call it if something must be written there before.
///
/// # Errors
/// Usage: a directory that cannot be made, is a link, or may be changed by other users.
pub fn prepare_work_dir(path: &Path) -> Result<(), Error> {
    match private_directory(path) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(refused(path, WorkDirProblem::Unsafe(why))),
        Err(e) => Err(failed(path, &e)),
    }
}

pub(crate) fn refused(path: &Path, problem: WorkDirProblem) -> Error {
    Error::WorkDir {
        path: path.to_owned(),
        problem,
    }
}

pub(crate) fn failed(path: &Path, e: &io::Error) -> Error {
    let line = format!("the directory {}: {e}", path.display());
    match is_exhausted(e) {
        true => SessionError::Run(WireError::limit(Limit::System, line)).into(),
        false => SessionError::Usage(line).into(),
    }
}

#[cfg(test)]
mod tests;
