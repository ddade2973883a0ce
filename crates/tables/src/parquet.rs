//! Parquet files.

use arrow_array::RecordBatch;
use arrow_select::filter::filter_record_batch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;

use crate::columnar;
use crate::error::{Error, Result};
use crate::guard::quietly;
use crate::key::KeySpec;
use crate::scan::Sink;
use crate::source::Source;
use crate::write::{Selection, Watched};

const BATCH_ROWS: usize = 8192;

/// Encoded bytes of a row group after which it is written out.
const ROW_GROUP_BYTES: usize = 64 << 20;

fn wrong(e: impl std::fmt::Display) -> Error {
    Error::corrupt(e.to_string())
}

/// Calls the library; its errors and panics are the file's fault.
fn call<T>(f: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    quietly(f).map_err(wrong)?.map_err(|e| match e {
        ParquetError::NYI(what) => Error::unsupported(format!("this Parquet file: {what}")),
        other => wrong(other),
    })
}

fn metadata(source: &Source) -> Result<ArrowReaderMetadata> {
    let handle = source.handle()?;
    call(|| ArrowReaderMetadata::load(&handle, ArrowReaderOptions::new()))
}

fn reader(
    source: &Source,
    metadata: &ArrowReaderMetadata,
    columns: Option<&[usize]>,
) -> Result<ParquetRecordBatchReader> {
    let handle = source.handle()?;
    call(|| {
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata.clone())
                .with_batch_size(BATCH_ROWS);
        if let Some(columns) = columns {
            let mask = ProjectionMask::roots(metadata.parquet_schema(), columns.iter().copied());
            builder = builder.with_projection(mask);
        }
        builder.build()
    })
}

fn next(reader: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>> {
    quietly(|| reader.next())
        .map_err(wrong)?
        .transpose()
        .map_err(wrong)
}

pub(crate) fn scan<S: Sink>(source: &Source, key: &KeySpec, sink: &mut S) -> Result<()> {
    let metadata = metadata(source)?;
    let wanted = columnar::find_fields(metadata.schema().fields().iter().map(|f| &**f), key)?;
    let (roots, places) = columnar::projection(&wanted);
    let mut reader = reader(source, &metadata, Some(&roots))?;
    let mut rows = 0;
    while let Some(batch) = next(&mut reader)? {
        quietly(|| columnar::scan_batch(&batch, &places, &mut rows, sink)).map_err(wrong)??;
    }
    columnar::require_rows(rows)
}

/// Writes the selected rows with the same schema, metadata and compression.
pub(crate) fn copy(source: &Source, mut rows: Selection<'_>, out: &mut Watched<'_>) -> Result<u64> {
    let metadata = metadata(source)?;
    let mut reader = reader(source, &metadata, None)?;
    let failure = out.failure();
    let (schema, options) = (
        metadata.schema().clone(),
        writer_options(metadata.metadata()),
    );
    let mut writer = failure.watch(|| ArrowWriter::try_new_with_options(out, schema, options))?;
    while let Some(batch) = next(&mut reader)? {
        let Some(mask) = rows.mask(batch.num_rows())? else {
            continue;
        };
        let kept = quietly(|| filter_record_batch(&batch, &mask))
            .map_err(wrong)?
            .map_err(wrong)?;
        failure.watch(|| writer.write(&kept))?;
    }
    failure.watch(|| writer.finish())?;
    rows.finish()
}

const ARROW_SCHEMA: &str = "ARROW:schema";

fn writer_options(source: &ParquetMetaData) -> ArrowWriterOptions {
    let file = source.file_metadata();
    let entries = file
        .key_value_metadata()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let had_arrow_schema = entries.iter().any(|e| e.key == ARROW_SCHEMA);
    let entries: Vec<_> = entries
        .iter()
        .filter(|e| e.key != ARROW_SCHEMA)
        .cloned()
        .collect();
    let codec = source
        .row_groups()
        .first()
        .and_then(|g| g.columns().first());
    let properties = WriterProperties::builder()
        .set_compression(codec.map_or(Compression::UNCOMPRESSED, |c| c.compression()))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_key_value_metadata((!entries.is_empty()).then_some(entries))
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(!had_arrow_schema);
    // The file's own schema keeps what Arrow has no word for, such as UUID and JSON columns and
    // field numbers. The long deprecated INT96 timestamps cannot be written; they come out as
    // nanosecond timestamps.
    let schema = file.schema_descr();
    if schema
        .columns()
        .iter()
        .any(|c| c.physical_type() == PhysicalType::INT96)
    {
        options
    } else {
        options.with_parquet_schema(schema.clone())
    }
}
