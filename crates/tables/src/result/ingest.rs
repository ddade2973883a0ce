//! Tables of databases that results are written to, by ADBC's bulk ingestion, in one transaction.

use std::fmt;
use std::io::{self, BufReader, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use adbc_core::error::{Error as AdbcError, Result as AdbcResult, Status};
use adbc_core::options::{IngestMode as Mode, OptionConnection, OptionStatement, OptionValue};
use adbc_core::{Connection, Optionable, Statement};
use adbc_driver_manager::ManagedConnection;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray, new_null_array,
};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use vesica_files::{Argument, advice, catching};

use crate::database::{Access, AdbcDatabase, Kind, LOCK_SECONDS, Query, failed, of_status, run};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::limits::Limits;
use crate::source::scratch::{ScratchReader, ScratchWriter, unwritable};
use crate::source::text::read_error;

mod asked;
mod types;

/// Why a column of the peer does not go to a column that is never null.
const NEVER_NULL: &str = "is never null there, and the peer may hand over null";

/// Why it does not go to one of SQLite's that is unique: that may make up values for null, and drop rows for values.
const UNIQUE: &str = "is unique there, or part of a key, and the peer may hand over any values";

/// What becomes of a table that is there, or is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IngestMode {
    /// The table is made; one that is there is an error.
    #[default]
    Create,
    /// The rows go to a table that is there, column by column by name.
    Append,
    /// One that may be there is dropped, with its rights, indexes and triggers, and a new one made.
    Replace,
}

impl IngestMode {
    /// All of them.
    pub const ALL: [IngestMode; 3] = [IngestMode::Create, IngestMode::Append, IngestMode::Replace];

    /// Its name: `create`, `append` or `replace`.
    pub fn name(self) -> &'static str {
        match self {
            IngestMode::Create => "create",
            IngestMode::Append => "append",
            IngestMode::Replace => "replace",
        }
    }

    /// The driver's word for it.
    fn of_driver(self) -> Mode {
        match self {
            IngestMode::Create => Mode::Create,
            IngestMode::Append => Mode::Append,
            IngestMode::Replace => Mode::Replace,
        }
    }
}

impl FromStr for IngestMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<IngestMode> {
        let found = IngestMode::ALL.iter().find(|mode| mode.name() == name);
        found.copied().ok_or_else(|| {
            Error::usage("what becomes of a table that is there is create, append or replace")
        })
    }
}

/// A table of a database that a result is written to.
#[derive(Clone)]
pub struct TargetTable {
    /// Before the name, if it was given.
    schema: Option<String>,
    name: String,
    mode: IngestMode,
    database: AdbcDatabase,
}

impl fmt::Debug for TargetTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetTable").field(&self.shown()).finish()
    }
}

impl TargetTable {
    /// The table called `name`, or `SCHEMA.NAME`. Names are taken as they are written, whatever their case; a dot in one is
    /// written `\.`.
    ///
    /// # Errors
    /// Usage: an empty name, or more than one dot.
    pub fn new(name: &str, mode: IngestMode, database: AdbcDatabase) -> Result<TargetTable> {
        let mut names = vec![String::new()];
        let mut letters = name.chars().peekable();
        while let Some(letter) = letters.next() {
            let last = names.last_mut().expect("there is one");
            match letter {
                '\\' if letters.next_if_eq(&'.').is_some() => last.push('.'),
                '.' => names.push(String::new()),
                letter => last.push(letter),
            }
        }
        let (Some(table), schema, true) = (names.pop(), names.pop(), names.is_empty()) else {
            return Err(Error::usage(format!("{name:?} is not NAME or SCHEMA.NAME")));
        };
        if table.is_empty() || schema.as_ref().is_some_and(String::is_empty) {
            return Err(Error::usage(format!("{name:?} is not NAME or SCHEMA.NAME")));
        }
        Ok(TargetTable {
            schema,
            name: table,
            mode,
            database,
        })
    }

    /// The database that it is in.
    pub(crate) fn database(&self) -> &AdbcDatabase {
        &self.database
    }

    /// What messages call it.
    pub(crate) fn shown(&self) -> String {
        match &self.schema {
            Some(schema) => format!("table {schema:?}.{:?}", self.name),
            None => format!("table {:?}", self.name),
        }
    }

    /// Fails if the table is one that a query of the same database reads: rows that were asked for would go, or more come.
    ///
    /// # Errors
    /// Usage: it is. Data: the database cannot be reached.
    pub(crate) fn check_not_read(&self, query: &Query) -> Result<()> {
        let checks = || -> Result<bool> {
            Ok(self.mode != IngestMode::Create
                && query.database.is_same(&self.database)
                && asked::reads(
                    &query.sql,
                    &self.database,
                    self.schema.as_deref(),
                    &self.name,
                )?)
        };
        match catching(checks).map_err(|panic| failed("broke off", &panic))?? {
            true => Err(Error::new(ErrorKind::TableIsRead)),
            false => Ok(()),
        }
    }

    fn refused(&self, e: &AdbcError, executes: bool) -> Error {
        // What SQLite says is about tables and columns alone, and has no code that tells.
        let may_quote = executes && self.database.kind != Kind::Sqlite;
        self.database.refused(e, may_quote, &self.name)
    }

    /// Finds out whether rows with these columns, those after the first `own` the peer's, can be written, as far as it can be known before there are any: where
    /// tables are made in transactions, this writes none, and rolls back.
    ///
    /// # Errors
    /// Usage: the driver cannot be loaded; there is a table of this name, or none, or one that lacks a column or has it in
    /// another type. Data: the database cannot be reached or refuses, or has no room for a type.
    fn check(&self, columns: &Schema, own: usize) -> Result<()> {
        let check = || {
            let kind = self.database.kind;
            let columns = kind.schema(columns, own)?;
            let mut connection = self.database.connect(Access::Write)?;
            match (self.mode, self.look(&mut connection)) {
                (IngestMode::Create, Ok(_)) => {
                    return Err(Error::usage_with(
                        "there is such a table already",
                        advice![
                            "name another, or say ",
                            (Argument::OutputTableMode, "append"),
                            " or ",
                            (Argument::OutputTableMode, "replace"),
                        ],
                    ));
                }
                (IngestMode::Append, Err(e)) if e.status == Status::NotFound => {
                    return Err(Error::usage_with(
                        "there is no such table",
                        advice!["make it with ", (Argument::OutputTableMode, "create")],
                    ));
                }
                // Other drivers do not all tell a table that is not there from one that they cannot look at.
                (_, Err(e)) if kind != Kind::Other && e.status != Status::NotFound => {
                    return Err(self.refused(&e, false));
                }
                _ => {}
            }
            self.begin(&mut connection, &columns, own, false)?;
            if kind.undoes_tables() {
                let none = RecordBatchIterator::new([], columns);
                let mut rehearsed = self.clone();
                if kind == Kind::PostgreSql && self.mode == IngestMode::Replace {
                    // To drop the table would wait for all that read it, and let others wait.
                    let random = getrandom::u64().map_err(|e| unwritable(e.into()))?;
                    rehearsed.name = format!("vesica_{random:016x}");
                }
                let written = rehearsed.write(&mut connection, Box::new(none));
                let written = written.map_err(|e| self.refused(&e, false));
                // It goes with the connection in any case.
                let _ = connection.rollback();
                written?;
            }
            Ok(())
        };
        catching(check).map_err(|panic| failed("broke off", &panic))?
    }

    /// The columns of the table that is there.
    fn look(&self, connection: &mut ManagedConnection) -> AdbcResult<Schema> {
        let mut is_there = false;
        if self.database.kind == Kind::Sqlite {
            let name = self.name.replace('\'', "''");
            let sql = format!("SELECT 1 FROM sqlite_master WHERE name = '{name}' COLLATE NOCASE");
            is_there = ask(connection, &sql)?
                .iter()
                .any(|found| found.num_rows() > 0);
        }
        let there = connection.get_table_schema(None, self.schema.as_deref(), &self.name);
        there.map_err(|e| match is_there {
            // SQLite's driver says of all failures that the table is not found.
            true => AdbcError {
                status: Status::Unknown,
                ..e
            },
            false => e,
        })
    }

    /// Begins a transaction, in which the table is to take these columns, of which those after the first `own` are the peer's.
    /// One that rows are appended to is as it was looked at until the transaction ends: PostgreSQL's is locked, and so is
    /// SQLite's database. `writes` locks a table of PostgreSQL that is replaced, too, and SQLite's database against readers.
    fn begin(
        &self,
        connection: &mut ManagedConnection,
        columns: &Schema,
        own: usize,
        writes: bool,
    ) -> Result<()> {
        let kind = self.database.kind;
        let refused = |e| self.refused(&e, false);
        let off = connection.set_option(OptionConnection::AutoCommit, "false".into());
        off.map_err(refused)?;
        let first: &[&str] = match kind {
            Kind::PostgreSql => &[&format!("SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")],
            // The driver's transaction takes locks as it needs them, and SQLite does not wait for what others have by then. In
            // an exclusive one neither rows nor their commit are kept waiting.
            Kind::Sqlite if writes => &["END", "BEGIN EXCLUSIVE"],
            Kind::Sqlite => &["END", "BEGIN IMMEDIATE"],
            Kind::Other => &[],
        };
        for sql in first {
            run(connection, sql).map_err(refused)?;
        }
        let lock = |mode: &str| format!("LOCK TABLE {} IN {mode} MODE", self.quoted());
        match (self.mode, kind) {
            (IngestMode::Append, Kind::PostgreSql) => {
                run(connection, &lock("ROW EXCLUSIVE")).map_err(refused)?;
            }
            (IngestMode::Replace, Kind::PostgreSql) => {
                if self.is_replaced(connection)? && writes {
                    run(connection, &lock("ACCESS EXCLUSIVE")).map_err(refused)?;
                    self.is_replaced(connection)?;
                }
                return Ok(());
            }
            (IngestMode::Append, _) => {}
            _ => return Ok(()),
        }
        match self.look(connection) {
            Ok(there) => check_columns(kind, &there, columns)?,
            Err(e) if kind != Kind::Other => return Err(refused(e)),
            Err(_) => {}
        }
        self.check_free(connection, &columns.fields()[own..])
    }

    /// Refuses a table in which a column of the peer's is never null, as far as the database says so, or unique in SQLite:
    /// whoever hands over null, or a value that is there, could spoil a result with it.
    fn check_free(&self, connection: &mut ManagedConnection, of_peer: &[FieldRef]) -> Result<()> {
        let sql = match self.database.kind {
            _ if of_peer.is_empty() => return Ok(()),
            Kind::PostgreSql => format!(
                "SELECT a.attname::text, '{NEVER_NULL}'::text FROM pg_catalog.pg_attribute a \
                 WHERE a.attrelid = {}::regclass AND (a.attnotnull OR EXISTS ( \
                 WITH RECURSIVE base(oid) AS (SELECT a.atttypid UNION \
                 SELECT t.typbasetype FROM pg_catalog.pg_type t JOIN base USING (oid)) \
                 SELECT 1 FROM pg_catalog.pg_type t JOIN base USING (oid) WHERE t.typnotnull))",
                literal(&self.quoted())
            ),
            Kind::Sqlite => {
                let name = self.name.replace('\'', "''");
                format!(
                    "SELECT name, '{NEVER_NULL}' FROM pragma_table_info('{name}') WHERE \"notnull\" \
                     UNION ALL SELECT name, '{UNIQUE}' FROM pragma_table_info('{name}') WHERE pk \
                     UNION ALL SELECT c.name, '{UNIQUE}' FROM pragma_index_list('{name}') i, \
                     pragma_index_info(i.name) c WHERE i.\"unique\""
                )
            }
            Kind::Other => return Ok(()),
        };
        let found = ask(connection, &sql).map_err(|e| self.refused(&e, false))?;
        let texts =
            |rows: &RecordBatch, column: usize| rows.column(column).as_string_opt().cloned();
        let bound = found
            .iter()
            .filter_map(|rows| texts(rows, 0).zip(texts(rows, 1)));
        for (names, reasons) in bound {
            let names: &StringArray = &names;
            let mut bound = names.iter().zip(&reasons);
            let is_of_peer = |name| of_peer.iter().any(|field| Some(&**field.name()) == name);
            if let Some((Some(name), Some(reason))) = bound.find(|(name, _)| is_of_peer(*name)) {
                return Err(Error::usage_with(
                    format!("column {name:?} {reason}"),
                    "append to a table whose columns of the peer take any values",
                ));
            }
        }
        Ok(())
    }

    /// Whether there is a table of PostgreSQL to replace. One that it would not drop is refused, and one that keeps rows from
    /// some users, as a new table would not.
    fn is_replaced(&self, connection: &mut ManagedConnection) -> Result<bool> {
        let schema = self.schema.as_deref();
        let schema = schema.map_or_else(|| "current_schema()".to_owned(), literal);
        let sql = format!(
            "SELECT c.relkind IN ('r', 'p'), c.relrowsecurity, \
             pg_has_role(c.relowner, 'USAGE') OR pg_has_role(n.nspowner, 'USAGE') \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = {schema}::name AND c.relname = {}::name",
            literal(&self.name)
        );
        let found = ask(connection, &sql).map_err(|e| self.refused(&e, false))?;
        let Some(found) = found.into_iter().find(|rows| rows.num_rows() > 0) else {
            return Ok(false);
        };
        let is = |column: usize| found.column(column).as_boolean().value(0);
        let words = match (is(0), is(1), is(2)) {
            (false, ..) => "it is no table, which could be replaced",
            (_, true, _) => "it has row security, which the table in its place would not have",
            (.., false) => {
                return Err(failed(
                    of_status(Status::Unauthorized),
                    "it has another owner",
                ));
            }
            _ => return Ok(true),
        };
        Err(Error::usage_with(
            words,
            advice![
                "name another, or say ",
                (Argument::OutputTableMode, "append")
            ],
        ))
    }

    /// What SQL calls it.
    fn quoted(&self) -> String {
        let names = self.schema.iter().chain([&self.name]);
        let quoted = names.map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
        quoted.collect::<Vec<_>>().join(".")
    }

    /// Writes rows, in the transaction that has begun, and has them checked that would be at its end.
    fn write(
        &self,
        connection: &mut ManagedConnection,
        rows: Box<dyn RecordBatchReader + Send>,
    ) -> AdbcResult<()> {
        let mut statement = connection.new_statement()?;
        let name = OptionValue::String(self.name.clone());
        statement.set_option(OptionStatement::TargetTable, name)?;
        if let Some(schema) = &self.schema {
            let schema = OptionValue::String(schema.clone());
            statement.set_option(OptionStatement::TargetDbSchema, schema)?;
        }
        statement.set_option(OptionStatement::IngestMode, self.mode.of_driver().into())?;
        statement.bind_stream(rows)?;
        statement.execute_update()?;
        match self.database.kind {
            Kind::PostgreSql => run(connection, "SET CONSTRAINTS ALL IMMEDIATE"),
            _ => Ok(()),
        }
    }

    /// Writes all rows, or none. Columns after the first `own` are the peer's. Returns how many of their values are null since
    /// the database has no room for them, or its table refuses them.
    fn ingest(&self, rows: &ReadRows<'_>, own: usize) -> Result<u64> {
        let kind = self.database.kind;
        let write = || {
            let refused = match self.begin_write(rows, own, &[])? {
                Err(refused) if kind.undoes_tables() => refused,
                written => return written,
            };
            let mut without: Vec<usize> = (own..rows()?.schema().fields().len()).collect();
            if without.is_empty() {
                return Err(refused);
            }
            // Perhaps the database's encoding or a constraint of the table refuses what the peer has handed over, with which no
            // peer is to spoil a result: its columns are null but for those that are taken.
            drop(self.begin_write(rows, own, &without)??);
            for column in without.clone() {
                let mut less = without.clone();
                less.retain(|other| *other != column);
                if self.begin_write(rows, own, &less)?.is_ok() {
                    without = less;
                }
            }
            self.begin_write(rows, own, &without)?
        };
        let ingest = || {
            let (mut connection, lost) = write().map_err(|error| match kind.undoes_tables() {
                true => error.and("; nothing was written"),
                false => error,
            })?;
            let committed = connection.commit().map_err(|e| {
                let words = "it does not say whether the rows are there";
                failed(of_status(e.status), words)
            });
            committed.map(|()| lost)
        };
        catching(ingest).map_err(|panic| failed("broke off", &panic))?
    }

    /// Writes all rows in a transaction, with null in the columns `without`, and how many values are null that were none. It is
    /// rolled back unless it is committed. The inner error is that the rows are refused, the outer that it has not come to them,
    /// as where the table is locked.
    fn begin_write(
        &self,
        rows: &ReadRows<'_>,
        own: usize,
        without: &[usize],
    ) -> Result<Result<(ManagedConnection, u64)>> {
        let (rows, met) = DriverRows::new(rows()?, self.database.kind, own, without)?;
        let mut connection = self.database.connect(Access::Write)?;
        let columns = rows.schema();
        let begun = self.begin(&mut connection, &columns, own, true);
        begun.map_err(|error| match error.kind() {
            // It is so for columns of the peer, or since the run has begun.
            ErrorKind::Usage { reason, .. } => failed("the rows do not go there", reason),
            _ => error,
        })?;
        let written = self.write(&mut connection, Box::new(rows));
        let mut met = met.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(e) = written else {
            return Ok(Ok((connection, met.lost)));
        };
        let _ = connection.rollback();
        let of_rows = met.failure.take();
        Ok(Err(of_rows.unwrap_or_else(|| self.refused(&e, true))))
    }
}

/// A string of PostgreSQL.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// The answer to a query.
fn ask(connection: &mut ManagedConnection, sql: &str) -> AdbcResult<Vec<RecordBatch>> {
    let mut statement = connection.new_statement()?;
    statement.set_sql_query(sql)?;
    let answer = statement.execute()?;
    Ok(answer.collect::<std::result::Result<_, _>>()?)
}

/// Refuses a table that lacks one of the columns, or would take its values for others.
fn check_columns(kind: Kind, there: &Schema, columns: &Schema) -> Result<()> {
    for field in columns.fields() {
        let name = field.name();
        let Some((_, found)) = there.column_with_name(name) else {
            return Err(Error::usage(format!("it has no column {name:?}")));
        };
        if !kind.keeps(found, field) {
            let (there, here) = (types::shown(found), field.data_type());
            return Err(Error::usage_with(
                format!(
                    "column {name:?} is of type {there} there, and of type {here} in the result"
                ),
                "append to a table with the types of the result, or ask for them in a query, as CAST(… AS …) does",
            ));
        }
    }
    Ok(())
}

/// Reads the rows of a result, from the first on.
type ReadRows<'a> = dyn Fn() -> Result<StreamReader<BufReader<ScratchReader>>> + 'a;

/// Rows as a driver takes them, whose columns after the first `own` are the peer's.
struct DriverRows {
    rows: StreamReader<BufReader<ScratchReader>>,
    kind: Kind,
    own: usize,
    /// The columns that are null.
    without: Vec<usize>,
    schema: SchemaRef,
    met: Arc<Mutex<Met>>,
}

/// What is met in rows while the driver has them.
#[derive(Default)]
struct Met {
    /// What is wrong with them: the driver passes on no more than words.
    failure: Option<Error>,
    /// Values of the peer that are null, since the database does not take them.
    lost: u64,
}

impl DriverRows {
    fn new(
        rows: StreamReader<BufReader<ScratchReader>>,
        kind: Kind,
        own: usize,
        without: &[usize],
    ) -> Result<(DriverRows, Arc<Mutex<Met>>)> {
        let met = Arc::default();
        let rows = DriverRows {
            schema: kind.schema(&rows.schema(), own)?,
            rows,
            kind,
            own,
            without: without.to_vec(),
            met: Arc::clone(&met),
        };
        Ok((rows, met))
    }

    /// The next rows, and how many values they lack.
    fn read(
        &self,
        rows: std::result::Result<RecordBatch, ArrowError>,
    ) -> Result<(RecordBatch, u64)> {
        let (rows, mut lost) =
            self.kind
                .rows(&rows.map_err(unreadable)?, &self.schema, self.own)?;
        let mut columns = rows.columns().to_vec();
        for column in &self.without {
            let column = &mut columns[*column];
            lost += (column.len() - column.logical_null_count()) as u64;
            *column = new_null_array(column.data_type(), column.len());
        }
        let rows = RecordBatch::try_new(self.schema.clone(), columns);
        Ok((rows.map_err(|e| Error::corrupt(e.to_string()))?, lost))
    }
}

impl Iterator for DriverRows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.next()?;
        let read = self.read(rows);
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match read {
            Ok((rows, lost)) => {
                met.lost += lost;
                Ok(rows)
            }
            Err(error) => {
                let words = error.to_string();
                met.failure.get_or_insert(error);
                Err(ArrowError::ComputeError(words))
            }
        })
    }
}

impl RecordBatchReader for DriverRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn unreadable(e: ArrowError) -> Error {
    match e {
        ArrowError::IoError(_, e) => read_error(e),
        e => Error::new(ErrorKind::Scratch(io::Error::other(e))),
    }
}

/// The rows of a result on their way to a table: in an encrypted file without a name, until all are there.
pub(crate) struct Ingest {
    table: TargetTable,
    /// How many columns are not the peer's.
    own: usize,
    rows: ScratchWriter,
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

impl Ingest {
    /// Begins a result with these columns, and perhaps others of the peer. The file is in `directory`.
    ///
    /// # Errors
    /// As [`TargetTable::check`]. Resource: the file cannot be made.
    pub(crate) fn begin(table: &TargetTable, columns: &Schema, directory: &Path) -> Result<Ingest> {
        let own = columns.fields().len();
        table.check(columns, own)?;
        Ok(Ingest {
            table: table.clone(),
            own,
            rows: ScratchWriter::create(directory).map_err(unwritable)?,
        })
    }

    /// Finds out whether rows with these columns, of which the last are the peer's, can be written.
    ///
    /// # Errors
    /// As [`TargetTable::check`].
    pub(crate) fn check_columns(&self, columns: &Schema) -> Result<()> {
        self.table.check(columns, self.own)
    }

    /// Writes the rows, which have come as an Arrow stream, to the table. Returns how many values of the peer are null since
    /// the database does not take them.
    pub(crate) fn commit(self) -> Result<u64> {
        let rows = Arc::new(self.rows.finish().map_err(unwritable)?);
        let read = || {
            let rows = BufReader::new(ScratchReader::new(rows.clone()));
            StreamReader::try_new(rows, None).map_err(unreadable)
        };
        self.table.ingest(&read, self.own)
    }
}

impl Limits for Ingest {
    fn concerns(&self, of: &DataType) -> bool {
        self.table.database.kind.may_refuse(of)
    }

    fn check(&self, rows: &RecordBatch) -> Result<()> {
        let kind = self.table.database.kind;
        let schema = kind.schema(&rows.schema(), rows.num_columns())?;
        kind.rows(rows, &schema, rows.num_columns()).map(drop)
    }
}

impl Write for Ingest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rows.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.rows.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_schema_or_none() {
        let target = |name: &str| {
            let database = AdbcDatabase::new("postgresql://ann:s3cret@host/db", None).unwrap();
            TargetTable::new(name, IngestMode::Create, database)
        };
        for (name, schema, table, shown) in [
            ("t", None, "t", "table \"t\""),
            ("Other.T 1", Some("Other"), "T 1", "table \"Other\".\"T 1\""),
            ("a\\.b", None, "a.b", "table \"a.b\""),
            (
                "a\\b.c\\.d",
                Some("a\\b"),
                "c.d",
                "table \"a\\\\b\".\"c.d\"",
            ),
        ] {
            let target = target(name).unwrap();
            assert_eq!((target.schema.as_deref(), &*target.name), (schema, table));
            assert_eq!(target.shown(), shown);
            assert!(!format!("{target:?}").contains("s3cret"));
        }
        for name in ["", ".", "a.", ".b", "a.b.c"] {
            let error = target(name).unwrap_err();
            assert_eq!(error.class(), crate::ErrorClass::Usage, "{name}");
        }
    }
}
