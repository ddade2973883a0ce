//! The options of jobs whose buckets are tasks of their own.

use std::time::Duration;

use clap::Args;
use vesica::TaskEndpoint;
use vesica::options::{parse_address, parse_bytes, parse_duration};

use super::{Meeting, Table};
use crate::failure::Failure;
use crate::identity::Identified;
use crate::metrics::MetricsOption;
use crate::offline::Side;
use crate::options::{
    DeadlineOption, LedgerOptions, MeetingPoint, ProgressOption, ReportOption, ResourceOptions,
    ResultOptions, ThreadsOption, Ways,
};
use crate::paths::{InputPath, JobDirectory};
use crate::patience::Patience;
use crate::report::Reporting;

/// The directory of a job.
#[derive(Debug, Args)]
pub(crate) struct JobOption {
    /// Directory of the job, made by `vesica split`, with what tasks have left there
    #[arg(long, value_name = "DIR")]
    pub(crate) job: JobDirectory,
}

#[derive(Debug, Args)]
pub(crate) struct Split {
    /// This side's role in the job
    #[arg(help_heading = "Agreed with the peer", long, value_enum)]
    pub(crate) role: Side,
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    #[command(flatten)]
    pub(crate) of: JobOption,
    /// Approximate memory of a task, such as 512M or 4G, which decides the number of buckets; the smaller one of both sides
    /// counts. Numbers take 129M or more, however few keys there are
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1G")]
    pub(crate) task_memory: u64,
    /// How often a bucket may be tried, 1 to 16; the smaller number of both sides counts
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) attempts: u32,
    /// How long tasks can start; after that the keys of this side's tasks expire
    #[arg(long, value_name = "SECONDS", default_value = "604800", value_parser = parse_duration)]
    pub(crate) valid_for: Duration,
}

/// Where a task meets the peer's.
#[derive(Debug, Args)]
pub(crate) struct TaskMeetingPoint {
    #[command(flatten)]
    point: MeetingPoint,
    /// Meet the peer's task at the gateway at HOST:PORT
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_address, group = "endpoint")]
    gateway: Option<String>,
}

impl TaskMeetingPoint {
    pub(crate) fn endpoint(&self) -> Result<TaskEndpoint, Failure> {
        match (&self.gateway, self.point.is_given()) {
            (Some(address), false) => Ok(TaskEndpoint::Gateway(address.clone())),
            (None, true) => Ok(TaskEndpoint::Peer(self.point.endpoint()?)),
            _ => Err(Failure::usage(
                "give one of --listen, --connect and --gateway",
            )),
        }
    }

    pub(crate) fn ways(&self) -> &Ways {
        &self.point.ways
    }
}

#[derive(Debug, Args)]
pub(crate) struct Bucket {
    #[command(flatten)]
    pub(crate) of: JobOption,
    /// The bucket, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) bucket: u32,
    /// Attempt at this bucket, counted from 0. Both sides' tasks make the same attempt, each of them once
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) attempt: u32,
    #[command(flatten)]
    pub(crate) point: TaskMeetingPoint,
    #[command(flatten)]
    pub(crate) threads: ThreadsOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) deadline: DeadlineOption,
    #[command(flatten)]
    pub(crate) report: ReportOption,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
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
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_duration)]
    pub(crate) wait: Duration,
    /// Longest silence of a task once it is paired
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) metrics: MetricsOption,
}

#[derive(Debug, Args)]
pub(crate) struct Attempts {
    #[command(flatten)]
    pub(crate) of: JobOption,
    #[command(flatten)]
    pub(crate) point: MeetingPoint,
    #[command(flatten)]
    pub(crate) who: Identified,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
}

/// Where the peer's driver is met, and who the two are; in `parse` none of it is required.
#[derive(Debug, Args)]
pub(crate) struct Total {
    #[command(flatten)]
    pub(crate) of: JobOption,
    #[command(flatten)]
    pub(crate) point: Option<MeetingPoint>,
    #[command(flatten)]
    pub(crate) who: Option<Identified>,
    /// Print a noisy size within the range that sizes have: from 0 to that of the smaller set
    #[arg(long)]
    pub(crate) clamp: bool,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) progress: ProgressOption,
    #[command(flatten)]
    pub(crate) account: LedgerOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    #[command(flatten)]
    pub(crate) of: JobOption,
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) result: ResultOptions,
    #[command(flatten)]
    pub(crate) report: ReportOption,
    #[command(flatten)]
    pub(crate) resources: ResourceOptions,
    #[command(flatten)]
    pub(crate) account: LedgerOptions,
}

impl Collect {
    pub(crate) fn reporting(&self) -> Reporting<'_> {
        Reporting {
            output: self.result.file(),
            ..self.report.reporting()
        }
    }
}
