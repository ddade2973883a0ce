//! How a silent correlation is cut into chunks, blocks and trees.

use std::ops::Range;

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
    /// The shape for `length` entries over a field of 2^`bits` elements: whatever its length, no attack takes fewer than 2^128
    /// operations ([`noise_weight`]).
    pub fn new(length: usize, bits: u32) -> Self {
        let chunks = |trees: usize| length.div_ceil(trees / 2 * MAX_LEAVES).max(1);
        // More noise makes longer chunks, and so no more of them.
        let trees = noise_weight(bits, chunks(noise_weight(bits, 1)));
        let chunks = chunks(trees);
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

    /// How many chunks to expand at once. Of each a part takes one thread; a chunk at once takes up to 48 bytes per entry,
    /// so that these are half of all at most.
    pub fn at_once(&self) -> usize {
        rayon::current_num_threads().min(self.chunks.div_ceil(2))
    }

    /// The chunks from `first` on that `entries` entries are.
    ///
    /// # Panics
    /// If these are not whole chunks.
    pub(crate) fn chunks_of(&self, first: usize, entries: usize) -> Range<usize> {
        let end = first * self.chunk + entries;
        assert!(end == self.length || end < self.length && end.is_multiple_of(self.chunk));
        first..end.div_ceil(self.chunk.max(1))
    }

    pub(crate) fn all_trees(&self) -> usize {
        self.chunks * self.trees
    }
}
