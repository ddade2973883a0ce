//! The job itself: rows become items, items become matches, matches become rows again.

use std::path::Path;

use vesica_session::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, Job, Listener, Outcome,
    ProtocolRequest, Report, Role, Security, Transport, connect, run,
};
use vesica_tables::{KeySpec, Keys, Output, Source, read_keys, write_matches};

use crate::observer::Phases;
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
}

impl Default for Terms {
    /// Automatic protocol, malicious security, λ = 40, at most 2^28 keys of the peer.
    fn default() -> Self {
        let usual = Job::new(Role::Receiver, Vec::new());
        Terms {
            protocol: usual.protocol,
            security: usual.security,
            lambda: usual.lambda,
            max_peer_items: usual.max_peer_items,
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
            ..Job::new(role, normalization)
        }
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
        }
    }

    fn job(&self, role: Role, key: &KeySpec) -> Result<Job, Error> {
        let job = self.terms.job(role, key.normalization());
        job.check()?;
        Ok(job)
    }

    fn read(
        &self,
        source: &Source,
        key: &KeySpec,
        observer: &mut dyn Observer,
    ) -> Result<Keys, Error> {
        let keys = read_keys(source, key)?;
        observer.read(keys.counts());
        self.check_interrupt()?;
        Ok(keys)
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
        keys: &Keys,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let connection = self.meet(observer)?;
        let mut outcome = run(connection, job, keys.digests(), &mut Phases(observer))?;
        outcome.report.rows = keys.counts().rows;
        outcome.report.duplicates = keys.counts().duplicates;
        Ok(outcome)
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        let checked = self.connect.interrupt.check();
        Ok(checked.map_err(vesica_session::Error::from)?)
    }
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
    let job = party.job(Role::Receiver, key)?;
    let keys = party.read(source, key, observer)?;
    let mut output = Output::create(output, source)?;
    let outcome = party.exchange(&job, &keys, observer)?;
    observer.writing();
    let matches = outcome.matches.unwrap_or_default();
    let matched = keys.matched(matches.into_iter().map(|index| index as usize))?;
    let rows = write_matches(source, &keys, &matched, &mut output)?;
    party.check_interrupt()?;
    output.commit()?;
    observer.wrote(rows);
    Ok(outcome.report)
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
    let job = party.job(Role::Sender, key)?;
    let keys = party.read(source, key, observer)?;
    Ok(party.exchange(&job, &keys, observer)?.report)
}
