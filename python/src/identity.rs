//! Identities.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
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

    /// Reads the identity file at `path`, as `save` and the command `vesica keygen` write it.
    ///
    /// Raises UsageError if it cannot be read, is malformed, or can be read by other users of the machine.
    #[staticmethod]
    fn load(path: PathBuf) -> Result<Identity, Failure> {
        check_path(&path)?;
        let identity = Identity::of(vesica::Identity::load(&path)?);
        identity.0.note_file(path);
        Ok(identity)
    }

    /// Reads `pem`, the text of a PKCS#8 Ed25519 private key.
    ///
    /// Raises UsageError, which never shows any of the text.
    #[staticmethod]
    fn from_pem(pem: &str) -> Result<Identity, Failure> {
        Ok(Identity::of(vesica::Identity::from_pem(pem.as_bytes())?))
    }

    /// The identity as PEM text of PKCS#8; as secret as the identity.
    fn to_pem(&self) -> String {
        self.0.key.to_pem().to_string()
    }

    /// Writes the identity to a new file at `path`, which only its owner may read.
    ///
    /// Raises UsageError if the file exists or cannot be written.
    fn save(&self, path: PathBuf) -> Result<(), Failure> {
        check_path(&path)?;
        self.0.key.save(&path)?;
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
