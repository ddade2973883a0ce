//! Rows that one side hands over where a shared bit is 1.
//!
//! **A slot** has one message. The value end has a row and a share s of the slot's bit, the choice end a share r. The choice end
//! sends y = r ⊕ x, as for any choice r, and has the pad h_r. The value end masks row ‖ zeros by h_v with v = s ⊕ 1: that is the
//! pad of the choice end exactly if s ⊕ r is 1. Otherwise the message is uniform to it. It tells one from the other by the zeros,
//! which a uniform string has with a probability of 2^-t.
//!
//! **Slots without a row.** A value end that has fewer rows than slots fills the others with uniform strings. So the choice end
//! does not see how many of them there are: a slot whose bit is 0 looks the same.
//!
//! **Adversary.** Semi-honest. The value end sees y, uniform. A choice end that sends other choices gets the rows of other slots.
//! Each block of a pad has a key, since zeros and rows of the choice end's own are known. **Cost** per slot: a COT, a bit from the
//! choice end, the row and t bits from the value end; two flows for each window.

use rand_core::CryptoRng;
use vesica_primitives::block::{Block, Prg};
use vesica_psi::RowSlots;
use vesica_wire::{Channel, Error, MAX_FRAME, recv_exact};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, Masked, ValueEnd, WINDOW_BYTES};
use crate::engine::{Receiver, Sender};
use crate::messages::{CHOICES, PACKED, ROWS, receive_packed, send_packed};

/// Bytes of a block of a pad.
const BLOCK: usize = size_of::<Block>();

/// Bytes of the rows of a frame at most, unless one is longer.
const FRAME: usize = 1 << 16;

/// How wide slots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width {
    /// Bytes of a row.
    pub row: usize,
    /// Bytes of the zeros after it.
    pub tag: usize,
}

impl Width {
    /// For rows of so many bytes in so many slots, of which none that has no row seems to have one but with probability 2^-`bits`.
    pub fn new(row: usize, slots: usize, bits: u32) -> Width {
        let log = slots.next_power_of_two().trailing_zeros();
        Width {
            row,
            tag: (bits + log).div_ceil(8) as usize,
        }
    }

    /// Bytes of a slot.
    pub(crate) fn bytes(self) -> usize {
        self.row + self.tag
    }

    fn blocks(self) -> usize {
        self.bytes().div_ceil(BLOCK)
    }

    /// Slots whose pads are kept at once; a multiple of 64, unless it is fewer.
    pub(crate) fn window(self) -> usize {
        let most = WINDOW_BYTES / (2 * BLOCK * self.blocks());
        (most / 64 * 64).clamp(64, PACKED)
    }

    /// Slots of a frame.
    pub(crate) fn piece(self) -> usize {
        const { assert!(FRAME <= MAX_FRAME) };
        (FRAME / self.bytes()).max(1)
    }
}

/// Adds a pad, whose blocks follow each other, to as many bytes.
fn add(bytes: &mut [u8], pad: &[Block]) {
    for (bytes, block) in bytes.chunks_mut(BLOCK).zip(pad) {
        let pad = block.to_le_bytes();
        bytes
            .iter_mut()
            .zip(pad)
            .for_each(|(byte, pad)| *byte ^= pad);
    }
}

impl ValueEnd {
    /// Hands over the row of each slot whose shared bit is 1.
    fn hand_over<'r>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: &BitShares,
        width: Width,
        row: impl Fn(usize) -> (&'r [u8], bool),
    ) -> Result<(), Error> {
        let (bytes, blocks) = (width.bytes(), width.blocks());
        let mut fill = Prg::random(rng);
        for start in (0..bits.len()).step_by(width.window()) {
            let count = width.window().min(bits.len() - start);
            let mut pads = Zeroizing::new(vec![[0; 2]; count * blocks]);
            let collect = |[first, block]: [usize; 2], zero: &[Block], one: &[Block]| {
                let pads = pads[first * blocks..]
                    .iter_mut()
                    .skip(block)
                    .step_by(blocks);
                for (pad, (zero, one)) in pads.zip(zero.iter().zip(one)) {
                    *pad = [*zero, *one];
                }
            };
            self.pad_blocks(channel, rng, Masked::Values, [count, blocks], collect)?;
            let corrections = receive_packed(channel, CHOICES, count)?;
            let [mut chosen, mut filling] = [(); 2].map(|()| Zeroizing::new(vec![0; blocks]));
            for first in (0..count).step_by(width.piece()) {
                let slots = first..count.min(first + width.piece());
                let mut frame = Vec::with_capacity(slots.len() * bytes);
                for slot in slots {
                    fill.fill(&mut filling);
                    let random = &bytemuck::cast_slice::<Block, u8>(&filling)[..bytes];
                    let (row, is_row) = row(start + slot);
                    assert_eq!(row.len(), width.row, "the width of a row");
                    // Which slots have one takes no time.
                    let kept = u8::from(is_row).wrapping_neg();
                    let from = frame.len();
                    let contents = row.iter().chain(std::iter::repeat(&0)).zip(random);
                    frame.extend(contents.map(|(row, random)| random ^ (random ^ row) & kept));
                    // The pad of the choice s ⊕ 1.
                    let of_one = bits.get(start + slot) ^ 1 ^ corrections.get(slot);
                    let mask = Block::from(of_one).wrapping_neg();
                    let pads = &pads[slot * blocks..][..blocks];
                    for (chosen, [zero, one]) in chosen.iter_mut().zip(pads) {
                        *chosen = zero ^ (zero ^ one) & mask;
                    }
                    add(&mut frame[from..], &chosen);
                }
                channel.send(ROWS, frame)?;
            }
            channel.progress((start + count) as u64, bits.len() as u64);
        }
        Ok(())
    }
}

impl ChoiceEnd {
    /// The other side of [`ValueEnd::hand_over`].
    fn take_over(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: &BitShares,
        width: Width,
    ) -> Result<RowSlots, Error> {
        let (bytes, blocks) = (width.bytes(), width.blocks());
        let mut slots = RowSlots::with_capacity(width.row, bits.len());
        for start in (0..bits.len()).step_by(width.window()) {
            let count = width.window().min(bits.len() - start);
            let mut pads = Zeroizing::new(vec![0; count * blocks]);
            let mut corrections = BitShares::zeros(count);
            let collect = |[first, block]: [usize; 2], rows: &[Block], hashes: &[Block]| {
                if block == 0 {
                    for (slot, row) in (first..).zip(rows) {
                        let correction = *row as u64 & 1 ^ bits.get(start + slot);
                        corrections.add_at(slot, 1, correction);
                    }
                }
                let pads = pads[first * blocks..]
                    .iter_mut()
                    .skip(block)
                    .step_by(blocks);
                pads.zip(hashes).for_each(|(pad, hash)| *pad = *hash);
            };
            self.pad_blocks(channel, rng, Masked::Values, [count, blocks], collect)?;
            send_packed(channel, CHOICES, &corrections)?;
            for first in (0..count).step_by(width.piece()) {
                let here = first..count.min(first + width.piece());
                let frame = recv_exact(channel, ROWS, here.len() * bytes)?;
                let mut frame = Zeroizing::new(frame);
                for (slot, bytes) in here.zip(frame.chunks_exact_mut(bytes)) {
                    add(bytes, &pads[slot * blocks..][..blocks]);
                    let (row, tag) = bytes.split_at(width.row);
                    let is_row = tag.iter().fold(0, |all, byte| all | byte) == 0;
                    slots.push(row, is_row);
                }
            }
            channel.progress((start + count) as u64, bits.len() as u64);
        }
        Ok(slots)
    }
}

impl Receiver {
    /// Hands over the row of each slot whose shared bit is 1, all of one width. `row` gives some row, and whether the slot has it: one
    /// that has none looks like one whose bit is 0. The other party calls [`Sender::take_over`].
    ///
    /// # Errors
    /// The channel's and the source's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
    ///
    /// # Panics
    /// If a row has another width.
    pub fn hand_over<'r>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: &BitShares,
        width: Width,
        row: impl Fn(usize) -> (&'r [u8], bool),
    ) -> Result<(), Error> {
        self.main.hand_over(channel, rng, bits, width, row)
    }
}

impl Sender {
    /// The other side of [`Receiver::hand_over`].
    ///
    /// # Errors
    /// As there.
    pub fn take_over(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: &BitShares,
        width: Width,
    ) -> Result<RowSlots, Error> {
        self.main.take_over(channel, rng, bits, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{SIZES, engines, run, share};
    use vesica_testing::{misbehaviour, rng, try_both, wrong_length};
    use vesica_wire::{Spoil, Tamper, memory_pair};

    fn row(slot: usize, bytes: usize) -> Vec<u8> {
        // Some are all zeros.
        let factor = if slot.is_multiple_of(5) { 0 } else { 1 };
        (0..bytes)
            .map(|i| (slot * 31 + i * 7) as u8 * factor)
            .collect()
    }

    fn is_given(slot: usize) -> bool {
        slot * slot % 11 < 4
    }

    /// The rows of this width, every seventh slot without one.
    fn rows(count: usize, bytes: usize) -> Vec<Option<Vec<u8>>> {
        let row = |slot: usize| (!slot.is_multiple_of(7)).then(|| row(slot, bytes));
        (0..count).map(row).collect()
    }

    fn given(rows: &[Option<Vec<u8>>]) -> Vec<Vec<u8>> {
        let rows = rows.iter().enumerate();
        let given = rows.filter_map(|(slot, row)| row.clone().filter(|_| is_given(slot)));
        given.collect()
    }

    #[test]
    fn rows_arrive_where_the_bit_is_one() {
        let widths = [1, 7, 8, 16, 39, 300].map(|bytes| (bytes, SIZES.to_vec()));
        for (bytes, sizes) in widths.into_iter().chain([(4096, vec![1, 300])]) {
            for count in sizes {
                let width = Width::new(bytes, count, 48);
                let (rows, shares) = (rows(count, bytes), share(3, is_given, count));
                let (_, slots) = run(
                    5,
                    |engine, channel| {
                        let other = vec![0xee; bytes];
                        let row = |slot: usize| match &rows[slot] {
                            Some(row) => (&row[..], true),
                            None => (&other[..], false),
                        };
                        engine.hand_over(channel, &mut rng(1), &shares[0], width, row)
                    },
                    |engine, channel| engine.take_over(channel, &mut rng(2), &shares[1], width),
                );
                let found: Vec<_> = slots.rows().map(<[u8]>::to_vec).collect();
                assert_eq!(found, given(&rows), "{count} of {bytes} bytes");
            }
        }
    }

    /// With tags of a byte, one slot in 256 that has no row seems to have one.
    #[test]
    fn tags_are_what_tells_rows() {
        let (count, width) = (4097, Width { row: 3, tag: 1 });
        let shares = share(3, |_| false, count);
        let text = row(1, 3);
        let (_, slots) = run(
            5,
            |engine, channel| {
                let row = |_| (&text[..], true);
                engine.hand_over(channel, &mut rng(1), &shares[0], width, row)
            },
            |engine, channel| engine.take_over(channel, &mut rng(2), &shares[1], width),
        );
        let found = slots.rows().count();
        assert!((3..40).contains(&found), "{found}");
        assert!(slots.rows().all(|row| row != text));
    }

    #[test]
    fn tags_have_room_for_all_slots() {
        let tag = |slots, bits| Width::new(16, slots, bits).tag;
        assert_eq!([tag(0, 48), tag(1, 48), tag(2, 48)], [6, 6, 7]);
        assert_eq!(
            [tag(1 << 20, 48), tag(1 << 26, 48), tag(1 << 20, 49)],
            [9, 10, 9]
        );
    }

    #[test]
    fn frames_of_another_length_are_refused() {
        let (count, width) = (65, Width::new(5, 65, 48));
        let shares = share(3, is_given, count);
        let run = |near: (usize, Spoil), far: (usize, Spoil)| {
            let mut engines = engines(1);
            let (a, b) = memory_pair();
            try_both(
                (Tamper::new(a, near.0, near.1), Tamper::new(b, far.0, far.1)),
                |channel| {
                    let row = |_| (&[7; 5][..], true);
                    let rng = &mut rng(1);
                    engines
                        .receiver
                        .hand_over(channel, rng, &shares[0], width, row)
                },
                |channel| {
                    let rng = &mut rng(2);
                    engines.sender.take_over(channel, rng, &shares[1], width)
                },
            )
        };
        let never = || (usize::MAX, Spoil::Truncate(0));
        let (receiver, _) = run(never(), (0, Spoil::Truncate(1)));
        assert_eq!(misbehaviour(receiver), wrong_length(CHOICES.name, 8));
        let (_, sender) = run((0, Spoil::Truncate(1)), never());
        let bytes = count * width.bytes() - 1;
        assert_eq!(misbehaviour(sender), wrong_length(ROWS.name, bytes));
    }
}
