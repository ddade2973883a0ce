//! A channel whose peer is the fuzzer's input.

use vesica_wire::{Channel, Error, Kind, MAX_FRAME, Misbehaviour, PhaseTraffic};

/// In place of a frame: as many bytes as the receiver allows, or as are left.
pub const REST: u8 = 255;

/// In place of a frame: what an honest peer sends.
pub const HONEST: u8 = 254;

/// The same with one byte changed: behind it come the byte's place, as a fraction of the frame in
/// units of 2^-16, high byte first, and what is added to it.
pub const CHANGED: u8 = 253;

/// The same with another length: behind it comes how many bytes more, as a signed number.
pub const RESIZED: u8 = 252;

/// Hands out the frames of a script and keeps what is sent.
///
/// The script is a sequence of frames. A frame starts with one byte: [`REST`], [`HONEST`],
/// [`CHANGED`] and [`RESIZED`] say what it holds, anything else is the high byte of a 16-bit
/// length whose low byte follows, with the bytes. Every frame takes the place of one that an honest
/// peer would send. Frames have the kind that is asked for; what a wrong kind does is the business
/// of the `frames` target. A script that runs out is a peer that hangs up.
pub struct Script<'a> {
    left: &'a [u8],
    honest: std::slice::Iter<'a, Vec<u8>>,
    faithful: bool,
    sent: Vec<Vec<u8>>,
}

impl<'a> Script<'a> {
    /// A peer of whom nothing honest is known.
    pub fn new(bytes: &'a [u8]) -> Self {
        Script::beside(bytes, &[])
    }

    /// A peer that would send the frames `honest`, were it honest.
    pub fn beside(bytes: &'a [u8], honest: &'a [Vec<u8>]) -> Self {
        Script {
            left: bytes,
            honest: honest.iter(),
            faithful: true,
            sent: Vec::new(),
        }
    }

    /// Whether all that has been read is what an honest peer sends.
    pub fn faithful(&self) -> bool {
        self.faithful
    }

    /// The frames that have been sent to the peer.
    pub fn sent(self) -> Vec<Vec<u8>> {
        self.sent
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Error::Closed)?;
        self.left = left;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    fn next(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let honest = self.honest.next();
        let known = || honest.cloned().ok_or(Error::Closed);
        let fits = |length: usize| match length {
            length if length > max => Err(Error::PeerMisbehaved(Misbehaviour::TooLong {
                what: kind.name,
                bytes: length as u64,
                max: max as u64,
            })),
            _ => Ok(()),
        };
        let faithful = std::mem::replace(&mut self.faithful, false);
        let frame = match self.byte()? {
            REST => self.take(max.min(self.left.len()))?.to_vec(),
            HONEST => {
                let frame = known()?;
                self.faithful = faithful;
                frame
            }
            CHANGED => {
                let mut frame = known()?;
                let place = usize::from(self.byte()?) << 8 | usize::from(self.byte()?);
                let add = self.byte()?;
                let place = (place * frame.len()) >> 16;
                if let Some(byte) = frame.get_mut(place) {
                    *byte = byte.wrapping_add(add);
                }
                frame
            }
            RESIZED => {
                let mut frame = known()?;
                let more = self.byte()?.cast_signed();
                frame.resize(frame.len().saturating_add_signed(more.into()), 0);
                frame
            }
            high => {
                let length = usize::from(high) << 8 | usize::from(self.byte()?);
                fits(length)?;
                self.take(length)?.to_vec()
            }
        };
        fits(frame.len())?;
        Ok(frame)
    }
}

impl Channel for Script<'_> {
    fn send(&mut self, _: Kind, payload: Vec<u8>) -> Result<(), Error> {
        assert!(payload.len() <= MAX_FRAME);
        self.sent.push(payload);
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        self.next(kind, max)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn begin_phase(&mut self, _: &'static str) {}

    fn traffic(&self) -> Vec<PhaseTraffic> {
        Vec::new()
    }

    fn abort(&mut self, _: &Error) {}
}
