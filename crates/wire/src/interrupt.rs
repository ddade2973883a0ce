//! The user's wish to stop, visible to every blocking call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Error;

/// Longest time that a blocking call sleeps before it looks at its [`Interrupt`] and its deadline.
pub const POLL: Duration = Duration::from_millis(100);

/// A flag that ends every blocked call of the channels that share it, within about twice [`POLL`].
///
/// Clones share one flag. It is meant to be raised from a Ctrl-C handler.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everything that shares the flag to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Fails with [`Error::Interrupted`] when the flag is raised.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_raised() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }
}
