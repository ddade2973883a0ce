//! What a source of COTs or of entries sends, computed without making any: the steps of `Source`, in
//! numbers alone.

use vesica_wire::{End, Frames, Traffic};

use super::source::{BATCH, MAX_ROWS, ROWS};
use super::{Optimize, Size, sizes, subfield};
use crate::base_ot::{self, KeyAgreement};
use crate::ot_extension::{self, COLUMNS, Security};
use crate::subfield::COTS;

/// What differs between COTs and entries.
trait Sends {
    /// Those of the first base.
    fn base(&mut self, traffic: &mut Traffic, count: usize);

    /// Those of a batch of trees.
    fn grow(&mut self, traffic: &mut Traffic, size: &Size, trees: usize);
}

/// A source, as far as its messages depend on it.
struct Model<S> {
    sends: S,
    /// The size of the running extension, with the number of its trees that are left.
    extension: Option<(&'static Size, usize)>,
    /// COTs or entries that were made and not given out.
    left: usize,
}

impl<S: Sends> Model<S> {
    fn setup(sends: S, sizes: &'static [Size], traffic: &mut Traffic) -> Self {
        let mut model = Model {
            sends,
            extension: None,
            left: 0,
        };
        for size in sizes {
            model.extend(traffic, size.consumed());
            model.left = 0;
            model.extension = Some((size, size.trees()));
        }
        model
    }

    fn extend(&mut self, traffic: &mut Traffic, mut count: usize) {
        loop {
            let ready = count.min(self.left);
            self.left -= ready;
            count -= ready;
            if count == 0 {
                return;
            }
            let unit = match self.extension {
                None => ROWS,
                Some((size, _)) => size.leaves(),
            };
            if count >= unit {
                count -= self.make(traffic, count);
            } else {
                self.left = self.make(traffic, unit);
            }
        }
    }

    /// Makes a part of so many; returns how many.
    fn make(&mut self, traffic: &mut Traffic, count: usize) -> usize {
        let Some((size, left)) = self.extension else {
            let made = count.min(MAX_ROWS);
            self.sends.base(traffic, made);
            return made;
        };
        let mut left = left;
        if left == size.reserved() {
            while left > 0 {
                let trees = left.min(BATCH);
                self.sends.grow(traffic, size, trees);
                left -= trees;
            }
            left = size.trees();
        }
        let trees = (count / size.leaves())
            .min(BATCH)
            .min(left - size.reserved());
        self.sends.grow(traffic, size, trees);
        self.extension = Some((size, left - trees));
        trees * size.leaves()
    }
}

struct OfCots {
    sender: End,
}

impl Sends for OfCots {
    fn base(&mut self, traffic: &mut Traffic, count: usize) {
        let frames = ot_extension::frames(count, Security::Malicious);
        traffic.flow(self.sender.other(), frames);
    }

    fn grow(&mut self, traffic: &mut Traffic, size: &Size, trees: usize) {
        traffic.flow(self.sender, Frames::one(trees * size.message()));
    }
}

/// What a source of COTs sends.
pub struct Cots(Model<OfCots>);

impl Cots {
    /// The setup of a source whose sender is `sender`; the other arguments are those of
    /// [`Sender::setup`](super::Sender::setup).
    pub fn setup(
        traffic: &mut Traffic,
        sender: End,
        expected: usize,
        optimize: Optimize,
        agreement: KeyAgreement,
    ) -> Cots {
        base_ot::traffic(traffic, sender.other(), agreement, COLUMNS);
        let sizes = sizes(expected, optimize);
        Cots(Model::setup(OfCots { sender }, sizes, traffic))
    }

    /// The next COTs.
    pub fn extend(&mut self, traffic: &mut Traffic, count: usize) {
        self.0.extend(traffic, count);
    }
}

struct OfEntries<const W: u32> {
    cots: Cots,
}

impl<const W: u32> Sends for OfEntries<W> {
    fn base(&mut self, traffic: &mut Traffic, count: usize) {
        let width = W as usize;
        for first in (0..count).step_by(COTS / width) {
            let entries = (COTS / width).min(count - first);
            self.cots.extend(traffic, width * entries);
        }
    }

    fn grow(&mut self, traffic: &mut Traffic, size: &Size, trees: usize) {
        self.cots.extend(traffic, trees * size.depth);
        self.cots.0.sends.grow(traffic, size, trees);
    }
}

/// What a source of entries over GF(2^W) sends, on top of one of COTs.
pub struct Entries<const W: u32>(Model<OfEntries<W>>);

impl<const W: u32> Entries<W> {
    /// The setup; the arguments are those of [`subfield::Sender::setup`].
    pub fn setup(
        traffic: &mut Traffic,
        expected: usize,
        optimize: Optimize,
        cots: Cots,
    ) -> Entries<W> {
        let sizes = subfield::sizes(W, expected, optimize);
        Entries(Model::setup(OfEntries { cots }, sizes, traffic))
    }

    /// The next entries.
    pub fn extend_entries(&mut self, traffic: &mut Traffic, count: usize) {
        self.0.extend(traffic, count);
    }

    /// The next COTs.
    pub fn extend(&mut self, traffic: &mut Traffic, count: usize) {
        self.0.sends.cots.extend(traffic, count);
    }
}
