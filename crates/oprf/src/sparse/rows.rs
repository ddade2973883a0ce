//! Rows of the matrix: F of points under the keys of all columns.

use vesica_kernels::Backend;
use vesica_kernels::aes::{Key, bits};
use vesica_kernels::transpose::transpose128;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use zeroize::{Zeroize, Zeroizing};

pub use vesica_kernels::aes::BITS;

use super::MAX_COLUMNS;
use crate::{Item, LongOutput, Output};

/// A row: bit i of word j is that of column 64·j + i.
pub type Row = [u64; MAX_COLUMNS / 64];

/// F, a function from points to bits under a key of 128 bits, with the keys of all columns.
pub trait BitFunction: Sized + Sync {
    /// With one key per column, at most [`MAX_COLUMNS`].
    fn new(keys: impl ExactSizeIterator<Item = Block>) -> Self;

    /// Fills in the columns of the rows of these points; columns beyond the last key stay unchanged.
    fn fill(&self, points: &[Block; BITS], columns: &mut [Block; MAX_COLUMNS]);
}

/// The highest bit of AES-128 of the point.
pub struct AesBit(Vec<Key>);

impl BitFunction for AesBit {
    fn new(keys: impl ExactSizeIterator<Item = Block>) -> Self {
        assert!(keys.len() <= MAX_COLUMNS);
        AesBit(keys.map(Key::new).collect())
    }

    fn fill(&self, points: &[Block; BITS], columns: &mut [Block; MAX_COLUMNS]) {
        let AesBit(keys) = self;
        bits(Backend::Best, keys, points, &mut columns[..keys.len()]);
    }
}

/// A work buffer for rows, wiped after use.
struct Scratch {
    columns: [[Block; MAX_COLUMNS]; 2],
    pieces: [Block; BITS],
}

impl Scratch {
    fn new() -> Box<Self> {
        Box::new(Scratch {
            columns: [[0; MAX_COLUMNS]; 2],
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

impl Drop for Scratch {
    fn drop(&mut self) {
        self.columns.as_flattened_mut().zeroize();
        self.pieces.zeroize();
    }
}

/// A full batch, padded with zeros after the last point.
fn batch(points: &[Block]) -> [Block; BITS] {
    let mut batch = [0; BITS];
    batch[..points.len()].copy_from_slice(points);
    batch
}

/// The rows of the points.
pub fn one(q: &impl BitFunction, points: &[Block]) -> Zeroizing<Vec<Row>> {
    let mut rows = Zeroizing::new(vec![[0; MAX_COLUMNS / 64]; points.len()]);
    let batches = rows.chunks_mut(BITS).zip(points.chunks(BITS));
    parallel::each_with(batches, Scratch::new, |scratch, (rows, points)| {
        q.fill(&batch(points), &mut scratch.columns[0]);
        scratch.transposed(0, rows);
    });
    rows
}

/// H, the hash of rows.
pub trait RowHash: Sync {
    /// The hash of a row.
    type Output: Copy + Default + Send;

    /// Hashes the rows of at most [`BITS`] points, the first of which has the number `first`.
    fn hash(&self, first: usize, rows: &[Row], outputs: &mut [Self::Output]);
}

/// 128 bits.
impl RowHash for Oracle {
    type Output = Output;

    fn hash(&self, _: usize, rows: &[Row], outputs: &mut [Output]) {
        let mut hashes = [[0; 32]; BITS];
        let hashes = &mut hashes[..rows.len()];
        let bytes = bytemuck::must_cast_slice::<Row, [u8; MAX_COLUMNS / 8]>(rows);
        self.hash_many(bytes, hashes);
        for (output, hash) in outputs.iter_mut().zip(hashes) {
            *output = crate::output(hash);
        }
    }
}

/// 256 bits of a row together with its item, for rows in the order of these items.
pub struct WithItems<'a> {
    /// The hash.
    pub oracle: Oracle,
    /// The items.
    pub items: &'a [Item],
}

impl RowHash for WithItems<'_> {
    type Output = LongOutput;

    fn hash(&self, first: usize, rows: &[Row], outputs: &mut [LongOutput]) {
        let mut inputs = Zeroizing::new([[0; MAX_COLUMNS / 8 + size_of::<Item>()]; BITS]);
        for ((input, row), item) in inputs.iter_mut().zip(rows).zip(&self.items[first..]) {
            let (left, right) = input.split_at_mut(MAX_COLUMNS / 8);
            left.copy_from_slice(bytemuck::must_cast_slice(row));
            right.copy_from_slice(item);
        }
        self.oracle.hash_many(&inputs[..rows.len()], outputs);
    }
}

/// H(T(y)) and T(y) ⊕ U(y) of each point y.
pub(super) fn both<F: BitFunction, H: RowHash>(
    t: &F,
    u: &F,
    hash: &H,
    points: &[Block],
) -> (Vec<H::Output>, Zeroizing<Vec<Row>>) {
    let mut rows = Zeroizing::new(vec![[0; MAX_COLUMNS / 64]; points.len()]);
    let mut outputs = vec![H::Output::default(); points.len()];
    let batches = rows.chunks_mut(BITS).zip(outputs.chunks_mut(BITS));
    let batches = batches.zip(points.chunks(BITS)).enumerate();
    parallel::each_with(
        batches,
        Scratch::new,
        |scratch, (i, ((rows, outputs), points))| {
            let points = batch(points);
            t.fill(&points, &mut scratch.columns[0]);
            u.fill(&points, &mut scratch.columns[1]);
            scratch.transposed(0, rows);
            hash.hash(i * BITS, rows, outputs);
            let [t, u] = &mut scratch.columns;
            t.iter_mut().zip(u).for_each(|(t, u)| *t ^= *u);
            scratch.transposed(0, rows);
        },
    );
    (outputs, rows)
}

/// H of each row.
pub fn outputs<H: RowHash>(hash: &H, rows: &[Row]) -> Vec<H::Output> {
    let mut outputs = vec![H::Output::default(); rows.len()];
    let batches = rows.chunks(BITS).zip(outputs.chunks_mut(BITS));
    parallel::each(batches.enumerate(), |(i, (rows, outputs))| {
        hash.hash(i * BITS, rows, outputs);
    });
    outputs
}

/// The row whose bits are those of `blocks`.
pub(super) fn row_of_blocks(blocks: &[Block]) -> Row {
    let mut row = [0; MAX_COLUMNS / 64];
    for (pair, block) in row.as_chunks_mut::<2>().0.iter_mut().zip(blocks) {
        *pair = [*block as u64, (*block >> 64) as u64];
    }
    row
}
