//! Whether a query reads the table that its result goes to. Databases say so for themselves: views and indexes hide names.

use adbc_core::error::Result as AdbcResult;
use adbc_core::options::{OptionConnection, OptionStatement, OptionValue};
use adbc_core::{Connection, Optionable, Statement};
use adbc_driver_manager::ManagedConnection;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::literal;
use crate::database::{Access, AdbcDatabase, Kind, run};
use crate::error::Result;

/// Whether `sql` reads the table; where the database does not say, whether it has a word that is the table's name. What
/// functions of the database read is not known.
pub(super) fn reads(
    sql: &str,
    database: &AdbcDatabase,
    schema: Option<&str>,
    name: &str,
) -> Result<bool> {
    let mut connection = database.connect(Access::Write)?;
    let said = match database.kind {
        Kind::Sqlite => sqlite(&mut connection, sql, schema, name),
        Kind::PostgreSql => postgresql(&mut connection, sql, schema, name),
        Kind::Other => return Ok(mentions(sql, name)),
    };
    Ok(said.unwrap_or_else(|_| mentions(sql, name)))
}

/// By the pages that the statement's program opens. If it opens virtual tables, all that any of these may keep its rows in
/// counts: tables whose names begin with its own, and those that its definition names, as `content=` does.
fn sqlite(
    connection: &mut ManagedConnection,
    sql: &str,
    schema: Option<&str>,
    name: &str,
) -> AdbcResult<bool> {
    let (mut pages, mut opens_virtual) = (vec![-1], false);
    for steps in ask(connection, &format!("EXPLAIN {sql}"))? {
        let column = |name: &str| steps.column_by_name(name);
        let (Some(codes), Some(page), Some(file)) = (column("opcode"), column("p2"), column("p3"))
        else {
            continue;
        };
        let (Some(codes), Some(page), Some(file)) = (
            codes.as_string_opt::<i32>(),
            page.as_primitive_opt::<Int64Type>(),
            file.as_primitive_opt::<Int64Type>(),
        ) else {
            continue;
        };
        let opens = |row: &usize| {
            ["OpenRead", "ReopenIdx"].contains(&codes.value(*row)) && file.value(*row) == 0
        };
        let opened = (0..steps.num_rows()).filter(opens);
        pages.extend(opened.map(|row| page.value(row)));
        opens_virtual |= codes.iter().flatten().any(|code| code == "VOpen");
    }
    let pages: Vec<String> = pages.iter().map(i64::to_string).collect();
    let found = format!(
        "SELECT 1 FROM main.sqlite_master WHERE rootpage IN ({}) AND tbl_name = '{}' COLLATE NOCASE",
        pages.join(", "),
        name.replace('\'', "''")
    );
    let is_main = schema.is_none_or(|schema| schema.eq_ignore_ascii_case("main"));
    let mut is_read = has_rows(&ask(connection, &found)?);
    if opens_virtual && !is_read {
        let lower = name.to_lowercase();
        let keeps = |(own, definition): &(String, String)| {
            let start = format!("{}_", own.to_lowercase());
            lower.starts_with(&start) || mentions(definition, name)
        };
        is_read = virtual_tables(connection)?.iter().any(keeps);
    }
    Ok(is_main && is_read)
}

/// The names and definitions of virtual tables.
fn virtual_tables(connection: &mut ManagedConnection) -> AdbcResult<Vec<(String, String)>> {
    let all = "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' AND rootpage = 0";
    let mut tables = Vec::new();
    for batch in ask(connection, all)? {
        let text = |column: usize| batch.column(column).as_string_opt::<i32>();
        if let (Some(names), Some(definitions)) = (text(0), text(1)) {
            let pairs = names.iter().flatten().zip(definitions.iter().flatten());
            tables.extend(pairs.map(|(name, sql)| (name.to_owned(), sql.to_owned())));
        }
    }
    Ok(tables)
}

/// By what a view of the query depends on, which goes with the transaction.
fn postgresql(
    connection: &mut ManagedConnection,
    sql: &str,
    schema: Option<&str>,
    name: &str,
) -> AdbcResult<bool> {
    connection.set_option(OptionConnection::AutoCommit, "false".into())?;
    // Names of columns may be there twice.
    let view = format!("CREATE TEMPORARY VIEW vesica_asked AS SELECT 1 FROM ({sql}\n) q");
    run(connection, &view)?;
    let schema = schema.map_or_else(|| "current_schema()".to_owned(), literal);
    let found = format!(
        "WITH RECURSIVE on_which(oid) AS (\
           SELECT 'pg_temp.vesica_asked'::regclass::oid \
           UNION SELECT next.oid FROM on_which, LATERAL (\
             SELECT d.refobjid AS oid FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d \
             ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass \
             WHERE r.ev_class = on_which.oid \
             UNION ALL SELECT inhparent FROM pg_catalog.pg_inherits WHERE inhrelid = on_which.oid \
             UNION ALL SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = on_which.oid) next) \
         SELECT 1 FROM on_which JOIN pg_catalog.pg_class c ON c.oid = on_which.oid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = {schema}::name AND c.relname = {}::name",
        literal(name)
    );
    let found = ask(connection, &found);
    // It goes with the connection in any case.
    let _ = connection.rollback();
    Ok(has_rows(&found?))
}

fn has_rows(answer: &[RecordBatch]) -> bool {
    answer.iter().any(|batch| batch.num_rows() > 0)
}

fn ask(connection: &mut ManagedConnection, sql: &str) -> AdbcResult<Vec<RecordBatch>> {
    let mut statement = connection.new_statement()?;
    // SQLite's columns have the types of the first values.
    let rows = OptionStatement::Other("adbc.sqlite.query.batch_rows".into());
    let _ = statement.set_option(rows, OptionValue::Int(65_536));
    statement.set_sql_query(sql)?;
    Ok(statement
        .execute()?
        .collect::<std::result::Result<_, _>>()?)
}

/// Whether a statement has a word that is this name, however either is quoted.
fn mentions(sql: &str, name: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace("\"\"", "\"");
    let (sql, name) = (plain(sql), plain(name));
    let mut found = sql.match_indices(&name);
    found.any(|(at, name)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let (before, after) = (&sql[..at], &sql[at + name.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::mentions;

    #[test]
    fn names_in_statements() {
        for (sql, name, found) in [
            ("SELECT * FROM people", "people", true),
            ("select * from PEOPLE where x", "People", true),
            ("select * from \"my people\"", "my people", true),
            ("select * from s.[people]", "people", true),
            ("select * from `people`", "people", true),
            ("select * from peoples", "people", false),
            ("select people_id from t", "people", false),
            ("select \"a\"\"b\" from t", "a\"b", true),
            ("select 1", "people", false),
        ] {
            assert_eq!(mentions(sql, name), found, "{sql} {name}");
        }
    }
}
