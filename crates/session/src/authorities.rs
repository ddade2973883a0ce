//! Who vouches for the servers that this side passes through on its way to the peer.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, Error as TlsError, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::Error;

/// Who vouches for web servers and proxies.
#[derive(Clone, Debug, Default)]
pub enum Authorities {
    /// Those that this machine trusts.
    #[default]
    OfMachine,
    /// These alone.
    Only(Arc<RootCertStore>),
}

impl Authorities {
    /// The certificates in a PEM text, in the place of the machine's.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none, or one is malformed.
    pub fn from_pem(pem: &[u8]) -> Result<Authorities, Error> {
        let wrong = || Error::Usage("no certificates of authorities in PEM are in it".into());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| wrong())?;
            roots.add(certificate).map_err(|_| wrong())?;
        }
        match roots.is_empty() {
            true => Err(wrong()),
            false => Ok(Authorities::Only(Arc::new(roots))),
        }
    }

    /// What a client of HTTP/1.1 goes by.
    ///
    /// # Errors
    /// The machine has no authorities.
    pub(crate) fn config(&self) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let mut config = match self {
            Authorities::OfMachine => builder.with_platform_verifier()?.with_no_client_auth(),
            Authorities::Only(roots) => builder
                .with_root_certificates(Arc::clone(roots))
                .with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}
