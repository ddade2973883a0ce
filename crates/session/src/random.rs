//! Randomness from the operating system.

use vesica_wire::{Error, Limit};

/// Fills `bytes`.
///
/// Fails with a resource error when the operating system has no randomness.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|e| {
        let reason = format!("no randomness from the operating system: {e}");
        Error::limit(Limit::Randomness, reason)
    })
}
