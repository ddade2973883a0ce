//! Published sets: publishing, serving, looking up.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString, PyTuple};
use vesica::lookup::{Database, Figures, ServerEvent, Service};
use vesica::options::parse_address;
use vesica::session::{LabelTerms, Listener, OnIncident};
use vesica::tables::Passes;
use vesica::{
    Account, ConnectOptions, Endpoint, Interrupt, KeySpec, LookUp, OpenLookUp, Publication,
    SetUpdate, SourceOptions, select_rows,
};

use crate::errors::Failure;
use crate::events::Events;
use crate::identity::Identity;
use crate::link::Link;
use crate::options::{Output, Reading, Table, Time, account, deadline, fingerprint, threads};
use crate::run::{RowNumbers, Rowed};
use crate::stream::Batches;
use crate::supervise::watched;

/// Time between two looks at what a server has done.
const INTERVAL: Duration = Duration::from_millis(200);

/// What of a set is published.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Publishing {
    set_dir: PathBuf,
    output: PathBuf,
    rotate: bool,
    payload: Vec<String>,
    payload_width: Option<u32>,
    queries: Option<u64>,
    max_keys: Option<u64>,
    lambda: u32,
    threads: Option<i64>,
}

impl Publishing {
    fn payload(&self) -> Option<LabelTerms> {
        let columns = self.payload.clone();
        let bytes = self.payload_width.unwrap_or(vesica::PAYLOAD_BYTES);
        (!columns.is_empty()).then(|| LabelTerms::texts(bytes, columns))
    }
}

/// Publishes a table, or a release with those keys of two others that come and leave; returns what the command reports.
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    reason = "it has what the package's function has"
)]
pub(crate) fn publish(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    add: Option<&Bound<'_, PyAny>>,
    remove: Option<&Bound<'_, PyAny>>,
    reading: Reading,
    options: Publishing,
    identity: &Identity,
    listener: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let events = Events::default();
    let interrupt = Interrupt::new();
    let key = reading.key()?;
    let source = reading.source(SourceOptions {
        passes: Passes::One,
        ..SourceOptions::default()
    })?;
    let of = |table: Option<&Bound<'_, PyAny>>| {
        let table = table.map(|table| Table::of(table, &reading));
        table.transpose()
    };
    let table = (add.is_none() && remove.is_none()).then_some(table);
    let (table, add, remove) = (of(table)?, of(add)?, of(remove)?);
    let (memory, threads) = (reading.memory()?, threads(options.threads)?);
    let identity = identity.0.key.clone();
    let (heard, raised) = (events.clone(), interrupt.clone());
    events.stage("reading");
    let work = move || -> Result<String, Failure> {
        let mut events = heard;
        let report = match table {
            Some(table) => {
                let publication = Publication {
                    rotates: options.rotate,
                    lambda: options.lambda,
                    queries: options.queries,
                    max_keys: options.max_keys,
                    payload: options.payload(),
                    memory,
                    threads,
                    interrupt: raised,
                    ..Publication::new(identity, options.set_dir)
                };
                let source = table.open(&key, &[], source)?;
                let published = publication.run(&source, &key, &options.output, &mut events)?;
                serde_json::to_string(&published)
            }
            None => {
                let update = SetUpdate {
                    identity,
                    database: options.set_dir,
                    set: options.output,
                    memory,
                    threads,
                    interrupt: raised,
                };
                let open = |table: Option<Table>| {
                    let table = table.map(|table| table.open(&key, &[], source.clone()));
                    table.transpose()
                };
                let (add, remove) = (open(add)?, open(remove)?);
                let updated = update.run(add.as_ref(), remove.as_ref(), &key, &mut events)?;
                serde_json::to_string(&updated)
            }
        };
        report.map_err(|e| Failure::usage(format!("the report is not JSON: {e}")))
    };
    watched(py, &interrupt, &events, listener, work)
}

/// How a set is looked up.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LookingUp {
    set: PathBuf,
    fetch: bool,
    state: Option<PathBuf>,
    threads: Option<i64>,
    wait: Time,
    timeout: Time,
    deadline: Option<Time>,
    allow_empty: bool,
    ledger: Option<PathBuf>,
    ledger_answers: bool,
}

/// Columns and their texts.
type Texts = Vec<(String, Option<String>)>;

/// A published set that is open for look-ups.
#[pyclass(frozen, module = "vesica._vesica")]
pub(crate) struct LookupHandle {
    /// `None` once it is closed.
    open: Arc<Mutex<Option<OpenLookUp>>>,
    key: KeySpec,
    events: Events,
    interrupt: Interrupt,
    allow_empty: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_one(open: &mut Option<OpenLookUp>) -> Result<&mut OpenLookUp, Failure> {
    open.as_mut().ok_or_else(closed)
}

fn closed() -> Failure {
    Failure::usage("this look-up is closed")
}

/// Opens a published set for look-ups.
#[pyfunction]
pub(crate) fn open_lookup(
    py: Python<'_>,
    reading: Reading,
    options: LookingUp,
    link: &Link,
    listener: &Bound<'_, PyAny>,
) -> PyResult<LookupHandle> {
    let Endpoint::Connect(address) = link.endpoint() else {
        return Err(Failure::usage("a server listens: look up over a link that connects").into());
    };
    let (key, memory) = (reading.key()?, reading.memory()?);
    let (events, interrupt) = (Events::default(), link.interrupt.child());
    let look_up = LookUp {
        fetch: options.fetch,
        state: options.state,
        connect: ConnectOptions {
            wait: options.wait.of("wait")?,
            timeout: options.timeout.of("timeout")?,
            deadline: deadline(options.deadline.as_ref())?,
            on_incident: OnIncident::new(events.incidents()),
            interrupt: interrupt.clone(),
            ..link.options()
        },
        memory,
        threads: threads(options.threads)?,
        allow_empty: options.allow_empty,
        account: account(options.ledger.as_ref(), None, options.ledger_answers)?,
        ..LookUp::new(link.identity.key.clone(), link.peer, address, options.set)
    };
    let of = key.clone();
    let mut heard = events.clone();
    let work = move || Ok(look_up.open(&of, &mut heard)?);
    let open = watched(py, &interrupt, &events, listener, work)?;
    Ok(LookupHandle {
        open: Arc::new(Mutex::new(Some(open))),
        key,
        events,
        interrupt,
        allow_empty: options.allow_empty,
    })
}

#[pymethods]
impl LookupHandle {
    /// What a look-up has found, without a table if there is an output. The last one closes this, before anything is looked at that depends on which keys are in the set.
    #[allow(
        clippy::too_many_arguments,
        reason = "it has what the package's method has"
    )]
    fn find<'py>(
        &self,
        py: Python<'py>,
        table: &Bound<'py, PyAny>,
        reading: Reading,
        rows: &str,
        output: Option<PathBuf>,
        is_last: bool,
        listener: &Bound<'py, PyAny>,
    ) -> PyResult<Rowed<'py>> {
        let options = reading.source(SourceOptions {
            passes: Passes::Two,
            rows: rows.parse().map_err(Failure::from)?,
            allow_no_rows: self.allow_empty,
            ..SourceOptions::default()
        })?;
        let table = Table::of(table, &reading)?;
        let output = reading.output(py, output)?;
        let (open, key) = (Arc::clone(&self.open), self.key.clone());
        let (mut events, interrupt) = (self.events.clone(), self.interrupt.clone());
        events.stage("reading");
        let work = move || -> Result<_, Failure> {
            let source = table.open(&key, &[], options)?;
            let mut open = lock(&open);
            let to = output.as_ref().map(Output::destination);
            let found = match is_last {
                true => {
                    let last = open.take().ok_or_else(closed)?;
                    last.find_last(&source, to, &mut events)?
                }
                false => open_one(&mut open)?.find(&source, to, &mut events)?,
            };
            let json = serde_json::to_string(found.report());
            let json = json.map_err(|e| Failure::usage(format!("the report is not JSON: {e}")))?;
            let table = match output.is_some() || source.format().is_text() {
                true => None,
                false => {
                    events.stage("writing");
                    let (schema, batches) = select_rows(&source, found.matched())?;
                    interrupt.check().map_err(vesica::session::Error::from)?;
                    Some(Batches { schema, batches })
                }
            };
            let rows = RowNumbers::of(found.matched(), source.rows())?;
            Ok((json, rows, table))
        };
        let found = watched(py, &self.interrupt, &self.events, listener, work)?;
        let (json, rows, table) = found;
        let (matching, result) = rows.into_bytes(py);
        Ok((json, Some(matching), result, table))
    }

    /// What is published with a key, a value for each of its columns: column names and texts; `None` if the key is not in
    /// the set.
    fn get(
        &self,
        py: Python<'_>,
        key: Vec<Bound<'_, PyAny>>,
        listener: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Texts>> {
        let batch = one_row(&self.key, &key)?;
        let (open, columns) = (Arc::clone(&self.open), key.len());
        let mut events = self.events.clone();
        let work = move || -> Result<_, Failure> {
            let options = SourceOptions::default();
            let schema = batch.schema();
            let source = vesica::Source::from_batches("the key", schema, vec![batch], &options)?;
            let mut open = lock(&open);
            let open = open_one(&mut open)?;
            let found = open.find(&source, None, &mut events);
            let found = found.map_err(|error| match error {
                vesica::Error::NoKeys(_) => {
                    Failure::data("the key is blank, or its normalisation refuses it")
                }
                other => other.into(),
            })?;
            if found.report().matches == 0 {
                return Ok(None);
            }
            let (_, batches) = select_rows(&source, found.matched())?;
            let row = batches.first().filter(|batch| batch.num_rows() == 1);
            let row = row.expect("the row of the key");
            let texts = row.columns()[columns..].iter().map(text);
            let names = open.columns().iter().cloned();
            Ok(Some(names.zip(texts).collect()))
        };
        watched(py, &self.interrupt, &self.events, listener, work)
    }

    /// Leaves the server, and frees the directory of the state.
    fn close(&self, py: Python<'_>) {
        self.interrupt.stop();
        py.detach(|| drop(lock(&self.open).take()));
    }
}

/// The text in the only row of a column.
fn text(column: &ArrayRef) -> Option<String> {
    let texts = column.as_any().downcast_ref::<StringArray>();
    let texts = texts.expect("what goes with a key is text");
    texts.is_valid(0).then(|| texts.value(0).to_owned())
}

/// A table with this key alone.
fn one_row(key: &KeySpec, values: &[Bound<'_, PyAny>]) -> PyResult<RecordBatch> {
    let names = key.names();
    if names.len() != values.len() {
        let (want, given) = (names.len(), values.len());
        let line = format!("columns of the key: {want}; values: {given}");
        return Err(Failure::usage(line).into());
    }
    let columns = values.iter().map(one_value).collect::<PyResult<Vec<_>>>()?;
    let fields = names.iter().zip(&columns);
    let fields = fields.map(|(name, column)| Field::new(name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema, columns);
    Ok(batch.map_err(|e| Failure::data(e.to_string()))?)
}

/// A column with this value alone.
fn one_value(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if value.is_instance_of::<PyBool>() {
        return Err(PyTypeError::new_err("a key is a text, a number or bytes"));
    }
    if let Ok(text) = value.cast::<PyString>() {
        let mut column = StringBuilder::new();
        column.append_value(text.extract::<String>()?);
        return Ok(Arc::new(column.finish()));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let mut column = BinaryBuilder::new();
        column.append_value(bytes.as_bytes());
        return Ok(Arc::new(column.finish()));
    }
    let number: i64 = value.extract().map_err(|_| {
        let found = value.get_type();
        PyTypeError::new_err(format!(
            "a key is a text, a number of 64 bits or bytes, not a {found}"
        ))
    })?;
    Ok(Arc::new(Int64Array::from(vec![number])))
}

/// How a set is served.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Serving {
    set_dir: PathBuf,
    address: String,
    clients: Vec<String>,
    set: Option<PathBuf>,
    quota: u64,
    connections: usize,
    threads: Option<i64>,
    timeout: Time,
    deadline: Option<Time>,
    ledger: Option<PathBuf>,
}

/// Answers those who look keys up in a published set, on threads of its own, until it is stopped. In a `with` statement it is
/// stopped at the end.
#[pyclass(frozen, module = "vesica")]
pub(crate) struct Server {
    address: String,
    interrupt: Interrupt,
    figures: Arc<Mutex<Figures>>,
    /// `None` once somebody has heard how it ended.
    serving: Mutex<Option<JoinHandle<Result<(), Failure>>>>,
}

#[pyfunction]
pub(crate) fn serve(py: Python<'_>, options: Serving, identity: &Identity) -> PyResult<Server> {
    let clients = options
        .clients
        .iter()
        .map(|client| fingerprint("clients", client));
    let account = options.ledger.map(Account::new);
    let log = account.map(|account| {
        let own = identity.0.key.fingerprint();
        account.of_server(own, &options.set_dir, &mut Events::default())
    });
    let service = Service {
        log: log.transpose().map_err(Failure::from)?,
        set: options.set,
        connections: options.connections,
        threads: threads(options.threads)?,
        interval: INTERVAL,
        ..Service::new(clients.collect::<Result<_, _>>()?, options.quota)
    };
    let timeout = options.timeout.of("timeout")?;
    let interrupt = Interrupt::new();
    let connecting = ConnectOptions {
        wait: Duration::MAX,
        timeout,
        patience: timeout,
        deadline: deadline(options.deadline.as_ref())?,
        interrupt: interrupt.clone(),
        ..ConnectOptions::default()
    };
    let identity = identity.0.key.clone();
    let address = parse_address(&options.address).map_err(Failure::from)?;
    let open = || -> Result<_, Failure> {
        let database = Database::open(&options.set_dir, &identity).map_err(vesica::Error::from)?;
        database.check(&service).map_err(vesica::Error::from)?;
        Ok((database, Listener::bind(&address)?))
    };
    let (database, listener) = py.detach(open)?;
    let figures = Arc::new(Mutex::new(Figures {
        answered: database.answered(),
        ..Figures::default()
    }));
    let (address, last) = (listener.local_addr().to_string(), Arc::clone(&figures));
    let serving = std::thread::Builder::new().name("vesica-serve".into());
    let serving = serving.spawn(move || {
        let tell = |event: ServerEvent<'_>| {
            if let ServerEvent::Figures(figures) = event {
                *lock(&last) = *figures;
            }
        };
        let ended = database.serve(&identity, &listener, &service, &connecting, &tell);
        Ok(ended.map_err(vesica::Error::from)?)
    })?;
    Ok(Server {
        address,
        interrupt,
        figures,
        serving: Mutex::new(Some(serving)),
    })
}

#[pymethods]
impl Server {
    /// `host:port`: where it listens, with the real port.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// What it has done: clients that are `connected`, `connections` so far, `questions` answered, `queries` in these,
    /// questions `repeated` at no cost, `file_bytes` of the set handed out, `failures`, and how many queries of the key are
    /// `answered` in its life. Up to a fifth of a second old while it serves; once it has stopped, all that it has done.
    #[getter]
    fn figures(&self) -> HashMap<&'static str, u64> {
        let figures = *lock(&self.figures);
        HashMap::from([
            ("connected", figures.connected),
            ("connections", figures.connections),
            ("questions", figures.questions),
            ("queries", figures.queries),
            ("repeated", figures.repeated),
            ("file_bytes", figures.file_bytes),
            ("failures", figures.failures),
            ("answered", figures.answered),
        ])
    }

    /// Waits until it is stopped, from another thread or by Ctrl-C.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        while lock(&self.serving)
            .as_ref()
            .is_some_and(|serving| !serving.is_finished())
        {
            py.check_signals()?;
            py.detach(|| std::thread::sleep(INTERVAL / 8));
        }
        self.ended(py)
    }

    /// Tells all clients that it ends, gives back what was reserved of their quotas and not used, and frees the port.
    ///
    /// Raises what it has failed with, if it has.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.interrupt.stop();
        self.ended(py)
    }

    fn __enter__(server: Py<Self>) -> Py<Self> {
        server
    }

    /// Stops the server.
    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.stop(py)
    }

    fn __repr__(&self) -> String {
        format!("<Server on {}>", self.address)
    }
}

impl Server {
    /// Waits for its end.
    fn ended(&self, py: Python<'_>) -> PyResult<()> {
        let Some(serving) = lock(&self.serving).take() else {
            return Ok(());
        };
        match py.detach(|| serving.join()) {
            Ok(ended) => Ok(ended?),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
