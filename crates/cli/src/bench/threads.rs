//! Both parties in one process, on two threads that each stay on one core.

use std::thread::{self, ScopedJoinHandle};

use vesica::Identity;
use vesica_session::Listener;

use super::party::{Place, meet, one_run};
use super::talk::{Done, Part, Setup};
use crate::failure::{Failure, RESOURCE};

/// A party and its identity.
struct Party {
    setup: Setup,
    identity: Identity,
}

impl Party {
    fn run(&self, core: usize, place: Place) -> Result<Done, Failure> {
        pin(core)?;
        let connection = meet(&self.setup, &self.identity, place)?;
        let done = one_run(&self.setup, connection)?;
        Ok(Done {
            // The process has one peak for both.
            peak_memory_bytes: None,
            ..done
        })
    }
}

/// The two parties, each with the other's fingerprint.
pub(super) struct Pair {
    receiver: Party,
    sender: Party,
}

impl Pair {
    /// `setup` makes a party's setup from its part and the other's fingerprint.
    pub(super) fn new(setup: impl Fn(Part, String) -> Setup) -> Result<Self, Failure> {
        let (receiver, sender) = (Identity::generate()?, Identity::generate()?);
        let for_receiver = setup(Part::Receiver, sender.fingerprint().to_string());
        let for_sender = setup(Part::Sender, receiver.fingerprint().to_string());
        Ok(Pair {
            receiver: Party {
                setup: for_receiver,
                identity: receiver,
            },
            sender: Party {
                setup: for_sender,
                identity: sender,
            },
        })
    }

    /// One run over loopback, the sender listening; the receiver's view comes first.
    pub(super) fn one_run(&self) -> Result<(Done, Done), Failure> {
        let listener = Listener::bind("127.0.0.1:0")?;
        let address = listener.local_addr().to_string();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receiver.run(0, Place::Connect(address)));
            let sender = scope.spawn(|| self.sender.run(1, Place::Listen(listener)));
            Ok((ended(receiver)?, ended(sender)?))
        })
    }
}

fn ended(party: ScopedJoinHandle<'_, Result<Done, Failure>>) -> Result<Done, Failure> {
    party
        .join()
        .unwrap_or_else(|_| Err(Failure::new(RESOURCE, "a party of the benchmark panicked")))
}

/// Keeps the calling thread, and those that it starts, on one core.
#[cfg(target_os = "linux")]
fn pin(core: usize) -> Result<(), Failure> {
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;

    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|e| {
            Failure::new(
                RESOURCE,
                format!("no thread can be pinned to core {core}: {e}"),
            )
        })
}

#[cfg(not(target_os = "linux"))]
fn pin(_core: usize) -> Result<(), Failure> {
    Err(Failure::usage(
        "threads can be pinned on Linux alone; --parties processes works everywhere",
    ))
}
