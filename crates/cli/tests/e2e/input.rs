//! Bad input: the exit code, one clear line, nothing left behind.

use crate::support::{Arguments, Place, exchange};

/// Runs a receiver and a sender on an input that both must refuse before they look for a peer.
#[track_caller]
fn refused(place: &Place, arguments: &Arguments, code: i32, words: &str) {
    let before = place.names();
    let nobody = "--connect 127.0.0.1:1";
    place
        .receiver(&arguments.clone().output("out.csv"), nobody)
        .wait()
        .expect_failure(code, words);
    place
        .sender(arguments, nobody)
        .wait()
        .expect_failure(code, words);
    assert_eq!(place.names(), before);
}

#[test]
fn tables_that_cannot_be_read() {
    let place = Place::new();
    place.write("empty.csv", "");
    place.write("header.csv", "id,name\n");
    place.write("ragged.csv", "id,name\n1,a\n2,b,c\n3,d\n");
    place.write("latin.csv", b"id,name\n1,a\nM\xfcller,b\n");
    place.write("good.csv", "id,name\n1,a\n");
    std::fs::create_dir_all(place.path("nested/deeper")).unwrap();
    for (input, key, code, words) in [
        ("missing.csv", "id", 3, "missing.csv: no such file"),
        ("nested", "id", 3, "there is a directory in it"),
        ("none*.csv", "id", 3, "there are no files"),
        ("empty.csv", "id", 3, "empty.csv: is empty"),
        ("header.csv", "id", 3, "header.csv: has no data rows"),
        ("ragged.csv", "id", 3, "row 2"),
        ("latin.csv", "id", 3, "UTF-8"),
        ("good.csv", "nmae", 3, "no column is called \"nmae\""),
        ("good.csv", "id,id", 2, "twice"),
    ] {
        refused(&place, &Arguments::new(input, key), code, words);
    }
    let ended = place.run("check --input good.csv --key nmae");
    assert!(
        ended.err.contains("hint: did you mean \"name\"?"),
        "{}",
        ended.err
    );
}

#[test]
fn requests_that_cannot_be() {
    let place = Place::new();
    place.write("good.csv", "id,name\n1,a\n");
    let good = || Arguments::new("good.csv", "id");
    for (with, words) in [
        ("--normalize id=nonsense", "nonsense"),
        ("--normalize name=text", "not part of the key"),
        ("--protocol nonsense", "there are: compact-dh"),
        ("--protocol dh", "semi-honest"),
        ("--protocol compact-dh-sh1", "semi-honest"),
        ("--security none", "none"),
        ("--reveal nonsense", "sum, inner-product"),
        ("--lambda 20", "20"),
        ("--timeout 0", "timeout"),
        ("--format xlsx", "xlsx"),
        ("--delimiter ab", "delimiter"),
        ("--both yes", "yes"),
        ("--report good.csv", "same file"),
        ("--quote ab", "quote"),
        ("--escape \"", "at once"),
        ("--encoding klingon", "klingon"),
        ("--input good.csv", "named twice"),
        (
            "--report nowhere/report.json",
            "there is no directory nowhere",
        ),
        ("--peer vs1:abc", "vs1:"),
        ("--listen 127.0.0.1:0", "--listen"),
    ] {
        refused(&place, &good().with(with), 2, words);
    }
}

#[test]
fn identities_that_are_none() {
    let place = Place::new();
    place.write("good.csv", "id\n1\n");
    place.write("bad.key", "not a key");
    let peer = place.sender;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        place.write("loose.key", place.read("receiver.key"));
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(place.path("loose.key"), mode).unwrap();
        let ended = place.run(&format!(
            "receive --input good.csv --key id --listen 127.0.0.1:0 --identity loose.key --peer {peer}"
        ));
        ended.expect_failure(2, "loose.key: other users can read it");
        assert!(
            ended.err.contains("hint: run: chmod 600 loose.key"),
            "{}",
            ended.err
        );
    }
    let own = format!("--peer {}", place.receiver);
    place
        .receiver(
            &Arguments::new("good.csv", "id").with(&own),
            "--connect 127.0.0.1:1",
        )
        .wait()
        .expect_failure(2, "own identity");
    for (key, words) in [("missing.key", "missing.key"), ("bad.key", "bad.key")] {
        let ended = place.run(&format!(
            "receive --input good.csv --key id --listen 127.0.0.1:0 --identity {key} --peer {peer}"
        ));
        ended.expect_failure(2, words);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let place = Place::new();
    place.write("good.csv", "id,name\n1,a\n");
    let before = place.names();
    for (output, words) in [
        ("nowhere/out.csv", "there is no directory nowhere"),
        (".", "directory"),
        ("good.csv", "--output and --input are the same file"),
        ("out.xlsx", "a spreadsheet"),
    ] {
        place
            .receiver(
                &Arguments::new("good.csv", "id").output(output),
                "--connect 127.0.0.1:1",
            )
            .wait()
            .expect_failure(2, words);
    }
    assert_eq!(place.names(), before);
}

/// A file system that takes no new files, from root neither.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_takes_no_files() {
    let place = Place::new();
    place.write("good.csv", "id\n1\n");
    let to_proc = Arguments::new("good.csv", "id").output("/proc/vesica-out.csv");
    place
        .receiver(&to_proc, "--connect 127.0.0.1:1")
        .wait()
        .expect_failure(2, "/proc/vesica-out.csv: cannot be written");
}

#[test]
fn no_file_is_used_for_two_things() {
    let place = Place::new();
    place.write("good.csv", "id\n1\n");
    let before = place.names();
    let keys = (place.read("receiver.key"), place.read("sender.key"));
    let good = Arguments::new("good.csv", "id");
    let nowhere = "--connect 127.0.0.1:1";
    for words in [
        "--output receiver.key",
        "--output ./receiver.key",
        "--output out.csv --report ./receiver.key",
        "--output new.csv --report ./new.csv",
    ] {
        place
            .receiver(&good.clone().with(words), nowhere)
            .wait()
            .expect_failure(2, "are the same file");
    }
    let query = place.receiver(
        &good
            .clone()
            .without("--input")
            .with("--query x --database sqlite:good.csv --report good.csv --output new.csv"),
        nowhere,
    );
    query
        .wait()
        .expect_failure(2, "--report and --database are the same file");
    place
        .sender(&good.with("--report ./sender.key"), nowhere)
        .wait()
        .expect_failure(2, "--report and --identity are the same file");
    assert_eq!(keys, (place.read("receiver.key"), place.read("sender.key")));
    assert_eq!(place.names(), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n");
    place.write("theirs.csv", "id\n1\n");
    let before = place.names();
    let pair = crate::support::exchange(
        &place,
        &Arguments::new("ours.csv", "id")
            .output("/dev/full")
            .with("--report report.json"),
        &Arguments::new("theirs.csv", "id"),
    );
    pair.receiver.expect_failure(7, "/dev/full");
    // The protocol was over: the sender has done its part.
    pair.sender.expect_success();
    assert!(place.read("report.json").contains("\"exit_code\": 7"));
    std::fs::remove_file(place.path("report.json")).unwrap();
    assert_eq!(place.names(), before);
}

/// A table in which no row has a usable key is a mistake, unless somebody says that it is not.
#[test]
fn tables_without_a_usable_key() {
    let place = Place::new();
    place.write("some.csv", "id,mail\n1,a@example.com\n2,nonsense\n3,\n");
    place.write("none.csv", "id,mail\n1,nonsense\n2,\n");
    place.write("header.csv", "id,mail\n");
    place.write("none.jsonl", "");
    let of = |input: &str| Arguments::new(input, "mail").with("--normalize mail=email");
    let words = "no row has a usable key: 1 blank and 1 invalid, of 2 in all";
    refused(&place, &of("none.csv"), 3, words);
    refused(&place, &of("header.csv"), 3, "header.csv: has no data rows");
    refused(&place, &of("none.jsonl"), 3, "none.jsonl: is empty");
    place.write("empty.csv", "");
    refused(
        &place,
        &of("empty.csv").with("--allow-empty"),
        3,
        "is empty",
    );

    let warning = "warning: 2 of 3 rows have no usable key and take no part (1 blank, 1 invalid)";
    for (input, output, left) in [
        ("none.csv", "out.csv", "id,mail\n"),
        ("header.csv", "out.csv", "id,mail\n"),
        ("none.jsonl", "out.jsonl", ""),
    ] {
        let allowed = of(input)
            .with("--allow-empty --report r.json")
            .output(output);
        let pair = exchange(&place, &allowed, &of("some.csv"));
        pair.expect_success();
        assert!(pair.sender.err.contains(warning), "{}", pair.sender.err);
        assert_eq!(place.read(output), left, "{input}");
        let report: serde_json::Value = serde_json::from_str(&place.read("r.json")).unwrap();
        let invalid = u64::from(input == "none.csv");
        assert_eq!(report["items"], 0);
        assert_eq!(report["rows_written"], 0);
        assert_eq!(
            (report["blanks"].as_u64(), report["invalid"].as_u64()),
            (Some(invalid), Some(invalid))
        );
        // The other way round, too.
        let pair = exchange(
            &place,
            &of("some.csv").output("out.csv"),
            &of(input).with("--allow-empty"),
        );
        pair.expect_success();
        assert_eq!(place.read("out.csv"), "id,mail\n");
    }
}
