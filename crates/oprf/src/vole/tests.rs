use std::collections::HashMap;

use super::*;
use crate::Output;
use vesica_correlations::ideal;
use vesica_primitives::security::KeyAgreement;
use vesica_testing::{
    Recorder, bad_value, chi_squared, honest, items, misbehaviour, rng, run_both, too_long,
    try_both, unexpected, wrong_length,
};
use vesica_wire::{Spoil, Tamper, memory_pair};

fn params(security: Security, receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security,
        lambda: 40,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [6; 32],
    }
}

type Outcomes = (Result<Vec<Output>, Error>, Result<Vec<Output>, Error>);

/// Outputs in the order of the items.
fn in_order(outputs: Outputs) -> Vec<Output> {
    let (values, numbers) = outputs.into_short();
    let mut in_order = vec![[0; 2]; values.len()];
    for (value, number) in values.iter().zip(numbers) {
        in_order[number as usize] = *value;
    }
    in_order
}

fn run_over(
    params: &Params,
    ours: &[Item],
    theirs: &[Item],
    receiving: impl Channel,
    sending: impl Channel,
) -> Outcomes {
    let (own, sent) = try_both(
        (receiving, sending),
        |channel| Vole.receive(channel, params, ours, (), &mut rng(2)),
        |channel| Vole.send(channel, params, theirs, &mut rng(1)),
    );
    (own.map(in_order), sent.map(in_order))
}

fn run(params: &Params, ours: &[Item], theirs: &[Item]) -> (Vec<Output>, Vec<Output>) {
    let (receiving, sending) = memory_pair();
    let (own, other) = run_over(params, ours, theirs, receiving, sending);
    (own.unwrap(), other.unwrap())
}

const BOTH: [Security; 2] = [Security::SemiHonest, Security::Malicious];

#[test]
fn outputs_agree_on_common_items_and_nowhere_else() {
    for security in BOTH {
        for (n_r, n_s, common) in [
            (0, 0, 0),
            (0, 3, 0),
            (3, 0, 0),
            (1, 1, 1),
            (1, 1, 0),
            (700, 1300, 250),
        ] {
            let ours = items(3, n_r);
            let mut theirs = items(4, n_s);
            theirs[..common].copy_from_slice(&ours[..common]);
            theirs.reverse();
            let params = params(security, n_r, n_s);
            let (own, other) = run(&params, &ours, &theirs);
            let index: HashMap<Output, Item> = own.iter().copied().zip(ours).collect();
            assert_eq!(index.len(), n_r);
            let mut met = 0;
            for (output, item) in other.iter().zip(&theirs) {
                if let Some(own) = index.get(output) {
                    assert_eq!(own, item);
                    met += 1;
                }
            }
            assert_eq!(met, common, "{security:?} {n_r} {n_s}");
        }
    }
}

/// On an ideal vector OLE: what the protocol adds is right by itself.
#[test]
fn outputs_agree_on_an_ideal_correlation() {
    fn agree<F: Value<W>, const W: usize>(params: &Params, ours: &[Item], theirs: &[Item]) {
        let (sender, receiver) =
            ideal::vole::<F>(8, 0x1234_5678 << 90 | 1, Events::of(params).slots(params));
        let (own, other) = honest(
            |c| {
                receive_on::<F, _, W>(Events::of(params), c, params, ours, &mut rng(2), |_, _| {
                    Ok(receiver)
                })
            },
            |c| {
                send_on::<F, _, W>(
                    Events::of(params),
                    c,
                    params,
                    theirs,
                    &mut rng(1),
                    |_, _| Ok(sender),
                )
            },
        );
        let (own, other) = (in_order(own), in_order(other));
        for (i, output) in own.iter().enumerate() {
            let met = other.iter().position(|o| o == output);
            assert_eq!(met, theirs.iter().position(|x| *x == ours[i]));
        }
    }
    let ours = items(3, 500);
    let mut theirs = items(4, 600);
    theirs[200..300].copy_from_slice(&ours[100..200]);
    agree::<u64, 1>(&params(Security::SemiHonest, 500, 600), &ours, &theirs);
    agree::<u128, 2>(&params(Security::Malicious, 500, 600), &ours, &theirs);
    let nine = Params {
        lambda: 60,
        ..params(Security::SemiHonest, 500, 600)
    };
    agree::<NineBytes, 2>(&nine, &ours, &theirs);
}

#[test]
fn values_are_as_narrow_as_chance_allows() {
    let width = |security, lambda, n_s| {
        let params = Params {
            lambda,
            ..params(security, 10, n_s)
        };
        Events::of(&params).values
    };
    let narrow = |security, lambda, n_s| width(security, lambda, n_s) == Width::Narrow;
    // n_s·2^-64 has a quarter of 2^-λ, or three fourths where that is not enough.
    assert!(narrow(Security::SemiHonest, 40, 1 << 22));
    assert!(narrow(Security::SemiHonest, 40, 3 << 22));
    assert!(!narrow(Security::SemiHonest, 40, (3 << 22) + 1));
    assert!(!narrow(Security::Malicious, 40, 3 << 22));
    assert!(narrow(Security::SemiHonest, 62, 3));
    assert!(!narrow(Security::SemiHonest, 62, 4));
    assert!(!narrow(Security::SemiHonest, 64, 1));
    assert!(!narrow(Security::Malicious, 40, 2));
    // n_s·2^-72 has a quarter.
    let semi_honest = |lambda, n_s| width(Security::SemiHonest, lambda, n_s);
    assert_eq!(semi_honest(40, (3 << 22) + 1), Width::Nine);
    assert_eq!(semi_honest(42, 1 << 28), Width::Nine);
    assert_eq!(semi_honest(43, 1 << 28), Width::Wide);
    assert_eq!(semi_honest(70, 1), Width::Nine);
    assert_eq!(semi_honest(71, 1), Width::Wide);
    assert_eq!(width(Security::Malicious, 40, 2), Width::Wide);
    // Each of them in a run.
    for (lambda, each) in [(40, 8), (64, 9), (72, 16)] {
        let params = Params {
            lambda,
            ..params(Security::SemiHonest, 20, 20)
        };
        let ours = items(3, 20);
        let (own, other) = run(&params, &ours, &ours);
        assert_eq!(own, other);
        let events = Events::of(&params);
        let bytes = events.bytes(&params) / events.slots(&params) as u64;
        assert_eq!(bytes, each, "{lambda}");
    }
}

/// Items that the receiver lacks have other outputs by values of any width.
#[test]
fn values_of_nine_bytes_tell_items_apart() {
    let (ours, mut theirs) = (items(3, 3000), items(4, 4000));
    theirs[500..1500].copy_from_slice(&ours[1000..2000]);
    let params = Params {
        lambda: 56,
        ..params(Security::SemiHonest, 3000, 4000)
    };
    assert_eq!(Events::of(&params).values, Width::Nine);
    let (own, other) = run(&params, &ours, &theirs);
    let met = |output: &Output| own.contains(output);
    assert_eq!(other.iter().filter(|output| met(output)).count(), 1000);
    assert_eq!(own[1000..2000], other[500..1500]);
}

/// Outputs for items that the receiver does not hold look uniform, and differ from run to run.
#[test]
fn other_outputs_look_random() {
    let (ours, theirs) = (items(3, 100), items(4, 4000));
    for security in BOTH {
        let (_, other) = run(&params(security, 100, 4000), &ours, &theirs);
        let again = Params {
            session: [7; 32],
            ..params(security, 100, 4000)
        };
        let (_, second) = run(&again, &ours, &theirs);
        assert!(
            other
                .iter()
                .zip(&second)
                .all(|(a, b)| a[0] != b[0] && a[1] != b[1])
        );
        // The values of each byte.
        for byte in 0..16 {
            let bytes = other
                .iter()
                .map(|output| bytemuck::must_cast_ref::<Output, [u8; 16]>(output)[byte]);
            let chi = chi_squared(bytes);
            assert!((120.0..420.0).contains(&chi), "byte {byte}: {chi}");
        }
    }
}

/// What the receiver sends looks uniform: the encoding is hidden by a.
#[test]
fn messages_do_not_depend_on_items() {
    let (a, b) = (items(3, 50), items(4, 50));
    let sent = |ours: &[Item]| {
        let (receiving, sending) = memory_pair();
        let mut receiving = Recorder::new(receiving);
        let params = params(Security::Malicious, 50, 1);
        let (own, other) = run_both(
            (&mut receiving, sending),
            |channel| Vole.receive(channel, &params, ours, (), &mut rng(2)),
            |channel| Vole.send(channel, &params, &items(5, 1), &mut rng(1)),
        );
        assert!(own.is_ok() && other.is_ok());
        receiving.sent
    };
    let (a, b) = (sent(&a), sent(&b));
    assert_eq!(a.len(), b.len());
    // With equal randomness, everything up to the encoding is equal, and only that differs.
    let differing: Vec<Kind> = a
        .iter()
        .zip(&b)
        .filter(|(a, b)| a != b)
        .map(|(a, _)| a.0)
        .collect();
    assert_eq!(differing, [ENCODING]);
    let lengths = |sent: &[(Kind, Vec<u8>)]| sent.iter().map(|s| s.1.len()).collect::<Vec<_>>();
    assert_eq!(lengths(&a), lengths(&b));
}

/// The receiver's frames: key of the base transfers, base VOLE (3), matrix and its check, combination,
/// opening, coin, encoding.
#[test]
fn cheating_receivers_are_refused() {
    let (ours, theirs) = (items(3, 50), items(4, 60));
    let params = params(Security::Malicious, 50, 60);
    let found = |frame, spoil| {
        let (receiving, sending) = memory_pair();
        let receiving = Tamper::new(receiving, frame, spoil);
        misbehaviour(run_over(&params, &ours, &theirs, receiving, sending).1)
    };
    let slots = Events::of(&params).slots(&params);
    for (frame, kind, bytes) in [(8, COIN, 16), (9, ENCODING, slots * 16)] {
        let short = wrong_length(kind.name, bytes - 1);
        assert_eq!(found(frame, Spoil::Truncate(1)), short);
        let long = too_long(kind.name, bytes + 1, bytes);
        assert_eq!(found(frame, Spoil::Extend(vec![1])), long);
        assert_eq!(found(frame, Spoil::Kind(99)), unexpected(kind, 99));
    }
    // A replayed frame is of the wrong length where it stands.
    let replayed = wrong_length(ENCODING.name, 16);
    assert_eq!(found(9, Spoil::ReplayPrevious), replayed);
    let twice = unexpected(ENCODING, COIN.code);
    assert_eq!(found(8, Spoil::Duplicate), twice);
}

/// The sender's frames: commitment, functions of the base transfers, trees, check, coin.
#[test]
fn cheating_senders_are_refused() {
    let (ours, theirs) = (items(3, 50), items(4, 60));
    let params = params(Security::Malicious, 50, 60);
    let found = |frame, spoil| {
        let (receiving, sending) = memory_pair();
        let sending = Tamper::new(sending, frame, spoil);
        misbehaviour(run_over(&params, &ours, &theirs, receiving, sending).0)
    };
    let broken = bad_value(COIN.name, "not what was committed to");
    let torn = bad_value(COIN.name, "not the sum of both halves");
    // Bytes of the commitment; then of the sender's half, of what hides it, and of the coin.
    for (frame, byte, error) in [
        (0, 0, &broken),
        (0, 16, &broken),
        (0, 31, &broken),
        (4, 0, &broken),
        (4, 16, &broken),
        (4, 47, &broken),
        (4, 48, &torn),
        (4, 63, &torn),
    ] {
        assert_eq!(found(frame, Spoil::FlipBit(8 * byte + 1)), *error);
    }
    // A receiver's half that changed on its way makes two coins, and the sender says which it has.
    for byte in [0, 8, 15] {
        let (receiving, sending) = memory_pair();
        let receiving = Tamper::new(receiving, 8, Spoil::FlipBit(8 * byte));
        let (receiver, _) = run_over(&params, &ours, &theirs, receiving, sending);
        assert_eq!(misbehaviour(receiver), torn);
    }
    let inconsistent = bad_value("VOLE check", "the correlation is inconsistent");
    assert_eq!(found(3, Spoil::FlipBit(9)), inconsistent);
    let short = wrong_length(COIN.name, 48);
    assert_eq!(found(4, Spoil::Truncate(16)), short);
}

/// An encoding that is not one: the run goes on, and nothing matches that should not.
#[test]
fn a_malformed_encoding_makes_no_item_match() {
    let ours = items(3, 300);
    for security in BOTH {
        let params = params(security, 300, 300);
        let frame = if security == Security::Malicious {
            9
        } else {
            4
        };
        let (receiving, sending) = memory_pair();
        let rows = vec![0; Events::of(&params).bytes(&params) as usize];
        let receiving = Tamper::new(receiving, frame, Spoil::Replace(rows));
        let (own, other) = run_over(&params, &ours, &ours, receiving, sending);
        let (own, other) = (own.unwrap(), other.unwrap());
        assert!(own.iter().all(|output| !other.contains(output)));
    }
}
