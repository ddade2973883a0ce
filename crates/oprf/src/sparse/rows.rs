//! Rows of the matrix: F of points under the keys of all columns.

use rayon::prelude::*;
use sha2::{Digest, Sha256};
use vesica_kernels::Backend;
use vesica_kernels::aes::{BITS, Key, bits};
use vesica_kernels::transpose::transpose128;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use zeroize::{Zeroize, Zeroizing};

use super::MOST_COLUMNS;
use crate::Output;

/// A row: bit i of word j is that of column 64·j + i.
pub type Row = [u64; MOST_COLUMNS / 64];

/// F, a function from points to bits under a key of 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BitFunction {
    /// The highest bit of AES-128 of the point.
    #[default]
    Aes,
    /// The lowest bit of the first byte of SHA-256 of key and point. Some forty times slower; for
    /// comparing with LTSXQ26's table IX.
    Sha256,
}

/// The keys of the columns.
pub(crate) enum Columns {
    Aes(Vec<Key>),
    Sha256(Zeroizing<Vec<Block>>),
}

impl Columns {
    /// # Panics
    /// If there are more than [`MOST_COLUMNS`].
    pub(crate) fn new(function: BitFunction, keys: impl ExactSizeIterator<Item = Block>) -> Self {
        assert!(keys.len() <= MOST_COLUMNS);
        match function {
            BitFunction::Aes => Columns::Aes(keys.map(Key::new).collect()),
            BitFunction::Sha256 => Columns::Sha256(Zeroizing::new(keys.collect())),
        }
    }

    /// The columns of the rows of these points; those beyond the last key are left as they are.
    fn fill(&self, points: &[Block; BITS], columns: &mut [Block; MOST_COLUMNS]) {
        match self {
            Columns::Aes(keys) => bits(Backend::Best, keys, points, &mut columns[..keys.len()]),
            Columns::Sha256(keys) => {
                let mut input = Zeroizing::new([0; 32]);
                for (column, key) in columns.iter_mut().zip(keys.iter()) {
                    input[..16].copy_from_slice(&key.to_le_bytes());
                    *column = 0;
                    for (i, point) in points.iter().enumerate() {
                        input[16..].copy_from_slice(&point.to_le_bytes());
                        *column |= Block::from(Sha256::digest(*input)[0] & 1) << i;
                    }
                }
            }
        }
    }
}

/// Room to make rows in, wiped after use.
struct Bench {
    columns: [[Block; MOST_COLUMNS]; 2],
    pieces: [Block; BITS],
}

impl Bench {
    fn new() -> Box<Self> {
        Box::new(Bench {
            columns: [[0; MOST_COLUMNS]; 2],
            pieces: [0; BITS],
        })
    }

    /// The rows whose columns are number `which`.
    fn transposed(&mut self, which: usize, rows: &mut [Row]) {
        for (piece, columns) in self.columns[which].chunks_exact(128).enumerate() {
            let columns = bytemuck::must_cast_slice::<Block, u8>(columns);
            transpose128(Backend::Best, columns, &mut self.pieces);
            for (row, bits) in rows.iter_mut().zip(&self.pieces) {
                row[2 * piece] = *bits as u64;
                row[2 * piece + 1] = (*bits >> 64) as u64;
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.columns.as_flattened_mut().zeroize();
        self.pieces.zeroize();
    }
}

/// A full batch, with zeros behind the last point.
fn batch(points: &[Block]) -> [Block; BITS] {
    let mut batch = [0; BITS];
    batch[..points.len()].copy_from_slice(points);
    batch
}

/// The rows of the points.
pub(crate) fn one(q: &Columns, points: &[Block]) -> Zeroizing<Vec<Row>> {
    let mut rows = Zeroizing::new(vec![[0; MOST_COLUMNS / 64]; points.len()]);
    rows.par_chunks_mut(BITS)
        .zip(points.par_chunks(BITS))
        .for_each_init(Bench::new, |bench, (rows, points)| {
            q.fill(&batch(points), &mut bench.columns[0]);
            bench.transposed(0, rows);
        });
    rows
}

/// H(T(y)) and T(y) ⊕ U(y) of each point y.
pub(super) fn both(
    t: &Columns,
    u: &Columns,
    oracle: &Oracle,
    points: &[Block],
) -> (Vec<Output>, Zeroizing<Vec<Row>>) {
    let mut rows = Zeroizing::new(vec![[0; MOST_COLUMNS / 64]; points.len()]);
    let mut outputs = vec![[0; 2]; points.len()];
    rows.par_chunks_mut(BITS)
        .zip(outputs.par_chunks_mut(BITS))
        .zip(points.par_chunks(BITS))
        .for_each_init(Bench::new, |bench, ((rows, outputs), points)| {
            let points = batch(points);
            t.fill(&points, &mut bench.columns[0]);
            u.fill(&points, &mut bench.columns[1]);
            bench.transposed(0, rows);
            hash(oracle, rows, outputs);
            let [t, u] = &mut bench.columns;
            t.iter_mut().zip(u).for_each(|(t, u)| *t ^= *u);
            bench.transposed(0, rows);
        });
    (outputs, rows)
}

/// H of each row, at most a batch of them.
fn hash(oracle: &Oracle, rows: &[Row], outputs: &mut [Output]) {
    let mut hashes = [[0; 32]; BITS];
    let hashes = &mut hashes[..rows.len()];
    let bytes = bytemuck::must_cast_slice::<Row, [u8; MOST_COLUMNS / 8]>(rows);
    oracle.hash_many(bytes, hashes);
    for (output, hash) in outputs.iter_mut().zip(hashes) {
        *output = crate::output(hash);
    }
}

/// H of each row.
pub(crate) fn outputs(oracle: &Oracle, rows: &[Row]) -> Vec<Output> {
    let mut outputs = vec![[0; 2]; rows.len()];
    rows.par_chunks(BITS)
        .zip(outputs.par_chunks_mut(BITS))
        .for_each(|(rows, outputs)| hash(oracle, rows, outputs));
    outputs
}

/// The row whose bits are those of `blocks`.
pub(super) fn row_of_blocks(blocks: &[Block]) -> Row {
    let mut row = [0; MOST_COLUMNS / 64];
    for (pair, block) in row.as_chunks_mut::<2>().0.iter_mut().zip(blocks) {
        *pair = [*block as u64, (*block >> 64) as u64];
    }
    row
}
