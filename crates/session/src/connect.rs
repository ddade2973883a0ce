//! Making the connection: who listens, who connects, and over what.
//!
//! Either role of the job may listen. A connecting side tries again until its timeout. A listening
//! side lets in one peer. A peer that proves to hold another key than the pinned one ends the wait
//! at once, on both sides: somebody mistyped a fingerprint, and waiting would not help. Connections
//! that do not get that far (port scanners, other programs, half-open connections) are turned away,
//! each after five seconds at most, and the wait goes on. So somebody who can reach the port and
//! speaks this program's TLS can end a wait, but never get in.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use vesica_wire::{
    ChannelOptions, Error as WireError, FramedChannel, Interrupt, Link, POLL, ReadHalf, WriteHalf,
    tcp_halves,
};

use crate::tls::{self, Failure, Side};
use crate::{Error, Fingerprint, Identity, tls_stream};

/// Longest time that one incoming connection may take for its TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Longest time of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Waits between attempts double from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Most turned-away connections that are remembered.
const MAX_REFUSED: usize = 16;

/// Which side of the connection a party is; independent of its role in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Waits on this address (`host:port`; port 0 picks a free one).
    Listen(String),
    /// Connects to this address (`host:port`), again and again until the timeout.
    Connect(String),
}

/// What protects the bytes.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// TLS 1.3 with both sides' keys pinned.
    Tls {
        /// Our key.
        identity: &'a Identity,
        /// The only peer that is let in.
        peer: Fingerprint,
    },
    /// No encryption and nobody checked. For benchmarks on one machine only.
    PlaintextForBenchmarksOnly,
}

/// How to connect and how long to wait.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Time for the peer to appear, and later the longest silence of the peer in a run. It has to
    /// cover the peer's longest computation.
    pub timeout: Duration,
    /// Ends everything when raised.
    pub interrupt: Interrupt,
    /// Emulated link for what this side sends.
    pub link: Link,
}

impl Default for ConnectOptions {
    /// Two minutes, a flag of its own, no emulated link.
    fn default() -> Self {
        ConnectOptions {
            timeout: Duration::from_secs(120),
            interrupt: Interrupt::new(),
            link: Link::LAN,
        }
    }
}

/// An open connection to one peer, authenticated unless it is plaintext.
pub struct Connection {
    /// The frames.
    pub channel: FramedChannel,
    /// Our fingerprint; `None` over plaintext.
    pub local: Option<Fingerprint>,
    /// The peer's fingerprint; `None` over plaintext.
    pub peer: Option<Fingerprint>,
    /// Connections that were turned away before the peer came, a line each (at most 16).
    pub refused: Vec<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl Connection {
    fn over(
        stream: TcpStream,
        tls: Option<rustls::Connection>,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> io::Result<Connection> {
        let (reader, writer): (Box<dyn ReadHalf>, Box<dyn WriteHalf>) = match tls {
            Some(tls) => {
                let (reader, writer) = tls_stream::halves(tls, stream)?;
                (Box::new(reader), Box::new(writer))
            }
            None => {
                let (reader, writer) = tcp_halves(stream)?;
                (Box::new(reader), Box::new(writer))
            }
        };
        let channel_options = ChannelOptions {
            timeout: options.timeout,
            interrupt: options.interrupt.clone(),
            link: options.link,
            ..ChannelOptions::default()
        };
        let (local, peer) = match transport {
            Transport::Tls { identity, peer } => (Some(identity.fingerprint()), Some(*peer)),
            Transport::PlaintextForBenchmarksOnly => (None, None),
        };
        Ok(Connection {
            channel: FramedChannel::new(reader, writer, channel_options),
            local,
            peer,
            refused: Vec::new(),
        })
    }
}

/// Secures a fresh stream.
fn secure(
    stream: &TcpStream,
    side: Side,
    transport: &Transport<'_>,
    deadline: Instant,
    interrupt: &Interrupt,
) -> Result<Option<rustls::Connection>, Failure> {
    match transport {
        Transport::Tls { identity, peer } => {
            tls::handshake(stream, side, identity, *peer, deadline, interrupt).map(Some)
        }
        Transport::PlaintextForBenchmarksOnly => Ok(None),
    }
}

/// What ends the wait whoever waits; a failure that is handed back does not.
fn verdict(failure: Failure, transport: &Transport<'_>) -> Result<Failure, Error> {
    match (failure, transport) {
        (Failure::WrongPeer(got), Transport::Tls { peer, .. }) => Err(Error::WrongPeer {
            expected: *peer,
            got,
        }),
        (Failure::Refused, Transport::Tls { identity, .. }) => Err(Error::RefusedByPeer {
            ours: identity.fingerprint(),
        }),
        (Failure::Interrupted, _) => Err(WireError::Interrupted.into()),
        (other, _) => Ok(other),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::WrongPeer(got) => write!(f, "wrong peer {got}"),
            Failure::Refused => f.write_str("it refused this side's identity"),
            Failure::Foreign(what) => write!(f, "not this program's TLS ({what})"),
            Failure::Gone(what) => write!(f, "ended before it was secure ({what})"),
            Failure::TimedOut => f.write_str("the TLS handshake took too long"),
            Failure::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// A bound address on which one peer is awaited.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds `address` (`host:port`; port 0 picks a free one).
    ///
    /// Fails with [`Error::Connect`] when the address is bad or taken.
    pub fn bind(address: &str) -> Result<Listener, Error> {
        let fail = |e: io::Error| {
            Error::Connect(match e.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("cannot listen on {address}: the port is taken")
                }
                _ => format!("cannot listen on {address}: {e}"),
            })
        };
        let socket = TcpListener::bind(address).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        let address = socket.local_addr().map_err(fail)?;
        Ok(Listener { socket, address })
    }

    /// The address that is bound, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer, then stops listening.
    ///
    /// Fails with [`Error::WrongPeer`] or [`Error::RefusedByPeer`] when fingerprints do not fit,
    /// with [`Error::Connect`] when nobody comes in time, and when interrupted.
    pub fn accept(
        self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let deadline = Instant::now() + options.timeout;
        let mut refused = Vec::new();
        loop {
            let (stream, from) = self.next(deadline, options, &refused)?;
            let limit = deadline.min(Instant::now() + HANDSHAKE);
            let failure = match secure(
                &stream,
                Side::Listener,
                transport,
                limit,
                &options.interrupt,
            ) {
                Ok(tls) => {
                    let mut connection = Connection::over(stream, tls, transport, options)
                        .map_err(|e| Error::Connect(format!("connection from {from}: {e}")))?;
                    connection.refused = refused;
                    return Ok(connection);
                }
                Err(failure) => verdict(failure, transport)?,
            };
            if refused.len() < MAX_REFUSED {
                refused.push(format!("{from}: {failure}"));
            }
        }
    }

    fn next(
        &self,
        deadline: Instant,
        options: &ConnectOptions,
        refused: &[String],
    ) -> Result<(TcpStream, SocketAddr), Error> {
        loop {
            options.interrupt.check()?;
            match self.socket.accept() {
                Ok(accepted) => return Ok(accepted),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // A connection that ended before it was accepted is no reason to stop waiting.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    return Err(Error::Connect(format!(
                        "cannot accept on {}: {e}",
                        self.address
                    )));
                }
            }
            if Instant::now() >= deadline {
                let mut message = format!(
                    "the peer did not connect to {} within {} s",
                    self.address,
                    options.timeout.as_secs_f32()
                );
                if !refused.is_empty() {
                    message.push_str("; turned away: ");
                    message.push_str(&refused.join("; "));
                }
                return Err(Error::Connect(message));
            }
            std::thread::sleep(POLL / 5);
        }
    }
}

/// Makes the connection: [`Listener::bind`] and [`Listener::accept`] for [`Endpoint::Listen`],
/// attempts until the timeout for [`Endpoint::Connect`].
///
/// Fails with [`Error::WrongPeer`] or [`Error::RefusedByPeer`] when fingerprints do not fit, with
/// [`Error::Connect`] when the address is bad, taken, spoken to by another program or nobody's, and
/// when interrupted.
pub fn connect(
    endpoint: &Endpoint,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    match endpoint {
        Endpoint::Listen(address) => Listener::bind(address)?.accept(transport, options),
        Endpoint::Connect(address) => dial(address, transport, options),
    }
}

fn dial(
    address: &str,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    let fail = |problem: String| Error::Connect(format!("cannot connect to {address}: {problem}"));
    let deadline = Instant::now() + options.timeout;
    let mut wait = FIRST_WAIT;
    loop {
        let problem = match attempt(address, deadline, &options.interrupt)? {
            Attempt::Hopeless(problem) => return Err(fail(problem)),
            Attempt::Failed(problem) => problem,
            Attempt::Open(stream) => {
                match secure(
                    &stream,
                    Side::Connector,
                    transport,
                    deadline,
                    &options.interrupt,
                ) {
                    Ok(tls) => {
                        return Connection::over(stream, tls, transport, options)
                            .map_err(|e| fail(e.to_string()));
                    }
                    Err(failure) => match verdict(failure, transport)? {
                        foreign @ Failure::Foreign(_) => return Err(fail(foreign.to_string())),
                        other => other.to_string(),
                    },
                }
            }
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(fail(format!(
                "{problem} (tried for {} s)",
                options.timeout.as_secs_f32()
            )));
        }
        pause(wait.min(left), &options.interrupt)?;
        wait = (wait * 2).min(LAST_WAIT);
    }
}

fn pause(time: Duration, interrupt: &Interrupt) -> Result<(), Error> {
    let until = Instant::now() + time;
    loop {
        interrupt.check()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(POLL));
    }
}

enum Attempt {
    Open(TcpStream),
    /// Worth another try.
    Failed(String),
    /// The address itself is wrong.
    Hopeless(String),
}

/// Tries every address that the name stands for, once.
///
/// Name lookups and connects cannot be interrupted, so that a thread of their own makes them; when
/// it is left alone, it ends with its own time limit.
fn attempt(address: &str, deadline: Instant, interrupt: &Interrupt) -> Result<Attempt, Error> {
    let (result, outcome) = mpsc::channel();
    let name = address.to_owned();
    let limit = deadline
        .saturating_duration_since(Instant::now())
        .clamp(POLL, ATTEMPT);
    std::thread::Builder::new()
        .name("vesica-connect".into())
        .spawn(move || {
            // Nobody waits any longer: nothing to be done about it.
            let _ = result.send(try_addresses(&name, limit));
        })
        .map_err(|e| WireError::Resource(format!("no thread to be had: {e}")))?;
    let gone = || Attempt::Failed("the attempt was given up".into());
    loop {
        interrupt.check()?;
        match outcome.recv_timeout(POLL) {
            Ok(attempt) => return Ok(attempt),
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline + POLL => {}
            Err(_) => return Ok(gone()),
        }
    }
}

fn try_addresses(name: &str, limit: Duration) -> Attempt {
    let addresses = match name.to_socket_addrs() {
        Ok(addresses) => addresses,
        // A name that cannot be looked up now may be known before the timeout.
        Err(e) if e.kind() != io::ErrorKind::InvalidInput => {
            return Attempt::Failed(format!("cannot look up the name: {e}"));
        }
        Err(e) => return Attempt::Hopeless(format!("bad address: {e}")),
    };
    let mut problem = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Attempt::Open(stream),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                problem = format!("nobody listens on {address}");
            }
            Err(e) => problem = format!("{address}: {e}"),
        }
    }
    Attempt::Failed(problem)
}
