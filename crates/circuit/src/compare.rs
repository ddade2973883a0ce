//! One comparison of an additively shared integer with a public one, and what it guards.
//!
//! **Comparison.** Let A be shared modulo 2^k, and A and the threshold K between 0 and 2^(k−1). Then A ≥ K iff the
//! top bit of A − K modulo 2^k is 0. That bit is the sum of the top bits of both shares and the carry into them.
//! Each side knows its share, so every bit has g = AND and p = XOR of one bit from each; a tree joins neighbours by
//! (g, p)∘(g′, p′) = (g ⊕ p·g′, p·p′).
//!
//! **Guard.** v = v_R + v_S is multiplied by a shared bit c: c·v_R is a product of a value by a shared bit, and
//! c·v_S = c_S·v_S + c_R·(1 − 2c_S)·v_S one of two integers. Both use the main direction.
//!
//! **Adversary.** Semi-honest; ANDs and products are simulated as in [`crate::triples`] and [`crate::arithmetic`].
//! **Cost** of a comparison modulo 2^k with l = ⌈log₂(k − 1)⌉: 1 + l message flows, 128·(1 + 2l) COTs, and at most
//! 60 bytes from each party. The guard: 65 COTs, at most 278 bytes, four message flows.

use rand_core::CryptoRng;
use vesica_wire::{Channel, Error};

use crate::arithmetic::Ring;
use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::triples::{Party, Triples, and};

/// Generated and propagated carries of neighbouring groups of bits, lowest group first.
struct Carries {
    g: BitShares,
    p: BitShares,
}

impl Carries {
    /// Joins groups 2i and 2i + 1; an odd last one stays.
    fn join(self, channel: &mut dyn Channel, triples: &mut Triples) -> Result<Self, Error> {
        let pairs = self.g.len() / 2;
        let low = |bits: &BitShares| BitShares::from_fn(pairs, |i| bits.get(2 * i));
        let high = |bits: &BitShares| BitShares::from_fn(pairs, |i| bits.get(2 * i + 1));
        let p = high(&self.p);
        let rows = and(channel, triples, &[&p, &p], &[&low(&self.g), &low(&self.p)])?;
        let mut g = high(&self.g);
        g.add(&rows[0]);
        let with_last = |joined: &BitShares, all: &BitShares| {
            BitShares::from_fn(all.len().div_ceil(2), |i| match i < pairs {
                true => joined.get(i),
                false => all.get(2 * i),
            })
        };
        Ok(Carries {
            g: with_last(&g, &self.g),
            p: with_last(&rows[1], &self.p),
        })
    }
}

/// Message flows of a tree over `leaves` leaves.
pub(crate) fn levels(leaves: u32) -> usize {
    leaves.next_power_of_two().ilog2() as usize
}

/// A share of the bit A ≥ `threshold`, from a share of A.
///
/// # Panics
/// If the ring has one bit only, or `threshold` is not below 2^(k−1).
pub(crate) fn at_least<P: Party>(
    party: &mut P,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    ring: Ring,
    share: u64,
    threshold: u64,
) -> Result<BitShares, Error> {
    let low = ring.bits() - 1;
    assert!(low > 0 && threshold >> low == 0);
    let share = ring.reduce(share.wrapping_sub(party.public(threshold)));
    let mut triples = party.triples(channel, rng, 1 + 2 * levels(low))?;
    let own = BitShares::from_fn(low as usize, |i| share >> i);
    let none = BitShares::zeros(low as usize);
    // x·y with x known to one party and y to the other: their shares of the peer's bits are 0.
    let (x, y) = match party.public(1) == 1 {
        true => (&own, &none),
        false => (&none, &own),
    };
    let g = and(channel, &mut triples, &[x], &[y])?.remove(0);
    let mut carries = Carries { g, p: own };
    while carries.g.len() > 1 {
        carries = carries.join(channel, &mut triples)?;
    }
    let negative = carries.g.get(0) ^ share >> low;
    Ok(BitShares::from_fn(1, |_| negative ^ party.public(1)))
}

impl ValueEnd {
    /// A share of the shared value if the shared bit is 1, of 0 otherwise.
    pub(crate) fn guard(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        ring: Ring,
        share: u64,
        condition: &BitShares,
    ) -> Result<u64, Error> {
        let own = self.select(channel, rng, ring, &[share], condition)?;
        let other = self.inner_product(channel, rng, &[condition.get(0)])?;
        Ok(ring.reduce(own[0].wrapping_add(other)))
    }
}

impl ChoiceEnd {
    /// The other side of [`ValueEnd::guard`].
    pub(crate) fn guard(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        ring: Ring,
        share: u64,
        condition: &BitShares,
    ) -> Result<u64, Error> {
        let other = self.multiply(channel, rng, ring, condition)?;
        let mask = condition.get(0).wrapping_neg();
        let negated = (share ^ mask).wrapping_sub(mask);
        let own = self.inner_product(channel, rng, &[negated])?;
        let sum = other[0].wrapping_add(own).wrapping_add(share & mask);
        Ok(ring.reduce(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{opened, run};
    use vesica_testing::rng;

    /// Whether `value`, shared as `mask` and the rest, is at least `threshold`.
    fn compare(ring: Ring, value: u64, mask: u64, threshold: u64) -> bool {
        let rest = ring.reduce(value.wrapping_sub(mask));
        let (one, two) = run(
            12,
            |engine, channel| {
                at_least(
                    &mut engine.main,
                    channel,
                    &mut rng(1),
                    ring,
                    mask,
                    threshold,
                )
            },
            |engine, channel| {
                at_least(
                    &mut engine.main,
                    channel,
                    &mut rng(2),
                    ring,
                    rest,
                    threshold,
                )
            },
        );
        opened(&one, &two) == [true]
    }

    #[test]
    fn small_rings_compare_all_values() {
        for bits in 2..=4 {
            let ring = Ring::new(bits);
            for value in 0..1 << (bits - 1) {
                for threshold in 0..1 << (bits - 1) {
                    for mask in 0..1 << bits {
                        let found = compare(ring, value, mask, threshold);
                        assert_eq!(found, value >= threshold, "{bits}: {value} ≥ {threshold}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_rings_compare_around_the_threshold() {
        for bits in [5, 6, 8, 21, 22, 33, 63, 64] {
            let ring = Ring::new(bits);
            let max = (1u64 << (bits - 1)) - 1;
            for threshold in [0, 1, max / 3, max - 1, max] {
                for value in [
                    0,
                    threshold.saturating_sub(1),
                    threshold,
                    (threshold + 1).min(max),
                    max,
                ] {
                    for mask in [0, 1, max, ring.reduce(u64::MAX), 0x5bd1_e995_9d1b_a741] {
                        let mask = ring.reduce(mask);
                        assert_eq!(compare(ring, value, mask, threshold), value >= threshold);
                    }
                }
            }
        }
    }

    #[test]
    fn guarded_values_are_0_or_themselves() {
        for ring in [1, 22, 64].map(Ring::new) {
            for (value, mask) in [(0, 7), (5, 0), (u64::MAX, 9), (1 << 63, u64::MAX)] {
                for bits in 0..4u64 {
                    let condition = [bits & 1, bits >> 1].map(|bit| BitShares::from_fn(1, |_| bit));
                    let shares =
                        [mask, u64::wrapping_sub(value, mask)].map(|share| ring.reduce(share));
                    let (one, two) = run(
                        13,
                        |engine, channel| {
                            let condition = &condition[0];
                            engine
                                .main
                                .guard(channel, &mut rng(1), ring, shares[0], condition)
                        },
                        |engine, channel| {
                            let condition = &condition[1];
                            engine
                                .main
                                .guard(channel, &mut rng(2), ring, shares[1], condition)
                        },
                    );
                    let expected = if bits.count_ones() == 1 { value } else { 0 };
                    assert_eq!(ring.reduce(one.wrapping_add(two)), ring.reduce(expected));
                }
            }
        }
    }
}
