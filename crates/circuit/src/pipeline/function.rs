//! The last stage: from shares of which bins match to what a run reveals.
//!
//! A module for each [`Reveal`] has the [`Function`] that computes it, and what it costs.

use std::ops::{Add, RangeInclusive};

use vesica_correlations::bulk::{self, SemiHonest};
use vesica_oprf::programmable::bins::ReceiverBins;
use vesica_psi::{Input, Output, Reveal};
use vesica_wire::Error;
use zeroize::Zeroizing;

use super::{Plan, Received, Run, Secret, Sent, repeated};
use crate::cost::{self, Cost};
use crate::functions::{Answer, Number};
use crate::{Receiver, Sender};

/// Declares the module of each function, in which a unit struct has the name of what it reveals, and the list of them.
macro_rules! functions {
    ($($module:ident: $reveal:ident;)+) => {
        $(mod $module;)+

        /// What a run can reveal.
        pub(super) const REVEALS: &[Reveal] = &[$(Reveal::$reveal),+];

        const FUNCTIONS: &[&dyn Function] = &[$(&$module::$reveal),+];
    };
}

functions! {
    size: Size;
    sum: Sum;
    inner_product: InnerProduct;
    matches: ThresholdMatches;
    shares: Shares;
}

/// What computes something that a run reveals, from shares of which cells match.
trait Function: Sync {
    /// Its cost for so many cells, but for opening numbers.
    fn cost(&self, plan: &Plan, cells: usize) -> Cost;

    /// The receiver's part.
    ///
    /// # Errors
    /// The channel's and those of its parts.
    fn receive(
        &self,
        run: &mut Run<'_>,
        received: &mut Received,
        own: &Own<'_>,
    ) -> Result<Computed, Error>;

    /// The sender's part.
    ///
    /// # Errors
    /// As [`Function::receive`].
    fn send(&self, run: &mut Run<'_>, sent: &mut Sent) -> Result<Computed, Error>;

    /// The values that a number can have.
    fn range(&self, _: &Plan) -> RangeInclusive<i64> {
        i64::MIN..=i64::MAX
    }
}

/// That of a reveal.
///
/// # Panics
/// If there is none: a protocol runs only what it says that it reveals.
fn function_of(reveal: Reveal) -> &'static dyn Function {
    let at = REVEALS.iter().position(|known| *known == reveal);
    FUNCTIONS[at.unwrap_or_else(|| panic!("{reveal} is not computed from shares"))]
}

/// What a party has of a function.
enum Computed {
    /// Shares of numbers, which are opened with those of the other functions of the run.
    Numbers(Vec<Number>),
    /// All that there is.
    Output(Output),
}

/// What the receiver brought.
struct Own<'a> {
    bins: &'a ReceiverBins,
    input: Input<'a>,
}

impl Own<'_> {
    /// The item in each of `count` cells: the bins or the candidates of all bins, and then the places of a stash.
    fn cells(&self, plan: &Plan, count: usize) -> Vec<Option<u32>> {
        let items = self.bins.table.bins();
        let items: Vec<_> = items.map(|entry| Some(entry?.item() as u32)).collect();
        let times = (count - plan.places()).checked_div(items.len());
        let mut cells = repeated(&items, times.unwrap_or(1));
        cells.extend(self.bins.table.stash().iter().copied().map(Some));
        cells.resize(count, None);
        cells
    }

    /// The values in each cell, 0 in empty ones, column by column.
    fn values(&self, plan: &Plan, cells: &[Option<u32>]) -> Vec<Secret<i64>> {
        let columns = usize::from(plan.task.values.receiver);
        let values = self.input.values.unwrap_or_default();
        let column = |column: usize| {
            let value = |item: &u32| values[*item as usize * columns + column];
            let own = cells.iter().map(|item| item.as_ref().map_or(0, value));
            Zeroizing::new(own.collect())
        };
        (0..columns).map(column).collect()
    }
}

/// Columns as slices.
fn slices(columns: &[Secret<i64>]) -> Vec<&[i64]> {
    columns.iter().map(|column| &column[..]).collect()
}

impl Run<'_> {
    /// Adds COTs of the reverse direction to an engine that has none; the other party calls [`Run::reverse_sender`].
    fn reverse_receiver(&mut self, engine: &mut Receiver) -> Result<(), Error> {
        if engine.has_reverse() {
            return Ok(());
        }
        let session = self.plan.derived("reverse COTs");
        let source = bulk::Receiver::setup(
            self.channel,
            &session,
            SemiHonest,
            self.cost.reverse_cots,
            self.plan.task.optimize,
            self.rng,
        )?;
        engine.add_reverse(source);
        Ok(())
    }

    /// Adds COTs of the reverse direction to an engine that has none; the other party calls [`Run::reverse_receiver`].
    fn reverse_sender(&mut self, engine: &mut Sender) -> Result<(), Error> {
        if engine.has_reverse() {
            return Ok(());
        }
        let session = self.plan.derived("reverse COTs");
        let source = bulk::Sender::setup(
            self.channel,
            &session,
            SemiHonest,
            self.cost.reverse_cots,
            self.plan.task.optimize,
            self.rng,
        )?;
        engine.add_reverse(source);
        Ok(())
    }
}

impl Plan {
    /// The functions of what the run reveals, in order.
    fn functions(&self) -> impl Iterator<Item = &'static dyn Function> {
        self.task.reveal.each().iter().copied().map(function_of)
    }

    /// Cost of all functions, for so many cells.
    pub(super) fn function_cost(&self, cells: usize) -> Cost {
        let costs = self.functions().map(|function| function.cost(self, cells));
        let cost = costs.fold(Cost::default(), Cost::add);
        let numbers = self.task.reveal.numbers(self.task.values);
        let (sizes, others): (Vec<_>, Vec<_>) = numbers
            .into_iter()
            .partition(|(reveal, _)| *reveal == Reveal::Size);
        match (sizes.len(), others.len()) {
            (0, 0) => cost,
            (sizes, others) => cost + cost::open(cells, sizes > 0, others, self.task.min_size),
        }
    }

    /// The receiver's part of all functions.
    pub(super) fn open(
        &self,
        mut run: Run<'_>,
        mut received: Received,
        bins: &ReceiverBins,
        input: Input<'_>,
    ) -> Result<Output, Error> {
        let count = received.matches.len();
        let own = Own { bins, input };
        let mut numbers = Vec::new();
        for function in self.functions() {
            match function.receive(&mut run, &mut received, &own)? {
                Computed::Numbers(of) => numbers.extend(of),
                Computed::Output(output) => return Ok(output),
            }
        }
        let of = (self.task.min_size, count);
        let answer = received.engine.open(run.channel, run.rng, &numbers, of)?;
        if self.task.both {
            answer.tell(run.channel, numbers.len())?;
        }
        Ok(self.output(answer))
    }

    /// The sender's part of all functions.
    pub(super) fn help(&self, mut run: Run<'_>, mut sent: Sent) -> Result<Output, Error> {
        let mut numbers = Vec::new();
        for function in self.functions() {
            match function.send(&mut run, &mut sent)? {
                Computed::Numbers(of) => numbers.extend(of),
                Computed::Output(output) => return Ok(output),
            }
        }
        let of = (self.task.min_size, sent.matches.len());
        sent.engine.open(run.channel, run.rng, &numbers, of)?;
        if !self.task.both {
            return Ok(Output::Nothing);
        }
        let told = Answer::told(run.channel, &self.ranges(), self.task.min_size > 0)?;
        Ok(self.output(told))
    }

    fn output(&self, answer: Answer) -> Output {
        match answer {
            Answer::Values(values) => Output::Values(values.into_iter().map(i128::from).collect()),
            Answer::TooFew => Output::Below(self.task.min_size),
        }
    }

    /// The values that each number of the run can have.
    fn ranges(&self) -> Vec<RangeInclusive<i64>> {
        let numbers = self.task.reveal.numbers(self.task.values).into_iter();
        let range = |(reveal, _)| function_of(reveal).range(self);
        numbers.map(range).collect()
    }
}
