//! Watching a job.

use std::net::SocketAddr;
use std::time::SystemTime;

use vesica_session::{Connection, Endpoint, NoProgress, Progress};
use vesica_tables::Counts;

/// Hears how a job goes on, in this order; of the run between the two parties it hears as [`Progress`]. Called
/// on the thread that runs the job; every method does nothing unless it is overridden.
pub trait Observer: Progress {
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

    /// The peer is there and is who it should be.
    fn connected(&mut self, connection: &Connection) {
        let _ = connection;
    }

    /// An earlier run found the whole answer at this time and did not write its rows, which this one
    /// does without the peer.
    fn answered(&mut self, computed: SystemTime) {
        let _ = computed;
    }

    /// Something that the user should know, and that does not end the run.
    fn warning(&mut self, text: &str) {
        let _ = text;
    }

    /// The protocol is over and this side begins to write the matching rows.
    fn writing(&mut self) {}

    /// The result is in its place and holds this many rows.
    fn wrote(&mut self, rows: u64) {
        let _ = rows;
    }
}

impl Observer for NoProgress {}
