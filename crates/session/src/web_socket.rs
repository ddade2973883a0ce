//! WebSockets (RFC 6455), which web servers and browsers pass on. TLS runs in their messages as it does over TCP, so that
//! nobody on the way sees more than bytes.
//!
//! Messages are binary. An empty one ends what a side sends, as the end of a TCP stream does, and the other side may go on.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::header::{HOST, ORIGIN};
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Bytes, Error as WebError, Message, WebSocket};
use vesica_wire::{Interrupt, ReadHalf, WriteHalf, discard};

use crate::carrier::{Carrier, Halves, retry};

/// Longest message that is taken. Those of this program have some 130 KiB, and others on the way may join them.
const MAX_MESSAGE: usize = 1 << 20;
/// The same of a visitor who has not proved who it is: a message of a handshake has a few KiB.
const MAX_OF_VISITOR: usize = 32 << 10;
/// Bytes that are read at once.
const INCOMING: usize = 64 << 10;
/// Silence after which a side shows those on the way that it is there: many cut what is silent for a minute.
const SILENCE: Duration = Duration::from_secs(25);
/// Most lines of a header of HTTP.
pub(crate) const MAX_LINES: usize = 64;
/// Longest request for a WebSocket.
const MAX_REQUEST: usize = 8 << 10;

/// Bytes that have come and have not been looked at, and bytes that are to be sent.
pub(crate) struct Memory {
    incoming: Vec<u8>,
    start: usize,
    pub(crate) outgoing: Vec<u8>,
    /// Bytes of `outgoing` beyond which nothing is added.
    most: usize,
}

vesica_primitives::opaque!(Memory, start, most);

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory {
            incoming: Vec::new(),
            start: 0,
            outgoing: Vec::new(),
            most: MAX_MESSAGE,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.incoming.drain(..self.start);
        self.start = 0;
        self.incoming.extend_from_slice(bytes);
    }
}

impl Read for Memory {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match Read::read(&mut &self.incoming[self.start..], buf)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => {
                self.start += count;
                Ok(count)
            }
        }
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A flood of pings is not answered faster than the answers leave.
        if self.outgoing.len() >= self.most {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn config() -> WebSocketConfig {
    bounded(MAX_MESSAGE)
}

fn bounded(most: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(MAX_OF_VISITOR)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * most)
        .max_message_size(Some(most))
        .max_frame_size(Some(most))
}

/// A WebSocket whose bytes others carry.
#[derive(Debug)]
struct Messages {
    socket: WebSocket<Memory>,
    /// What is left of the last message.
    message: Bytes,
    has_ended: bool,
    /// What was wrong with a message: there is nothing after that.
    broken: Option<String>,
}

impl Messages {
    fn of(socket: WebSocket<Memory>) -> Messages {
        Messages {
            socket,
            message: Bytes::new(),
            has_ended: false,
            broken: None,
        }
    }

    /// Whether there is something to read, or nothing will come any more.
    fn load(&mut self) -> io::Result<bool> {
        if let Some(what) = &self.broken {
            return Err(io::Error::new(ErrorKind::InvalidData, what.clone()));
        }
        let loaded = self.load_next();
        loaded.inspect_err(|e| self.broken = Some(e.to_string()))
    }

    fn load_next(&mut self) -> io::Result<bool> {
        while self.message.is_empty() && !self.has_ended {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => {
                    self.has_ended = bytes.is_empty();
                    self.message = bytes;
                }
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                // Without an end before it, TLS misses its own.
                Ok(Message::Close(_))
                | Err(WebError::ConnectionClosed | WebError::AlreadyClosed) => {
                    self.has_ended = true;
                }
                Ok(Message::Text(_) | Message::Frame(_)) => {
                    let line = "a message of a WebSocket that is not binary";
                    return Err(io::Error::new(ErrorKind::InvalidData, line));
                }
                Err(WebError::Io(e)) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(io::Error::new(ErrorKind::InvalidData, e)),
            }
        }
        Ok(true)
    }

    /// Bytes of the messages that have come; `None` if more must come first.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.load()? {
            return Ok(None);
        }
        let count = self.message.len().min(buf.len());
        buf[..count].copy_from_slice(&self.message.split_to(count));
        Ok(Some(count))
    }

    /// Makes a message of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        taken(self.socket.send(message))
    }

    /// What is to be sent, which is taken away.
    fn outgoing(&mut self) -> io::Result<Vec<u8>> {
        taken(self.socket.flush())?;
        Ok(std::mem::take(&mut self.socket.get_mut().outgoing))
    }
}

/// What waits for room is taken.
fn taken(outcome: Result<(), WebError>) -> io::Result<()> {
    match outcome {
        Ok(()) | Err(WebError::ConnectionClosed) => Ok(()),
        Err(WebError::Io(e)) if e.kind() == ErrorKind::WouldBlock => Ok(()),
        // The message is in it.
        Err(WebError::WriteBufferFull(_)) => Err(io::Error::other("a WebSocket has no room")),
        Err(e) => Err(io::Error::other(e)),
    }
}

/// What is on its way out.
struct Outbox {
    writer: Box<dyn WriteHalf>,
    bytes: Vec<u8>,
    start: usize,
}

impl Outbox {
    /// Sends what there is. What is not taken in time stays for the next call, so that the caller gets to look at its
    /// deadline.
    fn push(&mut self, messages: &Mutex<Messages>) -> io::Result<()> {
        loop {
            let rest = &self.bytes[self.start..];
            if rest.is_empty() {
                self.bytes.clear();
                self.start = 0;
                self.bytes = lock(messages).outgoing()?;
                if self.bytes.is_empty() {
                    return Ok(());
                }
                continue;
            }
            match self.writer.write(rest)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count if count < rest.len() => {
                    self.start += count;
                    return Err(ErrorKind::WouldBlock.into());
                }
                count => self.start += count,
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The half of a WebSocket that reads.
struct WebReader {
    messages: Arc<Mutex<Messages>>,
    outbox: Arc<Mutex<Outbox>>,
    reader: Box<dyn ReadHalf>,
    incoming: Box<[u8]>,
    /// When something came, or a sign of life was sent, last.
    last: Instant,
}

impl WebReader {
    /// Sends a sign of life if it is time, unless this side is just sending something.
    fn ping(&mut self) -> io::Result<()> {
        if self.last.elapsed() >= SILENCE
            && let Ok(mut outbox) = self.outbox.try_lock()
        {
            self.last = Instant::now();
            taken(
                lock(&self.messages)
                    .socket
                    .write(Message::Ping(Bytes::new())),
            )?;
            // What is not taken in time goes out with what comes next.
            retry(outbox.push(&self.messages))?;
        }
        Ok(())
    }
}

/// The half of a WebSocket that writes.
struct WebWriter {
    messages: Arc<Mutex<Messages>>,
    outbox: Arc<Mutex<Outbox>>,
}

/// A WebSocket over two halves.
fn halves(socket: WebSocket<Memory>, (reader, writer): Halves) -> (WebReader, WebWriter) {
    let messages = Arc::new(Mutex::new(Messages::of(socket)));
    let outbox = Arc::new(Mutex::new(Outbox {
        writer,
        bytes: Vec::new(),
        start: 0,
    }));
    let reader = WebReader {
        messages: Arc::clone(&messages),
        outbox: Arc::clone(&outbox),
        reader,
        incoming: vec![0; INCOMING].into_boxed_slice(),
        last: Instant::now(),
    };
    (reader, WebWriter { messages, outbox })
}

/// A WebSocket that is a layer of a carrier.
#[derive(Debug)]
pub(crate) struct Opened(Arc<Mutex<Messages>>);

impl Opened {
    /// Lets messages have their full length: the other side has proved who it is.
    pub(crate) fn trust(&self) {
        let mut messages = lock(&self.0);
        messages.socket.set_config(|of| *of = config());
        messages.socket.get_mut().most = MAX_MESSAGE;
    }
}

/// Adds a WebSocket as a layer.
pub(crate) fn layer(carrier: &mut Carrier, socket: WebSocket<Memory>) -> io::Result<Opened> {
    let mut opened = None;
    carrier.layer(|below| {
        let (reader, writer) = halves(socket, below);
        opened = Some(Opened(Arc::clone(&reader.messages)));
        (Box::new(reader), Box::new(writer))
    })?;
    opened.ok_or_else(|| ErrorKind::NotConnected.into())
}

impl ReadHalf for WebReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(count) = lock(&self.messages).read(buf)? {
            return Ok(count);
        }
        self.ping()?;
        let count = self.reader.read(&mut self.incoming)?;
        if count == 0 {
            return Ok(0);
        }
        self.last = Instant::now();
        let read = {
            let mut messages = lock(&self.messages);
            messages.socket.get_mut().feed(&self.incoming[..count]);
            messages.read(buf)?
        };
        // Pings are answered though this side has nothing to say. If it is just saying something, the answer goes along.
        if let Ok(mut outbox) = self.outbox.try_lock() {
            let _ = outbox.push(&self.messages);
        }
        read.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn wait(&mut self, interrupt: &Interrupt, most: Duration) -> bool {
        // What is wrong shows in the next read.
        lock(&self.messages).load().unwrap_or(true)
            || self.ping().is_err()
            || self.reader.wait(interrupt, most.min(SILENCE))
    }

    fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
        let mut sink = [0; 4096];
        discard(goes_on, || self.read(&mut sink));
        // Both directions are at their end.
        let _ = taken(lock(&self.messages).socket.close(None));
        let mut outbox = lock(&self.outbox);
        let _ = outbox.push(&self.messages);
        outbox.writer.close();
    }
}

impl WriteHalf for WebWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut outbox = lock(&self.outbox);
        outbox.push(&self.messages)?;
        let piece = &bytes[..bytes.len().min(MAX_MESSAGE)];
        if piece.is_empty() {
            return Ok(0);
        }
        lock(&self.messages).write(piece)?;
        match retry(outbox.push(&self.messages)) {
            // The bytes are taken: what is left of them goes out with the next call.
            Ok(_) => Ok(piece.len()),
            Err(e) => Err(e),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut outbox = lock(&self.outbox);
        outbox.push(&self.messages)?;
        outbox.writer.flush()
    }

    fn close(&mut self) {
        // Best effort: a peer that is gone has no use for it.
        let mut outbox = lock(&self.outbox);
        let _ = outbox.push(&self.messages);
        let _ = lock(&self.messages).write(&[]);
        let _ = outbox.push(&self.messages);
    }
}

/// A request for a WebSocket that is being read.
#[derive(Default)]
pub(crate) struct Upgrade {
    request: Vec<u8>,
}

vesica_primitives::opaque!(Upgrade);

/// How far a request is.
#[derive(Debug)]
pub(crate) enum Upgraded {
    /// More of it has come.
    Moved,
    /// Nothing has.
    Waiting,
    /// The WebSocket is a layer of the carrier.
    Open(Opened),
}

/// Why there will be no WebSocket.
#[derive(Debug)]
pub(crate) enum NoUpgrade {
    Broken(io::Error),
    /// What was asked for instead.
    Refused(&'static str),
}

impl From<io::Error> for NoUpgrade {
    fn from(e: io::Error) -> NoUpgrade {
        NoUpgrade::Broken(e)
    }
}

/// Whether what begins with this byte is a request of HTTP and not TLS.
pub(crate) fn is_request(first: u8) -> bool {
    first.is_ascii_uppercase()
}

impl Upgrade {
    /// Reads once.
    pub(crate) fn step(&mut self, carrier: &mut Carrier) -> Result<Upgraded, NoUpgrade> {
        let mut piece = [0; 1024];
        let room = piece.len().min(MAX_REQUEST - self.request.len());
        match retry(carrier.read(&mut piece[..room]))? {
            None => return Ok(Upgraded::Waiting),
            Some(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Some(count) => self.request.extend_from_slice(&piece[..count]),
        }
        let end = self.request.windows(4).position(|of| of == b"\r\n\r\n");
        let verdict = match end {
            None if self.request.len() < MAX_REQUEST => return Ok(Upgraded::Moved),
            None => Err(Refusal::TOO_LONG),
            // Nothing may be sent before there is an answer.
            Some(at) if at + 4 < self.request.len() => Err(Refusal::BAD),
            Some(_) => answer(&self.request),
        };
        match verdict {
            Ok(answer) => {
                carrier.write_all(&answer)?;
                let memory = Memory {
                    most: MAX_OF_VISITOR,
                    ..Memory::new()
                };
                let bounds = Some(bounded(MAX_OF_VISITOR));
                let socket = WebSocket::from_raw_socket(memory, Role::Server, bounds);
                let opened = layer(carrier, socket)?;
                // As it was: others are waited for too.
                carrier.socket().set_nonblocking(true)?;
                Ok(Upgraded::Open(opened))
            }
            Err(refusal) => {
                let _ = carrier.write_all(refusal.answer().as_bytes());
                Err(NoUpgrade::Refused(refusal.why))
            }
        }
    }
}

/// Why there is no WebSocket.
#[derive(Debug)]
struct Refusal {
    status: &'static str,
    why: &'static str,
}

impl Refusal {
    const BAD: Refusal = Refusal {
        status: "400 Bad Request",
        why: "a request of HTTP with something wrong",
    };
    const TOO_LONG: Refusal = Refusal {
        status: "431 Request Header Fields Too Large",
        why: "a request of HTTP without an end",
    };
    const NO_UPGRADE: Refusal = Refusal {
        status: "426 Upgrade Required",
        why: "a request of HTTP for something other than a WebSocket",
    };
    const ORIGIN: Refusal = Refusal {
        status: "403 Forbidden",
        why: "a request of a page from elsewhere",
    };

    fn answer(&self) -> String {
        const WORDS: &str = "This address takes WebSockets alone.\n";
        format!(
            "HTTP/1.1 {}\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n{WORDS}",
            self.status,
            WORDS.len(),
        )
    }
}

/// What to answer to a whole request.
fn answer(request: &[u8]) -> Result<Vec<u8>, Refusal> {
    let Ok(Some((_, request))) = Request::try_parse(request) else {
        // Other methods and versions are as good for a page.
        let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
        let is_http = httparse::Request::new(&mut lines).parse(request);
        return Err(match is_http.is_ok_and(|parsed| parsed.is_complete()) {
            true => Refusal::NO_UPGRADE,
            false => Refusal::BAD,
        });
    };
    let response = create_response(&request).map_err(|_| Refusal::NO_UPGRADE)?;
    // A page of another server has no business here, whoever's browser it is in.
    let names = request.headers();
    let mut origins = names.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        let host = names
            .get(HOST)
            .map(|host| host.as_bytes().to_ascii_lowercase());
        let origin = origin.to_str().ok().and_then(|of| of.split_once("://"));
        let is_own =
            origin.is_some_and(|(_, of)| Some(of.to_ascii_lowercase().into_bytes()) == host);
        if !is_own || origins.next().is_some() {
            return Err(Refusal::ORIGIN);
        }
    }
    let mut answer = Vec::new();
    write_response(&mut answer, &response).map_err(|_| Refusal::BAD)?;
    Ok(answer)
}

/// What a listener reads of whoever sends it this as its request and that as its messages: whether it opens a WebSocket, and
/// the bytes of the messages. For fuzz targets.
///
/// # Errors
/// What is wrong with the messages.
#[doc(hidden)]
pub fn read_web_socket(request: &[u8], messages: &[u8]) -> io::Result<(bool, Vec<u8>)> {
    let is_open = answer(request).is_ok();
    let socket = WebSocket::from_raw_socket(Memory::new(), Role::Server, Some(config()));
    let mut read = Messages::of(socket);
    read.socket.get_mut().feed(messages);
    let (mut all, mut buf) = (Vec::new(), [0; 256]);
    while let Some(count @ 1..) = read.read(&mut buf)? {
        all.extend_from_slice(&buf[..count]);
    }
    Ok((is_open, all))
}

#[cfg(test)]
mod tests;
