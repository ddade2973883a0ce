//! From errors of the library to exceptions of the package.

use pyo3::prelude::*;
use vesica::{ErrorClass, Problem};

/// Why a run failed: the name of the exception, a line, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    class: &'static str,
    line: String,
    hint: Option<String>,
}

/// The options that lines and hints name as the command spells them.
const OPTIONS: [&str; 32] = [
    "align",
    "allow-empty",
    "attested",
    "database-file",
    "database",
    "deadline",
    "driver",
    "encoding",
    "escape",
    "input",
    "lambda",
    "max-peer-items",
    "max-peer-value-bound",
    "memory",
    "min-size",
    "normalize",
    "null",
    "offline-store",
    "offline",
    "peer",
    "protocol",
    "query",
    "quote",
    "rows",
    "security",
    "timeout",
    "value-bound",
    "value-repeated",
    "take-values",
    "value-scale",
    "value-width",
    "value",
];

/// The text with options as Python spells them.
pub(crate) fn in_python(text: &str) -> String {
    let mut text = text
        .replace("--security semi-honest", "security=\"semi-honest\"")
        .replace("--protocol ole", "protocol=\"ole\"")
        .replace("--protocol vole", "protocol=\"vole\"")
        .replace(
            "--normalize COL=integer if",
            "normalize={COL: \"integer\"} if",
        )
        .replace("`vesica check`", "`vesica.check`");
    for option in OPTIONS {
        let name = match option {
            "lambda" => "lambda_".to_owned(),
            "input" => "table".to_owned(),
            other => other.replace('-', "_"),
        };
        text = text.replace(&format!("--{option}"), &format!("`{name}`"));
    }
    text
}

impl Failure {
    /// The caller asked for something impossible.
    pub(crate) fn usage(line: impl Into<String>) -> Failure {
        Failure {
            class: "UsageError",
            line: line.into(),
            hint: None,
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

impl From<vesica::Error> for Failure {
    fn from(error: vesica::Error) -> Failure {
        Failure {
            class: match error.class() {
                ErrorClass::Usage => "UsageError",
                ErrorClass::Data => "DataError",
                ErrorClass::Network => "NetworkError",
                ErrorClass::Peer => "PeerError",
                ErrorClass::Contract => "ContractError",
                ErrorClass::Resource => "ResourceError",
            },
            line: in_python(&error.to_string()),
            hint: error.hint().map(|hint| in_python(&hint)),
        }
    }
}

impl From<vesica::TableError> for Failure {
    fn from(error: vesica::TableError) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<vesica::SessionError> for Failure {
    fn from(error: vesica::SessionError) -> Failure {
        vesica::Error::from(error).into()
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| {
            let class = py
                .import("vesica._errors")
                .and_then(|module| module.getattr(failure.class));
            match class.and_then(|class| class.call1((failure.line, failure.hint))) {
                Ok(error) => PyErr::from_value(error),
                Err(error) => error,
            }
        })
    }
}
