//! Jobs whose buckets are tasks of their own.

#[cfg(target_os = "linux")]
mod cheats;
mod ends;
mod examples;
mod lives;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod marks;
mod noise;
mod options;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::faults::memory_of_buckets;
use crate::support::{Ended, Place, Running, csv_of};
use crate::tables::{HEADER, plain, rows};

/// Cuts the tables of [`place`] into eight buckets.
const WORDS: &str =
    "--protocol dh --security semi-honest --task-memory 180K --both --key key --progress plain";

/// Two tables, and the rows that are to come out on each side.
fn place() -> (Place, [String; 2]) {
    let place = Place::new();
    let (ours, theirs) = (rows(3000, 1, 4000), rows(2900, 2, 4000));
    place.write("ours.csv", csv_of(&HEADER, &ours));
    place.write("theirs.csv", csv_of(&HEADER, &theirs));
    let expected = [
        csv_of(&HEADER, &plain(&ours, 1, &theirs, 1)),
        csv_of(&HEADER, &plain(&theirs, 1, &ours, 1)),
    ];
    (place, expected)
}

fn start(place: &Place, words: &str) -> Running {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    Running::start(place.command(&words))
}

/// Both drivers, which leave these directories.
fn split(place: &Place, jobs: [&str; 2]) -> [Ended; 2] {
    split_by(place, jobs, WORDS)
}

fn split_by(place: &Place, [near, far]: [&str; 2], words: &str) -> [Ended; 2] {
    let (receiver, sender) = (place.receiver, place.sender);
    let far = format!(
        "split --role sender --input theirs.csv --job {far} {words} --identity sender.key --peer {receiver} --listen 127.0.0.1:0"
    );
    let mut far = start(place, &far);
    let endpoint = far.endpoint();
    let near = format!(
        "split --role receiver --input ours.csv --job {near} {words} --identity receiver.key --peer {sender} {endpoint}"
    );
    [start(place, &near).wait(), far.wait()]
}

/// Two tables of so many keys, which are the same.
pub(crate) fn place_of_keys(keys: u64) -> Place {
    let place = Place::new();
    let rows: Vec<Vec<String>> = (0..keys).map(|key| vec![key.to_string()]).collect();
    for table in ["ours.csv", "theirs.csv"] {
        place.write(table, csv_of(&["id"], &rows));
    }
    place
}

/// Splits those tables, in one bucket.
pub(crate) fn split_keys(place: &Place, jobs: [&str; 2], words: &str) -> [Ended; 2] {
    split_by(place, jobs, &format!("--key id --progress plain {words}"))
}

fn task(place: &Place, (job, bucket, attempt): (&str, u32, u32), words: &str) -> Running {
    start(
        place,
        &format!(
            "bucket --job {job} --bucket {bucket} --attempt {attempt} --progress plain --threads 1 {words}"
        ),
    )
}

/// A task of each side, for these jobs, buckets and attempts. The one that listens waits for so many seconds.
fn tasks_within(
    place: &Place,
    near: (&str, u32, u32),
    far: (&str, u32, u32),
    seconds: u32,
) -> [Ended; 2] {
    let mut far = task(
        place,
        far,
        &format!("--listen 127.0.0.1:0 --wait {seconds}"),
    );
    let Some(endpoint) = far.endpoint_if_any() else {
        panic!("{}", far.wait().err);
    };
    let words = format!("{endpoint} --wait {seconds}");
    [task(place, near, &words).wait(), far.wait()]
}

fn tasks(place: &Place, near: (&str, u32, u32), far: (&str, u32, u32)) -> [Ended; 2] {
    tasks_within(place, near, far, 60)
}

pub(crate) fn succeed(both: [Ended; 2]) {
    both.iter().for_each(Ended::expect_success);
}

fn collect(place: &Place, job: &str, input: &str) -> Ended {
    place.run(&format!(
        "collect --job {job} --input {input} --key key --output {job}.csv"
    ))
}

fn buckets(place: &Place, job: &str) -> u32 {
    let job: serde_json::Value =
        serde_json::from_str(&place.read(&format!("{job}/job.json"))).unwrap();
    job["contract"]["buckets"].as_u64().unwrap() as u32
}

#[test]
fn tasks_find_what_one_run_finds() {
    let (place, expected) = place();
    succeed(split(&place, ["near", "far"]));
    let count = buckets(&place, "near");
    assert_eq!((count, buckets(&place, "far")), (8, 8));
    // What is on the disk depends on the contract alone, and is for this user.
    let of = |path: &Path| path.metadata().unwrap();
    let mut lengths: Vec<u64> = Vec::new();
    for bucket in 0..count {
        let keys = of(&place.path(&format!("near/bucket-{bucket}.keys")));
        lengths.push(keys.len());
        assert_eq!(keys.permissions().mode() & 0o777, 0o600);
    }
    assert!(lengths.iter().all(|length| *length == lengths[0]));
    assert_eq!(
        of(&place.path("near/job.json")).permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(of(&place.path("near")).permissions().mode() & 0o777, 0o700);

    collect(&place, "near", "ours.csv").expect_failure(2, "has no result of bucket 0");
    for bucket in (0..count).rev() {
        let task = |job| (job, bucket, 0);
        succeed(tasks(&place, task("near"), task("far")));
    }
    let bits = |bucket| of(&place.path(&format!("near/bucket-{bucket}.attempt-0.bits"))).len();
    assert!((0..count).all(|bucket| bits(bucket) == bits(0)));
    for (job, input, expected) in [
        ("near", "ours.csv", &expected[0]),
        ("far", "theirs.csv", &expected[1]),
    ] {
        collect(&place, job, input).expect_success();
        assert!(place.read(&format!("{job}.csv")) == *expected);
    }
}

/// As a run does, by any of several identifiers.
#[test]
fn tasks_find_rows_by_any_of_their_identifiers() {
    let place = Place::new();
    let rows = |range: std::ops::Range<u32>, shift: u32| {
        let row = |i: u32| {
            let tel = (i * 7 + shift) % 5000;
            format!("{i},m{};x{shift}-{i},t{tel}\n", i + shift)
        };
        format!("id,mail,tel\n{}", range.map(row).collect::<String>())
    };
    place.write("ours.csv", rows(0..1500, 0));
    place.write("theirs.csv", rows(0..1200, 1000));
    let key = "--match mail=mail --match tel=tel --split mail=;";
    let words =
        format!("--protocol dh --security semi-honest --task-memory 180K --progress plain {key}");
    succeed(split_by(&place, ["near", "far"], &words));
    let count = buckets(&place, "near");
    assert!(count > 1, "{count}");
    for bucket in 0..count {
        succeed(tasks(&place, ("near", bucket, 0), ("far", bucket, 0)));
    }
    let collected =
        format!("collect --job near --input ours.csv {key} --matched-by how --output out.csv");
    place.run(&collected).expect_success();
    let theirs: std::collections::HashSet<u32> = (0..1200).map(|i| (i * 7 + 1000) % 5000).collect();
    let expected = (0..1500).filter_map(|i: u32| {
        let by = match (i >= 1000, theirs.contains(&(i * 7 % 5000))) {
            (true, _) => "mail",
            (false, true) => "tel",
            (false, false) => return None,
        };
        Some(format!("{i},m{i};x0-{i},t{},{by}\n", i * 7 % 5000))
    });
    let expected = format!("id,mail,tel,how\n{}", expected.collect::<String>());
    assert_eq!(place.read("out.csv"), expected);
}

#[test]
fn what_tasks_can_do_wrong_is_an_exact_error() {
    let (place, expected) = place();
    succeed(split(&place, ["near", "far"]));
    let sender = place.sender;
    let again = format!(
        "split --role receiver --input ours.csv --job near {WORDS} --identity receiver.key --peer {sender} --connect 127.0.0.1:1"
    );
    place.run(&again).expect_failure(2, "has a job already");
    succeed(split(&place, ["near-2", "far-2"]));
    let fail = |near, far, code, line: &str| {
        let [near, far] = tasks_within(&place, near, far, 2);
        near.expect_failure(code, line);
        far
    };
    // A task of another job, of this side, of another bucket, of another attempt.
    let line = "has no task of the peer with the key vs1:";
    fail(("near", 0, 0), ("far-2", 0, 0), 4, line);
    let line = "is this side's, and so is the task";
    let listening = fail(("near", 0, 0), ("near", 1, 0), 6, line);
    // The one that listens hears no more than that it is not the one.
    listening.expect_failure(4, "has met a task that expects another one");
    let hint = listening.hint();
    assert!(hint.contains("the address of its peer's"), "{hint}");
    // In the place of a file is something else.
    let lock = place.path("near/bucket-7.lock");
    std::fs::create_dir(&lock).unwrap();
    let ended = place.run("bucket --job near --bucket 7 --connect 127.0.0.1:1 --wait 1");
    ended.expect_failure(3, "has a file that is damaged or gone: bucket-7.lock (");
    assert!(!ended.hint().contains("space"), "{}", ended.err);
    std::fs::remove_dir(&lock).unwrap();
    let ended = place.run("bucket --job near --bucket 7 --gateway 127.0.0.1:1 --wait 1");
    ended.expect_failure(4, "nobody listens on 127.0.0.1:1");
    let hint = ended.hint();
    assert!(hint.contains("--admit JOB/gateway.json"), "{hint}");
    let ended = place.run("gateway --listen 127.0.0.1:0 --admit near/job.json");
    ended.expect_failure(
        2,
        "near/job.json: this is the record of a job, and not the admission",
    );
    // Both hear who has come, and that nobody else has.
    let met = |[theirs, ours]: [[u32; 2]; 2]| {
        let of = |[bucket, number]: [u32; 2]| format!("attempt {number} at bucket {bucket}");
        format!(
            "has met the peer's task for {} in the place of that for {}",
            of(theirs),
            of(ours)
        )
    };
    for [near, far] in [[[1, 0], [2, 0]], [[3, 0], [3, 1]]] {
        let (ours, theirs) = (("near", near[0], near[1]), ("far", far[0], far[1]));
        let ended = fail(ours, theirs, 4, &met([far, near]));
        ended.expect_failure(4, &met([near, far]));
        assert!(
            ended.hint().contains("`vesica attempts` prints"),
            "{}",
            ended.err
        );
    }
    // Whoever comes to the port of a task proves nothing about its peer.
    assert!(!place.path("near/over.json").exists() && !place.path("far/over.json").exists());
    let refused = |words: &str, code, line: &str| {
        let words = format!("bucket --job near {words} --connect 127.0.0.1:1");
        place.run(&words).expect_failure(code, line);
    };
    // The same attempt again, and another one after it has ended well.
    succeed(tasks(&place, ("near", 0, 0), ("far", 0, 0)));
    refused("--bucket 0", 2, "has had attempt 0 at bucket 0");
    let line = "has had an attempt at bucket 0 that the peer has confirmed, and makes no other";
    refused("--bucket 0 --attempt 1", 2, line);
    // More attempts than agreed, and a bucket that there is none of.
    refused("--bucket 0 --attempt 4", 2, "8 buckets of 4 attempts each");
    refused("--bucket 8", 2, "8 buckets of 4 attempts each");
    // Keys of another bucket in the place of these.
    let kept = std::fs::read(place.path("near/bucket-4.keys")).unwrap();
    std::fs::copy(
        place.path("near/bucket-5.keys"),
        place.path("near/bucket-4.keys"),
    )
    .unwrap();
    refused("--bucket 4", 3, "has other keys in bucket 4");
    place.write("near/bucket-4.keys", kept);

    // Attempts with other numbers find the rows.
    for bucket in 1..8 {
        let attempt = if bucket < 4 { 2 } else { 0 };
        let task = |job| (job, bucket, attempt);
        succeed(tasks(&place, task("near"), task("far")));
    }
    let table = place.read("ours.csv");
    place.write("ours.csv", table.replace(",k1", ",z1"));
    collect(&place, "near", "ours.csv").expect_failure(3, "has other keys in bucket");
    assert!(!place.path("near.csv").exists());
    place.write("ours.csv", table);
    collect(&place, "near", "ours.csv").expect_success();
    assert!(place.read("near.csv") == expected[0]);
    // What tasks have begun would count as attempts of the next job.
    std::fs::remove_file(place.path("near/job.json")).unwrap();
    place
        .run(&again)
        .expect_failure(2, "holds other files, such as bucket-0.attempt-0.begun");
}

/// The loops of both sides may be at other attempts for a while.
#[test]
fn tasks_that_cross_meet_once_the_attempts_are_the_same() {
    let place = place_of_keys(20);
    succeed(split_keys(&place, ["near", "far"], "--attempts 2"));
    let mut early = task(&place, ("far", 0, 0), "--listen 127.0.0.1:0 --wait 8");
    let address = early.address();
    let near = task(
        &place,
        ("near", 0, 1),
        &format!("--connect {address} --wait 20"),
    );
    early
        .wait()
        .expect_failure(4, "has met the peer's task for attempt 1 at bucket 0");
    let far = task(
        &place,
        ("far", 0, 1),
        &format!("--listen {address} --wait 20"),
    );
    succeed([near.wait(), far.wait()]);
}

/// Who has another identity, or names another peer, than the driver that split the table meets nobody.
#[test]
fn drivers_are_those_that_split_the_table() {
    let place = place_of_keys(20);
    let words = "--reveal size --security semi-honest";
    succeed(split_keys(&place, ["near", "far"], words));
    let (receiver, sender) = (place.receiver, place.sender);
    place.run("keygen --out third.key").expect_success();
    let third = place.run("fingerprint --identity third.key");
    let third = third.text().trim_end();
    let by =
        format!("near has a job that was split by the identity {receiver}, and not by {third}");
    let with =
        format!("near has a job that was split with the peer {sender}, and not with {third}");
    for command in ["attempts", "total"] {
        let refused = |identity: &str, peer: &str, line: &str, hint: &str| {
            let ended = place.run(&format!(
                "{command} --job near --identity {identity}.key --peer {peer} --connect 127.0.0.1:1 --wait 1"
            ));
            ended.expect_failure(2, line);
            assert!(ended.hint().contains(hint), "{}", ended.err);
        };
        refused("third", &sender.to_string(), &by, "give the identity");
        refused("receiver", third, &with, "--peer");
    }
    // A job of the version before does not say who they are.
    let job = place.read("near/job.json");
    place.write(
        "near/job.json",
        job.replace("\"format\": 3", "\"format\": 2"),
    );
    place
        .run("bucket --job near --bucket 0 --connect 127.0.0.1:1")
        .expect_failure(
            3,
            "has no job of this version: its files are of version 2, which the version",
        );
}

/// What is in a directory, in order.
fn files(place: &Place, directory: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(place.path(directory)).unwrap();
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = entries.map(|entry| file(entry.unwrap())).collect();
    files.sort();
    files
}

#[test]
fn the_directory_of_a_new_job_is_empty() {
    let place = place_of_keys(20);
    let words = "--security semi-honest --reveal size --both";
    succeed(split_keys(&place, ["near", "far"], words));
    succeed(tasks(&place, ("near", 0, 0), ("far", 0, 0)));
    succeed(total(&place, ["near", "far"]));
    // Whatever an earlier job has, and what nobody takes for this command's.
    let mut former = files(&place, "near");
    let names: Vec<&str> = former.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "bucket-0.attempt-0.begun",
        "bucket-0.attempt-0.confirmed",
        "bucket-0.attempt-0.shares",
        "bucket-0.keys",
        "bucket-0.lock",
        "gateway.json",
        "job.json",
        "opening-0.begun",
        "total",
    ];
    assert_eq!(names, expected);
    let others = [
        "bucket-0.attempt-0.bits",
        "over.json",
        "lock",
        "draft.json",
        "spark.json",
    ];
    former.extend(others.map(|name| (name.to_owned(), b"{}".to_vec())));
    let split = |directory: &str| {
        place.run(&format!(
            "split --role receiver --input ours.csv --key id --job {directory} --identity receiver.key --peer {} \
             --connect 127.0.0.1:1 --wait 1",
            place.sender
        ))
    };
    for (number, file) in former.into_iter().enumerate() {
        let directory = format!("new-{number}");
        std::fs::create_dir(place.path(&directory)).unwrap();
        place.write(&format!("{directory}/{}", file.0), &file.1);
        let line = match file.0.as_str() {
            "job.json" => "has a job already".to_owned(),
            name => format!("holds other files, such as {name}; name a new directory"),
        };
        split(&directory).expect_failure(2, &line);
        assert_eq!(files(&place, &directory), [file]);
    }
}

#[test]
fn two_drivers_do_not_share_a_directory() {
    let place = place_of_keys(20);
    let (receiver, sender) = (place.receiver, place.sender);
    let words = "--key id --progress plain --wait 20";
    let far = format!(
        "split --role sender --input theirs.csv {words} --identity sender.key --peer {receiver} --listen 127.0.0.1:0"
    );
    let mut first = start(&place, &format!("{far} --job far"));
    let endpoint = first.endpoint();
    place
        .run(&format!("{far} --job far"))
        .expect_failure(2, "far is in use by another run");
    let near = format!(
        "split --role receiver --input ours.csv --job near {words} --identity receiver.key --peer {sender} {endpoint}"
    );
    succeed([start(&place, &near).wait(), first.wait()]);
    for job in ["near", "far"] {
        let files = files(&place, job);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["bucket-0.keys", "gateway.json", "job.json"]);
    }
}

/// What both drivers of these jobs print when they meet.
fn attempts(place: &Place, [near, far]: [&str; 2]) -> [Ended; 2] {
    let (receiver, sender) = (place.receiver, place.sender);
    let words = "--progress plain --wait 20";
    let far = format!(
        "attempts --job {far} --identity sender.key --peer {receiver} --listen 127.0.0.1:0 {words}"
    );
    let mut far = start(place, &far);
    let endpoint = far.endpoint();
    let near =
        format!("attempts --job {near} --identity receiver.key --peer {sender} {endpoint} {words}");
    [start(place, &near).wait(), far.wait()]
}

#[test]
fn drivers_number_the_attempts_alike() {
    let (place, expected) = place();
    let both = ["near", "far"];
    succeed(split(&place, both));
    let next = |expected: &[(u32, u32)]| {
        let lines = expected
            .iter()
            .map(|(bucket, attempt)| format!("{bucket} {attempt}\n"));
        let lines: String = lines.collect();
        for side in attempts(&place, both) {
            side.expect_success();
            assert_eq!(String::from_utf8(side.out).unwrap(), lines);
        }
    };
    next(&(0..8).map(|bucket| (bucket, 0)).collect::<Vec<_>>());
    let run = |bucket, attempt| tasks(&place, ("near", bucket, attempt), ("far", bucket, attempt));
    for bucket in 0..8 {
        succeed(run(bucket, 0));
    }
    next(&[]);
    // What tasks leave that died before they had a result, on one side; on the other, after another attempt had begun there
    // alone; and before they had begun.
    let remove = |name: &str| std::fs::remove_file(place.path(name)).unwrap();
    let unconfirmed = |bucket: u32| {
        for job in both {
            remove(&format!("{job}/bucket-{bucket}.attempt-0.confirmed"));
        }
    };
    [0, 3, 5, 6].into_iter().for_each(unconfirmed);
    remove("near/bucket-3.attempt-0.bits");
    remove("far/bucket-5.attempt-0.bits");
    place.write("far/bucket-5.attempt-1.begun", "");
    for file in ["near/bucket-6.attempt-0", "far/bucket-6.attempt-0"] {
        remove(&format!("{file}.bits"));
        remove(&format!("{file}.begun"));
    }
    next(&[(3, 1), (5, 2), (6, 0)]);
    for (bucket, attempt) in [(3, 1), (5, 2), (6, 0)] {
        succeed(run(bucket, attempt));
    }
    next(&[]);
    collect(&place, "near", "ours.csv").expect_success();
    assert!(place.read("near.csv") == expected[0]);
    collect(&place, "far", "theirs.csv").expect_success();
    assert!(place.read("far.csv") == expected[1]);
    // The last attempt of four.
    remove("near/bucket-0.attempt-0.bits");
    place.write("near/bucket-0.attempt-3.begun", "");
    for side in attempts(&place, both) {
        side.expect_failure(7, "has no result of bucket 0, and no attempt at it is left");
    }
    // Drivers of two jobs.
    succeed(split(&place, ["near2", "far2"]));
    for side in attempts(&place, ["near", "far2"]) {
        side.expect_failure(6, "job");
    }
}

/// Both drivers cut tables with values up for numbers, each with words of its own besides.
fn split_numbers(place: &Place, jobs: [&str; 2], words: [&str; 3]) {
    let (receiver, sender) = (place.receiver, place.sender);
    let [both, ours, theirs] = words;
    let memory = memory_of_buckets("circuit-okvs", [1000; 2], 40, 4, [true; 2]) / 2;
    let both = format!(
        "--protocol circuit-okvs --security semi-honest --task-memory {memory} --key key --progress plain {both}"
    );
    let far = format!(
        "split --role sender --input theirs.csv --job {} {both} {theirs} --identity sender.key --peer {receiver} --listen 127.0.0.1:0",
        jobs[1]
    );
    let mut far = start(place, &far);
    let endpoint = far.endpoint();
    let near = format!(
        "split --role receiver --input ours.csv --job {} {both} {ours} --identity receiver.key --peer {sender} {endpoint}",
        jobs[0]
    );
    succeed([start(place, &near).wait(), far.wait()]);
}

/// The drivers of these jobs, as they open the total.
fn totals(place: &Place, [near, far]: [&str; 2]) -> [Running; 2] {
    let (receiver, sender) = (place.receiver, place.sender);
    let words = "--progress plain --wait 20";
    let far = format!(
        "total --job {far} --identity sender.key --peer {receiver} --listen 127.0.0.1:0 {words}"
    );
    let mut far = start(place, &far);
    let endpoint = far.endpoint();
    let near =
        format!("total --job {near} --identity receiver.key --peer {sender} {endpoint} {words}");
    [start(place, &near), far]
}

fn total(place: &Place, jobs: [&str; 2]) -> [Ended; 2] {
    totals(place, jobs).map(Running::wait)
}

/// Ours are 0 to 999 with 1 each, theirs 600 to 1699 with 3 each.
fn place_with_values() -> Place {
    let place = Place::new();
    let table = |items: std::ops::Range<u32>, value: u32| {
        let rows: String = items.map(|item| format!("k{item},{value}\n")).collect();
        format!("key,value\n{rows}")
    };
    place.write("ours.csv", table(0..1000, 1));
    place.write("theirs.csv", table(600..1700, 3));
    place
}

fn run_all(place: &Place, [near, far]: [&str; 2], attempt: u32) {
    for bucket in 0..buckets(place, near) {
        succeed(tasks(
            place,
            (near, bucket, attempt),
            (far, bucket, attempt),
        ));
    }
}

fn expect(ended: &Ended, out: &str) {
    ended.expect_success();
    assert_eq!(String::from_utf8_lossy(&ended.out), out);
}

#[test]
fn numbers_of_tasks_are_those_of_one_run() {
    let place = place_with_values();
    for (i, (words, received, sent)) in [
        (["--reveal threshold:399", "", ""], "400\n", ""),
        (
            ["--reveal size --min-size 401 --both", "", ""],
            "fewer than 401\n",
            "fewer than 401\n",
        ),
        (
            ["--reveal size,sum --both", "", "--value value"],
            "size\t400\nsum\t1200\n",
            "size\t400\nsum\t1200\n",
        ),
        (
            [
                "--reveal inner-product --min-size 300 --value-bound 10",
                "--value value",
                "--value value",
            ],
            "1200\n",
            "",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (near, far) = (format!("near-{i}"), format!("far-{i}"));
        let jobs = [near.as_str(), far.as_str()];
        split_numbers(&place, jobs, words);
        assert!(buckets(&place, &near) > 1);
        run_all(&place, jobs, 0);
        // What is left of a bucket is as long on both sides, and does not depend on what matched.
        let length = |job: &str, bucket: u32| {
            let path = place.path(&format!("{job}/bucket-{bucket}.attempt-0.shares"));
            path.metadata().unwrap().len()
        };
        assert!((0..buckets(&place, &near)).all(|bucket| length(&near, bucket) == length(&far, 0)));
        for side in attempts(&place, jobs) {
            expect(&side, "");
        }
        let [ours, theirs] = total(&place, jobs);
        expect(&ours, received);
        expect(&theirs, sent);
        // Without the peer, from what is kept.
        expect(&place.run(&format!("total --job {near}")), received);
        expect(&place.run(&format!("total --job {far}")), sent);
    }
}

#[test]
fn a_total_is_opened_over_the_attempts_that_both_fixed() {
    let place = place_with_values();
    let both = ["near", "far"];
    split_numbers(&place, both, ["--reveal size", "", ""]);
    let count = buckets(&place, "near");
    let next: String = (0..count).map(|bucket| format!("{bucket} 0\n")).collect();
    attempts(&place, both)
        .iter()
        .for_each(|side| expect(side, &next));
    for side in total(&place, both) {
        side.expect_failure(2, "has no result of bucket 0");
    }
    place
        .run("total --job near")
        .expect_failure(2, "has no total yet");
    run_all(&place, both, 0);
    collect(&place, "near", "ours.csv").expect_failure(2, "is for numbers");
    let remove = |name: &str| std::fs::remove_file(place.path(name)).unwrap();
    let unconfirmed = |bucket: u32| {
        for job in both {
            remove(&format!("{job}/bucket-{bucket}.attempt-0.confirmed"));
        }
    };
    // Numbers need a result of the same attempt on both sides.
    [0, 1].into_iter().for_each(unconfirmed);
    remove("far/bucket-1.attempt-0.shares");
    attempts(&place, both)
        .iter()
        .for_each(|side| expect(side, "1 1\n"));
    succeed(tasks(&place, ("near", 1, 1), ("far", 1, 1)));
    // The driver of one side is killed in the middle: the other one fails, and both open the same again.
    let [mut near, mut far] = totals(&place, both);
    near.process.kill().unwrap();
    near.wait();
    far.process.kill().unwrap();
    far.wait();
    let [ours, theirs] = total(&place, both);
    expect(&ours, "400\n");
    expect(&theirs, "");
    let opened = |job: &str, number: u32| place.path(&format!("{job}/opening-{number}.begun"));
    let last = (0..4)
        .rev()
        .find(|number| opened("near", *number).exists())
        .unwrap();
    let fixed = std::fs::read(opened("near", last)).unwrap();
    assert_eq!(fixed[1], 1);
    // Both have theirs, and nothing is opened.
    let [ours, _] = total(&place, both);
    expect(&ours, "400\n");
    assert!(!opened("near", last + 1).exists());
    // The sender has not kept that it is done.
    remove("far/total");
    let [ours, theirs] = total(&place, both);
    expect(&ours, "400\n");
    expect(&theirs, "");
    assert!(place.path("far/total").exists() && !opened("near", last + 1).exists());
    // A receiver that has lost all that it knew of the opening opens what the sender has: not another attempt that has a
    // result by now, even where that is the only one.
    let forget = || {
        remove("near/total");
        let all = (0..4).map(|number| opened("near", number));
        let all = all.filter(|path| path.exists());
        all.for_each(|path| std::fs::remove_file(path).unwrap());
    };
    succeed(tasks(&place, ("near", 0, 1), ("far", 0, 1)));
    forget();
    let [ours, _] = total(&place, both);
    expect(&ours, "400\n");
    assert_eq!(std::fs::read(opened("near", 0)).unwrap(), fixed);
    forget();
    remove("far/bucket-0.attempt-0.shares");
    for side in total(&place, both) {
        side.expect_failure(2, "has no result of bucket 0");
    }
    // A peer that has opened others is refused.
    let mut other = fixed.clone();
    other[0] = 1;
    place.write("near/opening-0.begun", other);
    for side in total(&place, both) {
        side.expect_failure(6, "has had the results of other attempts opened");
    }
}

#[test]
fn a_total_is_opened_a_bounded_number_of_times() {
    let place = place_with_values();
    let both = ["near", "far"];
    split_numbers(&place, both, ["--reveal size --attempts 2", "", ""]);
    run_all(&place, both, 0);
    for _ in 0..2 {
        let [ours, theirs] = total(&place, both);
        expect(&ours, "400\n");
        expect(&theirs, "");
        std::fs::remove_file(place.path("near/total")).unwrap();
    }
    let [ours, theirs] = total(&place, both);
    let line = "has had its total opened as often as a bucket may be tried";
    assert_ne!(theirs.code, Some(0));
    assert!(
        [&ours, &theirs]
            .iter()
            .any(|side| side.code == Some(7) && side.err.contains(line))
    );
    // One of two sides has lost its total, and what comes out is not what the other one has.
    let [near, far] = ["near-2", "far-2"];
    split_numbers(&place, [near, far], ["--reveal size --both", "", ""]);
    run_all(&place, [near, far], 0);
    let [ours, _] = total(&place, [near, far]);
    expect(&ours, "400\n");
    // Shares of another run of the same attempt, as a copy of the directory would have.
    for job in [near, far] {
        for mark in ["begun", "confirmed"] {
            let path = place.path(&format!("{job}/bucket-0.attempt-0.{mark}"));
            std::fs::remove_file(path).unwrap();
        }
    }
    let kept = std::fs::read(place.path("near-2/bucket-0.attempt-0.shares")).unwrap();
    succeed(tasks(&place, (near, 0, 0), (far, 0, 0)));
    place.write("near-2/bucket-0.attempt-0.shares", kept);
    std::fs::remove_file(place.path("far-2/total")).unwrap();
    let ended = total(&place, [near, far]);
    assert!(
        ended
            .iter()
            .any(|side| side.code == Some(6) && side.err.contains("manifest"))
    );
    assert!(ended.iter().all(|side| side.code != Some(0)));
}

/// How both sides' tasks for a bucket of the jobs `near` and `far` end at this gateway.
fn tasks_at(place: &Place, gateway: &str, bucket: u32, attempt: u32) -> [Ended; 2] {
    let words = format!("--gateway {gateway} --wait 20");
    let both = ["near", "far"].map(|job| task(place, (job, bucket, attempt), &words));
    both.map(Running::wait)
}

#[test]
fn tasks_meet_at_a_gateway() {
    let (place, expected) = place();
    // No task needs an identity.
    succeed(split(&place, ["near", "far"]));
    for identity in ["receiver.key", "sender.key"] {
        std::fs::remove_file(place.path(identity)).unwrap();
    }
    let admission = place.read("near/gateway.json");
    assert_eq!(admission, place.read("far/gateway.json"));
    let start_gateway = |address: &str| {
        let words = format!("gateway --listen {address} --admit far/gateway.json --wait 20");
        let mut gateway = start(&place, &words);
        let address = gateway.wait_for("listening on ");
        (gateway, address)
    };
    let (mut gateway, address) = start_gateway("127.0.0.1:0");
    for bucket in 0..4 {
        succeed(tasks_at(&place, &address, bucket, 0));
    }
    // Each side knows by itself what it has had.
    for side in tasks_at(&place, &address, 0, 0) {
        side.expect_failure(2, "has had attempt 0 at bucket 0");
    }
    // One side's task is killed while it waits, and the gateway is killed and another one started: a waiting task finds
    // that too.
    let words = format!("--gateway {address} --wait 30");
    let mut killed = task(&place, ("near", 4, 0), &words);
    std::thread::sleep(std::time::Duration::from_millis(300));
    killed.process.kill().unwrap();
    killed.wait();
    let far = task(&place, ("far", 4, 0), &words);
    gateway.process.kill().unwrap();
    gateway.wait();
    let (gateway, address) = start_gateway(&address);
    succeed([task(&place, ("near", 4, 0), &words).wait(), far.wait()]);
    for bucket in 5..8 {
        succeed(tasks_at(&place, &address, bucket, 0));
    }
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let gateway = gateway.wait();
    gateway.expect_failure(143, "told to end by a signal");
    let line = "0 pairs of tasks, and 0 waiting for theirs; 4 pairs so far";
    assert!(gateway.err.contains(line), "{}", gateway.err);
    collect(&place, "near", "ours.csv").expect_success();
    assert!(place.read("near.csv") == expected[0]);
}

#[test]
fn keys_of_tasks_expire() {
    let (place, _) = place();
    let words = |near: &str, far: &str| {
        let mut far = start(&place, far);
        let endpoint = far.endpoint();
        succeed([
            start(&place, &format!("{near} {endpoint}")).wait(),
            far.wait(),
        ]);
    };
    let (receiver, sender) = (place.receiver, place.sender);
    words(
        &format!(
            "split --role receiver --input ours.csv --job near {WORDS} --identity receiver.key --peer {sender} --valid-for 1"
        ),
        &format!(
            "split --role sender --input theirs.csv --job far {WORDS} --identity sender.key --peer {receiver} --listen 127.0.0.1:0"
        ),
    );
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for (job, whose) in [("near", "those of this side"), ("far", "those of the peer")] {
        let words = format!("bucket --job {job} --bucket 0 --listen 127.0.0.1:0");
        place.run(&words).expect_failure(2, whose);
        assert!(
            !place
                .path(&format!("{job}/bucket-0.attempt-0.begun"))
                .exists()
        );
    }
}
