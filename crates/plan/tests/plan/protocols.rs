//! Every protocol against a plain intersection, and against peers that cheat.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
use vesica_oprf::compact_dh::{self, Variant};
use vesica_oprf::oprf_dh;
use vesica_plan::Registry;
use vesica_psi::{
    Exact, Half, Input, Item, KeyAgreement, Output, Params, Prepared, Protocol, Reveal,
    StringBytes, Task, Values, indices_vartime,
};
use vesica_testing::{
    bad_value, digests, misbehaviour, pair_within, rng, too_long, try_both, wrong_length,
};
use vesica_wire::{Channel, Error, Spoil, Tamper, memory_pair};

fn protocol(name: &str) -> &'static dyn Protocol {
    Registry::standard().get(name).unwrap()
}

fn params(protocol: &dyn Protocol, receiver: &[Item], sender: &[Item]) -> Params {
    Params {
        security: protocol.spec().security,
        lambda: 40,
        receiver_size: receiver.len(),
        sender_size: sender.len(),
        key_agreement: KeyAgreement::default(),
        session: [5; 32],
    }
}

fn alone() -> Task {
    Task::new(Reveal::Matches)
}

fn both() -> Task {
    Task {
        both: true,
        ..alone()
    }
}

type Outcomes = (Result<Vec<bool>, Error>, Result<Option<Vec<bool>>, Error>);

/// Numbers that stand for items: different ones for different items of these tests.
fn numbers(items: &[Item]) -> Vec<u64> {
    let number = |[a, b, c, d, ..]: &Item| u32::from_le_bytes([*a, *b, *c, *d]).into();
    items.iter().map(number).collect()
}

/// Numbers for protocols that compare those as they are, since they run many times faster so; their own tests compare
/// hashes too.
fn input<'a>(protocol: &dyn Protocol, items: &'a [Item], numbers: &'a [u64]) -> Input<'a> {
    match protocol.spec().compares(Some(32)) {
        Some((_, bits)) => Input::new(items).with_exact(Exact { bits, numbers }),
        None => Input::new(items),
    }
}

/// The halves of a protocol that takes them from a dealer.
fn dealt(protocol: &dyn Protocol, params: &Params) -> [Option<Prepared>; 2] {
    let Some(offline) = protocol
        .offline()
        .filter(|offline| offline.origin().is_dealt())
    else {
        return [None, None];
    };
    let bits = protocol.spec().compares(Some(32)).map(|(_, bits)| bits);
    let [receiver, sender] = offline.deal(params, bits, &mut rng(3)).unwrap();
    [(Half::Receiver, receiver), (Half::Sender, sender)].map(|(half, bytes)| {
        let length = offline.dealt_bytes(half, params, bits).unwrap();
        assert_eq!(bytes.len(), length);
        offline.load(half, params, bits, bytes)
    })
}

/// Runs both parties over channels that are each other's peer.
fn run_over(
    protocol: &dyn Protocol,
    task: Task,
    ours: &[Item],
    theirs: &[Item],
    receiving: impl Channel,
    sending: impl Channel,
) -> Outcomes {
    let params = &params(protocol, ours, theirs);
    let [dealt_ours, dealt_theirs] = dealt(protocol, params);
    let (own, sent) = try_both(
        (receiving, sending),
        |channel| {
            let mut rng = rng(2);
            let prepared = dealt_ours.unwrap_or_else(|| protocol.prepare(ours.len(), &mut rng));
            let numbers = numbers(ours);
            let input = input(protocol, ours, &numbers);
            protocol.receive(channel, params, &task, input, prepared, &mut rng)
        },
        |channel| {
            let numbers = numbers(theirs);
            let input = input(protocol, theirs, &numbers);
            let prepared = dealt_theirs.unwrap_or_else(Prepared::nothing);
            protocol.send(channel, params, &task, input, prepared, &mut rng(1))
        },
    );
    let matches = |output| match output {
        Output::Matches(matches) => Some(matches),
        Output::Nothing => None,
        other => panic!("{other:?}"),
    };
    (
        own.map(|output| matches(output).unwrap()),
        sent.map(matches),
    )
}

fn intersect(protocol: &dyn Protocol, ours: &[Item], theirs: &[Item]) -> Vec<bool> {
    let (receiving, sending) = memory_pair();
    let (matches, sent) = run_over(protocol, alone(), ours, theirs, receiving, sending);
    assert_eq!(sent.unwrap(), None);
    matches.unwrap()
}

fn plain(ours: &[Item], theirs: &[Item]) -> Vec<bool> {
    let theirs: HashSet<_> = theirs.iter().collect();
    ours.iter().map(|item| theirs.contains(item)).collect()
}

#[test]
fn every_protocol_computes_the_intersection() {
    let sizes = [
        (0, 0, 0),
        (0, 5, 0),
        (5, 0, 0),
        (1, 1, 1),
        (1, 1, 0),
        (1, 90, 1),
        (200, 1, 1),
        (33, 33, 33),
        (100, 257, 60),
        (5000, 3000, 1234),
    ];
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        for (n, m, shared) in sizes {
            let ours = digests(0..n);
            let theirs = digests(n - shared..n - shared + m);
            let expected = plain(&ours, &theirs);
            assert_eq!(indices_vartime(&expected).len(), shared as usize);
            assert_eq!(
                intersect(protocol, &ours, &theirs),
                expected,
                "{protocol:?} {n} {m}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn random_sets(ours: HashSet<u8>, theirs: HashSet<u8>) {
        let pick = |set: &HashSet<u8>| -> Vec<Item> {
            set.iter().map(|i| digests([u64::from(*i)])[0]).collect()
        };
        let (ours, theirs) = (pick(&ours), pick(&theirs));
        for protocol in Registry::standard().revealing(Reveal::Matches) {
            prop_assert_eq!(intersect(protocol, &ours, &theirs), plain(&ours, &theirs));
        }
    }
}

/// Bytes of the two flows: the published formula, less what sorted masks save, and framing.
#[test]
fn bytes_follow_the_formula() {
    let (n, m) = (256usize, 1024usize);
    let (ours, theirs) = (digests(0..n as u64), digests(100..100 + m as u64));
    // λ + 1 + log₂(n_s·n_r) = 59; the first mask in full, of each other one its gap, 2^10 times smaller
    // than the range and 1.55 bits or so longer in code.
    let masks = |width: usize| (width + (m - 1) * (width - 10)) / 8 + (m - 1) * 155 / 800;
    let cases = [
        ("compact-dh", n * 32, 32 + masks(256)),
        ("compact-dh-sh1", n * 32, 32 + masks(59)),
        ("compact-dh-sh2", (n + 1) * 32, 32 + masks(59)),
        ("dh", n * 32, n * 32 + masks(59)),
        // A pair of masks for 2^40 evaluations: 80 − log₂ n_s bits.
        ("oprf-dh", n * 32, 32 + n * 32 + 64 + masks(70)),
    ];
    for (name, up, down) in cases {
        let (mut receiving, sending) = memory_pair();
        let (matches, _) = run_over(
            protocol(name),
            alone(),
            &ours,
            &theirs,
            &mut receiving,
            sending,
        );
        matches.unwrap();
        let traffic = receiving.traffic();
        let sent: u64 = traffic.iter().map(|p| p.bytes_sent).sum();
        let received: u64 = traffic.iter().map(|p| p.bytes_received).sum();
        // Five bytes per frame, at most three frames per direction.
        assert!(
            (up as u64..=up as u64 + 15).contains(&sent),
            "{name} {sent}"
        );
        // 0.1 bits per mask for chance.
        assert!(
            received.abs_diff(down as u64 + 10) <= 10 + m as u64 / 80,
            "{name} {received} {down}"
        );
    }
}

/// Spoils each frame of each side in each way: the run must end on both sides, and never with an item
/// that the two do not share.
#[test]
fn spoilt_frames_never_add_matches() {
    let ours = digests(0..40);
    let theirs = digests(20..80);
    let expected = plain(&ours, &theirs);
    let spoils = [
        Spoil::FlipBit(777),
        Spoil::Truncate(1),
        Spoil::Extend(vec![0]),
        Spoil::Replace(vec![]),
        Spoil::Replace(vec![0xff; 32]),
        Spoil::ReplayPrevious,
        Spoil::Kind(99),
        Spoil::Close,
    ];
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        for spoil in &spoils {
            for frame in 0..2 {
                for receiver_cheats in [false, true] {
                    // A party that waits in vain gives up soon.
                    let (receiving, sending) = pair_within(Duration::from_millis(400));
                    let (matches, sent) = if receiver_cheats {
                        let receiving = Tamper::new(receiving, frame, spoil.clone());
                        run_over(protocol, alone(), &ours, &theirs, receiving, sending)
                    } else {
                        let sending = Tamper::new(sending, frame, spoil.clone());
                        run_over(protocol, alone(), &ours, &theirs, receiving, sending)
                    };
                    let case =
                        format!("{protocol:?} {spoil:?} frame {frame} receiver {receiver_cheats}");
                    if let Ok(matches) = &matches {
                        assert!(matches.iter().zip(&expected).all(|(m, e)| m <= e), "{case}");
                    }
                    let shape_is_wrong = !matches!(
                        spoil,
                        Spoil::FlipBit(_) | Spoil::Replace(_) | Spoil::ReplayPrevious
                    );
                    let frames = if receiver_cheats { 1 } else { 2 };
                    if shape_is_wrong && frame < frames {
                        assert!(matches.is_err() || sent.is_err(), "{case}");
                    }
                }
            }
        }
    }
}

/// The exact error of each check that a cheating peer can run into.
#[test]
fn cheating_peers_are_named() {
    let ours = digests(0..16);
    let theirs = digests(8..24);
    let mut twist = vec![0; 32];
    twist[0] = 2;
    let sender_cheats = [
        (0, vec![0; 32], "a point of low order"),
        (0, twist, "not a point of the curve"),
        (0, vec![0xff; 32], "not a canonical field element"),
    ];
    let protocol = protocol("compact-dh");
    for (frame, payload, expected) in sender_cheats {
        let (receiving, sending) = memory_pair();
        let sending = Tamper::new(sending, frame, Spoil::Replace(payload));
        let (matches, _) = run_over(protocol, alone(), &ours, &theirs, receiving, sending);
        assert_eq!(
            misbehaviour(matches),
            bad_value("key-agreement message", expected)
        );
    }
    // A constant polynomial.
    let mut constant = vec![0; 16 * 32];
    constant[3] = 1;
    let (receiving, sending) = memory_pair();
    let receiving = Tamper::new(receiving, 0, Spoil::Replace(constant));
    let (matches, sent) = run_over(protocol, alone(), &ours, &theirs, receiving, sending);
    assert_eq!(misbehaviour(sent), bad_value("polynomial", "constant"));
    assert!(matches!(matches, Err(Error::PeerAborted { .. })));
    // The largest mask, and behind it one that is larger by 0.
    let (receiving, sending) = memory_pair();
    let mut descending = vec![0xff; 32];
    descending.extend_from_slice(&[1; 500]);
    let sending = Tamper::new(sending, 1, Spoil::Replace(descending));
    let (matches, _) = run_over(protocol, alone(), &ours, &theirs, receiving, sending);
    assert_eq!(
        misbehaviour(matches),
        bad_value("masks", "a number out of range")
    );
}

/// The same of the OPRF of look-ups: keys, answers and questions that no honest peer sends.
#[test]
fn cheats_in_the_oprf_of_look_ups_are_named() {
    let ours = digests(0..16);
    let theirs = digests(8..24);
    let protocol = protocol("oprf-dh");
    let (_, other_key) = oprf_dh::Sender::new(&mut rng(9));
    let (key, answers) = ("public key of the OPRF", "answers to blinded elements");
    let no_element = "not an element of ristretto255";
    let not_under_it = bad_value(answers, "not under the public key");
    let sender_cheats = [
        (0, vec![0; 32], bad_value(key, "the neutral element")),
        (0, vec![0xff; 32], bad_value(key, no_element)),
        (0, other_key.to_vec(), not_under_it),
        (0, vec![0; 31], wrong_length(key, 31)),
        (
            1,
            vec![0; 16 * 32 + 64],
            bad_value(answers, "the neutral element"),
        ),
        (1, vec![0; 16 * 32], wrong_length(answers, 16 * 32)),
    ];
    for (frame, payload, expected) in sender_cheats {
        let (receiving, sending) = memory_pair();
        let sending = Tamper::new(sending, frame, Spoil::Replace(payload));
        let (matches, _) = run_over(protocol, alone(), &ours, &theirs, receiving, sending);
        assert_eq!(misbehaviour(matches), expected);
    }
    let blinded = "blinded elements";
    let receiver_cheats = [
        (vec![0; 16 * 32], bad_value(blinded, "the neutral element")),
        (vec![0xff; 16 * 32], bad_value(blinded, no_element)),
        // More than it has declared, and fewer.
        (vec![0; 17 * 32], too_long(blinded, 17 * 32, 16 * 32)),
        (vec![0; 15 * 32], wrong_length(blinded, 15 * 32)),
    ];
    for (payload, expected) in receiver_cheats {
        let (receiving, sending) = memory_pair();
        let receiving = Tamper::new(receiving, 0, Spoil::Replace(payload));
        let (matches, sent) = run_over(protocol, alone(), &ours, &theirs, receiving, sending);
        assert_eq!(misbehaviour(sent), expected);
        assert!(matches!(matches, Err(Error::PeerAborted { .. })));
    }
}

/// Both sides learn the matches, if so agreed; a receiver that tells more than it can is found out.
#[test]
fn both_learn_the_matches() {
    let (ours, theirs) = (digests(0..300), digests(200..1000));
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        let (receiving, sending) = memory_pair();
        let (matches, told) = run_over(protocol, both(), &ours, &theirs, receiving, sending);
        assert_eq!(matches.unwrap(), plain(&ours, &theirs));
        assert_eq!(told.unwrap(), Some(plain(&theirs, &ours)));
    }
    let (receiving, sending) = memory_pair();
    // A bit for each of the sender's items, and more of them than the receiver has.
    let receiving = Tamper::new(receiving, 1, Spoil::Replace(vec![0xff; 800 / 8]));
    let (_, told) = run_over(protocol("dh"), both(), &ours, &theirs, receiving, sending);
    assert_eq!(
        misbehaviour(told),
        bad_value("matched positions", "more matches than items")
    );
}

/// Masks outside the intersection look uniform.
#[test]
fn masks_look_uniform() {
    let (ours, theirs) = (digests(0..8), digests(100..4100));
    let mut rng = rng(3);
    let session = [6; 32];
    let prepared = compact_dh::Prepared::new(ours.len(), &mut rng);
    let (_, polynomial) =
        compact_dh::Receiver::new(Variant::Malicious, &session, &ours, prepared, &mut rng);
    let (sender, _) = compact_dh::Sender::new(Variant::Malicious, &session, &mut rng);
    let masks = sender.masks(&polynomial, &theirs).unwrap();
    for bit in 0..256 {
        let ones = masks
            .iter()
            .filter(|m| m[bit / 8] >> (bit % 8) & 1 == 1)
            .count();
        // Six standard deviations of a fair coin.
        assert!(ones.abs_diff(2000) < 190, "bit {bit}: {ones}");
    }
}

/// Each party has shares of both parties' columns and strings.
#[test]
fn columns_of_both_parties_take_memory() {
    let sizes = [1 << 16; 2];
    for protocol in Registry::standard().revealing(Reveal::Shares) {
        let bytes = |receiver, sender, string| {
            let task = Task {
                values: Values { receiver, sender },
                string_bytes: StringBytes {
                    receiver: string,
                    sender: 0,
                },
                ..Task::new(Reveal::Shares)
            };
            protocol.working_bytes(&task, sizes, None, 40)
        };
        let column = protocol.bytes_per_column(sizes[0], sizes[1]);
        assert!(column > 0, "{protocol:?}");
        assert_eq!(bytes(0, 0, 0), bytes(1, 0, 0), "{protocol:?}");
        for three in [bytes(2, 1, 0), bytes(0, 3, 0), bytes(1, 0, 9)] {
            assert_eq!(three, bytes(1, 0, 0) + 2 * column, "{protocol:?}");
        }
    }
}
