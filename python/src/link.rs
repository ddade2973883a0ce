//! How to reach the peer, and who it is.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use vesica::options::{parse_address, parse_peer_address, parse_sni};
use vesica::session::{Authorities, BoundListener, Listener, Proxies};
use vesica::{ConnectOptions, Endpoint, Fingerprint, Interrupt};

use crate::errors::Failure;
use crate::identity::{Identity, KeyPair};
use crate::options::fingerprint;

/// How to reach one peer, and who it is. Made by `listen` and `connect`; one run at a time goes over it, and any
/// number one after another. In a `with` statement it is cancelled at the end.
#[pyclass(frozen, module = "vesica")]
pub(crate) struct Link {
    pub(crate) identity: Arc<KeyPair>,
    pub(crate) peer: Fingerprint,
    /// The peer's other key, while it changes it.
    also: Option<Fingerprint>,
    /// Ends every run over the link.
    pub(crate) interrupt: Interrupt,
    side: Side,
    /// How it gets there.
    proxies: Proxies,
    sni: Option<String>,
    authorities: Authorities,
}

enum Side {
    /// The listener until a run takes it, and the address, which later runs bind again.
    Listen(Mutex<Option<Listener>>, String),
    Connect(String),
}

impl Link {
    /// Of a fingerprint, or of two of one peer that changes its key.
    fn new(identity: &Identity, peer: &Bound<'_, PyAny>, side: Side) -> Result<Link, Failure> {
        let (peer, also) = match (peer.extract::<String>(), peer.extract()) {
            (Ok(peer), _) => (peer, None),
            (_, Ok((peer, also))) => (peer, Some(also)),
            _ => {
                let found = peer.get_type().name()?;
                let line = format!("peer: a fingerprint, or a tuple of two, and not {found}");
                return Err(PyTypeError::new_err(line).into());
            }
        };
        let read = |text: String| {
            let peer = fingerprint("peer", &text)?;
            identity.0.key.check_peer(peer)?;
            Ok::<_, Failure>(peer)
        };
        let (peer, also) = (read(peer)?, also.map(read).transpose()?);
        Ok(Link {
            identity: Arc::clone(&identity.0),
            peer,
            also,
            interrupt: Interrupt::new(),
            side,
            proxies: Proxies::default(),
            sni: None,
            authorities: Authorities::OfMachine,
        })
    }

    /// The options of a connection over the link.
    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions {
            interrupt: self.interrupt.child(),
            also: self.also.into_iter().collect(),
            proxies: self.proxies.clone(),
            sni: self.sni.clone(),
            authorities: self.authorities.clone(),
            ..ConnectOptions::default()
        }
    }

    /// The endpoint of the next run.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match &self.side {
            Side::Connect(address) => Endpoint::Connect(address.clone()),
            Side::Listen(listener, address) => {
                match listener
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take()
                {
                    Some(listener) => Endpoint::Bound(BoundListener::new(listener)),
                    None => Endpoint::Listen(address.clone()),
                }
            }
        }
    }
}

#[pymethods]
impl Link {
    /// `host:port`: where this side listens, with the real port, or where it connects to.
    #[getter]
    fn address(&self) -> &str {
        match &self.side {
            Side::Listen(_, address) | Side::Connect(address) => address,
        }
    }

    /// Whether this side is the one that listens.
    #[getter]
    fn listens(&self) -> bool {
        matches!(self.side, Side::Listen(..))
    }

    /// The pinned fingerprint.
    #[getter]
    fn peer(&self) -> String {
        self.peer.to_string()
    }

    /// Ends a run over this link from another thread, and every later one: they raise StoppedError, and the peer is
    /// told. Frees the port of a listening link.
    fn cancel(&self) {
        self.interrupt.stop();
        drop(self.endpoint());
    }

    fn __enter__(link: Py<Self>) -> Py<Self> {
        link
    }

    /// Cancels the link.
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.cancel();
    }

    fn __repr__(&self) -> String {
        let verb = if self.listens() {
            "listening on"
        } else {
            "connecting to"
        };
        format!("<Link {verb} {}, peer {}>", self.address(), self.peer)
    }
}

/// A link that waits for the peer at `address`, `host:port`; port 0 picks a free one, which the link's `address`
/// names. The port is open from now on. `identity` is this side's, and `peer` the other's fingerprint, or a tuple of two while it
/// changes its key. Which side listens does not depend on who receives.
///
/// Raises NetworkError if the port is taken, UsageError if `address` has no port or `peer` is no other's fingerprint.
///
/// >>> me, other = Identity.generate(), Identity.generate()
/// >>> link = listen("127.0.0.1:0", identity=me, peer=other.fingerprint)
/// >>> link.listens
/// True
/// >>> link.cancel()
#[pyfunction]
#[pyo3(signature = (address, *, identity, peer))]
pub(crate) fn listen(
    address: &str,
    identity: &Identity,
    peer: &Bound<'_, PyAny>,
) -> Result<Link, Failure> {
    let listener = Listener::bind(&parse_address(address)?)?;
    let bound = listener.local_addr().to_string();
    Link::new(
        identity,
        peer,
        Side::Listen(Mutex::new(Some(listener)), bound),
    )
}

/// A link that connects to the peer at `address`, `host:port` or `wss://host/path` behind a web server, when it is used; the
/// run retries until its `wait` is over. `identity` is this side's, and `peer` the other's fingerprint, or a tuple of two while it changes its key. `proxy` is
/// `http://HOST:PORT`, `https://HOST:PORT`, `socks5://HOST:PORT`, or `socks5h://HOST:PORT`, which looks the peer's name up itself, perhaps with `USER:PASSWORD@`; `"none"` connects
/// directly. By default it is that of HTTPS_PROXY or ALL_PROXY, but for hosts in NO_PROXY and for this machine. `sni` is told
/// in the first message of TLS, in clear, for proxies that share a port by names. `outer_ca` is the text of certificates in
/// PEM: of the authorities that vouch for the web server or for a proxy of `https://`, in the place of the machine's.
///
/// Raises UsageError if `address` has no port, `peer` is no other's fingerprint, `proxy` is not one, or `outer_ca` has no
/// certificates.
///
/// >>> me, other = Identity.generate(), Identity.generate()
/// >>> connect("shop.example:7340", identity=me, peer=other.fingerprint).address
/// 'shop.example:7340'
#[pyfunction]
#[pyo3(signature = (address, *, identity, peer, proxy=None, sni=None, outer_ca=None))]
pub(crate) fn connect(
    address: &str,
    identity: &Identity,
    peer: &Bound<'_, PyAny>,
    proxy: Option<&str>,
    sni: Option<&str>,
    outer_ca: Option<&str>,
) -> Result<Link, Failure> {
    let link = Link::new(identity, peer, Side::Connect(parse_peer_address(address)?))?;
    Ok(Link {
        proxies: proxy.map(str::parse).transpose()?.unwrap_or_default(),
        sni: sni.map(parse_sni).transpose()?,
        authorities: match outer_ca {
            None => Authorities::OfMachine,
            Some(pem) => Authorities::from_pem(pem.as_bytes())?,
        },
        ..link
    })
}
