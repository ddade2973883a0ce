//! A connection to the peer, and how to make it.

use std::fmt;
use std::io;
use std::time::Duration;

use vesica_wire::{
    Blame, Channel, ChannelOptions, Clock, FramedChannel, Interrupt, Link, ReadHalf, WriteHalf,
};

use crate::carrier::{Carrier, Halves};
use crate::contract::{HELLO, MAX_HELLO};
use crate::deadline::Deadline;
use crate::tls::Secured;
use crate::{
    Authorities, Error, Fingerprint, Identity, Incident, Intent, OnIncident, Problem, Proxies,
    Readiness, Refused, tls_stream,
};

/// What protects the bytes.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// TLS 1.3 with both sides' keys pinned.
    Tls {
        /// Our key.
        identity: &'a Identity,
        /// The pinned peer; no other is accepted, but for [`ConnectOptions::also`].
        peer: Fingerprint,
        /// What this side has come for; a peer that has come for something else is not accepted.
        intent: Intent,
    },
    /// No encryption and no authentication. For benchmarks on one machine only.
    PlaintextForBenchmarksOnly,
}

/// How to connect and how long to wait.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Longest wait for the peer to connect, counted from when this side is `ready`.
    pub wait: Duration,
    /// Longest silence of the peer in a run. A working peer says every second that it is alive, so this need
    /// not cover its longest computation; use at least a few seconds.
    pub timeout: Duration,
    /// Longest wait for a peer that is alive but neither sends nor receives anything. Its longest computation
    /// between two messages has to fit into it.
    pub patience: Duration,
    /// Longest time of a run from when its contract is agreed; `None` is ten times what the sizes take at 1 Mb/s and at a
    /// tenth of this machine's speed, and at least an hour. The contract has as long, or else
    /// [`ConnectOptions::wait`] and at least an hour.
    pub deadline: Option<Duration>,
    /// Whether this side is ready itself.
    pub ready: Readiness,
    /// Hears of what happens meanwhile, such as connections that a listener turns away.
    pub on_incident: OnIncident,
    /// Ends everything when raised.
    pub interrupt: Interrupt,
    /// Emulated link for what this side sends.
    pub link: Link,
    /// A peer at the same place, to which no emulated link leads.
    pub beside: Option<Fingerprint>,
    /// Keys of others that a side which connects knows. It refuses their holders as it does everybody but its peer, but lets
    /// them see its own key before, so that both know whom they have met; and tries again, since whom it seeks may listen at
    /// the same address next.
    pub known: Vec<Fingerprint>,
    /// Other keys of the peer, of which any will do: it has two while it changes its key. Of connections to one peer alone.
    pub also: Vec<Fingerprint>,
    /// Which proxy a side that connects goes through.
    pub proxies: Proxies,
    /// A name that a side which connects tells in the first message of TLS, in clear: proxies that share a port route by it.
    /// Nobody is told any if there is none, and the peer does not look at it.
    pub sni: Option<String>,
    /// Who vouches for a web server or a proxy that is spoken to by TLS of its own.
    pub authorities: Authorities,
    /// Bits per second of the link, if they are known. They decide what a job leaves open ([`Connection::link`]).
    pub bandwidth: Option<u64>,
    /// What waits go by; [`ConnectOptions::ready`] goes by the same.
    pub clock: Clock,
}

impl Default for ConnectOptions {
    /// Two minutes to connect, the times of [`ChannelOptions`], the usual deadline, ready from the start, nobody who hears of incidents, its
    /// own interrupt flag, no emulated link, the environment's proxy, no name for TLS, the machine's authorities, no known bandwidth.
    fn default() -> Self {
        let channel = ChannelOptions::default();
        ConnectOptions {
            wait: Duration::from_secs(120),
            timeout: channel.timeout,
            patience: channel.patience,
            deadline: None,
            ready: Readiness::from_the_start(),
            on_incident: OnIncident::default(),
            interrupt: Interrupt::new(),
            link: Link::LAN,
            beside: None,
            known: Vec::new(),
            also: Vec::new(),
            proxies: Proxies::Environment,
            sni: None,
            authorities: Authorities::OfMachine,
            bandwidth: None,
            clock: Clock::default(),
        }
    }
}

impl ConnectOptions {
    /// The keys of which the peer has to hold one.
    ///
    /// Fails with [`Error::OwnFingerprint`].
    pub(crate) fn pinned(
        &self,
        identity: &Identity,
        peer: Fingerprint,
    ) -> Result<Vec<Fingerprint>, Error> {
        let also = self.also.iter().copied();
        also.clone().try_for_each(|key| identity.check_peer(key))?;
        Ok([peer].into_iter().chain(also).collect())
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
    /// What the peer has come for; `None` over plaintext.
    pub theirs: Option<Intent>,
    /// Connections that were turned away before the peer connected: the first 16 wrong identities, and the
    /// first 16 others.
    pub refused: Vec<Refused>,
    /// What is known of the link: the bandwidth that was declared, or else that of an emulated link, and the round trip that
    /// connecting took, along with an emulated one.
    pub link: Link,
    /// The proxy through which this side has connected, without user and password; `None` if there is none.
    pub proxy: Option<String>,
    pub(crate) deadline: Deadline,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("theirs", &self.theirs)
            .field("refused", &self.refused)
            .field("link", &self.link)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// What ends the waits over it.
    pub fn deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    /// The time for what drivers tell each other between tasks begins: as long as a contract may take.
    pub fn expect_driver(&self) {
        self.deadline.of_contract();
    }

    /// Stays with the peer for a moment, while this side is not ready. Returns what it means that the peer has left, if it
    /// has.
    ///
    /// Fails when interrupted, and when the peer has misbehaved or given up for good.
    pub(crate) fn stay(&mut self, most: Duration) -> Result<Option<Incident>, Error> {
        let Err(left) = self.channel.look(MAX_HELLO, most) else {
            return Ok(None);
        };
        if left.is_interrupt() || left.blame() != Blame::Network {
            return Err(left.into());
        }
        // What it said before it left.
        let said = self.channel.recv(HELLO, MAX_HELLO).ok();
        let problem = said.and_then(|said| Problem::decode(&said).ok().flatten());
        Ok(Some(
            problem.map_or(Incident::PeerLeft(left), Incident::PeerProblem),
        ))
    }

    /// A connection over a byte stream of the caller's: a Unix socket, a tunnel, a mesh. What this crate's own connections
    /// do, the caller vouches for:
    /// - bytes arrive unchanged, in order and each once, and nobody else can read them;
    /// - at the other end is `peer`, and it knows this side as `local`. Both fingerprints enter the randomness of a run:
    ///   each side gives its own first. Sides that give others disagree on the contract's hash. Where there are no
    ///   identities, any two that differ will do;
    /// - reads and writes that would wait give up after [`POLL`](vesica_wire::POLL), as [`ReadHalf`] and [`WriteHalf`] say:
    ///   otherwise nothing ends them, neither an interrupt nor a deadline.
    ///
    /// ```
    /// # #[cfg(unix)] mod example {
    /// use std::io::{Read, Result, Write};
    /// use std::net::Shutdown;
    /// use std::os::unix::net::UnixStream;
    ///
    /// use vesica_session::{ConnectOptions, Connection, Fingerprint, POLL, ReadHalf, WriteHalf, discard};
    ///
    /// struct Half(UnixStream);
    ///
    /// impl ReadHalf for Half {
    ///     fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
    ///         self.0.read(buf)
    ///     }
    ///     fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
    ///         discard(goes_on, || self.0.read(&mut [0; 4096]));
    ///     }
    /// }
    ///
    /// impl WriteHalf for Half {
    ///     fn write(&mut self, bytes: &[u8]) -> Result<usize> {
    ///         self.0.write(bytes)
    ///     }
    ///     fn flush(&mut self) -> Result<()> {
    ///         self.0.flush()
    ///     }
    ///     fn close(&mut self) {
    ///         let _ = self.0.shutdown(Shutdown::Write);
    ///     }
    /// }
    ///
    /// pub fn connection(socket: UnixStream, sides: [Fingerprint; 2]) -> Result<Connection> {
    ///     socket.set_read_timeout(Some(POLL))?;
    ///     socket.set_write_timeout(Some(POLL))?;
    ///     let (reader, writer) = (Half(socket.try_clone()?), Half(socket));
    ///     Ok(Connection::of_halves(reader, writer, sides, &ConnectOptions::default()))
    /// }
    /// # }
    /// ```
    ///
    /// Of the options the times, the interrupt, the clock, the bandwidth and the emulated link count.
    pub fn of_halves(
        reader: impl ReadHalf + 'static,
        writer: impl WriteHalf + 'static,
        [local, peer]: [Fingerprint; 2],
        options: &ConnectOptions,
    ) -> Connection {
        let identities = Some([local, peer]);
        let halves = (Box::new(reader) as _, Box::new(writer) as _);
        Connection::with(halves, identities, None, Duration::ZERO, options)
    }

    fn with(
        (reader, writer): Halves,
        identities: Option<[Fingerprint; 2]>,
        theirs: Option<Intent>,
        round_trip: Duration,
        options: &ConnectOptions,
    ) -> Connection {
        let [local, peer] = identities.map_or([None; 2], |both| both.map(Some));
        let is_beside = peer.is_some() && peer == options.beside;
        let link = if is_beside { Link::LAN } else { options.link };
        let interrupt = options.interrupt.child();
        let channel_options = ChannelOptions {
            timeout: options.timeout,
            patience: options.patience,
            interrupt: interrupt.clone(),
            link,
            clock: options.clock.clone(),
            ..ChannelOptions::default()
        };
        Connection {
            channel: FramedChannel::new(reader, writer, channel_options),
            local,
            peer,
            theirs,
            refused: Vec::new(),
            link: Link {
                bits_per_second: options.bandwidth.or(link.bits_per_second),
                rtt: round_trip + link.rtt,
            },
            proxy: None,
            deadline: Deadline::new(options.deadline, options.wait, interrupt),
        }
    }

    pub(crate) fn over(
        carrier: Carrier,
        secured: Option<Secured>,
        round_trip: Duration,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> io::Result<Connection> {
        let theirs = secured.as_ref().and_then(|secured| secured.theirs);
        let peer = secured.as_ref().map(|secured| secured.peer);
        let halves = carrier.into_halves()?;
        let halves = match secured {
            Some(secured) => tls_stream::halves(secured.tls, halves),
            None => halves,
        };
        let identities = match transport {
            Transport::Tls { identity, .. } => peer.map(|peer| [identity.fingerprint(), peer]),
            Transport::PlaintextForBenchmarksOnly => None,
        };
        Ok(Connection::with(
            halves, identities, theirs, round_trip, options,
        ))
    }
}
