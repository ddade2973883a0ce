//! Limits of the process and of the machine, and what a run leaves of itself on the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;

use crate::support::{Arguments, Place, Running, csv_of, exchange};

const NOBODY: &str = "--connect 127.0.0.1:1";

/// Rows of one key, and one row of another before, in the middle and behind.
fn hot_table(rows: usize) -> String {
    let mut text = "key\n".to_owned();
    for row in 0..rows {
        match row {
            0 => text.push_str("first\n"),
            _ if row == rows / 2 => text.push_str("middle\n"),
            _ if row == rows - 1 => text.push_str("last\n"),
            _ => text.push_str("hot\n"),
        }
    }
    text
}

#[test]
fn a_closed_standard_output() {
    let place = Place::new();
    place.write("good.csv", "id\n1\n");
    let good = Arguments::new("good.csv", "id").after("exec >&-");
    let closed = |ended: crate::support::Ended| {
        ended.expect_failure(2, "standard output");
        assert!(ended.err.contains("closed"), "{}", ended.err);
    };
    closed(place.receiver(&good.clone().output("-"), NOBODY).wait());
    closed(place.sender(&good.clone().with("--both"), NOBODY).wait());
    closed(place.run_after("exec >&-", "check --input good.csv --key id"));
    let number = good.clone().with("--reveal size --security semi-honest");
    closed(place.receiver(&number, NOBODY).wait());
    for words in ["--version", "send --help", "keygen --out new.key", "man"] {
        let printed = place.run_after("exec >&-", words);
        printed.expect_failure(7, "standard output cannot be written: it is closed");
    }
    // Whoever does not write to it does not need it.
    let output = good.output("out.csv");
    let pair = exchange(&place, &output, &Arguments::new("good.csv", "id"));
    pair.expect_success();
    assert_eq!(place.read("out.csv"), "id\n1\n");
    let nowhere = Arguments::new("good.csv", "id").after("exec >/dev/null");
    exchange(
        &place,
        &nowhere.output("-"),
        &Arguments::new("good.csv", "id"),
    )
    .expect_success();
}

#[test]
fn a_limit_on_file_sizes() {
    let place = Place::new();
    place.write("table.csv", hot_table(20_000));
    let before = place.names();
    let table = Arguments::new("table.csv", "key");
    let limited = table.clone().after("ulimit -f 16");
    // The result, and the keys that do not fit into memory.
    let pair = exchange(&place, &limited.clone().output("out.csv"), &table);
    pair.receiver
        .expect_failure(7, "out.csv: cannot be written");
    pair.sender.expect_success();
    place
        .sender(&limited.with("--memory 64K"), NOBODY)
        .wait()
        .expect_failure(7, "no room for the keys");
    assert_eq!(place.names(), before);
}

#[test]
fn a_limit_on_memory() {
    let place = Place::new();
    place.write("row.csv", format!("id,x\n1,{}\n", "x".repeat(60 << 20)));
    let words = "check --input row.csv --key id";
    place
        .run_after("ulimit -v 120000", words)
        .expect_failure(7, "out of memory");
    place.run_after("ulimit -v 1200000", words).expect_success();
}

#[test]
fn rows_of_one_key_take_no_memory() {
    const ROWS: usize = 1 << 19;
    let place = Place::new();
    place.write("table.csv", hot_table(ROWS));
    // The process alone takes some 99 MB; all records of the key together are 18 MiB, and twice that
    // in a vector that grows.
    let limit = "ulimit -v 111000";
    let words = "check --input table.csv --key key --memory 1M --json";
    let ended = place.run_after(limit, words);
    ended.expect_success();
    let check: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(check["rows"], ROWS);
    assert_eq!(check["items"], 4);
    assert_eq!(check["most_repeated"][0]["rows"], ROWS - 3);
    assert_eq!(check["most_repeated"][0]["first_row"], 2);
}

fn hot_key_run(rows: usize, limit: &str) {
    let place = Place::new();
    place.write("ours.csv", hot_table(rows));
    place.write("theirs.csv", hot_table(rows).replace("middle", "other"));
    let options = "--memory 800K --threads 1 --protocol dh --security semi-honest";
    let table = |name| Arguments::new(name, "key").with(options).after(limit);
    let ours = table("ours.csv").output("out.csv");
    exchange(&place, &ours, &table("theirs.csv")).expect_success();
    assert!(place.read("out.csv") == place.read("ours.csv").replace("middle\n", ""));
}

#[test]
fn rows_of_one_key_all_come_out() {
    hot_key_run(1 << 16, "true");
}

#[test]
#[ignore = "5 million rows on each side"]
fn limits_five_million_rows_of_one_key() {
    hot_key_run(5_000_000, "ulimit -v 160000");
}

/// The open files of a process that have no name.
fn unnamed_files(party: &Running) -> Vec<PathBuf> {
    let open = std::fs::read_dir(format!("/proc/{}/fd", party.process.id())).unwrap();
    let unnamed = open.map(|entry| entry.unwrap().path()).filter(|path| {
        let target = std::fs::read_link(path).unwrap_or_default();
        target.to_string_lossy().ends_with(" (deleted)")
    });
    unnamed.collect()
}

#[test]
fn piped_input_is_nowhere_in_clear() {
    let place = Place::new();
    let before = place.names();
    let text = "email\n".to_owned() + &"alice@example.com\n".repeat(100);
    // Otherwise nobody but root may look at what files they have open.
    let input = Arguments::new("-", "email").stdin(&text);
    let input = input.with("--allow-core-dumps");
    let waiting = |mut party: Running| {
        party.wait_for("read 100 rows");
        party
    };
    // A sender writes no rows, and keeps no copy.
    let sender = waiting(place.sender(&input, "--listen 127.0.0.1:0"));
    assert_eq!(unnamed_files(&sender), [""; 0].map(PathBuf::from));
    let output = input.output("out.csv");
    let receiver = waiting(place.receiver(&output, "--listen 127.0.0.1:0"));
    let files = unnamed_files(&receiver);
    let mut bytes = 0;
    for file in &files {
        let content = std::fs::read(file).unwrap();
        assert!(!content.windows(5).any(|w| w == b"alice"));
        bytes += content.len();
    }
    assert!(bytes >= text.len(), "{files:?}");
    // Killed, they leave nothing.
    for mut party in [sender, receiver] {
        party.process.kill().unwrap();
        party.process.wait().unwrap();
    }
    assert_eq!(place.names(), before);
}

/// Keys, and in the row of each a text that many rows share.
fn shared_texts(rows: usize, bytes: usize) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..rows as i64);
    let texts = StringArray::from(vec!["x".repeat(bytes)]);
    let texts = DictionaryArray::new(Int32Array::from(vec![0; rows]), Arc::new(texts));
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("text", Arc::new(texts))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn arrow_of(batch: &RecordBatch) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    file
}

/// What a run has in memory besides the program itself is at most what `--memory` says, whatever the format.
#[test]
fn memory_holds_for_every_format() {
    const MEMORY: u64 = 64 << 20;
    let place = Place::new();
    place.write("few.csv", "id\n7\n170\n1999\n");
    let long = "y".repeat(200);
    let lines = |row: &dyn Fn(usize) -> String| (0..200_000).map(row).collect::<String>();
    place.write(
        "t.csv",
        "id,text\n".to_owned() + &lines(&|i| format!("{i},{long}\n")),
    );
    place.write(
        "t.jsonl",
        lines(&|i| format!("{{\"id\":{i},\"text\":\"{long}\"}}\n")),
    );
    // Rows that share a text of 1 MiB: 3 GiB, were they not.
    let parquet = include_bytes!("../../../../vectors/tables/shared.parquet");
    place.write("t.parquet", parquet);
    // The same in lists and maps, of a writer that does not say how large its texts are.
    let lists = include_bytes!("../../../../vectors/tables/lists.parquet");
    place.write("lists.parquet", lists);
    place.write("t.arrow", arrow_of(&shared_texts(3000, 1 << 20)));
    let peak = |input: &str| {
        let output = format!("out-{input}");
        let words = "--memory 64M --threads 1 --protocol vole";
        let receiver = Arguments::new(input, "id").output(&output).with(words);
        let mut sender = place.sender(
            &Arguments::new("few.csv", "id").with(words),
            "--listen 127.0.0.1:0",
        );
        let receiver = place.receiver(&receiver, &sender.endpoint());
        let (ended, peak) = receiver.wait_with_peak();
        ended.expect_success();
        sender.wait().expect_success();
        assert!(ended.err.contains("matches"), "{}", ended.err);
        peak
    };
    let alone = peak("few.csv");
    for input in ["t.csv", "t.jsonl", "t.parquet", "lists.parquet", "t.arrow"] {
        let more = peak(input) - alone;
        println!("{input}: {} MiB", more >> 20);
        assert!(more <= MEMORY, "{input} takes {} MiB", more >> 20);
    }
}

/// What a look-up of many keys takes, more than that of a few: as much as it is given, and what it takes however little that
/// is.
#[test]
fn memory_holds_for_look_ups() {
    const KEYS: u64 = 3 << 14;
    const MOST: u64 = (4 << 20) + 200 * KEYS + (3 << 20);
    let place = Place::new();
    let table = |keys: u64| (0..keys).map(|key| format!("{key}\n")).collect::<String>();
    place.write("few.csv", "id\n".to_owned() + &table(9));
    place.write("many.csv", "id\n".to_owned() + &table(KEYS));
    let publish =
        "publish --identity sender.key --set-dir database --output set.vset --progress none";
    place
        .run(&format!("{publish} --input few.csv --key id --payload id"))
        .expect_success();
    place.write("clients", place.receiver.to_string());
    let serve = "serve --identity sender.key --set-dir database --clients clients --quota 2^20 --listen 127.0.0.1:0";
    let mut server = place.start_after("true", serve);
    let endpoint = server.endpoint();
    let peak = |input: &str, words: &str| {
        let words = format!(
            "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input {input} \
             --key id --threads 1 --output out.csv {words}",
            place.sender
        );
        let (ended, peak) = place.start_after("true", &words).wait_with_peak();
        ended.expect_success();
        assert_eq!(place.read("out.csv").lines().count(), 10);
        peak
    };
    let alone = peak("few.csv", "");
    for words in [
        "--memory 4M",
        "--memory 4M --state state",
        "--memory 4M --state state",
    ] {
        let more = peak("many.csv", words) - alone;
        println!("{words}: {} MiB", more >> 20);
        assert!(more <= MOST, "{words} takes {} MiB", more >> 20);
    }
    let more = peak("many.csv", "") - alone;
    println!("without a limit: {} MiB", more >> 20);
    assert!(more > MOST, "{} MiB", more >> 20);
    server.process.kill().unwrap();
    server.wait();
}

/// The permission bits of a file.
fn mode(place: &Place, name: &str) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    place.path(name).metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn nobody_reads_a_result_who_may_not_read_the_input() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.write("theirs.csv", "id\n1\n");
    let theirs = Arguments::new("theirs.csv", "id");
    for input in [0o600, 0o640, 0o644] {
        place.write("ours.csv", "id\n1\n");
        let only = std::fs::Permissions::from_mode(input);
        std::fs::set_permissions(place.path("ours.csv"), only).unwrap();
        let ours = Arguments::new("ours.csv", "id").output("out.csv");
        let ours = ours.with("--report report.json").after("umask 022");
        exchange(&place, &ours, &theirs).expect_success();
        assert_eq!(
            [mode(&place, "out.csv"), mode(&place, "report.json")],
            [input; 2]
        );
        // What is replaced stays as narrow as it was.
        let narrow = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.path("out.csv"), narrow).unwrap();
        exchange(&place, &ours, &theirs).expect_success();
        assert_eq!(mode(&place, "out.csv"), 0o600);
        for name in ["out.csv", "report.json"] {
            std::fs::remove_file(place.path(name)).unwrap();
        }
    }
    let piped = Arguments::new("-", "id").stdin("id\n1\n").output("out.csv");
    exchange(&place, &piped, &theirs).expect_success();
    assert_eq!(mode(&place, "out.csv"), 0o600);
}

#[test]
fn a_crash_leaves_no_core() {
    let place = Place::new();
    place.write("good.csv", "id\n1\n");
    let limit = |words: &str| {
        let table = Arguments::new("good.csv", "id")
            .with(words)
            .after("ulimit -Sc $(ulimit -Hc)");
        let mut waiting = place.sender(&table, "--listen 127.0.0.1:0");
        waiting.endpoint();
        let path = format!("/proc/{}/limits", waiting.process.id());
        let limits = std::fs::read_to_string(path).unwrap();
        waiting.process.kill().unwrap();
        waiting.process.wait().unwrap();
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        words[4].to_owned()
    };
    assert_eq!(limit(""), "0");
    // Whether more is allowed here is up to who started the test.
    let allowed = std::process::Command::new("sh")
        .args(["-c", "ulimit -Hc"])
        .output();
    if allowed.unwrap().stdout != b"0\n" {
        assert_ne!(limit("--allow-core-dumps"), "0");
    }
}

#[test]
fn a_number_that_cannot_be_printed_is_an_error_that_says_why() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n");
    place.write("theirs.csv", "id\n2\n3\n");
    let side = |input| Arguments::new(input, "id").with("--reveal size --security semi-honest");
    let ours = side("ours.csv").after("exec > /dev/full");
    let ended = exchange(&place, &ours, &side("theirs.csv"));
    ended.receiver.expect_failure(
        7,
        "standard output cannot be written: No space left on device",
    );
}

/// A control group within another, of version 1, which is removed at the end.
struct Groups(PathBuf);

impl Groups {
    /// The outer one has this limit; nothing where groups cannot be made.
    fn nested(bytes: u64) -> Option<Groups> {
        let name = format!("vesica-{}", std::process::id());
        let outer = Path::new("/sys/fs/cgroup/memory").join(name);
        std::fs::create_dir_all(outer.join("inner")).ok()?;
        let groups = Groups(outer);
        let limit = groups.0.join("memory.limit_in_bytes");
        std::fs::write(limit, bytes.to_string()).ok()?;
        Some(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for group in [self.0.join("inner"), self.0.clone()] {
            // An empty group has nothing in it that is lost.
            let _ = std::fs::remove_dir(group);
        }
    }
}

/// Unseen, the limit would have the system kill the receiver.
#[test]
fn the_limit_of_a_group_above_has_a_run_go_in_buckets() {
    const LIMIT: u64 = 120 << 20;
    let Some(groups) = Groups::nested(LIMIT) else {
        eprintln!("SKIPPED: no control group can be made here");
        return;
    };
    let place = Place::new();
    let rows = |first: u32| -> Vec<Vec<String>> {
        (first..first + (1 << 19))
            .map(|row| vec![row.to_string()])
            .collect()
    };
    place.write("ours.csv", csv_of(&["id"], &rows(0)));
    place.write("theirs.csv", csv_of(&["id"], &rows(1 << 18)));
    let joins = format!("echo $$ > {}/inner/cgroup.procs", groups.0.display());
    let receiver = Arguments::new("ours.csv", "id")
        .output("out.csv")
        .with("--report report.json --threads 1")
        .after(&joins);
    let pair = exchange(&place, &receiver, &Arguments::new("theirs.csv", "id"));
    pair.expect_success();
    assert_eq!(place.read("out.csv").lines().count(), 1 + (1 << 18));
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    let machine = &report["machine"];
    assert!(
        machine["memory_bytes"].as_u64().unwrap() <= LIMIT,
        "{machine}"
    );
    let named = format!(
        "the control group of {}/memory.limit_in_bytes",
        groups.0.display()
    );
    assert_eq!(machine["memory_limit"], *named);
    assert!(
        report["contract"]["buckets"].as_u64().unwrap() > 1,
        "{report:#}"
    );
}
