//! The gateway's side.
//!
//! One thread accepts, hears answers and keeps those who wait; each pair has two more, which copy. Nobody who has not
//! proved to be a task of a job takes more than one of [`MAX_STRANGERS`] sockets, for [`ANSWERING`] at most.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use vesica_wire::{Interrupt, POLL, socket};

use super::{ANSWER, Admission, CHALLENGE, GREETING, MAGIC, Verdict};
use crate::listener::bind;
use crate::{Error, Role, random};

/// Connections at once that have not answered yet.
const MAX_STRANGERS: usize = 128;
/// Longest time for an answer.
const ANSWERING: Duration = Duration::from_secs(5);
/// Time between two looks at those who wait.
const WATCH: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_millis(1);
/// Bytes that are copied at a time, in each direction.
const BUFFER: usize = 64 << 10;
/// Bytes of the stack of a thread that copies.
const STACK: usize = 128 << 10;

/// How a gateway serves.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Pairs at once, those among them whose second task has not come yet.
    pub pairs: usize,
    /// Longest time for which a task waits for the other side's.
    pub wait: Duration,
    /// Longest silence of a task in a pair. A task at work says every second that it is alive.
    pub timeout: Duration,
    /// Time between two calls for figures.
    pub interval: Duration,
    /// Stops the gateway in order when raised: nobody is taken any more, those who wait are told, and pairs go on until
    /// they are done.
    pub interrupt: Interrupt,
}

/// What a gateway has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayFigures {
    /// Pairs at the moment.
    pub running: u64,
    /// Tasks that wait for the other side's.
    pub waiting: u64,
    /// Pairs so far.
    pub pairs: u64,
    /// Answers that were turned away, and connections that gave none.
    pub refused: u64,
    /// Bytes that were passed on, both directions together.
    pub bytes: u64,
}

/// A bound gateway.
#[derive(Debug)]
pub struct Gateway {
    socket: TcpListener,
    address: SocketAddr,
    jobs: Vec<Admission>,
}

/// A connection that has not answered.
struct Stranger {
    stream: TcpStream,
    since: Instant,
    greeting: [u8; GREETING],
    answer: [u8; ANSWER],
    heard: usize,
}

/// A task whose peer has not come.
struct Waiting {
    stream: TcpStream,
    since: Instant,
    role: Role,
}

/// A place at which two tasks meet: the number of the job, bucket and attempt.
type Place = (usize, u32, u32);

#[derive(Default)]
struct Counters {
    running: AtomicUsize,
    bytes: AtomicU64,
}

/// What the serving thread holds.
struct Desk<'a> {
    socket: TcpListener,
    jobs: &'a [Admission],
    options: &'a GatewayOptions,
    counters: &'a Counters,
    strangers: Vec<Stranger>,
    waiting: HashMap<Place, Waiting>,
    pairs: u64,
    refused: u64,
}

impl Gateway {
    /// Binds `address` (`host:port`; port 0 picks a free one) for the tasks of these jobs.
    ///
    /// Fails with [`Error::Connect`] when the address is bad or taken, and with [`Error::Usage`] without jobs, or with one
    /// twice.
    pub fn bind(address: &str, jobs: Vec<Admission>) -> Result<Gateway, Error> {
        let repeats = |(at, job): (usize, &Admission)| jobs[..at].iter().any(|o| o.job == job.job);
        if jobs.is_empty() || jobs.iter().enumerate().any(repeats) {
            return Err(Error::Usage("a gateway is for jobs, each once".into()));
        }
        let (socket, address) = bind(address)?;
        Ok(Gateway {
            socket,
            address,
            jobs,
        })
    }

    /// The address that is bound, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Pairs tasks until the interrupt of the options is raised, and all pairs are done. `tell` gets figures from time to time
    /// if they have changed, and at the end.
    ///
    /// # Errors
    /// Resource: the system has no randomness.
    pub fn serve(
        self,
        options: &GatewayOptions,
        tell: &dyn Fn(&GatewayFigures),
    ) -> Result<(), Error> {
        let (jobs, counters) = (self.jobs, Counters::default());
        let (served, figures) = thread::scope(|scope| {
            let mut desk = Desk {
                socket: self.socket,
                jobs: &jobs,
                options,
                counters: &counters,
                strangers: Vec::new(),
                waiting: HashMap::new(),
                pairs: 0,
                refused: 0,
            };
            let served = desk.serve(scope, tell);
            (served, desk.close())
        });
        tell(&GatewayFigures {
            running: 0,
            bytes: counters.bytes.load(Ordering::Relaxed),
            ..figures
        });
        match options.interrupt.is_raised() {
            true => Ok(()),
            false => served,
        }
    }
}

impl<'a> Desk<'a> {
    fn serve<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        tell: &dyn Fn(&GatewayFigures),
    ) -> Result<(), Error>
    where
        'a: 'scope,
    {
        let (mut told, mut last) = (Instant::now(), self.figures());
        let mut watched = Instant::now();
        loop {
            self.options.interrupt.check()?;
            let mut moved = self.accept()?;
            moved |= self.hear(scope);
            if watched.elapsed() >= WATCH {
                self.watch();
                watched = Instant::now();
            }
            if told.elapsed() >= self.options.interval {
                let now = self.figures();
                if now != last {
                    tell(&now);
                }
                (told, last) = (Instant::now(), now);
            }
            if !moved {
                let is_idle = self.strangers.is_empty();
                thread::sleep(if is_idle { POLL / 5 } else { TICK });
            }
        }
    }

    /// Tells those who wait that this is the end, and closes the port.
    fn close(mut self) -> GatewayFigures {
        for (_, waiting) in self.waiting.drain() {
            say(&waiting.stream, Verdict::Stopping);
        }
        self.figures()
    }

    fn figures(&self) -> GatewayFigures {
        GatewayFigures {
            running: self.counters.running.load(Ordering::Relaxed) as u64,
            waiting: self.waiting.len() as u64,
            pairs: self.pairs,
            refused: self.refused,
            bytes: self.counters.bytes.load(Ordering::Relaxed),
        }
    }

    /// Lets some of those in who have come. Where there is no room, the oldest stranger makes it.
    fn accept(&mut self) -> Result<bool, Error> {
        for count in 0..MAX_STRANGERS {
            // A lack of descriptors may pass, and a connection that has ended is nobody's.
            let Ok((stream, _)) = self.socket.accept() else {
                return Ok(count > 0);
            };
            let mut challenge = [0; CHALLENGE];
            random::fill(&mut challenge)?;
            let mut greeting = [0; GREETING];
            greeting[..MAGIC.len()].copy_from_slice(&MAGIC);
            greeting[MAGIC.len()..].copy_from_slice(&challenge);
            if greet(&stream, &greeting).is_err() {
                self.refused += 1;
                continue;
            }
            if self.strangers.len() >= MAX_STRANGERS {
                self.strangers.remove(0);
                self.refused += 1;
            }
            self.strangers.push(Stranger {
                stream,
                since: Instant::now(),
                greeting,
                answer: [0; ANSWER],
                heard: 0,
            });
        }
        Ok(true)
    }

    /// Hears what strangers have to say; returns whether one has said something.
    fn hear<'scope>(&mut self, scope: &'scope Scope<'scope, '_>) -> bool
    where
        'a: 'scope,
    {
        let (mut moved, mut index) = (false, 0);
        while let Some(stranger) = self.strangers.get_mut(index) {
            let heard = (&stranger.stream).read(&mut stranger.answer[stranger.heard..]);
            let stays = match heard {
                Ok(0) => false,
                Ok(count) => {
                    moved = true;
                    stranger.heard += count;
                    stranger.heard < ANSWER
                }
                Err(e) => passes(&e),
            };
            if stays && stranger.since.elapsed() < ANSWERING {
                index += 1;
                continue;
            }
            let stranger = self.strangers.remove(index);
            match stranger.heard == ANSWER {
                true => self.judge(stranger, scope),
                false => self.refused += 1,
            }
        }
        moved
    }

    fn judge<'scope>(&mut self, stranger: Stranger, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        let mut jobs = self.jobs.iter().enumerate();
        let proved = jobs.find_map(|(number, job)| {
            let (role, attempt) = job.check(&stranger.greeting, &stranger.answer)?;
            Some((number, role, attempt))
        });
        let Some((number, role, attempt)) = proved else {
            return self.refuse(&stranger.stream, Verdict::Unknown);
        };
        let place = (number, attempt.bucket, attempt.number);
        let waiting = self.waiting.get(&place).map(|waiting| waiting.role);
        if waiting.is_some_and(|waiting| waiting != role) {
            return self.pair(place, stranger.stream, scope);
        }
        if waiting.is_none() && self.is_full() {
            return self.refuse(&stranger.stream, Verdict::Full);
        }
        let waiting = Waiting {
            stream: stranger.stream,
            since: Instant::now(),
            role,
        };
        // Whoever comes later is there, which is not sure of one whose machine may be lost.
        if let Some(earlier) = self.waiting.insert(place, waiting) {
            self.refuse(&earlier.stream, Verdict::Replaced);
        }
    }

    fn refuse(&mut self, stream: &TcpStream, verdict: Verdict) {
        say(stream, verdict);
        self.refused += 1;
    }

    fn is_full(&self) -> bool {
        self.counters.running.load(Ordering::Relaxed) + self.waiting.len() >= self.options.pairs
    }

    /// Brings two tasks together, of which one waits.
    fn pair<'scope>(&mut self, place: Place, second: TcpStream, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        let Some(first) = self.waiting.remove(&place) else {
            return;
        };
        self.pairs += 1;
        let timeout = self.options.timeout;
        let streams = [first.stream, second];
        // A task that has gone meanwhile ends the pair as one that goes later does.
        let told = streams.iter().map(|stream| say(stream, Verdict::Paired));
        let is_told = told.fold(true, |all, is_told| all & is_told);
        if !is_told || streams.iter().any(|stream| block(stream, timeout).is_err()) {
            return;
        }
        let pair = Arc::new(Pair {
            streams,
            counters: self.counters,
        });
        self.counters.running.fetch_add(1, Ordering::Relaxed);
        for from in [0, 1] {
            let copying = Arc::clone(&pair);
            let builder = thread::Builder::new().name("pair".into()).stack_size(STACK);
            // Where there is no thread for it, the pair ends, and both tasks notice.
            if (builder.spawn_scoped(scope, move || copying.copy(from))).is_err() {
                pair.end();
            }
        }
    }

    /// Drops those who have left, who speak before they are told, and who have waited for too long.
    fn watch(&mut self) {
        let most = self.options.wait;
        self.waiting.retain(|_, waiting| {
            let is_silent = matches!(waiting.stream.peek(&mut [0]), Err(e) if passes(&e));
            if is_silent && waiting.since.elapsed() >= most {
                say(&waiting.stream, Verdict::Alone);
                return false;
            }
            is_silent
        });
    }
}

/// Two tasks that have met.
struct Pair<'a> {
    streams: [TcpStream; 2],
    counters: &'a Counters,
}

impl Pair<'_> {
    /// Passes on what one of the two says, until it has said everything.
    fn copy(&self, from: usize) {
        let [mut source, mut target] = [&self.streams[from], &self.streams[1 - from]];
        let mut buffer = vec![0; BUFFER];
        let mut copy = || -> io::Result<()> {
            loop {
                let count = match source.read(&mut buffer) {
                    Ok(0) => return target.shutdown(Shutdown::Write),
                    Ok(count) => count,
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    Err(e) => return Err(e),
                };
                target.write_all(&buffer[..count])?;
                self.counters
                    .bytes
                    .fetch_add(count as u64, Ordering::Relaxed);
            }
        };
        if copy().is_err() {
            self.end();
        }
    }

    fn end(&self) {
        for stream in &self.streams {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        self.counters.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a connection that has nothing to read is still open.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Sends the greeting, which fits into an empty buffer of the system.
fn greet(stream: &TcpStream, greeting: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    socket::keep_alive(stream);
    let mut stream = stream;
    stream.write_all(greeting)
}

/// Sends a verdict; returns whether it is on its way.
fn say(mut stream: &TcpStream, verdict: Verdict) -> bool {
    matches!(stream.write(&[verdict as u8]), Ok(1))
}

fn block(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}
