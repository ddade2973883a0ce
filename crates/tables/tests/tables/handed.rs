//! Columns that one table hands over to another, from and into every format.

use std::path::Path;

use crate::common::handed_over;
use tempfile::TempDir;
use vesica_tables::{
    ColumnType, CsvOptions, ErrorClass, ErrorKind, HandedOver, KeySpec, Matched, PeerColumn,
    Result, RowSet, Rows, Source, SourceOptions, TableKeys, TextColumns, TextsOf, arrange,
    read_keys, read_keys_within, select_rows, write_rows_to,
};

const BYTES: usize = 40;

fn open(directory: &TempDir, name: &str, contents: &[u8], options: &SourceOptions) -> Source {
    let path = directory.path().join(name);
    std::fs::write(&path, contents).unwrap();
    Source::open(&path, options.clone()).unwrap()
}

fn spec(key: &str) -> KeySpec {
    KeySpec::parse::<&str>(key, &[])
        .unwrap()
        .with_nulls(vec!["NULL".into()])
}

fn keys(source: &Source, key: &str) -> TableKeys {
    read_keys(source, &spec(key)).unwrap()
}

/// The texts that go with each key.
fn texts_of(source: &Source, texts: Result<TextColumns>) -> Result<Vec<u8>> {
    let (texts, key) = (texts?, spec("key"));
    let keys = read_keys_within(source, &key, &[], Some(&texts), u64::MAX, Path::new(""))?;
    let (keys, _) = keys.gathered().expect("memory is not limited");
    Ok(keys.labels.as_ref().expect("texts").to_vec())
}

fn labels_of(source: &Source, columns: &[String], bytes: usize) -> Result<Vec<u8>> {
    texts_of(source, TextColumns::labels(&spec("key"), columns, bytes))
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The columns of these names, as the table of `source` has them.
fn columns_of(source: &Source, names: &[String]) -> Vec<PeerColumn> {
    let types = source.column_types(names).unwrap();
    let columns = names.iter().cloned().zip(types);
    columns
        .map(|(name, of)| PeerColumn { name, of }.beside_own())
        .collect()
}

/// Columns of texts.
fn texts(names: &[&str]) -> Vec<PeerColumn> {
    let column = |name: &&str| PeerColumn {
        name: (*name).to_owned(),
        of: ColumnType::TEXT,
    };
    names
        .iter()
        .map(column)
        .map(PeerColumn::beside_own)
        .collect()
}

/// What the rows of `ours` with a key of `theirs` get, written as their own format: labels are moved from one table to
/// the other as a run would.
fn joined(ours: &Source, theirs: &Source, columns: &[String]) -> String {
    let (own, other) = (keys(ours, "key"), keys(theirs, "key"));
    let labels = labels_of(theirs, columns, BYTES).unwrap();
    let mut handed = vec![0; own.digests().len() * BYTES];
    let mut matched = vec![false; own.digests().len()];
    for (i, digest) in own.digests().iter().enumerate() {
        if let Some(j) = other.digests().iter().position(|d| d == digest) {
            handed[i * BYTES..][..BYTES].copy_from_slice(&labels[j * BYTES..][..BYTES]);
            matched[i] = true;
        }
    }
    let rows = own.rows_of(&matched);
    let columns = columns_of(theirs, columns);
    let own = handed_over(own, &handed, BYTES, &columns);
    let handed = HandedOver::new(&columns, &own);
    let mut out = Vec::new();
    let matched = Matched::new(&rows, Some(handed));
    assert_eq!(matched.unreadable(), None);
    write_rows_to(ours, matched, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const OURS: &str = "key,x\nann,1\nbob,2\n,3\nann,4\ncy,5\n";
const THEIRS: &str =
    "key,city,\"rank, all\"\nann,\"St. \"\"Gallen\"\"\",\nbob,NULL,007\ndee,Bern,1\nbob,NULL,007\n";

#[test]
fn columns_go_from_csv_to_csv() {
    let place = TempDir::new().unwrap();
    let plain = SourceOptions::default();
    let ours = open(&place, "ours.csv", OURS.as_bytes(), &plain);
    let theirs = open(&place, "theirs.csv", THEIRS.as_bytes(), &plain);
    // In CSV an empty field is an empty text, as it is in keys.
    let expected = "key,x,peer_city,\"peer_rank, all\"\n\
        ann,1,\"St. \"\"Gallen\"\"\",\"\"\n\
        bob,2,,007\n\
        ann,4,\"St. \"\"Gallen\"\"\",\"\"\n";
    let columns = names(&["city", "rank, all"]);
    assert_eq!(joined(&ours, &theirs, &columns), expected);
    let all = SourceOptions {
        rows: Rows::All,
        ..SourceOptions::default()
    };
    let ours = open(&place, "ours.csv", OURS.as_bytes(), &all);
    let expected = "key,x,in_both,peer_city\n\
        ann,1,true,\"St. \"\"Gallen\"\"\"\n\
        bob,2,true,\n,3,false,\n\
        ann,4,true,\"St. \"\"Gallen\"\"\"\n\
        cy,5,false,\n";
    assert_eq!(joined(&ours, &theirs, &names(&["city"])), expected);
}

#[test]
fn dialects_are_kept() {
    let place = TempDir::new().unwrap();
    let dialect = |quote, escape| SourceOptions {
        delimiter: Some(b';'),
        csv: CsvOptions {
            quote,
            escape,
            ..CsvOptions::default()
        },
        ..SourceOptions::default()
    };
    let theirs = "{\"key\":\"ann\",\"a\":\"x;'\\\\\\n\"}\n";
    let theirs = open(
        &place,
        "theirs.jsonl",
        theirs.as_bytes(),
        &SourceOptions::default(),
    );
    let ours = |options| open(&place, "ours.csv", b"key;x\r\nann;1\r\n", &options);
    let columns = names(&["a"]);
    let escaped = ours(dialect(Some(b'\''), Some(b'\\')));
    let expected = "key;x;peer_a\r\nann;1;'x;\\'\\\\\n'\r\n";
    assert_eq!(joined(&escaped, &theirs, &columns), expected);
    let doubled = ours(dialect(Some(b'\''), None));
    let expected = "key;x;peer_a\r\nann;1;'x;''\\\n'\r\n";
    assert_eq!(joined(&doubled, &theirs, &columns), expected);
    assert!(doubled.check_added_texts().is_ok());
    let error = ours(dialect(None, None)).check_added_texts().unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
}

#[test]
fn columns_go_into_json_lines_and_names_that_are_taken_are_left_alone() {
    let place = TempDir::new().unwrap();
    let plain = SourceOptions::default();
    let ours = "{\"key\":\"ann\",\"peer_city\":0}\n{ \"key\" : \"bob\" } \n{\"key\":\"zoe\"}\n";
    let ours = open(&place, "ours.jsonl", ours.as_bytes(), &plain);
    let theirs = "{\"key\":\"ann\",\"city\":\"a\\\"b\",\"n\":1.5}\n{\"key\":\"bob\",\"n\":true}\n";
    let theirs = open(&place, "theirs.jsonl", theirs.as_bytes(), &plain);
    let expected = "{\"key\":\"ann\",\"peer_city\":0,\"peer_city_\":\"a\\\"b\",\"peer_n\":\"1.5\"}\n\
        { \"key\" : \"bob\" ,\"peer_city_\":null,\"peer_n\":\"true\"} \n";
    assert_eq!(joined(&ours, &theirs, &names(&["city", "n"])), expected);
    let taken = open(&place, "taken.csv", b"peer_city,key\n7,ann\n", &plain);
    let expected = "peer_city,key,peer_city_\n7,ann,\"a\"\"b\"\n";
    assert_eq!(joined(&taken, &theirs, &names(&["city"])), expected);
}

#[cfg(feature = "parquet")]
#[test]
fn columns_go_from_and_into_typed_formats() {
    use std::sync::Arc;

    use arrow_array::{
        Array, ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray,
        TimestampMillisecondArray, TimestampSecondArray,
    };
    use vesica_tables::{Format, Output, write_rows};

    let place = TempDir::new().unwrap();
    let batch = RecordBatch::try_from_iter([
        (
            "key",
            Arc::new(StringArray::from(vec!["ann", "bob"])) as arrow_array::ArrayRef,
        ),
        ("f", Arc::new(Float64Array::from(vec![0.1, 7.0]))),
        ("i", Arc::new(Int32Array::from(vec![Some(-3), None]))),
        ("t", Arc::new(TimestampSecondArray::from(vec![0, 60]))),
    ])
    .unwrap();
    let in_memory = |batch: &RecordBatch| {
        let options = SourceOptions::default();
        Source::from_batches("frame", batch.schema(), vec![batch.clone()], &options).unwrap()
    };
    let (source, all) = (in_memory(&batch), {
        let mut all = RowSet::none(2);
        (0..2).for_each(|row| all.insert(row));
        all
    });
    let path = place.path().join("both.parquet");
    let mut output = Output::create(&path, &source).unwrap();
    write_rows(&source, &all, &mut output).unwrap();
    output.commit().unwrap();
    let file = Source::open(&path, SourceOptions::default()).unwrap();
    assert_eq!(file.format(), Format::Parquet);

    let columns = names(&["f", "i", "t"]);
    let (own, mut handed) = (keys(&file, "key"), Vec::new());
    for source in [&source, &file] {
        handed.push(labels_of(source, &columns, BYTES).unwrap());
    }
    assert_eq!(handed[0], handed[1]);
    let columns = columns_of(&source, &columns);
    assert_eq!(columns_of(&file, &names(&["f", "i", "t"])), columns);
    let all = own.rows_of(&vec![true; own.digests().len()]);
    let own = handed_over(own, &handed[0], BYTES, &columns);
    let handed = HandedOver::new(&columns, &own);
    let expected: [ArrayRef; 3] = [
        Arc::new(Float64Array::from(vec![0.1, 7.0])),
        Arc::new(Int32Array::from(vec![Some(-3), None])),
        Arc::new(TimestampMillisecondArray::from(vec![0, 60_000])),
    ];
    for source in [&source, &file] {
        let matched = Matched::new(&all, Some(handed));
        let (schema, batches) = select_rows(source, matched).unwrap();
        let fields: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(fields, ["key", "f", "i", "t", "peer_f", "peer_i", "peer_t"]);
        assert_eq!(batches[0].columns()[4..], expected);
        assert!(batches[0].column(3).is_valid(0));
    }
    // And once more through a Parquet file with its own schema.
    let path = place.path().join("more.parquet");
    let mut output = Output::create(&path, &file).unwrap();
    write_rows(&file, Matched::new(&all, Some(handed)), &mut output).unwrap();
    output.commit().unwrap();
    let more = Source::open(&path, SourceOptions::default()).unwrap();
    let (schema, batches) = select_rows(&more, &all).unwrap();
    assert_eq!(schema.fields().len(), 7);
    assert_eq!(batches[0].columns()[4..], expected);
    // As text, what has no fraction is a number of JSON all the same.
    let lines = open(
        &place,
        "o.jsonl",
        b"{\"key\":\"ann\"}\n",
        &SourceOptions::default(),
    );
    let expected =
        "{\"key\":\"ann\",\"peer_f\":0.1,\"peer_i\":-3,\"peer_t\":\"1970-01-01T00:00:00Z\"}\n";
    assert_eq!(joined(&lines, &source, &names(&["f", "i", "t"])), expected);
}

#[test]
fn what_cannot_be_handed_over_is_refused() {
    let place = TempDir::new().unwrap();
    let read = |contents: &str, columns: &[&str], bytes| {
        let options = SourceOptions::default();
        let source = open(&place, "t.csv", contents.as_bytes(), &options);
        labels_of(&source, &names(columns), bytes).unwrap_err()
    };
    let long = format!("key,a\nx,1\ny,{}\n", "z".repeat(7));
    let error = read(&long, &["a"], 8);
    assert!(matches!(
        error.kind(),
        ErrorKind::TextsTooLong {
            of: TextsOf::Run,
            needed: 9,
            limit: 8
        }
    ));
    assert_eq!(
        (error.class(), error.place().row),
        (ErrorClass::Data, Some(2))
    );
    assert!(!error.to_string().contains("zzz"), "{error}");
    // All rows are looked at, so that what is declared next is enough.
    let longer = format!("{long}z,{0}{0}\nu,{0}\n", "z".repeat(10));
    let error = read(&longer, &["a"], 8);
    assert!(matches!(
        error.kind(),
        ErrorKind::TextsTooLong { needed: 22, .. }
    ));
    assert_eq!(error.place().row, Some(3));
    let error = read("key,a\nx,1\nx,2\n", &["a"], 8);
    let ErrorKind::LabelsDiffer { first } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(first.row, Some(1));
    assert_eq!(
        (error.class(), error.place().row),
        (ErrorClass::Data, Some(2))
    );
    let error = read("key,a\nx,1\n", &["b"], 8);
    assert!(matches!(error.kind(), ErrorKind::MissingColumn { .. }));
    let error = read("key,a\nx,1\n", &[], 8);
    assert_eq!(error.class(), ErrorClass::Usage);
    let huge = format!("key,a\nx,{}\n", "z".repeat(70_000));
    let error = read(&huge, &["a"], 1 << 16);
    assert!(matches!(error.kind(), ErrorKind::TextsTooLong { .. }));
    let error = read("key,a\nx,\u{1b}[2J\n", &["a"], 8);
    assert!(matches!(error.kind(), ErrorKind::LabelControls), "{error}");
    assert_eq!(
        (error.class(), error.place().row),
        (ErrorClass::Data, Some(1))
    );
    // A row without a key has nothing to hand over, however long.
    let options = SourceOptions::default();
    let source = open(&place, "u.csv", b"key,a\n,long text\nx,1\n", &options);
    let labels = labels_of(&source, &names(&["a"]), 4).unwrap();
    assert_eq!(labels[..], [2, 0, b'1', 0]);
}

/// Zeros after a text tell how long it is to nobody: shares of them look like shares of anything else.
#[test]
fn payloads_are_texts_with_zeros_after_them() {
    let place = TempDir::new().unwrap();
    let read = |contents: &str, bytes| {
        let options = SourceOptions::default();
        let source = open(&place, "t.csv", contents.as_bytes(), &options);
        texts_of(&source, TextColumns::payload(&spec("key"), "a", bytes))
    };
    let rows = "key,a\nx,é1\n,too long for anything\ny,\nx,é1\n";
    let read_back = read(rows, 3).unwrap();
    let all: Vec<&[u8]> = read_back.chunks(3).collect();
    assert_eq!(all, ["é1".as_bytes(), &[0; 3]]);
    assert_eq!(read("key,a\nx,1\n", 4).unwrap()[..], [b'1', 0, 0, 0]);
    let error = read(rows, 2).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Data);
    assert!(matches!(
        error.kind(),
        ErrorKind::TextsTooLong {
            of: TextsOf::Shares,
            needed: 3,
            limit: 2
        }
    ));
    let error = read("key,a\nx,1\nx,2\n", 4).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LabelsDiffer { .. }));
    let error = read("key,a\nx,\0\n", 4).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LabelControls));
}

/// The peer chooses the names; those of the result differ all the same.
#[test]
fn every_column_has_a_name_of_its_own() {
    let place = TempDir::new().unwrap();
    let plain = SourceOptions::default();
    let theirs = open(&place, "theirs.csv", b"key,a,a_\nx,1,2\n", &plain);
    let ours = open(&place, "ours.csv", b"key,peer_a\r\nx,0\r", &plain);
    let expected = "key,peer_a,peer_a_,peer_a__\r\nx,0,1,2\r";
    assert_eq!(joined(&ours, &theirs, &names(&["a", "a_"])), expected);
}

/// Wide columns of a large batch come in several batches.
#[test]
fn a_batch_of_wide_columns_is_cut() {
    use std::sync::Arc;

    use arrow_array::{RecordBatch, StringArray};

    const WIDE: usize = 4096;
    let key: StringArray = (0..5000).map(|i| Some(i.to_string())).collect();
    let batch = RecordBatch::try_from_iter([("key", Arc::new(key) as _)]).unwrap();
    let options = SourceOptions::default();
    let ours = Source::from_batches("frame", batch.schema(), vec![batch], &options).unwrap();
    let (own, columns) = (keys(&ours, "key"), texts(&["c"]));
    let mut labels = vec![0; 5000 * WIDE];
    labels[4999 * WIDE..][..3].copy_from_slice(&[2, 0, b'z']);
    let rows = own.rows_of(&[true; 5000]);
    let own = handed_over(own, &labels, WIDE, &columns);
    let matched = Matched::new(&rows, Some(HandedOver::new(&columns, &own)));
    let (_, batches) = select_rows(&ours, matched).unwrap();
    let sizes: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes, [4096, 904]);
    let last = batches[1]
        .column(1)
        .as_any()
        .downcast_ref::<StringArray>()
        .unwrap();
    assert_eq!(last.iter().flatten().collect::<Vec<_>>(), ["z"]);
}

#[test]
fn labels_that_are_none_are_counted_and_null() {
    let place = TempDir::new().unwrap();
    let ours = open(
        &place,
        "ours.csv",
        b"key\na\nb\n",
        &SourceOptions::default(),
    );
    let columns = texts(&["c"]);
    let labels = [0xff, 0xff, 1, 3, 0, b'x', b'y', 0];
    let mut rows = RowSet::none(2);
    (0..2).for_each(|row| rows.insert(row));
    for (labels, unreadable, expected) in [
        (&labels[..], Some(1), "key,peer_c\na,\nb,\n"),
        (
            &[2, 0, b'q', 0, 3, 0, b'x', b'y'],
            None,
            "key,peer_c\na,q\nb,xy\n",
        ),
    ] {
        let labels = match unreadable {
            Some(_) => [&labels[..4], &[0; 4]].concat(),
            None => labels.to_vec(),
        };
        let own = handed_over(keys(&ours, "key"), &labels, 4, &columns);
        let matched = Matched::new(&rows, Some(HandedOver::new(&columns, &own)));
        assert_eq!(matched.unreadable(), unreadable);
        let mut out = Vec::new();
        write_rows_to(&ours, matched, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

/// From the run of one side to the table of the other, in buckets on disk.
#[test]
fn columns_go_through_the_disk_too() {
    let place = TempDir::new().unwrap();
    let rows = 4000u32;
    let key = |row: u32| row * 37 % 1999;
    let table = |with: &dyn Fn(u32) -> String| {
        let row = |row: u32| match row % 11 {
            5 => format!(",{}\n", with(row)),
            _ => format!("k{},{}\n", key(row), with(row)),
        };
        format!("key,v\n{}", (0..rows).map(row).collect::<String>())
    };
    let options = SourceOptions::default();
    let ours = table(&|row| row.to_string());
    let theirs = table(&|row| match row % 11 {
        5 => "longer than any label could ever be but of no key".into(),
        _ => format!("city {}", key(row) % 77),
    });
    let ours = open(&place, "ours.csv", ours.as_bytes(), &options);
    let theirs = open(&place, "theirs.csv", theirs.as_bytes(), &options);
    let columns = names(&["v"]);
    let texts = TextColumns::labels(&spec("key"), &columns, BYTES).unwrap();
    let spooled = |source: &Source, texts| {
        let read = read_keys_within(source, &spec("key"), &[], texts, 0, place.path());
        let mut keys = read.unwrap().into_store();
        assert!(!keys.is_in_memory());
        let assign = |digests: &[[u8; 32]]| digests.iter().map(|d| u32::from(d[5] % 4)).collect();
        keys.split(place.path(), 4, assign).unwrap();
        keys
    };
    let (mut near, mut far) = (spooled(&ours, None), spooled(&theirs, Some(&texts)));
    let matches = |digest: &[u8; 32]| !digest[9].is_multiple_of(3);
    let mut all = RowSet::none(rows.into());
    for bucket in [1, 0, 3, 2] {
        let ours = near.load(bucket, true).unwrap().into_owned();
        let theirs = far.load(bucket, true).unwrap();
        assert_eq!(ours.labels, None);
        let (mut labels, of_peer) = (Vec::new(), theirs.labels.as_ref().unwrap());
        for digest in &*ours.digests {
            let place = theirs.digests.iter().position(|d| d == digest).unwrap();
            match matches(digest) {
                true => labels.extend_from_slice(&of_peer[place * BYTES..][..BYTES]),
                false => labels.extend_from_slice(&[0; BYTES]),
            }
        }
        let matched: Vec<bool> = ours.digests.iter().map(matches).collect();
        near.mark(bucket, &matched, &mut all).unwrap();
        near.keep(bucket, &labels, BYTES, u64::MAX, place.path())
            .unwrap();
    }
    let columns = columns_of(&theirs, &columns);
    assert!(arrange(&mut near, place.path(), &columns, 1, &all, 0).unwrap());
    let matched = Matched::new(&all, Some(HandedOver::new(&columns, &near)));
    assert_eq!(matched.unreadable(), None);
    let mut out = Vec::new();
    write_rows_to(&ours, matched, &mut out).unwrap();
    let row = |row: u32| format!("k{},{row},city {}\n", key(row), key(row) % 77);
    let chosen = (0..rows).filter(|row| all.contains((*row).into()));
    let expected = format!("key,v,peer_v\n{}", chosen.map(row).collect::<String>());
    assert!(all.iter().count() > 1000);
    assert!(String::from_utf8(out).unwrap() == expected);
    // Nothing was handed over for the other.
    assert!(!arrange(&mut far, place.path(), &columns, 1, &all, 0).unwrap());
    // Rows of one key with different texts, wherever they are.
    let differ = table(&|row| (row / 2500).to_string());
    let differ = open(&place, "differ.csv", differ.as_bytes(), &options);
    for memory in [0, u64::MAX] {
        let read = read_keys_within(
            &differ,
            &spec("key"),
            &[],
            Some(&texts),
            memory,
            place.path(),
        );
        let error = read.unwrap_err();
        let ErrorKind::LabelsDiffer { first } = error.kind() else {
            panic!("{error}");
        };
        let rows = [first.row, error.place().row].map(|row| row.unwrap() as u32 - 1);
        assert_eq!(key(rows[0]), key(rows[1]));
        assert!(rows[0] < 2500 && rows[1] >= 2500, "{rows:?}");
    }
}

/// In the order of the table, wherever keys are: also where the rows of one key are in several runs.
#[test]
fn rows_of_one_key_have_slots_in_their_order() {
    let rows = 9000u32;
    let key = |row: u32| row * 7919 % 3500;
    let text: String = (0..rows)
        .map(|row| format!("k{},{row}\n", key(row)))
        .collect();
    let source = Source::from_bytes(
        "t.csv",
        format!("key,v\n{text}").into(),
        SourceOptions::default(),
    );
    let (source, spec) = (source.unwrap(), spec("key"));
    let slots = |rows| {
        let texts = TextColumns::labels(&spec, &names(&["v"]), 8 * rows);
        texts.unwrap().of_rows(rows)
    };
    let place = TempDir::new().unwrap();
    let read = |memory, rows| {
        let texts = slots(rows);
        read_keys_within(&source, &spec, &[], Some(&texts), memory, place.path())
    };
    let mut found = Vec::new();
    for memory in [0, 300_000, u64::MAX] {
        let mut store = read(memory, 3).unwrap().into_store();
        store
            .split(place.path(), 1, |keys| vec![0; keys.len()])
            .unwrap();
        let keys = store.load(0, true).unwrap();
        let labels = keys.labels.as_ref().unwrap();
        let mut all: Vec<_> = (keys.digests.iter().copied())
            .zip(labels.chunks(24).map(<[u8]>::to_vec))
            .collect();
        all.sort_unstable();
        found.push(all);
        // The third row of a key is one too many, and the first such is named.
        let error = read(memory, 2).unwrap_err();
        let ErrorKind::TooManyOfKey { limit: 2, first } = error.kind() else {
            panic!("{error}");
        };
        let place = error.place();
        assert_eq!((first.row, place.row), (Some(1), Some(7001)), "{memory}");
    }
    assert!(found[0] == found[1] && found[1] == found[2]);
    let digests = keys(&source, "key");
    let row_items = digests.row_items();
    for (digest, label) in &found[0] {
        let item = digests.digests().iter().position(|d| d == digest).unwrap();
        let rows = (0..).zip(row_items).filter(|(_, of)| **of as usize == item);
        let mut expected = Vec::new();
        for (row, _) in rows {
            let row: u32 = row;
            let text = row.to_string();
            let mut slot = vec![1, text.len() as u8 + 1, 0];
            slot.extend_from_slice(text.as_bytes());
            slot.resize(8, 0);
            expected.extend(slot);
        }
        expected.resize(24, 0);
        assert_eq!(*label, expected);
    }
}
