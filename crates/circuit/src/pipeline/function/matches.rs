//! Which items match, if enough do.

use vesica_psi::Output;
use vesica_wire::Error;

use super::super::{Plan, Received, Run, Sent};
use super::{Computed, Function, Own};
use crate::cost::{self, Cost};

pub(super) struct ThresholdMatches;

impl Function for ThresholdMatches {
    fn cost(&self, _: &Plan, cells: usize) -> Cost {
        cost::matches(cells)
    }

    fn receive(
        &self,
        run: &mut Run<'_>,
        received: &mut Received,
        own: &Own<'_>,
    ) -> Result<Computed, Error> {
        let Received {
            engine, matches, ..
        } = received;
        let matches = engine.matches(run.channel, run.rng, matches, run.plan.task.min_size)?;
        let cells = own.cells(run.plan, matches.len());
        let matched = matched_items(&cells, &matches, own.input.items.len());
        Ok(Computed::Output(Output::Matches(matched)))
    }

    fn send(&self, run: &mut Run<'_>, sent: &mut Sent) -> Result<Computed, Error> {
        let Sent {
            engine, matches, ..
        } = sent;
        engine.matches(run.channel, run.rng, matches, run.plan.task.min_size)?;
        Ok(Computed::Output(Output::Nothing))
    }
}

/// For each of `items` items whether its cell matches. The time does not depend on that.
fn matched_items(cells: &[Option<u32>], matches: &[bool], items: usize) -> Vec<bool> {
    let mut matched = vec![false; items];
    for (item, matches) in cells.iter().zip(matches) {
        if let Some(item) = item {
            matched[*item as usize] = *matches;
        }
    }
    matched
}
