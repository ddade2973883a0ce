//! What carries the bytes of TLS: a TCP connection, or layers upon one.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use vesica_wire::{ReadHalf, WriteHalf, may_retry, tcp_halves};

/// The two directions of a byte stream.
pub(crate) type Halves = (Box<dyn ReadHalf>, Box<dyn WriteHalf>);

/// A byte stream to a peer, or to what leads to it. Whether reads and writes block depends on the mode of its socket.
pub(crate) struct Carrier {
    tcp: TcpStream,
    /// The upper end of the layers, if there are any.
    layers: Option<Halves>,
}

impl Carrier {
    /// A TCP connection without layers.
    pub(crate) fn of(tcp: TcpStream) -> Carrier {
        Carrier { tcp, layers: None }
    }

    /// The socket below all layers.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.tcp
    }

    /// Adds a layer, which leaves the socket [patient](vesica_wire::socket::patient).
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn layer(&mut self, add: impl FnOnce(Halves) -> Halves) -> io::Result<()> {
        let halves = match self.layers.take() {
            Some(halves) => halves,
            None => boxed(self.tcp.try_clone()?)?,
        };
        self.layers = Some(add(halves));
        Ok(())
    }

    /// Ends what this side sends.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        match &mut self.layers {
            None => self.tcp.shutdown(Shutdown::Write),
            Some((_, writer)) => {
                writer.close();
                Ok(())
            }
        }
    }

    /// Its two directions, over a [patient](vesica_wire::socket::patient) socket.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn into_halves(self) -> io::Result<Halves> {
        match self.layers {
            Some(halves) => Ok(halves),
            None => boxed(self.tcp),
        }
    }
}

fn boxed(tcp: TcpStream) -> io::Result<Halves> {
    let (reader, writer) = tcp_halves(tcp)?;
    Ok((Box::new(reader), Box::new(writer)))
}

/// `None` for an attempt that may be retried.
pub(crate) fn retry<T>(attempt: io::Result<T>) -> io::Result<Option<T>> {
    match attempt {
        Ok(value) => Ok(Some(value)),
        Err(e) if may_retry(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carrier")
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}

impl Read for Carrier {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.layers {
            None => self.tcp.read(buf),
            Some((reader, _)) => reader.read(buf),
        }
    }
}

impl Write for Carrier {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.layers {
            None => self.tcp.write(bytes),
            Some((_, writer)) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.layers {
            None => Ok(()),
            Some((_, writer)) => writer.flush(),
        }
    }
}
