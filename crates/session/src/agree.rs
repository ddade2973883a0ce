//! Agreeing on the contract and deriving the session.
//!
//! Each side sends a hello and compares both. Only if they fit, the sides exchange commitments to nonces,
//! each with the digest of its contract, and then the nonces ([`crate::nonces`]). The session is a hash of
//! both hellos, contract, roles, nonces and fingerprints, and salts every item: nothing can be prepared
//! before the contract is agreed, and neither side chooses the session.

use std::time::Duration;

use vesica_files::many;
use vesica_plan::Registry;
use vesica_psi::{Params, Protocol, Task};
use vesica_wire::{Channel, Error as WireError, Kind, Limit};

use crate::codec::{bad, offers_at_most};
use crate::contract::{HELLO, MAX_HELLO, NO_LIMIT};
use crate::groups::Grouping;
use crate::offers::{MAX_OFFERS, Offer};
use crate::random;
use crate::terms::{BUCKET_ATTEMPTS, KEY_BITS, REVEAL};
use crate::turns::{Turns, takes_two_messages};
use crate::{
    Assignment, Begin, Checkpoint, Contract, Error, Fingerprint, Hello, Job, LocalFacts, Problem,
    Resume, Role, StartOver, State, nonces,
};

const DONE: Kind = Kind {
    code: 18,
    name: "done",
};

/// What both sides hold once the contract is agreed.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The contract.
    pub contract: Contract,
    /// The protocol.
    pub protocol: &'static dyn Protocol,
    /// The protocol's parameters from the contract; `session` is the salt of the items. In a run of several
    /// buckets the sizes are those of each bucket, and each bucket has a session of its own.
    pub params: Params,
    /// What the run is to find out.
    pub task: Task,
    /// Distinct items of the peer.
    pub peer_items: u64,
    /// Where the run begins.
    pub begin: Begin,
    /// What is finished at the beginning: nothing, or the buckets of an earlier run.
    pub state: State,
    /// How this side takes part, if the two are never there at the same time.
    pub(crate) turns: Option<Turns>,
    /// How this side divides its keys into groups, if it is the receiver and does.
    pub(crate) grouping: Option<Grouping>,
}

impl Agreement {
    /// What the drivers of a job have agreed on, from its contract and its value, which is the session of their agreement.
    /// `role` is this side's.
    ///
    /// Fails with [`Error::Usage`] for a contract that this version did not make.
    pub fn of_job(
        role: Role,
        contract: Contract,
        value: [u8; 32],
        registry: &Registry,
    ) -> Result<Agreement, Error> {
        let protocol = registry.get(&contract.protocol);
        let protocol = protocol.filter(|_| contract.is_whole());
        let protocol = protocol
            .ok_or_else(|| Error::Usage("the contract is not one of this version".into()))?;
        let peer_items = match role {
            Role::Receiver => contract.sender_size,
            Role::Sender => contract.receiver_size,
        };
        let state = State {
            contract,
            origin: value,
            found: Vec::new(),
            shares: Vec::new(),
        };
        Ok(Agreement::new(
            protocol,
            value,
            peer_items,
            Begin::Afresh,
            state,
        )?)
    }

    fn new(
        protocol: &'static dyn Protocol,
        session: [u8; 32],
        peer_items: u64,
        begin: Begin,
        state: State,
    ) -> Result<Agreement, WireError> {
        let size = |items: u64| {
            usize::try_from(items).map_err(|_| {
                WireError::limit(
                    Limit::Memory { enough: None },
                    format!("{} do not fit into memory", many(items, "item")),
                )
            })
        };
        let contract = state.contract.clone();
        Ok(Agreement {
            begin,
            state,
            protocol,
            task: contract.task(),
            params: Params {
                security: contract.runs,
                lambda: contract.lambda_of_attempt(),
                receiver_size: size(contract.receiver_bucket)?,
                sender_size: size(contract.sender_bucket)?,
                key_agreement: contract.key_agreement(protocol)?,
                session,
            },
            contract,
            peer_items,
            turns: None,
            grouping: None,
        })
    }

    /// What both sides may tell others of the session, which no other run has: a hash of it, in hexadecimal.
    pub fn public_name(&self) -> String {
        let name = blake3::keyed_hash(&self.params.session, b"vesica/1 public name of a session");
        name.to_string()
    }

    /// Items that this side brings to each bucket, padding included.
    pub fn own_size(&self, role: Role) -> usize {
        match role {
            Role::Receiver => self.params.receiver_size,
            Role::Sender => self.params.sender_size,
        }
    }

    /// Which bucket each key is in.
    pub fn assignment(&self) -> Assignment {
        let salt = blake3::keyed_hash(&self.state.origin, b"vesica/1 buckets of a run");
        Assignment::new(*salt.as_bytes(), self.contract.buckets)
    }
}

/// Compares contracts with the peer and derives the session both ways. `items` is the number of this side's
/// distinct items, `checkpoint` what it has kept of an earlier run; the fingerprints are `None` over plaintext.
///
/// Nothing derived from an item is sent. Fails with `Usage` for an impossible job, with `PeerProblem` if the peer cannot
/// take part, else with `Run`, and then the peer has been told.
pub fn agree(
    channel: &mut dyn Channel,
    job: &Job,
    items: u64,
    checkpoint: &Checkpoint,
    local: Option<Fingerprint>,
    peer: Option<Fingerprint>,
) -> Result<Agreement, Error> {
    agree_as(channel, job, items, checkpoint, [local, peer], None)
}

/// The same; or, if there are `turns`, with hello and nonce of one side after those of the other.
pub(crate) fn agree_as(
    channel: &mut dyn Channel,
    job: &Job,
    items: u64,
    checkpoint: &Checkpoint,
    [local, peer]: [Option<Fingerprint>; 2],
    turns: Option<&Turns>,
) -> Result<Agreement, Error> {
    job.check()?;
    job.check_offline()?;
    channel.begin_phase("contract");
    let offers = job
        .offline
        .as_ref()
        .map(|source| source.offers(&job.purpose(items, peer)));
    let mut offers = offers.transpose().inspect_err(|_| {
        let why = "it has no stored correlations for this run";
        channel.abort(&WireError::limit(Limit::Offline, why));
    })?;
    if let Some(offers) = &mut offers {
        offers.truncate(MAX_OFFERS);
    }
    let items = job.told_items(items).inspect_err(|_| {
        // The number is not for the peer.
        let why = "it has more items than it can bring";
        channel.abort(&WireError::limit(Limit::Size, why));
    })?;
    let sides = [local, peer];
    exchange(channel, job, items, checkpoint, offers, sides, turns).inspect_err(|error| {
        if let Error::Run(error) = error {
            channel.abort(error);
        }
    })
}

fn exchange(
    channel: &mut dyn Channel,
    job: &Job,
    items: u64,
    checkpoint: &Checkpoint,
    offline: Option<Vec<Offer>>,
    [local, peer]: [Option<Fingerprint>; 2],
    turns: Option<&Turns>,
) -> Result<Agreement, Error> {
    let ours = Hello {
        role: job.role,
        terms: job.terms.clone(),
        local: LocalFacts {
            protocol: job.protocol.clone(),
            values: job.values.clone(),
            max_peer_value_bound: job.peer_limits.value_bound.unwrap_or(NO_LIMIT),
            groups: job.groups.as_ref().map(Grouping::terms),
            labels: job.labels.clone(),
            noise: job.noise.clone(),
            is_padded: job.noise.is_some() && job.pad_to.is_some(),
            items,
            memory: job.memory.unwrap_or(NO_LIMIT),
            resume: offer(checkpoint),
            offline,
            purpose: job.purpose.clone(),
        },
    };
    let ours_encoded = ours.encode();
    let (theirs_encoded, their_nonce) = match turns {
        None => (exchange_hellos(channel, &ours_encoded)?, None),
        Some(turns) => {
            let (hello, nonce) = nonces::in_turn(channel, turns, &ours_encoded)?;
            (hello, Some(nonce))
        }
    };
    let theirs = Hello::decode(&theirs_encoded, &job.terms)?;
    let (mut contract, protocol) = ours.agree(&theirs, &job.registry)?;
    let (their_role, theirs) = (theirs.role, theirs.local);
    let spec = protocol.spec();
    let limit = contract.most_items(protocol);
    if items > limit {
        return Err(WireError::limit(
            Limit::Size,
            format!(
                "the {} brings {}; {} takes at most {limit}",
                job.role,
                many(items, "item"),
                spec.name,
            ),
        )
        .into());
    }
    let brings = format!("the {their_role} brings {}", many(theirs.items, "item"));
    if job.role == Role::Sender && contract.get(&REVEAL).is_rows() && theirs.items == 0 {
        let reason = format!("{brings}: a union would be all rows of the sender");
        return Err(WireError::limit(Limit::Size, reason).into());
    }
    let most = job.peer_limits.items;
    if theirs.items > most {
        let reason = format!("{brings}; this run allows {most}");
        return Err(WireError::limit(Limit::PeerItems, reason).into());
    }
    if theirs.items > limit {
        let reason = format!("{brings}; {} takes at most {limit}", spec.name);
        return Err(WireError::limit(Limit::Size, reason).into());
    }
    if theirs.values.len() > usize::from(job.peer_limits.values) {
        return Err(WireError::limit(
            Limit::PeerValues,
            format!(
                "the {their_role} has {} of values; this run allows {}",
                many(theirs.values.len() as u64, "column"),
                job.peer_limits.values
            ),
        )
        .into());
    }
    let groups = contract.groups.as_ref().map_or(1, |groups| groups.count);
    if job.role == Role::Sender && groups > u32::from(job.peer_limits.groups) {
        return Err(WireError::limit(
            Limit::PeerGroups,
            format!(
                "the {their_role} wants numbers of {}; the sender allows {}",
                many(groups.into(), "group"),
                job.peer_limits.groups
            ),
        )
        .into());
    }
    let begin = begin(&mut contract, protocol, checkpoint, &theirs.resume)?;
    if turns.is_some() && contract.buckets > 1 {
        let why = "a run by files goes over whole sets, and one side has memory for a part";
        return Err(WireError::limit(Limit::Memory { enough: None }, why).into());
    }
    // A dishonest peer can put items in the place of padding, and bring others to each attempt. The limit that every run has
    // leaves some room for padding.
    let peer_bucket = match job.role {
        Role::Receiver => contract.sender_bucket,
        Role::Sender => contract.receiver_bucket,
    };
    let padded = peer_bucket.saturating_mul(contract.buckets.into());
    let attempts = contract.get(&BUCKET_ATTEMPTS);
    let in_all = padded.saturating_mul(attempts.into());
    let is_padded = contract.buckets > 1 || contract.offline.is_some();
    let most_in_all = job.peer_limits.in_all();
    if (is_padded || attempts > 1) && in_all > most_in_all {
        let padding = match is_padded {
            true => format!(", padded to {padded}"),
            false => String::new(),
        };
        let times = match attempts {
            1 => String::new(),
            _ => format!(", {in_all} in {}", many(attempts.into(), "attempt")),
        };
        let items = many(theirs.items, "item");
        let items = format!("the {their_role}'s {items}{padding}{times}");
        let reason = format!("{items}, are more than the {most_in_all} that this run allows");
        return Err(WireError::limit(Limit::PeerItems, reason).into());
    }
    if let Some(most) = contract.lambda_problem(protocol) {
        return Err(offers_at_most(spec, contract.get(&KEY_BITS), most).into());
    }
    let mut sides = [(&ours_encoded, local), (&theirs_encoded, peer)];
    if job.role == Role::Sender {
        sides.reverse();
    }
    let agreed = agreed(&contract, sides);
    let session = match turns.zip(their_nonce) {
        Some((turns, theirs)) => {
            let nonces = [turns.nonce(), theirs];
            nonces::session_by_messages(job.role, &agreed, nonces, [local, peer])
        }
        None => {
            let mut nonce = [0; 32];
            random::fill(&mut nonce)?;
            nonces::session(channel, job.role, &agreed, &nonce, local, peer)?
        }
    };
    let state = match (begin, checkpoint) {
        (Begin::After(buckets), Checkpoint::State(earlier)) => {
            earlier.back_to(buckets, contract.clone())
        }
        _ => State {
            contract: contract.clone(),
            origin: session,
            found: Vec::new(),
            shares: Vec::new(),
        },
    };
    let agreement = Agreement {
        turns: turns.cloned(),
        grouping: job.groups.clone(),
        ..Agreement::new(protocol, session, theirs.items, begin, state)?
    };
    if turns.is_some() && !takes_two_messages(protocol, &agreement.params, &agreement.task) {
        let why = format!(
            "{} takes more than two messages for so many items",
            spec.name
        );
        return Err(WireError::limit(Limit::Size, why).into());
    }
    Ok(agreement)
}

/// Sends this side's hello, and receives the peer's.
fn exchange_hellos(channel: &mut dyn Channel, ours: &[u8]) -> Result<Vec<u8>, Error> {
    // An abort overtakes what is queued; the peer must read the hello first, to find the field itself.
    let sent = channel
        .send(HELLO, ours.to_vec())
        .and_then(|()| channel.flush());
    let heard = match sent {
        // A peer that cannot take part says so and leaves, perhaps long before this side has read its table.
        Err(WireError::Closed | WireError::Connection(_)) | Ok(()) => await_hello(channel),
        Err(error) => return Err(error.into()),
    };
    if let Ok(heard) = &heard
        && let Some(problem) = Problem::decode(heard)?
    {
        return Err(Error::PeerProblem(problem));
    }
    sent?;
    Ok(heard?)
}

/// So long after its own hello a side takes it that the peer is still reading its table.
const READS: Duration = Duration::from_secs(1);

/// The peer's hello, which comes once its table is read. Heartbeats say until then that the peer is at work.
fn await_hello(channel: &mut dyn Channel) -> Result<Vec<u8>, WireError> {
    let reads = !channel.hears_within(READS);
    if reads {
        channel.begin_phase("the peer reads its table");
    }
    let hello = channel.recv(HELLO, MAX_HELLO)?;
    if reads {
        channel.begin_phase("contract");
    }
    Ok(hello)
}

/// Hash of everything agreed so far: the contract, and the hello and fingerprint of the receiver and of the sender. Over TLS
/// fingerprints are proved; over a stream of a caller's, this tells sides that would compute with different ones, and find
/// nothing in common.
fn agreed(contract: &Contract, sides: [(&Vec<u8>, Option<Fingerprint>); 2]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica/1 hellos and contract");
    hasher.update(&contract.digest());
    for (hello, _) in sides {
        hasher.update(&(hello.len() as u64).to_le_bytes());
        hasher.update(hello);
    }
    for fingerprint in sides
        .iter()
        .filter_map(|(_, fingerprint)| fingerprint.as_ref())
    {
        hasher.update(fingerprint.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// What a side says of the run that it has kept.
fn offer(checkpoint: &Checkpoint) -> Resume {
    match checkpoint {
        Checkpoint::Nothing => Resume::Nothing,
        Checkpoint::OfAnotherSet => Resume::OfAnotherSet,
        Checkpoint::State(state) => Resume::After {
            run: name(state),
            buckets: state.finished(),
        },
    }
}

/// The name of a run depends on what only its two sides know and on its contract: two sides that send the
/// same name have kept the same run.
fn name(state: &State) -> [u8; 32] {
    let mut name = blake3::Hasher::new_keyed(&state.origin);
    name.update(b"vesica/1 run");
    name.update(&state.contract.of_all_runs().digest());
    *name.finalize().as_bytes()
}

/// Where the run begins, and the contract that says so. Both sides compute the same bucket, since both know
/// both hellos.
fn begin(
    contract: &mut Contract,
    protocol: &dyn Protocol,
    checkpoint: &Checkpoint,
    theirs: &Resume,
) -> Result<Begin, WireError> {
    let begin = match (checkpoint, theirs) {
        (Checkpoint::Nothing, _) => Begin::Afresh,
        (Checkpoint::OfAnotherSet, _) => Begin::Over(StartOver::OwnSet),
        (Checkpoint::State(_), Resume::Nothing) => Begin::Over(StartOver::PeerKeptNothing),
        (Checkpoint::State(_), Resume::OfAnotherSet) => Begin::Over(StartOver::PeerSet),
        (Checkpoint::State(state), Resume::After { run, .. }) if *run != name(state) => {
            Begin::Over(StartOver::OtherRun)
        }
        (Checkpoint::State(_), _) if contract.opens_matches() => {
            Begin::Over(StartOver::OpensTogether)
        }
        (Checkpoint::State(_), _) if contract.is_noisy() => Begin::Over(StartOver::Noise),
        (Checkpoint::State(state), Resume::After { buckets, .. }) => {
            if *buckets > state.contract.buckets {
                return Err(bad("earlier run", "more buckets than there were"));
            }
            let after = state.finished().min(*buckets);
            match contract.go_on(protocol, &state.contract, after) {
                Ok(()) => return Ok(Begin::After(after)),
                Err(why) => Begin::Over(why),
            }
        }
    };
    contract.divide(protocol)?;
    Ok(begin)
}

/// The last message: the receiver tells the sender that its protocol completed, and the sender waits for
/// that. What the receiver does with the result afterwards does not concern the sender.
///
/// Fails as [`Channel::recv`] does, and when the message is not empty.
pub fn confirm_done(channel: &mut dyn Channel, role: Role) -> Result<(), WireError> {
    channel.begin_phase("done");
    match role {
        Role::Receiver => say_done(channel),
        Role::Sender => hear_done(channel),
    }
}

pub(crate) fn say_done(channel: &mut dyn Channel) -> Result<(), WireError> {
    channel.send(DONE, Vec::new())?;
    channel.flush()
}

pub(crate) fn hear_done(channel: &mut dyn Channel) -> Result<(), WireError> {
    channel.recv(DONE, 0).map(drop)
}
