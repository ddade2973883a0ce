use std::thread;
use vesica_primitives::security::KeyAgreement;

use super::*;
use crate::field::NineBytes;
use crate::lpn::{MAX_LEAVES, noise_weight};
use vesica_testing::{bad_value, misbehaviour, rng, too_long, try_both, wrong_length};
use vesica_wire::{FramedChannel, Misbehaviour, Spoil, Tamper, memory_pair};

const SESSION: [u8; 32] = [8; 32];

type Halves<N> = (Result<Sender<N>, Error>, Result<Receiver<N>, Error>);

fn setup_over<N: Noise>(
    security: Security,
    length: usize,
    sending: impl Channel,
    receiving: impl Channel,
) -> Halves<N> {
    try_both(
        (sending, receiving),
        |channel| {
            Sender::setup(
                channel,
                &SESSION,
                security,
                KeyAgreement::Classical,
                length,
                &mut rng(1),
            )
        },
        |channel| {
            Receiver::setup(
                channel,
                &SESSION,
                security,
                KeyAgreement::Classical,
                length,
                &mut rng(2),
            )
        },
    )
}

fn setup<N: Noise>(security: Security, length: usize) -> (Sender<N>, Receiver<N>) {
    let (sending, receiving) = memory_pair();
    let (sender, receiver) = setup_over(security, length, sending, receiving);
    (sender.unwrap(), receiver.unwrap())
}

fn fits<F: Field>(sender: &Sender<F>, receiver: &Receiver<F>) {
    let shape = *sender.shape();
    assert_eq!(shape, *receiver.shape());
    let mut entries = 0;
    for chunk in 0..shape.chunks {
        let n = shape.chunk_length(chunk);
        entries += n;
        let (mut a, mut b, mut c) = (vec![F::default(); n], vec![0; n], vec![0; n]);
        sender.expand(chunk, &mut b);
        receiver.expand(chunk, &mut a, &mut c);
        for i in 0..n {
            let product = multiply128(Backend::Best, sender.delta(), a[i].to_block());
            assert_eq!(c[i], product ^ b[i], "entry {i}");
        }
        // a looks random: no repetitions, and half of all bits set.
        let bytes: &[u8] = bytemuck::must_cast_slice(&a);
        let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        let mut sorted: Vec<Block> = a.iter().map(|a| a.to_block()).collect();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]));
        let (bits, ones) = ((n as u32 * F::BITS) as f64, f64::from(ones));
        assert!((ones - bits / 2.0).abs() <= 4.0 * bits.sqrt());
    }
    assert_eq!(entries, shape.length);
}

#[test]
fn correlations_satisfy_their_equation() {
    for security in [Security::SemiHonest, Security::Malicious] {
        for length in [0, 1, 5000] {
            let (sender, receiver) = setup::<u64>(security, length);
            fits(&sender, &receiver);
            let (sender, receiver) = setup::<u128>(security, length);
            fits(&sender, &receiver);
            let (sender, receiver) = setup::<NineBytes>(security, length);
            fits(&sender, &receiver);
        }
    }
}

#[test]
fn chunks_at_once_are_those_one_by_one() {
    let length = noise_weight(64, 2) / 2 * MAX_LEAVES + 1;
    let (sender, receiver) = setup::<u64>(Security::SemiHonest, length);
    let shape = *sender.shape();
    assert_eq!(shape.chunks, 2);
    let (mut a, mut b, mut c) = (vec![0; length], vec![0; length], vec![0; length]);
    sender.expand(0, &mut b);
    receiver.expand(0, &mut a, &mut c);
    let second = shape.chunk..length;
    let n = second.len();
    let (mut one_a, mut one_b, mut one_c) = (vec![0; n], vec![0; n], vec![0; n]);
    sender.expand(1, &mut one_b);
    receiver.expand(1, &mut one_a, &mut one_c);
    assert!(one_a == a[second.clone()] && one_b == b[second.clone()] && one_c == c[second]);
    for i in 0..length {
        let product = multiply128(Backend::Best, sender.delta(), a[i].into());
        assert_eq!(c[i], product ^ b[i], "entry {i}");
    }
}

#[test]
fn bits_are_the_lowest_of_the_receivers_blocks() {
    for security in [Security::SemiHonest, Security::Malicious] {
        let length = 6000;
        let (sender, receiver) = setup::<Bit>(security, length);
        let (mut b, mut c) = (vec![0; length], vec![0; length]);
        sender.expand(0, &mut b);
        receiver.expand(0, &mut c);
        let mut ones = 0;
        for (b, c) in b.iter().zip(&c) {
            let a = c & 1;
            ones += a;
            assert_eq!(b & 1, 0);
            assert_eq!(*c, b ^ (a * sender.delta()));
        }
        assert!((2700..3300).contains(&ones));
    }
}

/// Entries of the longest chunk over the large fields.
const LONGEST: usize = 273 * MAX_LEAVES;

#[test]
fn shapes_hold_their_length() {
    for length in [0, 1, 4096, 4097, 1 << 20, LONGEST, LONGEST + 1, 1 << 24] {
        for bits in [1, 64, 72, 128] {
            let shape = Shape::new(length, bits);
            let lengths: Vec<usize> = (0..shape.chunks).map(|i| shape.chunk_length(i)).collect();
            assert_eq!(lengths.iter().sum::<usize>(), length);
            assert!(lengths.iter().all(|n| *n <= shape.trees / 2 * shape.block));
            assert!(shape.block <= MAX_LEAVES && 1 << shape.depth >= shape.block);
        }
    }
}

/// Spoils frame number `frame` of the receiver: what the sender blames it for.
fn sender_finds(frame: usize, spoil: Spoil) -> Misbehaviour {
    let (sending, receiving) = memory_pair();
    let receiving: Tamper<FramedChannel> = Tamper::new(receiving, frame, spoil);
    let (sender, _) = setup_over::<u64>(Security::Malicious, 100, sending, receiving);
    misbehaviour(sender)
}

/// The same with the sender's frames and the receiver's word.
fn receiver_finds(frame: usize, spoil: Spoil) -> Misbehaviour {
    let (sending, receiving) = memory_pair();
    let sending: Tamper<FramedChannel> = Tamper::new(sending, frame, spoil);
    let (_, receiver) = setup_over::<u64>(Security::Malicious, 100, sending, receiving);
    misbehaviour(receiver)
}

fn inconsistent(kind: Kind) -> Misbehaviour {
    bad_value(kind.name, "the correlation is inconsistent")
}

#[test]
fn cheating_senders_are_found_out() {
    // What makes up for the hole of the first tree, and the value of the check.
    let depth = Shape::new(100, 64).depth;
    let hole = Spoil::FlipBit(2 * depth * 128 + 5);
    assert_eq!(receiver_finds(1, hole), inconsistent(CHECK));
    assert_eq!(receiver_finds(2, Spoil::FlipBit(77)), inconsistent(CHECK));
    let trees = 546 * 16 * (2 * depth + 1);
    let short = wrong_length("VOLE trees", trees - 16);
    assert_eq!(receiver_finds(1, Spoil::Truncate(16)), short);
    let replayed = too_long(CHECK.name, trees, 16);
    assert_eq!(receiver_finds(2, Spoil::ReplayPrevious), replayed);
}

#[test]
fn cheating_receivers_are_found_out() {
    let frames = [
        (1, "base VOLE sums", 128 * 32),
        (2, "base VOLE corrections", 546 * 15 * 8),
        (3, "base VOLE corrections", 15 * 16),
        (6, "VOLE combination", 48),
        (7, "VOLE opening", 48),
    ];
    for (frame, name, bytes) in frames {
        let short = wrong_length(name, bytes - 1);
        assert_eq!(sender_finds(frame, Spoil::Truncate(1)), short);
        let long = too_long(name, bytes + 1, bytes);
        assert_eq!(sender_finds(frame, Spoil::Extend(vec![0])), long);
    }
    for spoil in [Spoil::FlipBit(3), Spoil::ReplayPrevious] {
        let broken = bad_value(OPENING.name, "not what was committed to");
        assert_eq!(sender_finds(7, spoil), broken);
    }
}

/// A flipped bit in any message of a malicious setup ends it with the error that is named here, on the side that is;
/// the other side does not end well either. Bits of the first, a middle and the last byte, and of two more rows.
#[test]
fn flipped_bits_are_found() {
    use Finder::{Receiver, Sender};
    let transfers = (Sender, "transfer check", "not what the matrix leads to");
    let no_key = (Sender, "base-transfer key", "not a point of the curve");
    let check = (Receiver, "VOLE check", "the correlation is inconsistent");
    let opening = (Sender, "VOLE opening", "not what was committed to");
    let depth = Shape::new(100, 128).depth;
    let tree = 16 * (2 * depth + 1);
    // Of the receiver: the kind of frame, its bytes, and bytes with a flipped bit and what becomes of it.
    let of_receiver = [
        // Another public key, and then no base OT has a common key; or no public key, as half of all strings.
        (
            "base-transfer key",
            32,
            vec![(0, transfers), (16, no_key), (31, no_key)],
        ),
        // The sender looks at one sum of each pair only, but the challenge depends on both.
        (
            "base VOLE sums",
            128 * 32,
            vec![
                (0, check),
                (16, check),
                (2048, check),
                (4080, check),
                (4095, check),
            ],
        ),
        (
            "base VOLE corrections",
            546 * 15 * 16,
            vec![(0, check), (100_000, check), (546 * 15 * 16 - 1, check)],
        ),
        (
            "base VOLE corrections, of the check",
            15 * 16,
            vec![(0, check), (125, check), (239, check)],
        ),
        // Half of all columns do not count for the sender, rows without use among them.
        (
            "transfer matrix",
            (546 * depth).next_multiple_of(128) * 16 + 2048,
            (0..8)
                .map(|i| (i * 320, transfers))
                .chain([(36_863, transfers)])
                .collect(),
        ),
        (
            "transfer check",
            2064,
            vec![
                (0, transfers),
                (16, transfers),
                (1000, transfers),
                (2063, transfers),
            ],
        ),
        // The combination itself, then the commitment.
        (
            "VOLE combination",
            48,
            vec![
                (0, check),
                (15, check),
                (16, opening),
                (24, opening),
                (47, opening),
            ],
        ),
        (
            "VOLE opening",
            48,
            vec![(0, opening), (24, opening), (47, opening)],
        ),
    ];
    let of_sender = [
        // The extension comes first that takes keys of them.
        (
            "base-transfer functions",
            128 * 64,
            vec![(0, transfers), (64 * 64, transfers), (8191, transfers)],
        ),
        (
            "VOLE trees",
            546 * tree,
            vec![
                (0, check),
                (tree - 1, check),
                (273 * tree, check),
                (546 * tree - 1, check),
            ],
        ),
        ("VOLE check", 16, vec![(0, check), (8, check), (15, check)]),
    ];
    for (frame, (name, bytes, flips)) in of_receiver.into_iter().enumerate() {
        for (byte, (finder, what, problem)) in flips {
            let (sending, receiving) = memory_pair();
            let receiving = Tamper::new(receiving, frame, Spoil::FlipBit(8 * byte + 3));
            let halves = setup_over::<u128>(Security::Malicious, 100, sending, receiving);
            assert!(byte < bytes, "{name}");
            // The opening comes last, and the receiver has finished by then: its correlation is right.
            let finished = what == opening.1;
            let error = bad_value(what, problem);
            expect(
                halves,
                finder,
                error,
                finished,
                &format!("{name}, byte {byte}"),
            );
        }
    }
    for (frame, (name, bytes, flips)) in of_sender.into_iter().enumerate() {
        for (byte, (finder, what, problem)) in flips {
            let (sending, receiving) = memory_pair();
            let sending = Tamper::new(sending, frame, Spoil::FlipBit(8 * byte + 3));
            let halves = setup_over::<u128>(Security::Malicious, 100, sending, receiving);
            assert!(byte < bytes, "{name}");
            let error = bad_value(what, problem);
            expect(
                halves,
                finder,
                error,
                false,
                &format!("{name}, byte {byte}"),
            );
        }
    }
}

/// Who notices.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Finder {
    Sender,
    Receiver,
}

/// The finder's error is this one, and the other side fails too unless it had finished.
fn expect(
    (sender, receiver): Halves<u128>,
    finder: Finder,
    error: Misbehaviour,
    finished: bool,
    case: &str,
) {
    assert_eq!(
        receiver.is_ok(),
        finished && finder == Finder::Sender,
        "{case}"
    );
    let found = match finder {
        Finder::Sender => misbehaviour(sender),
        Finder::Receiver => {
            assert!(sender.is_err(), "{case}");
            misbehaviour(receiver)
        }
    };
    assert_eq!(found, error, "{case}");
}

/// The check of the trees covers the transfer matrix: with different ones on both sides nothing else differs, and the
/// check fails.
#[test]
fn the_check_depends_on_the_transfer_matrix() {
    let level = Security::Malicious;
    let (sender, receiver) = try_both(
        memory_pair(),
        |channel| {
            let mut unchecked = Sender::<u64>::begin(
                channel,
                &SESSION,
                level,
                KeyAgreement::Classical,
                100,
                &mut rng(1),
            )?;
            unchecked.matrices[0] ^= 1;
            unchecked.finish(channel)
        },
        |channel| {
            Receiver::<u64>::setup(
                channel,
                &SESSION,
                level,
                KeyAgreement::Classical,
                100,
                &mut rng(2),
            )
        },
    );
    assert!(sender.is_err());
    assert_eq!(misbehaviour(receiver), inconsistent(CHECK));
}

/// A receiver with inconsistent halves, who knows that the check fails and goes on all the same.
#[test]
fn a_receiver_that_commits_to_a_wrong_value_is_found_out() {
    let (sender, _) = setup::<u64>(Security::SemiHonest, 100);
    let sessions = Sessions::new(&SESSION, sender.shape(), 64);
    let transcript = Transcript::new(&sessions);
    let (mut sending, mut cheat) = memory_pair();
    let result = thread::scope(|scope| {
        let peer = scope.spawn(|| {
            let opening = [5; 48];
            let mut combination = [9; 48];
            combination[16..].copy_from_slice(&commitment(&sessions, &opening));
            send_rows(&mut cheat, COMBINATION, &combination, 48).unwrap();
            cheat.recv(CHECK, 16).unwrap();
            send_rows(&mut cheat, OPENING, &opening, 48).unwrap();
            cheat
        });
        let result = sender.check(&mut sending, &sessions, &transcript, 7);
        drop(peer.join());
        result
    });
    assert_eq!(misbehaviour(result), inconsistent(OPENING));
}
