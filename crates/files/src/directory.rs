//! Directories for what only this user may change.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::{found_at, keep_name};

/// Why a directory is unsafe for files that only this user may write. Displayed behind its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsafeDirectory {
    /// It is a link.
    SymbolicLink,
    /// It is something else, such as a file.
    NoDirectory(&'static str),
    /// Its owner is neither this user nor the system.
    OfAnotherUser,
    /// Other users can write to it.
    Writable,
    /// Other users can put another one in its place.
    Movable {
        /// To which they can write.
        above: PathBuf,
    },
}

impl fmt::Display for UnsafeDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SymbolicLink => "is a symbolic link; name the directory itself",
            Self::NoDirectory(found) => return write!(f, "is {found}, and not a directory"),
            Self::OfAnotherUser => "belongs to another user; name a directory of your own",
            Self::Writable => "can be changed by other users; run: chmod go-w on it",
            Self::Movable { above } => {
                let above = above.display();
                return write!(
                    f,
                    "can be moved by other users, who can write to {above}; name another place"
                );
            }
        })
    }
}

/// Makes a directory for this user only, unless there is one. Returns why it is unsafe for files that only this user may
/// write, if it is.
///
/// # Errors
/// The operating system's.
pub fn private_directory(path: &Path) -> io::Result<Option<UnsafeDirectory>> {
    make(path)?;
    unsafe_directory(path)
}

/// Makes a directory for this user only, unless there is one.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    match builder.create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Without a name that lasts, what is synchronised in it is lost with it.
        Ok(()) => keep_name(path),
        failed => failed,
    }
}

/// What is there in the place of a directory.
fn other(path: &Path) -> &'static str {
    found_at(path).unwrap_or("a file of another kind")
}

/// Why this directory is unsafe for files that only this user may write, if it is. In a safe one nobody else
/// can plant a link or replace a file, nor put another directory in its place: the directories above it
/// belong to the user or to the system, and others can write to them only where they cannot move the files of
/// others (the sticky bit).
#[cfg(unix)]
fn unsafe_directory(path: &Path) -> io::Result<Option<UnsafeDirectory>> {
    use std::os::unix::fs::MetadataExt;
    let there = path.symlink_metadata()?;
    let user = nix::unistd::geteuid().as_raw();
    Ok(Some(if there.is_symlink() {
        UnsafeDirectory::SymbolicLink
    } else if !there.is_dir() {
        UnsafeDirectory::NoDirectory(other(path))
    } else if there.uid() != user {
        UnsafeDirectory::OfAnotherUser
    } else if there.mode() & 0o022 != 0 {
        UnsafeDirectory::Writable
    } else {
        for above in path.canonicalize()?.ancestors().skip(1) {
            let there = above.metadata()?;
            let others = there.mode() & 0o022 != 0 && there.mode() & 0o1000 == 0;
            if others || ![0, user].contains(&there.uid()) {
                let above = above.to_owned();
                return Ok(Some(UnsafeDirectory::Movable { above }));
            }
        }
        return Ok(None);
    }))
}

/// Why this directory is unsafe for files that only this user may write, if it is; who else may write to it
/// is not known on this system.
#[cfg(not(unix))]
fn unsafe_directory(path: &Path) -> io::Result<Option<UnsafeDirectory>> {
    let there = path.symlink_metadata()?;
    Ok(if there.is_symlink() {
        Some(UnsafeDirectory::SymbolicLink)
    } else if !there.is_dir() {
        Some(UnsafeDirectory::NoDirectory(other(path)))
    } else {
        None
    })
}
