//! What two parties exchange, and how: frames with a kind and a bounded length, their bytes counted by phase.
//!
//! Protocol code sees only [`Channel`]. It blocks, it is full duplex, every wait has a deadline, and
//! nothing that a peer sends makes it allocate more than the caller allowed.
//!
//! An open channel sends heartbeats, so that its peer can tell long work from a dead peer: a wait fails after
//! [`ChannelOptions::timeout`] of silence. Heartbeats are not messages: they are not counted as traffic, and
//! callers never see them.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::time::Duration;

mod ahead;
#[cfg(unix)]
mod alarm;
mod clock;
mod error;
mod frame;
mod framed;
mod half;
mod interrupt;
mod link;
mod memory;
mod meter;
mod options;
pub mod socket;
mod tamper;
mod tcp;
mod traffic;
mod writer;

pub use clock::{Clock, ManualClock};
pub use error::{Blame, Error, Limit, Misbehaviour};
pub use frame::{FrameReader, HEADER_BYTES, MAX_REASON, is_hidden};
pub use framed::FramedChannel;
pub use half::{ReadHalf, WriteHalf, discard, may_retry};
pub use interrupt::{Interrupt, InterruptGuard, POLL};
pub use link::{Link, NamedLink};
pub use memory::{MemoryReader, MemoryWriter, memory_halves, memory_pair, memory_pair_with};
pub use options::ChannelOptions;
pub use tamper::{Spoil, Tamper};
pub use tcp::{TcpReader, TcpWriter, tcp_halves};
pub use traffic::{End, Frames, Traffic};

/// Largest payload of one frame, in bytes. Longer messages are sent as several frames of one kind.
pub const MAX_FRAME: usize = 1 << 20;

/// What a frame holds. The code is sent; the name is for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Byte on the wire. 0 to 15 are reserved for this crate, 16 to 31 for the handshake.
    pub code: u8,
    /// Name in error messages.
    pub name: &'static str,
}

/// Bytes and seconds of one phase of a run, as seen by one party.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PhaseTraffic {
    /// Name given to [`Channel::begin_phase`].
    pub phase: String,
    /// Bytes sent to the peer, framing included.
    pub bytes_sent: u64,
    /// Bytes received from the peer, framing included.
    pub bytes_received: u64,
    /// Wall-clock time spent in the phase, in seconds.
    pub seconds: f64,
}

/// A connection to one peer.
pub trait Channel: Send {
    /// Queues one frame of at most [`MAX_FRAME`] bytes; blocks while the bounded queue is full, until the deadline.
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error>;

    /// Takes the next frame, which must be of `kind` and hold at most `max` bytes.
    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error>;

    /// Waits at most so long for the next frame. Returns whether there is something to receive, an error perhaps, or may be.
    fn hears_within(&mut self, most: Duration) -> bool {
        let _ = most;
        true
    }

    /// Returns once all queued frames have been handed to the operating system.
    fn flush(&mut self) -> Result<(), Error>;

    /// Starts a phase: later traffic and time are counted under `name`.
    fn begin_phase(&mut self, name: &'static str);

    /// Reports locally that `done` of `total` items of the running phase's current step are done. Nothing is
    /// sent.
    fn progress(&mut self, done: u64, total: u64) {
        let _ = (done, total);
    }

    /// Says locally whether the peer may know that a guess of its has failed a check, and has not yet sent what shows it.
    /// Whoever makes failed attempts again takes a peer for caught if an attempt ends then. Nothing is sent.
    fn at_stake(&mut self, at_stake: bool) {
        let _ = at_stake;
    }

    /// Traffic of every phase so far, in order.
    fn traffic(&self) -> Vec<PhaseTraffic>;

    /// Tells the peer, on a best-effort basis, why this side gives up; the channel is unusable afterwards.
    fn abort(&mut self, why: &Error);
}

impl<C: Channel + ?Sized> Channel for &mut C {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        (**self).send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        (**self).recv(kind, max)
    }

    fn hears_within(&mut self, most: Duration) -> bool {
        (**self).hears_within(most)
    }

    fn flush(&mut self) -> Result<(), Error> {
        (**self).flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        (**self).begin_phase(name);
    }

    fn progress(&mut self, done: u64, total: u64) {
        (**self).progress(done, total);
    }

    fn at_stake(&mut self, at_stake: bool) {
        (**self).at_stake(at_stake);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        (**self).traffic()
    }

    fn abort(&mut self, why: &Error) {
        (**self).abort(why);
    }
}

/// Sends `rows` (a whole number of rows of `row_len` bytes) as frames of one kind, each holding whole rows;
/// reports progress in rows.
pub fn send_rows(
    channel: &mut dyn Channel,
    kind: Kind,
    rows: &[u8],
    row_len: usize,
) -> Result<(), Error> {
    assert!(row_len > 0 && row_len <= MAX_FRAME && rows.len().is_multiple_of(row_len));
    let total = (rows.len() / row_len) as u64;
    let mut done = 0;
    for chunk in rows.chunks(MAX_FRAME / row_len * row_len) {
        channel.send(kind, chunk.to_vec())?;
        done += (chunk.len() / row_len) as u64;
        channel.progress(done, total);
    }
    Ok(())
}

/// Receives one frame of exactly `length` bytes.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for another length.
pub fn recv_exact(channel: &mut dyn Channel, kind: Kind, length: usize) -> Result<Vec<u8>, Error> {
    let frame = channel.recv(kind, length)?;
    match frame.len() == length {
        true => Ok(frame),
        false => Err(Misbehaviour::WrongLength {
            what: kind.name,
            bytes: frame.len(),
        }
        .into()),
    }
}

/// Receives exactly `count` rows of `row_len` bytes sent by [`send_rows`], passing each frame's rows to
/// `sink`; reports progress in rows.
pub fn recv_rows(
    channel: &mut dyn Channel,
    kind: Kind,
    row_len: usize,
    count: usize,
    mut sink: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    assert!(row_len > 0 && row_len <= MAX_FRAME);
    let mut left = count;
    while left > 0 {
        let most = left.min(MAX_FRAME / row_len);
        // Exactly the frames of `send_rows`: a peer that sends one row at a time, each just before the
        // deadline, could hold this side for ever.
        let frame = recv_exact(channel, kind, most * row_len)?;
        left -= most;
        sink(&frame)?;
        channel.progress((count - left) as u64, count as u64);
    }
    Ok(())
}
