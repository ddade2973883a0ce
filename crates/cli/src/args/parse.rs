//! From the words of the command line to a command.

use std::error::Error as _;
use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches};
use vesica::{FingerprintError, Paths, has_credentials, redacted};
use vesica_kernels::process::leave_no_core;

use super::tasks::NOT_OF_JOBS;
use super::{Cli, Command};
use crate::config;
use crate::failure::{Failure, InCommand};
use crate::log::{self, LogFormat};
use crate::paths::{self, DatabaseDirectory, DatabaseUri};

/// The commands and their options. Every option that is shown can come from the environment, `--max-peer-items` from
/// `VESICA_MAX_PEER_ITEMS`, unless the arguments have one that takes its place.
pub(crate) fn definition(args: &[OsString]) -> clap::Command {
    let of_several = |arg: clap::Arg| match overrides_itself(&arg) {
        true => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        false => arg,
    };
    let from_environment = |arg: clap::Arg| match arg.get_long() {
        Some(long)
            if long != "help"
                && long != "version"
                && !arg.is_hide_set()
                && !config::is_displaced(args, long) =>
        {
            let names: Vec<String> = config::names(&arg)
                .into_iter()
                .map(config::variable)
                .collect();
            let is_set = |name: &&String| std::env::var_os(name).is_some();
            let name = names.iter().find(is_set).unwrap_or(&names[0]).clone();
            match arg.get_action() {
                // A script may set 1 or yes.
                ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
                _ => arg,
            }
            .env(name)
            .hide_env(true)
        }
        _ => arg,
    };
    let of_the_protocol = |command: clap::Command| {
        let usual = [
            (
                "security",
                "the strongest of the protocol, and malicious with auto",
            ),
            (
                "reveal",
                "the first thing that the protocol reveals, and matches with auto; a sum is that of the sender's values",
            ),
        ];
        usual.into_iter().fold(command, |command, (name, usual)| {
            command.mut_arg(name, |arg| {
                let help = arg.get_help().cloned().unwrap_or_default();
                arg.help(format!("{help}. If not given, {usual}"))
                    .default_value(None::<&str>)
            })
        })
    };
    Cli::command()
        .mut_subcommand("bench", of_the_protocol)
        // Messages tell which rows match, whatever else there is to reveal.
        .mut_subcommand("exchange", |command| {
            without(command, &["reveal", "min_size", "optimize"])
        })
        .mut_subcommand("split", of_a_job)
        .mut_subcommand("plan", |command| {
            command.mut_arg("security", |arg| {
                let help = arg.get_help().cloned().unwrap_or_default();
                arg.help(format!(
                    "{help}. If not given, whatever each protocol withstands"
                ))
                .default_value(None::<&str>)
            })
        })
        .mut_args(|arg| from_environment(of_several(arg)))
        .mut_subcommands(|command| command.mut_args(|arg| from_environment(of_several(arg))))
}

/// Whether the last counts where an option is given several times: unless it takes several values, or a list in one.
fn overrides_itself(arg: &clap::Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    let is_list = names.iter().any(|name| name.contains('…'));
    matches!(arg.get_action(), ArgAction::Set) && !is_list
}

/// The command without these options, which it shares with others and has no use for: they are neither shown nor taken from
/// the environment, where they are for others.
fn without(command: clap::Command, options: &[&'static str]) -> clap::Command {
    let hidden = options.iter();
    hidden.fold(command, |command, name| {
        command.mut_arg(name, |arg| arg.hide(true))
    })
}

/// What a driver agrees on is found by tasks, and written by others.
fn of_a_job(command: clap::Command) -> clap::Command {
    let say = |help: &'static str| move |arg: clap::Arg| arg.help(help);
    without(command, &NOT_OF_JOBS)
        .mut_arg("reveal", |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let of_tasks = help.split(", threshold-matches:N").next();
            arg.help(of_tasks.unwrap_or_default().replace(", threshold:N", ", or threshold:N"))
        })
        .mut_arg(
            "query",
            say("SQL query whose result is the table, instead of --input; it runs once"),
        )
        .mut_arg(
            "database",
            say("Database for --query: postgresql://HOST/NAME, sqlite:FILE, or another URI that its driver takes. Give no \
                 password here, where other users can see it, but in --database-file or the environment variable \
                 VESICA_DATABASE"),
        )
        .mut_arg(
            "value",
            say("Columns to sum, at most eight, or one column to multiply, on the side that has them. Separated by commas, as \
                 in --key"),
        )
}

/// A command, and the paths that it names.
pub(crate) struct Parsed {
    pub(crate) command: Command,
    pub(crate) paths: Paths,
}

/// Why there is no command to run.
pub(crate) enum Stop {
    /// Help or the version was asked for and has been shown.
    Shown,
    Failed(Failure),
}

pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Parsed, Stop> {
    let args: Vec<OsString> = args.collect();
    // Whatever is wrong with the options is said in this form too.
    if config::is(&args, "log-format", "json") {
        log::set(LogFormat::Json);
    }
    let mut definition = definition(&args);
    super::secrets::check(&args, &definition).map_err(Stop::Failed)?;
    let args = config::with_file(args, &definition).map_err(Stop::Failed)?;
    let matches = definition.try_get_matches_from_mut(args);
    let parsed = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let error = match parsed {
        Ok((cli, matches)) => {
            let options = matches.subcommand().map(|(_, options)| options);
            options
                .map_or(Ok(()), check_database)
                .map_err(Stop::Failed)?;
            log::set(cli.log_format);
            if !cli.allow_core_dumps {
                leave_no_core();
            } else if cli.command.is_in_hardware() {
                return Err(Stop::Failed(Failure::usage(
                    "--allow-core-dumps would give the host what the hardware keeps from it",
                )));
            }
            return Ok(Parsed {
                command: cli.command,
                paths: paths::named(&definition, &matches),
            });
        }
        Err(error) => error,
    };
    let shows = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if shows {
        return Err(match crate::stdout::print_with(|_| error.print()) {
            Ok(()) => Stop::Shown,
            Err(failure) => Stop::Failed(failure),
        });
    }
    Err(Stop::Failed(usage_failure(&error)))
}

/// Checks what is typed about a database. What is in the environment is for any run that needs it.
fn check_database(options: &ArgMatches) -> Result<(), Failure> {
    if let Ok(Some(directory)) = options.try_get_one::<DatabaseDirectory>("database") {
        // That of a published set is a directory.
        return match is_uri(&directory.to_string_lossy()) {
            false => Ok(()),
            true => Err(Failure::usage(
                "the database of a published set is a directory, and not one of --query",
            )
            .hint("give --database DIR, whatever VESICA_DATABASE has for other commands")),
        };
    }
    let has = |id: &str| options.try_contains_id(id).unwrap_or(false);
    let typed = |id: &&str| has(id) && options.value_source(id) == Some(ValueSource::CommandLine);
    let all = ["database", "database_file", "driver"];
    let is_used = has("query") || has("output_table");
    if let Some(id) = all.iter().find(|id| typed(id) && !is_used) {
        let with = match options.try_contains_id("output_table") {
            Ok(_) => "--query or --output-table",
            Err(_) => "--query",
        };
        let name = id.replace('_', "-");
        return Err(Failure::usage(format!("--{name} goes with {with}")));
    }
    if typed(&"database") && typed(&"database_file") {
        return Err(Failure::usage("give either --database or --database-file"));
    }
    let uri = options
        .try_get_one::<DatabaseUri>("database")
        .ok()
        .flatten();
    if typed(&"database") && uri.is_some_and(|uri| has_credentials(uri)) {
        return Err(Failure::usage(
            "--database may have a password in it, which other users can see",
        )
        .hint("put the URI into a file for --database-file, or into VESICA_DATABASE"));
    }
    Ok(())
}

/// Whether this has the form of a database's URI; one letter before the colon is a drive, and `vs1` a fingerprint's.
fn is_uri(text: &str) -> bool {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.len() > 1 && scheme != "vs1" && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// What clap says in a paragraph, in one line.
fn usage_failure(error: &clap::Error) -> Failure {
    let general = "`vesica --help` and `vesica COMMAND --help` show what there is";
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("no command given").hint(general);
    }
    let mut text = error.to_string();
    for (_, value) in error.context() {
        let values = match value {
            ContextValue::String(value) => std::slice::from_ref(value),
            ContextValue::Strings(values) => values,
            _ => &[],
        };
        for value in values.iter().filter(|value| !value.is_empty()) {
            text = text.replace(value, &fit_to_show(value));
        }
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    let hint = of_the_value(error)
        .or_else(|| of_another_spelling(error))
        .or_else(|| of_a_bare_word(error));
    Failure::usage(paragraph).hint(hint.unwrap_or_else(|| general.to_owned()))
}

/// What was typed, unless it has several lines, as a secret may have; of an address without what may be a signature.
fn fit_to_show(value: &str) -> String {
    match value.trim().contains(['\n', '\r']) {
        true => "…".to_owned(),
        false => redacted(value).into_owned(),
    }
}

/// What to do about a value that a library has refused.
fn of_the_value(error: &clap::Error) -> Option<String> {
    let source = error.source()?;
    let fingerprint = source.downcast_ref::<FingerprintError>();
    let other = source.downcast_ref::<vesica::Error>();
    let advice = match (fingerprint, other) {
        (Some(problem), _) => {
            let value = error.get(ContextKind::InvalidValue);
            let value = value.map(ContextValue::to_string);
            Some(problem.remedy_of(&value.unwrap_or_default()))
        }
        (None, other) => other.and_then(vesica::Error::remedy),
    };
    advice.map(|advice| advice.spelled(&InCommand))
}

/// What clap finds that is spelled nearly as what there is not.
fn of_another_spelling(error: &clap::Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    let found = kinds.iter().find_map(|kind| error.get(*kind))?;
    let first = match found {
        ContextValue::Strings(all) => all.first()?.clone(),
        other => other.to_string(),
    };
    Some(format!("did you mean {first}?"))
}

/// How the command is used, for a word that no option stands before: with that word, if there is only one place for it.
fn of_a_bare_word(error: &clap::Error) -> Option<String> {
    let word = fit_to_show(&error.get(ContextKind::InvalidArg)?.to_string());
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let usage = error.get(ContextKind::Usage)?.to_string();
    let of_one = usage.strip_prefix("Usage: ").and_then(|usage| {
        let (before, rest) = usage.split_once(" [OPTIONS] --")?;
        let option = rest.strip_suffix(" <FILE>")?;
        (!option.contains(' ')).then(|| format!("did you mean `{before} --{option} {word}`?"))
    });
    Some(of_one.unwrap_or_else(|| usage.replacen("Usage", "usage", 1)))
}
