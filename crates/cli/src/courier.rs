//! `vesica exchange`: runs whose messages go by files.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use vesica::{CourierStep, Destination, Gets, Report, Role, Rows, SourceOptions};
use vesica_files::{MESSAGE, WholeFile, found_at, is_exhausted, read_regular};
use vesica_session::MAX_MESSAGE;

use crate::args::Exchange;
use crate::exchange::tell;
use crate::failure::{DATA, Failure, RESOURCE, USAGE};
use crate::log::{self, Level};
use crate::progress::Progress;
use crate::report::Record;
use crate::signals::Signals;

pub(crate) fn run(options: &Exchange) -> Result<(), Failure> {
    Record::around(options.reporting(), |record| step(options, record))
}

/// What a step has come to.
#[derive(Serialize)]
struct Step {
    /// Whether the run is over for this side; then there is its report.
    is_over: bool,
    /// Bytes of the message for the peer, if there is one.
    message_bytes: Option<usize>,
    #[serde(flatten)]
    report: Option<Report>,
}

fn step(options: &Exchange, record: &mut Record<'_>) -> Result<Step, Failure> {
    let signals = Signals::install()?;
    let identity = options.who.load()?;
    record.fingerprint = Some(identity.fingerprint());
    let key = options.table.key()?;
    let mut party = options.party(&identity)?;
    party.connect.interrupt = signals.interrupt().clone();
    party.check(options.role, &key)?;
    let gets = Gets::of(options.role, &party.terms);
    let finishes = options.step == CourierStep::Finish;
    let gets_rows = finishes && gets == Gets::Rows;
    let result = &options.result;
    let (output, to_table) = (result.output(), result.is_table());
    if !gets_rows && (output.is_some() || to_table || result.of_rows().is_some()) {
        return Err(Failure::usage(
            "--output, --output-table, --rows, --matched-by and --columns are for finish, on a side that learns the matches",
        ));
    }
    if gets_rows && output.is_none() && !to_table {
        // The run is over once they are written, wherever that is.
        return Err(Failure::usage(
            "say where the matching rows go: --output FILE, or - for standard output",
        ));
    }
    let target = options.table.target(result)?;
    let destination = Destination::of(target.as_ref(), output);
    if finishes && gets == Gets::Nothing {
        let problem = "this side learns no rows, and has nothing to finish: it answers";
        return Err(Failure::usage(problem));
    }
    check_message(options)?;
    let place = options.message_out.as_deref();
    if let Some(path) = place
        && let Some(found) =
            found_at(path).filter(|found| ![MESSAGE, "an empty file"].contains(found))
    {
        let line = format!(
            "{}: there is {found}, which a message would replace",
            path.display()
        );
        return Err(Failure::usage(line).hint("name another file"));
    }
    let message = match (&options.message, options.step) {
        (None, CourierStep::Offer) => None,
        (Some(path), CourierStep::Start | CourierStep::Answer | CourierStep::Finish) => {
            Some(read(path)?)
        }
        (Some(_), _) => return Err(Failure::usage("an offer takes no --message")),
        (None, _) => return Err(Failure::usage("give the peer's message: --message FILE")),
    };
    let message = message.as_deref();
    let (step, role) = (options.step, options.role);
    let courier = party.courier(step, role, &key, Rows::Matching, &options.state)?;
    courier.check(step, message)?;
    let mut progress = Progress::new(options.resources.progress(), signals, "reading the table");
    let source = options.table.open(result.source(SourceOptions {
        passes: match destination {
            Some(_) => vesica::tables::Passes::Two,
            None => vesica::tables::Passes::One,
        },
        allow_no_rows: party.allow_empty,
        memory: party.resources.memory,
        ..SourceOptions::default()
    }))?;
    record.readable_as(&source);
    let carried = courier.step(step, message, &source, destination, &mut progress)?;
    progress.finish();
    if carried.again && carried.message.is_some() {
        log::say(
            Level::Info,
            "this step was done before; its message is the same",
        );
    }
    if let Some(message) = &carried.message {
        put(options, message)?;
    }
    // The peer's courier sees when its message is there, and not how long the rows take.
    let mut report = None;
    if let Some(over) = carried.over {
        let over = report.insert(over.write(&mut progress)?.finish()?);
        progress.finish();
        tell(over);
        let state = options.state.display();
        let said = match carried.message {
            Some(_) => {
                format!("the run is over here; once the peer has this message, remove {state}")
            }
            None => format!("the run is over here; remove {state}"),
        };
        log::say(Level::Info, &said);
    }
    Ok(Step {
        is_over: report.is_some(),
        message_bytes: carried.message.as_ref().map(Vec::len),
        report,
    })
}

/// Refuses a message where there is none, and none where there is one.
fn check_message(options: &Exchange) -> Result<(), Failure> {
    let makes = match options.step {
        CourierStep::Offer | CourierStep::Start | CourierStep::Answer => true,
        // A receiver tells the sender what matches.
        CourierStep::Finish => options.agreed.both && options.role == Role::Receiver,
    };
    match (&options.message_out, makes) {
        (None, true) => {
            return Err(Failure::usage(
                "say where the message to the peer goes: --message-out FILE",
            ));
        }
        (Some(_), false) => {
            return Err(Failure::usage(
                "this step makes no message; leave --message-out away",
            ));
        }
        _ => {}
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |line: String| Failure::new(DATA, format!("{}: {line}", path.display()));
    if let Some(found) = found_at(path).filter(|found| *found != MESSAGE) {
        return Err(wrong(format!("this is {found}, and not {MESSAGE}")));
    }
    read_regular(path, MAX_MESSAGE).map_err(|e| match e.kind() {
        ErrorKind::NotFound => wrong("no such file".into()),
        _ => wrong(format!("cannot be read as a message: {e}")),
    })
}

/// Writes the message, and says what to do with it.
fn put(options: &Exchange, message: &[u8]) -> Result<(), Failure> {
    let Some(path) = &options.message_out else {
        return Ok(());
    };
    let write = || {
        let mut file = WholeFile::create(path)?;
        file.write_all(message)?;
        file.commit()
    };
    write().map_err(|e: std::io::Error| {
        let code = if is_exhausted(&e) { RESOURCE } else { USAGE };
        let line = format!("{}: cannot be written: {e}", path.display());
        Failure::new(code, line).hint("the same step again makes the same message")
    })?;
    let next = match (options.step, options.role) {
        (CourierStep::Offer, _) => CourierStep::Start,
        (CourierStep::Start, _) | (CourierStep::Answer, Role::Receiver) => CourierStep::Answer,
        (CourierStep::Answer, Role::Sender) | (CourierStep::Finish, _) => CourierStep::Finish,
    };
    let said = format!(
        "{} is for the peer, whose next step is {next}",
        path.display()
    );
    log::say(Level::Info, &said);
    Ok(())
}
