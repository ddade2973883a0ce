//! Randomness as the session has it.

#[cfg(test)]
pub(crate) use seeded::{fill, fresh_rng};
#[cfg(not(test))]
pub(crate) use vesica_session::random::{fill, fresh_rng};

/// The same each time, where a test asks for it.
#[cfg(test)]
mod seeded {
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    use vesica_session::random;
    use vesica_testing::seeded_fill;
    use vesica_wire::Error;

    pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Error> {
        match seeded_fill(bytes) {
            true => Ok(()),
            false => random::fill(bytes),
        }
    }

    pub(crate) fn fresh_rng() -> Result<ChaCha20Rng, Error> {
        let mut seed = [0; 32];
        fill(&mut seed)?;
        Ok(ChaCha20Rng::from_seed(seed))
    }
}
