//! Digests of keys without the rows that have them, for those who bring them together elsewhere.

use crate::columns_read::ColumnsRead;
use crate::error::Result;
use crate::items::{ItemSink, TakeItems};
use crate::key::KeySpec;
use crate::keys::RowValues;
use crate::scan::scan;
use crate::source::Source;
use crate::value::Item;

/// The digest of the key of each row, by which both sides compare keys; none for a row without a usable key, which never
/// matches. All rows are in memory at once.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place.
pub fn row_digests(source: &Source, key: &KeySpec) -> Result<Vec<Option<[u8; 32]>>> {
    let wanted = ColumnsRead::new(key, &[], source.rows().added());
    let mut sink = ItemSink::new(wanted, Digests::default());
    scan(source, wanted, &mut sink)?;
    Ok(sink.finish()?.0)
}

/// Those of rows.
#[derive(Default)]
struct Digests(Vec<Option<[u8; 32]>>);

impl TakeItems for Digests {
    fn add(&mut self, item: Item, _: RowValues) -> Result<()> {
        self.0.push(match item {
            Item::Digest { digest, .. } => Some(digest),
            Item::Blank | Item::Invalid => None,
        });
        Ok(())
    }
}

/// Puts digests in the order of their bytes.
pub fn sort_digests(digests: &mut [[u8; 32]]) {
    // One word tells nearly all of them apart, and is compared in a fraction of the time that 32 bytes take.
    let head = |[a, b, c, d, e, f, g, h, ..]: &[u8; 32]| {
        u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
    };
    digests.sort_unstable_by(|a, b| head(a).cmp(&head(b)).then_with(|| a.cmp(b)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_all_bytes() {
        let mut digests: Vec<[u8; 32]> = (0..2000u32)
            .map(|i| {
                let hash = *blake3::hash(&i.to_le_bytes()).as_bytes();
                std::array::from_fn(|byte| hash[byte] % if byte % 9 == 0 { 3 } else { 1 })
            })
            .collect();
        let mut expected = digests.clone();
        expected.sort();
        sort_digests(&mut digests);
        assert_eq!(digests, expected);
    }
}
