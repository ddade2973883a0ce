//! Variables without the line ends that files and secrets have which are mapped to the environment.

use std::ffi::OsString;

/// Starts this program again without line ends after the values of the variables that it takes, if any has one: whatever
/// reads them, options of every type among them, gets the same. Call it before there is anything that would be lost.
#[cfg(unix)]
pub(crate) fn without_line_ends(arguments: &[OsString]) {
    use std::os::unix::process::CommandExt;

    let trimmed: Vec<_> = taken(&crate::args::definition(&[]))
        .into_iter()
        .filter_map(|name| Some((trimmed(&std::env::var_os(&name)?)?, name)))
        .collect();
    // Another start could not tell that standard output was closed at the first.
    if trimmed.is_empty() || !vesica_kernels::process::standard_output_was_open() {
        return;
    }
    let Ok(mut again) = crate::process::program() else {
        return;
    };
    again.args(arguments.iter().skip(1));
    again.envs(trimmed.into_iter().map(|(value, name)| (name, value)));
    // It returns only if there is none; then values are as they are.
    let _ = again.exec();
}

#[cfg(not(unix))]
pub(crate) fn without_line_ends(_: &[OsString]) {}

/// The variables that a command and those below it take.
#[cfg(unix)]
fn taken(command: &clap::Command) -> std::collections::BTreeSet<OsString> {
    let own = command.get_arguments().filter_map(clap::Arg::get_env);
    let below = command.get_subcommands().flat_map(taken);
    own.map(std::ffi::OsStr::to_owned).chain(below).collect()
}

/// A value without the line ends after it; `None` if there are none.
#[cfg(unix)]
fn trimmed(value: &std::ffi::OsStr) -> Option<OsString> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = value.as_bytes();
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let length = bytes.len() - bytes.iter().rev().take_while(|byte| is_end(byte)).count();
    (length < bytes.len()).then(|| std::ffi::OsStr::from_bytes(&bytes[..length]).to_owned())
}
