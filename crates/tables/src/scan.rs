//! One pass over some columns of a table, whatever its format.

use crate::columns::{Columns, Fields};
use crate::columns_read::ColumnsRead;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::part::Part;
use crate::sink::{Facts, Sink};
use crate::source::Source;

/// Passes the wanted values of every row to `sink`, in order. The table has at least one row, unless
/// its options allow none, and its files are the same as when the source was opened and have the same columns,
/// or this fails.
pub(crate) fn scan<S: Sink>(
    source: &Source,
    wanted: ColumnsRead<'_>,
    sink: &mut S,
) -> Result<Facts> {
    let mut facts = Facts::default();
    let mut pass = |facts: &mut Facts| {
        for part in source.parts() {
            scan_part(part, wanted, sink, facts)?;
            facts.ends.push(facts.rows);
        }
        check(source, wanted, facts)
    };
    match pass(&mut facts) {
        Ok(()) => Ok(facts),
        Err(error) => {
            let error = match error.place().row {
                Some(_) => sink.fail(error),
                None => error,
            };
            Err(source.locate(error, &facts.ends))
        }
    }
}

fn scan_part<S: Sink>(
    part: &Part,
    wanted: ColumnsRead<'_>,
    sink: &mut S,
    facts: &mut Facts,
) -> Result<()> {
    part.verify_unchanged()?;
    let scanned = part.format().scan(part, wanted, sink, facts);
    // A file that is written to while it is read mostly looks damaged; say the cause.
    part.verify_unchanged()?;
    scanned
}

/// What can be said of the table when all of it has been seen.
fn check(source: &Source, wanted: ColumnsRead<'_>, facts: &Facts) -> Result<()> {
    match &facts.columns {
        Columns::Fields(Fields { seen, first }) if facts.rows > 0 => {
            if let Some(i) = seen.iter().position(|seen| !seen) {
                return Err(wanted.missing(i, first.clone().unwrap_or_default()));
            }
        }
        _ => {}
    }
    if facts.rows > 0 || source.allows_no_rows() {
        return Ok(());
    }
    Err(Error::new(match facts.columns {
        // Nothing says that it is a table at all.
        Columns::Unknown | Columns::Fields(_) => ErrorKind::Empty,
        _ => ErrorKind::NoRows {
            has_header: source.format() == Format::Csv,
        },
    }))
}
