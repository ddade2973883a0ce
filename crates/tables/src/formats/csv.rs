//! Delimited text.

use std::io::{Read, Write};

use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Result};
use crate::part::Part;
use crate::records::Records;
use crate::selection::Selection;
use crate::sink::{At, Facts, Sink};
use crate::text::{BYTE_ORDER_MARK, strip_terminator};
use crate::value::{Row, Value};
use crate::wanted::Wanted;

type Text = Records<Box<dyn Read + Send>>;

/// The records of a file, and whether there was a byte-order mark. The header is the current record, or the first row
/// if there is no header; `None` if there is no record at all.
fn open(part: &Part) -> Result<Option<(Text, bool)>> {
    let mut records = Records::new(part.text()?, part.dialect());
    let mark = records.skip_byte_order_mark()?;
    Ok(records.next(true)?.then_some((records, mark)))
}

pub(crate) fn scan<S: Sink>(
    part: &Part,
    wanted: Wanted<'_>,
    sink: &mut S,
    facts: &mut Facts,
) -> Result<()> {
    let Some((mut records, byte_order_mark)) = open(part)? else {
        return Ok(());
    };
    let has_header = part.dialect().csv.header;
    facts.byte_order_mark |= byte_order_mark;
    let width = records.len();
    let names: Vec<String> = (0..width)
        .map(|i| match has_header {
            true => String::from_utf8_lossy(records.field(i)).into_owned(),
            false => (i + 1).to_string(),
        })
        .collect();
    facts.columns.names(part.name(), &names)?;
    let columns = super::fields::find(&names, wanted)?;
    if let Some(added) = wanted.added {
        part.dialect().check_plain(added)?;
    }
    // Without a header the first record is a row.
    let mut at_row = !has_header;
    loop {
        if !at_row {
            let next = records.next(true);
            if !next.map_err(|e| e.at_row(facts.rows + 1, None))? {
                return Ok(());
            }
        }
        at_row = false;
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

/// Copies the header of the first file that has one, and the selected records of all, byte for byte.
pub(crate) fn copy(parts: &[Part], mut rows: Selection<'_>, out: &mut dyn Write) -> Result<u64> {
    let mut begun = false;
    for part in parts {
        copy_part(part, &mut rows, out, &mut begun).map_err(|e| part.named(e))?;
    }
    rows.finish()
}

/// `begun` says whether something has been written, which a byte-order mark and a header come before.
fn copy_part(
    part: &Part,
    rows: &mut Selection<'_>,
    out: &mut dyn Write,
    begun: &mut bool,
) -> Result<()> {
    let Some((mut records, byte_order_mark)) = open(part)? else {
        return Ok(());
    };
    let dialect = part.dialect();
    let has_header = dialect.csv.header;
    if !*begun {
        if byte_order_mark {
            rows.write(out, BYTE_ORDER_MARK)?;
        }
        if has_header {
            let taken = |name: &str| {
                let mut fields = (0..records.len()).map(|i| records.field(i));
                fields.any(|field| field == name.as_bytes())
            };
            let added = rows.added(taken);
            let names: Vec<_> = added.iter().map(|column| Some(&*column.name)).collect();
            write_record(&records, dialect, &names, rows, out)?;
        }
        *begun = true;
    }
    let mut at_row = !has_header;
    while at_row || records.next(false)? {
        at_row = false;
        if rows.next()? {
            let added = rows.added_values();
            write_record(&records, dialect, &added, rows, out)?;
        }
    }
    Ok(())
}

/// Writes the present record as it is, with more fields if some are added. Null is nothing at all, and an empty text
/// is quoted.
fn write_record<R: Read>(
    records: &Records<R>,
    dialect: Dialect,
    added: &[Option<&str>],
    rows: &mut Selection<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let raw = records.raw();
    if added.is_empty() {
        return rows.write_line(out, raw);
    }
    let (body, _) = strip_terminator(raw);
    // A line may end in a bare CR, at the end of a file.
    let body = body.strip_suffix(b"\r").unwrap_or(body);
    let mut line = body.to_vec();
    for field in added {
        line.push(dialect.delimiter);
        if let Some(text) = field {
            dialect.put_field(text, &mut line);
        }
    }
    line.extend_from_slice(&raw[body.len()..]);
    rows.write_line(out, &line)
}
