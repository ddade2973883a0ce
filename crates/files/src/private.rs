//! Files for one user that have their [`FileId`] from their first byte on.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::whole::{OWNER_ONLY, directory, named, unnamed};
use crate::{FileId, open_regular};

/// A file that only this user may read, that gets its name once it is complete, and that is the same file before and
/// after. Dropped before, it leaves nothing; nor does a killed process where the system supports unnamed files. Elsewhere
/// [`unfinished`] finds what is left: the file is locked as long as somebody writes it.
#[derive(Debug)]
pub struct PrivateFile {
    file: File,
    path: PathBuf,
    /// The private name, if the file has one already.
    private: Option<TempPath>,
}

impl PrivateFile {
    /// Opens the file, which is to be named `path`.
    ///
    /// # Errors
    /// The file system's.
    pub fn create(path: &Path) -> io::Result<PrivateFile> {
        let place = directory(path);
        let (file, private) = match unnamed::create(place, OWNER_ONLY) {
            Some(file) => (file, None),
            None => {
                let (file, private) = named_and_locked(place)?;
                (file, Some(private))
            }
        };
        Ok(PrivateFile {
            file,
            path: path.to_owned(),
            private,
        })
    }

    /// Which file it is, and will be under its name.
    ///
    /// # Errors
    /// The file system's.
    pub fn id(&self) -> io::Result<FileId> {
        FileId::of(&self.file)
    }

    /// Flushes the file to the disk and gives it its name, which no other file may have. The directory is left to the
    /// caller.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is a file of this name, else the file system's. Nothing is left then.
    pub fn place_new(self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.private {
            Some(private) => private.persist_noclobber(&self.path).map_err(|e| e.error),
            None => unnamed::link(&self.file, &self.path),
        }
    }

    /// Flushes the file to the disk and puts it in the place of another one, at once. The directory is left to the
    /// caller.
    ///
    /// # Errors
    /// The file system's. The other file stays then.
    pub fn replace(self) -> io::Result<()> {
        self.file.sync_all()?;
        let private = match self.private {
            Some(private) => private,
            None => {
                // From now on the file could be left behind. Nobody else can have locked what has no name.
                lock(&self.file)?;
                unnamed::link_privately(&self.file, directory(&self.path))?
            }
        };
        private.persist(&self.path).map_err(|e| e.error)
    }
}

impl Write for PrivateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file with a private name that [`unfinished`] passes by.
fn named_and_locked(place: &Path) -> io::Result<(File, TempPath)> {
    loop {
        let (file, private) = named(place, OWNER_ONLY)?;
        // Between its first moment and the lock somebody may have taken it for a leftover.
        if lock(&file)? && private.exists() {
            return Ok((file, private));
        }
    }
}

/// Locks a file, unless somebody else has. Where there are no locks nothing is ever found unfinished.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// The files in a directory that killed processes have not finished, with their bytes.
///
/// # Errors
/// A directory that cannot be read.
pub fn unfinished(place: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    visit_unfinished(place, |path, bytes| found.push((path, bytes)))?;
    Ok(found)
}

/// Removes the files that [`unfinished`] finds. What cannot be removed stays.
///
/// # Errors
/// A directory that cannot be read.
pub fn remove_unfinished(place: &Path) -> io::Result<()> {
    visit_unfinished(place, |path, _| drop(fs::remove_file(path)))
}

/// Visits the files while they are locked, so that nobody takes one that was just made for their own
/// ([`named_and_locked`]) while it is removed.
fn visit_unfinished(place: &Path, mut visit: impl FnMut(PathBuf, u64)) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Earlier versions had names of the second kind.
        let is_ours = [".vesica-", ".tmp"].iter().any(|p| name.starts_with(p));
        if !(is_ours && name.ends_with(".part")) {
            continue;
        }
        // What has gone meanwhile was finished or removed.
        let Ok(file) = open_regular(&path) else {
            continue;
        };
        if file.try_lock().is_ok() {
            let bytes = file.metadata().map_or(0, |metadata| metadata.len());
            visit(path, bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`PrivateFile::create`] makes it where the system has no unnamed files.
    fn create_named(path: &Path) -> PrivateFile {
        let (file, private) = named_and_locked(directory(path)).unwrap();
        PrivateFile {
            file,
            path: path.to_owned(),
            private: Some(private),
        }
    }

    #[test]
    fn a_file_is_the_same_before_and_after() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let id = || FileId::of(&File::open(&path).unwrap()).unwrap();
        let creates: [fn(&Path) -> PrivateFile; 2] =
            [|path| PrivateFile::create(path).unwrap(), create_named];
        for create in creates {
            let mut file = create(&path);
            file.write_all(b"one").unwrap();
            let first = file.id().unwrap();
            file.place_new().unwrap();
            assert_eq!(id(), first);
            let error = create(&path).place_new().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            let mut file = create(&path);
            file.write_all(b"two").unwrap();
            let second = file.id().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"one");
            file.replace().unwrap();
            assert_eq!((id(), fs::read(&path).unwrap()), (second, b"two".to_vec()));
            assert_ne!(first, second);
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600);
            }
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn what_nobody_writes_is_unfinished() {
        let place = tempfile::tempdir().unwrap();
        let file = create_named(&place.path().join("file"));
        for other in ["x.part", ".vesica-x", ".tmpdir.part"] {
            fs::create_dir(place.path().join(other)).unwrap();
        }
        assert_eq!(unfinished(place.path()).unwrap(), []);
        // As if the process was killed: the name stays, the lock does not.
        let left = file.private.unwrap().keep().unwrap();
        drop(file.file);
        fs::write(&left, "text").unwrap();
        let old = place.path().join(".tmpAbCdEf.part");
        fs::write(&old, "of an earlier version").unwrap();
        let mut found = unfinished(place.path()).unwrap();
        found.sort_by_key(|(_, bytes)| *bytes);
        assert_eq!(found, [(left.clone(), 4), (old, 21)]);
        // Whoever made one meanwhile would see that it is about to go.
        let mut visited = 0;
        visit_unfinished(place.path(), |path, _| {
            let file = open_regular(&path).unwrap();
            assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
            visited += 1;
        })
        .unwrap();
        assert_eq!(visited, 2);
        remove_unfinished(place.path()).unwrap();
        assert!(!left.exists());
        assert_eq!(unfinished(place.path()).unwrap(), []);
    }
}
