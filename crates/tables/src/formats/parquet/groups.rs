//! Row groups whose columns are encoded side by side, while the next rows are read.

use std::io::Write;
use std::mem::take;
use std::sync::mpsc::{Receiver, sync_channel};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::{
    ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriter, ArrowWriterOptions, compute_leaves,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;
use vesica_files::catching;

use crate::formats::parallel::awaited;

/// Maximum rows of a row group.
const ROWS: usize = 1 << 20;

/// Encoded bytes of a row group after which it is written out.
const BYTES: usize = 64 << 20;

/// Writes rows as [`ArrowWriter`] does if row groups have at most [`ROWS`] rows and [`BYTES`] bytes.
pub(super) struct RowGroups<W: Write + Send> {
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    group: Option<RowGroup>,
}

impl<W: Write + Send> RowGroups<W> {
    pub(super) fn new(out: W, schema: SchemaRef, options: ArrowWriterOptions) -> Result<Self> {
        let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options)?;
        let (file, factory) = writer.into_serialized_writer()?;
        Ok(RowGroups {
            file,
            factory,
            schema,
            group: None,
        })
    }

    /// Begins to encode the rows. What is wrong with them may be said by a later call.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut rest = rows.clone();
        while rest.num_rows() > 0 {
            let mut group = match self.group.take() {
                Some(group) => group,
                None => self.next_group()?,
            };
            group.wait()?;
            let fit = group.fit(rest.num_rows());
            if fit == 0 {
                self.put(group)?;
                continue;
            }
            group.encode(&self.schema, &rest.slice(0, fit));
            self.group = Some(group);
            rest = rest.slice(fit, rest.num_rows() - fit);
        }
        Ok(())
    }

    /// Writes a row group of no rows, given as a batch of none, and what comes after it.
    pub(super) fn rehearse(&mut self, none: &RecordBatch) -> Result<()> {
        let mut group = self.next_group()?;
        group.encode(&self.schema, none);
        self.group = Some(group);
        self.finish()
    }

    /// Writes the last row group, and what comes after it.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(group) = self.group.take() {
            self.put(group)?;
        }
        self.file.finish().map(drop)
    }

    fn next_group(&self) -> Result<RowGroup> {
        let number = self.file.flushed_row_groups().len();
        let mut roots: Vec<Columns> = Vec::new();
        roots.resize_with(self.schema.fields().len(), Vec::new);
        let columns = self.factory.create_column_writers(number)?;
        for (i, column) in columns.into_iter().enumerate() {
            roots[self.file.schema_descr().get_column_root_idx(i)].push(column);
        }
        Ok(RowGroup {
            roots,
            pending: Vec::new(),
            rows: 0,
        })
    }

    fn put(&mut self, mut group: RowGroup) -> Result<()> {
        group.wait()?;
        let columns = group.roots.into_par_iter().flatten();
        let chunks = columns.map(|column| caught(|| column.close()));
        let chunks = chunks.collect::<Result<Vec<_>>>()?;
        let mut writer = self.file.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut writer)?;
        }
        writer.close().map(drop)
    }
}

/// Calls the library; its panic is an error.
fn caught<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catching(f).map_err(ParquetError::General)?
}

type Columns = Vec<ArrowColumnWriter>;

/// A row group that is being encoded.
struct RowGroup {
    /// The leaves of each column of the table; none while threads are at work on them.
    roots: Vec<Columns>,
    /// What threads are at work on, in the same order.
    pending: Vec<Receiver<Result<Columns>>>,
    rows: usize,
}

impl RowGroup {
    /// Waits until all rows have been encoded.
    fn wait(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let lost = || ParquetError::General("a column was not encoded".to_owned());
        let pending = take(&mut self.pending);
        let done = pending
            .iter()
            .map(|done| awaited(done).ok_or_else(lost).flatten());
        self.roots = done.collect::<Result<_>>()?;
        Ok(())
    }

    /// How many of so many rows it has room for, by the mean of those before; 0 if it is full.
    fn fit(&self, rows: usize) -> usize {
        let rows = rows.min(ROWS - self.rows);
        if self.rows == 0 {
            return rows;
        }
        let columns = self.roots.iter().flatten();
        let bytes: usize = columns.map(|c| c.get_estimated_total_bytes()).sum();
        let left = BYTES.saturating_sub(bytes);
        match left.checked_div(bytes / self.rows) {
            Some(most) => rows.min(most),
            None => rows,
        }
    }

    /// Lets other threads encode the rows, a column each.
    fn encode(&mut self, schema: &SchemaRef, rows: &RecordBatch) {
        self.rows += rows.num_rows();
        let columns = schema.fields().iter().zip(rows.columns());
        for (mut writers, (field, array)) in take(&mut self.roots).into_iter().zip(columns) {
            let (field, array) = (field.clone(), array.clone());
            let (done, receiver) = sync_channel(1);
            self.pending.push(receiver);
            rayon::spawn(move || {
                let encoded = caught(|| {
                    let leaves = compute_leaves(&field, &array)?;
                    let mut columns = writers.iter_mut().zip(&leaves);
                    columns.try_for_each(|(writer, leaf)| writer.write(leaf))
                });
                // After an error nobody takes it.
                let _ = done.send(encoded.map(|()| writers));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, Int64Array, ListArray, StringViewArray, StructArray};
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn options() -> ArrowWriterOptions {
        let properties = WriterProperties::builder().set_max_row_group_bytes(Some(BYTES));
        ArrowWriterOptions::new().with_properties(properties.build())
    }

    fn batch(rows: i64, bytes: usize) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let texts = (0..rows).map(|i| match i % 3 {
            0 => None,
            _ => Some(format!("{i:0bytes$}")),
        });
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter(texts));
        let lists = (0..rows).map(|i| Some((0..i % 3).map(|i| Some(i as i32))));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let both = StructArray::try_from(vec![("a", numbers.clone()), ("b", texts.clone())]);
        let both: ArrayRef = Arc::new(both.unwrap());
        let columns = [
            ("numbers", numbers),
            ("both", both),
            ("texts", texts),
            ("lists", lists),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// Row groups end where those of the library end, by rows and by bytes, and every byte is the same.
    #[test]
    fn files_are_those_of_one_thread() {
        let short = batch(5000, 1);
        let long = batch(3000, 20_000);
        for batches in [
            vec![&short; 230],
            vec![&short, &long, &long, &short],
            vec![],
        ] {
            let mut expected = Vec::new();
            let schema = short.schema();
            let mut writer =
                ArrowWriter::try_new_with_options(&mut expected, schema.clone(), options())
                    .unwrap();
            batches
                .iter()
                .for_each(|batch| writer.write(batch).unwrap());
            let groups = writer.close().unwrap().num_row_groups();
            assert!(groups > 1 || batches.is_empty());
            for threads in [1, 2] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                let mut found = Vec::new();
                pool.unwrap().install(|| {
                    let mut writer = RowGroups::new(&mut found, schema.clone(), options()).unwrap();
                    batches
                        .iter()
                        .for_each(|batch| writer.write(batch).unwrap());
                    writer.finish().unwrap();
                });
                assert!(found == expected, "{threads} threads, {groups} row groups");
            }
        }
    }
}
