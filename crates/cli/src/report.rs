//! What `--report` writes of a run, however it ends.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;
use vesica::tables::is_address;
use vesica::{Fingerprint, Role, Source};
use vesica_files::{WholeFile, is_exhausted, memory_limit};
use vesica_kernels::process::standard_output_was_open;
use vesica_session::rfc3339;

use crate::failure::{Failure, RESOURCE, USAGE, one_line};
use crate::memory::peak_memory_bytes;
use crate::signals;
use crate::stdout::print;

/// A command that has a report, as far as its options say.
#[derive(Clone, Copy)]
pub(crate) struct Reporting<'a> {
    /// `None` unless there are a receiver and a sender.
    pub(crate) role: Option<Role>,
    pub(crate) peer: Option<Fingerprint>,
    /// Where the report goes, if there is to be one.
    pub(crate) report: Option<&'a Path>,
    /// Where the result goes.
    pub(crate) output: Option<&'a Path>,
}

/// A run on its way to a report.
pub(crate) struct Record<'a> {
    role: Option<Role>,
    started: SystemTime,
    peer: Option<Fingerprint>,
    /// This side's own, once its identity has been read.
    pub(crate) fingerprint: Option<Fingerprint>,
    place: Place<'a>,
}

enum Place<'a> {
    Nowhere,
    Stdout,
    File(&'a Path, WholeFile),
}

/// A report, whose keys scripts know.
#[derive(Serialize)]
struct Written<O> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    version: &'static str,
    started: String,
    fingerprint: Option<Fingerprint>,
    exit_code: u8,
    error: Option<String>,
    /// The most memory that this process has held so far, in bytes, where the system tells.
    peak_memory_bytes: Option<u64>,
    machine: Machine,
    #[serde(flatten)]
    outcome: O,
}

/// What this process may take of its machine.
#[derive(Serialize)]
struct Machine {
    /// Memory in bytes, where the system tells.
    memory_bytes: Option<u64>,
    /// What limits it so.
    memory_limit: Option<String>,
    /// Processors, by affinity and quota.
    processors: usize,
}

impl Machine {
    fn here() -> Machine {
        let limit = memory_limit();
        Machine {
            memory_bytes: limit.as_ref().map(|limit| limit.bytes),
            memory_limit: limit.map(|limit| limit.of.to_string()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// What is known of a run that failed.
#[derive(Serialize)]
struct Failed {
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Fingerprint>,
}

impl<'a> Record<'a> {
    /// Opens the report, if there is to be one, and removes that of an earlier run: it is none of this one, which may
    /// fail.
    pub(crate) fn open(of: Reporting<'a>) -> Result<Record<'a>, Failure> {
        let Reporting {
            role,
            peer,
            report,
            output,
        } = of;
        let place = match report {
            None => Place::Nowhere,
            Some(path) if path == Path::new("-") => {
                if !standard_output_was_open() || output == Some(path) {
                    let problem = "standard output is closed, or has the result already";
                    return Err(Failure::usage(format!("--report -: {problem}")));
                }
                Place::Stdout
            }
            Some(path) if is_address(path) => {
                let problem = "a report is a file, and not an object at an address";
                return Err(Failure::usage(problem));
            }
            Some(path) => {
                let unwritable = |e| unwritable(path, &e);
                let file = WholeFile::create(path).map_err(unwritable)?;
                if path.is_file() {
                    // A link stays, as it does when the report is put in its place.
                    let there = path.canonicalize().map_err(unwritable)?;
                    std::fs::remove_file(there).map_err(unwritable)?;
                }
                Place::File(path, file)
            }
        };
        Ok(Record {
            role,
            started: SystemTime::now(),
            peer,
            fingerprint: None,
            place,
        })
    }

    /// Reports what a command has come to, or that it failed.
    pub(crate) fn around<T: Serialize>(
        of: Reporting<'a>,
        run: impl FnOnce(&mut Record<'a>) -> Result<T, Failure>,
    ) -> Result<(), Failure> {
        let mut record = Record::open(of)?;
        match run(&mut record) {
            Ok(report) => record.done(&report),
            Err(failure) => {
                let failure = signals::cause(failure);
                record.failed(&failure);
                Err(failure)
            }
        }
    }

    /// Whether the report goes to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// Lets those read the report who may read the table; until this is known, only this user.
    pub(crate) fn readable_as(&mut self, source: &Source) {
        if let Place::File(_, file) = &mut self.place {
            file.readable_by(source.readers());
        }
    }

    /// Writes the report of a run that succeeded.
    pub(crate) fn done(self, report: &impl Serialize) -> Result<(), Failure> {
        self.write(0, None, report)
    }

    /// Writes the report of a run that failed, if that is possible: of two failures the first one counts.
    pub(crate) fn failed(self, failure: &Failure) {
        let peer = self.peer;
        let error = Some(one_line(&failure.line));
        let _ = self.write(failure.code, error, Failed { peer });
    }

    fn write(
        self,
        exit_code: u8,
        error: Option<String>,
        outcome: impl Serialize,
    ) -> Result<(), Failure> {
        let written = Written {
            role: self.role,
            version: env!("CARGO_PKG_VERSION"),
            started: rfc3339(self.started),
            fingerprint: self.fingerprint,
            exit_code,
            error,
            peak_memory_bytes: peak_memory_bytes(),
            machine: Machine::here(),
            outcome,
        };
        let mut json = serde_json::to_vec_pretty(&written)
            .map_err(|e| Failure::new(RESOURCE, format!("the report is not JSON: {e}")))?;
        json.push(b'\n');
        match self.place {
            Place::Nowhere => Ok(()),
            Place::Stdout => print(&json),
            Place::File(path, mut file) => file
                .write_all(&json)
                .and_then(|()| file.commit())
                .map_err(|e| Failure::new(RESOURCE, unwritable(path, &e).line)),
        }
    }
}

/// A report that cannot be written: a full disk is a limit, anything else a bad request.
fn unwritable(path: &Path, e: &std::io::Error) -> Failure {
    let code = if is_exhausted(e) { RESOURCE } else { USAGE };
    let line = format!("{}: cannot be written: {e}", path.display());
    Failure::new(code, line)
}
