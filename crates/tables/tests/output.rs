//! A result appears whole or not at all.
#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::*;
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

#[test]
fn a_result_is_committed_or_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (_, source) = table(directory.path());
    let keys = read_keys(&source, &key("id")).unwrap();
    let target = directory.path().join("out.csv");

    let mut output = Output::create(&target, &source).unwrap();
    let part = directory.path().join(&names(directory.path())[0]);
    assert_eq!(
        fs::metadata(&part).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        write_matches(&source, &keys, &[true, false], &mut output).unwrap(),
        2
    );
    drop(output);
    assert_eq!(names(directory.path()), ["in.csv"]);

    let mut output = Output::create(&target, &source).unwrap();
    write_matches(&source, &keys, &keys.matched([0]).unwrap(), &mut output).unwrap();
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
    write_matches(&source, &keys, &[false, true], &mut output).unwrap();
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
    let target = directory.path().join("out.csv.gz");
    let mut output = Output::create(&target, &source).unwrap();
    write_matches(&source, &keys, &[false, true], &mut output).unwrap();
    output.commit().unwrap();
    let mut text = String::new();
    GzDecoder::new(fs::File::open(&target).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "id,x\n2,b\n");
}

#[test]
fn refused_outputs() {
    let directory = tempfile::tempdir().unwrap();
    let (path, source) = table(directory.path());
    let link = directory.path().join("same.csv");
    symlink(&path, &link).unwrap();
    let before = names(directory.path());
    for (target, code) in [
        (path.clone(), 2),
        (link, 2),
        (directory.path().to_owned(), 2),
        (directory.path().join("no/such/out.csv"), 2),
        (path.join("out.csv"), 2),
        (directory.path().join("out.parquet"), 2),
        (directory.path().join("out.jsonl.gz"), 2),
    ] {
        let error = Output::create(&target, &source).unwrap_err();
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(
            error.to_string().starts_with(&target.display().to_string()),
            "{error}"
        );
    }
    assert_eq!(names(directory.path()), before);
    assert!(Output::create(&directory.path().join("out"), &source).is_ok());
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
        let error = write_matches(&source, &keys, &[true; 1000], &mut output).unwrap_err();
        assert_eq!(error.exit_code(), 7, "{error}");
        assert!(
            error
                .to_string()
                .starts_with("/dev/full: cannot be written"),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
    let source = source("t.csv", "id\n1\n");
    let keys = read_keys(&source, &key("id")).unwrap();
    let mut output = Output::create(Path::new("/dev/null"), &source).unwrap();
    assert_eq!(
        write_matches(&source, &keys, &[true], &mut output).unwrap(),
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
        write_matches_to(&source, &keys, &[true, true], &mut Vec::new()).unwrap_err(),
        read_keys(&source, &key("id")).unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Changed));
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().starts_with(&path.display().to_string()));
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        read_keys(&source, &key("id")).unwrap_err().kind(),
        ErrorKind::Changed
    ));

    // Keys of another table do not fit either.
    let other = common::source("o.csv", "id\n1\n");
    let error = write_matches_to(&other, &keys, &[true, true], &mut Vec::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Changed));
    let error = write_matches_to(&other, &keys, &[true], &mut Vec::new()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(keys.matched([2]).unwrap_err().exit_code(), 2);
}

#[test]
fn what_cannot_be_read_twice_is_copied() {
    let text = "id,x\n1,a\n2,b\n";
    let source =
        Source::from_reader("pipe.csv", text.as_bytes(), SourceOptions::default()).unwrap();
    assert_eq!(filtered(&source, "id", |i| i == 1), b"id,x\n2,b\n");
    assert_eq!(filtered(&source, "id", |i| i == 0), b"id,x\n1,a\n");
    let numbers = arrow_array::Int32Array::from_iter_values(0..10);
    let batch = batch(&[("id", std::sync::Arc::new(numbers) as arrow_array::ArrayRef)]);
    let bytes = parquet(&batch);
    let source =
        Source::from_reader("standard input", bytes.as_slice(), SourceOptions::default()).unwrap();
    assert_eq!(source.format(), Format::Parquet);
    assert!(!filtered(&source, "id", |i| i == 0).is_empty());
}
