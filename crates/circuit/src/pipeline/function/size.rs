//! How many items match.

use std::ops::RangeInclusive;

use vesica_psi::Reveal;
use vesica_wire::Error;

use super::super::Plan;
use super::{Computed, Function, Receiving, Sending};
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;

pub(super) struct Size;

impl Function for Size {
    fn zero(&self, plan: &Plan, bins: usize) -> Option<Number> {
        let task = &plan.task;
        Some(Number::no_size(bins, task.min_size, task.noise_span))
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

    /// Under a minimum a size is what is compared, unless there are other numbers, whose counts have noise of their own.
    fn range(&self, plan: &Plan) -> RangeInclusive<i64> {
        let (task, signed) = (&plan.task, |number| {
            i64::try_from(number).unwrap_or(i64::MAX)
        });
        let span = signed(task.noise_span);
        let is_compared = span == 0 || task.reveal == Reveal::Size;
        let least = match task.min_size {
            minimum if minimum > 0 && is_compared => signed(minimum),
            _ => -span,
        };
        least..=(plan.parts() * plan.most_matches()) as i64 + span
    }
}
