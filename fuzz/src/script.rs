//! A channel whose peer is the fuzzer's input.

use vesica_wire::{Channel, Error, Kind, MAX_FRAME, Misbehaviour, PhaseTraffic};

/// Hands out the frames of a script and throws away what is sent.
///
/// The script is a sequence of frames. A frame starts with one byte: 255 stands for as many bytes
/// as the receiver allows (or as are left), anything else is the high byte of a 16-bit length
/// whose low byte follows. Frames have the kind that is asked for; what a wrong kind does is the
/// business of the `frames` target. A script that runs out is a peer that hangs up.
pub struct Script<'a> {
    left: &'a [u8],
}

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Script { left: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, left) = self.left.split_at_checked(count).ok_or(Error::Closed)?;
        self.left = left;
        Ok(taken)
    }
}

impl Channel for Script<'_> {
    fn send(&mut self, _: Kind, payload: Vec<u8>) -> Result<(), Error> {
        assert!(payload.len() <= MAX_FRAME);
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, Error> {
        let length = match self.take(1)? {
            [255] => max.min(self.left.len()),
            [high] => usize::from(*high) << 8 | usize::from(self.take(1)?[0]),
            _ => return Err(Error::Closed),
        };
        if length > max {
            return Err(Error::PeerMisbehaved(Misbehaviour::TooLong {
                what: kind.name,
                bytes: length as u64,
                max: max as u64,
            }));
        }
        Ok(self.take(length)?.to_vec())
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
