//! The classic protocol from Diffie-Hellman.
//!
//! **Paper.** B. Huberman, M. Franklin, T. Hogg, *Enhancing privacy and trust in electronic communities*,
//! EC 1999; the baseline of RT21.
//!
//! **Adversary.** Semi-honest, under DDH in the random-oracle model.
//!
//! **What is revealed.** The number of blinded items tells the sender the receiver's set size.
//!
//! **λ.** Two events share 2^-λ ([`EVENTS`]): masks of different items collide; points of different items
//! collide, among more than 2^250 points.
//!
//! **Deviations.**
//! - The receiver removes its own exponent from the sender's answer instead of applying it to the sender's
//!   items: F(x) = H(x, h(x)^a). The number of multiplications and, for equal sizes, of bytes is that of the
//!   original; the sender's items travel as short masks, and the protocol becomes an oblivious pseudorandom
//!   function (OPRF) like the others here.
//! - h maps to half of the curve (RFC 9380, encode-to-curve). The simulator only needs to sample a point with
//!   known exponent together with a string that maps to it; inverse Elligator does that.
//! - Points are u-coordinates, and exponents are multiples of 8, so that components of low order vanish.

use rand_core::CryptoRng;
use vesica_primitives::curve::{Exponent, is_canonical, map_to_curve};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, End, Error, Frames, Kind, Misbehaviour, Traffic, recv_rows, send_rows};

use crate::{Item, ItemCost, LongOutput, Oprf, Outputs, Params, PostQuantum, Spec, bytes};

/// Frames with the receiver's blinded items.
pub const BLINDED: Kind = Kind {
    code: 35,
    name: "blinded items",
};

/// Frames with the sender's answers to them.
pub const ANSWERS: Kind = Kind {
    code: 36,
    name: "answers to blinded items",
};

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 2;

/// Points in one frame.
const CHUNK: usize = 4096;

/// Frames that the receiver sends ahead of the answers: enough to keep both sides busy, and few enough to fit
/// into the bounded queues of a channel.
const AHEAD: usize = 8;

/// h of each item, in a domain that names the run.
fn points(session: &[u8; 32], items: &[Item]) -> Vec<[u8; 32]> {
    let domain = [
        b"vesica/1 dh curve25519_XMD:SHA-512_ELL2_NU_ ",
        session.as_slice(),
    ]
    .concat();
    map_to_curve(items.iter().map(<[u8; 32]>::as_slice), &domain)
}

fn masks(session: &[u8; 32], items: &[Item], raised: &[[u8; 32]]) -> Vec<LongOutput> {
    let h = Oracle::new("vesica/1 dh mask", session);
    items
        .iter()
        .zip(raised)
        .map(|(item, point)| h.hash(&[item, point]))
        .collect()
}

/// The points of a frame, each a canonical field element.
fn parse_points(kind: Kind, rows: &[u8]) -> Result<Vec<[u8; 32]>, Misbehaviour> {
    let (points, _) = rows.as_chunks::<32>();
    if points.iter().all(is_canonical) {
        return Ok(points.to_vec());
    }
    Err(Misbehaviour::BadValue {
        what: kind.name,
        problem: "not a canonical field element",
    })
}

/// Refuses results that are the point at infinity: only a point of low order gives that.
fn refuse_low_order(kind: Kind, results: &[[u8; 32]]) -> Result<(), Misbehaviour> {
    if results.contains(&[0; 32]) {
        return Err(Misbehaviour::BadValue {
            what: kind.name,
            problem: "a point of low order",
        });
    }
    Ok(())
}

/// The receiver with its blinding exponent.
pub struct Receiver {
    exponent: Exponent,
}

impl Receiver {
    /// The receiver and its blinded items h(y)^b, in order.
    pub fn new(
        session: &[u8; 32],
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> (Self, Vec<[u8; 32]>) {
        let exponent = Exponent::generate(rng);
        let blinded = exponent.raise(&points(session, items));
        (Receiver { exponent }, blinded)
    }

    /// h(y)^a from the answers to some items. Fails on encodings that are not canonical and on points of low
    /// order. Points of the twist, where no honest answer lies, endanger nothing more than points of the
    /// curve.
    pub fn unblind(&self, answers: &[u8]) -> Result<Vec<[u8; 32]>, Misbehaviour> {
        let unblinded = self.exponent.remove(&parse_points(ANSWERS, answers)?);
        refuse_low_order(ANSWERS, &unblinded)?;
        Ok(unblinded)
    }
}

/// The sender, with the key a of F.
pub struct Sender {
    exponent: Exponent,
}

impl Sender {
    /// A sender with a fresh key.
    pub fn new(rng: &mut dyn CryptoRng) -> Self {
        Sender {
            exponent: Exponent::generate(rng),
        }
    }

    /// F of the sender's items, in order.
    pub fn masks(&self, session: &[u8; 32], items: &[Item]) -> Vec<LongOutput> {
        let raised = self.exponent.raise_twice_cleared(&points(session, items));
        masks(session, items, &raised)
    }

    /// The answers to some blinded items. Fails as [`Receiver::unblind`] does.
    pub fn answer(&self, blinded: &[u8]) -> Result<Vec<[u8; 32]>, Misbehaviour> {
        let answers = self.exponent.raise(&parse_points(BLINDED, blinded)?);
        refuse_low_order(BLINDED, &answers)?;
        Ok(answers)
    }
}

static SPEC: Spec = Spec {
    name: "dh",
    source: "Huberman, Franklin and Hogg 1999",
    security: Security::SemiHonest,
    exact: None,
    cheaper: None,
    post_quantum: PostQuantum::Never,
    max_items: 1 << 28,
    max_lambda: |_, _| None,
    item_cost: ItemCost {
        bytes: 192,
        aes_blocks: 400_000,
    },
    working_bytes: |receiver_size, sender_size| {
        bytes(receiver_size.saturating_add(sender_size), 150)
    },
};

/// The protocol.
pub struct Dh;

impl Oprf for Dh {
    const OUTPUT_BITS: usize = 256;

    const EVENTS: u32 = EVENTS;

    type Prepared = ();

    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) {}

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        let chunks = |points: usize| {
            let whole = Frames::rows(CHUNK, 32);
            let times = (points / CHUNK) as u64;
            let whole = Frames {
                payload: whole.payload * times,
                count: whole.count * times,
            };
            whole + Frames::rows(points % CHUNK, 32)
        };
        // The next chunk leaves before an answer is waited for.
        let together = CHUNK * (AHEAD + 1);
        for first in (0..params.receiver_size).step_by(together) {
            let points = together.min(params.receiver_size - first);
            traffic.flow(End::Receiver, chunks(points));
            traffic.flow(End::Sender, chunks(points));
        }
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let (receiver, blinded) = Receiver::new(&params.session, items, rng);
        let mut unblinded = Vec::with_capacity(items.len());
        let mut ahead = blinded.chunks(CHUNK);
        for chunk in ahead.by_ref().take(AHEAD) {
            send_rows(channel, BLINDED, chunk.as_flattened(), 32)?;
        }
        for chunk in blinded.chunks(CHUNK) {
            if let Some(next) = ahead.next() {
                send_rows(channel, BLINDED, next.as_flattened(), 32)?;
            }
            recv_rows(channel, ANSWERS, 32, chunk.len(), |rows| {
                unblinded.extend(receiver.unblind(rows)?);
                Ok(())
            })?;
        }
        Ok(Outputs::Long(masks(&params.session, items, &unblinded)))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let sender = Sender::new(rng);
        // While the receiver blinds its own.
        let masks = sender.masks(&params.session, items);
        let mut left = params.receiver_size;
        while left > 0 {
            let count = left.min(CHUNK);
            let mut answers = Vec::with_capacity(count);
            recv_rows(channel, BLINDED, 32, count, |rows| {
                answers.extend(sender.answer(rows)?);
                Ok(())
            })?;
            send_rows(channel, ANSWERS, answers.as_flattened(), 32)?;
            left -= count;
        }
        Ok(Outputs::Long(masks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve25519_dalek::constants::EIGHT_TORSION;
    use vesica_testing::rng;

    const SESSION: [u8; 32] = [3; 32];

    fn items(range: std::ops::Range<u8>) -> Vec<Item> {
        range.map(|i| [i; 32]).collect()
    }

    #[test]
    fn masks_agree_on_shared_items_only() {
        let (ours, theirs) = (items(0..30), items(20..90));
        let (receiver, blinded) = Receiver::new(&SESSION, &ours, &mut rng(1));
        let sender = Sender::new(&mut rng(2));
        let answers = sender.answer(blinded.as_flattened()).unwrap();
        let unblinded = receiver.unblind(answers.as_flattened()).unwrap();
        let own = masks(&SESSION, &ours, &unblinded);
        let sent = sender.masks(&SESSION, &theirs);
        for (y, mask) in ours.iter().zip(&own) {
            let place = theirs.iter().position(|x| x == y);
            assert_eq!(sent.iter().position(|m| m == mask), place);
        }
        // Another run, the same key: nothing in common.
        let other = sender.masks(&[4; 32], &theirs);
        assert!(own.iter().all(|mask| !other.contains(mask)));
    }

    #[test]
    fn bad_points_are_refused_on_both_sides() {
        let (receiver, _) = Receiver::new(&SESSION, &items(0..1), &mut rng(1));
        let sender = Sender::new(&mut rng(2));
        let torsion = EIGHT_TORSION.map(|t| (t.to_montgomery().to_bytes(), "a point of low order"));
        let unreduced = ([0xff; 32], "not a canonical field element");
        for (point, expected) in torsion.into_iter().chain([unreduced]) {
            for refused in [sender.answer(&point), receiver.unblind(&point)] {
                match refused {
                    Err(Misbehaviour::BadValue { problem, .. }) => assert_eq!(problem, expected),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
