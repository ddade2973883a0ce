//! Sizes, sums and inner products: what the command prints, and what it refuses.

use std::ops::Range;
use std::process::Command;

use serde_json::Value;

use crate::faults::memory_of_buckets;
use crate::support::{Arguments, Ended, Pair, Place, Running, exchange};

/// Two shops' customers. Three customers are shared; one of them has two rows here.
const OURS: &str = "email,spent,kept\n\
    ann@x.org,10.50,2\n\
    bob@x.org,-3,0\n\
    cy@x.org,100,1\n\
    ann@x.org,0.25,3\n\
    dee@x.org,7.10,4\n\
    ,not a number,\n";

const THEIRS: &str = "mail,visits,kind\n\
    ann@x.org,3,a\n\
    bob@x.org,5,b\n\
    dee@x.org,-2,a\n\
    eve@x.org,1000000,b\n";

/// The values of either side.
const OURS_OF: &str = "--value spent --value-scale 2 --value-bound 1000";
const THEIRS_OF: &str = "--value visits --value-bound 1000000";

const RECIPES: [&str; 3] = ["circuit-okvs", "circuit-rb-psm1", "circuit-rb-psm2"];

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.csv", THEIRS);
    place
}

/// The options of both sides: those that both give, and each side's own.
fn sides(both: &str, ours: &str, theirs: &str) -> [Arguments; 2] {
    let side = |file, key, own: &str| {
        let security = "--security semi-honest";
        Arguments::new(file, key)
            .with(security)
            .with(both)
            .with(own)
    };
    [
        side("ours.csv", "email", ours),
        side("theirs.csv", "mail", theirs),
    ]
}

fn run(place: &Place, [receiver, sender]: &[Arguments; 2]) -> [Ended; 2] {
    let Pair { receiver, sender } = exchange(place, receiver, sender);
    [receiver, sender]
}

/// The sender protects what it tells: the larger the receiver's values may be, the more one number says of single keys.
#[test]
fn a_sender_limits_the_values_of_the_receiver() {
    let place = place();
    let both = "--reveal sum --min-size 3";
    let free = "however large --min-size is";
    for limit in [100_000, 99_999] {
        let limited = format!("--max-peer-values 1 --max-peer-value-bound {limit}");
        let [received, sent] = run(&place, &sides(both, OURS_OF, &limited));
        assert!(!sent.err.contains(free), "{}", sent.err);
        if limit == 100_000 {
            received.expect_success();
            sent.expect_success();
            assert_eq!(received.text(), "14.85\n");
            continue;
        }
        let (has, allows) = ("up to 100000 units of 10^-2", "at most 99999 units");
        for (ended, ours, theirs) in [(received, has, allows), (sent, allows, has)] {
            ended.expect_failure(6, "value bound");
            assert!(ended.err.contains(ours), "{}", ended.err);
            assert!(ended.err.contains(theirs), "{}", ended.err);
            assert!(
                ended.err.contains("--max-peer-value-bound"),
                "{}",
                ended.err
            );
        }
    }
    for one_limit in ["", "--max-peer-values 1", "--max-peer-value-bound 100000"] {
        let [received, sent] = run(&place, &sides(both, OURS_OF, one_limit));
        received.expect_success();
        assert!(sent.err.contains(free), "{}", sent.err);
        assert!(!received.err.contains(free), "{}", received.err);
    }
}

/// Columns of weights of 0 and 1 would tell of a key each whether the sender has it, by the differences of their sums.
#[test]
fn a_sender_limits_the_columns_of_the_receiver() {
    let place = Place::new();
    let rows = |numbers: Range<u64>| numbers.map(|i| format!("{i},1,{}\n", u64::from(i != 7)));
    place.write(
        "ours.csv",
        format!("email,all,but\n{}", rows(0..40).collect::<String>()),
    );
    for has_it in [true, false] {
        let theirs: String = rows(0..30)
            .filter(|row| has_it || !row.starts_with("7,"))
            .collect();
        place.write("theirs.csv", format!("mail,all,but\n{theirs}"));
        let ours = "--value all,but --value-bound 1";
        let both = "--reveal sum --min-size 20";
        let theirs = "--max-peer-value-bound 1";
        let [received, _] = run(&place, &sides(both, ours, theirs));
        let sums = if has_it {
            "sum-1\t30\nsum-2\t29\n"
        } else {
            "sum-1\t29\nsum-2\t29\n"
        };
        assert_eq!(received.text(), sums);
        let one = format!("{theirs} --max-peer-values 1");
        let [receiver, sender] = run(&place, &sides(both, ours, &one));
        for ended in [&receiver, &sender] {
            ended.expect_failure(7, "the receiver has 2 columns of values; this run allows 1");
        }
        let hint = "raise --max-peer-values";
        assert!(sender.err.contains(hint) && !receiver.err.contains(hint));
    }
}

/// How a summary begins the line of a value.
fn reveal_line(both: &str) -> &str {
    both.split([' ', ':']).nth(1).unwrap()
}

#[test]
fn every_function_prints_its_value_alone() {
    let place = place();
    let (ours, theirs) = (OURS_OF, THEIRS_OF);
    for (both, ours, theirs, value) in [
        ("--reveal size", "", "", "3"),
        ("--reveal size --min-size 3", "", "", "3"),
        ("--reveal size --min-size 4", "", "", "fewer than 4"),
        ("--reveal threshold:2", "", "", "3"),
        ("--reveal threshold:3", "", "", "fewer than 4"),
        ("--reveal sum", ours, "", "14.85"),
        ("--reveal sum", "", theirs, "6"),
        ("--reveal sum --min-size 4", "", theirs, "fewer than 4"),
        ("--reveal inner-product", ours, theirs, "3.05"),
        // One of the shared keys has the value 0, and adds nothing.
        ("--reveal sum --min-size 2", "--value kept", "", "9"),
        (
            "--reveal sum --min-size 3",
            "--value kept",
            "",
            "fewer than 3",
        ),
    ] {
        let [received, sent] = run(&place, &sides(both, ours, theirs));
        received.expect_success();
        sent.expect_success();
        assert_eq!(received.text(), format!("{value}\n"), "{both}");
        if value.contains("fewer") {
            let of_what = match both.contains("sum") {
                true => " with a value other than 0",
                false => "",
            };
            let line = format!("matches         {value}{of_what}\n");
            assert!(received.err.contains(&line), "{}", received.err);
        }
        assert_eq!(sent.text(), "");
        // As a word: a fingerprint may have any letters.
        let mut words = sent.err.split_whitespace();
        assert!(words.all(|word| word != reveal_line(both)), "{}", sent.err);
    }
    assert_eq!(
        place.names(),
        ["ours.csv", "receiver.key", "sender.key", "theirs.csv"]
    );
}

/// A line for each number, and an object in the report; the fewest of the keys that count decide for all.
#[test]
fn several_numbers_are_printed_with_their_names() {
    let place = place();
    let ours = "--value spent,kept --value-scale 2,0 --value-bound 1000,10";
    let theirs = "--value visits --value-bound 1000000";
    for (both, ours, theirs, lines) in [
        ("--reveal size,sum", "", theirs, "size\t3\nsum\t6\n"),
        (
            "--reveal sum,size",
            ours,
            "",
            "size\t3\nsum-1\t14.85\nsum-2\t9\n",
        ),
        (
            "--reveal sum --min-size 2",
            ours,
            "",
            "sum-1\t14.85\nsum-2\t9\n",
        ),
        // All three have spent something, and two kept something.
        ("--reveal size,sum --min-size 3", ours, "", "fewer than 3\n"),
        (
            "--reveal size,sum --min-size 3",
            "",
            theirs,
            "size\t3\nsum\t6\n",
        ),
        (
            "--reveal size,inner-product",
            OURS_OF,
            theirs,
            "size\t3\ninner-product\t3.05\n",
        ),
        (
            "--reveal size,sum --both",
            ours,
            "",
            "size\t3\nsum-1\t14.85\nsum-2\t9\n",
        ),
        (
            "--reveal size,sum --both --min-size 4",
            "",
            theirs,
            "fewer than 4\n",
        ),
    ] {
        let [ours, theirs] = sides(both, ours, theirs);
        let reported = [
            ours.with("--report ours.json"),
            theirs.with("--report theirs.json"),
        ];
        let [received, sent] = run(&place, &reported);
        received.expect_success();
        sent.expect_success();
        let is_both = both.contains("--both");
        let is_short = received
            .err
            .contains("with a value other than 0 in one of the columns");
        assert_eq!(is_short, lines.contains("fewer"), "{}", received.err);
        assert_eq!(received.text(), lines, "{both}");
        assert_eq!(sent.text(), if is_both { lines } else { "" }, "{both}");
        for (learns, report) in [(true, "ours.json"), (is_both, "theirs.json")] {
            let report: Value = serde_json::from_str(&place.read(report)).unwrap();
            let has_numbers = learns && lines.contains('\t');
            assert!(report["value"].is_null());
            assert_eq!(report["values"].is_object(), has_numbers, "{both}");
            for line in lines.lines().filter(|_| has_numbers) {
                let (name, number) = line.split_once('\t').unwrap();
                let found = &report["values"][name];
                let found = found.as_str().map_or(found.to_string(), str::to_owned);
                assert_eq!(found, number, "{both}");
            }
            let bounds = &report["contract"]["receiver_values"];
            if both.starts_with("--reveal sum,size") {
                assert_eq!(
                    (&bounds[0]["bound"], &bounds[1]["bound"]),
                    (&100_000.into(), &10.into())
                );
            }
        }
    }
    // Both sides have to want the same numbers.
    let [ours, _] = sides("--reveal size,sum", "--value spent --value-scale 2", "");
    let [_, theirs] = sides("--reveal sum", "", "");
    for ended in run(&place, &[ours, theirs]) {
        ended.expect_failure(6, "reveal");
    }
}

/// As many columns as there can be, of either side and by every recipe.
#[test]
fn eight_columns_are_summed_at_once() {
    let place = Place::new();
    let header: Vec<String> = (0..8).map(|column| format!("v{column}")).collect();
    let row = |i: i64| {
        let values: Vec<String> = (0..8)
            .map(|column| ((column + 1) * (i - 20)).to_string())
            .collect();
        format!("{i},{}\n", values.join(","))
    };
    let rows = |range: std::ops::Range<i64>| -> String { range.map(row).collect() };
    place.write(
        "ours.csv",
        format!("email,{}\n{}", header.join(","), rows(0..50)),
    );
    place.write(
        "theirs.csv",
        format!("mail,{}\n{}", header.join(","), rows(30..90)),
    );
    let columns = format!("--value {} --value-bound 1000", header.join(","));
    let sum: i64 = (30..50).map(|i| i - 20).sum();
    let sums = (1..=8).map(|column| format!("sum-{column}\t{}\n", column * sum));
    let lines = format!("size\t20\n{}", sums.collect::<String>());
    for recipe in RECIPES {
        let both = format!("--reveal size,sum --min-size 20 --protocol {recipe}");
        for (ours, theirs) in [(&*columns, ""), ("", &*columns)] {
            let [received, sent] = run(&place, &sides(&both, ours, theirs));
            received.expect_success();
            sent.expect_success();
            assert_eq!(received.text(), lines, "{recipe}");
        }
    }
}

#[test]
fn both_sides_print_the_value_that_both_learn() {
    let place = place();
    let (ours, theirs) = (OURS_OF, THEIRS_OF);
    for (both, ours, theirs, value, below) in [
        ("--reveal size", "", "", "3", None),
        (
            "--reveal size --min-size 4",
            "",
            "",
            "fewer than 4",
            Some(4),
        ),
        ("--reveal threshold:2", "", "", "3", None),
        ("--reveal threshold:3", "", "", "fewer than 4", Some(4)),
        ("--reveal sum", ours, "", "14.85", None),
        ("--reveal sum --min-size 3", "", theirs, "6", None),
        ("--reveal inner-product", ours, theirs, "3.05", None),
        (
            "--reveal inner-product --min-size 4",
            ours,
            theirs,
            "fewer than 4",
            Some(4),
        ),
    ] {
        let [ours, theirs] = sides(&format!("{both} --both"), ours, theirs);
        let reported = [
            ours.with("--report ours.json"),
            theirs.with("--report theirs.json"),
        ];
        let ended = run(&place, &reported);
        for (ended, report) in ended.into_iter().zip(["ours.json", "theirs.json"]) {
            ended.expect_success();
            assert_eq!(ended.text(), format!("{value}\n"), "{both}");
            let report: Value = serde_json::from_str(&place.read(report)).unwrap();
            assert_eq!(report["contract"]["learns"], "both");
            assert_eq!(report["below"], below.map_or(Value::Null, Value::from));
            assert_eq!(report["value"].is_null(), below.is_some(), "{both}");
        }
    }
    // The contract says who learns, and each side has to want it.
    let [ours, theirs] = sides("--reveal size", "--both", "");
    for ended in run(&place, &[ours, theirs]) {
        ended.expect_failure(6, "who learns");
    }
}

#[test]
fn every_recipe_says_in_its_report_what_it_computed() {
    let place = place();
    for protocol in RECIPES {
        let both = format!("--reveal inner-product --protocol {protocol}");
        let (ours, theirs) = (OURS_OF, THEIRS_OF);
        let reports = [
            &*format!("{ours} --report ours.json --optimize auto --bandwidth 5mbps"),
            &*format!("{theirs} --report theirs.json"),
        ];
        let [received, sent] = run(&place, &sides(&both, reports[0], reports[1]));
        received.expect_success();
        sent.expect_success();
        let report = |name: &str| -> Value { serde_json::from_str(&place.read(name)).unwrap() };
        let (near, far) = (report("ours.json"), report("theirs.json"));
        assert_eq!(near["protocol"], protocol);
        assert_eq!(
            (&near["value"], &near["below"]),
            (&"3.05".into(), &Value::Null)
        );
        assert_eq!(
            (&far["value"], &far["matches"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(near["contract"], far["contract"]);
        assert_eq!(near["contract"]["receiver_values"][0]["scale"], 2);
        assert_eq!(near["contract"]["optimize"], "traffic");
        assert_eq!(near["security"], "semi-honest");
    }
}

#[test]
fn rows_above_a_threshold_are_written_and_others_are_not() {
    let place = place();
    for (above, found) in [(2, true), (3, false)] {
        let both = format!("--reveal threshold-matches:{above} --work-dir");
        let [ours, theirs] = sides(&both, "ours.work --output out.csv", "theirs.work");
        place.write("out.csv", "what an earlier run found");
        let [received, sent] = run(&place, &[ours.with("--report r.json"), theirs]);
        received.expect_success();
        sent.expect_success();
        let report: Value = serde_json::from_str(&place.read("r.json")).unwrap();
        if found {
            let rows = "email,spent,kept\nann@x.org,10.50,2\nbob@x.org,-3,0\nann@x.org,0.25,3\ndee@x.org,7.10,4\n";
            assert_eq!(place.read("out.csv"), rows);
            assert_eq!(
                (&report["matches"], &report["below"]),
                (&3.into(), &Value::Null)
            );
            assert_eq!(received.text(), "");
        } else {
            assert_eq!(place.read("out.csv"), "email,spent,kept\n");
            assert_eq!(
                (&report["matches"], &report["below"]),
                (&Value::Null, &4.into())
            );
            assert_eq!(received.text(), "fewer than 4\n");
        }
        assert!(!sent.err.contains("matches"), "{}", sent.err);
        assert!(!place.path("ours.work").exists() && !place.path("theirs.work").exists());
    }
    // Where rows go to standard output, nothing else does.
    let [received, _] = run(&place, &sides("--reveal threshold-matches:3", "", ""));
    received.expect_success();
    assert_eq!(received.text(), "email,spent,kept\n");
    assert!(received.err.contains("fewer than 4"));
}

/// Runs a Python program of the examples.
fn example(place: &Place, python: &str, name: &str, words: &str) -> String {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shares/");
    let ended = Command::new(python)
        .arg(format!("{program}{name}"))
        .args(words.split(' '))
        .current_dir(place.path("."))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(ended.status.success(), "{}", text(ended.stderr));
    text(ended.stdout)
}

/// Both sides write their shares.
fn shares(place: &Place, both: &str, ours: &str, theirs: &str) {
    let both = format!("--reveal shares {both}");
    let ours = format!("{ours} --output near.csv");
    let theirs = format!("{theirs} --output far.csv");
    let names = run(place, &sides(&both, &ours, &theirs)).map(|ended| {
        ended.expect_success();
        assert_eq!(ended.text(), "");
        assert!(!ended.err.contains("rows written"), "{}", ended.err);
        let mut lines = ended.err.lines();
        lines
            .find(|line| line.starts_with("run "))
            .map(str::to_owned)
    });
    assert!(names[0].is_some() && names[0] == names[1], "{names:?}");
}

#[test]
fn shares_open_to_the_matches_and_their_values() {
    let place = place();
    for (protocol, ours, theirs, header, rows) in [
        ("auto", "", "", "row", "1 2 5"),
        (
            RECIPES[0],
            OURS_OF,
            THEIRS_OF,
            "row,receiver_value,sender_value",
            "1,1075,3 2,-300,5 5,710,-2",
        ),
        (
            RECIPES[1],
            "",
            THEIRS_OF,
            "row,sender_value",
            "1,3 2,5 5,-2",
        ),
        (
            RECIPES[2],
            OURS_OF,
            "",
            "row,receiver_value",
            "1,1075 2,-300 5,710",
        ),
    ] {
        shares(&place, &format!("--protocol {protocol}"), ours, theirs);
        let opened = example(&place, "python3", "open_shares.py", "near.csv far.csv");
        let expected = format!("{header}\n{}\n", rows.replace(' ', "\n"));
        assert_eq!(opened, expected, "{protocol}");
        // The sender does not know which rows are in the cells.
        let far = place.read("far.csv");
        let header = header.replace("row", "match");
        assert_eq!(far.lines().next(), Some(&*header));
    }
    // To standard output too.
    let [received, sent] = run(
        &place,
        &sides("--reveal shares", "--output -", "--output far.csv"),
    );
    sent.expect_success();
    received.expect_success();
    place.write("near.csv", received.text());
    let opened = example(&place, "python3", "open_shares.py", "near.csv far.csv");
    assert_eq!(opened, "row\n1\n2\n5\n");
}

/// The payload of either side, beside values, in each recipe.
#[test]
fn shares_open_to_payloads() {
    let place = place();
    place.write(
        "texts.csv",
        "mail,visits,text\nann@x.org,3,Ännchen\nbob@x.org,5,\ndee@x.org,-2,D\n",
    );
    let ours = "--payload kept --payload-width 2";
    for (protocol, theirs, header, rows) in [
        (
            "auto",
            "--payload text --payload-width 8",
            "receiver_payload,sender_payload",
            ["2,Ännchen", "0,", "4,D"],
        ),
        (
            RECIPES[1],
            THEIRS_OF,
            "sender_value,receiver_payload",
            ["3,2", "5,0", "-2,4"],
        ),
        (
            RECIPES[2],
            "--payload text --payload-width 9 --value visits",
            "sender_value,receiver_payload,sender_payload",
            ["3,2,Ännchen", "5,0,", "-2,4,D"],
        ),
    ] {
        let both = format!("--security semi-honest --reveal shares --protocol {protocol}");
        let ours = format!("{both} {ours} --output near.csv");
        let theirs = format!("{both} {theirs} --output far.csv");
        let one_row = "email,kept\nann@x.org,2\nbob@x.org,0\ndee@x.org,4\n";
        place.write("one.csv", one_row);
        let jobs = [
            Arguments::new("one.csv", "email").with(&ours),
            Arguments::new("texts.csv", "mail").with(&theirs),
        ];
        run(&place, &jobs).iter().for_each(Ended::expect_success);
        let opened = example(&place, "python3", "open_shares.py", "near.csv far.csv");
        let rows: String = (1..)
            .zip(rows)
            .map(|(i, row)| format!("{i},{row}\n"))
            .collect();
        assert_eq!(opened, format!("row,{header}\n{rows}"), "{protocol}");
    }
}

#[test]
fn payloads_that_do_not_fit_are_refused_before_anything_is_sent() {
    let place = place();
    let receive = |words: &str| {
        place.run(&format!(
            "receive --input ours.csv --key email --listen 127.0.0.1:0 --identity receiver.key --security semi-honest \
             --peer {} {words}",
            place.sender
        ))
    };
    let shares = "--reveal shares --output x.csv --payload spent --payload-width";
    let ended = receive(&format!("{shares} 4"));
    ended.expect_failure(3, "row 1");
    assert!(ended.hint().contains("--payload-width"), "{}", ended.err);
    assert!(!place.path("x.csv").exists());
    receive(&format!("{shares} 0")).expect_failure(2, "--payload-width");
    receive("--reveal shares --output x.csv --payload spent").expect_failure(2, "a known width");
    receive("--reveal size --payload spent --payload-width 8").expect_failure(2, "shares");
    let both = format!("{shares} 8 --take-payload");
    receive(&both).expect_failure(2, "payload");
}

/// What was kept would tell the sender of the next run that the threshold was met.
#[test]
fn rows_above_a_threshold_are_not_kept() {
    let place = place();
    let both = "--reveal threshold-matches:2 --work-dir";
    let [ours, theirs] = sides(both, "ours.work --output /dev/full", "theirs.work");
    let [received, sent] = run(&place, &[ours, theirs]);
    received.expect_failure(7, "/dev/full: cannot be written");
    sent.expect_success();
    assert!(!place.path("ours.work/journal").exists());
    let left = std::fs::read_dir(place.path("ours.work"));
    let names: Vec<_> = left
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(names.is_empty() || names == ["lock"], "{names:?}");
}

/// Needs a network for MPyC.
#[test]
#[ignore = "installs a package"]
fn shares_go_into_another_engine() {
    let place = place();
    let venv = place.path("venv");
    let run = |program: &str, words: &[&str]| {
        let ended = Command::new(program).args(words).output().unwrap();
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    };
    run("python3", &["-m", "venv", venv.to_str().unwrap()]);
    let python = venv.join("bin/python");
    let python = python.to_str().unwrap();
    run(python, &["-m", "pip", "install", "--quiet", "mpyc==0.11"]);
    shares(&place, "", "", THEIRS_OF);
    let words = "-M3 --no-log sender_value near.csv far.csv";
    assert_eq!(
        example(&place, python, "largest_value.py", words),
        "largest value: 5\n"
    );
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_sent() {
    let place = place();
    let usage = |words: &str, line: &str| {
        let words = format!(
            "receive --input ours.csv --key email --listen 127.0.0.1:0 --identity receiver.key \
             --peer {} {words}",
            place.sender
        );
        let ended = place.run(&words);
        ended.expect_failure(2, line);
        ended
    };
    let weak_protocol = usage(
        "--reveal size",
        "circuit-okvs finds the size with semi-honest security",
    );
    assert_eq!(
        weak_protocol.hint(),
        "--security semi-honest on both sides accepts that: each side then trusts the other to follow the protocol"
    );
    let weak = |words: &str| format!("--security semi-honest {words}");
    usage(
        &weak("--reveal nothing"),
        "matches, size, threshold:N, sum, inner-product, threshold-matches:N, shares",
    );
    usage(&weak("--reveal threshold:x"), "a size is a number");
    usage(
        &weak("--reveal threshold-matches:1 --both"),
        "the sender cannot learn the threshold-matches too",
    );
    usage(&weak("--reveal size --output x.csv"), "is printed");
    usage(
        &weak("--reveal size --value spent"),
        "a run for size takes no values",
    );
    usage(
        &weak("--reveal inner-product"),
        "needs values on both sides",
    );
    usage(
        &weak("--min-size 3"),
        "a minimum size does not go with matches",
    );
    usage(
        &weak("--reveal shares --min-size 3"),
        "a minimum size does not go with shares",
    );
    usage(&weak("--reveal threshold-matches"), "threshold-matches:N");
    usage(
        &weak("--reveal size --protocol vole"),
        "vole does not reveal size",
    );
    for (scale, bound, most) in [
        (18, "10", "9"),
        (2, "0", "92233720368547758"),
        (0, "9223372036854775808", "9223372036854775807"),
    ] {
        let ended = usage(
            &weak(&format!(
                "--reveal sum --value spent --value-scale {scale} --value-bound {bound}"
            )),
            &format!("a bound of {bound} is impossible"),
        );
        assert_eq!(
            ended.hint(),
            format!("--value-bound is a number above 0 and up to {most} at --value-scale {scale}")
        );
    }
    usage(
        &weak("--reveal sum --value spent --value-scale 19"),
        "'19' for '--value-scale <DIGITS[,DIGITS…]>': 19 is not in 0..=18",
    );
    usage(&weak("--reveal sum --value-bound 10"), "--value");
    usage(
        &weak("--reveal size,matches"),
        "size,sum, size,inner-product",
    );
    usage(
        &weak("--reveal size,inner-product --value spent,kept"),
        "the size,inner-product takes one column of values on each side",
    );
    usage(
        &weak("--reveal sum --value spent,kept --value-bound 1,2,3"),
        "one bound for all columns of values, or one for each",
    );
    usage(
        &weak("--reveal sum --value a,b,c,d,e,f,g,h,i"),
        "at most eight columns of values",
    );
}

#[test]
fn values_that_cannot_be_computed_with_are_named_by_row() {
    let place = place();
    let with = |rows: &str, options: &str| {
        place.write("ours.csv", format!("email,spent\n{rows}"));
        let [receiver, _] = sides("--reveal sum", &format!("--value spent {options}"), "");
        place.receiver(&receiver, "--listen 127.0.0.1:0").wait()
    };
    for (rows, options, line) in [
        (
            "a,1\nb,\n",
            "",
            "row 2 (line 3): the value in column \"spent\" is empty",
        ),
        ("a,1e3\n", "", "is not a decimal number"),
        (
            "a,1.5\n",
            "",
            "more digits after the decimal point than were declared",
        ),
        (
            "a,1000\n",
            "--value-bound 999",
            "is beyond the bound of 999",
        ),
        (
            "b,1\na,900\nb,2\na,900\n",
            "--value-bound 999",
            "row 2 (line 3): the value in column \"spent\" is beyond the bound of 999 in the sum over the rows of its key",
        ),
        (
            "a,1\na,1\n",
            "--value-repeated refuse",
            "row 2 (line 3): the value in column \"spent\" belongs to a key that an earlier row has",
        ),
    ] {
        with(rows, options).expect_failure(3, line);
    }
}

#[test]
fn a_side_with_too_little_memory_is_told_what_would_do() {
    let place = place();
    let rows: String = (0..2000).map(|i| format!("{i},1\n")).collect();
    for (name, key) in [("ours.csv", "email,spent"), ("theirs.csv", "mail,visits")] {
        place.write(name, format!("{key}\n{rows}"));
    }
    let sides_of = |ours: &str, theirs: &str| sides("--reveal sum", ours, theirs);
    let ended = run(&place, &sides_of("--memory 3M", "--value visits"));
    let enough = ended.map(|ended| {
        ended.expect_failure(7, "bytes of memory, which do not suffice for");
        let words = ended.err.trim_end().strip_suffix(" are enough");
        let words = words.and_then(|words| {
            words.split_once("hint: raise --memory on the side that gives less: half of it or more is for a bucket, and ")
        });
        words
            .unwrap_or_else(|| panic!("{}", ended.err))
            .1
            .to_owned()
    });
    assert_eq!(enough[0], enough[1]);
    let memory = format!("--memory {}", enough[0]);
    for ended in run(&place, &sides_of(&memory, "--value visits")) {
        ended.expect_success();
    }
}

/// Sums in buckets, and runs that are killed on their way.
#[test]
fn a_killed_run_goes_on_adding() {
    const ROWS: i64 = 3000;
    let place = place();
    let rows = |first: i64| {
        let row = |i: i64| format!("{i},{}\n", i % 1000 - 400);
        (first..first + ROWS).map(row).collect::<String>()
    };
    place.write("ours.csv", "email,spent\n".to_owned() + &rows(0));
    place.write("theirs.csv", "mail,visits\n".to_owned() + &rows(1000));
    let common = 1000..ROWS;
    let sum: i64 = common.clone().map(|i| i % 1000 - 400).sum();
    let expected = format!("size\t{}\nsum\t{sum}\n", common.count());
    let memory = memory_of_buckets("circuit-okvs", [ROWS as u64; 2], 40, 8, [false, true]);
    let sides = |memory: &str| {
        let both = format!("--reveal size,sum {memory}");
        let ours = "--work-dir near --report r.json";
        sides(&both, ours, "--value visits --work-dir far")
    };
    let (more, memory) = (
        sides("--memory 1G --threads 4"),
        format!("--memory {memory}"),
    );
    let sides = sides(&memory);
    // With more memory, those that are left run two at a time.
    for (kill_receiver, again, at_once) in [(true, &sides, 1), (false, &sides, 1), (true, &more, 2)]
    {
        let mut sender = place.sender(&sides[1], "--listen 127.0.0.1:0");
        let mut receiver = place.receiver(&sides[0], &sender.endpoint());
        let killed = |party: &mut Running| {
            party.wait_for("bucket 4 of 8");
            party.process.kill().unwrap();
            party.process.wait().unwrap();
        };
        match kill_receiver {
            true => {
                killed(&mut receiver);
                sender.wait().expect_failure(4, "");
            }
            false => {
                killed(&mut sender);
                receiver.wait().expect_failure(4, "");
            }
        }
        let ended = run(&place, again);
        for ended in &ended {
            ended.expect_success();
            assert!(ended.err.contains("going on after bucket"), "{}", ended.err);
        }
        assert_eq!(ended[0].text(), expected);
        let report: Value = serde_json::from_str(&place.read("r.json")).unwrap();
        assert_eq!(report["contract"]["buckets_at_once"], at_once);
    }
    // Once all buckets have run, or once the total is known: it is the same.
    for kill_receiver in [true, false] {
        let mut sender = place.sender(&sides[1], "--listen 127.0.0.1:0");
        let mut receiver = place.receiver(&sides[0], &sender.endpoint());
        let party = if kill_receiver {
            &mut receiver
        } else {
            &mut sender
        };
        party.wait_for("phase: opening");
        party.process.kill().unwrap();
        party.process.wait().unwrap();
        let left = if kill_receiver { sender } else { receiver };
        left.wait();
        let ended = run(&place, &sides);
        ended.iter().for_each(Ended::expect_success);
        assert_eq!(ended[0].text(), expected);
    }
    // Other values are another set.
    let mut sender = place.sender(&sides[1], "--listen 127.0.0.1:0");
    let mut receiver = place.receiver(&sides[0], &sender.endpoint());
    receiver.wait_for("bucket 4 of 8");
    receiver.process.kill().unwrap();
    receiver.process.wait().unwrap();
    sender.wait().expect_failure(4, "");
    let others = place
        .read("theirs.csv")
        .replacen("2000,-400\n", "2000,-399\n", 1);
    place.write("theirs.csv", others);
    let [received, sent] = run(&place, &sides);
    received.expect_success();
    assert!(
        sent.err
            .contains("over: this side's keys or values have changed"),
        "{}",
        sent.err
    );
    assert_eq!(received.text(), format!("size\t2000\nsum\t{}\n", sum + 1));
    assert!(!place.path("near").exists() && !place.path("far").exists());
}

/// Rows above a threshold that is met by all buckets together, and runs that are killed on their way: what these leave opens
/// nothing, and the next one begins anew.
#[test]
fn rows_above_a_threshold_are_found_in_buckets() {
    const ROWS: u64 = 3000;
    let place = place();
    let rows = |keys: Range<u64>| {
        let row = |i: u64| format!("{i},{}\n", i % 7);
        keys.map(row).collect::<String>()
    };
    place.write("ours.csv", "email,spent\n".to_owned() + &rows(0..ROWS));
    place.write(
        "theirs.csv",
        "mail,visits\n".to_owned() + &rows(1000..1000 + ROWS),
    );
    let memory = memory_of_buckets("circuit-okvs", [ROWS; 2], 40, 4, [false; 2]);
    let sides_of = |above: u64| {
        let both = format!("--reveal threshold-matches:{above} --memory {memory}");
        let ours = "--work-dir near --output out.csv --report r.json";
        sides(&both, ours, "--work-dir far")
    };
    let check = |above: u64| {
        let [received, sent] = run(&place, &sides_of(above));
        for ended in [&received, &sent] {
            ended.expect_success();
            assert!(!ended.err.contains("going on"), "{}", ended.err);
        }
        let report: Value = serde_json::from_str(&place.read("r.json")).unwrap();
        assert!(report["contract"]["buckets"].as_u64() >= Some(4));
        let (found, said, matches, below) = match above < 2000 {
            true => (rows(1000..ROWS), "", 2000.into(), Value::Null),
            false => (String::new(), "fewer than 2001\n", Value::Null, 2001.into()),
        };
        assert_eq!((&report["matches"], &report["below"]), (&matches, &below));
        assert_eq!(place.read("out.csv"), "email,spent\n".to_owned() + &found);
        assert_eq!(received.text(), said);
        assert!(!sent.err.contains("matches"), "{}", sent.err);
        assert!(!place.path("near").exists() && !place.path("far").exists());
    };
    check(1999);
    check(2000);
    for (line, kill_receiver) in [
        ("bucket 3 of", true),
        ("bucket 3 of", false),
        ("phase: opening", true),
    ] {
        std::fs::remove_file(place.path("out.csv")).unwrap();
        let [ours, theirs] = sides_of(1999);
        let mut sender = place.sender(&theirs, "--listen 127.0.0.1:0");
        let receiver = place.receiver(&ours, &sender.endpoint());
        let (mut killed, left) = match kill_receiver {
            true => (receiver, sender),
            false => (sender, receiver),
        };
        killed.wait_for(line);
        killed.process.kill().unwrap();
        killed.process.wait().unwrap();
        let left = left.wait();
        if line.starts_with("bucket") {
            left.expect_failure(4, "");
            assert!(!place.path("out.csv").exists());
        }
        assert!(!place.path("near/journal").exists() && !place.path("far/journal").exists());
        check(1999);
    }
}

#[test]
fn values_can_be_in_a_column_of_the_key() {
    let place = place();
    place.write(
        "ours.jsonl",
        "{\"n\":1}\n{\"n\":2}\n{\"n\":\"4\"}\n{\"n\":null}\n",
    );
    place.write("theirs.csv", "mail\n4\n2\n3\n");
    let options = "--security semi-honest --reveal inner-product --value-bound 9";
    let side = |file, key| {
        Arguments::new(file, key)
            .with(options)
            .with("--value")
            .with(key)
    };
    let [received, sent] = run(
        &place,
        &[side("ours.jsonl", "n"), side("theirs.csv", "mail")],
    );
    sent.expect_success();
    received.expect_success();
    assert_eq!(received.text(), "20\n");
}

#[test]
fn sides_that_disagree_on_values_say_so() {
    let place = place();
    let theirs = "--value visits";
    for (jobs, line) in [
        (sides("--reveal sum", "", ""), "neither has any"),
        (
            sides("--reveal sum", "--value spent --value-scale 2", theirs),
            "both have some",
        ),
        (
            [
                sides("--reveal size", "--min-size 2", "")[0].clone(),
                sides("--reveal size", "", "")[1].clone(),
            ],
            "minimum size",
        ),
        (
            [
                sides("--reveal size", "", "")[0].clone(),
                sides("--reveal sum", "", theirs)[1].clone(),
            ],
            "reveal",
        ),
    ] {
        for ended in run(&place, &jobs) {
            ended.expect_failure(6, line);
            let is_of_values = ["neither has any", "both have some"].contains(&line);
            assert_eq!(
                ended.hint().contains("--value "),
                is_of_values,
                "{}",
                ended.err
            );
        }
    }
    let large = "--value-bound 9000000000000000000";
    let jobs = sides("--reveal sum", "", &format!("{theirs} {large}"));
    for ended in run(&place, &jobs) {
        ended.expect_failure(7, "could exceed 63 bits");
    }
}
