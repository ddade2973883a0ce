//! One pass over some columns of a table, whatever its format.

pub(crate) mod counts;
pub(crate) mod digests;
pub(crate) mod keys;

use std::io::{Read, Seek, SeekFrom};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::formats::sink::{Facts, Sink};
use crate::source::Source;
use crate::source::part::Part;
use crate::source::sniff;
use crate::types::columns::{Columns, Fields};
use crate::types::columns_read::ColumnsRead;

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
    part.unchanged(|| part.format().scan(part, wanted, sink, facts))
}

/// How many rows a table has, approximately: by what a Parquet file says, and of text by its length and that of its first
/// rows. `None` where only reading tells.
pub fn approximate_rows(source: &Source) -> Option<u64> {
    source.parts().iter().map(rows_of_part).sum()
}

fn rows_of_part(part: &Part) -> Option<u64> {
    #[cfg(feature = "parquet")]
    if part.format() == Format::Parquet {
        return crate::formats::rows_of_parquet(part).ok();
    }
    if !part.format().is_text() || part.compression().is_some() {
        return None;
    }
    let mut sample = Vec::new();
    let mut handle = part.handle().ok()?;
    let length = handle.seek(SeekFrom::End(0)).ok()?;
    handle.rewind().ok()?;
    let read = handle.take(sniff::SAMPLE_BYTES).read_to_end(&mut sample);
    let bytes = read.ok()? as u128;
    let lines = sample.iter().filter(|byte| **byte == b'\n').count() as u128;
    u64::try_from(u128::from(length) * lines / bytes.max(1)).ok()
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
