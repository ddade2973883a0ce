//! Hints that no honest sender sends: an error or wrong strings, and nothing else.

use rand_core::Rng;
use vesica_testing::misbehaviour;
use vesica_wire::{Misbehaviour, Spoil, Tamper};

use super::*;

/// The receiver on a changed frame of the sender's.
fn receiver_on<H: Hint + Default>(frame: usize, spoil: Spoil) -> Result<Run, Error> {
    let (ours, theirs) = sets(100, 100, 100);
    let (receiving, sending) = memory_pair();
    let sending = Tamper::new(sending, frame, spoil);
    let opprf = Opprf::<Ideal, H>::default();
    let sets = (&ours[..], &theirs[..]);
    run_over(&opprf, &params(100, 100), 64, sets, (receiving, sending)).0
}

fn wrong_hints_are_refused<H: Hint + Default>(kind: Kind) {
    let (_, shape) = plan::<H>(&params(100, 100), 64);
    let opprf = Opprf::<Ideal, H>::default();
    let bytes = opprf
        .hint
        .bits(&shape, opprf.layouts(&shape)[0].bits())
        .div_ceil(8);
    for cut in [1, 8, bytes as usize] {
        assert_eq!(
            misbehaviour(receiver_on::<H>(0, Spoil::Truncate(cut))),
            Misbehaviour::WrongLength {
                what: kind.name,
                bytes: bytes as usize - cut
            }
        );
    }
    for more in [1, 9, MAX_FRAME - bytes as usize] {
        assert_eq!(
            misbehaviour(receiver_on::<H>(0, Spoil::Extend(vec![0; more]))),
            Misbehaviour::TooLong {
                what: kind.name,
                bytes: bytes + more as u64,
                max: bytes
            }
        );
    }
    assert_eq!(
        misbehaviour(receiver_on::<H>(0, Spoil::Kind(200))),
        Misbehaviour::UnexpectedFrame {
            expected: kind.name,
            got: 200
        }
    );
    assert!(matches!(
        receiver_on::<H>(0, Spoil::Close),
        Err(Error::Closed)
    ));
    // Anything else of that length is a hint: strings are wrong, and nothing else happens.
    let zeros = receiver_on::<H>(0, Spoil::Replace(vec![0; bytes as usize])).unwrap();
    let equal = |run: &Run| {
        let hits = |bin| {
            run.candidates(bin)
                .filter(|(tag, _)| *tag == run.tags[bin])
                .count()
        };
        (0..run.tags.len()).map(hits).sum::<usize>()
    };
    assert_eq!(equal(&zeros), 0);
    let flipped = receiver_on::<H>(0, Spoil::FlipBit(100)).unwrap();
    assert!(equal(&flipped) <= 100);
}

#[test]
fn wrong_frames_are_refused() {
    wrong_hints_are_refused::<OkvsHint>(OKVS);
    wrong_hints_are_refused::<RelaxedHint>(RELAXED);
}

/// The two messages of a table.
#[test]
fn wrong_tables_are_refused() {
    let shape = second::<TableHint>(&params(10, 10), 0);
    let opprf = Opprf::<Ideal, TableHint>::default();
    let strings = Strings::random(HASHES, shape.bins, Layout::new(50, 0), 0, &mut rng(1));
    let points = membership::points(&shape, &strings);
    let tags: Vec<Block> = strings.tags().iter().copied().step_by(HASHES).collect();
    let queries = membership::queries(&shape, &tags);
    let target = |_, _, _: usize| Target::default();
    let receive = |frame, spoil| {
        let (receiving, sending) = memory_pair();
        let sending = Tamper::new(sending, frame, spoil);
        let (strings, _) = run_both(
            (receiving, sending),
            |channel| opprf.receive(channel, &shape, &queries, &mut rng(9)),
            |channel| opprf.send(channel, &shape, &points, &target, &mut rng(10)),
        );
        strings
    };
    assert!(
        receive(9, Spoil::Close)
            .unwrap()
            .tags()
            .iter()
            .all(|tag| *tag == 0)
    );
    let bits = [8, 4 * shape.split.tag_bits as usize];
    for (frame, (kind, bits)) in [NONCES, TABLE].into_iter().zip(bits).enumerate() {
        let bytes = (shape.bins * bits).div_ceil(8);
        assert_eq!(
            misbehaviour(receive(frame, Spoil::Truncate(2))),
            Misbehaviour::WrongLength {
                what: kind.name,
                bytes: bytes - 2
            }
        );
        assert_eq!(
            misbehaviour(receive(frame, Spoil::Extend(vec![0]))),
            Misbehaviour::TooLong {
                what: kind.name,
                bytes: bytes as u64 + 1,
                max: bytes as u64
            }
        );
        // Every nonce is one, and all slots are strings.
        let mut bytes = vec![0; bytes];
        let unused = bytes.len() * 8 - shape.bins * bits;
        rng(3).fill_bytes(&mut bytes);
        *bytes.last_mut().unwrap() &= 255 >> unused;
        assert!(receive(frame, Spoil::Replace(bytes)).is_ok());
    }
}
