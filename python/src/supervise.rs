//! Work on a thread of its own, under the eyes of the interpreter.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use vesica::Interrupt;

use crate::errors::Failure;
use crate::events::Events;

/// Time between two looks for signals and events.
const TICK: Duration = Duration::from_millis(10);

/// How long an interrupted caller waits for the work to end by itself. The peer is told meanwhile, whatever the work
/// is doing.
const GRACE: Duration = Duration::from_millis(40);

/// A value that one thread gives to another.
struct Slot<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Slot<T> {
    const fn new(value: T) -> Slot<T> {
        Slot {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, f: impl FnOnce(&mut T)) {
        f(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits at most `most` until `ready`.
    fn wait(&self, most: Duration, ready: impl Fn(&T) -> bool) -> MutexGuard<'_, T> {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), most, |value| !ready(value));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Threads that are at work, among them those whose caller has gone.
static AT_WORK: Slot<usize> = Slot::new(0);

/// Counted among the threads at work as long as it lives.
struct AtWork;

impl AtWork {
    fn new() -> AtWork {
        AT_WORK.update(|number| *number += 1);
        AtWork
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.update(|number| *number -= 1);
    }
}

/// Waits at most `seconds` for interrupted runs to end, so that the interpreter does not end before them.
#[pyfunction]
pub(crate) fn wait_for_runs(py: Python<'_>, seconds: f64) {
    let most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| drop(AT_WORK.wait(most, |number| *number == 0)));
}

/// Runs `work` on a thread of its own while this one calls `each` every so often, with the interpreter's lock, and
/// returns what the work returns.
///
/// A signal handler or an `each` that raises, such as that of Ctrl-C, raises or stops `interrupt` and ends the wait: within
/// some 100 ms, even if the work takes longer to notice. If the work succeeds all the same, an `Exception` goes to
/// `sys.unraisablehook` instead; what asks the program to end, such as `KeyboardInterrupt`, is still raised.
pub(crate) fn supervise<T: Send + 'static>(
    py: Python<'_>,
    interrupt: &Interrupt,
    mut each: impl FnMut() -> PyResult<()>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<Result<T, Failure>> {
    type Outcome<T> = Result<Result<T, Failure>, Box<dyn Any + Send>>;
    let slot: Arc<Slot<Option<Outcome<T>>>> = Arc::new(Slot::new(None));
    let result = Arc::clone(&slot);
    let at_work = AtWork::new();
    thread::Builder::new()
        .name("vesica-run".into())
        .spawn(move || {
            let outcome = panic::catch_unwind(AssertUnwindSafe(work));
            result.update(|slot| *slot = Some(outcome));
            drop(at_work);
        })?;
    let wait = |most| py.detach(|| slot.wait(most, Option::is_some).take());
    loop {
        match wait(TICK) {
            Some(Ok(outcome)) => return Ok(outcome),
            Some(Err(panic)) => panic::resume_unwind(panic),
            None => {}
        }
        if let Err(error) = py.check_signals().and_then(|()| each()) {
            // The peer hears of a user only if there was one.
            match error.is_instance_of::<PyException>(py) {
                true => interrupt.stop(),
                false => interrupt.raise(),
            }
            return match wait(GRACE) {
                Some(Ok(Ok(done))) => {
                    unless_asked_to_end(py, error)?;
                    Ok(Ok(done))
                }
                _ => Err(error),
            };
        }
    }
}

/// As [`supervise`], while `listener` hears of events; returns what the work returns or raises why it failed.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    interrupt: &Interrupt,
    events: &Events,
    listener: &Bound<'_, PyAny>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let tell = || events.tell(listener);
    let done = supervise(py, interrupt, tell, work)?;
    if let Err(error) = tell() {
        unless_asked_to_end(py, error)?;
    }
    Ok(done?)
}

/// An exception that must not cost a result goes to `sys.unraisablehook`; what asks the program to end is returned.
pub(crate) fn unless_asked_to_end(py: Python<'_>, error: PyErr) -> PyResult<()> {
    if error.is_instance_of::<PyException>(py) {
        error.write_unraisable(py, None);
        return Ok(());
    }
    Err(error)
}
