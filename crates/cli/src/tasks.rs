//! `vesica split`, `bucket`, `gateway`, `attempts` and `collect`: a job whose buckets are tasks of their own.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use vesica::tables::Passes;
use vesica::{
    ConnectOptions, Destination, Observer, Party, Role, Rows, SourceOptions, SplitJob, TaskReport,
    Tasks, collect as collect_rows,
};
use vesica_files::many;
use vesica_session::{Admission, Attempt, GatewayFigures, GatewayOptions};

use crate::args::{Attempts, Bucket, Collect, Columns, Gateway, Split, Total};
use crate::conditions::Conditions;
use crate::exchange::print_values;
use crate::failure::Failure;
use crate::log;
use crate::metrics::Figure;
use crate::progress::{Progress, ProgressMode};
use crate::report::Record;
use crate::signals::Signals;
use crate::stdout::print_line;

/// Time between two lines of a gateway's figures.
const INTERVAL: Duration = Duration::from_secs(60);

pub(crate) fn split(options: &Split, conditions: Conditions) -> Result<(), Failure> {
    let (link, role) = (&options.link, options.role.role());
    let signals = Signals::install()?;
    let identity = link.who.load()?;
    let key = options.table.key()?;
    let mut progress = Progress::new(
        link.resources.progress(),
        signals.clone(),
        "reading the table",
    );
    let mut party = Party {
        connect: link.connect(&progress, &signals, conditions)?,
        plaintext_for_benchmarks_only: conditions.is_plaintext,
        ..Party::new(&identity, link.who.peer(), link.endpoint()?)
    };
    link.complete(None, Columns::of_tasks(link)?, &mut party)?;
    party.check(role, &key)?;
    let reading = SourceOptions {
        passes: Passes::One,
        ..SourceOptions::default()
    };
    let opener = options.table.opener(link.source(&party, reading))?;
    let opened = OnceLock::new();
    let open = || opener.open_into(&opened);
    let tasks = Tasks {
        memory: options.task_memory,
        attempts: options.attempts,
        valid_for: options.valid_for,
    };
    let job = party.split(role, open, &key, &options.of.job, tasks, &mut progress)?;
    progress.finish();
    let contract = job.contract();
    let size = match role {
        Role::Receiver => contract.receiver_bucket,
        Role::Sender => contract.sender_bucket,
    };
    let (buckets, protocol) = (contract.buckets, &contract.protocol);
    log::event(
        "split",
        &format!(
            "{} of {size} places each, for {protocol}",
            many(buckets.into(), "bucket")
        ),
        &json!({"buckets": buckets, "places": size, "protocol": protocol}),
    );
    Ok(())
}

pub(crate) fn bucket(options: &Bucket, conditions: Conditions) -> Result<(), Failure> {
    Record::around(options.report.reporting(), |_| attempt(options, conditions))
}

fn attempt(options: &Bucket, conditions: Conditions) -> Result<TaskReport, Failure> {
    let endpoint = options.point.endpoint()?;
    let signals = Signals::install()?;
    let job = SplitJob::open(&options.of.job)?;
    let mut progress = Progress::new(
        options.progress.progress,
        signals.clone(),
        "reading the bucket",
    );
    // The peer is told, and so is the job, where something is at stake.
    signals.stop_in_order();
    let connect = options.point.ways().of(ConnectOptions {
        deadline: options.deadline.deadline,
        ..options.patience.options(&progress, &signals, conditions)
    })?;
    let attempt = Attempt {
        bucket: options.bucket,
        number: options.attempt,
    };
    let report = job.run(
        attempt,
        &endpoint,
        &connect,
        options.threads.threads,
        &mut progress,
    )?;
    progress.finish();
    let line = format!(
        "bucket {} of {}, attempt {}: done, {} bytes sent, {} received",
        report.bucket,
        job.contract().buckets,
        report.attempt,
        report.bytes_sent,
        report.bytes_received,
    );
    let fields = serde_json::to_value(&report).unwrap_or_default();
    log::event("bucket done", &line, &fields);
    Ok(report)
}

pub(crate) fn gateway(options: &Gateway) -> Result<(), Failure> {
    let signals = Signals::install()?;
    let jobs = options.admit.iter().map(|path| Admission::load(path));
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let gateway = vesica_session::Gateway::bind(&options.listen, jobs)?;
    let serving = GatewayOptions {
        pairs: options.pairs as usize,
        wait: options.wait,
        timeout: options.timeout,
        interval: INTERVAL,
        interrupt: signals.interrupt().clone(),
    };
    let mut progress = Progress::new(ProgressMode::Plain, signals.clone(), "opening the port");
    signals.stop_in_order();
    progress.listening(gateway.local_addr());
    let tell = |figures: &GatewayFigures| {
        let GatewayFigures {
            running,
            waiting,
            pairs,
            refused,
            bytes,
        } = *figures;
        let text = format!(
            "{} of tasks, and {waiting} waiting for theirs; {} so far, {bytes} bytes passed on, {} turned away",
            many(running, "pair"),
            many(pairs, "pair"),
            many(refused, "connection"),
        );
        let fields = json!({
            "running": running,
            "waiting": waiting,
            "pairs": pairs,
            "refused": refused,
            "bytes": bytes,
        });
        log::event("figures", &text, &fields);
        options.metrics.write("gateway", &in_metrics(figures));
    };
    options
        .metrics
        .write("gateway", &in_metrics(&GatewayFigures::default()));
    gateway.serve(&serving, &tell)?;
    signals.check()
}

fn in_metrics(figures: &GatewayFigures) -> [Figure; 5] {
    [
        Figure::now("pairs", "Pairs of tasks at the moment.", figures.running),
        Figure::now(
            "waiting",
            "Tasks that wait for the other side's.",
            figures.waiting,
        ),
        Figure::total("met", "Pairs so far.", figures.pairs),
        Figure::total(
            "refused",
            "Connections that were turned away.",
            figures.refused,
        ),
        Figure::total("bytes", "Bytes that were passed on.", figures.bytes),
    ]
}

/// Prints a bucket and an attempt on each line.
pub(crate) fn attempts(options: &Attempts, conditions: Conditions) -> Result<(), Failure> {
    let signals = Signals::install()?;
    let job = SplitJob::open(&options.of.job)?;
    let identity = options.who.load()?;
    let mut progress = Progress::new(
        options.progress.progress,
        signals.clone(),
        "opening the job",
    );
    signals.stop_in_order();
    let waiting = options.patience.options(&progress, &signals, conditions);
    let party = Party {
        connect: options.point.ways.of(waiting)?,
        ..Party::new(&identity, options.who.peer, options.point.endpoint()?)
    };
    let next = party.next_attempts(&job, &mut progress)?;
    progress.finish();
    log::event(
        "attempts",
        &format!("{} to make next", many(next.len() as u64, "attempt")),
        &json!({"attempts": next.len()}),
    );
    let line = |attempt: Attempt| print_line(&format!("{} {}", attempt.bucket, attempt.number));
    next.into_iter().try_for_each(line)
}

/// Opens the total with the peer's driver, if they are to meet, and prints it.
pub(crate) fn total(options: &Total, conditions: Conditions) -> Result<(), Failure> {
    let signals = Signals::install()?;
    let job = SplitJob::open(&options.of.job)?;
    let mut report = match (&options.point, &options.who) {
        (Some(point), Some(who)) => {
            let (identity, endpoint) = (who.load()?, point.endpoint()?);
            let mut progress = Progress::new(
                options.progress.progress,
                signals.clone(),
                "opening the job",
            );
            signals.stop_in_order();
            let waiting = options.patience.options(&progress, &signals, conditions);
            let party = Party {
                connect: point.ways.of(waiting)?,
                account: options.account.account(),
                ..Party::new(&identity, who.peer, endpoint)
            };
            let report = party.open_total(&job, &mut progress)?;
            progress.finish();
            report
        }
        _ => job.total()?,
    };
    if options.clamp {
        report.clamp();
    }
    let fields = serde_json::to_value(&report).unwrap_or_default();
    let told = ["value", "values", "below", "noise"].map(|name| (name, &fields[name]));
    let fields = json!(told.into_iter().collect::<BTreeMap<_, _>>());
    let told = told[..3].iter().any(|(_, value)| !value.is_null());
    let line = match told {
        true => "the total is opened",
        false => "the total is opened, for the receiver",
    };
    log::event("done", line, &fields);
    print_values(&report)
}

/// What was collected.
#[derive(Serialize)]
struct Collected {
    /// Rows of the table.
    rows: u64,
    /// Those that match.
    matching_rows: u64,
    rows_written: u64,
    seconds: f64,
}

pub(crate) fn collect(options: &Collect) -> Result<(), Failure> {
    Record::around(options.reporting(), |record| collected(options, record))
}

fn collected(options: &Collect, record: &mut Record<'_>) -> Result<Collected, Failure> {
    let (signals, began) = (Signals::install()?, Instant::now());
    let target = options.table.target(&options.result)?;
    let key = options.table.key()?;
    let job = SplitJob::open(&options.of.job)?;
    let resources = options.resources.resources();
    let shown = options.resources.progress();
    let mut progress = Progress::new(shown, signals.clone(), "reading the table");
    let source = options.table.open(options.result.source(SourceOptions {
        passes: Passes::Two,
        memory: resources.memory,
        ..SourceOptions::default()
    }))?;
    record.readable_as(&source);
    let destination = Destination::of(target.as_ref(), options.result.file());
    let interrupt = signals.interrupt();
    let collect = |observer: &mut dyn Observer| {
        collect_rows(
            &job,
            &source,
            &key,
            &resources,
            destination,
            interrupt,
            observer,
        )
    };
    let matching = match options.account.account() {
        Some(account) => account.end_of_rows(&job, collect, &mut progress),
        None => collect(&mut progress),
    }?;
    progress.finish();
    let (rows, matching_rows) = (matching.rows(), matching.count(0..matching.rows()));
    let rows_written = match options.result.rows.unwrap_or_default() {
        Rows::All => rows,
        Rows::Rest => rows - matching_rows,
        _ => matching_rows,
    };
    let line = format!("{} written", many(rows_written, "row"));
    log::event("done", &line, &json!({"rows_written": rows_written}));
    Ok(Collected {
        rows,
        matching_rows,
        rows_written,
        seconds: began.elapsed().as_secs_f64(),
    })
}
