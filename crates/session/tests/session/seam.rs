//! From outside: a protocol is one module with its `Spec` and one line in a registry; a term is one declaration. The
//! session runs both.

use std::borrow::Cow;
use std::collections::HashMap;
use std::thread;

use crate::common::limit;
use rand_core::CryptoRng;
use vesica_psi::{
    AddsUp, Half, Input, Item, ItemCost, Output, Params, PostQuantum, Prepared, Protocol, Reveals,
    SharedMatches, Spec, Task,
};
use vesica_session::terms::{
    KAPPA, KEY_BITS, LEARNS, MIN_SIZE, REVEAL, SECURITY, Term, larger, same,
};
use vesica_session::{
    Decimal, Error, Job, KeyBlock, Learns, MemorySet, NoProgress, Outcome, PeerLimits,
    ProtocolRequest, Registry, RepeatedKeys, Report, Reveal, Role, Security, ValueTerms, run_over,
    run_set_over,
};
use vesica_testing::{digests, run_both};
use vesica_wire::{
    Channel, Error as WireError, Frames, Kind, Limit, Traffic, memory_pair, recv_rows, send_rows,
};
use zeroize::Zeroizing;

// ---- The module.

/// Sends the items themselves. For tests of the session alone: the receiver learns every item that it can guess.
struct Toy;

static SPEC: Spec = Spec {
    name: "toy",
    source: "nobody",
    security: Security::SemiHonest,
    exact: None,
    cheaper: None,
    post_quantum: PostQuantum::Never,
    max_items: 1000,
    max_lambda: |_, _| None,
    item_cost: ItemCost {
        bytes: 80,
        aes_blocks: 1,
    },
    working_bytes: |receiver_size, sender_size| 32 * (receiver_size + sender_size),
};

const ITEMS: Kind = Kind {
    code: 200,
    name: "toy items",
};

/// An item and its value, or 1.
const ROW: usize = 40;

/// For each of our items the peer's value for it, if it has the item.
fn exchange(
    channel: &mut dyn Channel,
    input: Input<'_>,
    size: usize,
) -> Result<Vec<Option<i64>>, WireError> {
    channel.begin_phase("toy");
    let mut rows = Vec::new();
    for (i, item) in input.items.iter().enumerate() {
        rows.extend_from_slice(item);
        rows.extend(input.values.map_or(1, |values| values[i]).to_le_bytes());
    }
    send_rows(channel, ITEMS, &rows, ROW)?;
    let mut theirs = HashMap::new();
    recv_rows(channel, ITEMS, ROW, size, |rows| {
        for row in rows.as_chunks::<ROW>().0 {
            let (item, value) = row.split_at(32);
            theirs.insert(item.to_vec(), i64::from_le_bytes(value.try_into().unwrap()));
        }
        Ok(())
    })?;
    let found = |item: &Item| theirs.get(item.as_slice()).copied();
    Ok(input.items.iter().map(found).collect())
}

impl Protocol for Toy {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn reveals(&self) -> &'static [Reveal] {
        Reveal::ALL
    }

    fn adds_up(&self) -> Option<&dyn AddsUp> {
        Some(self)
    }

    fn traffic(&self, params: &Params, _: &Task, _: Option<u32>, _: bool) -> Option<Traffic> {
        let mut traffic = Traffic::default();
        let rows = |items| Frames::rows(items, ROW);
        traffic.exchange([rows(params.receiver_size), rows(params.sender_size)]);
        Some(traffic)
    }

    fn prepare(&self, items: usize, _: &mut dyn CryptoRng) -> Prepared {
        Prepared::new(items)
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        _: &mut dyn CryptoRng,
    ) -> Result<Output, WireError> {
        assert_eq!(prepared.take::<usize>(), input.items.len());
        let found = exchange(channel, input, params.sender_size)?;
        if task.reveal == Reveal::Matches {
            return Ok(Output::Matches(found.iter().map(Option::is_some).collect()));
        }
        let columns = usize::from(task.values.receiver);
        assert_eq!(input.values.is_some(), columns > 0);
        let number = |(reveal, column): (Reveal, usize)| {
            let terms = found.iter().enumerate().filter_map(|(i, theirs)| {
                let own = |values: &[i64]| values[columns * i + column];
                let own = input.values.map_or(1, own);
                theirs.map(|theirs| match reveal {
                    Reveal::Size => 1,
                    _ => i128::from(own) * i128::from(theirs),
                })
            });
            terms.sum::<i128>()
        };
        let numbers = task.reveal.numbers(task.values).into_iter();
        let matches = found.iter().flatten().count() as u64;
        let shares = numbers.map(|of| number(of) as u64).chain([matches]);
        Ok(Output::NumberShares(Zeroizing::new(shares.collect())))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        _: Prepared,
        _: &mut dyn CryptoRng,
    ) -> Result<Output, WireError> {
        let found = exchange(channel, input, params.receiver_size)?;
        Ok(match (task.reveal.is_value(), task.both) {
            (true, _) => Output::NumberShares(Zeroizing::default()),
            (false, true) => Output::Matches(found.iter().map(Option::is_some).collect()),
            (false, false) => Output::Nothing,
        })
    }
}

/// The receiver has the numbers and how many items match, and the sender has nothing.
impl AddsUp for Toy {
    fn open(
        &self,
        _: &mut dyn Channel,
        half: Half,
        _: &Params,
        task: &Task,
        shares: &[u64],
        _: &mut dyn CryptoRng,
    ) -> Result<Output, WireError> {
        let value = |share: &u64| i128::from(*share as i64);
        Ok(match (half, shares) {
            (Half::Receiver, [numbers @ .., matches]) if *matches >= task.min_size => {
                Output::Values(numbers.iter().map(value).collect())
            }
            (Half::Receiver, _) => Output::Below(task.min_size),
            (Half::Sender, _) => Output::Nothing,
        })
    }

    fn open_matches(
        &self,
        _: &mut dyn Channel,
        _: Half,
        _: &Params,
        _: &Task,
        _: &mut dyn SharedMatches,
        _: &mut dyn CryptoRng,
    ) -> Result<(), WireError> {
        unreachable!("nobody asks for matches above a threshold")
    }
}

// ---- The line.

static PROTOCOLS: [&dyn Protocol; 1] = [&Toy];

// ---- The session.

fn job(role: Role, reveal: impl Into<Reveals>) -> Job {
    Job {
        registry: Registry::of(&PROTOCOLS),
        protocol: ProtocolRequest::named("toy"),
        ..Job::new(role, vec!["exact/1".into()])
    }
    .with(&SECURITY, Security::SemiHonest)
    .with(&REVEAL, reveal.into())
}

type Came = Result<Outcome, Error>;

fn run(ours: &Job, theirs: &Job, shared: u64) -> (Came, Came) {
    let sets = [digests(0..20), digests(20 - shared..90)];
    run_both(
        memory_pair(),
        |channel| run_over(channel, None, None, ours, &sets[0], &mut NoProgress),
        |channel| run_over(channel, None, None, theirs, &sets[1], &mut NoProgress),
    )
}

fn both(reveal: Reveal, shared: u64) -> (Outcome, Outcome) {
    let (ours, theirs) = (job(Role::Receiver, reveal), job(Role::Sender, reveal));
    let (near, far) = run(&ours, &theirs, shared);
    (near.unwrap(), far.unwrap())
}

#[test]
fn matches_come_through_the_whole_session() {
    let (near, far) = both(Reveal::Matches, 7);
    assert_eq!(near.matches, Some((13..20).collect()));
    assert_eq!((near.report.matches, far.matches), (Some(7), None));
    assert_eq!(near.report.protocol, "toy");
    assert!(near.report.phases.iter().any(|p| p.phase == "toy"));
}

#[test]
fn both_learn_and_buckets_are_cut_by_its_own_limit_of_memory() {
    let with = |role| {
        Job {
            memory: Some(32 * 600),
            ..job(role, Reveal::Matches)
        }
        .with(&LEARNS, Learns::Both)
    };
    let sets = [digests(0..400), digests(300..700)];
    let (mut a, mut b) = memory_pair();
    let (near, far) = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let job = with(Role::Sender);
            run_over(&mut b, None, None, &job, &sets[1], &mut NoProgress)
        });
        let job = with(Role::Receiver);
        let receiver = run_over(&mut a, None, None, &job, &sets[0], &mut NoProgress);
        (receiver.unwrap(), sender.join().unwrap().unwrap())
    });
    assert_eq!(near.report.contract.buckets, 2);
    assert_eq!(near.matches, Some((300..400).collect()));
    assert_eq!(far.matches, Some((0..100).collect()));
}

/// Its numbers are added up over buckets, as it says.
#[test]
fn its_numbers_are_found_in_buckets() {
    let sets = [digests(0..400), digests(300..700)];
    let jobs = [Role::Receiver, Role::Sender].map(|role| Job {
        memory: Some(32 * 600),
        ..job(role, Reveal::Size)
    });
    let (near, _) = run_both(
        memory_pair(),
        |channel| run_over(channel, None, None, &jobs[0], &sets[0], &mut NoProgress),
        |channel| run_over(channel, None, None, &jobs[1], &sets[1], &mut NoProgress),
    );
    let report = near.unwrap().report;
    assert_eq!(report.contract.buckets, 2);
    let units = 100;
    assert_eq!(report.value, Some(Decimal { units, scale: 0 }));
}

type Reports = (Result<Report, Error>, Result<Report, Error>);

/// Runs both sides over values of their items, and returns their reports.
fn over_values(ours: &Job, theirs: &Job, values: [Option<&[i64]>; 2]) -> (Report, Report) {
    let (near, far) = try_over_values(ours, theirs, values);
    (near.unwrap(), far.unwrap())
}

fn try_over_values(ours: &Job, theirs: &Job, values: [Option<&[i64]>; 2]) -> Reports {
    let sets = [digests(0..20), digests(13..90)];
    let run = |channel: &mut dyn Channel, job, digests: &[_], values: Option<&[i64]>| {
        let mut keys = KeyBlock::from(digests);
        keys.values = values.map(Cow::from);
        let mut set = MemorySet::new(keys).unwrap();
        run_set_over(channel, None, None, job, &mut set, &mut NoProgress)
    };
    run_both(
        memory_pair(),
        |channel| run(channel, ours, &sets[0], values[0]),
        |channel| run(channel, theirs, &sets[1], values[1]),
    )
}

fn terms(bound: u64, scale: u8) -> Vec<ValueTerms> {
    vec![ValueTerms {
        bound,
        scale,
        repeated: RepeatedKeys::Sum,
    }]
}

#[test]
fn a_value_and_too_few_matches_come_through_too() {
    let least = |role, min_size| job(role, Reveal::Size).with(&MIN_SIZE, min_size);
    let sized = |min_size| {
        let (ours, theirs) = (
            least(Role::Receiver, min_size),
            least(Role::Sender, min_size),
        );
        over_values(&ours, &theirs, [None; 2])
    };
    let (near, far) = sized(7);
    let seven = Decimal { units: 7, scale: 0 };
    assert_eq!(
        (near.value, near.below, near.matches),
        (Some(seven), None, None)
    );
    assert_eq!(
        (far.value, near.contract.get(&REVEAL)),
        (None, Reveal::Size.into())
    );
    let json = serde_json::to_value(&near).unwrap();
    assert_eq!(
        (&json["value"], &json["reveal"]),
        (&7.into(), &"size".into())
    );
    let (near, far) = sized(8);
    assert_eq!((near.value, near.below), (None, Some(8)));
    assert_eq!((near.run.len(), &near.run), (16, &far.run));
    assert_ne!(near.run, sized(8).0.run);
}

#[test]
fn values_of_either_side_come_through_with_their_scales() {
    let (ours, theirs): (Vec<i64>, Vec<i64>) = ((-10..10).collect(), (0..77).collect());
    let with = |reveal: Reveal, role, values: &Vec<ValueTerms>| Job {
        values: values.clone(),
        ..job(role, reveal)
    };
    for (reveal, near, far, text) in [
        (Reveal::Sum, terms(10, 1), vec![], "4.2"),
        (Reveal::Sum, vec![], terms(77, 2), "0.21"),
        (Reveal::InnerProduct, terms(10, 1), terms(77, 2), "0.154"),
    ] {
        let values = [
            near.first().map(|_| &ours[..]),
            far.first().map(|_| &theirs[..]),
        ];
        let jobs = [
            with(reveal, Role::Receiver, &near),
            with(reveal, Role::Sender, &far),
        ];
        let (report, _) = over_values(&jobs[0], &jobs[1], values);
        assert_eq!(report.value.unwrap().to_string(), text);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["value"], text);
        assert_eq!(report.contract.receiver_values, near);
    }
}

#[test]
fn several_numbers_come_through_with_their_names_and_scales() {
    let reveal: Reveals = "size,sum".parse().unwrap();
    let columns = [terms(10, 1), terms(100, 0)].concat();
    let rows: Vec<i64> = (-10..10).flat_map(|i| [i, 10 * i]).collect();
    let jobs = [Role::Receiver, Role::Sender].map(|role| Job {
        values: if role == Role::Receiver {
            columns.clone()
        } else {
            Vec::new()
        },
        ..job(role, reveal)
    });
    let (report, far) = over_values(&jobs[0], &jobs[1], [Some(&rows), None]);
    let json = serde_json::to_value(&report).unwrap();
    let numbers = serde_json::json!({"size": 7, "sum-1": "4.2", "sum-2": 420});
    assert_eq!(
        (&json["values"], &json["value"]),
        (&numbers, &serde_json::Value::Null)
    );
    assert_eq!(
        (json["reveal"].as_str(), far.values),
        (Some("size,sum"), None)
    );
    // All are withheld together.
    let least = jobs.map(|job| job.with(&MIN_SIZE, 8));
    let (report, _) = over_values(&least[0], &least[1], [Some(&rows), None]);
    assert_eq!(
        (report.values, report.value, report.below),
        (None, None, Some(8))
    );
    // Each bound is its own, in the contract and against what the peer allows.
    let over: Vec<i64> = rows.iter().map(|value| value.signum() * 50).collect();
    let (near, _) = try_over_values(&least[0], &least[1], [Some(&over), None]);
    assert_eq!(limit(near), Limit::Input);
    let strict = Job {
        peer_limits: PeerLimits {
            value_bound: Some(99),
            ..PeerLimits::default()
        },
        ..least[1].clone()
    };
    let (near, _) = try_over_values(&least[0], &strict, [Some(&rows), None]);
    assert!(matches!(
        near,
        Err(Error::Run(WireError::ContractDiffers {
            field: "value bound",
            ..
        }))
    ));
}

#[test]
fn values_other_than_declared_are_refused() {
    let own: Vec<i64> = (0..77).map(|i| if i == 60 { -11 } else { 10 }).collect();
    for (declared, given, is_right) in [
        (terms(11, 0), Some(&own[..]), true),
        (terms(10, 0), Some(&own[..]), false),
        (terms(11, 0), None, false),
    ] {
        let sender = Job {
            values: declared,
            ..job(Role::Sender, Reveal::Sum)
        };
        let receiver = job(Role::Receiver, Reveal::Sum);
        let (near, far) = try_over_values(&receiver, &sender, [None, given]);
        match is_right {
            true => assert_eq!(near.unwrap().value.unwrap().units, 70),
            false => {
                assert_eq!(limit(far), Limit::Input);
                assert!(matches!(near, Err(Error::Run(_))));
            }
        }
    }
}

#[test]
fn values_that_nobody_or_both_have_or_that_could_overflow_are_refused() {
    let with = |reveal: Reveal, role, values| Job {
        values,
        ..job(role, reveal)
    };
    for (reveal, near, far, expected) in [
        (Reveal::Sum, vec![], vec![], "neither has any"),
        (Reveal::Sum, terms(1, 0), terms(1, 0), "both have some"),
        (
            Reveal::Sum,
            terms(i64::MAX as u64 / 2, 0),
            vec![],
            "63 bits",
        ),
        (
            Reveal::InnerProduct,
            terms(1 << 40, 0),
            terms(1 << 40, 0),
            "63 bits",
        ),
    ] {
        let jobs = [
            with(reveal, Role::Receiver, near),
            with(reveal, Role::Sender, far),
        ];
        let (a, b) = try_over_values(&jobs[0], &jobs[1], [None; 2]);
        for error in [a.unwrap_err(), b.unwrap_err()] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
    let usage = |job: &Job| match job.check() {
        Err(Error::Usage(line)) => line,
        other => panic!("{other:?}"),
    };
    let alone = |reveal, values| usage(&with(reveal, Role::Receiver, values));
    assert_eq!(
        alone(Reveal::Matches, terms(1, 0)),
        "a run for matches takes no values"
    );
    assert_eq!(
        alone(Reveal::Size, terms(1, 0)),
        "a run for size takes no values"
    );
    assert_eq!(
        alone(Reveal::InnerProduct, vec![]),
        "the inner-product needs values on both sides"
    );
    assert!(alone(Reveal::Sum, terms(0, 0)).starts_with("values: a bound"));
    assert_eq!(
        alone(Reveal::InnerProduct, terms(1, 0).repeat(2)),
        "the inner-product takes one column of values on each side"
    );
    assert_eq!(
        alone(Reveal::Sum, terms(1, 0).repeat(9)),
        "at most 8 columns of values"
    );
    let told = |reveal: Reveal, learns| job(Role::Receiver, reveal).with(&LEARNS, learns);
    assert!(told(Reveal::Size, Learns::Both).check().is_ok());
    for reveal in [Reveal::ThresholdMatches, Reveal::Shares] {
        let expected = format!("the sender cannot learn the {reveal} too");
        assert_eq!(usage(&told(reveal, Learns::Both)), expected);
    }
    assert_eq!(
        usage(&told(Reveal::Size, Learns::Aligned)),
        "one order on both sides does not go with size"
    );
    let least = job(Role::Receiver, Reveal::Matches).with(&MIN_SIZE, 2);
    assert_eq!(usage(&least), "a minimum size does not go with matches");
}

#[test]
fn limits_and_names_are_those_of_its_spec() {
    let named = |name: &str, reveal| Job {
        protocol: ProtocolRequest::named(name),
        ..job(Role::Receiver, reveal)
    };
    let usage = |job: &Job| match job.check() {
        Err(Error::Usage(line)) => line,
        other => panic!("{other:?}"),
    };
    assert!(named("toy", Reveal::Size).check().is_ok());
    assert_eq!(
        usage(&named("vole", Reveal::Matches)),
        "no protocol is called \"vole\"; there are: toy"
    );
    let standard = Job {
        registry: *Registry::standard(),
        ..named("vole", Reveal::Size)
    };
    assert_eq!(usage(&standard), "protocol vole does not reveal size");
    let malicious = named("toy", Reveal::Matches).with(&SECURITY, Security::Malicious);
    assert!(matches!(
        malicious.check(),
        Err(Error::WeakProtocol {
            protocol: "toy",
            ..
        })
    ));
    // A peer that names what the other does not have, or does not have for this.
    let auto = Job {
        registry: *Registry::standard(),
        protocol: ProtocolRequest::Auto,
        ..job(Role::Sender, Reveal::Matches)
    };
    let (near, far) = run(&job(Role::Receiver, Reveal::Matches), &auto, 7);
    assert!(near.is_err());
    match far.unwrap_err() {
        Error::Run(WireError::ContractDiffers { field, theirs, .. }) => {
            assert_eq!((field, &*theirs), ("protocol", "toy"));
        }
        other => panic!("{other:?}"),
    }
    // Where both leave it open, what reveals it is taken, and what reveals something else is not blamed.
    let open = |role, reveal| Job {
        protocol: ProtocolRequest::Auto,
        ..job(role, reveal)
    };
    let (ours, theirs) = (
        open(Role::Receiver, Reveal::Size),
        open(Role::Sender, Reveal::Size),
    );
    let value = run(&ours, &theirs, 7).0.unwrap().report.value;
    assert_eq!(value.unwrap().to_string(), "7");
    let theirs = open(Role::Sender, Reveal::Matches);
    for error in <[_; 2]>::from(run(&ours, &theirs, 7)).map(Result::unwrap_err) {
        match error {
            Error::Run(WireError::ContractDiffers { field, .. }) => assert_eq!(field, "reveal"),
            other => panic!("{other:?}"),
        }
    }
}

// ---- A term.

/// For what the result may be used.
static PURPOSE: Term<u32> = Term::new("toy.purpose", "purpose", || 0, same);

/// How many rows a page has on the side that has more.
static PAGE: Term<u64> = Term::new("toy.page", "rows of a page", || 100, larger);

#[test]
fn terms_of_a_program_are_agreed_on_and_reported() {
    let with = |role, purpose, page| {
        let job = job(role, Reveal::Matches);
        job.with(&PURPOSE, purpose).with(&PAGE, page)
    };
    let (near, far) = run(&with(Role::Receiver, 7, 10), &with(Role::Sender, 7, 30), 5);
    let (near, far) = (near.unwrap().report, far.unwrap().report);
    assert_eq!(near.contract.hash, far.contract.hash);
    assert_eq!(
        (near.contract.get(&PURPOSE), near.contract.get(&PAGE)),
        (7, 30)
    );
    let json = serde_json::to_value(&near).unwrap();
    assert_eq!(
        (
            &json["contract"]["toy.purpose"],
            &json["contract"]["toy.page"]
        ),
        (&7.into(), &30.into())
    );
    let usual = both(Reveal::Matches, 5).0.report;
    assert_ne!(usual.contract.hash, near.contract.hash);
    assert_eq!(usual.contract.get(&PAGE), 100);
    // What has no single form on the wire, or no place in a contract, is refused here.
    static LIST: Term<Vec<String>> = Term::new("toy.list", "list", Vec::new, same);
    static HASH: Term<u32> = Term::new("hash", "hash", || 0, same);
    static LAMBDA_TOO: Term<u64> = Term::new("lambda", "lambda", || 0, larger);
    let usual = || job(Role::Receiver, Reveal::Matches);
    for (wrong, why) in [
        (
            usual().with(&LIST, vec!["x".repeat(256)]),
            "the peer could not read",
        ),
        (
            usual().with(&LIST, vec!["x".into(); 256]),
            "the peer could not read",
        ),
        (usual().with(&HASH, 1), "has a dot in its name, unlike hash"),
        (usual().with(&LAMBDA_TOO, 40), "the peer could not read"),
        (usual().with(&KEY_BITS, Some(257)), "of 257 bits"),
        (usual().with(&KAPPA, 256), "kappa is 128 bits"),
    ] {
        let refused = wrong.check().unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    // Another value, and a side that does not have the term.
    let ours = with(Role::Receiver, 7, 10);
    for (theirs, said) in [
        (with(Role::Sender, 8, 10), ["purpose", "7", "8"]),
        (
            job(Role::Sender, Reveal::Matches),
            ["terms", "toy.page,toy.purpose", ""],
        ),
    ] {
        match run(&ours, &theirs, 5).0 {
            Err(Error::Run(WireError::ContractDiffers {
                field,
                ours,
                theirs,
            })) => {
                assert_eq!([field, &ours, &theirs], said);
            }
            other => panic!("{other:?}"),
        }
    }
}
