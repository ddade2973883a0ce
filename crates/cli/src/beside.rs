//! Small files that appear whole or not at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Failure, RESOURCE, USAGE};

/// A file that is written beside its name and renamed once it is complete. Dropped before, it
/// leaves nothing.
#[derive(Debug)]
pub(crate) struct Beside {
    name: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A temporary file, and what it is to replace.
    Temporary(NamedTempFile, PathBuf),
    /// A device or a pipe, which must not be replaced.
    Direct(File),
}

impl Beside {
    /// Opens the temporary file, so that a path that cannot be written is known early.
    pub(crate) fn create(path: &Path) -> Result<Beside, Failure> {
        let target = open(path).map_err(|e| {
            let code = match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => RESOURCE,
                _ => USAGE,
            };
            let problem = e.kind();
            Failure::new(
                code,
                format!("{}: cannot be written: {problem}", path.display()),
            )
        })?;
        Ok(Beside {
            name: path.to_owned(),
            target,
        })
    }

    /// Writes the content and puts the file in its place.
    pub(crate) fn commit(self, content: &[u8]) -> Result<(), Failure> {
        let outcome = match self.target {
            Target::Direct(mut file) => file.write_all(content),
            Target::Temporary(mut file, path) => file
                .write_all(content)
                .and_then(|()| file.as_file().set_permissions(permissions(&path)?))
                .and_then(|()| file.as_file().sync_all())
                .and_then(|()| file.persist(path).map(drop).map_err(|e| e.error)),
        };
        outcome.map_err(|e| {
            let name = self.name.display();
            Failure::new(RESOURCE, format!("{name}: cannot be written: {e}"))
        })
    }
}

fn open(path: &Path) -> io::Result<Target> {
    let path = match path.metadata() {
        Ok(there) if there.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Target::Direct(file));
        }
        // A symbolic link stays one: what it points to is replaced.
        Ok(_) => path.canonicalize()?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(e) => return Err(e),
    };
    let file = tempfile::Builder::new()
        .prefix(".vesica-")
        .suffix(".tmp")
        .tempfile_in(directory(&path))?;
    Ok(Target::Temporary(file, path))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Those of the file that is replaced; without one, those that the process gives to new files,
/// which can only be seen on a new file.
fn permissions(path: &Path) -> io::Result<Permissions> {
    if let Ok(there) = path.metadata() {
        return Ok(there.permissions());
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".vesica-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(0o666));
    }
    let probe = builder.tempfile_in(directory(path))?;
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
        drop(Beside::create(&path).unwrap());
        assert_eq!(count(), 0);
        for content in ["one", "two"] {
            let beside = Beside::create(&path).unwrap();
            assert_ne!(
                std::fs::read_to_string(&path).ok().as_deref(),
                Some(content)
            );
            beside.commit(content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(count(), 1);
        assert_eq!(Beside::create(directory.path()).unwrap_err().code, USAGE);
        let nowhere = directory.path().join("nowhere/report.json");
        assert_eq!(Beside::create(&nowhere).unwrap_err().code, USAGE);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_has_the_permissions_of_its_place() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let (path, fresh) = (directory.path().join("a"), directory.path().join("b"));
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
        std::fs::write(&fresh, "").unwrap();
        Beside::create(&path).unwrap().commit(b"x").unwrap();
        assert_eq!(mode(&path), mode(&fresh));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        Beside::create(&path).unwrap().commit(b"y").unwrap();
        assert_eq!(mode(&path), 0o640);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let full = Beside::create("/dev/full".as_ref()).unwrap();
        assert_eq!(full.commit(b"x").unwrap_err().code, RESOURCE);
        Beside::create("/dev/null".as_ref())
            .unwrap()
            .commit(b"x")
            .unwrap();
        assert!(
            Path::new("/dev/null")
                .metadata()
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }
}
