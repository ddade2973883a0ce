//! What came of a run.

use std::fmt::Display;

use vesica_wire::{Error, Misbehaviour};

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

/// The text of the error, or `accepted`.
pub fn says<T>(result: Result<T, impl Display>) -> String {
    match result {
        Ok(_) => "accepted".into(),
        Err(error) => error.to_string(),
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
