//! Numbers with noise: what is told, how often, and what a side says of its set.

use vesica_session::{NoiseRequest, StartOver};
use vesica_wire::{Limit, Misbehaviour};

use super::*;
use crate::common::limit;

fn noise(epsilon: &str) -> Option<NoiseRequest> {
    Some(NoiseRequest {
        epsilon: epsilon.parse().unwrap(),
        split: Vec::new(),
    })
}

/// A run of both sides with these changes of their jobs.
fn noisy_run(
    question: &Question,
    memory: Option<u64>,
    change: impl Fn(&mut Job),
) -> [Result<Report, Error>; 2] {
    noisy_run_over(silent_pair(20_000), question, memory, change)
}

fn noisy_run_over(
    channels: (impl Channel, impl Channel),
    question: &Question,
    memory: Option<u64>,
    change: impl Fn(&mut Job),
) -> [Result<Report, Error>; 2] {
    let [mut ours, mut theirs] = sides(question);
    let jobs = [Role::Receiver, Role::Sender].map(|role| {
        let mut job = question.job(role, memory);
        change(&mut job);
        job
    });
    let (near, far) = run_both(
        channels,
        |channel| run_set_over(channel, None, None, &jobs[0], &mut ours, &mut NoProgress),
        |channel| run_set_over(channel, None, None, &jobs[1], &mut theirs, &mut NoProgress),
    );
    [near, far]
}

/// The words of some noise, as numbers.
fn words(noise: &Noise) -> Vec<i128> {
    let bytes = noise.encode();
    let words = bytes.as_chunks::<8>().0.iter();
    words.map(|word| i64::from_le_bytes(*word).into()).collect()
}

/// The noise of both sides is in the total once, however many buckets there are, and however often it is opened.
#[test]
fn every_opening_of_the_same_shares_tells_the_same_noisy_numbers() {
    for question in [QUESTIONS[0], QUESTIONS[3], QUESTIONS[8]] {
        let question = Question {
            learns: Learns::Both,
            minimum: 0,
            ..question
        };
        let agreements = agreed_with(&question, 2, |job| job.noise = noise("0.01"));
        let both = agreements.each_ref();
        let contract = &both[0].contract;
        assert!(contract.buckets >= 2);
        let [ours, theirs] = attempts(&question, both, 0);
        let choice = choice(both[0], 0);
        let rng = &mut vesica_testing::rng(question.reveals.len() as u64);
        let drawn = [Role::Receiver, Role::Sender]
            .map(|role| Noise::draw_vartime(contract, role, rng).unwrap());
        let [ours_drawn, theirs_drawn] = drawn.each_ref().map(words);
        assert_ne!(ours_drawn, theirs_drawn);
        let exact = question.plain().unwrap().into_iter();
        let noisy = exact.zip(ours_drawn).zip(theirs_drawn);
        let expected = Output::Values(
            noisy
                .map(|((value, one), other)| value + one + other)
                .collect(),
        );
        for _ in 0..3 {
            let chosen = [(&choice, &ours[..]), (&choice, &theirs[..])];
            for told in open_with(both, chosen, drawn.each_ref()) {
                assert_eq!(told.unwrap(), expected, "{:?}", question.reveals);
            }
        }
    }
}

/// What is compared with a minimum is the noisy count of each number.
#[test]
fn a_minimum_is_compared_with_noisy_counts() {
    let question = Question {
        minimum: 300,
        ..QUESTIONS[5]
    };
    let agreements = agreed_with(&question, 2, |job| job.noise = noise("0.5"));
    let both = agreements.each_ref();
    let contract = &both[0].contract;
    let names: Vec<&str> = contract
        .sender_noise
        .iter()
        .flat_map(|terms| &terms.charges)
        .map(|charge| charge.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["size", "sum-1", "sum-1-count", "sum-2", "sum-2-count"]
    );
    let [ours, theirs] = attempts(&question, both, 0);
    let choice = choice(both[0], 0);
    // 320 of the 400 that match have another value than 0.
    for (counts, is_told) in [
        ([0, 0], true),
        ([-20, 500], true),
        ([-21, 500], false),
        ([0, -21], false),
    ] {
        let of = |words: [i64; 5], role| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Noise::decode(&bytes, contract, role).unwrap()
        };
        let one = of([7, -1, counts[0], 3, counts[1] - 10], Role::Receiver);
        let other = of([-500, 0, 0, 0, 10], Role::Sender);
        let chosen = [(&choice, &ours[..]), (&choice, &theirs[..])];
        let [told, _] = open_with(both, chosen, [&one, &other]);
        let exact = question.plain().unwrap();
        let expected = match is_told {
            true => Output::Values(vec![exact[0] - 493, exact[1] - 1, exact[2] + 3]),
            false => Output::Below(300),
        };
        assert_eq!(told.unwrap(), expected, "{counts:?}");
    }
}

/// A noisy size says nothing of a noisy sum beside it: whatever is told is taken.
#[test]
fn honest_noisy_numbers_are_never_refused() {
    let mut differing = 0;
    for (minimum, epsilon) in [(0, "0.02"), (0, "0.5"), (1, "0.3"), (390, "0.1")] {
        for _ in 0..8 {
            let question = Question {
                learns: Learns::Both,
                minimum,
                ..QUESTIONS[5]
            };
            let [near, far] =
                noisy_run(&question, None, |job| job.noise = noise(epsilon)).map(Result::unwrap);
            assert_eq!((told(&near), near.below), (told(&far), far.below));
            let size = told(&near).map(|numbers| numbers[0]);
            differing += usize::from(size.is_some_and(|size| size != 400));
            assert!(near.noise.is_some() && near.noise == far.noise);
        }
    }
    // Noise of 0 has a probability of 0.17 at most.
    assert!(differing >= 4, "{differing}");
}

/// A run draws anew, also where it has buckets.
#[test]
fn two_runs_tell_two_noisy_numbers() {
    let question = QUESTIONS[3];
    let memory = Some(question.memory(2));
    let run = || {
        let reports = noisy_run(&question, memory, |job| job.noise = noise("0.001"));
        let [near, _] = reports.map(Result::unwrap);
        assert!(near.contract.buckets >= 2);
        told(&near).unwrap()
    };
    assert_ne!(run(), run());
}

/// But for what the hellos say of it, where no ring is larger.
#[test]
fn noise_takes_no_bytes() {
    for question in [QUESTIONS[0], QUESTIONS[5], QUESTIONS[7]] {
        let question = Question {
            learns: Learns::Both,
            ..question
        };
        let sent = |noise: Option<NoiseRequest>| {
            let reports = noisy_run(&question, None, |job| job.noise.clone_from(&noise));
            reports.map(|report| {
                let phases = report.unwrap().phases;
                let phases = phases
                    .into_iter()
                    .filter(|phase| phase.phase != "contract" && phase.bytes_sent > 0);
                phases
                    .map(|phase| (phase.phase, phase.bytes_sent))
                    .collect::<Vec<_>>()
            })
        };
        let [plain, noisy] = [sent(None), sent(noise("20"))];
        assert!(plain[0].len() >= 4 && plain == noisy, "{plain:?} {noisy:?}");
    }
}

/// Both have kept all buckets of an earlier run, and go on after none.
#[test]
fn a_run_with_noise_starts_over() {
    let question = QUESTIONS[3];
    let memory = Some(question.memory(2));
    let [mut ours, mut theirs] = sides(&question);
    let mut run = || {
        let jobs = [Role::Receiver, Role::Sender].map(|role| {
            let mut job = question.job(role, memory);
            job.noise = noise("0.001");
            job
        });
        let mut heard = Heard::default();
        let (near, far) = run_both(
            silent_pair(20_000),
            |channel| run_set_over(channel, None, None, &jobs[0], &mut ours, &mut heard),
            |channel| run_set_over(channel, None, None, &jobs[1], &mut theirs, &mut NoProgress),
        );
        assert!(far.is_ok());
        (heard.0.unwrap(), told(&near.unwrap()).unwrap())
    };
    let ((first, one), (second, other)) = (run(), run());
    assert_eq!(
        [first, second],
        [Begin::Afresh, Begin::Over(StartOver::Noise)]
    );
    assert_ne!(one, other);
}

/// The peer hears the number to which a side pads, and the side's report says how many keys it has.
#[test]
fn a_padded_set_is_as_large_as_it_says() {
    for question in [QUESTIONS[0], QUESTIONS[5]] {
        let question = Question {
            minimum: 0,
            ..question
        };
        for memory in [None, Some(question.memory(2))] {
            let reports = noisy_run(&question, memory, |job| {
                if job.role == Role::Sender {
                    job.pad_to = Some(1500);
                    job.noise = noise("100");
                }
            });
            let [near, far] = reports.map(Result::unwrap);
            assert_eq!((near.items, near.peer_items), (1000, 1500));
            assert_eq!((far.items, far.peer_items), (1100, 1000));
            assert_eq!(near.contract.sender_size, 1500);
            assert!(
                near.contract
                    .sender_noise
                    .as_ref()
                    .is_some_and(|terms| terms.is_padded)
            );
            // Padding matches nothing. Noise of ε = 33 or more is 0, but for 2^-46.
            assert_eq!(told(&near).unwrap()[0], 400);
        }
    }
    // Without noise as well.
    let [near, far] = noisy_run(&QUESTIONS[0], None, |job| {
        if job.role == Role::Receiver {
            job.pad_to = Some(1001);
        }
    })
    .map(Result::unwrap);
    assert_eq!(
        (told(&near), far.peer_items, near.items),
        (Some(vec![400]), 1001, 1000)
    );
    let [near, far] = noisy_run(&QUESTIONS[0], None, |job| {
        if job.role == Role::Receiver {
            job.pad_to = Some(999);
        }
    });
    let heard = far.unwrap_err().to_string();
    assert!(!heard.contains("999") && !heard.contains("1000"), "{heard}");
    let own = near.as_ref().unwrap_err().to_string();
    assert!(own.contains("1000 keys") && own.contains("999"), "{own}");
    assert_eq!(limit(near), Limit::Size);
}

/// A receiver that says that other numbers have come out than could.
#[test]
fn noisy_numbers_that_there_cannot_be_are_refused() {
    let question = Question {
        learns: Learns::Both,
        minimum: 0,
        ..QUESTIONS[5]
    };
    let change = |job: &mut Job| job.noise = noise("1");
    let (near, far) = silent_pair(20_000);
    let mut near = Recorder::new(near);
    let honest = noisy_run_over((&mut near, far), &question, None, change);
    assert!(honest.iter().all(Result::is_ok));
    let mut sent = near.sent.iter();
    let place = sent.position(|(kind, _)| kind.name == "outcome").unwrap();
    // The highest byte of the size, and of a sum.
    for byte in [7, 15] {
        let (near, far) = silent_pair(20_000);
        let near = Tamper::new(near, place, Spoil::FlipBit(8 * byte));
        let [_, heard] = noisy_run_over((near, far), &question, None, change);
        let Err(Error::Run(WireError::PeerMisbehaved(Misbehaviour::BadValue { what, .. }))) = heard
        else {
            panic!("{heard:?}");
        };
        assert_eq!(what, "outcome");
    }
}

/// Each refusal that needs no peer.
#[test]
fn noise_and_padding_are_for_numbers() {
    let check = |reveal: Reveal, minimum, change: fn(&mut Job)| {
        let job = job(Role::Receiver).with(&SECURITY, Security::SemiHonest);
        let mut job = job.with(&REVEAL, reveal.into()).with(&MIN_SIZE, minimum);
        change(&mut job);
        job.check().map_err(|error| error.to_string())
    };
    let with_noise: fn(&mut Job) = |job| job.noise = noise("1");
    let padded: fn(&mut Job) = |job| job.pad_to = Some(5000);
    for change in [with_noise, padded] {
        assert_eq!(check(Reveal::Size, 0, change), Ok(()));
        for (reveal, minimum) in [
            (Reveal::Matches, 0),
            (Reveal::Shares, 0),
            (Reveal::ThresholdMatches, 3),
        ] {
            assert_eq!(check(reveal, minimum, |_| ()), Ok(()));
            let refused = check(reveal, minimum, change).unwrap_err();
            assert!(refused.contains(reveal.name()), "{refused}");
        }
    }
    let twice: fn(&mut Job) = |job| {
        let split = vec![("size".into(), 1); 2];
        job.noise = noise("1").map(|of| NoiseRequest { split, ..of });
    };
    let refused = check(Reveal::Size, 0, twice).unwrap_err();
    assert!(refused.contains("named twice"), "{refused}");
}
