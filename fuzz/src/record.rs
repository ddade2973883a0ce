//! What an honest peer sends, recorded so that a script can spoil it.
//!
//! A party with the same randomness says the same again, so what its peer once answered fits
//! whenever it runs, and a script gets as far as the last frame.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use vesica_testing::{Recorder, run_both};
use vesica_wire::{Channel, memory_pair};

/// The frames that `party` receives in a run with `peer`.
pub fn received(
    party: impl FnOnce(&mut dyn Channel),
    peer: impl FnOnce(&mut dyn Channel) + Send,
) -> Vec<Vec<u8>> {
    let (here, there) = memory_pair();
    let mut recorder = Recorder::new(here);
    run_both((there, &mut recorder), peer, party);
    let received = recorder.received.into_iter();
    received.map(|(_, frame)| frame).collect()
}

/// Recordings by what the first bytes of an input choose.
pub struct Recordings(Mutex<BTreeMap<[u8; 2], Arc<Vec<Vec<u8>>>>>);

impl Recordings {
    pub const fn new() -> Self {
        Recordings(Mutex::new(BTreeMap::new()))
    }

    /// The recording for this choice, which `make` makes the first time.
    pub fn get(&self, choice: [u8; 2], make: impl FnOnce() -> Vec<Vec<u8>>) -> Arc<Vec<Vec<u8>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .entry(choice)
            .or_insert_with(|| Arc::new(make()))
            .clone()
    }
}

impl Default for Recordings {
    fn default() -> Self {
        Recordings::new()
    }
}
