//! Files that hold a secret.

use std::io::{self, Read};
use std::path::Path;

use vesica_files::{is_exposed, open_regular};
use zeroize::Zeroizing;

use crate::Error;

/// Most bytes of such a file.
pub(crate) const MAX_SECRET: u64 = 64 << 10;

/// Reads a file that holds a secret: a regular one that only its owner may read, and of at most 64 KiB.
///
/// # Errors
/// [`Error::ExposedSecret`] if other users of the machine can read the file, for the secret may be in the hands of
/// others; [`Error::SecretFile`] if it cannot be read or is too long; [`Error::Run`], a resource error, if the process
/// has too many files open.
pub fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let fail = |problem: String| Error::SecretFile {
        path: path.to_owned(),
        problem,
    };
    let unreadable = |e: io::Error| {
        let line = format!("{}: cannot be read: {e}", path.display());
        Error::limit_or(&e, line, |_| fail(format!("cannot be read: {e}")))
    };
    let file = open_regular(path).map_err(unreadable)?;
    if is_exposed(&file).map_err(unreadable)? {
        let path = path.to_owned();
        return Err(Error::ExposedSecret { path });
    }
    // Of full size from the start: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET as usize + 1));
    file.take(MAX_SECRET + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    match bytes.len() as u64 > MAX_SECRET {
        true => Err(fail("too long for a secret".into())),
        false => Ok(bytes),
    }
}
