//! Options that several commands have, each declared once. Where a command says something else of one, `args::parse` has its
//! words.

use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use vesica::options::{
    half_of_the_machine, parse_address, parse_bytes, parse_duration, parse_peer_address, parse_sni,
};
use vesica::tables::IngestMode;
use vesica::{Account, ConnectOptions, Endpoint, Resources, Rows, SourceOptions};
use vesica_files::read_regular;
use vesica_session::{Authorities, Proxies};

use crate::failure::Failure;
use crate::paths::{InputPath, OutputFile, OutputPath};
use crate::progress::ProgressMode;
use crate::report::Reporting;

/// How a side gets out to its peer.
#[derive(Debug, Args)]
pub(crate) struct Ways {
    /// Proxy to connect through: http://HOST:PORT, https://HOST:PORT, socks5://HOST:PORT, or socks5h://HOST:PORT, which looks
    /// the peer's name up itself; none connects directly. If not given, that of HTTPS_PROXY or ALL_PROXY, but for hosts in NO_PROXY and for this
    /// machine. User and password go into these or into VESICA_PROXY
    #[arg(help_heading = "Peer", long, value_name = "URL|none")]
    pub(crate) proxy: Option<Proxies>,
    /// Name to tell in the first message of TLS, where proxies that share a port look for it. Everybody on the way can read it;
    /// without this option there is none
    #[arg(help_heading = "Peer", long, value_name = "NAME", value_parser = parse_sni)]
    sni: Option<String>,
    /// Certificates in PEM of the authorities that vouch for the web server of --connect wss:// and for a proxy of https://;
    /// those that this machine trusts if not given
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    outer_ca: Option<InputPath>,
}

/// Most bytes of a file of certificates: more than those of all authorities that a machine trusts.
const MAX_CERTIFICATES: u64 = 4 << 20;

impl Ways {
    /// The options of a connection, which goes this way.
    pub(crate) fn of(&self, options: ConnectOptions) -> Result<ConnectOptions, Failure> {
        Ok(ConnectOptions {
            proxies: self.proxy.clone().unwrap_or_default(),
            sni: self.sni.clone(),
            authorities: match &self.outer_ca {
                None => Authorities::OfMachine,
                Some(path) => authorities(path)?,
            },
            ..options
        })
    }

    /// Fails on a side that listens.
    pub(crate) fn of_nobody(&self) -> Result<(), Failure> {
        match self.proxy.is_some() || self.sni.is_some() || self.outer_ca.is_some() {
            true => Err(Failure::usage(
                "--proxy, --sni and --outer-ca are for the side that connects",
            )),
            false => Ok(()),
        }
    }
}

fn authorities(path: &Path) -> Result<Authorities, Failure> {
    let read = read_regular(path, MAX_CERTIFICATES);
    let read =
        read.map_err(|e| Failure::usage(format!("{}: cannot be read: {e}", path.display())))?;
    Authorities::from_pem(&read)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// Where the peer is met.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("endpoint").required(true).args(["listen", "connect"]))]
pub(crate) struct MeetingPoint {
    /// Listen for the peer at HOST:PORT; port 0 picks a free port
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<String>,
    /// Connect to the peer at HOST:PORT, or at wss://HOST/PATH behind a web server (ws:// without its TLS); retries until
    /// --wait is over
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_peer_address)]
    connect: Option<String>,
    #[command(flatten)]
    pub(crate) ways: Ways,
}

impl MeetingPoint {
    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        match (&self.listen, &self.connect) {
            (Some(address), None) => {
                self.ways.of_nobody()?;
                Ok(Endpoint::Listen(address.clone()))
            }
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

/// The file of a ledger.
#[derive(Debug, Args)]
pub(crate) struct LedgerOption {
    /// Keep account in this file, which the first run makes: with whom, on which terms, over which table, and how it ended. Every
    /// entry is on the disk before anything that depends on a key leaves; no key is in it. In runs of two tables both sides
    /// then sign receipts. See `vesica ledger`
    #[arg(help_heading = "Account", long, value_name = "FILE")]
    ledger: Option<OutputFile>,
}

impl LedgerOption {
    /// The account, if one is kept.
    pub(crate) fn account(&self) -> Option<Account> {
        self.ledger.as_deref().map(Account::new)
    }
}

/// The ledger of a side that learns something.
#[derive(Debug, Args)]
pub(crate) struct LedgerOptions {
    #[command(flatten)]
    file: LedgerOption,
    /// Write down in the ledger, too, which numbers were revealed to this side, or how many rows match
    #[arg(help_heading = "Account", long, requires = "ledger")]
    ledger_answers: bool,
}

impl LedgerOptions {
    /// The account, if one is kept.
    pub(crate) fn account(&self) -> Option<Account> {
        let answers = self.ledger_answers;
        self.file
            .account()
            .map(|account| Account { answers, ..account })
    }
}
