//! The last stage: from shares of which bins match to what a run reveals.

use std::ops::RangeInclusive;

use rand_core::CryptoRng;
use vesica_correlations::bulk::{self, SemiHonest};
use vesica_oprf::programmable::bins::ReceiverBins;
use vesica_psi::{Input, Output, Reveal, Shares, Task, Values};
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use super::{Plan, Received, Secret, Sent, repeated};
use crate::bits::BitShares;
use crate::cost::Cost;
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::functions::Answer;
use crate::{Receiver, Sender};

/// What the last stage computes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Size,
    SumOfReceiver,
    SumOfSender,
    InnerProduct,
    Matches,
    Shares,
}

impl Function {
    /// That of a task.
    ///
    /// # Panics
    /// If there is none: a protocol runs only what it says that it reveals.
    pub(super) fn of(task: &Task) -> Function {
        match (task.reveal, task.values) {
            (Reveal::Size, Values::None) => Function::Size,
            (Reveal::Sum, Values::Receiver) => Function::SumOfReceiver,
            (Reveal::Sum, Values::Sender) => Function::SumOfSender,
            (Reveal::InnerProduct, Values::Both) => Function::InnerProduct,
            (Reveal::ThresholdMatches, Values::None) => Function::Matches,
            (Reveal::Shares, _) => Function::Shares,
            (reveal, values) => panic!("{reveal} of {values:?}"),
        }
    }
}

/// The receiver's item in each of `shares` cells: the bins or the candidates of all bins, and then `places` of a stash.
fn own_items(bins: &ReceiverBins, places: usize, shares: usize) -> Vec<Option<u32>> {
    let items = bins.table.bins();
    let items: Vec<_> = items.map(|entry| Some(entry?.item() as u32)).collect();
    let times = (shares - places).checked_div(items.len()).unwrap_or(1);
    let mut cells = repeated(&items, times);
    cells.extend(bins.table.stash().iter().copied().map(Some));
    cells.resize(shares, None);
    cells
}

/// The receiver's value in each cell, 0 in empty ones.
fn own_values(cells: &[Option<u32>], values: Option<&[i64]>) -> Secret<i64> {
    let Some(values) = values else {
        return Secret::default();
    };
    let own = cells.iter();
    let own = own.map(|item| item.map_or(0, |item| values[item as usize]));
    Zeroizing::new(own.collect())
}

/// For each of `items` items whether its cell matches. The time does not depend on that.
fn matched_items(cells: &[Option<u32>], matches: &[bool], items: usize) -> Vec<bool> {
    let mut matched = vec![false; items];
    for (item, matches) in cells.iter().zip(matches) {
        if let Some(item) = item {
            matched[*item as usize] = *matches;
        }
    }
    matched
}

/// One party's shares of bits, one by one.
pub(super) fn each_bit(matches: &BitShares) -> Secret<bool> {
    let bits = (0..matches.len()).map(|i| matches.get(i) == 1);
    Zeroizing::new(bits.collect())
}

impl Plan {
    /// The receiver's part of the function.
    pub(super) fn open(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        cost: Cost,
        received: Received,
        bins: &ReceiverBins,
        input: Input<'_>,
    ) -> Result<Output, Error> {
        let Received {
            mut engine,
            matches,
            masked,
        } = received;
        let minimum = self.task.min_size;
        let cells = own_items(bins, self.places(), matches.len());
        let own = own_values(&cells, input.values);
        let answer = match Function::of(&self.task) {
            Function::Size => engine.size(channel, rng, &matches, minimum)?,
            Function::SumOfReceiver => {
                engine.sum_of_receiver(channel, rng, &matches, &own, minimum)?
            }
            Function::SumOfSender => self
                .reversed_receiver(engine, channel, rng, cost)?
                .sum_of_sender(channel, rng, &matches, &masked, minimum)?,
            Function::InnerProduct => self
                .reversed_receiver(engine, channel, rng, cost)?
                .inner_product(
                    channel,
                    rng,
                    &matches,
                    (&own, &masked),
                    (minimum, self.lambda()),
                )?,
            Function::Matches => {
                let matches = engine.matches(channel, rng, &matches, minimum)?;
                let matched = matched_items(&cells, &matches, input.items.len());
                return Ok(Output::Matches(matched));
            }
            Function::Shares => {
                let mut receiver_values = None;
                if input.values.is_some() {
                    let shares = engine.shares_of_receiver(channel, rng, &matches, &own)?;
                    receiver_values = Some(shares);
                }
                let mut sender_values = None;
                if self.has_payloads() {
                    let mut engine = self.reversed_receiver(engine, channel, rng, cost)?;
                    let shares = engine.shares_of_sender(channel, rng, &matches, &masked)?;
                    sender_values = Some(shares);
                }
                return Ok(Output::Shares(Shares {
                    items: Some(cells),
                    matches: each_bit(&matches),
                    receiver_values,
                    sender_values,
                }));
            }
        };
        if self.task.both {
            answer.tell(channel)?;
        }
        Ok(self.output(answer))
    }

    fn output(&self, answer: Answer) -> Output {
        match answer {
            Answer::Value(value) => Output::Value(value.into()),
            Answer::TooFew => Output::Below(self.task.min_size),
        }
    }

    /// The values that a run can have.
    fn range(&self) -> RangeInclusive<i64> {
        match self.task.reveal {
            Reveal::Size => {
                i64::try_from(self.task.min_size).unwrap_or(i64::MAX)..=self.most_matches as i64
            }
            _ => i64::MIN..=i64::MAX,
        }
    }

    /// The sender's part of the function.
    pub(super) fn help(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        cost: Cost,
        sent: Sent,
    ) -> Result<Output, Error> {
        let Sent {
            mut engine,
            matches,
            masks,
        } = sent;
        let (values, minimum) = (self.task.values, self.task.min_size);
        match Function::of(&self.task) {
            Function::Size => engine.size(channel, rng, &matches, minimum)?,
            Function::SumOfReceiver => {
                engine.sum_of_receiver(channel, rng, &matches, minimum)?;
            }
            Function::SumOfSender => self
                .reversed_sender(engine, channel, rng, cost)?
                .sum_of_sender(channel, rng, &matches, &masks, minimum)?,
            Function::InnerProduct => self
                .reversed_sender(engine, channel, rng, cost)?
                .inner_product(channel, rng, &matches, &masks, (minimum, self.lambda()))?,
            Function::Matches => {
                engine.matches(channel, rng, &matches, minimum)?;
            }
            Function::Shares => {
                let mut receiver_values = None;
                if matches!(values, Values::Receiver | Values::Both) {
                    receiver_values = Some(engine.shares_of_receiver(channel, rng, &matches)?);
                }
                let mut sender_values = None;
                if self.has_payloads() {
                    let mut engine = self.reversed_sender(engine, channel, rng, cost)?;
                    let shares = engine.shares_of_sender(channel, rng, &matches, &masks)?;
                    sender_values = Some(shares);
                }
                return Ok(Output::Shares(Shares {
                    items: None,
                    matches: each_bit(&matches),
                    receiver_values,
                    sender_values,
                }));
            }
        }
        if !self.task.both {
            return Ok(Output::Nothing);
        }
        let told = Answer::told(channel, self.range(), minimum > 0)?;
        Ok(self.output(told))
    }

    /// Adds COTs of the reverse direction.
    fn reversed_receiver(
        &self,
        engine: Receiver,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        cost: Cost,
    ) -> Result<Receiver<ChoiceEnd>, Error> {
        let session = self.derived("reverse COTs");
        let (cots, optimize) = (cost.reverse_cots, self.task.optimize);
        let source = bulk::Receiver::setup(channel, &session, SemiHonest, cots, optimize, rng)?;
        Ok(engine.with_reverse(source))
    }

    /// Adds COTs of the reverse direction.
    fn reversed_sender(
        &self,
        engine: Sender,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        cost: Cost,
    ) -> Result<Sender<ValueEnd>, Error> {
        let session = self.derived("reverse COTs");
        let (cots, optimize) = (cost.reverse_cots, self.task.optimize);
        let source = bulk::Sender::setup(channel, &session, SemiHonest, cots, optimize, rng)?;
        Ok(engine.with_reverse(source))
    }
}
