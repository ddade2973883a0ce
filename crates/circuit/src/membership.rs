//! Equality and membership of strings, one per bin, with XOR-shared results.
//!
//! **Paper.** CGS22, Figure 6 (PSM1): is the one string of a bin among the three candidates of the other side? With
//! one candidate that is equality. P₀, who holds the candidates, is the PSI receiver: the relaxed OPPRF gives them
//! to it. It holds Δ and builds the tables, each for all candidates at once. P₁ is the PSI sender.
//!
//! **Steps.** The pads of a window of bins are made first, in piece order, then one message flow goes from P₁ to P₀
//! with corrections and one back with tables (see [`crate::digits`]). The AND tree (steps 10 to 16) then runs once
//! over all bins, and step 17 adds up the candidates. They must be distinct where one can match: two equal ones
//! would cancel.
//!
//! **Adversary.** Semi-honest. What each side sees is uniform: see [`crate::digits`] and [`crate::triples`].
//!
//! **Memory.** At most 32 MiB per window for pads and 16 MiB for corrections; 2 bits per digit, candidate and bin
//! for shares and 3 for triples; one piece of COTs.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::cots::{COTS, ChoiceEnd, ValueEnd, WINDOW_BYTES};
use crate::digits::{Chosen, Layout, Pads, PieceShares, choose, corrections, hash_choices};
use crate::digits::{hash_tables, tables};
use crate::messages::{DIGITS, TABLES, receive_bits};
use crate::triples::{Party, conjunctions};

/// Bins of one frame; a multiple of 64.
pub(crate) const PIECE: usize = 1 << 12;

/// Bins of a window, whole pieces of them.
pub(crate) fn window(layout: Layout, candidates: usize) -> usize {
    let per_bin = 2 * candidates * layout.digits();
    WINDOW_BYTES / per_bin / PIECE * PIECE
}

/// The runs of digits of a piece that have one width: (width, tables).
fn runs(layout: Layout, bins: usize) -> impl Iterator<Item = (u32, usize)> {
    let last = layout.digits() - 1;
    [(layout.width(0), last * bins), (layout.width(last), bins)].into_iter()
}

/// Shares as they come in, piece by piece: one row of bits per candidate and digit.
struct Rows(Vec<Zeroizing<Vec<u64>>>);

impl Rows {
    fn new(rows: usize, bins: usize) -> Self {
        let row = || Zeroizing::new(Vec::with_capacity(bins.div_ceil(64)));
        Rows((0..rows).map(|_| row()).collect())
    }

    fn append(&mut self, piece: &PieceShares) {
        for (row, piece) in self.0.iter_mut().zip(piece) {
            row.extend_from_slice(piece);
        }
    }

    /// One group of rows per candidate.
    fn groups(self, digits: usize, bins: usize) -> Vec<Vec<BitShares>> {
        let candidates = self.0.len() / digits;
        let rows = self.0.into_iter();
        let mut rows = rows.map(|words| BitShares::from_words(words, bins));
        let group = |_| rows.by_ref().take(digits).collect();
        (0..candidates).map(group).collect()
    }
}

/// Steps 10 to 17: the AND tree of each candidate, and the sum.
fn finish(
    party: &mut impl Party,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    groups: Vec<Vec<BitShares>>,
    bins: usize,
) -> Result<BitShares, Error> {
    let mut sum = BitShares::zeros(bins);
    for equal in conjunctions(party, channel, rng, groups, bins)? {
        sum.add(&equal);
    }
    Ok(sum)
}

impl ValueEnd {
    /// Shares of whether string i of the choice end is among `candidates[i]`, by their `bits` low bits.
    pub(crate) fn membership<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        candidates: &[[Block; C]],
    ) -> Result<BitShares, Error> {
        let layout = Layout::new(bits);
        let bins = candidates.len();
        let mut rows = Rows::new(C * layout.digits(), bins);
        for candidates in candidates.chunks(window(layout, C)) {
            let mut pads = self.table_pads::<C>(channel, rng, layout, candidates.len())?;
            let mut frames = Vec::new();
            for piece in candidates.chunks(PIECE) {
                let bits = layout.choice_bits(piece.len());
                frames.push(receive_bits(channel, DIGITS, bits)?);
            }
            let mut rest = &mut pads[..];
            for (piece, corrections) in candidates.chunks(PIECE).zip(&frames) {
                let pads;
                (pads, rest) = rest.split_at_mut(layout.digits() * piece.len());
                let (message, shares) = tables(layout, pads, corrections, piece);
                channel.send(TABLES, message)?;
                rows.append(&shares);
            }
        }
        let groups = rows.groups(layout.digits(), bins);
        finish(self, channel, rng, groups, bins)
    }

    /// Step 1 of the transfers: all pads of a window, piece by piece and digit by digit.
    fn table_pads<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        layout: Layout,
        bins: usize,
    ) -> Result<Zeroizing<Vec<Pads<C>>>, Error> {
        let mut pads = Zeroizing::new(vec![[0; C]; layout.digits() * bins]);
        let delta = Zeroizing::new(self.delta());
        let mut rest = &mut pads[..];
        for start in (0..bins).step_by(PIECE) {
            for (width, count) in runs(layout, PIECE.min(bins - start)) {
                let run;
                (run, rest) = rest.split_at_mut(count);
                for pads in run.chunks_mut(COTS / width as usize) {
                    let batch = self.take(channel, rng, pads.len(), width as usize)?;
                    hash_tables(&batch, *delta, width, pads);
                }
            }
            channel.progress((start + PIECE).min(bins) as u64, bins as u64);
        }
        Ok(pads)
    }
}

impl ChoiceEnd {
    /// The other side of [`ValueEnd::membership`].
    pub(crate) fn membership<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        strings: &[Block],
    ) -> Result<BitShares, Error> {
        let layout = Layout::new(bits);
        let bins = strings.len();
        let mut rows = Rows::new(C * layout.digits(), bins);
        for strings in strings.chunks(window(layout, C)) {
            let chosen = self.table_choices(channel, rng, layout, strings.len())?;
            let pieces = || {
                let chosen = chosen.chunks(layout.digits() * PIECE);
                strings.chunks(PIECE).zip(chosen)
            };
            for (strings, chosen) in pieces() {
                channel.send(DIGITS, corrections(layout, chosen, strings))?;
            }
            for (strings, chosen) in pieces() {
                let bits = C * layout.table_bits(strings.len());
                let tables = receive_bits(channel, TABLES, bits)?;
                rows.append(&choose::<C>(layout, chosen, &tables, strings));
            }
        }
        let groups = rows.groups(layout.digits(), bins);
        finish(self, channel, rng, groups, bins)
    }

    /// Step 1 of the transfers: the choices and their pads, piece by piece and digit by digit.
    fn table_choices(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        layout: Layout,
        bins: usize,
    ) -> Result<Zeroizing<Vec<Chosen>>, Error> {
        let mut chosen = Zeroizing::new(vec![Chosen::default(); layout.digits() * bins]);
        let mut rest = &mut chosen[..];
        for start in (0..bins).step_by(PIECE) {
            for (width, count) in runs(layout, PIECE.min(bins - start)) {
                let run;
                (run, rest) = rest.split_at_mut(count);
                for chosen in run.chunks_mut(COTS / width as usize) {
                    let batch = self.take(channel, rng, chosen.len(), width as usize)?;
                    hash_choices(&batch, width, chosen);
                }
            }
            channel.progress((start + PIECE).min(bins) as u64, bins as u64);
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{SIZES, blocks, engines, opened, run};
    use crate::messages::GATES;
    use proptest::prelude::*;
    use vesica_testing::{misbehaviour, rng, try_both};
    use vesica_wire::{Misbehaviour, Spoil, Tamper, memory_pair};

    /// Strings of the sender, and candidates of the receiver among which each is or is not.
    fn bins<const C: usize>(
        count: usize,
        bits: u32,
        place: impl Fn(usize) -> Option<usize>,
    ) -> (Vec<[Block; C]>, Vec<Block>) {
        let strings = blocks(3, count);
        let random = blocks(4, 2 * C * count);
        let candidates = (0..count).map(|i| {
            std::array::from_fn(|c| {
                let mut candidate =
                    strings[i] ^ 1 << (random[(C + c) * count + i] % Block::from(bits));
                if place(i) == Some(c) {
                    candidate = strings[i];
                }
                // What is beyond the compared bits does not count.
                candidate ^ (random[c * count + i] << 1 << (bits - 1))
            })
        });
        (candidates.collect(), strings)
    }

    fn equal(bits: u32, ours: &[[Block; 1]], theirs: &[Block]) -> Vec<bool> {
        let (one, two) = run(
            1,
            |engine, channel| engine.equality(channel, &mut rng(1), bits, ours.as_flattened()),
            |engine, channel| engine.equality(channel, &mut rng(2), bits, theirs),
        );
        opened(&one, &two)
    }

    fn among(bits: u32, ours: &[[Block; 3]], theirs: &[Block]) -> Vec<bool> {
        let (one, two) = run(
            2,
            |engine, channel| engine.membership(channel, &mut rng(1), bits, ours),
            |engine, channel| engine.membership(channel, &mut rng(2), bits, theirs),
        );
        opened(&one, &two)
    }

    #[test]
    fn strings_that_differ_in_one_bit_are_not_equal() {
        for bits in [1, 2, 3, 4, 5, 7, 8, 31, 61, 64, 65, 128] {
            for count in SIZES.into_iter().filter(|n| *n < 4000 || bits == 61) {
                let matching = |i: usize| (i % 3 == 1).then_some(0);
                let (ours, theirs) = bins::<1>(count, bits, matching);
                let expected: Vec<bool> = (0..count).map(|i| matching(i).is_some()).collect();
                assert_eq!(
                    equal(bits, &ours, &theirs),
                    expected,
                    "{bits} bits, {count}"
                );
            }
        }
    }

    #[test]
    fn all_and_none_are_equal() {
        for (place, expected) in [(Some(0), true), (None, false)] {
            let (ours, theirs) = bins::<1>(130, 61, |_| place);
            assert_eq!(equal(61, &ours, &theirs), vec![expected; 130]);
        }
        // The same digits in all bins.
        for (ours, theirs) in [
            (0, 0),
            (u128::MAX, u128::MAX),
            (0, u128::MAX),
            (0, 1 << 127),
        ] {
            let found = equal(128, &vec![[ours]; 65], &vec![theirs; 65]);
            assert_eq!(found, vec![ours == theirs; 65]);
        }
    }

    #[test]
    fn a_string_is_found_among_three() {
        for bits in [1, 4, 61, 64, 128] {
            for count in SIZES.into_iter().filter(|n| *n < 4000 || bits == 64) {
                let place = |i: usize| (i % 4 < 3).then_some(i % 4);
                let (mut ours, theirs) = bins::<3>(count, bits, place);
                if bits == 1 {
                    // Three candidates of one bit cannot differ: two that do not match.
                    ours.iter_mut().enumerate().for_each(|(i, candidates)| {
                        *candidates =
                            [0, 1, 2].map(|c| theirs[i] ^ Block::from(place(i) != Some(c)));
                    });
                }
                let expected: Vec<bool> = (0..count).map(|i| place(i).is_some()).collect();
                assert_eq!(
                    among(bits, &ours, &theirs),
                    expected,
                    "{bits} bits, {count}"
                );
            }
        }
    }

    #[test]
    fn windows_follow_each_other() {
        let layout = Layout::new(128);
        let count = window(layout, 3) + 65;
        let (ours, theirs) = bins::<3>(count, 128, |i| (i % 5 == 0).then_some(i % 3));
        let expected: Vec<bool> = (0..count).map(|i| i % 5 == 0).collect();
        assert!(among(128, &ours, &theirs) == expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn equality_is_that_of_the_low_bits(
            bits in 1u32..=128,
            pairs in prop::collection::vec((any::<u128>(), any::<u128>(), any::<bool>()), 0..90),
        ) {
            let low = |a: u128| a << (128 - bits);
            let theirs: Vec<u128> = pairs.iter().map(|(a, _, _)| *a).collect();
            let own = |(a, b, same): &(u128, u128, bool)| [if *same { *a } else { *b }];
            let ours: Vec<[u128; 1]> = pairs.iter().map(own).collect();
            let same = |([a], b): (&[u128; 1], &u128)| low(*a) == low(*b);
            let expected: Vec<bool> = ours.iter().zip(&theirs).map(same).collect();
            prop_assert_eq!(equal(bits, &ours, &theirs), expected);
        }
    }

    /// What both parties say when frame `frame` of one of them is spoilt.
    fn spoilt(
        receiver_spoils: bool,
        frame: usize,
        spoil: Spoil,
    ) -> (Result<BitShares, Error>, Result<BitShares, Error>) {
        let mut engines = engines(1);
        let (ours, theirs) = bins::<1>(70, 61, |i| (i % 2 == 0).then_some(0));
        let never = Spoil::Truncate(0);
        let (near, far) = memory_pair();
        let spoils = match receiver_spoils {
            true => (spoil, never),
            false => (never, spoil),
        };
        try_both(
            (
                Tamper::new(near, frame, spoils.0),
                Tamper::new(far, frame, spoils.1),
            ),
            |channel| {
                let strings = ours.as_flattened();
                engines.receiver.equality(channel, &mut rng(1), 61, strings)
            },
            |channel| engines.sender.equality(channel, &mut rng(2), 61, &theirs),
        )
    }

    #[test]
    fn frames_of_wrong_length_are_refused() {
        let wrong = |what, bytes| Misbehaviour::WrongLength { what, bytes };
        let long = |what, max| Misbehaviour::TooLong {
            what,
            bytes: max + 1,
            max,
        };
        let (digits, tables, gates) = (DIGITS.name, TABLES.name, GATES.name);
        for (receiver_spoils, frame, what, bytes) in [
            (false, 0, digits, (70usize * 61).div_ceil(8)),
            (true, 0, tables, (70 * (15 * 15 + 1usize)).div_ceil(8)),
            (false, 1, gates, 8 * 2 * 9),
            (true, 1, gates, 8 * 2 * 9),
            (true, 4, gates, 2 * 9),
        ] {
            let victim = |spoil| {
                let (receiver, sender) = spoilt(receiver_spoils, frame, spoil);
                misbehaviour(if receiver_spoils { sender } else { receiver })
            };
            assert_eq!(victim(Spoil::Truncate(1)), wrong(what, bytes - 1));
            assert_eq!(victim(Spoil::Replace(Vec::new())), wrong(what, 0));
            assert_eq!(victim(Spoil::Extend(vec![0])), long(what, bytes as u64));
        }
    }

    #[test]
    fn stray_bits_are_refused() {
        for (receiver_spoils, frame, kind, bit) in [
            (false, 0, DIGITS, 70 * 61),
            (true, 0, TABLES, 70 * 226),
            (true, 1, GATES, 70),
            (false, 1, GATES, 72 + 71),
            (false, 4, GATES, 71),
        ] {
            let (receiver, sender) = spoilt(receiver_spoils, frame, Spoil::FlipBit(bit));
            let victim = if receiver_spoils { sender } else { receiver };
            let stray = Misbehaviour::BadValue {
                what: kind.name,
                problem: "bits are set beyond the last one",
            };
            assert_eq!(misbehaviour(victim), stray);
        }
    }

    #[test]
    fn a_flipped_bit_changes_values_and_nothing_else() {
        let expected: Vec<bool> = (0..70).map(|i| i % 2 == 0).collect();
        for receiver_spoils in [false, true] {
            for frame in 0..5 {
                let (one, two) = spoilt(receiver_spoils, frame, Spoil::FlipBit(4));
                let found = opened(&one.unwrap(), &two.unwrap());
                let wrong = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
                assert!(wrong <= 1, "{wrong} bins");
            }
        }
    }
}
