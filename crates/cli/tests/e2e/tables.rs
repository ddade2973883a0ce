//! The main job over every kind of table, against a plain intersection computed here.

use std::collections::HashSet;
use std::fs::File;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::support::{Arguments, Place, csv_of, exchange};

/// Rows `id,note` with keys spread over a range, some twice, some blank.
pub(crate) fn rows(count: u64, seed: u64, range: u64) -> Vec<Vec<String>> {
    let mut state = seed;
    (0..count)
        .map(|i| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = match i % 50 {
                7 => String::new(),
                _ => format!("k{}", (state >> 33) % range),
            };
            vec![format!("n{i}"), key, format!("note {i}")]
        })
        .collect()
}

/// The rows of `ours` whose key column `theirs` has too; blanks match nothing.
pub(crate) fn plain(
    ours: &[Vec<String>],
    column: usize,
    theirs: &[Vec<String>],
    other: usize,
) -> Vec<Vec<String>> {
    let keys: HashSet<&str> = theirs.iter().map(|row| row[other].as_str()).collect();
    let kept = |row: &&Vec<String>| !row[column].is_empty() && keys.contains(row[column].as_str());
    ours.iter().filter(kept).cloned().collect()
}

pub(crate) const HEADER: [&str; 3] = ["n", "key", "note"];

#[test]
fn csv_equals_a_plain_intersection() {
    let place = Place::new();
    let (ours, theirs) = (rows(300, 1, 400), rows(200, 2, 400));
    place.write("ours.csv", csv_of(&HEADER, &ours));
    place.write("theirs.csv", csv_of(&HEADER, &theirs));
    let pair = exchange(
        &place,
        &Arguments::new("ours.csv", "key").output("out.csv"),
        &Arguments::new("theirs.csv", "key").with("--report report.json"),
    );
    pair.expect_success();
    let expected = plain(&ours, 1, &theirs, 1);
    assert!(expected.len() > 50 && expected.len() < 250);
    assert_eq!(place.read("out.csv"), csv_of(&HEADER, &expected));

    // Both say what they may say.
    for (party, words) in [
        (
            &pair.receiver,
            ["rows read       300", "matches  ", "rows written"],
        ),
        (
            &pair.sender,
            [
                "rows read       200",
                "protocol        compact-dh",
                "malicious",
            ],
        ),
    ] {
        for word in words {
            assert!(party.err.contains(word), "{word:?} not in {}", party.err);
        }
    }
    assert!(
        !pair.sender.err.contains("matches  "),
        "{}",
        pair.sender.err
    );
    assert!(pair.sender.err.contains(&place.receiver.to_string()));
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert!(report["matches"].is_null());
}

/// Each side says which of its own rows it wants.
#[test]
fn the_rest_and_all_rows() {
    let place = Place::new();
    place.write("ours.csv", "key,x\na,1\nb,2\n,3\nc,4\n");
    place.write("theirs.jsonl", "{\"key\":\"b\"}\n{\"key\":\"d\"}\n");
    let ours = Arguments::new("ours.csv", "key").output("out.csv");
    let theirs = Arguments::new("theirs.jsonl", "key").output("out.jsonl");
    let pair = exchange(
        &place,
        &ours.clone().with("--both --rows all"),
        &theirs.with("--both --rows rest"),
    );
    pair.expect_success();
    let all = "key,x,in_both\na,1,false\nb,2,true\n,3,false\nc,4,false\n";
    assert_eq!(place.read("out.csv"), all);
    assert_eq!(place.read("out.jsonl"), "{\"key\":\"d\"}\n");
    assert!(pair.receiver.err.contains("rows written    4"));

    let receiver =
        |arguments: &Arguments| place.receiver(arguments, "--connect 127.0.0.1:1").wait();
    place.write("marked.csv", "key,in_both\na,1\n");
    let marked = Arguments::new("marked.csv", "key").output("out.csv");
    for (arguments, code, words) in [
        (ours.clone().with("--rows some"), 2, "matching, rest or all"),
        (
            ours.clone()
                .with("--rows rest --reveal threshold-matches:1 --security semi-honest"),
            2,
            "reveal the matches",
        ),
        (
            ours.without("--output")
                .with("--rows all --reveal size --security semi-honest"),
            2,
            "--rows is for",
        ),
        (marked.with("--rows all --wait 1"), 3, "\"in_both\" already"),
    ] {
        receiver(&arguments).expect_failure(code, words);
    }
    let sender = Arguments::new("theirs.jsonl", "key").with("--rows rest");
    let sender = place.sender(&sender, "--connect 127.0.0.1:1").wait();
    sender.expect_failure(2, "--rows is for");
}

/// Part files on one side, an export without a header and in another encoding on the other.
#[test]
fn tables_in_several_files_and_other_dialects() {
    let place = Place::new();
    std::fs::create_dir(place.path("ours")).unwrap();
    place.write("ours/part-0.csv", "n,key,note\n1,7,a\n2,\\N,b");
    place.write("ours/part-1.csv", "");
    place.write("ours/part-2.csv", "n,key,note\n3,8.0,c\n4,9,d\n");
    place.write("ours/_SUCCESS", "");
    let utf16 = "x;+007\ny;\\N\nz;8\n".encode_utf16();
    place.write(
        "theirs.txt",
        utf16.flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    );
    let ours = "--normalize key=integer --null \\N --report report.json --memory 1GB";
    let theirs = "--normalize 2=integer --null \\N --no-header --encoding utf-16";
    place.write("report.json", "an earlier one");
    let pair = exchange(
        &place,
        &Arguments::new("ours", "key")
            .with(ours)
            .output("out.csv.zst"),
        &Arguments::new("theirs.txt", "2").with(theirs),
    );
    pair.expect_success();
    let packed = std::fs::read(place.path("out.csv.zst")).unwrap();
    let text = zstd::decode_all(&packed[..]).unwrap();
    assert_eq!(text, b"n,key,note\n1,7,a\n3,8.0,c\n");
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!((&report["rows"], &report["blanks"]), (&4.into(), &1.into()));
    // A result is not put among the input's files.
    for input in ["ours", "our?/part-*"] {
        let ours = Arguments::new(input, "key").output("ours/part-3.csv");
        let ended = place.receiver(&ours, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(2, "one of the files of --input");
    }
}

/// A run that fails has a report too, and leaves none of an earlier one.
#[test]
fn failures_have_a_report() {
    let place = Place::new();
    place.write("ours.csv", "key\n1\n");
    place.write("report.json", "an earlier one");
    let failing = |words: &str, code: i32, text: &str| -> serde_json::Value {
        let ours = Arguments::new("ours.csv", "key").with(words);
        let ended = place.receiver(&ours, "--connect 127.0.0.1:1").wait();
        assert_eq!(ended.code, Some(code), "{}", ended.err);
        let report = match ended.out.is_empty() {
            true => place.read("report.json"),
            false => ended.text().to_owned(),
        };
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(
            (&report["exit_code"], &report["role"]),
            (&code.into(), &"receiver".into())
        );
        let error = report["error"].as_str().unwrap();
        assert!(
            error.contains(text) && ended.err.contains(error),
            "{report} {}",
            ended.err
        );
        let keys: Vec<_> = report.as_object().unwrap().keys().collect();
        let named = [
            "error",
            "exit_code",
            "fingerprint",
            "machine",
            "peak_memory_bytes",
            "peer",
            "role",
            "started",
            "version",
        ];
        assert_eq!(keys, named);
        report
    };
    let report = failing(
        "--report report.json --output out.csv --wait 0.1",
        4,
        "cannot connect",
    );
    assert_eq!(report["fingerprint"], place.receiver.to_string());
    assert_eq!(report["peer"], place.sender.to_string());
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["started"].as_str().unwrap().ends_with('Z'));
    failing(
        "--report report.json --reveal size --output out.csv",
        2,
        "is printed",
    );
    let missing = failing(
        "--report - --output out.csv --normalize key=date",
        3,
        "no row has",
    );
    assert_eq!(missing["fingerprint"], place.receiver.to_string());
    place.write("receiver.key", "no key");
    let report = failing("--report report.json --output out.csv", 2, "identity");
    assert!(report["fingerprint"].is_null());
}

/// What is wrong with other paths is no reason to leave the report of an earlier run.
#[test]
fn no_report_of_an_earlier_run_stays() {
    let place = Place::new();
    place.write("ours.csv", "key\n1\n");
    std::fs::create_dir(place.path("set")).unwrap();
    place.write("set/key", "vesica database ");
    let stale = "{\"exit_code\": 0}";
    for (role, words, said) in [
        ("receiver", "--output none/out.csv", "no directory none"),
        ("receiver", "--output ours.csv", "the same file"),
        ("receiver", "--output set", "and not a file"),
        ("receiver", "--output out.csv --work-dir set", "set is "),
        ("sender", "--work-dir none/run", "no directory none"),
    ] {
        for report in ["report.json", "-"] {
            place.write("report.json", stale);
            let ours =
                Arguments::new("ours.csv", "key").with(&format!("--report {report} {words}"));
            let running = match role {
                "receiver" => place.receiver(&ours, "--connect 127.0.0.1:1"),
                _ => place.sender(&ours, "--connect 127.0.0.1:1"),
            };
            let ended = running.wait();
            assert!(
                ended.code == Some(2) && ended.err.contains(said),
                "{}",
                ended.err
            );
            let written = match report {
                "-" => ended.text().to_owned(),
                _ => place.read(report),
            };
            let written: serde_json::Value = serde_json::from_str(&written).unwrap();
            assert_eq!(
                (&written["exit_code"], &written["role"]),
                (&2.into(), &role.into())
            );
            assert!(
                written["error"].as_str().unwrap().contains(said),
                "{written}"
            );
        }
    }
    // The report itself takes the place of nothing.
    for (words, file) in [
        ("--output out.csv --report ours.csv", "ours.csv"),
        ("--output report.json --report report.json", "report.json"),
        (
            "--output out.csv --work-dir set --report set/key",
            "set/key",
        ),
    ] {
        place.write("report.json", stale);
        let before = place.read(file);
        let ours = Arguments::new("ours.csv", "key").with(words);
        let ended = place.receiver(&ours, "--connect 127.0.0.1:1").wait();
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert_eq!((place.read(file), ended.out.len()), (before, 0), "{words}");
    }
}

#[test]
fn nothing_in_common_comes_with_a_hint() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n");
    place.write("theirs.csv", "id\n01\n02\n");
    let ours =
        Arguments::new("ours.csv", "id").with("--reveal matches --output out.csv --report -");
    let pair = exchange(&place, &ours, &Arguments::new("theirs.csv", "id"));
    pair.expect_success();
    assert!(
        pair.receiver.err.contains("hint: no key matches"),
        "{}",
        pair.receiver.err
    );
    assert!(!pair.sender.err.contains("hint:"), "{}", pair.sender.err);
    let report: serde_json::Value = serde_json::from_slice(&pair.receiver.out).unwrap();
    assert_eq!(report["matches"], 0);
}

#[test]
fn every_protocol_and_its_report() {
    let (ours, theirs) = (rows(60, 3, 80), rows(90, 4, 80));
    let expected = plain(&ours, 1, &theirs, 1);
    assert!(expected.len() > 10);
    for (protocol, security) in [
        ("compact-dh", "malicious"),
        ("compact-dh-sh1", "semi-honest"),
        ("compact-dh-sh2", "semi-honest"),
        ("dh", "semi-honest"),
        ("oprf-dh", "malicious"),
        ("vole", "malicious"),
        ("vole", "semi-honest"),
        ("kkrt", "semi-honest"),
        ("spot-low", "malicious-sender"),
        ("spot-low", "semi-honest"),
        ("spot-fast", "semi-honest"),
        ("sparse-okvs", "semi-honest"),
    ] {
        let place = Place::new();
        place.write("ours.csv", csv_of(&HEADER, &ours));
        place.write("theirs.csv", csv_of(&HEADER, &theirs));
        let terms = format!("--protocol {protocol} --security {security}");
        let pair = exchange(
            &place,
            &Arguments::new("ours.csv", "key")
                .output("out.csv")
                .with(&terms)
                .with("--report report.json"),
            &Arguments::new("theirs.csv", "key").with(&terms),
        );
        pair.expect_success();
        assert_eq!(
            place.read("out.csv"),
            csv_of(&HEADER, &expected),
            "{protocol}"
        );

        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        let keys: Vec<&str> = report
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut named = vec![
            "role",
            "version",
            "started",
            "fingerprint",
            "exit_code",
            "error",
            "machine",
            "peak_memory_bytes",
            "run",
            "protocol",
            "security",
            "reveal",
            "rows",
            "items",
            "duplicates",
            "blanks",
            "denied",
            "invalid",
            "rows_written",
            "computed",
            "peer_items",
            "matches",
            "value",
            "values",
            "spine_rows",
            "below",
            "noise",
            "bytes_sent",
            "bytes_received",
            "seconds",
            "phases",
            "peer",
            "contract",
        ];
        named.sort_unstable();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, named);
        let distinct = |rows: &[Vec<String>]| -> usize {
            let keys = rows.iter().map(|r| r[1].as_str());
            keys.filter(|k| !k.is_empty()).collect::<HashSet<_>>().len()
        };
        assert_eq!(
            (&report["role"], &report["exit_code"]),
            (&"receiver".into(), &0.into())
        );
        assert_eq!(report["fingerprint"], place.receiver.to_string());
        assert!(report["error"].is_null());
        assert_eq!(report["protocol"], protocol);
        assert_eq!(report["security"], security);
        assert_eq!(report["reveal"], "matches");
        assert_eq!(report["rows"], 60);
        assert_eq!(report["items"], distinct(&ours));
        assert_eq!(report["duplicates"], 60 - 2 - distinct(&ours));
        assert_eq!(report["peer_items"], distinct(&theirs));
        assert_eq!(report["matches"], distinct(&expected));
        assert_eq!(report["peer"], place.sender.to_string());
        assert_eq!(report["contract"]["protocol"], protocol);
        assert!(report["seconds"].as_f64().unwrap() > 0.0);
        assert!(report["bytes_sent"].as_u64().unwrap() > 60 * 8);
        let phases = report["phases"].as_array().unwrap();
        let sum: u64 = phases
            .iter()
            .map(|p| p["bytes_sent"].as_u64().unwrap())
            .sum();
        assert_eq!(report["bytes_sent"], sum);
    }
}

/// Numbers are compared as they are, by tuples from either source.
#[test]
fn addresses_are_compared_as_numbers() {
    let place = Place::new();
    let address = |i: u64| vec![format!("10.0.{}.{}", i / 256, i % 256)];
    let ours: Vec<_> = (0..700).map(address).collect();
    let theirs: Vec<_> = (0..900).step_by(3).map(address).collect();
    place.write("ours.csv", csv_of(&["ip"], &ours));
    place.write("theirs.csv", csv_of(&["address"], &theirs));
    let expected: Vec<_> = ours.iter().step_by(3).cloned().collect();
    for (offline, protocol) in [("lattice", "ole-lattice"), ("ot", "ole-ot")] {
        let words = format!("--protocol ole --offline {offline} --security semi-honest");
        exchange(
            &place,
            &Arguments::new("ours.csv", "ip")
                .with(&words)
                .with("--normalize ip=ipv4 --report report.json")
                .output("out.csv"),
            &Arguments::new("theirs.csv", "address")
                .with(&words)
                .with("--normalize address=ipv4"),
        )
        .expect_success();
        assert_eq!(place.read("out.csv"), csv_of(&["ip"], &expected));
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        assert_eq!(report["protocol"], protocol);
        assert_eq!(report["contract"]["key_bits"], 32);
    }
    for (words, text) in [
        ("--offline ot", "--offline goes with --protocol ole"),
        (
            "--protocol vole --offline ot",
            "--offline goes with --protocol ole",
        ),
        ("--protocol ole --offline silent", "lattice, ot, dealer"),
    ] {
        let words = Arguments::new("ours.csv", "ip").with(words);
        let ended = place.receiver(&words, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(2, "tuples");
        assert!(ended.hint().contains(text), "{}", ended.err);
    }
}

#[test]
fn parquet_integers_match_text() {
    let place = Place::new();
    let ids: Vec<i64> = (0..200).map(|i| (i * 37) % 1000 - 100).collect();
    let names: Vec<String> = ids.iter().map(|i| format!("name {i}")).collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(ids.clone())),
        Arc::new(StringArray::from(names)),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let file = File::create(place.path("ours.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let theirs: Vec<Vec<String>> = (-50..400).step_by(3).map(|i| vec![i.to_string()]).collect();
    place.write("theirs.csv", csv_of(&["number"], &theirs));

    exchange(
        &place,
        &Arguments::new("ours.parquet", "id").output("out.parquet"),
        &Arguments::new("theirs.csv", "number"),
    )
    .expect_success();
    let file = File::open(place.path("out.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(reader.schema().fields(), schema.fields());
    let mut found = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let ids = batch
            .column(0)
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap();
        let names = batch
            .column(1)
            .as_any()
            .downcast_ref::<StringArray>()
            .unwrap();
        for i in 0..ids.len() {
            assert_eq!(names.value(i), format!("name {}", ids.value(i)));
            found.push(ids.value(i));
        }
    }
    let shared: Vec<i64> = ids
        .into_iter()
        .filter(|i| (-50..400).contains(i) && (i + 50) % 3 == 0)
        .collect();
    assert!(shared.len() > 10);
    assert_eq!(found, shared);
}

#[test]
fn json_lines_and_arrow() {
    let place = Place::new();
    let line = |i: u32| format!("{{\"id\": {i}, \"tags\": [\"a\", {i}], \"x\": null}}\n");
    let ours: String = (0..60).map(line).collect();
    place.write("ours.jsonl", ours);
    let ids: Vec<i64> = (0..90).map(|i| i * 2).collect();
    let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]));
    let batch =
        RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(ids))]).unwrap();
    let file = File::create(place.path("theirs.arrow")).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();

    exchange(
        &place,
        &Arguments::new("ours.jsonl", "id").output("out.jsonl"),
        &Arguments::new("theirs.arrow", "key"),
    )
    .expect_success();
    let expected: String = (0..60).step_by(2).map(line).collect();
    assert_eq!(place.read("out.jsonl"), expected);

    // And the other way round.
    exchange(
        &place,
        &Arguments::new("theirs.arrow", "key").output("out.arrow"),
        &Arguments::new("ours.jsonl", "id"),
    )
    .expect_success();
    let file = File::open(place.path("out.arrow")).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
    assert_eq!(reader.schema(), schema);
    let found: Vec<i64> = reader
        .flat_map(|batch| {
            let batch = batch.unwrap();
            let ids = batch
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .unwrap();
            ids.values().to_vec()
        })
        .collect();
    assert_eq!(found, (0..60).step_by(2).collect::<Vec<_>>());
}

#[test]
fn standard_input_and_output_while_the_receiver_listens() {
    let place = Place::new();
    let (ours, theirs) = (rows(40, 5, 60), rows(40, 6, 60));
    let before = place.names();
    let mut receiver = place.receiver(
        &Arguments::new("-", "key").stdin(&csv_of(&HEADER, &ours)),
        "--listen 127.0.0.1:0",
    );
    let sender = place.sender(
        &Arguments::new("-", "key").stdin(&csv_of(&HEADER, &theirs)),
        &receiver.endpoint(),
    );
    let (receiver, sender) = (receiver.wait(), sender.wait());
    receiver.expect_success();
    sender.expect_success();
    let expected = plain(&ours, 1, &theirs, 1);
    assert!(!expected.is_empty());
    assert_eq!(receiver.text(), csv_of(&HEADER, &expected));
    assert_eq!(place.names(), before);
}

#[test]
fn several_key_columns_and_a_delimiter() {
    let place = Place::new();
    place.write("ours.csv", "first;last;x\nab;c;1\na;bc;2\nd;e;3\n;e;4\n");
    place.write("theirs.csv", "surname,name\nc,ab\ne,d\nbc,other\n");
    exchange(
        &place,
        &Arguments::new("ours.csv", "first,last")
            .output("out.csv")
            .with("--delimiter ; --format csv"),
        &Arguments::new("theirs.csv", "name,surname"),
    )
    .expect_success();
    assert_eq!(place.read("out.csv"), "first;last;x\nab;c;1\nd;e;3\n");
}

#[test]
fn addresses_are_normalised_and_rows_stay_as_they_were() {
    let place = Place::new();
    place.write(
        "ours.csv",
        "id,email\n1, Ada@Example.COM\n2,bela@example.org\n3,\"cleo@example.org\"\n4,not an address\n",
    );
    place.write(
        "theirs.csv",
        "email,y\nADA@example.com,1\nCLEO@EXAMPLE.ORG ,2\n",
    );
    let normalize = "--normalize email=email";
    exchange(
        &place,
        &Arguments::new("ours.csv", "email")
            .output("out.csv")
            .with(normalize),
        &Arguments::new("theirs.csv", "email").with(normalize),
    )
    .expect_success();
    assert_eq!(
        place.read("out.csv"),
        "id,email\n1, Ada@Example.COM\n3,\"cleo@example.org\"\n"
    );
}

#[test]
fn an_existing_output_is_replaced_and_an_empty_result_is_a_table() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n");
    place.write("theirs.csv", "id\n3\n");
    place.write("out.csv", "old\n");
    exchange(
        &place,
        &Arguments::new("ours.csv", "id")
            .output("out.csv")
            .with("--lambda 64"),
        &Arguments::new("theirs.csv", "id").with("--lambda 64"),
    )
    .expect_success();
    assert_eq!(place.read("out.csv"), "id\n");
}

#[test]
fn directories_that_say_columns() {
    let place = Place::new();
    let schema = Arc::new(Schema::new(vec![Field::new("mail", DataType::Utf8, false)]));
    for (directory, mails) in [
        ("t/day=2026-01-01", ["a@x.org", "b@x.org"]),
        ("t/day=2026-01-02", ["a@x.org", "c@x.org"]),
    ] {
        std::fs::create_dir_all(place.path(directory)).unwrap();
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(mails.to_vec()))];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let file = File::create(place.path(&format!("{directory}/p.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
    place.write(
        "theirs.csv",
        "mail,day\na@x.org,2026-01-02\nb@x.org,2026-01-01\n",
    );
    for input in ["t", "t/*/p.parquet"] {
        exchange(
            &place,
            &Arguments::new(input, "mail,day").output("out.csv"),
            &Arguments::new("theirs.csv", "mail,day"),
        )
        .expect_success();
        let expected = "mail,day\nb@x.org,2026-01-01\na@x.org,2026-01-02\n";
        assert_eq!(place.read("out.csv"), expected, "{input}");
    }
    std::fs::copy(
        place.path("theirs.csv"),
        place.path("t/day=2026-01-01/p.csv"),
    )
    .unwrap();
    std::fs::remove_file(place.path("t/day=2026-01-01/p.parquet")).unwrap();
    let ended = place.run("check --input t --key mail");
    ended.expect_failure(3, "it is parquet, not csv");
    let inside = Arguments::new("theirs.csv", "mail").output("t/day=2026-01-03/out.csv");
    let inside = inside.with("--input t");
    std::fs::create_dir_all(place.path("t/day=2026-01-03")).unwrap();
    place
        .receiver(&inside, "--connect 127.0.0.1:1")
        .wait()
        .expect_failure(2, "");
}
