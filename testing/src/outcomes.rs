//! What came of a run.

use serde_json::{Value, json};
use vesica_wire::{Error, Kind, Limit, Misbehaviour};

/// What the peer is blamed for.
///
/// # Panics
/// If it is blamed for nothing.
#[track_caller]
pub fn misbehaviour<T>(result: Result<T, Error>) -> Misbehaviour {
    match result {
        Err(Error::PeerMisbehaved(misbehaviour)) => misbehaviour,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
}

/// The limit that was met.
///
/// # Panics
/// If the result is anything else.
#[track_caller]
pub fn limit<T>(result: Result<T, Error>) -> Limit {
    match result {
        Err(Error::Resource { limit, .. }) => limit,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
}

/// A frame of another kind than the one that was due.
pub fn unexpected(expected: Kind, got: u8) -> Misbehaviour {
    Misbehaviour::UnexpectedFrame {
        expected: expected.name,
        got,
    }
}

/// A frame that announces `bytes` bytes where `max` are allowed.
pub fn too_long(what: &'static str, bytes: usize, max: usize) -> Misbehaviour {
    Misbehaviour::TooLong {
        what,
        bytes: bytes as u64,
        max: max as u64,
    }
}

/// A message of `bytes` bytes, which the protocol does not allow.
pub fn wrong_length(what: &'static str, bytes: usize) -> Misbehaviour {
    Misbehaviour::WrongLength { what, bytes }
}

/// A value outside its type.
pub fn bad_value(what: &'static str, problem: &'static str) -> Misbehaviour {
    Misbehaviour::BadValue { what, problem }
}

/// The fields of an error that one side alone causes or that the sides disagree on, as files of known answers have them.
///
/// # Panics
/// On any other error.
#[track_caller]
pub fn fields(error: &Error) -> Value {
    match error {
        Error::PeerMisbehaved(Misbehaviour::UnexpectedFrame { expected, got }) => {
            json!({ "expected": expected, "got": got })
        }
        Error::PeerMisbehaved(Misbehaviour::TooLong { what, bytes, max }) => {
            json!({ "what": what, "bytes": bytes, "max": max })
        }
        Error::PeerMisbehaved(Misbehaviour::WrongLength { what, bytes }) => {
            json!({ "what": what, "bytes": bytes })
        }
        Error::PeerMisbehaved(Misbehaviour::BadValue { what, problem }) => {
            json!({ "what": what, "problem": problem })
        }
        Error::ContractDiffers {
            field,
            ours,
            theirs,
        } => json!({ "field": field, "ours": ours, "theirs": theirs }),
        other => panic!("{other}"),
    }
}

/// χ² of the bytes against the uniform distribution: 255 degrees of freedom, mean 255, standard deviation 22.6.
pub fn chi_squared(bytes: impl IntoIterator<Item = u8>) -> f64 {
    let mut counts = [0f64; 256];
    for byte in bytes {
        counts[usize::from(byte)] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / 256.0;
    counts.iter().map(|c| (c - mean) * (c - mean) / mean).sum()
}
