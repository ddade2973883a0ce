//! Circuit PSI on KKRT, as papers measure it: CGS22 with either membership test, and the circuit of PSTY19, whose hint is
//! polynomials.
//!
//! All stages but the OPRF and the hint are those that ship, and run as they ship: tables of bins, digits from entries of
//! a subfield VOLE where the papers have ABY's triples and IKNP's transfers, and functions. So the phases `oprf` and
//! `hint` are the papers', and what `membership` takes is ours.

use vesica_circuit::{CircuitPsi, Okvs, OneOfThree, Plain, Psm1, Psm2, Recipe, Twice};
use vesica_oprf::programmable::RelaxedHint;

use crate::kkrt_batch::KkrtBatch;
use crate::narrow_circuit::{BandAes, BandSha256, ThreeHashAes, ThreeHashSha256};
use crate::polynomial_hint::PolynomialHint;
use crate::runs::Variant;

/// PSTY19: polynomials on KKRT, and equality.
#[derive(Clone, Copy, Debug)]
pub struct Psty19;

impl Recipe for Psty19 {
    type Oprf = KkrtBatch;
    type Hint = PolynomialHint;
    type Stages = Plain;
    const NAME: &'static str = "circuit-polynomials-kkrt";
    const SOURCE: &'static str = "PSTY19, section 4.2, without a stash";
}

/// CGS22 with PSM1: a relaxed batch OPPRF on KKRT, and one test for all candidates.
#[derive(Clone, Copy, Debug)]
pub struct KkrtPsm1;

impl Recipe for KkrtPsm1 {
    type Oprf = KkrtBatch;
    type Hint = RelaxedHint;
    type Stages = OneOfThree;
    const NAME: &'static str = "circuit-rb-psm1-kkrt";
    const SOURCE: &'static str = "CGS22, figures 3, 6 and 8";
}

/// CGS22 with PSM2: a relaxed batch OPPRF and one of tables, both on KKRT, and equality.
#[derive(Clone, Copy, Debug)]
pub struct KkrtPsm2;

impl Recipe for KkrtPsm2 {
    type Oprf = KkrtBatch;
    type Hint = RelaxedHint;
    type Stages = Twice;
    const NAME: &'static str = "circuit-rb-psm2-kkrt";
    const SOURCE: &'static str = "CGS22, figures 3, 7 and 8";
}

/// The papers' circuits, and those that ship.
///
/// LTSXQ26's are over its own masks, which are **broken**.
pub static CIRCUITS: [Variant; 10] = [
    Variant::new("PSTY19", &CircuitPsi::new(Psty19)),
    Variant::new("CGS22, C-PSI1, KKRT", &CircuitPsi::new(KkrtPsm1)),
    Variant::new("CGS22, C-PSI2, KKRT", &CircuitPsi::new(KkrtPsm2)),
    Variant::new("circuit-rb-psm1", &CircuitPsi::new(Psm1)),
    Variant::new("circuit-rb-psm2", &CircuitPsi::new(Psm2)),
    Variant::new("circuit-okvs", &CircuitPsi::new(Okvs)),
    Variant::new("LTSXQ26, random band", &CircuitPsi::new(BandAes)),
    Variant::new("LTSXQ26, three-hash", &CircuitPsi::new(ThreeHashAes)),
    Variant::new(
        "LTSXQ26, random band, SHA-256",
        &CircuitPsi::new(BandSha256),
    ),
    Variant::new(
        "LTSXQ26, three-hash, SHA-256",
        &CircuitPsi::new(ThreeHashSha256),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use vesica_encodings::cuckoo;
    use vesica_psi::{
        Half, Input, Item, KeyAgreement, Output, Params, Prepared, Protocol, Reveal, Security,
        Task, Values,
    };
    use vesica_testing::{digests, honest, rng};

    use super::*;
    use crate::runs::{bytes_of, params, run as run_over};
    use vesica_wire::{End, Link};

    /// A table with as many bins as items, so that some go to a stash.
    fn too_small(items: usize, _: u32) -> cuckoo::Parameters {
        cuckoo::Parameters {
            stash: 4 + items / 10,
            ..cuckoo::Parameters::with_bins(items, 3, items.max(3))
        }
    }

    static PAPERS: [&dyn Protocol; 6] = [
        &CircuitPsi::new(BandAes),
        &CircuitPsi::new(ThreeHashAes),
        &CircuitPsi::new(Psty19),
        &CircuitPsi::new(KkrtPsm1),
        &CircuitPsi::new(KkrtPsm2),
        &CircuitPsi::with_table(KkrtPsm2, too_small),
    ];

    fn task(reveal: Reveal, receiver: u8, sender: u8, min_size: u64) -> Task {
        Task {
            values: Values { receiver, sender },
            min_size,
            ..Task::new(reveal)
        }
    }

    /// One party's items with a value of each.
    type Side = (Vec<Item>, Vec<i64>);

    fn run(protocol: &dyn Protocol, task: &Task, ours: &Side, theirs: &Side, seed: u64) -> Output {
        let params = Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: ours.0.len(),
            sender_size: theirs.0.len(),
            key_agreement: KeyAgreement::default(),
            session: [seed as u8; 32],
        };
        fn input(side: &Side, columns: u8) -> Input<'_> {
            Input::with_values(&side.0, (columns > 0).then_some(&side.1[..]))
        }
        let (output, _) = honest(
            |channel| {
                let rng = &mut rng(2 * seed);
                let prepared = protocol.prepare(ours.0.len(), rng);
                let input = input(ours, task.values.receiver);
                let output = protocol.receive(channel, &params, task, input, prepared, rng)?;
                protocol.open_whole(channel, Half::Receiver, &params, task, output, rng)
            },
            |channel| {
                let (rng, nothing) = (&mut rng(2 * seed + 1), Prepared::nothing());
                let input = input(theirs, task.values.sender);
                let output = protocol.send(channel, &params, task, input, nothing, rng)?;
                protocol.open_whole(channel, Half::Sender, &params, task, output, rng)
            },
        );
        output
    }

    /// What a run reveals, by a look at both tables.
    fn plain(task: &Task, ours: &Side, theirs: &Side) -> Output {
        let theirs: HashMap<_, _> = theirs.0.iter().zip(&theirs.1).collect();
        let own = ours.0.iter().zip(&ours.1);
        let found: Vec<_> = own.map(|(item, own)| (own, theirs.get(item))).collect();
        let has_receiver = task.values.receiver > 0;
        let has_sender = task.values.sender > 0;
        let term = |(own, other): &(&i64, Option<&&i64>)| {
            let other = i128::from(**(*other)?);
            let own = if has_receiver { i128::from(**own) } else { 1 };
            Some(own * if has_sender { other } else { 1 })
        };
        let terms: Vec<i128> = found.iter().filter_map(term).collect();
        // No value is 0, so that all of them count.
        let enough = terms.len() as u64 >= task.min_size;
        match (task.reveal.is_matches(), enough) {
            (true, _) => {
                let matched = found.iter().map(|(_, other)| enough && other.is_some());
                Output::Matches(matched.collect())
            }
            (false, true) => Output::Values(vec![terms.iter().sum()]),
            (false, false) => Output::Below(task.min_size),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3))]
        #[test]
        fn results_are_those_of_a_plain_computation(
            n_r in 0usize..150,
            n_s in 0usize..150,
            common in 0usize..100,
            values in prop::collection::vec(1i64..1 << 20, 300),
            min_size in 0u64..60,
            seed in 0u64..256,
        ) {
            let common = common.min(n_r).min(n_s);
            let ours = (digests(0..n_r as u64), values[..n_r].to_vec());
            let first = (n_r - common) as u64;
            let theirs = (digests(first..first + n_s as u64), values[150..][..n_s].to_vec());
            for protocol in PAPERS {
                for task in [
                    task(Reveal::Size, 0, 0, min_size),
                    task(Reveal::Sum, 1, 0, 0),
                    task(Reveal::Sum, 0, 1, min_size),
                    task(Reveal::InnerProduct, 1, 1, 0),
                    task(Reveal::ThresholdMatches, 0, 0, min_size.max(1)),
                ] {
                    let expected = plain(&task, &ours, &theirs);
                    prop_assert_eq!(run(protocol, &task, &ours, &theirs, seed), expected);
                }
            }
        }
    }

    /// The phases into which CGS22's Table 2 breaks its bytes are those of a run, rows of KKRT are as wide as its
    /// analysis says, or wider, in each OPPRF, and all bytes are those that are computed without a run.
    #[test]
    fn phases_are_those_of_the_papers() {
        let circuits = CIRCUITS.iter().take(3);
        for (variant, oprfs) in circuits.zip([1.0, 1.0, 2.0]) {
            let Variant { name, protocol, .. } = variant;
            let run = run_over(variant, [500; 2], 7, Link::LAN).unwrap();
            let of = |name: &str| {
                let phases = run.phases.iter().filter(|phase| phase.phase == name);
                phases.map(bytes_of).sum::<u64>() as f64
            };
            let rows = 1.27 * 500.0 * 3.5 * 16.0;
            assert!(
                (oprfs * rows..oprfs * 2.0 * rows).contains(&of("oprf")),
                "{name}"
            );
            let task = Task::new(Reveal::Size);
            let said = protocol.traffic(&params(500), &task, None, false);
            let said = said.unwrap();
            let said = said.bytes(End::Receiver) + said.bytes(End::Sender);
            assert_eq!(run.bytes(), said, "{name}");
            assert!(of("hint") > 0.0 && of("membership") > 0.0, "{name}");
        }
    }
}
