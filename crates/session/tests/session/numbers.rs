//! Numbers of runs in several buckets: added up as shares, opened once, and kept by a run that goes on.

use std::borrow::Cow;
use std::ops::Range;

use crate::common::{job, memory_of_buckets, silent_pair};
use vesica_psi::{Output, Reveals, Task, Values};
use vesica_session::terms::{BUCKET_ATTEMPTS, LEARNS, MIN_SIZE, REVEAL, SECURITY};
use vesica_session::{
    Agreement, Assignment, Attempt, Begin, BucketShares, Checkpoint, Choice, Error, Job, KeyBlock,
    KeySet, Learns, MemorySet, NoChoice, NoProgress, Opened, Progress, ProtocolRequest,
    RepeatedKeys, Report, Reveal, Role, Security, StartOver, State, Tally, ValueTerms, agree,
    exchange_openings, open_total, run_bucket, run_set_over,
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
    checkpoint: Option<String>,
}

impl Kept {
    fn new(items: Range<u64>, columns: usize) -> Kept {
        let value = |item: u64| (0..columns).map(move |column| value(item, column));
        Kept {
            digests: digests(items.clone()),
            values: items.flat_map(value).collect(),
            set: MemorySet::new(Vec::new()).unwrap(),
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
        let mut keys = KeyBlock::from(self.digests.clone());
        keys.values = (!self.values.is_empty()).then(|| Cow::from(self.values.clone()));
        self.set = MemorySet::new(keys).unwrap();
        self.set.assign(assignment, state)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
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

/// What both drivers agree on, for tasks of so many buckets or more.
fn agreed(question: &Question, buckets: u32) -> [Agreement; 2] {
    let memory = Some(question.memory(buckets));
    let sides = [(Role::Receiver, 1000), (Role::Sender, 1100)];
    let agree = |channel: &mut dyn Channel, (role, items): (Role, u64)| {
        let job = question.job(role, memory).with(&BUCKET_ATTEMPTS, 3);
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
        let Output::Carried(shares) = attempted.output else {
            panic!("{:?}", attempted.output);
        };
        BucketShares {
            attempt: attempted.name,
            shares,
        }
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

/// Both drivers open their choice.
fn open(agreements: [&Agreement; 2], chosen: [(&Choice, &[BucketShares]); 2]) -> [Total; 2] {
    let open = |channel: &mut dyn Channel, role, agreement, chosen| {
        open_total(channel, role, agreement, [None; 2], chosen, || Ok(()))
    };
    let (near, far) = run_both(
        silent_pair(20_000),
        |channel| open(channel, Role::Receiver, agreements[0], chosen[0]),
        |channel| open(channel, Role::Sender, agreements[1], chosen[1]),
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
    let (chosen, helped) = ((&choice, &ours[..]), (&choice, &theirs[..]));
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
