//! A channel of which somebody hears that it is given up, before the peer does.

use std::time::Duration;

use vesica_wire::{Channel, Error as WireError, Kind, PhaseTraffic};

/// Tells why this side gives up before it tells the peer, and whether something was [at stake](Channel::at_stake).
pub struct WatchedChannel<'a> {
    channel: &'a mut dyn Channel,
    on_abort: &'a (dyn Fn(&WireError, bool) + Sync),
    at_stake: bool,
}

impl<'a> WatchedChannel<'a> {
    /// Over this channel, with nothing at stake.
    pub fn new(
        channel: &'a mut dyn Channel,
        on_abort: &'a (dyn Fn(&WireError, bool) + Sync),
    ) -> WatchedChannel<'a> {
        WatchedChannel {
            channel,
            on_abort,
            at_stake: false,
        }
    }
}

impl Channel for WatchedChannel<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        self.channel.send(kind, payload)
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
        self.at_stake = at_stake;
        self.channel.at_stake(at_stake);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        (self.on_abort)(why, self.at_stake);
        self.channel.abort(why);
    }
}
