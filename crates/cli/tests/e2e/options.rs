//! Every option that is declared: where it is shown, where it can be set, and which commands have it.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction};

use crate::declared::{self, Declared};
use crate::support::{Place, Running};

/// The commands, but for help about them.
fn commands() -> Vec<Declared> {
    let all = declared::commands().into_iter();
    all.filter(|declared| !declared.words.iter().any(|word| word == "help"))
        .collect()
}

/// The long options of a command that people see, but for help.
fn shown(declared: &Declared) -> impl Iterator<Item = &Arg> {
    let all = declared.command.get_arguments();
    all.filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str()))
}

fn longs(declared: &Declared) -> BTreeSet<&str> {
    shown(declared).filter_map(Arg::get_long).collect()
}

fn of<'a>(all: &'a [Declared], words: &str) -> &'a Declared {
    let found = all
        .iter()
        .find(|declared| declared.words.join(" ") == words);
    found.unwrap_or_else(|| panic!("no command is called {words}"))
}

/// The section of a command in a file of options.
fn section(declared: &Declared) -> String {
    format!("[{}]", declared.words.join("."))
}

#[test]
fn every_option_is_shown_wherever_options_are() {
    let place = Place::new();
    let scripts = ["bash", "zsh", "fish"].map(|shell| {
        let ended = place.run(&format!("completions {shell}"));
        ended.expect_success();
        ended.text().to_owned()
    });
    let mut options = 0;
    for declared in commands() {
        let words = declared.words.join(" ");
        let help = place.run(&format!("{words} --help"));
        let man = place.run(&format!("man {words}"));
        [&help, &man]
            .iter()
            .for_each(|ended| ended.expect_success());
        let man = man.text().replace("\\-", "-");
        for long in shown(&declared).filter_map(Arg::get_long) {
            options += 1;
            assert!(
                help.text().contains(&format!("--{long}")),
                "{words} --help: {long}"
            );
            assert!(man.contains(&format!("--{long}")), "man {words}: {long}");
            assert!(
                scripts[..2]
                    .iter()
                    .all(|script| script.contains(&format!("--{long}"))),
                "{long}"
            );
            assert!(
                scripts[2].contains(&format!("-l {long} "))
                    || scripts[2].contains(&format!("-l {long}\n")),
                "fish: {long}"
            );
        }
    }
    assert!(options > 300, "{options}");
}

#[test]
fn every_option_comes_from_the_environment() {
    for declared in commands() {
        for arg in shown(&declared) {
            let Some(long) = arg.get_long() else { continue };
            let variable = format!("VESICA_{}", long.to_uppercase().replace('-', "_"));
            let env = arg.get_env().and_then(|name| name.to_str());
            // Those of all commands are read before.
            let of_all = ["config", "log-format", "allow-core-dumps"].contains(&long);
            assert!(
                of_all || env == Some(&*variable),
                "{:?} {long}: {env:?}",
                declared.words
            );
        }
    }
}

/// A value of a wrong kind is complained of under the option's name, which only its command knows.
#[test]
fn every_option_comes_from_a_file_by_all_of_its_names() {
    let place = Place::new();
    let (mut former, mut seen) = (0, BTreeSet::new());
    for declared in commands() {
        for arg in shown(&declared).filter(|arg| arg.get_id() != "config") {
            let Some(long) = arg.get_long() else { continue };
            let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
            let (value, kind) = match is_flag {
                true => ("\"x\"", "is true or false"),
                false => ("true", "is a text, a number or a list of these"),
            };
            let names = arg.get_all_aliases().unwrap_or_default();
            former += names.len();
            for name in names.into_iter().chain([long]) {
                // Of all commands each name once, as a common key and in a section; of one of them all.
                let of_one = format!("{}\n{name} = {value}\n", section(&declared));
                let is_new = seen.insert(name.to_owned());
                let is_tried = is_new || declared.words == ["receive"];
                let common = is_new.then(|| format!("{name} = {value}\n"));
                for text in common.into_iter().chain(is_tried.then_some(of_one)) {
                    // What was the directory of a published set is the URI of a database elsewhere.
                    if name == "database" && long == "set-dir" {
                        continue;
                    }
                    place.write("options.toml", &text);
                    let words = declared.words.join(" ");
                    let ended = place.run(&format!("{words} --config options.toml"));
                    let line = format!("options.toml: {long} {kind}");
                    match name == "database" && words == "publish" {
                        true => ended.expect_failure(2, kind),
                        false => ended.expect_failure(2, &line),
                    }
                }
            }
        }
    }
    assert!(former > 8, "{former}");
}

/// Nothing is unexpected about them, whatever else is wrong.
#[test]
fn former_names_are_taken() {
    let place = Place::new();
    for declared in commands() {
        for arg in shown(&declared) {
            for name in arg.get_all_aliases().unwrap_or_default() {
                let words = [&declared.words[..], &[format!("--{name}")]].concat();
                let ended = Running::start(place.command(&words)).wait();
                assert!(
                    !ended.err.contains("unexpected argument"),
                    "{words:?}: {}",
                    ended.err
                );
            }
        }
    }
    let all = commands();
    for (words, long, name) in [
        ("receive", "take-payload", "take-values"),
        ("send", "payload-width", "value-width"),
        ("check", "payload-width", "value-width"),
        ("exchange", "message-out", "out"),
        ("serve", "set-dir", "database"),
        ("receive", "optimize", "favour"),
    ] {
        let option = shown(of(&all, words)).find(|arg| arg.get_long() == Some(long));
        let names = option.unwrap().get_all_aliases().unwrap_or_default();
        assert!(names.contains(&name), "{words} --{long}");
    }
}

/// What a command that reads a table does not take, and why.
const NOT_TAKEN: [(&str, &[&str], &str); 17] = [
    ("doctor", &["report"], "it prints its report: --json"),
    (
        "doctor",
        &["deadline", "timeout"],
        "what it does has times of its own",
    ),
    ("doctor", RESULT, "it has no rows"),
    ("check", &["report"], "it prints its report: --json"),
    (
        "check",
        &["deadline", "wait", "timeout", "identity"],
        "it meets nobody",
    ),
    ("check", RESULT, "it has no rows"),
    (
        "exchange",
        &["deadline", "wait", "timeout"],
        "no step waits for the peer",
    ),
    (
        "publish",
        &["deadline", "wait", "timeout"],
        "it meets nobody",
    ),
    ("publish", RESULT_BUT_FILE, "its result is the set"),
    ("publish", &["allow-empty"], "a set has keys"),
    ("split", RESULT, "collect writes the rows"),
    (
        "split",
        &["report"],
        "job.json has what is to say of the job",
    ),
    (
        "collect",
        &["deadline", "wait", "timeout", "identity"],
        "it meets nobody",
    ),
    ("collect", &["allow-empty"], "whoever split the table knew"),
    (
        "bucket",
        &["memory"],
        "the job has the memory of a task: split --task-memory",
    ),
    (
        "bucket",
        &["identity"],
        "a task has a key of its own, in the job",
    ),
    ("bucket", &["allow-empty"], "whoever split the table knew"),
];
const RESULT: &[&str] = &["output", "output-table", "output-table-mode", "rows"];
const RESULT_BUT_FILE: &[&str] = &["output-table", "output-table-mode", "rows"];

#[test]
fn commands_that_read_a_table_have_the_same_options() {
    let all = commands();
    let of_run = of(&all, "receive");
    let of_table = shown(of_run).filter(|arg| arg.get_help_heading() == Some("Table"));
    let of_table: Vec<&str> = of_table.filter_map(Arg::get_long).collect();
    assert!(of_table.len() > 12, "{of_table:?}");
    let readers = all
        .iter()
        .filter(|declared| longs(declared).contains("key"));
    let readers: Vec<&Declared> = readers.collect();
    assert_eq!(readers.len(), 9);
    let common = [
        "memory",
        "threads",
        "progress",
        "report",
        "allow-empty",
        "deadline",
        "wait",
        "timeout",
        "identity",
    ];
    let wanted = of_table.iter().chain(&common).chain(RESULT);
    let bucket = [of(&all, "bucket")];
    let mut unused: BTreeSet<usize> = (0..NOT_TAKEN.len()).collect();
    for long in wanted {
        for declared in readers.iter().copied().chain(bucket) {
            // A task reads what the table was cut into.
            if declared.words == ["bucket"] && (of_table.contains(long) || RESULT.contains(long)) {
                continue;
            }
            let words = declared.words.join(" ");
            let without = NOT_TAKEN
                .iter()
                .position(|(command, longs, _)| *command == words && longs.contains(long));
            if let Some(at) = without {
                unused.remove(&at);
            }
            assert_eq!(
                longs(declared).contains(long),
                without.is_none(),
                "{words} --{long}"
            );
        }
    }
    assert!(unused.is_empty(), "{unused:?}");
}

/// Nothing that a command shares with others is hidden because the command refuses it.
#[test]
fn no_command_hides_an_option_that_others_show() {
    for declared in commands() {
        let hidden = declared
            .command
            .get_arguments()
            .filter(|arg| arg.is_hide_set());
        let hidden: Vec<&str> = hidden.filter_map(Arg::get_long).collect();
        assert!(hidden.is_empty(), "{:?}: {hidden:?}", declared.words);
    }
}

/// A function of the package: its file, its name, the command that it is, what the command has besides, and what it has.
struct Function(
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// The link has them in Python, and takes no invitations.
const OF_A_LINK: [&str; 9] = [
    "listen", "connect", "identity", "peer", "proxy", "sni", "outer-ca", "invite", "accept",
];
/// Those of every command; the report is returned.
const OF_COMMANDS: [&str; 5] = [
    "config",
    "log-format",
    "allow-core-dumps",
    "report",
    // The identity is an object.
    "passphrase-file",
];

const FUNCTIONS: [Function; 10] = [
    Function("_runs.py", "receive", "receive", &OF_A_LINK, &["link"]),
    Function("_runs.py", "send", "send", &OF_A_LINK, &["link"]),
    // It returns the report. Terms are compared by the command.
    Function(
        "_runs.py",
        "check",
        "check",
        &[
            "json",
            "threads",
            "progress",
            "security",
            "lambda",
            "min-size",
            "post-quantum",
            "both",
            "protocol",
            "take-payload",
            "terms",
            "against",
        ],
        &[],
    ),
    Function(
        "_exchange.py",
        "exchange",
        "exchange",
        &["message-out"],
        &[],
    ),
    Function("_published.py", "publish", "publish", &[], &[]),
    Function(
        "_published.py",
        "serve",
        "serve",
        &["listen", "metrics"],
        &["address"],
    ),
    Function(
        "_published.py",
        "lookup",
        "lookup",
        &["connect", "identity", "peer", "proxy", "sni", "outer-ca"],
        &["link"],
    ),
    Function("_tasks.py", "split", "split", &OF_A_LINK, &["link"]),
    // A method of the job, which nobody watches.
    Function("_tasks.py", "collect", "collect", &["job", "progress"], &[]),
    Function(
        "_plan.py",
        "plan",
        "plan",
        &["network", "json", "csv", "calibrate"],
        &[],
    ),
];

/// A module of the package.
fn module(file: &str) -> String {
    let path = format!("{}/../../python/vesica/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The names and types in the lines below one that begins with `head`, up to a line that `ends` them.
fn typed<'t>(text: &'t str, head: &str, ends: fn(&str) -> bool) -> Vec<(&'t str, &'t str)> {
    let begin = text.find(head).expect(head) + head.len();
    let lines = text[begin..].lines().skip(1).map(str::trim_start);
    let lines = lines.take_while(|line| !ends(line));
    lines.filter_map(|line| line.split_once(": ")).collect()
}

/// The names in a group of options, and in those that it is made of.
fn group<'t>(options: &'t str, name: &str) -> Vec<&'t str> {
    let head = format!("\nclass {name}(");
    let (_, below) = options.split_once(&head).expect(name);
    let (of, _) = below.split_once("total=False").expect(name);
    let of = of.split(',').map(str::trim);
    let of = of.filter(|base| !["", "TypedDict"].contains(base));
    let own = typed(options, &head, |line| {
        line.starts_with("class ") || line.starts_with('#')
    });
    let inherited = of.flat_map(|base| group(options, base));
    inherited.chain(own.iter().map(|(name, _)| *name)).collect()
}

/// The parameters of a function of the package, as options are called.
fn parameters(file: &str, function: &str) -> BTreeSet<String> {
    let (text, options) = (module(file), module("_options.py"));
    let own = typed(&text, &format!("def {function}("), |line| {
        line.starts_with(')')
    });
    let names = own.into_iter().flat_map(|(name, of)| match name {
        "**options" => {
            let of = of.trim_start_matches("Unpack[").split(']').next();
            group(&options, of.unwrap_or_default())
        }
        name => vec![name],
    });
    let named = |name: &str| match name {
        // Identifiers have names.
        "on" => vec!["key".to_owned(), "match".to_owned()],
        "table" => vec!["input".to_owned()],
        "lambda_" => vec!["lambda".to_owned()],
        "header" => vec!["no-header".to_owned()],
        name => vec![name.replace('_', "-")],
    };
    names.flat_map(named).collect()
}

#[test]
fn functions_of_the_package_have_the_options_of_their_commands() {
    let all = commands();
    for Function(file, function, command, commands, functions) in FUNCTIONS {
        let options = shown(of(&all, command));
        let options = options.map(|arg| arg.get_long().unwrap_or(arg.get_id().as_str()).to_owned());
        let mut options: BTreeSet<String> = options.collect();
        OF_COMMANDS.iter().chain(commands).for_each(|name| {
            options.remove(*name);
        });
        let mut parameters = parameters(file, function);
        functions
            .iter()
            .for_each(|name| assert!(parameters.remove(*name), "{function}: {name}"));
        assert_eq!(parameters, options, "{function}");
    }
    assert!(
        OF_A_LINK
            .iter()
            .all(|name| longs(of(&all, "receive")).contains(name))
    );
}

#[test]
fn sections_of_a_file_are_for_one_command() {
    let place = Place::new();
    place.write("table.csv", "id,n\n1,a\n2,\n");
    let common = "input = \"table.csv\"\nkey = \"id\"\nlisten = \"127.0.0.1:1\"\nstate = \"s\"\n";
    let items = |sections: &str, words: &str| {
        place.write("vesica.toml", format!("{common}{sections}"));
        let ended = place.run(&format!("check --json --config vesica.toml {words}"));
        ended.expect_success();
        let check: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
        check["items"].as_u64().unwrap()
    };
    assert_eq!(items("", ""), 2);
    assert_eq!(
        items(
            "[check]\nkey = \"n\"\n[send]\nkey = \"none\"\n[offline.make]\nfor = \"ole\"\n",
            ""
        ),
        1
    );
    assert_eq!(items("[check]\nkey = \"none\"\n", "--key n"), 1);
    // A section's alternative takes the place of what is common.
    place.write("vesica.toml", format!("{common}[receive]\nconnect = \"127.0.0.1:1\"\nwait = 0.1\nidentity = \"receiver.key\"\n"));
    let ended = place.run(&format!(
        "receive --config vesica.toml --peer {}",
        place.sender
    ));
    ended.expect_failure(4, "127.0.0.1:1");
    for (text, line, hint) in [
        (
            "[recieve]\nkey = \"id\"\n",
            "[recieve] is no section",
            "did you mean [receive]?",
        ),
        (
            "[offline.makes]\nfor = \"ole\"\n",
            "[makes] is no section",
            "did you mean [make]?",
        ),
        (
            "[bench-party]\nkey = \"id\"\n",
            "[bench-party] is no section",
            "",
        ),
        (
            "[send]\ntake-payload = true\n",
            "send does not have the option \"take-payload\"",
            "",
        ),
        (
            "[keygen]\nkeys = \"x\"\n",
            "keygen does not have the option \"keys\"",
            "",
        ),
        (
            "memory1 = \"1G\"\n",
            "no command has the option \"memory1\"",
            "did you mean \"memory\"?",
        ),
    ] {
        place.write("vesica.toml", format!("{text}\n"));
        let ended = place.run("check --config vesica.toml");
        ended.expect_failure(2, line);
        assert!(ended.hint().contains(hint), "{}", ended.err);
    }
}

/// It is the directory of a published set, unless it is the URI of a database.
#[test]
fn the_directory_of_a_set_may_have_its_former_name() {
    let place = Place::new();
    place.write("all.csv", "id\n1\n2\n");
    place.write("clients", format!("{}\n", place.receiver));
    let publish = |number: u8, before: &str, words: &str| {
        let words = format!(
            "publish --identity sender.key --input all.csv --key id --output {number}.vset {words}"
        );
        place.run_after(before, &words)
    };
    publish(0, "true", "--set-dir d0").expect_success();
    publish(1, "true", "--database d1").expect_success();
    publish(2, "true", "--database=d2").expect_success();
    publish(3, "export VESICA_DATABASE=d3", "").expect_success();
    place.write("vesica.toml", "database = \"d4\"\n");
    publish(4, "true", "--config vesica.toml").expect_success();
    // The current name counts, and a URI is for queries.
    publish(5, "export VESICA_DATABASE=other", "--set-dir d5").expect_success();
    publish(6, "export VESICA_DATABASE=sqlite:x.db", "--set-dir d6").expect_success();
    publish(7, "export VESICA_DATABASE=sqlite:x.db", "").expect_failure(2, "--set-dir");
    publish(8, "true", "--set-dir d8 --database sqlite:x.db")
        .expect_failure(2, "--database goes with --query");
    let serve = "serve --identity receiver.key --clients clients --quota 9 --listen 127.0.0.1:0";
    place
        .run(&format!("{serve} --database d0"))
        .expect_failure(3, "d0");
    place
        .run_after("export VESICA_DATABASE=d0", serve)
        .expect_failure(3, "d0");
    place
        .run(&format!("{serve} --database sqlite:x.db"))
        .expect_failure(2, "is a directory");
    place
        .run_after("export VESICA_DATABASE=sqlite:x.db", serve)
        .expect_failure(2, "--set-dir");
}

/// A table that a run refuses is refused with the same code and the same words.
#[test]
fn check_finds_what_a_run_refuses() {
    let place = Place::new();
    place.write("t.csv", "id,v,text\n1,\"12,50\",long text\n2,3,b\n");
    place.write("none.csv", "id\n\"\"\n");
    let wide: Vec<String> = (0..300).map(|column| format!("c{column}")).collect();
    let wide = wide.join(",");
    place.write("wide.csv", format!("{wide}\n{wide}\n"));
    for (words, options, code, line) in [
        (
            format!("--input wide.csv --key {wide}"),
            "",
            2,
            "300 key columns",
        ),
        (
            "--input t.csv --key id".into(),
            "--reveal sum --security semi-honest --value v",
            3,
            "row 1",
        ),
        (
            "--input t.csv --key id".into(),
            "--security semi-honest --reveal sum --value v --value-scale 19",
            2,
            "--value-scale",
        ),
        (
            "--input t.csv --key id".into(),
            "--payload text --payload-width 9",
            3,
            "row 1",
        ),
        (
            "--input t.csv --key id".into(),
            "--security semi-honest --reveal shares --payload text --payload-width 8",
            3,
            "row 1",
        ),
        ("--input none.csv --key id".into(), "", 3, "no row"),
        (
            "--input t.csv --key id".into(),
            "--value v --value-bound 3",
            2,
            "numbers to compute with",
        ),
    ] {
        // What it has found is printed in any case.
        let checked = place.run(&format!("check {words} {options}"));
        let found = (checked.code, checked.err.contains(line));
        assert_eq!(found, (Some(code), true), "{options}: {}", checked.err);
        assert_eq!(checked.out.is_empty(), code == 2, "{options}");
        let run = format!(
            "send {words} {options} --connect 127.0.0.1:1 --wait 0.1 --identity sender.key --peer {}",
            place.receiver
        );
        if code == 2 {
            place.run(&run).expect_failure(code, line);
        }
    }
    place
        .run("check --input none.csv --key id --allow-empty")
        .expect_success();
    place
        .run("check --input t.csv --key id --payload text --payload-width 11")
        .expect_success();
    // What was the name of --payload.
    let former = place.run("check --input t.csv --key id --value text --value-width 11");
    former.expect_success();
    assert!(
        former
            .err
            .contains("columns to hand over are called --payload"),
        "{}",
        former.err
    );
    let plain = place.run("check --input t.csv --key id --progress plain --reveal sum --security semi-honest --value id");
    plain.expect_success();
    assert!(plain.err.contains("reading the table"), "{}", plain.err);
}

/// What would end the run is said before there is one, and nothing of the table is in the file.
#[test]
fn check_compares_the_terms_of_both_sides() {
    let place = Place::new();
    place.write("ours.csv", "mail,n\nann@x.org,1\n");
    place.write("theirs.csv", "contact,note\nbob@x.org,hi\n");
    let theirs = "check --input theirs.csv --key contact --normalize contact=email";
    let ours = "check --input ours.csv --key mail --against terms.json --normalize";
    let write = |words: &str| {
        place
            .run(&format!("{theirs} --terms terms.json {words}"))
            .expect_success();
        let text = place.read("terms.json");
        assert!(!text.contains("bob") && !text.contains("contact"), "{text}");
    };
    let differs = |words: &str, lines: &[&str]| {
        let ended = place.run(&format!("{ours} {words}"));
        assert_eq!(ended.code, Some(6), "{words}: {}", ended.err);
        for line in lines {
            assert!(ended.err.contains(line), "{line}: {}", ended.err);
        }
    };
    write("");
    let same = format!("{ours} mail=email");
    place.run(&same).expect_success();
    differs("mail=text", &["disagree on normalization", "text"]);
    differs(
        "mail=email --lambda 64 --both",
        &["disagree on", "who learns", "64"],
    );
    differs(
        "mail=email --post-quantum",
        &["disagree on post-quantum: here yes, there no"],
    );
    write("--protocol dh --security semi-honest");
    place
        .run(&format!("{same} --security semi-honest"))
        .expect_success();
    differs(
        "mail=email --protocol kkrt --security semi-honest",
        &["disagree on protocol: here kkrt, there dh"],
    );
    write("--payload note --payload-width 20");
    place
        .run(&format!("{same} --take-payload --payload-width 20"))
        .expect_success();
    for words in [
        "mail=email",
        "mail=email --payload n",
        "mail=email --take-payload --payload-width 19",
    ] {
        differs(words, &["disagree on columns handed over"]);
    }
    write("--reveal size --security semi-honest");
    differs("mail=email", &["disagree on"]);
    // Who has the values, though not which.
    let sum = "--reveal sum --security semi-honest";
    place.write("theirs.csv", "contact,note\nbob@x.org,2\n");
    for (theirs, own, problem) in [
        ("--value note", "", None),
        ("", "--value n", None),
        ("--value note", "--value n", Some("both have some")),
        ("", "", Some("neither has any")),
    ] {
        write(&format!("{sum} {theirs}"));
        let words = format!("mail=email {sum} {own}");
        match problem {
            Some(problem) => differs(&words, &[problem]),
            None => {
                let ended = place.run(&format!("{ours} {words}"));
                ended.expect_success();
                assert!(ended.err.contains("nothing differs"), "{}", ended.err);
            }
        }
    }
    // Nothing but such a file makes way for one.
    place
        .run(&format!("{theirs} --terms ours.csv"))
        .expect_failure(
            2,
            "ours.csv: there is a text file, which terms would replace",
        );
    assert_eq!(place.read("ours.csv"), "mail,n\nann@x.org,1\n");
    place.write("terms.json", "{}");
    let ended = place.run(&same);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(ended.hint().contains("check --terms"), "{}", ended.err);
}

#[test]
fn whoever_mistakes_an_option_is_told_where_it_is() {
    let place = Place::new();
    place.write("t.csv", "id,n\n1,2\n");
    let check = "check --input t.csv --key id";
    for (words, line, hint) in [
        (
            "send --take-payload",
            "unexpected argument '--take-payload'",
            "--take-payload is an option of doctor, receive and check",
        ),
        (
            "check --quota 3",
            "unexpected argument '--quota'",
            "--quota is an option of serve",
        ),
        ("check --keys id", "--keys", "did you mean --key?"),
        ("check --key id", "<--input <FILE>|--query <SQL>>", "--help"),
        (
            "check --input t.csv --key id --show two",
            "it is no whole number",
            "--help",
        ),
        ("keygen bob.key", "'bob.key'", "vesica keygen --out bob.key"),
        ("help recieve", "recieve", "did you mean receive?"),
    ] {
        let ended = place.run(words);
        ended.expect_failure(2, line);
        assert!(ended.hint().contains(hint), "{words}: {}", ended.err);
    }
    // Where a value comes from that was not typed.
    place
        .run_after("export VESICA_SHOW=two", check)
        .expect_failure(2, "VESICA_SHOW: invalid value 'two'");
    place.write("vesica.toml", "show = \"two\"\nkey = \"nothing\"\n");
    place
        .run(&format!("{check} --config vesica.toml"))
        .expect_failure(2, "vesica.toml: invalid value 'two'");
    // What is typed takes the place of what excludes it.
    place.write("vesica.toml", "key = \"nothing\"\n");
    let words = "check --input t.csv --match id=id --config vesica.toml";
    place.run(words).expect_success();
    // Sizes in any case.
    for size in ["1k", "1K", "1m", "2^10"] {
        let words = format!("plan --receiver-size {size} --sender-size 1000 --json");
        place.run(&words).expect_success();
    }
    // An identity where `keygen` puts it.
    place.run("keygen").expect_success();
    place.run("fingerprint").expect_success();
    // A reader that has seen enough.
    for words in ["help receive", "receive --help", "man receive"] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_vesica"));
        let piped = std::process::Stdio::piped;
        let command = command
            .args(words.split(' '))
            .stdout(piped())
            .stderr(piped());
        let mut reading = command.spawn().unwrap();
        drop(reading.stdout.take());
        let ended = reading.wait_with_output().unwrap();
        assert!(ended.stderr.is_empty(), "{words}: {ended:?}");
    }
}
