//! Tables that are results of queries. `scripts/databases.py` starts a server for these tests and fetches the drivers.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::DataType;
use parquet::arrow::ArrowWriter;
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
    ended.expect_failure(3, "failed to open");
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

/// Where a table of the matrix is.
const HOMES: [&str; 6] = ["csv", "jsonl", "parquet", "arrow", "sqlite", "postgresql"];

/// A row with whatever is awkward in a key.
#[derive(Clone)]
struct Awkward {
    row: i64,
    name: Option<String>,
    code: String,
    n: Option<i64>,
    /// In hundredths.
    price: i128,
    /// Days after 1970-01-01, in January of 2000.
    day: i32,
    /// Microseconds of a minute.
    seen: i64,
    flag: bool,
}

/// 2024-02-29T08:30:00Z in seconds.
const SEEN: i64 = 1_709_195_400;
const KEY: &str = "name,code,n,price,day,seen,flag";

impl Awkward {
    /// Rows of which some are in every such table, and some twice.
    fn table(step: i64) -> Vec<Awkward> {
        let names = [
            "Zoë",
            "Łukasz",
            "O'Brien, Ann",
            "naïve \"q\"",
            "名前",
            " padded ",
        ];
        let of = |row: i64| {
            let n = row / 2 * step % 60;
            Awkward {
                row,
                name: (n % 7 != 3).then(|| format!("{}{n}", names[n as usize % names.len()])),
                code: format!("{n:05}"),
                n: (n % 11 != 5).then_some(n - 30),
                price: i128::from(n) * 25 - 300,
                day: 10_957 + n as i32 % 30,
                seen: n * 250_000 % 60_000_000,
                flag: n % 3 == 0,
            }
        };
        (0..80).map(of).collect()
    }

    /// The text of each key column as CSV has it, and as docs/tables.md says that it is compared.
    fn texts(&self) -> [Option<String>; 7] {
        let cents = self.price.abs();
        let sign = if self.price < 0 { "-" } else { "" };
        let price = format!("{sign}{}.{:02}", cents / 100, cents % 100);
        let price = price.trim_end_matches('0').trim_end_matches('.');
        let (seconds, micros) = (self.seen / 1_000_000, self.seen % 1_000_000);
        let fraction = match micros {
            0 => String::new(),
            _ => format!(".{:03}", micros / 1000),
        };
        [
            self.name.clone(),
            Some(self.code.clone()),
            self.n.map(|n| n.to_string()),
            Some(price.to_owned()),
            Some(format!("2000-01-{:02}", self.day - 10_956)),
            Some(format!("2024-02-29T08:30:{seconds:02}{fraction}Z")),
            Some(self.flag.to_string()),
        ]
    }

    /// The values in SQL.
    fn sql(&self, null: &str) -> String {
        let quoted = |text: Option<String>| {
            text.map_or(null.to_owned(), |text| {
                format!("'{}'", text.replace('\'', "''"))
            })
        };
        let texts = self.texts().map(quoted);
        format!("({}, {})", self.row, texts.join(", "))
    }
}

/// Columns that have nothing to do with the key.
fn others() -> impl Iterator<Item = String> {
    (0..300).map(|i| format!("c{i}"))
}

/// Puts a table where it is to be; gives the options with which it is read.
fn put(place: &Place, side: &str, home: &str, rows: &[Awkward]) -> Arguments {
    let name = format!("{side}.{home}");
    let file = || Arguments::new(&name, KEY);
    let inserted = || {
        rows.iter()
            .map(|row| row.sql("NULL"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let columns = |of: [&str; 7]| {
        let key = KEY
            .split(',')
            .zip(of)
            .map(|(name, of)| format!("{name} {of}"));
        let others = others().map(|name| format!("{name} text DEFAULT 'x'"));
        key.chain(others).collect::<Vec<_>>().join(", ")
    };
    let all = format!("SELECT * FROM {side} ORDER BY row");
    match home {
        "csv" => {
            let mut text = format!("row,{KEY},{}\n", others().collect::<Vec<_>>().join(","));
            for row in rows {
                let quoted = |text: Option<String>| match text {
                    Some(text) => format!("\"{}\"", text.replace('"', "\"\"")),
                    None => String::new(),
                };
                let fields = row.texts().map(quoted).join(",");
                text += &format!("{},{fields}{}\n", row.row, ",x".repeat(300));
            }
            place.write(&name, text);
            file()
        }
        "jsonl" => {
            let lines = rows.iter().map(|row| {
                let mut object = serde_json::Map::from_iter([("row".into(), row.row.into())]);
                for (name, text) in KEY.split(',').zip(row.texts()) {
                    let value = match (name, row.n) {
                        ("n", Some(n)) => n.into(),
                        ("flag", _) => row.flag.into(),
                        _ => text.into(),
                    };
                    object.insert(name.into(), value);
                }
                object.extend(others().map(|name| (name, "x".into())));
                serde_json::Value::Object(object).to_string() + "\n"
            });
            place.write(&name, lines.collect::<String>());
            file()
        }
        "parquet" | "arrow" => {
            let batch = batch(rows);
            let out = File::create(place.path(&name)).unwrap();
            if home == "parquet" {
                let mut writer = ArrowWriter::try_new(out, batch.schema(), None).unwrap();
                writer.write(&batch).unwrap();
                writer.close().unwrap();
            } else {
                let mut writer = FileWriter::try_new(out, &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.finish().unwrap();
            }
            file()
        }
        "sqlite" => {
            let columns = columns(["TEXT", "TEXT", "INTEGER", "TEXT", "TEXT", "TEXT", "TEXT"]);
            let table = format!("CREATE TABLE {side} (row INTEGER, {columns});");
            let rows = format!("INSERT INTO {side} (row,{KEY}) VALUES {};", inserted());
            sqlite(place, &name, &(table + &rows));
            let database = format!("--database sqlite:{name}");
            query(&all, KEY)
                .with(&database)
                .option("--driver", &driver("sqlite"))
        }
        _ => {
            let types = [
                "text",
                "varchar(9)",
                "bigint",
                "numeric(10,2)",
                "date",
                "timestamptz",
                "boolean",
            ];
            let table = format!(
                "DROP TABLE IF EXISTS {side}; CREATE TABLE {side} (row bigint, {});",
                columns(types)
            );
            psql(&format!(
                "{table} INSERT INTO {side} (row,{KEY}) VALUES {};",
                inserted()
            ));
            secret(place, "uri", &postgresql());
            let database = "--database-file uri";
            query(&all, KEY)
                .with(database)
                .option("--driver", &driver("postgresql"))
        }
    }
}

fn batch(rows: &[Awkward]) -> RecordBatch {
    let strings = |f: &dyn Fn(&Awkward) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(f).collect::<StringArray>())
    };
    let prices = Decimal128Array::from_iter_values(rows.iter().map(|row| row.price * 10));
    let seen = rows.iter().map(|row| SEEN * 1_000_000 + row.seen);
    let seen = TimestampMicrosecondArray::from_iter_values(seen).with_timezone("Europe/Berlin");
    let mut columns: Vec<(String, ArrayRef)> = vec![
        (
            "row".into(),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.row))),
        ),
        ("name".into(), strings(&|row| row.name.clone())),
        ("code".into(), strings(&|row| Some(row.code.clone()))),
        (
            "n".into(),
            Arc::new(rows.iter().map(|row| row.n).collect::<Int64Array>()),
        ),
        (
            "price".into(),
            Arc::new(prices.with_precision_and_scale(12, 3).unwrap()),
        ),
        (
            "day".into(),
            Arc::new(Date32Array::from_iter_values(
                rows.iter().map(|row| row.day),
            )),
        ),
        ("seen".into(), Arc::new(seen)),
        (
            "flag".into(),
            Arc::new(
                rows.iter()
                    .map(|row| Some(row.flag))
                    .collect::<BooleanArray>(),
            ),
        ),
    ];
    let filler = strings(&|_| Some("x".into()));
    columns.extend(others().map(|name| (name, filler.clone())));
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The numbers of the rows in a result.
fn rows_of_result(place: &Place, name: &str) -> Vec<i64> {
    let number = |text: &str| text.parse::<i64>().unwrap();
    if name.ends_with("csv") {
        let text = place.read(name);
        let lines = text.lines().skip(1);
        return lines
            .map(|line| number(line.split(',').next().unwrap()))
            .collect();
    }
    if name.ends_with("jsonl") {
        let row =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["row"].clone();
        return place
            .read(name)
            .lines()
            .map(|line| row(line).as_i64().unwrap())
            .collect();
    }
    rows_of_file(&place.path(name))
        .iter()
        .map(|row| number(&row[0]))
        .collect()
}

#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn every_home_of_a_table_against_every_other() {
    let (ours, theirs) = (Awkward::table(1), Awkward::table(3));
    let key = |row: &Awkward| row.texts().into_iter().collect::<Option<Vec<_>>>();
    let keys: HashSet<_> = theirs.iter().filter_map(key).collect();
    let matches = |row: &&Awkward| key(row).is_some_and(|key| keys.contains(&key));
    let expected: Vec<i64> = ours.iter().filter(matches).map(|row| row.row).collect();
    assert!(
        expected.len() > 10 && expected.len() < 40,
        "{}",
        expected.len()
    );
    let place = Place::new();
    let ours = HOMES.map(|home| put(&place, "ours", home, &ours));
    let theirs = HOMES.map(|home| put(&place, "theirs", home, &theirs));
    for (home, ours) in HOMES.iter().zip(ours) {
        let output = match *home {
            "sqlite" => "out.parquet".to_owned(),
            "postgresql" => "out.arrow".to_owned(),
            home => format!("out.{home}"),
        };
        let ours = ours.output(&output);
        for (other, theirs) in HOMES.iter().zip(&theirs) {
            exchange(&place, &ours, theirs).expect_success();
            assert_eq!(rows_of_result(&place, &output), expected, "{home} {other}");
        }
    }
}
