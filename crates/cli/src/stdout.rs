//! Standard output.

use std::io::{self, Write};

use vesica_kernels::process::standard_output_was_open;

use crate::failure::{Failure, RESOURCE};

/// Fails if nothing that is printed will arrive. What prints at the end of long work asks this before.
pub(crate) fn check_open() -> Result<(), Failure> {
    match standard_output_was_open() {
        true => Ok(()),
        false => Err(Failure::usage("standard output is closed")),
    }
}

/// Prints a text, and says if it does not arrive.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    print_with(|out| out.write_all(text).and_then(|()| out.flush()))
}

/// The same of what prints by itself.
pub(crate) fn print_with(
    print: impl FnOnce(&mut io::Stdout) -> io::Result<()>,
) -> Result<(), Failure> {
    // The runtime has put something else in its place that takes everything.
    if !standard_output_was_open() {
        return Err(unwritable(&io::Error::other("it is closed")));
    }
    let mut out = io::stdout();
    print(&mut out).map_err(|e| unwritable(&e))
}

/// The same of what a person reads, who may have seen enough and closed it.
pub(crate) fn show_with(
    print: impl FnOnce(&mut io::Stdout) -> io::Result<()>,
) -> Result<(), Failure> {
    print_with(|out| {
        print(out).or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })
    })
}

/// Prints a line.
pub(crate) fn print_line(line: &str) -> Result<(), Failure> {
    print(format!("{line}\n").as_bytes())
}

fn unwritable(e: &io::Error) -> Failure {
    Failure::new(RESOURCE, format!("standard output cannot be written: {e}"))
}
