//! Running one job over an open connection.

use std::time::Instant;

use rand_core::CryptoRng;
use vesica_kernels::memory::KeepFreed;
use vesica_keys::KeyBlock;
use vesica_psi::{Output, Reveal, indices_vartime};
use vesica_wire::{Channel, Error as WireError, Interrupt, Kind, Limit};
use zeroize::Zeroizing;

use crate::agree::agree_as;
use crate::codec::bad;
use crate::noise::Drawing;
use crate::one_bucket::{BucketRun, one_bucket, one_bucket_with};
use crate::opening::open_numbers;
use crate::random::fresh_rng;
use crate::rounds::{Lanes, in_rounds, name_connection, number_of_connection};
use crate::terms::{BUCKETS_AT_ONCE, RECEIPTS, REVEAL};
use crate::threshold::open_matches;
use crate::turns::Turns;
use crate::{
    Agreement, BucketShares, Connection, Contract, Error, Fingerprint, Identity, Job, KeySet,
    MemorySet, Noise, ObservedChannel, Progress, Receipts, Report, Role, State, TaskKeys, agree,
    confirm_done, halves, receipt,
};

/// The result of a job.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// Indices of this side's digests that the peer also holds, ascending; `None` on a side that does not
    /// learn them, and where fewer match than the job asks for. The receiver tells a sender, and can lie.
    pub matches: Option<Vec<u32>>,
    /// The report; the table's figures are zero until the caller fills them in.
    pub report: Report,
}

vesica_primitives::opaque!(Outcome, report);

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
    let reveal = job.get(&REVEAL);
    let goes_with_keys = reveal == Reveal::Shares || reveal.is_ids();
    if goes_with_keys || !job.values.is_empty() || !job.labels.is_nothing() {
        let problem = "values, labels, shares and ids go with a set of keys, in `run_set`";
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

/// Says that a side has kept a job.
const KEPT: Kind = Kind {
    code: 31,
    name: "job kept",
};

/// A connection over which both sides have agreed on a contract.
pub struct Agreed {
    connection: Connection,
    /// The further ones, in the order of their numbers.
    more: Vec<Option<Connection>>,
    agreement: Agreement,
    /// Whether the sides have their receipts, if they want any.
    has_receipts: bool,
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
    let further = agreement.contract.get(&BUCKETS_AT_ONCE) - 1;
    Ok(Agreed {
        connection,
        more: (0..further).map(|_| None).collect(),
        has_receipts: !agreement.contract.get(&RECEIPTS),
        agreement,
        began,
    })
}

impl Agreed {
    /// What both sides have agreed on.
    pub fn contract(&self) -> &Contract {
        &self.agreement.contract
    }

    /// The peer's fingerprint; `None` over plaintext.
    pub fn peer(&self) -> Option<Fingerprint> {
        self.connection.peer
    }

    /// How many further connections the run takes: one for each bucket that runs beside another.
    pub fn missing_connections(&self) -> usize {
        self.more.iter().filter(|more| more.is_none()).count()
    }

    /// Adds a further connection to the same peer, on the side that has connected. The peer has to
    /// [accept](Agreed::add_accepted) as many.
    ///
    /// Fails with [`Error::Run`] as the channel does, and then the peer has been told.
    pub fn add_connected(&mut self, mut connection: Connection) -> Result<(), Error> {
        connection.deadline.of_run(&self.agreement);
        let job = &self.agreement.params.session;
        let place = self.more.iter().position(Option::is_none);
        let place = place.ok_or_else(|| Error::Usage("the run has its connections".into()))?;
        let named = name_connection(&mut connection.channel, job, place as u32 + 1);
        self.place(place, connection, named)
    }

    /// Adds a further connection to the same peer, on the side that listens.
    ///
    /// Fails with [`Error::Run`]: as the channel does; with `ContractDiffers` for a connection of another run, with
    /// `PeerMisbehaved` for one that the run does not take. The peer has been told then.
    pub fn add_accepted(&mut self, mut connection: Connection) -> Result<(), Error> {
        connection.deadline.of_run(&self.agreement);
        let job = &self.agreement.params.session;
        let place = number_of_connection(&mut connection.channel, job).and_then(|number| {
            let place = (number as usize).checked_sub(1);
            place
                .filter(|place| self.more.get(*place).is_some_and(Option::is_none))
                .ok_or_else(|| bad("number of a connection", "out of range, or taken"))
        });
        match place {
            Ok(place) => self.place(place, connection, Ok(())),
            Err(error) => self.place(0, connection, Err(error)),
        }
    }

    fn place(
        &mut self,
        place: usize,
        mut connection: Connection,
        named: Result<(), WireError>,
    ) -> Result<(), Error> {
        if let Err(error) = named {
            connection.channel.abort(&error);
            self.give_up(&error);
            return Err(error.into());
        }
        self.more[place] = Some(connection);
        Ok(())
    }

    /// What both sides have agreed on.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Gives the peer a receipt that `identity` signs, and takes its own, if the [contract](RECEIPTS) asks for that. `head` is the
    /// hash of the last entry of this side's account of runs. Do it before [`Agreed::run`] or [`Agreed::keep`].
    ///
    /// Fails with [`Error::Run`] as the channel does, and with `PeerMisbehaved` for a receipt that is not the peer's of this
    /// run; the peer has been told then.
    pub fn exchange_receipts(
        &mut self,
        role: Role,
        identity: &Identity,
        head: Option<[u8; 32]>,
    ) -> Result<Option<Receipts>, Error> {
        if self.has_receipts {
            return Ok(None);
        }
        let sides = [self.connection.local, self.connection.peer];
        let (channel, agreement) = (&mut self.connection.channel, &self.agreement);
        let receipts = receipt::exchange(channel, role, agreement, (identity, sides), head);
        let receipts = receipts.inspect_err(|error| {
            if let Error::Run(error) = error {
                self.give_up(error);
            }
        })?;
        self.has_receipts = true;
        Ok(Some(receipts))
    }

    fn check_receipts(&mut self) -> Result<(), Error> {
        if !self.has_receipts {
            receipt::check_none(&self.agreement).inspect_err(|error| self.give_up(error))?;
        }
        Ok(())
    }

    /// Tells the peer the keys of this side's tasks, and hears those of its tasks.
    ///
    /// Fails with [`Error::Run`] as the channel does, and with `PeerMisbehaved` if the peer's are not one for each attempt;
    /// the peer has been told then.
    pub fn exchange_task_keys(&mut self, role: Role, ours: &TaskKeys) -> Result<TaskKeys, Error> {
        self.check_receipts()?;
        let channel = &mut self.connection.channel;
        let theirs = ours.exchange(channel, role, &self.agreement.contract);
        Ok(theirs.inspect_err(|error| channel.abort(error))?)
    }

    /// Ends the connection once both sides have kept the job for tasks, as `keep` does on this one.
    ///
    /// Fails with [`Error::Run`] if one of them cannot, and then the peer has been told.
    pub fn keep<T>(mut self, keep: impl FnOnce() -> Result<T, WireError>) -> Result<T, Error> {
        let channel = &mut self.connection.channel;
        let kept = keep().and_then(|kept| {
            channel.begin_phase("done");
            channel.send(KEPT, Vec::new())?;
            channel.flush()?;
            channel.recv(KEPT, 0)?;
            Ok(kept)
        });
        Ok(kept.inspect_err(|error| channel.abort(error))?)
    }

    /// Tells the peer that the run does not take place.
    pub fn give_up(&mut self, why: &WireError) {
        self.connection.channel.abort(why);
        for more in self.more.iter_mut().flatten() {
            more.channel.abort(why);
        }
    }

    /// The second part of [`run_set`], with the same job and set.
    ///
    /// Fails as [`run_set`] does, and with [`Error::Usage`] if connections are missing.
    pub fn run(
        mut self,
        job: &Job,
        set: &mut dyn KeySet,
        progress: &mut dyn Progress,
    ) -> Result<Report, Error> {
        if self.missing_connections() > 0 {
            return Err(Error::Usage("the run lacks connections".into()));
        }
        self.check_receipts()?;
        let mut more: Vec<Connection> = self.more.drain(..).flatten().collect();
        let fingerprints = [self.connection.local, self.connection.peer];
        let mut lanes = Lanes {
            first: &mut ObservedChannel::new(&mut self.connection.channel, progress),
            interrupt: self.connection.deadline.interrupt(),
            more: &mut more,
            fingerprints,
        };
        run_agreed(&mut lanes, &self.agreement, self.began, job, set)
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
    // There is no other connection.
    let job = &job.clone().with(&BUCKETS_AT_ONCE, 1);
    let agreement = agree_for(&mut channel, job, set, [local, peer])?;
    receipt::check_none(&agreement).inspect_err(|error| channel.abort(error))?;
    let mut lanes = Lanes {
        first: &mut channel,
        interrupt: Interrupt::new(),
        more: &mut [],
        fingerprints: [local, peer],
    };
    run_agreed(&mut lanes, &agreement, began, job, set)
}

/// Runs the job over the messages of a peer that is not there, unless `admit` fails once the contract is agreed.
pub(crate) fn run_by_turns(
    channel: &mut dyn Channel,
    turns: &Turns,
    [local, peer]: [Fingerprint; 2],
    job: &Job,
    set: &mut dyn KeySet,
    admit: &mut dyn FnMut(&Agreement) -> Result<(), Error>,
    progress: &mut dyn Progress,
) -> Result<Report, Error> {
    let began = Instant::now();
    let mut channel = ObservedChannel::new(channel, progress);
    let (items, checkpoint) = (set.items(), set.checkpoint());
    let sides = [Some(local), Some(peer)];
    let job = &job.clone().with(&BUCKETS_AT_ONCE, 1);
    let agreement = agree_as(&mut channel, job, items, &checkpoint, sides, Some(turns))?;
    admit(&agreement)?;
    let mut lanes = Lanes {
        first: &mut channel,
        interrupt: Interrupt::new(),
        more: &mut [],
        fingerprints: sides,
    };
    run_agreed(&mut lanes, &agreement, began, job, set)
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
    lanes: &mut Lanes<'_, '_>,
    agreement: &Agreement,
    began: Instant,
    job: &Job,
    set: &mut dyn KeySet,
) -> Result<Report, Error> {
    let items = set.items();
    let [_, peer] = lanes.fingerprints;
    let channel = &mut *lanes.first;
    let buckets = agreement.contract.buckets;
    channel.begin(agreement.begin, buckets);
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
    let (state, opened) = protocol(lanes, job.role, agreement, stored, set)
        .inspect_err(|error| lanes.first.abort(error))?;
    // The peer does not hear of this: that a bit which it has changed is noticed would tell it that too few match.
    state.check_found(job.role)?;
    let phases = lanes.traffic();
    let mut report = Report {
        bytes_sent: phases.iter().map(|phase| phase.bytes_sent).sum(),
        bytes_received: phases.iter().map(|phase| phase.bytes_received).sum(),
        seconds: began.elapsed().as_secs_f64(),
        phases,
        peer,
        items,
        ..Report::of(&state, job.role)
    };
    report.tell(&opened, agreement.grouping.as_ref());
    Ok(report)
}

/// The protocol over a whole set that runs in one bucket, with this randomness: nobody else may know it, and no other run
/// may have it. The peer does not hear of a failure.
///
/// Fails with [`Error::Usage`] if the contract has several buckets or stored correlations, else with [`Error::Run`].
pub fn run_whole_with(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    keys: KeyBlock<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<Output, Error> {
    if agreement.contract.buckets > 1 || agreement.contract.offline.is_some() {
        let problem = "the run has several buckets, or correlations from a store";
        return Err(Error::Usage(problem.into()));
    }
    let run = BucketRun::whole(role, agreement);
    let noise = Noise::draw_vartime(&agreement.contract, role, rng)?;
    let attempted = one_bucket_with(channel, &run, None, keys, rng)?;
    Ok(match BucketShares::of(&attempted) {
        Some(shares) => open_numbers(channel, role, agreement, (&[shares], &noise), rng)?,
        None => attempted.output,
    })
}

/// Runs every bucket, the opening of what all have shared, and the confirmation. Returns the state at the end, and what this
/// side has learnt of numbers.
fn protocol(
    lanes: &mut Lanes<'_, '_>,
    role: Role,
    agreement: &Agreement,
    stored: Option<Zeroizing<Vec<u8>>>,
    set: &mut dyn KeySet,
) -> Result<(State, Output), WireError> {
    let mut state = agreement.state.clone();
    let noise = Drawing::begin(&agreement.contract, role)?;
    lanes.first.begin_phase("items");
    // One bucket takes the memory of the other, and the first that of sorting keys into buckets.
    let _reused = (agreement.contract.buckets > 1).then(KeepFreed::begin);
    set.assign(&agreement.assignment(), &state)?;
    match agreement.contract.buckets {
        _ if state.is_complete() => {}
        1 => {
            let run = BucketRun::whole(role, agreement);
            let attempted = one_bucket(lanes.first, &run, stored, set.load(0)?)?;
            state.add(&attempted);
            set.finished(attempted.output, &state)?;
        }
        _ => in_rounds(lanes, role, agreement, &mut state, set)?,
    }
    let contract = &agreement.contract;
    if contract.buckets > 1 && contract.opens_matches() {
        open_matches(lanes.first, role, agreement, &mut state, set)?;
    }
    let opened = match contract.get(&REVEAL).is_value() {
        true => open_numbers(
            lanes.first,
            role,
            agreement,
            (&state.shares, &noise.drawn()?),
            &mut fresh_rng()?,
        )?,
        false => Output::Nothing,
    };
    // Nobody waits for a message to hear that.
    if agreement.turns.is_none() {
        confirm_done(lanes.first, role)?;
    }
    set.all_opened()?;
    Ok((state, opened))
}
