//! Every run that there is: of each protocol, of all that it reveals and of changes of its terms, over memory and under
//! fixed seeds, with each frame that is sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

use rand_core::Rng;
use vesica_keys::KeyBlock;
use vesica_plan::buckets::split;
use vesica_psi::{KeyAgreement, Offline, Origin, Params, Protocol};
use vesica_testing::{Sent, digests, recorded_pair, with_seed};
use vesica_wire::{Channel, FramedChannel, Kind};
use zeroize::Zeroizing;

use crate::random::fresh_rng;
use crate::terms::{KEY_BITS, LAMBDA, LEARNS, MIN_SIZE, OPTIMIZE, POST_QUANTUM, REVEAL, SECURITY};
use crate::{
    Attempt, BucketShares, Checkpoint, Epsilon, Error, Fingerprint, GROUP_BYTES, GroupMinimum,
    GroupSizes, Grouping, HalfSource, Identity, Job, KeySet, LabelExchange, LabelTerms, Learns,
    MemorySet, Name, NoProgress, Noise, NoiseRequest, Offer, Opened, OptimizeRequest, PeerLimits,
    ProtocolRequest, Purpose, Registry, RepeatedKeys, Report, Reveal, Reveals, Role, Security,
    Tally, Terms, ValueTerms, agree, agree_on_job, confirm_done, exchange_openings, open_total,
    run_bucket, run_set_over,
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
pub(crate) struct Side {
    pub(crate) role: Role,
    pub(crate) fingerprint: Fingerprint,
}

fn sides() -> [Side; 2] {
    [Role::Receiver, Role::Sender].map(|role| Side {
        role,
        fingerprint: with_seed(&role.to_string(), Identity::generate)
            .unwrap()
            .fingerprint(),
    })
}

/// Runs both sides, each under a seed of its own; what each sends, and what it comes to.
fn both_sides<T: Send>(
    name: &str,
    act: impl Fn(&Side, Fingerprint, FramedChannel) -> T + Sync,
) -> ([Sent; 2], [T; 2]) {
    let [ours, theirs] = &sides();
    let [(near, our_sent), (far, their_sent)] = recorded_pair();
    let run = |side: &Side, peer: &Side, channel| {
        let name = format!("{name}, {}", side.role);
        with_seed(&name, || act(side, peer.fingerprint, channel))
    };
    let results = thread::scope(|scope| {
        let sender = scope.spawn(|| run(theirs, ours, far));
        [run(ours, theirs, near), sender.join().unwrap()]
    });
    ([our_sent, their_sent], results)
}

const SIZES: [u64; 2] = [60, 80];
/// Of runs in buckets, which smaller sets do not have.
const SIZES_IN_BUCKETS: [u64; 2] = [500, 600];
/// How many keys both sides have, unless a test says otherwise.
pub(crate) const SHARED: u64 = 13;

/// How a run differs from the usual one of its protocol and of what it reveals.
pub(crate) type Change = fn(&mut Job);

pub(crate) const CHANGES: [(&str, Change); 19] = [
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
    // Both sides', so that the sender can learn numbers too.
    ("noise", |job| job.noise = Some(noise())),
    ("noise and a minimum", |job| {
        job.noise = Some(noise());
        job.terms.set(&MIN_SIZE, SHARED);
    }),
    ("noise and padding", |job| {
        job.noise = Some(noise());
        job.pad_to = Some(100);
    }),
    ("traffic", |job| {
        job.terms.set(&OPTIMIZE, OptimizeRequest::Traffic)
    }),
    ("post-quantum", |job| job.terms.set(&POST_QUANTUM, true)),
    ("buckets", |job| job.memory = two_buckets(job)),
    ("groups", |job| divide(job, GroupSizes::Hidden)),
    ("groups of known sizes and a minimum", |job| {
        job.terms.set(&MIN_SIZE, SHARED / 5);
        divide(job, GroupSizes::Told);
    }),
    ("padded groups", |job| divide(job, GroupSizes::Padded(15))),
    ("labels", hand_over),
    ("payloads", |job| {
        job.labels = LabelExchange::Shared {
            bytes: match job.role {
                Role::Receiver => 3,
                Role::Sender => 20,
            },
        }
    }),
];

/// Groups of the receiver's keys, and the most of them.
const GROUPS: [&str; 4] = ["spring", "summer", "autumn", "winter"];

/// Divides the receiver's keys into groups of equally many; as many keys are in none.
fn divide(job: &mut Job, sizes: GroupSizes) {
    let each = self::sizes(job)[0] / (GROUPS.len() as u64 + 1);
    match job.role {
        Role::Sender => job.peer_limits.groups = GROUPS.len() as u16,
        Role::Receiver => {
            job.groups = Some(Grouping {
                groups: GROUPS.map(|name| (name.to_owned(), each)).to_vec(),
                rest: each,
                sizes,
                minimum: GroupMinimum::Each,
            });
        }
    }
}

fn hand_over(job: &mut Job) {
    job.labels = match job.role {
        Role::Receiver => LabelExchange::Wanted {
            most_bytes: 8,
            most_rows: 1,
        },
        Role::Sender => LabelExchange::Offered(LabelTerms::texts(5, vec!["city".into()])),
    };
}

fn noise() -> NoiseRequest {
    NoiseRequest {
        epsilon: Epsilon::from_millionths(500_000).unwrap(),
        split: Vec::new(),
    }
}

/// The most memory that makes two buckets of a run; `None` if its matches are not found bucket by bucket.
fn two_buckets(job: &Job) -> Option<u64> {
    static FOUND: Mutex<BTreeMap<&str, Option<u64>>> = Mutex::new(BTreeMap::new());
    let ProtocolRequest::Named(name) = &job.protocol else {
        return None;
    };
    let spec = job.registry.get(name)?.spec();
    let working_bytes = |sizes, lambda| spec.working_bytes_of(sizes, None, lambda);
    let sizes = SIZES_IN_BUCKETS;
    let has_two = |memory: &u64| {
        let split = split(sizes, 40, *memory, spec.max_items, working_bytes);
        split.is_some_and(|split| split.buckets == 2)
    };
    let known = FOUND.lock().unwrap().get(spec.name).copied();
    known.unwrap_or_else(|| {
        let whole = working_bytes(sizes, 40);
        let mut memories = (1..100).map(|part| whole - part * whole / 100);
        let memory = memories.find(has_two);
        FOUND.lock().unwrap().insert(spec.name, memory);
        memory
    })
}

/// How many values the receiver and the sender can have for a key.
fn columns(reveals: Reveals) -> &'static [[usize; 2]] {
    match reveals.each() {
        [Reveal::Sum] => &[[1, 0], [0, 1]],
        [Reveal::Size, Reveal::Sum] => &[[2, 0], [0, 2]],
        [.., Reveal::InnerProduct] => &[[1, 1]],
        [Reveal::Shares] => &[[0, 0], [1, 1]],
        [
            Reveal::Matches | Reveal::Size | Reveal::ThresholdMatches | Reveal::Union | Reveal::Ids,
        ] => &[[0, 0]],
        _ => panic!("{reveals}: say how many values go with it"),
    }
}

fn job(
    role: Role,
    (registry, protocol): (Registry, &dyn Protocol),
    reveal: Reveals,
    columns: usize,
    changes: &[Change],
) -> Job {
    let spec = protocol.spec();
    let values = ValueTerms {
        bound: 1000,
        scale: 2,
        repeated: RepeatedKeys::Sum,
    };
    let mut job = Job {
        registry,
        protocol: ProtocolRequest::named(spec.name),
        values: vec![values; columns],
        ..Job::new(role, vec!["integer:24/1".into()])
    }
    .with(&SECURITY, spec.security)
    .with(&REVEAL, reveal)
    .with(&MIN_SIZE, u64::from(reveal == Reveal::ThresholdMatches));
    if reveal.is_rows() {
        hand_over(&mut job);
    }
    changes.iter().for_each(|change| change(&mut job));
    job
}

/// The numbers of each side's items.
fn sizes(job: &Job) -> [u64; 2] {
    match job.memory {
        Some(_) => SIZES_IN_BUCKETS,
        None => SIZES,
    }
}

/// The keys of a side, `shared` of which the other has too.
fn set(job: &Job, shared: u64) -> MemorySet {
    let [ours, theirs] = sizes(job);
    let numbers = match job.role {
        Role::Receiver => 0..ours,
        Role::Sender => ours - shared..ours - shared + theirs,
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
    let mut labels: Vec<u8> = (0..bytes * keys.len()).map(|i| i as u8).collect();
    if job.groups.is_some() {
        labels = numbers.iter().flat_map(|number| group(*number)).collect();
    }
    let mut keys = KeyBlock::from(&keys);
    keys.values = (columns > 0).then(|| Cow::from(&values));
    keys.numbers = Some(Cow::from(&numbers));
    if !labels.is_empty() {
        keys.labels = Some(Cow::from(&labels));
    }
    MemorySet::new(keys.into_owned()).unwrap()
}

/// The label of a key with this number.
fn group(number: u64) -> [u8; GROUP_BYTES] {
    let mut label = [0; GROUP_BYTES];
    if let Some(name) = GROUPS.get(number as usize % (GROUPS.len() + 1)) {
        label[..name.len()].copy_from_slice(name.as_bytes());
    }
    label
}

/// One side of a run: its report, or why there is none.
fn run(
    side: &Side,
    peer: Fingerprint,
    mut channel: FramedChannel,
    job: &Job,
    shared: u64,
) -> Result<Report, Error> {
    let mut set = set(job, shared);
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

/// A pair of halves as `vesica-offline` makes or deals it, whose own recording says so; what is sent for that, if the
/// parties make it.
fn pair(name: &str, protocol: &dyn Protocol, job: &Job) -> (Option<[Sent; 2]>, [OneHalf; 2]) {
    let offline = protocol.offline().unwrap();
    let name = format!("{name}, offline");
    let bits = job.get(&KEY_BITS);
    let (sent, pair, contents) = match offline.origin().is_dealt() {
        true => {
            let params = Params {
                security: Security::SemiHonest,
                lambda: job.get(&LAMBDA),
                receiver_size: SIZES[0] as usize,
                sender_size: SIZES[1] as usize,
                key_agreement: KeyAgreement::default(),
                session: [0; 32],
            };
            with_seed(&format!("{name}, dealer"), || {
                let mut rng = fresh_rng().unwrap();
                let halves = offline.deal(&params, bits, &mut rng).unwrap();
                let mut pair = [0; 16];
                rng.fill_bytes(&mut pair);
                (None, pair, halves)
            })
        }
        false => {
            let make = |side: &Side, peer, channel| half(side, peer, channel, job);
            let (sent, [(pair, ours), (_, theirs)]) = both_sides(&name, make);
            (Some(sent), pair, [ours, theirs])
        }
    };
    let offer = Offer {
        name: Name(pair),
        receiver_size: SIZES[0],
        sender_size: SIZES[1],
    };
    (sent, contents.map(|content| OneHalf { offer, content }))
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

/// One side of a job in tasks.
fn tasks(
    side: &Side,
    peer: Fingerprint,
    mut channel: FramedChannel,
    job: &Job,
    shared: u64,
) -> Result<Report, Error> {
    let mut set = set(job, shared);
    let role = side.role;
    let fingerprints = [Some(side.fingerprint), Some(peer)];
    let [local, remote] = fingerprints;
    let channel = &mut channel;
    let nothing = &Checkpoint::Nothing;
    let agreement = agree(channel, job, set.items(), nothing, local, remote)?;
    set.assign(&agreement.assignment(), &agreement.state)?;
    let contract = &agreement.contract;
    let (mut tally, mut shares) = (Tally::new(contract), Vec::new());
    for bucket in 0..contract.buckets {
        let attempt = Attempt { bucket, number: 0 };
        let keys = set.load(bucket)?.into_owned();
        let attempted = run_bucket(channel, role, &agreement, attempt, fingerprints, keys)?;
        tally.add(attempt, true);
        shares.extend(BucketShares::of(&attempted));
    }
    agree_on_job(channel, &agreement)?;
    let ours = Opened::default();
    let (tallies, opened) = exchange_openings(channel, role, &agreement, tally, ours)?;
    if contract.get(&REVEAL).is_value() {
        let choice = Opened::choose(tallies.each_ref(), opened.each_ref(), contract);
        let choice = choice.unwrap().unwrap();
        let noise = Noise::draw_vartime(contract, role, &mut fresh_rng()?)?;
        let chosen = (&choice, &shares[..], &noise);
        open_total(channel, role, &agreement, fingerprints, chosen, || Ok(()))?;
    }
    confirm_done(channel, role)?;
    Ok(Report::of(&agreement.state, role))
}

fn origin(protocol: &dyn Protocol) -> Option<Origin> {
    protocol.offline().map(Offline::origin)
}

/// A run of both sides.
pub(crate) struct EveryRun<'a> {
    pub(crate) name: String,
    /// Whether nothing of it is changed.
    pub(crate) is_usual: bool,
    protocol: &'a dyn Protocol,
    jobs: [Job; 2],
    /// Whether it takes halves from a store.
    is_stored: bool,
}

/// What came of a run.
pub(crate) struct Taken {
    /// What both sides sent to make halves, if they did.
    pub(crate) made: Option<[Sent; 2]>,
    /// What both sides sent.
    pub(crate) sent: [Sent; 2],
    pub(crate) reports: [Result<Report, Error>; 2],
}

impl<'a> EveryRun<'a> {
    /// All runs of a protocol of the registry, each with one of these lists of changes and their names, as far as it can
    /// be asked for.
    pub(crate) fn of(
        registry: Registry,
        protocol: &'a dyn Protocol,
        changes: &[(String, Vec<Change>)],
    ) -> Vec<EveryRun<'a>> {
        let spec = protocol.spec();
        let is_dealt = origin(protocol).is_some_and(Origin::is_dealt);
        let is_made = origin(protocol).is_some() && !is_dealt;
        let mut runs = Vec::new();
        for reveal in Reveals::all().filter(|reveals| protocol.can_reveal(*reveals)) {
            let all = columns(reveal).iter();
            for (columns, (words, changes)) in
                all.flat_map(|columns| changes.iter().map(move |change| (columns, change)))
            {
                let sides = [Role::Receiver, Role::Sender];
                let jobs = [0, 1]
                    .map(|i| job(sides[i], (registry, protocol), reveal, columns[i], changes));
                let is_cheaper = words.contains("semi-honest");
                let has_no_such_form = is_cheaper && spec.cheaper != Some(Security::SemiHonest);
                let in_buckets = words.contains("buckets");
                let has_no_buckets = in_buckets && (is_dealt || jobs[0].memory.is_none());
                let cannot_be = jobs.iter().any(|job| job.check().is_err());
                if has_no_such_form || has_no_buckets || cannot_be {
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
                let run = |name, jobs, is_stored| EveryRun {
                    name,
                    is_usual: words.is_empty() && is_stored == is_dealt,
                    protocol,
                    jobs,
                    is_stored,
                };
                runs.push(run(name.clone(), jobs.clone(), is_dealt));
                if words.is_empty() && is_made {
                    runs.push(run(format!("{name}stored"), jobs, true));
                }
            }
        }
        runs
    }

    /// Takes place, with so many keys in common.
    pub(crate) fn take(&self, shared: u64) -> Taken {
        let mut jobs = self.jobs.clone();
        let mut made = None;
        if self.is_stored {
            let (sent, halves) = pair(&self.name, self.protocol, &jobs[0]);
            made = sent;
            for (job, half) in jobs.iter_mut().zip(halves) {
                job.offline = Some(Arc::new(half));
            }
        }
        let [ours, theirs] = &jobs;
        let (sent, reports) = both_sides(&self.name, |side, peer, channel| match side.role {
            Role::Receiver => run(side, peer, channel, ours, shared),
            Role::Sender => run(side, peer, channel, theirs, shared),
        });
        Taken {
            made,
            sent,
            reports,
        }
    }

    /// Takes place as tasks, whose drivers then open the total of numbers; all over one channel. `None` if there are no such
    /// tasks.
    pub(crate) fn take_as_tasks(&self, shared: u64) -> Option<Taken> {
        let [ours, theirs] = &self.jobs;
        let (sent, results) = both_sides(&self.name, |side, peer, channel| match side.role {
            Role::Receiver => tasks(side, peer, channel, ours, shared),
            Role::Sender => tasks(side, peer, channel, theirs, shared),
        });
        let is_none = |result: &Result<Report, Error>| matches!(result, Err(Error::Usage(_)));
        (!results.iter().any(is_none)).then_some(Taken {
            made: None,
            sent,
            reports: results,
        })
    }

    /// What the receiver wants of the peer.
    pub(crate) fn terms(&self) -> &Terms {
        &self.jobs[0].terms
    }

    /// The numbers of both sides' keys.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        sizes(&self.jobs[0])
    }
}
