//! Both parties in one process, on two threads that each stay on one core; a dealer is a third thread.

use std::thread::{self, ScopedJoinHandle};

use vesica::Identity;
use vesica_session::Listener;

use super::party::{Party, Place};
use super::talk::{Dealing, Done, Part, Ran, Setup};
use crate::failure::{Failure, RESOURCE};

impl Party {
    fn run_on(&self, core: Core, place: Place, dealer: Option<String>) -> Result<Done, Failure> {
        pin(core)?;
        Ok(Done {
            // The process has one peak for all.
            peak_memory_bytes: None,
            ..self.run(place, dealer)?
        })
    }
}

/// The two parties, each with the other's fingerprint, and the dealer if there is one.
pub(super) struct Pair {
    receiver: Party,
    sender: Party,
    dealer: Option<(Dealing, Identity)>,
    cores: [Core; 2],
}

impl Pair {
    /// `setup` makes a party's setup from its part and the other's fingerprint, and the dealer's; `dealing` what a
    /// dealer needs to know from both parties' fingerprints.
    pub(super) fn new(
        setup: impl Fn(Part, String, Option<String>) -> Setup,
        dealing: Option<impl Fn([String; 2]) -> Dealing>,
    ) -> Result<Self, Failure> {
        let (receiver, sender) = (Identity::generate()?, Identity::generate()?);
        let [ours, theirs] = [&receiver, &sender].map(|party| party.fingerprint().to_string());
        let dealer = match dealing {
            Some(dealing) => {
                let parties = [ours.clone(), theirs.clone()];
                Some((dealing(parties), Identity::generate()?))
            }
            None => None,
        };
        let dealt_by = dealer
            .as_ref()
            .map(|(_, dealer)| dealer.fingerprint().to_string());
        Ok(Pair {
            cores: two_cores()?,
            receiver: Party::new(setup(Part::Receiver, theirs, dealt_by.clone()), receiver)?,
            sender: Party::new(setup(Part::Sender, ours, dealt_by), sender)?,
            dealer,
        })
    }

    /// One run over loopback, the sender listening.
    pub(super) fn one_run(&self) -> Result<Ran, Failure> {
        let listener = Listener::bind("127.0.0.1:0")?;
        let address = listener.local_addr().to_string();
        thread::scope(|scope| {
            let (dealing, dealer) = match &self.dealer {
                Some((dealing, identity)) => {
                    let listener = Listener::bind("127.0.0.1:0")?;
                    let address = listener.local_addr().to_string();
                    let dealing = scope.spawn(move || dealing.run(identity, listener));
                    (Some(dealing), Some(address))
                }
                None => (None, None),
            };
            let for_receiver = (Place::Connect(address), dealer.clone());
            let [first, second] = self.cores;
            let (place, dealt) = for_receiver;
            let receiver = scope.spawn(move || self.receiver.run_on(first, place, dealt));
            let place = Place::Listen(listener);
            let sender = scope.spawn(move || self.sender.run_on(second, place, dealer));
            let ran = Ran {
                receiver: ended(receiver)?,
                sender: ended(sender)?,
                dealer_memory_bytes: None,
            };
            dealing.map(ended).transpose()?;
            Ok(ran)
        })
    }
}

fn ended<T>(party: ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    party
        .join()
        .unwrap_or_else(|_| Err(Failure::new(RESOURCE, "a party of the benchmark panicked")))
}

/// A core of this machine.
type Core = usize;

/// Two cores that this process may use. Found before any party starts: one that cannot run leaves the other waiting.
#[cfg(target_os = "linux")]
fn two_cores() -> Result<[Core; 2], Failure> {
    use nix::sched::{CpuSet, sched_getaffinity};
    use nix::unistd::Pid;

    let allowed = sched_getaffinity(Pid::from_raw(0))
        .map_err(|e| Failure::new(RESOURCE, format!("the cores of this process: {e}")))?;
    let is_allowed = |core: &Core| allowed.is_set(*core).unwrap_or(false);
    let mut cores = (0..CpuSet::count()).filter(is_allowed);
    cores
        .next()
        .zip(cores.next())
        .map(<[Core; 2]>::from)
        .ok_or_else(|| {
            let one = "--parties threads needs two cores, and this process may use one";
            Failure::new(RESOURCE, one).hint("take --parties processes")
        })
}

#[cfg(not(target_os = "linux"))]
fn two_cores() -> Result<[Core; 2], Failure> {
    Err(Failure::usage(
        "threads can be pinned on Linux alone; --parties processes works everywhere",
    ))
}

/// Keeps the calling thread, and those that it starts, on one core.
#[cfg(target_os = "linux")]
fn pin(core: Core) -> Result<(), Failure> {
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
fn pin(_: Core) -> Result<(), Failure> {
    Ok(())
}
