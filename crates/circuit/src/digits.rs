//! Transfers of one out of 16 shared bits, the pieces of equality: pure steps.
//!
//! **Paper.** N. Chandran, D. Gupta, A. Shah, *Circuit-PSI with Linear Complexity via Relaxed Batch OPPRF*, PETS
//! 2022 (CGS22), Figure 6, steps 2 to 9, with digits of four bits.
//!
//! **Shape.** For one digit of a bin the value end has up to three digits y_c, the choice end one digit v. The
//! value end wants shares s_c, and the choice end s_c ⊕ \[v = y_c\].
//!
//! 1. *Pads.* Four COTs under one Δ are combined as K = Σ βⱼ·qⱼ and T = Σ βⱼ·tⱼ in GF(2^128), with βⱼ = x^j. With X
//!    = Σ xⱼ·βⱼ that is T = K ⊕ X·Δ: one COT whose choice is one of the 16 elements of the span of the βⱼ. The pad
//!    of element u is H(K ⊕ u·Δ), under one tweak for all u. The choice end knows the pad of X and no other.
//! 2. *Correction.* The choice end sends d = v ⊕ X, four bits.
//! 3. *Table.* Entry w is s_c ⊕ \[w = y_c\] ⊕ (bit c of the pad of w ⊕ d). The value end chooses s_c such that
//!    entry 0 is zero, and sends the other 15.
//! 4. *Choice.* The choice end takes entry v and removes the pad of v ⊕ d = X.
//!
//! **Why the combination is sound.** The βⱼ are independent over GF(2), so u·Δ = 0 for u = 0 alone: the 16 inputs
//! of H differ. The 15 pads that the choice end lacks are H(T ⊕ u·Δ) for u ≠ 0. Multiplication by u is a bijection,
//! so each input has the entropy of Δ, 127 bits; two inputs of different tables meet only for the one Δ = (T ⊕
//! T′)/(u ⊕ u′), or if u = u′ and T = T′, and then the tweaks differ. These are the events that the proof of TMMO
//! has to exclude; it holds as it does for u = 1, with 15 inputs per tweak in place of one. Hashing the four COTs
//! one by one and adding the hashes would be unsound: the pads of w, w ⊕ 1, w ⊕ 2 and w ⊕ 3 would cancel, and four
//! table entries would show whether y_c is among them.
//!
//! **Why the zero entry is sound.** Given the view of the choice end before step 3, the 15 pads that it lacks are
//! uniform, and so is s_c in Figure 6. There the table is 16 bits: the entry of v is (share of the choice end) ⊕
//! (pad of X), and the others are uniform. Here s_c is fixed by entry 0. If v ≠ 0, entry 0 contains a pad that the
//! choice end lacks and nothing else uses, so s_c is uniform as before, and what is sent has the same distribution
//! as the figure's table ⊕ its entry 0. If v = 0, the share of the choice end is the pad of X, which is uniform and
//! known to it before the step; s_c is that share ⊕ \[v = y_c\], and the 15 entries sent are masked by the 15 other
//! pads. In both cases the table is simulated by 15 uniform bits, and the pad of X is drawn such that the share
//! comes out right. For the value end, s_c = \[0 = y_c\] ⊕ (bit c of the pad of d) is uniform over its COTs and d,
//! and the share of the choice end is s_c ⊕ \[v = y_c\] whatever they are: COTs and d are simulated by drawing them
//! until they give s_c.
//!
//! **Adversary.** Semi-honest. The value end sees d, uniform because X is. **Cost** per digit of w bits: w COTs, w
//! bits from the choice end, 2^w − 1 bits per candidate from the value end, 2^w + 1 hashes.

use rayon::prelude::*;
use vesica_primitives::block::Block;
use zeroize::{DefaultIsZeroes, Zeroizing};

use crate::cots::Batch;
use crate::messages::{BitReader, BitWriter};

/// Bits of a digit.
const WIDTH: u32 = 4;

/// Maximum number of bits of a string.
pub const MAX_BITS: u32 = 128;

/// Tables built by one task; their inputs stay in the L1 cache.
const TASK: usize = 256;

/// One bit of each of the 16 pads of a table, for each candidate.
pub(crate) type Pads<const C: usize> = [u16; C];

/// How strings are cut into digits: four bits each, lowest first, the last one perhaps shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    bits: u32,
}

impl Layout {
    /// Strings of `bits` bits.
    ///
    /// # Panics
    /// If that is not between 1 and [`MAX_BITS`].
    pub(crate) fn new(bits: u32) -> Self {
        assert!((1..=MAX_BITS).contains(&bits));
        Layout { bits }
    }

    /// Number of digits.
    pub(crate) fn digits(self) -> usize {
        self.bits.div_ceil(WIDTH) as usize
    }

    /// Bits of digit number `digit`.
    pub(crate) fn width(self, digit: usize) -> u32 {
        WIDTH.min(self.bits - WIDTH * digit as u32)
    }

    /// Digit number `digit` of a string.
    fn digit(self, string: Block, digit: usize) -> u16 {
        (string >> (WIDTH as usize * digit)) as u16 & ((1 << self.width(digit)) - 1)
    }

    /// Bits of the corrections of `bins` strings; as many COTs.
    pub(crate) fn choice_bits(self, bins: usize) -> usize {
        bins * self.bits as usize
    }

    /// Bits of the tables of `bins` strings, for one candidate.
    pub(crate) fn table_bits(self, bins: usize) -> usize {
        let entries = |digit| (1 << self.width(digit)) - 1;
        bins * (0..self.digits()).map(entries).sum::<usize>()
    }
}

/// a·x in the tower of [`vesica_primitives::block`].
#[inline(always)]
fn double(a: Block) -> Block {
    const LOWEST: Block = 1 | 1 << 64;
    let carries = a >> 63 & LOWEST;
    (a << 1 & !(1 << 64)) ^ carries ^ carries << 1 ^ carries << 3 ^ carries << 4
}

/// Σ βⱼ·rowⱼ.
#[inline(always)]
fn combine(row: &[Block]) -> Block {
    row.iter().rev().fold(0, |sum, one| double(sum) ^ one)
}

/// u·Δ for the 2^`width` elements u of the span.
fn multiples(delta: Block, width: u32) -> Zeroizing<Vec<Block>> {
    let mut multiples = Zeroizing::new(vec![0; 1 << width]);
    let mut power = delta;
    for j in 0..width {
        let (known, new) = multiples[..2 << j].split_at_mut(1 << j);
        for (new, known) in new.iter_mut().zip(known) {
            *new = *known ^ power;
        }
        power = double(power);
    }
    multiples
}

/// Step 1 at the value end: the pads of tables of `width` bits, from as many COTs each.
pub(crate) fn hash_tables<const C: usize>(
    batch: &Batch,
    delta: Block,
    width: u32,
    pads: &mut [Pads<C>],
) {
    let multiples = multiples(delta, width);
    let per_table = width as usize;
    pads.par_chunks_mut(TASK)
        .zip(batch.rows.par_chunks(TASK * per_table))
        .enumerate()
        .for_each(|(task, (pads, rows))| {
            let mut sums = Zeroizing::new([0; TASK]);
            let mut inputs = Zeroizing::new([0; TASK]);
            let (sums, inputs) = (&mut sums[..pads.len()], &mut inputs[..pads.len()]);
            for (sum, row) in sums.iter_mut().zip(rows.chunks_exact(per_table)) {
                *sum = combine(row);
            }
            for (u, multiple) in multiples.iter().enumerate() {
                for (input, sum) in inputs.iter_mut().zip(&*sums) {
                    *input = sum ^ multiple;
                }
                batch.hash_tables(task * TASK, inputs);
                for (pads, pad) in pads.iter_mut().zip(&*inputs) {
                    for (c, bits) in pads.iter_mut().enumerate() {
                        *bits |= (*pad as u16 >> c & 1) << u;
                    }
                }
            }
        });
}

/// What the choice end keeps of a transfer: X in the low four bits, its pads in the others.
#[derive(Clone, Copy, Default)]
pub(crate) struct Chosen(u8);

impl DefaultIsZeroes for Chosen {}

/// Step 1 at the choice end.
pub(crate) fn hash_choices(batch: &Batch, width: u32, chosen: &mut [Chosen]) {
    let per_table = width as usize;
    chosen
        .par_chunks_mut(TASK)
        .zip(batch.rows.par_chunks(TASK * per_table))
        .enumerate()
        .for_each(|(task, (chosen, rows))| {
            let mut pads = Zeroizing::new([0; TASK]);
            let pads = &mut pads[..chosen.len()];
            let rows = rows.chunks_exact(per_table);
            for (pad, row) in pads.iter_mut().zip(rows.clone()) {
                *pad = combine(row);
            }
            batch.hash_tables(task * TASK, pads);
            for ((chosen, pad), row) in chosen.iter_mut().zip(&*pads).zip(rows) {
                let choice = row.iter().rev().fold(0, |x, t| x << 1 | (*t as u8 & 1));
                *chosen = Chosen(choice | (*pad as u8) << WIDTH);
            }
        });
}

/// Step 2: the corrections of a piece, digit by digit.
pub(crate) fn corrections(layout: Layout, chosen: &[Chosen], strings: &[Block]) -> Vec<u8> {
    let mut writer = BitWriter::with_capacity(layout.choice_bits(strings.len()));
    for digit in 0..layout.digits() {
        let width = layout.width(digit);
        let mask = (1 << width) - 1;
        let chosen = &chosen[digit * strings.len()..];
        for (string, chosen) in strings.iter().zip(chosen) {
            let correction = layout.digit(*string, digit) ^ (u16::from(chosen.0) & mask);
            writer.push(correction.into(), width);
        }
    }
    writer.finish()
}

/// Bit u of the result is bit u ⊕ `by` of `pads`.
#[inline(always)]
fn permute(mut pads: u16, by: u16) -> u16 {
    for (j, mask) in [0x5555, 0x3333, 0x0f0f, 0x00ff].into_iter().enumerate() {
        let shift = 1 << j;
        let swapped = (pads >> shift & mask) | (pads & mask) << shift;
        pads ^= (pads ^ swapped) & (by >> j & 1).wrapping_neg();
    }
    pads
}

/// Shares of a piece: for each candidate and digit one bit per bin, packed, in this order.
pub(crate) type PieceShares = Vec<Zeroizing<Vec<u64>>>;

fn no_shares(layout: Layout, candidates: usize, bins: usize) -> PieceShares {
    vec![Zeroizing::new(vec![0; bins.div_ceil(64)]); candidates * layout.digits()]
}

/// Step 3: the tables of a piece, without their entries 0, and the shares of the value end.
pub(crate) fn tables<const C: usize>(
    layout: Layout,
    pads: &[Pads<C>],
    corrections: &[u8],
    strings: &[[Block; C]],
) -> (Vec<u8>, PieceShares) {
    let bins = strings.len();
    let mut corrections = BitReader::new(corrections);
    let mut writer = BitWriter::with_capacity(C * layout.table_bits(bins));
    let mut shares = no_shares(layout, C, bins);
    for digit in 0..layout.digits() {
        let width = layout.width(digit);
        let entries = 1 << width;
        let pads = &pads[digit * bins..];
        for (i, (strings, pads)) in strings.iter().zip(pads).enumerate() {
            let by = corrections.next(width) as u16;
            for (c, (string, pads)) in strings.iter().zip(pads).enumerate() {
                let table = permute(*pads, by) ^ 1 << layout.digit(*string, digit);
                let share = table & 1;
                // With share 1 every entry changes; those beyond the last are cut off.
                let table = u64::from(table ^ share.wrapping_neg()) & ((1 << entries) - 1);
                writer.push(table >> 1, entries - 1);
                shares[c * layout.digits() + digit][i / 64] |= u64::from(share) << (i % 64);
            }
        }
    }
    (writer.finish(), shares)
}

/// Step 4: the shares of the choice end.
pub(crate) fn choose<const C: usize>(
    layout: Layout,
    chosen: &[Chosen],
    tables: &[u8],
    strings: &[Block],
) -> PieceShares {
    let bins = strings.len();
    let mut tables = BitReader::new(tables);
    let mut shares = no_shares(layout, C, bins);
    for digit in 0..layout.digits() {
        let entries = 1 << layout.width(digit);
        let chosen = &chosen[digit * bins..];
        for (i, (string, chosen)) in strings.iter().zip(chosen).enumerate() {
            let value = layout.digit(*string, digit);
            for c in 0..C {
                let table = tables.next(entries - 1) << 1;
                let pad = u64::from(chosen.0 >> (WIDTH as usize + c));
                let share = (table >> value ^ pad) & 1;
                shares[c * layout.digits() + digit][i / 64] |= share << (i % 64);
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_kernels::Backend;
    use vesica_kernels::binary::multiply128;

    proptest! {
        #[test]
        fn doubling_is_multiplication_by_x(a: u128) {
            prop_assert_eq!(double(a), multiply128(Backend::Best, a, 2));
        }

        #[test]
        fn combined_cots_are_cots(q: [u128; 4], x in 0usize..16, delta: u128) {
            let chosen = |j: usize| (x as u128 >> j & 1).wrapping_neg();
            let t: [u128; 4] = std::array::from_fn(|j| q[j] ^ (delta & chosen(j)));
            let multiples = multiples(delta, 4);
            prop_assert_eq!(combine(&q) ^ combine(&t), multiples[x]);
            prop_assert_eq!(multiples[x], multiply128(Backend::Best, delta, x as u128));
        }

        #[test]
        fn pads_are_permuted_by_addition(pads: u16, by in 0u16..16) {
            let permuted = permute(pads, by);
            for u in 0..16 {
                prop_assert_eq!(permuted >> u & 1, pads >> (u ^ by) & 1);
            }
        }
    }

    #[test]
    fn strings_are_cut_completely() {
        for bits in 1..=MAX_BITS {
            let layout = Layout::new(bits);
            let widths: Vec<u32> = (0..layout.digits()).map(|d| layout.width(d)).collect();
            assert_eq!(widths.iter().sum::<u32>(), bits);
            assert!(widths.iter().all(|w| (1..=4).contains(w)));
            let string = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834 & (u128::MAX >> (128 - bits));
            let back = (0..layout.digits()).fold(0, |sum, digit| {
                sum | u128::from(layout.digit(string, digit)) << (4 * digit)
            });
            assert_eq!(back, string);
        }
    }
}
