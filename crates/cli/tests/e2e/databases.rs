//! Tables that are results of queries. `scripts/databases.py` starts a server for these tests and fetches the drivers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use vesica::{RowSet, Source, SourceOptions, select_rows};

use crate::support::{Arguments, Place, exchange};

/// An address of the server with a password in it.
fn postgresql() -> String {
    let encoded = variable("PGPASSWORD")
        .replace('/', "%2F")
        .replace(' ', "%20");
    let (host, user) = (variable("PGHOST"), variable("PGUSER"));
    format!("postgresql://{user}:{encoded}@/postgres?host={host}")
}

fn variable(name: &str) -> String {
    std::env::var(name).expect("scripts/databases.py sets it")
}

/// A driver's library.
fn driver(name: &str) -> String {
    let library = format!("adbc_driver_{name}/libadbc_driver_{name}.so");
    let path = PathBuf::from(variable("VESICA_TEST_DRIVERS")).join(library);
    path.to_str().unwrap().to_owned()
}

/// Runs a program that reads statements; gives what it prints.
fn fed(command: &mut Command, statements: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(statements.as_bytes()).unwrap();
    drop(stdin);
    let done = process.wait_with_output().unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Runs statements in PostgreSQL; gives what they print.
fn psql(statements: &str) -> String {
    let words = "-qAt -v ON_ERROR_STOP=1 -d postgres -f -";
    let mut command = Command::new(variable("VESICA_TEST_PSQL"));
    let quietly = format!("SET client_min_messages = warning;\n{statements}");
    fed(command.args(words.split(' ')), &quietly)
}

/// Runs statements in a new SQLite database.
fn sqlite(place: &Place, name: &str, statements: &str) {
    let script =
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())";
    let mut command = Command::new("python3");
    fed(
        command.args(["-c", script]).arg(place.path(name)),
        statements,
    );
}

fn query(sql: &str, key: &str) -> Arguments {
    Arguments::new("-", key)
        .without("--input")
        .option("--query", sql)
}

/// The rows of a table in Parquet or Arrow as texts.
fn rows_of_file(path: &Path) -> Vec<Vec<String>> {
    let source = Source::open(path, SourceOptions::default()).unwrap();
    let all = |rows| {
        let mut all = RowSet::none(rows);
        (0..rows).for_each(|row| all.insert(row));
        select_rows(&source, &all).ok()
    };
    let (_, batches) = (0..2000).find_map(all).unwrap();
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| batch.columns().iter().map(|c| text(c, row)).collect())
    });
    rows.collect()
}

fn text(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Date32 => {
            // Days after 1970; those of the tests are in January 2000.
            format!(
                "2000-01-{:02}",
                column.as_primitive::<Date32Type>().value(row) - 10_956
            )
        }
        other => other.to_string(),
    }
}

/// A file that only its owner can read.
fn secret(place: &Place, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    place.write(name, text);
    let only_owner = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place.path(name), only_owner).unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn a_query_of_each_side() {
    let place = Place::new();
    psql("DROP TABLE IF EXISTS people; CREATE TABLE people (id bigint, mail text, born date, seen timestamptz);
          DROP SEQUENCE IF EXISTS asked; CREATE SEQUENCE asked;
          INSERT INTO people SELECT n, 'Ann' || n || '@Example.org', date '2000-01-01' + n::int, \
          timestamptz '2024-01-01 00:00:00+02' FROM generate_series(1, 1000) n;
          INSERT INTO people VALUES (NULL, NULL, NULL, NULL)");
    sqlite(
        &place,
        "50%.db",
        "CREATE TABLE customers (contact TEXT, city TEXT);
         INSERT INTO customers VALUES ('ann3@example.org', 'Rome'), ('ANN7@example.org', NULL), ('x@y.org', 'Oslo');",
    );
    secret(&place, "uri", &format!("{}\n", postgresql()));
    let people = query("SELECT *, nextval('asked') AS row FROM people ORDER BY id", "mail")
        .with("--database-file uri --normalize mail=email --report report.json --rows all --output out.parquet")
        .option("--driver", &driver("postgresql"));
    let customers = query("SELECT * FROM customers", "contact")
        .with("--database sqlite:50%.db --normalize contact=email --both")
        .option("--driver", &driver("sqlite"));
    let pair = exchange(
        &place,
        &people.clone().with("--both"),
        &customers.clone().with("--output out.arrow"),
    );
    pair.receiver.expect_success();
    pair.sender.expect_success();
    // The database was asked once, although the rows were read twice.
    assert_eq!(psql("SELECT last_value FROM asked"), "1001");
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(
        (&report["rows"], &report["matches"]),
        (&1001.into(), &2.into())
    );
    let rows = |name: &str| rows_of_file(&place.path(name));
    let all = rows("out.parquet");
    assert_eq!(all.len(), 1001);
    let marked: Vec<_> = all
        .iter()
        .filter(|row| row.last().unwrap() == "true")
        .collect();
    let day = |n: u32| format!("2000-01-{:02}", n + 1);
    for (row, n) in marked.iter().zip([3, 7]) {
        let (id, mail) = (n.to_string(), format!("Ann{n}@Example.org"));
        assert_eq!(row[..3], [id, mail, day(n)]);
    }
    assert_eq!(marked.len(), 2);
    let found = rows("out.arrow");
    assert_eq!(
        found,
        [["ann3@example.org", "Rome"], ["ANN7@example.org", ""]]
    );
    let said = format!("{}{}", pair.receiver.err, place.read("report.json"));
    assert!(!said.contains("slash"), "{said}");
}

#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn what_a_database_refuses() {
    let place = Place::new();
    psql(
        "DROP TABLE IF EXISTS texts; CREATE TABLE texts (k text); INSERT INTO texts VALUES ('alice@example.com')",
    );
    let library = driver("postgresql");
    let fails = |sql: &str, uri: &str, code: i32, words: &str| {
        secret(&place, "uri", uri);
        let arguments = query(sql, "k").with("--database-file uri --output out.arrow");
        let arguments = arguments.option("--driver", &library);
        let ended = place.receiver(&arguments, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(code, words);
        assert!(
            !ended.err.contains("slash") && !ended.err.contains("alice"),
            "{}",
            ended.err
        );
    };
    let uri = postgresql();
    fails("SELECT k FROM nowhere", &uri, 3, "nowhere");
    fails("SELECT k::int AS k FROM texts", &uri, 3, "breaks off");
    fails("SELECT k FROM texts WHERE false", &uri, 3, "no data rows");
    fails(
        "SELECT k AS l FROM texts",
        &uri,
        3,
        "no column is called \"k\"",
    );
    fails(
        "SELECT 1",
        &uri.replace("slash", "slush"),
        3,
        "password authentication failed",
    );
    fails(
        "SELECT 1",
        &uri.replace("slash%2F", "slash@"),
        3,
        "may have a password",
    );
    fails(
        "SELECT 1",
        &uri.replace("/postgres", "/nobody's"),
        3,
        "nobody's",
    );
    fails(
        "SELECT 1",
        "postgresql://127.0.0.1:1/x?password=slash",
        3,
        "refused",
    );
    // A file that is not there is not made.
    let absent = query("SELECT 1 AS k", "k").with("--database sqlite:absent.db --output out.arrow");
    let absent = absent.option("--driver", &driver("sqlite"));
    let ended = place.receiver(&absent, "--connect 127.0.0.1:1").wait();
    ended.expect_failure(3, "no such file");
    assert!(
        !place
            .names()
            .iter()
            .any(|name| name.contains("absent") || name.contains("out"))
    );
}

/// A driver by the name of its manifest, and a database from the environment.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn drivers_by_name_and_databases_from_the_environment() {
    let place = Place::new();
    place.write(
        "postgresql.toml",
        format!("[Driver]\nshared = {:?}\n", driver("postgresql")),
    );
    let words = [
        "check",
        "--query",
        "SELECT 7 AS k, NULL AS n",
        "--key",
        "k",
        "--json",
    ];
    let mut command = place.command(&words.map(str::to_owned));
    command
        .env("ADBC_DRIVER_PATH", place.path("."))
        .env("VESICA_DATABASE", postgresql());
    let done = command.output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let check: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&check["rows"], &check["items"]), (&1.into(), &1.into()));
}
