//! Hints and OPRFs that no shipped circuit takes, in programmable OPRFs.

use std::collections::HashSet;

use vesica_oprf::programmable::bins::{self, HASHES, ReceiverBins, SenderBins};
use vesica_oprf::programmable::{
    BatchOprf, Hint, OkvsHint, Opprf, Points, Queries, RelaxedHint, Shape, Strings, TableHint,
    Target, membership,
};
use vesica_oprf::vole::Vole;
use vesica_oprf::{Item, Params};
use vesica_primitives::block::Block;
use vesica_primitives::security::{KeyAgreement, Security};
use vesica_testing::{Tape, chi_squared, honest, items, misbehaviour, rng, run_both};
use vesica_wire::{Channel, Error, MAX_FRAME, Misbehaviour, Spoil, Tamper, memory_pair};

use crate::free_oprf::Free;
use crate::kkrt_batch::KkrtBatch;
use crate::polynomial_hint::{POLYNOMIALS, PolynomialHint};

fn params(lambda: u32, receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [6; 32],
    }
}

/// Two sets with this many common items.
fn sets(n_r: usize, n_s: usize, common: usize) -> (Vec<Item>, Vec<Item>) {
    let ours = items(3, n_r);
    let theirs = [&ours[..common], &items(4, n_s - common)].concat();
    (ours, theirs)
}

/// A payload for an item of the sender's, of at most this many bits.
fn payload(bits: u32, item: &Item) -> Block {
    let [low, _] = vesica_oprf::halves(item);
    low.checked_shr(Block::BITS - bits).unwrap_or(0)
}

/// The bins in which a candidate of the receiver's is the sender's tag, and which candidate that is.
fn met(tags: &[Block], strings: &Strings) -> Vec<(usize, usize)> {
    let each = strings.candidates();
    let numbers = 0..strings.tags().len();
    let equal = numbers.filter(|number| strings.tags()[*number] == tags[number / each]);
    equal.map(|number| (number / each, number)).collect()
}

/// Runs the OPPRF on two sets; what the receiver has, and how many bins match, with the right payloads.
fn matches<O: BatchOprf + Default, H: Hint + Default>(
    params: &Params,
    payload_bits: u32,
    (ours, theirs): (&[Item], &[Item]),
    channels: (impl Channel, impl Channel),
) -> Result<usize, Error> {
    let opprf = Opprf::<O, H>::default();
    let (table, shape) = opprf.plan(params, payload_bits, bins::table).unwrap();
    let tags = opprf.random_tags(&shape, &mut rng(5));
    let sender = SenderBins::new(params, table, theirs);
    let receiver = ReceiverBins::new(params, table, ours)?;
    let target = |bin: usize, point: usize, _: usize| Target {
        tag: tags[bin],
        payload: payload(payload_bits, &theirs[sender.table.entries()[point].item()]),
    };
    let (strings, sent) = run_both(
        channels,
        |channel| {
            let strings = opprf.receive(channel, &shape, &receiver.queries, &mut rng(2));
            strings.inspect_err(|error| channel.abort(error))
        },
        |channel| opprf.send(channel, &shape, &sender.points, &target, &mut rng(1)),
    );
    let strings = strings?;
    sent?;
    let met = met(&tags, &strings);
    let held: HashSet<&Item> = theirs.iter().collect();
    for (bin, number) in &met {
        let item = &ours[receiver.table.bin(*bin).expect("an item").item()];
        assert!(held.contains(item));
        let found = strings.payloads().get(*number).copied().unwrap_or(0);
        assert_eq!(found, payload(payload_bits, item));
    }
    Ok(met.len())
}

/// Candidates match on common items only, at all sizes and with payloads of any width.
fn agree<O: BatchOprf + Default, H: Hint + Default>() {
    for (n_r, n_s, common) in [
        (0, 0, 0),
        (0, 3, 0),
        (3, 0, 0),
        (1, 1, 1),
        (2, 2, 1),
        (1, 700, 1),
        (700, 1, 1),
        (300, 300, 0),
        (1700, 1300, 250),
    ] {
        let (ours, theirs) = sets(n_r, n_s, common);
        for payload_bits in [0, 1, 63, 64, 65, 128] {
            let params = params(40, n_r, n_s);
            let sets = (&ours[..], &theirs[..]);
            let found = matches::<O, H>(&params, payload_bits, sets, memory_pair());
            assert_eq!(found.unwrap(), common, "{n_r} {n_s} {payload_bits}");
        }
    }
}

#[test]
fn polynomial_candidates_match_on_common_items_only() {
    agree::<Free, PolynomialHint>();
}

fn agree_on<O: BatchOprf + Default, H: Hint + Default>(
    lambda: u32,
    (n_r, n_s, common): (usize, usize, usize),
) {
    let (ours, theirs) = sets(n_r, n_s, common);
    let params = params(lambda, n_r, n_s);
    let found = matches::<O, H>(&params, 64, (&ours, &theirs), memory_pair());
    assert_eq!(found.unwrap(), common);
}

/// Several groups of points, hardly any points, and other λ.
#[test]
fn polynomials_at_other_sizes() {
    agree_on::<Free, PolynomialHint>(40, (1 << 8, 1 << 15, 100));
    agree_on::<Free, PolynomialHint>(40, (1 << 15, 1 << 8, 100));
    agree_on::<Free, PolynomialHint>(20, (200, 300, 50));
    agree_on::<Free, PolynomialHint>(64, (200, 300, 50));
    agree_on::<Vole, PolynomialHint>(40, (900, 700, 200));
}

#[test]
fn every_hint_works_over_kkrt() {
    for sizes in [(0, 0, 0), (1, 1, 1), (3, 500, 2), (7000, 700, 200)] {
        agree_on::<KkrtBatch, OkvsHint>(40, sizes);
        agree_on::<KkrtBatch, RelaxedHint>(40, sizes);
        agree_on::<KkrtBatch, PolynomialHint>(40, sizes);
    }
}

/// One string per bin after CGS22's figure 7: one of three candidates is the tag of every second bin.
fn one_remains<O: BatchOprf + Default, H: Hint + Default>(bins: usize) {
    let opprf = Opprf::<Free, RelaxedHint>::default();
    let (_, first) = opprf.plan(&params(40, 1, 1), 0, bins::table).unwrap();
    let first = Shape { bins, ..first };
    let shape = Opprf::<O, H>::default()
        .plan_second(&first, HASHES, 0)
        .unwrap();
    let keys = items(7, bins);
    let asked = Queries::new(bins, (0..bins as u32).collect(), keys.clone());
    let programmed = Points::new((1..=bins as u32).collect(), keys);
    let of_size = |shape: &Shape| Shape {
        params: params(40, bins, bins),
        ..shape.clone()
    };
    let first = of_size(&first);
    let tags = opprf.random_tags(&first, &mut rng(5));
    let target = |bin: usize, _: usize, _: usize| Target {
        tag: tags[bin] ^ Block::from(bin % 2 == 1),
        payload: 0,
    };
    let (strings, ()) = honest(
        |channel| opprf.receive(channel, &first, &asked, &mut rng(2)),
        |channel| opprf.send(channel, &first, &programmed, &target, &mut rng(1)),
    );
    let second = Opprf::<O, H>::default();
    let new_tags = second.random_tags(&shape, &mut rng(11));
    let points = membership::points(&shape, &strings);
    let queries = membership::queries(&shape, &tags);
    let target = |bin: usize, _: usize, _: usize| Target {
        tag: new_tags[bin],
        payload: 0,
    };
    let (strings, ()) = honest(
        |channel| second.receive(channel, &shape, &queries, &mut rng(9)),
        |channel| second.send(channel, &shape, &points, &target, &mut rng(10)),
    );
    let even: Vec<usize> = (0..bins).step_by(2).collect();
    let found = met(&new_tags, &strings).into_iter().map(|(bin, _)| bin);
    assert_eq!(found.collect::<Vec<_>>(), even);
}

#[test]
fn one_string_remains_of_three_candidates() {
    for bins in [3, 500] {
        one_remains::<Free, PolynomialHint>(bins);
        one_remains::<KkrtBatch, TableHint>(bins);
    }
}

/// The hint for these points, on an OPRF without messages.
fn hint(shape: &Shape, points: &Points) -> Vec<Vec<u8>> {
    let mut tape = Tape::default();
    let target = |bin: usize, _: usize, _: usize| Target {
        tag: bin as Block & 0xff,
        payload: 0,
    };
    Opprf::<Free, PolynomialHint>::default()
        .send(&mut tape, shape, points, &target, &mut rng(1))
        .unwrap();
    assert!(tape.0.iter().all(|(kind, _)| *kind == POLYNOMIALS));
    tape.0.into_iter().map(|(_, frame)| frame).collect()
}

/// A hint is as long as computed and looks uniform whatever the sender's set, even if targets are far from random and
/// all points are in few bins.
#[test]
fn polynomials_look_uniform_for_every_set() {
    for n in [0, 1, 10, 2000] {
        let (params, opprf) = (params(40, n, n), Opprf::<Free, PolynomialHint>::default());
        let (table, shape) = opprf.plan(&params, 1, bins::table).unwrap();
        let bits = opprf.hint.bits(&shape, opprf.layouts(&shape)[0].bits());
        let mut dense = vec![[0; 32]; n];
        for (i, item) in dense.iter_mut().enumerate() {
            item[..8].copy_from_slice(&(i as u64).to_le_bytes());
        }
        let spread = SenderBins::new(&params, table, &items(3, n)).points;
        let dense = SenderBins::new(&params, table, &dense).points;
        let ends = (0..shape.bins).map(|bin| if bin == 0 { 0 } else { dense.len() as u32 });
        let crowded = Points::new(ends.collect(), dense.keys().to_vec());
        for points in [spread, dense, crowded] {
            let frames = hint(&shape, &points);
            assert!(frames.iter().all(|frame| frame.len() <= MAX_FRAME));
            let hint = frames.concat();
            assert_eq!(hint.len() as u64, bits.div_ceil(8));
            let chi = if n == 2000 { chi_squared(hint) } else { 255.0 };
            assert!((120.0..420.0).contains(&chi), "{chi}");
        }
    }
}

#[test]
fn wrong_polynomials_are_refused() {
    let (ours, theirs) = sets(100, 100, 100);
    let params = params(40, 100, 100);
    let receiver_on = |spoil| {
        let (receiving, sending) = memory_pair();
        let channels = (receiving, Tamper::new(sending, 0, spoil));
        matches::<Free, PolynomialHint>(&params, 64, (&ours, &theirs), channels)
    };
    let opprf = Opprf::<Free, PolynomialHint>::default();
    let (_, shape) = opprf.plan(&params, 64, bins::table).unwrap();
    let bits = opprf.layouts(&shape)[0].bits();
    let bytes = PolynomialHint.bits(&shape, bits).div_ceil(8) as usize;
    for cut in [1, 8, bytes] {
        let short = Misbehaviour::WrongLength {
            what: POLYNOMIALS.name,
            bytes: bytes - cut,
        };
        assert_eq!(misbehaviour(receiver_on(Spoil::Truncate(cut))), short);
    }
    let long = Misbehaviour::TooLong {
        what: POLYNOMIALS.name,
        bytes: bytes as u64 + 9,
        max: bytes as u64,
    };
    assert_eq!(misbehaviour(receiver_on(Spoil::Extend(vec![0; 9]))), long);
    assert!(matches!(receiver_on(Spoil::Close), Err(Error::Closed)));
    // Anything else of that length is a hint: strings are wrong, and nothing else happens.
    let zeros = receiver_on(Spoil::Replace(vec![0; bytes]));
    assert_eq!(zeros.unwrap(), 0);
}
