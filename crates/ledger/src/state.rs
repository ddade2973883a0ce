//! What a ledger needs outside of its file: which entry was the last, and the keys of tables that were answered about.
//!
//! Below the directory of a user there is for each ledger, by its random name,
//! - `NAME.last`: number and hash of the last entry that was written, and the length of the file then;
//! - `at-HASH`: the name of the ledger that was in the file whose path has this hash;
//! - `NAME.key`: the key of the hashes of keys;
//! - `NAME.N.keys` and `NAME.N.secret`: the hashes of the table of entry N, encrypted, and the key to that.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use vesica_files::{PrivateFile, directory_of, keep_name, read_regular};
use zeroize::Zeroizing;

use crate::entry::hash;
use crate::own_keys::KEY_BYTES;
use crate::rules::time;
use crate::{Book, Error, KeysKept, OwnKeys, Problem};

/// The most bytes of a mark.
const MAX_MARK: u64 = 256;

/// What was written last.
pub(crate) struct Mark {
    pub(crate) number: u64,
    pub(crate) hash: String,
    pub(crate) length: u64,
    /// Until when keys of tables are kept at least, if some are.
    pub(crate) until: Option<String>,
}

impl Mark {
    /// Whether keys of a table have been kept for long enough.
    pub(crate) fn is_past(&self, now: SystemTime) -> bool {
        let until = self.until.as_deref().map(time);
        until.is_some_and(|until| until.is_none_or(|until| until < now))
    }

    fn of(text: &str) -> Option<Mark> {
        let mut words = text.split_whitespace();
        let mark = Mark {
            number: words.next()?.parse().ok()?,
            hash: words.next()?.to_owned(),
            length: words.next()?.parse().ok()?,
            until: words.next().map(str::to_owned),
        };
        words.next().is_none().then_some(mark)
    }
}

/// Where it is said which ledger is in a file.
fn place_of(path: &Path, directory: &Path) -> Result<PathBuf, Error> {
    let parent = fs::canonicalize(directory_of(path)).map_err(Error::io(path))?;
    let path = parent.join(path.file_name().unwrap_or_default());
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes());
    Ok(directory.join(format!("at-{}", &hash.to_hex()[..32])))
}

/// The place outside of a ledger's file.
pub(crate) struct State<'a> {
    /// The ledger.
    path: &'a Path,
    directory: &'a Path,
    name: String,
}

impl<'a> State<'a> {
    pub(crate) fn new(path: &'a Path, directory: &'a Path, book: &Book) -> State<'a> {
        State::named(path, directory, book.name().to_owned())
    }

    pub(crate) fn named(path: &'a Path, directory: &'a Path, name: String) -> State<'a> {
        State {
            path,
            directory,
            name,
        }
    }

    fn file(&self, what: &str) -> PathBuf {
        self.directory.join(format!("{}.{what}", self.name))
    }

    /// What was written last, if anything was.
    pub(crate) fn last(&self) -> Result<Option<Mark>, Error> {
        let path = self.file("last");
        let bytes = match read_regular(&path, MAX_MARK) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(&path)(e)),
        };
        let text = String::from_utf8(bytes).unwrap_or_default();
        let mark = Mark::of(&text);
        mark.map(Some)
            .ok_or_else(|| Error::of(self.path, Problem::BadMark(path)))
    }

    /// Compares a ledger with what was written last. Returns whether anything was.
    pub(crate) fn check(&self, book: &Book) -> Result<bool, Error> {
        let problem = |problem| Err(Error::of(self.path, problem));
        let Some(Mark { number, hash, .. }) = self.last()? else {
            // The key goes with a mark, which somebody has removed.
            return match self.file("key").exists() {
                true => problem(Problem::BadMark(self.file("last"))),
                false => Ok(false),
            };
        };
        let entry = usize::try_from(number).ok();
        match entry.and_then(|entry| book.entries().get(entry)) {
            None => problem(Problem::Older {
                has: book.count().saturating_sub(1),
                last: number,
            }),
            Some(entry) if entry.hash != hash => problem(Problem::Other(number)),
            Some(_) => Ok(true),
        }
    }

    /// Keeps which entry is the last, in a file of this length, and until when keys of tables are kept at least.
    pub(crate) fn mark(
        &self,
        book: &Book,
        length: u64,
        until: Option<String>,
    ) -> Result<(), Error> {
        let number = book.count().saturating_sub(1);
        let until = until.map_or_else(String::new, |until| format!(" {until}"));
        let line = format!("{number} {} {length}{until}\n", book.head());
        write(&self.file("last"), line.as_bytes())
    }

    /// The name of the ledger that was in this file, if one was that is known here.
    pub(crate) fn name_at(path: &Path, directory: &Path) -> Result<Option<String>, Error> {
        let place = place_of(path, directory)?;
        match read_regular(&place, MAX_MARK) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&place)(e)),
        }
    }

    /// Whether no other ledger is known to be in the file.
    pub(crate) fn may_be_here(&self) -> Result<bool, Error> {
        let name = State::name_at(self.path, self.directory)?;
        Ok(name.is_none_or(|name| name == self.name))
    }

    /// Keeps that the ledger is in its file.
    pub(crate) fn is_here(&self) -> Result<(), Error> {
        let place = place_of(self.path, self.directory)?;
        match State::name_at(self.path, self.directory)? {
            Some(name) if name == self.name => Ok(()),
            _ => write(&place, self.name.as_bytes()),
        }
    }

    /// Erases what was kept of tables for long enough, and what no entry names.
    pub(crate) fn erase_but(&self, kept: &BTreeSet<u64>) -> Result<(), Error> {
        let files = fs::read_dir(self.directory).map_err(Error::io(self.directory))?;
        let start = format!("{}.", self.name);
        for file in files {
            let name = file.map_err(Error::io(self.directory))?.file_name();
            let name = name.to_string_lossy();
            let number = name.strip_prefix(&start).and_then(|rest| {
                let (number, what) = rest.split_once('.')?;
                let number: u64 = number.parse().ok()?;
                matches!(what, "keys" | "secret").then_some(number)
            });
            if let Some(number) = number.filter(|number| !kept.contains(number)) {
                self.erase(number)?;
            }
        }
        Ok(())
    }

    /// The key of the hashes of keys, which is made if there is none.
    pub(crate) fn hash_key(&self) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
        let path = self.file("key");
        match read_key(&path)? {
            Some(key) => Ok(key),
            None => {
                let key = random_key(&path)?;
                write(&path, &*key)?;
                Ok(key)
            }
        }
    }

    /// Keeps the keys of the table of an entry that is about to be written, until this time.
    pub(crate) fn keep(
        &self,
        number: u64,
        keys: &OwnKeys,
        until: String,
    ) -> Result<KeysKept, Error> {
        let (content, secret) = self.of_entry(number);
        let key = random_key(&secret)?;
        let bytes = keys.seal(&key, number).map_err(Error::io(&content))?;
        write(&secret, &*key)?;
        write(&content, &bytes)?;
        Ok(KeysKept {
            sha256: hash(&bytes),
            under: keys.under.clone(),
            until,
        })
    }

    /// The keys of the table of an entry, which says this of them; `None` if they are gone, or are others.
    pub(crate) fn kept(&self, number: u64, kept: &KeysKept) -> Result<Option<OwnKeys>, Error> {
        let (content, secret) = self.of_entry(number);
        let bytes = match fs::read(&content) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io(&content)(e)),
        };
        let is_same = hash(&bytes) == kept.sha256;
        let key = read_key(&secret)?.filter(|_| is_same);
        Ok(key.and_then(|key| OwnKeys::unseal(&key, (number, &kept.under), &bytes)))
    }

    /// Erases the keys of the table of an entry.
    fn erase(&self, number: u64) -> Result<(), Error> {
        let (content, secret) = self.of_entry(number);
        for path in [secret, content] {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(&path)(e)),
                _ => {}
            }
        }
        Ok(())
    }

    fn of_entry(&self, number: u64) -> (PathBuf, PathBuf) {
        let file = |what| self.file(&format!("{number}.{what}"));
        (file("keys"), file("secret"))
    }
}

/// Writes a file of this user alone in the place of what is there; it is on the disk when this returns.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = PrivateFile::create(path)?;
        file.write_all(bytes)?;
        file.replace()?;
        keep_name(path)
    };
    write().map_err(Error::io(path))
}

fn read_key(path: &Path) -> Result<Option<Zeroizing<[u8; KEY_BYTES]>>, Error> {
    let bytes = match read_regular(path, KEY_BYTES as u64) {
        Ok(bytes) => Zeroizing::new(bytes),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(path)(e)),
    };
    let key = <[u8; KEY_BYTES]>::try_from(&bytes[..]);
    Ok(key.ok().map(Zeroizing::new))
}

fn random_key(path: &Path) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let drawn = getrandom::fill(&mut *key).map_err(io::Error::other);
    drawn.map_err(Error::io(path))?;
    Ok(key)
}
