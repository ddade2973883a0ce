//! The slots of a hint on the wire: strings of some bits each, packed without gaps, lowest bit first.
//!
//! A frame holds a multiple of eight slots, and so whole bytes, up to [`MAX_FRAME`]; the last one holds what is left,
//! and zeros in the unused bits of its last byte.

use vesica_primitives::block::{Block, Prg};
use vesica_wire::{Channel, Error, Frames, Kind, MAX_FRAME, Misbehaviour, recv_exact};

/// Pairs of slots that are made random together.
const RANDOM: usize = 64;

/// Slots of a full frame.
fn per_frame(bits: u32) -> usize {
    MAX_FRAME / bits as usize * 8
}

/// Bytes of a frame.
fn frame_bytes(slots: usize, bits: u32) -> usize {
    (slots * bits as usize).div_ceil(8)
}

/// The frames of `count` slots.
pub fn frames(count: usize, bits: u32) -> Frames {
    Frames::packed(count, bits as usize, per_frame(bits))
}

/// Sends `count` slots of `bits` bits, the lowest of their words; `fill` writes those from a given number on.
///
/// # Errors
/// The channel's, and those of `fill`.
pub fn send<const W: usize>(
    channel: &mut dyn Channel,
    kind: Kind,
    count: usize,
    bits: u32,
    mut fill: impl FnMut(usize, &mut [[u64; W]]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut slots = vec![[0; W]; count.min(per_frame(bits))];
    for first in (0..count).step_by(per_frame(bits)) {
        let here = slots.len().min(count - first);
        fill(first, &mut slots[..here])?;
        channel.send(kind, packed(&slots[..here], bits))?;
        channel.progress((first + here) as u64, count as u64);
    }
    Ok(())
}

/// Receives `count` slots of `bits` bits.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for a frame that is not the one of [`send`].
pub fn recv<const W: usize>(
    channel: &mut dyn Channel,
    kind: Kind,
    count: usize,
    bits: u32,
) -> Result<Vec<[u64; W]>, Error> {
    let mut slots = Vec::with_capacity(count);
    recv_each(channel, kind, count, bits, |here| {
        slots.extend_from_slice(here)
    })?;
    Ok(slots)
}

/// Receives `count` slots of `bits` bits, and hands those of each frame to `each` when it has come.
///
/// # Errors
/// As [`recv`].
pub fn recv_each<const W: usize>(
    channel: &mut dyn Channel,
    kind: Kind,
    count: usize,
    bits: u32,
    mut each: impl FnMut(&[[u64; W]]),
) -> Result<(), Error> {
    let mut slots = vec![[0; W]; count.min(per_frame(bits))];
    for first in (0..count).step_by(per_frame(bits)) {
        let here = slots.len().min(count - first);
        let slots = &mut slots[..here];
        let frame = recv_exact(channel, kind, frame_bytes(here, bits))?;
        if unpack(&frame, bits, slots) != 0 {
            return Err(Misbehaviour::BadValue {
                what: kind.name,
                problem: "a bit is set after the last slot",
            }
            .into());
        }
        channel.progress((first + here) as u64, count as u64);
        each(slots);
    }
    Ok(())
}

/// Overwrites slots by random ones.
pub(super) fn randomize<const W: usize>(filler: &mut Prg, slots: &mut [[u64; W]]) {
    let mut blocks = [0; 4 * RANDOM];
    for slots in slots.chunks_mut(2 * RANDOM) {
        let words = slots.as_flattened_mut();
        let blocks = &mut blocks[..words.len().div_ceil(2)];
        filler.fill(blocks);
        let random = bytemuck::must_cast_slice::<Block, u64>(blocks);
        words.copy_from_slice(&random[..words.len()]);
    }
}

/// The `bits` lowest bits of each slot, one after the other.
fn packed<const W: usize>(slots: &[[u64; W]], bits: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(frame_bytes(slots.len(), bits));
    let (mut held, mut count) = (0u128, 0);
    for slot in slots {
        let mut left = bits;
        for word in slot {
            let here = left.min(64);
            held |= (u128::from(*word) & ((1 << here) - 1)) << count;
            (count, left) = (count + here, left - here);
            if count >= 64 {
                bytes.extend_from_slice(&(held as u64).to_le_bytes());
                (held, count) = (held >> 64, count - 64);
            }
        }
    }
    bytes.extend_from_slice(&(held as u64).to_le_bytes()[..count.div_ceil(8) as usize]);
    bytes
}

/// The reverse of [`packed`]; returns the bits after the last slot.
fn unpack<const W: usize>(bytes: &[u8], bits: u32, slots: &mut [[u64; W]]) -> u64 {
    let (whole, rest) = bytes.as_chunks::<8>();
    let last = rest
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte));
    let words = whole.iter().map(|word| u64::from_le_bytes(*word));
    let mut words = words.chain([last]);
    let (mut held, mut count) = (0u128, 0);
    for slot in slots {
        let mut left = bits;
        for word in slot {
            let here = left.min(64);
            if count < here {
                held |= u128::from(words.next().unwrap_or(0)) << count;
                count += 64;
            }
            *word = (held & ((1 << here) - 1)) as u64;
            (held, count, left) = (held >> here, count - here, left - here);
        }
    }
    held as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_primitives::block::Prg;
    use vesica_testing::{Tape, bad_value, misbehaviour, wrong_length};

    const KIND: Kind = Kind {
        code: 98,
        name: "slots",
    };

    fn random<const W: usize>(count: usize, bits: u32) -> Vec<[u64; W]> {
        let mut blocks = vec![0; count * W];
        Prg::new(7).fill(&mut blocks);
        let mask = |i: usize| match bits.saturating_sub(64 * i as u32) {
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        };
        (0..count)
            .map(|slot| std::array::from_fn(|i| blocks[slot * W + i] as u64 & mask(i)))
            .collect()
    }

    fn there_and_back<const W: usize>(count: usize, bits: u32) {
        let slots = random::<W>(count, bits);
        let mut tape = Tape::default();
        send::<W>(&mut tape, KIND, count, bits, |first, to| {
            to.copy_from_slice(&slots[first..first + to.len()]);
            Ok(())
        })
        .unwrap();
        let sent: usize = tape.0.iter().map(|(_, frame)| frame.len()).sum();
        assert_eq!(sent, (count * bits as usize).div_ceil(8));
        assert!(recv::<W>(&mut tape, KIND, count, bits).unwrap() == slots);
        assert!(tape.0.is_empty());
    }

    proptest! {
        #[test]
        fn slots_come_back(count in 0usize..200, bits in 1u32..=64) {
            there_and_back::<1>(count, bits);
            there_and_back::<2>(count, bits + 64);
            there_and_back::<3>(count, bits + 128);
            there_and_back::<4>(count, bits + 192);
        }
    }

    #[test]
    fn several_frames() {
        for bits in [7, 63, 64] {
            for extra in [0, 1, 9] {
                there_and_back::<1>(2 * per_frame(bits) + extra, bits);
            }
        }
        there_and_back::<2>(per_frame(127) + 3, 127);
        there_and_back::<4>(per_frame(256) + 3, 256);
    }

    /// The first three slots of 5 bits: 1, 2 and 31.
    #[test]
    fn bits_are_packed_from_the_lowest() {
        assert_eq!(packed(&[[1u64], [2], [31]], 5), [0b0100_0001, 0b0111_1100]);
    }

    #[test]
    fn other_frames_are_refused() {
        let read = |frame: &[u8]| {
            let mut tape = Tape([(KIND, frame.to_vec())].into());
            recv::<1>(&mut tape, KIND, 3, 5)
        };
        assert_eq!(read(&[255, 127]).unwrap(), [[31]; 3]);
        assert_eq!(misbehaviour(read(&[255])), wrong_length(KIND.name, 1));
        let stray = bad_value(KIND.name, "a bit is set after the last slot");
        assert_eq!(misbehaviour(read(&[255, 128])), stray);
    }
}
