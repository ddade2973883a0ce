//! Delimited text.

use std::borrow::Cow;
use std::io::Read;

use super::lines::{LineFormat, Text};
use crate::columns_read::ColumnsRead;
use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Rows as WhichRows;
use crate::part::Part;
use crate::records::Records;
use crate::selection::{Added, Selection};
use crate::sink::Facts;
use crate::text::strip_terminator;
use crate::value::{Row, Value};

/// The records of delimited text.
pub(crate) struct Rows;

/// Where the wanted values are.
pub(crate) struct Columns {
    /// Which fields they are.
    places: Vec<usize>,
    /// Fields of every record.
    width: usize,
}

impl LineFormat for Rows {
    const HAS_FIELDS: bool = true;

    type Columns<'a> = Columns;

    type Row<'r, R: Read + 'r> = Fields<'r, R>;

    fn columns<'a>(
        part: &Part,
        first: &Text,
        wanted: ColumnsRead<'a>,
        facts: &mut Facts,
    ) -> Result<Columns> {
        let has_header = part.dialect().csv.header;
        let width = first.len();
        let names: Vec<String> = (0..width)
            .map(|i| match has_header {
                true => String::from_utf8_lossy(first.field(i)).into_owned(),
                false => (i + 1).to_string(),
            })
            .collect();
        facts.columns.names(part.name(), &names)?;
        let places = super::fields::find(&names, wanted)?;
        if let Some(added) = wanted.added {
            let values = match added {
                WhichRows::NUMBER => "0123456789",
                _ => "truefalse",
            };
            part.dialect().check_plain(added, values)?;
        }
        Ok(Columns { places, width })
    }

    fn row<'r, R: Read>(
        columns: &'r Columns,
        record: &'r Records<R>,
        _: &mut Facts,
    ) -> Result<Fields<'r, R>> {
        if record.len() != columns.width {
            return Err(Error::new(ErrorKind::Ragged {
                expected: columns.width,
                found: record.len(),
            }));
        }
        let places = &columns.places;
        Ok(Fields { record, places })
    }

    fn added<'a>(_: &[Part], first: &Text, rows: &Selection<'a>) -> Result<Vec<Added<'a>>> {
        let taken = |name: &str| {
            let mut fields = (0..first.len()).map(|i| first.field(i));
            fields.any(|field| field == name.as_bytes())
        };
        Ok(rows.added(taken))
    }

    /// Null is nothing at all, and an empty text is quoted.
    fn with_fields(
        record: &[u8],
        dialect: Dialect,
        _: &[Added<'_>],
        values: &[Option<Cow<'_, str>>],
    ) -> Vec<u8> {
        let (body, _) = strip_terminator(record);
        // A line may end in a bare CR, at the end of a file.
        let body = body.strip_suffix(b"\r").unwrap_or(body);
        let mut line = body.to_vec();
        for field in values {
            line.push(dialect.delimiter);
            if let Some(text) = field {
                dialect.put_field(text, &mut line);
            }
        }
        line.extend_from_slice(&record[body.len()..]);
        line
    }
}

/// The wanted fields of a record.
pub(crate) struct Fields<'r, R> {
    record: &'r Records<R>,
    places: &'r [usize],
}

impl<R: Read> Row for Fields<'_, R> {
    fn value(&self, column: usize) -> Value<'_> {
        Value::Text(self.record.field(self.places[column]))
    }
}
