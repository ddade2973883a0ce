//! Telling the sender which of its items matched, where it has several masks per item.
//!
//! As many names are sent as items can match, each in full, so that their length follows from the sizes of both sets.

use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Frames};

use super::frames::{Code, Decoder};
use super::matched::selected;
use super::matching::merge;
use super::order::Order;
use super::{Exchange, NAMES, reordered, shortened, words};
use crate::Item;

/// A name, the tag of an item; only its topmost bits count, as many as a mask of the exchange has, or all.
type Name = [u64; 2];

/// Items that are hashed together.
const BATCH: usize = 512;

/// Bits of a name. Any name sent, that of nobody included, is that of another item of the sender's with probability at most
/// 2^-λ, because a mask has λ + log₂(c·n_s·n_r) bits.
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

/// In the place of the name of a match where there are fewer than there can be: the last of all names.
const NOBODY: Name = [u64::MAX; 2];

/// What [`send`] sends.
pub(crate) fn frames(exchange: &Exchange) -> Frames {
    Code::in_full(NAMES, width(exchange)).frames(exchange.most_matches())
}

/// Sends the names of the `items` that matched to the sender of masks, and as many more of nobody as could have. The time
/// does not depend on the matches.
pub(crate) fn send(
    exchange: &Exchange,
    channel: &mut dyn Channel,
    session: &[u8; 32],
    items: &[Item],
    matched: &[bool],
) -> Result<(), Error> {
    let width = width(exchange);
    let mut order = Order::new(&names(session, items), width);
    order.sort_until(items.len());
    let entries = order.entries().iter();
    let flagged = entries.map(|entry| (*entry, matched[entry.1 as usize]));
    let nobody = (shortened(&NOBODY, width), 0);
    let told = selected(flagged, exchange.most_matches(), nobody);
    let code = Code::in_full(NAMES, width);
    for entries in told.chunks(code.per_frame()) {
        channel.send(NAMES, code.encode(entries))?;
    }
    Ok(())
}

/// Receives names, and returns for each of the sender's distinct `items` whether its name is among them.
///
/// Other names are ignored. From an error, a receiver that names a guess would learn that the sender does not
/// have it, and nothing makes the receiver tell the truth anyway.
///
/// The names of nobody come last, so that the range of a frame's names depends on the matches. The time may not, since
/// the network sees when this side goes on: all names are merged with all of its own.
pub(crate) fn receive(
    exchange: &Exchange,
    channel: &mut dyn Channel,
    session: &[u8; 32],
    items: &[Item],
) -> Result<Vec<bool>, Error> {
    // While the receiver looks for matches.
    let mut order = Order::new(&names(session, items), width(exchange));
    order.sort_until(items.len());
    let code = Code::in_full(NAMES, width(exchange));
    let mut told = vec![Name::default(); exchange.most_matches()];
    let mut last = None;
    for names in told.chunks_mut(code.per_frame()) {
        let frame = channel.recv(NAMES, code.most_bytes(names.len()))?;
        Decoder::new(&code, frame, names.len()).read(names)?;
        if last.is_some_and(|last| names[0] < last) {
            return Err(code.out_of_order().into());
        }
        last = names.last().copied();
    }
    // One more, for a step that has no own name left to compare with.
    let mut own = vec![false; items.len() + 1];
    merge(&told, order.entries(), |_, at, hit| own[at] |= hit);
    own.truncate(items.len());
    Ok(reordered(&own, |i| order.entries()[i].1))
}
