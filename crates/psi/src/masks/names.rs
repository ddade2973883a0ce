//! Telling the sender which of its items matched, where it has several masks per item.

use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Misbehaviour};

use super::frames::Code;
use super::order::Order;
use super::{Exchange, Found, NAMES, receive_sorted, send_sorted, words};
use crate::Item;

/// A name, the tag of an item; only its topmost bits count, as many as a mask of the exchange has, or all.
type Name = [u64; 2];

/// Items that are hashed together.
const BATCH: usize = 512;

/// Bits of a name. Any name sent is that of two of the sender's items with probability at most 2^-λ, because
/// a mask has λ + log₂(c·n_s·n_r) bits.
fn width(exchange: &Exchange) -> usize {
    exchange.width.min(128)
}

/// The names of items in a run.
pub(super) fn names(session: &[u8; 32], items: &[Item]) -> Vec<Name> {
    let oracle = Oracle::new("vesica/1 matched tag", session);
    let mut hashes = vec![[0; 32]; items.len()];
    let batches = hashes.chunks_mut(BATCH).zip(items.chunks(BATCH));
    parallel::each(batches, |(hashes, items)| oracle.hash_many(items, hashes));
    words(&hashes)
}

/// Sends the names of the items with the numbers `matches` to the sender of masks.
pub(crate) fn send(
    exchange: &Exchange,
    channel: &mut dyn Channel,
    session: &[u8; 32],
    items: &[Item],
    matches: &[u32],
) -> Result<(), Error> {
    let matched: Vec<Item> = matches.iter().map(|i| items[*i as usize]).collect();
    let names = names(session, &matched);
    channel.send(NAMES, (names.len() as u32).to_le_bytes().to_vec())?;
    let code = Code::of(NAMES, width(exchange), names.len());
    send_sorted(channel, &code, &mut Order::new(&names, width(exchange)))
}

/// Receives names, and returns for each of the sender's distinct `items` whether its name is among them.
///
/// Other names are ignored. From an error, a receiver that names a guess would learn that the sender does not
/// have it, and nothing makes the receiver tell the truth anyway.
pub(crate) fn receive(
    exchange: &Exchange,
    channel: &mut dyn Channel,
    session: &[u8; 32],
    items: &[Item],
) -> Result<Vec<bool>, Error> {
    let bad = |problem| Misbehaviour::BadValue {
        what: NAMES.name,
        problem,
    };
    // While the receiver looks for matches.
    let mut order = Order::new(&names(session, items), width(exchange));
    order.sort_until(items.len());
    let head = channel.recv(NAMES, 4)?;
    let Ok(count) = <[u8; 4]>::try_from(&head[..]) else {
        return Err(Misbehaviour::WrongLength {
            what: NAMES.name,
            bytes: head.len(),
        }
        .into());
    };
    let count = u32::from_le_bytes(count) as usize;
    if count > exchange.sender_size.min(exchange.receiver_size) {
        return Err(bad("more matches than items").into());
    }
    let mut found = Found::new(items.len());
    let code = Code::of(NAMES, width(exchange), count);
    receive_sorted(channel, &code, count, &order, &mut found)?;
    Ok(found.matched(&order))
}
