//! Byte streams cut in two halves, so that one thread reads while another writes.

use std::io;
use std::time::Duration;

use crate::Interrupt;

/// The half of a byte stream that reads.
pub trait ReadHalf: Send {
    /// Reads at least one byte into `buf` and returns how many; 0 means that the peer ended the
    /// stream.
    ///
    /// Waits for at most about [`crate::POLL`], then fails with [`io::ErrorKind::WouldBlock`] or
    /// [`io::ErrorKind::TimedOut`], upon which the caller may try again.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Waits, after a read in vain, until there may be something to read, until the interrupt is raised, or so long. Returns
    /// whether there may be something to read.
    ///
    /// Does nothing by default: then the next read waits. With it whoever waits for long is not woken all the time.
    fn wait(&mut self, interrupt: &Interrupt, most: Duration) -> bool {
        let _ = (interrupt, most);
        true
    }

    /// Discards what still arrives, until the peer ends the stream as well or until `goes_on`, which is asked before each
    /// read, says no. Called after the writing half is closed and before the stream is.
    ///
    /// Does nothing by default. Sockets need it: bytes that arrive at a socket that is closed, or lie there unread, reset
    /// the connection, and what the peer has not received yet is lost.
    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        let _ = goes_on;
    }
}

/// Implements [`ReadHalf::finish`] for a socket, with `read`.
pub fn discard(goes_on: impl Fn() -> bool, mut read: impl FnMut() -> io::Result<usize>) {
    while goes_on() {
        match read() {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if may_retry(&error) => {}
            Err(_) => break,
        }
    }
}

/// The half of a byte stream that writes.
pub trait WriteHalf: Send {
    /// Takes at least one byte of `bytes` and returns how many.
    ///
    /// Waits for at most about [`crate::POLL`], then fails with [`io::ErrorKind::WouldBlock`] or
    /// [`io::ErrorKind::TimedOut`], upon which the caller may try again with the same bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Hands everything taken so far to the operating system; waits and fails as
    /// [`WriteHalf::write`] does.
    fn flush(&mut self) -> io::Result<()>;

    /// Ends the stream, on a best-effort basis within about [`crate::POLL`].
    fn close(&mut self);
}

impl ReadHalf for Box<dyn ReadHalf> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (**self).read(buf)
    }

    fn wait(&mut self, interrupt: &Interrupt, most: Duration) -> bool {
        (**self).wait(interrupt, most)
    }

    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        (**self).finish(goes_on);
    }
}

/// Reads from memory; the end of the slice is the end of the stream. For decoder tests.
impl ReadHalf for &[u8] {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, buf)
    }
}

/// Whether a failed read or write may be tried again.
pub fn may_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
