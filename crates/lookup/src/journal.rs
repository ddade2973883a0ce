//! What a publication has computed so far, so that the same one, run again after a failure, goes on from there.
//!
//! A file of the database, from the first key on until the set is in its place:
//!
//! ```text
//! "vesica publishing 2\n" │ salt, 32 │ records, each after its length, 4
//! ```
//!
//! The first record says which publication and which file this is, and has the publication's secret key and the salt of its
//! payloads. A copy is another file: the publication may have ended since it was made, and its key have answered questions
//! that a database made from the copy would not count. Each of the other records
//! has masks and encrypted payloads of the keys that come next in ascending order of their digests. All are encrypted under
//! the publisher's identity: the order of the masks is that of the digests, which would say something of the keys. A record
//! is on the disk before the next keys are evaluated. What a crash has left of the last one is no record, and is cut off.

use std::fs::{File, remove_file};
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use vesica_files::{FileId, PrivateFile, keep_name, sync_name};
use vesica_primitives::sealed::{Sealed, Unreadable};
use vesica_primitives::voprf::{ELEMENT_BYTES, SecretKey};
use vesica_session::codec::Reader;
use vesica_session::{Identity, random};
use zeroize::Zeroizing;

use crate::error::{Error, StoreProblem};
use crate::header::MASK_BYTES;
use crate::masks::Entry;

const FILE: &str = "publishing-journal";
const MAGIC: &[u8; 20] = b"vesica publishing 2\n";

/// What a set is made under.
pub(crate) struct Secrets {
    pub(crate) secret: SecretKey,
    /// That of the first release's payloads.
    pub(crate) salt: [u8; 32],
}

impl Secrets {
    pub(crate) fn random() -> Result<Secrets, Error> {
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        Ok(Secrets {
            secret: SecretKey::random(&mut random::fresh_rng()?),
            salt,
        })
    }

    /// Those of the first record of a journal, if it is that of this publication, and the file that it was written to.
    fn read(first: &[u8], of: &[u8; 32]) -> Option<(Secrets, FileId)> {
        let mut reader = Reader::new(FILE, first);
        let found: [u8; 32] = reader.array().ok()?;
        let file = FileId::from_bytes(&reader.array().ok()?);
        let secret: Zeroizing<[u8; ELEMENT_BYTES]> = Zeroizing::new(reader.array().ok()?);
        let salt = reader.array().ok()?;
        reader.end().ok()?;
        let secret = SecretKey::from_bytes(&secret).filter(|_| found == *of)?;
        Some((Secrets { secret, salt }, file))
    }
}

/// The journal of a publication, open at its end.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    seals: Seals,
    /// Records so far.
    records: u64,
}

/// What is found in a database.
pub(crate) enum Found {
    /// No journal.
    Nothing,
    /// That of another publication, or one that cannot be read.
    Another,
    /// That of this publication, with what its set is made under.
    Ours(Box<(Journal, Secrets)>),
}

/// The keys of the records of one journal.
struct Seals {
    key: Zeroizing<[u8; 32]>,
    salt: [u8; 32],
}

impl Seals {
    fn new(identity: &Identity, salt: [u8; 32]) -> Seals {
        let key = identity.derive_key("vesica/1 journal of a publication");
        Seals { key, salt }
    }

    fn of(&self, number: u64) -> Sealed {
        Sealed::new(&self.key, &[b"record", &self.salt, &number.to_le_bytes()])
    }

    /// A record after its length.
    fn seal(&self, number: u64, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut record = vec![0; 4];
        self.of(number).write(MAGIC, content, &mut record)?;
        let length = u32::try_from(record.len() - 4).map_err(io::Error::other)?;
        record[..4].copy_from_slice(&length.to_le_bytes());
        Ok(record)
    }

    /// The next record; `None` if what is left is none.
    fn open(&self, number: u64, input: &mut impl Read) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        let mut length = [0; 4];
        match input.read_exact(&mut length) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let length = u32::from_le_bytes(length).into();
        match self.of(number).read(MAGIC, length, &mut input.take(length)) {
            Ok(content) => Ok(Some(content)),
            Err(Unreadable::Io(e)) => Err(e),
            Err(_) => Ok(None),
        }
    }
}

impl Journal {
    pub(crate) fn path(database: &Path) -> PathBuf {
        database.join(FILE)
    }

    /// Whether a publication has begun in this database and did not end.
    pub(crate) fn is_in(database: &Path) -> bool {
        Journal::path(database).is_file()
    }

    /// Begins that of a publication, which `of` tells from others, in place of any other.
    pub(crate) fn create(
        database: &Path,
        identity: &Identity,
        of: &[u8; 32],
        secrets: &Secrets,
    ) -> Result<Journal, Error> {
        let path = Journal::path(database);
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let seals = Seals::new(identity, salt);
        let key = secrets.secret.to_bytes();
        let create = || {
            let mut file = PrivateFile::create(&path)?;
            let id = file.id()?.to_bytes();
            let content = Zeroizing::new([&of[..], &id, &*key, &secrets.salt].concat());
            file.write_all(MAGIC)?;
            file.write_all(&salt)?;
            file.write_all(&seals.seal(0, &content)?)?;
            file.replace()?;
            keep_name(&path)?;
            File::options().append(true).open(&path)
        };
        Ok(Journal {
            file: create().map_err(|e| Error::io(&path, &e))?,
            path,
            seals,
            records: 1,
        })
    }

    /// Opens what is in a database, at its first record.
    ///
    /// Fails with [`StoreProblem::CopiedJournal`] if it is a copy of that of this publication.
    pub(crate) fn open(
        database: &Path,
        identity: &Identity,
        of: &[u8; 32],
    ) -> Result<Found, Error> {
        let path = Journal::path(database);
        let mut is_copied = false;
        let mut open = || -> io::Result<Found> {
            let mut file = match File::options().read(true).append(true).open(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
                opened => opened?,
            };
            let (mut magic, mut salt) = ([0; MAGIC.len()], [0; 32]);
            let head = file.read_exact(&mut magic);
            match head.and_then(|()| file.read_exact(&mut salt)) {
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(Found::Another),
                read => read?,
            }
            let seals = Seals::new(identity, salt);
            if magic != *MAGIC {
                return Ok(Found::Another);
            }
            let first = seals.open(0, &mut file)?;
            let Some((secrets, id)) = first.and_then(|first| Secrets::read(&first, of)) else {
                return Ok(Found::Another);
            };
            is_copied = id != FileId::of(&file)?;
            let journal = Journal {
                path: path.clone(),
                file,
                seals,
                records: 1,
            };
            Ok(Found::Ours(Box::new((journal, secrets))))
        };
        let found = open().map_err(|e| Error::io(&path, &e))?;
        match is_copied {
            true => Err(Error::store(database, StoreProblem::CopiedJournal)),
            false => Ok(found),
        }
    }

    /// Hands over all entries of a journal that was just opened, with payloads of so many bytes; returns how many there are.
    pub(crate) fn replay(
        &mut self,
        payload: usize,
        mut each: impl FnMut(u128, &[u8]) -> vesica_keys::Result<()>,
    ) -> Result<u64, Error> {
        let fail = |e: io::Error| Error::io(&self.path, &e);
        let (mut end, mut entries) = (self.file.stream_position().map_err(fail)?, 0);
        let mut input = BufReader::new(&self.file);
        while let Some(content) = self.seals.open(self.records, &mut input).map_err(fail)? {
            for entry in content.chunks_exact(MASK_BYTES + payload) {
                let (mask, payload) = entry.split_first_chunk().expect("a mask");
                each(u128::from_le_bytes(*mask), payload)?;
                entries += 1;
            }
            self.records += 1;
            end = input.stream_position().map_err(fail)?;
        }
        self.file.set_len(end).map_err(fail)?;
        Ok(entries)
    }

    /// Adds entries, which are on the disk when this returns.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let mut content = Vec::new();
        for (mask, payload) in entries {
            content.extend_from_slice(&mask.to_le_bytes());
            content.extend_from_slice(payload);
        }
        let mut append = || {
            let record = self.seals.seal(self.records, &content)?;
            self.file.write_all(&record)?;
            self.file.sync_data()
        };
        append().map_err(|e| Error::io(&self.path, &e))?;
        self.records += 1;
        Ok(())
    }

    /// Removes it: its publication has ended. If a crash brings it back, there is nothing left to do.
    pub(crate) fn remove(self) -> Result<(), Error> {
        remove_file(&self.path).map_err(|e| Error::io(&self.path, &e))?;
        sync_name(&self.path);
        Ok(())
    }
}
