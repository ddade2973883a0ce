//! Databases, through ADBC drivers, and tables that they compute: the results of queries.

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use adbc_core::error::{Error as AdbcError, Result as AdbcResult, Status};
use adbc_core::options::{AdbcVersion, OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{
    Connection, Database, Driver, LOAD_FLAG_DEFAULT, LOAD_FLAG_SEARCH_USER, LoadFlags, Statement,
};
use adbc_driver_manager::{ManagedConnection, ManagedDriver};
use arrow_array::RecordBatchReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use vesica_files::{Argument, advice, catching, directory_of};
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result};
use crate::objects::address::unescaped;

mod sqlite;

use sqlite::{check_types, plain, storage_classes, with_mode};

/// What errors call the table.
pub(crate) const QUERY_NAME: &str = "the query";

/// How long a database waits for a lock; who comes later to one of PostgreSQL's tables waits behind it.
pub(crate) const LOCK_SECONDS: u32 = 5;

/// A database, and the driver that speaks to it. Its address is wiped when this is dropped, and no error contains a password
/// of it.
#[derive(Clone)]
pub struct AdbcDatabase {
    /// As it was given.
    uri: Zeroizing<String>,
    /// Libraries or manifests, of which the first that there is counts.
    drivers: Vec<String>,
    /// The database, if it is one of SQLite's.
    file: Option<PathBuf>,
    pub(crate) kind: Kind,
}

impl fmt::Debug for AdbcDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AdbcDatabase");
        shown.field("drivers", &self.drivers);
        shown.finish_non_exhaustive()
    }
}

/// Whose database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PostgreSql,
    Sqlite,
    /// Another, of which nothing is known but what its driver says.
    Other,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl AdbcDatabase {
    /// The database at `uri`: `postgresql://…`, `sqlite:PATH`, or whatever else the driver takes. `driver` is the name of a
    /// driver or manifest, or the path of one; PostgreSQL and SQLite are recognised by their URIs.
    ///
    /// # Errors
    /// Usage: no driver is named, and the URI does not tell.
    pub fn new(uri: &str, driver: Option<&str>) -> Result<AdbcDatabase> {
        let uri = canonical(uri);
        let of_uri = match uri.split_once(':') {
            Some(("postgresql" | "postgres", _)) => Some("postgresql"),
            Some(("sqlite" | "file", _)) => Some("sqlite"),
            _ => None,
        };
        let Some(driver) = driver.or(of_uri) else {
            return Err(Error::usage_with(
                "the database's URI does not say which driver to take",
                advice![
                    "name one with ",
                    (Argument::Driver, "NAME"),
                    " or ",
                    (Argument::Driver, "PATH"),
                ],
            ));
        };
        let mut drivers = vec![driver.to_owned()];
        if !is_library(driver) {
            drivers.push(format!("adbc_driver_{driver}"));
        }
        let file = sqlite::path(&uri, Some(driver));
        let library = Path::new(driver).file_name().unwrap_or_default();
        let kind = match library.to_string_lossy() {
            _ if file.is_some() => Kind::Sqlite,
            library if library.contains("postgresql") => Kind::PostgreSql,
            _ => Kind::Other,
        };
        Ok(AdbcDatabase {
            uri,
            drivers,
            file,
            kind,
        })
    }

    /// The name of the driver, which ADBC's driver manager looks for; `None` if it is a path.
    pub fn driver(&self) -> Option<&str> {
        match &self.drivers[..] {
            [_path] => None,
            names => names.first().map(String::as_str),
        }
    }

    /// The same database, with the driver's library at `path`.
    pub fn with_library(mut self, path: String) -> AdbcDatabase {
        self.drivers = vec![path];
        self
    }

    /// The file that the database is, as [`database_paths`] says.
    pub fn paths(&self) -> Vec<PathBuf> {
        match (&self.file, self.kind) {
            (Some(file), _) => vec![file.clone()],
            (None, Kind::PostgreSql) => Vec::new(),
            (None, _) => paths_in(&self.uri),
        }
    }

    /// Whether both are one database, as far as their addresses or files tell.
    pub(crate) fn is_same(&self, other: &AdbcDatabase) -> bool {
        let files = self.file.iter().zip(&other.file);
        let mut places = files.map(|(a, b)| (a.canonicalize().ok(), b.canonicalize().ok()));
        self.uri == other.uri || places.any(|(a, b)| a.is_some() && a == b)
    }

    /// Connects. A file of SQLite has to be there.
    pub(crate) fn connect(&self, access: Access) -> Result<ManagedConnection> {
        // What is no path may have a password in it.
        if let Some(file) = self.file.as_deref().filter(|_| !has_credentials(&self.uri))
            && !file.exists()
        {
            let name = file.display().to_string();
            return Err(Error::new(ErrorKind::MissingFile).in_path(&name));
        }
        let mut driver = self.load()?;
        let uri = OptionValue::String(match (&self.file, access) {
            (Some(_), Access::Read) => with_mode(&self.uri, "ro"),
            (Some(_), Access::Write) => with_mode(&self.uri, "rw"),
            (None, _) => self.uri.to_string(),
        });
        let connect = || {
            let database = driver.new_database_with_opts([(OptionDatabase::Uri, uri)])?;
            let mut connection = database.new_connection()?;
            if self.kind == Kind::Sqlite {
                let wait = format!("PRAGMA busy_timeout = {LOCK_SECONDS}000");
                run(&mut connection, &wait)?;
            }
            Ok(connection)
        };
        connect().map_err(|e| self.not_connected(&e))
    }

    fn load(&self) -> Result<ManagedDriver> {
        let load = |name: &String| {
            let version = AdbcVersion::V110;
            let places = places(|variable| env::var_os(variable));
            ManagedDriver::load_from_name(name, None, version, places, None)
        };
        let mut first = None;
        for name in &self.drivers {
            match load(name) {
                Ok(driver) => return Ok(driver),
                Err(e) => {
                    first.get_or_insert(e);
                }
            }
        }
        let why = first.map(|e| e.message).unwrap_or_default();
        let name = &self.drivers[0];
        Err(Error::usage_with(
            format!(
                "the ADBC driver {name:?} cannot be loaded: {}",
                one_line(&why)
            ),
            match IS_STATIC {
                true => "this program is static and loads no libraries: take the wheel, or build it for glibc".into(),
                false => advice![
                    "install it, or give the path of its library with ",
                    Argument::Driver
                ],
            },
        ))
    }

    /// Why there is no connection. Drivers quote the URI where they do not understand it, so that their words are
    /// passed on without the passwords in it, or not at all where it is not clear what those are.
    fn not_connected(&self, e: &AdbcError) -> Error {
        failed(of_status(e.status), &self.without_passwords(&e.message))
    }

    /// A driver's words in one line, without the passwords in the URI; others instead if it is not clear what those are,
    /// or how they are written in the path that SQLite's driver was given.
    fn without_passwords(&self, words: &str) -> String {
        let secrets = secrets(&self.uri).filter(|found| found.is_empty() || self.file.is_none());
        let Some(secrets) = secrets else {
            return "the driver's words may have a password in them".into();
        };
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        one_line(&secrets.fold(words.to_owned(), |words, secret| {
            words.replace(&**secret, "…")
        }))
    }

    /// Why the database does not do what it is told to. What it says of that is passed on; what it says of data would quote
    /// them. `executes` says that it has begun to look at them, and `told` has the names that it was told.
    pub(crate) fn refused(&self, e: &AdbcError, executes: bool, told: &str) -> Error {
        let state: String = e.sqlstate.iter().map(|c| char::from(*c as u8)).collect();
        let state = state.trim_matches('\0');
        // Connections, authorisations, catalogues, resources, limits such as that of columns, locks and the operator's
        // interventions.
        let classes = [
            "08", "0A", "28", "3D", "3F", "42", "53", "54", "55P03", "57",
        ];
        let is_about_query = match state {
            "" => !executes,
            // A name that may be made of a value, as by a cast to a table's name.
            "42P01" | "42883" | "42704" => {
                let mut quoted = e.message.split('"').skip(1).step_by(2);
                quoted.all(|name| told.contains(name))
            }
            state => classes.iter().any(|class| state.starts_with(class)),
        };
        // SQLite's driver has the status of a lost connection for locks.
        let what = match self.kind {
            Kind::Sqlite => of_status(Status::Unknown),
            _ => of_status(e.status),
        };
        match is_about_query {
            true => failed(what, &self.without_passwords(&e.message)),
            false => failed(
                "failed, maybe over a value of the data",
                &format!("SQLSTATE {state:?}"),
            ),
        }
    }
}

/// A query, and the database that answers it.
#[derive(Clone, Debug)]
pub struct Query {
    pub(crate) sql: String,
    pub(crate) database: AdbcDatabase,
}

impl Query {
    /// A query of a database.
    ///
    /// # Errors
    /// Usage: the query is of several statements, of which drivers would answer one.
    pub fn new(sql: &str, database: AdbcDatabase) -> Result<Query> {
        let Some(end) = end_of_statement(sql) else {
            return Err(Error::usage_with(
                "the query is of several statements",
                "ask with one, such as SELECT … UNION ALL SELECT …",
            ));
        };
        let sql = sql[..end].to_owned();
        Ok(Query { sql, database })
    }

    /// Asks the database, and hands its answer to `take`: an Arrow stream. With it goes the file that the database is, if it
    /// is one.
    pub(crate) fn ask<T>(
        &self,
        take: impl FnOnce(Box<dyn Read + Send>, Option<&Path>) -> Result<T>,
    ) -> Result<T> {
        let Query { sql, database } = self;
        let refused = |executes| move |e: AdbcError| database.refused(&e, executes, sql);
        let ask = || {
            let mut connection = database.connect(Access::Read)?;
            let mut statement = connection.new_statement().map_err(refused(false))?;
            prepare(&mut statement, sql).map_err(refused(false))?;
            let stream = Stream::new(statement).map_err(refused(true))?;
            let file = database.file.as_deref();
            if let (Some(_), Some(schema)) = (file, stream.schema()) {
                let columns = schema.fields().len();
                let found = (connection.new_statement())
                    .and_then(|mut other| storage_classes(&mut other, sql, columns));
                check_types(&schema, &found.map_err(refused(true))?)?;
            }
            take(Box::new(stream), file)
        };
        let taken = catching(ask).map_err(|panic| failed("broke off", &panic))?;
        taken.map_err(|e| e.in_path(QUERY_NAME))
    }
}

/// Where the one statement ends: at a semicolon that is not in quotes or comments, or with the text. `None` if anything
/// but blanks and comments follows. Where dialects of SQL disagree on what a quote or a comment is, this does not know,
/// and takes all for the statement.
fn end_of_statement(sql: &str) -> Option<usize> {
    let mut rest = sql;
    let mut end_of_first = None;
    while let Some(first) = rest.chars().next() {
        // The lengths of what begins a comment or a quote here, and what ends it.
        let (begin, end) = match first {
            _ if rest.starts_with("--") => (2, "\n"),
            _ if rest.starts_with("/*") => (2, "*/"),
            '\'' => (1, "'"),
            '"' => (1, "\""),
            '`' => (1, "`"),
            '[' => (1, "]"),
            '$' => match rest[1..].split_once('$') {
                Some((tag, _)) if tag.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                    (tag.len() + 2, &rest[..tag.len() + 2])
                }
                _ => (1, ""),
            },
            '#' | '\\' => return Some(sql.len()),
            other => (other.len_utf8(), ""),
        };
        let is_comment = matches!(end, "\n" | "*/");
        if end_of_first.is_some() && !is_comment && !first.is_whitespace() && first != ';' {
            return None;
        }
        if first == ';' {
            end_of_first.get_or_insert(sql.len() - rest.len());
        }
        rest = &rest[begin..];
        // A doubled quote is the end of one and the beginning of another.
        let length = rest.find(end).map_or(rest.len(), |at| at + end.len());
        if !is_comment && rest[..length].contains('\\') {
            return Some(sql.len());
        }
        rest = &rest[length..];
    }
    Some(end_of_first.unwrap_or(sql.len()))
}

/// An address as drivers take it and as it is compared: without blanks around it, with its scheme in lower case, and without
/// the library for Python that SQLAlchemy has behind a `+`, as in `postgresql+psycopg://…`.
fn canonical(uri: &str) -> Zeroizing<String> {
    let uri = uri.trim();
    let (scheme, rest) = uri.split_once(':').unwrap_or_default();
    let lower = scheme.to_ascii_lowercase();
    let dialect = lower
        .split_once('+')
        .map_or(&*lower, |(dialect, _)| dialect);
    Zeroizing::new(match dialect {
        "postgresql" | "postgres" | "sqlite" | "file" => format!("{dialect}:{rest}"),
        _ => uri.to_owned(),
    })
}

/// Whether a driver is the path of a library, and not the name of one that is installed.
pub fn is_library(driver: &str) -> bool {
    driver.contains(['/', '\\', '.'])
}

/// The file that the database at `uri` is, there or not: SQLite's; of a driver of which nothing is known all that the address
/// may stand for; none of a server's.
pub fn database_paths(uri: &str, driver: Option<&str>) -> Vec<PathBuf> {
    match AdbcDatabase::new(uri, driver) {
        Ok(database) => database.paths(),
        // No driver is named, which is complained of where one is needed.
        Err(_) => paths_in(&canonical(uri)),
    }
}

/// The files that an address may stand for: one that is there, or else each that could be made, by its directory.
fn paths_in(uri: &str) -> Vec<PathBuf> {
    let path = uri.split_once(':').map_or(uri, |(_, rest)| plain(rest));
    let path = path.split('?').next().unwrap_or(path);
    // What follows three slashes is absolute or, as SQLAlchemy has it, relative.
    let relative = path.strip_prefix('/').unwrap_or(path);
    let mut paths: Vec<PathBuf> = [uri, path, relative].map(PathBuf::from).to_vec();
    if let Some(there) = paths.iter().find(|path| path.is_file()) {
        return vec![there.clone()];
    }
    paths.retain(|path| path.file_name().is_some() && directory_of(path).is_dir());
    paths.dedup();
    paths
}

/// Where drivers are looked for. The user's own are below a directory that the environment names; one that is empty or
/// relative would be below the current directory, in which anybody may have put a library.
fn places(variable: impl Fn(&str) -> Option<OsString>) -> LoadFlags {
    let home = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME"));
    match home.is_some_and(|home| Path::new(&home).is_relative()) {
        true => LOAD_FLAG_DEFAULT & !LOAD_FLAG_SEARCH_USER,
        false => LOAD_FLAG_DEFAULT,
    }
}

pub(crate) fn failed(what: &str, words: &str) -> Error {
    Error::new(ErrorKind::Database {
        reason: format!("{what}: {words}"),
    })
}

pub(crate) fn of_status(status: Status) -> &'static str {
    match status {
        Status::IO | Status::Timeout => "the database cannot be reached, or went away",
        Status::Unauthenticated => "the database does not accept the credentials",
        Status::Unauthorized => "the database does not permit it",
        _ => "the database refuses",
    }
}

/// Whether this program has its C library in it, and loads no others.
const IS_STATIC: bool = cfg!(all(target_env = "musl", target_feature = "crt-static"));

/// Characters of a driver's words that are passed on. Some drivers quote what they were told, whatever its length.
const MAX_WORDS: usize = 300;

/// A driver's words as one line that a person reads.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether a database's URI has a password in it, or may have one.
pub fn has_credentials(uri: &str) -> bool {
    secrets(&canonical(uri)).is_none_or(|secrets| !secrets.is_empty())
}

/// Parameters of a URI that are no passwords.
const HARMLESS: [&str; 12] = [
    "application_name",
    "cache",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "host",
    "immutable",
    "mode",
    "port",
    "sslmode",
    "target_session_attrs",
    "user",
];

/// The passwords in a URI, as they are written and what they stand for; `None` if it is not clear what they are. A
/// parameter counts as one unless it is known to be none.
fn secrets(uri: &str) -> Option<Vec<Cow<'_, str>>> {
    if !uri.contains([':', '=', '@', ';', ' ']) {
        // A path.
        return Some(Vec::new());
    }
    let (scheme, rest) = uri.split_once(':')?;
    if matches!(scheme, "sqlite" | "file") {
        return Some(Vec::new());
    }
    // Words such as `host=h password=p` and `user:password@tcp(host)/db` are of the drivers' own kinds.
    let rest = rest.strip_prefix("//")?;
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let mut raw = Vec::new();
    match (authority.matches('@').count(), after.contains('@')) {
        _ if authority.contains([';', '=']) => return None,
        (0, false) => {}
        (1, false) => match authority.split_once('@')?.0.split_once(':') {
            Some((_, password)) => raw.push(password),
            None if matches!(scheme, "postgresql" | "postgres") => {}
            // Some take a token here.
            None => return None,
        },
        _ => return None,
    }
    let parameters = after
        .split_once(['?', '#'])
        .map_or("", |(_, parameters)| parameters);
    for pair in parameters.split(['?', '&', ';', '#']) {
        match pair.split_once('=') {
            Some((name, _)) if HARMLESS.contains(&&*name.to_lowercase()) => {}
            Some((_, value)) => raw.push(value),
            None if pair.is_empty() => {}
            None => return None,
        }
    }
    let mut all = Vec::new();
    for secret in raw {
        let plain = unescaped(secret)?;
        all.push(Cow::Owned(plain));
        all.push(Cow::Borrowed(secret));
    }
    Some(all)
}

/// Runs a statement that answers nothing of interest.
pub(crate) fn run(connection: &mut ManagedConnection, sql: &str) -> AdbcResult<()> {
    let mut statement = connection.new_statement()?;
    statement.set_sql_query(sql)?;
    statement.execute_update().map(|_| ())
}

/// Gives a statement its query, and lets the database understand that, before it looks at any data.
fn prepare(statement: &mut impl Statement, sql: &str) -> AdbcResult<()> {
    // SQLite's columns have no types, and the driver takes those of the first batch. Other drivers do not know this.
    let rows = OptionStatement::Other("adbc.sqlite.query.batch_rows".into());
    let _ = statement.set_option(rows, OptionValue::Int(65_536));
    statement.set_sql_query(sql)?;
    match statement.prepare() {
        Err(e) if e.status == Status::NotImplemented => Ok(()),
        prepared => prepared,
    }
}

/// An answer as the bytes of an Arrow stream, made as they are read.
struct Stream<S> {
    /// `None` at the end. Dropped before the statement.
    answer: Option<Box<dyn RecordBatchReader + Send>>,
    /// Without it the answer breaks off.
    _statement: S,
    writer: StreamWriter<Vec<u8>>,
    /// Bytes of the writer that have been read.
    read: usize,
}

impl<S: Statement> Stream<S> {
    /// The answer to a statement that has its query.
    fn new(mut statement: S) -> AdbcResult<Stream<S>> {
        let answer = statement.execute()?;
        Ok(Stream {
            writer: StreamWriter::try_new(Vec::new(), &answer.schema())?,
            answer: Some(answer),
            _statement: statement,
            read: 0,
        })
    }
}

impl<S> Stream<S> {
    /// The columns of the answer, until it has ended.
    fn schema(&self) -> Option<SchemaRef> {
        self.answer.as_ref().map(|answer| answer.schema())
    }

    /// Makes the next bytes.
    fn refill(&mut self) -> std::result::Result<(), ArrowError> {
        self.writer.get_mut().clear();
        self.read = 0;
        let next = self.answer.as_mut().and_then(|answer| answer.next());
        match next {
            Some(batch) => self.writer.write(&batch?)?,
            None if self.answer.take().is_some() => self.writer.finish()?,
            None => {}
        }
        Ok(())
    }
}

impl<S> Read for Stream<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.writer.get_ref().len() && self.answer.is_some() {
            // These words have no code by which those about data could be told from the others.
            let words = "its words may have values of the data in them";
            self.refill().map_err(|_| {
                io::Error::other(failed("the database breaks off its answer", words))
            })?;
        }
        let ready = &self.writer.get_ref()[self.read..];
        let length = ready.len().min(out.len());
        out[..length].copy_from_slice(&ready[..length]);
        self.read += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(sql: &str, uri: &str, driver: Option<&str>) -> Result<Query> {
        Query::new(sql, AdbcDatabase::new(uri, driver)?)
    }

    #[test]
    fn several_statements_are_told_from_semicolons_in_quotes_and_comments() {
        for sql in [
            "select 600 id; select 601 id",
            ";select 1",
            "select ';' ; -- one\n select 2",
            "select 1; /* a */ ; \u{a0}x",
            "select $tag$ ; $tag$; select 2",
            "select [a;b] from t; drop table t",
        ] {
            assert_eq!(end_of_statement(sql), None, "{sql}");
            let error = query(sql, "sqlite:people.db", None).unwrap_err();
            assert_eq!(error.class(), crate::ErrorClass::Usage);
        }
        let asked = query("select ';' -- a;\n ; -- b", "sqlite:people.db", None).unwrap();
        assert_eq!(asked.sql, "select ';' -- a;\n ");
        for sql in [
            "",
            "select 1",
            "select 1 ;; \n-- that is all; really",
            "select 'a;b', 'it''s; so', \"c;d\", `e;f` from t",
            "select $$ ; $$, $1 /* ; x */",
            "select 'it\\'s; so'",
            "select 'never closed; x",
            "select 1 # ; in some dialects",
        ] {
            assert!(end_of_statement(sql).is_some(), "{sql}");
            query(sql, "sqlite:people.db", None).unwrap();
        }
    }

    #[test]
    fn passwords_are_found_or_nothing_is_clear() {
        for (uri, found) in [
            ("postgresql://host/db", Some(&[][..])),
            ("postgresql://ann@host/db", Some(&[])),
            ("postgresql://ann:s3%20t@host/db", Some(&["s3 t", "s3%20t"])),
            (
                "postgresql:///db?user=u&password=p%2Fq",
                Some(&["p/q", "p%2Fq"]),
            ),
            ("postgresql://ann:a:b@host", Some(&["a:b", "a:b"])),
            ("sqlite:people.db", Some(&[])),
            ("sqlite:passengers.db", Some(&[])),
            ("data/tokens.db", Some(&[])),
            ("file:/srv/tokens/a.db", Some(&[])),
            ("postgresql://ann@host/db?sslmode=require", Some(&[])),
            (
                "grpc://h?auth=Bearer%20x",
                Some(&["Bearer x", "Bearer%20x"]),
            ),
            ("host=h dbname=d", None),
            ("root:s3cret@tcp(h:3306)/d", None),
            ("jdoe:s3cret@acct/db", None),
            ("sqlserver://h;user=sa;password=x", None),
            ("https://t0ken@host/db", None),
            ("host=h password='a b'", None),
            ("postgresql://ann:a@b@host/db", None),
            ("postgresql://ann:a/b@host/db", None),
            ("postgresql://ann:a%zz@host/db", None),
        ] {
            let secrets = secrets(uri);
            let plain = secrets
                .as_ref()
                .map(|s| s.iter().map(|s| &**s).collect::<Vec<_>>());
            assert_eq!(plain.as_deref(), found, "{uri}");
            assert_eq!(has_credentials(uri), found != Some(&[]), "{uri}");
        }
    }

    #[test]
    fn words_about_a_connection_are_free_of_passwords() {
        let words = |uri: &str, driver: Option<&str>| {
            let query = query("SELECT 1", uri, driver).unwrap();
            assert!(!format!("{query:?}").contains("s3cret"));
            let message = format!("cannot understand\n\"{uri}\" or s3cret");
            let e = AdbcError::with_message_and_status(message, Status::IO);
            query.database.not_connected(&e).to_string()
        };
        let known = words("postgresql://ann:s3cret@host/db", None);
        assert!(
            known.contains("\"postgresql://ann:…@host/db\" or …"),
            "{known}"
        );
        for (uri, driver) in [
            ("postgresql://ann:s3cret@4@host/db", None),
            ("postgresql://ann:s3cret@host/db", Some("sqlite")),
        ] {
            let unclear = words(uri, driver);
            assert!(!unclear.contains("s3cret") && unclear.contains("cannot be reached"));
        }
    }

    #[test]
    fn words_are_cut() {
        let message = format!("near {:?}: syntax error", "é ".repeat(5000));
        let e = AdbcError::with_message_and_status(message, Status::InvalidArguments);
        let database = AdbcDatabase::new("sqlite:x.db", None).unwrap();
        for error in [
            database.refused(&e, false, "SELECT 1"),
            database.not_connected(&e),
        ] {
            let said = error.to_string();
            let length = said.chars().count();
            assert!(said.contains("near") && said.ends_with('…'), "{said}");
            assert!((MAX_WORDS..MAX_WORDS + 100).contains(&length), "{length}");
        }
    }

    #[test]
    fn words_about_data_are_withheld() {
        let said = |state: &[u8; 5], status| {
            let message = "invalid input: \"alice@example.com\"";
            let mut e = AdbcError::with_message_and_status(message, status);
            e.sqlstate = state.map(|byte| byte as _);
            let database = AdbcDatabase::new("sqlite:x.db", None).unwrap();
            [true, false].map(|executes| database.refused(&e, executes, "SELECT 1").to_string())
        };
        for state in [b"22P02", b"23505", b"P0001", b"XX000"] {
            for text in said(state, Status::InvalidArguments) {
                let state = str::from_utf8(state).unwrap();
                assert!(!text.contains("alice") && text.contains(state), "{text}");
            }
        }
        let [executing, before] = said(&[0; 5], Status::InvalidData);
        assert!(!executing.contains("alice") && before.contains("alice"));
        // A name that is not in the query is made of a value.
        assert!(!said(b"42P01", Status::NotFound)[0].contains("alice"));
        assert!(said(b"42601", Status::InvalidArguments)[0].contains("alice"));
    }

    #[test]
    fn no_driver_is_looked_for_below_the_current_directory() {
        let user = |xdg: Option<&str>, home: Option<&str>| {
            let value = |name: &str| match name {
                "XDG_CONFIG_HOME" => xdg.map(OsString::from),
                "HOME" => home.map(OsString::from),
                other => panic!("{other}"),
            };
            places(value) & LOAD_FLAG_SEARCH_USER != 0
        };
        assert!(user(None, Some("/home/ann")) && user(Some("/etc/xdg"), Some("")));
        assert!(user(None, None), "there is no such directory then");
        assert!(!user(None, Some("")) && !user(Some(""), Some("/home/ann")));
        assert!(!user(Some("config"), None));
    }

    #[test]
    fn a_driver_is_named_or_follows_from_the_uri() {
        let drivers = |uri, driver| AdbcDatabase::new(uri, driver).map(|d| d.drivers);
        let named = ["postgresql", "adbc_driver_postgresql"];
        assert_eq!(drivers("postgres://h/d", None).unwrap(), named);
        assert_eq!(drivers("x://h", Some("/x/lib.so")).unwrap(), ["/x/lib.so"]);
        assert_eq!(drivers("postgresql+psycopg://h/d", None).unwrap(), named);
        let error = drivers("people.db", None).unwrap_err();
        assert!(
            error
                .remedy()
                .unwrap()
                .arguments()
                .all(|named| named == Argument::Driver)
        );
        let missing = query("SELECT 1", "x:y", Some("no_such_driver")).unwrap();
        let error = missing.ask(|_, _| Ok(())).unwrap_err();
        assert_eq!(error.class(), crate::ErrorClass::Usage, "{error}");
        let missing = query("SELECT 1", "sqlite:nowhere/x.db", None).unwrap();
        let error = missing.ask(|_, _| Ok(())).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::MissingFile), "{error}");
        let uri = "postgresql://ann:s3cret@host/db";
        let other = query("SELECT 1", uri, Some("/nowhere/libsqlite.so")).unwrap();
        let error = other.ask(|_, _| Ok(())).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
