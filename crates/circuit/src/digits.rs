//! Random 1-of-2^W OTs of shared bits, the pieces of equality: pure steps.
//!
//! **Paper.** N. Chandran, D. Gupta, A. Shah, *Circuit-PSI with Linear Complexity via Relaxed Batch OPPRF*, PETS
//! 2022 (CGS22), Figure 6, steps 2 to 9, with pads from entries of a subfield VOLE.
//!
//! **Shape.** For one digit of a bin the value end has up to three digits y_c, the choice end one digit v. The
//! value end wants shares s_c, and the choice end s_c ⊕ \[v = y_c\].
//!
//! 1. *Pads.* Of one entry over GF(2^W) the value end has Y and Δ, the choice end X and Z = Y + X·Δ. The pad of element u
//!    is H(Y + u·Δ). The choice end knows that of X, which is H(Z), and no other.
//! 2. *Correction.* The choice end sends d = v + X, W bits.
//! 3. *Table.* Entry w of the table is s_c ⊕ \[w = y_c\] ⊕ (bit c of the pad of w + d). The value end chooses s_c such
//!    that entry 0 is zero, and sends the other entries: 2^w − 1 for digits of w bits, which may be fewer than W.
//! 4. *Choice.* The choice end takes entry v and removes the pad of v + d = X.
//!
//! **Conjunctions.** Bits that are shared as s ⊕ r are all one iff r is the complement of s: up to W of them are ANDed by
//! one more such transfer. So the tree above the digits of a string takes about one entry for W − 1 of them ([`levels`]).
//! A digit of one bit needs none: \[v = y\] is y ⊕ 1 plus v. Its shares are what each side has, so this is left to levels
//! above which another transfer makes shares anew; a test of one bit in all takes a transfer.
//!
//! **Why the pads are uniform.** H(x) = π(x) ⊕ x has a key for each tile, which is one digit of a [`PIECE`] of bins
//! ([`TileHash`](vesica_primitives::block::TileHash)). An entry serves one table, and tiles of digits and of conjunctions
//! differ like all others. The pads that the choice end lacks are H(Y + u·Δ) for u ≠ X. The first element of such an input
//! is u, since that of Y is 0 and that of Δ is 1. So two of a tile meet only if u is the same and two Y, which are
//! pseudorandom, are equal: 2^23 pairs of entries of a tile meet with a probability of at most 2^-101, or 2^-100
//! over GF(8). Each input by itself has the entropy of Δ, 124 bits over GF(16) and 123 over GF(8). (There two bits
//! of every input are 0, so that of the hash they are those of π alone: to invert π takes all others.) These are
//! the events that the proof of correlation robustness of MMO has to exclude (C. Guo, J. Katz, X. Wang, Y. Yu, S&P
//! 2020). What a pad masks does not depend on Δ but for pads of lower levels, which are under other keys and are
//! replaced by uniform bits first; so the linear orthomorphism of the circular case is left out.
//! Hashing W COTs one by one and adding the hashes would be unsound: the pads of u, u + 1, u + 2 and u + 3 would cancel,
//! and four table entries would show whether y_c is among them.
//!
//! **Why the zero entry is sound.** Given the view of the choice end before step 3, the 2^W − 1 pads that it lacks are
//! uniform, and so is s_c in Figure 6. There the table is 2^w bits: the entry of v is (share of the choice end) ⊕
//! (pad of X), and the others are uniform. Here s_c is fixed by entry 0. If v ≠ 0, entry 0 contains a pad that the
//! choice end lacks and nothing else uses, so s_c is uniform as before, and what is sent has the same distribution
//! as the figure's table ⊕ its entry 0. If v = 0, the share of the choice end is the pad of X, which is uniform and
//! known to it before the step; s_c is that share ⊕ \[v = y_c\], and the entries sent are masked by the other
//! pads. In both cases the table is simulated by uniform bits, and the pad of X is drawn such that the share
//! comes out right. For the value end, s_c = \[0 = y_c\] ⊕ (bit c of the pad of d) is uniform over its entries Y,
//! and the share of the choice end is s_c ⊕ \[v = y_c\] whatever they are: d is simulated by a uniform element, or by
//! nothing where none is sent, and Y by drawing it until it gives s_c.
//!
//! **Drawn strings.** Where the choice end may have any uniform strings, it takes the X of their digits, before it needs
//! them: then d is 0, and nothing is sent in step 2. X is as uniform to the value end as the entries are pseudorandom, which
//! is assumed of all of them that are given out. A digit of w < W bits is the low w bits of its X, and the other bits
//! of X are sent, as d. Nothing else changes, and in the argument above d was nothing but uniform noise.
//!
//! **Why shares can be digits.** In a conjunction y and v are shares from the level below. Either side knows its own
//! before the transfer, d is uniform because X is, and the table is simulated without y: the argument above holds for any
//! y and v, however they depend on each other.
//!
//! **Adversary.** Semi-honest. The value end sees d, uniform because X is. **Cost** per digit of w bits: one entry, W
//! bits from the choice end, 2^w − 1 bits per candidate from the value end, 2^W + 1 evaluations of AES.

use vesica_correlations::subfield::Subfield;
use vesica_primitives::block::Block;
use vesica_primitives::parallel;
use zeroize::{DefaultIsZeroes, Zeroizing};

use crate::bits::BitShares;
use crate::cots::{Entries, WIDTH};
use crate::messages::{BitReader, BitWriter};

/// Maximum number of bits of a string.
pub const MAX_BITS: u32 = 128;

/// Bins of one frame; a multiple of 64. One digit of these is a tile of entries, which are hashed under one key.
pub(crate) const PIECE: usize = 1 << 12;

/// Pads under one key that the choice end lacks.
pub const PADS_PER_KEY: usize = PIECE * ((1 << WIDTH) - 1);

/// The digits of every bin in one round of transfers: of a string, or of the conjunctions of one level of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Level<const W: u32> {
    /// Bits of each digit.
    widths: Vec<u32>,
    /// Tables per digit.
    candidates: usize,
    /// Whether the digits of the choice end are drawn.
    is_drawn: bool,
}

/// `bits` bits in digits of W bits, lowest first, the last one perhaps shorter.
fn widths<const W: u32>(bits: usize) -> impl Iterator<Item = u32> + Clone {
    let whole = bits / W as usize;
    let rest = (bits % W as usize) as u32;
    std::iter::repeat_n(W, whole).chain((rest > 0).then_some(rest))
}

/// The levels of a membership test of strings of `bits` bits, which the choice end has, or draws.
///
/// # Panics
/// If `bits` is not between 1 and [`MAX_BITS`].
pub(crate) fn levels<const W: u32>(bits: u32, candidates: usize, is_drawn: bool) -> Vec<Level<W>> {
    assert!((1..=MAX_BITS).contains(&bits));
    let widths_of_string = widths::<W>(bits as usize).collect();
    let mut levels = vec![Level {
        widths: widths_of_string,
        candidates,
        is_drawn,
    }];
    let mut rows = levels[0].widths.len();
    while rows > 1 {
        let one = widths::<W>(rows);
        let widths: Vec<u32> = (0..candidates).flat_map(|_| one.clone()).collect();
        rows = widths.len() / candidates;
        levels.push(Level {
            widths,
            candidates: 1,
            is_drawn: false,
        });
    }
    levels
}

impl<const W: u32> Level<W> {
    /// Number of digits, local ones included.
    fn digits(&self) -> usize {
        self.widths.len()
    }

    /// Tables per digit.
    pub(crate) fn candidates(&self) -> usize {
        self.candidates
    }

    /// The row of shares for a digit and a candidate.
    pub(crate) fn row(&self, candidate: usize, digit: usize) -> usize {
        candidate * self.digits() + digit
    }

    /// The digits that take a transfer, with their widths.
    fn transferred(&self) -> impl Iterator<Item = (usize, u32)> {
        let is_local = |width| width == 1 && self.widths.len() > 1;
        let all = self.widths.iter().copied().enumerate();
        all.filter(move |(_, width)| !is_local(*width))
    }

    /// The digits of one bit that take none.
    pub(crate) fn local(&self) -> impl Iterator<Item = usize> {
        let all = self.widths.iter().enumerate();
        let several = self.widths.len() > 1;
        all.filter_map(move |(digit, width)| (several && *width == 1).then_some(digit))
    }

    /// Entries per bin.
    pub(crate) fn entries(&self) -> usize {
        self.transferred().count()
    }

    /// The place of the lowest bit that is sent of the correction of a digit of so many bits: those below are 0.
    fn sent_from(&self, width: u32) -> u32 {
        if self.is_drawn { width } else { 0 }
    }

    /// Bits of the corrections of a bin.
    pub(crate) fn choice_bits(&self) -> usize {
        let bits = self
            .transferred()
            .map(|(_, width)| W - self.sent_from(width));
        bits.sum::<u32>() as usize
    }

    /// Bits of the tables of a bin.
    pub(crate) fn table_bits(&self) -> usize {
        let bits = self.transferred().map(|(_, width)| (1 << width) - 1);
        self.candidates * bits.sum::<usize>()
    }

    /// Words of the pads of one digit of so many bins at the value end.
    pub(crate) fn pad_words(&self, bins: usize) -> usize {
        self.candidates * bins.div_ceil(per_word(W))
    }
}

/// Digit number `digit` of a string. Bits beyond its last digit are not cleared.
#[inline(always)]
pub(crate) fn digit_of_string<const W: u32>(string: Block, digit: usize) -> u8 {
    (string >> (W as usize * digit)) as u8
}

/// Groups of 2^W bits in a word.
const fn per_word(width: u32) -> usize {
    64 >> width
}

/// Groups of 2^W bits in words. Such a word has the pads of as many tables, one bit of each, or as many digits.
struct Groups<const W: u32>;

impl<const W: u32> Groups<W> {
    /// Bits of a group.
    const BITS: u32 = 1 << W;

    /// The lowest bit of each group.
    const FIRST: u64 = u64::MAX / ((1 << Self::BITS) - 1);

    /// Ones in all groups of which `bits` has the lowest bit.
    #[inline(always)]
    fn fill(bits: u64) -> u64 {
        (bits << Self::BITS).wrapping_sub(bits)
    }

    /// Digits of so many bits, apart.
    #[inline(always)]
    fn spread(digits: u64, bits: u32) -> u64 {
        (0..per_word(W) as u32).fold(0, |apart, g| {
            apart | (digits >> (bits * g) & ((1 << bits) - 1)) << (Self::BITS * g)
        })
    }

    /// Bit u of each group becomes bit u + `by` of it, where `by` has a digit per group.
    #[inline(always)]
    fn permute(mut pads: u64, by: u64) -> u64 {
        const LOW: [u64; 4] = [
            0x5555_5555_5555_5555,
            0x3333_3333_3333_3333,
            0x0f0f_0f0f_0f0f_0f0f,
            0x00ff_00ff_00ff_00ff,
        ];
        for (j, low) in LOW.into_iter().take(W as usize).enumerate() {
            let swapped = pads >> (1 << j) & low | (pads & low) << (1 << j);
            pads ^= (pads ^ swapped) & Self::fill(by >> j & Self::FIRST);
        }
        pads
    }
}

/// u·Δ for all elements u.
pub(crate) fn multiples<const W: u32>(delta: Block) -> Zeroizing<Vec<Block>> {
    let elements = 0..Subfield::<W>::ORDER;
    let multiple = |u| Subfield::<W>::multiple(u as u8, delta & Subfield::<W>::ENTRY);
    Zeroizing::new(elements.map(multiple).collect())
}

/// Step 1 at the value end: the pads of whole tiles, one after another.
pub(crate) fn hash_tables(entries: &Entries, tiles: usize, multiples: &[Block], pads: &mut [u64]) {
    let each = entries.rows.len() / tiles;
    let words = pads.len() / tiles;
    let tiles = pads.chunks_mut(words).zip(entries.rows.chunks(each));
    parallel::each(tiles.enumerate(), |(tile, (pads, rows))| {
        entries.tile(tile).hash_bits(multiples, rows, pads);
    });
}

/// What the choice end keeps of a transfer: X in the low four bits, its pads in the others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chosen(u8);

impl DefaultIsZeroes for Chosen {}

/// Where the pads of [`Chosen`] begin.
const PADS: u32 = 4;

/// Step 1 at the choice end: whole tiles, one after another. The pads are the highest bits of the hashes.
pub(crate) fn hash_choices<const W: u32>(entries: &Entries, tiles: usize, chosen: &mut [Chosen]) {
    let each = entries.rows.len() / tiles;
    let tiles = chosen.chunks_mut(each).zip(entries.rows.chunks(each));
    parallel::each(tiles.enumerate(), |(tile, (chosen, rows))| {
        let mut hashes = Zeroizing::new(rows.to_vec());
        entries.tile(tile).feed_forward(&mut hashes);
        for ((chosen, hash), row) in chosen.iter_mut().zip(&*hashes).zip(rows) {
            let pads = (hash >> 124) as u8;
            *chosen = Chosen(Subfield::<W>::first(*row) | pads.reverse_bits());
        }
    });
}

impl Chosen {
    /// X.
    fn element<const W: u32>(self) -> u8 {
        self.0 & ((1 << W) - 1) as u8
    }
}

/// The strings of a piece that are drawn with these choices. Bits of no transfer are those of `random`, a block for each bin.
pub(crate) fn drawn<const W: u32>(
    level: &Level<W>,
    chosen: &[Chosen],
    random: &[Block],
    strings: &mut [Block],
) {
    for local in level.local() {
        for (string, random) in strings.iter_mut().zip(random) {
            *string |= (random & 1) << (W as usize * local);
        }
    }
    for ((number, width), chosen) in level.transferred().zip(chosen.chunks(strings.len())) {
        let mask = (1 << width) - 1;
        for (string, chosen) in strings.iter_mut().zip(chosen) {
            let digit = chosen.element::<W>() & mask;
            *string |= Block::from(digit) << (W as usize * number);
        }
    }
}

/// Step 2: the corrections of a piece of `bins` bins that begins with bin `from`, digit by digit. `digit` has a digit of a
/// bin.
pub(crate) fn corrections<const W: u32>(
    level: &Level<W>,
    chosen: &[Chosen],
    (from, bins): (usize, usize),
    digit: impl Fn(usize, usize) -> u8,
) -> Vec<u8> {
    let mut writer = BitWriter::with_capacity(bins * level.choice_bits());
    for ((number, width), chosen) in level.transferred().zip(chosen.chunks(bins)) {
        let (mask, low) = ((1 << width) - 1, level.sent_from(width));
        if low == W {
            continue;
        }
        for (group, first) in chosen
            .chunks(per_word(W))
            .zip((from..).step_by(per_word(W)))
        {
            let packed = group
                .iter()
                .enumerate()
                .rev()
                .fold(0, |packed, (i, chosen)| {
                    let correction = digit(number, first + i) & mask ^ chosen.element::<W>();
                    packed << (W - low) | u64::from(correction >> low)
                });
            writer.push(packed, (W - low) * group.len() as u32);
        }
    }
    writer.finish()
}

/// Shares of bits of each bin: those of the digits of a level, which are the digits of the next.
pub(crate) struct Shares<const W: u32> {
    bins: usize,
    /// Bits per candidate.
    rows: usize,
    /// For each candidate and each W of its rows a byte per bin.
    bytes: Zeroizing<Vec<u8>>,
}

impl<const W: u32> Shares<W> {
    /// Shares that are 0, for the digits of a level of a test of `candidates` candidates.
    pub(crate) fn new(level: &Level<W>, candidates: usize, bins: usize) -> Self {
        let rows = level.digits() * level.candidates / candidates;
        let bytes = candidates * rows.div_ceil(W as usize) * bins;
        Shares {
            bins,
            rows,
            bytes: Zeroizing::new(vec![0; bytes]),
        }
    }

    /// Shares that are 0, for so many of the bins.
    pub(crate) fn piece(&self, bins: usize) -> Self {
        Shares {
            bins,
            rows: self.rows,
            bytes: Zeroizing::new(vec![0; self.bytes.len() / self.bins * bins]),
        }
    }

    /// Adds shares of the bins from `from` on.
    pub(crate) fn add(&mut self, from: usize, piece: &Self) {
        let rows = self.bytes.chunks_mut(self.bins);
        for (all, added) in rows.zip(piece.bytes.chunks(piece.bins)) {
            for (byte, added) in all[from..].iter_mut().zip(added) {
                *byte |= added;
            }
        }
    }

    /// Adds the bits of a row of a candidate, both in one number.
    #[inline(always)]
    fn row(&mut self, row: usize) -> impl FnMut(usize, u8) {
        let (candidate, row) = (row / self.rows, row % self.rows);
        let (byte, place) = (row / W as usize, row % W as usize);
        let first = (candidate * self.rows.div_ceil(W as usize) + byte) * self.bins;
        let bytes = &mut self.bytes[first..][..self.bins];
        move |bin, bit| bytes[bin] |= bit << place
    }

    /// Number of bins.
    pub(crate) fn bins(&self) -> usize {
        self.bins
    }

    /// Digit number `digit` of a bin.
    #[inline(always)]
    pub(crate) fn digit(&self, digit: usize, bin: usize) -> u8 {
        self.bytes[digit * self.bins + bin]
    }

    /// The sums over all candidates, of one row each.
    pub(crate) fn sum(&self) -> BitShares {
        let candidates = || self.bytes.chunks_exact(self.bins);
        BitShares::from_fn(self.bins, |i| {
            candidates().fold(0, |sum, bytes| sum ^ u64::from(bytes[i]))
        })
    }

    /// Adds a row of shares that take no transfer, for all bins.
    pub(crate) fn local(&mut self, row: usize, bit: impl Fn(usize) -> u8) {
        let bins = self.bins;
        let mut set = self.row(row);
        (0..bins).for_each(|bin| set(bin, bit(bin) & 1));
    }
}

/// Step 3: the tables of a piece that begins with bin `from`, without their entries 0, and the shares of the value end,
/// which are added to `shares`. `digit` has the digits of each candidate.
pub(crate) fn tables<const W: u32>(
    level: &Level<W>,
    pads: &[u64],
    corrections: &[u8],
    (from, bins): (usize, usize),
    digit: impl Fn(usize, usize, usize) -> u8,
    mut shares: Shares<W>,
) -> (Vec<u8>, Shares<W>) {
    let words = bins.div_ceil(per_word(W));
    let counts = || {
        (0..bins)
            .step_by(per_word(W))
            .map(|i| per_word(W).min(bins - i))
    };
    let mut corrections = BitReader::new(corrections);
    let mut writer = BitWriter::with_capacity(bins * level.table_bits());
    let mut by = vec![0; words];
    for ((number, width), pads) in level.transferred().zip(pads.chunks(level.pad_words(bins))) {
        let low = level.sent_from(width);
        for (by, count) in by.iter_mut().zip(counts()) {
            *by = match W - low {
                0 => 0,
                sent => Groups::<W>::spread(corrections.next(sent * count as u32), sent) << low,
            };
        }
        let (mask, sent) = ((1 << width) - 1, (1 << width) - 1);
        for (c, pads) in pads.chunks(words).enumerate() {
            let mut set = shares.row(level.row(c, number));
            for (word, ((pads, by), count)) in pads.iter().zip(&by).zip(counts()).enumerate() {
                let first = per_word(W) * word;
                let own = (0..count).fold(0, |own, g| {
                    let digit = digit(c, number, from + first + g) & mask;
                    own | 1 << (Groups::<W>::BITS * g as u32 + u32::from(digit))
                });
                let table = Groups::<W>::permute(*pads, *by) ^ own;
                let share = table & Groups::<W>::FIRST;
                // With share 1 every entry changes.
                let table = table ^ Groups::<W>::fill(share);
                let packed = (0..count as u32).fold(0, |packed, g| {
                    let entries = table >> (Groups::<W>::BITS * g + 1) & ((1 << sent) - 1);
                    set(
                        first + g as usize,
                        (share >> (Groups::<W>::BITS * g)) as u8 & 1,
                    );
                    packed | entries << (sent * g)
                });
                writer.push(packed, sent * count as u32);
            }
        }
    }
    (writer.finish(), shares)
}

/// Step 4: the shares of the choice end, for a piece that begins with bin `from`, added to `shares`.
pub(crate) fn choose<const W: u32>(
    level: &Level<W>,
    chosen: &[Chosen],
    tables: &[u8],
    (from, bins): (usize, usize),
    digit: impl Fn(usize, usize) -> u8,
    mut shares: Shares<W>,
) -> Shares<W> {
    let mut tables = BitReader::new(tables);
    for ((number, width), chosen) in level.transferred().zip(chosen.chunks(bins)) {
        let (mask, sent) = ((1 << width) - 1, (1 << width) - 1);
        for c in 0..level.candidates {
            let mut set = shares.row(level.row(c, number));
            for (group, first) in chosen.chunks(per_word(W)).zip((0..).step_by(per_word(W))) {
                let packed = tables.next(sent * group.len() as u32);
                for (g, chosen) in group.iter().enumerate() {
                    let value = digit(number, from + first + g) & mask;
                    let table = (packed >> (sent * g as u32) & ((1 << sent) - 1)) << 1;
                    let pad = chosen.0 >> (PADS as usize + c);
                    set(first + g, ((table >> value) as u8 ^ pad) & 1);
                }
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups_are_permuted<const W: u32>(pads: u64, by: u64) {
        let size = Groups::<W>::BITS;
        let spread = Groups::<W>::spread(by, W);
        let permuted = Groups::<W>::permute(pads, spread);
        for g in 0..64 / size {
            let by = (by >> (W * g)) as u32 & ((1 << W) - 1);
            assert_eq!(spread >> (size * g) & ((1 << size) - 1), u64::from(by));
            for u in 0..size {
                let [to, from] = [u, u ^ by].map(|u| size * g + u);
                assert_eq!(permuted >> to & 1, pads >> from & 1);
            }
        }
    }

    proptest! {
        #[test]
        fn pads_are_permuted_by_addition(pads: u64, by: u64) {
            groups_are_permuted::<2>(pads, by);
            groups_are_permuted::<3>(pads, by);
            groups_are_permuted::<4>(pads, by);
        }
    }

    fn strings_are_cut_completely_by<const W: u32>() {
        for bits in 1..=MAX_BITS {
            let levels = levels::<W>(bits, 1, false);
            let widths = &levels[0].widths;
            assert_eq!(widths.iter().sum::<u32>(), bits);
            assert!(widths.iter().all(|width| (1..=W).contains(width)));
            let string = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834 & (u128::MAX >> (128 - bits));
            let digit = |digit: usize| {
                let mask = (1 << widths[digit]) - 1;
                u128::from(digit_of_string::<W>(string, digit) & mask)
            };
            let back = (0..widths.len()).fold(0, |sum, d| sum | digit(d) << (W as usize * d));
            assert_eq!(back, string);
        }
    }

    #[test]
    fn strings_are_cut_completely() {
        strings_are_cut_completely_by::<2>();
        strings_are_cut_completely_by::<3>();
        strings_are_cut_completely_by::<4>();
    }

    /// Every level takes the rows of the one before, and the last one leaves one per candidate.
    #[test]
    fn levels_follow_each_other() {
        for bits in 1..=MAX_BITS {
            for candidates in [1, 3] {
                let levels = levels::<4>(bits, candidates, false);
                let rows = |level: &Level<4>| level.digits() * level.candidates;
                for pair in levels.windows(2) {
                    let bits: u32 = pair[1].widths.iter().sum();
                    assert_eq!(bits as usize, rows(&pair[0]));
                    assert!(pair[1].entries() > 0);
                }
                assert_eq!(rows(levels.last().unwrap()), candidates);
            }
        }
    }
}
