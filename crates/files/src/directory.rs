//! Directories for what only this user may change.

use std::fs;
use std::path::{Path, PathBuf};
use std::{fmt, io};

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
            Self::Writable if cfg!(windows) => {
                let user = this_user();
                return write!(
                    f,
                    "can be changed by other users; run: icacls DIRECTORY /inheritance:r /grant:r \"{user}:(OI)(CI)F\""
                );
            }
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

/// What to run so that only this user may use a file.
pub fn for_this_user(path: &Path) -> String {
    let path = path.display();
    match cfg!(windows) {
        true => format!(
            "icacls \"{path}\" /inheritance:r /grant:r \"{}:F\"",
            this_user()
        ),
        false => format!("chmod 600 {path}"),
    }
}

/// What Windows calls this user, spelled out: not every shell there has `%USERNAME%`.
fn this_user() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "YOUR NAME".to_owned())
}

/// Makes a directory for this user only, unless there is one. Returns why it is unsafe for files that only this user may
/// write, if it is; one that was made does not stay then.
///
/// # Errors
/// The operating system's.
pub fn private_directory(path: &Path) -> io::Result<Option<UnsafeDirectory>> {
    let is_new = make(path)?;
    let problem = unsafe_directory(path);
    if is_new && !matches!(problem, Ok(None)) {
        let _ = fs::remove_dir(path);
    }
    problem
}

/// Makes a directory for this user only, unless there is one. Returns whether there was none.
fn make(path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    let made = {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().mode(0o700).create(path)
    };
    #[cfg(windows)]
    let made = crate::windows::create_directory(path);
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // Without a name that lasts, what is synchronised in it is lost with it.
        Ok(()) => keep_name(path).map(|()| true),
        Err(e) => Err(e),
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

/// Why this directory is unsafe for files that only this user may write, if it is, by the same rules: the lists of the
/// directories above it let nobody else delete or rename what is in them.
#[cfg(windows)]
fn unsafe_directory(path: &Path) -> io::Result<Option<UnsafeDirectory>> {
    use crate::windows::{ADDING, DELETE, READ_CONTROL, READING, is_own, lets_others, look};
    let metadata = path.symlink_metadata()?;
    if metadata.is_symlink() {
        return Ok(Some(UnsafeDirectory::SymbolicLink));
    } else if !metadata.is_dir() {
        return Ok(Some(UnsafeDirectory::NoDirectory(other(path))));
    }
    let there = look(path, READ_CONTROL, true)?;
    if !is_own(&there)? {
        return Ok(Some(UnsafeDirectory::OfAnotherUser));
    } else if lets_others(&there, READING)? {
        return Ok(Some(UnsafeDirectory::Writable));
    }
    for above in path.canonicalize()?.ancestors().skip(1) {
        let there = look(above, READ_CONTROL, false)?;
        // Nobody moves the root of a volume.
        let is_root = above.parent().is_none();
        let harmless = if is_root { ADDING | DELETE } else { ADDING };
        if lets_others(&there, harmless)? || !is_own(&there)? {
            let above = above.to_owned();
            return Ok(Some(UnsafeDirectory::Movable { above }));
        }
    }
    Ok(None)
}
