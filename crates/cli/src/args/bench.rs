//! Options of `bench` and `plan`.

use std::num::NonZeroUsize;

use clap::{Args, Subcommand, ValueEnum};
use vesica::options::find_protocol;
use vesica::{Reveal, Role, Terms};
use vesica_kernels::Backend;
use vesica_plan::Registry;
use vesica_plan::buckets::MAX_ITEMS;
use vesica_psi::Spec;
use vesica_session::MAX_STRING_BYTES;
use vesica_session::terms::{KEY_BITS, REVEAL, SECURITY, parse_items, parse_size};

use super::runs::{Receive, Send};
use super::terms::{TermOptions, typed};
use super::values::Network;
use crate::failure::Failure;
use crate::offline::{Dealer, Generator, Offline};
use crate::options::parse_threads;
use crate::paths::{InputPath, OutputFile};

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[arg(long, value_name = "auto|NAME", default_value = "auto",
          help = format!("Protocol: auto, {}", Registry::standard().names()))]
    protocol: String,
    /// With --protocol ole: where its correlations come from, as in the names ole-NAME
    #[arg(long, value_name = "NAME")]
    offline: Option<String>,
    /// Items are distinct numbers of this many bits, up to 64, as with `--normalize COL=integer:BITS`; otherwise strings of
    /// 128 bits
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) items: Option<u32>,
    /// Items of the receiver, such as 65536 or 2^16
    #[arg(long, value_name = "N", value_parser = parse_size, default_value = "2^20")]
    pub(crate) receiver_size: u64,
    /// Items of the sender; as many as the receiver has if not given
    #[arg(long, value_name = "N", value_parser = parse_size)]
    sender_size: Option<u64>,
    /// With --reveal sum or size,sum: columns of the sender's values, at most eight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) value_columns: u8,
    /// With --reveal shares: bytes of each side's payload; none if not given. With --reveal union: bytes of a row, at least 3; 16
    /// if not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_STRING_BYTES)))]
    payload_width: Option<u32>,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Threads of each party
    #[arg(long, value_name = "T", default_value_t = NonZeroUsize::MIN, value_parser = parse_threads)]
    pub(crate) threads: NonZeroUsize,
    #[command(flatten)]
    agreed: TermOptions,
    /// Measure one party alone, on all processors: both run once, then this one runs again with the same randomness, and
    /// reads the peer's frames from memory. Without tables, TLS or network
    #[arg(long, value_name = "receiver|sender", value_parser = ["receiver", "sender"],
          conflicts_with_all = ["items", "payload_width", "transport", "value_columns"])]
    alone: Option<String>,
    /// Number of runs; results are medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Transport; TCP if not given. With a dealer always TLS, since halves belong to identities
    #[arg(long, value_enum)]
    transport: Option<Carrier>,
    /// Best instruction set that the arithmetic may use
    #[arg(long, value_enum, default_value_t = Kernels::Best)]
    pub(crate) backend: Kernels,
    /// Seed of the random items
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Only measure fixed-key AES-128 on one core, in blocks per second, and print the instruction sets in use
    #[arg(long, conflicts_with_all = ["protocol", "receiver_size", "sender_size"])]
    pub(crate) yardstick: bool,
}

/// Bytes of a row of a union, if others are not given.
const ROW_BYTES: u32 = 16;

/// Bytes of the length of a text that is handed over.
const LENGTH_BYTES: u32 = 2;

impl Bench {
    /// The protocol to measure; `None` is the one that runs of these sizes take by themselves.
    pub(crate) fn protocol(&self) -> Result<Option<&'static Spec>, Failure> {
        match (self.protocol.as_str(), self.offline.as_deref()) {
            ("auto", None) => Ok(None),
            (name, offline) => Ok(Some(find_protocol(name, offline)?)),
        }
    }

    /// The party that is measured by itself.
    pub(crate) fn alone(&self) -> Option<Role> {
        self.alone.as_deref().map(|role| match role {
            "receiver" => Role::Receiver,
            _ => Role::Sender,
        })
    }

    /// Items of the sender.
    pub(crate) fn sender_size(&self) -> u64 {
        self.sender_size.unwrap_or(self.receiver_size)
    }

    /// What carries the frames of a run, whose correlations come from a dealer if `is_dealt`.
    pub(crate) fn transport(&self, is_dealt: bool) -> Result<Carrier, Failure> {
        match (self.transport, is_dealt) {
            (Some(Carrier::Tcp), true) => Err(Failure::usage(
                "a dealer's halves are for two identities, which --transport tcp has not",
            )),
            (transport, false) => Ok(transport.unwrap_or(Carrier::Tcp)),
            (_, true) => Ok(Carrier::Tls),
        }
    }

    /// The bits of items that are numbers; there are enough of those for both sets.
    fn key_bits(&self) -> Result<Option<u32>, Failure> {
        let items = self.receiver_size + self.sender_size();
        match self.items.filter(|bits| items > u64::MAX >> (64 - bits)) {
            None => Ok(self.items),
            Some(bits) => Err(Failure::usage(format!(
                "there are fewer numbers of {bits} bits than items"
            ))),
        }
    }

    /// What both sides agree on in a run of `protocol`.
    pub(crate) fn terms(&self, protocol: Option<&Spec>) -> Result<Terms, Failure> {
        let mut terms = self.agreed.terms.clone();
        if let Some(protocol) = protocol {
            if !self.agreed.is_given("security") {
                terms.set(&SECURITY, protocol.security);
            }
            let able = Registry::standard().get(protocol.name);
            let able = able.and_then(|protocol| protocol.reveals().first());
            if let Some(first) = able.filter(|_| !self.agreed.is_given("reveal")) {
                terms.set(&REVEAL, (*first).into());
            }
        }
        terms.set(&KEY_BITS, self.key_bits()?);
        Ok(terms)
    }

    /// Bytes of each side's payload in a run on these terms, in a union without those of its length; 0 if there is none.
    pub(crate) fn payload_bytes(&self, terms: &Terms) -> Result<usize, Failure> {
        let reveal = terms.get(&REVEAL);
        match self.payload_width {
            width if reveal.is_rows() => {
                let text = width.unwrap_or(ROW_BYTES).checked_sub(LENGTH_BYTES);
                let text = text.filter(|bytes| *bytes > 0);
                text.map(|bytes| bytes as usize)
                    .ok_or_else(|| Failure::usage("a row of a union has at least 3 bytes"))
            }
            Some(_) if reveal != Reveal::Shares => Err(Failure::usage(
                "--payload-width is for --reveal shares and --reveal union",
            )),
            width => Ok(width.unwrap_or(0) as usize),
        }
    }

    /// The width that a side names for a payload of so many bytes.
    pub(crate) fn payload_width(&self, terms: &Terms, bytes: usize) -> usize {
        match terms.get(&REVEAL).is_rows() {
            true => bytes + LENGTH_BYTES as usize,
            false => bytes,
        }
    }

    /// The options of a side that agrees on these terms.
    pub(crate) fn agreed(&self, terms: &Terms) -> Vec<String> {
        let (security, reveal) = (terms.get(&SECURITY).name(), terms.get(&REVEAL).to_string());
        let usual = [("security", security), ("reveal", &reveal)].into_iter();
        let usual = usual.filter(|(name, _)| !self.agreed.is_given(name));
        let usual = usual.flat_map(|(name, value)| typed(name, value));
        self.agreed.typed().chain(usual).collect()
    }
}

/// A command under the conditions of a benchmark.
#[derive(Debug, Args)]
pub(crate) struct BenchParty {
    #[command(flatten)]
    pub(crate) network: Network,
    #[arg(long, value_enum)]
    pub(crate) transport: Carrier,
    #[arg(long, value_enum)]
    pub(crate) backend: Kernels,
    #[command(subcommand)]
    pub(crate) command: Measured,
}

/// The commands of which a benchmark is made.
#[derive(Debug, Subcommand)]
pub(crate) enum Measured {
    Receive(Box<Receive>),
    Send(Box<Send>),
    Offline(Offline),
    Dealer(Dealer),
    Generator(Generator),
}

/// The size of a set of any run.
fn parse_any_size(text: &str) -> Result<u64, &'static str> {
    let size = parse_items(text).filter(|size| *size <= MAX_ITEMS);
    size.ok_or("a size is a number up to 2^31, as 65536, 1M or 2^16")
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Items of the receiver, such as 65536, 1M or 2^16, up to 2^31. Sets beyond what a protocol takes at once run in buckets
    #[arg(long, value_name = "N", value_parser = parse_any_size, required_unless_present = "calibrate")]
    pub(crate) receiver_size: Option<u64>,
    /// Items of the sender; as many as the receiver has if not given
    #[arg(long, value_name = "N", value_parser = parse_any_size)]
    pub(crate) sender_size: Option<u64>,
    /// Items are numbers of this many bits, up to 64, as with `--normalize COL=integer:BITS`
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) items: Option<u32>,
    /// With --reveal sum or size,sum: columns of the sender's values, at most eight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) value_columns: u8,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Threads of each party
    #[arg(long, value_name = "T", default_value_t = NonZeroUsize::MIN, value_parser = parse_threads)]
    pub(crate) threads: NonZeroUsize,
    #[command(flatten)]
    pub(crate) agreed: TermOptions,
    /// JSON file with prices of machines and traffic, in the form of crates/plan/data/prices.json, instead of those
    #[arg(long, value_name = "FILE.json")]
    pub(crate) prices: Option<InputPath>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Print CSV instead of a table
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Run every protocol on this machine, for a minute in all, and use the times in later plans
    #[arg(long, conflicts_with_all = ["receiver_size", "sender_size", "prices", "json", "csv"])]
    pub(crate) calibrate: bool,
    /// File for these times; vesica/calibration.json below XDG_CONFIG_HOME or ~/.config if not given
    #[arg(long, value_name = "FILE.json")]
    pub(crate) calibration: Option<OutputFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Carrier {
    /// Plaintext TCP on this machine's loopback
    Tcp,
    /// TLS 1.3 over it, as real runs use
    Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kernels {
    /// All that this machine has
    Best,
    /// AVX2, AES-NI and PCLMULQDQ: no AVX-512, GFNI or VAES
    Avx2,
    /// The same with GFNI: processors of recent years without AVX-512
    Gfni,
    /// Portable code only, except what libraries detect by themselves
    Portable,
}

impl Kernels {
    pub(crate) fn backend(self) -> Backend {
        match self {
            Kernels::Best => Backend::Best,
            Kernels::Avx2 => Backend::Avx2,
            Kernels::Gfni => Backend::Gfni,
            Kernels::Portable => Backend::Portable,
        }
    }
}
