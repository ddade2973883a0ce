//! Interpolation at points that serve several polynomials.

use super::field::Field;
use super::tree::{self, Keep, Scratch, Tree};
use super::{Error, LOG_LEAF};

/// The points of an interpolation, and what depends only on them.
pub struct Interpolator<'a, F: Field> {
    field: &'a F,
    /// 1/M′(x_i).
    weights: Vec<F::Element>,
    /// None if there are no points.
    tree: Option<Tree<F::Element>>,
    scratch: Scratch<F::Element>,
}

impl<'a, F: Field> Interpolator<'a, F> {
    /// Takes 2·n·⌈log₂ n⌉ elements of memory for n points, and 6·n more during the call.
    pub fn new(field: &'a F, points: &[F::Element]) -> Result<Self, Error> {
        if points.is_empty() {
            return Ok(Interpolator {
                field,
                weights: Vec::new(),
                tree: None,
                scratch: Scratch::new(),
            });
        }
        let tree = Tree::new(field, points, Keep::All);
        let mut residues = tree.root_derivative(field, points.len());
        let leaf = tree.log.min(LOG_LEAF);
        let scratch = Scratch::new();
        for k in (leaf..tree.log).rev() {
            let mut inverses = tree.first[k as usize].clone();
            if !tree::invert(field, &mut inverses) {
                return Err(Error::ReservedPoint);
            }
            // A level may have fewer elements than the one above: nodes of ones stand in for the rest.
            residues.truncate(inverses.len());
            let second = &tree.second[k as usize];
            tree::reduce(field, k, &mut residues, &inverses, second, &scratch);
        }
        let (passed, _) = tree::weights(field, points, leaf, tree.log);
        let mut weights = tree::leaf_values(field, leaf, &residues, points, &passed);
        if !tree::invert(field, &mut weights) {
            return Err(Error::RepeatedPoint);
        }
        Ok(Interpolator {
            field,
            weights,
            tree: Some(tree),
            scratch,
        })
    }

    /// The coefficients of the polynomial of degree below n that has these values at the n points.
    ///
    /// # Panics
    /// If there are not as many values as points.
    pub fn interpolate(&self, values: &[F::Element]) -> Vec<F::Element> {
        assert_eq!(values.len(), self.weights.len());
        let Some(tree) = &self.tree else {
            return Vec::new();
        };
        // Σ w_i · M/(x − x_i), up the tree.
        let mut numerators = self.weights.clone();
        self.field.multiply_assign(&mut numerators, values);
        for (k, (first, second)) in (0..).zip(tree.first.iter().zip(&tree.second)) {
            numerators.resize(first.len(), F::ZERO);
            tree::combine(self.field, k, &mut numerators, first, second, &self.scratch);
        }
        numerators.truncate(values.len());
        numerators
    }
}
