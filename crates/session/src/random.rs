//! Randomness from the operating system.

use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica_wire::{Error, Limit};
use zeroize::Zeroizing;

/// Fills `bytes`.
///
/// Fails with a resource error when the operating system has no randomness.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    #[cfg(test)]
    if seeded::fill(bytes) {
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
pub(crate) fn fresh_rng() -> Result<ChaCha20Rng, Error> {
    let mut seed = Zeroizing::new([0; 32]);
    fill(seed.as_mut())?;
    Ok(ChaCha20Rng::from_seed(*seed))
}

/// Runs that are the same each time, in tests of this crate alone.
#[cfg(test)]
pub(crate) mod seeded {
    use std::cell::RefCell;

    use chacha20::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    thread_local! {
        static RNG: RefCell<Option<ChaCha20Rng>> = const { RefCell::new(None) };
    }

    /// Everything that `run` draws on this thread comes from a seed of this name.
    pub(crate) fn with_seed<T>(name: &str, run: impl FnOnce() -> T) -> T {
        let seed = blake3::hash(name.as_bytes()).into();
        let set = |rng| RNG.with(|of_thread| *of_thread.borrow_mut() = rng);
        set(Some(ChaCha20Rng::from_seed(seed)));
        let result = run();
        set(None);
        result
    }

    /// Fills `bytes`, if this thread has a seed.
    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        RNG.with(|rng| match &mut *rng.borrow_mut() {
            Some(rng) => {
                rng.fill_bytes(bytes);
                true
            }
            None => false,
        })
    }
}
