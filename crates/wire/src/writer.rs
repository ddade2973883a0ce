//! The thread that writes frames and heartbeats, and the bounded queue before it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::frame::{ABORT, HEADER_BYTES, HEARTBEAT, Waiting, encode_abort, from_io, header};
use crate::half::may_retry;
use crate::{ChannelOptions, Clock, Error, Interrupt, Kind, Link, POLL, WriteHalf};

/// Payloads below this are copied together into one write, in bytes.
const SMALL: usize = 16 << 10;
/// Maximum bytes of small frames in one write.
const COALESCED: usize = 64 << 10;
/// Maximum bytes passed to the half in one write.
const PIECE: usize = 256 << 10;

/// What is queued may be half of a pair of correlations, or labels: it is wiped when it has left.
struct Frame {
    queued_at: Instant,
    header: [u8; HEADER_BYTES],
    payload: Vec<u8>,
}

impl Frame {
    fn new(kind: Kind, payload: Vec<u8>, clock: &Clock) -> Self {
        Frame {
            queued_at: clock.now(),
            header: header(kind, payload.len()),
            payload,
        }
    }

    fn len(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        wipe(&mut self.payload);
    }
}

/// Wipes bytes at the speed of memory, which [`zeroize::Zeroize`] does not reach.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    zeroize::optimization_barrier(bytes);
}

#[derive(Default)]
struct State {
    queue: VecDeque<Frame>,
    /// Bytes in the queue and being written.
    pending: usize,
    /// Whether bytes of frames were written that the half has not flushed.
    unflushed: bool,
    /// Bytes of frames written since the start.
    written: u64,
    failure: Option<Error>,
    closing: bool,
    /// Whether nobody waits for this side, so that there are no heartbeats.
    rests: bool,
    /// Whether the peer has been told of an interrupt.
    told: bool,
    /// When the thread gives up whatever it is doing.
    stop_at: Option<Instant>,
    finished: bool,
}

impl State {
    fn must_stop(&self) -> bool {
        self.stop_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Drops what is queued.
    fn clear(&mut self) {
        let dropped: usize = self.queue.drain(..).map(|frame| frame.len()).sum();
        self.pending -= dropped;
    }

    fn push(&mut self, frame: Frame) {
        self.pending += frame.len();
        self.queue.push_back(frame);
    }

    /// Queues an abort in place of all else, and fails every later call of the near end.
    fn interrupt(&mut self, why: Error, clock: &Clock) {
        self.told = true;
        self.clear();
        if let Some(payload) = encode_abort(&why) {
            self.push(Frame::new(ABORT, payload, clock));
        }
        self.failure.get_or_insert(why);
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
        self.changed
            .wait_timeout(state, most)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// The near end of the queue.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    options: ChannelOptions,
}

impl Writer {
    /// Starts the thread. If the operating system cannot create one, every send fails.
    pub(crate) fn start(half: Box<dyn WriteHalf>, options: ChannelOptions) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let pump = Pump {
            shared: Arc::clone(&shared),
            half,
            link: options.link,
            interrupt: options.interrupt.clone(),
            departure: options.clock.now(),
            scratch: Vec::new(),
            heartbeat: options.heartbeat.max(Duration::from_millis(1)),
            next_heartbeat: Some(options.clock.now() + options.heartbeat),
            clock: options.clock.clone(),
            unflushed: false,
        };
        let thread = std::thread::Builder::new()
            .name("vesica-writer".into())
            .spawn(move || pump.run())
            .inspect_err(|error| {
                let mut state = shared.lock();
                state.failure = Some(Error::no_thread(error));
                state.finished = true;
            })
            .ok();
        Writer {
            shared,
            thread,
            options,
        }
    }

    /// Queues a frame; waits while the queue is full. `listen` returns whether the peer says anything, or
    /// `None` without waiting if it cannot tell.
    pub(crate) fn push(
        &self,
        kind: Kind,
        payload: Vec<u8>,
        listen: impl FnMut() -> Option<bool>,
    ) -> Result<(), Error> {
        let len = HEADER_BYTES + payload.len();
        let most = self.options.queue_bytes;
        let fits = |state: &State| state.pending == 0 || state.pending + len <= most;
        let mut state = self.wait_until(fits, listen)?;
        state.push(Frame::new(kind, payload, &self.options.clock));
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until everything queued has been handed to the operating system.
    pub(crate) fn flush(&self, listen: impl FnMut() -> Option<bool>) -> Result<(), Error> {
        self.wait_until(|state| state.pending == 0 && !state.unflushed, listen)
            .map(drop)
    }

    fn wait_until(
        &self,
        ready: impl Fn(&State) -> bool,
        mut listen: impl FnMut() -> Option<bool>,
    ) -> Result<MutexGuard<'_, State>, Error> {
        let ChannelOptions {
            clock,
            timeout,
            patience,
            ..
        } = &self.options;
        let mut waiting = Waiting::new(clock, *timeout, *patience);
        let mut state = self.shared.lock();
        let mut written = state.written;
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.finished {
                return Err(Error::Closed);
            }
            if ready(&state) {
                return Ok(state);
            }
            waiting.check(&self.options.interrupt)?;
            let mut heard = None;
            if waiting.is_quiet() {
                // A peer that receives nothing may be dead, or may be computing and sending heartbeats.
                drop(state);
                heard = listen();
                state = self.shared.lock();
            }
            match heard {
                Some(true) => waiting.heard(),
                Some(false) => {}
                None => state = self.shared.wait(state, POLL),
            }
            waiting.progress((state.written - written) as usize);
            written = state.written;
        }
    }

    /// Drops what is queued, sends `last` if there is one and ends the stream; the thread stops by `stop_at`
    /// at the latest.
    pub(crate) fn close_with(&self, last: Option<Vec<u8>>, stop_at: Instant) {
        let mut state = self.shared.lock();
        state.clear();
        if let Some(payload) = last.filter(|_| !state.told) {
            state.push(Frame::new(ABORT, payload, &self.options.clock));
        }
        state.closing = true;
        state.stop_at = Some(stop_at);
        self.shared.changed.notify_all();
    }

    /// Sends no heartbeats, and watches no interrupt, while this side rests.
    pub(crate) fn rest(&self, rests: bool) {
        self.shared.lock().rests = rests;
        if !rests {
            self.shared.changed.notify_all();
        }
    }

    /// Ends the stream after what is queued; the thread stops by `stop_at` at the latest.
    pub(crate) fn close(&self, stop_at: Instant) {
        let mut state = self.shared.lock();
        state.closing = true;
        state.stop_at.get_or_insert(stop_at);
        self.shared.changed.notify_all();
    }

    /// Waits for the thread, which must have been told to close. Returns whether it has written everything.
    pub(crate) fn join(&mut self) -> bool {
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, there would be nothing left to stop.
            let _ = thread.join();
        }
        self.shared.lock().failure.is_none()
    }
}

/// The far end of the queue, on its own thread.
struct Pump {
    shared: Arc<Shared>,
    half: Box<dyn WriteHalf>,
    link: Link,
    interrupt: Interrupt,
    clock: Clock,
    /// When the emulated link will have sent what it has been given.
    departure: Instant,
    scratch: Vec<u8>,
    /// Time between two heartbeats.
    heartbeat: Duration,
    /// When the next heartbeat is due; `None` once one has failed.
    next_heartbeat: Option<Instant>,
    /// Whether a heartbeat was written that the half has not flushed.
    unflushed: bool,
}

impl Pump {
    fn run(mut self) {
        let outcome = self.pump();
        {
            let mut state = self.shared.lock();
            let cut = (state.pending > 0).then_some(Error::Closed);
            state.failure = state.failure.take().or(outcome.err()).or(cut);
            state.queue.clear();
            state.pending = 0;
        }
        self.half.close();
        self.shared.lock().finished = true;
        self.shared.changed.notify_all();
    }

    fn pump(&mut self) -> Result<(), Error> {
        while let Some(frame) = self.next()? {
            if self.link.is_shaped() {
                self.write_shaped(&frame)?;
            } else if frame.payload.len() < SMALL {
                self.write_coalesced(frame)?;
            } else {
                self.write(&frame.header)?;
                for piece in frame.payload.chunks(PIECE) {
                    self.write(piece)?;
                }
            }
        }
        Ok(())
    }

    /// The next frame; `None` when the stream is to end. Flushes before it waits, and sends
    /// heartbeats while it does.
    ///
    /// An interrupt ends the stream with an abort from here: the caller may be computing and notice it late,
    /// and the peer need not wait for that.
    fn next(&mut self) -> Result<Option<Frame>, Error> {
        let mut state = self.shared.lock();
        loop {
            if state.must_stop() {
                return Ok(None);
            }
            if !state.closing
                && !state.told
                && let Err(why) = self.interrupt.check()
            {
                state.interrupt(why, &self.clock);
                self.shared.changed.notify_all();
            }
            if let Some(frame) = state.queue.pop_front() {
                return Ok(Some(frame));
            }
            if state.unflushed || self.unflushed {
                let frames = state.unflushed;
                drop(state);
                match self.retry(|half| half.flush()) {
                    Err(_) if !frames => self.next_heartbeat = None,
                    flushed => flushed?,
                }
                self.unflushed = false;
                state = self.shared.lock();
                state.unflushed = false;
                self.shared.changed.notify_all();
                continue;
            }
            if state.closing || state.told {
                return Ok(None);
            }
            if state.rests {
                // Whoever has this side rest listens to the interrupt.
                let waited = self.shared.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = self.clock.now();
            match self.next_heartbeat {
                None => state = self.shared.wait(state, POLL),
                Some(next) if now < next => state = self.shared.wait(state, POLL.min(next - now)),
                Some(_) => {
                    drop(state);
                    // A connection that takes no heartbeat takes nothing else either; but while there is
                    // nothing to send, that is no failure. The peer may have ended its stream.
                    self.next_heartbeat = self.beat().ok().map(|()| now + self.heartbeat);
                    state = self.shared.lock();
                }
            }
        }
    }

    /// Sends a heartbeat, unless the half takes nothing: then bytes are on their way that serve as well.
    fn beat(&mut self) -> Result<(), Error> {
        let frame = header(HEARTBEAT, 0);
        if self.link.is_shaped() {
            self.depart(self.clock.now(), frame.len());
        }
        let mut taken = match self.half.write(&frame) {
            Ok(count) => count,
            Err(error) if may_retry(&error) => return Ok(()),
            Err(error) => return Err(from_io(&error)),
        };
        while taken < frame.len() {
            taken += self.retry(|half| half.write(&frame[taken..]))?;
        }
        self.unflushed = true;
        Ok(())
    }

    /// Writes a small frame together with the small frames behind it.
    fn write_coalesced(&mut self, first: Frame) -> Result<(), Error> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(&first.header);
        scratch.extend_from_slice(&first.payload);
        {
            let mut state = self.shared.lock();
            while scratch.len() < COALESCED
                && state.queue.front().is_some_and(|f| f.payload.len() < SMALL)
                && let Some(frame) = state.queue.pop_front()
            {
                scratch.extend_from_slice(&frame.header);
                scratch.extend_from_slice(&frame.payload);
            }
        }
        let outcome = self.write(&scratch);
        wipe(&mut scratch);
        self.scratch = scratch;
        outcome
    }

    /// Writes a frame as an emulated link would deliver it.
    ///
    /// Bytes leave one after another, no earlier than the frame was queued, and are held back for another
    /// half of the round-trip time. Since the clock starts when a frame is queued and not when the previous
    /// one has been delivered, frames in flight overlap.
    fn write_shaped(&mut self, frame: &Frame) -> Result<(), Error> {
        let piece = self.link.piece();
        for part in std::iter::once(&frame.header[..]).chain(frame.payload.chunks(piece)) {
            self.depart(frame.queued_at, part.len());
            self.write(part)?;
        }
        Ok(())
    }

    /// Sleeps until `bytes` bytes that were there at `queued_at` have crossed the emulated link.
    fn depart(&mut self, queued_at: Instant, bytes: usize) {
        self.departure = self.departure.max(queued_at) + self.link.transmission_time(bytes);
        self.sleep_until(self.departure + self.link.rtt / 2);
    }

    /// Sleeps until `at`, or until the channel is being closed in a hurry.
    fn sleep_until(&self, at: Instant) {
        let mut state = self.shared.lock();
        loop {
            let left = at.saturating_duration_since(self.clock.now());
            if left.is_zero() || state.stop_at.is_some() {
                return;
            }
            state = self.shared.wait(state, POLL.min(left));
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let count = self.retry(|half| half.write(bytes))?;
            bytes = &bytes[count..];
            let mut state = self.shared.lock();
            state.written += count as u64;
            state.pending -= count;
            state.unflushed = true;
            self.shared.changed.notify_all();
            // Also if the peer does receive bytes, a few at a time.
            if !bytes.is_empty() && state.must_stop() {
                return Err(Error::Closed);
            }
        }
        Ok(())
    }

    /// Retries until it works or the channel is being closed. Whoever waits for the queue limits the time:
    /// while nobody waits, the peer may be computing.
    fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut dyn WriteHalf) -> std::io::Result<T>,
    ) -> Result<T, Error> {
        loop {
            match attempt(&mut *self.half) {
                Ok(value) => return Ok(value),
                Err(error) if may_retry(&error) => {}
                Err(error) => return Err(from_io(&error)),
            }
            if self.shared.lock().must_stop() {
                return Err(Error::Closed);
            }
        }
    }
}
