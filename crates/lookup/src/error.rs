//! Why a set is not published, served or asked about.

use std::io;
use std::path::{Path, PathBuf};

use vesica_files::{Advice, Argument, Command, UnsafeDirectory, advice, is_exhausted, many};
use vesica_keys::Error as KeysError;
use vesica_session::{Error as SessionError, ErrorClass, Fingerprint};
use vesica_wire::{Error as WireError, Limit};

/// What is wrong with the file of a published set. Displayed behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetProblem {
    /// There is none.
    #[error("is not there")]
    NoFile,
    /// It is something else.
    #[error("is {0}, and not a published set")]
    NotASet(&'static str),
    /// A later version of this program wrote it.
    #[error("has version {0} of the format, which this program does not know")]
    Version(u8),
    /// It ends too early.
    #[error("is not whole: it ends too early")]
    Truncated,
    /// Bytes follow after its end.
    #[error("is damaged: more bytes follow after its end")]
    TooLong,
    /// Its header says what no publisher writes.
    #[error("has a damaged header: {0}")]
    BadHeader(&'static str),
    /// The signature is not of this header.
    #[error("is not as its publisher signed it")]
    BadSignature,
    /// The index is not the signed one.
    #[error("has a damaged index")]
    BadIndex,
    /// A block is not the signed one, or no block.
    #[error("has a damaged block {0}")]
    BadBlock(usize),
    /// It is of another key, or declares something else.
    #[error("is of another published set than the release before it")]
    OtherSet,
    /// Another release comes next.
    #[error("is release {got}, and {expected} comes next")]
    OutOfOrder {
        /// The release that is missing.
        expected: u64,
        /// The release that is there.
        got: u64,
    },
    /// It is a later release in the place of the first, which is beside it.
    #[error("is release {release} of a set, and not the set itself")]
    LaterRelease {
        /// Its number.
        release: u64,
        /// Where the first should be.
        first: PathBuf,
    },
    /// Its server has another key: these are the files of the set under the one before.
    #[error("was published anew: the server has another key")]
    PublishedAnew {
        /// All files of it that are here.
        files: Vec<PathBuf>,
    },
    /// Its publisher has made it after another release than the one before it.
    #[error("does not follow the release before it")]
    NotNext,
    /// It has the name of a later release, and this one is not there.
    #[error("has the name of a release, and release {0} before it is not there")]
    Missing(u64),
    /// It is not what the database has published last.
    #[error("is not what this database has published last, which is release {0}")]
    NotLast(u64),
    /// It is longer than what its header promises.
    #[error("would have {0} bytes, more than its header allows")]
    TooLarge(u64),
    /// It is no set, or another publisher's, and a release would take its place.
    #[error("is there, and is no set of this publisher")]
    AnotherFile,
    /// It is a release that was not published from this database, or has another number than its name.
    #[error("is there, and is no release that the new set replaces")]
    NotReplaced,
    /// Another process fetches it.
    #[error("is being fetched by another process")]
    BeingFetched,
    /// Nobody can tell whether another process fetches it.
    #[error("is on a file system without locks, where two processes could fetch it at once")]
    NoLocks,
    /// It was damaged, or another file was put in its place, after all of it was checked.
    #[error("has changed since it was checked")]
    Changed,
    /// An earlier look-up has seen a later release.
    #[error("is release {got}, and an earlier look-up has seen release {seen}")]
    Older {
        /// The last release that is there.
        got: u64,
        /// The last that was seen.
        seen: u64,
    },
    /// An earlier look-up has seen another release of this number.
    #[error("has another release {0} than an earlier look-up has seen")]
    Forked(u64),
    /// An earlier look-up has seen a set under the key that has replaced this one's.
    #[error("has a key that was replaced: an earlier look-up has seen a set under another one")]
    Replaced,
    /// Earlier look-ups were in a set of somebody else.
    #[error("has another publisher than the set of earlier look-ups, which is {0}")]
    OtherState(Fingerprint),
    /// Earlier look-ups were in another set of its publisher.
    #[error("is another set than that of earlier look-ups, which has the same publisher")]
    AnotherSet,
    /// Somebody else has published it.
    #[error("was published by {got}, and not by {expected}")]
    OtherPublisher {
        /// The pinned publisher.
        expected: Fingerprint,
        /// The publisher.
        got: Fingerprint,
    },
}

/// What a process does with a directory that it has locked. Displayed behind its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Holder {
    /// It answers clients.
    #[error("serves the set")]
    Server,
    /// It makes a set or a release.
    #[error("publishes from it")]
    Publisher,
    /// Either.
    #[error("serves the set, or makes another key")]
    ServerOrPublisher,
    /// It looks keys up.
    #[error("looks keys up with it")]
    LookUp,
}

/// What is wrong with a database or a directory of state. Displayed behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreProblem {
    /// Other users can change what is in it, or it is none.
    #[error("{0}")]
    Unsafe(UnsafeDirectory),
    /// A publication is in it already.
    #[error("holds a published set already")]
    Taken,
    /// There is no such directory.
    #[error("does not exist")]
    Absent,
    /// There is none.
    #[error("holds no published set")]
    Empty,
    /// Another process has it.
    #[error("is in use by another process, which {0}")]
    InUse(Holder),
    /// Nobody can tell whether another process uses it.
    #[error("is on a file system without locks, where two processes could use it at once")]
    NoLocks,
    /// It was restored from a copy: more was published from it than it knows of.
    #[error(
        "is older than its set: it knows of release {last} at most, and release {found} was published"
    )]
    Older {
        /// The last release that it knows of.
        last: u64,
        /// The last that was published.
        found: u64,
    },
    /// What it would go on publishing from was restored from a copy, or its set was finished since.
    #[error(
        "holds a copy of what an unfinished publication had computed, whose key may have answered questions since"
    )]
    CopiedJournal,
    /// A file in it cannot be opened with this identity.
    #[error("holds a file {0} that is damaged, or of another identity")]
    Unreadable(&'static str),
    /// A file in it has another form.
    #[error("holds a file {0} of another version of vesica")]
    OtherVersion(&'static str),
    /// The count of queries under its key is not there.
    #[error("has lost the count of queries, without which it is not served")]
    NoQuotas,
    /// The operating system's reason.
    #[error("cannot be used: {0}")]
    Io(String),
}

/// Why a set is not published, served or asked about.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something impossible.
    #[error("{0}")]
    Usage(String),
    /// More keys than are declared.
    #[error("{} are more than the {most} that are declared", many(*keys, "key"))]
    TooManyKeys {
        /// How many there are.
        keys: u64,
        /// How many may be published under the key.
        most: u64,
    },
    /// With those that come, more keys than were declared when the set was published.
    #[error(
        "{} in all, with those that have left, are more than the {most} that were declared", many(*keys, "key")
    )]
    NoRoom {
        /// How many there would be.
        keys: u64,
        /// How many may be published under the key.
        most: u64,
    },
    /// A published set that cannot be used.
    #[error("the published set {} {problem}", path.display())]
    Set {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        problem: SetProblem,
    },
    /// A file that the server has handed out is none that follows those that are here.
    #[error("what the server has handed out as {} {problem}", path.display())]
    HandedOut {
        /// Where it was to go.
        path: PathBuf,
        /// What is wrong with it.
        problem: SetProblem,
    },
    /// A database or state that cannot be used.
    #[error("the directory {} {problem}", path.display())]
    Store {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: StoreProblem,
    },
    /// A file that cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: String,
    },
    /// The server has not this side on its list.
    #[error("the server refused this side's identity {ours}: it is not a client")]
    NotAClient {
        /// The fingerprint of our key.
        ours: Fingerprint,
    },
    /// The connection failed, or the other side misbehaved, disagrees or gave up.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Error {
    pub(crate) fn set(path: &Path, problem: SetProblem) -> Error {
        Error::Set {
            path: path.to_owned(),
            problem,
        }
    }

    pub(crate) fn store(path: &Path, problem: StoreProblem) -> Error {
        Error::Store {
            path: path.to_owned(),
            problem,
        }
    }

    /// A file that cannot be read or written; Resource if there is no room for it.
    pub fn io(path: &Path, cause: &io::Error) -> Error {
        match is_exhausted(cause) {
            true => {
                let line = format!("{}: {cause}", path.display());
                WireError::limit(Limit::System, line).into()
            }
            false => Error::Io {
                path: path.to_owned(),
                reason: cause.to_string(),
            },
        }
    }

    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Usage(_)
            | Error::TooManyKeys { .. }
            | Error::NoRoom { .. }
            | Error::Io { .. } => ErrorClass::Usage,
            Error::Set {
                problem:
                    SetProblem::LaterRelease { .. }
                    | SetProblem::AnotherFile
                    | SetProblem::NotReplaced
                    | SetProblem::BeingFetched
                    | SetProblem::NoLocks
                    | SetProblem::AnotherSet
                    | SetProblem::OtherState(_),
                ..
            } => ErrorClass::Usage,
            Error::HandedOut { .. } => ErrorClass::Peer,
            Error::NotAClient { .. }
            | Error::Set {
                problem: SetProblem::PublishedAnew { .. },
                ..
            } => ErrorClass::Contract,
            Error::Set { .. } => ErrorClass::Data,
            Error::Store {
                problem:
                    StoreProblem::Unreadable(_)
                    | StoreProblem::OtherVersion(_)
                    | StoreProblem::NoQuotas
                    | StoreProblem::CopiedJournal
                    | StoreProblem::Older { .. },
                ..
            } => ErrorClass::Data,
            Error::Store { .. } => ErrorClass::Usage,
            Error::Session(error) => error.class(),
        }
    }

    /// What the user can do, where something helps.
    pub fn remedy(&self) -> Option<Advice> {
        Some(match self {
            Error::TooManyKeys { .. } => {
                advice!["declare as many or more with ", Argument::MaxKeys]
            }
            Error::NoRoom { .. } => advice![
                "publish the whole table anew, with ",
                Argument::Rotate,
                " and a larger ",
                Argument::MaxKeys,
            ],
            Error::Set { problem, .. } => match problem {
                SetProblem::OtherPublisher { .. } => advice![
                    "get the file from the publisher, and compare ",
                    Argument::Peer
                ],
                SetProblem::NoFile => advice![
                    "name the file that ",
                    Command::Publish,
                    " has written, or get it from the publisher; a client fetches it from the server with ",
                    Argument::Fetch,
                ],
                SetProblem::NotASet(_) => advice![
                    "name the file that ",
                    Command::Publish,
                    " has written, or get it from the publisher",
                ],
                SetProblem::LaterRelease { first, .. } => format!(
                    "name {}: the later releases are found beside it",
                    first.display()
                )
                .into(),
                SetProblem::PublishedAnew { files } => {
                    let files: Vec<String> =
                        files.iter().map(|file| file.display().to_string()).collect();
                    format!(
                        "remove {}, and the same again fetches the new set",
                        files.join(" and ")
                    )
                    .into()
                }
                SetProblem::NotLast(_) => {
                    "put the files of all releases beside each other, or publish anew".into()
                }
                SetProblem::AnotherFile => {
                    "give the set another name, or remove the file if nobody needs it".into()
                }
                SetProblem::NotReplaced => {
                    "give the set another name, or move the file to another directory".into()
                }
                SetProblem::Missing(_) => {
                    "get the files of all releases from the publisher once more, or give this file another name if it is none".into()
                }
                SetProblem::BeingFetched => return None,
                SetProblem::NoLocks => "fetch it to a local disk".into(),
                SetProblem::Older { .. } => advice![
                    "fetch the later releases with ",
                    Argument::Fetch,
                    ", or get them from the publisher; if it has gone back itself, give another directory as ",
                    Argument::State,
                ],
                SetProblem::Forked(_) => advice![
                    "get the files of all releases from the publisher once more; if it has gone back itself, give another directory as ",
                    Argument::State,
                ],
                SetProblem::Replaced => advice![
                    "get the set from the publisher once more; another set has another directory as ",
                    Argument::State,
                ],
                SetProblem::OtherState(_) | SetProblem::AnotherSet => {
                    advice!["each set has a directory of its own as ", Argument::State]
                }
                SetProblem::Changed => "put the set where nobody else can change it".into(),
                _ => "get the files of all releases from the publisher once more".into(),
            },
            Error::Store { problem, .. } => match problem {
                StoreProblem::Taken => advice![
                    "add keys to the set or remove some, or publish the whole table anew with ",
                    Argument::Rotate,
                    "; another set has another directory",
                ],
                StoreProblem::NoQuotas | StoreProblem::Older { .. } => {
                    "publish anew, under another key: how much clients have asked is not known"
                        .into()
                }
                StoreProblem::CopiedJournal => {
                    "remove the publishing-journal in it, and publish again: that makes another key"
                        .into()
                }
                StoreProblem::Unreadable(_) => "give the identity that made it".into(),
                StoreProblem::OtherVersion(_) => {
                    "take the version that made it, or name another directory".into()
                }
                StoreProblem::InUse(holder) => match holder {
                    Holder::Server => "stop that server, and start it again afterwards".into(),
                    Holder::Publisher => "wait until that has ended".into(),
                    Holder::ServerOrPublisher => "stop that, or wait until it has ended".into(),
                    Holder::LookUp => advice![
                        "wait until that has ended, or give this look-up another directory as ",
                        Argument::State,
                    ],
                },
                StoreProblem::NoLocks => "name a directory on a local disk".into(),
                StoreProblem::Absent | StoreProblem::Empty => advice![
                    Command::Publish,
                    " makes one from a table; name the directory where it has",
                ],
                _ => return None,
            },
            Error::HandedOut { .. } => {
                "fetch it once more, and tell the publisher if that fails too".into()
            }
            Error::NotAClient { .. } => {
                "give the publisher this fingerprint, for the list of clients".into()
            }
            Error::Session(error) => return error.remedy(),
            _ => return None,
        })
    }
}

/// Keys or values cannot be put into a temporary file, or read back.
impl From<KeysError> for Error {
    fn from(error: KeysError) -> Error {
        WireError::limit(Limit::Storage, error).into()
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Error {
        Error::Session(error.into())
    }
}
