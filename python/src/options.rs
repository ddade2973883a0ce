//! The arguments of a run, as the package hands them over.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use vesica::{
    ConnectOptions, Favour, Format, Handover, KeyColumn, KeySpec, OnRefused, Profile, Resources,
    Revealed, Role, Rows, Security, Source, SourceOptions, Terms, ValueColumn, half_of_the_machine,
    handover, import_batches, parse_bytes, parse_protocol, parse_size,
};

use crate::errors::Failure;
use crate::events::Events;
use crate::link::Link;
use crate::stream;

/// A table before it is read.
pub(crate) enum Table {
    Path(PathBuf),
    Stream(arrow_array::ffi_stream::RecordBatchStreamReader),
}

impl Table {
    /// A path, or an object with `__arrow_c_stream__`.
    pub(crate) fn of(table: &Bound<'_, PyAny>) -> PyResult<Table> {
        if table.hasattr("__arrow_c_stream__")? {
            return Ok(Table::Stream(stream::reader_of(table)?));
        }
        table.extract().map(Table::Path).map_err(|_| {
            let found = table.get_type();
            PyTypeError::new_err(format!(
                "a table is a path or has __arrow_c_stream__; this is a {found}"
            ))
        })
    }

    pub(crate) fn open(
        self,
        key: &KeySpec,
        value: Option<&ValueColumn>,
        options: SourceOptions,
    ) -> Result<Source, Failure> {
        Ok(match self {
            Table::Path(path) => Source::open(&path, options)?,
            Table::Stream(mut reader) => {
                import_batches("the table", &mut reader, key, value, &options)?
            }
        })
    }
}

/// Which columns make the key, and how a table without types is read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    on: Vec<String>,
    normalize: HashMap<String, String>,
    format: Option<String>,
    delimiter: Option<String>,
    memory: Option<String>,
}

impl Reading {
    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        if let Some(name) = self.normalize.keys().find(|name| !self.on.contains(name)) {
            return Err(Failure::usage(format!(
                "column {name:?} is normalised but is not part of the key"
            )));
        }
        let columns = self.on.iter().map(|name| {
            let profile = self.normalize.get(name).map(|profile| profile.parse());
            Ok(KeyColumn {
                name: name.clone(),
                profile: profile.transpose()?.unwrap_or(Profile::Exact),
            })
        });
        Ok(KeySpec::new(
            columns.collect::<Result<_, vesica::TableError>>()?,
        )?)
    }

    /// `more` has what these arguments do not determine.
    pub(crate) fn source(&self, more: SourceOptions) -> Result<SourceOptions, Failure> {
        let delimiter = match self.delimiter.as_deref() {
            None => None,
            Some(text) => match text.as_bytes() {
                [byte] => Some(*byte),
                _ => return Err(Failure::usage("a delimiter is one ASCII character")),
            },
        };
        Ok(SourceOptions {
            format: self
                .format
                .as_deref()
                .map(str::parse::<Format>)
                .transpose()?,
            delimiter,
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

/// The arguments of a run that are not about its table.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    pub(crate) output: Option<PathBuf>,
    reveal: String,
    rows: String,
    take_values: bool,
    value: Vec<String>,
    value_width: Option<u32>,
    value_scale: u8,
    value_bound: Option<u64>,
    value_repeated: String,
    protocol: String,
    offline: Option<String>,
    offline_store: Option<PathBuf>,
    security: String,
    both: bool,
    align: bool,
    min_size: Option<String>,
    favour: String,
    max_peer_items: String,
    lambda_: u32,
    threads: Option<usize>,
    wait: f64,
    timeout: f64,
    pub(crate) work_dir: Option<PathBuf>,
    pub(crate) allow_empty: bool,
}

impl Options {
    pub(crate) fn terms(&self) -> Result<Terms, Failure> {
        let Revealed { reveal, min_size } = named("reveal", self.reveal.parse())?;
        let least = self.min_size.as_deref().map(parse_size).transpose();
        Ok(Terms {
            protocol: parse_protocol(&self.protocol, self.offline.as_deref())?,
            security: match self.security.as_str() {
                "malicious" => Security::Malicious,
                "semi-honest" => Security::SemiHonest,
                _ => return Err(Failure::usage("security: there are malicious, semi-honest")),
            },
            lambda: self.lambda_,
            max_peer_items: named("max_peer_items", parse_size(&self.max_peer_items))?,
            reveal,
            min_size: named("min_size", least)?.unwrap_or(0).max(min_size),
            favour: match self.favour.as_str() {
                "time" => Favour::Time,
                "traffic" => Favour::Traffic,
                _ => return Err(Failure::usage("favour: there are time, traffic")),
            },
            both: self.both,
        })
    }

    pub(crate) fn rows(&self) -> Result<Rows, Failure> {
        match (self.rows.parse()?, self.align) {
            (rows, false) => Ok(rows),
            (Rows::Matching, true) => Ok(Rows::Aligned),
            (_, true) => Err(Failure::usage("align: is for the rows that match")),
        }
    }

    /// What this side does about columns that are handed over.
    pub(crate) fn handover(&self, role: Role) -> Result<Handover, Failure> {
        let (reveal, columns) = (self.terms()?.reveal, self.value.clone());
        Ok(handover(
            role,
            reveal,
            columns,
            self.take_values,
            self.value_width,
        )?)
    }

    /// The column to compute with, if there is one.
    pub(crate) fn value(&self, handover: &Handover) -> Result<Option<ValueColumn>, Failure> {
        let sums_repeated = match self.value_repeated.as_str() {
            "sum" => true,
            "refuse" => false,
            _ => return Err(Failure::usage("value_repeated: there are sum, refuse")),
        };
        let name = match &self.value[..] {
            _ if !handover.is_nothing() => return Ok(None),
            [] => return Ok(None),
            [name] => name,
            _ => return Err(Failure::usage("value: one column to compute with")),
        };
        let column = ValueColumn::new(name, self.value_scale, self.value_bound, sums_repeated);
        Ok(Some(column?))
    }

    pub(crate) fn resources(&self, memory: Option<u64>) -> Result<Resources, Failure> {
        let threads = |number| {
            NonZeroUsize::new(number).ok_or_else(|| Failure::usage("threads: at least one"))
        };
        Ok(Resources {
            memory,
            threads: self.threads.map(threads).transpose()?,
            work_dir: self.work_dir.clone(),
            offline_store: self.offline_store.clone(),
        })
    }

    pub(crate) fn connect(&self, link: &Link, events: &Events) -> Result<ConnectOptions, Failure> {
        Ok(ConnectOptions {
            wait: seconds("wait", self.wait)?,
            timeout: seconds("timeout", self.timeout)?,
            on_refused: OnRefused::new(events.refusals()),
            interrupt: link.interrupt.child(),
            ..ConnectOptions::default()
        })
    }
}

fn seconds(name: &str, seconds: f64) -> Result<Duration, Failure> {
    match seconds > 0.0 && seconds <= 1e6 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(Failure::usage(format!(
            "{name}: give a number of seconds, more than 0 and at most 1000000"
        ))),
    }
}

/// The value of an argument, or what is wrong with it, with the argument's name.
fn named<T>(name: &str, value: Result<T, vesica::Error>) -> Result<T, Failure> {
    value.map_err(|e| Failure::usage(format!("{name}: {e}")))
}
