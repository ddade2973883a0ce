use vesica_testing::{digests, honest, rng};

use vesica_psi::{KeyAgreement, Security, StringBytes, Values};

use super::*;
use crate::harness::measured;

const RUNS: u64 = 8;

fn values(receiver: u8, sender: u8) -> Values {
    Values { receiver, sender }
}

/// A table with as many bins as items, and a stash.
fn too_small(items: usize, _: u32) -> cuckoo::Parameters {
    cuckoo::Parameters {
        stash: 9,
        ..cuckoo::Parameters::with_bins(items, bins::HASHES, items)
    }
}

/// A session in which something is in the stash, if there is one.
fn session(table: Sizing, items: &[vesica_psi::Item]) -> [u8; 32] {
    let of = |byte| Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: items.len(),
        sender_size: 0,
        key_agreement: KeyAgreement::default(),
        session: [byte; 32],
    };
    let serves = |byte: &u8| {
        let table = table(items.len(), 42);
        let bins = ReceiverBins::new(&of(*byte), table, items).unwrap();
        table.stash == 0 || !bins.table.stash().is_empty()
    };
    [(3..).find(serves).unwrap(); 32]
}

/// What the receiver has before the last stage, bit by bit: shares of matches, masked values of the sender's columns and
/// the bits that say whether they are 0, each column XOR the next (the values are equal, and masks are not), and masked
/// strings.
fn received<R: Recipe>(
    protocol: &CircuitPsi<R>,
    task: &Task,
    (common, value): (u64, i64),
    seed: u64,
) -> Vec<bool> {
    let params = Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: 20,
        sender_size: 20,
        key_agreement: KeyAgreement::default(),
        session: session(protocol.table, &digests(0..20)),
    };
    let plan = &Plan::new::<R>(&params, protocol.table, task);
    let (ours, theirs) = (digests(0..20), digests(20 - common..40 - common));
    let ((bins, received), _) = honest(
        |channel| {
            let (rng, input) = (&mut rng(2 * seed), Input::new(&ours));
            protocol.received(channel, rng, &params, plan, input)
        },
        |channel| {
            let items = theirs.len();
            let values = vec![value; items * usize::from(task.values.sender)];
            let strings = vec![value as u8; items * task.string_bytes.sender];
            let rng = &mut rng(2 * seed + 1);
            let input = Input::with_values(&theirs, Some(&values)).with_labels(Some(&strings));
            protocol.sent(channel, rng, &params, plan, input)
        },
    );
    assert_eq!(bins.table.stash().is_empty(), plan.places() == 0);
    let mut seen = received.matches.bools().to_vec();
    let Payloads {
        values,
        adding,
        string,
    } = &received.masked;
    for (columns, bits) in [(values, 64), (adding, 1)] {
        for (column, next) in columns.iter().zip(columns.iter().cycle().skip(1)) {
            let both = column
                .iter()
                .zip(next.iter())
                .flat_map(|(a, b)| [*a, a ^ b]);
            seen.extend(both.flat_map(|word| (0..bits).map(move |bit| word >> bit & 1 == 1)));
        }
    }
    for (masked, bits) in string.iter().zip([64, 8]) {
        let of = |word: &u64| {
            let word = *word;
            (0..bits).map(move |bit| word >> bit & 1 == 1)
        };
        seen.extend(masked.iter().flat_map(of));
    }
    seen
}

/// Every bit that the receiver has is 1 in about half of the runs, whatever matches and whatever the values: its
/// shares and masked values are uniform.
fn looks_uniform<R: Recipe>(protocol: &CircuitPsi<R>) {
    let sums = Task {
        values: values(0, 3),
        min_size: 1,
        ..Task::new(Reveal::Sum)
    };
    let shares = Task {
        values: values(0, 3),
        string_bytes: StringBytes {
            receiver: 0,
            sender: 9,
        },
        ..Task::new(Reveal::Shares)
    };
    for (task, common) in [(&sums, 20), (&sums, 0), (&shares, 20), (&shares, 0)] {
        let views: Vec<_> = (0..RUNS)
            .map(|seed| received(protocol, task, (common, 5), seed))
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
            "{task:?} {common}: {deviation}"
        );
    }
}

#[test]
fn what_the_receiver_has_looks_uniform() {
    looks_uniform(&CircuitPsi::new(Okvs));
    looks_uniform(&CircuitPsi::new(Psm1));
    looks_uniform(&CircuitPsi::new(Psm2));
    looks_uniform(&CircuitPsi::with_table(Okvs, too_small));
}

/// COTs of both directions are those of the cost; see [`crate::cost`] for the parts.
#[test]
fn folding_costs_what_is_said() {
    let (bins, places) = (70, 3);
    let matches = BitShares::from_fn(bins, |i| i as u64 >> 1);
    let words: Vec<u64> = (0..bins as u64).collect();
    let own = stash::BitsOfBins {
        words: &words,
        matches: &matches,
        places,
    };
    let (one, two, found) = measured(
        |engine, channel| own.found(engine.ends(), channel, &mut rng(1)),
        |engine, channel| own.found(engine.ends(), channel, &mut rng(2)),
    );
    assert_eq!(one.len(), two.len());
    let said = crate::cost::fold(bins, places, std::iter::empty());
    assert_eq!(
        [found.cots, found.reverse_cots],
        [said.cots, said.reverse_cots]
    );
    assert_eq!(
        [found.receiver_bytes, found.sender_bytes],
        [said.receiver_bytes, said.sender_bytes]
    );
}

/// What a sender takes for an honest size: up to the span of noise beyond what there can be, unless it is what was compared.
#[test]
fn noisy_sizes_are_told_within_their_span() {
    let range = |reveal: &str, min_size, noise_span| {
        let params = Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: 30,
            sender_size: 20,
            key_agreement: KeyAgreement::default(),
            session: [0; 32],
        };
        let reveal: vesica_psi::Reveals = reveal.parse().unwrap();
        let task = Task {
            values: values(u8::from(reveal != Reveal::Size), 0),
            min_size,
            noise_span,
            parts: 2,
            ..Task::new(reveal)
        };
        let plan = Plan::new::<Okvs>(&params, CircuitPsi::new(Okvs).table, &task);
        plan.ranges().remove(0)
    };
    assert_eq!(range("size", 0, 0), 0..=40);
    assert_eq!(range("size", 5, 0), 5..=40);
    assert_eq!(range("size,sum", 5, 0), 5..=40);
    assert_eq!(range("size", 0, 285), -285..=325);
    assert_eq!(range("size", 5, 285), 5..=325);
    assert_eq!(range("size,sum", 5, 285), -285..=325);
}

/// What the extensions of both sources leave of κ in the largest runs.
#[test]
fn the_largest_runs_have_as_many_extensions_as_said() {
    fn kappa<R: Recipe>(recipe: R, log: u32, values: Values, optimize: Optimize) -> u32 {
        let params = Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: 1 << log,
            sender_size: 1 << log,
            key_agreement: KeyAgreement::default(),
            session: [0; 32],
        };
        let reveal = match values {
            Values::NONE => Reveal::Size,
            _ => Reveal::InnerProduct,
        };
        let task = Task {
            values,
            optimize,
            ..Task::new(reveal)
        };
        let protocol = CircuitPsi::new(recipe);
        let plan = Plan::new::<R>(&params, protocol.table, &task);
        let cost = plan.cost::<R>();
        let entries = bulk::subfield::kappa(plan.digit_bits(), cost.entries, optimize);
        entries.min(bulk::kappa(plan.main_cots(&cost), optimize))
    }
    for (optimize, expected) in [
        (Optimize::Time, (124, 118, [118, 116, 118])),
        (Optimize::Traffic, (123, 117, [117, 116, 117])),
    ] {
        let small = kappa(Okvs, 20, Values::NONE, optimize);
        let sizes = kappa(Okvs, 26, Values::NONE, optimize);
        let products = [
            kappa(Okvs, 26, values(1, 1), optimize),
            kappa(Psm1, 26, values(1, 1), optimize),
            kappa(Psm2, 26, values(1, 1), optimize),
        ];
        assert_eq!((small, sizes, products), expected);
    }
}
