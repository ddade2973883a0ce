//! How many items match.

use std::ops::RangeInclusive;

use vesica_psi::Reveal;
use vesica_wire::Error;
use zeroize::Zeroizing;

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
        cost::sizes(cells, plan.group_columns(), plan.task.min_size)
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let (plan, minimum) = (at.plan, at.plan.task.min_size);
        let segments = plan.segments(at.matches.len());
        let columns = at.by_group(Zeroizing::new(vec![1u64; at.matches.len()]));
        let columns: Vec<&[u64]> = columns.iter().map(|column| &column[..]).collect();
        let (engine, all) = (&mut at.engine, (&columns[..], &segments[..]));
        let sizes = engine.sizes(at.channel, at.rng, &at.matches, all, minimum)?;
        Ok(Computed::Numbers(sizes))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let (plan, minimum) = (at.plan, at.plan.task.min_size);
        let segments = plan.segments(at.matches.len());
        let (engine, all) = (&mut at.engine, (plan.group_columns(), &segments[..]));
        let sizes = engine.sizes(at.channel, at.rng, &at.matches, all, minimum)?;
        Ok(Computed::Numbers(sizes))
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
