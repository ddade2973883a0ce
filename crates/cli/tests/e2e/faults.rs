//! Faults at every point of a run, and what each side makes of them: a table for `docs/reliability.md`.
//!
//! - In memory, every frame of a run is cut off, held back, lost, delayed, sent twice, replaced by the one before, swapped
//!   with the next, truncated, or changed in one bit. Nothing authenticates frames there: it is what a peer could do.
//! - Between two processes over TLS, a proxy cuts, stalls, delays or flips a bit at an offset of one direction.
//! - One of two processes is killed at a random time, and the same commands run again.
//!
//! `make reliability` runs everything and writes the tables; what `make test` runs is a small part of it.

use std::borrow::Cow;
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

use vesica::{Budget, Division, ProtocolRequest, Role, Security};
use vesica_offline::OfflineTerms;
use vesica_session::terms::{MIN_SIZE, REVEAL, SECURITY};
use vesica_session::{ErrorClass, Job, KeyBlock, MemorySet, NoProgress, run_set_over};
use vesica_testing::digests;
use vesica_wire::{ChannelOptions, FramedChannel, Spoil, Tamper, memory_pair_with};

use crate::answers::{Answer, Learnt, Question};
use crate::random::{lines, one_column};
use crate::support::{Arguments, Ended, Place, Running};
use crate::trial::{
    Dealt, Dice, Table, Variant, dealt_by_commands, is_dealt, part, publish, spec, split,
    storing_words, variants, variants_in_memory,
};

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
pub(crate) struct Ledger {
    rows: Mutex<BTreeMap<(usize, String), Counts>>,
    defects: Mutex<Vec<String>>,
}

impl Ledger {
    pub(crate) fn count(&self, row: (usize, String), outcome: &'static str) {
        let mut rows = self.rows.lock().unwrap();
        *rows.entry(row).or_default().0.entry(outcome).or_default() += 1;
    }

    pub(crate) fn defect(&self, what: String) {
        self.defects.lock().unwrap().push(what);
    }

    /// Markdown, one row for each row; `outcomes` are the columns behind the number of runs.
    pub(crate) fn table(&self, first: &str, outcomes: &[&str]) -> String {
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
    pub(crate) fn settle(&self) {
        let defects = self.defects.lock().unwrap();
        let shown: Vec<&String> = defects.iter().take(20).collect();
        assert!(defects.is_empty(), "{} defects: {shown:#?}", defects.len());
    }
}

/// Does `work` for every job on so many threads; a panic is a defect of the job with that name.
pub(crate) fn on_threads<T: Send>(
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

/// A way to spoil a frame, its name in the table, and whether the result may lack matches or be another number
/// afterwards: where a frame has the right length and other content, the peer might as well have had other items.
struct Fault {
    name: &'static str,
    spoils: fn(&mut Dice) -> Vec<Spoil>,
    may_change: bool,
    /// Whether the peer waits for something that never comes.
    silent: bool,
}

static FAULTS: [Fault; 8] = [
    Fault {
        name: "cut",
        spoils: |_| vec![Spoil::Close],
        may_change: false,
        silent: false,
    },
    Fault {
        name: "stall",
        spoils: |_| vec![Spoil::Stall],
        may_change: false,
        silent: true,
    },
    Fault {
        name: "frame lost",
        spoils: |_| vec![Spoil::Swallow],
        may_change: false,
        silent: true,
    },
    Fault {
        name: "delay",
        spoils: |_| vec![Spoil::Delay(Duration::from_millis(40))],
        may_change: false,
        silent: false,
    },
    Fault {
        name: "replay",
        spoils: |_| vec![Spoil::Duplicate, Spoil::ReplayPrevious],
        may_change: true,
        silent: true,
    },
    Fault {
        name: "swap",
        spoils: |_| vec![Spoil::SwapWithNext],
        may_change: true,
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
        may_change: false,
        silent: true,
    },
    Fault {
        name: "flip",
        spoils: |dice| {
            (0..3)
                .map(|_| Spoil::FlipBit(dice.below(1 << 20) as usize))
                .collect()
        },
        may_change: true,
        silent: true,
    },
];

/// Items of the receiver, and of the sender; they have 100 in common.
const OURS: std::ops::Range<u64> = 0..300;
const THEIRS: std::ops::Range<u64> = 200..480;

/// Two tables of these numbers, with the amounts that the question needs.
fn tables_of(numbers: [std::ops::Range<u64>; 2], question: Question) -> [Table; 2] {
    let mut dice = Dice::new(3);
    // So that no inner product of all exceeds 63 bits.
    let fewer = numbers.iter().map(|range| range.end - range.start).min();
    let largest = (i64::MAX as u64 / fewer.unwrap()).isqrt();
    let [ours, theirs] = numbers.map(Table::of_numbers);
    let columns = |has: bool| if has { question.most_columns() } else { 0 };
    let [receiver, sender] = question.values().map(columns);
    let tables = [
        ours.with_amounts(receiver, largest, &mut dice),
        theirs.with_amounts(sender, largest, &mut dice),
    ];
    match question {
        Question::Shares => tables.map(|table| table.with_texts(19, &mut dice)),
        Question::Union => {
            let [ours, theirs] = tables;
            [ours.taking(), theirs.handing_over(19, &mut dice)]
        }
        _ => tables,
    }
}

/// As many numbers for each side, half of them in common.
fn halves_in_common(rows: u64) -> [std::ops::Range<u64>; 2] {
    [0..rows, rows / 2..rows + rows / 2]
}

/// How the runs of a variant differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    buckets: bool,
    minimum: u64,
}

/// Runs without a minimum, with one that is just met and with one that is not, as the question allows; and a run in several
/// buckets, unless a pair is for a whole run, or columns take more memory.
fn settings(variant: Variant, tables: [&Table; 2]) -> Vec<Setting> {
    let [needs, may] = variant.question.minimum();
    let met = if may { Answer::counted(tables) } else { 0 };
    let minimums = [
        (!needs).then_some(0),
        may.then_some(met),
        may.then_some(met + 1),
    ];
    let setting = |buckets| move |minimum| Setting { buckets, minimum };
    let whole = minimums.into_iter().flatten().map(setting(false));
    let has_columns =
        variant.question.values() != [false; 2] || variant.question == Question::Union;
    let is_whole = is_dealt(variant.protocol) || variant.question == Question::Ids;
    let in_buckets = !is_whole && !has_columns;
    // With a minimum a run that is killed begins anew.
    let least = if needs { met } else { 0 };
    whole
        .chain(in_buckets.then_some(least).map(setting(true)))
        .collect()
}

/// A limit of memory that makes two buckets of the sets in memory.
fn two_buckets(protocol: &'static str) -> u64 {
    let sizes = [OURS, THEIRS].map(|range| range.end - range.start);
    let limit = (spec(protocol).working_bytes)(sizes[0], sizes[1]) - 1;
    let split = split(protocol, sizes, None, 40, limit).unwrap();
    assert_eq!(split.buckets, 2);
    limit
}

/// What came of one run on a side: what it learnt, or whose fault its error is.
type Came = Option<Result<Learnt, ErrorClass>>;

/// The answer of a run, or the error: of the receiver or, where both sides have shares or ids, of either.
fn answer(question: Question, [receiver, sender]: &[Came; 2]) -> Result<Answer, ErrorClass> {
    let learnt = |came: &Came| came.clone().expect("both sides have ended");
    let (near, far) = (learnt(receiver)?, learnt(sender));
    let far = match question.is_of_both() {
        true => Some(far?),
        false => None,
    };
    // The keys are the numbers from 0 on.
    Ok(near.answer(far.as_ref(), u64::from))
}

/// One run with one frame of one side spoilt. Gives what each side got, frames that each side sent, and whether anything
/// was spoilt.
fn spoilt(
    variant: Variant,
    setting: Setting,
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
    let protocol = variant.protocol;
    let tables = tables_of([OURS, THEIRS], variant.question);
    let dealt = is_dealt(protocol).then(|| {
        Dealt::new(&OfflineTerms {
            protocol: protocol.to_owned(),
            lambda: 40,
            key_bits: None,
            receiver_size: OURS.end - OURS.start,
            sender_size: THEIRS.end - THEIRS.start,
            post_quantum: false,
        })
    });
    let (to, from) = channel();
    for (side, channel) in [(Role::Receiver, a), (Role::Sender, b)] {
        let party = usize::from(side == Role::Sender);
        let fingerprint = |party: usize| dealt.as_ref().map(|dealt| dealt.fingerprints[party]);
        let (own, peer) = (fingerprint(party), fingerprint(1 - party));
        let offline = dealt.as_ref().map(|dealt| dealt.source(party));
        let table = tables[party].clone();
        let to = to.clone();
        let (target, spoil) = match side == role {
            true => (frame, spoil.clone()),
            false => (usize::MAX, Spoil::Close),
        };
        thread::spawn(move || {
            let mut channel: Tamper<FramedChannel> = Tamper::new(channel, target, spoil);
            let mut job = Job::new(side, vec!["exact/2".into()]);
            job.protocol = ProtocolRequest::named(protocol);
            job.terms.set(&SECURITY, variant.security);
            job.terms.set(&REVEAL, variant.question.reveal());
            job.terms.set(&MIN_SIZE, setting.minimum);
            job.values = table.value_terms();
            job.labels = table.labels();
            job.memory = setting.buckets.then(|| two_buckets(protocol));
            job.offline = offline;
            let keys = digests(match side {
                Role::Receiver => OURS,
                Role::Sender => THEIRS,
            });
            let totals = table.totals();
            let values: Vec<i64> = totals.values().flatten().map(|v| *v as i64).collect();
            let values = table.has_values().then_some(&values[..]);
            let texts: Vec<u8> = totals
                .keys()
                .flat_map(|person| table.text(*person))
                .collect();
            let run = AssertUnwindSafe(|| {
                let mut keys = KeyBlock::from(keys);
                keys.values = values.map(Cow::from);
                keys.labels = (!texts.is_empty()).then(|| Cow::from(&texts));
                let mut set = MemorySet::new(keys).unwrap();
                let progress = &mut NoProgress;
                let report = run_set_over(&mut channel, own, peer, &job, &mut set, progress);
                let learnt = report.map(|report| Learnt::new(report, set));
                learnt.map_err(|error| error.class())
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
        let tables = tables_of([OURS, THEIRS], variant.question);
        for setting in settings(*variant, tables.each_ref()) {
            let expected = Answer::of(variant.question, tables.each_ref(), setting.minimum);
            let patience = Duration::from_secs(60);
            let clean = spoilt(
                *variant,
                setting,
                Role::Receiver,
                usize::MAX,
                Spoil::Close,
                patience,
            );
            assert_eq!(
                answer(variant.question, &clean.0).as_ref(),
                Ok(&expected),
                "{variant:?}"
            );
            for (side, role) in [Role::Receiver, Role::Sender].into_iter().enumerate() {
                for frame in (0..clean.1[side]).filter(|frame| chosen(*frame)) {
                    for (number, fault) in FAULTS.iter().enumerate() {
                        for spoil in (fault.spoils)(&mut dice) {
                            let row = (
                                100 * i + number,
                                format!("{} | {}", variant.name(), fault.name),
                            );
                            let case =
                                format!("{} {role} frame {frame}, {setting:?}: {spoil:?}", row.1);
                            let expected = expected.clone();
                            jobs.push((
                                case.clone(),
                                (
                                    *variant, setting, role, frame, spoil, fault, row, case,
                                    expected,
                                ),
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
        |(variant, setting, role, frame, spoil, fault, row, case, expected)| {
            let run = |seconds| {
                let timeout = Duration::from_secs(seconds);
                spoilt(variant, setting, role, frame, spoil.clone(), timeout)
            };
            let (mut came, _, mut struck) = run(if fault.silent { 2 } else { 60 });
            if !struck && matches!(came[0], Some(Err(_))) {
                // The machine was too busy for the frame to come in time.
                (came, _, struck) = run(60);
            }
            let outcome = match (answer(variant.question, &came), &expected) {
                (Ok(answer), expected) if answer == *expected => "right",
                (Ok(Answer::Matches(found)), Answer::Matches(all))
                    if found.iter().all(|person| all.contains(person)) =>
                {
                    "matches missing"
                }
                (Ok(_), _) if variant.question != Question::Matches => "value changed",
                (Ok(_), _) => "wrong",
                (Err(ErrorClass::Usage), _) => "another exit code",
                (Err(_), _) => "error",
            };
            let allowed = match outcome {
                "right" => true,
                "error" => fault.name != "delay" && struck,
                "matches missing" | "value changed" => fault.may_change,
                _ => false,
            };
            ledger.count(row, outcome);
            if !allowed || matches!(came[1], None | Some(Err(ErrorClass::Usage))) {
                let sender = came[1].as_ref().map(|came| came.as_ref().map(drop));
                ledger.defect(format!("{case}: {outcome}, sender {sender:?}"));
            }
        },
    );
}

const FRAME_OUTCOMES: [&str; 5] = [
    "right",
    "error",
    "matches missing",
    "value changed",
    "wrong",
];

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
    variant: Variant,
    place: Place,
    arguments: [Arguments; 2],
    before: Vec<String>,
    tables: [Table; 2],
    expected: Answer,
}

impl Scene {
    fn new(variant: Variant, rows: u64, setting: Setting) -> Scene {
        let place = Place::new();
        let question = variant.question;
        let tables = tables_of(halves_in_common(rows), question);
        let (protocol, security) = (variant.protocol, variant.security.name());
        let mut words = format!(
            "--protocol {protocol} --security {security} --threads 1 --timeout 5 --wait 5 {}",
            question.words(setting.minimum)
        );
        if setting.buckets {
            let memory = memory_of_buckets(protocol, [rows; 2], 40, 4, [false; 2]);
            words.push_str(&format!(" --memory {memory}"));
        }
        let mut arguments = [0, 1].map(|side| {
            let (input, output) = [("ours.csv", "out.csv"), ("theirs.csv", "theirs-out.csv")][side];
            place.write(input, tables[side].whole());
            let writes = match side {
                0 => !question.reveal().is_value(),
                _ => question.is_of_both(),
            };
            let arguments = Arguments::new(input, "k0")
                .with(&words)
                .with(&tables[side].value_words())
                .with(&tables[side].text_words());
            match writes {
                true => arguments.output(output),
                false => arguments,
            }
        });
        if is_dealt(protocol) {
            // One pair for a run that may lose it, and one for the next.
            for _ in 0..2 {
                let terms = format!("--receiver-size {rows} --sender-size {rows}");
                dealt_by_commands(&place, protocol, &terms)
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
            variant,
            arguments,
            before: place.names(),
            expected: Answer::of(question, tables.each_ref(), setting.minimum),
            tables,
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

    /// What the receiver left: "right", "wrong" or "absent"; "half" if that is a share whose other one is absent.
    fn output(&self, receiver: &Ended) -> &'static str {
        let [ours, theirs] = self.tables.each_ref();
        let read = |name: &str| std::fs::read_to_string(self.place.path(name)).ok();
        let file = read("out.csv");
        if let Answer::Shares(_) = &self.expected {
            let person = |row: usize| ours.person_of_first(row - 1);
            return match (file, read("theirs-out.csv")) {
                (Some(near), Some(far)) => {
                    match Answer::opened_files(&near, &far, person) == self.expected {
                        true => "right",
                        false => "wrong",
                    }
                }
                (Some(_), None) => "half",
                (None, _) => "absent",
            };
        }
        let rows = match &self.expected {
            _ if self.variant.question.reveal().is_value() => None,
            Answer::Matches(_) => Some(ours.csv(&ours.matching(theirs))),
            _ => Some(ours.csv(&vec![false; ours.rows()])),
        };
        if let Answer::Ids(..) = &self.expected {
            return match (file, read("theirs-out.csv")) {
                (Some(near), Some(far)) => {
                    match Answer::of_ids([&near, &far], [ours, theirs]).as_ref() {
                        Some(found) if *found == self.expected => "right",
                        _ => "wrong",
                    }
                }
                (Some(_), None) => "half",
                (None, _) => "absent",
            };
        }
        let (rows, file) = match &self.expected {
            // In random order.
            Answer::Rows(texts) => {
                let ordered = |text: &str| lines(text).join("\n");
                let expected = ordered(&one_column(texts));
                (Some(expected), file.map(|text| ordered(&text)))
            }
            _ => (rows, file),
        };
        let printed = self.expected.printed([ours, theirs]);
        // A receiver that is killed may have written its rows and printed nothing.
        if file.is_none() && receiver.text().is_empty() {
            "absent"
        } else if file == rows && receiver.text() == printed {
            "right"
        } else if file == rows && receiver.text().is_empty() && receiver.code.is_none() {
            "absent"
        } else {
            "wrong"
        }
    }

    /// Files that should not be there; work directories may be if `resumable`.
    fn strays(&self, resumable: bool) -> Vec<String> {
        let known = |name: &String| {
            self.before.contains(name)
                || name == "out.csv"
                || self.variant.question.is_of_both() && name == "theirs-out.csv"
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
    let outcome = match (receiver.code, scene.output(receiver)) {
        (Some(0), "right") => "right",
        (Some(4 | 5), "absent") => "error",
        // One share is of no use.
        (Some(0), "half") if sender.code != Some(0) => "error",
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
    const ROWS: u64 = 200;
    for (i, variant) in variants.iter().enumerate() {
        let tables = tables_of(halves_in_common(ROWS), variant.question);
        let mut settings = settings(*variant, tables.each_ref());
        settings.retain(|setting| !setting.buckets);
        let totals: Vec<_> = settings
            .iter()
            .map(|setting| {
                let scene = Scene::new(*variant, ROWS, *setting);
                let mut proxy = None;
                let [receiver, sender] = scene.start(|address| {
                    let started = Proxy::new(address, 0, 0, None);
                    proxy.insert(started).address.clone()
                });
                let ended = [receiver.wait(), sender.wait()];
                consistent(&scene, &ended[0], &ended[1]).unwrap();
                proxy.unwrap().bytes
            })
            .collect();
        for direction in [0, 1] {
            let total = totals[0][direction].load(Ordering::Relaxed);
            for number in 0..offsets(total, &mut dice).len() {
                // The settings take turns.
                let turn = number % settings.len();
                let (setting, total) = (
                    settings[turn],
                    totals[turn][direction].load(Ordering::Relaxed),
                );
                let offset = offsets(total, &mut dice)[number];
                for (number, trouble) in
                    [Trouble::Cut, Trouble::Stall, Trouble::Delay, Trouble::Flip]
                        .into_iter()
                        .enumerate()
                {
                    let what = format!("{trouble:?}").to_lowercase();
                    let row = (100 * i + number, format!("{} | {what}", variant.name()));
                    let case = format!(
                        "{}, {setting:?}, at {offset} of {total}, direction {direction}",
                        row.1
                    );
                    jobs.push((
                        case.clone(),
                        (*variant, setting, direction, offset, trouble, row, case),
                    ));
                }
            }
        }
    }
    on_threads(
        6,
        ledger,
        jobs,
        |(variant, setting, direction, offset, trouble, row, case)| {
            let scene = Scene::new(variant, ROWS, setting);
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

/// The largest `--memory` that makes so many buckets or more of two sets of these sizes; whether values or columns go with
/// the keys of each.
pub(crate) fn memory_of_buckets(
    protocol: &'static str,
    sizes: [u64; 2],
    lambda: u32,
    buckets: u32,
    keeps_keys: [bool; 2],
) -> u64 {
    let made = |limit: u64| {
        let bucket = |side: usize| {
            Budget::new(Some(limit), Division::of_run(keeps_keys[side])).bucket(sizes[side])
        };
        let smaller = bucket(0).min(bucket(1)).expect("a limit");
        split(protocol, sizes, None, lambda, smaller).map(|split| split.buckets)
    };
    let (mut low, mut high) = (0, 4 * (spec(protocol).working_bytes)(sizes[0], sizes[1]));
    while high - low > 1 {
        let middle = low.midpoint(high);
        // With too little memory there is no number of buckets.
        match made(middle).is_none_or(|made| made >= buckets) {
            true => low = middle,
            false => high = middle,
        }
    }
    assert!(made(low).is_some(), "no memory makes so many buckets");
    low
}

/// Kills each side `kills` times at a random moment, with and without buckets, and runs the same again.
fn kill_processes(ledger: &Ledger, variants: &[Variant], kills: u64) {
    const ROWS: u64 = 4000;
    let mut jobs = Vec::new();
    for (i, variant) in variants.iter().enumerate() {
        // Several buckets are a row of their own; minimums take turns.
        let tables = tables_of(halves_in_common(ROWS), variant.question);
        let (buckets, whole) = settings(*variant, tables.each_ref())
            .into_iter()
            .partition::<Vec<_>, _>(|setting| setting.buckets);
        for (kind, (of, settings)) in [("one run", whole), ("buckets", buckets)]
            .into_iter()
            .enumerate()
        {
            let times: Vec<_> = settings
                .iter()
                .map(|setting| {
                    let scene = Scene::new(*variant, ROWS, *setting);
                    let start = Instant::now();
                    let [receiver, sender] = scene.start(|address| address);
                    let ended = [receiver.wait(), sender.wait()];
                    let came = consistent(&scene, &ended[0], &ended[1]);
                    assert_eq!(came, Ok("right"), "{variant:?}");
                    start.elapsed()
                })
                .collect();
            if settings.is_empty() {
                continue;
            }
            for (side, who) in ["receiver", "sender"].into_iter().enumerate() {
                for kill in 0..kills {
                    let row = (
                        100 * i + 10 * kind + side,
                        format!("{} | {of} | {who}", variant.name()),
                    );
                    let turn = kill as usize % settings.len();
                    let (setting, time) = (settings[turn], times[turn]);
                    let case = format!("{}, {setting:?}, number {kill}", row.1);
                    jobs.push((
                        case.clone(),
                        (*variant, setting, side, kill, time, row, case),
                    ));
                }
            }
        }
    }
    on_threads(
        3,
        ledger,
        jobs,
        |(variant, setting, side, kill, time, row, case)| {
            let mut scene = Scene::new(variant, ROWS, setting);
            if setting.buckets {
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
            let output = scene.output(&ended[0]);
            let outcome = match (early, output) {
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
            if outcome == "wrong output" || other.code == Some(0) && side == 1 && output == "absent"
            {
                defect(outcome.into());
            }
            let strays = scene.strays(setting.buckets);
            if !strays.is_empty() {
                defect(format!("left behind: {strays:?}"));
                for stray in strays {
                    let _ = std::fs::remove_file(scene.place.path(&stray));
                }
            }
            // The same again. A receiver that has everything may finish without the peer.
            let [receiver, sender] = scene.start(|address| address).map(Running::wait);
            let output = scene.output(&receiver);
            if receiver.code != Some(0) || output != "right" {
                let (code, err) = (receiver.code, receiver.err);
                defect(format!("again: {code:?}, output {output}\n{err}"));
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
        Variant::matches("compact-dh", Security::Malicious),
        Variant::matches("ole-dealer", Security::SemiHonest),
        Variant::function("circuit-okvs", Question::SeveralOfSender),
    ];
    spoil_frames(&ledger, &some, |frame| frame % 40 == 3);
    ledger.settle();
}

#[test]
fn troubled_connections_end_in_an_error_or_in_the_right_result() {
    let ledger = Ledger::default();
    let some = [
        Variant::matches("vole", Security::Malicious),
        Variant::matches("ole-dealer", Security::SemiHonest),
        Variant::function("circuit-rb-psm1", Question::Shares),
    ];
    trouble_bytes(&ledger, &some, |total, _| vec![total / 2]);
    ledger.settle();
}

/// Every frame, with its table.
#[test]
#[ignore = "tens of thousands of runs"]
fn all_frames_are_spoilt() {
    let (ledger, every) = (Ledger::default(), 100 / part(100) as usize);
    spoil_frames(&ledger, &variants_in_memory(), |frame| frame % every == 0);
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
