//! TLS with certificates, of a web server or a proxy that this side passes through on its way to the peer. It hides from the
//! network what the server in between sees; that the peer is the peer, its pinned key proves, in TLS within.

use std::io::{self, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConnection, Error as TlsError};

use crate::carrier::{Carrier, retry};
use crate::error::{Closed, shown};
use crate::tls_stream;
use crate::wait::Wait;
use crate::{Authorities, Error, NoConnection};

/// Secures a fresh carrier to `host`, a name or an address, perhaps in brackets.
///
/// # Errors
/// [`Error::Connect`] if another attempt would end alike; interrupts.
pub(crate) fn secure(
    carrier: &mut Carrier,
    host: &str,
    authorities: &Authorities,
    wait: &Wait<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Result<(), Closed>, Error> {
    let refused = |why: &dyn std::fmt::Display| {
        let why = shown(&why.to_string());
        let line = format!("{host} has no certificate that is trusted here ({why})");
        NoConnection::Certificate.error(line)
    };
    let bare = host.trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(bare).map_err(|e| refused(&e))?;
    let config = authorities.config().map_err(|e| refused(&e))?;
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(|e| refused(&e))?;
    loop {
        wait.check_interrupt()?;
        match advance(&mut tls, carrier) {
            Ok(true) => break,
            Ok(false) if is_over() => {
                let line = format!("TLS with {host} took too long");
                return Ok(Err((NoConnection::Other, line)));
            }
            Ok(false) => {}
            Err(Stop::Io(e)) => {
                let line = format!("TLS with {host} has broken off ({e})");
                return Ok(Err((NoConnection::Other, line)));
            }
            Err(Stop::Tls(error)) => {
                // The alert.
                let _ = tls.write_tls(carrier).and_then(|_| carrier.flush());
                return Err(match error {
                    TlsError::InvalidCertificate(why) => refused(&explained(&why)),
                    TlsError::General(why) => refused(&why),
                    error => {
                        let line =
                            format!("{host} does not speak TLS as a web server does ({error})");
                        NoConnection::NoWebSocket.error(line)
                    }
                });
            }
        }
    }
    let layered = carrier.layer(|below| tls_stream::halves(tls.into(), below));
    Ok(layered.map_err(|e| (NoConnection::Other, e.to_string())))
}

/// What is wrong with a certificate, where there are plain words for it.
fn explained(why: &CertificateError) -> String {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Other, UnknownIssuer,
    };
    match why {
        NotValidForName | NotValidForNameContext { .. } => "it is for another name".into(),
        Expired | ExpiredContext { .. } => {
            "it has expired, or this machine's clock is ahead".into()
        }
        NotValidYet | NotValidYetContext { .. } => {
            "it is not valid yet, or this machine's clock is behind".into()
        }
        UnknownIssuer => "its authority is not known here".into(),
        Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "it is an authority's own: a server's is signed by an authority".into()
        }
        other => other.to_string(),
    }
}

enum Stop {
    Io(io::Error),
    Tls(TlsError),
}

/// Sends what is due and reads once; whether the handshake is done.
fn advance(tls: &mut ClientConnection, carrier: &mut Carrier) -> Result<bool, Stop> {
    while tls.wants_write() {
        if retry(tls.write_tls(carrier)).map_err(Stop::Io)?.is_none() {
            return Ok(false);
        }
    }
    if retry(carrier.flush()).map_err(Stop::Io)?.is_none() {
        return Ok(false);
    }
    if !tls.is_handshaking() {
        return Ok(true);
    }
    match retry(tls.read_tls(carrier)).map_err(Stop::Io)? {
        None => Ok(false),
        Some(0) => Err(Stop::Io(io::ErrorKind::UnexpectedEof.into())),
        Some(_) => {
            tls.process_new_packets().map_err(Stop::Tls)?;
            Ok(false)
        }
    }
}
