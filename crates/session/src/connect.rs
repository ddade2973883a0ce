//! Making the connection: who listens, who connects, and over what.
//!
//! Either role of the job may listen. A listening side turns away everyone but its peer and goes on waiting
//! ([`crate::Listener`]). A connecting side retries, and stops early only for what waiting cannot fix: a
//! listener that has proved another identity than the pinned one, the pinned listener refusing ours or having come for
//! something else, or a service that is not this program. Only a listener that has proved its key can refuse ours; an alert from
//! anybody else is a failed attempt like any other.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::panic::resume_unwind;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use vesica_files::is_exhausted;
use vesica_wire::{Error as WireError, POLL};

use crate::address::Web;
use crate::carrier::Carrier;
use crate::error::Closed;
use crate::gateway::Visited;
use crate::listener::check_different;
use crate::proxy::parts;
use crate::tls::{self, Failure, Pinned, Secured, Side};
use crate::tunnel::{self, Target};
use crate::wait::Wait;
use crate::{
    Address, BoundListener, ConnectOptions, Connection, Error, Fingerprint, Identity, Incident,
    Intent, Listener, NoConnection, Proxy, Role, Transport, Visit, outer, web_request,
};

/// Which side of the connection a party is; independent of its role in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Waits on this address (`host:port`; port 0 picks a free one).
    Listen(String),
    /// Waits on an address that is bound already.
    Bound(BoundListener),
    /// Connects to this [`Address`], retrying until the wait is over.
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
/// Time after which the next address of a name is tried beside the ones before (RFC 8305, section 8).
const STAGGER: Duration = Duration::from_millis(250);
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
                        && [NoConnection::Other, NoConnection::Proxy].contains(&problem.cause)
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
    let place: Address = address.parse()?;
    let pinned = match transport {
        Transport::Tls { identity, peer, .. } => options.pinned(identity, *peer)?,
        Transport::PlaintextForBenchmarksOnly => Vec::new(),
    };
    let proxy = options.proxies.of(place.place())?;
    let (stream, mut round_trip, target) = match attempt(place.place(), proxy.as_ref(), wait)? {
        Attempt::Hopeless(problem) => return Err(cannot_connect(address, &problem)),
        Attempt::Exhausted(e) => return Err(cannot(&e)),
        Attempt::Failed(problem) => return Ok(Tried::Failed(problem)),
        Attempt::GivenUp => return Ok(Tried::GivenUp),
        Attempt::Open(stream, round_trip, target) => (stream, round_trip, target),
    };
    if let Err(e) = tls::block(&stream) {
        return Err(cannot(&e));
    }
    let mut carrier = Carrier::of(stream);
    if let Some(proxy) = &proxy {
        let asked = Instant::now();
        let opened = tunnel::open(proxy, &mut carrier, &target, &options.authorities, wait)?;
        if let Err((cause, line)) = opened {
            return Ok(Tried::Failed(Problem { cause, line }));
        }
        round_trip = asked.elapsed();
    }
    if let Some(web) = &place.web
        && let Err((cause, line)) = open_web(&mut carrier, &place, web, wait, options)?
    {
        return Ok(Tried::Failed(Problem { cause, line }));
    }
    let proxy = proxy.map(|proxy| proxy.to_string());
    let secured = match visit {
        None => {
            let limit = wait.limit(HANDSHAKE);
            secure(
                carrier,
                Side::Connector,
                transport,
                &pinned,
                &|| limit.is_over(),
                options,
            )
        }
        Some(visit) => {
            if let Visited::Failed(cause, line) = visit.pay(&mut carrier, address, wait)? {
                return Ok(Tried::Failed(Problem { cause, line }));
            }
            let side = match visit.role {
                Role::Receiver => Side::Connector,
                Role::Sender => Side::Listener,
            };
            // Both have come within the wait, and this takes the time that it takes.
            let met = options.clock.now();
            let is_over = || options.clock.since(met) >= HANDSHAKE;
            secure(carrier, side, transport, &pinned, &is_over, options)
        }
    };
    match secured {
        Ok((carrier, secured)) => {
            Connection::over(carrier, secured, round_trip, transport, options)
                .map(|connection| {
                    Tried::Met(Box::new(Connection {
                        proxy,
                        ..connection
                    }))
                })
                .map_err(|e| cannot(&e))
        }
        Err(failure) => {
            let failure = verdict(failure, transport, &pinned)?;
            let is_final = matches!(failure, Failure::Foreign(_));
            let mut problem = Problem::from(failure);
            if let Some(proxy) = proxy {
                problem.line = format!("{}, through the proxy {proxy}", problem.line);
            }
            match is_final {
                true => Err(cannot_connect(address, &problem)),
                false => Ok(Tried::Failed(problem)),
            }
        }
    }
}

/// Opens a WebSocket at the other end of `carrier`, within TLS if the address says so.
fn open_web(
    carrier: &mut Carrier,
    address: &Address,
    web: &Web,
    wait: &Wait<'_>,
    options: &ConnectOptions,
) -> Result<Result<(), Closed>, Error> {
    let limit = wait.limit(HANDSHAKE);
    let is_over = || limit.is_over();
    if web.is_secure {
        let (host, _) = parts(address.place());
        let secured = outer::secure(carrier, host, &options.authorities, wait, &is_over)?;
        if secured.is_err() {
            return Ok(secured);
        }
    }
    web_request::open(carrier, address, web, wait, &is_over)
}

/// Secures a fresh carrier to the peer.
fn secure(
    carrier: Carrier,
    side: Side,
    transport: &Transport<'_>,
    expected: &[Fingerprint],
    is_over: &dyn Fn() -> bool,
    options: &ConnectOptions,
) -> Result<(Carrier, Option<Secured>), Failure> {
    match transport {
        Transport::Tls {
            identity, intent, ..
        } => {
            let pinned = Pinned {
                expected,
                known: &options.known,
                sni: options.sni.as_deref(),
            };
            let interrupt = &options.interrupt;
            tls::handshake(carrier, side, identity, pinned, *intent, is_over, interrupt)
                .map(|(carrier, secured)| (carrier, Some(secured)))
        }
        Transport::PlaintextForBenchmarksOnly => Ok((carrier, None)),
    }
}

/// What a failed handshake with the peer means: an error that ends the attempts, or a failure after
/// which another may succeed.
fn verdict(
    failure: Failure,
    transport: &Transport<'_>,
    pinned: &[Fingerprint],
) -> Result<Failure, Error> {
    match (failure, transport) {
        (Failure::Interrupted(why), _) => Err(why.into()),
        (Failure::Stray(stray), _) if !stray.is_passing => Err(stray.error.into()),
        (Failure::WrongPeer(got), Transport::Tls { .. }) => Err(Error::WrongPeer {
            expected: pinned.to_vec(),
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
    /// A connection, how long that took, which is a round trip, and where a tunnel through it is to lead.
    Open(TcpStream, Duration, Target),
    /// Worth another try.
    Failed(Problem),
    /// The address itself is wrong.
    Hopeless(Problem),
    /// This machine has met a limit.
    Exhausted(io::Error),
    /// The wait is over.
    GivenUp,
}

/// Connects to the peer, or to the proxy if there is one.
fn attempt(address: &str, proxy: Option<&Proxy>, wait: &Wait<'_>) -> Result<Attempt, Error> {
    let (address, proxy) = (address.to_owned(), proxy.cloned());
    let attempt = move || match proxy {
        None => reach(&address),
        Some(proxy) => reach_proxy(&proxy, &address),
    };
    Ok(aside(wait, attempt)?.map_or(Attempt::GivenUp, |met| met.unwrap_or_else(|failed| failed)))
}

/// Does what nothing can interrupt, such as looking up a name, on a thread of its own; `None` if the wait is over before. A
/// thread that is abandoned ends at its own time limit.
fn aside<T: Send + 'static>(
    wait: &Wait<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    let (result, outcome) = mpsc::channel();
    std::thread::Builder::new()
        .name("vesica-connect".into())
        // If nobody waits any longer, there is nothing to do.
        .spawn(move || drop(result.send(work())))
        .map_err(WireError::no_thread)?;
    loop {
        wait.check_interrupt()?;
        match outcome.recv_timeout(POLL) {
            Ok(done) => return Ok(Some(done)),
            Err(mpsc::RecvTimeoutError::Timeout) if !wait.is_over() => {}
            Err(_) => return Ok(None),
        }
    }
}

/// The addresses of `place`, `host:port`, in the order in which a side that connects tries them.
///
/// Fails with [`Error::Connect`] if there are none, or the name is not looked up while the options wait, and when
/// interrupted.
pub fn addresses(place: &str, options: &ConnectOptions) -> Result<Vec<SocketAddr>, Error> {
    let name = place.to_owned();
    let problem = match aside(&Wait::new(options), move || looked_up(&name))? {
        Some(Ok(addresses)) => return Ok(addresses),
        Some(Err(Attempt::Failed(problem) | Attempt::Hopeless(problem))) => problem,
        Some(Err(Attempt::Exhausted(e))) => {
            let line = format!("{place} cannot be looked up: {e}");
            return Err(Error::limit_or(&e, line, |line| {
                NoConnection::Other.error(line)
            }));
        }
        _ => Problem::other("it is not looked up in time"),
    };
    Err(NoConnection::Other.error(format!("{place}: {}", problem.line)))
}

fn reach(address: &str) -> Result<Attempt, Attempt> {
    let (stream, round_trip) = race(looked_up(address)?)?;
    Ok(Attempt::Open(
        stream,
        round_trip,
        Target::Name(address.to_owned()),
    ))
}

fn reach_proxy(proxy: &Proxy, address: &str) -> Result<Attempt, Attempt> {
    let target = match proxy.takes_addresses() {
        false => Target::Name(address.to_owned()),
        // Those that a proxy reaches are most likely of the older kind.
        true => looked_up(address)?
            .into_iter()
            .min_by_key(SocketAddr::is_ipv6)
            .map_or_else(|| Target::Name(address.to_owned()), Target::Address),
    };
    let of_proxy = |failed| match failed {
        Attempt::Failed(problem) | Attempt::Hopeless(problem) => Attempt::Failed(Problem {
            cause: NoConnection::Proxy,
            line: format!("there is no way to the proxy {proxy} ({})", problem.line),
        }),
        other => other,
    };
    let met = looked_up(proxy.address()).and_then(race);
    let (stream, round_trip) = met.map_err(of_proxy)?;
    Ok(Attempt::Open(stream, round_trip, target))
}

/// The addresses of a name, which may change from one attempt to the next: kinds in turns, in the order of the system
/// (RFC 8305, section 4).
fn looked_up(name: &str) -> Result<Vec<SocketAddr>, Attempt> {
    let addresses = match name.to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(e) if is_exhausted(&e) => return Err(Attempt::Exhausted(e)),
        // A name that cannot be looked up now may be known before the timeout.
        Err(e) if e.kind() != io::ErrorKind::InvalidInput => {
            let line = format!("cannot look up the name: {e}");
            return Err(Attempt::Failed(Problem::other(line)));
        }
        Err(e) => {
            return Err(Attempt::Hopeless(Problem::other(format!(
                "bad address: {e}"
            ))));
        }
    };
    let (first, second): (Vec<_>, Vec<_>) = {
        let addresses: Vec<SocketAddr> = addresses.collect();
        let is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
        addresses.into_iter().partition(|of| of.is_ipv6() == is_v6)
    };
    let mut second = second.into_iter();
    let mut turns = Vec::new();
    for address in first {
        turns.push(address);
        turns.extend(second.next());
    }
    turns.extend(second);
    Ok(turns)
}

/// Connects to the first address that answers. Each attempt begins when the one before has failed or taken [`STAGGER`], so
/// that addresses without a route cost a moment.
fn race(addresses: Vec<SocketAddr>) -> Result<(TcpStream, Duration), Attempt> {
    let (result, outcomes) = mpsc::channel();
    let mut addresses = addresses.into_iter();
    let mut running = 0;
    let mut problem = None;
    loop {
        let next = addresses.next();
        if let Some(address) = next {
            let result = result.clone();
            let connect = move || {
                let began = Instant::now();
                let outcome = TcpStream::connect_timeout(&address, ATTEMPT);
                // If another was faster, this one is dropped.
                let _ = result.send((address, outcome.map(|stream| (stream, began.elapsed()))));
            };
            let thread = thread::Builder::new().name("vesica-connect".into());
            thread.spawn(connect).map_err(Attempt::Exhausted)?;
            running += 1;
        }
        // Until the next one begins, or as long as there is any.
        while running > 0 {
            let most = if next.is_some() { STAGGER } else { ATTEMPT };
            let Ok((address, outcome)) = outcomes.recv_timeout(most) else {
                break;
            };
            running -= 1;
            match outcome {
                Ok(open) => return Ok(open),
                Err(e) if is_exhausted(&e) => return Err(Attempt::Exhausted(e)),
                Err(e) => note(&mut problem, address, &e),
            }
            if next.is_some() {
                break;
            }
        }
        if next.is_none() && running == 0 {
            let problem = problem.unwrap_or_else(|| Problem::other("the name has no address"));
            return Err(Attempt::Failed(problem));
        }
    }
}

/// That somebody answers and nobody listens says most.
fn note(problem: &mut Option<Problem>, address: SocketAddr, e: &io::Error) {
    if e.kind() == io::ErrorKind::ConnectionRefused {
        *problem = Some(Problem {
            cause: NoConnection::NobodyListens,
            line: format!("nobody listens on {address}"),
        });
    } else if problem
        .as_ref()
        .is_none_or(|of| of.cause == NoConnection::Other)
    {
        *problem = Some(Problem::other(format!("{address}: {e}")));
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// An address to which nothing that is sent comes: its queue of connections is full.
    fn silent() -> (SocketAddr, Vec<TcpStream>, TcpListener) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let short = Duration::from_millis(200);
        let waiting = std::iter::from_fn(|| TcpStream::connect_timeout(&address, short).ok());
        (address, waiting.take(1 << 13).collect(), socket)
    }

    #[test]
    fn an_address_that_is_silent_costs_a_moment() {
        let (silent, _waiting, _socket) = silent();
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let began = Instant::now();
        let (stream, _) = race(vec![silent, open.local_addr().unwrap()]).ok().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open.local_addr().unwrap());
        assert!(began.elapsed() < ATTEMPT / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn one_that_refuses_costs_nothing_and_says_most() {
        let refused = {
            let gone = TcpListener::bind("127.0.0.1:0").unwrap();
            gone.local_addr().unwrap()
        };
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let began = Instant::now();
        assert!(race(vec![refused, refused, open.local_addr().unwrap()]).is_ok());
        assert!(began.elapsed() < STAGGER);
        match race(vec![refused, refused]) {
            Err(Attempt::Failed(problem)) => assert_eq!(problem.cause, NoConnection::NobodyListens),
            _ => panic!("it was refused"),
        }
        assert!(matches!(race(Vec::new()), Err(Attempt::Failed(_))));
    }
}
