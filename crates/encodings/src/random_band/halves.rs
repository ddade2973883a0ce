//! A bin's linear system, solved from both ends at once.
//!
//! Columns are cut at a word in the middle. Equations that begin before it are brought into echelon form from the first
//! column on, the others from the last column back. Equations of the first half for which no column is left before the cut
//! join the second half as its last: they reach only columns from the cut on, at most [`WIDEST`]. Then the second half is
//! solved from the cut on, and the first, which needs those columns of it, from the cut back.
//!
//! Whether equations are dependent does not depend on their order, so a cut does not change the probability of failure. Nor
//! does it change the distribution of what encodes uniform values: other columns are free, but all of these are uniform.

use std::ops::Range;

use vesica_kernels::Backend;
use vesica_kernels::band::{Singular, System, WIDEST, WORD, mirror};
use vesica_primitives::block::Block;

use super::{BATCH, Batch, Parameters, batches, random};

/// Words from which on a system is cut. The columns behind the cut are rows of their own for the first half, and should be
/// few beside its others.
const CUT: usize = 64;

/// The memory of a bin's system.
pub(super) struct Halves<const W: usize> {
    backend: Backend,
    /// The first word of the second half.
    cut: usize,
    low: System<W>,
    /// Its columns are counted backwards from the end of the last frame that a band can have.
    high: System<W>,
    /// The last word in which a band can start.
    last: usize,
}

impl<const W: usize> Halves<W> {
    pub(super) fn new(backend: Backend, parameters: Parameters) -> Self {
        let columns = parameters.columns;
        let words = columns.div_ceil(WORD);
        let last = (parameters.starts() - 1) / WORD;
        let cut = if words < CUT { words } else { words / 2 };
        let (high, appended) = match cut < words {
            false => (0..0, 0),
            true => {
                let end = last + 8;
                (end * WORD - columns..(end - cut) * WORD, WIDEST)
            }
        };
        Halves {
            backend,
            cut,
            low: System::new(backend, 0..columns.min(cut * WORD), appended),
            high: System::new(backend, high, 0),
            last,
        }
    }

    /// The first word of the second half.
    pub(super) fn cut(&self) -> usize {
        self.cut
    }

    /// Solves the equations at these positions, those of either half. `fill(batch, values, places)` gives the equations at
    /// some positions, with words counted from the bin's first. Free columns come from `seeds`.
    ///
    /// # Errors
    /// [`Singular`]
    pub(super) fn solve(
        &mut self,
        slots: &mut [[u64; W]],
        places: [Range<usize>; 2],
        seeds: [Block; 2],
        fill: impl Fn(&mut Batch, &mut [[u64; W]], Range<usize>) + Sync,
    ) -> Result<(), Singular> {
        let Halves {
            backend,
            cut,
            low,
            high,
            last,
        } = self;
        let (low_slots, high_slots) = slots.split_at_mut(slots.len().min(*cut * WORD));
        let is_cut = !high_slots.is_empty();
        // Where independent equations are left over, there are at most as many.
        let left_over = if is_cut { WIDEST } else { 0 };
        let [low_places, high_places] = places;
        let free = [
            (low_slots.len() + left_over).saturating_sub(low_places.len()),
            high_slots.len().saturating_sub(high_places.len()),
        ];
        let [low_free, high_free] = [0, 1].map(|half| random(seeds[half], free[half]));
        let frame = |word: u32| *last as u32 - word;
        let (left_over, inserted) = rayon::join(
            || {
                low.begin(low_free);
                let (mut batch, mut values) = (Batch::EMPTY, [[0; W]; BATCH]);
                for places in batches(low_places) {
                    let count = places.len();
                    let values = &mut values[..count];
                    fill(&mut batch, values, places);
                    low.insert(&batch.words[..count], &batch.rows[..count], values)?;
                }
                low.finish()
            },
            || {
                high.begin(high_free);
                let (mut batch, mut values) = (Batch::EMPTY, [[0; W]; BATCH]);
                for places in batches(high_places).rev() {
                    let count = places.len();
                    let values = &mut values[..count];
                    fill(&mut batch, values, places);
                    let (words, rows) = (&mut batch.words[..count], &mut batch.rows[..count]);
                    words.reverse();
                    words.iter_mut().for_each(|word| *word = frame(*word));
                    mirror(*backend, rows);
                    values.reverse();
                    high.insert(words, rows, values)?;
                }
                Ok(())
            },
        );
        inserted?;
        let (mut rows, mut values): (Vec<_>, Vec<_>) = left_over?.into_iter().unzip();
        mirror(*backend, &mut rows);
        values.reverse();
        let frames: Vec<u32> = rows.iter().map(|_| frame(*cut as u32)).collect();
        high.insert(&frames, &rows, &values)?;
        assert!(high.finish()?.is_empty(), "a band leaves the columns");
        if is_cut {
            let mut known = high.solve_last(WIDEST / WORD).to_vec();
            known.reverse();
            low.append(&known);
        }
        rayon::join(
            || low.solve(low_slots),
            || {
                high.solve(high_slots);
                high_slots.reverse();
            },
        );
        Ok(())
    }
}
