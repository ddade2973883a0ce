//! Faults at every point of a run, and what each side makes of them: a table for `docs/reliability.md`.
//!
//! - In memory, every frame of a run is cut off, held back, lost, delayed, sent twice, replaced by the one before, swapped
//!   with the next, truncated, or changed in one bit. Nothing authenticates frames there: it is what a peer could do.
//! - Between two processes over TLS, a proxy cuts, stalls, delays or flips a bit at an offset of one direction.
//! - One of two processes is killed at a random time, and the same commands run again.
//!
//! `make reliability` runs everything and writes the tables; what `make test` runs is a small part of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use vesica::{OfflineTerms, ProtocolRequest, Role, Security};
use vesica_session::{ErrorClass, Job, NoProgress, run_over};
use vesica_testing::digests;
use vesica_wire::{ChannelOptions, FramedChannel, Spoil, Tamper, memory_pair_with};

use crate::support::{Arguments, Ended, Place, Running};
use crate::trial::{
    Dealt, Dice, Table, attested, dealing_words, is_dealt, name, part, publish, spec, split,
    storing_words, variants,
};

type Variant = (&'static str, Security);

/// Counts of one kind of run by outcome.
#[derive(Clone, Default)]
struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    fn of(&self, outcome: &str) -> u64 {
        self.0.get(outcome).copied().unwrap_or(0)
    }

    fn runs(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Counts by row of a table, and what must not have happened.
#[derive(Default)]
struct Ledger {
    rows: Mutex<BTreeMap<(usize, String), Counts>>,
    defects: Mutex<Vec<String>>,
}

impl Ledger {
    fn count(&self, row: (usize, String), outcome: &'static str) {
        let mut rows = self.rows.lock().unwrap();
        *rows.entry(row).or_default().0.entry(outcome).or_default() += 1;
    }

    fn defect(&self, what: String) {
        self.defects.lock().unwrap().push(what);
    }

    /// Markdown, one row for each row; `outcomes` are the columns behind the number of runs.
    fn table(&self, first: &str, outcomes: &[&str]) -> String {
        let mut text = format!("| {first} | runs | {} |\n|", outcomes.join(" | "));
        let columns = first.split('|').count() + 1 + outcomes.len();
        text.push_str(&"---|".repeat(columns));
        text.push('\n');
        for ((_, row), counts) in &*self.rows.lock().unwrap() {
            let cells: Vec<String> = outcomes.iter().map(|o| counts.of(o).to_string()).collect();
            let _ = writeln!(
                text,
                "| {row} | {} | {} |",
                counts.runs(),
                cells.join(" | ")
            );
        }
        text
    }

    #[track_caller]
    fn settle(&self) {
        let defects = self.defects.lock().unwrap();
        let shown: Vec<&String> = defects.iter().take(20).collect();
        assert!(defects.is_empty(), "{} defects: {shown:#?}", defects.len());
    }
}

/// Does `work` for every job on so many threads; a panic is a defect of the job with that name.
fn on_threads<T: Send>(
    threads: usize,
    ledger: &Ledger,
    jobs: Vec<(String, T)>,
    work: impl Fn(T) + Sync,
) {
    let jobs = Mutex::new(jobs.into_iter());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = jobs.lock().unwrap().next();
                    let Some((name, job)) = next else { return };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(job))) {
                        let said = panic.downcast_ref::<String>().cloned();
                        let said = said.or(panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                        ledger.defect(format!("{name}: {}", said.unwrap_or_default()));
                    }
                }
            });
        }
    });
}

// ---- Frames in memory.

/// A way to spoil a frame, its name in the table, and whether the result may lack matches afterwards: where a
/// frame has the right length and other content, the peer might as well have had other items.
struct Fault {
    name: &'static str,
    spoils: fn(&mut Dice) -> Vec<Spoil>,
    may_lack: bool,
    /// Whether the peer waits for something that never comes.
    silent: bool,
}

static FAULTS: [Fault; 8] = [
    Fault {
        name: "cut",
        spoils: |_| vec![Spoil::Close],
        may_lack: false,
        silent: false,
    },
    Fault {
        name: "stall",
        spoils: |_| vec![Spoil::Stall],
        may_lack: false,
        silent: true,
    },
    Fault {
        name: "frame lost",
        spoils: |_| vec![Spoil::Swallow],
        may_lack: false,
        silent: true,
    },
    Fault {
        name: "delay",
        spoils: |_| vec![Spoil::Delay(Duration::from_millis(40))],
        may_lack: false,
        silent: false,
    },
    Fault {
        name: "replay",
        spoils: |_| vec![Spoil::Duplicate, Spoil::ReplayPrevious],
        may_lack: true,
        silent: true,
    },
    Fault {
        name: "swap",
        spoils: |_| vec![Spoil::SwapWithNext],
        may_lack: true,
        silent: true,
    },
    Fault {
        name: "truncate",
        spoils: |dice| {
            vec![
                Spoil::Truncate(1),
                Spoil::Truncate(1 + dice.below(64) as usize),
            ]
        },
        may_lack: false,
        silent: true,
    },
    Fault {
        name: "flip",
        spoils: |dice| {
            (0..3)
                .map(|_| Spoil::FlipBit(dice.below(1 << 20) as usize))
                .collect()
        },
        may_lack: true,
        silent: true,
    },
];

/// Items of the receiver, and of the sender, and those that both have.
const OURS: std::ops::Range<u64> = 0..300;
const THEIRS: std::ops::Range<u64> = 200..480;
const SHARED: std::ops::Range<u32> = 200..300;

/// Runs in one bucket, and in several unless a pair is for a whole run.
fn whole_or_not(protocol: &str) -> &'static [bool] {
    match is_dealt(protocol) {
        true => &[false],
        false => &[false, true],
    }
}

/// A limit of memory that makes two buckets of the sets in memory.
fn two_buckets(protocol: &'static str) -> u64 {
    let sizes = [OURS, THEIRS].map(|range| range.end - range.start);
    let limit = (spec(protocol).working_bytes)(sizes[0], sizes[1]) - 1;
    let split = split(protocol, sizes, None, 40, limit).unwrap();
    assert_eq!(split.buckets, 2);
    limit
}

/// What came of one run: the receiver's matches or whose fault its error is, and whether frames were spoilt.
type Came = Option<Result<Vec<u32>, ErrorClass>>;

/// One run with one frame of one side spoilt. Gives what each side got (the sender never matches), frames that each
/// side sent, and whether anything was spoilt.
fn spoilt(
    (protocol, security): Variant,
    buckets: bool,
    role: Role,
    frame: usize,
    spoil: Spoil,
    timeout: Duration,
) -> ([Came; 2], [usize; 2], bool) {
    // A side that lives says so, and one that waits for a lost frame waits that long.
    let options = ChannelOptions {
        timeout,
        patience: timeout,
        ..ChannelOptions::default()
    };
    let (a, b) = memory_pair_with(options.clone(), options);
    let dealt = is_dealt(protocol).then(|| {
        Dealt::new(&OfflineTerms {
            protocol: protocol.to_owned(),
            lambda: 40,
            key_bits: None,
            receiver_size: OURS.end - OURS.start,
            sender_size: THEIRS.end - THEIRS.start,
        })
    });
    let (to, from) = channel();
    for (side, channel) in [(Role::Receiver, a), (Role::Sender, b)] {
        let party = usize::from(side == Role::Sender);
        let fingerprint = |party: usize| dealt.as_ref().map(|dealt| dealt.fingerprints[party]);
        let (own, peer) = (fingerprint(party), fingerprint(1 - party));
        let offline = dealt.as_ref().map(|dealt| dealt.stores[party].clone());
        let to = to.clone();
        let (target, spoil) = match side == role {
            true => (frame, spoil.clone()),
            false => (usize::MAX, Spoil::Close),
        };
        thread::spawn(move || {
            let mut channel: Tamper<FramedChannel> = Tamper::new(channel, target, spoil);
            let mut job = Job::new(side, vec!["exact/2".into()]);
            job.protocol = ProtocolRequest::named(protocol);
            job.security = security;
            job.memory = buckets.then(|| two_buckets(protocol));
            job.attested = offline.as_ref().and(attested(protocol));
            job.offline = offline;
            let keys = digests(match side {
                Role::Receiver => OURS,
                Role::Sender => THEIRS,
            });
            let run = AssertUnwindSafe(|| {
                let progress = &mut NoProgress;
                let outcome = run_over(&mut channel, own, peer, &job, &keys, progress);
                let matches = outcome.map(|outcome| outcome.matches.unwrap_or_default());
                matches.map_err(|error| error.class())
            });
            let came = catch_unwind(run).ok();
            let _ = to.send((side, came, channel.frames(), channel.struck()));
        });
    }
    let (mut came, mut frames, mut struck) = ([None, None], [0, 0], false);
    for _ in 0..2 {
        // Long after every deadline.
        match from.recv_timeout(timeout + Duration::from_secs(60)) {
            Ok((side, result, sent, hit)) => {
                let result = result.unwrap_or_else(|| panic!("the {side} panicked"));
                let side = usize::from(side == Role::Sender);
                (came[side], frames[side]) = (Some(result), sent);
                struck |= hit;
            }
            Err(RecvTimeoutError::Timeout) => panic!("a side hangs past its deadline"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    (came, frames, struck)
}

/// Spoils the frames of a variant's runs that `chosen` picks, each in every way.
fn spoil_frames(ledger: &Ledger, variants: &[Variant], chosen: impl Fn(usize) -> bool) {
    let mut jobs = Vec::new();
    let mut dice = Dice::new(1);
    for (i, variant) in variants.iter().enumerate() {
        for &buckets in whole_or_not(variant.0) {
            let patience = Duration::from_secs(60);
            let clean = spoilt(
                *variant,
                buckets,
                Role::Receiver,
                usize::MAX,
                Spoil::Close,
                patience,
            );
            assert_eq!(clean.0[0], Some(Ok(SHARED.collect())), "{variant:?}");
            for (side, role) in [Role::Receiver, Role::Sender].into_iter().enumerate() {
                for frame in (0..clean.1[side]).filter(|frame| chosen(*frame)) {
                    for (number, fault) in FAULTS.iter().enumerate() {
                        for spoil in (fault.spoils)(&mut dice) {
                            let row = (
                                100 * i + number,
                                format!("{} | {}", name(*variant), fault.name),
                            );
                            let of = if buckets { ", two buckets" } else { "" };
                            let case = format!("{} {role} frame {frame}{of}: {spoil:?}", row.1);
                            jobs.push((
                                case.clone(),
                                (*variant, buckets, role, frame, spoil, fault, row, case),
                            ));
                        }
                    }
                }
            }
        }
    }
    on_threads(
        12,
        ledger,
        jobs,
        |(variant, buckets, role, frame, spoil, fault, row, case)| {
            let run = |seconds| {
                let timeout = Duration::from_secs(seconds);
                spoilt(variant, buckets, role, frame, spoil.clone(), timeout)
            };
            let (mut came, _, mut struck) = run(if fault.silent { 2 } else { 60 });
            if !struck && matches!(came[0], Some(Err(_))) {
                // The machine was too busy for the frame to come in time.
                (came, _, struck) = run(60);
            }
            let expected: Vec<u32> = SHARED.collect();
            let outcome = match came[0].as_ref().unwrap() {
                Ok(matches) if *matches == expected => "right",
                Ok(matches) if matches.iter().all(|i| expected.contains(i)) => "matches missing",
                Ok(_) => "wrong",
                Err(class) if *class != ErrorClass::Usage => "error",
                Err(_) => "another exit code",
            };
            let allowed = match outcome {
                "right" => true,
                "error" => fault.name != "delay" && struck,
                "matches missing" => fault.may_lack,
                _ => false,
            };
            ledger.count(row, outcome);
            if !allowed || matches!(came[1], None | Some(Err(ErrorClass::Usage))) {
                ledger.defect(format!("{case}: {outcome}, sender {:?}", came[1]));
            }
        },
    );
}

const FRAME_OUTCOMES: [&str; 4] = ["right", "error", "matches missing", "wrong"];

// ---- Bytes between two processes.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Cut,
    Stall,
    Delay,
    Flip,
}

/// A proxy that troubles the first connection at one offset of one direction: 0 is from the side that connects.
struct Proxy {
    address: String,
    bytes: Arc<[AtomicUsize; 2]>,
}

impl Proxy {
    fn new(target: String, direction: usize, offset: usize, trouble: Option<Trouble>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let bytes: Arc<[AtomicUsize; 2]> = Arc::default();
        let counted = bytes.clone();
        thread::spawn(move || {
            for (number, near) in listener.incoming().map_while(Result::ok).enumerate() {
                let Ok(far) = TcpStream::connect(&target) else {
                    return;
                };
                for at in [0, 1] {
                    let (from, to) = match at {
                        0 => (near.try_clone(), far.try_clone()),
                        _ => (far.try_clone(), near.try_clone()),
                    };
                    let (Ok(from), Ok(to)) = (from, to) else {
                        return;
                    };
                    let here = trouble.filter(|_| at == direction && number == 0);
                    let counted = counted.clone();
                    thread::spawn(move || forward(from, to, offset, here, &counted[at]));
                }
            }
        });
        Proxy { address, bytes }
    }
}

fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    offset: usize,
    trouble: Option<Trouble>,
    counted: &AtomicUsize,
) {
    let mut buffer = [0; 1 << 14];
    let mut done = 0;
    let mut trouble = trouble;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut bytes = &mut buffer[..count];
        if let Some(kind) = trouble.filter(|_| done + count > offset) {
            trouble = None;
            let (before, after) = bytes.split_at_mut(offset - done);
            let _ = to.write_all(before);
            done += before.len();
            bytes = after;
            match kind {
                Trouble::Cut => break,
                Trouble::Stall => {
                    // Takes what comes and hands nothing on.
                    while matches!(from.read(&mut buffer), Ok(1..)) {}
                    break;
                }
                Trouble::Delay => thread::sleep(Duration::from_millis(300)),
                Trouble::Flip => bytes[0] ^= 1 << (offset % 8),
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
        done += bytes.len();
        counted.store(done, Ordering::Relaxed);
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Two tables and the commands of both sides.
struct Scene {
    place: Place,
    arguments: [Arguments; 2],
    before: Vec<String>,
    expected: String,
}

impl Scene {
    fn new(variant: Variant, rows: u64, more: &str) -> Scene {
        let place = Place::new();
        let tables = [0..rows, rows / 2..rows + rows / 2].map(Table::of_numbers);
        let [ours, theirs] = &tables;
        place.write("ours.csv", ours.whole());
        place.write("theirs.csv", theirs.whole());
        let (protocol, security) = (variant.0, variant.1.name());
        let words = format!(
            "--protocol {protocol} --security {security} --threads 1 --timeout 5 --wait 5 {more}"
        );
        let side = |input: &str| Arguments::new(input, "k0").with(&words);
        let mut arguments = [side("ours.csv").output("out.csv"), side("theirs.csv")];
        if is_dealt(protocol) {
            // One pair for a run that may lose it, and one for the next.
            for _ in 0..2 {
                let [asking, dealing] = dealing_words(protocol);
                let terms = format!("{asking} --receiver-size {rows} --sender-size {rows}");
                place
                    .deal(&terms, &dealing)
                    .iter()
                    .for_each(Ended::expect_success);
            }
            let [receiver, sender] = arguments;
            arguments = [
                receiver.with(&storing_words(protocol, Role::Receiver)),
                sender.with(&storing_words(protocol, Role::Sender)),
            ];
        }
        Scene {
            arguments,
            before: place.names(),
            expected: ours.csv(&ours.matching(theirs)),
            place,
        }
    }

    fn start(&self, between: impl FnOnce(String) -> String) -> [Running; 2] {
        let mut sender = self
            .place
            .sender(&self.arguments[1], "--listen 127.0.0.1:0");
        let endpoint = sender.endpoint();
        let address = endpoint.strip_prefix("--connect ").unwrap().to_owned();
        let to = format!("--connect {}", between(address));
        [self.place.receiver(&self.arguments[0], &to), sender]
    }

    /// What the receiver left: "right", "wrong" or "absent".
    fn output(&self) -> &'static str {
        match std::fs::read(self.place.path("out.csv")) {
            Ok(bytes) if bytes == self.expected.as_bytes() => "right",
            Ok(_) => "wrong",
            Err(_) => "absent",
        }
    }

    /// Files that should not be there; work directories may be if `resumable`.
    fn strays(&self, resumable: bool) -> Vec<String> {
        let known = |name: &String| {
            self.before.contains(name)
                || name == "out.csv"
                || resumable && (name == "near" || name == "far")
        };
        self.place
            .names()
            .into_iter()
            .filter(|name| !known(name))
            .collect()
    }
}

/// Exit codes and output of a run that ended by itself agree.
fn consistent(scene: &Scene, receiver: &Ended, sender: &Ended) -> Result<&'static str, String> {
    let said = || format!("\nreceiver: {}\nsender: {}", receiver.err, sender.err);
    let outcome = match (receiver.code, scene.output()) {
        (Some(0), "right") => "right",
        (Some(4 | 5), "absent") => "error",
        (code, output) => return Err(format!("receiver {code:?}, output {output}{}", said())),
    };
    if !matches!(sender.code, Some(0 | 4 | 5)) {
        return Err(format!("sender {:?}{}", sender.code, said()));
    }
    if sender.code == Some(0) && outcome == "error" {
        return Err(format!("the sender thinks that all went well{}", said()));
    }
    let strays = scene.strays(false);
    match strays.is_empty() {
        true => Ok(outcome),
        false => Err(format!("left behind: {strays:?}")),
    }
}

/// Troubles the bytes of both directions at the offsets that `offsets` makes of their number.
fn trouble_bytes(
    ledger: &Ledger,
    variants: &[Variant],
    offsets: impl Fn(usize, &mut Dice) -> Vec<usize>,
) {
    let mut jobs = Vec::new();
    let mut dice = Dice::new(2);
    for (i, variant) in variants.iter().enumerate() {
        let scene = Scene::new(*variant, 200, "");
        let mut proxy = None;
        let [receiver, sender] = scene.start(|address| {
            let started = Proxy::new(address, 0, 0, None);
            proxy.insert(started).address.clone()
        });
        let ended = [receiver.wait(), sender.wait()];
        consistent(&scene, &ended[0], &ended[1]).unwrap();
        let totals = proxy.unwrap().bytes;
        for direction in [0, 1] {
            let total = totals[direction].load(Ordering::Relaxed);
            for offset in offsets(total, &mut dice) {
                for (number, trouble) in
                    [Trouble::Cut, Trouble::Stall, Trouble::Delay, Trouble::Flip]
                        .into_iter()
                        .enumerate()
                {
                    let what = format!("{trouble:?}").to_lowercase();
                    let row = (100 * i + number, format!("{} | {what}", name(*variant)));
                    let case = format!("{} at {offset} of {total}, direction {direction}", row.1);
                    jobs.push((
                        case.clone(),
                        (*variant, direction, offset, trouble, row, case),
                    ));
                }
            }
        }
    }
    on_threads(
        6,
        ledger,
        jobs,
        |(variant, direction, offset, trouble, row, case)| {
            let scene = Scene::new(variant, 200, "");
            let [receiver, sender] = scene
                .start(|address| Proxy::new(address, direction, offset, Some(trouble)).address);
            let ended = [receiver.wait(), sender.wait()];
            match consistent(&scene, &ended[0], &ended[1]) {
                Ok("error") if trouble == Trouble::Delay => {
                    ledger.defect(format!("{case}: failed"))
                }
                Ok(outcome) => ledger.count(row, outcome),
                Err(defect) => ledger.defect(format!("{case}: {defect}")),
            }
        },
    );
}

const BYTE_OUTCOMES: [&str; 2] = ["right", "error"];

// ---- Processes that are killed.

/// The `--memory` that makes several buckets of two sets of `rows` keys. Half of it is for the work on a bucket.
fn several_buckets(protocol: &'static str, rows: u64) -> u64 {
    let full = (spec(protocol).working_bytes)(rows, rows);
    let mut limits = (1..100).map(|percent| full / 100 * percent);
    let fits = |limit: &u64| {
        let split = split(protocol, [rows; 2], None, 40, *limit);
        split.is_some_and(|split| split.buckets >= 4)
    };
    2 * limits.rfind(fits).expect("some limit makes four buckets")
}

/// Kills each side `kills` times at a random moment, with and without buckets, and runs the same again.
fn kill_processes(ledger: &Ledger, variants: &[Variant], kills: u64) {
    const ROWS: u64 = 4000;
    let mut jobs = Vec::new();
    for (i, variant) in variants.iter().enumerate() {
        for (kind, &buckets) in whole_or_not(variant.0).iter().enumerate() {
            let more = match buckets {
                true => format!("--memory {}", several_buckets(variant.0, ROWS)),
                false => String::new(),
            };
            let scene = Scene::new(*variant, ROWS, &more);
            let start = Instant::now();
            let [receiver, sender] = scene.start(|address| address);
            let ended = [receiver.wait(), sender.wait()];
            let time = start.elapsed();
            assert_eq!(
                consistent(&scene, &ended[0], &ended[1]),
                Ok("right"),
                "{variant:?}"
            );
            for (side, who) in ["receiver", "sender"].into_iter().enumerate() {
                for kill in 0..kills {
                    let of = if buckets { "buckets" } else { "one run" };
                    let row = (
                        100 * i + 10 * kind + side,
                        format!("{} | {of} | {who}", name(*variant)),
                    );
                    let case = format!("{}, number {kill}", row.1);
                    let more = more.clone();
                    jobs.push((
                        case.clone(),
                        (*variant, buckets, more, side, kill, time, row, case),
                    ));
                }
            }
        }
    }
    on_threads(
        3,
        ledger,
        jobs,
        |(variant, buckets, more, side, kill, time, row, case)| {
            let mut scene = Scene::new(variant, ROWS, &more);
            if buckets {
                let [receiver, sender] = scene.arguments.clone();
                scene.arguments = [
                    receiver.with("--work-dir near"),
                    sender.with("--work-dir far"),
                ];
            }
            let mut dice = Dice::new((row.0 as u64) << 20 | kill);
            let moment = time.mul_f64(dice.below(1000) as f64 / 1000.0);
            let mut parties = scene.start(|address| address);
            thread::sleep(moment);
            parties[side].process.kill().unwrap();
            let ended = parties.map(Running::wait);
            let early = ended[side].code.is_none();
            let outcome = match (early, scene.output()) {
                (_, "wrong") => "wrong output",
                (false, "right") => "had ended",
                (true, "right") => "output right",
                (_, _) => "output absent",
            };
            ledger.count(row.clone(), outcome);
            let other = &ended[1 - side];
            let codes = if early {
                [Some(4), Some(0)]
            } else {
                [Some(0), Some(0)]
            };
            let defect = |what: String| ledger.defect(format!("{case} after {moment:?}: {what}"));
            if !codes.contains(&other.code) {
                defect(format!(
                    "the other side ended with {:?}\n{}",
                    other.code, other.err
                ));
            }
            if outcome == "wrong output"
                || other.code == Some(0) && side == 1 && outcome == "output absent"
            {
                defect(outcome.into());
            }
            let strays = scene.strays(buckets);
            if !strays.is_empty() {
                defect(format!("left behind: {strays:?}"));
                for stray in strays {
                    let _ = std::fs::remove_file(scene.place.path(&stray));
                }
            }
            // The same again. A receiver that has everything may finish without the peer.
            let [receiver, sender] = scene.start(|address| address).map(Running::wait);
            if receiver.code != Some(0) || scene.output() != "right" {
                defect(format!(
                    "again: {:?}, output {}\n{}",
                    receiver.code,
                    scene.output(),
                    receiver.err
                ));
            }
            if !matches!(sender.code, Some(0 | 4)) {
                defect(format!("again: sender {:?}\n{}", sender.code, sender.err));
            }
            let strays = scene.strays(sender.code == Some(4));
            if !strays.is_empty() {
                defect(format!("again: left behind: {strays:?}"));
            }
        },
    );
}

const KILL_OUTCOMES: [&str; 4] = ["had ended", "output right", "output absent", "wrong output"];

// ---- The tests.

#[test]
fn spoilt_frames_end_in_an_error_or_in_nothing_that_is_not_shared() {
    let ledger = Ledger::default();
    let some = [
        ("compact-dh", Security::Malicious),
        ("ole-dealer", Security::SemiHonest),
    ];
    spoil_frames(&ledger, &some, |frame| frame % 4 == 3);
    ledger.settle();
}

#[test]
fn troubled_connections_end_in_an_error_or_in_the_right_result() {
    let ledger = Ledger::default();
    let some = [
        ("vole", Security::Malicious),
        ("ole-dealer", Security::SemiHonest),
    ];
    trouble_bytes(&ledger, &some, |total, _| vec![total / 2]);
    ledger.settle();
}

/// Every frame, with its table.
#[test]
#[ignore = "tens of thousands of runs"]
fn all_frames_are_spoilt() {
    let (ledger, every) = (Ledger::default(), 100 / part(100) as usize);
    spoil_frames(&ledger, &variants(), |frame| frame % every == 0);
    publish("frames", &ledger.table("protocol | fault", &FRAME_OUTCOMES));
    ledger.settle();
}

/// Connections in trouble at many places, with their table.
#[test]
#[ignore = "thousands of runs"]
fn many_connections_are_troubled() {
    let ledger = Ledger::default();
    trouble_bytes(&ledger, &variants(), |total, dice| {
        let random = (0..part(14)).map(|_| dice.below(total as u64) as usize);
        let edges = [0, 1, 600, total - 25, total - 1];
        edges.into_iter().chain(random).collect()
    });
    publish("bytes", &ledger.table("protocol | fault", &BYTE_OUTCOMES));
    ledger.settle();
}

/// Processes that are killed, with their table.
#[test]
#[ignore = "hundreds of kills"]
fn many_processes_are_killed() {
    let ledger = Ledger::default();
    kill_processes(&ledger, &variants(), part(20));
    publish(
        "kills",
        &ledger.table("protocol | work | killed", &KILL_OUTCOMES),
    );
    ledger.settle();
}
