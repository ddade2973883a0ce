//! Which items match, if enough do.
//!
//! In a run of several parts both parties keep their shares of which cells match. Once all parts have run, the cells of each
//! are counted, the sum is compared with the minimum, and those of each are opened: none of them matches unless enough do in
//! all parts together.

use rand_core::CryptoRng;
use vesica_psi::{Half, Output, SharedMatches, matched_items};
use vesica_wire::{Channel, Error};

use super::super::{Plan, Run};
use super::shares::Shares;
use super::{Computed, Function, Receiving, Sending};
use crate::bits::BitShares;
use crate::cost::{self, Bins, Cost};
use crate::cots::WIDTH;
use crate::functions::{Number, OpensMatches};

pub(super) struct ThresholdMatches;

impl Function for ThresholdMatches {
    fn zero(&self, _: &Plan, _: usize) -> Option<Number> {
        None
    }

    fn cost(&self, plan: &Plan, cells: Bins) -> Cost {
        match plan.parts() {
            1 => cost::matches(cells),
            _ => Shares.cost(plan, cells),
        }
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        if at.plan.parts() > 1 {
            return Shares.receive(at);
        }
        let minimum = at.plan.task.min_size;
        let matches = at
            .engine
            .matches(at.channel, at.rng, &at.matches, minimum)?;
        let matched = matched_items(&at.cells(), &matches);
        Ok(Computed::Output(Output::Matches(matched)))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        if at.plan.parts() > 1 {
            return Shares.send(at);
        }
        let minimum = at.plan.task.min_size;
        at.engine
            .matches(at.channel, at.rng, &at.matches, minimum)?;
        Ok(Computed::Output(Output::Nothing))
    }
}

impl Plan {
    /// The party's part of opening which of so many cells match in each part, once all have run.
    pub(in super::super) fn open_matches(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        half: Half,
        cells: usize,
        shares: &mut dyn SharedMatches,
    ) -> Result<(), Error> {
        let bins = self.counted(cells);
        let mut run = Run {
            channel,
            rng,
            plan: self,
            cost: cost::matches(bins),
        };
        match half {
            Half::Receiver => {
                let engine = run.receiving_engine::<WIDTH>()?;
                run.open_parts(engine, bins, shares, |shares, part, matches| {
                    shares.opened(part, &matches)
                })
            }
            Half::Sender => {
                let engine = run.sending_engine::<WIDTH>()?;
                run.open_parts(engine, bins, shares, |_, _, ()| Ok(()))
            }
        }
    }
}

impl Run<'_> {
    /// Counts the matches of all parts, compares, and opens those of each.
    fn open_parts<E: OpensMatches>(
        &mut self,
        mut engine: E,
        bins: Bins,
        shares: &mut dyn SharedMatches,
        opened: impl Fn(&mut dyn SharedMatches, u32, E::Opened) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (parts, minimum) = (self.plan.task.parts, self.plan.task.min_size);
        self.channel.begin_phase("function");
        let mut count = 0u64;
        for part in 0..parts {
            let bits = bits(shares, part, bins)?;
            let more = engine.count(self.channel, self.rng, &bits)?;
            count = count.wrapping_add(more);
            self.progress(part, bins);
        }
        let enough = engine.enough(self.channel, self.rng, count, (minimum, bins.all))?;
        self.channel.begin_phase("opening");
        for part in 0..parts {
            let bits = bits(shares, part, bins)?;
            let matches = engine.open_matches(self.channel, self.rng, &bits, &enough)?;
            opened(shares, part, matches)?;
            self.progress(part, bins);
        }
        Ok(())
    }

    /// A step is done for a part.
    fn progress(&mut self, part: u32, Bins { here, all, .. }: Bins) {
        let done = (part as usize + 1) * here;
        self.channel.progress(done as u64, all as u64);
    }
}

/// This party's shares of which cells of a part match.
///
/// # Panics
/// If there are more or fewer than a part has cells.
fn bits(shares: &mut dyn SharedMatches, part: u32, bins: Bins) -> Result<BitShares, Error> {
    let bits = BitShares::from_bools(&shares.shares(part)?);
    assert_eq!(bits.len(), bins.here, "a share of each cell");
    Ok(bits)
}
