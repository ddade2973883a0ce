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
    done(place, "sender", "offer", "--message-out m0");
    done(place, "receiver", "start", "--message m0 --message-out m1");
    done(place, "sender", "answer", "--message m1 --message-out m2");
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

/// Each step says which one the peer takes next.
#[test]
fn either_side_offers_and_both_may_learn() {
    for (first, both) in [
        ("sender", false),
        ("receiver", false),
        ("sender", true),
        ("receiver", true),
    ] {
        let place = place();
        let moves = moves(first, both);
        for (number, (side, name, take)) in moves.iter().enumerate() {
            let mut more = if both { "--both" } else { "" }.to_owned();
            if let Some(take) = take {
                more.push_str(&format!(" --message m{take}"));
            }
            if *name == "finish" {
                more.push_str(&format!(" --output {side}.out"));
            }
            let next = moves.get(number + 1);
            if next.is_some() {
                more.push_str(&format!(" --message-out m{number}"));
            }
            let ended = step(&place, side, name, &more);
            ended.expect_success();
            if let Some((_, next, _)) = next {
                let said = format!("for the peer, whose next step is {next}");
                assert!(ended.err.contains(&said), "{name}: {}", ended.err);
            }
        }
        assert_eq!(place.read("receiver.out"), table(200..300));
        if both {
            assert_eq!(place.read("sender.out"), table(200..300));
        }
    }
    // No table of one's own makes way for a message.
    let place = place();
    place.write("mine.csv", "mine");
    let ended = step(&place, "sender", "offer", "--message-out mine.csv");
    ended.expect_failure(
        2,
        "mine.csv: there is a text file, which a message would replace",
    );
    assert_eq!(place.read("mine.csv"), "mine");
}

#[test]
fn a_step_again_is_the_same_and_another_message_is_refused() {
    let place = place();
    done(&place, "sender", "offer", "--message-out m0");
    done(&place, "sender", "offer", "--message-out m0.again");
    done(&place, "receiver", "start", "--message m0 --message-out m1");
    done(
        &place,
        "receiver",
        "start",
        "--message m0.again --message-out m1.again",
    );
    // Another receiver's state, for the same offer.
    fs::rename(place.path("receiver.state"), place.path("first.state")).unwrap();
    done(
        &place,
        "receiver",
        "start",
        "--message m0 --message-out other",
    );
    fs::remove_dir_all(place.path("receiver.state")).unwrap();
    fs::rename(place.path("first.state"), place.path("receiver.state")).unwrap();
    done(&place, "sender", "answer", "--message m1 --message-out m2");
    done(
        &place,
        "sender",
        "answer",
        "--message m1 --message-out m2.again",
    );
    let another = step(
        &place,
        "sender",
        "answer",
        "--message other --message-out m3",
    );
    another.expect_failure(3, "another one was taken in its place");
    for number in 0..3 {
        let bytes = [format!("m{number}"), format!("m{number}.again")];
        let [one, again] = bytes.map(|name| fs::read(place.path(&name)).unwrap());
        assert_eq!(one, again, "m{number}");
    }
    done(&place, "receiver", "finish", "--message m2 --output out");
    assert_eq!(place.read("out"), table(200..300));
}

fn bytes(place: &Place, name: &str) -> Vec<u8> {
    fs::read(place.path(name)).unwrap()
}

/// What a side keeps.
fn kept(place: &Place, role: &str) -> Option<Vec<u8>> {
    fs::read(place.path(&format!("{role}.state/run"))).ok()
}

#[test]
fn a_run_that_is_over_stays_over() {
    let place = place();
    until_the_last(&place);
    let before = kept(&place, "receiver").unwrap();
    done(&place, "receiver", "finish", "--message m2 --output out");
    // Neither messages nor seed are left.
    let after = kept(&place, "receiver").unwrap();
    assert!(
        after.len() < 2048 && before.len() > 8192,
        "{} bytes, then {}",
        before.len(),
        after.len()
    );
    for (name, more) in [
        ("finish", "--message m2 --output x"),
        ("finish", "--message m0 --output x"),
        ("answer", "--message m2 --message-out x"),
        ("start", "--message m0 --message-out x"),
        ("offer", "--message-out x"),
    ] {
        let ended = step(&place, "receiver", name, more);
        ended.expect_failure(2, "is of a run that is over on this side");
    }
    // The sender does not know whether its answer has arrived.
    done(
        &place,
        "sender",
        "answer",
        "--message m1 --message-out m2.again",
    );
    assert_eq!(bytes(&place, "m2.again"), bytes(&place, "m2"));
    step(&place, "sender", "offer", "--message-out x").expect_failure(2, "over on this side");
    // Another table asks for another run.
    let rows = place.read("sender.csv");
    for other in [table(0..400), table([])] {
        place.write("sender.csv", other);
        for allowed in ["", "--allow-empty"] {
            let take = format!("--message m1 --message-out x {allowed}");
            let ended = step(&place, "sender", "answer", &take);
            assert_eq!(ended.code, Some(3), "{}", ended.err);
        }
    }
    place.write("sender.csv", rows);
    assert!(!place.path("x").exists());
}

#[test]
fn a_run_goes_on_until_its_rows_are_safe() {
    for both in [false, true] {
        let place = place();
        let both_word = if both { "--both" } else { "" };
        done(
            &place,
            "sender",
            "offer",
            &format!("{both_word} --message-out m0"),
        );
        let take = format!("{both_word} --message m0 --message-out m1");
        done(&place, "receiver", "start", &take);
        let take = format!("{both_word} --message m1 --message-out m2");
        done(&place, "sender", "answer", &take);
        let told = if both { "--both --message-out m3" } else { "" };
        let to_stdout = words(
            &place,
            "receiver",
            "finish",
            &format!("--message m2 --output - {told}"),
        );
        let ended = place.run_after("exec >/dev/full", &to_stdout);
        assert_eq!(ended.code, Some(7), "{}", ended.err);
        // The peer's message does not wait for rows, and is the same when these are written at last.
        let first = both.then(|| bytes(&place, "m3"));
        let other = step(
            &place,
            "receiver",
            "answer",
            &format!("{both_word} --message m2 --message-out x"),
        );
        other.expect_failure(2, "finish the run with it");
        let take = format!("--message m2 --output out {told}");
        done(&place, "receiver", "finish", &take);
        assert_eq!(place.read("out"), table(200..300));
        assert_eq!(both.then(|| bytes(&place, "m3")), first);
        let again = step(&place, "receiver", "finish", &take);
        match both {
            false => again.expect_failure(2, "over on this side"),
            true => again.expect_success(),
        }
    }
}

#[test]
fn a_table_that_has_changed_accuses_nobody() {
    for protocol in [
        "",
        "--protocol oprf-dh",
        "--protocol dh --security semi-honest",
    ] {
        let place = place();
        done(
            &place,
            "sender",
            "offer",
            &format!("{protocol} --message-out m0"),
        );
        let take = format!("{protocol} --message m0 --message-out m1");
        done(&place, "receiver", "start", &take);
        let take = format!("{protocol} --message m1 --message-out m2");
        done(&place, "sender", "answer", &take);
        let finish = format!("{protocol} --message m2 --output out");
        for others in [1..301, 0..299, 0..301, 1000..1300] {
            place.write("receiver.csv", table(others));
            let ended = step(&place, "receiver", "finish", &finish);
            ended.expect_failure(3, "over other keys than the table has now");
        }
        place.write("receiver.csv", table(0..300));
        done(&place, "receiver", "finish", &finish);
    }
}

#[test]
fn a_copy_of_the_directory_takes_no_step() {
    let place = place();
    done(&place, "sender", "offer", "--message-out m0");
    let (run, backup) = (place.path("sender.state/run"), place.path("backup"));
    fs::copy(&run, &backup).unwrap();
    done(&place, "receiver", "start", "--message m0 --message-out m1");
    done(&place, "sender", "answer", "--message m1 --message-out m2");
    // Another question for the same offer.
    fs::rename(place.path("receiver.state"), place.path("first.state")).unwrap();
    done(
        &place,
        "receiver",
        "start",
        "--message m0 --message-out other",
    );
    let answered = fs::read(&run).unwrap();
    let refused = |file: &str| {
        let take = format!("--message {file} --message-out x");
        let ended = step(&place, "sender", "answer", &take);
        ended.expect_failure(2, "was copied, restored or moved");
        assert!(!place.path("x").exists());
    };
    // Over the file, which stays the same one, and in its place.
    fs::write(&run, fs::read(&backup).unwrap()).unwrap();
    refused("other");
    fs::remove_file(&run).unwrap();
    fs::copy(&backup, &run).unwrap();
    refused("other");
    // The whole directory, at another place: a copy of the newest is one too.
    fs::write(&run, answered).unwrap();
    let copy = place.path("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(&run, copy.join("run")).unwrap();
    fs::remove_dir_all(place.path("sender.state")).unwrap();
    fs::rename(&copy, place.path("sender.state")).unwrap();
    refused("m1");
    refused("other");
}

/// A step of a run: which side takes it, its name, and the number of the message that it takes.
type Move = (&'static str, &'static str, Option<usize>);

/// The steps of a run, in order; each but a last `finish` makes the message of its own number.
fn moves(first: &'static str, both: bool) -> Vec<Move> {
    let other = match first {
        "sender" => "receiver",
        _ => "sender",
    };
    let mut moves: Vec<Move> = vec![(first, "offer", None), (other, "start", Some(0))];
    // The receiver asks, the sender answers, the receiver finishes.
    for side in ["receiver", "sender"] {
        if moves.last().unwrap().0 != side {
            moves.push((side, "answer", Some(moves.len() - 1)));
        }
    }
    moves.push(("receiver", "finish", Some(moves.len() - 1)));
    if both {
        moves.push(("sender", "finish", Some(moves.len() - 1)));
    }
    moves
}

/// How a step has to end.
#[derive(Debug, PartialEq)]
enum Due {
    /// It comes next, or begins another run.
    Next,
    /// It is the last of the side, and makes this message again.
    Again(usize),
    Code(i32),
}

/// How a step of a side ends after so many moves of a run with a message: the number of one of this run, or `Err` for one
/// of another run.
fn due(
    moves: &[Move],
    done: usize,
    side: &str,
    step: &str,
    message: Option<Result<usize, usize>>,
) -> Due {
    let own: Vec<usize> = (0..moves.len()).filter(|at| moves[*at].0 == side).collect();
    let taken: Vec<usize> = own.iter().copied().filter(|at| *at < done).collect();
    let is = |at: usize| (moves[at].1, moves[at].2.map(Ok)) == (step, message);
    let is_next = done < moves.len() && moves[done].0 == side;
    let makes = |at: usize| at + 1 < moves.len();
    let learns = own.iter().any(|at| moves[*at].1 == "finish");
    let message = message.unwrap_or(Err(0));
    match (step, taken.last()) {
        ("finish", _) if !learns => Due::Code(2),
        _ if is_next && is(done) => Due::Next,
        ("offer", None) => Due::Next,
        ("start", None) if message == Err(0) => Due::Next,
        ("start", None) => Due::Code(3),
        (_, None) => Due::Code(2),
        (_, Some(last)) if is(*last) && makes(*last) => Due::Again(*last),
        (_, Some(last)) if Some(last) == own.last() && !makes(*last) => Due::Code(2),
        ("offer", _) => Due::Code(2),
        ("start", last) if last == own.last() || moves[own[0]].1 == "offer" => Due::Code(2),
        // The right message for the other step.
        ("answer" | "finish", _) if is_next && message.ok() == moves[done].2 => Due::Code(2),
        _ => Due::Code(3),
    }
}

/// The words that a step takes besides: it makes `x`, or writes `y`.
fn files(side: &str, step: &str, both: bool) -> &'static str {
    match (step, side, both) {
        ("finish", "receiver", true) => "--both --message-out x --output y",
        ("finish", _, true) => "--both --output y",
        ("finish", _, false) => "--output y",
        (_, _, true) => "--both --message-out x",
        (_, _, false) => "--message-out x",
    }
}

/// Puts the directory of another run in the place of a side's.
fn swap(place: &Place, side: &str) {
    let [state, other, away] =
        ["state", "other", "away"].map(|name| place.path(&format!("{side}.{name}")));
    // Each may be missing.
    let _ = fs::rename(&state, &away);
    let _ = fs::rename(&other, &state);
    let _ = fs::rename(&away, &other);
}

/// Tries every step with every message after so many moves; those that must fail leave everything as it was.
fn try_all(place: &Place, moves: &[Move], done: usize, both: bool) {
    let messages = (0..done.min(moves.len())).flat_map(|number| [Ok(number), Err(number)]);
    let messages: Vec<_> = messages
        .filter(|m| m.unwrap_or_else(|n| n) + 1 < moves.len())
        .collect();
    for side in ["receiver", "sender"] {
        let tried = ["start", "answer", "finish"].iter();
        let tried =
            tried.flat_map(|step| messages.iter().map(move |message| (*step, Some(*message))));
        for (step_name, message) in tried.chain([("offer", None)]) {
            let take = match message {
                None => String::new(),
                Some(Ok(number)) => format!("--message m{number}"),
                Some(Err(number)) => format!("--message n{number}"),
            };
            let take = format!("{take} {}", files(side, step_name, both));
            let due = due(moves, done, side, step_name, message);
            let context = format!("{done} moves of {moves:?}, then {side} {step_name} {take}");
            let code = |more: &str, code: i32| {
                let before = kept(place, side);
                let ended = step(place, side, step_name, &format!("{take} {more}"));
                assert_eq!(ended.code, Some(code), "{context} {more}: {}", ended.err);
                let same = kept(place, side) == before;
                assert!(same, "{context} {more}: the run has changed");
                let left = ["x", "y"].map(|name| place.path(name).exists());
                assert_eq!(left, [false; 2], "{context} {more}");
            };
            let has_begun = kept(place, side).is_some();
            if let Due::Code(expected) = due {
                code("", expected);
            } else if has_begun {
                let file = format!("{side}.csv");
                let rows = place.read(&file);
                for other in [table(1..301), table([7])] {
                    place.write(&file, other);
                    code("", 3);
                }
                place.write(&file, rows);
                code("--normalize id=integer", 2);
                code("--protocol oprf-dh", 2);
                let (own, away) = (place.path(&format!("{side}.key")), place.path("away"));
                fs::rename(&own, &away).unwrap();
                fs::copy(place.path("stranger.key"), &own).unwrap();
                code("", 2);
                fs::rename(&away, &own).unwrap();
            }
            if let Due::Again(number) = due {
                done_again(place, side, step_name, &take, number);
            }
        }
    }
}

fn done_again(place: &Place, side: &str, name: &str, take: &str, number: usize) {
    done(place, side, name, take);
    assert_eq!(bytes(place, "x"), bytes(place, &format!("m{number}")));
    fs::remove_file(place.path("x")).unwrap();
    if name == "finish" {
        assert_eq!(place.read("y"), table(200..300));
        fs::remove_file(place.path("y")).unwrap();
    }
}

#[test]
fn every_step_in_every_state_does_what_it_must() {
    for (first, both) in [
        ("sender", false),
        ("sender", true),
        ("receiver", false),
        ("receiver", true),
    ] {
        let place = place();
        let stranger = vesica::Identity::generate().unwrap();
        stranger.save(&place.path("stranger.key")).unwrap();
        let moves = moves(first, both);
        try_all(&place, &moves, 0, both);
        for (number, (side, name, message)) in moves.iter().copied().enumerate() {
            // Another run goes on beside it.
            for letter in ["n", "m"] {
                swap(&place, side);
                let take = message.map_or(String::new(), |m| format!("--message {letter}{m}"));
                done(
                    &place,
                    side,
                    name,
                    &format!("{take} {}", files(side, name, both)),
                );
                let _ = fs::remove_file(place.path("y"));
                if place.path("x").exists() {
                    fs::rename(place.path("x"), place.path(&format!("{letter}{number}"))).unwrap();
                }
            }
            try_all(&place, &moves, number + 1, both);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_run_goes_on() {
    let place = place();
    until_the_last(&place);
    let sender = |name: &str, more: &str| step(&place, "sender", name, more);
    let receiver = |name: &str, more: &str| step(&place, "receiver", name, more);
    sender("finish", "--message m1").expect_failure(2, "it answers");
    sender("answer", "--message m1 --message-out sender.state/run")
        .expect_failure(2, "--message-out is in the directory of --state");
    receiver("answer", "--message m2 --message-out x").expect_failure(2, "finish the run with it");
    let said = "this is a message that this side made";
    receiver("finish", "--message m1 --output x.csv").expect_failure(3, said);
    sender("answer", "--message m0 --message-out x").expect_failure(3, said);
    // A result on standard output would be the only one.
    let ended = receiver("finish", "--message m2");
    ended.expect_failure(2, "say where the matching rows go");
    assert!(ended.out.is_empty());
    receiver("start", "--message m0").expect_failure(2, "--message-out");
    nix::unistd::mkfifo(&place.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    receiver("start", "--message fifo --message-out x").expect_failure(3, "fifo: cannot be read");
    receiver("offer", "--message-out x").expect_failure(2, "other options");
    receiver(
        "finish",
        "--message m2 --output x.csv --protocol dh --security semi-honest",
    )
    .expect_failure(2, "other options");
    receiver("finish", "--protocol vole --message m2 --output x.csv")
        .expect_failure(2, "compact-dh");
    receiver(
        "answer",
        "--reveal size --security semi-honest --message m2 --message-out x",
    )
    .expect_failure(2, "unexpected argument '--reveal'");
    let bytes = fs::read(place.path("m2")).unwrap();
    for (name, bytes, said) in [
        (
            "short",
            bytes[..bytes.len() - 1].to_vec(),
            "the message cannot be used: its signature does not fit: it was cut off",
        ),
        (
            "shorter",
            bytes[..40].to_vec(),
            "the message cannot be used: it is cut off",
        ),
        (
            "empty",
            Vec::new(),
            "empty: this is an empty file, and not a message of a run by files",
        ),
        (
            "longer",
            [&bytes[..], b"x"].concat(),
            "the message cannot be used: its signature does not fit",
        ),
        (
            "older",
            [b"vesicax1", &bytes[8..]].concat(),
            "the message cannot be used: it is of another version",
        ),
        (
            "other",
            b"id,text\n1,2\n".to_vec(),
            "other: this is a text file, and not a message of a run by files",
        ),
    ] {
        place.write(name, bytes);
        let ended = receiver("finish", &format!("--message {name} --output x.csv"));
        ended.expect_failure(3, said);
    }
    let mut spoilt = bytes;
    *spoilt.last_mut().unwrap() ^= 1;
    place.write("spoilt", spoilt);
    receiver("finish", "--message spoilt --output x.csv")
        .expect_failure(3, "its signature does not fit");
    receiver("finish", "--message absent --output x.csv").expect_failure(3, "absent: no such file");
    // Another table is not the one that was asked about.
    place.write("receiver.csv", table(1..301));
    receiver("finish", "--message m2 --output x.csv").expect_failure(3, "other keys");
    place.write("receiver.csv", table(0..300));
    // Another run of the same two.
    fs::rename(place.path("sender.state"), place.path("kept")).unwrap();
    done(&place, "sender", "offer", "--message-out n0");
    receiver("start", "--message n0 --message-out x").expect_failure(3, "another one was taken");
    sender("answer", "--message m1 --message-out x").expect_failure(3, "it is of another run");
    assert!(
        !place.names().contains(&"x".to_owned()) && !place.names().contains(&"x.csv".to_owned())
    );
    // None of this has changed the run, nor has the order of the rows.
    place.write("receiver.csv", table((0..300).rev()));
    done(
        &place,
        "receiver",
        "finish",
        "--message m2 --output shared.csv",
    );
    assert_eq!(place.read("shared.csv"), table((200..300).rev()));
    let nothing = Place::new();
    nothing.write("sender.csv", table(0..9));
    nothing.write("m", "vesicax2\0");
    let ended = step(&nothing, "sender", "answer", "--message m --message-out x");
    ended.expect_failure(2, "has no run by files");
    assert!(!nothing.names().contains(&"sender.state".to_owned()));
}

#[test]
fn sides_that_want_different_runs_hear_of_it_before_any_item_leaves() {
    let place = place();
    done(&place, "sender", "offer", "--message-out m0");
    let ended = step(
        &place,
        "receiver",
        "start",
        "--normalize id=integer --message m0 --message-out m1",
    );
    ended.expect_failure(6, "normalization");
    let hint = "agree with the peer on --normalize, then take this step again, or have the peer begin another run";
    assert!(ended.hint().starts_with(hint), "{}", ended.err);
    let ended = step(
        &place,
        "receiver",
        "start",
        "--max-peer-items 399 --message m0 --message-out m1",
    );
    ended.expect_failure(7, "399");
    assert!(!place.names().contains(&"m1".to_owned()));
    // The same offer, with options that fit.
    done(&place, "receiver", "start", "--message m0 --message-out m1");
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
                let swapped = format!("{protocol} --message m0 --message-out x");
                assert_eq!(step(&place, role, name, &swapped).code, Some(3));
            }
            // Lost messages are made again.
            for _ in 0..=below(2) {
                done(
                    &place,
                    role,
                    name,
                    &format!("{protocol} {take} --message-out m{number}"),
                );
            }
            if number > 0 && below(2) == 0 {
                let replayed = format!("{protocol} --message m{number} --message-out x");
                assert_eq!(step(&place, role, "answer", &replayed).code, Some(3));
            }
        }
        for number in [0, 1] {
            let swapped = format!("{protocol} --message m{number} --output out");
            assert_eq!(step(&place, "receiver", "finish", &swapped).code, Some(3));
        }
        assert!(!place.path("out").exists() && !place.path("x").exists());
        let finish = format!("{protocol} --message m2 --output out");
        done(&place, "receiver", "finish", &finish);
        let matching = ours.intersection(&theirs).copied();
        assert_eq!(place.read("out"), table(matching), "run {seed}");
    }
}
