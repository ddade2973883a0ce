//! Publishing: the values of keys, and the files of their masks.

use std::collections::HashMap;
use std::fs::{File, remove_file};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use vesica_files::directory_of;
use vesica_session::{Identity, random};

use crate::database::{Contents, Making, PUBLISHING, check_private, lock};
use crate::error::{Error, SetProblem};
use crate::header::{Declared, Header, MODE, Value};
use crate::set::{PublishedSet, is_release, later_releases, release_path, write_release};
use crate::sort::Sorter;
use crate::voprf::SecretKey;

/// Keys that a thread evaluates at once.
const AT_ONCE: usize = 256;

/// The values of digests, on all threads.
fn evaluate(secret: &SecretKey, digests: &[[u8; 32]]) -> Vec<Value> {
    let values = digests.par_chunks(AT_ONCE).flat_map_iter(|digests| {
        let inputs: Vec<&[u8]> = digests.iter().map(|digest| &digest[..]).collect();
        secret.evaluate(MODE, &inputs)
    });
    values.collect()
}

fn fresh_salt() -> Result<[u8; 32], Error> {
    let mut salt = [0; 32];
    random::fill(&mut salt)?;
    Ok(salt)
}

/// A first release that is being made, under a fresh key.
pub struct SetBuilder {
    making: Making,
    identity: Identity,
    secret: SecretKey,
    header: Header,
    sorter: Sorter,
    scratch: PathBuf,
    added: u64,
}

impl SetBuilder {
    /// A set of so many keys, whose secret key goes to the database in this directory: to a new one, or to one whose key it
    /// replaces. What does not fit into `memory` bytes goes to unnamed files in `scratch`.
    ///
    /// # Errors
    /// Usage: impossible declarations, more keys than declared, a directory that is not private, has a key that is not to
    /// be replaced, or is in use. Data: a key to replace that is another identity's.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        database: &Path,
        identity: &Identity,
        declared: Declared,
        keys: u64,
        replaces: bool,
        memory: u64,
        scratch: &Path,
    ) -> Result<SetBuilder, Error> {
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
        let making = Making::begin(database, identity, replaces)?;
        let secret = SecretKey::random(&mut random::fresh_rng()?);
        let payload = declared.payload_bytes as usize;
        Ok(SetBuilder {
            making,
            identity: identity.clone(),
            header: Header {
                publisher: identity.public_key(),
                oprf_key: secret.public_key(),
                release: 1,
                previous: [0; 32],
                salt: fresh_salt()?,
                declared,
                keys,
                added: keys,
                removed: 0,
                root: [0; 32],
            },
            secret,
            sorter: Sorter::new(scratch, payload, memory),
            scratch: scratch.to_owned(),
            added: 0,
        })
    }

    /// Adds digests of keys, each of which is added once, and the payloads of all, one after the other. On all threads.
    ///
    /// # Errors
    /// Usage or Resource: a temporary file cannot be written.
    ///
    /// # Panics
    /// If there are not as many payloads as digests.
    pub fn add(&mut self, digests: &[[u8; 32]], payloads: &[u8]) -> Result<(), Error> {
        let payload = self.header.declared.payload_bytes as usize;
        assert_eq!(payloads.len(), payload * digests.len());
        let SetBuilder { secret, header, .. } = self;
        let entry = |(index, value): (usize, Value)| {
            let mut sealed = payloads[index * payload..][..payload].to_vec();
            header.xor_payload(&value, &mut sealed);
            (header.mask(&value), sealed)
        };
        let values = evaluate(secret, digests);
        let entries: Vec<_> = values.into_par_iter().enumerate().map(entry).collect();
        self.added += digests.len() as u64;
        let mut entries = entries.into_iter();
        let added = entries.try_for_each(|entry| self.sorter.push(entry));
        added.map_err(|e| Error::io(&self.scratch, &e))
    }

    /// Writes the set and its database. Later releases of the publisher beside it, which are of another key, are removed.
    ///
    /// # Errors
    /// Usage or Resource: a file cannot be written. The set is complete or not there.
    ///
    /// # Panics
    /// If other than the declared number of keys was added.
    pub fn finish(self, output: &Path) -> Result<Header, Error> {
        assert_eq!(self.added, self.header.keys);
        let none = Sorter::new(&self.scratch, 0, 0);
        let sorters = [self.sorter, none];
        let (header, file) = write_release(output, &self.identity, self.header, sorters)?;
        let fail = |e| Error::io(output, &e);
        // A set whose key is lost could never be asked about.
        self.making.finish(&self.identity, self.secret, &header)?;
        for release in later_releases(output).map_err(fail)? {
            let path = release_path(output, release);
            // Another file of such a name is somebody else's.
            if !is_release(&path, self.identity.fingerprint()) {
                continue;
            }
            remove_file(&path).map_err(|e| Error::io(&path, &e))?;
        }
        file.commit().map_err(fail)?;
        Ok(header)
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
    sorter: Sorter,
    /// Bytes of memory for masks to sort.
    memory: u64,
    /// Locked as long as this is open.
    _lock: File,
}

impl Update {
    /// Of the set in this file and those beside it, which this identity has published from this database; that may be served
    /// meanwhile. What does not fit into `memory` bytes goes to unnamed files beside the set. A release that a crash has left
    /// between its file and the database counts as published.
    ///
    /// # Errors
    /// Usage: no database is there, it is not private, or another process publishes. Data: it is another identity's, or the
    /// files are not what it has published last. Peer: they are another publisher's.
    pub fn new(
        database: &Path,
        identity: &Identity,
        set: &Path,
        memory: u64,
    ) -> Result<Update, Error> {
        let path = set;
        check_private(database)?;
        let _lock = lock(database, PUBLISHING)?;
        let mut contents = Contents::read(database, identity)?;
        let set = PublishedSet::open(path, identity.fingerprint())?;
        let last = &contents.last;
        let header = set.header().clone();
        let is_last = |header: Option<&Header>| header.is_some_and(|h| h.hash() == last.hash);
        if header.release == last.release + 1
            && let before = set.header_of(last.release)
            && is_last(before)
            && let Some(before) = before
        {
            contents.last = last.then(before, &header);
            contents.write(database, identity)?;
        } else if !is_last(Some(&header)) {
            let problem = SetProblem::NotLast(last.release);
            return Err(Error::set(set.last_path(), problem));
        }
        let payload = header.declared.payload_bytes as usize;
        Ok(Update {
            directory: database.to_owned(),
            identity: identity.clone(),
            sorter: Sorter::new(directory_of(path), payload, memory),
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
            _lock,
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
            let pushed = self.sorter.push((mask, sealed));
            pushed.map_err(|e| Error::io(&self.path, &e))?;
        }
        self.header.keys += new;
        self.header.added += new + changed;
        let keys = self.contents.last.masks + self.header.keys - self.set.header().keys;
        let most = self.header.declared.max_keys;
        match keys > most {
            true => Err(Error::TooManyKeys { keys, most }),
            false => Ok((new, changed)),
        }
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
        let mut removed = Sorter::new(directory_of(&path), 0, self.memory);
        let gone = self.withdrawn.into_iter().filter(|(_, is_there)| *is_there);
        for (mask, _) in gone {
            let pushed = removed.push((mask, Vec::new()));
            pushed.map_err(|e| Error::io(&path, &e))?;
        }
        let sorters = [self.sorter, removed];
        let (header, file) = write_release(&path, &self.identity, self.header, sorters)?;
        file.commit().map_err(|e| Error::io(&path, &e))?;
        // After a crash here, the next update finds the release beside the set.
        self.contents.last = self.contents.last.then(self.set.header(), &header);
        self.contents.write(&self.directory, &self.identity)?;
        Ok(Some((header, path)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Database;
    use crate::error::StoreProblem;

    fn declared(keys: u64, payload_bytes: u32) -> Declared {
        Declared {
            normalization: vec!["email/1".into()],
            lambda: 40,
            queries: 1 << 20,
            max_keys: keys,
            payload: (payload_bytes > 0)
                .then(|| "note".into())
                .into_iter()
                .collect(),
            payload_bytes,
        }
    }

    fn digest(key: u64) -> [u8; 32] {
        *blake3::hash(&key.to_le_bytes()).as_bytes()
    }

    /// What goes with a key.
    fn payload(key: u64, bytes: usize) -> Vec<u8> {
        (0..bytes)
            .map(|at| (key as usize * 31 + at) as u8)
            .collect()
    }

    fn publish(
        place: &Path,
        identity: &Identity,
        keys: u64,
        payload_bytes: u32,
    ) -> Result<Header, Error> {
        let declared = declared(keys, payload_bytes);
        let database = place.join("database");
        let mut builder = SetBuilder::new(&database, identity, declared, keys, false, 0, place)?;
        for start in (0..keys).step_by(1000) {
            let keys = start..(start + 1000).min(keys);
            let digests: Vec<_> = keys.clone().map(digest).collect();
            let payloads = keys.flat_map(|key| payload(key, payload_bytes as usize));
            builder.add(&digests, &payloads.collect::<Vec<_>>())?;
        }
        builder.finish(&place.join("set.vset"))
    }

    #[test]
    fn a_set_has_its_keys_and_no_others_with_what_goes_with_them() {
        let identity = Identity::generate().unwrap();
        for (keys, bytes) in [(1, 0), (1, 7), (257, 7), (2048, 0), (3000, 0)] {
            let place = tempfile::tempdir().unwrap();
            let header = publish(place.path(), &identity, keys, bytes).unwrap();
            let path = place.path().join("set.vset");
            let set = PublishedSet::open(&path, identity.fingerprint()).unwrap();
            assert_eq!(set.header(), &header);
            set.verify().unwrap();
            let database = Database::open(&place.path().join("database"), &identity).unwrap();
            assert_eq!(database.declared(), &header.declared);
            let digests: Vec<_> = (0..2 * keys).map(digest).collect();
            let inputs: Vec<&[u8]> = digests.iter().map(|digest| &digest[..]).collect();
            let values = database.secret.evaluate(MODE, &inputs);
            let masks: Vec<u128> = values.iter().map(|value| header.mask(value)).collect();
            let found = set.find(&masks).unwrap();
            for (key, found) in (0..2 * keys).zip(found) {
                let opened = set.payload(&values[key as usize], found);
                let expected = (key < keys).then(|| payload(key, bytes as usize));
                assert_eq!(opened, expected, "{key} of {keys}");
            }
            if keys == 3000 {
                let bits = 8.0 * path.metadata().unwrap().len() as f64 / keys as f64;
                assert!(bits < 63.5, "{bits}");
            }
        }
    }

    #[test]
    fn two_publications_share_nothing() {
        let identity = Identity::generate().unwrap();
        let places = [0, 1].map(|_| tempfile::tempdir().unwrap());
        let [a, b] = places.each_ref().map(|place| {
            publish(place.path(), &identity, 300, 40).unwrap();
            fs::read(place.path().join("set.vset")).unwrap()
        });
        let blocks = |bytes: &[u8]| -> std::collections::HashSet<Vec<u8>> {
            bytes[500..].windows(8).map(<[u8]>::to_vec).collect()
        };
        assert!(blocks(&a).is_disjoint(&blocks(&b)));
    }

    #[test]
    fn every_damage_is_an_error_of_its_own() {
        let identity = Identity::generate().unwrap();
        let place = tempfile::tempdir().unwrap();
        let header = publish(place.path(), &identity, 300, 5).unwrap();
        let path = place.path().join("set.vset");
        let whole = fs::read(&path).unwrap();
        let open = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            PublishedSet::open(&path, identity.fingerprint()).and_then(|set| set.verify())
        };
        let problem = |bytes: &[u8]| match open(bytes) {
            Err(Error::Set { problem, .. }) => problem,
            other => panic!("{other:?}"),
        };
        open(&whole).unwrap();
        for end in 0..whole.len() {
            assert_eq!(problem(&whole[..end]), SetProblem::Truncated, "{end}");
        }
        assert_eq!(problem(&[&whole[..], &[0]].concat()), SetProblem::TooLong);
        let head = 12 + header.encode().len();
        let index = head + 64..head + 64 + 2 * 56;
        for (at, byte) in whole.iter().enumerate() {
            let mut spoilt = whole.clone();
            spoilt[at] = byte ^ 1;
            let found = problem(&spoilt);
            let is_expected = match at {
                0..8 => found == SetProblem::NotASet,
                8..12 => matches!(
                    found,
                    SetProblem::BadHeader(_) | SetProblem::BadSignature | SetProblem::Truncated
                ),
                12 => found == SetProblem::Version(3),
                13..45 => matches!(found, SetProblem::OtherPublisher { .. }),
                at if at < head => {
                    matches!(found, SetProblem::BadHeader(_) | SetProblem::BadSignature)
                }
                at if at < index.start => found == SetProblem::BadSignature,
                at if at < index.end => found == SetProblem::BadIndex,
                _ => matches!(found, SetProblem::BadBlock(_)),
            };
            assert!(is_expected, "{at}: {found:?}");
        }
        fs::write(&path, &whole).unwrap();
        let other = Identity::generate().unwrap().fingerprint();
        let refused = PublishedSet::open(&path, other).unwrap_err();
        assert_eq!(refused.class(), vesica_session::ErrorClass::Peer);
    }

    #[test]
    fn a_database_is_of_one_set_process_and_identity() {
        let identity = Identity::generate().unwrap();
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("database");
        let problem = |error: Error| match error {
            Error::Store { problem, .. } => problem,
            other => panic!("{other:?}"),
        };
        let empty = Database::open(&directory, &identity).unwrap_err();
        assert_eq!(problem(empty), StoreProblem::Empty);
        publish(place.path(), &identity, 10, 0).unwrap();
        let again = publish(place.path(), &identity, 10, 0).unwrap_err();
        assert_eq!(problem(again), StoreProblem::Taken);
        let open = Database::open(&directory, &identity).unwrap();
        let busy = Database::open(&directory, &identity).unwrap_err();
        assert_eq!(problem(busy), StoreProblem::InUse);
        drop(open);
        let other = Identity::generate().unwrap();
        let foreign = Database::open(&directory, &other).unwrap_err();
        assert_eq!(problem(foreign), StoreProblem::Unreadable("key"));
        let key = directory.join("key");
        let whole = fs::read(&key).unwrap();
        for at in 0..whole.len() {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 1;
            fs::write(&key, spoilt).unwrap();
            let damaged = Database::open(&directory, &identity).unwrap_err();
            assert_eq!(problem(damaged), StoreProblem::Unreadable("key"), "{at}");
        }
    }

    #[test]
    fn impossible_sets_are_refused() {
        let identity = Identity::generate().unwrap();
        let place = tempfile::tempdir().unwrap();
        let new = |declared: Declared, keys| {
            let directory = place.path().join("database");
            let built = SetBuilder::new(
                &directory,
                &identity,
                declared,
                keys,
                false,
                0,
                place.path(),
            );
            built.map(drop).unwrap_err()
        };
        let too_many = new(declared(10, 0), 11);
        assert!(matches!(
            too_many,
            Error::TooManyKeys { keys: 11, most: 10 }
        ));
        assert!(matches!(new(declared(10, 0), 0), Error::Usage(_)));
        let change = |change: fn(&mut Declared)| {
            let mut declared = declared(1 << 20, 8);
            assert_eq!(declared.problem(), None);
            assert_eq!(declared.width(), 80);
            change(&mut declared);
            declared.problem().is_some()
        };
        assert!(change(|declared| declared.normalization.clear()));
        assert!(change(|declared| declared.lambda = 39));
        assert!(change(|declared| declared.queries = 0));
        assert!(change(|declared| declared.queries = (1 << 40) + 1));
        assert!(change(|declared| declared.max_keys = 0));
        assert!(change(|declared| declared.payload_bytes = 0));
        assert!(change(|declared| declared.payload.push("note".into())));
        assert!(change(|declared| {
            declared.lambda = 64;
            declared.queries = 1 << 40;
            declared.max_keys = 1 << 25;
        }));
    }
}
