//! The first pass.

use crate::error::Result;
use crate::key::KeySpec;
use crate::source::Source;

/// What the first pass counted, in rows unless it says items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// All data rows.
    pub rows: u64,
    /// Distinct keys.
    pub items: u64,
    /// Rows whose key occurred in an earlier row.
    pub duplicates: u64,
    /// Rows with a null or blank key; they never match.
    pub blanks: u64,
    /// Rows with a key that is invalid under its profile; they never match.
    pub invalid: u64,
    /// Rows with a key that normalisation changed.
    pub changed: u64,
}

/// The keys of a table: what the protocol works on, and the way back to the rows.
#[derive(Debug)]
pub struct Keys {
    digests: Vec<[u8; 32]>,
    row_items: Vec<u32>,
    counts: Counts,
}

impl Keys {
    /// The digests of the distinct keys, in order of first appearance.
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// For each row the index of its key in [`Keys::digests`], or [`Keys::NO_ITEM`].
    pub fn row_items(&self) -> &[u32] {
        &self.row_items
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Stands in [`Keys::row_items`] for a row that has no key and never matches.
    pub const NO_ITEM: u32 = u32::MAX;
}

/// First pass: reads the key columns of every row.
///
/// # Errors
/// Any [`ErrorClass::Data`](crate::ErrorClass) error of the table.
pub fn read_keys(_source: &Source, _key: &KeySpec) -> Result<Keys> {
    todo!()
}
