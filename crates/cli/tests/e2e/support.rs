//! Running the binary, and what a run must leave behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vesica::{Fingerprint, Identity};

use crate::tap::Tap;

/// An address on which nobody listens. A port that was free a moment ago may be another test's now.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

/// Longest time that any process of these tests may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// A directory with two identities, `receiver.key` and `sender.key`.
pub(crate) struct Place {
    directory: TempDir,
    /// What programs keep for their user, of tests alone.
    state: TempDir,
    pub(crate) receiver: Fingerprint,
    pub(crate) sender: Fingerprint,
}

impl Place {
    pub(crate) fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let identity = |name: &str| {
            let identity = Identity::generate().unwrap();
            identity.save(&directory.path().join(name)).unwrap();
            identity.fingerprint()
        };
        let (receiver, sender) = (identity("receiver.key"), identity("sender.key"));
        Place {
            directory,
            state: tempfile::tempdir().unwrap(),
            receiver,
            sender,
        }
    }

    /// An empty directory on the same file system, for the same two.
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    pub(crate) fn beside(&self) -> Place {
        Place {
            directory: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
            receiver: self.receiver,
            sender: self.sender,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// What programs keep for their user.
    pub(crate) fn state(&self) -> &Path {
        self.state.path()
    }

    /// Every file, hidden ones too, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn command(&self, words: &[String]) -> Command {
        self.command_after(None, words)
    }

    /// The binary, started by a shell after a first command such as `ulimit -f 1`, if there is one.
    fn command_after(&self, first: Option<&str>, words: &[String]) -> Command {
        let binary = env!("CARGO_BIN_EXE_vesica");
        let mut command = match first {
            None => Command::new(binary),
            Some(first) => {
                let mut command = Command::new("sh");
                let script = format!("{first} && exec \"$0\" \"$@\"");
                command.args(["-c", &script, binary]);
                command
            }
        };
        command
            .args(words)
            .current_dir(self.directory.path())
            .env("XDG_STATE_HOME", self.state.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the binary with these words, as a shell would split them, to its end.
    pub(crate) fn run(&self, words: &str) -> Ended {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Running::start(self.command(&words)).wait()
    }

    /// The same from a shell that has run `first`.
    pub(crate) fn run_after(&self, first: &str, words: &str) -> Ended {
        self.start_after(first, words).wait()
    }

    /// Starts the binary with these words from a shell that has run `first`.
    pub(crate) fn start_after(&self, first: &str, words: &str) -> Running {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Running::start(self.command_after(Some(first), &words))
    }

    /// Starts the receiver at an endpoint such as `--listen 127.0.0.1:0`.
    pub(crate) fn receiver(&self, arguments: &Arguments, endpoint: &str) -> Running {
        self.party("receive", arguments, endpoint, "receiver.key", self.sender)
    }

    /// Starts the sender at an endpoint.
    pub(crate) fn sender(&self, arguments: &Arguments, endpoint: &str) -> Running {
        self.party("send", arguments, endpoint, "sender.key", self.receiver)
    }

    /// `offline make` for the role, whose half goes into `receiver.store` or `sender.store`.
    pub(crate) fn making_words(&self, role: &str, words: &str, endpoint: &str) -> String {
        let peer = match role {
            "receiver" => self.sender,
            _ => self.receiver,
        };
        format!(
            "offline make --for ole {words} --role {role} --identity {role}.key --peer {peer} \
             --offline-store {role}.store --progress plain {endpoint}"
        )
    }

    /// Starts that.
    pub(crate) fn make(&self, role: &str, words: &str, endpoint: &str) -> Running {
        let words = self.making_words(role, words, endpoint);
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Running::start(self.command(&words))
    }

    /// Has a dealer, with these words, deal a pair for these terms, `--offline` among them: how receiver, sender and dealer
    /// ended.
    pub(crate) fn deal(&self, terms: &str, words: &str) -> [Ended; 3] {
        let key = self.path("dealer.key");
        if !key.exists() {
            Identity::generate().unwrap().save(&key).unwrap();
        }
        let fingerprint = self.run("fingerprint --identity dealer.key");
        fingerprint.expect_success();
        let words = format!(
            "dealer --listen 127.0.0.1:0 --identity dealer.key --receiver {} --sender {} --progress plain {words}",
            self.receiver, self.sender
        );
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut dealer = Running::start(self.command(&words));
        let endpoint = dealer.endpoint();
        let terms = format!("--dealer {} {terms}", fingerprint.text());
        let parties = ["receiver", "sender"].map(|role| self.make(role, &terms, &endpoint));
        let [receiver, sender] = parties.map(Running::wait);
        [receiver, sender, dealer.wait()]
    }

    /// Has two generators in simulated TEEs make a pair for these terms: how receiver, sender, the receiver's generator and
    /// the sender's ended.
    pub(crate) fn generate(&self, terms: &str) -> [Ended; 4] {
        let roles = ["receiver", "sender"];
        let prints = roles.map(|role| {
            let key = self.path(&format!("{role}.generator"));
            if !key.exists() {
                Identity::generate().unwrap().save(&key).unwrap();
            }
            let print = self.run(&format!("fingerprint --identity {role}.generator"));
            print.expect_success();
            print.text().trim().to_owned()
        });
        let start = |side: usize, to: &str| {
            let (role, peer) = (roles[side], &prints[1 - side]);
            let party = [self.receiver, self.sender][side];
            let words = format!(
                "generator --listen 127.0.0.1:0 --identity {role}.generator --party {party} --peer {peer} \
                 --attestation simulated --progress plain {to}"
            );
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            Running::start(self.command(&words))
        };
        let mut first = start(0, "");
        let endpoints = first.endpoint();
        let mut second = start(1, &endpoints);
        let endpoints = [endpoints, second.endpoint()];
        let parties = [0, 1].map(|side| {
            let terms = format!("--generator {} {terms}", prints[side]);
            self.make(roles[side], &terms, &endpoints[side])
        });
        let [receiver, sender] = parties.map(Running::wait);
        [receiver, sender, first.wait(), second.wait()]
    }

    fn party(
        &self,
        command: &str,
        arguments: &Arguments,
        endpoint: &str,
        key: &str,
        peer: Fingerprint,
    ) -> Running {
        let mut words = vec![command.to_owned()];
        words.extend(arguments.words.iter().cloned());
        words.extend(endpoint.split(' ').map(str::to_owned));
        words.extend(["--identity".to_owned(), key.to_owned()]);
        if !words.iter().any(|w| w == "--peer") {
            words.extend(["--peer".to_owned(), peer.to_string()]);
        }
        let mut command = self.command_after(arguments.first.as_deref(), &words);
        if let Some(input) = &arguments.stdin {
            command.stdin(Stdio::piped());
            let mut running = Running::start(command);
            let mut stdin = running.process.stdin.take().unwrap();
            stdin.write_all(input.as_bytes()).unwrap();
            return running;
        }
        Running::start(command)
    }
}

/// The options of one side but for where and with whom.
#[derive(Clone)]
pub(crate) struct Arguments {
    words: Vec<String>,
    stdin: Option<String>,
    first: Option<String>,
}

impl Arguments {
    pub(crate) fn new(input: &str, key: &str) -> Arguments {
        let words = ["--input", input, "--key", key, "--progress", "plain"];
        Arguments {
            words: words.map(str::to_owned).to_vec(),
            stdin: None,
            first: None,
        }
    }

    pub(crate) fn output(self, name: &str) -> Arguments {
        self.with(&format!("--output {name}"))
    }

    /// More options, as a shell would split them.
    pub(crate) fn with(mut self, words: &str) -> Arguments {
        self.words
            .extend(words.split_whitespace().map(str::to_owned));
        self
    }

    /// One more option, whose value may have spaces.
    pub(crate) fn option(mut self, name: &str, value: &str) -> Arguments {
        self.words.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// The same without an option and its value.
    pub(crate) fn without(mut self, option: &str) -> Arguments {
        let at = self.words.iter().position(|word| word == option).unwrap();
        self.words.drain(at..at + 2);
        self
    }

    /// The same without an option that has no value.
    pub(crate) fn flag_off(mut self, option: &str) -> Arguments {
        self.words.retain(|word| word != option);
        self
    }

    /// Starts the binary from a shell that has run this command.
    pub(crate) fn after(mut self, first: &str) -> Arguments {
        self.first = Some(first.to_owned());
        self
    }

    pub(crate) fn stdin(mut self, input: &str) -> Arguments {
        self.stdin = Some(input.to_owned());
        self
    }
}

/// A process under way. Dropped, it is ended.
pub(crate) struct Running {
    pub(crate) process: Child,
    lines: Receiver<String>,
    seen: String,
    out: Option<JoinHandle<Vec<u8>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself is past being ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Running {
    pub(crate) fn start(command: Command) -> Running {
        Running::start_held(command, || {})
    }

    /// Takes nothing of its standard output until `hold` returns.
    pub(crate) fn start_held(
        mut command: Command,
        hold: impl FnOnce() + Send + 'static,
    ) -> Running {
        let mut process = command.spawn().unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        let mut out = process.stdout.take().unwrap();
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        let out = std::thread::spawn(move || {
            hold();
            let mut bytes = Vec::new();
            out.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Running {
            process,
            lines,
            seen: String::new(),
            out: Some(out),
        }
    }

    /// Waits for a line on standard error that begins so; gives the rest of it.
    pub(crate) fn wait_for(&mut self, start: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.seen.push_str(&line);
                    self.seen.push('\n');
                    if let Some(rest) = line.strip_prefix(start) {
                        return rest.to_owned();
                    }
                }
                Err(_) => panic!("no line {start:?} in:\n{}", self.seen),
            }
        }
    }

    /// Where it listens, as the option for the other side.
    pub(crate) fn endpoint(&mut self) -> String {
        format!("--connect {}", self.address())
    }

    /// Where it listens.
    pub(crate) fn address(&mut self) -> String {
        self.wait_for("listening on ")
    }

    /// Where it listens, or nothing if it ends before.
    pub(crate) fn endpoint_if_any(&mut self) -> Option<String> {
        let line = self.lines.iter().find_map(|line| {
            self.seen.push_str(&line);
            self.seen.push('\n');
            line.strip_prefix("listening on ").map(str::to_owned)
        });
        line.map(|address| format!("--connect {address}"))
    }

    /// Waits until it has said so many lines on standard error, or has ended.
    pub(crate) fn wait_for_lines(&mut self, count: usize) {
        let said = self.seen.lines().count();
        for line in self.lines.iter().take(count.saturating_sub(said)) {
            self.seen.push_str(&(line + "\n"));
        }
    }

    /// Waits, while it runs, until something is so that it shows elsewhere.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            let ended = self.has_ended();
            let seen = self.said();
            assert!(!ended, "ended too early:\n{seen}");
            assert!(Instant::now() < until, "nothing in a minute:\n{seen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it has said this so often.
    pub(crate) fn wait_until_said(&mut self, words: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.said().matches(words).count() < times {
            let seen = self.said();
            assert!(Instant::now() < until, "not {times} x {words:?}:\n{seen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// What it has said so far.
    pub(crate) fn said(&mut self) -> &str {
        for line in self.lines.try_iter() {
            self.seen.push_str(&(line + "\n"));
        }
        &self.seen
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(self.process.id().try_into().unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }

    /// Waits for its end, longer than others do since its table is a large one; also the most memory that it has had, in bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn wait_with_peak(self) -> (Ended, u64) {
        let path = format!("/proc/{}/status", self.process.id());
        let watching = std::thread::spawn(move || {
            let mut peak = 0;
            while let Some(now) = peak_in(&std::fs::read_to_string(&path).unwrap_or_default()) {
                peak = now;
                std::thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        let ended = self.wait_within(4 * PATIENCE);
        (ended, watching.join().unwrap())
    }

    pub(crate) fn wait(self) -> Ended {
        self.wait_within(PATIENCE)
    }

    fn wait_within(mut self, patience: Duration) -> Ended {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => self.seen.push_str(&(line + "\n")),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    panic!("still running after {patience:?}:\n{}", self.seen);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        let code = self.process.wait().unwrap().code();
        let out = self.out.take().expect("it is joined once");
        Ended {
            code,
            out: out.join().unwrap(),
            err: std::mem::take(&mut self.seen),
        }
    }
}

/// The most memory that a process has had, in bytes, by its `/proc/PID/status`; `None` if it has ended.
#[cfg(target_os = "linux")]
fn peak_in(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

/// A process that has ended; `code` is `None` if a signal ended it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    #[track_caller]
    pub(crate) fn expect_success(&self) {
        assert_eq!(self.code, Some(0), "{}", self.err);
        assert!(!self.err.contains("vesica: "), "{}", self.err);
    }

    /// What it says to do; empty if that is nothing.
    pub(crate) fn hint(&self) -> &str {
        let hint = self.err.lines().find_map(|l| l.strip_prefix("hint: "));
        hint.unwrap_or_default()
    }

    /// Expects this exit code, one line `vesica: …` with these words in it, at most one hint,
    /// and nothing on standard output.
    #[track_caller]
    pub(crate) fn expect_failure(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        assert!(self.out.is_empty(), "{:?}", self.text());
        let of = |start: &str| -> Vec<&str> {
            self.err.lines().filter(|l| l.starts_with(start)).collect()
        };
        let failures = of("vesica: ");
        assert_eq!(failures.len(), 1, "{}", self.err);
        assert!(
            failures[0].contains(words),
            "{words:?} not in {}",
            failures[0]
        );
        assert!(of("hint: ").len() <= 1, "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// Both sides of a run.
pub(crate) struct Pair {
    pub(crate) receiver: Ended,
    pub(crate) sender: Ended,
}

impl Pair {
    #[track_caller]
    pub(crate) fn expect_success(&self) {
        let codes = [&self.receiver, &self.sender].map(|side| side.code);
        let said = [&self.receiver, &self.sender].map(|side| &side.err);
        assert_eq!(codes, [Some(0); 2], "{}\n{}", said[0], said[1]);
        self.receiver.expect_success();
        self.sender.expect_success();
        assert!(self.sender.out.is_empty());
    }

    /// Expects that both sides fail, as [`Ended::expect_failure`] does.
    #[track_caller]
    pub(crate) fn expect_failures(&self, code: i32, words: &str) {
        self.receiver.expect_failure(code, words);
        self.sender.expect_failure(code, words);
    }
}

/// Runs both sides, the sender listening.
pub(crate) fn exchange(place: &Place, receiver: &Arguments, sender: &Arguments) -> Pair {
    let mut sender = place.sender(sender, "--listen 127.0.0.1:0");
    let receiver = place.receiver(receiver, &sender.endpoint());
    Pair {
        receiver: receiver.wait(),
        sender: sender.wait(),
    }
}

/// The same with a tap between them; also the bytes that it has carried to the sender, and back.
pub(crate) fn exchange_through(
    place: &Place,
    receiver: &Arguments,
    sender: &Arguments,
) -> (Pair, [u64; 2]) {
    let mut sender = place.sender(sender, "--listen 127.0.0.1:0");
    let tap = Tap::to(&sender.endpoint());
    let receiver = place.receiver(receiver, &tap.endpoint());
    let pair = Pair {
        receiver: receiver.wait(),
        sender: sender.wait(),
    };
    (pair, tap.carried())
}

/// CSV without anything that needs quotes.
pub(crate) fn csv_of<S: AsRef<str>>(header: &[&str], rows: &[Vec<S>]) -> String {
    let mut text = header.join(",") + "\n";
    for row in rows {
        let fields: Vec<&str> = row.iter().map(AsRef::as_ref).collect();
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}
