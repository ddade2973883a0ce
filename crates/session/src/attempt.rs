//! An attempt at one bucket of a job, over a channel of its own.
//!
//! The job is an [`Agreement`], and its session the job value, which only its two sides know.
//!
//! 1. Each side names job, bucket and attempt, and a difference ends the attempt.
//! 2. Both commit to fresh nonces and open them ([`nonces`]); the session of the attempt is a hash of job, bucket, attempt,
//!    nonces and fingerprints, keyed with the job value.
//! 3. Each side proves that it has arrived at that session. So a peer that does not know the job, and one that repeats
//!    what was sent before, is refused before anything that is derived from an item leaves this side.
//! 4. The protocol runs, with padding, correlations and all other randomness drawn for this attempt alone.
//! 5. Each side keeps its result before it says that it is done ([`run_bucket_on`]). So one that has heard it from its peer
//!    knows that the peer has no reason to make another attempt at the bucket.

use vesica_files::many;
use vesica_keys::KeyBlock;
use vesica_wire::{Channel, Error as WireError, Kind, recv_exact};

use crate::agree::{hear_done, say_done};
use crate::codec::{Reader, bad, differ};
use crate::items::all_distinct;
use crate::one_bucket::{BucketRun, one_bucket};
use crate::terms::{BUCKET_ATTEMPTS, LEARNS, REVEAL};
use crate::{
    Agreement, Attempted, Connection, Error, Fingerprint, Role, Watch, WatchedChannel, nonces,
    random,
};

/// Says what a side runs.
const BUCKET: Kind = Kind {
    code: 19,
    name: "bucket",
};
/// Of which job a driver is.
const JOB: Kind = Kind {
    code: 47,
    name: "job",
};
/// Proves that a side has arrived at the session.
const PROOF: Kind = Kind {
    code: 29,
    name: "proof of the session",
};

/// Which run over which bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The bucket, counted from 0.
    pub bucket: u32,
    /// How many attempts at it came before.
    pub number: u32,
}

/// Runs the protocol over the keys of one bucket, over a channel of its own. Returns what this side learns
/// about its digests; the time does not depend on that, unless the peer learns it too. Of numbers these are shares, which
/// [`open_total`](crate::open_total) opens with those of all other buckets. Buckets share nothing
/// that is random or derived from a session, so they may run one after another or at once, wherever the
/// [`Agreement`] is.
///
/// `digests` are those that [`Agreement::assignment`] puts into the bucket; they are padded here to the size
/// in the contract. `fingerprints` are this side's and the peer's. Make each attempt once: with another
/// number nothing random is used again, and the contract says how many there may be. A failure is reported to the peer.
///
/// # Errors
/// Usage: no such bucket or attempt, a bucket that an earlier run has finished, or digests that repeat or are too few.
/// Run: the channel's; `ContractDiffers` if the peer runs another job, bucket or attempt; `PeerMisbehaved` if it does not
/// know the job, or repeats what was sent before; `Resource` if too many digests fell into the bucket.
pub fn run_bucket(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    attempt: Attempt,
    fingerprints: [Option<Fingerprint>; 2],
    keys: KeyBlock<'_>,
) -> Result<Attempted, Error> {
    check(role, agreement, attempt, &keys.digests)?;
    let attempted = attempted(channel, role, agreement, attempt, fingerprints, keys);
    Ok(attempted.inspect_err(|error| channel.abort(error))?)
}

/// What a side writes down of an attempt, so that neither the end of its process nor of its machine loses it.
pub trait AttemptLog: Watch {
    /// Keeps what the attempt has come to, in a time that does not depend on matches. Only then does this side tell the
    /// peer that it is done.
    ///
    /// # Errors
    /// What was not kept, which ends the attempt.
    fn keep(&self, attempted: &Attempted) -> Result<(), WireError>;

    /// The peer has said that it is done, where it gets something of the attempt.
    ///
    /// # Errors
    /// What was not kept, which ends the attempt.
    fn confirm(&self) -> Result<(), WireError>;
}

/// Makes an attempt as [`run_bucket`] does, on a connection of its own, within the time that a run of these sizes may take.
///
/// Fails as [`run_bucket`] and `log` do; a failure is reported to the peer.
pub fn run_bucket_on(
    connection: &mut Connection,
    role: Role,
    agreement: &Agreement,
    attempt: Attempt,
    keys: KeyBlock<'_>,
    log: &dyn AttemptLog,
) -> Result<(), Error> {
    connection.deadline.of_run(agreement);
    let fingerprints = [connection.local, connection.peer];
    let channel = &mut WatchedChannel::new(&mut connection.channel, log);
    let attempted = run_bucket(channel, role, agreement, attempt, fingerprints, keys)?;
    channel.begin_phase("done");
    let ended = log.keep(&attempted);
    let ended = ended.and_then(|()| end(channel, role, agreement, || log.confirm()));
    Ok(ended.inspect_err(|error| channel.abort(error))?)
}

/// Tells the peer that this side is done, and hears it from a peer that gets something. The receiver, which always does,
/// speaks first.
fn end(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    confirm: impl FnOnce() -> Result<(), WireError>,
) -> Result<(), WireError> {
    let contract = &agreement.contract;
    let sender_gets = contract.get(&LEARNS).is_both() || contract.get(&REVEAL).is_value();
    if role == Role::Receiver {
        say_done(channel)?;
        if !sender_gets {
            return Ok(());
        }
    }
    hear_done(channel)?;
    confirm()?;
    match role == Role::Sender && sender_gets {
        true => say_done(channel),
        false => Ok(()),
    }
}

fn check(
    role: Role,
    agreement: &Agreement,
    Attempt { bucket, number }: Attempt,
    digests: &[[u8; 32]],
) -> Result<(), Error> {
    let usage = |problem: String| Err(Error::Usage(problem));
    let contract = &agreement.contract;
    let (buckets, attempts) = (contract.buckets, contract.get(&BUCKET_ATTEMPTS));
    if !(agreement.state.finished()..buckets).contains(&bucket) {
        return usage(format!(
            "bucket {bucket} of {buckets} is none that is left to run"
        ));
    }
    if number >= attempts {
        return usage(format!(
            "a bucket may have {}, and {number} came before this one",
            many(attempts.into(), "attempt"),
        ));
    }
    if contract.offline.is_some() {
        return usage("stored correlations are for runs over a whole set".into());
    }
    if buckets > 1 && contract.opens_matches() {
        let reveal = contract.get(&REVEAL);
        return usage(format!("the {reveal} is found in a run over all buckets"));
    }
    let is_whole = buckets == 1 && digests.len() != agreement.own_size(role);
    if !all_distinct(digests) || is_whole {
        return usage("the digests are not those of the bucket, each once".into());
    }
    Ok(())
}

/// [`run_bucket`] without its checks; the peer does not hear of a failure.
pub(crate) fn attempted(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    attempt: Attempt,
    fingerprints: [Option<Fingerprint>; 2],
    keys: KeyBlock<'_>,
) -> Result<Attempted, WireError> {
    channel.begin_phase("attempt");
    let session = session(
        channel,
        role,
        &agreement.params.session,
        attempt,
        fingerprints,
    )?;
    let run = BucketRun {
        role,
        agreement,
        session,
    };
    one_bucket(channel, &run, None, keys)
}

/// The name of a job, which only its two sides can tell from any other.
pub(crate) fn job_name(job: &[u8; 32]) -> [u8; 32] {
    *blake3::keyed_hash(job, b"vesica/1 job").as_bytes()
}

/// Takes the name of the job from the front of a message.
///
/// Fails with `ContractDiffers` if it is another one's.
pub(crate) fn check_job(reader: &mut Reader<'_>, job: &[u8; 32]) -> Result<(), WireError> {
    let (ours, theirs) = (job_name(job), reader.array()?);
    match ours == theirs {
        true => Ok(()),
        false => {
            // As much as tells two apart, and can be read.
            let hex = |name| blake3::Hash::from_bytes(name).to_hex()[..8].to_owned();
            Err(differ("job", hex(ours), hex(theirs)))
        }
    }
}

/// Drivers that have met say of which job they are, before they judge each other by anything else that they say.
///
/// Fails as the channel does; with `ContractDiffers` for another job. The peer has been told then.
pub fn agree_on_job(channel: &mut dyn Channel, agreement: &Agreement) -> Result<(), WireError> {
    let job = &agreement.params.session;
    let name = channel
        .send(JOB, job_name(job).to_vec())
        .and_then(|()| channel.flush())
        .and_then(|()| channel.recv(JOB, 32));
    let agreed = name.and_then(|name| {
        let mut reader = Reader::new(JOB.name, &name);
        check_job(&mut reader, job)?;
        reader.end()
    });
    agreed.inspect_err(|error| channel.abort(error))
}

/// What the nonces of an attempt are for.
fn task(job: &[u8; 32], Attempt { bucket, number }: Attempt) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(job);
    hasher
        .update(b"vesica/1 attempt")
        .update(&bucket.to_le_bytes())
        .update(&number.to_le_bytes());
    *hasher.finalize().as_bytes()
}

/// The session of an attempt. What it is made of besides the job value is said on the channel.
fn session_of(job: &[u8; 32], fresh: &[u8; 32]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(job);
    hasher
        .update(b"vesica/1 session of an attempt")
        .update(fresh);
    *hasher.finalize().as_bytes()
}

fn proof(session: &[u8; 32], role: Role) -> Vec<u8> {
    let text: &[u8] = match role {
        Role::Receiver => b"vesica/1 attempt, the receiver",
        Role::Sender => b"vesica/1 attempt, the sender",
    };
    blake3::keyed_hash(session, text).as_bytes().to_vec()
}

/// The session of an attempt, at which the peer has arrived as well.
fn session(
    channel: &mut dyn Channel,
    role: Role,
    job: &[u8; 32],
    attempt: Attempt,
    fingerprints: [Option<Fingerprint>; 2],
) -> Result<[u8; 32], WireError> {
    let Attempt { bucket, number } = attempt;
    let mut name = job_name(job).to_vec();
    name.extend(bucket.to_le_bytes());
    name.extend(number.to_le_bytes());
    channel.send(BUCKET, name)?;
    channel.flush()?;
    let theirs = channel.recv(BUCKET, 40)?;
    let mut reader = Reader::new(BUCKET.name, &theirs);
    check_job(&mut reader, job)?;
    for (field, ours) in [("bucket", bucket), ("attempt", number)] {
        let theirs = reader.u32()?;
        if theirs != ours {
            return Err(differ(field, ours, theirs));
        }
    }
    reader.end()?;
    prove(channel, role, job, &task(job, attempt), fingerprints)
}

/// A fresh session for a task of the job, at which the peer has arrived as well.
pub(crate) fn prove(
    channel: &mut dyn Channel,
    role: Role,
    job: &[u8; 32],
    task: &[u8; 32],
    [local, peer]: [Option<Fingerprint>; 2],
) -> Result<[u8; 32], WireError> {
    let mut nonce = [0; 32];
    random::fill(&mut nonce)?;
    let fresh = nonces::session(channel, role, task, &nonce, local, peer)?;
    let session = session_of(job, &fresh);
    channel.send(PROOF, proof(&session, role))?;
    channel.flush()?;
    // Nothing is gained by guessing it byte by byte: one wrong one ends the attempt.
    match recv_exact(channel, PROOF, 32)? == proof(&session, role.other()) {
        true => Ok(session),
        false => Err(bad(PROOF.name, "not of this job and this connection")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;
    use vesica_testing::{Recorder, bad_value, misbehaviour, pair_within};
    use vesica_wire::FramedChannel;

    const JOB: [u8; 32] = [7; 32];
    const FIRST: Attempt = Attempt {
        bucket: 3,
        number: 0,
    };

    fn pair() -> (FramedChannel, FramedChannel) {
        pair_within(Duration::from_secs(5))
    }

    /// What both sides of an attempt arrive at, each with a job and an attempt of its own.
    fn both(
        near: ([u8; 32], Attempt),
        far: ([u8; 32], Attempt),
    ) -> [Result<[u8; 32], WireError>; 2] {
        let (mut a, mut b) = pair();
        let run = |channel: &mut FramedChannel, role, (job, attempt): &([u8; 32], Attempt)| {
            let result = session(channel, role, job, *attempt, [None; 2]);
            result.inspect_err(|error| channel.abort(error))
        };
        thread::scope(|scope| {
            let far = scope.spawn(|| run(&mut b, Role::Sender, &far));
            [run(&mut a, Role::Receiver, &near), far.join().unwrap()]
        })
    }

    #[test]
    fn every_attempt_has_a_session_of_its_own() {
        let again = Attempt { number: 1, ..FIRST };
        let mut sessions = Vec::new();
        for attempt in [FIRST, FIRST, again] {
            let [near, far] = both((JOB, attempt), (JOB, attempt)).map(Result::unwrap);
            assert_eq!(near, far);
            assert!(!sessions.contains(&near));
            sessions.push(near);
        }
    }

    #[test]
    fn another_job_bucket_or_attempt_is_named() {
        let again = Attempt { number: 1, ..FIRST };
        let other = Attempt { bucket: 4, ..FIRST };
        for (far, field) in [
            (([8; 32], FIRST), "job"),
            ((JOB, other), "bucket"),
            ((JOB, again), "attempt"),
        ] {
            let differs = |result: &Result<_, WireError>| matches!(result, Err(WireError::ContractDiffers { field: found, .. }) if *found == field);
            let [near, far] = both((JOB, FIRST), far);
            assert!(differs(&near), "{field}: {near:?}");
            if let Err(WireError::ContractDiffers {
                field: "job",
                ours,
                theirs,
            }) = &near
            {
                assert_ne!(ours, theirs);
                let is_short =
                    |name: &String| name.len() == 8 && u32::from_str_radix(name, 16).is_ok();
                assert!([ours, theirs].into_iter().all(is_short), "{ours} {theirs}");
            }
            let told = matches!(far, Err(WireError::PeerAborted { .. }));
            assert!(differs(&far) || told, "{field}: {far:?}");
        }
    }

    /// Whoever has read an earlier connection has all that its peer has said there, and the names of job and attempt.
    #[test]
    fn what_was_sent_before_is_no_proof() {
        let (mut a, b) = pair();
        let mut b = Recorder::new(b);
        thread::scope(|scope| {
            scope.spawn(|| session(&mut a, Role::Receiver, &JOB, FIRST, [None; 2]).unwrap());
            session(&mut b, Role::Sender, &JOB, FIRST, [None; 2]).unwrap();
        });
        let (mut a, mut stranger) = pair();
        for (kind, payload) in b.sent {
            stranger.send(kind, payload).unwrap();
        }
        let error = session(&mut a, Role::Receiver, &JOB, FIRST, [None; 2]).unwrap_err();
        let expected = bad_value(PROOF.name, "not of this job and this connection");
        assert_eq!(misbehaviour(Err::<(), _>(error)), expected);
        // It has held the connection open until here.
        stranger.flush().unwrap();
    }

    /// A stranger that has seen the name of the job follows every step, but does not know the job.
    #[test]
    fn a_stranger_that_knows_the_name_of_the_job_cannot_prove_the_session() {
        let (mut a, mut stranger) = pair();
        thread::scope(|scope| {
            scope.spawn(move || {
                // It says what it hears, which is the name of the job, and has a commitment of its own.
                let name = stranger.recv(BUCKET, 40).unwrap();
                stranger.send(BUCKET, name).unwrap();
                let _ =
                    nonces::session(&mut stranger, Role::Sender, &[9; 32], &[1; 32], None, None);
            });
            let error = session(&mut a, Role::Receiver, &JOB, FIRST, [None; 2]).unwrap_err();
            a.abort(&error);
            let differs = matches!(&error, WireError::ContractDiffers { field, .. } if *field == "contract hash");
            assert!(differs, "{error:?}");
        });
        // One that has read what the nonces are for, and so arrives at all that is said on the channel, fails at the proof.
        let (mut a, mut stranger) = pair();
        thread::scope(|scope| {
            scope.spawn(move || {
                let name = stranger.recv(BUCKET, 40).unwrap();
                stranger.send(BUCKET, name).unwrap();
                let task = task(&JOB, FIRST);
                let (role, nonce) = (Role::Sender, [1; 32]);
                let fresh = nonces::session(&mut stranger, role, &task, &nonce, None, None);
                let guess = proof(&session_of(&[0; 32], &fresh.unwrap()), role);
                stranger.send(PROOF, guess).unwrap();
                let _ = stranger.recv(PROOF, 0);
            });
            let error = session(&mut a, Role::Receiver, &JOB, FIRST, [None; 2]).unwrap_err();
            a.abort(&error);
            let expected = bad_value(PROOF.name, "not of this job and this connection");
            assert_eq!(misbehaviour(Err::<(), _>(error)), expected);
        });
    }
}
