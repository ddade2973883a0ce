//! One side of a run.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use vesica::session::rfc3339;
use vesica::tables::Matched;
use vesica::{
    Fingerprint, Gets, Intent, Interrupt, KeySpec, Outcome, Party, Report, Role, Rows, Source,
    SourceOptions, no_match_hint, prepare_work_dir, select_rows,
};

use crate::errors::{Failure, InPython};
use crate::events::Events;
use crate::identity::KeyPair;
use crate::link::Link;
use crate::options::{Options, Output, Reading, Table};
use crate::stream::Batches;
use crate::supervise::{supervise, unless_asked_to_end};

/// A report as JSON, the rows that match and those of the result as 8 bytes each, and the table of the result's. The second
/// are `None` where they are the first.
pub(crate) type Rowed<'py> = (
    String,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
    Option<Batches>,
);

/// What a run leaves.
pub(crate) struct Finished {
    /// What a work directory keeps of the run is there until the rows are the caller's.
    outcome: Outcome,
    rows: Option<RowNumbers>,
    table: Option<Batches>,
}

/// Numbers of rows, counted from 0, as 8 bytes each in the machine's order.
pub(crate) struct RowNumbers {
    matching: Vec<u8>,
    /// Those of the result, where it has others.
    result: Option<Vec<u8>>,
}

impl RowNumbers {
    /// Those of a result with these rows of the table.
    pub(crate) fn of(matched: Matched<'_>, rows: Rows) -> Result<RowNumbers, Failure> {
        let (all, matching) = (matched.rows(), matched.rows_in_order()?);
        let result = match rows {
            Rows::Rest => Some(row_bytes((0..all.rows()).filter(|row| !all.contains(*row)))),
            Rows::All => Some(row_bytes(0..all.rows())),
            _ => None,
        };
        Ok(RowNumbers {
            matching: row_bytes(matching.into_iter()),
            result,
        })
    }

    /// As objects of Python.
    pub(crate) fn into_bytes(
        self,
        py: Python<'_>,
    ) -> (Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>) {
        let result = self.result.map(|rows| PyBytes::new(py, &rows));
        (PyBytes::new(py, &self.matching), result)
    }
}

/// The report as the command writes it of a run that succeeds.
#[derive(serde::Serialize)]
struct Written<'a> {
    role: Role,
    version: &'static str,
    started: String,
    fingerprint: Fingerprint,
    exit_code: u8,
    error: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

/// Runs one side, `receiver` or `sender`, and returns what a run leaves.
///
/// `reading` and `options` are dictionaries with every argument. `listener` hears of warnings and progress.
#[pyfunction]
pub(crate) fn run<'py>(
    py: Python<'py>,
    role: &str,
    table: &Bound<'py, PyAny>,
    reading: Reading,
    options: Options,
    link: &Link,
    listener: &Bound<'py, PyAny>,
) -> PyResult<Rowed<'py>> {
    let role = role_of(role)?;
    let started = rfc3339(SystemTime::now());
    let events = Events::default();
    let output = reading.output(py, options.output.clone())?;
    let job = Job::new(role, &reading, &options, output, link, &events);
    let intent = Intent::Run(role);
    let job = told(py, intent, || party_that_fails(link), job)?;
    let interrupt = job.party.connect.interrupt.clone();
    let table = Table::of(table, &reading).map_err(Failure::from);
    let table = told(py, intent, || job.party.clone(), table)?;
    events.stage("reading");
    let heard = events.clone();
    let tell = || events.tell(listener);
    let outcome = supervise(py, &interrupt, tell, move || job.run(table, heard))?;
    if let Ok(finished) = &outcome {
        finished.hint(&events);
    }
    if let Err(error) = tell() {
        unless_asked_to_end(py, error)?;
    }
    outcome?.into_parts(py, role, &link.identity, started)
}

/// The role of this name.
pub(crate) fn role_of(name: &str) -> Result<Role, Failure> {
    match name {
        "receiver" => Ok(Role::Receiver),
        "sender" => Ok(Role::Sender),
        _ => Err(Failure::usage("role: a side is the receiver or the sender")),
    }
}

impl Finished {
    /// What this side gets of a run over this table.
    pub(crate) fn of(
        outcome: Outcome,
        gets: Gets,
        source: &Source,
        is_written: bool,
        interrupt: &Interrupt,
        events: &Events,
    ) -> Result<Finished, Failure> {
        if gets != Gets::Rows {
            return Ok(Finished {
                outcome,
                rows: None,
                table: None,
            });
        }
        // Text has no types.
        let table = match is_written || source.format().is_text() {
            true => None,
            false => {
                events.stage("writing");
                let (schema, batches) = select_rows(source, outcome.matched())?;
                interrupt.check().map_err(vesica::session::Error::from)?;
                Some(Batches { schema, batches })
            }
        };
        Ok(Finished {
            rows: Some(RowNumbers::of(outcome.matched(), source.rows())?),
            outcome,
            table,
        })
    }

    /// Warns of what may be wrong where nothing matches.
    pub(crate) fn hint(&self, events: &Events) {
        if let Some(hint) = no_match_hint(self.outcome.report()) {
            events.warn(hint.spelled(&InPython));
        }
    }

    /// What Python gets.
    pub(crate) fn into_parts<'py>(
        self,
        py: Python<'py>,
        role: Role,
        identity: &KeyPair,
        started: String,
    ) -> PyResult<Rowed<'py>> {
        let report = self.outcome.finish().map_err(Failure::from)?;
        let json = serde_json::to_string(&Written {
            role,
            version: env!("CARGO_PKG_VERSION"),
            started,
            fingerprint: identity.key.fingerprint(),
            exit_code: 0,
            error: None,
            report: &report,
        })
        .map_err(|e| Failure::usage(format!("the report is not JSON: {e}")))?;
        let (matching, result) = self.rows.map(|rows| rows.into_bytes(py)).unzip();
        Ok((json, matching, result.flatten(), self.table))
    }
}

/// The side that these arguments describe.
pub(crate) fn party(
    role: Role,
    reading: &Reading,
    options: &Options,
    link: &Link,
    events: &Events,
) -> Result<Party, Failure> {
    let columns = options.columns(role)?;
    let party = Party {
        connect: options.connect(link, events)?,
        protocol: options.protocol()?,
        terms: options.terms()?,
        peer_limits: options.peer_limits()?,
        resources: options.resources(reading.memory()?)?,
        values: columns.values,
        labels: columns.labels,
        payload: columns.payload,
        group: columns.group,
        noise: options.noise()?,
        clamp: options.clamp,
        pad_to: options.pad_to,
        spine_file: options.spine_file.clone(),
        account: options.account()?,
        purpose: options.purpose(),
        allow_empty: options.allow_empty,
        ..Party::new(&link.identity.key, link.peer, link.endpoint())
    };
    party.check(role, &reading.key()?)?;
    Ok(party)
}

/// A side that can do no more than say that it cannot take part.
pub(crate) fn party_that_fails(link: &Link) -> Party {
    Party {
        connect: link.options(),
        ..Party::new(&link.identity.key, link.peer, link.endpoint())
    }
}

/// What was tried before there is a run. If it failed, the peer hears that this side cannot take part, if it may know.
pub(crate) fn told<T>(
    py: Python<'_>,
    intent: Intent,
    party: impl FnOnce() -> Party,
    tried: Result<T, Failure>,
) -> PyResult<T> {
    let failure = match tried {
        Ok(done) => return Ok(done),
        Err(failure) => failure,
    };
    if let Some(problem) = failure.problem() {
        let party = party();
        let interrupt = party.connect.interrupt.clone();
        let tell = move || {
            party.tell_problem(intent, problem);
            Ok(())
        };
        supervise(py, &interrupt, || Ok(()), tell)??;
    }
    Err(failure.into())
}

/// A table that a run opens: what is opened, or why that has failed.
#[derive(Default)]
pub(crate) struct Opening {
    source: OnceLock<Source>,
    failure: Mutex<Option<Failure>>,
}

impl Opening {
    /// Keeps what has been opened.
    pub(crate) fn keep(&self, opened: Result<Source, Failure>) -> Result<&Source, vesica::Error> {
        match opened {
            Ok(source) => Ok(self.source.get_or_init(|| source)),
            Err(failure) => Err(self.fail(failure)),
        }
    }

    /// Keeps why something has failed that a run has called; what to tell the run.
    pub(crate) fn fail(&self, failure: Failure) -> vesica::Error {
        let class = failure.class();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        vesica::Error::Unopened { class }
    }

    /// Why a run has failed.
    pub(crate) fn explain(&self, error: vesica::Error) -> Failure {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().unwrap_or_else(|| error.into())
    }
}

/// Numbers of rows as 8 bytes each in the machine's order.
pub(crate) fn row_bytes(rows: impl Iterator<Item = u64>) -> Vec<u8> {
    rows.flat_map(|row| (row as i64).to_ne_bytes()).collect()
}

/// A run before it has a table.
struct Job {
    role: Role,
    gets: Gets,
    key: KeySpec,
    source: SourceOptions,
    output: Option<Output>,
    party: Party,
}

impl Job {
    fn new(
        role: Role,
        reading: &Reading,
        options: &Options,
        output: Option<Output>,
        link: &Link,
        events: &Events,
    ) -> Result<Job, Failure> {
        let party = party(role, reading, options, link, events)?;
        let key = reading.key()?;
        let gets = Gets::of(role, &party.terms);
        let file = output.as_ref().and_then(Output::file);
        match (gets, output.is_some()) {
            (Gets::Nothing, true) => {
                return Err(Failure::usage(
                    "this side gets no rows or shares for an output",
                ));
            }
            (Gets::Shares, _) if file.is_none() => {
                return Err(Failure::usage("shares go to a file: give an output"));
            }
            (Gets::PeerRows, _) if file.is_none() => {
                return Err(Failure::usage(
                    "the peer's rows go to a file: give an output",
                ));
            }
            (Gets::Shares | Gets::PeerRows | Gets::Nothing, _)
                if options.rows()? != Rows::Matching =>
            {
                return Err(Failure::usage("rows, align: this side gets no rows"));
            }
            _ => {}
        }
        let source = reading.source(SourceOptions {
            passes: party.passes(role),
            rows: options.rows()?,
            allow_no_rows: options.allow_empty,
            scratch: options.work_dir.clone(),
            ..SourceOptions::default()
        })?;
        Ok(Job {
            role,
            gets,
            key,
            source,
            output,
            party,
        })
    }

    fn run(self, table: Table, mut events: Events) -> Result<Finished, Failure> {
        let party = &self.party;
        let opening = Opening::default();
        let open = || {
            if let Some(work_dir) = &party.resources.work_dir {
                prepare_work_dir(work_dir)?;
            }
            opening.keep(table.open(&self.key, &party.values, self.source.clone()))
        };
        let output = self.output.as_ref().map(Output::destination);
        let ran = party.run(self.role, open, &self.key, output, &mut events);
        let outcome = ran.map_err(|error| {
            let resume = party.resume_hint(&error);
            opening.explain(error).and(resume.as_ref())
        })?;
        let source = opening.source.get();
        let source = source.ok_or_else(|| Failure::usage("a run without a table"))?;
        let interrupt = &party.connect.interrupt;
        let is_written = output.is_some();
        Finished::of(outcome, self.gets, source, is_written, interrupt, &events)
    }
}
