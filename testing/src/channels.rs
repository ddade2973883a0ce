//! Channels that keep what passes.

use std::collections::VecDeque;
use std::time::Duration;

use vesica_wire::{
    Channel, ChannelOptions, Error, FramedChannel, Kind, MAX_FRAME, PhaseTraffic, memory_pair_with,
};

/// Two connected channels on which a wait ends after `timeout` without a sign of the peer.
pub fn pair_within(timeout: Duration) -> (FramedChannel, FramedChannel) {
    let options = ChannelOptions {
        timeout,
        ..ChannelOptions::default()
    };
    memory_pair_with(options.clone(), options)
}

/// Frames in the order in which they were sent. [`Channel::recv`] takes the first of them; when none is left,
/// the channel is closed.
///
/// # Panics
/// When a frame is too long, or is received as another kind than it was sent as.
#[derive(Clone, Debug, Default)]
pub struct Tape(pub VecDeque<(Kind, Vec<u8>)>);

impl Channel for Tape {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        assert!(payload.len() <= MAX_FRAME);
        self.0.push_back((kind, payload));
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let (sent, payload) = self.0.pop_front().ok_or(Error::Closed)?;
        assert_eq!(sent, kind);
        assert!(payload.len() <= max && max <= MAX_FRAME);
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn begin_phase(&mut self, _: &'static str) {}

    fn traffic(&self) -> Vec<PhaseTraffic> {
        Vec::new()
    }

    fn abort(&mut self, _: &Error) {}
}

/// Passes everything on and keeps a copy of each frame.
#[derive(Debug)]
pub struct Recorder<C> {
    inner: C,
    /// What was sent to the peer.
    pub sent: Vec<(Kind, Vec<u8>)>,
    /// What the peer sent, under the kinds that were asked for.
    pub received: Vec<(Kind, Vec<u8>)>,
}

impl<C> Recorder<C> {
    /// Records what passes through `inner` from now on.
    pub fn new(inner: C) -> Self {
        Recorder {
            inner,
            sent: Vec::new(),
            received: Vec::new(),
        }
    }
}

impl<C: Channel> Channel for Recorder<C> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        self.sent.push((kind, payload.clone()));
        self.inner.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let payload = self.inner.recv(kind, max)?;
        self.received.push((kind, payload.clone()));
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.inner.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.inner.begin_phase(name);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.inner.traffic()
    }

    fn abort(&mut self, why: &Error) {
        self.inner.abort(why);
    }
}
