//! The mask exchange, the second half of every OPRF-based protocol: the sender sends F of its items,
//! shortened, sorted and coded as differences, and the receiver looks up its own.
//!
//! F of an item that the receiver does not hold looks random, so the sorted order of the masks says
//! nothing about the order of the items.
//!
//! Sorted masks need not be sent in full: PRTY19, section 3.5, saves about log₂ n bits of each. A set of n
//! masks of w bits has log₂ C(2^w, n) bits of entropy, some w − log₂ n + 1.44 per mask; the code here takes
//! w − log₂ n + 1.55 or so. The differences of the leading 64 bits are Rice-coded, the remaining bits follow
//! uncoded.
//!
//! | message | frames |
//! |---|---|
//! | [`MASKS`] | all masks, ascending, as many per frame as [`Exchange`] computes; a frame begins with a full mask, so that each can be read without the others |
//! | [`MATCHED`] | only if both learn: which masks matched, as a bitmap or as the positions of as many as can match, whichever is shorter |
//! | [`LABELS`] | only if the sender hands over labels, before the matches are told: the encrypted label of each mask, in the order of the masks |
//! | [`NAMES`] | instead of positions, where the sender has several masks per item: as many tags ("names") as items can match, ascending, each in full, the last one of all in place of those that do not |
//!
//! **Lengths.** Whoever carries the frames sees how long they are, and when. [`MATCHED`] and [`NAMES`] have lengths that follow
//! from the sizes of both sets. That of [`MASKS`] varies a little with the masks, which are uniform whatever matches.
//!
//! Where the sender has several masks per item, one for each bin in which the receiver may have put it, all
//! of them go into one sorted sequence. The one that matched shows in which bin the receiver has put the
//! item, and that depends on its other items: positions would give away more than the matches. So the
//! receiver then sends names instead: tags of the matching items, hashes that both sides can compute.
//!
//! The time for sorting depends on a side's own masks. The time for matching does not depend on the matches,
//! since a sender that is told nothing could read their number from the delay of the receiver's next message.
//! Where both learn the matches, the time for telling them does not either, since the network learns nothing.

mod bits;
mod frames;
mod labels;
mod matched;
mod matching;
pub(crate) mod names;
mod order;
mod protocol;

use vesica_oprf::LongOutput;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Frames, Kind};

use crate::Item;
use frames::{Code, Decoder};
pub use labels::LABELS;
use labels::{Opening, Sealing};
use matched::Telling;
use matching::{Hits, hits};
use order::{Order, reordered};
pub use protocol::{MaskExchange, width};

/// Frames with the sender's masks.
pub const MASKS: Kind = Kind {
    code: 34,
    name: "masks",
};

/// Frames that say which masks matched.
pub const MATCHED: Kind = Kind {
    code: 37,
    name: "matched positions",
};

/// Frames with the names of the items that matched, and of nobody.
pub const NAMES: Kind = Kind {
    code: 58,
    name: "matched names",
};

/// What both sides know of an exchange beforehand.
///
/// A mask is `W` words of 64 bits, the first the most significant; only the topmost `width` bits
/// count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Bits of a mask, 1 to 256.
    pub width: usize,
    /// Items of the sender.
    pub sender_size: usize,
    /// Masks of the sender per item, 1 or more; fewer than 2^32 in total.
    pub masks_per_item: usize,
    /// Items and masks of the receiver, fewer than 2^32.
    pub receiver_size: usize,
    /// Whether the receiver tells the sender what matched.
    pub both: bool,
}

impl Exchange {
    /// Masks of the sender.
    fn masks(&self) -> usize {
        self.masks_per_item * self.sender_size
    }

    /// The frames of the masks, of the length that is expected.
    fn frames(&self) -> Frames {
        Code::new(self.width, self.masks()).frames(self.masks())
    }

    /// The frames of labels of so many bytes each.
    fn labels(&self, bytes: usize) -> Frames {
        match bytes {
            0 => Frames::default(),
            _ => Frames::rows(self.masks(), bytes),
        }
    }

    /// How many items can match.
    fn most_matches(&self) -> usize {
        self.sender_size.min(self.receiver_size)
    }

    /// What says which masks matched.
    fn telling(&self) -> Telling {
        Telling::new(self.masks(), self.most_matches())
    }

    /// The frames by which the receiver tells the sender the matches, if it does.
    fn told(&self) -> Frames {
        match (self.both, self.masks_per_item) {
            (false, _) => Frames::default(),
            (true, 1) => self.telling().frames(),
            (true, _) => names::frames(self),
        }
    }

    /// Sends the sender's masks, one per item. If both learn the matches, returns for each mask whether it
    /// matched according to the receiver; a dishonest receiver can claim anything. Of equal masks only one
    /// counts as matched.
    ///
    /// # Panics
    /// If there are not `sender_size` masks, one per item, or they have fewer than `width` bits.
    pub fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        masks: &[[u64; W]],
    ) -> Result<Option<Vec<bool>>, Error> {
        self.send_labelled(channel, masks, None)
    }

    /// [`Self::send`] with labels.
    fn send_labelled<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        masks: &[[u64; W]],
        labels: Option<&Sealing<'_>>,
    ) -> Result<Option<Vec<bool>>, Error> {
        assert_eq!(self.masks_per_item, 1);
        let order = self.send_masks(channel, masks, labels)?;
        if !self.both {
            return Ok(None);
        }
        let matched = self.telling().receive(channel)?;
        Ok(Some(reordered(&matched, |i| order.entries()[i].1)))
    }

    /// [`Self::send`] for several masks per item, in any order; if both learn the matches, returns for each
    /// item whether it matched according to the receiver.
    ///
    /// # Panics
    /// If there are not `sender_size` items, or not `masks_per_item` masks of each, or these have fewer than `width`
    /// bits.
    fn send_several<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        session: &[u8; 32],
        items: &[Item],
        masks: Vec<[u64; W]>,
        labels: Option<&Sealing<'_>>,
    ) -> Result<Option<Vec<bool>>, Error> {
        assert_eq!(items.len(), self.sender_size);
        drop(self.send_masks(channel, &masks, labels)?);
        drop(masks);
        match self.both {
            true => names::receive(self, channel, session, items).map(Some),
            false => Ok(None),
        }
    }

    fn send_masks<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        masks: &[[u64; W]],
        labels: Option<&Sealing<'_>>,
    ) -> Result<Order<W>, Error> {
        self.check::<W>();
        assert_eq!(masks.len(), self.masks());
        let code = Code::new(self.width, masks.len());
        let mut order = Order::new(masks, self.width);
        send_sorted(channel, &code, &mut order)?;
        if let Some(labels) = labels {
            labels.send(channel, &order)?;
        }
        Ok(order)
    }

    /// Receives the sender's masks, one per item, and returns for each of the receiver's own masks whether it
    /// is among them; if both learn the matches, tells the sender first.
    ///
    /// # Panics
    /// If there are not `receiver_size` masks, the sender has several per item, or they have fewer than
    /// `width` bits.
    pub fn receive<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        own: &[[u64; W]],
    ) -> Result<Vec<bool>, Error> {
        self.receive_labelled(channel, own, None)
    }

    /// [`Self::receive`] with labels.
    fn receive_labelled<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        own: &[[u64; W]],
        labels: Option<&mut Opening<'_>>,
    ) -> Result<Vec<bool>, Error> {
        assert_eq!(self.masks_per_item, 1);
        let (found, order) = self.receive_masks(channel, own, labels)?;
        if self.both {
            self.telling().send(channel, &found.theirs)?;
        }
        Ok(found.matched(&order))
    }

    /// [`Self::receive`] for a sender that has several masks per item. `numbers[i]` is the index of the item
    /// of `own[i]`; returns for each item whether it matched.
    ///
    /// # Panics
    /// If there are not `receiver_size` items and masks, or these have fewer than `width` bits.
    fn receive_several<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        session: &[u8; 32],
        items: &[Item],
        own: &[[u64; W]],
        numbers: &[u32],
        labels: Option<&mut Opening<'_>>,
    ) -> Result<Vec<bool>, Error> {
        assert_eq!(items.len(), self.receiver_size);
        let (found, order) = self.receive_masks(channel, own, labels)?;
        let matched = protocol::renumbered(&found.matched(&order), numbers);
        drop(order);
        if self.both {
            names::send(self, channel, session, items, &matched)?;
        }
        Ok(matched)
    }

    fn receive_masks<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        own: &[[u64; W]],
        labels: Option<&mut Opening<'_>>,
    ) -> Result<(Found<W>, Order<W>), Error> {
        self.check::<W>();
        assert_eq!(own.len(), self.receiver_size);
        let code = Code::new(self.width, self.masks());
        // The sender is still at work on its masks.
        let mut order = Order::new(own, self.width);
        order.sort_until(own.len());
        let mut found = Found::new(own.len());
        found.ranks = labels.is_some().then(Vec::new);
        receive_sorted(channel, &code, self.masks(), &order, &mut found)?;
        if let (Some(labels), Some(ranks)) = (labels, &mut found.ranks) {
            // As many labels are decrypted whatever the order: for what is above all masks, the last one.
            ranks.resize(own.len(), self.masks().saturating_sub(1) as u32);
            labels.receive(channel, self.masks(), &order, ranks)?;
        }
        Ok((found, order))
    }

    /// [`Self::send`] for masks of 32 bytes.
    pub fn send_bytes(
        &self,
        channel: &mut dyn Channel,
        masks: &[LongOutput],
    ) -> Result<Option<Vec<bool>>, Error> {
        self.send_bytes_labelled(channel, masks, None)
    }

    /// [`Self::send_bytes`] with labels.
    fn send_bytes_labelled(
        &self,
        channel: &mut dyn Channel,
        masks: &[LongOutput],
        labels: Option<&Sealing<'_>>,
    ) -> Result<Option<Vec<bool>>, Error> {
        match self.width {
            ..=64 => self.send_labelled::<1>(channel, &words(masks), labels),
            65..=128 => self.send_labelled::<2>(channel, &words(masks), labels),
            _ => self.send_labelled::<4>(channel, &words(masks), labels),
        }
    }

    /// [`Self::receive`] for masks of 32 bytes.
    pub fn receive_bytes(
        &self,
        channel: &mut dyn Channel,
        own: &[LongOutput],
    ) -> Result<Vec<bool>, Error> {
        self.receive_bytes_labelled(channel, own, None)
    }

    /// [`Self::receive_bytes`] with labels.
    fn receive_bytes_labelled(
        &self,
        channel: &mut dyn Channel,
        own: &[LongOutput],
        labels: Option<&mut Opening<'_>>,
    ) -> Result<Vec<bool>, Error> {
        match self.width {
            ..=64 => self.receive_labelled::<1>(channel, &words(own), labels),
            65..=128 => self.receive_labelled::<2>(channel, &words(own), labels),
            _ => self.receive_labelled::<4>(channel, &words(own), labels),
        }
    }

    fn check<const W: usize>(&self) {
        assert!((1..=256).contains(&self.width) && self.width <= 64 * W);
        assert!(self.masks_per_item > 0);
        assert!(self.masks().max(self.receiver_size) < 1 << 32);
    }
}

/// Sends all masks, ascending.
fn send_sorted<const W: usize>(
    channel: &mut dyn Channel,
    code: &Code,
    order: &mut Order<W>,
) -> Result<(), Error> {
    let count = order.entries().len();
    let batch = code.per_frame() * rayon::current_num_threads();
    for first in (0..count).step_by(batch) {
        let last = count.min(first + batch);
        order.sort_until(last);
        let entries = order.entries()[first..last].chunks(code.per_frame());
        for frame in parallel::map(entries, |entries| code.encode(entries)) {
            channel.send(code.kind(), frame)?;
        }
        channel.progress(last as u64, count as u64);
    }
    Ok(())
}

/// Receives `count` masks, and finds among them the own masks, which are all in order.
fn receive_sorted<const W: usize>(
    channel: &mut dyn Channel,
    code: &Code,
    count: usize,
    order: &Order<W>,
    found: &mut Found<W>,
) -> Result<(), Error> {
    let batch = code.per_frame() * rayon::current_num_threads();
    for first in (0..count).step_by(batch) {
        let mut left = batch.min(count - first);
        let mut frames = Vec::new();
        while left > 0 {
            let count = left.min(code.per_frame());
            let frame = channel.recv(code.kind(), code.most_bytes(count))?;
            frames.push(Decoder::new(code, frame, count));
            left -= count;
        }
        let hits = parallel::map(frames.into_iter(), |frame| {
            hits(frame, order, found.ranks.is_some())
        });
        for hits in hits {
            found.take(code, hits?)?;
        }
        let done = count.min(first + batch);
        channel.progress(done as u64, count as u64);
    }
    Ok(())
}

/// What a party has found so far. No time here depends on it.
struct Found<const W: usize> {
    /// Which own masks have matched, in ascending order of the masks.
    own: Vec<bool>,
    /// Which of the other side's masks have matched, in the same order; of equal ones the first.
    theirs: Vec<bool>,
    /// How many masks of the other side are below each own mask, as far as masks have been received, if asked for.
    ranks: Option<Vec<u32>>,
    /// Last mask of the frame before.
    last: Option<[u64; W]>,
}

impl<const W: usize> Found<W> {
    /// Nothing found yet, for `own` own masks.
    fn new(own: usize) -> Self {
        Found {
            own: vec![false; own],
            theirs: Vec::new(),
            ranks: None,
            last: None,
        }
    }

    /// For each own mask, in the order in which they were given, whether it matched.
    fn matched(&self, order: &Order<W>) -> Vec<bool> {
        reordered(&self.own, |i| order.entries()[i].1)
    }

    /// Adds what the next frame has in common with the own masks.
    fn take(&mut self, code: &Code, mut hits: Hits<W>) -> Result<(), Error> {
        if self.last.is_some_and(|last| hits.first < last) {
            return Err(code.out_of_order().into());
        }
        if self.last == Some(hits.first) {
            // It was counted in the previous frame.
            hits.theirs[0] = false;
        }
        self.last = Some(hits.last);
        for (own, hit) in self.own[hits.start..].iter_mut().zip(&hits.own) {
            *own |= hit;
        }
        if let Some(ranks) = &mut self.ranks {
            let before = self.theirs.len() as u32;
            // Own masks between the previous frame and this one; one on the border has its rank already.
            ranks.resize(ranks.len().max(hits.start), before);
            let counted = ranks.len() - hits.start;
            let new = hits.ranks.iter().skip(counted);
            ranks.extend(new.map(|rank| before + rank));
        }
        self.theirs.append(&mut hits.theirs);
        Ok(())
    }
}

/// The leading words of masks.
fn words<const W: usize>(masks: &[LongOutput]) -> Vec<[u64; W]> {
    let word = |mask: &LongOutput, i: usize| {
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

/// Whether a < b; the first word nearly always decides.
#[inline]
fn less<const W: usize>(a: &[u64; W], b: &[u64; W]) -> bool {
    a[0] < b[0] || a[0] == b[0] && a < b
}

#[cfg(test)]
mod tests;
