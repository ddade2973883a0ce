//! Sockets that are waited for no longer than [`POLL`].

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(windows)]
use vesica_kernels::windows::{Until, wait};

use crate::POLL;

/// Has [`read`] and [`write()`] wait for this socket for at most about [`POLL`], and disables Nagle's algorithm.
///
/// On Windows it does not block from now on: where the time of a call that blocks runs out there, nobody learns how much it
/// has sent.
///
/// # Errors
/// The operating system's.
pub fn patient(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(not(windows))]
    {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(POLL))?;
        stream.set_write_timeout(Some(POLL))
    }
    #[cfg(windows)]
    {
        stream.set_nonblocking(true)
    }
}

/// Reads what there is once there is something.
///
/// # Errors
/// The operating system's.
pub fn read(mut stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    #[cfg(windows)]
    wait(&stream, Until::Readable, POLL)?;
    stream.read(buf)
}

/// Writes what fits once something does.
///
/// # Errors
/// The operating system's.
pub fn write(mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    #[cfg(windows)]
    wait(&stream, Until::Writable, POLL)?;
    stream.write(bytes)
}
