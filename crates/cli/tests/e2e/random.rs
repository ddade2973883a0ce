//! Random small runs of every protocol, against a plain intersection: in memory through the session layer, and
//! over TLS between two processes.
//!
//! A failure names the protocol and the number of its run, which [`Trial::new`] makes again.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use vesica::{KeySpec, ProtocolRequest, Role, Security, Source, SourceOptions};
use vesica_session::{Job, Learns, NoProgress, Outcome, run_over};
use vesica_tables::{Keys, read_keys};
use vesica_wire::{FramedChannel, memory_pair};

use crate::support::{Arguments, Ended, Place, exchange};
use crate::trial::{
    Dealt, Trial, attested, dealing_words, name, part, publish, storing_words, variants,
};

type Variant = (&'static str, Security);

/// Runs with the numbers 0 … `count` − 1, on all cores.
#[track_caller]
fn all(count: u64, run: impl Fn(Variant, u64) + Sync) {
    let variants = variants();
    let total = count * variants.len() as u64;
    let next = AtomicU64::new(0);
    let failures: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..thread::available_parallelism().map_or(2, usize::from))
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= total || failures.len() > 3 {
                            return failures;
                        }
                        let variant = variants[(i % variants.len() as u64) as usize];
                        let number = i / variants.len() as u64;
                        let case = AssertUnwindSafe(|| run(variant, number));
                        if catch_unwind(case).is_err() {
                            failures.push(format!("{}: run {number}", name(variant)));
                        }
                    }
                })
            })
            .collect();
        let ended = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap());
        ended.collect()
    });
    assert!(failures.is_empty(), "{failures:#?}");
}

/// As [`all`], for the record.
#[track_caller]
fn published(block: &str, count: u64, run: impl Fn(Variant, u64) + Sync) {
    let count = part(count);
    all(count, run);
    let mut table = "| protocol | runs | wrong |\n|---|---|---|\n".to_owned();
    for variant in variants() {
        let _ = writeln!(table, "| {} | {count} | 0 |", name(variant));
    }
    publish(block, &table);
}

fn job(trial: &Trial, dealt: Option<&Dealt>, role: Role) -> Job {
    let spec = KeySpec::parse(&trial.key(), &trial.profiles()).unwrap();
    let mut job = Job::new(role, spec.normalization());
    job.key_bits = spec.bits();
    job.protocol = ProtocolRequest::named(trial.protocol);
    job.security = trial.security;
    job.lambda = trial.lambda;
    job.memory = trial.memory[usize::from(role == Role::Sender)];
    job.offline = dealt.map(|dealt| dealt.stores[usize::from(role == Role::Sender)].clone());
    job.attested = dealt.and_then(|_| attested(trial.protocol));
    job.learns = if trial.both {
        Learns::Both
    } else {
        Learns::Receiver
    };
    job
}

/// The rows of matching items.
fn rows(keys: &Keys, matches: &[u32]) -> Vec<bool> {
    let matched = keys.matched(matches.iter().map(|i| *i as usize)).unwrap();
    let found = |item: &u32| *item != Keys::NO_ITEM && matched[*item as usize];
    keys.row_items().iter().map(found).collect()
}

fn in_memory(variant: Variant, number: u64) {
    let trial = Trial::new(variant, number);
    let spec = KeySpec::parse(&trial.key(), &trial.profiles()).unwrap();
    let [ours, theirs] = [0, 1].map(|side| {
        let csv = trial.tables[side].whole().into_bytes();
        let source = Source::from_bytes("table.csv", csv, SourceOptions::default()).unwrap();
        read_keys(&source, &spec).unwrap()
    });
    let dealt = trial.dealt.as_ref().map(Dealt::new);
    let dealt = dealt.as_ref();
    let run = |mut channel: FramedChannel, role: Role, keys: &Keys| -> Outcome {
        let job = job(&trial, dealt, role);
        let party = usize::from(role == Role::Sender);
        let [own, peer] = [party, 1 - party].map(|party| Some(dealt?.fingerprints[party]));
        let progress = &mut NoProgress;
        run_over(&mut channel, own, peer, &job, keys.digests(), progress).unwrap()
    };
    let (near, far) = memory_pair();
    let (received, sent) = thread::scope(|scope| {
        let sender = scope.spawn(|| run(far, Role::Sender, &theirs));
        (run(near, Role::Receiver, &ours), sender.join().unwrap())
    });
    let expected = trial.tables[0].matching(&trial.tables[1]);
    assert_eq!(rows(&ours, &received.matches.unwrap()), expected);
    let expected = trial
        .both
        .then(|| trial.tables[1].matching(&trial.tables[0]));
    assert_eq!(
        sent.matches.map(|matches| rows(&theirs, &matches)),
        expected
    );
    for (side, report) in [received.report, sent.report].into_iter().enumerate() {
        let sizes = [side, 1 - side].map(|side| trial.tables[side].distinct().len() as u64);
        assert_eq!([report.items, report.peer_items], sizes);
        let limited = trial.memory.iter().any(Option::is_some);
        assert_eq!(report.contract.buckets > 1, limited);
    }
}

fn over_tls(variant: Variant, number: u64) {
    let trial = Trial::new(variant, number);
    let place = Place::new();
    let mut words = format!(
        "--protocol {} --security {} --lambda {}",
        trial.protocol,
        trial.security.name(),
        trial.lambda
    );
    for profile in trial.profiles() {
        words.push_str(&format!(" --normalize {profile}"));
    }
    if trial.both {
        words.push_str(" --both");
    }
    let arguments = [0, 1].map(|side| {
        let input = ["ours.csv", "theirs.csv"][side];
        place.write(input, trial.tables[side].whole());
        let mut words = words.clone();
        if let Some(memory) = trial.memory[side] {
            // Half of it is for the work on a bucket.
            words.push_str(&format!(" --memory {}", 2 * memory));
        }
        words.push_str(" --allow-empty");
        Arguments::new(input, &trial.key()).with(&words)
    });
    let [receiver, sender] = arguments;
    let sender = match trial.both {
        true => sender.output("theirs-out.csv"),
        false => sender,
    };
    let [receiver, sender] = match &trial.dealt {
        Some(terms) => {
            let bits = terms.key_bits.map(|bits| format!("--items {bits}"));
            let [asking, dealing] = dealing_words(&terms.protocol);
            let (receiver_size, sender_size) = (terms.receiver_size, terms.sender_size);
            let terms = format!(
                "{asking} --receiver-size {receiver_size} --sender-size {sender_size} --lambda {} {}",
                terms.lambda,
                bits.unwrap_or_default()
            );
            let ended = place.deal(&terms, &dealing);
            ended.iter().for_each(Ended::expect_success);
            [
                receiver.with(&storing_words(trial.protocol, Role::Receiver)),
                sender.with(&storing_words(trial.protocol, Role::Sender)),
            ]
        }
        None => [receiver, sender],
    };
    let pair = exchange(&place, &receiver.output("out.csv"), &sender);
    pair.expect_success();
    let [ours, theirs] = &trial.tables;
    assert_eq!(place.read("out.csv"), ours.csv(&ours.matching(theirs)));
    if trial.both {
        assert_eq!(
            place.read("theirs-out.csv"),
            theirs.csv(&theirs.matching(ours))
        );
    }
}

#[test]
fn random_runs_in_memory_find_the_intersection() {
    all(12, in_memory);
}

#[test]
fn random_runs_over_tls_find_the_intersection() {
    all(2, over_tls);
}

#[test]
#[ignore = "10,000 runs of every protocol: half an hour"]
fn ten_thousand_random_runs_in_memory_find_the_intersection() {
    published("random-memory", 10_000, in_memory);
}

#[test]
#[ignore = "200 runs of every protocol over TLS: some minutes"]
fn two_hundred_random_runs_over_tls_find_the_intersection() {
    published("random-tls", 200, over_tls);
}
