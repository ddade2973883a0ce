//! Files that appear complete or not at all.

use std::fs::{File, Permissions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::Readers;
use crate::beside::{self, EVERYBODY, OWNER_ONLY, directory_of};
use crate::open::open_for_writing;
use crate::readers::has_acl;

/// A file that is written beside its destination and renamed once it is complete. Dropped before, it leaves
/// nothing. Nor does a killed process where the system supports unnamed files, except in the moment in which
/// another file is replaced. Elsewhere the file has a private name, `.vesica-NAME-*.part`. Whoever writes the same file
/// next removes what was left of it, unless somebody still writes that, who holds a lock. Devices and pipes are written
/// directly and never replaced.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// `None` for devices and pipes.
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    path: PathBuf,
    /// The private name, if the file has one already.
    private: Option<TempPath>,
    /// The permissions and readers of a file that is to be replaced.
    replaced: Option<(Permissions, Readers)>,
    readers: Readers,
}

impl WholeFile {
    /// Opens the file, so that a path that cannot be written is known early.
    ///
    /// # Errors
    /// Those of the file system; a directory is [`io::ErrorKind::IsADirectory`].
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let (path, replaced) = match path.metadata() {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                let file = open_for_writing(path)?;
                return Ok(WholeFile { file, place: None });
            }
            // A symbolic link stays one: what it points to is replaced.
            Ok(there) => {
                let path = path.canonicalize()?;
                let readers = Readers::of_path(&path)?;
                (path, Some((there.permissions(), readers)))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(e) => return Err(e),
        };
        let (file, private) = match unnamed::create(directory_of(&path), OWNER_ONLY) {
            Some(file) => (file, None),
            None => {
                let (file, private) = beside::create(&path, OWNER_ONLY)?;
                (file, Some(private))
            }
        };
        Ok(WholeFile {
            file,
            place: Some(Place {
                path,
                private,
                replaced,
                readers: Readers::OWNER,
            }),
        })
    }

    /// Lets these read the file, once it is in its place; otherwise its owner alone may. Devices and pipes stay as they
    /// are.
    pub fn readable_by(&mut self, readers: Readers) {
        if let Some(place) = &mut self.place {
            place.readers = readers;
        }
    }

    /// Puts the finished file in its place: flushed to the disk, then renamed, with the permissions of the file that it
    /// replaces, or those that new files get, but for those of other readers. It is its owner's alone in a directory whose
    /// files get an access control list, and if the file that it replaces has one. On Windows all have one: it is this
    /// user's, the system's and administrators', unless [anybody](Readers::ANYBODY) may read it.
    ///
    /// # Errors
    /// Those of the file system. Nothing is left then.
    pub fn commit(self) -> io::Result<()> {
        self.name().map(|path| {
            path.inspect(|path| sync_name(path));
        })
    }

    /// Does the same, and makes sure that the file is there after a crash of the machine too, wherever the file system can.
    /// For what must not be taken back: keys, counts, and what was said to others.
    ///
    /// # Errors
    /// Those of the file system. The file may be in its place then.
    pub fn commit_for_good(self) -> io::Result<()> {
        match self.name()? {
            Some(path) => keep_name(&path),
            None => Ok(()),
        }
    }

    /// Puts the file in its place, which is returned unless it is a device or a pipe.
    fn name(self) -> io::Result<Option<PathBuf>> {
        let WholeFile { mut file, place } = self;
        let Some(place) = place else {
            // Devices and pipes have nothing to synchronise, and say so.
            let _ = file.sync_all();
            return Ok(None);
        };
        let metadata = file.metadata()?;
        let permissions = match place.replaced {
            Some((permissions, readers)) => readers.limit(&permissions, &metadata),
            None => default_permissions(&place.path)?,
        };
        let finish = |file: &File| {
            let permissions = match has_acl(file) {
                true => Readers::OWNER.limit(&permissions, &metadata),
                false => place.readers.limit(&permissions, &metadata),
            };
            file.set_permissions(permissions)?;
            #[cfg(windows)]
            if place.readers == Readers::ANYBODY {
                share(file, &place.path)?;
            }
            file.sync_all()
        };
        finish(&file)?;
        let private = match place.private {
            Some(private) => private,
            // If nothing is to be replaced, the file never has any name but its own.
            None if unnamed::link(&file, &place.path).is_ok() => {
                return Ok(Some(place.path));
            }
            None => match unnamed::link_privately(&file, &place.path) {
                Ok(private) => private,
                Err(_) => {
                    let private = copy(&mut file, &place.path)?;
                    finish(&file)?;
                    private
                }
            },
        };
        beside::persist(&file, private, &place.path)?;
        Ok(Some(place.path))
    }
}

/// Makes a name durable, or its removal, by synchronising the directory that it is in. Not every file system can do
/// this, and a file is complete either way.
pub fn sync_name(path: &Path) {
    let _ = keep_name(path);
}

/// Makes a name durable as [`sync_name`] does, wherever the file system can do this.
///
/// # Errors
/// The file system's. The file has its name, but may be without it once the machine has stopped.
pub fn keep_name(path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let synchronised = File::open(directory_of(path)).and_then(|directory| directory.sync_all());
    match synchronised {
        Err(e) if matches!(e.kind(), InvalidInput | PermissionDenied | Unsupported) => Ok(()),
        synchronised => synchronised,
    }
}

/// Puts a copy in the place of a file that cannot be given a name after all.
fn copy(file: &mut File, path: &Path) -> io::Result<TempPath> {
    let (mut copy, private) = beside::create(path, OWNER_ONLY)?;
    file.rewind()?;
    io::copy(file, &mut copy)?;
    *file = copy;
    Ok(private)
}

/// Files that have no name until they are complete.
#[cfg(target_os = "linux")]
pub(crate) mod unnamed {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;

    use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
    use nix::unistd::linkat;

    use super::*;

    /// A file without a name, if it can be made and named later: not every file system has them, and
    /// the name is given through `/proc`.
    pub(crate) fn create(directory: &Path, mode: u32) -> Option<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(mode);
        options.custom_flags(OFlag::O_TMPFILE.bits());
        let file = options.open(directory).ok()?;
        through_proc(&file).exists().then_some(file)
    }

    /// Gives it a name that is not in use yet.
    pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
        let flags = AtFlags::AT_SYMLINK_FOLLOW;
        linkat(AT_FDCWD, &through_proc(file), AT_FDCWD, path, flags).map_err(io::Error::from)
    }

    /// Gives it a private name, before it is to become `path`.
    pub(crate) fn link_privately(file: &File, path: &Path) -> io::Result<TempPath> {
        beside::link(file, path, |private| link(file, private))
    }

    fn through_proc(file: &File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) mod unnamed {
    use super::*;

    pub(crate) fn create(_: &Path, _: u32) -> Option<File> {
        None
    }

    pub(crate) fn link(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn link_privately(_: &File, _: &Path) -> io::Result<TempPath> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Fails for a device or a pipe that cannot.
impl Seek for WholeFile {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Lets those use a file who may use the one in whose place it is to come, or a new one there.
#[cfg(windows)]
fn share(file: &File, place: &Path) -> io::Result<()> {
    use crate::windows::{READ_CONTROL, look};
    match look(place, READ_CONTROL, false) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let (probe, _private) = beside::create(place, EVERYBODY)?;
            crate::windows::share(file, &probe)
        }
        there => crate::windows::share(file, &there?),
    }
}

/// The permissions that a new file gets from the process's mask, which can only be seen on a
/// new file.
fn default_permissions(path: &Path) -> io::Result<Permissions> {
    if let Some(probe) = unnamed::create(directory_of(path), EVERYBODY) {
        return probe.metadata().map(|m| m.permissions());
    }
    let (probe, _private) = beside::create(path, EVERYBODY)?;
    probe.metadata().map(|m| m.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        let count = || directory.path().read_dir().unwrap().count();
        drop(WholeFile::create(&path).unwrap());
        assert_eq!(count(), 0);
        for content in ["one", "two"] {
            let mut file = WholeFile::create(&path).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            assert_ne!(
                std::fs::read_to_string(&path).ok().as_deref(),
                Some(content)
            );
            file.commit().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(count(), 1);
        assert_eq!(
            WholeFile::create(directory.path()).unwrap_err().kind(),
            io::ErrorKind::IsADirectory
        );
        let nowhere = directory.path().join("nowhere/report.json");
        assert_eq!(
            WholeFile::create(&nowhere).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        keep_name(&path).unwrap();
        assert_eq!(
            keep_name(&nowhere).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    /// Writes as it is done where the system has no files without a name.
    #[test]
    fn files_with_private_names_and_copies_do_as_well() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let names = || -> Vec<_> {
            let entries = directory.path().read_dir().unwrap();
            entries.map(|e| e.unwrap().file_name()).collect()
        };
        let with_name = || {
            let mut whole = WholeFile::create(&path).unwrap();
            let (file, private) = beside::create(&path, OWNER_ONLY).unwrap();
            whole.file = file;
            whole.place.as_mut().unwrap().private = Some(private);
            whole.write_all(b"named").unwrap();
            whole
        };
        drop(with_name());
        assert!(names().is_empty());
        with_name().commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"named");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"copied").unwrap();
        let private = copy(&mut file, &path).unwrap();
        private.persist(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"copied");
        assert_eq!(names(), ["out"]);
    }

    /// A process that is killed while it puts a new file in its place leaves nothing else.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_new_file_has_no_other_name_on_its_way() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let directory = tempfile::tempdir().unwrap();
        if unnamed::create(directory.path(), 0o600).is_none() {
            return;
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut seen = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let names = std::fs::read_dir(directory.path()).unwrap();
                    let names = names.map(|entry| entry.unwrap().file_name());
                    seen.extend(names.filter(|name| name.to_string_lossy().starts_with('.')));
                }
                seen
            });
            for i in 0..100 {
                let path = directory.path().join(i.to_string());
                let mut file = WholeFile::create(&path).unwrap();
                file.write_all(&[7; 4096]).unwrap();
                file.commit().unwrap();
            }
            done.store(true, Ordering::Relaxed);
            assert_eq!(watcher.join().unwrap(), [""; 0]);
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_has_no_name_before_it_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut whole = WholeFile::create(&path).unwrap();
        whole.write_all(b"x").unwrap();
        assert!(whole.place.as_ref().unwrap().private.is_none());
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        whole.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"x");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_the_permissions_of_its_place() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (path, fresh) = (directory.path().join("a"), directory.path().join("b"));
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::write(&fresh, "").unwrap();
        let write_for = |readers: &Path| {
            let mut file = WholeFile::create(&path).unwrap();
            file.readable_by(Readers::of_path(readers).unwrap());
            file.commit().unwrap();
            mode(&path)
        };
        assert_eq!(write_for(&fresh), mode(&fresh));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(write_for(&fresh), 0o640 & mode(&fresh));
        let mut file = WholeFile::create(&path).unwrap();
        file.readable_by(Readers::ANYBODY);
        file.commit().unwrap();
        assert_eq!(mode(&path), 0o640);
        // As few as may read the input.
        std::fs::set_permissions(&fresh, Permissions::from_mode(0o400)).unwrap();
        assert_eq!(write_for(&fresh), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        WholeFile::create(&path).unwrap().commit().unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    /// With the permissions of its place, the file would be readable by everybody on the list.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_among_lists_is_its_owners() {
        use std::os::unix::fs::PermissionsExt;

        use rustix::fs::{XattrFlags, setxattr};

        use crate::readers::tests::acl_of_a_user;
        let directory = tempfile::tempdir().unwrap();
        let [replaced, listed, fresh] =
            ["replaced", "listed", "fresh"].map(|name| directory.path().join(name));
        for path in [&replaced, &listed] {
            std::fs::write(path, "old").unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        let readers = Readers::of_path(&replaced).unwrap();
        let set =
            |path: &Path, name: &str| setxattr(path, name, &acl_of_a_user(), XattrFlags::empty());
        let write = |path: &Path| {
            let mut file = WholeFile::create(path).unwrap();
            file.readable_by(readers);
            file.commit().unwrap();
            path.metadata().unwrap().permissions().mode() & 0o777
        };
        if set(&listed, "system.posix_acl_access") == Err(rustix::io::Errno::NOTSUP) {
            eprintln!("SKIPPED: there are no access control lists here");
            return;
        }
        assert_eq!(
            listed.metadata().unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!((write(&listed), write(&replaced)), (0o600, 0o644));
        set(directory.path(), "system.posix_acl_default").unwrap();
        assert_eq!((write(&fresh), write(&replaced)), (0o600, 0o600));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let mut full = WholeFile::create("/dev/full".as_ref()).unwrap();
        let error = full.write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let mut null = WholeFile::create("/dev/null".as_ref()).unwrap();
        null.write_all(b"x").unwrap();
        null.commit().unwrap();
        assert!(
            Path::new("/dev/null")
                .metadata()
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }
}
