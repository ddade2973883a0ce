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
        /// Items of the receiver
        #[arg(long, default_value = "2^16", value_parser = items)]
        items: usize,
        /// Items of the sender; as many as the receiver has if not given
        #[arg(long, value_name = "N", value_parser = items)]
        sender_items: Option<usize>,
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
    /// The variant to run, by the name that it has in the output; all if not given
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl Runs {
    fn of(&self, items: usize) -> Comparison {
        self.between(items, items)
    }

    fn between(&self, receiver: usize, sender: usize) -> Comparison {
        Comparison {
            sizes: [receiver, sender],
            runs: self.runs,
            link: self.link,
            variant: self.variant.clone(),
            json: self.json,
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

/// How many variants ran, or attacks.
fn run(command: &Command) -> Result<usize, Error> {
    match command {
        Command::Attack {
            items,
            dictionary,
            seed,
        } => {
            let (items, seed) = (*items, *seed);
            let dictionary = *dictionary as usize;
            show(&Options {
                items,
                dictionary,
                seed,
            })?;
            Ok(1)
        }
        Command::Ablate { items, how } => compare(&ABLATIONS, &how.of(*items)),
        Command::Stash { items, how } => compare(&STASHES, &how.of(*items)),
        Command::Circuits { items, how } => compare(&CIRCUITS, &how.of(*items)),
        Command::Widths { items, how } => widths::compare(&how.of(*items)),
        Command::Compact { items, how } => compare(&COMPACT, &how.of(*items)),
        Command::PaperWidth {
            items,
            sender_items,
            how,
        } => {
            let sender = sender_items.unwrap_or(*items);
            compare(&FIGURES, &how.between(*items, sender))
        }
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(0) => {
            eprintln!("no variant has this name");
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
