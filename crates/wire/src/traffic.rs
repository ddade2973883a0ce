//! What a protocol sends, computed without running it: bytes each way, and how often one party waits for the other.

use std::ops::{Add, AddAssign};

use crate::{HEADER_BYTES, MAX_FRAME};

/// A party of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The receiver.
    Receiver,
    /// The sender.
    Sender,
}

impl End {
    /// The other party.
    pub fn other(self) -> End {
        match self {
            End::Receiver => End::Sender,
            End::Sender => End::Receiver,
        }
    }

    fn index(self) -> usize {
        match self {
            End::Receiver => 0,
            End::Sender => 1,
        }
    }
}

/// Frames that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Bytes that they hold.
    pub payload: u64,
    /// Their number.
    pub count: u64,
}

impl Frames {
    /// One frame of so many bytes.
    pub fn one(length: usize) -> Frames {
        Frames {
            payload: length as u64,
            count: 1,
        }
    }

    /// Those of [`send_rows`](crate::send_rows) for `count` rows of `row_len` bytes.
    ///
    /// # Panics
    /// If a row has no bytes, or does not fit into a frame.
    pub fn rows(count: usize, row_len: usize) -> Frames {
        assert!((1..=MAX_FRAME).contains(&row_len));
        Frames {
            payload: count as u64 * row_len as u64,
            count: count.div_ceil(MAX_FRAME / row_len) as u64,
        }
    }

    /// `count` strings of `bits` bits without gaps, `each` of them in every frame but the last. A frame that is not the
    /// last has whole bytes.
    pub fn packed(count: usize, bits: usize, each: usize) -> Frames {
        Frames {
            payload: (count as u64 * bits as u64).div_ceil(8),
            count: count.div_ceil(each) as u64,
        }
    }

    /// Bytes on the wire, framing included.
    pub fn bytes(self) -> u64 {
        self.payload + self.count * HEADER_BYTES as u64
    }
}

impl Add for Frames {
    type Output = Frames;

    fn add(self, more: Frames) -> Frames {
        Frames {
            payload: self.payload + more.payload,
            count: self.count + more.count,
        }
    }
}

impl AddAssign for Frames {
    fn add_assign(&mut self, more: Frames) {
        *self = *self + more;
    }
}

/// What both parties of a run send, message by message in the order in which they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that each party sends, framing included.
    bytes: [u64; 2],
    /// For each party the messages on the longest chain, each sent after the one before had come, that ends with it.
    delays: [u64; 2],
}

impl Traffic {
    /// A party sends frames, and the other one waits for them.
    pub fn flow(&mut self, from: End, frames: Frames) {
        if frames.count == 0 {
            return;
        }
        let (from, to) = (from.index(), from.other().index());
        self.bytes[from] += frames.bytes();
        self.delays[to] = self.delays[to].max(self.delays[from] + 1);
    }

    /// Both parties send frames, those of the receiver first here, before they wait for those of the other.
    pub fn exchange(&mut self, frames: [Frames; 2]) {
        let mut other = *self;
        let [receiver, sender] = frames;
        self.flow(End::Receiver, receiver);
        other.flow(End::Sender, sender);
        self.bytes[1] = other.bytes[1];
        self.delays[0] = other.delays[0];
    }

    /// A part of the run in which the receiver of the run is the sender, and the other way round.
    pub fn reversed<T>(&mut self, part: impl FnOnce(&mut Traffic) -> T) -> T {
        let swap = |traffic: &mut Traffic| {
            traffic.bytes.reverse();
            traffic.delays.reverse();
        };
        swap(self);
        let result = part(self);
        swap(self);
        result
    }

    /// Bytes that a party sends, framing included.
    pub fn bytes(&self, from: End) -> u64 {
        self.bytes[from.index()]
    }

    /// One-way delays of the network that the run takes: half as many round trips.
    pub fn delays(&self) -> u64 {
        self.delays[0].max(self.delays[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_that_are_sent() {
        assert_eq!(Frames::rows(0, 7).bytes(), 0);
        let full = MAX_FRAME / 7;
        assert_eq!(Frames::rows(full + 1, 7).count, 2);
        assert_eq!(Frames::rows(3, 7).bytes(), 21 + HEADER_BYTES as u64);
        assert_eq!(Frames::one(0).bytes(), HEADER_BYTES as u64);
        let packed = Frames::packed(17, 3, 8);
        assert_eq!((packed.payload, packed.count), (7, 3));
    }

    /// A message counts for the chain if its sender had waited for another one before.
    #[test]
    fn delays_add_up_where_one_waits_for_the_other() {
        let (one, mut traffic) = (Frames::one(1), Traffic::default());
        traffic.flow(End::Receiver, one);
        traffic.flow(End::Receiver, one);
        assert_eq!(traffic.delays(), 1);
        traffic.flow(End::Sender, one);
        assert_eq!(traffic.delays(), 2);
        // The sender sent what it knew before it waited.
        traffic.exchange([one, one]);
        assert_eq!(traffic.delays, [2, 3]);
        traffic.flow(End::Sender, Frames::default());
        assert_eq!(traffic.delays, [2, 3]);
        traffic.reversed(|part| part.flow(End::Receiver, one));
        assert_eq!(traffic.delays, [4, 3]);
        assert_eq!(
            [End::Receiver, End::Sender].map(|end| traffic.bytes(end)),
            [18, 18]
        );
    }
}
