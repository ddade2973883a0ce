use std::collections::HashSet;
use vesica_primitives::security::KeyAgreement;

use super::extension::Extension;
use super::source::Party;
use super::*;
use crate::cot::{Receiver as _, Sender as _};
use crate::ot_extension::{CHECK, MATRIX};
use vesica_reference::bulk as reference;
use vesica_testing::{Recorder, Script, Tape, chi_squared, honest, misbehaviour, rng, try_both};
use vesica_wire::{FramedChannel, Misbehaviour, Spoil, Tamper, memory_pair};

const SESSION: [u8; 32] = [5; 32];

/// Two sizes that refill often and hide nothing.
static SMALL: [Size; 2] = [Size::new(1, 1, 2), Size::new(1, 2, 3)];

fn small() -> &'static [Size] {
    SMALL[0].trees.get_or_init(|| 64);
    SMALL[1].trees.get_or_init(|| 64);
    &SMALL
}

/// Both ends of a source with these sizes, over channels.
fn ends_over(
    sizes: &'static [Size],
    channels: (impl Channel, impl Channel),
) -> (Result<Sender, Error>, Result<Receiver, Error>) {
    try_both(
        channels,
        |channel| {
            Sender::with_sizes(
                channel,
                &SESSION,
                sizes,
                KeyAgreement::Classical,
                &mut rng(1),
            )
        },
        |channel| {
            Receiver::with_sizes(
                channel,
                &SESSION,
                sizes,
                KeyAgreement::Classical,
                &mut rng(2),
            )
        },
    )
}

fn ends(sizes: &'static [Size]) -> (Sender, Receiver) {
    let (sender, receiver) = ends_over(sizes, memory_pair());
    (sender.unwrap(), receiver.unwrap())
}

/// The next COTs of both ends.
fn extend(ends: &mut (Sender, Receiver), count: usize) -> (Vec<Block>, Vec<Block>) {
    let (sender, receiver) = ends;
    honest(
        |channel| {
            let mut q = vec![0; count];
            sender.extend(channel, &mut rng(3), &mut q).map(|()| q)
        },
        |channel| {
            let mut t = vec![0; count];
            receiver.extend(channel, &mut rng(4), &mut t).map(|()| t)
        },
    )
}

fn assert_related(delta: Block, q: &[Block], t: &[Block]) {
    assert_eq!(q.len(), t.len());
    for (q, t) in q.iter().zip(t) {
        assert_eq!(q & 1, 0);
        assert_eq!(q ^ t, delta * (t & 1));
    }
}

#[test]
fn cots_fit_in_any_sequence_of_calls() {
    let patterns: [&[usize]; 5] = [
        &[0, 1, 7, 8, 9, 0, 1000],
        &[1; 300],
        &[5000, 3, 1, 255, 256, 257],
        &[64 * 8, 64 * 8, 1],
        &[1023, 1025, 1, 70_000],
    ];
    for count in 0..=2 {
        for pattern in patterns {
            let mut ends = ends(&small()[..count]);
            let delta = ends.0.delta();
            assert_eq!(delta & 1, 1);
            for length in pattern {
                let (q, t) = extend(&mut ends, *length);
                assert_related(delta, &q, &t);
            }
        }
    }
}

/// How COTs are cut into calls does not change them.
#[test]
fn calls_do_not_change_the_cots() {
    let mut whole = ends(&small()[..1]);
    let mut parts = ends(&small()[..1]);
    // As many trees at a time, so that roots are the same.
    let (q, t) = extend(&mut whole, 4);
    let mut cut = (Vec::new(), Vec::new());
    for length in [1, 2, 1] {
        let (q, t) = extend(&mut parts, length);
        cut.0.extend(q);
        cut.1.extend(t);
    }
    assert_eq!(cut, (q, t));
}

#[test]
fn sizes_of_real_runs_fit_and_look_random() {
    let optimize = Optimize::Traffic;
    for (expected, count) in [(3000, 3000), (100_000, 100_000), (1 << 22, 1 << 18)] {
        let (mut sender, mut receiver) = honest(
            |channel| {
                Sender::setup(
                    channel,
                    &SESSION,
                    SemiHonest,
                    expected,
                    optimize,
                    KeyAgreement::Classical,
                    &mut rng(1),
                )
            },
            |channel| {
                Receiver::setup(
                    channel,
                    &SESSION,
                    SemiHonest,
                    expected,
                    optimize,
                    KeyAgreement::Classical,
                    &mut rng(2),
                )
            },
        );
        let (q, t) = honest(
            |channel| {
                let mut q = vec![0; count];
                sender.extend(channel, &mut rng(3), &mut q).map(|()| q)
            },
            |channel| {
                let mut t = vec![0; count];
                receiver.extend(channel, &mut rng(4), &mut t).map(|()| t)
            },
        );
        assert_related(sender.delta(), &q, &t);
        let ones = t.iter().filter(|t| **t & 1 == 1).count() as f64;
        let half = count as f64 / 2.0;
        assert!((ones - half).abs() < 4.0 * (half / 2.0).sqrt(), "{ones}");
        // 5 standard deviations of 22.6 around 255, leaving out the byte with the bit that is always 0.
        let bytes = |blocks: &[Block]| -> Vec<u8> {
            let high = blocks
                .iter()
                .flat_map(|block| block.to_le_bytes()[1..].to_vec());
            high.collect()
        };
        for blocks in [&q, &t] {
            assert!((142.0..368.0).contains(&chi_squared(bytes(blocks))));
        }
        assert_eq!(q.iter().collect::<HashSet<_>>().len(), count);
    }
}

/// What an extension keeps for the next one is never given out, and what is given out never comes again.
#[test]
fn reserved_cots_stay_secret() {
    let mut ends = ends(small());
    let mut seen = HashSet::new();
    for _ in 0..600 {
        let (q, _) = extend(&mut ends, 1);
        assert!(seen.insert(q[0]));
        let cots = ends.0.0.reserved_cots().unwrap();
        assert!(cots.iter().all(|q| !seen.contains(q)));
    }
}

/// The fast extension against the slow one: the messages and both halves, for the first trees and after a refill.
#[test]
fn extensions_are_those_of_the_reference() {
    let size = &small()[1];
    let (k, depth) = (size.base(), size.depth);
    let mut random = vesica_primitives::block::Prg::new(9);
    let mut blocks = |count: usize| {
        let mut blocks = Zeroizing::new(vec![0; count]);
        random.fill(&mut blocks);
        blocks
    };
    let delta = blocks(1)[0] | 1;
    let mut q = blocks(size.consumed());
    let mut t = blocks(size.consumed());
    for (q, t) in q.iter_mut().zip(t.iter_mut()) {
        *q &= !1;
        *t = *q ^ (delta * (*t & 1));
    }
    let choices: Vec<bool> = t.iter().map(|t| t & 1 == 1).collect();
    let mut sending = Extension::new(&SESSION, size, q.clone());
    let mut receiving = Extension::new(&SESSION, size, t.clone());
    let mut first = 0;
    for count in [1, 5, size.trees() - 6, 3] {
        if sending.left(0) == 0 {
            sending.renew(q.clone());
            receiving.renew(t.clone());
        }
        let roots = blocks(count);
        let used = first % size.trees() * depth;
        let cots = k + used..k + used + count * depth;
        let expected = reference::extension(
            &SESSION,
            delta,
            depth as u32,
            first as u64,
            &roots,
            (&q[..k], &choices[..k]),
            (&q[cots.clone()], &choices[cots]),
        );
        let mut script = Script(roots.iter().flat_map(|root| root.to_le_bytes()).collect());
        let mut tape = Tape::default();
        let mut out = vec![0; count * size.leaves()];
        let mut sender = parties::Sender {
            delta: Zeroizing::new(delta),
        };
        sender
            .grow(&sending.next(count), &mut tape, &mut script, &mut out)
            .unwrap();
        assert_eq!(out, expected.sender);
        let message: Vec<u8> = expected
            .messages
            .concat()
            .iter()
            .flat_map(|block| block.to_le_bytes())
            .collect();
        assert_eq!(tape.0[0], (TREES, message));
        parties::Receiver
            .grow(&receiving.next(count), &mut tape, &mut rng(0), &mut out)
            .unwrap();
        for ((t, q), x) in out.iter().zip(&expected.sender).zip(&expected.choices) {
            assert_eq!(*t, q ^ (delta * Block::from(*x)));
        }
        first += count;
    }
}

/// The receiver sends nothing after the setup, and the sender one message per tree.
#[test]
fn traffic_is_what_the_sizes_say() {
    let sizes = small();
    let (mut sender, mut receiver) = ends(sizes);
    let count = 10 * sizes[1].leaves();
    let (sent, received) = honest(
        |channel| {
            let mut recorder = Recorder::new(channel);
            sender.extend(&mut recorder, &mut rng(3), &mut vec![0; count])?;
            Ok(recorder.sent)
        },
        |channel| {
            let mut recorder = Recorder::new(channel);
            receiver.extend(&mut recorder, &mut rng(4), &mut vec![0; count])?;
            assert!(recorder.sent.is_empty());
            Ok(recorder.received)
        },
    );
    assert_eq!(sent, received);
    let bytes: usize = sent.iter().map(|(_, payload)| payload.len()).sum();
    assert_eq!(bytes, 10 * sizes[1].message());
}

/// Spoils the first frame after the setup, and says what the receiver thinks of it.
fn receiver_after(spoil: Spoil) -> (Receiver, Result<Vec<Block>, Error>) {
    let (mut sender, mut receiver) = ends(small());
    let (sending, receiving) = memory_pair();
    let sending: Tamper<FramedChannel> = Tamper::new(sending, 0, spoil);
    let (_, got) = try_both(
        (sending, receiving),
        |channel| sender.extend(channel, &mut rng(3), &mut [0; 80]),
        |channel| {
            let mut t = vec![0; 80];
            receiver.extend(channel, &mut rng(4), &mut t).map(|()| t)
        },
    );
    (receiver, got)
}

#[test]
fn wrong_messages_end_a_source_for_good() {
    let bytes = 10 * small()[1].message();
    let wrong = |bytes| Misbehaviour::WrongLength {
        what: TREES.name,
        bytes,
    };
    let long = Misbehaviour::TooLong {
        what: TREES.name,
        bytes: bytes as u64 + 1,
        max: bytes as u64,
    };
    for (spoil, expected) in [
        (Spoil::Truncate(1), wrong(bytes - 1)),
        (Spoil::Replace(Vec::new()), wrong(0)),
        (Spoil::Extend(vec![0]), long),
        (
            Spoil::Kind(MATRIX.code),
            Misbehaviour::UnexpectedFrame {
                expected: TREES.name,
                got: MATRIX.code,
            },
        ),
    ] {
        let (mut receiver, got) = receiver_after(spoil);
        assert_eq!(misbehaviour(got), expected);
        // Nothing is read any more.
        let again = receiver.extend(&mut Tape::default(), &mut rng(4), &mut [0; 1]);
        assert_eq!(misbehaviour(again), expected);
    }
    let (_, got) = receiver_after(Spoil::Close);
    assert!(got.is_err());
}

#[test]
fn a_sender_without_a_peer_is_dead() {
    let (mut sender, _) = ends(small());
    let (mut channel, peer) = memory_pair();
    drop(peer);
    let failed = (0..1000).any(|_| {
        let result = sender.extend(&mut channel, &mut rng(3), &mut [0; 80]);
        result.is_err()
    });
    assert!(failed);
    let again = sender.extend(&mut Tape::default(), &mut rng(3), &mut [0; 1]);
    assert!(again.is_err());
}

/// A wrong bit in a message gives wrong COTs; nothing else can happen without a check.
#[test]
fn flipped_bits_do_no_harm_but_to_the_cots() {
    for bit in [0, 130, 16 * 8 * 6, 3000] {
        let (_, got) = receiver_after(Spoil::FlipBit(bit));
        assert_eq!(got.unwrap().len(), 80);
    }
}

/// Frames of the OT extension are checked, with malicious security.
#[test]
fn cheating_in_the_base_is_found() {
    // The receiver's frames: the key of the base OTs, the matrix, its check.
    for (frame, kind) in [(1, MATRIX), (2, CHECK)] {
        let (sending, receiving) = memory_pair();
        let receiving = Tamper::new(receiving, frame, Spoil::FlipBit(7));
        let (sender, receiver) = ends_over(small(), (sending, receiving));
        let expected = Misbehaviour::BadValue {
            what: CHECK.name,
            problem: "not what the matrix leads to",
        };
        assert_eq!(misbehaviour(sender), expected, "{}", kind.name);
        drop(receiver);
    }
}

/// Different sizes are different sessions: the sender's check of the base fails. The receiver hears of it later.
#[test]
fn parties_with_different_sizes_fail() {
    let (sender, _) = try_both(
        memory_pair(),
        |channel| {
            Sender::with_sizes(
                channel,
                &SESSION,
                small(),
                KeyAgreement::Classical,
                &mut rng(1),
            )
        },
        |channel| {
            Receiver::with_sizes(
                channel,
                &SESSION,
                &small()[..1],
                KeyAgreement::Classical,
                &mut rng(2),
            )
        },
    );
    assert!(matches!(
        misbehaviour(sender),
        Misbehaviour::BadValue { .. } | Misbehaviour::WrongLength { .. }
    ));
}
