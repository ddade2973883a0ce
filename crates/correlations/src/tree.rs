//! Puncturable pseudorandom functions as binary trees (Goldreich, Goldwasser and Micali 1986; punctured
//! as in Boyle, Couteau, Gilboa and Ishai, CCS 2018): whoever has the root knows all leaves, whoever has one
//! sum a level knows all but one, at a place that the sums do not tell.
//!
//! A node s has the children π₀(s) ⊕ s and π₁(s) ⊕ s; π₀ and π₁ are AES under two public keys of the run.
//! Trees are always full. Were a right child left out somewhere, whoever asked for the sums on the way to it
//! would know all leaves that there are.

use vesica_primitives::block::{Block, Doubling};

/// Labels of π₀ and π₁.
const LABELS: [&str; 2] = ["vesica/1 tree left", "vesica/1 tree right"];

/// The function from nodes to children.
#[derive(Clone)]
pub(crate) struct Trees {
    generator: Doubling,
    depth: usize,
    /// The children of a node that is zero.
    of_zero: [Block; 2],
}

impl Trees {
    /// Trees of 2^`depth` leaves each.
    pub(crate) fn new(session: &[u8; 32], depth: usize) -> Self {
        let generator = Doubling::new(LABELS, session);
        let mut of_zero = [0; 2];
        generator.children(&mut of_zero);
        Trees {
            generator,
            depth,
            of_zero,
        }
    }

    /// Levels below the root.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Leaves of a tree.
    pub(crate) fn leaves(&self) -> usize {
        1 << self.depth
    }

    /// From the `parents` nodes of a level to those of the next, in place; returns the sums of the left
    /// and of the right children.
    fn grow(&self, nodes: &mut [Block], parents: usize) -> [Block; 2] {
        self.generator.children(&mut nodes[..2 * parents])
    }

    /// All leaves of a root; `sums`, if wanted, gets those of the left and right nodes of each level
    /// below the root.
    pub(crate) fn expand(
        &self,
        root: Block,
        leaves: &mut [Block],
        mut sums: Option<&mut [[Block; 2]]>,
    ) {
        assert_eq!(leaves.len(), self.leaves());
        leaves[0] = root;
        for level in 0..self.depth {
            let both = self.grow(leaves, 1 << level);
            if let Some(sums) = &mut sums {
                sums[level] = both;
            }
        }
    }

    /// All leaves but number `hole`, which comes out as 0. `sums` are those of the nodes on the other side
    /// than the way to the hole, one a level.
    ///
    /// Neither branches nor addresses depend on the hole.
    pub(crate) fn expand_punctured(&self, hole: usize, sums: &[Block], leaves: &mut [Block]) {
        assert_eq!((leaves.len(), sums.len()), (self.leaves(), self.depth));
        leaves[0] = 0;
        for (level, sum) in sums.iter().enumerate() {
            let both = self.grow(leaves, 1 << level);
            // The node on the way is 0, so that both its children are known not to count.
            let on_way = hole >> (self.depth - level - 1);
            let beside = on_way ^ 1;
            let (way_mask, beside_mask) = (mask(on_way & 1, 1), mask(beside & 1, 1));
            let choose = |m: Block, [left, right]: [Block; 2]| left ^ (m & (left ^ right));
            // The sum of the level's true nodes on that side, less the sum of what stands there now.
            let missing = sum ^ choose(beside_mask, both);
            let erased = choose(way_mask, self.of_zero);
            for (i, node) in leaves[..2 << level].iter_mut().enumerate() {
                *node ^= mask(i, on_way) & erased ^ mask(i, beside) & missing;
            }
        }
    }
}

/// All ones where the numbers are equal, else 0.
#[inline(always)]
pub(crate) fn mask(a: usize, b: usize) -> Block {
    let equal = ((a ^ b) as u64).wrapping_sub(1) >> 63;
    0u128.wrapping_sub(equal.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vesica_primitives::block::Cipher;

    #[test]
    fn leaves_are_those_of_the_definition() {
        let trees = Trees::new(&[1; 32], 3);
        let ciphers = LABELS.map(|label| Cipher::public(label, &[1; 32]));
        let child = |node: Block, side: usize| {
            let mut block = [node];
            ciphers[side].feed_forward(&mut block);
            block[0]
        };
        let expected: Vec<Block> = (0..8)
            .map(|i| {
                [2, 1, 0]
                    .iter()
                    .fold(99, |node, bit| child(node, i >> bit & 1))
            })
            .collect();
        let mut leaves = [0; 8];
        trees.expand(99, &mut leaves, None);
        assert_eq!(leaves, *expected);
    }

    proptest! {
        #[test]
        fn punctured_trees_lack_one_leaf(depth in 0usize..10, place: prop::sample::Index, root: Block) {
            let trees = Trees::new(&[2; 32], depth);
            let count = trees.leaves();
            let hole = place.index(count);
            let mut sums = vec![[0; 2]; trees.depth()];
            let mut all = vec![0; count];
            trees.expand(root, &mut all, Some(&mut sums));
            let known: Vec<Block> = sums
                .iter()
                .enumerate()
                .map(|(level, sums)| sums[1 ^ (hole >> (trees.depth() - level - 1) & 1)])
                .collect();
            let mut punctured = vec![7; count];
            trees.expand_punctured(hole, &known, &mut punctured);
            all[hole] = 0;
            prop_assert_eq!(punctured, all);
        }
    }
}
