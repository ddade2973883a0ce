//! Options from a file, `--config`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};
use vesica::{PathKind, Paths};
use vesica_files::{holds_key, is_exhausted, nearest, read_regular};

use crate::failure::{Failure, RESOURCE, USAGE};
use crate::log::{self, LogFormat};

/// Options of which one takes the place of another.
const ALTERNATIVES: [[&str; 2]; 4] = [
    ["listen", "connect"],
    ["input", "query"],
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
    let is_typed = |name: &str| typed(args, name).is_some();
    let pairs = ALTERNATIVES.iter().filter(|pair| pair.contains(&option));
    !is_typed(option) && pairs.flatten().any(|name| is_typed(name))
}

/// The value of an option as it is typed, or else in the environment.
pub(crate) fn given(args: &[OsString], option: &str) -> Option<OsString> {
    typed(args, option).or_else(|| std::env::var_os(variable(option)))
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
    if holds_key(text.as_bytes()) {
        let line = text.lines().position(|line| holds_key(line.as_bytes()));
        let line = line.map_or(0, |line| line + 1);
        let problem = wrong(format!(
            "line {line} has a private key in it, which is not shown"
        ));
        return Err(problem.hint("give the path of the key's file"));
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
    // Whatever is wrong with the rest is said in this form too.
    let is_json = table.get("log-format").and_then(Value::as_str) == Some("json");
    if is_json && given(&args, "log-format").is_none() {
        log::set(LogFormat::Json);
    }
    let (command, end) = command(&args, commands);
    let mut more = Vec::new();
    for (name, value) in &table {
        let mut options = command.get_arguments().chain(commands.get_arguments());
        let is_called = |arg: &&Arg| names(arg).contains(&&**name) && name != "config";
        let option = options.find(is_called);
        let Some(option) = option else {
            let of = command.get_name();
            let problem = wrong(format!("{of} has no option --{name}"));
            let all = command.get_arguments().chain(commands.get_arguments());
            let long: Vec<&str> = all.filter_map(Arg::get_long).collect();
            return Err(match nearest(name, &long) {
                Some(name) => problem.hint(format!("did you mean {name}?")),
                None => problem.hint("keys are the long names of options"),
            });
        };
        let alternatives = ALTERNATIVES.iter().filter(|pair| pair.contains(&&**name));
        let mut names = alternatives.flatten().copied().chain(names(option));
        // A query that makes way takes with it what is said about it, unless the result goes to the database.
        let asks = command
            .get_arguments()
            .any(|arg| arg.get_long() == Some("query"));
        let has_no_query =
            asks && given(&args, "input").is_some() && given(&args, "query").is_none();
        let writes = given(&args, "output-table").is_some()
            || table.contains_key("output-table") && given(&args, "output").is_none();
        if has_no_query && !writes && OF_A_DATABASE.contains(&&**name)
            || names.any(|name| given(&args, name).is_some())
        {
            continue;
        }
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        let values = match value {
            Value::Array(values) => values.iter().collect(),
            value => vec![value],
        };
        for value in values {
            let value = match value {
                Value::Boolean(true) if is_flag => {
                    more.push(format!("--{name}"));
                    continue;
                }
                Value::Boolean(false) if is_flag => continue,
                Value::String(text) if !is_flag => text.clone(),
                Value::Integer(number) if !is_flag => number.to_string(),
                Value::Float(number) if !is_flag => number.to_string(),
                _ if is_flag => return Err(wrong(format!("{name} is true or false"))),
                _ => {
                    return Err(wrong(format!(
                        "{name} is a text, a number or a list of these"
                    )));
                }
            };
            more.push(format!("--{name}={value}"));
        }
    }
    args.splice(end..end, more.into_iter().map(OsString::from));
    Ok(args)
}

/// The command that the arguments name, and where its own arguments begin.
pub(crate) fn command<'c>(args: &[OsString], commands: &'c Command) -> (&'c Command, usize) {
    let (mut command, mut at) = (commands, 1);
    while let Some(word) = args.get(at).and_then(|word| word.to_str()) {
        let subcommand = command.find_subcommand(word);
        at += match subcommand {
            Some(subcommand) => {
                command = subcommand;
                1
            }
            None if !command.has_subcommands() || !word.starts_with("--") => break,
            // An option of all commands, and its value.
            None if word.contains('=') => 1,
            None => 2,
        };
    }
    (command, at.min(args.len()))
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
