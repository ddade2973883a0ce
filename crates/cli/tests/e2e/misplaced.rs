//! What is given in the place of something else is named, beside what was expected: every command and option, from their
//! declarations.

use std::any::TypeId;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use clap::Arg;
use vesica::Fingerprint;
use vesica_cli::{PathKind, PathUse};
use vesica_files::DirectoryKind;

use crate::declared::{Declared, commands, id};
use crate::support::{Arguments, Ended, Place, Running, exchange};
use crate::tasks::{place_of_keys, split_keys, succeed};

/// A place with something of each kind: `table.csv`, `directory`, and the identities.
fn place() -> Place {
    let place = Place::new();
    place.write("table.csv", "id\n1\n");
    fs::create_dir(place.path("directory")).unwrap();
    place
}

/// How a command ends that has this in the place of an option's value.
fn ended(place: &Place, declared: &Declared, arg: &Arg, value: &str) -> Ended {
    let line = declared.line(place, &[(id(arg), value.to_owned())]);
    let ended = Running::start(place.command(&line)).wait();
    assert_eq!(ended.code, Some(2), "{line:?}: {}", ended.err);
    ended
}

#[test]
fn what_is_in_the_place_of_a_path_is_named() {
    let place = place();
    let fingerprint = place.sender.to_string();
    let mut tried = 0;
    for declared in commands() {
        for (arg, of) in declared.paths() {
            let (PathUse::Reads(kind) | PathUse::Writes(kind) | PathUse::Fetches(kind)) = of else {
                continue;
            };
            let (expected, other) = match kind {
                PathKind::File => ("a file", Some(("directory", "a directory"))),
                PathKind::Set => ("a published set", Some(("directory", "a directory"))),
                PathKind::Directory(_) => ("a directory", Some(("table.csv", "a text file"))),
                PathKind::Table => ("a table", None),
                kind => panic!("what is expected of {kind:?}?"),
            };
            let things = [Some((&*fingerprint, "a fingerprint")), other];
            for (value, found) in things.into_iter().flatten() {
                let ended = ended(&place, &declared, arg, value);
                let name = arg.get_long().unwrap_or(id(arg));
                let words = format!("--{name} {value} is {found}, and not {expected}");
                ended.expect_failure(2, &words);
                tried += 1;
            }
        }
    }
    assert!(tried > 150, "{tried}");
}

/// A directory of each kind, as commands make it.
fn directories() -> (Place, [(DirectoryKind, &'static str); 6]) {
    let place = place_of_keys(10);
    let run = |words: String| place.run(&words).expect_success();
    let both = ["ours.csv", "theirs.csv"].map(|input| Arguments::new(input, "id"));
    let [receiver, sender] = both;
    let receiver = receiver.output("/dev/full").with("--work-dir work");
    let pair = exchange(&place, &receiver, &sender);
    pair.receiver.expect_failure(7, "/dev/full");
    let (peer, table) = (place.sender, "--input ours.csv --key id");
    run(format!(
        "exchange offer --role receiver {table} --identity receiver.key --peer {peer} --state courier --message-out offered"
    ));
    succeed(split_keys(&place, ["job", "far"], ""));
    run(format!(
        "publish {table} --identity sender.key --set-dir database --output set.vset"
    ));
    place.write("clients", place.receiver.to_string());
    let mut server = place.start_after(
        "true",
        "serve --set-dir database --clients clients --quota 10 --identity sender.key --listen 127.0.0.1:0",
    );
    let endpoint = server.endpoint();
    run(format!(
        "lookup {table} --identity receiver.key --peer {peer} --set set.vset --state state {endpoint}"
    ));
    drop(server);
    place
        .deal(
            "--offline dealer --items 32 --receiver-size 10 --sender-size 10",
            "",
        )
        .iter()
        .for_each(Ended::expect_success);
    let all = [
        (DirectoryKind::WorkDir, "work"),
        (DirectoryKind::Courier, "courier"),
        (DirectoryKind::Job, "job"),
        (DirectoryKind::Database, "database"),
        (DirectoryKind::LookUp, "state"),
        (DirectoryKind::Store, "receiver.store"),
    ];
    assert!(
        DirectoryKind::ALL
            .iter()
            .eq(all.iter().map(|(kind, _)| kind))
    );
    (place, all)
}

fn names(directory: &Path) -> Vec<OsString> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_directory_of_another_command_is_named_and_left() {
    let (place, directories) = directories();
    let (mut tried, mut fit) = (0, 0);
    for declared in commands() {
        for (arg, of) in declared.paths() {
            let (PathUse::Writes(kind) | PathUse::Reads(kind)) = of else {
                continue;
            };
            let expected = match kind {
                PathKind::Directory(kind) => kind.name(),
                PathKind::Table => "a table",
                _ => continue,
            };
            for (other, directory) in directories {
                if kind == PathKind::Directory(other) {
                    fit += 1;
                    continue;
                }
                let before = names(&place.path(directory));
                let ended = ended(&place, &declared, arg, directory);
                let name = arg.get_long().unwrap_or(id(arg));
                let found = other.name();
                let words = format!("--{name} {directory} is {found}, and not {expected}");
                ended.expect_failure(2, &words);
                assert_eq!(names(&place.path(directory)), before);
                tried += 1;
            }
        }
    }
    assert!(tried > 100 && fit > 15, "{tried}, {fit}");
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let place = place();
    let mut tried = 0;
    for declared in commands() {
        for (arg, of) in declared.paths() {
            if matches!(of, PathUse::Writes(_)) {
                let ended = ended(&place, &declared, arg, "none/x");
                let name = arg.get_long().unwrap_or(id(arg));
                let words = format!("--{name} none/x: there is no directory none");
                ended.expect_failure(2, &words);
                tried += 1;
            }
        }
    }
    assert!(tried > 25, "{tried}");
}

#[test]
fn what_is_in_the_place_of_an_address_or_a_fingerprint_is_named() {
    let place = place();
    let fingerprint = place.sender.to_string();
    let (mut addresses, mut fingerprints) = (0, 0);
    for declared in commands() {
        for arg in declared.values() {
            let of = arg.get_value_parser().type_id();
            let names = arg.get_value_names().unwrap_or_default();
            let is_address = names.first().is_some_and(|name| name == "ADDR");
            let things = match is_address {
                true => [
                    (&*fingerprint, "a fingerprint"),
                    ("table.csv", "a text file"),
                ],
                false if of == TypeId::of::<Fingerprint>() => [
                    ("receiver.key", "an identity"),
                    ("127.0.0.1:1", "an address"),
                ],
                false => continue,
            };
            for (value, found) in things {
                let ended = ended(&place, &declared, arg, value);
                let words = match is_address {
                    true => format!("this is {found}, and an address is HOST:PORT"),
                    false => format!("this is {found}, and not a fingerprint"),
                };
                assert!(ended.err.contains(&words), "{words}: {}", ended.err);
                if is_address && found == "a fingerprint" {
                    let hint = ended.hint();
                    assert!(hint.contains("name the peer with --peer"), "{hint}");
                }
                match is_address {
                    true => addresses += 1,
                    false => fingerprints += 1,
                }
            }
        }
    }
    // A type or a name that is called otherwise would leave none.
    assert!(
        addresses >= 20 && fingerprints >= 10,
        "{addresses}, {fingerprints}"
    );
}

#[test]
fn what_is_in_the_place_of_a_table_or_an_identity_is_named() {
    let place = place();
    place.write("set", b"vesica\0S\x01\x02\x03");
    for (file, found) in [("set", "a published set"), ("receiver.key", "an identity")] {
        let ended = place.run(&format!("check --input {file} --key id"));
        ended.expect_failure(3, &format!("{file}: this is {found}, and not a table"));
        assert!(ended.hint().starts_with("name a table: "), "{}", ended.err);
    }
    for (file, found) in [("set", "a published set"), ("table.csv", "a text file")] {
        let ended = place.run(&format!("fingerprint --identity {file}"));
        let words = format!("identity {file}: this is {found}, and not an identity");
        ended.expect_failure(2, &words);
        assert!(ended.hint().contains("`vesica keygen`"), "{}", ended.err);
    }
    // Who can read them is of no matter.
    place.write("long.csv", "id\n".repeat(30_000));
    for table in ["table.csv", "long.csv"] {
        let ended = place.run(&format!("gateway --listen 127.0.0.1:0 --admit {table}"));
        let words = format!("{table}: this is a text file, and not the admission to a gateway");
        ended.expect_failure(2, &words);
    }
    // What a directory lacks is said, and not only what is in it.
    for (words, line) in [
        (
            "attempts --job . --listen 127.0.0.1:0",
            "--job . is not the directory of a job, and --identity is in the directory of --job",
        ),
        (
            "receive --input table.csv --key id --work-dir . --listen 127.0.0.1:0",
            "--work-dir . is not the work directory of a run, and ",
        ),
    ] {
        let peer = place.sender;
        let ended = place.run(&format!("{words} --identity receiver.key --peer {peer}"));
        ended.expect_failure(2, line);
    }
    for (file, line) in [
        ("receiver.key", "this is an identity, and not the admission"),
        ("missing", "no such file"),
    ] {
        let ended = place.run(&format!("gateway --listen 127.0.0.1:0 --admit {file}"));
        ended.expect_failure(2, &format!("{file}: {line}"));
    }
}
