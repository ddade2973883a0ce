//! Delimited text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

use super::lines::{Chosen, LineFormat, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::selection::{Added, Selection};
use crate::formats::sink::Facts;
use crate::profile::canonical::{Row, Value};
use crate::profile::key::Identifier;
use crate::profile::render;
use crate::source::dialect::Dialect;
use crate::source::options::Rows as WhichRows;
use crate::source::part::Part;
use crate::source::records::Records;
use crate::source::text::strip_terminator;
use crate::types::columns_read::ColumnsRead;

/// The records of delimited text.
pub(crate) struct Rows;

/// Where the wanted values are.
pub(crate) struct Columns {
    /// Which fields they are.
    places: Vec<usize>,
    /// Fields of every record.
    width: usize,
    /// Whether the header has a delimiter after its last name.
    ends_with_delimiter: bool,
}

/// The names of the columns, as the first record has them, or else their numbers.
fn names(first: &Text, dialect: Dialect) -> Vec<String> {
    let name = |i| match dialect.csv.header {
        true => String::from_utf8_lossy(first.field(i)).into_owned(),
        false => (i + 1).to_string(),
    };
    (0..first.len()).map(name).collect()
}

/// Lines in which names are looked for that the first one lacks.
const LINES_OF_NAMES: usize = 100;

/// The line that has the names of all wanted columns, below the first, if one has.
fn names_below(part: &Part, wanted: ColumnsRead<'_>) -> Option<u64> {
    let mut records = part.records().ok()?;
    for _ in 0..LINES_OF_NAMES {
        records.next(true).ok().filter(|more| *more)?;
        let fields = (0..records.len()).map(|i| String::from_utf8_lossy(records.field(i)));
        let fields: Vec<_> = fields.collect();
        if super::fields::has_all(&fields, wanted) {
            return Some(records.line());
        }
    }
    None
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
        let names = names(first, part.dialect());
        facts.columns.names(part.name(), &names)?;
        let places = super::fields::find(&names, wanted).map_err(|error| {
            match names_below(part, wanted).filter(|_| has_header && error.is_of_no_column()) {
                Some(line) => {
                    let column = error.place().column.clone().unwrap_or_default();
                    Error::new(ErrorKind::NamesBelow { line }).in_column(&column)
                }
                None => error,
            }
        })?;
        for added in wanted.added.into_iter().flatten() {
            let identifiers = wanted.key.identifiers().iter();
            let values = match added {
                WhichRows::NUMBER => "0123456789".to_owned(),
                WhichRows::IN_BOTH => "truefalse".to_owned(),
                _ => identifiers.map(Identifier::name).collect(),
            };
            part.dialect().check_plain(added, &values)?;
        }
        let ends_with_delimiter = has_header && width > 1 && names[width - 1].is_empty();
        Ok(Columns {
            places,
            width,
            ends_with_delimiter,
        })
    }

    fn row<'r, R: Read>(
        columns: &'r Columns,
        record: &'r Records<R>,
        _: &mut Facts,
    ) -> Result<Fields<'r, R>> {
        if record.len() != columns.width {
            let (expected, found) = (columns.width, record.len());
            let by_last = match found.checked_sub(expected) {
                Some(1) => record.field(found - 1).is_empty(),
                None => found + 1 == expected && columns.ends_with_delimiter,
                Some(_) => false,
            };
            return Err(Error::new(ErrorKind::Ragged {
                by_last,
                expected,
                found,
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
        rows.added(taken)
    }

    fn names(parts: &[Part]) -> Result<Vec<String>> {
        for part in parts {
            let mut records = part.records()?;
            records.skip_byte_order_mark()?;
            if !records.next(true)? {
                continue;
            }
            let name = |i| match part.dialect().csv.header {
                true => {
                    let name = str::from_utf8(records.field(i));
                    let name = name.map_err(|_| Error::new(ErrorKind::NotUtf8).at_line(1))?;
                    Ok(name.to_owned())
                }
                false => Ok((i + 1).to_string()),
            };
            let names: Vec<String> = (0..records.len()).map(name).collect::<Result<_>>()?;
            super::fields::check_each_once(&names)?;
            return Ok(names);
        }
        Ok(Vec::new())
    }

    /// Nothing at all is null, and an empty text is quoted.
    fn texts<R: Read>(
        record: &Records<R>,
        _: &HashMap<&str, usize>,
        put: &mut dyn FnMut(usize, &str),
    ) -> Result<()> {
        for column in 0..record.len() {
            let text = str::from_utf8(record.field(column));
            let text = text.map_err(|_| Error::new(ErrorKind::NotUtf8))?;
            if !text.is_empty() || record.is_quoted(column) {
                put(column, text);
            }
        }
        Ok(())
    }

    fn put_names(names: &[String], dialect: Dialect, out: &mut Vec<u8>) {
        if dialect.csv.header {
            for (i, name) in names.iter().enumerate() {
                if i > 0 {
                    out.push(dialect.delimiter);
                }
                dialect.put_field(name, out);
            }
            out.push(b'\n');
        }
    }

    fn put_row<V: Row>(names: &[String], row: &V, dialect: Dialect, out: &mut Vec<u8>) {
        let start = out.len();
        for column in 0..names.len() {
            if column > 0 {
                out.push(dialect.delimiter);
            }
            match row.value(column) {
                // Results in text have no columns of lists.
                Value::Null | Value::List(_) => {}
                Value::Text(text) => dialect.put_field(&*String::from_utf8_lossy(text), out),
                Value::Bytes(bytes) => dialect.put_field(render::hex(bytes), out),
                Value::Typed(_, text) => dialect.put_field(text, out),
            }
        }
        if out.len() == start {
            // A blank line is no row.
            dialect.put_field("", out);
        }
    }

    fn places(first: &Text, dialect: Dialect, chosen: &[String]) -> Result<Vec<usize>> {
        super::fields::find_chosen(&names(first, dialect), chosen)
    }

    /// Fields in quotes stay so. A line of one field is never blank, which would be no row.
    fn put_chosen<R: Read>(
        record: &Records<R>,
        chosen: &Chosen<'_>,
        dialect: Dialect,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let is_alone = chosen.places.len() == 1;
        for (i, place) in chosen.places.iter().enumerate() {
            if i > 0 {
                out.push(dialect.delimiter);
            }
            if *place >= record.len() {
                return Err(Error::new(ErrorKind::Changed));
            }
            let field = record.field(*place);
            match record.is_quoted(*place) || (is_alone && field.is_empty()) {
                true => dialect.put_quoted(field, out),
                false if field.is_empty() => {}
                false => dialect.put_field(field, out),
            }
        }
        let raw = record.raw();
        out.extend_from_slice(&raw[strip_terminator(raw).0.len()..]);
        Ok(())
    }

    /// Null is nothing at all, and an empty text is quoted.
    fn put_with_fields(
        record: &[u8],
        dialect: Dialect,
        _: &[Added<'_>],
        values: &[Option<Cow<'_, str>>],
        out: &mut Vec<u8>,
    ) {
        let (body, _) = strip_terminator(record);
        // A line may end in a bare CR, at the end of a file.
        let body = body.strip_suffix(b"\r").unwrap_or(body);
        out.extend_from_slice(body);
        for field in values {
            out.push(dialect.delimiter);
            if let Some(text) = field {
                dialect.put_field(&**text, out);
            }
        }
        out.extend_from_slice(&record[body.len()..]);
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
