//! Who may read a file that is made of others.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::path::Path;

/// Who may read a file: its owner alone if it has a POSIX access control list, or on Windows any, otherwise those that its
/// permissions name. Lists of other kinds are not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code, reason = "there are no such permissions"))]
pub struct Readers {
    /// Permission bits of owner, group and others.
    mode: u32,
    /// The group, if it may do more than others.
    group: Option<u32>,
}

impl Readers {
    /// The owner alone.
    pub const OWNER: Readers = Readers {
        mode: 0o600,
        group: None,
    };

    /// Everybody, as far as the process lets others read its new files.
    pub const ANYBODY: Readers = Readers {
        mode: 0o666,
        group: None,
    };

    /// Those of an open file.
    ///
    /// # Errors
    /// The file system's.
    pub fn of(file: &File) -> io::Result<Readers> {
        let metadata = file.metadata()?;
        Ok(Readers::by(&metadata, has_acl(file)))
    }

    /// Those of the file of this name.
    ///
    /// # Errors
    /// The file system's.
    pub fn of_path(path: &Path) -> io::Result<Readers> {
        let metadata = path.metadata()?;
        Ok(Readers::by(&metadata, acl::is_at(path)))
    }

    #[cfg(unix)]
    fn by(metadata: &Metadata, has_acl: bool) -> Readers {
        use std::os::unix::fs::MetadataExt;
        match has_acl {
            true => Readers::OWNER,
            false => Readers {
                mode: metadata.mode() & 0o777,
                group: Some(metadata.gid()),
            },
        }
    }

    #[cfg(not(unix))]
    fn by(_: &Metadata, _: bool) -> Readers {
        Readers::OWNER
    }

    /// Those who may read both.
    #[must_use]
    pub fn and(self, other: Readers) -> Readers {
        let mode = self.mode & other.mode;
        match self.group == other.group {
            true => Readers { mode, ..self },
            false => Readers {
                mode: without_group(mode),
                group: None,
            },
        }
    }

    /// Permissions without those that let anyone else read a file of this `metadata`. Its owner may read and write it.
    #[cfg(unix)]
    pub(crate) fn limit(self, permissions: &Permissions, metadata: &Metadata) -> Permissions {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let allowed = match self.group == Some(metadata.gid()) {
            true => self.mode,
            false => without_group(self.mode),
        };
        Permissions::from_mode(permissions.mode() & 0o777 & allowed | 0o600)
    }

    /// Permissions say nothing of readers here.
    #[cfg(not(unix))]
    pub(crate) fn limit(self, permissions: &Permissions, _: &Metadata) -> Permissions {
        permissions.clone()
    }
}

/// Whether other users of the machine may do anything with an open file: by its permissions, or on Windows by its access
/// control list, in which the system and administrators are none, and looking at its attributes is nothing.
///
/// # Errors
/// The file system's.
pub fn is_exposed(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        Ok(file.metadata()?.permissions().mode() & 0o077 != 0)
    }
    #[cfg(windows)]
    crate::windows::is_exposed(file)
}

/// Whether a file has an access control list: then the bits of its group are the most that anybody on the list may do, and
/// the group itself may do less.
pub(crate) fn has_acl(file: &File) -> bool {
    acl::is_of(file)
}

#[cfg(target_os = "linux")]
mod acl {
    use std::fs::File;
    use std::path::Path;

    use rustix::fs::{fgetxattr, getxattr};
    use rustix::io::{Errno, Result};

    pub(super) const NAME: &str = "system.posix_acl_access";

    pub(super) fn is_of(file: &File) -> bool {
        is_there(fgetxattr(file, NAME, &mut [0; 0]))
    }

    pub(super) fn is_at(path: &Path) -> bool {
        is_there(getxattr(path, NAME, &mut [0; 0]))
    }

    /// By the length of the list: what cannot be told may be one.
    fn is_there(length: Result<usize>) -> bool {
        !matches!(length, Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS))
    }
}

#[cfg(not(target_os = "linux"))]
mod acl {
    use std::fs::File;
    use std::path::Path;

    pub(super) fn is_of(_: &File) -> bool {
        false
    }

    pub(super) fn is_at(_: &Path) -> bool {
        false
    }
}

/// A group may do what others may.
fn without_group(mode: u32) -> u32 {
    mode & !0o070 | mode & (mode & 0o007) << 3
}

#[cfg(all(test, unix))]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn who_may_read_two_files_may_read_what_is_made_of_them() {
        let readers = |mode, group| Readers {
            mode,
            group: Some(group),
        };
        let both = readers(0o644, 7).and(readers(0o660, 7));
        assert_eq!(both, readers(0o640, 7));
        for (mode, expected) in [(0o644, 0o644), (0o640, 0o600), (0o664, 0o644)] {
            let both = readers(mode, 7).and(readers(0o666, 8));
            assert_eq!((both.mode, both.group), (expected, None), "{mode:o}");
        }
        assert_eq!(readers(0o644, 7).and(Readers::OWNER).mode, 0o600);
    }

    /// A list by which one more user may read a file, and its group may not, as the kernel encodes it: the version, then
    /// kind, permissions and user of each entry.
    #[cfg(target_os = "linux")]
    pub(crate) fn acl_of_a_user() -> Vec<u8> {
        let nobody = u32::MAX;
        let entries: [(u16, u16, u32); 5] = [
            (0x01, 6, nobody), // the owner
            (0x02, 4, 12_345),
            (0x04, 0, nobody), // the group
            (0x10, 4, nobody), // at most
            (0x20, 0, nobody), // others
        ];
        let entries = entries.iter().flat_map(|(kind, may, user)| {
            let words = [kind.to_le_bytes(), may.to_le_bytes()].concat();
            [words, user.to_le_bytes().to_vec()].concat()
        });
        2u32.to_le_bytes().into_iter().chain(entries).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_with_a_list_is_its_owners() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::fsetxattr(&file, acl::NAME, &acl_of_a_user(), flags);
        if set == Err(rustix::io::Errno::NOTSUP) {
            eprintln!("SKIPPED: there are no access control lists here");
            return;
        }
        set.unwrap();
        assert_eq!(file.as_file().metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(Readers::of(file.as_file()).unwrap(), Readers::OWNER);
        assert_eq!(Readers::of_path(file.path()).unwrap(), Readers::OWNER);
        assert!(Readers::of_path(&file.path().join("nowhere")).is_err());
    }

    #[test]
    fn another_group_has_no_more_than_others() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let metadata = tempfile::tempfile().unwrap().metadata().unwrap();
        let limited = |mode, group| {
            let group = Some(group);
            let usual = Permissions::from_mode(0o664);
            Readers { mode, group }.limit(&usual, &metadata).mode()
        };
        let (own, other) = (metadata.gid(), metadata.gid() + 1);
        assert_eq!((limited(0o640, own), limited(0o640, other)), (0o640, 0o600));
        assert_eq!((limited(0o444, own), limited(0o444, other)), (0o644, 0o644));
        assert_eq!((limited(0o400, own), limited(0o666, other)), (0o600, 0o664));
    }
}
