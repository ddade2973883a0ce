//! Which items match, if enough do.

use vesica_psi::Output;
use vesica_wire::Error;

use super::super::Plan;
use super::{Computed, Function, Receiving, Sending};
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;

pub(super) struct ThresholdMatches;

impl Function for ThresholdMatches {
    fn zero(&self, _: &Plan, _: usize) -> Option<Number> {
        None
    }

    fn cost(&self, _: &Plan, cells: Bins) -> Cost {
        cost::matches(cells.here)
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let minimum = at.plan.task.min_size;
        let matches = at
            .engine
            .matches(at.channel, at.rng, &at.matches, minimum)?;
        let matched = matched_items(&at.cells(), &matches, at.input.items.len());
        Ok(Computed::Output(Output::Matches(matched)))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let minimum = at.plan.task.min_size;
        at.engine
            .matches(at.channel, at.rng, &at.matches, minimum)?;
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
