//! Making the connection: who listens, who connects, and over what.

use std::net::SocketAddr;
use std::time::Duration;

use vesica_wire::{FramedChannel, Interrupt, Link};

use crate::{Error, Fingerprint, Identity};

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
    /// Time for the peer to appear, and later the longest silence of the peer in a run.
    pub timeout: Duration,
    /// Ends everything when raised.
    pub interrupt: Interrupt,
    /// Emulated link for what this side sends.
    pub link: Link,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            timeout: Duration::from_secs(120),
            interrupt: Interrupt::new(),
            link: Link::LAN,
        }
    }
}

/// An open connection to one authenticated peer.
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

/// A bound address on which one peer is awaited.
#[derive(Debug)]
pub struct Listener {}

impl Listener {
    /// Binds `address` (`host:port`; port 0 picks a free one).
    ///
    /// Fails with [`Error::Connect`] when the address is bad or taken.
    pub fn bind(address: &str) -> Result<Listener, Error> {
        todo!("{address}")
    }

    /// The address that is bound, with its real port.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        todo!()
    }

    /// Waits for the peer.
    pub fn accept(
        self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        todo!("{transport:?} {options:?}")
    }
}

/// Connects both ways: [`Listener::bind`] and [`Listener::accept`] for [`Endpoint::Listen`].
pub fn connect(
    endpoint: &Endpoint,
    transport: &Transport<'_>,
    options: &ConnectOptions,
) -> Result<Connection, Error> {
    todo!("{endpoint:?} {transport:?} {options:?}")
}
