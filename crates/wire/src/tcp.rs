//! TCP as byte halves.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::{Interrupt, ReadHalf, WriteHalf, discard, socket};

/// Splits a TCP connection, with Nagle's algorithm disabled and short timeouts on both halves.
///
/// Fails when the operating system refuses the options or a second handle.
pub fn tcp_halves(stream: TcpStream) -> io::Result<(TcpReader, TcpWriter)> {
    socket::patient(&stream)?;
    let other = stream.try_clone()?;
    Ok((TcpReader(stream), TcpWriter(other)))
}

/// The reading half of a TCP connection.
#[derive(Debug)]
pub struct TcpReader(TcpStream);

/// The writing half of a TCP connection.
#[derive(Debug)]
pub struct TcpWriter(TcpStream);

impl ReadHalf for TcpReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        socket::read(&self.0, buf)
    }

    fn wait(&mut self, interrupt: &Interrupt, most: Duration) -> bool {
        interrupt.await_readable(&self.0, most)
    }

    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        let mut sink = [0; 4096];
        discard(goes_on, || socket::read(&self.0, &mut sink));
    }
}

impl WriteHalf for TcpWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::write(&self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) {
        // A peer that has gone already has no use for the end of the stream.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}
