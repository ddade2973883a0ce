//! Whether a file has changed.

use std::fs::File;
use std::io;
use std::time::Duration;

use crate::FileId;

/// How long a file must have been left alone before its stamp counts. Clocks of file systems tick every few milliseconds, and
/// those of file servers may be late.
const SETTLED: Duration = Duration::from_secs(2);

/// What changes whenever somebody writes to a file, gives it other permissions or puts another one in its place: its
/// [`FileId`], its length, and when content and status were last changed. Only the system sets the time of the last change of
/// status; whoever serves a file over a network can make up all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    id: FileId,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: i128,
    changed: i128,
}

impl FileStamp {
    /// Bytes of [`FileStamp::to_bytes`].
    pub const BYTES: usize = FileId::BYTES + 8 + 16 + 16;

    /// That of an open file; `None` where the system does not say when a file's status was changed.
    ///
    /// # Errors
    /// The file system's.
    #[cfg(unix)]
    pub fn of(file: &File) -> io::Result<Option<FileStamp>> {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.metadata()?;
        let time = |seconds: i64, nanoseconds: i64| {
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
        };
        Ok(Some(FileStamp {
            id: FileId::of(file)?,
            bytes: metadata.len(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }))
    }

    /// That of an open file; `None` where the system does not say when a file's status was changed.
    ///
    /// # Errors
    /// The file system's.
    #[cfg(not(unix))]
    pub fn of(_: &File) -> io::Result<Option<FileStamp>> {
        Ok(None)
    }

    /// Whether the file has been left alone for so long that its next change will have another time.
    pub fn is_settled(&self) -> bool {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as i128);
        self.changed + (SETTLED.as_nanos() as i128) < now
    }

    /// Its fields, little endian.
    pub fn to_bytes(self) -> [u8; FileStamp::BYTES] {
        let mut bytes = [0; FileStamp::BYTES];
        let (id, rest) = bytes.split_at_mut(FileId::BYTES);
        let (length, times) = rest.split_at_mut(8);
        let (modified, changed) = times.split_at_mut(16);
        id.copy_from_slice(&self.id.to_bytes());
        length.copy_from_slice(&self.bytes.to_le_bytes());
        modified.copy_from_slice(&self.modified.to_le_bytes());
        changed.copy_from_slice(&self.changed.to_le_bytes());
        bytes
    }

    /// What has these fields.
    pub fn from_bytes(bytes: &[u8; FileStamp::BYTES]) -> FileStamp {
        let (id, rest) = bytes.split_first_chunk().expect("64 bytes");
        let (length, rest) = rest.split_first_chunk().expect("40 bytes");
        let (modified, rest) = rest.split_first_chunk().expect("32 bytes");
        let (changed, _) = rest.split_first_chunk().expect("16 bytes");
        FileStamp {
            id: FileId::from_bytes(id),
            bytes: u64::from_le_bytes(*length),
            modified: i128::from_le_bytes(*modified),
            changed: i128::from_le_bytes(*changed),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs::{self, FileTimes, Permissions};
    use std::io::{Seek, Write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn every_change_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        fs::write(&path, "text").unwrap();
        let stamp = || FileStamp::of(&File::open(&path).unwrap()).unwrap().unwrap();
        let before = stamp();
        assert_eq!(before, stamp());
        assert!(!before.is_settled());
        let old = FileStamp {
            changed: before.changed - 3_000_000_000,
            ..before
        };
        assert!(old.is_settled());
        let changes: [&dyn Fn(); 4] = [
            &|| {
                let mut file = File::options().write(true).open(&path).unwrap();
                file.rewind().unwrap();
                file.write_all(b"TEXT").unwrap();
            },
            // Times that are put back do not hide it.
            &|| {
                let file = File::options().write(true).open(&path).unwrap();
                let times =
                    FileTimes::new().set_modified(file.metadata().unwrap().modified().unwrap());
                (&file).write_all(b"Text").unwrap();
                file.set_times(times).unwrap();
            },
            &|| fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap(),
            &|| {
                let other = place.path().join("other");
                fs::write(&other, "Text").unwrap();
                fs::rename(&other, &path).unwrap();
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let before = stamp();
            std::thread::sleep(Duration::from_millis(50));
            change();
            assert_ne!(stamp(), before, "{number}");
            assert_eq!(
                FileStamp::from_bytes(&stamp().to_bytes()),
                stamp(),
                "{number}"
            );
        }
    }
}
