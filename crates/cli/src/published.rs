//! `vesica publish`, `vesica serve` and `vesica lookup`

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use vesica::lookup::{Database, Figures, ServerEvent, Service};
use vesica::tables::Passes;
use vesica::{
    ConnectOptions, Destination, Fingerprint, Identity, LookUp, LookUpReport, Publication,
    SetUpdate, SourceOptions,
};
use vesica_files::{found_at, many, read_regular};
use vesica_session::{Listener, OnIncident};

use crate::args::{Lookup, Publish, Serve};
use crate::conditions::Conditions;
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::memory::peak_memory_bytes;
use crate::metrics::{Figure, MetricsOption};
use crate::paths::InputTable;
use crate::progress::{Progress, ProgressMode};
use crate::report::Record;
use crate::signals::Signals;

/// Time between two lines of figures.
/// Longest list of clients, in bytes: some hundred thousand.
const MAX_CLIENTS: u64 = 8 << 20;

pub(crate) fn publish(options: &Publish) -> Result<(), Failure> {
    Record::around(options.report.reporting(), |record| {
        let signals = Signals::install()?;
        if *options.output == *Path::new("-") {
            return Err(Failure::usage("a published set is a file"));
        }
        let identity = options.own.load()?;
        record.fingerprint = Some(identity.fingerprint());
        match options.add.is_empty() && options.remove.is_empty() {
            true => publish_all(options, identity, &signals),
            false => update(options, identity, &signals),
        }
    })
}

/// How the table is read.
fn reading(options: &Publish) -> SourceOptions {
    SourceOptions {
        passes: Passes::One,
        memory: options.resources.memory(),
        ..SourceOptions::default()
    }
}

fn publish_all(options: &Publish, identity: Identity, signals: &Signals) -> Result<Value, Failure> {
    let key = options.table.key()?;
    let publication = Publication {
        rotates: options.rotate,
        lambda: options.lambda,
        queries: options.queries,
        max_keys: options.max_keys,
        payload: options.payload()?,
        memory: options.resources.memory(),
        threads: options.resources.threads(),
        interrupt: signals.interrupt().clone(),
        ..Publication::new(identity, &*options.of.set_dir)
    };
    let shown = options.resources.progress();
    let mut progress = Progress::new(shown, signals.clone(), "reading the table");
    let source = options.table.open(reading(options))?;
    let published = publication.run(&source, &key, &options.output, &mut progress);
    let published = published.map_err(|error| {
        let resume = publication.resume_hint(&error);
        Failure::from(error).and(resume.as_ref())
    })?;
    progress.finish();
    let (keys, bytes) = (published.keys, published.bytes);
    let text = format!(
        "published {} in {:.1} s: {bytes} bytes, {:.1} bits per key; the key answers {}, and {}",
        many(keys, "key"),
        published.seconds,
        8.0 * bytes as f64 / keys as f64,
        many(published.queries, "query"),
        room(published.room),
    );
    log::event("published", &text, &with_memory(&published));
    Ok(fields_of(&published))
}

/// How many keys the set has room for.
fn room(keys: u64) -> String {
    match keys {
        0 => "no more keys can be added (--max-keys)".into(),
        _ => format!("{} can be added (--max-keys)", many(keys, "more key")),
    }
}

fn fields_of(report: &impl Serialize) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

/// A report with the memory of this process.
fn with_memory(report: &impl Serialize) -> Value {
    let mut fields = fields_of(report);
    fields["peak_memory_bytes"] = peak_memory_bytes().into();
    fields
}

fn update(options: &Publish, identity: Identity, signals: &Signals) -> Result<Value, Failure> {
    let key = options.table.key()?;
    let update = SetUpdate {
        identity,
        database: options.of.set_dir.to_path_buf(),
        set: options.output.to_path_buf(),
        memory: options.resources.memory(),
        threads: options.resources.threads(),
        interrupt: signals.interrupt().clone(),
    };
    let shown = options.resources.progress();
    let mut progress = Progress::new(shown, signals.clone(), "reading the table");
    let source = |files: &[InputTable]| {
        let files = (!files.is_empty()).then_some(files);
        let open = |files| options.table.open_files(files, reading(options));
        files.map(open).transpose()
    };
    let (add, remove) = (source(&options.add)?, source(&options.remove)?);
    let updated = update.run(add.as_ref(), remove.as_ref(), &key, &mut progress)?;
    progress.finish();
    let text = match &updated.release {
        None => "nothing has changed: there is no new release".into(),
        Some(release) => format!(
            "release {} in {:.1} s: keys: {} new, {} with another payload, {} removed; {} has {} bytes, and the set {}; {}",
            release.release,
            updated.seconds,
            updated.new,
            updated.changed,
            updated.removed,
            release.file.display(),
            release.bytes,
            many(release.keys, "key"),
            room(release.room),
        ),
    };
    log::event("updated", &text, &with_memory(&updated));
    Ok(fields_of(&updated))
}

/// The fingerprints in a list.
fn clients(path: &Path) -> Result<Vec<Fingerprint>, Failure> {
    let wrong = |line: String| {
        let hint =
            "the list of clients has one fingerprint per line, as `vesica fingerprint` prints them";
        Failure::usage(format!("{}: {line}", path.display())).hint(hint)
    };
    // Nothing else is read: a key would stay in memory.
    if let Some(found) =
        found_at(path).filter(|found| !["a text file", "an empty file"].contains(found))
    {
        return Err(wrong(format!("this is {found}, and not a list of clients")));
    }
    let bytes = read_regular(path, MAX_CLIENTS).map_err(|e| match e.kind() {
        ErrorKind::NotFound => wrong("no such file".into()),
        _ => wrong(e.to_string()),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8".into()))?;
    let mut clients = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let word = line
            .split('#')
            .next()
            .and_then(|line| line.split_whitespace().next());
        if let Some(word) = word {
            let client = word.parse::<Fingerprint>();
            clients.push(client.map_err(|e| wrong(format!("line {number}: {e}")))?);
        }
    }
    match clients.is_empty() {
        true => Err(wrong("names no client".into())),
        false => Ok(clients),
    }
}

pub(crate) fn serve(options: &Serve) -> Result<(), Failure> {
    let signals = Signals::install()?;
    let clients = clients(&options.clients)?;
    let identity = options.own.load()?;
    let database = Database::open(&options.of.set_dir, &identity)?;
    let queries = database.declared().queries;
    let mut progress = Progress::new(ProgressMode::Plain, signals.clone(), "opening the port");
    let account = options.account.account();
    let log = account.map(|account| {
        account.of_server(identity.fingerprint(), &options.of.set_dir, &mut progress)
    });
    let service = Service {
        set: options.set.as_ref().map(|set| set.to_path_buf()),
        connections: options.connections as usize,
        threads: options.threads.threads,
        log: log.transpose()?,
        ..Service::new(clients, options.quota)
    };
    database.check(&service)?;
    let listener = Listener::bind(&options.listen)?;
    let connecting = ConnectOptions {
        wait: Duration::MAX,
        timeout: options.timeout,
        patience: options.timeout,
        deadline: options.deadline.deadline,
        on_incident: OnIncident::new(progress.incidents()),
        interrupt: signals.interrupt().clone(),
        ..ConnectOptions::default()
    };
    let text = format!(
        "serving to {}; {} of {queries} queries of the key are used, and at least {} bits of its security are \
         left after all of them",
        many(service.clients.len() as u64, "client"),
        database.answered(),
        database.bits_left(),
    );
    let none = Figures {
        answered: database.answered(),
        ..Figures::default()
    };
    options.metrics.write("serve", &in_metrics(&none, queries));
    log::event("serving", &text, &json!({"clients": service.clients.len()}));
    signals.stop_in_order();
    progress.listening(listener.local_addr());
    let tell = |event: ServerEvent<'_>| match event {
        ServerEvent::Figures(figures) => tell_figures(figures, queries, &options.metrics),
        ServerEvent::Refused {
            client,
            why,
            untold,
        } => {
            let before = match untold {
                0 => String::new(),
                untold => format!(", after {} that were not shown", many(untold, "refusal")),
            };
            let text = format!("refused client {client}{before}: {why}");
            let fields =
                json!({"client": client.to_string(), "why": why.to_string(), "untold": untold});
            log::event("refused", &text, &fields);
        }
        _ => {}
    };
    database.serve(&identity, &listener, &service, &connecting, &tell)?;
    signals.check()
}

fn tell_figures(figures: &Figures, queries: u64, metrics: &MetricsOption) {
    let text = format!(
        "clients: {} connected, {} so far; questions: {} answered, with {}, {} of them again at no cost; {} bytes of \
         files handed out; {} of {queries} queries of the key are used",
        figures.connected,
        figures.connections,
        figures.questions,
        many(figures.queries, "query"),
        figures.repeated,
        figures.file_bytes,
        figures.answered,
    );
    let fields = json!({
        "connected": figures.connected,
        "connections": figures.connections,
        "questions": figures.questions,
        "queries": figures.queries,
        "repeated": figures.repeated,
        "withdrawn": figures.withdrawn,
        "file_bytes": figures.file_bytes,
        "failures": figures.failures,
        "answered": figures.answered,
        "of": queries,
        "peak_memory_bytes": peak_memory_bytes(),
    });
    log::event("figures", &text, &fields);
    metrics.write("serve", &in_metrics(figures, queries));
}

fn in_metrics(figures: &Figures, queries: u64) -> [Figure; 10] {
    [
        Figure::now(
            "connected",
            "Clients that are connected.",
            figures.connected,
        ),
        Figure::total("connections", "Connections so far.", figures.connections),
        Figure::total(
            "questions",
            "Questions that were answered.",
            figures.questions,
        ),
        Figure::total("queries", "Queries in these.", figures.queries),
        Figure::total(
            "repeated",
            "Questions that had been paid for before.",
            figures.repeated,
        ),
        Figure::total(
            "withdrawn",
            "Questions that were withdrawn.",
            figures.withdrawn,
        ),
        Figure::total(
            "file_bytes",
            "Bytes of files handed out.",
            figures.file_bytes,
        ),
        Figure::total(
            "failures",
            "Connections that ended with an error.",
            figures.failures,
        ),
        Figure::now(
            "answered",
            "Queries that the key has answered.",
            figures.answered,
        ),
        Figure::now("most", "Queries that the key may answer.", queries),
    ]
}

pub(crate) fn lookup(options: &Lookup) -> Result<(), Failure> {
    Record::around(options.reporting(), |record| {
        let (peer, report) = (options.who.peer, look_up(options, record)?);
        Ok(WithPeer { peer, report })
    })
}

/// The report of a look-up, which names its publisher as that of a run does its peer.
#[derive(Serialize)]
struct WithPeer {
    peer: Fingerprint,
    #[serde(flatten)]
    report: LookUpReport,
}

fn look_up(options: &Lookup, record: &mut Record<'_>) -> Result<LookUpReport, Failure> {
    let signals = Signals::install()?;
    let target = options.table.target(&options.result)?;
    let key = options.table.key()?;
    let identity = options.who.load()?;
    record.fingerprint = Some(identity.fingerprint());
    let shown = options.resources.progress();
    let mut progress = Progress::new(shown, signals.clone(), "reading the table");
    let memory = options.resources.memory();
    let (address, set) = (&*options.connect, &*options.set);
    let look_up = LookUp {
        fetch: options.fetch,
        state: options.state.as_ref().map(|state| state.to_path_buf()),
        connect: options.ways.of(ConnectOptions {
            deadline: options.deadline.deadline,
            ..options
                .patience
                .options(&progress, &signals, Conditions::REAL)
        })?,
        memory,
        threads: options.resources.threads(),
        allow_empty: options.empty.allow_empty,
        account: options.account.account(),
        ..LookUp::new(identity, options.who.peer, address, set)
    };
    let source = options.table.open(options.result.source(SourceOptions {
        passes: Passes::Two,
        allow_no_rows: options.empty.allow_empty,
        memory,
        wait: Some(look_up.connect.wait),
        ..SourceOptions::default()
    }))?;
    record.readable_as(&source);
    let destination = Destination::of(target.as_ref(), options.result.file());
    let looked_up = look_up.run(&source, &key, destination, &mut progress)?;
    progress.finish();
    let report = looked_up.report();
    let mut fields = with_memory(report);
    fields["peer"] = options.who.peer.to_string().into();
    log::event(
        "done",
        summary(report).trim_end(),
        &json!({"report": fields}),
    );
    if report.asked > 0 && options.state.is_none() {
        let text = "without --state these answers are not kept, and count again when they are asked for again";
        log::say(Level::Info, text);
    }
    Ok(*report)
}

/// The summary for standard error, several lines.
fn summary(report: &LookUpReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<15} {value}");
    };
    line("rows read", report.counts.rows.to_string());
    line("distinct items", report.counts.items.to_string());
    line("published", report.published.to_string());
    line("release", report.release.to_string());
    if report.fetched > 0 {
        line("fetched", format!("{} bytes", report.fetched));
    }
    line("asked", report.asked.to_string());
    if report.recalled > 0 {
        let recalled = format!("{}, which were paid for before", report.recalled);
        line("recalled", recalled);
    }
    if report.withdrawn > 0 {
        let withdrawn = format!(
            "{}, which the server says were not paid for",
            report.withdrawn
        );
        line("withdrawn", withdrawn);
    }
    if let Some(left) = report.left {
        line("queries left", left.to_string());
        let (sent, received) = (report.bytes_sent, report.bytes_received);
        line("bytes", format!("{sent} sent, {received} received"));
        line("seconds", format!("{:.3}", report.seconds_asking));
    }
    line("matches", report.matches.to_string());
    if let Some(rows) = report.rows_written {
        line("rows written", rows.to_string());
    }
    text
}
