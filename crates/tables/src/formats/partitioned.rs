//! Files of record batches with the columns that their directories say.

use std::iter;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::columnar::{ColumnFormat, RowWriter, Written};
use crate::error::{Error, Result};
use crate::formats::selection::{Selection, WriterWithCause};
use crate::source::part::Part;
use crate::source::partition::{Partition, has_too};

/// The format `F`, whose files have these columns behind their own.
pub(crate) struct Partitioned<F>(PhantomData<F>);

/// A file, and what it has with those columns.
pub(crate) struct PartitionedFile<T> {
    file: T,
    /// How many columns are its own.
    own: usize,
    schema: SchemaRef,
}

/// A schema with the columns of a partition.
fn with_partition(schema: SchemaRef, partition: &Partition) -> Result<SchemaRef> {
    let columns = &partition.columns;
    if columns.is_empty() {
        return Ok(schema);
    }
    if let Some((name, _)) = columns
        .iter()
        .find(|(name, _)| schema.column_with_name(name).is_some())
    {
        return Err(has_too(name));
    }
    let more = columns
        .iter()
        .map(|(name, _)| Arc::new(Field::new(name, DataType::Utf8, true)));
    let fields: Vec<_> = schema.fields().iter().cloned().chain(more).collect();
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        schema.metadata().clone(),
    )))
}

/// The columns that are read of a file, and those of the wanted ones that its directories say.
struct Split {
    own: Vec<usize>,
    /// Whether none of the file's own is wanted, and one is read to count the rows.
    counts_only: bool,
    said: Vec<(Arc<Field>, Option<String>)>,
}

impl Split {
    /// Of the columns `roots` of a file with so many of its own.
    fn of(roots: &[usize], own: usize, schema: &SchemaRef, partition: &Partition) -> Split {
        let first_said = roots.partition_point(|root| *root < own);
        let said = roots[first_said..].iter().map(|root| {
            let (_, value) = &partition.columns[root - own];
            (schema.fields()[*root].clone(), value.clone())
        });
        let counts_only = first_said == 0 && own > 0;
        Split {
            said: said.collect(),
            counts_only,
            own: match counts_only {
                true => vec![0],
                false => roots[..first_said].to_vec(),
            },
        }
    }

    /// The wanted columns of rows as the file has them.
    fn complete(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.said.is_empty() {
            return Ok(batch.clone());
        }
        let rows = batch.num_rows();
        let (fields, columns) = match self.counts_only {
            true => (Vec::new(), Vec::new()),
            false => (
                batch.schema_ref().fields().iter().cloned().collect(),
                batch.columns().to_vec(),
            ),
        };
        let fields: Vec<_> = fields
            .into_iter()
            .chain(self.said.iter().map(|(field, _)| field.clone()))
            .collect();
        let said = self.said.iter().map(|(_, value)| {
            let values = iter::repeat_n(value.as_deref(), rows);
            Arc::new(values.collect::<StringArray>()) as ArrayRef
        });
        let schema = Schema::new_with_metadata(fields, batch.schema_ref().metadata().clone());
        let columns = columns.into_iter().chain(said).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
            .map_err(|e| Error::corrupt(e.to_string()))
    }
}

impl<F: ColumnFormat> ColumnFormat for Partitioned<F> {
    type File = PartitionedFile<F::File>;

    fn open(part: &Part, texts: &SchemaRef) -> Result<Self::File> {
        let file = F::open(part, texts)?;
        let own = F::schema(&file);
        Ok(PartitionedFile {
            own: own.fields().len(),
            schema: with_partition(own, part.partition())?,
            file,
        })
    }

    fn schema(file: &Self::File) -> SchemaRef {
        file.schema.clone()
    }

    fn own_columns(file: &Self::File) -> usize {
        file.own
    }

    fn schema_in_memory(file: &Self::File) -> Result<SchemaRef> {
        let own = F::schema_in_memory(&file.file)?;
        if file.own == file.schema.fields().len() {
            return Ok(own);
        }
        let said = file.schema.fields().iter().skip(file.own);
        let fields: Vec<_> = own.fields().iter().chain(said).cloned().collect();
        Ok(Arc::new(Schema::new_with_metadata(
            fields,
            own.metadata().clone(),
        )))
    }

    fn wrong(reason: String) -> Error {
        F::wrong(reason)
    }

    fn scan(
        part: &Part,
        file: Self::File,
        roots: Vec<usize>,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let split = Split::of(&roots, file.own, &file.schema, part.partition());
        F::scan(part, file.file, split.own.clone(), &mut |batch| {
            each(split.complete(&batch)?)
        })
    }

    fn select(
        part: &Part,
        file: Self::File,
        roots: &[usize],
        rows: &mut Selection<'_>,
        each: &mut dyn FnMut(&RecordBatch, &mut Selection<'_>) -> Result<()>,
    ) -> Result<()> {
        let split = Split::of(roots, file.own, &file.schema, part.partition());
        F::select(part, file.file, &split.own, rows, &mut |batch, rows| {
            each(&split.complete(batch)?, rows)
        })
    }

    fn rehearse(part: &Part, file: &Self::File, roots: &[usize]) -> Result<()> {
        let split = Split::of(roots, file.own, &file.schema, part.partition());
        F::rehearse(part, &file.file, &split.own)
    }

    fn most_of_row(part: &Part, file: &Self::File) -> u64 {
        let said = part.partition().columns.iter();
        let said = said.map(|(_, value)| value.as_ref().map_or(0, String::len) as u64);
        F::most_of_row(part, &file.file).saturating_add(said.sum())
    }

    fn writer<'w>(
        first: Option<&Self::File>,
        rows: &Written<'_>,
        out: &'w mut WriterWithCause<'_>,
    ) -> Result<Box<dyn RowWriter + 'w>> {
        F::writer(first.map(|first| &first.file), rows, out)
    }
}
