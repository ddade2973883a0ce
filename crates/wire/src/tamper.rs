//! A channel that corrupts one of the frames it sends, to test how the peer reacts.

use std::time::Duration;

use crate::{Channel, Error, Kind, PhaseTraffic};

/// What happens to the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Bit `n` of the payload is inverted, counted from the lowest bit of the first byte, modulo
    /// the payload's length in bits.
    FlipBit(usize),
    /// This many bytes are cut from the payload's end.
    Truncate(usize),
    /// These bytes are added to the payload.
    Extend(Vec<u8>),
    /// The payload is replaced by this one.
    Replace(Vec<u8>),
    /// The payload is that of the previous frame, if there is one.
    ReplayPrevious,
    /// The frame goes out twice.
    Duplicate,
    /// The frame is of another kind, with this code.
    Kind(u8),
    /// The frame never goes out.
    Swallow,
    /// Neither the frame nor any after it goes out; the connection stays open.
    Stall,
    /// The frame is sent this much later, and so is everything after it.
    Delay(Duration),
    /// The frame goes out after the next one.
    SwapWithNext,
    /// The connection is closed instead.
    Close,
}

/// A channel that passes everything on, except that it corrupts the frame with one index.
pub struct Tamper<C> {
    inner: Option<C>,
    target: usize,
    spoil: Spoil,
    sent: usize,
    previous: Option<Vec<u8>>,
    /// A frame that goes out after the next one.
    held: Option<(Kind, Vec<u8>)>,
    struck: bool,
}

impl<C: Channel> Tamper<C> {
    /// Corrupts frame number `target` (the first is 0) of those sent through `inner`.
    pub fn new(inner: C, target: usize, spoil: Spoil) -> Self {
        Tamper {
            inner: Some(inner),
            target,
            spoil,
            sent: 0,
            previous: None,
            held: None,
            struck: false,
        }
    }

    /// Number of frames sent so far, the corrupted one included.
    pub fn frames(&self) -> usize {
        self.sent
    }

    /// Whether a frame has been changed, held back, delayed or duplicated so far.
    pub fn struck(&self) -> bool {
        self.struck
    }

    fn inner(&mut self) -> Result<&mut C, Error> {
        self.inner.as_mut().ok_or(Error::Closed)
    }
}

impl<C: Channel> Channel for Tamper<C> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), Error> {
        let index = self.sent;
        self.sent += 1;
        if index != self.target {
            if index + 1 == self.target && self.spoil == Spoil::ReplayPrevious {
                self.previous = Some(payload.clone());
            }
            if index > self.target && self.spoil == Spoil::Stall {
                return Ok(());
            }
            self.inner()?.send(kind, payload)?;
            return match self.held.take() {
                Some((kind, payload)) => self.inner()?.send(kind, payload),
                None => Ok(()),
            };
        }
        let (mut spoilt, mut code) = (payload.clone(), kind.code);
        match self.spoil.clone() {
            Spoil::FlipBit(bit) => {
                if let Some(bit) = bit.checked_rem(spoilt.len() * 8) {
                    spoilt[bit / 8] ^= 1 << (bit % 8);
                }
            }
            Spoil::Truncate(count) => spoilt.truncate(spoilt.len().saturating_sub(count)),
            Spoil::Extend(bytes) => spoilt.extend(bytes),
            Spoil::Replace(other) => spoilt = other,
            Spoil::ReplayPrevious => spoilt = self.previous.take().unwrap_or(spoilt),
            Spoil::Kind(other) => code = other,
            Spoil::Duplicate => {
                self.struck = true;
                self.inner()?.send(kind, payload.clone())?;
                return self.inner()?.send(kind, payload);
            }
            Spoil::Swallow | Spoil::Stall => {
                self.struck = true;
                return Ok(());
            }
            Spoil::Delay(time) => {
                self.struck = true;
                std::thread::sleep(time);
                return self.inner()?.send(kind, payload);
            }
            Spoil::SwapWithNext => {
                self.struck = true;
                self.held = Some((kind, payload));
                return Ok(());
            }
            Spoil::Close => {
                self.struck = true;
                self.inner = None;
                return Err(Error::Closed);
            }
        }
        self.struck = spoilt != payload || code != kind.code;
        let name = kind.name;
        self.inner()?.send(Kind { code, name }, spoilt)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        self.inner()?.recv(kind, max)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.inner()?.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        if let Some(inner) = &mut self.inner {
            inner.begin_phase(name);
        }
    }

    fn progress(&mut self, done: u64, total: u64) {
        if let Some(inner) = &mut self.inner {
            inner.progress(done, total);
        }
    }

    fn at_stake(&mut self, at_stake: bool) {
        if let Some(inner) = &mut self.inner {
            inner.at_stake(at_stake);
        }
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.inner
            .as_ref()
            .map(Channel::traffic)
            .unwrap_or_default()
    }

    fn abort(&mut self, why: &Error) {
        if let Some(inner) = &mut self.inner {
            inner.abort(why);
        }
    }
}
