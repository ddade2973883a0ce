//! Who may read a file that is made of others.

use std::fs::{Metadata, Permissions};

/// Who may read a file, as far as its permissions say; lists of access control are not looked at.
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

    /// Those of a file.
    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> Readers {
        use std::os::unix::fs::MetadataExt;
        Readers {
            mode: metadata.mode() & 0o777,
            group: Some(metadata.gid()),
        }
    }

    /// Those of a file.
    #[cfg(not(unix))]
    pub fn of(_: &Metadata) -> Readers {
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

    #[cfg(not(unix))]
    pub(crate) fn limit(self, permissions: &Permissions, _: &Metadata) -> Permissions {
        permissions.clone()
    }
}

/// A group may do what others may.
fn without_group(mode: u32) -> u32 {
    mode & !0o070 | mode & (mode & 0o007) << 3
}

#[cfg(all(test, unix))]
mod tests {
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
