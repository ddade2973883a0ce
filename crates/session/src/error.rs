//! Why a session ended, and with which exit code.

use std::path::PathBuf;

use vesica_wire::Blame;

use crate::Fingerprint;

/// Why connecting or a job failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// An identity file that cannot be read, written or understood.
    #[error("identity {}: {problem}", path.display())]
    IdentityFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never its content.
        problem: String,
    },
    /// The connection could not be made.
    #[error("{0}")]
    Connect(String),
    /// The peer holds another key than the one that the caller pinned.
    #[error("wrong peer: expected {expected}, got {got}")]
    WrongPeer {
        /// The pinned fingerprint.
        expected: Fingerprint,
        /// The fingerprint of the key that the peer showed.
        got: Fingerprint,
    },
    /// The pinned peer broke off because it had pinned another key than ours.
    #[error("the peer refused this side's identity {ours}: it expects another fingerprint")]
    RefusedByPeer {
        /// The fingerprint of our key.
        ours: Fingerprint,
    },
    /// The run over the connection failed.
    #[error(transparent)]
    Run(#[from] vesica_wire::Error),
}

impl Error {
    /// The command's exit code: 2 usage, 4 the network or the peer went away, 5 the peer
    /// misbehaved, 6 the two sides disagree on the contract, 7 a resource limit.
    ///
    /// When the peer gave up, the code follows what the peer blamed, from our side: a peer that
    /// blames *its* peer for misbehaving blames us, which is 5 as well.
    pub fn exit_code(&self) -> u8 {
        use vesica_wire::Error as Wire;
        match self {
            Error::Usage(_) | Error::IdentityFile { .. } => 2,
            Error::Connect(_) => 4,
            Error::WrongPeer { .. } | Error::RefusedByPeer { .. } => 5,
            Error::Run(Wire::PeerMisbehaved(_)) => 5,
            Error::Run(Wire::ContractDiffers { .. }) => 6,
            Error::Run(Wire::Resource(_)) => 7,
            Error::Run(Wire::PeerAborted { blame, .. }) => match blame {
                Blame::Network => 4,
                Blame::Peer => 5,
                Blame::Contract => 6,
                Blame::Resource => 7,
            },
            Error::Run(_) => 4,
        }
    }

    /// A line that says what the user can do, where something helps.
    pub fn hint(&self) -> Option<&'static str> {
        use vesica_wire::Error as Wire;
        match self {
            Error::WrongPeer { .. } => Some(
                "check the fingerprint with the peer over another channel (a phone call); do not just paste the one shown",
            ),
            Error::RefusedByPeer { .. } => Some(
                "give the peer the fingerprint of this identity, and have it pass that as --peer",
            ),
            Error::Run(Wire::ContractDiffers { .. }) => {
                Some("agree on this value with the peer, then run both sides again")
            }
            Error::Run(Wire::TimedOut(_)) => Some(
                "the peer's machine or the network between has stopped; if it is only slow, raise --timeout",
            ),
            _ => None,
        }
    }
}
