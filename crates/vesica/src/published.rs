//! Publishing: from a table to a file that others ask about.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use vesica_files::{Advice, Argument, DirectoryKind, advice, directory_of, many};
use vesica_keys::KeyStore;
use vesica_lookup::{
    Content, Declared, Earlier, Error as LookUpError, SetBuilder, Update, declared_in, has_begun,
};
use vesica_session::{
    Error as SessionError, Fingerprint, Identity, Interrupt, LabelTerms, NoProgress, with_threads,
};
use vesica_tables::{KeySpec, PathKind, Source, TableKeys, TextColumns};

use crate::apart::check_apart;
use crate::memory::{Budget, Division};
use crate::table::Reading;
use crate::{Error, ErrorClass, Event, Observer};

/// Keys that are evaluated between two reports of progress.
const AT_ONCE: usize = 1 << 14;

/// Bytes of what goes with a key, unless others are asked for.
pub const PAYLOAD_BYTES: u32 = 64;

/// Queries that a key answers, unless others are asked for.
const QUERIES: u64 = 1 << 20;

/// How a table is published.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Signs the set, and serves it later.
    pub identity: Identity,
    /// Directory for the secret key and the count of queries, which this makes.
    pub database: PathBuf,
    /// Whether it is there already, and gets a new key in place of its own.
    pub rotates: bool,
    /// Statistical security in bits, of all queries together.
    pub lambda: u32,
    /// Queries that the key answers in its life, of all clients; `None` is as many as the key answers that it replaces, or
    /// 2^20.
    pub queries: Option<u64>,
    /// Keys that are ever published under it; `None` is as many as there are.
    pub max_keys: Option<u64>,
    /// The columns that go with each key.
    pub payload: Option<LabelTerms>,
    /// Approximate memory in bytes; `None` is no limit.
    pub memory: Option<u64>,
    /// Threads; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// Ends it when raised.
    pub interrupt: Interrupt,
}

impl Publication {
    /// Publishes what this identity signs under a new key, which is to be in that directory and answers 2^20 queries, at λ = 40.
    pub fn new(identity: Identity, database: impl Into<PathBuf>) -> Publication {
        Publication {
            identity,
            database: database.into(),
            rotates: false,
            lambda: 40,
            queries: None,
            max_keys: None,
            payload: None,
            memory: None,
            threads: None,
            interrupt: Interrupt::new(),
        }
    }
}

/// What was published.
#[derive(Clone, Debug, Serialize)]
pub struct Published {
    /// Rows of the table.
    pub rows: u64,
    /// Keys of the set.
    pub keys: u64,
    /// Keys of which an earlier run, which was cut, has computed the masks.
    pub resumed: u64,
    /// Keys that are ever published under the OPRF's key.
    pub max_keys: u64,
    /// How many more of these can be added.
    pub room: u64,
    /// Queries that this answers.
    pub queries: u64,
    /// Bits of a mask.
    pub mask_bits: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// Who has signed it.
    pub publisher: Fingerprint,
}

/// Says what a set does not have any more that its publisher may take for kept.
fn warn_of_less(former: &Declared, declared: &Declared, observer: &mut dyn Observer) {
    if declared.max_keys < former.max_keys {
        let before = format!(
            "the set had room for {} before, and has room for {} now: ",
            many(former.max_keys, "key"),
            declared.max_keys
        );
        observer.event(Event::Warning(&advice![
            before,
            Argument::MaxKeys,
            " says for how many"
        ]));
    }
    if declared.payload.is_empty() && !former.payload.is_empty() {
        let before = format!(
            "the set had the columns {} before, and has none now: ",
            former.payload.join(", ")
        );
        observer.event(Event::Warning(&advice![
            before,
            Argument::Payload,
            " names them"
        ]));
    }
}

impl Publication {
    /// Publishes the keys of a table, and writes the set to `output`. Goes on with what the database has of the same
    /// publication, if that was cut.
    ///
    /// # Errors
    /// Data: a table that cannot be read, or has no usable key. Usage: a database that is there already, more keys than are
    /// declared, a file that cannot be written. No part of a set is left then, and of the database at most what another run
    /// goes on with.
    pub fn run(
        &self,
        source: &Source,
        key: &KeySpec,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Published, Error> {
        with_threads(self.threads, || self.publish(source, key, output, observer))?
    }

    fn publish(
        &self,
        source: &Source,
        key: &KeySpec,
        output: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Published, Error> {
        let start = Instant::now();
        let scratch = directory_of(output);
        check_apart(&[source], None, |paths| {
            paths.writes("the set", PathKind::Set, output);
            let kind = PathKind::Directory(DirectoryKind::Database);
            paths.writes("its database", kind, &self.database);
        })?;
        let budget = Budget::new(self.memory, Division::Publication);
        let payload = self.payload.as_ref().map(|terms| {
            let bytes = terms.bytes as usize;
            TextColumns::published(key, &terms.columns, bytes)
        });
        let payload = payload.transpose()?;
        let reading = Reading {
            texts: payload,
            ..Reading::new(key, &budget, scratch, &self.interrupt)
        };
        let keys = reading.keys(source, observer)?;
        let counts = *keys.counts();
        let former = match self.rotates {
            true => declared_in(&self.database, &self.identity)?,
            false => None,
        };
        let queries = former.as_ref().map(|former| former.queries);
        let declared = Declared {
            normalization: key.normalization(),
            lambda: self.lambda,
            queries: self.queries.or(queries).unwrap_or(QUERIES),
            max_keys: self.max_keys.unwrap_or(counts.items),
            payload: self
                .payload
                .iter()
                .flat_map(|terms| terms.columns.clone())
                .collect(),
            payload_bytes: self.payload.as_ref().map_or(0, |terms| terms.bytes),
        };
        if let Some(former) = former {
            warn_of_less(&former, &declared, observer);
        }
        let label = declared.payload_bytes as usize;
        let mut walk = Walk::new(keys, label, budget.own_bucket(), scratch, &self.interrupt)?;
        let content = Content {
            keys: counts.items,
            hash: walk.hash()?,
        };
        let mut builder = SetBuilder::new(
            &self.database,
            &self.identity,
            declared,
            content,
            self.rotates,
            budget.results,
            output,
        )?;
        let resumed = match builder.earlier() {
            Earlier::Nothing => 0,
            Earlier::Begun(keys) => {
                observer.event(Event::Resumed {
                    done: keys,
                    keys: counts.items,
                });
                keys
            }
            Earlier::Another => {
                let warning = "starting over: an earlier run has begun to publish something else, with other keys, options or identity";
                observer.event(Event::Warning(&warning.into()));
                0
            }
        };
        observer.event(Event::Phase("publish"));
        walk.each(
            observer,
            |digests, labels| Ok(builder.add(digests, labels)?),
        )?;
        let header = builder.finish()?;
        let declared = &header.declared;
        Ok(Published {
            rows: counts.rows,
            keys: header.keys,
            resumed,
            max_keys: declared.max_keys,
            room: declared.max_keys - header.keys,
            queries: declared.queries,
            mask_bits: declared.width(),
            bytes: size(output)?,
            seconds: start.elapsed().as_secs_f64(),
            publisher: header.publisher.fingerprint(),
        })
    }

    /// What to do after this has failed with an error, if the database has something with which the same publication goes on.
    pub fn resume_hint(&self, error: &Error) -> Option<Advice> {
        let may_pass = match error.class() {
            ErrorClass::Network | ErrorClass::Resource | ErrorClass::Interrupted => true,
            ErrorClass::Data => error.may_pass(),
            ErrorClass::Usage | ErrorClass::Peer | ErrorClass::Contract => false,
        };
        (may_pass && has_begun(&self.database)).then(|| {
            "the database keeps what is done: the same command again goes on from there".into()
        })
    }
}

/// How a published set is changed.
#[derive(Clone, Debug)]
pub struct SetUpdate {
    /// Who has published the set.
    pub identity: Identity,
    /// The directory with its secret key, which may be served meanwhile.
    pub database: PathBuf,
    /// The file of its first release; all others are beside it.
    pub set: PathBuf,
    /// Approximate memory in bytes, beside 40 for each key that leaves; `None` is no limit.
    pub memory: Option<u64>,
    /// Threads; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// Ends it when raised.
    pub interrupt: Interrupt,
}

/// What has changed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Updated {
    /// Keys that came new.
    pub new: u64,
    /// Keys whose payload is another now.
    pub changed: u64,
    /// Keys that left.
    pub removed: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// `None` if nothing has changed.
    #[serde(flatten)]
    pub release: Option<Release>,
}

/// A later release of a set.
#[derive(Clone, Debug, Serialize)]
pub struct Release {
    /// Its number; the first is that of the whole set.
    pub release: u64,
    /// Keys of the set after it.
    pub keys: u64,
    /// How many more can be added.
    pub room: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The file.
    pub file: PathBuf,
}

impl SetUpdate {
    /// Publishes a release in which the keys of one table come and those of another leave, as a file beside the others. What
    /// the set has already or has not is passed over.
    ///
    /// # Errors
    /// Contract: keys of another kind than those of the set. Data: a table that cannot be read or has no usable key, files
    /// that are not what the database has published last. Usage: a key in both tables, more keys than were declared, a file
    /// that cannot be written. Nothing has changed then.
    pub fn run(
        &self,
        add: Option<&Source>,
        remove: Option<&Source>,
        key: &KeySpec,
        observer: &mut dyn Observer,
    ) -> Result<Updated, Error> {
        with_threads(self.threads, || self.update(add, remove, key, observer))?
    }

    fn update(
        &self,
        add: Option<&Source>,
        remove: Option<&Source>,
        key: &KeySpec,
        observer: &mut dyn Observer,
    ) -> Result<Updated, Error> {
        let start = Instant::now();
        let sources: Vec<&Source> = add.into_iter().chain(remove).collect();
        check_apart(&sources, None, |paths| {
            paths.writes("the set", PathKind::Set, &self.set);
            let kind = PathKind::Directory(DirectoryKind::Database);
            paths.writes("its database", kind, &self.database);
        })?;
        let scratch = directory_of(&self.set);
        let budget = Budget::new(self.memory, Division::Publication);
        let mut update = Update::new(&self.database, &self.identity, &self.set, budget.results)?;
        let declared = update.declared().clone();
        let key = &as_published(key, &declared)?;
        let walk =
            |keys, label| Walk::new(keys, label, budget.own_bucket(), scratch, &self.interrupt);
        let mut updated = Updated::default();
        let mut reading = Reading::new(key, &budget, scratch, &self.interrupt);
        if let Some(source) = remove {
            let keys = reading.keys(source, observer)?;
            observer.event(Event::Phase("remove"));
            walk(keys, 0)?.each(observer, |digests, _| {
                updated.removed += update.remove(digests)?;
                Ok(())
            })?;
        }
        if let Some(source) = add {
            let label = declared.payload_bytes as usize;
            let payload = (label > 0).then(|| TextColumns::added(key, &declared.payload, label));
            reading.texts = payload.transpose()?;
            let keys = reading.keys(source, observer)?;
            observer.event(Event::Phase("add"));
            walk(keys, label)?.each(observer, |digests, labels| {
                let (new, changed) = update.add(digests, labels)?;
                updated.new += new;
                updated.changed += changed;
                Ok(())
            })?;
        }
        let room = update.room();
        if let Some((header, file)) = update.finish()? {
            updated.release = Some(Release {
                release: header.release,
                keys: header.keys,
                room,
                bytes: size(&file)?,
                file,
            });
        }
        updated.seconds = start.elapsed().as_secs_f64();
        Ok(updated)
    }
}

/// Bytes of a file.
fn size(path: &Path) -> Result<u64, Error> {
    let metadata = path.metadata();
    let metadata = metadata.map_err(|e| LookUpError::io(path, &e))?;
    Ok(metadata.len())
}

/// [Splits](KeyStore::split_ascending) keys unless it is interrupted.
pub(crate) fn split_ascending(
    keys: &mut KeyStore,
    scratch: &Path,
    key_bytes: u64,
    memory: u64,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let is_stopped = || interrupt.check().is_err();
    let split = keys.split_ascending(scratch, key_bytes, memory, is_stopped);
    interrupt.check().map_err(SessionError::from)?;
    Ok(split?)
}

/// A way through keys in ascending order of their digests, however often.
struct Walk<'a> {
    keys: KeyStore,
    interrupt: &'a Interrupt,
}

impl<'a> Walk<'a> {
    /// With `memory` bytes for a bucket of keys, which have labels of so many bytes.
    fn new(
        keys: TableKeys,
        label: usize,
        memory: u64,
        scratch: &Path,
        interrupt: &'a Interrupt,
    ) -> Result<Walk<'a>, Error> {
        // A bucket, the same sorted, and what sorts it.
        let key_bytes = 68 + 2 * label as u64;
        let mut keys = keys.into_store();
        split_ascending(&mut keys, scratch, key_bytes, memory, interrupt)?;
        Ok(Walk { keys, interrupt })
    }

    /// A hash of all digests and labels.
    fn hash(&mut self) -> Result<[u8; 32], Error> {
        let mut hashers = ["vesica/1 keys to publish", "vesica/1 payloads to publish"]
            .map(blake3::Hasher::new_derive_key);
        self.each(&mut NoProgress, |digests, labels| {
            hashers[0].update(digests.as_flattened());
            hashers[1].update(labels);
            Ok(())
        })?;
        let [digests, mut labels] = hashers;
        labels.update(digests.finalize().as_bytes());
        Ok(*labels.finalize().as_bytes())
    }

    /// Hands digests and labels to `take`, some at a time.
    fn each(
        &mut self,
        observer: &mut dyn Observer,
        mut take: impl FnMut(&[[u8; 32]], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let items = self.keys.counts().items;
        let mut done = 0;
        for bucket in 0..self.keys.buckets() {
            let keys = self.keys.load(bucket, true)?.sorted();
            let mut first = 0;
            while first < keys.len() {
                self.interrupt.check().map_err(SessionError::from)?;
                let some = keys.lend(first..keys.len().min(first + AT_ONCE));
                take(&some.digests, some.labels.as_deref().unwrap_or_default())?;
                first += some.len();
                done += some.len() as u64;
                let total = items;
                observer.event(Event::Step { done, total });
            }
        }
        Ok(())
    }
}

/// The key, normalised in the versions of a published set where those are still here. Fails if its keys are not of the kind of
/// the set's.
pub(crate) fn as_published(key: &KeySpec, declared: &Declared) -> Result<KeySpec, Error> {
    let key = key.clone().in_versions_of(&declared.normalization);
    let names = key.names_in_turn().map(str::to_owned);
    let table: Vec<_> = names.zip(key.normalization()).collect();
    let set = &declared.normalization;
    match table.iter().map(|(_, profile)| profile).eq(set) {
        true => Ok(key),
        false => Err(Error::OtherKeys {
            set: set.clone(),
            table,
        }),
    }
}
