//! TLS 1.3 with raw public keys (RFC 7250), both of them pinned.
//!
//! There are no certificates, no resumption, no early data and no key log. A peer first has to
//! prove that it holds the key that it shows; then the key's fingerprint is compared with the
//! pinned one, still within the handshake, so that an unknown peer never gets to send a byte.

use std::io;
use std::net::{Shutdown, TcpStream};
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
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    DistinguishedName, Error as TlsError, PeerIncompatible, ServerConfig, ServerConnection,
    SignatureScheme,
};
use vesica_wire::{Interrupt, POLL};

use crate::{Fingerprint, Identity};

const ALPN: &[u8] = b"vesica/1";
/// What a listener sends once it has let the peer in; a connecting side waits for it, so that
/// being refused is a failure of connecting and not of the job.
const WELCOME: u8 = 1;

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
    /// The peer said that our key is not the one it pinned.
    Refused,
    /// What came is not this program's TLS.
    Foreign(String),
    /// The connection ended before the handshake did.
    Gone(String),
    /// The handshake took too long.
    TimedOut,
    Interrupted,
}

/// Runs the handshake by `deadline`.
pub(crate) fn handshake(
    stream: &TcpStream,
    side: Side,
    identity: &Identity,
    pinned: Fingerprint,
    deadline: Instant,
    interrupt: &Interrupt,
) -> Result<rustls::Connection, Failure> {
    prepare(stream).map_err(|e| Failure::Gone(e.to_string()))?;
    let pin = Arc::new(Pin::new(pinned));
    let mut tls = connection(side, identity, &pin)
        .map_err(|e| Failure::Foreign(format!("TLS could not be set up: {e}")))?;
    let outcome = Driver {
        stream,
        deadline,
        interrupt,
    }
    .run(&mut tls, side);
    let outcome = outcome.and_then(|()| check_end(&tls, &pin));
    if outcome.is_err() {
        hang_up(stream, &mut tls);
    }
    match (outcome, pin.refused.get()) {
        (Ok(()), None) => Ok(tls),
        (_, Some(got)) => Err(Failure::WrongPeer(*got)),
        (Err(failure), None) => Err(failure),
    }
}

/// Short timeouts, so that the deadline and the interrupt are looked at often.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(POLL))?;
    stream.set_write_timeout(Some(POLL))
}

/// What must hold of a finished handshake, whatever the verifiers did.
fn check_end(tls: &rustls::Connection, pin: &Pin) -> Result<(), Failure> {
    if tls.alpn_protocol() != Some(ALPN) {
        return Err(Failure::Foreign("another application protocol".into()));
    }
    let shown = tls.peer_certificates().and_then(|keys| keys.first());
    match shown.map(|key| Fingerprint::of_public_key(key)) {
        Some(got) if got == pin.expected => Ok(()),
        Some(got) => Err(Failure::WrongPeer(got)),
        None => Err(Failure::Foreign("no public key".into())),
    }
}

struct Driver<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    interrupt: &'a Interrupt,
}

impl Driver<'_> {
    fn run(&self, tls: &mut rustls::Connection, side: Side) -> Result<(), Failure> {
        while tls.is_handshaking() {
            self.write(tls)?;
            if tls.is_handshaking() {
                self.read(tls)?;
            }
        }
        self.write(tls)?;
        match side {
            Side::Listener => {
                io::Write::write_all(&mut tls.writer(), &[WELCOME])
                    .map_err(|e| Failure::Gone(e.to_string()))?;
                self.write(tls)
            }
            Side::Connector => self.await_welcome(tls),
        }
    }

    fn await_welcome(&self, tls: &mut rustls::Connection) -> Result<(), Failure> {
        let mut byte = [0];
        loop {
            match io::Read::read(&mut tls.reader(), &mut byte) {
                Ok(1) if byte == [WELCOME] => return Ok(()),
                Ok(0) => return Err(Failure::Gone("closed by the peer".into())),
                Ok(_) => return Err(Failure::Foreign("no welcome".into())),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.read(tls)?,
                Err(e) => return Err(Failure::Gone(e.to_string())),
            }
        }
    }

    fn read(&self, tls: &mut rustls::Connection) -> Result<(), Failure> {
        let count = self.retry(|mut stream| tls.read_tls(&mut stream))?;
        if count == 0 {
            return Err(Failure::Gone("closed by the peer".into()));
        }
        tls.process_new_packets().map_err(from_tls)?;
        Ok(())
    }

    fn write(&self, tls: &mut rustls::Connection) -> Result<(), Failure> {
        while tls.wants_write() {
            self.retry(|mut stream| tls.write_tls(&mut stream))?;
        }
        Ok(())
    }

    fn retry<T>(&self, mut attempt: impl FnMut(&TcpStream) -> io::Result<T>) -> Result<T, Failure> {
        loop {
            if self.interrupt.is_raised() {
                return Err(Failure::Interrupted);
            }
            if Instant::now() >= self.deadline {
                return Err(Failure::TimedOut);
            }
            match attempt(self.stream) {
                Ok(value) => return Ok(value),
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::Interrupted => {}
                    _ => return Err(Failure::Gone(e.to_string())),
                },
            }
        }
    }
}

fn from_tls(error: TlsError) -> Failure {
    match error {
        TlsError::AlertReceived(AlertDescription::AccessDenied) => Failure::Refused,
        TlsError::AlertReceived(alert) => {
            Failure::Foreign(format!("the other side gave up with TLS alert {alert:?}"))
        }
        other => Failure::Foreign(other.to_string()),
    }
}

/// Sends the alert that is due, and waits a moment for the peer to have read it: closing at once
/// could reset the connection under the alert.
fn hang_up(mut stream: &TcpStream, tls: &mut rustls::Connection) {
    let until = Instant::now() + Duration::from_millis(300);
    while tls.wants_write() && Instant::now() < until {
        match tls.write_tls(&mut stream) {
            Ok(_) => {}
            Err(_) => return,
        }
    }
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let mut sink = [0; 4096];
    while Instant::now() < until {
        match io::Read::read(&mut stream, &mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

fn connection(
    side: Side,
    identity: &Identity,
    pin: &Arc<Pin>,
) -> Result<rustls::Connection, TlsError> {
    Ok(match side {
        Side::Listener => ServerConnection::new(Arc::new(server_config(identity, pin)?))?.into(),
        Side::Connector => {
            // The name is neither sent nor looked at: the key is what counts.
            let name = ServerName::try_from("vesica.invalid")
                .map_err(|e| TlsError::General(e.to_string()))?;
            ClientConnection::new(Arc::new(client_config(identity, pin)?), name)?.into()
        }
    })
}

fn server_config(identity: &Identity, pin: &Arc<Pin>) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
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
    let mut config = ClientConfig::builder_with_provider(provider())
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

fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider
        .kx_groups
        .retain(|group| group.name() == rustls::NamedGroup::X25519);
    Arc::new(provider)
}

fn raw_key(identity: &Identity) -> Arc<CertifiedKey> {
    Arc::new(CertifiedKey::new(
        vec![CertificateDer::from(identity.public_key_der().to_vec())],
        identity.signing_key(),
    ))
}

/// Lets in the holder of one key.
#[derive(Debug)]
struct Pin {
    expected: Fingerprint,
    /// The fingerprint of the proven key that was not let in.
    refused: OnceLock<Fingerprint>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    fn new(expected: Fingerprint) -> Self {
        Pin {
            expected,
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
        if got == self.expected {
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
