//! The rows that a second pass keeps, and where it writes them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::iter;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    UInt64Array,
};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave_record_batch;
use vesica_files::catching;
use vesica_keys::{CommonOrder, Numbered, Parts};

use crate::error::{Error, ErrorKind, Result};
use crate::source::options::{ResultRows, Rows};
use crate::source::part::Part;
use crate::types::column_type::ColumnType;
use crate::types::nested;
use crate::types::peer_columns::{Matched, PeerColumn, result_names};

/// Bytes of columns of the peer that are put together in memory.
const ADDED_BYTES: usize = 16 << 20;

/// Which rows to keep, as passes over the table ask for them: one pass, unless the result is in another order than the
/// table and does not fit into memory.
#[derive(Clone)]
pub(crate) struct Selection<'a> {
    matched: Matched<'a>,
    result: ResultRows<'a>,
    /// Whether a pass has begun.
    has_begun: bool,
    next: u64,
    written: u64,
    ordered: Option<Ordered<'a>>,
}

/// A result in the common order.
#[derive(Clone)]
struct Ordered<'a> {
    parts: Parts<'a>,
    /// What is left to write of the present part, in order.
    left: Arc<[Numbered]>,
    /// The same in the order of the table, and how many of it the pass has met.
    by_row: Arc<[Numbered]>,
    met: usize,
}

impl<'a> Selection<'a> {
    /// Usage: the rows are to be in an order that is not given.
    pub(crate) fn new(matched: Matched<'a>, result: ResultRows<'a>) -> Result<Selection<'a>> {
        let ordered = match (result.rows, matched.order) {
            (Rows::Aligned, Some(order)) => Some(Ordered {
                parts: Parts::new(order),
                left: Arc::default(),
                by_row: Arc::default(),
                met: 0,
            }),
            (Rows::Aligned, None) => return Err(Error::usage("this run has no common order")),
            _ => None,
        };
        Ok(Selection {
            matched,
            result,
            has_begun: false,
            next: 0,
            written: 0,
            ordered,
        })
    }

    /// Begins a pass; `false` if there is nothing left to do.
    fn begin(&mut self) -> Result<bool> {
        self.next = 0;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let Some(ordered) = &mut self.ordered else {
            return Ok(is_first);
        };
        if ordered.left.is_empty() {
            match ordered.parts.next(self.matched.rows)? {
                Some(part) => ordered.left = part.into(),
                None => return Ok(false),
            }
        }
        let mut by_row = ordered.left.to_vec();
        by_row.sort_unstable_by_key(|numbered| numbered.row);
        ordered.by_row = by_row.into();
        ordered.met = 0;
        Ok(true)
    }

    /// Ends a pass, which must have met all rows of the first one. In another order than that of the table it has
    /// written the rows up to `last`, or all.
    fn end(&mut self, last: Option<Numbered>) -> Result<()> {
        if self.next != self.matched.rows.rows() {
            return Err(Error::new(ErrorKind::Changed));
        }
        if let Some(ordered) = &mut self.ordered {
            let left = &ordered.left;
            let end = last.map_or(left.len(), |last| left.partition_point(|row| *row <= last));
            self.written += end as u64;
            ordered.left = left[end..].into();
        }
        Ok(())
    }

    /// Whether the next row is kept. A row that the first pass did not see is an error.
    pub(crate) fn next(&mut self) -> Result<bool> {
        if self.next >= self.matched.rows.rows() {
            return Err(Error::new(ErrorKind::Changed));
        }
        let matches = self.matched.rows.contains(self.next);
        let keep = match (self.result.rows, &mut self.ordered) {
            (_, Some(ordered)) => {
                let next = ordered.by_row.get(ordered.met);
                let keep = next.is_some_and(|next| u64::from(next.row) == self.next);
                ordered.met += usize::from(keep);
                keep
            }
            (Rows::Rest, None) => !matches,
            (Rows::All, None) => true,
            (Rows::Matching | Rows::Aligned, None) => matches,
        };
        self.next += 1;
        if keep && self.ordered.is_none() {
            self.written += self.copies()? as u64;
        }
        Ok(keep)
    }

    /// How often the last row is written: once for each row of the peer that it matches.
    pub(crate) fn copies(&self) -> Result<usize> {
        self.copies_of(self.next.saturating_sub(1))
    }

    fn copies_of(&self, row: u64) -> Result<usize> {
        match &self.matched.handed_over {
            Some(handed) if handed.has_slots() => handed.rows_of(self.matched.item(row)),
            _ => Ok(1),
        }
    }

    /// Whether a row may be written more than once.
    pub(crate) fn has_copies(&self) -> bool {
        (self.matched.handed_over).is_some_and(|handed| handed.has_slots())
    }

    /// Goes past the next `rows` rows, as [`Selection::next`] does for each.
    pub(crate) fn pass(&mut self, rows: usize) -> Result<()> {
        let (start, end) = (self.next, self.next + rows as u64);
        if end > self.matched.rows.rows() {
            return Err(Error::new(ErrorKind::Changed));
        }
        if self.has_copies() {
            return (0..rows).try_for_each(|_| self.next().map(|_| ()));
        }
        match (self.result.rows, &mut self.ordered) {
            (_, Some(ordered)) => {
                let left = &ordered.by_row[ordered.met..];
                ordered.met += left.partition_point(|row| u64::from(row.row) < end);
            }
            (Rows::All, None) => self.written += end - start,
            (rows, None) => {
                let matches = self.matched.rows.count(start..end);
                self.written += match rows {
                    Rows::Rest => end - start - matches,
                    _ => matches,
                };
            }
        }
        self.next = end;
        Ok(())
    }

    /// Which of the next `rows` rows are kept; `None` if none is.
    pub(crate) fn mask(&mut self, rows: usize) -> Result<Option<BooleanArray>> {
        let mask: Vec<bool> = (0..rows).map(|_| self.next()).collect::<Result<_>>()?;
        Ok(mask.contains(&true).then(|| BooleanArray::from(mask)))
    }

    /// The last `rows` rows that were kept, if the result is in the common order.
    pub(crate) fn last_kept(&self, rows: usize) -> Option<&[Numbered]> {
        let ordered = self.ordered.as_ref()?;
        Some(&ordered.by_row[ordered.met - rows..ordered.met])
    }

    /// Maximum bytes of rows that are put in order at once.
    fn bytes_in_order(&self) -> usize {
        let order = self.matched.order.as_ref();
        order.map_or(usize::MAX, CommonOrder::bytes_of_rows)
    }

    /// The columns that are added to those of the table, which are called `taken`.
    pub(crate) fn added(&self, taken: impl Fn(&str) -> bool) -> Result<Vec<Added<'a>>> {
        let handed_over = self.matched.handed_over.map(|handed| handed.columns());
        Added::all(self.result, handed_over.unwrap_or_default(), taken)
    }

    /// The columns of the table that are written, if not all.
    pub(crate) fn columns(&self) -> &'a [String] {
        self.result.columns
    }

    /// How many rows may be put together in memory, with the columns that are added to them.
    pub(crate) fn rows_at_once(&self) -> usize {
        let handed_over = self.matched.handed_over;
        handed_over.map_or(usize::MAX, |handed| {
            (ADDED_BYTES / handed.bytes().max(1)).max(1)
        })
    }

    /// Whether columns are added that the peer handed over.
    pub(crate) fn has_columns_of_peer(&self) -> bool {
        self.matched.handed_over.is_some()
    }

    /// Whether columns are added.
    pub(crate) fn adds(&self) -> bool {
        self.result.added() != [None, None] || self.matched.handed_over.is_some()
    }

    /// Sets `values` to what the added columns have in the last row, in one of its [copies](Selection::copies); `None` is
    /// null.
    pub(crate) fn added_values(
        &self,
        copy: usize,
        values: &mut Vec<Option<Cow<'a, str>>>,
    ) -> Result<()> {
        let row = self.next.saturating_sub(1);
        values.clear();
        match (self.result.rows, self.last_kept(1)) {
            (Rows::Aligned, Some([last])) => values.push(Some(last.number.to_string().into())),
            (Rows::All, _) if self.matched.rows.contains(row) => values.push(Some("true".into())),
            (Rows::All, _) => values.push(Some("false".into())),
            _ => {}
        }
        if self.result.matched_by.is_some() {
            values.push(self.matched.identifier(row).map(Cow::Borrowed));
        }
        if let Some(handed) = &self.matched.handed_over {
            values.extend(handed.texts(self.matched.item(row), copy)?);
        }
        Ok(())
    }

    /// Those of the last rows that are kept, each in all of its [copies](Selection::copies): its place among them. Nothing
    /// where no columns are added, which alone need them.
    pub(crate) fn places(&self, mask: &BooleanArray) -> Result<UInt64Array> {
        if !self.adds() {
            return Ok(Vec::<u64>::new().into());
        }
        let first = self.next - mask.len() as u64;
        let mut places = Vec::with_capacity(mask.true_count());
        for (place, _) in (0..).zip(mask.values()).filter(|(_, kept)| *kept) {
            places.extend(iter::repeat_n(place, self.copies_of(first + place)?));
        }
        Ok(places.into())
    }

    /// The added columns of those of the last rows that are kept, which are at these [places](Selection::places).
    pub(crate) fn added_arrays(
        &self,
        mask: &BooleanArray,
        places: &UInt64Array,
    ) -> Result<Vec<ArrayRef>> {
        let first = self.next - mask.len() as u64;
        let kept = || places.values().iter().map(|place| first + place);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        if let Some(numbered) = self.last_kept(mask.true_count()) {
            let numbers = numbered.iter().map(|row| i64::from(row.number));
            arrays.push(Arc::new(Int64Array::from_iter_values(numbers)));
        } else if self.result.rows.added().is_some() {
            let matches: Vec<bool> = kept().map(|row| self.matched.rows.contains(row)).collect();
            arrays.push(Arc::new(BooleanArray::from(matches)));
        }
        if self.result.matched_by.is_some() {
            let names = kept().map(|row| self.matched.identifier(row));
            arrays.push(Arc::new(names.collect::<StringArray>()));
        }
        if let Some(handed) = &self.matched.handed_over {
            let mut columns: Vec<_> = handed.columns().iter().map(|_| Vec::new()).collect();
            let (mut last, mut copy) = (None, 0);
            for row in kept() {
                copy = match last.replace(row) == Some(row) {
                    true => copy + 1,
                    false => 0,
                };
                let texts = handed.texts(self.matched.item(row), copy)?;
                for (column, text) in columns.iter_mut().zip(texts) {
                    column.push(text);
                }
            }
            let columns = handed.columns().iter().zip(columns);
            arrays.extend(columns.map(|(column, texts)| column.of.array(&texts)));
        }
        Ok(arrays)
    }

    /// How many rows were written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }
}

/// What takes selected rows, and which they are if they are put in order.
pub(crate) type Take<'t, R> = dyn FnMut(&R, Option<&[Numbered]>) -> Result<()> + 't;

/// Lets `pass` select rows of every part, as often as it takes, and hands them to `take` in the result's order.
pub(crate) fn passes<O: InOrder>(
    parts: &[Part],
    rows: &mut Selection<'_>,
    mut take: impl FnMut(&O::Rows) -> Result<()>,
    mut pass: impl FnMut(&Part, &mut Selection<'_>, &mut Take<'_, O::Rows>) -> Result<()>,
) -> Result<()> {
    while rows.begin()? {
        let mut in_order = O::new(rows.bytes_in_order());
        let mut taken = |found: &O::Rows, numbered: Option<&[Numbered]>| match numbered {
            Some(numbered) => in_order.add(found, numbered),
            None => take(found),
        };
        for part in parts {
            pass(part, rows, &mut taken).map_err(|e| part.named(e))?;
        }
        rows.end(in_order.finish(&mut take)?)?;
    }
    Ok(())
}

/// Rows to put in order. What does not fit is left to another pass: the rows after a limit.
pub(crate) trait InOrder {
    /// Rows as a pass selects them.
    type Rows: ?Sized;

    /// Holds approximately `most` bytes.
    fn new(most: usize) -> Self;

    /// Adds these rows.
    fn add(&mut self, rows: &Self::Rows, numbered: &[Numbered]) -> Result<()>;

    /// Hands the rows to `take`, in order, and returns the limit, if there is one.
    fn finish(self, take: impl FnMut(&Self::Rows) -> Result<()>) -> Result<Option<Numbered>>;
}

/// Lines to put in order, which are added one by one.
pub(crate) struct Lines {
    most: usize,
    lines: Vec<(Numbered, Box<[u8]>)>,
    bytes: usize,
    limit: Option<Numbered>,
}

impl Lines {
    /// Bytes that a line takes besides its own.
    const OVERHEAD: usize = size_of::<(Numbered, Box<[u8]>)>() + 16;
}

impl InOrder for Lines {
    type Rows = [u8];

    fn new(most: usize) -> Lines {
        Lines {
            most,
            lines: Vec::new(),
            bytes: 0,
            limit: None,
        }
    }

    fn add(&mut self, line: &[u8], numbered: &[Numbered]) -> Result<()> {
        let row = numbered[0];
        if self.limit.is_some_and(|limit| row > limit) {
            return Ok(());
        }
        self.bytes += line.len() + Lines::OVERHEAD;
        self.lines.push((row, line.into()));
        while self.bytes > self.most && self.lines.len() > 1 {
            let half = self.lines.len() / 2;
            self.lines
                .select_nth_unstable_by_key(half - 1, |(row, _)| *row);
            let dropped = self.lines.drain(half..);
            self.bytes -= dropped
                .map(|(_, line)| line.len() + Lines::OVERHEAD)
                .sum::<usize>();
            self.limit = self.lines.last().map(|(row, _)| *row);
        }
        Ok(())
    }

    fn finish(mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<Option<Numbered>> {
        self.lines.sort_unstable_by_key(|(row, _)| *row);
        let mut lines = self.lines.iter();
        lines.try_for_each(|(_, line)| take(line))?;
        Ok(self.limit)
    }
}

/// Record batches to put in order.
pub(crate) struct Batches {
    most: usize,
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// The rows, and where each is: which batch, and which row of it.
    rows: Vec<(Numbered, (usize, usize))>,
    limit: Option<Numbered>,
}

impl Batches {
    /// Fewest rows that are put in order at once, unless they are long, and most of a batch that comes out.
    const ROWS: usize = 8192;

    /// Bytes from which rows are long.
    const LONG: usize = 16 << 20;

    /// Sorts the rows, and hands them to `take`.
    fn in_order(&mut self, mut take: impl FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        self.rows.sort_unstable_by_key(|(row, _)| *row);
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        for rows in self.rows.chunks(Batches::ROWS) {
            let places: Vec<_> = rows.iter().map(|(_, place)| *place).collect();
            let batch = catching(|| interleave_record_batch(&batches, &places));
            let batch = batch.map_err(Error::corrupt)?;
            take(batch.map_err(|e| Error::corrupt(e.to_string()))?)?;
        }
        Ok(())
    }
}

impl InOrder for Batches {
    type Rows = RecordBatch;

    fn new(most: usize) -> Batches {
        Batches {
            most,
            batches: Vec::new(),
            bytes: 0,
            rows: Vec::new(),
            limit: None,
        }
    }

    fn add(&mut self, batch: &RecordBatch, rows: &[Numbered]) -> Result<()> {
        let number = self.batches.len();
        let taken = |row: &Numbered| self.limit.is_none_or(|limit| *row <= limit);
        let found = rows.iter().enumerate().filter(|(_, row)| taken(row));
        let before = self.rows.len();
        self.rows.extend(found.map(|(i, row)| (*row, (number, i))));
        if self.rows.len() == before {
            return Ok(());
        }
        let batch = compacted(batch)?;
        self.bytes += bytes_of(&batch);
        self.batches.push(batch);
        let long = self.bytes > Batches::LONG && self.rows.len() > 1;
        if self.bytes > self.most && (long || self.rows.len() > 2 * Batches::ROWS) {
            let half = self.rows.len() / 2;
            self.rows
                .select_nth_unstable_by_key(half - 1, |(row, _)| *row);
            self.rows.truncate(half);
            self.limit = self.rows.last().map(|(row, _)| *row);
            let mut kept = Vec::new();
            self.in_order(|batch| {
                kept.push(compacted(&batch)?);
                Ok(())
            })?;
            self.bytes = kept.iter().map(bytes_of).sum();
            self.batches = kept;
            let places = (0..self.rows.len()).map(|i| (i / Batches::ROWS, i % Batches::ROWS));
            self.rows
                .iter_mut()
                .zip(places)
                .for_each(|((_, old), new)| *old = new);
        }
        Ok(())
    }

    fn finish(
        mut self,
        mut take: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<Option<Numbered>> {
        self.in_order(|batch| take(&batch))?;
        Ok(self.limit)
    }
}

/// The batch without the bytes that only rows of other batches view.
fn compacted(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(nested::compacted);
    let columns = catching(|| columns.collect::<std::result::Result<_, _>>());
    let columns = columns.map_err(Error::corrupt)?;
    let wrong = |e: ArrowError| Error::corrupt(e.to_string());
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.map_err(wrong)?, &rows).map_err(wrong)
}

/// Bytes of a batch, but for the values of dictionaries, which batches share.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of_column = |column: &ArrayRef| match column.as_any_dictionary_opt() {
        Some(dictionary) => dictionary.keys().get_array_memory_size(),
        None => column.get_array_memory_size(),
    };
    batch.columns().iter().map(of_column).sum()
}

/// A column that a result has besides those of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Added<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) kind: AddedKind<'a>,
}

impl<'a> Added<'a> {
    /// The columns that these rows have besides those of the table, which are called `taken`: their own, and the peer's.
    pub(crate) fn all(
        result: ResultRows<'a>,
        of_peer: &'a [PeerColumn],
        taken: impl Fn(&str) -> bool,
    ) -> Result<Vec<Added<'a>>> {
        let is_there = |name: &str| {
            let of_table = match result.columns {
                [] => taken(name),
                columns => columns.iter().any(|column| column == name),
            };
            of_table || result.added().contains(&Some(name))
        };
        let names = result_names(of_peer, is_there)?.into_iter();
        let of_peer = names.zip(of_peer).map(|(name, column)| Added {
            name: name.into(),
            kind: AddedKind::OfPeer(&column.of),
        });
        let matched_by = result.matched_by.map(|name| Added {
            name: name.into(),
            kind: AddedKind::Name,
        });
        let own = Added::own(result.rows).into_iter().chain(matched_by);
        Ok(own.chain(of_peer).collect())
    }

    /// The column that these rows have to say what they are, if there is one.
    pub(crate) fn own(rows: Rows) -> Option<Added<'static>> {
        rows.added().map(|name| Added {
            name: name.into(),
            kind: match rows {
                Rows::Aligned => AddedKind::Number,
                _ => AddedKind::Truth,
            },
        })
    }
}

/// What an added column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedKind<'a> {
    /// Truth values.
    Truth,
    /// Whole numbers of 64 bits.
    Number,
    /// Names of identifiers, and nulls.
    Name,
    /// What the peer has handed over: values of this type, and nulls.
    OfPeer(&'a ColumnType),
}

/// A writer that remembers why it failed. The Parquet and Arrow writers wrap the error of the writer beneath
/// them in text, and a full disk must not be mistaken for damaged data.
pub(crate) struct WriterWithCause<'a> {
    out: &'a mut (dyn Write + Send),
    failure: Failure,
}

#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl<'a> WriterWithCause<'a> {
    pub(crate) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        WriterWithCause {
            out,
            failure: Failure::default(),
        }
    }

    pub(crate) fn failure(&self) -> Failure {
        self.failure.clone()
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(e) = &result {
            let copy = e
                .raw_os_error()
                .map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
            self.failure
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(copy);
        }
        result
    }
}

impl Write for WriterWithCause<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.note(result)
    }
}

impl Failure {
    /// Calls a library that writes; a failure beneath it is the output's, any other is the
    /// data's.
    pub(crate) fn watch<T, E: std::fmt::Display>(
        &self,
        f: impl FnOnce() -> std::result::Result<T, E>,
    ) -> Result<T> {
        let reason = match catching(f) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(e)) => e.to_string(),
            Err(panic) => panic,
        };
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(e) => Err(Error::new(ErrorKind::Unwritable(e))),
            None => Err(Error::corrupt(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;
    use arrow_select::take::take_record_batch;

    use super::*;

    #[test]
    fn batches_keep_what_their_rows_view() {
        let texts = (0..10_000).map(|i| format!("a text that is too long to be in its view, {i}"));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let all = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        let some = take_record_batch(&all, &arrow_array::UInt32Array::from(vec![7, 9000])).unwrap();
        assert!(bytes_of(&some) > 400_000);
        let kept = compacted(&some).unwrap();
        assert_eq!(kept, some);
        assert!(bytes_of(&kept) < 10_000, "{}", bytes_of(&kept));
    }
}
