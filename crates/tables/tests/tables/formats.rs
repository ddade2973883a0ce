//! The same table is the same items in every format, and results keep what the input had.

use std::sync::Arc;

use crate::common::*;
use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, LogicalType};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;
use std::io::Cursor;
use vesica_tables::{
    ErrorClass, ErrorKind, Format, KeySpec, NO_ITEM, RowSet, Rows, Source, SourceOptions,
    TableKeys, TextColumns, check, check_within, read_keys, write_rows_to,
};

/// Items of a one-column table of this array in each columnar format.
fn items_of(array: ArrayRef) -> TableKeys {
    let batch = batch(&[
        ("other", Arc::new(Int32Array::from(vec![1; array.len()]))),
        ("k", array),
    ]);
    let all: Vec<TableKeys> = [
        ("t.parquet", parquet(&batch)),
        ("t.arrow", arrow_file(&batch)),
        ("t.arrows", arrow_stream(&batch)),
    ]
    .into_iter()
    .map(|(name, bytes)| keys(name, bytes, "k").unwrap())
    .collect();
    for other in &all[1..] {
        assert_eq!(all[0].digests(), other.digests());
        assert_eq!(all[0].row_items(), other.row_items());
    }
    all.into_iter().next().unwrap()
}

/// Items of texts in CSV; `None` is an empty field.
fn items_of_text(texts: &[Option<&str>]) -> TableKeys {
    let mut text = "k;other\n".to_owned();
    for t in texts {
        text.push_str(&format!(
            "\"{}\";x\n",
            t.unwrap_or_default().replace('"', "\"\"")
        ));
    }
    keys("t.csv", text, "k").unwrap()
}

fn assert_same(array: ArrayRef, texts: &[Option<&str>]) {
    let kind = array.data_type().clone();
    let (typed, text) = (items_of(array), items_of_text(texts));
    assert_eq!(typed.digests(), text.digests(), "{kind}");
    assert_eq!(typed.row_items(), text.row_items(), "{kind}");
    assert_eq!(typed.counts(), text.counts(), "{kind}");
}

#[test]
fn integers_of_every_width() {
    let texts = [Some("7"), None, Some("0"), Some("7"), Some("100")];
    let numbers = [Some(7i64), None, Some(0), Some(7), Some(100)];
    assert_same(Arc::new(Int64Array::from(numbers.to_vec())), &texts);
    assert_same(
        Arc::new(
            numbers
                .iter()
                .map(|n| n.map(|n| n as i32))
                .collect::<Int32Array>(),
        ),
        &texts,
    );
    assert_same(
        Arc::new(
            numbers
                .iter()
                .map(|n| n.map(|n| n as i16))
                .collect::<Int16Array>(),
        ),
        &texts,
    );
    assert_same(
        Arc::new(
            numbers
                .iter()
                .map(|n| n.map(|n| n as i8))
                .collect::<Int8Array>(),
        ),
        &texts,
    );
    assert_same(
        Arc::new(
            numbers
                .iter()
                .map(|n| n.map(|n| n as u8))
                .collect::<UInt8Array>(),
        ),
        &texts,
    );
    assert_same(
        Arc::new(
            numbers
                .iter()
                .map(|n| n.map(|n| n as u64))
                .collect::<UInt64Array>(),
        ),
        &texts,
    );
    assert_same(
        Arc::new(Int64Array::from(vec![i64::MIN])),
        &[Some("-9223372036854775808")],
    );
    assert_same(
        Arc::new(UInt64Array::from(vec![u64::MAX])),
        &[Some("18446744073709551615")],
    );
    let decimal = Decimal128Array::from(vec![700i128, 0])
        .with_precision_and_scale(10, 2)
        .unwrap();
    assert_same(Arc::new(decimal), &[Some("7"), Some("0")]);
}

#[test]
fn texts_and_dictionaries() {
    let texts = [Some("b\"ö"), None, Some("a"), Some("a"), Some(" a")];
    assert_same(Arc::new(StringArray::from(texts.to_vec())), &texts);
    assert_same(Arc::new(LargeStringArray::from(texts.to_vec())), &texts);
    assert_same(Arc::new(StringViewArray::from(texts.to_vec())), &texts);
    assert_same(
        Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
        &texts,
    );
    let bytes: Vec<_> = texts.iter().map(|t| t.map(str::as_bytes)).collect();
    assert_same(Arc::new(BinaryArray::from(bytes.clone())), &texts);
    assert_same(Arc::new(LargeBinaryArray::from(bytes)), &texts);
    assert_same(
        Arc::new(BooleanArray::from(vec![true, false])),
        &[Some("true"), Some("false")],
    );
}

#[test]
fn dates_times_and_uuids() {
    assert_same(
        Arc::new(Date32Array::from(vec![19_782, -1])),
        &[Some("2024-02-29"), Some("1969-12-31")],
    );
    assert_same(
        Arc::new(Date64Array::from(vec![19_782 * 86_400_000])),
        &[Some("2024-02-29")],
    );
    let instant = [Some("2023-11-14T22:13:20Z")];
    assert_same(
        Arc::new(TimestampSecondArray::from(vec![1_700_000_000])),
        &instant,
    );
    assert_same(
        Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_000])),
        &instant,
    );
    let zoned = TimestampNanosecondArray::from(vec![1_700_000_000_000_000_000]);
    assert_same(Arc::new(zoned.with_timezone("+02:00")), &instant);
    assert_same(
        Arc::new(Time32SecondArray::from(vec![3_661])),
        &[Some("01:01:01")],
    );
    assert_same(
        Arc::new(Time64MicrosecondArray::from(vec![1_500])),
        &[Some("00:00:00.001500")],
    );
    let mut uuids = FixedSizeBinaryBuilder::new(16);
    uuids.append_value([0xab; 16]).unwrap();
    uuids.append_null();
    assert_same(
        Arc::new(uuids.finish()),
        &[Some("abababab-abab-abab-abab-abababababab"), None],
    );
}

#[test]
fn json_lines_are_the_same_items_too() {
    let json = "{\"k\":7,\"x\":{\"k\":[]}}\r\n\n{\"x\":1}\n{\"k\":null}\n{\"k\":\"7\"}\n{\"k\":\"\"}\n{\"k\":true}";
    let json = keys("t.jsonl", json, "k").unwrap();
    let text = items_of_text(&[Some("7"), None, None, Some("7"), None, Some("true")]);
    assert_eq!(json.digests(), text.digests());
    assert_eq!(json.row_items(), text.row_items());
}

#[test]
fn a_blank_in_any_column_blanks_the_key_and_order_matters() {
    let text = "a,b,c\n1,2,x\n,2,x\n1,,x\n2,1,x\n1,2,y\n";
    let ab = keys("t.csv", text, "a,b").unwrap();
    assert_eq!(ab.row_items(), [0, NO_ITEM, NO_ITEM, 1, 0]);
    assert_eq!((ab.counts().blanks, ab.counts().duplicates), (2, 1));
    let ba = keys("t.csv", text, "b,a").unwrap();
    assert_eq!(ab.digests()[0], ba.digests()[1]);
    assert_eq!(ab.digests()[1], ba.digests()[0]);
    // Projections of columnar files keep the order of the file, not that of the key.
    let columns: [(&str, ArrayRef); 2] = [
        ("b", Arc::new(Int32Array::from(vec![2, 1]))),
        ("a", Arc::new(StringArray::from(vec!["1", "2"]))),
    ];
    let columnar = batch(&columns);
    assert_eq!(
        keys("t.parquet", parquet(&columnar), "a,b")
            .unwrap()
            .digests(),
        ab.digests()
    );
    assert_eq!(
        keys("t.arrow", arrow_file(&columnar), "a,b")
            .unwrap()
            .digests(),
        ab.digests()
    );
}

#[test]
fn text_results_are_the_input_s_bytes() {
    let input = "\u{feff}k;\"va;lue\"\r\n1;\"a\r\nb\"\r\n\r\n2;\"\"\n1;x\r\n3; y";
    let table = source("t.csv", input);
    assert_eq!(table.csv_delimiter(), Some(b';'));
    let expected = "\u{feff}k;\"va;lue\"\r\n1;\"a\r\nb\"\r\n1;x\r\n3; y";
    assert_eq!(filtered(&table, "k", |i| i != 1), expected.as_bytes());
    assert_eq!(
        filtered(&table, "k", |_| false),
        "\u{feff}k;\"va;lue\"\r\n".as_bytes()
    );
    for packed in [gzip(input.as_bytes()), zstd(input.as_bytes())] {
        let packed = source("t.csv", packed);
        assert_eq!(filtered(&packed, "k", |i| i != 1), expected.as_bytes());
    }

    let json = "{\"k\": 1, \"x\": 1.50}\r\n\n {\"k\":2}\n{\"x\":[ ],\"k\":\"1\"}";
    let expected = "{\"k\": 1, \"x\": 1.50}\r\n{\"x\":[ ],\"k\":\"1\"}";
    assert_eq!(
        filtered(&source("t.jsonl", json), "k", |i| i == 0),
        expected.as_bytes()
    );
}

fn rich_batch() -> RecordBatch {
    let metadata: std::collections::HashMap<_, _> =
        [("origin".to_owned(), "test".to_owned())].into();
    let mut uuids = FixedSizeBinaryBuilder::new(16);
    for i in 0..20u8 {
        uuids.append_value([i; 16]).unwrap();
    }
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..20).map(|i| (i % 3 != 0).then(|| vec![Some(i), None])),
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new((0..20).map(|i| i % 10).collect::<Int16Array>()),
        Arc::new(uuids.finish()),
        Arc::new(
            (0..20)
                .map(|i| Some(if i % 2 == 0 { "even" } else { "odd" }))
                .collect::<DictionaryArray<Int8Type>>(),
        ),
        Arc::new((0..20).map(f64::from).collect::<Float64Array>()),
        Arc::new(list),
        Arc::new(TimestampMicrosecondArray::from_iter_values(0..20).with_timezone("UTC")),
        Arc::new(LargeStringArray::from_iter(
            (0..20).map(|i| (i != 4).then(|| "v".repeat(i))),
        )),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| Field::new(format!("c{i}"), c.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new_with_metadata(fields, metadata)),
        columns,
    )
    .unwrap()
}

fn concat(batches: impl Iterator<Item = RecordBatch>, schema: &Arc<Schema>) -> RecordBatch {
    let all: Vec<_> = batches.collect();
    arrow_select::concat::concat_batches(schema, &all).unwrap()
}

#[test]
fn columnar_results_keep_types_metadata_and_order() {
    let batch = rich_batch();
    let mask: BooleanArray = (0..20).map(|i| Some(i % 10 % 4 == 1)).collect();
    let expected = arrow_select::filter::filter_record_batch(&batch, &mask).unwrap();
    let keep = |i: usize| i % 4 == 1;

    let out = filtered(&source("t.arrow", arrow_file(&batch)), "c0", keep);
    let reader = FileReader::try_new(Cursor::new(out), None).unwrap();
    let schema = reader.schema();
    assert_eq!(schema, batch.schema());
    assert_eq!(concat(reader.map(Result::unwrap), &schema), expected);

    let out = filtered(&source("t.arrows", arrow_stream(&batch)), "c0", keep);
    let reader = StreamReader::try_new(Cursor::new(out), None).unwrap();
    let schema = reader.schema();
    assert_eq!(schema, batch.schema());
    assert_eq!(concat(reader.map(Result::unwrap), &schema), expected);

    let input = parquet(&batch);
    let before = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(input.clone())).unwrap();
    let out = filtered(&source("t.parquet", input), "c0", keep);
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out)).unwrap();
    assert_eq!(builder.schema(), before.schema());
    assert_eq!(builder.parquet_schema(), before.parquet_schema());
    let codec = |b: &ParquetRecordBatchReaderBuilder<Bytes>| {
        b.metadata().row_group(0).column(0).compression()
    };
    assert_eq!(codec(&builder), codec(&before));
    let kv = |b: &ParquetRecordBatchReaderBuilder<Bytes>| {
        b.metadata()
            .file_metadata()
            .key_value_metadata()
            .map(Vec::len)
    };
    assert_eq!(kv(&builder), kv(&before));
    let schema = builder.schema().clone();
    assert_eq!(
        concat(builder.build().unwrap().map(Result::unwrap), &schema),
        expected
    );
}

#[test]
fn lists_over_many_pages_are_copied() {
    // The reader of a nested column looks at a page's header before it reads the page.
    let n = 200;
    let lists = (0..n).map(|i| Some((0..i % 5).map(|j| Some(i * j)).collect::<Vec<_>>()));
    let batch = batch(&[
        (
            "id",
            Arc::new(Int32Array::from_iter_values(0..n)) as ArrayRef,
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
    ]);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_compression(compression)
                .set_write_batch_size(8)
                .set_data_page_row_count_limit(8);
            let source = source("t.parquet", parquet_with(&batch, properties));
            let out = filtered(&source, "id", |i| i % 3 == 0);
            let kept = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out))
                .and_then(|builder| builder.build())
                .unwrap();
            let kept = concat(kept.map(Result::unwrap), &batch.schema());
            let every_third: BooleanArray = (0..n).map(|i| Some(i % 3 == 0)).collect();
            let expected = filter_record_batch(&batch, &every_third).unwrap();
            assert_eq!(kept.columns(), expected.columns());
        }
    }
}

/// The second pass finds rows by what row groups say of themselves, so that the first one does not let a lie through.
#[test]
fn row_groups_that_lie_about_their_rows_are_refused() {
    let ids = Int64Array::from_iter_values(0..300);
    let batch = batch(&[("id", Arc::new(ids) as ArrayRef)]);
    let properties = || WriterProperties::builder().set_max_row_group_row_count(Some(100));
    let file = parquet_with(&batch, properties());
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&Bytes::from(file.clone()))
        .unwrap();
    let keys_of = |rows: [i64; 3]| {
        let groups = metadata.row_groups().iter().zip(rows);
        let groups = groups.map(|(group, rows)| {
            let group = group.clone().into_builder().set_num_rows(rows);
            group.build().unwrap()
        });
        let lie = metadata.clone().into_builder();
        let lie = lie.set_row_groups(groups.collect()).build();
        let footer = u32::from_le_bytes(file[file.len() - 8..][..4].try_into().unwrap());
        let mut lying = file[..file.len() - 8 - footer as usize].to_vec();
        ParquetMetaDataWriter::new(&mut lying, &lie)
            .finish()
            .unwrap();
        let source = source("lie.parquet", lying);
        read_keys(&source, &KeySpec::parse::<&str>("id", &[]).unwrap())
    };
    assert_eq!(keys_of([100; 3]).unwrap().counts().items, 300);
    for lie in [[50, 150, 100], [200, 50, 50], [100, 100, 99], [0, 200, 100]] {
        let error = keys_of(lie).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Data, "{error}");
    }
}

#[test]
fn what_has_no_match_is_not_read() {
    // Four row groups of three pages; of the text, only what has a match can be read.
    let (group, page) = (3 << 14, 1 << 14);
    let n = 4 * group;
    let texts = (0..n).map(|i| format!("text number {i}"));
    let batch = batch(&[
        (
            "id",
            Arc::new(Int64Array::from_iter_values(0..n as i64)) as ArrayRef,
        ),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ]);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(false)
            .set_compression(Compression::SNAPPY)
            .set_write_batch_size(page)
            .set_data_page_row_count_limit(page)
            .set_max_row_group_row_count(Some(group));
        let mut file = parquet_with(&batch, properties);
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Required)
            .parse_and_finish(&Bytes::from(file.clone()))
            .unwrap();
        let kept = |i: usize| i / page == 1 || i / page == 9;
        let mut damaged = 0;
        for g in 0..4 {
            let index = metadata.page_index_for_row_group(g);
            let locations = index.offset_index(1).unwrap().page_locations();
            assert_eq!(locations.len(), 3);
            for (p, location) in locations.iter().enumerate() {
                // Nothing but their headers says how many rows pages of the second version have.
                let is_skipped = version == WriterVersion::PARQUET_1_0 || g == 1 || g == 2;
                if is_skipped && !kept((3 * g + p) * page) {
                    let end = (location.offset + i64::from(location.compressed_page_size)) as usize;
                    file[end - 1000..end].fill(0xff);
                    damaged += 1;
                }
            }
        }
        let of_pages = version == WriterVersion::PARQUET_1_0;
        assert_eq!(damaged, if of_pages { 10 } else { 6 });
        let source = source("t.parquet", file);
        let out = filtered(&source, "id", |i| kept(i) && i % 5 == 0);
        let out = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out))
            .and_then(|builder| builder.build())
            .unwrap();
        let out = concat(out.map(Result::unwrap), &batch.schema());
        let expected: BooleanArray = (0..n).map(|i| Some(kept(i) && i % 5 == 0)).collect();
        let expected = filter_record_batch(&batch, &expected).unwrap();
        assert_eq!(out.columns(), expected.columns());
        // The rest cannot be read.
        let mut rows = RowSet::none(n as u64);
        rows.insert(group as u64);
        assert!(write_rows_to(&source, &rows, &mut Vec::new()).is_err());
    }
}

#[test]
fn no_match_is_an_empty_table() {
    let batch = rich_batch();
    let out = filtered(&source("t.parquet", parquet(&batch)), "c0", |_| false);
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out)).unwrap();
    assert_eq!(
        (
            builder.metadata().file_metadata().num_rows(),
            builder.schema().fields().len()
        ),
        (0, 7)
    );
    let out = filtered(&source("t.arrow", arrow_file(&batch)), "c0", |_| false);
    assert_eq!(
        FileReader::try_new(Cursor::new(out), None)
            .unwrap()
            .schema(),
        batch.schema()
    );
}

#[test]
fn formats_are_told_by_their_bytes_and_may_be_overridden() {
    let batch = rich_batch();
    for (name, bytes, format) in [
        ("x", parquet(&batch), Format::Parquet),
        ("x.csv", arrow_file(&batch), Format::Arrow),
        ("x", arrow_stream(&batch), Format::Arrow),
        ("x", b"{\"a\":1}".to_vec(), Format::Jsonl),
        ("x", gzip(b"a,b\n1,2\n"), Format::Csv),
        ("x", zstd(b"{\"a\":1}\n"), Format::Jsonl),
        ("x.tsv", b"a,b\n".to_vec(), Format::Csv),
    ] {
        assert_eq!(source(name, bytes).format(), format, "{name}");
    }
    assert_eq!(source("x.tsv", "a,b\n1,2\n").csv_delimiter(), Some(b'\t'));
    let options = SourceOptions {
        format: Some(Format::Csv),
        delimiter: Some(b':'),
        ..SourceOptions::default()
    };
    let forced = Source::from_bytes("x.jsonl", b"a:b\n1:2\n".to_vec(), options).unwrap();
    assert_eq!(
        (forced.format(), forced.csv_delimiter()),
        (Format::Csv, Some(b':'))
    );
    assert!("xml".parse::<Format>().is_err());
}

/// Three rows in a format, of an `id` and of a column of this name.
fn three_rows(format: Format, name: &str) -> Vec<u8> {
    let batch = batch(&[
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        (name, Arc::new(StringArray::from(vec!["a", "b", "c"]))),
    ]);
    match format {
        Format::Csv => format!("id,{name}\n1,a\n2,b\n3,c\n").into_bytes(),
        Format::Parquet => parquet(&batch),
        Format::Jsonl => {
            let line = |(id, value)| format!("{{\"id\":{id},\"{name}\":\"{value}\"}}\n");
            let lines: String = (1..).zip(["a", "b", "c"]).map(line).collect();
            lines.into_bytes()
        }
        Format::Arrow => arrow_file(&batch),
        other => panic!("{other}: write three rows in it"),
    }
}

#[test]
fn every_format_has_the_same_items_and_gives_rows_back() {
    let all = keys("t.csv", three_rows(Format::Csv, "name"), "id,name").unwrap();
    for format in Format::ALL {
        let name = format!("t.{format}");
        let table = source(&name, three_rows(*format, "name"));
        assert_eq!(table.format(), *format);
        let found = read_keys(&table, &key("id,name")).unwrap();
        assert_eq!(found.digests(), all.digests(), "{format}");
        let rest = filtered(&table, "id,name", |item| item != 1);
        let rest = keys(&name, rest, "id,name").unwrap();
        let expected = [all.digests()[0], all.digests()[2]];
        assert_eq!(rest.digests(), expected, "{format}");
    }
}

#[test]
fn every_format_knows_its_columns() {
    for format in Format::ALL {
        let name = format!("t.{format}");
        let misspelt = keys(&name, three_rows(*format, "name"), "ids").unwrap_err();
        assert!(
            matches!(misspelt.kind(), ErrorKind::MissingColumn { available } if *available == ["id", "name"]),
            "{format}: {misspelt}"
        );
        let options = SourceOptions {
            rows: Rows::All,
            ..SourceOptions::default()
        };
        let marked = Source::from_bytes(&name, three_rows(*format, "in_both"), options).unwrap();
        let taken = read_keys(&marked, &key("id")).unwrap_err();
        assert!(
            matches!(taken.kind(), ErrorKind::NameTaken),
            "{format}: {taken}"
        );
    }
}

#[test]
fn a_delimiter_is_for_csv() {
    for format in Format::ALL {
        let options = SourceOptions {
            delimiter: Some(b','),
            ..SourceOptions::default()
        };
        let opened =
            Source::from_bytes(&format!("t.{format}"), three_rows(*format, "name"), options);
        let class = opened.err().map(|error| error.class());
        let expected = (*format != Format::Csv).then_some(ErrorClass::Usage);
        assert_eq!(class, expected, "{format}");
    }
}

#[test]
fn a_dry_run_counts_what_a_run_would() {
    let text = "\u{feff}id,e\r\n007, a\r\n8,A@B.org\r\n,x\r\n7,a@b.org\r\n9,nonsense\r\n10,\"a@b.org\"\r\n";
    let table = source("t.csv", text);
    let spec = vesica_tables::KeySpec::parse("e", &["e=email"]).unwrap();
    let report = check(&table, &spec).unwrap();
    assert_eq!(
        report.counts,
        *vesica_tables::read_keys(&table, &spec).unwrap().counts()
    );
    assert_eq!(
        (
            report.counts.items,
            report.counts.invalid,
            report.counts.changed
        ),
        (1, 3, 1)
    );
    assert!(report.byte_order_mark);
    assert_eq!(report.crlf_rows, 6);
    assert_eq!(report.columns[0].invalid.rows, [1, 3, 5]);
    assert_eq!(report.most_repeated[0].first_row, 2);
    let ids = check(&table, &key("id")).unwrap();
    assert_eq!(ids.columns[0].leading_zeros.rows, [1]);
    assert_eq!(ids.columns[0].blank.rows, [3]);
    assert!(
        ids.warnings.iter().any(|w| w.contains("leading zero")),
        "{ids}"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert!(json.get("labels").is_none());
    assert_eq!(json["rows"], 6);
    assert_eq!(json["format"], "csv");
    assert!(report.to_string().contains("never matching"));
}

/// What a check says of columns to hand over is what a run meets: it takes the width that is said, and no smaller one.
#[test]
fn a_dry_run_says_which_texts_do_not_fit() {
    let floats: Float64Array = [Some(5e-324), Some(0.5), Some(f64::NAN), None]
        .iter()
        .collect();
    let names = ["x\u{7}", "Zürich", "Z", "q"];
    let table = batch(&[
        (
            "id",
            Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None])) as ArrayRef,
        ),
        ("f", Arc::new(floats)),
        ("n", Arc::new(StringArray::from_iter_values(names))),
    ]);
    let parquet = source("t.parquet", parquet(&table));
    let (spec, memory, place) = (key("id"), u64::MAX, std::env::temp_dir());
    let columns = |names: &[&str], bytes| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        TextColumns::labels(&spec, &names, bytes).unwrap()
    };
    let checked = |texts: &TextColumns| {
        check_within(&parquet, &spec, Some(texts), 0, memory, &place).map(|check| {
            let said = check.to_string();
            (check.labels.unwrap(), said)
        })
    };
    let (found, said) = checked(&columns(&["n", "f"], 12)).unwrap();
    assert_eq!(found.refused.rows, [1]);
    // Of the row without a key nothing is handed over. A length of two bytes goes with each text.
    assert_eq!((found.needed, &found.too_wide.rows[..]), (14, &[2][..]));
    let types: Vec<&str> = found.columns.iter().map(|(_, kind)| &**kind).collect();
    assert_eq!(types, ["text", "float64"]);
    assert!(said.contains("a width of 14 does"), "{said}");
    let (found, said) = checked(&columns(&["f"], 64)).unwrap();
    assert_eq!((found.too_wide.count, found.refused.count), (0, 0));
    assert!(
        said.contains(&format!("at most {} bytes", found.needed)),
        "{said}"
    );
    let run = |bytes| {
        let texts = columns(&["f"], bytes);
        vesica_tables::read_keys_within(&parquet, &spec, &[], Some(&texts), memory, &place)
    };
    assert!(run(found.needed).is_ok() && run(found.needed - 1).is_err());

    let twice = source("t.csv", "id,n\n1,a\n2,b\n1,c\n");
    let texts = columns(&["n"], 64);
    let error = check_within(&twice, &spec, Some(&texts), 0, memory, &place).unwrap_err();
    let of_run = vesica_tables::read_keys_within(&twice, &spec, &[], Some(&texts), memory, &place);
    assert_eq!(error.to_string(), of_run.unwrap_err().to_string());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn every_format_filters_alike(
        rows in prop::collection::vec((prop::option::of(0i64..30), "[a-c,;\"\n é]{0,4}"), 1..60),
        kept in prop::collection::vec(any::<bool>(), 30),
    ) {
        let ids: Int64Array = rows.iter().map(|r| r.0).collect();
        let texts = StringArray::from_iter_values(rows.iter().map(|r| &r.1));
        let table = batch(&[("id", Arc::new(ids) as ArrayRef), ("text", Arc::new(texts))]);
        let mut csv = csv::Writer::from_writer(vec![]);
        csv.write_record(["id", "text"]).unwrap();
        let mut json = String::new();
        for (id, text) in &rows {
            csv.write_record([id.map(|i| i.to_string()).unwrap_or_default().as_str(), text]).unwrap();
            json.push_str(&serde_json::json!({"id": id, "text": text}).to_string());
            json.push('\n');
        }
        let csv = csv.into_inner().unwrap();
        let reference = keys("t.csv", csv.clone(), "id").unwrap();
        let keep = |item: usize| kept[item % kept.len()];
        // What a plain filter would keep.
        let expected: Vec<(i64, &str)> = rows
            .iter()
            .zip(reference.row_items())
            .filter(|(_, item)| **item != NO_ITEM && keep(**item as usize))
            .map(|((id, text), _)| (id.unwrap(), text.as_str()))
            .collect();

        let out = filtered(&source("t.csv", csv), "id", keep);
        let mut reader = csv::Reader::from_reader(out.as_slice());
        let got: Vec<(i64, String)> = reader.deserialize().map(Result::unwrap).collect();
        prop_assert!(got.iter().map(|(i, t)| (*i, t.as_str())).eq(expected.iter().copied()));

        let json_keys = keys("t.jsonl", json.clone(), "id").unwrap();
        prop_assert_eq!(json_keys.digests(), reference.digests());
        let out = String::from_utf8(filtered(&source("t.jsonl", json), "id", keep)).unwrap();
        let got: Vec<(i64, String)> = out
            .lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
            .map(|v| (v["id"].as_i64().unwrap(), v["text"].as_str().unwrap().to_owned()))
            .collect();
        prop_assert!(got.iter().map(|(i, t)| (*i, t.as_str())).eq(expected.iter().copied()));

        let parquet = parquet(&table);
        let parquet_keys = keys("t.parquet", parquet.clone(), "id").unwrap();
        prop_assert_eq!(parquet_keys.digests(), reference.digests());
        prop_assert_eq!(parquet_keys.row_items(), reference.row_items());
        let out = filtered(&source("t.parquet", parquet), "id", keep);
        let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out)).unwrap().build().unwrap();
        let mut got = Vec::new();
        for batch in reader.map(Result::unwrap) {
            let (ids, texts) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            got.extend((0..batch.num_rows()).map(|i| (ids.value(i), texts.value(i).to_owned())));
        }
        prop_assert!(got.iter().map(|(i, t)| (*i, t.as_str())).eq(expected.iter().copied()));
        prop_assert_eq!(table.column(0).data_type(), &DataType::Int64);
    }
}

/// Every unit and zone, as another writer wrote them: `vectors/tables/make.py`.
#[test]
fn times_keep_their_units_and_zones() {
    let all = |name: &str, bytes: &[u8]| filtered(&source(name, bytes), "id", |_| true);
    let opened = |bytes: &[u8]| {
        let bytes = Bytes::copy_from_slice(bytes);
        ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap()
    };

    let input = include_bytes!("../../../../vectors/tables/times.parquet");
    let output = all("times.parquet", input);
    let (before, after) = (opened(input), opened(&output));
    let [old, new] = [&before, &after].map(|file| file.metadata().file_metadata());
    // The embedded Arrow schema says seconds and zones where Parquet has no word for them.
    let schema = |metadata: &parquet::file::metadata::FileMetaData| {
        let entries = metadata.key_value_metadata().unwrap();
        let mut found = entries.iter().filter(|e| e.key == "ARROW:schema");
        let value = found.next().unwrap().value.clone().unwrap();
        assert!(found.next().is_none());
        value
    };
    assert_eq!(schema(old), schema(new));
    let types = |metadata: &parquet::file::metadata::FileMetaData| {
        let columns = metadata.schema_descr().columns().iter();
        let types = columns.map(|c| {
            (
                c.name().to_owned(),
                c.physical_type(),
                c.logical_type_ref().cloned(),
            )
        });
        types.collect::<Vec<_>>()
    };
    assert_eq!(types(old), types(new));
    assert_eq!(before.schema(), after.schema());
    let batches = |file: ParquetRecordBatchReaderBuilder<Bytes>| -> Vec<RecordBatch> {
        file.build().unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(batches(before), batches(after));

    let input = include_bytes!("../../../../vectors/tables/times.arrow");
    let output = all("times.arrow", input);
    let batches = |bytes: &[u8]| -> Vec<RecordBatch> {
        let reader = FileReader::try_new(Cursor::new(bytes.to_vec()), None).unwrap();
        reader.map(Result::unwrap).collect()
    };
    assert_eq!(batches(input), batches(&output));
    let zoned = batches(&output)[0].schema();
    let berlin = DataType::Timestamp(arrow_schema::TimeUnit::Second, Some("Europe/Berlin".into()));
    assert_eq!(
        *zoned.field_with_name("s_berlin").unwrap().data_type(),
        berlin
    );
}

#[test]
fn brotli_in_parquet_is_read_and_written() {
    let bytes = include_bytes!("../../../../vectors/tables/brotli.parquet");
    let out = filtered(&source("t.parquet", &bytes[..]), "note", |i| i == 1);
    let written = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(out)).unwrap();
    let rows: Vec<_> = written.build().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows[0].num_rows(), 1);
    assert_eq!(rows[0].column(1).as_string::<i32>().value(0), "b");
}

/// Record batches are a table as a file of them is, and their rows come back as batches.
#[test]
fn record_batches_in_memory() {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use vesica_tables::{Output, RowSet, read_keys, select_rows, write_rows};
    let batch = |ids: &[i64], names: &[Option<&str>]| {
        let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
        let names: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
        RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("name", names, true)])
            .unwrap()
    };
    let batches = [
        batch(&[7, 8], &[Some("a"), None]),
        batch(&[], &[]),
        batch(&[9, 7, 10], &[Some("b"), Some("c"), Some("d")]),
    ];
    let schema = batches[0].schema();
    let options = SourceOptions::default();
    let source = |batches: &[RecordBatch], options: &SourceOptions| {
        Source::from_batches("frame", schema.clone(), batches.to_vec(), options)
    };
    let table = source(&batches, &options).unwrap();
    let spec = KeySpec::parse::<&str>("id", &[]).unwrap();
    let keys = read_keys(&table, &spec).unwrap();
    let counts = keys.counts();
    assert_eq!((counts.rows, counts.items, counts.duplicates), (5, 4, 1));
    // The digests are those of the same values in any other format.
    let text =
        Source::from_bytes("t.csv", b"id\n7\n8\n9\n7\n10\n".to_vec(), options.clone()).unwrap();
    assert_eq!(keys.digests(), read_keys(&text, &spec).unwrap().digests());
    let rows = keys.rows_of(&keys.matched([0, 3]).unwrap());
    let (found, selected) = select_rows(&table, &rows).unwrap();
    assert_eq!(found, schema);
    let expected = [
        batch(&[7], &[Some("a")]),
        batch(&[7, 10], &[Some("c"), Some("d")]),
    ];
    assert_eq!(selected, expected);
    // Written to a file they have the format of its name, and read back as the same rows.
    let directory = tempfile::tempdir().unwrap();
    let mut all = RowSet::none(3);
    (0..3).for_each(|row| all.set(row, true));
    let one = batch(&[7, 7, 10], &[Some("a"), Some("c"), Some("d")]);
    for (name, magic, expected) in [
        ("out.arrow", &b"ARROW1"[..], &expected[..]),
        ("out.arrows", b"\xff\xff\xff\xff", &expected),
        ("out.dat", b"\xff\xff\xff\xff", &expected),
        ("out.parquet", b"PAR1", std::slice::from_ref(&one)),
    ] {
        let path = directory.path().join(name);
        let mut output = Output::create(&path, &table).unwrap();
        assert_eq!(write_rows(&table, &rows, &mut output).unwrap(), 3);
        output.commit().unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(magic), "{name}");
        let written = Source::open(&path, options.clone()).unwrap();
        let (found, rows) = select_rows(&written, &all).unwrap();
        assert_eq!(
            (found.fields(), &rows[..]),
            (schema.fields(), expected),
            "{name}"
        );
    }
    // No rows, another schema, and a format without batches.
    assert!(read_keys(&source(&[], &options).unwrap(), &spec).is_err());
    let empty = SourceOptions {
        allow_no_rows: true,
        ..options
    };
    let none = read_keys(&source(&[], &empty).unwrap(), &spec).unwrap();
    assert_eq!(none.counts().rows, 0);
    let other = batches[0].project(&[0]).unwrap();
    assert!(source(&[other], &empty).is_err());
    // The rows of the text, whose columns are texts.
    let (found, selected) = select_rows(&text, &rows).unwrap();
    assert_eq!(found.field(0).data_type(), &DataType::Utf8);
    let rows: usize = selected.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 3);
}

#[test]
fn rows_of_text_are_batches_of_texts() {
    use vesica_tables::{RowSet, select_rows};

    for (name, bytes) in [
        ("t.csv", &b"id,n\n1,x\n2,\n3,\"\"\n"[..]),
        (
            "t.jsonl",
            b"{\"id\":\"1\",\"n\":\"x\"}\n{\"id\":\"2\"}\n{\"n\":\"\",\"id\":\"3\"}\n",
        ),
    ] {
        let options = SourceOptions {
            rows: Rows::All,
            ..SourceOptions::default()
        };
        let table = Source::from_bytes(name, bytes.to_vec(), options).unwrap();
        let mut rows = RowSet::none(3);
        rows.insert(1);
        let (schema, batches) = select_rows(&table, &rows).unwrap();
        let fields = schema.fields().iter();
        let fields: Vec<_> = fields
            .map(|f| (f.name().as_str(), f.data_type().clone()))
            .collect();
        let text = DataType::Utf8;
        let expected = [
            ("id", text.clone()),
            ("n", text),
            ("in_both", DataType::Boolean),
        ];
        assert_eq!(fields, expected, "{name}");
        let batch = concat_batches(&schema, &batches).unwrap();
        let of = |column: usize| {
            batch
                .column(column)
                .as_string::<i32>()
                .iter()
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0), [Some("1"), Some("2"), Some("3")], "{name}");
        assert_eq!(of(1), [Some("x"), None, Some("")], "{name}");
        let marks: Vec<_> = batch.column(2).as_boolean().iter().flatten().collect();
        assert_eq!(marks, [false, true, false], "{name}");
    }
}

/// Rows of files by other programs come back as batches that have the schema that is said.
#[test]
fn selected_batches_have_their_schema() {
    use vesica_tables::{RowSet, select_rows};
    for name in ["times.arrow", "times.parquet"] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/tables");
        let path = std::path::Path::new(folder).join(name);
        let source = Source::open(&path, SourceOptions::default()).unwrap();
        // As many rows as the table has, which a pass over it tells.
        let selected = (1..100).find_map(|rows| {
            let mut all = RowSet::none(rows);
            (0..rows).for_each(|row| all.set(row, true));
            select_rows(&source, &all).ok()
        });
        let (schema, batches) = selected.unwrap();
        assert!(batches.iter().any(|batch| batch.num_rows() > 0));
        Source::from_batches("again", schema, batches, &SourceOptions::default()).unwrap();
    }
}

/// Nanoseconds, which they count, have no room for such years, and Parquet has none for seconds.
#[test]
fn timestamps_of_96_bits_are_of_any_year() {
    let texts = "at\n9999-12-31T00:00:00Z\n2024-02-29T08:30:00Z\n1600-01-01T00:00:00Z\n";
    let expected = keys("t.csv", texts, "at").unwrap();
    for (bytes, unit) in [
        (
            &include_bytes!("../../../../vectors/tables/int96.parquet")[..],
            TimeUnit::Microsecond,
        ),
        (
            &include_bytes!("../../../../vectors/tables/int96-seconds.parquet")[..],
            TimeUnit::Millisecond,
        ),
    ] {
        let table = source("t.parquet", bytes);
        let found = read_keys(&table, &key("at")).unwrap();
        assert_eq!(found.digests(), expected.digests(), "{unit:?}");
        let rest = filtered(&table, "at", |_| true);
        let written = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(rest.clone())).unwrap();
        let leaf = written.parquet_schema().column(0);
        assert!(
            matches!(leaf.logical_type_ref(), Some(LogicalType::Timestamp { .. })),
            "{leaf:?}"
        );
        let again = keys("t.parquet", rest, "at").unwrap();
        assert_eq!(again.digests(), expected.digests(), "{unit:?}");
    }
}
