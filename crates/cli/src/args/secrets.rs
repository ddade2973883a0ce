//! Private keys among arguments and variables, where the path of one was meant. Nothing of them is shown: whoever maps a
//! secret to the environment would find it in logs.

use std::ffi::{OsStr, OsString};

use clap::Command;
use vesica_files::holds_key;

use crate::config;
use crate::failure::Failure;

/// Fails if an argument is a private key, or has one in it, or a variable that the command takes.
pub(super) fn check(args: &[OsString], definition: &Command) -> Result<(), Failure> {
    let holds = |text: &OsStr| holds_key(text.as_encoded_bytes());
    if let Some(at) = args.iter().skip(1).position(|word| holds(word)) {
        let before = args[at].to_str().unwrap_or_default();
        let own = args[at + 1].to_str().unwrap_or_default();
        let own = own.split_once('=').map_or("", |(option, _)| option);
        let known = [own, before];
        let known = known.into_iter().find(|word| {
            let long = word.strip_prefix("--");
            long.is_some_and(|long| has_option(definition, long))
        });
        return Err(refused(known.unwrap_or("an argument")));
    }
    // In groups, each of them an argument.
    let all: Vec<&[u8]> = args
        .iter()
        .skip(1)
        .map(|word| word.as_encoded_bytes())
        .collect();
    if holds_key(&all.join(&b' ')) {
        return Err(refused("the command line"));
    }
    let (command, _) = config::command(args, definition);
    let options = command.get_arguments().chain(definition.get_arguments());
    let variables = options.flat_map(config::names).map(config::variable);
    for variable in variables {
        if std::env::var_os(&variable).is_some_and(|value| holds(&value)) {
            return Err(refused(&variable));
        }
    }
    Ok(())
}

fn refused(what: &str) -> Failure {
    let line = format!("{what} has a private key in it, which is not shown");
    Failure::usage(line)
        .hint("keep the key in a file and give its path as --identity; if others may have seen the key, make a new one")
}

fn has_option(command: &Command, long: &str) -> bool {
    let mut options = command.get_arguments();
    options.any(|arg| config::names(arg).contains(&long))
        || command.get_subcommands().any(|sub| has_option(sub, long))
}
