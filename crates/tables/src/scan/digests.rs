//! Digests of keys without the rows that have them, for those who bring them together elsewhere.

use crate::error::{Error, Result};
use crate::formats::items::{ItemSink, TakeItems};
use crate::profile::canonical::{Item, RowValues};
use crate::profile::key::KeySpec;
use crate::scan::scan;
use crate::source::Source;
use crate::types::columns_read::ColumnsRead;

/// The digest of the key of each row, by which both sides compare keys; none for a row without a usable key, which never
/// matches. All rows are in memory at once.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place. Usage: rows with several identifiers.
pub fn row_digests(source: &Source, key: &KeySpec) -> Result<Vec<Option<[u8; 32]>>> {
    if !key.identifiers().is_empty() {
        return Err(Error::usage(
            "rows with several identifiers are not matched by tables in parts elsewhere",
        ));
    }
    let wanted = ColumnsRead::new(key, &[], source.result_rows().added());
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
            Item::Blank { .. } | Item::Denied { .. } | Item::Invalid { .. } => None,
        });
        Ok(())
    }
}
