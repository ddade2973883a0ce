//! Watching a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use vesica_wire::{Channel, Error as WireError, HEADER_BYTES, Kind, PhaseTraffic};

use crate::Begin;

/// Receives the progress of a run. Called on the thread that runs the job; every method does nothing unless it
/// is overridden.
pub trait Progress: Send {
    /// A phase begins.
    fn phase(&mut self, name: &'static str) {
        let _ = name;
    }

    /// The contract is agreed: after how many buckets the run begins, and how many there are.
    fn begin(&mut self, begin: Begin, buckets: u32) {
        let _ = (begin, buckets);
    }

    /// The run over a bucket begins, the `number`-th of `of`, counted from 1. Only in runs of several
    /// buckets; a resumed run does not begin with the first.
    fn bucket(&mut self, number: u32, of: u32) {
        let _ = (number, of);
    }

    /// Bytes sent and received so far, framing included.
    fn bytes(&mut self, sent: u64, received: u64) {
        let _ = (sent, received);
    }

    /// Of the `total` items of the phase's current step, `done` are done. Another total, or a smaller `done`,
    /// means that another step has begun.
    fn step(&mut self, done: u64, total: u64) {
        let _ = (done, total);
    }
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// A channel that reports its traffic to a [`Progress`].
pub struct ObservedChannel<'a> {
    channel: &'a mut dyn Channel,
    progress: &'a mut dyn Progress,
    sent: u64,
    received: u64,
    /// Bytes of the other connections of the run.
    beside: Arc<Bytes>,
}

/// Bytes sent and received.
pub(crate) type Bytes = [AtomicU64; 2];

impl<'a> ObservedChannel<'a> {
    /// Reports what passes over `channel` from now on; the sums are those of the whole connection.
    pub fn new(channel: &'a mut dyn Channel, progress: &'a mut dyn Progress) -> Self {
        let traffic = channel.traffic();
        ObservedChannel {
            sent: traffic.iter().map(|phase| phase.bytes_sent).sum(),
            received: traffic.iter().map(|phase| phase.bytes_received).sum(),
            channel,
            progress,
            beside: Arc::default(),
        }
    }

    /// What reports the bytes of another connection of the run along with those of this one.
    pub(crate) fn beside(&self, other: &dyn Channel) -> Beside {
        let traffic = other.traffic();
        let sent = traffic.iter().map(|phase| phase.bytes_sent).sum();
        let received = traffic.iter().map(|phase| phase.bytes_received).sum();
        Beside::new(Arc::clone(&self.beside), [sent, received])
    }

    /// The contract is agreed.
    pub(crate) fn begin(&mut self, begin: Begin, buckets: u32) {
        self.progress.begin(begin, buckets);
    }

    /// The run over a bucket begins.
    pub(crate) fn begin_bucket(&mut self, number: u32, of: u32) {
        self.progress.bucket(number, of);
    }

    fn report_bytes(&mut self) {
        let [sent, received] = &*self.beside;
        let [sent, received] = [sent, received].map(|bytes| bytes.load(Ordering::Relaxed));
        self.progress
            .bytes(self.sent + sent, self.received + received);
    }
}

impl Channel for ObservedChannel<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        let bytes = HEADER_BYTES + payload.len();
        self.channel.send(kind, payload)?;
        self.sent += bytes as u64;
        self.report_bytes();
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        let payload = self.channel.recv(kind, max)?;
        self.received += (HEADER_BYTES + payload.len()) as u64;
        self.report_bytes();
        Ok(payload)
    }

    fn hears_within(&mut self, most: Duration) -> bool {
        self.channel.hears_within(most)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.channel.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.progress.phase(name);
        self.channel.begin_phase(name);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.progress.step(done, total);
        self.channel.progress(done, total);
    }

    fn at_stake(&mut self, at_stake: bool) {
        self.channel.at_stake(at_stake);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        self.channel.abort(why);
    }
}

/// Adds the bytes of a further connection to those that the first one reports.
pub(crate) struct Beside {
    all: Arc<Bytes>,
    own: [u64; 2],
}

impl Beside {
    /// `own` are the bytes that have passed already.
    pub(crate) fn new(all: Arc<Bytes>, own: [u64; 2]) -> Beside {
        Beside { all, own }
    }
}

impl Progress for Beside {
    fn bytes(&mut self, sent: u64, received: u64) {
        for ((all, own), now) in self.all.iter().zip(&mut self.own).zip([sent, received]) {
            all.fetch_add(now - *own, Ordering::Relaxed);
            *own = now;
        }
    }
}
