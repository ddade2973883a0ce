//! Numbers of runs in several buckets: added up as shares, opened once, and kept by a run that goes on.

mod noise;

use std::borrow::Cow;
use std::ops::Range;

use crate::common::{job, memory_of_buckets, silent_pair};
use crate::side_by_side::side_by_side;
use vesica_psi::{Output, Reveals, Task, Values};
use vesica_session::terms::{BUCKET_ATTEMPTS, BUCKETS_AT_ONCE, LEARNS, MIN_SIZE, REVEAL, SECURITY};
use vesica_session::{
    Agreed, Agreement, Assignment, Attempt, Begin, BucketShares, Checkpoint, Choice, Error, Job,
    KeyBlock, KeySet, Learns, MemorySet, NoChoice, NoProgress, Noise, Opened, Progress,
    ProtocolRequest, RUNS_OF_SHARES, RepeatedKeys, Report, Reveal, Role, Security, State, Tally,
    ValueTerms, agree, exchange_openings, open_total, run_bucket, run_set_over,
};
use vesica_testing::{Recorder, bad_value, digests, misbehaviour, run_both};
use vesica_wire::{Channel, Error as WireError, Kind, Spoil, Tamper};

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
        memory_of_buckets(&self.task(), [1000, 1100], buckets)
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
    set: MemorySet,
    /// The last of these.
    checkpoint: Option<String>,
    /// What was kept after each bucket of the last run.
    all: Vec<String>,
    /// A bucket to which it brings keys that nobody else has.
    brings_others_to: Option<u32>,
}

impl Kept {
    fn new(items: Range<u64>, columns: usize) -> Kept {
        let value = |item: u64| (0..columns).map(move |column| value(item, column));
        Kept {
            digests: digests(items.clone()),
            values: items.flat_map(value).collect(),
            set: MemorySet::new(Vec::new()).unwrap(),
            checkpoint: None,
            all: Vec::new(),
            brings_others_to: None,
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
        let mut keys = KeyBlock::from(self.digests.clone());
        keys.values = (!self.values.is_empty()).then(|| Cow::from(self.values.clone()));
        self.set = MemorySet::new(keys).unwrap();
        self.all.clear();
        // No share of a bucket that runs again stays.
        if self.state().is_some() {
            self.checkpoint = Some(serde_json::to_string(state).unwrap());
        }
        self.set.assign(assignment, state)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        let keys = self.set.load(bucket)?;
        Ok(match self.brings_others_to == Some(bucket) {
            true => {
                let others = 1 << 32;
                digests(others..others + keys.digests.len() as u64).into()
            }
            false => keys,
        })
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        // No bucket leaves anything else.
        assert!(matches!(output, Output::NumberShares(_)));
        let kept = serde_json::to_string(state).unwrap();
        self.all.push(kept.clone());
        self.checkpoint = Some(kept);
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
    for reveals in Reveals::all().filter(|reveals| reveals.is_value()) {
        let is_asked = |reveal| QUESTIONS.iter().any(|of| of.reveals.contains(reveal));
        assert!(reveals.each().iter().all(is_asked), "{reveals}");
    }
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

/// One bucket and several, one after the other and, for what runs again with more memory, two or more at a time.
#[test]
fn buckets_side_by_side_add_up_too() {
    let add = |agreed: &mut Agreed, more, _| agreed.add_connected(more);
    for question in [0, 1, 2, 5].map(|number| QUESTIONS[number]) {
        let [mut ours, mut theirs] = sides(&question);
        let memory = Some(question.memory(4));
        let sets = [&mut ours, &mut theirs];
        let (reports, _) = run(&question, memory, silent_pair(20_000), sets);
        let [near, _] = reports.map(Result::unwrap);
        let (buckets, expected) = (near.contract.buckets, question.plain());
        let kept = [&ours, &theirs].map(|side| side.all.clone());
        for (after, at_once) in [(1, 1), (1, 2), (2, 4), (buckets - 1, 2), (buckets, 2)] {
            for (side, kept) in [&mut ours, &mut theirs].into_iter().zip(&kept) {
                side.checkpoint = Some(kept[after as usize - 1].clone());
            }
            let jobs = [Role::Receiver, Role::Sender]
                .map(|role| question.job(role, None).with(&BUCKETS_AT_ONCE, at_once));
            let sets: [&mut dyn KeySet; 2] = [&mut ours, &mut theirs];
            let reports = side_by_side([&jobs[0], &jobs[1]], sets, add);
            let [near, far] = reports.map(Result::unwrap);
            let contract = &near.contract;
            assert_eq!([contract.buckets, contract.resumed_after], [buckets, after]);
            let left = (buckets - after).max(1);
            assert_eq!(contract.get(&BUCKETS_AT_ONCE), at_once.min(left));
            assert_eq!(told(&near), expected, "{after} {at_once}");
            let is_told = question.learns == Learns::Both;
            assert_eq!(told(&far), expected.clone().filter(|_| is_told));
            // Both have the shares of all, in the order of the buckets.
            let shares = [&ours, &theirs].map(|side| side.state().unwrap().shares);
            let names = shares.map(|all| all.into_iter().map(|of| of.attempt).collect::<Vec<_>>());
            assert!(names[0] == names[1] && names[0].len() == buckets as usize);
        }
    }
}

/// Wherever a run breaks off, the next one tells the same number.
#[test]
fn a_run_that_goes_on_adds_to_what_it_has() {
    for question in [QUESTIONS[0], QUESTIONS[5]] {
        let memory = Some(question.memory(4));
        let [mut ours, mut theirs] = sides(&question);
        let (near, far) = silent_pair(20_000);
        let mut far = Recorder::new(far);
        let sets = [&mut ours, &mut theirs];
        let (whole, _) = run(&question, memory, (near, &mut far), sets);
        assert!(whole.iter().all(Result::is_ok));
        // The last two open the total.
        let frames = far.sent.len();
        let cuts = (6..frames - 2).step_by(frames / 6);
        let (mut went_on, mut opened) = (0, 0);
        for cut in cuts.chain(frames - 2..frames) {
            let [mut ours, mut theirs] = sides(&question);
            let (near, far) = silent_pair(20_000);
            let far = Tamper::new(far, cut, Spoil::Close);
            let (ended, _) = run(&question, memory, (near, far), [&mut ours, &mut theirs]);
            assert!(ended.iter().any(Result::is_err), "{cut}");
            let kept =
                [&ours, &theirs].map(|kept| kept.state().map_or(0, |state| state.finished()));
            let sets = [&mut ours, &mut theirs];
            let (reports, begin) = run(&question, memory, silent_pair(20_000), sets);
            let [near, far] = reports.map(Result::unwrap);
            assert_eq!(told(&near), question.plain(), "{cut}");
            assert_eq!(told(&far), None);
            let both = kept[0].min(kept[1]);
            assert_eq!(near.contract.resumed_after, both);
            if both > 0 {
                assert_eq!(begin, Some(Begin::After(both)));
                went_on += 1;
            }
            opened += u32::from(both == near.contract.buckets);
        }
        assert!(went_on >= 5 && opened >= 2, "{went_on} {opened}");
    }
}

/// However far apart the two sides are, they go back to what both have, and the number is the same.
#[test]
fn sides_go_back_to_the_buckets_that_both_have_finished() {
    let question = QUESTIONS[3];
    let memory = Some(question.memory(4));
    let [mut ours, mut theirs] = sides(&question);
    let sets = [&mut ours, &mut theirs];
    let (reports, _) = run(&question, memory, silent_pair(20_000), sets);
    assert!(reports.iter().all(Result::is_ok));
    let kept = [&ours, &theirs].map(|side| side.all.clone());
    let buckets = kept[0].len();
    assert!(buckets >= 4 && kept[1].len() == buckets);
    for near in 1..=buckets {
        for far in 1..=buckets {
            ours.checkpoint = Some(kept[0][near - 1].clone());
            theirs.checkpoint = Some(kept[1][far - 1].clone());
            let sets = [&mut ours, &mut theirs];
            let (reports, begin) = run(&question, memory, silent_pair(20_000), sets);
            assert_eq!(begin, Some(Begin::After(near.min(far) as u32)));
            let [report, _] = reports.map(Result::unwrap);
            assert_eq!(told(&report), question.plain(), "{near} {far}");
        }
    }
}

/// One side has an older copy of what it kept, of which some buckets have run again since.
#[test]
fn shares_of_different_runs_of_a_bucket_are_not_opened() {
    let question = QUESTIONS[0];
    let memory = Some(question.memory(4));
    for older in 0..2 {
        let [mut ours, mut theirs] = sides(&question);
        let first = run(
            &question,
            memory,
            silent_pair(20_000),
            [&mut ours, &mut theirs],
        );
        assert!(first.0.iter().all(Result::is_ok));
        let copies = [&ours, &theirs].map(|side| side.all.clone());
        ours.checkpoint = Some(copies[0][1].clone());
        let again = run(
            &question,
            memory,
            silent_pair(20_000),
            [&mut ours, &mut theirs],
        );
        assert!(again.0.iter().all(Result::is_ok));
        let side = [&mut ours, &mut theirs].into_iter().nth(older).unwrap();
        side.checkpoint = copies[older].last().cloned();
        let ended = run(
            &question,
            memory,
            silent_pair(20_000),
            [&mut ours, &mut theirs],
        );
        let [near, far] = ended.0.map(Result::unwrap_err);
        let is_named = matches!(
            near,
            Error::Run(WireError::ContractDiffers {
                field: RUNS_OF_SHARES,
                ..
            })
        );
        assert!(is_named, "{near:?}");
        let is_told = matches!(far, Error::Run(WireError::PeerAborted { .. }));
        assert!(is_told, "{far:?}");
    }
}

/// What a peer sees of the numbers of single buckets: nothing is opened before the last has run, and once.
#[test]
fn a_run_opens_one_total() {
    let question = QUESTIONS[0];
    for memory in [None, Some(question.memory(4))] {
        let [mut ours, mut theirs] = sides(&question);
        let (near, far) = silent_pair(20_000);
        let mut near = Recorder::new(near);
        let sets = [&mut ours, &mut theirs];
        let (reports, _) = run(&question, memory, (&mut near, far), sets);
        assert!(reports.iter().all(Result::is_ok));
        let kinds: Vec<_> = near.received.iter().map(|(kind, _)| kind.name).collect();
        assert_eq!(kinds[kinds.len() - 2..], ["manifest", "opened shares"]);
        let opened = kinds.iter().filter(|name| **name == "opened shares");
        assert_eq!(opened.count(), 1);
    }
}

/// A sender that says that it opens something else, or nothing that could be.
#[test]
fn a_manifest_that_differs_ends_the_run() {
    let question = QUESTIONS[0];
    let ends = |spoil| {
        let [mut ours, mut theirs] = sides(&question);
        let sets = [&mut ours, &mut theirs];
        let (near, far) = silent_pair(20_000);
        let mut far = Recorder::new(far);
        let (reports, _) = run(&question, None, (near, &mut far), sets);
        assert!(reports.iter().all(Result::is_ok));
        let place = far
            .sent
            .iter()
            .position(|(kind, _)| kind.name == "manifest");
        let [mut ours, mut theirs] = sides(&question);
        let sets = [&mut ours, &mut theirs];
        let (near, far) = silent_pair(20_000);
        let far = Tamper::new(far, place.unwrap(), spoil);
        let ([received, _], _) = run(&question, None, (near, far), sets);
        received.unwrap_err()
    };
    let error = ends(Spoil::FlipBit(100));
    let differs = matches!(
        error,
        Error::Run(WireError::ContractDiffers {
            field: RUNS_OF_SHARES,
            ..
        })
    );
    assert!(differs, "{error:?}");
    for spoil in [Spoil::Truncate(1), Spoil::Extend(vec![0])] {
        let error = ends(spoil);
        let misbehaved = matches!(error, Error::Run(WireError::PeerMisbehaved(_)));
        assert!(misbehaved, "{error:?}");
    }
}

/// A peer that has kept all buckets says that it has fewer, and brings other keys to those that run again. Each run that is
/// started opens one total, of what it brought to that run; it gains no more than by another set in a run from the start.
#[test]
fn a_peer_that_goes_back_with_other_keys_gets_one_total_for_each_run() {
    let question = QUESTIONS[0];
    let memory = Some(question.memory(4));
    let [mut ours, mut theirs] = sides(&question);
    let first = run(
        &question,
        memory,
        silent_pair(20_000),
        [&mut ours, &mut theirs],
    );
    let [near, _] = first.0.map(Result::unwrap);
    // The receiver brings keys that match nothing to the last bucket.
    let last = ours.all.len() - 1;
    let earlier = theirs.state().unwrap();
    ours.checkpoint = Some(ours.all[last - 1].clone());
    ours.brings_others_to = Some(last as u32);
    let second = run(
        &question,
        memory,
        silent_pair(20_000),
        [&mut ours, &mut theirs],
    );
    let [again, _] = second.0.map(Result::unwrap);
    assert_eq!(again.contract.resumed_after, last as u32);
    let (all, rest) = (told(&near).unwrap()[0], told(&again).unwrap()[0]);
    assert!(0 < rest && rest < all, "{rest} of {all}");
    // The honest side has dropped its shares of the bucket that has run again.
    let kept = theirs.state().unwrap().shares;
    assert_eq!(kept[..last], earlier.shares[..last]);
    assert!(kept.len() == last + 1 && kept[last] != earlier.shares[last]);
}

/// What both drivers agree on, for tasks of so many buckets or more.
fn agreed(question: &Question, buckets: u32) -> [Agreement; 2] {
    agreed_with(question, buckets, |_| ())
}

/// The same of jobs that differ from the usual ones.
fn agreed_with(
    question: &Question,
    buckets: u32,
    change: impl Fn(&mut Job) + Sync,
) -> [Agreement; 2] {
    let memory = Some(question.memory(buckets));
    let sides = [(Role::Receiver, 1000), (Role::Sender, 1100)];
    let agree = |channel: &mut dyn Channel, (role, items): (Role, u64)| {
        let mut job = question.job(role, memory).with(&BUCKET_ATTEMPTS, 3);
        change(&mut job);
        agree(channel, &job, items, &Checkpoint::Nothing, None, None).unwrap()
    };
    let (near, far) = run_both(
        silent_pair(20_000),
        |channel| agree(channel, sides[0]),
        |channel| agree(channel, sides[1]),
    );
    [near, far]
}

/// An attempt at a bucket, over a channel of its own, and what each side has of it.
fn attempt(
    agreements: [&Agreement; 2],
    sets: [&mut Kept; 2],
    attempt: Attempt,
) -> [BucketShares; 2] {
    let [near, far] = sets.map(|set| set.load(attempt.bucket).unwrap());
    let run = |channel: &mut dyn Channel, role, agreement, keys| {
        let attempted = run_bucket(channel, role, agreement, attempt, [None; 2], keys).unwrap();
        BucketShares::of(&attempted).unwrap()
    };
    let (near, far) = run_both(
        silent_pair(20_000),
        |channel| run(channel, Role::Receiver, agreements[0], near),
        |channel| run(channel, Role::Sender, agreements[1], far),
    );
    [near, far]
}

/// All buckets, the last one first, each by this attempt.
fn attempts(
    question: &Question,
    agreements: [&Agreement; 2],
    number: u32,
) -> [Vec<BucketShares>; 2] {
    let [mut ours, mut theirs] = sides(question);
    ours.assign(&agreements[0].assignment(), &agreements[0].state)
        .unwrap();
    theirs
        .assign(&agreements[1].assignment(), &agreements[1].state)
        .unwrap();
    let mut shares = [Vec::new(), Vec::new()];
    for bucket in (0..agreements[0].contract.buckets).rev() {
        let of = Attempt { bucket, number };
        let [near, far] = attempt(agreements, [&mut ours, &mut theirs], of);
        shares[0].insert(0, near);
        shares[1].insert(0, far);
    }
    shares
}

fn choice(agreement: &Agreement, number: u8) -> Choice {
    let buckets = agreement.contract.buckets;
    Choice::decode(&vec![number; buckets as usize], buckets, 3).unwrap()
}

type Total = Result<Output, WireError>;

/// What a side without noise adds.
fn no_noise(agreement: &Agreement, role: Role) -> Noise {
    Noise::decode(&[], &agreement.contract, role).unwrap()
}

/// Both drivers open their choice, without noise.
fn open(agreements: [&Agreement; 2], chosen: [(&Choice, &[BucketShares]); 2]) -> [Total; 2] {
    let roles = [Role::Receiver, Role::Sender];
    let noise = [0, 1].map(|side| no_noise(agreements[side], roles[side]));
    open_with(agreements, chosen, noise.each_ref())
}

/// The same with the noise of each side.
fn open_with(
    agreements: [&Agreement; 2],
    chosen: [(&Choice, &[BucketShares]); 2],
    noise: [&Noise; 2],
) -> [Total; 2] {
    let open = |channel: &mut dyn Channel, role, side: usize| {
        let (choice, shares) = chosen[side];
        let chosen = (choice, shares, noise[side]);
        open_total(
            channel,
            role,
            agreements[side],
            [None; 2],
            chosen,
            || Ok(()),
        )
    };
    let (near, far) = run_both(
        silent_pair(20_000),
        |channel| open(channel, Role::Receiver, 0),
        |channel| open(channel, Role::Sender, 1),
    );
    [near, far]
}

#[test]
fn tasks_add_up_to_what_one_run_finds() {
    for question in [1, 2, 5, 6, 8].map(|number| QUESTIONS[number]) {
        let [near, far] = agreed(&question, 2);
        let both = [&near, &far];
        assert!(near.contract.buckets >= 2);
        let [ours, theirs] = attempts(&question, both, 0);
        let choice = choice(&near, 0);
        // As often as it is opened.
        for _ in 0..2 {
            let [received, sent] = open(both, [(&choice, &ours), (&choice, &theirs)]);
            let expected = match question.plain() {
                Some(values) => Output::Values(values),
                None => Output::Below(question.minimum),
            };
            assert_eq!(received.unwrap(), expected, "{:?}", question.reveals);
            let told = match question.learns {
                Learns::Receiver => Output::Nothing,
                _ => expected,
            };
            assert_eq!(sent.unwrap(), told);
        }
    }
}

/// Another attempt at one bucket, or shares of another run of the same attempt: nothing is kept or opened.
#[test]
fn shares_of_different_attempts_are_not_added_up() {
    let question = QUESTIONS[0];
    let [near, far] = agreed(&question, 2);
    let both = [&near, &far];
    let [ours, theirs] = attempts(&question, both, 0);
    let [ours_again, theirs_again] = attempts(&question, both, 1);
    let (first, second) = (choice(&near, 0), choice(&near, 1));
    let mut mixed = theirs.clone();
    mixed[1] = theirs_again[1].clone();
    for (choice, shares) in [
        (&second, &theirs_again),
        (&first, &mixed),
        (&first, &theirs_again),
    ] {
        let refused = open(both, [(&first, &ours), (choice, shares)]);
        let is_named = |total: &Total| {
            let differs = |field: &str| field == "manifest";
            matches!(total, Err(WireError::ContractDiffers { field, .. }) if differs(field))
        };
        assert!(refused.iter().all(|total| is_named(total) || matches!(total, Err(WireError::PeerAborted { .. }))));
        assert!(refused.iter().any(is_named), "{refused:?}");
    }
    let [received, _] = open(both, [(&second, &ours_again), (&second, &theirs_again)]);
    assert_eq!(received.unwrap(), Output::Values(question.plain().unwrap()));
}

/// Before this side has kept its choice, it sends nothing that depends on a share; if it cannot, it opens nothing.
#[test]
fn a_choice_is_kept_before_it_is_opened() {
    let question = QUESTIONS[0];
    let [near, far] = agreed(&question, 2);
    let [ours, theirs] = attempts(&question, [&near, &far], 0);
    let choice = choice(&near, 0);
    let full = || Err(WireError::limit(vesica_wire::Limit::Storage, "no room"));
    let (mut a, b) = silent_pair(20_000);
    let mut b = Recorder::new(b);
    let none = [
        no_noise(&near, Role::Receiver),
        no_noise(&far, Role::Sender),
    ];
    let (chosen, helped) = (
        (&choice, &ours[..], &none[0]),
        (&choice, &theirs[..], &none[1]),
    );
    let (received, sent) = std::thread::scope(|scope| {
        let received =
            scope.spawn(|| open_total(&mut a, Role::Receiver, &near, [None; 2], chosen, || Ok(())));
        let sent = open_total(&mut b, Role::Sender, &far, [None; 2], helped, full);
        (received.join().unwrap(), sent)
    });
    let kinds: Vec<_> = b.sent.iter().map(|(kind, _)| kind.name).collect();
    assert!(matches!(sent, Err(WireError::Resource { .. })), "{sent:?}");
    assert!(
        matches!(received, Err(WireError::PeerAborted { .. })),
        "{received:?}"
    );
    assert_eq!(kinds, ["manifest"]);
}

const OPENED: Kind = Kind {
    code: 14,
    name: "earlier openings",
};

#[test]
fn both_sides_choose_alike_and_never_a_second_time() {
    let [near, _] = agreed(&QUESTIONS[0], 4);
    let contract = &near.contract;
    let buckets = contract.buckets;
    let tally = |results: &[(u32, u32)]| {
        let mut tally = Tally::new(contract);
        for bucket in 0..buckets {
            for number in 0..2 {
                let has_result = !results.contains(&(bucket, number));
                tally.add(Attempt { bucket, number }, has_result);
            }
        }
        tally
    };
    // All but these have a result.
    let (all, lacking) = (tally(&[]), tally(&[(1, 0)]));
    let nothing = Opened::default();
    let begun = |number, is_complete| Opened {
        choice: Some(choice(&near, number)),
        is_complete,
    };
    let choose = |tallies: [&Tally; 2], [near, far]: [&Opened; 2]| {
        Opened::choose(tallies, [near, far], contract)
    };
    // The first in common.
    let chosen = choose([&all, &lacking], [&nothing, &nothing])
        .unwrap()
        .unwrap();
    let numbers: Vec<u32> = chosen.attempts().map(|attempt| attempt.number).collect();
    assert_eq!(numbers[..3], [0, 1, 0]);
    assert_eq!(
        choose([&all, &tally(&[(2, 0), (2, 1)])], [&nothing, &nothing]),
        Err(NoChoice::NoResult(2))
    );
    // What one side has opened counts, whatever has a result by now.
    for sides in [[&begun(1, false), &nothing], [&nothing, &begun(1, true)]] {
        assert_eq!(choose([&all, &all], sides), Ok(Some(choice(&near, 1))));
    }
    assert_eq!(
        choose([&all, &lacking], [&begun(0, false), &nothing]),
        Err(NoChoice::NoResult(1))
    );
    assert_eq!(
        choose([&all, &all], [&begun(0, false), &begun(1, false)]),
        Err(NoChoice::Differs)
    );
    // A receiver that has its total needs nothing more.
    assert_eq!(choose([&all, &all], [&begun(0, true), &nothing]), Ok(None));
}

#[test]
fn openings_that_cannot_be_are_refused() {
    let [near, far] = agreed(&QUESTIONS[0], 4);
    let buckets = near.contract.buckets as usize;
    let hears = |message: Vec<u8>| {
        let tally = |agreement: &Agreement| Tally::new(&agreement.contract);
        let (heard, _) = run_both(
            silent_pair(20_000),
            |channel| {
                exchange_openings(
                    channel,
                    Role::Receiver,
                    &near,
                    tally(&near),
                    Opened::default(),
                )
            },
            |channel| {
                tally(&far).exchange(channel, Role::Sender, &far).unwrap();
                channel.send(OPENED, message).unwrap();
                channel.flush().unwrap();
                let _ = channel.recv(OPENED, 1 + buckets);
            },
        );
        heard.map(|_| ()).unwrap_err()
    };
    let message = |what: u8, attempt: u8| [vec![what], vec![attempt; buckets]].concat();
    for (message, problem) in [
        (message(3, 0), "unknown code"),
        (message(1, 3), "of attempts that there are not"),
        (message(0, 1), "attempts where nothing was opened"),
    ] {
        let expected = bad_value(OPENED.name, problem);
        assert_eq!(misbehaviour(Err::<(), _>(hears(message))), expected);
    }
    for length in [buckets, buckets + 2] {
        let mut message = message(2, 1);
        message.resize(length, 0);
        assert!(matches!(hears(message), WireError::PeerMisbehaved(_)));
    }
}
