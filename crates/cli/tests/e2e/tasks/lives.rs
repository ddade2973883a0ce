//! Lives of jobs whose tasks are killed or cut off after each message, and whose files are older, gone or damaged then.
//!
//! Drivers go on as drivers do: they ask for the next attempts, have them made, and ask again. Then
//!
//! - the job ends: with the rows or the number of a plain join, or, if a file was touched, with an error;
//! - a side has no other rows, and is never told that its peer misbehaves, which it does not;
//! - no bucket is blocked, unless a file was touched;
//! - a side whose files were not touched does not see a bucket end well twice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{buckets, start, succeed, task};
use crate::faults::{Ledger, memory_of_buckets, on_threads};
use crate::support::{Ended, Place, csv_of};
use crate::trial::{Dice, part};

const SIDES: [&str; 2] = ["near", "far"];
/// Keys of a side.
const KEYS: u64 = 300;

/// What a job is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Matches,
    Both,
    Size,
}

impl Question {
    const ALL: [Question; 3] = [Question::Matches, Question::Both, Question::Size];

    fn words(self) -> String {
        let (protocol, more) = match self {
            Question::Matches => ("dh", ""),
            Question::Both => ("dh", "--both"),
            Question::Size => ("circuit-okvs", "--reveal size"),
        };
        let memory = memory_of_buckets(protocol, [KEYS; 2], 40, 2, [true; 2]) / 2;
        format!(
            "--protocol {protocol} --security semi-honest --task-memory {memory} --key key --progress plain {more}"
        )
    }
}

/// What happens to the first attempt.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// 0 is from the receiver to the sender.
    direction: usize,
    /// Records of TLS that have passed in that direction by then. None passes afterwards.
    records: usize,
    /// Whose tasks are killed then. If neither is, the connection is cut.
    killed: [bool; 2],
}

/// What becomes of a side's files then.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    /// All are those from before the attempt.
    Older(usize),
    Gone(usize, String),
    Damaged(usize, String),
}

impl Change {
    /// Whose files it touches.
    fn side(&self) -> Option<usize> {
        match self {
            Change::Nothing => None,
            Change::Older(side) | Change::Gone(side, _) | Change::Damaged(side, _) => Some(*side),
        }
    }
}

/// A proxy of one connection, which passes whole records of TLS, and in one direction only so many.
struct Proxy {
    address: String,
    /// Records so far.
    records: Arc<[AtomicUsize; 2]>,
    /// Hears once those have passed.
    passed: Receiver<()>,
    /// Dropped, it ends the connection.
    _held: Sender<()>,
}

impl Proxy {
    fn new(target: &str, fault: Fault) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (target, (tell, passed), (hold, held)) = (target.to_owned(), channel(), channel());
        let records: Arc<[AtomicUsize; 2]> = Arc::default();
        let counted = Arc::clone(&records);
        thread::spawn(move || {
            let (near, _) = listener.accept().unwrap();
            let far = TcpStream::connect(target).unwrap();
            let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
            let pass = |from: TcpStream, to: TcpStream, direction| {
                let most = match direction == fault.direction {
                    true => fault.records,
                    false => usize::MAX,
                };
                let (tell, counted) = (Sender::clone(&tell), Arc::clone(&counted));
                thread::spawn(move || {
                    forward(from, to, most, &counted[direction]);
                    let _ = tell.send(());
                });
            };
            pass(near.try_clone().unwrap(), far.try_clone().unwrap(), 0);
            pass(far, near, 1);
            // Until the test lets go.
            let _: Result<(), _> = held.recv();
            for end in ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        });
        Proxy {
            address,
            records,
            passed,
            _held: hold,
        }
    }
}

/// Passes so many records on, and takes nothing any more.
fn forward(mut from: TcpStream, mut to: TcpStream, most: usize, counted: &AtomicUsize) {
    let mut record = Vec::new();
    for _ in 0..most {
        record.resize(5, 0);
        if from.read_exact(&mut record).is_err() {
            // It has ended before, and the other one hears that.
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        let length = u16::from_be_bytes([record[3], record[4]]);
        record.resize(5 + usize::from(length), 0);
        if from.read_exact(&mut record[5..]).is_err() || to.write_all(&record).is_err() {
            return;
        }
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

/// A job that both sides have, of which lives have copies.
struct Scene {
    place: Place,
    question: Question,
    /// What each side is to have in the end; empty on one that learns nothing.
    expected: [String; 2],
}

impl Scene {
    fn new(question: Question) -> Scene {
        let place = Place::new();
        let rows = |keys: std::ops::Range<u64>| -> Vec<Vec<String>> {
            keys.map(|key| vec![format!("k{key}")]).collect()
        };
        let (ours, theirs) = (rows(0..KEYS), rows(KEYS / 2..KEYS / 2 + KEYS));
        place.write("ours.csv", csv_of(&["key"], &ours));
        place.write("theirs.csv", csv_of(&["key"], &theirs));
        succeed(super::split_by(&place, SIDES, &question.words()));
        assert_eq!(buckets(&place, "near"), 2);
        let shared = csv_of(&["key"], &rows(KEYS / 2..KEYS));
        let expected = match question {
            Question::Matches => [shared, String::new()],
            Question::Both => [shared.clone(), shared],
            Question::Size => [format!("{}\n", KEYS / 2), String::new()],
        };
        Scene {
            place,
            question,
            expected,
        }
    }

    fn both(&self, near: &str, far: &str) -> [Ended; 2] {
        let mut far = start(&self.place, &format!("{far} --listen 127.0.0.1:0 --wait 9"));
        let Some(endpoint) = far.endpoint_if_any() else {
            // It cannot even listen; the other finds nobody.
            let near = start(
                &self.place,
                &format!("{near} --connect 127.0.0.1:1 --wait 1"),
            );
            return [near.wait(), far.wait()];
        };
        let near = start(&self.place, &format!("{near} {endpoint} --wait 9"));
        let near = near.wait();
        if near.code == Some(2) {
            // It did not even connect.
            far.signal(Signal::SIGTERM);
        }
        [near, far.wait()]
    }

    fn drivers(&self, command: &str, jobs: &[String; 2]) -> [Ended; 2] {
        let (receiver, sender) = (self.place.receiver, self.place.sender);
        let words = "--progress plain";
        self.both(
            &format!(
                "{command} --job {} --identity receiver.key --peer {sender} {words}",
                jobs[0]
            ),
            &format!(
                "{command} --job {} --identity sender.key --peer {receiver} {words}",
                jobs[1]
            ),
        )
    }

    fn tasks(&self, jobs: &[String; 2], (bucket, attempt): (u32, u32)) -> [Ended; 2] {
        let words = |job: &String| {
            format!(
                "bucket --job {job} --bucket {bucket} --attempt {attempt} --progress plain --threads 1"
            )
        };
        self.both(&words(&jobs[0]), &words(&jobs[1]))
    }

    /// The first attempt, with this fault; also the records that passed.
    fn troubled(&self, jobs: &[String; 2], fault: Fault) -> ([Ended; 2], [usize; 2]) {
        let mut far = task(
            &self.place,
            (&jobs[1], 0, 0),
            "--listen 127.0.0.1:0 --wait 20",
        );
        let target = far.endpoint().replace("--connect ", "");
        let proxy = Proxy::new(&target, fault);
        let words = format!("--connect {} --wait 4", proxy.address);
        let near = task(&self.place, (&jobs[0], 0, 0), &words);
        let mut both = [near, far];
        proxy.passed.recv_timeout(Duration::from_secs(30)).unwrap();
        for (side, killed) in both.iter_mut().zip(fault.killed) {
            if killed {
                side.process.kill().unwrap();
            }
        }
        let records = proxy
            .records
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        drop(proxy);
        let [near, mut far] = both;
        let near = near.wait();
        // One that has not proved who its peer is waits for another, which does not come.
        let until = Instant::now() + Duration::from_millis(500);
        while !far.has_ended() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        if !far.has_ended() {
            far.signal(Signal::SIGTERM);
        }
        ([near, far.wait()], records)
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    std::fs::set_permissions(to, from.metadata().unwrap().permissions()).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

impl Change {
    fn apply(&self, scene: &Scene, jobs: &[String; 2]) {
        let path = |side: usize, name: &str| scene.place.path(&jobs[side]).join(name);
        match self {
            Change::Nothing => {}
            Change::Older(side) => copy(&scene.place.path(SIDES[*side]), &path(*side, "")),
            // Not all of them are there after each fault.
            Change::Gone(side, name) => drop(std::fs::remove_file(path(*side, name))),
            Change::Damaged(side, name) => {
                if let Ok(mut bytes) = std::fs::read(path(*side, name)) {
                    let middle = bytes.len() / 2;
                    match bytes.get_mut(middle) {
                        Some(byte) => *byte ^= 1,
                        None => bytes.push(0),
                    }
                    std::fs::write(path(*side, name), bytes).unwrap();
                }
            }
        }
    }
}

/// How often the sender saw the end of attempts at each bucket, and how the drivers ended.
struct Ends {
    answers: [u32; 2],
    codes: [Option<i32>; 2],
}

/// Goes on until the drivers have nothing to do, or cannot go on.
fn go_on(scene: &Scene, jobs: &[String; 2], first: &[Ended; 2]) -> Result<Ends, String> {
    let mut answers = [u32::from(first[1].code == Some(0)), 0];
    for _ in 0..8 {
        let sides = scene.drivers("attempts", jobs);
        let codes = sides.each_ref().map(|side| side.code);
        if codes != [Some(0); 2] {
            return Ok(Ends { answers, codes });
        }
        if sides[0].out != sides[1].out {
            return Err(format!("drivers do not agree: {sides:?}"));
        }
        let next = sides[0].text().to_owned();
        if next.is_empty() {
            return Ok(Ends { answers, codes });
        }
        for line in next.lines() {
            let (bucket, attempt) = line.split_once(' ').unwrap();
            let attempt = (bucket.parse().unwrap(), attempt.parse().unwrap());
            let ended = scene.tasks(jobs, attempt);
            answers[attempt.0 as usize] += u32::from(ended[1].code == Some(0));
            if let Some(blames) = ended.iter().find(|side| side.code == Some(5)) {
                return Err(format!("an honest peer is blamed: {}", blames.err));
            }
        }
    }
    Err("the job does not end".into())
}

/// What a side has in the end, or how it fails.
fn found(scene: &Scene, jobs: &[String; 2]) -> [Result<String, Option<i32>>; 2] {
    let ended = match scene.question {
        Question::Size => scene.drivers("total", jobs),
        _ => [0, 1].map(|side| {
            let (job, table) = (&jobs[side], ["ours.csv", "theirs.csv"][side]);
            let words = format!("collect --job {job} --input {table} --key key --output {job}.csv");
            scene.place.run(&words)
        }),
    };
    let of = |side: usize| match (ended[side].code, scene.question) {
        (Some(0), Question::Size) => Ok(ended[side].text().to_owned()),
        (Some(0), _) => Ok(scene.place.read(&format!("{}.csv", jobs[side]))),
        (code, _) => Err(code),
    };
    [of(0), of(1)]
}

fn live(scene: &Scene, number: usize, fault: Fault, change: &Change) -> Result<(), String> {
    let jobs = SIDES.map(|side| format!("{side}-{number}"));
    for side in 0..2 {
        copy(
            &scene.place.path(SIDES[side]),
            &scene.place.path(&jobs[side]),
        );
    }
    let (first, _) = scene.troubled(&jobs, fault);
    change.apply(scene, &jobs);
    let ends = go_on(scene, &jobs, &first)?;
    let found = found(scene, &jobs);
    for side in 0..2 {
        let expected = &scene.expected[side];
        let learns = !expected.is_empty() || scene.question == Question::Size;
        match &found[side] {
            Ok(found) if found == expected => {}
            Ok(found) => return Err(format!("side {side} has {found:?}")),
            Err(Some(2)) if !learns => {}
            Err(Some(2 | 3 | 4 | 6 | 7)) if change.side().is_some() => {}
            Err(code) => return Err(format!("side {side} ends with {code:?}")),
        }
    }
    match change.side() {
        None if ends.codes != [Some(0); 2] => return Err(format!("blocked: {:?}", ends.codes)),
        _ if ends.codes.contains(&Some(5)) => return Err("an honest peer is blamed".into()),
        _ => {}
    }
    if change.side() != Some(1) && ends.answers.iter().any(|answers| *answers > 1) {
        return Err(format!("answered again: {:?}", ends.answers));
    }
    for job in &jobs {
        std::fs::remove_dir_all(scene.place.path(job)).unwrap();
        let _ = std::fs::remove_file(scene.place.path(&format!("{job}.csv")));
    }
    Ok(())
}

/// The records of TLS that an attempt takes in each direction.
fn records(scene: &Scene) -> [usize; 2] {
    let jobs = SIDES.map(|side| format!("{side}-counted"));
    for side in 0..2 {
        copy(
            &scene.place.path(SIDES[side]),
            &scene.place.path(&jobs[side]),
        );
    }
    let all = Fault {
        direction: 0,
        records: usize::MAX,
        killed: [false; 2],
    };
    let (ended, records) = scene.troubled(&jobs, all);
    succeed(ended);
    records
}

/// What may become of files after the first attempt.
fn changes(question: Question) -> Vec<Change> {
    let mut changes = vec![Change::Nothing];
    let result = match question {
        Question::Size => "shares",
        _ => "bits",
    };
    for side in 0..2 {
        changes.push(Change::Older(side));
        let marks = ["begun", "confirmed", result].map(|kind| format!("bucket-0.attempt-0.{kind}"));
        let others = ["job.json", "gateway.json", "bucket-0.keys", "bucket-1.keys"];
        for name in marks.into_iter().chain(others.map(str::to_owned)) {
            changes.push(Change::Gone(side, name.clone()));
            changes.push(Change::Damaged(side, name));
        }
    }
    changes
}

/// Lives of each question, each with a fault at each message and whatever `chosen` chooses of the changes after it.
fn lives(chosen: impl Fn(usize, usize) -> bool) {
    let ledger = Ledger::default();
    for question in Question::ALL {
        let scene = Scene::new(question);
        let counts = records(&scene);
        let changes = changes(question);
        let mut jobs = Vec::new();
        let faults = (0..2).flat_map(|direction| {
            (0..counts[direction]).flat_map(move |records| {
                [[false; 2], [true, false], [false, true], [true; 2]].map(|killed| Fault {
                    direction,
                    records,
                    killed,
                })
            })
        });
        for (i, fault) in faults.enumerate() {
            for (j, change) in changes.iter().enumerate() {
                if chosen(i, j) {
                    let name = format!("{question:?}, {fault:?}, {change:?}");
                    jobs.push((name, (i * changes.len() + j, fault, change.clone())));
                }
            }
        }
        assert!(!jobs.is_empty());
        on_threads(4, &ledger, jobs, |(number, fault, change)| {
            live(&scene, number, fault, &change).unwrap();
        });
    }
    ledger.settle();
}

#[test]
fn some_lives_of_jobs_go_as_they_may() {
    lives(|fault, change| change == 0 && fault % 19 == 3);
}

#[test]
#[ignore = "thousands of jobs"]
fn many_lives_of_jobs_go_as_they_may() {
    let seed = std::env::var("VESICA_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (few, dice) = (part(100), std::cell::RefCell::new(Dice::new(seed)));
    // Each fault as it is, and some of the changes after each.
    lives(|_, change| change == 0 || dice.borrow_mut().below(1000) < few);
}
