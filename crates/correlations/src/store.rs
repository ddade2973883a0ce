//! A directory of prepared correlations: one file for each half of a pair, encrypted, and consumed by one run.
//!
//! **Encryption.** A file is a [`Sealed`] message, under a key of its own that is derived from the store's key, the file's
//! name and a salt. The header is legible and authenticated.
//!
//! **Used once.** Correlations that serve two runs reveal items of both. [`Store::take`] first leaves a marker with the
//! half's name, then empties and removes the half, and only then returns the content: of two takers one gets it, a crash
//! loses correlations and never leaves them for another run, and a copy that is put back is refused.
//!
//! **Bound to its file.** What is authenticated with each piece includes which file the half was written to
//! ([`FileId`]). So a half that was copied, or restored from a backup with or without its marker, is noticed and refused.
//! [`Store::adopt`] binds such a half to the file that it is in now, for which it takes the store's key. A roll-back of the
//! whole file system, or of the whole machine, to a snapshot is not noticed.
//!
//! **On disk.** Halves, markers and the emptying of used halves are flushed on every system, new and removed names on Unix
//! only: elsewhere the system may forget a marker in a crash of the machine, but not that the half is empty.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rand_core::CryptoRng;
use thiserror::Error;
use vesica_files::{
    FileId, NotLocked, PrivateFile, is_exhausted, lock_within, open_regular, remove_unfinished,
    unfinished,
};
use vesica_primitives::sealed::{Sealed, Unreadable};
use zeroize::Zeroizing;

/// The last byte counts versions.
const MAGIC: &[u8; 8] = b"vesicao2";
const SUFFIX: &str = ".half";
/// Of the empty file that says that a half was used.
const MARKER: &str = ".used";
/// Longest header.
const MAX_HEADER: usize = 4096;
const SALT: usize = 16;
/// How long a half is waited for that another process reads: more than any takes, as they fit into memory.
const LONGEST_READ: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 30_000 });
/// Where the identity of the file is in it: after magic and salt.
const ID: std::ops::Range<usize> = MAGIC.len() + SALT..MAGIC.len() + SALT + FileId::BYTES;
/// Magic, salt, identity of the file, and the length of the header in four bytes, little endian.
const FIXED: usize = ID.end + 4;

/// The name of a pair of halves, the same for both parties and for no other pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub [u8; 16]);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A text that is no name of a pair: 32 hexadecimal digits in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the name of a pair has 32 hexadecimal digits")]
pub struct NotAName;

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Name, NotAName> {
        let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(NotAName);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| NotAName)?;
        Ok(Name(number.to_be_bytes()))
    }
}

/// Why a store or a file in it cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system's reason.
    #[error("{path}: {cause}")]
    Io {
        /// Of what.
        path: PathBuf,
        /// The reason.
        cause: io::Error,
    },
    /// A file that is none of this store's, or not as it was written.
    #[error("{path}: {problem}")]
    Bad {
        /// The file or the directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: StoreProblem,
    },
    /// A half that is not in the file that it was written to, so that it may have served a run elsewhere.
    #[error("{path}: was copied or restored after it was stored")]
    Copied {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with a file of a store. Displayed behind its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreProblem {
    /// A half of this name is or was in the store.
    #[error("the store has or had a half of this name")]
    Exists,
    /// A run has used the half.
    #[error("this half was used before")]
    Used,
    /// Another file, or the beginning of a half.
    #[error("no half of prepared correlations, or not whole")]
    NoHalf,
    /// A half as other versions write them.
    #[error("written by another version of this software")]
    OtherVersion,
    /// What no holder of the key has written.
    #[error("damaged, or written by another identity")]
    NotAuthentic,
    /// Another process has read it for longer than this one waits.
    #[error("in use by another process")]
    InUse,
    /// Nobody can tell whether another run takes the half, under another name of its file.
    #[error("on a file system without locks, where two runs could take one half")]
    NoLocks,
}

/// A directory of halves, whose content only holders of a key can read.
#[derive(Clone)]
pub struct Store {
    directory: PathBuf,
    key: Zeroizing<[u8; 32]>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Store").field(&self.directory).finish()
    }
}

/// A file of a store.
#[derive(Debug)]
pub struct Entry {
    /// The name of the pair.
    pub name: Name,
    /// The header, of which [`Store::verify`] and [`Store::take`] check that nobody has changed it; `None` if the file is
    /// no half.
    pub header: Option<Vec<u8>>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether a run has taken this half, of which the file is a copy then.
    pub is_used: bool,
    /// Whether the half is not in the file that it was written to, by its header.
    pub is_copy: bool,
}

impl Store {
    /// A directory that exists and in which only this user may write.
    pub fn new(directory: &Path, key: Zeroizing<[u8; 32]>) -> Store {
        Store {
            directory: directory.to_owned(),
            key,
        }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a half under a name. It is on disk afterwards, or there is no such file.
    ///
    /// # Errors
    /// A full disk; a name that the store has, or had.
    ///
    /// # Panics
    /// If the header is longer than 4096 bytes.
    pub fn put(
        &self,
        name: Name,
        header: &[u8],
        content: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), StoreError> {
        assert!(header.len() <= MAX_HEADER);
        let path = self.path(name, SUFFIX);
        let known = || bad(&path, StoreProblem::Exists);
        if self.path(name, MARKER).exists() {
            return Err(known());
        }
        let file = self.write(name, header, content, rng)?;
        file.place_new().map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => known(),
            _ => failed(&path, e),
        })?;
        self.sync().map_err(|e| {
            let _ = fs::remove_file(&path);
            failed(&path, e)
        })
    }

    /// A file with this half, bound to it, that has no name yet. Makes room first: removes what killed processes have
    /// left.
    fn write(
        &self,
        name: Name,
        header: &[u8],
        content: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<PrivateFile, StoreError> {
        self.remove_unfinished();
        let path = self.path(name, SUFFIX);
        let io = |e| failed(&path, e);
        let mut file = PrivateFile::create(&path).map_err(io)?;
        let mut salt = [0; SALT];
        rng.fill_bytes(&mut salt);
        let id = file.id().map_err(io)?.to_bytes();
        let head = head(&salt, &id, header);
        self.encrypt(&mut file, name, &head, content).map_err(io)?;
        Ok(file)
    }

    fn encrypt(
        &self,
        mut file: &mut dyn Write,
        name: Name,
        head: &[u8],
        content: &[u8],
    ) -> io::Result<()> {
        file.write_all(head)?;
        self.sealed(name, head).write(head, content, &mut file)
    }

    /// All files, by name.
    ///
    /// # Errors
    /// A directory that cannot be read; too few open files.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(|e| failed(&self.directory, e))? {
            let entry = entry.map_err(|e| failed(&self.directory, e))?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(Ok(name)) = file.strip_suffix(SUFFIX).map(str::parse) else {
                continue;
            };
            let mut found = Entry {
                name,
                header: None,
                bytes: 0,
                is_used: self.path(name, MARKER).exists(),
                is_copy: false,
            };
            match open_half(&entry.path()) {
                // Another run has just taken it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) if is_exhausted(&e) => return Err(failed(&entry.path(), e)),
                Err(_) => {}
                Ok(mut opened) => {
                    found.bytes = opened.metadata().map_or(0, |metadata| metadata.len());
                    if let Ok(mut head) = read_head(&entry.path(), &mut opened) {
                        found.is_copy = is_copy(&head, &opened);
                        found.header = Some(head.split_off(FIXED));
                    }
                }
            }
            entries.push(found);
        }
        entries.sort_by_key(|entry| entry.name);
        Ok(entries)
    }

    /// The number of files that killed processes have left behind, and their bytes. The next [`Store::put`],
    /// [`Store::adopt`] or [`Store::remove`] removes them.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn unfinished(&self) -> Result<(usize, u64), StoreError> {
        let found = unfinished(&self.directory).map_err(|e| failed(&self.directory, e))?;
        Ok((found.len(), found.iter().map(|(_, bytes)| bytes).sum()))
    }

    fn remove_unfinished(&self) {
        // What stays does no harm but to the space on the disk.
        let _ = remove_unfinished(&self.directory);
    }

    /// Checks that a file is whole and as it was written, and still the same file.
    ///
    /// # Errors
    /// A file that is not, or that is missing.
    pub fn verify(&self, name: Name) -> Result<(), StoreError> {
        self.read(name)?.in_its_file().map(drop)
    }

    /// Binds a half to the file that it is in now. Returns whether it was not yet: then it may have served a run
    /// elsewhere, which the caller has to exclude. It is written anew, so that a crash leaves it bound either way.
    ///
    /// # Errors
    /// A file that is missing, damaged or of another identity; a half that was used; a full disk. The half stays as it
    /// was.
    pub fn adopt(&self, name: Name, rng: &mut dyn CryptoRng) -> Result<bool, StoreError> {
        let path = self.path(name, SUFFIX);
        let refuse_used = || match self.path(name, MARKER).exists() {
            true => Err(used(&path)),
            false => Ok(()),
        };
        refuse_used()?;
        let half = self.read(name)?;
        if !half.is_copy {
            return Ok(false);
        }
        let file = self.write(name, &half.header, &half.content, rng)?;
        file.replace().map_err(|e| failed(&path, e))?;
        // Another process may have adopted it first, and a run have taken it.
        refuse_used().inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        self.sync().map_err(|e| failed(&path, e))?;
        Ok(true)
    }

    /// The header and the content of a half, whose file is removed before this returns.
    ///
    /// # Errors
    /// A file that is missing, damaged, a copy or of another store, which stays as it is; a name that was taken before.
    pub fn take(&self, name: Name) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), StoreError> {
        let path = self.path(name, SUFFIX);
        if self.path(name, MARKER).exists() {
            return Err(used(&path));
        }
        let taken = self.read(name)?.in_its_file()?;
        match self.consume(name)? {
            true => Ok((taken.header, taken.content)),
            false => Err(used(&path)),
        }
    }

    /// Removes a half, whose name no other half may have from now on.
    ///
    /// # Errors
    /// A file that is missing, or a directory that cannot be changed.
    pub fn remove(&self, name: Name) -> Result<(), StoreError> {
        self.remove_unfinished();
        let path = self.path(name, SUFFIX);
        fs::symlink_metadata(&path).map_err(|e| failed(&path, e))?;
        match self.consume(name)? {
            true => Ok(()),
            // A copy.
            false => fs::remove_file(&path).map_err(|e| failed(&path, e)),
        }
    }

    /// Leaves a marker, empties the half and removes it, all on disk before this returns. Returns whether there was no
    /// marker.
    fn consume(&self, name: Name) -> Result<bool, StoreError> {
        let (half, marker) = (self.path(name, SUFFIX), self.path(name, MARKER));
        let marked = File::create_new(&marker).and_then(|file| file.sync_all());
        match marked.and_then(|()| self.sync()) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(e) => return Err(failed(&marker, e)),
        }
        let removed = empty(&half).and_then(|()| fs::remove_file(&half));
        match removed.and_then(|()| self.sync()) {
            // Somebody who adopted it has seen the marker.
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(&half, e)),
            _ => Ok(true),
        }
    }

    fn read(&self, name: Name) -> Result<Opened, StoreError> {
        let path = self.path(name, SUFFIX);
        let mut opened = open_half(&path).map_err(|e| failed(&path, e))?;
        // Another name of the same file may be in another store. Whoever comes second finds it empty.
        lock_within(&opened, LONGEST_READ).map_err(|cause| match cause {
            NotLocked::InUse => bad(&path, StoreProblem::InUse),
            NotLocked::NoLocks => bad(&path, StoreProblem::NoLocks),
            NotLocked::Io(e) => failed(&path, e),
        })?;
        let mut head = read_head(&path, &mut opened)?;
        let is_copy = is_copy(&head, &opened);
        let length = opened.metadata().map_err(|e| failed(&path, e))?.len();
        let length = length.saturating_sub(head.len() as u64);
        let content = self.sealed(name, &head).read(&head, length, &mut opened);
        let content = content.map_err(|e| match e {
            Unreadable::Io(e) => failed(&path, e),
            Unreadable::NotAuthentic => bad(&path, StoreProblem::NotAuthentic),
            Unreadable::TooLong => failed(&path, io::ErrorKind::OutOfMemory.into()),
        })?;
        Ok(Opened {
            path,
            header: head.split_off(FIXED),
            content,
            is_copy,
            _locked: opened,
        })
    }

    fn sealed(&self, name: Name, head: &[u8]) -> Sealed {
        let salt = &head[MAGIC.len()..][..SALT];
        Sealed::new(&self.key, &[b"vesica/1 half of a pair", &name.0, salt])
    }

    /// Makes what happened to the directory's files last.
    fn sync(&self) -> io::Result<()> {
        match cfg!(unix) {
            true => File::open(&self.directory)?.sync_all(),
            false => Ok(()),
        }
    }

    /// The file of a half.
    pub fn path_of(&self, name: Name) -> PathBuf {
        self.path(name, SUFFIX)
    }

    fn path(&self, name: Name, suffix: &str) -> PathBuf {
        self.directory.join(format!("{name}{suffix}"))
    }
}

/// A half that was read, and that this store's key has written.
struct Opened {
    path: PathBuf,
    header: Vec<u8>,
    content: Zeroizing<Vec<u8>>,
    /// Whether it is not in the file that it was written to.
    is_copy: bool,
    /// The file, which nobody else reads as a half meanwhile.
    _locked: File,
}

impl Opened {
    fn in_its_file(self) -> Result<Opened, StoreError> {
        match self.is_copy {
            true => Err(StoreError::Copied { path: self.path }),
            false => Ok(self),
        }
    }
}

/// Whether a half is not in the file that it was written to. What cannot tell is no such file.
fn is_copy(head: &[u8], opened: &File) -> bool {
    FileId::of(opened)
        .ok()
        .map(FileId::to_bytes)
        .as_ref()
        .map(|id| &id[..])
        != Some(&head[ID])
}

/// Makes a half useless under every name that its file has, and on systems that may forget that it was removed.
fn empty(half: &Path) -> io::Result<()> {
    if !half.symlink_metadata()?.is_file() {
        return Ok(());
    }
    // It may be read only, which does not keep anybody from removing it.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(half, fs::Permissions::from_mode(0o600))?;
    }
    #[cfg(not(unix))]
    {
        let mut permissions = half.metadata()?.permissions();
        permissions.set_readonly(false);
        fs::set_permissions(half, permissions)?;
    }
    let file = OpenOptions::new().write(true).open(half)?;
    file.set_len(0).and_then(|()| file.sync_all())
}

/// Opens a half. A link would hide that the half was copied: it is the link that a run would remove.
fn open_half(path: &Path) -> io::Result<File> {
    match path.symlink_metadata()?.is_symlink() {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a symbolic link is no half",
        )),
        false => open_regular(path),
    }
}

fn used(path: &Path) -> StoreError {
    bad(path, StoreProblem::Used)
}

fn bad(path: &Path, problem: StoreProblem) -> StoreError {
    StoreError::Bad {
        path: path.to_owned(),
        problem,
    }
}

fn failed(path: &Path, cause: io::Error) -> StoreError {
    StoreError::Io {
        path: path.to_owned(),
        cause,
    }
}

/// Everything before the content.
fn read_head(path: &Path, opened: &mut File) -> Result<Vec<u8>, StoreError> {
    let no_half = || bad(path, StoreProblem::NoHalf);
    let not_read = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof => no_half(),
        _ => failed(path, e),
    };
    let mut head = vec![0; FIXED];
    opened.read_exact(&mut head).map_err(not_read)?;
    let (_, length) = head.split_last_chunk::<4>().ok_or_else(no_half)?;
    let length = u32::from_le_bytes(*length) as usize;
    if head.starts_with(&MAGIC[..7]) && head[7] != MAGIC[7] {
        return Err(bad(path, StoreProblem::OtherVersion));
    }
    if !head.starts_with(MAGIC) || length > MAX_HEADER {
        return Err(no_half());
    }
    head.resize(FIXED + length, 0);
    opened.read_exact(&mut head[FIXED..]).map_err(not_read)?;
    Ok(head)
}

fn head(salt: &[u8; SALT], id: &[u8; FileId::BYTES], header: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [MAGIC, &salt[..], id, &length, header].concat()
}

#[cfg(test)]
mod tests;
