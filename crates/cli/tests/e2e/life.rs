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

mod checks;
mod copies;
mod steps;

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
use crate::faults::{Ledger, memory_of_buckets, on_threads};
use crate::support::{Arguments, Ended, Place, Running};
use crate::trial::{
    Table, Variant, dealt_by_commands, is_dealt, part, publish, spec, storing_words,
};
use steps::{Change, OUTCOMES, Setting, Step, Stop, What, Whose, step};

/// What the parties run. Halves from a dealer or from both parties are for `ole`.
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
        } else if options.buckets {
            let memory = memory_of_buckets(protocol, self.sizes(), terms.lambda, 4, [false; 2]);
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
            // Whoever looks later may have heard of the other's lack before.
            [true, true] => return [vec![3, 7], vec![3, 7]],
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
                if ended.code != Some(2) || !ended.err.contains("the directory") {
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
