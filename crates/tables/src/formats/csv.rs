//! Delimited text.

use std::io::{Empty, Read, Write};

use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Result};
use crate::items::RowItems;
use crate::keys::RowValue;
use crate::part::Part;
use crate::records::{PIECE_BYTES, Piece, Records};
use crate::selection::Selection;
use crate::sink::{At, Facts, Sink};
use crate::text::{BYTE_ORDER_MARK, strip_terminator};
use crate::value::{Item, Row, Value};
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
    let table = Table {
        wanted,
        columns: &columns,
        width,
    };
    // Without a header the first record is a row.
    let first_is_row = !has_header;
    if S::ITEMS_SUFFICE && rayon::current_num_threads() > 1 {
        table.scan_in_pieces(records, first_is_row, part.dialect(), sink, facts)
    } else {
        table.scan(&mut records, first_is_row, facts, |at, row| {
            sink.row(at, row)
        })
    }
}

/// What to read of the records of a file.
struct Table<'a> {
    wanted: Wanted<'a>,
    /// The wanted columns.
    columns: &'a [usize],
    /// Fields of every record.
    width: usize,
}

/// Bytes that are read side by side, for each thread.
const BYTES_ABREAST: usize = 4 * PIECE_BYTES;

/// What comes of a piece of a file.
#[derive(Default)]
struct Found {
    facts: Facts,
    items: Vec<(Item, RowValue)>,
}

impl Table<'_> {
    /// Hands the records to `take`, the present one first if it is a row.
    fn scan<R: Read>(
        &self,
        records: &mut Records<R>,
        mut at_row: bool,
        facts: &mut Facts,
        mut take: impl FnMut(At, &Fields<'_, R>) -> Result<()>,
    ) -> Result<()> {
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
            if records.len() != self.width {
                let kind = ErrorKind::Ragged {
                    expected: self.width,
                    found: records.len(),
                };
                return Err(Error::new(kind).at_row(at.row, at.line));
            }
            facts.crlf_rows += u64::from(records.ends_in_crlf());
            take(
                at,
                &Fields {
                    records,
                    columns: self.columns,
                },
            )?;
        }
    }

    /// The same as handing every row to `sink`, on all threads: while they make items of pieces of the file, this one
    /// hands on, in order, those of the pieces before.
    fn scan_in_pieces<R: Read>(
        &self,
        mut records: Records<R>,
        first_is_row: bool,
        dialect: Dialect,
        sink: &mut impl Sink,
        facts: &mut Facts,
    ) -> Result<()> {
        let mut cut = Ok(());
        let mut first = first_is_row.then(|| records.present());
        let mut before: Vec<(Piece, Option<Found>)> = Vec::new();
        loop {
            let mut pieces: Vec<_> = first
                .take()
                .map(|piece| (piece, None))
                .into_iter()
                .collect();
            let mut room = BYTES_ABREAST * rayon::current_num_threads();
            while cut.is_ok() && room > 0 {
                let mut piece = Piece::default();
                cut = records.cut(&mut piece);
                if piece.len() == 0 {
                    break;
                }
                room = room.saturating_sub(piece.len());
                pieces.push((piece, None));
            }
            rayon::in_place_scope(|scope| {
                for (piece, found) in &mut pieces {
                    scope.spawn(|_| *found = self.items(piece.records(dialect)).ok());
                }
                before.drain(..).try_for_each(|(piece, found)| {
                    let Some(found) = found else {
                        // Something is wrong with it; in its place, the error says where.
                        let take = |at, row: &Fields<'_, _>| sink.row(at, row);
                        return self.scan(&mut piece.records(dialect), false, facts, take);
                    };
                    facts.rows += found.facts.rows;
                    facts.crlf_rows += found.facts.crlf_rows;
                    let mut items = found.items.into_iter();
                    items.try_for_each(|(item, value)| sink.item(item, value))
                })
            })?;
            if pieces.is_empty() {
                return cut.map_err(|e| e.at_row(facts.rows + 1, None));
            }
            before = pieces;
        }
    }

    /// The items of a piece.
    fn items(&self, mut records: Records<Empty>) -> Result<Found> {
        let mut found = Found::default();
        let mut rows = RowItems::new(self.wanted);
        let Found { facts, items } = &mut found;
        let mut add = |item, value| {
            items.push((item, value));
            Ok(())
        };
        self.scan(&mut records, false, facts, |at, row| {
            match rows.add(at, row)? {
                true => rows.drain(&mut add),
                false => Ok(()),
            }
        })?;
        rows.drain(&mut add)?;
        Ok(found)
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
