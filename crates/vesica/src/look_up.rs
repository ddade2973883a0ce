//! Looking up: from a table to its rows that are in a published set.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use vesica_lookup::{Client, Error as LookUpError, PublishedSet, State};
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Error as SessionError, Fingerprint, Identity, Transport,
    connect, with_threads,
};
use vesica_tables::{
    ColumnType, Counts, Destination, HandedOver, KeySpec, KeyStore, Keys, Matched, Output,
    PeerColumn, RowSet, Rows, Source, read_keys_within, write_rows,
};
use zeroize::Zeroizing;

use crate::party::beside;
use crate::published::check_key;
use crate::{Error, ErrorClass, Observer};

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
    /// How long to wait, and the flag that interrupts everything.
    pub connect: ConnectOptions,
    /// Threads; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// Whether a table without a usable key matches nothing; otherwise it is an error.
    pub allow_empty: bool,
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
    columns: Vec<PeerColumn>,
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
    /// Finds the rows of a table whose keys are in the set: [`LookUp::open`], then [`OpenLookUp::find`].
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
        self.open(key, observer)?.find(source, output, observer)
    }

    /// Opens the set and what is kept of earlier look-ups, for any number of tables with such keys. Connects only when there
    /// is something to ask or to fetch. What is published later is seen once the set is opened again.
    ///
    /// # Errors
    /// Contract: the set has keys of another kind. Peer: it is another publisher's. Data: it is damaged, or not whole. Usage:
    /// a file or the directory of the state cannot be used. Where files are fetched as [`Client::fetch`] and every
    /// connection.
    pub fn open(&self, key: &KeySpec, observer: &mut dyn Observer) -> Result<OpenLookUp, Error> {
        let (set, client, fetched) = match self.fetch {
            true => {
                let connection = self.connect(observer)?;
                observer.phase("files of the set");
                let fetched =
                    Client::fetch(connection.channel, &self.set, self.publisher, observer);
                let (client, set, bytes) = fetched?;
                (set, Some(client), bytes)
            }
            false => (PublishedSet::open(&self.set, self.publisher)?, None, 0),
        };
        let header = set.header();
        check_key(key, &header.declared)?;
        let state = match &self.state {
            Some(directory) => State::open(directory, &self.identity, header)?,
            None => State::in_memory(header),
        };
        Ok(OpenLookUp {
            options: self.clone(),
            key: key.clone(),
            set,
            state,
            client,
            fetched,
        })
    }

    fn connect(&self, observer: &mut dyn Observer) -> Result<Connection, Error> {
        let endpoint = Endpoint::Connect(self.address.clone());
        let (identity, peer) = (&self.identity, self.publisher);
        let transport = Transport::Tls { identity, peer };
        observer.connecting(&endpoint);
        let connection = connect(&endpoint, &transport, &self.connect);
        let connection = connection.map_err(|error| match error {
            SessionError::RefusedByPeer { ours } => LookUpError::NotAClient { ours }.into(),
            error => Error::from(error),
        })?;
        observer.connected(&connection);
        Ok(connection)
    }
}

/// A published set that stays open for look-ups: what was verified and obtained once is known, and the connection, once there
/// is one, stays.
pub struct OpenLookUp {
    options: LookUp,
    key: KeySpec,
    set: PublishedSet,
    state: State,
    client: Option<Client>,
    /// Bytes that were fetched since the last look-up.
    fetched: u64,
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
    /// The server learns how many keys of the table it has not been asked about before, and when; not which match.
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
        if source.rows() == Rows::Aligned {
            let problem = "rows are in one order on both sides in runs of two tables";
            return Err(SessionError::Usage(problem.into()).into());
        }
        let threads = self.options.threads;
        with_threads(threads, || self.look_up(source, output, observer))?
    }

    fn look_up(
        &mut self,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<LookedUp, Error> {
        let header = self.set.header();
        let texts = |name: &String| PeerColumn {
            name: name.clone(),
            of: ColumnType::TEXT,
        };
        let columns: Vec<_> = header.declared.payload.iter().map(texts).collect();
        let payload = header.declared.payload_bytes as usize;
        let mut report = LookUpReport {
            published: header.keys,
            release: header.release,
            fetched: std::mem::take(&mut self.fetched),
            ..LookUpReport::default()
        };
        if !columns.is_empty() {
            source.check_added_texts()?;
        }
        let scratch = beside(output);
        let file = output
            .map(|output| Output::open(output, source, &scratch))
            .transpose()?;
        let mut keys = self.read(source, observer)?;
        report.counts = *keys.counts();
        if !columns.is_empty() {
            report.counts.check_utf8(source)?;
        }
        if let Some(file) = &file {
            file.check_utf8(source, &report.counts)?;
        }
        let KeyStore::Memory(keys) = &mut keys else {
            unreachable!("no table takes all bytes of 64-bit memory")
        };
        let digests = keys.digests();
        self.set.verify_once(&mut self.state)?;
        if self.state.must_ask(digests) {
            self.ask(digests, &mut report, observer)?;
        }
        // From here on nobody waits for this side.
        let found = self.set.look_up(&self.state, digests)?;
        let matched: Vec<bool> = found.iter().map(Option::is_some).collect();
        report.matches = matched.iter().map(|matched| u64::from(*matched)).sum();
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
            let interrupt = &self.options.connect.interrupt;
            interrupt.check().map_err(SessionError::from)?;
            file.commit()?;
            looked_up.report.rows_written = Some(written);
            observer.wrote(written);
        }
        Ok(looked_up)
    }

    fn read(&self, source: &Source, observer: &mut dyn Observer) -> Result<KeyStore, Error> {
        let keys = read_keys_within(source, &self.key, &[], None, u64::MAX, Path::new(""))?;
        let counts = *keys.counts();
        observer.read(&counts);
        if counts.items == 0 && !self.options.allow_empty {
            return Err(Error::NoKeys(counts));
        }
        for warning in counts.warnings() {
            observer.warning(&warning);
        }
        Ok(keys)
    }

    /// Asks the server for the values that are missing: over the connection that is open, or another one if that is lost or
    /// the server has a quota for more by now.
    fn ask(
        &mut self,
        digests: &[[u8; 32]],
        report: &mut LookUpReport,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if let Some(client) = self.client.take() {
            let (start, before) = (Instant::now(), client.bytes());
            match self.ask_over(client, digests, report, observer) {
                Err(error)
                    if matches!(error.class(), ErrorClass::Network | ErrorClass::Resource)
                        && self.options.connect.interrupt.check().is_ok() => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    report.seconds_asking = start.elapsed().as_secs_f64();
                    report.bytes_sent -= before.0;
                    report.bytes_received -= before.1;
                    return Ok(());
                }
            }
        }
        let connection = self.options.connect(observer)?;
        let start = Instant::now();
        let client = self.meet(connection, observer)?;
        self.ask_over(client, digests, report, observer)?;
        report.seconds_asking = start.elapsed().as_secs_f64();
        Ok(())
    }

    fn ask_over(
        &mut self,
        mut client: Client,
        digests: &[[u8; 32]],
        report: &mut LookUpReport,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        report.last_release = Some(client.release());
        report.asked = self.state.ask(&mut client, digests, observer)?;
        report.left = Some(client.left());
        (report.bytes_sent, report.bytes_received) = client.bytes();
        self.client = Some(client);
        Ok(())
    }

    /// The server at the other end, which has to be that of the set.
    fn meet(&self, connection: Connection, observer: &mut dyn Observer) -> Result<Client, Error> {
        observer.phase("look-up");
        let header = self.set.header();
        let client = Client::new(connection.channel, header).map_err(SessionError::from)?;
        if client.release() > header.release {
            let warning = format!(
                "the set here is release {}, and the publisher has release {}: get the files that are missing",
                header.release,
                client.release(),
            );
            observer.warning(&warning.into());
        }
        Ok(client)
    }
}
