//! Matching rows in one order on both sides.

use std::collections::BTreeMap;

use crate::support::{Arguments, Ended, Place, Running, exchange};

/// Keys with several rows each, on both sides in other orders and other formats.
fn place(rows: u64) -> Place {
    let place = Place::new();
    let ours = (0..rows).map(|i| format!("k{},{i}\n", i * 7 % (rows / 2)));
    place.write("ours.csv", format!("key,x\n{}", ours.collect::<String>()));
    let theirs = (0..rows).rev().map(|i| {
        let key = rows / 4 + i * 11 % (rows / 2);
        format!("{{\"id\":\"k{key}\",\"y\":{i}}}\n")
    });
    place.write("theirs.jsonl", theirs.collect::<String>());
    place
}

fn ours() -> Arguments {
    Arguments::new("ours.csv", "key")
        .output("ours-out.csv")
        .with("--both --align")
}

fn theirs() -> Arguments {
    Arguments::new("theirs.jsonl", "id")
        .output("theirs-out.jsonl")
        .with("--both --align")
}

/// The numbers in the order of the rows, the key of each, and the rest of the rows of each.
type Side = (Vec<u64>, BTreeMap<u64, (String, Vec<u64>)>);

fn side(rows: impl Iterator<Item = (String, u64, u64)>) -> Side {
    let (mut numbers, mut keys) = (Vec::new(), BTreeMap::<u64, (String, Vec<u64>)>::new());
    for (key, rest, number) in rows {
        numbers.push(number);
        let (of_number, all) = keys.entry(number).or_insert((key.clone(), Vec::new()));
        assert_eq!(*of_number, key);
        all.push(rest);
    }
    assert!(numbers.is_sorted());
    let expected: Vec<u64> = (1..=keys.len() as u64).collect();
    assert!(keys.keys().copied().eq(expected));
    (numbers, keys)
}

fn sides(place: &Place) -> [Side; 2] {
    let ours = place.read("ours-out.csv");
    let mut lines = ours.lines();
    assert_eq!(lines.next(), Some("key,x,match_number"));
    let ours = side(lines.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [x, number] = [1, 2].map(|i| fields[i].parse().unwrap());
        (fields[0].to_owned(), x, number)
    }));
    let theirs = place.read("theirs-out.jsonl");
    let theirs = side(theirs.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| row[name].as_u64().unwrap();
        (
            row["id"].as_str().unwrap().to_owned(),
            number("y"),
            number("match_number"),
        )
    }));
    [ours, theirs]
}

/// Both sides number the same keys alike, and each has all its rows of them in the order of its input.
fn check(place: &Place, rows: u64) {
    let [(_, ours), (_, theirs)] = sides(place);
    let keys = |side: &BTreeMap<u64, (String, Vec<u64>)>| -> Vec<String> {
        side.values().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(keys(&ours), keys(&theirs));
    assert_eq!(ours.len() as u64, rows / 4);
    for (of, ascends) in [(&ours, true), (&theirs, false)] {
        for (_, rest) in of.values() {
            assert_eq!(rest.len(), 2);
            assert_eq!(rest[0] < rest[1], ascends);
        }
    }
    // Neither side's own order.
    let mut sorted = keys(&ours);
    sorted.sort();
    assert_ne!(keys(&ours), sorted);
}

#[test]
fn both_sides_get_their_rows_in_one_order() {
    for words in [
        "",
        "--protocol kkrt --security semi-honest",
        "--protocol dh --security semi-honest --memory 300K",
    ] {
        let place = place(2000);
        let pair = exchange(&place, &ours().with(words), &theirs().with(words));
        pair.expect_success();
        check(&place, 2000);
        if !words.is_empty() {
            continue;
        }
        let first = place.read("ours-out.csv");
        exchange(&place, &ours().with(words), &theirs().with(words)).expect_success();
        check(&place, 2000);
        assert_ne!(
            place.read("ours-out.csv"),
            first,
            "each run has an order of its own"
        );
    }
}

/// Columns of the peer come in the same order, however little memory there is for keys and for what goes with them.
#[test]
fn columns_of_the_peer_come_in_one_order_from_the_disk_too() {
    let place = place(2000);
    for memory in ["1G", "300K"] {
        let words = format!("--protocol dh --security semi-honest --memory {memory}");
        let takes = ours().with(&words).with("--take-payload");
        let hands_over = theirs().with(&words).with("--payload id --payload-width 8");
        exchange(&place, &takes, &hands_over).expect_success();
        let ours = place.read("ours-out.csv");
        let mut lines = ours.lines();
        assert_eq!(lines.next(), Some("key,x,match_number,peer_id"));
        let mut last = 0;
        for line in lines.by_ref() {
            let fields: Vec<&str> = line.split(',').collect();
            assert_eq!(fields[0], fields[3], "{memory}");
            let number: u64 = fields[2].parse().unwrap();
            assert!(number == last || number == last + 1, "{memory}");
            last = number;
        }
        assert_eq!(last, 500);
    }
}

/// The receiver's answer is written after its first attempt failed, and without the peer.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_is_written_later_is_in_the_same_order() {
    let place = place(2000);
    let kept = ours().with("--work-dir near");
    let full = kept.clone().without("--output").output("/dev/full");
    let pair = exchange(&place, &full, &theirs());
    pair.receiver.expect_failure(7, "/dev/full");
    pair.sender.expect_success();
    let nobody = "--connect 127.0.0.1:1 --wait 0.2";
    let plain = kept.clone().flag_off("--align");
    let ended = place.receiver(&plain, nobody).wait();
    ended.expect_failure(2, "other options");
    place.receiver(&kept, nobody).wait().expect_success();
    check(&place, 2000);
}

/// A run that goes on after a failure has the order of its beginning.
#[test]
fn a_resumed_run_is_in_one_order() {
    let rows = 20_000;
    let place = place(rows);
    let words = "--protocol dh --security semi-honest --memory 700K --threads 4 --work-dir";
    let (ours, theirs) = (
        ours().with(&format!("{words} near")),
        theirs().with(&format!("{words} far")),
    );
    let mut sender = place.sender(&theirs, "--listen 127.0.0.1:0");
    let mut receiver = place.receiver(&ours, &sender.endpoint());
    // The first two are recorded while the next two run.
    receiver.wait_for("bucket 5 of ");
    let end = |mut party: Running| {
        party.process.kill().unwrap();
        party.process.wait().unwrap();
    };
    end(receiver);
    sender.wait().expect_failure(4, "");
    let pair = exchange(&place, &ours, &theirs);
    pair.expect_success();
    let went_on = |ended: &Ended| assert!(ended.err.contains("going on after"), "{}", ended.err);
    went_on(&pair.receiver);
    went_on(&pair.sender);
    check(&place, rows);
}

#[test]
fn an_order_needs_both_sides() {
    let place = place(200);
    let without = |arguments: Arguments| arguments.flag_off("--align");
    let pair = exchange(&place, &ours(), &without(theirs()));
    for ended in [&pair.receiver, &pair.sender] {
        ended.expect_failure(6, "both, in one order");
    }
    let nobody = "--connect 127.0.0.1:1 --wait 0.2";
    for (words, text) in [
        ("--align", "--both"),
        ("--align --both --rows all", "--rows"),
    ] {
        let plain = Arguments::new("ours.csv", "key")
            .output("x.csv")
            .with(words);
        place
            .receiver(&plain, nobody)
            .wait()
            .expect_failure(2, text);
    }
    place.write("taken.csv", "key,match_number\nk1,1\n");
    let taken = Arguments::new("taken.csv", "key")
        .output("x.csv")
        .with("--both --align");
    place
        .receiver(&taken, nobody)
        .wait()
        .expect_failure(3, "match_number");
    assert!(!place.path("x.csv").exists());
}
