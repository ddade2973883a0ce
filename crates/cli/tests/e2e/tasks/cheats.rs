//! Tasks of a peer that cheats, against the binary: whoever is caught once gets no other attempt, and one that has had an
//! answer gets no second one.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use vesica::{Endpoint, Fingerprint, Identity, Role};
use vesica_session::{
    Agreement, Attempt, Connection, Contract, Intent, KeyBlock, Registry, TaskKeys, Transport,
    confirm_done, connect, run_bucket,
};
use vesica_testing::digests;
use vesica_wire::{Blame, Channel, Error as WireError, Limit};

use super::{attempts, place_of_keys, split_keys, start, succeed, task, tasks};
use crate::cheats::{CASES, Case, Cheat, Cheating, options};
use crate::support::{Ended, Place, Running};

/// Keys of each side, in one bucket.
const KEYS: u64 = 40;
pub(super) const FIRST: Attempt = Attempt {
    bucket: 0,
    number: 0,
};

/// Who has the directory of a side's job, and does as it likes.
pub(super) struct Insider {
    role: Role,
    agreement: Agreement,
    key: [u8; 32],
    peers: Vec<Fingerprint>,
}

impl Insider {
    pub(super) fn of(place: &Place, job: &str) -> Insider {
        let record = place.read(&format!("{job}/job.json"));
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let bytes = |name: &str| {
            *blake3::Hash::from_hex(text(&record[name]))
                .unwrap()
                .as_bytes()
        };
        let role = match record["role"].as_str() {
            Some("receiver") => Role::Receiver,
            _ => Role::Sender,
        };
        let contract: Contract = serde_json::from_value(record["contract"].clone()).unwrap();
        let agreement =
            Agreement::of_job(role, contract, bytes("value"), Registry::standard()).unwrap();
        let peers = record["peer_tasks"].as_array().unwrap().iter();
        Insider {
            role,
            agreement,
            key: bytes("key"),
            peers: peers.map(|peer| text(peer).parse().unwrap()).collect(),
        }
    }

    fn meet(&self, attempt: Attempt, address: &str) -> Connection {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher
            .update(b"vesica/1 key of a task")
            .update(&attempt.bucket.to_le_bytes())
            .update(&attempt.number.to_le_bytes());
        let identity = Identity::from_seed(hasher.finalize().as_bytes()).unwrap();
        let peer = self.peers[TaskKeys::place(&self.agreement.contract, attempt)];
        let transport = Transport::Tls {
            identity: &identity,
            peer,
            intent: Intent::Task(self.role),
        };
        connect(
            &Endpoint::Connect(address.to_owned()),
            &transport,
            &options(),
        )
        .unwrap()
    }

    /// Makes an attempt with keys of its own against the task that listens. Returns whether it has cheated.
    pub(super) fn cheat(&self, attempt: Attempt, case: &Case, endpoint: &str) -> bool {
        self.cheat_hearing(attempt, case, endpoint, &|_| {})
    }

    /// The same; tells what the cheat hears.
    fn cheat_hearing(
        &self,
        attempt: Attempt,
        case: &Case,
        endpoint: &str,
        hears: &(dyn Fn(&WireError) + Sync),
    ) -> bool {
        let mut connection = self.meet(attempt, &endpoint.replace("--connect ", ""));
        let fingerprints = [connection.local, connection.peer];
        let mut channel = Cheating::new(&mut connection.channel, &case.cheat).hearing(hears);
        let keys = digests(1000..1000 + KEYS);
        let keys = KeyBlock::from(&keys[..]);
        let (role, agreement) = (self.role, &self.agreement);
        // However it ends for the cheat.
        let ran = run_bucket(&mut channel, role, agreement, attempt, fingerprints, keys);
        if ran.is_ok() {
            let _ = confirm_done(&mut channel, role);
        }
        channel.has_cheated()
    }
}

fn listening(place: &Place, job: &str, Attempt { bucket, number }: Attempt) -> (Running, String) {
    let mut task = task(
        place,
        (job, bucket, number),
        "--listen 127.0.0.1:0 --wait 20",
    );
    let endpoint = task.endpoint();
    (task, endpoint)
}

/// The case ends the job of the side that it cheats. Returns whether the cheat was told, which is when that is on the disk.
fn is_over_for(case: &Case) -> bool {
    let (what, place) = (case.what, place_of_keys(KEYS));
    succeed(split_keys(
        &place,
        ["near", "far"],
        &format!("--attempts 3 {}", case.terms),
    ));
    let (cheat, cheated) = match case.role {
        Role::Receiver => ("near", "far"),
        Role::Sender => ("far", "near"),
    };
    let insider = Insider::of(&place, cheat);
    let (running, endpoint) = listening(&place, cheated, FIRST);
    let (over, told) = (
        place.path(&format!("{cheated}/over.json")),
        AtomicBool::new(false),
    );
    let cheats = insider.cheat_hearing(FIRST, case, &endpoint, &|why| {
        // The connection stays open meanwhile.
        if matches!(
            why,
            WireError::PeerAborted {
                blame: Blame::Peer,
                ..
            }
        ) {
            assert!(over.exists(), "{what}: it can come again");
            told.store(true, Ordering::Relaxed);
        }
    });
    assert!(cheats, "{what}: no such frame");
    let ended = running.wait();
    let since = "is of a job that is over since attempt 0 at bucket 0: ";
    let has = |line: &str| assert!(ended.err.contains(line), "{what}: {}", ended.err);
    assert_eq!(ended.code, Some(5), "{what}: {}", ended.err);
    ended.expect_failure(5, since);
    has(case.line);
    let hides = |c: char| c != '\n' && vesica_wire::is_hidden(c);
    assert!(!ended.err.contains(hides), "{what}: {:?}", ended.err);
    // Nobody gets to guess again, by whatever number.
    for number in 0..3 {
        let words =
            format!("bucket --job {cheated} --bucket 0 --attempt {number} --listen 127.0.0.1:0");
        place.run(&words).expect_failure(5, since);
    }
    assert!(over.exists(), "{what}");
    told.into_inner()
}

/// What is caught in a task: all that is caught in a run, but for hellos, which drivers send, and what opens a total.
pub(super) fn cases() -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(|case| {
        let frame = case.cheat.frame();
        let is_of_tasks = !matches!(frame, "hello" | "outcome" | "opened shares");
        let terms = !["--align", "--offline"]
            .iter()
            .any(|word| case.terms.contains(word));
        case.code == 5 && is_of_tasks && terms && case.words.is_empty()
    })
}

#[test]
fn whoever_is_caught_ends_the_job() {
    let some = [
        "a matrix that does not pass its check",
        "a check of the correlation that fails",
    ];
    let mut roles = Vec::new();
    for case in cases().filter(|case| some.contains(&case.what)) {
        assert!(is_over_for(case), "{}", case.what);
        roles.push(case.role);
    }
    assert!(roles.contains(&Role::Receiver) && roles.contains(&Role::Sender));
}

/// A receiver of `vole` that sees that it has guessed wrong before it has to show so, and one that has not seen it yet.
#[test]
fn whoever_leaves_when_it_sees_that_it_would_be_caught_ends_the_job() {
    let case = |what, frame, go_on, code, line| Case {
        what,
        role: Role::Receiver,
        terms: "--protocol vole",
        words: "",
        cheat: Cheat::Instead(frame, 0, go_on),
        code,
        line,
    };
    type Leave = fn(&mut dyn Channel);
    let ways: [(&str, Leave); 3] = [
        ("leaves", |_| {}),
        ("says that it has no memory", |to| {
            to.abort(&WireError::limit(Limit::System, "no memory"));
        }),
        ("says that it was interrupted", |to| {
            to.abort(&WireError::Interrupted)
        }),
    ];
    for (what, go_on) in ways {
        let line =
            "the peer could see whether it would be caught cheating, and nothing came after that";
        is_over_for(&case(what, "VOLE opening", go_on, 5, line));
        let before = case(what, "VOLE combination", go_on, 4, "");
        let place = place_of_keys(KEYS);
        succeed(split_keys(&place, ["near", "far"], before.terms));
        let (running, endpoint) = listening(&place, "far", FIRST);
        assert!(Insider::of(&place, "near").cheat(FIRST, &before, &endpoint));
        let ended = running.wait();
        assert_ne!(ended.code, Some(5), "{what}: {}", ended.err);
        assert!(!place.path("far/over.json").exists(), "{what}");
    }
}

#[test]
fn whatever_a_peer_is_caught_at_ends_the_job() {
    let all: Vec<_> = cases().collect();
    assert!(all.len() > 30, "{}", all.len());
    let next = Mutex::new(all.into_iter());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(case) = next.lock().unwrap().next() else {
                        return;
                    };
                    is_over_for(case);
                }
            });
        }
    });
}

/// The drivers of a job in which a task was caught: the one that knows says so, and the other hears it, if it is there.
#[test]
fn drivers_say_that_a_job_is_over() {
    let place = place_of_keys(KEYS);
    let case = cases()
        .find(|case| case.what == "a matrix that does not pass its check")
        .unwrap();
    succeed(split_keys(
        &place,
        ["near", "far"],
        &format!("--attempts 3 {}", case.terms),
    ));
    let (running, endpoint) = listening(&place, "far", FIRST);
    assert!(Insider::of(&place, "near").cheat(FIRST, case, &endpoint));
    running.wait().expect_failure(5, "is of a job that is over");
    let [near, far] = attempts(&place, ["near", "far"]);
    far.expect_failure(
        5,
        "is of a job that is over since attempt 0 at bucket 0: the peer misbehaved: ",
    );
    assert!(far.hint().contains("a chance to guess"), "{}", far.err);
    near.expect_failure(
        5,
        "the peer gave up: the peer misbehaved: job: over, since a task of the peer misbehaved",
    );
    // Without the other it does not wait for long.
    let words = format!(
        "attempts --job far --identity sender.key --peer {} --connect 127.0.0.1:1 --wait 60",
        place.receiver
    );
    let began = std::time::Instant::now();
    place
        .run(&words)
        .expect_failure(5, "is of a job that is over");
    assert!(began.elapsed().as_secs() < 20);
}

/// A task that fails without a fault of the peer's does not end the job.
#[test]
fn what_is_nobodys_fault_ends_no_job() {
    let place = place_of_keys(KEYS);
    succeed(split_keys(&place, ["near", "far"], "--protocol vole"));
    // The peer's task leaves in the middle.
    let (running, endpoint) = listening(&place, "far", FIRST);
    let insider = Insider::of(&place, "near");
    drop(insider.meet(FIRST, &endpoint.replace("--connect ", "")));
    running
        .wait()
        .expect_failure(4, "the peer closed the connection");
    assert!(place.path("far/bucket-0.attempt-0.begun").exists());
    // Other commands come to the port of a task.
    let again = Attempt { number: 1, ..FIRST };
    let (running, endpoint) = listening(&place, "far", again);
    let stray = format!(
        "receive --input ours.csv --key id --identity receiver.key --peer {} --wait 1 {endpoint}",
        place.sender
    );
    assert_ne!(place.run(&stray).code, Some(0));
    let near = start(
        &place,
        &format!("bucket --job near --bucket 0 --attempt 1 {endpoint}"),
    );
    near.wait().expect_success();
    running.wait().expect_success();
    assert!(!place.path("far/over.json").exists() && !place.path("near/over.json").exists());
}

/// A side whose machine has failed while its peer could see whether it would be caught, by whichever command it finds that.
#[test]
fn a_stake_that_stays_ends_the_job() {
    let numbers = "--reveal size --security semi-honest";
    for (command, words) in [
        ("attempts", "--protocol vole"),
        ("bucket", "--protocol vole"),
        ("total", numbers),
    ] {
        let place = place_of_keys(KEYS);
        succeed(split_keys(&place, ["near", "far"], words));
        for mark in ["begun", "staked"] {
            place.write(&format!("far/bucket-0.attempt-0.{mark}"), "");
        }
        let driver = |name: &str| {
            let party = format!("--identity sender.key --peer {} --wait 1", place.receiver);
            format!("{name} --job far {party} --connect 127.0.0.1:1")
        };
        let first = match command {
            "bucket" => "bucket --job far --bucket 0 --attempt 1 --connect 127.0.0.1:1".to_owned(),
            name => driver(name),
        };
        for words in [first, driver("attempts")] {
            over_at_stake(&place.run(&words));
            assert!(place.path("far/over.json").exists());
        }
    }
}

thread_local! {
    /// Hears that a frame is held back, and says when it goes out.
    static HELD: RefCell<Option<(Sender<()>, Receiver<()>)>> = const { RefCell::new(None) };
}

/// The first attempt of a sender's task, by `vole`, which waits for this frame of an honest receiver while something else is
/// done. Says how the task has ended.
fn waiting_for(frame: &'static str, place: &Place, meanwhile: impl FnOnce(&mut Running)) -> Ended {
    succeed(split_keys(
        place,
        ["near", "far"],
        "--protocol vole --attempts 3",
    ));
    let (mut running, endpoint) = listening(place, "far", FIRST);
    let insider = Insider::of(place, "near");
    let case = Case {
        what: frame,
        role: Role::Receiver,
        terms: "",
        words: "",
        cheat: Cheat::Changes(frame, 0, |_| {
            HELD.with_borrow(|held| {
                let (reached, go_on) = held.as_ref().unwrap();
                reached.send(()).unwrap();
                let _ = go_on.recv();
            });
        }),
        code: 0,
        line: "",
    };
    let ((reached, is_reached), (go_on, goes_on)) = (channel(), channel());
    thread::scope(|scope| {
        scope.spawn(|| {
            HELD.set(Some((reached, goes_on)));
            assert!(insider.cheat(FIRST, &case, &endpoint));
        });
        is_reached.recv_timeout(Duration::from_secs(30)).unwrap();
        meanwhile(&mut running);
        drop(go_on);
        running.wait()
    })
}

/// Frames of a receiver for which the sender waits with nothing at stake, and with something.
const WAITED_FOR: [(&str, bool); 2] = [("VOLE combination", false), ("VOLE opening", true)];

fn over_at_stake(ended: &Ended) {
    let line = "is of a job that is over since attempt 0 at bucket 0: this side has ended while the peer could see";
    ended.expect_failure(7, line);
}

#[test]
fn a_bucket_has_one_attempt_at_a_time() {
    for (frame, is_at_stake) in WAITED_FOR {
        let place = place_of_keys(KEYS);
        let ended = waiting_for(frame, &place, |_| {
            assert_eq!(
                place.path("far/bucket-0.attempt-0.staked").exists(),
                is_at_stake
            );
            let line = "has an attempt at bucket 0 running, and makes one at a time";
            let words = "bucket --job far --bucket 0 --attempt 1 --connect 127.0.0.1:1 --wait 1";
            let other = place.run(words);
            other.expect_failure(7, line);
            assert!(other.hint().contains("wait for that task"), "{}", other.err);
            assert!(!place.path("far/bucket-0.attempt-1.begun").exists());
            if !is_at_stake {
                return;
            }
            // The peer's driver hears that this one cannot go on, and of no misbehaviour.
            let [near, far] = attempts(&place, ["near", "far"]);
            far.expect_failure(7, line);
            near.expect_failure(7, "the peer gave up: its job cannot go on yet");
        });
        ended.expect_success();
        assert!(place.path("far/bucket-0.attempt-0.confirmed").exists());
        for job in ["near", "far"] {
            assert!(!place.path(&format!("{job}/over.json")).exists(), "{frame}");
        }
    }
}

#[test]
fn a_task_that_is_killed_ends_the_job_if_something_is_at_stake() {
    for (frame, is_at_stake) in WAITED_FOR {
        let place = place_of_keys(KEYS);
        waiting_for(frame, &place, |far| {
            far.process.kill().unwrap();
            far.process.wait().unwrap();
        });
        let next = |job| (job, 0, 1);
        match is_at_stake {
            true => {
                let words = "bucket --job far --bucket 0 --attempt 1 --connect 127.0.0.1:1";
                over_at_stake(&place.run(words));
            }
            false => succeed(tasks(&place, next("near"), next("far"))),
        }
    }
}

/// This side is told to end, or its disk fails, while its peer could see whether it would be caught: the job is over, and the
/// peer is not accused of anything.
#[test]
fn what_ends_this_side_at_a_stake_is_not_the_peers_fault() {
    type Fails = fn(&Place, &Running);
    let ways: [(Fails, i32, &str); 2] = [
        (
            |_, far| far.signal(Signal::SIGTERM),
            143,
            "this side was told to end by a signal while the peer could see",
        ),
        // The mark cannot be removed.
        (
            |place, _| {
                let mark = place.path("far/bucket-0.attempt-0.staked");
                std::fs::remove_file(&mark).unwrap();
                std::fs::create_dir(&mark).unwrap();
            },
            7,
            "this side's disk has failed while the peer could see whether it would be caught cheating: the mark staked \
             cannot be removed",
        ),
    ];
    for (fails, code, says) in ways {
        let place = place_of_keys(KEYS);
        let line = format!("is of a job that is over since attempt 0 at bucket 0: {says}");
        let ended = waiting_for("VOLE opening", &place, |far| {
            fails(&place, far);
            if code == 143 {
                far.process.wait().unwrap();
            }
        });
        ended.expect_failure(code, &line);
        assert!(
            ended.hint().contains("split the table again"),
            "{}",
            ended.err
        );
        // Nobody gets to guess again.
        let words = "bucket --job far --bucket 0 --attempt 1 --connect 127.0.0.1:1";
        place.run(words).expect_failure(7, &line);
        let [near, far] = attempts(&place, ["near", "far"]);
        far.expect_failure(7, &line);
        near.expect_failure(
            7,
            "the peer gave up: its job is over, since its side ended in the middle of an attempt",
        );
    }
}

/// A receiver that has its answer and says that it has none gets no other: by hiding what its task has left, or by another
/// program that has made the attempt.
#[test]
fn a_receiver_that_hides_its_result_gets_no_other_answer() {
    for other_program in [false, true] {
        let place = place_of_keys(KEYS);
        succeed(split_keys(
            &place,
            ["near", "far"],
            "--protocol vole --attempts 4",
        ));
        let (running, endpoint) = listening(&place, "far", FIRST);
        match other_program {
            // It changes nothing.
            true => {
                let none = cases().find(|case| case.what == "masks cut short").unwrap();
                assert!(!Insider::of(&place, "near").cheat(FIRST, none, &endpoint));
            }
            false => {
                let words = format!("bucket --job near --bucket 0 {endpoint}");
                start(&place, &words).wait().expect_success();
                std::fs::remove_file(place.path("near/bucket-0.attempt-0.bits")).unwrap();
            }
        }
        running.wait().expect_success();
        for side in attempts(&place, ["near", "far"]) {
            side.expect_failure(
                7,
                "lacks a result of bucket 0 on a side that has confirmed one",
            );
        }
        for number in 1..4 {
            let words =
                format!("bucket --job far --bucket 0 --attempt {number} --listen 127.0.0.1:0");
            place
                .run(&words)
                .expect_failure(2, "that the peer has confirmed");
        }
    }
}
