//! Which rows a result has: those that match, the others, or all with a column that says which match.

use std::sync::Arc;

use crate::common::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RunArray, StringArray};
use arrow_schema::DataType;
use vesica_tables::*;

fn options(rows: Rows) -> SourceOptions {
    SourceOptions {
        rows,
        ..SourceOptions::default()
    }
}

/// What a result has of the table if the rows with `n` divisible by three match.
fn result(name: &str, bytes: &[u8], rows: Rows) -> Vec<u8> {
    let source = Source::from_bytes(name, bytes.to_vec(), options(rows)).unwrap();
    let keys = read_keys(&source, &key("n")).unwrap();
    let matched = keys.rows_of(&keys.matched((0..keys.digests().len()).step_by(3)).unwrap());
    let mut out = Vec::new();
    write_rows_to(&source, &matched, &mut out).unwrap();
    out
}

/// The batches of a table in Arrow or Parquet as one.
fn whole(name: &str, bytes: Vec<u8>, rows: u64) -> RecordBatch {
    let mut all = RowSet::none(rows);
    (0..rows).for_each(|row| all.insert(row));
    let (schema, batches) = select_rows(&source(name, bytes), &all).unwrap();
    arrow_select::concat::concat_batches(&schema, &batches).unwrap()
}

#[test]
fn every_format_has_the_rows_that_are_asked_for() {
    let numbers = 0..20i64;
    let names: Vec<String> = numbers.clone().map(|n| format!("näme {n}")).collect();
    let strings = StringArray::from(names.iter().map(String::as_str).collect::<Vec<_>>());
    let runs: RunArray<arrow_array::types::Int32Type> = strings.iter().collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("n", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("name", Arc::new(strings)),
        ("runs", Arc::new(runs)),
    ];
    let batch = batch(&columns);
    for (rows, expected) in [
        (
            Rows::Matching,
            numbers.clone().filter(|n| n % 3 == 0).collect::<Vec<_>>(),
        ),
        (Rows::Rest, numbers.clone().filter(|n| n % 3 != 0).collect()),
        (Rows::All, numbers.clone().collect()),
    ] {
        let plain = batch.project(&[0, 1]).unwrap();
        for (name, bytes) in [
            ("t.parquet", parquet(&plain)),
            ("t.arrow", arrow_file(&batch)),
            ("t.arrows", arrow_stream(&batch)),
        ] {
            let found = whole(name, result(name, &bytes, rows), expected.len() as u64);
            let column = found
                .column_by_name("n")
                .unwrap()
                .as_primitive::<Int64Type>();
            assert_eq!(column.values(), &expected[..], "{name} {rows:?}");
            let names = found.column_by_name("name").unwrap().as_string::<i32>();
            assert_eq!(names.value(1), format!("näme {}", expected[1]), "{name}");
            let marks = found.column_by_name(Rows::IN_BOTH).map(|marks| {
                let marks = marks.as_boolean();
                assert_eq!(marks.null_count(), 0);
                marks.values().iter().collect::<Vec<_>>()
            });
            let all = expected.iter().map(|n| n % 3 == 0).collect();
            assert_eq!(marks, (rows == Rows::All).then_some(all), "{name} {rows:?}");
        }
        let mark = |n: &i64, form: &dyn Fn(bool) -> String| match rows {
            Rows::All => form(n % 3 == 0),
            _ => String::new(),
        };
        let csv: String = numbers
            .clone()
            .map(|n| format!("{n},\"a\r\n{n}\"\r\n"))
            .collect();
        let found = result("t.csv", format!("n,x\r\n{csv}").as_bytes(), rows);
        let lines = expected
            .iter()
            .map(|n| format!("{n},\"a\r\n{n}\"{}\r\n", mark(n, &|m| format!(",{m}"))));
        let header = mark(&0, &|_| ",in_both".into());
        let lines: String = lines.collect();
        assert_eq!(
            String::from_utf8(found).unwrap(),
            format!("n,x{header}\r\n{lines}")
        );
        let json: String = numbers
            .clone()
            .map(|n| format!(" {{\"n\":{n}, \"x\":{{}}}} \n"))
            .collect();
        let found = result("t.jsonl", json.as_bytes(), rows);
        let lines = expected.iter().map(|n| {
            format!(
                " {{\"n\":{n}, \"x\":{{}}{}}} \n",
                mark(n, &|m| format!(",\"in_both\":{m}"))
            )
        });
        assert_eq!(String::from_utf8(found).unwrap(), lines.collect::<String>());
    }
}

#[test]
fn text_keeps_its_form() {
    for (name, text, expected) in [
        ("t.csv", "n;x\n1;a\n2;b", "n;x;in_both\n1;a;true\n2;b;false"),
        (
            "t.csv",
            "\u{feff}n\n\n1\n\n2\n",
            "\u{feff}n,in_both\n1,true\n2,false\n",
        ),
        (
            "t.tsv",
            "n\tx\r\n1\t\r\n2\tb",
            "n\tx\tin_both\r\n1\t\ttrue\r\n2\tb\tfalse",
        ),
        (
            "t.jsonl",
            "{\"n\":1}\r\n{ }\r\n\r\n{\"n\":\"}\"}",
            "{\"n\":1,\"in_both\":true}\r\n{ \"in_both\":false}\r\n{\"n\":\"}\",\"in_both\":false}",
        ),
    ] {
        let found = result(name, text.as_bytes(), Rows::All);
        assert_eq!(String::from_utf8(found).unwrap(), expected);
    }
    let headerless = SourceOptions {
        csv: CsvOptions {
            header: false,
            ..CsvOptions::default()
        },
        ..options(Rows::All)
    };
    let source = Source::from_bytes("t.csv", b"5,x\n6,y\n".to_vec(), headerless).unwrap();
    let keys = read_keys(&source, &key("1")).unwrap();
    let mut out = Vec::new();
    write_rows_to(&source, &keys.rows_of(&[false, true]), &mut out).unwrap();
    assert_eq!(out, b"5,x,false\n6,y,true\n");
}

/// Files of other programs, with schemas and metadata of their own.
#[test]
fn files_of_other_programs_keep_their_types() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/tables");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        let Ok(plain) = Source::from_bytes(&name, bytes.clone(), options(Rows::Matching)) else {
            continue;
        };
        if plain.format().is_text() {
            continue;
        }
        let full = |rows| {
            let mut all = RowSet::none(rows);
            (0..rows).for_each(|row| all.insert(row));
            select_rows(&plain, &all).ok().map(|found| (all, found.0))
        };
        let Some((all, schema)) = (1..100).find_map(full) else {
            continue;
        };
        let marked = Source::from_bytes(&name, bytes, options(Rows::All)).unwrap();
        let mut out = Vec::new();
        write_rows_to(&marked, &all, &mut out).unwrap();
        let found = whole(&name, out, all.rows());
        let found = found.schema_ref();
        let (last, first) = found.fields().split_last().unwrap();
        assert_eq!(
            (last.name().as_str(), last.data_type()),
            ("in_both", &DataType::Boolean)
        );
        assert_eq!(first, &schema.fields()[..], "{name}");
        seen += 1;
    }
    assert!(seen > 1, "{seen} tables");
}

#[test]
fn a_name_that_is_taken_is_said_before_the_run() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = batch(&[("n", number.clone()), ("in_both", number)]);
    let taken = |name: &str, bytes: &[u8]| {
        let read = |rows| {
            let source = Source::from_bytes(name, bytes.to_vec(), options(rows)).unwrap();
            read_keys(&source, &key("n"))
        };
        assert!(read(Rows::Rest).is_ok(), "{name}");
        let error = read(Rows::All).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NameTaken),
            "{name}: {error}"
        );
        let remedy = error.remedy().unwrap();
        assert!(remedy.arguments().eq([Argument::Rows, Argument::Align]));
        error
    };
    taken("t.csv", b"n,in_both\n1,2\n");
    taken("t.parquet", &parquet(&batch));
    taken("t.arrow", &arrow_file(&batch));
    let error = taken("t.jsonl", b"{\"n\":1}\n{\"n\":2,\"in\\u005fboth\":null}\n");
    assert_eq!(error.place().line, Some(2));
    // A field of an object is no column.
    let nested = b"{\"n\":1,\"x\":{\"in_both\":1}}\n".to_vec();
    let source = Source::from_bytes("t.jsonl", nested, options(Rows::All)).unwrap();
    assert!(read_keys(&source, &key("n")).is_ok());
}

#[test]
fn a_delimiter_in_the_added_column_is_refused() {
    for (delimiter, quote) in [(b'_', b'"'), (b'u', b'"'), (b',', b'f')] {
        let options = SourceOptions {
            delimiter: Some(delimiter),
            csv: CsvOptions {
                quote: Some(quote),
                ..CsvOptions::default()
            },
            ..options(Rows::All)
        };
        let text = format!("n{0}x\n1{0}2\n", char::from(delimiter));
        let source = Source::from_bytes("t.csv", text.into_bytes(), options).unwrap();
        let error = read_keys(&source, &key("n")).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
    }
}

#[test]
fn words() {
    for (word, rows) in [
        ("matching", Rows::Matching),
        ("rest", Rows::Rest),
        ("all", Rows::All),
    ] {
        assert_eq!(word.parse::<Rows>().unwrap(), rows);
    }
    assert_eq!(
        "both".parse::<Rows>().unwrap_err().class(),
        ErrorClass::Usage
    );
}

/// What `write` makes of a table in the common order of the keys `n` whose number is divisible by three.
fn aligned(source: &Source, key_of_run: u8, memory: u64) -> Vec<u8> {
    let keys = read_keys(source, &key("n")).unwrap();
    let matched = keys.rows_of(&keys.matched((0..keys.digests().len()).step_by(3)).unwrap());
    let order = keys.common_order([key_of_run; 32], memory);
    let mut out = Vec::new();
    let written = write_rows_to(
        source,
        Matched::new(&matched, None).in_order(order),
        &mut out,
    );
    assert_eq!(written.unwrap(), matched.iter().count() as u64);
    out
}

/// TableKeys, places in the input, and numbers.
type Triple = (i64, i64, i64);

/// The rows as they are to come out: by the hash of the key, and those of one key in the order of the input.
fn in_order(rows: &[(i64, i64)], key_of_run: u8) -> Vec<Triple> {
    let source = source("t.csv", {
        let rows: String = rows.iter().map(|(n, _)| format!("{n}\n")).collect();
        format!("n\n{rows}")
    });
    let keys = read_keys(&source, &key("n")).unwrap();
    let place = |digest: &[u8; 32]| *blake3::keyed_hash(&[key_of_run; 32], digest).as_bytes();
    let mut found: Vec<_> = rows
        .iter()
        .zip(keys.row_items())
        .filter(|(_, item)| *item % 3 == 0)
        .map(|((n, at), item)| (place(&keys.digests()[*item as usize]), *n, *at))
        .collect();
    found.sort_unstable();
    let mut places: Vec<_> = found.iter().map(|(place, ..)| *place).collect();
    places.dedup();
    let number = |place: &[u8; 32]| places.binary_search(place).unwrap() as i64 + 1;
    found
        .iter()
        .map(|(place, n, at)| (*n, *at, number(place)))
        .collect()
}

#[test]
fn every_format_comes_in_the_common_order_with_numbers_however_little_fits_into_memory() {
    // Several rows for most keys, in more bytes than are put in order at once.
    let rows: Vec<(i64, i64)> = (0..60_000).map(|i| (i * i % 20_011, i)).collect();
    let expected = in_order(&rows, 5);
    assert_ne!(expected, in_order(&rows, 6));
    let numbers: [(&str, ArrayRef); 3] = [
        (
            "n",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        ),
        (
            "at",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        ),
        (
            "word",
            Arc::new(
                rows.iter()
                    .map(|row| Some(["a", "b", "c"][row.1 as usize % 3]))
                    .collect::<arrow_array::DictionaryArray<arrow_array::types::Int8Type>>(),
            ),
        ),
    ];
    let batch = batch(&numbers);
    for memory in [0, u64::MAX] {
        for (name, bytes) in [
            (
                "t.parquet",
                parquet_with(
                    &batch,
                    parquet::file::properties::WriterProperties::builder(),
                ),
            ),
            ("t.arrow", arrow_file(&batch)),
            ("t.arrows", arrow_stream(&batch)),
        ] {
            let source = Source::from_bytes(name, bytes, options(Rows::Aligned)).unwrap();
            let found = whole(name, aligned(&source, 5, memory), expected.len() as u64);
            let column = |name| {
                found
                    .column_by_name(name)
                    .unwrap()
                    .as_primitive::<Int64Type>()
            };
            let [n, at, number] = ["n", "at", Rows::NUMBER].map(|name| column(name).values());
            let found: Vec<Triple> = (0..n.len()).map(|i| (n[i], at[i], number[i])).collect();
            assert!(found == expected, "{name} {memory}");
        }
        // The last line has no end, and is not the last of the result.
        let text: Vec<String> = rows.iter().map(|(n, at)| format!("{n},{at}")).collect();
        let text = format!("\u{feff}n,at\r\n{}", text.join("\r\n"));
        let csv = Source::from_bytes("t.csv", text.into(), options(Rows::Aligned)).unwrap();
        let lines = expected
            .iter()
            .map(|(n, at, number)| format!("{n},{at},{number}"));
        let lines: Vec<String> = lines.collect();
        let whole = format!("\u{feff}n,at,match_number\r\n{}", lines.join("\r\n"));
        let found = String::from_utf8(aligned(&csv, 5, memory)).unwrap();
        assert!(found.trim_end() == whole, "{memory}");
        let lines = rows
            .iter()
            .map(|(n, at)| format!("{{\"n\":{n},\"at\":{at}}}\n"));
        let json = lines.collect::<String>().into_bytes();
        let json = Source::from_bytes("t.jsonl", json, options(Rows::Aligned)).unwrap();
        let lines = expected.iter().map(|(n, at, number)| {
            format!("{{\"n\":{n},\"at\":{at},\"match_number\":{number}}}\n")
        });
        let found = String::from_utf8(aligned(&json, 5, memory)).unwrap();
        assert!(found == lines.collect::<String>(), "{memory}");
    }
}

#[test]
fn an_order_is_given_and_its_column_is_free() {
    let source =
        Source::from_bytes("t.csv", b"n\n1\n2\n".to_vec(), options(Rows::Aligned)).unwrap();
    let keys = read_keys(&source, &key("n")).unwrap();
    let error = write_rows_to(&source, &keys.rows_of(&[true, false]), &mut Vec::new());
    assert_eq!(error.unwrap_err().class(), ErrorClass::Usage);
    assert_eq!(aligned(&source, 1, 0), b"n,match_number\n1,1\n");
    // Without a match there is a header.
    let order = keys.common_order([0; 32], 0);
    let (none, mut out) = (RowSet::none(2), Vec::new());
    let matched = Matched::new(&none, None).in_order(order);
    assert_eq!(write_rows_to(&source, matched, &mut out).unwrap(), 0);
    assert_eq!(out, b"n,match_number\n");
    for (name, text, delimiter, word) in [
        ("t.csv", "n,match_number\n1,2\n", None, "match_number"),
        (
            "t.jsonl",
            "{\"n\":1,\"match_number\":2}\n",
            None,
            "match_number",
        ),
        ("t.csv", "n7x\n1710\n", Some(b'7'), "special"),
    ] {
        let options = SourceOptions {
            delimiter,
            ..options(Rows::Aligned)
        };
        let source = Source::from_bytes(name, text.into(), options).unwrap();
        let error = read_keys(&source, &key("n")).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
