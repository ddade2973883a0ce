//! Paths among the options. The type of an option says whether its path is read or written: from that, and not from each
//! command, follows that nothing is written in the place of anything else ([`Paths::check`]).

use std::any::TypeId;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::{
    PathBufValueParser, StringValueParser, TryMapValueParser, TypedValueParser, ValueParserFactory,
};
use clap::{Arg, ArgMatches, Command};
use vesica::options::add_database;
use vesica::tables::{PathKind, Paths};
use vesica_files::DirectoryKind;

use crate::failure::{Failure, InCommand};

/// What a command does with the path in an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathUse {
    /// It is read.
    Reads(PathKind),
    /// It is written, or made, or changed.
    Writes(PathKind),
    /// It is read, and written with `--fetch`.
    Fetches(PathKind),
    /// It is a database's, which is written to with `--output-table`.
    Database,
    /// It is a library, or the name of one.
    Library,
}

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident($inner:ty, $parser:ident $(, $check:path)?) $use:expr;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug)]
            pub(crate) struct $name($inner);

            impl Deref for $name {
                type Target = <$inner as Deref>::Target;

                fn deref(&self) -> &Self::Target {
                    &self.0
                }
            }

            impl ValueParserFactory for $name {
                type Parser = TryMapValueParser<$parser, fn($inner) -> Result<$name, &'static str>>;

                fn value_parser() -> Self::Parser {
                    $parser::new().try_map(|path| {
                        $($check(&path)?;)?
                        Ok($name(path))
                    })
                }
            }
        )+

        /// What a command does with the path in an option, if there is one.
        pub(crate) fn path_use(arg: &Arg) -> Option<PathUse> {
            let of = arg.get_value_parser().type_id();
            $(
                if of == TypeId::of::<$name>() {
                    return Some($use);
                }
            )+
            None
        }
    };
}

paths! {
    /// A file that is read.
    InputPath(PathBuf, PathBufValueParser) PathUse::Reads(PathKind::File);
    /// A table that is read: a file, a directory, a pattern or an address.
    InputTable(PathBuf, PathBufValueParser) PathUse::Reads(PathKind::Table);
    /// A file, or an object, that is written.
    OutputPath(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::File);
    /// A file that is written, and never standard output.
    OutputFile(PathBuf, PathBufValueParser, check_file) PathUse::Writes(PathKind::File);
    /// The directory with which a run goes on.
    WorkDirectory(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Directory(DirectoryKind::WorkDir));
    /// The directory of a run by files.
    CourierDirectory(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Directory(DirectoryKind::Courier));
    /// The directory of a job.
    JobDirectory(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Directory(DirectoryKind::Job));
    /// The directory of a published set.
    SetDirectory(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Directory(DirectoryKind::Database));
    /// The state of look-ups.
    StateDirectory(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Directory(DirectoryKind::LookUp));
    /// A store of halves.
    StoreDirectory(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Directory(DirectoryKind::Store));
    /// A published set that is written.
    OutputSet(PathBuf, PathBufValueParser) PathUse::Writes(PathKind::Set);
    /// A published set that is read, and fetched if that is asked for.
    FetchedSet(PathBuf, PathBufValueParser) PathUse::Fetches(PathKind::Set);
    /// A published set that is read.
    InputSet(PathBuf, PathBufValueParser) PathUse::Reads(PathKind::Set);
    /// The URI of a database, which may be a file.
    DatabaseUri(String, StringValueParser) PathUse::Database;
    /// The name or the path of a driver's library.
    DriverName(String, StringValueParser) PathUse::Library;
}

fn check_file(path: &Path) -> Result<(), &'static str> {
    match path == Path::new("-") {
        true => Err("a file has to be named; this does not go to standard output"),
        false => Ok(()),
    }
}

/// What standard input is called.
pub(crate) const STDIN: [&str; 4] = ["-", "fd:0", "/dev/stdin", "/dev/fd/0"];

impl InputTable {
    /// The paths of tables.
    pub(crate) fn all(tables: &[InputTable]) -> Vec<PathBuf> {
        tables.iter().map(|table| table.to_path_buf()).collect()
    }
}

/// The paths that a command names, by its options.
pub(super) fn named(command: &Command, matches: &ArgMatches) -> Paths {
    let mut paths = Paths::default();
    add(command, matches, &mut paths);
    paths.writes("standard output", PathKind::File, Path::new("-"));
    paths.writes_messages();
    paths.reads_credentials();
    paths
}

/// Fails if two options read standard input, which is there once.
pub(super) fn check_stdin(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let mut reading: Vec<String> = Vec::new();
    let (mut command, mut matches) = (command, matches);
    loop {
        for arg in command.get_arguments() {
            let values = matches.try_get_raw(arg.get_id().as_str());
            if let (Some(PathUse::Reads(_)), Ok(Some(values))) = (path_use(arg), values) {
                let name = arg.get_long().unwrap_or(arg.get_id().as_str());
                let stdin = values.filter(|value| STDIN.iter().any(|name| value == name));
                reading.extend(stdin.map(|_| format!("--{name}")));
            }
        }
        let below = matches.subcommand();
        let below = below.and_then(|(name, of)| Some((command.find_subcommand(name)?, of)));
        match below {
            Some(below) => (command, matches) = below,
            None => break,
        }
    }
    match &reading[..] {
        [one, other, ..] => Err(Failure::usage(format!(
            "{one} and {other} both read standard input, which is there once"
        ))),
        _ => Ok(()),
    }
}

fn add(command: &Command, matches: &ArgMatches, paths: &mut Paths) {
    for arg in command.get_arguments() {
        let values = matches.try_get_raw(arg.get_id().as_str());
        let (Some(of), Ok(Some(values))) = (path_use(arg), values) else {
            continue;
        };
        let name = arg.get_long().unwrap_or(arg.get_id().as_str());
        let fetches = || matches.try_get_one::<bool>("fetch").ok().flatten() == Some(&true);
        for value in values.map(Path::new) {
            let name = format!("--{name}");
            match of {
                // That it is written to goes for every command.
                PathUse::Writes(_) if value == Path::new("-") => {}
                PathUse::Writes(kind) => paths.writes(name, kind, value),
                PathUse::Fetches(kind) if fetches() => paths.writes(name, kind, value),
                PathUse::Reads(kind) | PathUse::Fetches(kind) => paths.reads(name, kind, value),
                PathUse::Database | PathUse::Library => {}
            }
        }
    }
    add_of_database(matches, paths);
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        add(command, matches, paths);
    }
}

/// The database of a query or of a table for the result. What the environment has for other commands is nothing to this one.
fn add_of_database(matches: &ArgMatches, paths: &mut Paths) {
    let has = |id| matches.try_contains_id(id).unwrap_or(false);
    let is_written = has("output_table");
    if !is_written && !has("query") {
        return;
    }
    let uri = matches
        .try_get_one::<DatabaseUri>("database")
        .ok()
        .flatten();
    let file = matches
        .try_get_one::<InputPath>("database_file")
        .ok()
        .flatten();
    let driver = matches.try_get_one::<DriverName>("driver").ok().flatten();
    let (uri, file, driver) = (
        uri.map(|uri| &**uri),
        file.map(|file| &**file),
        driver.map(|driver| &**driver),
    );
    add_database(paths, &InCommand, uri, file, driver, is_written);
}
