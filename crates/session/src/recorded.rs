//! Runs under fixed seeds of every protocol, of all that it reveals and of every term: each frame that either side
//! sends, and both reports, are those that `vectors/session/frames.txt` has recorded.
//!
//! A change that is meant to leave the wire alone leaves that file alone. One that is not writes it anew, by this test
//! with `VESICA_RECORD_FRAMES=1`, and the difference of the file shows what it has changed.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use vesica_plan::Registry;
use vesica_psi::{Offline, Origin, Protocol};
use vesica_testing::digests;
use vesica_wire::{ChannelOptions, FramedChannel, HEADER_BYTES, WriteHalf, memory_halves};

use crate::deadline::Deadline;
use crate::random::seeded::with_seed;
use crate::terms::{KEY_BITS, LAMBDA, LEARNS, MIN_SIZE, OPTIMIZE, REVEAL, SECURITY};
use crate::{
    Attester, Connection, Error, Expected, Identity, Job, LabelExchange, LabelTerms, Labels,
    Learns, MemorySet, NoProgress, OfflineStore, OfflineTerms, Optimize, Platform, ProtocolRequest,
    RepeatedKeys, Report, Reveal, Role, Security, Simulated, ValueTerms, Wanted, deal, fetch_half,
    make_half, run_set_over, split,
};

/// A frame that says only that its side is alive has this code.
const HEARTBEAT: u8 = 2;

/// What one side has sent.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

struct Copying<W>(W, Sent);

impl<W: WriteHalf> WriteHalf for Copying<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1
            .0
            .lock()
            .unwrap()
            .extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn close(&mut self) {
        self.0.close();
    }
}

impl Sent {
    /// Code, length and the beginning of a hash of each frame.
    fn frames(&self) -> String {
        let bytes = self.0.lock().unwrap();
        let (mut rest, mut out) = (&bytes[..], String::new());
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let [code, length @ ..] = *header;
            let (payload, after) = after.split_at(u32::from_le_bytes(length) as usize);
            rest = after;
            if code != HEARTBEAT {
                let hash = blake3::hash(payload).to_hex();
                let _ = write!(out, " {code}:{}:{}", payload.len(), &hash[..8]);
            }
        }
        assert!(rest.is_empty());
        out
    }
}

/// Two connections that are each other's peer, and what each side sends.
fn link(ours: &Identity, theirs: &Identity) -> ([Connection; 2], [Sent; 2]) {
    let (near, far) = memory_halves();
    let sent = [Sent::default(), Sent::default()];
    let open = |(reads, writes), own: usize, local: &Identity, peer: &Identity| {
        let options = ChannelOptions::default();
        let interrupt = options.interrupt.clone();
        let writes = Copying(writes, sent[own].clone());
        Connection {
            channel: FramedChannel::new(Box::new(reads), Box::new(writes), options),
            local: Some(local.fingerprint()),
            peer: Some(peer.fingerprint()),
            refused: Vec::new(),
            deadline: Deadline::new(None, Duration::from_secs(60), interrupt),
        }
    };
    let connections = [open(near, 0, ours, theirs), open(far, 1, theirs, ours)];
    (connections, sent)
}

/// A party: who it is, and where its halves are.
struct Side {
    role: Role,
    identity: Identity,
    directory: TempDir,
}

impl Side {
    fn store(&self) -> OfflineStore {
        OfflineStore::open(self.directory.path(), &self.identity).unwrap()
    }
}

fn identity(name: &str) -> Identity {
    with_seed(name, Identity::generate).unwrap()
}

fn sides() -> [Side; 2] {
    [Role::Receiver, Role::Sender].map(|role| Side {
        role,
        identity: identity(&role.to_string()),
        directory: TempDir::new().unwrap(),
    })
}

/// Runs both sides, each under a seed of its own, and writes down what they send.
fn record<T: Send>(
    name: &str,
    [ours, theirs]: [&Side; 2],
    act: impl Fn(&Side, Connection) -> T + Sync,
) -> (String, [T; 2]) {
    let ([near, far], sent) = link(&ours.identity, &theirs.identity);
    let run = |side: &Side, connection| {
        let name = format!("{name}, {}", side.role);
        with_seed(&name, || act(side, connection))
    };
    let results = thread::scope(|scope| {
        let sender = scope.spawn(|| run(theirs, far));
        [run(ours, near), sender.join().unwrap()]
    });
    let mut lines = format!("{name}\n");
    for (side, sent) in [ours, theirs].iter().zip(&sent) {
        let _ = writeln!(lines, "  {} sends{}", side.role, sent.frames());
    }
    (lines, results)
}

const SIZES: [u64; 2] = [60, 80];
/// Of runs in buckets, which smaller sets do not have.
const SIZES_IN_BUCKETS: [u64; 2] = [500, 600];
const SHARED: u64 = 13;

/// How a run differs from the usual one of its protocol and of what it reveals.
type Change = fn(&mut Job);

const CHANGES: [(&str, Change); 11] = [
    ("", |_| ()),
    ("both", |job| job.terms.set(&LEARNS, Learns::Both)),
    ("aligned", |job| job.terms.set(&LEARNS, Learns::Aligned)),
    ("semi-honest", |job| {
        job.terms.set(&SECURITY, Security::SemiHonest)
    }),
    ("lambda 50", |job| job.terms.set(&LAMBDA, 50)),
    ("numbers", |job| job.terms.set(&KEY_BITS, Some(24))),
    ("minimum met", |job| job.terms.set(&MIN_SIZE, SHARED)),
    ("minimum missed", |job| job.terms.set(&MIN_SIZE, SHARED + 1)),
    ("traffic", |job| job.terms.set(&OPTIMIZE, Optimize::Traffic)),
    ("buckets", |job| job.memory = two_buckets(job)),
    ("labels", |job| {
        job.labels = match job.role {
            Role::Receiver => LabelExchange::Wanted { most_bytes: 8 },
            Role::Sender => LabelExchange::Offered(LabelTerms {
                bytes: 5,
                columns: vec!["city".into()],
            }),
        }
    }),
];

/// The most memory that makes two buckets of a run; `None` if its matches are not found bucket by bucket.
fn two_buckets(job: &Job) -> Option<u64> {
    let ProtocolRequest::Named(name) = &job.protocol else {
        return None;
    };
    let spec = job.registry.get(name)?.spec();
    let working_bytes = |sizes, lambda| spec.working_bytes_of(sizes, None, lambda);
    let sizes = SIZES_IN_BUCKETS;
    let whole = working_bytes(sizes, 40);
    let has_two = |memory: &u64| {
        let split = split(sizes, 40, *memory, working_bytes);
        split.is_some_and(|split| split.buckets == 2)
    };
    (1..100)
        .map(|part| whole - part * whole / 100)
        .find(has_two)
}

/// Who can have values.
fn owners(reveal: Reveal) -> &'static [&'static [Role]] {
    match reveal {
        Reveal::Sum => &[&[Role::Receiver], &[Role::Sender]],
        Reveal::InnerProduct => &[&[Role::Receiver, Role::Sender]],
        Reveal::Shares => &[&[], &[Role::Receiver, Role::Sender]],
        _ => &[&[]],
    }
}

fn job(
    role: Role,
    protocol: &dyn Protocol,
    reveal: Reveal,
    owners: &[Role],
    change: Change,
) -> Job {
    let spec = protocol.spec();
    let values = ValueTerms {
        bound: 1000,
        scale: 2,
        repeated: RepeatedKeys::Sum,
    };
    let mut job = Job {
        protocol: ProtocolRequest::named(spec.name),
        values: owners.contains(&role).then_some(values),
        ..Job::new(role, vec!["integer:24/1".into()])
    }
    .with(&SECURITY, spec.security)
    .with(&REVEAL, reveal)
    .with(&MIN_SIZE, u64::from(reveal == Reveal::ThresholdMatches));
    change(&mut job);
    job
}

/// One side of a run: its report, or why there is none.
fn run(side: &Side, mut connection: Connection, job: &Job) -> Result<Report, Error> {
    let [ours, theirs] = match job.memory {
        Some(_) => SIZES_IN_BUCKETS,
        None => SIZES,
    };
    let numbers = match side.role {
        Role::Receiver => 0..ours,
        Role::Sender => ours - SHARED..ours - SHARED + theirs,
    };
    let mut keys = digests(numbers.clone());
    for (key, number) in keys.iter_mut().zip(numbers.clone()) {
        key[24..].copy_from_slice(&number.to_le_bytes());
    }
    let values: Vec<i64> = numbers
        .map(|number| (3 * number as i64) % 201 - 100)
        .collect();
    let values = job.values.is_some().then_some(&values[..]);
    let mut set = MemorySet::new(&keys, values).unwrap();
    let labels: Vec<u8> = (0..5 * SIZES[1]).map(|i| i as u8).collect();
    if let LabelExchange::Offered(terms) = &job.labels {
        let (all, bytes) = (&labels[..], terms.bytes as usize);
        set = set.with_labels(Labels { all, bytes }).unwrap();
    }
    let (local, peer) = (connection.local, connection.peer);
    let mut report = run_set_over(
        &mut connection.channel,
        local,
        peer,
        job,
        &mut set,
        &mut NoProgress,
    );
    if let Ok(report) = &mut report {
        report.seconds = 0.0;
        report
            .phases
            .iter_mut()
            .for_each(|phase| phase.seconds = 0.0);
    }
    report
}

/// What is written down of a report: all of it, or what was found and hashes of the contract and of all.
fn in_words(report: Result<Report, Error>, is_usual: bool) -> String {
    let report = match report {
        Ok(report) => report,
        Err(error) => return error.to_string(),
    };
    let all = serde_json::to_value(&report).unwrap().to_string();
    let contract = &report.contract.hash[..8];
    let found = (
        report.matches,
        report.value.map(|value| value.units),
        report.below,
    );
    match is_usual {
        true => all,
        false => format!(
            "{found:?} {contract} {}",
            &blake3::hash(all.as_bytes()).to_hex()[..8]
        ),
    }
}

/// Gives both sides a pair of halves; what is sent for that.
fn pair(name: &str, protocol: &dyn Protocol, sides: [&Side; 2], job: &Job) -> String {
    let name = format!("{name}, offline");
    let terms = OfflineTerms {
        protocol: protocol.spec().name.into(),
        lambda: job.get(&LAMBDA),
        key_bits: job.get(&KEY_BITS),
        receiver_size: SIZES[0],
        sender_size: SIZES[1],
    };
    let registry = Registry::standard();
    let origin = origin(protocol).unwrap();
    if !origin.is_dealer() {
        let make = |side: &Side, mut connection: Connection| {
            let store = side.store();
            make_half(
                &mut connection,
                side.role,
                registry,
                &terms,
                &store,
                &mut NoProgress,
            )
        };
        let (lines, made) = record(&name, sides, make);
        assert!(made.iter().all(Result::is_ok));
        return lines;
    }
    let attester: Option<&dyn Attester> = match origin {
        Origin::AttestedDealer => Some(&Simulated),
        _ => None,
    };
    let expected = attester.map(|_| Expected::new(Simulated, Simulated::MEASUREMENT));
    let dealer = identity("dealer");
    let links = sides.map(|side| link(&dealer, &side.identity));
    let [
        ([to_ours, ours], our_sent),
        ([to_theirs, theirs], their_sent),
    ] = links;
    let fetch = |side: &Side, peer: &Side, mut connection: Connection| {
        let wanted = Wanted {
            role: side.role,
            terms: &terms,
            peer: peer.identity.fingerprint(),
            attested: expected.as_ref(),
        };
        let name = format!("{name}, {}", side.role);
        let store = side.store();
        let fetch = || fetch_half(&mut connection, registry, wanted, &store, &mut NoProgress);
        with_seed(&name, fetch).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| fetch(sides[0], sides[1], ours));
        scope.spawn(|| fetch(sides[1], sides[0], theirs));
        let mut connections = [to_ours, to_theirs];
        let deal = || deal(&mut connections, registry, u64::MAX, attester);
        with_seed(&format!("{name}, dealer"), deal).unwrap();
    });
    let mut lines = format!("{name}\n");
    for (side, sent) in sides.iter().zip([our_sent, their_sent]) {
        let [dealt, asked] = sent.each_ref().map(Sent::frames);
        let _ = writeln!(lines, "  {} sends{asked}\n  gets{dealt}", side.role);
    }
    lines
}

/// A run of both sides, whose jobs may take halves from a store.
fn both_sides(name: &str, protocol: &dyn Protocol, jobs: [Job; 2], is_stored: bool) -> String {
    let is_usual = name.ends_with(", ");
    let [ours, theirs] = sides();
    let sides = [&ours, &theirs];
    let mut lines = String::new();
    let mut jobs = jobs;
    if is_stored {
        lines = pair(name, protocol, sides, &jobs[0]);
        for (job, side) in jobs.iter_mut().zip(sides) {
            job.offline = Some(side.store());
            let is_shown = origin(protocol) == Some(Origin::AttestedDealer);
            job.attested = is_shown.then(|| Platform::Simulated.to_string());
        }
    }
    let [ours, theirs] = &jobs;
    let (frames, results) = record(name, sides, |side, connection| match side.role {
        Role::Receiver => run(side, connection, ours),
        Role::Sender => run(side, connection, theirs),
    });
    lines += &frames;
    for (side, result) in sides.iter().zip(results) {
        let _ = writeln!(lines, "  {} has {}", side.role, in_words(result, is_usual));
    }
    lines
}

fn origin(protocol: &dyn Protocol) -> Option<Origin> {
    protocol.offline().map(Offline::origin)
}

/// All runs of a protocol.
fn runs(protocol: &dyn Protocol) -> String {
    let spec = protocol.spec();
    let is_dealt = origin(protocol).is_some_and(Origin::is_dealer);
    let mut lines = String::new();
    for reveal in protocol.reveals().iter().copied() {
        for (owners, (words, change)) in owners(reveal)
            .iter()
            .flat_map(|owners| CHANGES.map(|change| (owners, change)))
        {
            let jobs = [Role::Receiver, Role::Sender]
                .map(|role| job(role, protocol, reveal, owners, change));
            let has_no_such_form = words == "semi-honest" && !spec.has_semi_honest_form;
            let has_no_buckets = words == "buckets" && (is_dealt || jobs[0].memory.is_none());
            if has_no_such_form || has_no_buckets || jobs.iter().any(|job| job.check().is_err()) {
                continue;
            }
            let whose: Vec<_> = owners.iter().map(Role::to_string).collect();
            let name = [spec.name, reveal.name(), &whose.join(" and "), words].join(", ");
            lines += &both_sides(&name, protocol, jobs.clone(), is_dealt);
            if words.is_empty() && origin(protocol).is_some_and(|origin| !origin.is_dealer()) {
                lines += &both_sides(&format!("{name}stored"), protocol, jobs, true);
            }
        }
    }
    lines
}

#[test]
fn frames_and_reports_are_those_that_are_recorded() {
    let protocols = Registry::standard().all();
    let lines: String = thread::scope(|scope| {
        let runs: Vec<_> = protocols.iter().map(|p| scope.spawn(|| runs(*p))).collect();
        runs.into_iter().map(|runs| runs.join().unwrap()).collect()
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/session/frames.txt");
    if std::env::var_os("VESICA_RECORD_FRAMES").is_some() {
        fs::write(&path, &lines).unwrap();
    }
    let recorded = fs::read_to_string(&path).unwrap();
    for (line, (now, then)) in (1..).zip(lines.lines().zip(recorded.lines())) {
        assert_eq!(now, then, "line {line} of {}", path.display());
    }
    assert_eq!(lines.len(), recorded.len());
}
