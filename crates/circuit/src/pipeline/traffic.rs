//! What a run sends, computed without running it.
//!
//! The membership test takes its entries piece by piece as [`crate::membership`] does, so that the messages of their source
//! are those of a run. Bytes and flows of the function are those of [`crate::cost`]; its COTs are counted as taken one after
//! the other, and its frames as one for each flow.

use vesica_correlations::bulk::traffic::{Cots, Entries};
use vesica_psi::Reveal;
use vesica_wire::{End, Frames, Traffic};

use super::{Plan, Recipe, Stages};
use crate::cost::{self, Cost};
use crate::cots::{COTS, NARROW, WIDTH};
use crate::digits::{self, Level, PIECE};
use crate::functions::Answer;
use crate::membership::{Compared, pieces, takes, windows};
use crate::messages::PACKED;
use crate::network::switches;

/// A test whether the sender's string of each bin is among the receiver's.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub(super) of: Compared,
    /// Whether the sender draws its strings before they are programmed.
    pub(super) is_drawn: bool,
}

impl Test {
    /// Of strings that the sender has.
    pub(super) fn new(of: Compared) -> Test {
        Test {
            of,
            is_drawn: false,
        }
    }

    /// Of strings that the sender draws.
    pub(super) fn of_drawn(of: Compared) -> Test {
        Test { of, is_drawn: true }
    }

    /// Its cost by digits of so many bits, [`NARROW`] or [`WIDTH`].
    pub(super) fn cost(&self, digit_bits: u32) -> Cost {
        let cost = match digit_bits {
            NARROW => cost::transfers::<NARROW>,
            _ => cost::transfers::<WIDTH>,
        };
        let of = self.of;
        cost(of.bins, of.bits, of.candidates, self.is_drawn)
    }

    fn levels<const W: u32>(&self) -> Vec<Level<W>> {
        digits::levels(self.of.bits, self.of.candidates, self.is_drawn)
    }

    /// What is taken before the strings are programmed.
    fn draw<const W: u32>(&self, traffic: &mut Traffic, entries: &mut Entries<W>) {
        let first = &self.levels::<W>()[0];
        for window in windows(first, self.of.bins) {
            take(traffic, entries, first, window);
        }
    }

    fn traffic<const W: u32>(&self, traffic: &mut Traffic, entries: &mut Entries<W>) {
        for (number, level) in self.levels::<W>().iter().enumerate() {
            for (start, end) in windows(level, self.of.bins) {
                if !(self.is_drawn && number == 0) {
                    take(traffic, entries, level, (start, end));
                }
                let frames = |bits| Frames::packed(end - start, bits, PIECE);
                if level.choice_bits() > 0 {
                    traffic.flow(End::Sender, frames(level.choice_bits()));
                }
                traffic.flow(End::Receiver, frames(level.table_bits()));
            }
        }
    }
}

/// The entries of a window of a level.
fn take<const W: u32>(
    traffic: &mut Traffic,
    entries: &mut Entries<W>,
    level: &Level<W>,
    (start, end): (usize, usize),
) {
    for (_, count) in pieces(start, end) {
        for tiles in takes(level, count) {
            entries.extend_entries(traffic, tiles * count);
        }
    }
}

impl Plan {
    /// What a run of one part sends; `None` for one with a stash.
    pub(super) fn traffic<R: Recipe>(&self) -> Option<Traffic> {
        if self.second.is_some() {
            return None;
        }
        Some(match self.digit_bits() {
            NARROW => self.traffic_by::<R, NARROW>(),
            _ => self.traffic_by::<R, WIDTH>(),
        })
    }

    /// The same by digits of W bits.
    fn traffic_by<R: Recipe, const W: u32>(&self) -> Traffic {
        let (cost, optimize) = (self.cost::<R>(), self.task.optimize);
        let cells = R::Stages::shares(self);
        let function = self.function_cost(cells);
        let (mut traffic, test) = (Traffic::default(), R::Stages::test(self));
        if !test.is_drawn {
            R::Stages::traffic(self, &mut traffic);
        }
        let main = self.main_cots(&cost);
        let agreement = self.key_agreement;
        let main = Cots::setup(&mut traffic, End::Receiver, main, optimize, agreement);
        let mut main = Entries::<W>::setup(&mut traffic, cost.entries, optimize, main);
        if test.is_drawn {
            test.draw(&mut traffic, &mut main);
            R::Stages::traffic(self, &mut traffic);
        }
        test.traffic(&mut traffic, &mut main);
        match self.task.reveal.last() {
            Reveal::Union => {
                let width = self.width_of_union();
                self.traffic_of_rows(&mut traffic, &mut main, cells, width);
                return traffic;
            }
            Reveal::Ids => {
                self.traffic_of_ids(&mut traffic, &mut main, cells);
                return traffic;
            }
            _ => {}
        }
        let wires = self.wires(cells);
        if wires > 0 {
            self.permutation_traffic(&mut traffic, wires);
        }
        extend(&mut main, &mut traffic, function.cots);
        if self.has_payloads() {
            self.reverse_traffic(&mut traffic, function.reverse_cots);
        }
        function.exchanged(&mut traffic);
        if self.task.reveal.is_value() {
            self.opening_traffic(&mut traffic, cells);
        }
        traffic
    }

    /// Adds so many COTs of the reverse direction.
    fn reverse_traffic(&self, traffic: &mut Traffic, count: usize) {
        let (optimize, agreement) = (self.task.optimize, self.key_agreement);
        let mut reverse = Cots::setup(traffic, End::Sender, count, optimize, agreement);
        for first in (0..count).step_by(COTS) {
            reverse.extend(traffic, COTS.min(count - first));
        }
    }

    /// Adds what putting so many bits into an order takes.
    pub(super) fn permutation_traffic(&self, traffic: &mut Traffic, bits: usize) {
        let count = switches(bits);
        self.reverse_traffic(traffic, count);
        let packed = |bits| Frames::packed(bits, 1, PACKED);
        traffic.flow(End::Receiver, packed(count));
        traffic.flow(End::Sender, packed(count) + packed(bits));
    }

    /// Adds what opening numbers sends. Only a comparison takes COTs.
    fn opening_traffic(&self, traffic: &mut Traffic, cells: usize) {
        let (cost, optimize) = (self.opening_cost(cells), self.task.optimize);
        if self.task.min_size > 0 {
            let main = self.main_cots(&cost);
            let main = Cots::setup(traffic, End::Receiver, main, optimize, self.key_agreement);
            let mut main = Entries::<WIDTH>::setup(traffic, cost.entries, optimize, main);
            extend(&mut main, traffic, cost.cots);
        }
        cost.exchanged(traffic);
        if self.task.both {
            let count = self.task.reveal.numbers(self.task.values).len();
            traffic.flow(End::Receiver, Answer::told_frames(count));
        }
    }
}

/// Takes so many COTs from a source.
pub(super) fn extend<const W: u32>(main: &mut Entries<W>, traffic: &mut Traffic, count: usize) {
    for first in (0..count).step_by(COTS) {
        main.extend(traffic, COTS.min(count - first));
    }
}

impl Cost {
    /// Adds bytes and flows, which begin with the sender's.
    fn exchanged(&self, traffic: &mut Traffic) {
        for flow in 0..self.flows {
            let (from, bytes) = match flow % 2 {
                0 => (End::Sender, self.sender_bytes),
                _ => (End::Receiver, self.receiver_bytes),
            };
            let payload = if flow < 2 { bytes as u64 } else { 0 };
            traffic.flow(from, Frames { payload, count: 1 });
        }
    }
}
