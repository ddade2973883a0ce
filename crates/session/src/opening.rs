//! Numbers of all buckets together: which attempts at them count, and the opening of their total.
//!
//! A bucket leaves each side with uniform shares of its numbers. Once all buckets have them, their sums are opened, or
//! compared with the minimum first, by the protocol ([`AddsUp`]).
//!
//! **A run** opens them on the connection of its contract, in a session of their own. The sender says the manifest, a hash
//! of the [names][`Attempted::name`] of the buckets' runs, together with the first message of the opening; so the receiver
//! refuses a sum of shares of different runs, such as one from an older copy of a work directory. A run that resumes goes
//! back to what both sides have finished, and opens the sum once all buckets have shares again. It may be opened a second
//! time then, with the same shares and the same total.
//!
//! **The drivers of tasks** meet.
//!
//! 1. Each tells its [tally](Tally), and what it has [opened](Opened) before. Of these both take the same
//!    [`Choice`]: that of an earlier opening, or else at each bucket the first attempt that has a result on both sides.
//! 2. Each names a hash, keyed with the job value, of that choice and of the [name][`Attempted::name`] of the run that made
//!    each share. So shares of different runs are never added up, and a peer with another choice is refused. A side then
//!    keeps its choice: it opens no other one, ever.
//! 3. Both commit to fresh nonces, open them, and prove the session that follows, as in an attempt.
//! 4. The sums of shares are opened.
//!
//! What breaks off is opened again with the same shares and the same noise, whose total is the same, and as often as a bucket may be tried.
//!
//! [`AddsUp`]: vesica_psi::AddsUp
//! [`Attempted::name`]: crate::Attempted::name

use rand_core::CryptoRng;
use vesica_psi::{Output, Params};
use vesica_wire::{Channel, Error as WireError, Kind, Limit, recv_exact};
use zeroize::Zeroizing;

use crate::attempt::prove;
use crate::buckets::bucket_session;
use crate::codec::{Reader, bad, differ};
use crate::random::fresh_rng;
use crate::terms::{BUCKET_ATTEMPTS, LEARNS, REVEAL};
use crate::{Agreement, Attempt, BucketShares, Contract, Fingerprint, Noise, Role, Tally, value};

const OPENED: Kind = Kind {
    code: 14,
    name: "earlier openings",
};
const MANIFEST: Kind = Kind {
    code: 15,
    name: "manifest",
};

/// Which attempt at each bucket counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(Vec<u8>);

impl Choice {
    /// At each bucket the first attempt that has a result on both sides.
    ///
    /// Fails with the number of a bucket that has none.
    fn first(sides: [&Tally; 2], contract: &Contract) -> Result<Choice, NoChoice> {
        let attempt = |bucket| {
            let number = Tally::first_in_common(sides, bucket);
            number.ok_or(NoChoice::NoResult(bucket))
        };
        (0..contract.buckets)
            .map(attempt)
            .collect::<Result<_, _>>()
            .map(Choice)
    }

    /// The attempts, in the order of their buckets.
    pub fn attempts(&self) -> impl Iterator<Item = Attempt> {
        let attempt = |(bucket, number): (u32, &u8)| Attempt {
            bucket,
            number: u32::from(*number),
        };
        (0..).zip(&self.0).map(attempt)
    }

    /// A byte for each bucket.
    pub fn encode(&self) -> &[u8] {
        &self.0
    }

    /// Reads what [`Choice::encode`] gives of so many attempts at each of so many buckets.
    ///
    /// # Errors
    /// Bad message: another length, or an attempt that there is not.
    pub fn decode(bytes: &[u8], buckets: u32, attempts: u32) -> Result<Choice, WireError> {
        match bytes.iter().all(|number| u32::from(*number) < attempts) {
            _ if bytes.len() != buckets as usize => Err(bad(OPENED.name, "of other buckets")),
            false => Err(bad(OPENED.name, "of attempts that there are not")),
            true => Ok(Choice(bytes.to_vec())),
        }
    }
}

/// What a side has opened before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// What it opened, or began to open.
    pub choice: Option<Choice>,
    /// Whether it has all that it gets of the job.
    pub is_complete: bool,
}

/// Why there is nothing to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoChoice {
    /// No attempt at this bucket has a result on both sides, or not the one that was opened before.
    NoResult(u32),
    /// The two sides have opened other attempts before.
    Differs,
}

impl Opened {
    /// A byte that says what there is, and one for each of so many buckets.
    pub fn encode(&self, buckets: u32) -> Vec<u8> {
        let what = match &self.choice {
            None => 0,
            Some(_) => 1 + u8::from(self.is_complete),
        };
        let mut message = vec![what];
        message.extend(self.choice.iter().flat_map(Choice::encode));
        message.resize(1 + buckets as usize, 0);
        message
    }

    /// Reads what a driver says of so many attempts at each of so many buckets.
    ///
    /// # Errors
    /// Bad message: another length, an unknown code, an attempt that there is not, or attempts where nothing was opened.
    pub fn decode(message: &[u8], buckets: u32, attempts: u32) -> Result<Opened, WireError> {
        let mut reader = Reader::new(OPENED.name, message);
        let what = reader.u8()?;
        let bytes = reader.bytes(buckets as usize)?;
        reader.end()?;
        let choice = match what {
            0 if bytes.iter().any(|byte| *byte != 0) => {
                return Err(bad(OPENED.name, "attempts where nothing was opened"));
            }
            0 => None,
            1 | 2 => Some(Choice::decode(bytes, buckets, attempts)?),
            _ => return Err(bad(OPENED.name, "unknown code")),
        };
        Ok(Opened {
            choice,
            is_complete: what == 2,
        })
    }

    /// Which attempts both sides open now; `None` if each has all that it gets of the job. `tallies` and `sides` are those of
    /// the receiver and of the sender.
    ///
    /// # Errors
    /// Why there is no choice, the same on both sides.
    pub fn choose(
        tallies: [&Tally; 2],
        sides: [&Opened; 2],
        contract: &Contract,
    ) -> Result<Option<Choice>, NoChoice> {
        let learning = match contract.get(&LEARNS).is_both() {
            true => &sides[..],
            false => &sides[..1],
        };
        let choice = match sides.map(|side| &side.choice) {
            [Some(one), Some(other)] if one != other => return Err(NoChoice::Differs),
            [Some(choice), _] | [_, Some(choice)] => choice.clone(),
            [None, None] => Choice::first(tallies, contract)?,
        };
        if learning.iter().all(|side| side.is_complete) {
            return Ok(None);
        }
        let lacks = |attempt: &Attempt| !tallies.iter().all(|tally| tally.has_result(*attempt));
        let lacking = choice.attempts().find(lacks);
        match lacking {
            Some(attempt) => Err(NoChoice::NoResult(attempt.bucket)),
            None => Ok(Some(choice)),
        }
    }
}

/// Tells the peer's driver, which is [of this job](crate::agree_on_job), of attempts and openings, and hears of its own.
/// Returns what the receiver and then the sender says.
///
/// Fails as the channel does; with `PeerMisbehaved` for attempts that there are not. The peer has been told then.
pub fn exchange_openings(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    tally: Tally,
    ours: Opened,
) -> Result<([Tally; 2], [Opened; 2]), WireError> {
    let tallies = tally.exchange(channel, role, agreement)?;
    let theirs = tell(channel, agreement, &ours).inspect_err(|error| channel.abort(error))?;
    let opened = match role {
        Role::Receiver => [ours, theirs],
        Role::Sender => [theirs, ours],
    };
    Ok((tallies, opened))
}

fn tell(
    channel: &mut dyn Channel,
    agreement: &Agreement,
    ours: &Opened,
) -> Result<Opened, WireError> {
    let contract = &agreement.contract;
    let message = ours.encode(contract.buckets);
    let length = message.len();
    channel.send(OPENED, message)?;
    channel.flush()?;
    let theirs = channel.recv(OPENED, length)?;
    Opened::decode(&theirs, contract.buckets, contract.get(&BUCKET_ATTEMPTS))
}

/// Opens the total of all buckets, whose attempts both sides have chosen, with this side's noise: the same whenever these
/// shares are opened. `keep` keeps the choice, before anything that
/// depends on a share is sent. `fingerprints` are this side's and the peer's. [`confirm_done`](crate::confirm_done) follows once what this returns is kept.
///
/// Fails as the channel and `keep` do; with `ContractDiffers` if the peer opens others, with `PeerMisbehaved` if it does not
/// know the job, or tells what no run can have. The peer has been told then.
///
/// # Panics
/// If there are not shares for each bucket, or the protocol does not add up.
pub fn open_total(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    fingerprints: [Option<Fingerprint>; 2],
    (choice, buckets, noise): (&Choice, &[BucketShares], &Noise),
    keep: impl FnOnce() -> Result<(), WireError>,
) -> Result<Output, WireError> {
    let open = |channel: &mut dyn Channel| {
        channel.begin_phase("manifest");
        let job = &agreement.params.session;
        let manifest = manifest(job, choice, buckets);
        channel.send(MANIFEST, manifest.to_vec())?;
        channel.flush()?;
        hear_manifest(channel, manifest, MANIFEST.name)?;
        keep()?;
        let session = prove(channel, role, job, &manifest, fingerprints)?;
        open_sums(
            channel,
            role,
            agreement,
            session,
            (buckets, noise),
            &mut fresh_rng()?,
        )
    };
    let output = open(channel);
    output.inspect_err(|error| channel.abort(error))
}

/// Opens the numbers of a run, over the connection of its contract. The buckets have left these shares.
///
/// Fails as the channel does; with `ContractDiffers` on a receiver whose shares are not of the same runs as the sender's, with
/// `Resource` if there are not shares of each bucket, with `PeerMisbehaved` for what no run can have. The peer does not hear
/// of it.
///
/// # Panics
/// If the protocol does not add up.
pub(crate) fn open_numbers(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    (buckets, noise): (&[BucketShares], &Noise),
    rng: &mut dyn CryptoRng,
) -> Result<Output, WireError> {
    let count = agreement.contract.buckets;
    if buckets.len() != count as usize {
        return Err(WireError::limit(
            Limit::Input,
            "the set has not kept the shares of each bucket",
        ));
    }
    channel.begin_phase("opening");
    let session = bucket_session(&agreement.params.session, count);
    let manifest = manifest(&session, &Choice(vec![0; buckets.len()]), buckets);
    match role {
        Role::Receiver => hear_manifest(channel, manifest, RUNS_OF_SHARES)?,
        Role::Sender => channel.send(MANIFEST, manifest.to_vec())?,
    }
    let shared = (buckets, noise);
    open_sums(channel, role, agreement, session, shared, rng)
}

/// What differs where the sides of a run have shares of different runs of a bucket: the field of a `ContractDiffers`.
pub const RUNS_OF_SHARES: &str = "the runs that left their shares of buckets";

/// Hears what the peer opens, which has to be the same. A difference is called so.
fn hear_manifest(
    channel: &mut dyn Channel,
    manifest: [u8; 32],
    field: &'static str,
) -> Result<(), WireError> {
    let theirs: [u8; 32] = recv_exact(channel, MANIFEST, 32)?
        .try_into()
        .map_err(|_| bad(MANIFEST.name, "of another length"))?;
    if theirs != manifest {
        let hex = |hash| blake3::Hash::from_bytes(hash).to_string();
        return Err(differ(field, hex(manifest), hex(theirs)));
    }
    Ok(())
}

/// Opens the sums of shares, with this side's noise, in a session of their own. Refuses numbers that the receiver tells a sender and no run can have.
fn open_sums(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    session: [u8; 32],
    (buckets, noise): (&[BucketShares], &Noise),
    rng: &mut dyn CryptoRng,
) -> Result<Output, WireError> {
    let params = Params {
        session,
        ..agreement.params.clone()
    };
    let adds_up = agreement.protocol.adds_up();
    let adds_up = adds_up.expect("a protocol that adds up");
    let (half, task, mut sums) = (role.half(), &agreement.task, sums(buckets));
    noise.add_to(&mut sums)?;
    let output = adds_up.open(channel, half, &params, task, &sums, rng)?;
    let contract = &agreement.contract;
    let most = contract.receiver_size.min(contract.sender_size);
    if let (Role::Sender, Output::Values(told)) = (role, &output) {
        let most = (most, &contract.spans_of_numbers()[..]);
        value::check_told(contract.get(&REVEAL), contract.values(), most, told)?;
    }
    Ok(output)
}

/// The hash of what is opened.
fn manifest(job: &[u8; 32], choice: &Choice, buckets: &[BucketShares]) -> [u8; 32] {
    assert_eq!(choice.0.len(), buckets.len());
    let mut hasher = blake3::Hasher::new_keyed(job);
    hasher.update(b"vesica/1 manifest").update(&choice.0);
    buckets.iter().for_each(|bucket| {
        hasher.update(&bucket.attempt);
    });
    *hasher.finalize().as_bytes()
}

/// The sum over all buckets of each share, modulo 2^64.
fn sums(buckets: &[BucketShares]) -> Zeroizing<Vec<u64>> {
    let count = buckets.first().map_or(0, |bucket| bucket.shares.len());
    let mut sums = Zeroizing::new(vec![0u64; count]);
    for bucket in buckets {
        let pairs = sums.iter_mut().zip(&*bucket.shares);
        pairs.for_each(|(sum, share)| *sum = sum.wrapping_add(*share));
    }
    sums
}
