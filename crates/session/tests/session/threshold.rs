//! Matches of several buckets under a minimum, which they have to meet together.

use std::ops::Range;

use crate::common::{job, limit, memory_of_buckets, silent_pair};
use vesica_psi::{Output, Task};
use vesica_session::terms::{MIN_SIZE, REVEAL, SECURITY};
use vesica_session::{
    Assignment, Attempt, Begin, Checkpoint, Error, Job, KeyBlock, KeySet, MemorySet, NoProgress,
    ProtocolRequest, Report, Reveal, Role, Security, StartOver, State, agree, run_bucket,
    run_set_over,
};
use vesica_testing::{Recorder, bad_value, digests, misbehaviour, run_both};
use vesica_wire::{Channel, Error as WireError, Limit};
use zeroize::Zeroizing;

const OURS: Range<u64> = 0..1000;
const THEIRS: Range<u64> = 600..1700;
const IN_COMMON: u64 = 400;

fn task(minimum: u64) -> Task {
    Task {
        min_size: minimum,
        ..Task::new(Reveal::ThresholdMatches)
    }
}

fn threshold_job(role: Role, minimum: u64, memory: Option<u64>) -> Job {
    let job = Job {
        protocol: ProtocolRequest::named("circuit-okvs"),
        memory,
        ..job(role)
    };
    job.with(&SECURITY, Security::SemiHonest)
        .with(&REVEAL, Reveal::ThresholdMatches.into())
        .with(&MIN_SIZE, minimum)
}

fn four_buckets(minimum: u64) -> Option<u64> {
    Some(memory_of_buckets(&task(minimum), [1000, 1100], 4))
}

fn run(
    minimum: u64,
    memory: Option<u64>,
    [ours, theirs]: [&mut dyn KeySet; 2],
    channels: (impl Channel, impl Channel),
) -> [Result<Report, Error>; 2] {
    let receiver = threshold_job(Role::Receiver, minimum, memory);
    let sender = threshold_job(Role::Sender, minimum, None);
    let (near, far) = run_both(
        channels,
        |channel| run_set_over(channel, None, None, &receiver, ours, &mut NoProgress),
        |channel| run_set_over(channel, None, None, &sender, theirs, &mut NoProgress),
    );
    [near, far]
}

fn sides() -> [MemorySet; 2] {
    [OURS, THEIRS].map(|items| MemorySet::new(digests(items)).unwrap())
}

#[test]
fn buckets_open_what_one_run_opens() {
    for minimum in [1, IN_COMMON, IN_COMMON + 1] {
        for memory in [None, four_buckets(minimum)] {
            let [mut ours, mut theirs] = sides();
            let sets: [&mut dyn KeySet; 2] = [&mut ours, &mut theirs];
            let [near, far] = run(minimum, memory, sets, silent_pair(20_000)).map(Result::unwrap);
            assert_eq!(near.contract.buckets >= 4, memory.is_some());
            let is_met = minimum <= IN_COMMON;
            assert_eq!(near.matches, is_met.then_some(IN_COMMON));
            assert_eq!(near.below, (!is_met).then_some(minimum));
            let expected = OURS.map(|item| is_met && THEIRS.contains(&item));
            assert!(ours.matched().unwrap().iter().copied().eq(expected));
            assert_eq!((far.matches, far.below), (None, None));
            assert_eq!(theirs.matched(), None);
        }
    }
}

/// Whether enough match makes no difference to the bytes of either side, in any phase.
#[test]
fn what_passes_does_not_tell_whether_the_minimum_is_met() {
    let passed = |minimum| {
        let memory = four_buckets(IN_COMMON);
        let [mut ours, mut theirs] = sides();
        let (near, far) = silent_pair(20_000);
        let mut near = Recorder::new(near);
        let sets: [&mut dyn KeySet; 2] = [&mut ours, &mut theirs];
        let reports = run(minimum, memory, sets, (&mut near, far)).map(Result::unwrap);
        let frames = [near.sent, near.received];
        let frames = frames.map(|frames| {
            let lengths = frames.iter().map(|(kind, frame)| (kind.code, frame.len()));
            lengths.collect::<Vec<_>>()
        });
        let phases = reports.map(|report| {
            let phases = report.phases.into_iter();
            let bytes = phases.map(|of| (of.phase, of.bytes_sent, of.bytes_received));
            bytes.collect::<Vec<_>>()
        });
        assert!(phases[0].iter().any(|(phase, ..)| *phase == "opening"));
        (frames, phases)
    };
    assert_eq!(passed(IN_COMMON), passed(IN_COMMON + 1));
}

/// A set that gives its shares away.
struct Forgets(MemorySet);

impl KeySet for Forgets {
    fn items(&self) -> u64 {
        self.0.items()
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.0.assign(assignment, state)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        self.0.load(bucket)
    }

    fn finished(&mut self, output: Output, _: &State) -> Result<(), WireError> {
        assert!(matches!(output, Output::Shares(_)));
        Ok(())
    }
}

#[test]
fn a_set_without_its_shares_opens_nothing() {
    let [ours, mut theirs] = sides();
    let mut ours = Forgets(ours);
    let sets: [&mut dyn KeySet; 2] = [&mut ours, &mut theirs];
    let [near, far] = run(1, four_buckets(1), sets, silent_pair(20_000));
    assert_eq!(limit(near), Limit::Input);
    let told = matches!(far, Err(Error::Run(WireError::PeerAborted { .. })));
    assert!(told, "{far:?}");
}

/// A set that keeps how far it came, and may take all cells for matches.
struct Changed {
    set: MemorySet,
    checkpoint: Checkpoint,
    all_match: bool,
}

impl KeySet for Changed {
    fn items(&self) -> u64 {
        self.set.items()
    }

    fn checkpoint(&self) -> Checkpoint {
        self.checkpoint.clone()
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.set.assign(assignment, state)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        self.set.load(bucket)
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        self.checkpoint = Checkpoint::State(Box::new(state.clone()));
        self.set.finished(output, state)
    }

    fn shares_of(&mut self, bucket: u32) -> Result<Zeroizing<Vec<bool>>, WireError> {
        self.set.shares_of(bucket)
    }

    fn opened(&mut self, bucket: u32, matches: &[bool]) -> Result<u64, WireError> {
        match self.all_match {
            true => self.set.opened(bucket, &vec![true; matches.len()]),
            false => self.set.opened(bucket, matches),
        }
    }

    fn all_opened(&mut self) -> Result<(), WireError> {
        self.set.all_opened()?;
        self.set.shares_of(0).unwrap_err();
        Ok(())
    }
}

/// Whatever its sets have kept: the shares of an earlier run are opened in no other.
#[test]
fn no_run_goes_on() {
    let begin = |channel: &mut dyn Channel, job: &Job, set: &Changed| {
        let kept = set.checkpoint();
        let agreed = agree(channel, job, set.items(), &kept, None, None);
        agreed.unwrap().begin
    };
    let mut sets = sides().map(|set| Changed {
        set,
        checkpoint: Checkpoint::Nothing,
        all_match: false,
    });
    for begins in [Begin::Afresh, Begin::Over(StartOver::OpensTogether)] {
        let [ours, theirs] = &mut sets;
        let jobs = [Role::Receiver, Role::Sender]
            .map(|role| threshold_job(role, IN_COMMON, four_buckets(IN_COMMON)));
        let (began, _) = run_both(
            silent_pair(20_000),
            |channel| begin(channel, &jobs[0], ours),
            |channel| begin(channel, &jobs[1], theirs),
        );
        assert_eq!(began, begins);
        let [ours, theirs] = &mut sets;
        let both: [&mut dyn KeySet; 2] = [ours, theirs];
        let [near, _] = run(
            IN_COMMON,
            four_buckets(IN_COMMON),
            both,
            silent_pair(20_000),
        );
        assert_eq!(near.unwrap().matches, Some(IN_COMMON));
    }
}

/// The peer is not told: it would learn whether the minimum is met.
#[test]
fn bits_that_were_changed_are_no_matches() {
    // All items of the receiver are fewer than the minimum, or more than the sender has.
    for (minimum, items) in [(1001, 1100), (1, 100)] {
        let mut ours = Changed {
            set: MemorySet::new(digests(OURS)).unwrap(),
            checkpoint: Checkpoint::Nothing,
            all_match: true,
        };
        let mut theirs = MemorySet::new(digests(THEIRS.start..THEIRS.start + items)).unwrap();
        let memory = Some(memory_of_buckets(&task(minimum), [1000, items], 4));
        let sets: [&mut dyn KeySet; 2] = [&mut ours, &mut theirs];
        let [near, far] = run(minimum, memory, sets, silent_pair(20_000));
        let wrong = bad_value("matches above a threshold", "a number that cannot be");
        match near {
            Err(Error::Run(error)) => assert_eq!(misbehaviour::<()>(Err(error)), wrong),
            other => panic!("{other:?}"),
        }
        far.unwrap();
    }
}

/// Tasks leave nothing that drivers could open.
#[test]
fn no_bucket_of_it_runs_alone() {
    let agreed = |channel: &mut dyn Channel, role, items| {
        let job = threshold_job(role, 1, four_buckets(1));
        agree(channel, &job, items, &Checkpoint::Nothing, None, None).unwrap()
    };
    let (near, _) = run_both(
        silent_pair(20_000),
        |channel| agreed(channel, Role::Receiver, 1000),
        |channel| agreed(channel, Role::Sender, 1100),
    );
    assert!(near.contract.buckets >= 4);
    let first = Attempt {
        bucket: 0,
        number: 0,
    };
    let (mut channel, _) = silent_pair(20_000);
    let keys = digests(0..10).into();
    let refused = run_bucket(&mut channel, Role::Receiver, &near, first, [None; 2], keys);
    match refused.map(drop) {
        Err(Error::Usage(line)) => {
            assert_eq!(
                line,
                "the threshold-matches is found in a run over all buckets"
            );
        }
        other => panic!("{other:?}"),
    }
}
