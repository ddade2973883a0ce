//! Identities and other secrets in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use vesica::Identity;

use crate::failure::Failure;

/// Loads an identity. One that others can read may be in the hands of others.
pub(crate) fn load(path: &Path) -> Result<Identity, Failure> {
    let loaded = Identity::load(path)?;
    match loaded.warning {
        None => Ok(loaded.identity),
        Some(_) => Err(exposed("identity", path)),
    }
}

/// Most bytes of a secret in a file.
const MAX_SECRET: u64 = 64 << 10;

/// The text of a file that only its owner can read.
pub(crate) fn read_secret(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let unreadable =
        |e: std::io::Error| Failure::usage(format!("{name}: cannot be read: {}", e.kind()));
    let file = File::open(path).map_err(unreadable)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(exposed("file", path));
        }
    }
    let mut text = String::new();
    file.take(MAX_SECRET)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text.trim().to_owned())
}

fn exposed(what: &str, path: &Path) -> Failure {
    let name = path.display();
    let line = format!("{what} {name}: other users can read it");
    Failure::usage(line).hint(format!("run: chmod 600 {name}"))
}
