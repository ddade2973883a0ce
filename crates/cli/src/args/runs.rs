//! Options of runs: `receive`, `send`, `exchange`, and `check`, which looks at a table for one.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use vesica::terms::{LEARNS, REVEAL};
use vesica::{
    ConnectOptions, CourierStep, Endpoint, Fingerprint, Identity, KeySpec, LabelExchange, Learns,
    MAX_LABEL_BYTES, MAX_STRING_BYTES, Party, PayloadColumn, PeerLimits, Resources, Role, Rows,
    SourceOptions, Terms, TextColumns, ValueColumn, half_of_the_machine, label_exchange,
    parse_address, parse_bandwidth, parse_bytes, parse_max_items, parse_protocol, text_columns,
    value_columns,
};
use vesica_plan::Registry;
use vesica_session::MAX_SCALE;

use super::parse_threads;
use super::table::{OutputTable, Table};
use super::terms::TermOptions;
use crate::conditions::Conditions;
use crate::failure::Failure;
use crate::paths::{CourierDirectory, InputPath, OutputPath, StoreDirectory, WorkDirectory};
use crate::patience::{Patience, seconds};
use crate::progress::{Progress, ProgressMode};
use crate::signals::Signals;

/// Where the peer is met.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("endpoint").required(true).args(["listen", "connect"]))]
pub(crate) struct MeetingPoint {
    /// Listen for the peer at HOST:PORT; port 0 picks a free port
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<String>,
    /// Connect to the peer at HOST:PORT; retries until --wait is over
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    connect: Option<String>,
}

impl MeetingPoint {
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        match (&self.listen, &self.connect) {
            (Some(address), None) => Ok(Endpoint::Listen(address.clone())),
            (None, Some(address)) => Ok(Endpoint::Connect(address.clone())),
            _ => Err(Failure::usage("give either --listen or --connect")),
        }
    }
}

/// Who the peer is, how to reach it, and on which terms.
#[derive(Debug, Args)]
pub(crate) struct Meeting {
    #[command(flatten)]
    point: MeetingPoint,
    /// This side's identity, made by `vesica keygen`
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
    /// The peer's fingerprint, vs1:…
    #[arg(help_heading = "Peer", long, value_name = "FINGERPRINT")]
    pub(crate) peer: Fingerprint,
    #[command(flatten)]
    agreed: TermOptions,
    /// Bandwidth of the link to the peer, such as 200mbps or 1.5gbps; --optimize auto uses it
    #[arg(help_heading = "Peer", long, value_name = "RATE", value_parser = parse_bandwidth)]
    pub(crate) bandwidth: Option<u64>,
    /// With a number: columns to sum, at most eight, or one column to multiply, on the side that has them. With matches:
    /// columns that the sender hands over with the matching rows. Separated by commas, as in --key
    #[arg(help_heading = "Values", long, value_name = "COL[,COL…]")]
    value: Option<String>,
    /// Bytes per key for the columns that are handed over: their texts, and two bytes per column; 64 if not given. The peer
    /// learns this number. On a receiver with --take-values the most that it accepts
    #[arg(help_heading = "Values", long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LABEL_BYTES)))]
    value_width: Option<u32>,
    /// Digits after the decimal point of the values, 0 to 18; 0 if not given. One number for all columns, or one for each
    #[arg(help_heading = "Values", long, value_name = "DIGITS[,DIGITS…]", value_delimiter = ',', requires = "value",
          value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_SCALE)))]
    value_scale: Vec<u8>,
    /// Largest absolute value of a key, such as 1000 or 99.99, which the peer learns; 2^31 - 1 units of the last digit if not
    /// given. One number for all columns, or one for each
    #[arg(
        help_heading = "Values",
        long,
        value_name = "N[,N…]",
        value_delimiter = ',',
        requires = "value"
    )]
    value_bound: Vec<String>,
    /// Value of a key that several rows have
    #[arg(help_heading = "Values", long, value_enum, default_value_t = Repeated::Sum, requires = "value")]
    value_repeated: Repeated,
    /// With --reveal shares: a text column, of which both sides get shares, as UTF-8 bytes padded with zeros
    #[arg(
        help_heading = "Values",
        long,
        value_name = "COL",
        requires = "payload_width"
    )]
    payload: Option<String>,
    /// Bytes per key of the payload, which the peer learns; longer texts are an error
    #[arg(help_heading = "Values", long, value_name = "BYTES", requires = "payload", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_STRING_BYTES)))]
    payload_width: Option<u32>,
    #[arg(help_heading = "Agreed with the peer", long, value_name = "auto|NAME", default_value = "auto",
          help = format!("Protocol: auto, {}", Registry::standard().names()))]
    protocol: String,
    /// With --protocol ole: where its correlations come from, as in the names ole-NAME
    #[arg(help_heading = "Prepared correlations", long, value_name = "NAME")]
    offline: Option<String>,
    /// With --protocol ole: directory of prepared correlations (see `vesica offline`); the run uses up one pair
    #[arg(help_heading = "Prepared correlations", long, value_name = "DIR")]
    offline_store: Option<StoreDirectory>,
    /// With --offline dealer or tee: use only a pair whose dealer, or both of whose generators, were attested as this, in the
    /// form that `vesica offline ls` prints: a platform, or "PLATFORM MEASUREMENT". If not given, any pair without a
    /// simulated report
    #[arg(
        help_heading = "Prepared correlations",
        long,
        value_name = "SHOWN",
        requires = "offline_store"
    )]
    attested: Option<String>,
    /// Most distinct keys that the peer may bring, up to 2^35; each bucket, with its padding, stays below 2^28. This bounds
    /// what the peer can learn and what it can cost. In a job of tasks it counts all attempts together, each of which may
    /// bring other keys
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = parse_max_items, default_value = "2^28")]
    max_peer_items: u64,
    /// Largest --value-bound that the peer may declare, in units of its last digit: 100000 allows --value-bound 1000 at
    /// --value-scale 2. The larger the values that a dishonest receiver may choose, the more one result can tell it about
    /// single keys; no limit if not given
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_peer_value_bound: Option<u64>,
    /// Most --value columns that the peer may have, 1 to 8. With two, a dishonest receiver can make its sums differ by a
    /// single key, however small --max-peer-value-bound is
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), default_value_t = 8)]
    max_peer_values: u8,
    /// The sender learns the matches or the number too. Give it on both sides. A dishonest receiver can lie to the sender
    /// about them. Not with threshold-matches or shares
    #[arg(help_heading = "Agreed with the peer", long)]
    pub(crate) both: bool,
    /// Approximate memory for the run, such as 512M or 4G; half of this machine's if not given. Larger sets run in buckets,
    /// with their keys encrypted in an unnamed file
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Directory from which a run resumes after a failure: run the same command again, on both sides. A result that was found
    /// but not written is written without the peer. Created if missing, and removed once the result is written
    #[arg(long, value_name = "DIR")]
    work_dir: Option<WorkDirectory>,
    /// Accept a table without a usable key, which matches nothing; otherwise that is an error
    #[arg(long)]
    pub(crate) allow_empty: bool,
    #[command(flatten)]
    patience: Patience,
    /// Longest time of the run from when the contract is agreed; then it ends with exit code 4. If not given: ten times what
    /// the sizes take at 1 Mb/s and at a tenth of this machine's speed (docs/reliability.md), and at least 3600. Agreeing on
    /// the contract may take as long, or if not given --wait and at least 3600
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// File for a JSON report of the run; `-` is standard output, where it replaces a value
    #[arg(help_heading = "Result", long, value_name = "FILE.json")]
    pub(crate) report: Option<OutputPath>,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

impl Meeting {
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.point.endpoint()
    }

    /// How this side waits and connects.
    pub(crate) fn connect(
        &self,
        progress: &Progress,
        signals: &Signals,
        conditions: Conditions,
    ) -> ConnectOptions {
        ConnectOptions {
            deadline: self.deadline,
            bandwidth: self.bandwidth,
            ..self.patience.options(progress, signals, conditions)
        }
    }

    /// Gives the party what these options say of a run; `labels` are those of [`Meeting::labels`].
    pub(crate) fn complete(&self, labels: LabelExchange, party: &mut Party) -> Result<(), Failure> {
        party.protocol = parse_protocol(&self.protocol, self.offline.as_deref())?;
        party.terms = self.terms();
        party.peer_limits = PeerLimits {
            items: self.max_peer_items,
            value_bound: self.max_peer_value_bound,
            values: self.max_peer_values,
        };
        party.values = self.values(&labels)?;
        party.labels = labels;
        let (column, width) = (self.payload.as_deref(), self.payload_width);
        party.payload = PayloadColumn::new(column, width)?;
        party.resources = Resources {
            memory: self.memory.or_else(half_of_the_machine),
            threads: self.threads,
            work_dir: self.work_dir.as_ref().map(|path| path.to_path_buf()),
            offline_store: self.offline_store.as_ref().map(|path| path.to_path_buf()),
            attested: self.attested.clone(),
        };
        party.allow_empty = self.allow_empty;
        Ok(())
    }

    /// What is read of the table; `more` has what these options do not determine.
    pub(crate) fn source(&self, party: &Party, more: SourceOptions) -> SourceOptions {
        SourceOptions {
            allow_no_rows: self.allow_empty,
            memory: party.resources.memory,
            wait: Some(self.patience.wait),
            ..more
        }
    }

    /// What a side does about columns that are handed over; `takes` says that a receiver wants some.
    pub(crate) fn labels(&self, role: Role, takes: bool) -> Result<LabelExchange, Failure> {
        let columns = self.columns()?;
        let reveal = self.agreed.terms.get(&REVEAL);
        let labels = label_exchange(role, reveal, columns, takes, self.value_width)?;
        let computes = !self.value_scale.is_empty()
            || !self.value_bound.is_empty()
            || self.value_repeated == Repeated::Refuse;
        if !labels.is_nothing() && computes {
            let problem =
                "--value-scale, --value-bound and --value-repeated are for values to compute with";
            return Err(Failure::usage(problem));
        }
        Ok(labels)
    }

    /// The names of the columns of values.
    fn columns(&self) -> Result<Vec<String>, Failure> {
        names_of(&self.value)
    }

    /// The columns of values to compute with.
    fn values(&self, labels: &LabelExchange) -> Result<Vec<ValueColumn>, Failure> {
        if !labels.is_nothing() {
            return Ok(Vec::new());
        }
        let sums_repeated = self.value_repeated == Repeated::Sum;
        let (scales, bounds) = (&self.value_scale, &self.value_bound);
        Ok(value_columns(
            &self.columns()?,
            scales,
            bounds,
            sums_repeated,
        )?)
    }

    /// What both sides must agree on.
    pub(crate) fn terms(&self) -> Terms {
        let mut terms = self.agreed.terms.clone();
        if self.both {
            terms.set(&LEARNS, Learns::Both);
        }
        terms
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Repeated {
    /// The sum of the values of its rows
    Sum,
    /// A table with such a key is an error
    Refuse,
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    /// File or object (s3://bucket/key, gs://, az://, abfs://) for the matching rows; its name decides the format, else it is
    /// that of the input. Shares are CSV. `-`, the default, is standard output. Numbers are only printed
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    pub(crate) output: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) output_table: OutputTable,
    /// Rows of this side's table in the result: those that match (the default), the rest, or all with a column in_both
    #[arg(help_heading = "Result", long, value_name = "matching|rest|all", value_parser = Rows::from_str)]
    pub(crate) rows: Option<Rows>,
    /// With --both, on both sides: write the matching rows in the same order on both sides, with a column match_number that
    /// agrees
    #[arg(
        help_heading = "Result",
        long,
        conflicts_with = "rows",
        requires = "both"
    )]
    pub(crate) align: bool,
    /// Add the columns that the sender hands over (its --value) to the matching rows, as text, with peer_ before their names
    #[arg(help_heading = "Values", long)]
    pub(crate) take_values: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    /// With --both: file for the matching rows; its name decides the format, else it is that of the input. With --reveal
    /// shares: CSV file for this side's shares. `-`, the default, is standard output
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    pub(crate) output: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) output_table: OutputTable,
    /// With --both: rows of this side's table in the result: those that match (the default), the rest, or all with a column
    /// in_both
    #[arg(help_heading = "Result", long, value_name = "matching|rest|all", value_parser = Rows::from_str)]
    pub(crate) rows: Option<Rows>,
    /// With --both, on both sides: write the matching rows in the same order on both sides, with a column match_number that
    /// agrees
    #[arg(
        help_heading = "Result",
        long,
        conflicts_with = "rows",
        requires = "both"
    )]
    pub(crate) align: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exchange {
    /// offer begins a run, start takes an offer, answer takes a message and makes the next one, finish takes the last and
    /// writes the result. Repeat the options of the first step in each
    #[arg(value_name = "offer|start|answer|finish", value_parser = CourierStep::from_str)]
    pub(crate) step: CourierStep,
    /// This side's role; either may offer, and three messages suffice if the sender does
    #[arg(help_heading = "Agreed with the peer", long, value_name = "receiver|sender", value_parser = role)]
    pub(crate) role: Role,
    #[command(flatten)]
    pub(crate) table: Table,
    /// This side's identity, made by `vesica keygen`
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
    /// The peer's fingerprint, vs1:…
    #[arg(help_heading = "Peer", long, value_name = "FINGERPRINT")]
    pub(crate) peer: Fingerprint,
    /// Directory for this side's encrypted state between steps; the first step creates it. A copy of it is not accepted.
    /// Remove it when the run is over
    #[arg(long, value_name = "DIR")]
    pub(crate) state: CourierDirectory,
    /// The peer's message; not for offer
    #[arg(long, value_name = "FILE")]
    pub(crate) message: Option<InputPath>,
    /// File for the message to the peer. Repeating the last step with the same message and keys writes the same message
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<OutputPath>,
    /// With finish: file for the matching rows; its name decides the format, else it is that of the input. `-` is standard
    /// output
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    pub(crate) output: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) output_table: OutputTable,
    #[command(flatten)]
    agreed: TermOptions,
    /// compact-dh, which is secure against malicious peers and takes up to 2^20 keys, or another protocol of two messages
    #[arg(
        help_heading = "Agreed with the peer",
        long,
        value_name = "auto|NAME",
        default_value = "auto"
    )]
    protocol: String,
    /// The sender learns the matches too. Give it on both sides. A dishonest receiver can lie to the sender about them
    #[arg(help_heading = "Agreed with the peer", long)]
    pub(crate) both: bool,
    /// Most distinct keys that the peer may bring
    #[arg(help_heading = "Limits on the peer", long, value_name = "N", value_parser = parse_max_items, default_value = "2^28")]
    max_peer_items: u64,
    /// Approximate memory for keys, such as 512M or 4G; half of this machine's if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Accept a table without a usable key, which matches nothing; otherwise that is an error
    #[arg(long)]
    allow_empty: bool,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

impl Exchange {
    /// This side as the options describe it.
    pub(crate) fn party(&self, identity: &Identity) -> Result<Party, Failure> {
        let mut terms = self.agreed.terms.clone();
        if self.both {
            terms.set(&LEARNS, Learns::Both);
        }
        Ok(Party {
            protocol: parse_protocol(&self.protocol, None)?,
            terms,
            peer_limits: PeerLimits {
                items: self.max_peer_items,
                ..PeerLimits::default()
            },
            resources: Resources {
                memory: self.memory.or_else(half_of_the_machine),
                threads: self.threads,
                ..Resources::default()
            },
            allow_empty: self.allow_empty,
            ..Party::new(identity, self.peer, Endpoint::Courier)
        })
    }
}

fn role(text: &str) -> Result<Role, &'static str> {
    match text {
        "receiver" => Ok(Role::Receiver),
        "sender" => Ok(Role::Sender),
        _ => Err("a side is the receiver or the sender"),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) table: Table,
    /// Columns to hand over with the matching rows, separated by commas as in --key: reports rows that do not fit
    #[arg(long, value_name = "COL[,COL…]")]
    value: Option<String>,
    /// Bytes per key for these columns: their texts, and two bytes per column; 64 if not given
    #[arg(long, value_name = "BYTES", requires = "value",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LABEL_BYTES)))]
    value_width: Option<u32>,
    /// Show the keys of the first N rows, each value as it is and as it is compared
    #[arg(long, value_name = "N")]
    pub(crate) show: Option<usize>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Approximate memory for the check, such as 512M or 4G; half of this machine's if not given. Keys that do not fit go to
    /// an unnamed file, encrypted
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
}

/// The names in a list of columns.
fn names_of(list: &Option<String>) -> Result<Vec<String>, Failure> {
    Ok(match list {
        Some(names) => KeySpec::parse::<&str>(names, &[])?.names(),
        None => Vec::new(),
    })
}

impl Check {
    /// The columns to hand over, if there are some.
    pub(crate) fn texts(&self, key: &KeySpec) -> Result<Option<TextColumns>, Failure> {
        Ok(text_columns(key, names_of(&self.value)?, self.value_width)?)
    }

    /// Approximate memory in bytes; `None` is no limit.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.or_else(half_of_the_machine)
    }
}
