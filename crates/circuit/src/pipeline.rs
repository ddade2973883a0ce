//! Circuit PSI: functions of an intersection that neither party learns.
//!
//! **Papers.** CGS22, figure 8, with the relaxed batch OPPRF and either membership test ([`Psm1`], [`Psm2`]); LTSXQ26,
//! figures 16 to 19, on an OPRF of full strength ([`Okvs`]); payloads as in CGS22, appendix D.
//!
//! **Adversary.** Semi-honest.
//!
//! **How.**
//! 1. The receiver puts its items into a cuckoo table, the sender puts each of its items into all bins where it could
//!    be ([`bins`]).
//! 2. A programmable OPRF gives the receiver one or three candidates per bin; the sender has a random tag per bin, which it
//!    draws along with the entries that compare it, if each is compared once ([`crate::digits`]). If
//!    the sender has values or strings, a candidate comes with those of its item, plus masks of the bin
//!    (`pipeline/payload.rs`).
//! 3. A membership test makes shares of whether the bin's tag is among the candidates.
//! 4. The function is computed on the shares. Its numbers stay shared until all parts of a run have theirs, and their sums
//!    are opened to the receiver alone; or the shares are the result.
//!
//! **Rows and ids.** Where the receiver learns the rows of the sender that it lacks, or both learn ids of their items, the two
//! exchange their parts: the sender's items are in the table, and the receiver's in all bins where they could be
//! (`pipeline/function/union.rs`, `pipeline/function/ids.rs`).
//!
//! **Minimum.** What is compared with a minimum is the number of matches that add to each of the numbers: a match whose
//! value is 0 adds nothing. Otherwise a receiver could bring a few keys with values and any number without. See *What one
//! answer can carry* in `docs/protocols/circuit.md`.
//!
//! The receiver's table has room for all items, or a stash of a fixed number of places and a second execution for the
//! items in it (`pipeline/stash.rs`; CGS22, appendix E). The latter costs more than it saves, so it runs only if it is
//! asked for ([`CircuitPsi::with_table`]).
//!
//! **What is revealed.** To the receiver the numbers, or that for one of them fewer matches count than the minimum; to the
//! sender nothing, unless both learn the result. Sizes of sets are public. Neither the length nor the time of a message
//! depends on values or matches.
//!
//! **λ.** That of the programmable OPRFs, which count tags that are equal by accident; two of them share it in
//! [`Psm2`]. They leave a share of it for the flood of an inner product. Nothing else here fails.
//!
//! **Deviations.** The OPRF is based on VOLE where CGS22 has KKRT, unless a [`Recipe`] names another one; COTs and entries
//! come from [`bulk`].

mod function;
mod payload;
mod recipes;
mod stash;
mod traffic;

use std::marker::PhantomData;

use rand_core::CryptoRng;
use vesica_correlations::bulk::{self, Optimize, SemiHonest};
use vesica_correlations::ole::lattice::inner_product;
use vesica_encodings::cuckoo;
use vesica_kernels::prefetch;
use vesica_oprf::programmable::bins::{self, ReceiverBins, SenderBins, Sizing};
use vesica_oprf::programmable::{BatchOprf, Hint, LEFT_SHARE, Opprf, Shape};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::KeyAgreement;
use vesica_psi::{
    AddsUp, Half, Input, Output, Params, Prepared, Protocol, Reveal, Reveals, SharedMatches, Spec,
    Task,
};
use vesica_wire::{Channel, Error, Traffic};
use zeroize::Zeroizing;

use crate::arithmetic::Elements;
use crate::bits::BitShares;
use crate::cost::Cost;
use crate::cots::{NARROW, WIDTH};
use crate::{Compared, Payloads, Receiver, Sender};

use payload::Form;
use stash::Second;

pub use function::{ID_EVENTS, id_bits};
pub use recipes::{Okvs, OneOfThree, PROTOCOLS, Plain, Psm1, Psm2, Twice};
pub use stash::MAX_PLACES;
pub use traffic::Test;

// What the flood shows is within what the OPPRFs leave.
const _: () = assert!(inner_product::SPARE >= LEFT_SHARE);

/// Points whose values are prefetched.
const AHEAD: usize = 16;

/// Values that are overwritten once they are not needed.
type Secret<T> = Zeroizing<Vec<T>>;

/// What a circuit PSI is made of. The stages are [`Plain`], [`OneOfThree`] and [`Twice`]; the OPRF and the hint below them
/// can come from elsewhere.
pub trait Recipe: Copy + Send + Sync + 'static {
    /// The OPRF below each OPPRF.
    type Oprf: BatchOprf + Default;

    /// The hint of the first OPPRF.
    type Hint: Hint + Default;

    /// From bins to shares of which of them match.
    type Stages: Stages<Self::Oprf, Self::Hint>;

    /// Name of the protocol.
    const NAME: &'static str;

    /// Paper and figures.
    const SOURCE: &'static str;
}

/// The second and third stage on this OPRF and this hint: from bins to shares of which of them match.
pub trait Stages<O, H> {
    /// OPPRFs that share λ.
    const OPPRFS: u32;

    /// The receiver's table and the shape of the first OPPRF, or nothing if an OPPRF cannot reach λ.
    fn plan(
        params: &Params,
        payload_bits: u32,
        table: Sizing,
    ) -> Option<(cuckoo::Parameters, Shape)>;

    /// Approximate memory use of the OPPRFs in bytes, for this shape of the first.
    fn opprf_bytes(first: &Shape) -> u64;

    /// Number of shared bits: one per bin, or one per candidate.
    fn shares(plan: &Plan) -> usize;

    /// The membership test.
    fn test(plan: &Plan) -> Test;

    /// Adds what the OPPRFs send.
    fn traffic(plan: &Plan, traffic: &mut Traffic);

    /// Runs the receiver, by digits of W bits.
    ///
    /// # Errors
    /// The channel's and those of its parts.
    fn receive<const W: u32>(run: Run<'_>, bins: &ReceiverBins) -> Result<Received<W>, Error>;

    /// Runs the sender, with the values and strings of its items.
    ///
    /// # Errors
    /// As [`Stages::receive`].
    fn send<const W: u32>(
        run: Run<'_>,
        bins: &SenderBins,
        input: Input<'_>,
    ) -> Result<Sent<W>, Error>;
}

/// What both parties know of a run.
pub struct Plan {
    session: [u8; 32],
    /// The receiver's table.
    table: cuckoo::Parameters,
    /// The first OPPRF.
    shape: Shape,
    /// The second execution, if the table has a stash.
    second: Option<Second>,
    task: Task,
    /// How the parties agree on the keys of base transfers.
    key_agreement: KeyAgreement,
    /// What comes with a candidate.
    form: Form,
    /// Items of the party with the table and of the other one.
    items: [usize; 2],
}

impl Plan {
    fn new<R: Recipe>(params: &Params, table: Sizing, task: &Task) -> Plan {
        assert!(task.reveal.takes_values(task.values), "{task:?}");
        let form = Form::of(task);
        let plan = |opprfs| {
            let each = Params {
                lambda: params.lambda_each(opprfs),
                ..params.clone()
            };
            R::Stages::plan(&each, form.bits(), table).expect("λ that the protocol allows")
        };
        let (mut first, mut second) = (plan(R::Stages::OPPRFS), None);
        if first.0.stash > 0 {
            first = plan(R::Stages::OPPRFS + 1);
            let each = first.1.params.lambda;
            second = Some(Second::new(params, each, first.0.stash));
        }
        Plan {
            session: params.session,
            table: first.0,
            shape: first.1,
            second,
            task: task.clone(),
            key_agreement: params.key_agreement,
            form,
            items: [params.receiver_size, params.sender_size],
        }
    }

    /// Items of the smaller set.
    fn most_matches(&self) -> usize {
        let [of_table, of_other] = self.items;
        of_table.min(of_other)
    }

    fn bins(&self) -> usize {
        self.shape.bins
    }

    /// Statistical security of each OPPRF, and so of what else the run does, in bits.
    fn lambda(&self) -> u32 {
        self.shape.params.lambda
    }

    /// Whether the sender has values or strings.
    fn has_payloads(&self) -> bool {
        self.shape.payload_bits > 0
    }

    /// Places of the stash: shared bits beside those of the recipe.
    fn places(&self) -> usize {
        self.table.stash
    }

    /// Shared bits of a part.
    fn cells<R: Recipe>(&self) -> usize {
        R::Stages::shares(self) + self.places()
    }

    /// Parts of the run whose numbers are opened together.
    fn parts(&self) -> usize {
        self.task.parts as usize
    }

    /// Bits of a digit of the strings that are compared. With a stash, the second execution takes entries too, in between
    /// products.
    fn digit_bits(&self) -> u32 {
        match self.task.optimize {
            Optimize::Traffic if self.second.is_none() => NARROW,
            _ => WIDTH,
        }
    }

    /// COTs of the main direction that so much takes, with those of its entries.
    fn main_cots(&self, cost: &Cost) -> usize {
        let optimize = self.task.optimize;
        cost.cots + bulk::subfield::cots(self.digit_bits(), cost.entries, optimize)
    }

    /// The session of a part of the run.
    fn derived(&self, part: &'static str) -> [u8; 32] {
        Oracle::new("vesica/1 circuit", &self.session).hash(&[part.as_bytes()])
    }

    /// Cost of the membership test and of the function.
    fn cost<R: Recipe>(&self) -> Cost {
        let cells = self.cells::<R>();
        let function = self.grouping_cost(cells) + self.function_cost(cells);
        let second = self.second.as_ref().map_or(Cost::default(), |second| Cost {
            // From a source of their own.
            reverse_cots: 0,
            ..second.cost(&self.form)
        });
        R::Stages::test(self).cost(self.digit_bits()) + second + function
    }

    fn run<'a, R: Recipe>(
        &'a self,
        channel: &'a mut dyn Channel,
        rng: &'a mut dyn CryptoRng,
    ) -> Run<'a> {
        Run {
            channel,
            rng,
            plan: self,
            cost: self.cost::<R>(),
        }
    }
}

/// A party's run of a [`Recipe`].
pub struct Run<'a> {
    channel: &'a mut dyn Channel,
    rng: &'a mut dyn CryptoRng,
    plan: &'a Plan,
    /// What the membership test and the function take.
    cost: Cost,
}

/// What the receiver has after the membership test.
pub struct Received<const W: u32 = WIDTH> {
    engine: Receiver<W>,
    matches: BitShares,
    /// For each shared bit the sender's payloads under their masks, if it matches.
    masked: Payloads,
}

/// What the sender has after the membership test.
pub struct Sent<const W: u32 = WIDTH> {
    engine: Sender<W>,
    matches: BitShares,
    /// The masks of each shared bit.
    masks: Payloads,
}

impl Received<NARROW> {
    /// The same after the last test.
    fn for_functions(self) -> Received {
        Received {
            engine: self.engine.for_functions(),
            matches: self.matches,
            masked: self.masked,
        }
    }
}

impl Sent<NARROW> {
    /// The same after the last test.
    fn for_functions(self) -> Sent {
        Sent {
            engine: self.engine.for_functions(),
            matches: self.matches,
            masks: self.masks,
        }
    }
}

impl Run<'_> {
    /// Sets up COTs and entries over GF(2^W); the other party calls [`Run::sending_engine`].
    fn receiving_engine<const W: u32>(&mut self) -> Result<Receiver<W>, Error> {
        self.channel.begin_phase("correlations");
        let (session, optimize) = (self.plan.derived("COTs"), self.plan.task.optimize);
        let cots = bulk::Sender::setup(
            self.channel,
            &session,
            SemiHonest,
            self.plan.main_cots(&self.cost),
            optimize,
            self.plan.key_agreement,
            self.rng,
        )?;
        let entries = bulk::subfield::Sender::setup(
            self.channel,
            &self.plan.derived("entries"),
            SemiHonest,
            self.cost.entries,
            optimize,
            cots,
            self.rng,
        )?;
        let engine = Receiver::new(&self.plan.derived("engine"), entries);
        let engine = engine.of_parts(self.plan.parts());
        Ok(engine.with_noise(self.plan.task.noise_span))
    }

    /// Sets up COTs and entries over GF(2^W); the other party calls [`Run::receiving_engine`].
    fn sending_engine<const W: u32>(&mut self) -> Result<Sender<W>, Error> {
        self.channel.begin_phase("correlations");
        let (session, optimize) = (self.plan.derived("COTs"), self.plan.task.optimize);
        let cots = bulk::Receiver::setup(
            self.channel,
            &session,
            SemiHonest,
            self.plan.main_cots(&self.cost),
            optimize,
            self.plan.key_agreement,
            self.rng,
        )?;
        let entries = bulk::subfield::Receiver::setup(
            self.channel,
            &self.plan.derived("entries"),
            SemiHonest,
            self.cost.entries,
            optimize,
            cots,
            self.rng,
        )?;
        let engine = Sender::new(&self.plan.derived("engine"), entries);
        let engine = engine.of_parts(self.plan.parts());
        Ok(engine.with_noise(self.plan.task.noise_span))
    }

    /// The shares of equality of one string on each side, of `bits` bits.
    fn receiver_equality<const W: u32>(
        mut self,
        bits: u32,
        tags: &[Block],
        masked: Payloads,
    ) -> Result<Received<W>, Error> {
        let mut engine = self.receiving_engine::<W>()?;
        self.channel.begin_phase("membership");
        let matches = engine.equality(self.channel, self.rng, bits, tags)?;
        Ok(Received {
            engine,
            matches,
            masked,
        })
    }

    fn sender_equality<const W: u32>(
        mut self,
        bits: u32,
        tags: &[Block],
        masks: Payloads,
    ) -> Result<Sent<W>, Error> {
        let mut engine = self.sending_engine::<W>()?;
        self.channel.begin_phase("membership");
        let matches = engine.equality(self.channel, self.rng, bits, tags)?;
        Ok(Sent {
            engine,
            matches,
            masks,
        })
    }

    /// Uniform masks for each bin.
    fn masks(&mut self) -> Payloads {
        let bins = self.plan.bins();
        self.plan.form.payloads(|_, group, _| {
            let mut blocks = Zeroizing::new(vec![0; bins.div_ceil(2)]);
            Prg::random(self.rng).fill(&mut blocks);
            let words = bytemuck::cast_slice::<Block, u64>(&blocks);
            Zeroizing::new(
                words[..bins]
                    .iter()
                    .map(|word| group.reduce(0, *word))
                    .collect(),
            )
        })
    }

    /// The first OPPRF, and whether the sender's tag of each bin, which it draws, is among the C candidates.
    fn receiver_drawn<const W: u32, O: BatchOprf, H: Hint, const C: usize>(
        mut self,
        opprf: &Opprf<O, H>,
        bins: &ReceiverBins,
    ) -> Result<Received<W>, Error> {
        let mut engine = self.receiving_engine::<W>()?;
        let shape = &self.plan.shape;
        let drawn = engine.draw(self.channel, self.rng, compared(shape, C))?;
        let strings = opprf.receive(self.channel, shape, &bins.queries, self.rng)?;
        self.channel.begin_phase("membership");
        let (candidates, _) = strings.tags().as_chunks::<C>();
        Ok(Received {
            matches: engine.membership_of_drawn(self.channel, self.rng, drawn, candidates)?,
            engine,
            masked: self.plan.form.of_candidates(&strings),
        })
    }

    /// The other side of [`Run::receiver_drawn`].
    fn sender_drawn<const W: u32, O: BatchOprf, H: Hint, const C: usize>(
        mut self,
        opprf: &Opprf<O, H>,
        bins: &SenderBins,
        input: &Input<'_>,
    ) -> Result<Sent<W>, Error> {
        let mut engine = self.sending_engine::<W>()?;
        let of = compared(&self.plan.shape, C);
        let drawn = engine.draw(self.channel, self.rng, of)?;
        let masks = self.program(opprf, bins, input, drawn.strings())?;
        self.channel.begin_phase("membership");
        Ok(Sent {
            matches: engine.membership_of_drawn::<C>(self.channel, self.rng, drawn)?,
            engine,
            masks,
        })
    }

    /// Runs the first OPPRF as its sender, with the tag of each bin and what comes with its items: returns the masks of
    /// each bin.
    fn program<O: BatchOprf, H: Hint>(
        &mut self,
        opprf: &Opprf<O, H>,
        bins: &SenderBins,
        input: &Input<'_>,
        tags: &[Block],
    ) -> Result<Payloads, Error> {
        let (shape, form) = (&self.plan.shape, &self.plan.form);
        let masks = self.masks();
        let entries = bins.table.entries();
        let (values, columns) = (input.values.unwrap_or_default(), form.columns);
        let target = |bin: usize, point: usize, part: usize| {
            if let Some(later) = entries.get(point + AHEAD) {
                prefetch(values, later.item() * columns);
            }
            let item = entries[point].item();
            form.target(tags[bin], part, |number, group| {
                group.add(
                    0,
                    form.of_item(input, item, number),
                    masks.field(number)[bin],
                )
            })
        };
        opprf.send(self.channel, shape, &bins.points, &target, self.rng)?;
        Ok(masks)
    }
}

/// What is compared of the tags of an OPPRF with so many candidates in a bin.
fn compared(shape: &Shape, candidates: usize) -> Compared {
    Compared {
        bins: shape.bins,
        bits: shape.split.tag_bits,
        candidates,
    }
}

/// Every element as often as a bin has candidates.
fn repeated<T: Copy>(each: &[T], times: usize) -> Vec<T> {
    // One that grew would leave copies behind.
    let mut all = Vec::with_capacity(each.len() * times);
    all.extend(each.iter().flat_map(|one| std::iter::repeat_n(*one, times)));
    all
}

/// The protocol of a recipe.
pub struct CircuitPsi<R> {
    recipe: PhantomData<R>,
    table: Sizing,
}

impl<R: Recipe> CircuitPsi<R> {
    /// With a table that has room for all items.
    pub const fn new(recipe: R) -> Self {
        Self::with_table(recipe, bins::table)
    }

    /// With a table of the caller's choice, of three functions. If it has a stash, of at most [`MAX_PLACES`] places,
    /// the items that it has no bin for go through a second execution, which both parties run whether there are any or
    /// not. The limits and the memory of [`Protocol::spec`] are those without one: within a few bits of its maximum, λ may
    /// be too large for the second execution.
    ///
    /// # Panics
    /// A run does, if λ is too large for the second execution.
    pub const fn with_table(_: R, table: Sizing) -> Self {
        CircuitPsi {
            recipe: PhantomData,
            table,
        }
    }

    /// All stages of the receiver but the last.
    fn received(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        params: &Params,
        plan: &Plan,
        input: Input<'_>,
    ) -> Result<(ReceiverBins, Received), Error> {
        channel.begin_phase("bins");
        let bins = ReceiverBins::new(params, plan.table, input.items)?;
        let run = plan.run::<R>(channel, rng);
        let mut received = match plan.digit_bits() {
            NARROW => R::Stages::receive::<NARROW>(run, &bins)?.for_functions(),
            _ => R::Stages::receive::<WIDTH>(run, &bins)?,
        };
        if let Some(second) = &plan.second {
            let stash = bins.table.stash().iter();
            let stashed = stash.map(|item| input.items[*item as usize]).collect();
            second.receive(channel, rng, plan, stashed, &mut received)?;
        }
        Ok((bins, received))
    }

    /// All stages of the sender but the last.
    fn sent(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        params: &Params,
        plan: &Plan,
        input: Input<'_>,
    ) -> Result<Sent, Error> {
        channel.begin_phase("bins");
        let bins = SenderBins::new(params, plan.table, input.items);
        let run = plan.run::<R>(channel, rng);
        let mut sent = match plan.digit_bits() {
            NARROW => R::Stages::send::<NARROW>(run, &bins, input)?.for_functions(),
            _ => R::Stages::send::<WIDTH>(run, &bins, input)?,
        };
        drop(bins);
        if let Some(second) = &plan.second {
            second.send(channel, rng, plan, &input, &mut sent)?;
        }
        Ok(sent)
    }
}

impl<R: Recipe> CircuitPsi<R> {
    /// Runs a party in the part that it has.
    fn run(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        half: Half,
        (params, task): (&Params, &Task),
        input: Input<'_>,
    ) -> Result<Output, Error> {
        let params = &by_part(params, task);
        let plan = Plan::new::<R>(params, self.table, task);
        let output = if hashes(task, half) {
            let (bins, received) = self.received(channel, rng, params, &plan, input)?;
            channel.begin_phase("function");
            plan.receive(plan.run::<R>(channel, rng), received, &bins, input)?
        } else {
            let sent = self.sent(channel, rng, params, &plan, input)?;
            channel.begin_phase("function");
            plan.send(plan.run::<R>(channel, rng), sent, input)?
        };
        channel.flush()?;
        Ok(output)
    }
}

/// Whether a party has the part of the one that puts its items into the table, which is the receiver's elsewhere here.
fn hashes(task: &Task, half: Half) -> bool {
    let [of_table, _] = task.reveal.by_part([Half::Receiver, Half::Sender]);
    of_table == half
}

/// The parameters for the parties in these parts.
fn by_part(params: &Params, task: &Task) -> Params {
    let sizes = [params.receiver_size, params.sender_size];
    let [receiver_size, sender_size] = task.reveal.by_part(sizes);
    Params {
        receiver_size,
        sender_size,
        ..params.clone()
    }
}

impl<R: Recipe> Protocol for CircuitPsi<R> {
    fn spec(&self) -> &'static Spec {
        const { &recipes::spec::<R>() }
    }

    fn reveals(&self) -> &'static [Reveal] {
        function::REVEALS
    }

    fn adds_up(&self) -> Option<&dyn AddsUp> {
        Some(self)
    }

    fn bytes_per_column(&self, receiver_size: u64, sender_size: u64) -> u64 {
        recipes::bytes_per_column::<R>(receiver_size, sender_size)
    }

    fn labels_per_item(&self) -> Option<u64> {
        Some(1)
    }

    fn max_lambda(&self, reveal: Reveals, sizes: [u64; 2], exact: Option<u32>) -> Option<u32> {
        let most = self.spec().max_lambda_of(reveal.by_part(sizes), exact);
        let of_ids = || function::max_lambda_of_ids(R::Stages::OPPRFS, sizes);
        most.map(|most| match reveal.is_ids() {
            true => most.min(of_ids()),
            false => most,
        })
    }

    fn traffic(&self, params: &Params, task: &Task, _: Option<u32>, _: bool) -> Option<Traffic> {
        let sizes = [params.receiver_size, params.sender_size].map(|size| size as u64);
        let lambda = self.max_lambda(task.reveal, sizes, None);
        if lambda.is_some_and(|most| params.lambda > most) {
            return None;
        }
        let params = &by_part(params, task);
        let traffic = Plan::new::<R>(params, self.table, task).traffic::<R>()?;
        let mut all = Traffic::default();
        match hashes(task, Half::Receiver) {
            true => all = traffic,
            false => all.reversed(|part| *part = traffic),
        }
        Some(all)
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) -> Prepared {
        Prepared::new(())
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        _: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        self.run(channel, rng, Half::Receiver, (params, task), input)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        _: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        self.run(channel, rng, Half::Sender, (params, task), input)
    }
}

impl<R: Recipe> AddsUp for CircuitPsi<R> {
    fn open(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        task: &Task,
        shares: &[u64],
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        let plan = Plan::new::<R>(params, self.table, task);
        channel.begin_phase("opening");
        let output = plan.open_sums(channel, rng, half, plan.cells::<R>(), shares)?;
        channel.flush()?;
        Ok(output)
    }

    fn open_matches(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        task: &Task,
        shares: &mut dyn SharedMatches,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let plan = Plan::new::<R>(params, self.table, task);
        plan.open_matches(channel, rng, half, plan.cells::<R>(), shares)?;
        channel.flush()
    }
}

#[cfg(test)]
mod tests;
