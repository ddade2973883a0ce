//! Parquet, if this build has it.

#[cfg(feature = "parquet")]
mod rows;
#[cfg(feature = "parquet")]
mod thrift;
#[cfg(feature = "parquet")]
mod views;

#[cfg(feature = "parquet")]
pub(crate) use rows::Rows;


#[cfg(not(feature = "parquet"))]
mod left_out {
    use std::convert::Infallible;

    use arrow_array::RecordBatch;
    use arrow_schema::SchemaRef;

    use crate::error::{Error, Result};
    use crate::formats::columnar::{ColumnFormat, RowWriter, Written};
    use crate::part::Part;
    use crate::selection::{Selection, WriterWithCause};

    /// Refuses every file.
    pub(crate) struct Rows;

    fn left_out<T>() -> Result<T> {
        Err(Error::unsupported(
            "a Parquet file, for which vesica is to be built with the feature `parquet`",
        ))
    }

    impl ColumnFormat for Rows {
        type File = Infallible;

        fn open(_: &Part) -> Result<Infallible> {
            left_out()
        }

        fn schema(file: &Infallible) -> SchemaRef {
            match *file {}
        }

        fn scan(
            _: &Part,
            file: Infallible,
            _: Vec<usize>,
            _: &mut dyn FnMut(RecordBatch) -> Result<()>,
        ) -> Result<()> {
            match file {}
        }

        fn select(
            _: &Part,
            file: Infallible,
            _: &mut Selection<'_>,
            _: &mut dyn FnMut(&RecordBatch, &mut Selection<'_>) -> Result<()>,
        ) -> Result<()> {
            match file {}
        }

        fn writer<'w>(
            _: Option<&Infallible>,
            _: &Written<'_>,
            _: &'w mut WriterWithCause<'_>,
        ) -> Result<Box<dyn RowWriter + 'w>> {
            left_out()
        }
    }
}

#[cfg(not(feature = "parquet"))]
pub(crate) use left_out::Rows;
