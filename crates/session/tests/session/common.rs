//! Two parties on one machine.

use std::thread;
use std::time::Duration;

use vesica_plan::Registry;
use vesica_plan::buckets::split;
use vesica_psi::Task;
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Error, Fingerprint, Identity, Intent, Interrupt, Job,
    Listener, Role, Transport, connect,
};
use vesica_wire::{ChannelOptions, Error as WireError, FramedChannel, Limit, memory_pair_with};

/// The limit that a run has met.
///
/// Panics if it ended otherwise.
#[track_caller]
pub(crate) fn limit<T>(result: Result<T, Error>) -> Limit {
    match result {
        Err(Error::Run(WireError::Resource { limit, .. })) => limit,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("no limit"),
    }
}

pub(crate) fn identity() -> Identity {
    Identity::generate().unwrap()
}

/// What goes with itself.
pub(crate) const INTENT: Intent = Intent::Generate;

pub(crate) fn tls(identity: &Identity, peer: Fingerprint) -> Transport<'_> {
    tls_for(INTENT, identity, peer)
}

pub(crate) fn tls_for(intent: Intent, identity: &Identity, peer: Fingerprint) -> Transport<'_> {
    Transport::Tls {
        identity,
        peer,
        intent,
    }
}

/// So long until the peer comes, and as long for its silence.
pub(crate) fn within(seconds: f32) -> ConnectOptions {
    ConnectOptions {
        wait: Duration::from_secs_f32(seconds),
        timeout: Duration::from_secs_f32(seconds),
        ..ConnectOptions::default()
    }
}

pub(crate) fn within_or_raised(seconds: f32, interrupt: &Interrupt) -> ConnectOptions {
    ConnectOptions {
        interrupt: interrupt.clone(),
        ..within(seconds)
    }
}

/// What the listener and the connector get over loopback.
pub(crate) fn meet(
    listens: &Transport<'_>,
    connects: &Transport<'_>,
    options: &ConnectOptions,
) -> (Result<Connection, Error>, Result<Connection, Error>) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(listens, options));
        let connected = connect(&address, connects, options);
        (accepting.join().unwrap(), connected)
    })
}

/// A connected pair with fresh identities: listener, connector.
pub(crate) fn connected(options: &ConnectOptions) -> (Connection, Connection) {
    let (a, b) = (identity(), identity());
    let (listener, connector) = meet(
        &tls(&a, b.fingerprint()),
        &tls(&b, a.fingerprint()),
        options,
    );
    (listener.unwrap(), connector.unwrap())
}

/// The most memory with which a run of `circuit-okvs` over these sets takes so many buckets or more.
pub(crate) fn memory_of_buckets(task: &Task, sizes: [u64; 2], buckets: u32) -> u64 {
    let protocol = Registry::standard().get("circuit-okvs").unwrap();
    let bytes = |sizes, lambda| protocol.working_bytes(task, sizes, None, lambda);
    let limits = (0..1000).map(|step| bytes(sizes, 40) - 1000 * step);
    let mut several = limits.filter(|memory| {
        let split = split(sizes, 40, *memory, protocol.spec().max_items, bytes);
        split.is_some_and(|split| split.buckets >= buckets)
    });
    several.next().expect("some memory makes so many buckets")
}

pub(crate) fn job(role: Role) -> Job {
    Job::new(role, vec!["email/1".into(), "exact/1".into()])
}

/// Two channels on which a peer that waits is silent, or what is swallowed would be waited for.
pub(crate) fn silent_pair(timeout_ms: u64) -> (FramedChannel, FramedChannel) {
    let options = ChannelOptions {
        timeout: Duration::from_millis(timeout_ms),
        heartbeat: Duration::from_secs(3600),
        ..ChannelOptions::default()
    };
    memory_pair_with(options.clone(), options)
}
