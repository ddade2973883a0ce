//! Meeting the peer, and agreeing with it.

use std::time::Duration;

use vesica_session::terms::BUCKETS_AT_ONCE;
use vesica_session::{
    Agreed, ConnectOptions, Connection, Endpoint, Error as SessionError, Fingerprint, Incident,
    Intent, Job, KeySet, Listener, OnIncident, Problem, Readiness, Role, Transport, agree_on_set,
    buckets_for_threads, connect, connect_once,
};
use vesica_wire::{Channel, Error as WireError};

use super::run::{cannot_take_part, warn_of_classes};
use super::{Brings, Party};
use crate::split_job::Tasks;
use crate::{Error, Event, Observer, OfRun};

/// Longest time that a side which cannot take part gives its peer to hear of it: a peer that connects tries every two
/// seconds.
pub(super) const FAREWELL: Duration = Duration::from_millis(2500);

/// Pauses before a peer that cannot take part is met again double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

const LAST_PAUSE: Duration = Duration::from_secs(2);

impl Party {
    /// The bound port, where this side listens.
    pub(super) fn bind(&self, observer: &mut dyn Observer) -> Result<Option<Listener>, Error> {
        let listener = match &self.endpoint {
            Endpoint::Listen(address) => Listener::bind(address)?,
            Endpoint::Bound(listener) => listener.take()?,
            Endpoint::Connect(_) | Endpoint::Courier => return Ok(None),
        };
        observer.event(Event::Listening(listener.local_addr()));
        Ok(Some(listener))
    }

    fn transport(&self, intent: Intent, peer: Fingerprint) -> Transport<'_> {
        match self.plaintext_for_benchmarks_only {
            true => Transport::PlaintextForBenchmarksOnly,
            false => Transport::Tls {
                identity: &self.identity,
                peer,
                intent,
            },
        }
    }

    pub(super) fn meet(
        &self,
        intent: Intent,
        listener: Option<&Listener>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        self.meet_one(self.peer, intent, listener, options)
    }

    fn meet_one(
        &self,
        peer: Fingerprint,
        intent: Intent,
        listener: Option<&Listener>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let transport = self.transport(intent, peer);
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
            observer.event(Event::Connecting(&self.endpoint));
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

    pub(super) fn tell_of(&self, intent: Intent, error: &Error) {
        if let Some(problem) = error.problem() {
            self.tell_problem(intent, problem);
        }
    }

    fn tell(&self, intent: Intent, listener: Option<&Listener>, problem: Problem) {
        let options = ConnectOptions {
            wait: FAREWELL,
            timeout: FAREWELL,
            ready: Readiness::from_the_start(),
            on_incident: OnIncident::default(),
            interrupt: self.connect.interrupt.child(),
            ..self.connect.clone()
        };
        let transport = self.transport(intent, self.peer);
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

    /// Meets the peer, which holds this key, again for each bucket that runs beside another.
    fn add_connections(
        &self,
        role: Role,
        peer: Fingerprint,
        agreed: &mut Agreed,
        listener: Option<&Listener>,
    ) -> Result<(), Error> {
        let options = ConnectOptions {
            ready: Readiness::from_the_start(),
            also: Vec::new(),
            ..self.connect.clone()
        };
        for _ in 0..agreed.missing_connections() {
            let met = self.meet_one(peer, Intent::RunBeside(role), listener, &options);
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

    /// Reads the table, meets the peer and agrees on the contract, if this side admits that peer; where the peer says that it cannot take part, waits for
    /// it to come again, until the wait is over.
    pub(super) fn agree<K: KeySet, T>(
        &self,
        intent: Intent,
        tasks: Option<Tasks>,
        (read, admit): (
            impl FnOnce(&mut dyn Observer) -> Result<Brings<K, T>, Error>,
            impl Fn(&T, &Job, Fingerprint) -> Result<(), Error>,
        ),
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
        // What the peer hears follows from the number that it is told.
        let told = wanted.pad_to.unwrap_or_else(|| keys.items());
        let own = self.resources.budget(&wanted).bucket(told);
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
            observer.event(Event::Connected(&connection));
            let peer = connection.peer.unwrap_or(self.peer);
            // Before anything is said of this side's table.
            admit(&rest, job, peer)
                .inspect_err(|_| connection.channel.abort(&cannot_take_part()))?;
            let problem = match agree_on_set(connection, job, &keys, &mut OfRun(observer)) {
                Ok(mut agreed) => {
                    warn_of_classes(agreed.contract(), observer);
                    self.add_connections(job.role, peer, &mut agreed, listener)?;
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
}
