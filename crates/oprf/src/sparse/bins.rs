//! The rows in a polynomial per bin: `spot-fast`.
//!
//! Each of the receiver's items goes into one of two bins, so that no bin exceeds the capacity (PRTY19,
//! algorithm 1: [`two_choice`]), and random points pad the bins. The sender has a point for each of an item's
//! two bins. A point is the item with the number of the hash function in place of its lowest bit, so an item
//! whose functions agree still has two points (section 4.3).

use rand_core::CryptoRng;
use vesica_encodings::{Entry, two_choice};
use vesica_kernels::gf2k::Field;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_primitives::polynomial::bins;
use vesica_wire::{Channel, Error, Frames, Kind, Limit, send_rows};

use super::rows::Row;
use super::slices::{recv_strings, unlucky};
use super::strings::{self, SLICES, add_slice, slice_of};
use super::{EVENTS, Message, Points};
use crate::{Item, Params, Spec, bytes, halves, sparse};

/// Frames with coefficients of bins.
pub const BINS: Kind = Kind {
    code: 63,
    name: "bin polynomials",
};

/// Bins that are processed together; their coefficients are sent slice by slice.
const GROUP: usize = 1 << 10;

/// Points that are evaluated together, at most.
const POINTS: usize = 1 << 17;

/// The bin of each point, ascending.
type Numbers = Vec<u32>;

static SPEC: Spec = sparse::spec::<Bins>(
    "spot-fast",
    "PRTY19, figure 7",
    1 << 26,
    // A row of 64 bytes per point, of which the sender has two per item. Measured at 2^10 and 2^20 items.
    |receiver_size, sender_size| bytes(receiver_size, 170).max(bytes(sender_size, 280)),
);

/// A message that is a polynomial per bin.
pub struct Bins {
    bits: usize,
    functions: two_choice::Functions,
}

impl Bins {
    fn capacity(&self) -> usize {
        self.functions.parameters().capacity
    }

    fn mask(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    fn points(&self, table: &vesica_encodings::Bins, items: &[Item]) -> Points<Numbers> {
        let point = |entry: &Entry| {
            let [key, _] = halves(&items[entry.item()]);
            key & !1 | entry.function() as Block
        };
        let bins = (0..table.len())
            .flat_map(|bin| std::iter::repeat_n(bin as u32, table.bin(bin).len()))
            .collect();
        let entries = table.entries();
        Points {
            points: parallel::map_items(entries, point),
            numbers: parallel::map_items(entries, |e| e.item() as u32),
            layout: bins,
        }
    }

    /// The groups of bins, as the first bin and the end (exclusive).
    fn groups(&self) -> impl Iterator<Item = (usize, usize)> {
        let all = match self.capacity() {
            0 => 0,
            _ => self.functions.parameters().bins,
        };
        (0..all)
            .step_by(GROUP)
            .map(move |first| (first, all.min(first + GROUP)))
    }

    /// Which points are of bins from `first` up to `end`.
    fn range(points: &Points<Numbers>, (first, end): (usize, usize)) -> std::ops::Range<usize> {
        let begin = |bin: usize| points.layout.partition_point(|b| (*b as usize) < bin);
        begin(first)..begin(end)
    }
}

fn keys(items: &[Item]) -> Vec<Block> {
    parallel::map_items(items, |item| halves(item)[0])
}

impl Message for Bins {
    const POINTS: usize = 2;

    fn spec() -> &'static Spec {
        &SPEC
    }

    type Layout = Numbers;

    fn new(params: &Params, width: usize) -> Self {
        let parameters =
            two_choice::Parameters::new(params.receiver_size, params.lambda_each(EVENTS));
        Bins {
            bits: strings::bits(width),
            functions: two_choice::Functions::new(parameters, &params.session),
        }
    }

    fn columns(&self) -> usize {
        SLICES * self.bits
    }

    fn frames(&self) -> Frames {
        let group = |(first, end)| strings::frames(self.bits, (end - first) * self.capacity());
        let groups = self.groups().map(group);
        groups.fold(Frames::default(), |sum, frames| sum + frames)
    }

    fn receiver_points(&self, items: &[Item]) -> Result<Points<Numbers>, Error> {
        let table = two_choice::assign(&self.functions, &keys(items))
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        Ok(self.points(&table, items))
    }

    fn sender_points(&self, items: &[Item]) -> Points<Numbers> {
        self.points(&two_choice::both(&self.functions, &keys(items)), items)
    }

    fn write(
        &self,
        channel: &mut dyn Channel,
        points: &Points<Numbers>,
        rows: &[Row],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let mut filler = Prg::random(rng);
        let (capacity, mask) = (self.capacity(), self.mask());
        let field = Field::new(self.bits as u32);
        let all = self.functions.parameters().bins as u64;
        for (first, end) in self.groups() {
            let mut random = || {
                let mut blocks = vec![0; (end - first) * capacity];
                filler.fill(&mut blocks);
                blocks.iter_mut().for_each(|block| *block &= mask);
                blocks
            };
            let mut filled = random();
            let mut values: [Vec<u128>; SLICES] = std::array::from_fn(|_| random());
            let (mut bin, mut place) = (first, 0);
            for i in Self::range(points, (first, end)) {
                if points.layout[i] as usize != bin {
                    (bin, place) = (points.layout[i] as usize, 0);
                }
                let at = (bin - first) * capacity + place;
                filled[at] = points.points[i] & mask;
                for (slice, values) in values.iter_mut().enumerate() {
                    values[at] = slice_of(&rows[i], slice, self.bits);
                }
                place += 1;
            }
            let values = values.each_ref().map(|values| &values[..]);
            let polynomials =
                bins::interpolate(field, capacity, &filled, values).map_err(unlucky)?;
            for coefficients in polynomials {
                let bytes = strings::pack(&coefficients, self.bits);
                send_rows(channel, BINS, &bytes, self.bits)?;
            }
            channel.progress(end as u64, all);
        }
        Ok(())
    }

    fn read(
        &self,
        channel: &mut dyn Channel,
        points: &Points<Numbers>,
        s: &Row,
        rows: &mut [Row],
    ) -> Result<(), Error> {
        let (capacity, mask) = (self.capacity(), self.mask());
        let field = Field::new(self.bits as u32);
        let all = self.functions.parameters().bins as u64;
        for (first, end) in self.groups() {
            let mut polynomials: [Vec<u128>; SLICES] = Default::default();
            for coefficients in &mut polynomials {
                let count = (end - first) * capacity;
                *coefficients = recv_strings(channel, BINS, self.bits, count)?;
            }
            let polynomials = polynomials.each_ref().map(|coefficients| &coefficients[..]);
            let range = Self::range(points, (first, end));
            let asked = points.points[range.clone()].chunks(POINTS);
            let numbers = points.layout[range.clone()].chunks(POINTS);
            let rows = rows[range].chunks_mut(POINTS);
            for ((asked, numbers), rows) in asked.zip(numbers).zip(rows) {
                let elements: Vec<u128> = asked.iter().map(|point| point & mask).collect();
                let numbers: Vec<u32> = numbers.iter().map(|bin| bin - first as u32).collect();
                let values = bins::evaluate(field, capacity, polynomials, &numbers, &elements);
                parallel::each_item(rows, |i, row| {
                    for (slice, values) in values.iter().enumerate() {
                        add_slice(row, s, slice, self.bits, values[i]);
                    }
                });
            }
            channel.progress(end as u64, all);
        }
        Ok(())
    }
}
