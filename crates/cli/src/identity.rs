//! Identities in files.

use std::path::Path;

use vesica::Identity;

use crate::failure::Failure;

/// Loads an identity. One that others can read may be in the hands of others.
pub(crate) fn load(path: &Path) -> Result<Identity, Failure> {
    let loaded = Identity::load(path)?;
    match loaded.warning {
        None => Ok(loaded.identity),
        Some(_) => {
            let name = path.display();
            let line = format!("identity {name}: other users can read it");
            Err(Failure::usage(line).hint(format!("run: chmod 600 {name}")))
        }
    }
}
