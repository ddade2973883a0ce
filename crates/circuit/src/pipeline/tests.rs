use vesica_testing::{digests, honest, rng};

use vesica_psi::Security;

use super::function::each_bit;
use super::*;

const RUNS: u64 = 8;

/// What the receiver has after the membership test, bit by bit: shares of matches, and masked values.
fn received<R: Recipe>(recipe: &R, common: u64, value: u64, seed: u64) -> Vec<bool> {
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
    let mut seen = each_bit(&received.matches).to_vec();
    for masked in received.masked.iter() {
        seen.extend((0..64).map(|bit| masked >> bit & 1 == 1));
    }
    seen
}

/// Every bit that the receiver has is 1 in about half of the runs, whatever matches and whatever the values: its
/// shares and masked values are uniform.
fn looks_uniform<R: Recipe>(recipe: &R) {
    for (common, value) in [(20, 5), (0, 5)] {
        let views: Vec<_> = (0..RUNS)
            .map(|seed| received(recipe, common, value, seed))
            .collect();
        let bits = views[0].len() as f64;
        let sum: f64 = (0..views[0].len())
            .map(|bit| {
                let ones = views.iter().filter(|view| view[bit]).count();
                let off = ones as f64 - RUNS as f64 / 2.0;
                off * off / (RUNS as f64 / 4.0)
            })
            .sum();
        let deviation = (sum - bits) / f64::sqrt(2.0 * bits);
        assert!(
            bits > 1000.0 && deviation.abs() < 5.0,
            "{common} {value}: {deviation}"
        );
    }
}

#[test]
fn what_the_receiver_has_looks_uniform() {
    looks_uniform(&Okvs);
    looks_uniform(&Psm1);
    looks_uniform(&Psm2);
}
