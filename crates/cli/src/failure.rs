//! How the command fails: one line that says what is wrong, one that says what to do, an exit code.

use std::sync::atomic::{AtomicBool, Ordering};

use vesica::ErrorClass;
use vesica::tables::redacted;
use vesica_files::{Advice, Argument, Command, Face};
use vesica_session::Problem;
use vesica_wire::is_hidden;

use crate::log;

/// Exit code of a bad command line.
pub(crate) const USAGE: u8 = 2;
/// Exit code of input data that cannot be used.
pub(crate) const DATA: u8 = 3;
/// Exit code of the network, and of a peer that went away.
pub(crate) const NETWORK: u8 = 4;
/// Exit code of a peer that misbehaved.
const PEER: u8 = 5;
/// Exit code where the two sides disagree on the contract.
pub(crate) const CONTRACT: u8 = 6;
/// Exit code of a limit of this machine.
pub(crate) const RESOURCE: u8 = 7;

/// Exit code of a run that was interrupted, unless a signal has another one.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why the command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) line: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, line: impl Into<String>) -> Failure {
        Failure {
            code,
            line: line.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(line: impl Into<String>) -> Failure {
        Failure::new(USAGE, line)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The same with what else to do, if there is something.
    pub(crate) fn and(mut self, advice: Option<&Advice>) -> Failure {
        let more = advice.map(|advice| advice.spelled(&InCommand));
        let hints: Vec<String> = self.hint.into_iter().chain(more).collect();
        self.hint = (!hints.is_empty()).then(|| hints.join("; "));
        self
    }

    /// What the peer may know of it before anything was exchanged, as for [`vesica::Error::problem`].
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self.code {
            USAGE => Some(Problem::Options),
            DATA => Some(Problem::Table),
            RESOURCE => Some(Problem::Resources),
            _ => None,
        }
    }

    /// Prints the line and the hint, unless another thread has said why the process ends; returns the exit
    /// code.
    pub(crate) fn report(&self) -> u8 {
        static SAID: AtomicBool = AtomicBool::new(false);
        if SAID.swap(true, Ordering::SeqCst) {
            return self.code;
        }
        let hint = self.hint.as_deref().map(one_line);
        log::failure(&one_line(&self.line), hint.as_deref(), self.code);
        self.code
    }
}

impl From<vesica::Error> for Failure {
    fn from(error: vesica::Error) -> Failure {
        Failure {
            code: match error.class() {
                ErrorClass::Usage => USAGE,
                ErrorClass::Data => DATA,
                ErrorClass::Network => NETWORK,
                ErrorClass::Peer => PEER,
                ErrorClass::Contract => CONTRACT,
                ErrorClass::Resource => RESOURCE,
                ErrorClass::Interrupted => INTERRUPTED,
            },
            line: error.to_string(),
            hint: error.remedy().map(|remedy| remedy.spelled(&InCommand)),
        }
    }
}

impl From<vesica::tables::Error> for Failure {
    fn from(error: vesica::tables::Error) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<vesica::offline::Error> for Failure {
    fn from(error: vesica::offline::Error) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<vesica::lookup::Error> for Failure {
    fn from(error: vesica::lookup::Error) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<vesica_session::Error> for Failure {
    fn from(error: vesica_session::Error) -> Failure {
        vesica::Error::from(error).into()
    }
}

/// Spells what libraries name as a person types it in a shell.
pub(crate) struct InCommand;

impl Face for InCommand {
    fn argument(&self, argument: Argument) -> String {
        format!("--{}", argument.name().replace('_', "-"))
    }

    fn set(&self, argument: Argument, value: &str) -> String {
        let option = self.argument(argument);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-:=".contains(c);
        match argument {
            Argument::Normalize => format!("{option} COL={value}"),
            _ if value.chars().all(is_plain) => format!("{option} {value}"),
            _ => format!("{option} '{value}'"),
        }
    }

    fn command(&self, command: Command) -> String {
        match command {
            Command::Fingerprint => "`vesica fingerprint --identity FILE`".to_owned(),
            _ => format!("`vesica {}`", command.name()),
        }
    }
}

/// The text as one line that cannot steer a terminal, without keys and signatures.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    redacted(&words)
        .chars()
        .filter(|c| !is_hidden(*c))
        .collect()
}

#[cfg(test)]
mod tests {
    use vesica_files::{Argument, Command, Face};

    use super::{InCommand, one_line};

    #[test]
    fn what_libraries_name_is_as_a_person_types_it() {
        let face = InCommand;
        assert_eq!(face.argument(Argument::ValueBound), "--value-bound");
        for (argument, value, expected) in [
            (Argument::Security, "semi-honest", "--security semi-honest"),
            (Argument::Normalize, "ipv4", "--normalize COL=ipv4"),
            (Argument::Input, "DIR/*", "--input 'DIR/*'"),
        ] {
            assert_eq!(face.set(argument, value), expected);
        }
        assert_eq!(face.command(Command::ListStored), "`vesica offline ls`");
        let fingerprint = "`vesica fingerprint --identity FILE`";
        assert_eq!(face.command(Command::Fingerprint), fingerprint);
    }

    #[test]
    fn a_line_cannot_steer_a_terminal() {
        assert_eq!(
            one_line("a\n\x1b[31mEVIL\t\u{9b}b\u{202e}c"),
            "a [31mEVIL bc"
        );
    }
}
