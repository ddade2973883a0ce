//! What the parent of a benchmark and its children say to each other: JSON, an object per line.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vesica::Terms;
use vesica_wire::PhaseTraffic;

use crate::args::{Carrier, Kernels};
use crate::config;
use crate::failure::{Failure, RESOURCE};

/// A party's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Part {
    Receiver,
    Sender,
}

/// The first line to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Be a party of the run.
    Run(Setup),
    /// Be the dealer of its tuples.
    Deal(Dealing),
}

/// What a dealer needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Dealing {
    /// Fingerprints of receiver and sender.
    pub(super) parties: [String; 2],
    /// Whether it shows a simulated report.
    pub(super) attested: bool,
    pub(super) threads: NonZeroUsize,
    pub(super) network: String,
    pub(super) backend: Kernels,
}

/// What to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) part: Part,
    pub(super) protocol: String,
    pub(super) terms: Terms,
    pub(super) threads: NonZeroUsize,
    pub(super) receiver_size: u64,
    pub(super) sender_size: u64,
    pub(super) network: String,
    pub(super) carrier: Carrier,
    pub(super) backend: Kernels,
    pub(super) seed: u64,
    /// Fingerprint of the other party.
    pub(super) peer: String,
    /// Fingerprint of the dealer, if there is one.
    pub(super) dealer: Option<String>,
}

/// A line to a child: do one run, with a pair from the dealer at that address. The end of its input ends the child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    Listen {
        dealer: Option<String>,
    },
    Connect {
        address: String,
        dealer: Option<String>,
    },
}

/// A line from a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Say {
    /// Its first line, sent before any order.
    Here {
        fingerprint: String,
    },
    Listening {
        address: String,
    },
    Done(Done),
    /// A dealer's peak memory so far, in bytes.
    Dealt {
        peak_memory_bytes: Option<u64>,
    },
    Failed {
        code: u8,
        line: String,
        hint: Option<String>,
    },
}

/// One run as one party saw it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// From the agreed contract to the result.
    pub(super) total: f64,
    /// The part of it that needs no items.
    pub(super) offline: f64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    /// Bytes from the dealer, if there is one.
    pub(super) bytes_dealt: Option<u64>,
    pub(super) phases: Vec<PhaseTraffic>,
    /// Items in common; `None` for the sender, which does not know.
    pub(super) matches: Option<u64>,
    /// Peak memory of the process so far, in bytes; `None` where the system does not tell.
    pub(super) peak_memory_bytes: Option<u64>,
}

/// Both parties' view of one run, and the dealer's peak memory so far if it is a process.
pub(super) struct Ran {
    pub(super) receiver: Done,
    pub(super) sender: Done,
    pub(super) dealer_memory_bytes: Option<u64>,
}

/// A child process that is one party, or the dealer. Dropping it ends the process.
pub(super) struct Child {
    process: std::process::Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a party; returns its fingerprint as well.
    pub(super) fn start() -> Result<(Child, String), Failure> {
        let cannot = |e: std::io::Error| {
            Failure::new(
                RESOURCE,
                format!("a party of the benchmark cannot be started: {e}"),
            )
        };
        let mut process = std::env::current_exe()
            .and_then(|me| {
                Command::new(me)
                    .arg("bench-party")
                    .env_remove(config::variable("config"))
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
            })
            .map_err(cannot)?;
        let (to, from) = match (process.stdin.take(), process.stdout.take()) {
            (Some(to), Some(from)) => (Some(to), BufReader::new(from)),
            _ => return Err(ended()),
        };
        let mut child = Child { process, to, from };
        match child.hear()? {
            Say::Here { fingerprint } => Ok((child, fingerprint)),
            _ => Err(out_of_turn()),
        }
    }

    pub(super) fn tell(&mut self, what: &impl Serialize) -> Result<(), Failure> {
        let to = self.to.as_mut().ok_or_else(ended)?;
        write_line(to, what).map_err(|_| ended())
    }

    pub(super) fn hear(&mut self) -> Result<Say, Failure> {
        match read_line(&mut self.from) {
            Some(Say::Failed { code, line, hint }) => Err(Failure { code, line, hint }),
            Some(say) => Ok(say),
            None => Err(ended()),
        }
    }

    /// Lets the process end by itself.
    pub(super) fn finish(mut self) {
        self.to = None;
        let _ = self.process.wait();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that has ended by itself is past being ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes `what` as a line.
pub(super) fn write_line(to: &mut impl Write, what: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// The next line; `None` at the end or for a line that cannot be parsed.
pub(super) fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

fn ended() -> Failure {
    Failure::new(RESOURCE, "a party of the benchmark ended unexpectedly")
}

pub(super) fn out_of_turn() -> Failure {
    Failure::new(RESOURCE, "a party of the benchmark spoke out of turn")
}
