//! Puncturable pseudorandom functions as binary trees (Goldreich, Goldwasser and Micali 1986; punctured as in
//! Boyle, Couteau, Gilboa and Ishai, CCS 2018): whoever has the root knows all leaves; whoever has one sum
//! per level knows all but one, at the punctured point, which the sums do not reveal.
//!
//! A node s has the children π₀(s) ⊕ s and π₁(s) ⊕ s; π₀ and π₁ are AES under two public keys, which belong
//! to the run, the tree and the level. In each level of a punctured tree one node is unknown and determines a
//! known child, so guesses at it can be tested. With its own keys per level, finding it takes 2^κ evaluations
//! of AES. Under one key pair for all trees each evaluation would test a guess at every level of every tree,
//! and the search would be that many times shorter.
//!
//! Trees are always full. If a right child were missing, whoever asked for the sums on the path to it would
//! know all existing leaves.

use vesica_primitives::block::{Block, Doubling};

/// The trees of one purpose.
#[derive(Clone)]
pub(crate) struct Trees {
    generator: Doubling,
    depth: usize,
}

impl Trees {
    /// Trees of 2^`depth` leaves each.
    pub(crate) fn new(session: &[u8; 32], depth: usize) -> Self {
        Trees {
            generator: Doubling::new("vesica/1 tree keys", session),
            depth,
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

    /// All leaves of tree number `tree`, which has this root; `sums`, if given, receives the sums of the left
    /// and of the right nodes of each level below the root.
    pub(crate) fn expand(
        &self,
        tree: usize,
        root: Block,
        leaves: &mut [Block],
        mut sums: Option<&mut [[Block; 2]]>,
    ) {
        assert_eq!(leaves.len(), self.leaves());
        let keys = self.generator.levels(tree as u64, self.depth);
        leaves[0] = root;
        for level in 0..self.depth {
            let both = keys.children(level, &mut leaves[..2 << level]);
            if let Some(sums) = &mut sums {
                sums[level] = both;
            }
        }
    }

    /// All leaves of tree number `tree` but the one at `point`, which is set to 0. `sums` has one sum per
    /// level: of the nodes on the side off the path to the point.
    ///
    /// Neither branches nor addresses depend on the point.
    pub(crate) fn expand_punctured(
        &self,
        tree: usize,
        point: usize,
        sums: &[Block],
        leaves: &mut [Block],
    ) {
        assert_eq!((leaves.len(), sums.len()), (self.leaves(), self.depth));
        let keys = self.generator.levels(tree as u64, self.depth);
        leaves[0] = 0;
        for (level, sum) in sums.iter().enumerate() {
            let [left, right] = keys.children(level, &mut leaves[..2 << level]);
            // The node on the path is 0 instead of its true value, so both of its children are wrong.
            let on_path = point >> (self.depth - level - 1);
            let beside = on_path ^ 1;
            let on_right = mask(beside & 1, 1);
            // The sum of the level's true nodes on that side, less the sum of the current ones.
            let missing = sum ^ left ^ (on_right & (left ^ right));
            for (i, node) in leaves[..2 << level].iter_mut().enumerate() {
                *node = (*node & !mask(i, on_path)) ^ (mask(i, beside) & missing);
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

    #[test]
    fn leaves_are_those_of_the_reference() {
        let session = [1; 32];
        let trees = Trees::new(&session, 3);
        for tree in [0, 5] {
            let mut leaves = [0; 8];
            trees.expand(tree, 99, &mut leaves, None);
            let expected = vesica_reference::silent::tree(&session, tree as u64, 99, 3);
            assert_eq!(leaves, *expected);
        }
    }

    #[test]
    fn published_vectors() {
        let text = include_str!("../../../vectors/silent.json");
        let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        let session = *blake3::hash(b"session").as_bytes();
        assert_eq!(hex(&session), vectors["session"]);
        let root = bytemuck::pod_read_unaligned(&blake3::hash(b"root").as_bytes()[..16]);
        let cases = vectors["trees"].as_array().unwrap();
        assert_eq!(cases.len(), 3);
        for case in cases {
            let mut leaves = [0; 8];
            let number = case["number"].as_u64().unwrap() as usize;
            Trees::new(&session, 3).expand(number, root, &mut leaves, None);
            let leaves: Vec<String> = leaves.iter().map(|l| hex(&l.to_le_bytes())).collect();
            assert_eq!(serde_json::json!(leaves), case["leaves"]);
        }
    }

    proptest! {
        #[test]
        fn punctured_trees_lack_one_leaf(
            depth in 0usize..10,
            point: prop::sample::Index,
            tree in 0usize..9,
            root: Block,
        ) {
            let trees = Trees::new(&[2; 32], depth);
            let count = trees.leaves();
            let point = point.index(count);
            let mut sums = vec![[0; 2]; trees.depth()];
            let mut all = vec![0; count];
            trees.expand(tree, root, &mut all, Some(&mut sums));
            let known: Vec<Block> = sums
                .iter()
                .enumerate()
                .map(|(level, sums)| sums[1 ^ (point >> (trees.depth() - level - 1) & 1)])
                .collect();
            let mut punctured = vec![7; count];
            trees.expand_punctured(tree, point, &known, &mut punctured);
            all[point] = 0;
            prop_assert_eq!(punctured, all);
        }
    }
}
