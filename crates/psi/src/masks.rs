//! The mask exchange, the second half of every OPRF-based protocol: the sender sends F of its items,
//! shortened and in sorted order, and the receiver looks its own up.
//!
//! F of an item that the receiver does not hold looks random, so the sorted order of the masks says
//! nothing about the order of the items.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use vesica_oprf::Mask;
use vesica_wire::{Channel, Error, Kind, Misbehaviour, recv_rows, send_rows};

use crate::{Params, Security};

/// Frames with the sender's masks.
pub(crate) const MASKS: Kind = Kind {
    code: 34,
    name: "masks",
};

/// Masks packed together: so many fill a whole number of bytes at any width.
const GROUP: usize = 8;

/// Bits of a mask.
///
/// Malicious: 2κ = 256, so that a sender cannot find two items with one mask (RT21, section 4.1).
/// Semi-honest: λ + ⌈log₂(n_s·n_r)⌉, so that some pair of different items collides with probability at
/// most 2^-λ (section A.1).
pub(crate) fn width(params: &Params) -> usize {
    match params.security {
        Security::Malicious => 256,
        Security::SemiHonest => {
            let pairs = params.receiver_size.max(1) as u128 * params.sender_size.max(1) as u128;
            let log = pairs.next_power_of_two().trailing_zeros();
            (params.lambda + log).min(256) as usize
        }
    }
}

/// The first `width` bits, the others zero.
fn shortened(mask: &Mask, width: usize) -> Mask {
    std::array::from_fn(|i| {
        let bits = width.saturating_sub(8 * i).min(8);
        mask[i] & ((1u16 << bits) - 1) as u8
    })
}

/// Sends the sender's masks. Sorting takes variable time, on this side's machine alone.
pub(crate) fn send(channel: &mut dyn Channel, masks: &[Mask], width: usize) -> Result<(), Error> {
    let mut masks: Vec<Mask> = masks.iter().map(|m| shortened(m, width)).collect();
    masks.sort_unstable();
    let mut rows = Vec::with_capacity(masks.len().div_ceil(GROUP) * width);
    for group in masks.chunks(GROUP) {
        rows.extend_from_slice(&packed(group, width));
    }
    send_rows(channel, MASKS, &rows, width)
}

/// Receives `count` masks; returns the indices of the receiver's own masks among them, ascending.
/// Takes variable time, on this side's machine alone.
pub(crate) fn receive_and_match(
    channel: &mut dyn Channel,
    count: usize,
    own: &[Mask],
    width: usize,
) -> Result<Vec<u32>, Error> {
    let mut index =
        HashMap::with_capacity_and_hasher(own.len(), BuildHasherDefault::<Prefix>::new());
    for (i, mask) in own.iter().enumerate() {
        index.insert(shortened(mask, width), i);
    }
    let mut matched = vec![false; own.len()];
    let mut left = count;
    recv_rows(channel, MASKS, width, count.div_ceil(GROUP), |rows| {
        for row in rows.chunks_exact(width) {
            let masks = unpacked(row, width);
            let (group, padding) = masks.split_at(left.min(GROUP));
            left -= group.len();
            if padding.iter().any(|m| *m != [0; 32]) {
                return Err(Misbehaviour::BadValue {
                    what: MASKS.name,
                    problem: "padding that is not zero",
                }
                .into());
            }
            for mask in group {
                if let Some(i) = index.get(mask) {
                    matched[*i] = true;
                }
            }
        }
        Ok(())
    })?;
    Ok((0..own.len() as u32)
        .filter(|i| matched[*i as usize])
        .collect())
}

/// Up to [`GROUP`] masks, bit after bit, in `width` bytes.
fn packed(group: &[Mask], width: usize) -> Vec<u8> {
    let mut bytes = vec![0; width];
    for (k, mask) in group.iter().enumerate() {
        let (start, shift) = (k * width / 8, k * width % 8);
        for i in 0..width.div_ceil(8) {
            let wide = u16::from(mask[i]) << shift;
            bytes[start + i] |= wide as u8;
            if let Some(next) = bytes.get_mut(start + i + 1) {
                *next |= (wide >> 8) as u8;
            }
        }
    }
    bytes
}

/// The masks of one group.
fn unpacked(bytes: &[u8], width: usize) -> [Mask; GROUP] {
    std::array::from_fn(|k| {
        let (start, shift) = (k * width / 8, k * width % 8);
        let mut mask = [0; 32];
        for (i, m) in mask.iter_mut().enumerate().take(width.div_ceil(8)) {
            let next = bytes.get(start + i + 1).copied().unwrap_or(0);
            *m = (u16::from_le_bytes([bytes[start + i], next]) >> shift) as u8;
        }
        shortened(&mask, width)
    })
}

/// Masks are outputs of a random oracle: their first bytes are a hash.
#[derive(Default)]
struct Prefix(u64);

impl Hasher for Prefix {
    fn write(&mut self, bytes: &[u8]) {
        if let Some((prefix, _)) = bytes.split_first_chunk::<8>() {
            self.0 ^= u64::from_le_bytes(*prefix);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        // The map takes its tag from the high bits and the place from the low ones; short masks have both.
        self.0 ^ self.0.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use proptest::prelude::*;

    fn params(protocol: Protocol, lambda: u32, receiver_size: usize, sender_size: usize) -> Params {
        Params {
            protocol,
            security: protocol.security(),
            both: false,
            lambda,
            receiver_size,
            sender_size,
            session: [0; 32],
        }
    }

    /// RT21, table 1: bits an item of the semi-honest variants, less the 256 of the polynomial.
    #[test]
    fn widths_match_the_published_table() {
        for (log, bits) in [
            (8, 312),
            (9, 314),
            (10, 316),
            (12, 320),
            (16, 328),
            (20, 336),
        ] {
            let p = params(Protocol::CompactDhSh1, 40, 1 << log, 1 << log);
            assert_eq!(width(&p), bits - 256);
        }
        assert_eq!(width(&params(Protocol::CompactDh, 40, 5, 5)), 256);
        assert_eq!(width(&params(Protocol::Dh, 64, 0, 0)), 64);
        assert_eq!(width(&params(Protocol::Dh, 40, 3, 5)), 44);
    }

    proptest! {
        #[test]
        fn packing_inverts(masks in prop::collection::vec(any::<Mask>(), 1..9), width in 1usize..=256) {
            let masks: Vec<Mask> = masks.iter().map(|m| shortened(m, width)).collect();
            let bytes = packed(&masks, width);
            prop_assert_eq!(bytes.len(), width);
            let back = unpacked(&bytes, width);
            prop_assert_eq!(&back[..masks.len()], &masks[..]);
            prop_assert!(back[masks.len()..].iter().all(|m| *m == [0; 32]));
        }

        #[test]
        fn shortening_keeps_the_first_bits(mask: Mask, width in 0usize..=256) {
            let short = shortened(&mask, width);
            for bit in 0..256 {
                let expected = if bit < width { mask[bit / 8] >> (bit % 8) & 1 } else { 0 };
                prop_assert_eq!(short[bit / 8] >> (bit % 8) & 1, expected);
            }
        }
    }
}
