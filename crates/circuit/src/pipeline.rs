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
//! 2. A programmable OPRF gives the receiver one or three candidates per bin; the sender has a random tag per bin. If
//!    the sender has values, a candidate comes with the value of its item, plus a mask of the bin.
//! 3. A membership test makes shares of whether the bin's tag is among the candidates.
//! 4. The function is computed on the shares, and opened to the receiver alone; or the shares are the result.
//!
//! **What is revealed.** To the receiver the value, or that fewer items match than the minimum; to the sender nothing.
//! Sizes of sets are public. Neither the length nor the time of a message depends on values or matches.
//!
//! **λ.** That of the programmable OPRFs, which count tags that are equal by accident; two of them share it in
//! [`Psm2`]. Nothing else here fails.
//!
//! **Deviations.** The OPRF is based on VOLE where CGS22 has KKRT, and COTs come from [`bulk`].

use rand_core::CryptoRng;
use vesica_correlations::bulk::{self, Favour, SemiHonest};
use vesica_oprf::programmable::bins::{self, ReceiverBins, SenderBins};
use vesica_oprf::programmable::{
    Hint, OkvsHint, Opprf, RelaxedHint, Shape, Strings, TableHint, Target, membership,
};
use vesica_oprf::vole::Vole;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_psi::{
    Input, Output, Params, Prepared, Protocol, Reveal, Security, Shares, Spec, Task, Values,
    lambda_each,
};
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::cost::{self, Cost};
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::functions::Answer;
use crate::{Receiver, Sender};

/// Values that are overwritten once they are not needed.
type Secret<T> = Zeroizing<Vec<T>>;

/// Bits of a value in an OPPRF.
const VALUE_BITS: u32 = 64;

/// The second and third stage: from bins to shares of which of them match.
pub trait Recipe: Send + Sync {
    /// OPPRFs that share λ.
    const OPPRFS: u32;

    /// Candidates per bin of the first of them.
    const CANDIDATES: usize;

    /// Maximum bits of statistical security of each OPPRF, for this shape of the first.
    fn max_lambda_each(first: &Shape) -> u32;

    /// Approximate memory use of the OPPRFs in bytes, for this shape of the first.
    fn opprf_bytes(first: &Shape) -> u64;

    /// What is known about the protocol.
    fn spec(&self) -> &'static Spec;

    /// Number of shared bits: one per bin, or one per candidate.
    fn shares(&self, plan: &Plan) -> usize;

    /// Cost of the membership test.
    fn cost(&self, plan: &Plan) -> Cost;

    /// Runs the receiver.
    ///
    /// # Errors
    /// The channel's and those of its parts.
    fn receive(&self, run: Run<'_>, bins: &ReceiverBins) -> Result<Received, Error>;

    /// Runs the sender. `value` is that of an item, or 0.
    ///
    /// # Errors
    /// As [`Recipe::receive`].
    fn send(
        &self,
        run: Run<'_>,
        bins: &SenderBins,
        value: &(impl Fn(usize) -> u64 + Sync),
    ) -> Result<Sent, Error>;
}

/// What both parties know of a run.
pub struct Plan {
    session: [u8; 32],
    /// The first OPPRF.
    shape: Shape,
    task: Task,
}

impl Plan {
    fn new<R: Recipe>(params: &Params, task: &Task) -> Plan {
        let payload_bits = match task.values {
            Values::Sender | Values::Both => VALUE_BITS,
            Values::None | Values::Receiver => 0,
        };
        let each = Params {
            lambda: params.lambda_each(R::OPPRFS),
            ..params.clone()
        };
        Plan {
            session: params.session,
            shape: bins::shape(&each, payload_bits),
            task: *task,
        }
    }

    fn bins(&self) -> usize {
        self.shape.bins
    }

    /// Whether the sender has values.
    fn has_payloads(&self) -> bool {
        self.shape.payload_bits > 0
    }

    /// The session of a part of the run.
    fn derived(&self, part: &'static str) -> [u8; 32] {
        Oracle::new("vesica/1 circuit", &self.session).hash(&[part.as_bytes()])
    }

    /// Cost of the membership test and of the function.
    fn cost<R: Recipe>(&self, recipe: &R) -> Cost {
        let (shares, minimum) = (recipe.shares(self), self.task.min_size);
        let function = match (self.task.reveal, self.task.values) {
            (Reveal::Sum, Values::Receiver) => cost::sum_of_receiver(shares, minimum),
            (Reveal::Sum, _) => cost::sum_of_sender(shares, minimum),
            (Reveal::InnerProduct, _) => cost::inner_product(shares, minimum),
            (Reveal::ThresholdMatches, _) => cost::matches(shares),
            (Reveal::Shares, Values::None) => Cost::default(),
            (Reveal::Shares, Values::Receiver) => cost::shares_of_receiver(shares),
            (Reveal::Shares, Values::Sender) => cost::shares_of_sender(shares),
            (Reveal::Shares, Values::Both) => {
                cost::shares_of_receiver(shares) + cost::shares_of_sender(shares)
            }
            _ => cost::size(shares, minimum),
        };
        recipe.cost(self) + function
    }
}

/// A party's run of a [`Recipe`].
pub struct Run<'a> {
    channel: &'a mut dyn Channel,
    rng: &'a mut dyn CryptoRng,
    plan: &'a Plan,
    /// COTs of the main direction that the whole run takes.
    cots: usize,
}

/// What the receiver has after the membership test.
pub struct Received {
    engine: Receiver,
    matches: BitShares,
    /// For each shared bit the sender's value plus its mask, if the sender has values.
    masked: Secret<u64>,
}

/// What the sender has after the membership test.
pub struct Sent {
    engine: Sender,
    matches: BitShares,
    /// The mask of each shared bit, if the sender has values.
    masks: Secret<u64>,
}

impl Run<'_> {
    /// Sets up COTs; the other party calls [`Run::sending_engine`].
    fn receiving_engine(&mut self) -> Result<Receiver, Error> {
        self.channel.begin_phase("correlations");
        let session = self.plan.derived("COTs");
        let source = bulk::Sender::setup(
            self.channel,
            &session,
            SemiHonest,
            self.cots,
            Favour::Time,
            self.rng,
        )?;
        Ok(Receiver::new(
            &self.plan.derived("engine"),
            Box::new(source),
        ))
    }

    /// Sets up COTs; the other party calls [`Run::receiving_engine`].
    fn sending_engine(&mut self) -> Result<Sender, Error> {
        self.channel.begin_phase("correlations");
        let session = self.plan.derived("COTs");
        let source = bulk::Receiver::setup(
            self.channel,
            &session,
            SemiHonest,
            self.cots,
            Favour::Time,
            self.rng,
        )?;
        Ok(Sender::new(&self.plan.derived("engine"), Box::new(source)))
    }

    /// The shares of equality of one string on each side, of `bits` bits.
    fn receiver_equality(
        mut self,
        bits: u32,
        tags: &[Block],
        masked: Secret<u64>,
    ) -> Result<Received, Error> {
        let mut engine = self.receiving_engine()?;
        self.channel.begin_phase("membership");
        let matches = engine.equality(self.channel, self.rng, bits, tags)?;
        Ok(Received {
            engine,
            matches,
            masked,
        })
    }

    fn sender_equality(
        mut self,
        bits: u32,
        tags: &[Block],
        masks: Secret<u64>,
    ) -> Result<Sent, Error> {
        let mut engine = self.sending_engine()?;
        self.channel.begin_phase("membership");
        let matches = engine.equality(self.channel, self.rng, bits, tags)?;
        Ok(Sent {
            engine,
            matches,
            masks,
        })
    }

    /// A uniform mask per bin, if the sender has values.
    fn masks(&mut self) -> Secret<u64> {
        let bins = match self.plan.has_payloads() {
            true => self.plan.bins(),
            false => 0,
        };
        let mut blocks = Zeroizing::new(vec![0; bins.div_ceil(2)]);
        Prg::random(self.rng).fill(&mut blocks);
        Zeroizing::new(bytemuck::cast_slice::<Block, u64>(&blocks)[..bins].to_vec())
    }

    /// Runs the first OPPRF as its sender: returns the tag and the mask of each bin.
    fn program<H: Hint>(
        &mut self,
        opprf: &Opprf<Vole, H>,
        bins: &SenderBins,
        value: &(impl Fn(usize) -> u64 + Sync),
    ) -> Result<(Secret<Block>, Secret<u64>), Error> {
        let shape = &self.plan.shape;
        let tags = opprf.random_tags(shape, self.rng);
        let masks = self.masks();
        let entries = bins.table.entries();
        let target = |bin: usize, point: usize| Target {
            tag: tags[bin],
            payload: masks.get(bin).map_or(0, |mask| {
                value(entries[point].item()).wrapping_add(*mask).into()
            }),
        };
        opprf.send(self.channel, shape, &bins.points, target, self.rng)?;
        Ok((tags, masks))
    }
}

/// An OPPRF on the OPRF of `vole`.
const fn opprf<H>(hint: H) -> Opprf<Vole, H> {
    Opprf { oprf: Vole, hint }
}

/// The payloads of all candidates.
fn payloads(strings: &Strings) -> Secret<u64> {
    Zeroizing::new(strings.payloads().iter().map(|p| *p as u64).collect())
}

/// Every element as often as a bin has candidates.
fn repeated<T: Copy>(each: &[T], times: usize) -> Vec<T> {
    let all = each.iter().flat_map(|one| std::iter::repeat_n(*one, times));
    all.collect()
}

/// `circuit-okvs`: one OKVS as the hint, and equality.
#[derive(Clone, Copy, Debug)]
pub struct Okvs {
    opprf: Opprf<Vole, OkvsHint>,
}

impl Okvs {
    /// The recipe.
    #[allow(clippy::new_without_default)] // There is nothing to choose.
    pub const fn new() -> Self {
        Okvs {
            opprf: opprf(OkvsHint),
        }
    }
}

impl Recipe for Okvs {
    const OPPRFS: u32 = 1;
    const CANDIDATES: usize = OkvsHint::CANDIDATES;

    fn max_lambda_each(first: &Shape) -> u32 {
        Self::new().opprf.max_lambda(first)
    }

    fn opprf_bytes(first: &Shape) -> u64 {
        Self::new().opprf.working_bytes(first)
    }

    fn spec(&self) -> &'static Spec {
        static SPEC: Spec = spec::<Okvs>(
            "circuit-okvs",
            "LTSXQ26, figures 16 to 19, on the OPRF of vole",
        );
        &SPEC
    }

    fn shares(&self, plan: &Plan) -> usize {
        plan.bins()
    }

    fn cost(&self, plan: &Plan) -> Cost {
        cost::equality(plan.bins(), self.opprf.tag_bits(&plan.shape))
    }

    fn receive(&self, run: Run<'_>, bins: &ReceiverBins) -> Result<Received, Error> {
        let shape = &run.plan.shape;
        let strings = self
            .opprf
            .receive(run.channel, shape, &bins.queries, run.rng)?;
        run.receiver_equality(
            self.opprf.tag_bits(shape),
            strings.tags(),
            payloads(&strings),
        )
    }

    fn send(
        &self,
        mut run: Run<'_>,
        bins: &SenderBins,
        value: &(impl Fn(usize) -> u64 + Sync),
    ) -> Result<Sent, Error> {
        let (tags, masks) = run.program(&self.opprf, bins, value)?;
        let bits = self.opprf.tag_bits(&run.plan.shape);
        run.sender_equality(bits, &tags, masks)
    }
}

/// `circuit-rb-psm1`: a relaxed batch OPPRF, and a membership test of all candidates at once (CGS22, figure 6). If the
/// sender has values, the shares are those of each candidate, since each comes with a value.
#[derive(Clone, Copy, Debug)]
pub struct Psm1 {
    opprf: Opprf<Vole, RelaxedHint>,
}

impl Psm1 {
    /// The recipe.
    #[allow(clippy::new_without_default)] // There is nothing to choose.
    pub const fn new() -> Self {
        Psm1 {
            opprf: opprf(RelaxedHint),
        }
    }
}

impl Recipe for Psm1 {
    const OPPRFS: u32 = 1;
    const CANDIDATES: usize = RelaxedHint::CANDIDATES;

    fn max_lambda_each(first: &Shape) -> u32 {
        Self::new().opprf.max_lambda(first)
    }

    fn opprf_bytes(first: &Shape) -> u64 {
        Self::new().opprf.working_bytes(first)
    }

    fn spec(&self) -> &'static Spec {
        static SPEC: Spec = spec::<Psm1>(
            "circuit-rb-psm1",
            "CGS22, figures 3, 6 and 8, on the OPRF of vole",
        );
        &SPEC
    }

    fn shares(&self, plan: &Plan) -> usize {
        match plan.has_payloads() {
            true => Self::CANDIDATES * plan.bins(),
            false => plan.bins(),
        }
    }

    fn cost(&self, plan: &Plan) -> Cost {
        let bits = self.opprf.tag_bits(&plan.shape);
        match plan.has_payloads() {
            true => cost::equality(self.shares(plan), bits),
            false => cost::membership(plan.bins(), bits),
        }
    }

    fn receive(&self, mut run: Run<'_>, bins: &ReceiverBins) -> Result<Received, Error> {
        let shape = &run.plan.shape;
        let bits = self.opprf.tag_bits(shape);
        let strings = self
            .opprf
            .receive(run.channel, shape, &bins.queries, run.rng)?;
        if run.plan.has_payloads() {
            return run.receiver_equality(bits, strings.tags(), payloads(&strings));
        }
        let mut engine = run.receiving_engine()?;
        run.channel.begin_phase("membership");
        let (candidates, _) = strings.tags().as_chunks();
        Ok(Received {
            matches: engine.membership(run.channel, run.rng, bits, candidates)?,
            engine,
            masked: Zeroizing::default(),
        })
    }

    fn send(
        &self,
        mut run: Run<'_>,
        bins: &SenderBins,
        value: &(impl Fn(usize) -> u64 + Sync),
    ) -> Result<Sent, Error> {
        let (tags, masks) = run.program(&self.opprf, bins, value)?;
        let bits = self.opprf.tag_bits(&run.plan.shape);
        if run.plan.has_payloads() {
            let tags = Zeroizing::new(repeated(&tags, Self::CANDIDATES));
            let masks = Zeroizing::new(repeated(&masks, Self::CANDIDATES));
            return run.sender_equality(bits, &tags, masks);
        }
        let mut engine = run.sending_engine()?;
        run.channel.begin_phase("membership");
        Ok(Sent {
            matches: engine.membership(run.channel, run.rng, bits, &tags)?,
            engine,
            masks,
        })
    }
}

/// `circuit-rb-psm2`: a relaxed batch OPPRF, a table-based one on its candidates with the roles exchanged (CGS22,
/// figure 7), and equality.
///
/// The second OPPRF hands the sender the candidate's value under a second mask, σ, of the receiver's: with v + τ in
/// the first, the sender has v + τ + σ where a bin matches. The two parties then have −σ and τ − (v + τ + σ), whose
/// difference is v.
#[derive(Clone, Copy, Debug)]
pub struct Psm2 {
    first: Opprf<Vole, RelaxedHint>,
    second: Opprf<Vole, TableHint>,
}

impl Psm2 {
    /// The recipe.
    #[allow(clippy::new_without_default)] // There is nothing to choose.
    pub const fn new() -> Self {
        Psm2 {
            first: opprf(RelaxedHint),
            second: opprf(TableHint),
        }
    }

    fn second_shape(first: &Shape) -> Shape {
        membership::shape(first, RelaxedHint::CANDIDATES, first.payload_bits)
    }
}

impl Recipe for Psm2 {
    const OPPRFS: u32 = 2;
    const CANDIDATES: usize = RelaxedHint::CANDIDATES;

    fn max_lambda_each(first: &Shape) -> u32 {
        let Psm2 { first: one, second } = Self::new();
        one.max_lambda(first)
            .min(second.max_lambda(&Self::second_shape(first)))
    }

    fn opprf_bytes(first: &Shape) -> u64 {
        let Psm2 { first: one, second } = Self::new();
        one.working_bytes(first)
            .max(second.working_bytes(&Self::second_shape(first)))
    }

    fn spec(&self) -> &'static Spec {
        static SPEC: Spec = spec::<Psm2>(
            "circuit-rb-psm2",
            "CGS22, figures 3, 7 and 8, on the OPRF of vole",
        );
        &SPEC
    }

    fn shares(&self, plan: &Plan) -> usize {
        plan.bins()
    }

    fn cost(&self, plan: &Plan) -> Cost {
        let shape = Self::second_shape(&plan.shape);
        cost::equality(plan.bins(), self.second.tag_bits(&shape))
    }

    fn receive(&self, mut run: Run<'_>, bins: &ReceiverBins) -> Result<Received, Error> {
        let first = &run.plan.shape;
        let strings = self
            .first
            .receive(run.channel, first, &bins.queries, run.rng)?;
        let shape = Self::second_shape(&run.plan.shape);
        let points = membership::points(&shape, &strings);
        let tags = self.second.random_tags(&shape, run.rng);
        let masks = run.masks();
        let target = |bin: usize, point: usize| Target {
            tag: tags[bin],
            payload: masks.get(bin).map_or(0, |mask| {
                let masked = strings.payloads()[point] as u64;
                masked.wrapping_add(*mask).into()
            }),
        };
        self.second
            .send(run.channel, &shape, &points, target, run.rng)?;
        let negated = masks.iter().map(|mask| mask.wrapping_neg()).collect();
        run.receiver_equality(self.second.tag_bits(&shape), &tags, Zeroizing::new(negated))
    }

    fn send(
        &self,
        mut run: Run<'_>,
        bins: &SenderBins,
        value: &(impl Fn(usize) -> u64 + Sync),
    ) -> Result<Sent, Error> {
        let (tags, masks) = run.program(&self.first, bins, value)?;
        let shape = Self::second_shape(&run.plan.shape);
        let queries = membership::queries(&shape, &tags);
        let strings = self
            .second
            .receive(run.channel, &shape, &queries, run.rng)?;
        let twice = payloads(&strings);
        let masks = masks.iter().zip(twice.iter());
        let masks = masks
            .map(|(mask, twice)| mask.wrapping_sub(*twice))
            .collect();
        let bits = self.second.tag_bits(&shape);
        run.sender_equality(bits, strings.tags(), Zeroizing::new(masks))
    }
}

/// What is known about a recipe's protocol.
const fn spec<R: Recipe>(name: &'static str, source: &'static str) -> Spec {
    Spec {
        name,
        source,
        security: Security::SemiHonest,
        has_semi_honest_form: false,
        max_items: MAX_ITEMS,
        max_lambda: max_lambda_of::<R>,
        working_bytes: working_bytes_of::<R>,
    }
}

/// The OPRF takes up to 2^28 points, and an item has three of them; so has a bin in [`Psm2`].
const MAX_ITEMS: u64 = 1 << 26;

/// A shape for these sizes and λ with payloads, which need more.
fn any_shape(lambda: u32, receiver_size: u64, sender_size: u64) -> Shape {
    let size = |items: u64| items.min(MAX_ITEMS) as usize;
    let params = Params {
        security: Security::SemiHonest,
        lambda,
        receiver_size: size(receiver_size),
        sender_size: size(sender_size),
        session: [0; 32],
    };
    bins::shape(&params, VALUE_BITS)
}

fn max_lambda_of<R: Recipe>(receiver_size: u64, sender_size: u64) -> Option<u32> {
    // The larger λ, the more bins, and the fewer bits are left to tags.
    let holds = |lambda: &u32| {
        let each = lambda_each(*lambda, R::OPPRFS);
        each <= R::max_lambda_each(&any_shape(each, receiver_size, sender_size))
    };
    let all: Vec<u32> = (1..=Block::BITS).collect();
    Some(all.partition_point(holds) as u32)
}

/// The OPPRFs, or the shares of all candidates: tags, values, masks and pads.
fn working_bytes_of<R: Recipe>(receiver_size: u64, sender_size: u64) -> u64 {
    let shape = any_shape(lambda_each(40, R::OPPRFS), receiver_size, sender_size);
    let shares = 128 * (R::CANDIDATES * shape.bins) as u64;
    R::opprf_bytes(&shape)
        .saturating_add(shares)
        .saturating_add(128 << 20)
}

/// The protocol of a recipe.
pub struct CircuitPsi<R>(pub R);

impl<R: Recipe> Protocol for CircuitPsi<R> {
    fn spec(&self) -> &'static Spec {
        self.0.spec()
    }

    fn reveals(&self) -> &'static [Reveal] {
        &[
            Reveal::Size,
            Reveal::Sum,
            Reveal::InnerProduct,
            Reveal::ThresholdMatches,
            Reveal::Shares,
        ]
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
        let plan = Plan::new::<R>(params, task);
        let cost = plan.cost(&self.0);
        channel.begin_phase("bins");
        let bins = ReceiverBins::new(&plan.params(params), input.items)?;
        let run = Run {
            channel,
            rng,
            plan: &plan,
            cots: cost.cots,
        };
        let received = self.0.receive(run, &bins)?;
        channel.begin_phase("function");
        let output = plan.open(channel, rng, cost, received, &bins, input)?;
        channel.flush()?;
        Ok(output)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        let plan = Plan::new::<R>(params, task);
        let cost = plan.cost(&self.0);
        channel.begin_phase("bins");
        let bins = SenderBins::new(&plan.params(params), input.items);
        let value = |item: usize| input.values.map_or(0, |values| values[item] as u64);
        let run = Run {
            channel,
            rng,
            plan: &plan,
            cots: cost.cots,
        };
        let sent = self.0.send(run, &bins, &value)?;
        drop(bins);
        channel.begin_phase("function");
        let output = plan.help(channel, rng, cost, sent)?;
        channel.flush()?;
        Ok(output)
    }
}

/// The receiver's item in each of `shares` cells: the bins, or the candidates of all bins.
fn own_items(bins: &ReceiverBins, shares: usize) -> Vec<Option<u32>> {
    let items = bins.table.bins();
    let items: Vec<_> = items.map(|entry| Some(entry?.item() as u32)).collect();
    let times = shares.checked_div(items.len()).unwrap_or(1);
    repeated(&items, times)
}

/// The receiver's value in each of `shares` cells, 0 in empty ones.
fn own_values(bins: &ReceiverBins, values: Option<&[i64]>, shares: usize) -> Secret<i64> {
    let Some(values) = values else {
        return Secret::default();
    };
    let own = own_items(bins, shares).into_iter();
    let own = own.map(|item| item.map_or(0, |item| values[item as usize]));
    Zeroizing::new(own.collect())
}

/// For each of `items` items whether it is in a bin that matches. The time does not depend on that.
fn matched_items(bins: &ReceiverBins, matches: &[bool], items: usize) -> Vec<bool> {
    let mut matched = vec![false; items];
    for (entry, matches) in bins.table.bins().zip(matches) {
        if let Some(entry) = entry {
            matched[entry.item()] = *matches;
        }
    }
    matched
}

/// One party's shares of bits, one by one.
fn each_bit(matches: &BitShares) -> Secret<bool> {
    let bits = (0..matches.len()).map(|i| matches.get(i) == 1);
    Zeroizing::new(bits.collect())
}

impl Plan {
    /// The parameters of the bins.
    fn params(&self, params: &Params) -> Params {
        Params {
            lambda: self.shape.params.lambda,
            ..params.clone()
        }
    }

    /// The receiver's part of the function.
    fn open(
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
        let (reveal, values, minimum) = (self.task.reveal, self.task.values, self.task.min_size);
        let own = own_values(bins, input.values, matches.len());
        let answer = match (reveal, values) {
            (Reveal::Size, Values::None) => engine.size(channel, rng, &matches, minimum)?,
            (Reveal::Sum, Values::Receiver) => {
                engine.sum_of_receiver(channel, rng, &matches, &own, minimum)?
            }
            (Reveal::Sum, Values::Sender) => self
                .reversed_receiver(engine, channel, rng, cost)?
                .sum_of_sender(channel, rng, &matches, &masked, minimum)?,
            (Reveal::InnerProduct, Values::Both) => self
                .reversed_receiver(engine, channel, rng, cost)?
                .inner_product(channel, rng, &matches, (&own, &masked), minimum)?,
            (Reveal::ThresholdMatches, Values::None) => {
                let matches = engine.matches(channel, rng, &matches, minimum)?;
                let matched = matched_items(bins, &matches, input.items.len());
                return Ok(Output::Matches(matched));
            }
            (Reveal::Shares, _) => {
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
                    items: Some(own_items(bins, matches.len())),
                    matches: each_bit(&matches),
                    receiver_values,
                    sender_values,
                }));
            }
            (reveal, values) => panic!("{reveal} of {values:?}"),
        };
        Ok(match answer {
            Answer::Value(value) => Output::Value(value.into()),
            Answer::TooFew => Output::Below(minimum),
        })
    }

    /// The sender's part of the function.
    fn help(
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
        let (reveal, values, minimum) = (self.task.reveal, self.task.values, self.task.min_size);
        match (reveal, values) {
            (Reveal::Size, Values::None) => engine.size(channel, rng, &matches, minimum)?,
            (Reveal::Sum, Values::Receiver) => {
                engine.sum_of_receiver(channel, rng, &matches, minimum)?;
            }
            (Reveal::Sum, Values::Sender) => self
                .reversed_sender(engine, channel, rng, cost)?
                .sum_of_sender(channel, rng, &matches, &masks, minimum)?,
            (Reveal::InnerProduct, Values::Both) => self
                .reversed_sender(engine, channel, rng, cost)?
                .inner_product(channel, rng, &matches, &masks, minimum)?,
            (Reveal::ThresholdMatches, Values::None) => {
                engine.matches(channel, rng, &matches, minimum)?;
            }
            (Reveal::Shares, _) => {
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
            (reveal, values) => panic!("{reveal} of {values:?}"),
        }
        Ok(Output::Nothing)
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
        let cots = cost.reverse_cots;
        let source = bulk::Receiver::setup(channel, &session, SemiHonest, cots, Favour::Time, rng)?;
        Ok(engine.with_reverse(Box::new(source)))
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
        let cots = cost.reverse_cots;
        let source = bulk::Sender::setup(channel, &session, SemiHonest, cots, Favour::Time, rng)?;
        Ok(engine.with_reverse(Box::new(source)))
    }
}

#[cfg(test)]
mod tests {
    use vesica_testing::{digests, honest, rng};

    use super::*;

    const RUNS: u64 = 20;

    /// What the receiver has after the membership test: shares of matches, and masked values.
    fn received<R: Recipe>(recipe: &R, common: u64, value: u64, seed: u64) -> Vec<u64> {
        let params = Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: 20,
            sender_size: 20,
            session: [3; 32],
        };
        let task = Task {
            values: Values::Sender,
            ..Task::new(Reveal::Sum)
        };
        let plan = Plan::new::<R>(&params, &task);
        let cots = plan.cost(recipe).cots;
        let params = plan.params(&params);
        let (ours, theirs) = (digests(0..20), digests(20 - common..40 - common));
        let (received, _) = honest(
            |channel| {
                let rng = &mut rng(2 * seed);
                let bins = ReceiverBins::new(&params, &ours)?;
                let plan = &plan;
                let run = Run {
                    channel,
                    rng,
                    plan,
                    cots,
                };
                recipe.receive(run, &bins)
            },
            |channel| {
                let rng = &mut rng(2 * seed + 1);
                let bins = SenderBins::new(&params, &theirs);
                let plan = &plan;
                let run = Run {
                    channel,
                    rng,
                    plan,
                    cots,
                };
                recipe.send(run, &bins, &|_| value)
            },
        );
        let mut seen = received.matches.words().to_vec();
        seen.extend(&*received.masked);
        seen
    }

    /// Every bit that the receiver has is 1 in about half of the runs, whatever matches and whatever the values: its
    /// shares and masked values are uniform.
    fn looks_uniform<R: Recipe>(recipe: &R) {
        for (common, value) in [(20, 5), (0, 5)] {
            let views: Vec<_> = (0..RUNS)
                .map(|seed| received(recipe, common, value, seed))
                .collect();
            let (mut sum, mut bits) = (0.0, 0.0);
            for word in 0..views[0].len() {
                for bit in 0..64 {
                    let ones = views
                        .iter()
                        .filter(|view| view[word] >> bit & 1 == 1)
                        .count();
                    let off = ones as f64 - RUNS as f64 / 2.0;
                    // Bits beyond the last share are 0.
                    if ones > 0 {
                        sum += off * off / (RUNS as f64 / 4.0);
                        bits += 1.0;
                    }
                }
            }
            let deviation = (sum - bits) / f64::sqrt(2.0 * bits);
            assert!(
                bits > 1000.0 && deviation.abs() < 5.0,
                "{common} {value}: {deviation}"
            );
        }
    }

    #[test]
    fn what_the_receiver_has_looks_uniform() {
        looks_uniform(&Okvs::new());
        looks_uniform(&Psm1::new());
        looks_uniform(&Psm2::new());
    }
}
