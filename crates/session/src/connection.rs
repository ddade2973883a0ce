//! A connection to the peer, and how to make it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use vesica_wire::{
    ChannelOptions, Clock, FramedChannel, Interrupt, Link, ReadHalf, WriteHalf, tcp_halves,
};

use crate::deadline::Deadline;
use crate::{Fingerprint, Identity, tls_stream};

/// What protects the bytes.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// TLS 1.3 with both sides' keys pinned.
    Tls {
        /// Our key.
        identity: &'a Identity,
        /// The pinned peer; no other is accepted.
        peer: Fingerprint,
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
    /// Hears of connections that a listener turns away.
    pub on_refused: OnRefused,
    /// Ends everything when raised.
    pub interrupt: Interrupt,
    /// Emulated link for what this side sends.
    pub link: Link,
    /// A peer at the same place, to which no emulated link leads.
    pub beside: Option<Fingerprint>,
    /// Bits per second of the link, if they are known. They decide what a job leaves open ([`Connection::link`]).
    pub bandwidth: Option<u64>,
    /// What waits go by; [`ConnectOptions::ready`] goes by the same.
    pub clock: Clock,
}

impl Default for ConnectOptions {
    /// Two minutes to connect, the times of [`ChannelOptions`], the usual deadline, ready from the start, no listener for refusals, its
    /// own interrupt flag, no emulated link, no known bandwidth.
    fn default() -> Self {
        let channel = ChannelOptions::default();
        ConnectOptions {
            wait: Duration::from_secs(120),
            timeout: channel.timeout,
            patience: channel.patience,
            deadline: None,
            ready: Readiness::from_the_start(),
            on_refused: OnRefused::default(),
            interrupt: Interrupt::new(),
            link: Link::LAN,
            beside: None,
            bandwidth: None,
            clock: Clock::default(),
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
    /// Connections that were turned away before the peer connected: the first 16 wrong identities, and the
    /// first 16 others.
    pub refused: Vec<Refused>,
    /// What is known of the link: the bandwidth that was declared, or else that of an emulated link, and the round trip that
    /// connecting took, along with an emulated one.
    pub link: Link,
    pub(crate) deadline: Deadline,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("refused", &self.refused)
            .field("link", &self.link)
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

    pub(crate) fn over(
        stream: TcpStream,
        tls: Option<rustls::Connection>,
        round_trip: Duration,
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
        let (local, peer) = match transport {
            Transport::Tls { identity, peer } => (Some(identity.fingerprint()), Some(*peer)),
            Transport::PlaintextForBenchmarksOnly => (None, None),
        };
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
        Ok(Connection {
            channel: FramedChannel::new(reader, writer, channel_options),
            local,
            peer,
            refused: Vec::new(),
            link: Link {
                bits_per_second: options.bandwidth.or(link.bits_per_second),
                rtt: round_trip + link.rtt,
            },
            deadline: Deadline::new(options.deadline, options.wait, interrupt),
        })
    }
}

/// Whether this side is ready for its peer. Clones share one state.
///
/// [`ConnectOptions::wait`] counts from the moment that this side is ready, so that the peer may connect
/// while a table is still being read, however long that takes. Several waits of one side that became ready end together.
#[derive(Clone, Debug)]
pub struct Readiness(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    clock: Clock,
    since: OnceLock<Since>,
}

/// Since when a side is ready, or knows that it will not be.
#[derive(Clone, Copy, Debug)]
enum Since {
    Ready(Instant),
    GaveUp(Instant),
}

/// Time for which a side that gives up goes on with a handshake that has begun: its peer may take it for done.
const GRACE: Duration = Duration::from_secs(1);

impl Readiness {
    /// Not ready until [`Readiness::set`].
    #[allow(
        clippy::new_without_default,
        reason = "the default of the options is to be ready from the start"
    )]
    pub fn new() -> Readiness {
        Readiness::by(Clock::default())
    }

    /// Not ready until [`Readiness::set`], with this clock for the moment of that.
    pub fn by(clock: Clock) -> Readiness {
        Readiness(Some(Arc::new(State {
            clock,
            since: OnceLock::new(),
        })))
    }

    /// Ready from the start: the wait counts from the call that waits.
    pub fn from_the_start() -> Readiness {
        Readiness(None)
    }

    /// From now on this side is ready.
    pub fn set(&self) {
        if let Some(State { clock, since }) = self.0.as_deref() {
            since.get_or_init(|| Since::Ready(clock.now()));
        }
    }

    /// This side will not be ready: whoever waits for its peer tries no further, but for a second in which what has begun
    /// may end. Does nothing if it is ready.
    pub fn give_up(&self) {
        if let Some(State { clock, since }) = self.0.as_deref() {
            since.get_or_init(|| Since::GaveUp(clock.now()));
        }
    }

    /// When a wait ends that began at this time and takes so long; `None` as long as this side is not ready.
    pub(crate) fn deadline(&self, began: Instant, wait: Duration) -> Option<Instant> {
        match &self.0 {
            None => began.checked_add(wait),
            Some(state) => match state.since.get()? {
                Since::Ready(ready) => ready.checked_add(wait),
                Since::GaveUp(at) => at.checked_add(GRACE.min(wait)),
            },
        }
    }

    pub(crate) fn has_given_up(&self) -> bool {
        let since = self.0.as_ref().and_then(|state| state.since.get());
        matches!(since, Some(Since::GaveUp(_)))
    }
}

/// A connection that a listener turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it came from.
    pub from: SocketAddr,
    /// The identity that it proved, where that was the reason.
    pub identity: Option<Fingerprint>,
    /// Why, in words for the user.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.from, self.reason)
    }
}

/// Maximum number of turned-away connections of either kind (wrong identities, others) to remember.
pub(crate) const MAX_REFUSED: usize = 16;

/// Called for connections that a listener turns away, when it does so, on the waiting thread. Of a flood only
/// the first ones are reported, as [`crate::Connection::refused`] lists them, in however many waits.
#[derive(Clone, Default)]
pub struct OnRefused(Option<Arc<Hearing>>);

struct Hearing {
    hear: Box<dyn Fn(&Refused) + Send + Sync>,
    heard: Mutex<Heard>,
}

/// Whom all waits have reported.
#[derive(Default)]
struct Heard {
    identities: Vec<Fingerprint>,
    others: usize,
}

impl Heard {
    /// Whether to report this one too.
    fn is_news(&mut self, refused: &Refused) -> bool {
        match refused.identity {
            Some(identity) => {
                let known = &mut self.identities;
                let is_news = known.len() < MAX_REFUSED && !known.contains(&identity);
                if is_news {
                    known.push(identity);
                }
                is_news
            }
            None => {
                self.others = self.others.saturating_add(1);
                self.others <= MAX_REFUSED
            }
        }
    }
}

impl OnRefused {
    /// Calls `hear` for each.
    pub fn new(hear: impl Fn(&Refused) + Send + Sync + 'static) -> OnRefused {
        OnRefused(Some(Arc::new(Hearing {
            hear: Box::new(hear),
            heard: Mutex::default(),
        })))
    }

    pub(crate) fn report(&self, refused: &Refused) {
        let Some(hearing) = &self.0 else { return };
        let mut heard = hearing.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = heard.is_news(refused);
        drop(heard);
        if is_news {
            (hearing.hear)(refused);
        }
    }
}

impl fmt::Debug for OnRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hears = self.0.is_some();
        f.debug_tuple("OnRefused").field(&hears).finish()
    }
}
