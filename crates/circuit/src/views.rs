//! What a party sees does not depend on the peer's inputs, but for the result.
//!
//! One party's COTs and inputs are fixed, and the peer's half of the COTs is drawn anew in every run: so whatever
//! the party sees varies with what it cannot know. For two different inputs of the peer with one result, every bit
//! that the party receives must be 1 as often.

use rand_core::CryptoRng;
use vesica_correlations::cot;
use vesica_correlations::subfield::FromCots;
use vesica_primitives::block::{Block, Prg};
use vesica_testing::{Recorder, chi_squared, rng, try_both};
use vesica_wire::{Channel, Error, memory_pair};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::engine::{Receiver, Sender};
use crate::functions::{Answer, Least, Payloads};
use crate::harness::blocks;
use crate::membership::Compared;
use crate::rows::Width;

/// Runs per input.
const RUNS: u64 = 120;

/// COTs made from two generators: one for what the choice end sees or for what the value end does, one for the rest.
struct Source {
    rows: Prg,
    choices: Prg,
    delta: Block,
}

impl Source {
    /// Everything that the value end sees comes from `fixed`; the choices come from `seed`.
    fn by_values(fixed: Block, seed: Block) -> Self {
        Source {
            rows: Prg::new(fixed),
            choices: Prg::new(seed),
            delta: Prg::new(fixed ^ 1).next_block() | 1,
        }
    }

    /// Everything that the choice end sees comes from `fixed`; Δ comes from `seed`.
    fn by_choices(fixed: Block, seed: Block) -> Self {
        Source {
            rows: Prg::new(fixed),
            choices: Prg::new(fixed ^ 1),
            delta: Prg::new(seed).next_block() | 1,
        }
    }

    /// The next row without its choice, and the choice.
    fn next(&mut self) -> (Block, Block) {
        (self.rows.next_block() & !1, self.choices.next_block() & 1)
    }
}

/// The value end where it is fixed: it has the rows themselves.
struct ByValues(Source);
/// The value end where the choice end is fixed: it has the rows, less x·Δ.
struct ByChoices(Source);

impl cot::Sender for ByValues {
    fn delta(&self) -> Block {
        self.0.delta
    }

    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        q.iter_mut().for_each(|q| *q = self.0.next().0);
        Ok(())
    }
}

impl cot::Receiver for ByValues {
    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        for t in t {
            let (row, x) = self.0.next();
            *t = row ^ (self.0.delta & x.wrapping_neg());
        }
        Ok(())
    }
}

impl cot::Sender for ByChoices {
    fn delta(&self) -> Block {
        self.0.delta
    }

    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        for q in q {
            let (row, x) = self.0.next();
            *q = row ^ x ^ (self.0.delta & x.wrapping_neg());
        }
        Ok(())
    }
}

impl cot::Receiver for ByChoices {
    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        for t in t {
            let (row, x) = self.0.next();
            *t = row ^ x;
        }
        Ok(())
    }
}

/// The party whose view is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Viewer {
    Receiver,
    Sender,
}

/// Engines by digits of W bits.
fn engines<const W: u32>(viewer: Viewer, seed: u64) -> (Receiver<W>, Sender<W>) {
    let session = &[3; 32];
    let by_values = |fixed| ByValues(Source::by_values(fixed, Block::from(seed) << 64 | fixed));
    let by_choices = |fixed| ByChoices(Source::by_choices(fixed, Block::from(seed) << 64 | fixed));
    let (mut receiver, mut sender);
    match viewer {
        Viewer::Receiver => {
            receiver = Receiver::new(session, FromCots::new(by_values(2)));
            sender = Sender::new(session, FromCots::new(by_values(2)));
            receiver.add_reverse(by_choices(4));
            sender.add_reverse(by_choices(4));
        }
        Viewer::Sender => {
            receiver = Receiver::new(session, FromCots::new(by_choices(2)));
            sender = Sender::new(session, FromCots::new(by_choices(2)));
            receiver.add_reverse(by_values(4));
            sender.add_reverse(by_values(4));
        }
    }
    (receiver, sender)
}

/// All that the viewer receives in one run.
fn view<A: Send, B>(
    viewer: Viewer,
    seed: u64,
    receive: impl FnOnce(&mut Receiver, &mut dyn Channel) -> Result<A, Error> + Send,
    send: impl FnOnce(&mut Sender, &mut dyn Channel) -> Result<B, Error>,
) -> (Vec<u8>, A, B) {
    view_by::<{ crate::WIDTH }, A, B>(viewer, seed, receive, send)
}

/// The same by digits of W bits.
fn view_by<const W: u32, A: Send, B>(
    viewer: Viewer,
    seed: u64,
    receive: impl FnOnce(&mut Receiver<W>, &mut dyn Channel) -> Result<A, Error> + Send,
    send: impl FnOnce(&mut Sender<W>, &mut dyn Channel) -> Result<B, Error>,
) -> (Vec<u8>, A, B) {
    let (mut receiver, mut sender) = engines::<W>(viewer, seed);
    let (near, far) = memory_pair();
    let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
    let (one, two) = try_both(
        (&mut near, &mut far),
        |channel| receive(&mut receiver, channel),
        |channel| send(&mut sender, channel),
    );
    let seen = match viewer {
        Viewer::Receiver => near.received,
        Viewer::Sender => far.received,
    };
    let bytes = seen.into_iter().flat_map(|(_, payload)| payload).collect();
    (bytes, one.unwrap(), two.unwrap())
}

/// How often each bit is 1.
fn ones(views: &[Vec<u8>]) -> Vec<f64> {
    let bits = 8 * views[0].len();
    let one = |view: &Vec<u8>, i: usize| view[i / 8] >> (i % 8) & 1 == 1;
    let count = |i| views.iter().filter(|view| one(view, i)).count() as f64;
    (0..bits).map(count).collect()
}

/// χ² of two samples, bit by bit, is within five standard deviations of its mean. Bits that never vary are none.
#[track_caller]
fn same_distribution(case: impl Fn(bool, u64) -> Vec<u8>) {
    let views = |which, from: u64| -> Vec<Vec<u8>> {
        (from..from + RUNS).map(|seed| case(which, seed)).collect()
    };
    let (first, second) = (views(false, 1), views(true, 1 << 20));
    let (mut sum, mut freedom) = (0.0, 0.0);
    for (one, two) in ones(&first).into_iter().zip(ones(&second)) {
        let rate = (one + two) / (2 * RUNS) as f64;
        if rate > 0.0 && rate < 1.0 {
            sum += (one - two) * (one - two) / (2.0 * RUNS as f64 * rate * (1.0 - rate));
            freedom += 1.0;
        }
    }
    assert!(freedom > 8.0);
    let deviation = (sum - freedom) / f64::sqrt(2.0 * freedom);
    assert!(deviation.abs() < 5.0, "{deviation} standard deviations");
}

const BINS: usize = 8;
const VIEWERS: [Viewer; 2] = [Viewer::Receiver, Viewer::Sender];

/// Strings of the viewer, and of the peer: the first ones are equal in all bins, the others in none.
fn strings(differ: bool) -> (Vec<Block>, Vec<Block>) {
    let own = blocks(5, BINS);
    let other = own
        .iter()
        .map(|string| string ^ (Block::from(differ) * 0x1234));
    (own.clone(), other.collect())
}

fn equality_view(viewer: Viewer, differ: bool, seed: u64) -> Vec<u8> {
    let (own, other) = strings(differ);
    let (ours, theirs) = match viewer {
        Viewer::Receiver => (own, other),
        Viewer::Sender => (other, own),
    };
    let (seen, ..) = view(
        viewer,
        seed,
        |engine, channel| engine.equality(channel, &mut rng(1), 61, &ours),
        |engine, channel| engine.equality(channel, &mut rng(1), 61, &theirs),
    );
    seen
}

#[test]
fn equality_shows_nothing() {
    for viewer in VIEWERS {
        same_distribution(|differ, seed| equality_view(viewer, differ, seed));
        let seen = (0..RUNS).flat_map(|seed| equality_view(viewer, false, seed));
        let chi = chi_squared(seen);
        assert!((140.0..370.0).contains(&chi), "{viewer:?}: {chi}");
    }
}

#[test]
fn membership_shows_nothing() {
    for viewer in VIEWERS {
        same_distribution(|differ, seed| {
            let (own, other) = strings(differ);
            let (ours, theirs) = match viewer {
                Viewer::Receiver => (own, other),
                Viewer::Sender => (other, own),
            };
            let candidates: Vec<[Block; 3]> = ours.iter().map(|a| [a ^ 1, *a, !a]).collect();
            let (seen, ..) = view(
                viewer,
                seed,
                |engine, channel| engine.membership(channel, &mut rng(1), 61, &candidates),
                |engine, channel| engine.membership(channel, &mut rng(1), 61, &theirs),
            );
            seen
        });
    }
}

/// A test of strings that the sender draws, which are those of its source. The receiver's are equal in all bins or in none;
/// where the receiver looks, they are part of its view.
fn drawn_view<const W: u32, const C: usize>(
    viewer: Viewer,
    differ: bool,
    bits: u32,
    seed: u64,
) -> Vec<u8> {
    let of = Compared {
        bins: BINS,
        bits,
        candidates: C,
    };
    let (to, from) = std::sync::mpsc::channel::<Vec<Block>>();
    let (mut seen, own, ()) = view_by::<W, _, _>(
        viewer,
        seed,
        move |engine, channel| {
            let pads = engine.draw(channel, &mut rng(1), of)?;
            let drawn = from.recv().unwrap();
            let others = blocks(seed ^ 9, C * BINS);
            // The lowest two bits of others are not those of the string.
            let other = |bin: usize, c: usize| {
                others[C * bin + c] & !3 | (drawn[bin] ^ (1 + c as Block)) & 3
            };
            let own = (0..BINS).map(|bin| {
                std::array::from_fn(|c| match differ || c > 0 {
                    true => other(bin, c) & ((1 << bits) - 1),
                    false => drawn[bin],
                })
            });
            let own: Vec<[Block; C]> = own.collect();
            engine.membership_of_drawn(channel, &mut rng(1), pads, &own)?;
            Ok(own)
        },
        |engine, channel| {
            let drawn = engine.draw(channel, &mut rng(seed), of)?;
            to.send(drawn.strings().to_vec()).unwrap();
            engine.membership_of_drawn::<C>(channel, &mut rng(2), drawn)?;
            Ok(())
        },
    );
    if viewer == Viewer::Receiver {
        seen.extend(own.iter().flatten().flat_map(|string| string.to_le_bytes()));
    }
    seen
}

#[test]
fn tests_of_drawn_strings_show_nothing() {
    for viewer in VIEWERS {
        // Last digits of one bit, of two and of three.
        for bits in [61, 62, 63] {
            same_distribution(|differ, seed| drawn_view::<4, 1>(viewer, differ, bits, seed));
            same_distribution(|differ, seed| drawn_view::<3, 1>(viewer, differ, bits, seed));
        }
        same_distribution(|differ, seed| drawn_view::<4, 3>(viewer, differ, 63, seed));
        same_distribution(|differ, seed| drawn_view::<3, 3>(viewer, differ, 62, seed));
    }
}

/// Shares of which bins match, where the viewer's shares do not depend on that.
fn matching(viewer: Viewer, bits: u64) -> [BitShares; 2] {
    let own = BitShares::from_fn(BINS, |i| 0b0110_1010 >> i);
    let mut other = BitShares::from_fn(BINS, |i| bits >> i);
    other.add(&own);
    match viewer {
        Viewer::Receiver => [own, other],
        Viewer::Sender => [other, own],
    }
}

#[test]
fn sizes_show_nothing_else() {
    for (minimum, expected) in [
        (0, Answer::Values(vec![3])),
        (3, Answer::Values(vec![3])),
        (4, Answer::TooFew),
    ] {
        for viewer in VIEWERS {
            same_distribution(|other, seed| {
                let shares = matching(viewer, if other { 0b1110_0000 } else { 0b0000_1011 });
                let (seen, answer, ()) = view(
                    viewer,
                    seed,
                    |engine, channel| {
                        let rng = &mut rng(1);
                        let size = engine.size(channel, rng, &shares[0], minimum)?;
                        engine.open(channel, rng, &[size], Least::of_all(minimum, BINS))
                    },
                    |engine, channel| {
                        let rng = &mut rng(1);
                        let size = engine.size(channel, rng, &shares[1], minimum)?;
                        engine.open(channel, rng, &[size], Least::of_all(minimum, BINS))
                    },
                );
                assert_eq!(answer, std::slice::from_ref(&expected));
                seen
            });
        }
    }
}

#[test]
fn withheld_sizes_look_alike() {
    same_distribution(|other, seed| {
        let shares = matching(Viewer::Receiver, if other { 0b0111_1111 } else { 0 });
        let (seen, answer, ()) = view(
            Viewer::Receiver,
            seed,
            |engine, channel| {
                let rng = &mut rng(1);
                let size = engine.size(channel, rng, &shares[0], 8)?;
                engine.open(channel, rng, &[size], Least::of_all(8, BINS))
            },
            |engine, channel| {
                let rng = &mut rng(1);
                let size = engine.size(channel, rng, &shares[1], 8)?;
                engine.open(channel, rng, &[size], Least::of_all(8, BINS))
            },
        );
        assert_eq!(answer, [Answer::TooFew]);
        seen
    });
}

#[test]
fn withheld_matches_look_alike() {
    same_distribution(|other, seed| {
        let shares = matching(Viewer::Receiver, if other { 0b0111_1111 } else { 0 });
        let (seen, answer, ()) = view(
            Viewer::Receiver,
            seed,
            |engine, channel| engine.matches(channel, &mut rng(1), &shares[0], 8),
            |engine, channel| engine.matches(channel, &mut rng(1), &shares[1], 8),
        );
        assert_eq!(answer, [false; BINS]);
        seen
    });
}

#[test]
fn the_sender_does_not_see_whether_the_minimum_is_met() {
    same_distribution(|met, seed| {
        let shares = matching(Viewer::Sender, if met { 0b0111_1111 } else { 1 });
        let (seen, answer, ()) = view(
            Viewer::Sender,
            seed,
            |engine, channel| {
                let rng = &mut rng(1);
                let size = engine.size(channel, rng, &shares[0], 4)?;
                engine.open(channel, rng, &[size], Least::of_all(4, BINS))
            },
            |engine, channel| {
                let rng = &mut rng(1);
                let size = engine.size(channel, rng, &shares[1], 4)?;
                engine.open(channel, rng, &[size], Least::of_all(4, BINS))
            },
        );
        assert_eq!(answer == [Answer::TooFew], !met);
        seen
    });
}

/// The payloads are spread over the bins in two ways, with one sum and, the weights being equal, one inner product.
#[test]
fn sums_and_products_show_nothing_else() {
    let weights = [-3i64; BINS];
    for minimum in [0, 5] {
        for product in [false, true] {
            same_distribution(|other, seed| {
                let shares = matching(Viewer::Receiver, if other { 0b1000_0001 } else { 0b11 });
                let random = |seed| -> Vec<u64> {
                    blocks(seed, BINS)
                        .iter()
                        .map(|block| *block as u64)
                        .collect()
                };
                let (masked, bits) = (random(6), random(7));
                // The payload of each bin is what is left of the receiver's value: fixed by the sender's mask.
                let payload = |i: usize| match (other, i) {
                    (false, 0) | (true, 7) => 40,
                    (false, 1) | (true, 0) => 2,
                    _ => 77u64,
                };
                let of = |values: &dyn Fn(usize) -> u64, bits: &dyn Fn(usize) -> u64| Payloads {
                    values: vec![Zeroizing::new((0..BINS).map(values).collect())],
                    adding: vec![Zeroizing::new((0..BINS).map(bits).collect())],
                    string: Vec::new(),
                };
                let masks = of(&|i| masked[i].wrapping_sub(payload(i)), &|i| !bits[i] & 1);
                let masked = of(&|i| masked[i], &|i| bits[i] & 1);
                let (seen, answer, ()) = view(
                    Viewer::Receiver,
                    seed,
                    |engine, channel| {
                        let (rng, matches) = (&mut rng(1), &shares[0]);
                        let (vectors, least) = ((&weights[..], &masked), (minimum, 40));
                        let numbers = match product {
                            true => {
                                vec![engine.inner_product(channel, rng, matches, vectors, least)?]
                            }
                            false => {
                                engine.sums_of_sender(channel, rng, matches, &masked, minimum)?
                            }
                        };
                        engine.open(channel, rng, &numbers, Least::of_all(minimum, BINS))
                    },
                    |engine, channel| {
                        let (rng, matches) = (&mut rng(1), &shares[1]);
                        let least = (minimum, 40);
                        let numbers = match product {
                            true => {
                                vec![engine.inner_product(channel, rng, matches, &masks, least)?]
                            }
                            false => {
                                engine.sums_of_sender(channel, rng, matches, &masks, minimum)?
                            }
                        };
                        engine.open(channel, rng, &numbers, Least::of_all(minimum, BINS))
                    },
                );
                let expected = Answer::Values(vec![if product { -126 } else { 42 }]);
                let expected = match minimum {
                    0 => expected,
                    _ => Answer::TooFew,
                };
                assert_eq!(answer, [expected]);
                seen
            });
        }
    }
}

/// Both parties have strings, of 17 bytes. The peer's are texts or zeros, and other bins match.
#[test]
fn shares_of_strings_show_nothing() {
    const BYTES: usize = 17;
    const WORDS: usize = BYTES.div_ceil(8);
    for viewer in VIEWERS {
        same_distribution(|other, seed| {
            let shares = matching(viewer, if other { 0b1000_0001 } else { 0b11 });
            let column = |word: usize| -> Vec<u64> {
                let random = blocks(8 + word as u64, BINS);
                let words = random.iter().map(|block| *block as u64);
                words
                    .map(|random| if word < 2 { random } else { random & 0xff })
                    .collect()
            };
            let of = |text: &dyn Fn(usize) -> u64| Payloads {
                string: (0..WORDS)
                    .map(|word| {
                        let words = column(word).into_iter().enumerate();
                        Zeroizing::new(words.map(|(i, word)| word ^ text(i)).collect())
                    })
                    .collect(),
                ..Payloads::default()
            };
            let text = |i: usize| if other { 0x61 + i as u64 } else { 0 };
            let fixed = |_: usize| 0;
            let (own, masked, masks) = match viewer {
                Viewer::Receiver => (vec![0x41; WORDS * BINS], of(&fixed), of(&text)),
                Viewer::Sender => ((0..WORDS * BINS).map(text).collect(), of(&text), of(&fixed)),
            };
            let (seen, ..) = view(
                viewer,
                seed,
                |engine, channel| {
                    let rng = &mut rng(1);
                    engine.string_of_sender(channel, rng, &shares[0], (BYTES, &masked))?;
                    engine.string_of_receiver(channel, rng, &shares[0], (BYTES, &own))
                },
                |engine, channel| {
                    let rng = &mut rng(1);
                    engine.string_of_sender(channel, rng, &shares[1], (BYTES, &masks))?;
                    engine.string_of_receiver(channel, rng, &shares[1], BYTES)
                },
            );
            seen
        });
    }
}

/// The viewer has chosen the order, or the peer has: one of two.
#[test]
fn orders_show_nothing() {
    for viewer in VIEWERS {
        same_distribution(|other, seed| {
            let shares = matching(viewer, if other { 0b1000_0001 } else { 0b11 });
            let mut order: Vec<u32> = (0..BINS as u32).collect();
            if other && viewer == Viewer::Sender {
                order.reverse();
            }
            let (seen, ..) = view(
                viewer,
                seed,
                |engine, channel| engine.permute(channel, &mut rng(1), &order, &shares[0]),
                |engine, channel| engine.permute(channel, &mut rng(seed), &shares[1]),
            );
            seen
        });
    }
}

/// The rows of the first two slots are handed over. The peer has other rows beside them, or none; or other slots match.
#[test]
fn rows_that_are_not_handed_over_show_nothing() {
    const WIDTH: Width = Width { row: 20, tag: 9 };
    for viewer in VIEWERS {
        same_distribution(|other, seed| {
            let bits = match (viewer, other) {
                (Viewer::Receiver, true) => 0b1000_0001,
                _ => 0b11,
            };
            let shares = matching(viewer, bits);
            let [first, text] = [[7; WIDTH.row], [0x61; WIDTH.row]];
            let row = |slot: usize| match (slot, other) {
                (0 | 1, _) | (2, false) => (&first[..], true),
                (_, other) => (&text[..], other),
            };
            // Twice: a bit for each slot is little to compare.
            let (seen, (), slots) = view(
                viewer,
                seed,
                |engine, channel| {
                    let rng = &mut rng(seed);
                    engine.hand_over(channel, rng, &shares[0], WIDTH, row)?;
                    engine.hand_over(channel, rng, &shares[0], WIDTH, row)
                },
                |engine, channel| {
                    let rng = &mut rng(1);
                    engine.take_over(channel, rng, &shares[1], WIDTH)?;
                    engine.take_over(channel, rng, &shares[1], WIDTH)
                },
            );
            assert!(viewer == Viewer::Receiver || slots.rows().eq([&first[..]; 2]));
            seen
        });
    }
}
