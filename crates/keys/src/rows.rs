//! A set of rows, one bit each.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Which rows of a table are chosen, in one bit per row.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RowSet {
    /// Row `r` is bit `r % 64` of word `r / 64`; bits beyond the last row are zero.
    words: Vec<u64>,
    rows: u64,
}

/// Without which rows they are.
impl std::fmt::Debug for RowSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSet")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Sets a bit without a branch on its value.
fn set_bit(word: &mut u64, bit: u64, to: bool) {
    *word = *word & !(1 << bit) | u64::from(to) << bit;
}

impl RowSet {
    /// No row of a table of `rows` rows.
    pub fn none(rows: u64) -> RowSet {
        RowSet {
            words: vec![0; rows.div_ceil(64) as usize],
            rows,
        }
    }

    /// Rows of the table, chosen or not.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether a row is chosen; a row beyond the last is not.
    pub fn contains(&self, row: u64) -> bool {
        let word = self.words.get((row / 64) as usize).copied().unwrap_or(0);
        word >> (row % 64) & 1 == 1
    }

    /// How many of these rows are chosen; of none beyond the last.
    pub fn count(&self, rows: Range<u64>) -> u64 {
        let (start, end) = (rows.start, rows.end.min(self.rows));
        if start >= end {
            return 0;
        }
        let (first, last) = ((start / 64) as usize, ((end - 1) / 64) as usize);
        let words = (first..).zip(&self.words[first..=last]);
        let ones = words.map(|(number, word)| {
            let from = if number == first {
                !0 << (start % 64)
            } else {
                !0
            };
            let to = if number == last {
                !0 >> (63 - (end - 1) % 64)
            } else {
                !0
            };
            u64::from((word & from & to).count_ones())
        });
        ones.sum()
    }

    /// Chooses a row or leaves it out. Takes the same time, and touches the same memory, either way.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn set(&mut self, row: u64, chosen: bool) {
        assert!(row < self.rows, "there is no row {row}");
        set_bit(&mut self.words[(row / 64) as usize], row % 64, chosen);
    }

    /// As [`RowSet::set`], on all threads, for every row that `chosen` tells of.
    pub(crate) fn set_all(&mut self, chosen: impl Fn(u64) -> Option<bool> + Sync) {
        const WORDS: usize = 256;
        let rows = self.rows;
        let chunks = self.words.par_chunks_mut(WORDS).enumerate();
        chunks.for_each(|(chunk, words)| {
            for (word, number) in words.iter_mut().zip(chunk * WORDS..) {
                let first = 64 * number as u64;
                for row in first..rows.min(first + 64) {
                    if let Some(chosen) = chosen(row) {
                        set_bit(word, row % 64, chosen);
                    }
                }
            }
        });
    }

    /// Chooses a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn insert(&mut self, row: u64) {
        self.set(row, true);
    }

    /// The chosen rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.words).flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(64 * i + u64::from(bit))
            })
        })
    }

    /// One bit per row, the first row in the lowest bit of the first byte; bits of no row are zero.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(self.rows.div_ceil(8) as usize);
        bytes
    }

    /// Reads what [`RowSet::to_bytes`] made of a set of `rows` rows.
    ///
    /// # Errors
    /// Bytes of another length, or a bit beyond the last row.
    pub fn from_bytes(rows: u64, bytes: &[u8]) -> Result<RowSet> {
        if bytes.len() as u64 != rows.div_ceil(8) {
            return Err(Error::NotTheseRows);
        }
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        });
        let words: Vec<u64> = words.collect();
        match words.last() {
            Some(last) if !rows.is_multiple_of(64) && last >> (rows % 64) != 0 => {
                Err(Error::NotTheseRows)
            }
            _ => Ok(RowSet { words, rows }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_row_set_is_a_set_and_comes_back_from_bytes(
            rows in 1u64..300,
            steps in prop::collection::vec((any::<u64>(), any::<bool>()), 0..60),
        ) {
            let (mut set, mut plain) = (RowSet::none(rows), BTreeSet::new());
            for (row, insert) in steps {
                let row = row % rows;
                set.set(row, insert);
                if insert {
                    plain.insert(row);
                } else {
                    plain.remove(&row);
                }
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), plain.iter().copied().collect::<Vec<_>>());
            prop_assert!((0..rows + 70).all(|r| set.contains(r) == plain.contains(&r)));
            for (from, to) in [(0, rows), (rows / 3, rows / 2), (1, 1), (rows / 2, rows + 70), (2, 1)] {
                let expected = plain.iter().filter(|row| (from..to).contains(*row)).count();
                prop_assert_eq!(set.count(from..to), expected as u64);
            }
            let bytes = set.to_bytes();
            prop_assert_eq!(RowSet::from_bytes(rows, &bytes).unwrap(), set);
            prop_assert!(RowSet::from_bytes(rows + 8, &bytes).is_err());
        }
    }

    #[test]
    fn a_bit_of_no_row_is_damage() {
        assert!(RowSet::from_bytes(3, &[0b111]).is_ok());
        assert!(RowSet::from_bytes(3, &[0b1000]).is_err());
        assert!(RowSet::from_bytes(0, &[]).is_ok());
    }
}
