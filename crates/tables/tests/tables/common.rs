//! The same tables in every format.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use std::io::Write;
use vesica_tables::{
    Error, KeySpec, KeyStore, PeerColumn, RowSet, Source, SourceOptions, TableKeys, arrange,
    read_keys, write_rows_to,
};

pub(crate) fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.iter().map(|(n, a)| (*n, Arc::clone(a), true)))
        .unwrap()
}

pub(crate) fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::SNAPPY)
        .set_max_row_group_row_count(Some(7));
    parquet_with(batch, properties)
}

pub(crate) fn parquet_with(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let properties = properties.build();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

pub(crate) fn arrow_file(batch: &RecordBatch) -> Vec<u8> {
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .unwrap();
    let mut out = Vec::new();
    let mut writer = FileWriter::try_new_with_options(&mut out, &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    out
}

pub(crate) fn arrow_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, &batch.schema()).unwrap();
    for start in (0..batch.num_rows()).step_by(5) {
        writer
            .write(&batch.slice(start, 5.min(batch.num_rows() - start)))
            .unwrap();
    }
    writer.finish().unwrap();
    out
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

pub(crate) fn source(name: &str, bytes: impl Into<Vec<u8>>) -> Source {
    Source::from_bytes(name, bytes.into(), SourceOptions::default()).unwrap()
}

pub(crate) fn key(columns: &str) -> KeySpec {
    KeySpec::parse(columns, &[] as &[&str]).unwrap()
}

pub(crate) fn keys(
    name: &str,
    bytes: impl Into<Vec<u8>>,
    columns: &str,
) -> Result<TableKeys, Error> {
    let source = Source::from_bytes(name, bytes.into(), SourceOptions::default())?;
    read_keys(&source, &key(columns))
}

/// The rows whose key's number `keep` likes.
pub(crate) fn filtered(source: &Source, columns: &str, keep: impl Fn(usize) -> bool) -> Vec<u8> {
    let keys = read_keys(source, &key(columns)).unwrap();
    let matched: Vec<bool> = (0..keys.digests().len()).map(keep).collect();
    let mut out = Vec::new();
    write_rows_to(source, &keys.rows_of(&matched), &mut out).unwrap();
    out
}

/// Keeps labels with keys, for all rows.
pub(crate) fn handed_over(
    keys: TableKeys,
    labels: &[u8],
    bytes: usize,
    columns: &[PeerColumn],
) -> KeyStore {
    let (mut keys, nowhere) = (keys.into_store(), Path::new(""));
    let rows = RowSet::none(keys.counts().rows);
    keys.keep(0, labels, bytes, u64::MAX, nowhere).unwrap();
    assert!(arrange(&mut keys, nowhere, columns, 1, &rows, 0).unwrap());
    keys
}
