//! Opening tables.

use crate::error::Result;
use std::path::Path;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Delimited text with a header, possibly in gzip.
    Csv,
    /// Parquet.
    Parquet,
    /// One JSON object a line, possibly in gzip.
    Jsonl,
    /// Arrow IPC, file (Feather 2) or stream.
    Arrow,
}

impl std::str::FromStr for Format {
    type Err = crate::Error;
    /// `csv`, `parquet`, `jsonl` or `arrow`.
    fn from_str(_name: &str) -> Result<Self> {
        todo!()
    }
}

/// How to open a table. The default detects everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceOptions {
    /// The format, if it is not to be detected.
    pub format: Option<Format>,
    /// The delimiter of CSV, if it is not to be detected. One ASCII byte.
    pub delimiter: Option<u8>,
}

/// A table that can be read several times.
#[derive(Debug)]
pub struct Source {}

impl Source {
    /// Opens a table; `-` is standard input, which is copied to a private temporary file.
    ///
    /// # Errors
    /// Missing, a directory, unreadable, empty; no room for the copy of standard input.
    pub fn open(_path: &Path, _options: SourceOptions) -> Result<Self> {
        todo!()
    }

    /// A table in memory, called `name` in errors.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_bytes(_name: &str, _bytes: Vec<u8>, _options: SourceOptions) -> Result<Self> {
        todo!()
    }

    /// What the table is called in messages.
    pub fn name(&self) -> &str {
        todo!()
    }

    /// Its format.
    pub fn format(&self) -> Format {
        todo!()
    }
}
