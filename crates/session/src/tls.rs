//! TLS 1.3 with raw public keys (RFC 7250), both of them pinned.
//!
//! There are no certificates, no resumption, no early data and no key log. A peer first has to prove that it
//! holds the key that it shows. Then the key's fingerprint is compared with the pinned one, still within the
//! handshake, so that an unknown peer can never send a byte of the job. The first bytes under these keys are each side's
//! [`Intent`], and belong to the handshake too: a refusal, of an identity or of what somebody has come for, is a failure to
//! connect and not a failure of the job.

use std::fmt;
use std::io;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    DistinguishedName, Error as TlsError, PeerIncompatible, ServerConfig, ServerConnection,
    SignatureScheme,
};
use vesica_wire::{Interrupt, POLL, socket};

use crate::carrier::{Carrier, retry};
use crate::intent::{GREETING, Stray};
use crate::key_exchange::X25519MlKem768;
use crate::web_socket::{NoUpgrade, Opened, Upgrade, Upgraded, is_request};
use crate::{Fingerprint, Identity, Intent};

const ALPN: &[u8] = b"vesica/1";

/// Which side of TLS a party is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Listener,
    Connector,
}

/// Why a handshake failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The peer proved that it holds this key, which is not the pinned one.
    WrongPeer(Fingerprint),
    /// The pinned peer, having proved its key, said that ours is not the one it pinned.
    Refused,
    /// An unauthenticated peer broke off with this alert.
    Alert(AlertDescription),
    /// The pinned peer has come for something else.
    Stray(Stray),
    /// The data received are not this program's TLS.
    Foreign(String),
    /// The connection ended before the handshake did.
    Gone(String),
    /// The handshake took too long.
    TimedOut,
    /// A listener had too many handshakes to do, and this one had not got anywhere yet.
    CrowdedOut,
    /// What this side's flag says.
    Interrupted(vesica_wire::Error),
}

impl Failure {
    /// Whether the other side expects another identity than ours.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Failure::Refused | Failure::Alert(AlertDescription::AccessDenied)
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::WrongPeer(got) => write!(f, "wrong identity {got}"),
            Failure::Refused => f.write_str("it refused this side's identity"),
            Failure::Alert(AlertDescription::AccessDenied) => f.write_str(
                "it refused this side's identity, without proving its own (TLS alert AccessDenied)",
            ),
            Failure::Alert(alert) => write!(f, "it broke off with TLS alert {alert:?}"),
            Failure::Stray(stray) if stray.is_passing => f.write_str(
                "the peer has examined the connection there, and not come for a run yet",
            ),
            Failure::Stray(stray) => stray.error.fmt(f),
            Failure::Foreign(what) => write!(f, "not this program's TLS ({what})"),
            Failure::Gone(what) => write!(f, "ended before it was secure ({what})"),
            Failure::TimedOut => f.write_str("the TLS handshake took too long"),
            Failure::CrowdedOut => f.write_str("it was idle while others came"),
            Failure::Interrupted(why) => why.fmt(f),
        }
    }
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something arrived and was processed.
    Moved,
    /// Nothing more can be done until the peer sends something.
    Waiting,
    /// Both sides have proved their keys.
    Done,
}

/// Whose keys a side knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned<'a> {
    /// Of these one is accepted.
    pub(crate) expected: &'a [Fingerprint],
    /// Such a one learns this side's key, and is refused then.
    pub(crate) known: &'a [Fingerprint],
    /// The name that a connecting side tells in clear, if any.
    pub(crate) sni: Option<&'a str>,
}

impl<'a> Pinned<'a> {
    /// No others are known.
    pub(crate) fn only(expected: &'a [Fingerprint]) -> Pinned<'a> {
        Pinned {
            expected,
            known: &[],
            sni: None,
        }
    }
}

/// What a listener knows of who has connected.
#[derive(Debug)]
enum Opening {
    /// Nothing.
    Silent,
    /// That it asks for a WebSocket.
    Upgrade(Upgrade),
    /// What it sends is TLS.
    Tls,
}

/// A handshake under way. Whether a step blocks depends on the carrier's mode.
#[derive(Debug)]
pub(crate) struct Handshake {
    carrier: Carrier,
    opening: Opening,
    /// The WebSocket that a listener has opened for it.
    web: Option<Opened>,
    tls: rustls::Connection,
    pin: Arc<Pin>,
    side: Side,
    intent: Intent,
    /// Whether this side has said what it has come for.
    has_greeted: bool,
    /// What the peer has said of that so far.
    greeting: Vec<u8>,
    /// What the peer has come for, once the handshake is done.
    theirs: Option<Intent>,
    /// When this side's first message was sent.
    sent: Option<Instant>,
    /// From then to the peer's answer.
    round_trip: Duration,
}

impl Handshake {
    pub(crate) fn new(
        carrier: Carrier,
        side: Side,
        identity: &Identity,
        pinned: Pinned<'_>,
        intent: Intent,
    ) -> Result<Handshake, Failure> {
        let pin = Arc::new(Pin::new(pinned));
        let tls = connection(side, identity, &pin, pinned.sni)
            .map_err(|e| Failure::Foreign(format!("TLS could not be set up: {e}")))?;
        Ok(Handshake {
            carrier,
            opening: Opening::Tls,
            web: None,
            tls,
            pin,
            side,
            intent,
            has_greeted: false,
            greeting: Vec::with_capacity(GREETING),
            theirs: None,
            sent: None,
            round_trip: Duration::ZERO,
        })
    }

    /// Takes a request for a WebSocket too: of somebody who has connected to a port of this side.
    pub(crate) fn at_port(self) -> Handshake {
        Handshake {
            opening: Opening::Silent,
            ..self
        }
    }

    /// The fingerprint of the key that the peer has shown, which is proved once the handshake is done.
    pub(crate) fn peer(&self) -> Option<Fingerprint> {
        shown(&self.tls)
    }

    /// Whether the peer has begun a handshake, or a WebSocket for it, that this side understands.
    pub(crate) fn has_begun(&self) -> bool {
        self.web.is_some() || self.tls.negotiated_cipher_suite().is_some()
    }

    /// The time from this side's first message to the peer's answer; zero if there was none.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Sends what is due and reads once.
    pub(crate) fn step(&mut self) -> Result<Step, Failure> {
        let step = self.advance();
        match self.pin.refused.get() {
            Some(got) => Err(Failure::WrongPeer(*got)),
            None => step,
        }
    }

    fn advance(&mut self) -> Result<Step, Failure> {
        let gone = |e: io::Error| Failure::Gone(e.to_string());
        if let Some(step) = self.open()? {
            return Ok(step);
        }
        if !self.flush()? {
            return Ok(Step::Waiting);
        }
        if !self.tls.is_handshaking() {
            check_end(&self.tls, &self.pin)?;
            if self.greet()? {
                return Ok(Step::Done);
            }
        }
        match retry(self.tls.read_tls(&mut self.carrier)).map_err(gone)? {
            None => return Ok(Step::Waiting),
            Some(0) => return Err(Failure::Gone("closed by the peer".into())),
            Some(_) => {}
        }
        if let Some(sent) = self.sent.filter(|_| self.round_trip.is_zero()) {
            self.round_trip = sent.elapsed();
        }
        match self.tls.process_new_packets() {
            Ok(_) => Ok(Step::Moved),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Finds out whether a WebSocket is asked for, and opens it; `None` once that is done.
    fn open(&mut self) -> Result<Option<Step>, Failure> {
        let gone = |e: io::Error| Failure::Gone(e.to_string());
        if let Opening::Silent = self.opening {
            let mut first = [0];
            self.opening = match retry(self.carrier.socket().peek(&mut first)).map_err(gone)? {
                None => return Ok(Some(Step::Waiting)),
                Some(1) if is_request(first[0]) => Opening::Upgrade(Upgrade::default()),
                Some(_) => Opening::Tls,
            };
        }
        if let Opening::Upgrade(upgrade) = &mut self.opening {
            match upgrade.step(&mut self.carrier) {
                Ok(Upgraded::Open(opened)) => {
                    self.opening = Opening::Tls;
                    self.web = Some(opened);
                }
                Ok(Upgraded::Moved) => return Ok(Some(Step::Moved)),
                Ok(Upgraded::Waiting) => return Ok(Some(Step::Waiting)),
                Err(NoUpgrade::Broken(e)) => return Err(gone(e)),
                Err(NoUpgrade::Refused(why)) => return Err(Failure::Foreign(why.into())),
            }
        }
        Ok(None)
    }

    /// Says what this side has come for, and hears what the peer has; returns whether that is done.
    fn greet(&mut self) -> Result<bool, Failure> {
        let gone = |e: io::Error| Failure::Gone(e.to_string());
        if !self.has_greeted {
            let greeting = self.intent.greeting();
            io::Write::write_all(&mut self.tls.writer(), &greeting).map_err(gone)?;
            self.has_greeted = true;
        }
        if !self.flush()? {
            return Ok(false);
        }
        while self.greeting.len() < GREETING {
            let mut bytes = [0; GREETING];
            let rest = &mut bytes[self.greeting.len()..];
            match retry(io::Read::read(&mut self.tls.reader(), rest)).map_err(gone)? {
                None => return Ok(false),
                Some(0) => return Err(Failure::Gone("closed by the peer".into())),
                Some(count) => self.greeting.extend_from_slice(&rest[..count]),
            }
        }
        // Exactly so many were read.
        let greeting = self.greeting.first_chunk().expect("a whole greeting");
        self.theirs = Some(self.intent.meet(greeting).map_err(Failure::Stray)?);
        Ok(true)
    }

    /// Sends what is due; returns whether everything has been sent.
    fn flush(&mut self) -> Result<bool, Failure> {
        while self.tls.wants_write() {
            match retry(self.tls.write_tls(&mut self.carrier)) {
                Ok(Some(_)) => self.sent = self.sent.or_else(|| Some(Instant::now())),
                Ok(None) => return Ok(false),
                Err(e) => return Err(Failure::Gone(e.to_string())),
            }
        }
        let flushed = retry(self.carrier.flush());
        let flushed = flushed.map_err(|e| Failure::Gone(e.to_string()))?;
        Ok(flushed.is_some())
    }

    /// An alert proves something only if the peer has proved its key: to a connecting side whose part of the
    /// handshake is done. Any other alert may come from anybody on the path.
    fn explain(&self, error: TlsError) -> Failure {
        let proven = self.side == Side::Connector && !self.tls.is_handshaking();
        match error {
            TlsError::AlertReceived(AlertDescription::AccessDenied) if proven => Failure::Refused,
            TlsError::AlertReceived(alert) => Failure::Alert(alert),
            other => Failure::Foreign(other.to_string()),
        }
    }

    /// What carries the secured bytes, over a [patient](socket::patient) socket.
    pub(crate) fn finish(self) -> io::Result<(Carrier, Secured)> {
        socket::patient(self.carrier.socket())?;
        let peer = self.peer().ok_or(io::ErrorKind::NotConnected)?;
        if let Some(opened) = &self.web {
            opened.trust();
        }
        let secured = Secured {
            peer,
            tls: self.tls,
            theirs: self.theirs,
        };
        Ok((self.carrier, secured))
    }

    /// Ends a failed handshake.
    pub(crate) fn leave(self) -> Leaving {
        Leaving {
            carrier: self.carrier,
            tls: self.tls,
            until: Instant::now() + Duration::from_millis(300),
            shut: false,
        }
    }
}

/// What a handshake has led to.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) tls: rustls::Connection,
    /// Which of the expected keys the peer holds.
    pub(crate) peer: Fingerprint,
    /// What the peer has come for.
    pub(crate) theirs: Option<Intent>,
}

/// A failed handshake whose alert is being sent. The peer gets a moment to read it: closing at once could
/// reset the connection before that.
#[derive(Debug)]
pub(crate) struct Leaving {
    carrier: Carrier,
    tls: rustls::Connection,
    until: Instant,
    shut: bool,
}

impl Leaving {
    /// Continues; returns whether nothing is left to do.
    pub(crate) fn step(&mut self) -> bool {
        if Instant::now() >= self.until {
            return true;
        }
        let done = |outcome: io::Result<Option<usize>>| matches!(outcome, Err(_) | Ok(Some(0)));
        if self.tls.wants_write() {
            return done(retry(self.tls.write_tls(&mut self.carrier)));
        }
        if !self.shut {
            self.shut = true;
            return self.carrier.end().is_err();
        }
        let mut sink = [0; 4096];
        done(retry(io::Read::read(&mut self.carrier, &mut sink)))
    }
}

/// Whether this is a name that TLS can tell, which addresses are not.
pub fn is_server_name(text: &str) -> bool {
    matches!(ServerName::try_from(text), Ok(ServerName::DnsName(_)))
}

/// Runs a whole handshake until `is_over`, on a carrier with [short timeouts](block).
pub(crate) fn handshake(
    carrier: Carrier,
    side: Side,
    identity: &Identity,
    pinned: Pinned<'_>,
    intent: Intent,
    is_over: &dyn Fn() -> bool,
    interrupt: &Interrupt,
) -> Result<(Carrier, Secured), Failure> {
    let mut handshake = Handshake::new(carrier, side, identity, pinned, intent)?;
    let failure = loop {
        match handshake.step() {
            Ok(Step::Done) => {
                return handshake.finish().map_err(|e| Failure::Gone(e.to_string()));
            }
            Ok(_) => match interrupt.check() {
                Err(why) => break Failure::Interrupted(why),
                Ok(()) if is_over() => break Failure::TimedOut,
                Ok(()) => {}
            },
            Err(failure) => break failure,
        }
    };
    let mut leaving = handshake.leave();
    while !leaving.step() {}
    Err(failure)
}

/// Sets short timeouts, so that deadlines and the interrupt are checked often, for messages that fit into any buffer of the
/// system: [`socket::patient`] is for more.
pub(crate) fn block(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    socket::keep_alive(stream);
    stream.set_read_timeout(Some(POLL))?;
    stream.set_write_timeout(Some(POLL))
}

/// Checks what must hold after a handshake, whatever the verifiers did, and before anything is said.
fn check_end(tls: &rustls::Connection, pin: &Pin) -> Result<(), Failure> {
    if tls.alpn_protocol() != Some(ALPN) {
        return Err(Failure::Foreign("another application protocol".into()));
    }
    match shown(tls) {
        Some(got) if pin.expected.contains(&got) => Ok(()),
        Some(got) => Err(Failure::WrongPeer(got)),
        None => Err(Failure::Foreign("no public key".into())),
    }
}

/// The fingerprint of the key that the peer has shown.
fn shown(tls: &rustls::Connection) -> Option<Fingerprint> {
    let shown = tls.peer_certificates().and_then(|keys| keys.first());
    shown.map(|key| Fingerprint::of_public_key(key))
}

fn connection(
    side: Side,
    identity: &Identity,
    pin: &Arc<Pin>,
    sni: Option<&str>,
) -> Result<rustls::Connection, TlsError> {
    Ok(match side {
        Side::Listener => ServerConnection::new(Arc::new(server_config(identity, pin)?))?.into(),
        Side::Connector => {
            // The peer does not look at the name, which is sent if it was given: the key is what counts.
            let name = ServerName::try_from(sni.unwrap_or("vesica.invalid").to_owned())
                .map_err(|e| TlsError::General(e.to_string()))?;
            let mut config = client_config(identity, pin)?;
            config.enable_sni = sni.is_some();
            ClientConnection::new(Arc::new(config), name)?.into()
        }
    })
}

fn server_config(identity: &Identity, pin: &Arc<Pin>) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_details(provider(), Arc::new(NoClock))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::clone(pin) as Arc<dyn ClientCertVerifier>)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(raw_key(
            identity,
        ))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

fn client_config(identity: &Identity, pin: &Arc<Pin>) -> Result<ClientConfig, TlsError> {
    let mut config = ClientConfig::builder_with_details(provider(), Arc::new(NoClock))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(pin) as Arc<dyn ServerCertVerifier>)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(raw_key(
            identity,
        ))));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    Ok(config)
}

/// Keys that are pinned do not expire, so that a machine's clock may say anything, such as a time before 1970, which the
/// library's own refuses.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

/// There is one key exchange, and nothing to fall back to.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: vec![&X25519MlKem768],
        ..ring::default_provider()
    })
}

fn raw_key(identity: &Identity) -> Arc<CertifiedKey> {
    Arc::new(CertifiedKey::new(
        vec![CertificateDer::from(identity.public_key_der().to_vec())],
        identity.signing_key(),
    ))
}

/// Accepts the holders of some keys only, and has the handshake with those of others come to its end.
#[derive(Debug)]
struct Pin {
    expected: Vec<Fingerprint>,
    known: Vec<Fingerprint>,
    /// The fingerprint of the proven key that was refused.
    refused: OnceLock<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    fn new(
        Pinned {
            expected, known, ..
        }: Pinned<'_>,
    ) -> Self {
        Pin {
            expected: expected.to_vec(),
            known: known.to_vec(),
            refused: OnceLock::new(),
            algorithms: ring::default_provider().signature_verification_algorithms,
        }
    }

    fn verify(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let valid = verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            signature,
            &self.algorithms,
        )?;
        let got = Fingerprint::of_public_key(key);
        if self.expected.contains(&got) || self.known.contains(&got) {
            return Ok(valid);
        }
        self.refused.get_or_init(|| got);
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

fn no_tls12() -> Result<HandshakeSignatureValid, TlsError> {
    Err(PeerIncompatible::Tls12NotOffered.into())
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        // A raw key says nothing about itself. The pin is checked once its possession is proven.
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pin {
    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        // As above: the pin is checked once possession of the key is proven.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.verify(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
