use super::bits::{Gaps, LONG, Reader, Writer};
use super::*;
use crate::{Params, Security, indices_vartime};
use proptest::prelude::*;
use rand_core::Rng;
use std::collections::{BTreeSet, VecDeque};
use std::iter;
use vesica_oprf::Outputs;
use vesica_oprf::compact_dh::CompactDh;
use vesica_oprf::dh::Dh;
use vesica_oprf::kkrt::Kkrt;
use vesica_oprf::vole::Vole;
use vesica_primitives::security::KeyAgreement;
use vesica_testing::{Tape, items, misbehaviour, rng};
use vesica_wire::{MAX_FRAME, Misbehaviour};

fn random<const W: usize>(count: usize, seed: u64) -> Vec<[u64; W]> {
    let mut rng = rng(seed);
    (0..count)
        .map(|_| std::array::from_fn(|_| rng.next_u64()))
        .collect()
}

fn sent<const W: usize>(masks: &[[u64; W]], width: usize) -> Tape {
    let exchange = Exchange {
        width,
        sender_size: masks.len(),
        masks_per_item: 1,
        receiver_size: 0,
        both: false,
    };
    let mut tape = Tape::default();
    assert_eq!(exchange.send(&mut tape, masks).unwrap(), None);
    tape
}

fn decoded<const W: usize>(tape: Tape, count: usize, width: usize) -> Vec<[u64; W]> {
    let code = Code::new(width, count);
    let mut out = vec![[0; W]; count];
    let frames = tape.0.len();
    for (chunk, (_, frame)) in out.chunks_mut(code.per_frame()).zip(tape.0) {
        let mut decoder = Decoder::new(&code, frame, chunk.len());
        assert_eq!(decoder.read(chunk).unwrap(), chunk.len());
    }
    assert_eq!(frames, count.div_ceil(code.per_frame()));
    out
}

fn sorted<const W: usize>(masks: &[[u64; W]], width: usize) -> Vec<[u64; W]> {
    let mut sorted: Vec<_> = masks.iter().map(|m| shortened(m, width)).collect();
    sorted.sort_unstable();
    sorted
}

fn inverts<const W: usize>(masks: &[[u64; W]], width: usize) {
    let back = decoded(sent(masks, width), masks.len(), width);
    assert_eq!(back, sorted(masks, width), "{width} bits");
}

/// The receiver's answer, then what the sender makes of it.
fn exchanged<const W: usize>(
    own: &[[u64; W]],
    theirs: &[[u64; W]],
    width: usize,
) -> (Vec<u32>, Vec<u32>) {
    let exchange = Exchange {
        width,
        sender_size: theirs.len(),
        masks_per_item: 1,
        receiver_size: own.len(),
        both: true,
    };
    let mut tape = sent(theirs, width);
    let matches = exchange.receive(&mut tape, own).unwrap();
    assert!(tape.0.iter().all(|(kind, _)| *kind == MATCHED));
    // The answer is ahead of what is sent again.
    let told = exchange.send(&mut tape, theirs).unwrap().unwrap();
    assert_eq!((matches.len(), told.len()), (own.len(), theirs.len()));
    (indices_vartime(&matches), indices_vartime(&told))
}

/// An exchange of three masks for each of the sender's items, of which `common` are also the receiver's; what
/// each side is told.
fn exchanged_several(
    ours: &[Item],
    theirs: &[Item],
    common: usize,
    spoil: impl FnOnce(&mut Tape),
) -> (Vec<u32>, Result<Vec<u32>, Error>) {
    assert_eq!(ours[..common], theirs[..common]);
    let exchange = Exchange {
        width: 82,
        sender_size: theirs.len(),
        masks_per_item: 3,
        receiver_size: ours.len(),
        both: true,
    };
    let session = [1; 32];
    // The mask of an item that both have is any of the three, and masks come in any order.
    let masks = random::<2>(3 * theirs.len(), 20);
    let mut own = random::<2>(ours.len(), 21);
    for (i, own) in own[..common].iter_mut().enumerate() {
        *own = masks[3 * i + i % 3];
    }
    own.reverse();
    let numbers: Vec<u32> = (0..ours.len() as u32).rev().collect();
    let mut tape = Tape::default();
    let alone = Exchange {
        both: false,
        ..exchange
    };
    let sent = alone.send_several(&mut tape, &session, theirs, masks.clone(), None);
    assert_eq!(sent.unwrap(), None);
    let matches = exchange
        .receive_several(&mut tape, &session, ours, &own, &numbers, None)
        .unwrap();
    assert!(tape.0.iter().all(|(kind, _)| *kind == NAMES));
    spoil(&mut tape);
    let told = exchange.send_several(&mut tape, &session, theirs, masks, None);
    let told = told.map(|told| indices_vartime(&told.unwrap()));
    (indices_vartime(&matches), told)
}

#[test]
fn several_masks_per_item_match_and_items_are_told() {
    let shared = items(22, 40_000);
    for (n, m, common) in [
        (0, 0, 0),
        (0, 4, 0),
        (5, 0, 0),
        (50, 90, 20),
        (7, 7, 7),
        (50_000, 41_000, 40_000),
    ] {
        let with = |count: usize, seed| {
            let mut all = shared[..common].to_vec();
            all.extend(items(seed, count - common));
            all
        };
        let (ours, theirs) = (with(n, 23), with(m, 24));
        let (matches, told) = exchanged_several(&ours, &theirs, common, |_| ());
        let expected: Vec<u32> = (0..common as u32).collect();
        assert_eq!(matches, expected);
        assert_eq!(told.unwrap(), expected);
    }
}

/// What an exchange of labels of `bytes` bytes leaves: whether each item of the receiver matched, and the labels. The
/// first `common` outputs of both sides are the same, and `spoil` changes what is sent.
fn labelled(
    sizes: [usize; 2],
    common: usize,
    bytes: usize,
    spoil: impl FnOnce(&mut Tape),
) -> Result<(Vec<bool>, Vec<u8>), Error> {
    let session = [3; 32];
    let side = |count: usize, seed| {
        let mut side = (items(30, common), random::<2>(common, 31));
        side.0.extend(items(seed, count - common));
        side.1.extend(random::<2>(count - common, seed));
        let numbers = (0..count as u32).collect();
        let values = side.1;
        (side.0, Outputs::Short { values, numbers })
    };
    let ((ours, own), (theirs, outputs)) = (side(sizes[0], 32), side(sizes[1], 33));
    let labels: Vec<u8> = (0..theirs.len() * bytes)
        .map(|i| label_byte(i, bytes))
        .collect();
    let exchange = Exchange {
        width: 128,
        sender_size: theirs.len(),
        masks_per_item: 1,
        receiver_size: ours.len(),
        both: false,
    };
    let mut tape = Tape::default();
    let sealing = Sealing::new(&session, &theirs, &outputs, &labels, bytes);
    let (masks, _) = labels::masks(&session, &theirs, &outputs).into_short();
    exchange.send_labelled(&mut tape, &masks, Some(&sealing))?;
    spoil(&mut tape);
    let (masks, _) = labels::masks(&session, &ours, &own).into_short();
    let mut opening = Opening::new(&session, &ours, &own, bytes);
    let matched = exchange.receive_labelled(&mut tape, &masks, Some(&mut opening))?;
    assert!(tape.0.is_empty());
    let labels = opening.of(&matched).to_vec();
    Ok((matched, labels))
}

/// Byte `i` of all labels, which is never zero.
fn label_byte(i: usize, bytes: usize) -> u8 {
    ((i / bytes * 7 + i % bytes) % 255) as u8 + 1
}

#[test]
fn labels_of_matches_arrive_and_others_are_zeros() {
    for (sizes, common, bytes) in [
        ([0, 0], 0, 5),
        ([3, 0], 0, 5),
        ([0, 3], 0, 5),
        ([1, 1], 1, 1),
        ([1, 1], 0, 1),
        ([40, 90], 20, 65),
        ([60_000, 70_000], 50_000, 24),
        ([9, 5], 4, MAX_FRAME),
    ] {
        let (matched, labels) = labelled(sizes, common, bytes, |_| ()).unwrap();
        let expected: Vec<bool> = (0..sizes[0]).map(|i| i < common).collect();
        assert_eq!(matched, expected);
        let (found, rest) = labels.split_at(common * bytes);
        let right = |(i, byte): (usize, &u8)| *byte == label_byte(i, bytes);
        assert!(found.iter().enumerate().all(right), "{sizes:?} {bytes}");
        assert!(rest.iter().all(|byte| *byte == 0));
    }
}

/// Every frame of labels has the one length that it can have; what is in it is the sender's to choose.
#[test]
fn labels_of_a_wrong_length_are_refused() {
    let at = |tape: &Tape| tape.0.iter().position(|(kind, _)| *kind == LABELS).unwrap();
    let shorter = |tape: &mut Tape| {
        let frame = at(tape);
        tape.0[frame].1.pop();
    };
    let wrong = Misbehaviour::WrongLength {
        what: "labels",
        bytes: 159,
    };
    assert_eq!(misbehaviour(labelled([10, 20], 5, 8, shorter)), wrong);
    let other = |tape: &mut Tape| {
        let frame = at(tape);
        tape.0[frame].1.fill(9);
    };
    let (matched, labels) = labelled([10, 20], 5, 8, other).unwrap();
    assert_eq!(matched, [[true; 5], [false; 5]].concat());
    assert_eq!(labels[40..], [0; 40]);
}

/// Masks and labels of a run with labels say nothing of the outputs and items that the receiver does not have: they
/// change altogether with either of these.
#[test]
fn masks_and_labels_depend_on_the_output_and_on_the_item() {
    let (session, ours) = ([3; 32], items(40, 2));
    let sealed = |value: [u64; 2], item: Item| {
        let (items, outputs) = (
            [item],
            Outputs::Short {
                values: vec![value],
                numbers: vec![0],
            },
        );
        let mut tape = Tape::default();
        let masks = labels::masks(&session, &items, &outputs).into_short().0;
        let mut order = Order::new(&masks, 128);
        order.sort_until(1);
        let sealing = Sealing::new(&session, &items, &outputs, &[0; 16], 16);
        sealing.send(&mut tape, &order).unwrap();
        (masks[0], tape.0[0].1.clone())
    };
    let (mask, stream) = sealed([1, 2], ours[0]);
    assert_ne!(mask, [1, 2]);
    assert_ne!(
        stream,
        [mask[0].to_be_bytes(), mask[1].to_be_bytes()].concat()
    );
    for other in [sealed([1, 3], ours[0]), sealed([1, 2], ours[1])] {
        assert!(other.0 != mask && other.1 != stream);
    }
}

proptest! {
    /// Whatever the masks are: the rank of an own mask is the number of masks below it, or the last position.
    #[test]
    fn ranks_count_the_masks_below(own: Vec<u8>, mut theirs: Vec<u8>, frame in 1usize..6) {
        theirs.sort_unstable();
        let wide = |v: &[u8]| v.iter().map(|b| [u64::from(*b) << 56]).collect::<Vec<_>>();
        let (code, own) = (Code::new(8, theirs.len()), wide(&own));
        let mut order = Order::new(&own, 8);
        order.sort_until(own.len());
        let mut found = Found::new(own.len());
        found.ranks = Some(Vec::new());
        for theirs in theirs.chunks(frame) {
            let theirs = wide(theirs);
            let mut sorted = Order::new(&theirs, 8);
            sorted.sort_until(theirs.len());
            let frame = Decoder::new(&code, code.encode(sorted.entries()), theirs.len());
            found.take(&code, hits(frame, &order, true).unwrap()).unwrap();
        }
        let ranks = found.ranks.unwrap();
        let below = |mask: u64| theirs.iter().filter(|b| u64::from(**b) << 56 < mask).count();
        let above_none = |mask: u64| below(mask) < theirs.len();
        for (i, (mask, _)) in order.entries().iter().enumerate() {
            match ranks.get(i) {
                Some(rank) => prop_assert_eq!(*rank as usize, below(mask[0])),
                None => prop_assert!(!above_none(mask[0])),
            }
        }
    }
}

/// What is told depends on the items that match, and not on which of their masks did.
#[test]
fn names_do_not_tell_the_place() {
    let shared = items(25, 300);
    let told = |rest| {
        // As many names are sent as the sender has items.
        let ours = [&shared[..], &items(26, rest)].concat();
        let mut frames = Vec::<(Kind, Vec<u8>)>::new();
        let theirs = [&shared[..], &items(27, 10)].concat();
        let keep = |tape: &mut Tape| frames = tape.0.iter().cloned().collect();
        assert_eq!(exchanged_several(&ours, &theirs, 300, keep).0.len(), 300);
        frames
    };
    assert_eq!(told(10), told(500));
}

#[test]
fn malformed_names_are_refused() {
    let (ours, theirs) = (items(28, 60), items(28, 59));
    let said =
        |spoil: &dyn Fn(&mut Tape)| misbehaviour(exchanged_several(&ours, &theirs, 50, spoil).1);
    let bad = |problem| Misbehaviour::BadValue {
        what: "matched names",
        problem,
    };
    let wrong = |bytes| Misbehaviour::WrongLength {
        what: "matched names",
        bytes,
    };
    // 59 names of 82 bits, and two bits of padding.
    for bytes in [0, 3, 604] {
        assert_eq!(said(&|tape| tape.0[0].1.resize(bytes, 0)), wrong(bytes));
    }
    let padded = |tape: &mut Tape| tape.0[0].1[604] |= 0x80;
    assert_eq!(said(&padded), bad("padding that is not zero"));
    let nobody_first = |tape: &mut Tape| tape.0[0].1[..11].fill(255);
    assert_eq!(said(&nobody_first), bad("out of order"));
}

/// Names of others, or twice of one, tell nothing to who sends them.
#[test]
fn names_of_others_are_passed_over() {
    let (ours, theirs) = (items(28, 60), items(28, 60));
    let with = |names: &[[u64; 2]]| {
        let spoil = |tape: &mut Tape| {
            let mut names = names.to_vec();
            names.resize(60, [u64::MAX; 2]);
            let mut order = Order::new(&names, 82);
            order.sort_until(60);
            tape.0[0].1 = Code::in_full(NAMES, 82).encode(order.entries());
        };
        exchanged_several(&ours, &theirs, 50, spoil).1.unwrap()
    };
    assert_eq!(with(&[]), Vec::<u32>::new());
    assert_eq!(with(&[[5, 6]]), Vec::<u32>::new());
    let own = names::names(&[1; 32], &theirs[..2]);
    assert_eq!(with(&[own[0], own[0]]), vec![0]);
    assert_eq!(with(&[own[0], own[1], [7, 8]]), vec![0, 1]);
}

/// The lengths of the frames by which the receiver tells the matches.
fn lengths(tape: &Tape) -> Vec<usize> {
    tape.0.iter().map(|(_, frame)| frame.len()).collect()
}

/// What is told has one length whatever matches, the one that is said beforehand.
#[test]
fn what_is_told_is_as_long_for_none_as_for_all() {
    let sizes = [
        [0, 0],
        [0, 9],
        [9, 0],
        [1, 1],
        [1, 5000],
        [5000, 1],
        [300, 300],
    ];
    for [receiver_size, sender_size] in sizes {
        let both = usize::min(receiver_size, sender_size);
        let side = |count: usize, common: usize, seed| {
            let mut side = (items(50, common), random::<2>(common, 51));
            side.0.extend(items(seed, count - common));
            side.1.extend(random::<2>(count - common, seed));
            side
        };
        for masks_per_item in [1, 3] {
            let exchange = Exchange {
                width: 90,
                sender_size,
                masks_per_item,
                receiver_size,
                both: true,
            };
            for common in BTreeSet::from([0, both.min(1), both / 2, both]) {
                let (ours, own) = side(receiver_size, common, 52);
                let (_, masks) = side(sender_size, common, 53);
                let mut tape = Tape::default();
                let numbers: Vec<u32> = (0..receiver_size as u32).collect();
                let found = match masks_per_item {
                    1 => {
                        drop(exchange.send_masks(&mut tape, &masks, None).unwrap());
                        exchange.receive(&mut tape, &own).unwrap()
                    }
                    _ => {
                        let several = [&masks[..], &random(2 * sender_size, 54)].concat();
                        drop(exchange.send_masks(&mut tape, &several, None).unwrap());
                        exchange
                            .receive_several(&mut tape, &[1; 32], &ours, &own, &numbers, None)
                            .unwrap()
                    }
                };
                assert_eq!(found.iter().filter(|found| **found).count(), common);
                let told = Frames {
                    payload: lengths(&tape).iter().sum::<usize>() as u64,
                    count: tape.0.len() as u64,
                };
                assert_eq!(told, exchange.told(), "{exchange:?} {common}");
            }
        }
    }
}

/// A sender that has the receiver find more matches than there can be, as only a dishonest one does.
#[test]
fn more_matches_than_there_can_be_are_left_out() {
    let (ours, session) = (items(55, 9), [1; 32]);
    let own = random::<2>(9, 56);
    let exchange = Exchange {
        width: 90,
        sender_size: 3,
        masks_per_item: 3,
        receiver_size: 9,
        both: true,
    };
    let mut tape = Tape::default();
    drop(exchange.send_masks(&mut tape, &own, None).unwrap());
    let numbers: Vec<u32> = (0..9).collect();
    let found = exchange.receive_several(&mut tape, &session, &ours, &own, &numbers, None);
    assert_eq!(found.unwrap(), [true; 9]);
    assert_eq!(lengths(&tape), [(3 * 90_usize).div_ceil(8)]);
    let told = names::receive(&exchange, &mut tape, &session, &ours[..3]).unwrap();
    let mut names: Vec<_> = names::names(&session, &ours).into_iter().zip(0..).collect();
    names.sort_unstable();
    let first: Vec<i32> = names[..3].iter().map(|(_, i)| *i).collect();
    assert_eq!(told, [0, 1, 2].map(|i| first.contains(&i)));
}

/// Indices of the masks that the other side holds; of equal ones all, or only one.
fn plain<const W: usize>(ours: &[[u64; W]], theirs: &[[u64; W]], width: usize) -> Vec<u32> {
    let theirs: BTreeSet<_> = theirs.iter().map(|m| shortened(m, width)).collect();
    (0..ours.len() as u32)
        .filter(|i| theirs.contains(&shortened(&ours[*i as usize], width)))
        .collect()
}

fn values<const W: usize>(ours: &[[u64; W]], indices: &[u32], width: usize) -> Vec<[u64; W]> {
    indices
        .iter()
        .map(|i| shortened(&ours[*i as usize], width))
        .collect()
}

fn check_match<const W: usize>(own: &[[u64; W]], theirs: &[[u64; W]], width: usize) {
    let (matches, told) = exchanged(own, theirs, width);
    assert_eq!(matches, plain(own, theirs, width));
    assert!(told.is_sorted_by(|a, b| a < b));
    // Every value that matched, once.
    let told: Vec<_> = sorted(&values(theirs, &told, width), width);
    let expected: BTreeSet<_> = values(own, &matches, width).into_iter().collect();
    assert_eq!(told, expected.into_iter().collect::<Vec<_>>());
}

fn params(security: Security, lambda: u32, receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security,
        lambda,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [0; 32],
    }
}

/// RT21, table 1: bits per item of the semi-honest variants, less the 256 of the polynomial, and one for masks' share of
/// 2^-λ.
#[test]
fn widths_match_the_published_table() {
    for (log, bits) in [
        (8, 312),
        (9, 314),
        (10, 316),
        (12, 320),
        (16, 328),
        (20, 336),
    ] {
        let p = params(Security::SemiHonest, 40, 1 << log, 1 << log);
        assert_eq!(width::<CompactDh>(&p), bits - 256 + 1);
    }
    let malicious = params(Security::Malicious, 40, 5, 5);
    assert_eq!(width::<CompactDh>(&malicious), 256);
    assert_eq!(width::<Vole>(&malicious), 128);
    let semi_honest = |lambda, n, m| params(Security::SemiHonest, lambda, n, m);
    assert_eq!(width::<Dh>(&semi_honest(64, 0, 0)), 65);
    assert_eq!(width::<Dh>(&semi_honest(40, 3, 5)), 45);
    // Three masks per item, and four events.
    assert_eq!(width::<Kkrt>(&semi_honest(40, 3, 5)), 48);
    assert_eq!(width::<Kkrt>(&semi_honest(40, 1 << 20, 1 << 20)), 84);
}

#[test]
fn coding_inverts_at_every_width() {
    for width in 1..=256 {
        for count in [0, 1, 2, 3, 50, 700] {
            inverts::<4>(&random(count, width as u64), width);
        }
        if width <= 64 {
            inverts::<1>(&random(300, 1), width);
        }
        if width <= 128 {
            inverts::<2>(&random(300, 2), width);
        }
    }
}

/// More masks than one frame or one part holds, and in several batches.
#[test]
fn coding_inverts_in_several_frames() {
    for width in [41, 80, 128] {
        let count = 3 * Code::new(width, 1 << 18).per_frame() + 17;
        inverts::<2>(&random(count, 3), width);
    }
}

/// The order is right for masks that are not uniform, too.
#[test]
fn skewed_masks_are_sorted() {
    let mut rng = rng(4);
    for shift in [1, 20, 50, 60, 63] {
        let masks: Vec<[u64; 2]> = (0..5000)
            .map(|_| [rng.next_u64() >> shift, rng.next_u64() >> 62 << 62])
            .collect();
        inverts(&masks, 128);
        inverts(&masks, 65);
    }
    inverts(&vec![[u64::MAX; 4]; 3000], 256);
    inverts(&vec![[0; 4]; 3000], 256);
    inverts(&[[u64::MAX; 4], [0; 4]], 256);
}

#[test]
fn bits_a_mask_are_near_the_entropy() {
    // log₂ n! by summing.
    let log_factorial = |n: usize| (1..=n).map(|i| (i as f64).log2()).sum::<f64>();
    for width in [30, 64, 80, 128, 256] {
        for count in [1 << 12, 3 << 11, 5 << 10] {
            let tape = sent::<4>(&random(count, 5), width);
            let bits: usize = tape.0.iter().map(|(_, frame)| 8 * frame.len()).sum();
            // Of n ordered masks n!·C(2^w, n), all but equally likely, 2^(w·n) are there.
            let entropy = (width * count) as f64 - log_factorial(count);
            let excess = (bits as f64 - entropy) / count as f64;
            assert!((0.0..0.15).contains(&excess), "{width} {count} {excess}");
        }
    }
}

#[test]
fn matches_are_the_intersection() {
    let shared = random::<2>(300, 6);
    for (n, m) in [(0, 0), (0, 9), (9, 0), (1, 4000), (4000, 1), (700, 2000)] {
        let mut own = random::<2>(n, 7);
        let mut theirs = random::<2>(m, 8);
        own.extend_from_slice(&shared);
        theirs.splice(m / 2..m / 2, shared.iter().copied());
        for width in [70, 128] {
            check_match(&own, &theirs, width);
            check_match(&own[..n], &theirs, width);
            check_match(&own, &theirs[..m / 2], width);
        }
    }
    // All of them, so that those that did not match are listed: none.
    check_match(&shared, &shared, 128);
}

#[test]
fn matches_span_frames() {
    let count = Code::new(128, 1 << 17).per_frame() * 2 + 9;
    let mut theirs = random::<2>(count, 9);
    let own: Vec<_> = theirs.iter().copied().step_by(3).collect();
    check_match(&own, &theirs, 128);
    // One value on both sides of the frames' border.
    let border = sorted(&theirs, 128)[Code::new(128, count).per_frame()];
    theirs[..40].fill(border);
    check_match(&[border, [7; 2], border], &theirs, 128);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn narrow_masks_match(own: Vec<u8>, theirs: Vec<u8>, width in 1usize..=8) {
        let wide = |v: &[u8]| v.iter().map(|b| [u64::from(*b) << 56]).collect::<Vec<_>>();
        check_match::<1>(&wide(&own), &wide(&theirs), width);
    }

    /// Words that repeat behind ones that repeat.
    #[test]
    fn ties_match(own: Vec<u8>, theirs: Vec<u8>) {
        let wide = |v: &[u8]| -> Vec<[u64; 4]> {
            let spread = |b: u8| [u64::from(b & 3) << 62, 5, u64::from(b >> 2 & 3), u64::from(b >> 4) << 40];
            v.iter().map(|b| spread(*b)).collect()
        };
        check_match(&wide(&own), &wide(&theirs), 256);
        check_match(&wide(&own), &wide(&theirs), 216);
    }

    #[test]
    fn what_matched_returns(set: BTreeSet<u16>, masks in 1usize..70_000, more in 0usize..9_000) {
        let mut matched = vec![false; masks];
        for position in set {
            matched[usize::from(position) % masks] = true;
        }
        let count = matched.iter().filter(|matched| **matched).count();
        let telling = Telling::new(masks, count + more);
        let mut tape = Tape::default();
        telling.send(&mut tape, &matched).unwrap();
        prop_assert_eq!(telling.receive(&mut tape).unwrap(), matched);
        prop_assert!(tape.0.is_empty());
    }

    /// The values that are flagged, as many as there are slots for.
    #[test]
    fn flagged_values_are_selected(flags: Vec<bool>, slots in 0usize..40) {
        let values = (0..flags.len() as i32).zip(flags.iter().copied());
        let mut expected: Vec<i32> =
            values.clone().filter(|(_, flag)| *flag).map(|(value, _)| value).collect();
        expected.resize(slots, -1);
        prop_assert_eq!(matched::selected(values, slots, -1), expected);
    }

    /// What a peer sends is taken or refused, never more.
    #[test]
    fn any_bytes_are_judged(bytes: Vec<u8>, width in 1usize..=256, count in 1usize..40) {
        let code = Code::new(width, count);
        let mut masks = vec![[0u64; 4]; count];
        if Decoder::new(&code, bytes.clone(), count).read(&mut masks).is_ok() {
            // There is one way only to write them.
            let again = sent(&masks, width);
            prop_assert_eq!(&again.0[0].1, &bytes);
        }
        // The same of what is told, as a bitmap and as positions of ten bits.
        for most in [900, 4] {
            let telling = Telling::new(900, most);
            let length = telling.frames().payload as usize;
            let frame: Vec<u8> = bytes.iter().copied().chain(iter::repeat(0)).take(length).collect();
            let mut tape = Tape(VecDeque::from([(MATCHED, frame.clone())]));
            if let Ok(matched) = telling.receive(&mut tape) {
                prop_assert!(matched.iter().filter(|matched| **matched).count() <= most);
                telling.send(&mut tape, &matched).unwrap();
                prop_assert_eq!(&tape.0[0].1, &frame);
            }
        }
    }
}

/// Whichever of both forms is shorter, for small sets and for one item against many.
#[test]
fn the_shorter_form_is_taken() {
    let bytes = |masks, most| Telling::new(masks, most).frames();
    assert_eq!(bytes(0, 0), Frames::one(0));
    assert_eq!(bytes(5, 0), Frames::one(0));
    assert_eq!(bytes(1, 1), Frames::one(1));
    assert_eq!(bytes(20_000, 500), Frames::one(500 * 15 / 8 + 1));
    assert_eq!(bytes(20_000, 20_000), Frames::one(2500));
    assert_eq!(bytes(1_000_000, 1), Frames::one(3));
    // 20 bits for each of 50,000, and one for each mask.
    assert_eq!(bytes(1_000_000, 49_999), Frames::one(124_998));
    assert_eq!(bytes(1_000_000, 50_001), Frames::one(125_000));
    let several = Frames {
        payload: 3 << 20,
        count: 3,
    };
    assert_eq!(bytes(3 << 23, 3 << 23), several);
}

/// Refused by the decoder of masks with exactly this error.
fn refused(width: usize, count: usize, frame: Vec<u8>) -> Misbehaviour {
    let code = Code::new(width, count);
    let mut masks = vec![[0u64; 4]; count];
    Decoder::new(&code, frame, count)
        .read(&mut masks)
        .unwrap_err()
}

fn bad(problem: &'static str) -> Misbehaviour {
    Misbehaviour::BadValue {
        what: "masks",
        problem,
    }
}

#[test]
fn malformed_frames_are_named() {
    let masks = random::<4>(10, 11);
    let good = sent(&masks, 77).0[0].1.clone();
    let wrong = |bytes| Misbehaviour::WrongLength {
        what: "masks",
        bytes,
    };
    let cut = good.len() - 1;
    assert_eq!(refused(77, 10, good[..cut].to_vec()), wrong(cut));
    assert_eq!(refused(77, 10, Vec::new()), wrong(0));
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(refused(77, 10, longer), wrong(good.len() + 1));
    // A mask of 77 bits ends within a byte.
    let mut padded = sent(&masks[..1], 77).0[0].1.clone();
    *padded.last_mut().unwrap() |= 0x80;
    assert_eq!(refused(77, 1, padded), bad("padding that is not zero"));

    // Two masks of 70 bits: the leading words are equal, the tails descend.
    let mut writer = Writer::with_capacity(40);
    let gaps = Gaps::of_uniform(64, 2);
    writer.put(9, 64);
    writer.put(5, 6);
    gaps.write_next(&mut writer, 9, 9);
    writer.put(4, 6);
    assert_eq!(refused(70, 2, writer.finish()), bad("out of order"));

    // Past the width: of 8 bits, of 64 bits, and by a quotient that 64 bits do not hold.
    let cases = [(8, 3, 255), (63, 3, u64::MAX >> 1), (64, 2, 0)];
    for (width, count, first) in cases {
        let mut writer = Writer::with_capacity(40);
        writer.put(first, width);
        writer.put(1 << 4, 5);
        writer.put(u64::MAX >> 1, 63);
        let error = refused(width as usize, count, writer.finish());
        assert_eq!(error, bad("a number out of range"));
    }

    // A difference in full that has a shorter code, one that needs the full one, and one too large.
    let gaps = Gaps::of_uniform(64, 1 << 20);
    let full = |gap: u64| {
        let mut writer = Writer::with_capacity(40);
        writer.put(1, 64);
        writer.put(0, LONG);
        writer.put(gap, 64);
        let mut reader = Reader::new("masks", writer.finish());
        let first = reader.take(64);
        gaps.read_next(&mut reader, first)
    };
    let shortest = u64::from(LONG) << 43;
    let problem = bad("a long code of a short difference");
    assert_eq!(full(shortest - 1), Err(problem));
    assert_eq!(full(shortest), Ok(shortest + 1));
    assert_eq!(full(u64::MAX), Err(bad("a number out of range")));
}

/// Frames are checked against each other, and against the agreed number.
#[test]
fn frames_ascend_and_are_as_many_as_agreed() {
    let width = 128;
    let count = Code::new(width, 1 << 17).per_frame() * 2 + 5;
    let theirs = random::<2>(count, 12);
    let own = random::<2>(4, 13);
    let exchange = Exchange {
        width,
        sender_size: count,
        masks_per_item: 1,
        receiver_size: own.len(),
        both: false,
    };
    let good = sent(&theirs, width);
    assert_eq!(
        exchange.receive(&mut good.clone(), &own).unwrap(),
        [false; 4]
    );
    let received = |tape: &Tape| misbehaviour(exchange.receive(&mut tape.clone(), &own));
    let mut swapped = good.clone();
    swapped.0.swap(0, 1);
    assert_eq!(received(&swapped), bad("out of order"));
    let mut replayed = good.clone();
    replayed.0[1] = replayed.0[0].clone();
    assert_eq!(received(&replayed), bad("out of order"));
    // A mask less in a frame.
    let code = Code::new(width, count);
    let mut order = Order::new(&theirs, width);
    order.sort_until(count);
    let short = code.encode(&order.entries()[..code.per_frame() - 1]);
    let mut dribbled = good.clone();
    dribbled.0[0].1 = short;
    assert!(matches!(
        received(&dribbled),
        Misbehaviour::WrongLength { .. }
    ));
}

#[test]
fn malformed_positions_are_named() {
    let received = |masks, most, frame: &[u8]| {
        let mut tape = Tape(VecDeque::from([(MATCHED, frame.to_vec())]));
        misbehaviour(Telling::new(masks, most).receive(&mut tape))
    };
    let bad = |problem| Misbehaviour::BadValue {
        what: "matched positions",
        problem,
    };
    let wrong = |bytes| Misbehaviour::WrongLength {
        what: "matched positions",
        bytes,
    };
    // A bitmap of ten, of which seven may match.
    assert_eq!(received(10, 7, &[0xff]), wrong(1));
    assert_eq!(received(10, 7, &[]), wrong(0));
    assert_eq!(received(10, 7, &[0, 4]), bad("padding that is not zero"));
    let problem = "more matches than items";
    assert_eq!(received(10, 7, &[0xff, 0]), bad(problem));
    // Three positions of six bits below 60, and six bits of padding.
    let positions = |all: [u32; 3]| {
        let bits = all[0] | all[1] << 6 | all[2] << 12;
        bits.to_le_bytes()[..3].to_vec()
    };
    let refused = |all| received(60, 3, &positions(all));
    assert_eq!(refused([1, 2, 61]), bad("a number out of range"));
    for all in [[2, 1, 60], [1, 1, 60], [60, 1, 60], [60, 60, 59]] {
        assert_eq!(refused(all), bad("out of order"), "{all:?}");
    }
    let mut padded = positions([1, 2, 60]);
    padded[2] |= 0x80;
    assert_eq!(received(60, 3, &padded), bad("padding that is not zero"));
    assert_eq!(received(60, 3, &padded[..2]), wrong(2));
    let mut tape = Tape(VecDeque::from([(MATCHED, positions([0, 59, 60]))]));
    let matched = Telling::new(60, 3).receive(&mut tape).unwrap();
    assert_eq!(indices_vartime(&matched), [0, 59]);
}

/// Frames that are not the last are full, and positions ascend from one to the next.
#[test]
fn positions_span_frames() {
    let (masks, most) = (9_000_000, 360_000);
    let telling = Telling::new(masks, most);
    let slots = MAX_FRAME / 24 * 8;
    let frame = |first: u32, count: usize| {
        let mut writer = Writer::with_capacity(MAX_FRAME);
        (first..).take(count).for_each(|i| writer.put(i.into(), 24));
        (MATCHED, writer.finish())
    };
    let frames =
        [(0, slots), (slots as u32, most - slots)].map(|(first, count)| frame(first, count));
    assert_eq!(telling.frames().count, 2);
    let matched = telling
        .receive(&mut Tape(VecDeque::from(frames.clone())))
        .unwrap();
    assert_eq!(matched.iter().position(|matched| !matched), Some(most));
    let swapped = [frame(most as u32, slots), frame(0, most - slots)];
    let error = telling.receive(&mut Tape(VecDeque::from(swapped)));
    let out_of_order = Misbehaviour::BadValue {
        what: "matched positions",
        problem: "out of order",
    };
    assert_eq!(misbehaviour(error), out_of_order);
}
