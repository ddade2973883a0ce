//! Every protocol against a plain intersection, and against peers that cheat.

use super::*;
use proptest::prelude::*;
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use std::collections::HashSet;
use std::thread;
use std::time::Duration;
use vesica_primitives::oracle::Oracle;
use vesica_wire::{
    ChannelOptions, FramedChannel, Misbehaviour, Spoil, Tamper, memory_pair, memory_pair_with,
};

fn items(range: std::ops::Range<u32>) -> Vec<Item> {
    let oracle = Oracle::new("vesica test items", &[0; 32]);
    range.map(|i| oracle.hash(&[&i.to_le_bytes()])).collect()
}

fn params(protocol: Protocol, receiver: &[Item], sender: &[Item]) -> Params {
    Params {
        protocol,
        security: protocol.security(),
        both: false,
        lambda: 40,
        receiver_size: receiver.len(),
        sender_size: sender.len(),
        session: [5; 32],
    }
}

type Outcomes = (Result<Vec<bool>, Error>, Result<Option<Vec<bool>>, Error>);

/// Runs both parties over the channels that `wrap` makes of a pair.
fn run_over<R: Channel + Send, S: Channel + Send>(
    params: &Params,
    ours: &[Item],
    theirs: &[Item],
    mut receiving: R,
    mut sending: S,
) -> Outcomes {
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let mut rng = ChaCha12Rng::seed_from_u64(1);
            let result = send(&mut sending, params, theirs, &mut rng);
            if let Err(error) = &result {
                sending.abort(error);
            }
            result
        });
        let mut rng = ChaCha12Rng::seed_from_u64(2);
        let prepared = prepare(params.protocol, ours.len(), &mut rng);
        let result = receive(&mut receiving, params, ours, prepared, &mut rng);
        if let Err(error) = &result {
            receiving.abort(error);
        }
        drop(receiving);
        (result, sender.join().unwrap())
    })
}

/// Channels on which a party that waits in vain gives up soon.
fn impatient_pair() -> (FramedChannel, FramedChannel) {
    let options = || ChannelOptions {
        timeout: Duration::from_millis(400),
        ..ChannelOptions::default()
    };
    memory_pair_with(options(), options())
}

fn intersect(protocol: Protocol, ours: &[Item], theirs: &[Item]) -> Vec<bool> {
    let (receiving, sending) = memory_pair();
    let params = params(protocol, ours, theirs);
    let (matches, sent) = run_over(&params, ours, theirs, receiving, sending);
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
        (1, 900, 1),
        (900, 1, 1),
        (33, 33, 33),
        (100, 257, 60),
        (5000, 3000, 1234),
    ];
    for protocol in Protocol::ALL {
        for (n, m, shared) in sizes {
            let ours = items(0..n);
            let theirs = items(n - shared..n - shared + m);
            let expected = plain(&ours, &theirs);
            assert_eq!(indices_vartime(&expected).len(), shared as usize);
            assert_eq!(
                intersect(protocol, &ours, &theirs),
                expected,
                "{} {n} {m}",
                protocol.name()
            );
        }
    }
}

/// Every store, function and width that a benchmark may choose.
#[test]
fn what_benchmarks_choose_computes_the_intersection() {
    use research::{BitFunction, Choice, Figure, Store, Width};
    let widths = [
        Width::Proven,
        Width::UnsafePaper(Figure::SemiHonest),
        Width::UnsafePaper(Figure::Malicious),
    ];
    let mut choices = Vec::new();
    for function in [BitFunction::Aes, BitFunction::Sha256] {
        let store = Store::RandomBand;
        let usual = Choice {
            store,
            function,
            width: Width::Proven,
        };
        choices.extend([(Protocol::SpotLow, usual), (Protocol::SpotFast, usual)]);
        for store in [Store::RandomBand, Store::ThreeHash] {
            choices.extend(widths.map(|width| {
                let choice = Choice {
                    store,
                    function,
                    width,
                };
                (Protocol::SparseOkvs, choice)
            }));
        }
    }
    for (protocol, choice) in choices {
        for (n, m, shared) in [(0, 5, 0), (5, 0, 0), (1, 1, 1), (100, 257, 60)] {
            let (ours, theirs) = (items(0..n), items(n - shared..n - shared + m));
            let params = params(protocol, &ours, &theirs);
            let (mut receiving, mut sending) = memory_pair();
            let (matches, told) = thread::scope(|scope| {
                let (params, theirs) = (&params, &theirs);
                let sender = scope.spawn(move || {
                    let mut rng = ChaCha12Rng::seed_from_u64(1);
                    research::send(&mut sending, params, &choice, theirs, &mut rng)
                });
                let mut rng = ChaCha12Rng::seed_from_u64(2);
                let own = research::receive(&mut receiving, params, &choice, &ours, &mut rng);
                (own.unwrap(), sender.join().unwrap().unwrap())
            });
            assert_eq!((matches, told), (plain(&ours, &theirs), None), "{choice:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn random_sets(ours: HashSet<u8>, theirs: HashSet<u8>) {
        let pick = |set: &HashSet<u8>| -> Vec<Item> {
            set.iter().map(|i| items(u32::from(*i)..u32::from(*i) + 1)[0]).collect()
        };
        let (ours, theirs) = (pick(&ours), pick(&theirs));
        for protocol in Protocol::ALL {
            prop_assert_eq!(intersect(protocol, &ours, &theirs), plain(&ours, &theirs));
        }
    }
}

/// Bytes of the two flows: the published formula, less what sorted masks save, and framing.
#[test]
fn bytes_follow_the_formula() {
    let (n, m) = (256usize, 1024usize);
    let (ours, theirs) = (items(0..n as u32), items(100..100 + m as u32));
    // λ + 1 + log₂(n_s·n_r) = 59; the first mask in full, of each other one its gap, 2^10 times smaller
    // than the range and 1.55 bits or so longer in code.
    let masks = |width: usize| (width + (m - 1) * (width - 10)) / 8 + (m - 1) * 155 / 800;
    let cases = [
        (Protocol::CompactDh, n * 32, 32 + masks(256)),
        (Protocol::CompactDhSh1, n * 32, 32 + masks(59)),
        (Protocol::CompactDhSh2, (n + 1) * 32, 32 + masks(59)),
        (Protocol::Dh, n * 32, n * 32 + masks(59)),
    ];
    for (protocol, up, down) in cases {
        let (mut receiving, mut sending) = memory_pair();
        let params = params(protocol, &ours, &theirs);
        let (theirs, params) = (&theirs, &params);
        thread::scope(|scope| {
            scope.spawn(move || {
                send(
                    &mut sending,
                    params,
                    theirs,
                    &mut ChaCha12Rng::seed_from_u64(1),
                )
                .unwrap();
            });
            let mut rng = ChaCha12Rng::seed_from_u64(2);
            let prepared = prepare(protocol, n, &mut rng);
            receive(&mut receiving, params, &ours, prepared, &mut rng).unwrap();
            let traffic = receiving.traffic();
            let sent: u64 = traffic.iter().map(|p| p.bytes_sent).sum();
            let received: u64 = traffic.iter().map(|p| p.bytes_received).sum();
            // Five bytes a frame, at most three frames a direction.
            assert!(
                (up as u64..=up as u64 + 15).contains(&sent),
                "{protocol:?} {sent}"
            );
            // 0.1 bits a mask for chance.
            assert!(
                received.abs_diff(down as u64 + 10) <= 10 + m as u64 / 80,
                "{protocol:?} {received} {down}"
            );
        });
    }
}

/// Spoils each frame of each side in each way: the run must end on both sides, and never with an item
/// that the two do not share.
#[test]
fn spoilt_frames_never_add_matches() {
    let ours = items(0..40);
    let theirs = items(20..80);
    let expected = plain(&ours, &theirs);
    let spoils = [
        Spoil::FlipBit(0),
        Spoil::FlipBit(777),
        Spoil::Truncate(1),
        Spoil::Truncate(32),
        Spoil::Extend(vec![0]),
        Spoil::Extend(vec![0; 32]),
        Spoil::Replace(vec![]),
        Spoil::Replace(vec![0xff; 32]),
        Spoil::ReplayPrevious,
        Spoil::Kind(99),
        Spoil::Close,
    ];
    for protocol in Protocol::ALL {
        let params = params(protocol, &ours, &theirs);
        for spoil in &spoils {
            for frame in 0..2 {
                for receiver_cheats in [false, true] {
                    let (receiving, sending) = impatient_pair();
                    let (matches, sent) = if receiver_cheats {
                        let receiving = Tamper::new(receiving, frame, spoil.clone());
                        run_over(&params, &ours, &theirs, receiving, sending)
                    } else {
                        let sending = Tamper::new(sending, frame, spoil.clone());
                        run_over(&params, &ours, &theirs, receiving, sending)
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
    let ours = items(0..16);
    let theirs = items(8..24);
    let mut twist = vec![0; 32];
    twist[0] = 2;
    let sender_cheats = [
        (0, vec![0; 32], "a point of low order"),
        (0, twist, "not a point of the curve"),
        (0, vec![0xff; 32], "not a canonical field element"),
    ];
    let params = params(Protocol::CompactDh, &ours, &theirs);
    for (frame, payload, expected) in sender_cheats {
        let (receiving, sending) = memory_pair();
        let sending = Tamper::new(sending, frame, Spoil::Replace(payload));
        let (matches, _) = run_over(&params, &ours, &theirs, receiving, sending);
        match matches {
            Err(Error::PeerMisbehaved(Misbehaviour::BadValue { problem, .. })) => {
                assert_eq!(problem, expected);
            }
            other => panic!("{other:?}"),
        }
    }
    // A constant polynomial.
    let mut constant = vec![0; 16 * 32];
    constant[3] = 1;
    let (receiving, sending) = memory_pair();
    let receiving = Tamper::new(receiving, 0, Spoil::Replace(constant));
    let (matches, sent) = run_over(&params, &ours, &theirs, receiving, sending);
    match sent {
        Err(Error::PeerMisbehaved(Misbehaviour::BadValue { what, problem })) => {
            assert_eq!((what, problem), ("polynomial", "constant"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(matches, Err(Error::PeerAborted { .. })));
    // The largest mask, and behind it one that is larger by 0.
    let (receiving, sending) = memory_pair();
    let mut descending = vec![0xff; 32];
    descending.extend_from_slice(&[1; 500]);
    let sending = Tamper::new(sending, 1, Spoil::Replace(descending));
    let (matches, _) = run_over(&params, &ours, &theirs, receiving, sending);
    match matches {
        Err(Error::PeerMisbehaved(Misbehaviour::BadValue { what, problem })) => {
            assert_eq!((what, problem), ("masks", "a number out of range"));
        }
        other => panic!("{other:?}"),
    }
}

/// Both sides learn the matches, if so agreed; a receiver that tells more than it can is found out.
#[test]
fn both_learn_the_matches() {
    let (ours, theirs) = (items(0..300), items(200..1000));
    for protocol in Protocol::ALL {
        let params = Params {
            both: true,
            ..params(protocol, &ours, &theirs)
        };
        let (receiving, sending) = memory_pair();
        let (matches, told) = run_over(&params, &ours, &theirs, receiving, sending);
        assert_eq!(matches.unwrap(), plain(&ours, &theirs));
        assert_eq!(told.unwrap(), Some(plain(&theirs, &ours)));
    }
    let params = Params {
        both: true,
        ..params(Protocol::Dh, &ours, &theirs)
    };
    let (receiving, sending) = memory_pair();
    let receiving = Tamper::new(receiving, 1, Spoil::Replace(301u32.to_le_bytes().to_vec()));
    let (_, told) = run_over(&params, &ours, &theirs, receiving, sending);
    match told {
        Err(Error::PeerMisbehaved(Misbehaviour::BadValue { what, problem })) => {
            assert_eq!(
                (what, problem),
                ("matched positions", "more matches than items")
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Masks outside the intersection look uniform.
#[test]
fn masks_look_uniform() {
    let (ours, theirs) = (items(0..8), items(100..4100));
    let mut rng = ChaCha12Rng::seed_from_u64(3);
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

#[test]
fn names_round_trip() {
    for protocol in Protocol::ALL {
        assert_eq!(Protocol::from_name(protocol.name()), Some(protocol));
    }
    assert_eq!(Protocol::from_name("compact"), None);
}
