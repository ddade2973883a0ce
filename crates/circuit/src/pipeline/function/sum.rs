//! The sums of the values that one of the parties has.

use vesica_wire::Error;

use super::super::Plan;
use super::{Computed, Function, Receiving, Sending, slices};
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;

pub(super) struct Sum;

impl Function for Sum {
    fn zero(&self, plan: &Plan, _: usize) -> Option<Number> {
        Some(Number::no_sum(plan.task.min_size))
    }

    fn cost(&self, plan: &Plan, cells: Bins) -> Cost {
        let (values, minimum) = (plan.task.values, plan.task.min_size);
        match [values.receiver, values.sender].map(usize::from) {
            [0, sender] => cost::sums_of_sender(cells, sender, minimum),
            [receiver, _] => {
                cost::sums_of_receiver(cells, plan.group_columns() * receiver, minimum)
            }
        }
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let (values, minimum) = (at.plan.task.values, at.plan.task.min_size);
        let sums = if values.receiver > 0 {
            let cells = at.cells();
            let own = at.values(&cells).into_iter();
            let own: Vec<_> = own.flat_map(|values| at.by_group(values)).collect();
            let segments = at.plan.segments(cells.len());
            let (engine, own) = (&mut at.engine, slices(&own));
            let own = (&own[..], &segments[..]);
            engine.sums_of_receiver(at.channel, at.rng, &at.matches, own, minimum)
        } else {
            at.reverse()?;
            let engine = &mut at.engine;
            engine.sums_of_sender(at.channel, at.rng, &at.matches, &at.masked, minimum)
        };
        sums.map(Computed::Numbers)
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let (values, minimum) = (at.plan.task.values, at.plan.task.min_size);
        let sums = if values.receiver > 0 {
            let columns = at.plan.group_columns() * usize::from(values.receiver);
            let segments = at.plan.segments(at.matches.len());
            let (engine, columns) = (&mut at.engine, (columns, &segments[..]));
            engine.sums_of_receiver(at.channel, at.rng, &at.matches, columns, minimum)
        } else {
            at.reverse()?;
            let engine = &mut at.engine;
            engine.sums_of_sender(at.channel, at.rng, &at.matches, &at.masks, minimum)
        };
        sums.map(Computed::Numbers)
    }
}
