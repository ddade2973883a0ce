//! Numbers with noise: what is printed and reported, and what is refused.

use serde_json::{Value, json};

use crate::support::{Arguments, Ended, Pair, Place, exchange};

fn place() -> Place {
    let place = Place::new();
    let rows = |from: u32, to: u32| {
        (from..to)
            .map(|i| format!("{i},{}\n", i % 7))
            .collect::<String>()
    };
    place.write("ours.csv", format!("id,score\n{}", rows(0, 60)));
    place.write("theirs.csv", format!("id,score\n{}", rows(20, 120)));
    place
}

/// Both sides, with options of both and of each.
fn run(place: &Place, [both, ours, theirs]: [&str; 3]) -> [Ended; 2] {
    let side = |file, name: &str, own: &str| {
        Arguments::new(file, "id")
            .with("--security semi-honest")
            .with(&format!("--report {name}.json --ledger {name}.ledger"))
            .with(both)
            .with(own)
    };
    let Pair { receiver, sender } = exchange(
        place,
        &side("ours.csv", "ours", ours),
        &side("theirs.csv", "theirs", theirs),
    );
    [receiver, sender]
}

fn report(place: &Place, name: &str) -> Value {
    serde_json::from_str(&place.read(&format!("{name}.json"))).unwrap()
}

#[test]
fn a_noisy_size_is_printed_with_how_far_off_it_can_be() {
    let place = place();
    // With this epsilon noise is 0 but for 2^-140.
    let [received, sent] = run(&place, ["--reveal size", "", "--epsilon 100"]);
    received.expect_success();
    sent.expect_success();
    assert_eq!((received.text(), sent.text()), ("40\n", ""));
    let line = "noise           epsilon 100 of the sender; 95 % within size ±1\n";
    for ended in [&received, &sent] {
        assert!(ended.err.contains(line), "{}", ended.err);
    }
    let reports = ["ours", "theirs"].map(|name| report(&place, name));
    let noise = json!({
        "receiver_epsilon": null,
        "sender_epsilon": "100",
        "numbers": [{
            "name": "size",
            "receiver": null,
            "sender": {"epsilon": "100", "sensitivity": 1, "scale": "1/100"},
            "half_width": 1,
        }],
    });
    let agreed = json!({
        "epsilon": "100",
        "charges": [{"name": "size", "epsilon": "100"}],
        "is_padded": false,
    });
    for report in &reports {
        assert_eq!(report["noise"], noise);
        assert_eq!(report["contract"]["sender_noise"], agreed);
        assert_eq!(report["contract"].get("receiver_noise"), None);
    }
    // Without noise there is none.
    let [received, _] = run(&place, ["--reveal size", "", ""]);
    assert!(!received.err.contains("noise"), "{}", received.err);
    assert_eq!(report(&place, "ours")["noise"], Value::Null);
}

/// Both sides learn the same numbers, whose noise is large: each is told, and a size can be brought into its range.
#[test]
fn both_sides_learn_the_same_noisy_numbers() {
    let place = place();
    let terms = "--reveal size,sum --both --epsilon 0.002 --epsilon-split size=1,sum=1";
    let value = "--value score --value-bound 6";
    let [received, sent] = run(&place, [terms, "--clamp", value]);
    received.expect_success();
    sent.expect_success();
    let numbers = |ended: &Ended| -> Vec<i64> {
        let lines = ended.text().lines();
        let number = |line: &str| line.split_once('\t').unwrap().1.parse().unwrap();
        lines.map(number).collect()
    };
    let (near, far) = (numbers(&received), numbers(&sent));
    assert_eq!(near[1], far[1]);
    assert_eq!(near[0], far[0].clamp(0, 60));
    // Noise of scale 1000 and 12,000 on each side is 0 to both with a probability below 10^-6.
    assert_ne!([far[0], far[1]], [40, 119]);
    let reported = report(&place, "ours");
    assert_eq!(reported["values"]["size"], near[0]);
    assert_eq!(reported["noise"], report(&place, "theirs")["noise"]);
}

#[test]
fn a_minimum_is_compared_with_the_noisy_count() {
    let place = place();
    for (minimum, printed) in [(40, "40\n"), (41, "fewer than 41\n")] {
        let both = format!("--reveal size --min-size {minimum}");
        let [received, _] = run(&place, [&both, "", "--epsilon 100"]);
        received.expect_success();
        assert_eq!(received.text(), printed);
    }
    let [received, sent] = run(&place, ["--reveal size --min-size 61", "", "--epsilon 1"]);
    for ended in [received, sent] {
        ended.expect_failure(6, "a minimum of 61");
    }
}

#[test]
fn a_padded_side_tells_the_number_to_which_it_pads() {
    let place = place();
    let [received, sent] = run(&place, ["--reveal size", "", "--epsilon 100 --pad-to 1k"]);
    received.expect_success();
    sent.expect_success();
    assert_eq!(received.text(), "40\n");
    let [ours, theirs] = ["ours", "theirs"].map(|name| report(&place, name));
    assert_eq!(
        (&ours["peer_items"], &theirs["items"]),
        (&json!(1000), &json!(100))
    );
    assert_eq!(ours["contract"]["sender_noise"]["is_padded"], true);
    let [received, sent] = run(&place, ["--reveal size", "", "--pad-to 99"]);
    sent.expect_failure(7, "this side has 100 keys, and is to pad them to 99");
    received.expect_failure(7, "it has more items than it can bring");
    // Addresses have numbers too.
    let mut said = received.err.lines();
    let said = said.find(|line| line.starts_with("vesica: ")).unwrap();
    assert!(!said.contains(|c: char| c.is_ascii_digit()), "{said}");
}

#[test]
fn what_noise_does_not_go_with_is_refused() {
    let place = place();
    for (words, problem) in [
        (
            "--epsilon 1",
            "epsilon is for numbers, and matches would tell of single keys",
        ),
        (
            "--epsilon 1 --reveal shares --output s.csv",
            "epsilon is for numbers, and shares",
        ),
        (
            "--epsilon 1 --reveal threshold-matches:3",
            "epsilon is for numbers, and threshold-matches",
        ),
        (
            "--pad-to 500",
            "a set is padded where numbers are revealed, and not with matches",
        ),
        (
            "--epsilon 1 --reveal size --work-dir w",
            "a work directory is for runs without epsilon",
        ),
        (
            "--epsilon 0 --reveal size",
            "epsilon is a number above 0 and up to 100",
        ),
        (
            "--epsilon 0.0000001 --reveal size",
            "epsilon is a number above 0 and up to 100",
        ),
        (
            "--epsilon 1 --epsilon-split size --reveal size",
            "a share of epsilon is",
        ),
        (
            "--epsilon 1 --epsilon-split size=1,size=2 --reveal size",
            "named twice",
        ),
        ("--epsilon-split size=1 --reveal size", "--epsilon"),
        (
            "--pad-to 0 --reveal size",
            "a set is padded to a number of keys",
        ),
    ] {
        let arguments = Arguments::new("ours.csv", "id")
            .with("--security semi-honest")
            .with(words);
        let ended = place.receiver(&arguments, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(2, problem);
    }
    let both = "--reveal size --both";
    for (ours, theirs) in [("--epsilon 1", ""), ("", "--epsilon 1")] {
        for ended in run(&place, [both, ours, theirs]) {
            ended.expect_failure(6, "one adds no noise");
        }
    }
    for ended in run(
        &place,
        ["--reveal size", "", "--epsilon 1 --epsilon-split sum=1"],
    ) {
        ended.expect_failure(6, "epsilon is to be divided among size");
    }
}
