//! The job itself: from rows to items, from items to matches, and from matches back to rows.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vesica_files::{Advice, Argument, Command, DirectoryKind, advice, directory_of, many};
use vesica_keys::KeyBytes;
use vesica_psi::Output as Learnt;
use vesica_session::terms::{
    BUCKET_ATTEMPTS, BUCKETS_AT_ONCE, KEY_BITS, KEY_CLASSES, LEARNS, MAX_BUCKET_ATTEMPTS,
    NORMALIZATION, REVEAL,
};
use vesica_session::{
    Agreed, Assignment, Attempt, ConnectOptions, Connection, Contract, Endpoint,
    Error as SessionError, Fingerprint, HalfSource, Identity, Incident, Intent, Job, KeyBlock,
    KeySet, LabelExchange, Learns, Listener, PeerLimits, Problem, ProtocolRequest, Readiness,
    RepeatedKeys, Report, Reveal, Role, State, Term, TermValue, Terms, Transport, ValueTerms,
    agree_on_set, buckets_for_threads, connect, connect_once, with_threads,
};
use vesica_tables::{
    ColumnType, Counts, Destination, KeyClass, KeySpec, Matched, Output, Passes, PathKind, RowSet,
    Rows, Source, TextColumns, ValueColumn, approximate_rows, is_address, layout, read_keys_within,
    write_rows,
};
use vesica_wire::{Channel, Error as WireError, Limit};

use crate::apart::check_apart;
use crate::kept::Kept;
use crate::memory::{Budget, Division, Storage, in_words};
use crate::split_job::{JobPlace, SplitJob, Tasks};
use crate::stored::{CheckpointStore, Stored, columns_of_peer};
use crate::work_dir::{self, Journal, Owner, WorkDir};
use crate::{Error, ErrorClass, Observer, PayloadColumn};

/// What a side gets of a run besides its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gets {
    /// Nothing: it helps, or learns a value, which the report has.
    Nothing,
    /// The rows that match.
    Rows,
    /// Its shares of the matches and of their values, in a file.
    Shares,
}

impl Gets {
    /// What a side with this role gets under these terms.
    pub fn of(role: Role, terms: &Terms) -> Gets {
        let is_told = role == Role::Receiver || terms.get(&LEARNS).is_both();
        match terms.get(&REVEAL) {
            reveal if reveal == Reveal::Shares => Gets::Shares,
            reveal if reveal.is_matches() && is_told => Gets::Rows,
            _ => Gets::Nothing,
        }
    }
}

/// What a run may use of this machine. The peer's may differ; the side with less memory determines the number
/// of buckets of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Memory for sets and the protocol's work on them, in bytes, approximately; the program itself takes
    /// some tens of megabytes more. Larger sets are processed in buckets, and their keys are kept in an
    /// unnamed, encrypted file. `None` is no limit.
    pub memory: Option<u64>,
    /// Threads to compute on; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// A directory for the state from which another run can resume if this one fails (finished buckets, and
    /// an answer whose rows are not written yet), and for keys that do not fit into memory. It is created if
    /// missing, belongs to this user alone, serves one run at a time, and is removed once the result is in
    /// its place.
    pub work_dir: Option<PathBuf>,
    /// A directory of prepared correlations ([`OfflineStore`](vesica_offline::OfflineStore)), of which the run takes one
    /// pair. `None` if the protocol makes them.
    #[cfg(feature = "offline")]
    pub offline_store: Option<PathBuf>,
    /// What the dealer of that pair must have shown: see
    /// [`OfflineStore::with_attested`](vesica_offline::OfflineStore::with_attested).
    #[cfg(feature = "offline")]
    pub attested: Option<String>,
}

impl Resources {
    /// The memory as a run divides it.
    fn budget(&self, job: &Job) -> Budget {
        Budget::new(self.memory, division(job))
    }
}

/// Longest time that a side which cannot take part gives its peer to hear of it: a peer that connects tries every two
/// seconds.
const FAREWELL: Duration = Duration::from_millis(2500);

/// Pauses before a peer that cannot take part is met again double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// What a run has before its peer.
pub(crate) struct Ready {
    work: Option<(WorkDir, Option<Journal>)>,
    pub(crate) file: Option<Output>,
    pub(crate) directory: PathBuf,
}

/// A table that is read, and where its result goes.
struct Begun<'a> {
    source: &'a Source,
    file: Option<Output>,
}

/// What a side brings to the contract, and what else it has of its table.
type Brings<K, T> = (Job, K, T);

/// One side of a job: who we are, who the peer is, how to reach it, and on which terms.
#[derive(Clone, Debug)]
pub struct Party {
    /// Our key.
    pub identity: Identity,
    /// The pinned peer; no other is accepted.
    pub peer: Fingerprint,
    /// Whether we listen or connect; independent of who receives.
    pub endpoint: Endpoint,
    /// How long to wait, and the flag that interrupts everything.
    pub connect: ConnectOptions,
    /// The protocol.
    pub protocol: ProtocolRequest,
    /// What both sides must agree on.
    pub terms: Terms,
    /// The most keys and values that the peer may bring.
    pub peer_limits: PeerLimits,
    /// What the run may use of this machine.
    pub resources: Resources,
    /// The columns whose values are summed or multiplied, at most eight.
    pub values: Vec<ValueColumn>,
    /// The columns that the sender hands over with the rows that match; the receiver's result has them after its own,
    /// each under its name with `peer_` before it.
    pub labels: LabelExchange,
    /// The column of texts of which both sides get shares.
    pub payload: Option<PayloadColumn>,
    /// Whether a table without a usable key may take part, and match nothing; otherwise it is an error.
    pub allow_empty: bool,
    /// No encryption, and nobody is checked: what the protocols cost by themselves. Every endpoint but a numeric address of
    /// this machine's loopback is then refused.
    pub plaintext_for_benchmarks_only: bool,
}

impl Party {
    /// A party with default terms and default timeouts of two minutes.
    pub fn new(identity: &Identity, peer: Fingerprint, endpoint: Endpoint) -> Party {
        Party {
            identity: identity.clone(),
            peer,
            endpoint,
            connect: ConnectOptions::default(),
            protocol: ProtocolRequest::Auto,
            terms: Terms::default(),
            peer_limits: PeerLimits::default(),
            resources: Resources::default(),
            values: Vec::new(),
            labels: LabelExchange::Nothing,
            payload: None,
            allow_empty: false,
            plaintext_for_benchmarks_only: false,
        }
    }

    /// The same with another value of a term.
    pub fn with<T: TermValue>(mut self, term: &'static Term<T>, value: T) -> Party {
        self.terms.set(term, value);
        self
    }

    /// Checks what can be checked without a table or a peer; every run does it as well.
    ///
    /// # Errors
    /// Usage: a protocol weaker than the security asked for, a number out of range, or values that do not go with what is
    /// revealed.
    pub fn check(&self, role: Role) -> Result<(), Error> {
        self.check_endpoint()?;
        let is_shared = self.labels.string_bytes() > 0;
        if is_shared || self.payload.is_some() && !self.labels.is_nothing() {
            let problem =
                "a side shares a payload, which `payload` names, or hands over or takes columns";
            return Err(SessionError::Usage(problem.into()).into());
        }
        let job = self.without_table(role);
        Ok(job
            .with(&NORMALIZATION, vec!["exact/1".to_owned()])
            .check()?)
    }

    fn check_endpoint(&self) -> Result<(), Error> {
        let address: Option<SocketAddr> = self.endpoint.to_string().parse().ok();
        let is_local = address.is_some_and(|address| address.ip().is_loopback());
        match is_local || !self.plaintext_for_benchmarks_only {
            true => Ok(()),
            false => {
                let problem = format!("{}: plaintext stays on the loopback", self.endpoint);
                Err(SessionError::Usage(problem).into())
            }
        }
    }

    /// How often a run reads the table.
    pub fn passes(&self, role: Role) -> Passes {
        match Gets::of(role, &self.terms) {
            Gets::Rows => Passes::Two,
            Gets::Nothing | Gets::Shares => Passes::One,
        }
    }

    /// The job but for what the table and the store determine.
    fn without_table(&self, role: Role) -> Job {
        let shared = |payload: &PayloadColumn| LabelExchange::Shared {
            bytes: payload.bytes,
        };
        Job {
            protocol: self.protocol.clone(),
            terms: self.terms.clone(),
            values: self.values.iter().map(value_terms).collect(),
            peer_limits: self.peer_limits,
            labels: self.payload.as_ref().map_or(self.labels.clone(), shared),
            ..Job::new(role, Vec::new())
        }
    }

    /// The job but for what the table determines; `rows` if they are known.
    pub(crate) fn job(&self, role: Role, key: &KeySpec, rows: Rows) -> Result<Job, Error> {
        let mut job = Job {
            offline: self.halves()?,
            ..self.without_table(role)
        };
        job.terms.set(&NORMALIZATION, key.normalization());
        job.terms.set(&KEY_BITS, key.bits());
        if rows == Rows::Aligned {
            job.terms.set(&LEARNS, Learns::Aligned);
        }
        job.check()?;
        job.check_offline()?;
        if job.terms.has_more() && self.resources.work_dir.is_some() {
            let problem = "a work directory is for runs without terms of the program";
            return Err(vesica_session::Error::Usage(problem.into()).into());
        }
        if !job.labels.is_nothing() && (self.resources.work_dir.is_some() || job.offline.is_some())
        {
            let problem = "columns are handed over or shared without a work directory and without stored correlations";
            return Err(vesica_session::Error::Usage(problem.into()).into());
        }
        Ok(job)
    }

    /// The store of which the run takes a half.
    #[cfg(feature = "offline")]
    fn halves(&self) -> Result<Option<Arc<dyn HalfSource>>, Error> {
        let attested = self.resources.attested.clone();
        let Some(directory) = &self.resources.offline_store else {
            return match attested {
                Some(_) => {
                    let problem = "what a dealer has shown is a matter of stored correlations";
                    Err(SessionError::Usage(problem.into()).into())
                }
                None => Ok(None),
            };
        };
        let store = vesica_offline::OfflineStore::open(directory, &self.identity)?;
        Ok(Some(Arc::new(store.with_attested(attested))))
    }

    #[cfg(not(feature = "offline"))]
    fn halves(&self) -> Result<Option<Arc<dyn HalfSource>>, Error> {
        Ok(None)
    }

    /// Where keys go that do not fit into memory: the work directory, else beside the output, else
    /// the directory for temporary files.
    fn directory(&self, work: Option<&WorkDir>, output: Option<Destination<'_>>) -> PathBuf {
        match work {
            Some(work) => work.path().to_owned(),
            None => beside(output),
        }
    }

    /// First pass: the keys of the table.
    pub(crate) fn read(
        &self,
        job: &Job,
        source: &Source,
        key: &KeySpec,
        directory: &Path,
        work: Option<(WorkDir, Option<Journal>)>,
        observer: &mut dyn Observer,
    ) -> Result<Stored, Error> {
        let (values, budget) = (&self.values, self.resources.budget(job));
        let texts = match (&self.labels, &self.payload) {
            (LabelExchange::Offered(terms), _) => {
                let bytes = terms.bytes as usize;
                Some(TextColumns::labels(key, &terms.columns, bytes)?)
            }
            (_, Some(payload)) => {
                let bytes = payload.bytes as usize;
                Some(TextColumns::payload(key, &payload.name, bytes)?)
            }
            _ => None,
        };
        let announce = |rows: u64, observer: &mut dyn Observer| {
            let keys = KeyBytes::of(rows, &layout(key, values, texts.as_ref()));
            let Some(limit) = budget.exceeded_by(keys.in_memory) else {
                return;
            };
            let storage = Storage::of(rows, limit, keys, directory);
            observer.storage(&storage);
            if let Some(warning) = storage.warning() {
                observer.warning(&warning);
            }
        };
        let expected = approximate_rows(source);
        if let Some(rows) = expected {
            announce(rows, observer);
        }
        let (began, waited) = (Instant::now(), source.wait_time());
        let keys = read_keys_within(source, key, values, texts.as_ref(), budget.keys, directory)?;
        observer.waited(source.wait_time() - waited, began.elapsed());
        let counts = *keys.counts();
        if expected.is_none() {
            announce(counts.rows, observer);
        }
        observer.read(&counts);
        for warning in counts.warnings() {
            observer.warning(&warning);
        }
        if matches!(self.labels, LabelExchange::Wanted { .. }) {
            counts.check_utf8(source)?;
        }
        if counts.items == 0 && !self.allow_empty {
            return Err(Error::NoKeys(counts));
        }
        self.check_interrupt()?;
        let checkpoints =
            work.map(|(work, earlier)| CheckpointStore::new(work, job.role, earlier, &keys));
        Ok(Stored::new(keys, budget, directory.to_owned(), checkpoints))
    }

    /// The bound port, where this side listens.
    fn bind(&self, observer: &mut dyn Observer) -> Result<Option<Listener>, Error> {
        let listener = match &self.endpoint {
            Endpoint::Listen(address) => Listener::bind(address)?,
            Endpoint::Bound(listener) => listener.take()?,
            Endpoint::Connect(_) | Endpoint::Courier => return Ok(None),
        };
        observer.listening(listener.local_addr());
        Ok(Some(listener))
    }

    fn transport(&self, intent: Intent) -> Transport<'_> {
        match self.plaintext_for_benchmarks_only {
            true => Transport::PlaintextForBenchmarksOnly,
            false => Transport::Tls {
                identity: &self.identity,
                peer: self.peer,
                intent,
            },
        }
    }

    fn meet(
        &self,
        intent: Intent,
        listener: Option<&Listener>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let transport = self.transport(intent);
        Ok(match listener {
            Some(listener) => listener.accept(&transport, options)?,
            None => connect(&self.endpoint, &transport, options)?,
        })
    }

    /// Opens and reads the table, while the peer connects and stays. The wait for the peer counts from when the table is
    /// read; heartbeats tell a peer that is there before that this side is at work.
    fn read_and_meet<T>(
        &self,
        intent: Intent,
        read: impl FnOnce(&mut dyn Observer) -> Result<T, Error>,
        listener: Option<&Listener>,
        options: &ConnectOptions,
        observer: &mut dyn Observer,
    ) -> Result<(T, Connection), Error> {
        if listener.is_none() {
            observer.connecting(&self.endpoint);
        }
        std::thread::scope(|scope| {
            let meeting = std::thread::Builder::new()
                .spawn_scoped(scope, || self.meet(intent, listener, options))
                .map_err(|e| SessionError::from(WireError::no_thread(e)))?;
            let table = read(observer);
            match table {
                Ok(_) => options.ready.set(),
                Err(_) => options.ready.give_up(),
            }
            let met = meeting
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match (table, met) {
                (Ok(table), Ok(connection)) => Ok((table, connection)),
                (Ok(_), Err(error)) => Err(error),
                (Err(error), met) => {
                    if let Some(problem) = error.problem() {
                        match met {
                            // The peer is told whatever can be told to a peer that may be gone.
                            Ok(mut met) => drop(problem.tell(&mut met.channel)),
                            Err(_) => self.tell(intent, listener, problem),
                        }
                    }
                    Err(error)
                }
            }
        })
    }

    /// What to do after a run that has failed with this error, if it has left something in its work directory that another
    /// run resumes.
    pub fn resume_hint(&self, error: &Error) -> Option<Advice> {
        let may_pass = match error.class() {
            ErrorClass::Network | ErrorClass::Resource | ErrorClass::Interrupted => true,
            ErrorClass::Data => error.may_pass(),
            ErrorClass::Usage | ErrorClass::Peer | ErrorClass::Contract => false,
        };
        let work_dir = self.resources.work_dir.as_deref()?;
        (may_pass && work_dir::has_journal(work_dir)).then(|| {
            "the work directory keeps what is done: the same run again, to another output if need be, resumes it, with the peer \
             unless the answer is there"
                .into()
        })
    }

    /// Meets the peer for a moment and says that this side, which has come for this, cannot take part, so that it goes on
    /// waiting until this side tries again. For failures before a run; the runs of this module do so by themselves. Does
    /// nothing if the peer is not there.
    pub fn tell_problem(&self, intent: Intent, problem: Problem) {
        let listener = match &self.endpoint {
            // Nobody knows which port that would have been.
            Endpoint::Listen(address) if address.ends_with(":0") => return,
            Endpoint::Listen(address) => Listener::bind(address).ok(),
            Endpoint::Bound(listener) => listener.take().ok(),
            Endpoint::Connect(_) => None,
            Endpoint::Courier => return,
        };
        self.tell(intent, listener.as_ref(), problem);
    }

    fn tell_of(&self, intent: Intent, error: &Error) {
        if let Some(problem) = error.problem() {
            self.tell_problem(intent, problem);
        }
    }

    fn tell(&self, intent: Intent, listener: Option<&Listener>, problem: Problem) {
        let options = ConnectOptions {
            wait: FAREWELL,
            timeout: FAREWELL,
            interrupt: self.connect.interrupt.child(),
            ..ConnectOptions::default()
        };
        let transport = self.transport(intent);
        let met = match (listener, &self.endpoint) {
            (Some(listener), _) => listener.accept(&transport, &options),
            // A listener that is not there now does not wait.
            (None, Endpoint::Connect(address)) => connect_once(address, &transport, &options),
            (None, _) => return,
        };
        if let Ok(mut met) = met {
            let _ = problem.tell(&mut met.channel);
        }
    }

    /// Meets the peer again for each bucket that runs beside another.
    fn add_connections(
        &self,
        role: Role,
        agreed: &mut Agreed,
        listener: Option<&Listener>,
    ) -> Result<(), Error> {
        let options = ConnectOptions {
            ready: Readiness::from_the_start(),
            ..self.connect.clone()
        };
        for _ in 0..agreed.missing_connections() {
            let met = self.meet(Intent::RunBeside(role), listener, &options);
            let met = met.inspect_err(|error| {
                agreed.give_up(&match error {
                    Error::Session(SessionError::Run(error)) => error.clone(),
                    _ => WireError::ThirdParty("a further connection could not be made"),
                });
            })?;
            match listener {
                Some(_) => agreed.add_accepted(met)?,
                None => agreed.add_connected(met)?,
            }
        }
        Ok(())
    }

    /// Reads the table, meets the peer and agrees on the contract; where the peer says that it cannot take part, waits for
    /// it to come again, until the wait is over.
    fn agree<K: KeySet, T>(
        &self,
        intent: Intent,
        tasks: Option<Tasks>,
        read: impl FnOnce(&mut dyn Observer) -> Result<Brings<K, T>, Error>,
        listener: Option<Listener>,
        observer: &mut dyn Observer,
    ) -> Result<(Brings<K, T>, Agreed), Error> {
        let options = ConnectOptions {
            ready: Readiness::new(),
            ..self.connect.clone()
        };
        let listener = listener.as_ref();
        let met = self.read_and_meet(intent, read, listener, &options, observer)?;
        let ((wanted, keys, rest), mut connection) = met;
        let own = self.resources.budget(&wanted).bucket(keys.items());
        let (memory, at_once) = match tasks {
            Some(tasks) => (Some(tasks.memory), 1),
            None => (own, buckets_for_threads()),
        };
        let job = Job {
            memory,
            ..wanted.clone()
        };
        let job = &job.with(&BUCKETS_AT_ONCE, at_once);
        let mut pause = FIRST_PAUSE;
        loop {
            observer.connected(&connection);
            let problem = match agree_on_set(connection, job, &keys, observer) {
                Ok(mut agreed) => {
                    warn_of_classes(agreed.contract(), observer);
                    self.add_connections(job.role, &mut agreed, listener)?;
                    return Ok(((wanted, keys, rest), agreed));
                }
                Err(SessionError::PeerProblem(problem)) => problem,
                Err(error) => return Err(error.into()),
            };
            let incident = Incident::PeerProblem(problem);
            options.on_incident.report(&incident);
            let paused = options.interrupt.pause(pause);
            paused.map_err(SessionError::from)?;
            pause = LAST_PAUSE.min(2 * pause);
            connection = match self.meet(intent, listener, &options) {
                Err(Error::Session(SessionError::Connect { .. })) => {
                    return Err(SessionError::PeerProblem(problem).into());
                }
                met => met?,
            };
        }
    }

    /// Agrees on a job with the peer's driver, and cuts the keys of a table up in `directory`, for tasks that make an
    /// attempt at one bucket each ([`SplitJob::run`]). The job is for the matches, or for numbers, without columns to hand over, a work
    /// directory or stored correlations. The directory is made for this user alone. `open` opens the table, as for
    /// [`Party::run`].
    ///
    /// # Errors
    /// Any [`Error`]. Usage: a job that tasks cannot do. Job: the directory is unsafe, or has a job.
    pub fn split<'a>(
        &self,
        role: Role,
        open: impl FnOnce() -> Result<&'a Source, Error> + Send,
        key: &KeySpec,
        directory: &Path,
        tasks: Tasks,
        observer: &mut dyn Observer,
    ) -> Result<SplitJob, Error> {
        self.check_endpoint()?;
        let intent = Intent::Split(role);
        let job = self.split_job(role, key, directory, tasks);
        let (job, place) = job.inspect_err(|error| self.tell_of(intent, error))?;
        let drivers = [self.identity.fingerprint(), self.peer];
        warn_of_weights(&job, observer);
        with_threads(self.resources.threads, || {
            let listener = self.bind(observer)?;
            let read = |observer: &mut dyn Observer| {
                let source = open()?;
                let job = with_column_types(job, source, key)?;
                let keys = self.read(&job, source, key, directory, None, observer)?;
                Ok((job, keys, ()))
            };
            let ((_, mut keys, ()), agreed) = self
                .agree(intent, Some(tasks), read, listener, observer)
                .map_err(Error::of_tasks)?;
            keep_split(agreed, role, drivers, &place, tasks, |job| {
                job.cut_set(&mut keys)
            })
        })?
    }

    /// Does as [`Party::split`] does for a table that is on other machines.
    ///
    /// # Errors
    /// Any [`Error`], as [`Party::split`], or what the functions of `table` have failed with, of which the peer hears no more
    /// than that.
    pub fn split_elsewhere(
        &self,
        role: Role,
        table: RemoteKeys<
            impl FnOnce() -> Result<u64, Error>,
            impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, Error>,
        >,
        key: &KeySpec,
        directory: &Path,
        tasks: Tasks,
        observer: &mut dyn Observer,
    ) -> Result<SplitJob, Error> {
        self.check_endpoint()?;
        let intent = Intent::Split(role);
        let job = self.split_job(role, key, directory, tasks);
        let (job, place) = job.inspect_err(|error| self.tell_of(intent, error))?;
        let drivers = [self.identity.fingerprint(), self.peer];
        warn_of_weights(&job, observer);
        let listener = self.bind(observer)?;
        let count = |observer: &mut dyn Observer| {
            let items = (table.count)()?;
            let counts = Counts {
                items,
                rows: items,
                ..Counts::default()
            };
            observer.read(&counts);
            match items == 0 && !self.allow_empty {
                true => Err(Error::NoKeys(counts)),
                false => Ok((job, Elsewhere(items), ())),
            }
        };
        let (_, agreed) = self
            .agree(intent, Some(tasks), count, listener, observer)
            .map_err(Error::of_tasks)?;
        let mut failed = None;
        let kept = keep_split(agreed, role, drivers, &place, tasks, |job| {
            (table.cut)(job).map_err(|error| {
                failed = Some(error);
                WireError::limit(Limit::Storage, "its buckets cannot be cut")
            })
        });
        kept.map_err(|error| failed.unwrap_or(error))
    }

    /// Meets the peer's driver between tasks: each side says which attempts have begun, and of which there is a result.
    /// Returns the attempts that both sides make next, one at each bucket that lacks a result; none once there is all that
    /// is needed.
    ///
    /// # Errors
    /// Any [`Error`]. Job: a bucket has no result, and no attempt is left. Peer: it was caught in a task, and the job is over.
    /// Contract: the peer's job is another one.
    pub fn next_attempts(
        &self,
        job: &SplitJob,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Attempt>, Error> {
        job.check_drivers(self.identity.fingerprint(), self.peer)?;
        let listener = self.bind(observer)?;
        let intent = Intent::Attempts(job.role());
        self.part_unless_settled(job, intent, listener.as_ref())?;
        job.next_attempts(&mut self.meet_driver(intent, listener.as_ref(), observer)?)
    }

    /// Opens the total of a job for numbers with the peer's driver, once both have a result of every bucket. It is opened
    /// over one attempt at each, which both sides fix before, and never over others. What this side has learnt is kept in
    /// the job's directory ([`SplitJob::total`]). If that breaks off, do it again, on both sides: the total is the same, and
    /// is opened no more often than a bucket may be tried. If both have what they get, nothing is opened.
    ///
    /// # Errors
    /// Any [`Error`]. Job: a bucket has no result on both sides, the total was opened too often or over other attempts,
    /// another process opens it, or the job is for matches. Contract: the peer's job is another one, or has other results
    /// of the attempts that count.
    pub fn open_total(&self, job: &SplitJob, observer: &mut dyn Observer) -> Result<Report, Error> {
        job.check_adds_up()?;
        job.check_drivers(self.identity.fingerprint(), self.peer)?;
        let listener = self.bind(observer)?;
        let intent = Intent::Total(job.role());
        self.part_unless_settled(job, intent, listener.as_ref())?;
        for _ in 0..MAX_BUCKET_ATTEMPTS {
            let mut connection = self.meet_driver(intent, listener.as_ref(), observer)?;
            match connection.theirs {
                // A driver that was restarted numbers attempts first, and then comes for the total.
                Some(Intent::Attempts(_)) => drop(job.next_attempts(&mut connection)?),
                _ => return job.open_total(&mut connection),
            }
        }
        let asks = "the peer numbers attempts again and again, and opens no total";
        Err(SessionError::from(WireError::ThirdParty(asks)).into())
    }

    /// Refuses a job that is over, or that cannot go on now. The peer's driver hears of that, if it is there.
    fn part_unless_settled(
        &self,
        job: &SplitJob,
        intent: Intent,
        listener: Option<&Listener>,
    ) -> Result<(), Error> {
        let settled = job.check_settled();
        if let Err(error) = &settled {
            let options = ConnectOptions {
                wait: self.connect.wait.min(FAREWELL),
                ..self.connect.clone()
            };
            if let Ok(mut connection) = self.meet(intent, listener, &options)
                && job.meet_driver(&mut connection).is_ok()
            {
                connection.channel.abort(&SplitJob::parting(error));
            }
        }
        settled
    }

    /// A connection to the peer's driver, between tasks.
    fn meet_driver(
        &self,
        intent: Intent,
        listener: Option<&Listener>,
        observer: &mut dyn Observer,
    ) -> Result<Connection, Error> {
        self.check_endpoint()?;
        if listener.is_none() {
            observer.connecting(&self.endpoint);
        }
        let connection = self.meet(intent, listener, &self.connect)?;
        observer.connected(&connection);
        Ok(connection)
    }

    /// What tasks are to do, and an empty directory for them, which is locked.
    fn split_job(
        &self,
        role: Role,
        key: &KeySpec,
        directory: &Path,
        tasks: Tasks,
    ) -> Result<(Job, JobPlace), Error> {
        let job = self.job(role, key, Rows::Matching)?;
        let reveal = job.terms.get(&REVEAL);
        let revealed = reveal.to_string();
        let refused = [
            (
                reveal != Reveal::Matches && !reveal.is_value(),
                revealed.as_str(),
            ),
            (!job.labels.is_nothing(), "columns to hand over"),
            (
                job.terms.get(&LEARNS) == Learns::Aligned,
                "one order on both sides",
            ),
            (
                job.terms.get(&KEY_BITS).is_some(),
                "keys that are compared as numbers",
            ),
            (job.offline.is_some(), "stored correlations"),
            (self.resources.work_dir.is_some(), "a work directory"),
        ];
        if let Some((_, what)) = refused.into_iter().find(|(is_asked, _)| *is_asked) {
            let problem = format!("a job in tasks does not go with {what}");
            return Err(SessionError::Usage(problem).into());
        }
        let job = job.with(&BUCKET_ATTEMPTS, tasks.attempts);
        job.check()?;
        let least = job.least_memory();
        if tasks.memory < least {
            let problem = format!(
                "{} of memory for a task do not suffice for {revealed}, which takes {} or more however few keys there are",
                in_words(tasks.memory),
                in_words(least)
            );
            let remedy = Some(advice!["raise ", Argument::TaskMemory]);
            return Err(Error::Usage { problem, remedy });
        }
        Ok((job, JobPlace::prepare(directory)?))
    }

    /// Runs one side, from its table to its result: meets the peer, and gets what the terms give to a side with this role
    /// ([`Gets`]).
    ///
    /// `open` opens the table, once this side has begun to meet its peer: however long a query takes or whoever writes a pipe,
    /// the peer hears that this side is there. It is called once, on a thread of its own perhaps.
    ///
    /// The matching rows of the table have all columns and the order of the input. Its options may ask for the other rows, for all with a mark, or, where both sides learn the matches, for one order on both sides ([`Rows`]). If
    /// there is an `output`, they are written to it in the format of its name, or else of the table; otherwise, or besides,
    /// the outcome has them, and [`select_rows`](crate::select_rows) makes record batches of them, reading the table once
    /// more. There are none if fewer keys match than [`Reveal::ThresholdMatches`] asks for, which the report says.
    ///
    /// Shares are written to the `output`, a CSV table with a line for each cell of a hash table, the same on both sides.
    /// The columns are `row` (the first row of the table with the key in the cell, counted from 1; empty if there is none,
    /// and on the receiver alone), `match` (a bit; the two sides' differ where the cell matches), and `receiver_value` and
    /// `sender_value` where those sides have values (the two sides' sum modulo 2^64 is the key's value where the cell
    /// matches, and 0 elsewhere); of several, `receiver_value_1` and so on. A run in buckets writes the lines of each once it
    /// is over. A key that both tables have is in one cell or in three, and matches in exactly one of
    /// them.
    ///
    /// `-` is standard output. The output is opened before the contract is agreed, and appears under its name only once it is
    /// complete; rows go to a table of a database in one transaction, once all of them are there. A dishonest receiver
    /// can lie to a sender about the matches.
    ///
    /// # Errors
    /// Any [`Error`]; no output file is left then. A connected peer has been told, unless its part was already complete:
    /// writing the rows concerns this side alone. Usage: an output for a side that gets nothing, or none for shares.
    pub fn run<'a>(
        &self,
        role: Role,
        open: impl FnOnce() -> Result<&'a Source, Error> + Send,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        self.check_endpoint()?;
        let intent = Intent::Run(role);
        let job = self.job(role, key, Rows::Matching);
        let job = job.inspect_err(|error| self.tell_of(intent, error))?;
        with_threads(self.resources.threads, || {
            self.run_job(job, open, key, output, observer)
        })?
    }

    /// Fails for rows that a result cannot have.
    fn check_rows(
        &self,
        role: Role,
        rows: Rows,
        output: Option<Destination<'_>>,
    ) -> Result<(), Error> {
        let reveal = self.terms.get(&REVEAL);
        let problem = match (Gets::of(role, &self.terms), output, rows) {
            (Gets::Nothing, Some(_), _) => "this side gets no rows or shares for an output",
            (Gets::Shares, output, _) if output.and_then(Destination::path).is_none() => {
                "shares go to a file"
            }
            (_, _, rows) if rows != Rows::Matching && reveal != Reveal::Matches => {
                "the rest, or all rows with a mark, are for runs that reveal the matches in any case"
            }
            (_, _, Rows::Aligned) if !self.terms.get(&LEARNS).is_both() => {
                "rows are in one order on both sides where both learn the matches"
            }
            (_, _, rows) if rows != Rows::Aligned && self.terms.get(&LEARNS) == Learns::Aligned => {
                "where both learn the matches in one order, the rows come in that order"
            }
            _ => "",
        };
        match problem.is_empty() {
            true => Ok(()),
            false => Err(vesica_session::Error::Usage(problem.into()).into()),
        }
    }

    fn run_job<'a>(
        &self,
        job: Job,
        open: impl FnOnce() -> Result<&'a Source, Error>,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let (role, intent) = (job.role, Intent::Run(job.role));
        let begin = |observer: &mut dyn Observer| self.begin(job, open()?, key, output, observer);
        let (mut begin, mut begun) = (Some(begin), None);
        if self.may_have_an_answer(role)
            && let Some(begin) = begin.take()
        {
            let (job, mut keys, table) =
                begin(observer).inspect_err(|error| self.tell_of(intent, error))?;
            if let Some((state, computed)) = keys.answer() {
                // Do not connect unless the table has changed, and have no open port: the time when it closes would
                // say how long writing took, and so how many rows matched.
                self.endpoint.close();
                observer.answered(computed);
                let report = Report::of_earlier(&state, role, self.peer, computed);
                return self.write(table.source, table.file, keys, report, observer);
            }
            begun = Some((job, keys, table));
        }
        // A peer that is early finds an open port, which closes once the contract is agreed.
        let listener = self.bind(observer)?;
        let read = |observer: &mut dyn Observer| match (begun, begin) {
            (Some(begun), _) => Ok(begun),
            (None, begin) => begin.expect("one of both")(observer),
        };
        let ((job, mut keys, Begun { source, file }), mut agreed) =
            self.agree(intent, None, read, listener, observer)?;
        check_columns_of_peer(role, source, file.as_ref(), &mut agreed)?;
        let file = match Gets::of(job.role, &job.terms) {
            Gets::Shares => {
                file.into_iter().for_each(|file| keys.share_to(file));
                None
            }
            Gets::Nothing | Gets::Rows => file,
        };
        let report = agreed.run(&job, &mut keys, observer)?;
        if let Some(why) = keys.confirmed() {
            observer.warning(&format!("the answer is not kept: {why}").into());
        }
        self.write(source, file, keys, report, observer)
    }

    /// Whether an earlier run may have left an answer that is written without the peer.
    fn may_have_an_answer(&self, role: Role) -> bool {
        let work_dir = self.resources.work_dir.as_deref();
        Gets::of(role, &self.terms) != Gets::Nothing
            && work_dir.is_some_and(|path| work_dir::has_answer(path, &self.identity))
    }

    /// Reads a table for a run, for which the output is opened.
    fn begin<'a>(
        &self,
        job: Job,
        source: &'a Source,
        key: &KeySpec,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Brings<Stored, Begun<'a>>, Error> {
        self.check_rows(job.role, source.rows(), output)?;
        let job = with_column_types(job, source, key)?;
        let ready = self.prepare(&job, source, output, observer)?;
        let Ready {
            work,
            file,
            directory,
        } = ready;
        let keys = self.read(&job, source, key, &directory, work, observer)?;
        if let Some(file) = &file {
            file.check_rows(source, keys.counts())?;
        }
        Ok((job, keys, Begun { source, file }))
    }

    /// What comes before the table is read: the work directory and the output.
    pub(crate) fn prepare(
        &self,
        job: &Job,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Ready, Error> {
        // What cannot be had is known before the table is read.
        if matches!(self.labels, LabelExchange::Wanted { .. }) {
            source.check_added_texts()?;
        }
        self.check_apart(source, output)?;
        warn_of_weights(job, observer);
        let work = self.work_dir(job)?;
        let gets = Gets::of(job.role, &job.terms);
        let directory = self.directory(work.as_ref().map(|(work, _)| work), output);
        let file = match (gets, output.and_then(Destination::path)) {
            (Gets::Shares, Some(path)) => Some(Output::create_csv(path, source)?),
            _ => (output.map(|output| Output::open(output, source, &directory))).transpose()?,
        };
        Ok(Ready {
            work,
            file,
            directory,
        })
    }

    /// Refuses an output in the place of what is read, or in a directory that belongs to the run.
    fn check_apart(&self, source: &Source, output: Option<Destination<'_>>) -> Result<(), Error> {
        let owned = [
            (
                "the work directory",
                DirectoryKind::WorkDir,
                &self.resources.work_dir,
            ),
            #[cfg(feature = "offline")]
            (
                "the store",
                DirectoryKind::Store,
                &self.resources.offline_store,
            ),
        ];
        check_apart(&[source], output, |paths| {
            for (what, kind, directory) in owned {
                if let Some(directory) = directory {
                    paths.writes(what, PathKind::Directory(kind), directory);
                }
            }
        })
    }

    /// Second pass, if there is a file to write: the matching rows or shares, and the report's figures about the
    /// table.
    pub(crate) fn write(
        &self,
        source: &Source,
        file: Option<Output>,
        mut keys: Stored,
        mut report: Report,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Error> {
        let counts = keys.counts();
        report.rows = counts.rows;
        report.duplicates = counts.duplicates;
        report.blanks = counts.blanks;
        report.invalid = counts.invalid;
        let labels = report.contract.labels.clone();
        keys.arrange(labels.as_ref())?;
        let matched = keys.matched_rows();
        if let Some(unreadable) = matched.unreadable() {
            let warning = format!(
                "what the peer handed over with {} is not what it declared; their columns are empty",
                many(unreadable as u64, "key"),
            );
            observer.warning(&warning.into());
        }
        if let Some(mut file) = file {
            observer.writing();
            report.rows_written = Some(write_rows(source, matched, &mut file)?);
            self.check_interrupt()?;
            warn_of_lost(file.commit()?, observer);
            if let Some(rows) = report.rows_written {
                observer.wrote(rows);
            }
        }
        if let Some(shared) = keys.shared() {
            self.check_interrupt()?;
            shared.commit()?;
        }
        Ok(Outcome {
            keys,
            report,
            courier: None,
        })
    }

    /// The work directory, and what an earlier run left in it.
    fn work_dir(&self, job: &Job) -> Result<Option<(WorkDir, Option<Journal>)>, Error> {
        let Some(path) = &self.resources.work_dir else {
            return Ok(None);
        };
        let owner = Owner {
            peer: self.peer.to_string(),
            terms: words(job),
        };
        WorkDir::open(path, work_dir::Keys::of(&self.identity), owner).map(Some)
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        let checked = self.connect.interrupt.check();
        Ok(checked.map_err(vesica_session::Error::from)?)
    }
}

/// The directory of an output that is a file, else the one for temporary files: standard output, `-`, is in none.
pub(crate) fn beside(output: Option<Destination<'_>>) -> PathBuf {
    let path = output.and_then(Destination::path);
    match path.filter(|path| !is_address(path) && path.as_os_str() != "-") {
        Some(file) => directory_of(file).to_owned(),
        None => std::env::temp_dir(),
    }
}

/// Finds the rows of `source` that match by the results of all tasks of a job. They are written to `output`, if there is
/// one, as a run would: all columns, in the order of the input. `source` and `key` are those that were split.
///
/// # Errors
/// Any [`Error`]; no output file is left then. Job: a bucket has no result, the table has changed, or the job is one from
/// which this side learns nothing.
pub fn collect(
    job: &SplitJob,
    source: &Source,
    key: &KeySpec,
    resources: &Resources,
    output: Option<Destination<'_>>,
) -> Result<RowSet, Error> {
    let directory = beside(output);
    check_apart(&[source], output, |paths| {
        let kind = PathKind::Directory(DirectoryKind::Job);
        paths.writes("the job", kind, job.directory());
    })?;
    let file = output
        .map(|output| Output::open(output, source, &directory))
        .transpose()?;
    let budget = Budget::new(resources.memory, Division::Run);
    with_threads(resources.threads, || {
        let keys = read_keys_within(source, key, &[], None, budget.keys, &directory)?;
        if let Some(file) = &file {
            file.check_rows(source, keys.counts())?;
        }
        let mut stored = Stored::new(keys, budget, directory.clone(), None);
        job.collect(&mut stored)?;
        if let Some(mut file) = file {
            write_rows(source, stored.matched_rows(), &mut file)?;
            file.commit()?;
        }
        Ok(stored.matched().clone())
    })?
}

/// Fails if the result cannot have the columns that the sender hands over, which the contract names; nothing derived from a
/// key has been sent by then. The peer is told that this side cannot take part, and not why.
fn check_columns_of_peer(
    role: Role,
    source: &Source,
    file: Option<&Output>,
    agreed: &mut Agreed,
) -> Result<(), Error> {
    let (Role::Receiver, Some(file), Some(terms)) = (role, file, &agreed.contract().labels) else {
        return Ok(());
    };
    let checked = file.check_columns(source, &columns_of_peer(terms));
    checked.map_err(|error| {
        // Which columns the result's table has is not for the peer.
        agreed.give_up(&WireError::limit(Limit::System, "it cannot take part"));
        error.into()
    })
}

/// The end of a split: keys of tasks, buckets, and the job's file once both sides have theirs.
fn keep_split(
    mut agreed: Agreed,
    role: Role,
    drivers: [Fingerprint; 2],
    place: &JobPlace,
    tasks: Tasks,
    cut: impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, WireError>,
) -> Result<SplitJob, Error> {
    let job = SplitJob::new(
        place.path(),
        role,
        drivers,
        agreed.agreement(),
        tasks.valid_for,
    );
    let job = job.inspect_err(|error| agreed.give_up(error));
    let mut job = job.map_err(SessionError::from)?;
    let peers = agreed.exchange_task_keys(role, &job.task_keys()?)?;
    let kept = agreed.keep(|| job.keep(peers, cut));
    kept.inspect_err(|_| job.discard())?;
    Ok(job)
}

/// The distinct keys of a table that is on other machines.
#[derive(Clone, Copy, Debug)]
pub struct RemoteKeys<N, F> {
    /// Counts them, while the peer's driver is met.
    pub count: N,
    /// Is called once the contract is agreed, with the draft of the job. Has each bucket [cut](SplitJob::cut), by whoever
    /// [opens the draft](SplitJob::open_draft), and returns the hashes in the order of the buckets.
    pub cut: F,
}

/// So many keys, which are on other machines.
struct Elsewhere(u64);

impl Elsewhere {
    fn unreachable() -> WireError {
        WireError::limit(Limit::Input, "the keys are on other machines")
    }
}

impl KeySet for Elsewhere {
    fn items(&self) -> u64 {
        self.0
    }

    fn assign(&mut self, _: &Assignment, _: &State) -> Result<(), WireError> {
        Err(Elsewhere::unreachable())
    }

    fn load(&mut self, _: u32) -> Result<KeyBlock<'_>, WireError> {
        Err(Elsewhere::unreachable())
    }

    fn finished(&mut self, _: Learnt, _: &State) -> Result<(), WireError> {
        Err(Elsewhere::unreachable())
    }
}

/// With what a table determines: the order of its rows, the classes of key columns, and the types of the columns that are
/// handed over.
pub(crate) fn with_column_types(
    mut job: Job,
    source: &Source,
    key: &KeySpec,
) -> Result<Job, Error> {
    if source.rows() == Rows::Aligned {
        job.terms.set(&LEARNS, Learns::Aligned);
        job.check()?;
    }
    let classes = source.key_classes(key)?;
    let classes = classes.iter().map(|class| class.name().to_owned());
    job.terms.set(&KEY_CLASSES, classes.collect());
    if let LabelExchange::Offered(terms) = &mut job.labels {
        let types = source.column_types(&terms.columns)?;
        terms.types = types.iter().map(ColumnType::to_string).collect();
    }
    Ok(job)
}

/// Warns of so many values of the peer that a result lacks. The peer has gone, and is not told.
pub(crate) fn warn_of_lost(lost: u64, observer: &mut dyn Observer) {
    if lost > 0 {
        let lost = many(lost, "value");
        let warning =
            format!("the database does not take {lost} of the peer's, and has null instead");
        observer.warning(&warning.into());
    }
}

/// Warns where a minimum does not bound what a result tells.
fn warn_of_weights(job: &Job, observer: &mut dyn Observer) {
    if job.leaves_weights_free() {
        observer.warning(&advice![
            "the peer chooses its values, and a result over large ones, or over several columns, can tell which \
             of its keys match, however large ",
            Argument::MinSize,
            " is; ",
            Argument::MaxPeerValueBound,
            " and ",
            Argument::MaxPeerValues,
            " limit them",
        ]);
    }
}

/// Warns of key columns whose texts are likely to differ where their values do not.
pub(crate) fn warn_of_classes(contract: &Contract, observer: &mut dyn Observer) {
    let (normalizations, classes) = (contract.get(&NORMALIZATION), contract.get(&KEY_CLASSES));
    for ((at, normalization), class) in (1..).zip(&normalizations).zip(&classes) {
        if let Some((one, other)) = KeyClass::apart(class, normalization) {
            observer.warning(&advice![
                format!(
                    "key column {at} is {one} on one side and {other} on the other, and values are compared by their texts: \
                     look at "
                ),
                Command::Check,
                " on both sides, and at ",
                Argument::Normalize,
            ]);
        }
    }
}

/// How a job divides its memory: whether more than the protocol needs its keys while it runs.
fn division(job: &Job) -> Division {
    let goes_with_keys = !job.values.is_empty() || !job.labels.is_nothing();
    Division::of_run(goes_with_keys || job.terms.get(&LEARNS) == Learns::Aligned)
}

/// What the contract says of a column of values.
fn value_terms(column: &ValueColumn) -> ValueTerms {
    ValueTerms {
        bound: column.bound,
        scale: column.scale,
        repeated: match column.sums_repeated {
            true => RepeatedKeys::Sum,
            false => RepeatedKeys::Refuse,
        },
    }
}

/// The job in words, by which an earlier run is recognised.
pub(crate) fn words(job: &Job) -> String {
    format!("{} {} {}", job.role, job.protocol, job.terms.in_words())
}

/// What a side has after a run.
///
/// Where there is a work directory, the answer stays in it until [`Outcome::finish`]: a program that ends
/// before its rows are safe gets them again without the peer. A run by courier can be finished again until then.
pub struct Outcome {
    keys: Stored,
    report: Report,
    /// The directory of a run by courier, which goes on until its rows are safe.
    courier: Option<Box<Kept>>,
}

impl Outcome {
    /// Has [`Outcome::finish`] say in the directory of a run by courier that it is over.
    pub(crate) fn end_with(&mut self, kept: Kept) {
        self.courier = Some(Box::new(kept));
    }

    /// The rows that matched.
    pub fn rows(&self) -> &RowSet {
        self.keys.matched()
    }

    /// The rows that matched, with the columns that the peer has handed over, and in the order that both sides share if
    /// the options of the source ask for it ([`Rows::Aligned`]).
    pub fn matched(&self) -> Matched<'_> {
        self.keys.matched_rows()
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Says that the rows are safe, and removes what was kept of the run.
    ///
    /// # Errors
    /// Resource: the kept answer cannot be removed, and another run would take it for its own.
    pub fn finish(mut self) -> Result<Report, Error> {
        self.keys.finish()?;
        if let Some(kept) = &mut self.courier {
            kept.end()?;
        }
        Ok(self.report)
    }
}

/// What to look at after a run in which both sides have keys and none is the same: mostly they are written differently.
pub fn no_match_hint(report: &Report) -> Option<Advice> {
    let hint = advice![
        "no key matches; compare what ",
        Command::Check,
        " says on both sides (types, delimiter, white space, leading zeros), and see ",
        Argument::Normalize,
    ];
    (report.matches == Some(0) && report.items > 0 && report.peer_items > 0).then_some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_beside_an_output_that_is_a_file() {
        let of = |output: &str| beside(Some(Destination::File(Path::new(output))));
        assert_eq!(of("here/found.csv"), Path::new("here"));
        assert_eq!(of("found.csv"), Path::new("."));
        assert_eq!(
            [of("-"), beside(None)],
            [(); 2].map(|()| std::env::temp_dir())
        );
    }
}
