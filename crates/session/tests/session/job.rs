//! Whole jobs.

use std::collections::HashSet;
use std::thread;

use crate::common::{connected, identity, job, silent_pair, tls, within, within_or_raised};
use vesica_psi::Reveal;
use vesica_session::terms::SECURITY;
use vesica_session::{
    Endpoint, Error, ErrorClass, Interrupt, Job, Listener, NoProgress, Outcome, Progress,
    ProtocolRequest, Registry, Role, Security, connect, run, run_over,
};
use vesica_testing::{digests, run_both};
use vesica_wire::{Channel, Error as WireError, Spoil, Tamper};

/// The strongest adversary that a protocol withstands.
fn security(protocol: &str) -> Security {
    let protocol = Registry::standard().get(protocol).unwrap();
    protocol.spec().security
}

fn named(role: Role, protocol: &'static str) -> Job {
    Job {
        protocol: ProtocolRequest::named(protocol),
        ..job(role)
    }
    .with(&SECURITY, security(protocol))
}

/// What the receiver should find: indices of its digests that the sender has.
fn expected(receiver: &[[u8; 32]], sender: &[[u8; 32]]) -> Vec<u32> {
    let sender: HashSet<_> = sender.iter().collect();
    (0u32..)
        .zip(receiver)
        .filter(|(_, digest)| sender.contains(digest))
        .map(|(i, _)| i)
        .collect()
}

#[derive(Default)]
struct Recorded {
    phases: Vec<&'static str>,
    bytes: (u64, u64),
}

impl Progress for Recorded {
    fn phase(&mut self, name: &'static str) {
        self.phases.push(name);
    }

    fn bytes(&mut self, sent: u64, received: u64) {
        assert!(sent >= self.bytes.0 && received >= self.bytes.1);
        self.bytes = (sent, received);
    }
}

#[test]
fn a_job_over_tls_finds_the_intersection() {
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        if protocol
            .offline()
            .is_some_and(|offline| offline.origin().is_dealt())
        {
            continue;
        }
        let protocol = protocol.spec().name;
        let (ours, theirs) = (digests(0..200), digests((100..350).rev()));
        let (a, b) = connected(&within(60.0));
        let (local, peer) = (a.local, a.peer);
        let mut heard = Recorded::default();
        let (received, sent): (Outcome, Outcome) = thread::scope(|scope| {
            let sending =
                scope.spawn(|| run(b, &named(Role::Sender, protocol), &theirs, &mut NoProgress));
            let received = run(a, &named(Role::Receiver, protocol), &ours, &mut heard);
            (received.unwrap(), sending.join().unwrap().unwrap())
        });
        let matches = received.matches.unwrap();
        assert_eq!(matches, expected(&ours, &theirs), "{protocol}");
        assert_eq!(sent.matches, None);
        let (near, far) = (received.report, sent.report);
        assert_eq!((near.matches, far.matches), (Some(100), None));
        assert_eq!((near.items, near.peer_items), (200, 250));
        assert_eq!((far.items, far.peer_items), (250, 200));
        assert_eq!((near.peer, far.peer), (peer, local));
        assert_eq!(near.contract, far.contract);
        assert_eq!(
            (near.protocol.clone(), near.security),
            (protocol.to_owned(), security(protocol))
        );
        assert_eq!(near.bytes_sent, far.bytes_received);
        assert_eq!(near.bytes_received, far.bytes_sent);
        assert_eq!(heard.bytes, (near.bytes_sent, near.bytes_received));
        assert_eq!(heard.phases.first(), Some(&"contract"));
        assert_eq!(heard.phases.last(), Some(&"done"));
        assert!(near.seconds > 0.0);
        let json = serde_json::to_value(&near).unwrap();
        for key in [
            "protocol",
            "security",
            "reveal",
            "rows",
            "items",
            "duplicates",
            "peer_items",
            "matches",
            "bytes_sent",
            "bytes_received",
            "seconds",
            "phases",
            "peer",
            "contract",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!(json["protocol"], protocol);
        assert_eq!(json["reveal"], "matches");
        assert_eq!(json["contract"]["normalization"][0], "email/1");
    }
}

fn both(
    receiver: impl Channel,
    sender: impl Channel,
    protocol: &'static str,
    ours: &[[u8; 32]],
    theirs: &[[u8; 32]],
) -> (Result<Outcome, Error>, Result<Outcome, Error>) {
    let [near, far] = [Role::Receiver, Role::Sender].map(|role| named(role, protocol));
    run_both(
        (receiver, sender),
        |channel| run_over(channel, None, None, &near, ours, &mut NoProgress),
        |channel| run_over(channel, None, None, &far, theirs, &mut NoProgress),
    )
}

#[test]
fn small_and_odd_sets() {
    let sets = [
        (digests([]), digests([])),
        (digests([]), digests(0..5)),
        (digests(0..5), digests([])),
        (digests([1]), digests([1])),
        (digests([1]), digests([2])),
        (digests(0..9), digests(0..9)),
        (digests(0..3), digests(0..100)),
    ];
    for (ours, theirs) in sets {
        let (a, b) = silent_pair(30_000);
        let (near, far) = both(a, b, "compact-dh", &ours, &theirs);
        assert_eq!(near.unwrap().matches.unwrap(), expected(&ours, &theirs));
        far.unwrap();
    }
}

#[test]
fn a_peer_that_dies_at_any_frame_ends_the_run_with_exit_4() {
    let (ours, theirs) = (digests(0..20), digests(10..30));
    for protocol in ["compact-dh", "dh"] {
        for role in [Role::Receiver, Role::Sender] {
            let mut deaths = 0;
            for frame in 0.. {
                let (a, b) = silent_pair(10_000);
                let (near, far, frames) = match role {
                    Role::Receiver => {
                        let mut a = Tamper::new(a, frame, Spoil::Close);
                        let (near, far) = both(&mut a, b, protocol, &ours, &theirs);
                        (near, far, a.frames())
                    }
                    Role::Sender => {
                        let mut b = Tamper::new(b, frame, Spoil::Close);
                        let (near, far) = both(a, &mut b, protocol, &ours, &theirs);
                        (far, near, b.frames())
                    }
                };
                if frames <= frame {
                    near.unwrap();
                    far.unwrap();
                    break;
                }
                deaths += 1;
                assert_eq!(near.unwrap_err().class(), ErrorClass::Network);
                assert_eq!(
                    far.unwrap_err().class(),
                    ErrorClass::Network,
                    "{role} {frame}"
                );
            }
            // Its hello, commitment and nonce, and at least one message of the protocol.
            assert!(deaths >= 4, "{deaths}");
        }
    }
}

#[test]
fn a_receiver_that_stalls_before_it_is_done_ends_the_sender() {
    let (ours, theirs) = (digests(0..5), digests(0..5));
    let (a, b) = silent_pair(1500);
    let mut counting = Tamper::new(a, usize::MAX, Spoil::Swallow);
    let (near, far) = both(&mut counting, b, "compact-dh", &ours, &theirs);
    assert!(near.is_ok() && far.is_ok());
    let last = counting.frames() - 1;
    let (a, b) = silent_pair(1500);
    let silent = Tamper::new(a, last, Spoil::Swallow);
    let (near, far) = both(silent, b, "compact-dh", &ours, &theirs);
    assert!(near.is_ok());
    assert_eq!(far.unwrap_err().class(), ErrorClass::Network);
}

#[test]
fn an_interrupt_ends_a_job_on_both_sides() {
    let (a, b) = (identity(), identity());
    let interrupt = Interrupt::new();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    thread::scope(|scope| {
        let ours = scope.spawn(|| {
            let options = within_or_raised(30.0, &interrupt);
            let connection = listener
                .accept(&tls(&a, b.fingerprint()), &options)
                .unwrap();
            interrupt.raise();
            run(
                connection,
                &job(Role::Receiver),
                &digests(0..5),
                &mut NoProgress,
            )
            .unwrap_err()
        });
        let connection = connect(&address, &tls(&b, a.fingerprint()), &within(30.0)).unwrap();
        let theirs = run(
            connection,
            &job(Role::Sender),
            &digests(0..5),
            &mut NoProgress,
        )
        .unwrap_err();
        let ours = ours.join().unwrap();
        assert!(
            matches!(ours, Error::Run(WireError::Interrupted)),
            "{ours:?}"
        );
        assert!(
            matches!(theirs, Error::Run(WireError::PeerAborted { .. })),
            "{theirs:?}"
        );
        assert_eq!(
            (ours.class(), theirs.class()),
            (ErrorClass::Interrupted, ErrorClass::Network)
        );
    });
}

#[test]
fn a_weak_protocol_needs_to_be_asked_for() {
    let (a, _b) = silent_pair(1000);
    let mut a = a;
    let job = Job {
        protocol: ProtocolRequest::named("dh"),
        ..job(Role::Receiver)
    }
    .with(&SECURITY, Security::Malicious);
    let error = run_over(&mut a, None, None, &job, &digests(0..5), &mut NoProgress).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
}

#[test]
fn repeated_items_are_refused_before_anything_is_sent() {
    let (mut a, _b) = silent_pair(1000);
    let twice = digests([1, 2, 1]);
    let error = run_over(
        &mut a,
        None,
        None,
        &job(Role::Sender),
        &twice,
        &mut NoProgress,
    )
    .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
    assert_eq!(a.totals(), (0, 0));
}
