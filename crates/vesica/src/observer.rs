//! Watching a job.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use vesica_files::Advice;
use vesica_session::{Connection, Contract, Endpoint, NoProgress, Progress};
use vesica_tables::Counts;

use crate::Storage;

/// Receives the progress of a job, in the order of these methods, and as [`Progress`] that of the run between
/// the parties. Called on the thread that runs the job; every method does nothing unless it is overridden.
pub trait Observer: Progress {
    /// What the run is going to take, where keys have to be kept on the disk. Comes before [`read`](Observer::read).
    fn storage(&mut self, storage: &Storage) {
        let _ = storage;
    }

    /// Reading the keys of the table took so long in `all`, and for `waited` of it the reader waited for bytes: for a disk, a
    /// network or whoever writes a pipe ([`Source::wait_time`](vesica_tables::Source::wait_time)). Comes before
    /// [`read`](Observer::read).
    fn waited(&mut self, waited: Duration, all: Duration) {
        let _ = (waited, all);
    }

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

    /// Both sides have agreed, and the run begins.
    fn agreed(&mut self, contract: &Contract) {
        let _ = contract;
    }

    /// An earlier run found the whole answer at this time but did not write its rows. This run writes them
    /// without the peer.
    fn answered(&mut self, computed: SystemTime) {
        let _ = computed;
    }

    /// An earlier run has done this much of all keys, and this one goes on from there.
    fn resumed(&mut self, done: u64, keys: u64) {
        let _ = (done, keys);
    }

    /// Something that the user should know but that does not end the run.
    fn warning(&mut self, warning: &Advice) {
        let _ = warning;
    }

    /// The protocol is over and this side begins to write the matching rows.
    fn writing(&mut self) {}

    /// The result is complete under its name and has this many rows.
    fn wrote(&mut self, rows: u64) {
        let _ = rows;
    }
}

impl Observer for NoProgress {}
