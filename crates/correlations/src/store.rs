//! A directory of prepared correlations: one file for each half of a pair, encrypted, and consumed by one run.
//!
//! **Encryption.** A file is a [`Sealed`] message, under a key of its own that is derived from the store's key, the file's
//! name and a salt. The header is legible and authenticated.
//!
//! **Used once.** Correlations that serve two runs reveal items of both. [`Store::take`] first leaves a marker with the
//! half's name, then removes the half, and only then returns the content: of two takers one gets it, a crash loses
//! correlations and never leaves them for another run, and a copy that is put back is refused. Nothing here notices
//! that the whole directory was put back, markers included: it must not be restored from a backup, nor copied to
//! another machine.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rand_core::CryptoRng;
use thiserror::Error;
use vesica_primitives::sealed::{Sealed, Unreadable};
use zeroize::Zeroizing;

const MAGIC: &[u8; 8] = b"vesicao1";
const SUFFIX: &str = ".half";
/// Of the empty file that says that a half was used.
const MARKER: &str = ".used";
/// Longest header.
const MAX_HEADER: usize = 4096;
const SALT: usize = 16;
/// Magic, salt, and the length of the header in four bytes, little endian.
const FIXED: usize = MAGIC.len() + SALT + 4;

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
        problem: &'static str,
    },
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
        let known = || bad(&path, "the store has or had a half of this name");
        if self.path(name, MARKER).exists() {
            return Err(known());
        }
        let mut file = tempfile::Builder::new()
            .suffix(".part")
            .tempfile_in(&self.directory)
            .map_err(|e| failed(&path, e))?;
        let mut salt = [0; SALT];
        rng.fill_bytes(&mut salt);
        let head = head(&salt, header);
        self.write(file.as_file_mut(), name, &head, content)
            .map_err(|e| failed(&path, e))?;
        file.persist_noclobber(&path)
            .map_err(|e| match e.error.kind() {
                io::ErrorKind::AlreadyExists => known(),
                _ => failed(&path, e.error),
            })?;
        self.sync().map_err(|e| {
            let _ = fs::remove_file(&path);
            failed(&path, e)
        })
    }

    fn write(&self, file: &mut File, name: Name, head: &[u8], content: &[u8]) -> io::Result<()> {
        file.write_all(head)?;
        self.sealed(name, head).write(head, content, file)?;
        file.sync_all()
    }

    /// All files, by name.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(|e| failed(&self.directory, e))? {
            let entry = entry.map_err(|e| failed(&self.directory, e))?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(Ok(name)) = file.strip_suffix(SUFFIX).map(str::parse) else {
                continue;
            };
            // A file that has just gone was taken by another run.
            let Ok(mut opened) = File::open(entry.path()) else {
                continue;
            };
            let head = read_head(&entry.path(), &mut opened).ok();
            entries.push(Entry {
                name,
                header: head.map(|mut head| head.split_off(FIXED)),
                bytes: opened.metadata().map_or(0, |metadata| metadata.len()),
                is_used: self.path(name, MARKER).exists(),
            });
        }
        entries.sort_by_key(|entry| entry.name);
        Ok(entries)
    }

    /// Checks that a file is whole and as it was written.
    ///
    /// # Errors
    /// A file that is not, or that is missing.
    pub fn verify(&self, name: Name) -> Result<(), StoreError> {
        self.read(name).map(drop)
    }

    /// The header and the content of a half, whose file is removed before this returns.
    ///
    /// # Errors
    /// A file that is missing, damaged or of another store, which stays as it is; a name that was taken before.
    pub fn take(&self, name: Name) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), StoreError> {
        let used = || bad(&self.path(name, SUFFIX), "this half was used before");
        if self.path(name, MARKER).exists() {
            return Err(used());
        }
        let taken = self.read(name)?;
        match self.consume(name)? {
            true => Ok(taken),
            false => Err(used()),
        }
    }

    /// Removes a half, whose name no other half may have from now on.
    ///
    /// # Errors
    /// A file that is missing, or a directory that cannot be changed.
    pub fn remove(&self, name: Name) -> Result<(), StoreError> {
        let path = self.path(name, SUFFIX);
        fs::metadata(&path).map_err(|e| failed(&path, e))?;
        match self.consume(name)? {
            true => Ok(()),
            // A copy.
            false => fs::remove_file(&path).map_err(|e| failed(&path, e)),
        }
    }

    /// Leaves a marker and removes the half, both on disk before this returns. Returns whether there was no marker.
    fn consume(&self, name: Name) -> Result<bool, StoreError> {
        let (half, marker) = (self.path(name, SUFFIX), self.path(name, MARKER));
        match File::create_new(&marker) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(e) => return Err(failed(&marker, e)),
        }
        let removed = self.sync().and_then(|()| fs::remove_file(&half));
        removed
            .and_then(|()| self.sync())
            .map_err(|e| failed(&half, e))?;
        Ok(true)
    }

    fn read(&self, name: Name) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), StoreError> {
        let path = self.path(name, SUFFIX);
        let mut opened = File::open(&path).map_err(|e| failed(&path, e))?;
        let mut head = read_head(&path, &mut opened)?;
        let length = opened.metadata().map_err(|e| failed(&path, e))?.len();
        let length = length.saturating_sub(head.len() as u64);
        let content = self.sealed(name, &head).read(&head, length, &mut opened);
        let content = content.map_err(|e| match e {
            Unreadable::Io(e) => failed(&path, e),
            Unreadable::NotAuthentic => bad(&path, "damaged, or written by another identity"),
            Unreadable::TooLong => bad(&path, "too long for the memory of this machine"),
        })?;
        Ok((head.split_off(FIXED), content))
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

    fn path(&self, name: Name, suffix: &str) -> PathBuf {
        self.directory.join(format!("{name}{suffix}"))
    }
}

fn bad(path: &Path, problem: &'static str) -> StoreError {
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
    let no_half = || bad(path, "no half of prepared correlations, or not whole");
    let mut head = vec![0; FIXED];
    opened.read_exact(&mut head).map_err(|_| no_half())?;
    let (_, length) = head.split_last_chunk::<4>().ok_or_else(no_half)?;
    let length = u32::from_le_bytes(*length) as usize;
    if !head.starts_with(MAGIC) || length > MAX_HEADER {
        return Err(no_half());
    }
    head.resize(FIXED + length, 0);
    opened
        .read_exact(&mut head[FIXED..])
        .map_err(|_| no_half())?;
    Ok(head)
}

fn head(salt: &[u8; SALT], header: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [MAGIC, &salt[..], &length, header].concat()
}

#[cfg(test)]
mod tests;
