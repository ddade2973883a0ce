//! Files that hold a secret.

use std::io::{self, Read};
use std::path::Path;

use vesica_files::{is_exposed, is_mounted_secret, open_regular};
use zeroize::Zeroizing;

use crate::Error;

/// Most bytes of a file that holds a secret.
pub(crate) const MAX_SECRET: u64 = 64 << 10;

/// Reads a file that holds a secret: a regular one that only its owner may read, or that was mounted as a secret
/// ([`is_mounted_secret`]), and of at most 64 KiB.
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
    let is_private = !is_exposed(&file).map_err(unreadable)?;
    if !is_private && !is_mounted_secret(&file).map_err(unreadable)? {
        let path = path.to_owned();
        return Err(Error::ExposedSecret { path });
    }
    read_secret_from(file).map_err(unreadable)
}

/// Reads a secret of at most 64 KiB, to the end of `reader`.
///
/// # Errors
/// Those of the reader, and one of the kind [`io::ErrorKind::InvalidData`] if it is longer.
pub fn read_secret_from(reader: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    // Of full size from the start: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_SECRET as usize + 1));
    reader.take(MAX_SECRET + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_SECRET {
        // No limit of the machine, as `FileTooLarge` is.
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "too long for a secret",
        )),
        false => Ok(bytes),
    }
}
