//! Errors of the operating system that are limits of the machine or of the process.

use std::io;

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

#[cfg(not(unix))]
fn has_no_descriptors(_: &io::Error) -> bool {
    false
}
