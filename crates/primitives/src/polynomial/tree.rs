//! The subproduct tree, and the steps up and down between its levels.

use super::field::Field;
use super::{COSET, LOG_LEAF, log_ceil};
use crate::parallel;
use std::sync::Mutex;

/// Neighbouring nodes are processed together, up to this many bytes: they stay in cache through all steps of
/// a level, and different threads take different ones.
const CHUNK_BYTES: usize = 1 << 17;

/// The subproduct tree of n points, given by the values of its nodes.
///
/// Level k has one block of 2^k elements per node, for an even number of nodes that covers the points; nodes
/// beyond the last point are the polynomial 1.
pub(super) struct Tree<E> {
    pub(super) log: u32,
    /// Per level k below the root, the values of M on α + V_k.
    pub(super) first: Vec<Vec<E>>,
    /// The same on α + β_k + V_k.
    pub(super) second: Vec<Vec<E>>,
    /// The root's M, less its leading term if that is in degree 2^log.
    pub(super) root: Vec<E>,
}

/// Elements of level k that are processed together: whole pairs of nodes.
fn chunk_size<E>(k: u32) -> usize {
    (CHUNK_BYTES / size_of::<E>()).max(2 << k)
}

/// Buffers that the steps of one call share: getting fresh memory from the system takes longer than many
/// steps.
pub(super) struct Scratch<E>(Mutex<Vec<Vec<E>>>);

impl<E: Copy> Scratch<E> {
    pub(super) fn new() -> Self {
        Scratch(Mutex::new(Vec::new()))
    }

    /// Runs `work` on `len` elements of unspecified values.
    fn with(&self, len: usize, fill: E, work: impl FnOnce(&mut [E])) {
        let buffers = || self.0.lock().expect("no step panics with the lock");
        let mut buffer = buffers().pop().unwrap_or_default();
        if buffer.len() < len {
            // The old contents are not needed.
            buffer.clear();
            buffer.resize(len, fill);
        }
        work(&mut buffer[..len]);
        buffers().push(buffer);
    }
}

/// What a tree is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// All levels and the root.
    All,
    /// Level [`LOG_LEAF`] and those above, without the root.
    AboveLeaves,
}

impl<E: Copy + Send + Sync> Tree<E> {
    /// # Panics
    /// If there are no points.
    pub(super) fn new<F: Field<Element = E>>(field: &F, points: &[E], keep: Keep) -> Self {
        let n = points.len();
        let log = log_ceil(n);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut low = points.to_vec();
        let scratch = Scratch::new();
        for k in 0..log {
            pad_with_ones::<F>(&mut low, 1 << k);
            let mut on_first = vec![F::ZERO; low.len()];
            let mut on_second = vec![F::ZERO; low.len()];
            let parents = keep == Keep::All || k + 1 < log;
            let values = (&mut on_first[..], &mut on_second[..]);
            rise(field, k, n, parents, &mut low, values, &scratch);
            let kept = keep == Keep::All || k >= LOG_LEAF;
            first.push(if kept { on_first } else { Vec::new() });
            second.push(if kept { on_second } else { Vec::new() });
        }
        Tree {
            log,
            first,
            second,
            root: low,
        }
    }

    /// The derivative of the root's M: that of X_j is the sum over the set bits i of j of ŝ_i′·X_{j − 2^i}.
    pub(super) fn root_derivative<F: Field<Element = E>>(&self, field: &F, n: usize) -> Vec<E> {
        let mut derivative = vec![F::ZERO; self.root.len()];
        let mut scaled = self.root.clone();
        for i in 0..self.log {
            scaled.copy_from_slice(&self.root);
            field.scale_assign(&mut scaled, field.subspace_derivative(i));
            let size = 1 << i;
            for (to, from) in derivative
                .chunks_exact_mut(2 * size)
                .zip(scaled.chunks_exact(2 * size))
            {
                add_all::<F>(&mut to[..size], &from[size..]);
            }
        }
        if n == 1 << self.log {
            F::add_scalar(&mut derivative[0], field.leading_derivative(self.log));
        }
        derivative
    }
}

/// From the nodes of level k, without the leading terms of full nodes, to their values on both cosets and, if
/// wanted, to the nodes of level k + 1 in the same form.
fn rise<F: Field>(
    field: &F,
    k: u32,
    n: usize,
    parents: bool,
    low: &mut [F::Element],
    (on_first, on_second): (&mut [F::Element], &mut [F::Element]),
    scratch: &Scratch<F::Element>,
) {
    let size = 1usize << k;
    let (here, there) = (COSET, COSET ^ size as u64);
    // A leading term is constant on each coset of V_k.
    let (leading_here, leading_there) =
        (field.leading_value(k, here), field.leading_value(k, there));
    let leading_above = field.leading_value(k + 1, here);
    let full = n >> k << k;
    let full_above = n >> (k + 1) << (k + 1);

    let work = |start: usize,
                low: &mut [F::Element],
                on_first: &mut [F::Element],
                on_second: &mut [F::Element]| {
        let full = full.saturating_sub(start).min(low.len());
        let full_above = full_above.saturating_sub(start).min(low.len());
        on_first.copy_from_slice(low);
        field.forward(on_first, k, here);
        add_scalar_to_all::<F>(&mut on_first[..full], leading_here);
        on_second.copy_from_slice(low);
        field.forward(on_second, k, there);
        add_scalar_to_all::<F>(&mut on_second[..full], leading_there);
        if !parents {
            return;
        }
        // The parent's values on α + V_{k+1}, half of which are on each of the cosets.
        scratch.with(low.len(), F::ZERO, |right| {
            let pairs = on_first
                .chunks_exact(2 * size)
                .zip(on_second.chunks_exact(2 * size));
            for (((a, b), parent), right) in pairs
                .zip(low.chunks_exact_mut(2 * size))
                .zip(right.chunks_exact_mut(2 * size))
            {
                copy(&mut parent[..size], &a[..size]);
                copy(&mut parent[size..], &b[..size]);
                copy(&mut right[..size], &a[size..]);
                copy(&mut right[size..], &b[size..]);
            }
            field.multiply_assign(low, right);
        });
        add_scalar_to_all::<F>(&mut low[..full_above], leading_above);
        field.inverse(low, k + 1, here);
    };
    let chunk = chunk_size::<F::Element>(k);
    if low.len() <= chunk {
        return work(0, low, on_first, on_second);
    }
    let values = on_first.chunks_mut(chunk).zip(on_second.chunks_mut(chunk));
    let chunks = low.chunks_mut(chunk).zip(values).enumerate();
    parallel::each(chunks, |(i, (low, (on_first, on_second)))| {
        work(i * chunk, low, on_first, on_second);
    });
}

/// From residues at level k + 1 to residues, over S_k, at level k, in place; `inverses` are those of the
/// nodes' values on α + V_k, and `second` those values on α + β_k + V_k.
pub(super) fn reduce<F: Field>(
    field: &F,
    k: u32,
    residues: &mut [F::Element],
    inverses: &[F::Element],
    second: &[F::Element],
    scratch: &Scratch<F::Element>,
) {
    let size = 1usize << k;
    let (here, there) = (COSET, COSET ^ size as u64);
    let s_here = field.subspace_value(k, here);

    let work = |residues: &mut [F::Element],
                inverses: &[F::Element],
                second: &[F::Element],
                low: &mut [F::Element],
                high: &mut [F::Element],
                scaled: &mut [F::Element]| {
        // P = P_low + ŝ_k·P_high = (P_low + ŝ_k(α)·P_high) + S·P_high.
        for ((parent, low), high) in residues
            .chunks_exact(2 * size)
            .zip(low.chunks_exact_mut(size))
            .zip(high.chunks_exact_mut(size))
        {
            copy(low, &parent[..size]);
            copy(high, &parent[size..]);
        }
        scaled.copy_from_slice(high);
        field.scale_assign(scaled, s_here);
        add_all::<F>(low, scaled);

        // T = P/M where S vanishes.
        scaled.copy_from_slice(low);
        field.forward(scaled, k, here);
        for (both, half) in residues
            .chunks_exact_mut(2 * size)
            .zip(scaled.chunks_exact(size))
        {
            copy(&mut both[..size], half);
            copy(&mut both[size..], half);
        }
        field.multiply_assign(residues, inverses);
        field.inverse(residues, k, here);
        // (P − T·M)/S where S is 1.
        field.forward(residues, k, there);
        field.multiply_assign(residues, second);
        field.forward(low, k, there);
        let add_to_both = |residues: &mut [F::Element], halves: &[F::Element]| {
            for (both, half) in residues
                .chunks_exact_mut(2 * size)
                .zip(halves.chunks_exact(size))
            {
                add_all::<F>(&mut both[..size], half);
                add_all::<F>(&mut both[size..], half);
            }
        };
        add_to_both(residues, low);
        field.inverse(residues, k, there);
        add_to_both(residues, high);
    };
    let work = |residues: &mut [F::Element], inverses: &[F::Element], second: &[F::Element]| {
        let half = residues.len() / 2;
        scratch.with(3 * half, F::ZERO, |buffer| {
            let (low, rest) = buffer.split_at_mut(half);
            let (high, scaled) = rest.split_at_mut(half);
            work(residues, inverses, second, low, high, scaled);
        });
    };
    let chunk = chunk_size::<F::Element>(k);
    if residues.len() <= chunk {
        return work(residues, inverses, second);
    }
    let values = inverses.chunks(chunk).zip(second.chunks(chunk));
    let chunks = residues.chunks_mut(chunk).zip(values);
    parallel::each(chunks, |(residues, (inverses, second))| {
        work(residues, inverses, second);
    });
}

/// From numerators at level k to numerators at level k + 1, in place: N = N_left·M_right + N_right·M_left.
pub(super) fn combine<F: Field>(
    field: &F,
    k: u32,
    numerators: &mut [F::Element],
    first: &[F::Element],
    second: &[F::Element],
    scratch: &Scratch<F::Element>,
) {
    let size = 1usize << k;
    let (here, there) = (COSET, COSET ^ size as u64);

    let crossed = |numerators: &mut [F::Element],
                   nodes: &[F::Element],
                   siblings: &mut [F::Element],
                   coset: u64| {
        field.forward(numerators, k, coset);
        for (pair, swapped) in nodes
            .chunks_exact(2 * size)
            .zip(siblings.chunks_exact_mut(2 * size))
        {
            copy(&mut swapped[..size], &pair[size..]);
            copy(&mut swapped[size..], &pair[..size]);
        }
        field.multiply_assign(numerators, siblings);
    };
    let work = |numerators: &mut [F::Element], first: &[F::Element], second: &[F::Element]| {
        scratch.with(2 * numerators.len(), F::ZERO, |buffer| {
            let (siblings, on_first) = buffer.split_at_mut(numerators.len());
            on_first.copy_from_slice(numerators);
            crossed(on_first, first, siblings, here);
            crossed(numerators, second, siblings, there);
            for (a, b) in on_first
                .chunks_exact(2 * size)
                .zip(numerators.chunks_exact_mut(2 * size))
            {
                let (left, right) = b.split_at_mut(size);
                add_all::<F>(right, left);
                copy(left, &a[..size]);
                add_all::<F>(left, &a[size..]);
            }
            field.inverse(numerators, k + 1, here);
        });
    };
    let chunk = chunk_size::<F::Element>(k);
    if numerators.len() <= chunk {
        return work(numerators, first, second);
    }
    let values = first.chunks(chunk).zip(second.chunks(chunk));
    let chunks = numerators.chunks_mut(chunk).zip(values);
    parallel::each(chunks, |(numerators, (first, second))| {
        work(numerators, first, second);
    });
}

/// Replaces the values of a level by their inverses, or returns `false` if one is 0.
pub(super) fn invert<F: Field>(field: &F, values: &mut [F::Element]) -> bool {
    let chunk = chunk_size::<F::Element>(0);
    if values.len() <= chunk {
        return field.invert_all(values);
    }
    let inverted = parallel::map(values.chunks_mut(chunk), |values| field.invert_all(values));
    inverted.iter().all(|inverted| *inverted)
}

/// From residues at level `leaf` to values: `weights` are, for each point, the product of S_k over the
/// levels that were passed.
pub(super) fn leaf_values<F: Field>(
    field: &F,
    leaf: u32,
    residues: &[F::Element],
    points: &[F::Element],
    weights: &[F::Element],
) -> Vec<F::Element> {
    let mut values = vec![F::ZERO; points.len()];
    let work = |start: usize, values: &mut [F::Element]| {
        let end = start + values.len();
        field.evaluate_blocks(&residues[start..], leaf, leaf, &points[start..end], values);
        field.multiply_assign(values, &weights[start..end]);
    };
    let chunk = chunk_size::<F::Element>(leaf);
    if values.len() <= chunk {
        work(0, &mut values);
    } else {
        let chunks = values.chunks_mut(chunk).enumerate();
        parallel::each(chunks, |(i, values)| work(i * chunk, values));
    }
    values
}

/// For each point, the product of S_k over the levels from `leaf` to below `log`; and what ŝ_log is there.
pub(super) fn weights<F: Field>(
    field: &F,
    points: &[F::Element],
    leaf: u32,
    log: u32,
) -> (Vec<F::Element>, Vec<F::Element>) {
    let mut weights = vec![F::ONE; points.len()];
    let mut s = points.to_vec();
    let work = |weights: &mut [F::Element], s: &mut [F::Element]| {
        for k in 0..log {
            if k >= leaf {
                let mut factors = s.to_vec();
                add_scalar_to_all::<F>(&mut factors, field.subspace_value(k, COSET));
                field.multiply_assign(weights, &factors);
            }
            field.next_subspace_values(k, s);
        }
    };
    let chunk = chunk_size::<F::Element>(0);
    if points.len() <= chunk {
        work(&mut weights, &mut s);
    } else {
        let chunks = weights.chunks_mut(chunk).zip(s.chunks_mut(chunk));
        parallel::each(chunks, |(weights, s)| work(weights, s));
    }
    (weights, s)
}

/// Adds nodes that are the polynomial 1, up to an even number of them.
fn pad_with_ones<F: Field>(low: &mut Vec<F::Element>, size: usize) {
    if (low.len() / size) % 2 == 1 {
        let start = low.len();
        low.resize(start + size, F::ZERO);
        low[start] = F::ONE;
    }
}

/// `a[i] += b[i]`.
pub(super) fn add_all<F: Field>(a: &mut [F::Element], b: &[F::Element]) {
    for (a, b) in a.iter_mut().zip(b) {
        F::add(a, b);
    }
}

fn add_scalar_to_all<F: Field>(a: &mut [F::Element], scalar: F::Scalar) {
    for a in a {
        F::add_scalar(a, scalar);
    }
}

/// As `copy_from_slice`, without a call for a single element.
#[inline(always)]
fn copy<E: Copy>(to: &mut [E], from: &[E]) {
    if let ([to], [from]) = (&mut *to, from) {
        *to = *from;
    } else {
        to.copy_from_slice(from);
    }
}
