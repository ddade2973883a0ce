//! The last stage: from shares of which bins match to what a run reveals.
//!
//! A module for each [`Reveal`] has the [`Function`] that computes it, and what it costs.

use std::ops::{Add, RangeInclusive};

use rand_core::CryptoRng;
use vesica_correlations::bulk::{self, SemiHonest};
use vesica_oprf::programmable::bins::ReceiverBins;
use vesica_psi::{GroupMinimum, Groups, Half, Input, Output, Reveal};
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use super::{Plan, Received, Run, Secret, Sent, repeated};
use crate::bits::BitShares;
use crate::cost::{self, Bins, Cost};
use crate::cots::WIDTH;
use crate::functions::{Answer, Least, Number, receive_numbers, send_numbers};
use crate::{Payloads, Receiver, Sender};

mod groups;
mod ids;
mod inner_product;
mod matches;
mod shares;
mod size;
mod sum;
mod union;

pub(super) use ids::max_lambda as max_lambda_of_ids;
pub use ids::{ID_EVENTS, id_bits};

/// Declares the list of functions: in the module of each, a unit struct has the name of what it reveals.
macro_rules! functions {
    ($($module:ident: $reveal:ident;)+) => {
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
    union: Union;
    ids: Ids;
}

/// What computes something that a run reveals, from shares of which cells match.
trait Function: Sync {
    /// Each of its numbers, also by group, over so many bins of all parts, whose shares are zeros; nothing if it yields none.
    fn zero(&self, plan: &Plan, bins: usize) -> Option<Number>;

    /// Its cost for so many cells, but for opening numbers.
    fn cost(&self, plan: &Plan, cells: Bins) -> Cost;

    /// The receiver's part.
    ///
    /// # Errors
    /// The channel's and those of its parts.
    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error>;

    /// The sender's part.
    ///
    /// # Errors
    /// As [`Function::receive`].
    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error>;

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
    /// Shares of numbers, each for one group after the other, which are opened with those of the other functions and parts of
    /// the run.
    Numbers(Vec<Number>),
    /// All that there is.
    Output(Output),
}

/// What the receiver's parts work on.
struct Receiving<'a> {
    plan: &'a Plan,
    channel: &'a mut dyn Channel,
    rng: &'a mut dyn CryptoRng,
    reverse_cots: usize,
    engine: Receiver,
    matches: BitShares,
    masked: Payloads,
    bins: &'a ReceiverBins,
    input: Input<'a>,
    /// The item in each cell, once these are in an order of their own.
    ordered: Option<Vec<Option<u32>>>,
}

/// What the sender's parts work on.
struct Sending<'a> {
    plan: &'a Plan,
    channel: &'a mut dyn Channel,
    rng: &'a mut dyn CryptoRng,
    reverse_cots: usize,
    engine: Sender,
    matches: BitShares,
    masks: Payloads,
    input: Input<'a>,
}

impl Receiving<'_> {
    /// The item in each cell: the bins or the candidates of all bins, and then the places of a stash.
    fn cells(&self) -> Vec<Option<u32>> {
        if let Some(ordered) = &self.ordered {
            return ordered.clone();
        }
        let items = self.bins.table.bins();
        let items: Vec<_> = items.map(|entry| Some(entry?.item() as u32)).collect();
        let count = self.matches.len();
        let times = (count - self.plan.places()).checked_div(items.len());
        let mut cells = repeated(&items, times.unwrap_or(1));
        cells.extend(self.bins.table.stash().iter().copied().map(Some));
        cells.resize(count, None);
        cells
    }

    /// The receiver's values in each cell, 0 in empty ones, column by column.
    fn values(&self, cells: &[Option<u32>]) -> Vec<Secret<i64>> {
        let columns = usize::from(self.plan.task.values.receiver);
        let values = self.input.values.unwrap_or_default();
        let column = |column: usize| {
            let value = |item: &u32| values[*item as usize * columns + column];
            let own = cells.iter().map(|item| item.as_ref().map_or(0, value));
            Zeroizing::new(own.collect())
        };
        (0..columns).map(column).collect()
    }

    /// Sets up COTs of the reverse direction, if there are none; the other party calls [`Sending::reverse`].
    fn reverse(&mut self) -> Result<(), Error> {
        if self.engine.has_reverse() {
            return Ok(());
        }
        let session = self.plan.derived("reverse COTs");
        let source = bulk::Receiver::setup(
            self.channel,
            &session,
            SemiHonest,
            self.reverse_cots,
            self.plan.task.optimize,
            self.plan.key_agreement,
            self.rng,
        )?;
        self.engine.add_reverse(source);
        Ok(())
    }
}

impl Sending<'_> {
    /// Sets up COTs of the reverse direction, if there are none; the other party calls [`Receiving::reverse`].
    fn reverse(&mut self) -> Result<(), Error> {
        if self.engine.has_reverse() {
            return Ok(());
        }
        let session = self.plan.derived("reverse COTs");
        let source = bulk::Sender::setup(
            self.channel,
            &session,
            SemiHonest,
            self.reverse_cots,
            self.plan.task.optimize,
            self.plan.key_agreement,
            self.rng,
        )?;
        self.engine.add_reverse(source);
        Ok(())
    }
}

/// Columns as slices.
fn slices(columns: &[Secret<i64>]) -> Vec<&[i64]> {
    columns.iter().map(|column| &column[..]).collect()
}

impl Plan {
    /// The functions of what the run reveals, in order.
    fn functions(&self) -> impl Iterator<Item = &'static dyn Function> {
        self.task.reveal.each().iter().copied().map(function_of)
    }

    /// So many cells as numbers are over, and those of all parts.
    fn counted(&self, cells: usize) -> Bins {
        let cells = self.counted_cells(cells);
        Bins {
            here: cells,
            all: cells * self.parts(),
            span: self.task.noise_span,
        }
    }

    /// Cost of all functions, for so many cells.
    pub(super) fn function_cost(&self, cells: usize) -> Cost {
        let cells = self.counted(cells);
        let costs = self.functions().map(|function| function.cost(self, cells));
        costs.fold(Cost::default(), Cost::add)
    }

    /// Cost of opening the numbers of all parts, of so many cells each, if there are some.
    pub(super) fn opening_cost(&self, cells: usize) -> Cost {
        let cells = self.counted(cells);
        let least = self.least(cells.all);
        cost::open(
            cells,
            &self.numbers(cells.all, &[]),
            least.minimum,
            least.sets,
        )
    }

    /// The party's part of opening numbers, from what it has of them over all parts, of so many cells each.
    pub(super) fn open_sums(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        half: Half,
        cells: usize,
        shares: &[u64],
    ) -> Result<Output, Error> {
        let bins = self.counted(cells).all;
        let numbers = self.numbers(bins, shares);
        let run = Run {
            channel,
            rng,
            plan: self,
            cost: self.opening_cost(cells),
        };
        match half {
            Half::Receiver => run.learn(&numbers, bins),
            Half::Sender => run.disclose(&numbers, bins),
        }
    }

    /// The numbers of a run over so many bins, each for one group after the other, of which this party has these shares.
    fn numbers(&self, bins: usize, shares: &[u64]) -> Vec<Number> {
        let numbers = self.task.reveal.numbers(self.task.values).into_iter();
        let groups = self.task.group_count();
        let zero = |(reveal, _)| Some(vec![function_of(reveal).zero(self, bins)?; groups]);
        let mut shares = shares.iter().copied();
        let with_shares = |zero: Number| zero.with_shares(shares.by_ref());
        numbers
            .filter_map(zero)
            .flatten()
            .map(with_shares)
            .collect()
    }

    /// The receiver's part of all functions.
    pub(super) fn receive(
        &self,
        run: Run<'_>,
        received: Received,
        bins: &ReceiverBins,
        input: Input<'_>,
    ) -> Result<Output, Error> {
        let at = &mut Receiving {
            plan: self,
            channel: run.channel,
            rng: run.rng,
            reverse_cots: run.cost.reverse_cots,
            engine: received.engine,
            matches: received.matches,
            masked: received.masked,
            bins,
            input,
            ordered: None,
        };
        at.group()?;
        let mut numbers = Vec::new();
        for function in self.functions() {
            match function.receive(at)? {
                Computed::Numbers(of) => numbers.extend(of),
                Computed::Output(output) => return Ok(output),
            }
        }
        Ok(shared(&numbers))
    }

    /// The sender's part of all functions.
    pub(super) fn send(&self, run: Run<'_>, sent: Sent, input: Input<'_>) -> Result<Output, Error> {
        let at = &mut Sending {
            plan: self,
            channel: run.channel,
            rng: run.rng,
            reverse_cots: run.cost.reverse_cots,
            engine: sent.engine,
            matches: sent.matches,
            masks: sent.masks,
            input,
        };
        at.group()?;
        let mut numbers = Vec::new();
        for function in self.functions() {
            match function.send(at)? {
                Computed::Numbers(of) => numbers.extend(of),
                Computed::Output(output) => return Ok(output),
            }
        }
        Ok(shared(&numbers))
    }

    /// What is told of each [set](Least::sets).
    fn output(&self, answers: Vec<Answer>) -> Output {
        let known = |answer| match answer {
            Answer::Values(values) => Some(values.into_iter().map(i128::from)),
            Answer::TooFew => None,
        };
        let Some(groups) = &self.task.groups else {
            let known = answers.into_iter().next().and_then(known);
            return known.map_or(Output::Below(self.task.min_size), |values| {
                Output::Values(values.collect())
            });
        };
        let all: Vec<_> = answers
            .into_iter()
            .map(|answer| known(answer).map(Vec::from_iter))
            .collect();
        let of_group = |group: usize| match groups.minimum {
            GroupMinimum::Each => all[group].clone(),
            // Each number of one group after the other.
            GroupMinimum::All => {
                let all = all[0].as_ref()?;
                Some(
                    all.iter()
                        .skip(group)
                        .step_by(groups.count)
                        .copied()
                        .collect(),
                )
            }
        };
        Output::Groups((0..groups.count).map(of_group).collect())
    }

    /// What decides whether numbers over so many bins are opened.
    fn least(&self, bins: usize) -> Least {
        Least {
            minimum: self.task.min_size,
            bins,
            sets: self.task.groups.as_ref().map_or(1, Groups::sets),
        }
    }

    /// The values that each number of the run can have.
    pub(super) fn ranges(&self) -> Vec<RangeInclusive<i64>> {
        let numbers = self.task.reveal.numbers(self.task.values).into_iter();
        let range = |(reveal, _)| function_of(reveal).range(self);
        numbers.map(range).collect()
    }
}

impl Run<'_> {
    /// The receiver's part of opening numbers over so many bins.
    fn learn(mut self, numbers: &[Number], bins: usize) -> Result<Output, Error> {
        let (plan, least) = (self.plan, self.plan.least(bins));
        let answers = match least.minimum {
            0 => receive_numbers(self.channel, numbers, least)?,
            _ => {
                let mut engine = self.receiving_engine::<WIDTH>()?;
                engine.open(self.channel, self.rng, numbers, least)?
            }
        };
        if plan.task.both {
            let [answer] = &answers[..] else {
                panic!("numbers by group are for the receiver alone");
            };
            answer.tell(self.channel, numbers.len())?;
        }
        Ok(plan.output(answers))
    }

    /// The sender's part of opening numbers over so many bins.
    fn disclose(mut self, numbers: &[Number], bins: usize) -> Result<Output, Error> {
        let (plan, least) = (self.plan, self.plan.least(bins));
        match least.minimum {
            0 => send_numbers(self.channel, numbers)?,
            _ => {
                let mut engine = self.sending_engine::<WIDTH>()?;
                engine.open(self.channel, self.rng, numbers, least)?;
            }
        }
        if !plan.task.both {
            return Ok(Output::Nothing);
        }
        let told = Answer::told(self.channel, &plan.ranges(), least.minimum > 0)?;
        Ok(plan.output(vec![told]))
    }
}

/// What a party has of the numbers of a part.
fn shared(numbers: &[Number]) -> Output {
    let shares = numbers.iter().flat_map(Number::shares);
    Output::NumberShares(Zeroizing::new(shares.collect()))
}
