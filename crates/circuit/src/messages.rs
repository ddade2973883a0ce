//! Frames of this crate: streams of bits of known length, decoded under a bound.

use vesica_wire::{Channel, Error, Kind, MAX_FRAME, Misbehaviour, recv_exact};
use zeroize::Zeroizing;

use crate::bits::BitShares;

/// Packed bits in one frame.
pub(crate) const PACKED: usize = 1 << 20;

/// Frames with corrections of choice digits, one per 1-of-16 transfer.
pub const DIGITS: Kind = Kind {
    code: 80,
    name: "digit corrections",
};

/// Frames with masked tables.
pub const TABLES: Kind = Kind {
    code: 81,
    name: "digit tables",
};

/// Frames with masked inputs of AND gates.
pub const GATES: Kind = Kind {
    code: 82,
    name: "masked gate inputs",
};

/// Frames with corrections of choice bits, one per multiplication by a bit.
pub const CHOICES: Kind = Kind {
    code: 83,
    name: "choice corrections",
};

/// Frames with masked values, one per multiplication by a bit.
pub const VALUES: Kind = Kind {
    code: 84,
    name: "masked values",
};

/// Frames with corrections of the bits of factors.
pub const FACTORS: Kind = Kind {
    code: 85,
    name: "factor corrections",
};

/// Frames with masked multiples, one per bit of a factor.
pub const MULTIPLES: Kind = Kind {
    code: 86,
    name: "masked multiples",
};

/// A frame with the sender's shares of what the receiver learns.
pub const SHARES: Kind = Kind {
    code: 87,
    name: "opened shares",
};

/// A frame with what the receiver has learnt, for a sender that learns it too.
pub const OUTCOME: Kind = Kind {
    code: 88,
    name: "outcome",
};

/// Frames with corrections of the settings of switches.
pub const SETTINGS: Kind = Kind {
    code: 89,
    name: "switch corrections",
};

/// Frames with masked differences of the wires of switches.
pub const SWITCHES: Kind = Kind {
    code: 90,
    name: "masked switches",
};

/// Frames with masked shares of bits that are put into another order.
pub const WIRES: Kind = Kind {
    code: 91,
    name: "masked shares",
};

/// Frames with rows that are handed over.
pub const ROWS: Kind = Kind {
    code: 92,
    name: "masked rows",
};

/// Frames with the list of all ids.
pub const ID_LIST: Kind = Kind {
    code: 73,
    name: "list of ids",
};

/// Writes a stream of bits, lowest first.
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    pending: u128,
    filled: u32,
}

impl BitWriter {
    /// An empty stream with room for `bits` bits.
    pub(crate) fn with_capacity(bits: usize) -> Self {
        BitWriter {
            bytes: Vec::with_capacity(bits.div_ceil(8) + 8),
            pending: 0,
            filled: 0,
        }
    }

    /// Appends the `width` low bits of `value`; the others must be 0.
    #[inline]
    pub(crate) fn push(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 64 && u128::from(value) >> width == 0);
        self.pending |= u128::from(value) << self.filled;
        self.filled += width;
        if self.filled >= 64 {
            self.bytes.extend((self.pending as u64).to_le_bytes());
            self.pending >>= 64;
            self.filled -= 64;
        }
    }

    /// The stream; bits after the last are 0.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let rest = (self.pending as u64).to_le_bytes();
        self.bytes.extend(&rest[..self.filled.div_ceil(8) as usize]);
        self.bytes
    }
}

/// Reads what a [`BitWriter`] wrote.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    pending: u128,
    filled: u32,
}

impl<'a> BitReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        BitReader {
            bytes,
            pending: 0,
            filled: 0,
        }
    }

    /// The next `width` bits; 0 beyond the end.
    #[inline]
    pub(crate) fn next(&mut self, width: u32) -> u64 {
        debug_assert!(width <= 64);
        if self.filled < width {
            let mut word = [0; 8];
            let count = self.bytes.len().min(8);
            word[..count].copy_from_slice(&self.bytes[..count]);
            self.bytes = &self.bytes[count..];
            self.pending |= u128::from(u64::from_le_bytes(word)) << self.filled;
            self.filled += 64;
        }
        let value = (self.pending & ((1 << width) - 1)) as u64;
        self.pending >>= width;
        self.filled -= width;
        value
    }
}

/// Takes a frame with a stream of exactly `bits` bits.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for another length or a bit set after the last.
pub(crate) fn receive_bits(
    channel: &mut dyn Channel,
    kind: Kind,
    bits: usize,
) -> Result<Vec<u8>, Error> {
    let frame = recv_exact(channel, kind, bits.div_ceil(8))?;
    let stray = !bits.is_multiple_of(8) && frame.last().is_some_and(|last| last >> (bits % 8) != 0);
    match stray {
        true => Err(stray_bits(kind)),
        false => Ok(frame),
    }
}

/// Sends bits, [`PACKED`] in every frame but the last.
pub(crate) fn send_packed(
    channel: &mut dyn Channel,
    kind: Kind,
    bits: &BitShares,
) -> Result<(), Error> {
    let firsts = (0..bits.len()).step_by(PACKED);
    for (words, first) in bits.words().chunks(PACKED / 64).zip(firsts) {
        let len = PACKED.min(bits.len() - first);
        let mut frame = Vec::with_capacity(len.div_ceil(64) * 8);
        BitShares::write(words, len, &mut frame);
        channel.send(kind, frame)?;
    }
    Ok(())
}

/// Takes so many bits of [`send_packed`].
///
/// # Errors
/// The channel's; `PeerMisbehaved` for a frame of another length or a bit set after the last.
pub(crate) fn receive_packed(
    channel: &mut dyn Channel,
    kind: Kind,
    len: usize,
) -> Result<BitShares, Error> {
    let mut words = Zeroizing::new(Vec::with_capacity(len.div_ceil(64)));
    for first in (0..len).step_by(PACKED) {
        let count = PACKED.min(len - first);
        let frame = recv_exact(channel, kind, BitShares::bytes(count))?;
        let read = BitShares::read(&frame, count).ok_or_else(|| stray_bits(kind))?;
        words.extend_from_slice(&read);
    }
    Ok(BitShares::from_words(words, len))
}

/// The error for bits set where there should be none.
pub(crate) fn stray_bits(kind: Kind) -> Error {
    Misbehaviour::BadValue {
        what: kind.name,
        problem: "bits are set beyond the last one",
    }
    .into()
}

/// Both parties send as many bytes at the same time and take the peer's. Frame by frame: neither waits in a full
/// queue for a peer that does the same.
pub(crate) fn exchange(
    channel: &mut dyn Channel,
    kind: Kind,
    bytes: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut peer = Zeroizing::new(Vec::with_capacity(bytes.len()));
    for chunk in bytes.chunks(MAX_FRAME) {
        channel.send(kind, chunk.to_vec())?;
        peer.extend_from_slice(&recv_exact(channel, kind, chunk.len())?);
    }
    Ok(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_testing::{Tape, honest, misbehaviour};

    proptest! {
        #[test]
        fn streams_come_back(values in prop::collection::vec((any::<u64>(), 0u32..=64), 0..100)) {
            let cut = |pair: &(u64, u32)| (u128::from(pair.0) & ((1 << pair.1) - 1)) as u64;
            let bits: u32 = values.iter().map(|(_, width)| width).sum();
            let mut writer = BitWriter::with_capacity(bits as usize);
            values.iter().for_each(|pair| writer.push(cut(pair), pair.1));
            let bytes = writer.finish();
            prop_assert_eq!(bytes.len(), bits.div_ceil(8) as usize);
            let mut reader = BitReader::new(&bytes);
            for pair in &values {
                prop_assert_eq!(reader.next(pair.1), cut(pair));
            }
            let mut tape = Tape::default();
            tape.send(DIGITS, bytes.clone()).unwrap();
            prop_assert_eq!(receive_bits(&mut tape, DIGITS, bits as usize).unwrap(), bytes);
        }
    }

    #[test]
    fn wrong_lengths_and_stray_bits_are_refused() {
        let receive = |bytes: &[u8], bits| {
            let mut tape = Tape::default();
            tape.send(TABLES, bytes.to_vec()).unwrap();
            receive_bits(&mut tape, TABLES, bits)
        };
        assert!(receive(&[1, 0x1f], 13).is_ok());
        let what = TABLES.name;
        assert_eq!(
            misbehaviour(receive(&[1], 13)),
            Misbehaviour::WrongLength { what, bytes: 1 }
        );
        assert_eq!(
            misbehaviour(receive(&[1, 0x20], 13)),
            Misbehaviour::BadValue {
                what,
                problem: "bits are set beyond the last one"
            }
        );
    }

    #[test]
    fn packed_bits_come_back_and_strays_do_not() {
        for len in [0, 1, 64, 65, PACKED, PACKED + 3] {
            let bits = BitShares::from_fn(len, |i| (i * i) as u64 >> 3);
            let mut tape = Tape::default();
            send_packed(&mut tape, SWITCHES, &bits).unwrap();
            assert_eq!(receive_packed(&mut tape, SWITCHES, len).unwrap(), bits);
        }
        let what = WIRES.name;
        for (bytes, wrong) in [
            (
                &[1, 0x20][..],
                Misbehaviour::BadValue {
                    what,
                    problem: "bits are set beyond the last one",
                },
            ),
            (&[1], Misbehaviour::WrongLength { what, bytes: 1 }),
        ] {
            let mut tape = Tape::default();
            tape.send(WIRES, bytes.to_vec()).unwrap();
            assert_eq!(misbehaviour(receive_packed(&mut tape, WIRES, 13)), wrong);
        }
    }

    #[test]
    fn an_exchange_longer_than_the_queues_ends() {
        let bytes = |party: u8| vec![party; 12 * MAX_FRAME + 5];
        let (one, two) = honest(
            |channel| exchange(channel, GATES, &bytes(1)),
            |channel| exchange(channel, GATES, &bytes(2)),
        );
        assert!(*one == bytes(2) && *two == bytes(1));
    }
}
