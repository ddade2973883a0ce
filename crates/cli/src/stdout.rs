//! Standard output.

use std::io::{self, Write};

use crate::failure::{Failure, RESOURCE};

/// Prints a text, and says if it does not arrive.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout();
    let printed = out.write_all(text).and_then(|()| out.flush());
    printed.map_err(|e| unwritable(&e))
}

/// Prints a line.
pub(crate) fn print_line(line: &str) -> Result<(), Failure> {
    print(format!("{line}\n").as_bytes())
}

pub(crate) fn unwritable(e: &io::Error) -> Failure {
    Failure::new(RESOURCE, format!("standard output cannot be written: {e}"))
}
