//! The user's request to stop, visible to every blocking call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Error;

/// Longest time that a blocking call sleeps before it checks its [`Interrupt`] and its deadline.
pub const POLL: Duration = Duration::from_millis(25);

/// A flag that ends every blocked call of the channels that share it, within about twice [`POLL`].
///
/// Clones share one flag. It is meant to be raised from a Ctrl-C handler.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    parent: Option<Interrupt>,
}

impl Interrupt {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new flag, which is raised on its own or together with this one.
    #[must_use]
    pub fn child(&self) -> Interrupt {
        Interrupt(Arc::new(Flag {
            raised: AtomicBool::new(false),
            parent: Some(self.clone()),
        }))
    }

    /// Asks everything that shares the flag to stop.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
    }

    /// Whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        let Flag { raised, parent } = &*self.0;
        raised.load(Ordering::SeqCst) || parent.as_ref().is_some_and(Interrupt::is_raised)
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
}
