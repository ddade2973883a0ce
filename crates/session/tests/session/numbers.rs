//! Numbers of runs in several buckets: added up as shares, opened once, and kept by a run that goes on.

use std::borrow::Cow;
use std::ops::Range;

use crate::common::{job, silent_pair};
use vesica_plan::Registry;
use vesica_psi::{Output, Reveals, Task, Values};
use vesica_session::terms::{LEARNS, MIN_SIZE, REVEAL, SECURITY};
use vesica_session::{
    Assignment, Begin, BucketKeys, Checkpoint, Error, Job, KeySet, Learns, MemorySet, NoProgress,
    Progress, ProtocolRequest, RepeatedKeys, Report, Reveal, Role, Security, StartOver, State,
    ValueTerms, run_set_over, split,
};
use vesica_testing::{digests, run_both};
use vesica_wire::{Channel, Error as WireError, Spoil, Tamper};

const OURS: Range<u64> = 0..1000;
const THEIRS: Range<u64> = 600..1700;

/// What is asked: numbers, values of each side, and a minimum.
#[derive(Clone, Copy)]
struct Question {
    reveals: &'static [Reveal],
    values: [usize; 2],
    minimum: u64,
    learns: Learns,
}

const QUESTIONS: [Question; 9] = {
    const fn of(reveals: &'static [Reveal], values: [usize; 2], minimum: u64) -> Question {
        Question {
            reveals,
            values,
            minimum,
            learns: Learns::Receiver,
        }
    }
    [
        of(&[Reveal::Size], [0, 0], 0),
        Question {
            learns: Learns::Both,
            ..of(&[Reveal::Size], [0, 0], 400)
        },
        of(&[Reveal::Size], [0, 0], 401),
        of(&[Reveal::Sum], [1, 0], 0),
        of(&[Reveal::Sum], [0, 3], 0),
        of(&[Reveal::Size, Reveal::Sum], [2, 0], 300),
        of(&[Reveal::Sum], [0, 2], 320),
        of(&[Reveal::InnerProduct], [1, 1], 0),
        Question {
            learns: Learns::Both,
            ..of(&[Reveal::Size, Reveal::InnerProduct], [1, 1], 200)
        },
    ]
};

/// The value of an item in a column; every fifth is 0.
fn value(item: u64, column: usize) -> i64 {
    match item % 5 {
        0 => 0,
        _ => (item as i64 - 900) * (3 + column as i64),
    }
}

impl Question {
    fn task(&self) -> Task {
        Task {
            values: Values {
                receiver: self.values[0] as u8,
                sender: self.values[1] as u8,
            },
            min_size: self.minimum,
            ..Task::new(Reveals::of(self.reveals).unwrap())
        }
    }

    /// The most memory that makes so many buckets or more.
    fn memory(&self, buckets: u32) -> u64 {
        let protocol = Registry::standard().get("circuit-okvs").unwrap();
        let (sizes, task) = ([1000, 1100], self.task());
        let bytes = |sizes, lambda| protocol.working_bytes(&task, sizes, None, lambda);
        let limits = (0..1000).map(|step| bytes(sizes, 40) - 1000 * step);
        let mut several = limits.filter(|memory| {
            let split = split(sizes, 40, *memory, protocol.spec().max_items, bytes);
            split.is_some_and(|split| split.buckets >= buckets)
        });
        several.next().expect("some memory makes so many buckets")
    }

    fn job(&self, role: Role, memory: Option<u64>) -> Job {
        let columns = self.values[usize::from(role == Role::Sender)];
        let terms = ValueTerms {
            bound: 100_000,
            scale: 0,
            repeated: RepeatedKeys::Sum,
        };
        let job = Job {
            protocol: ProtocolRequest::named("circuit-okvs"),
            values: vec![terms; columns],
            memory,
            ..job(role)
        };
        job.with(&SECURITY, Security::SemiHonest)
            .with(&REVEAL, Reveals::of(self.reveals).unwrap())
            .with(&MIN_SIZE, self.minimum)
            .with(&LEARNS, self.learns)
    }

    /// What comes out, in order; `None` if fewer match, and add to each number, than the minimum.
    fn plain(&self) -> Option<Vec<i128>> {
        let common = || OURS.filter(|item| THEIRS.contains(item));
        let mut numbers = Vec::new();
        let mut add = |of: &dyn Fn(u64) -> i64| {
            let terms = common().map(of);
            let count = common().filter(|item| of(*item) != 0).count();
            numbers.push((terms.map(i128::from).sum(), count as u64));
        };
        for reveal in self.reveals {
            match reveal {
                Reveal::Size => add(&|_| 1),
                Reveal::Sum => {
                    let columns = self.values[0].max(self.values[1]);
                    (0..columns).for_each(|column| add(&|item| value(item, column)));
                }
                _ => add(&|item| value(item, 0) * value(item, 0)),
            }
        }
        let enough = numbers.iter().all(|(_, count)| *count >= self.minimum);
        enough.then(|| numbers.into_iter().map(|(sum, _)| sum).collect())
    }
}

/// What a side was told.
fn told(report: &Report) -> Option<Vec<i128>> {
    let one = report.value.map(|value| vec![value.units]);
    let all = report.values.as_ref();
    let all = all.map(|all| all.iter().map(|(_, value)| value.units).collect());
    one.or(all)
}

/// A set with values that keeps how far it came, as a work directory does.
struct Kept {
    digests: Vec<[u8; 32]>,
    values: Vec<i64>,
    set: MemorySet<'static>,
    checkpoint: Option<String>,
}

impl Kept {
    fn new(items: Range<u64>, columns: usize) -> Kept {
        let value = |item: u64| (0..columns).map(move |column| value(item, column));
        Kept {
            digests: digests(items.clone()),
            values: items.flat_map(value).collect(),
            set: MemorySet::default(),
            checkpoint: None,
        }
    }

    fn state(&self) -> Option<State> {
        let kept = self.checkpoint.as_ref()?;
        Some(serde_json::from_str(kept).unwrap())
    }
}

impl KeySet for Kept {
    fn items(&self) -> u64 {
        self.digests.len() as u64
    }

    fn checkpoint(&self) -> Checkpoint {
        let kept = self.state();
        kept.map_or(Checkpoint::Nothing, |state| Checkpoint::State(state.into()))
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        let mut keys = BucketKeys::from(self.digests.clone());
        keys.values = (!self.values.is_empty()).then(|| Cow::from(self.values.clone()));
        self.set = MemorySet::new(keys).unwrap();
        self.set.assign(assignment, state)
    }

    fn load(&mut self, bucket: u32) -> Result<BucketKeys<'_>, WireError> {
        self.set.load(bucket)
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        // Nothing but shares before the last bucket.
        let is_share = matches!(output, Output::Carried(_));
        assert_eq!(is_share, !state.is_complete());
        if is_share {
            self.checkpoint = Some(serde_json::to_string(state).unwrap());
        }
        self.set.finished(output, state)
    }
}

/// Hears where a run begins.
#[derive(Default)]
struct Heard(Option<Begin>);

impl Progress for Heard {
    fn begin(&mut self, begin: Begin, _: u32) {
        self.0 = Some(begin);
    }
}

fn run(
    question: &Question,
    memory: Option<u64>,
    channels: (impl Channel, impl Channel),
    [ours, theirs]: [&mut Kept; 2],
) -> ([Result<Report, Error>; 2], Option<Begin>) {
    let receiver = question.job(Role::Receiver, memory);
    let sender = question.job(Role::Sender, None);
    let mut heard = Heard::default();
    let (near, far) = run_both(
        channels,
        |channel| run_set_over(channel, None, None, &receiver, ours, &mut heard),
        |channel| run_set_over(channel, None, None, &sender, theirs, &mut NoProgress),
    );
    ([near, far], heard.0)
}

fn sides(question: &Question) -> [Kept; 2] {
    let [receiver, sender] = question.values;
    [Kept::new(OURS, receiver), Kept::new(THEIRS, sender)]
}

#[test]
fn buckets_add_up_to_what_one_run_finds() {
    for question in QUESTIONS {
        for memory in [None, Some(question.memory(4))] {
            let [mut ours, mut theirs] = sides(&question);
            let sets = [&mut ours, &mut theirs];
            let (reports, _) = run(&question, memory, silent_pair(20_000), sets);
            let [near, far] = reports.map(Result::unwrap);
            let several = memory.is_some();
            assert_eq!(near.contract.buckets >= 4, several);
            assert_eq!(near.contract, far.contract);
            let expected = question.plain();
            assert_eq!(told(&near), expected, "{:?}", question.reveals);
            let below = expected.is_none().then_some(question.minimum);
            assert_eq!(near.below, below);
            let both = question.learns == Learns::Both;
            assert_eq!(told(&far), expected.filter(|_| both));
            assert_eq!(far.below, below.filter(|_| both));
        }
    }
}

/// Wherever a run breaks off, the next one tells the same number, and repeats at most two buckets.
#[test]
fn a_run_that_goes_on_adds_to_what_it_has() {
    for question in [QUESTIONS[0], QUESTIONS[5]] {
        let memory = Some(question.memory(4));
        let (mut went_on, mut frames) = (0, 6);
        loop {
            let [mut ours, mut theirs] = sides(&question);
            let (near, far) = silent_pair(20_000);
            let cut = (Tamper::new(near, frames, Spoil::Close), far);
            let ([first, _], _) = run(&question, memory, cut, [&mut ours, &mut theirs]);
            if first.is_ok() {
                break;
            }
            let kept =
                [&ours, &theirs].map(|kept| kept.state().map_or(0, |state| state.finished()));
            let sets = [&mut ours, &mut theirs];
            let (reports, begin) = run(&question, memory, silent_pair(20_000), sets);
            let [near, far] = reports.map(Result::unwrap);
            assert_eq!(told(&near), question.plain(), "{frames}");
            assert_eq!(told(&far), None);
            let both = kept[0].min(kept[1]);
            assert_eq!(near.contract.resumed_after, both);
            if both > 0 {
                assert_eq!(begin, Some(Begin::After(both)));
                went_on += 1;
            }
            assert!(kept[0].abs_diff(kept[1]) <= 2, "{kept:?}");
            frames += 23;
        }
        assert!(went_on >= 3, "{went_on}");
    }
}

/// Sides further apart than numbers are kept for start over, and both know why.
#[test]
fn sides_that_are_far_apart_start_over() {
    let question = QUESTIONS[3];
    let memory = Some(question.memory(8));
    let [mut ours, mut theirs] = sides(&question);
    let sets = [&mut ours, &mut theirs];
    let (reports, _) = run(&question, memory, silent_pair(20_000), sets);
    assert!(reports.iter().all(Result::is_ok));
    let mut state = theirs.state().unwrap();
    assert_eq!(state.finished(), 7);
    state.found.truncate(4);
    theirs.checkpoint = Some(serde_json::to_string(&state).unwrap());
    let sets = [&mut ours, &mut theirs];
    let (reports, begin) = run(&question, memory, silent_pair(20_000), sets);
    assert_eq!(begin, Some(Begin::Over(StartOver::Apart)));
    let [near, _] = reports.map(Result::unwrap);
    assert_eq!(told(&near), question.plain());
}
