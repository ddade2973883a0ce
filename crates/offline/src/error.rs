//! Why there is no half, or none that can be used.

use std::path::PathBuf;
use std::sync::Arc;

use vesica_correlations::store::{StoreError, StoreProblem};
use vesica_files::{Advice, Argument, Command, UnsafeDirectory, advice, is_exhausted, many};
use vesica_session::{Error as SessionError, ErrorClass, Fingerprint, Name, Role, more_halves};
use vesica_wire::{Error as WireError, Limit};

use crate::claims::Untrusted;

/// Why a stored half does not serve a run. Displayed behind its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    /// It is of another identity.
    #[error("is of another identity")]
    OtherIdentity,
    /// A run has used it.
    #[error("was used before")]
    Used,
    /// It is the half for this role.
    #[error("is the {0}'s half")]
    Role(Role),
    /// It is for runs with this peer.
    #[error("is for runs with {0}")]
    Peer(Fingerprint),
    /// It is for this protocol.
    #[error("is for {0}")]
    Protocol(String),
    /// It is for this statistical security, in bits.
    #[error("is for lambda {0}")]
    Lambda(u32),
    /// It is for keys of so many bits, or for any.
    #[error("is for {}", .0.map_or("any keys".into(), |bits| format!("keys of {bits} bits")))]
    KeyBits(Option<u32>),
    /// It was made without post-quantum base transfers.
    #[error("was made without post-quantum base transfers")]
    Classical,
    /// There are more items than it is for.
    #[error("is for at most {}, and these are {items}", many(*most, "item"))]
    Size {
        /// For how many it is.
        most: u64,
        /// How many there are.
        items: u64,
    },
    /// Its tuples are laid out as another version of this program does.
    #[error("is of another version")]
    Version,
    /// Who dealt it has shown this, which is not what is wanted.
    #[error("was dealt by somebody who has shown {}", .0.as_deref().unwrap_or("nothing"))]
    Attested(Option<String>),
    /// It was dealt by one dealer, where two generators are meant.
    #[error("was dealt by one attested dealer, and `tee` means two generators now")]
    OneDealer,
}

/// Who shows what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attested {
    /// The dealer.
    Dealer,
    /// The generator of this side.
    OwnGenerator,
    /// The generator of the other side.
    OtherGenerator,
}

impl std::fmt::Display for Attested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Attested::Dealer => "the dealer",
            Attested::OwnGenerator => "this side's generator",
            Attested::OtherGenerator => "the other side's generator",
        })
    }
}

/// Why a half was not made, stored or found.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something impossible.
    #[error("{0}")]
    Usage(String),
    /// Stored correlations that cannot be used.
    #[error("stored correlations: {0}")]
    Store(String),
    /// A stored half, or a name for one, that cannot be used.
    #[error("stored correlations: {}: {problem}", path.display())]
    BadHalf {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        problem: StoreProblem,
    },
    /// A store that other users can change.
    #[error("stored correlations: {} {problem}", directory.display())]
    UnsafeStore {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        problem: UnsafeDirectory,
    },
    /// A store has no half for a run.
    #[error(
        "stored correlations: {} has nothing for this run: {}", directory.display(),
        misfit.as_ref().map_or("it is empty".into(), |(name, why)| format!("{name} {why}"))
    )]
    NoHalf {
        /// The directory of the store.
        directory: PathBuf,
        /// Why the first half in it does not fit; `None` if there is no half.
        misfit: Option<(Name, Misfit)>,
    },
    /// A stored half that is not in the file that it was stored in, so that it may have served a run elsewhere.
    #[error(
        "stored correlations: {0} was copied, restored or moved to another file system after it was stored"
    )]
    CopiedHalf(PathBuf),
    /// This machine makes no reports of what it runs.
    #[error("{0}")]
    Attestation(String),
    /// Somebody has not shown that it runs what was expected.
    #[error("{who} is not trusted: {why}")]
    Untrusted {
        /// Who.
        who: Attested,
        /// Why.
        why: Untrusted,
    },
    /// The contract or the connection failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl Error {
    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Usage(_) => ErrorClass::Usage,
            Error::Store(_)
            | Error::BadHalf { .. }
            | Error::UnsafeStore { .. }
            | Error::NoHalf { .. }
            | Error::CopiedHalf(_) => ErrorClass::Data,
            Error::Attestation(_) => ErrorClass::Resource,
            Error::Untrusted { .. } => ErrorClass::Peer,
            Error::Session(error) => error.class(),
        }
    }

    /// What the user can do, where something helps.
    pub fn remedy(&self) -> Option<Advice> {
        Some(match self {
            // What to do is said with it.
            Error::UnsafeStore { .. } => return None,
            Error::BadHalf { problem: StoreProblem::NoLocks, .. } => advice![
                "move the store to a local disk, and ",
                Command::AdoptStored,
                " its halves there",
            ],
            Error::BadHalf { problem: StoreProblem::InUse, .. } => {
                "wait for the other process, or name another half".into()
            }
            Error::Store(_) | Error::BadHalf { .. } | Error::NoHalf { .. } => more_halves(),
            Error::CopiedHalf(_) => advice![
                "another copy may have served a run: ",
                Command::RemoveStored,
                " it and make another pair, unless you know that none has or will; then ",
                Command::AdoptStored,
                " takes it over",
            ],
            Error::Untrusted { why: Untrusted::NotEndorsed, .. } => advice![
                "give it by ",
                Argument::Endorsements,
                ": the certificate of the processor's key, or the collateral of the platform",
            ],
            Error::Untrusted { why: Untrusted::Measurement { .. }, .. } => {
                "take no measurement from whom it measures; compute it from the image that is to run".into()
            }
            Error::Session(error) => return error.remedy(),
            _ => return None,
        })
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Error {
        Error::Session(error.into())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match &error {
            StoreError::Io { cause, .. } if is_exhausted(cause) => {
                WireError::limit(Limit::System, error).into()
            }
            StoreError::Copied { path } => Error::CopiedHalf(path.clone()),
            StoreError::Bad { path, problem } => Error::BadHalf {
                path: path.clone(),
                problem: *problem,
            },
            _ => Error::Store(error.to_string()),
        }
    }
}

/// What a run says of its source of halves.
impl From<Error> for SessionError {
    fn from(error: Error) -> SessionError {
        match error {
            Error::Session(error) => error,
            error => SessionError::Halves {
                class: error.class(),
                remedy: error.remedy(),
                cause: Arc::new(error),
            },
        }
    }
}
