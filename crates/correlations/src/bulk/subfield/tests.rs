use std::collections::HashSet;

use super::*;
use crate::cot::Sender as _;
use crate::ideal::{self, CotReceiver, CotSender};
use crate::subfield::{Receiver as _, Sender as _};
use vesica_testing::{Recorder, Tape, chi_squared, honest, misbehaviour, rng, try_both};
use vesica_wire::{FramedChannel, Misbehaviour, Spoil, Tamper, memory_pair};

const SESSION: [u8; 32] = [5; 32];

/// Two sizes for each field that refill often and hide nothing.
static SMALL: [[Size; 2]; 2] = [
    [Size::new(3, 1, 3), Size::new(3, 2, 4)],
    [Size::new(4, 1, 3), Size::new(4, 2, 4)],
];

fn small(width: u32) -> &'static [Size] {
    let sizes = &SMALL[width as usize - 3];
    sizes
        .iter()
        .for_each(|size| assert_eq!(size.trees.get_or_init(|| 64), &64));
    sizes
}

type Ends<const W: u32> = (Sender<W, CotSender>, Receiver<W, CotReceiver>);

fn ends<const W: u32>(sizes: &'static [Size]) -> Ends<W> {
    let (cots, choices) = ideal::cots(5);
    honest(
        |channel| Sender::with_sizes(channel, &SESSION, sizes, cots, &mut rng(1)),
        |channel| Receiver::with_sizes(channel, &SESSION, sizes, choices, &mut rng(2)),
    )
}

/// The next entries of both ends.
fn extend<const W: u32>((sender, receiver): &mut Ends<W>, count: usize) -> [Vec<Block>; 2] {
    let (y, z) = honest(
        |channel| {
            let mut y = vec![0; count];
            let made = sender.extend_entries(channel, &mut rng(3), &mut y);
            made.map(|()| y)
        },
        |channel| {
            let mut z = vec![0; count];
            let made = receiver.extend_entries(channel, &mut rng(4), &mut z);
            made.map(|()| z)
        },
    );
    [y, z]
}

fn assert_related<const W: u32>(delta: Block, y: &[Block], z: &[Block]) {
    assert_eq!(y.len(), z.len());
    let delta = delta & Subfield::<W>::ENTRY;
    for (y, z) in y.iter().zip(z) {
        assert_eq!(*y, Subfield::<W>::without_first(*y));
        let x = Subfield::<W>::first(*z);
        assert_eq!(y ^ z, Subfield::<W>::multiple(x, delta));
    }
}

fn any_calls<const W: u32>() {
    let patterns: [&[usize]; 4] = [
        &[0, 1, 7, 8, 9, 0, 1000],
        &[1; 300],
        &[5000, 3, 1, 255, 256, 257],
        &[1023, 1025, 1, 20_000],
    ];
    for count in 0..=2 {
        for pattern in patterns {
            let mut ends = ends::<W>(&small(W)[..count]);
            for length in pattern {
                let [y, z] = extend(&mut ends, *length);
                assert_related::<W>(ends.0.delta(), &y, &z);
            }
        }
    }
}

#[test]
fn entries_fit_in_any_sequence_of_calls() {
    any_calls::<3>();
    any_calls::<4>();
}

fn look_random<const W: u32>(optimize: Optimize) {
    let expected = 1 << 22;
    let (cots, choices) = ideal::cots(6);
    let mut ends: Ends<W> = honest(
        |channel| {
            let rng = &mut rng(1);
            Sender::setup(channel, &SESSION, SemiHonest, expected, optimize, cots, rng)
        },
        |channel| {
            let rng = &mut rng(2);
            Receiver::setup(
                channel, &SESSION, SemiHonest, expected, optimize, choices, rng,
            )
        },
    );
    let count = 1 << 18;
    let [y, z] = extend(&mut ends, count);
    assert_related::<W>(ends.0.delta(), &y, &z);
    let mut of_each = vec![0.0; Subfield::<W>::ORDER];
    z.iter()
        .for_each(|z| of_each[usize::from(Subfield::<W>::first(*z))] += 1.0);
    let mean = count as f64 / of_each.len() as f64;
    // 5 standard deviations, for each.
    assert!(
        of_each.iter().all(|x| (x - mean).abs() < 5.0 * mean.sqrt()),
        "{of_each:?}"
    );
    // 5 standard deviations of 22.6 around 255: bytes in which all bits are in use, without the first element's.
    let bytes: Vec<u8> = y.iter().map(|y| y.to_le_bytes()[1]).collect();
    assert!((142.0..368.0).contains(&chi_squared(bytes)));
    assert_eq!(y.iter().collect::<HashSet<_>>().len(), count);
}

#[test]
fn sizes_of_real_runs_fit_and_look_random() {
    look_random::<3>(Optimize::Time);
    look_random::<4>(Optimize::Time);
    look_random::<4>(Optimize::Traffic);
}

/// What an extension keeps for the next one is never given out, and what is given out never comes again.
#[test]
fn reserved_entries_stay_secret() {
    let mut ends = ends::<4>(small(4));
    let mut seen = HashSet::new();
    for _ in 0..2000 {
        let [y, _] = extend(&mut ends, 1);
        assert!(seen.insert(y[0]));
        let reserved = ends.0.0.reserved_cots().unwrap();
        assert!(reserved.iter().all(|y| !seen.contains(y)));
    }
}

/// The receiver sends nothing, and the sender one message per tree.
#[test]
fn traffic_is_what_the_sizes_say() {
    let size = &small(4)[1];
    let (mut sender, mut receiver) = ends::<4>(small(4));
    let count = 10 * size.leaves();
    let (sent, received) = honest(
        |channel| {
            let mut recorder = Recorder::new(channel);
            sender.extend_entries(&mut recorder, &mut rng(3), &mut vec![0; count])?;
            Ok(recorder.sent)
        },
        |channel| {
            let mut recorder = Recorder::new(channel);
            receiver.extend_entries(&mut recorder, &mut rng(4), &mut vec![0; count])?;
            assert!(recorder.sent.is_empty());
            Ok(recorder.received)
        },
    );
    assert_eq!(sent, received);
    let bytes: usize = sent.iter().map(|(_, payload)| payload.len()).sum();
    assert_eq!(bytes, 10 * 16 * (size.depth + 1));
}

/// Spoils the first frame after the setup, and says what the receiver makes of it.
fn receiver_after(spoil: Spoil) -> (Ends<4>, Result<[Vec<Block>; 2], Error>) {
    let (mut sender, mut receiver) = ends::<4>(small(4));
    let (sending, receiving) = memory_pair();
    let sending: Tamper<FramedChannel> = Tamper::new(sending, 0, spoil);
    let count = 10 * small(4)[1].leaves();
    let (y, z) = try_both(
        (sending, receiving),
        |channel| {
            let mut y = vec![0; count];
            let made = sender.extend_entries(channel, &mut rng(3), &mut y);
            made.map(|()| y)
        },
        |channel| {
            let mut z = vec![0; count];
            let made = receiver.extend_entries(channel, &mut rng(4), &mut z);
            made.map(|()| z)
        },
    );
    let got = z.map(|z| [y.unwrap_or_default(), z]);
    ((sender, receiver), got)
}

#[test]
fn wrong_messages_end_a_source_for_good() {
    let bytes = 10 * small(4)[1].message();
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
    ] {
        let ((_, mut receiver), got) = receiver_after(spoil);
        assert_eq!(misbehaviour(got), expected);
        // Nothing is read any more.
        let again = receiver.extend_entries(&mut Tape::default(), &mut rng(4), &mut [0; 1]);
        assert_eq!(misbehaviour(again), expected);
    }
    let (_, got) = receiver_after(Spoil::Close);
    assert!(got.is_err());
}

/// A wrong sum of leaves makes one entry of its tree wrong, as a wrong sum of a level makes some; nothing else can happen
/// without a check.
#[test]
fn flipped_bits_do_no_harm_but_to_the_entries() {
    let size = &small(4)[1];
    for (byte, wrong) in [(16 * size.depth + 3, 1..=1), (5, 1..=size.leaves())] {
        let ((sender, _), got) = receiver_after(Spoil::FlipBit(8 * byte + 1));
        let [y, z] = got.unwrap();
        let delta = sender.delta() & Subfield::<4>::ENTRY;
        let fits = |y: &Block, z: &Block| {
            y ^ z == Subfield::<4>::multiple(Subfield::<4>::first(*z), delta)
        };
        let unfit = y.iter().zip(&z).filter(|(y, z)| !fits(y, z)).count();
        assert!(wrong.contains(&unfit), "{unfit}");
    }
}

#[test]
fn a_sender_without_a_peer_is_dead() {
    let (mut sender, _) = ends::<4>(small(4));
    let (mut channel, peer) = memory_pair();
    drop(peer);
    let failed = (0..1000).any(|_| {
        let result = sender.extend_entries(&mut channel, &mut rng(3), &mut [0; 160]);
        result.is_err()
    });
    assert!(failed);
    let again = sender.extend_entries(&mut Tape::default(), &mut rng(3), &mut [0; 1]);
    assert!(again.is_err());
}
