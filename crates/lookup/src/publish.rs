//! Publishing: the values of keys, and the files of their masks.

use std::collections::HashMap;
use std::fs::remove_file;
use std::path::{Path, PathBuf};

use vesica_files::directory_of;
use vesica_primitives::parallel;
use vesica_primitives::voprf::{Element, SecretKey};
use vesica_session::{Fingerprint, Identity, random};

use crate::database::{Contents, Held, Last, Making, PUBLISHING, check_published, place_of};
use crate::error::{Error, Holder, SetProblem, StoreProblem};
use crate::header::{Declared, Header, MODE, Value};
use crate::journal::{Found, Journal, Secrets};
use crate::masks::{Entry, Masks};
use crate::set::{
    PublishedSet, check_replaceable, header_at, later_releases, problem_of_first, release_path,
    write_release,
};

/// Keys that a thread evaluates at once.
const AT_ONCE: usize = 256;

/// The values of digests, on all threads.
fn evaluate(secret: &SecretKey, digests: &[[u8; 32]]) -> Vec<Value> {
    let values = parallel::map(digests.chunks(AT_ONCE), |digests| {
        let inputs: Vec<&[u8]> = digests.iter().map(|digest| &digest[..]).collect();
        secret.evaluate(MODE, &inputs)
    });
    values.concat()
}

fn fresh_salt() -> Result<[u8; 32], Error> {
    let mut salt = [0; 32];
    random::fill(&mut salt)?;
    Ok(salt)
}

/// What a set is made of.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// How many keys.
    pub keys: u64,
    /// A hash of their digests and payloads.
    pub hash: [u8; 32],
}

/// What an earlier publication has left in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing.
    Nothing,
    /// The values of so many keys: it was this very publication, which was cut.
    Begun(u64),
    /// What is of no use: it was of other keys, payloads or declarations, or of another identity. It is removed.
    Another,
}

/// Whether a publication was begun in this database and cut, so that the same one goes on with it.
pub fn has_begun(database: &Path) -> bool {
    Journal::is_in(database)
}

/// A first release that is being made, under a fresh key.
pub struct SetBuilder {
    making: Making,
    journal: Journal,
    earlier: Earlier,
    identity: Identity,
    secret: SecretKey,
    header: Header,
    masks: Masks,
    output: PathBuf,
    added: u64,
}

impl SetBuilder {
    /// A set in the file `output`, whose secret key goes to the database in this directory: to a new one, or to one whose key
    /// it replaces. What does not fit into `memory` bytes goes to unnamed files beside the set. Goes on with what was cut if
    /// content and declarations are the same.
    ///
    /// # Errors
    /// Usage: impossible declarations, more keys than declared, a file there that is no set of this publisher or another
    /// database's, one beside it with the name of a later release, a directory that is not private, has a key that is not to be
    /// replaced, or is in use. Data: a key to replace that is another identity's, or
    /// a copy of what was cut.
    pub fn new(
        database: &Path,
        identity: &Identity,
        declared: Declared,
        content: Content,
        replaces: bool,
        memory: u64,
        output: &Path,
    ) -> Result<SetBuilder, Error> {
        let keys = content.keys;
        if let Some(problem) = declared.problem() {
            return Err(Error::Usage(problem.into()));
        }
        if keys > declared.max_keys {
            let most = declared.max_keys;
            return Err(Error::TooManyKeys { keys, most });
        }
        if keys == 0 {
            return Err(Error::Usage("a set without keys is not published".into()));
        }
        check_replaceable(output, identity.fingerprint())?;
        let making = Making::begin(database, identity, replaces)?;
        let payload = declared.payload_bytes as usize;
        let mut masks = Masks::new(directory_of(output), declared.width(), payload, memory)?;
        let of = publication(&declared, content, replaces);
        let found = Journal::open(database, identity, &of)?;
        let is_in_place = |last: &Last| {
            let set = PublishedSet::open(output, identity.fingerprint());
            set.is_ok_and(|set| set.header().hash() == last.hash)
        };
        let found = usable(found, &making, replaces, is_in_place)?;
        if let Found::Ours(ours) = &found {
            making.check_unfinished(&ours.1.secret, output, identity)?;
        }
        let coming = match &found {
            Found::Ours(ours) => Some(ours.1.secret.public_key()),
            _ => None,
        };
        let publisher = identity.fingerprint();
        replaced(&making, coming.as_ref(), output, publisher)?;
        let (journal, secrets, earlier) = match found {
            Found::Ours(ours) => {
                let (mut journal, secrets) = *ours;
                let done = journal.replay(payload, |mask, payload| masks.push(mask, payload))?;
                (journal, secrets, Earlier::Begun(done))
            }
            other => {
                let secrets = Secrets::random()?;
                let journal = Journal::create(database, identity, &of, &secrets)?;
                let earlier = match other {
                    Found::Another => Earlier::Another,
                    _ => Earlier::Nothing,
                };
                (journal, secrets, earlier)
            }
        };
        let id = making.id(&secrets.secret.public_key());
        Ok(SetBuilder {
            making,
            journal,
            earlier,
            identity: identity.clone(),
            header: Header {
                publisher: identity.public_key(),
                oprf_key: secrets.secret.public_key(),
                release: 1,
                previous: id,
                salt: secrets.salt,
                declared,
                keys,
                added: keys,
                removed: 0,
                root: [0; 32],
            },
            secret: secrets.secret,
            masks,
            output: output.to_owned(),
            added: 0,
        })
    }

    /// What was there of an earlier publication.
    pub fn earlier(&self) -> Earlier {
        self.earlier
    }

    /// Adds digests of keys in ascending order, each of which is added once, and the payloads of all, one after the other. On
    /// all threads. What an earlier publication has evaluated is passed over.
    ///
    /// # Errors
    /// Usage or Resource: a temporary file or the journal cannot be written.
    ///
    /// # Panics
    /// If there are not as many payloads as digests.
    pub fn add(&mut self, digests: &[[u8; 32]], payloads: &[u8]) -> Result<(), Error> {
        let payload = self.header.declared.payload_bytes as usize;
        assert_eq!(payloads.len(), payload * digests.len());
        let done = match self.earlier {
            Earlier::Begun(done) => done.saturating_sub(self.added),
            Earlier::Nothing | Earlier::Another => 0,
        };
        self.added += digests.len() as u64;
        let done = done.min(digests.len() as u64) as usize;
        let (digests, payloads) = (&digests[done..], &payloads[payload * done..]);
        if digests.is_empty() {
            return Ok(());
        }
        let SetBuilder { secret, header, .. } = self;
        let values = evaluate(secret, digests);
        let mut entries = vec![Entry::default(); values.len()];
        parallel::each_item(&mut entries, |index, entry| {
            let mut sealed = payloads[index * payload..][..payload].to_vec();
            header.xor_payload(&values[index], &mut sealed);
            *entry = (header.mask(&values[index]), sealed);
        });
        self.journal.append(&entries)?;
        let mut entries = entries.iter();
        let added = entries.try_for_each(|(mask, payload)| self.masks.push(*mask, payload));
        Ok(added?)
    }

    /// Writes the set and its database. Later releases of the set that it replaces are removed.
    ///
    /// # Errors
    /// Usage or Resource: a file cannot be written, or a file has come that is not to be replaced. The set is complete or not
    /// there.
    ///
    /// # Panics
    /// If other than the declared number of keys was added.
    pub fn finish(self) -> Result<Header, Error> {
        assert_eq!(self.added, self.header.keys);
        let output = &*self.output;
        let none = Masks::new(directory_of(output), self.header.declared.width(), 0, 0)?;
        let masks = [self.masks, none];
        let (header, file) = write_release(output, &self.identity, self.header, masks)?;
        let fail = |e| Error::io(output, &e);
        let (key, publisher) = (&header.oprf_key, self.identity.fingerprint());
        let later = replaced(&self.making, Some(key), output, publisher)?;
        // A set whose key is lost could never be asked about.
        self.making
            .finish(&self.identity, self.secret, &header, output)?;
        for path in later {
            remove_file(&path).map_err(|e| Error::io(&path, &e))?;
        }
        file.commit_for_good().map_err(fail)?;
        self.making.forget_others(key)?;
        self.journal.remove()?;
        Ok(header)
    }
}

/// The files of later releases that go with the set whose place a first release takes, which is the database's own.
///
/// Fails if another's set is there, or a file beside it that would count as a later release of the `coming` key's.
fn replaced(
    making: &Making,
    coming: Option<&Element>,
    output: &Path,
    publisher: Fingerprint,
) -> Result<Vec<PathBuf>, Error> {
    let refuse = |path: &Path| Err(Error::set(path, SetProblem::NotReplaced));
    if let Some(header) = header_at(output, publisher) {
        if let Some(problem) = problem_of_first(output, header.release) {
            return Err(Error::set(output, problem));
        }
        if !making.had_key(&header.oprf_key) {
            return refuse(output);
        }
    }
    let mut later = Vec::new();
    for release in later_releases(output).map_err(|e| Error::io(output, &e))? {
        let path = release_path(output, release);
        check_replaceable(&path, publisher)?;
        let goes = header_at(&path, publisher).is_some_and(|header| {
            let key = &header.oprf_key;
            header.release == release && making.had_key(key) && Some(key) != coming
        });
        if !goes {
            return refuse(&path);
        }
        later.push(path);
    }
    Ok(later)
}

/// What tells a publication from others.
fn publication(declared: &Declared, content: Content, replaces: bool) -> [u8; 32] {
    let mut of = vec![u8::from(replaces)];
    of.extend_from_slice(&content.keys.to_le_bytes());
    of.extend_from_slice(&content.hash);
    declared.put(&mut of);
    blake3::derive_key("vesica/1 which publication", &of)
}

/// What of a journal a publication goes on with, given what is in the database.
fn usable(
    found: Found,
    making: &Making,
    replaces: bool,
    is_in_place: impl FnOnce(&Last) -> bool,
) -> Result<Found, Error> {
    let Some(current) = &making.current else {
        return Ok(found);
    };
    let taken = Err(Error::store(&making.directory, StoreProblem::Taken));
    match found {
        // Cut after its key was made, and perhaps after its set was in its place.
        Found::Ours(ours) if ours.1.secret.public_key() == current.secret.public_key() => {
            match current.last.release > 1 || replaces && is_in_place(&current.last) {
                false => Ok(Found::Ours(ours)),
                // The next key is asked for.
                true if replaces => Ok(Found::Nothing),
                true => taken,
            }
        }
        found if replaces => Ok(found),
        _ => taken,
    }
}

/// A later release that is being made: what comes to a set and leaves it.
pub struct Update {
    directory: PathBuf,
    identity: Identity,
    contents: Contents,
    set: PublishedSet,
    path: PathBuf,
    header: Header,
    /// Masks to take out, and whether they are in the set.
    withdrawn: HashMap<u128, bool>,
    masks: Masks,
    /// Bytes of memory for masks to sort.
    memory: u64,
    /// As long as this is open.
    _held: Held,
}

impl Update {
    /// Of the set in this file and those beside it, which this identity has published from this database; that may be served
    /// meanwhile. What does not fit into `memory` bytes goes to unnamed files beside the set. A release that a crash has left
    /// between its file and the database counts as published.
    ///
    /// # Errors
    /// Usage: no database is there, it is not private, or another process publishes. Data: it is another identity's or older
    /// than the files, or these are not what it has published last.
    pub fn new(
        database: &Path,
        identity: &Identity,
        set: &Path,
        memory: u64,
    ) -> Result<Update, Error> {
        let path = set;
        check_published(database)?;
        let held = Held::take(database, &[(PUBLISHING, Holder::Publisher)])?;
        let mut contents = Contents::read(database, identity)?;
        let set =
            PublishedSet::open(path, identity.fingerprint()).map_err(|error| match error {
                // A set of somebody else is none of this database.
                Error::Set {
                    path,
                    problem: SetProblem::OtherPublisher { .. },
                } => Error::set(&path, SetProblem::NotLast(contents.last.release)),
                error => error,
            })?;
        contents.check(database, &set)?;
        let header = set.header().clone();
        if let Some(coming) = contents.coming.take()
            && coming.hash == header.hash()
        {
            contents.last = coming;
            contents.write(database, identity)?;
        }
        let (width, payload) = (
            header.declared.width(),
            header.declared.payload_bytes as usize,
        );
        Ok(Update {
            directory: database.to_owned(),
            identity: identity.clone(),
            masks: Masks::new(directory_of(path), width, payload, memory)?,
            header: Header {
                release: header.release + 1,
                previous: header.hash(),
                salt: fresh_salt()?,
                added: 0,
                removed: 0,
                root: [0; 32],
                ..header
            },
            contents,
            set,
            path: path.to_owned(),
            withdrawn: HashMap::new(),
            memory,
            _held: held,
        })
    }

    /// What was declared when the set was first published.
    pub fn declared(&self) -> &Declared {
        &self.header.declared
    }

    /// Removes keys with these digests, each given once; those that are not in the set are passed over. All that leaves is
    /// said before anything comes. Returns how many leave.
    ///
    /// # Errors
    /// Data: a damaged block. Usage: a file cannot be read.
    pub fn remove(&mut self, digests: &[[u8; 32]]) -> Result<u64, Error> {
        let values = evaluate(&self.contents.secret, digests);
        let masks: Vec<u128> = values.iter().map(|value| self.header.mask(value)).collect();
        let found = masks.iter().zip(self.set.find(&masks)?);
        let mut gone = 0;
        for (mask, found) in found {
            gone += u64::from(found.is_some());
            self.withdrawn.insert(*mask, found.is_some());
        }
        self.header.removed += gone;
        Ok(gone)
    }

    /// Adds keys with these digests, each given once, and the payloads of all, one after the other; those that are in the set
    /// with the same payload are passed over. Returns how many come new, and how many get another payload.
    ///
    /// # Errors
    /// Usage: more keys than declared, one that is removed too, or a file that cannot be read or written. Data: a damaged block.
    ///
    /// # Panics
    /// If there are not as many payloads as digests.
    pub fn add(&mut self, digests: &[[u8; 32]], payloads: &[u8]) -> Result<(u64, u64), Error> {
        let payload = self.header.declared.payload_bytes as usize;
        assert_eq!(payloads.len(), payload * digests.len());
        let values = evaluate(&self.contents.secret, digests);
        let masks: Vec<u128> = values.iter().map(|value| self.header.mask(value)).collect();
        let found = self.set.find(&masks)?;
        let (mut new, mut changed) = (0, 0);
        for (index, (value, found)) in values.iter().zip(found).enumerate() {
            let mask = masks[index];
            if self.withdrawn.contains_key(&mask) {
                return Err(Error::Usage("a key is to be added and removed".into()));
            }
            let mut sealed = payloads[index * payload..][..payload].to_vec();
            match self.set.payload(value, found) {
                Some(before) if before == sealed => continue,
                Some(_) => changed += 1,
                None => new += 1,
            }
            self.header.xor_payload(value, &mut sealed);
            self.masks.push(mask, &sealed)?;
        }
        self.header.keys += new;
        self.header.added += new + changed;
        let (keys, most) = (self.masks(), self.header.declared.max_keys);
        match keys > most {
            true => Err(Error::NoRoom { keys, most }),
            false => Ok((new, changed)),
        }
    }

    /// Keys that were ever published under the key, those that come included.
    fn masks(&self) -> u64 {
        self.contents.last.masks + self.header.keys - self.set.header().keys
    }

    /// How many more keys could come.
    pub fn room(&self) -> u64 {
        self.header.declared.max_keys.saturating_sub(self.masks())
    }

    /// Publishes what was added and removed; returns the header of the new release, and its file, if anything was.
    ///
    /// # Errors
    /// Usage or Resource: a file cannot be written. The release is complete or not there.
    pub fn finish(mut self) -> Result<Option<(Header, PathBuf)>, Error> {
        self.header.keys -= self.header.removed;
        if self.header.added + self.header.removed == 0 {
            return Ok(None);
        }
        let path = release_path(&self.path, self.header.release);
        let width = self.header.declared.width();
        let mut removed = Masks::new(directory_of(&path), width, 0, self.memory)?;
        let gone = self.withdrawn.into_iter().filter(|(_, is_there)| *is_there);
        for (mask, _) in gone {
            removed.push(mask, &[])?;
        }
        let masks = [self.masks, removed];
        let (header, file) = write_release(&path, &self.identity, self.header, masks)?;
        let next = self.contents.last.then(self.set.header(), &header);
        self.contents.set = place_of(&self.path);
        // The file has its name only once the database knows of it: one that does not was restored from a copy. After a crash
        // in between the next update finds the release beside the set, or forgets it.
        self.contents.coming = Some(next.clone());
        self.contents.write(&self.directory, &self.identity)?;
        file.commit_for_good().map_err(|e| Error::io(&path, &e))?;
        (self.contents.last, self.contents.coming) = (next, None);
        self.contents.write(&self.directory, &self.identity)?;
        Ok(Some((header, path)))
    }
}

#[cfg(test)]
mod tests;
