//! What a database makes of values at the edges of their types. Needs servers and drivers: `make test-databases`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use crate::possible::{HandedExtremes, ROWS, plain_extremes};
use arrow_array::{ArrayRef, Int64Array};
use vesica_tables::*;

fn driver(name: &str) -> String {
    let drivers = std::env::var("VESICA_TEST_DRIVERS").expect("the folder of the drivers");
    let folder = format!("{drivers}/adbc_driver_{name}");
    let found = format!("{folder}/libadbc_driver_{name}.so");
    assert!(Path::new(&found).exists(), "{found}");
    found
}

/// One value of each type and edge by itself: what passes the check before a run is written, and all else is refused by name.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn values_at_the_edges_of_types_are_written_or_refused_before() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.db");
    std::fs::write(&file, []).unwrap();
    let sqlite = format!("sqlite:{}", file.display());
    let mut counts = BTreeMap::new();
    for (uri, name) in [
        ("postgresql:///postgres", "postgresql"),
        (&*sqlite, "sqlite"),
    ] {
        let database = AdbcDatabase::new(uri, Some(&driver(name))).unwrap();
        let table = TargetTable::new("edges", IngestMode::Replace, database).unwrap();
        for values in plain_extremes() {
            for row in 0..values.len() {
                let value = values.slice(row, 1);
                let of = format!("{value:?} to {name}");
                let rows = batch(&[
                    ("k", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
                    ("v", value),
                ]);
                let options = SourceOptions::default();
                let source = Source::from_batches("frame", rows.schema(), vec![rows], &options);
                let source = source.unwrap();
                let keys = read_keys(&source, &key("k")).unwrap();
                let to = Destination::Table(&table);
                let opened = Output::open(to, &source, place.path());
                let checked = opened.and_then(|output| {
                    output.check_rows(&source, keys.counts())?;
                    Ok(output)
                });
                let mut output = match checked {
                    Ok(output) => output,
                    Err(error) => {
                        let by_name = matches!(
                            error.kind(),
                            ErrorKind::NotInFormat { .. } | ErrorKind::NotKept { .. }
                        );
                        assert!(by_name, "{of}: {error}");
                        *counts.entry((name, false)).or_insert(0) += 1;
                        continue;
                    }
                };
                let all = keys.rows_of(&[true]);
                let written = write_rows(&source, &all, &mut output).and_then(|_| output.commit());
                assert!(written.is_ok(), "{of}: {written:?}");
                *counts.entry((name, true)).or_insert(0) += 1;
            }
        }
    }
    assert!(
        counts.len() == 4 && counts.values().all(|count| *count > 20),
        "{counts:?}"
    );
}

/// What the peer hands over does not fail a result: values that the database has no room for are null, and no others.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn values_of_the_peer_at_the_edges_of_types_are_written_or_null() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.db");
    std::fs::write(&file, []).unwrap();
    let sqlite = format!("sqlite:{}", file.display());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let rows = batch(&[("k", numbers)]);
    let options = SourceOptions::default();
    let source = Source::from_batches("frame", rows.schema(), vec![rows], &options).unwrap();
    let handed = HandedExtremes::new();
    for (uri, name, expected) in [
        ("postgresql:///postgres", "postgresql", 25),
        (&*sqlite, "sqlite", 14),
    ] {
        let database = AdbcDatabase::new(uri, Some(&driver(name))).unwrap();
        let table = TargetTable::new("of_peer", IngestMode::Replace, database).unwrap();
        let to = Destination::Table(&table);
        let mut output = Output::open(to, &source, place.path()).unwrap();
        output.check_columns(&source, &handed.columns).unwrap();
        let keys = read_keys(&source, &key("k")).unwrap();
        let all = keys.rows_of(&[true; ROWS]);
        let keys = handed.with(keys);
        let of_peer = HandedOver::new(&handed.columns, &keys);
        let matched = Matched::new(&all, Some(of_peer));
        write_rows(&source, matched, &mut output).unwrap();
        let lost = output.commit();
        assert_eq!(lost.map_err(|e| e.to_string()), Ok(expected), "{name}");
    }
}
