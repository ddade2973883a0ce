//! Watching a job.

use std::net::SocketAddr;
use std::time::SystemTime;

use vesica_session::{Begin, Connection, Endpoint, Progress};
use vesica_tables::Counts;

/// Receives the progress of a job, in the order of these methods. Called on the thread that runs the job;
/// every method does nothing unless it is overridden.
pub trait Observer: Send {
    /// The keys of the table have been read.
    fn read(&mut self, counts: &Counts) {
        let _ = counts;
    }

    /// The listening side waits for its peer at this address.
    fn listening(&mut self, address: SocketAddr) {
        let _ = address;
    }

    /// The connecting side tries to reach its peer.
    fn connecting(&mut self, endpoint: &Endpoint) {
        let _ = endpoint;
    }

    /// The peer is connected and is the pinned one.
    fn connected(&mut self, connection: &Connection) {
        let _ = connection;
    }

    /// A phase of the protocol begins.
    fn phase(&mut self, name: &'static str) {
        let _ = name;
    }

    /// An earlier run found the whole answer at this time but did not write its rows. This run writes them
    /// without the peer.
    fn answered(&mut self, computed: SystemTime) {
        let _ = computed;
    }

    /// The contract is agreed: after how many buckets the run begins, and how many there are.
    fn begin(&mut self, begin: Begin, buckets: u32) {
        let _ = (begin, buckets);
    }

    /// The run over a bucket begins, the `number`-th of `of`, counted from 1; only in runs of several
    /// buckets. A resumed run does not begin with the first.
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

    /// Something that the user should know but that does not end the run.
    fn warning(&mut self, text: &str) {
        let _ = text;
    }

    /// The protocol is over and this side begins to write the matching rows.
    fn writing(&mut self) {}

    /// The result is complete under its name and has this many rows.
    fn wrote(&mut self, rows: u64) {
        let _ = rows;
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Observer for NoProgress {}

/// Adapts an [`Observer`] to the session's observer.
pub(crate) struct Phases<'a>(pub(crate) &'a mut dyn Observer);

impl Progress for Phases<'_> {
    fn phase(&mut self, name: &'static str) {
        self.0.phase(name);
    }

    fn begin(&mut self, begin: Begin, buckets: u32) {
        self.0.begin(begin, buckets);
    }

    fn bucket(&mut self, number: u32, of: u32) {
        self.0.bucket(number, of);
    }

    fn bytes(&mut self, sent: u64, received: u64) {
        self.0.bytes(sent, received);
    }

    fn step(&mut self, done: u64, total: u64) {
        self.0.step(done, total);
    }
}
