//! The sums of the values that one of the parties has.

use vesica_wire::Error;

use super::super::{Plan, Received, Run, Sent};
use super::{Computed, Function, Own, slices};
use crate::cost::{self, Cost};

pub(super) struct Sum;

impl Function for Sum {
    fn cost(&self, plan: &Plan, cells: usize) -> Cost {
        let (values, minimum) = (plan.task.values, plan.task.min_size);
        match [values.receiver, values.sender].map(usize::from) {
            [0, sender] => cost::sums_of_sender(cells, sender, minimum),
            [receiver, _] => cost::sums_of_receiver(cells, receiver, minimum),
        }
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
        let (plan, minimum) = (run.plan, run.plan.task.min_size);
        let sums = match plan.task.values.receiver {
            0 => {
                run.reverse_receiver(engine)?;
                engine.sums_of_sender(run.channel, run.rng, matches, masked, minimum)
            }
            _ => {
                let own = own.values(plan, &own.cells(plan, matches.len()));
                engine.sums_of_receiver(run.channel, run.rng, matches, &slices(&own), minimum)
            }
        };
        sums.map(Computed::Numbers)
    }

    fn send(&self, run: &mut Run<'_>, sent: &mut Sent) -> Result<Computed, Error> {
        let Sent {
            engine,
            matches,
            masks,
        } = sent;
        let minimum = run.plan.task.min_size;
        let sums = match run.plan.task.values.receiver.into() {
            0 => {
                run.reverse_sender(engine)?;
                engine.sums_of_sender(run.channel, run.rng, matches, masks, minimum)
            }
            columns => engine.sums_of_receiver(run.channel, run.rng, matches, columns, minimum),
        };
        sums.map(Computed::Numbers)
    }
}
