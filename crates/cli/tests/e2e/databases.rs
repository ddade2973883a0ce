//! Tables that are results of queries. `scripts/databases.py` starts a server for these tests and fetches the drivers.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use vesica::{RowSet, Source, SourceOptions, select_rows};

use crate::support::{Arguments, Place, Running, exchange};

/// An address of the server with a password in it.
pub(crate) fn postgresql() -> String {
    let encoded = variable("PGPASSWORD")
        .replace('/', "%2F")
        .replace(' ', "%20");
    let (host, user) = (variable("PGHOST"), variable("PGUSER"));
    format!("postgresql://{user}:{encoded}@/postgres?host={host}")
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).expect("scripts/databases.py sets it")
}

/// A driver's library.
pub(crate) fn driver(name: &str) -> String {
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
pub(crate) fn psql(statements: &str) -> String {
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
pub(crate) fn secret(place: &Place, name: &str, text: &str) {
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

/// Runs a statement in a SQLite database; gives the rows as Python shows them.
fn in_sqlite(place: &Place, name: &str, statement: &str) -> String {
    let script = "import sqlite3, sys; database = sqlite3.connect(sys.argv[1]);\n\
                  with database: print(database.execute(sys.stdin.read()).fetchall())";
    let mut command = Command::new("python3");
    fed(
        command.args(["-c", script]).arg(place.path(name)),
        statement,
    )
}

/// From a database into tables of the same and of another, with columns of the peer.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn results_in_tables() {
    let place = Place::new();
    psql(
        "DROP TABLE IF EXISTS given, results; DROP SCHEMA IF EXISTS other CASCADE; CREATE SCHEMA other;
         CREATE TABLE given (id bigint, small int2, price numeric(10,2), seen timestamptz, noon timestamp, born date,
                             at time, ok boolean, name text, code uuid, extra jsonb);
         INSERT INTO given VALUES
         (1, -3, 12.50, '2024-01-01 00:00:00+02', '2024-01-01 12:00:00.25', '2024-02-29', '08:30', true, 'Ann', \
          '00112233-4455-6677-8899-aabbccddeeff', '{\"a\": 1}'),
         (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, 4, 5, NULL, NULL, NULL, NULL, false, '', NULL, NULL)",
    );
    place.write("shop.csv", "id,city\n2,Oslo\n1,Bern\n7,Rome\n");
    secret(&place, "uri", &postgresql());
    let receiver = query("SELECT * FROM given ORDER BY id", "id")
        .with("--database-file uri --take-payload")
        .option("--driver", &driver("postgresql"));
    let sender = Arguments::new("shop.csv", "id").with("--payload city");
    let to_table = |words: &str| exchange(&place, &receiver.clone().with(words), &sender);
    to_table("--output-table results --rows all --report report.json").expect_success();
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["rows_written"], 3);
    let types = psql(
        "SELECT string_agg(attname || ' ' || atttypid::regtype, ',' ORDER BY attnum) FROM pg_attribute \
         WHERE attrelid = 'results'::regclass AND attnum > 0",
    );
    assert_eq!(
        types,
        "id bigint,small smallint,price text,seen timestamp with time zone,noon timestamp without time zone,born date,\
         at time without time zone,ok boolean,name text,code uuid,extra json,in_both boolean,peer_city text"
    );
    let rows = psql("SELECT * FROM results ORDER BY id");
    let expected = psql(
        "SELECT given.*, id < 3, CASE id WHEN 1 THEN 'Bern' WHEN 2 THEN 'Oslo' END FROM given ORDER BY id",
    );
    assert_eq!(rows, expected);
    // A table that is there is refused, before the peer is met, unless it is said what becomes of it.
    let alone = |arguments: &Arguments, code: i32, words: &str| {
        let ended = place.receiver(arguments, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(code, words);
        assert!(!ended.err.contains("slash"), "{}", ended.err);
    };
    let there = receiver.clone().with("--output-table results");
    alone(
        &there,
        2,
        "table \"results\": there is such a table already",
    );
    let rows = there.clone().with("--output-table-mode append --rows all");
    exchange(&place, &rows, &sender).expect_success();
    assert_eq!(psql("SELECT count(*), sum(id) FROM results"), "6|12");
    let replaced = there.clone().with("--output-table-mode replace");
    exchange(&place, &replaced, &sender).expect_success();
    assert_eq!(
        psql("SELECT id, peer_city FROM results ORDER BY id"),
        "1|Bern\n2|Oslo"
    );
    // In another schema, and a dot in a name.
    to_table("--output-table other.a\\.b").expect_success();
    assert_eq!(psql("SELECT count(*) FROM other.\"a.b\""), "2");
    let appended = receiver.clone().with("--output-table-mode append");
    alone(
        &appended.clone().with("--output-table nowhere"),
        2,
        "there is no such table",
    );
    // The driver would hand the table bytes that are of another type there.
    for (columns, words) in [
        ("id bigint", "it has no column \"small\""),
        (
            "id double precision, small int2, price numeric, seen timestamptz, noon timestamp, born date, at time, \
             ok boolean, name text, code uuid, extra jsonb",
            "column \"id\" is of type float8 there, and of type Int64 in the result",
        ),
    ] {
        psql(&format!(
            "DROP TABLE results; CREATE TABLE results ({columns})"
        ));
        alone(&appended.clone().with("--output-table results"), 2, words);
    }
    psql(
        "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'slash'; GRANT SELECT ON given TO reader;",
    );
    secret(
        &place,
        "uri",
        &format!(
            "postgresql://reader:slash@/postgres?host={}",
            variable("PGHOST")
        ),
    );
    alone(
        &receiver.clone().with("--output-table more"),
        3,
        "permission denied",
    );
}

/// Columns of the peer are not known before it is met: those that a table has in another type, or not at all, are refused
/// once the contract names them, before anything that depends on a key is sent.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn columns_of_the_peer_that_a_table_does_not_take() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n");
    secret(&place, "uri", &postgresql());
    let typed = query("SELECT '1' AS id, 7::bigint AS n", "id")
        .with("--database-file uri --output theirs.parquet");
    let typed = typed.option("--driver", &driver("postgresql"));
    exchange(&place, &typed, &Arguments::new("ours.csv", "id")).expect_success();
    let ours = Arguments::new("ours.csv", "id")
        .with("--database-file uri --take-payload --output-table strict --output-table-mode append")
        .option("--driver", &driver("postgresql"));
    let theirs = Arguments::new("theirs.parquet", "id").with("--payload n");
    for (column, words) in [
        (
            ", peer_n double precision",
            "column \"peer_n\" is of type float8 there, and of type Int64 in the result",
        ),
        (
            ", peer_n timestamp",
            "column \"peer_n\" is of type timestamp there",
        ),
        ("", "it has no column \"peer_n\""),
        (
            ", peer_n bigint NOT NULL",
            "column \"peer_n\" is never null there",
        ),
    ] {
        psql(&format!(
            "DROP TABLE IF EXISTS strict; CREATE TABLE strict (id text{column})"
        ));
        let pair = exchange(&place, &ours, &theirs);
        pair.receiver.expect_failure(2, words);
        // Which columns there are is not for the sender.
        pair.sender
            .expect_failure(7, "the peer gave up: it cannot take part");
        assert_eq!(psql("SELECT count(*) FROM strict"), "0");
    }
    psql("ALTER TABLE strict ALTER peer_n DROP NOT NULL");
    exchange(&place, &ours, &theirs).expect_success();
    assert_eq!(psql("SELECT * FROM strict"), "1|7");
}

/// What the peer hands over never fails a result: what the database has no room for is null, and so is a column
/// with a value that the table refuses.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn values_of_the_peer_that_a_database_does_not_keep() {
    let place = Place::new();
    secret(&place, "postgresql", &postgresql());
    secret(&place, "sqlite", "sqlite:kept.db");
    place.write("ours.csv", "id\n1\n2\n3\n");
    let typed = query(
        "SELECT '1' AS id, 'NaN'::float8 AS f, date '12345-01-01' AS d, 7::bigint AS n \
         UNION ALL SELECT '2', 0.5, date '2000-01-01', 8 ORDER BY id",
        "id",
    );
    let typed = typed.with("--database-file postgresql --output theirs.parquet");
    let typed = typed.option("--driver", &driver("postgresql"));
    exchange(&place, &typed, &Arguments::new("ours.csv", "id")).expect_success();
    let columns = "id text, peer_f float8, peer_d date, peer_n bigint";
    psql(&format!(
        "DROP TABLE IF EXISTS bounded, own; CREATE TABLE bounded ({columns} CHECK (peer_n < 8)); \
         CREATE TABLE own ({columns}, CHECK (id < '2'))"
    ));
    let tables = format!(
        "CREATE TABLE bounded ({columns} CHECK (peer_n < 8)); CREATE TABLE own ({columns}, CHECK (id < '2')); \
         CREATE TABLE \"it's\" ({columns} NOT NULL)"
    );
    sqlite(&place, "kept.db", &tables);
    let theirs = Arguments::new("theirs.parquet", "id").with("--payload f,d,n");
    let run = |name: &str, words: &str| {
        let ours = Arguments::new("ours.csv", "id").with("--take-payload --database-file");
        let ours = ours.with(name).with(words);
        exchange(&place, &ours.option("--driver", &driver(name)), &theirs)
    };
    let lost = |name: &str, words: &str, lost: Option<&str>| {
        let pair = run(name, words);
        pair.expect_success();
        let said = lost.map(|lost| format!("the database does not take {lost} of the peer's"));
        let warned = pair.receiver.err.contains("does not take");
        assert_eq!(warned, lost.is_some(), "{}", pair.receiver.err);
        assert!(pair.receiver.err.contains(&said.unwrap_or_default()));
    };
    let append = "--output-table-mode append --output-table";
    lost("sqlite", "--output-table made", Some("2 values"));
    lost("sqlite", &format!("{append} bounded"), Some("4 values"));
    let rows = |table: &str| in_sqlite(&place, "kept.db", &format!("SELECT * FROM {table}"));
    let first = "('1', None, None, 7)";
    let both = format!("[{first}, ('2', 0.5, '2000-01-01', 8)]");
    assert_eq!(rows("made"), both);
    let none_of_n = "[('1', None, None, None), ('2', 0.5, '2000-01-01', None)]";
    assert_eq!(rows("bounded"), none_of_n);
    lost(
        "postgresql",
        "--output-table-mode replace --output-table kept_all",
        None,
    );
    lost("postgresql", &format!("{append} bounded"), Some("2 values"));
    let rows = |table: &str| psql(&format!("SELECT * FROM {table} ORDER BY id"));
    let first = "1|NaN|12345-01-01|7";
    assert_eq!(rows("kept_all"), format!("{first}\n2|0.5|2000-01-01|8"));
    assert_eq!(rows("bounded"), "1|NaN|12345-01-01|\n2|0.5|2000-01-01|");
    // What is wrong with the receiver's own is for it to see to.
    for name in ["sqlite", "postgresql"] {
        let pair = run(name, &format!("{append} own"));
        pair.receiver.expect_failure(3, "nothing was written");
        pair.sender.expect_success();
    }
    assert_eq!(psql("SELECT count(*) FROM own"), "0");
    let pair = run("sqlite", &format!("{append} it's"));
    pair.receiver
        .expect_failure(2, "column \"peer_n\" is never null there");
    pair.sender.expect_failure(7, "it cannot take part");
}

/// What a table in the place of another would not have, and who holds the other.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn tables_that_are_not_replaced() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n");
    secret(&place, "uri", &postgresql());
    let ours = Arguments::new("ours.csv", "id")
        .with("--database-file uri --output-table-mode replace")
        .option("--driver", &driver("postgresql"));
    let alone = |arguments: &Arguments, code: i32, words: &str| {
        let ended = place.receiver(arguments, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(code, words);
    };
    psql(
        "DROP VIEW IF EXISTS \"it's\\\"; DROP TABLE IF EXISTS kept; CREATE TABLE kept (id text); \
          CREATE VIEW \"it's\\\" AS SELECT 1 AS id; ALTER TABLE kept ENABLE ROW LEVEL SECURITY",
    );
    alone(
        &ours.clone().with("--output-table kept"),
        2,
        "it has row security",
    );
    alone(
        &ours.clone().with("--output-table it's\\"),
        2,
        "it is no table",
    );
    psql(
        "ALTER TABLE kept DISABLE ROW LEVEL SECURITY; DROP ROLE IF EXISTS maker; \
          CREATE ROLE maker LOGIN PASSWORD 'slash'; GRANT ALL ON SCHEMA public TO maker; GRANT ALL ON kept TO maker",
    );
    let host = variable("PGHOST");
    secret(
        &place,
        "maker",
        &format!("postgresql://maker:slash@/postgres?host={host}"),
    );
    let made = ours.clone().with("--output-table kept");
    alone(
        &made
            .clone()
            .without("--database-file")
            .with("--database-file maker"),
        3,
        "it has another owner",
    );
    // Held by another, the table is not dropped for a rehearsal, and is waited for a while.
    let mut holder = Command::new(variable("VESICA_TEST_PSQL"));
    holder
        .args(["-qAt", "-d", "postgres"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut statements = holder.stdin.take().unwrap();
    writeln!(statements, "BEGIN; LOCK TABLE kept; SELECT 'locked';").unwrap();
    let mut said = [0; 6];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    let theirs = Arguments::new("ours.csv", "id");
    let pair = exchange(&place, &made, &theirs);
    pair.sender.expect_success();
    pair.receiver.expect_failure(3, "lock timeout");
    assert!(
        pair.receiver.err.contains("nothing was written"),
        "{}",
        pair.receiver.err
    );
    drop(statements);
    assert!(holder.wait().unwrap().success());
    exchange(&place, &made, &theirs).expect_success();
    assert_eq!(psql("SELECT * FROM kept"), "1");
}

/// As many columns as a database takes, and one more, by those of the peer: found before a key is at stake, and before a
/// server has been asked.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn more_columns_than_a_database_takes() {
    let place = Place::new();
    secret(&place, "postgresql", &postgresql());
    secret(&place, "sqlite", "sqlite:wide.db");
    place.write("wide.db", "");
    place.write("theirs.csv", "id,a,b\n1,p,q\n");
    place.write("clients", place.receiver.to_string());
    let publish = "publish --identity sender.key --set-dir keys --output set.vset --progress none --input theirs.csv \
                   --key id --payload a,b";
    place.run(publish).expect_success();
    // As many questions as there are look-ups that come so far.
    let serve = "serve --identity sender.key --set-dir keys --clients clients --listen 127.0.0.1:0 --quota 2";
    let mut server = place.start_after("true", serve);
    let endpoint = server.endpoint();
    let theirs = Arguments::new("theirs.csv", "id").with("--payload a,b");
    for (name, most, words) in [
        ("postgresql", 1600, "at most 1600 columns"),
        ("sqlite", 2000, "too many columns"),
    ] {
        for (columns, fits) in [(most - 1, false), (most - 2, true)] {
            let names: Vec<String> = (1..columns).map(|column| format!("c{column}")).collect();
            let nulls = ",".repeat(columns - 1);
            place.write("ours.csv", format!("id,{}\n1{nulls}\n", names.join(",")));
            psql("DROP TABLE IF EXISTS wide, looked_up");
            let library = driver(name);
            let to = |table: &str| {
                format!("--database-file {name} --driver {library} --output-table {table}")
            };
            let ours = Arguments::new("ours.csv", "id");
            let pair = exchange(
                &place,
                &ours.with(&format!("--take-payload {}", to("wide"))),
                &theirs,
            );
            let looked_up = place.run(&format!(
                "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input ours.csv --key id {}",
                place.sender,
                to("looked_up")
            ));
            if fits {
                pair.expect_success();
                looked_up.expect_success();
                continue;
            }
            pair.receiver.expect_failure(3, words);
            pair.sender.expect_failure(7, "it cannot take part");
            looked_up.expect_failure(3, words);
        }
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait().expect_failure(143, "told to end by a signal");
}

/// Names that a database takes for one, but the peer does not.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn names_of_the_peer_that_a_database_takes_for_one() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n");
    let long = "n".repeat(70);
    place.write("theirs.csv", format!("id,{long}1,{long}2,a,A\n1,p,q,r,s\n"));
    place.write("names.db", "");
    secret(&place, "postgresql", &postgresql());
    secret(&place, "sqlite", "sqlite:names.db");
    psql("DROP TABLE IF EXISTS names");
    let theirs = Arguments::new("theirs.csv", "id").with(&format!("--payload {long}1,{long}2,a,A"));
    for name in ["postgresql", "sqlite"] {
        let ours = Arguments::new("ours.csv", "id")
            .with(&format!(
                "--database-file {name} --output-table names --take-payload"
            ))
            .option("--driver", &driver(name));
        exchange(&place, &ours, &theirs).expect_success();
    }
    let cut = "n".repeat(56);
    let found = psql(&format!("SELECT \"peer_{cut}_2\", \"peer_A\" FROM names"));
    assert_eq!(found, "q|s");
    let found = in_sqlite(&place, "names.db", "SELECT peer_a, peer_A_2 FROM names");
    assert_eq!(found, "[('r', 's')]");
}

/// What SQLite has no type for is text, and a text's columns are texts.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn results_in_tables_of_sqlite() {
    let place = Place::new();
    place.write("ours.csv", "id,n,t\n007,1.50,\n8,,\"\"\n9,x,y\n");
    place.write("theirs.csv", "id\n007\n8\n");
    place.write("out.db", "");
    let sqlite = driver("sqlite");
    let to_sqlite = |arguments: Arguments| {
        arguments
            .with("--database sqlite:out.db --output-table t")
            .option("--driver", &sqlite)
    };
    let theirs = Arguments::new("theirs.csv", "id");
    let ours = to_sqlite(Arguments::new("ours.csv", "id"));
    exchange(&place, &ours, &theirs).expect_success();
    let all = "SELECT *, typeof(n), typeof(t) FROM t";
    let texts = "[('007', '1.50', None, 'text', 'null'), ('8', None, '', 'null', 'text')]";
    assert_eq!(in_sqlite(&place, "out.db", all), texts);
    let ended = place.receiver(&ours, "--connect 127.0.0.1:1").wait();
    ended.expect_failure(2, "there is such a table already");
    // Read from the database and written to it, in one run.
    let asked = query("SELECT * FROM t", "id").with("--database sqlite:out.db --output-table u");
    let asked = asked.option("--driver", &sqlite).with("--rows rest");
    place.write("theirs.csv", "id\n8\n");
    exchange(&place, &asked, &theirs).expect_success();
    assert_eq!(
        in_sqlite(&place, "out.db", "SELECT * FROM u"),
        "[('007', '1.50', None)]"
    );
    // Types that SQLite has not.
    secret(&place, "uri", &postgresql());
    let typed = query(
        "SELECT 8 AS id, 2.50::numeric(9,2) AS d, time '08:30' AS t, timestamptz '2024-01-01 00:00:00+02' AS z, true AS b",
        "id",
    );
    let typed = typed.with("--database-file uri --output typed.parquet");
    exchange(
        &place,
        &typed.option("--driver", &driver("postgresql")),
        &theirs,
    )
    .expect_success();
    let ours = to_sqlite(Arguments::new("typed.parquet", "id")).with("--output-table-mode replace");
    exchange(&place, &ours, &theirs).expect_success();
    let found = in_sqlite(&place, "out.db", "SELECT * FROM t");
    assert_eq!(
        found,
        "[(8, '2.50', '08:30:00', '2023-12-31T22:00:00Z', 1)]"
    );
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.starts_with("out.db"))
            .count(),
        1
    );
}

/// A row that breaks a rule of the table, after others that do not: nothing is written, and nothing is told of the row. What
/// the work directory keeps is written later, without the peer.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn a_table_gets_all_rows_or_none() {
    let place = Place::new();
    let rows: String = (0..20_000).map(|row| format!("k{row}\n")).collect();
    place.write("keys.csv", format!("mail\n{rows}"));
    let unique = "mail text CHECK (mail <> 'k19999')";
    psql(&format!(
        "DROP TABLE IF EXISTS mails; CREATE TABLE mails ({unique}); INSERT INTO mails VALUES ('first')"
    ));
    sqlite(
        &place,
        "out.db",
        &format!("CREATE TABLE mails ({unique}); INSERT INTO mails VALUES ('first');"),
    );
    secret(&place, "postgresql", &postgresql());
    secret(&place, "sqlite", "sqlite:out.db");
    let counted = |name: &str| match name {
        "sqlite" => in_sqlite(&place, "out.db", "SELECT count(*) FROM mails"),
        _ => psql("SELECT count(*) FROM mails"),
    };
    for (name, words, one, all) in [
        ("postgresql", "23514", "1", "20001"),
        ("sqlite", "CHECK constraint failed", "[(1,)]", "[(20001,)]"),
    ] {
        let ours = Arguments::new("keys.csv", "mail")
            .with(&format!("--database-file {name} --output-table mails --output-table-mode append --work-dir work"))
            .option("--driver", &driver(name));
        let theirs = Arguments::new("keys.csv", "mail").with("--work-dir other");
        let pair = exchange(&place, &ours, &theirs);
        pair.sender.expect_success();
        pair.receiver.expect_failure(3, words);
        let said = &pair.receiver.err;
        assert!(
            said.contains("nothing was written") && said.contains("resumes it"),
            "{said}"
        );
        let quoted = said.replace("'k19999'", "");
        assert!(
            name == "sqlite" || !said.contains("k19999") && !quoted.contains("k1"),
            "{said}"
        );
        assert_eq!(counted(name), one);
        let anything =
            "DROP TABLE mails; CREATE TABLE mails (mail text); INSERT INTO mails VALUES ('first');";
        match name {
            "sqlite" => sqlite(&place, "out.db", anything),
            _ => drop(psql(anything)),
        }
        let again = place.receiver(&ours, "--connect 127.0.0.1:1").wait();
        again.expect_success();
        assert_eq!(counted(name), all);
        assert!(!place.path("work").exists());
    }
}

/// Look-ups, and runs whose messages go by files.
/// A virtual table keeps its rows in others, which its name or its definition names.
#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn a_table_in_which_a_virtual_one_keeps_its_rows_is_read_with_it() {
    let place = Place::new();
    place.write("sender.csv", "id\n7\n");
    let tables = "CREATE TABLE people(id, note); INSERT INTO people VALUES (7, 'here');
        CREATE VIRTUAL TABLE notes USING fts5(id, note, content='people');
        INSERT INTO notes(notes) VALUES ('rebuild');
        CREATE VIRTUAL TABLE own USING fts5(id); INSERT INTO own VALUES (7); CREATE TABLE other(id);";
    sqlite(&place, "in.db", tables);
    let library = driver("sqlite");
    let peer = place.sender;
    let run = |from: &str, to: &str| {
        let words = format!(
            "receive --key id --identity receiver.key --peer {peer} --connect 127.0.0.1:1 --wait 1 \
             --database sqlite:in.db --driver {library} --output-table {to} --output-table-mode replace --query"
        );
        let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        words.push(format!("SELECT CAST(id AS INTEGER) AS id FROM {from}"));
        Running::start(place.command(&words)).wait()
    };
    for (from, to, reads) in [
        ("people", "people", true),
        ("notes", "people", true),
        ("notes", "notes_data", true),
        ("notes", "Notes", true),
        ("own WHERE own MATCH '7'", "own_content", true),
        ("own WHERE own MATCH '7'", "other", false),
        ("people", "own_content", false),
    ] {
        let ended = run(from, to);
        assert_eq!(
            ended.err.contains("the query reads it"),
            reads,
            "{from} {to}: {}",
            ended.err
        );
    }
}

#[test]
#[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
fn results_of_other_commands_in_tables() {
    let place = Place::new();
    place.write("receiver.csv", "id,t\n7,a\n8,b\n9,c\n");
    place.write("sender.csv", "id,city\n9,Bern\n7,Chur\n");
    place.write("out.db", "");
    let library = driver("sqlite");
    let to =
        |table: &str| format!("--database sqlite:out.db --driver {library} --output-table {table}");
    let run = |words: String| place.run(&words).expect_success();
    let step = |role: &str, step: &str, more: &str| {
        let peer = match role {
            "receiver" => place.sender,
            _ => place.receiver,
        };
        format!(
            "exchange {step} --role {role} --input {role}.csv --key id --identity {role}.key --peer {peer} \
             --state {role}.state --progress none {more}"
        )
    };
    run(step("sender", "offer", "--message-out m0"));
    let early = step(
        "receiver",
        "start",
        &format!("--message m0 --message-out m1 {}", to("t")),
    );
    place.run(&early).expect_failure(2, "are for finish");
    run(step("receiver", "start", "--message m0 --message-out m1"));
    run(step("sender", "answer", "--message m1 --message-out m2"));
    run(step(
        "receiver",
        "finish",
        &format!("--message m2 {}", to("t")),
    ));
    let found = in_sqlite(&place, "out.db", "SELECT * FROM t");
    assert_eq!(found, "[('7', 'a'), ('9', 'c')]");
    run("publish --identity sender.key --set-dir keys --output set.vset --progress none --input sender.csv --key id \
         --payload city"
        .to_owned());
    place.write("clients", place.receiver.to_string());
    let serve = "serve --identity sender.key --set-dir keys --clients clients --listen 127.0.0.1:0 --quota 10";
    let mut server = place.start_after("true", serve);
    let endpoint = server.endpoint();
    run(format!(
        "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input receiver.csv \
         --key id --rows all {}",
        place.sender,
        to("u")
    ));
    let found = in_sqlite(&place, "out.db", "SELECT * FROM u");
    assert_eq!(
        found,
        "[('7', 'a', 1, 'Chur'), ('8', 'b', 0, None), ('9', 'c', 1, 'Bern')]"
    );
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait().expect_failure(143, "told to end by a signal");
}
