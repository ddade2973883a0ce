//! The commands and their options by the command's own declarations, and command lines with all that a command needs.

use clap::{Arg, Command};
use vesica_cli::{PathUse, path_use};

use crate::support::Place;

/// A command: its words, and its options, with those of all commands.
pub(crate) struct Declared {
    pub(crate) words: Vec<String>,
    pub(crate) command: Command,
}

/// All commands that people run.
pub(crate) fn commands() -> Vec<Declared> {
    fn add(words: &[String], command: &Command, all: &mut Vec<Declared>) {
        let mut subcommands = command.get_subcommands().peekable();
        if subcommands.peek().is_none() {
            all.push(Declared {
                words: words.to_vec(),
                command: command.clone(),
            });
        }
        // What a benchmark starts has the options of other commands.
        for subcommand in subcommands.filter(|subcommand| !subcommand.is_hide_set()) {
            let name = subcommand.get_name().to_owned();
            add(&[words, &[name]].concat(), subcommand, all);
        }
    }
    let mut vesica = vesica_cli::definition();
    vesica.build();
    let mut all = Vec::new();
    add(&[], &vesica, &mut all);
    assert!(all.len() > 20);
    all
}

/// What an option is for, besides its value.
pub(crate) fn id(arg: &Arg) -> &str {
    arg.get_id().as_str()
}

/// What the path of an option usually leads to. The database of a set is a directory, and that of a query a file.
pub(crate) fn file(of: PathUse, name: &str) -> String {
    match of {
        PathUse::Database => "./a.sqlite".to_owned(),
        _ => format!("./a.{name}"),
    }
}

/// Words by an option's name.
pub(crate) type Given<'a> = &'a [(&'a str, String)];

impl Declared {
    /// The options and arguments that take values.
    pub(crate) fn values(&self) -> Vec<&Arg> {
        let all = self.command.get_arguments();
        all.filter(|arg| arg.get_action().takes_values()).collect()
    }

    /// Those that are paths, and what the command does with these.
    pub(crate) fn paths(&self) -> Vec<(&Arg, PathUse)> {
        let of = |arg| path_use(arg).map(|of| (arg, of));
        self.values().into_iter().filter_map(of).collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.command.get_arguments().any(|arg| id(arg) == name)
    }

    /// A command line with these options, and with what they and the command need.
    pub(crate) fn line(&self, place: &Place, given: Given<'_>) -> Vec<String> {
        let is_given = |name: &str| given.iter().any(|(id, _)| *id == name);
        let any = |names: &[&str]| names.iter().any(|name| is_given(name));
        let of_database = any(&["database", "database_file", "driver"]) && self.has("query");
        let to_table = is_given("output_table");
        let mut all: Vec<(&str, String)> = given.to_vec();
        let mut add = |name: &'static str| {
            if self.has(name) && !is_given(name) {
                all.push((name, self.usual(place, name)));
            }
        };
        match of_database && !to_table && !is_given("input") {
            true => add("query"),
            false if !any(&["query", "add", "remove"]) => add("input"),
            false => {}
        }
        let mut groups = self.command.get_groups();
        let meets = groups.any(|group| group.get_id() == "endpoint" && group.is_required_set());
        if (meets || is_given("identity") && self.has("endpoint")) && !any(&["listen", "gateway"]) {
            add("connect");
        }
        if self.words == ["total"] && any(&["identity", "peer", "connect", "listen"]) {
            ["identity", "peer"].into_iter().for_each(&mut add);
            if !any(&["listen"]) {
                add("connect");
            }
        }
        if is_given("rules") {
            add("ledger");
        }
        if any(&["endorsements", "peer_endorsements"]) {
            ["attestation", "measurement"]
                .into_iter()
                .for_each(&mut add);
        }
        if is_given("peer_endorsements") {
            add("peer_attestation");
        }
        if self.words == ["plan"] {
            add("receiver_size");
        }
        if !any(&["identifiers"]) {
            add("key");
        }
        for arg in self
            .values()
            .into_iter()
            .filter(|arg| arg.is_required_set())
        {
            if !all.iter().any(|(name, _)| *name == id(arg)) {
                all.push((id(arg), self.usual(place, id(arg))));
            }
        }
        let mut words = self.words.clone();
        for (name, value) in all {
            let arg = self.command.get_arguments().find(|arg| id(arg) == name);
            match arg.and_then(Arg::get_long) {
                Some(long) => words.extend([format!("--{long}"), value]),
                None => words.insert(self.words.len(), value),
            }
        }
        words
    }

    /// A value of its own for an option, which need not lead to anything.
    pub(crate) fn usual(&self, place: &Place, name: &str) -> String {
        let arg = self.values().into_iter().find(|arg| id(arg) == name);
        let arg = arg.unwrap_or_else(|| panic!("{:?} has no {name}", self.words));
        if let Some(of) = path_use(arg) {
            return match of {
                PathUse::Database => format!("sqlite:{}", file(of, name)),
                _ => file(of, name),
            };
        }
        if name.ends_with("attestation") {
            return "simulated".to_owned();
        }
        if let Some(possible) = arg.get_possible_values().first() {
            return possible.get_name().to_owned();
        }
        let value = match name {
            "listen" | "connect" | "gateway" | "address" => "127.0.0.1:1",
            "peer" | "party" | "sender" => return place.sender.to_string(),
            "receiver" | "dealer" | "generator" => return place.receiver.to_string(),
            "measurement" | "peer_measurement" => return "0".repeat(96),
            "key" | "value" | "payload" => "id",
            "query" => "select 1",
            "output_table" => "results",
            "step" => "answer",
            "role" => "receiver",
            "invited" => "send",
            "protocol" => "ole",
            "bucket" => "0",
            "receiver_size" | "sender_size" | "quota" => "10",
            _ => panic!("{:?}: what is a value of {name}?", self.words),
        };
        value.to_owned()
    }
}
