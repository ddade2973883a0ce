//! Tables in and out through Arrow's C stream interface. The only unsafe code of the package: it takes a stream out
//! of the capsule in which another library hands it over.
#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::errors::Failure;

/// The name that the interface gives to capsules of streams.
const STREAM: &CStr = c"arrow_array_stream";

/// The name that the interface gives to capsules of schemas.
const SCHEMA: &CStr = c"arrow_schema";

/// The record batches of an object with `__arrow_c_stream__`.
pub(crate) fn reader_of(table: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = table.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds an initialised stream, by the interface's specification; the stream is
    // moved out while the capsule is alive, and leaves one behind that the capsule's destructor ignores. The reader
    // owns what it has moved, and reads no other stream's memory.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|e| {
        let found = table.get_type();
        Failure::data(format!(
            "this {found} is no table of columns with names: {e}"
        ))
        .into()
    })
}

fn broken(e: ArrowError) -> Failure {
    Failure::data(format!("the table breaks off: {e}"))
}

/// All that a reader has.
fn gather(reader: impl RecordBatchReader) -> Result<Batches, Failure> {
    let schema = reader.schema();
    let batches = reader.collect::<Result<_, _>>().map_err(broken)?;
    Ok(Batches { schema, batches })
}

impl Batches {
    /// A table of one column.
    pub(crate) fn of_column(name: &str, column: ArrayRef) -> Result<Batches, Failure> {
        let batch = RecordBatch::try_from_iter_with_nullable([(name, column, true)]);
        let batch = batch.map_err(broken)?;
        Ok(Batches {
            schema: batch.schema(),
            batches: vec![batch],
        })
    }
}

/// Rows in memory, for any library that reads Arrow's C streams.
#[pyclass(frozen, module = "vesica._vesica")]
pub(crate) struct Batches {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

#[pymethods]
impl Batches {
    /// The rows of an object with `__arrow_c_stream__`.
    #[staticmethod]
    pub(crate) fn of(table: &Bound<'_, PyAny>) -> PyResult<Batches> {
        let reader = reader_of(table)?;
        // A stream may read files through Python, on threads of its own.
        Ok(table.py().detach(|| gather(reader))?)
    }

    /// The rows of an Arrow stream.
    #[staticmethod]
    fn from_ipc(stream: &[u8]) -> Result<Batches, Failure> {
        gather(StreamReader::try_new(stream, None).map_err(broken)?)
    }

    /// The rows as an Arrow stream.
    fn to_ipc<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>, Failure> {
        let write = || {
            let mut writer = StreamWriter::try_new(Vec::new(), &self.schema)?;
            for batch in &self.batches {
                writer.write(batch)?;
            }
            writer.into_inner()
        };
        Ok(PyBytes::new(py, &write().map_err(broken)?))
    }

    /// A capsule with a stream of the batches. `requested_schema` is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok).collect();
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// A capsule with the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        let schema = schema.map_err(|e| PyValueError::new_err(e.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// The first rows, at most so many, as texts; a null is `None`.
    fn preview(&self, rows: usize) -> Result<Vec<Vec<Option<String>>>, Failure> {
        Ok(vesica::tables::preview(&self.batches, rows)?)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}
