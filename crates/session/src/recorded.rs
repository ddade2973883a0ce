//! Runs under fixed seeds of every protocol, of all that it reveals and of every term: each frame that either side
//! sends, and both reports, are those that `vectors/session/frames.txt` has recorded.
//!
//! A change that is meant to leave the wire alone leaves that file alone. One that is not writes it anew, by this test
//! with `VESICA_RECORD_FRAMES=1`, and the difference of the file shows what it has changed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use rand_core::Rng;
use vesica_plan::Registry;
use vesica_psi::{Offline, Origin, Params, Protocol};
use vesica_testing::{digests, recorded_pair, with_seed};
use vesica_wire::{Channel, FramedChannel, Kind};
use zeroize::Zeroizing;

use crate::random::fresh_rng;
use crate::terms::{KEY_BITS, LAMBDA, LEARNS, MIN_SIZE, OPTIMIZE, REVEAL, SECURITY};
use crate::{
    BucketKeys, Checkpoint, Error, Fingerprint, HalfSource, Identity, Job, LabelExchange,
    LabelTerms, Learns, MemorySet, Name, NoProgress, Offer, OptimizeRequest, PeerLimits,
    ProtocolRequest, Purpose, RepeatedKeys, Report, Reveal, Reveals, Role, Security, ValueTerms,
    agree, run_set_over, split,
};

/// A half in memory.
#[derive(Debug)]
struct OneHalf {
    offer: Offer,
    content: Zeroizing<Vec<u8>>,
}

impl HalfSource for OneHalf {
    fn offers(&self, _: &Purpose<'_>) -> Result<Vec<Offer>, Error> {
        Ok(vec![self.offer])
    }

    fn take(&self, offer: &Offer, _: &Purpose<'_>) -> Result<Zeroizing<Vec<u8>>, Error> {
        assert_eq!(*offer, self.offer);
        Ok(self.content.clone())
    }
}

/// A party.
struct Side {
    role: Role,
    fingerprint: Fingerprint,
}

fn sides() -> [Side; 2] {
    [Role::Receiver, Role::Sender].map(|role| Side {
        role,
        fingerprint: with_seed(&role.to_string(), Identity::generate)
            .unwrap()
            .fingerprint(),
    })
}

/// Runs both sides, each under a seed of its own, and writes down what they send.
fn record<T: Send>(
    name: &str,
    [ours, theirs]: [&Side; 2],
    act: impl Fn(&Side, Fingerprint, FramedChannel) -> T + Sync,
) -> (String, [T; 2]) {
    let [(near, our_sent), (far, their_sent)] = recorded_pair();
    let run = |side: &Side, peer: &Side, channel| {
        let name = format!("{name}, {}", side.role);
        with_seed(&name, || act(side, peer.fingerprint, channel))
    };
    let results = thread::scope(|scope| {
        let sender = scope.spawn(|| run(theirs, ours, far));
        [run(ours, theirs, near), sender.join().unwrap()]
    });
    let mut lines = format!("{name}\n");
    for (side, sent) in [(ours, our_sent), (theirs, their_sent)] {
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

const CHANGES: [(&str, Change); 12] = [
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
    ("traffic", |job| {
        job.terms.set(&OPTIMIZE, OptimizeRequest::Traffic)
    }),
    ("buckets", |job| job.memory = two_buckets(job)),
    ("labels", |job| {
        job.labels = match job.role {
            Role::Receiver => LabelExchange::Wanted { most_bytes: 8 },
            Role::Sender => LabelExchange::Offered(LabelTerms::texts(5, vec!["city".into()])),
        }
    }),
    ("payloads", |job| {
        job.labels = LabelExchange::Shared {
            bytes: match job.role {
                Role::Receiver => 3,
                Role::Sender => 20,
            },
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
        let split = split(sizes, 40, *memory, spec.max_items, working_bytes);
        split.is_some_and(|split| split.buckets == 2)
    };
    (1..100)
        .map(|part| whole - part * whole / 100)
        .find(has_two)
}

/// How many values the receiver and the sender can have for a key.
fn columns(reveals: Reveals) -> &'static [[usize; 2]] {
    match reveals.each() {
        [Reveal::Sum] => &[[1, 0], [0, 1]],
        [Reveal::Size, Reveal::Sum] => &[[2, 0], [0, 2]],
        [.., Reveal::InnerProduct] => &[[1, 1]],
        [Reveal::Shares] => &[[0, 0], [1, 1]],
        [Reveal::Matches | Reveal::Size | Reveal::ThresholdMatches] => &[[0, 0]],
        _ => panic!("{reveals}: say how many values go with it"),
    }
}

fn job(
    role: Role,
    protocol: &dyn Protocol,
    reveal: Reveals,
    columns: usize,
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
        values: vec![values; columns],
        ..Job::new(role, vec!["integer:24/1".into()])
    }
    .with(&SECURITY, spec.security)
    .with(&REVEAL, reveal)
    .with(&MIN_SIZE, u64::from(reveal == Reveal::ThresholdMatches));
    change(&mut job);
    job
}

/// One side of a run: its report, or why there is none.
fn run(
    side: &Side,
    peer: Fingerprint,
    mut channel: FramedChannel,
    job: &Job,
) -> Result<Report, Error> {
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
    let numbers: Vec<u64> = numbers.collect();
    let columns = job.values.len();
    let values = |number: &u64| {
        let first = (3 * *number as i64) % 201 - 100;
        (0..columns).map(move |column| first + column as i64)
    };
    let values: Vec<i64> = numbers.iter().flat_map(values).collect();
    let bytes = match &job.labels {
        LabelExchange::Offered(terms) => terms.bytes as usize,
        labels => labels.string_bytes() as usize,
    };
    let labels: Vec<u8> = (0..bytes * keys.len()).map(|i| i as u8).collect();
    let mut keys = BucketKeys::from(&keys);
    keys.values = (columns > 0).then(|| Cow::from(&values));
    keys.numbers = Some(Cow::from(&numbers));
    if bytes > 0 {
        keys.labels = Some(Cow::from(&labels));
    }
    let mut set = MemorySet::new(keys).unwrap();
    let mut report = run_set_over(
        &mut channel,
        Some(side.fingerprint),
        Some(peer),
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
    let several = report.values.iter().flatten();
    let several: String = several
        .map(|(name, value)| format!("{name} {} ", value.units))
        .collect();
    match is_usual {
        true => all,
        false => format!(
            "{found:?} {several}{contract} {}",
            &blake3::hash(all.as_bytes()).to_hex()[..8]
        ),
    }
}

/// A pair of halves as `vesica-offline` makes or deals it, whose own recording says so; what is sent for that, if the
/// parties make it.
fn pair(
    name: &str,
    protocol: &dyn Protocol,
    sides: [&Side; 2],
    job: &Job,
) -> (String, [OneHalf; 2]) {
    let offline = protocol.offline().unwrap();
    let name = format!("{name}, offline");
    let bits = job.get(&KEY_BITS);
    let (lines, pair, contents) = match offline.origin().is_dealt() {
        true => {
            let params = Params {
                security: Security::SemiHonest,
                lambda: job.get(&LAMBDA),
                receiver_size: SIZES[0] as usize,
                sender_size: SIZES[1] as usize,
                session: [0; 32],
            };
            with_seed(&format!("{name}, dealer"), || {
                let mut rng = fresh_rng().unwrap();
                let halves = offline.deal(&params, bits, &mut rng).unwrap();
                let mut pair = [0; 16];
                rng.fill_bytes(&mut pair);
                (String::new(), pair, halves)
            })
        }
        false => {
            let make = |side: &Side, peer, channel| half(side, peer, channel, job);
            let (lines, [(pair, ours), (_, theirs)]) = record(&name, sides, make);
            (lines, pair, [ours, theirs])
        }
    };
    let offer = Offer {
        name: Name(pair),
        receiver_size: SIZES[0],
        sender_size: SIZES[1],
    };
    (lines, contents.map(|content| OneHalf { offer, content }))
}

/// The name of a pair, and one side's half.
fn half(
    side: &Side,
    peer: Fingerprint,
    mut channel: FramedChannel,
    job: &Job,
) -> ([u8; 16], Zeroizing<Vec<u8>>) {
    let making = Job {
        protocol: job.protocol.clone(),
        peer_limits: PeerLimits {
            items: u64::MAX,
            ..PeerLimits::default()
        },
        ..Job::new(side.role, vec!["offline/1".into()])
    }
    .with(&SECURITY, Security::SemiHonest);
    let items = SIZES[usize::from(side.role == Role::Sender)];
    let (local, peer) = (Some(side.fingerprint), Some(peer));
    let nothing = &Checkpoint::Nothing;
    let agreement = agree(&mut channel, &making, items, nothing, local, peer).unwrap();
    let offline = agreement.protocol.offline().unwrap();
    let params = agreement.params;
    let mut rng = fresh_rng().unwrap();
    let half = offline.make(&mut channel, side.role.half(), &params, None, &mut rng);
    let mut pair = [0; 16];
    let mut hash = blake3::Hasher::new_keyed(&params.session);
    let hash = hash.update(b"the name of a pair");
    hash.finalize_xof().fill(&mut pair);
    let stored = Kind {
        code: 21,
        name: "stored",
    };
    channel.send(stored, Vec::new()).unwrap();
    channel.flush().unwrap();
    channel.recv(stored, 0).unwrap();
    (pair, half.unwrap())
}

/// A run of both sides, whose jobs may take halves from a store.
fn both_sides(name: &str, protocol: &dyn Protocol, jobs: [Job; 2], is_stored: bool) -> String {
    let is_usual = name.ends_with(", ");
    let [ours, theirs] = sides();
    let sides = [&ours, &theirs];
    let mut lines = String::new();
    let mut jobs = jobs;
    if is_stored {
        let (made, halves) = pair(name, protocol, sides, &jobs[0]);
        lines = made;
        for (job, half) in jobs.iter_mut().zip(halves) {
            job.offline = Some(Arc::new(half));
        }
    }
    let [ours, theirs] = &jobs;
    let (frames, results) = record(name, sides, |side, peer, channel| match side.role {
        Role::Receiver => run(side, peer, channel, ours),
        Role::Sender => run(side, peer, channel, theirs),
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
    let is_dealt = origin(protocol).is_some_and(Origin::is_dealt);
    let mut lines = String::new();
    for reveal in Reveals::all().filter(|reveals| protocol.can_reveal(*reveals)) {
        for (columns, (words, change)) in columns(reveal)
            .iter()
            .flat_map(|columns| CHANGES.map(|change| (columns, change)))
        {
            let sides = [Role::Receiver, Role::Sender];
            let jobs = [0, 1].map(|i| job(sides[i], protocol, reveal, columns[i], change));
            let has_no_such_form =
                words == "semi-honest" && spec.cheaper != Some(Security::SemiHonest);
            let has_no_buckets = words == "buckets" && (is_dealt || jobs[0].memory.is_none());
            if has_no_such_form || has_no_buckets || jobs.iter().any(|job| job.check().is_err()) {
                continue;
            }
            let whose = sides
                .iter()
                .zip(columns)
                .filter_map(|(side, columns)| match columns {
                    0 => None,
                    1 => Some(side.to_string()),
                    _ => Some(format!("{columns} of {side}")),
                });
            let whose = whose.collect::<Vec<_>>().join(" and ");
            let name = [spec.name, &reveal.to_string(), &whose, words].join(", ");
            lines += &both_sides(&name, protocol, jobs.clone(), is_dealt);
            if words.is_empty() && origin(protocol).is_some_and(|origin| !origin.is_dealt()) {
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
