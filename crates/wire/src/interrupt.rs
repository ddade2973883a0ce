//! The request of the user, or of the program, to stop: visible to every blocking call.

#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(windows)]
use std::os::windows::io::AsSocket;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
#[cfg(unix)]
use crate::alarm;

/// Longest time that a blocking call sleeps before it checks its [`Interrupt`] and its deadline, unless it is woken by them.
pub const POLL: Duration = Duration::from_millis(25);

/// A flag that ends every blocked call of the channels that share it, within about twice [`POLL`]. A run then tells its peer
/// why, for up to 1.7 seconds where that does not hang up.
///
/// Clones share one flag. A Ctrl-C handler [raises](Interrupt::raise) it, one of other signals [ends](Interrupt::terminate), and
/// a program that gives up [stops](Interrupt::stop) what shares it: the peer hears which of these it was.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    /// 0, or by whom.
    raised: AtomicU8,
    parent: Option<Interrupt>,
    /// When it raises itself, and how long after it was told so that is.
    deadline: Mutex<Option<(Instant, Duration)>>,
}

/// [Stops](Interrupt::stop) what shares an [`Interrupt`] when it is dropped.
#[derive(Debug)]
pub struct InterruptGuard(Interrupt);

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}

const BY_USER: u8 = 1;
const BY_PROGRAM: u8 = 2;
const BY_SIGNAL: u8 = 3;

impl Interrupt {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new flag, which is raised on its own or together with this one.
    #[must_use]
    pub fn child(&self) -> Interrupt {
        Interrupt(Arc::new(Flag {
            parent: Some(self.clone()),
            ..Flag::default()
        }))
    }

    /// Stops what shares the flag once the guard is dropped, as where an async function that waits for it is cancelled; and
    /// when that has ended by itself too. Guard a [child](Interrupt::child) of a flag that others share.
    #[must_use]
    pub fn guard(&self) -> InterruptGuard {
        InterruptGuard(self.clone())
    }

    /// A new flag, which is raised together with this one, and at the latest after `time`.
    #[must_use]
    pub fn within(&self, time: Duration) -> Interrupt {
        let child = self.child();
        child.end_within(time);
        child
    }

    /// Has the flag raise itself after `time` from now, in place of whatever was said before.
    pub fn end_within(&self, time: Duration) {
        self.end_after(Instant::now(), time);
        #[cfg(unix)]
        alarm::ring();
    }

    /// Has the flag raise itself once so much time has passed since then, in place of whatever was said before: for those who
    /// begin to wait from now on. Nobody else is woken, so that it may be said often.
    pub fn end_after(&self, since: Instant, time: Duration) {
        let end = since.checked_add(time);
        let mut deadline = self
            .0
            .deadline
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *deadline = end.map(|end| (end, time));
    }

    /// Asks everything that shares the flag to stop, for the user.
    pub fn raise(&self) {
        self.raise_by(BY_USER);
    }

    /// Asks everything that shares the flag to stop, for a reason of the program that no user has given.
    pub fn stop(&self) {
        self.raise_by(BY_PROGRAM);
    }

    /// Asks everything that shares the flag to stop, for whoever has told the process to end.
    pub fn terminate(&self) {
        self.raise_by(BY_SIGNAL);
    }

    /// Asks the same for the reason for which another flag is raised; of the program if that is none.
    pub fn raise_as(&self, other: &Interrupt) {
        match other.check() {
            Err(Error::Interrupted) => self.raise(),
            Err(Error::Terminated) => self.terminate(),
            _ => self.stop(),
        }
    }

    fn raise_by(&self, whom: u8) {
        // The first one counts.
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        let _ = self.0.raised.compare_exchange(0, whom, set, fetch);
        #[cfg(unix)]
        alarm::ring();
    }

    /// Whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        self.check().is_err()
    }

    /// Waits so long.
    ///
    /// Fails as [`Interrupt::check`] does, as soon as it would.
    pub fn pause(&self, time: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            self.check()?;
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            self.sleep(left);
        }
    }

    /// Waits until this socket has something to read, until the flag is raised, or so long: perhaps less, so that whoever
    /// waits looks again. Returns whether there is something to read, or may be.
    #[cfg(unix)]
    pub fn await_readable(&self, socket: &impl AsFd, most: Duration) -> bool {
        let readable = self.watch(Some(socket.as_fd()), most);
        if readable.is_none() {
            std::thread::sleep(most.min(POLL / 5));
        }
        readable.unwrap_or(true)
    }

    /// Waits until this socket has something to read, or so long, but no longer than [`POLL`], so that whoever waits looks
    /// again. Returns whether there is something to read, or may be.
    #[cfg(windows)]
    pub fn await_readable(&self, socket: &impl AsSocket, most: Duration) -> bool {
        use vesica_kernels::windows::{Until, wait};
        wait(socket, Until::Readable, most.min(POLL)).unwrap_or(true)
    }

    /// Has everybody look again who waits until a flag is raised.
    pub fn wake_all() {
        #[cfg(unix)]
        alarm::ring();
    }

    #[cfg(unix)]
    fn sleep(&self, most: Duration) {
        if self.watch(None, most).is_none() {
            std::thread::sleep(POLL.min(most));
        }
    }

    #[cfg(not(unix))]
    fn sleep(&self, most: Duration) {
        std::thread::sleep(POLL.min(most));
    }

    /// Returns whether there is something to read, or `None` if it could not wait.
    #[cfg(unix)]
    fn watch(&self, source: Option<BorrowedFd<'_>>, most: Duration) -> Option<bool> {
        let alarm = alarm::next()?;
        // Whatever is raised from now on rings it.
        let may_wait = self.check().is_ok();
        Some(may_wait && alarm.wait(source, most.min(self.left())))
    }

    /// How long until the flag raises itself.
    #[cfg(unix)]
    fn left(&self) -> Duration {
        let Flag {
            parent, deadline, ..
        } = &*self.0;
        let of_parent = parent.as_ref().map_or(Duration::MAX, Interrupt::left);
        match *deadline.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((end, _)) => of_parent.min(end.saturating_duration_since(Instant::now())),
            None => of_parent,
        }
    }

    /// Fails with [`Error::Interrupted`], [`Error::Terminated`] or [`Error::Stopped`] when the flag is raised, and with
    /// [`Error::Overdue`] when it has raised itself.
    pub fn check(&self) -> Result<(), Error> {
        let Flag {
            raised,
            parent,
            deadline,
        } = &*self.0;
        match raised.load(Ordering::SeqCst) {
            0 => {}
            BY_PROGRAM => return Err(Error::Stopped),
            BY_SIGNAL => return Err(Error::Terminated),
            _ => return Err(Error::Interrupted),
        }
        parent.as_ref().map_or(Ok(()), Interrupt::check)?;
        match *deadline.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((end, time)) if Instant::now() >= end => Err(Error::Overdue(time)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_raised_with_its_parent_and_alone() {
        let parent = Interrupt::new();
        let [alone, with] = [parent.child(), parent.child()];
        alone.raise();
        assert!(alone.is_raised() && !with.is_raised() && !parent.is_raised());
        parent.clone().raise();
        assert!(with.is_raised() && with.child().is_raised());
    }

    #[test]
    fn a_guard_stops_what_shares_the_flag_when_it_is_dropped() {
        let interrupt = Interrupt::new();
        let guard = interrupt.guard();
        assert!(!interrupt.is_raised());
        drop(guard);
        assert!(matches!(interrupt.child().check(), Err(Error::Stopped)));
    }

    #[test]
    fn a_flag_says_who_raised_it_first() {
        let [user, program, signal] = [(); 3].map(|()| Interrupt::new());
        user.raise();
        program.stop();
        signal.terminate();
        for (flag, other) in [
            (&user, Interrupt::stop as fn(&_)),
            (&program, Interrupt::terminate),
            (&signal, Interrupt::raise),
        ] {
            let before = flag.child().check().unwrap_err();
            other(flag);
            let after = flag.check().unwrap_err();
            assert_eq!(before.to_string(), after.to_string());
            let same = Interrupt::new();
            same.raise_as(&flag.child());
            let after = same.check().unwrap_err();
            assert_eq!(before.to_string(), after.to_string());
        }
        assert!(matches!(user.check(), Err(Error::Interrupted)));
        assert!(matches!(program.check(), Err(Error::Stopped)));
        assert!(matches!(signal.check(), Err(Error::Terminated)));
    }

    #[test]
    fn a_pause_ends_with_its_flag() {
        let flag = Interrupt::new();
        let begun = Instant::now();
        flag.pause(Duration::from_millis(60)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(60));
        let raised = std::thread::scope(|scope| {
            let pausing = scope.spawn(|| flag.pause(Duration::from_secs(3600)));
            flag.raise();
            pausing.join().unwrap()
        });
        assert!(matches!(raised, Err(Error::Interrupted)));
    }

    #[test]
    fn a_deadline_raises_a_flag() {
        let parent = Interrupt::new();
        let [late, early] = [1000, 0].map(|seconds| parent.within(Duration::from_secs(seconds)));
        assert!(late.check().is_ok() && !parent.is_raised());
        assert!(matches!(early.child().check(), Err(Error::Overdue(time)) if time.is_zero()));
        // The last one counts, for all that share the flag.
        let shared = early.clone();
        early.end_within(Duration::from_secs(1000));
        assert!(shared.check().is_ok());
        shared.end_within(Duration::ZERO);
        assert!(early.is_raised() && late.check().is_ok());
        let since = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        late.end_after(since, Duration::from_secs(1000));
        assert!(late.check().is_ok());
        late.end_after(since, Duration::from_secs(4));
        assert!(matches!(late.check(), Err(Error::Overdue(time)) if time.as_secs() == 4));
        late.end_within(Duration::from_secs(1000));
        // Whoever stops it says more than that time has run out.
        parent.raise();
        assert!(matches!(early.check(), Err(Error::Interrupted)));
        assert!(matches!(late.check(), Err(Error::Interrupted)));
    }
}
