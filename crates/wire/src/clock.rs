//! What waits go by.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::POLL;

/// The clock of deadlines, heartbeats and emulated links: the machine's by default, or a [`ManualClock`].
///
/// How long a closed channel lingers is the machine's time always.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<ManualClock>);

impl Clock {
    /// What the clock shows.
    pub fn now(&self) -> Instant {
        self.0
            .as_ref()
            .map_or_else(Instant::now, |clock| *clock.lock())
    }

    /// Most that somebody may wait who is not told when the clock is moved, of a time that it shows.
    pub(crate) fn unwatched(&self, time: Duration) -> Duration {
        match self.0 {
            None => time,
            Some(_) => time.min(POLL),
        }
    }

    /// Time since `then`, which it showed earlier.
    pub fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }
}

impl From<&ManualClock> for Clock {
    fn from(clock: &ManualClock) -> Clock {
        Clock(Some(clock.clone()))
    }
}

/// A clock that only its owner moves, so that a test of a deadline depends on no machine. Clones share one time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Instant>>);

impl ManualClock {
    /// A clock that stands still.
    #[allow(clippy::new_without_default, reason = "no two show the same time")]
    pub fn new() -> ManualClock {
        ManualClock(Arc::new(Mutex::new(Instant::now())))
    }

    /// Moves it. Whoever waits notices within about [`crate::POLL`].
    pub fn advance(&self, time: Duration) {
        *self.lock() += time;
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
