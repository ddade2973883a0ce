//! The command line.

mod bench;
mod parse;
mod published;
mod runs;
mod secrets;
mod table;
mod tasks;
mod terms;
mod values;

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use vesica::Role;
use vesica::options::{parse_duration, parse_peer_address};
use vesica_session::Invitation;

pub(crate) use self::bench::{Bench, BenchParty, Carrier, Kernels, Measured, Plan};
pub(crate) use self::parse::{Parsed, Stop, definition, parse};
pub(crate) use self::published::{Lookup, Publish, Serve};
pub(crate) use self::runs::{
    Check, Columns, Doctor, Exchange, Meeting, OwnSide, Receive, RunOptions, Send,
};
pub(crate) use self::table::{Opener, Table};
pub(crate) use self::tasks::{Attempts, Bucket, Collect, Gateway, Split, Total};
use crate::failure::Failure;
use crate::identity::{IdentityOption, PassphraseOption};
use crate::invited::Whose;
use crate::ledger::Ledger;
use crate::log::LogFormat;
use crate::offline::{Dealer, Generator, Offline};
use crate::paths::{InputPath, OutputFile};
use crate::report::Reporting;

#[derive(Debug, Parser)]
#[command(
    name = "vesica",
    version,
    about = "Private set intersection between two tables",
    long_about = "Private set intersection between two tables: the receiver learns which of its \
                  rows have a key that the sender's table also has, the sender learns only how \
                  many distinct keys the receiver has.",
    after_help = "Exit codes: 0 done, 2 usage, 3 the input data, 4 the network or the peer went \
                  away, 5 the peer misbehaved, 6 the two sides disagree on the contract, 7 a \
                  resource limit; 130 after Ctrl-C and 143 after SIGTERM.\n\n\
                  Every option can be set in the environment, as VESICA_MEMORY for --memory and \
                  VESICA_MAX_PEER_ITEMS for --max-peer-items, or in a TOML file, with --config: keys at its top are for all \
                  commands that have them, and those of a section, as [receive] or [offline.make], for \
                  that command."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// TOML file with options by their long names, such as memory = "4G" and key = ["name", "born"], for all commands, or in a
    /// section such as [receive] for one. Flags and environment variables override it
    #[arg(long, value_name = "FILE.toml", global = true)]
    #[allow(
        dead_code,
        reason = "it is read before the other options are understood"
    )]
    config: Option<InputPath>,
    /// Format of the lines on standard error
    #[arg(long, value_enum, default_value_t = LogFormat::Text, global = true)]
    log_format: LogFormat,
    /// Allow core dumps and debuggers. A core dump holds keys of the tables in clear
    #[arg(long, global = true)]
    allow_core_dumps: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the main job on sample data: two parties, two processes, TLS on this machine
    Demo,
    /// Makes an identity and prints its fingerprint
    Keygen(Keygen),
    /// Prints the fingerprint of an identity
    Fingerprint(FingerprintOf),
    /// Writes an invitation to a run: one line, by which the other side knows who invites, where, in which role and on which
    /// terms
    ///
    /// Whoever is invited calls receive or send with --invite, and sends back the fingerprint that this prints. This side calls
    /// the other one with --invite and, as --peer, that fingerprint. An invitation is as authentic as the way that it came by:
    /// have both fingerprints read aloud. It is used once.
    Invite(Invite),
    /// Learns which of its rows match the sender's table, and writes them
    Receive(Receive),
    /// Helps the receiver; learns only how many distinct keys it has, unless both sides learn the result
    Send(Send),
    /// Takes one step of a run between parties that are never online together, who exchange files
    ///
    /// Where the sender begins: sender offer, receiver start, sender answer, receiver finish. Where the receiver begins:
    /// receiver offer, sender start, receiver answer, sender answer, receiver finish. With --both the last message of the
    /// receiver goes to the sender, who finishes too. Each step but the first takes the peer's last --message, each but the last
    /// writes one with --message-out. Such a run finds rows, and no numbers and no columns of the sender: for these both
    /// sides run at once, with receive and send.
    Exchange(Box<Exchange>),
    /// Shows what a run would see of a table; needs no peer
    Check(Check),
    /// Says before a run what would stand in its way: identity, proxy, port, the peer's key, versions, terms, the table
    ///
    /// Both sides may call it at the same time, one with --listen and one with --connect. They then measure the link and compare
    /// their terms. It also tells whether a peer is there that waits in a run, which goes on waiting. No key of a table is used,
    /// and the peer learns no size.
    Doctor(Box<Doctor>),
    /// Prepares, lists and checks correlations for later runs
    Offline(Offline),
    /// Deals correlations to two parties that both trust this machine
    Dealer(Dealer),
    /// Makes one party's half of correlations in a trusted execution environment, together with the other party's generator
    Generator(Generator),
    /// Publishes the keys of a table as a file that others can look keys up in
    Publish(Publish),
    /// Answers clients that look keys up in a published set, each up to a quota
    Serve(Serve),
    /// Learns which of its rows are in a published set, and writes them
    Lookup(Lookup),
    /// Measures `receive` and `send` on random tables, as two processes on this machine
    Bench(Bench),
    /// Estimates what a run takes with each protocol: seconds, bytes, memory and money
    Plan(Plan),
    /// Agrees on a job with the peer, and divides a table into buckets for tasks on several machines
    ///
    /// Then, on both sides: `vesica attempts` prints lines of a bucket and an attempt; `vesica bucket` runs each of them, on any
    /// machine with a copy of the directory, whose files bucket-* come back; attempts again, until it prints none. `vesica
    /// collect` writes the rows, and `vesica total` opens numbers. A bucket has some thousands of keys at least, so that a small
    /// table has one.
    Split(Box<Split>),
    /// Runs one bucket of a job against the peer's task for it
    ///
    /// If it ends with code 5 after it has begun, the job is over, and no other attempt is made at any bucket: a peer that was
    /// caught does not get to guess again. Nor is there another attempt at a bucket of which the peer has confirmed its result.
    Bucket(Bucket),
    /// Connects the tasks of both sides of a job at one address; cannot read what they exchange
    Gateway(Gateway),
    /// Agrees with the peer's driver which buckets are tried next, and prints them
    ///
    /// A line has the numbers of a bucket and of an attempt at it. The driver is whoever runs this command and `vesica total`
    /// for one side.
    Attempts(Attempts),
    /// Writes the matching rows from the results of all buckets of a job
    Collect(Box<Collect>),
    /// Opens the total of a job for numbers together with the peer's driver, or prints the one that was opened
    ///
    /// Once all buckets have a result on both sides, run it on both: one with --listen, one with --connect, each with --identity
    /// and --peer. A side that learns the total prints it, and keeps it in the job's directory. Without these options it prints
    /// what it has kept, and meets nobody.
    Total(Total),
    /// Shows, checks and exports the account of what was answered, as runs with --ledger have kept it
    Ledger(Ledger),
    /// Prints a shell completion script
    Completions(Completions),
    /// Prints the manual page of vesica or of one of its commands
    Man(Man),
    /// A command under the conditions of a benchmark; started by `bench`
    #[command(hide = true)]
    BenchParty(Box<BenchParty>),
}

#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// File for the new identity; never overwritten
    #[arg(long, value_name = "FILE", default_value = parse::USUAL_IDENTITY)]
    pub(crate) out: OutputFile,
    /// Encrypt the identity under a passphrase, which every command then asks for
    #[arg(long)]
    pub(crate) encrypt: bool,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOption,
}

#[derive(Debug, Args)]
pub(crate) struct FingerprintOf {
    #[command(flatten)]
    pub(crate) own: IdentityOption,
}

#[derive(Debug, Args)]
pub(crate) struct Invite {
    #[command(flatten)]
    pub(crate) own: IdentityOption,
    /// Address at which this side can be reached by whoever is invited, HOST:PORT, or wss://HOST/PATH behind a web server
    #[arg(help_heading = "Peer", long, value_name = "ADDR", value_parser = parse_peer_address)]
    pub(crate) address: String,
    /// What whoever is invited does; this side does the other
    #[arg(help_heading = "Agreed with the peer", id = "invited", long = "for", value_name = "receive|send", value_parser = role)]
    pub(crate) invited: Role,
    #[command(flatten)]
    pub(crate) agreed: runs::Agreed<terms::OfInvitation>,
    /// How long the invitation can be used
    #[arg(long, value_name = "SECONDS", default_value = "7d", value_parser = parse_duration)]
    pub(crate) expires: Duration,
    /// Print a QR code of it on standard error
    #[arg(long)]
    pub(crate) qr: bool,
}

fn role(text: &str) -> Result<Role, &'static str> {
    match text {
        "receive" => Ok(Role::Receiver),
        "send" => Ok(Role::Sender),
        _ => Err("whoever is invited is to receive or to send"),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Command to describe, such as receive or offline make; vesica itself if not given
    pub(crate) command: Vec<String>,
}

impl Command {
    /// Takes the invitation to a run.
    fn take(&mut self, invitation: Invitation, whose: Whose) -> Result<(), Failure> {
        let (role, link, run) = match self {
            Command::Receive(Receive { link, run, .. }) => (Role::Receiver, link, run),
            Command::Send(Send { link, run, .. }) => (Role::Sender, link, run),
            _ => return Err(Failure::usage("an invitation is for receive and send")),
        };
        run.take(role, link, invitation, whose)
    }

    /// Its report, if it has one.
    pub(crate) fn reporting(&self) -> Option<Reporting<'_>> {
        Some(match self {
            Command::Receive(options) => options.run.reporting(Role::Receiver, &options.link),
            Command::Send(options) => options.run.reporting(Role::Sender, &options.link),
            Command::Exchange(options) => options.reporting(),
            Command::Publish(options) => options.report.reporting(),
            Command::Lookup(options) => options.reporting(),
            Command::Bucket(options) => options.report.reporting(),
            Command::Collect(options) => options.reporting(),
            _ => return None,
        })
    }

    /// Whether it shows to others that its memory is kept from its host.
    fn is_in_hardware(&self) -> bool {
        match self {
            Command::Dealer(dealer) => dealer.is_in_hardware(),
            Command::Generator(generator) => generator.is_in_hardware(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use vesica_files::{Argument, Command, Face};

    use crate::failure::InCommand;

    /// All that `--help` says of an option.
    fn whole_help(arg: &clap::Arg) -> String {
        let help = arg.get_long_help().or(arg.get_help());
        help.map(ToString::to_string).unwrap_or_default()
    }

    /// `--help` has the rest.
    #[test]
    fn help_in_brief_is_the_first_sentence() {
        let definition = super::definition(&[]);
        let receive = definition.find_subcommand("receive").unwrap();
        let of = |name: &str| receive.get_arguments().find(|arg| arg.get_id() == name);
        let memory = of("memory").unwrap();
        let brief = memory.get_help().unwrap().to_string();
        assert_eq!(brief, "Approximate memory, such as 512M or 4G");
        let whole = whole_help(memory);
        assert!(whole.starts_with(&brief) && whole.len() > brief.len());
        let input = of("input").unwrap().get_help().unwrap().to_string();
        assert!(input.ends_with("or `-` for standard input"), "{input}");
    }

    #[test]
    fn the_definition_is_sound() {
        super::definition(&[]).debug_assert();
    }

    /// What a benchmark does without an option is not what a run does.
    #[test]
    fn benchmarks_say_what_they_do_if_nothing_is_given() {
        let definition = super::definition(&[]);
        for name in ["security", "reveal"] {
            for (command, has_default) in [("receive", true), ("bench", false)] {
                let command = definition.find_subcommand(command).unwrap();
                let option = command.get_arguments().find(|arg| arg.get_id() == name);
                let option = option.unwrap();
                assert_eq!(!option.get_default_values().is_empty(), has_default);
                let help = whole_help(option);
                assert_eq!(help.contains("If not given, the "), !has_default, "{help}");
            }
        }
    }

    /// Terms and tables are said once for all commands.
    #[test]
    fn help_names_no_option_that_a_command_has_not() {
        let definition = super::definition(&[]);
        let commands = [
            "exchange", "publish", "serve", "lookup", "split", "bucket", "attempts", "collect",
            "total",
        ];
        for name in commands {
            let command = definition.find_subcommand(name).unwrap();
            let mut shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let all = command.get_arguments().filter(|arg| !arg.is_hide_set());
            let all: Vec<&str> = all.filter_map(clap::Arg::get_long).collect();
            let unknown = shown.find_map(|arg| {
                let help = whole_help(arg);
                let words = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let options = words.filter_map(|word| word.strip_prefix("--"));
                let unknown = options
                    .map(str::to_owned)
                    .find(|long| !all.contains(&&**long));
                unknown.map(|long| format!("{}: --{long}", arg.get_id()))
            });
            assert_eq!(unknown, None, "{name}");
        }
    }

    /// Whatever the table is for.
    #[test]
    fn what_reads_a_table_has_a_limit_of_memory() {
        fn check(command: &clap::Command, name: &str, tables: &mut Vec<String>) {
            let options: Vec<&str> =
                (command.get_arguments().filter_map(clap::Arg::get_long)).collect();
            if options.contains(&"normalize") {
                let limit = if name == "split" {
                    "task-memory"
                } else {
                    "memory"
                };
                assert!(options.contains(&limit), "{name}");
                tables.push(name.to_owned());
            }
            for command in command.get_subcommands() {
                check(command, command.get_name(), tables);
            }
        }
        let mut tables = Vec::new();
        check(&super::definition(&[]), "vesica", &mut tables);
        for name in [
            "receive", "send", "check", "doctor", "exchange", "publish", "lookup", "split",
            "collect",
        ] {
            assert!(tables.iter().any(|table| table == name), "{name}");
        }
    }

    /// They are cut out of those of a run.
    #[test]
    fn a_job_offers_what_tasks_can_reveal() {
        let definition = super::definition(&[]);
        let split = definition.find_subcommand("split").unwrap();
        let mut options = split.get_arguments();
        let reveal = options.find(|arg| arg.get_id() == "reveal").unwrap();
        let help = whole_help(reveal);
        assert!(help.contains(", or threshold:N"), "{help}");
        for other in ["threshold-matches", "shares"] {
            assert!(!help.contains(other), "{help}");
        }
    }

    #[test]
    fn what_libraries_name_is_there() {
        fn has(command: &clap::Command, long: &str) -> bool {
            let here = |arg: &clap::Arg| arg.get_long() == Some(long);
            command.get_arguments().any(here) || command.get_subcommands().any(|sub| has(sub, long))
        }
        let definition = super::definition(&[]);
        for argument in Argument::ALL {
            let spelled = InCommand.argument(*argument);
            let long = spelled.strip_prefix("--").unwrap();
            assert!(has(&definition, long), "{spelled}");
        }
        for command in Command::ALL {
            let mut names = command.name().split(' ');
            let found = names.try_fold(&definition, |of, name| of.find_subcommand(name));
            assert!(found.is_some(), "{}", command.name());
        }
    }
}
