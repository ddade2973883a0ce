//! Identities: an Ed25519 key in a file.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::SigningKey;
use vesica_files::{PrivateFile, sync_name};
use zeroize::Zeroizing;

use crate::{Error, Fingerprint, random, read_secret};

/// PKCS#8 (RFC 8410, version 1) around the 32 bytes of an Ed25519 seed that follow.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const PEM_LABEL: &str = "PRIVATE KEY";

/// A party's long-term key pair. Its secret is never shown; clones share one copy of it, which is wiped when the last of
/// them is dropped. The TLS library holds its own copy to sign with, which it does not wipe.
#[derive(Clone)]
pub struct Identity {
    pem: Arc<Zeroizing<String>>,
    key: Arc<dyn SigningKey>,
    public_key: SubjectPublicKeyInfoDer<'static>,
}

impl Identity {
    /// Makes a fresh identity from the operating system's randomness.
    ///
    /// Fails with [`Error::Run`], a resource error, when the operating system has no randomness.
    pub fn generate() -> Result<Identity, Error> {
        let mut seed = Zeroizing::new([0u8; 32]);
        random::fill(seed.as_mut())?;
        let mut pkcs8 = Zeroizing::new(Vec::with_capacity(PKCS8_PREFIX.len() + seed.len()));
        pkcs8.extend_from_slice(&PKCS8_PREFIX);
        pkcs8.extend_from_slice(seed.as_ref());
        Self::from_pkcs8(&pkcs8).map_err(|problem| Error::Usage(problem.into()))
    }

    /// Reads the PEM text of a PKCS#8 Ed25519 private key, as [`Identity::to_pem`] or
    /// `openssl genpkey -algorithm ed25519` write it.
    ///
    /// Fails with [`Error::Usage`], never showing any of the text.
    pub fn from_pem(pem: &[u8]) -> Result<Identity, Error> {
        Self::parse_pem(pem).map_err(|problem| Error::Usage(format!("identity: {problem}")))
    }

    /// The identity as PEM text of PKCS#8; as secret as the identity.
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::clone(&self.pem)
    }

    /// Reads an identity file.
    ///
    /// Fails as [`read_secret`], so with [`Error::ExposedSecret`] when other users can read the file; with
    /// [`Error::NoIdentity`] when there is none, and with [`Error::NotAnIdentity`] when it is malformed.
    pub fn load(path: &Path) -> Result<Identity, Error> {
        let read = read_secret(path).map_err(|error| match error {
            Error::SecretFile { .. } if !path.exists() => Error::NoIdentity(path.to_owned()),
            error => error,
        });
        Self::parse_pem(&read?).map_err(|problem| Error::NotAnIdentity {
            path: path.to_owned(),
            problem,
        })
    }

    /// Writes the identity to a new file that only its owner may read (mode 0600). It is on the disk when this returns.
    ///
    /// Fails with [`Error::IdentityFile`], and with [`Error::Run`], a resource error, on a full disk; an
    /// existing file is never overwritten.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let fail = |e: std::io::Error| {
            let line = format!("cannot write {}: {e}", path.display());
            Error::limit_or(&e, line, |_| Error::IdentityFile {
                path: path.to_owned(),
                problem: match e.kind() {
                    ErrorKind::AlreadyExists => {
                        "the file exists, and an identity is never overwritten".into()
                    }
                    _ => e.to_string(),
                },
            })
        };
        let save = || {
            let mut file = PrivateFile::create(path)?;
            file.write_all(self.to_pem().as_bytes())?;
            file.place_new()
        };
        save().map_err(fail)?;
        sync_name(path);
        Ok(())
    }

    /// The fingerprint by which peers pin this identity.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_public_key(self.public_key.as_ref())
    }

    /// Checks that a peer's fingerprint is not that of this identity.
    ///
    /// Fails with [`Error::OwnFingerprint`].
    pub fn check_peer(&self, peer: Fingerprint) -> Result<(), Error> {
        match peer == self.fingerprint() {
            true => Err(Error::OwnFingerprint),
            false => Ok(()),
        }
    }

    /// A 32-byte key that only holders of this identity can derive, for data that this side keeps for itself.
    /// `context` must be unique to the purpose.
    pub fn derive_key(&self, context: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, self.pem.as_bytes()))
    }

    pub(crate) fn signing_key(&self) -> Arc<dyn SigningKey> {
        Arc::clone(&self.key)
    }

    pub(crate) fn public_key_der(&self) -> &[u8] {
        self.public_key.as_ref()
    }

    fn parse_pem(pem: &[u8]) -> Result<Identity, &'static str> {
        let (label, pkcs8) = pem_rfc7468::decode_vec(pem).map_err(|_| "not a PEM file")?;
        let pkcs8 = Zeroizing::new(pkcs8);
        if label != PEM_LABEL {
            return Err("not a PKCS#8 private key (\"BEGIN PRIVATE KEY\")");
        }
        Self::from_pkcs8(&pkcs8)
    }

    fn from_pkcs8(pkcs8: &[u8]) -> Result<Identity, &'static str> {
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))
            .map_err(|_| "not an Ed25519 private key in PKCS#8")?;
        let public_key = key
            .public_key()
            .ok_or("an Ed25519 key without a public key")?
            .into_owned();
        let pem = pem_rfc7468::encode_string(PEM_LABEL, pem_rfc7468::LineEnding::LF, pkcs8)
            .map_err(|_| "a key too long to write")?;
        Ok(Identity {
            pem: Arc::new(Zeroizing::new(pem)),
            key,
            public_key,
        })
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}
