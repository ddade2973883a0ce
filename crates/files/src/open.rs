//! Opening files that somebody else has named.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a regular file for reading. What only looks like one by its name is refused at once, whereas opening a named
/// pipe would wait for a writer.
///
/// # Errors
/// [`io::ErrorKind::IsADirectory`] for a directory, [`io::ErrorKind::InvalidInput`] for pipes, devices and sockets, else
/// the file system's.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a device can have effects of its own, so that it is not even tried.
    check(&path.metadata()?)?;
    let file = without_waiting().open(path)?;
    // The name may be another file's by now.
    check(&file.metadata()?)?;
    Ok(file)
}

fn without_waiting() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use nix::fcntl::OFlag;
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    }
    options
}

fn check(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    if kind.is_file() {
        Ok(())
    } else if kind.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        let problem = format!("{} is no regular file", name_of(kind));
        Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
    }
}

#[cfg(unix)]
fn name_of(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn name_of(_: FileType) -> &'static str {
    "this"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn files_are_opened_and_directories_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let refused = |path: &Path| open_regular(path).unwrap_err().kind();
        assert_eq!(refused(&path), io::ErrorKind::NotFound);
        std::fs::write(&path, "text").unwrap();
        let mut text = String::new();
        open_regular(&path)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "text");
        assert_eq!(refused(place.path()), io::ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_waits_for_a_writer() {
        use std::os::unix::net::UnixListener;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (path, kind) in [
            (at("pipe"), "a pipe"),
            (at("link"), "a pipe"),
            (at("socket"), "a socket"),
            ("/dev/null".into(), "a device"),
        ] {
            let error = open_regular(&path).unwrap_err();
            assert_eq!(error.to_string(), format!("{kind} is no regular file"));
            // Nor would it be waited for if the name became a pipe's after the first look.
            if kind == "a pipe" {
                without_waiting().open(&path).unwrap();
            }
        }
    }
}
