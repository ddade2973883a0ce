//! One order of the matches for both sides, where both learn them and ask for it ([`Learns::Aligned`](crate::Learns)).
//!
//! The order is that of a hash of the keys under [`State::order_key`](crate::State::order_key), which both sides
//! compute and nobody else can. It depends on the session, which neither side chooses, and on keys that both have: it
//! tells neither side anything that the matches do not.
//!
//! Sides with different matches would number them differently. So the receiver, which tells the sender what matched,
//! proves after each bucket that it has the very items: it sends a hash of them, and the sender compares. A receiver
//! that claims items which it does not have would have to guess their keys. One that leaves out matches here as it did
//! before goes unnoticed; then the result of an honest sender is without them.

use rayon::prelude::*;
use vesica_kernels::{Backend, blake3::keyed_hash_many};
use vesica_psi::Item;
use vesica_wire::{Channel, Error as WireError, Kind};

use crate::Role;
use crate::codec::bad;

/// A hash of the items of a bucket that match.
const MATCHES: Kind = Kind {
    code: 27,
    name: "hash of the matches",
};

/// Number of items that are hashed at once.
const BATCH: usize = 64;

/// The hash of the items that match: of the exclusive or of a hash of each, which are random strings under this session. The
/// time does not depend on what matches, since the network sees when the hash leaves.
fn hash(session: &[u8; 32], items: &[Item], matched: &[bool]) -> [u8; 32] {
    let key = blake3::derive_key("vesica/1 matching item", session);
    let xor = |mut a: [u8; 32], b: [u8; 32]| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
        a
    };
    let batches = items.par_chunks(BATCH).zip(matched.par_chunks(BATCH));
    let of_batches = batches.with_min_len(BATCH).map(|(items, matched)| {
        let mut hashes = [[0; 32]; BATCH];
        let hashes = &mut hashes[..items.len()];
        keyed_hash_many(Backend::Best, &key, items.as_flattened(), 32, hashes);
        let flagged = hashes.iter().zip(matched).map(|(hash, matched)| {
            let mask = std::hint::black_box(u8::from(*matched).wrapping_neg());
            hash.map(|byte| byte & mask)
        });
        flagged.fold([0; 32], xor)
    });
    let sum = of_batches.reduce(|| [0; 32], xor);
    blake3::derive_key("vesica/1 matches", &sum)
}

/// Makes sure that both sides have the same matches; `matched` has an entry for each of this side's items.
///
/// Fails on the sender with `PeerMisbehaved` if the receiver told it other matches than it has; else as the channel does.
pub(crate) fn confirm(
    channel: &mut dyn Channel,
    role: Role,
    session: &[u8; 32],
    items: &[Item],
    matched: &[bool],
) -> Result<(), WireError> {
    let ours = hash(session, items, matched);
    match role {
        Role::Receiver => {
            channel.send(MATCHES, ours.to_vec())?;
            channel.flush()
        }
        Role::Sender if channel.recv(MATCHES, 32)? == ours => Ok(()),
        Role::Sender => Err(bad(MATCHES.name, "not that of the matches it told of")),
    }
}
