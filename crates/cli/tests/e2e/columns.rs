//! Columns that the sender hands over with the rows that match.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;

use crate::support::{Arguments, Place, exchange};

const OURS: &str = "key,x\nann,1\nbob,2\n,3\nann,4\ncy,5\n";
const THEIRS: &str = "{\"key\":\"ann\",\"city\":\"St. Gallen\",\"age\":41}\n\
    {\"key\":\"bob\",\"city\":null,\"age\":7}\n\
    {\"key\":\"eve\",\"city\":\"Bern\",\"age\":30}\n";

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.jsonl", THEIRS);
    place
}

fn ours() -> Arguments {
    Arguments::new("ours.csv", "key").output("out.csv")
}

fn theirs() -> Arguments {
    Arguments::new("theirs.jsonl", "key")
}

#[test]
fn matching_rows_come_with_the_senders_columns() {
    for protocol in ["auto", "vole", "kkrt --security semi-honest"] {
        let place = place();
        let with = |arguments: Arguments, words: &str| {
            arguments.with(&format!("--protocol {protocol} {words}"))
        };
        let pair = exchange(
            &place,
            &with(ours(), "--take-payload --report report.json"),
            &with(theirs(), "--payload city,age --payload-width 16"),
        );
        pair.expect_success();
        let expected = "key,x,peer_city,peer_age\n\
            ann,1,St. Gallen,41\n\
            bob,2,,7\n\
            ann,4,St. Gallen,41\n";
        assert_eq!(place.read("out.csv"), expected);
        for side in [&pair.receiver, &pair.sender] {
            assert!(
                side.err.contains("handed over     city,age in 16 bytes"),
                "{}",
                side.err
            );
        }
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        let labels = json!({ "bytes": 16, "columns": ["city", "age"], "types": ["text", "text"] });
        assert_eq!(report["contract"]["labels"], labels);
    }
}

#[test]
fn columns_keep_their_types() {
    let place = Place::new();
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let schema = Arc::new(Schema::new(vec![
        field("key", DataType::Utf8),
        field("count", DataType::Int64),
        field("price", DataType::Decimal128(10, 2)),
        field(
            "seen",
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["ann", "bob", "eve"])),
        Arc::new(Int64Array::from(vec![Some(-3), None, Some(5)])),
        Arc::new(
            Decimal128Array::from(vec![1250, -5, 0])
                .with_precision_and_scale(10, 2)
                .unwrap(),
        ),
        Arc::new(TimestampMicrosecondArray::from(vec![1, -1, 0]).with_timezone("UTC")),
    ];
    let sent = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let file = File::create(place.path("theirs.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
    writer.write(&sent).unwrap();
    writer.close().unwrap();
    place.write("ours.csv", "key\nbob\nann\ncy\n");
    exchange(
        &place,
        &Arguments::new("ours.csv", "key")
            .output("out.parquet")
            .with("--take-payload"),
        &Arguments::new("theirs.parquet", "key")
            .with("--payload count,price,seen --payload-width 60"),
    )
    .expect_success();
    let file = File::open(place.path("out.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let [found] = &batches[..] else {
        panic!("{batches:?}");
    };
    for (column, sent) in (1..).zip(&sent.columns()[1..]) {
        let in_order: [ArrayRef; 2] = [sent.slice(1, 1), sent.slice(0, 1)];
        for (row, expected) in in_order.iter().enumerate() {
            assert_eq!(&found.column(column).slice(row, 1), expected);
        }
    }
}

#[test]
fn a_receiver_without_keys_gets_no_columns_filled() {
    let place = place();
    place.write("ours.csv", "key,x\n,1\n");
    exchange(
        &place,
        &ours().with("--take-payload --allow-empty --rows all"),
        &theirs().with("--payload city"),
    )
    .expect_success();
    let expected = "key,x,in_both,peer_city\n,1,false,\n";
    assert_eq!(place.read("out.csv"), expected);
}

#[test]
fn keys_of_other_types_are_said() {
    let place = Place::new();
    let prices = Decimal128Array::from(vec![1250, 333]);
    let prices: ArrayRef = Arc::new(prices.with_precision_and_scale(10, 2).unwrap());
    let counts: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("price", prices), ("count", counts)]).unwrap();
    let file = File::create(place.path("ours.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    place.write("theirs.csv", "price,count\n12.50,1\n3.33,2\n");
    let ours = |words: &str| {
        Arguments::new("ours.parquet", "price,count")
            .output("out.csv")
            .with(words)
    };
    let theirs = |words: &str| Arguments::new("theirs.csv", "price,count").with(words);
    let pair = exchange(&place, &ours(""), &theirs(""));
    pair.expect_success();
    assert_eq!(place.read("out.csv"), "price,count\n3.33,2\n");
    for side in [&pair.receiver, &pair.sender] {
        let said = side
            .err
            .matches("key column 1 is decimal on one side and text on the other");
        assert_eq!(said.count(), 1, "{}", side.err);
        assert!(!side.err.contains("key column 2"), "{}", side.err);
    }
    let profile = "--normalize price=decimal";
    let pair = exchange(&place, &ours(profile), &theirs(profile));
    pair.expect_success();
    assert_eq!(place.read("out.csv"), "price,count\n12.50,1\n3.33,2\n");
    assert!(
        !pair.receiver.err.contains("key column"),
        "{}",
        pair.receiver.err
    );
}

#[test]
fn a_result_has_one_encoding() {
    let place = place();
    let latin = b"key,x\nann,Z\xfcrich\nbob,Bern\n";
    place.write("ours.csv", latin);
    let line = b"{\"key\":\"ann\",\"x\":\"Z\xfcrich\"}\n";
    place.write("ours.jsonl", line);
    // As they are, without a word that the result is in another encoding than it is.
    for (input, output, bytes) in [
        ("ours.csv", "out.csv", &latin[..]),
        ("ours.jsonl", "out.jsonl", line),
    ] {
        let receiver = Arguments::new(input, "key").output(output);
        let pair = exchange(&place, &receiver, &theirs());
        pair.expect_success();
        assert_eq!(std::fs::read(place.path(output)).unwrap(), bytes);
        let warning = "rows have bytes that are not UTF-8";
        assert!(pair.receiver.err.contains(warning), "{}", pair.receiver.err);
        assert!(!pair.sender.err.contains(warning));
        // The peer's columns are in UTF-8.
        std::fs::remove_file(place.path(output)).unwrap();
        let sender = theirs().with("--payload city --wait 8");
        let pair = exchange(&place, &receiver.with("--take-payload"), &sender);
        pair.receiver.expect_failure(3, "bytes that are not UTF-8");
        assert!(pair.receiver.hint().contains("--encoding"));
        assert!(!place.path(output).exists());
    }
    // Another format is in UTF-8 too.
    let other = Arguments::new("ours.csv", "key").output("out.jsonl");
    let pair = exchange(&place, &other, &theirs().with("--wait 8"));
    pair.receiver.expect_failure(3, "bytes that are not UTF-8");
    assert!(!place.path("out.jsonl").exists());
    exchange(&place, &other.with("--encoding latin1"), &theirs()).expect_success();
    let expected = "{\"key\":\"ann\",\"x\":\"Zürich\"}\n{\"key\":\"bob\",\"x\":\"Bern\"}\n";
    assert_eq!(place.read("out.jsonl"), expected);
    let named = ours().with("--take-payload --encoding latin1");
    exchange(&place, &named, &theirs().with("--payload city")).expect_success();
    let expected = "key,x,peer_city\nann,Zürich,St. Gallen\nbob,Bern,\n";
    assert_eq!(place.read("out.csv"), expected);
}

/// In several buckets, both ways, and with all of the receiver's rows; with keys in memory, and on disk.
#[test]
fn columns_in_buckets_and_for_all_rows() {
    for memory in ["1200K", "500K"] {
        columns_in_buckets(memory);
    }
}

fn columns_in_buckets(memory: &str) {
    let place = Place::new();
    let ours: String = (0..3000).map(|i| format!("k{i},{}\n", i % 7)).collect();
    let theirs: String = (2000..5000).map(|i| format!("k{i},v{i}\n")).collect();
    place.write("ours.csv", format!("key,x\n{ours}"));
    place.write("theirs.csv", format!("key,v\n{theirs}"));
    let both = &*format!("--both --protocol vole --memory {memory}");
    let pair = exchange(
        &place,
        &self::ours().with(both).with("--take-payload --rows all"),
        &Arguments::new("theirs.csv", "key")
            .output("back.csv")
            .with(both)
            .with("--payload v --payload-width 9"),
    );
    pair.expect_success();
    assert!(
        pair.receiver.err.contains("buckets "),
        "{}",
        pair.receiver.err
    );
    let row = |i: u32| match i >= 2000 {
        true => format!("k{i},{},true,v{i}\n", i % 7),
        false => format!("k{i},{},false,\n", i % 7),
    };
    let expected: String = (0..3000).map(row).collect();
    assert_eq!(
        place.read("out.csv"),
        format!("key,x,in_both,peer_v\n{expected}")
    );
    let back: String = (2000..3000).map(|i| format!("k{i},v{i}\n")).collect();
    assert_eq!(place.read("back.csv"), format!("key,v\n{back}"));
}

#[test]
fn a_side_alone_refuses_what_it_cannot_do() {
    let place = place();
    place.write("twice.csv", "key,a\nx,1\nx,2\n");
    let receiver =
        |arguments: &Arguments| place.receiver(arguments, "--connect 127.0.0.1:1").wait();
    for (words, code, said) in [
        ("--take-payload --payload x", 2, "no payload of its own"),
        ("--take-payload --rows rest", 2, "rows that match"),
        ("--payload-width 9", 2, "a width is for"),
        ("--take-payload --payload-width 0", 2, "0"),
        ("--take-payload --quote none", 2, "CSV without quotes"),
        ("--take-payload --work-dir work", 2, "work directory"),
        (
            "--take-payload --reveal size --security semi-honest",
            2,
            "does not hand over columns",
        ),
        (
            "--take-payload --protocol ole-ot --security semi-honest",
            2,
            "does not hand over columns",
        ),
    ] {
        let arguments = match words.contains("size") {
            true => ours().without("--output").with(words),
            false => ours().with(words),
        };
        receiver(&arguments).expect_failure(code, said);
    }
    let sender = |arguments: &Arguments| place.sender(arguments, "--connect 127.0.0.1:1").wait();
    for (arguments, code, said) in [
        (
            theirs().with("--payload town --wait 1"),
            3,
            "no column is called \"town\"",
        ),
        (
            theirs().with("--payload city --payload-width 9 --wait 1"),
            3,
            "take 12 bytes",
        ),
        (theirs().with("--payload city,city"), 2, "twice"),
        (
            theirs().with("--payload city --value-scale 2"),
            2,
            "--value",
        ),
        (
            Arguments::new("twice.csv", "key").with("--payload a --wait 1"),
            3,
            "row 2",
        ),
    ] {
        let ended = sender(&arguments);
        ended.expect_failure(code, said);
        assert!(!ended.err.contains("Gallen"), "{}", ended.err);
    }
}

#[test]
fn both_sides_ask_for_it() {
    for (receiver, sender) in [
        ("", "--payload city"),
        ("--take-payload", ""),
        (
            "--take-payload --payload-width 15",
            "--payload city --payload-width 16",
        ),
    ] {
        let place = place();
        let pair = exchange(&place, &ours().with(receiver), &theirs().with(sender));
        for side in [&pair.receiver, &pair.sender] {
            side.expect_failure(6, "columns handed over");
        }
        assert!(!place.names().contains(&"out.csv".to_owned()));
    }
}
