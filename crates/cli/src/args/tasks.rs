//! The options of jobs whose buckets are tasks of their own.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use clap::{ArgGroup, Args};
use vesica::{Endpoint, Fingerprint, TaskEndpoint, parse_address, parse_bytes};

use super::{Meeting, MeetingPoint, OutputTable, Table, parse_threads};
use crate::failure::Failure;
use crate::offline::Side;
use crate::paths::{InputPath, JobDirectory, OutputPath};
use crate::patience::{Patience, seconds};
use crate::progress::ProgressMode;

/// Options of a run that a split has no use for: its job is for tasks, and has its own files.
pub(super) const NOT_OF_JOBS: [&str; 8] = [
    "value_width",
    "payload",
    "payload_width",
    "offline",
    "offline_store",
    "attested",
    "work_dir",
    "report",
];

#[derive(Debug, Args)]
pub(crate) struct Split {
    /// This side's role in the job
    #[arg(help_heading = "Agreed with the peer", long, value_enum)]
    pub(crate) role: Side,
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    /// Directory for the job, which only this user may read. Tasks need all of it; job.json in it has the keys to the rest
    #[arg(long, value_name = "DIR")]
    pub(crate) job: JobDirectory,
    /// Approximate memory of a task, such as 512M or 4G, which decides the number of buckets; the smaller one of both sides
    /// counts. Numbers take 129M or more, however few keys there are
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1G")]
    pub(crate) task_memory: u64,
    /// How often a bucket may be tried, 1 to 16; the smaller number of both sides counts
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) attempts: u32,
    /// How long tasks can start; after that the keys of this side's tasks expire
    #[arg(long, value_name = "SECONDS", default_value = "604800", value_parser = seconds)]
    pub(crate) valid_for: Duration,
}

/// Where a task meets the peer's.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("endpoint").required(true).args(["listen", "connect", "gateway"]))]
pub(crate) struct TaskMeetingPoint {
    /// Listen for the peer's task at HOST:PORT; port 0 picks a free port
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<String>,
    /// Connect to the peer's task at HOST:PORT; retries until --wait is over
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    connect: Option<String>,
    /// Meet the peer's task at the gateway at HOST:PORT
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    gateway: Option<String>,
}

impl TaskMeetingPoint {
    pub(crate) fn endpoint(&self) -> Result<TaskEndpoint, Failure> {
        match (&self.listen, &self.connect, &self.gateway) {
            (Some(address), None, None) => {
                Ok(TaskEndpoint::Peer(Endpoint::Listen(address.clone())))
            }
            (None, Some(address), None) => {
                Ok(TaskEndpoint::Peer(Endpoint::Connect(address.clone())))
            }
            (None, None, Some(address)) => Ok(TaskEndpoint::Gateway(address.clone())),
            _ => Err(Failure::usage(
                "give one of --listen, --connect and --gateway",
            )),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Bucket {
    /// Directory of the job, made by `vesica split`
    #[arg(long, value_name = "DIR")]
    pub(crate) job: JobDirectory,
    /// The bucket, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) bucket: u32,
    /// Attempt at this bucket, counted from 0. Both sides' tasks make the same attempt, each of them once
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) attempt: u32,
    #[command(flatten)]
    pub(crate) point: TaskMeetingPoint,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) patience: Patience,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
pub(crate) struct Gateway {
    /// Listen for the tasks of both sides at HOST:PORT; port 0 picks a free port
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) listen: String,
    /// gateway.json of a job, which either side has; one for each job
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) admit: Vec<InputPath>,
    /// Most pairs of tasks at once, tasks that wait for the other side's included
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    pub(crate) pairs: u32,
    /// Longest wait of a task for the other side's
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub(crate) wait: Duration,
    /// Longest silence of a task once it is paired
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Attempts {
    /// Directory of the job, made by `vesica split`, with the results of tasks
    #[arg(long, value_name = "DIR")]
    pub(crate) job: JobDirectory,
    #[command(flatten)]
    pub(crate) point: MeetingPoint,
    /// This side's identity, with which the table was split
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
    /// The peer's fingerprint, vs1:…
    #[arg(help_heading = "Peer", long, value_name = "FINGERPRINT")]
    pub(crate) peer: Fingerprint,
    #[command(flatten)]
    pub(crate) patience: Patience,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("endpoint").args(["listen", "connect"]).requires_all(["identity", "peer"]))]
pub(crate) struct Total {
    /// Directory of the job, made by `vesica split`, with the results of all buckets
    #[arg(long, value_name = "DIR")]
    pub(crate) job: JobDirectory,
    /// Open the total, and listen for the peer's driver at HOST:PORT; port 0 picks a free port
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    listen: Option<String>,
    /// Open the total, and connect to the peer's driver at HOST:PORT; retries until --wait is over
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address)]
    connect: Option<String>,
    /// This side's identity, with which the table was split; to open the total
    #[arg(
        help_heading = "Peer",
        long,
        value_name = "FILE",
        requires = "endpoint"
    )]
    identity: Option<InputPath>,
    /// The peer's fingerprint, vs1:…
    #[arg(
        help_heading = "Peer",
        long,
        value_name = "FINGERPRINT",
        requires = "endpoint"
    )]
    peer: Option<Fingerprint>,
    #[command(flatten)]
    pub(crate) patience: Patience,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}

impl Total {
    /// Where the peer's driver is met, this side's identity and the peer, if they are to meet.
    pub(crate) fn meeting(&self) -> Option<(Endpoint, &Path, Fingerprint)> {
        let connect = self.connect.clone().map(Endpoint::Connect);
        let endpoint = self.listen.clone().map(Endpoint::Listen).or(connect)?;
        Some((endpoint, self.identity.as_deref()?, self.peer?))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Directory of the job, with the results of all buckets
    #[arg(long, value_name = "DIR")]
    pub(crate) job: JobDirectory,
    #[command(flatten)]
    pub(crate) table: Table,
    /// File for the matching rows; its name decides the format, else it is that of the input. `-` is standard output
    #[arg(
        help_heading = "Result",
        long,
        value_name = "FILE",
        required_unless_present = "output_table"
    )]
    pub(crate) output: Option<OutputPath>,
    #[command(flatten)]
    pub(crate) output_table: OutputTable,
    /// Approximate memory, such as 512M or 4G; half of this machine's if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// How to show progress on standard error
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto)]
    pub(crate) progress: ProgressMode,
}
