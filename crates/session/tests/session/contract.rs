//! Agreeing: every field that may differ, every message spoilt, every way to go away.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{connected, job, limit, silent_pair, within};
use proptest::prelude::*;
use vesica_plan::Open;
use vesica_plan::buckets::{MAX_BUCKET_ITEMS, MAX_BUCKETS, MAX_ITEMS, split};
use vesica_psi::{Protocol, Spec, Task};
use vesica_session::terms::{
    AUTO, KEY_BITS, LAMBDA, LEARNS, MIN_SIZE, NORMALIZATION, OPTIMIZE, POST_QUANTUM, REVEAL,
    SECURITY,
};
use vesica_session::{
    Agreement, Argument, Checkpoint, Contract, Error, ErrorClass, Fingerprint, GroupMinimum,
    GroupTerms, HalfSource, Hello, Job, LabelExchange, LabelTerms, Learns, Link, LocalFacts,
    MAX_HELLO, MAX_OFFERS, NO_LIMIT, Name, Offer, Optimize, OptimizeRequest, PeerLimits, Problem,
    ProtocolRequest, Purpose, Registry, RepeatedKeys, Resume, Reveal, Role, Security, Terms,
    VERSION, ValueTerms, agree, confirm_done,
};
use vesica_testing::{bad_value, misbehaviour, pair_within, run_both, too_long};
use vesica_wire::{Blame, Channel, Error as WireError, Kind, Limit, Misbehaviour, Spoil, Tamper};
use zeroize::Zeroizing;

/// The version of the table by which a protocol is chosen, and the one after it.
const THIS_TABLE: &str = "2";
const NEXT_TABLE: &str = "3";

type Agreed = Result<Agreement, Error>;

fn spec(protocol: &str) -> &'static Spec {
    Registry::standard().get(protocol).unwrap().spec()
}

/// Both sides of an agreement, over any two channels.
fn both(a: impl Channel, b: impl Channel, ours: &Job, theirs: &Job) -> (Agreed, Agreed) {
    run_both(
        (a, b),
        |channel| agree(channel, ours, 10, &Checkpoint::Nothing, None, None),
        |channel| agree(channel, theirs, 20, &Checkpoint::Nothing, None, None),
    )
}

/// As [`both`], and then the confirmation: a side may be done with agreeing before the other notices
/// what is wrong.
fn both_and_done(
    sender: impl Channel,
    receiver: impl Channel,
) -> (Result<(), Error>, Result<(), Error>) {
    fn run(channel: &mut dyn Channel, role: Role) -> Result<(), Error> {
        agree(channel, &job(role), 10, &Checkpoint::Nothing, None, None)?;
        confirm_done(channel, role)?;
        Ok(())
    }
    run_both(
        (sender, receiver),
        |channel| run(channel, Role::Sender),
        |channel| run(channel, Role::Receiver),
    )
}

fn compare(ours: &Job, theirs: &Job) -> (Agreed, Agreed) {
    let (a, b) = silent_pair(5000);
    both(a, b, ours, theirs)
}

#[test]
fn equal_contracts_give_equal_sessions() {
    let (a, b) = compare(&job(Role::Receiver), &job(Role::Sender));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a.contract, b.contract);
    assert_eq!(a.params, b.params);
    assert_eq!((a.peer_items, b.peer_items), (20, 10));
    assert_eq!((a.params.receiver_size, a.params.sender_size), (10, 20));
    assert_eq!(a.contract.protocol, "compact-dh");
    assert_eq!(a.contract.key_columns, 2);
    assert_eq!(a.contract.hash.len(), 64);
    // The same contract again has the same hash and another session.
    let (again, _) = compare(&job(Role::Receiver), &job(Role::Sender));
    let again = again.unwrap();
    assert_eq!(again.contract.hash, a.contract.hash);
    assert_ne!(again.params.session, a.params.session);
}

/// The side with the slower link need not ask the other one.
#[test]
fn either_side_can_have_traffic_saved() {
    let agreed = |ours, theirs| {
        let favours = |role, optimize| job(role).with(&OPTIMIZE, optimize);
        let (a, b) = compare(
            &favours(Role::Receiver, ours),
            &favours(Role::Sender, theirs),
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.contract, b.contract);
        assert_eq!(
            [a.task.optimize, b.task.optimize],
            [a.contract.get(&OPTIMIZE).choice(); 2]
        );
        (a.contract.get(&OPTIMIZE), a.contract.hash)
    };
    let (time, traffic) = (OptimizeRequest::Time, OptimizeRequest::Traffic);
    let (none, hash) = agreed(time, time);
    assert_eq!(none, time);
    for (ours, theirs) in [(time, traffic), (traffic, time), (traffic, traffic)] {
        let (optimize, other) = agreed(ours, theirs);
        assert_eq!(optimize, traffic);
        assert_ne!(other, hash);
    }
    // What a peer has left open is not a choice.
    assert_eq!(agreed(OptimizeRequest::Auto, time), (time, hash.clone()));
    assert_eq!(agreed(OptimizeRequest::Auto, traffic).0, traffic);
}

/// Each side decides by its own link, and a side that asks for nothing goes along.
#[test]
fn what_is_left_open_is_decided_before_the_hello() {
    let open = |role| job(role).with(&OPTIMIZE, OptimizeRequest::Auto);
    let [slow, fast] = [1_000_000, 1_000_000_000].map(|rate| Link::new(Some(rate), Duration::ZERO));
    let (receiver, sender) = (Role::Receiver, Role::Sender);
    for (ours, theirs, expected) in [
        (
            open(receiver).over(fast),
            open(sender).over(fast),
            Optimize::Time,
        ),
        (
            open(receiver).over(fast),
            open(sender).over(slow),
            Optimize::Traffic,
        ),
        (
            open(receiver).over(slow),
            open(sender).over(fast),
            Optimize::Traffic,
        ),
        (open(receiver).over(slow), job(sender), Optimize::Traffic),
        (
            job(receiver).over(slow),
            job(sender).over(slow),
            Optimize::Time,
        ),
    ] {
        let (a, b) = compare(&ours, &theirs);
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!([a.task.optimize, b.task.optimize], [expected; 2]);
        assert_eq!(a.contract, b.contract);
        assert_eq!(a.contract.get(&OPTIMIZE), expected.into());
    }
}

#[test]
fn both_sides_agree_on_the_fingerprints() {
    let name = |n: u8| Some(Fingerprint::of_public_key(&[n]));
    let run = |peer_as_seen_by_a: u8| {
        let (mut a, mut b) = silent_pair(5000);
        thread::scope(|scope| {
            let near = scope.spawn(move || {
                agree(
                    &mut a,
                    &job(Role::Receiver),
                    1,
                    &Checkpoint::Nothing,
                    name(1),
                    name(peer_as_seen_by_a),
                )
            });
            let far = agree(
                &mut b,
                &job(Role::Sender),
                1,
                &Checkpoint::Nothing,
                name(2),
                name(1),
            );
            let session = |agreed: Agreement| agreed.params.session;
            [near.join().unwrap(), far].map(|agreed| agreed.map(session))
        })
    };
    let [ours, theirs] = run(2).map(Result::unwrap);
    assert_eq!(ours, theirs);
    for error in run(3).map(Result::unwrap_err) {
        let Error::Run(WireError::ContractDiffers { field, .. }) = error else {
            panic!("{error}");
        };
        assert_eq!(field, "contract hash");
    }
}

#[test]
fn each_difference_ends_both_sides_with_both_values() {
    let named = |name: &str| ProtocolRequest::named(name);
    type Change = Box<dyn Fn(&mut Job)>;
    let cases: Vec<(&str, &str, &str, Change, Change)> = vec![
        (
            "security",
            "malicious",
            "semi-honest",
            Box::new(|_| {}),
            Box::new(|j| j.terms.set(&SECURITY, Security::SemiHonest)),
        ),
        (
            "security",
            "malicious",
            "semi-honest",
            Box::new(|_| {}),
            Box::new(move |j| {
                j.terms.set(&SECURITY, Security::SemiHonest);
                j.protocol = named("dh");
            }),
        ),
        (
            "protocol",
            "compact-dh",
            "dh",
            Box::new(move |j| {
                j.terms.set(&SECURITY, Security::SemiHonest);
                j.protocol = named("compact-dh");
            }),
            Box::new(move |j| {
                j.terms.set(&SECURITY, Security::SemiHonest);
                j.protocol = named("dh");
            }),
        ),
        (
            "lambda",
            "40",
            "64",
            Box::new(|_| {}),
            Box::new(|j| j.terms.set(&LAMBDA, 64)),
        ),
        (
            "post-quantum",
            "no",
            "yes",
            Box::new(|_| {}),
            Box::new(|j| j.terms.set(&POST_QUANTUM, true)),
        ),
        (
            "who learns",
            "receiver",
            "both",
            Box::new(|_| {}),
            Box::new(|j| j.terms.set(&LEARNS, Learns::Both)),
        ),
        (
            "who learns",
            "both",
            "both, in one order",
            Box::new(|j| j.terms.set(&LEARNS, Learns::Both)),
            Box::new(|j| j.terms.set(&LEARNS, Learns::Aligned)),
        ),
        (
            "number of key columns",
            "2",
            "1",
            Box::new(|_| {}),
            Box::new(|j| {
                rename(j, |names| drop(names.pop()));
            }),
        ),
        (
            "bits of a key",
            "any",
            "32",
            Box::new(|_| {}),
            Box::new(|j| j.terms.set(&KEY_BITS, Some(32))),
        ),
        // A peer with the next table, even where no protocol is left open.
        (
            "version of auto",
            THIS_TABLE,
            NEXT_TABLE,
            Box::new(|_| {}),
            Box::new(|j| j.terms.set(&AUTO, j.get(&AUTO) + 1)),
        ),
        (
            "version of auto",
            NEXT_TABLE,
            THIS_TABLE,
            Box::new(move |j| {
                j.terms.set(&AUTO, j.get(&AUTO) + 1);
                j.protocol = named("vole");
            }),
            Box::new(move |j| j.protocol = named("vole")),
        ),
        (
            "normalization",
            "email/1,exact/1",
            "email/1,phone:CH/1",
            Box::new(|_| {}),
            Box::new(|j| rename(j, |names| names[1] = "phone:CH/1".into())),
        ),
        (
            "columns handed over",
            "none",
            "city,name in 64 bytes",
            Box::new(|_| {}),
            Box::new(|j| j.labels = offered(64)),
        ),
        (
            "columns handed over",
            "wanted, up to 64 bytes a row",
            "none",
            Box::new(|j| {
                j.labels = LabelExchange::Wanted {
                    most_bytes: 64,
                    most_rows: 1,
                }
            }),
            Box::new(|_| {}),
        ),
        (
            "columns handed over",
            "wanted, up to 64 bytes a row",
            "city,name in 65 bytes",
            Box::new(|j| {
                j.labels = LabelExchange::Wanted {
                    most_bytes: 64,
                    most_rows: 1,
                }
            }),
            Box::new(|j| j.labels = offered(65)),
        ),
        (
            "value bound",
            "up to 1000 units of 10^-2",
            "at most 999 units",
            Box::new(|j| sum_of(j, Some((1000, 2)), None)),
            Box::new(|j| sum_of(j, None, Some(999))),
        ),
        (
            "value bound",
            "at most 999 units",
            "up to 1000 units of 10^-0",
            Box::new(|j| sum_of(j, None, Some(999))),
            Box::new(|j| sum_of(j, Some((1000, 0)), Some(1))),
        ),
        (
            "normalization",
            "email/1,exact/1",
            "exact/1,email/1",
            Box::new(|_| {}),
            Box::new(|j| rename(j, |names| names.reverse())),
        ),
    ];
    for (field, here, there, change_ours, change_theirs) in cases {
        let (mut ours, mut theirs) = (job(Role::Receiver), job(Role::Sender));
        change_ours(&mut ours);
        change_theirs(&mut theirs);
        let (a, b) = compare(&ours, &theirs);
        for (outcome, left, right) in [(a, here, there), (b, there, here)] {
            let error = outcome.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Contract, "{error}");
            assert!(error.remedy().is_some());
            match error {
                Error::Run(WireError::ContractDiffers {
                    field: f,
                    ours,
                    theirs,
                }) => assert_eq!((f, &*ours, &*theirs), (field, left, right)),
                other => panic!("{field}: {other:?}"),
            }
        }
    }
}

#[test]
fn sides_that_want_what_does_not_go_together_are_told_what_to_do() {
    let sum = |role, values: usize| {
        let mut job = job(role).with(&REVEAL, Reveal::Sum.into());
        job = job.with(&SECURITY, Security::SemiHonest);
        sum_of(&mut job, (values > 0).then_some((1000, 0)), None);
        job
    };
    let receiver = Role::Receiver;
    for (jobs, field, arguments) in [
        ([job(receiver), job(receiver)], "role", &[][..]),
        (
            [sum(receiver, 0), sum(Role::Sender, 0)],
            "values",
            &[Argument::Value][..],
        ),
        (
            [sum(receiver, 1), sum(Role::Sender, 1)],
            "values",
            &[Argument::Value][..],
        ),
    ] {
        let (a, b) = compare(&jobs[0], &jobs[1]);
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert_eq!(error.class(), ErrorClass::Contract, "{error}");
            let remedy = error.remedy().unwrap();
            assert!(remedy.arguments().eq(arguments.iter().copied()), "{remedy}");
            match error {
                Error::Run(WireError::ContractImpossible { field: f, .. }) => assert_eq!(f, field),
                other => panic!("{field}: {other:?}"),
            }
        }
    }
}

#[test]
fn differences_name_the_argument_that_sets_them() {
    let named =
        |name: &'static str| move |job: &mut Job| job.protocol = ProtocolRequest::named(name);
    let semi_honest = |job: &mut Job| job.terms.set(&SECURITY, Security::SemiHonest);
    type Change<'a> = &'a dyn Fn(&mut Job);
    let cases: [(Change<'_>, Change<'_>, &[Argument]); 7] = [
        (
            &named("ole-ot"),
            &named("ole-lattice"),
            &[Argument::Offline],
        ),
        (&named("ole-ot"), &named("kkrt"), &[Argument::Protocol]),
        (
            &|job| job.terms.set(&LEARNS, Learns::Both),
            &|job| job.terms.set(&LEARNS, Learns::Aligned),
            &[Argument::Both, Argument::Align],
        ),
        (
            &|job| job.terms.set(&LAMBDA, 64),
            &|_| {},
            &[Argument::Lambda],
        ),
        (
            &|job| job.terms.set(&REVEAL, Reveal::Size.into()),
            &|_| {},
            &[Argument::Reveal],
        ),
        (
            &|job| job.terms.set(&NORMALIZATION, vec!["email/1".into(); 3]),
            &|_| {},
            &[Argument::Key],
        ),
        (
            &|job| {
                job.labels = LabelExchange::Wanted {
                    most_bytes: 8,
                    most_rows: 1,
                }
            },
            &|_| {},
            &[
                Argument::Payload,
                Argument::TakePayload,
                Argument::PayloadWidth,
                Argument::RowsPerKey,
            ],
        ),
    ];
    for (change_ours, change_theirs, arguments) in cases {
        let [mut ours, mut theirs] = [job(Role::Receiver), job(Role::Sender)];
        for (job, change) in [(&mut ours, change_ours), (&mut theirs, change_theirs)] {
            semi_honest(job);
            change(job);
        }
        let (a, b) = compare(&ours, &theirs);
        for error in [a.unwrap_err(), b.unwrap_err()] {
            let remedy = error.remedy().unwrap();
            assert!(remedy.arguments().eq(arguments.iter().copied()), "{remedy}");
        }
    }
}

/// It says so and leaves while this side is still reading its table.
#[test]
fn a_peer_that_cannot_take_part_is_heard_after_it_has_left() {
    let (mut near, mut far) = silent_pair(5000);
    Problem::Options.tell(&mut far).unwrap();
    drop(far);
    let agreed = agree(
        &mut near,
        &job(Role::Receiver),
        10,
        &Checkpoint::Nothing,
        None,
        None,
    );
    let problem = agreed.unwrap_err();
    assert!(
        matches!(problem, Error::PeerProblem(Problem::Options)),
        "{problem:?}"
    );
}

/// What fuzzing starts from gets beyond the version.
#[test]
fn seeds_of_hellos_are_of_this_version() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
    let files = |target: &str| {
        let files = std::fs::read_dir(format!("{seeds}/{target}")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        files.map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
    };
    for (path, bytes) in files("hello") {
        if let Err(error) = Hello::decode(&bytes, &Terms::default()) {
            let problem = Problem::decode(&bytes);
            assert!(
                matches!(problem, Ok(Some(_))),
                "{path}: {error}; write the seeds anew (make fuzz-seeds)"
            );
        }
    }
    let hellos = |bytes: &[u8]| -> Vec<u16> {
        let found = bytes
            .windows(6)
            .filter(|window| window.starts_with(b"vs1h"));
        found
            .map(|hello| u16::from_le_bytes([hello[4], hello[5]]))
            .collect()
    };
    let mut found = 0;
    for (path, bytes) in files("agree") {
        for version in hellos(&bytes) {
            assert_eq!(
                version, VERSION,
                "{path}: write the seeds anew (make fuzz-seeds)"
            );
            found += 1;
        }
    }
    assert!(found > 0);
}

/// A sum over values up to a number of units of 10^-scale, if this side has them, and with such a limit for the peer's.
fn sum_of(job: &mut Job, values: Option<(u64, u8)>, max_peer_value_bound: Option<u64>) {
    *job = Job {
        values: values
            .into_iter()
            .map(|(bound, scale)| ValueTerms {
                bound,
                scale,
                repeated: RepeatedKeys::Sum,
            })
            .collect(),
        peer_limits: PeerLimits {
            value_bound: max_peer_value_bound,
            ..PeerLimits::default()
        },
        ..job.clone()
    }
    .with(&SECURITY, Security::SemiHonest)
    .with(&REVEAL, Reveal::Sum.into());
}

#[test]
fn values_up_to_the_peers_limit_are_agreed_on() {
    for limit in [Some(1000), None] {
        let (mut ours, mut theirs) = (job(Role::Receiver), job(Role::Sender));
        sum_of(&mut ours, Some((1000, 2)), None);
        sum_of(&mut theirs, None, limit);
        let (a, b) = compare(&ours, &theirs);
        assert_eq!(a.unwrap().contract, b.unwrap().contract);
    }
}

/// Numbers, shares and rows above a threshold.
#[test]
fn what_does_not_fit_into_memory_is_found_in_buckets() {
    let agree_within = |memory, reveal: Reveal| {
        let sides = [Role::Receiver, Role::Sender].map(|role| {
            let mut side = job(role);
            sum_of(&mut side, Some((1, 0)), None);
            side.terms.set(&REVEAL, reveal.into());
            side.values = match (reveal, role) {
                (Reveal::ThresholdMatches, _) => {
                    side.terms.set(&MIN_SIZE, 1);
                    Vec::new()
                }
                (_, Role::Receiver) => side.values.repeat(8),
                (_, Role::Sender) => Vec::new(),
            };
            side.memory = Some(memory);
            side
        });
        let agree = |channel: &mut dyn Channel, job: &Job| {
            agree(channel, job, 1 << 18, &Checkpoint::Nothing, None, None)
        };
        run_both(
            silent_pair(5000),
            |channel| agree(channel, &sides[0]),
            |channel| agree(channel, &sides[1]),
        )
    };
    for (memory, reveal) in [
        (200 << 20, Reveal::Sum),
        (200 << 20, Reveal::Shares),
        (140 << 20, Reveal::ThresholdMatches),
    ] {
        let (near, far) = agree_within(memory, reveal);
        assert_eq!(near.unwrap().contract.buckets, 16, "{reveal}");
        assert_eq!(far.unwrap().contract.buckets, 16, "{reveal}");
    }
}

/// A set that is too large for a bucket is put into several, whatever the memory; where that cannot be, it is refused.
#[test]
fn sets_larger_than_a_bucket_run_in_several() {
    let agree_on = |size, max_peer_items, reveal: Reveal| {
        let jobs = [Role::Receiver, Role::Sender].map(|role| {
            let mut side = job(role).with(&REVEAL, reveal.into());
            side.peer_limits.items = max_peer_items;
            match reveal {
                Reveal::Matches => side,
                _ => side
                    .with(&SECURITY, Security::SemiHonest)
                    .with(&MIN_SIZE, 1),
            }
        });
        agreed_on([&jobs[0], &jobs[1]], [size, 1000])
    };
    for (size, buckets) in [
        (MAX_BUCKET_ITEMS, 1),
        (MAX_BUCKET_ITEMS + 1, 2),
        (MAX_ITEMS, 16),
    ] {
        for contract in agree_on(size, MAX_ITEMS, Reveal::Matches) {
            let contract = contract.unwrap();
            assert_eq!((&*contract.protocol, contract.buckets), ("vole", buckets));
            assert!(contract.receiver_bucket <= MAX_BUCKET_ITEMS);
        }
    }
    let limit_of = |agreed: [Result<Contract, Error>; 2]| match agreed {
        [_, Err(Error::Run(WireError::Resource { limit, .. }))] => limit,
        other => panic!("{other:?}"),
    };
    let not_allowed = agree_on(MAX_BUCKET_ITEMS + 1, MAX_BUCKET_ITEMS, Reveal::Matches);
    assert_eq!(limit_of(not_allowed), Limit::PeerItems);
    let too_large = agree_on(MAX_ITEMS + 1, u64::MAX, Reveal::Matches);
    assert_eq!(limit_of(too_large), Limit::Size);
    let whole = agree_on(MAX_BUCKET_ITEMS + 1, MAX_ITEMS, Reveal::ThresholdMatches);
    assert_eq!(limit_of(whole), Limit::Size);
}

#[test]
fn auto_takes_the_protocol_that_the_other_names() {
    let (mut ours, mut theirs) = (job(Role::Receiver), job(Role::Sender));
    ours.terms.set(&SECURITY, Security::SemiHonest);
    theirs.terms.set(&SECURITY, Security::SemiHonest);
    theirs.protocol = ProtocolRequest::named("dh");
    let (a, b) = compare(&ours, &theirs);
    assert_eq!(a.unwrap().contract.protocol, "dh");
    assert_eq!(b.unwrap().contract.protocol, "dh");
}

/// What both sides agree on with so many items.
fn agreed_on(jobs: [&Job; 2], sizes: [u64; 2]) -> [Result<Contract, Error>; 2] {
    let run = |channel: &mut dyn Channel, side: usize| {
        agree(
            channel,
            jobs[side],
            sizes[side],
            &Checkpoint::Nothing,
            None,
            None,
        )
        .map(|agreement| agreement.contract)
    };
    let (near, far) = run_both(
        silent_pair(5000),
        |channel| run(channel, 0),
        |channel| run(channel, 1),
    );
    [near, far]
}

#[test]
fn auto_is_a_matter_of_the_sizes() {
    let protocol = |receiver: u64, sender: u64| {
        let jobs = [job(Role::Receiver), job(Role::Sender)];
        let [near, far] = agreed_on([&jobs[0], &jobs[1]], [receiver, sender]);
        let near = near.unwrap();
        assert_eq!(near, far.unwrap());
        assert_eq!(near.runs, Security::Malicious);
        near.protocol
    };
    assert_eq!(protocol(0, 0), "compact-dh");
    assert_eq!(protocol(1000, 1000), "compact-dh");
    assert_eq!(protocol(1 << 14, 1 << 14), "vole");
    assert_eq!(protocol(1 << 20, 1), "vole");
    assert_eq!(protocol(1, 1 << 20), "vole");
}

/// The fastest protocol of which a bucket fits into the memory of both sides is taken, and if there is none, the first is
/// blamed.
#[test]
fn auto_is_a_matter_of_the_memory_of_both_sides() {
    let of = |role| {
        job(role)
            .with(&SECURITY, Security::SemiHonest)
            .with(&REVEAL, Reveal::ThresholdMatches.into())
            .with(&MIN_SIZE, 1)
    };
    let mut is_another = false;
    for sizes in [[1 << 10, 1 << 14], [1 << 16, 1 << 8], [1 << 18, 1 << 18]] {
        let task = Task {
            min_size: 1,
            ..Task::new(Reveal::ThresholdMatches)
        };
        let order = Registry::standard().auto(&Open {
            sizes,
            reveal: Reveal::ThresholdMatches.into(),
            security: Security::SemiHonest,
            lambda: 40,
            exact: None,
            post_quantum: false,
            has_labels: false,
        });
        // What the smallest buckets take.
        let least = |protocol: &&'static dyn Protocol| {
            let bytes = |sizes, lambda| protocol.working_bytes(&task, sizes, None, lambda);
            let most = protocol.spec().max_items;
            let suffices = |memory: u64| split(sizes, 40, memory, most, bytes).is_some();
            let (mut below, mut enough) = (0, bytes(sizes, 40));
            while enough - below > 1 {
                let middle = below + (enough - below) / 2;
                match suffices(middle) {
                    true => enough = middle,
                    false => below = middle,
                }
            }
            enough
        };
        let bytes: Vec<u64> = order.iter().map(least).collect();
        let with = |memory: u64| {
            let (ours, mut theirs) = (of(Role::Receiver), of(Role::Sender));
            theirs.memory = Some(memory);
            let [near, far] = agreed_on([&ours, &theirs], sizes);
            assert_eq!(near.is_ok(), far.is_ok());
            near.map(|contract| contract.protocol)
        };
        for memory in &bytes {
            let fits = order.iter().zip(&bytes).find(|(_, bytes)| *bytes <= memory);
            let (first, _) = fits.unwrap();
            assert_eq!(with(*memory).unwrap(), first.spec().name);
            is_another |= first.spec().name != order[0].spec().name;
        }
        let least = bytes.iter().min().unwrap();
        assert!(matches!(
            with(least - 1),
            Err(Error::Run(WireError::Resource { limit: Limit::Memory { enough }, .. })) if enough == Some(bytes[0])
        ));
    }
    assert!(is_another);
}

#[test]
fn a_peer_with_too_many_items_is_refused_and_told() {
    let (mut ours, theirs) = (job(Role::Receiver), job(Role::Sender));
    ours.peer_limits.items = 19;
    let (a, b) = compare(&ours, &theirs);
    let (a, b) = (a.unwrap_err(), b.unwrap_err());
    assert!(
        matches!(
            &a,
            Error::Run(WireError::Resource {
                limit: Limit::PeerItems,
                ..
            })
        ),
        "{a:?}"
    );
    let remedy = a.remedy().unwrap();
    assert!(remedy.arguments().eq([Argument::MaxPeerItems]));
    assert!(
        matches!(
            &b,
            Error::Run(WireError::PeerAborted {
                blame: Blame::Resource,
                ..
            })
        ),
        "{b:?}"
    );
    assert_eq!(
        (a.class(), b.class()),
        (ErrorClass::Resource, ErrorClass::Resource)
    );
    // Nor does a protocol take more than it can work on, whatever this side allows.
    let (mut a, mut b) = silent_pair(5000);
    thread::scope(|scope| {
        scope.spawn(move || {
            let items = spec("compact-dh").max_items + 1;
            let named = Job {
                protocol: ProtocolRequest::named("compact-dh"),
                ..job(Role::Sender)
            };
            let error = agree(&mut a, &named, items, &Checkpoint::Nothing, None, None).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Resource);
        });
        let error = agree(
            &mut b,
            &job(Role::Receiver),
            1,
            &Checkpoint::Nothing,
            None,
            None,
        )
        .unwrap_err();
        assert_eq!(error.class(), ErrorClass::Resource);
    });
    // Padding that would let the peer bring more in buckets.
    let mut ours = Job {
        peer_limits: PeerLimits {
            items: 700,
            ..PeerLimits::default()
        },
        memory: Some(150_000),
        protocol: ProtocolRequest::named("vole"),
        ..job(Role::Sender)
    };
    let refused = |ours: &Job, theirs: &Job, theirs_items: u64| {
        let (mut a, mut b) = silent_pair(5000);
        thread::scope(|scope| {
            scope.spawn(move || {
                agree(
                    &mut a,
                    theirs,
                    theirs_items,
                    &Checkpoint::Nothing,
                    None,
                    None,
                )
            });
            agree(&mut b, ours, 3000, &Checkpoint::Nothing, None, None)
        })
    };
    let theirs = job(Role::Receiver);
    assert_eq!(limit(refused(&ours, &theirs, 600)), Limit::PeerItems);
    ours.peer_limits.items = 1 << 28;
    assert!(refused(&ours, &theirs, 600).is_ok());
    // More statistical security than 128-bit outputs have for so many pairs.
    ours.memory = None;
    ours.terms.set(&LAMBDA, 100);
    let theirs = theirs.clone().with(&LAMBDA, 100);
    assert!(refused(&ours, &theirs, 5000).is_ok());
    // Either side may be the first to say so.
    assert_eq!(limit(refused(&ours, &theirs, 6000)), Limit::Security);
    // A set that no run can hold never gets as far.
    let (mut a, mut b) = silent_pair(5000);
    thread::scope(|scope| {
        scope.spawn(move || {
            let error = agree(
                &mut a,
                &job(Role::Sender),
                1 << 32,
                &Checkpoint::Nothing,
                None,
                None,
            )
            .unwrap_err();
            assert_eq!(error.class(), ErrorClass::Resource);
        });
        let error = agree(
            &mut b,
            &job(Role::Receiver),
            1,
            &Checkpoint::Nothing,
            None,
            None,
        )
        .unwrap_err();
        assert_eq!(error.class(), ErrorClass::Resource);
        drop(b);
    });
}

/// The largest sets that a protocol takes can run in any number of buckets: what pads a bucket is within the limits of
/// items and of λ. No items are there, only their numbers.
#[test]
fn the_largest_sets_run_in_buckets() {
    let fits = |role: Role, spec: &Spec, memory| {
        Job {
            protocol: ProtocolRequest::named(spec.name),
            memory: Some(memory),
            ..job(role)
        }
        .with(&SECURITY, spec.security)
        .with(&KEY_BITS, spec.exact.as_ref().map(|_| 64))
    };
    let registry = Registry::standard();
    let of_matches = registry.all().iter().filter(|protocol| {
        let dealt = protocol.offline().is_some_and(|o| o.origin().is_dealt());
        protocol.reveals().contains(&Reveal::Matches) && !dealt
    });
    for spec in of_matches.map(|protocol| protocol.spec()) {
        let most = spec.max_items;
        assert!(most <= MAX_ITEMS);
        for sizes in [[most; 2], [most, 1], [1, most]] {
            let mut numbers = Vec::new();
            for memory in (20..44).step_by(2).map(|log| 1 << log) {
                let (a, b) = silent_pair(5000);
                let (ours, theirs) = run_both(
                    (a, b),
                    |channel| {
                        let job = fits(Role::Receiver, spec, memory);
                        agree(channel, &job, sizes[0], &Checkpoint::Nothing, None, None)
                    },
                    |channel| {
                        let job = fits(Role::Sender, spec, memory);
                        agree(channel, &job, sizes[1], &Checkpoint::Nothing, None, None)
                    },
                );
                match ours {
                    Ok(agreement) => {
                        assert_eq!(theirs.unwrap().contract, agreement.contract);
                        let of = &agreement.contract;
                        assert!(of.receiver_bucket <= most && of.sender_bucket <= most);
                        numbers.push(of.buckets);
                    }
                    Err(Error::Run(WireError::Resource {
                        limit: Limit::Memory { .. },
                        ..
                    })) => {}
                    other => panic!("{} {sizes:?} {memory}: {other:?}", spec.name),
                }
            }
            assert!(numbers.is_sorted_by(|a, b| a >= b));
            assert!(
                numbers.len() > 3 && numbers[0] > 1,
                "{} {numbers:?}",
                spec.name
            );
        }
    }
}

/// Both sides come to the same limit, whichever is the larger.
#[test]
fn the_most_lambda_is_that_of_the_roles() {
    for (receiver, sender) in [(1000, 1 << 26), (1 << 20, 1000)] {
        let most = (spec("vole").max_lambda)(receiver, sender).unwrap();
        for (lambda, agreed) in [(most, true), (most + 1, false)] {
            let side = |role| {
                Job {
                    protocol: ProtocolRequest::named("vole"),
                    ..job(role)
                }
                .with(&LAMBDA, lambda)
            };
            let (mut a, mut b) = silent_pair(5000);
            thread::scope(|scope| {
                let far = scope.spawn(move || {
                    agree(
                        &mut b,
                        &side(Role::Sender),
                        sender,
                        &Checkpoint::Nothing,
                        None,
                        None,
                    )
                    .is_ok()
                });
                let near = agree(
                    &mut a,
                    &side(Role::Receiver),
                    receiver,
                    &Checkpoint::Nothing,
                    None,
                    None,
                );
                assert_eq!(near.is_ok(), agreed, "{receiver} {sender} {lambda}");
                drop(a);
                assert_eq!(far.join().unwrap(), agreed);
            });
        }
    }
}

#[test]
fn jobs_that_cannot_be_are_usage_errors() {
    let with = |change: fn(&mut Job)| {
        let mut job = job(Role::Receiver);
        change(&mut job);
        job.check()
    };
    let error = with(|j| j.protocol = ProtocolRequest::named("dh")).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
    assert!(
        matches!(
            error,
            Error::WeakProtocol {
                protocol: "dh",
                runs: Security::SemiHonest,
                ..
            }
        ),
        "{error}"
    );
    let remedy = error.remedy().unwrap();
    assert!(remedy.arguments().eq([Argument::Security]), "{remedy}");
    // Whatever the registry has, a protocol without hybrid base transfers is refused where they are asked for.
    for protocol in Registry::standard().all() {
        let spec = protocol.spec();
        let job = Job {
            protocol: ProtocolRequest::named(spec.name),
            ..job(Role::Receiver)
        }
        .with(&SECURITY, Security::SemiHonest)
        .with(&REVEAL, protocol.reveals()[0].into())
        .with(&POST_QUANTUM, true);
        let can = ["vole", "ole-ot", "ole-lattice", "ole-dealer", "ole-tee"].contains(&spec.name)
            || spec.name.starts_with("circuit-");
        match job.check() {
            Err(error) => {
                assert!(!can && error.class() == ErrorClass::Usage, "{error}");
                let others = "has no post-quantum form; there are: vole, ole-lattice, ole-ot";
                assert!(error.to_string().contains(others), "{error}");
            }
            Ok(()) => assert!(can, "{}", spec.name),
        }
    }
    assert!(with(|_| {}).is_ok());
    assert!(with(|j| j.terms.set(&LAMBDA, 39)).is_err());
    assert!(with(|j| j.terms.set(&LAMBDA, 129)).is_err());
    assert!(with(|j| rename(j, |names| names.clear())).is_err());
    assert!(with(|j| rename(j, |names| names[0] = String::new())).is_err());
    assert!(with(|j| rename(j, |names| names[0] = "a b".into())).is_err());
    assert!(with(|j| rename(j, |names| names[0] = "é".into())).is_err());
    assert!(with(|j| rename(j, |names| names[0] = "x".repeat(129))).is_err());
    assert!(with(|j| j.terms.set(&NORMALIZATION, vec!["x".into(); 65])).is_err());
    assert!(with(|j| j.terms.set(&NORMALIZATION, vec!["x".repeat(128); 64])).is_ok());
    let (mut a, _b) = silent_pair(100);
    let mut bad = job(Role::Receiver);
    bad.terms.set(&LAMBDA, 1);
    assert!(matches!(
        agree(&mut a, &bad, 1, &Checkpoint::Nothing, None, None),
        Err(Error::Usage(_))
    ));
}

#[test]
fn a_spoilt_handshake_message_ends_both_sides() {
    let spoils = [
        Spoil::Truncate(1),
        Spoil::Truncate(usize::MAX),
        Spoil::Extend(vec![0]),
        Spoil::Extend(vec![0; MAX_HELLO]),
        Spoil::Replace(vec![0; 64]),
        Spoil::Kind(99),
        Spoil::Kind(1),
        Spoil::Swallow,
        Spoil::Close,
        Spoil::FlipBit(0),
        Spoil::FlipBit(300),
    ];
    // The hello, the commitment and the nonce.
    for frame in 0..3 {
        for spoil in &spoils {
            let (a, b) = silent_pair(700);
            let a = Tamper::new(a, frame, spoil.clone());
            let (near, far) = both_and_done(a, b);
            for error in [near.err(), far.err()] {
                let error = error.unwrap_or_else(|| panic!("{frame} {spoil:?}"));
                assert_ne!(error.class(), ErrorClass::Usage, "{spoil:?} {error:?}");
            }
        }
    }
}

#[test]
fn a_replayed_hello_is_not_a_nonce() {
    let (a, b) = silent_pair(700);
    let a = Tamper::new(a, 1, Spoil::ReplayPrevious);
    let (near, far) = both_and_done(a, b);
    let far = far.unwrap_err();
    assert!(
        matches!(
            &far,
            Error::Run(WireError::PeerMisbehaved(Misbehaviour::WrongLength { .. }))
                | Error::Run(WireError::PeerMisbehaved(Misbehaviour::TooLong { .. }))
        ),
        "{far:?}"
    );
    assert_eq!(
        (near.unwrap_err().class(), far.class()),
        (ErrorClass::Peer, ErrorClass::Peer)
    );
    // Nor is a commitment.
    let (a, b) = silent_pair(700);
    let a = Tamper::new(a, 2, Spoil::ReplayPrevious);
    let (near, far) = both_and_done(a, b);
    let replayed = too_long("nonce", 64, 32);
    assert!(matches!(far, Err(Error::Run(WireError::PeerMisbehaved(found))) if found == replayed));
    assert_eq!(near.unwrap_err().class(), ErrorClass::Peer);
}

#[test]
fn every_flipped_bit_of_a_commitment_or_a_nonce_is_noticed() {
    for (frame, bits, step) in [(1, 512, 7), (2, 256, 5)] {
        for bit in (0..bits).step_by(step) {
            let (a, b) = silent_pair(2000);
            let a = Tamper::new(a, frame, Spoil::FlipBit(bit));
            let (near, far) = both_and_done(a, b);
            let Err(Error::Run(found)) = far else {
                panic!("{frame} {bit}");
            };
            match (frame, bit / 256) {
                (1, 0) => assert!(matches!(
                    found,
                    WireError::ContractDiffers {
                        field: "contract hash",
                        ..
                    }
                )),
                _ => assert_eq!(
                    misbehaviour(Err::<(), _>(found)),
                    bad_value("nonce", "not what the commitment was made to")
                ),
            }
            assert!(near.is_err(), "{frame} {bit}");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_hello_is_noticed_by_both() {
    let sent = with_facts(|facts| facts.resume = Resume::Nothing);
    for bit in 0..sent.encode().len() * 8 {
        let (a, b) = silent_pair(2000);
        let a = Tamper::new(a, 0, Spoil::FlipBit(bit));
        let (near, far) = both(a, b, &job(Role::Receiver), &job(Role::Sender));
        // Never two sides that both believe to agree; the contract hashes would differ.
        assert!(near.is_err() && far.is_err(), "bit {bit}");
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = hello().encode();
    let other = VERSION + 1;
    bytes[4..6].copy_from_slice(&other.to_le_bytes());
    bytes.truncate(6);
    match decode(&bytes).unwrap_err() {
        WireError::ContractDiffers {
            field,
            ours,
            theirs,
        } => assert_eq!(
            (field, ours, theirs),
            ("version", VERSION.to_string(), other.to_string())
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn done_is_said_and_heard() {
    let (mut a, mut b) = silent_pair(300);
    confirm_done(&mut a, Role::Receiver).unwrap();
    confirm_done(&mut b, Role::Sender).unwrap();
    assert!(matches!(
        confirm_done(&mut b, Role::Sender),
        Err(WireError::TimedOut(_))
    ));
    let (mut a, mut b) = silent_pair(300);
    a.send(
        Kind {
            code: 18,
            name: "done",
        },
        vec![1],
    )
    .unwrap();
    assert!(matches!(
        confirm_done(&mut b, Role::Sender),
        Err(WireError::PeerMisbehaved(_))
    ));
}

#[test]
fn differing_contracts_over_tls() {
    let (a, b) = connected(&within(10.0));
    let mut theirs = job(Role::Sender);
    theirs.terms.set(&LAMBDA, 64);
    let (a, b) = both(a.channel, b.channel, &job(Role::Receiver), &theirs);
    assert_eq!(a.unwrap_err().class(), ErrorClass::Contract);
    assert_eq!(b.unwrap_err().class(), ErrorClass::Contract);
}

#[test]
fn a_peer_that_dies_or_stalls_over_tls() {
    // Before its hello.
    let (mut a, b) = connected(&within(10.0));
    drop(b);
    let error = agree(
        &mut a.channel,
        &job(Role::Receiver),
        1,
        &Checkpoint::Nothing,
        None,
        None,
    )
    .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Network, "{error:?}");
    // After its hello.
    let (mut a, b) = connected(&within(10.0));
    let mut b = Tamper::new(b.channel, 1, Spoil::Close);
    thread::scope(|scope| {
        scope.spawn(move || {
            agree(
                &mut b,
                &job(Role::Sender),
                1,
                &Checkpoint::Nothing,
                None,
                None,
            )
            .unwrap_err()
        });
        let error = agree(
            &mut a.channel,
            &job(Role::Receiver),
            1,
            &Checkpoint::Nothing,
            None,
            None,
        )
        .unwrap_err();
        assert!(matches!(error, Error::Run(WireError::Closed)), "{error:?}");
    });
    // Stalled.
    let (mut a, _b) = connected(&within(0.5));
    let error = agree(
        &mut a.channel,
        &job(Role::Receiver),
        1,
        &Checkpoint::Nothing,
        None,
        None,
    )
    .unwrap_err();
    assert!(matches!(error, Error::Run(WireError::TimedOut(_))));
}

fn hello() -> Hello {
    with_facts(|_| ())
}

fn with_facts(change: impl FnOnce(&mut LocalFacts)) -> Hello {
    let mut hello = Hello {
        role: Role::Receiver,
        terms: job(Role::Receiver).terms,
        local: LocalFacts {
            protocol: ProtocolRequest::Auto,
            values: Vec::new(),
            max_peer_value_bound: NO_LIMIT,
            groups: None,
            labels: LabelExchange::Nothing,
            noise: None,
            is_padded: false,
            items: 10,
            memory: NO_LIMIT,
            resume: Resume::After {
                run: [7; 32],
                buckets: 3,
            },
            offline: Some(vec![offer(1), offer(2)]),
            purpose: "joint campaign".into(),
        },
    };
    change(&mut hello.local);
    hello
}

fn decode(bytes: &[u8]) -> Result<Hello, WireError> {
    Hello::decode(bytes, &Terms::default())
}

fn rename(job: &mut Job, change: impl FnOnce(&mut Vec<String>)) {
    let mut names = job.get(&NORMALIZATION);
    change(&mut names);
    job.terms.set(&NORMALIZATION, names);
}

fn offered(bytes: u32) -> LabelExchange {
    let columns = vec!["city".into(), "name".into()];
    LabelExchange::Offered(LabelTerms::texts(bytes, columns))
}

fn offer(name: u8) -> Offer {
    Offer {
        name: Name([name; 16]),
        receiver_size: 1 << name,
        sender_size: 10,
    }
}

/// Widths of payloads are each side's own, and in the contract.
#[test]
fn payloads_go_with_shares_and_nothing_else() {
    let shared = |role, reveal: Reveal, bytes| {
        let mut job = job(role)
            .with(&SECURITY, Security::SemiHonest)
            .with(&REVEAL, reveal.into());
        if bytes > 0 {
            job.labels = LabelExchange::Shared { bytes };
        }
        job
    };
    let shares = |role, bytes| shared(role, Reveal::Shares, bytes);
    let mut hashes = Vec::new();
    for [ours, theirs] in [[0, 0], [0, 7], [7, 0], [7, 8], [256, 1]] {
        let (a, b) = compare(&shares(Role::Receiver, ours), &shares(Role::Sender, theirs));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.contract, b.contract);
        for task in [a.task, b.task] {
            let bytes = task.string_bytes;
            let found = [bytes.receiver, bytes.sender];
            assert_eq!(found, [ours as usize, theirs as usize]);
        }
        assert!(!hashes.contains(&a.contract.hash));
        hashes.push(a.contract.hash);
    }
    for job in [
        shared(Role::Sender, Reveal::Size, 8),
        shared(Role::Receiver, Reveal::Matches, 8),
        shares(Role::Sender, 257),
    ] {
        assert!(matches!(job.check(), Err(Error::Usage(_))));
    }
    // A peer that says otherwise.
    let (mut near, mut far) = silent_pair(5000);
    let mut hello = Hello {
        role: Role::Sender,
        terms: shared(Role::Sender, Reveal::Size, 0).terms,
        ..hello()
    };
    hello.local.labels = LabelExchange::Shared { bytes: 8 };
    hello.local.offline = None;
    hello.local.resume = Resume::Nothing;
    let hello_kind = Kind {
        code: 16,
        name: "hello",
    };
    far.send(hello_kind, hello.encode()).unwrap();
    let size = shared(Role::Receiver, Reveal::Size, 0);
    let error = agree(&mut near, &size, 10, &Checkpoint::Nothing, None, None).unwrap_err();
    let what = "payloads";
    assert!(
        matches!(
            &error,
            Error::Run(WireError::PeerMisbehaved(Misbehaviour::BadValue { what: found, .. })) if *found == what
        ),
        "{error:?}"
    );
}

#[test]
fn the_longest_hello_fits() {
    let columns = (0..64).map(|i| format!("{i:0>255}")).collect();
    let mut hello = with_facts(|facts| {
        facts.labels = LabelExchange::Offered(LabelTerms {
            types: vec!["t".repeat(64); 64],
            ..LabelTerms::texts(128, columns)
        });
        facts.offline = Some(vec![offer(1); MAX_OFFERS]);
    });
    hello.role = Role::Sender;
    hello.terms.set(&NORMALIZATION, vec!["x".repeat(128); 64]);
    let bytes = hello.encode();
    assert!(bytes.len() <= MAX_HELLO);
    assert_eq!(decode(&bytes).unwrap(), hello);
    // A receiver has groups, and no labels.
    let mut hello = with_facts(|facts| facts.groups = Some(groups(1024)));
    hello.terms.set(&NORMALIZATION, vec!["x".repeat(128); 64]);
    let bytes = hello.encode();
    assert!(bytes.len() <= MAX_HELLO);
    assert_eq!(decode(&bytes).unwrap(), hello);
    hello.role = Role::Sender;
    assert!(decode(&hello.encode()).is_err());
}

/// So many groups, whose sizes are told.
fn groups(count: u64) -> GroupTerms {
    GroupTerms {
        count: count as u32,
        minimum: GroupMinimum::All,
        sizes: Some((0..count).rev().collect()),
        is_padded: false,
        has_rest: true,
    }
}

#[test]
fn too_many_stored_correlations_are_refused() {
    let hello = with_facts(|facts| facts.offline = Some(vec![offer(1); MAX_OFFERS + 1]));
    assert!(matches!(
        decode(&hello.encode()),
        Err(WireError::PeerMisbehaved(Misbehaviour::BadValue {
            what: "number of stored correlations",
            ..
        }))
    ));
}

/// A source of so many halves, of which the second fits sets of 10 and 20 items, and the last.
#[derive(Debug)]
struct Plenty(u64);

impl HalfSource for Plenty {
    fn offers(&self, purpose: &Purpose<'_>) -> Result<Vec<Offer>, Error> {
        assert_eq!(purpose.protocol, &ProtocolRequest::named("ole-ot"));
        let fits = |i| i == 1 || i == self.0 - 1;
        let offers = (0..self.0).map(|i| Offer {
            name: Name([i as u8; 16]),
            receiver_size: if fits(i) { 10 } else { 9 },
            sender_size: 20,
        });
        Ok(offers.collect())
    }

    fn take(&self, _: &Offer, _: &Purpose<'_>) -> Result<Zeroizing<Vec<u8>>, Error> {
        unreachable!("nothing runs")
    }
}

#[test]
fn as_many_halves_are_offered_as_fit_into_a_hello() {
    let job = |role, halves| {
        let source: Arc<dyn HalfSource> = Arc::new(Plenty(halves));
        Job {
            protocol: ProtocolRequest::named("ole-ot"),
            offline: Some(source),
            ..job(role)
        }
        .with(&SECURITY, Security::SemiHonest)
    };
    let (a, b) = pair_within(Duration::from_secs(10));
    let (ours, theirs) = (job(Role::Receiver, 300), job(Role::Sender, 2));
    let (ours, theirs) = both(a, b, &ours, &theirs);
    let chosen = Some(Name([1; 16]).to_string());
    let [ours, theirs] = [ours, theirs].map(|agreed| agreed.unwrap().contract);
    assert_eq!((&ours.offline, &theirs.offline), (&chosen, &chosen));
    assert_eq!([ours.receiver_bucket, ours.sender_bucket], [10, 20]);
}

#[test]
fn bits_of_keys_come_back_and_are_in_range() {
    for key_bits in [None, Some(1), Some(64)] {
        let mut hello = hello();
        hello.terms.set(&KEY_BITS, key_bits);
        assert_eq!(decode(&hello.encode()).unwrap(), hello);
    }
    let mut wrong = hello();
    wrong.terms.set(&KEY_BITS, Some(65));
    assert!(matches!(
        decode(&wrong.encode()),
        Err(WireError::PeerMisbehaved(Misbehaviour::BadValue {
            what: "bits of a key",
            ..
        }))
    ));
}

#[test]
fn an_earlier_run_that_cannot_have_been_is_refused() {
    let refused = |buckets: u32, problem| {
        let resume = Resume::After {
            run: [7; 32],
            buckets,
        };
        let bytes = with_facts(|facts| facts.resume = resume).encode();
        let expected = Misbehaviour::BadValue {
            what: "earlier run",
            problem,
        };
        match decode(&bytes) {
            Err(WireError::PeerMisbehaved(why)) => assert_eq!(why, expected),
            other => panic!("{other:?}"),
        }
    };
    refused(0, "no bucket is finished");
    refused(MAX_BUCKETS + 1, "more buckets than there can be");
    let mut bytes = with_facts(|facts| {
        facts.resume = Resume::Nothing;
        facts.offline = None;
        facts.purpose.clear();
    })
    .encode();
    // Behind it are a byte for no stored correlations and the length of an empty purpose.
    let code = bytes.len() - 3;
    bytes[code] = 3;
    assert!(matches!(
        decode(&bytes),
        Err(WireError::PeerMisbehaved(Misbehaviour::BadValue {
            what: "earlier run",
            problem: "unknown code",
        }))
    ));
}

proptest! {
    #[test]
    fn no_bytes_make_decoding_panic(bytes: Vec<u8>) {
        let _ = decode(&bytes);
        let _ = decode(&[&hello().encode()[..6], &bytes].concat());
    }

    #[test]
    fn what_is_decoded_is_encoded_again(flips in proptest::collection::vec(0usize..512, 0..3)) {
        let mut bytes = hello().encode();
        for flip in flips {
            let bit = flip % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if let Ok(hello) = decode(&bytes) {
            prop_assert_eq!(hello.encode(), bytes);
        }
    }

    #[test]
    fn a_hello_survives_the_wire(
        role in any::<bool>(),
        protocol in proptest::option::of("[!-~]{1,64}"),
        lambda in 1u32..=256,
        items: u64,
        resume in prop_oneof![
            Just(Resume::Nothing),
            Just(Resume::OfAnotherSet),
            (any::<[u8; 32]>(), 1..=MAX_BUCKETS)
                .prop_map(|(run, buckets)| Resume::After { run, buckets }),
        ],
        normalization in proptest::collection::vec("[!-~]{1,128}", 1..=64),
        of_groups in proptest::option::of(1u64..=1024),
    ) {
        let mut hello = with_facts(|facts| {
            facts.protocol = match protocol {
                Some(name) if name != "auto" => ProtocolRequest::Named(name),
                _ => ProtocolRequest::Auto,
            };
            facts.items = items;
            facts.resume = resume;
            facts.groups = of_groups.filter(|_| role).map(groups);
        });
        hello.role = if role { Role::Receiver } else { Role::Sender };
        let security = if role { Security::SemiHonest } else { Security::Malicious };
        hello.terms.set(&SECURITY, security);
        hello.terms.set(&LAMBDA, lambda);
        hello.terms.set(&NORMALIZATION, normalization);
        prop_assert_eq!(decode(&hello.encode()).unwrap(), hello);
    }
}
