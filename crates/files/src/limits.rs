//! Limits of the machine and of the process.

use std::io;
use std::path::Path;

/// Whether `e` says that something has run out: space on a disk, memory, open files.
pub fn is_exhausted(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    let ran_out = matches!(
        e.kind(),
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge | K::OutOfMemory
    );
    ran_out || has_no_descriptors(e)
}

#[cfg(unix)]
fn has_no_descriptors(e: &io::Error) -> bool {
    use nix::errno::Errno;
    let full = [Errno::EMFILE, Errno::ENFILE].map(|errno| errno as i32);
    e.raw_os_error().is_some_and(|code| full.contains(&code))
}

#[cfg(windows)]
fn has_no_descriptors(e: &io::Error) -> bool {
    const TOO_MANY_OPEN_FILES: i32 = 4;
    const TOO_MANY_SOCKETS: i32 = 10_024;
    matches!(
        e.raw_os_error(),
        Some(TOO_MANY_OPEN_FILES | TOO_MANY_SOCKETS)
    )
}

/// Bytes that this user can write in a directory; `None` if nobody can tell.
#[cfg(unix)]
pub fn free_bytes(directory: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(directory).ok()?;
    // Both are as wide as the system has them.
    #[allow(clippy::useless_conversion, reason = "not on every system")]
    let (blocks, bytes) = (
        u64::from(found.blocks_available()),
        u64::from(found.fragment_size()),
    );
    Some(blocks.saturating_mul(bytes))
}

/// Bytes that this user can write in a directory; `None` if nobody can tell.
#[cfg(windows)]
pub fn free_bytes(directory: &Path) -> Option<u64> {
    vesica_kernels::windows::free_space(directory)
}

/// The memory of this machine, or what this process may take of it, in bytes; `None` if nobody can tell.
#[cfg(unix)]
pub fn machine_memory() -> Option<u64> {
    let total = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = total
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"))?;
    let machine = kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max");
    let group = group.ok().and_then(|text| text.trim().parse().ok());
    Some(group.unwrap_or(machine).min(machine))
}

/// The memory of this machine, or what this process may take of it, in bytes; `None` if nobody can tell.
#[cfg(windows)]
pub fn machine_memory() -> Option<u64> {
    vesica_kernels::windows::memory()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_space_or_no_such_place() {
        let place = tempfile::tempdir().unwrap();
        assert!(free_bytes(place.path()) > Some(0));
        assert_eq!(free_bytes(&place.path().join("nowhere")), None);
    }
}
