//! The `vesica` command: private set intersection between two tables. The program is [`main`], and [`run_within`] another
//! program; what else is public is for its tests.

mod args;
mod bench;
mod check;
mod conditions;
mod config;
mod courier;
mod demo;
mod doctor;
mod exchange;
mod failure;
mod identity;
mod invite;
mod invited;
mod keygen;
mod ledger;
mod log;
mod manual;
mod memory;
mod metrics;
mod offline;
mod options;
mod paths;
mod patience;
mod plan;
mod process;
mod progress;
mod published;
mod report;
mod signals;
mod stdout;
mod summary;
mod tasks;
mod variables;

use std::ffi::OsString;
use std::panic;
use std::path::Path;
use std::process::ExitCode;

use args::{Command, Parsed, Receive, Send};
use conditions::Conditions;
use failure::Failure;
#[doc(hidden)]
pub use paths::PathUse;
use report::Record;
#[doc(hidden)]
pub use vesica::tables::PathKind;
use vesica_kernels::process::ignore_file_size_signal;

/// The exit code of a limit of this machine.
pub const OUT_OF_RESOURCES: u8 = failure::RESOURCE;

/// What to print where there is no memory left.
pub const OUT_OF_MEMORY: &str = "vesica: out of memory\n\
    hint: give --memory a smaller size, or this process a larger limit (ulimit -v)\n";

/// The commands and their options.
#[doc(hidden)]
pub fn definition() -> clap::Command {
    args::definition(&[])
}

/// What a command does with the path in an option, if there is one.
#[doc(hidden)]
pub fn path_use(arg: &clap::Arg) -> Option<PathUse> {
    paths::path_use(arg)
}

/// Runs the command that this process was started with.
pub fn main() -> ExitCode {
    execute(std::env::args_os()).into()
}

/// Runs a command in the process of another program, which has nothing else to do; returns the exit code. `program` starts
/// that program again, as far as the command's arguments.
pub fn run_within(program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    process::set_program(program);
    execute(std::iter::once("vesica".into()).chain(arguments))
}

fn execute(arguments: impl Iterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.collect();
    variables::without_line_ends(&arguments);
    ignore_file_size_signal();
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        // What a damaged file does to the library that reads it becomes an error of its own.
        match (vesica::tables::panic_is_caught(), log::is_json()) {
            (true, _) => {}
            (false, true) => log::say(log::Level::Error, &failure::one_line(&info.to_string())),
            (false, false) => report(info),
        }
    }));
    let parsed = match args::parse(arguments.into_iter()) {
        Ok(parsed) => parsed,
        Err(args::Stop::Shown) => return 0,
        Err(args::Stop::Failed(failure)) => {
            variables::warn_of_unknown();
            return failure.report();
        }
    };
    variables::warn_of_unknown();
    match run(parsed) {
        Ok(()) => 0,
        Err(failure) => signals::cause(failure).report(),
    }
}

fn run(Parsed { command, paths }: Parsed) -> Result<(), Failure> {
    paths
        .check()
        .map_err(Failure::from)
        .inspect_err(|failure| {
            let Some(of) = command.reporting() else {
                return;
            };
            // The report may be what is in the way.
            let option = match of.report {
                Some(path) if path == Path::new("-") => "standard output",
                _ => "--report",
            };
            let record = (paths.may_write(option))
                .then(|| Record::open(of).ok())
                .flatten();
            if let (
                Some(role),
                Command::Receive(Receive { link, run, .. }) | Command::Send(Send { link, run, .. }),
            ) = (of.role, &command)
                && !run.invited.is_given()
            {
                exchange::tell_of(failure, role, link, Conditions::REAL);
            }
            if let Some(record) = record {
                record.failed(failure);
            }
        })?;
    match command {
        Command::Demo => demo::run(),
        Command::Keygen(options) => keygen::run(&options),
        Command::Fingerprint(options) => keygen::fingerprint(&options),
        Command::Invite(options) => invite::run(&options),
        Command::Receive(options) => exchange::receive(&options, Conditions::REAL),
        Command::Send(options) => exchange::send(&options, Conditions::REAL),
        Command::Exchange(options) => courier::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Offline(options) => offline::run(&options, Conditions::REAL),
        Command::Dealer(options) => offline::dealer(&options, Conditions::REAL),
        Command::Generator(options) => offline::generator(&options, Conditions::REAL),
        Command::Publish(options) => published::publish(&options),
        Command::Serve(options) => published::serve(&options),
        Command::Lookup(options) => published::lookup(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Split(options) => tasks::split(&options, Conditions::REAL),
        Command::Bucket(options) => tasks::bucket(&options, Conditions::REAL),
        Command::Gateway(options) => tasks::gateway(&options),
        Command::Attempts(options) => tasks::attempts(&options, Conditions::REAL),
        Command::Collect(options) => tasks::collect(&options),
        Command::Total(options) => tasks::total(&options, Conditions::REAL),
        Command::Ledger(options) => ledger::run(&options),
        Command::Completions(options) => manual::completions(&options),
        Command::Man(options) => manual::man(&options),
        Command::BenchParty(options) => bench::party(&options),
    }
}
