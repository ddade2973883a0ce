//! Cells as text, and rows of them as lines of CSV.

use std::collections::VecDeque;
use std::io::Write;

use calamine::{ExcelDateTime, ExcelDateTimeType};

use crate::error::{Error, ErrorKind, Result};
use crate::source::dialect::{CsvOptions, Dialect};
use crate::source::text::MAX_ROW_BYTES;

/// Columns and rows of the largest sheets that Excel and LibreOffice make.
const MAX_COLUMNS: usize = 16_384;
pub(super) const MAX_ROWS: u64 = 1_048_576;

/// How many times the bytes of its workbook a table may have, and how many it always may: rows are as wide as the first.
const MAX_TIMES: u64 = 64;
const ALWAYS: u64 = 64 << 20;

const DIALECT: Dialect = Dialect {
    delimiter: b',',
    csv: CsvOptions {
        header: true,
        quote: Some(b'"'),
        escape: None,
        skip_initial_space: false,
    },
};

/// The fields of a row up to its last cell that is not empty.
#[derive(Default)]
pub(super) struct Cells {
    line: Vec<u8>,
    /// How many there are.
    width: usize,
}

impl Cells {
    /// Adds a cell behind those before it.
    pub(super) fn put(&mut self, column: usize, text: &str) -> Result<()> {
        if column >= MAX_COLUMNS || column < self.width {
            return Err(Error::corrupt("the cells of a row are not in order"));
        }
        self.widen(column + 1);
        if self.line.len() + text.len() > MAX_ROW_BYTES {
            let limit = MAX_ROW_BYTES;
            return Err(Error::new(ErrorKind::RowTooLong { limit }));
        }
        DIALECT.put_field(text, &mut self.line);
        Ok(())
    }

    /// Adds empty fields.
    fn widen(&mut self, width: usize) {
        if width > self.width {
            // The first field has no delimiter before it.
            let more = width - self.width.max(1);
            self.line.resize(self.line.len() + more, DIALECT.delimiter);
            self.width = width;
        }
    }
}

/// Writes the rows of a sheet without those above and below the table. Rows that are left out, and those without a value, are
/// blank lines, so that lines are counted as rows are.
pub(super) struct Lines<W> {
    out: W,
    above: u64,
    below: usize,
    /// The row whose cells are being put together.
    row: u64,
    /// Columns of the first row of the table.
    width: usize,
    /// Rows that may be below the table, and their numbers.
    held: VecDeque<(u64, Vec<u8>)>,
    /// Line ends so far.
    lines: u64,
    /// Bytes that may still be written.
    left: u64,
}

impl<W: Write> Lines<W> {
    /// For a workbook of so many bytes.
    pub(super) fn new(out: W, above: u64, below: usize, bytes: u64) -> Lines<W> {
        Lines {
            out,
            above,
            below,
            row: 0,
            width: 0,
            held: VecDeque::new(),
            lines: 0,
            left: bytes.saturating_mul(MAX_TIMES).max(ALWAYS),
        }
    }

    /// Begins with this row, which is the same as that of `cells` or a later one.
    pub(super) fn go_to(&mut self, row: u64, cells: &mut Cells) -> Result<()> {
        if row < self.row || row >= MAX_ROWS {
            return Err(Error::corrupt("the rows of a sheet are not in order"));
        }
        if row > self.row {
            self.put(cells)?;
            self.row = row;
        }
        Ok(())
    }

    /// Ends the row of these cells.
    pub(super) fn put(&mut self, cells: &mut Cells) -> Result<()> {
        let mut cells = std::mem::take(cells);
        if cells.width == 0 || self.row < self.above {
            return Ok(());
        }
        if self.width == 0 {
            self.width = cells.width;
        }
        cells.widen(self.width);
        cells.line.push(b'\n');
        let left = self.left.checked_sub(cells.line.len() as u64);
        let far_larger = "a sheet has far more cells than the workbook has bytes for";
        self.left = left.ok_or_else(|| Error::corrupt(far_larger))?;
        self.held.push_back((self.row, cells.line));
        match self.held.len() > self.below {
            true => self.write_first(),
            false => Ok(()),
        }
    }

    fn write_first(&mut self) -> Result<()> {
        let Some((row, line)) = self.held.pop_front() else {
            return Ok(());
        };
        let written = (self.lines..row).try_for_each(|_| self.out.write_all(b"\n"));
        self.lines = row + 1;
        let written = written.and_then(|()| self.out.write_all(&line));
        written.map_err(|e| Error::new(ErrorKind::Unwritable(e)))
    }

    /// What has been written to, without the rows below the table.
    pub(super) fn finish(self) -> W {
        self.out
    }
}

/// A number in the fewest digits that read back as it, and a whole one as such; with an exponent if it is very small, or so
/// large that its last digits are not known.
pub(super) fn number(number: f64) -> String {
    /// The first whole number of sixteen digits: spreadsheets keep fifteen of what is typed.
    const NOT_EXACT: f64 = 1e15;
    match number {
        0.0 => "0".to_owned(),
        _ if number.abs() >= NOT_EXACT || number.abs() < 1e-6 => format!("{number:e}"),
        _ => number.to_string(),
    }
}

/// A date without the time, if that is midnight.
pub(super) fn at_midnight(date: &str) -> &str {
    date.strip_suffix("T00:00:00").unwrap_or(date)
}

/// A date, a date with a time, a time of day or a duration; the number of one that no calendar has. Days are counted from 1900
/// or from 1904.
pub(super) fn time(time: &ExcelDateTime, is_1904: bool) -> String {
    /// The day after the last that Excel knows, 9999-12-31.
    const END: f64 = 2_958_466.0;
    const DAY: u64 = 86_400_000;
    let value = time.as_f64();
    if !(0.0..END).contains(&value) {
        return number(value);
    }
    let millis = (value * DAY as f64).round() as u64;
    let clock = |millis: u64| {
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let clock = format!(
            "{:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        match millis {
            0 => clock,
            millis => format!("{clock}.{millis:03}"),
        }
    };
    if time.is_duration() || millis < DAY {
        return clock(millis);
    }
    let day = ExcelDateTime::new((millis / DAY) as f64, ExcelDateTimeType::DateTime, is_1904);
    let (year, month, day, ..) = day.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    match millis % DAY {
        0 => date,
        millis => format!("{date}T{}", clock(millis)),
    }
}
