//! Whatever makes a result impossible is known once its output is opened, before there is a peer.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::common::*;
use arrow_array::builder::{ListBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, DictionaryArray,
    FixedSizeListArray, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, ListArray,
    RecordBatch, RunArray, StringArray, StringViewArray, StructArray, make_array, new_null_array,
};
use arrow_buffer::{Buffer, OffsetBuffer, i256};
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

/// A table with a column of nulls of this type, in every format that has room for it.
fn tables(data_type: &DataType) -> Vec<(&'static str, Source)> {
    let nulls = catch_unwind(|| new_null_array(data_type, 2));
    nulls.map_or_else(|_| Vec::new(), |nulls| tables_of(&nulls))
}

/// A table with this column and a key, in every format that has room for it.
fn tables_of(values: &ArrayRef) -> Vec<(&'static str, Source)> {
    let options = SourceOptions::default;
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", values.data_type().clone(), true),
    ]));
    let key: ArrayRef = Arc::new(Int64Array::from_iter_values(0..values.len() as i64));
    let Ok(rows) = RecordBatch::try_new(schema.clone(), vec![key, values.clone()]) else {
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
            for to in OUTPUTS {
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

const OUTPUTS: [&str; 6] = [
    "o.csv",
    "o.jsonl",
    "o.parquet",
    "o.arrow",
    "o.arrows",
    "o.dat",
];

/// The least and the largest values of a type without others in it, and what else is at its edges.
pub(crate) fn extremes(of: &DataType) -> ArrayRef {
    use DataType as T;
    match of {
        T::Null => return new_null_array(of, 2),
        T::Boolean => return Arc::new(BooleanArray::from(vec![true, false])),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            let texts: ArrayRef =
                Arc::new(StringArray::from(vec!["", "\0", "\"\n,", "\u{10ffff}"]));
            return cast(&texts, of);
        }
        T::Binary | T::LargeBinary | T::BinaryView => {
            let bytes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"", b"\0\xff"]));
            return cast(&bytes, of);
        }
        T::Decimal32(digits, _)
        | T::Decimal64(digits, _)
        | T::Decimal128(digits, _)
        | T::Decimal256(digits, _) => {
            let most = i256::from_string(&"9".repeat((*digits).into())).unwrap();
            let values = [most, most.wrapping_neg(), i256::ONE];
            let width = of.primitive_width().unwrap();
            let bytes = values.map(|value| value.to_le_bytes()[..width].to_vec());
            return of_bytes(of, &bytes);
        }
        _ => {}
    }
    let width = match of {
        T::FixedSizeBinary(width) => *width as usize,
        of => of.primitive_width().unwrap(),
    };
    let ends_in = |rest: u8, last: &[u8]| [vec![rest; width - last.len()], last.to_vec()].concat();
    // The last are 1 and a float that is no number.
    let nan: &[u8] = match width {
        2 => &[0x7e],
        4 => &[0xc0, 0x7f],
        _ => &[0xf8, 0x7f],
    };
    let one = [vec![1], vec![0; width - 1]].concat();
    let (zero, ones) = (ends_in(0, &[]), ends_in(0xff, &[]));
    let mut bytes = vec![zero, ones, ends_in(0, &[0x80]), ends_in(0xff, &[0x7f]), one];
    bytes.extend(of.is_floating().then(|| ends_in(0, nan)));
    of_bytes(of, &bytes)
}

/// Values of a type of a fixed width.
fn of_bytes(of: &DataType, values: &[Vec<u8>]) -> ArrayRef {
    let nulls = new_null_array(of, values.len()).into_data().into_builder();
    let buffers = vec![Buffer::from_vec(values.concat())];
    make_array(nulls.nulls(None).buffers(buffers).build().unwrap())
}

/// Texts or bytes in another type of them.
fn cast(array: &ArrayRef, to: &DataType) -> ArrayRef {
    use DataType as T;
    match to {
        T::LargeUtf8 => Arc::new(LargeStringArray::from_iter(array.as_string::<i32>())),
        T::Utf8View => Arc::new(StringViewArray::from_iter(array.as_string::<i32>())),
        T::LargeBinary => Arc::new(LargeBinaryArray::from_iter(array.as_binary::<i32>())),
        T::BinaryView => Arc::new(BinaryViewArray::from_iter(array.as_binary::<i32>())),
        _ => array.clone(),
    }
}

/// These values in structs, lists and dictionaries, one in each.
fn in_others(values: &ArrayRef) -> Vec<ArrayRef> {
    let (of, rows) = (values.data_type().clone(), values.len() as i32);
    let item = Arc::new(Field::new("item", of.clone(), true));
    let structs = StructArray::from(vec![(item.clone(), values.clone())]);
    let ends = OffsetBuffer::new((0..=rows).collect());
    let lists = ListArray::new(item.clone(), ends, values.clone(), None);
    let fixed = FixedSizeListArray::new(item, 1, values.clone(), None);
    let mut all: Vec<ArrayRef> = vec![Arc::new(structs), Arc::new(lists), Arc::new(fixed)];
    let keys = Int32Array::from_iter_values(0..rows);
    all.push(Arc::new(DictionaryArray::new(keys, values.clone())));
    let ends = Int32Array::from_iter_values(1..=rows);
    all.extend(RunArray::try_new(&ends, values).map(|runs| Arc::new(runs) as ArrayRef));
    all
}

/// Every type without others in it, with the values at its edges.
pub(crate) fn plain_extremes() -> Vec<ArrayRef> {
    plain().iter().map(extremes).collect()
}

/// Whether a result can be written depends neither on which rows match, nor on more than what was looked at before.
#[test]
fn what_passes_its_check_can_be_written_whatever_its_values() {
    let directory = tempfile::tempdir().unwrap();
    let plain = plain_extremes();
    let some = plain.iter().filter(|values| {
        matches!(
            values.data_type(),
            DataType::Timestamp(_, None) | DataType::Float64
        )
    });
    let nested = some.flat_map(in_others);
    let (mut refused, mut written) = (BTreeSet::new(), 0);
    for values in plain.iter().cloned().chain(nested) {
        for (name, table) in tables_of(&values) {
            let Ok(keys) = read_keys(&table, &key("k")) else {
                continue;
            };
            for to in OUTPUTS {
                let of = format!("{} in {name} to {to}", values.data_type());
                let Ok(mut output) = Output::create(&directory.path().join(to), &table) else {
                    continue;
                };
                if let Err(error) = output.check_rows(&table, keys.counts()) {
                    assert!(
                        matches!(error.kind(), ErrorKind::NotKept { .. }),
                        "{of}: {error}"
                    );
                    assert_eq!(error.place().column.as_deref(), Some("v"), "{of}");
                    refused.insert((values.data_type().to_string(), to));
                    continue;
                }
                let rows = keys.rows_of(&vec![true; keys.digests().len()]);
                let result = write_rows(&table, &rows, &mut output);
                let result = result.map_err(|e| e.to_string());
                assert_eq!(result, Ok(values.len() as u64), "{of}");
                written += 1;
            }
        }
    }
    assert!(written > 900, "{written}");
    // Seconds that are too many milliseconds, alone and in others.
    let of: BTreeSet<_> = refused.iter().map(|(of, _)| &**of).collect();
    assert!(
        of.contains("Timestamp(s)") && of.contains("Time32(s)"),
        "{of:?}"
    );
    assert!(of.iter().all(|of| of.contains("(s")), "{of:?}");
    assert!(
        refused.iter().all(|(_, to)| *to == "o.parquet"),
        "{refused:?}"
    );
    assert!(of.len() >= 7, "{of:?}");
}

/// Rows of [`HandedExtremes`].
pub(crate) const ROWS: usize = 6;

/// What a peer hands over with each of some rows: a column of each type, with the values at its edges.
pub(crate) struct HandedExtremes {
    pub(crate) columns: Vec<PeerColumn>,
    labels: Vec<u8>,
}

impl HandedExtremes {
    pub(crate) fn new() -> HandedExtremes {
        let mut columns = Vec::new();
        let mut labels = vec![Vec::new(); ROWS];
        for (column, values) in plain_extremes().iter().enumerate() {
            let mut of = ColumnType::TEXT;
            for (row, label) in labels.iter_mut().enumerate() {
                let handed = (row < values.len()).then(|| handed(values.slice(row, 1)));
                match handed.flatten() {
                    Some((of_value, text)) => {
                        of = of_value;
                        label.extend(text);
                    }
                    None => label.extend([0, 0]),
                }
            }
            let name = column.to_string();
            columns.push(PeerColumn { name, of }.beside_own());
        }
        let bytes = labels.iter().map(Vec::len).max().unwrap();
        labels.iter_mut().for_each(|label| label.resize(bytes, 0));
        let labels = labels.concat();
        HandedExtremes { columns, labels }
    }

    /// With these keys, one of each row.
    pub(crate) fn with(&self, keys: TableKeys) -> KeyStore {
        handed_over(keys, &self.labels, self.labels.len() / ROWS, &self.columns)
    }
}

/// A value as it is handed over, with its length, and the type of its column; nothing of what is not handed over, or is no text
/// of its column.
fn handed(value: ArrayRef) -> Option<(ColumnType, Vec<u8>)> {
    let rows = batch(&[("k", Arc::new(Int64Array::from(vec![0]))), ("v", value)]);
    let options = SourceOptions::default();
    let table = Source::from_batches("frame", rows.schema(), vec![rows], &options).unwrap();
    let names = ["v".to_owned()];
    let of = table.column_types(&names).unwrap().remove(0);
    let texts = TextColumns::labels(&key("k"), &names, 128).unwrap();
    let keys = read_keys_within(&table, &key("k"), &[], Some(&texts), u64::MAX, "".as_ref());
    let keys = keys.ok()?;
    let label = keys.gathered().unwrap().0.labels.clone().unwrap();
    let columns = names.map(|name| PeerColumn {
        name,
        of: of.clone(),
    });
    let is_none = handed_over(keys, &label, 128, &columns).unreadable() > 0;
    let length = usize::from(u16::from_le_bytes([label[0], label[1]]).max(1)) + 1;
    (!is_none).then(|| (of, label[..length].to_vec()))
}

/// Whatever the peer hands over goes into every result.
#[test]
fn what_the_peer_hands_over_can_be_written_whatever_its_values() {
    let directory = tempfile::tempdir().unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let handed = HandedExtremes::new();
    let texts = [
        "k\n0\n1\n2\n3\n4\n5\n".to_owned(),
        (0..ROWS).map(|row| format!("{{\"k\":{row}}}\n")).collect(),
    ];
    let texts = ["t.csv", "t.jsonl"].into_iter().zip(texts);
    let texts = texts.map(|(name, text)| (name, source(name, text)));
    let mut written = 0;
    for (name, table) in tables_of(&numbers).into_iter().chain(texts) {
        let keys = read_keys(&table, &key("k")).unwrap();
        let rows = keys.rows_of(&[true; ROWS]);
        let keys = handed.with(keys);
        let of_peer = HandedOver::new(&handed.columns, &keys);
        let matched = Matched::new(&rows, Some(of_peer));
        assert_eq!(matched.unreadable(), None);
        for to in OUTPUTS {
            let mut output = Output::create(&directory.path().join(to), &table).unwrap();
            output.check_columns(&table, &handed.columns).unwrap();
            let result = write_rows(&table, matched, &mut output).map_err(|e| e.to_string());
            assert_eq!(result, Ok(ROWS as u64), "{name} to {to}");
            assert_eq!(output.commit().unwrap(), 0);
            written += 1;
        }
    }
    assert_eq!(written, 36);
}

/// Rows of a list of one text, and of a list of so many.
fn long_rows(text: &str, length: usize) -> RecordBatch {
    let mut lists = ListBuilder::new(StringDictionaryBuilder::<Int32Type>::new());
    for length in [1, length] {
        for _ in 0..length {
            lists.values().append_value(text);
        }
        lists.append(true);
    }
    batch(&[
        ("k", Arc::new(Int64Array::from(vec![1, 2]))),
        ("v", Arc::new(lists.finish())),
    ])
}

/// A row that is as long as a row may be has room for what the peer hands over.
#[test]
fn what_the_peer_hands_over_makes_no_row_too_long() {
    let options = SourceOptions {
        memory: Some(1 << 20),
        ..SourceOptions::default()
    };
    let rows = arrow_file(&long_rows(&"x".repeat((1 << 20) - 1), 64));
    let table = Source::from_bytes("t.arrow", rows, options).unwrap();
    let keys = read_keys(&table, &key("k")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut output = Output::create(&directory.path().join("o.parquet"), &table).unwrap();
    output.check_rows(&table, keys.counts()).unwrap();
    let (name, of) = ("c".to_owned(), ColumnType::TEXT);
    let columns = [PeerColumn { name, of }.beside_own()];
    let label = [&101u16.to_le_bytes()[..], &[b'y'; 100]].concat();
    let labels = label.repeat(2);
    let rows = keys.rows_of(&[true; 2]);
    let keys = handed_over(keys, &labels, label.len(), &columns);
    let of_peer = HandedOver::new(&columns, &keys);
    let written = write_rows(&table, Matched::new(&rows, Some(of_peer)), &mut output);
    assert_eq!(written.map_err(|e| e.to_string()), Ok(2));
}

/// Dictionaries let a row be longer than all that is read of it.
#[test]
fn a_row_that_is_too_long_is_known_before_it_matches() {
    let long = "x".repeat(1 << 20);
    let options = SourceOptions {
        memory: Some(1 << 20),
        ..SourceOptions::default()
    };
    let directory = tempfile::tempdir().unwrap();
    for (length, passes) in [(10, true), (70, false)] {
        let rows = long_rows(&long, length);
        for (name, bytes) in [
            ("t.arrow", arrow_file(&rows)),
            ("t.parquet", parquet(&rows)),
        ] {
            let table = Source::from_bytes(name, bytes, options.clone()).unwrap();
            let keys = read_keys(&table, &key("k")).unwrap();
            let output = Output::create(&directory.path().join("o.parquet"), &table).unwrap();
            let checked = output.check_rows(&table, keys.counts());
            match checked.map_err(|error| error.class()) {
                Ok(()) => assert!(passes, "{name}"),
                Err(class) => assert!(!passes && class == ErrorClass::Resource, "{name}"),
            }
        }
    }
}
