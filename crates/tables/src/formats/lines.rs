//! Formats of text, whose rows are lines, or records of several lines. Files are cut into pieces of whole records, on
//! which all threads work; rows are copied byte for byte.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{Empty, Read, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use memchr::memrchr;
use vesica_files::catching;

use super::columnar::{self, ColumnFormat, KeyRow, RowWriter, Written, each_row};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::formats::container::Container;
use crate::formats::items::Found;
use crate::formats::limits::Limits;
use crate::formats::parallel::in_parallel;
use crate::formats::selection::{Added, Lines, Selection, Take, WriterWithCause, passes};
use crate::formats::sink::{At, Facts, Sink};
use crate::profile::canonical::Row;
use crate::source::dialect::{CsvOptions, Dialect};
use crate::source::options::ResultRows;
use crate::source::part::Part;
use crate::source::records::{PIECE_BYTES, Piece, Records, never_closed};
use crate::source::text::{BYTE_ORDER_MARK, MAX_ROW_BYTES};
use crate::types::columns_read::ColumnsRead;
use crate::types::peer_columns::PeerColumn;
use vesica_keys::Numbered;

/// The records of a file.
pub(crate) type Text = Records<Box<dyn Read + Send>>;

/// A format of text. Its records are told apart as [`Part::dialect`] says.
pub(crate) trait LineFormat: 'static {
    /// Whether the fields of records are known without reading them again.
    const HAS_FIELDS: bool;

    /// Where the wanted values are in records.
    type Columns<'a>: Sync;

    /// The wanted values of a record.
    type Row<'r, R: Read + 'r>: Row
    where
        Self: 'r;

    /// Finds the wanted columns of a file from its first record. Where it names all columns, they go into
    /// `facts.columns`, a wanted one that is missing is an error, and so is one with the name of `wanted.added`.
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

    /// Reads a record. Where records name their columns themselves, `facts.columns` takes which of the wanted ones this one
    /// has, so that one that no record has is told from one that is blank; and a record with a column of the name of
    /// `wanted.added` is an error.
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

    /// The names of all columns of some files, each once.
    fn names(parts: &[Part]) -> Result<Vec<String>>;

    /// Hands the text of each column of a record to `put`, with the number of the column; nothing of those that the record
    /// does not have. `places` are the numbers by name.
    fn texts<R: Read>(
        record: &Records<R>,
        places: &HashMap<&str, usize>,
        put: &mut dyn FnMut(usize, &str),
    ) -> Result<()>;

    /// Appends the line of column names, if the format has one.
    fn put_names(names: &[String], dialect: Dialect, out: &mut Vec<u8>);

    /// Appends the line of a row with these columns, but for its end.
    fn put_row<V: Row>(names: &[String], row: &V, dialect: Dialect, out: &mut Vec<u8>);

    /// Where the chosen columns are, if the first record of a file tells.
    fn places(_: &Text, _: Dialect, _chosen: &[String]) -> Result<Vec<usize>> {
        Ok(Vec::new())
    }

    /// Appends a record with the chosen columns alone.
    fn put_chosen<R: Read>(
        record: &Records<R>,
        chosen: &Chosen<'_>,
        dialect: Dialect,
        out: &mut Vec<u8>,
    ) -> Result<()>;

    /// Appends a record with the values of the columns that are added, of which there is at least one.
    fn put_with_fields(
        record: &[u8],
        dialect: Dialect,
        added: &[Added<'_>],
        values: &[Option<Cow<'_, str>>],
        out: &mut Vec<u8>,
    );
}

/// The columns of the table that a result has, if not all.
#[derive(Default)]
pub(crate) struct Chosen<'a> {
    pub(crate) names: &'a [String],
    /// Where they are, in formats whose first record tells.
    pub(crate) places: Vec<usize>,
}

/// The columns of lines that are written.
#[derive(Default)]
struct LineColumns<'a> {
    chosen: Chosen<'a>,
    added: Vec<Added<'a>>,
}

impl LineColumns<'_> {
    /// The records of a piece, if some columns of them are chosen: otherwise their lines suffice.
    fn records(&self, piece: &Piece, dialect: Dialect) -> Option<Records<Empty>> {
        (!self.chosen.names.is_empty()).then(|| piece.records(dialect))
    }
}

/// The records of a file, and whether there was a byte-order mark.
fn open(part: &Part) -> Result<(Text, bool)> {
    let mut records = part.records()?;
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
            let found = Found::of(self.wanted, |facts, sink| {
                let scanned = self.scan(&mut records, false, facts, |at, row| sink.row(at, row));
                match records.is_open() {
                    // The next piece has more of it.
                    true => Ok(()),
                    false => scanned,
                }
            });
            (found.ok(), records.open())
        };
        let cut = in_pieces(&mut records, first_is_row, items, |piece, found| {
            let Some(found) = found else {
                // Something is wrong with it; in its place, the error says where.
                let take = |at, row: &F::Row<'_, Empty>| sink.row(at, row);
                return self.scan(&mut piece.records(dialect), false, facts, take);
            };
            found.hand_to(facts, sink)
        })?;
        cut.map_err(|e| e.at_row(facts.rows + 1, None))
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
    let cut = in_parallel(
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
        if let Some(end) = memrchr(b'\n', lines) {
            self.line_end = match lines[..end].ends_with(b"\r") {
                true => b"\r\n",
                false => b"\n",
            };
        }
        self.write(lines)
    }
}

/// Copies the header of the first file that has one, and the selected records of all, byte for byte if all columns are
/// wanted; or writes them in the format of the container, as columns of texts.
pub(super) fn copy<F: LineFormat>(
    parts: &[Part],
    mut rows: Selection<'_>,
    container: &Container,
    out: &mut WriterWithCause<'_>,
) -> Result<u64> {
    if !parts.iter().all(|part| container.is_of(part)) {
        return columnar::copy::<AsColumns<F>>(parts, rows, container, out);
    }
    let mut out = LineWriter {
        out,
        line_end: b"\n",
        unended: false,
    };
    let mut columns = LineColumns::default();
    for part in parts {
        let begun = begin::<F>(part, parts, &rows, &mut out).map_err(|e| part.named(e))?;
        if let Some(begun) = begun {
            columns = begun;
            break;
        }
    }
    let take = |lines: &[u8]| out.put(lines);
    passes::<Lines>(parts, &mut rows, take, |part, rows, take| {
        copy_part::<F>(part, &columns, rows, take)
    })?;
    Ok(rows.written())
}

/// Writes what comes before the rows: the byte-order mark and the header of the first file with a record. Returns the
/// columns of the result; `None` if this file has no record.
fn begin<'a, F: LineFormat>(
    part: &Part,
    parts: &[Part],
    rows: &Selection<'a>,
    out: &mut LineWriter<'_, '_>,
) -> Result<Option<LineColumns<'a>>> {
    let (mut records, byte_order_mark) = open(part)?;
    if !records.next(true)? {
        return Ok(None);
    }
    if byte_order_mark {
        out.write(BYTE_ORDER_MARK)?;
    }
    let added = F::added(parts, &records, rows)?;
    let dialect = part.dialect();
    let chosen = Chosen {
        names: rows.columns(),
        places: F::places(&records, dialect, rows.columns())?,
    };
    if dialect.csv.header {
        let mut header = Vec::new();
        match chosen.names.is_empty() {
            true => header.extend_from_slice(records.raw()),
            false => F::put_chosen(&records, &chosen, dialect, &mut header)?,
        }
        let names = added.iter().map(|column| Some(column.name.clone()));
        let names: Vec<_> = names.collect();
        if !names.is_empty() {
            let own = std::mem::take(&mut header);
            F::put_with_fields(&own, dialect, &added, &names, &mut header);
        }
        out.put(&header)?;
    }
    Ok(Some(LineColumns { chosen, added }))
}

fn copy_part<F: LineFormat>(
    part: &Part,
    columns: &LineColumns<'_>,
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
    if rows.has_columns_of_peer() {
        // They are read in order, and may take far more memory than the lines.
        return in_pieces(&mut records, with_first, lines, |piece, lines| {
            let mut records = columns.records(&piece, dialect);
            lines.chunks(WITH_COLUMNS).try_for_each(|lines| {
                let piece = (&piece, &mut records);
                Copied::of::<F>(piece, lines, dialect, columns, rows)?.hand_to(take)
            })
        })?;
    }
    let copied = |(piece, lines, rows): &(Piece, Vec<Range<usize>>, Selection<'_>)| {
        let piece = (piece, &mut columns.records(piece, dialect));
        Copied::of::<F>(piece, lines, dialect, columns, &mut rows.clone())
    };
    in_parallel(
        BYTES_ABREAST * rayon::current_num_threads(),
        |each| {
            in_pieces(&mut records, with_first, lines, |piece, lines| {
                let before = rows.clone();
                rows.pass(lines.len())?;
                let bytes = piece.len();
                each((piece, lines, before), bytes)
            })?
        },
        copied,
        |_, copied| copied?.hand_to(take),
    )?
}

/// Lines that are put together at once with columns of the peer.
const WITH_COLUMNS: usize = 64;

/// The selected ones of the lines of a piece.
struct Copied {
    lines: Vec<u8>,
    /// Where each of them ends, if they are put in order.
    numbered: Vec<(usize, Numbered)>,
    /// Where one ends that is followed by a copy and, being the last line of a file, has no end.
    unended: Vec<usize>,
}

impl Copied {
    /// `rows` stands before the first of the lines, and so do the records of the piece if they are needed.
    fn of<F: LineFormat>(
        (piece, records): (&Piece, &mut Option<Records<Empty>>),
        lines: &[Range<usize>],
        dialect: Dialect,
        columns: &LineColumns<'_>,
        rows: &mut Selection<'_>,
    ) -> Result<Copied> {
        let mut copied = Copied {
            lines: Vec::with_capacity(lines.iter().map(Range::len).sum()),
            numbered: Vec::new(),
            unended: Vec::new(),
        };
        let (mut values, mut chosen) = (Vec::new(), Vec::new());
        for line in lines {
            if let Some(records) = records {
                next_row::<F, _>(records)?;
            }
            if !rows.next()? {
                continue;
            }
            let (mut line, out) = (&piece.bytes()[line.clone()], &mut copied.lines);
            if let Some(record) = records {
                chosen.clear();
                F::put_chosen(record, &columns.chosen, dialect, &mut chosen)?;
                line = &chosen;
            }
            if rows.adds() {
                for copy in 0..rows.copies()? {
                    if copy > 0 && !line.ends_with(b"\n") {
                        copied.unended.push(out.len());
                    }
                    rows.added_values(copy, &mut values)?;
                    F::put_with_fields(line, dialect, &columns.added, &values, out);
                }
            } else {
                out.extend_from_slice(line);
            }
            if let Some([last]) = rows.last_kept(1) {
                copied.numbered.push((copied.lines.len(), *last));
            }
        }
        Ok(copied)
    }

    fn hand_to(self, take: &mut Take<'_, [u8]>) -> Result<()> {
        let mut start = 0;
        if self.numbered.is_empty() && !self.lines.is_empty() {
            for end in self.unended {
                take(&self.lines[start..end], None)?;
                start = end;
            }
            return take(&self.lines[start..], None);
        }
        for (end, numbered) in self.numbered {
            take(&self.lines[start..end], Some(&[numbered]))?;
            start = end;
        }
        Ok(())
    }
}

/// Goes to the next record that is a row.
fn next_row<F: LineFormat, R: Read>(records: &mut Records<R>) -> Result<()> {
    while records.next(F::HAS_FIELDS)? {
        if !F::is_blank(records.raw()) {
            return Ok(());
        }
    }
    Err(Error::new(ErrorKind::Changed))
}

/// The columns, which are texts. Every format has room for them.
pub(super) fn columns<F: LineFormat>(parts: &[Part], _: Format, _: &[String]) -> Result<SchemaRef> {
    let names = F::names(parts)?.into_iter();
    let fields = names.map(|name| Field::new(name, DataType::Utf8, true));
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The types of columns of these names.
pub(super) fn types<F: LineFormat>(_: &[Part], names: &[String]) -> Result<Vec<DataType>> {
    Ok(vec![DataType::Utf8; names.len()])
}

/// Looks at the texts of all rows if a result may have no room for some.
pub(super) fn check<F: LineFormat>(
    parts: &[Part],
    rows: ResultRows<'_>,
    container: &Container,
    limits: &dyn Limits,
) -> Result<()> {
    match parts.iter().all(|part| container.is_of(part)) {
        true => Ok(()),
        false => columnar::check::<AsColumns<F>>(parts, rows, container, limits),
    }
}

/// Does what [`copy`] does in another format than the files', with no rows.
pub(super) fn rehearse<F: LineFormat>(
    parts: &[Part],
    rows: ResultRows<'_>,
    of_peer: &[PeerColumn],
    container: &Container,
) -> Result<()> {
    match parts.iter().all(|part| container.is_of(part)) {
        true => Ok(()),
        false => columnar::rehearse::<AsColumns<F>>(parts, rows, of_peer, container),
    }
}

/// The selected rows as record batches of texts, and their schema.
pub(super) fn select<F: LineFormat>(
    parts: &[Part],
    rows: Selection<'_>,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    columnar::select::<AsColumns<F>>(parts, rows)
}

/// A writer of rows that come from files of another format, or with another delimiter.
pub(super) fn writer<'w, F: LineFormat + 'w>(
    rows: &Written<'_>,
    out: &'w mut WriterWithCause<'_>,
) -> Result<Box<dyn RowWriter + 'w>> {
    columnar::writer::<AsColumns<F>>(rows, out)
}

/// Lines as record batches, whose columns are texts.
struct AsColumns<F>(PhantomData<F>);

impl<F: LineFormat> ColumnFormat for AsColumns<F> {
    /// The columns.
    type File = SchemaRef;

    fn texts(parts: &[Part]) -> Result<SchemaRef> {
        columns::<F>(parts, parts[0].format(), &[])
    }

    fn open(_: &Part, texts: &SchemaRef) -> Result<SchemaRef> {
        Ok(texts.clone())
    }

    fn schema(texts: &SchemaRef) -> SchemaRef {
        texts.clone()
    }

    fn scan(
        part: &Part,
        texts: SchemaRef,
        roots: Vec<usize>,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        batches::<F>(part, &texts, |batch| {
            let batch = batch.project(&roots);
            each(batch.map_err(|e| Error::corrupt(e.to_string()))?)
        })
    }

    fn select(
        part: &Part,
        texts: SchemaRef,
        roots: &[usize],
        rows: &mut Selection<'_>,
        each: &mut dyn FnMut(&RecordBatch, &mut Selection<'_>) -> Result<()>,
    ) -> Result<()> {
        batches::<F>(part, &texts, |batch| {
            let batch = batch.project(roots);
            each(&batch.map_err(|e| Error::corrupt(e.to_string()))?, rows)
        })
    }

    /// Every column can be read.
    fn rehearse(_: &Part, _: &SchemaRef, _: &[usize]) -> Result<()> {
        Ok(())
    }

    fn most_of_row(_: &Part, _: &SchemaRef) -> u64 {
        MAX_ROW_BYTES as u64
    }

    fn writer<'w>(
        _: Option<&SchemaRef>,
        rows: &Written<'_>,
        out: &'w mut WriterWithCause<'_>,
    ) -> Result<Box<dyn RowWriter + 'w>> {
        let fields = rows.schema.fields().iter();
        let names: Vec<String> = fields.map(|field| field.name().clone()).collect();
        // Without a header in, there is none out.
        let dialect = Dialect {
            delimiter: rows.container.delimiter.unwrap_or(b','),
            csv: CsvOptions {
                header: rows.part.format() != rows.container.format
                    || rows.part.dialect().csv.header,
                ..CsvOptions::default()
            },
        };
        let mut line = Vec::new();
        F::put_names(&names, dialect, &mut line);
        let mut writer = RowsOfText {
            out,
            names,
            dialect,
            format: PhantomData::<F>,
        };
        writer.put(&line)?;
        Ok(Box::new(writer))
    }
}

/// Hands all records of a file to `each`, as columns of texts.
fn batches<F: LineFormat>(
    part: &Part,
    texts: &SchemaRef,
    mut each: impl FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let (mut records, _) = open(part)?;
    if !records.next(true)? {
        return Ok(());
    }
    let places = texts.fields().iter().map(|field| &**field.name());
    let places = places.zip(0..).collect();
    let dialect = part.dialect();
    let batch = |piece: &Piece| {
        let mut records = piece.records(dialect);
        let batch = batch_of::<F>(&mut records, texts, &places);
        (batch, records.open())
    };
    in_pieces(&mut records, !dialect.csv.header, batch, |_, batch| {
        each(batch?)
    })?
}

/// The records of a piece as columns of texts, but for a record that is open.
fn batch_of<F: LineFormat>(
    records: &mut Records<Empty>,
    schema: &SchemaRef,
    places: &HashMap<&str, usize>,
) -> Result<RecordBatch> {
    let mut columns: Vec<StringBuilder> = Vec::new();
    columns.resize_with(places.len(), StringBuilder::new);
    let mut rows = 0;
    loop {
        match records.next(F::HAS_FIELDS) {
            Ok(true) if F::is_blank(records.raw()) => continue,
            Ok(true) => {}
            Ok(false) => break,
            Err(_) if records.is_open() => break,
            Err(error) => return Err(error),
        }
        F::texts(records, places, &mut |column, text| {
            columns[column].append_value(text);
        })?;
        rows += 1;
        for column in columns.iter_mut().filter(|column| column.len() < rows) {
            column.append_null();
        }
    }
    let columns = columns
        .iter_mut()
        .map(|column| Arc::new(column.finish()) as ArrayRef);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect(), &options)
        .map_err(|e| Error::corrupt(e.to_string()))
}

/// Writes typed rows as lines.
struct RowsOfText<'w, 'a, F> {
    out: &'w mut WriterWithCause<'a>,
    names: Vec<String>,
    dialect: Dialect,
    format: PhantomData<F>,
}

impl<F> RowsOfText<'_, '_, F> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.out.write_all(bytes);
        written.map_err(|e| Error::new(ErrorKind::Unwritable(e)))
    }
}

impl<F: LineFormat> RowWriter for RowsOfText<'_, '_, F> {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut lines = Vec::new();
        let put = |row: &KeyRow<'_>| {
            F::put_row(&self.names, row, self.dialect, &mut lines);
            lines.push(b'\n');
            Ok(())
        };
        let written = catching(|| each_row(rows.columns(), rows.num_rows(), put));
        written.map_err(Error::corrupt)??;
        self.put(&lines)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
