//! Runs whose messages go by files.

use std::collections::BTreeSet;
use std::fs;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::support::{Ended, Place};

/// Rows of some ids, with the first line.
fn table(ids: impl IntoIterator<Item = u64>) -> String {
    let rows = ids.into_iter().map(|id| format!("{id},row {id}\n"));
    format!("id,text\n{}", rows.collect::<String>())
}

/// A place with tables of 0 to 300 and 200 to 600.
fn place() -> Place {
    let place = Place::new();
    place.write("receiver.csv", table(0..300));
    place.write("sender.csv", table(200..600));
    place
}

/// The words of a step of a side.
fn words(place: &Place, role: &str, step: &str, more: &str) -> String {
    let peer = match role {
        "receiver" => place.sender,
        _ => place.receiver,
    };
    format!(
        "exchange {step} --role {role} --input {role}.csv --key id --identity {role}.key --peer {peer} \
         --state {role}.state --progress none {more}"
    )
}

fn step(place: &Place, role: &str, step: &str, more: &str) -> Ended {
    place.run(&words(place, role, step, more))
}

#[track_caller]
fn done(place: &Place, role: &str, name: &str, more: &str) {
    step(place, role, name, more).expect_success();
}

/// Three messages of a run that the sender offers, in `m0` to `m2`.
fn until_the_last(place: &Place) {
    done(place, "sender", "offer", "--out m0");
    done(place, "receiver", "start", "--message m0 --out m1");
    done(place, "sender", "answer", "--message m1 --out m2");
}

#[test]
fn three_messages_tell_the_receiver_what_matches() {
    let place = place();
    until_the_last(&place);
    done(
        &place,
        "receiver",
        "finish",
        "--message m2 --output shared.csv",
    );
    assert_eq!(place.read("shared.csv"), table(200..300));
    // Messages and states tell no row to whoever sees them.
    for name in ["m0", "m1", "m2", "receiver.state/run", "sender.state/run"] {
        let bytes = fs::read(place.path(name)).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"row "), "{name}");
    }
}

#[test]
fn either_side_offers_and_both_may_learn() {
    for (first, second) in [("sender", "receiver"), ("receiver", "sender")] {
        for both in ["", "--both"] {
            let place = place();
            done(&place, first, "offer", &format!("{both} --out m0"));
            done(
                &place,
                second,
                "start",
                &format!("{both} --message m0 --out m1"),
            );
            let mut last = 1;
            let (mut own, mut other) = (first, second);
            while own != "receiver" || last < 2 {
                let take = format!("{both} --message m{last} --out m{}", last + 1);
                done(&place, own, "answer", &take);
                last += 1;
                std::mem::swap(&mut own, &mut other);
            }
            let told = if both.is_empty() { "" } else { "--out told" };
            let take = format!("{both} --message m{last} --output receiver.out {told}");
            done(&place, "receiver", "finish", &take);
            assert_eq!(place.read("receiver.out"), table(200..300));
            if !both.is_empty() {
                done(
                    &place,
                    "sender",
                    "finish",
                    "--both --message told --output sender.out",
                );
                assert_eq!(place.read("sender.out"), table(200..300));
            }
        }
    }
}

#[test]
fn a_step_again_is_the_same_and_another_message_is_refused() {
    let place = place();
    done(&place, "sender", "offer", "--out m0");
    done(&place, "sender", "offer", "--out m0.again");
    done(&place, "receiver", "start", "--message m0 --out m1");
    done(
        &place,
        "receiver",
        "start",
        "--message m0.again --out m1.again",
    );
    // Another receiver's state, for the same offer.
    fs::rename(place.path("receiver.state"), place.path("first.state")).unwrap();
    done(&place, "receiver", "start", "--message m0 --out other");
    fs::remove_dir_all(place.path("receiver.state")).unwrap();
    fs::rename(place.path("first.state"), place.path("receiver.state")).unwrap();
    done(&place, "sender", "answer", "--message m1 --out m2");
    done(&place, "sender", "answer", "--message m1 --out m2.again");
    let another = step(&place, "sender", "answer", "--message other --out m3");
    another.expect_failure(3, "another one was taken in its place");
    for number in 0..3 {
        let bytes = [format!("m{number}"), format!("m{number}.again")];
        let [one, again] = bytes.map(|name| fs::read(place.path(&name)).unwrap());
        assert_eq!(one, again, "m{number}");
    }
    for name in ["one.csv", "two.csv"] {
        done(
            &place,
            "receiver",
            "finish",
            &format!("--message m2 --output {name}"),
        );
        assert_eq!(place.read(name), table(200..300));
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_run_goes_on() {
    let place = place();
    until_the_last(&place);
    let sender = |name: &str, more: &str| step(&place, "sender", name, more);
    let receiver = |name: &str, more: &str| step(&place, "receiver", name, more);
    sender("finish", "--message m1").expect_failure(2, "it answers");
    sender("answer", "--message m1 --out sender.state/run").expect_failure(2, "state's directory");
    receiver("answer", "--message m2 --out x").expect_failure(2, "finish the run with it");
    receiver("finish", "--message m1").expect_failure(3, "it is of another sender");
    sender("answer", "--message m0 --out x").expect_failure(3, "it is of another sender");
    receiver("start", "--message m0").expect_failure(2, "--out");
    receiver("offer", "--out x").expect_failure(2, "other options");
    receiver(
        "finish",
        "--message m2 --protocol dh --security semi-honest",
    )
    .expect_failure(2, "other options");
    receiver("finish", "--protocol vole --message m2").expect_failure(2, "compact-dh");
    receiver(
        "answer",
        "--reveal size --security semi-honest --message m2 --out x",
    )
    .expect_failure(2, "size");
    let bytes = fs::read(place.path("m2")).unwrap();
    for (name, bytes) in [
        ("short", bytes[..bytes.len() - 1].to_vec()),
        ("shorter", bytes[..40].to_vec()),
        ("empty", Vec::new()),
        ("longer", [&bytes[..], b"x"].concat()),
        ("other", b"id,text\n1,2\n".to_vec()),
    ] {
        place.write(name, bytes);
        let ended = receiver("finish", &format!("--message {name} --output x.csv"));
        ended.expect_failure(3, "the message cannot be used");
    }
    let mut spoilt = bytes;
    *spoilt.last_mut().unwrap() ^= 1;
    place.write("spoilt", spoilt);
    receiver("finish", "--message spoilt").expect_failure(3, "its signature does not fit");
    receiver("finish", "--message absent").expect_failure(3, "absent");
    // Another table is not the one that was asked about.
    place.write("receiver.csv", table(1..301));
    receiver("finish", "--message m2 --output x.csv").expect_failure(2, "the table or the options");
    place.write("receiver.csv", table((0..300).rev()));
    done(
        &place,
        "receiver",
        "finish",
        "--message m2 --output reversed.csv",
    );
    assert_eq!(place.read("reversed.csv"), table((200..300).rev()));
    place.write("receiver.csv", table(0..300));
    // Another run of the same two.
    fs::rename(place.path("sender.state"), place.path("kept")).unwrap();
    done(&place, "sender", "offer", "--out n0");
    receiver("start", "--message n0 --out x").expect_failure(3, "another one was taken");
    sender("answer", "--message m1 --out x").expect_failure(3, "it is of another run");
    assert!(
        !place.names().contains(&"x".to_owned()) && !place.names().contains(&"x.csv".to_owned())
    );
    // None of this has changed the run.
    done(
        &place,
        "receiver",
        "finish",
        "--message m2 --output shared.csv",
    );
    assert_eq!(place.read("shared.csv"), table(200..300));
    let nothing = Place::new();
    nothing.write("sender.csv", table(0..9));
    nothing.write("m", "vesicax1");
    let ended = step(&nothing, "sender", "answer", "--message m --out x");
    ended.expect_failure(2, "has no run by courier");
    assert!(!nothing.names().contains(&"sender.state".to_owned()));
}

#[test]
fn sides_that_want_different_runs_hear_of_it_before_any_item_leaves() {
    let place = place();
    done(&place, "sender", "offer", "--out m0");
    let ended = step(
        &place,
        "receiver",
        "start",
        "--normalize id=integer --message m0 --out m1",
    );
    ended.expect_failure(6, "normalization");
    let ended = step(
        &place,
        "receiver",
        "start",
        "--max-peer-items 399 --message m0 --out m1",
    );
    ended.expect_failure(7, "399");
    assert!(!place.names().contains(&"m1".to_owned()));
    // The same offer, with options that fit.
    done(&place, "receiver", "start", "--message m0 --out m1");
}

/// Random runs, with steps repeated, lost, swapped and replayed: `VESICA_COURIER_RUNS` of them.
#[test]
fn random_runs_by_courier_find_what_matches() {
    let runs = std::env::var("VESICA_COURIER_RUNS").map_or(4, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |most: u64| rng.next_u64() % most;
        let place = Place::new();
        let mut ids = || -> BTreeSet<u64> {
            let count = 1 + below(200);
            (0..count).map(|_| below(300)).collect()
        };
        let [ours, theirs] = [ids(), ids()];
        place.write("receiver.csv", table(ours.iter().copied()));
        place.write("sender.csv", table(theirs.iter().copied()));
        let protocol = ["", "--protocol dh --security semi-honest"][below(2) as usize];
        for (number, (role, name)) in [
            ("sender", "offer"),
            ("receiver", "start"),
            ("sender", "answer"),
        ]
        .into_iter()
        .enumerate()
        {
            let take = match number {
                0 => String::new(),
                number => format!("--message m{}", number - 1),
            };
            // A message in the place of another one.
            if number == 2 && below(2) == 0 {
                let swapped = format!("{protocol} --message m0 --out x");
                assert_eq!(step(&place, role, name, &swapped).code, Some(3));
            }
            // Lost messages are made again.
            for _ in 0..=below(2) {
                done(
                    &place,
                    role,
                    name,
                    &format!("{protocol} {take} --out m{number}"),
                );
            }
            if number > 0 && below(2) == 0 {
                let replayed = format!("{protocol} --message m{number} --out x");
                assert_eq!(step(&place, role, "answer", &replayed).code, Some(3));
            }
        }
        for number in [0, 1] {
            let swapped = format!("{protocol} --message m{number} --output out");
            assert_eq!(step(&place, "receiver", "finish", &swapped).code, Some(3));
        }
        assert!(!place.path("out").exists() && !place.path("x").exists());
        for _ in 0..=below(2) {
            done(
                &place,
                "receiver",
                "finish",
                &format!("{protocol} --message m2 --output out"),
            );
        }
        let matching = ours.intersection(&theirs).copied();
        assert_eq!(place.read("out"), table(matching), "run {seed}");
    }
}
