//! Nothing: both parties keep shares of which cells match, and of what their items have there.

use vesica_psi::{self as psi, Output};
use vesica_wire::Error;
use zeroize::Zeroizing;

use super::super::payload::{to_bytes, to_words};
use super::super::{Plan, Secret};
use super::{Computed, Function, Receiving, Sending, slices};
use crate::cost::{self, Bins, Cost};
use crate::functions::Number;

pub(super) struct Shares;

impl Function for Shares {
    fn zero(&self, _: &Plan, _: usize) -> Option<Number> {
        None
    }

    fn cost(&self, plan: &Plan, Bins { here: cells, .. }: Bins) -> Cost {
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

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let (bytes, cells) = (at.plan.task.string_bytes, at.cells());
        let mut shares = psi::Shares::new(None, at.matches.bools());
        let own = at.values(&cells);
        if !own.is_empty() {
            let (engine, own) = (&mut at.engine, slices(&own));
            shares.receiver_values =
                engine.shares_of_receiver(at.channel, at.rng, &at.matches, &own)?;
        }
        if bytes.receiver > 0 {
            let own = at.strings(&cells, bytes.receiver);
            let (engine, own) = (&mut at.engine, (bytes.receiver, &own[..]));
            let words = engine.string_of_receiver(at.channel, at.rng, &at.matches, own)?;
            shares.receiver_strings = to_bytes(&words, bytes.receiver);
        }
        if at.plan.has_payloads() {
            at.reverse()?;
        }
        let engine = &mut at.engine;
        if at.plan.form.columns > 0 {
            shares.sender_values =
                engine.shares_of_sender(at.channel, at.rng, &at.matches, &at.masked)?;
        }
        if bytes.sender > 0 {
            let masked = (bytes.sender, &at.masked);
            let words = engine.string_of_sender(at.channel, at.rng, &at.matches, masked)?;
            shares.sender_strings = to_bytes(&words, bytes.sender);
        }
        shares.items = Some(cells);
        Ok(Computed::Output(Output::Shares(shares)))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let (columns, bytes) = (at.plan.task.values.receiver, at.plan.task.string_bytes);
        let mut shares = psi::Shares::new(None, at.matches.bools());
        let engine = &mut at.engine;
        if columns > 0 {
            shares.receiver_values =
                engine.shares_of_receiver(at.channel, at.rng, &at.matches, columns.into())?;
        }
        if bytes.receiver > 0 {
            let of = bytes.receiver;
            let words = engine.string_of_receiver(at.channel, at.rng, &at.matches, of)?;
            shares.receiver_strings = to_bytes(&words, bytes.receiver);
        }
        if at.plan.has_payloads() {
            at.reverse()?;
        }
        let engine = &mut at.engine;
        if at.plan.form.columns > 0 {
            shares.sender_values =
                engine.shares_of_sender(at.channel, at.rng, &at.matches, &at.masks)?;
        }
        if bytes.sender > 0 {
            let masks = (bytes.sender, &at.masks);
            let words = engine.string_of_sender(at.channel, at.rng, &at.matches, masks)?;
            shares.sender_strings = to_bytes(&words, bytes.sender);
        }
        Ok(Computed::Output(Output::Shares(shares)))
    }
}

impl Receiving<'_> {
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
