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

use vesica_psi::Item;
use vesica_wire::{Channel, Error as WireError, Kind};

use crate::Role;
use crate::codec::bad;

/// A hash of the items of a bucket that match.
const MATCHES: Kind = Kind {
    code: 27,
    name: "hash of the matches",
};

/// The hash of the items that match, in ascending order. The time depends on how many they are, which both learn.
fn hash(items: &[Item], matched: &[bool]) -> [u8; 32] {
    let matches = items.iter().zip(matched).filter(|(_, matched)| **matched);
    let mut matches: Vec<Item> = matches.map(|(item, _)| *item).collect();
    matches.sort_unstable();
    blake3::derive_key("vesica/1 matches", matches.as_flattened())
}

/// Makes sure that both sides have the same matches; `matched` has an entry for each of this side's items.
///
/// Fails on the sender with `PeerMisbehaved` if the receiver told it other matches than it has; else as the channel does.
pub(crate) fn confirm(
    channel: &mut dyn Channel,
    role: Role,
    items: &[Item],
    matched: &[bool],
) -> Result<(), WireError> {
    let ours = hash(items, matched);
    match role {
        Role::Receiver => {
            channel.send(MATCHES, ours.to_vec())?;
            channel.flush()
        }
        Role::Sender if channel.recv(MATCHES, 32)? == ours => Ok(()),
        Role::Sender => Err(bad(MATCHES.name, "not that of the matches it told of")),
    }
}
