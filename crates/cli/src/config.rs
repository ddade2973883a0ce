//! Options from a file, `--config`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};
use vesica::tables::{PathKind, Paths};
use vesica_files::{holds_key, is_exhausted, nearest, read_regular};

use crate::failure::{Failure, RESOURCE, USAGE};
use crate::log::{self, LogFormat};

/// Options of which one takes the place of another.
const ALTERNATIVES: [[&str; 2]; 9] = [
    ["listen", "connect"],
    ["key", "match"],
    ["input", "query"],
    ["input", "add"],
    ["input", "remove"],
    ["query", "add"],
    ["query", "remove"],
    ["database", "database-file"],
    ["output", "output-table"],
];

/// The environment variable of an option.
pub(crate) fn variable(option: &str) -> String {
    format!("VESICA_{}", option.to_uppercase().replace('-', "_"))
}

/// Options that say more about a query, or a table for the result.
const OF_A_DATABASE: [&str; 3] = ["database", "database-file", "driver"];

/// Whether an option that is not typed makes way for one that is and takes its place.
pub(crate) fn is_displaced(args: &[OsString], option: &str) -> bool {
    let is_typed = |name: &str| is_typed(args, name);
    let pairs = ALTERNATIVES.iter().filter(|pair| pair.contains(&option));
    !is_typed(option) && pairs.flatten().any(|name| is_typed(name))
}

/// The value of an option as it is typed, or else in the environment.
pub(crate) fn given(args: &[OsString], option: &str) -> Option<OsString> {
    typed(args, option).or_else(|| std::env::var_os(variable(option)))
}

/// Whether an option is typed.
pub(crate) fn is_typed(args: &[OsString], option: &str) -> bool {
    typed(args, option).is_some()
}

/// The value of an option as it is typed; of several the last.
fn typed(args: &[OsString], option: &str) -> Option<OsString> {
    let name = format!("--{option}");
    let mut words = args.iter().take_while(|word| *word != "--");
    let mut last = None;
    while let Some(word) = words.next() {
        let rest = word.as_encoded_bytes().strip_prefix(name.as_bytes());
        match rest {
            Some([]) => last = Some(words.next().cloned().unwrap_or_default()),
            Some([b'=', value @ ..]) => {
                last = Some(String::from_utf8_lossy(value).into_owned().into());
            }
            _ => {}
        }
    }
    last
}

/// The names of an option: the long one, then those that it had before.
pub(crate) fn names(option: &Arg) -> Vec<&str> {
    let former = option.get_all_aliases().unwrap_or_default();
    option.get_long().into_iter().chain(former).collect()
}

/// What `--set-dir` was called, as other commands call the URI of a database.
pub(crate) const FORMER_SET_DIR: &str = "database";

/// Whether a command has the directory of a published set, and that may be under its former name.
pub(crate) fn takes_former_set_dir(args: &[OsString], command: &Command) -> bool {
    has(command, "set-dir") && given(args, "set-dir").is_none()
}

/// Whether this has the form of a database's URI; one letter before the colon is a drive, and `vs1` a fingerprint's.
pub(crate) fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.len() > 1 && scheme != "vs1" && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The environment variable that an option is taken from: of its names, former ones among them, the first that is set. A
/// command that `takes_former` names of the directory of a published set takes that from one, unless it is the URI of a
/// database.
pub(crate) fn variable_of(option: &Arg, takes_former: bool) -> Option<String> {
    let former = variable(FORMER_SET_DIR);
    let is_directory = std::env::var(&former).is_ok_and(|value| !is_uri(&value));
    let mut names: Vec<String> = names(option).into_iter().map(variable).collect();
    match option.get_long() == Some("set-dir") {
        true => {
            names.retain(|name| *name != former);
            names.extend((takes_former && is_directory).then_some(former));
        }
        false => names.retain(|name| *name != former || !(takes_former && is_directory)),
    }
    let is_set = |name: &&String| std::env::var_os(name).is_some();
    names.iter().find(is_set).or(names.first()).cloned()
}

/// The option that a name with this value is for, in a command that `takes_former` names.
fn current<'n>(takes_former: bool, name: &'n str, value: &str) -> &'n str {
    match takes_former && name == FORMER_SET_DIR && !is_uri(value) {
        true => "set-dir",
        false => name,
    }
}

/// The arguments with the directory of a published set under its name.
pub(crate) fn with_current_names(mut args: Vec<OsString>, commands: &Command) -> Vec<OsString> {
    let (command, begin) = command(&args, commands);
    let takes_former = takes_former_set_dir(&args, command);
    let option = format!("--{FORMER_SET_DIR}");
    for at in begin..args.len() {
        let Some(word) = args[at].to_str() else {
            continue;
        };
        let next = args.get(at + 1).and_then(|value| value.to_str());
        let (name, value) = word
            .split_once('=')
            .unwrap_or((word, next.unwrap_or_default()));
        if name == option && current(takes_former, FORMER_SET_DIR, value) != FORMER_SET_DIR {
            args[at] = format!("--set-dir{}", &word[option.len()..]).into();
        }
    }
    args
}

/// Whether a command has an option of this name that people see.
fn has(command: &Command, name: &str) -> bool {
    option(command, name).is_some()
}

/// The option of this name, or of this former name, that people see.
fn option<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    let mut options = command.get_arguments().filter(|arg| !arg.is_hide_set());
    options.find(|arg| names(arg).contains(&name) && name != "config")
}

/// The arguments, and what variables say of options that may be given several times, if that is several lines: a value in each.
pub(crate) fn with_lines(mut args: Vec<OsString>, commands: &Command) -> Vec<OsString> {
    let (command, end) = command(&args, commands);
    let takes_former = takes_former_set_dir(&args, command);
    let mut options = Vec::new();
    add_options_of(command, &mut options);
    options.retain(|option| matches!(option.get_action(), ArgAction::Append));
    let mut words: Vec<OsString> = Vec::new();
    for option in options {
        let Some(name) = option.get_long().filter(|name| {
            !names(option).into_iter().any(|name| is_typed(&args, name))
                && !is_displaced(&args, name)
        }) else {
            continue;
        };
        let variable = variable_of(option, takes_former);
        let text = variable.and_then(|variable| std::env::var(variable).ok());
        let text = text.unwrap_or_default();
        let lines = text.lines().filter(|line| !line.is_empty());
        if lines.clone().count() > 1 {
            words.extend(lines.map(|line| format!("--{name}={line}").into()));
        }
    }
    args.splice(end..end, words);
    args
}

/// The longest file of options, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The arguments, and those in the file that they name. What is typed counts more than the environment, and that more
/// than the file.
pub(crate) fn with_file(
    mut args: Vec<OsString>,
    commands: &Command,
) -> Result<Vec<OsString>, Failure> {
    let Some(path) = given(&args, "config") else {
        return Ok(args);
    };
    let path = Path::new(&path);
    let mut paths = Paths::default();
    paths.reads("--config", PathKind::File, path);
    paths.check()?;
    let wrong = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let bytes = read_regular(path, MAX_BYTES).map_err(|e| Failure {
        code: if is_exhausted(&e) { RESOURCE } else { USAGE },
        ..wrong(format!("cannot be read: {e}"))
    })?;
    let text = str::from_utf8(&bytes).map_err(|_| wrong("is not UTF-8".into()))?;
    let holds = |place: String| {
        let problem = wrong(format!(
            "{place} has a private key in it, which is not shown"
        ));
        Err(problem.hint("give the path of the key's file"))
    };
    if holds_key(text.as_bytes()) {
        let line = text.lines().position(|line| holds_key(line.as_bytes()));
        return holds(format!("line {}", line.map_or(0, |line| line + 1)));
    }
    // The parser would quote the line, which may have a secret in it.
    let table: Table = text.parse().map_err(|e: toml::de::Error| {
        let before = e.span().map_or("", |span| &text[..span.start]);
        wrong(format!(
            "line {}: {}",
            before.matches('\n').count() + 1,
            e.message()
        ))
    })?;
    // What escapes hid.
    if let Some(name) = table
        .iter()
        .find_map(|(name, value)| key_below(name, value))
    {
        return holds(name.to_owned());
    }
    // Whatever is wrong with the rest is said in this form too.
    let is_json = table.get("log-format").and_then(Value::as_str) == Some("json");
    if is_json && given(&args, "log-format").is_none() {
        log::set(LogFormat::Json);
    }
    check_section(&table, commands, commands).map_err(|wrong_key| Failure {
        line: wrong(wrong_key.line).line,
        hint: wrong_key.hint,
        code: USAGE,
    })?;
    let (way, end) = way(&args, commands);
    let takes_former = takes_former_set_dir(&args, way[way.len() - 1]);
    let options = effective(&table, &way, takes_former);
    let more = words(&options, &args, &way).map_err(wrong)?;
    args.splice(end..end, more.into_iter().map(OsString::from));
    Ok(args)
}

/// The name of what has a private key in it.
fn key_below<'t>(name: &'t str, value: &'t Value) -> Option<&'t str> {
    match value {
        Value::String(text) => holds_key(text.as_bytes()).then_some(name),
        Value::Array(values) => values.iter().find_map(|value| key_below(name, value)),
        Value::Table(table) => (table.iter()).find_map(|(name, value)| key_below(name, value)),
        _ => None,
    }
}

/// Fails if a section has a key that is none of its command's, nor of one below it, or is of no command.
fn check_section(section: &Table, command: &Command, commands: &Command) -> Result<(), Failure> {
    for (name, value) in section {
        if let Value::Table(section) = value {
            let found = below(command).find(|below| below.get_name() == name);
            let Some(found) = found else {
                return Err(no_section(name, command));
            };
            check_section(section, found, commands)?;
            continue;
        }
        let mut all = Vec::new();
        add_options(command, &mut all);
        add_options_of(commands, &mut all);
        if !all.iter().any(|arg| names(arg).contains(&&**name)) || name == "config" {
            if name == "config" {
                return Err(Failure::usage("a file names no other file of options"));
            }
            let of = match command.get_name() == commands.get_name() {
                true => "no command has",
                false => &format!("{} does not have", command.get_name()),
            };
            let problem = Failure::usage(format!("{of} the option {name:?}"));
            let long: Vec<&str> = all.into_iter().filter_map(Arg::get_long).collect();
            return Err(match (of_others(name, commands), nearest(name, &long)) {
                (Some(others), _) => problem.hint(others),
                (None, Some(name)) => problem.hint(format!("did you mean {name:?}?")),
                (None, None) => problem.hint("keys are the long names of options"),
            });
        }
    }
    Ok(())
}

/// Which commands have an option of this name, if some have.
pub(crate) fn of_others(name: &str, commands: &Command) -> Option<String> {
    let mut having = Vec::new();
    add_commands_with(name, commands, "", &mut having);
    let (last, rest) = having.split_last()?;
    Some(match rest {
        [] => format!("--{name} is an option of {last}"),
        rest => format!("--{name} is an option of {} and {last}", rest.join(", ")),
    })
}

fn add_commands_with(name: &str, commands: &Command, above: &str, having: &mut Vec<String>) {
    for command in below(commands) {
        let path = format!("{above}{}", command.get_name());
        if has(command, name) {
            having.push(path.clone());
        }
        add_commands_with(name, command, &format!("{path} "), having);
    }
}

/// The commands below one that people see.
fn below(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
}

/// What is wrong with a section that no command has.
fn no_section(name: &str, command: &Command) -> Failure {
    let mut all = Vec::new();
    add_options(command, &mut all);
    if all.iter().any(|arg| names(arg).contains(&name)) {
        return Failure::usage(no_value(name));
    }
    let problem = Failure::usage(format!("[{name}] is no section: no command is called so"));
    let all: Vec<&str> = below(command).map(Command::get_name).collect();
    problem.hint(match nearest(name, &all) {
        Some(name) => format!("did you mean [{name}]?"),
        None => "a section has the name of a command, such as [receive] or [offline.make]".into(),
    })
}

fn no_value(name: &str) -> String {
    format!("{name} is a text, a number or a list of these")
}

fn add_options_of<'c>(command: &'c Command, all: &mut Vec<&'c Arg>) {
    all.extend(command.get_arguments().filter(|arg| !arg.is_hide_set()));
}

/// The options of a command and of those below it that people see.
fn add_options<'c>(command: &'c Command, all: &mut Vec<&'c Arg>) {
    add_options_of(command, all);
    below(command).for_each(|below| add_options(below, all));
}

/// Options of a file for one command, by their long names. `way` leads from all commands to it.
type Options<'c, 't> = Vec<(&'c Arg, &'t Value)>;

/// What the file has for the command: what is common, and then what its sections have, which takes the place of that.
fn effective<'c, 't>(table: &'t Table, way: &[&'c Command], takes_former: bool) -> Options<'c, 't> {
    let (all, own) = (way[0], way[way.len() - 1]);
    let mut options: Options<'c, 't> = Vec::new();
    let mut section = Some(table);
    for level in way {
        section = match level.get_name() == all.get_name() {
            true => section,
            false => section.and_then(|section| section.get(level.get_name())?.as_table()),
        };
        let mut here: Options<'c, 't> = Vec::new();
        for (name, value) in section.into_iter().flatten() {
            let name = current(takes_former, name, value.as_str().unwrap_or_default());
            if let Some(option) = option(own, name).or_else(|| option(all, name))
                && !value.is_table()
            {
                here.push((option, value));
            }
        }
        options.retain(|(earlier, _)| {
            let is_replaced = |(option, _): &(&Arg, &Value)| {
                option.get_id() == earlier.get_id() || are_alternatives(option, earlier)
            };
            !here.iter().any(is_replaced)
        });
        options.extend(here);
    }
    options
}

fn are_alternatives(one: &Arg, other: &Arg) -> bool {
    let (one, other) = (one.get_long(), other.get_long());
    let mut pairs = ALTERNATIVES.iter();
    pairs.any(|[a, b]| (one, other) == (Some(*a), Some(*b)) || (other, one) == (Some(*a), Some(*b)))
}

/// The options as they would be typed, but for those in whose place others are typed or in the environment.
fn words(
    options: &Options<'_, '_>,
    args: &[OsString],
    way: &[&Command],
) -> Result<Vec<String>, String> {
    let is_given = |name: &str| given(args, name).is_some();
    let in_file = |name: &str| {
        options
            .iter()
            .any(|(option, _)| option.get_long() == Some(name))
    };
    // A query that makes way takes with it what is said about it, unless the result goes to the database.
    let has_no_query = has(way[way.len() - 1], "query") && is_given("input") && !is_given("query");
    let writes = is_given("output-table") || in_file("output-table") && !is_given("output");
    let mut words = Vec::new();
    for (option, value) in options {
        let name = option.get_long().unwrap_or_default();
        let alternatives = ALTERNATIVES.iter().filter(|pair| pair.contains(&name));
        let mut names = alternatives.flatten().copied().chain(names(option));
        if has_no_query && !writes && OF_A_DATABASE.contains(&name) || names.any(is_given) {
            continue;
        }
        words.extend(typed_words(option, name, value)?);
    }
    Ok(words)
}

/// An option as it would be typed.
fn typed_words(option: &Arg, name: &str, value: &Value) -> Result<Vec<String>, String> {
    let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
    let values = match value {
        Value::Array(values) => values.iter().collect(),
        value => vec![value],
    };
    let mut words = Vec::new();
    for value in values {
        let value = match value {
            Value::Boolean(true) if is_flag => {
                words.push(format!("--{name}"));
                continue;
            }
            Value::Boolean(false) if is_flag => continue,
            Value::String(text) if !is_flag => text.clone(),
            Value::Integer(number) if !is_flag => number.to_string(),
            Value::Float(number) if !is_flag => number.to_string(),
            _ if is_flag => return Err(format!("{name} is true or false")),
            _ => return Err(no_value(name)),
        };
        words.push(format!("--{name}={value}"));
    }
    Ok(words)
}

/// The command that the arguments name, and where its own arguments begin.
pub(crate) fn command<'c>(args: &[OsString], commands: &'c Command) -> (&'c Command, usize) {
    let (way, at) = way(args, commands);
    (way[way.len() - 1], at)
}

/// The names of the commands that lead to the one that the arguments name; none if it shows others.
pub(crate) fn chosen(args: &[OsString], commands: &Command) -> Vec<String> {
    let (way, _) = way(args, commands);
    let names = way.iter().skip(1).map(|command| command.get_name());
    match way.last().is_some_and(|last| last.has_subcommands()) {
        true => Vec::new(),
        false => names.map(str::to_owned).collect(),
    }
}

/// The commands that lead to the one that the arguments name, all of them first, and where its own arguments begin.
fn way<'c>(args: &[OsString], commands: &'c Command) -> (Vec<&'c Command>, usize) {
    let (mut way, mut command, mut at) = (vec![commands], commands, 1);
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        let subcommand = command.find_subcommand(word);
        at += match subcommand {
            Some(subcommand) => {
                way.push(subcommand);
                command = subcommand;
                1
            }
            None if !command.has_subcommands() || !word.starts_with("--") => break,
            // An option of all commands, and its value.
            None if word.contains('=') => 1,
            None => 2,
        };
    }
    (way, at.min(args.len()))
}

/// Whether an option has this value, before the others are understood.
pub(crate) fn is(args: &[OsString], option: &str, value: &str) -> bool {
    given(args, option).as_deref() == Some(OsStr::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn options_are_found_as_they_are_typed() {
        let args = words("vesica receive --key=a,b --input x -- --wait 3");
        assert_eq!(given(&args, "key"), Some("a,b".into()));
        assert_eq!(given(&args, "input"), Some("x".into()));
        assert_eq!(given(&args, "wait"), None);
        assert_eq!(given(&args, "in"), None);
        let twice = words("vesica receive --input x --input=y");
        assert_eq!(given(&twice, "input"), Some("y".into()));
        assert!(is(&args, "input", "x") && !is(&args, "input", "y"));
    }

    #[test]
    fn what_is_typed_displaces_its_alternatives() {
        let args = words("vesica receive --connect h:1 --database sqlite:x");
        assert!(is_displaced(&args, "listen") && is_displaced(&args, "database-file"));
        for name in ["connect", "database", "input", "query", "key"] {
            assert!(!is_displaced(&args, name), "{name}");
        }
    }

    #[test]
    fn commands_are_found_behind_options_of_all() {
        let commands = crate::args::definition(&[]);
        for (text, name, at) in [
            ("vesica receive --input send", "receive", 2),
            ("vesica --config f --log-format=json send", "send", 5),
            ("vesica offline make --for ole", "make", 3),
            ("vesica", "vesica", 1),
            ("vesica nonsense", "vesica", 1),
        ] {
            let (command, end) = command(&words(text), &commands);
            assert_eq!((command.get_name(), end), (name, at), "{text}");
        }
    }
}
