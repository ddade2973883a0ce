//! The session: what both sides derive from the agreed contract and a nonce of each.
//!
//! 1. Each side sends the digest of its contract, and a commitment to its nonce.
//! 2. Only once the digests are equal does it open the commitment.
//! 3. The session is a hash of the contract and, for the receiver and then for the sender, of nonce and
//!    fingerprint.
//!
//! A commitment is a hash of role, contract and nonce. It hides the nonce, which has 256 random bits, and is
//! binding by collision resistance. Because it contains the role, nobody can pass off the peer's commitment
//! as its own.
//!
//! **What the last to open can still do.** A side that waits for the other's nonce before it opens knows the
//! session first. It cannot choose another nonce, but it can hang up unless the session has a property that
//! it wants: that a bucket overflows, or that a guessed set cannot be encoded. So a peer that hangs up A
//! times has A + 1 attempts at every event that is bounded by 2^-λ. Attempts are not free: nothing here
//! retries by itself. Whatever fails after the connection is made ends the run with an error, on both sides,
//! and each attempt is a run that this side's user has started again after seeing a failure. The size of
//! buckets allows for 2^10 attempts ([`ATTEMPTS`](vesica_plan::buckets::ATTEMPTS)); all other statistical bounds are per
//! attempt, so that A attempts sum up to at most A·2^-λ.

use vesica_wire::{Channel, Error, Kind, recv_exact};

use crate::codec::differ;
use crate::codec::{Reader, bad};
use crate::contract::{HELLO, MAX_HELLO};
use crate::turns::Turns;
use crate::{Fingerprint, Role};

const COMMITMENT: Kind = Kind {
    code: 20,
    name: "commitment",
};
const NONCE: Kind = Kind {
    code: 17,
    name: "nonce",
};

/// The commitment that the party of that role sends. `contract` is the digest of the contract.
fn commitment(role: Role, contract: &[u8; 32], nonce: &[u8; 32]) -> [u8; 32] {
    let role: &[u8] = match role {
        Role::Receiver => b"receiver",
        Role::Sender => b"sender",
    };
    let mut hasher = blake3::Hasher::new_derive_key("vesica/1 nonce commitment");
    hasher.update(contract).update(nonce).update(role);
    *hasher.finalize().as_bytes()
}

/// The session, from the nonces and fingerprints of this side and the peer. Fingerprints are `None` over plaintext.
fn derive(
    context: &str,
    role: Role,
    contract: &[u8; 32],
    [ours, theirs]: [&[u8; 32]; 2],
    [local, peer]: [Option<Fingerprint>; 2],
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(contract);
    let mut sides = [(ours, local), (theirs, peer)];
    if role == Role::Sender {
        sides.reverse();
    }
    for (nonce, fingerprint) in sides {
        hasher.update(nonce);
        match fingerprint {
            Some(fingerprint) => hasher.update(&[1]).update(fingerprint.as_bytes()),
            None => hasher.update(&[0]).update(&[0; 32]),
        };
    }
    *hasher.finalize().as_bytes()
}

/// Commits, opens and derives the session, with `nonce` as this side's.
///
/// Fails with `ContractDiffers` if the peer has another contract, with `PeerMisbehaved` if its opening does
/// not match its commitment, and as the channel does.
pub(crate) fn session(
    channel: &mut dyn Channel,
    role: Role,
    contract: &[u8; 32],
    nonce: &[u8; 32],
    local: Option<Fingerprint>,
    peer: Option<Fingerprint>,
) -> Result<[u8; 32], Error> {
    channel.send(
        COMMITMENT,
        [*contract, commitment(role, contract, nonce)].concat(),
    )?;
    channel.flush()?;
    let message = channel.recv(COMMITMENT, 64)?;
    let mut reader = Reader::new(COMMITMENT.name, &message);
    let (their_contract, theirs) = (reader.array::<32>()?, reader.array::<32>()?);
    reader.end()?;
    if their_contract != *contract {
        let hex = |digest: [u8; 32]| blake3::Hash::from_bytes(digest).to_string();
        return Err(differ("contract hash", hex(*contract), hex(their_contract)));
    }

    channel.send(NONCE, nonce.to_vec())?;
    channel.flush()?;
    let their_nonce = recv_nonce(channel)?;
    if commitment(role.other(), contract, &their_nonce) != theirs {
        return Err(bad(NONCE.name, "not what the commitment was made to"));
    }
    let nonces = [nonce, &their_nonce];
    Ok(derive(
        "vesica/1 session",
        role,
        contract,
        nonces,
        [local, peer],
    ))
}

/// Says hello and nonce of this side, and hears those of the peer: before or after, as `turns` say.
pub(crate) fn in_turn(
    channel: &mut dyn Channel,
    turns: &Turns,
    hello: &[u8],
) -> Result<(Vec<u8>, [u8; 32]), Error> {
    let say = |channel: &mut dyn Channel| {
        channel.send(HELLO, hello.to_vec())?;
        channel.send(NONCE, turns.nonce().to_vec())
    };
    if turns.is_first {
        say(channel)?;
    }
    let theirs = channel.recv(HELLO, MAX_HELLO)?;
    let nonce = recv_nonce(channel)?;
    if !turns.is_first {
        say(channel)?;
    }
    Ok((theirs, nonce))
}

/// The session of sides that are never there at the same time.
pub(crate) fn session_by_messages(
    role: Role,
    contract: &[u8; 32],
    [ours, theirs]: [[u8; 32]; 2],
    sides: [Option<Fingerprint>; 2],
) -> [u8; 32] {
    let context = "vesica/1 session by messages";
    derive(context, role, contract, [&ours, &theirs], sides)
}

fn recv_nonce(channel: &mut dyn Channel) -> Result<[u8; 32], Error> {
    let message = recv_exact(channel, NONCE, 32)?;
    Ok(message.try_into().expect("so many bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use vesica_testing::{array, bad_value, bytes, fields, misbehaviour, pair_within};
    use vesica_wire::Tamper;

    fn vectors() -> Value {
        serde_json::from_str(include_str!("../../../vectors/nonces.json")).unwrap()
    }

    fn pair() -> (impl Channel, impl Channel) {
        pair_within(std::time::Duration::from_secs(5))
    }

    #[test]
    fn commitments_and_sessions_are_known() {
        for vector in vectors()["good"].as_array().unwrap() {
            let contract = array(&vector["contract"]);
            let party = |role: Role| {
                let party = &vector[role.to_string()];
                let nonce = array(&party["nonce"]);
                let expected = array(&party["commitment"]);
                assert_eq!(commitment(role, &contract, &nonce), expected);
                let fingerprint = match &party["public_key"] {
                    Value::Null => None,
                    key => Some(Fingerprint::of_public_key(&bytes(key))),
                };
                assert!(fingerprint.is_none_or(|f| *f.as_bytes() == array(&party["fingerprint"])));
                (nonce, fingerprint)
            };
            let (receiver, sender) = (party(Role::Receiver), party(Role::Sender));
            let (mut a, mut b) = pair();
            let [ours, theirs] = std::thread::scope(|scope| {
                let far = scope.spawn(|| {
                    let (role, (nonce, own)) = (Role::Sender, &sender);
                    session(&mut b, role, &contract, nonce, *own, receiver.1).unwrap()
                });
                let (role, (nonce, own)) = (Role::Receiver, &receiver);
                let near = session(&mut a, role, &contract, nonce, *own, sender.1).unwrap();
                [near, far.join().unwrap()]
            });
            assert_eq!(ours, array(&vector["session"]));
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn a_sender_that_cheats_is_caught() {
        let vectors = vectors();
        let honest = &vectors["good"][0];
        let contract = array(&honest["contract"]);
        let nonce = array(&honest["receiver"]["nonce"]);
        for vector in vectors["bad_from_sender"].as_array().unwrap() {
            let (mut a, mut b) = pair();
            b.send(COMMITMENT, bytes(&vector["commitment"])).unwrap();
            b.send(NONCE, bytes(&vector["nonce"])).unwrap();
            let error = session(&mut a, Role::Receiver, &contract, &nonce, None, None);
            assert_eq!(fields(&error.unwrap_err()), vector["error"], "{vector}");
        }
    }

    /// A peer without a nonce of its own, that sends back whatever it gets, in whatever order that
    /// takes.
    #[test]
    fn a_reflection_is_not_an_opening() {
        let (contract, nonce) = ([1; 32], [2; 32]);
        for role in [Role::Receiver, Role::Sender] {
            let (mut a, mut b) = pair();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for (kind, size) in [(COMMITMENT, 64), (NONCE, 32)] {
                        let message = b.recv(kind, size).unwrap();
                        b.send(kind, message).unwrap();
                    }
                    // Until the other side has read it.
                    let _ = b.recv(NONCE, 0);
                });
                let error = session(&mut a, role, &contract, &nonce, None, None).unwrap_err();
                a.abort(&error);
                let replayed = bad_value(NONCE.name, "not what the commitment was made to");
                assert_eq!(misbehaviour(Err::<(), _>(error)), replayed);
            });
        }
    }

    /// Whoever sees that the contracts differ keeps its nonce to itself.
    #[test]
    fn nothing_is_opened_under_another_contract() {
        let (near, mut far) = pair();
        let mut near = Tamper::new(near, usize::MAX, vesica_wire::Spoil::Swallow);
        far.send(COMMITMENT, vec![9; 64]).unwrap();
        let error = session(&mut near, Role::Sender, &[1; 32], &[2; 32], None, None).unwrap_err();
        assert!(
            matches!(&error, Error::ContractDiffers { field: "contract hash", theirs, .. } if *theirs == "09".repeat(32)),
            "{error:?}"
        );
        assert_eq!(near.frames(), 1);
    }

    /// All that is left to a peer that has seen our nonce is to hang up, which ends the run.
    #[test]
    fn a_peer_that_does_not_open_ends_the_run() {
        let (mut a, mut b) = pair();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let theirs = commitment(Role::Sender, &[1; 32], &[3; 32]);
                b.send(COMMITMENT, [[1; 32], theirs].concat()).unwrap();
                b.recv(COMMITMENT, 64).unwrap();
                b.recv(NONCE, 32).unwrap();
            });
            let error = session(&mut a, Role::Receiver, &[1; 32], &[2; 32], None, None);
            assert!(matches!(error, Err(Error::Closed)), "{error:?}");
        });
    }
}
