//! The mask exchange, the second half of every OPRF-based protocol: the sender sends F of its items,
//! shortened, sorted and coded as differences, and the receiver looks its own up.
//!
//! F of an item that the receiver does not hold looks random, so the sorted order of the masks says
//! nothing about the order of the items.
//!
//! Sorted masks need not be sent in full: PRTY19, section 3.5, saves about log₂ n bits of each. Of
//! n masks of w bits the set has log₂ C(2^w, n) bits, some w − log₂ n + 1.44 a mask; the code here
//! takes w − log₂ n + 1.55 or so. The differences of the leading 64 bits are Rice-coded, the bits
//! behind them follow as they are.
//!
//! | message | frames |
//! |---|---|
//! | [`MASKS`] | all masks, ascending, so many a frame as [`Exchange`] computes; a frame begins with a mask in full, so that each can be read without the others |
//! | [`MATCHED`] | only if both learn: the number of matches as `u32`, little endian; then the positions of the matches among the masks, or, if those are more than half, of the others |
//!
//! Sorting and matching take variable time, on each side's own machine alone.

mod bits;
mod frames;
mod matched;
mod matching;
mod order;

use rayon::prelude::*;
use vesica_oprf::Mask;
use vesica_wire::{Channel, Error, Kind};

use crate::{Params, Security};
use frames::{Code, Decoder};
use matching::{Hits, hits};
use order::Order;

/// Frames with the sender's masks.
pub const MASKS: Kind = Kind {
    code: 34,
    name: "masks",
};

/// Frames with the positions of the matches among the masks.
pub const MATCHED: Kind = Kind {
    code: 37,
    name: "matched positions",
};

/// Bits of a mask.
///
/// Malicious: 256 bits, so that a sender cannot find two items with one mask (RT21, section 4.1). Of
/// `vole` 128 bits: two items with one mask take 2^64 hashes during the run.
/// Semi-honest: λ + ⌈log₂(n_s·n_r)⌉, so that some pair of different items collides with probability at
/// most 2^-λ (section A.1).
pub fn width(params: &Params) -> usize {
    match (params.security, params.protocol) {
        (Security::Malicious, crate::Protocol::Vole) => 128,
        (Security::Malicious, _) => 256,
        (Security::SemiHonest, _) => {
            let pairs = params.receiver_size.max(1) as u128 * params.sender_size.max(1) as u128;
            let log = pairs.next_power_of_two().trailing_zeros();
            (params.lambda + log).min(256) as usize
        }
    }
}

/// What both sides know of an exchange beforehand.
///
/// A mask is `W` words of 64 bits, the first the most significant; only the topmost `width` bits
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Bits of a mask, 1 to 256.
    pub width: usize,
    /// Masks of the sender, fewer than 2^32.
    pub sender_size: usize,
    /// Masks of the receiver, fewer than 2^32.
    pub receiver_size: usize,
    /// Whether the receiver tells the sender which of its masks matched.
    pub both: bool,
}

impl Exchange {
    /// The exchange of a run.
    pub fn new(params: &Params) -> Self {
        Exchange {
            width: width(params),
            sender_size: params.sender_size,
            receiver_size: params.receiver_size,
            both: params.both,
        }
    }

    /// Sends the sender's masks. Returns, if both learn them, the indices of those that matched,
    /// ascending, as the receiver tells; a dishonest receiver can tell anything. Masks that repeat
    /// count as matched once.
    ///
    /// # Panics
    /// If there are not `sender_size` masks or they have fewer than `width` bits.
    pub fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        masks: &[[u64; W]],
    ) -> Result<Option<Vec<u32>>, Error> {
        self.check::<W>();
        assert_eq!(masks.len(), self.sender_size);
        let code = Code::new(self.width, masks.len());
        let mut order = Order::new(masks, self.width);
        let batch = code.per_frame() * rayon::current_num_threads();
        for first in (0..masks.len()).step_by(batch) {
            let last = masks.len().min(first + batch);
            order.sort_until(last);
            let frames: Vec<_> = order.entries()[first..last]
                .par_chunks(code.per_frame())
                .map(|entries| code.encode(entries))
                .collect();
            for frame in frames {
                channel.send(MASKS, frame)?;
            }
            channel.progress(last as u64, masks.len() as u64);
        }
        if !self.both {
            return Ok(None);
        }
        let positions = matched::receive(channel, self.sender_size, self.receiver_size)?;
        let mut indices: Vec<u32> = positions
            .into_iter()
            .map(|position| order.entries()[position as usize].1)
            .collect();
        indices.par_sort_unstable();
        Ok(Some(indices))
    }

    /// Receives the sender's masks and returns the indices of the receiver's own masks among them,
    /// ascending; if both learn them, tells the sender first.
    ///
    /// # Panics
    /// If there are not `receiver_size` masks or they have fewer than `width` bits.
    pub fn receive<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        own: &[[u64; W]],
    ) -> Result<Vec<u32>, Error> {
        self.check::<W>();
        assert_eq!(own.len(), self.receiver_size);
        let code = Code::new(self.width, self.sender_size);
        // The sender is still at work on its masks.
        let mut order = Order::new(own, self.width);
        order.sort_until(own.len());
        let mut found = Found {
            matched: vec![false; own.len()],
            positions: self.both.then(Vec::new),
            last: None,
        };
        let batch = code.per_frame() * rayon::current_num_threads();
        for first in (0..self.sender_size).step_by(batch) {
            let mut left = batch.min(self.sender_size - first);
            let mut frames = Vec::new();
            while left > 0 {
                let count = left.min(code.per_frame());
                let frame = channel.recv(MASKS, code.most_bytes(count))?;
                frames.push(Decoder::new(&code, frame, count));
                left -= count;
            }
            let hits: Vec<_> = frames
                .into_par_iter()
                .map(|frame| hits(frame, &order))
                .collect();
            for (i, hits) in hits.into_iter().enumerate() {
                found.take(first + i * code.per_frame(), hits?)?;
            }
            let done = self.sender_size.min(first + batch);
            channel.progress(done as u64, self.sender_size as u64);
        }
        if let Some(positions) = found.positions {
            matched::send(channel, self.sender_size, &positions)?;
        }
        Ok((0..own.len() as u32)
            .filter(|i| found.matched[*i as usize])
            .collect())
    }

    /// [`Self::send`] for masks of 32 bytes.
    pub fn send_bytes(
        &self,
        channel: &mut dyn Channel,
        masks: &[Mask],
    ) -> Result<Option<Vec<u32>>, Error> {
        match self.width {
            ..=64 => self.send::<1>(channel, &words(masks)),
            65..=128 => self.send::<2>(channel, &words(masks)),
            _ => self.send::<4>(channel, &words(masks)),
        }
    }

    /// [`Self::receive`] for masks of 32 bytes.
    pub fn receive_bytes(
        &self,
        channel: &mut dyn Channel,
        own: &[Mask],
    ) -> Result<Vec<u32>, Error> {
        match self.width {
            ..=64 => self.receive::<1>(channel, &words(own)),
            65..=128 => self.receive::<2>(channel, &words(own)),
            _ => self.receive::<4>(channel, &words(own)),
        }
    }

    fn check<const W: usize>(&self) {
        assert!((1..=256).contains(&self.width) && self.width <= 64 * W);
        assert!(self.sender_size.max(self.receiver_size) < 1 << 32);
    }
}

/// What the receiver has found so far.
struct Found<const W: usize> {
    /// Which own masks have matched.
    matched: Vec<bool>,
    /// Positions of the matches among the sender's masks, if the sender wants them.
    positions: Option<Vec<u32>>,
    /// Last mask of the frame before.
    last: Option<[u64; W]>,
}

impl<const W: usize> Found<W> {
    /// Takes the matches of the frame that begins at position `base`.
    fn take(&mut self, base: usize, hits: Hits<W>) -> Result<(), Error> {
        if self.last.is_some_and(|last| hits.first < last) {
            return Err(frames::out_of_order().into());
        }
        self.last = Some(hits.last);
        for (own, offset) in hits.pairs {
            if std::mem::replace(&mut self.matched[own as usize], true) {
                continue;
            }
            if let Some(positions) = &mut self.positions {
                let position = base as u32 + offset;
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
        Ok(())
    }
}

/// The leading words of masks.
fn words<const W: usize>(masks: &[Mask]) -> Vec<[u64; W]> {
    let word = |mask: &Mask, i: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&mask[8 * i..8 * i + 8]);
        u64::from_be_bytes(bytes)
    };
    masks
        .iter()
        .map(|mask| std::array::from_fn(|i| word(mask, i)))
        .collect()
}

/// The topmost `bits` bits of a word, all of them if there are no more.
fn top(bits: usize) -> u64 {
    !u64::MAX.unbounded_shr(u32::try_from(bits).unwrap_or(u32::MAX))
}

/// The topmost `width` bits of a mask, the others zero.
#[inline]
fn shortened<const W: usize>(mask: &[u64; W], width: usize) -> [u64; W] {
    std::array::from_fn(|i| mask[i] & top(width.saturating_sub(64 * i)))
}

/// Whether a < b; the first word nearly always tells.
#[inline]
fn less<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    a[0] < b[0] || a[0] == b[0] && a < b
}

#[cfg(test)]
mod tests;
