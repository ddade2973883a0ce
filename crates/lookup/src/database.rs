//! The private side of a published set: its secret key, what was published last, and the count of queries.

use std::ffi::OsString;
use std::fs::{File, remove_dir, remove_file};
use std::io::{self, Read, Write};
use std::iter;
use std::path::{Path, PathBuf};

use vesica_files::{NotLocked, WholeFile, is_at, open_own, open_regular, private_directory};
use vesica_primitives::sealed::Sealed;
use vesica_primitives::voprf::{ELEMENT_BYTES, Element, SecretKey};
use vesica_session::codec::Reader;
use vesica_session::{Identity, random};
use zeroize::Zeroizing;

use crate::error::{Error, Holder, SetProblem, StoreProblem};
use crate::header::{Declared, Header};
use crate::journal::Journal;
use crate::quotas::Quotas;
use crate::set::{PublishedSet, header_at};

/// The file of the secret key.
const KEY: &str = "key";
/// The file that is locked by who serves, or makes a key.
pub(crate) const LOCK: &str = "lock";
/// The file that is locked by who publishes.
pub(crate) const PUBLISHING: &str = "publishing";
/// What the file of the key begins with.
const HEAD: &[u8] = b"vesica database 4\n";
/// Most bytes of it.
const MAX_BYTES: u64 = 1 << 16;

/// What follows a file's head, which ends with the number of its form.
pub(crate) fn after_head<'a>(
    bytes: &'a [u8],
    head: &[u8],
    file: &'static str,
) -> Result<&'a [u8], StoreProblem> {
    if let Some(rest) = bytes.strip_prefix(head) {
        return Ok(rest);
    }
    let number = head.iter().rposition(|byte| *byte == b' ').unwrap_or(0) + 1;
    let mut line = bytes.strip_prefix(&head[..number]).unwrap_or_default();
    line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_number = !line.is_empty() && line.len() < 4 && line.iter().all(u8::is_ascii_digit);
    Err(match is_number {
        true => StoreProblem::OtherVersion(file),
        false => StoreProblem::Unreadable(file),
    })
}

/// A release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) release: u64,
    /// Hash of its header.
    pub(crate) hash: [u8; 32],
    /// Masks that were ever published under the key.
    pub(crate) masks: u64,
}

impl Last {
    const NONE: Last = Last {
        release: 0,
        hash: [0; 32],
        masks: 0,
    };

    fn read(reader: &mut Reader<'_>) -> Result<Last, vesica_wire::Error> {
        Ok(Last {
            release: reader.u64()?,
            hash: reader.array()?,
            masks: reader.u64()?,
        })
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.release.to_le_bytes());
        out.extend_from_slice(&self.hash);
        out.extend_from_slice(&self.masks.to_le_bytes());
    }

    pub(crate) fn of_first(header: &Header) -> Last {
        Last {
            release: header.release,
            hash: header.hash(),
            masks: header.keys,
        }
    }

    /// After the next release, if its header follows the one before.
    pub(crate) fn then(&self, before: &Header, next: &Header) -> Last {
        Last {
            release: next.release,
            hash: next.hash(),
            // Those that have come new: not those whose payload has changed.
            masks: self.masks + (next.keys + next.removed).saturating_sub(before.keys),
        }
    }
}

/// What the file of the key says.
pub(crate) struct Contents {
    pub(crate) secret: SecretKey,
    pub(crate) declared: Declared,
    /// What was published last.
    pub(crate) last: Last,
    /// The release after it, from before its file has its name until that counts as published.
    pub(crate) coming: Option<Last>,
    /// What tells the set from others, under this key and those that replace it.
    pub(crate) id: [u8; 32],
    /// The file of the first release when something was published last; empty if its path is no text.
    pub(crate) set: String,
}

/// Where a set is, whatever the directory in which a later command is run.
pub(crate) fn place_of(set: &Path) -> String {
    let path = std::path::absolute(set).unwrap_or_else(|_| set.to_owned());
    path.into_os_string().into_string().unwrap_or_default()
}

impl Contents {
    /// Whether this is the last release, or the one that was about to follow it.
    pub(crate) fn knows(&self, header: &Header) -> bool {
        let hash = header.hash();
        let mut known = iter::once(&self.last).chain(&self.coming);
        known.any(|known| known.hash == hash)
    }

    /// Fails unless these files are those of what was published last.
    pub(crate) fn check(&self, directory: &Path, set: &PublishedSet) -> Result<(), Error> {
        let (header, last) = (set.header(), self.last.release);
        let is_same_key = header.oprf_key == self.secret.public_key();
        match self.knows(header) {
            true => Ok(()),
            false if is_same_key && header.release > last => {
                let found = header.release;
                let problem = StoreProblem::Older { last, found };
                Err(Error::store(directory, problem))
            }
            false => Err(Error::set(set.last_path(), SetProblem::NotLast(last))),
        }
    }

    /// Fails if files are where those were published last, and are others or more than this knows of, or cannot be read.
    fn check_beside(&self, directory: &Path, identity: &Identity) -> Result<(), Error> {
        let path = Path::new(&self.set);
        match path.symlink_metadata() {
            // Files that were moved, or lost, say nothing of the database.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            _ => self.check(
                directory,
                &PublishedSet::open(path, identity.fingerprint())?,
            ),
        }
    }

    /// Reads the file that this identity has written.
    pub(crate) fn read(directory: &Path, identity: &Identity) -> Result<Contents, Error> {
        let path = directory.join(KEY);
        let unreadable = || Error::store(directory, StoreProblem::Unreadable(KEY));
        let mut bytes = Vec::new();
        let read =
            open_regular(&path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
        read.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::store(directory, StoreProblem::Empty),
            _ => Error::io(&path, &e),
        })?;
        let rest = after_head(&bytes, HEAD, KEY).map_err(|e| Error::store(directory, e))?;
        let (salt, mut rest) = rest.split_first_chunk::<32>().ok_or_else(unreadable)?;
        let length = rest.len() as u64;
        let content = sealed(identity, salt).read(HEAD, length, &mut rest);
        let content = content.map_err(|_| unreadable())?;
        let parsed = Contents::parse(&content).map_err(|_| unreadable())?;
        parsed.ok_or_else(unreadable)
    }

    fn parse(content: &[u8]) -> Result<Option<Contents>, vesica_wire::Error> {
        let mut reader = Reader::new("database", content);
        let secret: Zeroizing<[u8; ELEMENT_BYTES]> = Zeroizing::new(reader.array()?);
        let last = Last::read(&mut reader)?;
        let coming = Last::read(&mut reader)?;
        let id = reader.array()?;
        let length = reader.u32()? as usize;
        let set = str::from_utf8(reader.bytes(length)?).map(str::to_owned);
        let declared = Declared::read(&mut reader)?;
        reader.end()?;
        let secret = SecretKey::from_bytes(&secret);
        Ok(secret.zip(set.ok()).map(|(secret, set)| Contents {
            secret,
            declared,
            last,
            coming: (coming.release > 0).then_some(coming),
            id,
            set,
        }))
    }

    /// Replaces the file.
    pub(crate) fn write(&self, directory: &Path, identity: &Identity) -> Result<(), Error> {
        let mut content = Zeroizing::new(Vec::with_capacity(MAX_BYTES as usize));
        content.extend_from_slice(&*self.secret.to_bytes());
        self.last.put(&mut content);
        let coming = self.coming.as_ref().unwrap_or(&Last::NONE);
        coming.put(&mut content);
        content.extend_from_slice(&self.id);
        content.extend_from_slice(&(self.set.len() as u32).to_le_bytes());
        content.extend_from_slice(self.set.as_bytes());
        self.declared.put(&mut content);
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let path = directory.join(KEY);
        let write = || {
            let mut file = WholeFile::create(&path)?;
            file.write_all(HEAD)?;
            file.write_all(&salt)?;
            sealed(identity, &salt).write(HEAD, &content, &mut file)?;
            file.commit_for_good()
        };
        write().map_err(|e| Error::io(&path, &e))
    }
}

/// A directory in which a key is made, which nobody serves or publishes from meanwhile.
pub(crate) struct Making {
    pub(crate) directory: PathBuf,
    /// What it holds already.
    pub(crate) current: Option<Contents>,
    _held: Held,
}

impl Making {
    /// For a first key, or for one in place of the one that is there.
    pub(crate) fn begin(
        directory: &Path,
        identity: &Identity,
        replaces: bool,
    ) -> Result<Making, Error> {
        if replaces {
            check_published(directory)?;
        }
        let is_there = directory.join(KEY).exists();
        if is_there && !replaces && !Journal::is_in(directory) {
            return Err(Error::store(directory, StoreProblem::Taken));
        }
        let held = Held::take(
            directory,
            &[(PUBLISHING, Holder::Publisher), (LOCK, Holder::Server)],
        )?;
        let current = match is_there || replaces {
            true => Some(Contents::read(directory, identity)?),
            false => None,
        };
        Ok(Making {
            directory: directory.to_owned(),
            current,
            _held: held,
        })
    }

    /// Fails if there is a set under this key already, and the database does not have the key: both are made once, the key
    /// first, so that the database is an older copy.
    pub(crate) fn check_unfinished(
        &self,
        secret: &SecretKey,
        set: &Path,
        identity: &Identity,
    ) -> Result<(), Error> {
        let key = secret.public_key();
        let current = self.current.as_ref();
        if current.is_some_and(|current| current.secret.public_key() == key) {
            return Ok(());
        }
        // What is there of another publisher, or is no set, is not asked about under this key.
        let there = header_at(set, identity.fingerprint());
        match there.is_some_and(|header| header.oprf_key == key) {
            true => Err(Error::store(&self.directory, StoreProblem::CopiedJournal)),
            false => Ok(()),
        }
    }

    /// Whether the database has this key, or had it before: the quotas of a key stay until the set of the next one is in its
    /// place.
    pub(crate) fn had_key(&self, oprf_key: &Element) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.secret.public_key() == *oprf_key)
            || Quotas::are_in(&self.directory, oprf_key)
    }

    /// What tells a set under this key, and under those that replace it, from others.
    pub(crate) fn id(&self, oprf_key: &Element) -> [u8; 32] {
        match &self.current {
            Some(current) => current.id,
            None => blake3::derive_key("vesica/1 id of a published set", oprf_key.bytes()),
        }
    }

    /// Makes the key the one of the database, with a count of no queries; or leaves it as it is, if a publication that was
    /// cut has done so. What was counted under the key before is still there.
    pub(crate) fn finish(
        &self,
        identity: &Identity,
        secret: SecretKey,
        header: &Header,
        set: &Path,
    ) -> Result<(), Error> {
        let last = Last::of_first(header);
        if self
            .current
            .as_ref()
            .is_none_or(|current| current.last != last)
        {
            // The quotas first: a key without them cannot be served.
            Quotas::create(&self.directory, identity, &header.oprf_key)?;
            let contents = Contents {
                secret,
                declared: header.declared.clone(),
                last,
                coming: None,
                id: header.previous,
                set: place_of(set),
            };
            contents.write(&self.directory, identity)?;
        }
        Ok(())
    }

    /// Removes what was counted under keys before this one, whose set is in its place.
    pub(crate) fn forget_others(&self, oprf_key: &Element) -> Result<(), Error> {
        Quotas::remove_others(&self.directory, oprf_key)
    }
}

/// An open database, which no other process serves.
#[derive(Debug)]
pub struct Database {
    directory: PathBuf,
    identity: Identity,
    pub(crate) secret: SecretKey,
    pub(crate) declared: Declared,
    pub(crate) quotas: Quotas,
    /// As long as this is open.
    _held: Held,
}

impl Database {
    /// Opens the database that this identity has made.
    ///
    /// # Errors
    /// Usage: none is there, or it is in use or not private. Data: it is damaged, of another identity, without its count of
    /// queries, or older than this or than its set.
    pub fn open(directory: &Path, identity: &Identity) -> Result<Database, Error> {
        check_published(directory)?;
        let held = Held::take(directory, &[(LOCK, Holder::ServerOrPublisher)])?;
        let contents = Contents::read(directory, identity)?;
        contents.check_beside(directory, identity)?;
        let Contents {
            secret,
            declared,
            last,
            ..
        } = contents;
        let (key, queries) = (secret.public_key(), declared.queries);
        let quotas = Quotas::open(directory, identity, &key, queries, last.release)?;
        Ok(Database {
            directory: directory.to_owned(),
            identity: identity.clone(),
            secret,
            declared,
            quotas,
            _held: held,
        })
    }

    /// The last release, also if it was published meanwhile.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn release(&self) -> Result<u64, Error> {
        let release = self.contents()?.last.release;
        self.quotas.saw(release);
        Ok(release)
    }

    fn contents(&self) -> Result<Contents, Error> {
        Contents::read(&self.directory, &self.identity)
    }

    /// Fails unless the set in these files is the one that was published last.
    pub(crate) fn check_set(&self, set: &Path) -> Result<(), Error> {
        // Somebody may publish meanwhile.
        let before = self.contents()?;
        let set = PublishedSet::open(set, self.identity.fingerprint())?;
        match before.knows(set.header()) {
            true => Ok(()),
            false => self.contents()?.check(&self.directory, &set),
        }
    }

    /// What was declared when the set was published.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Queries that all clients together have made.
    pub fn answered(&self) -> u64 {
        self.quotas.answered()
    }

    /// Bits of security of the key against whoever has asked all that it may answer: a static Diffie–Hellman key of about
    /// 2^252 loses half of the bits of the number of its answers.
    pub fn bits_left(&self) -> u32 {
        126 - self
            .declared
            .queries
            .next_power_of_two()
            .ilog2()
            .div_ceil(2)
    }
}

fn sealed(identity: &Identity, salt: &[u8; 32]) -> Sealed {
    let key = identity.derive_key("vesica/1 database of a published set");
    Sealed::new(&key, &[b"key", salt])
}

/// Fails if nothing was published from the directory.
pub(crate) fn check_published(directory: &Path) -> Result<(), Error> {
    let may_be_one = directory.is_dir() || !directory.exists();
    match may_be_one && !directory.join(KEY).exists() {
        true if !directory.exists() => Err(Error::store(directory, StoreProblem::Absent)),
        true => Err(Error::store(directory, StoreProblem::Empty)),
        false => Ok(()),
    }
}

/// What the set of this directory was declared with, if there is one.
///
/// # Errors
/// As [`Database::open`].
pub fn declared_in(directory: &Path, identity: &Identity) -> Result<Option<Declared>, Error> {
    match directory.join(KEY).exists() {
        true => Ok(Some(Contents::read(directory, identity)?.declared)),
        false => Ok(None),
    }
}

/// Fails if other users can change what is in the directory, which is made if it is not there.
fn check_private(directory: &Path) -> Result<(), Error> {
    let checked = private_directory(directory);
    let checked = checked.map_err(|e| match Error::io(directory, &e) {
        Error::Io { path, reason } => Error::store(&path, StoreProblem::Io(reason)),
        other => other,
    });
    match checked? {
        Some(problem) => Err(Error::store(directory, StoreProblem::Unsafe(problem))),
        None => Ok(()),
    }
}

/// A directory that is this process's, by files in it that are locked. If nothing else is in it at the end, these files are
/// removed, and so is the directory if it was not there before.
#[derive(Debug)]
pub(crate) struct Held {
    directory: PathBuf,
    was_there: bool,
    locks: Vec<(&'static str, File)>,
}

impl Held {
    /// Locks files of a directory in this order; who else may have locked each is said with it.
    ///
    /// # Errors
    /// Usage: the directory cannot be made, others can change what is in it, or another process has it.
    pub(crate) fn take(directory: &Path, locks: &[(&'static str, Holder)]) -> Result<Held, Error> {
        let mut held = Held {
            directory: directory.to_owned(),
            was_there: directory.exists(),
            locks: Vec::new(),
        };
        check_private(directory)?;
        for (name, holder) in locks {
            let file = lock(directory, name, *holder)?;
            held.locks.push((*name, file));
        }
        Ok(held)
    }

    /// Whether nothing but the locked files is in the directory.
    fn is_empty(&self) -> bool {
        // Another directory may have come in its place.
        let is_lock = |name: OsString| {
            let own = |(lock, file): &(&str, File)| {
                name == *lock && is_at(file, &self.directory.join(lock))
            };
            self.locks.iter().any(own)
        };
        let there = self.directory.read_dir();
        there.is_ok_and(|mut there| {
            there.all(|entry| entry.is_ok_and(|entry| is_lock(entry.file_name())))
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_empty() {
            return;
        }
        // As well as it can: what stays is empty, and is taken again.
        for (name, _file) in self.locks.drain(..) {
            let _ = remove_file(self.directory.join(name));
        }
        if !self.was_there {
            let _ = remove_dir(&self.directory);
        }
    }
}

/// Locks a file of the directory for this process.
fn lock(directory: &Path, name: &str, holder: Holder) -> Result<File, Error> {
    let path: PathBuf = directory.join(name);
    let in_use = || Error::store(directory, StoreProblem::InUse(holder));
    let file = open_own(&path, Some(0o600)).map_err(|e| Error::io(&path, &e))?;
    vesica_files::lock(&file).map_err(|cause| match cause {
        NotLocked::InUse => in_use(),
        NotLocked::NoLocks => Error::store(directory, StoreProblem::NoLocks),
        NotLocked::Io(e) => Error::io(&path, &e),
    })?;
    match is_at(&file, &path) {
        true => Ok(file),
        // Another process has just ended, and taken the file with it.
        false => Err(in_use()),
    }
}
