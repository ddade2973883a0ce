//! What columnar files have in memory at once.

use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, LargeListBuilder, ListBuilder, MapBuilder, StringBuilder, make_view,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
    StructArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use vesica_tables::{
    Argument, Error, ErrorClass, ErrorKind, RowSet, Source, SourceOptions, read_keys, select_rows,
    write_rows_to,
};

use crate::common::{arrow_file, batch, key, parquet_with};

/// A source of a run with little memory: 64 MiB for a page or a batch, as for a row of text.
fn with_little_memory(name: &str, bytes: Vec<u8>) -> Result<Source, Error> {
    let options = SourceOptions {
        memory: Some(1),
        ..SourceOptions::default()
    };
    Source::from_bytes(name, bytes, options)
}

fn snappy() -> parquet::file::properties::WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::SNAPPY)
}

/// Keys with values beside them.
fn table(texts: &[&str]) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..texts.len() as i64);
    batch(&[
        ("id", Arc::new(ids) as ArrayRef),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ])
}

fn rows(wanted: impl IntoIterator<Item = u64>, all: usize) -> RowSet {
    let mut rows = RowSet::none(all as u64);
    wanted.into_iter().for_each(|row| rows.insert(row));
    rows
}

#[test]
fn what_is_too_large_is_said_before_anything_is_read() {
    let long = "x".repeat(70 << 20);
    let table = table(&["short", &long]);
    let properties = snappy().set_dictionary_enabled(false);
    for (name, bytes, what) in [
        ("t.parquet", parquet_with(&table, properties), "a page"),
        ("t.arrow", arrow_file(&table), "a record batch"),
    ] {
        assert!(bytes.len() < 8 << 20, "{name} is compressed");
        let source = with_little_memory(name, bytes.clone()).unwrap();
        // The second pass would meet it, and so the first one, of the other column, looks for it.
        let error = read_keys(&source, &key("id")).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Resource, "{error}");
        let ErrorKind::TooLarge {
            what: found, limit, ..
        } = error.kind()
        else {
            panic!("{error}");
        };
        assert_eq!((*found, *limit), (what, 64 << 20));
        let remedy = error.remedy().unwrap();
        assert!(remedy.arguments().eq([Argument::Memory]));
        assert!(remedy.to_string().contains("memory to 14"), "{remedy}");
        // With enough memory it is a value like others.
        let source = Source::from_bytes(name, bytes, SourceOptions::default()).unwrap();
        let keys = read_keys(&source, &key("text")).unwrap();
        assert_eq!(keys.counts().items, 2);
    }
}

#[test]
fn batches_get_smaller_where_values_get_longer() {
    // By the average a batch would have 130 rows; the pages of the long ones have 81 MiB together, of which two are in
    // memory at once.
    let long: Vec<String> = ["a", "b", "c"].map(|text| text.repeat(27 << 20)).into();
    let mut texts = vec!["short"; 600];
    texts.extend(long.iter().map(String::as_str));
    texts.push("short again");
    let all = texts.len();
    let table = table(&texts);
    let properties = snappy()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(1);
    let file = parquet_with(&table, properties);
    let source = with_little_memory("t.parquet", file).unwrap();
    let keys = read_keys(&source, &key("text")).unwrap();
    assert_eq!((keys.counts().rows, keys.counts().items), (all as u64, 5));
    // The second pass as well, and in the same order.
    let wanted = [0, 599, 601, 603];
    let mut out = Vec::new();
    write_rows_to(&source, &rows(wanted, all), &mut out).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out)).unwrap();
    let mut found = Vec::new();
    for batch in reader.build().unwrap() {
        let batch = batch.unwrap();
        let ids = batch
            .column(0)
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap();
        found.extend(ids.values().iter().map(|id| *id as u64));
    }
    assert_eq!(found, wanted);
}

#[test]
fn rows_that_share_a_value_are_read_and_written() {
    // A text of 1 MiB in each of 3000 rows, written once: offsets of 32 bits would not reach the last.
    let file = include_bytes!("../../../../vectors/tables/shared.parquet");
    let schema = table(&[]).schema();
    let source = with_little_memory("t.parquet", file.to_vec()).unwrap();
    assert_eq!(read_keys(&source, &key("id")).unwrap().counts().items, 3000);
    let (result, batches) = select_rows(&source, &rows([1, 2999], 3000)).unwrap();
    assert_eq!(result.fields(), schema.fields());
    let lengths: Vec<usize> = batches
        .iter()
        .flat_map(|batch| {
            let texts = batch
                .column(1)
                .as_any()
                .downcast_ref::<StringArray>()
                .unwrap();
            texts
                .iter()
                .map(|text| text.unwrap().len())
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(lengths, [1 << 20; 2]);
}

/// Texts in lists and maps, with nulls on each level.
fn lists() -> [(&'static str, ArrayRef); 5] {
    let mut list = ListBuilder::new(StringBuilder::new());
    let mut large = LargeListBuilder::new(StringBuilder::new());
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    let mut pair = FixedSizeListBuilder::new(StringBuilder::new(), 2);
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..3 {
        let texts =
            || (0..row).map(|i| (i != 1).then(|| format!("a text of more than 12 bytes {i}")));
        list.values().extend(texts());
        list.append(row != 1);
        large.values().extend(texts());
        large.append(true);
        for _ in 0..row {
            lists.values().values().extend(texts());
            lists.values().append(true);
        }
        lists.values().append(false);
        lists.append(true);
        pair.values()
            .extend(texts().chain([Some("x".into()), None]).take(2));
        pair.append(row != 2);
        for (i, text) in texts().enumerate() {
            map.keys().append_value(i.to_string());
            map.values().append_option(text);
        }
        map.append(row != 1).unwrap();
    }
    [
        ("list", Arc::new(list.finish())),
        ("large list", Arc::new(large.finish())),
        ("lists", Arc::new(lists.finish())),
        ("pair", Arc::new(pair.finish())),
        ("map", Arc::new(map.finish())),
    ]
}

/// Texts and bytes are read as views, and come out as what they were.
#[test]
fn record_batches_have_the_types_of_the_file() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![
        None,
        Some(b"\xff"),
        Some(b""),
    ]));
    let large: ArrayRef = Arc::new(arrow_array::LargeStringArray::from(vec!["x", "y", "z"]));
    let nested: ArrayRef = Arc::new(StructArray::from(vec![
        (
            Arc::new(Field::new("text", DataType::Utf8, true)),
            texts.clone(),
        ),
        (
            Arc::new(Field::new("bytes", DataType::Binary, true)),
            bytes.clone(),
        ),
    ]));
    let mut table = vec![
        ("texts", texts),
        ("bytes", bytes),
        ("large", large),
        ("nested", nested),
    ];
    table.extend(lists());
    let table = batch(&table);
    let file = parquet_with(&table, snappy());
    let source = Source::from_bytes("t.parquet", file, SourceOptions::default()).unwrap();
    let (schema, batches) = select_rows(&source, &rows(0..3, 3)).unwrap();
    assert_eq!(schema.fields(), table.schema().fields());
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].columns(), table.columns());
    let nested = read_keys(&source, &key("nested.text,nested.bytes")).unwrap();
    assert_eq!((nested.counts().items, nested.counts().blanks), (0, 3));
}

/// Rows of a Parquet file, each a list of so many texts of 1 MiB that are one in memory.
fn lists_of_one(rows: usize, texts: usize) -> Vec<u8> {
    let text = "x".repeat(1 << 20);
    let view = make_view(text.as_bytes(), 0, 0);
    let views = ScalarBuffer::from(vec![view; rows * texts]);
    let all = StringViewArray::new(views, [Buffer::from(text.into_bytes())], None);
    let offsets = OffsetBuffer::from_lengths(vec![texts; rows]);
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(all), None));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let properties = snappy().set_dictionary_page_size_limit(2 << 20);
    parquet_with(&batch(&[("id", ids), ("texts", lists)]), properties)
}

/// The writer copies what the rows share, and a row is written at once.
#[test]
fn a_row_that_is_too_large_is_not_written() {
    let write = |texts| {
        let source = with_little_memory("t.parquet", lists_of_one(2, texts)).unwrap();
        write_rows_to(&source, &rows([1], 2), &mut Vec::new())
    };
    assert_eq!(write(60).unwrap(), 1);
    let error = write(70).unwrap_err();
    let ErrorKind::TooLarge { what, bytes, limit } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!((*what, *bytes, *limit), ("a row", (70 << 20) + 8, 64 << 20));
}

/// The arrays of a batch view all its pages, and the reader still has the last one of the batch before.
#[test]
fn pages_count_as_long_as_they_are_kept() {
    let texts: Vec<String> = ["a", "b"].map(|text| text.repeat(40 << 20)).into();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let properties = snappy()
        .set_dictionary_enabled(false)
        .set_write_batch_size(1);
    let file = parquet_with(&table(&texts), properties);
    let source = with_little_memory("t.parquet", file).unwrap();
    let error = read_keys(&source, &key("text")).unwrap_err();
    let ErrorKind::TooLarge { what, bytes, .. } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!((*what, bytes >> 20), ("a row with its pages", 80));
}
