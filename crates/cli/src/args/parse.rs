//! From the words of the command line to a command.

use std::error::Error as _;
use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches};
use vesica::tables::{Paths, has_credentials, redacted};
use vesica_files::nearest;
use vesica_kernels::process::leave_no_core;
use vesica_session::FingerprintError;

use super::{Cli, Command};
use crate::config;
use crate::failure::{Failure, InCommand};
use crate::invited;
use crate::log::{self, LogFormat};
use crate::paths::{self, DatabaseUri, SetDirectory};

/// The commands and their options. Every option that is shown can come from the environment, `--max-peer-items` from
/// `VESICA_MAX_PEER_ITEMS`, unless the arguments have one that takes its place.
pub(crate) fn definition(args: &[OsString]) -> clap::Command {
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
            without_default(command, name, usual)
        })
    };
    let command = Cli::command()
        .mut_subcommand("bench", of_the_protocol)
        .mut_subcommand("split", |command| {
            command.mut_arg("reveal", |arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let of_tasks = help.split(", threshold-matches:N").next();
                let of_tasks = of_tasks.unwrap_or_default();
                let of_tasks = of_tasks.replace(", threshold:N", ", or threshold:N");
                arg.help(format!(
                    "{of_tasks}. Numbers need --security semi-honest, on both sides"
                ))
            })
        })
        .mut_subcommand("plan", |command| {
            without_default(command, "security", "whatever each protocol withstands")
        })
        .mut_subcommand("offline", |command| {
            command.mut_subcommand("make", |make| {
                make.mut_arg("listen", |arg| {
                    arg.conflicts_with_all(["dealer", "generator"])
                })
            })
        })
        .mut_subcommand("total", |command| {
            let alone = |arg: clap::Arg| arg.required(false).requires("endpoint");
            command
                .mut_group("endpoint", |group| {
                    group.required(false).requires_all(["identity", "peer"])
                })
                // Whether they are there is asked of the group, which has nobody's options but a struct's own.
                .mut_group("Identified", |group| group.args(["identity", "peer"]))
                .mut_group("MeetingPoint", |group| group.args(["listen", "connect"]))
                .mut_arg("identity", alone)
                .mut_arg("peer", alone)
        })
        .mut_subcommand("publish", |command| {
            let or = ["query", "add", "remove"];
            command
                .mut_group("which_table", |group| group.required(false))
                .mut_arg("input", |arg| arg.required_unless_present_any(or))
                .mut_arg("payload_width", |arg| arg.requires("payload"))
        })
        .mut_subcommand("doctor", |command| {
            let groups = ["which_table", "which_key"];
            groups.iter().fold(command, |command, group| {
                command.mut_group(*group, |group| group.required(false))
            })
        })
        .mut_subcommand("fingerprint", |command| {
            let usual = |arg: clap::Arg| arg.required(false).default_value(USUAL_IDENTITY);
            command.mut_arg("identity", usual)
        })
        .mut_subcommand("serve", |command| {
            command.mut_arg("set_dir", |arg| arg.alias(config::FORMER_SET_DIR))
        });
    let command = WORDS.iter().fold(command, |command, (path, option, help)| {
        in_words(command, path, option, help)
    });
    let chosen = config::chosen(args, &command);
    from_environment(args, &chosen, command)
}

/// Where `keygen` puts an identity.
pub(super) const USUAL_IDENTITY: &str = "vesica.key";

/// What some commands say of an option that others have too.
const WORDS: [(&[&str], &str, &str); 24] = [
    (
        &["receive"],
        "output",
        "File or object (s3://bucket/key, gs://, az://, abfs://) for the matching rows, or for all rows with a key where ids \
         are revealed; its name decides the format, else it is that of the input. Shares and unions are CSV. `-`, the default, is standard output. Numbers are only printed",
    ),
    (
        &["receive"],
        "payload",
        "With --reveal shares: a text column, of which both sides get shares, as UTF-8 bytes padded with zeros",
    ),
    (
        &["receive"],
        "payload_width",
        "With --take-payload: the most bytes per key that this side accepts, 64 if not given. With --reveal shares: bytes per \
         key of the payload, which the peer learns; longer texts are an error",
    ),
    (
        &["send"],
        "output",
        "With --both: file or object for the matching rows, and with --reveal ids for all rows with a key; its name decides the format, else it is that of the input. With \
         --reveal shares: CSV file for this side's shares. `-`, the default, is standard output",
    ),
    (
        &["exchange"],
        "output",
        "With finish: file or object for the matching rows; its name decides the format, else it is that of the input. `-` is \
         standard output",
    ),
    (
        &["exchange"],
        "protocol",
        "compact-dh, which is secure against malicious peers and takes up to 2^20 keys, or another protocol of two messages",
    ),
    (
        &["exchange"],
        "both",
        "The sender learns the matches too. Give it on both sides. A dishonest receiver can lie to the sender about them",
    ),
    (
        &["check"],
        "reveal",
        "What the run is for, as for `vesica receive`: tells whether the columns of --value go with it",
    ),
    (
        &["check"],
        "min_size",
        "The fewest keys that have to match for a number, or for the rows of threshold-matches, as for `vesica receive`",
    ),
    (
        &["check"],
        "payload",
        "Columns to hand over with the matching rows, separated by commas as in --key: reports rows that do not fit. With \
         --reveal shares: the text column to share",
    ),
    (&["check"], "query", QUERY),
    (&["check"], "database", DATABASE),
    (
        &["split"],
        "job",
        "Directory for the job, which only this user may read. Tasks need all of it; job.json in it has the keys to the rest",
    ),
    (&["split"], "peer", "The peer's fingerprint, vs1:…"),
    (&["split"], "query", QUERY),
    (&["split"], "database", DATABASE),
    (
        &["publish"],
        "identity",
        "This side's identity, made by `vesica keygen`: it signs the set, and serves it",
    ),
    (
        &["publish"],
        "set_dir",
        "Directory for the secret key and the count of queries, created if missing. After a failure the same command resumes \
         from it. Whoever has it and the identity can test guesses of every key of the set, for ever",
    ),
    (
        &["publish"],
        "payload",
        "Columns that a client gets with the rows that it finds, separated by commas as in --key. They are encrypted: only a \
         client that has asked about a key can read its columns",
    ),
    (
        &["publish"],
        "payload_width",
        "Bytes per key for these columns: their texts, and two bytes per column; 64 if not given",
    ),
    (&["publish"], "query", QUERY),
    (&["publish"], "database", DATABASE),
    (
        &["serve"],
        "deadline",
        "Longest time in all that a client may keep one connection waiting, not counting what the server computes. If not \
         given, ten times what the bytes of the connection take at 1 Mb/s, and at least 3600",
    ),
    (
        &["lookup"],
        "deadline",
        "Longest time from when the server is reached to the last answer; fetching files may take as long before that. If not \
         given, ten times what they take at 1 Mb/s and at a tenth of this machine's speed (docs/reliability.md), and at least \
         3600",
    ),
];

const QUERY: &str = "SQL query whose result is the table, instead of --input; it runs once";
const DATABASE: &str = "Database for --query: postgresql://HOST/NAME, sqlite:FILE, or another URI that its driver takes. Give \
                        no password here, where other users can see it, but in --database-file or the environment variable \
                        VESICA_DATABASE";

/// The command with these words on an option of the command below it at `path`.
fn in_words(
    command: clap::Command,
    path: &'static [&'static str],
    option: &'static str,
    help: &'static str,
) -> clap::Command {
    match path {
        [] => command.mut_arg(option, |arg| arg.help(help)),
        [first, rest @ ..] => {
            command.mut_subcommand(first, |below| in_words(below, rest, option, help))
        }
    }
}

/// The command with a term that has no default, and what is the case then.
fn without_default(command: clap::Command, name: &'static str, usual: &str) -> clap::Command {
    command.mut_arg(name, |arg| {
        let help = arg.get_help().cloned().unwrap_or_default();
        arg.help(format!("{help}. If not given, {usual}"))
            .default_value(None::<&str>)
    })
}

/// The command and those below it, whose options come from the environment too. What a benchmark starts gets all in words. Where
/// `chosen` names the commands on the way to the one that runs, others are left alone, since that takes as long as all else
/// that a start does.
fn from_environment(args: &[OsString], chosen: &[String], command: clap::Command) -> clap::Command {
    let takes_former = config::takes_former_set_dir(args, &command);
    let of_one = |arg: clap::Arg| {
        let arg = in_brief(of_several(arg));
        let variable = match arg.get_long() {
            Some("help" | "version") | None => None,
            Some(long) if arg.is_hide_set() || config::is_displaced(args, long) => None,
            Some(_) => config::variable_of(&arg, takes_former),
        };
        let Some(variable) = variable else { return arg };
        match arg.get_action() {
            // A script may set 1 or yes.
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            _ => arg,
        }
        .env(variable)
        .hide_env(true)
    };
    command
        .mut_args(of_one)
        .mut_subcommands(|below| match chosen.split_first() {
            _ if below.is_hide_set() => below,
            None => from_environment(args, &[], below),
            Some((name, rest)) if name == below.get_name() => from_environment(args, rest, below),
            Some(_) => below,
        })
}

/// With its first sentence under `-h`, and all that is said of it under `--help`.
fn in_brief(arg: clap::Arg) -> clap::Arg {
    let Some(whole) = arg.get_help().map(ToString::to_string) else {
        return arg;
    };
    let mut depth = 0_u32;
    let ends = |(at, c): (usize, char)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_end = depth == 0 && matches!(c, '.' | ';') && whole[at + 1..].starts_with(' ');
        is_end.then_some(at)
    };
    match whole.char_indices().find_map(ends) {
        Some(end) => arg.help(whole[..end].to_owned()).long_help(whole),
        None => arg,
    }
}

/// The last counts where an option is given several times, unless it takes several values, or a list in one.
fn of_several(arg: clap::Arg) -> clap::Arg {
    let names = arg.get_value_names().unwrap_or_default();
    let is_list = names.iter().any(|name| name.contains('…'));
    match matches!(arg.get_action(), ArgAction::Set) && !is_list {
        true => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        false => arg,
    }
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
    let typed = args.clone();
    // Whatever is wrong with the options is said in this form too.
    if config::is(&args, "log-format", "json") {
        log::set(LogFormat::Json);
    }
    let mut definition = definition(&args);
    super::secrets::check(&args, &definition).map_err(Stop::Failed)?;
    let args = config::with_current_names(args, &definition);
    let args = config::with_lines(args, &definition);
    let args = config::with_file(args, &definition).map_err(Stop::Failed)?;
    let (args, invitation) = invited::with_invitation(args, &definition);
    let matches = definition.try_get_matches_from_mut(args);
    let parsed = matches.and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    let error = match parsed {
        Ok((mut cli, matches)) => {
            let options = matches.subcommand().map(|(_, options)| options);
            options
                .map_or(Ok(()), |options| {
                    check_database(options).and(check_proxy(options))
                })
                .map_err(Stop::Failed)?;
            log::set(cli.log_format);
            if !cli.allow_core_dumps {
                leave_no_core();
            } else if cli.command.is_in_hardware() {
                return Err(Stop::Failed(Failure::usage(
                    "--allow-core-dumps would give the host what the hardware keeps from it",
                )));
            }
            paths::check_stdin(&definition, &matches).map_err(Stop::Failed)?;
            let paths = paths::named(&definition, &matches);
            let taken = invitation.and_then(|invitation| match invitation {
                Some((invitation, whose)) => cli.command.take(invitation, whose),
                None => Ok(()),
            });
            // What is wrong with the path of one says why there is none.
            taken.map_err(|failure| {
                Stop::Failed(paths.check().err().map_or(failure, Failure::from))
            })?;
            return Ok(Parsed {
                command: cli.command,
                paths,
            });
        }
        Err(error) => error,
    };
    let shows = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if shows {
        return Err(match crate::stdout::show_with(|_| error.print()) {
            Ok(()) => Stop::Shown,
            Err(failure) => Stop::Failed(failure),
        });
    }
    if let Err(failure) = invitation {
        return Err(Stop::Failed(failure));
    }
    let failure = usage_failure(&error, config::command(&typed, &definition).0, &definition);
    Err(Stop::Failed(of_its_source(failure, &error, &typed)))
}

fn is_typed(options: &ArgMatches, id: &str) -> bool {
    options.try_contains_id(id).unwrap_or(false)
        && options.value_source(id) == Some(ValueSource::CommandLine)
}

/// Checks what is typed about a database. What is in the environment is for any run that needs it.
fn check_database(options: &ArgMatches) -> Result<(), Failure> {
    if let Ok(Some(directory)) = options.try_get_one::<SetDirectory>("set_dir")
        && config::is_uri(&directory.to_string_lossy())
    {
        let line = "what a published set needs is a directory, and not the URI of a database";
        return Err(Failure::usage(line).hint("give --set-dir DIR"));
    }
    let has = |id: &str| options.try_contains_id(id).unwrap_or(false);
    let typed = |id: &&str| is_typed(options, id);
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

/// Refuses a password on the command line.
fn check_proxy(options: &ArgMatches) -> Result<(), Failure> {
    let mut proxies = options
        .try_get_raw("proxy")
        .ok()
        .flatten()
        .into_iter()
        .flatten();
    if proxies.any(|value| value.to_string_lossy().contains('@')) && is_typed(options, "proxy") {
        return Err(
            Failure::usage("--proxy has a password in it, which other users can see")
                .hint("put the address into VESICA_PROXY or HTTPS_PROXY"),
        );
    }
    Ok(())
}

/// The same with the variable or the file that has the value, if it was not typed.
fn of_its_source(failure: Failure, error: &clap::Error, typed: &[OsString]) -> Failure {
    let option = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let long = option
        .as_deref()
        .and_then(|option| option.strip_prefix("--"));
    let long = long.and_then(|long| long.split([' ', '=']).next());
    let (Some(long), Some(_)) = (long, error.get(ContextKind::InvalidValue)) else {
        return failure;
    };
    let variable = config::variable(long);
    let source = match config::is_typed(typed, long) {
        true => return failure,
        false if std::env::var_os(&variable).is_some() => variable,
        false => match config::given(typed, "config") {
            Some(file) => fit_to_show(&file.to_string_lossy()),
            None => return failure,
        },
    };
    Failure {
        line: format!("{source}: {}", failure.line),
        ..failure
    }
}

/// What clap and the standard library say of numbers, and what we say.
const OF_NUMBERS: [(&str, &str); 4] = [
    ("invalid digit found in string", "it is no whole number"),
    ("number too large to fit in target type", "it is too large"),
    ("number too small to fit in target type", "it is too small"),
    ("cannot parse integer from empty string", "it is no number"),
];

/// What clap says in a paragraph, in one line.
fn usage_failure(error: &clap::Error, command: &clap::Command, all: &clap::Command) -> Failure {
    let general = "`vesica --help` and `vesica COMMAND --help` show what there is";
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("no command given").hint(general);
    }
    let mut text = error.to_string();
    // It may have a password in it, whatever else is wrong with it.
    if error
        .get(ContextKind::InvalidArg)
        .is_some_and(|arg| arg.to_string().starts_with("--proxy"))
        && let Some(value) = error.get(ContextKind::InvalidValue)
    {
        text = text.replace(&value.to_string(), "…");
    }
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
    let paragraph = OF_NUMBERS
        .iter()
        .fold(paragraph.to_owned(), |said, (theirs, ours)| {
            said.replace(theirs, ours)
        });
    let hint = of_the_value(error)
        .or_else(|| of_another_spelling(error, command, all))
        .or_else(|| of_a_bare_word(error, command));
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

/// What is spelled nearly as what there is not; of an option, which commands have it.
fn of_another_spelling(
    error: &clap::Error,
    command: &clap::Command,
    all: &clap::Command,
) -> Option<String> {
    if error.kind() == ErrorKind::UnknownArgument {
        let word = error.get(ContextKind::InvalidArg)?.to_string();
        let long = word.strip_prefix("--")?.split('=').next()?;
        let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let longs: Vec<&str> = shown.filter_map(clap::Arg::get_long).collect();
        return match config::of_others(long, all) {
            Some(others) => Some(others),
            None => nearest(long, &longs).map(|name| format!("did you mean --{name}?")),
        };
    }
    let word = error.get(ContextKind::InvalidSubcommand)?.to_string();
    let above = match command.get_name() {
        "help" => all,
        _ => command,
    };
    let below = above.get_subcommands().filter(|below| !below.is_hide_set());
    let names: Vec<&str> = below.map(clap::Command::get_name).collect();
    nearest(&word, &names).map(|name| format!("did you mean {name}?"))
}

/// How the command is used, for a word that no option stands before: with that word, if there is only one place for it.
fn of_a_bare_word(error: &clap::Error, command: &clap::Command) -> Option<String> {
    let word = fit_to_show(&error.get(ContextKind::InvalidArg)?.to_string());
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let own = command.get_arguments().filter(|arg| {
        !arg.is_hide_set() && !arg.is_global_set() && arg.get_action().takes_values()
    });
    let own = own.filter_map(clap::Arg::get_long);
    // It goes with another.
    let own: Vec<&str> = own.filter(|long| *long != "passphrase-file").collect();
    let usage = error.get(ContextKind::Usage)?.to_string();
    Some(match own[..] {
        [option] => format!(
            "did you mean `vesica {} --{option} {word}`?",
            command.get_name()
        ),
        _ => usage.replacen("Usage", "usage", 1),
    })
}
