//! Results in another format than the table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_schema::{DataType, Field};
use tempfile::TempDir;
use vesica_tables::{
    ErrorKind, KeySpec, Output, RowSet, Rows, Source, SourceOptions, read_keys, select_rows,
    write_rows,
};

use crate::common::*;

/// The rows of `source` at these places in a file of this name.
fn written(source: &Source, rows: &[u64], directory: &TempDir, name: &str) -> PathBuf {
    let key = KeySpec::parse::<&str>("k", &[]).unwrap();
    let keys = read_keys(source, &key).unwrap();
    let mut chosen = RowSet::none(keys.counts().rows);
    rows.iter().for_each(|row| chosen.insert(*row));
    let path = directory.path().join(name);
    let mut output = Output::create(&path, source).unwrap();
    write_rows(source, &chosen, &mut output).unwrap();
    output.commit().unwrap();
    path
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// All rows of a columnar file, whose batches are put together.
fn batch_of(path: &Path) -> RecordBatch {
    let source = Source::open(path, SourceOptions::default()).unwrap();
    let key = KeySpec::parse::<&str>("k", &[]).unwrap();
    let rows = read_keys(&source, &key).unwrap().counts().rows;
    let mut all = RowSet::none(rows);
    (0..rows).for_each(|row| all.insert(row));
    let (schema, batches) = select_rows(&source, &all).unwrap();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

const CSV: &str = "k,\"a \"\"b\"\"\",c\n1,,\"\"\n\"2\",\"x,\"\"y\"\"\nz\",\"\"\n3,\"\",é\n4,,007\n";

#[test]
fn text_becomes_columns_of_text() {
    let directory = tempfile::tempdir().unwrap();
    let source = source("t.csv", CSV);
    let expected = batch(&[
        ("k", Arc::new(StringArray::from(vec!["1", "2", "4"]))),
        (
            "a \"b\"",
            Arc::new(StringArray::from(vec![None, Some("x,\"y\"\nz"), None])),
        ),
        (
            "c",
            Arc::new(StringArray::from(vec![Some(""), Some(""), Some("007")])),
        ),
    ]);
    for name in ["o.parquet", "o.arrow", "o.arrows", "o.feather"] {
        let path = written(&source, &[0, 1, 3], &directory, name);
        assert_eq!(batch_of(&path), expected, "{name}");
    }
    let path = written(&source, &[0, 1, 3], &directory, "o.jsonl");
    let lines = concat!(
        r#"{"k":"1","a \"b\"":null,"c":""}"#,
        "\n",
        r#"{"k":"2","a \"b\"":"x,\"y\"\nz","c":""}"#,
        "\n",
        r#"{"k":"4","a \"b\"":null,"c":"007"}"#,
        "\n"
    );
    assert_eq!(text_of(&path), lines);
    let path = written(&source, &[1, 2], &directory, "o.tsv");
    let lines = "k\t\"a \"\"b\"\"\"\tc\n2\t\"x,\"\"y\"\"\nz\"\t\"\"\n3\t\"\"\té\n";
    assert_eq!(text_of(&path), lines);
    // The same delimiter: byte for byte.
    let path = written(&source, &[3], &directory, "o.csv");
    assert_eq!(text_of(&path), "k,\"a \"\"b\"\"\",c\n4,,007\n");
}

#[test]
fn fields_of_json_are_columns_in_the_order_of_their_first_lines() {
    let directory = tempfile::tempdir().unwrap();
    let lines = concat!(
        r#"{"k":1,"b":"x"}"#,
        "\n\n",
        r#"{"c":{"d":[1, 2]},"k":-0.50,"b":null}"#,
        "\n",
        r#"{"b":"é\n","k":true,"e":""}"#,
        "\n",
    );
    let source = source("t.jsonl", lines.replace("-0.50", "-5"));
    let path = written(&source, &[0, 1, 2], &directory, "o.csv");
    let expected = "k,b,c,e\n1,x,,\n-5,,\"{\"\"d\"\":[1, 2]}\",\ntrue,\"é\n\",,\"\"\n";
    assert_eq!(text_of(&path), expected);
    let path = written(&source, &[1], &directory, "o.parquet");
    let expected = batch(&[
        ("k", Arc::new(StringArray::from(vec!["-5"])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec![None::<&str>]))),
        ("c", Arc::new(StringArray::from(vec![r#"{"d":[1, 2]}"#]))),
        ("e", Arc::new(StringArray::from(vec![None::<&str>]))),
    ]);
    assert_eq!(batch_of(&path), expected);
}

/// Columns of all types with a text, whose first row is null but for the key.
fn typed() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![None, Some(1250), Some(-5)]);
    let stamps = TimestampMicrosecondArray::from(vec![None, Some(1), Some(-1_000_000)]);
    batch(&[
        ("k", Arc::new(Int64Array::from(vec![7, 8, i64::MIN]))),
        (
            "t",
            Arc::new(StringArray::from(vec![None, Some(""), Some("a,b")])),
        ),
        (
            "b",
            Arc::new(BinaryArray::from(vec![
                None,
                Some(&b"\x00\xff"[..]),
                Some(b""),
            ])),
        ),
        (
            "f",
            Arc::new(Float64Array::from(vec![None, Some(5e-324), Some(-0.0)])),
        ),
        (
            "g",
            Arc::new(Float32Array::from(vec![None, Some(0.1), Some(f32::NAN)])),
        ),
        (
            "d",
            Arc::new(decimals.with_precision_and_scale(10, 2).unwrap()),
        ),
        (
            "y",
            Arc::new(BooleanArray::from(vec![None, Some(true), Some(false)])),
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![None, Some(0), Some(19_782)])),
        ),
        ("at", Arc::new(stamps.with_timezone("Europe/Rome"))),
        (
            "z",
            Arc::new(DictionaryArray::<Int8Type>::from_iter([
                None,
                Some("x"),
                Some("y"),
            ])),
        ),
    ])
}

#[test]
fn typed_columns_become_text() {
    let directory = tempfile::tempdir().unwrap();
    let csv = concat!(
        "k,t,b,f,g,d,y,day,at,z\n",
        "7,,,,,,,,,\n",
        "8,\"\",00ff,5e-324,0.1,12.50,true,1970-01-01,1970-01-01T00:00:00.000001Z,x\n",
        "-9223372036854775808,\"a,b\",\"\",-0.0,NaN,-0.05,false,2024-02-29,1969-12-31T23:59:59Z,y\n",
    );
    let jsonl = concat!(
        r#"{"k":7,"t":null,"b":null,"f":null,"g":null,"d":null,"y":null,"day":null,"at":null,"z":null}"#,
        "\n",
        r#"{"k":8,"t":"","b":"00ff","f":5e-324,"g":0.1,"d":12.50,"y":true,"day":"1970-01-01","at":"1970-01-01T00:00:00.000001Z","z":"x"}"#,
        "\n",
        r#"{"k":-9223372036854775808,"t":"a,b","b":"","f":-0.0,"g":"NaN","d":-0.05,"y":false,"day":"2024-02-29","at":"1969-12-31T23:59:59Z","z":"y"}"#,
        "\n",
    );
    let typed = typed();
    let memory = Source::from_batches(
        "frame",
        typed.schema(),
        vec![typed.clone()],
        &SourceOptions::default(),
    );
    for source in [
        source("t.parquet", parquet(&typed)),
        source("t.arrow", arrow_file(&typed)),
        memory.unwrap(),
    ] {
        let path = written(&source, &[0, 1, 2], &directory, "o.csv");
        assert_eq!(text_of(&path), csv, "{}", source.name());
        let path = written(&source, &[0, 1, 2], &directory, "o.jsonl");
        assert_eq!(text_of(&path), jsonl, "{}", source.name());
        for name in ["o.parquet", "o.arrow", "o.arrows"] {
            let path = written(&source, &[1, 2], &directory, name);
            let mut columns = typed.slice(1, 2).columns().to_vec();
            if name == "o.arrow" && source.name() != "t.arrow" {
                // Such a file has room for one dictionary.
                columns[9] = Arc::new(StringArray::from(vec!["x", "y"]));
            }
            let found = batch_of(&path);
            assert_eq!(found.columns(), columns, "{name}");
        }
    }
}

/// What Parquet counts otherwise, in a struct too.
#[test]
fn times_become_those_of_parquet() {
    let directory = tempfile::tempdir().unwrap();
    let columns = |times: ArrayRef, at: ArrayRef, days: ArrayRef| {
        let below = StructArray::from(vec![(
            Arc::new(Field::new("at", at.data_type().clone(), true)),
            at.clone(),
        )]);
        let keys = Int64Array::from_iter_values(0..at.len() as i64);
        batch(&[
            ("k", Arc::new(keys) as ArrayRef),
            ("t", times),
            ("at", at),
            ("day", days),
            ("s", Arc::new(below)),
        ])
    };
    let seconds = columns(
        Arc::new(Time32SecondArray::from(vec![Some(61), None])),
        Arc::new(TimestampSecondArray::from(vec![Some(-1), None]).with_timezone("UTC")),
        Arc::new(Date64Array::from(vec![Some(-86_400_000), None])),
    );
    let expected = columns(
        Arc::new(Time32MillisecondArray::from(vec![Some(61_000), None])),
        Arc::new(TimestampMillisecondArray::from(vec![Some(-1000), None]).with_timezone("UTC")),
        Arc::new(TimestampMillisecondArray::from(vec![
            Some(-86_400_000),
            None,
        ])),
    );
    let arrow = source("t.arrow", arrow_file(&seconds));
    let found = batch_of(&written(&arrow, &[0, 1], &directory, "o.parquet"));
    assert_eq!(found.columns(), expected.columns());
    let found = batch_of(&written(&arrow, &[0, 1], &directory, "o.arrows"));
    assert_eq!(found.columns(), seconds.columns());

    let wrong = columns(
        Arc::new(Time32SecondArray::from(vec![0])),
        Arc::new(TimestampSecondArray::from(vec![i64::MAX / 1000 + 1])),
        Arc::new(Date64Array::from(vec![0])),
    );
    let arrow = source("t.arrow", arrow_file(&wrong));
    let mut output = Output::create(&directory.path().join("wrong.parquet"), &arrow).unwrap();
    // It is known before a row matches, and none is written.
    let keys = read_keys(&arrow, &key("k")).unwrap();
    let mut first = RowSet::none(1);
    first.insert(0);
    for error in [
        output.check_rows(&arrow, keys.counts()).unwrap_err(),
        write_rows(&arrow, &first, &mut output).unwrap_err(),
    ] {
        assert!(error.to_string().contains("a time is too large"), "{error}");
        assert_eq!(error.place().column.as_deref(), Some("at"));
    }
}

#[test]
fn added_columns_have_their_types() {
    let directory = tempfile::tempdir().unwrap();
    let options = SourceOptions {
        rows: Rows::All,
        ..SourceOptions::default()
    };
    let source = Source::from_bytes("t.csv", b"k\n1\n2\n".to_vec(), options).unwrap();
    let path = written(&source, &[1], &directory, "o.parquet");
    let marks = batch_of(&path).column_by_name("in_both").unwrap().clone();
    let expected: ArrayRef = Arc::new(BooleanArray::from(vec![false, true]));
    assert_eq!(&marks, &expected);
    let path = written(&source, &[1], &directory, "o.jsonl");
    let lines = "{\"k\":\"1\",\"in_both\":false}\n{\"k\":\"2\",\"in_both\":true}\n";
    assert_eq!(text_of(&path), lines);
}

#[test]
fn what_has_no_room_is_refused_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |source: &Source, name: &str| {
        let error = Output::create(&directory.path().join(name), source).unwrap_err();
        assert_eq!(error.place().path.as_deref(), Some(source.name()));
        error
    };
    let lists = ListArray::from_iter_primitive::<Int8Type, _, _>([Some([Some(1)])]);
    let nested = batch(&[
        ("k", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("l", Arc::new(lists)),
    ]);
    let nested = source("t.parquet", parquet(&nested));
    for name in ["o.csv", "o.jsonl"] {
        let error = refused(&nested, name);
        assert!(
            matches!(error.kind(), ErrorKind::NotInFormat { .. }),
            "{error}"
        );
        assert_eq!(error.place().column.as_deref(), Some("l"));
    }
    Output::create(&directory.path().join("o.arrow"), &nested).unwrap();
    let months = IntervalMonthDayNanoArray::from(vec![None]);
    let intervals = batch(&[
        ("k", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("i", Arc::new(months)),
    ]);
    let error = refused(&source("t.arrow", arrow_file(&intervals)), "o.parquet");
    assert!(
        matches!(error.kind(), ErrorKind::NotInFormat { .. }),
        "{error}"
    );
    let twice = source("t.csv", "k,a,a\n1,2,3\n");
    for name in ["o.jsonl", "o.parquet", "o.tsv"] {
        let error = refused(&twice, name);
        assert!(
            matches!(error.kind(), ErrorKind::AmbiguousColumn),
            "{error}"
        );
    }
    Output::create(&directory.path().join("o.csv"), &twice).unwrap();
    for lines in [
        "{\"k\":1,\"a\":2,\"a\":3}\n",
        "{\"k\":1,\"a\":\"\\ud800\"}\n",
        "{\"k\":1,\"a\":2}\n{\"k\":\n",
    ] {
        let error = refused(&source("t.jsonl", lines), "o.csv");
        assert!(matches!(error.kind(), ErrorKind::BadJson { .. }), "{error}");
    }
    // Bytes of another encoding are counted in the first pass, and refused after it.
    let latin1 = source("t.csv", b"k,a\n1,\xe9\n");
    let output = Output::create(&directory.path().join("o.jsonl"), &latin1).unwrap();
    let keys = read_keys(&latin1, &KeySpec::parse::<&str>("k", &[]).unwrap()).unwrap();
    let error = output.check_rows(&latin1, keys.counts()).unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::MixedEncodings { rows: 1 }
    ));
    let same = Output::create(&directory.path().join("o.csv"), &latin1).unwrap();
    same.check_rows(&latin1, keys.counts()).unwrap();
}

/// Rows beyond one piece of text or one batch.
#[test]
fn long_tables_come_out_whole() {
    let directory = tempfile::tempdir().unwrap();
    let rows = 50_000u64;
    let mut text = "k,t\n".to_owned();
    for row in 0..rows {
        text += &format!("{row},\"a\n{}\"\n", "x".repeat(row as usize % 50));
    }
    let table = source("t.csv", text.clone());
    let some: Vec<u64> = (0..rows).filter(|row| row % 3 != 1).collect();
    let there = written(&table, &some, &directory, "there.parquet");
    let found = batch_of(&there);
    assert_eq!(found.num_rows(), some.len());
    assert_eq!(found.column(0).data_type(), &DataType::Utf8);
    let all: Vec<u64> = (0..some.len() as u64).collect();
    let back = Source::open(&there, SourceOptions::default()).unwrap();
    let back = text_of(&written(&back, &all, &directory, "back.csv"));
    let same = text_of(&written(&table, &some, &directory, "same.csv"));
    assert!(back == same);
}

/// A file of each of these batches, and what they are as one table.
fn files(directory: &TempDir, extension: &str, batches: &[RecordBatch]) -> Vec<PathBuf> {
    let write = |(i, batch): (usize, &RecordBatch)| {
        let path = directory.path().join(format!("part-{i}.{extension}"));
        let bytes = match extension {
            "parquet" => parquet(batch),
            _ => arrow_file(batch),
        };
        std::fs::write(&path, bytes).unwrap();
        path
    };
    batches.iter().enumerate().map(write).collect()
}

#[test]
fn files_that_differ_slightly_are_one_table() {
    let key = |keys: [i64; 2]| Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef;
    let of = |keys, column: ArrayRef| batch(&[("k", key(keys)), ("c", column)]);
    let parts = [
        of([1, 2], Arc::new(NullArray::new(2))),
        of([3, 4], Arc::new(StringArray::from(vec![Some("a"), None]))),
        of([5, 6], Arc::new(LargeStringArray::from(vec!["b", "c"]))),
        of(
            [7, 8],
            Arc::new(DictionaryArray::<Int8Type>::from_iter(["d", "e"])),
        ),
        RecordBatch::try_from_iter_with_nullable([
            ("k", key([9, 10]), false),
            (
                "c",
                Arc::new(StringViewArray::from(vec!["f", "g"])) as ArrayRef,
                false,
            ),
        ])
        .unwrap(),
    ];
    let texts = [None, None, Some("a"), None].into_iter();
    let texts = texts.chain(["b", "c", "d", "e", "f", "g"].map(Some));
    let all = batch(&[
        ("k", Arc::new(Int64Array::from_iter_values(1..=10))),
        ("c", Arc::new(LargeStringArray::from_iter(texts))),
    ]);
    for extension in ["parquet", "arrow"] {
        let directory = tempfile::tempdir().unwrap();
        let mut paths = files(&directory, extension, &parts);
        let source = Source::open_all(&paths, &SourceOptions::default()).unwrap();
        let places: Vec<u64> = (0..10).collect();
        for out in ["o.parquet", "o.arrow", "o.arrows"] {
            let path = written(&source, &places, &directory, out);
            assert_eq!(batch_of(&path), all, "{extension} {out}");
            std::fs::remove_file(path).unwrap();
        }
        let csv = text_of(&written(&source, &[1, 2, 9], &directory, "o.csv"));
        assert_eq!(csv, "k,c\n2,\n3,a\n10,g\n");
        // Numbers are no texts, and the message says of which file and column.
        let numbers = of([11, 12], Arc::new(Int64Array::from(vec![1, 2])));
        let last = directory.path().join(format!("part-9.{extension}"));
        std::fs::rename(files(&directory, extension, &[numbers]).remove(0), &last).unwrap();
        paths[0] = last.clone();
        let source = Source::open_all(&paths, &SourceOptions::default()).unwrap();
        let error = read_keys(&source, &KeySpec::parse::<&str>("k", &[]).unwrap()).unwrap_err();
        let text = error.to_string();
        let name = last.display().to_string();
        assert_eq!(error.place().path.as_deref(), Some(&*name));
        assert!(
            text.contains("\"c\" is of type Int64, not LargeUtf8"),
            "{text}"
        );
    }
}
