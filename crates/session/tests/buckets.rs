//! Jobs in several buckets, jobs from which both sides learn, and jobs that go on after others.

mod common;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use common::{digests, job};
use vesica_session::{
    Assignment, Error, Job, KeySet, Learns, Outcome, Progress, Protocol, ProtocolRequest, Report,
    Role, Security, Silent, State, run_over, run_set_over,
};
use vesica_wire::{
    Channel, ChannelOptions, Error as WireError, FramedChannel, Spoil, Tamper, memory_pair_with,
};

/// Cuts sets of a thousand items into eight buckets.
const MEMORY: u64 = 70_000;

fn pair() -> (FramedChannel, FramedChannel) {
    let options = ChannelOptions {
        timeout: Duration::from_secs(20),
        ..ChannelOptions::default()
    };
    memory_pair_with(options.clone(), options)
}

fn dh(role: Role, memory: Option<u64>, learns: Learns) -> Job {
    Job {
        protocol: ProtocolRequest::Named(Protocol::Dh),
        security: Security::SemiHonest,
        memory,
        learns,
        ..job(role)
    }
}

#[test]
fn buckets_find_what_one_run_finds() {
    let (ours, theirs) = (digests(0..1000), digests((600..1700).rev()));
    for (near, far) in [(Some(MEMORY), None), (None, Some(MEMORY)), (None, None)] {
        for learns in [Learns::Receiver, Learns::Both] {
            let (mut a, mut b) = pair();
            let (received, sent): (Outcome, Outcome) = thread::scope(|scope| {
                let receiving = scope.spawn(|| {
                    let job = dh(Role::Receiver, near, learns);
                    run_over(&mut a, None, None, &job, &ours, &mut Silent).unwrap()
                });
                let job = dh(Role::Sender, far, learns);
                let sent = run_over(&mut b, None, None, &job, &theirs, &mut Silent).unwrap();
                (receiving.join().unwrap(), sent)
            });
            let limited = near.is_some() || far.is_some();
            assert_eq!(received.report.contract, sent.report.contract);
            assert_eq!(
                received.report.contract.buckets,
                if limited { 8 } else { 1 }
            );
            assert_eq!(received.matches, Some((600..1000).collect()));
            assert_eq!(received.report.matches, Some(400));
            // Their digests are in descending order: 999 is at 700.
            let theirs = (learns == Learns::Both).then(|| (700..1100).collect());
            assert_eq!(sent.matches, theirs);
            assert_eq!(
                sent.report.matches,
                theirs.map(|m: Vec<u32>| m.len() as u64)
            );
        }
    }
}

/// A set that keeps how far it came.
struct Kept {
    digests: Vec<[u8; 32]>,
    buckets: Vec<Vec<usize>>,
    current: usize,
    matched: BTreeSet<usize>,
    state: Option<State>,
    loaded: Vec<u32>,
}

impl Kept {
    fn new(numbers: std::ops::Range<u64>) -> Kept {
        Kept {
            digests: digests(numbers),
            buckets: Vec::new(),
            current: 0,
            matched: BTreeSet::new(),
            state: None,
            loaded: Vec::new(),
        }
    }
}

impl KeySet for Kept {
    fn items(&self) -> u64 {
        self.digests.len() as u64
    }

    fn state(&self) -> Option<State> {
        self.state.clone()
    }

    fn assign(&mut self, assignment: &Assignment) -> Result<(), WireError> {
        self.buckets = vec![Vec::new(); assignment.buckets() as usize];
        for (i, digest) in self.digests.iter().enumerate() {
            self.buckets[assignment.bucket(digest) as usize].push(i);
        }
        self.loaded.clear();
        Ok(())
    }

    fn load(&mut self, bucket: u32) -> Result<Cow<'_, [[u8; 32]]>, WireError> {
        self.current = bucket as usize;
        self.loaded.push(bucket);
        let items = &self.buckets[self.current];
        self.matched.retain(|i| !items.contains(i));
        Ok(items.iter().map(|i| self.digests[*i]).collect())
    }

    fn finished(&mut self, matches: Option<&[u32]>, state: &State) -> Result<(), WireError> {
        for index in matches.unwrap_or_default() {
            self.matched
                .insert(self.buckets[self.current][*index as usize]);
        }
        self.state = Some(state.clone());
        Ok(())
    }
}

/// Hears which buckets are worked on.
struct Numbers(Vec<u32>);

impl Progress for Numbers {
    fn phase(&mut self, _: &'static str) {}

    fn bucket(&mut self, number: u32, of: u32) {
        assert_eq!(of, 8);
        self.0.push(number);
    }
}

fn both(
    mut a: impl Channel,
    mut b: impl Channel,
    ours: &mut Kept,
    theirs: &mut Kept,
) -> (Result<Report, Error>, Result<Report, Error>, Vec<u32>) {
    let mut numbers = Numbers(Vec::new());
    let (near, far) = thread::scope(|scope| {
        let near = scope.spawn(|| {
            let job = dh(Role::Receiver, Some(MEMORY), Learns::Receiver);
            let ended = run_set_over(&mut a, None, None, &job, ours, &mut numbers);
            drop(a);
            ended
        });
        let job = dh(Role::Sender, None, Learns::Receiver);
        let far = run_set_over(&mut b, None, None, &job, theirs, &mut Silent);
        drop(b);
        (near.join().unwrap(), far)
    });
    (near, far, numbers.0)
}

/// Two sets, of whose buckets some are done.
fn half_way() -> (Kept, Kept) {
    let (mut ours, mut theirs) = (Kept::new(0..1000), Kept::new(600..1700));
    let (a, b) = pair();
    // Hello, nonce, state, and two or three frames a bucket.
    let (near, far, _) = both(Tamper::new(a, 9, Spoil::Close), b, &mut ours, &mut theirs);
    assert!(near.is_err() && far.is_err());
    for kept in [&ours, &theirs] {
        let done = kept.state.as_ref().map_or(0, |s| s.found.len());
        assert!((1..8).contains(&done), "{done}");
    }
    (ours, theirs)
}

#[test]
fn a_run_goes_on_after_the_buckets_that_both_have_finished() {
    let (mut ours, mut theirs) = half_way();
    let done = |kept: &Kept| kept.state.as_ref().unwrap().found.len() as u32;
    let common = done(&ours).min(done(&theirs));
    let origin = ours.state.as_ref().unwrap().origin;
    let (a, b) = pair();
    let (near, far, numbers) = both(a, b, &mut ours, &mut theirs);
    let (near, _) = (near.unwrap(), far.unwrap());
    assert_eq!(numbers, (common + 1..=8).collect::<Vec<_>>());
    assert_eq!(ours.loaded, (common..8).collect::<Vec<_>>());
    assert_eq!(theirs.loaded, ours.loaded);
    assert_eq!(near.matches, Some(400));
    assert!(ours.matched.iter().copied().eq(600..1000));
    assert!(theirs.matched.is_empty());
    assert_eq!(ours.state.unwrap().origin, origin);
}

#[test]
fn sides_that_do_not_know_of_one_run_start_over() {
    type Change = fn(&mut Kept);
    let changes: [Change; 3] = [
        |kept| kept.state = None,
        |kept| kept.state.as_mut().unwrap().origin[0] ^= 1,
        |kept| kept.state.as_mut().unwrap().contract[0] ^= 1,
    ];
    for change in changes {
        for side in [0, 1] {
            let mut sets = <[Kept; 2]>::from(half_way());
            change(&mut sets[side]);
            let [mut ours, mut theirs] = sets;
            let (a, b) = pair();
            let (near, far, numbers) = both(a, b, &mut ours, &mut theirs);
            assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
            assert_eq!(
                (near.unwrap().matches, far.unwrap().matches),
                (Some(400), None)
            );
            assert!(ours.matched.iter().copied().eq(600..1000));
        }
    }
}

#[test]
fn a_spoilt_state_ends_both_sides() {
    // Frame 2 of each side, after its hello and its nonce.
    for spoil in [
        Spoil::Truncate(1),
        Spoil::Extend(vec![0]),
        Spoil::Replace(vec![0xff; 36]),
        Spoil::Kind(99),
        Spoil::Close,
    ] {
        let (mut ours, mut theirs) = (Kept::new(0..1000), Kept::new(600..1700));
        let (a, b) = pair();
        let (near, far, _) = both(Tamper::new(a, 2, spoil.clone()), b, &mut ours, &mut theirs);
        for error in [near.unwrap_err(), far.unwrap_err()] {
            assert!((4..=5).contains(&error.exit_code()), "{spoil:?} {error:?}");
        }
        assert!(ours.state.is_none() && theirs.state.is_none());
    }
}

#[test]
fn a_side_without_enough_memory_says_so() {
    let (a, b) = pair();
    let (ours, theirs) = (digests(0..1000), digests(0..1000));
    let run = |mut channel: FramedChannel, role, memory, digests: &[[u8; 32]]| {
        let job = dh(role, memory, Learns::Receiver);
        run_over(&mut channel, None, None, &job, digests, &mut Silent).unwrap_err()
    };
    thread::scope(|scope| {
        let near = scope.spawn(|| run(a, Role::Receiver, Some(1000), &ours));
        let far = run(b, Role::Sender, None, &theirs);
        assert_eq!((near.join().unwrap().exit_code(), far.exit_code()), (7, 7));
    });
}
