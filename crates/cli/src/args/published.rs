//! The options of `publish`, `serve` and `lookup`.

use std::time::Duration;

use clap::Args;
use vesica::PAYLOAD_BYTES;
use vesica::lookup::MAX_QUERIES;
use vesica::options::{parse_address, parse_duration, parse_peer_address};
use vesica_session::LabelTerms;
use vesica_session::terms::parse_items;

use super::Table;
use super::runs::PayloadOptions;
use crate::failure::Failure;
use crate::identity::{Identified, IdentityOption};
use crate::metrics::MetricsOption;
use crate::options::{
    AllowEmpty, DeadlineOption, LedgerOption, LedgerOptions, ReportOption, ResourceOptions,
    ResultOptions, ThreadsOption, Ways,
};
use crate::paths::{
    FetchedSet, InputPath, InputSet, InputTable, OutputSet, SetDirectory, StateDirectory,
};
use crate::patience::Patience;
use crate::report::Reporting;

/// A number of queries, or of keys, in the life of a published key.
fn parse_life(text: &str) -> Result<u64, &'static str> {
    let number = parse_items(text).filter(|number| *number <= MAX_QUERIES);
    number.ok_or("a number up to 2^40, as 65536, 64k or 2^16")
}

/// The directory of a published set.
#[derive(Debug, Args)]
pub(crate) struct SetOption {
    /// Directory for the secret key and the count of queries, which `vesica publish` makes. Whoever has it and the identity can
    /// test guesses of every key of the set, for ever
    #[arg(long, value_name = "DIR")]
    pub(crate) set_dir: SetDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    #[command(flatten)]
    pub(crate) table: Table,
    /// Add the keys of this table to the set in --output, as a file beside it: SET.vset.2, then SET.vset.3, and so on. The
    /// table has the payload columns of the set; a key that the set has already gets this table's payload. The set may be
    /// served meanwhile
    #[arg(help_heading = "Table", long, value_name = "FILE", conflicts_with_all = ["input", "query", "queries", "max_keys", "lambda", "payload", "payload_width"])]
    pub(crate) add: Vec<InputTable>,
    /// Remove the keys of this table from the set, in the same file as --add
    #[arg(help_heading = "Table", long, value_name = "FILE", conflicts_with_all = ["input", "query", "queries", "max_keys", "lambda", "payload", "payload_width"])]
    pub(crate) remove: Vec<InputTable>,
    /// Publish the table under a new key, which replaces that of the directory. Stop `vesica serve` first. The old set and its
    /// later files are replaced, and counts of queries start again
    #[arg(long, conflicts_with_all = ["add", "remove"])]
    pub(crate) rotate: bool,
    #[command(flatten)]
    pub(crate) own: IdentityOption,
    #[command(flatten)]
    pub(crate) of: SetOption,
    /// File of the set, for clients. By itself it shows how many keys there are, but not which; what else it shows is in
    /// docs/look-up.md
    #[arg(help_heading = "Result", long, value_name = "SET.vset")]
    pub(crate) output: OutputSet,
    /// Queries that the key answers in its life, of all clients together, such as 2^20; the server stops at that. Each
    /// doubling makes each mask a bit longer, and costs half a bit of the key's security. 2^20 if not given; with --rotate, as
    /// many as the key before
    #[arg(long, value_name = "N", value_parser = parse_life)]
    pub(crate) queries: Option<u64>,
    /// Most keys that are ever published under the secret key, those of later --add included. As many as the table has if not
    /// given, so that none can be added
    #[arg(long, value_name = "N", value_parser = parse_life)]
    pub(crate) max_keys: Option<u64>,
    /// Statistical security in bits, 40 to 64: all queries together find a key that is not in the set with
    /// probability at most 2^-BITS
    #[arg(long, value_name = "BITS", default_value_t = 40)]
    pub(crate) lambda: u32,
    #[command(flatten)]
    payload: PayloadOptions,
    #[command(flatten)]
    pub(crate) report: ReportOption,
    #[command(flatten)]
    pub(crate) resources: ResourceOptions,
}

impl Publish {
    /// The columns that go with a key.
    pub(crate) fn payload(&self) -> Result<Option<LabelTerms>, Failure> {
        let (columns, bytes) = (self.payload.names()?, self.payload.width());
        let terms = LabelTerms::texts(bytes.unwrap_or(PAYLOAD_BYTES), columns);
        Ok((!terms.columns.is_empty()).then_some(terms))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) of: SetOption,
    /// Listen for clients at HOST:PORT; port 0 picks a free port
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: String,
    #[command(flatten)]
    pub(crate) own: IdentityOption,
    /// File with the fingerprints of all clients, one per line; text after a blank or # is a comment. Everybody else is
    /// turned away
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) clients: InputPath,
    /// File of the published set, with those of later releases beside it, for clients that fetch them. Each client gets at
    /// most four times their bytes a day, counted from the start of this server. If not given, clients cannot fetch the set
    #[arg(long, value_name = "SET.vset")]
    pub(crate) set: Option<InputSet>,
    /// Most queries of each client under the key, across restarts too
    #[arg(long, value_name = "N", value_parser = parse_life)]
    pub(crate) quota: u64,
    /// Most connections at once, at most 8 of them from one client; others wait
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) threads: ThreadsOption,
    /// Longest time that a client may stay connected without a question
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "120", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) deadline: DeadlineOption,
    #[command(flatten)]
    pub(crate) metrics: MetricsOption,
    #[command(flatten)]
    pub(crate) account: LedgerOption,
}

#[derive(Debug, Args)]
pub(crate) struct Lookup {
    #[command(flatten)]
    pub(crate) table: Table,
    /// File of the published set, with those of later releases beside it
    #[arg(long, value_name = "SET.vset")]
    pub(crate) set: FetchedSet,
    /// Fetch the missing files of the set from the server, resuming where an earlier attempt has stopped. A file is called
    /// SET.vset.part, or SET.vset.2.part, until all of it is verified
    #[arg(long)]
    pub(crate) fetch: bool,
    /// Directory for the server's answers, encrypted under the identity, created if missing. Later look-ups do not pay for
    /// the same key again, and one after an interruption has what that has paid for. One whose answers are all there does not
    /// meet the server, and does not notice a newer release without --fetch. Each set has its own
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<StateDirectory>,
    /// Where `vesica serve` listens, HOST:PORT, or wss://HOST/PATH behind a web server
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_peer_address)]
    pub(crate) connect: String,
    #[command(flatten)]
    pub(crate) ways: Ways,
    #[command(flatten)]
    pub(crate) who: Identified,
    #[command(flatten)]
    pub(crate) result: ResultOptions,
    #[command(flatten)]
    pub(crate) empty: AllowEmpty,
    #[command(flatten)]
    pub(crate) resources: ResourceOptions,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) deadline: DeadlineOption,
    #[command(flatten)]
    pub(crate) account: LedgerOptions,
    #[command(flatten)]
    pub(crate) report: ReportOption,
}

impl Lookup {
    pub(crate) fn reporting(&self) -> Reporting<'_> {
        Reporting {
            peer: Some(self.who.peer),
            output: self.result.file(),
            ..self.report.reporting()
        }
    }
}
