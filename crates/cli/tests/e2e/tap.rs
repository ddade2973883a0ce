//! Somebody between two sides, who reads nothing, has a clock and counts: when bytes pass, how many, and when a side hangs up.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use vesica_wire::HEADER_BYTES;

/// What passes at once is a heartbeat, a confirmation or the end of TLS if it is no longer than this.
const SMALL: usize = 64;

/// The bytes that records of TLS carry, of those of a stream. Records of the header of a frame alone do not count: such are
/// heartbeats, of which there are more where a side takes long.
#[derive(Default)]
struct Records {
    head: Vec<u8>,
    left: usize,
}

impl Records {
    /// A type and a tag are no content.
    const SEALED: u8 = 23;
    const SEAL: usize = 17;

    /// Takes the next bytes of the stream; what the records carry that begin in them.
    fn carried(&mut self, mut bytes: &[u8]) -> u64 {
        let mut carried = 0;
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            (self.left, bytes) = (self.left - skipped, &bytes[skipped..]);
            let taken = bytes.len().min(5 - self.head.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let [of, _, _, high, low] = self.head[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                let content = match of {
                    Self::SEALED => self.left - Self::SEAL,
                    _ => self.left,
                };
                if content != HEADER_BYTES {
                    carried += content as u64;
                }
                self.head.clear();
            }
        }
        carried
    }
}

/// Which side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that connects.
    Client,
    /// The one that listens.
    Server,
}

/// What one side of a connection did.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// When it last sent more than a few bytes.
    last: Option<Instant>,
    /// When it hung up.
    ended: Option<Instant>,
    /// What its records carried.
    carried: u64,
}

#[derive(Default)]
struct Log {
    /// Of each connection, its client and its server.
    lines: Mutex<Vec<[Seen; 2]>>,
    changed: Condvar,
    /// Nobody else may come.
    closed: AtomicBool,
}

/// Hands on all that passes between clients and a server.
pub(crate) struct Tap {
    address: SocketAddr,
    log: Arc<Log>,
}

impl Tap {
    /// In front of a server at this address.
    pub(crate) fn before(server: &str) -> Tap {
        Tap::holding(server, Duration::ZERO)
    }

    /// Before the one that has said `--connect ADDRESS` of itself.
    pub(crate) fn to(endpoint: &str) -> Tap {
        Tap::before(endpoint.trim_start_matches("--connect "))
    }

    /// One that hands on the end of a client so much later: a leak for those who look on behind it.
    pub(crate) fn holding(server: &str, end: Duration) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let log = Arc::new(Log::default());
        let (seen, server) = (Arc::clone(&log), server.to_owned());
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if seen.closed.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(far) = TcpStream::connect(&server) else {
                    continue;
                };
                let line = {
                    let mut lines = seen.lines.lock().expect("no panic");
                    lines.push([Seen::default(); 2]);
                    lines.len() - 1
                };
                for stream in [&near, &far] {
                    stream.set_nodelay(true).expect("an open stream");
                }
                let [back, forth] = [&near, &far].map(|one| one.try_clone().expect("a stream"));
                for (side, from, to, end) in [
                    (Side::Client, near, forth, end),
                    (Side::Server, far, back, Duration::ZERO),
                ] {
                    let log = Arc::clone(&seen);
                    thread::spawn(move || log.hand_on((line, side), from, to, end));
                }
            }
        });
        Tap { address, log }
    }

    /// The option of a command that comes through this.
    pub(crate) fn endpoint(&self) -> String {
        format!("--connect {}", self.address)
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Waits, at most so long, until a side has hung up on every connection, of which there is one; whether it has.
    pub(crate) fn await_end(&self, side: Side, most: Duration) -> bool {
        let has_ended = |lines: &Vec<[Seen; 2]>| {
            let ended = |line: &[Seen; 2]| line[side as usize].ended.is_some();
            !lines.is_empty() && lines.iter().all(ended)
        };
        let lines = self.log.lines.lock().expect("no panic");
        let changed = &self.log.changed;
        let waited = changed.wait_timeout_while(lines, most, |lines| !has_ended(lines));
        has_ended(&waited.expect("no panic").0)
    }

    /// Bytes that clients and that the server have sent, once both have ended.
    pub(crate) fn carried(&self) -> [u64; 2] {
        let most = Duration::from_secs(20);
        let [clients, servers] =
            [Side::Client, Side::Server].map(|side| self.await_end(side, most));
        assert!(clients && servers, "nobody is connected any more");
        let lines = self.log.lines.lock().expect("no panic");
        [0, 1].map(|side| lines.iter().map(|line| line[side].carried).sum())
    }

    /// How long a side kept its last connection after the other side had last sent something of any length. It has hung up.
    pub(crate) fn kept(&self, side: Side) -> Duration {
        let lines = self.log.lines.lock().expect("no panic");
        let line = lines.last().expect("a connection");
        let (ours, theirs) = (line[side as usize], line[1 - side as usize]);
        let (ended, last) = (ours.ended.expect("an end"), theirs.last.expect("bytes"));
        ended.saturating_duration_since(last)
    }

    /// How long ago a side hung up for the last time. It has.
    pub(crate) fn since_end(&self, side: Side) -> Duration {
        let lines = self.log.lines.lock().expect("no panic");
        let line = lines.last().expect("a connection");
        line[side as usize].ended.expect("an end").elapsed()
    }
}

impl Drop for Tap {
    /// Ends the thread that waits for clients. Connections go on.
    fn drop(&mut self) {
        self.log.closed.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Log {
    fn note(&self, (line, side): (usize, Side), note: impl FnOnce(&mut Seen)) {
        note(&mut self.lines.lock().expect("no panic")[line][side as usize]);
        self.changed.notify_all();
    }

    fn hand_on(&self, who: (usize, Side), mut from: TcpStream, mut to: TcpStream, end: Duration) {
        let (mut records, mut bytes) = (Records::default(), vec![0; 64 << 10]);
        let mut is_heard = true;
        loop {
            match from.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    let carried = records.carried(&bytes[..count]);
                    self.note(who, |seen| {
                        seen.carried += carried;
                        if count > SMALL {
                            seen.last = Some(Instant::now());
                        }
                    });
                    // That nobody is left to hear it ends nothing on this side.
                    is_heard = is_heard && to.write_all(&bytes[..count]).is_ok();
                }
            }
        }
        self.note(who, |seen| seen.ended = Some(Instant::now()));
        thread::sleep(end);
        let _ = to.shutdown(Shutdown::Write);
    }
}

#[test]
fn records_are_counted_however_they_are_cut() {
    let mut stream = vec![22, 3, 3, 0, 4, 1, 2, 3, 4];
    for content in [1usize, 300, 0] {
        let length = content + Records::SEAL;
        stream.extend([23, 3, 3, (length >> 8) as u8, length as u8]);
        stream.resize(stream.len() + length, 9);
    }
    for piece in [1, 2, 3, 7, 100, stream.len()] {
        let mut records = Records::default();
        let carried: u64 = stream
            .chunks(piece)
            .map(|bytes| records.carried(bytes))
            .sum();
        assert_eq!(carried, 4 + 301, "{piece}");
        assert!(records.left == 0 && records.head.is_empty());
    }
}
