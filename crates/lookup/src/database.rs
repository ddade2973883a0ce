//! The private side of a published set: its secret key, and the count of queries.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use vesica_files::{WholeFile, open_regular, private_directory};
use vesica_primitives::sealed::Sealed;
use vesica_session::codec::Reader;
use vesica_session::{Identity, random};
use zeroize::Zeroizing;

use crate::error::{Error, StoreProblem};
use crate::header::Declared;
use crate::ledger::Ledger;
use crate::voprf::{ELEMENT_BYTES, SecretKey};

/// The file of the secret key.
const KEY: &str = "key";
/// The file that one process locks.
const LOCK: &str = "lock";
/// What the file of the key begins with.
const HEAD: &[u8] = b"vesica database 1\n";
/// Most bytes of it.
const MAX_BYTES: u64 = 1 << 16;

/// An open database, which no other process has open.
#[derive(Debug)]
pub struct Database {
    pub(crate) secret: SecretKey,
    pub(crate) declared: Declared,
    pub(crate) ledger: Ledger,
    /// Locked as long as this is open.
    _lock: File,
}

impl Database {
    /// Checks that a database can be made here.
    pub(crate) fn check_new(directory: &Path) -> Result<(), Error> {
        check_private(directory)?;
        match directory.join(KEY).exists() {
            true => Err(Error::store(directory, StoreProblem::Taken)),
            false => Ok(()),
        }
    }

    pub(crate) fn create(
        directory: &Path,
        identity: &Identity,
        secret: &SecretKey,
        declared: &Declared,
    ) -> Result<(), Error> {
        let _lock = lock(directory)?;
        Database::check_new(directory)?;
        let mut content = Zeroizing::new(Vec::with_capacity(MAX_BYTES as usize));
        content.extend_from_slice(&*secret.to_bytes());
        declared.put(&mut content);
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let path = directory.join(KEY);
        let write = || {
            let mut file = WholeFile::create(&path)?;
            file.write_all(HEAD)?;
            file.write_all(&salt)?;
            sealed(identity, &salt).write(HEAD, &content, &mut file)?;
            file.commit()
        };
        write().map_err(|e| Error::io(&path, &e))
    }

    /// Opens the database that this identity has made.
    ///
    /// # Errors
    /// Usage: none is there, or it is in use or not private. Data: it is damaged, or of another identity.
    pub fn open(directory: &Path, identity: &Identity) -> Result<Database, Error> {
        let path = directory.join(KEY);
        if !path.exists() {
            return Err(Error::store(directory, StoreProblem::Empty));
        }
        check_private(directory)?;
        let lock = lock(directory)?;
        let unreadable = || Error::store(directory, StoreProblem::Unreadable(KEY));
        let mut bytes = Vec::new();
        let read =
            open_regular(&path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
        read.map_err(|e| Error::io(&path, &e))?;
        let rest = bytes.strip_prefix(HEAD).ok_or_else(unreadable)?;
        let (salt, mut rest) = rest.split_first_chunk::<32>().ok_or_else(unreadable)?;
        let length = rest.len() as u64;
        let content = sealed(identity, salt).read(HEAD, length, &mut rest);
        let content = content.map_err(|_| unreadable())?;
        let parsed = parse(&content).map_err(|_| unreadable())?;
        let (secret, declared) = parsed.ok_or_else(unreadable)?;
        let ledger = Ledger::open(directory, identity, declared.queries)?;
        Ok(Database {
            secret,
            declared,
            ledger,
            _lock: lock,
        })
    }

    /// What was declared when the set was published.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Queries that all clients together have made.
    pub fn answered(&self) -> u64 {
        self.ledger.answered()
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

fn parse(content: &[u8]) -> Result<Option<(SecretKey, Declared)>, vesica_wire::Error> {
    let mut reader = Reader::new("database", content);
    let secret: Zeroizing<[u8; ELEMENT_BYTES]> = Zeroizing::new(reader.array()?);
    let declared = Declared::read(&mut reader)?;
    reader.end()?;
    let secret = SecretKey::from_bytes(&secret);
    Ok(secret.map(|secret| (secret, declared)))
}

fn sealed(identity: &Identity, salt: &[u8; 32]) -> Sealed {
    let key = identity.derive_key("vesica/1 database of a published set");
    Sealed::new(&key, &[b"key", salt])
}

/// Fails if other users can change what is in the directory, which is made if it is not there.
pub(crate) fn check_private(directory: &Path) -> Result<(), Error> {
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

/// Locks the directory for this process.
pub(crate) fn lock(directory: &Path) -> Result<File, Error> {
    let path: PathBuf = directory.join(LOCK);
    let open = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        options.open(&path)
    };
    let file = open().map_err(|e| Error::io(&path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::store(directory, StoreProblem::InUse)),
        Err(std::fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(std::fs::TryLockError::Error(e)) => Err(Error::io(&path, &e)),
    }
}
