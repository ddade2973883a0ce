//! Shares of buckets whose matches are opened together, on disk until then.

use std::path::Path;

use vesica_keys::{BucketFile, Error as KeyError};
use vesica_psi::Shares;
use zeroize::Zeroizing;

/// In place of the item of a cell that has none. No bucket has as many.
const NO_ITEM: u32 = u32::MAX;

/// For each bucket this side's shares of which cells match, and the receiver's items in the cells: a bit and four bytes per
/// cell. Where cells are opened, which ones match takes the place of the shares.
pub(crate) struct Withheld {
    matches: BucketFile,
    items: BucketFile,
    /// Cells of each bucket.
    cells: usize,
    /// From the first on, so many buckets are opened.
    opened: usize,
}

impl Withheld {
    /// None yet.
    pub(crate) fn create(directory: &Path) -> Result<Withheld, KeyError> {
        Ok(Withheld {
            matches: BucketFile::create(directory)?,
            items: BucketFile::create(directory)?,
            cells: 0,
            opened: 0,
        })
    }

    /// Adds the shares of a bucket, which has as many cells as every other.
    pub(crate) fn add(&mut self, bucket: usize, shares: &Shares) -> Result<(), KeyError> {
        self.cells = shares.matches.len();
        self.keep(bucket, &shares.matches)?;
        let items = shares.items.iter().flatten();
        let items = items.map(|item| item.unwrap_or(NO_ITEM).to_le_bytes());
        self.items
            .add(bucket, items.collect::<Vec<_>>().as_flattened())
    }

    /// These cells of the next bucket match.
    pub(crate) fn open(&mut self, bucket: usize, matches: &[bool]) -> Result<(), KeyError> {
        self.opened = bucket + 1;
        self.keep(bucket, matches)
    }

    fn keep(&mut self, bucket: usize, matches: &[bool]) -> Result<(), KeyError> {
        let mut bits = Zeroizing::new(vec![0u8; matches.len().div_ceil(8)]);
        for (cell, bit) in matches.iter().enumerate() {
            bits[cell / 8] |= u8::from(*bit) << (cell % 8);
        }
        self.matches.add(bucket, &bits)
    }

    /// How many buckets are opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened
    }

    /// This side's shares of which cells of a bucket match, or which do.
    pub(crate) fn matches(&self, bucket: usize) -> Result<Zeroizing<Vec<bool>>, KeyError> {
        let bits = self.matches.read(bucket)?;
        let bit = |cell: usize| bits[cell / 8] >> (cell % 8) & 1 == 1;
        Ok(Zeroizing::new((0..self.cells).map(bit).collect()))
    }

    /// The receiver's item in each cell of a bucket.
    pub(crate) fn items(&self, bucket: usize) -> Result<Vec<Option<u32>>, KeyError> {
        let items = self.items.read(bucket)?;
        let items = items
            .as_chunks::<4>()
            .0
            .iter()
            .copied()
            .map(u32::from_le_bytes);
        Ok(items
            .map(|item| (item != NO_ITEM).then_some(item))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_back_bucket_by_bucket() {
        let directory = tempfile::tempdir().unwrap();
        for cells in [0u32, 1, 8, 9, 5000] {
            let shares = |bucket: u32| {
                let item = |cell: u32| (cell % 3 != bucket % 3).then_some(cell / 3 * 7);
                let bit = |cell: u32| (cell * cell + bucket) % 5 < 2;
                let bits = Zeroizing::new((0..cells).map(bit).collect());
                Shares::new(Some((0..cells).map(item).collect()), bits)
            };
            let mut all = Withheld::create(directory.path()).unwrap();
            (0..4).for_each(|bucket| all.add(bucket as usize, &shares(bucket)).unwrap());
            for bucket in [3, 0, 1, 2, 2] {
                let expected = shares(bucket);
                assert_eq!(all.matches(bucket as usize).unwrap(), expected.matches);
                assert_eq!(Some(all.items(bucket as usize).unwrap()), expected.items);
            }
        }
    }
}
