//! The halves of stored correlations that hellos name, and which of them a run takes.

pub use vesica_correlations::store::Name;
use vesica_wire::Error as WireError;

use crate::codec::{Reader, differ};

/// Halves that a hello names at most.
pub const MAX_OFFERS: usize = 32;

/// A half that a hello names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The name of the pair.
    pub name: Name,
    /// The most items of the receiver.
    pub receiver_size: u64,
    /// The most items of the sender.
    pub sender_size: u64,
}

impl Offer {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0);
        out.extend_from_slice(&self.receiver_size.to_le_bytes());
        out.extend_from_slice(&self.sender_size.to_le_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Offer, WireError> {
        Ok(Offer {
            name: Name(reader.array()?),
            receiver_size: reader.u64()?,
            sender_size: reader.u64()?,
        })
    }
}

/// The first of the receiver's halves that the sender has too and that is for sets of these sizes. `offers` are those of
/// this side, which may be the receiver, and the peer's; `None` if neither side wants to use stored correlations.
pub(crate) fn choose(
    receives: bool,
    offers: [Option<&[Offer]>; 2],
    sizes: [u64; 2],
) -> Result<Option<Offer>, WireError> {
    const FIELD: &str = "stored correlations";
    let [ours, theirs] = match offers {
        [None, None] => return Ok(None),
        [Some(ours), Some(theirs)] => [ours, theirs],
        [Some(_), None] => return Err(differ(FIELD, "from a store", "none")),
        [None, Some(_)] => return Err(differ(FIELD, "none", "from a store")),
    };
    let [receiver, sender] = match receives {
        true => [ours, theirs],
        false => [theirs, ours],
    };
    let fits = |offer: &&Offer| {
        sender.contains(offer) && offer.receiver_size >= sizes[0] && offer.sender_size >= sizes[1]
    };
    match receiver.iter().find(fits) {
        Some(offer) => Ok(Some(*offer)),
        None => {
            let count = |offers: &[Offer]| format!("{} other halves", offers.len());
            let ours = format!("{} for sets of these sizes", count(ours));
            Err(differ(FIELD, ours, count(theirs)))
        }
    }
}
