use std::collections::HashSet;

use super::super::extension::Extension;
use super::*;
use crate::cot::Sender as _;
use crate::ideal::{self, CotReceiver, CotSender};
use crate::subfield::{Receiver as _, Sender as _};
use vesica_reference::bulk as reference;
use vesica_testing::{Recorder, Script, Tape, chi_squared, honest, misbehaviour, rng, try_both};
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
    let stray = Misbehaviour::BadValue {
        what: TREES.name,
        problem: "a sum of leaves is none",
    };
    let sum = 8 * 16 * small(4)[1].depth;
    for (spoil, expected) in [
        (Spoil::FlipBit(sum), stray),
        (Spoil::Truncate(1), wrong(bytes - 1)),
        (Spoil::Replace(Vec::new()), wrong(0)),
        (Spoil::Extend(vec![0]), long),
    ] {
        let ((_, mut receiver), got) = receiver_after(spoil);
        assert_eq!(misbehaviour(got), expected);
        // Nothing is read any more.
        let again = receiver.extend_entries(&mut Tape::default(), &mut rng(4), &mut [0; 1]);
        assert_eq!(misbehaviour(again), expected);
        let cots =
            cot::Receiver::extend(&mut receiver, &mut Tape::default(), &mut rng(4), &mut [0]);
        assert_eq!(misbehaviour(cots), expected);
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

/// A source of COTs that were chosen before.
struct Fixed {
    delta: Block,
    cots: Vec<Block>,
}

impl Fixed {
    fn take(&mut self, out: &mut [Block]) {
        let rest = self.cots.split_off(out.len());
        out.copy_from_slice(&self.cots);
        self.cots = rest;
    }
}

impl cot::Sender for Fixed {
    fn delta(&self) -> Block {
        self.delta
    }

    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        self.take(q);
        Ok(())
    }
}

impl cot::Receiver for Fixed {
    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        self.take(t);
        Ok(())
    }
}

/// What one party's values and the other's factors lead to: value + factor·Δ.
fn with_multiples<const W: u32>(delta: Block, values: &[Block], factors: &[u8]) -> Vec<Block> {
    let delta = delta & Subfield::<W>::ENTRY;
    let both = values.iter().zip(factors);
    both.map(|(value, factor)| value ^ Subfield::<W>::multiple(*factor, delta))
        .collect()
}

/// All that an extension is made of: the sender's blocks, and the receiver's elements and bits.
struct Inputs {
    delta: Block,
    roots: Vec<Block>,
    entries: (Vec<Block>, Vec<u8>),
    cots: (Vec<Block>, Vec<bool>),
}

/// Both parties in an extension.
struct Both<const W: u32> {
    sending: Extension,
    sender: SendingParty<W, Fixed>,
    receiving: Extension,
    receiver: ReceivingParty<W, Fixed>,
}

impl<const W: u32> Both<W> {
    fn new(session: &[u8; 32], size: &'static Size, inputs: &Inputs) -> Self {
        let (delta, (y, x), (q, choices)) = (inputs.delta, &inputs.entries, &inputs.cots);
        let t = q.iter().zip(choices);
        let t = t.map(|(q, choice)| q ^ (delta * Block::from(*choice)));
        let extension =
            |entries: Vec<Block>| Extension::new(session, size, Zeroizing::new(entries));
        let fixed = |cots| FromCots::new(Fixed { delta, cots });
        Both {
            sending: extension(y.clone()),
            sender: SendingParty(fixed(q.clone())),
            receiving: extension(with_multiples::<W>(delta, y, x)),
            receiver: ReceivingParty(fixed(t.collect())),
        }
    }

    /// The next extension of the same source, which is `other` by itself.
    fn renewed(mut self, other: Self) -> Self {
        let cots = |extension: &Extension| Zeroizing::new(extension.cots().to_vec());
        self.sending.renew(cots(&other.sending));
        self.receiving.renew(cots(&other.receiving));
        Both {
            sending: self.sending,
            receiving: self.receiving,
            ..other
        }
    }

    /// The next trees: the message, and what each party has.
    fn grow(&mut self, roots: &[Block]) -> (Vec<u8>, Vec<Block>, Vec<Block>) {
        let count = roots.len();
        let mut script = Script(roots.iter().flat_map(|root| root.to_le_bytes()).collect());
        let mut tape = Tape::default();
        let mut y = vec![0; count * self.sending.size.leaves()];
        let mut z = y.clone();
        let batch = self.sending.next(count);
        let sent = self.sender.grow(&batch, &mut tape, &mut script, &mut y);
        sent.unwrap();
        let message = tape.0[0].1.clone();
        let batch = self.receiving.next(count);
        let received = self.receiver.grow(&batch, &mut tape, &mut rng(0), &mut z);
        received.unwrap();
        (message, y, z)
    }
}

/// The fast extension against the slow one: the messages and both halves, for the first trees and after a refill.
fn follows_the_reference<const W: u32>() {
    let size = &small(W)[1];
    let (k, depth, trees) = (size.base(), size.depth, size.trees());
    let mut random = vesica_primitives::block::Prg::new(9);
    let mut blocks = |count: usize| {
        let mut blocks = vec![0; count];
        random.fill(&mut blocks);
        blocks.into_iter()
    };
    let delta = blocks(1).sum::<Block>() | 1;
    let mut last: Option<Both<W>> = None;
    for (number, counts) in [vec![1, 5, trees - 6], vec![3]].iter().enumerate() {
        let y = blocks(k + trees).map(Subfield::<W>::without_first);
        let x = blocks(k + trees).map(|x| x as u8 % Subfield::<W>::ORDER as u8);
        let inputs = Inputs {
            delta,
            roots: blocks(trees).collect(),
            entries: y.zip(x).unzip(),
            cots: blocks(trees * depth).map(|q| (q & !1, q & 2 == 2)).unzip(),
        };
        let mut both = Both::new(&SESSION, size, &inputs);
        if let Some(last) = last {
            both = last.renewed(both);
        }
        let mut done = 0;
        for count in counts {
            let (own, end) = (done..done + count, done + count);
            let (entries, cots) = (k + done..k + end, done * depth..end * depth);
            let expected = reference::entries(
                &SESSION,
                W,
                delta,
                depth as u32,
                (number * trees + done) as u64,
                &inputs.roots[own.clone()],
                (&inputs.entries.0[..k], &inputs.entries.1[..k]),
                (
                    &inputs.entries.0[entries.clone()],
                    &inputs.entries.1[entries],
                ),
                (&inputs.cots.0[cots.clone()], &inputs.cots.1[cots]),
            );
            let (message, y, z) = both.grow(&inputs.roots[own]);
            assert_eq!(y, expected.sender);
            assert_eq!(z, with_multiples::<W>(delta, &y, &expected.elements));
            let blocks = expected.messages.concat();
            let bytes: Vec<u8> = blocks.iter().flat_map(|b| b.to_le_bytes()).collect();
            assert_eq!(message, bytes);
            done = end;
        }
        last = Some(both);
    }
}

#[test]
fn extensions_are_those_of_the_reference() {
    follows_the_reference::<3>();
    follows_the_reference::<4>();
}

fn is_the_published_vector<const W: u32>(size: &'static Size) {
    let text = include_str!("../../../../../vectors/entries.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let case = &vectors["cases"][W as usize - 3];
    assert_eq!(case["width"], W);
    let value = |name: &str, i: usize| -> Block {
        let digest = blake3::hash(format!("{name} {i}").as_bytes());
        bytemuck::pod_read_unaligned(&digest.as_bytes()[..16])
    };
    let sender = |name, i| Subfield::<W>::without_first(value(name, i));
    let receiver = |name, i| value(name, i) as u8 % Subfield::<W>::ORDER as u8;
    let inputs = Inputs {
        delta: value("delta", 0) | 1,
        roots: vec![value("root", 0), value("root", 1)],
        entries: (0..20)
            .map(|i| (sender("base", i), receiver("element", i)))
            .chain((0..64).map(|i| (sender("entry", i), receiver("noise", i))))
            .unzip(),
        cots: (0..6)
            .map(|i| (value("cot", i) & !1, value("choice", i) & 1 == 1))
            .unzip(),
    };
    let session = *blake3::hash(b"session").as_bytes();
    let (message, y, z) = Both::<W>::new(&session, size, &inputs).grow(&inputs.roots);
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
    let x: Vec<u8> = z.iter().map(|z| Subfield::<W>::first(*z)).collect();
    assert_related::<W>(inputs.delta, &y, &z);
    assert_eq!(hex(&message), case["message"]);
    let y: Vec<u8> = y.iter().flat_map(|y| y.to_le_bytes()).collect();
    assert_eq!(hex(&y), case["y"]);
    assert_eq!(hex(&x), case["x"]);
}

#[test]
fn published_vectors() {
    is_the_published_vector::<3>(&small(3)[0]);
    is_the_published_vector::<4>(&small(4)[0]);
}
