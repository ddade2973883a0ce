//! `vesica-research`: attacks and measurements that are no part of the product.

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use vesica_psi::Reveal;
use vesica_research::circuits::CIRCUITS;
use vesica_research::narrow_masks::{BitOracle, Encoding, Options, show, show_circuit};
use vesica_research::runs::{
    ABLATIONS, COMPACT, Comparison, FIGURES, STASHES, compare, compare_for, forecast,
};
use vesica_research::{ole_hashes, slices, widths};
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
        /// Attack the circuit PSI instead, in which no mask is sent
        #[arg(long)]
        circuit: bool,
        /// OKVS of the run
        #[arg(long, value_name = "NAME", default_value = "band")]
        okvs: Encoding,
        /// What the bits of rows are made of
        #[arg(long, value_name = "NAME", default_value = "aes")]
        oracle: BitOracle,
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
    /// Compare spot-low's polynomial with and without slices, streaming and one tree for all of them
    Slices {
        /// Items of either side, a power of two
        #[arg(long, default_value = "2^16", value_parser = power)]
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
    /// Compare circuits of papers, CGS22's and PSTY19's on KKRT and LTSXQ26's over masks that LEAK, with those that ship
    Circuits {
        /// What the receiver learns: size, sum, inner-product or shares; all values are 1
        #[arg(long, value_name = "NAME", default_value = "size", value_parser = reveal)]
        reveal: Reveal,
        /// Items of either side
        #[arg(long, default_value = "2^16", value_parser = items)]
        items: usize,
        /// Run nothing: only print as JSON the bytes that runs would take
        #[arg(long)]
        forecast: bool,
        #[command(flatten)]
        how: Runs,
    },
    /// Compare tests of membership by digits of two to eight bits
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
    /// Compare KBM23's online phase with two, three and four hash functions, on tuples that hide nothing
    OleHashes {
        /// Items of either side
        #[arg(long, default_value = "2^16", value_parser = items)]
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
        .filter(|items| (64..=1 << 26).contains(items))
        .ok_or_else(|| "a number from 64 to 2^26, as 4096 or 2^12".to_owned())
}

fn power(text: &str) -> Result<usize, String> {
    let power = items(text)?;
    match power.is_power_of_two() {
        true => Ok(power),
        false => Err("a power of two, as 2^16".to_owned()),
    }
}

fn reveal(text: &str) -> Result<Reveal, String> {
    let all = [
        Reveal::Size,
        Reveal::Sum,
        Reveal::InnerProduct,
        Reveal::Shares,
    ];
    let named = all.into_iter().find(|reveal| reveal.to_string() == text);
    named.ok_or_else(|| "size, sum, inner-product or shares".to_owned())
}

/// How many variants ran, or attacks.
fn run(command: &Command) -> Result<usize, Error> {
    match command {
        Command::Attack {
            circuit,
            okvs,
            oracle,
            items,
            dictionary,
            seed,
        } => {
            let options = Options {
                okvs: *okvs,
                oracle: *oracle,
                items: *items,
                dictionary: *dictionary as usize,
                seed: *seed,
            };
            match circuit {
                true => show_circuit(&options),
                false => show(&options),
            }?;
            Ok(1)
        }
        Command::Ablate { items, how } => compare(&ABLATIONS, &how.of(*items)),
        Command::Slices { items, how } => slices::compare(&how.of(*items)),
        Command::Stash { items, how } => compare(&STASHES, &how.of(*items)),
        Command::Circuits {
            reveal,
            items,
            forecast: true,
            how,
        } => Ok(forecast(*reveal, &CIRCUITS, &how.of(*items))),
        Command::Circuits {
            reveal, items, how, ..
        } => compare_for(Some(*reveal), &CIRCUITS, &how.of(*items)),
        Command::Widths { items, how } => widths::compare(&how.of(*items)),
        Command::Compact { items, how } => compare(&COMPACT, &how.of(*items)),
        Command::OleHashes { items, how } => ole_hashes::compare(&how.of(*items)),
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
