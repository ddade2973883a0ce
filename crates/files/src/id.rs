//! Which file a file is.

use std::fs::File;
use std::io;
use std::time::SystemTime;

/// What tells a file from every other one that the file system has or had, copies of it among them: its inode, and when
/// that began to exist.
///
/// Moving and renaming it within its file system keeps both; copying it, restoring it from an archive and moving it to
/// another file system do not. Nothing can set the birth time on Linux. The number of the device is left out: it is given
/// out anew when disks are found in another order. A roll-back to a snapshot of the whole file system is not noticed. Where
/// a system knows only one of the two (no inodes on Windows, no birth time on some network file systems), the other one is
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    inode: u64,
    /// Nanoseconds since 1970.
    born: u128,
}

impl FileId {
    /// Bytes of [`FileId::to_bytes`].
    pub const BYTES: usize = 24;

    /// The identity of an open file.
    ///
    /// # Errors
    /// The file system's.
    pub fn of(file: &File) -> io::Result<FileId> {
        let metadata = file.metadata()?;
        let born = metadata.created().ok();
        let born = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(FileId {
            inode,
            born: born.map_or(0, |born| born.as_nanos()),
        })
    }

    /// Inode and birth time, little endian.
    pub fn to_bytes(self) -> [u8; FileId::BYTES] {
        let mut bytes = [0; FileId::BYTES];
        let (inode, born) = bytes.split_at_mut(8);
        inode.copy_from_slice(&self.inode.to_le_bytes());
        born.copy_from_slice(&self.born.to_le_bytes());
        bytes
    }

    /// That with these bytes.
    pub fn from_bytes(bytes: &[u8; FileId::BYTES]) -> FileId {
        let (inode, rest) = bytes.split_first_chunk().expect("24 bytes");
        let (born, _) = rest.split_first_chunk().expect("16 bytes");
        FileId {
            inode: u64::from_le_bytes(*inode),
            born: u128::from_le_bytes(*born),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_copy_is_another_file() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let id = |name: &str| FileId::of(&File::open(at(name)).unwrap()).unwrap();
        fs::write(at("file"), "text").unwrap();
        let first = id("file");
        fs::copy(at("file"), at("copy")).unwrap();
        assert_ne!(id("copy"), first);
        fs::write(at("file"), "other text").unwrap();
        fs::rename(at("file"), at("renamed")).unwrap();
        assert_eq!(id("renamed"), first);
        // What comes back may get the inode of what it was a copy of, but not its birth time.
        // Clocks of file systems tick every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::copy(at("renamed"), at("backup")).unwrap();
        fs::remove_file(at("renamed")).unwrap();
        fs::copy(at("backup"), at("renamed")).unwrap();
        assert_ne!(id("renamed"), first);
        assert_ne!(id("renamed").to_bytes(), first.to_bytes());
    }
}
