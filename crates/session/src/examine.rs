//! What two sides find out about the connection between them, before a run: whether they understand each other, how far apart
//! their clocks are, how long a round trip takes and how many bytes pass in a second.
//!
//! Nothing of a table takes part. What each side says of itself is a text of the caller's.

use std::time::{Duration, Instant, SystemTime};

use vesica_wire::{Channel, Error as WireError, Kind};

use crate::codec::{Reader, bad};
use crate::{Connection, Error};

/// Frames with a side's version, its time and its text.
const INTRODUCTION: Kind = Kind {
    code: 130,
    name: "introduction",
};
/// Frames that come back at once.
const PING: Kind = Kind {
    code: 131,
    name: "ping",
};
const PONG: Kind = Kind {
    code: 132,
    name: "pong",
};
/// Frames of zeros that show how fast they pass; an empty one is the last.
const BULK: Kind = Kind {
    code: 133,
    name: "bulk",
};
/// Frames with the bytes per second that have come.
const RATE: Kind = Kind {
    code: 134,
    name: "rate",
};

/// Longest text of a side, in bytes.
pub const MAX_TEXT: usize = 1 << 16;
const MAX_VERSION: usize = 64;
const PINGS: u32 = 5;
/// Pieces of a window, of which the first one only starts the clock.
const PIECES: usize = 8;
/// Bytes of the first window; each one after it has twice as many.
const FIRST_WINDOW: usize = 16 << 10;
const LAST_WINDOW: usize = 4 << 20;
/// Time after which no other window is sent.
const ENOUGH: Duration = Duration::from_secs(1);
/// Longest time of all that the two sides say to each other.
const LONGEST: Duration = Duration::from_secs(60);

/// What the peer says of itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Introduction {
    /// Its version of this program.
    pub version: String,
    /// Its clock less this side's, in seconds.
    pub clock: i64,
    /// Its text.
    pub text: Vec<u8>,
}

/// What the link is like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The shortest of several round trips.
    pub round_trip: Duration,
    /// Bytes per second that have reached the peer, framing and TLS not counted.
    pub to_peer: u64,
    /// Bytes per second that have come from the peer.
    pub from_peer: u64,
}

/// Tells a peer that has come for the same this program's `version` and whatever this side says of itself, [`MAX_TEXT`] bytes
/// at most, and hears the same of it. From now on there is a minute for that and for [`measure`].
///
/// # Errors
/// [`Error::Usage`] if version or text are too long; the channel's; a bad message.
pub fn introduce(
    connection: &mut Connection,
    version: &str,
    text: &[u8],
) -> Result<Introduction, Error> {
    if version.len() > MAX_VERSION || text.len() > MAX_TEXT {
        return Err(Error::Usage("the text of this side is too long".into()));
    }
    connection.deadline.interrupt().end_within(LONGEST);
    let clock = now();
    let channel = &mut connection.channel;
    channel.begin_phase("examine");
    let mut introduction = clock.to_le_bytes().to_vec();
    introduction.push(version.len() as u8);
    introduction.extend(version.bytes());
    introduction.extend(text);
    channel.send(INTRODUCTION, introduction)?;
    let most = 8 + 1 + MAX_VERSION + MAX_TEXT;
    let theirs = channel.recv(INTRODUCTION, most)?;
    Ok(Introduction::decode(&theirs, clock)?)
}

impl Introduction {
    /// Reads what a peer says of itself, at the time `now` here in seconds since 1970.
    ///
    /// # Errors
    /// A bad message.
    pub fn decode(bytes: &[u8], now: i64) -> Result<Introduction, WireError> {
        let mut reader = Reader::new(INTRODUCTION.name, bytes);
        let clock = i64::from_le_bytes(reader.array()?);
        let length = usize::from(reader.u8()?);
        let (version, text) = (reader.rest().split_at_checked(length))
            .filter(|(version, text)| version.len() <= MAX_VERSION && text.len() <= MAX_TEXT)
            .ok_or_else(|| bad(INTRODUCTION.name, "of a length that cannot be"))?;
        Ok(Introduction {
            version: String::from_utf8(version.to_vec())
                .map_err(|_| bad(INTRODUCTION.name, "a version that is no text"))?,
            clock: clock.saturating_sub(now),
            text: text.to_vec(),
        })
    }
}

/// Measures the link together with a peer that has been [introduced](introduce).
///
/// # Errors
/// The channel's, as when the minute is over; a bad message.
pub fn measure(connection: &mut Connection) -> Result<Measured, Error> {
    // Both know which of the two begins.
    let begins = connection.local < connection.peer;
    let channel = &mut connection.channel;
    let mut measured = Measured {
        round_trip: Duration::ZERO,
        to_peer: 0,
        from_peer: 0,
    };
    if begins {
        measured.round_trip = ping(channel)?;
        answer(channel)?;
        measured.to_peer = send_bulk(channel)?;
        measured.from_peer = take_bulk(channel)?;
    } else {
        answer(channel)?;
        measured.round_trip = ping(channel)?;
        measured.from_peer = take_bulk(channel)?;
        measured.to_peer = send_bulk(channel)?;
    }
    channel.flush()?;
    Ok(measured)
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

fn ping(channel: &mut dyn Channel) -> Result<Duration, WireError> {
    let mut shortest = Duration::MAX;
    for _ in 0..PINGS {
        let sent = Instant::now();
        channel.send(PING, Vec::new())?;
        channel.flush()?;
        channel.recv(PONG, 0)?;
        shortest = shortest.min(sent.elapsed());
    }
    Ok(shortest)
}

fn answer(channel: &mut dyn Channel) -> Result<(), WireError> {
    for _ in 0..PINGS {
        channel.recv(PING, 0)?;
        channel.send(PONG, Vec::new())?;
        channel.flush()?;
    }
    Ok(())
}

/// Sends windows of zeros, each when the peer has taken the one before, until one takes long enough; the rate at which that
/// came, which the peer tells. So little waits anywhere on the way.
fn send_bulk(channel: &mut dyn Channel) -> Result<u64, WireError> {
    let (mut window, mut rate) = (FIRST_WINDOW, 0);
    while window <= LAST_WINDOW {
        let began = Instant::now();
        for _ in 0..PIECES {
            channel.send(BULK, vec![0; window / PIECES])?;
        }
        channel.flush()?;
        let told = channel.recv(RATE, 8)?;
        let told = <[u8; 8]>::try_from(told).map_err(|_| bad(RATE.name, "not eight bytes"))?;
        rate = u64::from_le_bytes(told);
        if began.elapsed() > ENOUGH {
            break;
        }
        window *= 2;
    }
    // The end.
    channel.send(BULK, Vec::new())?;
    channel.flush()?;
    Ok(rate)
}

fn take_bulk(channel: &mut dyn Channel) -> Result<u64, WireError> {
    let (mut window, mut rate) = (FIRST_WINDOW, 0);
    while !channel.recv(BULK, window / PIECES)?.is_empty() {
        let began = Instant::now();
        let mut bytes = 0;
        for _ in 1..PIECES {
            bytes += channel.recv(BULK, window / PIECES)?.len();
        }
        let seconds = began.elapsed().as_secs_f64().max(1e-6);
        rate = (bytes as f64 / seconds) as u64;
        channel.send(RATE, rate.to_le_bytes().to_vec())?;
        channel.flush()?;
        window *= 2;
        if window > 2 * LAST_WINDOW {
            return Err(bad(BULK.name, "more than is asked for"));
        }
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{ConnectOptions, Endpoint, Identity, Intent, Listener, Transport, connect};

    #[test]
    fn both_sides_learn_the_same() {
        let [me, other] = [0, 1].map(|_| Identity::generate().unwrap());
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().to_string();
        let options = ConnectOptions::default();
        let transport = |identity, peer: &Identity| Transport::Tls {
            identity,
            peer: peer.fingerprint(),
            intent: Intent::Examine,
        };
        let far = || {
            let mut met = listener.accept(&transport(&other, &me), &options).unwrap();
            let said = introduce(&mut met, "0.1.0", b"theirs").unwrap();
            (said, measure(&mut met).unwrap())
        };
        let near = || {
            let endpoint = Endpoint::Connect(address);
            let mut met = connect(&endpoint, &transport(&me, &other), &options).unwrap();
            let said = introduce(&mut met, "0.2.0", b"ours").unwrap();
            (said, measure(&mut met).unwrap())
        };
        let ((theirs, near), (ours, far)) = thread::scope(|scope| {
            let far = scope.spawn(far);
            (near(), far.join().unwrap())
        });
        assert_eq!((&*theirs.text, &*theirs.version), (&b"theirs"[..], "0.1.0"));
        assert_eq!((&*ours.text, &*ours.version), (&b"ours"[..], "0.2.0"));
        assert_eq!((near.to_peer, near.from_peer), (far.from_peer, far.to_peer));
        assert!(near.to_peer > 1 << 20 && near.from_peer > 1 << 20);
        assert!(theirs.clock.abs() <= 1 && ours.clock.abs() <= 1);
        assert!(near.round_trip < Duration::from_secs(1));
    }
}
