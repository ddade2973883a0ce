//! One side of a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use vesica::{
    Fingerprint, Format, KeySpec, Party, Passes, Received, Report, Reveal, Role, Rows, Source,
    SourceOptions, no_match_hint, prepare_work_dir, receive_rows, receive_shares, receive_value,
    rfc3339, select_rows, send_rows, send_shares, send_table,
};

use crate::errors::{Failure, in_python};
use crate::events::Events;
use crate::identity::KeyPair;
use crate::link::Link;
use crate::options::{Options, Reading, Table};
use crate::stream::Batches;
use crate::supervise::{supervise, unless_asked_to_end};

/// What a run leaves.
struct Finished {
    run: Run,
    /// The matching rows, counted from 0, as 8 bytes each in the machine's order.
    rows: Option<Vec<u8>>,
    table: Option<Batches>,
}

/// A run that is over.
enum Run {
    /// A side that gets rows. What a work directory keeps of the run is there until the rows are the caller's.
    Received(Box<Received>),
    Other(Box<Report>),
}

impl Run {
    fn report(&self) -> &Report {
        match self {
            Run::Received(received) => received.report(),
            Run::Other(report) => report,
        }
    }

    fn finish(self) -> Result<Report, Failure> {
        match self {
            Run::Received(received) => Ok(received.finish()?),
            Run::Other(report) => Ok(*report),
        }
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

/// What a side gets of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gets {
    /// Its matching rows.
    Rows,
    /// A file of shares.
    Shares,
    /// A value, or nothing.
    Report,
}

impl Gets {
    fn of(role: Role, reveal: Reveal, both: bool) -> Gets {
        match reveal {
            Reveal::Shares => Gets::Shares,
            Reveal::Matches | Reveal::ThresholdMatches if both || role == Role::Receiver => {
                Gets::Rows
            }
            _ => Gets::Report,
        }
    }
}

/// Runs one side, `receiver` or `sender`, and returns the report as JSON, the matching rows as 8 bytes each, and
/// the table of those rows.
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
) -> PyResult<(String, Option<Bound<'py, PyBytes>>, Option<Batches>)> {
    let role = match role {
        "receiver" => Role::Receiver,
        _ => Role::Sender,
    };
    let started = rfc3339(SystemTime::now());
    let events = Events::default();
    let job = Job::new(role, &reading, &options, link, &events)?;
    let interrupt = job.connect.interrupt.clone();
    let table = Table::of(table, &reading)?;
    if let Some(output) = &job.output {
        table.check_output(output, &reading, &link.identity)?;
    }
    events.stage("reading");
    let (endpoint, heard) = (link.endpoint(), events.clone());
    let tell = || events.tell(listener);
    let outcome = supervise(py, &interrupt, tell, move || {
        job.run(table, endpoint, heard)
    })?;
    let finished = outcome.as_ref().ok();
    if let Some(hint) = finished.and_then(|finished| no_match_hint(finished.run.report())) {
        events.warn(in_python(hint));
    }
    if let Err(error) = tell() {
        unless_asked_to_end(py, error)?;
    }
    let Finished { run, rows, table } = outcome?;
    let report = run.finish()?;
    let json = serde_json::to_string(&Written {
        role,
        version: env!("CARGO_PKG_VERSION"),
        started,
        fingerprint: link.identity.key.fingerprint(),
        exit_code: 0,
        error: None,
        report: &report,
    })
    .map_err(|e| Failure::usage(format!("the report is not JSON: {e}")))?;
    let rows = rows.map(|rows| PyBytes::new(py, &rows));
    Ok((json, rows, table))
}

/// A run before it has a table.
struct Job {
    role: Role,
    gets: Gets,
    key: KeySpec,
    source: SourceOptions,
    output: Option<PathBuf>,
    identity: Arc<KeyPair>,
    peer: Fingerprint,
    connect: vesica::ConnectOptions,
    terms: vesica::Terms,
    resources: vesica::Resources,
    value: Option<vesica::ValueColumn>,
    handover: vesica::Handover,
    allow_empty: bool,
}

impl Job {
    fn new(
        role: Role,
        reading: &Reading,
        options: &Options,
        link: &Link,
        events: &Events,
    ) -> Result<Job, Failure> {
        let handover = options.handover(role)?;
        let (terms, value) = (options.terms()?, options.value(&handover)?);
        terms.check(value.as_ref())?;
        let gets = Gets::of(role, terms.reveal, terms.both);
        match (gets, &options.output) {
            (Gets::Report, Some(_)) => {
                return Err(Failure::usage(
                    "this side gets no rows or shares for an output",
                ));
            }
            (Gets::Shares, None) => {
                return Err(Failure::usage("shares go to a file: give an output"));
            }
            (Gets::Shares | Gets::Report, _) if options.rows()? != Rows::Matching => {
                return Err(Failure::usage("rows, align: this side gets no rows"));
            }
            _ => {}
        }
        let source = reading.source(SourceOptions {
            passes: match gets {
                Gets::Rows => Passes::Two,
                Gets::Shares | Gets::Report if handover.is_nothing() => Passes::One,
                Gets::Shares | Gets::Report => Passes::Two,
            },
            rows: options.rows()?,
            allow_no_rows: options.allow_empty,
            scratch: options.work_dir.clone(),
            ..SourceOptions::default()
        })?;
        Ok(Job {
            role,
            gets,
            key: reading.key()?,
            source,
            output: options.output.clone(),
            identity: Arc::clone(&link.identity),
            peer: link.peer,
            connect: options.connect(link, events)?,
            terms,
            resources: options.resources(reading.memory()?)?,
            value,
            handover,
            allow_empty: options.allow_empty,
        })
    }

    fn run(
        self,
        table: Table,
        endpoint: vesica::Endpoint,
        mut events: Events,
    ) -> Result<Finished, Failure> {
        let party = Party {
            identity: &self.identity.key,
            peer: self.peer,
            endpoint,
            connect: self.connect,
            terms: self.terms,
            resources: self.resources,
            value: self.value,
            handover: self.handover,
            allow_empty: self.allow_empty,
        };
        let open = || {
            if let Some(work_dir) = &party.resources.work_dir {
                prepare_work_dir(work_dir)?;
            }
            table.open(&self.key, party.value.as_ref(), self.source)
        };
        let source = open().inspect_err(|failure: &Failure| {
            if let Some(problem) = failure.problem() {
                party.tell_problem(problem);
            }
        })?;
        let (key, output, observer) = (&self.key, self.output, &mut events);
        let report = match (self.gets, self.role, output) {
            (Gets::Rows, role, output) => {
                return rows(&party, role, &source, key, output.as_deref(), events);
            }
            (Gets::Shares, Role::Receiver, Some(output)) => {
                receive_shares(&party, &source, key, &output, observer)?
            }
            (Gets::Shares, Role::Sender, Some(output)) => {
                send_shares(&party, &source, key, &output, observer)?
            }
            (_, Role::Receiver, _) => receive_value(&party, &source, key, observer)?,
            (_, Role::Sender, _) => send_table(&party, &source, key, observer)?,
        };
        Ok(Finished {
            run: Run::Other(Box::new(report)),
            rows: None,
            table: None,
        })
    }
}

/// The run of a side that gets its matching rows.
fn rows(
    party: &Party<'_>,
    role: Role,
    source: &Source,
    key: &KeySpec,
    output: Option<&Path>,
    mut events: Events,
) -> Result<Finished, Failure> {
    let received = match role {
        Role::Receiver => receive_rows(party, source, key, output, &mut events)?,
        Role::Sender => send_rows(party, source, key, output, &mut events)?,
    };
    let table = match output {
        Some(_) => None,
        // Text has no types.
        None if matches!(source.format(), Format::Csv | Format::Jsonl) => None,
        None => {
            events.stage("writing");
            let (schema, batches) = select_rows(source, received.matched())?;
            let interrupt = &party.connect.interrupt;
            interrupt.check().map_err(vesica::SessionError::from)?;
            Some(Batches { schema, batches })
        }
    };
    let rows = received.matched().rows_in_order()?;
    let rows = rows.iter().flat_map(|row| (*row as i64).to_ne_bytes());
    Ok(Finished {
        rows: Some(rows.collect()),
        run: Run::Received(Box::new(received)),
        table,
    })
}
