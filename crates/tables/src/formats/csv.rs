//! Delimited text with a header.

use std::io::{Read, Write};

use crate::error::{Error, ErrorKind, Result};
use crate::records::Records;
use crate::selection::Selection;
use crate::sink::{At, Facts, Sink};
use crate::source::Source;
use crate::value::{Row, Value};
use crate::wanted::Wanted;

/// The records of a source; the header is the current record.
fn open(source: &Source) -> Result<(Records<Box<dyn Read + Send>>, bool)> {
    let mut records = Records::new(source.text()?, source.delimiter());
    let mark = records.skip_byte_order_mark()?;
    if records.next(true)? {
        Ok((records, mark))
    } else {
        Err(Error::new(ErrorKind::Empty))
    }
}

pub(crate) fn scan<S: Sink>(source: &Source, wanted: Wanted<'_>, sink: &mut S) -> Result<Facts> {
    let (mut records, byte_order_mark) = open(source)?;
    let width = records.len();
    let names: Vec<String> = (0..width)
        .map(|i| String::from_utf8_lossy(records.field(i)).into_owned())
        .collect();
    let columns = super::columnar::find(&names, wanted)?;
    let mut facts = Facts {
        byte_order_mark,
        ..Facts::default()
    };
    while records
        .next(true)
        .map_err(|e| e.at_row(facts.rows + 1, None))?
    {
        facts.rows += 1;
        let at = At {
            row: facts.rows,
            line: Some(records.line()),
        };
        if records.len() != width {
            let kind = ErrorKind::Ragged {
                expected: width,
                found: records.len(),
            };
            return Err(Error::new(kind).at_row(at.row, at.line));
        }
        facts.crlf_rows += u64::from(records.ends_in_crlf());
        sink.row(
            at,
            &Fields {
                records: &records,
                columns: &columns,
            },
        )?;
    }
    Ok(facts)
}

struct Fields<'a, R> {
    records: &'a Records<R>,
    columns: &'a [usize],
}

impl<R: Read> Row for Fields<'_, R> {
    fn value(&self, column: usize) -> Value<'_> {
        Value::Text(self.records.field(self.columns[column]))
    }
}

/// Copies the header and the selected records, byte for byte.
pub(crate) fn copy(source: &Source, mut rows: Selection<'_>, out: &mut dyn Write) -> Result<u64> {
    let (mut records, byte_order_mark) = open(source)?;
    if byte_order_mark {
        rows.write(out, crate::text::BYTE_ORDER_MARK)?;
    }
    rows.write(out, records.raw())?;
    while records.next(false)? {
        if rows.next()? {
            rows.write(out, records.raw())?;
        }
    }
    rows.finish()
}
