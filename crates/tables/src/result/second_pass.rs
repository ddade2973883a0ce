//! The second pass: from matching items back to rows.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::{ErrorKind, Result};
use crate::formats::container::Container;
use crate::formats::selection::{Selection, WriterWithCause};
use crate::result::output::Output;
use crate::source::Source;
use crate::source::part::Part;
use crate::types::peer_columns::Matched;

/// Second pass: writes the rows that [`SourceOptions::rows`](crate::SourceOptions::rows) asks for, with all columns and in
/// the order of the input, and returns their number. `matched` are those that match, with what the peer has handed over.
/// The file appears under its name only after [`Output::commit`].
///
/// # Errors
/// Data: the input changed since the first pass. Resource: the output cannot be written.
pub fn write_rows<'a>(
    source: &Source,
    matched: impl Into<Matched<'a>>,
    output: &mut Output,
) -> Result<u64> {
    let matched = matched.into();
    let (name, container) = (output.name().to_owned(), output.container().clone());
    output
        .write(|out| write_rows_in(source, matched, &container, out))
        .map_err(|e| e.in_path(&name))
}

/// The same as [`write_rows`], to any writer and without compressing text. Record batches in memory become an
/// Arrow stream.
///
/// # Errors
/// As [`write_rows`].
pub fn write_rows_to<'a>(
    source: &Source,
    matched: impl Into<Matched<'a>>,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    let container = Container::same(source.first());
    write_rows_in(source, matched.into(), &container, out)
}

fn write_rows_in(
    source: &Source,
    matched: Matched<'_>,
    container: &Container,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    verify_unchanged(source)?;
    let rows = Selection::new(matched, source.result_rows())?;
    let mut out = WriterWithCause::new(out);
    let format = source.format();
    let result = format.copy(source.parts(), rows, container, &mut out);
    verify_unchanged(source)?;
    result.map_err(|e| match e.kind() {
        ErrorKind::Unwritable(_) => e,
        _ => e.in_path(source.name()),
    })
}

/// Fails if a file of the table is not the one that was opened.
fn verify_unchanged(source: &Source) -> Result<()> {
    let verify = |part: &Part| part.verify_unchanged().map_err(|e| e.in_path(part.name()));
    source.parts().iter().try_for_each(verify)
}

/// Second pass: the rows that [`write_rows`] would write as record batches, and their schema. The columns of a text are
/// texts.
///
/// # Errors
/// Data: the input changed since the first pass.
pub fn select_rows<'a>(
    source: &Source,
    matched: impl Into<Matched<'a>>,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    verify_unchanged(source)?;
    let rows = Selection::new(matched.into(), source.result_rows())?;
    let selected = source.format().select(source.parts(), rows);
    verify_unchanged(source)?;
    selected.map_err(|e| e.in_path(source.name()))
}
