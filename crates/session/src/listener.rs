//! The side that waits on an address.
//!
//! Anybody can reach a port. Whoever does not prove to be the pinned peer is turned away and noted, and the
//! wait goes on. That includes port scanners, other programs, half-open connections, other identities, and
//! peers that say they expect another identity than ours, which anybody can say in seven bytes. So is a peer that has come
//! for something else ([`Intent`]).
//!
//! A side that is not ready yet stays with its peer: it takes note when that leaves, and takes its next connection. A later
//! connection of the peer counts more than the one before, which may be dead.
//!
//! TLS may come within a WebSocket, whose request is a part of the handshake.
//!
//! Up to [`MAX_HANDSHAKES`] handshakes run at once, on one thread, so that silent sockets do not use up the
//! wait. When there are more, the oldest one without any message makes room, then the oldest that has taken a
//! second without finishing. The first to finish wins.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vesica_wire::{Clock, Error as WireError, POLL};

use crate::carrier::Carrier;
use crate::tls::{Failure, Handshake, Leaving, Pinned, Side, Step};
use crate::wait::{Visitors, Wait};
use crate::{
    ConnectOptions, Connection, Error, Fingerprint, Identity, Incident, Intent, NoConnection,
    Refused, Transport,
};

/// Maximum number of handshakes at once, and of failed ones whose alert is still being sent. Each takes one
/// socket and some 500 KiB at most.
const MAX_HANDSHAKES: usize = 32;
/// Longest time that one handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time for which a handshake that has begun is not dropped in favour of new ones.
const GRACE: Duration = Duration::from_secs(1);
/// Longest time without a look at the end of the wait, while nobody is there.
const IDLE: Duration = Duration::from_millis(100);
/// Sleep between two looks at the running handshakes.
const TICK: Duration = Duration::from_millis(1);

/// Binds an address for a socket that does not block. Fails as [`Listener::bind`] does.
pub(crate) fn bind(address: &str) -> Result<(TcpListener, SocketAddr), Error> {
    let fail = |e: io::Error| {
        let (cause, problem) = match e.kind() {
            io::ErrorKind::AddrInUse => (NoConnection::Taken, "the port is taken".to_owned()),
            io::ErrorKind::AddrNotAvailable => {
                let all = "this machine has no such address; 0.0.0.0 stands for all that it has";
                (NoConnection::Other, all.to_owned())
            }
            io::ErrorKind::PermissionDenied => {
                let low = "this user may not listen there; ports below 1024 take a privilege";
                (NoConnection::Other, low.to_owned())
            }
            _ => (NoConnection::Other, e.to_string()),
        };
        let line = format!("cannot listen on {address}: {problem}");
        Error::limit_or(&e, line, |line| cause.error(line))
    };
    let socket = TcpListener::bind(address).map_err(fail)?;
    socket.set_nonblocking(true).map_err(fail)?;
    let address = socket.local_addr().map_err(fail)?;
    Ok((socket, address))
}

/// A bound address on which one peer is awaited.
///
/// Peers may connect as soon as it is bound; they are answered once it accepts.
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
        bind(address).map(|(socket, address)| Listener { socket, address })
    }

    /// The address that is bound, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer, and until this side is [ready](ConnectOptions::ready) or gives up; a peer that leaves before is
    /// waited for again. Over plaintext the first connection is the peer.
    ///
    /// Fails when the wait of the options is over: if the peer has come, with what it came for or said then; with
    /// [`Error::WrongPeer`] if somebody has proved another identity than the pinned one, as one of the two fingerprints is
    /// then most likely mistyped; else with [`Error::Connect`], which names who was turned away. Fails at once when the peer
    /// is of another version or has misbehaved, and when interrupted.
    pub fn accept(
        &self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let Transport::Tls {
            identity,
            peer,
            intent,
        } = transport
        else {
            return self.accept_plaintext(transport, options);
        };
        let wait = Wait::new(options);
        let pinned = options.pinned(identity, *peer)?;
        let mut pending = PendingHandshakes {
            is_of_one: true,
            ..PendingHandshakes::new(identity, &pinned, *intent, options)
        };
        let mut met: Option<Connection> = None;
        loop {
            let mut moved = false;
            if let Some(caller) = self.advance(&wait, &mut pending, &mut moved)? {
                retire(met.replace(self.establish(caller, transport, options)?));
            }
            let Some(connection) = &mut met else {
                if wait.is_over() {
                    return Err(self.nobody(options, &pending));
                }
                if !moved {
                    self.pause(&pending, options);
                }
                continue;
            };
            if options.ready.is_settled() {
                connection.refused = pending.visitors.list();
                return Ok(met.expect("a connection"));
            }
            let most = if pending.is_idle() { POLL } else { TICK };
            if let Some(incident) = connection.stay(most)? {
                options.on_incident.report(&incident);
                pending.last = Some(incident);
                retire(met.take());
            }
        }
    }

    /// Waits for all of several peers, in any order, then stops listening. Returns their connections in the order of
    /// `peers`. If one connects twice, the later connection counts.
    ///
    /// Fails as [`Listener::accept`] does.
    pub fn accept_all(
        self,
        identity: &Identity,
        peers: &[Fingerprint],
        intent: Intent,
        options: &ConnectOptions,
    ) -> Result<Vec<Connection>, Error> {
        check_different(peers)?;
        let wait = Wait::new(options);
        let mut pending = PendingHandshakes::new(identity, peers, intent, options);
        let mut connections: Vec<Option<Connection>> = peers.iter().map(|_| None).collect();
        while connections.iter().any(Option::is_none) {
            let caller = self.next_peer(&wait, &mut pending, options)?;
            let shown = caller.handshake.peer();
            let place = peers.iter().position(|peer| Some(*peer) == shown);
            let place =
                place.ok_or_else(|| NoConnection::Unproved.error("a peer without a key".into()))?;
            let transport = Transport::Tls {
                identity,
                peer: peers[place],
                intent,
            };
            retire(connections[place].replace(self.establish(caller, &transport, options)?));
            // However often one of them connects.
            if wait.is_over() && connections.iter().any(Option::is_none) {
                return Err(self.nobody(options, &pending));
            }
        }
        Ok(connections.into_iter().flatten().collect())
    }

    /// Accepts any of these peers again and again, until `take` or the interrupt of the options ends it. Connections that
    /// break before they are secure are none, nor are those of peers that have come for something else.
    ///
    /// Fails as [`Listener::accept`] does when the wait of the options is over, which counts from the call; with what `take`
    /// fails with; and when interrupted.
    pub fn serve<E: From<Error>>(
        &self,
        identity: &Identity,
        peers: &[Fingerprint],
        intent: Intent,
        options: &ConnectOptions,
        mut take: impl FnMut(Connection) -> Result<(), E>,
    ) -> Result<(), E> {
        let wait = Wait::new(options);
        let mut pending = PendingHandshakes {
            is_of_many: true,
            ..PendingHandshakes::new(identity, peers, intent, options)
        };
        loop {
            let caller = self.next_peer(&wait, &mut pending, options)?;
            let Some(peer) = caller.handshake.peer() else {
                continue;
            };
            let transport = Transport::Tls {
                identity,
                peer,
                intent,
            };
            if let Ok(connection) = self.establish(caller, &transport, options) {
                take(connection)?;
            }
        }
    }

    /// The next to prove that it is one of the pinned peers.
    fn next_peer(
        &self,
        wait: &Wait<'_>,
        pending: &mut PendingHandshakes<'_>,
        options: &ConnectOptions,
    ) -> Result<PendingHandshake, Error> {
        loop {
            let mut moved = false;
            if let Some(caller) = self.advance(wait, pending, &mut moved)? {
                return Ok(caller);
            }
            if wait.is_over() {
                return Err(self.nobody(options, pending));
            }
            if !moved {
                self.pause(pending, options);
            }
        }
    }

    /// Lets callers in and advances all handshakes. Returns the next to prove that it is one of the pinned peers.
    fn advance(
        &self,
        wait: &Wait<'_>,
        pending: &mut PendingHandshakes<'_>,
        moved: &mut bool,
    ) -> Result<Option<PendingHandshake>, Error> {
        wait.check_interrupt()?;
        // However fast new ones come, those who are in get their turn.
        for _ in 0..MAX_HANDSHAKES {
            if !pending.has_room() {
                break;
            }
            let Some((stream, from)) = self.next(&mut pending.trouble) else {
                break;
            };
            *moved = true;
            pending.add(stream, from);
        }
        let proved = pending.step(moved);
        match pending.end.take() {
            Some(error) => {
                pending.part();
                Err(error.into())
            }
            None => Ok(proved),
        }
    }

    /// Waits until somebody may have moved.
    fn pause(&self, pending: &PendingHandshakes<'_>, options: &ConnectOptions) {
        match pending.is_idle() {
            true => drop(options.interrupt.await_readable(&self.socket, IDLE)),
            false if pending.is_busy() => std::thread::sleep(TICK),
            false => std::thread::sleep(POLL / 5),
        }
    }

    /// The connection to a peer that has proved who it is.
    fn establish(
        &self,
        caller: PendingHandshake,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let (from, round_trip) = (caller.from, caller.handshake.round_trip());
        let (carrier, secured) = caller
            .handshake
            .finish()
            .map_err(|e| self.broken(from, &e))?;
        Connection::over(carrier, Some(secured), round_trip, transport, options)
            .map_err(|e| self.broken(from, &e))
    }

    /// The first connection.
    fn accept_plaintext(
        &self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let (wait, mut trouble) = (Wait::new(options), None);
        loop {
            wait.check_interrupt()?;
            if let Some((stream, from)) = self.next(&mut trouble) {
                let carrier = Carrier::of(stream);
                return Connection::over(carrier, None, Duration::ZERO, transport, options)
                    .map_err(|e| self.broken(from, &e));
            }
            if wait.is_over() {
                let nobody = NoConnection::NobodyConnects;
                return Err(self.absent(nobody, options, "", trouble.as_ref()));
            }
            std::thread::sleep(POLL / 5);
        }
    }

    /// The next incoming connection, if there is one.
    fn next(&self, trouble: &mut Option<io::Error>) -> Option<(TcpStream, SocketAddr)> {
        loop {
            match self.socket.accept() {
                Ok(accepted) => return Some(accepted),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                // A connection that ended before it was accepted is no reason to stop waiting.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Nor is a lack of descriptors or memory, which may pass.
                Err(e) => {
                    *trouble = Some(e);
                    return None;
                }
            }
        }
    }

    fn broken(&self, from: SocketAddr, e: &io::Error) -> Error {
        let line = format!("connection from {from}: {e}");
        Error::limit_or(e, line, |line| NoConnection::Other.error(line))
    }

    fn nobody(&self, options: &ConnectOptions, pending: &PendingHandshakes<'_>) -> Error {
        match &pending.last {
            Some(Incident::Stray { why, .. }) => return why.clone().into(),
            Some(Incident::PeerProblem(problem)) => return Error::PeerProblem(*problem),
            _ => {}
        }
        if let (true, Some(got)) = (pending.is_of_one, pending.visitors.wrong_identity()) {
            let expected = pending.pinned.to_vec();
            return Error::WrongPeer { expected, got };
        }
        let cause = match pending.was_refused {
            true => NoConnection::RefusedByVisitor,
            false => NoConnection::NobodyConnects,
        };
        let mut visitors = pending.visitors.to_string();
        if !visitors.is_empty() {
            visitors.insert_str(0, "; turned away: ");
        }
        if let Some(Incident::PeerLeft(why)) = &pending.last {
            visitors.insert_str(0, &format!(" again, after it had left ({why})"));
        }
        self.absent(cause, options, &visitors, pending.trouble.as_ref())
    }

    fn absent(
        &self,
        cause: NoConnection,
        options: &ConnectOptions,
        meanwhile: &str,
        trouble: Option<&io::Error>,
    ) -> Error {
        let mut message = format!(
            "the peer did not connect to {} within {} s{meanwhile}",
            self.address,
            options.wait.as_secs_f32()
        );
        let absent = |line| cause.error(line);
        match trouble {
            Some(e) => {
                message.push_str(&format!("; connections could not be taken: {e}"));
                Error::limit_or(e, message, absent)
            }
            None => absent(message),
        }
    }
}

/// Refuses to wait for one peer twice.
pub(crate) fn check_different(peers: &[Fingerprint]) -> Result<(), Error> {
    let mut others = peers.iter();
    while let Some(peer) = others.next() {
        if others.clone().any(|other| other == peer) {
            return Err(Error::Usage("the peers are different identities".into()));
        }
    }
    Ok(())
}

/// Ends a connection in whose place there is another one. Its peer may be dead, which takes seconds to find out; others are
/// not kept waiting for that.
fn retire(connection: Option<Connection>) {
    if let Some(connection) = connection {
        // Where there is no thread to be had, it ends here.
        let _ = std::thread::Builder::new().spawn(move || drop(connection));
    }
}

/// A listener that is bound before the run that accepts its peer. Clones share one listener, and the first run
/// over any of them takes it.
#[derive(Clone, Debug)]
pub struct BoundListener {
    listener: Arc<Mutex<Option<Listener>>>,
    address: SocketAddr,
}

impl BoundListener {
    /// A listener for one run.
    pub fn new(listener: Listener) -> BoundListener {
        BoundListener {
            address: listener.address,
            listener: Arc::new(Mutex::new(Some(listener))),
        }
    }

    /// The address that is bound, with its real port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Takes the listener.
    ///
    /// Fails with [`Error::Usage`] if an earlier run has taken it.
    pub fn take(&self) -> Result<Listener, Error> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        listener.take().ok_or_else(|| {
            let address = self.address;
            Error::Usage(format!("an earlier run has used the listener on {address}"))
        })
    }
}

/// Two are equal if they share a listener.
impl PartialEq for BoundListener {
    fn eq(&self, other: &BoundListener) -> bool {
        Arc::ptr_eq(&self.listener, &other.listener)
    }
}

impl Eq for BoundListener {}

/// A connection whose handshake is under way.
struct PendingHandshake {
    from: SocketAddr,
    since: Instant,
    handshake: Handshake,
}

/// All connections whose identity is not proved yet, oldest first.
struct PendingHandshakes<'a> {
    identity: &'a Identity,
    pinned: &'a [Fingerprint],
    /// Whether these are the keys of one peer.
    is_of_one: bool,
    intent: Intent,
    options: &'a ConnectOptions,
    all: Vec<PendingHandshake>,
    leaving: Vec<Leaving>,
    visitors: Visitors<'a>,
    /// The last that became of a pinned peer that had come.
    last: Option<Incident>,
    /// Whether one peer's being of another version is no reason to stop.
    is_of_many: bool,
    /// Why nothing is waited for any more.
    end: Option<WireError>,
    /// Whether one of them has refused our identity.
    was_refused: bool,
    /// The last reason why a connection could not be accepted.
    trouble: Option<io::Error>,
    clock: &'a Clock,
}

impl<'a> PendingHandshakes<'a> {
    fn new(
        identity: &'a Identity,
        pinned: &'a [Fingerprint],
        intent: Intent,
        options: &'a ConnectOptions,
    ) -> Self {
        PendingHandshakes {
            identity,
            pinned,
            is_of_one: pinned.len() == 1,
            intent,
            options,
            all: Vec::new(),
            leaving: Vec::new(),
            visitors: Visitors::new(&options.on_incident),
            last: None,
            is_of_many: false,
            end: None,
            was_refused: false,
            trouble: None,
            clock: &options.clock,
        }
    }

    /// The one that makes room for another, if there are as many as there may be.
    fn to_drop(&self) -> Option<usize> {
        let silent = |caller: &PendingHandshake| !caller.handshake.has_begun();
        let slow = |caller: &PendingHandshake| self.clock.since(caller.since) >= GRACE;
        let all = &self.all;
        all.iter()
            .position(silent)
            .or_else(|| all.iter().position(slow))
    }

    fn has_room(&self) -> bool {
        self.all.len() < MAX_HANDSHAKES || self.to_drop().is_some()
    }

    /// Whether nothing can happen before somebody connects.
    fn is_idle(&self) -> bool {
        self.all.is_empty() && self.leaving.is_empty() && self.trouble.is_none()
    }

    fn is_busy(&self) -> bool {
        let begun = |caller: &PendingHandshake| caller.handshake.has_begun();
        !self.leaving.is_empty() || self.all.iter().any(begun)
    }

    fn add(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.all.len() >= MAX_HANDSHAKES
            && let Some(index) = self.to_drop()
        {
            let caller = self.all.remove(index);
            self.note(caller.from, &Failure::CrowdedOut);
        }
        let opened = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|e| Failure::Gone(e.to_string()))
            .and_then(|()| {
                let (identity, pinned) = (self.identity, Pinned::only(self.pinned));
                let carrier = Carrier::of(stream);
                Handshake::new(carrier, Side::Listener, identity, pinned, self.intent)
                    .map(Handshake::at_port)
            });
        match opened {
            Ok(handshake) => {
                let mut caller = PendingHandshake {
                    from,
                    since: self.clock.now(),
                    handshake,
                };
                // Process what has already arrived before another caller is let in.
                match caller.handshake.step() {
                    Ok(_) => self.all.push(caller),
                    Err(failure) => self.dismiss(caller, &failure),
                }
            }
            Err(failure) => self.note(from, &failure),
        }
    }

    /// Advances every handshake; returns the one that has proved to be the peer.
    fn step(&mut self, moved: &mut bool) -> Option<PendingHandshake> {
        let mut index = 0;
        while let Some(caller) = self.all.get_mut(index) {
            let failure = match caller.handshake.step() {
                Ok(Step::Done) => return Some(self.all.remove(index)),
                Ok(_) if self.clock.since(caller.since) >= HANDSHAKE => Failure::TimedOut,
                Ok(step) => {
                    *moved |= step == Step::Moved;
                    index += 1;
                    continue;
                }
                Err(failure) => failure,
            };
            let caller = self.all.remove(index);
            self.dismiss(caller, &failure);
            *moved = true;
        }
        self.leaving.retain_mut(|leaving| !leaving.step());
        None
    }

    /// Lets those who leave hear why.
    fn part(&mut self) {
        while !self.leaving.is_empty() {
            self.leaving.retain_mut(|leaving| !leaving.step());
            std::thread::sleep(TICK);
        }
    }

    fn dismiss(&mut self, caller: PendingHandshake, failure: &Failure) {
        match failure {
            Failure::Stray(stray) if stray.is_passing => {
                let from = caller.from;
                self.options
                    .on_incident
                    .report(&Incident::Examined { from });
            }
            Failure::Stray(stray) => {
                let incident = Incident::Stray {
                    from: caller.from,
                    why: stray.error.clone(),
                };
                self.options.on_incident.report(&incident);
                self.last = Some(incident);
                if stray.is_final && !self.is_of_many {
                    self.end = Some(stray.error.clone());
                }
            }
            other => self.note(caller.from, other),
        }
        if self.leaving.len() >= MAX_HANDSHAKES {
            self.leaving.remove(0);
        }
        self.leaving.push(caller.handshake.leave());
    }

    fn note(&mut self, from: SocketAddr, failure: &Failure) {
        self.was_refused |= failure.is_refusal();
        self.visitors.note(Refused {
            from,
            identity: match failure {
                Failure::WrongPeer(got) => Some(*got),
                _ => None,
            },
            reason: failure.to_string(),
        });
    }
}
