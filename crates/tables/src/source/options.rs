//! How tables are opened.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::source::dialect::CsvOptions;
use crate::source::encoding::Encoding;

/// How often a table is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passes {
    /// For its keys alone.
    One,
    /// For its keys, and again for the rows of a result.
    #[default]
    Two,
}

/// Which rows of the table a result has. A row without a usable key matches nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rows {
    /// The rows that match.
    #[default]
    Matching,
    /// The others.
    Rest,
    /// All of them, with a boolean column [`Rows::IN_BOTH`] that says which match.
    All,
    /// The rows that match, in the order that both sides share, with a column [`Rows::NUMBER`] of integers.
    Aligned,
}

impl Rows {
    /// The name of the column that [`Rows::All`] adds; the table has none of this name.
    pub const IN_BOTH: &str = "in_both";

    /// The name of the column that [`Rows::Aligned`] adds; the table has none of this name. Both sides number the keys
    /// that match from 1, in the same order; rows with one key have one number.
    pub const NUMBER: &str = "match_number";

    /// The column that a result has besides those of the table.
    pub(crate) fn added(self) -> Option<&'static str> {
        match self {
            Rows::Matching | Rows::Rest => None,
            Rows::All => Some(Rows::IN_BOTH),
            Rows::Aligned => Some(Rows::NUMBER),
        }
    }
}

/// What the rows of a result are, and what is written beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultRows<'a> {
    pub(crate) rows: Rows,
    /// The column for the name of the identifier by which a row matches.
    pub(crate) matched_by: Option<&'a str>,
    /// The columns of the table that it has, in this order; all if none is named.
    pub(crate) columns: &'a [String],
}

impl<'a> ResultRows<'a> {
    /// The columns that a result has besides those of the table and of the peer.
    pub(crate) fn added(self) -> [Option<&'a str>; 2] {
        [self.rows.added(), self.matched_by]
    }
}

impl FromStr for Rows {
    type Err = Error;

    /// Reads `matching`, `rest` or `all`.
    fn from_str(name: &str) -> Result<Rows> {
        match name {
            "matching" => Ok(Rows::Matching),
            "rest" => Ok(Rows::Rest),
            "all" => Ok(Rows::All),
            _ => Err(Error::usage("rows are matching, rest or all")),
        }
    }
}

impl SourceOptions {
    pub(crate) fn result_rows(&self) -> ResultRows<'_> {
        ResultRows {
            rows: self.rows,
            matched_by: self.matched_by.as_deref(),
            columns: &self.columns,
        }
    }
}

/// How to open a table. The default detects everything that can be.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// The format. Otherwise by the first bytes where they tell, then by the name, then CSV.
    pub format: Option<Format>,
    /// The delimiter of CSV, one ASCII byte. Otherwise a tab if the name ends in `.tsv`, or
    /// whichever of comma, semicolon, tab and bar fits the first rows best.
    pub delimiter: Option<u8>,
    /// What else there is to know of CSV.
    pub csv: CsvOptions,
    /// Lines above the table in each file of CSV, or rows of a spreadsheet, such as a title, that are left out.
    pub skip_rows: u64,
    /// Lines below the table in each file of CSV, or rows of a spreadsheet, such as a total, that are left out; blank ones at the
    /// end are not counted.
    pub skip_footer: usize,
    /// The sheet of a spreadsheet. Otherwise the first that is shown.
    pub sheet: Option<String>,
    /// The encoding of CSV and JSON Lines. Otherwise UTF-8; results of other encodings are UTF-8 too.
    pub encoding: Option<Encoding>,
    /// How often the table will be read. Text that comes through a pipe and is read once is not copied; any
    /// other piped input is.
    pub passes: Passes,
    /// Which rows the second pass takes.
    pub rows: Rows,
    /// Where rows have several identifiers: a column of the result for the name of the first by which a row matches, null for
    /// a row that does not. The table has none of this name.
    pub matched_by: Option<String>,
    /// The columns of the table that a result has, in this order; all if none is named. Those that are added come after them.
    pub columns: Vec<String>,
    /// Whether a table without rows, or a JSON Lines file without any line, is allowed; otherwise reading it
    /// is an error.
    pub allow_no_rows: bool,
    /// Approximate memory of the run in bytes, which bounds what a columnar file can have in memory at once: half of it,
    /// and at least as much as a row of text may take. `None` is no limit.
    pub memory: Option<u64>,
    /// How long a named pipe may be without anyone who writes to it; `None` is as long as it takes.
    pub wait: Option<Duration>,
    /// Directory for the copy of piped input, which is encrypted and has no name. Otherwise the system's
    /// directory for temporary files, which is `TMPDIR` if that is set.
    pub scratch: Option<PathBuf>,
}
