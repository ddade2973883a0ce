//! What must look random does.

use vesica_testing::chi_squared;

use super::*;

/// The hint for these points, on an ideal OPRF, as one string of bytes per frame.
fn hint<H: Hint + Default>(shape: &Shape, points: &Points, seed: u64) -> Vec<Vec<u8>> {
    let mut tape = Tape::default();
    let target = |bin: usize, _: usize, _: usize| Target {
        tag: bin as Block & 0xff,
        payload: 0,
    };
    Opprf::<Ideal, H>::default()
        .send(&mut tape, shape, points, &target, &mut rng(seed))
        .unwrap();
    tape.0.into_iter().map(|(_, frame)| frame).collect()
}

fn looks_uniform(bytes: impl IntoIterator<Item = u8>, what: &str) {
    let chi = chi_squared(bytes);
    assert!((120.0..420.0).contains(&chi), "{what}: {chi}");
}

/// A hint looks uniform and is as long whatever the sender's set, even if targets are far from random.
#[test]
fn hints_look_uniform_for_every_set() {
    let params = params(2000, 2000);
    let (table, shape) = plan::<OkvsHint>(&params, 1);
    let (_, relaxed) = plan::<RelaxedHint>(&params, 1);
    let mut dense = vec![[0; 32]; 2000];
    for (i, item) in dense.iter_mut().enumerate() {
        item[..8].copy_from_slice(&(i as u64).to_le_bytes());
    }
    let mut lengths = HashSet::new();
    for set in [&dense, &items(3, 2000), &items(4, 2000)] {
        let points = SenderBins::new(&params, table, set).points;
        for hint in [
            hint::<OkvsHint>(&shape, &points, 1).concat(),
            hint::<RelaxedHint>(&relaxed, &points, 1).concat(),
        ] {
            lengths.insert(hint.len());
            looks_uniform(hint, "hint");
        }
    }
    assert_eq!(lengths.len(), 2);
    // All points in few bins: the shape of the bins does not show either.
    let crowded = Points::new(
        (0..shape.bins)
            .map(|bin| if bin == 0 { 0 } else { 6000 })
            .collect(),
        SenderBins::new(&params, table, &dense)
            .points
            .keys()
            .to_vec(),
    );
    for (hint, name) in [
        (
            hint::<OkvsHint>(&shape, &crowded, 1).concat(),
            "crowded OKVS",
        ),
        (
            hint::<RelaxedHint>(&relaxed, &crowded, 1).concat(),
            "crowded table",
        ),
    ] {
        assert!(lengths.contains(&hint.len()));
        looks_uniform(hint, name);
    }
    let second = second::<TableHint>(&params, 1);
    let strings = Strings::random(HASHES, second.bins, Layout::new(64, 1), 0, &mut rng(2));
    let frames = hint::<TableHint>(&second, &membership::points(&second, &strings), 1);
    assert_eq!(frames.len(), 2);
    looks_uniform(frames[1].iter().copied(), "table");
}

/// Strings of bins without a match are unbiased in every bit, with a query and without one.
#[test]
fn unmatched_strings_are_unbiased() {
    fn check<H: Hint + Default>() {
        let (ours, theirs) = sets(6000, 6000, 0);
        let run = run::<Ideal, H>(&params(6000, 6000), 64, (&ours, &theirs));
        let layout = run.strings.layout();
        for queried in [true, false] {
            let mut ones = [[0u32; 128]; 2];
            let mut count = 0;
            for (bin, expected) in run.expected.iter().enumerate() {
                if expected.is_some() != queried {
                    continue;
                }
                for (tag, payload) in run.candidates(bin) {
                    count += 1;
                    for (ones, block) in ones.iter_mut().zip([tag, payload[0]]) {
                        for (bit, ones) in ones.iter_mut().enumerate() {
                            *ones += u32::from(block >> bit & 1 == 1);
                        }
                    }
                }
            }
            let bits = [layout.tag_bits() as usize, 64];
            for (ones, bits) in ones.iter().zip(bits) {
                assert!(ones[bits..].iter().all(|ones| *ones == 0));
                for ones in &ones[..bits] {
                    // Six standard deviations.
                    let off = f64::from(*ones) - f64::from(count) / 2.0;
                    assert!(
                        off.abs() < 3.0 * f64::from(count).sqrt(),
                        "{ones} of {count}"
                    );
                }
            }
        }
    }
    check::<OkvsHint>();
    check::<RelaxedHint>();
}

/// What the sender sends does not depend on the receiver's items, nor on matches: it is the same for the same
/// randomness.
#[test]
fn the_senders_messages_do_not_depend_on_matches() {
    let (ours, theirs) = sets(200, 200, 100);
    let sent = |ours: &[Item]| {
        let (receiving, sending) = memory_pair();
        let mut sending = Recorder::new(sending);
        let opprf = Opprf::<Ideal, RelaxedHint>::default();
        let channels = (receiving, &mut sending);
        let (run, _) = run_over(&opprf, &params(200, 200), 8, (ours, &theirs), channels);
        run.unwrap();
        sending.sent
    };
    assert_eq!(sent(&ours), sent(&items(9, 200)));
}

/// Different sessions give unrelated hints, slots that are random in both excepted.
#[test]
fn sessions_are_separate() {
    let theirs = items(4, 1000);
    let hint_in = |session| {
        let params = Params {
            session,
            ..params(1000, 1000)
        };
        let (table, shape) = plan::<RelaxedHint>(&params, 0);
        let points = SenderBins::new(&params, table, &theirs).points;
        hint::<RelaxedHint>(&shape, &points, 1).concat()
    };
    let (a, b) = (hint_in([6; 32]), hint_in([7; 32]));
    assert!(a.iter().zip(&b).filter(|(a, b)| a == b).count() < a.len() / 8);
}
