//! A protocol from outside: one module with its `Spec`, one line in a registry, and the session runs it.

use std::thread;

use rand_core::CryptoRng;
use vesica_psi::{Input, Item, Output, Params, Prepared, Protocol, Spec, Task};
use vesica_session::{
    Error, Job, Learns, NoProgress, Outcome, ProtocolRequest, Registry, Reveal, Role, Security,
    run_over,
};
use vesica_testing::{digests, run_both};
use vesica_wire::{Channel, Error as WireError, Kind, memory_pair, recv_rows, send_rows};

// ---- The module.

/// Sends the items themselves. For tests of the session alone: the receiver learns every item that it can guess.
struct Toy;

static SPEC: Spec = Spec {
    name: "toy",
    source: "nobody",
    security: Security::SemiHonest,
    has_semi_honest_form: false,
    max_items: 1000,
    max_lambda: |_, _| None,
    working_bytes: |receiver_size, sender_size| 32 * (receiver_size + sender_size),
};

const ITEMS: Kind = Kind {
    code: 200,
    name: "toy items",
};

/// Fewer matches than this are not counted.
const LEAST: usize = 3;

fn exchange(channel: &mut dyn Channel, own: &[Item], size: usize) -> Result<Vec<bool>, WireError> {
    channel.begin_phase("toy");
    send_rows(channel, ITEMS, own.as_flattened(), 32)?;
    let mut theirs = Vec::new();
    recv_rows(channel, ITEMS, 32, size, |rows| {
        theirs.extend_from_slice(rows.as_chunks::<32>().0);
        Ok(())
    })?;
    Ok(own.iter().map(|item| theirs.contains(item)).collect())
}

impl Protocol for Toy {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn reveals(&self) -> &'static [Reveal] {
        &[Reveal::Matches, Reveal::Size]
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
        let matches = exchange(channel, input.items, params.sender_size)?;
        let size = matches.iter().filter(|matched| **matched).count();
        Ok(match task.reveal {
            Reveal::Size if size < LEAST => Output::Below(LEAST as u64),
            Reveal::Size => Output::Value(size as i128),
            _ => Output::Matches(matches),
        })
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        _: &mut dyn CryptoRng,
    ) -> Result<Output, WireError> {
        let matches = exchange(channel, input.items, params.receiver_size)?;
        Ok(match task.both {
            true => Output::Matches(matches),
            false => Output::Nothing,
        })
    }
}

// ---- The line.

static PROTOCOLS: [&dyn Protocol; 1] = [&Toy];

// ---- The session.

fn job(role: Role, reveal: Reveal) -> Job {
    Job {
        registry: Registry::of(&PROTOCOLS),
        protocol: ProtocolRequest::named("toy"),
        security: Security::SemiHonest,
        reveal,
        ..Job::new(role, vec!["exact/1".into()])
    }
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
    let with = |role| Job {
        learns: Learns::Both,
        memory: Some(32 * 600),
        ..job(role, Reveal::Matches)
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

#[test]
fn a_value_and_too_few_matches_come_through_too() {
    let (near, far) = both(Reveal::Size, 7);
    assert_eq!(
        (near.report.value, near.report.below, near.report.matches),
        (Some(7), None, None)
    );
    assert_eq!((near.matches, far.report.value), (None, None));
    assert_eq!(near.report.contract.reveal, Reveal::Size);
    let json = serde_json::to_value(&near.report).unwrap();
    assert_eq!(
        (&json["value"], &json["reveal"]),
        (&7.into(), &"size".into())
    );
    let (near, _) = both(Reveal::Size, 2);
    assert_eq!((near.report.value, near.report.below), (None, Some(3)));
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
    let malicious = Job {
        security: Security::Malicious,
        ..named("toy", Reveal::Matches)
    };
    assert_eq!(
        usage(&malicious),
        "protocol toy runs semi-honest and needs --security semi-honest"
    );
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
    assert_eq!(run(&ours, &theirs, 7).0.unwrap().report.value, Some(7));
    let theirs = open(Role::Sender, Reveal::Matches);
    for error in <[_; 2]>::from(run(&ours, &theirs, 7)).map(Result::unwrap_err) {
        match error {
            Error::Run(WireError::ContractDiffers { field, .. }) => assert_eq!(field, "reveal"),
            other => panic!("{other:?}"),
        }
    }
}
