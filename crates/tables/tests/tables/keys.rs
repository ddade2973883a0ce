//! Keys that are equal by value, and what a dry run says of those that are not.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use vesica_tables::*;

/// The items of the column `k` of a table in memory, under a profile.
fn items(name: &str, bytes: impl Into<Vec<u8>>, profile: &str) -> Result<TableKeys> {
    let key = KeySpec::parse("k", &[format!("k={profile}")])?;
    read_keys(&source(name, bytes), &key)
}

fn column(array: impl arrow_array::Array + 'static) -> Vec<u8> {
    parquet(&batch(&[("k", Arc::new(array) as ArrayRef)]))
}

fn decimals(unscaled: &[i128], scale: i8) -> Vec<u8> {
    let array = Decimal128Array::from_iter_values(unscaled.iter().copied());
    column(array.with_precision_and_scale(20, scale).unwrap())
}

#[test]
fn decimals_are_equal_by_value_since_the_second_version() {
    let expected = items("t.csv", "k,x\n12.5,\n7,\n-0.05,\n0,\n", "exact").unwrap();
    for scale in [2, 3, 6] {
        let unit = 10i128.pow(scale as u32) / 100;
        let bytes = decimals(&[1250, 700, -5, 0].map(|n| n * unit), scale);
        let found = items("t.parquet", bytes.clone(), "exact").unwrap();
        assert_eq!(found.digests(), expected.digests(), "{scale}");
        assert_eq!(found.counts().changed, 0);
        let first = items("t.parquet", bytes, "exact/1").unwrap();
        assert_ne!(first.digests(), expected.digests(), "{scale}");
    }
    let first = items("t.csv", "k,x\n12.50,\n7.00,\n-0.05,\n0.00,\n", "exact/1").unwrap();
    let found = items("t.parquet", decimals(&[1250, 700, -5, 0], 2), "exact/1").unwrap();
    assert_eq!(found.digests(), first.digests());
}

/// PostgreSQL's `numeric`, as its driver passes it on.
#[test]
fn decimals_in_text_are_decimals_where_the_column_says_so() {
    let texts = StringArray::from(vec![Some("12.50"), None, Some("7"), Some("NaN")]);
    let of_type = |name: &str| {
        let field = Field::new("k", DataType::Utf8, true).with_metadata(HashMap::from([
            ("ARROW:extension:name".into(), "arrow.opaque".into()),
            (
                "ARROW:extension:metadata".into(),
                format!(r#"{{"type_name": "{name}", "vendor_name": "PostgreSQL"}}"#),
            ),
        ]));
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(texts.clone())]).unwrap();
        items("t.arrows", arrow_stream(&batch), "exact").unwrap()
    };
    let expected = |text: &str| items("t.csv", text.as_bytes(), "exact").unwrap();
    assert_eq!(
        of_type("numeric").digests(),
        expected("k,x\n12.5,\n7,\nNaN,\n").digests()
    );
    assert_eq!(
        of_type("tsvector").digests(),
        expected("k,x\n12.50,\n7,\nNaN,\n").digests()
    );
}

#[test]
fn integers_are_equal_by_value_in_every_format() {
    const LARGE: i64 = (1 << 53) - 1;
    let ours = Int64Array::from(vec![Some(7), None, Some(-12), Some(0), Some(LARGE)]);
    let expected = items("t.parquet", column(ours), "integer").unwrap();
    assert_eq!(expected.counts().blanks, 1);
    let floats = [Some(7.0), None, Some(-12.0), Some(-0.0), Some(LARGE as f64)];
    let nan = [7.0, f64::NAN, -12.0, 0.0, LARGE as f64];
    let csv = "k,x\n+007,\n,\n-12.0,\n-0.00,\n9007199254740991,\n";
    let json = "{\"k\":7.0}\n{\"k\":null}\n{\"k\":-12}\n{\"k\":\"0\"}\n{\"k\":9007199254740991}\n";
    for (name, bytes) in [
        ("t.parquet", column(Float64Array::from(floats.to_vec()))),
        ("t.parquet", column(Float64Array::from(nan.to_vec()))),
        ("t.csv", csv.as_bytes().to_vec()),
        ("t.jsonl", json.as_bytes().to_vec()),
    ] {
        let found = items(name, bytes, "integer").unwrap();
        assert_eq!(found.digests(), expected.digests(), "{name}");
        assert_eq!(found.row_items(), expected.row_items());
    }
    let small = Float32Array::from(vec![7.0, 16_777_215.0, 16_777_216.0, 7.5, f32::INFINITY]);
    let found = items("t.parquet", column(small), "integer").unwrap();
    assert_eq!((found.counts().items, found.counts().invalid), (2, 3));
    let large = Float64Array::from(vec![(LARGE + 1) as f64, 1e300]);
    let found = items("t.parquet", column(large), "integer").unwrap();
    assert_eq!(found.counts().invalid, 2);
    let decimal = items("t.parquet", decimals(&[700, -1200, 750], 2), "integer").unwrap();
    assert_eq!(decimal.digests(), &expected.digests()[..2]);
    let exponent = items("t.jsonl", "{\"k\":1e3}\n{\"k\":7.0}\n", "integer").unwrap();
    assert_eq!((exponent.counts().items, exponent.counts().invalid), (1, 1));
}

#[test]
fn floats_are_refused_with_advice() {
    let floats = column(Float64Array::from(vec![7.0]));
    for (name, bytes) in [
        ("t.parquet", floats),
        ("t.jsonl", b"{\"k\":7.0}\n".to_vec()),
    ] {
        for profile in ["exact", "text", "integer:20", "date"] {
            let error = items(name, bytes.clone(), profile).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::KeyType { .. }),
                "{profile}"
            );
            let remedy = error.remedy().unwrap();
            assert!(remedy.arguments().eq([Argument::Normalize]), "{remedy}");
        }
    }
}

#[test]
fn dates_and_uuids_are_equal_in_every_format() {
    let expected = items("t.csv", "k,x\n20240229,\n1970-01-01 00:00:00,\n", "date").unwrap();
    let days = items(
        "t.parquet",
        column(Date32Array::from(vec![19_782, 0])),
        "date",
    )
    .unwrap();
    assert_eq!(days.digests(), expected.digests());
    let text = "{\"k\":\"2024-02-29T00:00:00Z\"}\n{\"k\":\"1970-01-01\"}\n";
    let json = items("t.jsonl", text, "date").unwrap();
    assert_eq!(json.digests(), expected.digests());

    let bytes: [u8; 16] = std::array::from_fn(|i| 17 * i as u8);
    let uuid = "{00112233-4455-6677-8899-AABBCCDDEEFF}";
    let expected = items("t.csv", format!("k,x\n{uuid},\n"), "uuid").unwrap();
    let fixed = FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).unwrap();
    for column in [column(fixed), column(BinaryArray::from_vec(vec![&bytes]))] {
        let found = items("t.parquet", column, "uuid").unwrap();
        assert_eq!(found.digests(), expected.digests());
    }
}

#[test]
fn numbers_instants_and_addresses_are_equal_in_every_format() {
    let instants = vec![1_709_195_400_250, 0];
    let millis = TimestampMillisecondArray::from(instants.clone()).with_timezone("+02:00");
    let micros = TimestampMicrosecondArray::from_iter_values(instants.iter().map(|i| i * 1000));
    let address: [u8; 16] = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
    let fixed = FixedSizeBinaryArray::try_from_iter([address].into_iter()).unwrap();
    for (profile, csv, others) in [
        (
            "decimal",
            "+12.50\n-0.050\n7\n",
            vec![
                ("t.parquet", decimals(&[12_500, -50, 7000], 3)),
                (
                    "t.jsonl",
                    b"{\"k\":12.5}\n{\"k\":\"-.05\"}\n{\"k\":7.0}\n".to_vec(),
                ),
            ],
        ),
        (
            "timestamp:ms",
            "2024-02-29 09:30:00.25+01\n0\n",
            vec![
                ("t.parquet", column(millis)),
                ("t.parquet", column(micros)),
                ("t.parquet", column(Int64Array::from(instants))),
                (
                    "t.jsonl",
                    b"{\"k\":1709195400250}\n{\"k\":\"1970-01-01\"}\n".to_vec(),
                ),
            ],
        ),
        (
            "timestamp",
            "2024-02-29T00:00Z\n",
            vec![("t.parquet", column(Date32Array::from(vec![19_782])))],
        ),
        (
            "ipv6",
            "2001:DB8:0::0:7\n",
            vec![
                ("t.parquet", column(fixed)),
                ("t.parquet", column(BinaryArray::from_vec(vec![&address]))),
            ],
        ),
        // Sixteen bytes that are a text.
        (
            "ipv6",
            "2001:db8:0:0::12\n",
            vec![(
                "t.parquet",
                column(BinaryArray::from_vec(vec![b"2001:db8:0:0::12"])),
            )],
        ),
        (
            "ipv4",
            "192.0.2.7\n",
            vec![
                ("t.parquet", column(Int64Array::from(vec![3_221_225_991]))),
                (
                    "t.parquet",
                    column(BinaryArray::from_vec(vec![&[192, 0, 2, 7]])),
                ),
                ("t.jsonl", b"{\"k\":3221225991}\n".to_vec()),
            ],
        ),
    ] {
        let expected = items("t.csv", format!("k\n{csv}"), profile).unwrap();
        assert_eq!(expected.counts().invalid, 0, "{profile}");
        for (name, bytes) in others {
            let found = items(name, bytes, profile).unwrap();
            assert_eq!(found.digests(), expected.digests(), "{profile} {name}");
        }
    }
}

fn warnings(name: &str, bytes: impl Into<Vec<u8>>, key: &KeySpec) -> Vec<String> {
    check(&source(name, bytes), key).unwrap().warnings
}

#[test]
fn a_check_warns_of_text_in_an_unknown_encoding() {
    for (name, text) in [
        ("t.csv", b"k,x\n1,Z\xfcrich\n2,Z\xc3\xbcrich\n".to_vec()),
        (
            "t.jsonl",
            b"{\"k\":1,\"x\":\"Z\xfcrich\"}\n{\"k\":2}\n".to_vec(),
        ),
    ] {
        let table = source(name, text);
        let told = check(&table, &key("k")).unwrap();
        assert_eq!(told.counts.not_utf8, 1, "{name}");
        assert!(told.warnings[0].starts_with("1 row with bytes that are not UTF-8"));
        assert_eq!(read_keys(&table, &key("k")).unwrap().counts().not_utf8, 1);
    }
}

#[test]
fn keys_are_shown_before_and_after() {
    let text = b"m,n\n Ann@X.org ,1\nnobody,2\n,3\nNULL,4\nbob@x.org,5\n".to_vec();
    let table = source("t.csv", text);
    let spec = KeySpec::parse("m,n", &["m=email"]).unwrap();
    let spec = spec.with_nulls(vec!["NULL".into()]);
    let show = |count| check_within(&table, &spec, None, count, u64::MAX, Path::new("")).unwrap();
    assert!(show(0).shown.is_empty());
    let told = show(4);
    let shown = told.shown.iter().map(|key| {
        let mail = &key.values[0];
        (
            key.row,
            mail.before.as_deref(),
            mail.after.as_deref(),
            mail.is_invalid,
        )
    });
    let expected = [
        (1, Some(" Ann@X.org "), Some("ann@x.org"), false),
        (2, Some("nobody"), None, true),
        (3, Some(""), None, false),
        (4, Some("NULL"), None, false),
    ];
    assert!(shown.eq(expected));
    let line =
        "key of row 1: \" Ann@X.org \" is compared as \"ann@x.org\", \"1\" is compared as \"1\"\n";
    assert!(told.to_string().contains(line), "{told}");
}

#[test]
fn words_for_null_are_counted_in_checks_and_in_runs() {
    let text =
        "k,x\nNULL,1\n\\N,2\nn/a,3\nNone,4\nnan,5\nNaT,6\n-,7\n?,8\nundefined,9\n ,10\nNancy,11\n";
    let warned = |told: &[String]| told.iter().any(|w| w.contains("stand for no value"));
    let told = check(&source("t.csv", text), &key("k")).unwrap();
    assert_eq!(
        (told.columns[0].null_words.count, told.counts.null_words),
        (10, 10)
    );
    assert!(warned(&told.warnings), "{:?}", told.warnings);
    let nulls = [
        "NULL",
        "\\N",
        "n/a",
        "None",
        "nan",
        "NaT",
        "-",
        "?",
        "undefined",
        " ",
    ];
    let with_nulls = key("k").with_nulls(nulls.map(str::to_owned).to_vec());
    assert_eq!(warnings("t.csv", text, &with_nulls), [""; 0]);
    let keys = read_keys(&source("t.csv", text), &with_nulls).unwrap();
    assert_eq!((keys.counts().blanks, keys.counts().items), (10, 1));
    assert_eq!(keys.counts().null_words, 0);
    // No e-mail address is one of them.
    let email = KeySpec::parse("k", &["k=email"]).unwrap();
    assert!(!warned(&warnings(
        "t.csv",
        "k,x\nNULL,1\na@b.org,2\n",
        &email
    )));
    // The same in every format; a row of two such values counts once.
    for (name, bytes, words) in [
        ("t.csv", b"k,x\nNULL,-\na,b\na,nil\n".to_vec(), 2),
        (
            "t.jsonl",
            b"{\"k\":\"NULL\",\"x\":\"?\"}\n{\"k\":null,\"x\":\"a\"}\n{\"k\":1,\"x\":\"?\"}\n"
                .to_vec(),
            2,
        ),
        (
            "t.parquet",
            two_columns(&["NULL", "a", "7"], &["?", "b", "n/a"]),
            2,
        ),
    ] {
        let table = source(name, bytes);
        let keys = read_keys(&table, &key("k,x")).unwrap();
        assert_eq!(keys.counts().null_words, words, "{name}");
        let words = format!("{words} of 3 rows have a key that stands for no value");
        let warnings = keys.counts().warnings();
        let warning = warnings.iter().find(|w| w.to_string().starts_with(&words));
        let arguments: Vec<Argument> = warning.expect(&words).arguments().collect();
        assert_eq!(arguments, [Argument::Null], "{name}");
        assert_eq!(check(&table, &key("k,x")).unwrap().counts, *keys.counts());
    }
}

fn two_columns(first: &[&str], second: &[&str]) -> Vec<u8> {
    let column = |texts: &[&str]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
    parquet(&batch(&[("k", column(first)), ("x", column(second))]))
}

#[test]
fn phone_numbers_in_the_form_of_numbers_are_invalid_and_named() {
    let spec = KeySpec::parse("k", &["k=phone:DE"]).unwrap();
    let pair = KeySpec::parse("k", &["k=pair-phone:DE"]).unwrap();
    let text = "k\n4930123456.0\n4.93E+11\n\"4,930,123,456\"\n4930123456\n030.123.4567\nnobody\n";
    for spec in [&spec, &pair] {
        let table = source("t.csv", text);
        let told = check(&table, spec).unwrap();
        let counts = read_keys(&table, spec).unwrap().counts().to_owned();
        assert_eq!((counts.invalid, counts.number_forms), (4, 3));
        assert_eq!(told.counts, counts);
        assert_eq!(told.columns[0].number_forms.rows, [1, 2, 3]);
        let words = "in the form of a number, such as 4930123456.0";
        assert!(
            told.warnings.iter().any(|w| w.contains(words)),
            "{:?}",
            told.warnings
        );
        assert!(
            counts
                .warnings()
                .iter()
                .any(|w| w.to_string().contains(words))
        );
    }
    // A column of decimals has the same texts, and integers are digits.
    let decimals = source("t.parquet", decimals(&[493_012_345_600], 2));
    assert_eq!(
        read_keys(&decimals, &spec).unwrap().counts().number_forms,
        1
    );
    let integers = source("t.parquet", column(Int64Array::from(vec![4_930_123_456])));
    let keys = read_keys(&integers, &spec).unwrap();
    let abroad = source("t.csv", "k\n+49 30 123456\n");
    assert_eq!(keys.digests(), read_keys(&abroad, &spec).unwrap().digests());
    // Beside an identifier that is usable.
    let spec = KeySpec::parse_any_of(&["a=a", "k=k"], &["k=phone:DE"]).unwrap();
    let spec = spec.with_denied(&["z"]).unwrap();
    let table = source("t.csv", "a,k\nx,4930123456.0\nz,+4930123456\nz,1.0\n");
    let counts = read_keys(&table, &spec).unwrap().counts().to_owned();
    assert_eq!((counts.partly_invalid, counts.partly_denied), (1, 1));
    assert_eq!((counts.number_forms, counts.denied), (2, 1));
    let warnings: Vec<String> = (counts.warnings().iter().map(ToString::to_string)).collect();
    for words in [
        "1 of 3 rows have an invalid identifier, and match by their other ones only",
        "1 of 3 rows have an identifier that is denied",
        "2 of 3 rows have a phone number in the form of a number",
    ] {
        assert!(
            warnings.iter().any(|w| w.starts_with(words)),
            "{warnings:?}"
        );
    }
    // Under other profiles nothing is said of them.
    let told = check(&source("t.csv", text), &key("k")).unwrap();
    assert_eq!(told.columns[0].number_forms.count, 0);
}

#[test]
fn keys_of_very_many_rows_are_counted_in_memory_and_on_the_disk() {
    let mut text = "k,x\n,0\n".to_owned();
    for row in 1..4000 {
        let key = match row {
            10..51 => "many".to_owned(),
            100..140 => "not quite".to_owned(),
            _ if row % 50 == 3 => "more".to_owned(),
            _ => row.to_string(),
        };
        text.push_str(&format!("{key},{row}\n"));
    }
    let frequent = |text: &str| {
        let table = source("t.csv", text);
        let directory = std::env::temp_dir();
        let [memory, disk] = [u64::MAX, 0].map(|memory| {
            let store = read_keys_within(&table, &key("k"), &[], None, memory, &directory);
            let store = store.unwrap();
            assert_eq!(store.is_in_memory(), memory > 0);
            *store.counts()
        });
        assert_eq!(memory, disk);
        let told = check(&table, &key("k")).unwrap();
        assert_eq!(told.counts, memory);
        let words = memory.frequent.words(memory.rows);
        assert_eq!(
            told.warnings
                .iter()
                .find(|w| w.contains("rows, first in"))
                .cloned(),
            words
        );
        let warned: Vec<String> = memory.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            warned.iter().any(|w| w.contains("rows, first in")),
            words.is_some()
        );
        (memory.frequent.keys, memory.frequent.most)
    };
    let most = |rows, first_row| Some(Repeated { rows, first_row });
    // 41 of 4000 rows are more than one in a hundred, 40 are not.
    assert_eq!(frequent(&text), (2, most(79, 4)));
    // Few rows are few, whatever their share.
    let same = |rows: usize| format!("k\n{}", "a\n".repeat(rows));
    assert_eq!(frequent(&same(19)), (0, None));
    assert_eq!(frequent(&same(20)), (1, most(20, 1)));
    assert_eq!(frequent(&format!("{}b\n", same(20))), (1, most(20, 1)));
}

#[test]
fn nulls_are_the_same_in_every_format() {
    let nulls = key("k").with_nulls(vec!["0".into()]);
    for (name, bytes) in [
        ("t.csv", b"k,x\n0,1\n00,1\n7,1\n".to_vec()),
        ("t.jsonl", b"{\"k\":0}\n{\"k\":\"0\"}\n{\"k\":7}\n".to_vec()),
        ("t.parquet", column(Int64Array::from(vec![0, 0, 7]))),
    ] {
        let keys = read_keys(&source(name, bytes), &nulls).unwrap();
        let blanks = if name == "t.csv" { 1 } else { 2 };
        assert_eq!(keys.counts().blanks, blanks, "{name}");
    }
}

#[test]
fn a_check_warns_of_keys_that_other_formats_write_otherwise() {
    let k = key("k");
    let raw = BinaryArray::from_vec(vec![b"\xff\xfe", b"ab"]);
    for (name, bytes, words) in [
        (
            "t.parquet",
            decimals(&[1250], 2),
            "written as 12.5, without zeros at the end; decimal on both sides",
        ),
        (
            "t.parquet",
            column(BooleanArray::from(vec![true])),
            "true and false",
        ),
        (
            "t.parquet",
            column(raw),
            "1 value of bytes that are no text",
        ),
        (
            "t.csv",
            b"k,x\n7.0,1\n8,1\n".to_vec(),
            "1 value such as 7.0",
        ),
        (
            "t.jsonl",
            b"{\"k\":7}\n{\"k\":\"x\"}\n".to_vec(),
            "mixes types",
        ),
    ] {
        let told = warnings(name, bytes, &k);
        assert!(told.iter().any(|w| w.contains(words)), "{words}: {told:?}");
    }
    let first = KeySpec::parse("k", &["k=exact/1"]).unwrap();
    let told = warnings("t.parquet", decimals(&[1250], 2), &first);
    assert!(
        told.iter().any(|w| w.contains("all digits of the scale")),
        "{told:?}"
    );
    // Where a profile compares values, there is nothing to warn of.
    let integer = KeySpec::parse("k", &["k=integer"]).unwrap();
    assert_eq!(warnings("t.csv", "k,x\n7.0,1\n8,1\n", &integer), [""; 0]);
    assert_eq!(
        warnings("t.parquet", decimals(&[700], 2), &integer),
        [""; 0]
    );
}

#[test]
fn digests_of_rows_are_those_of_their_items() {
    let email = KeySpec::parse("k", &["k=email"]).unwrap();
    // Many batches of rows; some without a key, some with an unusable one, some with one that comes again.
    let texts = (0..5000).map(|i| match i % 10 {
        3 => String::new(),
        4 => "nowhere".to_owned(),
        _ => format!("{}@Example.com", i % 900),
    });
    let texts: Vec<String> = texts.collect();
    let csv = "k,x\n".to_owned() + &texts.iter().map(|t| format!("{t},\n")).collect::<String>();
    let tables = [
        source("t.csv", csv),
        source("t.parquet", column(StringArray::from_iter_values(&texts))),
    ];
    for source in tables {
        let keys = read_keys(&source, &email).unwrap();
        let of_item = |item: &u32| keys.digests().get(*item as usize).copied();
        let expected: Vec<_> = keys.row_items().iter().map(of_item).collect();
        let digests = row_digests(&source, &email).unwrap();
        assert_eq!(digests, expected);
        let usable = digests.iter().flatten().count();
        assert!(usable > 3000 && usable < 5000, "{usable}");
    }
    // The error is that of the first bad row, whatever comes after it.
    let bad = source("t.csv", "k\na@b.c\n\"x\n");
    let [rows, keys] = [
        row_digests(&bad, &email).map(|_| ()),
        read_keys(&bad, &email).map(|_| ()),
    ];
    assert_eq!(rows.unwrap_err().to_string(), keys.unwrap_err().to_string());
}
