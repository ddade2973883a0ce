//! Evaluation at points that serve several polynomials.

use super::field::Field;
use super::tree::{self, Keep, Scratch, Tree, add_all};
use super::{Error, LOG_LEAF, log_ceil};
use crate::parallel;

/// Batches of at most 2^this points go to different threads; larger ones are processed one after the other,
/// each by all threads.
const LOG_SHARED: u32 = 12;

/// The points of an evaluation, and what depends only on them.
pub struct Evaluator<'a, F: Field> {
    field: &'a F,
    coefficients: usize,
    points: usize,
    batches: Vec<Batch<F::Element>>,
}

/// Points that share a tree.
struct Batch<E> {
    points: Vec<E>,
    /// Blocks of 2^`log` coefficients go down the tree; `None` means direct evaluation.
    log: Option<u32>,
    /// The products of S_k over the levels of the tree above the leaves.
    weights: Vec<E>,
    /// ŝ_k of all points for each k from `log` on that coefficients reach.
    beyond: Vec<Vec<E>>,
    /// Per level above the leaves, the inverses of the nodes' values on α + V_k.
    inverses: Vec<Vec<E>>,
    /// The nodes' values on α + β_k + V_k.
    second: Vec<Vec<E>>,
    scratch: Scratch<E>,
}

impl<'a, F: Field> Evaluator<'a, F> {
    /// For polynomials of up to `coefficients` coefficients. Takes 2·m·log₂ b elements of memory for m
    /// points, where b, the points that share a tree, is the least power of two that is not below the number
    /// of coefficients, the number of points or 2^[`Field::LOG_BATCH`].
    pub fn new(field: &'a F, points: &[F::Element], coefficients: usize) -> Result<Self, Error> {
        let batches = split::<F>(points, coefficients);
        let new = |batch: &&[F::Element]| Batch::new(field, batch, coefficients);
        let batches: Result<Vec<_>, Error> = if are_shared(&batches) {
            parallel::map(batches.iter(), new).into_iter().collect()
        } else {
            batches.iter().map(new).collect()
        };
        Ok(Evaluator {
            field,
            coefficients,
            points: points.len(),
            batches: batches?,
        })
    }

    /// The values of a polynomial at the points.
    ///
    /// # Panics
    /// If there are more coefficients than were announced.
    pub fn evaluate(&self, coefficients: &[F::Element]) -> Vec<F::Element> {
        assert!(coefficients.len() <= self.coefficients);
        let evaluate = |batch: &Batch<F::Element>| batch.evaluate(self.field, coefficients);
        let parts: Vec<Vec<F::Element>> = match &self.batches[..] {
            [only] => return evaluate(only),
            batches if batches.iter().all(|b| b.points.len() <= 1 << LOG_SHARED) => {
                parallel::map(batches.iter(), evaluate)
            }
            batches => batches.iter().map(evaluate).collect(),
        };
        let mut values = Vec::with_capacity(self.points);
        parts.iter().for_each(|part| values.extend_from_slice(part));
        values
    }
}

/// The values of several polynomials at `points`, as an [`Evaluator`] gives them, with one tree in memory at
/// a time where trees are large.
pub fn evaluate_all<F: Field>(
    field: &F,
    polynomials: &[&[F::Element]],
    points: &[F::Element],
) -> Result<Vec<Vec<F::Element>>, Error> {
    let longest = polynomials.iter().map(|p| p.len()).max().unwrap_or(0);
    let batches = split::<F>(points, longest);
    let evaluate = |batch: &&[F::Element]| {
        let batch = Batch::new(field, batch, longest)?;
        let value = |p: &&[F::Element]| batch.evaluate(field, p);
        Ok(if batch.points.len() > 1 << LOG_SHARED {
            parallel::map(polynomials.iter(), value)
        } else {
            polynomials.iter().map(value).collect()
        })
    };
    let parts: Result<Vec<_>, Error> = if are_shared(&batches) {
        parallel::map(batches.iter(), evaluate)
            .into_iter()
            .collect()
    } else {
        batches.iter().map(evaluate).collect()
    };
    let mut parts = parts?;
    if parts.len() == 1 {
        return Ok(parts.swap_remove(0));
    }
    let parts = &parts;
    let whole = |i: usize| parts.iter().flat_map(move |part| part[i].iter().copied());
    Ok((0..polynomials.len()).map(|i| whole(i).collect()).collect())
}

/// The points that share a tree: the last batch may be smaller, and is split again if it is much smaller.
fn split<F: Field>(mut points: &[F::Element], coefficients: usize) -> Vec<&[F::Element]> {
    let mut batches = Vec::new();
    while !points.is_empty() {
        let log = log_batch::<F>(points.len(), coefficients);
        let size = match log {
            // Direct evaluation needs no tree; threads take it in parts.
            None => 1 << LOG_SHARED,
            Some(log) => 1 << log,
        };
        let (batch, rest) = points.split_at(points.len().min(size));
        batches.push(batch);
        points = rest;
    }
    batches
}

/// How many points share a tree, or none if there are too few.
fn log_batch<F: Field>(points: usize, coefficients: usize) -> Option<u32> {
    let log = log_ceil(coefficients)
        .min(log_ceil(points))
        .min(F::LOG_BATCH);
    (log > F::LOG_DIRECT).then_some(log)
}

/// Whether batches go to different threads.
fn are_shared<E>(batches: &[&[E]]) -> bool {
    batches.len() > 1 && batches[0].len() <= 1 << LOG_SHARED
}

impl<E: Copy + Send + Sync> Batch<E> {
    fn new<F: Field<Element = E>>(
        field: &F,
        points: &[E],
        coefficients: usize,
    ) -> Result<Self, Error> {
        let mut batch = Batch {
            points: points.to_vec(),
            log: log_batch::<F>(points.len(), coefficients),
            weights: Vec::new(),
            beyond: Vec::new(),
            inverses: Vec::new(),
            second: Vec::new(),
            scratch: Scratch::new(),
        };
        let Some(log) = batch.log else {
            return Ok(batch);
        };
        let Tree {
            mut first, second, ..
        } = Tree::new(field, points, Keep::AboveLeaves);
        for level in &mut first {
            if !tree::invert(field, level) {
                return Err(Error::ReservedPoint);
            }
        }
        (batch.inverses, batch.second) = (first, second);
        let mut s;
        (batch.weights, s) = tree::weights(field, points, LOG_LEAF, log);
        for k in log..log_ceil(coefficients) {
            let mut next = s.clone();
            field.next_subspace_values(k, &mut next);
            batch.beyond.push(s);
            s = next;
        }
        Ok(batch)
    }

    fn evaluate<F: Field<Element = E>>(&self, field: &F, coefficients: &[E]) -> Vec<E> {
        let Some(log) = self.log else {
            return self.evaluate_directly(field, coefficients);
        };
        // X_{b·2^log + j} = X_j · X_b(ŝ_log): the values of the blocks are the coefficients of a polynomial in
        // ŝ_log(x). Those of an upper half join those of the lower half as soon as they are complete.
        let mut waiting: Vec<Vec<E>> = Vec::new();
        for (b, block) in coefficients.chunks(1 << log).enumerate() {
            let mut values = self.evaluate_block(field, log, block);
            for s in &self.beyond[..b.trailing_ones() as usize] {
                values = join(field, waiting.pop(), s, values);
            }
            waiting.push(values);
        }
        // Lower halves still wait, one for each set bit of the number of blocks.
        let Some(mut values) = waiting.pop() else {
            return vec![F::ZERO; self.points.len()];
        };
        let blocks = coefficients.len().div_ceil(1 << log);
        for (i, s) in self.beyond.iter().enumerate() {
            if i > blocks.trailing_zeros() as usize && blocks >> i & 1 == 1 {
                values = join(field, waiting.pop(), s, values);
            }
        }
        values
    }

    /// One block of up to 2^`log` coefficients.
    fn evaluate_block<F: Field<Element = E>>(&self, field: &F, log: u32, block: &[E]) -> Vec<E> {
        // A short last block, as one point more than a power of two leaves, is not worth the tree.
        if block.len() <= 1 << F::LOG_DIRECT {
            return self.evaluate_directly(field, block);
        }
        // A polynomial of few coefficients is its own residue on all nodes of its size: it starts there.
        let start = log_ceil(block.len());
        let nodes = self.points.len().div_ceil(1 << start);
        let mut residues = Vec::with_capacity(nodes << start);
        for node in 1..=nodes {
            residues.extend_from_slice(block);
            residues.resize(node << start, F::ZERO);
        }
        for k in (LOG_LEAF..start).rev() {
            let (inverses, second) = (&self.inverses[k as usize], &self.second[k as usize]);
            // A level may have fewer elements than the one above: nodes of ones stand in for the rest.
            residues.truncate(inverses.len());
            tree::reduce(field, k, &mut residues, inverses, second, &self.scratch);
        }
        let passed;
        let weights = if start == log {
            &self.weights
        } else {
            (passed, _) = tree::weights(field, &self.points, LOG_LEAF, start);
            &passed
        };
        tree::leaf_values(field, LOG_LEAF, &residues, &self.points, weights)
    }

    /// The quadratic algorithm.
    fn evaluate_directly<F: Field<Element = E>>(&self, field: &F, coefficients: &[E]) -> Vec<E> {
        let log = log_ceil(coefficients.len());
        let mut padded = coefficients.to_vec();
        padded.resize(1 << log, F::ZERO);
        let mut values = vec![F::ZERO; self.points.len()];
        field.evaluate_blocks(&padded, log, 63, &self.points, &mut values);
        values
    }
}

/// The values of P_low + ŝ·P_high.
fn join<F: Field>(
    field: &F,
    low: Option<Vec<F::Element>>,
    s: &[F::Element],
    mut high: Vec<F::Element>,
) -> Vec<F::Element> {
    field.multiply_assign(&mut high, s);
    add_all::<F>(&mut high, &low.expect("a lower half comes first"));
    high
}
