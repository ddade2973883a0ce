//! Running one job over an open connection.

use std::time::Instant;

use vesica_psi::{Exact, Input, Output, Part, Prepared, Reveal, indices_vartime};
use vesica_wire::{Channel, Error as WireError, HEADER_BYTES, Kind, Limit, PhaseTraffic};
use zeroize::{Zeroize, Zeroizing};

use crate::buckets::{bucket_session, pad};
use crate::codec::differ;
use crate::items::all_distinct;
use crate::random::fresh_rng;
use crate::terms::{KEY_BITS, LEARNS, REVEAL};
use crate::threads::thread_pool;
use crate::{
    Agreement, Begin, BucketKeys, Connection, Decimal, Error, Fingerprint, Job, KeySet, Learns,
    MemorySet, Report, Role, State, ValueTerms, agree, confirm_done, halves, order, salt_items,
    value,
};

/// The result of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Indices of this side's digests that the peer also holds, ascending; `None` on a side that does not
    /// learn them, and where fewer match than the job asks for. The receiver tells a sender, and can lie.
    pub matches: Option<Vec<u32>>,
    /// The report; the table's figures are zero until the caller fills them in.
    pub report: Report,
}

/// Receives the progress of a run. Called on the thread that runs the job; every method does nothing unless it
/// is overridden.
pub trait Progress: Send {
    /// A phase begins.
    fn phase(&mut self, name: &'static str) {
        let _ = name;
    }

    /// The contract is agreed: after how many buckets the run begins, and how many there are.
    fn begin(&mut self, begin: Begin, buckets: u32) {
        let _ = (begin, buckets);
    }

    /// The run over a bucket begins, the `number`-th of `of`, counted from 1. Only in runs of several
    /// buckets; a resumed run does not begin with the first.
    fn bucket(&mut self, number: u32, of: u32) {
        let _ = (number, of);
    }

    /// Bytes sent and received so far, framing included.
    fn bytes(&mut self, sent: u64, received: u64) {
        let _ = (sent, received);
    }

    /// Of the `total` items of the phase's current step, `done` are done. Another total, or a smaller `done`,
    /// means that another step has begun.
    fn step(&mut self, done: u64, total: u64) {
        let _ = (done, total);
    }
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// Runs the job: contract, protocol, confirmation, report.
///
/// `digests` are the canonical 32-byte digests of this side's distinct keys, each once; the session's salt is
/// applied here. On failure the peer is told why, but never anything about items.
///
/// Fails with [`Error::Usage`] for an impossible job and for digests that repeat, else with [`Error::Run`].
pub fn run(
    mut connection: Connection,
    job: &Job,
    digests: &[[u8; 32]],
    progress: &mut dyn Progress,
) -> Result<Outcome, Error> {
    let (local, peer) = (connection.local, connection.peer);
    run_over(&mut connection.channel, local, peer, job, digests, progress)
}

/// Runs the job as [`run`] does, over any channel; the fingerprints are bound into the session.
///
/// Fails as [`run`] does.
pub fn run_over(
    channel: &mut dyn Channel,
    local: Option<Fingerprint>,
    peer: Option<Fingerprint>,
    job: &Job,
    digests: &[[u8; 32]],
    progress: &mut dyn Progress,
) -> Result<Outcome, Error> {
    if job.get(&REVEAL) == Reveal::Shares || !job.values.is_empty() || !job.labels.is_nothing() {
        let problem = "values, labels and shares go with a set of keys, in `run_set`";
        return Err(Error::Usage(problem.into()));
    }
    let mut set = MemorySet::new(digests)?;
    let report = run_set_over(channel, local, peer, job, &mut set, progress)?;
    let matched = set.matched().filter(|_| report.below.is_none());
    Ok(Outcome {
        matches: matched.map(indices_vartime),
        report,
    })
}

/// Runs the job on a set that need not be in memory. Its matches go back into the set.
///
/// Fails with [`Error::Usage`] for an impossible job, with [`Error::PeerProblem`] if the peer cannot take part, else with
/// [`Error::Run`].
pub fn run_set(
    connection: Connection,
    job: &Job,
    set: &mut dyn KeySet,
    progress: &mut dyn Progress,
) -> Result<Report, Error> {
    agree_on_set(connection, job, set, progress)?.run(job, set, progress)
}

/// A connection over which both sides have agreed on a contract.
pub struct Agreed {
    connection: Connection,
    agreement: Agreement,
    began: Instant,
}

/// The first part of [`run_set`]: the contract. The set is not changed.
///
/// Fails as [`run_set`] does.
pub fn agree_on_set(
    mut connection: Connection,
    job: &Job,
    set: &dyn KeySet,
    progress: &mut dyn Progress,
) -> Result<Agreed, Error> {
    let (local, peer, began) = (connection.local, connection.peer, Instant::now());
    connection.deadline.of_contract();
    let job = job.over(connection.link);
    let mut channel = ObservedChannel::new(&mut connection.channel, progress);
    let agreement = agree_for(&mut channel, &job, set, [local, peer])?;
    connection.deadline.of_run(&agreement);
    Ok(Agreed {
        connection,
        agreement,
        began,
    })
}

impl Agreed {
    /// The second part of [`run_set`], with the same job and set.
    ///
    /// Fails as [`run_set`] does.
    pub fn run(
        mut self,
        job: &Job,
        set: &mut dyn KeySet,
        progress: &mut dyn Progress,
    ) -> Result<Report, Error> {
        let peer = self.connection.peer;
        let mut channel = ObservedChannel::new(&mut self.connection.channel, progress);
        run_agreed(&mut channel, peer, &self.agreement, self.began, job, set)
    }
}

/// Runs the job as [`run_set`] does, over any channel.
///
/// Fails as [`run_set`] does.
pub fn run_set_over(
    channel: &mut dyn Channel,
    local: Option<Fingerprint>,
    peer: Option<Fingerprint>,
    job: &Job,
    set: &mut dyn KeySet,
    progress: &mut dyn Progress,
) -> Result<Report, Error> {
    let began = Instant::now();
    let mut channel = ObservedChannel::new(channel, progress);
    let agreement = agree_for(&mut channel, job, set, [local, peer])?;
    run_agreed(&mut channel, peer, &agreement, began, job, set)
}

/// The contract of a run over a set, between this side and the peer.
fn agree_for(
    channel: &mut dyn Channel,
    job: &Job,
    set: &dyn KeySet,
    [local, peer]: [Option<Fingerprint>; 2],
) -> Result<Agreement, Error> {
    agree(channel, job, set.items(), &set.checkpoint(), local, peer)
}

/// Runs the job once the contract is agreed, which began at this time.
fn run_agreed(
    channel: &mut ObservedChannel<'_>,
    peer: Option<Fingerprint>,
    agreement: &Agreement,
    began: Instant,
    job: &Job,
    set: &mut dyn KeySet,
) -> Result<Report, Error> {
    let items = set.items();
    let buckets = agreement.contract.buckets;
    channel.progress.begin(agreement.begin, buckets);
    if agreement.contract.offline.is_some() {
        channel.begin_phase("store");
    }
    let offer = job.offline.as_ref().zip(agreement.contract.offer());
    let stored = offer.map(|(source, offer)| {
        let taken = source.take(&offer, &job.purpose(items, peer));
        taken.inspect_err(|_| {
            let why = "its half of the stored correlations cannot be used";
            channel.abort(&WireError::limit(Limit::Offline, why));
        })
    });
    let stored = stored.transpose()?;
    if stored.is_some() {
        halves::both_have_taken(channel).inspect_err(|error| channel.abort(error))?;
    }
    let (state, answer) = protocol(channel, job.role, agreement, stored, set)
        .inspect_err(|error| channel.abort(error))?;
    let phases = channel.traffic();
    let mut report = Report {
        bytes_sent: phases.iter().map(|phase| phase.bytes_sent).sum(),
        bytes_received: phases.iter().map(|phase| phase.bytes_received).sum(),
        seconds: began.elapsed().as_secs_f64(),
        phases,
        peer,
        ..Report::of(&state, job.role)
    };
    match answer {
        Some(Answer::Values(all)) => {
            let numbers = agreement.contract.numbers().into_iter().zip(all);
            let named = |((name, scale), units)| (name, Decimal { units, scale });
            report.tell(numbers.map(named).collect());
        }
        Some(Answer::Below(least)) => report.below = Some(least),
        None => {}
    }
    Ok(report)
}

/// What a side learns instead of matches.
enum Answer {
    Values(Vec<i128>),
    Below(u64),
}

impl Answer {
    fn of(output: &Output) -> Option<Answer> {
        match output {
            Output::Values(values) => Some(Answer::Values(values.clone())),
            Output::Below(least) => Some(Answer::Below(*least)),
            _ => None,
        }
    }
}

/// Runs every bucket, and the confirmation; returns the state at the end, and the answer if it is no set.
fn protocol(
    channel: &mut ObservedChannel<'_>,
    role: Role,
    agreement: &Agreement,
    stored: Option<Zeroizing<Vec<u8>>>,
    set: &mut dyn KeySet,
) -> Result<(State, Option<Answer>), WireError> {
    let mut answer = None;
    let mut state = agreement.state.clone();
    channel.begin_phase("items");
    set.assign(&agreement.assignment(), &state)?;
    match agreement.contract.buckets {
        _ if state.is_complete() => {}
        1 => {
            let keys = set.load(0)?;
            let output = one_bucket(channel, role, agreement, 0, stored, None, keys)?;
            answer = Answer::of(&output);
            state.add(&output);
            set.finished(output, &state)?;
        }
        _ => answer = in_turn(channel, role, agreement, &mut state, set)?,
    }
    confirm_done(channel, role)?;
    Ok((state, answer))
}

/// Of the threads of a run, one in so many works besides on the buckets next to the one that runs.
const THREADS_FOR_ONE_BESIDE: usize = 4;

/// Runs the buckets that are left. While one runs, the one before is recorded and the one after is loaded.
///
/// That begins with the bucket and is over before the next one does, so that neither the order of what a peer sees nor
/// whether it waits depends on what matched.
fn in_turn(
    channel: &mut ObservedChannel<'_>,
    role: Role,
    agreement: &Agreement,
    state: &mut State,
    set: &mut dyn KeySet,
) -> Result<Option<Answer>, WireError> {
    let buckets = agreement.contract.buckets;
    // The run's own threads may all wait for the peer.
    let threads = rayon::current_num_threads().div_ceil(THREADS_FOR_ONE_BESIDE);
    let beside = thread_pool(threads)?;
    let mut before: Option<Output> = None;
    let mut keys = Some(set.load(state.finished())?.into_owned());
    while let Some(present) = keys.take() {
        let bucket = state.finished();
        channel.progress.bucket(bucket + 1, buckets);
        let mut loaded = Ok(None);
        let carried = state.carried_after(bucket);
        let carried = carried.as_ref().map(|carried| &carried.0[..]);
        let output = beside.in_place_scope(|scope| {
            let (set, state, before, loaded) = (&mut *set, &*state, before.take(), &mut loaded);
            scope.spawn(move |_| *loaded = record_and_load(set, state, before));
            one_bucket(channel, role, agreement, bucket, None, carried, present)
        })?;
        keys = loaded?;
        state.add(&output);
        before = Some(output);
    }
    let Some(last) = before else {
        return Ok(None);
    };
    let answer = Answer::of(&last);
    set.finished(last, state)?;
    Ok(answer)
}

/// Records the last of the finished buckets, if this run has finished one, and loads the one after the next, if there is
/// one.
fn record_and_load(
    set: &mut dyn KeySet,
    state: &State,
    finished: Option<Output>,
) -> Result<Option<BucketKeys<'static>>, WireError> {
    if let Some(output) = finished {
        set.finished(output, state)?;
    }
    let next = state.finished() + 1;
    let load = |bucket| Ok(set.load(bucket)?.into_owned());
    (next < state.contract.buckets)
        .then_some(next)
        .map(load)
        .transpose()
}

/// Says which bucket a side runs.
const BUCKET: Kind = Kind {
    code: 19,
    name: "bucket",
};

/// Runs the protocol over the keys of one bucket, over a channel of its own. Returns what this side learns
/// about its digests; the time does not depend on that, unless the peer learns it too. Buckets share nothing
/// that is random or derived from a session, so they may run one after another or at once, wherever the
/// [`Agreement`] is.
///
/// `digests` are those that [`Agreement::assignment`] puts into the bucket; they are padded here to the size
/// in the contract. Run each bucket once: another attempt needs another agreement, or a dishonest peer could
/// prepare for it. A failure is reported to the peer.
///
/// # Errors
/// Usage: no such bucket, one that an earlier run has finished, or digests that repeat or are too few. Run: the
/// channel's; `ContractDiffers` if the peer runs another bucket or agreement; `Resource` if too many digests fell
/// into the bucket.
pub fn run_bucket(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    bucket: u32,
    keys: BucketKeys<'_>,
) -> Result<Output, Error> {
    let usage = |problem: String| Err(Error::Usage(problem));
    let (buckets, size) = (agreement.contract.buckets, agreement.own_size(role));
    if !(agreement.state.finished()..buckets).contains(&bucket) {
        return usage(format!(
            "bucket {bucket} of {buckets} is none that is left to run"
        ));
    }
    if agreement.contract.offline.is_some() {
        return usage("stored correlations are for runs over a whole set".into());
    }
    if agreement.task_of(bucket).part != Part::WHOLE {
        return usage("numbers are added up over all buckets in order".into());
    }
    let digests = &keys.digests;
    if !all_distinct(digests) || buckets == 1 && digests.len() != size {
        return usage("the digests are not those of the bucket, each once".into());
    }
    let run = || {
        let session = bucket_session(&agreement.params.session, bucket);
        let name = blake3::keyed_hash(&session, b"vesica/1 bucket that runs");
        channel.send(BUCKET, name.as_bytes().to_vec())?;
        channel.flush()?;
        if channel.recv(BUCKET, 32)? != name.as_bytes() {
            return Err(differ("bucket", bucket, "another one"));
        }
        one_bucket(channel, role, agreement, bucket, None, None, keys)
    };
    let output = run();
    Ok(output.inspect_err(|error| channel.abort(error))?)
}

/// The protocol over the keys of one bucket, as [`run_bucket`] runs it, once both sides have reached that
/// bucket.
fn one_bucket(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    bucket: u32,
    stored: Option<Zeroizing<Vec<u8>>>,
    carried: Option<&[u64]>,
    mut keys: BucketKeys<'_>,
) -> Result<Output, WireError> {
    let mut rng = fresh_rng()?;
    let (protocol, task) = (agreement.protocol, &agreement.task_of(bucket));
    let mut params = agreement.params.clone();
    if agreement.contract.buckets > 1 {
        params.session = bucket_session(&params.session, bucket);
        channel.begin_phase("items");
    }
    let own = keys.digests.len();
    let columns = agreement.contract.values_of(role);
    check_values(columns, own, keys.values.as_deref())?;
    // What is handed over, or shared: a contract has one of these at most.
    let label_bytes = match role {
        Role::Receiver => task.string_bytes.receiver,
        Role::Sender => task.label_bytes.max(task.string_bytes.sender),
    };
    if keys.labels.as_ref().map_or(0, |labels| labels.len()) != own * label_bytes {
        let reason = "the items do not have the labels that were declared";
        return Err(WireError::limit(Limit::Input, reason));
    }
    let compared = protocol.spec().compares(agreement.contract.get(&KEY_BITS));
    if let Some((_, bits)) = compared {
        check_numbers(bits, own, keys.numbers.as_deref())?;
    }
    let mut items = salt_items(&params.session, std::mem::take(&mut keys.digests));
    if !pad(&mut items, agreement.own_size(role), &mut rng) {
        // The number is not for the peer.
        return Err(WireError::limit(
            Limit::Encoding,
            "too many items fell into one bucket; run again",
        ));
    }
    // Padding matches nothing: whatever its values are, they count for nothing.
    let values = keys.values.as_deref();
    let values = values.map(|values| padded(values, items.len() * columns.len()));
    let labels = keys.labels.as_deref().unwrap_or_default();
    let labels = (label_bytes > 0).then(|| padded(labels, items.len() * label_bytes));
    let numbers = keys.numbers.take();
    drop(keys);
    let input = Input::with_values(&items, values.as_deref().map(Vec::as_slice));
    let input = input.with_labels(labels.as_deref().map(Vec::as_slice));
    let input = input.with_carried(carried);
    let exact = compared.zip(numbers.as_deref());
    let input = exact.map_or(input, |((_, bits), numbers)| {
        input.with_exact(Exact { bits, numbers })
    });
    if role == Role::Receiver || stored.is_some() {
        channel.begin_phase("prepare");
    }
    let prepared = match (stored, role) {
        (Some(half), _) => halves::load(
            protocol,
            role,
            &params,
            agreement.contract.get(&KEY_BITS),
            half,
        )?,
        (None, Role::Receiver) => protocol.prepare(items.len(), &mut rng),
        (None, Role::Sender) => Prepared::nothing(),
    };
    let mut output = match role {
        Role::Receiver => protocol.receive(channel, &params, task, input, prepared, &mut rng)?,
        Role::Sender => protocol.send(channel, &params, task, input, prepared, &mut rng)?,
    };
    // Padding is nobody's item, whatever the peer says of it.
    match &mut output {
        Output::Matches(matched) => matched.truncate(own),
        Output::Labelled {
            matched,
            labels,
            bytes,
        } => {
            matched.truncate(own);
            labels.truncate(own * *bytes);
        }
        _ => {}
    }
    if role == Role::Sender
        && let Output::Values(told) = &output
    {
        let contract = &agreement.contract;
        let most = contract.receiver_size.min(contract.sender_size);
        value::check_told(contract.get(&REVEAL), contract.values(), most, told)?;
    }
    if agreement.contract.get(&LEARNS) == Learns::Aligned
        && let Some(matched) = output.matched()
    {
        order::confirm(channel, role, &items[..own], matched)?;
    }
    Ok(output)
}

/// Refuses values that are not what this side has declared.
fn check_values(
    columns: &[ValueTerms],
    items: usize,
    values: Option<&[i64]>,
) -> Result<(), WireError> {
    let wrong = |reason: &str| Err(WireError::limit(Limit::Input, reason));
    let values = values.unwrap_or_default();
    if values.len() != items * columns.len() {
        return wrong("the items do not have the values that the contract has");
    }
    let above = |(value, terms): (&i64, &ValueTerms)| u64::from(value.unsigned_abs() > terms.bound);
    match values.iter().zip(columns.iter().cycle()).map(above).sum() {
        0u64 => Ok(()),
        _ => wrong("a value exceeds the bound that was declared"),
    }
}

/// Refuses keys that are to be compared as numbers of so many bits and have none.
fn check_numbers(bits: u32, keys: usize, numbers: Option<&[u64]>) -> Result<(), WireError> {
    let most = u64::MAX >> (64 - bits);
    match numbers {
        Some(numbers) if numbers.len() == keys && numbers.iter().all(|n| *n <= most) => Ok(()),
        _ => Err(WireError::limit(
            Limit::Input,
            format!("a key is no number of {bits} bits"),
        )),
    }
}

/// The values or labels of a bucket's keys, and zeros for its padding.
fn padded<T>(of_keys: &[T], size: usize) -> Zeroizing<Vec<T>>
where
    T: Copy + Default + Zeroize,
{
    let mut padded = Zeroizing::new(Vec::with_capacity(size));
    padded.extend_from_slice(of_keys);
    padded.resize(size, T::default());
    padded
}

/// A channel that reports its traffic to a [`Progress`].
pub struct ObservedChannel<'a> {
    channel: &'a mut dyn Channel,
    progress: &'a mut dyn Progress,
    sent: u64,
    received: u64,
}

impl<'a> ObservedChannel<'a> {
    /// Reports what passes over `channel` from now on; the sums are those of the whole connection.
    pub fn new(channel: &'a mut dyn Channel, progress: &'a mut dyn Progress) -> Self {
        let traffic = channel.traffic();
        ObservedChannel {
            sent: traffic.iter().map(|phase| phase.bytes_sent).sum(),
            received: traffic.iter().map(|phase| phase.bytes_received).sum(),
            channel,
            progress,
        }
    }
}

impl Channel for ObservedChannel<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        let bytes = HEADER_BYTES + payload.len();
        self.channel.send(kind, payload)?;
        self.sent += bytes as u64;
        self.progress.bytes(self.sent, self.received);
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        let payload = self.channel.recv(kind, max)?;
        self.received += (HEADER_BYTES + payload.len()) as u64;
        self.progress.bytes(self.sent, self.received);
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.channel.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.progress.phase(name);
        self.channel.begin_phase(name);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.progress.step(done, total);
        self.channel.progress(done, total);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        self.channel.abort(why);
    }
}
