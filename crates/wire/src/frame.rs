//! Frames: a kind, a length, a payload; and the two kinds that this crate itself sends.

use std::io;
use std::time::{Duration, Instant};

use crate::ahead::Ahead;
use crate::half::{discard, may_retry};
use crate::{Blame, ChannelOptions, Clock, Error, Interrupt, Kind, Misbehaviour, POLL, ReadHalf};

/// Bytes before each payload: the kind, then the payload's length as `u32`, little endian.
pub const HEADER_BYTES: usize = 5;

/// The frame that ends a run: who is to blame, then a reason.
pub(crate) const ABORT: Kind = Kind {
    code: 1,
    name: "abort",
};

/// The frame that says that its sender is alive; its payload is empty.
pub(crate) const HEARTBEAT: Kind = Kind {
    code: 2,
    name: "heartbeat",
};

/// Longest reason of an abort, in bytes.
pub const MAX_REASON: usize = 512;

/// A peer that moves fewer bytes than this within one timeout makes no progress.
pub(crate) const PROGRESS: usize = 64 << 10;

const BUFFER: usize = 64 << 10;

/// The header of a frame; payloads are at most [`crate::MAX_FRAME`] long.
pub(crate) fn header(kind: Kind, payload_len: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = (payload_len as u32).to_le_bytes();
    [kind.code, a, b, c, d]
}

/// The payload of an abort that says `why`; `None` when the peer knows already or is gone.
pub(crate) fn encode_abort(why: &Error) -> Option<Vec<u8>> {
    let reason = match why {
        Error::PeerAborted { .. } | Error::Closed | Error::Connection(_) => return None,
        Error::Interrupted => "interrupted by the user".to_owned(),
        Error::Terminated => "told to end by a signal".to_owned(),
        Error::Stopped => "stopped by its program".to_owned(),
        Error::TimedOut(silence) => format!("heard nothing for {} s", silence.as_secs_f32()),
        Error::Stalled(time) => format!("heard only heartbeats for {} s", time.as_secs_f32()),
        other => other.to_string(),
    };
    let blame = match why.blame() {
        Blame::Network => 0,
        Blame::Peer => 1,
        Blame::Contract => 2,
        Blame::Resource => 3,
    };
    let mut payload = vec![blame];
    payload.extend_from_slice(printable(&reason).as_bytes());
    Some(payload)
}

/// Whether an error says why the stream has ended.
fn says_why(error: &Error) -> bool {
    matches!(error, Error::PeerAborted { .. }) || error.is_interrupt()
}

/// Decodes a peer's abort. An unknown code blames the network.
fn decode_abort(payload: &[u8]) -> Error {
    let (blame, reason) = payload.split_first().unwrap_or((&0, &[]));
    Error::PeerAborted {
        blame: match blame {
            1 => Blame::Peer,
            2 => Blame::Contract,
            3 => Blame::Resource,
            _ => Blame::Network,
        },
        reason: printable(&String::from_utf8_lossy(reason)),
    }
}

/// Whether a character is a control character, or changes the direction of text, or has no width: what another party's
/// text may not show a person.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` without control and direction-changing characters, cut to [`MAX_REASON`] bytes.
fn printable(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if is_hidden(c) { ' ' } else { c };
        if out.len() + c.len_utf8() > MAX_REASON {
            break;
        }
        out.push(c);
    }
    out
}

/// Reads frames from a byte half; heartbeats between them are taken as signs of life.
///
/// The first error is final: every later call returns it again, since the stream is then out of sync. Only what the peer
/// said before it left can still be received once, if it was a failed write that found it gone.
pub struct FrameReader<R> {
    half: Ahead<R>,
    timeout: Duration,
    patience: Duration,
    interrupt: Interrupt,
    clock: Clock,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    dead: Option<Error>,
    /// A frame that was read before it was asked for: by [`FrameReader::look`], or by a search for an abort that found none.
    passed: Option<(u8, Vec<u8>)>,
    /// Those who look wait together, as long as they do so again and again.
    looks: Option<Looks>,
}

/// Looks at what a peer says before its next frame is due.
struct Looks {
    waiting: Waiting,
    last: Instant,
}

/// Looks that are further apart do not wait together: the peer may have spoken between them.
const APART: Duration = Duration::from_secs(1);

impl<R: ReadHalf> FrameReader<R> {
    /// A reader that gives up after the silence that `options` allow, or when interrupted.
    pub fn new(half: R, options: &ChannelOptions) -> Self {
        FrameReader {
            half: Ahead::new(half),
            timeout: options.timeout,
            patience: options.patience,
            interrupt: options.interrupt.clone(),
            clock: options.clock.clone(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            dead: None,
            passed: None,
            looks: None,
        }
    }

    /// Takes the payload of the next frame, which must be of `kind` and hold at most `max` bytes.
    ///
    /// No memory is allocated for a payload before its length has been checked. Fails as
    /// [`crate::Channel::recv`] does.
    pub fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        self.recv_after(kind, max, 0)
    }

    /// As [`FrameReader::recv`], from a peer that may have to receive so many bytes before it answers.
    pub(crate) fn recv_after(
        &mut self,
        kind: Kind,
        max: usize,
        unanswered: u64,
    ) -> Result<Vec<u8>, Error> {
        if let Some((code, payload)) = self.passed.take() {
            return match check_frame(kind, max, code, payload.len()) {
                Ok(()) => Ok(payload),
                Err(error) => Err(self.dead.get_or_insert(error).clone()),
            };
        }
        if let Some(error) = &self.dead {
            return Err(error.clone());
        }
        let on_its_way = on_its_way(self.timeout, unanswered);
        let patience = self.patience.saturating_add(on_its_way);
        let waiting = Waiting::new(&self.clock, self.timeout, patience);
        self.frame(kind, max, waiting)
            .inspect_err(|error| self.dead = Some(error.clone()))
    }

    fn frame(&mut self, kind: Kind, max: usize, mut waiting: Waiting) -> Result<Vec<u8>, Error> {
        let (code, len) = loop {
            let (code, len) = self.header(&mut waiting)?;
            if code != HEARTBEAT.code {
                break (code, len);
            }
            check_len(HEARTBEAT.name, len, 0)?;
            waiting.heard();
        };
        if code == ABORT.code {
            return Err(self.abort_of(len, &mut waiting));
        }
        check_frame(kind, max, code, len)?;
        self.payload(len, &mut waiting)
    }

    /// Moves what is in the buffer to its front.
    fn compact(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// The header at the front of the buffer, if a whole one is there.
    fn next_header(&self) -> Option<(u8, usize)> {
        let header = self.buffer[self.start..self.end].first_chunk::<HEADER_BYTES>()?;
        let [code, a, b, c, d] = *header;
        Some((code, u32::from_le_bytes([a, b, c, d]) as usize))
    }

    /// Looks whether the peer is still there before its next frame is due, for at most so long. Signs of life are taken, and
    /// one other frame of at most `max` bytes, which the next [`FrameReader::recv`] gets.
    ///
    /// Fails as that does, when the peer has left or given up, or is silent for as long as the options allow in looks that
    /// follow each other.
    pub(crate) fn look(&mut self, max: usize, most: Duration) -> Result<(), Error> {
        if let Some(error) = &self.dead {
            return Err(error.clone());
        }
        let clock = &self.clock;
        let mut looks = (self.looks.take())
            .filter(|looks| clock.since(looks.last) < APART)
            .unwrap_or_else(|| Looks {
                waiting: Waiting::new(clock, self.timeout, Duration::MAX),
                last: clock.now(),
            });
        let looked = self.look_once(max, most, &mut looks.waiting);
        looks.last = self.clock.now();
        self.looks = Some(looks);
        looked.inspect_err(|error| self.dead = Some(error.clone()))
    }

    fn look_once(
        &mut self,
        max: usize,
        most: Duration,
        waiting: &mut Waiting,
    ) -> Result<(), Error> {
        waiting.check(&self.interrupt)?;
        self.compact();
        if self.end == self.buffer.len() {
            // It goes on unasked, and can wait.
            std::thread::sleep(POLL.min(most));
            return Ok(());
        }
        if !self.half.wait(&self.interrupt, most.min(waiting.left())) {
            return Ok(());
        }
        match self.half.read(&mut self.buffer[self.end..]) {
            Ok(0) => {
                waiting.check(&self.interrupt)?;
                return Err(Error::Closed);
            }
            Ok(count) => self.end += count,
            Err(error) if may_retry(&error) => return Ok(()),
            Err(error) => {
                waiting.check(&self.interrupt)?;
                return Err(from_io(&error));
            }
        }
        waiting.heard();
        while let Some((code, len)) = self.next_header() {
            let is_whole = self.end - self.start >= HEADER_BYTES + len;
            match code {
                _ if code == HEARTBEAT.code => check_len(HEARTBEAT.name, len, 0)?,
                _ if code == ABORT.code => {
                    check_len(ABORT.name, len, 1 + MAX_REASON)?;
                    if is_whole {
                        self.start += HEADER_BYTES;
                        return Err(self.abort_of(len, waiting));
                    }
                    break;
                }
                _ if self.passed.is_none() && is_whole && len <= max => {
                    self.start += HEADER_BYTES;
                    let payload = self.payload(len, waiting)?;
                    self.passed = Some((code, payload));
                    continue;
                }
                _ => break,
            }
            self.start += HEADER_BYTES;
        }
        Ok(())
    }

    /// Whether there is something to receive, an error perhaps, as far as was [looked](FrameReader::look).
    pub(crate) fn has_frame(&self) -> bool {
        self.passed.is_some() || self.dead.is_some() || self.next_header().is_some()
    }

    fn header(&mut self, waiting: &mut Waiting) -> Result<(u8, usize), Error> {
        loop {
            if let Some(header) = self.next_header() {
                self.start += HEADER_BYTES;
                return Ok(header);
            }
            self.compact();
            let count = read_some(
                &mut self.half,
                &mut self.buffer[self.end..],
                waiting,
                &self.interrupt,
            )?;
            self.end += count;
        }
    }

    fn payload(&mut self, len: usize, waiting: &mut Waiting) -> Result<Vec<u8>, Error> {
        let mut payload = vec![0; len];
        let mut filled = len.min(self.end - self.start);
        let buffered = &mut self.buffer[self.start..self.start + filled];
        payload[..filled].copy_from_slice(buffered);
        // It may be a secret.
        buffered.fill(0);
        self.start += filled;
        while filled < len {
            let count = read_some(
                &mut self.half,
                &mut payload[filled..],
                waiting,
                &self.interrupt,
            )?;
            // Headers do not count: a peer could send heartbeats for ever.
            waiting.progress(count);
            filled += count;
        }
        Ok(payload)
    }

    /// Why the stream ends with an abort: this side's own interrupt, if that is raised as well, or what the peer says.
    fn abort_of(&mut self, len: usize, waiting: &mut Waiting) -> Error {
        let payload = check_len(ABORT.name, len, 1 + MAX_REASON);
        let payload = payload.and_then(|()| self.payload(len, waiting));
        match (self.interrupt.check(), payload) {
            (Err(own), Ok(_)) => own,
            (Ok(()), Ok(payload)) => decode_abort(&payload),
            (_, Err(error)) => error,
        }
    }

    /// Looks for an abort after whatever else the peer has sent, until `until`.
    ///
    /// For a sender that finds the connection broken: the reason may be waiting to be read.
    pub(crate) fn find_abort(&mut self, until: Instant) -> Option<Error> {
        if let Some(error) = &self.dead {
            return says_why(error).then(|| error.clone());
        }
        let mut waiting = Waiting::hurried(until);
        let found = loop {
            match self.header(&mut waiting) {
                Ok((code, len)) if code == ABORT.code => {
                    break Some(self.abort_of(len, &mut waiting));
                }
                Ok((code, len)) if len <= crate::MAX_FRAME => {
                    match self.payload(len, &mut waiting) {
                        Ok(payload) if code != HEARTBEAT.code => {
                            self.passed.get_or_insert((code, payload));
                        }
                        Ok(_) => {}
                        Err(_) => break None,
                    }
                }
                _ => break None,
            }
        };
        if found.is_some() {
            self.passed = None;
        }
        self.dead = Some(found.clone().unwrap_or(Error::Closed));
        found.filter(says_why)
    }

    /// Discards what the peer sends until it ends the stream, or `until`.
    pub(crate) fn drain(&mut self, until: Instant) {
        discard(
            || Instant::now() < until,
            || self.half.read(&mut self.buffer),
        );
    }

    /// Whether the peer says anything; see [`Ahead::listen`]. What it says is received later.
    pub(crate) fn listen(&mut self) -> Option<bool> {
        match self.dead {
            None => self.half.listen(),
            Some(_) => None,
        }
    }

    /// Waits so long, after the writing half is closed, for the peer to end its stream as well. While it may still be reading
    /// what was sent, waits for the timeout, whether or not it says that it is alive, unless that is interrupted.
    pub(crate) fn finish(&mut self, may_be_reading: bool, farewell: Duration) {
        let waits_longer = may_be_reading && self.dead.is_none();
        let (interrupt, timeout, began) = (&self.interrupt, self.timeout, Instant::now());
        self.half.finish(&|| {
            let waited = began.elapsed();
            waited < farewell || waits_longer && waited < timeout && !interrupt.is_raised()
        });
    }

    /// Makes every later call fail with `error`.
    pub(crate) fn kill(&mut self, error: Error) {
        self.dead.get_or_insert(error);
        self.passed = None;
    }
}

/// Whether a frame with this code and length is the one that is due.
fn check_frame(kind: Kind, max: usize, code: u8, len: usize) -> Result<(), Error> {
    if code != kind.code {
        return Err(Misbehaviour::UnexpectedFrame {
            expected: kind.name,
            got: code,
        }
        .into());
    }
    check_len(kind.name, len, max)
}

fn check_len(what: &'static str, len: usize, max: usize) -> Result<(), Error> {
    if len > max {
        return Err(Misbehaviour::TooLong {
            what,
            bytes: len as u64,
            max: max as u64,
        }
        .into());
    }
    Ok(())
}

/// Most time that bytes may be on their way.
const MAX_ON_ITS_WAY: Duration = Duration::from_secs(12 * 3600);

/// How long so many bytes may be on their way: the slowest link that is tolerated moves [`PROGRESS`] bytes per timeout.
fn on_its_way(timeout: Duration, bytes: u64) -> Duration {
    let pieces = u32::try_from(bytes / PROGRESS as u64).unwrap_or(u32::MAX);
    timeout.saturating_mul(pieces).min(MAX_ON_ITS_WAY)
}

/// How long one operation has waited.
///
/// Two times are measured. A heartbeat restarts that of the peer's silence. [`PROGRESS`] bytes restart both, so that
/// slow links are tolerated and peers that drip single bytes are not.
pub(crate) struct Waiting {
    clock: Clock,
    timeout: Duration,
    patience: Duration,
    /// When the peer was last heard.
    heard: Instant,
    /// When the operation began, or last moved.
    moved: Instant,
    /// Bytes moved since then.
    bytes: usize,
    /// Whether the end is fixed, so that not even an interrupt changes it.
    hurried: bool,
}

impl Waiting {
    pub(crate) fn new(clock: &Clock, timeout: Duration, patience: Duration) -> Self {
        let now = clock.now();
        Waiting {
            clock: clock.clone(),
            timeout,
            patience,
            heard: now,
            moved: now,
            bytes: 0,
            hurried: false,
        }
    }

    fn hurried(until: Instant) -> Self {
        let left = until.saturating_duration_since(Instant::now());
        Waiting {
            hurried: true,
            ..Self::new(&Clock::default(), left, left)
        }
    }

    /// Counts bytes of payloads that were read, or of frames that were written.
    pub(crate) fn progress(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= PROGRESS && !self.hurried {
            self.bytes = 0;
            self.moved = self.clock.now();
            self.heard = self.moved;
        }
    }

    /// Records that the peer has shown that it is alive.
    pub(crate) fn heard(&mut self) {
        self.heard = self.clock.now();
    }

    /// Whether the peer has not been heard for a good part of the timeout.
    pub(crate) fn is_quiet(&self) -> bool {
        self.clock.since(self.heard) >= self.timeout / 4
    }

    /// How long until [`Waiting::check`] fails if nothing happens.
    fn left(&self) -> Duration {
        let silence = self.timeout.saturating_sub(self.clock.since(self.heard));
        let rest = self.patience.saturating_sub(self.clock.since(self.moved));
        self.clock.unwatched(silence.min(rest))
    }

    pub(crate) fn check(&self, interrupt: &Interrupt) -> Result<(), Error> {
        if !self.hurried {
            interrupt.check()?;
        }
        if self.clock.since(self.heard) >= self.timeout {
            return Err(Error::TimedOut(self.timeout));
        }
        if self.clock.since(self.moved) >= self.patience {
            return Err(Error::Stalled(self.patience));
        }
        Ok(())
    }
}

fn read_some<R: ReadHalf>(
    half: &mut R,
    buf: &mut [u8],
    waiting: &mut Waiting,
    interrupt: &Interrupt,
) -> Result<usize, Error> {
    loop {
        waiting.check(interrupt)?;
        let ended = match half.read(buf) {
            Ok(0) => Error::Closed,
            Ok(count) => return Ok(count),
            Err(error) if may_retry(&error) => {
                half.wait(interrupt, waiting.left());
                continue;
            }
            Err(error) => from_io(&error),
        };
        // A peer that has been told of an interrupt closes.
        waiting.check(interrupt)?;
        return Err(ended);
    }
}

/// A failed read or write as an error of the run.
pub(crate) fn from_io(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected => Error::Closed,
        _ => Error::Connection(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_on_their_way_for_a_bounded_time() {
        let timeout = Duration::from_secs(120);
        let piece = PROGRESS as u64;
        assert_eq!(on_its_way(timeout, piece - 1), Duration::ZERO);
        assert_eq!(on_its_way(timeout, 3 * piece), 3 * timeout);
        for many in [1 << 30, u64::MAX] {
            assert_eq!(on_its_way(timeout, many), MAX_ON_ITS_WAY);
        }
    }
}
