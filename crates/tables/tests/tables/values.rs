//! The values of rows: read alike in every format, added up exactly, and refused by row.

use std::path::Path;
use std::slice;
use std::sync::Arc;

use crate::common::*;
use arrow_array::types::*;
use arrow_array::*;
use vesica_tables::{
    Error, ErrorClass, ErrorKind, Source, ValueColumn, ValueProblem, read_keys_within,
};

type Wide = <Decimal256Type as ArrowPrimitiveType>::Native;

fn column(name: &str, scale: u8, bound: u64) -> ValueColumn {
    ValueColumn {
        name: name.to_owned(),
        scale,
        bound,
        sums_repeated: true,
    }
}

/// The values of a table's keys, in order of first appearance.
fn read(source: &Source, columns: &str, column: &ValueColumn) -> Result<Vec<i64>, Error> {
    read_all(source, columns, slice::from_ref(column))
}

/// Those of several columns, one key's after the other's.
fn read_all(source: &Source, columns: &str, values: &[ValueColumn]) -> Result<Vec<i64>, Error> {
    let key = key(columns);
    let keys = read_keys_within(source, &key, values, None, u64::MAX, Path::new(""))?;
    let (keys, _) = keys.gathered().expect("there is no limit");
    Ok(keys.values.as_ref().unwrap().to_vec())
}

/// A table with the columns `k` and `v` in every format. `None` is null, in CSV an empty field.
fn tables(rows: &[(Option<&str>, Option<&str>)]) -> Vec<Source> {
    let (mut csv, mut jsonl) = ("k,v\n".to_owned(), String::new());
    for (k, v) in rows {
        let quoted = |text: &Option<&str>| format!("\"{}\"", text.unwrap_or_default());
        csv.push_str(&format!("{},{}\n", quoted(k), quoted(v)));
        jsonl.push_str(&serde_json::json!({"k": k, "v": v}).to_string());
        jsonl.push('\n');
    }
    let [k, v]: [StringArray; 2] = [
        rows.iter().map(|(k, _)| *k).collect(),
        rows.iter().map(|(_, v)| *v).collect(),
    ];
    let batch = batch(&[("k", Arc::new(k)), ("v", Arc::new(v))]);
    vec![
        source("t.csv", csv),
        source("t.jsonl", jsonl),
        source("t.parquet", parquet(&batch)),
        source("t.arrow", arrow_file(&batch)),
        source("t.arrows", arrow_stream(&batch)),
    ]
}

/// Tables of one key and one value, an array, in the columnar formats.
fn columnar(values: ArrayRef) -> Vec<Source> {
    let keys = StringArray::from_iter_values((0..values.len()).map(|i| format!("k{i}")));
    let batch = batch(&[("k", Arc::new(keys)), ("v", values)]);
    vec![
        source("t.parquet", parquet(&batch)),
        source("t.arrow", arrow_file(&batch)),
        source("t.arrows", arrow_stream(&batch)),
    ]
}

/// Fails for the data, and names the row, the line if the format has lines, and the problem.
fn refused(
    source: &Source,
    column: &ValueColumn,
    row: u64,
    line: Option<u64>,
    expected: ValueProblem,
) {
    let error = read(source, "k", column).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.class(), ErrorClass::Data, "{text}");
    let place = error.place();
    assert_eq!((place.row, place.line), (Some(row), line), "{text}");
    assert_eq!(place.column.as_deref(), Some("v"), "{text}");
    assert_eq!(place.path.as_deref(), Some(source.name()), "{text}");
    assert!(!text.contains('\n'), "{text}");
    let ErrorKind::BadValue { problem } = error.kind() else {
        panic!("{text}");
    };
    assert_eq!(*problem, expected);
}

/// As [`refused`], for each of [`tables`]; no row takes several lines.
fn all_refused(
    rows: &[(Option<&str>, Option<&str>)],
    column: &ValueColumn,
    row: u64,
    problem: ValueProblem,
) {
    for source in tables(rows) {
        let line = match source.name() {
            "t.csv" => Some(row + 1),
            "t.jsonl" => Some(row),
            _ => None,
        };
        refused(&source, column, row, line, problem);
    }
}

#[test]
fn several_columns_are_added_up_each_by_itself() {
    let rows = [
        (Some("7"), Some("1.5")),
        (Some("8"), Some("-2")),
        (Some("7"), Some("0.25")),
        (None, Some("x")),
    ];
    let columns = [
        column("v", 2, 1000),
        column("k", 0, 14),
        column("v", 3, 5000),
    ];
    for source in tables(&rows) {
        let values = read_all(&source, "k", &columns).unwrap();
        assert_eq!(values, [175, 14, 1750, -200, 8, -2000], "{}", source.name());
        // The bound of each column is its own.
        let tight = [columns[0].clone(), column("k", 0, 13)];
        let error = read_all(&source, "k", &tight).unwrap_err();
        assert_eq!(error.place().column.as_deref(), Some("k"), "{error}");
        assert_eq!(error.place().row, Some(1));
        let once = ValueColumn {
            sums_repeated: false,
            ..column("v", 2, 1000)
        };
        let error = read_all(&source, "k", &[columns[1].clone(), once]).unwrap_err();
        assert_eq!(error.place().row, Some(3), "{error}");
        let error = read_all(&source, "k", &[columns[0].clone(), column("w", 0, 1)]).unwrap_err();
        assert_eq!(error.place().column.as_deref(), Some("w"), "{error}");
    }
}

/// Whatever the rows before it are.
#[test]
fn a_value_of_several_that_cannot_be_read_is_named_by_row() {
    let rows = [
        (Some("7"), Some("1.5")),
        (Some("7"), Some("2")),
        (Some("8"), Some("x")),
    ];
    let columns = [column("k", 0, 100), column("v", 2, 1000)];
    for source in tables(&rows) {
        for columns in [&columns, &[columns[1].clone(), columns[0].clone()]] {
            let error = read_all(&source, "k", columns).unwrap_err();
            let place = error.place();
            assert_eq!(error.class(), ErrorClass::Data, "{error}");
            assert_eq!((place.row, place.column.as_deref()), (Some(3), Some("v")));
        }
    }
}

#[test]
fn a_column_of_the_key_can_have_the_values() {
    let rows = [(Some("a"), Some("7")), (Some("b"), Some("-3"))];
    for source in tables(&rows) {
        for columns in ["v", "k,v", "v,k"] {
            let values = read(&source, columns, &column("v", 1, 100)).unwrap();
            assert_eq!(values, [70, -30], "{} {columns}", source.name());
        }
    }
    for source in columnar(Arc::new(Int16Array::from(vec![7, -3]))) {
        assert_eq!(read(&source, "v", &column("v", 0, 7)).unwrap(), [7, -3]);
    }
}

#[test]
fn the_value_of_a_row_without_a_key_is_not_read() {
    let rows = [
        (None, Some("nonsense")),
        (Some("a"), Some("1")),
        (Some(""), None),
        (None, Some("1e3")),
        (Some("a"), Some("2")),
    ];
    for source in tables(&rows) {
        let values = read(&source, "k", &column("v", 0, 3)).unwrap();
        assert_eq!(values, [3], "{}", source.name());
    }
    for value in ["1e3", "true", "{}", "[1,2]", "\"\\ud800\"", "null"] {
        let jsonl = format!("{{\"k\":null,\"v\":{value}}}\n{{\"k\":\"a\",\"v\":4}}\n");
        let values = read(&source("t.jsonl", jsonl), "k", &column("v", 0, 4));
        assert_eq!(values.unwrap(), [4], "{value}");
    }
}

#[test]
fn values_that_are_no_numbers_are_named_by_row() {
    let number = ValueProblem::NotANumber;
    for (value, problem) in [
        (None, ValueProblem::Empty),
        (Some(""), ValueProblem::Empty),
        (Some(" "), ValueProblem::Empty),
        (Some("1e3"), number),
        (Some("1,000"), number),
        (Some("1_000"), number),
        (Some("\u{2212}5"), number),
        (Some("\u{663}"), number),
        (Some("NaN"), number),
        (Some("inf"), number),
        (Some("- 5"), number),
        (Some("$5"), number),
        (Some("1.005"), ValueProblem::TooManyDigits),
        (Some("92233720368547758.08"), ValueProblem::TooLarge),
        (Some(&"9".repeat(70_000)), ValueProblem::TooLarge),
    ] {
        let rows = [
            (Some("a"), Some("1.50")),
            (None, Some("x")),
            (Some("b"), value),
        ];
        all_refused(&rows, &column("v", 2, 1000), 3, problem);
    }
    for value in ["1e3", "1.5E0", "true", "{\"x\":1}", "[1]", "\"\\ud800\""] {
        let jsonl = format!("{{\"k\":\"a\",\"v\":1}}\n\n{{\"k\":\"b\",\"v\":{value}}}\n");
        let source = source("t.jsonl", jsonl);
        refused(&source, &column("v", 0, 1000), 2, Some(3), number);
    }
}

#[test]
fn the_bound_is_for_the_sum_over_the_rows_of_a_key() {
    let most = i64::MAX.to_string();
    let least = i64::MIN.to_string();
    // Sums that are within the bound, though rows and partial sums are not.
    for values in [
        ["900", "-895", "3"],
        [&most, &least, "9"],
        [&least, "9", &most],
    ] {
        let mut rows: Vec<_> = values.map(|v| (Some("a"), Some(v))).to_vec();
        rows.insert(1, (Some("b"), Some("-9")));
        for source in tables(&rows) {
            let values = read(&source, "k", &column("v", 0, 9)).unwrap();
            assert_eq!(values, [8, -9], "{}", source.name());
        }
    }
    // Every order of the rows is refused, and the first row of the key is named.
    let sum = ValueProblem::SumAboveBound { bound: 9, scale: 0 };
    for values in [
        [&*most, &*most, "-5"],
        [&*most, "-5", &*most],
        ["-5", &*most, &*most],
        ["4", "4", "2"],
    ] {
        let mut rows: Vec<_> = values.map(|v| (Some("a"), Some(v))).to_vec();
        rows.insert(0, (Some("b"), Some("9")));
        rows.insert(0, (None, Some("x")));
        all_refused(&rows, &column("v", 0, 9), 3, sum);
    }
    let rows = [(Some("a"), Some("9")), (Some("b"), Some("-10"))];
    all_refused(
        &rows,
        &column("v", 0, 9),
        2,
        ValueProblem::AboveBound { bound: 9, scale: 0 },
    );
}

#[test]
fn rows_of_several_lines_are_named_by_the_line_on_which_they_start() {
    let csv = "k,v,note\na,1,\"x\ny\nz\"\n\nb,6,\"x\ny\"\nb,6,x\na,1,x\n";
    let source = source("t.csv", csv);
    let sum = ValueProblem::SumAboveBound { bound: 9, scale: 0 };
    refused(&source, &column("v", 0, 9), 2, Some(6), sum);
    let once = ValueColumn {
        sums_repeated: false,
        ..column("v", 0, 9)
    };
    let repeated = ValueProblem::Repeated;
    refused(&source, &once, 3, Some(8), repeated);
}

#[test]
fn repeated_keys_are_refused_by_row() {
    let once = ValueColumn {
        sums_repeated: false,
        ..column("v", 0, 9)
    };
    let many: Vec<String> = (0..200).map(|i| format!("k{}", i % 150)).collect();
    let rows: Vec<_> = many.iter().map(|k| (Some(&**k), Some("1"))).collect();
    let repeated = ValueProblem::Repeated;
    all_refused(&rows, &once, 151, repeated);
    // Before what is wrong with later rows.
    let later = source("t.csv", "k,v\na,1\nb,1\na,1\nc,x\n");
    refused(&later, &once, 3, Some(4), repeated);
    // Rows without a key do not repeat.
    for source in tables(&[(None, Some("1")), (None, Some("1")), (Some("a"), Some("1"))]) {
        assert_eq!(read(&source, "k", &once).unwrap(), [1]);
    }
}

#[test]
fn columns_that_are_not_there_are_named_in_every_format() {
    for source in tables(&[(Some("a"), Some("1"))]) {
        let error = read(&source, "k", &column("V", 0, 9)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::MissingColumn { .. }));
        assert_eq!(error.place().column.as_deref(), Some("V"));
        assert!(error.remedy().unwrap().to_string().contains("\"v\"?"));
    }
    // A row may lack what others have.
    let jsonl = source("t.jsonl", "{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\"}\n");
    refused(&jsonl, &column("v", 0, 9), 2, Some(2), ValueProblem::Empty);
    let jsonl = source("t.jsonl", "{\"v\":\"x\"}\n{\"k\":\"b\",\"v\":1}\n{}\n");
    assert_eq!(read(&jsonl, "k", &column("v", 0, 9)).unwrap(), [1]);
}

#[test]
fn numbers_of_every_type_are_read_exactly() {
    let assert_reads = |array: ArrayRef, scale, expected: &[i64]| {
        let kind = array.data_type().clone();
        for source in columnar(array) {
            let values = read(&source, "k", &column("v", scale, i64::MAX as u64)).unwrap();
            assert_eq!(values, expected, "{kind} in {}", source.name());
        }
    };
    assert_reads(
        Arc::new(Int8Array::from(vec![-128, 127])),
        1,
        &[-1280, 1270],
    );
    assert_reads(Arc::new(Int16Array::from(vec![-7])), 0, &[-7]);
    assert_reads(Arc::new(Int32Array::from(vec![i32::MIN])), 0, &[-1 << 31]);
    assert_reads(Arc::new(Int64Array::from(vec![-i64::MAX])), 0, &[-i64::MAX]);
    assert_reads(Arc::new(UInt8Array::from(vec![255])), 0, &[255]);
    assert_reads(Arc::new(UInt16Array::from(vec![65535])), 0, &[65535]);
    assert_reads(
        Arc::new(UInt32Array::from(vec![u32::MAX])),
        0,
        &[(1 << 32) - 1],
    );
    let large = i64::MAX as u64;
    assert_reads(Arc::new(UInt64Array::from(vec![large])), 0, &[i64::MAX]);
    let decimal = |values: Vec<i128>, scale| -> ArrayRef {
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(38, scale).unwrap())
    };
    assert_reads(decimal(vec![-1250, 5], 2), 3, &[-12500, 50]);
    // More digits than the scale declares, all of them zero.
    assert_reads(decimal(vec![10_i128.pow(30)], 29), 0, &[10]);
    assert_reads(decimal(vec![0], 38), 0, &[0]);
    let wide = Decimal256Array::from(vec![Wide::from_i128(-12_500_000)]);
    let wide = wide.with_precision_and_scale(76, 6).unwrap();
    assert_reads(Arc::new(wide), 1, &[-125]);
    let dictionary: DictionaryArray<Int8Type> = vec!["5", "-1.5", "5"].into_iter().collect();
    assert_reads(Arc::new(dictionary), 1, &[50, -15, 50]);
    let text = LargeStringArray::from(vec!["12.50"]);
    assert_reads(Arc::new(text), 2, &[1250]);
    // Parquet has no negative scale.
    let hundreds = Decimal128Array::from(vec![-12]);
    let hundreds = hundreds.with_precision_and_scale(10, -2).unwrap();
    let hundreds = batch(&[
        ("k", Arc::new(StringArray::from(vec!["a"]))),
        ("v", Arc::new(hundreds)),
    ]);
    let hundreds = source("t.arrow", arrow_file(&hundreds));
    let values = read(&hundreds, "k", &column("v", 1, 1 << 40)).unwrap();
    assert_eq!(values, [-12_000]);
}

#[test]
fn columns_without_exact_numbers_are_refused() {
    let arrays: [ArrayRef; 4] = [
        Arc::new(Float64Array::from(vec![1.0])),
        Arc::new(Float32Array::from(vec![1.0])),
        Arc::new(BooleanArray::from(vec![true])),
        Arc::new(Date32Array::from(vec![1])),
    ];
    for array in arrays {
        for source in columnar(array) {
            let error = read(&source, "k", &column("v", 0, 9)).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Data);
            assert!(matches!(error.kind(), ErrorKind::ValueType { .. }));
            assert_eq!(error.place().column.as_deref(), Some("v"));
        }
    }
    let large = UInt64Array::from(vec![Some(1), Some(u64::MAX), None]);
    for source in columnar(Arc::new(large)) {
        refused(&source, &column("v", 0, 9), 2, None, ValueProblem::TooLarge);
    }
    for source in columnar(Arc::new(Int64Array::from(vec![Some(1), None]))) {
        refused(&source, &column("v", 0, 9), 2, None, ValueProblem::Empty);
    }
}
