//! Digests of keys as columns of Arrow, many at a time: what `vesica.spark` does with them on executors.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, FixedSizeBinaryArray, RecordBatch};
use arrow_buffer::{Buffer, NullBuffer};
use pyo3::prelude::*;
use vesica::tables::{Passes, row_digests, sort_digests};
use vesica::{KeySpec, SourceOptions};
use vesica_kernels::memory::KeepFreed;

use crate::errors::Failure;
use crate::options::{Reading, Table};
use crate::stream::Batches;

/// Bytes of a digest.
const BYTES: i32 = 32;

/// Reads keys of one table after another. Those that follow each other take each other's memory.
#[pyclass(frozen, module = "vesica._vesica")]
pub(crate) struct KeyReader {
    reading: Reading,
    key: KeySpec,
    _reused: KeepFreed,
}

#[pymethods]
impl KeyReader {
    #[new]
    fn new(reading: Reading) -> Result<KeyReader, Failure> {
        Ok(KeyReader {
            key: reading.key()?,
            reading,
            _reused: KeepFreed::begin(),
        })
    }

    /// The digest of the key of each row of a table in memory, by which both sides compare keys; null for a row that never
    /// matches.
    fn digests(&self, py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<Batches> {
        let options = self.reading.source(SourceOptions {
            passes: Passes::One,
            allow_no_rows: true,
            ..SourceOptions::default()
        })?;
        let table = Table::of(table, &self.reading)?;
        let digests = py.detach(|| {
            let source = table.open(&self.key, &[], options)?;
            let digests = row_digests(&source, &self.key)?;
            let usable = NullBuffer::from_iter(digests.iter().map(Option::is_some));
            let digests = digests.into_iter().map(Option::unwrap_or_default);
            table_of(digests.collect(), Some(usable))
        })?;
        Ok(digests)
    }
}

/// A table of one column of digests, of which those that are not usable are null.
pub(crate) fn table_of(
    digests: Vec<[u8; 32]>,
    usable: Option<NullBuffer>,
) -> Result<Batches, Failure> {
    let digests = Buffer::from_vec(digests.into_flattened());
    let column = FixedSizeBinaryArray::new(BYTES, digests, usable);
    Batches::of_column("digest", Arc::new(column))
}

/// The digests in the only column of a table, which are 32 bytes each and not null.
pub(crate) fn digests_of(table: &Bound<'_, PyAny>) -> PyResult<Vec<[u8; 32]>> {
    let table = Batches::of(table)?;
    let rows: usize = table.batches.iter().map(RecordBatch::num_rows).sum();
    let digests = usable(table)?;
    match digests.len() == rows {
        true => Ok(digests),
        false => Err(refused().into()),
    }
}

/// The same without those that are null, which belong to rows that never match.
pub(crate) fn usable_of(table: &Bound<'_, PyAny>) -> PyResult<Vec<[u8; 32]>> {
    Ok(usable(Batches::of(table)?)?)
}

fn refused() -> Failure {
    Failure::data("a table of digests has one column, of 32 bytes in each row")
}

fn usable(Batches { batches, .. }: Batches) -> Result<Vec<[u8; 32]>, Failure> {
    let mut found = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let [column] = batch.columns() else {
            return Err(refused());
        };
        let column = column.as_fixed_size_binary_opt().ok_or_else(refused)?;
        let (digests, rest) = column.value_data().as_chunks();
        if column.value_length() != BYTES || !rest.is_empty() {
            return Err(refused());
        }
        match column.nulls() {
            None => found.extend_from_slice(digests),
            Some(nulls) => found.extend(nulls.valid_indices().map(|place| digests[place])),
        }
    }
    Ok(found)
}

/// Each digest once, in the order of their bytes; null for none.
#[pyfunction]
pub(crate) fn distinct(py: Python<'_>, digests: &Bound<'_, PyAny>) -> PyResult<Batches> {
    let mut digests = usable_of(digests)?;
    py.detach(|| {
        sort_digests(&mut digests);
        digests.dedup();
    });
    Ok(table_of(digests, None)?)
}

/// Digests among which others are looked for.
#[pyclass(frozen, module = "vesica._vesica")]
pub(crate) struct DigestSet(vesica::tables::DigestSet);

#[pymethods]
impl DigestSet {
    #[new]
    fn new(py: Python<'_>, digests: &Bound<'_, PyAny>) -> PyResult<DigestSet> {
        let digests = digests_of(digests)?;
        Ok(DigestSet(
            py.detach(|| vesica::tables::DigestSet::new(digests)),
        ))
    }

    /// Whether each digest is one of these, as a table of one column.
    fn has(&self, py: Python<'_>, digests: &Bound<'_, PyAny>) -> PyResult<Batches> {
        let digests = digests_of(digests)?;
        let column: BooleanArray = py.detach(|| self.0.has(&digests).map(Some).collect());
        Ok(Batches::of_column("found", Arc::new(column))?)
    }
}
