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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_the_same_on_both_sides() {
        let offer = |name: u8| Offer {
            name: Name([name; 16]),
            receiver_size: 1 << name,
            sender_size: 10,
        };
        let offers =
            |names: &[u8]| -> Vec<Offer> { names.iter().map(|name| offer(*name)).collect() };
        let chosen = |receiver: Option<&[u8]>, sender: Option<&[u8]>, sizes| {
            let [receiver, sender] = [receiver, sender].map(|names| names.map(offers));
            let (ours, theirs) = (receiver.as_deref(), sender.as_deref());
            let here = choose(true, [ours, theirs], sizes).ok();
            assert_eq!(here, choose(false, [theirs, ours], sizes).ok());
            here
        };
        let (ours, theirs) = (Some(&[5, 2, 4, 3][..]), Some(&[1, 2, 3, 4][..]));
        assert_eq!(chosen(ours, theirs, [3, 9]), Some(Some(offer(2))));
        assert_eq!(chosen(ours, theirs, [4, 10]), Some(Some(offer(2))));
        assert_eq!(chosen(ours, theirs, [5, 9]), Some(Some(offer(4))));
        assert_eq!(chosen(ours, theirs, [5, 11]), None);
        assert_eq!(chosen(ours, theirs, [17, 1]), None);
        assert_eq!(chosen(None, None, [1, 1]), Some(None));
        assert_eq!(chosen(ours, None, [1, 1]), None);
        assert_eq!(chosen(None, theirs, [1, 1]), None);
        assert_eq!(chosen(Some(&[]), Some(&[]), [1, 1]), None);
        // A name that stands for other sizes on the other side is another one.
        let mut other = offers(&[2]);
        other[0].sender_size += 1;
        let ours = offers(&[2]);
        assert!(choose(true, [Some(&ours), Some(&other)], [1, 1]).is_err());
    }
}
