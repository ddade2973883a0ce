//! What the rows of a result are written as.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};

use crate::format::Format;
use crate::source::part::Part;
use crate::source::sniff;

/// What rows are written as.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) format: Format,
    /// Whether Arrow is a stream, and not a file.
    pub(crate) is_arrow_stream: bool,
    /// What delimits fields, in CSV.
    pub(crate) delimiter: Option<u8>,
    /// The columns of a text that is written in another format.
    pub(crate) columns: SchemaRef,
}

impl Container {
    /// What an output of this name holds: what the name says, or else the same as the first file of the table. Record
    /// batches in memory and answers of databases have no format, and are an Arrow stream otherwise.
    pub(crate) fn of(first: &Part, name: &str) -> Container {
        let named = sniff::by_name(name).filter(|format| format.is_built());
        let format = named.unwrap_or(first.format());
        let is_same = format == first.format() && !first.is_formless();
        let is_arrow_stream = match sniff::extension(name).as_deref() {
            Some("arrows") => true,
            Some("arrow" | "feather" | "ipc") => false,
            _ => !is_same || first.is_arrow_stream(),
        };
        let delimiter = sniff::delimiter(name).or(match is_same {
            true => Some(first.dialect().delimiter),
            false => Some(b','),
        });
        Container {
            format,
            is_arrow_stream,
            delimiter: delimiter.filter(|_| format == Format::Csv),
            columns: Arc::new(Schema::empty()),
        }
    }

    /// The same as the first file of the table, and record batches in memory as an Arrow stream.
    pub(crate) fn same(first: &Part) -> Container {
        let delimiter = first.dialect().delimiter;
        Container {
            format: first.format(),
            is_arrow_stream: first.is_arrow_stream(),
            delimiter: (first.format() == Format::Csv).then_some(delimiter),
            columns: Arc::new(Schema::empty()),
        }
    }

    /// An Arrow stream.
    #[cfg(feature = "adbc")]
    pub(crate) fn stream(columns: SchemaRef) -> Container {
        Container {
            format: Format::Arrow,
            is_arrow_stream: true,
            delimiter: None,
            columns,
        }
    }

    /// CSV with commas.
    pub(crate) fn csv() -> Container {
        Container {
            format: Format::Csv,
            is_arrow_stream: false,
            delimiter: Some(b','),
            columns: Arc::new(Schema::empty()),
        }
    }

    /// Whether rows of a part are written as they are there.
    pub(crate) fn is_of(&self, part: &Part) -> bool {
        self.format == part.format()
            && (self.format != Format::Csv || self.delimiter == Some(part.dialect().delimiter))
            && (self.format != Format::Arrow || self.is_arrow_stream == part.is_arrow_stream())
    }
}
