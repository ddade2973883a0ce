//! What goes wrong between this machine and a store.

use std::io;

use vesica_files::Advice;

use super::{Error, ErrorClass, ErrorKind};

/// Why an object cannot be read or written. Nothing in it is from an address's query, or the body of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("there is no such object")]
    Missing,
    #[error("it is not the version that was read first")]
    Changed,
    #[error("there is no such bucket or container")]
    NoBucket,
    #[error("access is denied{}", in_brackets(.0))]
    Denied(Option<String>),
    #[error("there are no credentials in the environment, and this machine has none of its own")]
    NoCredentials,
    #[error("the settings in the environment are not complete or not right{}", in_brackets(.0))]
    Settings(Option<String>),
    #[error("the bucket is in another region")]
    Region,
    #[error("the server refuses, status {status}{}", in_brackets(.code))]
    Refused { status: u16, code: Option<String> },
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server takes too long")]
    TimedOut,
    #[error("the server redirects too often, or away from TLS")]
    Redirects,
    #[error("the server does not say how long it is")]
    NoLength,
    #[error("the server sends fewer bytes than it says")]
    Short,
    #[error("the server's answer is not of the right length")]
    TooLong,
    #[error("the server's answer makes no sense")]
    Malformed,
    #[error("the server sends a web page")]
    WebPage,
    #[error("the listing goes on beyond {0} objects")]
    Listing(usize),
    #[error("a name has empty parts, or . or .. as a part")]
    Name,
    #[error("it is larger than {0} GiB")]
    TooLarge(u64),
    #[error("it breaks off before its end")]
    Unfinished,
    #[error("there are no threads or file descriptors left for it")]
    NoThreads,
}

fn in_brackets(text: &Option<String>) -> String {
    text.as_ref()
        .map_or_else(String::new, |text| format!(" ({text})"))
}

impl Problem {
    /// Whose fault it is, of a table that is read or of a result.
    pub(super) fn class(&self, is_output: bool) -> ErrorClass {
        match self {
            Problem::NoThreads | Problem::TooLarge(_) => ErrorClass::Resource,
            Problem::Missing
            | Problem::NoBucket
            | Problem::Denied(_)
            | Problem::NoCredentials
            | Problem::Settings(_)
            | Problem::Region
            | Problem::Name
                if is_output =>
            {
                ErrorClass::Usage
            }
            _ => ErrorClass::Data,
        }
    }

    /// Whether it may do better another time.
    pub(super) fn may_pass(&self) -> bool {
        matches!(
            self,
            Problem::Unreachable(_) | Problem::TimedOut | Problem::Refused { .. }
        )
    }

    /// As the error of a table that is read.
    pub(crate) fn of_input(self) -> Error {
        Error::new(match self {
            Problem::Missing => ErrorKind::MissingFile,
            Problem::Changed => ErrorKind::Changed,
            Problem::Short => return Error::corrupt("it breaks off in the middle"),
            problem => ErrorKind::Unreadable(problem.into()),
        })
    }

    /// As the error of a result that is written.
    pub(crate) fn of_output(self) -> Error {
        Error::new(ErrorKind::Unwritable(self.into()))
    }

    /// As what a reader says.
    pub(crate) fn of_read(self) -> io::Error {
        io::Error::other(self.of_input())
    }

    /// What to do about it.
    pub(crate) fn remedy(&self) -> Option<Advice> {
        Some(match self {
            Problem::Denied(_) | Problem::NoCredentials | Problem::Settings(_) => {
                "credentials come from the environment: AWS_…, AZURE_… or GOOGLE_…".into()
            }
            Problem::NoBucket => "look at its name, and at the account or endpoint".into(),
            Problem::Region => "name the region in AWS_REGION".into(),
            Problem::NoLength => "fetch it with another program, and name the file".into(),
            Problem::WebPage => "sign the address, or look at it in a browser".into(),
            Problem::Listing(_) => "name a narrower directory or pattern".into(),
            problem if problem.may_pass() => "run again: nothing was changed".into(),
            _ => return None,
        })
    }
}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> io::Error {
        let kind = match problem {
            Problem::Missing | Problem::NoBucket => io::ErrorKind::NotFound,
            Problem::Denied(_) | Problem::NoCredentials => io::ErrorKind::PermissionDenied,
            Problem::Settings(_) | Problem::Region | Problem::Name => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, problem)
    }
}
