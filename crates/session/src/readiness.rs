//! When a side is ready for its peer.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use vesica_wire::{Clock, Interrupt};

/// Whether this side is ready for its peer. Clones share one state.
///
/// [`ConnectOptions::wait`](crate::ConnectOptions::wait) counts from the moment that this side is ready, so that the peer
/// may connect while a table is still being read, however long that takes. Several waits of one side that became ready end
/// together.
#[derive(Clone, Debug)]
pub struct Readiness(Option<Arc<State>>);

#[derive(Debug, Default)]
struct State {
    clock: Clock,
    since: OnceLock<Since>,
}

/// Since when a side is ready, or knows that it will not be.
#[derive(Clone, Copy, Debug)]
enum Since {
    Ready(Instant),
    GaveUp(Instant),
}

/// Time for which a side that gives up goes on with a handshake that has begun: its peer may take it for done.
const GRACE: Duration = Duration::from_secs(1);

impl Readiness {
    /// Not ready until [`Readiness::set`].
    #[allow(
        clippy::new_without_default,
        reason = "the default of the options is to be ready from the start"
    )]
    pub fn new() -> Readiness {
        Readiness::by(Clock::default())
    }

    /// Not ready until [`Readiness::set`], with this clock for the moment of that.
    pub fn by(clock: Clock) -> Readiness {
        Readiness(Some(Arc::new(State {
            clock,
            since: OnceLock::new(),
        })))
    }

    /// Ready from the start: the wait counts from the call that waits.
    pub fn from_the_start() -> Readiness {
        Readiness(None)
    }

    /// From now on this side is ready.
    pub fn set(&self) {
        if let Some(State { clock, since }) = self.0.as_deref() {
            since.get_or_init(|| Since::Ready(clock.now()));
            // Whoever stays with the peer meanwhile goes on at once.
            Interrupt::wake_all();
        }
    }

    /// This side will not be ready: whoever waits for its peer tries no further, but for a second in which what has begun
    /// may end. Does nothing if it is ready.
    pub fn give_up(&self) {
        if let Some(State { clock, since }) = self.0.as_deref() {
            since.get_or_init(|| Since::GaveUp(clock.now()));
            Interrupt::wake_all();
        }
    }

    /// Whether this side is ready, or has given up.
    pub(crate) fn is_settled(&self) -> bool {
        (self.0.as_ref()).is_none_or(|state| state.since.get().is_some())
    }

    /// When a wait ends that began at this time and takes so long; `None` as long as this side is not ready.
    pub(crate) fn deadline(&self, began: Instant, wait: Duration) -> Option<Instant> {
        match &self.0 {
            None => began.checked_add(wait),
            Some(state) => match state.since.get()? {
                Since::Ready(ready) => ready.checked_add(wait),
                Since::GaveUp(at) => at.checked_add(GRACE.min(wait)),
            },
        }
    }

    pub(crate) fn has_given_up(&self) -> bool {
        let since = self.0.as_ref().and_then(|state| state.since.get());
        matches!(since, Some(Since::GaveUp(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    /// It costs no time to have stayed with the peer.
    #[test]
    fn whoever_stays_with_the_peer_goes_on_at_once() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        for settle in [Readiness::set, Readiness::give_up] {
            let ready = Readiness::new();
            let begun = Instant::now();
            thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    while !ready.is_settled() {
                        Interrupt::new().await_readable(&silent, Duration::from_secs(60));
                    }
                });
                thread::sleep(Duration::from_millis(200));
                settle(&ready);
                waiting.join().unwrap();
            });
            assert!(begun.elapsed() < Duration::from_secs(30));
        }
    }
}
