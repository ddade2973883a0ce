//! The side that waits on an address.
//!
//! Anybody can reach a port. Whoever does not prove to be the pinned peer is turned away and noted, and the
//! wait goes on. That includes port scanners, other programs, half-open connections, other identities, and
//! peers that say they expect another identity than ours, which anybody can say in seven bytes.
//!
//! Up to [`MAX_HANDSHAKES`] handshakes run at once, on one thread, so that silent sockets do not use up the
//! wait. When there are more, the oldest one without any message makes room, then the oldest that has taken a
//! second without finishing. The first to finish wins.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use vesica_wire::POLL;

use crate::tls::{Failure, Handshake, Leaving, Side, Step};
use crate::wait::{Visitors, Wait};
use crate::{ConnectOptions, Connection, Error, Fingerprint, Identity, Refused, Transport};

/// Maximum number of handshakes at once, and of failed ones whose alert is still being sent. Each takes one
/// socket and about 100 KiB at most.
const MAX_HANDSHAKES: usize = 32;
/// Longest time that one handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Time for which a handshake that has begun is not dropped in favour of new ones.
const GRACE: Duration = Duration::from_secs(1);
/// Sleep between two looks at the running handshakes.
const TICK: Duration = Duration::from_millis(1);

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

    /// Waits for the peer, then stops listening. Over plaintext the first connection is the peer.
    ///
    /// Fails when the wait of the options is over: with [`Error::WrongPeer`] if somebody has proved
    /// another identity than the pinned one, as one of the two fingerprints is then most likely
    /// mistyped, else with [`Error::Connect`], which names who was turned away. Fails when interrupted.
    pub fn accept(
        self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let wait = Wait::new(options);
        let mut lobby = Lobby::new(options);
        loop {
            wait.check_interrupt()?;
            let mut moved = false;
            // However fast new ones come, those who are in get their turn.
            for _ in 0..MAX_HANDSHAKES {
                if !lobby.has_room() {
                    break;
                }
                let Some((stream, from)) = self.next(&mut lobby) else {
                    break;
                };
                moved = true;
                match transport {
                    Transport::Tls { identity, peer } => lobby.admit(stream, from, identity, *peer),
                    Transport::PlaintextForBenchmarksOnly => {
                        return Connection::over(stream, None, transport, options)
                            .map_err(|e| self.broken(from, &e));
                    }
                }
            }
            if let Some(guest) = lobby.step(&mut moved) {
                let from = guest.from;
                let mut connection = guest
                    .handshake
                    .finish()
                    .and_then(|(stream, tls)| {
                        Connection::over(stream, Some(tls), transport, options)
                    })
                    .map_err(|e| self.broken(from, &e))?;
                connection.refused = lobby.visitors.list();
                return Ok(connection);
            }
            if wait.is_over() {
                return Err(self.nobody(transport, options, &lobby));
            }
            if !moved {
                std::thread::sleep(if lobby.is_busy() { TICK } else { POLL / 5 });
            }
        }
    }

    /// The next incoming connection, if there is one.
    fn next(&self, lobby: &mut Lobby<'_>) -> Option<(TcpStream, SocketAddr)> {
        loop {
            match self.socket.accept() {
                Ok(accepted) => return Some(accepted),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                // A connection that ended before it was accepted is no reason to stop waiting.
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Nor is a lack of descriptors or memory, which may pass.
                Err(e) => {
                    lobby.trouble = Some(e);
                    return None;
                }
            }
        }
    }

    fn broken(&self, from: SocketAddr, e: &io::Error) -> Error {
        Error::Connect(format!("connection from {from}: {e}"))
    }

    fn nobody(
        &self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
        lobby: &Lobby<'_>,
    ) -> Error {
        if let Transport::Tls { peer, .. } = transport
            && let Some(got) = lobby.visitors.wrong_identity()
        {
            let expected = *peer;
            return Error::WrongPeer { expected, got };
        }
        let mut message = format!(
            "the peer did not connect to {} within {} s",
            self.address,
            options.wait.as_secs_f32()
        );
        let visitors = lobby.visitors.to_string();
        if !visitors.is_empty() {
            message.push_str("; turned away: ");
            message.push_str(&visitors);
        }
        if let Some(e) = &lobby.trouble {
            message.push_str(&format!("; connections could not be taken: {e}"));
        }
        Error::Connect(message)
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
struct Guest {
    from: SocketAddr,
    since: Instant,
    handshake: Handshake,
}

/// All connections whose identity is not proved yet, oldest first.
struct Lobby<'a> {
    guests: Vec<Guest>,
    leaving: Vec<Leaving>,
    visitors: Visitors<'a>,
    /// The last reason why a connection could not be accepted.
    trouble: Option<io::Error>,
}

impl<'a> Lobby<'a> {
    fn new(options: &'a ConnectOptions) -> Self {
        Lobby {
            guests: Vec::new(),
            leaving: Vec::new(),
            visitors: Visitors::new(&options.on_refused),
            trouble: None,
        }
    }

    /// The guest that makes room for the next, if the lobby is full.
    fn least_worthy(&self) -> Option<usize> {
        let silent = |guest: &Guest| !guest.handshake.has_begun();
        let slow = |guest: &Guest| guest.since.elapsed() >= GRACE;
        let place = |unworthy: fn(&Guest) -> bool| self.guests.iter().position(unworthy);
        place(silent).or_else(|| place(slow))
    }

    fn has_room(&self) -> bool {
        self.guests.len() < MAX_HANDSHAKES || self.least_worthy().is_some()
    }

    fn is_busy(&self) -> bool {
        let begun = |guest: &Guest| guest.handshake.has_begun();
        !self.leaving.is_empty() || self.guests.iter().any(begun)
    }

    fn admit(
        &mut self,
        stream: TcpStream,
        from: SocketAddr,
        identity: &Identity,
        pinned: Fingerprint,
    ) {
        if self.guests.len() >= MAX_HANDSHAKES
            && let Some(index) = self.least_worthy()
        {
            let guest = self.guests.remove(index);
            self.note(guest.from, &Failure::CrowdedOut);
        }
        let opened = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(|e| Failure::Gone(e.to_string()))
            .and_then(|()| Handshake::new(stream, Side::Listener, identity, pinned));
        match opened {
            Ok(handshake) => {
                let mut guest = Guest {
                    from,
                    since: Instant::now(),
                    handshake,
                };
                // Process what has already arrived before the next guest is let in.
                match guest.handshake.step() {
                    Ok(_) => self.guests.push(guest),
                    Err(failure) => self.dismiss(guest, &failure),
                }
            }
            Err(failure) => self.note(from, &failure),
        }
    }

    /// Advances every handshake; returns the guest that has proved to be the peer.
    fn step(&mut self, moved: &mut bool) -> Option<Guest> {
        let mut index = 0;
        while let Some(guest) = self.guests.get_mut(index) {
            let failure = match guest.handshake.step() {
                Ok(Step::Done) => return Some(self.guests.remove(index)),
                Ok(_) if guest.since.elapsed() >= HANDSHAKE => Failure::TimedOut,
                Ok(step) => {
                    *moved |= step == Step::Moved;
                    index += 1;
                    continue;
                }
                Err(failure) => failure,
            };
            let guest = self.guests.remove(index);
            self.dismiss(guest, &failure);
            *moved = true;
        }
        self.leaving.retain_mut(|leaving| !leaving.step());
        None
    }

    fn dismiss(&mut self, guest: Guest, failure: &Failure) {
        self.note(guest.from, failure);
        if self.leaving.len() >= MAX_HANDSHAKES {
            self.leaving.remove(0);
        }
        self.leaving.push(guest.handshake.leave());
    }

    fn note(&mut self, from: SocketAddr, failure: &Failure) {
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
