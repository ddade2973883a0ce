//! Published sets: from a table to a file that others ask about, and from a table to its rows that are in such a set.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use vesica_files::directory_of;
use vesica_lookup::{
    Client, Declared, Error as LookUpError, Header, PublishedSet, SetBuilder, State, Update,
};
use vesica_session::codec::differ;
use vesica_session::{
    ConnectOptions, Endpoint, Error as SessionError, Fingerprint, Identity, Interrupt, LabelTerms,
    Transport, connect, with_threads,
};
use vesica_tables::{
    Counts, HandedOver, KeySpec, KeyStore, Keys, Matched, Output, RowSet, Rows, Source,
    TextColumns, read_keys_within, write_rows,
};
use zeroize::Zeroizing;

use crate::{Error, Observer};

/// Keys that are evaluated between two reports of progress.
const AT_ONCE: usize = 1 << 14;

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
    /// Queries that the key answers in its life, of all clients.
    pub queries: u64,
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

/// What was published.
#[derive(Clone, Debug)]
pub struct Published {
    /// What was read of the table.
    pub counts: Counts,
    /// The signed header.
    pub header: Header,
}

impl Publication {
    /// Publishes the keys of a table, and writes the set to `output`.
    ///
    /// # Errors
    /// Data: a table that cannot be read, or has no usable key. Usage: a database that is there already, more keys than are
    /// declared, a file that cannot be written. Neither the set nor the database is left then.
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
        let scratch = directory_of(output);
        let share = share(self.memory);
        let mut keys =
            read_published(source, key, self.payload.as_ref(), share, scratch, observer)?;
        let counts = *keys.counts();
        let declared = Declared {
            normalization: key.normalization(),
            lambda: self.lambda,
            queries: self.queries,
            max_keys: self.max_keys.unwrap_or(counts.items),
            payload: self
                .payload
                .iter()
                .flat_map(|terms| terms.columns.clone())
                .collect(),
            payload_bytes: self.payload.as_ref().map_or(0, |terms| terms.bytes),
        };
        let label = declared.payload_bytes as usize;
        let mut builder = SetBuilder::new(
            &self.database,
            &self.identity,
            declared,
            counts.items,
            self.rotates,
            sorted(share),
            scratch,
        )?;
        observer.phase("publish");
        let walk = Walk {
            label,
            share,
            scratch,
            interrupt: &self.interrupt,
        };
        walk.each(&mut keys, observer, |digests, labels| {
            Ok(builder.add(digests, labels)?)
        })?;
        let header = builder.finish(output)?;
        Ok(Published { counts, header })
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
#[derive(Clone, Debug, Default)]
pub struct Updated {
    /// What was read of the table of what comes.
    pub added: Counts,
    /// What was read of the table of what leaves.
    pub removed: Counts,
    /// Keys that came new.
    pub new: u64,
    /// Keys whose payload is another now.
    pub changed: u64,
    /// Keys that left.
    pub gone: u64,
    /// The new release and its file; `None` if nothing has changed.
    pub release: Option<(Header, PathBuf)>,
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
        let (scratch, share) = (directory_of(&self.set), share(self.memory));
        let mut update = Update::new(&self.database, &self.identity, &self.set, sorted(share))?;
        let declared = update.declared().clone();
        check_key(key, &declared)?;
        let mut walk = Walk {
            label: 0,
            share,
            scratch,
            interrupt: &self.interrupt,
        };
        let mut updated = Updated::default();
        if let Some(source) = remove {
            let mut keys = read_published(source, key, None, share, scratch, observer)?;
            updated.removed = *keys.counts();
            observer.phase("remove");
            walk.each(&mut keys, observer, |digests, _| {
                updated.gone += update.remove(digests)?;
                Ok(())
            })?;
        }
        if let Some(source) = add {
            let payload = (declared.payload_bytes > 0).then(|| LabelTerms {
                bytes: declared.payload_bytes,
                columns: declared.payload.clone(),
            });
            let mut keys = read_published(source, key, payload.as_ref(), share, scratch, observer)?;
            updated.added = *keys.counts();
            walk.label = declared.payload_bytes as usize;
            observer.phase("add");
            walk.each(&mut keys, observer, |digests, labels| {
                let (new, changed) = update.add(digests, labels)?;
                updated.new += new;
                updated.changed += changed;
                Ok(())
            })?;
        }
        updated.release = update.finish()?;
        Ok(updated)
    }
}

/// A quarter of the memory each for keys, a bucket of them, and masks to sort.
fn share(memory: Option<u64>) -> u64 {
    memory.map_or(u64::MAX, |memory| memory / 4)
}

/// Memory for masks to sort.
fn sorted(share: u64) -> u64 {
    share.min(1 << 40)
}

/// Reads keys to publish or to withdraw, which are some.
fn read_published(
    source: &Source,
    key: &KeySpec,
    payload: Option<&LabelTerms>,
    share: u64,
    scratch: &Path,
    observer: &mut dyn Observer,
) -> Result<KeyStore, Error> {
    let texts = payload
        .map(|terms| TextColumns::labels(key, &terms.columns, terms.bytes as usize))
        .transpose()?;
    let keys = read_keys_within(source, key, &[], texts.as_ref(), share, scratch)?;
    let counts = *keys.counts();
    observer.read(&counts);
    for warning in counts.warnings() {
        observer.warning(&warning);
    }
    match counts.items {
        0 => Err(Error::NoKeys(counts)),
        _ => Ok(keys),
    }
}

/// A way through keys, some at a time.
struct Walk<'a> {
    /// Bytes of a label.
    label: usize,
    /// Bytes of memory for a bucket of keys.
    share: u64,
    scratch: &'a Path,
    interrupt: &'a Interrupt,
}

impl Walk<'_> {
    /// Hands digests and labels to `take`.
    fn each(
        &self,
        keys: &mut KeyStore,
        observer: &mut dyn Observer,
        mut take: impl FnMut(&[[u8; 32]], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (label, items) = (self.label, keys.counts().items);
        let mut done = 0;
        let mut take = |digests: &[[u8; 32]], labels: &[u8]| -> Result<(), Error> {
            for (part, digests) in digests.chunks(AT_ONCE).enumerate() {
                let labels = &labels[part * AT_ONCE * label..][..digests.len() * label];
                self.interrupt.check().map_err(SessionError::from)?;
                take(digests, labels)?;
                done += digests.len() as u64;
                observer.step(done, items);
            }
            Ok(())
        };
        let none = Zeroizing::new(Vec::new());
        match keys {
            KeyStore::Memory(keys) => take(keys.digests(), keys.labels().unwrap_or_default()),
            KeyStore::Disk(spool) => {
                let key_bytes = 64 + label as u64;
                let buckets = (items * key_bytes).div_ceil(self.share).clamp(1, 1 << 16) as usize;
                let assign = |digests: &[[u8; 32]]| {
                    let bucket = |digest: &[u8; 32]| {
                        let head = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
                        ((u64::from(head) * buckets as u64) >> 32) as u32
                    };
                    digests.iter().map(bucket).collect()
                };
                spool.split(self.scratch, buckets, assign)?;
                (0..buckets).try_for_each(|bucket| {
                    let bucket = spool.load(bucket)?;
                    take(&bucket.digests, bucket.labels.as_ref().unwrap_or(&none))
                })
            }
        }
    }
}

/// How a table is looked up in a published set.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// Our key, which the server has on its list.
    pub identity: Identity,
    /// Who has published the set and serves it.
    pub publisher: Fingerprint,
    /// Where it is served, `host:port`.
    pub address: String,
    /// The file of the set.
    pub set: PathBuf,
    /// Directory for what later look-ups need not ask again, encrypted. Nothing is kept without one.
    pub state: Option<PathBuf>,
    /// How long to wait, and the flag that interrupts everything.
    pub connect: ConnectOptions,
    /// Threads; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// Whether a table without a usable key matches nothing; otherwise it is an error.
    pub allow_empty: bool,
}

/// What a look-up has taken and found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookUpReport {
    /// What was read of the table.
    pub counts: Counts,
    /// Keys of the published set.
    pub published: u64,
    /// The last release that is here.
    pub release: u64,
    /// The last release that the server knows; `None` if it was not needed.
    pub last_release: Option<u64>,
    /// Keys that the server was asked about.
    pub asked: u64,
    /// Queries that it would still answer; `None` if it was not needed.
    pub left: Option<u64>,
    /// Keys of the table that are in the set.
    pub matches: u64,
    /// Rows of the result; `None` if it was not written.
    pub rows_written: Option<u64>,
    /// Bytes sent, framing included.
    pub bytes_sent: u64,
    /// Bytes received, framing included.
    pub bytes_received: u64,
    /// Seconds from the connection to the last answer.
    pub seconds_asking: f64,
}

/// The rows that were found.
pub struct LookedUp {
    keys: Keys,
    rows: RowSet,
    columns: Vec<String>,
    labels: Zeroizing<Vec<u8>>,
    report: LookUpReport,
}

impl LookedUp {
    /// The rows that are in the set, with the columns that go with their keys.
    pub fn matched(&self) -> Matched<'_> {
        let bytes = self.labels.len() / self.keys.digests().len().max(1);
        let handed_over = (!self.columns.is_empty())
            .then(|| HandedOver::new(&self.columns, &self.keys, &self.labels, bytes));
        Matched::new(&self.rows, handed_over)
    }

    /// The report.
    pub fn report(&self) -> &LookUpReport {
        &self.report
    }
}

impl LookUp {
    /// Finds the rows of a table whose keys are in the set, and writes them to `output` if there is one: in the format and
    /// order of the input, with all columns, and after these the columns that the publisher has put beside the keys, each
    /// with `peer_` before its name. `-` is standard output. The options of the source may ask for the other rows, or for
    /// all with a mark.
    ///
    /// The server learns how many keys of the table it has not been asked about before, and when; not which match.
    ///
    /// # Errors
    /// Contract: the set has keys of another kind, or the server has published anew. Peer: the set is another publisher's,
    /// or an answer is not under its key. Resource: the quota does not suffice. Data: the table or the set cannot be used.
    /// No output is left.
    pub fn run(
        &self,
        source: &Source,
        key: &KeySpec,
        output: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        if source.rows() == Rows::Aligned {
            let problem = "rows are in one order on both sides in runs of two tables";
            return Err(SessionError::Usage(problem.into()).into());
        }
        with_threads(self.threads, || self.look_up(source, key, output, observer))?
    }

    fn look_up(
        &self,
        source: &Source,
        key: &KeySpec,
        output: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        let set = PublishedSet::open(&self.set, self.publisher)?;
        let header = set.header().clone();
        check_key(key, &header.declared)?;
        let columns = header.declared.payload.clone();
        if !columns.is_empty() {
            source.check_added_texts()?;
        }
        let mut state = match &self.state {
            Some(directory) => State::open(directory, &self.identity, &header)?,
            None => State::in_memory(&header),
        };
        let file = output
            .map(|path| Output::create(path, source))
            .transpose()?;
        let mut keys = self.read(source, key, observer)?;
        if !columns.is_empty() {
            keys.check_utf8(source)?;
        }
        let KeyStore::Memory(keys) = &mut keys else {
            unreachable!("no table takes all bytes of 64-bit memory")
        };
        let digests = keys.digests();
        let mut report = LookUpReport {
            counts: *keys.counts(),
            published: header.keys,
            release: header.release,
            ..LookUpReport::default()
        };
        set.verify_once(&mut state)?;
        if state.must_ask(digests) {
            self.ask(&header, &mut state, digests, &mut report, observer)?;
        }
        // From here on nobody waits for this side.
        let found = set.look_up(&state, digests)?;
        let matched: Vec<bool> = found.iter().map(Option::is_some).collect();
        report.matches = matched.iter().map(|matched| u64::from(*matched)).sum();
        let payload = header.declared.payload_bytes as usize;
        let mut labels = Zeroizing::new(vec![0; payload * digests.len()]);
        for (index, label) in found.iter().enumerate() {
            if let Some(label) = label {
                labels[index * payload..][..payload].copy_from_slice(label);
            }
        }
        let rows = keys.rows_of(&matched);
        let mut looked_up = LookedUp {
            keys: std::mem::take(keys),
            rows,
            columns,
            labels,
            report,
        };
        if let Some(unreadable) = looked_up.matched().unreadable() {
            let warning = format!(
                "what was published with {unreadable} keys is not what the set declares; their columns are empty"
            );
            observer.warning(&warning.into());
        }
        if let Some(mut file) = file {
            observer.writing();
            let written = write_rows(source, looked_up.matched(), &mut file)?;
            self.connect.interrupt.check().map_err(SessionError::from)?;
            file.commit()?;
            looked_up.report.rows_written = Some(written);
            observer.wrote(written);
        }
        Ok(looked_up)
    }

    fn read(
        &self,
        source: &Source,
        key: &KeySpec,
        observer: &mut dyn Observer,
    ) -> Result<KeyStore, Error> {
        let keys = read_keys_within(source, key, &[], None, u64::MAX, Path::new(""))?;
        let counts = *keys.counts();
        observer.read(&counts);
        for warning in counts.warnings() {
            observer.warning(&warning);
        }
        match counts.items == 0 && !self.allow_empty {
            true => Err(Error::NoKeys(counts)),
            false => Ok(keys),
        }
    }

    /// Asks the server for the values that are missing.
    fn ask(
        &self,
        header: &Header,
        state: &mut State,
        digests: &[[u8; 32]],
        report: &mut LookUpReport,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let endpoint = Endpoint::Connect(self.address.clone());
        let transport = Transport::Tls {
            identity: &self.identity,
            peer: self.publisher,
        };
        observer.connecting(&endpoint);
        let connection =
            connect(&endpoint, &transport, &self.connect).map_err(|error| match error {
                SessionError::RefusedByPeer { ours } => LookUpError::NotAClient { ours }.into(),
                error => Error::from(error),
            })?;
        observer.connected(&connection);
        observer.phase("look-up");
        let start = Instant::now();
        let mut client = Client::new(connection, header).map_err(SessionError::from)?;
        report.last_release = Some(client.release());
        if client.release() > header.release {
            let warning = format!(
                "the set here is release {}, and the publisher has release {}: get the files that are missing",
                header.release,
                client.release(),
            );
            observer.warning(&warning.into());
        }
        report.asked = state.ask(&mut client, digests, observer)?;
        report.seconds_asking = start.elapsed().as_secs_f64();
        report.left = Some(client.left().saturating_sub(report.asked));
        (report.bytes_sent, report.bytes_received) = client.bytes();
        Ok(())
    }
}

/// Fails if the keys of this side are not of the kind of those that were published.
fn check_key(key: &KeySpec, declared: &Declared) -> Result<(), Error> {
    let (ours, theirs) = (key.normalization(), &declared.normalization);
    let differs = match ours.len() == theirs.len() {
        false => differ("number of key columns", ours.len(), theirs.len()),
        true if ours != *theirs => differ("normalization", ours.join(","), theirs.join(",")),
        true => return Ok(()),
    };
    Err(SessionError::from(differs).into())
}
