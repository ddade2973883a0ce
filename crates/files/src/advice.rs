//! What to do about a problem, whatever a face calls its options.
//!
//! A library does not know whether a person typed `--memory 4G` or `memory="4G"`. It names what it means by
//! [`Argument`] and [`Command`], and a [`Face`] spells these.

use std::borrow::Cow;
use std::fmt;

/// Declares an enumeration with the name of each variant.
macro_rules! named {
    ($(#[$doc:meta])* $type:ident: $($variant:ident $name:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`.")] $variant,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: &[$type] = &[$($type::$variant),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }
    };
}

named! {
    /// An argument of a run: an option of the command, a keyword in Python. Its name is words in lower case with `_`
    /// between them.
    Argument:
    Admit "admit",
    Align "align",
    AllowEmpty "allow_empty",
    Bandwidth "bandwidth",
    Both "both",
    Database "database",
    DatabaseFile "database_file",
    Deadline "deadline",
    Delimiter "delimiter",
    Deny "deny",
    Driver "driver",
    Encoding "encoding",
    Endorsements "endorsements",
    Fetch "fetch",
    GroupSizes "group_sizes",
    Input "input",
    Key "key",
    Lambda "lambda",
    Ledger "ledger",
    Listen "listen",
    Match "match",
    MaxKeys "max_keys",
    MaxPeerGroups "max_peer_groups",
    MaxPeerItems "max_peer_items",
    MaxPeerValueBound "max_peer_value_bound",
    MaxPeerValues "max_peer_values",
    Memory "memory",
    MinSize "min_size",
    NoHeader "no_header",
    Normalize "normalize",
    Null "null",
    Offline "offline",
    OuterCa "outer_ca",
    Output "output",
    OutputTableMode "output_table_mode",
    Payload "payload",
    PayloadWidth "payload_width",
    Peer "peer",
    PostQuantum "post_quantum",
    Protocol "protocol",
    Proxy "proxy",
    Purpose "purpose",
    Queries "queries",
    Quote "quote",
    Reveal "reveal",
    Rotate "rotate",
    Rows "rows",
    RowsPerKey "rows_per_key",
    Security "security",
    SkipFooter "skip_footer",
    SkipInitialSpace "skip_initial_space",
    SkipRows "skip_rows",
    Split "split",
    State "state",
    TakePayload "take_payload",
    TaskMemory "task_memory",
    Timeout "timeout",
    Value "value",
    ValueBound "value_bound",
    ValueRepeated "value_repeated",
    ValueScale "value_scale",
    Wait "wait",
}

named! {
    /// Something to run: a subcommand, a function in Python. Its name is that of the subcommand.
    Command:
    Attempts "attempts",
    Check "check",
    Collect "collect",
    Fingerprint "fingerprint",
    Gateway "gateway",
    Keygen "keygen",
    Publish "publish",
    Receive "receive",
    Send "send",
    Split "split",
    Total "total",
    ListStored "offline ls",
    MakeStored "offline make",
    RemoveStored "offline rm",
    AdoptStored "offline adopt",
}

/// A piece of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Words that are always the same.
    Words(&'static str),
    /// Numbers and names.
    Text(String),
    /// An argument.
    Argument(Argument),
    /// An argument with a value; for [`Argument::Normalize`] the profile of a column.
    Set(Argument, Cow<'static, str>),
    /// A command.
    Command(Command),
}

impl From<&'static str> for Part {
    fn from(words: &'static str) -> Part {
        Part::Words(words)
    }
}

impl From<String> for Part {
    fn from(text: String) -> Part {
        Part::Text(text)
    }
}

impl From<Argument> for Part {
    fn from(argument: Argument) -> Part {
        Part::Argument(argument)
    }
}

impl<T: Into<Cow<'static, str>>> From<(Argument, T)> for Part {
    fn from((argument, value): (Argument, T)) -> Part {
        Part::Set(argument, value.into())
    }
}

impl From<Command> for Part {
    fn from(command: Command) -> Part {
        Part::Command(command)
    }
}

/// How a person names arguments and commands.
pub trait Face {
    /// An argument.
    fn argument(&self, argument: Argument) -> String;

    /// An argument with a value; for [`Argument::Normalize`] the profile of a column.
    fn set(&self, argument: Argument, value: &str) -> String;

    /// A command.
    fn command(&self, command: Command) -> String;
}

/// The parts as one text.
pub fn spelled(parts: &[Part], face: &dyn Face) -> String {
    let spell = |part: &Part| match part {
        Part::Words(words) => (*words).to_owned(),
        Part::Text(text) => text.clone(),
        Part::Argument(argument) => face.argument(*argument),
        Part::Set(argument, value) => face.set(*argument, value),
        Part::Command(command) => face.command(*command),
    };
    parts.iter().map(spell).collect()
}

/// One line for a person. [`Advice::spelled`] spells it for a face, and `Display` by plain names.
///
/// ```
/// use vesica_files::{Argument, advice};
///
/// let advice = advice!["raise ", Argument::Memory, format!(" to {}M", 512)];
/// assert_eq!(advice.to_string(), "raise memory to 512M");
/// assert_eq!(advice.arguments().collect::<Vec<_>>(), [Argument::Memory]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice(Vec<Part>);

impl Advice {
    /// From its parts, which have no line ends; [`advice!`](crate::advice!) makes them.
    pub fn new(parts: impl Into<Vec<Part>>) -> Advice {
        Advice(parts.into())
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|part| *part == Part::Words(""))
    }

    /// The same behind other words.
    pub fn behind(mut self, words: impl Into<Part>) -> Advice {
        self.0.insert(0, words.into());
        self
    }

    /// The arguments that it names, in order.
    pub fn arguments(&self) -> impl Iterator<Item = Argument> {
        self.0.iter().filter_map(|part| match part {
            Part::Argument(argument) | Part::Set(argument, _) => Some(*argument),
            _ => None,
        })
    }

    /// The commands that it names, in order.
    pub fn commands(&self) -> impl Iterator<Item = Command> {
        self.0.iter().filter_map(|part| match part {
            Part::Command(command) => Some(*command),
            _ => None,
        })
    }

    /// As the users of `face` read it.
    pub fn spelled(&self, face: &dyn Face) -> String {
        spelled(&self.0, face)
    }
}

impl<T: Into<Part>> From<T> for Advice {
    fn from(part: T) -> Advice {
        Advice(vec![part.into()])
    }
}

/// [`Advice`] from words, texts, arguments with a value or without, and commands.
#[macro_export]
macro_rules! advice {
    ($($part:expr),+ $(,)?) => {
        $crate::Advice::new([$($crate::Part::from($part)),+])
    };
}

/// Spells everything by its name.
struct Plain;

impl Face for Plain {
    fn argument(&self, argument: Argument) -> String {
        argument.name().to_owned()
    }

    fn set(&self, argument: Argument, value: &str) -> String {
        format!("{} {value}", argument.name())
    }

    fn command(&self, command: Command) -> String {
        command.name().to_owned()
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelled(&Plain))
    }
}

/// A number and what is counted, such as `1 row`, `2 rows` and `0 queries`.
pub fn many(n: u64, what: &str) -> String {
    let stem = what
        .strip_suffix('y')
        .filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match (n, stem) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{n} {stem}ies"),
        (_, None) => format!("{n} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::many;

    #[test]
    fn one_is_no_plural() {
        for (n, what, expected) in [
            (0, "row", "0 rows"),
            (1, "row", "1 row"),
            (2, "distinct item", "2 distinct items"),
            (1, "query", "1 query"),
            (3, "query", "3 queries"),
            (3, "key", "3 keys"),
        ] {
            assert_eq!(many(n, what), expected);
        }
    }
}
