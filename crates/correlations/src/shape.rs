//! How a silent correlation is cut into chunks, blocks and trees.

use crate::lpn::{MAX_LEAVES, MIN_CHUNK, noise_weight};

/// How a correlation is cut into chunks, blocks and trees: a function of its length and field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Total number of entries.
    pub length: usize,
    /// Number of chunks, of equal length except the last one.
    pub chunks: usize,
    /// Entries of a chunk.
    pub chunk: usize,
    /// Trees per chunk: half of them for the parity half of the code.
    pub trees: usize,
    /// Entries of a block: leaves of a tree that are used.
    pub block: usize,
    /// Levels of a tree: the least that give it at least `block` leaves.
    pub depth: usize,
}

impl Shape {
    /// The shape for `length` entries over a field of 2^`bits` elements.
    pub fn new(length: usize, bits: u32) -> Self {
        let trees = noise_weight(bits);
        let chunks = length.div_ceil(trees / 2 * MAX_LEAVES).max(1);
        let chunk = length.div_ceil(chunks);
        let block = chunk.max(MIN_CHUNK).div_ceil(trees / 2);
        Shape {
            length,
            chunks,
            chunk,
            trees,
            block,
            depth: block.next_power_of_two().trailing_zeros() as usize,
        }
    }

    /// Entries of a chunk, the last one being shorter.
    pub fn chunk_length(&self, chunk: usize) -> usize {
        self.chunk
            .min(self.length - (chunk * self.chunk).min(self.length))
    }

    pub(crate) fn all_trees(&self) -> usize {
        self.chunks * self.trees
    }
}
