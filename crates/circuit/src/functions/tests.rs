mod noise;

use super::*;
use crate::harness::{Engines, SIZES, blocks, engines, run, share, talking};
use crate::messages::{CHOICES, VALUES};
use proptest::prelude::*;
use std::collections::HashSet;
use vesica_correlations::subfield::FromCots;
use vesica_correlations::{cot, ideal};
use vesica_primitives::block::{Block, Cipher, Rekeyed};
use vesica_testing::{Recorder, honest, misbehaviour, rng, try_both};
use vesica_wire::{Misbehaviour, Spoil, Tamper, memory_pair};

/// Matching bins, and all payloads.
struct Case {
    matching: Vec<bool>,
    weights: Vec<i64>,
    payloads: Vec<i64>,
    /// What the sender has of payloads and weights, as if it had two.
    masks: Payloads,
    /// What the receiver has of them.
    masked: Payloads,
    shares: [BitShares; 2],
}

impl Case {
    fn new(matching: Vec<bool>, weights: Vec<i64>, payloads: Vec<i64>) -> Self {
        let count = matching.len();
        let random = |seed: u64| -> Shares {
            Zeroizing::new(
                blocks(seed, count)
                    .iter()
                    .map(|block| *block as u64)
                    .collect(),
            )
        };
        let bits = |seed: u64| {
            Zeroizing::new(random(seed).iter().map(|word| word & 1).collect::<Vec<_>>())
        };
        let masks = Payloads {
            values: vec![random(21), random(27)],
            adding: vec![bits(28), bits(29)],
            string: Vec::new(),
        };
        let masked = |noise: Shares, mask: &Shares, value: &dyn Fn(usize) -> u64| -> Shares {
            let of = |i: usize| match matching[i] {
                true => value(i).wrapping_add(mask[i]),
                false => noise[i],
            };
            Zeroizing::new((0..count).map(of).collect())
        };
        let columns = [&payloads, &weights];
        let value = |c: usize| {
            let value = |i: usize| columns[c][i] as u64;
            masked(random(20 + 10 * c as u64), &masks.values[c], &value)
        };
        let bit = |c: usize| {
            let adds = |i: usize| u64::from(columns[c][i] != 0);
            let sums = masked(bits(40 + c as u64), &masks.adding[c], &adds);
            Zeroizing::new(sums.iter().map(|sum| sum & 1).collect::<Vec<_>>())
        };
        Case {
            masked: Payloads {
                values: vec![value(0), value(1)],
                adding: vec![bit(0), bit(1)],
                string: Vec::new(),
            },
            shares: share(22, |i| matching[i], count),
            masks,
            matching,
            weights,
            payloads,
        }
    }

    /// Small payloads of both signs, and extremes of 32 bits where bins do not match.
    fn sized(count: usize, matching: impl Fn(usize) -> bool) -> Self {
        let random = blocks(23, count);
        let small = |i: usize, shift: usize| (random[i] >> shift) as i16;
        let matching: Vec<bool> = (0..count).map(matching).collect();
        let payload = |shift| {
            let value = |i: usize| match matching[i] {
                true => small(i, shift).into(),
                false => [i64::MAX, i64::MIN, -1][i % 3],
            };
            (0..count).map(value).collect()
        };
        let (weights, payloads) = (payload(0), payload(32));
        Case::new(matching, weights, payloads)
    }

    fn count(&self) -> u64 {
        self.matching.iter().filter(|matches| **matches).count() as u64
    }

    /// Σ over the matching bins, modulo 2^64.
    fn sum(&self, value: impl Fn(usize) -> i64) -> i64 {
        let bins = (0..self.matching.len()).filter(|i| self.matching[*i]);
        bins.fold(0, |sum, i| sum.wrapping_add(value(i)))
    }

    /// How many bins match and add to a number.
    fn adding(&self, value: impl Fn(usize) -> i64) -> u64 {
        let bins = (0..self.matching.len()).filter(|i| self.matching[*i] && value(*i) != 0);
        bins.count() as u64
    }

    /// The values, if the least of the counts meets the minimum.
    fn guarded(&self, values: &[i64], counts: &[u64], minimum: u64) -> Answer {
        match counts.iter().all(|count| *count >= minimum) {
            true => Answer::Values(values.to_vec()),
            false => Answer::TooFew,
        }
    }

    /// Runs both sides of some functions, and opens what comes of them.
    fn opened(
        &self,
        minimum: u64,
        ours: impl Fn(&mut Receiver, &mut dyn Channel) -> Result<Vec<Number>, Error> + Sync,
        theirs: impl Fn(&mut Sender, &mut dyn Channel) -> Result<Vec<Number>, Error> + Sync,
    ) -> Answer {
        let of = Least::of_all(minimum, self.matching.len());
        let mut run = run(
            24,
            |engine, channel| {
                let numbers = ours(engine, channel)?;
                engine.open(channel, &mut rng(1), &numbers, of)
            },
            |engine, channel| {
                let numbers = theirs(engine, channel)?;
                engine.open(channel, &mut rng(2), &numbers, of)
            },
        );
        run.0.remove(0)
    }

    fn size(&self, minimum: u64) -> Answer {
        let [ours, theirs] = &self.shares;
        self.opened(
            minimum,
            |engine, channel| Ok(vec![engine.size(channel, &mut rng(1), ours, minimum)?]),
            |engine, channel| Ok(vec![engine.size(channel, &mut rng(2), theirs, minimum)?]),
        )
    }

    fn matches(&self, minimum: u64) -> Vec<bool> {
        let [ours, theirs] = &self.shares;
        let run = run(
            24,
            |engine, channel| engine.matches(channel, &mut rng(1), ours, minimum),
            |engine, channel| engine.matches(channel, &mut rng(2), theirs, minimum),
        );
        run.0
    }

    /// What the shares of both parties' payloads add up to.
    fn opened_shares(&self) -> [Vec<u64>; 3] {
        let [ours, theirs] = &self.shares;
        let (weights, masked, masks) = (&self.weights, &self.masked, &self.masks);
        let run = run(
            24,
            |engine, channel| {
                let own = engine.shares_of_receiver(channel, &mut rng(1), ours, &[weights])?;
                let other = engine.shares_of_sender(channel, &mut rng(1), ours, masked)?;
                Ok([&own[..], &other[..]].concat())
            },
            |engine, channel| {
                let other = engine.shares_of_receiver(channel, &mut rng(2), theirs, 1)?;
                let own = engine.shares_of_sender(channel, &mut rng(2), theirs, masks)?;
                Ok([&other[..], &own[..]].concat())
            },
        );
        [0, 1, 2].map(|i| {
            let pairs = run.0[i].iter().zip(&*run.1[i]);
            pairs.map(|(a, b)| a.wrapping_add(*b)).collect()
        })
    }

    fn sum_of_receiver(&self, minimum: u64) -> Answer {
        let [ours, theirs] = &self.shares;
        let values = [&self.weights[..]];
        self.opened(
            minimum,
            |engine, channel| {
                engine.sums_of_receiver(
                    channel,
                    &mut rng(1),
                    ours,
                    (&values, &[ours.len()]),
                    minimum,
                )
            },
            |engine, channel| {
                engine.sums_of_receiver(channel, &mut rng(2), theirs, (1, &[theirs.len()]), minimum)
            },
        )
    }

    fn sum_of_sender(&self, minimum: u64) -> Answer {
        let [ours, theirs] = &self.shares;
        let (masked, masks) = (&first(&self.masked), &first(&self.masks));
        self.opened(
            minimum,
            |engine, channel| engine.sums_of_sender(channel, &mut rng(1), ours, masked, minimum),
            |engine, channel| engine.sums_of_sender(channel, &mut rng(2), theirs, masks, minimum),
        )
    }

    fn inner_product(&self, minimum: u64) -> Answer {
        let [ours, theirs] = &self.shares;
        let (masked, masks) = (&first(&self.masked), &first(&self.masks));
        let (vectors, least) = ((&self.weights[..], masked), (minimum, 40));
        self.opened(
            minimum,
            |engine, channel| {
                let rng = &mut rng(1);
                Ok(vec![
                    engine.inner_product(channel, rng, ours, vectors, least)?,
                ])
            },
            |engine, channel| {
                let rng = &mut rng(2);
                Ok(vec![
                    engine.inner_product(channel, rng, theirs, masks, least)?,
                ])
            },
        )
    }

    /// The size, and the sums of weights and of payloads, of the receiver and of the sender, opened together.
    fn all(&self, minimum: u64) -> Answer {
        let [ours, theirs] = &self.shares;
        let values = [&self.weights[..], &self.payloads[..]];
        let (masked, masks) = (&self.masked, &self.masks);
        self.opened(
            minimum,
            |engine, channel| {
                let rng = &mut rng(1);
                let mut all = vec![engine.size(channel, rng, ours, minimum)?];
                all.extend(engine.sums_of_receiver(
                    channel,
                    rng,
                    ours,
                    (&values, &[ours.len()]),
                    minimum,
                )?);
                all.extend(engine.sums_of_sender(channel, rng, ours, masked, minimum)?);
                Ok(all)
            },
            |engine, channel| {
                let rng = &mut rng(2);
                let mut all = vec![engine.size(channel, rng, theirs, minimum)?];
                all.extend(engine.sums_of_receiver(
                    channel,
                    rng,
                    theirs,
                    (2, &[theirs.len()]),
                    minimum,
                )?);
                all.extend(engine.sums_of_sender(channel, rng, theirs, masks, minimum)?);
                Ok(all)
            },
        )
    }

    fn check(&self, minimum: u64) {
        let (weight, payload) = (|i: usize| self.weights[i], |i: usize| self.payloads[i]);
        let product = |i: usize| weight(i).wrapping_mul(payload(i));
        let counts = [self.adding(weight), self.adding(payload)];
        let sums = [self.sum(weight), self.sum(payload)];
        let size = self.count() as i64;
        let expected = |values: &[i64], counts: &[u64]| self.guarded(values, counts, minimum);
        assert_eq!(self.size(minimum), expected(&[size], &[self.count()]));
        let enough = self.count() >= minimum;
        let shown = self.matching.iter().map(|matches| *matches && enough);
        assert!(self.matches(minimum).into_iter().eq(shown));
        let [ours, theirs, others] = self.opened_shares();
        for (i, matches) in self.matching.iter().enumerate() {
            let of = |value: i64| if *matches { value as u64 } else { 0 };
            assert_eq!(
                [ours[i], theirs[i], others[i]],
                [weight(i), payload(i), weight(i)].map(of)
            );
        }
        assert_eq!(
            self.sum_of_receiver(minimum),
            expected(&sums[..1], &counts[..1])
        );
        assert_eq!(
            self.sum_of_sender(minimum),
            expected(&sums[1..], &counts[1..])
        );
        let both = (0..self.matching.len())
            .filter(|i| self.matching[*i] && weight(*i) != 0 && payload(*i) != 0)
            .count() as u64;
        assert_eq!(
            self.inner_product(minimum),
            expected(&[self.sum(product)], &[both])
        );
        let all = [size, sums[0], sums[1], sums[1], sums[0]];
        assert_eq!(self.all(minimum), expected(&all, &counts));
    }
}

/// The first of several payloads.
fn first(payloads: &Payloads) -> Payloads {
    Payloads {
        values: payloads.values[..1].to_vec(),
        adding: payloads.adding[..1].to_vec(),
        string: Vec::new(),
    }
}

#[test]
fn all_functions_at_all_sizes() {
    for count in SIZES {
        let some = Case::sized(count, |i| i % 3 == 1);
        for minimum in [
            0,
            1,
            some.count(),
            some.count() + 1,
            count as u64 + 1,
            u64::MAX,
        ] {
            some.check(minimum);
        }
    }
}

#[test]
fn all_or_none_match() {
    for count in [1, 2, 3, 4, 7, 8, 63, 64, 127, 128, 129] {
        for matches in [false, true] {
            let case = Case::sized(count, |_| matches);
            for minimum in [0, 1, count as u64, count as u64 + 1] {
                case.check(minimum);
            }
        }
    }
}

#[test]
fn extremes_have_the_right_sign() {
    for (weights, payloads) in [
        (vec![i64::MIN, 0], vec![i64::MIN, 1]),
        (vec![i64::MAX, i64::MIN], vec![1, 1]),
        (vec![-1, -1], vec![i64::MAX, 1]),
        (vec![3, -5], vec![-7, 11]),
    ] {
        let case = Case::new(vec![true; 2], weights, payloads);
        case.check(0);
        case.check(2);
        case.check(3);
    }
}

#[test]
fn a_sum_of_0_is_not_a_withheld_one() {
    let case = Case::new(vec![true, true], vec![5, -5], vec![1, -1]);
    assert_eq!(case.sum_of_receiver(2), Answer::Values(vec![0]));
    assert_eq!(case.sum_of_sender(2), Answer::Values(vec![0]));
    assert_eq!(case.sum_of_sender(3), Answer::TooFew);
    assert_eq!(case.all(2), Answer::Values(vec![2, 0, 0, 0, 0]));
}

/// Bins whose payload is 0 match, but add nothing: a minimum counts those that do, for each number.
#[test]
fn payloads_of_0_do_not_count() {
    let weights = vec![1, 0, 1, 0, 1, 1];
    let payloads = vec![0, 0, 7, 0, 7, 7];
    let case = Case::new(vec![true, true, true, true, true, false], weights, payloads);
    assert_eq!(case.size(5), Answer::Values(vec![5]));
    assert_eq!(case.sum_of_receiver(3), Answer::Values(vec![3]));
    assert_eq!(case.sum_of_receiver(4), Answer::TooFew);
    assert_eq!(case.sum_of_sender(2), Answer::Values(vec![14]));
    assert_eq!(case.sum_of_sender(3), Answer::TooFew);
    assert_eq!(case.inner_product(3), Answer::TooFew);
    // The number with the fewest decides for all.
    assert_eq!(case.all(2), Answer::Values(vec![5, 3, 14, 14, 3]));
    assert_eq!(case.all(3), Answer::TooFew);
}

/// From strings to the product, over sources that send messages of their own.
#[test]
fn sources_may_talk() {
    let count = 4200;
    let case = Case::sized(count, |i| i % 3 == 1);
    let (masked, masks) = (&first(&case.masked), &first(&case.masks));
    let (mut receiver, mut sender) = talking();
    let theirs = blocks(25, count);
    let candidates = |i: usize| [7, theirs[i] ^ Block::from(!case.matching[i]), !theirs[i]];
    let ours: Vec<[Block; 3]> = (0..count).map(candidates).collect();
    let (answer, ()) = honest(
        |channel| {
            let rng = &mut rng(1);
            let matches = receiver.membership(channel, rng, 64, &ours)?;
            let vectors = (&case.weights[..], masked);
            let number = receiver.inner_product(channel, rng, &matches, vectors, (100, 40))?;
            receiver.open(channel, rng, &[number], Least::of_all(100, count))
        },
        |channel| {
            let rng = &mut rng(2);
            let matches = sender.membership(channel, rng, 64, &theirs)?;
            let number = sender.inner_product(channel, rng, &matches, masks, (100, 40))?;
            sender.open(channel, rng, &[number], Least::of_all(100, count))
        },
    );
    let product = case.sum(|i| case.weights[i].wrapping_mul(case.payloads[i]));
    assert_eq!(answer, [Answer::Values(vec![product])]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn functions_are_those_of_the_matching_bins(
        bins in prop::collection::vec((any::<bool>(), any::<i64>(), any::<i64>()), 0..70),
        minimum in 0u64..50,
    ) {
        let matching = bins.iter().map(|bin| bin.0).collect();
        let weights = bins.iter().map(|bin| bin.1).collect();
        let payloads = bins.iter().map(|bin| bin.2).collect();
        Case::new(matching, weights, payloads).check(minimum);
    }
}

/// What the receiver says to a spoilt frame of the sender.
fn spoilt(frame: usize, spoil: Spoil) -> Result<Vec<Answer>, Error> {
    let case = Case::sized(70, |i| i % 3 == 1);
    let Engines {
        mut receiver,
        mut sender,
        ..
    } = engines(26);
    let [ours, theirs] = &case.shares;
    let (near, far) = memory_pair();
    let outcomes = try_both(
        (near, Tamper::new(far, frame, spoil)),
        |channel| {
            let (rng, masked) = (&mut rng(1), &first(&case.masked));
            let sum = receiver.sums_of_sender(channel, rng, ours, masked, 0)?;
            receiver.open(channel, rng, &sum, Least::of_all(0, 70))
        },
        |channel| {
            let (rng, masks) = (&mut rng(2), &first(&case.masks));
            let sum = sender.sums_of_sender(channel, rng, theirs, masks, 0)?;
            sender.open(channel, rng, &sum, Least::of_all(0, 70))
        },
    );
    outcomes.0
}

#[test]
fn frames_of_wrong_length_are_refused() {
    for (frame, what, bytes) in [
        (0, CHOICES.name, 9),
        (1, VALUES.name, 560),
        (2, SHARES.name, 8),
    ] {
        let short = Misbehaviour::WrongLength {
            what,
            bytes: bytes - 1,
        };
        let long = Misbehaviour::TooLong {
            what,
            bytes: bytes as u64 + 1,
            max: bytes as u64,
        };
        assert_eq!(misbehaviour(spoilt(frame, Spoil::Truncate(1))), short);
        assert_eq!(misbehaviour(spoilt(frame, Spoil::Extend(vec![0]))), long);
    }
    let stray = Misbehaviour::BadValue {
        what: CHOICES.name,
        problem: "bits are set beyond the last one",
    };
    assert_eq!(misbehaviour(spoilt(0, Spoil::FlipBit(70))), stray);
}

/// What a sender with sizes from 3 to 70, and numbers of any size, makes of an answer, spoilt on its way.
fn told(answer: &Answer, has_minimum: bool, spoil: Spoil) -> Result<Answer, Error> {
    let ranges = [3..=70, i64::MIN..=i64::MAX];
    let (near, far) = memory_pair();
    let outcomes = try_both(
        (Tamper::new(near, 0, spoil), far),
        |channel| {
            answer.tell(channel, ranges.len())?;
            channel.flush()
        },
        |channel| Answer::told(channel, &ranges, has_minimum),
    );
    outcomes.1
}

#[test]
fn answers_that_a_run_can_have_are_told() {
    let honest = || Spoil::Truncate(0);
    for (answer, has_minimum) in [
        (Answer::Values(vec![3, i64::MIN]), true),
        (Answer::Values(vec![70, -1]), false),
        (Answer::Values(vec![70, i64::MAX]), false),
        (Answer::TooFew, true),
    ] {
        assert_eq!(told(&answer, has_minimum, honest()).unwrap(), answer);
    }
}

#[test]
fn answers_that_no_run_has_are_refused() {
    let problem =
        |answer: &Answer, has_minimum, spoil| misbehaviour(told(answer, has_minimum, spoil));
    let bad = |problem| Misbehaviour::BadValue {
        what: OUTCOME.name,
        problem,
    };
    let value = &Answer::Values(vec![5, -8]);
    let as_it_is = || Spoil::Truncate(0);
    let short = Misbehaviour::WrongLength {
        what: OUTCOME.name,
        bytes: 16,
    };
    assert_eq!(problem(value, true, Spoil::Truncate(1)), short);
    let long = Misbehaviour::TooLong {
        what: OUTCOME.name,
        bytes: 18,
        max: 17,
    };
    assert_eq!(problem(value, true, Spoil::Extend(vec![0])), long);
    for bit in 129..136 {
        let stray = bad("bits are set beyond the last one");
        assert_eq!(problem(value, true, Spoil::FlipBit(bit)), stray);
    }
    for out in [2, 71, -1] {
        let answer = Answer::Values(vec![out, 0]);
        assert_eq!(problem(&answer, true, as_it_is()), bad("out of range"));
    }
    let withheld = bad("withheld without a minimum");
    assert_eq!(problem(&Answer::TooFew, false, as_it_is()), withheld);
    let both = bad("a value that is withheld");
    for bit in [1, 64, 65, 128] {
        assert_eq!(problem(&Answer::TooFew, true, Spoil::FlipBit(bit)), both);
    }
}

#[test]
fn wrong_values_make_wrong_results_and_nothing_else() {
    let right = spoilt(9, Spoil::Truncate(0)).unwrap();
    for frame in 0..3 {
        assert!(matches!(
            spoilt(frame, Spoil::FlipBit(3)),
            Ok(answers) if matches!(answers[..], [Answer::Values(_)])
        ));
    }
    assert_ne!(spoilt(2, Spoil::FlipBit(3)).unwrap(), right);
}

#[test]
fn a_peer_that_stops_is_noticed() {
    for frame in 0..3 {
        assert!(spoilt(frame, Spoil::Close).is_err());
        assert!(spoilt(frame, Spoil::Kind(99)).is_err());
    }
}

/// The sender knows all pads of bins whose value it knows, such as empty ones. Δ, were it guessed, shows at one of them
/// by each evaluation of AES, and the evaluations that would show at all of them under one key show at none.
#[test]
fn known_pads_are_tested_one_by_one() {
    let (session, bins) = ([7; 32], 1 << 12);
    let (main, chosen) = ideal::cots(99);
    let delta = cot::Sender::delta(&main);
    let mut receiver: Receiver = Receiver::new(&session, FromCots::new(main));
    let mut sender: Sender = Sender::new(&session, FromCots::new(chosen));
    let matching = share(5, |i| i % 3 == 0, bins);
    let (near, far) = memory_pair();
    let mut far = Recorder::new(far);
    let zeros = vec![0; bins];
    let (answer, sent) = try_both(
        (near, &mut far),
        |channel| {
            let rng = &mut rng(1);
            let sum =
                receiver.sums_of_receiver(channel, rng, &matching[0], (&[&zeros], &[bins]), 0)?;
            receiver.open(channel, rng, &sum, Least::of_all(0, bins))
        },
        |channel| {
            let rng = &mut rng(2);
            let sum = sender.sums_of_receiver(channel, rng, &matching[1], (1, &[bins]), 0)?;
            sender.open(channel, rng, &sum, Least::of_all(0, bins))
        },
    );
    assert_eq!(answer.unwrap(), [Answer::Values(vec![0])]);
    sent.unwrap();

    // What the sender has: its rows t, its bits, and the messages h₀ − h₁.
    let (_, mut same) = ideal::cots(99);
    let mut t = vec![0; bins];
    cot::Receiver::extend(&mut same, &mut memory_pair().0, &mut rng(3), &mut t).unwrap();
    let hash = Rekeyed::new("vesica/1 circuit main values", &session);
    let hashed = |input: Block, tweak: usize| {
        let mut block = [input];
        hash.hash(tweak as u128, &mut block);
        block[0] as u64
    };
    let frames = far.received.iter().filter(|(kind, _)| *kind == VALUES);
    let frames: Vec<u8> = frames.flat_map(|(_, frame)| frame.clone()).collect();
    let mut messages = BitReader::new(&frames);
    let pads: Vec<u64> = (0..bins)
        .map(|i| {
            let (own, message) = (hashed(t[i], i), messages.next(64));
            match matching[1].get(i) {
                0 => own.wrapping_sub(message),
                _ => own.wrapping_add(message),
            }
        })
        .collect();

    let known: HashSet<u64> = pads.iter().copied().collect();
    let tweaked: HashSet<u64> = (0..).zip(&pads).map(|(i, pad)| pad ^ i).collect();
    for i in 0..bins {
        assert_eq!(hashed(t[i] ^ delta, i), pads[i]);
        assert!(!known.contains(&hashed(t[i] ^ delta, (i + 1) % bins)));
        for label in ["vesica/1 circuit main", "vesica/1 circuit main values"] {
            let public = Cipher::public(label, &session);
            let mut w = [t[i] ^ delta];
            public.encrypt(&mut w);
            w[0] ^= i as Block;
            public.feed_forward(&mut w);
            assert!(!tweaked.contains(&(w[0] as u64)));
        }
    }
}

/// The sender knows pads of bins whose string it knows, and the ends of pads where it knows how long a text is. No block of
/// a pad has its tweak in common with another one.
#[test]
fn each_block_of_a_pad_has_a_tweak_of_its_own() {
    const BYTES: usize = 40;
    let (session, bins) = ([7; 32], 300);
    let (main, chosen) = ideal::cots(98);
    let delta = cot::Sender::delta(&main);
    let mut receiver: Receiver = Receiver::new(&session, FromCots::new(main));
    let mut sender: Sender = Sender::new(&session, FromCots::new(chosen));
    let matching = share(5, |_| false, bins);
    let (near, far) = memory_pair();
    let mut far = Recorder::new(far);
    let zeros = vec![0; bins * BYTES / 8];
    let (ours, theirs) = try_both(
        (near, &mut far),
        |channel| {
            let own = (BYTES, &zeros[..]);
            receiver.string_of_receiver(channel, &mut rng(1), &matching[0], own)
        },
        |channel| sender.string_of_receiver(channel, &mut rng(2), &matching[1], BYTES),
    );
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert!(
        ours.iter()
            .zip(&*theirs)
            .all(|(ours, theirs)| ours == theirs)
    );

    // What the sender has: its rows t, its bits, and the messages h₀ ⊕ h₁.
    let (_, mut same) = ideal::cots(98);
    let mut t = vec![0; bins];
    cot::Receiver::extend(&mut same, &mut memory_pair().0, &mut rng(3), &mut t).unwrap();
    let hash = Rekeyed::new("vesica/1 circuit main values", &session);
    let hashed = |input: Block, tweak: usize| {
        let mut block = [input];
        hash.hash(tweak as u128, &mut block);
        block[0]
    };
    let frames = far.received.iter().filter(|(kind, _)| *kind == VALUES);
    let frames: Vec<u8> = frames.flat_map(|(_, frame)| frame.clone()).collect();
    for (i, message) in frames.chunks_exact(BYTES).enumerate() {
        for (block, message) in message.chunks(16).enumerate() {
            let mut known = [0; 16];
            known[..message.len()].copy_from_slice(message);
            let tweak = block * bins + i;
            let pads = [t[i], t[i] ^ delta].map(|row| hashed(row, tweak));
            let mask = Block::MAX >> (128 - 8 * message.len());
            assert_eq!(Block::from_le_bytes(known), (pads[0] ^ pads[1]) & mask);
        }
    }
}
