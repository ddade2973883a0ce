//! The sum of the products of both parties' values.

use vesica_wire::Error;

use super::super::Plan;
use super::{Computed, Function, Receiving, Sending};
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;

pub(super) struct InnerProduct;

impl Function for InnerProduct {
    fn zero(&self, plan: &Plan, _: usize) -> Option<Number> {
        Some(Number::no_sum(plan.task.min_size))
    }

    fn cost(&self, plan: &Plan, cells: Bins) -> Cost {
        cost::inner_product(cells, plan.task.min_size, plan.lambda())
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        at.reverse()?;
        let least = (at.plan.task.min_size, at.plan.lambda());
        let own = at.values(&at.cells());
        let (engine, vectors) = (&mut at.engine, (&own[0][..], &at.masked));
        let number = engine.inner_product(at.channel, at.rng, &at.matches, vectors, least)?;
        Ok(Computed::Numbers(vec![number]))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        at.reverse()?;
        let least = (at.plan.task.min_size, at.plan.lambda());
        let engine = &mut at.engine;
        let number = engine.inner_product(at.channel, at.rng, &at.matches, &at.masks, least)?;
        Ok(Computed::Numbers(vec![number]))
    }
}
