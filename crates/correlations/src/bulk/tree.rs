//! Correlated trees: X. Guo, K. Yang, X. Wang, W. Zhang, X. Xie, J. Zhang, Z. Liu, *Half-Tree: Halving the Cost of Tree
//! Expansion in COT and DPF*, EUROCRYPT 2023.
//!
//! The nodes of every level add up to Δ. The first level is r and r ⊕ Δ. A node s has the children s ⊕ H(s) and H(s),
//! with H(s) = π(σ(s)) ⊕ σ(s), where π is AES and σ maps the halves (a, b) to (a ⊕ b, a); σ and s ↦ s ⊕ σ(s) are
//! permutations. Child 0 of node i of n is node i of the next level, and child 1 is node n + i.
//!
//! Whoever has one sum per level, of the nodes on one side, knows all leaves but one, and the sum of the others, which
//! is that leaf ⊕ Δ.
//!
//! **Security.** The one unknown node of a level is Δ plus something known, and of its children one is known: H hides
//! it if it is circular correlation robust. Every level of every tree has its own key for π, so in the ideal-cipher
//! model an evaluation of AES, in either direction, tests a guess at Δ in one place.
//!
//! **Pseudorandom trees** ([`Trees::hash_leaves`]), as the paper has them for subfield VOLE: the leaves are hashed once
//! more, by H'(s) = π(σ'(s)) ⊕ σ'(s), and no longer add up to Δ. The receiver of an entry comes to know H'(s) + x·Δ for
//! the one leaf that it lacks, s being Δ plus something known. Whoever guesses σ'(s) + x·Δ inverts π, so this sum must be
//! as hard to guess as Δ, for every x that a receiver may have. With σ for σ' it would not be: blocks are vectors over
//! GF(2^w), σ is linear over this field, and its eigenvalues are the elements of order three. For such an x in GF(16), the
//! sum takes 2^64 values only. σ' maps the halves (a, b) to (α·a + b, α·a). Its characteristic polynomial, λ² + α·λ + α,
//! has no root in GF(8) or GF(16), since α⁻¹ has trace 1; so it is a permutation, and so is the sum, for every x.

use vesica_kernels::subfield::Subfield;
use vesica_primitives::block::{Block, Cipher};

use crate::tree::mask;

/// The trees of one source and size.
pub(super) struct Trees {
    keys: Cipher,
    depth: usize,
}

impl Trees {
    /// Trees of 2^`depth` leaves each; `depth` is at least 1.
    pub(super) fn new(session: &[u8; 32], depth: usize) -> Self {
        Trees {
            keys: Cipher::public("vesica/1 bulk COT tree keys", session),
            depth,
        }
    }

    /// The numbers of the levels of tree number `tree` below the first, with their ciphers.
    fn levels(&self, tree: u64) -> impl Iterator<Item = (usize, Cipher)> {
        let mut keys: Vec<Block> = (1..self.depth as Block)
            .map(|level| Block::from(tree) << 64 | level)
            .collect();
        self.keys.encrypt(&mut keys);
        (1..).zip(keys.into_iter().map(Cipher::new))
    }

    /// Replaces each of the leaves of tree number `tree`, vectors over GF(2^W), by its hash with 0 as its first element.
    /// Returns their sum.
    pub(super) fn hash_leaves<const W: u32>(&self, tree: u64, leaves: &mut [Block]) -> Block {
        let mut key = [Block::from(tree) << 64 | self.depth as Block];
        self.keys.encrypt(&mut key);
        for leaf in leaves.iter_mut() {
            *leaf = separate::<W>(*leaf);
        }
        Cipher::new(key[0]).feed_forward(leaves);
        leaves.iter_mut().fold(0, |sum, leaf| {
            *leaf = Subfield::<W>::without_first(*leaf);
            sum ^ *leaf
        })
    }

    /// All leaves of tree number `tree`, whose first level is `root` and `root` ⊕ `delta`. `sums` receives the sums of
    /// the children 0 of each level.
    pub(super) fn expand(
        &self,
        tree: u64,
        root: Block,
        delta: Block,
        leaves: &mut [Block],
        sums: &mut [Block],
    ) {
        assert_eq!((leaves.len(), sums.len()), (1 << self.depth, self.depth));
        leaves[0] = root;
        leaves[1] = root ^ delta;
        sums[0] = root;
        for (level, cipher) in self.levels(tree) {
            let (nodes, ones) = leaves[..2 << level].split_at_mut(1 << level);
            hash(&cipher, nodes, ones);
            let mut sum = delta;
            for (node, one) in nodes.iter_mut().zip(ones) {
                *node ^= *one;
                sum ^= *one;
            }
            sums[level] = sum;
        }
    }

    /// All leaves of tree number `tree` but the one at `point`, where the sum of all others is. `sums` has one sum per
    /// level: of the children 1 where the point's bit is 0 and the other way round, from the lowest bit on.
    ///
    /// Neither branches nor addresses depend on the point.
    pub(super) fn expand_punctured(
        &self,
        tree: u64,
        point: usize,
        sums: &[Block],
        leaves: &mut [Block],
    ) {
        assert_eq!((leaves.len(), sums.len()), (1 << self.depth, self.depth));
        // One of these is the known node. The other is on the path to the point, where any value will do: sums include
        // it, and what is added to a node is the difference to the true sum.
        leaves[0] = sums[0];
        leaves[1] = sums[0];
        let mut all = 0;
        for (level, cipher) in self.levels(tree) {
            let (nodes, ones) = leaves[..2 << level].split_at_mut(1 << level);
            hash(&cipher, nodes, ones);
            let right = ones.iter().fold(0, |sum, one| sum ^ one);
            // All ones if the known child of the node on the path is child 1.
            let known = mask(point >> level & 1, 0);
            let missing = sums[level] ^ right ^ (!known & all);
            let (add, add_one) = (missing & !known, missing & known);
            let on_path = point & ((1 << level) - 1);
            for (i, (node, one)) in nodes.iter_mut().zip(ones).enumerate() {
                let here = mask(i, on_path);
                *node ^= *one ^ (here & add);
                *one ^= here & add_one;
            }
            all ^= missing;
        }
        for (i, leaf) in leaves.iter_mut().enumerate() {
            *leaf ^= mask(i, point) & all;
        }
    }
}

/// σ'.
#[inline(always)]
fn separate<const W: u32>(leaf: Block) -> Block {
    let leaf = leaf & Subfield::<W>::MASK;
    let high = Subfield::<W>::double(leaf >> 64 << 64);
    high ^ leaf << 64 ^ high >> 64
}

/// H of each node.
fn hash(cipher: &Cipher, nodes: &[Block], out: &mut [Block]) {
    const HIGH: Block = !0 << 64;
    for (out, node) in out.iter_mut().zip(nodes) {
        *out = node.rotate_left(64) ^ (node & HIGH);
    }
    cipher.feed_forward(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rank of a linear map of blocks.
    fn rank(map: impl Fn(Block) -> Block) -> usize {
        let mut basis: Vec<Block> = Vec::new();
        for image in (0..128).map(|i| map(1 << i)) {
            let rest = basis.iter().fold(image, |rest, b| rest.min(rest ^ b));
            if rest != 0 {
                basis.push(rest);
            }
        }
        basis.len()
    }

    /// σ' and σ' + x are permutations of the bits in use, for every x, and so they are of Δ's unknown bits. With σ, two
    /// values of x in GF(16) leave half of the bits.
    #[test]
    fn no_multiple_of_delta_cancels_what_is_hashed() {
        fn check<const W: u32>() {
            let used = Subfield::<W>::MASK.count_ones() as usize;
            let unknown = Subfield::<W>::ENTRY.count_ones() as usize;
            for x in 0..1 << W {
                let sum = |s: Block| {
                    separate::<W>(s) ^ Subfield::<W>::multiple(x, s & Subfield::<W>::MASK)
                };
                assert_eq!(rank(sum), used, "{x}");
                // The multiple of Δ has the first element of Δ as it is for entries.
                let entry = |s: Block| {
                    separate::<W>(s) ^ Subfield::<W>::multiple(x, s & Subfield::<W>::ENTRY)
                };
                assert!(rank(entry) >= unknown, "{x}");
            }
        }
        check::<3>();
        check::<4>();
        let worst = (0..16)
            .map(|x| rank(|s| s << 64 ^ s >> 64 << 64 ^ s >> 64 ^ Subfield::<4>::multiple(x, s)));
        assert_eq!(worst.filter(|rank| *rank == 64).count(), 2);
    }

    proptest! {
        #[test]
        fn punctured_trees_lack_one_leaf(
            depth in 1usize..10,
            point: prop::sample::Index,
            tree in 0u64..9,
            root: Block,
            delta: Block,
        ) {
            let trees = Trees::new(&[2; 32], depth);
            let count = 1 << depth;
            let point = point.index(count);
            let mut sums = vec![0; depth];
            let mut all = vec![0; count];
            trees.expand(tree, root, delta, &mut all, &mut sums);
            prop_assert_eq!(all.iter().fold(0, |sum, leaf| sum ^ leaf), delta);
            let known: Vec<Block> = sums
                .iter()
                .enumerate()
                .map(|(level, sum)| sum ^ mask(point >> level & 1, 0) & delta)
                .collect();
            let mut punctured = vec![7; count];
            trees.expand_punctured(tree, point, &known, &mut punctured);
            all[point] ^= delta;
            prop_assert_eq!(punctured, all);
        }
    }
}
