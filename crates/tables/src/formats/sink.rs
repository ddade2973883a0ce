//! Where the rows of a first pass go.

use crate::error::{Error, Result};
use crate::profile::canonical::{Item, Row, RowValues};
use crate::types::columns::Columns;

/// Where a row is, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Counted from 1, over all files.
    pub(crate) row: u64,
    /// Line of its file on which it starts, in text formats.
    pub(crate) line: Option<u64>,
}

/// Takes the rows of a table one after another.
pub(crate) trait Sink {
    /// Whether the items of rows are all that it makes of them, and it may be given these instead.
    const ITEMS_SUFFICE: bool = false;

    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()>;

    /// Takes the item and the values of the next row, where these suffice.
    fn item(&mut self, _: Item, _: RowValues) -> Result<()> {
        unreachable!("rows are wanted")
    }

    /// The pass ends with an error about a row: that one, or one that an earlier row leads to.
    fn fail(&mut self, error: Error) -> Error {
        error
    }
}

/// What the pass saw of the files besides the values of their rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) rows: u64,
    /// The rows up to the end of each file.
    pub(crate) ends: Vec<u64>,
    pub(crate) columns: Columns,
    /// Rows of a text that end in CR LF.
    pub(crate) crlf_rows: u64,
    /// Rows of a text with bytes that are not UTF-8.
    pub(crate) not_utf8: u64,
    /// A text starts with a byte-order mark.
    pub(crate) byte_order_mark: bool,
}
