//! Secrets that whoever runs a container has mounted into it.

use std::fs::File;
use std::io;

/// Whether an open file holds a secret that was mounted for this process, as Kubernetes, Docker, Podman and systemd do: others
/// may read it, and yet it is where root alone has put anything.
///
/// - It is root's, this user is not, and nobody else may write to it.
/// - It lies in a mount of its own, and not in that of `/`, so not among the files that all of a machine see.
/// - The mount is read-only. Or it is in memory, below another directory than `/`, and nobody but root may write to a directory
///   between the mount and the file: `/run`, `/tmp` and `/dev/shm` are no such places.
///
/// Always false but on Linux.
///
/// # Errors
/// The file system's.
#[cfg_attr(
    not(target_os = "linux"),
    allow(unused_variables, reason = "there are no such mounts")
)]
pub fn is_mounted_secret(file: &File) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        linux::is_mounted_secret(file)
    }
    #[cfg(not(target_os = "linux"))]
    {
        Ok(false)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, StatxFlags, fstatfs, fstatvfs, statx};
    use rustix::process::{getegid, geteuid, getgroups};

    use crate::readers::has_acl;

    /// Types of file systems in memory (statfs(2)).
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;

    pub(super) fn is_mounted_secret(file: &File) -> io::Result<bool> {
        let metadata = file.metadata()?;
        let of_root = metadata.uid() == 0 && geteuid().as_raw() != 0;
        if !metadata.is_file() || !of_root || is_written_by_others(metadata.mode()) || has_acl(file)
        {
            return Ok(false);
        }
        // Others than its group may read it only where they are asked for no more.
        let in_group = || -> io::Result<bool> {
            let group = metadata.gid();
            Ok(getegid().as_raw() == group || getgroups()?.iter().any(|of| of.as_raw() == group))
        };
        if metadata.mode() & 0o004 == 0 && !in_group()? {
            return Ok(false);
        }
        let (empty, root) = (Path::new(""), mount_of(Path::new("/"))?);
        let own = statx(file, empty, AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
        let Some(mount) = told(own.stx_mask, own.stx_mnt_id).filter(|of| Some(*of) != root) else {
            return Ok(false);
        };
        if fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Ok(true);
        }
        let kind = fstatfs(file)?.f_type as u64;
        if ![TMPFS, RAMFS].contains(&kind) {
            return Ok(false);
        }
        // Where it is now, whatever the links on the way were.
        let whole = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
        let whole = std::fs::read_link(whole)?;
        let mut top = &*whole;
        for directory in whole.ancestors().skip(1) {
            if mount_of(directory)? != Some(mount) {
                break;
            }
            let metadata = directory.metadata()?;
            if metadata.uid() != 0 || is_written_by_others(metadata.mode()) {
                return Ok(false);
            }
            top = directory;
        }
        // What is mounted right below / is the system's.
        let above = top.parent();
        if above.is_none_or(|above| above == Path::new("/") || above == Path::new("/dev")) {
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether others than the owner may write.
    fn is_written_by_others(mode: u32) -> bool {
        mode & 0o022 != 0
    }

    /// The number of the mount in which a path ends; `None` where the system does not tell.
    fn mount_of(path: &Path) -> io::Result<Option<u64>> {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)?;
        Ok(told(found.stx_mask, found.stx_mnt_id))
    }

    fn told(mask: u32, mount: u64) -> Option<u64> {
        let is_told = StatxFlags::from_bits_retain(mask).contains(StatxFlags::MNT_ID);
        is_told.then_some(mount)
    }
}
