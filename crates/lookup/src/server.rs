//! Serving: the values of blinded keys, for clients on a list, each up to a quota.
//!
//! A client has a thread of its own, which mostly waits. What is computed takes turns, in the order in which they are asked
//! for and a few elements each, so that a client with many questions keeps no other from its answer for long.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use vesica_files::open_regular;
use vesica_primitives::voprf::{ELEMENT_BYTES, Element, PROOF_BYTES};
use vesica_session::codec::impossible;
use vesica_session::{
    ConnectOptions, Connection, Deadline, Error as SessionError, Fingerprint, Identity, Intent,
    Interrupt, Listener, random,
};
use vesica_wire::{Blame, Channel, Error as WireError, FramedChannel, Limit, POLL};

use crate::database::Database;
use crate::error::Error;
use crate::messages::{
    ANSWER, Announced, Cost, FILE, HELLO, Lacking, MAX_HELLO_BYTES, MAX_QUESTION_BYTES, PART,
    QUESTION, WELCOME, Welcome, decode, encode, read_hello, read_question,
};
use crate::quotas::Debit;
use crate::set::{read_head, release_path};

/// Elements of a turn: some ten milliseconds.
const TURN: usize = 256;
/// Bytes of the stack of a client's thread.
const STACK: usize = 512 << 10;
/// How often a client gets the bytes of all files in a day.
const FILES_A_DAY: u64 = 4;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longest time that answers in the making have after the server was told to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Most questions over one connection that cost nothing and were not paid for: twice what a client has after a crash.
const MAX_IN_VAIN: u64 = 64;
/// Most connections of one client at once.
const MAX_OF_ONE: usize = 8;

/// Whom a server answers, and how much.
#[derive(Clone, Debug)]
pub struct Service {
    /// Everybody else is turned away.
    pub clients: Vec<Fingerprint>,
    /// File of the first release of the set, with the others beside it, for clients that fetch them; none are handed out
    /// otherwise. A client gets at most four times their bytes a day from one process.
    pub set: Option<PathBuf>,
    /// Queries of each client under the key, at most.
    pub quota: u64,
    /// Connections at once; others wait.
    pub connections: usize,
    /// Threads that compute; `None` is as many as this machine runs at once.
    pub threads: Option<NonZeroUsize>,
    /// Time between two calls for figures.
    pub interval: Duration,
    /// What keeps account of what is answered, if anything does.
    pub log: Option<Arc<dyn QueryLog>>,
}

/// Keeps account of what a server answers.
pub trait QueryLog: fmt::Debug + Send + Sync {
    /// A client gets the answer to so many queries once this returns: those that it has paid for, or had paid for before.
    ///
    /// # Errors
    /// It cannot be written down, and the client gets no answer and pays nothing.
    fn answers(&self, client: Fingerprint, queries: u64) -> Result<(), WireError>;
}

impl Service {
    /// Answers these clients so many queries each, on at most 1,024 connections at once. It hands out no files, computes on all
    /// threads of this machine, and tells figures each minute.
    pub fn new(clients: Vec<Fingerprint>, quota: u64) -> Service {
        Service {
            clients,
            set: None,
            quota,
            connections: 1024,
            threads: None,
            interval: Duration::from_secs(60),
            log: None,
        }
    }

    /// Fails for a server without clients or connections.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.clients.is_empty() || self.connections == 0 {
            true => Err(Error::Usage("a server has clients and connections".into())),
            false => Ok(()),
        }
    }
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Clients that are connected.
    pub connected: u64,
    /// Connections so far.
    pub connections: u64,
    /// Questions that were answered.
    pub questions: u64,
    /// Queries in these; those of repeated questions count again.
    pub queries: u64,
    /// Questions among these that had been paid for before.
    pub repeated: u64,
    /// Questions that were withdrawn, which were asked in case they had been paid for.
    pub withdrawn: u64,
    /// Bytes of the set's files that were handed out.
    pub file_bytes: u64,
    /// Connections that ended with an error other than a lost connection.
    pub failures: u64,
    /// Queries that the key has answered in its life.
    pub answered: u64,
}

/// What a server tells while it serves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ServerEvent<'a> {
    /// What it has done so far: from time to time if something has happened, and at the end.
    Figures(&'a Figures),
    /// A client was refused because of what it has asked or said. At most once for each client in an interval of the service.
    Refused {
        /// Who.
        client: Fingerprint,
        /// Why.
        why: &'a WireError,
        /// How often this client was refused since the last time that this was told, without this one.
        untold: u64,
    },
}

#[derive(Default)]
struct Counters {
    connected: AtomicU64,
    connections: AtomicU64,
    questions: AtomicU64,
    queries: AtomicU64,
    repeated: AtomicU64,
    withdrawn: AtomicU64,
    file_bytes: AtomicU64,
    failures: AtomicU64,
}

impl Database {
    /// Fails if a service cannot be, as [`Database::serve`] does before it takes anybody.
    ///
    /// # Errors
    /// Usage: no clients or connections. Data: the files of the set are damaged, or not those that were published
    /// last, or the database is older than they are.
    pub fn check(&self, service: &Service) -> Result<(), Error> {
        service.check()?;
        let mut set = service.set.iter();
        set.try_for_each(|set| self.check_set(set))
    }

    /// Answers clients until the interrupt of the options is raised, and all clients have been told. Answers in the making are
    /// finished then, for at most five seconds, and a question of which nothing was answered is not counted.
    ///
    /// Clients send no heartbeats: one that asks nothing for the timeout of the options is left, whatever their patience, and so
    /// is one for which this side has waited as long as their deadline in all; `None` is ten times what its bytes take at
    /// 1 Mb/s, and at least an hour. What this side computes does not count.
    ///
    /// # Errors
    /// Network: nobody can connect. Usage or Resource: the count of queries cannot be written at the end. Data: the files of
    /// the set are damaged, or not those that were published last, or the database is older than they are.
    pub fn serve(
        &self,
        identity: &Identity,
        listener: &Listener,
        service: &Service,
        options: &ConnectOptions,
        tell: &(dyn Fn(ServerEvent<'_>) + Sync),
    ) -> Result<(), Error> {
        self.check(service)?;
        let server = &Server {
            tell: Some(tell),
            stop: options.interrupt.child(),
            ..Server::new(self, service, identity.fingerprint())
        };
        let stop = &server.stop;
        let until = &ConnectOptions {
            interrupt: server.end.clone(),
            ..options.clone()
        };
        let served = thread::scope(|scope| {
            let told = thread::Builder::new().name("figures".into());
            told.spawn_scoped(scope, || {
                let mut last = server.figures();
                while stop.pause(service.interval).is_ok() {
                    let now = server.figures();
                    if now != last {
                        tell(ServerEvent::Figures(&now));
                    }
                    last = now;
                }
                server.finish_answers();
                server.end.raise_as(stop);
            })
            .map_err(WireError::no_thread)?;
            let take = |connection: Connection| {
                while server.connected() >= service.connections {
                    stop.pause(POLL)?;
                }
                stop.check()?;
                server.counters.connections.fetch_add(1, Ordering::Relaxed);
                server.counters.connected.fetch_add(1, Ordering::SeqCst);
                let client = thread::Builder::new()
                    .name("client".into())
                    .stack_size(STACK);
                let spawned = client.spawn_scoped(scope, || server.attend(connection));
                if spawned.is_err() {
                    // The connection is gone with the thread that there is none of.
                    server.counters.connected.fetch_sub(1, Ordering::SeqCst);
                    server.counters.failures.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            };
            let served: Result<(), SessionError> =
                listener.serve(identity, &service.clients, Intent::Serve, until, take);
            // Whatever ended it ends the others.
            stop.raise_as(&options.interrupt);
            served
        });
        tell(ServerEvent::Figures(&server.figures()));
        self.quotas.close()?;
        match options.interrupt.is_raised() {
            true => Ok(()),
            false => Ok(served?),
        }
    }

    /// Answers one client over a channel of the caller's, as [`Database::serve`] answers many over TLS, whoever is on the list
    /// of the service.
    ///
    /// # Errors
    /// Always one: `Closed` once the client has left; `PeerMisbehaved`, Contract or Resource for what it has asked; those of
    /// the channel.
    pub fn answer(
        &self,
        identity: &Identity,
        channel: &mut FramedChannel,
        client: Fingerprint,
        service: &Service,
    ) -> Result<Infallible, WireError> {
        let held = &mut Held::new(None);
        Server::new(self, service, identity.fingerprint()).answer(channel, client, held)
    }
}

struct Server<'a> {
    database: &'a Database,
    service: &'a Service,
    public: Element,
    publisher: Fingerprint,
    turns: Turns,
    allowances: Allowances,
    counters: Counters,
    /// Connections of each client.
    open: Mutex<HashMap<Fingerprint, usize>>,
    tell: Option<&'a (dyn Fn(ServerEvent<'_>) + Sync)>,
    /// When a refusal of each client was last told, and how many have come since.
    refusals: Mutex<HashMap<Fingerprint, (Instant, u64)>>,
    /// Whether no more questions are taken.
    stopping: AtomicBool,
    /// Answers in the making.
    answering: AtomicU64,
    /// Has the server end.
    stop: Interrupt,
    /// Ends all connections.
    end: Interrupt,
}

impl Server<'_> {
    fn new<'a>(database: &'a Database, service: &'a Service, publisher: Fingerprint) -> Server<'a> {
        let threads = service
            .threads
            .or_else(|| thread::available_parallelism().ok());
        Server {
            database,
            service,
            public: database.secret.public_key(),
            publisher,
            turns: Turns::new(threads.map_or(1, NonZeroUsize::get)),
            allowances: Allowances::default(),
            counters: Counters::default(),
            open: Mutex::default(),
            tell: None,
            refusals: Mutex::default(),
            stopping: AtomicBool::new(false),
            answering: AtomicU64::new(0),
            stop: Interrupt::new(),
            end: Interrupt::new(),
        }
    }

    fn connected(&self) -> usize {
        self.counters.connected.load(Ordering::SeqCst) as usize
    }

    fn figures(&self) -> Figures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            connected: of(&self.counters.connected),
            connections: of(&self.counters.connections),
            questions: of(&self.counters.questions),
            queries: of(&self.counters.queries),
            repeated: of(&self.counters.repeated),
            withdrawn: of(&self.counters.withdrawn),
            file_bytes: of(&self.counters.file_bytes),
            failures: of(&self.counters.failures),
            answered: self.database.answered(),
        }
    }

    /// Answers a client until it leaves.
    fn attend(&self, mut connection: Connection) {
        if let Some(client) = connection.peer {
            let held = &mut Held::new(Some(connection.deadline()));
            let ended = match self.enter(client) {
                true => self.answer(&mut connection.channel, client, held),
                false => Err(WireError::limit(
                    Limit::System,
                    format!("one client has at most {MAX_OF_ONE} connections at once"),
                )),
            };
            self.leave(client);
            let Err(why) = ended;
            if !matches!(why, WireError::Closed) {
                let is_lost = matches!(why, WireError::Connection(_)) || why.is_interrupt();
                self.counters
                    .failures
                    .fetch_add((!is_lost).into(), Ordering::Relaxed);
                self.refused(client, &why);
                connection.channel.abort(&why);
            }
        }
        drop(connection);
        self.counters.connected.fetch_sub(1, Ordering::SeqCst);
    }

    /// Tells of a client that was refused, unless that was told a short while ago.
    fn refused(&self, client: Fingerprint, why: &WireError) {
        let (Some(tell), false) = (self.tell, is_of_the_client(why)) else {
            return;
        };
        let now = Instant::now();
        let mut refusals = lock(&self.refusals);
        let is_new = !refusals.contains_key(&client);
        let (told, count) = refusals.entry(client).or_insert((now, 0));
        if !is_new && now.duration_since(*told) < self.service.interval {
            *count += 1;
            return;
        }
        let untold = std::mem::take(count);
        *told = now;
        drop(refusals);
        tell(ServerEvent::Refused {
            client,
            why,
            untold,
        });
    }

    /// Has no more questions answered, and waits for those that are.
    fn finish_answers(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let until = Instant::now() + GRACE;
        while self.answering.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            thread::sleep(POLL);
        }
    }

    /// Counts a connection; returns whether the client may have so many.
    fn enter(&self, client: Fingerprint) -> bool {
        let mut open = lock(&self.open);
        let count = open.entry(client).or_default();
        *count += 1;
        *count <= MAX_OF_ONE
    }

    fn leave(&self, client: Fingerprint) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&client);
            }
        }
    }

    fn answer(
        &self,
        channel: &mut FramedChannel,
        client: Fingerprint,
        held: &mut Held,
    ) -> Result<Infallible, WireError> {
        let hello = held.wait(|| channel.recv(HELLO, MAX_HELLO_BYTES))?;
        let lacking = read_hello(&hello)?;
        let (quotas, quota) = (&self.database.quotas, self.service.quota);
        // The reason has paths of this machine.
        let release = self.database.release();
        let release = release
            .map_err(|_| WireError::limit(Limit::Storage, "the last release cannot be read"))?;
        let welcome = Welcome {
            key: self.public,
            left: quotas.left(client, quota),
            release,
        };
        channel.send(WELCOME, welcome.encode())?;
        if let Some(lacking) = lacking {
            self.hand_out(channel, client, lacking, release, held)?;
        }
        let mut in_vain = 0;
        loop {
            // A client that has nothing to ask is not waiting, and costs nothing.
            channel.rest(true);
            let question = held.wait(|| channel.recv(QUESTION, MAX_QUESTION_BYTES))?;
            held.bytes += 2 * question.len() as u64;
            channel.rest(false);
            let (cost, elements) = read_question(&question)?;
            let _answering = Answering::begin(self)?;
            let words = elements.as_flattened();
            let batch = blake3::derive_key("vesica/1 question of a look-up", words);
            let queries = elements.len() as u64;
            let debit = match cost {
                Cost::Queries => quotas.debit(client, quota, batch, queries)?,
                Cost::Nothing => quotas.recall(client, batch)?,
            };
            if let Some(log) = &self.service.log
                && debit != Debit::Withdrawn
                && let Err(error) = log.answers(client, queries)
            {
                if debit == Debit::Paid {
                    quotas.give_back(client, batch, queries);
                }
                return Err(error);
            }
            let answer = match debit {
                Debit::Paid | Debit::Repeated => self.evaluate(elements),
                Debit::Withdrawn => Ok(Vec::new()),
            };
            let sent = answer.and_then(|answer| held.wait(|| channel.send(ANSWER, answer)));
            if sent.as_ref().is_err_and(WireError::is_interrupt) && debit == Debit::Paid {
                // Nothing of the answer has left.
                quotas.give_back(client, batch, queries);
            }
            sent?;
            held.wait(|| channel.flush())?;
            if debit == Debit::Withdrawn {
                self.counters.withdrawn.fetch_add(1, Ordering::Relaxed);
                in_vain += 1;
                if in_vain > MAX_IN_VAIN {
                    let reason = format!("more than {MAX_IN_VAIN} questions were not paid for");
                    return Err(WireError::limit(Limit::Queries, reason));
                }
                continue;
            }
            let count = |counter: &AtomicU64, by| counter.fetch_add(by, Ordering::Relaxed);
            count(&self.counters.questions, 1);
            count(&self.counters.queries, queries);
            count(&self.counters.repeated, (debit == Debit::Repeated).into());
        }
    }

    /// Sends the files of the releases from one on, of which the client may have the beginning. A part is read when it is this
    /// client's turn, among those who ask, and goes before the next is read: nobody else waits for longer than that, and
    /// no more of a file is in memory.
    fn hand_out(
        &self,
        channel: &mut FramedChannel,
        client: Fingerprint,
        lacking: Lacking,
        last: u64,
        held: &mut Held,
    ) -> Result<(), WireError> {
        let set = self.service.set.as_ref();
        let none = "this server hands out no files of the set: get them in another way";
        let set = set.ok_or_else(|| impossible("files of the set", none.into()))?;
        // The reasons have paths of this machine.
        let unreadable = |_| WireError::limit(Limit::Storage, "the set cannot be read");
        let length = |release| Ok(release_path(set, release).metadata()?.len());
        let lengths = (1..=last).map(length).sum::<io::Result<u64>>();
        let allowed = lengths.map_err(unreadable)?.saturating_mul(FILES_A_DAY);
        for release in lacking.release..=last {
            let path = release_path(set, release);
            let mut file = open_regular(&path).map_err(unreadable)?;
            let length = file.metadata().map_err(unreadable)?.len();
            let head = read_head(&mut file, &path, self.publisher);
            let (header, _) = head.map_err(|_| unreadable(io::ErrorKind::InvalidData.into()))?;
            let goes_on = release == lacking.release
                && lacking.offset <= length
                && lacking.hash == header.hash();
            let offset = if goes_on { lacking.offset } else { 0 };
            let announced = Announced { length, offset };
            held.bytes += length - offset;
            channel.send(FILE, announced.encode())?;
            file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
            for bytes in announced.parts() {
                self.allowances.debit(client, bytes as u64, allowed)?;
                let part = self.turns.take(|| {
                    let mut part = vec![0; bytes];
                    file.read_exact(&mut part).map(|()| part)
                });
                let part = part.map_err(unreadable)?;
                held.wait(|| channel.send(PART, part).and_then(|()| channel.flush()))?;
                let counter = &self.counters.file_bytes;
                counter.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The answer to a question: the values, and the proof that they are under the published key. Of a question that waits
    /// for its turn there is no more in memory than its bytes and those of the answer.
    fn evaluate(&self, question: &[[u8; ELEMENT_BYTES]]) -> Result<Vec<u8>, WireError> {
        let mut answer = Vec::with_capacity(question.len() * ELEMENT_BYTES + PROOF_BYTES);
        let mut batch = self.database.secret.batch();
        for part in question.chunks(TURN) {
            let evaluated = self.turns.take(|| {
                self.end.check()?;
                let blinded = decode(QUESTION.name, part)?;
                Ok::<_, WireError>(encode(&batch.evaluate(&blinded)))
            });
            answer.extend_from_slice(&evaluated?);
        }
        let mut rng = random::fresh_rng()?;
        let proof = self.turns.take(|| batch.prove(&mut rng));
        answer.extend_from_slice(&proof);
        Ok(answer)
    }
}

/// How long this side has waited for a client, and how many bytes go to and fro.
struct Held {
    deadline: Option<Deadline>,
    waited: Duration,
    bytes: u64,
}

impl Held {
    fn new(deadline: Option<Deadline>) -> Held {
        Held {
            deadline,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Waits for the client once more, within what is left of its time.
    fn wait<T>(&mut self, wait: impl FnOnce() -> Result<T, WireError>) -> Result<T, WireError> {
        let now = Instant::now();
        let since = now.checked_sub(self.waited).unwrap_or(now);
        if let Some(deadline) = &self.deadline {
            deadline.of_exchange(since, self.bytes, 0);
        }
        let done = wait();
        self.waited = since.elapsed();
        done
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer in the making.
struct Answering<'a>(&'a AtomicU64);

impl<'a> Answering<'a> {
    /// Fails if no more questions are taken.
    fn begin(server: &'a Server<'_>) -> Result<Answering<'a>, WireError> {
        server.answering.fetch_add(1, Ordering::SeqCst);
        let answering = Answering(&server.answering);
        match server.stopping.load(Ordering::SeqCst) {
            true => Err(server.stop.check().err().unwrap_or(WireError::Stopped)),
            false => Ok(answering),
        }
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether a client has ended its connection, or the network has.
fn is_of_the_client(why: &WireError) -> bool {
    matches!(why, WireError::PeerAborted { .. }) || why.blame() == Blame::Network
}

/// Bytes of files that each client has got, and since when.
#[derive(Default)]
struct Allowances(Mutex<HashMap<Fingerprint, (Instant, u64)>>);

impl Allowances {
    /// Fails if a client gets more bytes than it is allowed within a day.
    fn debit(&self, client: Fingerprint, bytes: u64, allowed: u64) -> Result<(), WireError> {
        let mut clients = lock(&self.0);
        let now = Instant::now();
        let (since, used) = clients.entry(client).or_insert((now, 0));
        if now.duration_since(*since) >= DAY {
            (*since, *used) = (now, 0);
        }
        if *used + bytes > allowed {
            let reason = format!(
                "one client gets at most {FILES_A_DAY} times the bytes of the files in a day"
            );
            return Err(WireError::limit(Limit::Queries, reason));
        }
        *used += bytes;
        Ok(())
    }
}

/// Turns to compute: as many at once as there are threads for it, in the order in which they were asked for.
struct Turns(Mutex<Waiting>);

struct Waiting {
    free: usize,
    queue: VecDeque<Arc<Waiter>>,
}

#[derive(Default)]
struct Waiter {
    called: Mutex<bool>,
    call: Condvar,
}

impl Turns {
    fn new(free: usize) -> Turns {
        let queue = VecDeque::new();
        Turns(Mutex::new(Waiting { free, queue }))
    }

    /// Computes something when it is this thread's turn.
    fn take<T>(&self, compute: impl FnOnce() -> T) -> T {
        let _turn = self.wait();
        compute()
    }

    fn wait(&self) -> Turn<'_> {
        let mut waiting = lock(&self.0);
        if waiting.free > 0 {
            waiting.free -= 1;
            return Turn(self);
        }
        let waiter = Arc::new(Waiter::default());
        waiting.queue.push_back(Arc::clone(&waiter));
        drop(waiting);
        let called = lock(&waiter.called);
        let called = waiter.call.wait_while(called, |called| !*called);
        drop(called.unwrap_or_else(PoisonError::into_inner));
        Turn(self)
    }
}

/// A turn, which the next in the queue gets when this ends.
struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.0);
        match waiting.queue.pop_front() {
            Some(waiter) => {
                *lock(&waiter.called) = true;
                waiter.call.notify_one();
            }
            None => waiting.free += 1,
        }
    }
}
