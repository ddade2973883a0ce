//! The recipes: what differs between the circuit PSI of CGS22, of LTSXQ26 and of PSTY19, and what is known of each.

use vesica_encodings::cuckoo;
use vesica_oprf::programmable::bins::{self, ReceiverBins, SenderBins, Sizing};
use vesica_oprf::programmable::{
    BatchOprf, Hint, OkvsHint, Opprf, RelaxedHint, Shape, TableHint, membership,
};
use vesica_oprf::vole::Vole;
use vesica_psi::{
    Input, ItemCost, KeyAgreement, Params, PostQuantum, Protocol, Security, Spec, lambda_each,
};
use vesica_wire::{Error, Traffic};
use zeroize::Zeroizing;

use super::payload::VALUE_BITS;
use super::traffic::Test;
use super::{CircuitPsi, Plan, Received, Recipe, Run, Sent, Stages, compared, repeated};
use crate::Compared;
use crate::arithmetic::Elements;

/// `circuit-okvs`: one OKVS as the hint, and equality.
#[derive(Clone, Copy, Debug)]
pub struct Okvs;

impl Recipe for Okvs {
    type Oprf = Vole;
    type Hint = OkvsHint;
    type Stages = Plain;
    const NAME: &'static str = "circuit-okvs";
    const SOURCE: &'static str = "LTSXQ26, figures 16 to 19, on the OPRF of vole";
}

/// `circuit-rb-psm1`: a relaxed batch OPPRF, and a membership test of all candidates at once.
#[derive(Clone, Copy, Debug)]
pub struct Psm1;

impl Recipe for Psm1 {
    type Oprf = Vole;
    type Hint = RelaxedHint;
    type Stages = OneOfThree;
    const NAME: &'static str = "circuit-rb-psm1";
    const SOURCE: &'static str = "CGS22, figures 3, 6 and 8, on the OPRF of vole";
}

/// `circuit-rb-psm2`: a relaxed batch OPPRF, a table-based one on its candidates, and equality.
#[derive(Clone, Copy, Debug)]
pub struct Psm2;

impl Recipe for Psm2 {
    type Oprf = Vole;
    type Hint = RelaxedHint;
    type Stages = Twice;
    const NAME: &'static str = "circuit-rb-psm2";
    const SOURCE: &'static str = "CGS22, figures 3, 7 and 8, on the OPRF of vole";
}

/// The protocols of all recipes.
pub static PROTOCOLS: &[&dyn Protocol] = &[
    &CircuitPsi::new(Okvs),
    &CircuitPsi::new(Psm1),
    &CircuitPsi::new(Psm2),
];

/// One candidate per bin, and equality (PSTY19; LTSXQ26, figure 16).
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<O: BatchOprf + Default, H: Hint + Default> Stages<O, H> for Plain {
    const OPPRFS: u32 = {
        assert!(H::CANDIDATES == 1, "a hint of one candidate");
        1
    };

    fn plan(
        params: &Params,
        payload_bits: u32,
        table: Sizing,
    ) -> Option<(cuckoo::Parameters, Shape)> {
        Opprf::<O, H>::default().plan(params, payload_bits, table)
    }

    fn opprf_bytes(first: &Shape) -> u64 {
        Opprf::<O, H>::default().working_bytes(first)
    }

    fn shares(plan: &Plan) -> usize {
        plan.bins()
    }

    fn test(plan: &Plan) -> Test {
        Test::of_drawn(compared(&plan.shape, 1))
    }

    fn traffic(plan: &Plan, traffic: &mut Traffic) {
        Opprf::<O, H>::default().traffic(&plan.shape, traffic);
    }

    fn receive<const W: u32>(run: Run<'_>, bins: &ReceiverBins) -> Result<Received<W>, Error> {
        run.receiver_drawn::<W, _, _, 1>(&Opprf::<O, H>::default(), bins)
    }

    fn send<const W: u32>(
        run: Run<'_>,
        bins: &SenderBins,
        input: Input<'_>,
    ) -> Result<Sent<W>, Error> {
        run.sender_drawn::<W, _, _, 1>(&Opprf::<O, H>::default(), bins, &input)
    }
}

/// The first OPPRF of CGS22.
fn relaxed<O: BatchOprf + Default>() -> Opprf<O, RelaxedHint> {
    Opprf::default()
}

/// Three candidates per bin, and a membership test of all of them at once (CGS22, figure 6). If the sender has values
/// or strings, the shares are those of each candidate, since each comes with one.
#[derive(Clone, Copy, Debug)]
pub struct OneOfThree;

impl<O: BatchOprf + Default> Stages<O, RelaxedHint> for OneOfThree {
    const OPPRFS: u32 = 1;

    fn plan(
        params: &Params,
        payload_bits: u32,
        table: Sizing,
    ) -> Option<(cuckoo::Parameters, Shape)> {
        relaxed::<O>().plan(params, payload_bits, table)
    }

    fn opprf_bytes(first: &Shape) -> u64 {
        relaxed::<O>().working_bytes(first)
    }

    fn shares(plan: &Plan) -> usize {
        match plan.has_payloads() {
            true => RelaxedHint::CANDIDATES * plan.bins(),
            false => plan.bins(),
        }
    }

    fn test(plan: &Plan) -> Test {
        let of = compared(&plan.shape, RelaxedHint::CANDIDATES);
        match plan.has_payloads() {
            true => Test::new(Compared {
                bins: of.bins * of.candidates,
                candidates: 1,
                ..of
            }),
            false => Test::of_drawn(of),
        }
    }

    fn traffic(plan: &Plan, traffic: &mut Traffic) {
        relaxed::<O>().traffic(&plan.shape, traffic);
    }

    fn receive<const W: u32>(run: Run<'_>, bins: &ReceiverBins) -> Result<Received<W>, Error> {
        if !run.plan.has_payloads() {
            return run
                .receiver_drawn::<W, _, _, { RelaxedHint::CANDIDATES }>(&relaxed::<O>(), bins);
        }
        let shape = &run.plan.shape;
        let strings = relaxed::<O>().receive(run.channel, shape, &bins.queries, run.rng)?;
        let masked = run.plan.form.of_candidates(&strings);
        run.receiver_equality::<W>(shape.split.tag_bits, strings.tags(), masked)
    }

    fn send<const W: u32>(
        mut run: Run<'_>,
        bins: &SenderBins,
        input: Input<'_>,
    ) -> Result<Sent<W>, Error> {
        let opprf = relaxed::<O>();
        if !run.plan.has_payloads() {
            return run.sender_drawn::<W, _, _, { RelaxedHint::CANDIDATES }>(&opprf, bins, &input);
        }
        // Three tests share a tag.
        let tags = opprf.random_tags(&run.plan.shape, run.rng);
        let masks = run.program(&opprf, bins, &input, &tags)?;
        let tags = Zeroizing::new(repeated(&tags, RelaxedHint::CANDIDATES));
        let masks = run.plan.form.payloads(|number, _, _| {
            Zeroizing::new(repeated(masks.field(number), RelaxedHint::CANDIDATES))
        });
        let bits = run.plan.shape.split.tag_bits;
        run.sender_equality::<W>(bits, &tags, masks)
    }
}

/// Three candidates per bin, a table-based OPPRF on them with the roles exchanged (CGS22, figure 7), and equality.
///
/// The second OPPRF hands the sender the candidate's value under a second mask, σ, of the receiver's: with v + τ in
/// the first, the sender has v + τ + σ where a bin matches. The two parties then have −σ and τ − (v + τ + σ), whose
/// difference is v.
#[derive(Clone, Copy, Debug)]
pub struct Twice;

/// The second OPPRF, for this shape of the first.
fn second<O: BatchOprf + Default>(first: &Shape) -> Option<(Opprf<O, TableHint>, Shape)> {
    let opprf = Opprf::<O, TableHint>::default();
    let shape = opprf.plan_second(first, RelaxedHint::CANDIDATES, first.payload_bits)?;
    Some((opprf, shape))
}

/// As [`second`].
///
/// # Panics
/// If the first shape is not one of [`Stages::plan`].
fn second_of<O: BatchOprf + Default>(first: &Shape) -> (Opprf<O, TableHint>, Shape) {
    second(first).expect("a plan with room for both")
}

impl<O: BatchOprf + Default> Stages<O, RelaxedHint> for Twice {
    const OPPRFS: u32 = 2;

    fn plan(
        params: &Params,
        payload_bits: u32,
        table: Sizing,
    ) -> Option<(cuckoo::Parameters, Shape)> {
        let (table, first) = relaxed::<O>().plan(params, payload_bits, table)?;
        second::<O>(&first).map(|_| (table, first))
    }

    fn opprf_bytes(first: &Shape) -> u64 {
        let (opprf, shape) = second_of::<O>(first);
        let first = relaxed::<O>().working_bytes(first);
        first.max(opprf.working_bytes(&shape))
    }

    fn shares(plan: &Plan) -> usize {
        plan.bins()
    }

    fn test(plan: &Plan) -> Test {
        let (_, shape) = second_of::<O>(&plan.shape);
        Test::new(compared(&shape, 1))
    }

    fn traffic(plan: &Plan, traffic: &mut Traffic) {
        let (opprf, shape) = second_of::<O>(&plan.shape);
        relaxed::<O>().traffic(&plan.shape, traffic);
        traffic.reversed(|traffic| opprf.traffic(&shape, traffic));
    }

    fn receive<const W: u32>(mut run: Run<'_>, bins: &ReceiverBins) -> Result<Received<W>, Error> {
        let first = &run.plan.shape;
        let strings = relaxed::<O>().receive(run.channel, first, &bins.queries, run.rng)?;
        let (opprf, shape) = second_of::<O>(&run.plan.shape);
        let points = membership::points(&shape, &strings);
        let tags = opprf.random_tags(&shape, run.rng);
        let masks = run.masks();
        let form = &run.plan.form;
        let once = form.of_candidates(&strings);
        let target = |bin: usize, point: usize, part: usize| {
            form.target(tags[bin], part, |number, group| {
                group.add(0, once.field(number)[point], masks.field(number)[bin])
            })
        };
        opprf.send(run.channel, &shape, &points, &target, run.rng)?;
        let negated = form.payloads(|number, group, _| {
            let masks = masks.field(number).iter();
            Zeroizing::new(
                masks
                    .map(|mask| group.reduce(0, group.negate(0, *mask)))
                    .collect(),
            )
        });
        run.receiver_equality::<W>(shape.split.tag_bits, &tags, negated)
    }

    fn send<const W: u32>(
        mut run: Run<'_>,
        bins: &SenderBins,
        input: Input<'_>,
    ) -> Result<Sent<W>, Error> {
        let first = relaxed::<O>();
        let tags = first.random_tags(&run.plan.shape, run.rng);
        let masks = run.program(&first, bins, &input, &tags)?;
        let (opprf, shape) = second_of::<O>(&run.plan.shape);
        let queries = membership::queries(&shape, &tags);
        let strings = opprf.receive(run.channel, &shape, &queries, run.rng)?;
        let form = &run.plan.form;
        let twice = form.of_candidates(&strings);
        let masks = form.payloads(|number, group, _| {
            let pairs = masks.field(number).iter().zip(twice.field(number).iter());
            let difference =
                |(mask, twice): (&u64, &u64)| group.add(0, *mask, group.negate(0, *twice));
            Zeroizing::new(
                pairs
                    .map(|pair| group.reduce(0, difference(pair)))
                    .collect(),
            )
        });
        run.sender_equality::<W>(shape.split.tag_bits, strings.tags(), masks)
    }
}

/// What is known about a recipe's protocol.
pub(super) const fn spec<R: Recipe>() -> Spec {
    Spec {
        name: R::NAME,
        source: R::SOURCE,
        security: Security::SemiHonest,
        exact: None,
        cheaper: None,
        post_quantum: PostQuantum::OnRequest,
        max_items: MAX_ITEMS,
        max_lambda: max_lambda_of::<R>,
        item_cost: ItemCost {
            bytes: 1024,
            aes_blocks: 40_000,
        },
        working_bytes: working_bytes_of::<R>,
    }
}

/// Above what any sizes allow: events and tables take up to 128 bits.
const MAX_LAMBDA: u32 = 120;

/// The OPRF takes up to 2^28 points, and an item has three of them; so has a bin in [`Twice`].
const MAX_ITEMS: u64 = 1 << 26;

/// The shape of the first OPPRF for these sizes and λ, or nothing if λ is too large.
fn any_shape<R: Recipe>(
    lambda: u32,
    receiver_size: u64,
    sender_size: u64,
    payload_bits: u32,
) -> Option<Shape> {
    let size = |items: u64| items.min(MAX_ITEMS) as usize;
    let params = Params {
        security: Security::SemiHonest,
        lambda: lambda_each(lambda, R::Stages::OPPRFS),
        receiver_size: size(receiver_size),
        sender_size: size(sender_size),
        key_agreement: KeyAgreement::default(),
        session: [0; 32],
    };
    R::Stages::plan(&params, payload_bits, bins::table).map(|(_, shape)| shape)
}

fn max_lambda_of<R: Recipe>(receiver_size: u64, sender_size: u64) -> Option<u32> {
    let holds = |lambda: &u32| {
        let shape = |bits| any_shape::<R>(*lambda, receiver_size, sender_size, bits);
        [0, VALUE_BITS].map(shape).iter().all(Option::is_some)
    };
    let all: Vec<u32> = (1..=MAX_LAMBDA).collect();
    Some(all.partition_point(holds) as u32)
}

/// Bytes per candidate of a tag, of a value and its mask, and of what a product takes.
const CANDIDATE_BYTES: u64 = 128;

/// The OPPRFs, or the shares of all candidates.
fn working_bytes_of<R: Recipe>(receiver_size: u64, sender_size: u64) -> u64 {
    let shape =
        any_shape::<R>(40, receiver_size, sender_size, VALUE_BITS).expect("less than the maximum");
    let shares = CANDIDATE_BYTES * (R::Hint::CANDIDATES * shape.bins) as u64;
    R::Stages::opprf_bytes(&shape)
        .saturating_add(shares)
        .saturating_add(128 << 20)
}

/// What another value of each item adds: to candidates, and to hidden targets and slots of a hint.
pub(super) fn bytes_per_column<R: Recipe>(receiver_size: u64, sender_size: u64) -> u64 {
    let shape = any_shape::<R>(40, receiver_size, sender_size, 0).expect("less than the maximum");
    let candidates = CANDIDATE_BYTES * (R::Hint::CANDIDATES * shape.bins) as u64;
    candidates.saturating_add(32 * shape.params.sender_size as u64)
}
