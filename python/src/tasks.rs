//! Jobs whose buckets are tasks of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow_array::Int32Array;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;
use vesica::options::{parse_address, parse_bytes, parse_peer_address};
use vesica::session::{Attempt, OnIncident};
use vesica::tables::Passes;
use vesica::{
    ConnectOptions, Endpoint, Intent, Interrupt, NoProgress, Observer, Party, RemoteKeys,
    Resources, SourceOptions, TaskEndpoint, Tasks, collect, select_rows,
};
use vesica_kernels::memory::KeepFreed;

use crate::digests::{digests_of, table_of, usable_of};
use crate::errors::Failure;
use crate::events::Events;
use crate::link::Link;
use crate::options::{Options, Output, Reading, Table, Time, account, named, threads};
use crate::run::{Opening, RowNumbers, party, party_that_fails, role_of, told};
use crate::stream::Batches;
use crate::supervise::supervise;

/// So long the memory of a task is kept for the next one of this process.
const BETWEEN_TASKS: Duration = Duration::from_secs(5);

/// What a task may take, and how often and until when buckets may be tried.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Limits {
    job: PathBuf,
    task_memory: String,
    attempts: u32,
    valid_for: Time,
}

impl Limits {
    fn tasks(&self) -> Result<Tasks, Failure> {
        if !(1..=16).contains(&self.attempts) {
            return Err(Failure::usage("attempts: from 1 to 16"));
        }
        Ok(Tasks {
            memory: named("task_memory", parse_bytes(&self.task_memory))?,
            attempts: self.attempts,
            valid_for: self.valid_for.of("valid_for")?,
        })
    }
}

/// How long a task or a driver waits, and who hears of what.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Waiting {
    wait: Time,
    timeout: Time,
}

impl Waiting {
    fn options(&self, of: ConnectOptions, events: &Events) -> Result<ConnectOptions, Failure> {
        Ok(ConnectOptions {
            wait: self.wait.of("wait")?,
            timeout: self.timeout.of("timeout")?,
            on_incident: OnIncident::new(events.incidents()),
            ..of
        })
    }
}

/// Agrees on a job with the peer's driver, and cuts the table up in the job's directory.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python gathers them")]
pub(crate) fn split(
    py: Python<'_>,
    role: &str,
    table: &Bound<'_, PyAny>,
    reading: Reading,
    options: Options,
    limits: Limits,
    link: &Link,
    listener: &Bound<'_, PyAny>,
) -> PyResult<SplitJob> {
    let (role, events) = (role_of(role)?, Events::default());
    let ready = || -> Result<_, Failure> {
        let source = reading.source(SourceOptions {
            passes: Passes::One,
            allow_no_rows: options.allow_empty,
            ..SourceOptions::default()
        })?;
        let party = party(role, &reading, &options, link, &events)?;
        Ok((party, reading.key()?, source, limits.tasks()?))
    };
    let intent = Intent::Split(role);
    let (party, key, source, tasks) = told(py, intent, || party_that_fails(link), ready())?;
    let table = Table::of(table, &reading).map_err(Failure::from);
    let table = told(py, intent, || party.clone(), table)?;
    events.stage("reading");
    let (interrupt, mut heard) = (party.connect.interrupt.clone(), events.clone());
    let directory = limits.job;
    let job = supervise(
        py,
        &interrupt,
        || events.tell(listener),
        move || {
            let opening = Opening::default();
            let open = || opening.keep(table.open(&key, &party.values, source));
            let job = party.split(role, open, &key, &directory, tasks, &mut heard);
            job.map_err(|error| opening.explain(error))
        },
    )??;
    events.tell(listener)?;
    Ok(SplitJob(Arc::new(job)))
}

/// Does as `split` does for a table that is on other machines. Two functions are called without arguments on another
/// thread: `count` returns the number of its distinct keys, while the peer's driver is met, and `cut` the hashes of the
/// buckets, once there is a draft of the job.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python gathers them")]
pub(crate) fn split_elsewhere(
    py: Python<'_>,
    role: &str,
    count: Py<PyAny>,
    cut: Py<PyAny>,
    reading: Reading,
    options: Options,
    limits: Limits,
    link: &Link,
    listener: &Bound<'_, PyAny>,
) -> PyResult<SplitJob> {
    let (role, events) = (role_of(role)?, Events::default());
    let ready = || -> Result<_, Failure> {
        let party = party(role, &reading, &options, link, &events)?;
        Ok((party, reading.key()?, limits.tasks()?))
    };
    let intent = Intent::Split(role);
    let (party, key, tasks) = told(py, intent, || party_that_fails(link), ready())?;
    let (interrupt, mut heard) = (party.connect.interrupt.clone(), events.clone());
    let directory = limits.job;
    let job = supervise(
        py,
        &interrupt,
        || events.tell(listener),
        move || {
            let opening = Opening::default();
            let count = || {
                let items = Python::attach(|py| count.call0(py)?.extract(py));
                items.map_err(|error: PyErr| opening.fail(error.into()))
            };
            let cut = |_: &vesica::SplitJob| {
                let hashes = Python::attach(|py| cut.call0(py)?.extract(py));
                hashes.map_err(|error: PyErr| opening.fail(error.into()))
            };
            let table = RemoteKeys { count, cut };
            let job = party.split_elsewhere(role, table, &key, &directory, tasks, &mut heard);
            job.map_err(|error| opening.explain(error))
        },
    )??;
    events.tell(listener)?;
    Ok(SplitJob(Arc::new(job)))
}

/// Meets the peer's driver between tasks.
fn drive<T: Send + 'static>(
    py: Python<'_>,
    link: &Link,
    waiting: &Waiting,
    listener: &Bound<'_, PyAny>,
    job: &Arc<vesica::SplitJob>,
    what: impl FnOnce(&Party, &vesica::SplitJob, &mut dyn Observer) -> Result<T, vesica::Error>
    + Send
    + 'static,
) -> PyResult<T> {
    let events = Events::default();
    let options = link.options();
    let interrupt = options.interrupt.clone();
    let party = Party {
        connect: waiting.options(options, &events)?,
        ..Party::new(&link.identity.key, link.peer, link.endpoint())
    };
    let (job, mut heard) = (Arc::clone(job), events.clone());
    let each = || events.tell(listener);
    let done = supervise(py, &interrupt, each, move || {
        Ok(what(&party, &job, &mut heard)?)
    })?;
    Ok(done?)
}

/// A report as JSON.
fn json(report: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(report);
    json.map_err(|e| Failure::usage(format!("the report is not JSON: {e}")))
}

/// A job of one side in its directory.
#[pyclass(frozen, module = "vesica._vesica")]
pub(crate) struct SplitJob(Arc<vesica::SplitJob>);

/// The rows of a table that match, those of a result where these are others, and the table of the result if it is in memory.
type Collected<'py> = (
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
    Option<Batches>,
);

#[pymethods]
impl SplitJob {
    /// The job that a directory has.
    #[staticmethod]
    fn open(directory: PathBuf) -> Result<SplitJob, Failure> {
        Ok(SplitJob(Arc::new(vesica::SplitJob::open(&directory)?)))
    }

    /// A job whose buckets are being cut.
    #[staticmethod]
    fn open_draft(directory: PathBuf) -> Result<SplitJob, Failure> {
        Ok(SplitJob(Arc::new(vesica::SplitJob::open_draft(
            &directory,
        )?)))
    }

    /// `receiver` or `sender`.
    #[getter]
    fn role(&self) -> String {
        self.0.role().to_string()
    }

    /// What both sides have agreed on, as JSON.
    #[getter]
    fn contract(&self) -> Result<String, Failure> {
        let contract = serde_json::to_string(self.0.contract());
        contract.map_err(|e| Failure::usage(format!("the contract is not JSON: {e}")))
    }

    /// Makes an attempt at a bucket, and returns what the task did, as JSON. It ends if `listener.check()` raises, which is
    /// called all the time.
    #[allow(clippy::too_many_arguments, reason = "Python gathers them")]
    fn run(
        &self,
        py: Python<'_>,
        bucket: u32,
        attempt: u32,
        point: (String, String),
        waiting: Waiting,
        threads_given: Option<i64>,
        listener: &Bound<'_, PyAny>,
    ) -> PyResult<String> {
        let (kind, address) = point;
        let parse = match kind.as_str() {
            "gateway" | "listen" => parse_address,
            _ => parse_peer_address,
        };
        let address = parse(&address).map_err(Failure::from)?;
        let endpoint = match kind.as_str() {
            "gateway" => TaskEndpoint::Gateway(address),
            "listen" => TaskEndpoint::Peer(Endpoint::Listen(address)),
            _ => TaskEndpoint::Peer(Endpoint::Connect(address)),
        };
        let attempt = Attempt {
            bucket,
            number: attempt,
        };
        let (events, options) = (Events::default(), ConnectOptions::default());
        let interrupt = options.interrupt.clone();
        let connect = waiting.options(options, &events)?;
        let threads = threads(threads_given)?;
        let (job, mut heard) = (Arc::clone(&self.0), events.clone());
        let each = || {
            listener.call_method0("check")?;
            events.tell(listener)
        };
        let kept = KeepFreed::begin();
        let report = supervise(py, &interrupt, each, move || {
            Ok(job.run(attempt, &endpoint, &connect, threads, &mut heard)?)
        })??;
        // A worker of a cluster has another task soon, which takes the memory of this one. Without a thread it is not kept.
        let keeping = move || {
            thread::sleep(BETWEEN_TASKS);
            drop(kept);
        };
        thread::Builder::new().spawn(keeping).ok();
        Ok(json(&report)?)
    }

    /// Meets the peer's driver, and returns the attempts that both sides make next, as pairs of bucket and attempt.
    fn next_attempts(
        &self,
        py: Python<'_>,
        link: &Link,
        waiting: Waiting,
        listener: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(u32, u32)>> {
        let next = drive(py, link, &waiting, listener, &self.0, Party::next_attempts)?;
        Ok(next
            .into_iter()
            .map(|next| (next.bucket, next.number))
            .collect())
    }

    /// Opens the total with the peer's driver; the report as JSON.
    fn open_total(
        &self,
        py: Python<'_>,
        link: &Link,
        waiting: Waiting,
        ledger: Option<PathBuf>,
        ledger_answers: bool,
        listener: &Bound<'_, PyAny>,
    ) -> PyResult<String> {
        let account = account(ledger.as_ref(), None, ledger_answers)?;
        let open = move |party: &Party, job: &vesica::SplitJob, heard: &mut dyn Observer| {
            let party = Party {
                account,
                ..party.clone()
            };
            party.open_total(job, heard)
        };
        let report = drive(py, link, &waiting, listener, &self.0, open)?;
        Ok(json(&report)?)
    }

    /// The report of the total that was opened before, as JSON.
    fn total(&self) -> Result<String, Failure> {
        json(&self.0.total()?)
    }

    /// The rows of the table that match, those of the result where these are others, and the table of the result unless
    /// there is an output.
    #[allow(
        clippy::too_many_arguments,
        reason = "it has what the package's method has"
    )]
    fn collect<'py>(
        &self,
        py: Python<'py>,
        table: &Bound<'py, PyAny>,
        reading: Reading,
        rows: &str,
        output: Option<PathBuf>,
        threads_given: Option<i64>,
        kept: (Option<PathBuf>, bool),
    ) -> PyResult<Collected<'py>> {
        let account = account(kept.0.as_ref(), None, kept.1)?;
        let (key, memory) = (reading.key()?, reading.memory()?);
        let options = reading.source(SourceOptions {
            passes: Passes::Two,
            rows: named("rows", rows.parse())?,
            ..SourceOptions::default()
        })?;
        let resources = Resources {
            memory,
            threads: threads(threads_given)?,
            ..Resources::default()
        };
        let table = Table::of(table, &reading)?;
        let output = reading.output(py, output)?;
        let job = Arc::clone(&self.0);
        let interrupt = Interrupt::new();
        let raised = interrupt.clone();
        let (rows, table) = supervise(
            py,
            &interrupt,
            || Ok(()),
            move || {
                let source = table.open(&key, &[], options)?;
                let to = output.as_ref().map(Output::destination);
                let collected = |told: &mut dyn Observer| {
                    collect(&job, &source, &key, &resources, to, &raised, told)
                };
                let rows = match &account {
                    Some(account) => account.end_of_rows(&job, collected, &mut NoProgress)?,
                    None => collected(&mut NoProgress)?,
                };
                let table = match to {
                    None if !source.format().is_text() => {
                        let (schema, batches) = select_rows(&source, &rows)?;
                        Some(Batches { schema, batches })
                    }
                    _ => None,
                };
                Ok((RowNumbers::of((&rows).into(), source.rows())?, table))
            },
        )??;
        let (matching, result) = rows.into_bytes(py);
        Ok((matching, result, table))
    }

    /// The bucket of each digest that is not null, as a table of one column.
    fn buckets_of(&self, digests: &Bound<'_, PyAny>) -> PyResult<Batches> {
        let buckets = self.0.buckets_of(&usable_of(digests)?);
        let column = Int32Array::from_iter_values(buckets.into_iter().map(|bucket| bucket as i32));
        Ok(Batches::of_column("bucket", Arc::new(column))?)
    }

    /// Puts the digests of a bucket into its file; returns their hash.
    fn cut(&self, py: Python<'_>, bucket: u32, digests: &Bound<'_, PyAny>) -> PyResult<[u8; 32]> {
        let digests = digests_of(digests)?;
        let hash = py.detach(|| self.0.cut(bucket, digests, Vec::new()));
        Ok(hash.map_err(Failure::from)?)
    }

    /// The digests of a bucket that match, as a table of one column.
    fn matches(&self, py: Python<'_>, bucket: u32) -> PyResult<Batches> {
        let digests = py
            .detach(|| self.0.matches(bucket))
            .map_err(Failure::from)?;
        Ok(table_of(digests, None)?)
    }
}
