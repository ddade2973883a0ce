//! Numbers with noise, which each side adds to its shares before they are opened or compared.

use std::collections::BTreeMap;

use vesica_primitives::laplace::{Epsilon, Scale};

use super::*;

/// The number with noise in its shares: of the value, and of the count if there is one.
fn noisy(number: Number, noise: &[i64]) -> Number {
    let shares: Vec<u64> = number.shares().collect();
    assert_eq!(shares.len(), noise.len());
    let shares = shares.into_iter().zip(noise);
    number.with_shares(shares.map(|(share, noise)| share.wrapping_add(*noise as u64)))
}

/// A size of `matching` of 20 bins with this noise of both sides, of which both together span so much.
fn size(matching: usize, noise: [i64; 2], span: u64, minimum: u64) -> Answer {
    let case = Case::sized(20, |i| i < matching);
    let ([ours, theirs], of) = (&case.shares, Least::of_all(minimum, 20));
    let mut run = run(
        24,
        |engine, channel| {
            engine.span = span;
            let size = engine.size(channel, &mut rng(1), ours, minimum)?;
            engine.open(channel, &mut rng(1), &[noisy(size, &noise[..1])], of)
        },
        |engine, channel| {
            engine.span = span;
            let size = engine.size(channel, &mut rng(2), theirs, minimum)?;
            engine.open(channel, &mut rng(2), &[noisy(size, &noise[1..])], of)
        },
    );
    run.0.remove(0)
}

#[test]
fn a_noisy_size_is_right_to_the_ends_of_the_span() {
    for span in [0, 1, 5, 285, 100_000] {
        let end = span as i64;
        for noise in [
            [0, 0],
            [end, 0],
            [0, -end],
            [end - end / 3, end / 3],
            [-end + 2 * (end / 2), -2 * (end / 2)],
        ] {
            for matching in [0, 7, 20] {
                let value = matching as i64 + noise[0] + noise[1];
                assert_eq!(size(matching, noise, span, 0), Answer::Values(vec![value]));
            }
        }
    }
}

/// At 2^20 items noise of a tenth takes no bit more.
#[test]
fn rings_are_those_of_the_design() {
    let bins = 1_331_692;
    let bits = |span| [size_ring(bins, span), signed_size_ring(bins, span)].map(|ring| ring.bits());
    assert_eq!((bits(0), bits(285)), ([21, 22], [21, 22]));
    assert_eq!(bits(1 << 20), [22, 23]);
    assert_eq!(
        [size_ring(0, 3), size_ring(0, 4)].map(|ring| ring.bits()),
        [3, 4]
    );
}

/// Noise beyond the span wraps around, and nothing else happens.
#[test]
fn a_size_beyond_the_span_wraps_around() {
    // 5 bits hold 20 + 2·5.
    for (noise, shown) in [(-6, 26), (12, 0), (-5, -5), (6, 26)] {
        let matching = if noise < 0 { 0 } else { 20 };
        assert_eq!(
            size(matching, [noise, 0], 5, 0),
            Answer::Values(vec![shown])
        );
    }
}

/// What is compared is the count with its noise: one that lies below 0, or above the number of bins, too.
#[test]
fn a_noisy_count_is_compared_as_it_is() {
    for (matching, noise, minimum, is_told) in [
        (7, [0, 0], 7, true),
        (7, [0, 0], 8, false),
        (7, [3, -2], 8, true),
        (7, [3, -3], 8, false),
        (0, [-285, 0], 1, false),
        (0, [0, 285], 20, true),
        (20, [285, 0], 20, true),
        (20, [-285, 0], 1, false),
        (0, [1, 0], 1, true),
        (1, [0, -1], 1, false),
    ] {
        let value = matching as i64 + noise[0] + noise[1];
        let expected = match is_told {
            true => Answer::Values(vec![value]),
            false => Answer::TooFew,
        };
        assert_eq!(size(matching, noise, 285, minimum), expected, "{noise:?}");
    }
}

/// A sum and its count have noise of their own each, as have the numbers beside them.
#[test]
fn sums_are_compared_by_their_own_noisy_counts() {
    let case = Case::new(vec![true; 3], vec![5, 0, -9], vec![1; 3]);
    let [ours, theirs] = &case.shares;
    let own = [&case.weights[..]];
    for (noise, minimum, is_told) in [
        ([0, 0, 0], 2, true),
        ([0, 0, 0], 3, false),
        ([-300, 1 << 40, 1], 3, true),
        ([300, -(1 << 40), -1], 2, false),
        ([-3, -1, -300], 1, false),
    ] {
        let answer = run(
            24,
            |engine, channel| {
                engine.span = 300;
                let rng = &mut rng(1);
                let size = engine.size(channel, rng, ours, minimum)?;
                let sum = engine.sums_of_receiver(channel, rng, ours, (&own, &[3]), minimum)?;
                let numbers = [size, sum[0]];
                engine.open(channel, rng, &numbers, Least::of_all(minimum, 3))
            },
            |engine, channel| {
                engine.span = 300;
                let rng = &mut rng(2);
                let size = engine.size(channel, rng, theirs, minimum)?;
                let sum = engine.sums_of_receiver(channel, rng, theirs, (1, &[3]), minimum)?;
                let numbers = [noisy(size, &noise[..1]), noisy(sum[0], &noise[1..])];
                engine.open(channel, rng, &numbers, Least::of_all(minimum, 3))
            },
        );
        let values = vec![3 + noise[0], -4 + noise[1]];
        let expected = match is_told {
            true => Answer::Values(values),
            false => Answer::TooFew,
        };
        assert_eq!(answer.0, [expected], "{noise:?}");
    }
}

const OPENINGS: u64 = 100_000;

/// How often each value came of opening a size of so many matches, with fresh noise of ε of the sender each time.
fn openings(matching: usize, epsilon: Epsilon, seed: u64) -> BTreeMap<i64, f64> {
    let case = Case::sized(20, |i| i < matching);
    let [ours, theirs] = &case.shares;
    let scale = Scale::new(1, epsilon).unwrap();
    let span = scale.span(40).unwrap() as u64;
    let opened = run(
        24,
        |engine, channel| {
            engine.span = span;
            let size = engine.size(channel, &mut rng(1), ours, 0)?;
            let mut found = BTreeMap::new();
            for _ in 0..OPENINGS {
                let least = Least::of_all(0, 20);
                let mut answers = receive_numbers(channel, &[size], least)?;
                let Answer::Values(values) = answers.remove(0) else {
                    panic!("there is no minimum");
                };
                *found.entry(values[0]).or_insert(0.0) += 1.0;
            }
            Ok(found)
        },
        |engine, channel| {
            engine.span = span;
            let size = engine.size(channel, &mut rng(2), theirs, 0)?;
            let rng = &mut rng(seed);
            for _ in 0..OPENINGS {
                let noise = scale.laplace_vartime(rng).unwrap() as i64;
                send_numbers(channel, &[noisy(size, &[noise])])?;
            }
            Ok(())
        },
    );
    opened.0
}

/// What is opened has the distribution of v + Z, and neighbours are within e^ε in each cell.
#[test]
fn openings_have_the_distribution_of_value_and_noise() {
    for epsilon in ["0.5", "1.7"] {
        let epsilon: Epsilon = epsilon.parse().unwrap();
        let number = f64::from(epsilon.millionths()) / 1e6;
        let p = (-number).exp();
        let runs = [7, 8].map(|matching| (matching, openings(matching, epsilon, matching as u64)));
        for (matching, found) in &runs {
            let (mut chi, mut freedom) = (0.0, 0.0);
            for value in -300..300 {
                let z = (value - *matching as i64).unsigned_abs();
                let expected = OPENINGS as f64 * (1.0 - p) / (1.0 + p) * p.powi(z as i32);
                if expected > 20.0 {
                    let cell = found.get(&value).copied().unwrap_or(0.0);
                    chi += (cell - expected) * (cell - expected) / expected;
                    freedom += 1.0;
                }
            }
            let off: f64 = (chi - freedom) / f64::sqrt(2.0 * freedom);
            assert!(off.abs() < 5.0, "{number}: {off}");
        }
        let [(_, one), (_, other)] = &runs;
        for (value, count) in one.iter().chain(other) {
            let of = |cells: &BTreeMap<i64, f64>| cells.get(value).copied().unwrap_or(0.0);
            let (a, b) = (of(one), of(other));
            // a − e^ε·b, and the other way round, is not above 0 but by chance.
            let most = |a: f64, b: f64| 5.0 * f64::sqrt(a + b / p / p).max(1.0);
            let within = |a: f64, b: f64| a - b / p <= most(a, b);
            assert!(
                within(a, b) && within(b, a),
                "{value}: {a} and {b}, {count}"
            );
        }
    }
}
