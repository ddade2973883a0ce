//! The second pass: from matching items back to rows.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::formats::{csv, ipc, jsonl, parquet};
use crate::output::{Container, Output};
use crate::rows::RowSet;
use crate::selection::{Selection, Watched};
use crate::source::Source;

/// Second pass: writes the chosen rows, with all columns and in the order of the input, and returns their
/// number. The file appears under its name only after [`Output::commit`].
///
/// # Errors
/// Data: the input changed since the first pass. Resource: the output cannot be written.
pub fn write_rows(source: &Source, rows: &RowSet, output: &mut Output) -> Result<u64> {
    let (name, container) = (output.name().to_owned(), output.container());
    output
        .write(|out| write_rows_in(source, rows, container, out))
        .map_err(|e| e.in_path(&name))
}

/// The same as [`write_rows`], to any writer and without compressing text. Record batches in memory become an
/// Arrow stream.
///
/// # Errors
/// As [`write_rows`].
pub fn write_rows_to(source: &Source, rows: &RowSet, out: &mut (dyn Write + Send)) -> Result<u64> {
    write_rows_in(source, rows, Container::ArrowStream, out)
}

/// `container` is for record batches in memory.
fn write_rows_in(
    source: &Source,
    rows: &RowSet,
    container: Container,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    let named = |e: Error| {
        if matches!(e.kind(), ErrorKind::Unwritable(_)) {
            e
        } else {
            e.in_path(source.name())
        }
    };
    source.verify_unchanged().map_err(named)?;
    let rows = Selection::new(rows);
    let mut out = Watched::new(out);
    let result = match source.format() {
        Format::Csv => csv::copy(source, rows, &mut out),
        Format::Jsonl => jsonl::copy(source, rows, &mut out),
        Format::Parquet => parquet::copy(source, rows, &mut out),
        Format::Arrow => match (source.batches(), container) {
            #[cfg(feature = "parquet")]
            (Some(batches), Container::Parquet) => parquet::write(batches, rows, &mut out),
            (_, container) => ipc::copy(source, rows, container == Container::ArrowFile, &mut out),
        },
    };
    source.verify_unchanged().map_err(named)?;
    result.map_err(named)
}

/// Second pass: the chosen rows of a table in Arrow or Parquet as record batches, with all columns and in
/// the order of the input, and their schema.
///
/// # Errors
/// Usage: a table in another format, whose columns have no types. Data: the input changed since the first
/// pass.
pub fn select_rows(source: &Source, rows: &RowSet) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let select = || {
        source.verify_unchanged()?;
        let selection = Selection::new(rows);
        let selected = match source.format() {
            Format::Parquet => parquet::select(source, selection),
            Format::Arrow => ipc::select(source, selection),
            text => Err(Error::usage(format!("{text} has no record batches"), "")),
        };
        source.verify_unchanged()?;
        selected
    };
    let result: Result<_> = { select }();
    result.map_err(|e: Error| e.in_path(source.name()))
}
