//! Which file a file is.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
#[cfg(unix)]
use std::time::SystemTime;

/// What tells a file from every other one that the file system has or had, copies of it among them: its inode, and when
/// that began to exist; on Windows the number that its volume has given it, and that of the volume.
///
/// Moving and renaming it within its file system keeps both; copying it, restoring it from an archive and moving it to
/// another file system do not. Nothing can set the birth time on Linux. On Windows anybody can, and a new file may get that
/// of a former one of its name, but NTFS gives out a number again only after 65,535 other uses of its place. The number of the device is left out on Unix: it
/// is given out anew when disks are found in another order. A roll-back to a snapshot of the whole file system is not
/// noticed. Where a system knows only one of the two (no birth time on some network file systems), the other one is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    inode: u64,
    /// Nanoseconds since 1970; on Windows the number of the volume.
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
        #[cfg(unix)]
        {
            let metadata = file.metadata()?;
            let born = metadata.created().ok();
            let born = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
            Ok(FileId {
                inode: std::os::unix::fs::MetadataExt::ino(&metadata),
                born: born.map_or(0, |born| born.as_nanos()),
            })
        }
        #[cfg(windows)]
        {
            let Place { device, inode } = Place::of(file)?;
            Ok(FileId {
                inode,
                born: device.into(),
            })
        }
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

/// What tells a file or directory from every other one that is there at the same time, and is the same under all its names:
/// device and inode, or on Windows volume and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// That of an open file.
    ///
    /// # Errors
    /// The file system's.
    pub fn of(file: &File) -> io::Result<Place> {
        #[cfg(unix)]
        {
            Ok(Place::by(&file.metadata()?))
        }
        #[cfg(windows)]
        {
            let found = winapi_util::file::information(file)?;
            Ok(Place {
                device: found.volume_serial_number(),
                inode: found.file_index(),
            })
        }
    }

    /// That of what has this path, whose metadata these are: of a link itself if they are; `None` if nobody can tell.
    #[cfg(unix)]
    pub fn at(_: &Path, metadata: &Metadata) -> Option<Place> {
        Some(Place::by(metadata))
    }

    /// That of what has this path, whose metadata these are: of a link itself if they are; `None` if nobody can tell.
    #[cfg(windows)]
    pub fn at(path: &Path, metadata: &Metadata) -> Option<Place> {
        let there = crate::windows::look(path, 0, metadata.is_symlink());
        Place::of(&there.ok()?).ok()
    }

    #[cfg(unix)]
    fn by(metadata: &Metadata) -> Place {
        use std::os::unix::fs::MetadataExt;
        Place {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Whether an open file is the one that has this name.
pub fn is_at(file: &File, path: &Path) -> bool {
    let there = path.symlink_metadata();
    match (Place::of(file), there) {
        (Ok(file), Ok(there)) => Place::at(path, &there) == Some(file),
        _ => false,
    }
}

/// Whether a file has more than one name.
///
/// # Errors
/// The file system's.
pub fn has_other_names(path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        Ok(std::os::unix::fs::MetadataExt::nlink(&path.metadata()?) > 1)
    }
    #[cfg(windows)]
    {
        let there = crate::windows::look(path, 0, false)?;
        Ok(winapi_util::file::information(&there)?.number_of_links() > 1)
    }
}

/// The file that a standard stream is redirected from or to, if it is one.
#[cfg(unix)]
pub fn redirected(stream: &impl std::os::fd::AsFd) -> Option<File> {
    let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// The file that a standard stream is redirected from or to, if it is one.
#[cfg(windows)]
pub fn redirected(stream: &impl std::os::windows::io::AsHandle) -> Option<File> {
    let file = File::from(stream.as_handle().try_clone_to_owned().ok()?);
    winapi_util::file::typ(&file)
        .ok()?
        .is_disk()
        .then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn all_names_of_a_file_are_of_one_place() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fs::write(at("other"), "text").unwrap();
        assert!(!has_other_names(&at("file")).unwrap());
        fs::hard_link(at("file"), at("name")).unwrap();
        assert!(has_other_names(&at("file")).unwrap());
        let found = |name: &str| Place::at(&at(name), &at(name).metadata().unwrap()).unwrap();
        assert_eq!(found("file"), found("name"));
        assert_eq!(
            found("file"),
            Place::of(&File::open(at("name")).unwrap()).unwrap()
        );
        assert_ne!(found("file"), found("other"));
        assert_ne!(found("file"), found("."));
    }

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
