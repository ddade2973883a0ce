//! Other processes of this program, which `demo` and `bench` start.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use vesica::Interrupt;

use crate::failure::{Failure, INTERRUPTED, NETWORK, RESOURCE};

/// Time between two looks at whether a process has ended.
const POLL: Duration = Duration::from_millis(5);

/// What starts this program, if that is not the process's file.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says what starts this program, as far as its arguments.
pub(crate) fn set_program(words: Vec<OsString>) {
    // A second command in one process starts the same program.
    let _ = PROGRAM.set(words);
}

/// What starts this program, but for its arguments.
pub(crate) fn program() -> io::Result<Command> {
    let words = PROGRAM.get().map(Vec::as_slice);
    let Some((file, rest)) = words.and_then(<[_]>::split_first) else {
        return own_file().map(Command::new);
    };
    let mut command = Command::new(file);
    command.args(rest);
    Ok(command)
}

/// The file of this process: as it was started, where there is no `/proc`.
fn own_file() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|unknown| {
        let named = std::env::args_os().next().map(PathBuf::from);
        let path = named.filter(|path| path.components().count() > 1);
        std::path::absolute(path.ok_or(unknown)?)
    })
}

/// A running process. Dropping it ends the process, and so does the end of this one if the process reads its standard
/// input.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    /// Open as long as this process lives.
    _input: Option<ChildStdin>,
    /// Lines of its standard error.
    errors: Receiver<String>,
    /// Those that have been read.
    said: String,
    printed: Option<JoinHandle<String>>,
}

/// A process that has ended.
pub(crate) struct Finished {
    name: &'static str,
    status: ExitStatus,
    /// Its standard error.
    pub(crate) said: String,
    /// Its standard output.
    pub(crate) printed: String,
}

impl Process {
    /// Starts this program with other arguments in a directory. Options from the environment are not its own.
    pub(crate) fn start(
        name: &'static str,
        directory: &Path,
        arguments: &[String],
        environment: &[(&str, String)],
    ) -> Result<Process, Failure> {
        let started = program().and_then(|mut command| {
            for (name, _) in std::env::vars_os() {
                if name.as_encoded_bytes().starts_with(b"VESICA_") {
                    command.env_remove(name);
                }
            }
            command
                .args(arguments)
                .envs(environment.iter().map(|(name, value)| (name, value)))
                .current_dir(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        });
        let mut child = started
            .map_err(|e| Failure::new(RESOURCE, format!("the {name} cannot be started: {e}")))?;
        let (to, errors) = channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(stderr).lines();
                // What is not text is not ours; the exit code still tells.
                lines
                    .map_while(Result::ok)
                    .try_for_each(|line| to.send(line))
            });
        }
        let printed = child.stdout.take().map(|mut out| {
            std::thread::spawn(move || {
                let mut printed = String::new();
                // As above.
                let _ = out.read_to_string(&mut printed);
                printed
            })
        });
        Ok(Process {
            name,
            _input: child.stdin.take(),
            child,
            errors,
            said: String::new(),
            printed,
        })
    }

    /// Waits until it listens; returns the address, which `find` takes from the line that says so. `None` once it has
    /// ended without.
    pub(crate) fn address(&mut self, find: impl Fn(&str) -> Option<String>) -> Option<String> {
        loop {
            let line = self.errors.recv().ok()?;
            self.keep(&line);
            if let Some(address) = find(&line) {
                return Some(address);
            }
        }
    }

    /// A problem with it, and what it has said.
    pub(crate) fn problem(&self, problem: &str) -> String {
        format!("the {} {problem}: {}", self.name, self.said)
    }

    /// Waits for its end, or until the flag is raised, which ends it.
    pub(crate) fn finish(mut self, interrupt: &Interrupt) -> Result<Finished, Failure> {
        while !self.has_ended()? {
            pause(interrupt)?;
        }
        self.end()
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        let status = self.child.try_wait();
        let lost = |e| Failure::new(RESOURCE, format!("the {} is lost: {e}", self.name));
        Ok(status.map_err(lost)?.is_some())
    }

    fn end(mut self) -> Result<Finished, Failure> {
        let lost = |e| Failure::new(RESOURCE, format!("the {} is lost: {e}", self.name));
        let status = self.child.wait().map_err(lost)?;
        let printed = self.printed.take().and_then(|thread| thread.join().ok());
        while let Ok(line) = self.errors.recv() {
            self.keep(&line);
        }
        Ok(Finished {
            name: self.name,
            status,
            said: std::mem::take(&mut self.said),
            printed: printed.unwrap_or_default(),
        })
    }

    fn keep(&mut self, line: &str) {
        self.said.push_str(line);
        self.said.push('\n');
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended by itself is past being ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the ends of processes that work together. Once one has failed, the others have little time to hear of it
/// from that one; then they are ended.
pub(crate) fn finish_all(
    mut running: Vec<Process>,
    interrupt: &Interrupt,
) -> Result<Vec<Finished>, Failure> {
    const LAST_WORDS: u32 = 400;
    let mut left = LAST_WORDS;
    loop {
        let (mut all_ended, mut one_failed) = (true, false);
        for process in &mut running {
            match process.has_ended()? {
                true => one_failed |= !process.child.wait().is_ok_and(|status| status.success()),
                false => all_ended = false,
            }
        }
        if all_ended {
            break;
        }
        if one_failed {
            left -= 1;
            if left == 0 {
                // Those that have ended by themselves are past being ended.
                let rest = running.iter_mut();
                rest.for_each(|process| drop(process.child.kill()));
                break;
            }
        }
        pause(interrupt)?;
    }
    running.into_iter().map(Process::end).collect()
}

fn pause(interrupt: &Interrupt) -> Result<(), Failure> {
    let interrupted = |_| Failure::new(INTERRUPTED, "interrupted");
    interrupt.pause(POLL).map_err(interrupted)
}

impl Finished {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// The code that it ended with; that of the network if a signal ended it.
    pub(crate) fn code(&self) -> u8 {
        let code = self.status.code().and_then(|code| u8::try_from(code).ok());
        code.unwrap_or(NETWORK)
    }

    /// Fails with its words if it failed, where these are for people.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.succeeded() {
            return Ok(());
        }
        let said = self.said.lines().find_map(|l| l.strip_prefix("vesica: "));
        let said = said.unwrap_or(&self.said);
        let line = format!("the {} failed: {said}", self.name);
        Err(Failure::new(self.code(), line))
    }
}

/// A temporary directory for this user alone, with names that begin so.
pub(crate) fn private_directory(prefix: &str) -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o700));
    }
    builder
        .tempdir()
        .map_err(|e| Failure::new(RESOURCE, format!("no temporary directory to be had: {e}")))
}
