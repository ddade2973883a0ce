//! Variables of the environment that set options.

use std::collections::BTreeSet;
use std::ffi::OsString;

use vesica_files::nearest;

use crate::config;
use crate::log::{self, Level};

/// What the names of all begin with.
const PREFIX: &str = "VESICA_";
/// Letters after that of names in which wrong ones are looked for.
const MIN_NEAR: usize = 6;

/// The variables whose names begin as those of options.
fn ours() -> impl Iterator<Item = (String, OsString)> {
    let all = std::env::vars_os();
    let named = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    named.filter(|(name, _)| name.starts_with(PREFIX))
}

/// Warns of variables that set no option of any command, and whose names are nearly those of some that do.
pub(crate) fn warn_of_unknown() {
    let names = ours().map(|(name, _)| name).collect::<Vec<_>>();
    let mut known = BTreeSet::new();
    if !names.is_empty() {
        add_names(&crate::args::definition(&[]), &mut known);
    }
    for name in names {
        if let Some(meant) = meant(&name, &known) {
            let line = format!("the variable {name} sets no option; did you mean {meant}?");
            log::say(Level::Warning, &line);
        }
    }
}

/// Which of the `known` ones a variable that is none of them was meant to be. Those that container platforms set for a service
/// of that name are left alone.
fn meant<'k>(name: &str, known: &'k BTreeSet<String>) -> Option<&'k str> {
    let of_a_platform = name.contains("_SERVICE_") || name.contains("_PORT");
    if known.contains(name) || of_a_platform {
        return None;
    }
    let begins = |known: &&String| {
        let rest = name
            .strip_prefix(&***known)
            .or_else(|| known.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('_'))
    };
    // Short names are near too many.
    let near = (name.len() >= PREFIX.len() + MIN_NEAR).then(|| nearest(name, known));
    let near = near.flatten();
    near.or_else(|| known.iter().find(begins).map(String::as_str))
}

/// Adds the variables of a command and of those below it, former names among them.
fn add_names(command: &clap::Command, known: &mut BTreeSet<String>) {
    for option in command.get_arguments() {
        known.extend(config::names(option).into_iter().map(config::variable));
    }
    for command in command.get_subcommands() {
        add_names(command, known);
    }
}

/// Starts this program again without line ends after the values of the variables that it takes, if any has one: whatever
/// reads them, options of every type among them, gets the same. Call it before there is anything that would be lost.
#[cfg(unix)]
pub(crate) fn without_line_ends(arguments: &[OsString]) {
    use std::os::unix::process::CommandExt;

    let mut trimmed: Vec<_> = ours()
        .filter_map(|(name, value)| Some((name, trimmed(&value)?)))
        .collect();
    if !trimmed.is_empty() {
        let taken = taken(&crate::args::definition(&[]));
        trimmed.retain(|(name, _)| taken.contains(std::ffi::OsStr::new(name)));
    }
    // Another start could not tell that standard output was closed at the first.
    if trimmed.is_empty() || !vesica_kernels::process::standard_output_was_open() {
        return;
    }
    let Ok(mut again) = crate::process::program() else {
        return;
    };
    again.args(arguments.iter().skip(1));
    again.envs(trimmed);
    // It returns only if there is none; then values are as they are.
    let _ = again.exec();
}

#[cfg(not(unix))]
pub(crate) fn without_line_ends(_: &[OsString]) {}

/// The variables that a command and those below it take.
#[cfg(unix)]
fn taken(command: &clap::Command) -> BTreeSet<OsString> {
    let own = command.get_arguments().filter_map(clap::Arg::get_env);
    let below = command.get_subcommands().flat_map(taken);
    own.map(std::ffi::OsStr::to_owned).chain(below).collect()
}

/// A value without the line ends after it; `None` if there are none.
#[cfg(unix)]
fn trimmed(value: &std::ffi::OsStr) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = value.as_bytes();
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let length = bytes.len() - bytes.iter().rev().take_while(|byte| is_end(byte)).count();
    (length < bytes.len()).then(|| std::ffi::OsStr::from_bytes(&bytes[..length]).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_were_mistyped_are_told_from_others() {
        let mut known = BTreeSet::new();
        add_names(&crate::args::definition(&[]), &mut known);
        let meant = |name| meant(name, &known);
        assert_eq!(meant("VESICA_MAX_PEER_ITEM"), Some("VESICA_MAX_PEER_ITEMS"));
        assert_eq!(meant("VESICA_OUTPUTS"), Some("VESICA_OUTPUT"));
        assert_eq!(meant("VESICA_INPUT_FILE"), Some("VESICA_INPUT"));
        for name in [
            "VESICA_MEMORY",
            "VESICA_MAX_PEER_ITEMS",
            "VESICA_PORT",
            "VESICA_PORT_7340_TCP_ADDR",
            "VESICA_CONNECT_SERVICE_HOST",
            "VESICA_CONNECT_PORT",
            "VESICA_HOME",
        ] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
