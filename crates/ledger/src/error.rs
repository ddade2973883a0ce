//! Why an account is not kept.

use std::io;
use std::path::{Path, PathBuf};

use vesica_files::{ErrorClass, NoState, is_exhausted};

/// What is wrong with the file of a ledger. Displayed behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It is something else.
    #[error("is no ledger")]
    NotALedger,
    /// There is none.
    #[error("is not there")]
    NoFile,
    /// A line is not as it was written, or not where it was written.
    #[error("is not as it was written: line {line} {what}")]
    Changed {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It has fewer entries than a run of this user has written into it.
    #[error("is an older copy, or was cut: it ends with entry {has}, and entry {last} was written")]
    Older {
        /// The number of its last entry.
        has: u64,
        /// The number of the entry that is missing.
        last: u64,
    },
    /// It has another entry than a run of this user has written into it.
    #[error("is another one than was written: its entry {0} differs")]
    Other(u64),
    /// A ledger was in its place, and is gone.
    #[error("is not there, where the ledger {0} was")]
    Gone(String),
    /// Another ledger is known to be in its place.
    #[error("is another ledger than the one that was there")]
    Another,
    /// It has entries, and nothing outside of it says that they are all.
    #[error("was not written here so far, so that nobody can tell whether it is an older copy")]
    Unknown,
    /// An entry would be too long.
    #[error("takes no entry of {0} bytes")]
    TooLong(usize),
    /// Others may read it.
    #[error("can be read by other users")]
    Exposed,
    /// Another run adds entries.
    #[error("is in use by another run")]
    InUse,
    /// Nobody can tell whether another run adds entries.
    #[error("is on a file system without locks, where two runs could write it at once")]
    NoLocks,
    /// What is kept outside of it cannot be read.
    #[error("has a damaged mark in {}", .0.display())]
    BadMark(PathBuf),
}

/// Why a rule does not allow a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", rule.as_ref().map_or_else(String::new, |rule| format!("the rule {rule:?} does not allow this run: ")))]
pub struct Refusal {
    /// Its name; none if there is no rule for such a run.
    pub rule: Option<String>,
    /// Why not.
    pub why: String,
}

/// Why an account is not kept, or a run refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be used.
    #[error("the ledger {} {problem}", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A file of it cannot be read or written.
    #[error("the ledger: {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// There is no directory for what is kept outside of it.
    #[error("what a ledger needs outside of its file has no place: {0}")]
    NoState(NoState),
    /// The rules cannot be read.
    #[error("the rules {}: {problem}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        problem: String,
    },
    /// The run has not begun by any entry.
    #[error("the ledger has no entry by which this run has begun")]
    NoSuchRun,
    /// A rule does not allow the run.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        |cause| Error::Io { path, cause }
    }

    pub(crate) fn of(path: &Path, problem: Problem) -> Error {
        Error::Ledger {
            path: path.to_owned(),
            problem,
        }
    }

    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Ledger { problem, .. } => match problem {
                Problem::InUse | Problem::TooLong(_) => ErrorClass::Resource,
                Problem::NoLocks | Problem::NotALedger | Problem::NoFile | Problem::Exposed => {
                    ErrorClass::Usage
                }
                _ => ErrorClass::Data,
            },
            Error::Io { cause, .. } if is_exhausted(cause) => ErrorClass::Resource,
            Error::Io { .. } | Error::NoState(_) | Error::NoSuchRun | Error::Rules { .. } => {
                ErrorClass::Usage
            }
            Error::Refused(_) => ErrorClass::Resource,
        }
    }

    /// What to do about it, where something helps.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Error::Ledger { problem, .. } => Some(match problem {
                Problem::InUse => "wait for that run to begin or to end",
                Problem::NoLocks => "name a file on a local disk",
                Problem::NotALedger => "name a file of its own, which the first run makes",
                Problem::NoFile | Problem::TooLong(_) => return None,
                Problem::Gone(_) => {
                    "put it back; to begin another one, name a file in which none was"
                }
                Problem::Another => {
                    "put that one back, or name a file in which none was; if this one takes its place, say so with \
                     `vesica ledger adopt`"
                }
                Problem::Unknown => {
                    "rules count what it says: if it is the last version, say so with `vesica ledger adopt`"
                }
                Problem::Exposed => "let nobody else read it: chmod 600",
                _ => {
                    "find out what became of it; to go on without it, keep it as it is and name a new file"
                }
            }),
            Error::NoState(_) => {
                Some("set XDG_STATE_HOME to a directory of this user's that stays")
            }
            _ => None,
        }
    }
}
