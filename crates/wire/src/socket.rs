//! Sockets that are waited for no longer than [`POLL`].

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
#[cfg(windows)]
use vesica_kernels::windows::{Until, wait};

use crate::POLL;

/// Silence after which a connection shows its router that it lives, and the time from one such sign to the next. Routers
/// that translate addresses forget what is silent, many after some minutes; RFC 5382 asks for two hours.
const SIGNS_OF_LIFE: [Duration; 2] = [Duration::from_secs(45), Duration::from_secs(15)];

/// Has the system show at times that a silent connection lives, and notice that its other end does not: TCP's keep-alive.
/// Where that cannot be had, nothing else changes.
pub fn keep_alive(stream: &TcpStream) {
    let [silence, between] = SIGNS_OF_LIFE;
    let signs = TcpKeepalive::new()
        .with_time(silence)
        .with_interval(between);
    let _ = SockRef::from(stream).set_tcp_keepalive(&signs);
}

/// Has [`read`] and [`write()`] wait for this socket for at most about [`POLL`], disables Nagle's algorithm, and keeps the connection
/// [alive](keep_alive).
///
/// On Windows it does not block from now on: where the time of a call that blocks runs out there, nobody learns how much it
/// has sent.
///
/// # Errors
/// The operating system's.
pub fn patient(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    keep_alive(stream);
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
