//! Jobs in several buckets, jobs from which both sides learn, and jobs that go on after others.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::common::job;
use vesica_psi::Output;
use vesica_session::terms::{BUCKET_ATTEMPTS, LAMBDA, LEARNS, SECURITY};
use vesica_session::{
    Agreement, Assignment, Attempt, Begin, Checkpoint, Error, ErrorClass, Job, KeyBlock, KeySet,
    Learns, NoProgress, Outcome, Progress, ProtocolRequest, Report, Role, Security, StartOver,
    State, agree, run_bucket, run_over, run_set_over,
};
use vesica_testing::{Recorder, digests, pair_within, run_both};
use vesica_wire::{
    Channel, Error as WireError, FramedChannel, Kind, Misbehaviour, PhaseTraffic, Spoil, Tamper,
};

/// Cuts sets of a thousand items into eight buckets.
pub(crate) const MEMORY: u64 = 70_000;

fn pair() -> (FramedChannel, FramedChannel) {
    pair_within(Duration::from_secs(20))
}

fn first(bucket: u32) -> Attempt {
    Attempt { bucket, number: 0 }
}

pub(crate) fn dh(role: Role, memory: Option<u64>, learns: Learns) -> Job {
    Job {
        protocol: ProtocolRequest::named("dh"),
        memory,
        ..job(role)
    }
    .with(&SECURITY, Security::SemiHonest)
    .with(&LEARNS, learns)
}

#[test]
fn buckets_find_what_one_run_finds() {
    let (ours, theirs) = (digests(0..1000), digests((600..1700).rev()));
    for (near, far) in [(Some(MEMORY), None), (None, Some(MEMORY)), (None, None)] {
        for learns in [Learns::Receiver, Learns::Both, Learns::Aligned] {
            let (mut a, mut b) = pair();
            let (received, sent): (Outcome, Outcome) = thread::scope(|scope| {
                let receiving = scope.spawn(|| {
                    let job = dh(Role::Receiver, near, learns);
                    run_over(&mut a, None, None, &job, &ours, &mut NoProgress).unwrap()
                });
                let job = dh(Role::Sender, far, learns);
                let sent = run_over(&mut b, None, None, &job, &theirs, &mut NoProgress).unwrap();
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
            let theirs = learns.is_both().then(|| (700..1100).collect());
            assert_eq!(sent.matches, theirs);
            assert_eq!(
                sent.report.matches,
                theirs.map(|m: Vec<u32>| m.len() as u64)
            );
        }
    }
}

/// A receiver that lies to the sender about the matches, or about the hash of them.
struct Liar<C> {
    channel: C,
    lies_about: &'static str,
}

impl<C: Channel> Channel for Liar<C> {
    fn send(&mut self, kind: Kind, mut payload: Vec<u8>) -> Result<(), WireError> {
        if kind.name == self.lies_about {
            match kind.name {
                // A bitmap: all 500 of the sender's items match.
                "matched positions" => payload = [vec![0xff; 62], vec![0x0f]].concat(),
                _ => payload[7] ^= 1,
            }
        }
        self.channel.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        self.channel.recv(kind, max)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.channel.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.channel.begin_phase(name);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        self.channel.abort(why);
    }
}

#[test]
fn a_receiver_cannot_claim_items_that_it_does_not_have_where_matches_are_in_one_order() {
    let (ours, theirs) = (digests(0..1000), digests(600..1100));
    for (learns, lies_about, caught) in [
        (Learns::Both, "matched positions", false),
        (Learns::Aligned, "matched positions", true),
        (Learns::Aligned, "hash of the matches", true),
        (Learns::Aligned, "nothing", false),
    ] {
        let (a, mut b) = pair();
        let mut a = Liar {
            channel: a,
            lies_about,
        };
        let sent = thread::scope(|scope| {
            scope.spawn(|| {
                let job = dh(Role::Receiver, None, learns);
                let _ = run_over(&mut a, None, None, &job, &ours, &mut NoProgress);
            });
            let job = dh(Role::Sender, None, learns);
            run_over(&mut b, None, None, &job, &theirs, &mut NoProgress)
        });
        match caught {
            true => assert_eq!(
                sent.unwrap_err().to_string(),
                "the peer misbehaved: hash of the matches: not that of the matches it told of"
            ),
            false => {
                let found = sent.unwrap().matches.unwrap().len();
                assert_eq!(found, if lies_about == "nothing" { 400 } else { 500 });
            }
        }
    }
}

/// A set that keeps how far it came.
struct Resumable {
    digests: Vec<[u8; 32]>,
    buckets: Vec<Vec<usize>>,
    matched: BTreeSet<usize>,
    checkpoint: Checkpoint,
    memory: Option<u64>,
    loaded: Vec<u32>,
}

impl Resumable {
    fn new(numbers: std::ops::Range<u64>, memory: Option<u64>) -> Resumable {
        Resumable {
            digests: digests(numbers),
            buckets: Vec::new(),
            matched: BTreeSet::new(),
            checkpoint: Checkpoint::Nothing,
            memory,
            loaded: Vec::new(),
        }
    }

    fn state(&self) -> Option<&State> {
        match &self.checkpoint {
            Checkpoint::State(state) => Some(state),
            _ => None,
        }
    }

    fn done(&self) -> u32 {
        self.state().map_or(0, |state| state.found.len() as u32)
    }
}

impl KeySet for Resumable {
    fn items(&self) -> u64 {
        self.digests.len() as u64
    }

    fn checkpoint(&self) -> Checkpoint {
        self.checkpoint.clone()
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.buckets = vec![Vec::new(); assignment.buckets() as usize];
        for (i, digest) in self.digests.iter().enumerate() {
            self.buckets[assignment.bucket(digest) as usize].push(i);
        }
        self.loaded.clear();
        if state.found.is_empty() {
            (self.checkpoint, self.matched) = (Checkpoint::Nothing, BTreeSet::new());
        }
        Ok(())
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        self.loaded.push(bucket);
        let items = &self.buckets[bucket as usize];
        let digests: Vec<_> = items.iter().map(|i| self.digests[*i]).collect();
        Ok(digests.into())
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        let matched = match output {
            Output::Matches(matched) => matched,
            _ => Vec::new(),
        };
        for (item, matched) in self.buckets[state.finished() as usize - 1]
            .iter()
            .zip(matched)
        {
            match matched {
                true => self.matched.insert(*item),
                false => self.matched.remove(item),
            };
        }
        self.checkpoint = Checkpoint::State(Box::new(state.clone()));
        Ok(())
    }
}

/// Hears where a run begins, and which buckets are worked on.
#[derive(Default)]
struct Heard {
    begin: Option<Begin>,
    of: u32,
    numbers: Vec<u32>,
}

impl Progress for Heard {
    fn phase(&mut self, _: &'static str) {}

    fn begin(&mut self, begin: Begin, buckets: u32) {
        (self.begin, self.of) = (Some(begin), buckets);
    }

    fn bucket(&mut self, number: u32, of: u32) {
        assert_eq!(of, self.of);
        self.numbers.push(number);
    }
}

struct Ended {
    near: Result<Report, Error>,
    far: Result<Report, Error>,
    near_heard: Heard,
    far_heard: Heard,
}

fn both(a: impl Channel, b: impl Channel, ours: &mut Resumable, theirs: &mut Resumable) -> Ended {
    let (mut near_heard, mut far_heard) = (Heard::default(), Heard::default());
    let jobs = [(Role::Receiver, ours.memory), (Role::Sender, theirs.memory)];
    let [receiver, sender] = jobs.map(|(role, memory)| dh(role, memory, Learns::Receiver));
    let (near, far) = run_both(
        (a, b),
        |channel| run_set_over(channel, None, None, &receiver, ours, &mut near_heard),
        |channel| run_set_over(channel, None, None, &sender, theirs, &mut far_heard),
    );
    Ended {
        near,
        far,
        near_heard,
        far_heard,
    }
}

/// Two sets, of whose eight buckets some are done.
fn half_way() -> [Resumable; 2] {
    let mut ours = Resumable::new(0..1000, Some(MEMORY));
    let mut theirs = Resumable::new(600..1700, None);
    let (a, b) = pair();
    // The handshake, and two or three frames per bucket.
    let ended = both(Tamper::new(a, 9, Spoil::Close), b, &mut ours, &mut theirs);
    assert!(ended.near.is_err() && ended.far.is_err());
    assert_eq!(ended.near_heard.begin, Some(Begin::Afresh));
    for kept in [&ours, &theirs] {
        assert!((1..8).contains(&kept.done()), "{}", kept.done());
    }
    [ours, theirs]
}

#[test]
fn a_run_goes_on_after_the_buckets_that_both_have_finished() {
    let more = |kept: &mut Resumable| kept.memory = Some(4 * MEMORY);
    let none = |kept: &mut Resumable| kept.memory = None;
    // The number of buckets is that of the earlier run, whatever memory there is now.
    for change in [|_: &mut Resumable| (), more, none] {
        let [mut ours, mut theirs] = half_way();
        change(&mut ours);
        let common = ours.done().min(theirs.done());
        let origin = ours.state().unwrap().origin;
        let (a, b) = pair();
        let ended = both(a, b, &mut ours, &mut theirs);
        let (near, far) = (ended.near.unwrap(), ended.far.unwrap());
        assert_eq!(near.contract, far.contract);
        assert_eq!(
            (near.contract.buckets, near.contract.resumed_after),
            (8, common)
        );
        for heard in [ended.near_heard, ended.far_heard] {
            assert_eq!(heard.begin, Some(Begin::After(common)));
            assert_eq!(heard.numbers, (common + 1..=8).collect::<Vec<_>>());
        }
        assert_eq!(ours.loaded, (common..8).collect::<Vec<_>>());
        assert_eq!(theirs.loaded, ours.loaded);
        assert_eq!(near.matches, Some(400));
        assert!(ours.matched.iter().copied().eq(600..1000));
        assert!(theirs.matched.is_empty());
        assert_eq!(ours.state().unwrap().origin, origin);
        assert!(ours.state().unwrap().is_complete());
    }
}

/// Meets the run over a bucket while the next one is loaded.
struct Meets {
    set: Resumable,
    loading: Sender<()>,
    running: Receiver<()>,
    finished: Vec<u32>,
}

/// Meets the loading of the next bucket while one runs.
struct Runs {
    running: Sender<()>,
    loading: Receiver<()>,
    has_next: bool,
}

/// Longest time that a thread waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);

impl KeySet for Meets {
    fn items(&self) -> u64 {
        self.set.items()
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.set.assign(assignment, state)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        if bucket > 0 {
            // All but the one that runs are recorded, in order.
            assert_eq!(self.finished, (1..bucket).collect::<Vec<_>>());
            self.loading.send(()).unwrap();
            self.running.recv_timeout(PATIENCE).unwrap();
        }
        self.set.load(bucket)
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        self.finished.push(state.finished());
        self.set.finished(output, state)
    }
}

impl Progress for Runs {
    fn bucket(&mut self, number: u32, of: u32) {
        self.has_next = number < of;
    }

    fn phase(&mut self, name: &'static str) {
        if name == "items" && std::mem::take(&mut self.has_next) {
            self.running.send(()).unwrap();
            self.loading.recv_timeout(PATIENCE).unwrap();
        }
    }
}

#[test]
fn a_bucket_is_loaded_while_the_one_before_runs() {
    let (ours, mut theirs) = (digests(0..1000), Resumable::new(600..1700, None));
    let [(loading, has_loaded), (running, has_run)] = [channel(), channel()];
    let mut set = Meets {
        set: Resumable::new(0..1000, Some(MEMORY)),
        loading,
        running: has_run,
        finished: Vec::new(),
    };
    let mut runs = Runs {
        running,
        loading: has_loaded,
        has_next: false,
    };
    let (receiver, sender) = (
        dh(Role::Receiver, Some(MEMORY), Learns::Receiver),
        dh(Role::Sender, None, Learns::Receiver),
    );
    let (near, far) = run_both(
        pair(),
        |channel| run_set_over(channel, None, None, &receiver, &mut set, &mut runs),
        |channel| run_set_over(channel, None, None, &sender, &mut theirs, &mut NoProgress),
    );
    far.unwrap();
    assert_eq!(near.unwrap().matches, Some(400));
    assert_eq!(set.finished, (1..=8).collect::<Vec<_>>());
    let matched = set.set.matched.iter().map(|i| set.set.digests[*i]);
    assert!(matched.eq(ours[600..].iter().copied()));
}

/// Changes what one side has kept, or what it can do with it.
type Change = fn(&mut Resumable);

fn state(kept: &mut Resumable) -> &mut State {
    match &mut kept.checkpoint {
        Checkpoint::State(state) => state,
        _ => unreachable!(),
    }
}

#[test]
fn sides_that_cannot_go_on_start_over_and_know_why() {
    use StartOver::{Memory, OtherContract, OtherRun, OwnSet, PeerKeptNothing, PeerSet};
    let afresh = Begin::Afresh;
    let [
        over_nothing,
        over_own,
        over_peer,
        over_run,
        over_contract,
        over_memory,
    ] = [
        PeerKeptNothing,
        OwnSet,
        PeerSet,
        OtherRun,
        OtherContract,
        Memory,
    ]
    .map(Begin::Over);
    let one: [(Change, Begin, Begin); 4] = [
        (
            |kept| kept.checkpoint = Checkpoint::Nothing,
            afresh,
            over_nothing,
        ),
        (
            |kept| kept.checkpoint = Checkpoint::OfAnotherSet,
            over_own,
            over_peer,
        ),
        (|kept| state(kept).origin[0] ^= 1, over_run, over_run),
        (
            |kept| state(kept).contract.terms.set(&LAMBDA, 41),
            over_run,
            over_run,
        ),
    ];
    for (case, (change, own, peer)) in one.into_iter().enumerate() {
        for side in [0, 1] {
            let mut sets = half_way();
            change(&mut sets[side]);
            let [mut ours, mut theirs] = sets;
            let (a, b) = pair();
            let ended = both(a, b, &mut ours, &mut theirs);
            let heard = [&ended.near_heard, &ended.far_heard];
            assert_eq!(heard[side].begin, Some(own), "{case}");
            assert_eq!(heard[1 - side].begin, Some(peer), "{case}");
            let near = ended.near.unwrap();
            assert_eq!(near.contract.resumed_after, 0);
            let buckets = near.contract.buckets;
            assert_eq!(heard[0].numbers, (1..=buckets).collect::<Vec<_>>());
            assert_eq!(heard[1].numbers, heard[0].numbers);
            assert_eq!(
                (near.matches, ended.far.unwrap().matches),
                (Some(400), None)
            );
            assert!(ours.matched.iter().copied().eq(600..1000));
        }
    }
    // Both sides have kept the same run, of another contract than they have now, or in buckets that
    // are too large by now.
    let both_ways: [(Change, Begin); 2] = [
        (|kept| state(kept).contract.sender_size += 1, over_contract),
        (
            |kept| state(kept).contract.sender_bucket = 1 << 20,
            over_memory,
        ),
    ];
    for (change, expected) in both_ways {
        let mut sets = half_way();
        sets.iter_mut().for_each(change);
        let [mut ours, mut theirs] = sets;
        let (a, b) = pair();
        let ended = both(a, b, &mut ours, &mut theirs);
        for heard in [&ended.near_heard, &ended.far_heard] {
            assert_eq!(heard.begin, Some(expected));
        }
        assert_eq!(ended.near.unwrap().matches, Some(400));
    }
}

/// One set in memory all at once leaves nothing behind of what buckets had found.
#[test]
fn what_was_found_in_buckets_does_not_enter_another_run() {
    let [mut ours, _] = half_way();
    assert!(!ours.matched.is_empty());
    let mut theirs = Resumable::new(5000..6100, None);
    ours.memory = None;
    let (a, b) = pair();
    let ended = both(a, b, &mut ours, &mut theirs);
    assert_eq!(ended.near.unwrap().matches, Some(0));
    assert_eq!(ended.near_heard.of, 1);
    assert!(ours.matched.is_empty());
}

#[test]
fn a_peer_that_has_finished_more_buckets_than_there_were_is_refused() {
    let [mut ours, mut theirs] = half_way();
    state(&mut theirs).found = vec![0; 9];
    let (a, b) = pair();
    let ended = both(a, b, &mut ours, &mut theirs);
    let Error::Run(WireError::PeerMisbehaved(why)) = ended.near.unwrap_err() else {
        panic!("the peer misbehaved");
    };
    let expected = Misbehaviour::BadValue {
        what: "earlier run",
        problem: "more buckets than there were",
    };
    assert_eq!(why, expected);
}

#[test]
fn a_side_without_enough_memory_says_so() {
    let (a, b) = pair();
    let (ours, theirs) = (digests(0..1000), digests(0..1000));
    let run = |mut channel: FramedChannel, role, memory, digests: &[[u8; 32]]| {
        let job = dh(role, memory, Learns::Receiver);
        run_over(&mut channel, None, None, &job, digests, &mut NoProgress).unwrap_err()
    };
    thread::scope(|scope| {
        let near = scope.spawn(|| run(a, Role::Receiver, Some(1000), &ours));
        let far = run(b, Role::Sender, None, &theirs);
        assert_eq!(
            (near.join().unwrap().class(), far.class()),
            (ErrorClass::Resource, ErrorClass::Resource)
        );
    });
}

/// Every bucket over a channel of its own, all at once, wherever the agreement is.
#[test]
fn buckets_run_over_channels_of_their_own() {
    let (ours, theirs) = (digests(0..1000), digests((600..1700).rev()));
    let (mut a, mut b) = pair();
    let agreed = |channel: &mut FramedChannel, role, memory, items: &[[u8; 32]]| {
        let job = dh(role, memory, Learns::Both);
        agree(
            channel,
            &job,
            items.len() as u64,
            &Checkpoint::Nothing,
            None,
            None,
        )
        .unwrap()
    };
    let (near, far) = thread::scope(|scope| {
        let near = scope.spawn(|| agreed(&mut a, Role::Receiver, Some(MEMORY), &ours));
        let far = agreed(&mut b, Role::Sender, None, &theirs);
        (near.join().unwrap(), far)
    });
    assert_eq!(near.contract.buckets, 8);
    let run = |bucket: u32,
               role,
               agreement: &Agreement,
               all: &[[u8; 32]],
               channel: &mut FramedChannel| {
        let assignment = agreement.assignment();
        let own: Vec<[u8; 32]> = all
            .iter()
            .filter(|digest| assignment.bucket(digest) == bucket)
            .copied()
            .collect();
        let output = run_bucket(
            channel,
            role,
            agreement,
            first(bucket),
            [None; 2],
            own[..].into(),
        )
        .unwrap()
        .output;
        let Output::Matches(matched) = output else {
            panic!("{output:?}");
        };
        assert_eq!(matched.len(), own.len());
        let matched = own.into_iter().zip(matched).filter(|(_, matched)| *matched);
        matched.map(|(digest, _)| digest).collect::<Vec<_>>()
    };
    let (near, far, ours, theirs) = (&near, &far, &ours, &theirs);
    let found: Vec<(Vec<_>, Vec<_>)> = thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|bucket| {
                let (mut a, mut b) = pair();
                let told = scope.spawn(move || run(bucket, Role::Sender, far, theirs, &mut b));
                let found = scope.spawn(move || run(bucket, Role::Receiver, near, ours, &mut a));
                (found, told)
            })
            .collect();
        runs.into_iter()
            .map(|(found, told)| (found.join().unwrap(), told.join().unwrap()))
            .collect()
    });
    type Digests = Vec<[u8; 32]>;
    let all = |side: fn(&(Digests, Digests)) -> &Digests| {
        found
            .iter()
            .flat_map(side)
            .copied()
            .collect::<BTreeSet<_>>()
    };
    let expected: BTreeSet<_> = digests(600..1000).into_iter().collect();
    assert_eq!(all(|(found, _)| found), expected);
    assert_eq!(all(|(_, told)| told), expected);
}

/// What a job array could do wrong is an error, and not an empty intersection.
#[test]
fn buckets_that_do_not_fit_are_refused() {
    let (ours, theirs) = (digests(0..1000), digests(0..1100));
    let (mut a, mut b) = pair();
    let agreed = |channel: &mut FramedChannel, role, items| {
        let job = dh(role, Some(MEMORY), Learns::Receiver);
        agree(channel, &job, items, &Checkpoint::Nothing, None, None).unwrap()
    };
    let (near, far) = thread::scope(|scope| {
        let near = scope.spawn(|| agreed(&mut a, Role::Receiver, 1000));
        let far = agreed(&mut b, Role::Sender, 1100);
        (near.join().unwrap(), far)
    });
    let of = |agreement: &Agreement, bucket: u32, all: &[[u8; 32]]| {
        let assignment = agreement.assignment();
        let own = all
            .iter()
            .filter(|digest| assignment.bucket(digest) == bucket);
        own.copied().collect::<Vec<_>>()
    };
    let (mut a, mut b) = pair();
    let (own, other) = (of(&near, 2, &ours), of(&far, 3, &theirs));
    let errors = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            run_bucket(
                &mut b,
                Role::Sender,
                &far,
                first(3),
                [None; 2],
                other[..].into(),
            )
        });
        let receiver = run_bucket(
            &mut a,
            Role::Receiver,
            &near,
            first(2),
            [None; 2],
            own[..].into(),
        );
        [receiver.unwrap_err(), sender.join().unwrap().unwrap_err()]
    });
    for error in errors {
        assert_eq!(error.class(), ErrorClass::Contract, "{error}");
    }
    let twice = [&own[..], &own[..1]].concat();
    let second = Attempt {
        number: 1,
        ..first(2)
    };
    for (attempt, digests) in [(first(8), &own), (first(2), &twice), (second, &own)] {
        let error = run_bucket(
            &mut a,
            Role::Receiver,
            &near,
            attempt,
            [None; 2],
            digests[..].into(),
        );
        assert_eq!(error.unwrap_err().class(), ErrorClass::Usage);
    }
}

/// Eight bytes in a row that both of two attempts at one bucket have sent, on either side and anywhere, are those that name
/// the job and the bucket: what is random in one is not in the other, and nothing else is the same.
#[test]
fn two_attempts_share_no_byte_that_depends_on_anything_random() {
    const WINDOW: usize = 8;
    let own = digests(0..700);
    for (name, security) in [
        ("vole", Security::Malicious),
        ("vole", Security::SemiHonest),
        ("kkrt", Security::SemiHonest),
        ("dh", Security::SemiHonest),
    ] {
        let job = |role| {
            let named = Job {
                protocol: ProtocolRequest::named(name),
                ..job(role)
            };
            named.with(&SECURITY, security).with(&BUCKET_ATTEMPTS, 2)
        };
        let (mut a, mut b) = pair();
        let agreed = |channel: &mut FramedChannel, role| {
            agree(channel, &job(role), 700, &Checkpoint::Nothing, None, None).unwrap()
        };
        let (near, far) = thread::scope(|scope| {
            let far = scope.spawn(|| agreed(&mut b, Role::Sender));
            (agreed(&mut a, Role::Receiver), far.join().unwrap())
        });
        let attempts = [0, 1].map(|number| {
            let attempt = Attempt { bucket: 0, number };
            let (mut a, b) = pair();
            let mut b = Recorder::new(b);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let (role, keys) = (Role::Receiver, own[..].into());
                    run_bucket(&mut a, role, &near, attempt, [None; 2], keys).unwrap()
                });
                let (role, keys) = (Role::Sender, own[..].into());
                run_bucket(&mut b, role, &far, attempt, [None; 2], keys).unwrap()
            });
            let frames = b.sent.into_iter().chain(b.received);
            frames
                .flat_map(|(kind, payload)| {
                    let windows = payload.windows(WINDOW);
                    let windows: Vec<_> = windows.map(<[u8]>::to_vec).collect();
                    windows.into_iter().map(move |window| (window, kind.name))
                })
                .collect::<Vec<_>>()
        });
        let [first, second] = attempts;
        let first: BTreeSet<_> = first.into_iter().map(|(window, _)| window).collect();
        let shared = second.iter().filter(|(window, _)| first.contains(window));
        let kinds: Vec<_> = shared.map(|(_, kind)| *kind).collect();
        // 32 bytes of the job's name, and 4 of the bucket's number, from each side.
        assert_eq!(kinds, vec!["bucket"; 2 * (36 - WINDOW + 1)], "{name}");
        assert!(second.len() > 20_000);
    }
}
