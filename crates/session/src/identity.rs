//! Identities: an Ed25519 key in a file.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::SigningKey;
use vesica_files::{PrivateFile, found_at, keep_name};
use zeroize::Zeroizing;

use crate::{Error, Fingerprint, random, read_secret};

/// PKCS#8 (RFC 8410, version 1) around the 32 bytes of an Ed25519 seed that follow.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const PEM_LABEL: &str = "PRIVATE KEY";

/// SubjectPublicKeyInfo (RFC 8410) around the 32 bytes of an Ed25519 public key that follow.
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// The public key of an [`Identity`], which checks what that has signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// The fingerprint by which a person pins it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_public_key(&[&SPKI_PREFIX[..], &self.0].concat())
    }

    /// Whether [`Identity::sign`] made this signature.
    pub fn has_signed(
        &self,
        context: &str,
        message: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &self.0);
        key.verify(&signed(context, message), signature).is_ok()
    }
}

/// What is signed of a message. What TLS has signed begins with blanks (RFC 8446, section 4.4.3), and this does not.
fn signed(context: &str, message: &[u8]) -> Vec<u8> {
    let hash = blake3::derive_key(context, message);
    [b"vesica/1 signature ".as_slice(), &hash].concat()
}

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
        Self::from_seed(&seed)
    }

    /// The identity whose Ed25519 key has this seed (RFC 8032, section 5.1.5), which is as secret as the identity.
    ///
    /// Fails with [`Error::Usage`] if the TLS library takes no such key.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Identity, Error> {
        let mut pkcs8 = Zeroizing::new(Vec::with_capacity(PKCS8_PREFIX.len() + seed.len()));
        pkcs8.extend_from_slice(&PKCS8_PREFIX);
        pkcs8.extend_from_slice(seed);
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
    /// Fails as [`read_secret`], so with [`Error::ExposedSecret`] when other users can read the key in it; with
    /// [`Error::NoIdentity`] when there is none, and with [`Error::NotAnIdentity`] when it is malformed or something else.
    pub fn load(path: impl AsRef<Path>) -> Result<Identity, Error> {
        let path = path.as_ref();
        let refused = |problem| Error::NotAnIdentity {
            path: path.to_owned(),
            problem,
        };
        // Who may read it matters of a key alone.
        let other = found_at(path).filter(|found| *found != "an identity");
        let other = other.map(|found| refused(format!("this is {found}, and not an identity")));
        let read = read_secret(path).map_err(|error| match (error, other.clone()) {
            (Error::ExposedSecret { .. } | Error::SecretFile { .. }, Some(other)) => other,
            (Error::SecretFile { .. }, None) if !path.exists() => {
                Error::NoIdentity(path.to_owned())
            }
            (error, _) => error,
        });
        Self::parse_pem(&read?).map_err(|problem| other.unwrap_or_else(|| refused(problem.into())))
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
            file.place_new()?;
            // Nobody is told the fingerprint of a key that may be gone tomorrow.
            keep_name(path).inspect_err(|_| drop(std::fs::remove_file(path)))
        };
        save().map_err(fail)
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

    /// Signs what this side publishes. `context` must be unique to the purpose.
    ///
    /// Fails with [`Error::Usage`] if the key does not sign, which no key of this type does.
    pub fn sign(&self, context: &str, message: &[u8]) -> Result<[u8; SIGNATURE_BYTES], Error> {
        let cannot = || Error::Usage("identity: the key does not sign".into());
        let signer = self.key.choose_scheme(&[SignatureScheme::ED25519]);
        let signer = signer.ok_or_else(cannot)?;
        let signature = signer
            .sign(&signed(context, message))
            .map_err(|_| cannot())?;
        signature.try_into().map_err(|_| cannot())
    }

    /// The public key.
    pub fn public_key(&self) -> PublicKey {
        let bytes = self.public_key.as_ref().last_chunk();
        PublicKey(*bytes.expect("SubjectPublicKeyInfo ends in the key"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_one_key_purpose_and_message() {
        let [me, other] = [0, 1].map(|_| Identity::generate().unwrap());
        let key = me.public_key();
        assert_eq!(key.fingerprint(), me.fingerprint());
        let signature = me.sign("vesica test", b"message").unwrap();
        assert!(key.has_signed("vesica test", b"message", &signature));
        assert!(!key.has_signed("vesica test 2", b"message", &signature));
        assert!(!key.has_signed("vesica test", b"massage", &signature));
        assert!(
            !other
                .public_key()
                .has_signed("vesica test", b"message", &signature)
        );
        let mut spoilt = signature;
        spoilt[40] ^= 1;
        assert!(!key.has_signed("vesica test", b"message", &spoilt));
    }
}
