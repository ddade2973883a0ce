//! Bad input: the right exit code, one clear line with the place, and never a panic.

use std::sync::Arc;

use crate::common::*;
use arrow_array::{ArrayRef, Float64Array, Int32Array, ListArray, RecordBatch, types::Int32Type};
use proptest::prelude::*;
use vesica_tables::*;

fn fails(name: &str, bytes: impl Into<Vec<u8>>, columns: &str) -> Error {
    let error = keys(name, bytes, columns).unwrap_err();
    let line = error.to_string();
    assert!(!line.contains('\n') && line.starts_with(name), "{line}");
    assert!(
        error
            .remedy()
            .is_none_or(|remedy| !remedy.to_string().contains('\n'))
    );
    assert_eq!(error.class(), ErrorClass::Data, "{line}");
    error
}

fn remedy(error: &Error) -> String {
    error.remedy().unwrap().to_string()
}

fn place(error: &Error) -> (Option<u64>, Option<u64>, Option<&str>) {
    let place = error.place();
    (place.row, place.line, place.column.as_deref())
}

fn small() -> RecordBatch {
    batch(&[
        (
            "id",
            Arc::new(Int32Array::from_iter_values(0..40)) as ArrayRef,
        ),
        (
            "float",
            Arc::new(Float64Array::from_iter_values((0..40).map(f64::from))),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                (0..40).map(|i| Some([Some(i)])),
            )),
        ),
    ])
}

#[test]
fn files_that_are_not_there() {
    let open = |path: &str| Source::open(path, SourceOptions::default()).unwrap_err();
    let missing = open("/nonexistent/t.csv");
    assert!(matches!(missing.kind(), ErrorKind::MissingFile));
    let place = missing.place();
    assert_eq!(place.path.as_deref(), Some("/nonexistent/t.csv"));
    assert_eq!(missing.class(), ErrorClass::Data);
    let directory = open(env!("CARGO_MANIFEST_DIR"));
    assert!(matches!(directory.kind(), ErrorKind::Subdirectory { .. }));
    assert_eq!(directory.class(), ErrorClass::Data);
}

#[test]
fn parquet_metadata_that_claims_more_than_there_is() {
    // A field that nobody knows, a list of 2^31 - 1 booleans, in place of the end of the metadata.
    let claim = [0xf9, 0xf2, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
    let mut file = parquet(&small());
    let length = file.len() - 8;
    let metadata = u32::from_le_bytes(file[length..length + 4].try_into().unwrap());
    file.splice(length - 1.., claim);
    file.extend((metadata + claim.len() as u32 - 1).to_le_bytes());
    file.extend(b"PAR1");
    let error = fails("t.parquet", file, "id");
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt { reason } if reason.contains("metadata")),
        "{error}"
    );

    // The same in the header of the first page.
    let mut file = parquet(&small());
    file[4..4 + claim.len()].copy_from_slice(&claim);
    let error = fails("t.parquet", file, "id");
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt { reason } if reason.contains("metadata")),
        "{error}"
    );
}

/// Each page would count for one of them, and be kept for both.
#[test]
fn columns_of_parquet_share_no_bytes() {
    let overlap = include_bytes!("../../../../vectors/tables/overlap.parquet");
    let error = fails("t.parquet", overlap.to_vec(), "c0");
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt { reason } if reason.contains("share")),
        "{error}"
    );
}

#[test]
fn columns() {
    let text = "id,e-mail,x,x\n1,2,3,4\n";
    let missing = fails("t.csv", text, "email");
    let ErrorKind::MissingColumn { available } = missing.kind() else {
        panic!("{missing}");
    };
    assert_eq!(available[..], ["id", "e-mail", "x", "x"]);
    assert_eq!(place(&missing), (None, None, Some("email")));
    // The nearest name, or else all of them, quoted.
    assert!(remedy(&missing).contains("\"e-mail\"?"));
    let all = remedy(&fails("t.csv", text, "country"));
    assert!(all.ends_with(r#""id", "e-mail", "x", "x""#), "{all}");
    let evil = r#"{"\u001b[31mEVIL": 1, "y": 2}"#;
    let evil = remedy(&fails("t.jsonl", evil, "country"));
    assert!(evil.ends_with(r#""\u{1b}[31mEVIL", "y""#), "{evil}");
    // What may be a row is not shown.
    for row in [
        "ann@example.com,b",
        "b,+44 20 7946 0018",
        "b,2026-11-28",
        "b,",
        "b,A1234567",
        "b,\x1b[31m",
        "1,2",
    ] {
        let said = remedy(&fails("t.csv", format!("{row}\n{row}\n"), "e-mail"));
        assert!(
            row.split(',')
                .all(|field| field.len() < 3 || !said.contains(field)),
            "{said}"
        );
        assert!(
            row == "1,2" || said.contains("may be a row"),
            "{row}: {said}"
        );
    }
    // The other column shows that these are names.
    let shown = remedy(&fails("t.csv", "id,2026-11-28\n1,2\n", "id,country"));
    assert!(shown.ends_with(r#""id", "2026-11-28""#), "{shown}");
    assert!(matches!(
        fails("t.csv", text, "x").kind(),
        ErrorKind::AmbiguousColumn
    ));
    for (name, bytes) in [
        ("t.parquet", parquet(&small())),
        ("t.arrow", arrow_file(&small())),
    ] {
        let missing = fails(name, bytes.clone(), "ID");
        assert!(remedy(&missing).contains("\"id\"?"));
        for column in ["float", "list"] {
            let error = fails(name, bytes.clone(), column);
            assert!(matches!(error.kind(), ErrorKind::KeyType { .. }));
            assert_eq!(error.place().column.as_deref(), Some(column));
        }
    }
    let missing = fails("t.jsonl", "{\"id\":1,\"name\":2}\n{\"id\":2}\n", "nmae");
    assert!(remedy(&missing).contains("\"name\"?"));
}

#[test]
fn empty_tables() {
    for name in ["t.csv", "t.parquet", "t.jsonl", "t.arrow"] {
        assert!(
            matches!(fails(name, "", "id").kind(), ErrorKind::Empty),
            "{name}"
        );
    }
    for bytes in [gzip(b""), zstd(b"")] {
        assert!(matches!(
            fails("t.csv", bytes, "id").kind(),
            ErrorKind::Empty
        ));
    }
    assert!(matches!(
        fails("t.csv", "\n\r\n", "id").kind(),
        ErrorKind::Empty
    ));
    assert!(matches!(
        fails("t.jsonl", "\n \n", "id").kind(),
        ErrorKind::Empty
    ));
    for text in ["id,x", "id,x\n", "id,x\r\n\r\n"] {
        let error = fails("t.csv", text, "id");
        assert!(matches!(error.kind(), ErrorKind::NoRows { .. }));
        assert!(error.remedy().is_some());
    }
    let none = small().slice(0, 0);
    for (name, bytes) in [
        ("t.parquet", parquet(&none)),
        ("t.arrow", arrow_file(&none)),
        ("t.arrows", arrow_stream(&none)),
    ] {
        assert!(
            matches!(fails(name, bytes, "id").kind(), ErrorKind::NoRows { .. }),
            "{name}"
        );
    }
}

#[test]
fn broken_rows() {
    let ragged = fails("t.csv", "id,x\n1,\"a\nb\"\n\n2,3,4\n", "id");
    assert!(matches!(
        ragged.kind(),
        ErrorKind::Ragged {
            by_last: false,
            expected: 2,
            found: 3
        }
    ));
    assert!(ragged.to_string().starts_with("t.csv: row 2 (line 5): "));
    let ragged = fails("t.csv", "id,x,y\n1,2,3\n2\n", "id");
    assert_eq!(place(&ragged), (Some(2), Some(3), None));
    let open = fails("t.csv", "id,x\n1,2\n3,\"4\n5,6\n", "id");
    assert_eq!(place(&open), (Some(2), Some(3), None));

    let bad = fails("t.csv", b"id,x\na,\xff\n\xff,b\n".to_vec(), "id");
    assert_eq!(place(&bad), (Some(2), Some(3), Some("id")));
    assert!(matches!(bad.kind(), ErrorKind::NotUtf8));
    assert!(
        keys("t.csv", b"id,x\na,\xff\n".to_vec(), "id").is_ok(),
        "only keys must be UTF-8"
    );

    for line in ["{\"id\":1.5}", "{\"id\":[]}", "{\"id\":{}}", "{\"id\":1e5}"] {
        let error = fails("t.jsonl", format!("{{\"id\":1}}\n\n{line}\n"), "id");
        assert_eq!(place(&error), (Some(2), Some(3), Some("id")), "{line}");
        assert!(matches!(error.kind(), ErrorKind::KeyType { .. }));
    }
    for line in [
        "{\"id\":1",
        "[1]",
        "{\"id\":1}{\"id\":2}",
        "{\"id\":1,\"id\":2}",
        "{\"id\":\"\\ud800\"}",
    ] {
        let error = fails("t.jsonl", format!("{{\"id\":1}}\n{line}\n"), "id");
        assert_eq!(
            (error.place().row, error.place().line),
            (Some(2), Some(2)),
            "{line}"
        );
    }
}

#[test]
fn other_kinds_of_files() {
    let utf16: Vec<u8> = "\u{feff}id,x\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert!(matches!(
        fails("t.csv", utf16, "id").kind(),
        ErrorKind::OtherEncoding("UTF-16")
    ));
    for (name, bytes) in [
        ("t.xls", b"\xd0\xcf\x11\xe0....".to_vec()),
        ("t.parquet.gz", gzip(&parquet(&small()))),
        ("t.arrow.zst", zstd(&arrow_file(&small()))),
        ("t.parquet", b"PARE....PARE".to_vec()),
        ("t.avro", b"Obj\x01\x04\x14avro.codec".to_vec()),
        ("t.orc", b"ORC\x0a\x00\x12\x04ORC".to_vec()),
        ("t.json", b"{\n  \"id\": 1\n}\n".to_vec()),
        ("t.json", b"{\"id\": [\n1]}\n".to_vec()),
        ("t.json", b"[\n  {\"id\": 1}\n]\n".to_vec()),
        ("t.json", b"[{\"id\": 1},\n{\"id\": 2}]\n".to_vec()),
        ("t", b"{\n  \"id\": 1\n}\n".to_vec()),
    ] {
        let error = fails(name, bytes, "id");
        assert!(
            matches!(error.kind(), ErrorKind::UnsupportedInput { .. }),
            "{error}"
        );
    }
    // A name is no magic, and a line that breaks off is broken.
    assert_eq!(
        keys("t.csv", "ORC,id\n1,2\n", "ORC")
            .unwrap()
            .digests()
            .len(),
        1
    );
    for line in ["{\"id\": 1\n", "{\"id\": 1,", "{\"id\": 1\n{\"id\": 2}\n"] {
        let error = fails("t.jsonl", line, "id");
        assert!(matches!(error.kind(), ErrorKind::BadJson { .. }), "{error}");
    }
    let encrypted = fails("t.parquet", with_encryption(parquet(&small())), "id");
    assert!(
        matches!(encrypted.kind(), ErrorKind::UnsupportedInput { .. }),
        "{encrypted}"
    );
    fails("t.parquet", "id,x\n1,2\n", "id");
    fails("t.arrow", "id,x\n1,2\n", "id");
    fails("t.jsonl", "id,x\n1,2\n", "id");
}

/// A Parquet file whose metadata, which stay plain, say that columns are encrypted (AES_GCM_V1 without parameters).
fn with_encryption(mut file: Vec<u8>) -> Vec<u8> {
    let footer = file.split_off(file.len() - 8);
    let length = u32::from_le_bytes(*footer.first_chunk().unwrap());
    assert_eq!(file.pop(), Some(0), "the end of the metadata's struct");
    let field = [0x0c, 2 * 8, 0x1c, 0, 0, 0];
    file.extend(field);
    file.extend((length - 1 + field.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    file
}

#[test]
fn values_in_another_encoding_are_named() {
    let latin = |line: &[u8]| [&b"{\"id\":1,\"v\":\"x\"}\n"[..], line, b"\n"].concat();
    let error = fails("t.jsonl", latin(b"{\"id\":\"Z\xfcrich\"}"), "id");
    assert!(matches!(error.kind(), ErrorKind::NotUtf8), "{error}");
    assert_eq!(place(&error), (Some(2), Some(2), None));
    assert_eq!(
        error.to_string(),
        "t.jsonl: row 2 (line 2): is not valid UTF-8"
    );
    // A value to hand over is no key.
    let table = source("t.csv", b"id,v\n1,x\n2,Z\xfcrich\n");
    let texts = TextColumns::labels(&key("id"), &["v".to_owned()], 20).unwrap();
    let directory = std::env::temp_dir();
    let read = read_keys_within(&table, &key("id"), &[], Some(&texts), u64::MAX, &directory);
    let error = read.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotUtf8), "{error}");
    let line = "t.csv: row 2 (line 3): the value in column \"v\" is not valid UTF-8";
    assert_eq!(error.to_string(), line);
    let arguments: Vec<Argument> = error.remedy().unwrap().arguments().collect();
    assert_eq!(arguments, [Argument::Encoding]);
}

#[test]
fn files_that_break_off() {
    let text: String = (0..5000).map(|i| format!("{i},{}\n", i * 7919)).collect();
    let text = format!("id,x\n{text}");
    let (zipped, zstd) = (gzip(text.as_bytes()), zstd(text.as_bytes()));
    let (parquet, arrow, stream) = (
        parquet(&small()),
        arrow_file(&small()),
        arrow_stream(&small()),
    );
    for (name, whole) in [
        ("t.csv.gz", &zipped),
        ("t.csv.zst", &zstd),
        ("t.parquet", &parquet),
        ("t.arrow", &arrow),
        ("t.arrows", &stream),
    ] {
        assert!(keys(name, whole.clone(), "id").is_ok());
        for cut in [12, whole.len() / 2, whole.len() - 9] {
            let error = fails(name, &whole[..cut], "id");
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt { .. }),
                "{name} {cut}: {error}"
            );
        }
    }
}

#[test]
fn a_delimiter_must_be_possible() {
    for delimiter in [b'"', b'\n', b'\r', 0xff, 0] {
        let options = SourceOptions {
            delimiter: Some(delimiter),
            ..SourceOptions::default()
        };
        let error = Source::from_bytes("t.csv", b"a,b\n".to_vec(), options).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage);
    }
}

/// Everything that can be done with a table; it may fail but not panic.
fn exercise(name: &str, bytes: Vec<u8>) {
    let Ok(source) = Source::from_bytes(name, bytes, SourceOptions::default()) else {
        return;
    };
    let spec = KeySpec::parse("id", &["id=text"]).unwrap();
    let _ = check(&source, &spec);
    if let Ok(keys) = read_keys(&source, &spec) {
        let all = vec![true; keys.digests().len()];
        let _ = write_rows_to(&source, &keys.rows_of(&all), &mut Vec::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn damage_never_panics(
        which in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (name, mut bytes) = match which {
            0 => ("t.parquet", parquet(&small())),
            1 => ("t.arrow", arrow_file(&small())),
            2 => ("t.arrows", arrow_stream(&small())),
            3 => ("t.csv", b"id,x\n1,\"2\"\n\"3\n\",4\n".to_vec()),
            _ => ("t.jsonl", b"{\"id\":1,\"x\":[1,{}]}\n{\"id\":\"\\u00e9\"}\n".to_vec()),
        };
        for (index, byte) in changes {
            let i = index.index(bytes.len());
            bytes[i] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        exercise(name, bytes);
    }

    #[test]
    fn noise_never_panics(
        magic in prop::sample::select(vec![&b""[..], b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"id,x\n", b"{\"id\":", b"\x1f\x8b\x08\0"]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
        tail in prop::sample::select(vec![&b""[..], b"PAR1", b"ARROW1"]),
    ) {
        exercise("t", [magic, &rest, tail].concat());
    }
}

/// Sound files of other writers: `vectors/tables/make.py`.
#[test]
fn what_is_not_supported_is_not_called_damaged() {
    let unsupported = |error: &Error, column: &str, words: &str| {
        let ErrorKind::UnsupportedInput { found } = error.kind() else {
            panic!("{error}");
        };
        assert!(found.contains(words), "{error}");
        assert_eq!(error.place().column.as_deref(), Some(column), "{error}");
    };
    for (name, bytes) in [
        (
            "t.parquet",
            &include_bytes!("../../../../vectors/tables/int128.parquet")[..],
        ),
        (
            "t.arrow",
            &include_bytes!("../../../../vectors/tables/int128.arrow")[..],
        ),
        (
            "t.arrows",
            &include_bytes!("../../../../vectors/tables/int128.arrows")[..],
        ),
    ] {
        unsupported(&fails(name, bytes, "id"), "big", "128-bit");
    }
    // Rows cannot be copied without a column, keys can be read without it.
    let brotli = include_bytes!("../../../../vectors/tables/brotli.parquet");
    // The number of LZO in the place of Brotli's, as the metadata write them, in the second column's.
    let column = brotli
        .windows(4)
        .rposition(|window| window == b"note")
        .unwrap();
    let codec = column + brotli[column..].iter().position(|byte| *byte == 8).unwrap();
    let mut bytes = brotli.to_vec();
    bytes[codec] = 6;
    unsupported(&fails("t.parquet", bytes.clone(), "id"), "note", "LZO");
    let options = SourceOptions {
        passes: Passes::One,
        ..SourceOptions::default()
    };
    let source = Source::from_bytes("t.parquet", bytes, options).unwrap();
    assert_eq!(read_keys(&source, &key("id")).unwrap().digests().len(), 3);
    let error = read_keys(&source, &key("note")).unwrap_err();
    unsupported(&error, "note", "LZO");
}
