//! Files for one user that have their [`FileId`] from their first byte on.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::FileId;
use crate::beside::{self, OWNER_ONLY, directory_of};
use crate::whole::unnamed;

/// A file that only this user may read, that gets its name once it is complete, and that is the same file before and
/// after. Dropped before, it leaves nothing; nor does a killed process where the system supports unnamed files. Elsewhere
/// [`unfinished`](crate::unfinished) finds what is left: the file is locked as long as somebody writes it.
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
        let (file, private) = match unnamed::create(directory_of(path), OWNER_ONLY) {
            Some(file) => (file, None),
            None => {
                let (file, private) = beside::create(path, OWNER_ONLY)?;
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
            Some(private) => beside::persist_new(&self.file, private, &self.path),
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
            None => unnamed::link_privately(&self.file, &self.path)?,
        };
        beside::persist(&self.file, private, &self.path)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As [`PrivateFile::create`] makes it where the system has no unnamed files.
    fn create_named(path: &Path) -> PrivateFile {
        let (file, private) = beside::create(path, OWNER_ONLY).unwrap();
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
}
