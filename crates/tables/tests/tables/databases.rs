//! What a database makes of values at the edges of their types. Needs servers and drivers: `make test-databases`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

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

/// A table of the rows `k` from 0 to 2, to append with the peer's `n`: what became of it, with how many values the database
/// does not take. `before_commit` runs once all is checked.
fn append(
    database: &AdbcDatabase,
    table: &str,
    before_commit: impl FnOnce(),
) -> std::result::Result<u64, String> {
    let place = tempfile::tempdir().unwrap();
    let rows = batch(&[("k", Arc::new(Int64Array::from(vec![0, 1, 2])) as ArrayRef)]);
    let options = SourceOptions::default();
    let source = Source::from_batches("frame", rows.schema(), vec![rows], &options).unwrap();
    let keys = read_keys(&source, &key("k")).unwrap();
    let table = TargetTable::new(table, IngestMode::Append, database.clone()).unwrap();
    let columns = [PeerColumn {
        name: "n".to_owned(),
        of: ColumnType::TEXT,
    }
    .beside_own()];
    // Lengths and one more than these, and the texts.
    let labels = b"\x02\x00a\x02\x00a\x02\x00b";
    let write = || {
        let mut output = Output::open(Destination::Table(&table), &source, place.path())?;
        output.check_columns(&source, &columns)?;
        before_commit();
        let all = keys.rows_of(&[true; 3]);
        let keys = handed_over(keys, labels, 3, &columns);
        let of_peer = HandedOver::new(&columns, &keys);
        write_rows(&source, Matched::new(&all, Some(of_peer)), &mut output)?;
        output.commit()
    };
    write().map_err(|e: Error| format!("{:?}: {e}", e.class()))
}

/// Runs a script of Python in the folder `place`, whose `database` is `a.db`, until its input ends.
fn sqlite(place: &Path, script: &str) -> Child {
    let begin = "import sqlite3, sys; database = sqlite3.connect('a.db', isolation_level=None)";
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{begin}\n{script}")]);
    command.current_dir(place);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// What such a script prints.
fn said(process: Child) -> String {
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Another program's locks on SQLite's database, which it takes with `statements` and holds until it is dropped.
fn held(place: &Path, statements: &str) -> Child {
    let script = format!(
        "for statement in '{statements}'.split(';'): database.execute(statement).fetchall()\n\
         print('held', flush=True); sys.stdin.read()"
    );
    let mut process = sqlite(place, &script);
    let mut line = [0; 5];
    process
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    process
}

fn sqlite_database(place: &Path) -> AdbcDatabase {
    let uri = format!("sqlite:{}", place.join("a.db").display());
    AdbcDatabase::new(&uri, Some(&driver("sqlite"))).unwrap()
}

/// Locks of others are waited for, and have nothing to do with the values of the peer; one that stays is called what it is.
#[test]
#[ignore = "needs ADBC drivers: make test-databases"]
fn locks_of_sqlite_are_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let run = |script: &str| said(sqlite(place, script));
    run("database.execute('CREATE TABLE t (k integer, peer_n text)')");
    let database = sqlite_database(place);
    for statements in [
        "BEGIN IMMEDIATE",
        "BEGIN EXCLUSIVE",
        "BEGIN; SELECT * FROM t",
    ] {
        let mut others = None;
        let appended = append(&database, "t", || {
            let process = held(place, statements);
            others = Some(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(700));
                said(process)
            }));
        });
        others.unwrap().join().unwrap();
        assert_eq!(appended, Ok(0), "{statements}");
    }
    let rows = "print(database.execute('SELECT count(*), count(peer_n) FROM t').fetchone())";
    assert_eq!(run(rows), "(9, 9)");
    // Locked at the end, and from the beginning.
    let mut reader = None;
    let refused = append(&database, "t", || {
        reader = Some(held(place, "BEGIN; SELECT * FROM t"));
    });
    said(reader.unwrap());
    let refused = refused.unwrap_err();
    assert!(refused.contains("database is locked"), "{refused}");
    assert!(refused.contains("nothing was written"), "{refused}");
    let writer = held(place, "BEGIN EXCLUSIVE");
    let refused = append(&database, "t", || ()).unwrap_err();
    assert!(refused.starts_with("Data"), "{refused}");
    assert!(refused.contains("database is locked"), "{refused}");
    said(writer);
    assert_eq!(run(rows), "(9, 9)");
    let refused = append(&database, "none", || ()).unwrap_err();
    assert!(refused.contains("there is no such table"), "{refused}");
}

/// SQLite makes up a key for null, and deletes or drops rows for values that are there, if its table says so.
#[test]
#[ignore = "needs ADBC drivers: make test-databases"]
fn columns_of_the_peer_are_not_unique_in_sqlite() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let database = sqlite_database(place);
    for (columns, index) in [
        ("k integer, peer_n integer PRIMARY KEY", ""),
        ("k integer, peer_n text, PRIMARY KEY (k, peer_n)", ""),
        ("k integer, peer_n text UNIQUE ON CONFLICT REPLACE", ""),
        ("k integer, peer_n text UNIQUE ON CONFLICT IGNORE", ""),
        (
            "k integer, peer_n text",
            "CREATE UNIQUE INDEX i ON t (k, peer_n)",
        ),
    ] {
        let statements = format!("DROP TABLE IF EXISTS t; CREATE TABLE t ({columns}); {index}");
        said(sqlite(
            place,
            &format!("database.executescript('{statements}')"),
        ));
        let refused = append(&database, "t", || panic!("{columns} {index}")).unwrap_err();
        let words = "column \"peer_n\" is unique there";
        assert!(
            refused.starts_with("Usage") && refused.contains(words),
            "{refused}"
        );
    }
    let statements = "DROP TABLE t; CREATE TABLE t (k integer PRIMARY KEY, peer_n text); CREATE INDEX i ON t (peer_n)";
    said(sqlite(
        place,
        &format!("database.executescript('{statements}')"),
    ));
    assert_eq!(append(&database, "t", || ()), Ok(0));
}

/// Runs statements in PostgreSQL; gives what they print.
fn psql(statements: &str) -> String {
    let program = std::env::var("VESICA_TEST_PSQL").expect("PostgreSQL's psql");
    let mut command = Command::new(program);
    command.args([
        "-qAt",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        "postgres",
        "-c",
        statements,
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What a constraint that is checked at the end says of the peer's values makes them null, as another would.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn deferred_constraints_do_not_fail_the_commit() {
    let database = AdbcDatabase::new("postgresql:///postgres", Some(&driver("postgresql")));
    let database = database.unwrap();
    psql(
        "DROP TABLE IF EXISTS deferred; CREATE TABLE deferred \
         (k bigint, peer_n text UNIQUE DEFERRABLE INITIALLY DEFERRED)",
    );
    assert_eq!(append(&database, "deferred", || ()), Ok(3));
    assert_eq!(psql("SELECT count(*), count(peer_n) FROM deferred"), "3|0");
}

/// A type that is never null makes its column so, however many domains are between.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn domains_that_are_never_null_are_seen() {
    let database = AdbcDatabase::new("postgresql:///postgres", Some(&driver("postgresql")));
    let database = database.unwrap();
    psql(
        "DROP TABLE IF EXISTS of_domain; DROP DOMAIN IF EXISTS outermost, middle, innermost; \
         CREATE DOMAIN innermost AS text NOT NULL; CREATE DOMAIN middle AS innermost; \
         CREATE DOMAIN outermost AS middle; CREATE TABLE of_domain (k bigint, peer_n outermost)",
    );
    let refused = append(&database, "of_domain", || panic!("not refused")).unwrap_err();
    assert!(
        refused.contains("column \"peer_n\" is never null there"),
        "{refused}"
    );
    psql("ALTER DOMAIN innermost DROP NOT NULL");
    assert_eq!(append(&database, "of_domain", || ()), Ok(0));
}
