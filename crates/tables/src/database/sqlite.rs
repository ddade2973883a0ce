//! What is SQLite's own: addresses that are paths, and values that need not have the type of their column.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use adbc_core::Statement;
use adbc_core::error::Result as AdbcResult;
use arrow_array::{Array, StringArray};
use arrow_schema::{DataType, Schema};

use super::unescaped;
use crate::error::{Error, ErrorKind, Result};

/// More columns at once would be more than SQLite computes.
const COLUMNS: usize = 500;

/// Which kinds of values each column of a query has: `integer`, `real`, `text`, `blob`, and `large` for integers that a
/// floating-point number need not equal.
pub(super) fn storage_classes(
    statement: &mut impl Statement,
    sql: &str,
    columns: usize,
) -> AdbcResult<Vec<BTreeSet<String>>> {
    let sql = sql.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let names: Vec<String> = (0..columns).map(|column| format!("c{column}")).collect();
    let mut found = Vec::new();
    for some in names.chunks(COLUMNS) {
        let kinds = some.iter().map(|c| {
            format!(
                "group_concat(DISTINCT CASE WHEN typeof({c}) <> 'integer' THEN typeof({c}) \
                 WHEN {c} BETWEEN -9007199254740992 AND 9007199254740992 THEN 'integer' ELSE 'large' END)"
            )
        });
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        // A comment may end the query.
        let names = names.join(", ");
        statement.set_sql_query(format!(
            "WITH q({names}) AS ({sql}\n) SELECT {kinds} FROM q"
        ))?;
        let answer = statement.execute()?.next().transpose()?;
        found.extend((0..some.len()).map(|column| {
            let kinds = answer.as_ref().map(|answer| answer.column(column));
            // It is not text where there are no rows.
            let kinds = kinds.and_then(|kinds| kinds.as_any().downcast_ref::<StringArray>());
            let kinds = kinds.and_then(|kinds| kinds.iter().next().flatten());
            kinds.map_or_else(BTreeSet::new, |kinds| {
                kinds.split(',').map(str::to_owned).collect()
            })
        }));
    }
    Ok(found)
}

/// Refuses columns of values that the driver would not keep. It gives a column the type that the first values have
/// together, and rounds or breaks off where others do not have it.
pub(super) fn check_types(schema: &Schema, found: &[BTreeSet<String>]) -> Result<()> {
    for (field, kinds) in schema.fields().iter().zip(found) {
        let (kept, made): (&[&str], _) = match field.data_type() {
            DataType::Int64 => (&["integer", "large"], "integers"),
            DataType::Float64 => (&["integer", "real"], "floating-point numbers"),
            DataType::Utf8 => (&["integer", "large", "text"], "text"),
            DataType::Binary => (&["blob"], "bytes"),
            _ => continue,
        };
        let is_kept = |kind: &String| kind == "null" || kept.contains(&&**kind);
        if !kinds.iter().all(is_kept) {
            let kinds = kinds.iter().filter(|kind| *kind != "null");
            let kinds: BTreeSet<_> = kinds.map(|kind| kind.replace("large", "integer")).collect();
            let found = kinds.into_iter().collect();
            return Err(Error::new(ErrorKind::MixedTypes { found, made }).in_column(field.name()));
        }
    }
    Ok(())
}

/// The file of the database at this canonical address, if it is one of SQLite's: by its scheme, or for the driver of that
/// name.
pub(super) fn path(uri: &str, driver: Option<&str>) -> Option<PathBuf> {
    if let Some(path) = uri.strip_prefix("sqlite:") {
        return Some(plain(path).into());
    }
    let Some(path) = uri.strip_prefix("file:") else {
        let library = driver.and_then(|driver| Path::new(driver).file_name()?.to_str());
        return library?.contains("sqlite").then(|| uri.into());
    };
    // Before the path may be a host, which can only be this one; after it, options.
    let path = path.strip_prefix("//localhost").unwrap_or(path);
    let path = path.strip_prefix("//").unwrap_or(path);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let path = unescaped(path).unwrap_or_else(|| path.to_owned());
    // SQLite's names end at a zero.
    Some(path.split('\0').next().unwrap_or_default().into())
}

/// The path in `sqlite:a.db`, `sqlite:/a.db`, `sqlite:///a.db` and, as SQLAlchemy writes it, `sqlite:////a.db`.
pub(super) fn plain(path: &str) -> &str {
    match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with("//") => &absolute[1..],
        Some(absolute) => absolute,
        None => path,
    }
}

/// SQLite's own form of an address, for a file that is read (`ro`) or written to (`rw`): the driver would create one that
/// does not exist.
pub(super) fn with_mode(uri: &str, mode: &str) -> String {
    let Some(file) = uri.strip_prefix("file:") else {
        let path = uri.strip_prefix("sqlite:").unwrap_or(uri);
        let path = plain(path).replace('%', "%25").replace('?', "%3f");
        return format!("file:{}?mode={mode}", path.replace('#', "%23"));
    };
    // What follows a # is no part of the address.
    let file = file.split('#').next().unwrap_or(file);
    match file.split_once('?') {
        None => format!("file:{file}?mode={mode}"),
        Some((_, options)) if options.contains("mode=") => format!("file:{file}"),
        Some(_) => format!("file:{file}&mode={mode}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{canonical, database_paths};
    use super::*;

    #[test]
    fn sqlite_files_are_only_read() {
        for (uri, file) in [
            ("sqlite:a.db", "file:a.db?mode=ro"),
            (
                "sqlite:///tmp/50%#1?.db",
                "file:/tmp/50%25%231%3f.db?mode=ro",
            ),
            ("file:a.db?cache=shared", "file:a.db?cache=shared&mode=ro"),
            ("file:a.db?mode=memory", "file:a.db?mode=memory"),
            ("file:a%20b.db#c", "file:a%20b.db?mode=ro"),
            ("a.db", "file:a.db?mode=ro"),
        ] {
            assert_eq!(with_mode(&canonical(uri), "ro"), file);
        }
    }

    #[test]
    fn the_files_of_sqlite_are_known() {
        let library = "/sqlite/libadbc_driver_postgresql.so";
        for (uri, driver, path) in [
            ("sqlite:///tmp/a?b.db", None, Some("/tmp/a?b.db")),
            ("sqlite:////tmp/a.db", None, Some("/tmp/a.db")),
            (" SQLite:/tmp/a.db ", None, Some("/tmp/a.db")),
            ("sqlite+pysqlite:////tmp/a.db", None, Some("/tmp/a.db")),
            ("SQLITE+Any:a.db", None, Some("a.db")),
            ("FILE:a.db?mode=ro", None, Some("a.db")),
            ("file:a.db%00b", None, Some("a.db")),
            ("file:a%20b.db?cache=shared", None, Some("a b.db")),
            ("file://localhost/tmp/a.db#b", None, Some("/tmp/a.db")),
            ("file:///tmp/a%.db", None, Some("/tmp/a%.db")),
            ("a.db", Some("sqlite"), Some("a.db")),
            ("a.db", Some("/opt/libadbc_driver_sqlite.so"), Some("a.db")),
            ("a.db", Some(library), None),
            ("postgresql://localhost/a", None, None),
            ("duckdb:///Cargo.toml?a", Some("duckdb"), Some("Cargo.toml")),
            ("Cargo.toml", Some("duckdb"), Some("Cargo.toml")),
        ] {
            let paths: Vec<PathBuf> = path.into_iter().map(PathBuf::from).collect();
            assert_eq!(database_paths(uri, driver), paths, "{uri}");
        }
    }

    #[test]
    fn the_files_that_another_driver_may_make_are_known() {
        for (uri, paths) in [
            ("new.db", &["new.db"][..]),
            ("duckdb:new.db", &["duckdb:new.db", "new.db"]),
            ("duckdb:///new.db?a=b", &["/new.db", "new.db"]),
            ("duckdb:src/new.db", &["src/new.db"]),
            ("nowhere/new.db", &[]),
            ("snowflake://user@account/database", &[]),
            ("", &[]),
        ] {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            assert_eq!(database_paths(uri, Some("other")), paths, "{uri}");
        }
    }
}
