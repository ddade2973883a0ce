//! Every system call of a command fails in turn, as SQLite is tested: opening, reading, writing, synchronising, renaming,
//! unlinking, linking and locking files, and allocating 1 MiB or more. A table for `docs/reliability.md`.
//!
//! A scene is a command with its peers. It runs once to count the calls, then once for each call and error, and once
//! more without a fault after each. `testing/preload/faults.c` makes the calls fail; it needs a C compiler, without
//! which these tests say that they are skipped.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use nix::errno::Errno;
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use crate::faults::{Ledger, memory_of_buckets, on_threads};
use crate::support::{Arguments, Ended, Place, Running, csv_of};
use crate::trial::{part, publish};

// ---- Faults.

/// The classes of calls, in the order of the library's counts, and how they fail: with which error, and how often. A
/// call that is interrupted, or moves less than it could, must have no effect at all.
const CLASSES: [(&str, &[(Errno, Mode)]); 10] = [
    (
        "open",
        &[
            (Errno::EMFILE, Mode::Once),
            (Errno::EIO, Mode::Once),
            (Errno::EINTR, Mode::Each),
        ],
    ),
    (
        "read",
        &[
            (Errno::EIO, Mode::Once),
            (Errno::EINTR, Mode::Each),
            (Errno::EINTR, Mode::Short),
        ],
    ),
    (
        "write",
        &[
            (Errno::ENOSPC, Mode::Once),
            (Errno::ENOSPC, Mode::Onward),
            (Errno::EIO, Mode::Once),
            (Errno::EINTR, Mode::Each),
            (Errno::EINTR, Mode::Short),
        ],
    ),
    (
        "sync",
        &[
            (Errno::EIO, Mode::Once),
            (Errno::ENOSPC, Mode::Onward),
            (Errno::EINTR, Mode::Each),
        ],
    ),
    (
        "rename",
        &[(Errno::EIO, Mode::Once), (Errno::ENOSPC, Mode::Onward)],
    ),
    (
        "unlink",
        &[(Errno::EIO, Mode::Once), (Errno::EIO, Mode::Onward)],
    ),
    (
        "link",
        &[(Errno::EIO, Mode::Once), (Errno::ENOSPC, Mode::Onward)],
    ),
    (
        "lock",
        &[(Errno::EIO, Mode::Once), (Errno::EOPNOTSUPP, Mode::Onward)],
    ),
    (
        "other",
        &[(Errno::EIO, Mode::Once), (Errno::ENOSPC, Mode::Once)],
    ),
    ("allocate", &[(Errno::ENOMEM, Mode::Once)]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The call fails.
    Once,
    /// So do all after it.
    Onward,
    /// Each fails before it works.
    Each,
    /// Each moves half of what it could.
    Short,
}

impl Mode {
    /// Whether the command must not notice.
    fn is_harmless(self) -> bool {
        matches!(self, Mode::Each | Mode::Short)
    }
}

/// What is to fail.
#[derive(Clone, Copy)]
struct Fault {
    class: usize,
    /// Counted from 1.
    number: u64,
    error: Errno,
    mode: Mode,
}

impl fmt::Display for Fault {
    /// As the library reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = format!("{:?}", self.mode).to_lowercase();
        let class = CLASSES[self.class].0;
        write!(f, "{class} {} {} {mode}", self.number, self.error as i32)
    }
}

/// The library, built once; `None` where there is no C compiler.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/preload/faults.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let built = Command::new(compiler)
            .args(["-O1", "-fPIC", "-shared", "-o"])
            .args([&library, &source])
            .status();
        match built {
            Ok(status) => {
                assert!(status.success(), "{} does not compile", source.display());
                Some(library)
            }
            Err(_) => {
                // Past the test runner, which shows what tests print only if they fail.
                let line = "system calls: SKIPPED, for there is no C compiler";
                let _ = writeln!(std::io::stderr(), "{line}");
                None
            }
        }
    });
    LIBRARY.as_deref()
}

/// The library's record of one process.
struct Record {
    directory: TempDir,
}

/// What the library saw.
struct Seen {
    calls: [u64; CLASSES.len()],
    failed: u64,
    /// The first call that failed.
    place: String,
}

impl Record {
    fn new() -> Record {
        Record {
            directory: TempDir::new().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// What a shell runs before a process that has this fault.
    fn before(&self, library: &Path, fault: Option<Fault>) -> String {
        let plan = fault.map(|fault| fault.to_string()).unwrap_or_default();
        format!(
            "export FAULTS_STATE='{}' FAULTS_PLAN='{plan}' LD_PRELOAD='{}'",
            self.path().display(),
            library.display()
        )
    }

    fn seen(&self) -> Seen {
        let bytes = std::fs::read(self.path()).unwrap();
        let number = |at: usize| u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap());
        let place = &bytes[8 * (CLASSES.len() + 1)..];
        let end = place.iter().position(|b| *b == 0).unwrap_or(place.len());
        Seen {
            calls: std::array::from_fn(number),
            failed: number(CLASSES.len()),
            place: String::from_utf8_lossy(&place[..end]).into_owned(),
        }
    }
}

// ---- Scenes.

/// A command that has faults, and its peers.
struct Scene {
    name: &'static str,
    prepare: fn(&Place),
    /// Runs everything, the command from a shell that has run these words.
    play: fn(&Place, &str) -> Played,
    /// Files that it writes. What it prints and these are the same in every run that succeeds.
    outputs: &'static [&'static str],
    prints: bool,
    /// Directories that a run may leave.
    keeps: &'static [&'static str],
    /// What must hold after a run that may have failed, and after one that may not.
    check: fn(&Place, &Played) -> Result<(), String>,
    /// Classes whose calls fail here; all if there are none.
    only: &'static [&'static str],
    /// How many calls of each class fail in each way; the others do the same again.
    most: u64,
}

/// How the processes of a scene ended; a peer to which nobody came is stopped, and is `None`.
struct Played {
    command: Ended,
    peers: Vec<Option<Ended>>,
}

fn settle(command: Running, mut peers: Vec<Running>) -> Played {
    let command = command.wait();
    let is_met = |peer: &mut Running| peer.said().contains("connected to ");
    if command.code != Some(0) && !peers.iter_mut().all(is_met) {
        thread::sleep(Duration::from_millis(500));
    }
    let is_failure = command.code != Some(0);
    let met = peers.iter_mut().map(|peer| {
        let is_waiting = is_failure && !is_met(peer);
        if is_waiting {
            peer.process.kill().unwrap();
        }
        !is_waiting
    });
    let met: Vec<bool> = met.collect();
    let peers = peers.into_iter().zip(met);
    Played {
        command,
        peers: peers
            .map(|(peer, met)| {
                let ended = peer.wait();
                met.then_some(ended)
            })
            .collect(),
    }
}

pub(crate) const TIMES: &str = "--timeout 10 --wait 30 --threads 1";

/// Two tables of so many rows, half of which match.
pub(crate) fn tables(place: &Place, rows: u64) {
    let table = |numbers: std::ops::Range<u64>| {
        let row = |i: u64| {
            vec![
                format!("10.0.{}.{}", i / 256, i % 256),
                format!("{}", 7 * i),
            ]
        };
        csv_of(&["key", "value"], &numbers.map(row).collect::<Vec<_>>())
    };
    place.write("ours.csv", table(0..rows));
    place.write("theirs.csv", table(rows / 2..rows + rows / 2));
}

/// Tables whose rows take more memory than their keys.
fn repetitive_tables(place: &Place) {
    let table = |start: u64| {
        let row = |i: u64| vec![(start + i % 60).to_string(), i.to_string()];
        csv_of(&["key", "value"], &(0..12_000).map(row).collect::<Vec<_>>())
    };
    place.write("ours.csv", table(0));
    place.write("theirs.csv", table(30));
}

/// Tables that take more than a mebibyte each.
fn large_tables(place: &Place) {
    let rows = |numbers: std::ops::Range<u32>| -> String {
        let row = |i: u32| format!("{i},{}\n", "x".repeat(80));
        std::iter::once("key,text\n".to_owned())
            .chain(numbers.map(row))
            .collect()
    };
    place.write("ours.csv", rows(0..40_000));
    place.write("theirs.csv", rows(10_000..50_000));
}

fn parquet_tables(place: &Place) {
    for (name, numbers) in [("ours.parquet", 0..300), ("theirs.parquet", 100..400)] {
        let column = |times: i64| -> ArrayRef {
            Arc::new(
                numbers
                    .clone()
                    .map(|i: i64| times * i)
                    .collect::<Int64Array>(),
            )
        };
        let columns = [("key", column(1)), ("value", column(3))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = File::create(place.path(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

/// A run in which the receiver has the faults, or the sender; that side connects.
fn exchange(
    place: &Place,
    first: &str,
    is_receiver: bool,
    [receiver, sender]: [Arguments; 2],
) -> Played {
    let listen = "--listen 127.0.0.1:0";
    match is_receiver {
        true => {
            let mut peer = place.sender(&sender.with(TIMES), listen);
            let endpoint = peer.endpoint();
            let command = place.receiver(&receiver.with(TIMES).after(first), &endpoint);
            settle(command, vec![peer])
        }
        false => {
            let mut peer = place.receiver(&receiver.with(TIMES), listen);
            let endpoint = peer.endpoint();
            let command = place.sender(&sender.with(TIMES).after(first), &endpoint);
            settle(command, vec![peer])
        }
    }
}

/// Runs with work directories, whose matches both sides learn.
fn both(memory: u64) -> [Arguments; 2] {
    let words = format!("--protocol dh --security semi-honest --both --memory {memory}");
    [
        Arguments::new("ours.csv", "key")
            .output("out.csv")
            .with("--report report.json --work-dir near"),
        Arguments::new("theirs.csv", "key")
            .output("theirs-out.csv")
            .with("--work-dir far"),
    ]
    .map(|side| side.with(&words))
}

/// Four buckets of so many rows, whose keys are in memory if they are 1000 and on disk if they are 4000.
pub(crate) fn buckets(rows: u64) -> [Arguments; 2] {
    both(memory_of_buckets("dh", [rows; 2], 40, 4, [false; 2]))
}

fn sums() -> [Arguments; 2] {
    let words = "--reveal sum --security semi-honest";
    [
        Arguments::new("ours.csv", "key").with(words),
        Arguments::new("theirs.csv", "key")
            .with(words)
            .with("--value value"),
    ]
}

/// A run that takes a half of each store.
pub(crate) fn with_stores() -> [Arguments; 2] {
    let side = |input: &str, role: &str| {
        Arguments::new(input, "key")
            .with("--normalize key=ipv4 --security semi-honest --protocol ole --offline ot")
            .with(&format!("--offline-store {role}.store"))
    };
    [
        side("ours.csv", "receiver")
            .output("out.csv")
            .with("--report report.json"),
        side("theirs.csv", "sender"),
    ]
}

pub(crate) const TERMS: &str = "--items 32 --receiver-size 64 --sender-size 64";

fn make(place: &Place, first: &str) -> Played {
    let words = format!("--offline ot {TERMS} --timeout 10 --wait 30");
    let mut peer = place.make("sender", &words, "--listen 127.0.0.1:0");
    let words = place.making_words("receiver", &words, &peer.endpoint());
    settle(place.start_after(first, &words), vec![peer])
}

pub(crate) fn stores_of_two(place: &Place) {
    tables(place, 60);
    for _ in 0..2 {
        let made = make(place, "true");
        made.command.expect_success();
    }
}

/// The halves that a side could use.
pub(crate) fn ready(place: &Place, role: &str) -> BTreeSet<String> {
    if !place.path(&format!("{role}.store")).exists() {
        return BTreeSet::new();
    }
    let listed = place.run(&format!(
        "offline ls --json --offline-store {role}.store --identity {role}.key"
    ));
    let listed: serde_json::Value = serde_json::from_str(listed.text()).unwrap();
    let halves = listed.as_array().unwrap().iter();
    let halves = halves.filter(|half| half["state"] == "ready");
    halves
        .map(|half| half["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Files of a store that are neither a half nor the marker of a used one.
fn strays_in_stores(place: &Place) -> Vec<String> {
    let stores = ["receiver.store", "sender.store"].map(|store| place.path(store));
    let entries = stores
        .iter()
        .filter_map(|store| std::fs::read_dir(store).ok());
    let names = entries.flatten().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names
        .filter(|name| !name.ends_with(".half") && !name.ends_with(".used"))
        .collect()
}

fn no_strays(place: &Place) -> Result<(), String> {
    let strays = strays_in_stores(place);
    match strays.is_empty() {
        true => Ok(()),
        false => Err(format!("in the store: {strays:?}")),
    }
}

/// A pair that is made is in both stores.
fn is_paired(place: &Place, played: &Played) -> Result<(), String> {
    no_strays(place)?;
    if played.command.code == Some(0) {
        let name = played.command.text().trim();
        if !["receiver", "sender"]
            .iter()
            .all(|role| ready(place, role).contains(name))
        {
            return Err(format!("{name} is not in both stores"));
        }
    }
    Ok(())
}

/// The names of the receiver's halves, used ones too.
fn halves(place: &Place) -> Vec<String> {
    let entries = std::fs::read_dir(place.path("receiver.store")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter_map(|name| Some(name.strip_suffix(".half")?.to_owned()))
        .collect()
}

/// A half that is removed leaves no more than its marker.
fn is_removed(place: &Place, played: &Played) -> Result<(), String> {
    no_strays(place)?;
    let is_marked = |half: &String| place.path(&format!("receiver.store/{half}.used")).exists();
    match played.command.code == Some(0) && halves(place).iter().any(is_marked) {
        true => Err("a half is there after its removal".into()),
        false => Ok(()),
    }
}

/// A half that a run has taken is in neither store.
fn is_taken(place: &Place, played: &Played) -> Result<(), String> {
    no_strays(place)?;
    if played.command.code == Some(0) {
        let report: serde_json::Value =
            serde_json::from_str(&place.read("report.json")).map_err(|e| e.to_string())?;
        let name = report["contract"]["offline"].as_str().ok_or("no half")?;
        if ["receiver", "sender"]
            .iter()
            .any(|role| ready(place, role).contains(name))
        {
            return Err(format!("{name} is still in a store"));
        }
    }
    Ok(())
}

/// The report of a run, if there is one, says how the run ended.
fn is_reported(place: &Place, played: &Played) -> Result<(), String> {
    let Ok(text) = std::fs::read(place.path("report.json")) else {
        return Ok(());
    };
    let report: serde_json::Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    match report["exit_code"].as_i64() == played.command.code.map(i64::from) {
        true => Ok(()),
        false => Err(format!("the report says {}", report["exit_code"])),
    }
}

fn nothing(_: &Place, _: &Played) -> Result<(), String> {
    Ok(())
}

/// Once all is published, the same table is added, of which nothing is new.
fn publish_a_table(place: &Place, first: &str) -> Played {
    let is_there = |name: &str| place.path(name).exists();
    let is_over = is_there("set.vset") && !is_there("database/publishing-journal");
    let words = if is_over { "--add" } else { "--input" };
    let published = "publish --identity sender.key --set-dir database --output set.vset --key key";
    alone(place, first, &format!("{published} {words} ours.csv"))
}

fn alone(place: &Place, first: &str, words: &str) -> Played {
    settle(place.start_after(first, words), Vec::new())
}

fn scenes() -> Vec<Scene> {
    let plain = Scene {
        name: "",
        prepare: |place| tables(place, 60),
        play: |_, _| unreachable!(),
        outputs: &["out.csv", "theirs-out.csv"],
        prints: false,
        keeps: &["near", "far"],
        check: nothing,
        only: &[],
        most: u64::MAX,
    };
    vec![
        Scene {
            name: "receive in buckets",
            prepare: |place| tables(place, 1000),
            play: |place, first| exchange(place, first, true, buckets(1000)),
            check: is_reported,
            ..plain
        },
        Scene {
            name: "send in buckets",
            prepare: |place| tables(place, 1000),
            play: |place, first| exchange(place, first, false, buckets(1000)),
            ..plain
        },
        Scene {
            name: "receive with keys on disk",
            prepare: repetitive_tables,
            play: |place, first| exchange(place, first, true, both(60 << 10)),
            check: is_reported,
            ..plain
        },
        Scene {
            name: "receive in buckets with keys on disk",
            prepare: |place| tables(place, 4000),
            play: |place, first| exchange(place, first, true, buckets(4000)),
            check: is_reported,
            only: &["read", "write"],
            most: 40,
            ..plain
        },
        Scene {
            name: "receive Parquet",
            prepare: parquet_tables,
            play: |place, first| {
                let sides = [
                    Arguments::new("ours.parquet", "key").output("out.parquet"),
                    Arguments::new("theirs.parquet", "key"),
                ];
                exchange(place, first, true, sides)
            },
            outputs: &["out.parquet"],
            keeps: &[],
            ..plain
        },
        Scene {
            name: "receive a sum",
            play: |place, first| exchange(place, first, true, sums()),
            outputs: &[],
            prints: true,
            keeps: &[],
            ..plain
        },
        Scene {
            name: "send a sum",
            play: |place, first| exchange(place, first, false, sums()),
            outputs: &[],
            keeps: &[],
            ..plain
        },
        Scene {
            name: "receive 40000 rows",
            prepare: large_tables,
            play: |place, first| {
                let sides = [
                    Arguments::new("ours.csv", "key").output("out.csv"),
                    Arguments::new("theirs.csv", "key"),
                ];
                exchange(place, first, true, sides)
            },
            outputs: &["out.csv"],
            keeps: &[],
            only: &["allocate"],
            ..plain
        },
        Scene {
            name: "send 40000 rows",
            prepare: large_tables,
            play: |place, first| {
                let sides = [
                    Arguments::new("ours.csv", "key").output("out.csv"),
                    Arguments::new("theirs.csv", "key"),
                ];
                exchange(place, first, false, sides)
            },
            outputs: &["out.csv"],
            keeps: &[],
            only: &["allocate"],
            ..plain
        },
        Scene {
            name: "check",
            play: |place, first| {
                alone(place, first, "check --input ours.csv --key key --memory 4K")
            },
            outputs: &[],
            prints: true,
            keeps: &[],
            ..plain
        },
        Scene {
            name: "check Parquet",
            prepare: parquet_tables,
            play: |place, first| alone(place, first, "check --input ours.parquet --key key"),
            outputs: &[],
            prints: true,
            keeps: &[],
            ..plain
        },
        Scene {
            name: "publish",
            play: publish_a_table,
            outputs: &[],
            keeps: &["database", "set.vset"],
            ..plain
        },
        Scene {
            name: "offline make",
            play: make,
            outputs: &[],
            keeps: &["receiver.store", "sender.store"],
            check: is_paired,
            ..plain
        },
        Scene {
            name: "receive from a store",
            prepare: stores_of_two,
            play: |place, first| exchange(place, first, true, with_stores()),
            outputs: &["out.csv"],
            keeps: &[],
            check: is_taken,
            ..plain
        },
        Scene {
            name: "send from a store",
            prepare: stores_of_two,
            play: |place, first| exchange(place, first, false, with_stores()),
            outputs: &["out.csv"],
            keeps: &[],
            check: is_taken,
            ..plain
        },
        Scene {
            name: "offline ls",
            prepare: stores_of_two,
            play: |place, first| {
                let words = "offline ls --offline-store receiver.store --identity receiver.key";
                alone(place, first, words)
            },
            outputs: &[],
            keeps: &[],
            ..plain
        },
        Scene {
            name: "offline verify",
            prepare: stores_of_two,
            play: |place, first| {
                let words = "offline verify --offline-store receiver.store --identity receiver.key";
                alone(place, first, words)
            },
            outputs: &[],
            keeps: &[],
            ..plain
        },
        Scene {
            name: "offline rm",
            prepare: stores_of_two,
            play: |place, first| {
                let half = halves(place).into_iter().min().unwrap();
                let words = format!(
                    "offline rm {half} --offline-store receiver.store --identity receiver.key"
                );
                alone(place, first, &words)
            },
            outputs: &[],
            keeps: &[],
            check: is_removed,
            ..plain
        },
        Scene {
            name: "offline make from a dealer",
            prepare: dealer_key,
            play: |place, first| deal(place, first, "receiver"),
            outputs: &[],
            keeps: &["receiver.store", "sender.store"],
            check: is_paired,
            ..plain
        },
        Scene {
            name: "dealer",
            prepare: dealer_key,
            play: |place, first| deal(place, first, "dealer"),
            outputs: &[],
            keeps: &["receiver.store", "sender.store"],
            check: |place, _| no_strays(place),
            ..plain
        },
    ]
}

fn dealer_key(place: &Place) {
    let made = place.run("keygen --out dealer.key");
    place.write("dealer", made.text());
}

/// A dealer and its two parties, of whom one has the faults.
fn deal(place: &Place, first: &str, faulty: &str) -> Played {
    let first_of = |who| if who == faulty { first } else { "true" };
    let dealing = format!(
        "dealer --listen 127.0.0.1:0 --identity dealer.key --receiver {} --sender {} \
         --progress plain --timeout 10 --wait 30",
        place.receiver, place.sender
    );
    let mut dealer = place.start_after(first_of("dealer"), &dealing);
    let Some(endpoint) = dealer.endpoint_if_any() else {
        return settle(dealer, Vec::new());
    };
    let terms = format!(
        "--offline dealer --dealer {} {TERMS} --timeout 10 --wait 30",
        place.read("dealer").trim()
    );
    let [receiver, sender] = ["receiver", "sender"].map(|role| {
        let words = place.making_words(role, &terms, &endpoint);
        place.start_after(first_of(role), &words)
    });
    match faulty {
        "dealer" => settle(dealer, vec![receiver, sender]),
        _ => settle(receiver, vec![sender, dealer]),
    }
}

// ---- Cases.

/// What is known of a scene from a run without faults.
struct Expected {
    calls: [u64; CLASSES.len()],
    printed: Vec<u8>,
    outputs: Vec<Vec<u8>>,
}

impl Scene {
    fn expected(&self, library: &Path) -> Expected {
        let place = Place::new();
        (self.prepare)(&place);
        let record = Record::new();
        let played = (self.play)(&place, &record.before(library, None));
        played.command.expect_success();
        (self.check)(&place, &played).unwrap();
        for peer in &played.peers {
            peer.as_ref().unwrap().expect_success();
        }
        let outputs = self.outputs.iter();
        Expected {
            calls: record.seen().calls,
            printed: played.command.out,
            outputs: outputs
                .map(|name| std::fs::read(place.path(name)).unwrap())
                .collect(),
        }
    }

    /// The faults of this scene, or at most so many of each class and way.
    fn faults(&self, calls: &[u64; CLASSES.len()], most: u64) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (class, (name, ways)) in CLASSES.iter().enumerate() {
            if !self.only.is_empty() && !self.only.contains(name) {
                continue;
            }
            for &(error, mode) in *ways {
                let count = match mode.is_harmless() {
                    true => calls[class].min(1),
                    false => calls[class],
                };
                let step = count.div_ceil(most.min(self.most)).max(1) as usize;
                faults.extend((1..=count).step_by(step).map(|number| Fault {
                    class,
                    number,
                    error,
                    mode,
                }));
            }
        }
        faults
    }

    /// What a failed run, or a run that follows one, has wrong.
    fn defects(
        &self,
        place: &Place,
        before: &[String],
        played: &Played,
        expected: &Expected,
    ) -> Vec<String> {
        let mut defects = Vec::new();
        let code = played.command.code;
        for (name, right) in self.outputs.iter().zip(&expected.outputs) {
            match std::fs::read(place.path(name)) {
                Ok(bytes) if bytes == *right => {}
                Ok(_) => defects.push(format!("{name} is wrong")),
                Err(_) if code == Some(0) => defects.push(format!("{name} is missing")),
                Err(_) => {}
            }
        }
        if code == Some(0) && self.prints && played.command.out != expected.printed {
            defects.push("what it prints is wrong".into());
        }
        let is_known = |name: &String| {
            let name = name.as_str();
            before.iter().any(|before| before == name)
                || name == "report.json"
                || self.outputs.contains(&name)
                || self.keeps.contains(&name)
        };
        let names = place.names();
        let strays: Vec<&String> = names.iter().filter(|name| !is_known(name)).collect();
        if !strays.is_empty() {
            defects.push(format!("left behind: {strays:?}"));
        }
        if let Err(defect) = (self.check)(place, played) {
            defects.push(defect);
        }
        defects
    }
}

/// What is wrong with the way in which a command with a fault ended.
fn ending(fault: Fault, seen: &Seen, ended: &Ended) -> Option<String> {
    if ended.code == Some(0) {
        return None;
    }
    if seen.failed == 0 || fault.mode.is_harmless() {
        return Some("failed without a reason".into());
    }
    let lines: Vec<&str> = ended
        .err
        .lines()
        .filter(|line| line.starts_with("vesica: "))
        .collect();
    let hints = ended
        .err
        .lines()
        .filter(|line| line.starts_with("hint: "))
        .count();
    if lines.len() != 1 || hints > 1 || ended.err.contains("panicked") {
        return Some("not one line".into());
    }
    // What is broken decides otherwise: an option's file, the input, or a result.
    let (cause, codes): (&str, &[i32]) = match fault.error {
        Errno::ENOSPC => ("No space left on device", &[7]),
        Errno::EMFILE => ("Too many open files", &[7]),
        Errno::ENOMEM => ("out of memory", &[7]),
        Errno::EOPNOTSUPP => ("a file system without locks", &[2, 3]),
        _ => ("Input/output error", &[2, 3, 7]),
    };
    // The verdict on a half is printed.
    if !lines[0].contains(cause) && !ended.text().contains(cause) {
        return Some("the line does not say why".into());
    }
    if !ended.code.is_some_and(|code| codes.contains(&code)) {
        return Some("another exit code".into());
    }
    let is_reading = CLASSES[fault.class].0 == "read";
    let is_writing = ["write", "sync", "rename", "link"].contains(&CLASSES[fault.class].0);
    let wrong = is_reading && lines[0].contains("cannot be written")
        || is_writing && lines[0].contains("cannot be read");
    wrong.then(|| "the line names another cause".into())
}

/// What is wrong with the way in which the peer of a command with a fault ended.
fn bystanding(command: Option<i32>, peer: &Ended) -> Option<&'static str> {
    let told = peer
        .err
        .lines()
        .find(|line| line.contains("the peer gave up"));
    match (command, peer.code, told) {
        (_, Some(0), _) | (Some(1..), Some(4), _) => None,
        (Some(1..), Some(7), Some(told)) if !told.replace("Input/output", "").contains('/') => None,
        (Some(1..), Some(7), Some(_)) => Some("has learnt of a path"),
        _ => Some("ended wrongly"),
    }
}

/// One fault, and the same command again.
fn strike(
    scene: &Scene,
    expected: &Expected,
    fault: Fault,
    library: &Path,
) -> Result<&'static str, String> {
    let place = Place::new();
    (scene.prepare)(&place);
    let before = place.names();
    let record = Record::new();
    let played = (scene.play)(&place, &record.before(library, Some(fault)));
    let seen = record.seen();
    let mut defects = scene.defects(&place, &before, &played, expected);
    defects.extend(ending(fault, &seen, &played.command));
    for peer in played.peers.iter().flatten() {
        if let Some(defect) = bystanding(played.command.code, peer) {
            defects.push(format!("the peer {defect}: {:?} {}", peer.code, peer.err));
        }
    }
    let again = (scene.play)(&place, "true");
    let rerun = scene.defects(&place, &before, &again, expected);
    defects.extend(rerun.into_iter().map(|defect| format!("again: {defect}")));
    // A side that has its answer already needs no peer.
    if again.command.code != Some(0) {
        defects.push(format!(
            "again: {:?} {}",
            again.command.code, again.command.err
        ));
    }
    let outcome = match played.command.code {
        Some(0) => "done",
        _ => "error",
    };
    match defects.is_empty() {
        true => Ok(outcome),
        false => Err(format!(
            "{defects:?} after {:?} in {}: {:?} {}",
            fault.error, seen.place, played.command.code, played.command.err
        )),
    }
}

/// Runs the faults of these scenes, at most so many of each class and error.
fn strike_all(ledger: &Ledger, scenes: &[Scene], most: u64, library: &Path) {
    let expected: Vec<Expected> = scenes.iter().map(|scene| scene.expected(library)).collect();
    let mut jobs = Vec::new();
    for (i, (scene, expected)) in scenes.iter().zip(&expected).enumerate() {
        for fault in scene.faults(&expected.calls, most) {
            let case = format!("{}: {fault}", scene.name);
            jobs.push((case.clone(), (i, scene, expected, fault, case)));
        }
    }
    on_threads(4, ledger, jobs, |(i, scene, expected, fault, case)| {
        let class = CLASSES[fault.class].0;
        let calls = expected.calls[fault.class];
        let row = (
            CLASSES.len() * i + fault.class,
            format!("{} | {class} | {calls}", scene.name),
        );
        match strike(scene, expected, fault, library) {
            Ok(outcome) => ledger.count(row, outcome),
            Err(defect) => ledger.defect(format!("{case}: {defect}")),
        }
    });
}

// ---- The tests.

#[test]
fn some_system_calls_fail() {
    let Some(library) = library() else { return };
    let ledger = Ledger::default();
    let mut scenes = scenes();
    scenes.truncate(1);
    scenes[0].only = &["write", "rename"];
    strike_all(&ledger, &scenes, 1, library);
    ledger.settle();
}

/// Whatever one process at a time may use is not used where nobody can tell whether another does.
#[test]
fn nothing_is_shared_where_files_cannot_be_locked() {
    let Some(library) = library() else { return };
    let place = Place::new();
    tables(&place, 10);
    place.write("clients", format!("{}\n", place.receiver));
    let published = "publish --identity sender.key --set-dir database --output set.vset --key key";
    place
        .run(&format!("{published} --input ours.csv --max-keys 20"))
        .expect_success();
    let serve = "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 --quota 9 \
                 --set set.vset";
    let mut server = place.start_after("true", serve);
    let endpoint = server.endpoint();
    let peer = place.sender;
    let party = format!("--identity receiver.key --peer {peer} --input ours.csv --key key");
    let looking = format!("lookup {party} {endpoint} --set");
    let commands = [
        serve.to_owned(),
        format!("{published} --add theirs.csv"),
        "publish --identity sender.key --set-dir new --output new.vset --key key --input ours.csv"
            .to_owned(),
        format!("{looking} set.vset --state state"),
        format!("{looking} got.vset --fetch"),
        format!("receive {party} --listen 127.0.0.1:0 --work-dir work"),
        format!("exchange offer {party} --role receiver --state courier --message-out offered"),
    ];
    let fault = Fault {
        class: CLASSES
            .iter()
            .position(|(name, _)| *name == "lock")
            .unwrap(),
        number: 1,
        error: Errno::EOPNOTSUPP,
        mode: Mode::Onward,
    };
    for command in commands {
        let record = Record::new();
        let ended = place.run_after(&record.before(library, Some(fault)), &command);
        ended.expect_failure(2, "file system without locks");
        assert!(
            ended.hint().contains("a local disk"),
            "{command}: {}",
            ended.err
        );
    }
    server.process.kill().unwrap();
    server.wait();
}

/// A key, a count or a set that may be gone after a crash of the machine is not said to be there: every synchronisation counts,
/// those of directories too, but for the one after a journal is removed, which does no harm if it comes back.
#[test]
fn no_synchronisation_of_what_must_last_fails_unheard() {
    let Some(library) = library() else { return };
    let published = "publish --identity sender.key --set-dir database --output set.vset --key key";
    let first = format!("{published} --input ours.csv --max-keys 100");
    let commands = [
        ("keygen --out new.key".to_owned(), 0),
        (first.clone(), 1),
        (format!("{published} --add theirs.csv"), 0),
    ];
    for (command, unheard) in commands {
        let run = |fault| {
            let place = Place::new();
            tables(&place, 10);
            if command.contains("--add") {
                place.run(&first).expect_success();
            }
            let record = Record::new();
            let ended = place.run_after(&record.before(library, fault), &command);
            (ended, record.seen())
        };
        let class = CLASSES
            .iter()
            .position(|(name, _)| *name == "sync")
            .unwrap();
        let (ended, seen) = run(None);
        ended.expect_success();
        let calls = seen.calls[class];
        assert!(calls >= 2, "{command}: {calls}");
        for number in 1..=calls {
            let (error, mode) = (Errno::EIO, Mode::Once);
            let fault = Fault {
                class,
                number,
                error,
                mode,
            };
            let (ended, seen) = run(Some(fault));
            assert_eq!(seen.failed, 1, "{command}: {number} of {calls}");
            match number > calls - unheard {
                true => ended.expect_success(),
                false => assert_ne!(ended.code, Some(0), "{command}: {number} of {calls}"),
            }
        }
    }
}

/// Every call of every command, or so many of each class and way as the percentage says, with their table.
#[test]
#[ignore = "thousands of runs"]
fn all_system_calls_fail() {
    let Some(library) = library() else { return };
    let ledger = Ledger::default();
    let most = match part(100) {
        100 => u64::MAX,
        percent => percent,
    };
    let mut scenes = scenes();
    if let Ok(asked) = std::env::var("VESICA_RELIABILITY_COMMANDS") {
        scenes.retain(|scene| asked.split(',').any(|name| name == scene.name));
    }
    strike_all(&ledger, &scenes, most, library);
    publish(
        "system-calls",
        &ledger.table("command | call | calls", &["done", "error"]),
    );
    ledger.settle();
}
