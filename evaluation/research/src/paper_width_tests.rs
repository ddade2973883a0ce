use std::collections::HashSet;

use chacha20::ChaCha12Rng;
use vesica_testing::{bad_value, honest, items, misbehaviour, rng, run_both, wrong_length};
use vesica_wire::{Spoil, Tamper, memory_pair};

use vesica_encodings::random_band::RandomBand;
use vesica_oprf::sparse::{self, Store};
use vesica_oprf::width::width;
use vesica_primitives::security::{KeyAgreement, Security};

use super::*;
use crate::attack::{Run, View, expected_hashes, recover};
use crate::okvs_message::OkvsMessage;
use crate::sha256::Sha256Bit;
use crate::three_hash::ThreeHash;

type Narrow<K> = OkvsMessage<K, 2>;

const FIGURES: [Figure; 2] = [Figure::SemiHonest, Figure::Malicious];

fn params(receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [6; 32],
    }
}

/// A run in which the receiver does `receiving` and the sender follows the protocol.
fn against<T>(
    params: &Params,
    run: Run,
    theirs: &[Item],
    spoil: Option<(usize, Spoil)>,
    receiving: impl FnOnce(&mut dyn Channel, &mut ChaCha12Rng) -> Result<T, Error>,
) -> (Result<T, Error>, Result<Outputs, Error>) {
    let (ours, other) = memory_pair();
    let (frame, spoil) = spoil.unwrap_or((usize::MAX, Spoil::Close));
    let (other, own) = run_both(
        (Tamper::new(other, frame, spoil), ours),
        |channel| match run {
            Run::Proven => Sparse::<Store>::new().send(channel, params, theirs, &mut rng(1)),
            Run::Paper(figure) => PaperWidth::<Narrow<RandomBand>>::new(figure).send(
                channel,
                params,
                theirs,
                &mut rng(1),
            ),
        },
        |channel| receiving(channel, &mut rng(5)),
    );
    (own, other)
}

#[test]
fn widths_are_the_papers() {
    for (log, columns) in [(10, 60), (12, 64), (16, 72), (20, 80), (24, 88)] {
        let params = params(1 << log, 1 << log);
        assert_eq!(unsafe_paper_width(Figure::SemiHonest, &params), columns);
        assert_eq!(unsafe_paper_width(Figure::Malicious, &params), 128);
    }
    for (n_r, n_s, columns) in [(0, 0, 40), (1, 3, 42), (1 << 8, 1 << 26, 74)] {
        let params = params(n_r, n_s);
        assert_eq!(unsafe_paper_width(Figure::SemiHonest, &params), columns);
    }
}

/// Both figures, over both stores and with both functions: exactly the common items meet.
#[test]
fn common_items_meet_and_no_others() {
    fn meets<M: Message, F: BitFunction>() {
        for (n_r, n_s, common) in [(0, 3, 0), (3, 0, 0), (1, 1, 1), (700, 300, 100)] {
            let (ours, mut theirs) = (items(3, n_r), items(4, n_s));
            theirs[..common].copy_from_slice(&ours[..common]);
            theirs.reverse();
            let params = params(n_r, n_s);
            for figure in FIGURES {
                let paper = PaperWidth::<M, F>::new(figure);
                let (own, other) = honest(
                    |channel| paper.receive(channel, &params, &ours, (), &mut rng(2)),
                    |channel| paper.send(channel, &params, &theirs, &mut rng(1)),
                );
                let (own, numbers) = own.into_short();
                let masks: HashSet<Output> = other.into_short().0.into_iter().collect();
                assert_eq!(masks.len(), n_s);
                let mut met: Vec<u32> = own
                    .iter()
                    .zip(&numbers)
                    .filter_map(|(mask, number)| masks.contains(mask).then_some(*number))
                    .collect();
                met.sort_unstable();
                assert_eq!(met, (0..common as u32).collect::<Vec<_>>());
            }
        }
    }
    meets::<Narrow<RandomBand>, AesBit>();
    meets::<Narrow<ThreeHash>, AesBit>();
    meets::<Narrow<RandomBand>, Sha256Bit>();
    meets::<Narrow<ThreeHash>, Sha256Bit>();
}

/// The sender's frames of figure 15: commitment, functions of the base transfers, opening.
#[test]
fn a_coin_that_is_not_the_one_committed_to_is_refused() {
    let (ours, theirs) = (items(3, 50), items(4, 60));
    let params = params(50, 60);
    let figure = Figure::Malicious;
    let found = |frame, spoil| {
        let run = Run::Paper(figure);
        let (own, _) = against(
            &params,
            run,
            &theirs,
            Some((frame, spoil)),
            |channel, rng| {
                PaperWidth::<Narrow<RandomBand>>::new(figure).receive(
                    channel,
                    &params,
                    &ours,
                    (),
                    rng,
                )
            },
        );
        misbehaviour(own)
    };
    let broken = bad_value("coin", "not what was committed to");
    assert_eq!(found(0, Spoil::FlipBit(9)), broken);
    assert_eq!(found(2, Spoil::FlipBit(9)), broken);
    assert_eq!(found(2, Spoil::Truncate(16)), wrong_length("coin", 48));
}

/// A receiver that keeps its view sends what others send: the sender's outputs are the same.
#[test]
fn keeping_a_view_changes_nothing() {
    let (ours, theirs) = (items(3, 200), items(4, 300));
    let params = params(200, 300);
    for figure in FIGURES {
        let run = Run::Paper(figure);
        let (own, plain) = against(&params, run, &theirs, None, |channel, rng| {
            PaperWidth::<Narrow<RandomBand>>::new(figure).receive(channel, &params, &ours, (), rng)
        });
        let (view, watched) = against(&params, run, &theirs, None, |channel, rng| {
            View::<RandomBand, 2>::follow(channel, &params, run, &ours, rng)
        });
        assert!(own.is_ok() && view.is_ok());
        assert_eq!(plain.unwrap(), watched.unwrap());
    }
    let (view, watched) = against(&params, Run::Proven, &theirs, None, |channel, rng| {
        View::<RandomBand, 8>::follow(channel, &params, Run::Proven, &ours, rng)
    });
    let (own, plain) = against(&params, Run::Proven, &theirs, None, |channel, rng| {
        Sparse::<Store>::new().receive(channel, &params, &ours, (), rng)
    });
    assert!(own.is_ok());
    assert_eq!(plain.unwrap(), watched.unwrap());
    assert_eq!(
        view.unwrap().columns(),
        sparse::width(&params, 1).next_multiple_of(8)
    );
}

/// Every item of the sender's in a list of candidates, and all of s; own items that the sender lacks are not found.
#[test]
fn narrow_masks_give_everything_away() {
    let n = 1 << 9;
    let (ours, theirs) = (items(3, n), items(4, n));
    let theirs = [&ours[..n / 2], &theirs[n / 2..]].concat();
    let candidates = [&ours[..], &theirs[n / 2..], &items(5, 7 * n)].concat();
    let params = params(n, n);
    let expected: Vec<u32> = (0..n / 2).chain(n..n + n / 2).map(|i| i as u32).collect();
    for figure in FIGURES {
        let run = Run::Paper(figure);
        let (view, other) = against(&params, run, &theirs, None, |channel, rng| match figure {
            Figure::SemiHonest => View::follow(channel, &params, run, &ours, rng),
            // Twice as many guesses as items that it announces, half of them right.
            Figure::Malicious => {
                let guesses = [
                    &theirs[..n / 2],
                    &candidates[2 * n..3 * n],
                    &theirs[n / 2..],
                ]
                .concat();
                let (first, last) = guesses.split_at(n);
                View::<RandomBand, 2>::split(channel, &params, [first, last], rng)
            }
        });
        let (view, masks) = (view.unwrap(), other.unwrap().into_short().0);
        let bits = unsafe_paper_width(figure, &params);
        let found = recover(&view, &masks, bits, &candidates, 32);
        assert_eq!(found.items, expected);
        assert_eq!(found.known_bits() as usize, view.columns());
        assert_eq!(found.lightest, None);
        assert!(found.hashes < 1 << 27, "{found:?}");
    }
}

#[test]
fn expectations() {
    // A column is guessed in one or two trials, and there are none without candidates.
    assert_eq!(expected_hashes(1, 1, 1), 0.5 * 1.0 + 0.5 * 2.0 * 0.5);
    assert_eq!(expected_hashes(64, 5, 0), 0.0);
    // All candidates are the sender's: the lightest of them is enough.
    let few = expected_hashes(64, 1 << 11, 1 << 11);
    let many = expected_hashes(64, 1 << 11, 1 << 16);
    assert!((many / few - 32.0).abs() < 1e-6 && (20.0..28.0).contains(&many.log2()));
    // At the proven width the lightest item of 2^20 has more than 128 ones.
    assert!(expected_hashes(width(1 << 20, 40), 1 << 20, 1 << 24).log2() > 130.0);
}
