//! Where the rows of a first pass go.

use crate::error::Result;
use crate::value::Row;

/// Where a row is, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// Counted from 1.
    pub(crate) row: u64,
    /// Line on which it starts, in text formats.
    pub(crate) line: Option<u64>,
}

/// Takes the rows of a table one after another.
pub(crate) trait Sink {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()>;
}

/// What the pass saw of the file besides the values of its rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) rows: u64,
    /// Rows of a text that end in CR LF.
    pub(crate) crlf_rows: u64,
    /// The text starts with a byte-order mark.
    pub(crate) byte_order_mark: bool,
}
