//! Waits that end as soon as an interrupt is raised.
//!
//! All of a process share one pipe, whose writing end is closed when any interrupt is raised: whoever waits wakes up, looks
//! at its own, and waits on the next pipe. Interrupts are raised rarely.

use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The pipe on which all wait until the next alarm; `None` until somebody does.
static ALARM: Mutex<Option<(Arc<PipeReader>, PipeWriter)>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<(Arc<PipeReader>, PipeWriter)>> {
    ALARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What rings at the next alarm; `None` if the system has no more files.
pub(crate) fn next() -> Option<Alarm> {
    let mut alarm = lock();
    if alarm.is_none() {
        let (reader, writer) = pipe().ok()?;
        *alarm = Some((Arc::new(reader), writer));
    }
    let (reader, _) = alarm.as_ref()?;
    Some(Alarm(Arc::clone(reader)))
}

/// Wakes all who wait.
pub(crate) fn ring() {
    *lock() = None;
}

/// An alarm that has not rung when it was taken.
pub(crate) struct Alarm(Arc<PipeReader>);

impl Alarm {
    /// Waits until it rings, until there is something to read, or so long.
    pub(crate) fn wait(&self, source: Option<BorrowedFd<'_>>, most: Duration) {
        let alarm = PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN);
        let source = source.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        let mut both: Vec<_> = [alarm].into_iter().chain(source).collect();
        let most = Timespec::try_from(most).ok();
        // Whoever waits looks again in any case.
        let _ = poll(&mut both, most.as_ref());
    }
}
