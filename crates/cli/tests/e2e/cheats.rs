//! A peer that cheats, over TLS, against the real binary. It is a party of the library whose frames a script changes, or
//! a script alone; it holds the pinned key, so that nothing but this side's checks stands in its way.
//!
//! Each case is a row of [`CASES`], and of the table in `docs/reliability.md`.

use std::thread;
use std::time::Duration;

use vesica::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, NoProgress, ProtocolRequest, Role,
    Security,
};
use vesica_offline::DealerRequest;
use vesica_psi::Half;
use vesica_session::terms::{BUCKET_ATTEMPTS, BUCKETS_AT_ONCE, LAMBDA, LEARNS, SECURITY};
use vesica_session::{
    Hello, Intent, Job, LabelExchange, Learns, Listener, Problem, Registry, Terms, Transport,
    VERSION, connect, run_over,
};
use vesica_testing::{digests, rng};
use vesica_wire::{Channel, Error as WireError, Kind, MAX_FRAME, PhaseTraffic};

use crate::support::{Arguments, Ended, Place, Running, csv_of};

const LISTEN: &str = "--listen 127.0.0.1:0";

const ABORT: Kind = kind(1, "abort");
const HEARTBEAT: Kind = kind(2, "heartbeat");
const HELLO: Kind = kind(16, "hello");
const NONCE: Kind = kind(17, "nonce");

const fn kind(code: u8, name: &'static str) -> Kind {
    Kind { code, name }
}

/// Keys on either side.
const KEYS: u64 = 40;

/// What the binary may use while it is cheated. A run of these sizes takes some 20 MiB and a tenth of a second.
const MOST_MEMORY: u64 = 128 << 20;
const MOST_PROCESSOR_TIME: Duration = Duration::from_secs(10);

/// What the cheat does.
pub(crate) enum Cheat {
    /// Runs the protocol, but for this frame of this kind, the first being 0, which it changes.
    Changes(&'static str, usize, fn(&mut Vec<u8>)),
    /// Runs the protocol up to this frame of this kind, and goes on by itself in its place.
    Instead(&'static str, usize, fn(&mut dyn Channel)),
}

use Cheat::{Changes, Instead};

impl Cheat {
    /// The kind of the frame at which it cheats.
    pub(crate) fn frame(&self) -> &'static str {
        let (Changes(frame, _, _) | Instead(frame, _, _)) = self;
        frame
    }
}

/// A peer that cheats, and what the binary makes of it.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    /// The part of the cheat.
    pub(crate) role: Role,
    /// What both ask for.
    pub(crate) terms: &'static str,
    /// What the binary is told besides.
    pub(crate) words: &'static str,
    pub(crate) cheat: Cheat,
    pub(crate) code: i32,
    /// What its line says.
    pub(crate) line: &'static str,
}

const fn case(
    what: &'static str,
    role: Role,
    terms: &'static str,
    cheat: Cheat,
    code: i32,
    line: &'static str,
) -> Case {
    Case {
        what,
        role,
        terms,
        words: "",
        cheat,
        code,
        line,
    }
}

const fn told(words: &'static str, case: Case) -> Case {
    Case { words, ..case }
}

const COMPACT_DH: &str = "--protocol compact-dh";
const VOLE: &str = "--protocol vole";
const DH: &str = "--security semi-honest --protocol dh";
const KKRT: &str = "--security semi-honest --protocol kkrt";
const SPOT_LOW: &str = "--security semi-honest --protocol spot-low";
const SPOT_LOW_SENDER: &str = "--protocol spot-low --security malicious-sender";
const OLE: &str = "--security semi-honest --protocol ole --offline lattice";
const CIRCUIT: &str = "--security semi-honest --protocol circuit-okvs --reveal size";
const CIRCUIT_SUMS: &str =
    "--security semi-honest --protocol circuit-okvs --reveal size,sum --min-size 1 --both";
const CIRCUIT_BOTH: &str = "--protocol circuit-okvs --security semi-honest --reveal size --both";

use Role::{Receiver, Sender};

#[rustfmt::skip]
pub(crate) static CASES: &[Case] = &[
    // The contract.
    case("a hello cut short", Sender, VOLE, Changes("hello", 0, shorter), 5, "hello has a length of"),
    case("a hello with more bytes", Sender, VOLE, Changes("hello", 0, longer), 5, "hello has a length of"),
    case("a hello of another program", Sender, VOLE, Changes("hello", 0, flip_first), 5, "not a hello of this program"),
    case("a hello of another version", Sender, VOLE, Changes("hello", 0, |hello| hello[4] ^= 1), 6, "disagree on version"),
    case("a hello that is too long", Sender, VOLE, Instead("hello", 0, |to| say(to, HELLO, vec![0; MAX_FRAME])), 5, "hello of 1048576 bytes; at most 32768"),
    case("a weaker protocol than asked for", Sender, "", Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.protocol = ProtocolRequest::named("dh"))), 5, "protocol: weaker than the security asked for"),
    case("a protocol against malicious senders alone", Sender, "", Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.protocol = ProtocolRequest::named("spot-low"))), 5, "protocol: weaker than the security asked for"),
    case("another security", Sender, SPOT_LOW_SENDER, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.terms.set(&SECURITY, Security::SemiHonest))), 6, "disagree on security"),
    case("another λ", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.terms.set(&LAMBDA, 41))), 6, "disagree on lambda"),
    case("a λ that is none", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.terms.set(&LAMBDA, u32::MAX))), 5, "lambda: out of range"),
    case("no bucket at once", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.terms.set(&BUCKETS_AT_ONCE, 0))), 5, "buckets at once: out of range"),
    case("17 attempts at a bucket", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.terms.set(&BUCKET_ATTEMPTS, 17))), 5, "attempts at a bucket: out of range"),
    case("shares of payloads without a byte", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.labels = LabelExchange::Shared { bytes: 0 })), 5, "from 1 to 256 bytes"),
    case("shares of payloads of 257 bytes", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.labels = LabelExchange::Shared { bytes: 257 })), 5, "from 1 to 256 bytes"),
    case("shares of payloads of 2^32 - 1 bytes", Receiver, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.labels = LabelExchange::Shared { bytes: u32::MAX })), 5, "from 1 to 256 bytes"),
    case("shares of payloads in a run for the matches", Receiver, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.labels = LabelExchange::Shared { bytes: 8 })), 5, "payloads: there are no shares of anything"),
    told("--max-peer-items 30", case("more items than allowed", Sender, VOLE, Changes("hello", 0, |_| {}), 7, "the sender brings 40 items; this run allows 30")),
    case("2^64 - 1 items", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.items = u64::MAX)), 7, "this run allows"),
    case("2^28 items, with memory for none", Sender, VOLE, Changes("hello", 0, |hello| rewrite(hello, |hello| (hello.local.items, hello.local.memory) = (1 << 28, 1))), 7, "bytes of memory"),
    case("fewer items announced than brought", Sender, COMPACT_DH, Changes("hello", 0, |hello| rewrite(hello, |hello| hello.local.items -= 1)), 6, "disagree on contract hash"),
    case("another hash of the contract", Sender, VOLE, Changes("commitment", 0, flip_first), 6, "disagree on contract hash"),
    case("a nonce other than committed to", Sender, VOLE, Changes("nonce", 0, flip_first), 5, "nonce: not what the commitment was made to"),
    case("a nonce of another length", Sender, VOLE, Changes("nonce", 0, shorter), 5, "nonce has a length of 31 bytes"),
    case("a nonce that is too long", Sender, VOLE, Instead("nonce", 0, |to| say(to, NONCE, vec![0; MAX_FRAME])), 5, "nonce of 1048576 bytes; at most 32"),
    case("a nonce before the commitment", Sender, VOLE, Instead("commitment", 0, |to| say(to, NONCE, vec![0; 32])), 5, "expected commitment, the peer sent frame kind 17"),
    // Time and words.
    told("--deadline 1", case("heartbeats and no hello", Sender, VOLE, Instead("hello", 0, idle), 4, "not done within 1 seconds")),
    told("--deadline 5", case("heartbeats in the place of masks", Sender, COMPACT_DH, Instead("masks", 0, idle), 4, "not done within 5 seconds")),
    told("--deadline 5", case("heartbeats in the place of an encoding", Receiver, VOLE, Instead("encoding", 0, idle), 4, "not done within 5 seconds")),
    told("--deadline 5", case("heartbeats without a pause", Sender, COMPACT_DH, Instead("masks", 0, beat), 4, "not done within 5 seconds")),
    case("a heartbeat with a payload", Sender, COMPACT_DH, Instead("masks", 0, |to| say(to, HEARTBEAT, vec![0])), 5, "heartbeat of 1 bytes; at most 0"),
    case("a reason with control characters and lines", Sender, COMPACT_DH, Instead("masks", 0, |to| say(to, ABORT, b"\x01\x1b[2Jfine\nvesica: done\r\xe2\x80\xae".to_vec())), 5, "the peer gave up:"),
    case("a reason that is too long", Sender, COMPACT_DH, Instead("masks", 0, |to| say(to, ABORT, vec![b'a'; 600])), 5, "abort of 600 bytes; at most 513"),
    case("a blame that there is none of", Sender, COMPACT_DH, Instead("masks", 0, |to| say(to, ABORT, b"\xffwhatever".to_vec())), 4, "the peer gave up: whatever"),
    case("an end in the middle", Sender, COMPACT_DH, Instead("masks", 0, |_| {}), 4, "the peer closed the connection"),
    case("a problem that there is none of", Sender, VOLE, Instead("hello", 0, |to| say(to, HELLO, problem(9))), 5, "problem: unknown code"),
    case("a problem with more bytes", Sender, VOLE, Instead("hello", 0, |to| say(to, HELLO, [problem(1), vec![0]].concat())), 5, "problem has a length of"),
    case("a problem once the contract is agreed", Sender, COMPACT_DH, Instead("masks", 0, |to| say(to, HELLO, problem(1))), 5, "the peer sent frame kind 16"),
    told("--wait 3", case("a problem again and again", Sender, VOLE, Instead("hello", 0, |to| say(to, HELLO, problem(1))), 4, "the peer reported a problem with its table, and did not try again in time")),
    // The mask exchange.
    case("masks that are not sorted", Sender, COMPACT_DH, Changes("masks", 0, |masks| masks[..32].fill(0xff)), 5, "masks: "),
    case("masks cut short", Sender, COMPACT_DH, Changes("masks", 0, shorter), 5, "masks"),
    case("masks with more bytes", Sender, COMPACT_DH, Changes("masks", 0, longer), 5, "masks"),
    case("masks twice", Sender, COMPACT_DH, Changes("masks", 0, |masks| masks.extend_from_within(..)), 5, "masks"),
    case("matches cut short", Receiver, "--protocol compact-dh --both", Changes("matched positions", 0, shorter), 5, "matched positions has a length of"),
    case("matches with more bytes", Receiver, "--protocol compact-dh --both", Changes("matched positions", 0, longer), 5, "matched positions"),
    case("matches other than the order's hash", Receiver, "--protocol compact-dh --both --align", Changes("hash of the matches", 0, flip_first), 5, "hash of the matches: not that of the matches it told of"),
    case("names that are not sorted", Receiver, "--protocol kkrt --security semi-honest --both", Changes("matched names", 0, |names| names[32..].fill(0)), 5, "matched names: out of order"),
    case("names cut short", Receiver, "--protocol kkrt --security semi-honest --both", Changes("matched names", 0, shorter), 5, "matched names has a length of"),
    case("a confirmation with words", Receiver, COMPACT_DH, Changes("done", 0, longer), 5, "done of 1 bytes; at most 0"),
    // compact-dh and dh.
    case("a key of low order", Sender, COMPACT_DH, Changes("key-agreement message", 0, |key| key.fill(0)), 5, "key-agreement message: "),
    case("a key that is no field element", Sender, COMPACT_DH, Changes("key-agreement message", 0, |key| key.fill(0xff)), 5, "key-agreement message: "),
    case("a constant polynomial", Receiver, COMPACT_DH, Changes("polynomial", 0, |polynomial| polynomial[32..].fill(0)), 5, "polynomial: constant"),
    case("a polynomial of lower degree", Receiver, COMPACT_DH, Changes("polynomial", 0, |polynomial| polynomial.truncate(polynomial.len() - 32)), 5, "polynomial has a length of"),
    case("a polynomial of higher degree", Receiver, COMPACT_DH, Changes("polynomial", 0, |polynomial| polynomial.extend_from_within(..32)), 5, "polynomial of"),
    case("a point that is not canonical", Receiver, DH, Changes("blinded items", 0, |points| points[..32].fill(0xff)), 5, "blinded items: not a canonical field element"),
    case("a point of low order", Receiver, DH, Changes("blinded items", 0, |points| points[..32].fill(0)), 5, "blinded items: a point of low order"),
    case("an answer that is not canonical", Sender, DH, Changes("answers to blinded items", 0, |points| points[..32].fill(0xff)), 5, "answers to blinded items: not a canonical field element"),
    // Correlations.
    case("a base transfer's key of low order", Receiver, VOLE, Changes("base-transfer key", 0, |key| key.fill(0)), 5, "base-transfer key: "),
    case("base transfers cut short", Sender, VOLE, Changes("base-transfer functions", 0, shorter), 5, "base-transfer functions has a length of"),
    case("a matrix that does not pass its check", Receiver, VOLE, Changes("transfer matrix", 0, flip_first), 5, "transfer check: not what the matrix leads to"),
    case("a check that the matrix does not lead to", Receiver, VOLE, Changes("transfer check", 0, flip_first), 5, "transfer check: not what the matrix leads to"),
    case("trees that are cut short", Sender, VOLE, Changes("VOLE trees", 0, shorter), 5, "VOLE trees"),
    case("a check of the correlation that fails", Sender, VOLE, Changes("VOLE check", 0, flip_first), 5, "VOLE check: the correlation is inconsistent"),
    case("an opening other than committed to", Receiver, VOLE, Changes("VOLE opening", 0, flip_first), 5, "VOLE opening: "),
    case("a coin other than committed to", Sender, VOLE, Changes("coin", 0, flip_first), 5, "coin: not what was committed to"),
    // OKVS, rows, tuples, circuits.
    case("an encoding cut short", Receiver, VOLE, Changes("encoding", 0, |encoding| encoding.truncate(encoding.len() - 16)), 5, "encoding has a length of"),
    case("rows of a wrong length", Receiver, KKRT, Changes("code rows", 0, shorter), 5, "code rows has a length of"),
    case("a slice of a polynomial cut short", Receiver, SPOT_LOW, Changes("polynomial", 2, shorter), 5, "polynomial has a length of"),
    case("a wide mask cut short", Sender, SPOT_LOW_SENDER, Changes("masks", 0, shorter), 5, "masks"),
    case("a ciphertext cut short", Receiver, OLE, Changes("lattice ciphertext", 0, shorter), 5, "lattice ciphertext has a length of"),
    case("answers above the modulus", Sender, OLE, Changes("comparison answers", 0, |answers| answers.fill(0xff)), 5, "comparison answers: not below the modulus"),
    case("corrections of digits cut short", Sender, CIRCUIT, Changes("digit corrections", 0, shorter), 5, "digit corrections has a length of"),
    case("tables of digits cut short", Receiver, CIRCUIT, Changes("digit tables", 0, shorter), 5, "digit tables has a length of"),
    case("a size that there cannot be", Receiver, CIRCUIT_BOTH, Changes("outcome", 0, |outcome| outcome[7] = 1), 5, "outcome: out of range"),
    case("an outcome cut short", Receiver, CIRCUIT_BOTH, Changes("outcome", 0, shorter), 5, "outcome has a length of 8 bytes"),
    case("an outcome with bits beyond the last one", Receiver, CIRCUIT_BOTH, Changes("outcome", 0, |outcome| outcome[8] |= 0x80), 5, "outcome: bits are set beyond the last one"),
    told("--value id", case("one of several numbers that there cannot be", Receiver, CIRCUIT_SUMS, Changes("outcome", 0, |outcome| outcome[0] |= 1), 5, "outcome: out of range")),
    told("--value id", case("one of several numbers that are withheld", Receiver, CIRCUIT_SUMS, Changes("outcome", 0, |outcome| outcome[15] = 1), 5, "outcome: a value that is withheld")),
    told("--value id --value-bound 100", case("a sum above what the bounds allow for the size", Receiver, CIRCUIT_SUMS, Changes("outcome", 0, |outcome| (outcome[0], outcome[8]) = (3, 202)), 5, "outcome: more than the declared bounds allow")),
    told("--value id", case("shares of several numbers cut short", Sender, CIRCUIT_SUMS, Changes("opened shares", 0, shorter), 5, "opened shares has a length of")),
    case("a number withheld without a minimum", Receiver, CIRCUIT_BOTH, Changes("outcome", 0, |outcome| outcome.fill(0)), 5, "outcome: withheld without a minimum"),
];

fn shorter(payload: &mut Vec<u8>) {
    payload.pop();
}

fn longer(payload: &mut Vec<u8>) {
    payload.push(0);
}

#[allow(clippy::ptr_arg, reason = "the type of all changes")]
fn flip_first(payload: &mut Vec<u8>) {
    payload[0] ^= 1;
}

fn rewrite(payload: &mut Vec<u8>, change: fn(&mut Hello)) {
    let mut hello = Hello::decode(payload, &Terms::default()).unwrap();
    change(&mut hello);
    *payload = hello.encode();
}

/// What a side that cannot take part says, with any code.
fn problem(code: u8) -> Vec<u8> {
    let mut said = Problem::Table.encode();
    assert_eq!(said[4..6], VERSION.to_le_bytes());
    said[6] = code;
    said
}

/// Says it if the binary still listens.
fn say(channel: &mut dyn Channel, kind: Kind, payload: Vec<u8>) {
    let _ = channel.send(kind, payload).and_then(|()| channel.flush());
}

/// Sends heartbeats and nothing else, until the binary ends the connection.
fn idle(channel: &mut dyn Channel) {
    let beat = |channel: &mut dyn Channel| {
        channel.send(HEARTBEAT, Vec::new())?;
        channel.flush()
    };
    while beat(channel).is_ok() {
        thread::sleep(Duration::from_millis(100));
    }
}

/// Sends heartbeats as fast as the binary takes them.
fn beat(channel: &mut dyn Channel) {
    while channel.send(HEARTBEAT, Vec::new()).is_ok() {}
}

/// A channel whose user cheats.
pub(crate) struct Cheating<'a> {
    inner: Option<&'a mut dyn Channel>,
    cheat: &'a Cheat,
    /// Frames of that kind so far.
    seen: usize,
    /// Is told of what receiving fails with.
    hears: Option<&'a (dyn Fn(&WireError) + Sync)>,
}

impl<'a> Cheating<'a> {
    pub(crate) fn new(inner: &'a mut dyn Channel, cheat: &'a Cheat) -> Cheating<'a> {
        Cheating {
            inner: Some(inner),
            cheat,
            seen: 0,
            hears: None,
        }
    }

    /// Tells this of what receiving fails with, at once.
    pub(crate) fn hearing(mut self, hears: &'a (dyn Fn(&WireError) + Sync)) -> Cheating<'a> {
        self.hears = Some(hears);
        self
    }

    fn inner(&mut self) -> Result<&mut dyn Channel, WireError> {
        match &mut self.inner {
            Some(inner) => Ok(&mut **inner),
            None => Err(WireError::Closed),
        }
    }

    pub(crate) fn has_cheated(&self) -> bool {
        let (Changes(_, nth, _) | Instead(_, nth, _)) = self.cheat;
        self.seen > *nth
    }
}

impl Channel for Cheating<'_> {
    fn send(&mut self, kind: Kind, mut payload: Vec<u8>) -> Result<(), WireError> {
        let (Changes(name, nth, _) | Instead(name, nth, _)) = self.cheat;
        if kind.name == *name {
            self.seen += 1;
            match self.cheat {
                _ if self.seen != nth + 1 => {}
                Changes(_, _, change) => change(&mut payload),
                Instead(_, _, go_on) => {
                    go_on(self.inner()?);
                    self.inner = None;
                }
            }
        }
        self.inner()?.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        let hears = self.hears;
        let received = self.inner()?.recv(kind, max);
        received.inspect_err(|error| hears.into_iter().for_each(|hears| hears(error)))
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.inner()?.flush()
    }

    fn begin_phase(&mut self, _: &'static str) {}

    fn traffic(&self) -> Vec<PhaseTraffic> {
        Vec::new()
    }

    fn abort(&mut self, why: &WireError) {
        if let Some(inner) = &mut self.inner {
            inner.abort(why);
        }
    }
}

/// The job of the terms.
fn job(role: Role, terms: &str) -> Job {
    let words: Vec<&str> = terms.split(' ').collect();
    let value = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    let mut job = Job::new(role, vec!["exact/2".into()]);
    if let Some(name) = value("--protocol") {
        let name = match value("--offline") {
            Some(source) => format!("{name}-{source}"),
            None => name.to_owned(),
        };
        job.protocol = ProtocolRequest::named(name);
    }
    for (name, option) in [
        ("security", "--security"),
        ("reveal", "--reveal"),
        ("min_size", "--min-size"),
    ] {
        if let Some(value) = value(option) {
            job.terms.set_option(name, value).unwrap();
        }
    }
    if words.contains(&"--both") {
        job.terms.set(&LEARNS, Learns::Both);
    }
    if words.contains(&"--align") {
        job.terms.set(&LEARNS, Learns::Aligned);
    }
    job
}

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions {
        wait: Duration::from_secs(30),
        timeout: Duration::from_secs(30),
        ..ConnectOptions::default()
    }
}

/// Meets the binary and cheats, as long as it listens; returns how often it did.
fn cheat(case: &Case, identity: &Identity, peer: Fingerprint, endpoint: &str) -> usize {
    let address = Endpoint::Connect(endpoint.replace("--connect ", ""));
    let transport = Transport::Tls {
        identity,
        peer,
        intent: Intent::Run(case.role),
    };
    let (job, keys) = (job(case.role, case.terms), digests(1000..1000 + KEYS));
    let again = case.what.ends_with("again and again");
    let mut cheated = 0;
    loop {
        let short = ConnectOptions {
            // A handshake that this side gives up is another failure.
            wait: Duration::from_secs(if cheated > 0 { 3 } else { 30 }),
            ..options()
        };
        let Ok(mut connection) = connect(&address, &transport, &short) else {
            return cheated;
        };
        let mut channel = Cheating::new(&mut connection.channel, &case.cheat);
        let (local, peer) = (connection.local, connection.peer);
        // However it ends for the cheat.
        let _ = run_over(&mut channel, local, peer, &job, &keys, &mut NoProgress);
        cheated += usize::from(channel.has_cheated());
        if !again {
            return cheated;
        }
    }
}

fn place() -> Place {
    let place = Place::new();
    let rows: Vec<Vec<String>> = (0..KEYS).map(|i| vec![i.to_string()]).collect();
    place.write("table.csv", csv_of(&["id"], &rows));
    place
}

/// The most that a process has used before it ended.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    memory: u64,
    processor: Duration,
}

impl Used {
    /// What the process has used by now, nothing where it has ended.
    fn until_now(id: u32) -> Self {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}"));
        let peak = read("status").ok().and_then(|status| {
            let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib * 1024)
        });
        // User and system time, in ticks of 10 ms; a name with blanks or parentheses may come before.
        let ticks = read("stat").ok().and_then(|stat| {
            let rest = stat.rsplit_once(')')?.1.to_owned();
            let fields: Vec<u64> = rest
                .split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|field| field.parse().ok())
                .collect();
            Some(fields.iter().sum::<u64>())
        });
        Self {
            memory: peak.unwrap_or(0),
            processor: Duration::from_millis(10 * ticks.unwrap_or(0)),
        }
    }
}

/// Waits for the end of a process that has used something, and measures it meanwhile.
fn measured(running: Running, mut used: Used) -> (Ended, Used) {
    let id = running.process.id();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let measuring = thread::spawn(move || {
        let tick = Duration::from_millis(2);
        while stopped.recv_timeout(tick) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let now = Used::until_now(id);
            used.memory = used.memory.max(now.memory);
            used.processor = used.processor.max(now.processor);
        }
        used
    });
    let ended = running.wait();
    drop(stop);
    (ended, measuring.join().unwrap())
}

/// Has the listening binary meet the cheat: how often it was cheated, how it ended, and what it used.
fn meet(case: &Case, place: &Place, mut binary: Running) -> (usize, Ended, Used) {
    let endpoint = binary.endpoint();
    let (key, peer) = match case.role {
        Sender => ("sender.key", place.receiver),
        Receiver => ("receiver.key", place.sender),
    };
    let identity = Identity::load(place.path(key)).unwrap();
    // It may end as soon as it has met the cheat, between two looks at it.
    let used = Used::until_now(binary.process.id());
    thread::scope(|scope| {
        let cheating = scope.spawn(|| cheat(case, &identity, peer, &endpoint));
        let (ended, used) = measured(binary, used);
        (cheating.join().unwrap(), ended, used)
    })
}

/// How a receiver ends whose sender cheats in this way.
pub(crate) fn cheated(place: &Place, receiver: Arguments, what: &str) -> Ended {
    let case = CASES.iter().find(|case| case.what == what).unwrap();
    let binary = place.receiver(&receiver.with(case.terms), LISTEN);
    meet(case, place, binary).1
}

/// Runs a case; on a machine so busy that the deadline is over before the cheat begins, with a later one.
fn run(case: &Case) {
    let is_met = [1, 4, 16].iter().any(|times| {
        let later = |text: &str| {
            let seconds = (5 * times).to_string();
            let text = text.replace("--deadline 5", &format!("--deadline {seconds}"));
            text.replace("within 5 seconds", &format!("within {seconds} seconds"))
        };
        let (words, line) = (later(case.words), later(case.line));
        let cheated = run_once(case, &words, &line);
        assert!(
            cheated || words.contains("--deadline"),
            "{}: no such frame was sent",
            case.what
        );
        cheated
    });
    assert!(is_met, "{}: no such frame was sent", case.what);
}

/// Whether the peer came so far as to cheat.
fn run_once(case: &Case, more: &str, line: &str) -> bool {
    let what = case.what;
    let place = place();
    let before = place.names();
    let mut words = Arguments::new("table.csv", "id").with(case.terms);
    words = words.with(more);
    let reveals_rows = !case.terms.contains("--reveal");
    let binary = match case.role {
        Sender if reveals_rows => place.receiver(&words.output("out.csv"), LISTEN),
        Sender => place.receiver(&words, LISTEN),
        Receiver if reveals_rows && case.terms.contains("--both") => {
            place.sender(&words.output("out.csv"), LISTEN)
        }
        Receiver => place.sender(&words, LISTEN),
    };
    let (cheated, ended, used) = meet(case, &place, binary);
    if cheated == 0 {
        return false;
    }
    assert_eq!(ended.code, Some(case.code), "{what}:\n{}", ended.err);
    ended.expect_failure(case.code, line);
    assert_eq!(place.names(), before, "{what}");
    let hides = |c: char| c != '\n' && vesica_wire::is_hidden(c);
    assert!(!ended.err.contains(hides), "{what}: {:?}", ended.err);
    let said = ended.err.matches("the peer reports a problem").count();
    assert!(said <= 1, "{what}:\n{}", ended.err);
    assert!(
        used.memory > 0 && used.memory < MOST_MEMORY,
        "{what}: {used:?}"
    );
    assert!(used.processor < MOST_PROCESSOR_TIME, "{what}: {used:?}");
    true
}

#[test]
fn a_peer_that_cheats_is_found_out() {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let filter = std::env::var("VESICA_TEST_CHEAT").unwrap_or_default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(case) = CASES.get(next) else {
                        return;
                    };
                    if case.what.contains(&filter) {
                        run(case);
                    }
                }
            });
        }
    });
}

/// The list of the documentation is that of the cases.
#[test]
fn every_cheat_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reliability.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: String = CASES.iter().map(row).collect();
    assert!(page.contains(&rows), "docs/reliability.md lacks:\n{rows}");
}

fn row(case: &Case) -> String {
    let terms = case.terms.replace("--security semi-honest ", "");
    let terms = terms.replace("--protocol ", "").replace(" --offline ", "-");
    let terms = if terms.is_empty() { "auto" } else { &terms };
    let words = if case.words.is_empty() {
        String::new()
    } else {
        format!(", `{}`", case.words)
    };
    format!(
        "| {} | {} | `{terms}`{words} | {} |\n",
        case.what, case.role, case.code
    )
}

/// The frames of a dealer.
const REQUEST: Kind = kind(22, "request for a half");
const PAIR: Kind = kind(23, "name of a pair");
const DEALT: Kind = kind(24, "dealt half");
const STORED: Kind = kind(21, "stored");

/// Deals halves, the receiver's changed, to two parties that both trust it.
fn deal_falsely(connections: &mut [Connection], spoil: fn(&mut Vec<u8>)) {
    let mut terms = None;
    for connection in &mut *connections {
        let request = connection.channel.recv(REQUEST, MAX_FRAME).unwrap();
        terms = Some(DealerRequest::decode(&request).unwrap().terms);
    }
    let terms = terms.unwrap();
    let params = vesica_psi::Params {
        security: Security::SemiHonest,
        lambda: terms.lambda,
        receiver_size: terms.receiver_size as usize,
        sender_size: terms.sender_size as usize,
        key_agreement: vesica_psi::KeyAgreement::default(),
        session: [0; 32],
    };
    let offline = terms.check(Registry::standard()).unwrap();
    let halves = offline.deal(&params, terms.key_bits, &mut rng(1)).unwrap();
    for (i, connection) in connections.iter_mut().enumerate() {
        let mut half = halves[i].to_vec();
        let whole = [Half::Receiver, Half::Sender][i];
        let length = offline.dealt_bytes(whole, &params, terms.key_bits);
        assert_eq!(half.len(), length.unwrap());
        if i == 0 {
            spoil(&mut half);
        }
        say(&mut connection.channel, PAIR, vec![7; 16]);
        say(&mut connection.channel, DEALT, half);
    }
    for connection in &mut *connections {
        let _ = connection.channel.recv(STORED, 0);
    }
    for connection in &mut *connections {
        say(&mut connection.channel, STORED, Vec::new());
    }
}

/// How both parties of such a dealing end.
fn dealt_falsely(place: &Place, spoil: fn(&mut Vec<u8>)) -> [Ended; 2] {
    let dealer = Identity::generate().unwrap();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("--connect {}", listener.local_addr());
    let parties = [place.receiver, place.sender];
    thread::scope(|scope| {
        let dealing = scope.spawn(|| {
            let connections = listener.accept_all(&dealer, &parties, Intent::Deal, &options());
            deal_falsely(&mut connections.unwrap(), spoil);
        });
        let words = format!(
            "--offline dealer --receiver-size {KEYS} --sender-size {KEYS} --items 32 --dealer {}",
            dealer.fingerprint()
        );
        let making = ["receiver", "sender"].map(|role| place.make(role, &words, &endpoint));
        let ended = making.map(Running::wait);
        dealing.join().unwrap();
        ended
    })
}

#[test]
fn a_dealer_that_lies_is_found_out() {
    let place = place();
    let [receiver, _] = dealt_falsely(&place, |half| half.truncate(half.len() - 1));
    receiver.expect_failure(5, "dealt half has a length of");
    assert!(
        std::fs::read_dir(place.path("receiver.store"))
            .unwrap()
            .next()
            .is_none()
    );
    std::fs::remove_dir_all(place.path("sender.store")).unwrap();
    // Tuples that do not belong together: whichever side checks them finds out, and neither has a result.
    let [receiver, sender] = dealt_falsely(&place, |half| {
        half.iter_mut()
            .for_each(|byte| *byte = byte.wrapping_add(1));
    });
    receiver.expect_success();
    sender.expect_success();
    let before = place.names();
    let side = |role: &str| {
        Arguments::new("table.csv", "id").with(&format!(
            "--normalize id=integer:32 --security semi-honest --protocol ole --offline dealer --offline-store {role}.store"
        ))
    };
    let mut sending = place.sender(&side("sender"), LISTEN);
    let receiving = place.receiver(&side("receiver").output("out.csv"), &sending.endpoint());
    for ended in [receiving.wait(), sending.wait()] {
        assert_eq!(ended.code, Some(5), "{}", ended.err);
    }
    assert_eq!(place.names(), before);
}
