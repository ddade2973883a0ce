//! Options that several commands have, each declared once. Where a command says something else of one, `args::parse` has its
//! words.

use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use vesica::options::{half_of_the_machine, parse_address, parse_bytes, parse_duration};
use vesica::tables::IngestMode;
use vesica::{Endpoint, Fingerprint, Identity, Resources, Rows, SourceOptions};

use crate::failure::Failure;
use crate::paths::{InputPath, OutputPath};
use crate::progress::ProgressMode;
use crate::report::Reporting;

#[derive(Debug, Args)]
pub(crate) struct IdentityOption {
    /// This side's identity, made by `vesica keygen`
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
}

impl IdentityOption {
    pub(crate) fn load(&self) -> Result<Identity, Failure> {
        Ok(Identity::load(&*self.identity)?)
    }
}

/// Who this side is, and who the peer.
#[derive(Debug, Args)]
pub(crate) struct Identified {
    #[command(flatten)]
    pub(crate) own: IdentityOption,
    /// The peer's fingerprint, vs1:…
    #[arg(help_heading = "Peer", long, value_name = "FINGERPRINT")]
    pub(crate) peer: Fingerprint,
}

impl Identified {
    /// This side's identity, which is not the peer's.
    pub(crate) fn load(&self) -> Result<Identity, Failure> {
        let identity = self.own.load()?;
        identity.check_peer(self.peer)?;
        Ok(identity)
    }
}

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

    /// Whether this side listens or connects.
    pub(crate) fn is_given(&self) -> bool {
        self.listen.is_some() || self.connect.is_some()
    }
}

#[derive(Debug, Args)]
pub(crate) struct DeadlineOption {
    /// Longest time of the run from when the contract is agreed; then it ends with exit code 4. If not given: ten times what
    /// the sizes take at 1 Mb/s and at a tenth of this machine's speed (docs/reliability.md), and at least 3600. Agreeing on
    /// the contract may take as long, or if not given --wait and at least 3600
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", value_parser = parse_duration)]
    pub(crate) deadline: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct MemoryOption {
    /// Approximate memory, such as 512M or 4G; half of this machine's if not given. Keys that do not fit go to an unnamed
    /// file, encrypted, and larger sets run in buckets
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,
}

impl MemoryOption {
    /// In bytes; `None` is no limit.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.memory.or_else(half_of_the_machine)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ThreadsOption {
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[derive(Debug, Args)]
pub(crate) struct ProgressOption {
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

/// What a command that reads a table may use of this machine, and how it shows how far it is.
#[derive(Debug, Args)]
pub(crate) struct ResourceOptions {
    #[command(flatten)]
    memory: MemoryOption,
    #[command(flatten)]
    threads: ThreadsOption,
    #[command(flatten)]
    progress: ProgressOption,
}

impl ResourceOptions {
    /// Approximate memory in bytes; `None` is no limit.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.bytes()
    }

    pub(crate) fn threads(&self) -> Option<NonZeroUsize> {
        self.threads.threads
    }

    pub(crate) fn progress(&self) -> ProgressMode {
        self.progress.progress
    }

    pub(crate) fn resources(&self) -> Resources {
        Resources {
            memory: self.memory(),
            threads: self.threads(),
            ..Resources::default()
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AllowEmpty {
    /// Accept a table without a usable key, which matches nothing; otherwise that is an error
    #[arg(long)]
    pub(crate) allow_empty: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOption {
    /// File for a JSON report; `-` is standard output
    #[arg(help_heading = "Result", long, value_name = "FILE.json")]
    report: Option<OutputPath>,
}

impl ReportOption {
    /// The report of a command without a peer and a result.
    pub(crate) fn reporting(&self) -> Reporting<'_> {
        Reporting {
            role: None,
            peer: None,
            report: self.report.as_deref(),
            output: None,
        }
    }
}

/// Where the rows of a result go, and which they are.
#[derive(Debug, Args)]
pub(crate) struct ResultOptions {
    /// File or object (s3://bucket/key, gs://, az://, abfs://) for the matching rows; its name decides the format, else it is
    /// that of the input. `-`, the default, is standard output
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    output: Option<OutputPath>,
    /// Table of --database for the matching rows, instead of --output: NAME or SCHEMA.NAME. It is written in one transaction,
    /// once all rows are known. Columns of a text file become text columns. A SQLite file has to exist; it may be empty
    #[arg(
        help_heading = "Result",
        long,
        value_name = "NAME",
        conflicts_with = "output"
    )]
    pub(crate) output_table: Option<String>,
    /// create makes a new table, and fails if there is one; append adds rows to an existing table, by column name; replace
    /// drops an existing table, with its grants, indexes and triggers, and makes a new one
    #[arg(help_heading = "Result", long, value_name = "create|append|replace", default_value = "create",
          requires = "output_table", value_parser = IngestMode::from_str)]
    pub(crate) output_table_mode: IngestMode,
    /// Rows of this side's table in the result: those that match (the default), the rest, or all with a column in_both
    #[arg(help_heading = "Result", long, value_name = "matching|rest|all", value_parser = Rows::from_str)]
    pub(crate) rows: Option<Rows>,
    /// With --match: add this column to the result, with the name of the first identifier by which a row matches
    #[arg(help_heading = "Result", long, value_name = "COL")]
    pub(crate) matched_by: Option<String>,
    /// Columns of this side's table that the result has, in this order (default: all). Those that are added come after them
    #[arg(
        help_heading = "Result",
        long,
        value_name = "COL",
        value_delimiter = ','
    )]
    pub(crate) columns: Vec<String>,
}

impl ResultOptions {
    /// The file, if one was named.
    pub(crate) fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    pub(crate) fn is_table(&self) -> bool {
        self.output_table.is_some()
    }

    /// The first option that is given and says what rows the result has.
    pub(crate) fn of_rows(&self) -> Option<&'static str> {
        let given = [
            ("--rows", self.rows.is_some()),
            ("--matched-by", self.matched_by.is_some()),
            ("--columns", !self.columns.is_empty()),
        ];
        let first = given.iter().find(|(_, is_given)| *is_given)?;
        Some(first.0)
    }

    /// What opens a table of which the result has rows, with more options.
    pub(crate) fn source(&self, more: SourceOptions) -> SourceOptions {
        SourceOptions {
            rows: self.rows.unwrap_or_default(),
            matched_by: self.matched_by.clone(),
            columns: self.columns.clone(),
            ..more
        }
    }

    /// The file, or standard output, unless the rows go to a table.
    pub(crate) fn file(&self) -> Option<&Path> {
        let stdout = (!self.is_table()).then_some(Path::new("-"));
        self.output().or(stdout)
    }
}

pub(crate) fn parse_threads(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "there is at least one thread")
}
