//! `vesica exchange`: runs whose messages go by files.

use std::io::{ErrorKind, Write};
use std::path::Path;

use vesica::{
    CourierStep, Destination, Gets, Identity, MAX_MESSAGE, Role, Rows, SourceOptions, WholeFile,
};
use vesica_files::{MESSAGE, found_at, is_exhausted, read_regular};

use crate::args::Exchange;
use crate::exchange::tell;
use crate::failure::{DATA, Failure, RESOURCE, USAGE};
use crate::log::{self, Level};
use crate::progress::Progress;
use crate::signals::Signals;

pub(crate) fn run(options: &Exchange) -> Result<(), Failure> {
    let signals = Signals::install()?;
    let identity = Identity::load(&options.identity)?;
    identity.check_peer(options.peer)?;
    let mut party = options.party(&identity)?;
    party.connect.interrupt = signals.interrupt().clone();
    party.check(options.role)?;
    let gets = Gets::of(options.role, &party.terms);
    let finishes = options.step == CourierStep::Finish;
    let gets_rows = finishes && gets == Gets::Rows;
    let to_table = options.output_table.is_given();
    if !gets_rows && (options.output.is_some() || to_table) {
        return Err(Failure::usage(
            "--output and --output-table are for finish, on a side that learns the matches",
        ));
    }
    let output = options.output.as_deref();
    if gets_rows && output.is_none() && !to_table {
        // The run is over once they are written, wherever that is.
        return Err(Failure::usage(
            "say where the matching rows go: --output FILE, or - for standard output",
        ));
    }
    let target = options.table.target(&options.output_table)?;
    let destination = Destination::of(target.as_ref(), output);
    if finishes && gets == Gets::Nothing {
        let problem = "this side learns no rows, and has nothing to finish: it answers";
        return Err(Failure::usage(problem));
    }
    check_message(options)?;
    let message = match (&options.message, options.step) {
        (None, CourierStep::Offer) => None,
        (Some(path), CourierStep::Start | CourierStep::Answer | CourierStep::Finish) => {
            Some(read(path)?)
        }
        (Some(_), _) => return Err(Failure::usage("an offer takes no --message")),
        (None, _) => return Err(Failure::usage("give the peer's message: --message FILE")),
    };
    let message = message.as_deref();
    let key = options.table.key()?;
    let (step, role) = (options.step, options.role);
    let courier = party.courier(step, role, &key, Rows::Matching, &options.state)?;
    courier.check(step, message)?;
    let mut progress = Progress::new(options.progress, signals, "reading the table");
    let source = options.table.open(SourceOptions {
        passes: match destination {
            Some(_) => vesica::Passes::Two,
            None => vesica::Passes::One,
        },
        allow_no_rows: party.allow_empty,
        memory: party.resources.memory,
        ..SourceOptions::default()
    })?;
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
    if let Some(over) = carried.over {
        tell(&over.write(&mut progress)?.finish()?);
        progress.finish();
        let state = options.state.display();
        let said = match carried.message {
            Some(_) => {
                format!("the run is over here; once the peer has this message, remove {state}")
            }
            None => format!("the run is over here; remove {state}"),
        };
        log::say(Level::Info, &said);
    }
    Ok(())
}

/// Refuses a message where there is none, and none where there is one.
fn check_message(options: &Exchange) -> Result<(), Failure> {
    let makes = match options.step {
        CourierStep::Offer | CourierStep::Start | CourierStep::Answer => true,
        // A receiver tells the sender what matches.
        CourierStep::Finish => options.both && options.role == Role::Receiver,
    };
    match (&options.out, makes) {
        (None, true) => {
            return Err(Failure::usage(
                "say where the message to the peer goes: --out FILE",
            ));
        }
        (Some(_), false) => {
            return Err(Failure::usage(
                "this step makes no message; leave --out away",
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
    let Some(path) = &options.out else {
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
    let next = match options.step {
        CourierStep::Offer => "start",
        _ => "answer or finish",
    };
    let said = format!(
        "{} is for the peer, whose next step is {next}",
        path.display()
    );
    log::say(Level::Info, &said);
    Ok(())
}
