//! One table in several files, and texts that are not plain UTF-8 with a header.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, RunArray, StringArray,
    StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use vesica_tables::*;

/// Writes files and opens the inputs as one table.
struct Place(tempfile::TempDir);

impl Place {
    fn with(files: &[(&str, Vec<u8>)]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for (name, bytes) in files {
            let path = place.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, inputs: &[&str], options: &SourceOptions) -> Result<Source> {
        let inputs: Vec<PathBuf> = inputs.iter().map(|name| self.at(name)).collect();
        Source::open_all(&inputs, options)
    }

    fn source(&self, inputs: &[&str]) -> Source {
        self.open(inputs, &SourceOptions::default()).unwrap()
    }

    /// The error of a first pass over `id`.
    fn fails(&self, inputs: &[&str]) -> Error {
        let source = self.open(inputs, &SourceOptions::default());
        let error = source.and_then(|source| read_keys(&source, &key("id")));
        let error = error.unwrap_err();
        assert!(!error.to_string().contains('\n'), "{error}");
        assert!(
            error
                .remedy()
                .is_none_or(|remedy| !remedy.to_string().contains('\n'))
        );
        error
    }
}

fn texts(files: &[(&str, &str)]) -> Place {
    let files = files
        .iter()
        .map(|(name, text)| (*name, text.as_bytes().to_vec()));
    Place::with(&files.collect::<Vec<_>>())
}

fn numbers(range: std::ops::Range<i32>) -> RecordBatch {
    let text = StringArray::from_iter_values(range.clone().map(|i| format!("v{i}")));
    batch(&[
        (
            "id",
            Arc::new(Int32Array::from_iter_values(range)) as ArrayRef,
        ),
        ("x", Arc::new(text)),
    ])
}

#[test]
fn csv_files_are_one_table() {
    let place = texts(&[
        ("d/part-0.csv", ""),
        ("d/part-1.csv", "\u{feff}id;x\r\n1;a\r\n2;b"),
        ("d/part-2.csv", "id;x\n"),
        ("d/part-3.csv", "\n"),
        ("d/part-4.csv", "id;x\n3;c\n1;d"),
        ("d/_SUCCESS", ""),
        ("d/.part-1.csv.crc", "crc"),
    ]);
    let source = place.source(&["d"]);
    assert_eq!((source.files(), source.csv_delimiter()), (5, Some(b';')));
    assert_eq!(Path::new(source.name()), place.at("d"));
    let keys = read_keys(&source, &key("id")).unwrap();
    assert_eq!(keys.row_items(), [0, 1, 2, 0]);
    let found = String::from_utf8(filtered(&source, "id", |_| true)).unwrap();
    assert_eq!(found, "\u{feff}id;x\r\n1;a\r\n2;b\r\n3;c\n1;d");
    let found = String::from_utf8(filtered(&source, "id", |i| i == 2)).unwrap();
    assert_eq!(found, "\u{feff}id;x\r\n3;c\n");
    let check = check(&source, &key("id")).unwrap();
    assert_eq!((check.files, check.counts.rows), (5, 4));

    // The order of the inputs does not count.
    let source = place.source(&["d/part-4.csv", "d/part-1.csv"]);
    assert!(
        source.name().ends_with("part-1.csv and 1 more"),
        "{}",
        source.name()
    );
    assert_eq!(filtered(&source, "id", |_| true).len(), 26);
}

#[test]
fn json_lines_are_one_table_and_fields_may_be_absent() {
    let place = texts(&[
        ("a.jsonl", "{\"x\":1}"),
        ("b.jsonl", "\n"),
        ("c.jsonl", "{\"id\":1}\n{\"x\":2}"),
        ("d.jsonl", ""),
    ]);
    let source = place.source(&["*.jsonl"]);
    assert_eq!(read_keys(&source, &key("id")).unwrap().row_items().len(), 3);
    let keys = read_keys(&source, &key("id")).unwrap();
    let mut out = Vec::new();
    let mut all = keys.rows_of(&[true]);
    all.insert(0);
    all.insert(2);
    write_rows_to(&source, &all, &mut out).unwrap();
    assert_eq!(out, b"{\"x\":1}\n{\"id\":1}\n{\"x\":2}");
    let error = place.fails(&["a.jsonl", "b.jsonl"]);
    assert!(matches!(error.kind(), ErrorKind::MissingColumn { .. }));
}

type Write = fn(&RecordBatch) -> Vec<u8>;

#[test]
fn files_of_batches_are_one_table() {
    for (extension, write) in [
        ("parquet", parquet as Write),
        ("arrow", arrow_file),
        ("arrows", arrow_stream),
    ] {
        let name = |i: i32| format!("part-{i}.{extension}");
        let place = Place::with(&[
            (&name(0), write(&numbers(0..9))),
            (&name(1), write(&numbers(9..9))),
            (&name(2), write(&numbers(7..20))),
        ]);
        let source = place.source(&[&format!("part-*.{extension}")]);
        let keys = read_keys(&source, &key("id")).unwrap();
        assert_eq!(keys.counts().rows, 22, "{extension}");
        assert_eq!(keys.digests().len(), 20);
        let rows = keys.rows_of(&keys.matched([0, 8, 19]).unwrap());
        let (_, batches) = select_rows(&source, &rows).unwrap();
        let ids: Vec<i32> = batches
            .iter()
            .flat_map(|b| {
                b["id"]
                    .as_any()
                    .downcast_ref::<Int32Array>()
                    .unwrap()
                    .values()
            })
            .copied()
            .collect();
        assert_eq!(ids, [0, 8, 8, 19]);
        let written = filtered(&source, "id", |i| [0, 8, 19].contains(&i));
        let back = crate::common::source(&format!("t.{extension}"), written);
        assert_eq!(read_keys(&back, &key("x")).unwrap().counts().rows, 4);
    }
}

#[test]
fn files_that_are_not_alike_are_named() {
    let place = Place::with(&[
        ("a.csv", b"id,x\n1,2\n".to_vec()),
        ("b.csv", b"x,id\n2,1\n".to_vec()),
        ("c.csv", b"id,y\n1,2\n".to_vec()),
        ("d.jsonl", b"{\"id\":1}\n".to_vec()),
        ("e.parquet", parquet(&numbers(0..3))),
        (
            "f.parquet",
            parquet(&batch(&[(
                "id",
                Arc::new(Int32Array::from_iter_values(0..3)) as ArrayRef,
            )])),
        ),
        (
            "g.parquet",
            parquet(&batch(&[
                (
                    "id",
                    Arc::new(StringArray::from_iter_values(["a"])) as ArrayRef,
                ),
                ("x", Arc::new(StringArray::from_iter_values(["a"]))),
            ])),
        ),
        ("h.parquet", Vec::new()),
        ("i.csv", b"id;x\n1;2\n".to_vec()),
    ]);
    let format = Difference::Format {
        found: "jsonl".into(),
        expected: "csv".into(),
    };
    let delimiter = Difference::Delimiter {
        found: ';',
        expected: ',',
    };
    let of_type = Difference::Type {
        column: "id".into(),
        found: "Utf8".into(),
        expected: "Int32".into(),
    };
    for (first, second, expected) in [
        ("a.csv", "b.csv", Difference::Order),
        ("a.csv", "i.csv", delimiter),
        ("a.csv", "c.csv", Difference::Missing("x".into())),
        ("a.csv", "d.jsonl", format),
        ("e.parquet", "f.parquet", Difference::Missing("x".into())),
        ("e.parquet", "g.parquet", of_type),
    ] {
        let error = place.fails(&[first, second]);
        let [first, second] = [first, second].map(|file| place.at(file).display().to_string());
        assert_eq!(error.place().path, Some(second));
        let ErrorKind::OtherColumns { than, how } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!((than, how), (&first, &expected));
        assert_eq!(error.class(), ErrorClass::Data);
    }
    let empty = place.fails(&["e.parquet", "h.parquet"]);
    assert!(matches!(empty.kind(), ErrorKind::Empty), "{empty}");
    let name = place.at("h.parquet").display().to_string();
    assert_eq!(empty.place().path, Some(name));
    let twice = place.fails(&["a.csv", "./a.csv"]);
    assert_eq!(twice.class(), ErrorClass::Usage, "{twice}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(place.at("a.csv"), place.at("link.csv")).unwrap();
        let twice = place.fails(&["a.csv", "link.csv"]);
        assert_eq!(twice.class(), ErrorClass::Usage);
        let link = place.at("link.csv").display().to_string();
        assert_eq!(twice.place().path, Some(link));
    }
}

#[test]
fn an_error_names_the_file_and_its_own_row() {
    let place = texts(&[
        ("a.csv", "id,x\n1,2\n2,3\n"),
        ("b.csv", "id,x\n3,4\n4,5,6\n"),
        ("c.csv", "id,x\n5,6\n"),
    ]);
    let error = place.fails(&["?.csv"]);
    let name = place.at("b.csv").display().to_string();
    let expected = vesica_tables::Place {
        path: Some(name),
        row: Some(2),
        line: Some(3),
        column: None,
    };
    assert_eq!(*error.place(), expected);

    // A sum exceeds its bound in the last file, but its key's first row is in another.
    let value = ValueColumn {
        name: "x".into(),
        scale: 0,
        bound: 10,
        sums_repeated: true,
    };
    let place = texts(&[
        ("a.csv", "id,x\n1,2\n2,3\n"),
        ("b.csv", "id,x\n3,4\n4,6\n"),
        ("c.csv", "id,x\n5,6\n4,5\n"),
    ]);
    let source = place.source(&["?.csv"]);
    let nowhere = Path::new("");
    let read = |value: &ValueColumn| {
        let values = std::slice::from_ref(value);
        read_keys_within(&source, &key("id"), values, None, u64::MAX, nowhere)
    };
    let error = read(&value).unwrap_err();
    let expected = place.at("b.csv").display().to_string();
    assert_eq!(error.place().path.as_deref(), Some(&*expected));
    assert_eq!(error.place().row, Some(2), "{error}");
    let refused = ValueColumn {
        sums_repeated: false,
        ..value
    };
    let error = read(&refused).unwrap_err();
    let expected = place.at("c.csv").display().to_string();
    assert_eq!(error.place().path.as_deref(), Some(&*expected));
    assert_eq!(error.place().row, Some(2), "{error}");
}

#[test]
fn files_without_a_row_are_no_table() {
    let place = texts(&[
        ("a.csv", "id,x\n"),
        ("b.csv", "id,x\n"),
        ("c/x.csv", ""),
        ("c/y.csv", ""),
    ]);
    let error = place.fails(&["?.csv"]);
    assert!(matches!(error.kind(), ErrorKind::NoRows { .. }), "{error}");
    let error = place.fails(&["c"]);
    assert!(matches!(error.kind(), ErrorKind::Empty), "{error}");
    let options = SourceOptions {
        allow_no_rows: true,
        ..SourceOptions::default()
    };
    let source = place.open(&["?.csv"], &options).unwrap();
    assert_eq!(read_keys(&source, &key("id")).unwrap().counts().rows, 0);
}

#[test]
fn a_file_that_changes_is_named() {
    let place = texts(&[("a.csv", "id\n1\n"), ("b.csv", "id\n2\n")]);
    let source = place.source(&["?.csv"]);
    let keys = read_keys(&source, &key("id")).unwrap();
    fs::write(place.at("b.csv"), "id\n2\n3\n").unwrap();
    let error = write_rows_to(&source, &keys.rows_of(&[true; 2]), &mut Vec::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed));
    let name = place.at("b.csv").display().to_string();
    assert_eq!(error.place().path, Some(name));
}

/// An Arrow file has room for one dictionary, so that a result of several has the values.
#[test]
fn dictionaries_of_several_arrow_files_become_their_values() {
    let of = |text: &str| {
        let words: DictionaryArray<Int32Type> = text.split(' ').collect();
        arrow_file(&batch(&[
            ("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
            ("d", Arc::new(words)),
        ]))
    };
    let place = Place::with(&[("a.arrow", of("x")), ("b.arrow", of("y"))]);
    let source = place.source(&["?.arrow"]);
    let keys = read_keys(&source, &key("id")).unwrap();
    let mut out = Vec::new();
    write_rows_to(&source, &keys.rows_of(&[true]), &mut out).unwrap();
    let written = Source::from_bytes("o.arrow", out, SourceOptions::default()).unwrap();
    let keys = read_keys(&written, &key("d")).unwrap();
    let (schema, _) = select_rows(&written, &keys.rows_of(&[true; 2])).unwrap();
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    assert_eq!(
        keys.digests(),
        read_keys(&place.source(&["?.arrow"]), &key("d"))
            .unwrap()
            .digests()
    );
}

#[test]
fn text_without_a_header() {
    let options = SourceOptions {
        csv: CsvOptions {
            header: false,
            ..CsvOptions::default()
        },
        ..SourceOptions::default()
    };
    let place = texts(&[
        ("a.csv", "x;1\r\ny;2"),
        ("b.csv", "z;1\nw;9"),
        ("c.csv", "v;3\n"),
    ]);
    let source = place.open(&["?.csv"], &options).unwrap();
    assert_eq!(
        read_keys(&source, &key("2")).unwrap().row_items(),
        [0, 1, 0, 2, 3]
    );
    assert_eq!(filtered(&source, "2", |i| i == 0), b"x;1\r\nz;1\n");
    assert_eq!(
        filtered(&source, "1", |_| true),
        b"x;1\r\ny;2\r\nz;1\nw;9\nv;3\n"
    );
    let error = read_keys(&source, &key("3")).unwrap_err();
    let ErrorKind::MissingColumn { available } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(available[..], ["1", "2"]);
    let of_json = Source::from_bytes("t.jsonl", b"{\"id\":1}".to_vec(), options);
    assert_eq!(of_json.unwrap_err().class(), ErrorClass::Usage);
}

#[test]
fn text_in_another_encoding() {
    let read = |name: &str, bytes: &[u8]| {
        let options = SourceOptions {
            encoding: Some(name.parse().unwrap()),
            ..SourceOptions::default()
        };
        Source::from_bytes("t.csv", bytes.to_vec(), options)
    };
    let utf8 = source("t.csv", "id;x\né;1\nü;2\n");
    let expected = read_keys(&utf8, &key("id")).unwrap();
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    for (name, bytes) in [
        ("latin1", b"id;x\n\xe9;1\n\xfc;2\n".to_vec()),
        ("utf-16", utf16("id;x\né;1\nü;2\n")),
        ("utf-16", utf16("\u{feff}id;x\né;1\nü;2\n")),
        ("latin1", zstd(b"id;x\n\xe9;1\n\xfc;2\n")),
    ] {
        let source = read(name, &bytes).unwrap();
        let keys = read_keys(&source, &key("id")).unwrap();
        assert_eq!(keys.digests(), expected.digests());
        let found = filtered(&source, "id", |i| i == 1);
        assert_eq!(String::from_utf8(found).unwrap(), "id;x\nü;2\n");
    }
    let damaged = read("shift_jis", b"id,x\n1,a\n2,\xff\n").unwrap();
    let error = read_keys(&damaged, &key("id")).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Data);
    assert_eq!(error.place().row, Some(2), "{error}");
    assert!(error.to_string().contains("Shift_JIS"), "{error}");
}

fn nested() -> RecordBatch {
    let zip = StringArray::from(vec![Some("1010"), Some("9000"), None, Some("1010")]);
    let geo = StructArray::from(vec![(
        Arc::new(Field::new("lat", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![1, 2, 3, 1])) as ArrayRef,
    )]);
    let fields: Fields = vec![
        Field::new("zip", DataType::Utf8, true),
        Field::new("geo", geo.data_type().clone(), true),
    ]
    .into();
    let nulls = NullBuffer::from(vec![true, true, true, false]);
    let address = StructArray::new(fields, vec![Arc::new(zip), Arc::new(geo)], Some(nulls));
    let dotted = StringArray::from(vec!["a", "b", "c", "d"]);
    batch(&[
        ("address", Arc::new(address) as ArrayRef),
        ("address.dotted", Arc::new(dotted)),
    ])
}

#[test]
fn nested_columns_by_their_paths() {
    let json = "{\"address\":{\"zip\":\"1010\",\"geo\":{\"lat\":1}},\"address.dotted\":\"a\"}\n\
                {\"address\":{\"zip\":\"9000\",\"geo\":{\"lat\":2}},\"address.dotted\":\"b\"}\n\
                {\"address\":{\"zip\":null,\"geo\":{\"lat\":3}},\"address.dotted\":\"c\"}\n\
                {\"address\":null,\"address.dotted\":\"d\"}\n";
    for (path, items) in [
        ("address.zip", [0, 1, u32::MAX, u32::MAX]),
        ("address.geo.lat", [0, 1, 2, u32::MAX]),
        ("address.dotted", [0, 1, 2, 3]),
    ] {
        let expected = keys("t.jsonl", json, path).unwrap();
        assert_eq!(expected.row_items(), items, "{path}");
        for (name, bytes) in [
            ("t.parquet", parquet(&nested())),
            ("t.arrow", arrow_file(&nested())),
            ("t.arrows", arrow_stream(&nested())),
        ] {
            let keys = keys(name, bytes, path).unwrap();
            assert_eq!(keys.row_items(), items, "{name} {path}");
            assert_eq!(keys.digests(), expected.digests());
        }
    }
    for bytes in [parquet(&nested()), arrow_file(&nested())] {
        let error = keys("t", bytes.clone(), "address.zap").unwrap_err();
        assert_eq!(
            error.remedy().unwrap().to_string(),
            "did you mean \"address.zip\"?"
        );
        for path in ["address", "address.geo", "address.zip.x"] {
            assert!(keys("t", bytes.clone(), path).is_err(), "{path}");
        }
    }
}

#[test]
fn run_end_encoded_columns() {
    let words: RunArray<Int32Type> = [Some("a"), Some("a"), None, Some("b"), Some("a")]
        .into_iter()
        .collect();
    let table = batch(&[("id", Arc::new(words) as ArrayRef)]);
    let expected = keys("t.csv", "id,x\na,1\na,1\n,1\nb,1\na,1\n", "id").unwrap();
    for (name, bytes) in [
        ("t.arrow", arrow_file(&table)),
        ("t.arrows", arrow_stream(&table)),
    ] {
        let source = source(name, bytes);
        let keys = read_keys(&source, &key("id")).unwrap();
        assert_eq!(keys.row_items(), expected.row_items());
        assert_eq!(keys.digests(), expected.digests());
        let written = filtered(&source, "id", |i| i == 1);
        let back = crate::common::source(name, written);
        assert_eq!(
            read_keys(&back, &key("id")).unwrap().digests(),
            &expected.digests()[1..]
        );
    }
    let sliced = table.slice(1, 3);
    let source = Source::from_batches(
        "t",
        sliced.schema(),
        vec![sliced],
        &SourceOptions::default(),
    );
    let keys = read_keys(&source.unwrap(), &key("id")).unwrap();
    assert_eq!(keys.row_items(), [0, NO_ITEM, 1]);
}

/// What an announcement of a run goes by.
#[test]
fn rows_are_counted_approximately_before_they_are_read() {
    let lines: String = (0..50_000).map(|i| format!("key{i:05},x\n")).collect();
    let csv = format!("k,v\n{lines}");
    let about = |name: &str, bytes: Vec<u8>| approximate_rows(&source(name, bytes));
    let rows = about("t.csv", csv.clone().into()).unwrap();
    assert!(rows.abs_diff(50_000) < 1500, "{rows}");
    // Only reading tells.
    assert_eq!(about("t.csv.gz", gzip(csv.as_bytes())), None);
    let strings = StringArray::from_iter_values((0..777).map(|i| i.to_string()));
    let batch = batch(&[("k", Arc::new(strings))]);
    assert_eq!(about("t.arrow", arrow_file(&batch)), None);
    assert_eq!(about("t.parquet", parquet(&batch)), Some(777));
}

/// What a store is asked for while rows are written says nothing of which these are.
#[cfg(feature = "object-stores")]
#[test]
fn a_store_does_not_learn_which_rows_are_wanted() {
    use vesica_testing::{ObjectServer, Request};
    let server = ObjectServer::start();
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..40));
    // Rows that do not compress, so that groups of them are far from each other.
    let mut state = 1u64;
    let text = |_| {
        let mut letter = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            char::from(b'!' + (state >> 58) as u8)
        };
        (0..16 << 10).map(|_| letter()).collect::<String>()
    };
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..40).map(text)));
    let table = batch(&[("id", ids), ("text", texts)]);
    for (name, content) in [
        ("t.parquet", parquet(&table)),
        ("t.arrow", arrow_file(&table)),
    ] {
        server.put(&format!("/b/{name}"), content);
        let address = format!("http://{}/b/{name}", server.address());
        let asked = |wanted: &dyn Fn(usize) -> bool| {
            let source = Source::open(&address, SourceOptions::default()).unwrap();
            let keys = read_keys(&source, &key("id")).unwrap();
            let matched: Vec<bool> = (0..keys.digests().len()).map(wanted).collect();
            server.requests();
            let mut out = Vec::new();
            let rows = write_rows_to(&source, &keys.rows_of(&matched), &mut out).unwrap();
            let mut ranges: Vec<_> = server.requests().iter().map(Request::range).collect();
            ranges.sort_unstable();
            (rows, ranges)
        };
        let (none, all) = (asked(&|_| false), asked(&|_| true));
        let (one, last) = (asked(&|item| item == 17), asked(&|item| item == 39));
        assert_eq!([none.0, all.0, one.0, last.0], [0, 40, 1, 1]);
        assert!(!all.1.is_empty());
        assert!(
            [none.1, one.1, last.1]
                .iter()
                .all(|ranges| *ranges == all.1),
            "{name}"
        );
    }
}

#[test]
fn the_time_of_every_format_s_bytes_counts() {
    let ids = Arc::new(Int32Array::from_iter_values(0..50)) as ArrayRef;
    let more = [("id", ids.clone()), ("more", ids)];
    let table = batch(&more);
    let text = (0..50).map(|i| format!("{i},{i}\n")).collect::<String>();
    let files = [
        ("a.csv", ("id,more\n".to_owned() + &text).into_bytes()),
        ("a.parquet", parquet(&table)),
        ("a.arrow", arrow_file(&table)),
        ("a.arrows", arrow_stream(&table)),
    ];
    let place = Place::with(&files);
    for (name, _) in files {
        let source = place.source(&[name]);
        for _pass in 0..2 {
            let (before, began) = (source.wait_time(), std::time::Instant::now());
            let keys = read_keys(&source, &key("id,more")).unwrap();
            let waited = source.wait_time() - before;
            assert_eq!(keys.digests().len(), 50, "{name}");
            assert!(!waited.is_zero() && waited <= began.elapsed(), "{name}");
        }
    }
}

/// Writes a file, and the directories above it.
fn put(place: &Path, name: &str, bytes: &[u8]) {
    let path = place.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A column of numbers as text.
fn text_file(batch: &RecordBatch, header: &str, row: impl Fn(i64) -> String) -> Vec<u8> {
    let values = batch.column(0).as_primitive::<Int64Type>().values();
    let rows: String = values.iter().map(|value| row(*value)).collect();
    format!("{header}{rows}").into_bytes()
}

fn csv_file(batch: &RecordBatch) -> Vec<u8> {
    text_file(batch, "n\n\n", |value| format!("{value}\n"))
}

fn lines_of_json(batch: &RecordBatch) -> Vec<u8> {
    text_file(batch, "", |value| format!("{{\"n\":{value}}}\n"))
}

#[test]
fn directories_say_columns() {
    let place = tempfile::tempdir().unwrap();
    let rows = |values: &[i64]| batch(&[("n", Arc::new(Int64Array::from(values.to_vec())) as _)]);
    for (kind, bytes) in [
        ("parquet", parquet as fn(&RecordBatch) -> Vec<u8>),
        ("arrow", arrow_file),
        ("arrows", arrow_stream),
        ("csv", csv_file),
        ("jsonl", lines_of_json),
    ] {
        let at = |name: &str| place.path().join(kind).join(name);
        for (name, values) in [
            ("day=2026-01-01/c=a%2Fb/p", &[1, 2][..]),
            ("day=2026-01-02/c=__HIVE_DEFAULT_PARTITION__/p", &[1]),
            ("day=2026-01-02/c=x/p", &[3]),
        ] {
            put(&at(""), &format!("{name}.{kind}"), &bytes(&rows(values)));
        }
        put(&at(""), "_SUCCESS", b"");
        for (input, columns, expected) in [
            (
                "",
                &[][..],
                "n,day,c\n1,2026-01-01,a/b\n2,2026-01-01,a/b\n1,2026-01-02,\n3,2026-01-02,x\n",
            ),
            ("day=*2", &["c", "n"], "c,n\n,1\nx,3\n"),
            (
                "day=*/*/*",
                &["day"],
                "day\n2026-01-01\n2026-01-01\n2026-01-02\n2026-01-02\n",
            ),
        ] {
            let options = SourceOptions {
                columns: columns.iter().map(|name| (*name).to_owned()).collect(),
                ..SourceOptions::default()
            };
            let source = Source::open(at(input), options).unwrap();
            let keys = read_keys(&source, &key("day,n")).unwrap();
            assert_eq!(keys.counts().blanks, 0);
            let matched: Vec<usize> = (0..keys.digests().len()).collect();
            let matched = keys.rows_of(&keys.matched(matched).unwrap());
            for name in ["out.csv", &format!("out.{kind}")] {
                let path = place.path().join(name);
                let mut output = Output::create(&path, &source).unwrap();
                output.check_rows(&source, keys.counts()).unwrap();
                write_rows(&source, &matched, &mut output).unwrap();
                output.commit().unwrap();
                let written = Source::open(&path, SourceOptions::default()).unwrap();
                let mut all = RowSet::none(matched.rows());
                (0..matched.rows()).for_each(|row| all.insert(row));
                let mut text = Output::create(&place.path().join("again.csv"), &written).unwrap();
                write_rows(&written, &all, &mut text).unwrap();
                text.commit().unwrap();
                let found = std::fs::read_to_string(place.path().join("again.csv")).unwrap();
                assert_eq!(found, expected, "{kind} {input} {name}");
            }
        }
        // By itself, a column of directories is a key as well.
        let source = Source::open(at(""), SourceOptions::default()).unwrap();
        assert_eq!(read_keys(&source, &key("c")).unwrap().counts().blanks, 1);
        assert_eq!(read_keys(&source, &key("day")).unwrap().counts().items, 2);
        // A file by itself, and one of other directories.
        let alone = Source::open(at("day=2026-01-02/c=x"), SourceOptions::default()).unwrap();
        assert!(read_keys(&alone, &key("day")).is_err());
        put(&at(""), &format!("c=1/p.{kind}"), &bytes(&rows(&[4])));
        let other = Source::open(at(""), SourceOptions::default());
        let error = other
            .and_then(|other| read_keys(&other, &key("n")))
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OtherColumns { .. }),
            "{error}"
        );
    }
    put(place.path(), "own/n=1/p.parquet", &parquet(&rows(&[1])));
    let own = Source::open(place.path().join("own"), SourceOptions::default()).unwrap();
    let error = read_keys(&own, &key("n")).unwrap_err();
    assert!(error.to_string().contains("\"n\""), "{error}");
    // Without a header, CSV has no names.
    put(place.path(), "numbered/day=1/p.csv", b"1\n");
    let no_header = SourceOptions {
        csv: CsvOptions {
            header: false,
            ..CsvOptions::default()
        },
        ..SourceOptions::default()
    };
    let error = Source::open(place.path().join("numbered"), no_header.clone()).unwrap_err();
    assert!(
        error.to_string().contains("CSV without a header"),
        "{error}"
    );
    let pattern = Source::open(place.path().join("numbered/*/p.csv"), no_header).unwrap();
    assert_eq!(read_keys(&pattern, &key("1")).unwrap().counts().rows, 1);
    assert!(read_keys(&pattern, &key("2")).is_err());
}
