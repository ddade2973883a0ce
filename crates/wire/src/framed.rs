//! The channel that everything runs over: frames, a writer thread, heartbeats, deadlines.

use std::time::{Duration, Instant};

use crate::frame::{FrameReader, HEADER_BYTES, encode_abort};
use crate::meter::Meter;
use crate::writer::Writer;
use crate::{
    Channel, ChannelOptions, Error, Kind, Limit, MAX_FRAME, PhaseTraffic, ReadHalf, WriteHalf,
};

/// Longest time that an abort, or dropping a channel, spends on the peer.
const LINGER: Duration = Duration::from_millis(1500);

/// Longest time that a dropped channel waits for the peer to end its stream too when there is nothing that it may still
/// be reading.
const FAREWELL: Duration = Duration::from_millis(500);

/// Frames over a pair of byte halves.
///
/// Sending passes the payload to a writer thread through a bounded queue; receiving happens on the caller's
/// thread. So both parties may send at once. If both send more than the queue and the sockets hold and
/// neither receives, both block until the deadline ends the run.
///
/// From its creation to its end, but while it [rests](FramedChannel::rest), the channel sends heartbeats on the writer
/// thread, on a timer that does not depend on the caller's work. While frames are being sent there are no heartbeats: frames serve as well. A
/// wait, for a frame or for room to send one, ends when the peer has been silent for the timeout.
///
/// Dropping the channel writes what is queued, for at most 1.5 seconds, and ends the stream; call
/// [`Channel::flush`] before to be sure. It then waits for the peer to end its own, since closing a connection may lose
/// what the peer has not read: for half a second, and if this side spoke last for the timeout, unless that is interrupted.
pub struct FramedChannel {
    reader: FrameReader<Box<dyn ReadHalf>>,
    writer: Writer,
    meter: Meter,
    /// Bytes sent when the peer sent its last frame.
    answered: u64,
    /// Set once the channel has been aborted.
    ended: Option<Error>,
}

impl FramedChannel {
    /// A channel over these halves.
    pub fn new(
        reader: Box<dyn ReadHalf>,
        writer: Box<dyn WriteHalf>,
        options: ChannelOptions,
    ) -> Self {
        FramedChannel {
            reader: FrameReader::new(reader, &options),
            writer: Writer::start(writer, options),
            meter: Meter::new(),
            answered: 0,
            ended: None,
        }
    }

    /// Bytes sent and received so far, framing included, in bytes.
    pub fn totals(&self) -> (u64, u64) {
        self.meter.totals()
    }

    /// From now on the peer does not wait for this side, so that there are no heartbeats; or it does. A side that rests
    /// notices its interrupt only where it receives or sends.
    pub fn rest(&mut self, rests: bool) {
        self.writer.rest(rests);
    }

    /// Looks whether the peer is still there before its next frame is due: waits at most so long for it to say something.
    /// Heartbeats are taken, and one other frame of at most `max` bytes is kept for the next [`Channel::recv`].
    ///
    /// Fails as that does, when the peer has left or given up, or is silent for the timeout in looks that follow each other.
    pub fn look(&mut self, max: usize, most: Duration) -> Result<(), Error> {
        self.reader.look(max, most)
    }

    /// Bytes sent since the peer sent its last frame. What was handed to the operating system may still be on its way.
    fn unanswered(&self) -> u64 {
        let (sent, _) = self.meter.totals();
        sent - self.answered
    }

    /// Why writing failed: the peer's abort, if it has sent one.
    fn explain(&mut self, failure: Error) -> Error {
        if !matches!(failure, Error::Closed | Error::Connection(_)) {
            return failure;
        }
        self.reader
            .find_abort(Instant::now() + LINGER / 3)
            .unwrap_or(failure)
    }
}

impl Channel for FramedChannel {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        if payload.len() > MAX_FRAME {
            return Err(Error::limit(
                Limit::Size,
                format!(
                    "a frame of {} bytes is more than the {MAX_FRAME} that one may hold",
                    payload.len()
                ),
            ));
        }
        let bytes = HEADER_BYTES + payload.len();
        match self.writer.push(kind, payload, || self.reader.listen()) {
            Ok(()) => {
                self.meter.sent(bytes);
                Ok(())
            }
            Err(failure) => Err(self.explain(failure)),
        }
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let unanswered = self.unanswered();
        let payload = self.reader.recv_after(kind, max, unanswered)?;
        self.answered += unanswered;
        self.meter.received(HEADER_BYTES + payload.len());
        Ok(payload)
    }

    fn hears_within(&mut self, most: Duration) -> bool {
        let until = Instant::now() + most;
        while !self.reader.has_frame() {
            let left = until.saturating_duration_since(Instant::now());
            // What goes wrong, the next call of `recv` says.
            if left.is_zero() || self.reader.look(MAX_FRAME, left).is_err() {
                return self.reader.has_frame();
            }
        }
        true
    }

    fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let flushed = self.writer.flush(|| self.reader.listen());
        flushed.map_err(|failure| self.explain(failure))
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.meter.begin(name);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.meter.traffic()
    }

    /// Tells the peer why, drops whatever else was queued and ends the stream; takes at most about
    /// 1.7 seconds.
    ///
    /// Until the peer ends the stream as well, what it sends is read and discarded: so a peer that is blocked
    /// in a send gets to read the reason, and closing does not reset the connection before the abort arrives.
    fn abort(&mut self, why: &Error) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(why.clone());
        self.reader.kill(why.clone());
        let until = Instant::now() + LINGER;
        let last = encode_abort(why);
        let tells = last.is_some();
        self.writer.close_with(last, until);
        if tells {
            self.reader.drain(until);
        }
        self.writer.join();
    }
}

impl Drop for FramedChannel {
    fn drop(&mut self) {
        self.writer.close(Instant::now() + LINGER);
        let wrote_all = self.writer.join();
        if self.ended.is_none() {
            let may_be_reading = wrote_all && self.unanswered() > 0;
            self.reader.finish(may_be_reading, FAREWELL);
        }
    }
}
