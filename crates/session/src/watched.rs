//! A channel of which somebody hears that it is given up, before the peer does.

use std::time::Duration;

use vesica_wire::{Channel, Error as WireError, Kind, PhaseTraffic};

/// Who hears of what a channel is used for.
pub trait Watch: Sync {
    /// Something is [at stake](Channel::at_stake), and what puts it at stake goes out next; or it is no more.
    ///
    /// # Errors
    /// What was not kept of that. Nothing is sent any more.
    fn at_stake(&self, at_stake: bool) -> Result<(), WireError> {
        let _ = at_stake;
        Ok(())
    }

    /// This side gives up, with something at stake or not. The peer has not been told yet.
    fn failed(&self, why: &WireError, at_stake: bool);
}

/// Tells somebody what is at stake, and why this side gives up before it tells the peer.
pub struct WatchedChannel<'a> {
    channel: &'a mut dyn Channel,
    watch: &'a dyn Watch,
    at_stake: bool,
    /// Why nothing more is sent.
    unkept: Option<WireError>,
}

impl<'a> WatchedChannel<'a> {
    /// Over this channel, with nothing at stake.
    pub fn new(channel: &'a mut dyn Channel, watch: &'a dyn Watch) -> WatchedChannel<'a> {
        WatchedChannel {
            channel,
            watch,
            at_stake: false,
            unkept: None,
        }
    }
}

impl Channel for WatchedChannel<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        match &self.unkept {
            Some(error) => Err(error.clone()),
            None => self.channel.send(kind, payload),
        }
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        self.channel.recv(kind, max)
    }

    fn hears_within(&mut self, most: Duration) -> bool {
        self.channel.hears_within(most)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.channel.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.channel.begin_phase(name);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.channel.progress(done, total);
    }

    fn at_stake(&mut self, at_stake: bool) {
        match self.watch.at_stake(at_stake) {
            Ok(()) => self.at_stake = at_stake,
            Err(error) => self.unkept = Some(error),
        }
        self.channel.at_stake(at_stake);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        self.watch.failed(why, self.at_stake);
        self.channel.abort(why);
    }
}
