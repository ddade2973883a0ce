//! One pass over some columns of a table, whatever its format.

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::formats::{csv, ipc, jsonl, parquet};
use crate::sink::{Facts, Sink};
use crate::source::Source;
use crate::wanted::Wanted;

/// Passes the wanted values of every row to `sink`, in order. The table has at least one row, unless
/// its options allow none, and is the same file as when the source was opened, or this fails.
pub(crate) fn scan<S: Sink>(source: &Source, wanted: Wanted<'_>, sink: &mut S) -> Result<Facts> {
    let pass = || {
        source.verify_unchanged()?;
        let facts = match source.format() {
            Format::Csv => csv::scan(source, wanted, sink),
            Format::Jsonl => jsonl::scan(source, wanted, sink),
            Format::Parquet => parquet::scan(source, wanted, sink),
            Format::Arrow => ipc::scan(source, wanted, sink),
        };
        // A file that is written to while it is read mostly looks damaged; say the cause.
        source.verify_unchanged()?;
        let facts = facts?;
        if facts.rows == 0 && !source.allows_no_rows() {
            return Err(Error::new(match source.format() {
                // Nothing says that it is a table at all.
                Format::Jsonl => ErrorKind::Empty,
                _ => ErrorKind::NoRows,
            }));
        }
        Ok(facts)
    };
    let result: Result<Facts> = { pass }();
    result.map_err(|e| e.in_path(source.name()))
}
