//! From errors of the library to exceptions of the package.

use pyo3::exceptions::{PyException, PyImportError, PyMemoryError, PyTypeError};
use pyo3::prelude::*;
use vesica::ErrorClass;
use vesica::files::{Advice, Argument, Command, Face};
use vesica::session::Problem;
use vesica::tables::redacted;

/// Why a run failed: the name of the exception, a line, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    class: &'static str,
    line: String,
    hint: Option<String>,
    /// What Python code has raised, which is raised again.
    raised: Option<Box<PyErr>>,
}

/// Spells what libraries name as a program in Python does.
pub(crate) struct InPython;

impl InPython {
    fn keyword(argument: Argument) -> &'static str {
        match argument {
            Argument::Input => "table",
            Argument::Key | Argument::Match => "on",
            Argument::NoHeader => "header",
            other => other.name(),
        }
    }
}

impl Face for InPython {
    fn argument(&self, argument: Argument) -> String {
        format!("`{}`", InPython::keyword(argument))
    }

    fn set(&self, argument: Argument, value: &str) -> String {
        let keyword = InPython::keyword(argument);
        match argument {
            Argument::Normalize => format!("{keyword}={{COL: \"{value}\"}}"),
            _ => format!("{keyword}=\"{value}\""),
        }
    }

    /// What only the command does is named as there.
    fn command(&self, command: Command) -> String {
        match command {
            Command::Attempts => "`SplitJob.next_attempts`".to_owned(),
            Command::Check => "`vesica.check`".to_owned(),
            Command::Collect => "`SplitJob.collect`".to_owned(),
            Command::Keygen => "`vesica.Identity.generate`".to_owned(),
            Command::Publish => "`vesica.publish`".to_owned(),
            Command::Receive => "`vesica.receive`".to_owned(),
            Command::Send => "`vesica.send`".to_owned(),
            Command::Fingerprint => "`vesica.Identity.fingerprint`".to_owned(),
            Command::Split => "`vesica.split`".to_owned(),
            Command::Total => "`SplitJob.total`".to_owned(),
            _ => format!("`vesica {}`", command.name()),
        }
    }
}

impl Failure {
    /// The caller asked for something impossible.
    pub(crate) fn usage(line: impl Into<String>) -> Failure {
        Failure {
            class: "UsageError",
            line: line.into(),
            hint: None,
            raised: None,
        }
    }

    /// The same with what else to do, if there is something.
    pub(crate) fn and(mut self, advice: Option<&Advice>) -> Failure {
        let more = advice.map(|advice| advice.spelled(&InPython));
        let hints: Vec<String> = self.hint.into_iter().chain(more).collect();
        self.hint = (!hints.is_empty()).then(|| hints.join("; "));
        self
    }

    /// What a library is told that has called what has failed so.
    pub(crate) fn class(&self) -> ErrorClass {
        let found = CLASSES.into_iter().find(|(name, _)| *name == self.class);
        found.map_or(ErrorClass::Data, |(_, class)| class)
    }

    /// Something that cannot be used was given.
    pub(crate) fn data(line: impl Into<String>) -> Failure {
        Failure {
            class: "DataError",
            ..Failure::usage(line)
        }
    }

    /// What the peer may know of it before anything was exchanged, as for [`vesica::Error::problem`].
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self.class {
            "UsageError" => Some(Problem::Options),
            "DataError" => Some(Problem::Table),
            "ResourceError" => Some(Problem::Resources),
            _ => None,
        }
    }
}

/// The exceptions of the package.
const CLASSES: [(&str, ErrorClass); 7] = [
    ("UsageError", ErrorClass::Usage),
    ("DataError", ErrorClass::Data),
    ("NetworkError", ErrorClass::Network),
    ("PeerError", ErrorClass::Peer),
    ("ContractError", ErrorClass::Contract),
    ("ResourceError", ErrorClass::Resource),
    ("StoppedError", ErrorClass::Interrupted),
];

fn name_of(class: ErrorClass) -> &'static str {
    let found = CLASSES.into_iter().find(|(_, each)| *each == class);
    // Every class has one.
    found.map_or("DataError", |(name, _)| name)
}

impl From<vesica::Error> for Failure {
    fn from(error: vesica::Error) -> Failure {
        Failure {
            class: name_of(error.class()),
            line: error.to_string(),
            hint: error.remedy().map(|remedy| remedy.spelled(&InPython)),
            raised: None,
        }
    }
}

/// What Python code has raised that computes a table: the table's fault, unless it says something else. A module that is
/// missing, and memory, are this machine's.
impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        let class = Python::attach(|py| {
            let name = error.get_type(py).name();
            let name = name.map_or_else(|_| String::new(), |name| name.to_string());
            let known = CLASSES.into_iter().find(|(class, _)| *class == name);
            match known {
                Some((class, _)) => class,
                None if !error.is_instance_of::<PyException>(py) => "StoppedError",
                None if error.is_instance_of::<PyImportError>(py)
                    || error.is_instance_of::<PyMemoryError>(py) =>
                {
                    "ResourceError"
                }
                None if error.is_instance_of::<PyTypeError>(py) => "UsageError",
                None => "DataError",
            }
        });
        Failure {
            class,
            line: error.to_string(),
            hint: None,
            raised: Some(Box::new(error)),
        }
    }
}

impl From<vesica::tables::Error> for Failure {
    fn from(error: vesica::tables::Error) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<vesica::session::Error> for Failure {
    fn from(error: vesica::session::Error) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        if let Some(raised) = failure.raised {
            return *raised;
        }
        Python::attach(|py| {
            let class = py
                .import("vesica._errors")
                .and_then(|module| module.getattr(failure.class));
            let line = redacted(&failure.line);
            let hint = failure.hint.as_deref().map(redacted);
            match class.and_then(|class| class.call1((line, hint))) {
                Ok(error) => PyErr::from_value(error),
                Err(error) => error,
            }
        })
    }
}
