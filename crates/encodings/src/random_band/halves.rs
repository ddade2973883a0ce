//! A bin's linear system, solved from both ends at once.
//!
//! Columns are cut at a word in the middle. Equations that begin before it are brought into echelon form from the first
//! column on, the others from the last column back. Of the first half, equations for which no column is left before the
//! cut join the second half as its last: their bands begin there, and end within [`WIDEST`] columns. Then the second half
//! is solved from the cut on, and the first, which needs those columns of it, from the cut back.
//!
//! Whether equations are dependent does not hang on the order in which they are added, so a cut changes neither the
//! probability of failure nor, but for the values of free columns, what is solved.

use std::ops::Range;

use vesica_kernels::Backend;
use vesica_kernels::band::{Singular, System, WIDEST, WORD, mirror};
use vesica_primitives::block::Block;

use super::{BATCH, Batch, batches, random};

/// Words from which on a system is cut. The columns behind the cut are known to the first half as rows of their own, and
/// should be few beside its own.
const CUT: usize = 64;

/// The memory of a bin's system.
pub(super) struct Halves<const W: usize> {
    backend: Backend,
    /// The first word of the second half.
    cut: usize,
    low: System<W>,
    /// Columns are counted from the end of the word behind the last whole one: a frame that begins in any word at which a
    /// band may start ends there at the latest.
    high: System<W>,
    /// The word in which the frame of a band of word 0 would begin in the second half.
    last: usize,
}

impl<const W: usize> Halves<W> {
    pub(super) fn new(backend: Backend, columns: usize) -> Self {
        let words = columns.div_ceil(WORD);
        let (cut, high) = match words < CUT {
            true => (words, 0..0),
            false => {
                let (cut, words) = (words / 2, columns / WORD + 1);
                (cut, words * WORD - columns..(words - cut) * WORD)
            }
        };
        Halves {
            backend,
            cut,
            low: System::new(backend, 0..columns.min(cut * WORD)),
            high: System::new(backend, high),
            last: (columns / WORD + 1).saturating_sub(8),
        }
    }

    /// The first word of the second half.
    pub(super) fn cut(&self) -> usize {
        self.cut
    }

    /// Solves the equations at these positions, of either half. `fill(batch, values, places)` gives those at some
    /// positions, with words from the first on. Free columns come from `seeds`.
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
            low,
            high,
            last,
            cut,
        } = self;
        let [low_places, high_places] = places;
        let (low_slots, high_slots) = slots.split_at_mut(slots.len().min(*cut * WORD));
        // As many equations as may be left at the cut.
        let free = (low_slots.len() + WIDEST).saturating_sub(low_places.len());
        let low_free = random(seeds[0], free);
        let free = high_slots.len().saturating_sub(high_places.len());
        let high_free = random(seeds[1], free);
        let frame = |word: u32| *last as u32 - word;
        let (left, inserted) = rayon::join(
            || {
                low.begin(low_free);
                let (mut batch, mut values) = (Batch::EMPTY, [[0; W]; BATCH]);
                for places in batches(low_places) {
                    let count = places.len();
                    fill(&mut batch, &mut values[..count], places);
                    low.insert(
                        &batch.words[..count],
                        &batch.rows[..count],
                        &values[..count],
                    )?;
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
        let (mut rows, mut values): (Vec<_>, Vec<_>) = left?.into_iter().unzip();
        mirror(*backend, &mut rows);
        values.reverse();
        let frames: Vec<u32> = rows.iter().map(|_| frame(*cut as u32)).collect();
        high.insert(&frames, &rows, &values)?;
        let left = high.finish()?;
        assert!(left.is_empty(), "a band leaves the columns");
        if !high_slots.is_empty() {
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
