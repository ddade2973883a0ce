//! Directories for what only this user may change.

use std::path::Path;
use std::{fs, io};

use crate::sync_name;

/// Makes a directory for this user only, unless there is one. Returns why it is unsafe for files that only this user may
/// write, if it is.
///
/// # Errors
/// The operating system's.
pub fn private_directory(path: &Path) -> io::Result<Option<String>> {
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
        Ok(()) => {
            // Without a name that lasts, what is synchronised in it is lost with it.
            sync_name(path);
            Ok(())
        }
        failed => failed,
    }
}

/// Why this directory is unsafe for files that only this user may write, if it is. In a safe one nobody else
/// can plant a link or replace a file, nor put another directory in its place: the directories above it
/// belong to the user or to the system, and others can write to them only where they cannot move the files of
/// others (the sticky bit).
#[cfg(unix)]
fn unsafe_directory(path: &Path) -> io::Result<Option<String>> {
    use std::os::unix::fs::MetadataExt;
    let there = path.symlink_metadata()?;
    let user = nix::unistd::geteuid().as_raw();
    let why = if there.is_symlink() {
        "is a symbolic link; name the directory itself"
    } else if !there.is_dir() {
        "is not a directory"
    } else if there.uid() != user {
        "belongs to another user"
    } else if there.mode() & 0o022 != 0 {
        "can be changed by other users; run: chmod go-w on it"
    } else {
        for above in path.canonicalize()?.ancestors().skip(1) {
            let there = above.metadata()?;
            let others = there.mode() & 0o022 != 0 && there.mode() & 0o1000 == 0;
            if others || ![0, user].contains(&there.uid()) {
                let above = above.display();
                return Ok(Some(format!(
                    "can be moved by other users, who can write to {above}; name another place"
                )));
            }
        }
        return Ok(None);
    };
    Ok(Some(why.to_owned()))
}

/// Why this directory is unsafe for files that only this user may write, if it is; who else may write to it
/// is not known on this system.
#[cfg(not(unix))]
fn unsafe_directory(path: &Path) -> io::Result<Option<String>> {
    let there = path.symlink_metadata()?;
    Ok(if there.is_symlink() {
        Some("is a symbolic link; name the directory itself".to_owned())
    } else if !there.is_dir() {
        Some("is not a directory".to_owned())
    } else {
        None
    })
}
