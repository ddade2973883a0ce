//! The code, and the matrices to which its words are added.

use vesica_kernels::Backend;
use vesica_kernels::transpose::transpose128;
use vesica_primitives::block::{Block, Cipher, Prg};
use vesica_primitives::parallel;
use zeroize::Zeroizing;

use super::{BATCH, Batch, CHUNK, MAX_PIECES};

/// Columns that one task expands.
const TASK_COLUMNS: usize = 64;

/// C: AES of the item's second half under as many public keys of the run as there are pieces.
///
/// The paper's code word is a pseudorandom function of the item; both sides know the key, which is drawn
/// after the items. The items here are hashed with a salt from both parties, drawn together with the key.
pub(super) struct Code(Vec<Cipher>);

impl Code {
    pub(super) fn new(batch: &Batch) -> Self {
        let labels = [
            "vesica/1 kkrt code 0",
            "vesica/1 kkrt code 1",
            "vesica/1 kkrt code 2",
            "vesica/1 kkrt code 3",
            "vesica/1 kkrt code 4",
        ];
        let ciphers = labels[..batch.pieces()]
            .iter()
            .map(|label| Cipher::public(label, &batch.params.session));
        Code(ciphers.collect())
    }

    /// Each piece of the words of at most [`BATCH`] items: `words[piece][i]`.
    pub(super) fn words(&self, values: &[Block], words: &mut [[Block; BATCH]; MAX_PIECES]) {
        for (cipher, words) in self.0.iter().zip(words) {
            let words = &mut words[..values.len()];
            words.copy_from_slice(values);
            cipher.encrypt(words);
        }
    }
}

/// Expands seeds into rows, a chunk of bins at a time.
pub(super) struct Matrix {
    generators: Vec<Prg>,
    columns: Zeroizing<Vec<Block>>,
    /// The rows of the chunk: those of piece p begin at p times [`CHUNK`].
    rows: Zeroizing<Vec<Block>>,
}

impl Matrix {
    pub(super) fn new(pieces: usize, seeds: impl ExactSizeIterator<Item = Block>) -> Self {
        Matrix {
            generators: seeds.map(Prg::new).collect(),
            columns: Zeroizing::new(vec![0; pieces * CHUNK]),
            rows: Zeroizing::new(vec![0; pieces * CHUNK]),
        }
    }

    /// Advances to the next `count` rows, at most [`CHUNK`]; bits beyond the last column are 0.
    pub(super) fn next(&mut self, count: usize) {
        let blocks = count.div_ceil(128);
        let pieces = self
            .columns
            .chunks_mut(CHUNK)
            .zip(self.rows.chunks_mut(CHUNK))
            .zip(self.generators.chunks_mut(128));
        parallel::each(pieces, |((columns, rows), generators)| {
            let columns = &mut columns[..128 * blocks];
            // Clears leftovers of the previous chunk, if it was longer.
            columns[generators.len() * blocks..].fill(0);
            let tasks = generators
                .chunks_mut(TASK_COLUMNS)
                .zip(columns.chunks_mut(TASK_COLUMNS * blocks));
            parallel::each(tasks, |(generators, columns)| {
                for (generator, column) in generators.iter_mut().zip(columns.chunks_mut(blocks)) {
                    generator.fill(column);
                }
            });
            let columns = bytemuck::must_cast_slice(columns);
            transpose128(Backend::Best, columns, &mut rows[..128 * blocks]);
        });
    }

    /// The pieces of row `row` of the chunk.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = Block> {
        self.rows.chunks_exact(CHUNK).map(move |piece| piece[row])
    }

    /// Adds s ∧ r to each of the chunk's rows in turn, where r is the next `row_bytes` bytes of `rows`.
    pub(super) fn add(&mut self, s: &[Block], rows: &[u8], row_bytes: usize) {
        for (piece, (own, s)) in self.rows.chunks_mut(CHUNK).zip(s).enumerate() {
            let bytes = 16.min(row_bytes - 16 * piece);
            for (own, row) in own.iter_mut().zip(rows.chunks_exact(row_bytes)) {
                let mut word = [0; 16];
                word[..bytes].copy_from_slice(&row[16 * piece..][..bytes]);
                *own ^= s & Block::from_le_bytes(word);
            }
        }
    }
}
