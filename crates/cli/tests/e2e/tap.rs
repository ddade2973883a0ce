//! Somebody between two sides, who reads nothing and has a clock: when bytes pass, and when a side hangs up.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What passes at once is a heartbeat, a confirmation or the end of TLS if it is no longer than this.
const SMALL: usize = 64;

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
}

#[derive(Default)]
struct Log {
    /// Of each connection, its client and its server.
    lines: Mutex<Vec<[Seen; 2]>>,
    changed: Condvar,
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

    /// One that hands on the end of a client so much later: a leak for those who look on behind it.
    pub(crate) fn holding(server: &str, end: Duration) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let log = Arc::new(Log::default());
        let (seen, server) = (Arc::clone(&log), server.to_owned());
        // Until the test is over.
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(&server).expect("the server");
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

impl Log {
    fn note(&self, (line, side): (usize, Side), note: impl FnOnce(&mut Seen)) {
        note(&mut self.lines.lock().expect("no panic")[line][side as usize]);
        self.changed.notify_all();
    }

    fn hand_on(&self, who: (usize, Side), mut from: TcpStream, mut to: TcpStream, end: Duration) {
        let (mut bytes, mut is_heard) = (vec![0; 64 << 10], true);
        loop {
            match from.read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    if count > SMALL {
                        self.note(who, |seen| seen.last = Some(Instant::now()));
                    }
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
