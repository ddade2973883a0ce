//! Publishing: the values of keys, and the file of their masks.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use vesica_session::{Identity, random};

use crate::database::Database;
use crate::error::Error;
use crate::header::{Declared, Header, MODE, Value};
use crate::set::write_set;
use crate::sort::Sorter;
use crate::voprf::SecretKey;

/// Keys that a thread evaluates at once.
const AT_ONCE: usize = 256;

/// A first publication that is being made, under a fresh key.
pub struct SetBuilder {
    database: PathBuf,
    identity: Identity,
    secret: SecretKey,
    header: Header,
    sorter: Sorter,
    added: u64,
}

impl SetBuilder {
    /// A set of so many keys, whose secret key goes to a new database in this directory. What does not fit into `memory`
    /// bytes goes to unnamed files in `scratch`.
    ///
    /// # Errors
    /// Usage: impossible declarations, more keys than declared, or a directory that is not empty or not private.
    pub fn new(
        database: &Path,
        identity: &Identity,
        declared: Declared,
        keys: u64,
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
        Database::check_new(database)?;
        let secret = SecretKey::random(&mut random::fresh_rng()?);
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let payload = declared.payload_bytes as usize;
        Ok(SetBuilder {
            database: database.to_owned(),
            identity: identity.clone(),
            header: Header {
                publisher: identity.public_key(),
                oprf_key: secret.public_key(),
                release: 1,
                salt,
                declared,
                keys,
                root: [0; 32],
            },
            secret,
            sorter: Sorter::new(scratch, payload, memory),
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
        let values = digests.par_chunks(AT_ONCE).flat_map_iter(|digests| {
            let inputs: Vec<&[u8]> = digests.iter().map(|digest| &digest[..]).collect();
            secret.evaluate(MODE, &inputs)
        });
        let entry = |(index, value): (usize, Value)| {
            let mut sealed = payloads[index * payload..][..payload].to_vec();
            header.xor_payload(&value, &mut sealed);
            (header.mask(&value), sealed)
        };
        let values: Vec<_> = values.collect();
        let entries: Vec<_> = values.into_par_iter().enumerate().map(entry).collect();
        self.added += digests.len() as u64;
        let mut entries = entries.into_iter();
        let added = entries.try_for_each(|entry| self.sorter.push(entry));
        added.map_err(|e| Error::io(&self.database, &e))
    }

    /// Writes the set and its database.
    ///
    /// # Errors
    /// Usage or Resource: a file cannot be written. The set is complete or not there.
    ///
    /// # Panics
    /// If other than the declared number of keys was added.
    pub fn finish(self, output: &Path) -> Result<Header, Error> {
        assert_eq!(self.added, self.header.keys);
        let (header, file) = write_set(output, &self.identity, self.header, self.sorter)?;
        // A set whose key is lost could never be asked about.
        Database::create(
            &self.database,
            &self.identity,
            &self.secret,
            &header.declared,
        )?;
        file.commit().map_err(|e| Error::io(output, &e))?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::{SetProblem, StoreProblem};
    use crate::set::PublishedSet;

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
        let mut builder = SetBuilder::new(&database, identity, declared, keys, 0, place)?;
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
            let mut set = PublishedSet::open(&path, identity.fingerprint()).unwrap();
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
                let opened = found.map(|mut sealed| {
                    header.xor_payload(&values[key as usize], &mut sealed);
                    sealed
                });
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
            PublishedSet::open(&path, identity.fingerprint()).and_then(|mut set| set.verify())
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
                12 => found == SetProblem::Version(0),
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
            let built = SetBuilder::new(&directory, &identity, declared, keys, 0, place.path());
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
