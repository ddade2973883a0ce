//! Delimited text.

use std::borrow::Cow;
use std::io::{Empty, Read, Write};
use std::ops::Range;

use crate::columns_read::ColumnsRead;
use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Result};
use crate::items::RowItems;
use crate::keys::RowValue;
use crate::options::Rows;
use crate::part::Part;
use crate::records::{PIECE_BYTES, Piece, Records};
use crate::selection::Selection;
use crate::sink::{At, Facts, Sink};
use crate::text::{BYTE_ORDER_MARK, strip_terminator};
use crate::value::{Item, Row, Value};

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
    wanted: ColumnsRead<'_>,
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
        let values = match added {
            Rows::NUMBER => "0123456789",
            _ => "truefalse",
        };
        part.dialect().check_plain(added, values)?;
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
    wanted: ColumnsRead<'a>,
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

    /// The same as handing every row to `sink`, on all threads: they make items of pieces of the file.
    fn scan_in_pieces<R: Read>(
        &self,
        mut records: Records<R>,
        first_is_row: bool,
        dialect: Dialect,
        sink: &mut impl Sink,
        facts: &mut Facts,
    ) -> Result<()> {
        let items = |piece: &Piece| self.items(piece.records(dialect)).ok();
        let cut = in_pieces(&mut records, first_is_row, items, |piece, found| {
            let Some(found) = found else {
                // Something is wrong with it; in its place, the error says where.
                let take = |at, row: &Fields<'_, _>| sink.row(at, row);
                return self.scan(&mut piece.records(dialect), false, facts, take);
            };
            facts.rows += found.facts.rows;
            facts.crlf_rows += found.facts.crlf_rows;
            let mut items = found.items.into_iter();
            items.try_for_each(|(item, value)| sink.item(item, value))
        })?;
        cut.map_err(|e| e.at_row(facts.rows + 1, None))
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

/// Cuts the rest of a text into pieces, and the present record as well if `with_present`. All threads do `work` on
/// them; meanwhile this one hands those before, with what came of them, to `take`, in order. Returns why the text could
/// not be cut to its end, once all before that has been taken.
fn in_pieces<R: Read, T: Send>(
    records: &mut Records<R>,
    with_present: bool,
    work: impl Fn(&Piece) -> T + Sync,
    mut take: impl FnMut(Piece, T) -> Result<()>,
) -> Result<Result<()>> {
    let mut cut = Ok(());
    let mut first = with_present.then(|| records.present());
    let mut before: Vec<(Piece, Option<T>)> = Vec::new();
    loop {
        let present = first.take().map(|piece| (piece, None));
        let mut pieces: Vec<_> = present.into_iter().collect();
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
            for (piece, done) in &mut pieces {
                scope.spawn(|_| *done = Some(work(piece)));
            }
            let mut done = before
                .drain(..)
                .filter_map(|(piece, done)| Some((piece, done?)));
            done.try_for_each(|(piece, done)| take(piece, done))
        })?;
        if pieces.is_empty() {
            return Ok(cut);
        }
        before = pieces;
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
    while rows.begin()? {
        for part in parts {
            copy_part(part, &mut rows, out, &mut begun).map_err(|e| part.named(e))?;
        }
        rows.end_text(out)?;
    }
    Ok(rows.written())
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
            let names = added.into_iter().map(|column| Some(column.name));
            let names: Vec<_> = names.collect();
            rows.put_line(out, &with_fields(records.raw(), dialect, &names))?;
        }
        *begun = true;
    }
    let lines = |piece: &Piece| piece.lines(dialect);
    in_pieces(&mut records, !has_header, lines, |piece, lines| {
        copy_lines(&piece, lines?, dialect, rows, out)
    })?
}

/// Copies the selected ones of the lines of a piece.
fn copy_lines(
    piece: &Piece,
    lines: Vec<Range<usize>>,
    dialect: Dialect,
    rows: &mut Selection<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    if rows.changes_lines() {
        for line in lines {
            if rows.next()? {
                let line = with_fields(&piece.bytes()[line], dialect, &rows.added_values());
                rows.write_line(out, &line)?;
            }
        }
        return Ok(());
    }
    // Neighbours are written at once.
    let mut run = 0..0;
    for line in lines {
        if !rows.next()? {
            continue;
        }
        if line.start == run.end {
            run.end = line.end;
            continue;
        }
        if !run.is_empty() {
            rows.put_line(out, &piece.bytes()[run])?;
        }
        run = line;
    }
    match run.is_empty() {
        true => Ok(()),
        false => rows.put_line(out, &piece.bytes()[run]),
    }
}

/// The line of a record as it is, with more fields if some are added. Null is nothing at all, and an empty text is
/// quoted.
fn with_fields<'r>(
    raw: &'r [u8],
    dialect: Dialect,
    added: &[Option<Cow<'_, str>>],
) -> Cow<'r, [u8]> {
    if added.is_empty() {
        return raw.into();
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
    line.into()
}
