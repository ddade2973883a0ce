//! Channels that keep what passes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vesica_wire::{
    Channel, ChannelOptions, Error, FramedChannel, Kind, MAX_FRAME, PhaseTraffic, memory_pair,
    memory_pair_with,
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

/// For each frame on its way the place of its arrival in the longest chain of frames, each sent after the one before had
/// come.
type Places = Arc<Mutex<VecDeque<u64>>>;

/// Counts on the longest chain of frames, each sent after the one before had come: one-way delays of the network.
#[derive(Debug)]
pub struct Clocked<C> {
    inner: C,
    sent: Places,
    received: Places,
    now: Arc<AtomicU64>,
}

/// Two connected channels, and the delays so far.
pub fn clocked_pair() -> (
    Clocked<FramedChannel>,
    Clocked<FramedChannel>,
    impl Fn() -> u64,
) {
    let (near, far) = memory_pair();
    let [there, back] = [(); 2].map(|()| Places::default());
    let [one, two] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let clocks = [Arc::clone(&one), Arc::clone(&two)];
    let clocked = |inner, sent: &Places, received: &Places, now| Clocked {
        inner,
        sent: Arc::clone(sent),
        received: Arc::clone(received),
        now,
    };
    let delays = move || {
        let clocks = clocks.iter().map(|clock| clock.load(Ordering::Relaxed));
        clocks.max().unwrap_or(0)
    };
    (
        clocked(near, &there, &back, one),
        clocked(far, &back, &there, two),
        delays,
    )
}

impl<C: Channel> Channel for Clocked<C> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        let place = self.now.load(Ordering::Relaxed) + 1;
        self.sent.lock().unwrap().push_back(place);
        self.inner.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let payload = self.inner.recv(kind, max)?;
        let place = self.received.lock().unwrap().pop_front();
        self.now.fetch_max(place.unwrap(), Ordering::Relaxed);
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

/// Passes everything on and keeps a copy of each frame.
#[derive(Debug)]
pub struct Recorder<C> {
    inner: C,
    /// What was sent to the peer.
    pub sent: Vec<(Kind, Vec<u8>)>,
    /// What the peer sent, under the kinds that were asked for.
    pub received: Vec<(Kind, Vec<u8>)>,
    /// The kinds of what either side sent, or the peer was to send, while something was [at stake](Channel::at_stake).
    pub at_stake: Vec<&'static str>,
    is_at_stake: bool,
}

impl<C> Recorder<C> {
    /// Records what passes through `inner` from now on.
    pub fn new(inner: C) -> Self {
        Recorder {
            inner,
            sent: Vec::new(),
            received: Vec::new(),
            at_stake: Vec::new(),
            is_at_stake: false,
        }
    }
}

impl<C: Channel> Channel for Recorder<C> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        if self.is_at_stake {
            self.at_stake.push(kind.name);
        }
        self.sent.push((kind, payload.clone()));
        self.inner.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        if self.is_at_stake {
            self.at_stake.push(kind.name);
        }
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

    fn at_stake(&mut self, at_stake: bool) {
        self.is_at_stake = at_stake;
        self.inner.at_stake(at_stake);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.inner.traffic()
    }

    fn abort(&mut self, why: &Error) {
        self.inner.abort(why);
    }
}
