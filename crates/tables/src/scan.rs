//! One pass over a table's key columns, whatever its format.

use crate::error::Result;
use crate::key::KeySpec;
use crate::source::{Format, Source};
use crate::value::Row;
use crate::{csv, ipc, jsonl, parquet};

/// Where a row is, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Counted from 1.
    pub(crate) row: u64,
    /// Line on which it starts, in text formats.
    pub(crate) line: Option<u64>,
}

/// Takes the rows of a table one after another.
pub(crate) trait Sink {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()>;
}

/// What the pass saw of a text file besides its rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextFacts {
    /// Rows that end in CR LF.
    pub(crate) crlf_rows: u64,
    /// The file starts with a byte-order mark.
    pub(crate) byte_order_mark: bool,
}

/// Passes the key values of every row to `sink`, in order. The table has at least one row, unless
/// its options allow none, and is the same file as when the source was opened, or this fails.
pub(crate) fn scan<S: Sink>(source: &Source, key: &KeySpec, sink: &mut S) -> Result<TextFacts> {
    let pass = || {
        source.verify_unchanged()?;
        let facts = match source.format() {
            Format::Csv => csv::scan(source, key, sink),
            Format::Jsonl => jsonl::scan(source, key, sink),
            Format::Parquet => parquet::scan(source, key, sink).map(|()| TextFacts::default()),
            Format::Arrow => ipc::scan(source, key, sink).map(|()| TextFacts::default()),
        };
        // A file that is written to while it is read mostly looks damaged; say the cause.
        source.verify_unchanged()?;
        match facts {
            Err(e) if source.is_allowed_without(&e) => Ok(TextFacts::default()),
            facts => facts,
        }
    };
    let result: Result<TextFacts> = { pass }();
    result.map_err(|e| e.in_path(source.name()))
}
