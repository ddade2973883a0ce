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
/// PKCS#8 that is encrypted under a passphrase (RFC 5958, section 3).
const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";

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

/// Whether a passphrase can be tried: whoever has made a file says what that costs.
fn is_affordable(scheme: &pkcs8::pkcs5::EncryptionScheme) -> bool {
    use pkcs8::pkcs5::{EncryptionScheme, pbes2::Kdf};
    // As RFC 7914 has it, 128·N·r bytes.
    const MAX_MEMORY: u64 = 256 << 20;
    let EncryptionScheme::Pbes2(parameters) = scheme else {
        return false;
    };
    match &parameters.kdf {
        Kdf::Pbkdf2(of) => (1..=10_000_000).contains(&of.iteration_count),
        Kdf::Scrypt(of) => {
            let (n, r, p) = (
                of.cost_parameter,
                u64::from(of.block_size),
                of.parallelization,
            );
            let memory = n.checked_mul(128 * r);
            n > 1
                && n.is_power_of_two()
                && (1..=32).contains(&r)
                && (1..=16).contains(&p)
                && memory.is_some_and(|bytes| bytes <= MAX_MEMORY)
        }
        _ => false,
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

    /// Whether the text is that of an identity that is encrypted under a passphrase.
    pub fn is_encrypted(pem: &[u8]) -> bool {
        pem_rfc7468::decode_label(pem) == Ok(ENCRYPTED_LABEL)
    }

    /// Reads the PEM text of a PKCS#8 Ed25519 private key that is encrypted under a passphrase, as
    /// [`Identity::to_encrypted_pem`] or `openssl pkcs8 -topk8` write it.
    ///
    /// Fails with [`Error::Usage`], never showing any of the text, and so where the passphrase is another one.
    pub fn from_encrypted_pem(pem: &[u8], passphrase: &[u8]) -> Result<Identity, Error> {
        Self::decrypt_pem(pem, passphrase)
            .map_err(|problem| Error::Usage(format!("identity: {problem}")))
    }

    /// The identity as PEM text of PKCS#8 that is encrypted under a passphrase: AES-256 in CBC mode under a key of scrypt.
    ///
    /// Fails with [`Error::Run`], a resource error, when the operating system has no randomness, and with [`Error::Usage`] if
    /// the passphrase is empty.
    pub fn to_encrypted_pem(&self, passphrase: &[u8]) -> Result<Zeroizing<String>, Error> {
        if passphrase.is_empty() {
            return Err(Error::Usage("identity: a passphrase is not empty".into()));
        }
        let cannot = |_| Error::Usage("identity: it cannot be encrypted".into());
        let (_, der) = pem_rfc7468::decode_vec(self.pem.as_bytes()).map_err(cannot)?;
        let der = Zeroizing::new(der);
        let cannot = |_| Error::Usage("identity: it cannot be encrypted".into());
        let key = pkcs8::PrivateKeyInfoRef::try_from(&**der).map_err(cannot)?;
        let sealed = key.encrypt_with_rng(&mut random::fresh_rng()?, passphrase);
        let sealed = sealed.map_err(cannot)?;
        let line_end = pem_rfc7468::LineEnding::LF;
        pem_rfc7468::encode_string(ENCRYPTED_LABEL, line_end, sealed.as_bytes())
            .map(Zeroizing::new)
            .map_err(|_| Error::Usage("identity: it cannot be encrypted".into()))
    }

    /// Reads an identity file.
    ///
    /// Fails as [`read_secret`], so with [`Error::ExposedSecret`] when other users can read the key in it; with
    /// [`Error::NoIdentity`] when there is none, and with [`Error::NotAnIdentity`] when it is malformed, encrypted or something
    /// else.
    pub fn load(path: impl AsRef<Path>) -> Result<Identity, Error> {
        let path = path.as_ref();
        Self::load_with(path, || {
            Err(Error::NotAnIdentity {
                path: path.to_owned(),
                problem: "it is encrypted, and there is no passphrase".into(),
            })
        })
    }

    /// Reads an identity file, and asks for its passphrase if it is encrypted.
    ///
    /// Fails as [`Identity::load`] does, as `passphrase` does, and with [`Error::NotAnIdentity`] where that is another one.
    pub fn load_with(
        path: impl AsRef<Path>,
        passphrase: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, Error>,
    ) -> Result<Identity, Error> {
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
        let pem = read?;
        if Self::is_encrypted(&pem) {
            let opened = Self::decrypt_pem(&pem, &passphrase()?);
            return opened.map_err(|problem| Error::SecretFile {
                path: path.to_owned(),
                problem: problem.into(),
            });
        }
        Self::parse_pem(&pem).map_err(|problem| other.unwrap_or_else(|| refused(problem.into())))
    }

    /// Writes the identity to a new file that only its owner may read (mode 0600). It is on the disk when this returns.
    ///
    /// Fails with [`Error::IdentityFile`], and with [`Error::Run`], a resource error, on a full disk; an
    /// existing file is never overwritten.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        Self::save_pem(path, &self.to_pem())
    }

    /// [`Identity::save`] of [`Identity::to_encrypted_pem`].
    ///
    /// Fails as these two do.
    pub fn save_encrypted(&self, path: &Path, passphrase: &[u8]) -> Result<(), Error> {
        Self::save_pem(path, &self.to_encrypted_pem(passphrase)?)
    }

    fn save_pem(path: &Path, pem: &str) -> Result<(), Error> {
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
            file.write_all(pem.as_bytes())?;
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

    fn decrypt_pem(pem: &[u8], passphrase: &[u8]) -> Result<Identity, &'static str> {
        let (label, sealed) = pem_rfc7468::decode_vec(pem).map_err(|_| "not a PEM file")?;
        if label != ENCRYPTED_LABEL {
            return Err("not an encrypted PKCS#8 private key (\"BEGIN ENCRYPTED PRIVATE KEY\")");
        }
        let sealed = pkcs8::EncryptedPrivateKeyInfoRef::try_from(sealed.as_slice())
            .map_err(|_| "not an encrypted private key of a known kind (PBES2)")?;
        if !is_affordable(&sealed.encryption_algorithm) {
            return Err(
                "its passphrase is protected by other means than PBKDF2 or scrypt, or at a cost beyond reason",
            );
        }
        let opened = sealed.decrypt(passphrase);
        let opened = opened.map_err(|_| "it is encrypted under another passphrase")?;
        Self::from_pkcs8(opened.as_bytes())
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

    const OPENSSL: &[(&str, &str)] = &[
        (
            concat!(
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
                "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgALcLayBroRAICCAAw\n",
                "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEELlkN6o4mbwkQ8tlqXME0XUEQFm4\n",
                "CYkO0QHxqlJCM3NJbyfEcFb00vG0pPGTlovdmAsPCeXcTGf+MJaYYeeHrwZWR/pv\n",
                "j9h7XRT2cY+K7/DhnVY=\n",
                "-----END ENCRYPTED PRIVATE KEY-----\n",
            ),
            "vs1:6xn47ruz7zrmmxv5hha363lckiv7hyspsbvdeiacntfgtiajew3uakfv",
        ),
        (
            concat!(
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
                "MIGTME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAiaezUAzWlHCAICQAAC\n",
                "AQgCAQEwHQYJYIZIAWUDBAEqBBAVZVuHoNni/lcG31OkvAJGBEBWa4WfEdrofHxN\n",
                "2aOT0/72gYr0TpqQrKWli+kGW2M5eoyzwjv1hE50MZdtbQgeO0OP6Q5MCuGBtHt4\n",
                "1l6VTbrI\n",
                "-----END ENCRYPTED PRIVATE KEY-----\n",
            ),
            "vs1:6xn47ruz7zrmmxv5hha363lckiv7hyspsbvdeiacntfgtiajew3uakfv",
        ),
    ];

    #[test]
    fn a_passphrase_opens_what_it_has_closed() {
        let me = Identity::generate().unwrap();
        let pem = me.to_encrypted_pem(b"correct horse").unwrap();
        assert!(Identity::is_encrypted(pem.as_bytes()));
        assert!(!Identity::is_encrypted(me.to_pem().as_bytes()));
        let opened = Identity::from_encrypted_pem(pem.as_bytes(), b"correct horse").unwrap();
        assert_eq!(opened.fingerprint(), me.fingerprint());
        assert_eq!(*opened.to_pem(), *me.to_pem());
        // What is derived of it is the same, so that what it has kept can be read.
        assert_eq!(
            *opened.derive_key("vesica test"),
            *me.derive_key("vesica test")
        );
        for (pem, passphrase) in [(&pem, "Correct horse"), (&pem, ""), (&me.to_pem(), "x")] {
            let error = Identity::from_encrypted_pem(pem.as_bytes(), passphrase.as_bytes());
            assert!(matches!(error, Err(Error::Usage(_))), "{passphrase}");
        }
        assert!(me.to_encrypted_pem(b"").is_err());
        assert!(Identity::from_pem(pem.as_bytes()).is_err());
    }

    /// `openssl genpkey -algorithm ed25519 | openssl pkcs8 -topk8 -v2 aes-256-cbc -iter 2048`, and with `-scrypt`.
    #[test]
    fn files_of_openssl_are_read() {
        for (pem, fingerprint) in OPENSSL {
            let opened = Identity::from_encrypted_pem(pem.as_bytes(), b"passphrase").unwrap();
            assert_eq!(opened.fingerprint().to_string(), *fingerprint);
        }
    }

    /// Costs of scrypt, N, r and p, as another program may have written them.
    #[test]
    fn what_costs_too_much_is_not_tried() {
        let (_, der) = pem_rfc7468::decode_vec(OPENSSL[1].0.as_bytes()).unwrap();
        let at = der.windows(4).position(|of| of == [2, 2, 0x40, 0]).unwrap();
        for n in [[2, 2, 0, 0], [2, 2, 0x40, 1], [2, 2, 0, 1], [2, 1, 0, 0]] {
            let mut der = der.clone();
            der[at..at + 4].copy_from_slice(&n);
            let line_end = pem_rfc7468::LineEnding::LF;
            let pem = pem_rfc7468::encode_string(ENCRYPTED_LABEL, line_end, &der).unwrap();
            assert!(
                Identity::from_encrypted_pem(pem.as_bytes(), b"passphrase").is_err(),
                "{n:?}"
            );
        }
        let parse = |der: &[u8]| {
            let sealed = pkcs8::EncryptedPrivateKeyInfoRef::try_from(der).unwrap();
            is_affordable(&sealed.encryption_algorithm)
        };
        assert!(parse(&der));
        let mut large = der.clone();
        // The block size.
        large[at + 6] = 64;
        assert!(!parse(&large));
    }

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
