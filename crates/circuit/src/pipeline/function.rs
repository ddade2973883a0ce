//! The last stage: from shares of which bins match to what a run reveals.

use std::ops::RangeInclusive;

use rand_core::CryptoRng;
use vesica_correlations::bulk::{self, SemiHonest};
use vesica_oprf::programmable::bins::ReceiverBins;
use vesica_psi::{Input, Output, Reveal, Shares, Task};
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use super::payload::{to_bytes, to_words};
use super::{Plan, Received, Secret, Sent, repeated};
use crate::bits::BitShares;
use crate::cost::{self, Cost};
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::functions::Answer;
use crate::{Receiver, Sender};

/// What the last stage computes, perhaps besides a size.
#[derive(Clone, Copy, Debug)]
enum Function {
    Size,
    SumsOfReceiver,
    SumsOfSender,
    InnerProduct,
    Matches,
    Shares,
}

impl Function {
    /// That of a task.
    ///
    /// # Panics
    /// If there is none: a protocol runs only what it says that it reveals.
    fn of(task: &Task) -> Function {
        match task.reveal.last() {
            Reveal::Size => Function::Size,
            Reveal::Sum if task.values.receiver > 0 => Function::SumsOfReceiver,
            Reveal::Sum => Function::SumsOfSender,
            Reveal::InnerProduct => Function::InnerProduct,
            Reveal::ThresholdMatches => Function::Matches,
            Reveal::Shares => Function::Shares,
            reveal => panic!("{reveal}"),
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

/// The receiver's values in each cell, 0 in empty ones, column by column.
fn own_values(cells: &[Option<u32>], values: &[i64], columns: usize) -> Vec<Secret<i64>> {
    let column = |column: usize| {
        let value = |item: &u32| values[*item as usize * columns + column];
        let own = cells.iter().map(|item| item.as_ref().map_or(0, value));
        Zeroizing::new(own.collect())
    };
    (0..columns).map(column).collect()
}

/// The receiver's string of so many bytes in each cell as words, zeros in empty ones.
fn own_strings(cells: &[Option<u32>], strings: &[u8], bytes: usize) -> Secret<u64> {
    let mut own = Zeroizing::new(vec![0; cells.len() * bytes]);
    for (string, item) in own.chunks_exact_mut(bytes).zip(cells) {
        if let Some(item) = item {
            string.copy_from_slice(&strings[*item as usize * bytes..][..bytes]);
        }
    }
    to_words(&own, bytes)
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
    /// Whether a size is opened.
    fn has_size(&self) -> bool {
        self.task.reveal.each().contains(&Reveal::Size)
    }

    /// Cost of the function, for so many cells.
    pub(super) fn function_cost(&self, cells: usize) -> Cost {
        let (values, minimum) = (self.task.values, self.task.min_size);
        let [receiver, sender] = [values.receiver, values.sender].map(usize::from);
        let (numbers, others) = match Function::of(&self.task) {
            Function::Matches => return cost::matches(cells),
            Function::Shares => {
                let of = |count: usize, cost: fn(usize, usize) -> Cost| match count {
                    0 => Cost::default(),
                    _ => cost(cells, count),
                };
                let bytes = self.task.string_bytes;
                return of(receiver, cost::shares_of_receiver)
                    + of(bytes.receiver, cost::string_of_receiver)
                    + of(sender, cost::shares_of_sender)
                    + of(bytes.sender, cost::string_of_sender);
            }
            Function::Size => (Cost::default(), 0),
            Function::SumsOfReceiver => {
                (cost::sums_of_receiver(cells, receiver, minimum), receiver)
            }
            Function::SumsOfSender => (cost::sums_of_sender(cells, sender, minimum), sender),
            Function::InnerProduct => (cost::inner_product(cells, minimum, self.lambda()), 1),
        };
        let size = match self.has_size() {
            true => cost::size(cells, minimum),
            false => Cost::default(),
        };
        size + numbers + cost::open(cells, self.has_size(), others, minimum)
    }

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
        let columns = self.task.values.receiver.into();
        let cells = own_items(bins, self.places(), matches.len());
        let own = own_values(&cells, input.values.unwrap_or_default(), columns);
        let own: Vec<&[i64]> = own.iter().map(|column| &column[..]).collect();
        let mut numbers = Vec::new();
        if self.has_size() {
            numbers.push(engine.size(channel, rng, &matches, minimum)?);
        }
        let of = (minimum, matches.len());
        let answer = match Function::of(&self.task) {
            Function::Size => engine.open(channel, rng, &numbers, of)?,
            Function::SumsOfReceiver => {
                numbers.extend(engine.sums_of_receiver(channel, rng, &matches, &own, minimum)?);
                engine.open(channel, rng, &numbers, of)?
            }
            Function::SumsOfSender => {
                let mut engine = self.reversed_receiver(engine, channel, rng, cost)?;
                numbers.extend(engine.sums_of_sender(channel, rng, &matches, &masked, minimum)?);
                engine.open(channel, rng, &numbers, of)?
            }
            Function::InnerProduct => {
                let mut engine = self.reversed_receiver(engine, channel, rng, cost)?;
                let (vectors, least) = ((own[0], &masked), (minimum, self.lambda()));
                numbers.push(engine.inner_product(channel, rng, &matches, vectors, least)?);
                engine.open(channel, rng, &numbers, of)?
            }
            Function::Matches => {
                let matches = engine.matches(channel, rng, &matches, minimum)?;
                let matched = matched_items(&cells, &matches, input.items.len());
                return Ok(Output::Matches(matched));
            }
            Function::Shares => {
                let bytes = self.task.string_bytes;
                let mut shares = Shares::new(Some(cells), each_bit(&matches));
                if !own.is_empty() {
                    shares.receiver_values =
                        engine.shares_of_receiver(channel, rng, &matches, &own)?;
                }
                if bytes.receiver > 0 {
                    let cells = shares.items.as_deref().unwrap_or_default();
                    let own = own_strings(cells, input.labels.unwrap_or_default(), bytes.receiver);
                    let own = (bytes.receiver, &own[..]);
                    let words = engine.string_of_receiver(channel, rng, &matches, own)?;
                    shares.receiver_strings = to_bytes(&words, bytes.receiver);
                }
                if self.has_payloads() {
                    let mut engine = self.reversed_receiver(engine, channel, rng, cost)?;
                    if self.form.columns > 0 {
                        shares.sender_values =
                            engine.shares_of_sender(channel, rng, &matches, &masked)?;
                    }
                    if bytes.sender > 0 {
                        let masked = (bytes.sender, &masked);
                        let words = engine.string_of_sender(channel, rng, &matches, masked)?;
                        shares.sender_strings = to_bytes(&words, bytes.sender);
                    }
                }
                return Ok(Output::Shares(shares));
            }
        };
        if self.task.both {
            answer.tell(channel, self.ranges().len())?;
        }
        Ok(self.output(answer))
    }

    fn output(&self, answer: Answer) -> Output {
        match answer {
            Answer::Values(values) => Output::Values(values.into_iter().map(i128::from).collect()),
            Answer::TooFew => Output::Below(self.task.min_size),
        }
    }

    /// The values that each number of a run can have.
    fn ranges(&self) -> Vec<RangeInclusive<i64>> {
        let numbers = self.task.reveal.numbers(self.task.values);
        let range = |(reveal, _)| match reveal {
            Reveal::Size => {
                i64::try_from(self.task.min_size).unwrap_or(i64::MAX)..=self.most_matches as i64
            }
            Reveal::Sum | Reveal::InnerProduct => i64::MIN..=i64::MAX,
            reveal => panic!("{reveal} is no number"),
        };
        numbers.into_iter().map(range).collect()
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
        let (columns, minimum) = (self.task.values.receiver.into(), self.task.min_size);
        let mut numbers = Vec::new();
        if self.has_size() {
            numbers.push(engine.size(channel, rng, &matches, minimum)?);
        }
        let of = (minimum, matches.len());
        match Function::of(&self.task) {
            Function::Size => engine.open(channel, rng, &numbers, of)?,
            Function::SumsOfReceiver => {
                numbers.extend(engine.sums_of_receiver(channel, rng, &matches, columns, minimum)?);
                engine.open(channel, rng, &numbers, of)?;
            }
            Function::SumsOfSender => {
                let mut engine = self.reversed_sender(engine, channel, rng, cost)?;
                numbers.extend(engine.sums_of_sender(channel, rng, &matches, &masks, minimum)?);
                engine.open(channel, rng, &numbers, of)?;
            }
            Function::InnerProduct => {
                let mut engine = self.reversed_sender(engine, channel, rng, cost)?;
                let least = (minimum, self.lambda());
                numbers.push(engine.inner_product(channel, rng, &matches, &masks, least)?);
                engine.open(channel, rng, &numbers, of)?;
            }
            Function::Matches => {
                engine.matches(channel, rng, &matches, minimum)?;
            }
            Function::Shares => {
                let bytes = self.task.string_bytes;
                let mut shares = Shares::new(None, each_bit(&matches));
                if columns > 0 {
                    shares.receiver_values =
                        engine.shares_of_receiver(channel, rng, &matches, columns)?;
                }
                if bytes.receiver > 0 {
                    let of = bytes.receiver;
                    let words = engine.string_of_receiver(channel, rng, &matches, of)?;
                    shares.receiver_strings = to_bytes(&words, bytes.receiver);
                }
                if self.has_payloads() {
                    let mut engine = self.reversed_sender(engine, channel, rng, cost)?;
                    if self.form.columns > 0 {
                        shares.sender_values =
                            engine.shares_of_sender(channel, rng, &matches, &masks)?;
                    }
                    if bytes.sender > 0 {
                        let masks = (bytes.sender, &masks);
                        let words = engine.string_of_sender(channel, rng, &matches, masks)?;
                        shares.sender_strings = to_bytes(&words, bytes.sender);
                    }
                }
                return Ok(Output::Shares(shares));
            }
        }
        if !self.task.both {
            return Ok(Output::Nothing);
        }
        let told = Answer::told(channel, &self.ranges(), minimum > 0)?;
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
