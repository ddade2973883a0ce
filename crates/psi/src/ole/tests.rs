use super::*;
use crate::Exact;
use serde_json::Value;
use std::collections::HashSet;
use vesica_correlations::ideal;
use vesica_primitives::security::KeyAgreement;
use vesica_testing::{
    Recorder, Script, Tape, array, bytes, chi_squared, fields, honest, items, misbehaviour, rng,
    run_both, try_both,
};
use vesica_wire::{Misbehaviour, memory_pair};

type Ideal = Ole<ideal::Ole>;

fn params(receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [7; 32],
    }
}

fn matches(both: bool) -> Task {
    Task {
        both,
        ..Task::new(Reveal::Matches)
    }
}

/// The flags of both parties.
fn run(ours: Input<'_>, theirs: Input<'_>, both: bool) -> (Vec<bool>, Output) {
    let params = params(ours.items.len(), theirs.items.len());
    let ole = Ideal::new();
    let (received, sent) = honest(
        |channel| {
            let prepared = ole.prepare(0, &mut rng(1));
            ole.receive(
                channel,
                &params,
                &matches(both),
                ours,
                prepared,
                &mut rng(1),
            )
        },
        |channel| {
            let prepared = Prepared::nothing();
            ole.send(
                channel,
                &params,
                &matches(both),
                theirs,
                prepared,
                &mut rng(2),
            )
        },
    );
    let Output::Matches(flags) = received else {
        panic!("{received:?}");
    };
    (flags, sent)
}

fn expected<T: std::hash::Hash + Eq>(ours: &[T], theirs: &[T]) -> Vec<bool> {
    let theirs: HashSet<&T> = theirs.iter().collect();
    ours.iter().map(|item| theirs.contains(item)).collect()
}

#[test]
fn hashed_items_are_intersected() {
    for (n_r, n_s, shared) in [
        (0, 0, 0),
        (0, 5, 0),
        (5, 0, 0),
        (1, 1, 1),
        (1, 1, 0),
        (3, 700, 2),
        (700, 3, 2),
        (5000, 4000, 2500),
        (1000, 1000, 1000),
    ] {
        let ours = items(1, n_r);
        let mut theirs = ours[..shared].to_vec();
        theirs.extend(items(2, n_s - shared));
        for both in [false, true] {
            let (flags, sent) = run(Input::new(&ours), Input::new(&theirs), both);
            assert_eq!(flags, expected(&ours, &theirs));
            match both {
                false => assert_eq!(sent, Output::Nothing),
                true => assert_eq!(sent, Output::Matches(expected(&theirs, &ours))),
            }
        }
    }
}

#[test]
fn numbers_are_intersected_as_they_are() {
    for (bits, n_r, n_s) in [
        (1, 2, 1),
        (8, 200, 256),
        (12, 3000, 50),
        (32, 900, 1100),
        (64, 60, 70),
    ] {
        let most = u64::MAX >> (64 - bits);
        let ours: Vec<u64> = (0..n_r).map(|i| most - i).collect();
        let theirs: Vec<u64> = (0..n_s).map(|i| most - 3 * i % (most / 2 + 1)).collect();
        let theirs: Vec<u64> = theirs
            .iter()
            .copied()
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        // Padding comes last among the items.
        let (items_r, items_s) = (items(1, ours.len() + 5), items(2, theirs.len()));
        let input = |items, numbers| Input::new(items).with_exact(Exact { bits, numbers });
        let (mut flags, _) = run(input(&items_r, &ours), input(&items_s, &theirs), false);
        assert!(flags.split_off(ours.len()).iter().all(|matched| !matched));
        assert_eq!(flags, expected(&ours, &theirs), "{bits} bits");
    }
}

/// Neighbouring numbers are neighbours in no table: blocks of addresses are matched like random ones.
#[test]
fn runs_of_numbers_are_intersected() {
    let ours: Vec<u64> = (0..6000).map(|i| 0x0a00_0000 + i).collect();
    let theirs: Vec<u64> = (0..6000).map(|i| 0x0a00_0000 + 2 * i).collect();
    let (a, b) = (items(1, 6000), items(2, 6000));
    let input = |items, numbers| Input::new(items).with_exact(Exact { bits: 32, numbers });
    let (flags, _) = run(input(&a, &ours), input(&b, &theirs), false);
    assert_eq!(flags, expected(&ours, &theirs));
}

/// KBM23, table II: α = 1.27·n, and the bits of a number; the paper has β = 28, 28, 29 and 29 by a larger bound.
#[test]
fn shapes_are_those_of_the_paper() {
    for (log, per_bin, bits) in [
        (16, 25, 18),
        (18, 25, 16),
        (20, 26, 14),
        (22, 26, 12),
        (24, 27, 10),
        (26, 27, 8),
    ] {
        let plan = Plan::new::<ideal::Ole>([1 << log; 2], Some(32), 37, &[0; 32]).unwrap();
        let Shape {
            modulus,
            bins,
            per_bin: found,
        } = plan.shape;
        let n = f64::from(1u32 << log);
        println!(
            "2^{log}: {bins} bins, {found} per bin, {} bits, {:.0} bits per item",
            modulus.bits(),
            bins as f64 * (found + 1) as f64 * f64::from(modulus.bits()) / n
        );
        assert!((bins as f64 / n - 1.27).abs() < 0.001);
        assert_eq!((found, modulus.bits()), (per_bin, bits), "2^{log}");
    }
}

#[test]
fn limits_are_where_the_modulus_ends() {
    let spec = Ideal::new();
    let most = |n| (spec.spec().max_lambda)(n, n).unwrap();
    assert!(most(1 << 20) >= 40, "{}", most(1 << 20));
    assert!(most(1 << 22) < 40);
    assert!(most(1 << 10) > 48);
    for n in [0, 1, 1000, 1 << 20] {
        let fits = |lambda| Plan::new::<ideal::Ole>([n; 2], None, lambda, &[0; 32]).is_some();
        let most = most(n as u64);
        assert!(fits(most) && (most == ideal::Ole::MAX_LAMBDA || !fits(most + 1)));
    }
    let exact = spec.spec().exact.as_ref().unwrap().max_lambda;
    assert_eq!(exact(1 << 20, 1 << 20, 32), 87);
    assert!(exact(1 << 26, 1 << 26, 64) > 64);
    for (n_r, n_s) in [
        (0, 0),
        (1, 0),
        (0, 1 << 26),
        (1, 1 << 26),
        (7, 300),
        (5000, 0),
    ] {
        for bits in [1, 21, 40] {
            assert!(exact(n_r, n_s, bits) >= 64, "{n_r} {n_s} {bits}");
        }
        assert!(exact(n_r, n_s, 64) >= 40, "{n_r} {n_s}");
    }
}

/// A large λ for few items would take very many bins, and few bins for many items of the sender much memory for each.
#[test]
fn tables_are_in_proportion() {
    let shape = |sizes, bits, lambda| {
        Plan::new::<ideal::Ole>(sizes, Some(bits), lambda, &[0; 32]).map(|plan| plan.shape)
    };
    assert!(shape([1000, 1000], 32, 110).is_none());
    let few = shape([1, 1 << 26], 32, 40).unwrap();
    assert!(few.per_bin < 1200 && few.bins * few.per_bin < 1 << 29);
    // No bin gets more entries than there are values.
    assert_eq!(shape([1 << 10, 1 << 20], 1, 40).unwrap().per_bin, 48);
    let bytes = |sizes: [u64; 2], lambda| {
        let limits = Ideal::new().spec().exact.unwrap();
        (limits.working_bytes)(sizes[0], sizes[1], 32, lambda)
    };
    assert!(bytes([1000, 1000], 64) > 4 * bytes([1000, 1000], 40));
    assert!(bytes([1 << 20, 1 << 20], 40) < 600 << 20);
    // Every size has an estimate.
    let all = Ideal::new().spec().working_bytes;
    assert_eq!(all(u64::MAX, u64::MAX), u64::MAX);
    for n in [0, 1, 214, 1 << 16, 1 << 26] {
        let all = all(n, 0);
        assert!(all < 400 * n.max(1 << 17) * 8, "{n} {all}");
    }
}

/// Sizes that the peer brings never make a plan impossible that the limits allow.
#[test]
fn the_limits_allow_nothing_without_a_plan() {
    for (n_r, n_s, bits) in [
        (2, 0, 62),
        (10, 0, 60),
        (10, 0, 63),
        (100, 0, 62),
        (5000, 0, 63),
        (9, 9, 64),
    ] {
        let most = (Ideal::new().spec().exact.unwrap().max_lambda)(n_r, n_s, bits);
        for lambda in 40..=most {
            let plan =
                Plan::new::<ideal::Ole>([n_r as usize, n_s as usize], Some(bits), lambda, &[0; 32]);
            assert!(plan.is_some(), "{n_r} {n_s} {bits} {lambda}");
        }
    }
}

/// What the sender receives is uniform modulo Q; so is what the receiver gets, except for the r of matches, and those are
/// in any place of a bin.
#[test]
fn what_is_sent_looks_random() {
    let ours: Vec<u64> = (0..3000).collect();
    let theirs: Vec<u64> = (1500..4500).collect();
    let (a, b) = (items(1, 3000), items(2, 3000));
    let input = |items, numbers| Input::new(items).with_exact(Exact { bits: 40, numbers });
    let (ours, theirs) = (input(&a, &ours), input(&b, &theirs));
    let params = params(3000, 3000);
    let plan = || Plan::of::<ideal::Ole>(&params, Some(40)).unwrap();
    let shape = plan().shape;
    let (mut channel, _peer) = memory_pair();
    let half = ideal::Ole::receive(
        &mut channel,
        shape,
        40,
        KeyAgreement::Classical,
        &[5; 32],
        &mut rng(1),
    )
    .unwrap();
    let receiver = Receiver::new(plan(), half, &ours).unwrap();
    let half = ideal::Ole::send(
        &mut channel,
        shape,
        40,
        KeyAgreement::Classical,
        &[5; 32],
        &mut rng(1),
    )
    .unwrap();
    let sender = Sender::new(plan(), half, &theirs, &mut rng(2)).unwrap();

    let leading = |value: &u64| (value >> (shape.modulus.bits() - 8)) as u8;
    let (mut c, mut others, mut places) = (Vec::new(), Vec::new(), vec![0; shape.per_bin]);
    for block in 0..shape.blocks() {
        let queries = receiver.queries(block);
        let mut row = vec![0; shape.width(block)];
        residues::unpack(Backend::Best, shape.modulus, &queries, &mut row);
        c.extend_from_slice(&row);
        let [_, answers] = sender.answers(block, &queries).unwrap();
        let answers = answers.chunks_exact(shape.row_bytes(block)).enumerate();
        for (place, d) in answers {
            residues::unpack(Backend::Best, shape.modulus, d, &mut row);
            let mut r = vec![0; row.len()];
            receiver.half.r().get(block, place, &mut r);
            for (d, r) in row.iter().zip(r) {
                match shape.modulus.minus(*d, r) {
                    0 => places[place] += 1,
                    other => others.push(other),
                }
            }
        }
    }
    for seen in [c, others] {
        let chi = chi_squared(seen.iter().map(leading));
        assert!((140.0..370.0).contains(&chi), "{chi}");
    }
    assert_eq!(places.iter().sum::<u32>(), 1500);
    let mean = 1500.0 / shape.per_bin as f64;
    let chi: f64 = places
        .iter()
        .map(|count| (f64::from(*count) - mean).powi(2) / mean)
        .sum();
    assert!(chi < 3.0 * shape.per_bin as f64, "{places:?}");
}

#[test]
fn numbers_above_the_modulus_are_refused() {
    let ours = items(1, 10);
    let params = params(10, 10);
    let ole = Ideal::new();
    let width = Plan::of::<ideal::Ole>(&params, None)
        .unwrap()
        .shape
        .row_bytes(0);
    let (_, sent) = try_both(
        memory_pair(),
        |channel| {
            channel.send(QUERIES, vec![0xff; width])?;
            channel.recv(ANSWERS, MAX_FRAME).map(drop)
        },
        |channel| {
            ole.send(
                channel,
                &params,
                &matches(false),
                Input::new(&ours),
                Prepared::nothing(),
                &mut rng(2),
            )
        },
    );
    assert_eq!(
        misbehaviour(sent),
        Misbehaviour::BadValue {
            what: "comparison queries",
            problem: "not below the modulus"
        }
    );
}

#[test]
fn answers_that_no_sender_sends_are_refused() {
    let ours = items(1, 10);
    let params = params(10, 10);
    let ole = Ideal::new();
    let plan = Plan::of::<ideal::Ole>(&params, None).unwrap();
    let (width, rows) = (plan.shape.row_bytes(0), plan.shape.per_bin);
    let cases = [
        (
            rows * width,
            0xff,
            Misbehaviour::BadValue {
                what: "comparison answers",
                problem: "not below the modulus",
            },
        ),
        (
            rows * width - 1,
            0,
            Misbehaviour::WrongLength {
                what: "comparison answers",
                bytes: rows * width - 1,
            },
        ),
    ];
    for (length, byte, expected) in cases {
        let (received, _) = try_both(
            memory_pair(),
            |channel| {
                let prepared = ole.prepare(0, &mut rng(1));
                let task = matches(false);
                ole.receive(
                    channel,
                    &params,
                    &task,
                    Input::new(&ours),
                    prepared,
                    &mut rng(1),
                )
            },
            |channel| {
                channel.recv(QUERIES, width)?;
                channel.send(ANSWERS, vec![byte; length])?;
                channel.flush()
            },
        );
        assert_eq!(misbehaviour(received), expected);
    }
}

/// Both halves of a dealt pair, and what the parties of the run that takes it send.
#[test]
fn frames_are_known() {
    let text = include_str!("../../../../vectors/ole.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    let vector = &vectors["online"];
    let list = |name: &str| -> Vec<u64> { serde_json::from_value(vector[name].clone()).unwrap() };
    let (ours, theirs) = (list("receiver"), list("sender"));
    let params = Params {
        session: array(&vector["session"]),
        ..params(ours.len(), theirs.len())
    };
    let bits = vector["key_bits"].as_u64().unwrap() as u32;
    let plan = Plan::of::<Dealer>(&params, Some(bits)).unwrap();
    let shape = plan.shape;
    assert_eq!(shape.modulus.get(), vector["modulus"].as_u64().unwrap());
    assert_eq!(shape.bins as u64, vector["bins"].as_u64().unwrap());
    assert_eq!(shape.per_bin as u64, vector["per_bin"].as_u64().unwrap());
    let checked: Vec<u64> = plan.checked.iter().map(|bin| u64::from(*bin)).collect();
    assert_eq!(checked, list("checked"));

    let seed = |name: &str| array(&vector[name]);
    let mut receiver_half = ole::ReceiverHalf::from_seed(shape, &seed("receiver_seed"));
    let sender_half = ole::SenderHalf::from_seed(shape, &seed("sender_seed"));
    ole::fit(&mut receiver_half, &sender_half);
    let halves = [receiver_half.into_bytes(), sender_half.into_bytes()];
    for (half, name) in halves.iter().zip(["receiver_half", "sender_half"]) {
        assert_eq!(**half, bytes(&vector[name]));
    }

    let ole = Ole::<Dealer>::new();
    let load = |half: Half| {
        let bytes = halves[usize::from(half == Half::Sender)].clone();
        ole.load(half, &params, Some(bits), bytes).unwrap()
    };
    let receive = |channel: &mut dyn Channel| {
        let (digests, prepared) = (items(1, ours.len()), load(Half::Receiver));
        let input = Input {
            exact: Some(Exact {
                numbers: &ours,
                bits,
            }),
            ..Input::new(&digests)
        };
        ole.receive(
            channel,
            &params,
            &matches(false),
            input,
            prepared,
            &mut rng(1),
        )
    };
    let send = |channel: &mut dyn Channel| {
        let (digests, prepared) = (items(2, theirs.len()), load(Half::Sender));
        let input = Input {
            exact: Some(Exact {
                numbers: &theirs,
                bits,
            }),
            ..Input::new(&digests)
        };
        let mut rotations = Script(bytes(&vector["rotation_seed"]));
        ole.send(
            channel,
            &params,
            &matches(false),
            input,
            prepared,
            &mut rotations,
        )
    };
    let (near, far) = memory_pair();
    let [mut near, mut far] = [near, far].map(Recorder::new);
    let (received, sent) = run_both((&mut near, &mut far), receive, send);
    let Output::Matches(matched) = received.unwrap() else {
        panic!("no matches");
    };
    assert_eq!(serde_json::json!(matched), vector["matches"]);
    sent.unwrap();
    let frame = |kind, name: &str| (kind, bytes(&vector[name]));
    assert_eq!(near.sent, [frame(QUERIES, "queries")]);
    let answers = [frame(CHECKED, "checked_tuples"), frame(ANSWERS, "answers")];
    assert_eq!(far.sent, answers);

    let spoken = |vector: &Value, kinds: &[Kind]| -> Tape {
        let frames = vector["frames"].as_array().unwrap().iter().map(bytes);
        Tape(kinds.iter().copied().zip(frames).collect())
    };
    for vector in vector["bad_to_sender"].as_array().unwrap() {
        let error = send(&mut spoken(vector, &[QUERIES])).unwrap_err();
        assert_eq!(fields(&error), vector["error"], "{}", vector["why"]);
    }
    for vector in vector["bad_to_receiver"].as_array().unwrap() {
        let error = receive(&mut spoken(vector, &[CHECKED, ANSWERS])).unwrap_err();
        assert_eq!(fields(&error), vector["error"], "{}", vector["why"]);
    }
}
