//! Frames as they come off a stream.

use std::io;
use std::time::Duration;

use vesica_wire::{ChannelOptions, FrameReader, HEADER_BYTES, Kind, MAX_FRAME, ReadHalf};

/// Code of the frame that no caller sees.
const HEARTBEAT: u8 = 2;

/// A stream that hands out its bytes in pieces of one length, and ends.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
}

impl ReadHalf for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.piece.min(buf.len()).min(self.bytes.len() - self.at);
        buf[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The first three bytes choose the pieces, the kind that is expected and its longest payload.
pub fn frames(bytes: &[u8]) {
    let [piece, code, max, stream @ ..] = bytes else {
        return;
    };
    let pieces = Pieces {
        bytes: stream.to_vec(),
        at: 0,
        piece: usize::from(*piece) + 1,
    };
    let options = ChannelOptions {
        timeout: Duration::from_secs(60),
        ..ChannelOptions::default()
    };
    let mut reader = FrameReader::new(pieces, &options);
    let kind = Kind {
        code: *code,
        name: "frame",
    };
    let max = match max {
        255 => MAX_FRAME,
        max => usize::from(*max),
    };
    let mut received = 0;
    while let Ok(payload) = reader.recv(kind, max) {
        assert!(payload.len() <= max);
        received += HEADER_BYTES + payload.len();
    }
    // Heartbeats are swallowed, and nothing comes from nowhere.
    assert!(received <= stream.len() && (received == 0 || *code != HEARTBEAT));
    // The first error is final.
    assert!(reader.recv(kind, MAX_FRAME).is_err());
}
