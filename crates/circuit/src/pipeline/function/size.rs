//! How many items match.

use std::ops::RangeInclusive;

use vesica_wire::Error;

use super::super::{Plan, Received, Run, Sent};
use super::{Computed, Function, Own};
use crate::cost::{self, Cost};

pub(super) struct Size;

impl Function for Size {
    fn cost(&self, plan: &Plan, cells: usize) -> Cost {
        cost::size(cells, plan.task.min_size)
    }

    fn receive(
        &self,
        run: &mut Run<'_>,
        received: &mut Received,
        _: &Own<'_>,
    ) -> Result<Computed, Error> {
        let Received {
            engine, matches, ..
        } = received;
        let size = engine.size(run.channel, run.rng, matches, run.plan.task.min_size)?;
        Ok(Computed::Numbers(vec![size]))
    }

    fn send(&self, run: &mut Run<'_>, sent: &mut Sent) -> Result<Computed, Error> {
        let Sent {
            engine, matches, ..
        } = sent;
        let size = engine.size(run.channel, run.rng, matches, run.plan.task.min_size)?;
        Ok(Computed::Numbers(vec![size]))
    }

    fn range(&self, plan: &Plan) -> RangeInclusive<i64> {
        let least = i64::try_from(plan.task.min_size).unwrap_or(i64::MAX);
        least..=plan.most_matches as i64
    }
}
