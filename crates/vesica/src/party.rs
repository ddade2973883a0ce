//! The job itself: rows become items, items become matches, matches become rows again.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use vesica_session::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, Job, Learns, Listener,
    ProtocolRequest, Report, Role, Security, Transport, connect, run_set, with_threads,
};
use vesica_tables::{KeySpec, Output, Source, read_keys_within, write_rows};

use crate::observer::Phases;
use crate::stored::Stored;
use crate::work_dir::WorkDir;
use crate::{Error, Observer};

/// What a party asks of a run besides its table. Both sides must ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The protocol.
    pub protocol: ProtocolRequest,
    /// The weakest security that this side accepts.
    pub security: Security,
    /// Statistical security in bits, 40 to 128.
    pub lambda: u32,
    /// Most distinct keys that the peer may bring.
    pub max_peer_items: u64,
    /// Whether the sender learns the matches too. It has them from the receiver, who can lie about
    /// them.
    pub both: bool,
}

impl Default for Terms {
    /// Automatic protocol, malicious security, λ = 40, at most 2^28 keys of the peer, matches for the
    /// receiver alone.
    fn default() -> Self {
        let usual = Job::new(Role::Receiver, Vec::new());
        Terms {
            protocol: usual.protocol,
            security: usual.security,
            lambda: usual.lambda,
            max_peer_items: usual.max_peer_items,
            both: false,
        }
    }
}

impl Terms {
    /// Checks what can be checked without a table or a peer; every run does it as well.
    ///
    /// # Errors
    /// Usage: a protocol that is weaker than the security that is asked for, or a number out of
    /// range.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self
            .job(Role::Receiver, vec!["exact/1".to_owned()])
            .check()?)
    }

    fn job(&self, role: Role, normalization: Vec<String>) -> Job {
        Job {
            protocol: self.protocol,
            security: self.security,
            lambda: self.lambda,
            max_peer_items: self.max_peer_items,
            learns: if self.both {
                Learns::Both
            } else {
                Learns::Receiver
            },
            ..Job::new(role, normalization)
        }
    }
}

/// What a run may use of this machine. The peer's may differ; the side with less memory decides in
/// how many buckets both run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Most bytes for sets and what a protocol makes of them, about; the program itself takes some
    /// tens of megabytes more. What does not fit is worked on in buckets, and keys are kept in an
    /// unnamed, encrypted file. `None` is no limit.
    pub memory: Option<u64>,
    /// Threads to compute on; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// A directory for what another run can go on from if this one fails after some buckets, and for
    /// keys that do not fit into memory. It is made if it is not there, used by one run at a time,
    /// and gone after the run that completes.
    pub work_dir: Option<PathBuf>,
}

impl Resources {
    /// Bytes of keys in memory: a quarter of all, as the run of a bucket takes half.
    fn for_keys(&self) -> u64 {
        self.memory.map_or(u64::MAX, |memory| memory / 4)
    }

    fn for_a_bucket(&self) -> Option<u64> {
        self.memory.map(|memory| memory / 2)
    }
}

/// One side of a job: who we are, who the peer is, where it is met, and on which terms.
#[derive(Clone, Debug)]
pub struct Party<'a> {
    /// Our key.
    pub identity: &'a Identity,
    /// The only peer that is let in.
    pub peer: Fingerprint,
    /// Whether we listen or connect; independent of who receives.
    pub endpoint: Endpoint,
    /// How long to wait, and the flag that ends everything.
    pub connect: ConnectOptions,
    /// What we ask of the run.
    pub terms: Terms,
    /// What it may use.
    pub resources: Resources,
}

impl<'a> Party<'a> {
    /// A party on the usual terms, with the usual patience of two minutes.
    pub fn new(identity: &'a Identity, peer: Fingerprint, endpoint: Endpoint) -> Party<'a> {
        Party {
            identity,
            peer,
            endpoint,
            connect: ConnectOptions::default(),
            terms: Terms::default(),
            resources: Resources::default(),
        }
    }

    fn job(&self, role: Role, key: &KeySpec) -> Result<Job, Error> {
        let job = Job {
            memory: self.resources.for_a_bucket(),
            ..self.terms.job(role, key.normalization())
        };
        job.check()?;
        Ok(job)
    }

    /// The keys of the table, and the rows that an earlier run found. `output` is where the result
    /// goes, if it does.
    fn read(
        &self,
        job: &Job,
        source: &Source,
        key: &KeySpec,
        output: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Stored, Error> {
        let work = self.resources.work_dir.as_deref().map(WorkDir::open);
        let work = work.transpose()?;
        let directory = match (&work, output.map(Path::parent)) {
            (Some(work), _) => work.path().to_owned(),
            // A path without a directory is in the current one; `-` might as well be.
            (None, Some(Some(parent))) if !parent.as_os_str().is_empty() => parent.to_owned(),
            (None, Some(_)) => PathBuf::from("."),
            (None, None) => std::env::temp_dir(),
        };
        let keys = read_keys_within(source, key, self.resources.for_keys(), &directory)?;
        observer.read(keys.counts());
        let mut stored = Stored::new(keys, directory);
        if let Some(work) = work {
            stored.keep_in(work, *self.peer.as_bytes(), words(job))?;
        }
        self.check_interrupt()?;
        Ok(stored)
    }

    fn meet(&self, observer: &mut dyn Observer) -> Result<Connection, Error> {
        let transport = Transport::Tls {
            identity: self.identity,
            peer: self.peer,
        };
        let connection = match &self.endpoint {
            Endpoint::Listen(address) => {
                let listener = Listener::bind(address)?;
                observer.listening(listener.local_addr());
                listener.accept(&transport, &self.connect)?
            }
            Endpoint::Connect(_) => {
                observer.connecting(&self.endpoint);
                connect(&self.endpoint, &transport, &self.connect)?
            }
        };
        observer.connected(&connection);
        Ok(connection)
    }

    fn exchange(
        &self,
        job: &Job,
        keys: &mut Stored,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        let connection = self.meet(observer)?;
        let mut report = run_set(connection, job, keys, &mut Phases(observer))?;
        report.rows = keys.counts().rows;
        report.duplicates = keys.counts().duplicates;
        Ok(report)
    }

    /// Everything that a side does, from its table to its rows.
    fn run(
        &self,
        role: Role,
        source: &Source,
        key: &KeySpec,
        output: Option<&Path>,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        let job = self.job(role, key)?;
        let work = || {
            let mut keys = self.read(&job, source, key, output, observer)?;
            let output = output
                .map(|path| Output::create(path, source))
                .transpose()?;
            let report = self.exchange(&job, &mut keys, observer)?;
            let matched = keys.into_matched();
            if let Some(mut output) = output {
                observer.writing();
                let rows = write_rows(source, &matched, &mut output)?;
                self.check_interrupt()?;
                output.commit()?;
                observer.wrote(rows);
            }
            Ok(report)
        };
        with_threads(self.resources.threads, work)?
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        let checked = self.connect.interrupt.check();
        Ok(checked.map_err(vesica_session::Error::from)?)
    }
}

/// The job in words, by which a run is known again.
fn words(job: &Job) -> String {
    format!(
        "{} {} {} {} {} {} {}",
        job.role,
        job.protocol,
        job.security.name(),
        job.lambda,
        job.reveal,
        job.learns,
        job.normalization.join(",")
    )
}

/// Runs the receiver: meets the peer and writes to `output` the rows of `source` whose key the
/// peer's table also has, with all columns and in the order of the input.
///
/// `output` has the format of `source`; `-` is standard output. It is opened before the peer is
/// met, and appears under its name only once it is complete.
///
/// # Errors
/// Any [`Error`]; no output file is left then. A peer that was met has been told, unless its part was
/// already complete: writing the rows is this side's own business.
pub fn receive_table(
    party: &Party<'_>,
    source: &Source,
    key: &KeySpec,
    output: &Path,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    party.run(Role::Receiver, source, key, Some(output), observer)
}

/// Runs the sender: meets the peer and helps it to find the rows that both have. The peer learns
/// which of its own keys are in `source`, and how many distinct keys that holds.
///
/// # Errors
/// Any [`Error`]; a peer that was met has been told.
pub fn send_table(
    party: &Party<'_>,
    source: &Source,
    key: &KeySpec,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    party.run(Role::Sender, source, key, None, observer)
}

/// Runs the sender where both sides learn the matches ([`Terms::both`]), and writes to `output` the
/// rows of `source` whose key the receiver says that it also has, as [`receive_table`] does.
///
/// A dishonest receiver can lie about the matches.
///
/// # Errors
/// As [`receive_table`]; usage where the terms are that the receiver alone learns.
pub fn send_table_to(
    party: &Party<'_>,
    source: &Source,
    key: &KeySpec,
    output: &Path,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    if !party.terms.both {
        let problem = "a sender has rows to write only where both sides learn the matches";
        return Err(vesica_session::Error::Usage(problem.into()).into());
    }
    party.run(Role::Sender, source, key, Some(output), observer)
}
