//! What is left of attempts: what counts, what is damaged, what blocks nothing, and what a peer may ask for.

use nix::sys::signal::Signal;

use super::{
    attempts, collect, place, place_of_keys, split, split_keys, start, succeed, task, tasks,
};
use crate::support::{Ended, Place, Running};

/// Whoever says that each attempt asks about other keys.
#[test]
fn a_limit_on_the_peers_keys_counts_attempts() {
    let place = place_of_keys(100);
    let line = |owner: &str, attempts: u32| {
        format!(
            "the {owner}'s 100 items, {} in {attempts} attempts, are more than the",
            100 * attempts
        )
    };
    for (number, (words, refused)) in [
        ("--attempts 1 --max-peer-items 100", 0),
        ("--attempts 2 --max-peer-items 199", 2),
        ("--attempts 2 --max-peer-items 200", 0),
        ("--attempts 4 --max-peer-items 100", 4),
        ("--max-peer-items 399", 4),
        ("--max-peer-items 400", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let jobs = [format!("near-{number}"), format!("far-{number}")];
        let words = format!("--protocol dh --security semi-honest {words}");
        let both = split_keys(&place, [&jobs[0], &jobs[1]], &words);
        match refused {
            0 => succeed(both),
            attempts => {
                for side in &both {
                    assert_eq!(side.code, Some(7), "{words}: {}", side.err);
                }
                let said = both
                    .iter()
                    .map(|side| side.err.as_str())
                    .collect::<String>();
                let own = |owner| said.contains(&line(owner, attempts));
                assert!(own("receiver") || own("sender"), "{words}: {said}");
            }
        }
    }
}

/// On a disk that is full from some moment on, a side shows its peer nothing, or knows what it has shown.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn a_full_disk_forgets_no_confirmed_attempt() {
    let Some(library) = crate::system_faults::library() else {
        return;
    };
    let place = place_of_keys(100);
    let library = library.display();
    let full = nix::errno::Errno::ENOSPC as i32;
    for names in 1..10 {
        let [near, far] = ["near", "far"].map(|job| format!("{job}-{names}"));
        succeed(split_keys(
            &place,
            [&near, &far],
            "--protocol dh --security semi-honest",
        ));
        // This new name is too much for it, and so are all after it.
        let before = format!(
            "export FAULTS_STATE='{}' FAULTS_PLAN='link {names} {full} onward' LD_PRELOAD='{library}'",
            place.path(&format!("calls-{names}")).display()
        );
        let words = format!(
            "bucket --job {far} --bucket 0 --attempt 0 --progress plain --threads 1 --listen 127.0.0.1:0 --wait 20"
        );
        let mut sender = place.start_after(&before, &words);
        let endpoint = sender.endpoint();
        let receiver = task(&place, (&near, 0, 0), &endpoint).wait();
        let sender = sender.wait();
        let is_known = place
            .path(&format!("{far}/bucket-0.attempt-0.confirmed"))
            .exists();
        assert!(
            is_known || receiver.code != Some(0),
            "{names}: {}",
            sender.err
        );
        assert!(
            !place
                .path(&format!("{far}/bucket-0.attempt-0.unconfirmed"))
                .exists()
        );
        if sender.code == Some(0) {
            assert!(is_known && names > 1);
            return;
        }
        sender.expect_failure(7, "No space left on device");
    }
    panic!("an attempt gives fewer names");
}

fn spoil(place: &Place, name: &str, how: &str) {
    let path = place.path(name);
    let mut bytes = std::fs::read(&path).unwrap();
    match how {
        "cut" => bytes.truncate(bytes.len() / 2),
        "short" => bytes.truncate(3),
        "empty" => bytes.clear(),
        _ => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
    }
    std::fs::write(path, bytes).unwrap();
}

/// A result that is damaged is none. Without an end that both know of the bucket is run again; with one it is over.
#[test]
fn a_damaged_result_is_none() {
    let (place, expected) = place();
    let both = ["near", "far"];
    succeed(split(&place, both));
    for bucket in 0..8 {
        succeed(tasks(&place, ("near", bucket, 0), ("far", bucket, 0)));
    }
    let unconfirmed = |bucket: u32| {
        for job in both {
            let path = place.path(&format!("{job}/bucket-{bucket}.attempt-0.confirmed"));
            std::fs::remove_file(path).unwrap();
        }
    };
    let lines = |sides: [Ended; 2]| {
        sides.map(|side| {
            side.expect_success();
            side.text().to_owned()
        })
    };
    for (bucket, how) in [(1, "cut"), (2, "short"), (3, "empty"), (4, "bit")] {
        let name = format!("bucket-{bucket}.attempt-0.bits");
        spoil(&place, &format!("near/{name}"), how);
        let damaged = format!("has a file that is damaged or gone: {name}");
        collect(&place, "near", "ours.csv").expect_failure(3, &damaged);
        assert!(!place.path("near.csv").exists());
        let [near, far] = attempts(&place, both);
        near.expect_failure(3, &damaged);
        far.expect_failure(7, &format!("lacks a result of bucket {bucket} on a side"));
        unconfirmed(bucket);
        let next = format!("{bucket} 1\n");
        assert_eq!(lines(attempts(&place, both)), [next.clone(), next]);
        succeed(tasks(&place, ("near", bucket, 1), ("far", bucket, 1)));
        assert_eq!(lines(attempts(&place, both)), [const { String::new() }; 2]);
    }
    for (job, input, expected) in [
        ("near", "ours.csv", &expected[0]),
        ("far", "theirs.csv", &expected[1]),
    ] {
        collect(&place, job, input).expect_success();
        assert!(place.read(&format!("{job}.csv")) == *expected);
    }
    // Keys that are gone.
    std::fs::remove_file(place.path("near/bucket-7.keys")).unwrap();
    place
        .run("bucket --job near --bucket 7 --attempt 1 --connect 127.0.0.1:1")
        .expect_failure(2, "that the peer has confirmed");
    unconfirmed(7);
    place
        .run("bucket --job near --bucket 7 --attempt 1 --connect 127.0.0.1:1")
        .expect_failure(3, "damaged or gone: bucket-7.keys");
}

/// A task of one side is lost once the gateway has brought it together with the peer's, before it has taken its attempt.
#[test]
fn a_task_that_is_lost_before_it_has_begun_blocks_no_bucket() {
    let (place, _) = place();
    succeed(split(&place, ["near", "far"]));
    let words = "gateway --listen 127.0.0.1:0 --admit far/gateway.json --wait 20";
    let mut gateway = start(&place, words);
    let words = format!("--gateway {} --wait 20", gateway.wait_for("listening on "));
    for (bucket, [lost, other]) in [["near", "far"], ["far", "near"]].into_iter().enumerate() {
        let bucket = bucket as u32;
        let mut victim = task(&place, (lost, bucket, 0), &words);
        victim.wait_for("connecting to ");
        std::thread::sleep(std::time::Duration::from_millis(300));
        victim.signal(Signal::SIGSTOP);
        let peer = task(&place, (other, bucket, 0), &words);
        std::thread::sleep(std::time::Duration::from_millis(300));
        victim.process.kill().unwrap();
        victim.wait();
        let begun = |job: &str| place.path(&format!("{job}/bucket-{bucket}.attempt-0.begun"));
        assert!(!begun(lost).exists() && !begun(other).exists());
        // Another one of its side comes, for the same attempt.
        succeed([task(&place, (lost, bucket, 0), &words), peer].map(Running::wait));
    }
    let left: String = (2..8).map(|bucket| format!("{bucket} 0\n")).collect();
    for side in attempts(&place, ["near", "far"]) {
        side.expect_success();
        assert_eq!(side.text(), left);
    }
    gateway.process.kill().unwrap();
    gateway.wait();
}
