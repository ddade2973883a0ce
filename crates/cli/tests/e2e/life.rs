//! Lives of random steps: two parties that run, are killed, change their tables and options, restore backups and run
//! again, held against a model in memory.
//!
//! The model knows both tables, what was saved, which half is where, and which run left which journal. Before each step it
//! says what may come: the exact right result, or an error with a code out of a few. It never looks into a journal or a
//! half: it sees that their bytes have changed, or that they are gone. After each step
//!
//! - an output is as it was, or exactly the result of this run: never wrong, never mixed from two runs;
//! - a run that writes without its peer, or goes on after some buckets, has a journal of the very same tables and options;
//!   one that could go on does;
//! - a half is gone only if this run may have taken it, with a marker, on a side that never used it before, unless its user
//!   has adopted a restored copy of it since;
//! - no file is left that the next run or `vesica offline ls` does not account for.
//!
//! A life is named by its number, which seeds the steps; `VESICA_LIFE=17` lives that one alone. If it goes wrong, the steps
//! are reduced as long as it still does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tempfile::TempDir;
use vesica::{Fingerprint, Identity, Role, Security};

use crate::answers::{Answer, Question};
use crate::faults::{Ledger, on_threads, several_buckets};
use crate::support::{Arguments, Ended, Place, Running};
use crate::trial::{Table, Variant, dealing_words, is_dealt, part, publish, spec, storing_words};

/// What the parties run. Buckets are for matches; halves from a dealer or from both parties are for `ole`.
static VARIANTS: [Variant; 6] = [
    Variant {
        protocol: "dh",
        security: Security::SemiHonest,
        question: Question::Matches,
    },
    Variant {
        protocol: "vole",
        security: Security::Malicious,
        question: Question::Matches,
    },
    Variant {
        protocol: "compact-dh",
        security: Security::Malicious,
        question: Question::Matches,
    },
    Variant {
        protocol: "ole-dealer",
        security: Security::SemiHonest,
        question: Question::Matches,
    },
    Variant {
        protocol: "ole-ot",
        security: Security::SemiHonest,
        question: Question::Matches,
    },
    Variant {
        protocol: "circuit-okvs",
        security: Security::SemiHonest,
        question: Question::Size,
    },
];

/// Distinct keys of a table. With as few on both sides there are still four buckets.
const ROWS: std::ops::Range<usize> = 540..680;
/// The keys that pairs of halves are for.
const HALF_ROWS: usize = 700;
/// Nobody listens there.
const NOBODY: &str = "--connect 127.0.0.1:1";
/// Receiver and sender.
const SIDES: [Role; 2] = [Role::Receiver, Role::Sender];

/// One step. Sides are 0 for the receiver and 1 for the sender.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Both run to the end.
    Run,
    /// Both run, and some are stopped.
    Stop(Stop),
    /// Both run, and a second process tries to use the work directory of one meanwhile.
    Twice { side: usize },
    /// Both run, and the disk is full where one of them would write its rows.
    Full { side: usize },
    /// The table changes.
    Change {
        side: usize,
        change: Change,
        seed: usize,
    },
    /// An option changes, on one side or on both.
    Set { whose: Whose, option: Setting },
    /// The sender takes all options of the receiver.
    Agree,
    /// A copy is put aside.
    Save { whose: Whose, what: What },
    /// The copy is put back, instead of what is there or, where it can be, beside it.
    Restore {
        whose: Whose,
        what: What,
        beside: bool,
    },
    /// `offline make` on both sides, which use what they made from now on.
    Make { dealt: bool },
    /// `offline adopt`
    Adopt { whose: Whose },
    /// `offline ls`
    List { side: usize },
    /// Another identity takes this side's place; the peer is told or not.
    Replace { side: usize, told: bool },
    /// The outputs are removed.
    RemoveOutputs,
    /// The work directory is removed.
    RemoveWork { side: usize },
}

/// Whom to stop, how, and when: after so many lines on standard error, and so many milliseconds.
#[derive(Clone, Copy, Debug)]
struct Stop {
    whose: Whose,
    kill: bool,
    lines: usize,
    milliseconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Receiver,
    Sender,
    Both,
}

impl Whose {
    fn sides(self) -> &'static [usize] {
        match self {
            Whose::Receiver => &[0],
            Whose::Sender => &[1],
            Whose::Both => &[0, 1],
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Add,
    Remove,
    /// The same bytes, written later.
    Touch,
    /// Another key; size and time of the file stay.
    OtherKey,
    /// The same keys in other rows; size and time of the file stay.
    OtherRows,
}

#[derive(Clone, Copy, Debug)]
enum Setting {
    Protocol(usize),
    Lambda(bool),
    Both(bool),
    Minimum(bool),
    Buckets(bool),
    Threads(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Work,
    Store,
    /// Identity, table, work directory, store and output.
    Home,
}

impl Step {
    /// The row of the table.
    fn row(self) -> (usize, String) {
        let (number, name) = match self {
            Step::Run => (0, "run"),
            Step::Stop(Stop { kill: true, .. }) => (1, "run, killed"),
            Step::Stop(Stop { kill: false, .. }) => (2, "run, Ctrl-C"),
            Step::Twice { .. } => (3, "two runs in one work directory"),
            Step::Full { .. } => (4, "run, full disk for the rows"),
            Step::Change { .. } => (5, "change a table"),
            Step::Set { .. } | Step::Agree => (6, "change an option"),
            Step::Save { .. } => (7, "save"),
            Step::Restore { .. } => (8, "restore"),
            Step::Make { .. } => (9, "`offline make`"),
            Step::Adopt { .. } => (10, "`offline adopt`"),
            Step::List { .. } => (11, "`offline ls`"),
            Step::Replace { .. } => (12, "another identity"),
            Step::RemoveOutputs => (13, "remove the outputs"),
            Step::RemoveWork { .. } => (14, "remove a work directory"),
        };
        (number, name.to_owned())
    }
}

/// What came of a step: the columns of the table.
const OUTCOMES: [&str; 6] = [
    "right",
    "right, resumed",
    "right, without the peer",
    "error",
    "broken off",
    "done",
];

fn step() -> impl Strategy<Value = Step> {
    let side = || 0..2_usize;
    let whose = || {
        prop_oneof![
            Just(Whose::Receiver),
            Just(Whose::Sender),
            Just(Whose::Both)
        ]
    };
    // Most of what one side can do alone both do.
    let mostly_both = || prop_oneof![1 => whose(), 4 => Just(Whose::Both)];
    let change = prop_oneof![
        Just(Change::Add),
        Just(Change::Remove),
        Just(Change::Touch),
        Just(Change::OtherKey),
        Just(Change::OtherRows)
    ];
    let setting = prop_oneof![
        4 => (0..VARIANTS.len()).prop_map(Setting::Protocol),
        1 => any::<bool>().prop_map(Setting::Lambda),
        2 => any::<bool>().prop_map(Setting::Both),
        1 => any::<bool>().prop_map(Setting::Minimum),
        2 => any::<bool>().prop_map(Setting::Buckets),
        1 => (1..3_u32).prop_map(Setting::Threads),
    ];
    let what = || {
        prop_oneof![
            1 => Just(What::Work),
            2 => Just(What::Store),
            1 => Just(What::Home)
        ]
    };
    let stop = (whose(), 0..4_u32, 0..40_usize, 0..8_u64);
    prop_oneof![
        16 => Just(Step::Run),
        14 => stop.prop_map(|(whose, how, lines, milliseconds)| Step::Stop(Stop {
            whose,
            kill: how > 0,
            lines,
            milliseconds,
        })),
        2 => side().prop_map(|side| Step::Twice { side }),
        3 => side().prop_map(|side| Step::Full { side }),
        4 => (side(), change, 0..1000_usize)
            .prop_map(|(side, change, seed)| Step::Change { side, change, seed }),
        5 => (mostly_both(), setting).prop_map(|(whose, option)| Step::Set { whose, option }),
        2 => Just(Step::Agree),
        5 => (mostly_both(), what()).prop_map(|(whose, what)| Step::Save { whose, what }),
        8 => (mostly_both(), what(), any::<bool>())
            .prop_map(|(whose, what, beside)| Step::Restore { whose, what, beside }),
        5 => any::<bool>().prop_map(|dealt| Step::Make { dealt }),
        3 => mostly_both().prop_map(|whose| Step::Adopt { whose }),
        2 => side().prop_map(|side| Step::List { side }),
        2 => (side(), 0..4_u32).prop_map(|(side, told)| Step::Replace { side, told: told > 0 }),
        1 => Just(Step::RemoveOutputs),
        2 => side().prop_map(|side| Step::RemoveWork { side }),
    ]
}

/// What a party asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    variant: &'static Variant,
    wide: bool,
    both: bool,
    minimum: bool,
    buckets: bool,
    threads: u32,
}

/// What both sides have to agree on, and what a journal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    variant: &'static Variant,
    lambda: u32,
    both: bool,
    minimum: u64,
}

/// A journal, as far as it can be known from without.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Journal {
    bytes: Vec<u8>,
    /// Whose, with whom, about what.
    owner: (usize, usize, Terms),
    /// Of both sides.
    options: [Options; 2],
    tables: [Vec<u64>; 2],
    /// The first run of those that have gone on from each other.
    run: u64,
    /// Whether it must hold the whole answer, since the peer has seen the end of the run.
    is_answer: bool,
}

/// A half of a pair in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    protocol: &'static str,
    file: Option<Kept>,
    marker: bool,
    /// Whether a copy was adopted: another run may then use it a second time.
    adopted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Original,
    Copy,
}

impl Held {
    fn is_ready(&self) -> bool {
        self.file == Some(Kept::Original) && !self.marker
    }
}

/// What a party has.
#[derive(Clone, Debug)]
struct Side {
    /// Which of the two identities is in its place.
    who: usize,
    rows: Vec<u64>,
    output: Option<String>,
    journal: Option<Journal>,
    halves: BTreeMap<String, Held>,
}

/// How the processes of a run ended, and what was done to them.
#[derive(Default)]
struct Came {
    ended: [Option<Ended>; 2],
    killed: [bool; 2],
    interrupted: [bool; 2],
}

impl Came {
    fn said(&self, side: usize, text: &str) -> bool {
        let ended = self.ended[side].as_ref();
        ended.is_some_and(|ended| ended.err.contains(text))
    }

    fn code(&self, side: usize) -> Option<i32> {
        self.ended[side].as_ref().and_then(|ended| ended.code)
    }

    fn was_stopped(&self, side: usize) -> bool {
        self.killed[side] || self.interrupted[side]
    }

    fn wrote_alone(&self, side: usize) -> bool {
        self.said(side, "writing it without the peer")
    }
}

struct Life {
    place: Place,
    saves: TempDir,
    /// Both identities of each side: files and fingerprints.
    keys: [[(Vec<u8>, Fingerprint); 2]; 2],
    /// Which identity of the other each side expects.
    expects: [usize; 2],
    options: [Options; 2],
    sides: [Side; 2],
    saved: BTreeMap<(usize, What), Side>,
    /// The side whose rows meet a full disk in this run.
    full: Option<usize>,
    /// Halves that have served a run, by side.
    spent: BTreeSet<(usize, String)>,
    runs: u64,
}

impl Life {
    fn new() -> Life {
        let place = Place::new();
        let key = |path: &Path| fs::read(path).unwrap();
        let keys = [0, 1].map(|side| {
            let own = key(&place.path(&format!("{}.key", SIDES[side])));
            let path = place.path("other.key");
            let other = Identity::generate().unwrap();
            other.save(&path).unwrap();
            let bytes = key(&path);
            fs::remove_file(path).unwrap();
            let fingerprint = [place.receiver, place.sender][side];
            [(own, fingerprint), (bytes, other.fingerprint())]
        });
        let side = |rows: std::ops::Range<u64>| Side {
            who: 0,
            rows: rows.collect(),
            output: None,
            journal: None,
            halves: BTreeMap::new(),
        };
        let options = Options {
            variant: &VARIANTS[0],
            wide: false,
            both: false,
            minimum: false,
            buckets: true,
            threads: 1,
        };
        let life = Life {
            place,
            saves: tempfile::tempdir().unwrap(),
            keys,
            expects: [0; 2],
            options: [options; 2],
            sides: [side(1000..1560), side(1280..1840)],
            saved: BTreeMap::new(),
            full: None,
            spent: BTreeSet::new(),
            runs: 0,
        };
        (0..2).for_each(|side| life.write_table(side));
        life
    }

    fn name(side: usize, what: &str) -> String {
        format!("{}.{what}", SIDES[side])
    }

    fn table(rows: &[u64]) -> Table {
        Table::of_numbers(rows.iter().copied())
    }

    fn write_table(&self, side: usize) {
        let whole = Life::table(&self.sides[side].rows).whole();
        self.place.write(&Life::name(side, "csv"), whole);
    }

    fn sizes(&self) -> [u64; 2] {
        [0, 1].map(|side| self.sides[side].rows.len() as u64)
    }

    fn terms(&self, side: usize) -> Terms {
        let options = &self.options[side];
        let question = options.variant.question;
        let most = spec(options.variant.protocol).max_lambda_of(self.sizes(), None);
        Terms {
            variant: options.variant,
            lambda: match options.wide {
                true => most.unwrap_or(64).min(64),
                false => 40,
            },
            both: options.both && question == Question::Matches,
            // Often met, and often not.
            minimum: match options.minimum && question.minimum()[1] {
                true => 280,
                false => 0,
            },
        }
    }

    fn is_stored(&self, side: usize) -> bool {
        self.options[side].variant.protocol.starts_with("ole")
    }

    fn owner(&self, side: usize) -> (usize, usize, Terms) {
        (self.sides[side].who, self.expects[side], self.terms(side))
    }

    /// Whether this side has rows at the end.
    fn writes(&self, side: usize) -> bool {
        let question = self.options[side].variant.question;
        question == Question::Matches && (side == 0 || self.terms(side).both)
    }

    fn arguments(&self, side: usize) -> Arguments {
        let (options, terms) = (&self.options[side], self.terms(side));
        let Variant {
            protocol,
            security,
            question,
        } = *options.variant;
        let peer = self.keys[1 - side][self.expects[side]].1;
        let mut words = format!(
            "--protocol {protocol} --security {} --lambda {} --threads {} {} --peer {peer} --work-dir {} --report {} \
             --timeout 20 --wait 30",
            security.name(),
            terms.lambda,
            options.threads,
            question.words(terms.minimum),
            Life::name(side, "work"),
            Life::name(side, "json"),
        );
        if terms.both {
            words.push_str(" --both");
        }
        if self.is_stored(side) {
            let storing = storing_words(protocol, SIDES[side]);
            words.push_str(&format!(" {storing}"));
        } else if options.buckets && question == Question::Matches {
            let memory = several_buckets(protocol, self.sizes(), terms.lambda);
            words.push_str(&format!(" --memory {memory}"));
        }
        if self.writes(side) {
            let output = match self.full == Some(side) {
                true => "/dev/full".to_owned(),
                false => Life::name(side, "out"),
            };
            words.push_str(&format!(" --output {output}"));
        }
        Arguments::new(&Life::name(side, "csv"), "k0").with(&words)
    }

    fn start(&self, side: usize, endpoint: &str) -> Running {
        let arguments = self.arguments(side);
        match side {
            0 => self.place.receiver(&arguments, endpoint),
            _ => self.place.sender(&arguments, endpoint),
        }
    }

    /// The output of a side after a run over these tables.
    fn right(side: usize, tables: &[Vec<u64>; 2]) -> String {
        let [own, other] = [side, 1 - side].map(|side| Life::table(&tables[side]));
        own.csv(&own.matching(&other))
    }

    fn tables(&self) -> [Vec<u64>; 2] {
        [0, 1].map(|side| self.sides[side].rows.clone())
    }

    /// What is in the work directory is of another run.
    fn is_refused(&self, side: usize) -> bool {
        let journal = self.sides[side].journal.as_ref();
        journal.is_some_and(|journal| journal.owner != self.owner(side))
    }

    /// The journal, if it is about the rows that this side has now.
    fn journal(&self, side: usize) -> Option<&Journal> {
        let journal = self.sides[side].journal.as_ref()?;
        (journal.tables[side] == self.sides[side].rows).then_some(journal)
    }

    /// Both have journals of the same run and tables.
    fn can_resume(&self) -> bool {
        match [0, 1].map(|side| self.journal(side)) {
            [Some(near), Some(far)] => near.run == far.run,
            _ => false,
        }
    }

    /// Whether nothing stands in the way of going on, either.
    fn must_resume(&self) -> bool {
        let same = |side: usize| {
            let journal = self.journal(side);
            journal.is_some_and(|journal| journal.options == self.options)
        };
        self.can_resume() && same(0) && same(1) && !self.is_stored(0)
    }

    /// The halves that this side can offer.
    fn offers(&self, side: usize) -> BTreeSet<&String> {
        let protocol = self.options[side].variant.protocol;
        // Pairs are made by the first identities.
        let fits = self.sides[side].who == 0
            && self.expects[side] == 0
            && self.terms(side).lambda == 40
            && self.is_stored(side);
        let halves = self.sides[side].halves.iter();
        let ready = halves.filter(|(_, held)| fits && held.is_ready() && held.protocol == protocol);
        ready.map(|(name, _)| name).collect()
    }

    /// The exit code of a side that has its answer.
    fn end(&self, side: usize) -> i32 {
        match self.full == Some(side) && self.writes(side) {
            true => 7,
            false => 0,
        }
    }

    /// Whether both meet and agree.
    fn meet(&self) -> bool {
        self.codes() == [0, 1].map(|side| vec![self.end(side)])
    }

    /// The exit codes of receiver and sender if both meet and nobody is stopped.
    fn codes(&self) -> [Vec<i32>; 2] {
        if (0..2).any(|side| self.expects[side] != self.sides[1 - side].who) {
            // Who listens goes on waiting for the right one, and the other ends.
            return [vec![4, 5], vec![4, 5]];
        }
        let lacks = [0, 1].map(|side| self.is_stored(side) && self.offers(side).is_empty());
        match lacks {
            [true, true] => return [vec![3], vec![3]],
            [true, false] => return [vec![3], vec![7]],
            [false, true] => return [vec![7], vec![3]],
            [false, false] => {}
        }
        let common = self.offers(0).intersection(&self.offers(1)).count();
        if self.terms(0) != self.terms(1) || self.is_stored(0) && common == 0 {
            return [vec![6], vec![6]];
        }
        [0, 1].map(|side| vec![self.end(side)])
    }

    /// One run of both sides; what came of it.
    fn run(&mut self, stop: Option<Stop>, twice: Option<usize>) -> Result<&'static str, String> {
        self.runs += 1;
        let refused = [0, 1].map(|side| self.is_refused(side));
        if refused.contains(&true) {
            for side in (0..2).filter(|side| refused[*side]) {
                let ended = self.start(side, NOBODY).wait();
                check_lines(&ended)?;
                if ended.code != Some(2) || !ended.err.contains("work directory") {
                    return Err(format!(
                        "the {} took another's journal: {ended:?}",
                        SIDES[side]
                    ));
                }
            }
            self.check_unchanged()?;
            return Ok("error");
        }
        let came = self.processes(stop, twice)?;
        self.check_codes(&came)?;
        let resumed = self.check_resumption(&came)?;
        for side in 0..2 {
            self.check_output(side, &came)?;
            self.check_journal(side, &came, resumed)?;
        }
        let offered = self.offered();
        let [receiver, sender] = [0, 1].map(|side| self.check_store(side, &came, &offered));
        let taken = [receiver?, sender?];
        self.check_taken(&came, taken)?;
        self.check_names()?;
        Ok(match [came.code(0), came.code(1)] {
            _ if came.wrote_alone(0) || came.wrote_alone(1) => "right, without the peer",
            [Some(0), Some(0)] if resumed => "right, resumed",
            [Some(0), Some(0)] => "right",
            _ if stop.is_some() => "broken off",
            _ => "error",
        })
    }

    /// One run with a full disk for the rows of a side.
    fn run_full(&mut self, side: usize) -> Result<&'static str, String> {
        self.full = Some(side);
        let came = self.run(None, None);
        self.full = None;
        came
    }

    /// Starts both sides, stops whom it shall, and waits for the end. A side that nobody will come to any more is
    /// interrupted.
    fn processes(&self, stop: Option<Stop>, twice: Option<usize>) -> Result<Came, String> {
        let mut came = Came::default();
        let first = twice.unwrap_or((self.runs % 2) as usize);
        let mut running = [None, None];
        let listening = running[first].insert(self.start(first, "--listen 127.0.0.1:0"));
        if let Some(endpoint) = listening.endpoint_if_any() {
            if twice.is_some() {
                let ended = self.start(first, NOBODY).wait();
                check_lines(&ended)?;
                if ended.code != Some(2) || !ended.err.contains("is in use") {
                    return Err(format!("two runs in one work directory: {ended:?}"));
                }
            }
            running[1 - first] = Some(self.start(1 - first, &endpoint));
        }
        if let Some(stop) = stop {
            for (number, side) in stop.whose.sides().iter().enumerate() {
                let Some(running) = &mut running[*side] else {
                    continue;
                };
                if number == 0 {
                    running.wait_for_lines(stop.lines);
                    std::thread::sleep(Duration::from_millis(stop.milliseconds));
                }
                match stop.kill {
                    true => running.process.kill().unwrap(),
                    false => running.signal(Signal::SIGINT),
                }
                match stop.kill {
                    true => came.killed[*side] = true,
                    false => came.interrupted[*side] = true,
                }
            }
        }
        let mut patience: Option<Instant> = None;
        while running
            .iter_mut()
            .flatten()
            .any(|running| !running.has_ended())
        {
            for running in running.iter_mut().flatten() {
                if !running.has_ended() {
                    continue;
                }
                let alone = running.said().contains("writing it without the peer");
                let rest = match running.process.wait().unwrap().code() {
                    Some(0) if !alone => Duration::from_secs(20),
                    // Told, or seen by the connection that ended.
                    Some(3 | 4 | 6 | 7) => Duration::from_secs(5),
                    _ => Duration::from_millis(400),
                };
                let until = Instant::now() + rest;
                patience = Some(patience.map_or(until, |before| before.min(until)));
            }
            if patience.is_some_and(|until| Instant::now() > until) {
                for (side, running) in running.iter_mut().enumerate() {
                    if let Some(running) = running
                        && !running.has_ended()
                    {
                        running.signal(Signal::SIGINT);
                        came.interrupted[side] = true;
                    }
                }
                break;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        came.ended = running.map(|running| running.map(Running::wait));
        Ok(came)
    }

    fn check_codes(&self, came: &Came) -> Result<(), String> {
        let expected = self.codes();
        for side in 0..2 {
            let Some(ended) = &came.ended[side] else {
                continue;
            };
            check_lines(ended)?;
            let journal = self.journal(side);
            if came.wrote_alone(side) && journal.is_none() {
                return Err(format!(
                    "the {} wrote an answer that was not of its table: {ended:?}",
                    SIDES[side]
                ));
            }
            let is_answer = journal.is_some_and(|journal| journal.is_answer);
            if is_answer && !came.was_stopped(side) && !came.wrote_alone(side) {
                return Err(format!("the {} has lost an answer: {ended:?}", SIDES[side]));
            }
            let mut codes: Vec<Option<i32>> = match came.wrote_alone(side) {
                true => vec![Some(self.end(side))],
                false => expected[side].iter().map(|code| Some(*code)).collect(),
            };
            if came.was_stopped(side) {
                // By the signal itself, also if it comes before the program is ready for it.
                codes.push(None);
            }
            if came.interrupted[side] {
                codes.push(Some(130));
            }
            if came.was_stopped(1 - side) {
                codes.push(Some(4));
            }
            if !codes.contains(&ended.code) {
                let other = &came.ended[1 - side];
                return Err(format!(
                    "the {} ended with {:?} instead of {codes:?}: {ended:?}\nother: {other:?}",
                    SIDES[side], ended.code
                ));
            }
        }
        let alone = came.was_stopped(0) || came.wrote_alone(0) || came.wrote_alone(1);
        match [came.code(0), came.code(1)] {
            [receiver, Some(0)] if receiver != Some(self.end(0)) && !alone => Err(format!(
                "the sender thinks that all went well: {:?}",
                came.ended
            )),
            _ => Ok(()),
        }
    }

    /// Whether the run went on from an earlier one.
    fn check_resumption(&self, came: &Came) -> Result<bool, String> {
        let resumed = [0, 1].map(|side| came.said(side, "going on after bucket"));
        let any = resumed.contains(&true);
        if any && !self.can_resume() {
            return Err(format!("went on from another run: {:?}", came.ended));
        }
        let whole = [0, 1].map(|side| came.code(side) == Some(0) && !came.wrote_alone(side));
        if whole == [true; 2] && (resumed[0] != resumed[1] || self.must_resume() && !any) {
            return Err(format!("did not go on from the same run: {:?}", came.ended));
        }
        Ok(any)
    }

    fn check_output(&mut self, side: usize, came: &Came) -> Result<(), String> {
        let output = fs::read_to_string(self.place.path(&Life::name(side, "out"))).ok();
        let before = &self.sides[side].output;
        let tables = match came.wrote_alone(side) {
            true => self.journal(side).map(|journal| journal.tables.clone()),
            false => None,
        };
        let tables = tables.unwrap_or_else(|| self.tables());
        let right = Some(Life::right(side, &tables));
        let is_right = match (self.writes(side), came.code(side)) {
            (true, Some(0)) => output == right,
            (true, _) if came.was_stopped(side) => output == *before || output == right,
            _ => output == *before,
        };
        if !is_right {
            let lines = output.map(|output| output.lines().count());
            return Err(format!(
                "the {} has a wrong output of {lines:?} lines: {:?}",
                SIDES[side], came.ended
            ));
        }
        if let Some(ended) = &came.ended[side] {
            let question = self.options[side].variant.question;
            let tables = tables.each_ref().map(|rows| Life::table(rows));
            let printed = match side == 0 && question.reveal().is_value() {
                true => {
                    let minimum = self.terms(side).minimum;
                    Answer::of(question, tables.each_ref(), minimum).printed(0)
                }
                false => String::new(),
            };
            let is_right = match ended.code {
                Some(0) => ended.text() == printed,
                _ if came.was_stopped(side) => printed.starts_with(ended.text()),
                _ => ended.out.is_empty(),
            };
            if !is_right {
                return Err(format!("printed instead of {printed:?}: {ended:?}"));
            }
        }
        self.sides[side].output = output;
        Ok(())
    }

    fn check_journal(&mut self, side: usize, came: &Came, resumed: bool) -> Result<(), String> {
        let work = self.place.path(&Life::name(side, "work"));
        let names = names_in(&work);
        let is_known = |name: &String| {
            let part = name.starts_with(".vesica-") && name.ends_with(".part");
            ["journal", "lock"].contains(&&**name) || part && came.killed[side]
        };
        let done = came.code(side) == Some(0);
        if !names.iter().all(is_known) || done && work.exists() {
            return Err(format!(
                "left in {}: {names:?}: {:?}",
                work.display(),
                came.ended
            ));
        }
        let bytes = fs::read(work.join("journal")).ok();
        let is_full = came.code(side) == Some(7) && self.end(side) == 7;
        let peer_is_done = side == 0 && came.code(1) == Some(0) && !came.wrote_alone(1);
        let is_answer = is_full || peer_is_done;
        let now = &mut self.sides[side];
        match (bytes, now.journal.take()) {
            (None, None) => {}
            (None, Some(_)) if done || came.was_stopped(side) => {}
            (None, Some(_)) => {
                return Err(format!(
                    "the {}'s journal is gone: {:?}",
                    SIDES[side], came.ended
                ));
            }
            (Some(bytes), Some(before)) if bytes == before.bytes => now.journal = Some(before),
            (Some(bytes), before) => {
                let earlier = before.filter(|_| resumed).map(|journal| journal.run);
                let journal = Journal {
                    bytes,
                    owner: self.owner(side),
                    options: self.options,
                    tables: self.tables(),
                    run: earlier.unwrap_or(self.runs),
                    is_answer,
                };
                self.sides[side].journal = Some(journal);
            }
        }
        Ok(())
    }

    /// The halves that a run may take.
    fn offered(&self) -> BTreeSet<String> {
        let [receiver, sender] = [self.offers(0), self.offers(1)];
        match self.meet() {
            true => receiver
                .intersection(&sender)
                .map(|name| (*name).clone())
                .collect(),
            false => BTreeSet::new(),
        }
    }

    /// What the run has done to a store: the half that it took, of those offered.
    fn check_store(
        &mut self,
        side: usize,
        came: &Came,
        offered: &BTreeSet<String>,
    ) -> Result<Option<String>, String> {
        let store = self.place.path(&Life::name(side, "store"));
        let names = names_in(&store);
        let mut taken = None;
        let mut known = 0;
        for (name, held) in &mut self.sides[side].halves {
            let has = |suffix: &str| names.contains(&format!("{name}{suffix}"));
            let (file, marker) = (has(".half"), has(".used"));
            known += usize::from(file) + usize::from(marker);
            if (file, marker) == (held.file.is_some(), held.marker) {
                continue;
            }
            let may = offered.contains(name) && taken.is_none() && held.is_ready();
            let gone = marker && (!file || came.killed[side]);
            if !(may && gone) {
                return Err(format!(
                    "half {name} of the {} was {held:?}, now file: {file}, marker: {marker}: {:?}",
                    SIDES[side], came.ended
                ));
            }
            if !self.spent.insert((side, name.clone())) && !held.adopted {
                return Err(format!(
                    "half {name} of the {} served two runs",
                    SIDES[side]
                ));
            }
            held.file = held.file.filter(|_| file);
            held.marker = true;
            held.adopted = false;
            taken = Some(name.clone());
        }
        match known == names.len() {
            true => Ok(taken),
            false => Err(format!("in the {}'s store: {names:?}", SIDES[side])),
        }
    }

    /// A run that was completed has used what both stores lack now, and says so.
    fn check_taken(&self, came: &Came, taken: [Option<String>; 2]) -> Result<(), String> {
        let alone = came.wrote_alone(0) || came.wrote_alone(1);
        if alone || [came.code(0), came.code(1)] != [Some(0); 2] {
            return Ok(());
        }
        for side in 0..2 {
            let report: serde_json::Value =
                serde_json::from_str(&self.place.read(&Life::name(side, "json")))
                    .map_err(|e| e.to_string())?;
            let named = report["contract"]["offline"].as_str();
            if named != taken[side].as_deref() || taken[0] != taken[1] {
                return Err(format!("a run with {named:?} took {taken:?}"));
            }
        }
        match taken[0].is_some() == self.is_stored(0) {
            true => Ok(()),
            false => Err(format!("a run took {taken:?}")),
        }
    }

    /// Nothing but what the model knows is in the directory of both.
    fn check_names(&self) -> Result<(), String> {
        let mut names = self.place.names();
        for side in 0..2 {
            for what in ["key", "csv", "work", "store", "out", "json"] {
                names.retain(|name| *name != Life::name(side, what));
            }
        }
        names.retain(|name| name != "dealer.key");
        match names.is_empty() {
            true => Ok(()),
            false => Err(format!("left behind: {names:?}")),
        }
    }

    /// A step without a run has changed nothing but what the model says.
    fn check_unchanged(&mut self) -> Result<(), String> {
        let nothing = Came::default();
        for (side, role) in SIDES.into_iter().enumerate() {
            self.check_output(side, &nothing)?;
            let journal = self.sides[side].journal.clone();
            self.check_journal(side, &nothing, false)?;
            if self.sides[side].journal != journal {
                return Err(format!("the {role}'s journal has changed"));
            }
            self.check_store(side, &nothing, &BTreeSet::new())?;
        }
        self.check_names()
    }

    fn change(&mut self, side: usize, change: Change, seed: usize) {
        let path = self.place.path(&Life::name(side, "csv"));
        let time = path.metadata().unwrap().modified().unwrap();
        let rows = &mut self.sides[side].rows;
        let at = seed % rows.len();
        let new = (1000..2000).cycle().skip(seed).find(|n| !rows.contains(n));
        let new = new.expect("there are fewer rows than numbers");
        let mut time = Some(time);
        match change {
            Change::Add if rows.len() < ROWS.end => rows.insert(at, new),
            Change::Remove if rows.len() > ROWS.start => drop(rows.remove(at)),
            Change::Add | Change::Remove => {}
            Change::Touch => time = None,
            Change::OtherKey => rows[at] = new,
            Change::OtherRows => rows.rotate_left(at),
        }
        self.write_table(side);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time.unwrap_or_else(SystemTime::now))
            .unwrap();
    }

    fn set(&mut self, whose: Whose, setting: Setting) {
        for side in whose.sides() {
            let options = &mut self.options[*side];
            match setting {
                Setting::Protocol(number) => options.variant = &VARIANTS[number],
                Setting::Lambda(wide) => options.wide = wide,
                Setting::Both(both) => options.both = both,
                Setting::Minimum(minimum) => options.minimum = minimum,
                Setting::Buckets(buckets) => options.buckets = buckets,
                Setting::Threads(threads) => options.threads = threads,
            }
        }
    }

    /// The files of a side that are saved together.
    fn files(side: usize, what: What) -> Vec<String> {
        let names: &[&str] = match what {
            What::Work => &["work"],
            What::Store => &["store"],
            What::Home => &["key", "csv", "work", "store", "out"],
        };
        names.iter().map(|name| Life::name(side, name)).collect()
    }

    fn save(&mut self, side: usize, what: What) {
        let directory = self.saves.path().join(format!("{side}{what:?}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        for name in Life::files(side, what) {
            copy(&self.place.path(&name), &directory.join(&name));
        }
        self.saved.insert((side, what), self.sides[side].clone());
    }

    /// Whether there was something to restore.
    fn restore(&mut self, side: usize, what: What, beside: bool) -> bool {
        let Some(saved) = self.saved.get(&(side, what)).cloned() else {
            return false;
        };
        let directory = self.saves.path().join(format!("{side}{what:?}"));
        // Only of a store can the missing files be put back alone.
        let beside = beside && what == What::Store;
        for name in Life::files(side, what) {
            let path = self.place.path(&name);
            if !beside {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_dir_all(&path);
            }
            copy(&directory.join(&name), &path);
        }
        let now = &mut self.sides[side];
        if what != What::Work {
            let before = match beside {
                true => std::mem::take(&mut now.halves),
                false => BTreeMap::new(),
            };
            now.halves = saved.halves;
            for held in now.halves.values_mut() {
                held.file = held.file.map(|_| Kept::Copy);
                held.adopted = false;
            }
            for (name, held) in before {
                let restored = now.halves.remove(&name).unwrap_or(held);
                let held = Held {
                    file: held.file.or(restored.file),
                    marker: held.marker || restored.marker,
                    ..held
                };
                now.halves.insert(name, held);
            }
        }
        if what != What::Store {
            now.journal = saved.journal;
        }
        if what == What::Home {
            (now.who, now.rows, now.output) = (saved.who, saved.rows, saved.output);
        }
        true
    }

    /// Makes a pair, if both are who they were at first.
    fn make(&mut self, dealt: bool) -> Result<bool, String> {
        let who = [0, 1].map(|side| self.sides[side].who);
        if [who, self.expects] != [[0; 2]; 2] {
            return Ok(false);
        }
        let protocol = match dealt {
            true => "ole-dealer",
            false => "ole-ot",
        };
        let sizes = format!("--receiver-size {HALF_ROWS} --sender-size {HALF_ROWS}");
        let ended = match is_dealt(protocol) {
            true => {
                let [asking, dealing] = dealing_words(protocol);
                let [receiver, sender, _] = self.place.deal(&format!("{asking} {sizes}"), &dealing);
                [receiver, sender]
            }
            false => {
                let words = format!("--offline ot {sizes}");
                let mut receiver = self.place.make("receiver", &words, "--listen 127.0.0.1:0");
                let endpoint = receiver.endpoint();
                let sender = self.place.make("sender", &words, &endpoint);
                [receiver.wait(), sender.wait()]
            }
        };
        if ended.iter().any(|ended| ended.code != Some(0)) || ended[0].out != ended[1].out {
            return Err(format!("no pair was made: {ended:?}"));
        }
        let held = Held {
            protocol,
            file: Some(Kept::Original),
            marker: false,
            adopted: false,
        };
        let name = ended[0].text().trim().to_owned();
        for side in &mut self.sides {
            side.halves.insert(name.clone(), held);
        }
        let made = |variant: &Variant| variant.protocol == protocol;
        let number = VARIANTS.iter().position(made).expect("it is one of them");
        self.set(Whose::Both, Setting::Protocol(number));
        Ok(true)
    }

    /// Runs `vesica offline` with these words over a side's store, if it has one.
    fn offline(&self, side: usize, words: &str) -> Result<Option<String>, String> {
        let [store, key] = ["store", "key"].map(|what| Life::name(side, what));
        if !self.place.path(&store).exists() {
            return Ok(None);
        }
        let words = format!("offline {words} --offline-store {store} --identity {key}");
        let ended = self.place.run(&words);
        match ended.code == Some(0) && !ended.err.contains("unfinished") {
            true => Ok(Some(ended.text().to_owned())),
            false => Err(format!("{words}: {ended:?}")),
        }
    }

    fn list(&self, side: usize) -> Result<bool, String> {
        let Some(text) = self.offline(side, "ls --json")? else {
            return Ok(false);
        };
        let listed: Vec<serde_json::Value> =
            serde_json::from_str(&text).map_err(|e| e.to_string())?;
        let field = |half: &serde_json::Value, name: &str| half[name].as_str().unwrap().to_owned();
        let listed: BTreeMap<String, String> = listed
            .iter()
            .map(|half| (field(half, "name"), field(half, "state")))
            .collect();
        let here = &self.sides[side];
        let expected = here.halves.iter().filter_map(|(name, held)| {
            let state = match held.file? {
                _ if here.who != 0 => "of another identity",
                _ if held.marker => "used",
                Kept::Copy => "copied",
                Kept::Original => "ready",
            };
            Some((name.clone(), state.to_owned()))
        });
        let expected: BTreeMap<String, String> = expected.collect();
        match listed == expected {
            true => Ok(true),
            false => Err(format!(
                "the {}'s store lists {listed:?}, not {expected:?}",
                SIDES[side]
            )),
        }
    }

    fn adopt(&mut self, side: usize) -> Result<bool, String> {
        let Some(text) = self.offline(side, "adopt")? else {
            return Ok(false);
        };
        let here = &mut self.sides[side];
        let mut lines = String::new();
        for (name, held) in &mut here.halves {
            if here.who == 0 && held.file == Some(Kept::Copy) && !held.marker {
                held.file = Some(Kept::Original);
                held.adopted = true;
                lines.push_str(&format!("{name}  adopted\n"));
            }
        }
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        match sorted(&text) == sorted(&lines) {
            true => Ok(true),
            false => Err(format!(
                "the {} adopted {text:?}, not {lines:?}",
                SIDES[side]
            )),
        }
    }

    fn replace(&mut self, side: usize, told: bool) {
        let here = &mut self.sides[side];
        here.who = 1 - here.who;
        if told {
            self.expects[1 - side] = here.who;
        }
        let key = &self.keys[side][here.who].0;
        self.place.write(&Life::name(side, "key"), key);
    }

    /// Does a step. Returns what came of it, or what must not be; `None` if there was nothing to do.
    fn step(&mut self, step: Step) -> Result<Option<&'static str>, String> {
        let done = match step {
            Step::Run => return self.run(None, None).map(Some),
            Step::Stop(stop) => return self.run(Some(stop), None).map(Some),
            Step::Twice { side } => return self.run(None, Some(side)).map(Some),
            Step::Full { side } => return self.run_full(side).map(Some),
            Step::Change { side, change, seed } => {
                self.change(side, change, seed);
                true
            }
            Step::Set { whose, option } => {
                self.set(whose, option);
                true
            }
            Step::Agree => {
                self.options[1] = self.options[0];
                true
            }
            Step::Save { whose, what } => {
                whose.sides().iter().for_each(|side| self.save(*side, what));
                true
            }
            Step::Restore {
                whose,
                what,
                beside,
            } => {
                let mut done = false;
                for side in whose.sides() {
                    done |= self.restore(*side, what, beside);
                }
                done
            }
            Step::Make { dealt } => self.make(dealt)?,
            Step::Adopt { whose } => {
                let mut done = false;
                for side in whose.sides() {
                    done |= self.adopt(*side)?;
                }
                done
            }
            Step::List { side } => self.list(side)?,
            Step::Replace { side, told } => {
                self.replace(side, told);
                true
            }
            Step::RemoveOutputs => {
                for side in 0..2 {
                    let _ = fs::remove_file(self.place.path(&Life::name(side, "out")));
                    self.sides[side].output = None;
                }
                true
            }
            Step::RemoveWork { side } => {
                let _ = fs::remove_dir_all(self.place.path(&Life::name(side, "work")));
                self.sides[side].journal.take().is_some()
            }
        };
        self.check_unchanged()?;
        Ok(done.then_some("done"))
    }
}

/// A failure says why in one line, and nobody panics.
fn check_lines(ended: &Ended) -> Result<(), String> {
    let failures = ended
        .err
        .lines()
        .filter(|line| line.starts_with("vesica: "));
    let expected = usize::from(!matches!(ended.code, None | Some(0)));
    let is_killed = ended.code.is_none();
    match (is_killed || failures.count() == expected) && !ended.err.contains("panicked") {
        true => Ok(()),
        false => Err(format!("not one line of failure: {ended:?}")),
    }
}

/// The names in a directory; none if there is no such directory.
fn names_in(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Copies a file, or a directory with its files, as `cp -rn` does; nothing if there is none.
fn copy(from: &Path, to: &Path) {
    match from.metadata() {
        Ok(there) if there.is_dir() => {
            if fs::create_dir(to).is_ok() {
                fs::set_permissions(to, there.permissions()).unwrap();
            }
            for name in names_in(from) {
                copy(&from.join(&name), &to.join(&name));
            }
        }
        Ok(_) if !to.exists() => drop(fs::copy(from, to).unwrap()),
        _ => {}
    }
}

/// Lives the life of this number, of up to so many steps. A wrong one is a defect, with the fewest steps found that still
/// go wrong.
fn live(ledger: &Ledger, number: u64, steps: usize) {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let config = Config {
        cases: 1,
        max_shrink_iters: 60,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let lived = TestRunner::new_with_rng(config, rng).run(
        &prop::collection::vec(step(), steps..=steps),
        |steps| {
            let mut life = Life::new();
            for (i, step) in steps.into_iter().enumerate() {
                let came = life.step(step);
                let came = came.map_err(|e| TestCaseError::fail(format!("step {i}: {e}")))?;
                if let Some(outcome) = came {
                    ledger.count(step.row(), outcome);
                }
            }
            Ok(())
        },
    );
    match lived {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => {
            ledger.defect(format!("life {number}: {why}\nsteps: {steps:?}"));
        }
        Err(error) => ledger.defect(format!("life {number}: {error}")),
    }
}

/// Lives the lives of these numbers.
fn lives(numbers: std::ops::Range<u64>, steps: usize) -> Ledger {
    let ledger = Ledger::default();
    let one: Option<u64> = std::env::var("VESICA_LIFE")
        .ok()
        .map(|n| n.parse().unwrap());
    let numbers = numbers.filter(|number| one.is_none_or(|one| one == *number));
    let jobs = numbers.map(|number| (format!("life {number}"), number));
    on_threads(3, &ledger, jobs.collect(), |number| {
        live(&ledger, number, steps)
    });
    ledger
}

#[test]
fn lives_of_random_steps_go_as_the_model_says() {
    lives(0..4, 10).settle();
}

/// With their table.
#[test]
#[ignore = "hundreds of lives"]
fn many_lives_of_random_steps_go_as_the_model_says() {
    let ledger = lives(1000..1000 + part(400), 30);
    publish("lives", &ledger.table("step", &OUTCOMES));
    ledger.settle();
}
