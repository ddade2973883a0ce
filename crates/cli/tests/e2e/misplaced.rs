//! What is given in the place of something else is named, beside what was expected: every command and option, from their
//! declarations.

use std::any::TypeId;
use std::fs;

use clap::Arg;
use vesica::Fingerprint;
use vesica_cli::{PathKind, PathUse};

use crate::declared::{Declared, commands, id};
use crate::support::{Ended, Place, Running};

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
                PathKind::Directory => ("a directory", Some(("table.csv", "a text file"))),
                PathKind::Table => ("a table", None),
                kind => panic!("what is expected of {kind:?}?"),
            };
            let things = [Some((&*fingerprint, "a fingerprint")), other];
            for (value, found) in things.into_iter().flatten() {
                let ended = ended(&place, &declared, arg, value);
                let name = arg.get_long().unwrap_or(id(arg));
                let words = format!("--{name} is {found}, and not {expected}");
                ended.expect_failure(2, &words);
                tried += 1;
            }
        }
    }
    assert!(tried > 150, "{tried}");
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
        let words = format!("{table}: is no admission to a gateway, as gateway.json of a job is: ");
        ended.expect_failure(2, &words);
    }
}
