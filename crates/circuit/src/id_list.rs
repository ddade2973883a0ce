//! A list of ids, among others that pad it, in a number of bytes that depends on how many entries it has alone.
//!
//! **Code.** All entries are in ascending order, and independent and uniform. The first ⌈log₂ n⌉ bits of the n entries, their
//! heads, are coded by their differences in unary; the other bits follow as they are (P. Elias, *Efficient storage and retrieval
//! by content and address of static files*, JACM 1974). All heads take n + 2^⌈log₂ n⌉ − 1 bits, whatever they are: two or three
//! for each. A bit per entry says whether it is an id.
//!
//! **What it tells.** The ids. Entries that pad the list are fresh and uniform: none may be anything that its recipient has seen.

use vesica_wire::{Channel, Error, Frames, Misbehaviour};

use crate::bits::BitShares;
use crate::messages::{
    BitReader, BitWriter, ID_LIST, PACKED, receive_bits, receive_packed, send_packed,
};

/// Entries whose last bits are in one frame.
const PIECE: usize = 1 << 15;

/// How long a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdList {
    entries: usize,
    /// Bits of an id.
    bits: u32,
}

/// Maximum bits of an id: whole bytes, and an entry has a bit more.
pub(crate) const MAX_ID_BITS: u32 = 120;

impl IdList {
    /// Of so many entries, for ids of so many bits.
    ///
    /// # Panics
    /// If these are too many to be different, or more than an entry has.
    pub(crate) fn new(entries: usize, bits: u32) -> IdList {
        assert!(entries.next_power_of_two().ilog2() <= bits && bits <= MAX_ID_BITS);
        IdList { entries, bits }
    }

    /// Bits of an id.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// Bits of a head.
    fn head(self) -> u32 {
        self.entries.next_power_of_two().ilog2()
    }

    /// Bits of the heads of all entries.
    fn heads(self) -> usize {
        match self.entries {
            0 => 0,
            count => count + (1 << self.head()) - 1,
        }
    }

    /// Bits of an entry beside its head.
    fn rest(self) -> u32 {
        self.bits - self.head()
    }

    /// What is sent.
    pub(crate) fn frames(self) -> Frames {
        let packed = |bits| Frames::packed(bits, 1, PACKED);
        let rest = Frames::packed(self.entries, self.rest() as usize, PIECE);
        packed(self.entries) + packed(self.heads()) + rest
    }

    /// Sends entries, ascending: each an id or what pads the list, and in its last bit whether it is an id. The peer calls
    /// [`IdList::receive`].
    ///
    /// # Errors
    /// The channel's.
    ///
    /// # Panics
    /// If there are more or fewer, or they are longer.
    pub(crate) fn send(self, channel: &mut dyn Channel, entries: &[u128]) -> Result<(), Error> {
        assert_eq!(entries.len(), self.entries);
        let is_id = BitShares::from_fn(self.entries, |i| entries[i] as u64);
        send_packed(channel, ID_LIST, &is_id)?;
        let mut heads = BitShares::zeros(self.heads());
        for (i, entry) in entries.iter().enumerate() {
            heads.add_at((entry >> 1 >> self.rest()) as usize + i, 1, 1);
        }
        send_packed(channel, ID_LIST, &heads)?;
        for entries in entries.chunks(PIECE) {
            let mut writer = BitWriter::with_capacity(entries.len() * self.rest() as usize);
            for entry in entries {
                let (low, high) = halves(self.rest());
                writer.push((entry >> 1) as u64 & ones(low), low);
                writer.push((entry >> 1 >> low) as u64 & ones(high), high);
            }
            channel.send(ID_LIST, writer.finish())?;
        }
        Ok(())
    }

    /// The ids that [`IdList::send`] sends, ascending.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for another length, bits beyond the last, another number of heads, or entries that do
    /// not ascend.
    pub(crate) fn receive(self, channel: &mut dyn Channel) -> Result<Vec<u128>, Error> {
        let is_id = receive_packed(channel, ID_LIST, self.entries)?;
        let packed = receive_packed(channel, ID_LIST, self.heads())?;
        let places = (0..self.heads()).filter(|place| packed.get(*place) == 1);
        // More than there are entries would be cut off below.
        let mut heads = Vec::with_capacity(self.entries);
        heads.extend(
            (0..)
                .zip(places)
                .map(|(i, place)| place - i)
                .take(self.entries + 1),
        );
        if heads.len() != self.entries {
            return Err(bad("not as many as were agreed"));
        }
        let (mut ids, mut previous) = (Vec::with_capacity(self.entries), None);
        let (low, high) = halves(self.rest());
        for (piece, heads) in heads.chunks(PIECE).enumerate() {
            let frame = receive_bits(channel, ID_LIST, heads.len() * self.rest() as usize)?;
            let mut reader = BitReader::new(&frame);
            for (i, head) in (piece * PIECE..).zip(heads) {
                let rest = u128::from(reader.next(low)) | u128::from(reader.next(high)) << low;
                let entry = Some((*head as u128) << self.rest() | rest);
                if entry <= previous {
                    return Err(bad("not in order"));
                }
                ids.extend(entry.filter(|_| is_id.get(i) == 1));
                previous = entry;
            }
        }
        Ok(ids)
    }
}

/// The error for a list with this problem.
pub(crate) fn bad(problem: &'static str) -> Error {
    Misbehaviour::BadValue {
        what: ID_LIST.name,
        problem,
    }
    .into()
}

/// So many bits in two words.
fn halves(bits: u32) -> (u32, u32) {
    (bits.min(u64::BITS), bits.saturating_sub(u64::BITS))
}

/// So many ones.
fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_testing::{Tape, bad_value, misbehaviour, wrong_length};

    /// The frames that these entries are sent in.
    fn sent(of: IdList, entries: &[u128]) -> Tape {
        let mut tape = Tape::default();
        of.send(&mut tape, entries).unwrap();
        tape
    }

    proptest! {
        #[test]
        fn ids_come_back(
            bits in 1..=MAX_ID_BITS,
            entries in prop::collection::btree_map(any::<u128>(), any::<bool>(), 0..200),
        ) {
            let cut = entries.into_iter().map(|(id, is_id)| (id >> (128 - bits), is_id));
            let entries: std::collections::BTreeMap<_, _> = cut.collect();
            let list = IdList::new(entries.len(), bits);
            let sorted: Vec<_> = entries.iter().map(|(id, is_id)| id << 1 | u128::from(*is_id)).collect();
            let mut tape = sent(list, &sorted);
            let ids: Vec<_> = entries.into_iter().filter(|(_, is_id)| *is_id).map(|(id, _)| id).collect();
            prop_assert_eq!(list.receive(&mut tape).unwrap(), ids);
        }
    }

    /// Whatever the entries are, and which of them are ids.
    #[test]
    fn the_number_of_entries_alone_decides_the_frames() {
        for (count, bits) in [(0, 96), (1, 96), (2, 88), (1000, 70), (PIECE + 1, 96)] {
            let list = IdList::new(count, bits);
            let frames = list.frames();
            let first = (0..count as u128).map(|i| i << 1);
            let last = (0..count as u128).map(|i| ((1 << bits) - count as u128 + i) << 1 | 1);
            for entries in [first.collect::<Vec<_>>(), last.collect()] {
                let mut tape = sent(list, &entries);
                let all: Vec<_> = std::iter::from_fn(|| tape.recv(ID_LIST, 1 << 20).ok()).collect();
                let bytes: usize = all.iter().map(Vec::len).sum();
                assert_eq!(
                    [bytes as u64, all.len() as u64],
                    [frames.payload, frames.count]
                );
            }
        }
    }

    /// An id takes two bits for its head, and one that says that it is an id.
    #[test]
    fn ids_take_few_bytes() {
        let list = IdList::new(1 << 21, 96);
        assert_eq!(
            list.frames().payload,
            ((1 << 21) * (96 - 21 + 3) / 8) as u64
        );
    }

    /// The three frames of four entries of ten bits, of which the first two are a head.
    const FRAMES: [&[u8]; 3] = [
        &[0b1011],
        // 0, 1, 1, 3.
        &[0b0100_1101],
        &[7, 2, 9, 0],
    ];

    fn received(frames: [&[u8]; 3]) -> Result<Vec<u128>, Error> {
        let mut tape = Tape::default();
        for frame in frames {
            tape.send(ID_LIST, frame.to_vec()).unwrap();
        }
        IdList::new(4, 10).receive(&mut tape)
    }

    #[test]
    fn bad_lists_are_refused() {
        assert_eq!(received(FRAMES).unwrap(), [7, 256 + 2, 3 << 8]);
        let changed = |frame: usize, bytes: &'static [u8]| {
            let mut frames = FRAMES;
            frames[frame] = bytes;
            misbehaviour(received(frames))
        };
        let bad = |problem| bad_value(ID_LIST.name, problem);
        let stray = "bits are set beyond the last one";
        assert_eq!(changed(0, &[0b1_1011]), bad(stray));
        assert_eq!(changed(0, &[]), wrong_length(ID_LIST.name, 0));
        assert_eq!(changed(1, &[0b1100_1101]), bad(stray));
        assert_eq!(changed(1, &[]), wrong_length(ID_LIST.name, 0));
        for heads in [0b0000_1101, 0b0101_1101] {
            let frames = [FRAMES[0], &[heads], FRAMES[2]];
            assert_eq!(
                misbehaviour(received(frames)),
                bad("not as many as were agreed")
            );
        }
        assert_eq!(changed(2, &[7, 2, 9]), wrong_length(ID_LIST.name, 3));
        assert_eq!(changed(2, &[7, 9, 9, 0]), bad("not in order"));
        assert_eq!(changed(2, &[7, 9, 8, 0]), bad("not in order"));
    }

    #[test]
    fn bits_beyond_the_last_are_refused() {
        let mut tape = Tape::default();
        for frame in [&[1][..], &[1], &[0b100]] {
            tape.send(ID_LIST, frame.to_vec()).unwrap();
        }
        let error = misbehaviour(IdList::new(1, 2).receive(&mut tape));
        assert_eq!(
            error,
            bad_value(ID_LIST.name, "bits are set beyond the last one")
        );
    }
}
