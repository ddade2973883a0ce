//! Several rows per key: a result as a join has it.

use std::fs::File;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::support::{Arguments, Place, exchange};

const OURS: &str = "mail,x\nann,1\nbob,2\n,3\nann,4\ncy,5\ndee,6\n";
const THEIRS: &str = "mail,order,sum\nann,A1,10\nbob,B1,7\nann,A2,\neve,E1,1\nann,A1,10\ndee,,\n";

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.csv", THEIRS);
    place
}

fn ours(words: &str) -> Arguments {
    Arguments::new("ours.csv", "mail").with(words)
}

fn theirs(words: &str) -> Arguments {
    Arguments::new("theirs.csv", "mail").with(words)
}

#[test]
fn the_result_has_a_row_for_each_pair() {
    for protocol in ["auto", "vole", "kkrt --security semi-honest"] {
        for rows in ["matching", "all"] {
            let place = place();
            let words = format!("--protocol {protocol} --rows-per-key 3");
            let pair = exchange(
                &place,
                &ours(&format!(
                    "{words} --take-payload --rows {rows} --output out.csv --report report.json"
                )),
                &theirs(&format!("{words} --payload order,sum --payload-width 12")),
            );
            pair.expect_success();
            let expected = match rows {
                "matching" => {
                    "mail,x,peer_order,peer_sum\n\
                     ann,1,A1,10\nann,1,A2,\"\"\nann,1,A1,10\n\
                     bob,2,B1,7\n\
                     ann,4,A1,10\nann,4,A2,\"\"\nann,4,A1,10\n\
                     dee,6,\"\",\"\"\n"
                }
                _ => {
                    "mail,x,in_both,peer_order,peer_sum\n\
                     ann,1,true,A1,10\nann,1,true,A2,\"\"\nann,1,true,A1,10\n\
                     bob,2,true,B1,7\n\
                     ,3,false,,\n\
                     ann,4,true,A1,10\nann,4,true,A2,\"\"\nann,4,true,A1,10\n\
                     cy,5,false,,\n\
                     dee,6,true,\"\",\"\"\n"
                }
            };
            assert_eq!(place.read("out.csv"), expected, "{protocol}");
            let report: serde_json::Value =
                serde_json::from_str(&place.read("report.json")).unwrap();
            assert_eq!(report["rows_written"], expected.lines().count() as u64 - 1);
            assert_eq!(report["contract"]["labels"]["rows"], 3);
            let said = "handed over     order,sum in 12 bytes for each of up to 3 rows";
            for side in [&pair.receiver, &pair.sender] {
                assert!(side.err.contains(said), "{}", side.err);
                assert!(!side.err.contains("declared"), "{}", side.err);
            }
        }
    }
}

/// The line is written several times.
#[test]
fn pairs_of_a_last_line_without_an_end_are_lines() {
    for (name, table, expected) in [
        (
            "ours.csv",
            "mail,x\nbob,1\nann,2",
            "mail,x,peer_sum\nbob,1,7\nann,2,10\nann,2,\"\"\nann,2,10",
        ),
        (
            "ours.csv",
            "mail,x\r\nbob,1\r\nann,2",
            "mail,x,peer_sum\r\nbob,1,7\r\nann,2,10\r\nann,2,\"\"\r\nann,2,10",
        ),
        (
            "ours.jsonl",
            "{\"mail\":\"ann\"}",
            "{\"mail\":\"ann\",\"peer_sum\":\"10\"}\n{\"mail\":\"ann\",\"peer_sum\":\"\"}\n\
             {\"mail\":\"ann\",\"peer_sum\":\"10\"}",
        ),
    ] {
        let place = place();
        place.write(name, table);
        let ours =
            Arguments::new(name, "mail").with("--rows-per-key 3 --take-payload --output out.dat");
        exchange(&place, &ours, &theirs("--rows-per-key 3 --payload sum")).expect_success();
        assert_eq!(place.read("out.dat"), expected);
    }
}

/// Also if it may hand over several rows of a key, in as many bytes.
#[test]
fn a_row_has_no_more_bytes_than_the_receiver_accepts() {
    let place = place();
    let ours = ours("--rows-per-key 5 --take-payload --payload-width 20 --output out.csv");
    let theirs = |words: &str| theirs(&format!("--payload sum {words}"));
    exchange(
        &place,
        &ours,
        &theirs("--rows-per-key 3 --payload-width 21"),
    )
    .expect_failures(6, "columns handed over");
    exchange(
        &place,
        &ours,
        &theirs("--rows-per-key 3 --payload-width 20"),
    )
    .expect_success();
}

#[test]
fn pairs_are_rows_of_any_format() {
    let place = place();
    for output in ["out.jsonl", "out.parquet", "out.tsv"] {
        exchange(
            &place,
            &ours(&format!(
                "--rows-per-key 5 --take-payload --output {output} --memory 600K"
            )),
            &theirs("--rows-per-key 4 --payload sum --payload-width 10"),
        )
        .expect_success();
    }
    let expected = "{\"mail\":\"ann\",\"x\":\"1\",\"peer_sum\":\"10\"}\n\
        {\"mail\":\"ann\",\"x\":\"1\",\"peer_sum\":\"\"}\n";
    assert!(
        place.read("out.jsonl").starts_with(expected),
        "{}",
        place.read("out.jsonl")
    );
    assert_eq!(place.read("out.tsv").lines().count(), 9);
    let file = File::open(place.path("out.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let x = batches
        .iter()
        .flat_map(|batch| batch["x"].as_string::<i32>().iter().flatten());
    assert_eq!(
        x.collect::<Vec<_>>(),
        ["1", "1", "1", "2", "4", "4", "4", "6"]
    );
    // From columns to columns.
    let again = exchange(
        &place,
        &Arguments::new("out.parquet", "mail")
            .with("--rows-per-key 5 --take-payload --output twice.parquet"),
        &theirs("--rows-per-key 4 --payload order --payload-width 10"),
    );
    again.expect_success();
    let file = File::open(place.path("twice.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let rows = reader
        .build()
        .unwrap()
        .map(|batch| batch.unwrap().num_rows());
    assert_eq!(rows.sum::<usize>(), 9 + 1 + 9 + 1);
}

#[test]
fn more_rows_than_declared_are_an_error_before_anything_is_sent() {
    let place = place();
    let pair = exchange(
        &place,
        &ours("--rows-per-key 2 --take-payload --output out.csv --wait 1"),
        &theirs("--rows-per-key 2 --payload order"),
    );
    assert_eq!(pair.sender.code, Some(3), "{}", pair.sender.err);
    assert!(
        pair.sender.err.contains(
            "theirs.csv: row 5 (line 6): its key has more than 2 rows, the most that are handed over; the first is row 1"
        ),
        "{}",
        pair.sender.err
    );
    assert!(
        pair.sender.err.contains("raise --rows-per-key"),
        "{}",
        pair.sender.err
    );
    assert!(!place.names().contains(&"out.csv".to_owned()));
    // One side alone, a receiver that takes fewer, and what does not go with it.
    for (receiver, sender) in [
        ("--take-payload", "--rows-per-key 3 --payload order"),
        (
            "--take-payload --rows-per-key 2",
            "--rows-per-key 3 --payload order",
        ),
        (
            "--take-payload --rows-per-key 3 --payload-width 8",
            "--rows-per-key 3 --payload order --payload-width 9",
        ),
    ] {
        let pair = exchange(
            &place,
            &ours(&format!("{receiver} --output out.csv")),
            &theirs(sender),
        );
        pair.expect_failures(6, "columns handed over");
    }
    let refused = |words: &str, expected: &str| {
        let command = format!(
            "receive --input ours.csv --key mail --identity receiver.key --peer {} --connect 127.0.0.1:1 --wait 1 {words}",
            place.sender
        );
        place.run(&command).expect_failure(2, expected);
    };
    refused(
        "--rows-per-key 3",
        "rows per key are for columns that are handed over",
    );
    refused("--rows-per-key 0 --take-payload", "0 is not in 1..=1024");
    refused(
        "--rows-per-key 3 --take-payload --both --align",
        "in no order that both sides share",
    );
}

#[test]
fn check_says_how_many_rows_a_key_has() {
    let place = place();
    let check = |rows: u32| {
        place.run(&format!(
            "check --input theirs.csv --key mail --payload order,sum --rows-per-key {rows}"
        ))
    };
    let found = check(3);
    found.expect_success();
    assert!(
        found.text().contains("and 3 rows of a key"),
        "{}",
        found.text()
    );
    assert!(
        !found.text().contains("refuses the table"),
        "{}",
        found.text()
    );
    let found = check(2);
    let warning = "a key has 3 rows, and at most 2 are handed over, so that a run refuses the table; raise --rows-per-key";
    assert!(found.text().contains(warning), "{}", found.text());
}
