//! The options of jobs whose buckets are tasks of their own.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use vesica::parse_bytes;

use super::{Meeting, MeetingPoint, Table, parse_threads};
use crate::offline::Side;
use crate::patience::Patience;
use crate::progress::ProgressMode;

#[derive(Debug, Args)]
pub(crate) struct Split {
    /// This side's part in the job
    #[arg(help_heading = "Agreed with the peer", long, value_enum)]
    pub(crate) role: Side,
    #[command(flatten)]
    pub(crate) table: Table,
    #[command(flatten)]
    pub(crate) link: Meeting,
    /// Directory for the job, which only this user may read. Tasks need all of it; job.json in it has the keys to the rest
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    /// Approximate memory of a task for its bucket, such as 512M or 4G, by which the number of buckets is chosen; the
    /// smaller one of both sides counts
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "1G")]
    pub(crate) task_memory: u64,
    /// How often a bucket may be tried, 1 to 16; the smaller number of both sides counts
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) attempts: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Bucket {
    /// Directory of the job, made by `vesica split`
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    /// The bucket, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) bucket: u32,
    /// The attempt at it, counted from 0. Both sides' tasks make the same one, and each once
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) attempt: u32,
    #[command(flatten)]
    pub(crate) point: MeetingPoint,
    /// The identity with which the job was split
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: PathBuf,
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
pub(crate) struct Collect {
    /// Directory of the job, with the results of all buckets
    #[arg(long, value_name = "DIR")]
    pub(crate) job: PathBuf,
    #[command(flatten)]
    pub(crate) table: Table,
    /// File for the matching rows, in the format of the input; `-` is standard output
    #[arg(help_heading = "Result", long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Approximate memory, such as 512M or 4G; half of this machine's if not given
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory: Option<u64>,
    /// Threads to compute on; all of this machine's if not given
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<NonZeroUsize>,
}
