//! Random small runs of every protocol and of all that it reveals, against plain arithmetic: in memory through the
//! session layer, and over TLS between two processes.
//!
//! A failure names the protocol and the number of its run, which [`Trial::new`] makes again.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use vesica::{KeySpec, ProtocolRequest, Role, Source, SourceOptions};
use vesica_session::terms::{KEY_BITS, LAMBDA, LEARNS, MIN_SIZE, OPTIMIZE, REVEAL, SECURITY};
use vesica_session::{Job, Learns, MemorySet, NoProgress, run_set_over};
use vesica_tables::{NO_ITEM, TableKeys, read_keys_within};
use vesica_wire::{FramedChannel, memory_pair};

use crate::answers::{Answer, Learnt, Question};
use crate::support::{Arguments, Ended, Place, exchange};
use crate::trial::{
    Dealt, TEXTS, Trial, Variant, dealt_by_commands, part, publish, storing_words, variants,
    variants_in_memory,
};

/// Runs these variants with the numbers 0 … `count` − 1, on all cores. `run` says whether too few matched for an answer;
/// how often that was, for each variant.
#[track_caller]
fn all(variants: &[Variant], count: u64, run: impl Fn(Variant, u64) -> bool + Sync) -> Vec<u64> {
    let below: Vec<_> = variants.iter().map(|_| AtomicU64::new(0)).collect();
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
                        let at = (i % variants.len() as u64) as usize;
                        let (variant, number) = (variants[at], i / variants.len() as u64);
                        match catch_unwind(AssertUnwindSafe(|| run(variant, number))) {
                            Ok(few) => drop(below[at].fetch_add(few.into(), Ordering::Relaxed)),
                            Err(_) => failures.push(format!("{}: run {number}", variant.name())),
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
    below.into_iter().map(AtomicU64::into_inner).collect()
}

/// As [`all`], for the record.
#[track_caller]
fn published(
    block: &str,
    variants: &[Variant],
    count: u64,
    run: impl Fn(Variant, u64) -> bool + Sync,
) {
    let count = part(count);
    let below = all(variants, count, run);
    let mut table =
        "| protocol | runs | fewer than the minimum | wrong |\n|---|---|---|---|\n".to_owned();
    for (variant, below) in variants.iter().zip(below) {
        let below = match variant.question.minimum() {
            [_, true] => format!(" {below}"),
            _ => String::new(),
        };
        let _ = writeln!(table, "| {} | {count} |{below} | 0 |", variant.name());
    }
    publish(block, &table);
}

fn job(trial: &Trial, dealt: Option<&Dealt>, role: Role) -> Job {
    let spec = KeySpec::parse(&trial.key(), &trial.profiles()).unwrap();
    let party = usize::from(role == Role::Sender);
    let mut job = Job::new(role, spec.normalization());
    job.terms.set(&KEY_BITS, spec.bits());
    job.protocol = ProtocolRequest::named(trial.variant.protocol);
    job.terms.set(&SECURITY, trial.variant.security);
    job.terms.set(&REVEAL, trial.variant.question.reveal());
    job.terms.set(&LAMBDA, trial.lambda);
    job.terms.set(&MIN_SIZE, trial.minimum);
    job.terms.set(&OPTIMIZE, trial.optimize);
    job.memory = trial.memory[party];
    job.values = trial.tables[party].value_terms();
    job.labels = trial.tables[party].labels();
    job.offline = dealt.map(|dealt| dealt.source(party));
    job.terms.set(
        &LEARNS,
        if trial.both {
            Learns::Both
        } else {
            Learns::Receiver
        },
    );
    job
}

/// The rows of matching items.
fn rows(keys: &TableKeys, matches: &[u32]) -> Vec<bool> {
    let matched = keys.matched(matches.iter().map(|i| *i as usize)).unwrap();
    let found = |item: &u32| *item != NO_ITEM && matched[*item as usize];
    keys.row_items().iter().map(found).collect()
}

fn in_memory(variant: Variant, number: u64) -> bool {
    let trial = Trial::new(variant, number);
    let spec = KeySpec::parse(&trial.key(), &trial.profiles()).unwrap();
    let [ours, theirs] = trial.tables.each_ref().map(|table| {
        let csv = table.whole().into_bytes();
        let source = Source::from_bytes("table.csv", csv, SourceOptions::default()).unwrap();
        let values = table.value_columns();
        let texts = table.text_columns(&spec);
        let (texts, nowhere) = (texts.as_ref(), Path::new(""));
        read_keys_within(&source, &spec, &values, texts, u64::MAX, nowhere).unwrap()
    });
    let dealt = trial.dealt.as_ref().map(Dealt::new);
    let dealt = dealt.as_ref();
    let run = |mut channel: FramedChannel, role: Role, keys: &TableKeys| -> Learnt {
        let job = job(&trial, dealt, role);
        let party = usize::from(role == Role::Sender);
        let [own, peer] = [party, 1 - party].map(|party| Some(dealt?.fingerprints[party]));
        let (columns, _) = keys.gathered().expect("there is memory");
        let mut set = MemorySet::new(columns.clone()).unwrap();
        let report = run_set_over(&mut channel, own, peer, &job, &mut set, &mut NoProgress);
        Learnt::new(report.unwrap(), set)
    };
    let (near, far) = memory_pair();
    let (received, sent) = thread::scope(|scope| {
        let sender = scope.spawn(|| run(far, Role::Sender, &theirs));
        (run(near, Role::Receiver, &ours), sender.join().unwrap())
    });
    let tables = trial.tables.each_ref();
    let expected = Answer::of(variant.question, tables, trial.minimum);
    let first_rows = ours.first_rows(0).unwrap();
    let person = |item: u32| tables[0].person_of_first(first_rows[item as usize] as usize);
    assert_eq!(received.answer(Some(&sent), person), expected);
    for (side, (learnt, keys, learns)) in [
        (&received, &ours, matches!(expected, Answer::Matches(_))),
        (&sent, &theirs, trial.both),
    ]
    .into_iter()
    .enumerate()
    {
        let matches = learnt
            .matches
            .as_ref()
            .filter(|_| learnt.report.below.is_none());
        let rows = matches.map(|matches| rows(keys, matches));
        let expected = learns.then(|| tables[side].matching(tables[1 - side]));
        assert_eq!(rows, expected);
        let report = &learnt.report;
        let sizes = [side, 1 - side].map(|side| tables[side].distinct().len() as u64);
        assert_eq!([report.items, report.peer_items], sizes);
        let limited = trial.memory.iter().any(Option::is_some);
        assert_eq!(report.contract.buckets > 1, limited);
    }
    // The sender learns no answer.
    assert_eq!((&sent.report.value, sent.report.below), (&None, None));
    matches!(expected, Answer::Below(_))
}

fn over_tls(variant: Variant, number: u64) -> bool {
    let trial = Trial::new(variant, number);
    let place = Place::new();
    let mut words = format!(
        "--protocol {} --security {} --lambda {} {}",
        variant.protocol,
        variant.security.name(),
        trial.lambda,
        variant.question.words(trial.minimum)
    );
    for profile in trial.profiles() {
        words.push_str(&format!(" --normalize {profile}"));
    }
    if trial.both {
        words.push_str(" --both");
    }
    let arguments = [0, 1].map(|side| {
        let input = ["ours.csv", "theirs.csv"][side];
        let table = &trial.tables[side];
        place.write(input, table.whole());
        let mut words = format!("{words} {} {}", table.value_words(), table.text_words());
        if let Some(memory) = trial.memory[side] {
            // At least half of it is for the work on a bucket.
            words.push_str(&format!(" --memory {}", 2 * memory));
        }
        words.push_str(" --allow-empty");
        Arguments::new(input, &trial.key()).with(&words)
    });
    let [receiver, sender] = arguments;
    let sender = match trial.both || variant.question.is_of_both() {
        true => sender.output("theirs-out.csv"),
        false => sender,
    };
    let receiver = match variant.question.reveal().is_value() {
        true => receiver,
        false => receiver.output("out.csv"),
    };
    let receiver = receiver.with(&format!("--optimize {}", trial.optimize.name()));
    let [receiver, sender] = match &trial.dealt {
        Some(terms) => {
            let bits = terms.key_bits.map(|bits| format!("--items {bits}"));
            let (receiver_size, sender_size) = (terms.receiver_size, terms.sender_size);
            let words = format!(
                "--receiver-size {receiver_size} --sender-size {sender_size} --lambda {} {}",
                terms.lambda,
                bits.unwrap_or_default()
            );
            let ended = dealt_by_commands(&place, &terms.protocol, &words);
            ended.iter().for_each(Ended::expect_success);
            [
                receiver.with(&storing_words(variant.protocol, Role::Receiver)),
                sender.with(&storing_words(variant.protocol, Role::Sender)),
            ]
        }
        None => [receiver, sender],
    };
    let pair = exchange(&place, &receiver, &sender);
    pair.expect_success();
    let tables = trial.tables.each_ref();
    let [ours, theirs] = tables;
    let expected = Answer::of(variant.question, tables, trial.minimum);
    let printed = expected.printed(tables);
    assert_eq!(pair.receiver.text(), printed);
    match &expected {
        Answer::Shares(_) => {
            let files = ["out.csv", "theirs-out.csv"].map(|name| place.read(name));
            let person = |row: usize| ours.person_of_first(row - 1);
            assert_eq!(Answer::opened_files(&files[0], &files[1], person), expected);
        }
        Answer::Value(_) | Answer::Values(_) => assert!(!place.path("out.csv").exists()),
        Answer::Below(_) if variant.question.reveal().is_value() => {}
        Answer::Below(_) => assert_eq!(place.read("out.csv"), ours.csv(&vec![false; ours.rows()])),
        Answer::Matches(_) => {
            assert_eq!(place.read("out.csv"), ours.csv(&ours.matching(theirs)));
        }
        Answer::Ids(..) => {
            let files = ["out.csv", "theirs-out.csv"].map(|name| place.read(name));
            let found = Answer::of_ids(files.each_ref().map(String::as_str), tables);
            assert_eq!(found, Some(expected.clone()));
        }
        Answer::Rows(texts) => assert_eq!(lines(&place.read("out.csv")), lines(&one_column(texts))),
    }
    if trial.both {
        assert_eq!(
            place.read("theirs-out.csv"),
            theirs.csv(&theirs.matching(ours))
        );
    }
    matches!(expected, Answer::Below(_))
}

/// A table of one column with these texts.
pub(crate) fn one_column(texts: &[String]) -> String {
    let field = |text: &String| match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"\n", text.replace('"', "\"\"")),
        false => format!("{text}\n"),
    };
    let fields: String = texts.iter().map(field).collect();
    format!("{TEXTS}\n{fields}")
}

/// The lines of a text whose order does not matter.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.sort_unstable();
    lines
}

/// A run of a circuit takes as long as ten of most others, so there are fewer of them.
#[track_caller]
fn some(variants: Vec<Variant>, [plain, circuits]: [u64; 2], run: fn(Variant, u64) -> bool) {
    let (matches, functions) = variants
        .into_iter()
        .partition::<Vec<_>, _>(|variant| variant.question == Question::Matches);
    all(&matches, plain, run);
    all(&functions, circuits, run);
}

#[test]
fn random_runs_in_memory_find_the_intersection() {
    some(variants_in_memory(), [6, 1], in_memory);
}

#[test]
fn random_runs_over_tls_find_the_intersection() {
    some(variants(), [1, 1], over_tls);
}

#[test]
#[ignore = "10,000 runs of every protocol: half an hour"]
fn ten_thousand_random_runs_in_memory_find_the_intersection() {
    published("random-memory", &variants_in_memory(), 10_000, in_memory);
}

#[test]
#[ignore = "200 runs of every protocol over TLS: some minutes"]
fn two_hundred_random_runs_over_tls_find_the_intersection() {
    published("random-tls", &variants(), 200, over_tls);
}
