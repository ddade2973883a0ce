//! Whatever makes a result impossible is known once its output is opened, before there is a peer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::common::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{
    DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode,
};
use parquet::arrow::ArrowWriter;
use vesica_tables::*;

/// Types without others in them.
fn plain() -> Vec<DataType> {
    use DataType as T;
    let mut types = vec![
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Date32,
        T::Date64,
        T::Time32(TimeUnit::Second),
        T::Time32(TimeUnit::Millisecond),
        T::Time64(TimeUnit::Microsecond),
        T::Time64(TimeUnit::Nanosecond),
        T::Interval(IntervalUnit::YearMonth),
        T::Interval(IntervalUnit::DayTime),
        T::Interval(IntervalUnit::MonthDayNano),
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
        T::FixedSizeBinary(16),
        T::FixedSizeBinary(3),
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Decimal32(9, 2),
        T::Decimal64(18, -2),
        T::Decimal128(38, 10),
        T::Decimal256(76, 0),
    ];
    for unit in [
        TimeUnit::Second,
        TimeUnit::Millisecond,
        TimeUnit::Microsecond,
        TimeUnit::Nanosecond,
    ] {
        types.extend([
            T::Timestamp(unit, None),
            T::Timestamp(unit, Some("Europe/Berlin".into())),
            T::Duration(unit),
        ]);
    }
    types
}

/// Types with one of these in them.
fn nested(of: &DataType) -> Vec<DataType> {
    use DataType as T;
    let item = Arc::new(Field::new("item", of.clone(), true));
    let key = Arc::new(Field::new("keys", T::Utf8, false));
    let value = Arc::new(Field::new("values", of.clone(), true));
    let entries = T::Struct(Fields::from(vec![key, value]));
    let union = |mode| {
        let fields = [
            (0, item.clone()),
            (1, Arc::new(Field::new("n", T::Int8, true))),
        ];
        T::Union(UnionFields::from_iter(fields), mode)
    };
    vec![
        T::List(item.clone()),
        T::LargeList(item.clone()),
        T::ListView(item.clone()),
        T::LargeListView(item.clone()),
        T::FixedSizeList(item.clone(), 2),
        T::Struct(Fields::from(vec![item.clone()])),
        T::Map(Arc::new(Field::new("entries", entries, false)), false),
        T::Dictionary(Box::new(T::Int8), Box::new(of.clone())),
        T::RunEndEncoded(
            Arc::new(Field::new("run_ends", T::Int32, false)),
            item.clone(),
        ),
        union(UnionMode::Dense),
        union(UnionMode::Sparse),
    ]
}

/// A table with a column of this type, in every format that has room for it.
fn tables(data_type: &DataType) -> Vec<(&'static str, Source)> {
    let options = SourceOptions::default;
    let nulls = catch_unwind(|| new_null_array(data_type, 2));
    let Ok(nulls) = nulls else {
        return Vec::new();
    };
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", data_type.clone(), true),
    ]));
    let key: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let Ok(rows) = RecordBatch::try_new(schema.clone(), vec![key, nulls]) else {
        return Vec::new();
    };
    let in_file = |bytes: &mut Vec<u8>| {
        let mut writer = FileWriter::try_new(bytes, &schema).ok()?;
        writer.write(&rows).ok()?;
        writer.finish().ok()
    };
    let in_stream = |bytes: &mut Vec<u8>| {
        let mut writer = StreamWriter::try_new(bytes, &schema).ok()?;
        writer.write(&rows).ok()?;
        writer.finish().ok()
    };
    let in_parquet = |bytes: &mut Vec<u8>| {
        let mut writer = ArrowWriter::try_new(bytes, schema.clone(), None).ok()?;
        writer.write(&rows).ok()?;
        writer.close().ok().map(drop)
    };
    // Of some types the libraries panic.
    let made = |make: &dyn Fn(&mut Vec<u8>) -> Option<()>| {
        let mut bytes = Vec::new();
        let made = catch_unwind(AssertUnwindSafe(|| make(&mut bytes)));
        made.ok().flatten().map(|()| bytes)
    };
    let batches = Source::from_batches("frame", schema.clone(), vec![rows.clone()], &options());
    let mut tables = vec![("frame", batches.unwrap())];
    for (name, bytes) in [
        ("t.arrow", made(&in_file)),
        ("t.arrows", made(&in_stream)),
        ("t.parquet", made(&in_parquet)),
    ] {
        tables.extend(bytes.map(|bytes| (name, source(name, bytes))));
    }
    tables
}

#[test]
fn what_can_be_opened_can_be_written() {
    let directory = tempfile::tempdir().unwrap();
    use DataType as T;
    let inner = [
        T::Null,
        T::Boolean,
        T::Int64,
        T::Float16,
        T::Utf8,
        T::FixedSizeBinary(16),
        T::Decimal64(18, -2),
        T::Decimal128(38, 10),
        T::Timestamp(TimeUnit::Second, None),
        T::Interval(IntervalUnit::DayTime),
    ];
    let types = inner.iter().flat_map(nested).chain(plain());
    let mut counts = [0; 2];
    for data_type in types {
        for (name, table) in tables(&data_type) {
            // What cannot be read is not the output's business.
            let Ok(keys) = read_keys(&table, &key("k")) else {
                continue;
            };
            let rows = keys.rows_of(&vec![true; keys.digests().len()]);
            for to in [
                "o.csv",
                "o.jsonl",
                "o.parquet",
                "o.arrow",
                "o.arrows",
                "o.dat",
            ] {
                let of = format!("{data_type} in {name} to {to}");
                let mut output = match Output::create(&directory.path().join(to), &table) {
                    Ok(output) => output,
                    Err(error) => {
                        let by_name = matches!(
                            error.kind(),
                            ErrorKind::NotInFormat { .. } | ErrorKind::UnsupportedInput { .. }
                        );
                        assert!(by_name, "{of}: {error}");
                        counts[0] += 1;
                        continue;
                    }
                };
                let written = write_rows(&table, &rows, &mut output);
                assert_eq!(written.map_err(|e| e.to_string()), Ok(2), "{of}");
                counts[1] += 1;
            }
        }
    }
    assert!(counts[0] > 300 && counts[1] > 1000, "{counts:?}");
}
