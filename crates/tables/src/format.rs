//! File formats.

use crate::error::{Error, Result};

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// Delimited text with a header, possibly in gzip.
    Csv,
    /// Parquet.
    Parquet,
    /// One JSON object per line, possibly in gzip.
    Jsonl,
    /// Arrow IPC: a file (Feather version 2) or a stream.
    Arrow,
}

impl Format {
    /// The name that the command knows it by: `csv`, `parquet`, `jsonl` or `arrow`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Jsonl => "jsonl",
            Format::Arrow => "arrow",
        }
    }

    /// Whether it is lines of text.
    pub fn is_text(self) -> bool {
        matches!(self, Format::Csv | Format::Jsonl)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Format::Csv, Format::Parquet, Format::Jsonl, Format::Arrow]
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| {
                let hint = "formats are: csv, parquet, jsonl, arrow";
                Error::usage(format!("no format is called {name:?}"), hint)
            })
    }
}
