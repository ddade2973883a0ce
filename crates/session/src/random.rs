//! Randomness from the operating system.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica_wire::{Error, Limit};
use zeroize::Zeroizing;

/// Fills `bytes`.
///
/// Fails with a resource error when the operating system has no randomness.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    #[cfg(test)]
    if vesica_testing::seeded_fill(bytes) {
        return Ok(());
    }
    getrandom::fill(bytes).map_err(|e| {
        let reason = format!("no randomness from the operating system: {e}");
        Error::limit(Limit::Randomness, reason)
    })
}

/// A generator seeded by the operating system.
///
/// Fails as [`fill`] does.
pub fn fresh_rng() -> Result<ChaCha20Rng, Error> {
    let mut seed = Zeroizing::new([0; 32]);
    fill(seed.as_mut())?;
    Ok(ChaCha20Rng::from_seed(*seed))
}
