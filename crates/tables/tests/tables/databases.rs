//! What a database makes of values at the edges of their types. Needs servers and drivers: `make test-databases`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use crate::possible::plain_extremes;
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
