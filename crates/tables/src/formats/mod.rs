//! One file per format. It says how rows are read and written: as a [`LineFormat`](lines::LineFormat) of text, or as a
//! [`ColumnFormat`](columnar::ColumnFormat) of record batches. All that these have in common is done by [`lines`] and
//! [`columnar`].
//!
//! [`Format`] lists the formats. Whatever has to know them all goes by the list: what a file is by its content or name, the
//! two passes, help and messages.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::columns_read::ColumnsRead;
use crate::error::Result;
use crate::format::{Format, for_formats};
use crate::output::Container;
use crate::part::Part;
use crate::selection::{Selection, WriterWithCause};
use crate::sink::{Facts, Sink};

pub(crate) mod columnar;
pub(crate) mod fields;
pub(crate) mod lines;

/// Makes the formats' modules, and what [`Format`] does with them: each module has `Rows` that read and write its files.
macro_rules! dispatch {
    ($($(#[$doc:meta])* $format:ident = $kind:ident $module:ident, $extensions:expr, $starts:expr;)*) => {
        $(mod $module;)*

        impl Format {
            /// Passes the wanted values of every row of a file to `sink`.
            pub(crate) fn scan<S: Sink>(
                self,
                part: &Part,
                wanted: ColumnsRead<'_>,
                sink: &mut S,
                facts: &mut Facts,
            ) -> Result<()> {
                match self {
                    $(Format::$format => $kind::scan::<$module::Rows, S>(part, wanted, sink, facts),)*
                }
            }

            /// Writes the selected rows of files of this format, and returns how many they are.
            pub(crate) fn copy(
                self,
                parts: &[Part],
                rows: Selection<'_>,
                container: Container,
                out: &mut WriterWithCause<'_>,
            ) -> Result<u64> {
                match self {
                    $(Format::$format => $kind::copy::<$module::Rows>(parts, rows, container, out),)*
                }
            }

            /// The selected rows as record batches, and their schema.
            pub(crate) fn select(
                self,
                parts: &[Part],
                rows: Selection<'_>,
            ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
                match self {
                    $(Format::$format => $kind::select::<$module::Rows>(parts, rows),)*
                }
            }

            /// A writer of rows that come from files of another format.
            fn writer<'w>(
                self,
                rows: &columnar::Written<'_>,
                out: &'w mut WriterWithCause<'_>,
            ) -> Result<Box<dyn columnar::RowWriter + 'w>> {
                match self {
                    $(Format::$format => $kind::writer::<$module::Rows>(rows, out),)*
                }
            }
        }
    };
}

for_formats!(dispatch);
