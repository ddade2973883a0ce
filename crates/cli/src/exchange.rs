//! `vesica receive` and `vesica send`

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use vesica::{
    ConnectOptions, Handover, OnRefused, Party, Passes, Report, Reveal, Role, Rows, SourceOptions,
    WholeFile, prepare_work_dir, receive_shares, receive_table, receive_value, send_shares,
    send_table, send_table_to,
};

use vesica_kernels::process::standard_output_was_open;

use crate::args::{Meeting, Receive, Send, Table};
use crate::failure::{Failure, RESOURCE, USAGE};
use crate::identity::load;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::summary::summary;

pub(crate) fn receive(options: &Receive) -> Result<(), Failure> {
    let output = match (&options.output, options.link.terms()?.reveal.is_value()) {
        (Some(_), true) => {
            return Err(Failure::usage(
                "a value goes to standard output, not to --output",
            ));
        }
        (None, true) => None,
        (output, false) => Some(output.as_deref().unwrap_or(Path::new("-"))),
    };
    let handover = options.link.handover(Role::Receiver, options.take_values)?;
    if options.take_values && options.rows == Some(Rows::Rest) {
        return Err(Failure::usage("--take-values is for rows that match"));
    }
    run(
        Role::Receiver,
        &options.table,
        &options.link,
        output,
        options.rows,
        handover,
    )
}

pub(crate) fn send(options: &Send) -> Result<(), Failure> {
    let writes = options.link.both || options.link.terms()?.reveal == Reveal::Shares;
    let output = match &options.output {
        Some(_) if !writes => {
            return Err(Failure::usage(
                "a sender has an --output only with --both or --reveal shares",
            ));
        }
        None if writes => Some(Path::new("-")),
        output => output.as_deref(),
    };
    run(
        Role::Sender,
        &options.table,
        &options.link,
        output,
        options.rows,
        options.link.handover(Role::Sender, false)?,
    )
}

fn run(
    role: Role,
    table: &Table,
    link: &Meeting,
    output: Option<&Path>,
    rows: Option<Rows>,
    handover: Handover,
) -> Result<(), Failure> {
    if let Some(output) = output {
        if same_file(&link.identity, output) {
            return Err(Failure::usage(
                "the identity and the output are the same file",
            ));
        }
        if let Some(report) = &link.report
            && same_file(report, output)
        {
            return Err(Failure::usage(
                "the report and the output are the same file",
            ));
        }
    }
    if let Some(report) = &link.report
        && same_file(report, &link.identity)
    {
        return Err(Failure::usage(
            "the report and the identity are the same file",
        ));
    }
    let key = table.key()?;
    let signals = Signals::install()?;
    let identity = load(&link.identity)?;
    if identity.fingerprint() == link.peer {
        return Err(
            Failure::usage("--peer is the fingerprint of this side's own identity")
                .hint("`vesica fingerprint --identity FILE` prints it on the other side"),
        );
    }
    let endpoint = link.endpoint()?;
    let (terms, value) = (link.terms()?, link.value(&handover)?);
    terms.check(value.as_ref())?;
    let interrupt = signals.interrupt().clone();
    let mut progress = Progress::new(link.progress, signals, "reading the table");
    let party = Party {
        identity: &identity,
        peer: link.peer,
        endpoint,
        connect: ConnectOptions {
            wait: link.wait,
            timeout: link.timeout,
            on_refused: OnRefused::new(progress.refusals()),
            interrupt,
            ..ConnectOptions::default()
        },
        terms,
        resources: link.resources(),
        value,
        handover,
        allow_empty: link.allow_empty,
    };
    let has_shares = party.terms.reveal == Reveal::Shares;
    if rows.is_some() && (output.is_none() || has_shares) {
        return Err(Failure::usage("--rows is for results of rows"));
    }
    let passes = match output {
        Some(_) if !has_shares => Passes::Two,
        _ if matches!(party.handover, Handover::Offered(_)) => Passes::Two,
        _ => Passes::One,
    };
    if let Some(report) = &link.report
        && table.input.iter().any(|input| same_file(report, input))
    {
        return Err(Failure::usage("the report and the input are the same file"));
    }
    for path in [link.report.as_deref(), output].into_iter().flatten() {
        if table.input.iter().any(|input| is_in(path, input)) {
            let name = path.display();
            return Err(Failure::usage(format!(
                "{name} would be one of the files in the input's directory"
            )));
        }
    }
    let report_file = match link.report.as_deref() {
        Some(path) if path == Path::new("-") => {
            if !standard_output_was_open() || output == Some(path) {
                let problem = "standard output is closed, or has the result already";
                return Err(Failure::usage(format!("--report -: {problem}")));
            }
            None
        }
        Some(path) => {
            let file = WholeFile::create(path).map_err(|e| unwritable(path, &e))?;
            // The report of an earlier run is none of this one, which may fail.
            if path.is_file() {
                std::fs::remove_file(path).map_err(|e| unwritable(path, &e))?;
            }
            Some((path, file))
        }
        None => None,
    };
    let scratch = party.resources.work_dir.clone();
    if let Some(work_dir) = &scratch {
        prepare_work_dir(work_dir)?;
    }
    let source = table
        .open(SourceOptions {
            passes,
            rows: rows.unwrap_or_default(),
            scratch: scratch.clone(),
            allow_no_rows: link.allow_empty,
            ..SourceOptions::default()
        })
        .inspect_err(|_| {
            if let Some(work_dir) = &scratch {
                // Only if nothing is in it.
                let _ = std::fs::remove_dir(work_dir);
            }
        })?;
    let report = match (role, output) {
        (Role::Receiver, Some(output)) if has_shares => {
            receive_shares(&party, &source, &key, output, &mut progress)?
        }
        (Role::Sender, Some(output)) if has_shares => {
            send_shares(&party, &source, &key, output, &mut progress)?
        }
        (Role::Receiver, Some(output)) => {
            receive_table(&party, &source, &key, output, &mut progress)?
        }
        (Role::Receiver, None) => receive_value(&party, &source, &key, &mut progress)?,
        (Role::Sender, Some(output)) => {
            send_table_to(&party, &source, &key, output, &mut progress)?
        }
        (Role::Sender, None) => send_table(&party, &source, &key, &mut progress)?,
    };
    progress.finish();
    let json = || {
        let mut json = serde_json::to_vec_pretty(&report)
            .map_err(|e| Failure::new(RESOURCE, format!("the report is not JSON: {e}")))?;
        json.push(b'\n');
        Ok::<_, Failure>(json)
    };
    if let Some((path, mut file)) = report_file {
        file.write_all(&json()?)
            .and_then(|()| file.commit())
            .map_err(|e| Failure::new(RESOURCE, unwritable(path, &e).line))?;
    }
    let mut said = summary(&report);
    if report.matches == Some(0) && report.items > 0 && report.peer_items > 0 {
        said.push_str(NO_MATCHES);
    }
    let _ = std::io::stderr().write_all(said.as_bytes());
    let rows_on_stdout = output == Some(Path::new("-"));
    let line = value_line(&report).filter(|_| !rows_on_stdout);
    let text = match line {
        _ if link.report.as_deref() == Some(Path::new("-")) => json()?,
        Some(line) => format!("{line}\n").into_bytes(),
        None => return Ok(()),
    };
    std::io::stdout().write_all(&text).map_err(|e| {
        let line = format!("standard output cannot be written: {}", e.kind());
        Failure::new(RESOURCE, line)
    })
}

/// Both sides have keys, and none is the same: mostly they are written differently.
const NO_MATCHES: &str = "hint: no key matches; compare what `vesica check` says on both sides (types, white space, \
                          leading zeros), and see --normalize\n";

/// The value that this side has learnt, or that there is none because too few keys match.
fn value_line(report: &Report) -> Option<String> {
    let below = |least: u64| format!("fewer than {least}");
    let value = report.value.map(|value| value.to_string());
    value.or_else(|| report.below.map(below))
}

/// A report that cannot be written: a full disk is a limit, anything else a bad request.
fn unwritable(path: &Path, e: &std::io::Error) -> Failure {
    let code = match e.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => RESOURCE,
        _ => USAGE,
    };
    let line = format!("{}: cannot be written: {}", path.display(), e.kind());
    Failure::new(code, line)
}

/// Whether two paths name one file, whether or not it exists yet. Devices and pipes are never
/// replaced, so that two uses of one are fine.
fn same_file(a: &Path, b: &Path) -> bool {
    match (place(a), place(b)) {
        (Some(a), Some(b)) => a == b && (a.is_file() || !a.exists()),
        _ => a == b,
    }
}

/// Whether a path is of something that is, or would be, in a directory itself.
fn is_in(path: &Path, directory: &Path) -> bool {
    if path == Path::new("-") {
        return false;
    }
    let parent = place(path).and_then(|place| place.parent().map(Path::to_owned));
    directory.is_dir() && parent.is_some() && parent == directory.canonicalize().ok()
}

/// The path without links and detours. What does not exist has at least a directory that does.
fn place(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Some(parent.canonicalize().ok()?.join(path.file_name()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_two_names() {
        assert!(same_file("new.csv".as_ref(), "./new.csv".as_ref()));
        assert!(same_file("Cargo.toml".as_ref(), "./Cargo.toml".as_ref()));
        assert!(same_file(
            "src/new.csv".as_ref(),
            "src/../src/new.csv".as_ref()
        ));
        assert!(same_file("nowhere/x".as_ref(), "nowhere/x".as_ref()));
        assert!(!same_file("new.csv".as_ref(), "src/new.csv".as_ref()));
        assert!(!same_file("Cargo.toml".as_ref(), "new.csv".as_ref()));
    }
}
