//! Ids: columns beside the rows of both sides, and the list of all.

use std::collections::BTreeSet;

use serde_json::Value;
use vesica_tables::{RowSet, Source, SourceOptions, select_rows};

use crate::faults::memory_of_buckets;
use crate::support::{Arguments, Pair, Place, exchange};

const OURS: &str = "mail,x\nann@x.org,1\nBob@x.org,2\n,3\nann@x.org ,4\n";
const THEIRS: &str = "mail,name\nbob@x.org,Bob\ncy@x.org,Cy\nnobody,Dee\n";
const WORDS: &str = "--normalize mail=email --reveal ids --security semi-honest";

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.csv", THEIRS);
    place
}

fn side(input: &str, words: &str) -> Arguments {
    Arguments::new(input, "mail").with(WORDS).with(words)
}

/// Runs both sides with words of both and of each.
fn run(place: &Place, both: &str, ours: &str, theirs: &str) -> Pair {
    exchange(
        place,
        &side("ours.csv", &format!("{both} {ours}")),
        &side("theirs.csv", &format!("{both} {theirs}")),
    )
}

fn report(place: &Place, name: &str) -> Value {
    serde_json::from_str(&place.read(name)).unwrap()
}

/// The fields of a file, line by line.
fn fields(place: &Place, name: &str) -> Vec<Vec<String>> {
    let line = |line: &str| line.split(',').map(str::to_owned).collect();
    place.read(name).lines().map(line).collect()
}

/// Whether these are rows and ids of a list: the ids in order, in so many digits.
fn is_list(list: &[Vec<String>]) -> bool {
    let ids: BTreeSet<_> = list[1..].iter().map(|line| &line[1]).collect();
    let digits = |id: &String| {
        id.bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    list[0] == ["spine_row", "spine_id"]
        && (1..)
            .zip(&list[1..])
            .all(|(row, line)| line[0] == format!("{row}"))
        && ids
            .iter()
            .all(|id| id.len() == list[1][1].len() && digits(id))
        && ids.into_iter().eq(list[1..].iter().map(|line| &line[1]))
}

#[test]
fn both_sides_get_ids_and_the_same_list() {
    let place = place();
    let mut before = BTreeSet::new();
    for (protocol, words) in [
        ("auto", ""),
        ("circuit-okvs", "--post-quantum"),
        ("circuit-rb-psm1", "--optimize traffic"),
        ("circuit-rb-psm2", "--lambda 50"),
    ] {
        let pair = run(
            &place,
            &format!("--protocol {protocol} {words}"),
            "--output ours.out --report ours.json --spine-file ours.list",
            "--output theirs.out --report theirs.json --spine-file theirs.list",
        );
        pair.expect_success();
        let [list, other] = ["ours.list", "theirs.list"].map(|name| fields(&place, name));
        assert_eq!(list, other);
        // Ann, Bob and Cy.
        assert!(is_list(&list) && list.len() == 4, "{list:?}");
        let [near, far] = ["ours.out", "theirs.out"].map(|name| fields(&place, name));
        assert_eq!(near[0], ["mail", "x", "spine_row", "spine_id"]);
        assert_eq!(far[0], ["mail", "name", "spine_row", "spine_id"]);
        let own = |rows: &[Vec<String>]| -> Vec<String> {
            rows[1..].iter().map(|row| row[..2].join(",")).collect()
        };
        // Rows without a key have none.
        assert_eq!(own(&near), ["ann@x.org,1", "Bob@x.org,2", "ann@x.org ,4"]);
        assert_eq!(own(&far), ["bob@x.org,Bob", "cy@x.org,Cy"]);
        for row in near[1..].iter().chain(&far[1..]) {
            assert!(list.contains(&row[2..].to_vec()), "{row:?}");
        }
        assert_eq!(near[1][2..], near[3][2..]);
        assert_eq!(near[2][2..], far[1][2..]);
        let rows: BTreeSet<_> = [&near[1], &near[2], &far[2]].map(|row| &row[2]).into();
        assert_eq!(rows.len(), 3);
        for name in ["ours.json", "theirs.json"] {
            let report = report(&place, name);
            assert_eq!(
                (&report["spine_rows"], &report["matches"]),
                (&3.into(), &1.into())
            );
        }
        assert!(pair.sender.err.contains("spine rows"));
        // Another run has others.
        assert!(list[1..].iter().all(|line| before.insert(line[1].clone())));
    }
}

#[test]
fn a_table_with_ids_of_another_run_is_refused() {
    let place = place();
    place.write("theirs.csv", "mail,spine_id\nbob@x.org,7\n");
    place.write("theirs.jsonl", "{\"mail\":\"bob@x.org\",\"spine_row\":7}\n");
    for (file, name) in [("theirs.csv", "spine_id"), ("theirs.jsonl", "spine_row")] {
        let pair = exchange(
            &place,
            &side("ours.csv", "--output out.csv"),
            &side(file, "--output out.jsonl"),
        );
        let says = format!("a column is called {name:?} already");
        pair.sender.expect_failure(3, &says);
        assert!(!pair.receiver.err.contains(name), "{}", pair.receiver.err);
        let pair = exchange(
            &place,
            &side("ours.csv", "--output out.csv"),
            &side(file, "--output out.jsonl --columns mail"),
        );
        pair.expect_success();
    }
}

/// In the format of the table or of the name; a number is one.
#[test]
fn ids_are_columns_in_every_format() {
    let place = place();
    place.write(
        "theirs.jsonl",
        "{\"mail\":\"bob@x.org\",\"row\":7}\n{\"mail\":\"cy@x.org\"}\n",
    );
    let pair = exchange(
        &place,
        &side("ours.csv", "--output ours.parquet"),
        &side("theirs.jsonl", "--output out.jsonl"),
    );
    pair.expect_success();
    let lines = place.read("out.jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["row"], 7);
    let rows = |line: &Value| line["spine_row"].as_u64().unwrap();
    assert!(
        lines
            .iter()
            .all(|line| (1..=3).contains(&rows(line)) && line["spine_id"].is_string())
    );
    let path = place.path("ours.parquet");
    let source = Source::open(path, SourceOptions::default()).unwrap();
    let mut all = RowSet::none(3);
    (0..3).for_each(|row| all.insert(row));
    let (schema, batches) = select_rows(&source, &all).unwrap();
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["mail", "x", "spine_row", "spine_id"]);
    assert_eq!(schema.field(2).data_type().to_string(), "Int64");
    assert_eq!(
        batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
        3
    );
}

/// Rows of a side without an output are on standard output; the list goes to a file alone.
#[test]
fn outputs_are_optional() {
    let place = place();
    let pair = run(&place, "", "", "--spine-file list.csv");
    let lines = [&pair.receiver, &pair.sender].map(|ended| {
        ended.expect_success();
        ended.text().lines().count()
    });
    assert_eq!((lines, fields(&place, "list.csv").len()), ([4, 3], 4));
}

/// Sets of one and of none, all or nothing in common.
#[test]
fn small_sets_have_ids_too() {
    let place = place();
    let table = |keys: &[&str]| {
        let rows: String = keys.iter().map(|key| format!("{key}@x.org\n")).collect();
        format!("mail\n{rows}")
    };
    for (ours, theirs, count) in [
        (&[][..], &[][..], 0),
        (&[], &["a"], 1),
        (&["a"], &[], 1),
        (&["a"], &["a"], 1),
        (&["a"], &["b"], 2),
        (&["a", "b"], &["b", "a"], 2),
    ] {
        place.write("ours.csv", table(ours));
        place.write("theirs.csv", table(theirs));
        let both = "--allow-empty";
        let pair = run(
            &place,
            both,
            "--output ours.out --spine-file ours.list",
            "--output theirs.out --spine-file theirs.list",
        );
        pair.expect_success();
        let list = fields(&place, "theirs.list");
        assert_eq!(
            (&list, list.len()),
            (&fields(&place, "ours.list"), count + 1)
        );
        for (name, keys) in [("ours.out", ours), ("theirs.out", theirs)] {
            assert_eq!(fields(&place, name).len(), keys.len() + 1);
        }
    }
}

/// An id that comes with a bucket would tell of its key: both sides say so before anything of a key is sent.
#[test]
fn several_buckets_are_refused() {
    let place = place();
    let table = |keys: std::ops::Range<u32>| {
        let rows: String = keys.map(|key| format!("k{key}@x.org\n")).collect();
        format!("mail\n{rows}")
    };
    place.write("ours.csv", table(0..3000));
    place.write("theirs.csv", table(1000..6000));
    let memory = memory_of_buckets("circuit-okvs", [3000, 5000], 40, 16, [true; 2]);
    let pair = run(
        &place,
        "--protocol circuit-okvs",
        &format!("--memory {memory} --output ours.out"),
        "--output theirs.out --spine-file list.csv --report theirs.json",
    );
    pair.expect_failures(7, "ids are for whole sets");
    assert!(
        pair.sender
            .err
            .contains("raise --memory on the side that gives less")
    );
    let left = ["ours.out", "theirs.out", "list.csv"];
    assert!(left.iter().all(|name| !place.path(name).exists()));
}

#[test]
fn a_side_alone_refuses_what_ids_are_not() {
    let place = place();
    let receive = |words: &str| {
        let arguments = side("ours.csv", words).output("out.csv");
        place.receiver(&arguments, "--connect 127.0.0.1:1").wait()
    };
    for (words, said) in [
        ("--both", "both sides get their own"),
        ("--min-size 2", "a minimum size does not go with ids"),
        ("--work-dir work", "without a work directory"),
        ("--rows all", "the matches in any case"),
        ("--value x", "takes no values"),
        ("--payload x", "not with ids"),
        ("--take-payload", "where it reveals ids"),
        (
            "--epsilon 1 --ledger ledger.jsonl",
            "ids would tell of single keys",
        ),
        ("--pad-to 100", "not with ids"),
        ("--protocol vole", "does not reveal ids"),
        ("--spine-file out.csv", "are the same file"),
        ("--spine-file ours.csv", "are the same file"),
    ] {
        receive(words).expect_failure(2, said);
    }
    let malicious = side("ours.csv", "").without("--security").output("out.csv");
    let malicious = malicious.with("--security malicious");
    let ended = place.receiver(&malicious, "--connect 127.0.0.1:1").wait();
    ended.expect_failure(2, "semi-honest");
    let other = Arguments::new("ours.csv", "mail").with("--spine-file list.csv --output out.csv");
    let ended = place.receiver(&other, "--connect 127.0.0.1:1").wait();
    ended.expect_failure(2, "is for runs that reveal ids");
    assert!(
        ["out.csv", "list.csv", "work"]
            .iter()
            .all(|name| !place.path(name).exists())
    );
}
