//! One TLS connection as two byte halves.
//!
//! Both halves share the connection's keys behind a lock that is held only while encrypting and decrypting.
//! What carries them is read by the reading half and written by the writing half, outside the lock, so that neither
//! direction waits for the other.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vesica_wire::{Interrupt, ReadHalf, WriteHalf, may_retry};

use crate::carrier::Halves;

/// Ciphertext read from the socket at once, in bytes.
const INCOMING: usize = 256 << 10;
/// Plaintext encrypted at once, in bytes.
const OUTGOING: usize = 128 << 10;

type Shared = Arc<Mutex<rustls::Connection>>;

fn lock(tls: &Shared) -> MutexGuard<'_, rustls::Connection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection whose handshake is done, over two halves.
pub(crate) fn halves(mut tls: rustls::Connection, (reader, writer): Halves) -> Halves {
    // The writing half bounds what it hands over.
    tls.set_buffer_limit(None);
    let tls = Arc::new(Mutex::new(tls));
    let reader = TlsReader {
        tls: Arc::clone(&tls),
        reader,
        incoming: vec![0; INCOMING].into_boxed_slice(),
        start: 0,
        end: 0,
    };
    let writer = TlsWriter {
        tls,
        writer,
        outgoing: Vec::with_capacity(OUTGOING + (OUTGOING >> 6)),
        start: 0,
    };
    (Box::new(reader), Box::new(writer))
}

/// The half that decrypts.
struct TlsReader {
    tls: Shared,
    reader: Box<dyn ReadHalf>,
    incoming: Box<[u8]>,
    start: usize,
    end: usize,
}

impl TlsReader {
    /// Whether there is something to read of what has arrived. After a read in vain there is not.
    fn has_plaintext(&self) -> bool {
        let is_buffered = || {
            let state = lock(&self.tls).process_new_packets();
            state.is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
        };
        self.start < self.end || is_buffered()
    }

    /// Decrypts what has arrived into `buf`. `None`: all of it is used up and yielded nothing.
    fn decrypt(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut tls = lock(&self.tls);
        let mut filled = 0;
        loop {
            match tls.reader().read(&mut buf[filled..]) {
                Ok(0) if filled == 0 => return Ok(Some(0)),
                Ok(0) => return Ok(Some(filled)),
                Ok(count) => filled += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) if filled > 0 => return Ok(Some(filled)),
                Err(e) => return Err(e),
            }
            if filled == buf.len() {
                return Ok(Some(filled));
            }
            if self.start == self.end {
                return Ok((filled > 0).then_some(filled));
            }
            let mut rest = &self.incoming[self.start..self.end];
            self.start += tls.read_tls(&mut rest)?;
            if let Err(error) = tls.process_new_packets() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

impl ReadHalf for TlsReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(count) = self.decrypt(buf)? {
            return Ok(count);
        }
        let count = self.reader.read(&mut self.incoming)?;
        if count == 0 {
            // Closed without the closing alert of TLS.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.start, self.end) = (0, count);
        // A peer that sends records without any content must not keep the caller from looking at
        // its deadline.
        self.decrypt(buf)?
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn wait(&mut self, interrupt: &Interrupt, most: Duration) -> bool {
        self.has_plaintext() || self.reader.wait(interrupt, most)
    }

    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        self.reader.finish(goes_on);
    }
}

/// The half that encrypts, and the only one that writes.
struct TlsWriter {
    tls: Shared,
    writer: Box<dyn WriteHalf>,
    outgoing: Vec<u8>,
    start: usize,
}

impl TlsWriter {
    fn collect(
        &mut self,
        fill: impl FnOnce(&mut rustls::Connection) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut tls = lock(&self.tls);
        fill(&mut tls)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.outgoing)?;
        }
        Ok(())
    }

    /// Writes once. What is not taken in time stays for the next call, so that the caller gets to look at its deadline.
    fn push(&mut self) -> io::Result<()> {
        let rest = &self.outgoing[self.start..];
        if !rest.is_empty() {
            match self.writer.write(rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count if count < rest.len() => {
                    self.start += count;
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                _ => {}
            }
        }
        self.outgoing.clear();
        self.start = 0;
        Ok(())
    }
}

impl WriteHalf for TlsWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push()?;
        let piece = &bytes[..bytes.len().min(OUTGOING)];
        self.collect(|tls| tls.writer().write_all(piece))?;
        match self.push() {
            // The bytes are taken: what is left of them goes out with the next call.
            Err(e) if may_retry(&e) => {}
            other => other?,
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        self.writer.flush()
    }

    fn close(&mut self) {
        // Best effort: a peer that is gone has no use for a closing alert.
        let _ = self.collect(|tls| {
            tls.send_close_notify();
            Ok(())
        });
        let _ = self.push();
        self.writer.close();
    }
}
