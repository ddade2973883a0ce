//! Looking up: from a table to its rows that are in a published set.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use vesica_files::{Argument, DirectoryKind, advice, many};
use vesica_keys::KeyStore;
use vesica_lookup::{
    Client, Error as LookUpError, Missing, PublishedSet, QUERY_BLOCKS, QUERY_BYTES, State,
};
use vesica_session::{
    ConnectOptions, Connection, Deadline, Endpoint, Error as SessionError, Fingerprint, Identity,
    Intent, Transport, connect, with_threads,
};
use vesica_tables::{
    ColumnType, Counts, Destination, HandedOver, ItemRows, KeySpec, Matched, Output, PathKind,
    PeerColumn, RowSet, Rows, Source, arrange,
};
use vesica_wire::{Blame, Error as WireError, Limit};

use crate::account::{Account, OfTable, Opening};
use crate::apart::check_apart;
use crate::memory::{Budget, Division};
use crate::options::only_key;
use crate::published::{as_published, split_ascending};
use crate::table::{self, Reading, beside};
use crate::{Error, ErrorClass, Event, Observer, OfRun};

/// Bytes of a key while its bucket is looked up: its digest, value and mask, its places in the order of each, and its match.
const KEY_BYTES: u64 = 32 + 65 + 64 + 16 + 3 * 8 + 1;

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
    /// Whether the server is asked for that file, or the later ones beside it, as far as they are not here.
    pub fetch: bool,
    /// Directory for what later look-ups need not ask again, encrypted. Nothing is kept without one.
    pub state: Option<PathBuf>,
    /// How long to wait, and the flag that interrupts everything. The files that are fetched have as long as the deadline says
    /// from when the server is reached, and the answers about a table as long from its first question on. `None` is ten times
    /// what they take at 1 Mb/s and at a tenth of this machine's speed, and at least an hour.
    pub connect: ConnectOptions,
    /// Approximate memory in bytes for keys, answers and what was published with them; `None` is no limit. Larger tables are
    /// looked up in buckets. What does not fit goes to encrypted files without names: answers into the directory of the
    /// state, and the rest beside the output.
    pub memory: Option<u64>,
    /// Threads; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// Whether a table without a usable key matches nothing; otherwise it is an error.
    pub allow_empty: bool,
    /// The account that this side keeps of its look-ups, without rules; none if it keeps none. A look-up for which the server need not be
    /// asked is not in it.
    pub account: Option<Account>,
}

impl LookUp {
    /// Looks tables up in the set of this file, which that publisher serves at that address, as the client with this identity.
    pub fn new(
        identity: Identity,
        publisher: Fingerprint,
        address: impl Into<String>,
        set: impl Into<PathBuf>,
    ) -> LookUp {
        LookUp {
            identity,
            publisher,
            address: address.into(),
            set: set.into(),
            fetch: false,
            state: None,
            connect: ConnectOptions::default(),
            memory: None,
            threads: None,
            allow_empty: false,
            account: None,
        }
    }
}

/// What a look-up has taken and found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LookUpReport {
    /// What was read of the table.
    #[serde(flatten)]
    pub counts: Counts,
    /// Keys of the published set.
    pub published: u64,
    /// The last release that is here.
    pub release: u64,
    /// Bytes of the set's files that were fetched.
    pub fetched: u64,
    /// The last release that the server knows; `None` if it was not needed.
    pub last_release: Option<u64>,
    /// Keys that the server was asked about, and counted as queries.
    pub asked: u64,
    /// Keys of which an answer came now that an earlier look-up had paid for, and lost.
    pub recalled: u64,
    /// Keys that an earlier look-up may have asked about, and had not paid for by the server's word.
    pub withdrawn: u64,
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
    keys: KeyStore,
    /// What is in the set: rows, or items of rows that have several.
    found: RowSet,
    item_rows: ItemRows,
    /// The rows of those items, if they are others.
    rows: Option<RowSet>,
    columns: Vec<PeerColumn>,
    report: LookUpReport,
}

impl LookedUp {
    /// The rows that are in the set, with the columns that go with their keys.
    pub fn matched(&self) -> Matched<'_> {
        let handed_over =
            (!self.columns.is_empty()).then(|| HandedOver::new(&self.columns, &self.keys));
        match &self.rows {
            Some(rows) => Matched::new(rows, handed_over).by_items(&self.found, &self.item_rows),
            None => Matched::new(&self.found, handed_over),
        }
    }

    /// The report.
    pub fn report(&self) -> &LookUpReport {
        &self.report
    }
}

impl LookUp {
    /// Finds the rows of a table whose keys are in the set: [`LookUp::open`], then [`OpenLookUp::find_last`].
    ///
    /// # Errors
    /// As these.
    pub fn run(
        &self,
        source: &Source,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        self.check_apart(&[source], output)?;
        self.open_with(key, &beside(output), observer)?
            .find_last(source, output, observer)
    }

    /// Refuses what is written in the place of anything else that is named.
    fn check_apart(
        &self,
        sources: &[&Source],
        output: Option<Destination<'_>>,
    ) -> Result<(), Error> {
        check_apart(sources, output, |paths| {
            match self.fetch {
                true => paths.writes("the set", PathKind::Set, &self.set),
                false => paths.reads("the set", PathKind::Set, &self.set),
            }
            if let Some(state) = &self.state {
                let kind = PathKind::Directory(DirectoryKind::LookUp);
                paths.writes("the state", kind, state);
            }
            if let Some(account) = &self.account {
                paths.writes("the ledger", PathKind::File, &account.ledger);
            }
        })
    }

    /// Opens the set and what is kept of earlier look-ups, for any number of tables with such keys. Connects only when there
    /// is something to ask or to fetch. What is published later is seen once the set is opened again.
    ///
    /// # Errors
    /// Contract: the set has keys of another kind. Peer: it is another publisher's. Data: it is damaged, or not whole. Usage:
    /// a file or the directory of the state cannot be used. Where files are fetched as [`Client::fetch`] and every
    /// connection.
    pub fn open(&self, key: &KeySpec, observer: &mut dyn Observer) -> Result<OpenLookUp, Error> {
        self.open_with(key, &std::env::temp_dir(), observer)
    }

    /// Opens them with a directory for answers that are not kept and do not fit into memory.
    fn open_with(
        &self,
        key: &KeySpec,
        scratch: &Path,
        observer: &mut dyn Observer,
    ) -> Result<OpenLookUp, Error> {
        self.check_apart(&[], None)?;
        let (set, server, fetched) = match self.fetch {
            true => {
                let connection = self.connect(observer)?;
                observer.event(Event::Phase("files of the set"));
                let deadline = connection.deadline();
                let (channel, set) = (connection.channel, &self.set);
                let fetched = Client::fetch(
                    channel,
                    Some(&deadline),
                    set,
                    self.publisher,
                    &mut OfRun(observer),
                );
                let (client, set, bytes) = fetched?;
                (set, Some(Server { client, deadline }), bytes)
            }
            false => (PublishedSet::open(&self.set, self.publisher)?, None, 0),
        };
        let header = set.header();
        let key = as_published(key, &header.declared)?;
        let (memory, interrupt) = (self.budget().results, &self.connect.interrupt);
        let state = match &self.state {
            Some(directory) => State::open(directory, &self.identity, &set, memory, interrupt)?,
            None => State::new(header, memory, scratch, interrupt),
        };
        if state.forgotten() > 0 {
            let warning = format!(
                "the set has a new key, which makes {} under the former one useless",
                many(state.forgotten(), "answer")
            );
            observer.event(Event::Warning(&warning.into()));
        }
        Ok(OpenLookUp {
            options: self.clone(),
            key,
            set,
            state,
            has_met: server.is_some(),
            server,
            fetched,
        })
    }

    fn budget(&self) -> Budget {
        Budget::new(self.memory, Division::LookUp)
    }

    fn connect(&self, observer: &mut dyn Observer) -> Result<Connection, Error> {
        let endpoint = Endpoint::Connect(self.address.clone());
        let identity = &self.identity;
        let peer = only_key("a published set", self.publisher, &self.connect)?;
        let transport = Transport::Tls {
            identity,
            peer,
            intent: Intent::LookUp,
        };
        observer.event(Event::Connecting(&endpoint));
        let connection = connect(&endpoint, &transport, &self.connect);
        let connection = connection.map_err(|error| match error {
            SessionError::RefusedByPeer { ours } => LookUpError::NotAClient { ours }.into(),
            error => Error::from(error),
        })?;
        observer.event(Event::Connected(&connection));
        Ok(connection)
    }
}

/// A server that is connected.
struct Server {
    client: Client,
    deadline: Deadline,
}

/// What becomes of the connection once there are answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Stay,
    Leave,
}

/// A table, about which the server need not be asked any longer.
struct Asked {
    keys: KeyStore,
    item_rows: ItemRows,
    /// The directory for what does not fit into memory.
    scratch: PathBuf,
    file: Option<Output>,
    report: LookUpReport,
}

/// A published set that stays open for look-ups: what was verified and obtained once is known, and the connection, once there
/// is one, stays.
pub struct OpenLookUp {
    options: LookUp,
    key: KeySpec,
    set: PublishedSet,
    state: State,
    server: Option<Server>,
    /// Bytes that were fetched since the last look-up.
    fetched: u64,
    /// Whether the server was met since the set is open.
    has_met: bool,
}

impl OpenLookUp {
    /// The columns that the publisher has put beside the keys.
    pub fn columns(&self) -> &[String] {
        &self.set.header().declared.payload
    }

    /// Finds the rows of a table whose keys are in the set, and writes them to `output` if there is one, in the format that
    /// its name stands for, or else in that of the input: in the order of the input, with all columns, and after these the
    /// columns that the publisher has put beside the keys, each with `peer_` before its name. `-` is standard output. The
    /// options of the source may ask for the other rows, or for all with a mark.
    ///
    /// The server learns how many keys of the table it has not been asked about before, and when; not which match. The
    /// connection stays, and the server sees when the next question comes, and when this is dropped. Whoever does either as
    /// soon as the rows are there tells it how long these took, and so about how many there are: ask and leave at times that
    /// do not depend on what was found, or take [`OpenLookUp::find_last`].
    ///
    /// # Errors
    /// Contract: the server has published anew. Peer: an answer is not under its key. Resource: the quota does not suffice.
    /// Data: the table or the set cannot be used. No output is left.
    pub fn find(
        &mut self,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        self.look_up(source, output, observer, Then::Stay)
    }

    /// Finds rows as [`OpenLookUp::find`] does, and leaves the server once its answers are here, before anything is looked at
    /// that depends on which keys are in the set.
    ///
    /// # Errors
    /// As there.
    pub fn find_last(
        mut self,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        self.look_up(source, output, observer, Then::Leave)
    }

    fn look_up(
        &mut self,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
        then: Then,
    ) -> Result<LookedUp, Error> {
        if source.rows() == Rows::Aligned {
            let problem = "rows are in one order on both sides in runs of two tables";
            return Err(SessionError::Usage(problem.into()).into());
        }
        let threads = self.options.threads;
        with_threads(threads, || {
            let mut opening = None;
            let asked = self.obtain(source, output, &mut opening, observer);
            let found = asked.and_then(|asked| {
                // Until here nothing depends on what is in the set.
                if then == Then::Leave {
                    self.server = None;
                }
                self.found(source, asked, observer)
            });
            if let Some(opening) = opening {
                let answer = |found: &LookedUp| {
                    let report = found.report();
                    json!({"matches": report.matches, "rows_written": report.rows_written})
                };
                opening.end(found.as_ref().map(answer), observer);
            }
            found
        })?
    }

    /// Reads a table, and has the server answer for those of its keys whose values are not here.
    fn obtain(
        &mut self,
        source: &Source,
        output: Option<Destination<'_>>,
        opening: &mut Option<Opening>,
        observer: &mut dyn Observer,
    ) -> Result<Asked, Error> {
        let header = self.set.header();
        let mut report = LookUpReport {
            published: header.keys,
            release: header.release,
            fetched: std::mem::take(&mut self.fetched),
            ..LookUpReport::default()
        };
        let adds_texts = !header.declared.payload.is_empty();
        let scratch = beside(output);
        self.options.check_apart(&[source], output)?;
        let file = table::open(source, output, &scratch, adds_texts)?;
        if let (Some(file), true) = (&file, adds_texts) {
            file.check_columns(source, &self.columns_of_peer())?;
        }
        let budget = self.options.budget();
        let interrupt = &self.options.connect.interrupt;
        let reading = Reading {
            file: file.as_ref(),
            adds_texts,
            allow_empty: self.options.allow_empty,
            ..Reading::new(&self.key, &budget, &scratch, interrupt)
        };
        let keys = reading.keys(source, observer)?;
        report.counts = *keys.counts();
        // A label is there once more to be kept.
        let key_bytes = KEY_BYTES + 2 * u64::from(self.set.header().declared.payload_bytes);
        let (mut keys, item_rows) = keys.into_parts();
        let memory = budget.own_bucket();
        split_ascending(&mut keys, &scratch, key_bytes, memory, interrupt)?;
        self.set.verify_once(&mut self.state)?;
        let missing = self.missing(&mut keys, &scratch)?;
        if let (Some(account), false) = (&self.options.account, missing.is_empty()) {
            let table = OfTable {
                source: Some(source),
                key: &self.key,
                rows: report.counts.rows,
                items: report.counts.items,
            };
            let sides = [self.options.identity.fingerprint(), self.options.publisher];
            let published = report.published;
            *opening = Some(Opening::of_look_up(
                account, sides, &table, published, observer,
            )?);
        }
        match missing.is_empty() {
            false => self.ask(missing, &mut keys, &scratch, &mut report, observer)?,
            true if report.counts.items > 0 && self.may_be_old() => observer.event(Event::Warning(&advice![
                "all answers are here, so that the server was not met: a newer release of the set is noticed only with ",
                Argument::Fetch
            ])),
            true => {}
        }
        Ok(Asked {
            keys,
            item_rows,
            scratch,
            file,
            report,
        })
    }

    /// Looks keys up whose values are here, and writes their rows.
    fn found(
        &self,
        source: &Source,
        asked: Asked,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        let Asked {
            mut keys,
            item_rows,
            scratch,
            file,
            mut report,
        } = asked;
        let columns = self.columns_of_peer();
        let payload = self.set.header().declared.payload_bytes as usize;
        let interrupt = &self.options.connect.interrupt;
        let budget = self.options.budget();
        let mut in_set = RowSet::none(keys.counts().rows);
        self.set
            .look_up(&self.state, &mut keys, |keys, bucket, found| {
                interrupt.check().map_err(SessionError::from)?;
                let matches = found.matched.iter().filter(|matched| **matched);
                report.matches += matches.count() as u64;
                keys.mark(bucket, &found.matched, &mut in_set)?;
                if !columns.is_empty() {
                    keys.keep(bucket, &found.labels, payload, budget.keys, &scratch)?;
                }
                Ok::<_, Error>(())
            })?;
        if !columns.is_empty() {
            arrange(&mut keys, &scratch, &columns, 1, &in_set, budget.rows)?;
        }
        let mut looked_up = LookedUp {
            keys,
            rows: item_rows.rows_of(&in_set),
            found: in_set,
            item_rows,
            columns,
            report,
        };
        let written = table::write(source, file, looked_up.matched(), interrupt, observer)?;
        looked_up.report.rows_written = written;
        Ok(looked_up)
    }

    /// What goes with the keys of the set.
    fn columns_of_peer(&self) -> Vec<PeerColumn> {
        let texts = |name: &String| PeerColumn {
            name: name.clone(),
            of: ColumnType::TEXT,
        };
        let texts = self.columns().iter().map(texts);
        texts.map(PeerColumn::beside_own).collect()
    }

    /// Whether a newer release would be unknown: answers of earlier look-ups sufficed so far.
    fn may_be_old(&self) -> bool {
        self.options.state.is_some() && !self.has_met
    }

    /// The keys whose values are missing. What was published with keys has its part of the memory only later.
    fn missing(&self, keys: &mut KeyStore, scratch: &Path) -> Result<Missing, Error> {
        let memory = self.options.budget().rows;
        Ok(self.state.missing(keys, memory, scratch)?)
    }

    /// Asks the server for the values that are missing: over the connection that is open, or another one if that is lost or
    /// the server has a quota for more by now.
    fn ask(
        &mut self,
        mut missing: Missing,
        keys: &mut KeyStore,
        scratch: &Path,
        report: &mut LookUpReport,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let mut open = self.server.take();
        self.state.begin();
        let answered = self.state.answered();
        loop {
            let is_open = open.is_some();
            let (server, start, before) = match open.take() {
                Some(server) => {
                    let before = server.client.bytes();
                    (server, Instant::now(), before)
                }
                None => {
                    let connection = self.options.connect(observer)?;
                    let start = Instant::now();
                    (self.meet(connection, start, observer)?, start, (0, 0))
                }
            };
            let items = keys.counts().items;
            let asked = self.ask_over(server, start, missing, items, report, observer);
            let Err(error) = asked else {
                report.recalled = self.state.recalled();
                report.withdrawn = self.state.withdrawn();
                report.asked = self.state.answered() - answered - report.recalled;
                report.seconds_asking = start.elapsed().as_secs_f64();
                report.bytes_sent -= before.0;
                report.bytes_received -= before.1;
                return Ok(());
            };
            let goes_on = match error.class() {
                ErrorClass::Network => is_open && !is_overdue(&error),
                ErrorClass::Resource => is_open && is_of_the_quota(&error),
                _ => false,
            };
            if !goes_on || self.options.connect.interrupt.check().is_err() {
                return Err(error);
            }
            // While nobody is connected.
            missing = self.missing(keys, scratch)?;
        }
    }

    fn ask_over(
        &mut self,
        mut server: Server,
        start: Instant,
        missing: Missing,
        items: u64,
        report: &mut LookUpReport,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        observer.event(Event::Phase("look-up"));
        // All keys, whatever is known of them.
        let queries = items + self.state.pending();
        let [bytes, blocks] = [QUERY_BYTES, QUERY_BLOCKS].map(|of_one| queries * of_one);
        server.deadline.of_exchange(start, bytes, blocks);
        let client = &mut server.client;
        report.last_release = Some(client.release());
        self.has_met = true;
        self.state.ask(client, missing, &mut OfRun(observer))?;
        report.left = Some(client.left());
        (report.bytes_sent, report.bytes_received) = client.bytes();
        self.server = Some(server);
        Ok(())
    }

    /// The server at the other end, which has to be that of the set.
    fn meet(
        &self,
        connection: Connection,
        start: Instant,
        observer: &mut dyn Observer,
    ) -> Result<Server, Error> {
        let header = self.set.header();
        let deadline = connection.deadline();
        deadline.of_exchange(start, 0, 0);
        let client = Client::new(connection.channel, header).map_err(SessionError::from)?;
        if client.release() > header.release {
            let said = format!(
                "the set here is release {}, and the publisher has release {}: get the files that are missing, or fetch them \
                 with ",
                header.release,
                client.release(),
            );
            observer.event(Event::Warning(&advice![said, Argument::Fetch]));
        }
        if client.release() < header.release {
            let warning = format!(
                "the publisher's server knows of release {} at most, and the set here is release {}: tell the publisher, whose \
                 database may be a restored copy",
                client.release(),
                header.release,
            );
            observer.event(Event::Warning(&warning.into()));
        }
        Ok(Server { client, deadline })
    }
}

/// Whether the server's quota may be why it does not answer, and not a limit of this machine.
fn is_of_the_quota(error: &Error) -> bool {
    use WireError::{PeerAborted, Resource};
    matches!(
        error,
        Error::Session(SessionError::Run(
            PeerAborted {
                blame: Blame::Resource,
                ..
            } | Resource {
                limit: Limit::Queries,
                ..
            }
        ))
    )
}

/// Whether the time of this side has run out.
fn is_overdue(error: &Error) -> bool {
    matches!(
        error,
        Error::Session(SessionError::Run(WireError::Overdue(_)))
    )
}
