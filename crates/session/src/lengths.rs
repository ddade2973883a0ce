//! Whoever carries the frames of a run sees how many there are, of which kinds, how long they are, and in which direction
//! they go. All that follows from the contract: it is the same for no match as for all, in every run that there is.

use std::collections::BTreeSet;
use std::thread;

use rand_core::CryptoRng;
use serde_json::{Map, Value};
use vesica_psi::masks::MASKS;
use vesica_psi::{Input, Output, Params, Prepared, Protocol, Reveal, Spec, Task};
use vesica_testing::{Lengths, told_by_lengths};
use vesica_wire::{Channel, Error as WireError, Kind, Traffic};

use crate::every_run::{CHANGES, Change, EveryRun, Taken};
use crate::terms::{BUCKET_ATTEMPTS, LEARNS, MIN_SIZE};
use crate::{Error, Learns, Registry, Report, Terms};

/// Frames that code uniform values, whose length varies with these: whatever matches they have one distribution.
const CODED: [Kind; 1] = [MASKS];

/// Whom the result is told.
const TELLING: [(&str, Change); 3] = [
    ("", |_| ()),
    ("both", |job| job.terms.set(&LEARNS, Learns::Both)),
    ("aligned", |job| job.terms.set(&LEARNS, Learns::Aligned)),
];

/// Every change, told to either side. A minimum is met by half of the keys, and not by one.
fn changes() -> Vec<(String, Vec<Change>)> {
    let mut all = Vec::new();
    for (words, telling) in TELLING {
        for (more, change) in CHANGES {
            let sets_who_learns = TELLING
                .iter()
                .any(|(words, _)| !words.is_empty() && *words == more);
            // Both minimums are alike here.
            if !sets_who_learns && more != "minimum missed" {
                all.push((format!("{words} {more}"), vec![telling, change]));
            }
        }
    }
    all
}

/// The same for buckets that are attempts of their own: without a change, and with a minimum.
fn changes_of_tasks() -> Vec<(String, Vec<Change>)> {
    let attempts: Change = |job| job.terms.set(&BUCKET_ATTEMPTS, 3);
    let minimum: Change = |job| job.terms.set(&MIN_SIZE, 20);
    let buckets = CHANGES.iter().find(|(words, _)| *words == "buckets");
    let buckets = buckets.expect("a change of this name").1;
    let mut all = Vec::new();
    for (words, telling) in TELLING {
        all.push((
            format!("{words} task in buckets"),
            vec![telling, attempts, buckets],
        ));
        all.push((format!("{words} task"), vec![telling, attempts]));
        let changes = vec![telling, attempts, buckets, minimum];
        all.push((format!("{words} task in buckets above a minimum"), changes));
    }
    all
}

/// What a report says of the matches.
fn found(report: &Result<Report, Error>) -> String {
    match report {
        Ok(report) => format!(
            "{:?} {:?} {:?} {:?}",
            report.matches, report.value, report.values, report.groups
        ),
        Err(error) => error.to_string(),
    }
}

/// Takes a run with no key in common, one, half and all of the smaller set; what the lengths of its frames tell of that.
/// `None` for a run that there is not.
fn told(run: &EveryRun<'_>, take: impl Fn(u64) -> Option<Taken>) -> Option<Vec<String>> {
    let all = run.sizes().into_iter().min().unwrap_or(0);
    let mut sides: [Vec<(u64, Lengths)>; 2] = [Vec::new(), Vec::new()];
    for shared in [0, 1, all / 2, all] {
        let taken = take(shared)?;
        let made = taken.made.iter().flatten().map(|sent| sent.lengths());
        let made: Lengths = made.flatten().collect();
        for (side, sent) in sides.iter_mut().zip(&taken.sent) {
            side.push((shared, [made.clone(), sent.lengths()].concat()));
        }
    }
    let told = sides
        .iter()
        .zip(["receiver", "sender"])
        .flat_map(|(sent, whose)| {
            let told = told_by_lengths(sent, &CODED).into_iter();
            told.map(move |what| format!("{whose}: {what}"))
        });
    Some(told.map(|what| format!("{}: {what}", run.name)).collect())
}

/// What the runs of a protocol tell, and how many there are.
fn told_by(registry: Registry, protocol: &dyn Protocol) -> (Vec<String>, usize) {
    let (mut all, mut count) = (Vec::new(), 0);
    let mut changes = changes();
    // Whoever compares hashes alone has no other run of numbers.
    let compares = protocol.spec().exact.is_some();
    changes.retain(|(words, _)| compares || !words.ends_with("numbers"));
    for run in EveryRun::of(registry, protocol, &changes) {
        let told = told(&run, |shared| Some(run.take(shared)));
        all.extend(told.into_iter().flatten());
        count += 1;
    }
    for run in EveryRun::of(registry, protocol, &changes_of_tasks()) {
        if let Some(told) = told(&run, |shared| run.take_as_tasks(shared)) {
            all.extend(told);
            count += 1;
        }
    }
    (all, count)
}

#[test]
fn lengths_of_frames_tell_nothing_of_matches() {
    let protocols = Registry::standard().all();
    let all: Vec<_> = thread::scope(|scope| {
        let told = |protocol: &'static dyn Protocol| told_by(*Registry::standard(), protocol);
        let runs: Vec<_> = protocols
            .iter()
            .map(|p| scope.spawn(move || told(*p)))
            .collect();
        runs.into_iter().map(|runs| runs.join().unwrap()).collect()
    });
    for (protocol, (_, count)) in protocols.iter().zip(&all) {
        assert!(*count >= 6, "{protocol:?}: {count} runs");
    }
    let told: Vec<String> = all.into_iter().flat_map(|(told, _)| told).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// The runs find what matches: what is compared above are runs that differ in that.
#[test]
fn runs_find_what_they_should() {
    for protocol in Registry::standard().all() {
        for run in EveryRun::of(
            *Registry::standard(),
            *protocol,
            &[(String::new(), Vec::new())],
        ) {
            let all = run.sizes().into_iter().min().unwrap_or(0);
            let [none, every] = [0, all].map(|shared| run.take(shared).reports);
            let [none, every] = [&none[0], &every[0]].map(found);
            let shares = format!(" {},", Reveal::Shares);
            assert_eq!(
                none == every,
                run.name.contains(&shares),
                "{}: {none}",
                run.name
            );
        }
    }
}

/// A term that nothing above changes could be what lengths depend on.
#[test]
fn every_term_is_changed_or_says_why_not() {
    // One value, names of what is compared, versions; further connections, which runs of the command have; and receipts, which
    // sides with identities exchange before anything is sent that depends on a key.
    const NEVER: [&str; 6] = [
        "kappa",
        "normalization",
        "key_classes",
        "auto",
        "buckets_at_once",
        "receipts",
    ];
    let terms = |terms: &Terms| -> Map<String, Value> {
        match serde_json::to_value(terms).unwrap() {
            Value::Object(terms) => terms,
            other => panic!("{other}"),
        }
    };
    let usual = terms(&Terms::default());
    let mut changed: BTreeSet<String> = NEVER.map(str::to_owned).into();
    for protocol in Registry::standard().all() {
        for changes in [changes(), changes_of_tasks()] {
            for run in EveryRun::of(*Registry::standard(), *protocol, &changes) {
                let terms = terms(run.terms());
                changed.extend(
                    usual
                        .iter()
                        .filter(|(name, value)| terms[*name] != **value)
                        .map(|(name, _)| name.clone()),
                );
            }
        }
    }
    let missing: Vec<_> = usual
        .keys()
        .filter(|name| !changed.contains(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "no run has another value of {missing:?}"
    );
}

/// The name of a protocol of the registry that leaks, for the test below.
const LEAKED: &str = "dh";

/// Frames that are as long as there are matches.
const LEAK: Kind = Kind {
    code: 199,
    name: "leak",
};

/// A protocol whose receiver tells the sender how many items match, in as many bytes.
struct Leaky;

fn sound() -> &'static dyn Protocol {
    Registry::standard().get(LEAKED).unwrap()
}

impl Protocol for Leaky {
    fn spec(&self) -> &'static Spec {
        sound().spec()
    }

    fn reveals(&self) -> &'static [Reveal] {
        sound().reveals()
    }

    fn traffic(&self, _: &Params, _: &Task, _: Option<u32>, _: bool) -> Option<Traffic> {
        None
    }

    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> Prepared {
        sound().prepare(items, rng)
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, WireError> {
        let output = sound().receive(channel, params, task, input, prepared, rng)?;
        let matched = output.matched().unwrap_or_default();
        let count = matched.iter().filter(|matched| **matched).count();
        channel.send(LEAK, vec![0; count])?;
        channel.flush()?;
        Ok(output)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, WireError> {
        let output = sound().send(channel, params, task, input, prepared, rng)?;
        channel.recv(LEAK, params.receiver_size)?;
        Ok(output)
    }
}

static LEAKY: [&dyn Protocol; 1] = [&Leaky];

/// In every run of a protocol that leaks it is seen, between each two numbers of matches.
#[test]
fn a_planted_leak_is_seen() {
    let registry = Registry::of(&LEAKY);
    let runs = EveryRun::of(registry, &Leaky, &changes());
    assert!(runs.len() > 3);
    for run in runs {
        let told = told(&run, |shared| Some(run.take(shared))).unwrap();
        let leaks =
            |what: &String| what.contains(": receiver: frame") && what.contains("of kind 199");
        assert!(
            told.len() >= 3 && told.iter().all(leaks),
            "{}: {told:?}",
            run.name
        );
    }
    let runs = EveryRun::of(registry, &Leaky, &changes_of_tasks());
    let told: Vec<_> = runs
        .iter()
        .filter_map(|run| told(run, |shared| run.take_as_tasks(shared)))
        .collect();
    assert!(
        told.len() > 3 && told.iter().all(|told| told.len() >= 3),
        "{told:?}"
    );
}
