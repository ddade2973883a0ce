//! One file per format: its first pass, which hands key values to a [`Sink`](crate::sink::Sink), and its
//! second, which copies the rows of a [`Selection`](crate::selection::Selection).

pub(crate) mod columnar;
pub(crate) mod csv;
pub(crate) mod fields;
pub(crate) mod ipc;
pub(crate) mod jsonl;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(feature = "parquet")]
mod thrift;
#[cfg(feature = "parquet")]
mod views;

#[cfg(not(feature = "parquet"))]
pub(crate) mod parquet {
    //! Parquet files, which this build does without.

    use arrow_array::RecordBatch;
    use arrow_schema::SchemaRef;

    use crate::columns_read::ColumnsRead;
    use crate::error::{Error, Result};
    use crate::part::Part;
    use crate::selection::{Selection, WriterWithCause};
    use crate::sink::{Facts, Sink};

    fn left_out<T>() -> Result<T> {
        Err(Error::unsupported(
            "a Parquet file, for which vesica is to be built with the feature `parquet`",
        ))
    }

    pub(crate) fn scan<S: Sink>(
        _: &Part,
        _: ColumnsRead<'_>,
        _: &mut S,
        _: &mut Facts,
    ) -> Result<()> {
        left_out()
    }

    pub(crate) fn copy(_: &[Part], _: Selection<'_>, _: &mut WriterWithCause<'_>) -> Result<u64> {
        left_out()
    }

    pub(crate) fn select(_: &[Part], _: Selection<'_>) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        left_out()
    }
}
