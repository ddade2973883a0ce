//! The first pass: rows become items.

use hashbrown::HashTable;

use crate::error::{Error, ErrorKind, Result};
use crate::key::KeySpec;
use crate::scan::{At, Sink, scan};
use crate::source::Source;
use crate::value::{Canonical, Item, Row};

/// What the first pass counted, in rows except for `items`. Every row is an item's first, a
/// duplicate, blank, or invalid: `rows = items + duplicates + blanks + invalid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// All data rows.
    pub rows: u64,
    /// Distinct keys.
    pub items: u64,
    /// Rows whose key an earlier row has.
    pub duplicates: u64,
    /// Rows with a null or blank value in a key column; they never match.
    pub blanks: u64,
    /// Rows with a key value that is invalid under its profile; they never match.
    pub invalid: u64,
    /// Rows with an item whose key normalisation changed.
    pub changed: u64,
}

/// The keys of a table: what the protocol works on, and the way back to the rows. Takes
/// 32 bytes for each item and 4 for each row.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    digests: Vec<[u8; 32]>,
    row_items: Vec<u32>,
    counts: Counts,
}

impl Keys {
    /// Stands in [`Keys::row_items`] for a row that has no item and never matches.
    pub const NO_ITEM: u32 = u32::MAX;

    /// The 32-byte digests of the distinct keys, in order of first appearance.
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// For each row the index of its item in [`Keys::digests`], or [`Keys::NO_ITEM`].
    pub fn row_items(&self) -> &[u32] {
        &self.row_items
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// One entry for each item, `true` at the given indices: what
    /// [`write_matches`](crate::write_matches) takes.
    ///
    /// # Errors
    /// Usage: an index that is no item's.
    pub fn matched(&self, items: impl IntoIterator<Item = usize>) -> Result<Vec<bool>> {
        let mut matched = vec![false; self.digests.len()];
        for item in items {
            match matched.get_mut(item) {
                Some(entry) => *entry = true,
                None => return Err(Error::usage(format!("there is no item {item}"), "")),
            }
        }
        Ok(matched)
    }
}

/// First pass: reads the key columns of every row.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place. Resource: more than 2³² − 1 rows.
pub fn read_keys(source: &Source, key: &KeySpec) -> Result<Keys> {
    let mut sink = KeySink { canonical: Canonical::new(key), keys: Collector::default() };
    scan(source, key, &mut sink)?;
    Ok(sink.keys.finish())
}

struct KeySink<'k> {
    canonical: Canonical<'k>,
    keys: Collector,
}

impl Sink for KeySink<'_> {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        let item = self.canonical.item(row, |_, _, _| {}).map_err(|e| e.at_row(at.row, at.line))?;
        self.keys.add(item)
    }
}

/// Gathers items and drops repetitions.
#[derive(Default)]
pub(crate) struct Collector {
    keys: Keys,
    seen: HashTable<Slot>,
}

/// An item in the table of those seen. The tag is part of its digest, so that the table grows
/// without looking at the digests again.
struct Slot {
    tag: u32,
    item: u32,
}

impl Slot {
    /// The table takes its buckets from the low bits and its control bytes from the high ones.
    fn hash(&self) -> u64 {
        u64::from(self.tag).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Collector {
    /// Adds the item of the next row.
    pub(crate) fn add(&mut self, item: Item) -> Result<()> {
        let Keys { digests, row_items, counts } = &mut self.keys;
        if counts.rows >= u64::from(Keys::NO_ITEM) {
            let limit = u64::from(Keys::NO_ITEM);
            return Err(Error::new(ErrorKind::TooMany { what: "rows", limit }));
        }
        counts.rows += 1;
        let (digest, changed) = match item {
            Item::Digest { digest, changed } => (digest, changed),
            Item::Blank => {
                counts.blanks += 1;
                row_items.push(Keys::NO_ITEM);
                return Ok(());
            }
            Item::Invalid => {
                counts.invalid += 1;
                row_items.push(Keys::NO_ITEM);
                return Ok(());
            }
        };
        counts.changed += u64::from(changed);
        // There are no more items than rows, which fit.
        let slot = Slot {
            tag: u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]),
            item: digests.len() as u32,
        };
        let same = |s: &Slot| s.tag == slot.tag && digests[s.item as usize] == digest;
        match self.seen.find(slot.hash(), same) {
            Some(earlier) => {
                counts.duplicates += 1;
                row_items.push(earlier.item);
            }
            None => {
                row_items.push(slot.item);
                digests.push(digest);
                self.seen.insert_unique(slot.hash(), slot, Slot::hash);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Keys {
        self.keys.counts.items = self.keys.digests.len() as u64;
        self.keys.digests.shrink_to_fit();
        self.keys
    }
}
