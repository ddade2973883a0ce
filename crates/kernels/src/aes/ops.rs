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

/// The blocks of K keys, number `first` and those after it, in every plane of `width` blocks.
#[inline(always)]
fn column<A: Arithmetic, const FEED_FORWARD: bool, const K: usize>(
    keys: &[u128; K],
    expanded: &mut [Key; K],
    (first, width): (usize, usize),
    blocks: &mut [u128],
) {
    for (expanded, key) in expanded.iter_mut().zip(keys) {
        expanded.0[0] = *key;
    }
    expand::<A, K>(expanded);
    for plane in blocks.chunks_exact_mut(width) {
        let blocks = &mut plane[first..first + K];
        let mut x = [[A::zero()]; K];
        for (x, block) in x.iter_mut().zip(blocks.iter()) {
            x[0] = A::load(block);
        }
        rounds::<A, K, 1>(expanded.each_ref(), &mut x);
        for (block, [mut x]) in blocks.iter_mut().zip(x) {
            if FEED_FORWARD {
                x = A::add(x, A::load(block));
            }
            A::store(block, x);
        }
    }
}

/// The keys from number `first` on that come in groups of K, with their blocks; returns how many keys are done.
#[inline(always)]
fn columns<A: Arithmetic, const FEED_FORWARD: bool, const K: usize>(
    keys: &[u128],
    first: usize,
    blocks: &mut [u128],
) -> usize {
    // One place for all groups, so that it is wiped once.
    let mut expanded = [0; K].map(Key::unexpanded);
    let mut done = first;
    for group in keys[first..].as_chunks::<K>().0 {
        let place = (done, keys.len());
        column::<A, FEED_FORWARD, K>(group, &mut expanded, place, blocks);
        done += K;
    }
    done
}

#[inline(always)]
fn under_each<A: Arithmetic, const FEED_FORWARD: bool>(keys: &[u128], blocks: &mut [u128]) {
    let done = columns::<A, FEED_FORWARD, 4>(keys, 0, blocks);
    let done = columns::<A, FEED_FORWARD, 2>(keys, done, blocks);
    columns::<A, FEED_FORWARD, 1>(keys, done, blocks);
}

#[inline(always)]
pub(super) fn encrypt_under_each<A: Arithmetic>(keys: &[u128], blocks: &mut [u128]) {
    under_each::<A, false>(keys, blocks);
}

#[inline(always)]
pub(super) fn feed_forward_under_each<A: Arithmetic>(keys: &[u128], blocks: &mut [u128]) {
    under_each::<A, true>(keys, blocks);
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
