//! Unions: the rows of the sender that the receiver lacks.

use crate::faults::memory_of_buckets;
use crate::support::{Arguments, Place, exchange};

const OURS: &str = "mail,x\nann@x.org,1\nBob@x.org,2\n,3\n";
const THEIRS: &str = "mail,name,n\nbob@x.org,Bob,1\ncy@x.org,\"Cy, \"\"C\"\"\",2\ndee@x.org,,3\n,nobody,4\ndee@x.org,,3\n";
const WORDS: &str = "--normalize mail=email --reveal union --security semi-honest";

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.csv", THEIRS);
    place
}

fn ours(words: &str) -> Arguments {
    Arguments::new("ours.csv", "mail").with(WORDS).with(words)
}

fn theirs(words: &str) -> Arguments {
    Arguments::new("theirs.csv", "mail").with(WORDS).with(words)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1..].sort_unstable();
    lines
}

#[test]
fn the_receiver_gets_the_rows_that_it_lacks() {
    let place = place();
    for (protocol, words) in [
        ("auto", ""),
        ("circuit-okvs", "--post-quantum"),
        ("circuit-rb-psm1", "--optimize traffic"),
        ("circuit-rb-psm2", "--lambda 50"),
    ] {
        let words = format!("--protocol {protocol} {words}");
        let pair = exchange(
            &place,
            &ours(&format!("{words} --output out.csv --report ours.json")),
            &theirs(&format!("{words} --payload mail,name --report theirs.json")),
        );
        pair.expect_success();
        let expected = ["mail,name", "cy@x.org,\"Cy, \"\"C\"\"\"", "dee@x.org,\"\""];
        assert_eq!(sorted(&place.read("out.csv")), expected, "{words}");
        let report =
            |name: &str| -> serde_json::Value { serde_json::from_str(&place.read(name)).unwrap() };
        let [near, far] = ["ours.json", "theirs.json"].map(report);
        assert_eq!(
            (&near["matches"], &near["rows_written"]),
            (&1.into(), &2.into())
        );
        assert!(far["matches"].is_null() && far["rows_written"].is_null());
        std::fs::remove_file(place.path("out.csv")).unwrap();
    }
}

/// Several rows of a key; and on standard output, where no output is named.
#[test]
fn every_row_of_a_key_comes_if_there_is_room() {
    let place = place();
    place.write(
        "theirs.csv",
        "mail,n\ncy@x.org,2\nbob@x.org,1\ncy@x.org,3\ncy@x.org,2\n",
    );
    let width = "--payload-width 9";
    let pair = exchange(
        &place,
        &ours(&format!("{width} --rows-per-key 4")),
        &theirs(&format!("{width} --payload n --rows-per-key 3")),
    );
    pair.expect_success();
    assert_eq!(sorted(pair.receiver.text()), ["n", "2", "2", "3"]);
}

#[test]
fn rows_come_from_all_buckets() {
    let place = place();
    let table = |keys: std::ops::Range<u32>| {
        let rows: String = keys.map(|key| format!("k{key}@x.org,{key}\n")).collect();
        format!("mail,n\n{rows}")
    };
    place.write("ours.csv", table(0..3000));
    place.write("theirs.csv", table(1000..6000));
    let memory = memory_of_buckets("circuit-okvs", [3000, 5000], 40, 16, [true; 2]);
    let words = format!("--protocol circuit-okvs --memory {memory}");
    let pair = exchange(
        &place,
        &ours(&format!("{words} --output out.csv --report ours.json")),
        &theirs(&format!("{words} --payload n,mail --payload-width 40")),
    );
    pair.expect_success();
    let report: serde_json::Value = serde_json::from_str(&place.read("ours.json")).unwrap();
    let buckets = &report["contract"]["buckets"];
    assert!(buckets.as_u64().unwrap() > 1, "{buckets}");
    assert_eq!(report["matches"], 2000);
    let row = |key: u32| format!("{key},k{key}@x.org");
    let expected: Vec<String> = (3000..6000).map(row).collect();
    assert_eq!(sorted(&place.read("out.csv"))[1..], expected);
    // The bucket of a row tells of its key.
    std::fs::remove_file(place.path("out.csv")).unwrap();
    let pair = exchange(
        &place,
        &ours(&format!("{words} --output out.csv")),
        &theirs(&format!("{words} --payload n")),
    );
    pair.sender.expect_failure(2, "would tell of their keys");
    pair.receiver.expect_failure(7, "it cannot take part");
    assert!(!place.path("out.csv").exists());
}

/// Sets of one and of none, and a receiver that has all. One that has nothing would get the table.
#[test]
fn small_sets_have_unions_too() {
    let place = place();
    let mail = |keys: &[&str]| {
        keys.iter()
            .map(|key| format!("{key}@x.org\n"))
            .collect::<String>()
    };
    for (ours_has, theirs_has) in [
        (&["a"][..], &[][..]),
        (&["a"], &["a"]),
        (&["a"], &["b"]),
        (&["a", "b"], &["a", "b"]),
    ] {
        place.write("ours.csv", format!("mail\n{}", mail(ours_has)));
        place.write("theirs.csv", format!("mail\n{}", mail(theirs_has)));
        let pair = exchange(
            &place,
            &ours("--output out.csv --allow-empty"),
            &theirs("--payload mail --allow-empty"),
        );
        pair.expect_success();
        let lacked: Vec<&str> = theirs_has
            .iter()
            .filter(|key| !ours_has.contains(key))
            .copied()
            .collect();
        let expected = format!("mail\n{}", mail(&lacked));
        assert_eq!(sorted(&place.read("out.csv")), sorted(&expected));
    }
    place.write("ours.csv", "mail\n");
    let ours = ours("--output none.csv --allow-empty");
    let pair = exchange(&place, &ours, &theirs("--payload mail"));
    pair.expect_failures(7, "all rows of the sender");
    assert!(!place.path("none.csv").exists());
}

#[test]
fn a_side_alone_refuses_what_a_union_is_not() {
    let place = place();
    let receive = |words: &str| {
        let arguments = ours(words).output("out.csv");
        place.receiver(&arguments, "--connect 127.0.0.1:1").wait()
    };
    for (words, said) in [
        ("--both", "cannot learn the union too"),
        ("--min-size 2", "a minimum size does not go with union"),
        ("--work-dir work", "without a work directory"),
        ("--rows all", "results of rows"),
        ("--payload x", "no payload of its own"),
        (
            "--epsilon 1 --ledger ledger.jsonl",
            "union would tell of single keys",
        ),
        ("--protocol vole", "does not reveal union"),
    ] {
        receive(words).expect_failure(2, said);
    }
    let malicious = ours("").without("--security").output("out.csv");
    let malicious = malicious.with("--security malicious");
    let ended = place.receiver(&malicious, "--connect 127.0.0.1:1").wait();
    ended.expect_failure(2, "semi-honest");
    let send = |words: &str| place.sender(&theirs(words), "--connect 127.0.0.1:1").wait();
    send("").expect_failure(2, "columns that the sender hands over");
    send("--payload name --output x.csv").expect_failure(2, "--output");
    send("--payload name --payload-width 4 --wait 1").expect_failure(3, "and there are 4");
    assert!(
        ["out.csv", "x.csv", "work"]
            .iter()
            .all(|name| !place.path(name).exists())
    );
}

/// Neither side runs if one has another width than the other takes, or asks for something else.
#[test]
fn sides_that_differ_do_not_run() {
    let place = place();
    let pair = exchange(
        &place,
        &ours("--payload-width 20 --output out.csv"),
        &theirs("--payload mail --payload-width 21"),
    );
    pair.expect_failures(6, "columns handed over");
    assert!(!place.path("out.csv").exists());
}

#[test]
fn check_is_of_the_side_that_its_options_are_of() {
    let place = place();
    let check = |file: &str, more: &str| {
        let text = format!("check --input {file} --key mail {WORDS} {more}");
        place.run(&text).expect_success();
    };
    check("ours.csv", "--rows-per-key 2 --terms ours.json");
    check(
        "theirs.csv",
        "--payload mail,name --rows-per-key 2 --against ours.json",
    );
}

#[test]
fn a_result_with_commas_has_no_name_that_stands_for_tabs() {
    let place = place();
    for name in ["out.tsv", "out.psv.gz", "out.jsonl"] {
        let arguments = ours("").output(name);
        let ended = place.receiver(&arguments, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(2, "the name is of ");
    }
}
