//! One file per format. It says how rows are read and written: as a [`LineFormat`](lines::LineFormat) of text, or as a
//! [`ColumnFormat`](columnar::ColumnFormat) of record batches. All that these have in common is done by [`lines`] and
//! [`columnar`].
//!
//! [`Format`] lists the formats. Whatever has to know them all goes by the list: what a file is by its content or name, the
//! two passes, help and messages.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use crate::error::{Error, Result};
use crate::format::{Format, for_formats};
use crate::formats::container::Container;
use crate::formats::limits::Limits;
use crate::formats::selection::{Selection, WriterWithCause};
use crate::formats::sink::{Facts, Sink};
use crate::source::options::ResultRows;
use crate::source::part::Part;
use crate::types::columns_read::ColumnsRead;
use crate::types::peer_columns::PeerColumn;

pub(crate) mod columnar;
pub(crate) mod container;
mod csv;
mod fields;
pub(crate) mod import;
mod ipc;
pub(crate) mod items;
mod jsonl;
pub(crate) mod limits;
mod lines;
mod parallel;
#[cfg(feature = "parquet")]
mod parquet;
mod partitioned;
pub(crate) mod preview;
pub(crate) mod selection;
pub(crate) mod sink;

/// Makes what [`Format`] does with the formats' modules: each module has `Rows` that read and write its files.
macro_rules! dispatch {
    ($($(#[$doc:meta])* $format:ident = $words:literal, $kind:ident $module:ident $(if $feature:tt)?, $extensions:expr, $starts:expr;)*) => {
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
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::scan::<$module::Rows, S>(part, wanted, sink, facts),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// Writes the selected rows of files of this format, and returns how many they are.
            pub(crate) fn copy(
                self,
                parts: &[Part],
                rows: Selection<'_>,
                container: &Container,
                out: &mut WriterWithCause<'_>,
            ) -> Result<u64> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::copy::<$module::Rows>(parts, rows, container, out),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// Writes no rows of files of this format, with these columns of the peer, so that what makes a result impossible is
            /// known early.
            pub(crate) fn rehearse(
                self,
                parts: &[Part],
                rows: ResultRows<'_>,
                of_peer: &[PeerColumn],
                container: &Container,
            ) -> Result<()> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::rehearse::<$module::Rows>(parts, rows, of_peer, container),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// Looks at the values of all rows of files of this format, if a result may have no room for some.
            pub(crate) fn check(
                self,
                parts: &[Part],
                rows: ResultRows<'_>,
                container: &Container,
                limits: &dyn Limits,
            ) -> Result<()> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::check::<$module::Rows>(parts, rows, container, limits),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// The columns of files of this format, of which the chosen ones are to be written in the format `to`.
            pub(crate) fn columns(
                self,
                parts: &[Part],
                to: Format,
                chosen: &[String],
            ) -> Result<SchemaRef> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::columns::<$module::Rows>(parts, to, chosen),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// The types of the columns of these names, text of those that the files lack.
            pub(crate) fn column_types(self, parts: &[Part], names: &[String]) -> Result<Vec<DataType>> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::types::<$module::Rows>(parts, names),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// The selected rows as record batches, and their schema.
            pub(crate) fn select(
                self,
                parts: &[Part],
                rows: Selection<'_>,
            ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::select::<$module::Rows>(parts, rows),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }

            /// A writer of rows that come from files of another format.
            fn writer<'w>(
                self,
                rows: &columnar::Written<'_>,
                out: &'w mut WriterWithCause<'_>,
            ) -> Result<Box<dyn columnar::RowWriter + 'w>> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        Format::$format => $kind::writer::<$module::Rows>(rows, out),
                        $(
                            #[cfg(not(feature = $feature))]
                            Format::$format => left_out(stringify!($format), $feature),
                        )?
                    )*
                }
            }
        }
    };
}

for_formats!(dispatch);

#[cfg(feature = "parquet")]
pub(crate) use self::parquet::row_count as rows_of_parquet;

impl std::str::FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Format::ALL.iter().find(|format| format.name() == name);
        found.copied().ok_or_else(|| {
            let hint = format!("formats are: {}", Format::names(", "));
            Error::usage_with(format!("no format is called {name:?}"), hint)
        })
    }
}

/// The error about files of a format that this build leaves out.
#[cfg_attr(
    feature = "parquet",
    allow(dead_code, reason = "this build has all formats")
)]
fn left_out<T>(format: &str, feature: &str) -> Result<T> {
    Err(Error::unsupported(format!(
        "a {format} file, for which vesica is to be built with the feature `{feature}`"
    )))
}
