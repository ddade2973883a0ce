//! The `vesica` command: private set intersection between two tables.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod check;
mod demo;
mod exchange;
mod failure;
mod keygen;
mod progress;
mod signals;
mod summary;

use std::process::ExitCode;

use args::Command;
use failure::Failure;

/// Runs touch a lot of fresh memory, and jump about in it.
#[global_allocator]
static ALLOCATOR: vesica_kernels::memory::HugePages = vesica_kernels::memory::HugePages;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(args::Stop::Shown) => return ExitCode::SUCCESS,
        Err(args::Stop::Failed(failure)) => return failure.report(),
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo => demo::run(),
        Command::Keygen(options) => keygen::run(&options),
        Command::Receive(options) => exchange::receive(&options),
        Command::Send(options) => exchange::send(&options),
        Command::Check(options) => check::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::BenchParty => bench::party(),
    }
}
