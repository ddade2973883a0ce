//! The second pass: matching items become rows again.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::BooleanArray;

use crate::error::{Error, ErrorKind, Result};
use crate::guard::quietly;
use crate::keys::Keys;
use crate::output::Output;
use crate::rows::RowSet;
use crate::source::{Format, Source};
use crate::{csv, ipc, jsonl, parquet};

/// Second pass: writes the rows whose item matched, with all columns and in the order of the
/// input, and returns how many rows those are. `matched` has one entry for each item of
/// [`Keys::digests`], in that order. The file is in place only after [`Output::commit`].
///
/// # Errors
/// Usage: `matched` is of another length. Data: the input changed since the first pass.
/// Resource: the output cannot be written.
pub fn write_matches(
    source: &Source,
    keys: &Keys,
    matched: &[bool],
    output: &mut Output,
) -> Result<u64> {
    check_matched(keys, matched)?;
    write_rows(source, &RowSet::of_items(keys, matched), output)
}

/// Second pass: writes the chosen rows, with all columns and in the order of the input, and returns
/// how many rows those are. The file is in place only after [`Output::commit`].
///
/// # Errors
/// Data: the input changed since the first pass. Resource: the output cannot be written.
pub fn write_rows(source: &Source, rows: &RowSet, output: &mut Output) -> Result<u64> {
    let name = output.name().to_owned();
    output
        .write(|out| write_rows_to(source, rows, out))
        .map_err(|e| e.in_path(&name))
}

/// The same as [`write_matches`], to any writer and without compressing text.
///
/// # Errors
/// As [`write_matches`].
pub fn write_matches_to(
    source: &Source,
    keys: &Keys,
    matched: &[bool],
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    check_matched(keys, matched)?;
    write_rows_to(source, &RowSet::of_items(keys, matched), out)
}

fn check_matched(keys: &Keys, matched: &[bool]) -> Result<()> {
    if matched.len() == keys.digests().len() {
        return Ok(());
    }
    let reason = format!(
        "{} matches for {} items",
        matched.len(),
        keys.digests().len()
    );
    Err(Error::usage(reason, ""))
}

/// The same as [`write_rows`], to any writer and without compressing text.
///
/// # Errors
/// As [`write_rows`].
pub fn write_rows_to(source: &Source, rows: &RowSet, out: &mut (dyn Write + Send)) -> Result<u64> {
    let named = |e: Error| {
        if matches!(e.kind(), ErrorKind::Unwritable(_)) {
            e
        } else {
            e.in_path(source.name())
        }
    };
    source.verify_unchanged().map_err(named)?;
    let rows = Selection {
        rows,
        next: 0,
        written: 0,
    };
    let mut out = Watched::new(out);
    let result = match source.format() {
        Format::Csv => csv::copy(source, rows, &mut out),
        Format::Jsonl => jsonl::copy(source, rows, &mut out),
        Format::Parquet => parquet::copy(source, rows, &mut out),
        Format::Arrow => ipc::copy(source, rows, &mut out),
    };
    source.verify_unchanged().map_err(named)?;
    result.map_err(named)
}

/// Which rows to keep, as a pass over the table asks for them.
pub(crate) struct Selection<'a> {
    rows: &'a RowSet,
    next: u64,
    written: u64,
}

impl Selection<'_> {
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

    /// All rows of the first pass have been seen; returns how many were kept.
    pub(crate) fn finish(self) -> Result<u64> {
        if self.next == self.rows.rows() {
            Ok(self.written)
        } else {
            Err(Error::new(ErrorKind::Changed))
        }
    }
}

/// A writer that remembers why it failed. The Parquet and Arrow writers wrap the error of the
/// writer beneath them in text, and a full disk must stay tellable from damaged data.
pub(crate) struct Watched<'a> {
    out: &'a mut (dyn Write + Send),
    failure: Failure,
}

#[derive(Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl<'a> Watched<'a> {
    fn new(out: &'a mut (dyn Write + Send)) -> Self {
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
        let reason = match quietly(f) {
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
