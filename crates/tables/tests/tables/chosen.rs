//! Results with some columns of the table, in another order.

use std::sync::Arc;

use crate::common::*;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use vesica_tables::*;

fn options(columns: &[&str], rows: Rows) -> SourceOptions {
    SourceOptions {
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows,
        ..SourceOptions::default()
    }
}

/// What a result has of these columns of the table if the first key matches.
fn result(name: &str, bytes: &[u8], columns: &[&str], rows: Rows) -> Result<Vec<u8>> {
    let source = Source::from_bytes(name, bytes.to_vec(), options(columns, rows))?;
    let keys = read_keys(&source, &key("n"))?;
    let matched = keys.rows_of(&keys.matched([0])?);
    let mut out = Vec::new();
    write_rows_to(&source, &matched, &mut out)?;
    Ok(out)
}

fn text(table: &str, columns: &[&str], rows: Rows) -> String {
    let name = if table.starts_with('{') {
        "t.jsonl"
    } else {
        "t.csv"
    };
    String::from_utf8(result(name, table.as_bytes(), columns, rows).unwrap()).unwrap()
}

#[test]
fn text_keeps_its_quotes_and_line_ends() {
    let table = "\u{feff}n,\"a,b\",c,d\r\n1,\"x\",\"y \"\"z\"\"\r\n\",\r\n2,,\"\",w\r\n";
    for (columns, expected) in [
        (
            &["d", "c", "a,b"][..],
            "\u{feff}d,c,\"a,b\"\r\n,\"y \"\"z\"\"\r\n\",\"x\"\r\n",
        ),
        (&["n"], "\u{feff}n\r\n1\r\n"),
        // A line of nothing would be no row.
        (&["d"], "\u{feff}d\r\n\"\"\r\n"),
        (
            &[],
            "\u{feff}n,\"a,b\",c,d\r\n1,\"x\",\"y \"\"z\"\"\r\n\",\r\n",
        ),
    ] {
        assert_eq!(
            text(table, columns, Rows::Matching),
            expected,
            "{columns:?}"
        );
    }
    assert_eq!(
        text(table, &["c", "n"], Rows::Rest),
        "\u{feff}c,n\r\n\"\",2\r\n"
    );
    assert_eq!(
        text(table, &["d", "n"], Rows::All),
        "\u{feff}d,n,in_both\r\n,1,true\r\nw,2,false\r\n"
    );
    // The name of an added column is free where the table's own is left out.
    let taken = "n,in_both\n1,x\n2,y\n";
    assert_eq!(
        text(taken, &["n"], Rows::All),
        "n,in_both\n1,true\n2,false\n"
    );
    assert!(result("t.csv", taken.as_bytes(), &["in_both"], Rows::All).is_err());
    assert!(result("t.csv", taken.as_bytes(), &[], Rows::All).is_err());
}

#[test]
fn bytes_of_other_encodings_and_columns_without_names_are_kept() {
    let table = b"1;\xe9;x\n2;b;y\n";
    let options = SourceOptions {
        csv: CsvOptions {
            header: false,
            ..CsvOptions::default()
        },
        ..options(&["3", "2"], Rows::Matching)
    };
    let source = Source::from_bytes("t.csv", table.to_vec(), options).unwrap();
    let keys = read_keys(&source, &key("1")).unwrap();
    let matched = keys.rows_of(&keys.matched([0]).unwrap());
    let mut out = Vec::new();
    write_rows_to(&source, &matched, &mut out).unwrap();
    assert_eq!(out, b"x;\xe9\n");
}

#[test]
fn objects_have_the_fields_that_they_had() {
    let table =
        "{\"n\":1,\"a\":{\"b\":[1, 2]},\"\\u0063\":\"\\u00e9\"}\n\n{\"c\":null,\"n\":2}\r\n";
    for (rows, expected) in [
        (Rows::Matching, "{\"c\":\"\\u00e9\",\"a\":{\"b\":[1, 2]}}\n"),
        (Rows::Rest, "{\"c\":null}\r\n"),
        (
            Rows::All,
            "{\"c\":\"\\u00e9\",\"a\":{\"b\":[1, 2]},\"in_both\":true}\n{\"c\":null,\"in_both\":false}\r\n",
        ),
    ] {
        assert_eq!(text(table, &["c", "a"], rows), expected, "{rows:?}");
    }
    assert_eq!(
        text("{\"n\":1}\n{\"n\":2,\"a\":0}\n", &["a"], Rows::Matching),
        "{}\n"
    );
    // A field that the result has is read, and occurs once.
    assert!(result("t.jsonl", b"{\"n\":1,\"a\":1,\"a\":2}\n", &["a"], Rows::All).is_err());
    assert!(result("t.jsonl", b"{\"n\":1,\"a\":1,\"a\":2}\n", &["n"], Rows::All).is_ok());
}

fn typed() -> RecordBatch {
    let ids = [[7u8; 16], [8; 16]];
    let columns: [(&str, ArrayRef); 3] = [
        ("n", Arc::new(Int64Array::from(vec![1, 2]))),
        ("name", Arc::new(StringArray::from(vec!["ann", "bob"]))),
        (
            "id",
            Arc::new(FixedSizeBinaryArray::try_from_iter(ids.iter()).unwrap()),
        ),
    ];
    batch(&columns)
}

#[test]
fn types_stay_in_other_orders() {
    for (name, bytes) in [
        ("t.parquet", parquet(&typed())),
        ("t.arrow", arrow_file(&typed())),
        ("t.arrows", arrow_stream(&typed())),
    ] {
        let found = result(name, &bytes, &["id", "n"], Rows::All).unwrap();
        let mut all = RowSet::none(2);
        (0..2).for_each(|row| all.insert(row));
        let (schema, batches) = select_rows(&source(name, found), &all).unwrap();
        let fields = schema.fields().iter();
        let fields: Vec<_> = fields
            .map(|field| (&**field.name(), field.data_type()))
            .collect();
        let expected = [
            ("id", &DataType::FixedSizeBinary(16)),
            ("n", &DataType::Int64),
            (Rows::IN_BOTH, &DataType::Boolean),
        ];
        assert_eq!(fields, expected, "{name}");
        assert_eq!(batches[0].column(0), typed().column(2), "{name}");
        assert_eq!(batches[0].column(1), typed().column(0), "{name}");
        // In memory as in files.
        let source = Source::from_bytes(name, bytes, options(&["name"], Rows::Matching)).unwrap();
        let (schema, batches) = select_rows(&source, &all).unwrap();
        assert_eq!(schema.fields().len(), 1);
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    }
}

#[test]
fn other_formats_need_room_for_the_chosen_columns_alone() {
    let lists =
        arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([
            Some(vec![Some(1)]),
            None,
        ]);
    let table = batch(&[
        ("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
        ("lists", Arc::new(lists)),
        ("name", Arc::new(StringArray::from(vec!["ann", "bob"]))),
    ]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.csv");
    let open = |columns: &[&str]| {
        let options = options(columns, Rows::Matching);
        Source::from_bytes("t.parquet", parquet(&table), options).unwrap()
    };
    assert!(Output::create(&path, &open(&[])).is_err());
    let source = open(&["name", "n"]);
    let mut output = Output::create(&path, &source).unwrap();
    let keys = read_keys(&source, &key("n")).unwrap();
    output.check_rows(&source, keys.counts()).unwrap();
    let matched = keys.rows_of(&keys.matched([1]).unwrap());
    write_rows(&source, &matched, &mut output).unwrap();
    output.commit().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "name,n\nbob,2\n");
    // Text becomes typed columns in the same way.
    let csv = Source::from_bytes(
        "t.csv",
        "a,n,b\nx,1,y\n".into(),
        options(&["b", "a"], Rows::All),
    );
    let csv = csv.unwrap();
    let path = directory.path().join("out.jsonl");
    let mut output = Output::create(&path, &csv).unwrap();
    let keys = read_keys(&csv, &key("n")).unwrap();
    write_rows(
        &csv,
        &keys.rows_of(&keys.matched([0]).unwrap()),
        &mut output,
    )
    .unwrap();
    output.commit().unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"b\":\"y\",\"a\":\"x\",\"in_both\":true}\n"
    );
}

#[test]
fn columns_that_are_not_there_are_named() {
    let batch = typed();
    for (name, bytes) in [
        ("t.csv", b"n,name\n1,ann\n".to_vec()),
        ("t.jsonl", b"{\"n\":1,\"name\":\"ann\"}\n".to_vec()),
        ("t.parquet", parquet(&batch)),
        ("t.arrow", arrow_file(&batch)),
    ] {
        let error = result(name, &bytes, &["n", "nmae"], Rows::Matching).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::MissingColumn { .. }),
            "{name}: {error}"
        );
        assert_eq!(error.place().column.as_deref(), Some("nmae"), "{name}");
        let hint = format!("{:?}", error.remedy());
        assert!(hint.contains("name"), "{name}: {hint}");
        let twice = Source::from_bytes(name, bytes, options(&["n", "n"], Rows::Matching));
        assert_eq!(twice.unwrap_err().class(), ErrorClass::Usage, "{name}");
    }
    let names = "n,a,a\n1,x,y\n".as_bytes();
    assert!(result("t.csv", names, &["a"], Rows::Matching).is_err());
    assert!(result("t.csv", names, &["n"], Rows::Matching).is_ok());
}
