//! The rows that a second pass keeps, and where it writes them.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, BooleanArray};

use crate::error::{Error, ErrorKind, Result};
use crate::guard::catching;
use crate::handed::{Matched, result_names};
use crate::options::Rows;

/// Bytes of columns of the peer that are put together in memory.
const ADDED_BYTES: usize = 16 << 20;

/// Which rows to keep, as a pass over the table asks for them.
#[derive(Clone)]
pub(crate) struct Selection<'a> {
    matched: Matched<'a>,
    rows: Rows,
    next: u64,
    written: u64,
    /// What ends lines, and whether the last one that was written lacks it.
    line_end: &'static [u8],
    unended: bool,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(matched: Matched<'a>, rows: Rows) -> Selection<'a> {
        Selection {
            matched,
            rows,
            next: 0,
            written: 0,
            line_end: b"\n",
            unended: false,
        }
    }

    /// Whether the next row is kept. A row that the first pass did not see is an error.
    pub(crate) fn next(&mut self) -> Result<bool> {
        if self.next >= self.matched.rows.rows() {
            return Err(Error::new(ErrorKind::Changed));
        }
        let matches = self.matched.rows.contains(self.next);
        let keep = match self.rows {
            Rows::Matching => matches,
            Rows::Rest => !matches,
            Rows::All => true,
        };
        self.next += 1;
        self.written += u64::from(keep);
        Ok(keep)
    }

    /// Which of the next `rows` rows are kept; `None` if none is.
    pub(crate) fn mask(&mut self, rows: usize) -> Result<Option<BooleanArray>> {
        let before = self.written;
        let mask: Vec<bool> = (0..rows).map(|_| self.next()).collect::<Result<_>>()?;
        Ok((self.written > before).then(|| BooleanArray::from(mask)))
    }

    /// The columns that are added to those of the table, which are called `taken`.
    pub(crate) fn added(&self, taken: impl Fn(&str) -> bool) -> Vec<Added<'a>> {
        let in_both = self.rows.added().map(|name| Added {
            name: name.into(),
            is_text: false,
        });
        let handed_over = self.matched.handed_over.iter();
        let texts = handed_over
            .flat_map(|handed| result_names(handed.columns(), &taken))
            .map(|name| Added {
                name: name.into(),
                is_text: true,
            });
        in_both.into_iter().chain(texts).collect()
    }

    /// How many rows may be put together in memory, with the columns that are added to them.
    pub(crate) fn rows_at_once(&self) -> usize {
        let handed_over = self.matched.handed_over;
        handed_over.map_or(usize::MAX, |handed| (ADDED_BYTES / handed.bytes()).max(1))
    }

    /// Whether columns are added.
    pub(crate) fn adds(&self) -> bool {
        self.rows.added().is_some() || self.matched.handed_over.is_some()
    }

    /// What the added columns have in the last row; `None` is null.
    pub(crate) fn added_values(&self) -> Vec<Option<&'a str>> {
        let row = self.next.saturating_sub(1);
        let in_both = self
            .rows
            .added()
            .map(|_| match self.matched.rows.contains(row) {
                true => Some("true"),
                false => Some("false"),
            });
        let texts = self
            .matched
            .handed_over
            .iter()
            .flat_map(|handed| handed.texts(row));
        in_both.into_iter().chain(texts).collect()
    }

    /// The added columns of those of the last `rows` rows that are kept.
    pub(crate) fn added_arrays(&self, mask: &BooleanArray) -> Vec<ArrayRef> {
        let first = self.next - mask.len() as u64;
        let kept = || {
            (first..)
                .zip(mask.values())
                .filter(|(_, kept)| *kept)
                .map(|(row, _)| row)
        };
        let mut arrays: Vec<ArrayRef> = Vec::new();
        if self.rows.added().is_some() {
            let matches: Vec<bool> = kept().map(|row| self.matched.rows.contains(row)).collect();
            arrays.push(Arc::new(BooleanArray::from(matches)));
        }
        if let Some(handed) = &self.matched.handed_over {
            let mut columns: Vec<_> = handed
                .columns()
                .iter()
                .map(|_| StringBuilder::new())
                .collect();
            for row in kept() {
                for (column, text) in columns.iter_mut().zip(handed.texts(row)) {
                    column.append_option(text);
                }
            }
            arrays.extend(
                columns
                    .into_iter()
                    .map(|mut column| Arc::new(column.finish()) as ArrayRef),
            );
        }
        arrays
    }

    pub(crate) fn write(&self, out: &mut dyn Write, bytes: &[u8]) -> Result<()> {
        out.write_all(bytes)
            .map_err(|e| Error::new(ErrorKind::Unwritable(e)))
    }

    /// Writes a line as it is. The last line of a file may have no end; it gets one if another follows.
    pub(crate) fn write_line(&mut self, out: &mut dyn Write, line: &[u8]) -> Result<()> {
        if self.unended {
            self.write(out, self.line_end)?;
        }
        self.unended = !line.ends_with(b"\n");
        if line.ends_with(b"\r\n") {
            self.line_end = b"\r\n";
        }
        self.write(out, line)
    }

    /// All rows of the first pass have been seen; returns how many were kept.
    pub(crate) fn finish(self) -> Result<u64> {
        if self.next == self.matched.rows.rows() {
            Ok(self.written)
        } else {
            Err(Error::new(ErrorKind::Changed))
        }
    }
}

/// A column that a result has besides those of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Added<'a> {
    pub(crate) name: Cow<'a, str>,
    /// Whether it has texts and nulls; otherwise truth values.
    pub(crate) is_text: bool,
}

/// A writer that remembers why it failed. The Parquet and Arrow writers wrap the error of the writer beneath
/// them in text, and a full disk must not be mistaken for damaged data.
pub(crate) struct Watched<'a> {
    out: &'a mut (dyn Write + Send),
    failure: Failure,
}

#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl<'a> Watched<'a> {
    pub(crate) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        Watched {
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

impl Write for Watched<'_> {
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
