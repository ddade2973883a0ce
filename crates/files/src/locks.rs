//! Locks that keep other processes away from a file.

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

/// Between two looks at a lock that another process has.
const PAUSE: Duration = Duration::from_millis(20);
/// For how long a lock that was given up may still be found: a process that another thread has just started has copies of all
/// open files until it runs its own program, and with them their locks.
const MOMENT: Duration = Duration::from_millis(200);

/// Why a file is not locked.
#[derive(Debug)]
pub enum NotLocked {
    /// Another process has locked it.
    InUse,
    /// Its file system has no locks: nobody can tell who else uses it.
    NoLocks,
    /// The file system's reason.
    Io(io::Error),
}

/// Locks a file until it is closed, unless another process has locked it for longer than a moment.
///
/// # Errors
/// Any [`NotLocked`]. Whoever goes on without a lock shares the file with others.
pub fn lock(file: &File) -> Result<(), NotLocked> {
    lock_within(file, MOMENT)
}

/// Locks a file as [`File::try_lock`] does, but on Windows keeps nobody from reading it, as that would.
pub(crate) fn try_lock(file: &File) -> Result<(), TryLockError> {
    #[cfg(not(windows))]
    {
        file.try_lock()
    }
    #[cfg(windows)]
    match vesica_kernels::windows::try_lock(file) {
        Ok(true) => Ok(()),
        Ok(false) => Err(TryLockError::WouldBlock),
        Err(e) => Err(TryLockError::Error(e)),
    }
}

/// Does the same, and waits for another process for at most so long.
///
/// # Errors
/// Any [`NotLocked`].
pub fn lock_within(file: &File, most: Duration) -> Result<(), NotLocked> {
    let until = Instant::now() + most;
    loop {
        return match try_lock(file) {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(TryLockError::WouldBlock) => Err(NotLocked::InUse),
            Err(TryLockError::Error(e)) if has_no_locks(&e) => Err(NotLocked::NoLocks),
            Err(TryLockError::Error(e)) => Err(NotLocked::Io(e)),
            Ok(()) => Ok(()),
        };
    }
}

/// Whether a file could not be locked because its file system has no locks. Network file systems without a lock service say
/// so with another error than those that have never heard of locks.
pub fn has_no_locks(cause: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use nix::errno::Errno;
        let code = cause.raw_os_error().map(Errno::from_raw);
        if matches!(code, Some(Errno::ENOLCK | Errno::EINVAL)) {
            return true;
        }
    }
    #[cfg(windows)]
    {
        const INVALID_FUNCTION: i32 = 1;
        const NOT_SUPPORTED: i32 = 50;
        if matches!(cause.raw_os_error(), Some(INVALID_FUNCTION | NOT_SUPPORTED)) {
            return true;
        }
    }
    cause.kind() == io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let open = || {
            let mut options = File::options();
            options.write(true).create(true).truncate(false);
            options.open(&path).unwrap()
        };
        let first = open();
        lock(&first).unwrap();
        assert!(matches!(lock(&open()), Err(NotLocked::InUse)));
        let moment = Duration::from_millis(100);
        let waited = Instant::now();
        assert!(matches!(
            lock_within(&open(), moment),
            Err(NotLocked::InUse)
        ));
        assert!(waited.elapsed() >= moment);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| lock_within(&open(), Duration::from_secs(10)));
            std::thread::sleep(moment);
            drop(first);
            second.join().unwrap().unwrap();
        });
        let copy = open();
        lock(&copy).unwrap();
        // As a process has it that was just started, and that has not run its program yet.
        let inherited = copy.try_clone().unwrap();
        drop(copy);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| lock(&open()));
            std::thread::sleep(MOMENT / 4);
            drop(inherited);
            next.join().unwrap().unwrap();
        });
    }

    #[cfg(unix)]
    #[test]
    fn file_systems_without_locks_are_told_from_other_trouble() {
        use nix::errno::Errno;
        let says = |code: Errno| has_no_locks(&io::Error::from_raw_os_error(code as i32));
        for code in [
            Errno::EOPNOTSUPP,
            Errno::ENOSYS,
            Errno::ENOLCK,
            Errno::EINVAL,
        ] {
            assert!(says(code), "{code}");
        }
        for code in [Errno::EIO, Errno::EINTR, Errno::EBADF, Errno::ENOSPC] {
            assert!(!says(code), "{code}");
        }
    }
}
