//! Identities.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use vesica::files::holds_key;
use vesica::tables::{PathKind, Paths};

use crate::errors::Failure;

/// A key pair, and the files that are known to hold it.
pub(crate) struct KeyPair {
    pub(crate) key: vesica::Identity,
    files: Mutex<Vec<PathBuf>>,
}

impl KeyPair {
    fn note_file(&self, path: PathBuf) {
        // The current directory may change.
        let path = path.canonicalize().unwrap_or(path);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push(path);
    }

    /// These files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.clone()
    }
}

/// A party's long-term key pair. Its secret is never shown.
///
/// >>> me = Identity.generate()
/// >>> me.fingerprint.startswith("vs1:")
/// True
#[pyclass(frozen, module = "vesica")]
pub(crate) struct Identity(pub(crate) Arc<KeyPair>);

impl Identity {
    fn of(key: vesica::Identity) -> Identity {
        let files = Mutex::default();
        Identity(Arc::new(KeyPair { key, files }))
    }
}

/// Refuses a key in the place of a path.
fn check_path(path: &Path) -> Result<(), Failure> {
    let mut paths = Paths::default();
    paths.reads("`path`", PathKind::File, path);
    Ok(paths.check()?)
}

#[pymethods]
impl Identity {
    /// Makes a fresh identity from the operating system's randomness.
    #[staticmethod]
    fn generate() -> Result<Identity, Failure> {
        Ok(Identity::of(vesica::Identity::generate()?))
    }

    /// Reads the identity file at `path`, as `save` and the command `vesica keygen` write it; with `passphrase` if it is
    /// encrypted.
    ///
    /// Raises UsageError if it cannot be read, is malformed, is encrypted under another passphrase, or can be read by other
    /// users of the machine.
    #[staticmethod]
    #[pyo3(signature = (path, passphrase=None))]
    fn load(path: PathBuf, passphrase: Option<&str>) -> Result<Identity, Failure> {
        check_path(&path)?;
        let identity = match passphrase {
            None => vesica::Identity::load(&path)?,
            Some(text) => {
                vesica::Identity::load_with(&path, || Ok(text.as_bytes().to_vec().into()))?
            }
        };
        let identity = Identity::of(identity);
        identity.0.note_file(path);
        Ok(identity)
    }

    /// Reads `pem`, the text of a PKCS#8 Ed25519 private key; with `passphrase` if it is encrypted.
    ///
    /// Raises UsageError, which never shows any of the text.
    #[staticmethod]
    #[pyo3(signature = (pem, passphrase=None))]
    fn from_pem(pem: &str, passphrase: Option<&str>) -> Result<Identity, Failure> {
        let pem = pem.as_bytes();
        Ok(Identity::of(match passphrase {
            Some(text) if vesica::Identity::is_encrypted(pem) => {
                vesica::Identity::from_encrypted_pem(pem, text.as_bytes())?
            }
            _ => vesica::Identity::from_pem(pem)?,
        }))
    }

    /// The identity as PEM text of PKCS#8; as secret as the identity.
    fn to_pem(&self) -> String {
        self.0.key.to_pem().to_string()
    }

    /// Writes the identity to a new file at `path`, which only its owner may read; encrypted under `passphrase` if there is
    /// one.
    ///
    /// Raises UsageError if the file exists or cannot be written, or the passphrase is empty.
    #[pyo3(signature = (path, passphrase=None))]
    fn save(&self, path: PathBuf, passphrase: Option<&str>) -> Result<(), Failure> {
        check_path(&path)?;
        if passphrase.is_some_and(|text| holds_key(text.as_bytes())) {
            return Err(Failure::usage("passphrase: this is a private key"));
        }
        match passphrase {
            None => self.0.key.save(&path)?,
            Some(text) => self.0.key.save_encrypted(&path, text.as_bytes())?,
        }
        self.0.note_file(path);
        Ok(())
    }

    /// What the peer pins: `vs1:` and 56 characters. Not secret.
    #[getter]
    fn fingerprint(&self) -> String {
        self.0.key.fingerprint().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Identity({})", self.fingerprint())
    }
}
