//! A hint as a small table per bin, for at most three points in each.
//!
//! CGS22, figure 10, after Kolesnikov, Matania, Pinkas, Rosulek and Trieu (CCS 2017). A bin has four slots, and a nonce
//! under which the hashes of its points' F are distinct slots. A point's slot holds its target under its pad; the
//! others are random.
//!
//! The paper draws nonces of κ bits until one serves. Here a nonce has eight bits and is the least that serves. The
//! receiver knows the slots of at most one point of the bin. For every nonce the other points' slots are uniform and
//! independent of that one, so whether the nonce serves tells nothing about the query, be it a point or not. Three
//! points take distinct slots with probability 3/8, so no nonce serves a bin with probability (5/8)^256 < 2^-173.
//! The nonces from 128 on need a second hash, and hardly any bin needs those.

use rand_core::CryptoRng;
use vesica_encodings::EncodingFailed;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Frames, Kind, Limit};

use super::pads::Pads;
use super::{Hint, Points, Program, Queries, Shape, Strings, log_up, slots};
use crate::{Output, bytes};

/// Frames with the bins' nonces.
pub const NONCES: Kind = Kind {
    code: 98,
    name: "nonces",
};

/// Frames with the bins' slots.
pub const TABLE: Kind = Kind {
    code: 99,
    name: "table hint",
};

/// Maximum number of points in a bin.
const MAX_IN_BIN: usize = 3;

/// Slots of a bin.
const SLOTS: usize = 4;

/// Bits of a nonce.
const NONCE_BITS: u32 = 8;

/// Nonces whose slots one pad holds.
const NONCES_PER_PAD: usize = 128;

/// Bins of one task.
const TASK: usize = 1 << 10;

/// The index of the pad that hides a target, and of the first one whose bits are slots: two for each nonce.
const HIDING: usize = 0;
const PLACING: usize = 1;

/// A table of four slots for each bin.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableHint;

/// The slot of a point under a nonce, given the pad of that nonce.
fn slot(placing: &[u64; 4], nonce: usize) -> usize {
    let at = nonce % NONCES_PER_PAD;
    (placing[at / 32] >> (2 * (at % 32))) as usize % SLOTS
}

/// The least nonce of one pad under which a bin's points have distinct slots.
fn least_nonce(bin: &[[u64; 4]]) -> Option<usize> {
    (0..NONCES_PER_PAD).find(|nonce| {
        let mut taken = [false; SLOTS];
        bin.iter()
            .all(|placing| !std::mem::replace(&mut taken[slot(placing, *nonce)], true))
    })
}

/// The nonce of a bin, and the slots of its points.
type Placement = (u8, [u8; MAX_IN_BIN]);

/// The placement of one bin, given its points' F and their first pads, which later ones replace.
fn placement(
    pads: &Pads,
    bin: usize,
    outputs: &[Output],
    placing: &mut [[u64; 4]],
) -> Result<Placement, EncodingFailed> {
    let all_pads = (1 << NONCE_BITS) / NONCES_PER_PAD;
    for pad in 0..all_pads {
        if pad > 0 {
            let inputs = std::iter::repeat((bin, PLACING + pad));
            pads.for_each(outputs, inputs, |from, pads| {
                placing[from..][..pads.len()].copy_from_slice(pads);
            });
        }
        if let Some(nonce) = least_nonce(placing) {
            let mut places = [0; MAX_IN_BIN];
            for (place, placing) in places.iter_mut().zip(&*placing) {
                *place = slot(placing, nonce) as u8;
            }
            return Ok(((pad * NONCES_PER_PAD + nonce) as u8, places));
        }
    }
    Err(EncodingFailed)
}

/// Figure 10, step 2, for all bins.
fn placements(
    pads: &Pads,
    points: &Points,
    outputs: &[Output],
) -> Result<Vec<Placement>, EncodingFailed> {
    let mut placed = vec![Placement::default(); points.bins()];
    let place = |(task, placed): (usize, &mut [Placement])| {
        let first = task * TASK;
        let start = points.begin(first);
        let outputs = &outputs[start..points.begin(first + placed.len())];
        let mut placing = vec![[0; 4]; outputs.len()];
        let inputs = points.bins_from(start).map(|bin| (bin, PLACING));
        pads.for_each(outputs, inputs, |from, pads| {
            placing[from..][..pads.len()].copy_from_slice(pads);
        });
        for (bin, placed) in (first..).zip(placed) {
            let of = points.begin(bin) - start..points.begin(bin + 1) - start;
            *placed = placement(pads, bin, &outputs[of.clone()], &mut placing[of])?;
        }
        Ok(())
    };
    parallel::try_each(placed.chunks_mut(TASK).enumerate(), place)?;
    Ok(placed)
}

/// The slots of queries, given the nonces of all bins.
fn places(pads: &Pads, queries: &Queries, outputs: &[Output], nonces: &[[u64; 1]]) -> Vec<usize> {
    let nonce = |bin: u32| nonces[bin as usize][0] as usize;
    let inputs = queries.at().iter();
    let inputs = inputs.map(|bin| (*bin as usize, PLACING + nonce(*bin) / NONCES_PER_PAD));
    let mut places = vec![0; queries.len()];
    pads.for_each(outputs, inputs, |from, pads| {
        let bins = &queries.at()[from..];
        for ((place, bin), placing) in places[from..].iter_mut().zip(bins).zip(pads) {
            *place = slot(placing, nonce(*bin));
        }
    });
    places
}

impl Hint for TableHint {
    const CANDIDATES: usize = 1;

    fn bits(&self, shape: &Shape, string_bits: u32) -> u64 {
        shape.bins as u64 * (SLOTS as u64 * u64::from(string_bits) + u64::from(NONCE_BITS))
    }

    fn frames(&self, shape: &Shape, string_bits: u32) -> Frames {
        let nonces = slots::frames(shape.bins, NONCE_BITS);
        nonces + slots::frames(SLOTS * shape.bins, string_bits)
    }

    /// The sender has hidden targets, the receiver all slots and candidates.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64 {
        let string = u64::from(string_bits.div_ceil(64)) * 8;
        let bins = shape.bins as u64;
        let sender = bytes(shape.params.sender_size as u64, 48 + string) + bytes(bins, 8);
        let queries = bytes(shape.params.receiver_size as u64, 84);
        sender.max(queries + bytes(bins, 40 + SLOTS as u64 * string))
    }

    /// Every bin has a nonce in each part, a part having 256 bits of which the first has the tag in its lower half.
    fn max_lambda_each(&self, shape: &Shape) -> u32 {
        let parts = (Block::BITS + shape.payload_bits).div_ceil(2 * Block::BITS);
        173u32.saturating_sub(log_up(shape.bins as u64 * u64::from(parts)))
    }

    /// # Panics
    /// If a bin has more than three points.
    fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        program: &Program<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let points = program.points;
        let fits = |bin| points.begin(bin + 1) - points.begin(bin) <= MAX_IN_BIN;
        assert!(
            (0..points.bins()).all(fits),
            "at most three points in a bin"
        );
        let pads = Pads::new(shape, program.part);
        // Step 2.
        let placed = placements(&pads, points, program.outputs)
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        slots::send(channel, NONCES, shape.bins, NONCE_BITS, |first, to| {
            for (to, (nonce, _)) in to.iter_mut().zip(&placed[first..]) {
                *to = [u64::from(*nonce)];
            }
            Ok(())
        })?;
        // Steps 3 to 5.
        let hidden = pads.hide::<W>(program, |_| HIDING);
        let mut filler = Prg::random(rng);
        let count = SLOTS * shape.bins;
        slots::send(channel, TABLE, count, program.layout.bits(), |first, to| {
            slots::randomize(&mut filler, to);
            // Frames hold whole bins.
            for (bin, to) in (first / SLOTS..).zip(to.as_chunks_mut::<SLOTS>().0) {
                let hidden = &hidden[points.begin(bin)..points.begin(bin + 1)];
                for (hidden, place) in hidden.iter().zip(placed[bin].1) {
                    to[usize::from(place)] = *hidden;
                }
            }
            Ok(())
        })
    }

    fn receive<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        queries: &Queries,
        outputs: &[Output],
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let nonces = slots::recv::<1>(channel, NONCES, shape.bins, NONCE_BITS)?;
        let bits = strings.layout().bits();
        let slots = slots::recv::<W>(channel, TABLE, SLOTS * shape.bins, bits)?;
        // Step 6.
        let pads = Pads::new(shape, strings.part());
        let places = places(&pads, queries, outputs, &nonces);
        let at = |from| queries.at()[from..].iter().map(|bin| *bin as usize);
        pads.for_each(outputs, at(0).map(|bin| (bin, HIDING)), |from, pads| {
            for ((place, bin), pad) in places[from..].iter().zip(at(from)).zip(pads) {
                strings.set(bin, 0, &slots[SLOTS * bin + place], *pad);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Split;
    use super::*;
    use rand_core::Rng;
    use vesica_primitives::security::KeyAgreement;
    use vesica_testing::rng;

    fn random(count: usize) -> Vec<[u64; 4]> {
        let mut rng = rng(3);
        (0..count)
            .map(|_| std::array::from_fn(|_| rng.next_u64()))
            .collect()
    }

    /// Three in eight nonces serve, whatever the slot of the first point.
    #[test]
    fn nonces_do_not_depend_on_one_points_slot() {
        let placing = random(3 * 40_000);
        let mut seen = [[0u32; 2]; SLOTS];
        for bin in placing.as_chunks::<3>().0 {
            let nonce = least_nonce(bin).unwrap();
            let slots = bin.map(|placing| slot(&placing, nonce));
            assert!(slots[0] != slots[1] && slots[0] != slots[2] && slots[1] != slots[2]);
            seen[slot(&bin[0], 0)][usize::from(nonce == 0)] += 1;
        }
        for [not, serves] in seen {
            let share = f64::from(serves) / f64::from(not + serves);
            assert!((0.36..0.39).contains(&share), "{share}");
        }
    }

    /// Both sides take later pads where no nonce of the first one serves, and agree on the slots.
    #[test]
    fn later_pads_give_more_nonces() {
        let shape = Shape {
            params: crate::Params {
                security: vesica_primitives::security::Security::SemiHonest,
                lambda: 40,
                receiver_size: 3,
                sender_size: 3,
                key_agreement: KeyAgreement::default(),
                session: [1; 32],
            },
            bins: 8,
            payload_bits: 0,
            split: Split {
                oprf: 42,
                hint: 42,
                tag_bits: 60,
            },
        };
        let pads = Pads::new(&shape, 0);
        let outputs = [[1, 2], [3, 4], [5, 6]];
        let (nonce, slots) = placement(&pads, 5, &outputs, &mut [[0; 4]; 3]).unwrap();
        assert!(usize::from(nonce) >= NONCES_PER_PAD);
        for (output, expected) in outputs.iter().zip(slots) {
            let query = Queries::new(8, vec![5], vec![[0; 32]]);
            let nonces = [[u64::from(nonce)]; 8];
            let found = places(&pads, &query, &[*output], &nonces);
            assert_eq!(found, [usize::from(expected)]);
        }
        let same = [outputs[0]; 2];
        assert!(placement(&pads, 5, &same, &mut [[0; 4]; 2]).is_err());
    }

    #[test]
    fn equal_points_have_no_nonce() {
        let placing = random(2);
        assert_eq!(least_nonce(&[]), Some(0));
        assert_eq!(least_nonce(&placing[..1]), Some(0));
        assert!(least_nonce(&placing).is_some());
        assert_eq!(least_nonce(&[placing[0], placing[0]]), None);
    }
}
