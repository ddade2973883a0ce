//! The command `vesica`, in the process of the interpreter.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use pyo3::prelude::*;

use crate::ALLOCATOR;

/// Runs a command, and returns its exit code. `program` starts this program again, as far as the arguments.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    ALLOCATOR.exits.store(true, Ordering::Relaxed);
    py.detach(|| vesica_cli::run_within(program, arguments))
}
