//! Nothing: both parties keep shares of which cells match, and of what their items have there.

use vesica_psi::{self as psi, Output};
use vesica_wire::Error;
use zeroize::Zeroizing;

use super::super::payload::{to_bytes, to_words};
use super::super::{Plan, Received, Run, Secret, Sent};
use super::{Computed, Function, Own, slices};
use crate::cost::{self, Cost};

pub(super) struct Shares;

impl Function for Shares {
    fn cost(&self, plan: &Plan, cells: usize) -> Cost {
        let of = |count: usize, cost: fn(usize, usize) -> Cost| match count {
            0 => Cost::default(),
            _ => cost(cells, count),
        };
        let (values, bytes) = (plan.task.values, plan.task.string_bytes);
        of(values.receiver.into(), cost::shares_of_receiver)
            + of(bytes.receiver, cost::string_of_receiver)
            + of(values.sender.into(), cost::shares_of_sender)
            + of(bytes.sender, cost::string_of_sender)
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
        let (plan, bytes) = (run.plan, run.plan.task.string_bytes);
        let cells = own.cells(plan, matches.len());
        let values = own.values(plan, &cells);
        let mut shares = psi::Shares::new(None, matches.bools());
        if !values.is_empty() {
            shares.receiver_values =
                engine.shares_of_receiver(run.channel, run.rng, matches, &slices(&values))?;
        }
        if bytes.receiver > 0 {
            let own = own.strings(&cells, bytes.receiver);
            let own = (bytes.receiver, &own[..]);
            let words = engine.string_of_receiver(run.channel, run.rng, matches, own)?;
            shares.receiver_strings = to_bytes(&words, bytes.receiver);
        }
        if plan.has_payloads() {
            run.reverse_receiver(engine)?;
        }
        if plan.form.columns > 0 {
            shares.sender_values =
                engine.shares_of_sender(run.channel, run.rng, matches, masked)?;
        }
        if bytes.sender > 0 {
            let masked = (bytes.sender, &*masked);
            let words = engine.string_of_sender(run.channel, run.rng, matches, masked)?;
            shares.sender_strings = to_bytes(&words, bytes.sender);
        }
        shares.items = Some(cells);
        Ok(Computed::Output(Output::Shares(shares)))
    }

    fn send(&self, run: &mut Run<'_>, sent: &mut Sent) -> Result<Computed, Error> {
        let Sent {
            engine,
            matches,
            masks,
        } = sent;
        let (plan, bytes) = (run.plan, run.plan.task.string_bytes);
        let mut shares = psi::Shares::new(None, matches.bools());
        let columns = plan.task.values.receiver.into();
        if columns > 0 {
            shares.receiver_values =
                engine.shares_of_receiver(run.channel, run.rng, matches, columns)?;
        }
        if bytes.receiver > 0 {
            let words = engine.string_of_receiver(run.channel, run.rng, matches, bytes.receiver)?;
            shares.receiver_strings = to_bytes(&words, bytes.receiver);
        }
        if plan.has_payloads() {
            run.reverse_sender(engine)?;
        }
        if plan.form.columns > 0 {
            shares.sender_values = engine.shares_of_sender(run.channel, run.rng, matches, masks)?;
        }
        if bytes.sender > 0 {
            let masks = (bytes.sender, &*masks);
            let words = engine.string_of_sender(run.channel, run.rng, matches, masks)?;
            shares.sender_strings = to_bytes(&words, bytes.sender);
        }
        Ok(Computed::Output(Output::Shares(shares)))
    }
}

impl Own<'_> {
    /// The string of so many bytes in each cell as words, zeros in empty ones.
    fn strings(&self, cells: &[Option<u32>], bytes: usize) -> Secret<u64> {
        let strings = self.input.labels.unwrap_or_default();
        let mut own = Zeroizing::new(vec![0; cells.len() * bytes]);
        for (string, item) in own.chunks_exact_mut(bytes).zip(cells) {
            if let Some(item) = item {
                string.copy_from_slice(&strings[*item as usize * bytes..][..bytes]);
            }
        }
        to_words(&own, bytes)
    }
}
