//! A connection within one process, for tests.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::{ChannelOptions, FramedChannel, POLL, ReadHalf, WriteHalf};

/// Bytes that each direction holds before writing blocks.
const CAPACITY: usize = 256 << 10;

/// Two connected channels, with default options.
pub fn memory_pair() -> (FramedChannel, FramedChannel) {
    memory_pair_with(ChannelOptions::default(), ChannelOptions::default())
}

/// Two connected channels.
pub fn memory_pair_with(
    first: ChannelOptions,
    second: ChannelOptions,
) -> (FramedChannel, FramedChannel) {
    let ((r1, w1), (r2, w2)) = memory_halves();
    (
        FramedChannel::new(Box::new(r1), Box::new(w1), first),
        FramedChannel::new(Box::new(r2), Box::new(w2), second),
    )
}

/// The byte halves (reader, writer) of both ends of a connection within this process. Each
/// direction holds 256 KiB.
pub fn memory_halves() -> ((MemoryReader, MemoryWriter), (MemoryReader, MemoryWriter)) {
    let there = Arc::new(Pipe::default());
    let back = Arc::new(Pipe::default());
    (
        (
            MemoryReader(Arc::clone(&back)),
            MemoryWriter(Arc::clone(&there)),
        ),
        (MemoryReader(there), MemoryWriter(back)),
    )
}

#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    ended: bool,
    abandoned: bool,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for at most [`POLL`] until `ready`.
    fn wait(&self, blocked: impl Fn(&PipeState) -> bool) -> io::Result<MutexGuard<'_, PipeState>> {
        let (state, waited) = self
            .changed
            .wait_timeout_while(self.lock(), POLL, |state| blocked(state))
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && blocked(&state) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(state)
    }
}

/// The reading half of a connection within this process.
#[derive(Debug)]
pub struct MemoryReader(Arc<Pipe>);

/// The writing half of a connection within this process.
#[derive(Debug)]
pub struct MemoryWriter(Arc<Pipe>);

impl ReadHalf for MemoryReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.wait(|s| s.bytes.is_empty() && !s.ended)?;
        let count = io::Read::read(&mut state.bytes, buf)?;
        self.0.changed.notify_all();
        Ok(count)
    }
}

impl Drop for MemoryReader {
    fn drop(&mut self) {
        self.0.lock().abandoned = true;
        self.0.changed.notify_all();
    }
}

impl WriteHalf for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.wait(|s| s.bytes.len() >= CAPACITY && !s.abandoned)?;
        if state.abandoned {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(CAPACITY - state.bytes.len());
        state.bytes.extend(&bytes[..count]);
        self.0.changed.notify_all();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.close();
    }
}
