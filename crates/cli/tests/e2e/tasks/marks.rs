//! What tasks leave is on the disk before the peer hears anything that follows from it, whatever happens to the machine then.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::cheats::{FIRST, Insider, cases};
use super::{place_of_keys, split_keys, succeed};
use crate::recorder::{Recorder, Recording};
use crate::support::{Place, Running};
use crate::system_faults::library;

fn bucket(place: &Place, first: &str, job: &str, endpoint: &str) -> Running {
    let words = format!("bucket --job {job} --bucket 0 --threads 1 --wait 20 {endpoint}");
    place.start_after(first, &words)
}

fn names(all: &[&str]) -> BTreeSet<PathBuf> {
    let of = |name: &&str| PathBuf::from(name.replace(':', "/bucket-0.attempt-0."));
    all.iter().map(of).collect()
}

/// What a recording shows, and what it would if nothing were synchronised: so this test can fail.
fn check(recording: Recording, marks: &[&str]) {
    // A lock is of no use to any other process than its own.
    let told = |recording: &Recording| {
        let mut early = recording.told_too_early();
        early.retain(|name| !name.ends_with("bucket-0.lock"));
        early
    };
    assert_eq!(told(&recording), BTreeSet::new());
    assert_eq!(told(&recording.without_syncs()), names(marks));
}

#[test]
fn what_a_task_marks_lasts_before_the_peer_hears_more() {
    let Some(library) = library() else { return };
    for (words, marks) in [
        (
            "--protocol vole --both",
            &[
                "near:begun",
                "near:unconfirmed",
                "near:bits",
                "near:confirmed",
                "far:begun",
                "far:unconfirmed",
                "far:staked",
                "far:bits",
                "far:confirmed",
            ][..],
        ),
        (
            "--reveal size --security semi-honest",
            &[
                "near:begun",
                "near:unconfirmed",
                "near:shares",
                "near:confirmed",
                "far:begun",
                "far:unconfirmed",
                "far:shares",
                "far:confirmed",
            ],
        ),
    ] {
        let place = place_of_keys(40);
        succeed(split_keys(&place, ["near", "far"], words));
        let recorder = Recorder::new(&place.path(""), library);
        let first = recorder.before();
        let mut far = bucket(&place, &first, "far", "--listen 127.0.0.1:0");
        let near = bucket(&place, &first, "near", &far.endpoint());
        let processes = [near.process.id(), far.process.id()];
        succeed([near.wait(), far.wait()]);
        let recording = recorder.recorded(&processes);
        // A side has its result before the other hears that it is done, and the sender says so last.
        let named = |job: &str, mark: &str| {
            let name = format!("{job}/bucket-0.attempt-0.{mark}");
            recording
                .named(&name)
                .unwrap_or_else(|| panic!("no {name}"))
        };
        let result = if words.contains("size") {
            "shares"
        } else {
            "bits"
        };
        for [earlier, later] in [
            [("near", result), ("far", "confirmed")],
            [("far", result), ("near", "confirmed")],
            [("far", "confirmed"), ("near", "confirmed")],
        ] {
            assert!(
                named(earlier.0, earlier.1) < named(later.0, later.1),
                "{words}: {later:?}"
            );
        }
        check(recording, marks);
    }
}

#[test]
fn what_ends_a_job_lasts_before_the_peer_hears_it() {
    let Some(library) = library() else { return };
    let case = cases()
        .find(|case| case.what == "a matrix that does not pass its check")
        .unwrap();
    let place = place_of_keys(40);
    succeed(split_keys(&place, ["near", "far"], case.terms));
    let recorder = Recorder::new(&place.path(""), library);
    let mut far = bucket(&place, &recorder.before(), "far", "--listen 127.0.0.1:0");
    let endpoint = far.endpoint();
    assert!(Insider::of(&place, "near").cheat(FIRST, case, &endpoint));
    let process = far.process.id();
    far.wait().expect_failure(5, "is of a job that is over");
    let recording = recorder.recorded(&[process]);
    assert!(place.path("far/over.json").exists());
    check(
        recording,
        &["far:begun", "far:unconfirmed", "far/over.json"],
    );
}
