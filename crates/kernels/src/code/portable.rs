//! The convolution, four rows at a time.
//!
//! Four successive rows add to each of the [`SLACK`] rows after them one of the sixteen sums of some of the
//! four: a table of these sums replaces four masked additions by one.
//! Coefficients are public, so they may decide addresses.

use super::{SLACK, STATE};

/// Rows that share a table.
const GROUP: usize = 4;

/// See [`super::convolve`].
#[inline(always)]
pub(super) fn convolve<const L: usize>(rows: &mut [[u64; L]], coefficients: &[u32]) {
    let (groups, rest) = coefficients.as_chunks::<GROUP>();
    for (g, coefficients) in groups.iter().enumerate() {
        let window = rows[g * GROUP..].first_chunk_mut();
        group(window.expect("rows after the last group"), coefficients);
    }
    one_by_one(&mut rows[groups.len() * GROUP..], rest);
}

/// As the definition says.
#[inline(always)]
pub(super) fn one_by_one<const L: usize>(rows: &mut [[u64; L]], coefficients: &[u32]) {
    for (i, coefficients) in coefficients.iter().enumerate() {
        let row = rows[i];
        let bits = coefficients | 1 << STATE;
        for (j, target) in rows[i + 1..=i + SLACK].iter_mut().enumerate() {
            *target = add(*target, masked(row, bits >> j));
        }
    }
}

#[inline(always)]
fn add<const L: usize>(a: [u64; L], b: [u64; L]) -> [u64; L] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// The row, or 0 if the lowest bit is.
#[inline(always)]
fn masked<const L: usize>(row: [u64; L], bit: u32) -> [u64; L] {
    let mask = 0u64.wrapping_sub(u64::from(bit & 1));
    row.map(|word| word & mask)
}

/// A group, and all rows that it reaches.
#[inline(always)]
fn group<const L: usize>(window: &mut [[u64; L]; GROUP + SLACK], coefficients: &[u32; GROUP]) {
    let bits = coefficients.map(|c| c & ((1 << STATE) - 1) | 1 << STATE);

    // Within the group.
    let [y0, mut y1, mut y2, mut y3] = *window.first_chunk().expect("a group");
    y1 = add(y1, masked(y0, bits[0]));
    y2 = add(y2, masked(y0, bits[0] >> 1));
    y3 = add(y3, masked(y0, bits[0] >> 2));
    y2 = add(y2, masked(y1, bits[1]));
    y3 = add(y3, masked(y1, bits[1] >> 1));
    y3 = add(y3, masked(y2, bits[2]));
    let group = [y0, y1, y2, y3];
    window[..GROUP].copy_from_slice(&group);

    let mut sums = [[0; L]; 1 << GROUP];
    for (i, row) in group.into_iter().enumerate() {
        for j in 0..1 << i {
            sums[(1 << i) + j] = add(sums[j], row);
        }
    }

    // Bit t of a word says whether the row is added to row t after the group.
    let words = transpose(std::array::from_fn(|i| bits[i] >> (GROUP - 1 - i)));
    // Loops of constant lengths, which are unrolled: twice as fast as one loop of 25 steps.
    let (blocks, last) = window[GROUP..].as_chunks_mut::<GROUP>();
    for (i, block) in blocks.iter_mut().enumerate() {
        for (target, word) in block.iter_mut().zip(words) {
            *target = add(*target, sums[(word >> (GROUP * i)) as usize % sums.len()]);
        }
    }
    const { assert!(SLACK == 6 * GROUP + 1) };
    last[0] = add(last[0], sums[(words[0] >> STATE) as usize % sums.len()]);
}

/// Bit 4m + i of word k becomes bit 4m + k of word i.
#[inline(always)]
fn transpose(mut words: [u32; GROUP]) -> [u32; GROUP] {
    let mut swap = |i: usize, j: usize, shift: u32, mask: u32| {
        let both = (words[i] >> shift ^ words[j]) & mask;
        words[j] ^= both;
        words[i] ^= both << shift;
    };
    swap(0, 1, 1, 0x5555_5555);
    swap(2, 3, 1, 0x5555_5555);
    swap(0, 2, 2, 0x3333_3333);
    swap(1, 3, 2, 0x3333_3333);
    words
}
