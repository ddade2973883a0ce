//! How many items match.

use std::ops::RangeInclusive;

use vesica_wire::Error;

use super::super::Plan;
use super::{Computed, Function, Receiving, Sending};
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;

pub(super) struct Size;

impl Function for Size {
    fn zero(&self, plan: &Plan, bins: usize) -> Option<Number> {
        Some(Number::no_size(bins, plan.task.min_size))
    }

    fn cost(&self, plan: &Plan, cells: Bins) -> Cost {
        cost::size(cells, plan.task.min_size)
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let minimum = at.plan.task.min_size;
        let size = at.engine.size(at.channel, at.rng, &at.matches, minimum)?;
        Ok(Computed::Numbers(vec![size]))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let minimum = at.plan.task.min_size;
        let size = at.engine.size(at.channel, at.rng, &at.matches, minimum)?;
        Ok(Computed::Numbers(vec![size]))
    }

    fn range(&self, plan: &Plan) -> RangeInclusive<i64> {
        let least = i64::try_from(plan.task.min_size).unwrap_or(i64::MAX);
        least..=(plan.parts() * plan.most_matches) as i64
    }
}
