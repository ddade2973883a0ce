//! What operations cost, but for framing and for the messages of the sources. COTs, entries and bytes are exact.

use std::ops::Add;

use vesica_correlations::ole::lattice::inner_product;

use crate::arithmetic::{self, Elements, LONG_BITS, LONG_WINDOW, Ring, Row};
use crate::compare::{gate_words, gates};
use crate::cots::WIDTH;
use crate::digits;
use crate::functions::{Number, signed_size_ring, size_ring};
use crate::membership::window;
use crate::messages::PACKED;
use crate::network::switches;
use crate::rows::Width;

/// COTs, entries, bytes and message flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// COTs of the main direction, which the PSI receiver sends.
    pub cots: usize,
    /// Entries of the main direction.
    pub entries: usize,
    /// COTs of the reverse direction.
    pub reverse_cots: usize,
    /// Bytes that the PSI receiver sends.
    pub receiver_bytes: usize,
    /// Bytes that the PSI sender sends.
    pub sender_bytes: usize,
    /// Messages on the longest chain in which each waits for the one before: the one-way delays of the network that an
    /// operation takes. An upper bound, one above the truth where a step begins with the party that ended the step
    /// before.
    pub flows: usize,
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            cots: self.cots + other.cots,
            entries: self.entries + other.entries,
            reverse_cots: self.reverse_cots + other.reverse_cots,
            receiver_bytes: self.receiver_bytes + other.receiver_bytes,
            sender_bytes: self.sender_bytes + other.sender_bytes,
            flows: self.flows + other.flows,
        }
    }
}

/// Bytes of `rows` rows of `bits` bits in frames of `piece` rows.
fn framed(rows: usize, bits: usize, piece: usize) -> usize {
    rows / piece * (piece * bits).div_ceil(8) + (rows % piece * bits).div_ceil(8)
}

/// [`crate::Receiver::equality`] of strings of `bits` bits.
pub fn equality(bins: usize, bits: u32) -> Cost {
    transfers::<WIDTH>(bins, bits, 1, false)
}

/// [`crate::Receiver::membership`] of strings of `bits` bits among three candidates.
pub fn membership(bins: usize, bits: u32) -> Cost {
    transfers::<WIDTH>(bins, bits, 3, false)
}

/// A test among so many candidates by digits of W bits, of strings of so many bits that may be drawn.
pub fn transfers<const W: u32>(bins: usize, bits: u32, candidates: usize, is_drawn: bool) -> Cost {
    let levels = digits::levels::<W>(bits, candidates, is_drawn);
    let costs = levels.iter().map(|level| Cost {
        entries: bins * level.entries(),
        receiver_bytes: framed(bins, level.table_bits(), digits::PIECE),
        sender_bytes: framed(bins, level.choice_bits(), digits::PIECE),
        flows: bins.div_ceil(window(level)) * (1 + usize::from(level.choice_bits() > 0)),
        ..Cost::default()
    });
    costs.fold(Cost::default(), Cost::add)
}

/// Products of values by bits, seen by the end that has the values as if it were the receiver.
fn products(bins: usize, group: impl Elements) -> Cost {
    Cost {
        cots: bins,
        receiver_bytes: framed(bins, group.bits(), group.piece()),
        sender_bytes: framed(bins, 1, group.piece()),
        flows: 2 * bins.div_ceil(group.window()),
        ..Cost::default()
    }
}

/// The same in the reverse direction, between two operations of the main one: its first message goes along with the
/// last one before, and its last with the first one after.
fn reversed(cost: Cost) -> Cost {
    Cost {
        cots: cost.reverse_cots,
        reverse_cots: cost.cots,
        entries: 0,
        receiver_bytes: cost.sender_bytes,
        sender_bytes: cost.receiver_bytes,
        flows: cost.flows.saturating_sub(2),
    }
}

/// Products of values of both parties by the same bits, in both directions at the same time.
fn both_ways(bins: usize, group: impl Elements) -> Cost {
    let of = products(bins, group);
    Cost {
        reverse_cots: of.cots,
        receiver_bytes: of.receiver_bytes + of.sender_bytes,
        sender_bytes: of.receiver_bytes + of.sender_bytes,
        ..of
    }
}

/// A row of so many values, and under a minimum a bit for each that says whether it adds to a number.
fn payloads(columns: usize, minimum: u64) -> Row {
    let bits = if minimum == 0 { 0 } else { columns };
    Row::of(columns, Ring::FULL).with_bits(bits)
}

/// One inner product of two private vectors by homomorphic encryption. Its answer goes along with the sender's first
/// message after it.
fn encrypted(bins: usize) -> Cost {
    let [receiver_bytes, sender_bytes] = inner_product::bytes(bins);
    Cost {
        receiver_bytes,
        sender_bytes,
        flows: 1,
        ..Cost::default()
    }
}

/// One inner product of two private vectors by COTs.
fn inner(bins: usize) -> Cost {
    Cost {
        cots: 64 * bins,
        receiver_bytes: bins * LONG_BITS / 8,
        sender_bytes: 8 * bins,
        flows: 2 * bins.div_ceil(LONG_WINDOW),
        ..Cost::default()
    }
}

/// Bins of a run, or of one of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Bins {
    /// Those of the part.
    pub here: usize,
    /// Those of all parts, which are counted together.
    pub all: usize,
    /// How far noise reaches in what is counted.
    pub span: u64,
}

/// A run without parts.
impl From<usize> for Bins {
    fn from(all: usize) -> Bins {
        Bins {
            here: all,
            all,
            span: 0,
        }
    }
}

impl Bins {
    /// The ring of a count that is compared.
    fn count_ring(self) -> Ring {
        signed_size_ring(self.all, self.span)
    }
}

/// A comparison of so many counts of all bins in so many sets.
fn comparison(bins: Bins, counts: usize, sets: usize) -> Cost {
    let ring = bins.count_ring();
    let gates = gates(ring, counts, sets);
    let bytes = gates.iter().map(|(rows, bits)| 2 * rows * bits.div_ceil(8));
    let bytes = bytes.sum();
    Cost {
        cots: 128 * gate_words(ring, counts, sets),
        receiver_bytes: bytes,
        sender_bytes: bytes,
        flows: gates.len(),
        ..Cost::default()
    }
}

/// The shares of a stash's places from those of bins, and of the fields of the sender's payloads there.
pub(crate) fn fold(bins: usize, places: usize, fields: impl Iterator<Item = Row>) -> Cost {
    let of = |group: Row| products(places * bins, group);
    let bits = both_ways(places * bins, Ring::new(1));
    fields
        .map(|group| reversed(of(group)))
        .fold(bits, Cost::add)
}

/// [`crate::Receiver::open`] of these numbers, in so many sets.
pub fn open(bins: impl Into<Bins>, numbers: &[Number], minimum: u64, sets: usize) -> Cost {
    let bins = bins.into();
    if numbers.is_empty() {
        return Cost::default();
    }
    let bits: u32 = numbers.iter().map(|number| number.ring().bits()).sum();
    let bits = bits as usize + if minimum > 0 { sets } else { 0 };
    let opening = Cost {
        sender_bytes: bits.div_ceil(8),
        flows: 1,
        ..Cost::default()
    };
    match minimum {
        0 => opening,
        // A size is counted where there is nothing else.
        _ => {
            let counted = numbers.iter().filter(|number| number.is_counted());
            let counts = match counted.count() {
                0 => numbers.len(),
                counts => counts,
            };
            comparison(bins, counts, sets)
                + products(numbers.len(), Ring::FULL)
                + inner(numbers.len())
                + opening
        }
    }
}

/// [`crate::Receiver::sizes`], of so many columns.
pub fn sizes(bins: impl Into<Bins>, columns: usize, minimum: u64) -> Cost {
    let bins = bins.into();
    let ring = match minimum {
        0 => size_ring(bins.all, bins.span),
        _ => bins.count_ring(),
    };
    products(bins.here, Row::of(columns, ring))
}

/// [`crate::Receiver::matches`], or the same over all parts of a run.
pub fn matches(bins: impl Into<Bins>) -> Cost {
    let bins = bins.into();
    let Bins { here, all, .. } = bins;
    let gates = Cost {
        cots: 128 * here.div_ceil(64),
        receiver_bytes: 2 * here.div_ceil(8),
        sender_bytes: 2 * here.div_ceil(8),
        flows: 1,
        ..Cost::default()
    };
    let opened = Cost {
        sender_bytes: framed(here, 1, PACKED),
        flows: here.min(1),
        ..Cost::default()
    };
    let part = products(here, bins.count_ring()) + gates + opened;
    let parts = all.checked_div(here).unwrap_or(1);
    std::iter::repeat_n(part, parts).fold(comparison(bins, 1, 1), Cost::add)
}

/// [`crate::Receiver::shares_of_receiver`].
pub fn shares_of_receiver(bins: usize, columns: usize) -> Cost {
    products(bins, payloads(columns, 0))
}

/// [`crate::Receiver::shares_of_sender`].
pub fn shares_of_sender(bins: usize, columns: usize) -> Cost {
    both_ways(bins, payloads(columns, 0))
}

/// [`crate::Receiver::string_of_receiver`], of so many bytes.
pub fn string_of_receiver(bins: usize, bytes: usize) -> Cost {
    products(bins, Row::of_bytes(bytes))
}

/// [`crate::Receiver::string_of_sender`], of so many bytes.
pub fn string_of_sender(bins: usize, bytes: usize) -> Cost {
    both_ways(bins, Row::of_bytes(bytes))
}

/// The counts of bins that match and add to each of the sender's payloads.
fn counts_of_sender(bins: Bins, columns: usize, minimum: u64) -> Cost {
    match minimum {
        0 => Cost::default(),
        _ => products(columns * bins.here, bins.count_ring()),
    }
}

/// [`crate::Receiver::sums_of_receiver`].
pub fn sums_of_receiver(bins: impl Into<Bins>, columns: usize, minimum: u64) -> Cost {
    let bins = bins.into();
    let counts = match minimum {
        0 => Cost::default(),
        _ => products(bins.here, Row::of(columns, bins.count_ring())),
    };
    shares_of_receiver(bins.here, columns) + counts
}

/// [`crate::Receiver::sums_of_sender`].
pub fn sums_of_sender(bins: impl Into<Bins>, columns: usize, minimum: u64) -> Cost {
    let bins = bins.into();
    both_ways(bins.here, payloads(columns, minimum)) + counts_of_sender(bins, columns, minimum)
}

/// [`crate::Receiver::permute`].
pub fn permutation(bits: usize) -> Cost {
    let switches = switches(bits);
    let settings = framed(switches, 1, PACKED);
    Cost {
        reverse_cots: switches,
        receiver_bytes: settings,
        sender_bytes: settings + framed(bits, 1, PACKED),
        flows: switches.min(1) + bits.min(1),
        ..Cost::default()
    }
}

/// [`crate::Receiver::hand_over`].
pub fn rows(slots: usize, width: Width) -> Cost {
    Cost {
        cots: slots,
        receiver_bytes: slots * width.bytes(),
        sender_bytes: framed(slots, 1, width.window()),
        flows: 2 * slots.div_ceil(width.window()),
        ..Cost::default()
    }
}

/// [`crate::Receiver::inner_product`].
pub fn inner_product(bins: impl Into<Bins>, minimum: u64, lambda: u32) -> Cost {
    let bins = bins.into();
    let product = match arithmetic::by_lattice(bins.here, lambda) {
        true => encrypted(bins.here),
        false => inner(bins.here),
    };
    both_ways(bins.here, payloads(1, minimum)) + product + counts_of_sender(bins, 1, minimum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{Least, OpensMatches};
    use crate::harness::{blocks, measured};
    use crate::membership::Compared;
    use crate::{BitShares, Payloads};
    use vesica_testing::rng;
    use vesica_wire::{Channel, Error};
    use zeroize::Zeroizing;

    const SIZES: [usize; 6] = [0, 1, 63, 64, 65, 4200];

    #[track_caller]
    fn check(found: Cost, said: Cost) {
        let flows = found.flows;
        assert_eq!(found, Cost { flows, ..said });
        assert!(
            flows <= said.flows && said.flows <= flows + 1,
            "{flows} of {}",
            said.flows
        );
    }

    /// Opens the matches of three parts if at least five bins match.
    fn in_parts<E: OpensMatches>(
        engine: &mut E,
        channel: &mut dyn Channel,
        seed: u64,
        bits: &BitShares,
    ) -> Result<(), Error> {
        let rng = &mut rng(seed);
        let counts = (0..3).map(|_| engine.count(channel, rng, bits));
        let count = counts.sum::<Result<u64, _>>()?;
        let enough = engine.enough(channel, rng, count, (5, 3 * bits.len()))?;
        (0..3).try_for_each(|_| engine.open_matches(channel, rng, bits, &enough).map(drop))
    }

    /// The table of the crate's documentation.
    #[test]
    fn costs_per_bin_are_those_of_the_table() {
        // One window of every operation in tests.
        let bins = 1 << 11;
        let k = 12;
        let number = open(bins, &[Number::no_sum(0)], 0, 1);
        for (cost, [entries, cots, reverse, receiver, sender, flows]) in [
            (equality(bins, 61), [20, 0, 0, 300, 80, 6]),
            (equality(bins, 63), [21, 0, 0, 307, 84, 6]),
            (equality(bins, 64), [21, 0, 0, 315, 84, 6]),
            (membership(bins, 61), [30, 0, 0, 900, 120, 6]),
            (membership(bins, 64), [31, 0, 0, 945, 124, 6]),
            (
                sizes(bins, 1, 0) + open(bins, &[Number::no_size(bins, 0, 0)], 0, 1),
                [0, 1, 0, k, 1, 3],
            ),
            (sums_of_receiver(bins, 1, 0) + number, [0, 1, 0, 64, 1, 3]),
            (sums_of_sender(bins, 1, 0) + number, [0, 1, 1, 65, 65, 3]),
            (
                super::inner_product(bins, 0, 40) + number,
                [0, 65, 1, 2145, 129, 5],
            ),
        ] {
            let per_bin = |count: usize| count / bins;
            let found = [
                per_bin(cost.entries),
                per_bin(cost.cots),
                per_bin(cost.reverse_cots),
                per_bin(8 * cost.receiver_bytes),
                per_bin(8 * cost.sender_bytes),
                cost.flows,
            ];
            assert_eq!(found, [entries, cots, reverse, receiver, sender, flows]);
        }
    }

    /// Entries and bits per bin of an equality by digits of any width: the reason for [`WIDTH`].
    #[test]
    fn other_widths_take_more_bits_or_more_entries() {
        fn per_bin<const W: u32>() -> [usize; 3] {
            let levels = digits::levels::<W>(63, 1, false);
            let sum = |of: fn(&digits::Level<W>) -> usize| levels.iter().map(of).sum();
            let bits = |level: &digits::Level<W>| level.table_bits() + level.choice_bits();
            [sum(digits::Level::entries), sum(bits), levels.len()]
        }
        assert_eq!(per_bin::<2>(), [62, 310, 6]);
        assert_eq!(per_bin::<3>(), [31, 310, 4]);
        assert_eq!(per_bin::<4>(), [21, 391, 3]);
        assert_eq!(per_bin::<8>(), [9, 2239, 2]);
    }

    #[test]
    fn equality_and_membership_cost_what_is_said() {
        for bins in SIZES {
            for bits in [1, 5, 61, 128] {
                let strings = blocks(1, bins);
                let found = measured(
                    |engine, channel| engine.equality(channel, &mut rng(1), bits, &strings),
                    |engine, channel| engine.equality(channel, &mut rng(2), bits, &strings),
                );
                check(found.2, equality(bins, bits));
            }
            // Whole digits, a last one of one bit, of two and of three.
            for bits in [1, 60, 61, 62, 63] {
                let strings = blocks(1, bins);
                let (candidates, _) = strings.as_chunks::<1>();
                let of = Compared {
                    bins,
                    bits,
                    candidates: 1,
                };
                let found = measured(
                    |engine, channel| {
                        let drawn = engine.draw(channel, &mut rng(1), of)?;
                        engine.membership_of_drawn(channel, &mut rng(1), drawn, candidates)
                    },
                    |engine, channel| {
                        let drawn = engine.draw(channel, &mut rng(2), of)?;
                        engine.membership_of_drawn::<1>(channel, &mut rng(2), drawn)
                    },
                );
                let cost = transfers::<WIDTH>(bins, bits, 1, true);
                check(found.2, cost);
                let usual = equality(bins, bits);
                assert!(cost.sender_bytes <= usual.sender_bytes);
                assert_eq!(cost.receiver_bytes, usual.receiver_bytes);
            }
            let strings = blocks(2, 3 * bins);
            let (candidates, _) = strings.as_chunks::<3>();
            let found = measured(
                |engine, channel| engine.membership(channel, &mut rng(1), 64, candidates),
                |engine, channel| engine.membership(channel, &mut rng(2), 64, &strings[..bins]),
            );
            check(found.2, membership(bins, 64));
        }
    }

    #[test]
    fn functions_cost_what_is_said() {
        // The last one crosses the edge of a window of products.
        for bins in SIZES.into_iter().chain([33_000]) {
            let bits = &BitShares::from_fn(bins, |i| i as u64);
            let values = vec![7; bins];
            let words = Zeroizing::new(vec![7; bins]);
            for (minimum, columns, span) in [
                (0, 1, 0),
                (9, 1, 0),
                (0, 2, 0),
                (9, 3, 0),
                (0, 1, 70_000),
                (9, 2, 70_000),
            ] {
                let all = Bins {
                    span,
                    ..bins.into()
                };
                let own = &vec![&values[..]; columns];
                let of = |columns| Payloads {
                    values: vec![words.clone(); columns],
                    adding: vec![words.clone(); columns],
                    ..Payloads::default()
                };
                let (payloads, payload) = (&of(columns), &of(1));
                let of = Least::of_all(minimum, bins);
                // A number at the end of a run, which is opened.
                macro_rules! opened {
                    (|$engine:ident, $rng:ident, $channel:ident| $ours:expr, $theirs:expr) => {
                        measured(
                            |$engine, $channel| {
                                $engine.span = span;
                                let $rng = &mut rng(1);
                                let numbers = $ours?;
                                $engine.open($channel, $rng, &numbers, of)
                            },
                            |$engine, $channel| {
                                $engine.span = span;
                                let $rng = &mut rng(2);
                                let numbers = $theirs?;
                                $engine.open($channel, $rng, &numbers, of)
                            },
                        )
                    };
                }
                let sums = |count| vec![Number::no_sum(minimum); count];
                let open = |count| open(all, &sums(count), minimum, 1);
                let found = opened!(
                    |engine, rng, channel| engine.size(channel, rng, bits, minimum).map(|n| [n]),
                    engine.size(channel, rng, bits, minimum).map(|n| [n])
                );
                check(
                    found.2,
                    sizes(all, 1, minimum)
                        + super::open(all, &[Number::no_size(bins, minimum, span)], minimum, 1),
                );
                let found = opened!(
                    |engine, rng, channel| engine.sums_of_receiver(
                        channel,
                        rng,
                        bits,
                        (own, &[bins]),
                        minimum
                    ),
                    engine.sums_of_receiver(channel, rng, bits, (columns, &[bins]), minimum)
                );
                check(
                    found.2,
                    sums_of_receiver(all, columns, minimum) + open(columns),
                );
                let found = opened!(
                    |engine, rng, channel| engine
                        .sums_of_sender(channel, rng, bits, payloads, minimum),
                    engine.sums_of_sender(channel, rng, bits, payloads, minimum)
                );
                check(
                    found.2,
                    sums_of_sender(all, columns, minimum) + open(columns),
                );
                let (vectors, least) = ((&values[..], payload), (minimum, 40));
                let found = opened!(
                    |engine, rng, channel| engine
                        .inner_product(channel, rng, bits, vectors, least)
                        .map(|n| [n]),
                    engine
                        .inner_product(channel, rng, bits, payload, least)
                        .map(|n| [n])
                );
                check(found.2, super::inner_product(all, minimum, 40) + open(1));
            }
            let found = measured(
                |engine, channel| engine.matches(channel, &mut rng(1), bits, 5),
                |engine, channel| engine.matches(channel, &mut rng(2), bits, 5),
            );
            check(found.2, matches(bins));
            // Parts take each step as often, and one comparison.
            let parts = Bins {
                here: bins,
                all: 3 * bins,
                span: 0,
            };
            let found = measured(
                |engine, channel| {
                    engine.parts = 3;
                    in_parts(engine, channel, 1, bits)
                },
                |engine, channel| {
                    engine.parts = 3;
                    in_parts(engine, channel, 2, bits)
                },
            );
            let said = matches(parts);
            assert_eq!(
                found.2,
                Cost {
                    flows: found.2.flows,
                    ..said
                }
            );
            assert!(
                found.2.flows <= said.flows,
                "{} of {}",
                found.2.flows,
                said.flows
            );
        }
    }

    #[test]
    fn strings_cost_what_is_said() {
        for (bins, bytes) in [(0, 9usize), (1, 1), (65, 8), (4200, 20), (9000, 256)] {
            let bits = &BitShares::from_fn(bins, |i| i as u64);
            let columns = bytes.div_ceil(8);
            let string = vec![7; columns * bins];
            let payloads = &Payloads {
                string: vec![Zeroizing::new(vec![7; bins]); columns],
                ..Payloads::default()
            };
            let own = (bytes, &string[..]);
            let found = measured(
                |engine, channel| engine.string_of_receiver(channel, &mut rng(1), bits, own),
                |engine, channel| engine.string_of_receiver(channel, &mut rng(2), bits, bytes),
            );
            check(found.2, string_of_receiver(bins, bytes));
            let theirs = (bytes, payloads);
            // The last message of the reverse direction goes along with the first one after it.
            let found = measured(
                |engine, channel| {
                    engine.string_of_sender(channel, &mut rng(1), bits, theirs)?;
                    engine.string_of_receiver(channel, &mut rng(1), bits, own)
                },
                |engine, channel| {
                    engine.string_of_sender(channel, &mut rng(2), bits, theirs)?;
                    engine.string_of_receiver(channel, &mut rng(2), bits, bytes)
                },
            );
            let both = string_of_sender(bins, bytes) + string_of_receiver(bins, bytes);
            check(found.2, both);
        }
    }

    #[test]
    fn orders_and_rows_cost_what_is_said() {
        for bits in SIZES.into_iter().chain([40_000]) {
            let shares = &BitShares::from_fn(bits, |i| i as u64);
            let order: Vec<u32> = (0..bits as u32).rev().collect();
            let found = measured(
                |engine, channel| engine.permute(channel, &mut rng(1), &order, shares),
                |engine, channel| engine.permute(channel, &mut rng(2), shares),
            );
            check(found.2, permutation(bits));
            for bytes in [1, 16, 70] {
                let width = Width::new(bytes, bits, 48);
                let found = measured(
                    |engine, channel| {
                        let row = vec![7; bytes];
                        let row = |_| (&row[..], true);
                        engine.hand_over(channel, &mut rng(1), shares, width, row)
                    },
                    |engine, channel| engine.take_over(channel, &mut rng(2), shares, width),
                );
                check(found.2, rows(bits, width));
            }
        }
    }
}
