//! Sets larger than memory, runs resumed after a failure, and senders who learn the matches.

use crate::support::{Arguments, Ended, Pair, Place, Running, csv_of, exchange};
use crate::tables::{HEADER, plain, rows};

/// The protocol that takes least time for many small buckets.
const DH: &str = "--protocol dh --security semi-honest";
/// Cuts the sets of [`large_place`] into eight.
const EIGHT: &str = "--memory 218K";

/// The same for [`long_place`], one at a time.
const EIGHT_OF_LONG: &str = "--memory 1117K --threads 1";
/// The same, two at a time.
const PAIRS_OF_LONG: &str = "--memory 2234K --threads 4";

/// Two tables of some two thousand keys, and the rows that are to come out for each side.
fn large_place() -> (Place, [Arguments; 2], [String; 2]) {
    place_of(3000, 4000)
}

/// The same with so many keys that a run can be stopped on its way.
fn long_place() -> (Place, [Arguments; 2], [String; 2]) {
    place_of(20_000, 25_000)
}

fn place_of(count: u64, range: u64) -> (Place, [Arguments; 2], [String; 2]) {
    let place = Place::new();
    let (ours, theirs) = (rows(count, 1, range), rows(count - 100, 2, range));
    place.write("ours.csv", csv_of(&HEADER, &ours));
    place.write("theirs.csv", csv_of(&HEADER, &theirs));
    let expected = [
        csv_of(&HEADER, &plain(&ours, 1, &theirs, 1)),
        csv_of(&HEADER, &plain(&theirs, 1, &ours, 1)),
    ];
    let arguments = [
        Arguments::new("ours.csv", "key").output("out.csv").with(DH),
        Arguments::new("theirs.csv", "key").with(DH),
    ];
    (place, arguments, expected)
}

fn with(arguments: &[Arguments; 2], receiver: &str, sender: &str) -> [Arguments; 2] {
    let [a, b] = arguments.clone();
    [a.with(receiver), b.with(sender)]
}

fn run(place: &Place, arguments: &[Arguments; 2]) -> Pair {
    exchange(place, &arguments[0], &arguments[1])
}

fn report(place: &Place, name: &str) -> serde_json::Value {
    serde_json::from_str(&place.read(name)).unwrap()
}

#[test]
fn buckets_give_what_one_run_gives() {
    let (place, arguments, expected) = large_place();
    let before = place.names();
    // Both sides limited, on disk; then one, and the other holds its keys in memory.
    for (receiver, sender) in [(EIGHT, EIGHT), (EIGHT, ""), ("", EIGHT)] {
        let reports = ["--report ours.json --threads 1", "--report theirs.json"];
        let limited = with(&arguments, receiver, sender);
        let pair = run(&place, &with(&limited, reports[0], reports[1]));
        pair.expect_success();
        assert!(place.read("out.csv") == expected[0], "{receiver} {sender}");
        for ended in [&pair.receiver, &pair.sender] {
            for number in 1..=8 {
                let line = format!("bucket {number} of 8\n");
                assert!(ended.err.contains(&line), "{line} not in {}", ended.err);
            }
            assert!(ended.err.contains("buckets         8"), "{}", ended.err);
        }
        // Who keeps keys on the disk says so, and before reading.
        for (ended, limit) in [(&pair.receiver, receiver), (&pair.sender, sender)] {
            let said = ended.err.find(" rows may take 218K of memory, and up to ");
            assert_eq!(said.is_some(), limit == EIGHT, "{}", ended.err);
            assert!(said < ended.err.find("read "), "{}", ended.err);
        }
        let (ours, theirs) = (report(&place, "ours.json"), report(&place, "theirs.json"));
        assert_eq!(ours["contract"], theirs["contract"]);
        assert_eq!(ours["contract"]["buckets"], 8);
        assert!(
            ours["contract"]["receiver_bucket"].as_u64().unwrap()
                > ours["items"].as_u64().unwrap() / 8
        );
        assert!(theirs["matches"].is_null());
        assert_eq!(ours["rows"], 3000);
        assert_eq!(ours["peer_items"], theirs["items"]);
        for name in ["out.csv", "ours.json", "theirs.json"] {
            std::fs::remove_file(place.path(name)).unwrap();
        }
        assert_eq!(place.names(), before);
    }
}

#[test]
fn too_little_memory_and_bad_limits() {
    let (place, arguments, _) = large_place();
    let before = place.names();
    let pair = run(&place, &with(&arguments, "--memory 1K", ""));
    pair.receiver.expect_failure(7, "memory");
    pair.sender.expect_failure(7, "memory");
    let nobody = "--connect 127.0.0.1:1";
    for (words, text) in [
        ("--memory 0", "size"),
        ("--memory 4X", "size"),
        ("--threads 0", "threads"),
        ("--work-dir no/where", "no/where"),
        (
            "--work-dir ours.csv",
            "--work-dir and --input are the same file",
        ),
    ] {
        let receiver = arguments[0].clone().with(words);
        place
            .receiver(&receiver, nobody)
            .wait()
            .expect_failure(2, text);
    }
    place
        .sender(&arguments[1].clone().output("x.csv"), nobody)
        .wait()
        .expect_failure(2, "--both");
    assert_eq!(place.names(), before);
}

#[test]
fn a_sender_learns_where_both_agree_to_it() {
    let (place, arguments, expected) = large_place();
    for limit in ["", EIGHT] {
        let [receiver, sender] = with(&arguments, "--both --report ours.json", "--both");
        let sender = sender.output("theirs-out.csv").with("--report theirs.json");
        let pair = run(&place, &with(&[receiver, sender], limit, limit));
        pair.expect_success();
        assert!(place.read("out.csv") == expected[0], "{limit}");
        assert!(place.read("theirs-out.csv") == expected[1], "{limit}");
        let (ours, theirs) = (report(&place, "ours.json"), report(&place, "theirs.json"));
        assert_eq!(ours["contract"]["learns"], "both");
        assert!(ours["matches"].as_u64().unwrap() > 500);
        assert_eq!(ours["matches"], theirs["matches"]);
        assert!(
            pair.sender.err.contains("rows written"),
            "{}",
            pair.sender.err
        );
    }
    // Without a file, to standard output; and not unless both say so.
    let pair = run(&place, &with(&arguments, "--both", "--both"));
    pair.receiver.expect_success();
    pair.sender.expect_success();
    assert!(pair.sender.text() == expected[1]);
    let pair = run(&place, &with(&arguments, "", "--both"));
    pair.receiver.expect_failure(6, "who learns");
    pair.sender.expect_failure(6, "who learns");
}

/// As [`stopped_at`], for bucket 3.
fn stopped_at_bucket_three(
    place: &Place,
    arguments: &[Arguments; 2],
    stop_receiver: bool,
    end: impl Fn(Running),
) {
    stopped_at("bucket 3 of 8", place, arguments, stop_receiver, end);
}

/// Runs until a party begins this bucket, ends that party by `end`, and waits for the other.
fn stopped_at(
    bucket: &str,
    place: &Place,
    arguments: &[Arguments; 2],
    stop_receiver: bool,
    end: impl Fn(Running),
) {
    let mut sender = place.sender(&arguments[1], "--listen 127.0.0.1:0");
    let mut receiver = place.receiver(&arguments[0], &sender.endpoint());
    let other = if stop_receiver {
        receiver.wait_for(bucket);
        end(receiver);
        sender
    } else {
        sender.wait_for(bucket);
        end(sender);
        receiver
    };
    other.wait().expect_failure(4, "");
    assert!(!place.names().contains(&"out.csv".to_owned()));
}

/// Ends the process without a word, as a crash or a power cut would.
fn kill(mut party: Running) {
    party.process.kill().unwrap();
    party.process.wait().unwrap();
}

#[test]
fn a_killed_run_goes_on_where_it_stopped() {
    for (limits, bucket, stop_receiver) in [
        (EIGHT_OF_LONG, "bucket 3 of 8", true),
        (EIGHT_OF_LONG, "bucket 3 of 8", false),
        // What is recorded of two buckets is so while the next two run.
        (PAIRS_OF_LONG, "bucket 5 of 8", true),
        (PAIRS_OF_LONG, "bucket 5 of 8", false),
    ] {
        let (place, arguments, expected) = long_place();
        let limits = format!("{limits} --both --work-dir");
        let arguments = with(
            &arguments,
            &format!("{limits} near"),
            &format!("{limits} far"),
        );
        let [receiver, sender] = arguments;
        let arguments = [receiver, sender.output("theirs-out.csv")];
        stopped_at(bucket, &place, &arguments, stop_receiver, kill);
        assert!(place.path("near/journal").exists() && place.path("far/journal").exists());

        let pair = run(&place, &arguments);
        pair.expect_success();
        for ended in [&pair.receiver, &pair.sender] {
            assert!(!ended.err.contains("\nbucket 1 of 8"), "{}", ended.err);
            assert!(ended.err.contains("bucket 8 of 8"), "{}", ended.err);
        }
        assert!(place.read("out.csv") == expected[0]);
        assert!(place.read("theirs-out.csv") == expected[1]);
        assert!(!place.path("near").exists() && !place.path("far").exists());
    }
}

/// Kills either side of runs with buckets side by side, each at another time: whatever stage that interrupts, the next run
/// gives the right rows.
fn killed_at_random(lives: u64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // xorshift64.
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut interrupted = 0;
    for _ in 0..lives {
        let (place, arguments, expected) = long_place();
        let limits = format!("{PAIRS_OF_LONG} --wait 8 --both --work-dir");
        let [receiver, sender] = with(
            &arguments,
            &format!("{limits} near"),
            &format!("{limits} far"),
        );
        let sender = sender.output("theirs-out.csv");
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let start = || {
            let sender = place.sender(&sender, &format!("--listen {address}"));
            let receiver = place.receiver(&receiver, &format!("--connect {address}"));
            [receiver, sender]
        };
        for _ in 0..1 + random(3) {
            let mut sides = start();
            let killed = &mut sides[random(2) as usize];
            std::thread::sleep(std::time::Duration::from_millis(random(1500)));
            interrupted += u64::from(!killed.has_ended());
            killed.process.kill().unwrap();
            sides.into_iter().for_each(|side| drop(side.wait()));
        }
        // A side that was through has its rows, and waits for nobody who comes.
        start().into_iter().for_each(|side| drop(side.wait()));
        assert!(place.read("out.csv") == expected[0]);
        assert!(place.read("theirs-out.csv") == expected[1]);
    }
    assert!(interrupted > 0);
}

#[test]
fn runs_killed_at_random_end_with_the_right_rows() {
    killed_at_random(2);
}

#[test]
#[ignore = "takes some minutes"]
fn many_runs_killed_at_random_end_with_the_right_rows() {
    killed_at_random(100);
}

#[test]
fn a_run_goes_on_only_as_the_same_job_with_the_same_peer() {
    let (place, arguments, expected) = long_place();
    let [near, far] = ["near", "far"].map(|name| format!("{EIGHT_OF_LONG} --work-dir {name}"));
    let arguments = with(&arguments, &near, &far);
    stopped_at_bucket_three(&place, &arguments, true, kill);

    // Other options, another peer, another identity, and a journal that somebody has changed.
    let nobody = "--connect 127.0.0.1:1";
    let journal = std::fs::read(place.path("near/journal")).unwrap();
    let refused = |receiver: &Arguments, word: &str| {
        let ended = place.receiver(receiver, nobody).wait();
        ended.expect_failure(2, word);
    };
    refused(&arguments[0].clone().with("--lambda 64"), "other options");
    let third = vesica::Identity::generate().unwrap();
    let stranger = format!("--peer {}", third.fingerprint());
    refused(&arguments[0].clone().with(&stranger), "another peer");
    let sender = arguments[1].clone().with("--work-dir near");
    place.sender(&sender, nobody).wait().expect_failure(2, "");
    for at in (0..journal.len()).step_by(journal.len() / 50) {
        let mut changed = journal.clone();
        changed[at] ^= 4;
        place.write("near/journal", &changed);
        refused(&arguments[0], "damaged");
    }
    place.write("near/journal", &journal);

    // A peer that has nothing to go on from: both start over.
    std::fs::remove_dir_all(place.path("far")).unwrap();
    let pair = run(&place, &arguments);
    pair.expect_success();
    let said = |ended: &Ended, line: &str| assert!(ended.err.contains(line), "{}", ended.err);
    said(&pair.receiver, "starting over: the peer has kept nothing");
    for ended in [&pair.receiver, &pair.sender] {
        said(ended, "bucket 1 of 8");
    }
    assert!(place.read("out.csv") == expected[0]);
    assert!(!place.path("near").exists() && !place.path("far").exists());
}

/// Whatever changes between a run that broke off and the next, the result is that of the next.
#[test]
fn what_an_earlier_run_found_enters_no_other_result() {
    let (place, arguments, expected) = long_place();
    let limited = with(
        &arguments,
        &format!("{EIGHT_OF_LONG} --work-dir near"),
        &format!("{EIGHT_OF_LONG} --work-dir far"),
    );
    let in_memory = with(&arguments, "--work-dir near", "--work-dir far");
    let (mine, own, theirs) = ("ours.csv", place.read("ours.csv"), place.read("theirs.csv"));
    let (header, rows) = theirs.split_once('\n').unwrap();
    let others = format!("{header}\n{}", rows.replace(",k", ",z"));
    assert_ne!(others, theirs);
    // A table of the same size and time, in which the keys have moved to other rows.
    let mut lines: Vec<&str> = own.lines().collect();
    lines[1..].reverse();
    let moved = lines.join("\n") + "\n";

    let cases: [(&str, &str, &[Arguments; 2], [&str; 2]); 3] = [
        // With memory enough for one bucket, the earlier run's number of buckets counts.
        (
            &own,
            &theirs,
            &in_memory,
            ["going on after bucket", "going on after bucket"],
        ),
        (
            &own,
            &others,
            &in_memory,
            ["over: the peer's keys", "over: this side's keys"],
        ),
        (
            &moved,
            &theirs,
            &limited,
            ["over: this side's keys", "over: the peer's keys"],
        ),
    ];
    for (case, (ours, theirs_now, arguments, said)) in cases.into_iter().enumerate() {
        place.write(mine, &own);
        place.write("theirs.csv", &theirs);
        let times =
            ["ours.csv", "theirs.csv"].map(|n| place.path(n).metadata().unwrap().modified());
        stopped_at_bucket_three(&place, &limited, case % 2 == 0, kill);
        for ((name, text), time) in [(mine, ours), ("theirs.csv", theirs_now)]
            .into_iter()
            .zip(times)
        {
            place.write(name, text);
            let file = std::fs::File::options()
                .write(true)
                .open(place.path(name))
                .unwrap();
            file.set_modified(time.unwrap()).unwrap();
        }
        let pair = run(&place, arguments);
        pair.expect_success();
        for (ended, said) in [&pair.receiver, &pair.sender].into_iter().zip(said) {
            assert!(ended.err.contains(said), "{case}: {}", ended.err);
        }
        let result = place.read("out.csv");
        match (case, theirs_now == others) {
            (_, true) => assert_eq!(
                result,
                expected[0].lines().next().unwrap().to_owned() + "\n"
            ),
            (0, false) => assert!(result == expected[0]),
            (_, false) => {
                let mut lines: Vec<&str> = expected[0].lines().collect();
                lines[1..].reverse();
                assert!(result == lines.join("\n") + "\n");
            }
        }
        std::fs::remove_file(place.path("out.csv")).unwrap();
        assert!(!place.path("near").exists() && !place.path("far").exists());
    }
}

/// A directory whose file system is full, in place of the one of the output.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_could_not_be_written_is_written_without_the_peer() {
    for limit in ["", EIGHT] {
        let (place, arguments, expected) = large_place();
        let before = place.names();
        let arguments = with(&arguments, limit, limit);
        let [receiver, sender] = with(&arguments, "--work-dir near", "");
        // The output is no part of the job.
        let full = receiver.clone().without("--output").output("/dev/full");
        let pair = exchange(&place, &full, &sender);
        pair.receiver.expect_failure(7, "/dev/full");
        let hint = pair.receiver.hint();
        assert!(
            hint.contains("the same run again, to another output"),
            "{hint}"
        );
        pair.sender.expect_success();
        assert!(place.path("near/journal").exists());

        // Not for another table, not with other options; and nobody is asked.
        let nobody = "--connect 127.0.0.1:1 --wait 0.2";
        let other = Arguments::new("theirs.csv", "key")
            .output("out.csv")
            .with(DH);
        let [other, _] = with(&[other, sender.clone()], limit, "");
        let ended = place
            .receiver(&other.with("--work-dir near"), nobody)
            .wait();
        ended.expect_failure(4, "127.0.0.1:1");
        let lambda = receiver.clone().with("--lambda 64");
        let ended = place.receiver(&lambda, nobody).wait();
        ended.expect_failure(2, "other options");
        assert!(ended.hint().contains("repeat its options"), "{}", ended.err);
        assert!(place.path("near/journal").exists());
        // No port is opened either: when it closes would tell how much there was to write.
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = format!("--listen {}", taken.local_addr().unwrap());
        let ended = place
            .receiver(&receiver.clone().with("--report r.json"), &taken)
            .wait();
        ended.expect_success();
        assert!(
            ended.err.contains("the answer was found at 20"),
            "{}",
            ended.err
        );
        assert!(
            ended.err.contains("writing it without the peer"),
            "{}",
            ended.err
        );
        assert!(place.read("out.csv") == expected[0], "{limit}");
        let report = report(&place, "r.json");
        assert!(report["computed"].as_str().unwrap().starts_with("20"));
        assert_eq!(
            report["rows_written"],
            expected[0].lines().count() as u64 - 1
        );
        for name in ["out.csv", "r.json"] {
            std::fs::remove_file(place.path(name)).unwrap();
        }
        assert_eq!(place.names(), before);
    }
}

/// Two tables in part files, both larger than the memory, which the process may not exceed by much.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "2 million rows on each side"]
fn large_part_files_within_memory() {
    const ROWS: usize = 1 << 21;
    let place = Place::new();
    let key = |n: usize| {
        format!(
            "{:012x},{n}\n",
            (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
        )
    };
    for (directory, first) in [("ours", 0), ("theirs", ROWS / 2)] {
        std::fs::create_dir(place.path(directory)).unwrap();
        for part in 0..16 {
            let start = first + part * (ROWS / 16);
            let rows: String = (start..start + ROWS / 16).map(key).collect();
            place.write(
                &format!("{directory}/part-{part:02}.csv"),
                format!("id,n\n{rows}"),
            );
        }
    }
    let table = |name| {
        let limits = "--memory 128M --threads 2 --report report.json";
        Arguments::new(name, "id")
            .with(limits)
            // Of this, the C library reserves 64 MiB for each thread; without --memory it is not enough.
            .after("ulimit -v 550000")
    };
    let ours = table("ours").output("out.csv");
    exchange(&place, &ours, &table("theirs").without("--report")).expect_success();
    let found = place.read("out.csv");
    let expected: String = (ROWS / 2..ROWS).map(key).collect();
    assert!(found == format!("id,n\n{expected}"));
    assert!(report(&place, "report.json")["contract"]["buckets"].as_u64() > Some(1));
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_what_a_run_can_go_on_from() {
    use nix::sys::signal::Signal;
    let (place, arguments, expected) = long_place();
    let before = place.names();
    let interrupt = |party: Running| {
        party.signal(Signal::SIGINT);
        party.wait().expect_failure(130, "interrupted");
    };
    // Nothing without a directory to leave it in.
    for limits in [EIGHT_OF_LONG, PAIRS_OF_LONG] {
        let limited = with(&arguments, limits, limits);
        stopped_at_bucket_three(&place, &limited, true, interrupt);
        assert_eq!(place.names(), before);
    }
    let limited = with(&arguments, EIGHT_OF_LONG, EIGHT_OF_LONG);

    let limited = with(&limited, "--work-dir near", "--work-dir far");
    stopped_at_bucket_three(&place, &limited, true, interrupt);
    let pair = run(&place, &limited);
    pair.expect_success();
    assert!(
        !pair.receiver.err.contains("\nbucket 1 of 8"),
        "{}",
        pair.receiver.err
    );
    assert!(place.read("out.csv") == expected[0]);
    std::fs::remove_file(place.path("out.csv")).unwrap();
    assert_eq!(place.names(), before);
}
