//! The directory in which a run keeps what another can go on from.
//!
//! It holds a journal and a lock. The journal says which job it is of, how far it came and which
//! rows matched so far; no key and nothing derived from one is in it. It is replaced as a whole, and
//! on the disk before the run goes on, so that even a killed process leaves one that is complete.
//! Both files are removed once the run is over, and before if there is nothing to go on from.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use vesica_session::{Error as SessionError, State};
use vesica_tables::RowSet;
use vesica_wire::Error as WireError;

use crate::Error;

const JOURNAL: &str = "journal";
const LOCK: &str = "lock";
const MAGIC: &[u8; 8] = b"vesicaj1";
/// Longest description of a job, in bytes.
const MAX_TERMS: usize = 32 << 10;
/// Most buckets, as the session allows.
const MAX_BUCKETS: usize = vesica_session::MAX_BUCKETS as usize;

/// Which run a journal is of. Another run may go on from it if all of this is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The peer's fingerprint.
    pub(crate) peer: [u8; 32],
    /// What the run is about: role, protocol, security and so on, in words.
    pub(crate) terms: String,
    /// Hash of the keys of all rows.
    pub(crate) input: [u8; 32],
}

/// How far a run came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) owner: Owner,
    pub(crate) state: State,
    /// Rows that have matched.
    pub(crate) matched: RowSet,
}

impl Journal {
    /// Magic; peer, input, contract and origin, 32 bytes each; the terms behind their length in four
    /// bytes; the number of finished buckets in four, and the matches of each in eight; the number
    /// of rows in eight, and one bit for each. Numbers are little endian.
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for part in [
            &self.owner.peer,
            &self.owner.input,
            &self.state.contract,
            &self.state.origin,
        ] {
            out.extend_from_slice(part);
        }
        out.extend_from_slice(&(self.owner.terms.len() as u32).to_le_bytes());
        out.extend_from_slice(self.owner.terms.as_bytes());
        out.extend_from_slice(&(self.state.found.len() as u32).to_le_bytes());
        for found in &self.state.found {
            out.extend_from_slice(&found.to_le_bytes());
        }
        out.extend_from_slice(&self.matched.rows().to_le_bytes());
        out.extend_from_slice(&self.matched.to_bytes());
        out
    }

    /// Reads exactly what [`Journal::encode`] writes.
    fn decode(bytes: &[u8]) -> Option<Journal> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (peer, rest) = rest.split_first_chunk::<32>()?;
        let (input, rest) = rest.split_first_chunk::<32>()?;
        let (contract, rest) = rest.split_first_chunk::<32>()?;
        let (origin, rest) = rest.split_first_chunk::<32>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (terms, rest) = rest.split_at_checked(length.min(MAX_TERMS + 1))?;
        let (done, rest) = rest.split_first_chunk::<4>()?;
        let done = u32::from_le_bytes(*done) as usize;
        if length > MAX_TERMS || done > MAX_BUCKETS {
            return None;
        }
        let (found, rest) = rest.split_at_checked(8 * done)?;
        let (rows, rest) = rest.split_first_chunk::<8>()?;
        let found = found.chunks_exact(8).map(|bytes| {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            u64::from_le_bytes(number)
        });
        Some(Journal {
            owner: Owner {
                peer: *peer,
                terms: str::from_utf8(terms).ok()?.to_owned(),
                input: *input,
            },
            state: State {
                contract: *contract,
                origin: *origin,
                found: found.collect(),
            },
            matched: RowSet::from_bytes(u64::from_le_bytes(*rows), rest).ok()?,
        })
    }
}

/// A directory that this run alone uses.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    /// Held as long as the run lasts.
    lock: Option<File>,
    /// Whether there is a journal to keep.
    kept: bool,
}

impl WorkDir {
    /// Makes the directory, for this user only, or takes one over that holds nothing but what a run
    /// left.
    ///
    /// Fails with exit code 2 for a directory that cannot be made, is in use, or holds other files.
    pub(crate) fn open(path: &Path) -> Result<WorkDir, Error> {
        let problem = |e: io::Error| failed(path, &e);
        make(path).map_err(problem)?;
        for entry in fs::read_dir(path).map_err(problem)? {
            let name = entry.map_err(problem)?.file_name();
            let name = name.to_string_lossy();
            let part = name.starts_with(".vesica-") && name.ends_with(".part");
            if name != JOURNAL && name != LOCK && !part {
                return Err(refused(
                    path,
                    "holds other files; name a directory of its own",
                ));
            }
        }
        let lock = private(File::options().write(true).create(true).truncate(false))
            .open(path.join(LOCK))
            .map_err(problem)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(refused(path, "is in use by another run")),
            Err(TryLockError::Error(e)) => return Err(problem(e)),
        }
        Ok(WorkDir {
            path: path.to_owned(),
            lock: Some(lock),
            kept: path.join(JOURNAL).exists(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier run of `owner` left, if one did.
    ///
    /// Fails with exit code 2 for what a run of somebody else left, and for a damaged journal.
    pub(crate) fn read(&self, owner: &Owner) -> Result<Option<Journal>, Error> {
        if !self.kept {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(self.path.join(JOURNAL))
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|e| failed(&self.path, &e))?;
        let Some(journal) = Journal::decode(&bytes) else {
            return Err(refused(&self.path, "holds a damaged journal"));
        };
        let other = if journal.owner.peer != owner.peer {
            "is of a run with another peer"
        } else if journal.owner.terms != owner.terms {
            "is of a run with other options"
        } else if journal.owner.input != owner.input {
            "is of a run on another input"
        } else {
            return Ok(Some(journal));
        };
        Err(refused(&self.path, other))
    }

    /// Replaces the journal; it is on the disk when this returns.
    pub(crate) fn write(&mut self, journal: &Journal) -> Result<(), WireError> {
        let write = || -> io::Result<()> {
            let part = self.path.join(".vesica-journal.part");
            let mut file =
                private(File::options().write(true).create(true).truncate(true)).open(&part)?;
            file.write_all(&journal.encode())?;
            file.sync_all()?;
            fs::rename(&part, self.path.join(JOURNAL))?;
            // Not every file system can synchronise a directory.
            let _ = File::open(&self.path).and_then(|directory| directory.sync_all());
            Ok(())
        };
        // The peer hears of it too, and not of where it is.
        write().map_err(|e| {
            WireError::Resource(format!("the journal cannot be written: {}", e.kind()))
        })?;
        self.kept = true;
        Ok(())
    }

    /// Nothing is to be gone on from any longer.
    pub(crate) fn finish(mut self) {
        self.kept = false;
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // As well as it can: what stays is empty or says nothing.
        let _ = fs::remove_file(self.path.join(JOURNAL));
        let _ = fs::remove_file(self.path.join(".vesica-journal.part"));
        let _ = fs::remove_file(self.path.join(LOCK));
        self.lock = None;
        let _ = fs::remove_dir(&self.path);
    }
}

/// Makes a directory for this user only, unless there is one.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    match builder.create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Files that this makes are for this user only.
fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

fn refused(path: &Path, why: &str) -> Error {
    let line = format!("the work directory {} {why}", path.display());
    SessionError::Usage(line).into()
}

fn failed(path: &Path, e: &io::Error) -> Error {
    let line = format!("the work directory {}: {}", path.display(), e.kind());
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SessionError::Run(WireError::Resource(line)).into()
        }
        _ => SessionError::Usage(line).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut matched = RowSet::none(100);
        matched.insert(3);
        matched.insert(99);
        Journal {
            owner: Owner {
                peer: [1; 32],
                terms: "receiver auto malicious".into(),
                input: [2; 32],
            },
            state: State {
                contract: [3; 32],
                origin: [4; 32],
                found: vec![1, 0, 1],
            },
            matched,
        }
    }

    #[test]
    fn a_journal_comes_back_and_a_spoilt_one_does_not() {
        let bytes = journal().encode();
        assert_eq!(Journal::decode(&bytes), Some(journal()));
        for end in 0..bytes.len() {
            assert_eq!(Journal::decode(&bytes[..end]), None, "{end}");
        }
        assert_eq!(Journal::decode(&[&bytes[..], &[0]].concat()), None);
        // No length in it makes decoding take memory or panic.
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] = 0xff;
            if let Some(other) = Journal::decode(&spoilt) {
                assert_eq!(other.encode(), spoilt);
            }
        }
    }

    #[test]
    fn a_work_directory_is_kept_for_its_run_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("work");
        let code =
            |result: Result<_, Error>| result.err().map(|e: Error| (e.exit_code(), e.to_string()));
        // Without a journal nothing is left.
        drop(WorkDir::open(&path).unwrap());
        assert!(!path.exists());

        let mut work = WorkDir::open(&path).unwrap();
        let (exit, line) = code(WorkDir::open(&path).map(drop)).unwrap();
        assert_eq!(exit, 2);
        assert!(line.contains("in use"), "{line}");
        assert_eq!(work.read(&journal().owner).unwrap(), None);
        work.write(&journal()).unwrap();
        drop(work);

        let work = WorkDir::open(&path).unwrap();
        assert_eq!(work.read(&journal().owner).unwrap(), Some(journal()));
        type Change = fn(&mut Owner);
        let changes: [(Change, &str); 3] = [
            (|o| o.peer[0] = 9, "peer"),
            (|o| o.terms.push('x'), "options"),
            (|o| o.input[0] = 9, "input"),
        ];
        for (change, word) in changes {
            let mut other = journal().owner;
            change(&mut other);
            let (exit, line) = code(work.read(&other).map(drop)).unwrap();
            assert_eq!(exit, 2);
            assert!(line.contains(word), "{line}");
        }
        work.finish();
        assert!(!path.exists());

        fs::create_dir(&path).unwrap();
        fs::write(path.join("thesis.tex"), "").unwrap();
        let (exit, line) = code(WorkDir::open(&path).map(drop)).unwrap();
        assert_eq!(exit, 2);
        assert!(line.contains("other files"), "{line}");
        assert!(path.join("thesis.tex").exists());
        let nowhere = place.path().join("no/where");
        assert_eq!(code(WorkDir::open(&nowhere).map(drop)).unwrap().0, 2);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_kept_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("work");
        let mut work = WorkDir::open(&path).unwrap();
        work.write(&journal()).unwrap();
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join(JOURNAL)), 0o600);
        work.finish();
    }
}
