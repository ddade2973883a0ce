//! `vesica-research`: attacks and measurements that are no part of the product.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use vesica_research::circuits::CIRCUITS;
use vesica_research::narrow_masks::{Options, show};
use vesica_research::runs::{ABLATIONS, COMPACT, Comparison, FIGURES, STASHES, compare};
use vesica_research::widths;
use vesica_wire::{Error, Link};

#[derive(Parser)]
#[command(about = "Attacks and measurements that are no part of the product")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find the sender's secret and items in runs of LTSXQ26 as published
    Attack {
        /// Items of either side, as 4096 or 2^12
        #[arg(long, default_value = "2^12", value_parser = items)]
        items: usize,
        /// Candidates for each item of the sender's
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=256))]
        dictionary: u32,
        /// Seed of everything random
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Compare OKVSs and bit functions of sparse-okvs
    Ablate {
        /// Items of either side
        #[arg(long, default_value = "2^10", value_parser = items)]
        items: usize,
        #[command(flatten)]
        how: Runs,
    },
    /// Compare circuit-okvs with and without a stash
    Stash {
        /// Items of either side
        #[arg(long, default_value = "2^12", value_parser = items)]
        items: usize,
        #[command(flatten)]
        how: Runs,
    },
    /// Compare circuits on KKRT, CGS22's and PSTY19's, with those that ship
    Circuits {
        /// Items of either side
        #[arg(long, default_value = "2^16", value_parser = items)]
        items: usize,
        #[command(flatten)]
        how: Runs,
    },
    /// Compare tests of membership by digits of two, three, four and eight bits
    Widths {
        /// Items of the receiver
        #[arg(long, default_value = "2^16", value_parser = items)]
        items: usize,
        #[command(flatten)]
        how: Runs,
    },
    /// Compare RT21 with its polynomial and with an OKVS
    Compact {
        /// Items of either side
        #[arg(long, default_value = "2^12", value_parser = items)]
        items: usize,
        #[command(flatten)]
        how: Runs,
    },
    /// Time LTSXQ26 at its widths, at which THE SENDER'S SET LEAKS
    PaperWidth {
        /// Items of either side
        #[arg(long, default_value = "2^16", value_parser = items)]
        items: usize,
        #[command(flatten)]
        how: Runs,
    },
}

#[derive(Args)]
struct Runs {
    /// Runs, of which the median is shown
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Emulated link
    #[arg(long, value_name = "NAME", default_value = "lan", value_parser = link())]
    link: Link,
}

impl Runs {
    fn of(&self, items: usize) -> Comparison {
        Comparison {
            items,
            runs: self.runs,
            link: self.link,
        }
    }
}

fn link() -> impl TypedValueParser<Value = Link> {
    let values = Link::NAMED.map(|named| PossibleValue::new(named.name).help(named.source));
    PossibleValuesParser::new(values)
        .try_map(|name| Link::from_name(&name).ok_or("a name without a link"))
}

fn items(text: &str) -> Result<usize, String> {
    let items = match text.strip_prefix("2^") {
        Some(power) => power.parse().ok().and_then(|p| 1usize.checked_shl(p)),
        None => text.parse().ok(),
    };
    items
        .filter(|items| (64..=1 << 24).contains(items))
        .ok_or_else(|| "a number from 64 to 2^24, as 4096 or 2^12".to_owned())
}

fn run(command: &Command) -> Result<(), Error> {
    match command {
        Command::Attack {
            items,
            dictionary,
            seed,
        } => show(&Options {
            items: *items,
            dictionary: *dictionary as usize,
            seed: *seed,
        }),
        Command::Ablate { items, how } => compare(&ABLATIONS, &how.of(*items)),
        Command::Stash { items, how } => compare(&STASHES, &how.of(*items)),
        Command::Circuits { items, how } => compare(&CIRCUITS, &how.of(*items)),
        Command::Widths { items, how } => widths::compare(&how.of(*items)),
        Command::Compact { items, how } => compare(&COMPACT, &how.of(*items)),
        Command::PaperWidth { items, how } => compare(&FIGURES, &how.of(*items)),
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
