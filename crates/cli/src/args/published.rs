//! The options of `publish`, `serve` and `lookup`.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use vesica::{
    Fingerprint, MAX_LABEL_BYTES, MAX_QUERIES, Rows, parse_address, parse_bytes, parse_items,
};

use super::{OutputTable, Table, TableForm, parse_threads};
use crate::paths::{
    DatabaseDirectory, FetchedSet, InputPath, InputSet, InputTable, OutputPath, OutputSet,
    StateDirectory,
};
use crate::patience::{Patience, seconds};
use crate::progress::ProgressMode;

/// A number of queries, or of keys, in the life of a published key.
fn parse_life(text: &str) -> Result<u64, &'static str> {
    let number = parse_items(text).filter(|number| *number <= MAX_QUERIES);
    number.ok_or("there are at most 2^40: a number as 65536 or 2^16")
}

#[derive(Debug, Args)]
pub(crate) struct Publish {
    /// The table, as for `vesica send`: a file, an object, a directory, a pattern, several of these, or `-` for standard
    /// input
    #[arg(help_heading = "Table", long, value_name = "FILE", required_unless_present_any = ["add", "remove"])]
    pub(crate) input: Vec<InputTable>,
    /// Add the keys of this table to the set in --output, as a file beside it: SET.vset.2, then SET.vset.3, and so on. The
    /// table has the payload columns of the set; a key that the set has already gets this table's payload. The set may be
    /// served meanwhile
    #[arg(help_heading = "Table", long, value_name = "FILE", conflicts_with_all = ["input", "queries", "max_keys", "lambda", "payload", "payload_width"])]
    pub(crate) add: Vec<InputTable>,
    /// Remove the keys of this table from the set, in the same file as --add
    #[arg(help_heading = "Table", long, value_name = "FILE", conflicts_with_all = ["input", "queries", "max_keys", "lambda", "payload", "payload_width"])]
    pub(crate) remove: Vec<InputTable>,
    /// Publish --input under a new key, which replaces that of the database. Stop `vesica serve` first. The old set and its
    /// later files are replaced, and counts of queries start again
    #[arg(long, conflicts_with_all = ["add", "remove"])]
    pub(crate) rotate: bool,
    #[command(flatten)]
    pub(crate) form: TableForm,
    /// This side's identity, made by `vesica keygen`: it signs the set, and serves it
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: InputPath,
    /// Directory for the secret key and the count of queries, created if missing. After a failure the same command resumes
    /// from it. Whoever has it and the identity can test guesses of every key of the set, for ever
    #[arg(long, value_name = "DIR")]
    pub(crate) database: DatabaseDirectory,
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
    /// Columns that a client gets with the rows that it finds, separated by commas as in --key. They are encrypted: only a
    /// client that has asked about a key can read its columns
    #[arg(help_heading = "Values", long, value_name = "COL[,COL…]")]
    pub(crate) payload: Option<String>,
    /// Bytes per key for these columns: their texts, and two bytes per column; 64 if not given
    #[arg(help_heading = "Values", long, value_name = "BYTES", requires = "payload", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_LABEL_BYTES)))]
    pub(crate) payload_width: Option<u32>,
    /// Approximate memory, such as 512M or 4G; half of this machine's if not given. What does not fit goes to unnamed files
    /// beside the set
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Directory that `vesica publish` has made
    #[arg(long, value_name = "DIR")]
    pub(crate) database: DatabaseDirectory,
    /// Listen for clients at HOST:PORT; port 0 picks a free port
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: String,
    /// The identity that has published the set
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
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
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// Longest time that a client may stay connected without a question
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Longest time in all that a client may keep one connection waiting, not counting what the server computes. If not
    /// given, ten times what the bytes of the connection take at 1 Mb/s, and at least 3600
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
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
    /// the same key again, and one after an interruption has what that has paid for. Each set has its own
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<StateDirectory>,
    /// Where `vesica serve` listens, HOST:PORT
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) connect: String,
    /// This side's identity, made by `vesica keygen`, whose fingerprint the server has on its list
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
    /// The publisher's fingerprint, vs1:…
    #[arg(help_heading = "Peer", long, value_name = "FINGERPRINT")]
    pub(crate) peer: Fingerprint,
    /// File for the matching rows; its name decides the format, else it is that of the input. `-`, the default, is standard
    /// output
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    pub(crate) output: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) output_table: OutputTable,
    /// Rows of this side's table in the result: those that match (the default), the rest, or all with a column in_both
    #[arg(help_heading = "Result", long, value_name = "matching|rest|all", value_parser = Rows::from_str)]
    pub(crate) rows: Option<Rows>,
    /// Accept a table without a usable key, which matches nothing; otherwise that is an error
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Approximate memory for the look-up, such as 512M or 4G; half of this machine's if not given. Larger tables are looked
    /// up in buckets, with their keys and the answers encrypted in unnamed files
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) patience: Patience,
    /// Longest time from when the server is reached to the last answer; fetching files may take as long before that. If not
    /// given, ten times what they take at 1 Mb/s and at a tenth of this machine's speed (docs/reliability.md), and at least
    /// 3600
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// File for a JSON report of the look-up; `-` is standard output
    #[arg(help_heading = "Result", long, value_name = "FILE.json")]
    pub(crate) report: Option<OutputPath>,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}
