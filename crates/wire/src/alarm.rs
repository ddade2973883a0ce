//! Waits that end as soon as an interrupt is raised.
//!
//! All of a process share one pipe, into which a byte is written when any interrupt is raised: nobody reads it, and so
//! whoever waits wakes up, looks at its own, and waits on the next pipe. Interrupts are raised rarely. A process that was
//! forked has the pipe of the first, and gets its own.

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The pipe on which all wait until the next alarm.
struct Pipe {
    reader: Arc<PipeReader>,
    writer: PipeWriter,
    process: u32,
}

/// `None` until somebody waits.
static ALARM: Mutex<Option<Pipe>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Pipe>> {
    ALARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What rings at the next alarm; `None` if the system has no more files.
pub(crate) fn next() -> Option<Alarm> {
    let (mut alarm, process) = (lock(), std::process::id());
    if alarm.as_ref().is_none_or(|pipe| pipe.process != process) {
        let (reader, writer) = pipe().ok()?;
        *alarm = Some(Pipe {
            reader: Arc::new(reader),
            writer,
            process,
        });
    }
    let pipe = alarm.as_ref()?;
    Some(Alarm(Arc::clone(&pipe.reader)))
}

/// Wakes all who wait.
pub(crate) fn ring() {
    if let Some(mut pipe) = lock().take()
        && pipe.process == std::process::id()
    {
        // The end alone would not do: a forked process may hold it open.
        let _ = pipe.writer.write_all(&[0]);
    }
}

/// An alarm that has not rung when it was taken.
pub(crate) struct Alarm(Arc<PipeReader>);

impl Alarm {
    /// Waits until it rings, until there is something to read, or so long. Returns whether there is something to read.
    pub(crate) fn wait(&self, source: Option<BorrowedFd<'_>>, most: Duration) -> bool {
        let alarm = PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN);
        let source = source.map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN));
        let mut both: Vec<_> = [alarm].into_iter().chain(source).collect();
        let most = Timespec::try_from(most).ok();
        // Whoever waits looks again in any case.
        let _ = poll(&mut both, most.as_ref());
        both.get(1)
            .is_some_and(|source| !source.revents().is_empty())
    }
}
