//! What an honest peer sends, recorded so that a script can spoil it.
//!
//! A party with the same randomness says the same again, so what its peer once answered fits
//! whenever it runs, and a script gets as far as the last frame.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use vesica_wire::{Channel, Error, Kind, PhaseTraffic, memory_pair};

/// The frames that `party` receives in a run with `peer`.
pub fn received(
    party: impl FnOnce(&mut dyn Channel),
    peer: impl FnOnce(&mut dyn Channel) + Send,
) -> Vec<Vec<u8>> {
    let (mut here, mut there) = memory_pair();
    thread::scope(|scope| {
        scope.spawn(move || peer(&mut there));
        let mut recorder = Recorder {
            channel: &mut here,
            received: Vec::new(),
        };
        party(&mut recorder);
        recorder.received
    })
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

struct Recorder<'a> {
    channel: &'a mut dyn Channel,
    received: Vec<Vec<u8>>,
}

impl Channel for Recorder<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        self.channel.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let frame = self.channel.recv(kind, max)?;
        self.received.push(frame.clone());
        Ok(frame)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.channel.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.channel.begin_phase(name);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &Error) {
        self.channel.abort(why);
    }
}
