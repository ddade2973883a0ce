//! A table that several threads read is read as by one.

use std::path::Path;
use std::slice;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use parquet::file::properties::WriterProperties;

use crate::common::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use vesica_tables::*;

/// Rows that end in the wrong place if a text is cut where it must not be, or that are wrong.
const ROWS: [&str; 10] = [
    "#,plain,1\n",
    "#,crlf,-2\r\n",
    "\"#\",\"quoted, with a\nline feed and a \"\" quote\",3\n",
    "#,\"two\r\n\r\n#,lines\",4\r\n",
    "x#,a quote\" in the middle,5\n",
    "\n",
    "\r\n",
    "same,a key of many,6\n",
    ",no key,7\n",
    "#,long ..............................................................................,8\n",
];

/// What cannot be read, or not as a row of this table.
const WRONG: [&str; 4] = [
    "too,few\n",
    "\u{e9}#,\"never closed,1\n",
    "n,no number,x\n",
    "m,too large,5000000000\n",
];

/// What a pass with so many threads finds, or its error.
fn read(
    source: &Source,
    columns: &[ValueColumn],
    name: &str,
    threads: usize,
) -> std::result::Result<TableKeys, String> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let read = || read_keys_within(source, &key(name), columns, None, u64::MAX, Path::new(""));
    pool.install(read).map_err(|e| e.to_string())
}

/// Whether one thread and three find the same in a table, or the same error.
fn same(source: &Source, columns: &[ValueColumn], key: &str) -> TestCaseResult {
    match (read(source, columns, key, 1), read(source, columns, key, 3)) {
        (Ok(one), Ok(three)) => {
            prop_assert_eq!(one.gathered(), three.gathered());
            prop_assert_eq!(one.counts(), three.counts());
        }
        (one, three) => prop_assert_eq!(one.err(), three.err()),
    }
    Ok(())
}

fn column(name: &str) -> ValueColumn {
    ValueColumn {
        name: name.into(),
        scale: 0,
        bound: 1 << 31,
        sums_repeated: true,
    }
}

/// Lines of JSON, some of which are no rows.
const LINES: [&str; 6] = [
    "{\"k\":#,\"v\":1}\n",
    " {\"k\": \"#\", \"w\": \"..................................................\"} \r\n",
    "\n",
    " \t\r\n",
    "{\"w\":{\"x\":[1]}}\n",
    "{\"k\":\"same\",\"v\":\"2\"}\n",
];

/// What cannot be read, or not as a row of this table.
const WRONG_LINES: [&str; 4] = [
    "{\"k\":1,\n",
    "{\"k\":[]}\n",
    "{\"k\":\"n\",\"v\":\"no number\"}\n",
    "[1]\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn pieces_are_the_whole(
        pattern in prop::collection::vec(0..ROWS.len(), 1..12),
        rows in 1usize..12_000,
        wrong in prop::option::of((any::<prop::sample::Index>(), 0..WRONG.len())),
        (header, values, unended) in any::<(bool, bool, bool)>(),
    ) {
        let wrong = wrong.map(|(at, which)| (at.index(rows), which));
        let mut text = String::from("1,2,3\n");
        for row in 0..rows {
            let kind = ROWS[pattern[row * row % pattern.len()]];
            text.push_str(&kind.replace('#', &row.to_string()));
            if let Some((at, which)) = wrong && at == row {
                text.push_str(WRONG[which]);
            }
        }
        if unended {
            text.pop();
        }
        let column = column("3");
        let columns = if values { slice::from_ref(&column) } else { &[] };
        let options = SourceOptions {
            delimiter: Some(b','),
            csv: CsvOptions { header, ..CsvOptions::default() },
            ..SourceOptions::default()
        };
        let source = Source::from_bytes("t.csv", text.into_bytes(), options).unwrap();
        same(&source, columns, "1")?;
    }

    #[test]
    fn pieces_of_lines_are_the_whole(
        pattern in prop::collection::vec(0..LINES.len(), 1..12),
        rows in 1usize..12_000,
        wrong in prop::option::of((any::<prop::sample::Index>(), 0..WRONG_LINES.len())),
        (values, unended) in any::<(bool, bool)>(),
    ) {
        let wrong = wrong.map(|(at, which)| (at.index(rows), which));
        let mut text = String::new();
        for row in 0..rows {
            let line = LINES[pattern[row * row % pattern.len()]];
            text.push_str(&line.replace('#', &row.to_string()));
            if let Some((at, which)) = wrong && at == row {
                text.push_str(WRONG_LINES[which]);
            }
        }
        if unended {
            text.pop();
        }
        let column = column("v");
        let options = SourceOptions::default();
        let source = Source::from_bytes("t.jsonl", text.into_bytes(), options).unwrap();
        same(&source, if values { slice::from_ref(&column) } else { &[] }, "k")?;
    }

    #[test]
    fn batches_are_the_whole(
        rows in 1usize..24_000,
        wrong in prop::option::of(any::<prop::sample::Index>()),
        values in any::<bool>(),
    ) {
        let wrong = wrong.map(|at| at.index(rows));
        let keys = (0..rows).map(|row| match row % 11 {
            3 => None,
            5 => Some("same".to_owned()),
            _ => Some(format!("k{row}")),
        });
        let units = (0..rows).map(|row| Some(if wrong == Some(row) { "none" } else { "7" }));
        let keys: ArrayRef = Arc::new(StringArray::from_iter(keys));
        let units: ArrayRef = Arc::new(StringArray::from_iter(units));
        let table = batch(&[("k", keys), ("v", units)]);
        let column = column("v");
        let groups = WriterProperties::builder().set_max_row_group_row_count(Some(5000));
        for (name, bytes) in [
            ("t.parquet", parquet_with(&table, groups)),
            ("t.arrow", arrow_file(&table)),
        ] {
            let source = Source::from_bytes(name, bytes, SourceOptions::default()).unwrap();
            same(&source, if values { slice::from_ref(&column) } else { &[] }, "k")?;
        }
    }
}
