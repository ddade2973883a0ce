//! Where in an attempt a peer may know that it is about to be caught, and can leave before: over the registry.

use std::thread;
use std::time::Duration;

use vesica_session::terms::{BUCKET_ATTEMPTS, REVEAL, SECURITY};
use vesica_session::{
    Agreement, Attempt, Checkpoint, Job, ProtocolRequest, Registry, Reveal, Role, Security, agree,
    run_bucket,
};
use vesica_testing::{Recorder, digests, pair_within};
use vesica_wire::FramedChannel;

use crate::common::job;

const KEYS: u64 = 60;

/// What passes while something is at stake for a side, in every run that is to withstand a peer that cheats: first what shows
/// the peer whether it will be caught, and last what catches it. A guess at a secret that is checked when it comes shows nothing
/// before it is caught; here the one who guesses is answered first.
#[rustfmt::skip]
const AT_STAKE: &[(&str, Security, Role, &[&str])] = &[
    // Both set up and ask once, and what they send is checked by itself: there is no secret of the other's to guess.
    ("compact-dh", Security::Malicious, Role::Receiver, &[]),
    ("compact-dh", Security::Malicious, Role::Sender, &[]),
    ("oprf-dh", Security::Malicious, Role::Receiver, &[]),
    ("oprf-dh", Security::Malicious, Role::Sender, &[]),
    // The extension's check is sent along with what it checks. In that of the trees the sender answers a combination with
    // the value that an honest receiver knows, and the receiver then opens what it has committed to.
    ("vole", Security::Malicious, Role::Receiver, &[]),
    ("vole", Security::Malicious, Role::Sender, &["VOLE check", "VOLE opening"]),
    // The receiver's bits of the extension are checked as they come.
    ("spot-low", Security::MaliciousSender, Role::Receiver, &[]),
    ("spot-low", Security::MaliciousSender, Role::Sender, &[]),
];

fn of_tasks(role: Role, name: &str, security: Security, reveal: Reveal) -> Job {
    let named = Job {
        protocol: ProtocolRequest::named(name),
        ..job(role)
    };
    let job = named.with(&SECURITY, security);
    job.with(&REVEAL, reveal.into()).with(&BUCKET_ATTEMPTS, 2)
}

/// What passes in an attempt while something is at stake for the receiver, and for the sender.
fn at_stake(name: &str, security: Security, reveal: Reveal) -> [Vec<&'static str>; 2] {
    let pair = || pair_within(Duration::from_secs(20));
    let both = |run: &(dyn Fn(Role, FramedChannel) -> Vec<&'static str> + Sync)| {
        let (a, b) = pair();
        thread::scope(|scope| {
            let far = scope.spawn(|| run(Role::Sender, b));
            [run(Role::Receiver, a), far.join().unwrap()]
        })
    };
    both(&|role, mut channel| {
        let job = of_tasks(role, name, security, reveal);
        let agreed = agree(&mut channel, &job, KEYS, &Checkpoint::Nothing, None, None);
        let agreement: Agreement = agreed.unwrap();
        let mut channel = Recorder::new(channel);
        let (attempt, keys) = (
            Attempt {
                bucket: 0,
                number: 0,
            },
            digests(0..KEYS),
        );
        let run = run_bucket(
            &mut channel,
            role,
            &agreement,
            attempt,
            [None; 2],
            keys[..].into(),
        );
        run.unwrap();
        channel.at_stake
    })
}

#[test]
fn a_peer_knows_before_it_is_caught_where_it_is_said() {
    let mut seen = Vec::new();
    for protocol in Registry::standard().all() {
        // Tasks take no stored correlations.
        if protocol.offline().is_some() {
            continue;
        }
        let name = protocol.spec().name;
        for security in [Security::MaliciousSender, Security::Malicious] {
            for reveal in [Reveal::Matches, Reveal::Size] {
                let job = of_tasks(Role::Receiver, name, security, reveal);
                let is_there = protocol.can_reveal(reveal.into())
                    && job.check().is_ok()
                    && [Some(protocol.spec().security), protocol.spec().cheaper]
                        .contains(&Some(security));
                if !is_there {
                    continue;
                }
                let found = at_stake(name, security, reveal);
                for (role, found) in [Role::Receiver, Role::Sender].into_iter().zip(found) {
                    let said = AT_STAKE
                        .iter()
                        .find(|row| (row.0, row.1, row.2) == (name, security, role));
                    let (_, _, _, said) = said.unwrap_or_else(|| {
                        panic!("say where {name}, {security:?}, is at stake for the {role}")
                    });
                    assert_eq!(&found, said, "{name}, {security:?}, {role}");
                    seen.push((name, security, role));
                }
            }
        }
    }
    assert!(
        AT_STAKE
            .iter()
            .all(|row| seen.contains(&(row.0, row.1, row.2))),
        "{seen:?}"
    );
}
