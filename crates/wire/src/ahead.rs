//! Reading ahead of the caller, to hear whether the peer is alive.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::half::may_retry;
use crate::{Interrupt, ReadHalf};

/// Maximum bytes to read ahead. More than a peer's queue and the sockets usually hold, so that heartbeats
/// after all these are heard.
const MAX_AHEAD: usize = 16 << 20;
/// Bytes read at once.
const PIECE: usize = 64 << 10;

/// A reading half that can be listened to before its bytes are needed.
pub(crate) struct Ahead<R> {
    half: R,
    bytes: VecDeque<u8>,
}

impl<R: ReadHalf> Ahead<R> {
    pub(crate) fn new(half: R) -> Self {
        Ahead {
            half,
            bytes: VecDeque::new(),
        }
    }

    /// Waits for bytes as [`ReadHalf::read`] does and keeps them for later. Returns whether any came, or
    /// `None` without waiting if it can no longer tell.
    pub(crate) fn listen(&mut self) -> Option<bool> {
        if self.bytes.len() >= MAX_AHEAD {
            return None;
        }
        let mut piece = vec![0; PIECE];
        match self.half.read(&mut piece) {
            Ok(0) => None,
            Ok(count) => {
                self.bytes.extend(&piece[..count]);
                Some(true)
            }
            Err(error) if may_retry(&error) => Some(false),
            Err(_) => None,
        }
    }
}

impl<R: ReadHalf> ReadHalf for Ahead<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            return self.half.read(buf);
        }
        let count = io::Read::read(&mut self.bytes, buf)?;
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
        }
        Ok(count)
    }

    fn wait(&mut self, interrupt: &Interrupt, most: Duration) -> bool {
        !self.bytes.is_empty() || self.half.wait(interrupt, most)
    }

    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        self.half.finish(goes_on);
    }
}
