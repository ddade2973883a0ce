//! Why a job failed.

use std::path::PathBuf;

use vesica_files::{
    Advice, Argument, Command, ErrorClass, Part, UnsafeDirectory, advice, for_this_user, many,
};
use vesica_session::{Again, Attempt, Error as SessionError, Fingerprint, Problem, RUNS_OF_SHARES};
use vesica_tables::Profile;
use vesica_wire::{Error as WireError, Limit};

use crate::memory::{memory_for, show_bytes, task_memory_for};

/// Why a run may not use a work directory, or the directory of a run by courier. Displayed behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkDirProblem {
    /// Other users can change what is in it, or it is none.
    #[error("{0}")]
    Unsafe(UnsafeDirectory),
    /// It holds what no run left.
    #[error("holds other files; name a directory of its own")]
    OtherFiles,
    /// Another run goes on in it.
    #[error("is in use by another run")]
    InUse,
    /// Nobody can tell whether another run goes on in it.
    #[error("is on a file system without locks, where two runs could use it at once")]
    NoLocks,
    /// No run by courier has begun in it.
    #[error("has no run by files; begin one with an offer, or take one")]
    NoRun,
    /// Its journal is not sealed.
    #[error(
        "holds a journal that an earlier version wrote, in clear; finish that run with the version that began it, \
         or remove the directory"
    )]
    JournalInClear,
    /// An earlier version wrote it, which kept numbers in another way.
    #[error(
        "holds a journal that an earlier version wrote; finish that run with the version that began it, or remove the \
         directory"
    )]
    EarlierJournal,
    /// What is kept of the run cannot be opened.
    #[error("holds a run that is damaged, or of another identity or version")]
    Unreadable,
    /// An earlier run had another peer.
    #[error("is of a run with another peer")]
    OtherPeer,
    /// An earlier run had other terms.
    #[error("is of a run with other options")]
    OtherOptions,
    /// The table of a run by courier had other keys in its first step.
    #[error("is of a run over other keys than the table has now")]
    OtherKeys,
    /// The offer of a run by courier was answered, and is made no more.
    #[error("is of a run that has gone on since its offer")]
    GoneOn,
    /// A run by courier is over on this side.
    #[error("is of a run that is over on this side")]
    Over,
    /// What is kept of a run by courier is a copy, which may be older than the run.
    #[error("was copied, restored or moved to another file system since the last step of its run")]
    Copied,
}

impl WorkDirProblem {
    /// What to do about it, where that is not said with it.
    fn remedy(&self) -> Option<Advice> {
        Some(match self {
            WorkDirProblem::Unsafe(_)
            | WorkDirProblem::OtherFiles
            | WorkDirProblem::NoRun
            | WorkDirProblem::JournalInClear
            | WorkDirProblem::EarlierJournal => return None,
            WorkDirProblem::InUse => {
                "wait for that run to end, or name another directory for this one".into()
            }
            WorkDirProblem::NoLocks => "name a directory on a local disk".into(),
            WorkDirProblem::Unreadable => {
                "give the identity of the earlier run, or remove the directory".into()
            }
            WorkDirProblem::OtherPeer | WorkDirProblem::OtherOptions => {
                "to go on with that run, repeat its options; to give it up, remove the directory"
                    .into()
            }
            WorkDirProblem::OtherKeys => {
                "to go on with that run, give it the table and the options of its first step; for another one, name \
                 another directory"
                    .into()
            }
            WorkDirProblem::GoneOn => "for another run, name another directory".into(),
            WorkDirProblem::Over => {
                "once the peer has your last message, remove the directory; another run takes another one".into()
            }
            WorkDirProblem::Copied => {
                "go on with the original; if that is gone, both sides begin another run".into()
            }
        })
    }
}

/// Why a job cannot be used. Displayed behind the name of its directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobProblem {
    /// Others can change what is in the directory, or it is none.
    #[error("{0}")]
    Unsafe(UnsafeDirectory),
    /// There is a job already.
    #[error("has a job already")]
    Taken,
    /// It has a file that is not of an unfinished split: of an earlier job, or somebody else's.
    #[error("holds other files, such as {0}; name a new directory for a new job")]
    OtherFiles(String),
    /// Nobody can tell whether another driver makes a job in it, or another task makes an attempt at a bucket.
    #[error("is on a file system without locks, where two processes could use it at once")]
    NoLocks,
    /// There is none, or none of this version.
    #[error("has no job of this version: {0}")]
    NoJob(String),
    /// The contract has no such bucket or attempt.
    #[error(
        "has {} of {} each; there is no attempt {} at bucket {}",
        many((*buckets).into(), "bucket"), many((*attempts).into(), "attempt"), asked.number, asked.bucket
    )]
    NoSuchAttempt {
        /// How many there are.
        buckets: u32,
        /// How many there are at each.
        attempts: u32,
        /// What was asked for.
        asked: Attempt,
    },
    /// The keys of one side's tasks do not count any more.
    #[error(
        "has keys for tasks that have expired, those of {}; split the table again, on both sides",
        if *of_peer { "the peer" } else { "this side" }
    )]
    Expired {
        /// Whose.
        of_peer: bool,
    },
    /// A driver has another identity, or another peer, than the one that split the table.
    #[error(
        "has a job that was split {} {split}, and not {} {given}",
        if *is_peers { "with the peer" } else { "by the identity" },
        if *is_peers { "with" } else { "by" }
    )]
    OtherDriver {
        /// Whether it is the peer that is another one.
        is_peers: bool,
        /// Who it was.
        split: Fingerprint,
        /// Who it is now.
        given: Fingerprint,
    },
    /// The peer's task for another attempt has come.
    #[error(
        "has met the peer's task for attempt {} at bucket {} in the place of that for attempt {} at bucket {}",
        theirs.number, theirs.bucket, ours.number, ours.bucket
    )]
    OtherAttempt {
        /// What this side's task is for.
        ours: Attempt,
        /// What the peer's is for.
        theirs: Attempt,
    },
    /// A task of this side has come in the place of the peer's.
    #[error("is this side's, and so is the task that has come in the place of the peer's")]
    OwnSide,
    /// Who has come has none of the keys that the peer's tasks have.
    #[error("has no task of the peer with the key {0}, which is another job's or a stranger's")]
    OtherTask(Fingerprint),
    /// Who has come expects another task than this one.
    #[error("has met a task that expects another one: {line}")]
    Refused {
        /// All that is known of it.
        line: String,
        /// Whose fault it is.
        class: ErrorClass,
    },
    /// The peer was caught, or says so of this side; or an attempt ended when the peer could see whether it would be.
    #[error("is of a job that is over since {when}: {why}")]
    Over {
        /// At what.
        when: String,
        /// How.
        why: String,
        /// Whose fault it is.
        class: ErrorClass,
    },
    /// The same, and nothing can be written that keeps others from making attempts.
    #[error("is of a job that is over since {when}: {why}; and that cannot be kept: {cause}")]
    NotOver {
        /// At what.
        when: String,
        /// How.
        why: String,
        /// Whose fault it is.
        class: ErrorClass,
        /// The system's reason.
        cause: String,
    },
    /// A file that tasks or the driver have left is not there any more as it was.
    #[error("has a file that is damaged or gone: {0}")]
    Damaged(String),
    /// The peer has confirmed an attempt at a bucket.
    #[error("has had an attempt at bucket {0} that the peer has confirmed, and makes no other")]
    Confirmed(u32),
    /// A side has lost a result that it had confirmed.
    #[error(
        "lacks a result of bucket {0} on a side that has confirmed one, and the other side does not answer twice; split the \
         table again, on both sides"
    )]
    ResultLost(u32),
    /// A task has begun it before.
    #[error("has had attempt {} at bucket {}; the next attempt has another number, on both sides", .0.number, .0.bucket)]
    Attempted(Attempt),
    /// Another task of this side makes an attempt at a bucket.
    #[error("has an attempt at bucket {0} running, and makes one at a time")]
    Running(u32),
    /// The keys of a bucket are not those that the driver left.
    #[error("has other keys in bucket {0} than those that were split")]
    OtherKeys(u32),
    /// No attempt at a bucket has a result.
    #[error("has no result of bucket {0}")]
    NoResult(u32),
    /// A bucket has no result, and both sides have agreed to try it no more often.
    #[error(
        "has no result of bucket {0}, and no attempt at it is left; split the table again, on both sides"
    )]
    NoAttemptLeft(u32),
    /// The results go to the other side.
    #[error("is one from which this side learns no matches")]
    LearnsNothing,
    /// What it finds is a number, and not rows.
    #[error("is for numbers, whose total the two sides open together")]
    OfNumbers,
    /// What it finds are rows, and not a number.
    #[error("is for matches, and has no numbers")]
    OfMatches,
    /// The total has not been opened.
    #[error("has no total yet, which this side opens with the peer")]
    NoTotal,
    /// The two sides began to open the results of different attempts.
    #[error(
        "has had the results of other attempts opened than the peer's; split the table again, on both sides"
    )]
    OtherChoice,
    /// An opening has given another total than the one before.
    #[error("has a total already, and the peer has opened another one")]
    OtherTotal,
    /// Another process of this side opens the total.
    #[error("is in use: another process opens its total")]
    InUse,
    /// Both sides have agreed to open the total no more often.
    #[error(
        "has had its total opened as often as a bucket may be tried; split the table again, on both sides"
    )]
    NoOpeningLeft,
}

impl JobProblem {
    /// What to do about it, where that is not said with it.
    fn remedy(&self) -> Option<Advice> {
        Some(match self {
            JobProblem::Unsafe(_)
            | JobProblem::OtherFiles(_)
            | JobProblem::Expired { .. }
            | JobProblem::ResultLost(_)
            | JobProblem::NoAttemptLeft(_)
            | JobProblem::OtherChoice
            | JobProblem::NoOpeningLeft => return None,
            JobProblem::Taken => "name a new directory for a new job".into(),
            JobProblem::NoJob(_) => advice![
                Command::Split,
                " makes a job, in a directory of its own; tasks and drivers need all of that",
            ],
            JobProblem::NoSuchAttempt { .. } | JobProblem::Attempted(_) => advice![
                Command::Attempts,
                " prints the attempts that both sides make next",
            ],
            JobProblem::OtherDriver { is_peers: true, .. } => advice![
                "name the peer with which the table was split, as ",
                Argument::Peer,
            ],
            JobProblem::OtherDriver { .. } => {
                "give the identity with which the table was split".into()
            }
            JobProblem::OtherAttempt { .. } => advice![
                "make the same attempts on both sides, in one order; ",
                Command::Attempts,
                " prints the next ones",
            ],
            JobProblem::Running(_) => advice![
                "wait for that task to end, or end it; then ",
                Command::Attempts,
                " prints the attempts that both sides make next",
            ],
            JobProblem::OwnSide => {
                "a task meets the peer's: give each the address at which that one is".into()
            }
            JobProblem::Refused { .. } => {
                "a task of one side meets one of the other: see that each has the address of its peer's, and the directory                  that its own side has of the same job"
                    .into()
            }
            JobProblem::OtherTask(_) => {
                "see that the tasks of both sides are of one job, and who else uses this address".into()
            }
            JobProblem::Over { class, .. } if *class != ErrorClass::Peer => {
                "nobody can tell any more whether the peer would have been caught; split the table again, on both sides"
                    .into()
            }
            JobProblem::Over { .. } => {
                "each attempt is a chance to guess for a peer that cheats: find out with the peer what has happened before \
                 you both split your tables again"
                    .into()
            }
            JobProblem::NotOver { .. } => {
                "stop all tasks of this job and remove its directory: nothing else keeps them from meeting a peer again that \
                 may cheat"
                    .into()
            }
            JobProblem::Damaged(_) => {
                "where no other attempt has the same, split the table again, on both sides".into()
            }
            JobProblem::Confirmed(_) => "there is nothing left to do for that bucket".into(),
            JobProblem::OtherKeys(_) => {
                "give the table, the key columns and their normalisation that were split; if one of these or a file of the \
                 job has changed, split the table again, on both sides"
                    .into()
            }
            JobProblem::NoResult(_) => advice![
                "run a task of each bucket first, on both sides; ",
                Command::Attempts,
                " prints which are left",
            ],
            JobProblem::LearnsNothing => advice![
                "the receiver has the rows; after a split with ",
                Argument::Both,
                " on both sides, this side has its own too",
            ],
            JobProblem::OfNumbers => advice![Command::Total, " opens and prints them"],
            JobProblem::OfMatches => advice![Command::Collect, " writes the matching rows"],
            JobProblem::NoTotal => {
                "meet the peer's driver to open it, once all buckets have a result".into()
            }
            JobProblem::OtherTotal => {
                "one of the two was changed; ask the peer what it has".into()
            }
            JobProblem::InUse => "wait for that process to end".into(),
            JobProblem::NoLocks => {
                "name a directory on a file system that locks files, and that every machine which runs tasks has at this path"
                    .into()
            }
        })
    }
}

/// Why a job failed: because of this side's table, or because of the session with the peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that do not go together, or that say what cannot be read.
    #[error("{problem}")]
    Usage {
        /// What is wrong with them.
        problem: String,
        /// What to do instead.
        remedy: Option<Advice>,
    },
    /// The caller cannot open its table, and knows why.
    #[error("the table cannot be opened")]
    Unopened {
        /// Whose fault it is.
        class: ErrorClass,
    },
    /// A work directory, or one of a run by courier, that is not this run's.
    #[error("the directory {} {problem}", path.display())]
    WorkDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: WorkDirProblem,
    },
    /// A directory of a job that cannot be used.
    #[error("the directory {} {problem}", path.display())]
    Job {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: JobProblem,
    },
    /// The table could not be read, or the result could not be written.
    #[error(transparent)]
    Table(#[from] vesica_tables::Error),
    /// No row of the table has a usable key, and the caller did not allow that.
    #[error(
        "no row has a usable key: {} blank and {} invalid{}, of {} in all",
        .0.blanks, .0.invalid, and_denied(.0), .0.rows
    )]
    NoKeys(Box<vesica_tables::Counts>),
    /// Connecting, the contract or the protocol failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A bucket needs more memory than tasks have.
    #[error(transparent)]
    TaskMemory(SessionError),
    /// The account of what is answered cannot be kept, or its rules do not allow the run.
    #[error(transparent)]
    Ledger(#[from] vesica_ledger::Error),
    /// A set cannot be published, served or asked about.
    #[error(transparent)]
    LookUp(vesica_lookup::Error),
    /// The keys of a table are of another kind than those of a published set.
    #[error("{}", other_keys(set, table))]
    OtherKeys {
        /// The [id](vesica_tables::Profile::id) of the profile of each column of the set's keys.
        set: Vec<String>,
        /// The columns of the table's keys, with the same of each.
        table: Vec<(String, String)>,
    },
    /// A step of a run by courier failed in what the sides have to agree on.
    #[error(transparent)]
    Courier(SessionError),
    /// Prepared correlations cannot be made, stored or used.
    #[cfg(feature = "offline")]
    #[error(transparent)]
    Offline(vesica_offline::Error),
}

impl From<vesica_lookup::Error> for Error {
    fn from(error: vesica_lookup::Error) -> Error {
        match error {
            vesica_lookup::Error::Session(error) => Error::Session(error),
            error => Error::LookUp(error),
        }
    }
}

#[cfg(feature = "offline")]
impl From<vesica_offline::Error> for Error {
    fn from(error: vesica_offline::Error) -> Error {
        match error {
            vesica_offline::Error::Session(error) => Error::Session(error),
            error => Error::Offline(error),
        }
    }
}

impl From<vesica_keys::Error> for Error {
    fn from(error: vesica_keys::Error) -> Error {
        vesica_tables::Error::from(error).into()
    }
}

impl Error {
    /// As an error of an agreement on tasks, which have a memory of their own.
    pub(crate) fn of_tasks(self) -> Error {
        match self {
            Error::Session(
                error @ SessionError::Run(WireError::Resource {
                    limit: Limit::Memory { .. },
                    ..
                }),
            ) => Error::TaskMemory(error),
            other => other,
        }
    }

    /// As an error of a step of a run by courier, which one side repeats by itself.
    pub(crate) fn by_courier(self) -> Error {
        match self {
            Error::Session(error @ SessionError::Run(WireError::ContractDiffers { .. })) => {
                Error::Courier(error)
            }
            other => other,
        }
    }

    /// Whether a database or an object store is the reason, which may do better another time.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Error::Table(error) if error.may_pass())
    }

    /// Whether the [interrupt](crate::Interrupt) of this side was raised.
    pub fn is_interrupted(&self) -> bool {
        self.class() == ErrorClass::Interrupted
    }

    /// Whether the same call may succeed at another time, without a change to its arguments or table: the peer, a database or
    /// an object store was out of reach.
    pub fn is_transient(&self) -> bool {
        self.class() == ErrorClass::Network || self.may_pass()
    }

    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Job {
                problem: JobProblem::NoJob(_) | JobProblem::OtherKeys(_) | JobProblem::Damaged(_),
                ..
            } => ErrorClass::Data,
            Error::Job {
                problem: JobProblem::OtherTask(_) | JobProblem::OtherAttempt { .. },
                ..
            } => ErrorClass::Network,
            Error::Job {
                problem:
                    JobProblem::Refused { class, .. }
                    | JobProblem::Over { class, .. }
                    | JobProblem::NotOver { class, .. },
                ..
            } => *class,
            Error::Job {
                problem: JobProblem::OtherTotal,
                ..
            } => ErrorClass::Peer,
            Error::Job {
                problem:
                    JobProblem::Running(_)
                    | JobProblem::NoAttemptLeft(_)
                    | JobProblem::ResultLost(_)
                    | JobProblem::NoOpeningLeft,
                ..
            } => ErrorClass::Resource,
            Error::Job {
                problem: JobProblem::OwnSide | JobProblem::OtherChoice,
                ..
            } => ErrorClass::Contract,
            Error::WorkDir {
                problem: WorkDirProblem::OtherKeys,
                ..
            } => ErrorClass::Data,
            Error::Unopened { class } => *class,
            Error::Usage { .. } | Error::WorkDir { .. } | Error::Job { .. } => ErrorClass::Usage,
            Error::Table(error) => error.class(),
            Error::NoKeys(_) => ErrorClass::Data,
            Error::Session(error) | Error::TaskMemory(error) | Error::Courier(error) => {
                error.class()
            }
            Error::OtherKeys { .. } => ErrorClass::Contract,
            Error::Ledger(error) => error.class(),
            Error::LookUp(error) => error.class(),
            #[cfg(feature = "offline")]
            Error::Offline(error) => error.class(),
        }
    }

    /// What the peer may know of a failure before anything was exchanged with it, if it is this side's.
    pub fn problem(&self) -> Option<Problem> {
        match self.class() {
            ErrorClass::Data if self.is_of_a_store() => Some(Problem::Store),
            ErrorClass::Usage => Some(Problem::Options),
            ErrorClass::Data => Some(Problem::Table),
            ErrorClass::Resource => Some(Problem::Resources),
            ErrorClass::Network
            | ErrorClass::Peer
            | ErrorClass::Contract
            | ErrorClass::Interrupted => None,
        }
    }

    fn is_of_a_store(&self) -> bool {
        match self {
            Error::Session(SessionError::Halves { .. }) => true,
            #[cfg(feature = "offline")]
            Error::Offline(_) => true,
            _ => false,
        }
    }

    /// What to do about it, where something helps.
    pub fn remedy(&self) -> Option<Advice> {
        Some(match self {
            Error::Usage { remedy, .. } => return remedy.clone(),
            Error::WorkDir { problem, .. } => return problem.remedy(),
            Error::Job { problem, .. } => return problem.remedy(),
            Error::Unopened { .. } => return None,
            Error::Table(error) => return error.remedy(),
            Error::NoKeys(_) => advice![
                Command::Check,
                " shows what is wrong with them; where such a table is fine, pass ",
                Argument::AllowEmpty,
            ],
            Error::Session(SessionError::Run(WireError::Resource {
                limit: Limit::Memory { enough },
                ..
            })) => for_a_bucket(
                Argument::Memory,
                "half of it or more is",
                enough.map(memory_for),
            ),
            Error::TaskMemory(SessionError::Run(WireError::Resource {
                limit: Limit::Memory { enough },
                ..
            })) => for_a_bucket(
                Argument::TaskMemory,
                "all of it is",
                enough.map(task_memory_for),
            ),
            Error::Session(SessionError::Run(WireError::ContractDiffers {
                field: "value bound",
                ..
            })) => advice![
                "declare a smaller ",
                Argument::ValueBound,
                " or ",
                Argument::ValueScale,
                ", or raise ",
                Argument::MaxPeerValueBound,
                " on the other side",
            ],
            Error::Session(SessionError::Run(WireError::ContractDiffers {
                field: RUNS_OF_SHARES,
                ..
            })) => "one side's work directory is an older copy: remove it on both sides, and start over"
                .into(),
            Error::Session(SessionError::ExposedSecret { path }) => {
                format!("run: {}", for_this_user(path)).into()
            }
            Error::Session(error) | Error::TaskMemory(error) => return error.remedy(),
            Error::Courier(error) => return error.remedy_in(Again::Step),
            Error::OtherKeys { set, table } => keys_of_set(set, table),
            Error::Ledger(error) => return error.remedy().map(Advice::from),
            Error::LookUp(error) => return error.remedy(),
            #[cfg(feature = "offline")]
            Error::Offline(error) => return error.remedy(),
        })
    }
}

/// The rows that are denied, if there are some.
fn and_denied(counts: &vesica_tables::Counts) -> String {
    match counts.denied {
        0 => String::new(),
        denied => format!(" and {denied} denied"),
    }
}

/// What is wrong with keys of other columns or profiles than those of a set.
fn other_keys(set: &[String], table: &[(String, String)]) -> String {
    match set.len() == table.len() {
        true => {
            let ours: Vec<&str> = table.iter().map(|(_, profile)| &**profile).collect();
            format!(
                "the keys of the published set are normalised as {}, and those of the table as {}",
                set.join(", "),
                ours.join(", ")
            )
        }
        false => format!(
            "the keys of the published set have {}, and those of the table {}",
            many(set.len() as u64, "column"),
            table.len()
        ),
    }
}

const LACKS_PROFILE: &str = "this version of the program lacks one of the set's profiles: run the version that published it";

/// How a table is read with the keys of a set.
fn keys_of_set(set: &[String], table: &[(String, String)]) -> Advice {
    if set.iter().any(|id| id.contains('=')) {
        let profile = |id: &String| {
            let (name, id) = id.split_once('=')?;
            Some(format!("{name} ({})", Profile::written(id)?))
        };
        return match set.iter().map(profile).collect::<Option<Vec<_>>>() {
            Some(names) => format!(
                "match by the identifiers of the set, one after the other: {}",
                names.join(", ")
            )
            .into(),
            None => LACKS_PROFILE.into(),
        };
    }
    let written: Option<Vec<String>> = set.iter().map(|id| Profile::written(id)).collect();
    let Some(profiles) = written else {
        return LACKS_PROFILE.into();
    };
    let has_identifiers = table.iter().any(|(_, id)| id.contains('='));
    if set.len() != table.len() || has_identifiers {
        return advice![
            "name the columns that the set was made from with ",
            Argument::Key,
            format!(", in their order: {}", profiles.join(", ")),
        ];
    }
    let mut parts = vec![Part::from("read the table as the set was made: ")];
    let columns = set.iter().zip(table).zip(profiles);
    let other = columns.filter(|((id, (_, ours)), _)| *id != ours);
    for (number, ((_, (column, _)), profile)) in other.enumerate() {
        if number > 0 {
            parts.push(Part::from(", "));
        }
        parts.push(Part::from((Argument::Normalize, profile)));
        if table.len() > 1 {
            parts.push(Part::from(format!(" for column {column:?}")));
        }
    }
    Advice::new(parts)
}

/// What to do where a bucket needs more than the memory that this argument leaves it.
fn for_a_bucket(memory: Argument, share: &'static str, enough: Option<u64>) -> Advice {
    let enough = enough.map(|bytes| format!(", and {} are enough", show_bytes(bytes)));
    advice![
        "raise ",
        memory,
        " on the side that gives less: ",
        share,
        " for a bucket",
        enough.unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "offline")]
    #[test]
    fn a_store_is_no_table() {
        use vesica_offline::Error as OfflineError;
        for error in [
            OfflineError::Store("damaged".into()),
            OfflineError::CopiedHalf("half".into()),
        ] {
            let in_a_run = Error::Session(error.clone().into());
            for error in [in_a_run, error.into()] {
                assert_eq!(error.problem(), Some(Problem::Store));
                assert_eq!(error.class(), ErrorClass::Data);
            }
        }
        let none = Error::NoKeys(Box::default());
        assert_eq!(none.problem(), Some(Problem::Table));
    }

    #[test]
    fn an_interrupt_of_ones_own_is_nobodys_fault() {
        use vesica_wire::Interrupt;
        for raise in [Interrupt::raise, Interrupt::stop] {
            let interrupt = Interrupt::new();
            raise(&interrupt);
            let why = interrupt.check().unwrap_err();
            let error = Error::from(SessionError::from(why));
            assert_eq!(error.class(), ErrorClass::Interrupted, "{error}");
            assert_eq!(error.problem(), None);
        }
    }

    #[test]
    fn shares_of_different_runs_say_where_they_are() {
        let error = WireError::ContractDiffers {
            field: RUNS_OF_SHARES,
            ours: "00".into(),
            theirs: "01".into(),
        };
        let remedy = Error::Session(SessionError::Run(error)).remedy().unwrap();
        let words = "remove it on both sides, and start over";
        assert!(remedy.to_string().ends_with(words), "{remedy}");
    }

    #[test]
    fn limits_of_memory_name_the_option() {
        for (limit, words) in [
            (Limit::Memory { enough: None }, "for a bucket"),
            (
                Limit::Memory {
                    enough: Some(50 << 20),
                },
                ", and 100M are enough",
            ),
        ] {
            let error = SessionError::Run(WireError::limit(limit, "too little"));
            let remedy = Error::Session(error).remedy().unwrap();
            assert!(remedy.arguments().eq([Argument::Memory]), "{remedy}");
            assert!(remedy.to_string().ends_with(words), "{remedy}");
        }
        let limit = Limit::Memory {
            enough: Some(50 << 20),
        };
        let error = SessionError::Run(WireError::limit(limit, "too little"));
        let remedy = Error::Session(error).of_tasks().remedy().unwrap();
        assert!(remedy.arguments().eq([Argument::TaskMemory]), "{remedy}");
        assert!(
            remedy.to_string().ends_with(", and 64M are enough"),
            "{remedy}"
        );
        let error = SessionError::Run(WireError::limit(Limit::Encoding, "again"));
        assert_eq!(Error::Session(error).remedy(), None);
    }
}
