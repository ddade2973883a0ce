//! The functions for instructions that take one block at a time, with several blocks in flight.
//!
//! All that is secret stays in registers and in the caller's slices.

use super::{BITS, Key};

/// What the key schedule adds in each round.
pub(super) const ROUND_CONSTANTS: [u8; 10] = [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];

/// What a backend provides: a block in a register.
pub(super) trait Arithmetic {
    /// A register.
    type Vector: Copy;

    fn load(block: &u128) -> Self::Vector;
    fn store(block: &mut u128, value: Self::Vector);
    fn zero() -> Self::Vector;
    fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// What encryption does with round key number `round`, from 0 to 10.
    fn round(round: usize, x: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// The round key after another.
    fn next_round_key(key: Self::Vector, constant: u8) -> Self::Vector;
    /// Each half of a block shifted left by one bit.
    fn shift_left(x: Self::Vector) -> Self::Vector;
    /// The highest bit of each block, that of the first block lowest.
    fn highest_bits(x: &[Self::Vector; 8]) -> u8;
}

#[inline(always)]
pub(super) fn expand<A: Arithmetic, const N: usize>(keys: &mut [Key; N]) {
    let mut round_keys = [A::zero(); N];
    for (round_key, key) in round_keys.iter_mut().zip(&*keys) {
        *round_key = A::load(&key.0[0]);
    }
    for (round, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
        for (round_key, key) in round_keys.iter_mut().zip(&mut *keys) {
            *round_key = A::next_round_key(*round_key, constant);
            A::store(&mut key.0[round + 1], *round_key);
        }
    }
}

/// Encrypts the rows of `x`, each under its own key.
#[inline(always)]
fn rounds<A: Arithmetic, const K: usize, const N: usize>(
    keys: [&Key; K],
    x: &mut [[A::Vector; N]; K],
) {
    for round in 0..11 {
        for (key, x) in keys.iter().zip(x.iter_mut()) {
            let key = A::load(&key.0[round]);
            for x in x {
                *x = A::round(round, *x, key);
            }
        }
    }
}

/// The blocks of the slice that come in groups of N; returns the others.
#[inline(always)]
fn groups<'a, A: Arithmetic, const FEED_FORWARD: bool, const N: usize>(
    key: &Key,
    blocks: &'a mut [u128],
) -> &'a mut [u128] {
    let (groups, rest) = blocks.as_chunks_mut::<N>();
    for group in groups {
        let mut x = [[A::zero(); N]; 1];
        for (x, block) in x[0].iter_mut().zip(group.iter()) {
            *x = A::load(block);
        }
        rounds::<A, 1, N>([key], &mut x);
        for (block, mut x) in group.iter_mut().zip(x[0]) {
            if FEED_FORWARD {
                x = A::add(x, A::load(block));
            }
            A::store(block, x);
        }
    }
    rest
}

#[inline(always)]
fn all<A: Arithmetic, const FEED_FORWARD: bool>(key: &Key, blocks: &mut [u128]) {
    let rest = groups::<A, FEED_FORWARD, 8>(key, blocks);
    let rest = groups::<A, FEED_FORWARD, 4>(key, rest);
    let rest = groups::<A, FEED_FORWARD, 2>(key, rest);
    groups::<A, FEED_FORWARD, 1>(key, rest);
}

#[inline(always)]
pub(super) fn encrypt<A: Arithmetic>(key: &Key, blocks: &mut [u128]) {
    all::<A, false>(key, blocks);
}

#[inline(always)]
pub(super) fn feed_forward<A: Arithmetic>(key: &Key, blocks: &mut [u128]) {
    all::<A, true>(key, blocks);
}

/// The blocks of K keys, number `first` and those after it, in P planes of `width` blocks. Round keys are made as they
/// are used.
#[inline(always)]
fn columns<A: Arithmetic, const K: usize, const P: usize>(
    keys: &[u128; K],
    (first, width): (usize, usize),
    planes: &mut [u128],
) {
    let mut round_keys = [A::zero(); K];
    for (round_key, key) in round_keys.iter_mut().zip(keys) {
        *round_key = A::load(key);
    }
    let place = |plane: usize, i: usize| plane * width + first + i;
    let mut x = [[A::zero(); K]; P];
    for (plane, x) in x.iter_mut().enumerate() {
        for (i, x) in x.iter_mut().enumerate() {
            *x = A::round(0, A::load(&planes[place(plane, i)]), round_keys[i]);
        }
    }
    for (round, constant) in (1..).zip(ROUND_CONSTANTS) {
        for round_key in &mut round_keys {
            *round_key = A::next_round_key(*round_key, constant);
        }
        for x in &mut x {
            for (x, round_key) in x.iter_mut().zip(round_keys) {
                *x = A::round(round, *x, round_key);
            }
        }
    }
    for (plane, x) in x.into_iter().enumerate() {
        for (i, x) in x.into_iter().enumerate() {
            let block = &mut planes[place(plane, i)];
            A::store(block, A::add(x, A::load(block)));
        }
    }
}

/// All blocks of P planes, those of K keys at a time.
#[inline(always)]
fn planes<A: Arithmetic, const K: usize, const P: usize>(keys: &[u128], planes: &mut [u128]) {
    let (groups, rest) = keys.as_chunks::<K>();
    for (group, first) in groups.iter().zip((0..).step_by(K)) {
        columns::<A, K, P>(group, (first, keys.len()), planes);
    }
    for (key, first) in rest.iter().zip(keys.len() - rest.len()..) {
        columns::<A, 1, P>(&[*key], (first, keys.len()), planes);
    }
}

/// As many keys and planes at a time as fit into sixteen registers.
#[inline(always)]
pub(super) fn feed_forward_under_each<A: Arithmetic>(keys: &[u128], blocks: &mut [u128]) {
    let width = keys.len();
    for eight in blocks.chunks_mut(8 * width.max(1)) {
        match eight.len() / width {
            1 => planes::<A, 4, 1>(keys, eight),
            2 => planes::<A, 4, 2>(keys, eight),
            3 => planes::<A, 2, 3>(keys, eight),
            4 => planes::<A, 2, 4>(keys, eight),
            5 => planes::<A, 2, 5>(keys, eight),
            6 => planes::<A, 2, 6>(keys, eight),
            7 => planes::<A, 1, 7>(keys, eight),
            _ => planes::<A, 1, 8>(keys, eight),
        }
    }
}

/// The children of N parents from number `start` on, added to the sums.
#[inline(always)]
fn family<A: Arithmetic, const N: usize>(
    keys: &[Key; 2],
    nodes: &mut [u128],
    start: usize,
    sums: &mut [A::Vector; 2],
) {
    let mut parents = [A::zero(); N];
    for (parent, node) in parents.iter_mut().zip(&nodes[start..start + N]) {
        *parent = A::load(node);
    }
    let mut x = [parents; 2];
    rounds::<A, 2, N>([&keys[0], &keys[1]], &mut x);
    for i in 0..N {
        for side in 0..2 {
            let child = A::add(x[side][i], parents[i]);
            A::store(&mut nodes[2 * (start + i) + side], child);
            sums[side] = A::add(sums[side], child);
        }
    }
}

#[inline(always)]
pub(super) fn children<A: Arithmetic>(keys: &[Key; 2], nodes: &mut [u128]) -> [u128; 2] {
    let parents = nodes.len() / 2;
    let mut sums = [A::zero(); 2];
    let grouped = parents - parents % 4;
    // From the back, so that no child takes the place of a parent that is still needed.
    for start in (grouped..parents).rev() {
        family::<A, 1>(keys, nodes, start, &mut sums);
    }
    for start in (0..grouped).step_by(4).rev() {
        family::<A, 4>(keys, nodes, start, &mut sums);
    }
    let mut out = [0; 2];
    A::store(&mut out[0], sums[0]);
    A::store(&mut out[1], sums[1]);
    out
}

#[inline(always)]
pub(super) fn bits<A: Arithmetic>(keys: &[Key], blocks: &[u128; BITS], out: &mut [u128]) {
    let (groups, _) = blocks.as_chunks::<8>();
    for (key, out) in keys.iter().zip(out) {
        *out = 0;
        for (i, group) in groups.iter().enumerate() {
            let mut x = [[A::zero(); 8]; 1];
            for (x, block) in x[0].iter_mut().zip(group) {
                *x = A::load(block);
            }
            rounds::<A, 1, 8>([key], &mut x);
            *out |= u128::from(A::highest_bits(&x[0])) << (8 * i);
        }
    }
}

#[inline(always)]
pub(super) fn hash_words<A: Arithmetic>(
    key: &Key,
    offsets: &[u128],
    inputs: &[u128],
    out: &mut [u64],
) {
    let words = (inputs.len() * offsets.len()).div_ceil(64);
    let last = inputs.len() - 1;
    for word in 0..words {
        for row in out.chunks_exact_mut(words) {
            row[word] = 0;
        }
        for group in 0..8 {
            let place = |j: usize| 64 * word + 8 * group + j;
            let sum = |j: usize| {
                // Beyond the last input its hashes are made again; the caller clears their bits.
                let input = &inputs[(place(j) / offsets.len()).min(last)];
                let offset = &offsets[place(j) % offsets.len()];
                A::add(A::load(input), A::load(offset))
            };
            let mut x = [[A::zero(); 8]; 1];
            for (j, x) in x[0].iter_mut().enumerate() {
                *x = sum(j);
            }
            rounds::<A, 1, 8>([key], &mut x);
            for (j, x) in x[0].iter_mut().enumerate() {
                *x = A::add(*x, sum(j));
            }
            for row in out.chunks_exact_mut(words) {
                row[word] |= u64::from(A::highest_bits(&x[0])) << (8 * group);
                for x in &mut x[0] {
                    *x = A::shift_left(*x);
                }
            }
        }
    }
}
