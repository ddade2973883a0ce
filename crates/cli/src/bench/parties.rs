//! The parties of a benchmark, and who deals: the commands `receive`, `send`, `offline make`, `dealer` and `generator` as
//! processes.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use vesica::offline::{Platform, Simulated};
use vesica::{Fingerprint, Identity, Interrupt, Reveal, Role, Terms};
use vesica_psi::{Origin, Values};
use vesica_session::Reveals;
use vesica_session::terms::{LAMBDA, MIN_SIZE, REVEAL};
use vesica_wire::PhaseTraffic;

use super::inputs::{Inputs, KEY, PAYLOAD, VALUE_BOUND, value_names};
use crate::args::{Bench, Carrier};
use crate::failure::{Failure, NETWORK, RESOURCE};
use crate::process::{Finished, Process, finish_all, private_directory};

/// Seconds for which the parties wait for each other: however long they compute.
const PATIENCE: &str = "86400";

/// What is the same in all runs.
pub(super) struct Job<'a> {
    pub(super) options: &'a Bench,
    pub(super) inputs: Inputs,
    /// `auto`, or the protocol's full name.
    pub(super) protocol: &'a str,
    /// What both sides agree on.
    pub(super) terms: Terms,
    pub(super) carrier: Carrier,
    /// Who makes the correlations.
    pub(super) origin: Origin,
}

impl Job<'_> {
    fn reveal(&self) -> Reveals {
        self.terms.get(&REVEAL)
    }

    fn values(&self) -> Values {
        self.reveal().fewest_values(self.options.value_columns)
    }

    fn columns(&self, role: Role) -> usize {
        let Values { receiver, sender } = self.values();
        usize::from(match role {
            Role::Receiver => receiver,
            Role::Sender => sender,
        })
    }

    fn has_output(&self, role: Role) -> bool {
        let reveal = self.reveal();
        reveal == Reveal::Shares
            || reveal.is_ids()
            || (reveal.is_matches() || reveal.is_rows()) && role == Role::Receiver
    }

    /// Whether generators show what they run; here by a simulation, which costs what hashing a transcript costs.
    fn is_attested(&self) -> bool {
        self.origin == Origin::Generators
    }
}

/// A job with what its processes need: a directory with identities and tables, which is removed when this is dropped.
pub(super) struct Parties<'a> {
    job: &'a Job<'a>,
    directory: TempDir,
    interrupt: &'a Interrupt,
    receiver: Fingerprint,
    sender: Fingerprint,
    /// The dealer, or the receiver's generator.
    dealer: Fingerprint,
    /// The sender's generator.
    generator: Fingerprint,
}

/// One run.
pub(super) struct Ran {
    pub(super) receiver: Report,
    pub(super) sender: Report,
    /// What each party took from a dealer or its generator, the receiver first.
    pub(super) stored: Option<[Said; 2]>,
    /// What the dealer says of its work, or the generators do, the receiver's first.
    pub(super) dealt: Vec<Said>,
}

/// What a benchmark reads in a report.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) protocol: String,
    pub(super) security: String,
    pub(super) reveal: String,
    /// What the receiver learns of the number of matches, or of another number.
    matches: Option<u64>,
    value: Option<Value>,
    values: Option<BTreeMap<String, Value>>,
    below: Option<u64>,
    pub(super) contract: Agreed,
    #[serde(flatten)]
    pub(super) measured: Said,
}

/// What a benchmark reads of what was agreed.
#[derive(Debug, Deserialize)]
pub(super) struct Agreed {
    pub(super) optimize: String,
}

/// What a process says of its work.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    #[serde(default)]
    pub(super) phases: Vec<PhaseTraffic>,
    /// `None` where the system does not tell.
    pub(super) peak_memory_bytes: Option<u64>,
}

impl<'a> Parties<'a> {
    /// Makes identities and tables.
    pub(super) fn new(job: &'a Job<'a>, interrupt: &'a Interrupt) -> Result<Parties<'a>, Failure> {
        let directory = private_directory("vesica-bench-")?;
        let identity = |name: &str| {
            let identity = Identity::generate()?;
            identity.save(&directory.path().join(format!("{name}.key")))?;
            Ok::<_, Failure>(identity.fingerprint())
        };
        let [receiver, sender, dealer, generator] = [
            identity("receiver")?,
            identity("sender")?,
            identity("dealer")?,
            identity("generator")?,
        ];
        std::thread::scope(|scope| {
            let roles = [Role::Receiver, Role::Sender];
            let writing = roles.map(|role| {
                let path = directory.path().join(table(role));
                let (inputs, columns) = (job.inputs, job.columns(role));
                scope.spawn(move || inputs.write(role, columns, &path))
            });
            writing.into_iter().try_for_each(|thread| {
                let panicked = |_| Err(io::Error::other("the thread panicked"));
                thread.join().unwrap_or_else(panicked)
            })
        })
        .map_err(|e| Failure::new(RESOURCE, format!("the tables cannot be written: {e}")))?;
        Ok(Parties {
            job,
            directory,
            interrupt,
            receiver,
            sender,
            dealer,
            generator,
        })
    }

    /// One run over loopback, the sender listening, and its result checked.
    pub(super) fn run(&self) -> Result<Ran, Failure> {
        let (stored, dealt) = match self.job.origin.is_dealt() {
            true => self.deal().map(|(stored, dealt)| (Some(stored), dealt))?,
            false => (None, Vec::new()),
        };
        let mut sender = self.start(name(Role::Sender), &self.side(Role::Sender, None))?;
        let Some(address) = sender.address(address_in) else {
            return Err(failure(&sender.finish(self.interrupt)?));
        };
        let receiver = self.start(
            name(Role::Receiver),
            &self.side(Role::Receiver, Some(&address)),
        )?;
        all_succeeded(finish_all(vec![receiver, sender], self.interrupt)?)?;
        let ran = Ran {
            receiver: self.report(Role::Receiver)?,
            sender: self.report(Role::Sender)?,
            stored,
            dealt,
        };
        let unreadable = |e| Failure::new(RESOURCE, format!("the result cannot be read: {e}"));
        match self.is_right(&ran).map_err(unreadable)? {
            true => Ok(ran),
            false => Err(Failure::new(RESOURCE, "the result is wrong")),
        }
    }

    /// Has a half given to each party; returns what these say, and what whoever deals says.
    fn deal(&self) -> Result<([Said; 2], Vec<Said>), Failure> {
        let dealing = self.start_dealing()?;
        // One dealer, or a generator each.
        let [first, last] = [0, dealing.len() - 1];
        let receiver = self.start_making(Role::Receiver, &dealing[first].1)?;
        let sender = self.start_making(Role::Sender, &dealing[last].1)?;
        let mut processes = vec![receiver, sender];
        processes.extend(dealing.into_iter().map(|(process, _)| process));
        let ended = all_succeeded(finish_all(processes, self.interrupt)?)?;
        let stored = [event(&ended[0], "stored")?, event(&ended[1], "stored")?];
        let name = match self.job.origin {
            Origin::Generators => "generated",
            _ => "dealt",
        };
        let dealt: Result<Vec<Said>, Failure> =
            ended[2..].iter().map(|ended| event(ended, name)).collect();
        Ok((stored, dealt?))
    }

    /// Starts the dealer, or both generators, the receiver's first; each with the address where it listens.
    fn start_dealing(&self) -> Result<Vec<(Process, String)>, Failure> {
        let start = |name: &'static str, arguments: &[String]| {
            let mut all = arguments.to_vec();
            all.extend(words(&["--listen", "127.0.0.1:0", "--progress", "none"]));
            all.extend(words(&["--wait", PATIENCE, "--timeout", PATIENCE]));
            all.extend(words(&["--deadline", PATIENCE]));
            let mut process = self.start(name, &all)?;
            match process.address(address_in) {
                Some(address) => Ok((process, address)),
                None => Err(failure(&process.finish(self.interrupt)?)),
            }
        };
        if self.job.origin != Origin::Generators {
            let mut arguments = words(&["dealer", "--identity", "dealer.key"]);
            for (role, party) in [("--receiver", self.receiver), ("--sender", self.sender)] {
                arguments.extend([role.to_owned(), party.to_string()]);
            }
            return Ok(vec![start("dealer", &arguments)?]);
        }
        let arguments = |name: &str, party: Fingerprint, peer: Fingerprint| {
            let mut arguments = words(&["generator", "--attestation", "simulated"]);
            arguments.extend(["--identity".to_owned(), format!("{name}.key")]);
            arguments.extend(["--party".to_owned(), party.to_string()]);
            arguments.extend(["--peer".to_owned(), peer.to_string()]);
            arguments
        };
        let ours = arguments("dealer", self.receiver, self.generator);
        let first = start("dealer", &ours)?;
        let mut theirs = arguments("generator", self.sender, self.dealer);
        theirs.extend(words(&["--connect", &first.1]));
        Ok(vec![first, start("generator", &theirs)?])
    }

    /// Starts the command that stores a party's half.
    fn start_making(&self, role: Role, address: &str) -> Result<Process, Failure> {
        let (peer, generator) = match role {
            Role::Receiver => (self.sender, self.dealer),
            Role::Sender => (self.receiver, self.generator),
        };
        let mut arguments = words(&["offline", "make", "--for", self.job.protocol]);
        arguments.extend(words(&["--progress", "none", "--connect", address]));
        arguments.extend(words(&["--wait", PATIENCE, "--timeout", PATIENCE]));
        let lambda = self.job.terms.get(&LAMBDA).to_string();
        let inputs = &self.job.inputs;
        let [mine, theirs] = [inputs.receiver_size, inputs.sender_size].map(|n| n.to_string());
        arguments.extend(words(&["--receiver-size", &mine, "--sender-size", &theirs]));
        arguments.extend(words(&["--role", name(role), "--lambda", &lambda]));
        arguments.extend(self.identity(role, peer));
        if let Some(bits) = inputs.key_bits {
            arguments.extend(["--items".to_owned(), bits.to_string()]);
        }
        match self.job.is_attested() {
            true => {
                let measurement = Simulated::MEASUREMENT.to_string();
                arguments.extend(words(&["--attestation", "simulated"]));
                arguments.extend(["--measurement".to_owned(), measurement]);
                arguments.extend(["--generator".to_owned(), generator.to_string()]);
            }
            false => arguments.extend(["--dealer".to_owned(), self.dealer.to_string()]),
        }
        arguments.extend(["--offline-store".to_owned(), store(role)]);
        self.start(name(role), &arguments)
    }

    /// The arguments of a side, which connects if there is an address.
    fn side(&self, role: Role, address: Option<&str>) -> Vec<String> {
        let (command, peer) = match role {
            Role::Receiver => ("receive", self.sender),
            Role::Sender => ("send", self.receiver),
        };
        let mut arguments = words(&[command, "--input", &table(role), "--format", "csv"]);
        arguments.extend(words(&["--delimiter", ",", "--key", KEY, "--allow-empty"]));
        if let Some(bits) = self.job.inputs.key_bits {
            let profile = format!("{KEY}=integer:{bits}");
            arguments.extend(words(&["--normalize", &profile]));
        }
        arguments.extend(self.identity(role, peer));
        arguments.extend(words(&["--protocol", self.job.protocol]));
        arguments.extend(self.job.options.agreed(&self.job.terms));
        if self.job.columns(role) > 0 {
            let (names, bound) = (value_names(self.job.columns(role)), VALUE_BOUND.to_string());
            arguments.extend(words(&[
                "--value",
                &names.join(","),
                "--value-bound",
                &bound,
            ]));
            arguments.extend(words(&["--value-repeated", "refuse"]));
        }
        if self.job.inputs.payload_bytes > 0 {
            let (terms, bytes) = (&self.job.terms, self.job.inputs.payload_bytes);
            let width = self.job.options.payload_width(terms, bytes).to_string();
            arguments.extend(words(&["--payload-width", &width]));
            // The receiver of a union takes the sender's.
            if !self.job.reveal().is_rows() || role == Role::Sender {
                arguments.extend(words(&["--payload", PAYLOAD]));
            }
        }
        if self.job.has_output(role) {
            arguments.extend(["--output".to_owned(), output(role)]);
        }
        if self.job.origin.is_dealt() {
            arguments.extend(["--offline-store".to_owned(), store(role)]);
            if self.job.is_attested() {
                let shown = Platform::Simulated.to_string();
                arguments.extend(["--attested".to_owned(), shown]);
            }
        }
        arguments.extend(["--threads".to_owned(), self.job.options.threads.to_string()]);
        arguments.extend(words(&["--wait", PATIENCE, "--timeout", PATIENCE]));
        arguments.extend(words(&["--report", &report(role), "--progress", "none"]));
        let place = match address {
            Some(address) => ["--connect", address],
            None => ["--listen", "127.0.0.1:0"],
        };
        arguments.extend(words(&place));
        arguments
    }

    fn identity(&self, role: Role, peer: Fingerprint) -> [String; 4] {
        let identity = format!("{role}.key");
        let [own, other] = ["--identity", "--peer"].map(str::to_owned);
        [own, identity, other, peer.to_string()]
    }

    /// Starts another command of this program under the conditions of the benchmark.
    fn start(&self, name: &'static str, command: &[String]) -> Result<Process, Failure> {
        let options = self.job.options;
        let mut arguments = words(&["--log-format", "json", "bench-party"]);
        arguments.extend(options.network.words());
        arguments.extend(words(&["--transport", &word(self.job.carrier)]));
        arguments.extend(words(&["--backend", &word(options.backend)]));
        arguments.extend_from_slice(command);
        // What has no --threads of its own.
        let threads = [("RAYON_NUM_THREADS", options.threads.to_string())];
        Process::start(name, self.directory.path(), &arguments, &threads)
    }

    fn path(&self, name: String) -> PathBuf {
        self.directory.path().join(name)
    }

    fn report(&self, role: Role) -> Result<Report, Failure> {
        let read = std::fs::read(self.path(report(role))).map_err(|e| e.to_string());
        let parsed = read.and_then(|json| serde_json::from_slice(&json).map_err(|e| e.to_string()));
        let unreadable = |e| format!("the {role}'s report cannot be read: {e}");
        parsed.map_err(|e| Failure::new(RESOURCE, unreadable(e)))
    }

    /// Compares a run's result with the known one.
    fn is_right(&self, ran: &Ran) -> io::Result<bool> {
        let (inputs, reveal) = (&self.job.inputs, self.job.reveal());
        let Report {
            matches,
            value,
            values,
            below,
            ..
        } = &ran.receiver;
        let least = self.job.terms.get(&MIN_SIZE);
        let [mine, theirs] = [Role::Receiver, Role::Sender].map(|role| self.path(output(role)));
        if reveal.is_ids() {
            let reports = [&ran.receiver, &ran.sender];
            let matches = Some(inputs.shared());
            let tables = [Role::Receiver, Role::Sender].map(|role| self.path(table(role)));
            return Ok(reports.iter().all(|report| report.matches == matches)
                && inputs.are_ids(&tables, &[mine, theirs])?);
        }
        if ran.sender.matches.is_some() || ran.sender.value.is_some() {
            return Ok(false);
        }
        if inputs.counted(reveal, self.job.values()) < least {
            let is_nothing = matches.is_none() && value.is_none() && values.is_none();
            return Ok(*below == Some(least) && is_nothing);
        }
        if below.is_some() {
            return Ok(false);
        }
        match reveal {
            reveal if reveal == Reveal::Shares => inputs.are_shares(&mine, &theirs),
            reveal if reveal.is_rows() => {
                Ok(*matches == Some(inputs.shared()) && inputs.are_rows_of_sender(&mine)?)
            }
            reveal if reveal.is_matches() => {
                let table = self.path(table(Role::Receiver));
                Ok(*matches == Some(inputs.shared()) && inputs.are_matches(&table, &mine)?)
            }
            reveal => {
                let right = inputs.revealed_numbers(reveal, self.job.values());
                let right = right
                    .into_iter()
                    .map(|(name, number)| (name, number.to_string()));
                let right: BTreeMap<String, String> = right.collect();
                let found = match (value, values) {
                    (Some(value), _) => [(reveal.to_string(), value.to_string())].into(),
                    (None, Some(values)) => {
                        let values = values.iter();
                        values
                            .map(|(name, value)| (name.clone(), value.to_string()))
                            .collect()
                    }
                    (None, None) => BTreeMap::new(),
                };
                Ok(!right.is_empty() && found == right)
            }
        }
    }
}

fn name(role: Role) -> &'static str {
    match role {
        Role::Receiver => "receiver",
        Role::Sender => "sender",
    }
}

fn table(role: Role) -> String {
    format!("{role}.csv")
}

fn output(role: Role) -> String {
    format!("{role}-output.csv")
}

fn report(role: Role) -> String {
    format!("{role}.json")
}

fn store(role: Role) -> String {
    format!("{role}-halves")
}

/// The value of an option as it is typed.
fn word(value: impl ValueEnum) -> String {
    let word = value.to_possible_value();
    word.map_or_else(String::new, |word| word.get_name().to_owned())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

/// A line of a process, if it is an event of this name.
fn event_in(line: &str, name: &str) -> Option<Value> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line.get("event")? == name).then_some(line)
}

/// Where a process listens that says so in this line.
fn address_in(line: &str) -> Option<String> {
    let event = event_in(line, "listening")?;
    Some(event.get("address")?.as_str()?.to_owned())
}

/// What a process that has ended said of an event.
fn event<T: DeserializeOwned>(ended: &Finished, name: &str) -> Result<T, Failure> {
    let mut lines = ended.said.lines();
    let event = lines.find_map(|line| event_in(line, name));
    let event = event.and_then(|event| serde_json::from_value(event).ok());
    event.ok_or_else(|| Failure::new(RESOURCE, format!("a process did not say what it {name}")))
}

/// The processes, if all have succeeded. Otherwise the failure of one, rather of one that did not only miss its peer.
fn all_succeeded(ended: Vec<Finished>) -> Result<Vec<Finished>, Failure> {
    let mut failed: Vec<&Finished> = ended.iter().filter(|ended| !ended.succeeded()).collect();
    failed.sort_by_key(|ended| ended.code() == NETWORK);
    match failed.first() {
        Some(ended) => Err(failure(ended)),
        None => Ok(ended),
    }
}

/// Why a process failed, in its own words.
fn failure(ended: &Finished) -> Failure {
    #[derive(Deserialize)]
    struct Said {
        message: String,
        hint: Option<String>,
    }
    match event::<Said>(ended, "failure") {
        Ok(Said { message, hint }) => Failure {
            code: ended.code(),
            line: message,
            hint,
        },
        Err(_) => Failure::new(ended.code(), format!("a party has ended: {}", ended.said)),
    }
}
