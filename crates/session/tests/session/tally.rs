//! Drivers that tell each other of attempts.

use std::thread;
use std::time::Duration;

use crate::buckets::dh;
use vesica_session::terms::BUCKET_ATTEMPTS;
use vesica_session::{
    Agreement, Attempt, Checkpoint, Learns, NoAttempt, Role, Tally, agree, agree_on_job,
};
use vesica_testing::{Recorder, bad_value, misbehaviour, pair_within};
use vesica_wire::{Channel, Error as WireError, Kind};

const TALLY: Kind = Kind {
    code: 39,
    name: "attempts made",
};

/// What two drivers have agreed on: two attempts at each of eight buckets.
fn agreed(learns: Learns) -> [Agreement; 2] {
    let (mut a, mut b) = pair_within(Duration::from_secs(20));
    let job = |role| dh(role, Some(100_000), learns).with(&BUCKET_ATTEMPTS, 2);
    let nothing = &Checkpoint::Nothing;
    thread::scope(|scope| {
        let (near, far) = (job(Role::Receiver), job(Role::Sender));
        let far = scope.spawn(move || agree(&mut b, &far, 1300, nothing, None, None).unwrap());
        let near = agree(&mut a, &near, 1300, nothing, None, None).unwrap();
        [near, far.join().unwrap()]
    })
}

fn tally(agreement: &Agreement, attempts: &[(u32, u32, bool)]) -> Tally {
    let mut tally = Tally::new(&agreement.contract);
    for (bucket, number, has_result) in attempts {
        let attempt = Attempt {
            bucket: *bucket,
            number: *number,
        };
        tally.add(attempt, *has_result);
    }
    tally
}

/// The token of a gateway follows from the value of a job, and salts of items from a session.
#[test]
fn what_is_secret_of_an_agreement_is_not_shown() {
    let [near, _] = agreed(Learns::Receiver);
    let shown = [
        format!("{near:?} {near:#?}"),
        format!("{:?} {:?}", near.params, near.state),
    ]
    .concat();
    let shown: String = shown.split_whitespace().collect();
    for secret in [near.params.session, near.state.origin] {
        let bytes = secret.map(|byte| byte.to_string()).join(",");
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!shown.contains(&bytes) && !shown.contains(&hex), "{shown}");
    }
}

#[test]
fn both_sides_number_the_next_attempts_alike() {
    let all: Vec<_> = (0..8).map(|bucket| (bucket, 0, true)).collect();
    let attempts = |lacking: &[(u32, u32)]| -> Vec<Attempt> {
        let attempt = |(bucket, number): &(u32, u32)| Attempt {
            bucket: *bucket,
            number: *number,
        };
        lacking.iter().map(attempt).collect()
    };
    for (learns, of_sender) in [(Learns::Receiver, [].as_slice()), (Learns::Both, &[(2, 1)])] {
        let [near, far] = agreed(learns);
        let (mut a, mut b) = pair_within(Duration::from_secs(5));
        // Without a result of the sender's at bucket 2, which only counts where it learns something.
        let mut theirs = all.clone();
        theirs[2].2 = false;
        let mine = tally(&near, &all);
        let sides = thread::scope(|scope| {
            let theirs = tally(&far, &theirs);
            let far = scope.spawn(move || theirs.exchange(&mut b, Role::Sender, &far).unwrap());
            let near = mine.exchange(&mut a, Role::Receiver, &near).unwrap();
            assert_eq!(near, far.join().unwrap());
            near
        });
        let next = Tally::next([&sides[0], &sides[1]], &near.contract);
        assert_eq!(next, Ok(attempts(of_sender)));
    }
    // An attempt that one side alone has begun counts on both; after the last there is none.
    let [near, _] = agreed(Learns::Receiver);
    let none = tally(&near, &[]);
    let begun = tally(&near, &[(1, 0, false)]);
    let next = Tally::next([&none, &begun], &near.contract).unwrap();
    assert_eq!(next[..3], attempts(&[(0, 0), (1, 1), (2, 0)]));
    let last = tally(&near, &[(1, 1, false)]);
    let next = Tally::next([&last, &none], &near.contract);
    assert_eq!(next, Err(NoAttempt::NoneLeft(1)));
}

/// A receiver that says that it lacks a result which it has confirmed gets no other answer.
#[test]
fn a_confirmed_attempt_is_the_last_at_its_bucket() {
    let [near, _] = agreed(Learns::Receiver);
    let lacking = tally(&near, &[(1, 0, false)]);
    let mut answered = tally(&near, &[]);
    answered.confirm(Attempt {
        bucket: 1,
        number: 0,
    });
    let next = |sides| Tally::next(sides, &near.contract);
    for sides in [[&lacking, &answered], [&answered, &lacking]] {
        assert_eq!(next(sides), Err(NoAttempt::Confirmed(1)));
    }
    // One that has its result is not held up by it.
    let all: Vec<_> = (0..8).map(|bucket| (bucket, 0, true)).collect();
    assert_eq!(next([&tally(&near, &all), &answered]), Ok(Vec::new()));
}

#[test]
fn tallies_that_cannot_be_are_refused() {
    let [near, far] = agreed(Learns::Receiver);
    let told = {
        let (mut a, b) = pair_within(Duration::from_secs(5));
        let mut b = Recorder::new(b);
        thread::scope(|scope| {
            scope.spawn(|| {
                tally(&near, &[])
                    .exchange(&mut a, Role::Receiver, &near)
                    .unwrap()
            });
            tally(&far, &[])
                .exchange(&mut b, Role::Sender, &far)
                .unwrap();
        });
        b.sent.pop().unwrap().1
    };
    assert_eq!(told.len(), 6 * 8);
    let hears = |message: Vec<u8>| -> WireError {
        let (mut a, mut peer) = pair_within(Duration::from_secs(5));
        peer.send(TALLY, message).unwrap();
        peer.flush().unwrap();
        tally(&near, &[])
            .exchange(&mut a, Role::Receiver, &near)
            .unwrap_err()
    };
    // The third of two attempts; a result and an end of one that never began.
    for (place, value) in [(0, 4), (1, 128), (44, 1), (46, 1)] {
        let mut message = told.clone();
        message[place] = value;
        let expected = bad_value(TALLY.name, "of attempts that there are not");
        assert_eq!(misbehaviour(Err::<(), _>(hears(message))), expected);
    }
    for length in [told.len() - 1, told.len() + 1] {
        let mut message = told.clone();
        message.resize(length, 0);
        assert!(matches!(hears(message), WireError::PeerMisbehaved(_)));
    }
}

#[test]
fn drivers_of_two_jobs_hear_that_they_are() {
    let [one, _] = agreed(Learns::Receiver);
    let [_, other] = agreed(Learns::Receiver);
    let (mut a, mut b) = pair_within(Duration::from_secs(5));
    let differs =
        |told| matches!(told, Err(WireError::ContractDiffers { field, .. }) if field == "job");
    thread::scope(|scope| {
        let far = scope.spawn(|| agree_on_job(&mut b, &other));
        assert!(differs(agree_on_job(&mut a, &one)));
        assert!(differs(far.join().unwrap()));
    });
}
