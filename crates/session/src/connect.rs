//! Making the connection: who listens, who connects, and over what.
//!
//! Either role of the job may listen. A listening side turns away everyone but its peer and goes on waiting
//! ([`crate::Listener`]). A connecting side retries, and stops early only for what waiting cannot fix: a
//! listener that has proved another identity than the pinned one, the pinned listener refusing ours or having come for
//! something else, or a service that is not this program. Only a listener that has proved its key can refuse ours; an alert from
//! anybody else is a failed attempt like any other.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::panic::resume_unwind;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use vesica_files::is_exhausted;
use vesica_wire::{Error as WireError, POLL};

use crate::gateway::Visited;
use crate::listener::check_different;
use crate::tls::{self, Failure, Pinned, Secured, Side};
use crate::wait::Wait;
use crate::{
    BoundListener, ConnectOptions, Connection, Error, Fingerprint, Identity, Incident, Intent,
    Listener, NoConnection, Role, Transport, Visit,
};

/// Which side of the connection a party is; independent of its role in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Waits on this address (`host:port`; port 0 picks a free one).
    Listen(String),
    /// Waits on an address that is bound already.
    Bound(BoundListener),
    /// Connects to this address (`host:port`), retrying until the wait is over.
    Connect(String),
    /// There is no connection: somebody carries messages.
    Courier,
}

impl Endpoint {
    /// Closes the port of a listener that is bound already and that no run has taken.
    pub fn close(&self) {
        if let Endpoint::Bound(listener) = self {
            drop(listener.take());
        }
    }
}

/// The address.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Listen(address) | Endpoint::Connect(address) => f.write_str(address),
            Endpoint::Bound(listener) => listener.local_addr().fmt(f),
            Endpoint::Courier => f.write_str("a courier"),
        }
    }
}

/// Longest time of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Longest time that a listener may take to answer a handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Pauses between attempts double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Makes the connection: [`Listener::bind`] and [`Listener::accept`] for [`Endpoint::Listen`], the latter
/// alone for [`Endpoint::Bound`], attempts until the wait is over for [`Endpoint::Connect`]. Either side then stays with its
/// peer until it is [ready](ConnectOptions::ready) itself, and meets it again if it leaves.
///
/// Fails with [`Error::WrongPeer`] or [`Error::RefusedByPeer`] when fingerprints do not match, with
/// [`Error::Connect`] when the address is bad, taken, used by another program or by nobody, and when
/// interrupted.
pub fn connect(
    endpoint: &Endpoint,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    match endpoint {
        Endpoint::Listen(address) => Listener::bind(address)?.accept(transport, options),
        Endpoint::Bound(listener) => listener.take()?.accept(transport, options),
        Endpoint::Connect(address) => dial(address, None, transport, options),
        Endpoint::Courier => Err(Error::Usage("a courier is no connection".into())),
    }
}

/// Makes the connection of a task to the peer's task for the same bucket and attempt, at the gateway at `address`, with
/// attempts until the wait is over. A peer that leaves before the connection is secure may come again.
///
/// Fails as [`connect`] does, and with [`Error::NotAdmitted`].
pub fn connect_through(
    address: &str,
    visit: &Visit,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    dial(address, Some(visit), transport, options)
}

/// Accepts one peer and connects to the other at `endpoint`, whichever of the two comes first. Returns their connections in
/// the order of `peers`.
///
/// Fails as [`Listener::accept_all`] and [`connect`] do, with what has failed first; the other is not waited for then. Two
/// peers with one identity are refused before.
pub fn accept_and_connect(
    listener: Listener,
    endpoint: &Endpoint,
    identity: &Identity,
    peers: [Fingerprint; 2],
    intent: Intent,
    options: &ConnectOptions,
) -> Result<Vec<Connection>, Error> {
    check_different(&peers)?;
    let [comes, peer] = peers;
    let transport = Transport::Tls {
        identity,
        peer,
        intent,
    };
    let options = &ConnectOptions {
        interrupt: options.interrupt.child(),
        ..options.clone()
    };
    let first = OnceLock::new();
    let failed = |error: Error| {
        // The other one then fails with having been stopped.
        let _ = first.set(error);
        options.interrupt.stop();
    };
    let met: Option<Vec<Connection>> = thread::scope(|scope| {
        let dial = || connect(endpoint, &transport, options).map_err(failed).ok();
        let dialing = thread::Builder::new()
            .name("vesica-connect".into())
            .spawn_scoped(scope, dial)
            .map_err(|e| failed(WireError::no_thread(e).into()))
            .ok()?;
        let accepted = listener.accept_all(identity, &[comes], intent, options);
        let accepted = accepted.map_err(failed).ok();
        let dialed = dialing.join().unwrap_or_else(|panic| resume_unwind(panic));
        Some(accepted?.into_iter().chain([dialed?]).collect())
    });
    met.ok_or_else(|| first.into_inner().unwrap_or(WireError::Stopped.into()))
}

fn dial(
    address: &str,
    visit: Option<&Visit>,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    let wait = Wait::new(options);
    let mut rest = FIRST_PAUSE;
    let mut last: Option<Problem> = None;
    let (mut told, mut left, mut crossed) = (None, String::new(), None);
    loop {
        let problem = match try_once(address, visit, transport, &wait, options) {
            // Whom this side seeks may listen there next.
            Err(error @ Error::WrongPeer { got, .. }) if options.known.contains(&got) => {
                let problem = Problem::other(&error);
                crossed = Some(error);
                problem
            }
            Err(error) => return Err(error),
            Ok(Tried::Met(connection)) => match stay(*connection, options)? {
                Ok(connection) => return Ok(connection),
                Err(incident) => {
                    rest = FIRST_PAUSE;
                    options.on_incident.report(&incident);
                    match &incident {
                        Incident::PeerProblem(problem) => told = Some(*problem),
                        Incident::PeerLeft(why) => left = format!(", after it had left ({why})"),
                        _ => {}
                    }
                    Problem::other(incident)
                }
            },
            Ok(Tried::Failed(problem)) => match last {
                // Time may have run out in the middle of this attempt: a cause that the one before found says more.
                Some(found)
                    if wait.is_last()
                        && problem.cause == NoConnection::Other
                        && found.cause != NoConnection::Other =>
                {
                    found
                }
                _ => problem,
            },
            Ok(Tried::GivenUp) => last.unwrap_or_else(Problem::given_up),
        };
        if let Some(error) = crossed.take_if(|_| wait.is_last()) {
            return Err(error);
        }
        if let Some(problem) = told.filter(|_| wait.is_last()) {
            return Err(Error::PeerProblem(problem));
        }
        if wait.is_last() {
            let waited = options.wait.as_secs_f32();
            let line = format!("{}{left} (tried for {waited} s)", problem.line);
            let cause = match problem.cause {
                NoConnection::NobodyListens if visit.is_some() => NoConnection::NoGatewayListens,
                cause => cause,
            };
            return Err(cannot_connect(address, &Problem { cause, line }));
        }
        last = Some(problem);
        pause(&wait, rest)?;
        rest = (rest * 2).min(LAST_PAUSE);
    }
}

/// Stays with the peer until this side is ready or gives up. Gives what became of the peer, if it has left.
fn stay(
    mut connection: Connection,
    options: &ConnectOptions,
) -> Result<Result<Connection, Incident>, Error> {
    while !options.ready.is_settled() {
        if let Some(incident) = connection.stay(POLL)? {
            return Ok(Err(incident));
        }
    }
    Ok(Ok(connection))
}

/// One attempt of [`connect`] to reach a listener at `address`.
///
/// Fails as [`connect`] does.
pub fn connect_once(
    address: &str,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    match try_once(address, None, transport, &Wait::new(options), options)? {
        Tried::Met(connection) => Ok(*connection),
        Tried::Failed(problem) => Err(cannot_connect(address, &problem)),
        Tried::GivenUp => Err(cannot_connect(address, &Problem::given_up())),
    }
}

/// What keeps an attempt from succeeding.
struct Problem {
    cause: NoConnection,
    line: String,
}

impl Problem {
    fn other(line: impl fmt::Display) -> Problem {
        Problem {
            cause: NoConnection::Other,
            line: line.to_string(),
        }
    }

    fn given_up() -> Problem {
        Problem::other("the attempt was given up")
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        let cause = match failure {
            Failure::Foreign(_) => NoConnection::OtherProgram,
            Failure::Alert(_) => NoConnection::Unproved,
            _ => NoConnection::Other,
        };
        Problem {
            cause,
            ..Problem::other(failure)
        }
    }
}

fn cannot_connect(address: &str, Problem { cause, line }: &Problem) -> Error {
    cause.error(match cause {
        NoConnection::NotPaired | NoConnection::NoGateway => {
            format!("the gateway at {address} {line}")
        }
        _ => format!("cannot connect to {address}: {line}"),
    })
}

/// What became of an attempt after which another may succeed.
enum Tried {
    Met(Box<Connection>),
    Failed(Problem),
    /// The wait is over.
    GivenUp,
}

fn try_once(
    address: &str,
    visit: Option<&Visit>,
    transport: &Transport<'_>,
    wait: &Wait<'_>,
    options: &ConnectOptions,
) -> Result<Tried, Error> {
    let cannot = |e: &io::Error| {
        let error = cannot_connect(address, &Problem::other(e));
        Error::limit_or(e, error.to_string(), |_| error)
    };
    let (stream, round_trip) = match attempt(address, wait)? {
        Attempt::Hopeless(problem) => return Err(cannot_connect(address, &problem)),
        Attempt::Exhausted(e) => return Err(cannot(&e)),
        Attempt::Failed(problem) => return Ok(Tried::Failed(problem)),
        Attempt::GivenUp => return Ok(Tried::GivenUp),
        Attempt::Open(stream, round_trip) => (stream, round_trip),
    };
    let secured = match visit {
        None => {
            let limit = wait.limit(HANDSHAKE);
            secure(
                stream,
                Side::Connector,
                transport,
                &|| limit.is_over(),
                options,
            )
        }
        Some(visit) => {
            if let Visited::Failed(cause, line) = visit.pay(&stream, address, wait)? {
                return Ok(Tried::Failed(Problem { cause, line }));
            }
            let side = match visit.role {
                Role::Receiver => Side::Connector,
                Role::Sender => Side::Listener,
            };
            // Both have come within the wait, and this takes the time that it takes.
            let met = options.clock.now();
            let is_over = || options.clock.since(met) >= HANDSHAKE;
            secure(stream, side, transport, &is_over, options)
        }
    };
    match secured {
        Ok((stream, secured)) => Connection::over(stream, secured, round_trip, transport, options)
            .map(|connection| Tried::Met(Box::new(connection)))
            .map_err(|e| cannot(&e)),
        Err(failure) => match verdict(failure, transport)? {
            foreign @ Failure::Foreign(_) => Err(cannot_connect(address, &foreign.into())),
            other => Ok(Tried::Failed(other.into())),
        },
    }
}

/// Secures a fresh stream to the peer.
fn secure(
    stream: TcpStream,
    side: Side,
    transport: &Transport<'_>,
    is_over: &dyn Fn() -> bool,
    options: &ConnectOptions,
) -> Result<(TcpStream, Option<Secured>), Failure> {
    match transport {
        Transport::Tls {
            identity,
            peer,
            intent,
        } => {
            let pinned = Pinned {
                expected: &[*peer],
                known: &options.known,
            };
            let interrupt = &options.interrupt;
            tls::handshake(stream, side, identity, pinned, *intent, is_over, interrupt)
                .map(|(stream, secured)| (stream, Some(secured)))
        }
        Transport::PlaintextForBenchmarksOnly => Ok((stream, None)),
    }
}

/// What a failed handshake with the peer means: an error that ends the attempts, or a failure after
/// which another may succeed.
fn verdict(failure: Failure, transport: &Transport<'_>) -> Result<Failure, Error> {
    match (failure, transport) {
        (Failure::Interrupted(why), _) => Err(why.into()),
        (Failure::Stray(stray), _) => Err(stray.error.into()),
        (Failure::WrongPeer(got), Transport::Tls { peer, .. }) => Err(Error::WrongPeer {
            expected: *peer,
            got,
        }),
        (Failure::Refused, Transport::Tls { identity, .. }) => Err(Error::RefusedByPeer {
            ours: identity.fingerprint(),
        }),
        (failure, _) => Ok(failure),
    }
}

fn pause(wait: &Wait<'_>, rest: Duration) -> Result<(), Error> {
    let limit = wait.limit(rest);
    while !limit.is_over() && !wait.is_last() {
        wait.check_interrupt()?;
        std::thread::sleep(POLL.min(rest));
    }
    wait.check_interrupt()
}

enum Attempt {
    /// A connection, and how long that took: a round trip.
    Open(TcpStream, Duration),
    /// Worth another try.
    Failed(Problem),
    /// The address itself is wrong.
    Hopeless(Problem),
    /// This machine has met a limit.
    Exhausted(io::Error),
    /// The wait is over.
    GivenUp,
}

/// Tries every address of the name once.
///
/// Name lookups and connects cannot be interrupted, so a separate thread makes them; an abandoned one ends at
/// its own time limit.
fn attempt(address: &str, wait: &Wait<'_>) -> Result<Attempt, Error> {
    let (result, outcome) = mpsc::channel();
    let name = address.to_owned();
    std::thread::Builder::new()
        .name("vesica-connect".into())
        .spawn(move || {
            // If nobody waits any longer, there is nothing to do.
            let _ = result.send(try_addresses(&name));
        })
        .map_err(WireError::no_thread)?;
    loop {
        wait.check_interrupt()?;
        match outcome.recv_timeout(POLL) {
            Ok(attempt) => return Ok(attempt),
            Err(mpsc::RecvTimeoutError::Timeout) if !wait.is_over() => {}
            Err(_) => return Ok(Attempt::GivenUp),
        }
    }
}

fn try_addresses(name: &str) -> Attempt {
    let addresses = match name.to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(e) if is_exhausted(&e) => return Attempt::Exhausted(e),
        // A name that cannot be looked up now may be known before the timeout.
        Err(e) if e.kind() != io::ErrorKind::InvalidInput => {
            return Attempt::Failed(Problem::other(format!("cannot look up the name: {e}")));
        }
        Err(e) => return Attempt::Hopeless(Problem::other(format!("bad address: {e}"))),
    };
    let mut problem = Problem::other("the name has no address");
    for address in addresses {
        let began = Instant::now();
        match TcpStream::connect_timeout(&address, ATTEMPT) {
            Ok(stream) => return Attempt::Open(stream, began.elapsed()),
            Err(e) if is_exhausted(&e) => return Attempt::Exhausted(e),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                problem = Problem {
                    cause: NoConnection::NobodyListens,
                    line: format!("nobody listens on {address}"),
                };
            }
            Err(e) => problem = Problem::other(format!("{address}: {e}")),
        }
    }
    Attempt::Failed(problem)
}
