//! Systems of linear equations over GF(2) whose rows are bands, as random-band encodings solve them.
//!
//! Columns are cut into words of 64. A [`Row`] is given in a frame of 512 columns that begins at a word:
//! bit i of word j is column 64·(frame + j) + i. Unknowns ("slots") are `W` words of 64 bits, and so are
//! right sides.
//!
//! [`System`] brings equations into echelon form word by word. A row whose bits in the current word all
//! cancel is carried into the next one, so a row is always in the frame of its first set bit. If every band
//! is at most 448 wide, a row ends at most 448 columns after its first bit, whatever rows were added to it,
//! and the frame suffices: a row that is added begins no later and ends, by induction, less than 448 columns
//! after its own first bit.
//!
//! Columns counted from the other end make bands of bands ([`mirror`]), so that a large system can be brought into
//! echelon form from both ends at once; what is said of a system's parts ([`System::finish`] and after it) is for that.
//!
//! What rows select from slots is found in tables that all rows of a neighbourhood share: the sums of every
//! four slots, so that a row of 512 columns takes 128 additions. With AVX2, the tables are of single bytes, and
//! one shuffle looks up the same byte of sixteen rows in two tables. With GFNI, eight slots and one byte of all of
//! them are an 8×8 bit matrix instead, and one instruction multiplies four or eight such matrices by the same byte
//! of eight rows. In the portable version the addresses that are read in the tables are the rows' own bits.

#[cfg(target_arch = "x86_64")]
mod affine;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod portable;

use std::ops::Range;

use crate::Backend;
use crate::backend::first_version;

/// Columns of a word.
pub const WORD: usize = 64;

/// The widest band that a [`System`] takes.
pub const WIDEST: usize = 448;

/// 512 columns of an equation.
pub type Row = [u64; 8];

/// An equation's left side vanished: the rows are dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Singular;

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if avx512::available(backend) => "avx512-gfni";
        "x86_64" if gfni::available(backend) => "avx2-gfni";
        "x86_64" if avx2::available(backend) => "avx2";
        else "portable"
    )
}

macro_rules! dispatch {
    ($backend:ident, $call:ident($($arg:expr),*)) => {
        first_version!($backend:
            "x86_64" if avx512::available($backend) => avx512::$call($($arg),*);
            "x86_64" if gfni::available($backend) => gfni::$call($($arg),*);
            "x86_64" if avx2::available($backend) => avx2::$call($($arg),*);
            else portable::$call($($arg),*)
        )
    };
}

/// The pivots whose columns lie in the current word: of each column, and of one more that never has a pivot,
/// since a word that is 0 has [`WORD`] trailing zeros. All is 0 where there is none.
///
/// Each row is a cache line.
#[repr(C, align(64))]
struct Block<const W: usize> {
    rows: [Row; WORD + 1],
    values: [[u64; W]; WORD + 1],
    /// Word 0 of each row.
    lead: [u64; WORD + 1],
}

impl<const W: usize> Block<W> {
    const EMPTY: Self = Block {
        rows: [[0; 8]; WORD + 1],
        values: [[0; W]; WORD + 1],
        lead: [0; WORD + 1],
    };
}

/// Equations in echelon form. Build time depends on the rows, not on the values.
pub struct System<const W: usize> {
    backend: Backend,
    columns: Range<usize>,
    block: Box<Block<W>>,
    /// Rows that begin after the current word, in the next one's frame.
    carried: Vec<(Row, [u64; W])>,
    /// Finished words: row c has bit c and none before it, in the frame of word c / 64.
    rows: Vec<Row>,
    values: Vec<[u64; W]>,
    /// Values of columns that no equation determines.
    free: std::vec::IntoIter<[u64; W]>,
}

impl<const W: usize> System<W> {
    /// Memory for equations of these columns and so many [appended](Self::append) ones, some 72 + 8·W bytes per column.
    /// Columns before the range, and those that only fill its last word, are in no equation. Equations may reach further
    /// columns: see [`finish`](Self::finish).
    pub fn new(backend: Backend, columns: Range<usize>, appended: usize) -> Self {
        let padded = columns.end.next_multiple_of(WORD) + appended;
        System {
            backend,
            columns,
            block: Box::new(Block::EMPTY),
            carried: Vec::new(),
            rows: Vec::with_capacity(padded),
            values: Vec::with_capacity(padded),
            free: Vec::new().into_iter(),
        }
    }

    /// Begins with no equations. `free` has the values of the columns that will have no pivot: at least one for each
    /// column in excess of the number of equations, and one for each equation that will be [left over](Self::finish).
    pub fn begin(&mut self, free: Vec<[u64; W]>) {
        *self.block = Block::EMPTY;
        self.carried.clear();
        self.rows.clear();
        self.values.clear();
        self.free = free.into_iter();
    }

    /// Adds equations: `rows[i]` in the frame of word `frames[i]`, its first set bit in that word or later, its
    /// band at most [`WIDEST`] columns. Frames never decrease, from call to call either.
    ///
    /// # Errors
    /// [`Singular`]; the equations cannot be used any further then.
    ///
    /// # Panics
    /// If the slices differ in length, or a frame has passed.
    pub fn insert(
        &mut self,
        frames: &[u32],
        rows: &[Row],
        values: &[[u64; W]],
    ) -> Result<(), Singular> {
        assert!(frames.len() == rows.len() && rows.len() == values.len());
        let mut next = 0;
        for run in frames.chunk_by(|a, b| a == b) {
            self.advance(run[0] as usize)?;
            let these = next..next + run.len();
            next = these.end;
            self.eliminate(&rows[these.clone()], &values[these])?;
        }
        Ok(())
    }

    /// Ends with the last column. Equations for which no column is left reach columns behind the last word only; they are
    /// returned, in the frame of the next word.
    ///
    /// # Errors
    /// [`Singular`], as it is if the free values do not suffice.
    pub fn finish(&mut self) -> Result<Vec<(Row, [u64; W])>, Singular> {
        if let Some(last) = self.columns.end.div_ceil(WORD).checked_sub(1) {
            self.advance(last)?;
            self.close()?;
        }
        Ok(std::mem::take(&mut self.carried))
    }

    /// Adds columns behind the last word of a [finished](Self::finish) system, of which the values are known.
    ///
    /// # Panics
    /// If the system is not finished, or the columns do not fill words.
    pub fn append(&mut self, values: &[[u64; W]]) {
        assert!(values.len().is_multiple_of(WORD), "whole words");
        assert!(self.is_finished(), "a finished system");
        self.rows.extend((0..values.len()).map(unit));
        self.values.extend_from_slice(values);
    }

    /// Solves the last words of a [finished](Self::finish) system alone.
    ///
    /// # Panics
    /// If the system is not finished, or has fewer words.
    pub fn solve_last(&mut self, words: usize) -> &[[u64; W]] {
        assert!(self.is_finished(), "a finished system");
        let from = self.rows.len() - words * WORD;
        back_substitute(self.backend, &self.rows[from..], &mut self.values[from..]);
        for (column, row) in self.rows[from..].iter_mut().enumerate() {
            *row = unit(column);
        }
        &self.values[from..]
    }

    /// Writes the values of the columns of a [finished](Self::finish) system to `slots`, but for appended ones.
    ///
    /// # Panics
    /// If the system is not finished, or there are not as many slots.
    pub fn solve(&mut self, slots: &mut [[u64; W]]) {
        assert!(self.is_finished(), "a finished system");
        back_substitute(self.backend, &self.rows, &mut self.values);
        slots.copy_from_slice(&self.values[self.columns.clone()]);
    }

    fn is_finished(&self) -> bool {
        self.rows.len() >= self.columns.end
    }

    fn eliminate(&mut self, rows: &[Row], values: &[[u64; W]]) -> Result<(), Singular> {
        eliminate(
            self.backend,
            &mut self.block,
            rows,
            values,
            &mut self.carried,
        )
    }

    /// Finishes words until the current one is number `word`.
    fn advance(&mut self, word: usize) -> Result<(), Singular> {
        assert!(self.rows.len() <= word * WORD, "a frame has passed");
        while self.rows.len() < word * WORD {
            self.close()?;
            let (rows, values): (Vec<Row>, Vec<[u64; W]>) = self.carried.drain(..).unzip();
            self.eliminate(&rows, &values)?;
        }
        Ok(())
    }

    /// Finishes the current word. What is carried belongs to the next one.
    fn close(&mut self) -> Result<(), Singular> {
        let first = self.rows.len();
        for column in 0..WORD {
            if self.block.lead[column] == 0 {
                self.block.rows[column] = unit(column);
                self.block.values[column] = match self.columns.contains(&(first + column)) {
                    true => self.free.next().ok_or(Singular)?,
                    false => [0; W],
                };
            }
        }
        self.rows.extend_from_slice(&self.block.rows[..WORD]);
        self.values.extend_from_slice(&self.block.values[..WORD]);
        *self.block = Block::EMPTY;
        Ok(())
    }
}

/// A column alone, in the frame of its word.
fn unit(column: usize) -> Row {
    [1 << (column % WORD), 0, 0, 0, 0, 0, 0, 0]
}

/// Neighbours with equal frames.
struct Run {
    /// Their frame.
    first: usize,
    /// The words of slots in that frame which the frame before did not have.
    fresh: Range<usize>,
    /// Where they stand.
    places: Range<usize>,
}

/// Cuts frames into [`Run`]s.
struct Runs<'a> {
    frames: &'a [u32],
    next: usize,
    have: Range<usize>,
}

impl<'a> Runs<'a> {
    fn new(frames: &'a [u32]) -> Self {
        Runs {
            frames,
            next: 0,
            have: 0..0,
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    #[inline]
    fn next(&mut self) -> Option<Run> {
        let frame = *self.frames.get(self.next)?;
        let first = frame as usize;
        let fresh = match self.have.contains(&first) {
            true => self.have.end..first + 8,
            false => first..first + 8,
        };
        self.have = first..first + 8;
        let start = self.next;
        while self.frames.get(self.next) == Some(&frame) {
            self.next += 1;
        }
        Some(Run {
            first,
            fresh,
            places: start..self.next,
        })
    }
}

/// `N` slots from the `from`th on; those beyond the end are 0.
#[inline]
fn slots_of<const W: usize, const N: usize>(slots: &[[u64; W]], from: usize) -> [[u64; W]; N] {
    let rest = slots.get(from..).unwrap_or(&[]);
    match rest.first_chunk() {
        Some(slots) => *slots,
        None => {
            let mut padded = [[0; W]; N];
            padded[..rest.len()].copy_from_slice(rest);
            padded
        }
    }
}

/// Puts the rows, and the columns of each, in the opposite order.
pub fn mirror(backend: Backend, rows: &mut [Row]) {
    dispatch!(backend, mirror(rows))
}

/// Makes each row a pivot of the block, or carries it into the next word.
fn eliminate<const W: usize>(
    backend: Backend,
    block: &mut Block<W>,
    rows: &[Row],
    values: &[[u64; W]],
    carried: &mut Vec<(Row, [u64; W])>,
) -> Result<(), Singular> {
    dispatch!(backend, eliminate(block, rows, values, carried))
}

/// Solves from the last column to the first. Row c has bit c and none before it, in the frame of word
/// c / 64; columns beyond the end count as 0. `slots` are the right sides before and the unknowns after.
fn back_substitute<const W: usize>(backend: Backend, rows: &[Row], slots: &mut [[u64; W]]) {
    assert!(rows.len() == slots.len() && rows.len().is_multiple_of(WORD));
    dispatch!(backend, back_substitute(rows, slots))
}

/// `out[i]` becomes the XOR of the slots that `rows[i]`, in the frame of word `frames[i]`, selects; slots
/// beyond the end count as 0. Fastest if frames ascend.
///
/// # Panics
/// If `frames`, `rows` and `out` differ in length.
pub fn combine<const W: usize>(
    backend: Backend,
    slots: &[[u64; W]],
    frames: &[u32],
    rows: &[Row],
    out: &mut [[u64; W]],
) {
    assert!(frames.len() == rows.len() && rows.len() == out.len());
    dispatch!(backend, combine(slots, frames, rows, out))
}

#[cfg(test)]
mod tests;
