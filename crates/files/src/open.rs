//! Opening files that somebody else has named.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

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

/// Opens as [`open_regular`] does, but follows no link at the end of the path: whoever can put a link there chooses the file, and
/// perhaps the file system that sees which parts of it are read.
///
/// # Errors
/// As there, and [`io::ErrorKind::InvalidInput`] for a symbolic link.
pub fn open_named(path: &Path) -> io::Result<File> {
    let there = path.symlink_metadata()?;
    if there.is_symlink() {
        return Err(is_link());
    }
    check(&there)?;
    let file = open_unlinked(OpenOptions::new().read(true), path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Follows no link at the end of the path, and waits for nobody. On Windows a link is opened itself, which [`check`] refuses.
fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use nix::fcntl::OFlag;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        options.custom_flags(flags.bits());
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        options.custom_flags(crate::windows::OPEN_LINK);
    }
    options
}

/// Opens a file with these options, follows no link at the end of the path and waits for nobody.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a symbolic link, which on Windows is opened itself, else the file system's.
pub fn open_unlinked(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = without_links(options)
        .open(path)
        .map_err(|e| match is_loop(&e) {
            true => is_link(),
            false => e,
        })?;
    #[cfg(windows)]
    if let Some(content) = crate::windows::content_of(&file, options, path)? {
        return match crate::Place::of(&content)? == crate::Place::of(&file)? {
            true => Ok(content),
            // The name is a link's by now.
            false => Err(is_link()),
        };
    }
    Ok(file)
}

fn is_link() -> io::Error {
    let problem = "a symbolic link is not followed here; name the file itself";
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

#[cfg(unix)]
fn is_loop(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32)
}

#[cfg(not(unix))]
fn is_loop(_: &io::Error) -> bool {
    false
}

/// The bytes of a regular file of at most `most`, opened as by [`open_regular`].
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] for one that is longer, else as [`open_regular`].
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_regular(path)?;
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes"),
        )),
        false => Ok(bytes),
    }
}

/// Opens a regular file of this user's for reading and writing. One that is not there is made if `makes` has a mode for it; on
/// Windows for this user alone if that is its owner's alone, and else for those whom its directory lets use it. No link is followed, nothing is waited for, and a file with another name is refused: whoever else can write to the directory could
/// have put any of these there.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything else than such a file, else the file system's.
pub fn open_own(path: &Path, makes: Option<u32>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(makes.is_some());
    #[cfg(unix)]
    if let Some(mode) = makes {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    }
    #[cfg(windows)]
    if makes.is_some_and(|mode| mode & 0o077 == 0) {
        match crate::windows::create(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    let refused = |problem: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    let file = open_unlinked(&mut options, path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    #[cfg(unix)]
    let (is_own, names) = {
        use std::os::unix::fs::MetadataExt;
        let user = nix::unistd::geteuid().as_raw();
        (metadata.uid() == user, metadata.nlink())
    };
    #[cfg(windows)]
    let (is_own, names) = (
        crate::windows::is_own(&file)?,
        winapi_util::file::information(&file)?.number_of_links(),
    );
    if !is_own {
        return refused("it belongs to another user");
    }
    if names > 1 {
        return refused("it is a file with another name, too");
    }
    Ok(file)
}

/// Opens a named pipe for reading, or what else is no regular file. A pipe has to have a writer by the time that `wait`
/// is over; without it this waits for as long as it takes.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] if there was none, else the file system's.
pub fn open_pipe(path: &Path, wait: Option<Duration>) -> io::Result<File> {
    let Some(wait) = wait else {
        return File::open(path);
    };
    // Opening cannot be interrupted, nor does anything else tell whether there is a writer.
    let (to, opened) = mpsc::channel();
    let name = path.to_owned();
    std::thread::Builder::new()
        .name("vesica-open".into())
        .spawn(move || to.send(File::open(name)))?;
    opened.recv_timeout(wait).unwrap_or_else(|_| {
        // A writer for a moment lets the thread go.
        let _ = open_for_writing(path);
        let problem = format!("nobody has written to it within {} s", wait.as_secs_f32());
        Err(io::Error::new(io::ErrorKind::TimedOut, problem))
    })
}

/// Opens what is there for writing, as it is. A named pipe has to have a reader.
///
/// # Errors
/// The file system's.
pub(crate) fn open_for_writing(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use nix::errno::Errno;
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
        let file = options.open(path).map_err(|e| match e.raw_os_error() {
            Some(code) if code == Errno::ENXIO as i32 => {
                let problem = "nobody reads from this pipe or socket";
                io::Error::new(io::ErrorKind::InvalidInput, problem)
            }
            _ => e,
        })?;
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
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
    if kind.is_symlink() {
        Err(is_link())
    } else if kind.is_file() {
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
    fn links_are_followed_only_where_they_may_be() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        // Above the file, links are the directory's owner's.
        symlink(at("directory"), at("beside")).unwrap();
        std::fs::write(at("directory/file"), "text").unwrap();
        for name in ["file", "beside/file"] {
            open_named(&at(name)).unwrap();
        }
        open_regular(&at("link")).unwrap();
        for name in ["link", "dangling"] {
            let error = open_named(&at(name)).unwrap_err();
            assert!(error.to_string().contains("a symbolic link"), "{error}");
        }
        let refused = |name: &str| open_named(&at(name)).unwrap_err().kind();
        assert_eq!(refused("directory"), io::ErrorKind::IsADirectory);
        assert_eq!(refused("missing"), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_to_but_a_file_of_ones_own() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("other"), "text").unwrap();
        std::fs::hard_link(at("other"), at("name")).unwrap();
        std::os::unix::fs::symlink(at("other"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (name, words) in [
            ("name", "another name"),
            ("link", "a symbolic link"),
            ("dangling", "a symbolic link"),
            ("pipe", "a pipe"),
        ] {
            for makes in [None, Some(0o600)] {
                let error = open_own(&at(name), makes).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
                assert!(error.to_string().contains(words), "{error}");
            }
        }
        assert!(!at("nowhere").exists());
        let error = open_own(&at("own"), None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let own = open_own(&at("own"), Some(0o600)).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&own.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        open_own(&at("own"), None).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_waits_for_its_other_end_only_so_long() {
        let place = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = place.path().join(name);
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
            path
        };
        // A pipe of its own: whoever waited in vain may hold its end for a moment longer.
        let path = pipe("abandoned");
        let error = open_for_writing(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let error = open_pipe(&path, Some(Duration::from_millis(20))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // With both ends it carries more than fits into it at once.
        let path = pipe("used");
        let text = "text".repeat(1 << 16);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut file = open_pipe(&path, Some(Duration::from_secs(60)))?;
                let mut read = String::new();
                file.read_to_string(&mut read).map(|_| read)
            });
            let mut file = loop {
                match open_for_writing(&path) {
                    Ok(file) => break file,
                    Err(_) => std::thread::yield_now(),
                }
            };
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            drop(file);
            assert!(reading.join().unwrap().unwrap() == text);
        });
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
