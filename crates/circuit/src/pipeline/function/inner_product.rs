//! The sum of the products of both parties' values.

use vesica_wire::Error;

use super::super::{Plan, Received, Run, Sent};
use super::{Computed, Function, Own};
use crate::cost::{self, Cost};

pub(super) struct InnerProduct;

impl Function for InnerProduct {
    fn cost(&self, plan: &Plan, cells: usize) -> Cost {
        cost::inner_product(cells, plan.task.min_size, plan.lambda())
    }

    fn receive(
        &self,
        run: &mut Run<'_>,
        received: &mut Received,
        own: &Own<'_>,
    ) -> Result<Computed, Error> {
        let Received {
            engine,
            matches,
            masked,
        } = received;
        run.reverse_receiver(engine)?;
        let plan = run.plan;
        let own = own.values(plan, &own.cells(plan, matches.len()));
        let (vectors, least) = ((&own[0][..], &*masked), (plan.task.min_size, plan.lambda()));
        let number = engine.inner_product(run.channel, run.rng, matches, vectors, least)?;
        Ok(Computed::Numbers(vec![number]))
    }

    fn send(&self, run: &mut Run<'_>, sent: &mut Sent) -> Result<Computed, Error> {
        let Sent {
            engine,
            matches,
            masks,
        } = sent;
        run.reverse_sender(engine)?;
        let least = (run.plan.task.min_size, run.plan.lambda());
        let number = engine.inner_product(run.channel, run.rng, matches, masks, least)?;
        Ok(Computed::Numbers(vec![number]))
    }
}
