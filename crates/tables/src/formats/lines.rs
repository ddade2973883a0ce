//! Formats of text, whose rows are lines, or records of several lines. Files are cut into pieces of whole records, on
//! which all threads work; rows are copied byte for byte.

use std::borrow::Cow;
use std::io::{Empty, Read, Write};
use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::columnar::{RowWriter, Written};
use crate::abreast::abreast;
use crate::columns::Columns;
use crate::columns_read::ColumnsRead;
use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Result};
use crate::items::{ItemSink, Items};
use crate::output::Container;
use crate::part::Part;
use crate::records::{PIECE_BYTES, Piece, Records, never_closed};
use crate::selection::{Added, Lines, Selection, Take, WriterWithCause, passes};
use crate::sink::{At, Facts, Sink};
use crate::text::{BYTE_ORDER_MARK, MAX_ROW_BYTES};
use crate::value::Row;

/// The records of a file.
pub(crate) type Text = Records<Box<dyn Read + Send>>;

/// A format of text. Its records are told apart as [`Part::dialect`] says.
pub(crate) trait LineFormat {
    /// Whether the fields of records are known without reading them again.
    const HAS_FIELDS: bool;

    /// Where the wanted values are in records.
    type Columns<'a>: Sync;

    /// The wanted values of a record.
    type Row<'r, R: Read + 'r>: Row
    where
        Self: 'r;

    /// Finds the wanted columns of a file from its first record.
    fn columns<'a>(
        part: &Part,
        first: &Text,
        wanted: ColumnsRead<'a>,
        facts: &mut Facts,
    ) -> Result<Self::Columns<'a>>;

    /// Whether a record is no row.
    fn is_blank(_record: &[u8]) -> bool {
        false
    }

    /// Reads a record.
    fn row<'r, R: Read>(
        columns: &'r Self::Columns<'_>,
        record: &'r Records<R>,
        facts: &mut Facts,
    ) -> Result<Self::Row<'r, R>>;

    /// What is to be said in place of an error about the values of a row.
    fn explain(error: Error, _: At, _: &Self::Columns<'_>, _: &Facts) -> Error {
        error
    }

    /// The columns that a result of `rows` has besides those of its files, whose first record is `first`.
    fn added<'a>(parts: &[Part], first: &Text, rows: &Selection<'a>) -> Result<Vec<Added<'a>>>;

    /// A record with the values of the columns that are added, of which there is at least one.
    fn with_fields(
        record: &[u8],
        dialect: Dialect,
        added: &[Added<'_>],
        values: &[Option<Cow<'_, str>>],
    ) -> Vec<u8>;
}

/// The records of a file, and whether there was a byte-order mark.
fn open(part: &Part) -> Result<(Text, bool)> {
    let mut records = Records::new(part.text()?, part.dialect());
    let mark = records.skip_byte_order_mark()?;
    Ok((records, mark))
}

pub(super) fn scan<F: LineFormat, S: Sink>(
    part: &Part,
    wanted: ColumnsRead<'_>,
    sink: &mut S,
    facts: &mut Facts,
) -> Result<()> {
    let (mut records, byte_order_mark) = open(part)?;
    // Without a header the first record is a row.
    let first_is_row = !part.dialect().csv.header;
    let has_first = records.next(true).map_err(|e| match first_is_row {
        true => e.at_row(facts.rows + 1, None),
        false => e,
    });
    if !has_first? {
        return Ok(());
    }
    facts.byte_order_mark |= byte_order_mark;
    let table = Table::<F> {
        wanted,
        columns: F::columns(part, &records, wanted, facts)?,
    };
    if S::ITEMS_SUFFICE && rayon::current_num_threads() > 1 {
        table.scan_in_pieces(records, first_is_row, part.dialect(), sink, facts)
    } else {
        table.scan(&mut records, first_is_row, facts, |at, row| {
            sink.row(at, row)
        })
    }
}

/// What to read of the records of a file.
struct Table<'a, F: LineFormat> {
    wanted: ColumnsRead<'a>,
    columns: F::Columns<'a>,
}

/// Bytes that are read side by side, for each thread.
const BYTES_ABREAST: usize = 4 * PIECE_BYTES;

/// What comes of a piece of a file.
#[derive(Default)]
struct Found {
    facts: Facts,
    items: Items,
}

impl<F: LineFormat> Table<'_, F> {
    /// Hands the records to `take`, the present one first if it is a row.
    fn scan<R: Read>(
        &self,
        records: &mut Records<R>,
        mut at_row: bool,
        facts: &mut Facts,
        mut take: impl FnMut(At, &F::Row<'_, R>) -> Result<()>,
    ) -> Result<()> {
        loop {
            if !at_row {
                let next = records.next(F::HAS_FIELDS);
                if !next.map_err(|e| e.at_row(facts.rows + 1, None))? {
                    return Ok(());
                }
            }
            at_row = false;
            if F::is_blank(records.raw()) {
                continue;
            }
            facts.rows += 1;
            facts.crlf_rows += u64::from(records.ends_in_crlf());
            let raw = records.raw();
            // Nearly all rows are ASCII, which is known sooner.
            facts.not_utf8 += u64::from(!raw.is_ascii() && str::from_utf8(raw).is_err());
            let at = At {
                row: facts.rows,
                line: Some(records.line()),
            };
            let row = F::row(&self.columns, records, facts);
            let row = row.map_err(|e| e.at_row(at.row, at.line))?;
            take(at, &row).map_err(|e| F::explain(e, at, &self.columns, facts))?;
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
        let items = |piece: &Piece| {
            let mut records = piece.records(dialect);
            let found = self.items(&mut records);
            (found.ok(), records.open())
        };
        let cut = in_pieces(&mut records, first_is_row, items, |piece, found| {
            let Some(found) = found else {
                // Something is wrong with it; in its place, the error says where.
                let take = |at, row: &F::Row<'_, Empty>| sink.row(at, row);
                return self.scan(&mut piece.records(dialect), false, facts, take);
            };
            facts.rows += found.facts.rows;
            facts.crlf_rows += found.facts.crlf_rows;
            facts.not_utf8 += found.facts.not_utf8;
            if let Columns::Fields(fields) = found.facts.columns {
                facts.columns.fields(self.wanted.len()).add(fields);
            }
            found.items.hand_to(sink)
        })?;
        cut.map_err(|e| e.at_row(facts.rows + 1, None))
    }

    /// The items of a piece, but for a record that is open.
    fn items(&self, records: &mut Records<Empty>) -> Result<Found> {
        let mut facts = Facts::default();
        let mut sink = ItemSink::new(self.wanted);
        let scanned = self.scan(records, false, &mut facts, |at, row| sink.row(at, row));
        if !records.is_open() {
            scanned?;
        }
        let items = sink.finish()?;
        Ok(Found { facts, items })
    }
}

/// Cuts the rest of a text into pieces, and the present record as well if `with_present`. All threads do `work` on
/// them, which tells too what is [open](Records::open) at the end of a piece; meanwhile this one hands those before, with
/// what came of them, to `take`, in order. Returns why the text could not be cut to its end, once all before that has
/// been taken.
fn in_pieces<R: Read, T: Send>(
    records: &mut Records<R>,
    with_present: bool,
    work: impl Fn(&Piece) -> (T, Piece) + Sync,
    mut take: impl FnMut(Piece, T) -> Result<()>,
) -> Result<Result<()>> {
    // A record that is open, with the pieces after it, and how much of that has been looked at.
    let (mut open, mut seen) = (Piece::default(), 0);
    let mut is_too_long = false;
    let cut = abreast(
        BYTES_ABREAST * rayon::current_num_threads(),
        |each| {
            if with_present {
                let present = records.present();
                let bytes = present.len();
                each(present, bytes)?;
            }
            while let Some(piece) = records.cut()? {
                let bytes = piece.len();
                each(piece, bytes)?;
            }
            Ok(())
        },
        &work,
        |mut piece, (mut found, mut rest)| {
            if open.len() > 0 {
                open.append(&piece);
                // A long record is not looked at again for every piece.
                if open.len() < MAX_ROW_BYTES.min(2 * seen) {
                    return Ok(());
                }
                piece = std::mem::take(&mut open);
                (found, rest) = work(&piece);
            }
            seen = rest.len();
            open = rest;
            take(piece, found)?;
            is_too_long = open.len() >= MAX_ROW_BYTES;
            let limit = MAX_ROW_BYTES;
            match is_too_long {
                true => Err(Error::new(ErrorKind::RowTooLong { limit }).at_line(open.line())),
                false => Ok(()),
            }
        },
    );
    let cut = match cut {
        Err(error) if is_too_long => return Ok(Err(error)),
        cut => cut?,
    };
    if open.len() > seen {
        let (found, rest) = work(&open);
        take(std::mem::replace(&mut open, rest), found)?;
    }
    Ok(match (cut, open.len()) {
        (Ok(()), 0) => Ok(()),
        (Ok(()), _) => Err(never_closed(open.line())),
        (Err(error), 0) => Err(error.at_line(records.next_line())),
        (Err(error), _) => Err(error.at_line(open.line())),
    })
}

/// Writes lines as they are.
struct LineWriter<'w, 'a> {
    out: &'w mut WriterWithCause<'a>,
    /// What ends lines, and whether the last one that was written lacks it.
    line_end: &'static [u8],
    unended: bool,
}

impl LineWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.out.write_all(bytes);
        written.map_err(|e| Error::new(ErrorKind::Unwritable(e)))
    }

    /// Writes one line, or several. The last line of a file may have no end; it gets one if another follows.
    fn put(&mut self, lines: &[u8]) -> Result<()> {
        if self.unended {
            self.write(self.line_end)?;
        }
        self.unended = !lines.ends_with(b"\n");
        if !self.unended {
            self.line_end = match lines.ends_with(b"\r\n") {
                true => b"\r\n",
                false => b"\n",
            };
        }
        self.write(lines)
    }
}

/// Copies the header of the first file that has one, and the selected records of all, byte for byte.
pub(super) fn copy<F: LineFormat>(
    parts: &[Part],
    mut rows: Selection<'_>,
    _: Container,
    out: &mut WriterWithCause<'_>,
) -> Result<u64> {
    let mut out = LineWriter {
        out,
        line_end: b"\n",
        unended: false,
    };
    let mut added = Vec::new();
    for part in parts {
        let begun = begin::<F>(part, parts, &rows, &mut out).map_err(|e| part.named(e))?;
        if let Some(begun) = begun {
            added = begun;
            break;
        }
    }
    let take = |lines: &[u8]| out.put(lines);
    passes::<Lines>(parts, &mut rows, take, |part, rows, take| {
        copy_part::<F>(part, &added, rows, take)
    })?;
    Ok(rows.written())
}

/// Writes what comes before the rows: the byte-order mark and the header of the first file with a record. Returns the
/// columns that are added; `None` if this file has no record.
fn begin<'a, F: LineFormat>(
    part: &Part,
    parts: &[Part],
    rows: &Selection<'a>,
    out: &mut LineWriter<'_, '_>,
) -> Result<Option<Vec<Added<'a>>>> {
    let (mut records, byte_order_mark) = open(part)?;
    if !records.next(true)? {
        return Ok(None);
    }
    if byte_order_mark {
        out.write(BYTE_ORDER_MARK)?;
    }
    let added = F::added(parts, &records, rows)?;
    let dialect = part.dialect();
    if dialect.csv.header {
        let names = added.iter().map(|column| Some(column.name.clone()));
        let names: Vec<_> = names.collect();
        out.put(&match names.is_empty() {
            true => Cow::Borrowed(records.raw()),
            false => F::with_fields(records.raw(), dialect, &added, &names).into(),
        })?;
    }
    Ok(Some(added))
}

fn copy_part<F: LineFormat>(
    part: &Part,
    added: &[Added<'_>],
    rows: &mut Selection<'_>,
    take: &mut Take<'_, [u8]>,
) -> Result<()> {
    let (mut records, _) = open(part)?;
    if !records.next(true)? {
        return Ok(());
    }
    let dialect = part.dialect();
    let lines = |piece: &Piece| {
        let (mut lines, open) = piece.lines(dialect);
        lines.retain(|line| !F::is_blank(&piece.bytes()[line.clone()]));
        (lines, open)
    };
    let with_first = !dialect.csv.header;
    in_pieces(&mut records, with_first, lines, |piece, lines| {
        copy_lines::<F>(piece.bytes(), lines, dialect, added, rows, take)
    })?
}

/// Copies the selected ones of the lines of a piece.
fn copy_lines<F: LineFormat>(
    piece: &[u8],
    lines: Vec<Range<usize>>,
    dialect: Dialect,
    added: &[Added<'_>],
    rows: &mut Selection<'_>,
    take: &mut Take<'_, [u8]>,
) -> Result<()> {
    if rows.changes_lines() {
        for line in lines {
            if rows.next()? {
                let line = match rows.adds() {
                    true => {
                        F::with_fields(&piece[line], dialect, added, &rows.added_values()?).into()
                    }
                    false => Cow::Borrowed(&piece[line]),
                };
                take(&line, rows.last_kept(1))?;
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
            take(&piece[run], None)?;
        }
        run = line;
    }
    match run.is_empty() {
        true => Ok(()),
        false => take(&piece[run], None),
    }
}

/// Text has no record batches.
pub(super) fn select<F: LineFormat>(
    parts: &[Part],
    _: Selection<'_>,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let text = parts[0].format();
    Err(Error::usage(format!("{text} has no record batches")))
}

/// Record batches are not written as text.
pub(super) fn writer<'w, F: LineFormat>(
    _: &Written<'_>,
    _: &'w mut WriterWithCause<'_>,
) -> Result<Box<dyn RowWriter + 'w>> {
    Err(Error::usage("record batches are not written as text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::CsvOptions;
    use proptest::prelude::*;

    type Seen = Vec<(u64, Vec<Vec<u8>>)>;

    /// The line and the fields of each record that is left, up to an error.
    fn read<R: Read>(records: &mut Records<R>) -> (Seen, Result<()>) {
        let mut seen = Vec::new();
        loop {
            match records.next(true) {
                Ok(false) => return (seen, Ok(())),
                Err(error) => return (seen, Err(error)),
                Ok(true) => {
                    let fields = (0..records.len()).map(|i| records.field(i).to_vec());
                    seen.push((records.line(), fields.collect()));
                }
            }
        }
    }

    fn read_in_pieces(text: &[u8], dialect: Dialect, threads: usize) -> (Seen, Result<()>) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let mut all = Vec::new();
        let ended = pool.build().unwrap().install(|| {
            let mut records = Records::new(text, dialect);
            let work = |piece: &Piece| {
                let mut records = piece.records(dialect);
                let (seen, _) = read(&mut records);
                let (lines, open) = piece.lines(dialect);
                assert_eq!(
                    (lines.len(), open.len()),
                    (seen.len(), records.open().len())
                );
                (seen, open)
            };
            in_pieces(&mut records, false, work, |_, seen| {
                all.extend(seen);
                Ok(())
            })
        });
        (all, ended.unwrap())
    }

    fn same(text: &str, dialect: Dialect, threads: usize) {
        let expected = read(&mut Records::new(text.as_bytes(), dialect));
        let found = read_in_pieces(text.as_bytes(), dialect, threads);
        assert_eq!(found.0, expected.0, "{text:?}");
        let error = |ended: Result<()>| ended.err().map(|e| (e.place().line, e.to_string()));
        assert_eq!(error(found.1), error(expected.1), "{text:?}");
    }

    proptest! {
        #[test]
        fn pieces_are_as_the_whole(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "\"", "\"\"", "\n", "\r\n", ",", "a", "\\", "\"b\nc\"", "'", "some words", ",\"x\",\n", "5\" disk\n",
                ]),
                0..60,
            ),
            escape in prop::sample::select(vec![None, Some(b'\\')]),
            threads in 1..4usize,
        ) {
            let csv = CsvOptions { escape, ..CsvOptions::default() };
            same(&words.concat(), Dialect { delimiter: b',', csv }, threads);
        }
    }

    #[test]
    fn records_are_longer_than_pieces() {
        let dialect = Dialect {
            delimiter: b',',
            csv: CsvOptions::default(),
        };
        let long = "line, and \"\"line\"\"\n".repeat(500);
        let text = format!("1,2\n\"{long}\",b\n3,\"{long}\"\n\n4,5\n");
        same(&text, dialect, 2);
        same(&format!("{text}6,\"{long}"), dialect, 2);
    }
}
