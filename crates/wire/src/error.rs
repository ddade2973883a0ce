//! Errors that say whose fault it was.

use std::time::Duration;

/// Who has to act on an error; the command maps it to an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blame {
    /// The network, or a peer that went away.
    Network,
    /// The peer sent what no honest peer sends.
    Peer,
    /// The two sides want different jobs.
    Contract,
    /// A limit of this machine or this run.
    Resource,
}

/// What a peer did that no honest peer does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// A frame of a different kind from the one expected.
    #[error("expected {expected}, the peer sent frame kind {got}")]
    UnexpectedFrame {
        /// Name of the frame that was due.
        expected: &'static str,
        /// Code of the frame that came.
        got: u8,
    },
    /// A frame that announces more bytes than the protocol allows here.
    #[error("{what} of {bytes} bytes; at most {max} are allowed")]
    TooLong {
        /// Name of the frame.
        what: &'static str,
        /// Announced length in bytes.
        bytes: u64,
        /// Allowed length in bytes.
        max: u64,
    },
    /// A frame whose length is not the protocol's.
    #[error("{what} has a length of {bytes} bytes, which the protocol does not allow")]
    WrongLength {
        /// Name of the frame.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A value outside its type: a point off the curve, a number out of range, text that is not UTF-8.
    #[error("{what}: {problem}")]
    BadValue {
        /// Which value.
        what: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Why a run over a channel ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system or TLS reported a failure of the connection.
    #[error("connection failed: {0}")]
    Connection(String),
    /// The peer closed the connection in the middle of the run.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer was silent for this long: neither data nor a heartbeat.
    #[error("nothing heard from the peer for {} seconds", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The peer was alive but sent or received nothing else for this long.
    #[error("the peer is alive, but the run has not moved for {} seconds", .0.as_secs_f32())]
    Stalled(Duration),
    /// All of it has taken this long, which is as long as it may.
    #[error("not done within {} seconds", .0.as_secs_f32())]
    Overdue(Duration),
    /// A third party, without which there is nothing to do, went away or sent nothing valid.
    #[error("{0}")]
    ThirdParty(&'static str),
    /// The peer gave up and said why.
    #[error("the peer gave up: {reason}")]
    PeerAborted {
        /// Who the peer blames.
        blame: Blame,
        /// The peer's words, cut to a bounded length and stripped of control characters.
        reason: String,
    },
    /// The peer sent what no honest peer sends.
    #[error("the peer misbehaved: {0}")]
    PeerMisbehaved(#[from] Misbehaviour),
    /// The two sides want different jobs.
    #[error("the two sides disagree on {field}: here {ours}, there {theirs}")]
    ContractDiffers {
        /// Name of the field.
        field: &'static str,
        /// Our value.
        ours: String,
        /// The peer's value.
        theirs: String,
    },
    /// What the two sides want does not go together, although no value of one contradicts the other's.
    #[error("{problem}")]
    ContractImpossible {
        /// Name of the field.
        field: &'static str,
        /// One line for a person.
        problem: String,
    },
    /// A limit of this run or machine.
    #[error("{reason}")]
    Resource {
        /// Which.
        limit: Limit,
        /// One line for a person.
        reason: String,
    },
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
    /// The system, or whoever runs the process, has told it to end.
    #[error("told to end by a signal")]
    Terminated,
    /// The program that this side is a part of stopped the run.
    #[error("stopped by the program that runs it")]
    Stopped,
}

/// What a run lacked or exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Memory.
    Memory {
        /// Bytes for one bucket that would do, if that is known.
        enough: Option<u64>,
    },
    /// Space for temporary files or for the journal.
    Storage,
    /// Threads.
    Threads,
    /// What the operating system gives a process besides: open files, or room on a disk.
    System,
    /// Randomness of the operating system.
    Randomness,
    /// The largest set, bucket or frame that the run takes.
    Size,
    /// The items that this side lets its peer bring.
    PeerItems,
    /// The columns of values that this side lets its peer compute with.
    PeerValues,
    /// The groups of which this side lets its peer learn numbers.
    PeerGroups,
    /// The statistical security that the protocol can offer.
    Security,
    /// The length of what the protocol can compare: hashes of so many keys are longer.
    Keys,
    /// Items that could not be placed or encoded, with probability at most 2^-λ: another run draws new
    /// positions.
    Encoding,
    /// One party's table, which it cannot read.
    Input,
    /// Prepared correlations of one party, which it cannot use.
    Offline,
    /// The queries that a published key answers, or that a client may make.
    Queries,
    /// The range of a result, with the bounds that the parties declared for their values.
    Values,
}

impl Error {
    /// A limit that was met, with a line for a person.
    pub fn limit(limit: Limit, reason: impl ToString) -> Self {
        Error::Resource {
            limit,
            reason: reason.to_string(),
        }
    }

    /// The operating system refused a thread.
    pub fn no_thread(cause: impl std::fmt::Display) -> Self {
        Error::limit(Limit::Threads, format!("no thread to be had: {cause}"))
    }

    /// Whether this side's own flag was raised, by its user, its program or a signal.
    pub fn is_interrupt(&self) -> bool {
        matches!(
            self,
            Error::Interrupted | Error::Terminated | Error::Stopped
        )
    }

    /// Who has to act on it. If the peer gave up, that is whom the peer blames. To the peer, a side that was interrupted or
    /// stopped is one that went away.
    pub fn blame(&self) -> Blame {
        match self {
            Error::Connection(_)
            | Error::Closed
            | Error::TimedOut(_)
            | Error::Stalled(_)
            | Error::Overdue(_)
            | Error::ThirdParty(_)
            | Error::Interrupted
            | Error::Terminated
            | Error::Stopped => Blame::Network,
            Error::PeerAborted { blame, .. } => *blame,
            Error::PeerMisbehaved(_) => Blame::Peer,
            Error::ContractDiffers { .. } | Error::ContractImpossible { .. } => Blame::Contract,
            Error::Resource { .. } => Blame::Resource,
        }
    }
}
