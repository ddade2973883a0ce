//! A result appears whole or not at all.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common::*;
use flate2::read::GzDecoder;
use std::io::Read;
use vesica_tables::*;

fn table(directory: &Path) -> (std::path::PathBuf, Source) {
    let path = directory.join("in.csv");
    fs::write(&path, "id,x\n1,a\n2,b\n1,c\n").unwrap();
    let source = Source::open(&path, SourceOptions::default()).unwrap();
    (path, source)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Whether or not it is next to one of them in the table.
#[test]
fn a_last_line_without_an_end_gets_that_of_the_lines_before() {
    let directory = tempfile::tempdir().unwrap();
    let line = |n: usize| format!("{{\"n\":{n}}}");
    let paths = ["a.jsonl", "b.jsonl"].map(|name| directory.path().join(name));
    fs::write(&paths[0], [1, 2, 3, 4].map(line).join("\r\n")).unwrap();
    fs::write(&paths[1], line(5) + "\r\n").unwrap();
    let source = Source::open_all(&paths, &SourceOptions::default()).unwrap();
    let keys = read_keys(&source, &key("n")).unwrap();
    for matched in [[2, 4, 5], [3, 4, 5]] {
        let rows = keys.rows_of(&keys.matched(matched.map(|n| n - 1)).unwrap());
        let mut result = Vec::new();
        write_rows_to(&source, &rows, &mut result).unwrap();
        let expected = matched.map(|n| line(n) + "\r\n").concat();
        assert_eq!(String::from_utf8(result).unwrap(), expected);
    }
}

#[test]
fn a_result_is_committed_or_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (_, source) = table(directory.path());
    let keys = read_keys(&source, &key("id")).unwrap();
    let target = directory.path().join("out.csv");

    let mut output = Output::create(&target, &source).unwrap();
    // Where files have a name while they are written, it is private.
    for name in names(directory.path()).iter().filter(|n| *n != "in.csv") {
        let mode = fs::metadata(directory.path().join(name)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(
        write_rows(&source, &keys.rows_of(&[true, false]), &mut output).unwrap(),
        2
    );
    drop(output);
    assert_eq!(names(directory.path()), ["in.csv"]);

    let mut output = Output::create(&target, &source).unwrap();
    write_rows(
        &source,
        &keys.rows_of(&keys.matched([0]).unwrap()),
        &mut output,
    )
    .unwrap();
    output.commit().unwrap();
    assert_eq!(names(directory.path()), ["in.csv", "out.csv"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "id,x\n1,a\n1,c\n");
    let fresh = directory.path().join("fresh");
    fs::write(&fresh, "").unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&target), mode(&fresh));

    // Replacing keeps the permissions, and a link stays a link.
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    let link = directory.path().join("link.csv");
    symlink(&target, &link).unwrap();
    let mut output = Output::create(&link, &source).unwrap();
    write_rows(&source, &keys.rows_of(&[false, true]), &mut output).unwrap();
    output.commit().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "id,x\n2,b\n");
    assert_eq!(mode(&target), 0o640);
}

#[test]
fn text_is_compressed_if_the_name_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (_, source) = table(directory.path());
    let keys = read_keys(&source, &key("id")).unwrap();
    for name in ["out.csv.gz", "out.csv.zst"] {
        let target = directory.path().join(name);
        let mut output = Output::create(&target, &source).unwrap();
        write_rows(&source, &keys.rows_of(&[false, true]), &mut output).unwrap();
        output.commit().unwrap();
        let packed = fs::read(&target).unwrap();
        assert_eq!(
            unpacked(&packed, name.ends_with("gz")),
            b"id,x\n2,b\n",
            "{name}"
        );
    }
}

fn unpacked(bytes: &[u8], gzip: bool) -> Vec<u8> {
    let mut text = Vec::new();
    if gzip {
        GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    } else {
        zstd::Decoder::new(bytes)
            .unwrap()
            .read_to_end(&mut text)
            .unwrap();
    }
    text
}

#[test]
fn refused_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let (path, source) = table(directory.path());
    let link = directory.path().join("same.csv");
    symlink(&path, &link).unwrap();
    let before = names(directory.path());
    for (target, class) in [
        (path.clone(), ErrorClass::Usage),
        (link, ErrorClass::Usage),
        (directory.path().to_owned(), ErrorClass::Usage),
        (directory.path().join("no/such/out.csv"), ErrorClass::Usage),
        (path.join("out.csv"), ErrorClass::Usage),
        (directory.path().join("out.xlsx.zst"), ErrorClass::Usage),
        (directory.path().join("out.parquet.zst"), ErrorClass::Usage),
        (directory.path().join("out.XLSX"), ErrorClass::Usage),
        (directory.path().join("out.ods"), ErrorClass::Usage),
        (directory.path().join("out.csv.bz2"), ErrorClass::Usage),
        (directory.path().join("out.csv.xz"), ErrorClass::Usage),
        (directory.path().join("out.zip"), ErrorClass::Usage),
        (directory.path().join("out.orc"), ErrorClass::Usage),
        (directory.path().join("out.avro"), ErrorClass::Usage),
        (directory.path().join("out.sqlite"), ErrorClass::Usage),
        (directory.path().join("out.db"), ErrorClass::Usage),
        (directory.path().join("out.xlsx.gz"), ErrorClass::Usage),
    ] {
        let error = Output::create(&target, &source).unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        // What is in the place of something else is named by what it is for.
        let words = error.to_string();
        if ![
            "are the same file",
            "and not a file",
            "there is no directory",
        ]
        .iter()
        .any(|part| words.contains(part))
        {
            let path = target.display().to_string();
            assert_eq!(error.place().path.as_deref(), Some(&*path), "{error}");
        }
    }
    assert_eq!(names(directory.path()), before);
    for name in [
        "out",
        "out.txt",
        "out.out",
        "out.dat",
        "out.zip.d",
        "out.parquet",
        "out.jsonl.gz",
        "out.tsv",
        "out.feather",
        "o.xlsx/../out.CSV.GZ",
    ] {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        Output::create(&path, &source).unwrap();
    }
}

#[test]
fn names_of_arrow_files_and_streams() {
    let directory = tempfile::tempdir().unwrap();
    let numbers = arrow_array::Int32Array::from_iter_values(0..3);
    let batch = batch(&[("id", std::sync::Arc::new(numbers) as arrow_array::ArrayRef)]);
    for (bytes, is_stream) in [(arrow_file(&batch), false), (arrow_stream(&batch), true)] {
        let source = source("in.arrow", bytes);
        let rows = RowSet::none(3);
        for (name, becomes_stream) in [
            ("out.feather", false),
            ("out.arrows", true),
            ("out.arrow", false),
            ("out", is_stream),
        ] {
            let path = directory.path().join(name);
            let mut output = Output::create(&path, &source).unwrap();
            write_rows(&source, &rows, &mut output).unwrap();
            output.commit().unwrap();
            let written = fs::read(path).unwrap();
            assert_eq!(written.starts_with(b"ARROW1"), !becomes_stream, "{name}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_a_resource_limit() {
    let full = Path::new("/dev/full");
    let numbers = arrow_array::Int32Array::from_iter_values(0..1000);
    let batch = batch(&[("id", std::sync::Arc::new(numbers) as arrow_array::ArrayRef)]);
    let text: String = (0..1000).map(|i| format!("{i}\n")).collect();
    for (name, bytes) in [
        ("t.csv", format!("id\n{text}").into_bytes()),
        ("t.parquet", parquet(&batch)),
        ("t.arrow", arrow_file(&batch)),
    ] {
        let source = source(name, bytes);
        let keys = read_keys(&source, &key("id")).unwrap();
        let mut output = Output::create(full, &source).unwrap();
        let error = write_rows(&source, &keys.rows_of(&[true; 1000]), &mut output).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Resource, "{error}");
        assert!(matches!(error.kind(), ErrorKind::Unwritable(_)), "{error}");
        assert_eq!(error.place().path.as_deref(), Some("/dev/full"));
        assert!(error.remedy().is_some());
    }
    let source = source("t.csv", "id\n1\n");
    let keys = read_keys(&source, &key("id")).unwrap();
    let mut output = Output::create(Path::new("/dev/null"), &source).unwrap();
    assert_eq!(
        write_rows(&source, &keys.rows_of(&[true]), &mut output).unwrap(),
        1
    );
    output.commit().unwrap();
}

#[test]
fn an_input_that_changes_between_the_passes_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, source) = table(directory.path());
    let keys = read_keys(&source, &key("id")).unwrap();
    fs::write(directory.path().join("new.csv"), "id,x\n2,a\n1,b\n1,c\n").unwrap();
    fs::rename(directory.path().join("new.csv"), &path).unwrap();
    for error in [
        write_rows_to(&source, &keys.rows_of(&[true, true]), &mut Vec::new()).unwrap_err(),
        read_keys(&source, &key("id")).unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Changed));
        assert_eq!(error.class(), ErrorClass::Data);
        let name = path.display().to_string();
        assert_eq!(error.place().path.as_deref(), Some(&*name));
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        read_keys(&source, &key("id")).unwrap_err().kind(),
        ErrorKind::Changed
    ));

    // Keys of another table do not fit either.
    let other = crate::common::source("o.csv", "id\n1\n");
    let error = write_rows_to(&other, &keys.rows_of(&[true, true]), &mut Vec::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed));
    assert!(keys.matched([2]).is_err());
}

#[test]
fn a_change_is_noticed_whatever_its_times_say() {
    let directory = tempfile::tempdir().unwrap();
    let (path, source) = table(directory.path());
    let keys = read_keys(&source, &key("id")).unwrap();
    let before = fs::metadata(&path).unwrap();
    // The clock of the file system ticks some hundred times per second.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"id,x\n2,", 0).unwrap();
    let times = fs::FileTimes::new().set_modified(before.modified().unwrap());
    file.set_times(times).unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!(before.len(), after.len());
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());
    let error = write_rows_to(&source, &keys.rows_of(&[true, true]), &mut Vec::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed));
}

fn pipe(name: &str, bytes: impl Into<Vec<u8>>, options: SourceOptions) -> Result<Source> {
    Source::from_reader(name, std::io::Cursor::new(bytes.into()), options)
}

#[test]
fn what_is_read_once_is_not_copied() {
    let nowhere = |passes| SourceOptions {
        passes,
        scratch: Some("/nowhere".into()),
        ..SourceOptions::default()
    };
    let rows: String = (0..40_000).map(|i| format!("{i},x\n")).collect();
    let text = format!("id,x\n{rows}");
    let gzip = gzip(text.as_bytes());
    let json: String = (0..40_000).map(|i| format!("{{\"id\":{i}}}\n")).collect();
    let expected = read_keys(&crate::common::source("t.csv", text.as_str()), &key("id")).unwrap();
    let zstd = zstd(text.as_bytes());
    for bytes in [text.into_bytes(), gzip, zstd, json.into_bytes()] {
        let error = pipe("pipe", bytes.clone(), nowhere(Passes::Two)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        let source = pipe("pipe", bytes, nowhere(Passes::One)).unwrap();
        let keys = read_keys(&source, &key("id")).unwrap();
        assert!(keys.digests() == expected.digests());
        assert_eq!(keys.counts(), expected.counts());
        // There is no second time.
        let error = write_rows_to(&source, &keys.rows_of(&[true; 40_000]), &mut Vec::new());
        assert_eq!(error.unwrap_err().class(), ErrorClass::Usage);
    }
    // Parquet is read out of order, and copied to where the options say.
    let numbers = arrow_array::Int32Array::from_iter_values(0..10);
    let batch = batch(&[("id", std::sync::Arc::new(numbers) as arrow_array::ArrayRef)]);
    assert!(pipe("pipe", parquet(&batch), nowhere(Passes::One)).is_err());
    let directory = tempfile::tempdir().unwrap();
    let options = SourceOptions {
        scratch: Some(directory.path().to_owned()),
        ..nowhere(Passes::One)
    };
    let source = pipe("pipe", parquet(&batch), options).unwrap();
    assert_eq!(read_keys(&source, &key("id")).unwrap().digests().len(), 10);
    assert_eq!(names(directory.path()), [""; 0]);
    // What is wrong is told as it is of files.
    let error = pipe("pipe", "", nowhere(Passes::One)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Empty));
}

#[test]
fn what_cannot_be_read_twice_is_copied() {
    let text = "id,x\n1,a\n2,b\n";
    let source = pipe("pipe.csv", text, SourceOptions::default()).unwrap();
    assert_eq!(filtered(&source, "id", |i| i == 1), b"id,x\n2,b\n");
    assert_eq!(filtered(&source, "id", |i| i == 0), b"id,x\n1,a\n");
    let numbers = arrow_array::Int32Array::from_iter_values(0..10);
    let batch = batch(&[("id", std::sync::Arc::new(numbers) as arrow_array::ArrayRef)]);
    let source = pipe("standard input", parquet(&batch), SourceOptions::default()).unwrap();
    assert_eq!(source.format(), Format::Parquet);
    assert!(!filtered(&source, "id", |i| i == 0).is_empty());
}
