//! The rows of the party that hashed whose items the other one lacks.
//!
//! In a run for them the two parties have exchanged their parts: the sender of the rows put its items into the table, since it
//! alone may know which of them is in which bin.
//!
//! 1. It puts the shared bits of its table into an order of its own: the bins with an item, in uniform order, and then the others,
//!    in uniform order too. So the place of a row tells neither its bin nor when it was read, and how long the order takes to
//!    route tells nothing of the items.
//! 2. Of the first ones, one for each of its items, it hands over the rows where nothing matches ([`crate::rows`]). Items beyond
//!    the last that has a row pad the set; their slots look as if they matched.
//!
//! The other party learns how many of the items match, since it knows how many there are. The party that hands over learns
//! nothing.

use rand_core::CryptoRng;
use vesica_correlations::bulk::traffic::Entries;
use vesica_oprf::programmable::LEFT_SHARE;
use vesica_primitives::security::lambda_each;
use vesica_psi::{Output, RowSlots};
use vesica_wire::{End, Error, Frames, Traffic};
use zeroize::Zeroizing;

use super::super::Plan;
use super::super::traffic::extend;
use super::groups::shuffle;
use super::{Computed, Function, Receiving, Sending};
use crate::bits::BitShares;
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;
use crate::messages::PACKED;
use crate::rows::Width;

pub(super) struct Union;

impl Function for Union {
    fn zero(&self, _: &Plan, _: usize) -> Option<Number> {
        None
    }

    fn cost(&self, plan: &Plan, cells: Bins) -> Cost {
        plan.cost_of_rows(cells, plan.width_of_union())
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let rows = at.input.labels.unwrap_or_default();
        at.hand_over(rows, at.plan.width_of_union())?;
        Ok(Computed::Output(Output::Nothing))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let slots = at.take_over(at.plan.width_of_union())?;
        Ok(Computed::Output(Output::Rows(slots)))
    }
}

impl Receiving<'_> {
    /// Hands over the rows of this side's items that the peer lacks. Items beyond the last row have none. The other party calls
    /// [`Sending::take_over`].
    pub(super) fn hand_over(&mut self, rows: &[u8], width: Width) -> Result<(), Error> {
        let (plan, cells) = (self.plan, self.cells());
        let order = order(&cells, self.rng);
        self.reverse()?;
        let engine = &mut self.engine;
        let matches = engine.permute(self.channel, self.rng, &order, &self.matches)?;
        // This side alone inverts its shares.
        let lacks = BitShares::from_fn(plan.slots(), |slot| matches.get(slot) ^ 1);
        let bytes = width.row;
        let (count, none) = (rows.len() / bytes, vec![0; bytes]);
        // One that pads the set reads a row too.
        let row = |slot: usize| {
            let item = cells[order[slot] as usize].unwrap_or(0) as usize;
            let place = item.checked_rem(count).unwrap_or(0);
            let row = rows.chunks_exact(bytes).nth(place);
            (row.unwrap_or(&none), item < count)
        };
        engine.hand_over(self.channel, self.rng, &lacks, width, row)
    }
}

impl Sending<'_> {
    /// The other side of [`Receiving::hand_over`].
    pub(super) fn take_over(&mut self, width: Width) -> Result<RowSlots, Error> {
        self.reverse()?;
        let engine = &mut self.engine;
        let matches = engine.permute(self.channel, self.rng, &self.matches)?;
        let lacks = matches.first(self.plan.slots());
        engine.take_over(self.channel, self.rng, &lacks, width)
    }
}

impl Plan {
    /// Slots for rows: one for each item of the party that hashed.
    pub(super) fn slots(&self) -> usize {
        self.items[0]
    }

    /// Statistical security in bits of each of so many events after the membership test, which share what the OPPRFs have left
    /// of λ.
    pub(super) fn left(&self, events: u32) -> u32 {
        lambda_each(self.lambda() + LEFT_SHARE, events)
    }

    /// Tags are all that can fail.
    pub(in super::super) fn width_of_union(&self) -> Width {
        Width::new(self.task.label_bytes, self.slots(), self.left(1))
    }

    /// The cost of handing over rows.
    pub(super) fn cost_of_rows(&self, cells: Bins, width: Width) -> Cost {
        cost::permutation(cells.here) + cost::rows(self.slots(), width)
    }

    /// Adds what handing over rows sends.
    pub(in super::super) fn traffic_of_rows<const W: u32>(
        &self,
        traffic: &mut Traffic,
        main: &mut Entries<W>,
        cells: usize,
        width: Width,
    ) {
        let slots = self.slots();
        self.permutation_traffic(traffic, cells);
        for first in (0..slots).step_by(width.window()) {
            let slots = width.window().min(slots - first);
            extend(main, traffic, slots);
            traffic.flow(End::Sender, Frames::packed(slots, 1, PACKED));
            traffic.flow(
                End::Receiver,
                Frames {
                    payload: (slots * width.bytes()) as u64,
                    count: slots.div_ceil(width.piece()) as u64,
                },
            );
        }
    }
}

/// The cells with an item in uniform order, and then the others in uniform order.
fn order(cells: &[Option<u32>], rng: &mut dyn CryptoRng) -> Zeroizing<Vec<u32>> {
    let mut order = Zeroizing::new(Vec::with_capacity(cells.len()));
    let mut full = 0;
    for has_item in [true, false] {
        let numbered = (0..).zip(cells);
        let these = numbered.filter(|(_, item)| item.is_some() == has_item);
        order.extend(these.map(|(cell, _)| cell));
        shuffle(&mut order[full..], rng);
        full = order.len();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testing::rng;

    #[test]
    fn every_cell_has_a_place_and_full_ones_come_first() {
        for count in [0u32, 1, 2, 100] {
            let cells: Vec<_> = (0..count).map(|i| (i % 4 > 0).then_some(i)).collect();
            let order = order(&cells, &mut rng(1));
            let full = cells.iter().flatten().count();
            let are_full = order.iter().map(|cell| cells[*cell as usize].is_some());
            assert!(are_full.enumerate().all(|(place, is)| is == (place < full)));
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..count));
        }
    }

    /// Each of the six orders of three items, and of the two of the others, within five standard deviations.
    #[test]
    fn orders_are_uniform() {
        let (mut found, mut rng) = (std::collections::BTreeMap::new(), rng(2));
        for _ in 0..12_000 {
            let order = order(&[Some(0), None, Some(1), Some(2), None], &mut rng);
            *found.entry(order.to_vec()).or_insert(0) += 1;
        }
        assert_eq!(found.len(), 12);
        assert!(
            found.values().all(|count| (849..1151).contains(count)),
            "{found:?}"
        );
    }
}
