//! How long a receiver's task stays connected after it has last heard something.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use vesica::{
    ConnectOptions, Endpoint, Identity, KeySpec, NoProgress, Party, ProtocolRequest, Role, Rows,
    TaskEndpoint, Tasks,
};
use vesica_session::terms::SECURITY;
use vesica_session::{Attempt, BoundListener, Listener};

use super::runs::tables;
use crate::tap::{Side, Tap};
use crate::trial::{Dice, Variant};

/// The only bucket of a job.
const FIRST: Attempt = Attempt {
    bucket: 0,
    number: 0,
};

/// Both sides split a job of so many keys, and each runs a task: how long the receiver's stayed after the sender's had last
/// sent something.
pub(super) fn run(variant: Variant, keys: u64, common: u64, dice: &mut Dice) -> Duration {
    let ids = [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
    let [receiver, sender] = &ids;
    let [ours, theirs] = &tables([keys; 2], common, 1, Rows::Matching, dice);
    let place = tempfile::tempdir().expect("a directory");
    let key = &KeySpec::parse("key", &[] as &[&str]).expect("a column");
    let tasks = Tasks {
        memory: 1 << 30,
        attempts: 1,
        valid_for: Duration::from_secs(3600),
    };
    let bound = || BoundListener::new(Listener::bind("127.0.0.1:0").expect("a port"));
    let (drivers, meeting) = (bound(), bound());
    let drivers_at = Endpoint::Connect(drivers.local_addr().to_string());
    let tap = &Tap::before(&meeting.local_addr().to_string());
    let through = Endpoint::Connect(tap.address());
    thread::scope(|scope| {
        for (role, ids, table, driver, task) in [
            (
                Role::Receiver,
                [receiver, sender],
                ours,
                drivers_at,
                through,
            ),
            (
                Role::Sender,
                [sender, receiver],
                theirs,
                Endpoint::Bound(drivers),
                Endpoint::Bound(meeting),
            ),
        ] {
            let place = &place;
            scope.spawn(move || {
                let [identity, peer] = ids;
                let party = Party {
                    protocol: ProtocolRequest::named(variant.protocol),
                    ..Party::new(identity, peer.fingerprint(), driver)
                        .with(&SECURITY, variant.security)
                };
                let directory = place.path().join(role.to_string());
                let job = party.split(role, || Ok(table), key, &directory, tasks, &mut NoProgress);
                let job = job.expect("a job");
                assert_eq!(job.contract().buckets, 1);
                let (options, threads) = (ConnectOptions::default(), NonZeroUsize::new(1));
                let task = TaskEndpoint::Peer(task);
                let done = job.run(FIRST, &task, &options, threads, &mut NoProgress);
                done.expect("a task");
            });
        }
    });
    assert!(tap.await_end(Side::Client, Duration::from_secs(10)));
    tap.kept(Side::Client)
}
