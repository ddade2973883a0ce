//! A directory of prepared correlations: one file for each half of a pair, encrypted, and consumed by one run.
//!
//! **Encryption.** A file has a key of its own, derived from the store's key and the file's name. Its content is
//! encrypted by AES-256-GCM in pieces (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár, *Online
//! authenticated-encryption and its nonce-reuse misuse-resistance*, CRYPTO 2015), so that pieces cannot be dropped,
//! exchanged or appended. The header is legible and authenticated with each piece.
//!
//! **Used once.** Correlations that serve two runs reveal items of both. [`Store::take`] first writes the name into a
//! ledger, then removes the file, and only then returns the content: a crash loses correlations and never leaves them
//! for another run, and a copy that is put back is refused. The ledger and the copy from before it was written would be
//! accepted together; the peer's ledger refuses those still, since both halves have the same name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use aead_stream::{DecryptorLE31, EncryptorLE31};
use aes_gcm::aead::{KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key};
use thiserror::Error;
use zeroize::Zeroizing;

const MAGIC: &[u8; 8] = b"vesicao1";
const LEDGER: &str = "used";
const SUFFIX: &str = ".half";
/// Bytes of content per piece.
const PIECE: usize = 1 << 20;
const TAG: usize = 16;
/// Longest header.
const MAX_HEADER: usize = 4096;

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
    /// The header, of which [`Store::verify`] and [`Store::take`] check that nobody has changed it.
    pub header: Vec<u8>,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whether a run has taken this half, of which the file is a copy then.
    pub is_used: bool,
}

impl Store {
    /// Opens a directory, which is created for this user alone if it does not exist.
    ///
    /// # Errors
    /// A directory that cannot be created or read, or that other users may write to.
    pub fn open(directory: &Path, key: Zeroizing<[u8; 32]>) -> Result<Store, StoreError> {
        let store = Store {
            directory: directory.to_owned(),
            key,
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(directory).map_err(|e| store.failed("", e))?;
        let metadata = fs::metadata(directory).map_err(|e| store.failed("", e))?;
        if others_may_write(&metadata) {
            return Err(store.bad("", "other users may write to this directory"));
        }
        Ok(store)
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
    pub fn put(&self, name: Name, header: &[u8], content: &[u8]) -> Result<(), StoreError> {
        assert!(header.len() <= MAX_HEADER);
        let file = file_of(name);
        if self.used()?.contains(&name) || self.path(&file).exists() {
            return Err(self.bad(&file, "the store has or had a half of this name"));
        }
        let part = format!("{file}.part");
        let written = self.write(&part, name, header, content).and_then(|()| {
            fs::rename(self.path(&part), self.path(&file))?;
            self.sync()
        });
        written.map_err(|e| {
            let _ = fs::remove_file(self.path(&part));
            self.failed(&file, e)
        })
    }

    fn write(&self, part: &str, name: Name, header: &[u8], content: &[u8]) -> io::Result<()> {
        let mut file = own_file(OpenOptions::new().write(true).create(true).truncate(true))
            .open(self.path(part))?;
        let head = head(header);
        file.write_all(&head)?;
        let mut encryptor = EncryptorLE31::from_aead(self.cipher(name), &Default::default());
        let full = pieces(content.len()) - 1;
        let sealed = |e: aes_gcm::Error| io::Error::other(e);
        for piece in content.chunks(PIECE).take(full) {
            file.write_all(
                &encryptor
                    .encrypt_next(payload(piece, &head))
                    .map_err(sealed)?,
            )?;
        }
        let last = &content[full * PIECE..];
        file.write_all(
            &encryptor
                .encrypt_last(payload(last, &head))
                .map_err(sealed)?,
        )?;
        file.sync_all()
    }

    /// All files, by name.
    ///
    /// # Errors
    /// A directory that cannot be read, or a file in it that is no half.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let used = self.used()?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(|e| self.failed("", e))? {
            let entry = entry.map_err(|e| self.failed("", e))?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(Ok(name)) = file.strip_suffix(SUFFIX).map(str::parse) else {
                continue;
            };
            let mut opened = self.open_file(&file)?;
            let header = self
                .read_head(&file, &mut opened)?
                .split_off(MAGIC.len() + 4);
            let metadata = opened.metadata().map_err(|e| self.failed(&file, e))?;
            entries.push(Entry {
                name,
                header,
                bytes: metadata.len(),
                is_used: used.contains(&name),
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
        let file = file_of(name);
        if self.used()?.contains(&name) {
            return Err(self.bad(&file, "this half was used before"));
        }
        let taken = self.read(name)?;
        self.note_use(name).map_err(|e| self.failed(LEDGER, e))?;
        // Of two runs that get here, one fails.
        fs::remove_file(self.path(&file)).map_err(|e| self.failed(&file, e))?;
        self.sync().map_err(|e| self.failed("", e))?;
        Ok(taken)
    }

    /// Removes a half that no run can use.
    ///
    /// # Errors
    /// A file that is missing, or that cannot be removed.
    pub fn remove(&self, name: Name) -> Result<(), StoreError> {
        let file = file_of(name);
        fs::remove_file(self.path(&file)).map_err(|e| self.failed(&file, e))
    }

    fn read(&self, name: Name) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), StoreError> {
        let file = file_of(name);
        let io = |e| self.failed(&file, e);
        let changed = |_| self.bad(&file, "damaged, or written by another identity");
        let mut opened = self.open_file(&file)?;
        let mut head = self.read_head(&file, &mut opened)?;
        let length = opened
            .metadata()
            .map_err(io)?
            .len()
            .saturating_sub(head.len() as u64);
        let length = usize::try_from(length).map_err(|_| self.bad(&file, "too long"))?;
        let count = length.div_ceil(PIECE + TAG).max(1);
        let mut content = Zeroizing::new(Vec::with_capacity(length));
        let mut decryptor = DecryptorLE31::from_aead(self.cipher(name), &Default::default());
        let mut piece = Vec::with_capacity(PIECE + TAG);
        let mut next = |piece: &mut Vec<u8>| {
            piece.clear();
            (&mut opened)
                .take((PIECE + TAG) as u64)
                .read_to_end(piece)
                .map_err(io)
        };
        for _ in 1..count {
            next(&mut piece)?;
            let plain = decryptor
                .decrypt_next(payload(&piece, &head))
                .map_err(changed)?;
            content.extend_from_slice(&Zeroizing::new(plain));
        }
        next(&mut piece)?;
        let plain = decryptor
            .decrypt_last(payload(&piece, &head))
            .map_err(changed)?;
        content.extend_from_slice(&Zeroizing::new(plain));
        Ok((head.split_off(MAGIC.len() + 4), content))
    }

    /// Everything before the content.
    fn read_head(&self, file: &str, opened: &mut File) -> Result<Vec<u8>, StoreError> {
        let mut head = vec![0; MAGIC.len() + 4];
        let no_half = || self.bad(file, "no half of prepared correlations, or not whole");
        opened.read_exact(&mut head).map_err(|_| no_half())?;
        let length = head.strip_prefix(MAGIC).ok_or_else(no_half)?;
        let length = length
            .try_into()
            .map(u32::from_le_bytes)
            .map_err(|_| no_half())?;
        if length as usize > MAX_HEADER {
            return Err(no_half());
        }
        let start = head.len();
        head.resize(start + length as usize, 0);
        opened
            .read_exact(&mut head[start..])
            .map_err(|_| no_half())?;
        Ok(head)
    }

    /// The names in the ledger.
    fn used(&self) -> Result<Vec<Name>, StoreError> {
        match fs::read(self.path(LEDGER)) {
            // What a crash left of a name says nothing: its half was not returned.
            Ok(names) => Ok(names.as_chunks().0.iter().copied().map(Name).collect()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(self.failed(LEDGER, e)),
        }
    }

    fn note_use(&self, name: Name) -> io::Result<()> {
        let mut ledger =
            own_file(OpenOptions::new().append(true).create(true)).open(self.path(LEDGER))?;
        // A crash may have left part of a name.
        let torn = ledger.metadata()?.len() % 16;
        if torn != 0 {
            ledger.write_all(&vec![0; 16 - torn as usize])?;
        }
        ledger.write_all(&name.0)?;
        ledger.sync_all()?;
        self.sync()
    }

    fn cipher(&self, name: Name) -> Aes256Gcm {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"vesica/1 half of a pair");
        hasher.update(&name.0);
        let key = Zeroizing::new(*hasher.finalize().as_bytes());
        Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
    }

    fn open_file(&self, file: &str) -> Result<File, StoreError> {
        File::open(self.path(file)).map_err(|e| self.failed(file, e))
    }

    /// Makes what happened to the directory's files last.
    fn sync(&self) -> io::Result<()> {
        match cfg!(unix) {
            true => File::open(&self.directory)?.sync_all(),
            false => Ok(()),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    fn failed(&self, file: &str, cause: io::Error) -> StoreError {
        StoreError::Io {
            path: self.path(file),
            cause,
        }
    }

    fn bad(&self, file: &str, problem: &'static str) -> StoreError {
        StoreError::Bad {
            path: self.path(file),
            problem,
        }
    }
}

fn file_of(name: Name) -> String {
    format!("{name}{SUFFIX}")
}

/// Magic; the length of the header in four bytes, little endian; the header.
fn head(header: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [MAGIC, &length[..], header].concat()
}

fn payload<'a>(msg: &'a [u8], aad: &'a [u8]) -> Payload<'a, 'a> {
    Payload { msg, aad }
}

/// Pieces of a content, at least one.
fn pieces(length: usize) -> usize {
    length.div_ceil(PIECE).max(1)
}

/// For files of this user alone.
fn own_file(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(unix)]
fn others_may_write(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o022 != 0
}

#[cfg(not(unix))]
fn others_may_write(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests;
