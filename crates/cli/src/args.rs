//! The command line.

mod published;
mod secrets;
mod tasks;
mod terms;
mod values;

use std::error::Error as _;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{
    ArgAction, ArgGroup, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand,
    ValueEnum,
};
use clap_complete::Shell;
use vesica::terms::{KEY_BITS, LEARNS, REVEAL, SECURITY};
use vesica::{
    AdbcDatabase, ConnectOptions, CourierStep, CsvOptions, Encoding, Endpoint, Fingerprint,
    FingerprintError, Format, Identity, IngestMode, KeySpec, LabelExchange, Learns,
    MAX_LABEL_BYTES, MAX_STRING_BYTES, Party, Paths, PayloadColumn, PeerLimits, Query, Resources,
    Reveal, Role, Rows, Source, SourceOptions, TargetTable, Terms, TextColumns, ValueColumn,
    adbc_database, find_protocol, half_of_the_machine, has_credentials, label_exchange,
    parse_address, parse_bandwidth, parse_bytes, parse_character, parse_delimiter, parse_max_items,
    parse_protocol, parse_size, prepare_work_dir, shown, text_columns, value_columns,
};
use vesica_kernels::Backend;
use vesica_kernels::process::leave_no_core;
use vesica_plan::Registry;
use vesica_psi::Spec;
use vesica_session::MAX_SCALE;

use crate::conditions::Conditions;
use crate::config;
use crate::failure::{Failure, InCommand};
use crate::log::{self, LogFormat};
use crate::offline::{Dealer, Generator, Offline};
use crate::paths::{
    self, CourierDirectory, DatabaseDirectory, DatabaseUri, DriverName, FetchedSet, InputPath,
    InputSet, InputTable, JobDirectory, OutputPath, OutputSet, StateDirectory, StoreDirectory,
    WorkDirectory,
};
use crate::patience::{Patience, seconds};
use crate::progress::{Progress, ProgressMode};
use crate::signals::Signals;
pub(crate) use published::{Lookup, Publish, Serve};
pub(crate) use tasks::{Attempts, Bucket, Collect, Gateway, Split, Total};
use terms::{TermOptions, typed};
use values::{Network, Quote, quote};

#[derive(Debug, Parser)]
#[command(
    name = "vesica",
    version,
    about = "Private set intersection between two tables",
    long_about = "Private set intersection between two tables: the receiver learns which of its \
                  rows have a key that the sender's table also has, the sender learns only how \
                  many distinct keys the receiver has.",
    after_help = "Exit codes: 0 done, 2 usage, 3 the input data, 4 the network or the peer went \
                  away, 5 the peer misbehaved, 6 the two sides disagree on the contract, 7 a \
                  resource limit; 130 after Ctrl-C and 143 after SIGTERM.\n\n\
                  Every option can be set in the environment, as VESICA_MEMORY for --memory and \
                  VESICA_MAX_PEER_ITEMS for --max-peer-items, or in a TOML file, with --config.",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// TOML file with options by their long names, such as memory = "4G" and key = ["name", "born"]. Flags and environment
    /// variables override it
    #[arg(long, value_name = "FILE.toml", global = true)]
    #[allow(
        dead_code,
        reason = "it is read before the other options are understood"
    )]
    config: Option<InputPath>,
    /// Format of the lines on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, global = true)]
    log_format: LogFormat,
    /// Allow core dumps and debuggers. A core dump holds keys of the tables in clear
    #[arg(long, global = true)]
    allow_core_dumps: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the main job on sample data: two parties, two processes, TLS on this machine
    Demo,
    /// Makes an identity and prints its fingerprint
    Keygen(Keygen),
    /// Prints the fingerprint of an identity
    Fingerprint(FingerprintOf),
    /// Learns which of its rows match the sender's table, and writes them
    Receive(Receive),
    /// Helps the receiver; learns only how many distinct keys it has
    Send(Send),
    /// Takes one step of a run between parties that are never online together, who exchange files
    Exchange(Box<Exchange>),
    /// Shows what a run would see of a table; needs no peer
    Check(Check),
    /// Prepares, lists and checks correlations for later runs
    Offline(Offline),
    /// Deals correlations to two parties that both trust this machine
    Dealer(Dealer),
    /// Makes one party's half of correlations in a trusted execution environment, together with the other party's generator
    Generator(Generator),
    /// Publishes the keys of a table as a file that others can look keys up in
    Publish(Publish),
    /// Answers clients that look keys up in a published set, each up to a quota
    Serve(Serve),
    /// Learns which of its rows are in a published set, and writes them
    Lookup(Lookup),
    /// Measures `receive` and `send` on random tables, as two processes on this machine
    Bench(Bench),
    /// Estimates what a run takes with each protocol: seconds, bytes, memory and money
    Plan(Plan),
    /// Agrees on a job with the peer, and divides a table into buckets for tasks on several machines
    Split(Box<Split>),
    /// Runs one bucket of a job against the peer's task for it
    ///
    /// If it ends with code 5 after it has begun, the job is over, and no other attempt is made at any bucket: a peer that was
    /// caught does not get to guess again. Nor is there another attempt at a bucket of which the peer has confirmed its result.
    Bucket(Bucket),
    /// Connects the tasks of both sides of a job at one address; cannot read what they exchange
    Gateway(Gateway),
    /// Agrees with the peer's driver which buckets are tried next, and prints them
    Attempts(Attempts),
    /// Writes the matching rows from the results of all buckets of a job
    Collect(Box<Collect>),
    /// Opens the total of a job for numbers together with the peer's driver, or prints the one that was opened
    ///
    /// Once all buckets have a result on both sides, run it on both: one with --listen, one with --connect, each with --identity
    /// and --peer. A side that learns the total prints it, and keeps it in the job's directory. Without these options it prints
    /// what it has kept, and meets nobody.
    Total(Total),
    /// Prints a shell completion script
    Completions(Completions),
    /// Prints the manual page of vesica or of one of its commands
    Man(Man),
    /// A command under the conditions of a benchmark; started by `bench`
    #[command(hide = true)]
    BenchParty(Box<BenchParty>),
}

#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// File for the new identity; never overwritten
    #[arg(long, value_name = "FILE", default_value = "vesica.key")]
    pub(crate) out: OutputPath,
}

#[derive(Debug, Args)]
pub(crate) struct FingerprintOf {
    /// Identity, made by `vesica keygen`
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: InputPath,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Command to describe; vesica itself if not given
    pub(crate) command: Option<String>,
}

/// Which table, and which of its columns.
#[derive(Debug, Args)]
pub(crate) struct Table {
    /// The table: a file, an object (s3://bucket/key, gs://, az://, abfs://, https://; credentials come from the
    /// environment), or `-` for standard input. A directory or a pattern such as 'part-*.csv' stands for its files. Several
    /// files form one table, ordered by path; they have the same columns in the same order. May be given several times
    #[arg(
        help_heading = "Table",
        long,
        value_name = "FILE",
        required_unless_present = "query",
        conflicts_with = "query"
    )]
    pub(crate) input: Vec<InputTable>,
    /// SQL query whose result is the table, instead of --input; it runs once. The result has the format of --output's name,
    /// or else is an Arrow stream
    #[arg(help_heading = "Table", long, value_name = "SQL", conflicts_with_all = ["format", "delimiter", "no_header", "quote", "escape", "encoding"])]
    query: Option<String>,
    /// Database for --query and --output-table: postgresql://HOST/NAME, sqlite:FILE, or another URI that its driver takes.
    /// Give no password here, where other users can see it, but in --database-file or the environment variable
    /// VESICA_DATABASE
    #[arg(help_heading = "Table", long, value_name = "URI")]
    database: Option<DatabaseUri>,
    /// File with the URI of the database; only its owner may be able to read it
    #[arg(help_heading = "Table", long, value_name = "FILE")]
    database_file: Option<InputPath>,
    /// ADBC driver of the database, by name or path; if not given, the one that the URI names
    #[arg(help_heading = "Table", long, value_name = "NAME|PATH")]
    driver: Option<DriverName>,
    #[command(flatten)]
    form: TableForm,
}

/// A table that is not open yet.
pub(crate) struct Opener<'a> {
    options: SourceOptions,
    query: Option<Query>,
    input: &'a [InputTable],
}

impl Opener<'_> {
    /// Opens it. A work directory for what is kept of it is made if missing.
    pub(crate) fn open(&self) -> Result<Source, vesica::Error> {
        let scratch = self.options.scratch.as_deref();
        if let Some(scratch) = scratch {
            prepare_work_dir(scratch)?;
        }
        let source = match &self.query {
            Some(query) => Source::query(query, &self.options),
            None => Source::open_all(&InputTable::all(self.input), &self.options),
        };
        Ok(source.inspect_err(|_| {
            if let Some(scratch) = scratch {
                // Only if nothing is in it.
                let _ = std::fs::remove_dir(scratch);
            }
        })?)
    }

    /// The same for a run, for which `opened` keeps the table.
    pub(crate) fn open_into<'s>(
        &self,
        opened: &'s OnceLock<Source>,
    ) -> Result<&'s Source, vesica::Error> {
        let source = self.open()?;
        Ok(opened.get_or_init(|| source))
    }
}

/// Which table of the database a result goes to.
#[derive(Debug, Args)]
pub(crate) struct OutputTable {
    /// Table of --database for the matching rows, instead of --output: NAME or SCHEMA.NAME. It is written in one transaction,
    /// once all rows are known. Columns of a text file become text columns. A SQLite file has to exist; it may be empty
    #[arg(
        help_heading = "Result",
        long,
        value_name = "NAME",
        conflicts_with = "output"
    )]
    output_table: Option<String>,
    /// create makes a new table, and fails if there is one; append adds rows to an existing table, by column name; replace
    /// drops an existing table, with its grants, indexes and triggers, and makes a new one
    #[arg(help_heading = "Result", long, value_name = "create|append|replace", default_value = "create",
          requires = "output_table", value_parser = IngestMode::from_str)]
    output_table_mode: IngestMode,
}

impl OutputTable {
    pub(crate) fn is_given(&self) -> bool {
        self.output_table.is_some()
    }
}

/// Which columns of a table are its key, and how a file is read.
#[derive(Debug, Args)]
pub(crate) struct TableForm {
    /// Key columns, separated by commas; both sides name corresponding columns in the same order. Write a comma in a name as
    /// \,. May be given several times
    #[arg(
        help_heading = "Table",
        long,
        value_name = "COL[,COL…]",
        required = true
    )]
    key: Vec<String>,
    /// How to normalise a key column: email, phone:REGION, text, integer, integer:BITS, decimal, date, timestamp,
    /// timestamp:UNIT, uuid, ipv4, ipv6, sha256-hex, pair-email, pair-phone:REGION or exact (the default). May be given once
    /// per column
    #[arg(help_heading = "Table", long, value_name = "COL=PROFILE")]
    normalize: Vec<String>,
    /// Format of the table; detected if not given
    #[arg(help_heading = "Table", long, value_name = Format::names("|"))]
    format: Option<String>,
    /// Delimiter of CSV, one character or `tab`; detected if not given
    #[arg(help_heading = "Table", long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// The first row of CSV is data; columns are called 1, 2, and so on
    #[arg(help_heading = "Table", long)]
    no_header: bool,
    /// Quote character of CSV fields, or `none`
    #[arg(help_heading = "Table", long, value_name = "CHAR", default_value = "\"", value_parser = quote)]
    quote: Quote,
    /// Character that escapes a quote within quotes, besides another quote
    #[arg(help_heading = "Table", long, value_name = "CHAR", value_parser = parse_character)]
    escape: Option<u8>,
    /// Encoding of CSV and JSON Lines, such as windows-1252, shift_jis or utf-16; UTF-8 if not given. The result is always
    /// UTF-8
    #[arg(help_heading = "Table", long, value_name = "NAME")]
    encoding: Option<String>,
    /// Text that means null in the key, such as NULL or \N. May be given several times
    #[arg(help_heading = "Table", long, value_name = "TEXT")]
    null: Vec<String>,
}

impl TableForm {
    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        let key = KeySpec::parse_all(&self.key, &self.normalize)?;
        Ok(key.with_nulls(self.null.clone()))
    }

    /// The options of a table. `more` has the settings that these do not determine.
    pub(crate) fn options(&self, more: SourceOptions) -> Result<SourceOptions, Failure> {
        Ok(SourceOptions {
            format: match &self.format {
                Some(name) => Some(name.parse::<Format>()?),
                None => None,
            },
            delimiter: self.delimiter,
            csv: CsvOptions {
                header: !self.no_header,
                quote: self.quote.0,
                escape: self.escape,
            },
            encoding: match &self.encoding {
                Some(name) => Some(name.parse::<Encoding>()?),
                None => None,
            },
            ..more
        })
    }
}

impl Table {
    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        self.form.key()
    }

    /// Opens the table. `more` has the settings that these options do not determine.
    pub(crate) fn open(&self, more: SourceOptions) -> Result<Source, Failure> {
        Ok(self.opener(more)?.open()?)
    }

    /// The same for later.
    pub(crate) fn opener(&self, more: SourceOptions) -> Result<Opener<'_>, Failure> {
        Ok(Opener {
            options: self.form.options(more)?,
            query: self.query()?,
            input: &self.input,
        })
    }

    fn database(&self) -> Result<AdbcDatabase, Failure> {
        let (uri, file) = (self.database.as_deref(), self.database_file.as_deref());
        Ok(adbc_database(uri, file, self.driver.as_deref())?)
    }

    fn query(&self) -> Result<Option<Query>, Failure> {
        match &self.query {
            Some(sql) => Ok(Some(Query::new(sql, self.database()?)?)),
            None => Ok(None),
        }
    }

    /// The table of the database that the result goes to, if it goes to one.
    pub(crate) fn target(&self, to: &OutputTable) -> Result<Option<TargetTable>, Failure> {
        match &to.output_table {
            Some(name) => {
                let (mode, database) = (to.output_table_mode, self.database()?);
                Ok(Some(TargetTable::new(name, mode, database)?))
            }
            None => Ok(None),
        }
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

    /// Bytes of each side's payload in a run on these terms; 0 if there is none.
    pub(crate) fn payload_bytes(&self, terms: &Terms) -> Result<usize, Failure> {
        match self.payload_width {
            Some(_) if terms.get(&REVEAL) != Reveal::Shares => {
                Err(Failure::usage("--payload-width is for --reveal shares"))
            }
            width => Ok(width.unwrap_or(0) as usize),
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
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
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
    /// With --reveal shares: bytes of each side's payload; none if not given
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

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Items of the receiver, such as 65536 or 2^16
    #[arg(long, value_name = "N", value_parser = parse_size, required_unless_present = "calibrate")]
    pub(crate) receiver_size: Option<u64>,
    /// Items of the sender; as many as the receiver has if not given
    #[arg(long, value_name = "N", value_parser = parse_size)]
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
    pub(crate) calibration: Option<OutputPath>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Repeated {
    /// The sum of the values of its rows
    Sum,
    /// A table with such a key is an error
    Refuse,
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

/// Why there is no command to run.
pub(crate) enum Stop {
    /// Help or the version was asked for and has been shown.
    Shown,
    Failed(Failure),
}

impl Command {
    /// Whether it shows to others that its memory is kept from its host.
    fn is_in_hardware(&self) -> bool {
        match self {
            Command::Dealer(dealer) => dealer.is_in_hardware(),
            Command::Generator(generator) => generator.is_in_hardware(),
            _ => false,
        }
    }
}

/// The command without these options, which it shares with others and has no use for: they are neither shown nor taken from
/// the environment, where they are for others.
fn without(command: clap::Command, options: &[&'static str]) -> clap::Command {
    let hidden = options.iter();
    hidden.fold(command, |command, name| {
        command.mut_arg(name, |arg| arg.hide(true))
    })
}

/// What a driver agrees on is found by tasks, and written by others.
fn of_a_job(command: clap::Command) -> clap::Command {
    let say = |help: &'static str| move |arg: clap::Arg| arg.help(help);
    without(command, &tasks::NOT_OF_JOBS)
        .mut_arg("reveal", |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let of_tasks = help.split(", threshold-matches:N").next();
            arg.help(of_tasks.unwrap_or_default().replace(", threshold:N", ", or threshold:N"))
        })
        .mut_arg(
            "query",
            say("SQL query whose result is the table, instead of --input; it runs once"),
        )
        .mut_arg(
            "database",
            say("Database for --query: postgresql://HOST/NAME, sqlite:FILE, or another URI that its driver takes. Give no \
                 password here, where other users can see it, but in --database-file or the environment variable \
                 VESICA_DATABASE"),
        )
        .mut_arg(
            "value",
            say("Columns to sum, at most eight, or one column to multiply, on the side that has them. Separated by commas, as \
                 in --key"),
        )
}

/// The commands and their options. Every option that is shown can come from the environment, `--max-peer-items` from
/// `VESICA_MAX_PEER_ITEMS`, unless the arguments have one that takes its place.
pub(crate) fn definition(args: &[OsString]) -> clap::Command {
    let from_environment = |arg: clap::Arg| match arg.get_long() {
        Some(long)
            if long != "help"
                && long != "version"
                && !arg.is_hide_set()
                && !config::is_displaced(args, long) =>
        {
            let names: Vec<String> = config::names(&arg)
                .into_iter()
                .map(config::variable)
                .collect();
            let is_set = |name: &&String| std::env::var_os(name).is_some();
            let name = names.iter().find(is_set).unwrap_or(&names[0]).clone();
            match arg.get_action() {
                // A script may set 1 or yes.
                ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
                _ => arg,
            }
            .env(name)
            .hide_env(true)
        }
        _ => arg,
    };
    let of_the_protocol = |command: clap::Command| {
        let usual = [
            (
                "security",
                "the strongest of the protocol, and malicious with auto",
            ),
            (
                "reveal",
                "the first thing that the protocol reveals, and matches with auto; a sum is that of the sender's values",
            ),
        ];
        usual.into_iter().fold(command, |command, (name, usual)| {
            command.mut_arg(name, |arg| {
                let help = arg.get_help().cloned().unwrap_or_default();
                arg.help(format!("{help}. If not given, {usual}"))
                    .default_value(None::<&str>)
            })
        })
    };
    Cli::command()
        .mut_subcommand("bench", of_the_protocol)
        // Messages tell which rows match, whatever else there is to reveal.
        .mut_subcommand("exchange", |command| {
            without(command, &["reveal", "min_size", "optimize"])
        })
        .mut_subcommand("split", of_a_job)
        .mut_subcommand("plan", |command| {
            command.mut_arg("security", |arg| {
                let help = arg.get_help().cloned().unwrap_or_default();
                arg.help(format!(
                    "{help}. If not given, whatever each protocol withstands"
                ))
                .default_value(None::<&str>)
            })
        })
        .mut_args(from_environment)
        .mut_subcommands(|command| command.mut_args(from_environment))
}

/// A command, and the paths that it names.
pub(crate) struct Parsed {
    pub(crate) command: Command,
    pub(crate) paths: Paths,
}

pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Parsed, Stop> {
    let args: Vec<OsString> = args.collect();
    // Whatever is wrong with the options is said in this form too.
    if config::is(&args, "log-format", "json") {
        log::set(LogFormat::Json);
    }
    let mut definition = definition(&args);
    secrets::check(&args, &definition).map_err(Stop::Failed)?;
    let args = config::with_file(args, &definition).map_err(Stop::Failed)?;
    let matches = definition.try_get_matches_from_mut(args);
    let parsed = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let error = match parsed {
        Ok((cli, matches)) => {
            let options = matches.subcommand().map(|(_, options)| options);
            options
                .map_or(Ok(()), check_database)
                .map_err(Stop::Failed)?;
            log::set(cli.log_format);
            if !cli.allow_core_dumps {
                leave_no_core();
            } else if cli.command.is_in_hardware() {
                return Err(Stop::Failed(Failure::usage(
                    "--allow-core-dumps would give the host what the hardware keeps from it",
                )));
            }
            return Ok(Parsed {
                command: cli.command,
                paths: paths::named(&definition, &matches),
            });
        }
        Err(error) => error,
    };
    let shows = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if shows {
        return Err(match crate::stdout::print_with(|_| error.print()) {
            Ok(()) => Stop::Shown,
            Err(failure) => Stop::Failed(failure),
        });
    }
    Err(Stop::Failed(usage_failure(&error)))
}

/// Checks what is typed about a database. What is in the environment is for any run that needs it.
fn check_database(options: &ArgMatches) -> Result<(), Failure> {
    if let Ok(Some(directory)) = options.try_get_one::<DatabaseDirectory>("database") {
        // That of a published set is a directory.
        return match is_uri(&directory.to_string_lossy()) {
            false => Ok(()),
            true => Err(Failure::usage(
                "the database of a published set is a directory, and not one of --query",
            )
            .hint("give --database DIR, whatever VESICA_DATABASE has for other commands")),
        };
    }
    let has = |id: &str| options.try_contains_id(id).unwrap_or(false);
    let typed = |id: &&str| has(id) && options.value_source(id) == Some(ValueSource::CommandLine);
    let all = ["database", "database_file", "driver"];
    let is_used = has("query") || has("output_table");
    if let Some(id) = all.iter().find(|id| typed(id) && !is_used) {
        let with = match options.try_contains_id("output_table") {
            Ok(_) => "--query or --output-table",
            Err(_) => "--query",
        };
        let name = id.replace('_', "-");
        return Err(Failure::usage(format!("--{name} goes with {with}")));
    }
    if typed(&"database") && typed(&"database_file") {
        return Err(Failure::usage("give either --database or --database-file"));
    }
    let uri = options
        .try_get_one::<DatabaseUri>("database")
        .ok()
        .flatten();
    if typed(&"database") && uri.is_some_and(|uri| has_credentials(uri)) {
        return Err(Failure::usage(
            "--database may have a password in it, which other users can see",
        )
        .hint("put the URI into a file for --database-file, or into VESICA_DATABASE"));
    }
    Ok(())
}

/// Whether this has the form of a database's URI; one letter before the colon is a drive, and `vs1` a fingerprint's.
fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.len() > 1 && scheme != "vs1" && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

pub(crate) fn parse_threads(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "there is at least one thread")
}

/// What clap says in a paragraph, in one line.
fn usage_failure(error: &clap::Error) -> Failure {
    let general = "`vesica --help` and `vesica COMMAND --help` show what there is";
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("no command given").hint(general);
    }
    let mut text = error.to_string();
    for (_, value) in error.context() {
        let values = match value {
            ContextValue::String(value) => std::slice::from_ref(value),
            ContextValue::Strings(values) => values,
            _ => &[],
        };
        for value in values.iter().filter(|value| !value.is_empty()) {
            text = text.replace(value, &fit_to_show(value));
        }
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let hint = of_the_value(error)
        .or_else(|| of_another_spelling(error))
        .or_else(|| of_a_bare_word(error));
    Failure::usage(paragraph).hint(hint.unwrap_or_else(|| general.to_owned()))
}

/// What was typed, unless it has several lines, as a secret may have; of an address without what may be a signature.
fn fit_to_show(value: &str) -> String {
    match value.trim().contains(['\n', '\r']) {
        true => "…".to_owned(),
        false => shown(Path::new(value)),
    }
}

/// What to do about a value that a library has refused.
fn of_the_value(error: &clap::Error) -> Option<String> {
    let source = error.source()?;
    let fingerprint = source.downcast_ref::<FingerprintError>();
    let other = source.downcast_ref::<vesica::Error>();
    let advice = match (fingerprint, other) {
        (Some(problem), _) => {
            let value = error.get(ContextKind::InvalidValue);
            let value = value.map(ContextValue::to_string);
            Some(problem.remedy_of(&value.unwrap_or_default()))
        }
        (None, other) => other.and_then(vesica::Error::remedy),
    };
    advice.map(|advice| advice.spelled(&InCommand))
}

/// What clap finds that is spelled nearly as what there is not.
fn of_another_spelling(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    let found = kinds.iter().find_map(|kind| error.get(*kind))?;
    let first = match found {
        ContextValue::Strings(all) => all.first()?.clone(),
        other => other.to_string(),
    };
    Some(format!("did you mean {first}?"))
}

/// How the command is used, for a word that no option stands before: with that word, if there is only one place for it.
fn of_a_bare_word(error: &clap::Error) -> Option<String> {
    let word = fit_to_show(&error.get(ContextKind::InvalidArg)?.to_string());
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let usage = error.get(ContextKind::Usage)?.to_string();
    let of_one = usage.strip_prefix("Usage: ").and_then(|usage| {
        let (before, rest) = usage.split_once(" [OPTIONS] --")?;
        let option = rest.strip_suffix(" <FILE>")?;
        (!option.contains(' ')).then(|| format!("did you mean `{before} --{option} {word}`?"))
    });
    Some(of_one.unwrap_or_else(|| usage.replacen("Usage", "usage", 1)))
}

#[cfg(test)]
mod tests {
    use vesica::{Argument, Command, Face};

    use crate::failure::InCommand;

    #[test]
    fn the_definition_is_sound() {
        super::definition(&[]).debug_assert();
    }

    /// What a benchmark does without an option is not what a run does.
    #[test]
    fn benchmarks_say_what_they_do_if_nothing_is_given() {
        let definition = super::definition(&[]);
        for name in ["security", "reveal"] {
            for (command, has_default) in [("receive", true), ("bench", false)] {
                let command = definition.find_subcommand(command).unwrap();
                let option = command.get_arguments().find(|arg| arg.get_id() == name);
                let option = option.unwrap();
                assert_eq!(!option.get_default_values().is_empty(), has_default);
                let help = option.get_help().unwrap().to_string();
                assert_eq!(help.contains("If not given, the "), !has_default, "{help}");
            }
        }
    }

    /// Terms and tables are said once for all commands.
    #[test]
    fn help_names_no_option_that_a_command_has_not() {
        let definition = super::definition(&[]);
        let commands = [
            "exchange", "publish", "serve", "lookup", "split", "bucket", "attempts", "collect",
            "total",
        ];
        for name in commands {
            let command = definition.find_subcommand(name).unwrap();
            let mut shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let all = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let all: Vec<&str> = all.filter_map(clap::Arg::get_long).collect();
            let unknown = shown.find_map(|arg| {
                let help = arg.get_help()?.to_string();
                let words = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let options = words.filter_map(|word| word.strip_prefix("--"));
                let unknown = options
                    .map(str::to_owned)
                    .find(|long| !all.contains(&&**long));
                unknown.map(|long| format!("{}: --{long}", arg.get_id()))
            });
            assert_eq!(unknown, None, "{name}");
        }
    }

    /// Whatever the table is for.
    #[test]
    fn what_reads_a_table_has_a_limit_of_memory() {
        fn check(command: &clap::Command, name: &str, tables: &mut Vec<String>) {
            let options: Vec<&str> =
                (command.get_arguments().filter_map(clap::Arg::get_long)).collect();
            if options.contains(&"normalize") {
                let limit = if name == "split" {
                    "task-memory"
                } else {
                    "memory"
                };
                assert!(options.contains(&limit), "{name}");
                tables.push(name.to_owned());
            }
            for command in command.get_subcommands() {
                check(command, command.get_name(), tables);
            }
        }
        let mut tables = Vec::new();
        check(&super::definition(&[]), "vesica", &mut tables);
        for name in [
            "receive", "send", "check", "exchange", "publish", "lookup", "split", "collect",
        ] {
            assert!(tables.iter().any(|table| table == name), "{name}");
        }
    }

    /// They are cut out of those of a run.
    #[test]
    fn a_job_offers_what_tasks_can_reveal() {
        let definition = super::definition(&[]);
        let split = definition.find_subcommand("split").unwrap();
        let mut options = split.get_arguments();
        let reveal = options.find(|arg| arg.get_id() == "reveal").unwrap();
        let help = reveal.get_help().unwrap().to_string();
        assert!(help.contains(", or threshold:N"), "{help}");
        for other in ["threshold-matches", "shares"] {
            assert!(!help.contains(other), "{help}");
        }
    }

    #[test]
    fn what_libraries_name_is_there() {
        fn has(command: &clap::Command, long: &str) -> bool {
            let here = |arg: &clap::Arg| arg.get_long() == Some(long);
            command.get_arguments().any(here) || command.get_subcommands().any(|sub| has(sub, long))
        }
        let definition = super::definition(&[]);
        for argument in Argument::ALL {
            let spelled = InCommand.argument(*argument);
            let long = spelled.strip_prefix("--").unwrap();
            assert!(has(&definition, long), "{spelled}");
        }
        for command in Command::ALL {
            let mut names = command.name().split(' ');
            let found = names.try_fold(&definition, |of, name| of.find_subcommand(name));
            assert!(found.is_some(), "{}", command.name());
        }
    }
}
