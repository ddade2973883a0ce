//! Text input in pieces: a buffer that hands out whole lines or records, and never more memory
//! than the longest of them.

use std::io::{Empty, ErrorKind as IoKind, Read};
use std::ops::{Deref, Range};

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};

/// The longest row that is read. A quote that is never closed would otherwise take the rest of
/// the file into memory.
pub(crate) const MAX_ROW_BYTES: usize = 64 << 20;

const FIRST_BUFFER: usize = 256 << 10;

/// Bytes read and not yet consumed, as one slice.
pub(crate) struct Buffer<R> {
    input: R,
    bytes: Held,
    start: usize,
    end: usize,
    at_end: bool,
}

/// Bytes that are read into, or that are there.
enum Held {
    Own(Vec<u8>),
    Shared(Bytes),
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Held::Own(bytes) => bytes,
            Held::Shared(bytes) => bytes,
        }
    }
}

impl Buffer<Empty> {
    /// A text that is in memory.
    pub(crate) fn of(bytes: Bytes) -> Self {
        Buffer {
            input: std::io::empty(),
            start: 0,
            end: bytes.len(),
            at_end: true,
            bytes: Held::Shared(bytes),
        }
    }
}

impl<R: Read> Buffer<R> {
    pub(crate) fn new(input: R) -> Self {
        Buffer {
            input,
            bytes: Held::Own(vec![0; FIRST_BUFFER]),
            start: 0,
            end: 0,
            at_end: false,
        }
    }

    /// What has been read and not consumed.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes of an earlier [`Buffer::pending`], relative to its start, after `consume`d them.
    pub(crate) fn consumed(&self, length: usize) -> &[u8] {
        &self.bytes[self.start - length..self.start]
    }

    pub(crate) fn consume(&mut self, length: usize) {
        self.start += length;
    }

    /// Adds to [`Buffer::pending`]; `false` at the end of the input.
    pub(crate) fn more(&mut self) -> Result<bool> {
        let Held::Own(bytes) = &mut self.bytes else {
            return Ok(false);
        };
        if self.at_end {
            return Ok(false);
        }
        if self.end == bytes.len() {
            if self.start > 0 {
                bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.end * 2 > bytes.len() {
                if bytes.len() >= MAX_ROW_BYTES {
                    return Err(Error::new(ErrorKind::RowTooLong {
                        limit: MAX_ROW_BYTES,
                    }));
                }
                bytes.resize(bytes.len() * 2, 0);
            }
        }
        loop {
            match self.input.read(&mut bytes[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(false);
                }
                Ok(n) => {
                    self.end += n;
                    return Ok(true);
                }
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(e) => return Err(read_error(e)),
            }
        }
    }

    /// Length of a byte-order mark at the current position.
    pub(crate) fn byte_order_mark(&mut self) -> Result<usize> {
        while self.pending().len() < BYTE_ORDER_MARK.len() {
            if !self.more()? {
                break;
            }
        }
        Ok(if self.pending().starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        })
    }

    /// The next line with its terminator, as a range of [`Buffer::pending`] from 0; `None` at
    /// the end. Nothing is consumed.
    #[inline]
    pub(crate) fn line(&mut self) -> Result<Option<Range<usize>>> {
        let mut searched = 0;
        loop {
            let pending = self.pending();
            if let Some(i) = memchr::memchr(b'\n', &pending[searched..]) {
                return Ok(Some(0..searched + i + 1));
            }
            searched = pending.len();
            if !self.more()? {
                return Ok((searched > 0).then_some(0..searched));
            }
        }
    }
}

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A failed read: damaged compressed data are the file's fault, the rest is the machine's.
pub(crate) fn read_error(e: std::io::Error) -> Error {
    let e = match e.downcast::<Error>() {
        Ok(error) => return error,
        Err(e) => e,
    };
    match e.kind() {
        IoKind::UnexpectedEof => Error::corrupt("it breaks off in the middle"),
        IoKind::InvalidData | IoKind::InvalidInput => Error::corrupt(e.to_string()),
        _ => Error::new(ErrorKind::Unreadable(e)),
    }
}

/// A row without its line terminator, and whether that was CR LF.
pub(crate) fn strip_terminator(row: &[u8]) -> (&[u8], bool) {
    match row {
        [rest @ .., b'\r', b'\n'] => (rest, true),
        [rest @ .., b'\n'] => (rest, false),
        _ => (row, false),
    }
}
