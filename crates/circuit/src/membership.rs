//! Equality and membership of strings, one per bin, with XOR-shared results.
//!
//! **Paper.** CGS22, Figure 6 (PSM1): is the one string of a bin among the three candidates of the other side? With
//! one candidate that is equality. P₀, who holds the candidates, is the PSI receiver: the relaxed OPPRF gives them
//! to it. It holds Δ and builds the tables, each for all candidates at once. P₁ is the PSI sender.
//!
//! **Steps.** Level by level ([`crate::digits`]), first the digits of the strings, then those of the conjunctions
//! (steps 10 to 16), which each candidate has by itself: the pads of a window of bins are made first, in piece order,
//! then one message flow goes from P₁ to P₀ with corrections and one back with tables. Step 17 adds up the candidates.
//! They must be distinct where one can match: two equal ones would cancel.
//!
//! Where the strings of P₁ may be any uniform ones, it [draws](ChoiceEnd::draw) them along with the entries of their
//! digits, which both take before: then the first level needs no corrections but for a last digit of fewer bits.
//!
//! **Adversary.** Semi-honest. What each side sees is uniform: see [`crate::digits`].
//!
//! **Memory.** At most 32 MiB per window for pads and half of that for corrections; for each candidate and bin a byte
//! for W digits, and for W of these; a megabyte of entries. What is drawn before is kept: 30 bytes for each candidate of
//! 60 bits at P₀, and 15 for each bin at P₁.

use rand_core::CryptoRng;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::cots::{COTS, ChoiceEnd, ValueEnd, WINDOW_BYTES};
use crate::digits::{Chosen, Level, PIECE, Shares, digit_of_string, levels, multiples};
use crate::digits::{choose, corrections, drawn, hash_choices, hash_tables, tables};
use crate::messages::{DIGITS, TABLES, receive_bits};

/// Bins of a window, whole pieces of them.
pub(crate) fn window<const W: u32>(level: &Level<W>) -> usize {
    let per_piece = size_of::<u64>() * level.entries() * level.pad_words(PIECE);
    WINDOW_BYTES / per_piece * PIECE
}

/// The pieces of some bins: the first bin of each, and how many it has.
pub(crate) fn pieces(start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
    (start..end)
        .step_by(PIECE)
        .map(move |from| (from, PIECE.min(end - from)))
}

/// The tiles of a piece that are taken from a source at once.
pub(crate) fn takes<const W: u32>(level: &Level<W>, bins: usize) -> impl Iterator<Item = usize> {
    let most = COTS / bins;
    let entries = level.entries();
    (0..entries)
        .step_by(most)
        .map(move |first| most.min(entries - first))
}

/// What is compared: the low bits of one string in each bin with its candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Number of bins.
    pub bins: usize,
    /// Bits of a string, 1 to 128.
    pub bits: u32,
    /// Candidates of a bin.
    pub candidates: usize,
}

/// The pads of strings that the choice end draws, window by window.
pub struct DrawnPads {
    of: Compared,
    windows: Vec<Zeroizing<Vec<u64>>>,
}

vesica_primitives::opaque!(DrawnPads);

/// Strings that were drawn, and the choices that they are made of, window by window.
pub struct Drawn {
    of: Compared,
    windows: Vec<Zeroizing<Vec<Chosen>>>,
    strings: Zeroizing<Vec<Block>>,
}

vesica_primitives::opaque!(Drawn);

impl Drawn {
    /// A uniform string for each bin.
    pub fn strings(&self) -> &[Block] {
        &self.strings
    }
}

/// The windows of all bins, each with its first one and the first one after it.
pub(crate) fn windows<const W: u32>(
    level: &Level<W>,
    bins: usize,
) -> impl Iterator<Item = (usize, usize)> + use<W> {
    let each = window(level);
    (0..bins)
        .step_by(each)
        .map(move |start| (start, bins.min(start + each)))
}

impl<const W: u32> ValueEnd<W> {
    /// Takes the entries of strings that the choice end draws.
    pub(crate) fn draw(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        of: Compared,
    ) -> Result<DrawnPads, Error> {
        let level = &levels::<W>(of.bits, of.candidates, true)[0];
        let pads = |window| self.table_pads(channel, rng, level, window, of.bins);
        let windows = windows(level, of.bins).map(pads);
        let windows = windows.collect::<Result<_, _>>()?;
        Ok(DrawnPads { of, windows })
    }

    /// Shares of whether string i of the choice end is among `candidates[i]`, by their `bits` low bits.
    pub(crate) fn membership<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        candidates: &[[Block; C]],
    ) -> Result<BitShares, Error> {
        self.test(channel, rng, bits, candidates, None)
    }

    /// The same of strings that the choice end has drawn.
    ///
    /// # Panics
    /// If they were drawn for other bins or candidates.
    pub(crate) fn membership_of_drawn<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        drawn: DrawnPads,
        candidates: &[[Block; C]],
    ) -> Result<BitShares, Error> {
        let DrawnPads { of, windows } = drawn;
        assert_eq!([of.bins, of.candidates], [candidates.len(), C]);
        self.test(channel, rng, of.bits, candidates, Some(windows))
    }

    fn test<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        candidates: &[[Block; C]],
        drawn: Option<Vec<Zeroizing<Vec<u64>>>>,
    ) -> Result<BitShares, Error> {
        let levels = levels::<W>(bits, C, drawn.is_some());
        let of_string =
            |c: usize, digit, bin: usize| digit_of_string::<W>(candidates[bin][c], digit);
        let (first, shares) = (&levels[0], Shares::new(&levels[0], C, candidates.len()));
        let mut shares = self.transfers(channel, rng, first, drawn, of_string, shares)?;
        for level in &levels[1..] {
            let complement = |_, digit, bin| !shares.digit(digit, bin);
            let next = Shares::new(level, C, candidates.len());
            shares = self.transfers(channel, rng, level, None, complement, next)?;
        }
        Ok(shares.sum())
    }

    /// Fills in the shares of which digits of a level are equal. Its pads may have been made before.
    fn transfers(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        level: &Level<W>,
        drawn: Option<Vec<Zeroizing<Vec<u64>>>>,
        digit: impl Fn(usize, usize, usize) -> u8 + Sync,
        mut shares: Shares<W>,
    ) -> Result<Shares<W>, Error> {
        let bins = shares.bins();
        for c in 0..level.candidates() {
            for local in level.local() {
                shares.local(level.row(c, local), |bin| digit(c, local, bin) ^ 1);
            }
        }
        let mut drawn = drawn.map(Vec::into_iter);
        for (start, end) in windows(level, bins) {
            let pads = match &mut drawn {
                Some(drawn) => drawn.next().expect("as many windows"),
                None => self.table_pads(channel, rng, level, (start, end), bins)?,
            };
            let mut frames = Vec::new();
            for (_, count) in pieces(start, end) {
                frames.push(match level.choice_bits() {
                    0 => Vec::new(),
                    bits => receive_bits(channel, DIGITS, count * bits)?,
                });
            }
            let pads = pads.chunks(level.entries() * level.pad_words(PIECE));
            let all: Vec<_> = pieces(start, end).zip(pads.zip(&frames)).collect();
            for at_once in all.chunks(rayon::current_num_threads()) {
                let made = parallel::map(at_once.iter(), |(piece, (pads, corrections))| {
                    let own = shares.piece(piece.1);
                    tables(level, pads, corrections, *piece, &digit, own)
                });
                for (((from, _), _), (message, own)) in at_once.iter().zip(made) {
                    shares.add(*from, &own);
                    channel.send(TABLES, message)?;
                }
            }
        }
        Ok(shares)
    }

    /// Step 1 of the transfers: all pads of a window, piece by piece and digit by digit.
    fn table_pads(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        level: &Level<W>,
        (start, end): (usize, usize),
        bins: usize,
    ) -> Result<Zeroizing<Vec<u64>>, Error> {
        let words = |(_, count)| level.entries() * level.pad_words(count);
        let mut pads = Zeroizing::new(vec![0; pieces(start, end).map(words).sum()]);
        let multiples = multiples::<W>(self.delta());
        let mut rest = &mut pads[..];
        for (from, count) in pieces(start, end) {
            for tiles in takes(level, count) {
                let taken;
                (taken, rest) = rest.split_at_mut(tiles * level.pad_words(count));
                let entries = self.entries(channel, rng, tiles, count)?;
                hash_tables(&entries, tiles, &multiples, taken);
            }
            channel.progress((from + count) as u64, bins as u64);
        }
        Ok(pads)
    }
}

impl<const W: u32> ChoiceEnd<W> {
    /// The other side of [`ValueEnd::draw`].
    pub(crate) fn draw(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        of: Compared,
    ) -> Result<Drawn, Error> {
        let level = &levels::<W>(of.bits, of.candidates, true)[0];
        let mut strings = Zeroizing::new(vec![0; of.bins]);
        let mut random = Zeroizing::new(vec![0; of.bins]);
        if level.local().next().is_some() {
            Prg::random(rng).fill(&mut random);
        }
        let mut all = Vec::new();
        for (start, end) in windows(level, of.bins) {
            let chosen = self.table_choices(channel, rng, level, (start, end), of.bins)?;
            let each = chosen.chunks(level.entries() * PIECE);
            for ((from, count), chosen) in pieces(start, end).zip(each) {
                let here = from..from + count;
                drawn(level, chosen, &random[here.clone()], &mut strings[here]);
            }
            all.push(chosen);
        }
        Ok(Drawn {
            of,
            windows: all,
            strings,
        })
    }

    /// The other side of [`ValueEnd::membership`], with strings of its own.
    pub(crate) fn membership<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        strings: &[Block],
    ) -> Result<BitShares, Error> {
        self.test::<C>(channel, rng, bits, strings, None)
    }

    /// The other side of [`ValueEnd::membership`], with strings that it has drawn.
    ///
    /// # Panics
    /// If they were drawn for another number of candidates.
    pub(crate) fn membership_of_drawn<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        drawn: Drawn,
    ) -> Result<BitShares, Error> {
        let Drawn {
            of,
            windows,
            strings,
        } = drawn;
        assert_eq!(of.candidates, C);
        self.test::<C>(channel, rng, of.bits, &strings, Some(windows))
    }

    fn test<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        strings: &[Block],
        drawn: Option<Vec<Zeroizing<Vec<Chosen>>>>,
    ) -> Result<BitShares, Error> {
        let levels = levels::<W>(bits, C, drawn.is_some());
        let of_string = |digit, bin: usize| digit_of_string::<W>(strings[bin], digit);
        let (first, shares) = (&levels[0], Shares::new(&levels[0], C, strings.len()));
        let mut shares = self.transfers(channel, rng, first, drawn, of_string, shares)?;
        for level in &levels[1..] {
            let own = |digit, bin| shares.digit(digit, bin);
            let next = Shares::new(level, C, strings.len());
            shares = self.transfers(channel, rng, level, None, own, next)?;
        }
        Ok(shares.sum())
    }

    /// The other side of [`ValueEnd::transfers`].
    fn transfers(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        level: &Level<W>,
        drawn: Option<Vec<Zeroizing<Vec<Chosen>>>>,
        digit: impl Fn(usize, usize) -> u8 + Sync,
        mut shares: Shares<W>,
    ) -> Result<Shares<W>, Error> {
        let bins = shares.bins();
        for c in 0..level.candidates() {
            for local in level.local() {
                shares.local(level.row(c, local), |bin| digit(local, bin));
            }
        }
        let mut drawn = drawn.map(Vec::into_iter);
        for (start, end) in windows(level, bins) {
            let chosen = match &mut drawn {
                Some(drawn) => drawn.next().expect("as many windows"),
                None => self.table_choices(channel, rng, level, (start, end), bins)?,
            };
            let chosen = chosen.chunks(level.entries() * PIECE);
            let all: Vec<_> = pieces(start, end).zip(chosen).collect();
            let corrected = match level.choice_bits() {
                0 => &[][..],
                _ => &all,
            };
            for at_once in corrected.chunks(rayon::current_num_threads()) {
                let messages = parallel::map(at_once.iter(), |(piece, chosen)| {
                    corrections(level, chosen, *piece, &digit)
                });
                for message in messages {
                    channel.send(DIGITS, message)?;
                }
            }
            for at_once in all.chunks(rayon::current_num_threads()) {
                let bits = |piece: &(usize, usize)| piece.1 * level.table_bits();
                let frames = at_once
                    .iter()
                    .map(|(piece, _)| receive_bits(channel, TABLES, bits(piece)));
                let frames = frames.collect::<Result<Vec<_>, _>>()?;
                let chosen = at_once.iter().zip(&frames);
                let chosen = parallel::map(chosen, |((piece, chosen), tables)| {
                    let own = shares.piece(piece.1);
                    choose(level, chosen, tables, *piece, &digit, own)
                });
                for (((from, _), _), own) in at_once.iter().zip(&chosen) {
                    shares.add(*from, own);
                }
            }
        }
        Ok(shares)
    }

    /// Step 1 of the transfers: the choices and their pads, piece by piece and digit by digit.
    fn table_choices(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        level: &Level<W>,
        (start, end): (usize, usize),
        bins: usize,
    ) -> Result<Zeroizing<Vec<Chosen>>, Error> {
        let mut chosen = Zeroizing::new(vec![Chosen::default(); level.entries() * (end - start)]);
        let mut rest = &mut chosen[..];
        for (from, count) in pieces(start, end) {
            for tiles in takes(level, count) {
                let taken;
                (taken, rest) = rest.split_at_mut(tiles * count);
                let entries = self.entries(channel, rng, tiles, count)?;
                hash_choices::<W>(&entries, tiles, taken);
            }
            channel.progress((from + count) as u64, bins as u64);
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cots::{Direction, WIDTH};
    use crate::harness::{SESSION, SIZES, blocks, engines, opened};
    use proptest::prelude::*;
    use vesica_correlations::ideal;
    use vesica_correlations::subfield::FromCots;
    use vesica_testing::{honest, misbehaviour, rng, try_both};
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

    /// A test with digits of W bits.
    fn test<const W: u32, const C: usize>(
        bits: u32,
        ours: &[[Block; C]],
        theirs: &[Block],
    ) -> Vec<bool> {
        let (main, chosen) = ideal::cots(1);
        let mut value = ValueEnd::<W>::new(Direction::Main, &SESSION, FromCots::new(main));
        let mut choice = ChoiceEnd::<W>::new(Direction::Main, &SESSION, FromCots::new(chosen));
        let (one, two) = honest(
            |channel| value.membership(channel, &mut rng(1), bits, ours),
            |channel| choice.membership::<C>(channel, &mut rng(2), bits, theirs),
        );
        opened(&one, &two)
    }

    fn equal(bits: u32, ours: &[[Block; 1]], theirs: &[Block]) -> Vec<bool> {
        test::<WIDTH, 1>(bits, ours, theirs)
    }

    fn among(bits: u32, ours: &[[Block; 3]], theirs: &[Block]) -> Vec<bool> {
        test::<WIDTH, 3>(bits, ours, theirs)
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

    /// Tests of strings that are drawn, with candidates that are made of them.
    fn found_of_drawn<const W: u32, const C: usize>(count: usize, bits: u32) {
        let (main, chosen) = ideal::cots(bits.into());
        let mut value = ValueEnd::<W>::new(Direction::Main, &SESSION, FromCots::new(main));
        let mut choice = ChoiceEnd::<W>::new(Direction::Main, &SESSION, FromCots::new(chosen));
        let of = Compared {
            bins: count,
            bits,
            candidates: C,
        };
        let (pads, drawn) = honest(
            |channel| value.draw(channel, &mut rng(1), of),
            |channel| choice.draw(channel, &mut rng(2), of),
        );
        assert!(
            drawn
                .strings()
                .iter()
                .all(|string| bits == 128 || string >> bits == 0)
        );
        let place = |i: usize| (i % (C + 1) < C).then_some(i % (C + 1));
        let candidates: Vec<[Block; C]> = (0..count)
            .map(|i| {
                std::array::from_fn(|c| {
                    let other = 1 << ((i + c) % bits as usize);
                    drawn.strings()[i] ^ if place(i) == Some(c) { 0 } else { other }
                })
            })
            .collect();
        let (one, two) = honest(
            |channel| value.membership_of_drawn(channel, &mut rng(3), pads, &candidates),
            |channel| choice.membership_of_drawn::<C>(channel, &mut rng(4), drawn),
        );
        let expected: Vec<bool> = (0..count).map(|i| place(i).is_some()).collect();
        assert_eq!(opened(&one, &two), expected, "{W} {C} {bits} {count}");
    }

    #[test]
    fn drawn_strings_are_found() {
        for bits in [1, 2, 3, 4, 5, 7, 8, 31, 61, 62, 63, 64, 65, 128] {
            for count in SIZES.into_iter().filter(|n| *n < 4000 || bits == 61) {
                found_of_drawn::<WIDTH, 1>(count, bits);
            }
            found_of_drawn::<3, 1>(100, bits);
            if bits > 3 {
                found_of_drawn::<WIDTH, 3>(130, bits);
                found_of_drawn::<2, 3>(130, bits);
            }
        }
        let windows = window(&levels::<WIDTH>(61, 1, true)[0]) + 65;
        found_of_drawn::<WIDTH, 1>(windows, 61);
    }

    /// Every bit of what is drawn is a fair coin, that of a digit of one bit too.
    #[test]
    fn drawn_strings_are_uniform() {
        for bits in [61, 63, 64] {
            let (_, chosen) = ideal::cots(bits.into());
            let mut choice =
                ChoiceEnd::<WIDTH>::new(Direction::Main, &SESSION, FromCots::new(chosen));
            let of = Compared {
                bins: 4000,
                bits,
                candidates: 1,
            };
            let (mut channel, _peer) = memory_pair();
            let drawn = choice.draw(&mut channel, &mut rng(5), of).unwrap();
            for bit in 0..bits {
                let ones = drawn
                    .strings()
                    .iter()
                    .filter(|string| **string >> bit & 1 == 1);
                // Six standard deviations.
                assert!(ones.count().abs_diff(2000) < 190, "bit {bit}");
            }
        }
    }

    #[test]
    fn windows_follow_each_other() {
        let count = window(&levels::<WIDTH>(128, 3, false)[0]) + 65;
        let (ours, theirs) = bins::<3>(count, 128, |i| (i % 5 == 0).then_some(i % 3));
        let expected: Vec<bool> = (0..count).map(|i| i % 5 == 0).collect();
        assert!(among(128, &ours, &theirs) == expected);
    }

    /// Strings of some bits, mostly equal, and candidates that differ.
    fn is_membership<const W: u32>(bits: u32, pairs: &[(u128, u128, u8)]) {
        let low = |a: u128| a << (128 - bits);
        let theirs: Vec<u128> = pairs.iter().map(|(a, _, _)| *a).collect();
        let own = |(a, b, place): &(u128, u128, u8)| [if *place < 3 { *a } else { *b }];
        let ours: Vec<[u128; 1]> = pairs.iter().map(own).collect();
        let same = |([a], b): (&[u128; 1], &u128)| low(*a) == low(*b);
        let expected: Vec<bool> = ours.iter().zip(&theirs).map(same).collect();
        assert_eq!(test::<W, 1>(bits, &ours, &theirs), expected);
        // One candidate equals the string at most.
        let own = |(a, b, place): &(u128, u128, u8)| {
            [0, 1, 2].map(|c| match c == *place {
                true => *a,
                false => a ^ 1 ^ b << 1,
            })
        };
        let ours: Vec<[u128; 3]> = pairs.iter().map(own).collect();
        let expected: Vec<bool> = pairs.iter().map(|(_, _, place)| *place < 3).collect();
        assert_eq!(test::<W, 3>(bits, &ours, &theirs), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn membership_is_that_of_the_low_bits_by_digits_of_any_width(
            bits in 1u32..=128,
            pairs in prop::collection::vec((any::<u128>(), any::<u128>(), 0u8..5), 0..90),
        ) {
            is_membership::<2>(bits, &pairs);
            is_membership::<3>(bits, &pairs);
            is_membership::<4>(bits, &pairs);
        }
    }

    /// Bins of the runs whose frames are spoilt: odd, so that no frame fills its last byte.
    const SPOILT: usize = 71;

    /// What both parties say when frame `frame` of one of them is spoilt.
    fn spoilt(
        receiver_spoils: bool,
        frame: usize,
        spoil: Spoil,
    ) -> (Result<BitShares, Error>, Result<BitShares, Error>) {
        let mut engines = engines(1);
        let (ours, theirs) = bins::<1>(SPOILT, 61, |i| (i % 2 == 0).then_some(0));
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
        let (digits, tables) = (DIGITS.name, TABLES.name);
        for (receiver_spoils, frame, what, bits) in [
            (false, 0, digits, 15 * 4),
            (true, 0, tables, 15 * 15),
            (false, 1, digits, 4 * 4),
            (true, 1, tables, 4 * 15),
            (false, 2, digits, 4),
            (true, 2, tables, 15usize),
        ] {
            let bytes = (SPOILT * bits).div_ceil(8);
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
            (false, 0, DIGITS, SPOILT * 60),
            (true, 0, TABLES, SPOILT * 225),
            (true, 1, TABLES, SPOILT * 60),
            (false, 2, DIGITS, SPOILT * 4),
            (true, 2, TABLES, SPOILT * 15),
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
        let expected: Vec<bool> = (0..SPOILT).map(|i| i % 2 == 0).collect();
        for receiver_spoils in [false, true] {
            for frame in 0..3 {
                let (one, two) = spoilt(receiver_spoils, frame, Spoil::FlipBit(4));
                let found = opened(&one.unwrap(), &two.unwrap());
                let wrong = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
                assert!(wrong <= 1, "{wrong} bins");
            }
        }
    }
}
