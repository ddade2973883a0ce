//! The arguments of a run, as the package hands them over.

use std::collections::HashMap;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use vesica::options::{
    GroupColumn, LabelRoom, PayloadColumn, adbc_database, half_of_the_machine, noise_request,
    parse_bandwidth, parse_bytes, parse_character, parse_delimiter, parse_duration, parse_protocol,
    payload_exchange, value_columns,
};
use vesica::session::terms::{LEARNS, REVEAL, parse_max_items};
use vesica::session::{FingerprintError, LabelExchange, NoiseRequest, OnIncident, PeerLimits};
use vesica::tables::{
    AdbcDatabase, CsvOptions, Encoding, Format, KeyColumn, Profile, Query, TargetTable,
    ValueColumn, import_batches,
};
use vesica::{
    Account, ConnectOptions, Destination, Fingerprint, KeySpec, Learns, ProtocolRequest, Resources,
    Role, Rows, Source, SourceOptions, Terms,
};

use crate::errors::Failure;
use crate::events::Events;
use crate::link::Link;
use crate::stream;

/// A table before it is read.
pub(crate) enum Table {
    Paths(Vec<PathBuf>),
    /// What makes a stream, perhaps by computing it.
    Stream(Py<PyAny>),
    Query(Query),
}

impl Table {
    /// A path, several, an object with `__arrow_c_stream__` or of another library that makes one, or nothing where there is a
    /// query.
    pub(crate) fn of(table: &Bound<'_, PyAny>, reading: &Reading) -> PyResult<Table> {
        if let Some(sql) = reading.query(table.is_none())? {
            let query = Query::new(sql, reading.database(table.py())?);
            return Ok(Table::Query(query.map_err(Failure::from)?));
        }
        let sources = table.py().import("vesica._sources")?;
        if sources.call_method1("is_stream", (table,))?.extract()? {
            reading.check_types()?;
            return Ok(Table::Stream(table.clone().unbind()));
        }
        let paths = table.extract().map(|path| vec![path]);
        paths.or(table.extract()).map(Table::Paths).map_err(|_| {
            let found = table.get_type();
            PyTypeError::new_err(format!(
                "a table is a path, several, or has __arrow_c_stream__; this is a {found}"
            ))
        })
    }

    /// Opens the table, without the interpreter's lock. This may take as long as the table takes to be computed.
    pub(crate) fn open(
        self,
        key: &KeySpec,
        values: &[ValueColumn],
        options: SourceOptions,
    ) -> Result<Source, Failure> {
        Ok(match self {
            Table::Paths(paths) => Source::open_all(&paths, &options)?,
            Table::Query(query) => Source::query(&query, &options)?,
            Table::Stream(table) => {
                let mut reader = Python::attach(|py| {
                    let sources = py.import("vesica._sources")?;
                    let readable = sources.call_method1("readable", (table,))?;
                    stream::reader_of(&readable)
                })?;
                import_batches("the table", &mut reader, key, values, &options)?
            }
        })
    }
}

/// The database with the driver that is installed as a Python package, if one is.
fn with_package(py: Python<'_>, database: AdbcDatabase) -> PyResult<AdbcDatabase> {
    let Some(name) = database.driver() else {
        return Ok(database);
    };
    let library = py
        .import("vesica._drivers")?
        .call_method1("library", (name,))?;
    Ok(match library.extract()? {
        Some(path) => database.with_library(path),
        None => database,
    })
}

/// Where rows go that do not go back to the program.
pub(crate) enum Output {
    File(PathBuf),
    Table(TargetTable),
}

impl Output {
    pub(crate) fn destination(&self) -> Destination<'_> {
        match self {
            Output::File(path) => Destination::File(path),
            Output::Table(table) => Destination::Table(table),
        }
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.destination().path()
    }
}

/// Which columns make the key, how a table is read, and the database.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    on: Vec<String>,
    /// In the place of `on`: the name of each, and its columns.
    identifiers: Vec<(String, Vec<String>)>,
    split: HashMap<String, String>,
    matched_by: Option<String>,
    columns: Vec<String>,
    normalize: HashMap<String, String>,
    null: Vec<String>,
    deny: Vec<String>,
    query: Option<String>,
    database: Option<String>,
    database_file: Option<PathBuf>,
    driver: Option<String>,
    output_table: Option<String>,
    output_table_mode: Option<String>,
    format: Option<String>,
    delimiter: Option<String>,
    header: bool,
    quote: Option<String>,
    escape: Option<String>,
    skip_initial_space: bool,
    skip_rows: u64,
    skip_footer: usize,
    sheet: Option<String>,
    encoding: Option<String>,
    memory: Option<String>,
}

impl Reading {
    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        let of_identifiers = self.identifiers.iter().flat_map(|(_, columns)| columns);
        let mut names = self.on.iter().chain(of_identifiers);
        if let Some(name) =
            (self.normalize.keys()).find(|name| !names.clone().any(|own| own == *name))
        {
            return Err(Failure::usage(format!(
                "column {name:?} is normalised but is not part of the key"
            )));
        }
        let column = |name: &String| -> Result<KeyColumn, vesica::tables::Error> {
            let profile = self.normalize.get(name).map(|profile| profile.parse());
            Ok(KeyColumn {
                name: name.clone(),
                profile: profile.transpose()?.unwrap_or(Profile::EXACT),
            })
        };
        let key = match self.identifiers.is_empty() {
            true if !self.split.is_empty() => {
                return Err(Failure::usage("split is for columns of identifiers"));
            }
            true => KeySpec::new(names.by_ref().map(column).collect::<Result<_, _>>()?)?,
            false => {
                let identifiers = self.identifiers.iter().map(|(name, columns)| {
                    let columns = columns.iter().map(column);
                    Ok((
                        name.clone(),
                        columns.collect::<Result<_, vesica::tables::Error>>()?,
                    ))
                });
                let key = identifiers.collect::<Result<_, vesica::tables::Error>>()?;
                let lists = self.split.iter();
                let lists: Vec<String> = lists.map(|(name, by)| format!("{name}={by}")).collect();
                KeySpec::any_of(key)?.with_lists(&lists)?
            }
        };
        Ok(key.with_nulls(self.null.clone()).with_denied(&self.deny)?)
    }

    /// The query whose result is the table, if there is one; `alone` says that no other table is given.
    fn query(&self, alone: bool) -> Result<Option<&str>, Failure> {
        let Some(sql) = &self.query else {
            let unused = self.output_table.is_none();
            let of_query = [
                ("database", self.database.is_some()),
                ("database_file", self.database_file.is_some()),
                ("driver", self.driver.is_some()),
            ];
            return match of_query.iter().find(|(_, given)| *given && unused) {
                Some((name, _)) => Err(Failure::usage(format!(
                    "{name} goes with a query or output_table"
                ))),
                None if alone => Err(Failure::usage("give a table or a query")),
                None => Ok(None),
            };
        };
        if !alone {
            return Err(Failure::usage("give either a table or a query"));
        }
        self.check_types()?;
        Ok(Some(sql))
    }

    /// The database of the query, and of the table that the result goes to.
    fn database(&self, py: Python<'_>) -> PyResult<AdbcDatabase> {
        if self.database.is_some() && self.database_file.is_some() {
            return Err(Failure::usage("give either database or database_file").into());
        }
        let (uri, file) = (self.database.as_deref(), self.database_file.as_deref());
        let database = adbc_database(uri, file, self.driver.as_deref());
        with_package(py, database.map_err(Failure::from)?)
    }

    /// Where the result goes, if it goes to this file or to a table of the database.
    pub(crate) fn output(&self, py: Python<'_>, file: Option<PathBuf>) -> PyResult<Option<Output>> {
        let name = match (&self.output_table, file) {
            (None, file) => return Ok(file.map(Output::File)),
            (Some(_), Some(_)) => {
                return Err(Failure::usage("give either output or output_table").into());
            }
            (Some(name), None) => name,
        };
        let mode = self.output_table_mode.as_deref().map(str::parse);
        let mode = named("output_table_mode", mode.transpose())?.unwrap_or_default();
        let target = TargetTable::new(name, mode, self.database(py)?);
        Ok(Some(Output::Table(target.map_err(Failure::from)?)))
    }

    /// Refuses what says how to read text where a table has types.
    fn check_types(&self) -> Result<(), Failure> {
        let has_lines = (self.skip_rows, self.skip_footer) != (0, 0);
        let csv = self.csv()? != CsvOptions::default() || has_lines || self.sheet.is_some();
        let text = self.format.is_some() || self.delimiter.is_some() || self.encoding.is_some();
        match csv || text {
            true => Err(Failure::usage(
                "format, delimiter, header, quote, escape, skip_initial_space, skip_rows, skip_footer, sheet and encoding are for tables in files",
            )),
            false => Ok(()),
        }
    }

    fn csv(&self) -> Result<CsvOptions, Failure> {
        let character = |name, text: &Option<String>| {
            let text = text.as_deref();
            named(name, text.map(parse_character).transpose())
        };
        Ok(CsvOptions {
            header: self.header,
            quote: character("quote", &self.quote)?,
            escape: character("escape", &self.escape)?,
            skip_initial_space: self.skip_initial_space,
        })
    }

    /// `more` has what these arguments do not determine.
    pub(crate) fn source(&self, more: SourceOptions) -> Result<SourceOptions, Failure> {
        let (format, encoding) = (self.format.as_deref(), self.encoding.as_deref());
        Ok(SourceOptions {
            format: format.map(str::parse::<Format>).transpose()?,
            delimiter: self.delimiter.as_deref().map(parse_delimiter).transpose()?,
            csv: self.csv()?,
            encoding: encoding.map(str::parse::<Encoding>).transpose()?,
            skip_rows: self.skip_rows,
            skip_footer: self.skip_footer,
            sheet: self.sheet.clone(),
            matched_by: self.matched_by.clone(),
            columns: self.columns.clone(),
            memory: self.memory()?,
            ..more
        })
    }

    /// The limit of memory in bytes: half of the machine's if none is given.
    pub(crate) fn memory(&self) -> Result<Option<u64>, Failure> {
        match &self.memory {
            Some(text) => Ok(Some(named("memory", parse_bytes(text))?)),
            None => Ok(half_of_the_machine()),
        }
    }
}

/// The arguments that name columns beside the key.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ColumnOptions {
    take_payload: bool,
    payload: Vec<String>,
    payload_width: Option<u32>,
    rows_per_key: Option<u32>,
    value: Vec<String>,
    value_scale: Vec<u8>,
    value_bound: Vec<String>,
    value_repeated: String,
    group: Option<String>,
    groups: Vec<String>,
    group_sizes: Option<String>,
    group_minimum: Option<String>,
}

/// The columns that go with the keys of a run.
pub(crate) struct Columns {
    pub(crate) labels: LabelExchange,
    pub(crate) payload: Option<PayloadColumn>,
    pub(crate) values: Vec<ValueColumn>,
    pub(crate) group: Option<GroupColumn>,
}

impl ColumnOptions {
    /// Whether they are a receiver's.
    pub(crate) fn has_groups(&self) -> bool {
        self.group.is_some()
    }

    fn group(&self) -> Result<Option<GroupColumn>, Failure> {
        let (sizes, minimum) = (self.group_sizes.as_deref(), self.group_minimum.as_deref());
        match &self.group {
            Some(name) => Ok(Some(GroupColumn::new(
                name,
                self.groups.clone(),
                sizes,
                minimum,
            )?)),
            None if sizes.is_some() || minimum.is_some() || !self.groups.is_empty() => Err(
                Failure::usage("groups, group_sizes and group_minimum go with group"),
            ),
            None => Ok(None),
        }
    }

    /// Those of a side with this role.
    pub(crate) fn of(&self, role: Role, terms: &Terms) -> Result<Columns, Failure> {
        let sums_repeated = match self.value_repeated.as_str() {
            "sum" => true,
            "refuse" => false,
            _ => return Err(Failure::usage("value_repeated: there are sum, refuse")),
        };
        let is_scaled = self.value_scale.iter().any(|scale| *scale > 0);
        let computes = is_scaled || !self.value_bound.is_empty() || !sums_repeated;
        let (reveal, is_named) = (terms.get(&REVEAL), !self.value.is_empty());
        if (is_named && reveal.is_matches()) || (computes && !is_named) {
            return Err(Failure::usage(
                "value, value_scale, value_bound and value_repeated are for numbers to compute with, which go with a size, a \
                 sum, an inner product or shares",
            ));
        }
        let (columns, takes) = (self.payload.clone(), self.take_payload);
        let room = LabelRoom {
            bytes: self.payload_width,
            rows: self.rows_per_key,
        };
        let (labels, payload) = payload_exchange(role, reveal, columns, takes, room)?;
        let (scales, bounds) = (&self.value_scale, &self.value_bound);
        Ok(Columns {
            labels,
            payload,
            values: value_columns(&self.value, scales, bounds, sums_repeated)?,
            group: self.group()?,
        })
    }
}

/// The account in this ledger, if there is one.
pub(crate) fn account(
    ledger: Option<&PathBuf>,
    rules: Option<&PathBuf>,
    answers: bool,
) -> Result<Option<Account>, Failure> {
    match ledger {
        None if rules.is_some() => Err(Failure::usage("rules go with a ledger")),
        None if answers => Err(Failure::usage("ledger_answers goes with a ledger")),
        None => Ok(None),
        Some(ledger) => Ok(Some(Account {
            rules: rules.cloned(),
            answers,
            ..Account::new(ledger)
        })),
    }
}

/// The arguments of a run that are not about its table.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    pub(crate) output: Option<PathBuf>,
    /// Options that set terms, by their names, as the command reads them.
    terms: HashMap<String, String>,
    rows: String,
    columns: ColumnOptions,
    protocol: String,
    offline: Option<String>,
    offline_store: Option<PathBuf>,
    attested: Option<String>,
    both: bool,
    align: bool,
    max_peer_items: String,
    max_peer_value_bound: Option<u64>,
    max_peer_values: u8,
    max_peer_groups: u16,
    epsilon: Option<String>,
    /// Of each number its name and its share, as the command reads them.
    epsilon_split: Vec<String>,
    pub(crate) clamp: bool,
    pub(crate) pad_to: Option<u64>,
    pub(crate) spine_file: Option<PathBuf>,
    ledger: Option<PathBuf>,
    ledger_answers: bool,
    rules: Option<PathBuf>,
    purpose: Option<String>,
    threads: Option<i64>,
    wait: Time,
    timeout: Time,
    deadline: Option<Time>,
    bandwidth: Option<String>,
    pub(crate) work_dir: Option<PathBuf>,
    pub(crate) allow_empty: bool,
}

impl Options {
    pub(crate) fn terms(&self) -> Result<Terms, Failure> {
        let mut terms = Terms::default();
        set_terms(&mut terms, &self.terms)?;
        if self.both {
            terms.set(&LEARNS, Learns::Both);
        }
        Ok(terms)
    }

    pub(crate) fn protocol(&self) -> Result<ProtocolRequest, Failure> {
        Ok(parse_protocol(&self.protocol, self.offline.as_deref())?)
    }

    pub(crate) fn peer_limits(&self) -> Result<PeerLimits, Failure> {
        Ok(PeerLimits {
            items: named("max_peer_items", parse_max_items(&self.max_peer_items))?,
            value_bound: self.max_peer_value_bound,
            values: self.max_peer_values,
            groups: self.max_peer_groups,
        })
    }

    /// The account that this side keeps, if it does.
    pub(crate) fn account(&self) -> Result<Option<Account>, Failure> {
        account(
            self.ledger.as_ref(),
            self.rules.as_ref(),
            self.ledger_answers,
        )
    }

    /// What this side wants the answer for; nothing if it does not say.
    pub(crate) fn purpose(&self) -> String {
        self.purpose.clone().unwrap_or_default()
    }

    pub(crate) fn noise(&self) -> Result<Option<NoiseRequest>, Failure> {
        Ok(noise_request(self.epsilon.as_deref(), &self.epsilon_split)?)
    }

    pub(crate) fn rows(&self) -> Result<Rows, Failure> {
        match (self.rows.parse()?, self.align) {
            (rows, false) => Ok(rows),
            (Rows::Matching, true) => Ok(Rows::Aligned),
            (_, true) => Err(Failure::usage("align: is for the rows that match")),
        }
    }

    /// The columns that go with the keys.
    pub(crate) fn columns(&self, role: Role) -> Result<Columns, Failure> {
        if self.columns.take_payload && self.rows()? == Rows::Rest {
            return Err(Failure::usage("take_payload is for rows that match"));
        }
        self.columns.of(role, &self.terms()?)
    }

    pub(crate) fn resources(&self, memory: Option<u64>) -> Result<Resources, Failure> {
        Ok(Resources {
            memory,
            threads: threads(self.threads)?,
            work_dir: self.work_dir.clone(),
            offline_store: self.offline_store.clone(),
            attested: self.attested.clone(),
        })
    }

    pub(crate) fn connect(&self, link: &Link, events: &Events) -> Result<ConnectOptions, Failure> {
        Ok(ConnectOptions {
            wait: self.wait.of("wait")?,
            timeout: self.timeout.of("timeout")?,
            deadline: deadline(self.deadline.as_ref())?,
            on_incident: OnIncident::new(events.incidents()),
            bandwidth: (self.bandwidth.as_deref())
                .map(|text| named("bandwidth", parse_bandwidth(text)))
                .transpose()?,
            ..link.options()
        })
    }
}

/// Sets terms by the names of their options, as the command reads them.
pub(crate) fn set_terms(terms: &mut Terms, given: &HashMap<String, String>) -> Result<(), Failure> {
    given
        .iter()
        .try_for_each(|(name, text)| named(name, terms.set_option(name, text)))
}

/// Threads to compute on; `None` is as many as this machine runs at once.
pub(crate) fn threads(number: Option<i64>) -> Result<Option<NonZeroUsize>, Failure> {
    let threads = |number| {
        let number = usize::try_from(number).ok().and_then(NonZeroUsize::new);
        number.ok_or_else(|| Failure::usage("threads: at least one"))
    };
    number.map(threads).transpose()
}

/// The fingerprint that an argument has.
pub(crate) fn fingerprint(name: &str, text: &str) -> Result<Fingerprint, Failure> {
    text.parse().map_err(|e: FingerprintError| {
        Failure::usage(format!("{name}: {e}")).and(Some(&e.remedy_of(text)))
    })
}

/// A time, as an argument has it.
#[derive(FromPyObject)]
pub(crate) enum Time {
    Seconds(f64),
    /// As the command reads it.
    Text(String),
    /// A `datetime.timedelta`.
    Delta {
        days: f64,
        seconds: f64,
        microseconds: f64,
    },
}

impl Time {
    /// The time that the argument of this name has.
    pub(crate) fn of(&self, name: &str) -> Result<Duration, Failure> {
        let text = match self {
            Time::Seconds(seconds) => seconds.to_string(),
            Time::Text(text) => text.clone(),
            Time::Delta {
                days,
                seconds,
                microseconds,
            } => (days * 86_400.0 + seconds + microseconds / 1e6).to_string(),
        };
        named(name, parse_duration(&text))
    }
}

/// The time of `deadline`, if there is one.
pub(crate) fn deadline(given: Option<&Time>) -> Result<Option<Duration>, Failure> {
    given.map(|time| time.of("deadline")).transpose()
}

/// The seconds that the argument of this name has.
#[pyfunction]
pub(crate) fn seconds(name: &str, time: Time) -> Result<f64, Failure> {
    Ok(time.of(name)?.as_secs_f64())
}

/// The value of an argument, or what is wrong with it, with the argument's name.
pub(crate) fn named<T>(name: &str, value: Result<T, impl Display>) -> Result<T, Failure> {
    value.map_err(|e| Failure::usage(format!("{name}: {e}")))
}
