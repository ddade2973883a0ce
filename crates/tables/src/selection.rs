//! The rows that a second pass keeps, and where it writes them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::BooleanArray;

use crate::error::{Error, ErrorKind, Result};
use crate::guard::catching;
use crate::rows::RowSet;

/// Which rows to keep, as a pass over the table asks for them.
#[derive(Clone)]
pub(crate) struct Selection<'a> {
    rows: &'a RowSet,
    next: u64,
    written: u64,
    /// What ends lines, and whether the last one that was written lacks it.
    line_end: &'static [u8],
    unended: bool,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(rows: &'a RowSet) -> Selection<'a> {
        Selection {
            rows,
            next: 0,
            written: 0,
            line_end: b"\n",
            unended: false,
        }
    }

    /// Whether the next row is kept. A row that the first pass did not see is an error.
    pub(crate) fn next(&mut self) -> Result<bool> {
        if self.next >= self.rows.rows() {
            return Err(Error::new(ErrorKind::Changed));
        }
        let keep = self.rows.contains(self.next);
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
        if self.next == self.rows.rows() {
            Ok(self.written)
        } else {
            Err(Error::new(ErrorKind::Changed))
        }
    }
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
