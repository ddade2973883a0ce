//! The buckets of a run, in rounds: as many at once as the contract says.
//!
//! A round runs the next buckets, each over a connection of its own, the first over that of the contract. While it runs,
//! what the round before has found is recorded and the next one's keys are loaded. That begins with the round and is over
//! before the next one begins, so that neither the order of what a peer sees nor whether it waits depends on what matched.
//!
//! With one bucket at once there is one connection, and the sessions of buckets follow from that of the run. With several,
//! each bucket is an [attempt](crate::attempt), which binds its connection to the run.

use std::iter;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rayon::ThreadPool;
use vesica_keys::KeyBlock;
use vesica_psi::Output;
use vesica_wire::{Channel, Error as WireError, Interrupt, Kind, PhaseTraffic};

use crate::attempt::{self, Attempt, attempted};
use crate::buckets::bucket_session;
use crate::codec::Reader;
use crate::one_bucket::{BucketRun, one_bucket};
use crate::progress::{Beside, ObservedChannel};
use crate::threads::thread_pool;
use crate::{Agreement, Attempted, Connection, Fingerprint, KeySet, Role, State};

/// Says which of a run's connections this is.
const CONNECTION: Kind = Kind {
    code: 30,
    name: "connection of a run",
};

/// Of the threads of a run, one in so many works besides on the buckets next to those that run.
const THREADS_FOR_ONE_BESIDE: usize = 4;

/// The connections of a run.
pub(crate) struct Lanes<'a, 'c> {
    /// That of the contract. Whoever runs the rounds tells its peer of a failure.
    pub(crate) first: &'a mut ObservedChannel<'c>,
    /// Stops what waits for it.
    pub(crate) interrupt: Interrupt,
    /// The others.
    pub(crate) more: &'a mut [Connection],
    /// Our fingerprint, and the peer's.
    pub(crate) fingerprints: [Option<Fingerprint>; 2],
}

impl Lanes<'_, '_> {
    /// Traffic and time of each phase, those of all connections together; they run at the same time.
    pub(crate) fn traffic(&self) -> Vec<PhaseTraffic> {
        let mut all = self.first.traffic();
        for of_one in self.more.iter().flat_map(|more| more.channel.traffic()) {
            match all.iter_mut().find(|all| all.phase == of_one.phase) {
                Some(all) => {
                    all.bytes_sent += of_one.bytes_sent;
                    all.bytes_received += of_one.bytes_received;
                }
                None => all.push(of_one),
            }
        }
        all
    }
}

/// Takes the place of a further connection of a run: the side that connects says which one it is, from 1 on.
pub(crate) fn name_connection(
    channel: &mut dyn Channel,
    job: &[u8; 32],
    number: u32,
) -> Result<(), WireError> {
    let mut name = attempt::job_name(job).to_vec();
    name.extend(number.to_le_bytes());
    channel.send(CONNECTION, name)?;
    channel.flush()
}

/// Reads which of the further connections this is, on the side that listens.
///
/// Fails with `ContractDiffers` if it is one of another run.
pub(crate) fn number_of_connection(
    channel: &mut dyn Channel,
    job: &[u8; 32],
) -> Result<u32, WireError> {
    let name = channel.recv(CONNECTION, 36)?;
    let mut reader = Reader::new(CONNECTION.name, &name);
    attempt::check_job(&mut reader, job)?;
    let number = reader.u32()?;
    reader.end()?;
    Ok(number)
}

/// A bucket that is finished, and the state with it.
type Finished = (Output, State);

/// Runs the buckets that are left.
pub(crate) fn in_rounds(
    lanes: &mut Lanes<'_, '_>,
    role: Role,
    agreement: &Agreement,
    state: &mut State,
    set: &mut dyn KeySet,
) -> Result<(), WireError> {
    let buckets = agreement.contract.buckets;
    let at_once = lanes.more.len() as u32 + 1;
    let round = |first: u32| first..first.saturating_add(at_once).min(buckets);
    // The run's own threads may all wait for the peer.
    let threads = rayon::current_num_threads();
    let beside = thread_pool(threads.div_ceil(THREADS_FOR_ONE_BESIDE))?;
    let pools = match at_once {
        1 => Vec::new(),
        _ => (0..at_once)
            .map(|_| thread_pool((threads / at_once as usize).max(1)))
            .collect::<Result<_, _>>()?,
    };
    let mut before: Vec<Finished> = Vec::new();
    let mut loaded = load(set, round(state.finished()))?;
    while !loaded.is_empty() {
        let present = round(state.finished());
        for bucket in present.clone() {
            lanes.first.begin_bucket(bucket + 1, buckets);
        }
        let (mut next, keys) = (Ok(Vec::new()), std::mem::take(&mut loaded));
        let ended = beside.in_place_scope(|scope| {
            let (set, before, next) = (&mut *set, std::mem::take(&mut before), &mut next);
            let after = round(present.end);
            scope.spawn(move |_| *next = record(set, before).and_then(|()| load(set, after)));
            match pools.is_empty() {
                true => alone(lanes.first, role, agreement, present.start, keys),
                false => side_by_side(lanes, &pools, role, agreement, present.start, keys),
            }
        })?;
        loaded = next?;
        for attempted in ended {
            state.add(&attempted);
            before.push((attempted.output, state.clone()));
        }
    }
    record(set, before)
}

fn record(set: &mut dyn KeySet, finished: Vec<Finished>) -> Result<(), WireError> {
    finished
        .into_iter()
        .try_for_each(|(output, state)| set.finished(output, &state))
}

fn load(set: &mut dyn KeySet, buckets: Range<u32>) -> Result<Vec<KeyBlock<'static>>, WireError> {
    buckets
        .map(|bucket| Ok(set.load(bucket)?.into_owned()))
        .collect()
}

/// The next bucket, over the connection of the contract.
fn alone(
    channel: &mut ObservedChannel<'_>,
    role: Role,
    agreement: &Agreement,
    bucket: u32,
    keys: Vec<KeyBlock<'_>>,
) -> Result<Vec<Attempted>, WireError> {
    let run = BucketRun {
        role,
        agreement,
        session: bucket_session(&agreement.params.session, bucket),
    };
    keys.into_iter()
        .map(|keys| one_bucket(channel, &run, None, keys))
        .collect()
}

/// The buckets from the first on, each over a connection and on threads of its own. If one fails, all end, and the peer
/// hears why on the connections besides that of the contract.
fn side_by_side(
    lanes: &mut Lanes<'_, '_>,
    pools: &[ThreadPool],
    role: Role,
    agreement: &Agreement,
    first: u32,
    keys: Vec<KeyBlock<'_>>,
) -> Result<Vec<Attempted>, WireError> {
    let fingerprints = lanes.fingerprints;
    let own = lanes.interrupt.clone();
    let interrupts = lanes.more.iter().map(|more| more.deadline.interrupt());
    let interrupts: Vec<Interrupt> = iter::once(own).chain(interrupts).collect();
    let failure: Mutex<Option<WireError>> = Mutex::new(None);
    let fail = |error| {
        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        interrupts.iter().for_each(Interrupt::raise);
    };
    let mut besides: Vec<Beside> = lanes
        .more
        .iter()
        .map(|more| lanes.first.beside(&more.channel))
        .collect();
    let mut observed: Vec<ObservedChannel<'_>> = lanes
        .more
        .iter_mut()
        .zip(&mut besides)
        .map(|(more, beside)| ObservedChannel::new(&mut more.channel, beside))
        .collect();
    let ended = thread::scope(|scope| {
        let mut runs = Vec::new();
        let own: &mut dyn Channel = &mut *lanes.first;
        let more = observed.iter_mut().map(|more| more as &mut dyn Channel);
        let channels = iter::once(own).chain(more);
        for (((channel, pool), bucket), keys) in channels.zip(pools).zip(first..).zip(keys) {
            let fail = &fail;
            let attempt = Attempt { bucket, number: 0 };
            let run = move || {
                let attempted = || attempted(channel, role, agreement, attempt, fingerprints, keys);
                pool.install(attempted).map_err(fail).ok()
            };
            match thread::Builder::new().spawn_scoped(scope, run) {
                Ok(run) => runs.push(run),
                Err(error) => fail(WireError::no_thread(error)),
            }
        }
        let ended = runs.into_iter().map(|run| match run.join() {
            Ok(attempted) => attempted,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.flatten().collect::<Vec<_>>()
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => Ok(ended),
        Some(error) => {
            for more in &mut *lanes.more {
                more.channel.abort(&error);
            }
            Err(error)
        }
    }
}
