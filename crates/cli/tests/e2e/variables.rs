//! Variables as they come from files and secrets: with a line end after them, and for all commands.

use std::collections::BTreeSet;

use crate::declared::{Declared, commands, id};
use crate::support::{Ended, Place, Running};

fn ended(place: &Place, words: &[String], variable: (&str, &str)) -> Ended {
    let mut command = place.command(words);
    command.env(variable.0, variable.1);
    Running::start(command).wait()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Each option once: what reads its value gets the same as without a line end.
#[test]
fn a_line_end_is_no_part_of_a_variable() {
    let mut seen = BTreeSet::new();
    let mut differs = 0;
    // Others begin whatever options say.
    let fails = |declared: &&Declared| {
        let mut arguments = declared.command.get_arguments();
        arguments.any(clap::Arg::is_required_set)
    };
    for declared in commands().iter().filter(fails) {
        for arg in declared.command.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let mut is_new = || seen.insert(long.to_owned());
            if ["help", "version", "config", "log-format"].contains(&long) || !is_new() {
                continue;
            }
            let possible = arg.get_possible_values();
            let value = possible.first().map_or("1", |value| value.get_name());
            let variable = format!("VESICA_{}", long.to_uppercase().replace('-', "_"));
            // Values are read before it is said that others are missing.
            let [plain, with_end, with_word] = ["", "\r\n", "\nx"].map(|end| {
                let value = format!("{value}{end}");
                ended(&Place::new(), &declared.words, (&variable, &value))
            });
            let what = format!("{:?} {variable}", declared.words);
            assert_eq!(
                (with_end.code, &with_end.err),
                (plain.code, &plain.err),
                "{what}"
            );
            differs += usize::from(with_word.err != plain.err);
        }
    }
    // Most options do not take any text.
    assert!(seen.len() > 80 && differs > 30, "{} {differs}", seen.len());
}

#[test]
fn a_variable_has_a_line_for_each_time_that_an_option_is_given() {
    let place = Place::new();
    place.write("a.csv", "id,n\n1,2\n");
    place.write("b.csv", "id,n\n3,4\n");
    place.write("c.toml", "input = \"nowhere.csv\"\n");
    for line_end in ["\n", "\r\n", "\n\n"] {
        let both = ["a.csv", "b.csv", ""].join(line_end);
        for (more, rows) in [("", 2), (" --config c.toml", 2), (" --input a.csv", 1)] {
            let check = words(&format!("check --key id --json{more}"));
            let said = ended(&place, &check, ("VESICA_INPUT", &both));
            said.expect_success();
            let told: serde_json::Value = serde_json::from_str(said.text()).unwrap();
            assert_eq!(told["rows"], rows, "{both:?}{more}");
        }
    }
    let check = words("check --input a.csv");
    let said = ended(&place, &check, ("VESICA_KEY", "id\nm"));
    said.expect_failure(3, "no column is called \"m\"");
    // What is typed takes the place of the other, too.
    let check = words("check --input a.csv --match id=id");
    ended(&place, &check, ("VESICA_KEY", "id\nm")).expect_success();
}

#[test]
fn variables_that_set_nothing_are_named_if_they_look_like_one_that_does() {
    let place = Place::new();
    place.write("a.csv", "id\n1\n");
    let check = words("check --input a.csv --key id");
    let said = ended(&place, &check, ("VESICA_OUTPUTS", "1"));
    said.expect_success();
    let warning = "the variable VESICA_OUTPUTS sets no option; did you mean VESICA_OUTPUT?";
    assert!(said.err.contains(warning), "{}", said.err);
    // Most of all where something is missing.
    let said = ended(
        &place,
        &words("check --input a.csv"),
        ("VESICA_NORMALISE", "id=text"),
    );
    said.expect_failure(2, "--key");
    assert!(
        said.err.contains("did you mean VESICA_NORMALIZE?"),
        "{}",
        said.err
    );
    for name in [
        "VESICA_PORT_7340_TCP",
        "VESICA_CONNECT_SERVICE_HOST",
        "VESICA_NONE_SUCH",
    ] {
        let said = ended(&place, &check, (name, "1"));
        assert!(!said.err.contains(name), "{}", said.err);
    }
}

#[test]
fn paths_come_from_secrets() {
    let place = Place::new();
    place.write("a.csv", "id\n1\n");
    let fingerprint = ended(
        &place,
        &words("fingerprint"),
        ("VESICA_IDENTITY", "receiver.key\n"),
    );
    fingerprint.expect_success();
    assert_eq!(fingerprint.text().trim(), place.receiver.to_string());
    let check = words("check --key id");
    ended(&place, &check, ("VESICA_INPUT", "a.csv\n\n")).expect_success();
    // Two lines are no path of one file.
    let two = ended(
        &place,
        &words("fingerprint"),
        ("VESICA_IDENTITY", "receiver.key\nb.key\n"),
    );
    two.expect_failure(2, "has a line end in it");
}

/// A database that a command does not ask is nothing to it, whatever is wrong with it.
#[test]
fn a_database_for_other_commands_stops_none() {
    let place = Place::new();
    for declared in commands() {
        let has = |name: &str| declared.values().iter().any(|arg| id(arg) == name);
        if !has("query") {
            continue;
        }
        let line = declared.line(&place, &[]);
        let [none, odd] = ["", "first\nsecond"].map(|value| {
            let variable = if value.is_empty() {
                "VESICA_NONE"
            } else {
                "VESICA_DATABASE"
            };
            ended(&place, &line, (variable, value))
        });
        assert_eq!(
            (odd.code, odd.err),
            (none.code, none.err),
            "{:?}",
            declared.words
        );
    }
    let asks = words("check --key id --query select");
    let asked = ended(&place, &asks, ("VESICA_DATABASE", "sqlite:a.db\nsecond"));
    asked.expect_failure(2, "has a line end in it");
}
