//! Runs under fixed seeds of every protocol, of all that it reveals and of every term: each frame that either side
//! sends, and both reports, are those that `vectors/session/frames.txt` has recorded.
//!
//! A change that is meant to leave the wire alone leaves that file alone. One that is not writes it anew, by this test
//! with `VESICA_RECORD_FRAMES=1`, and the difference of the file shows what it has changed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::thread;

use vesica_psi::Protocol;
use vesica_testing::Sent;

use crate::every_run::{CHANGES, EveryRun, SHARED};
use crate::{Error, Registry, Report, Role};

/// What both sides of a run send.
fn frames(name: &str, sent: &[Sent; 2]) -> String {
    let mut lines = format!("{name}\n");
    for (role, sent) in [Role::Receiver, Role::Sender].iter().zip(sent) {
        let _ = writeln!(lines, "  {role} sends{}", sent.frames());
    }
    lines
}

/// What is written down of a report: all of it, or what was found and hashes of the contract and of all.
fn in_words(report: Result<Report, Error>, is_usual: bool) -> String {
    let report = match report {
        Ok(report) => report,
        Err(error) => return error.to_string(),
    };
    let all = serde_json::to_value(&report).unwrap().to_string();
    let contract = &report.contract.hash[..8];
    let found = (
        report.matches,
        report.value.map(|value| value.units),
        report.below,
    );
    let by_group = report.groups.iter().flatten();
    let by_group = by_group.flat_map(|group| group.values.iter().flatten());
    let several = report.values.iter().flatten().chain(by_group);
    let several: String = several
        .map(|(name, value)| format!("{name} {} ", value.units))
        .collect();
    match is_usual {
        true => all,
        false => format!(
            "{found:?} {several}{contract} {}",
            &blake3::hash(all.as_bytes()).to_hex()[..8]
        ),
    }
}

/// A run, written down.
fn lines(run: &EveryRun<'_>) -> String {
    let taken = run.take(SHARED);
    let made = taken.made.as_ref();
    let mut lines = made.map_or_else(String::new, |made| {
        frames(&format!("{}, offline", run.name), made)
    });
    lines += &frames(&run.name, &taken.sent);
    for (role, report) in [Role::Receiver, Role::Sender].iter().zip(taken.reports) {
        let _ = writeln!(lines, "  {role} has {}", in_words(report, run.is_usual));
    }
    lines
}

/// All runs of a protocol, with each change by itself.
fn runs(protocol: &dyn Protocol) -> String {
    let changes = CHANGES.map(|(words, change)| (words.to_owned(), vec![change]));
    let runs = EveryRun::of(*Registry::standard(), protocol, &changes);
    runs.iter().map(lines).collect()
}

#[test]
fn frames_and_reports_are_those_that_are_recorded() {
    let protocols = Registry::standard().all();
    let lines: String = thread::scope(|scope| {
        let runs: Vec<_> = protocols.iter().map(|p| scope.spawn(|| runs(*p))).collect();
        runs.into_iter().map(|runs| runs.join().unwrap()).collect()
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/session/frames.txt");
    if std::env::var_os("VESICA_RECORD_FRAMES").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap();
    for (line, (now, then)) in (1..).zip(lines.lines().zip(recorded.lines())) {
        assert_eq!(now, then, "line {line} of {}", path.display());
    }
    assert_eq!(lines.len(), recorded.len());
}
