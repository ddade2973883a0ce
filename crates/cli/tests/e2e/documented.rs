//! The shell blocks of the documentation, run as they stand.
//!
//! The words after the three backticks say what a block is:
//!
//! - `sh`: commands. All of a page run in one shell, in order, in a checkout where `target/debug/vesica` is the binary.
//! - `sh make`: goals of the Makefile, which have to be there.
//! - `sh excerpt`: commands with parts left out, whose options have to be there.
//! - `text output`: lines that the `sh` blocks before it have printed, in this order; `…` stands for lines left out.
//! - `console`: two machines. Commands stand after the machine's name and `$ `, and below what they print.
//! - `console notebook`: one of the machines has Python's prompt, which is not run, so that what the other starts has no peer.
//! - names of other languages, or nothing: not run. Any other word fails, so that no block is forgotten.
//!
//! In transcripts `vs1:…` is the other machine's fingerprint, `0.0.0.0` and `*.example` are this machine, and what differs
//! between runs (fingerprints, bytes, seconds, addresses) is not compared.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ended, Place, Running};

const OTHER_LANGUAGES: [&str; 9] = [
    "", "text", "toml", "ini", "yaml", "json", "python", "rust", "nginx",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of a page.
struct Block {
    /// What it is.
    info: String,
    /// Page and line, for messages.
    at: String,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(repository().join(page)).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    // How far the open block is indented, if there is one.
    let mut open: Option<usize> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(indent);
                blocks.push(Block {
                    info: info.to_owned(),
                    at: format!("{page}:{}", number + 1),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(_)) => open = None,
            (Some(indent), None) => {
                let line = line.get(indent..).unwrap_or_default().to_owned();
                blocks.last_mut().unwrap().lines.push(line);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block does not end");
    blocks
}

/// A line without what differs between runs.
fn comparable(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let bare = word.trim_end_matches(',');
        match bare {
            _ if bare.starts_with("vs1:") => "vs1:",
            _ if bare
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok()) =>
            {
                "address"
            }
            _ => word,
        }
    });
    let words: Vec<&str> = words.collect();
    match words[..] {
        ["bytes", ..] => "bytes".to_owned(),
        ["seconds", _] => "seconds".to_owned(),
        _ => words.join(" "),
    }
}

/// Fails unless the documented lines are among those printed, in this order.
fn assert_printed(at: &str, documented: &[String], printed: &str) {
    let mut lines = printed.lines().map(comparable);
    for line in documented.iter().filter(|line| !line.contains('…')) {
        let wanted = comparable(line);
        assert!(
            wanted.is_empty() || lines.any(|line| line == wanted),
            "{at}: {line:?} is not printed there:\n{printed}"
        );
    }
}

/// A scratch checkout: the sample data where it is, and in this directory, and the binary where a build leaves it.
fn checkout() -> Place {
    let place = Place::new();
    let data = repository().join("crates/cli/data");
    let copy = place.path("crates/cli/data");
    let built = place.path("target/debug");
    for directory in [&copy, &built] {
        fs::create_dir_all(directory).unwrap();
    }
    for entry in fs::read_dir(data).unwrap() {
        let entry = entry.unwrap();
        for to in [
            copy.join(entry.file_name()),
            place.path(entry.file_name().to_str().unwrap()),
        ] {
            fs::copy(entry.path(), to).unwrap();
        }
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_vesica"), built.join("vesica")).unwrap();
    place
}

fn shell(place: &Place, script: &str) -> Command {
    let mut command = Command::new("bash");
    let path = std::env::var("PATH").unwrap();
    let built = place.path("target/debug");
    command
        .args(["-eu", "-c", script])
        .env("PATH", format!("{}:{path}", built.display()))
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the `sh` blocks of a page in one shell of a new checkout, and compares what they print.
fn run_in_one_shell(page: &str) {
    run_blocks(&checkout(), page, "");
}

/// The same in this checkout, after these words.
fn run_blocks(place: &Place, page: &str, first: &str) {
    // What runs in the background has to succeed as well.
    let mut script = format!(
        "exec 2>&1\n{first}\nbackground() {{ for job in $(jobs -p); do wait \"$job\"; done; }}\n",
    );
    let mut expected = Vec::new();
    for block in blocks(page) {
        match block.info.as_str() {
            "sh" => script.extend(block.lines.iter().map(|line| format!("{line}\n"))),
            "text output" => expected.push(block),
            _ => {}
        }
    }
    script.push_str("background\n");
    let ended = Running::start(shell(place, &script)).wait();
    assert_eq!(
        ended.code,
        Some(0),
        "{page}:\n{}{}",
        ended.text(),
        ended.err
    );
    for block in expected {
        assert_printed(&block.at, &block.lines, ended.text());
    }
}

/// A command of a transcript, and what it prints there.
struct Transcribed {
    machine: String,
    at: String,
    command: String,
    documented: Vec<String>,
    /// Whether its peer is run as well.
    has_peer: bool,
}

/// The commands of a transcript. Those at Python's prompt are not run, nor is what they print compared.
fn transcribed(block: Block) -> Vec<Transcribed> {
    let mut commands: Vec<Transcribed> = Vec::new();
    let has_peer = block.info == "console";
    let (mut goes_on, mut in_python) = (false, false);
    for line in block.lines {
        let prompt = line.split_once("$ ").filter(|(machine, _)| {
            !machine.is_empty() && machine.chars().all(|c| c.is_ascii_lowercase())
        });
        if goes_on {
            let command = &mut commands.last_mut().unwrap().command;
            command.push('\n');
            command.push_str(&line);
            goes_on = line.ends_with('\\');
        } else if let Some((machine, command)) = prompt {
            (goes_on, in_python) = (line.ends_with('\\'), false);
            commands.push(Transcribed {
                machine: machine.to_owned(),
                at: block.at.clone(),
                command: command.to_owned(),
                documented: Vec::new(),
                has_peer,
            });
        } else if line.starts_with(">>> ") {
            in_python = true;
        } else if let (false, Some(command)) = (in_python, commands.last_mut()) {
            command.documented.push(line);
        }
    }
    commands
}

/// The two machines of a page, and what runs on them. Files that a command names and lacks come from the other one.
struct Machines {
    place: Place,
    names: [String; 2],
    /// Variables that were set on each.
    variables: [String; 2],
    /// Free ports, for those that the page names.
    ports: BTreeMap<u16, u16>,
    /// What was started and may be waiting for the other machine.
    running: Vec<(usize, Transcribed, Running)>,
}

impl Machines {
    fn new(names: [String; 2]) -> Machines {
        let place = Place::new();
        let built = place.path("target/debug");
        fs::create_dir_all(&built).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_vesica"), built.join("vesica")).unwrap();
        for (name, key) in names.iter().zip(["receiver.key", "sender.key"]) {
            fs::create_dir(place.path(name)).unwrap();
            for entry in fs::read_dir(repository().join("crates/cli/data")).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), place.path(name).join(entry.file_name())).unwrap();
            }
            fs::rename(
                place.path(key),
                place.path(name).join(format!("{name}.key")),
            )
            .unwrap();
        }
        Machines {
            place,
            names,
            variables: Default::default(),
            ports: BTreeMap::new(),
            running: Vec::new(),
        }
    }

    fn directory(&self, machine: usize) -> PathBuf {
        self.place.path(&self.names[machine])
    }

    fn free_port(&mut self, named: u16) -> u16 {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port()
        };
        *self.ports.entry(named).or_insert_with(free)
    }

    /// A word with this machine's addresses and the peer's fingerprint.
    fn here(&mut self, machine: usize, word: &str) -> String {
        let peer = [self.place.sender, self.place.receiver][machine].to_string();
        if let Some(start) = word.find("vs1:") {
            let rest = &word[start + 4..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '…');
            return format!(
                "{}{peer}{}",
                &word[..start],
                &rest[end.unwrap_or(rest.len())..]
            );
        }
        let address = word.split_once(':').and_then(|(host, port)| {
            let digits = port.trim_end_matches(|c: char| !c.is_ascii_digit());
            let is_host = host == "0.0.0.0" || host.ends_with(".example");
            let number = digits.parse().ok().filter(|_| is_host)?;
            Some((number, &port[digits.len()..]))
        });
        match address {
            Some((port, rest)) => format!("127.0.0.1:{}{rest}", self.free_port(port)),
            None => word.to_owned(),
        }
    }

    /// Waits for what a machine has started and is no server.
    fn settle(&mut self, machine: Option<usize>) {
        let all = std::mem::take(&mut self.running);
        for (on, of, mut process) in all {
            let serves = ["vesica serve", "vesica gateway"]
                .iter()
                .any(|c| of.command.starts_with(c));
            let waits = serves || !of.has_peer;
            if (serves && machine.is_some()) || machine.is_some_and(|machine| machine != on) {
                self.running.push((on, of, process));
            } else if waits {
                // What it prints last may take a while.
                let mut fixed = of.documented.iter().rev().filter(|line| {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    !line.contains('…') && !words.is_empty() && comparable(line) == words.join(" ")
                });
                if let Some(last) = fixed.next()
                    && !process.said().lines().any(|line| line.starts_with(&**last))
                {
                    process.wait_for(last);
                }
                assert!(!process.has_ended(), "{}: {}", of.at, process.said());
                assert_printed(&of.at, &of.documented, process.said());
                process.signal(nix::sys::signal::Signal::SIGTERM);
                process.wait();
            } else {
                check(&of, &process.wait());
            }
        }
    }

    fn run(&mut self, transcribed: Transcribed) {
        let machine = self
            .names
            .iter()
            .position(|name| *name == transcribed.machine);
        let machine = machine.unwrap_or_else(|| panic!("{}: a third machine", transcribed.at));
        self.settle(Some(machine));
        let words = transcribed
            .command
            .split(' ')
            .map(|word| self.here(machine, word));
        let command = words.collect::<Vec<_>>().join(" ");
        if !command.starts_with("vesica ") && command.split(' ').next().unwrap().contains('=') {
            self.variables[machine].push_str(&format!("{command}\n"));
            return;
        }
        for word in command.split_whitespace() {
            let (ours, theirs) = (
                self.directory(machine).join(word),
                self.directory(1 - machine).join(word),
            );
            if !ours.exists() && theirs.is_file() {
                fs::copy(theirs, ours).unwrap();
            }
        }
        let script = format!("exec 1>&2\n{}{command}\n", self.variables[machine]);
        let mut shell = shell(&self.place, &script);
        shell.current_dir(self.directory(machine));
        let mut process = Running::start(shell);
        if ["--listen", "--connect", "--gateway"]
            .iter()
            .any(|option| command.contains(option))
        {
            if command.contains("--listen") {
                process.wait_for("listening on ");
            }
            self.running.push((machine, transcribed, process));
        } else {
            check(&transcribed, &process.wait());
        }
    }
}

fn check(of: &Transcribed, ended: &Ended) {
    assert_eq!(
        ended.code,
        Some(0),
        "{}: {}\n{}",
        of.at,
        of.command,
        ended.err
    );
    assert_printed(&of.at, &of.documented, &ended.err);
}

/// Runs the transcripts of a page.
fn run_on_two_machines(page: &str) {
    let transcripts = blocks(page)
        .into_iter()
        .filter(|block| block.info.starts_with("console"));
    let commands: Vec<Transcribed> = transcripts.flat_map(transcribed).collect();
    let mut names: Vec<String> = commands.iter().map(|of| of.machine.clone()).collect();
    names.sort();
    names.dedup();
    let mut machines = Machines::new(names.try_into().unwrap());
    for command in commands {
        machines.run(command);
    }
    machines.settle(None);
}

/// The pages on which the blocks have to be of a known kind, from the repository.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    for entry in fs::read_dir(repository().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    pages
}

/// Also where it was pasted before, as by hand: what fails ends nothing.
#[test]
fn readme() {
    let place = checkout();
    for first in ["", "set +e"] {
        run_blocks(&place, "README.md", first);
    }
    assert_eq!(place.read("shared.csv").lines().count(), 44);
}

#[test]
fn getting_started() {
    run_in_one_shell("docs/getting-started.md");
    run_on_two_machines("docs/getting-started.md");
}

#[test]
fn courier() {
    run_on_two_machines("docs/courier.md");
}

#[test]
fn scale_out() {
    run_on_two_machines("docs/scale-out.md");
}

#[test]
fn look_up() {
    run_on_two_machines("docs/look-up.md");
}

/// Every block is of a kind that is run or of a language that is not; goals and options are there.
#[test]
fn every_block_is_of_a_known_kind() {
    let run = [
        "readme",
        "getting_started",
        "courier",
        "look_up",
        "scale_out",
    ];
    let place = Place::new();
    for page in pages() {
        let name = page.rsplit('/').next().unwrap().trim_end_matches(".md");
        let is_run = run.contains(&name.to_lowercase().replace('-', "_").as_str());
        for block in blocks(&page) {
            match block.info.as_str() {
                "sh" | "console" | "console notebook" | "text output" => {
                    assert!(is_run, "{}: no test runs this page", block.at)
                }
                "sh make" => check_goals(&block),
                "sh excerpt" => check_options(&place, &block),
                other => assert!(OTHER_LANGUAGES.contains(&other), "{}: {other:?}", block.at),
            }
        }
    }
}

fn check_goals(block: &Block) {
    let makefile = fs::read_to_string(repository().join("Makefile")).unwrap();
    for line in &block.lines {
        let goal = line
            .strip_prefix("make ")
            .and_then(|rest| rest.split_whitespace().next());
        let goal = goal.unwrap_or_else(|| panic!("{}: {line:?} is no goal", block.at));
        let is_there = makefile
            .lines()
            .any(|line| line.starts_with(&format!("{goal}:")));
        assert!(is_there, "{}: no goal {goal}", block.at);
    }
}

fn check_options(place: &Place, block: &Block) {
    let text = block.lines.join("\n").replace("\\\n", " ");
    let commands = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("vesica "));
    for command in commands {
        let mut words = command.split_whitespace();
        let help = place.run(&format!("{} --help", words.next().unwrap()));
        help.expect_success();
        for option in words.filter(|word| word.starts_with("--")) {
            let is_there = help.text().split_whitespace().any(|word| word == option);
            assert!(is_there, "{}: no option {option} of {command}", block.at);
        }
    }
}
