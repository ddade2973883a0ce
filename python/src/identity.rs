//! Identities.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use crate::errors::Failure;

/// A party's long-term key pair. Its secret is never shown.
///
/// >>> me = Identity.generate()
/// >>> me.fingerprint.startswith("vs1:")
/// True
#[pyclass(frozen, module = "vesica")]
pub(crate) struct Identity(pub(crate) Arc<vesica::Identity>);

#[pymethods]
impl Identity {
    /// Makes a fresh identity from the operating system's randomness.
    #[staticmethod]
    fn generate() -> Result<Identity, Failure> {
        Ok(Identity(Arc::new(vesica::Identity::generate()?)))
    }

    /// Reads an identity file, as `save` and the command `vesica keygen` write it.
    ///
    /// Raises UsageError if it cannot be read, is malformed, or can be read by other users of the machine.
    #[staticmethod]
    fn load(path: PathBuf) -> Result<Identity, Failure> {
        Ok(Identity(Arc::new(vesica::Identity::load(&path)?)))
    }

    /// Reads the PEM text of a PKCS#8 Ed25519 private key.
    ///
    /// Raises UsageError, which never shows any of the text.
    #[staticmethod]
    fn from_pem(pem: &str) -> Result<Identity, Failure> {
        let identity = vesica::Identity::from_pem(pem.as_bytes())?;
        Ok(Identity(Arc::new(identity)))
    }

    /// The identity as PEM text of PKCS#8; as secret as the identity.
    fn to_pem(&self) -> String {
        self.0.to_pem().to_string()
    }

    /// Writes the identity to a new file that only its owner may read.
    ///
    /// Raises UsageError if the file exists or cannot be written.
    fn save(&self, path: PathBuf) -> Result<(), Failure> {
        Ok(self.0.save(&path)?)
    }

    /// What the peer pins: `vs1:` and 56 characters. Not secret.
    #[getter]
    fn fingerprint(&self) -> String {
        self.0.fingerprint().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Identity({})", self.fingerprint())
    }
}
