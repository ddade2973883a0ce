//! Files that appear whole or not at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file that is written beside its place, under a private name, and renamed once it is complete.
/// Dropped before, it leaves nothing. Devices and pipes are written directly, and never replaced.
#[derive(Debug)]
pub struct WholeFile(Target);

#[derive(Debug)]
enum Target {
    Direct(File),
    Beside {
        file: NamedTempFile,
        path: PathBuf,
        /// Those of a file that is to be replaced.
        permissions: Option<Permissions>,
    },
}

impl WholeFile {
    /// Opens the file, so that a path that cannot be written is known early.
    ///
    /// # Errors
    /// Those of the file system; a directory is [`io::ErrorKind::IsADirectory`].
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let (path, permissions) = match path.metadata() {
            Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(WholeFile(Target::Direct(file)));
            }
            // A symbolic link stays one: what it points to is replaced.
            Ok(there) => (path.canonicalize()?, Some(there.permissions())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => (path.to_owned(), None),
            Err(e) => return Err(e),
        };
        // On Unix a fresh temporary file is readable by its owner only.
        let file = beside().tempfile_in(directory(&path))?;
        Ok(WholeFile(Target::Beside {
            file,
            path,
            permissions,
        }))
    }

    /// Puts the finished file in its place: flushed to the disk, then renamed, with the permissions
    /// of the file that it replaces, or those that new files get.
    ///
    /// # Errors
    /// Those of the file system. Nothing is left then.
    pub fn commit(self) -> io::Result<()> {
        let (file, path, permissions) = match self.0 {
            Target::Direct(file) => {
                // Devices and pipes have nothing to synchronise, and say so.
                let _ = file.sync_all();
                return Ok(());
            }
            Target::Beside {
                file,
                path,
                permissions,
            } => (file, path, permissions),
        };
        file.as_file().sync_all()?;
        let permissions = permissions.map_or_else(|| default_permissions(directory(&path)), Ok)?;
        file.as_file().set_permissions(permissions)?;
        file.persist(&path).map_err(|e| e.error)?;
        // The rename itself is safe once the directory is on the disk. Not every file system can do
        // this, and the result is complete either way.
        let _ = File::open(directory(&path)).and_then(|d| d.sync_all());
        Ok(())
    }

    fn file(&mut self) -> &mut File {
        match &mut self.0 {
            Target::Direct(file) => file,
            Target::Beside { file, .. } => file.as_file_mut(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Private names, by which whatever a kill leaves behind is recognised.
fn beside() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".vesica-").suffix(".part");
    builder
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The permissions that a new file gets from the process's mask, which can only be seen on a
/// new file.
fn default_permissions(directory: &Path) -> io::Result<Permissions> {
    let mut builder = beside();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(0o666));
    }
    let probe = builder.tempfile_in(directory)?;
    probe.as_file().metadata().map(|m| m.permissions())
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
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_the_permissions_of_its_place() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (path, fresh) = (directory.path().join("a"), directory.path().join("b"));
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::write(&fresh, "").unwrap();
        WholeFile::create(&path).unwrap().commit().unwrap();
        assert_eq!(mode(&path), mode(&fresh));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        WholeFile::create(&path).unwrap().commit().unwrap();
        assert_eq!(mode(&path), 0o640);
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
