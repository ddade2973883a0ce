//! Comparisons of additively shared integers with a public one, and what they guard.
//!
//! **Comparison.** Let A be shared modulo 2^k, and A − K, for the threshold K, between −2^(k−1) and 2^(k−1) − 1. Then A ≥ K
//! iff the top bit of A − K modulo 2^k is 0; A may be below 0, where it has noise. That bit is the sum of the top bits of both shares and the carry into them.
//! Each side knows its share, so every bit has g = AND and p = XOR of one bit from each; a tree joins neighbours by
//! (g, p)∘(g′, p′) = (g ⊕ p·g′, p·p′). Several integers are compared side by side, and a tree of ANDs says whether all of
//! them, or all of each of several sets, reach K.
//!
//! **Guard.** v = v_R + v_S is multiplied by a shared bit c: c·v_R is a product of a value by a shared bit, and
//! c·v_S = c_S·v_S + c_R·(1 − 2c_S)·v_S one of two integers. Both use the main direction.
//!
//! **Adversary.** Semi-honest; ANDs and products are simulated as in [`crate::triples`] and [`crate::arithmetic`].
//! **Cost** of a comparison modulo 2^k with l = ⌈log₂(k − 1)⌉: 1 + l message flows, 128·(1 + 2l) COTs, and at most
//! 60 bytes from each party. The guard of a value: 65 COTs, at most 285 bytes, four message flows, however many there are.

use rand_core::CryptoRng;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::arithmetic::{Ring, Shares};
use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, ValueEnd};
use crate::triples::{Party, Triples, and};

/// Generated and propagated carries of neighbouring groups of bits, lowest group first; one integer's after the other's.
struct Carries {
    integers: usize,
    g: BitShares,
    p: BitShares,
}

impl Carries {
    /// Groups of each integer.
    fn groups(&self) -> usize {
        self.g.len() / self.integers
    }

    /// Joins groups 2i and 2i + 1 of each integer; an odd last one stays.
    fn join(self, channel: &mut dyn Channel, triples: &mut Triples) -> Result<Self, Error> {
        let groups = self.groups();
        let pairs = groups / 2;
        let of = |bits: &BitShares, odd: usize| {
            let place = |i: usize| i / pairs * groups + 2 * (i % pairs) + odd;
            BitShares::from_fn(self.integers * pairs, |i| bits.get(place(i)))
        };
        let p = of(&self.p, 1);
        let rows = and(
            channel,
            triples,
            &[&p, &p],
            &[&of(&self.g, 0), &of(&self.p, 0)],
        )?;
        let mut g = of(&self.g, 1);
        g.add(&rows[0]);
        let with_last = |joined: &BitShares, all: &BitShares| {
            let left = groups.div_ceil(2);
            BitShares::from_fn(self.integers * left, |i| match i % left {
                group if group < pairs => joined.get(i / left * pairs + group),
                _ => all.get((i / left + 1) * groups - 1),
            })
        };
        Ok(Carries {
            integers: self.integers,
            g: with_last(&g, &self.g),
            p: with_last(&rows[1], &self.p),
        })
    }
}

/// The numbers of ANDs of [`all_at_least`], flow by flow, for so many integers of a ring in so many sets; each with how many
/// rows of them there are.
pub(crate) fn gates(ring: Ring, integers: usize, sets: usize) -> Vec<(usize, usize)> {
    let mut gates = vec![(1, integers * (ring.bits() as usize - 1))];
    let mut groups = ring.bits() as usize - 1;
    while groups > 1 {
        gates.push((2, integers * (groups / 2)));
        groups = groups.div_ceil(2);
    }
    let mut each = integers / sets;
    while each > 1 {
        gates.push((1, sets * (each / 2)));
        each = each.div_ceil(2);
    }
    gates
}

/// Words of triples of [`all_at_least`].
pub(crate) fn gate_words(ring: Ring, integers: usize, sets: usize) -> usize {
    let words = |(rows, bits): (usize, usize)| rows * bits.div_ceil(64);
    gates(ring, integers, sets).into_iter().map(words).sum()
}

/// For each of so many sets a share of the bit that every Aᵢ of it ≥ `threshold`, from shares of the Aᵢ. A set has at least
/// one, each has as many, and Aᵢ is of set i modulo their number.
///
/// # Panics
/// If the ring has one bit only, or `threshold` is not below 2^(k−1).
pub(crate) fn all_at_least<P: Party>(
    party: &mut P,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
    ring: Ring,
    (shares, sets): (&[u64], usize),
    threshold: u64,
) -> Result<BitShares, Error> {
    let low = ring.bits() as usize - 1;
    assert!(low > 0 && threshold >> low == 0);
    let less = |share: &u64| ring.reduce(share.wrapping_sub(party.public(threshold)));
    let shares: Vec<u64> = shares.iter().map(less).collect();
    let integers = shares.len();
    let mut triples = party.triples(channel, rng, gate_words(ring, integers, sets))?;
    let own = BitShares::from_fn(integers * low, |i| shares[i / low] >> (i % low));
    let none = BitShares::zeros(own.len());
    // x·y with x known to one party and y to the other: their shares of the peer's bits are 0.
    let (x, y) = match party.public(1) == 1 {
        true => (&own, &none),
        false => (&none, &own),
    };
    let g = and(channel, &mut triples, &[x], &[y])?.remove(0);
    let mut carries = Carries {
        integers,
        g,
        p: own,
    };
    while carries.groups() > 1 {
        carries = carries.join(channel, &mut triples)?;
    }
    let not_negative = |i: usize| carries.g.get(i) ^ shares[i] >> low ^ party.public(1);
    let mut all = BitShares::from_fn(integers, not_negative);
    while all.len() > sets {
        // The first half of each set with the second; the middle one of an odd number is left.
        let pairs = all.len() / sets / 2 * sets;
        let of = |first| BitShares::from_fn(pairs, |i| all.get(first + i));
        let (one, other) = (of(0), of(all.len() - pairs));
        let mut joined = and(channel, &mut triples, &[&one], &[&other])?.remove(0);
        let left = all.len() - 2 * pairs;
        joined.append(&BitShares::from_fn(left, |i| all.get(pairs + i)));
        all = joined;
    }
    Ok(all)
}

impl ValueEnd {
    /// Shares modulo 2^64 of the shared values, each if the shared bit of its set is 1, of 0 otherwise. Value i is of set i modulo
    /// the number of bits.
    pub(crate) fn guard(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        shares: &[u64],
        condition: &BitShares,
    ) -> Result<Shares, Error> {
        let conditions = repeated(condition, shares.len());
        let mut own = self.select(channel, rng, Ring::FULL, shares, &conditions)?;
        let bits: Vec<u64> = (0..shares.len()).map(|i| conditions.get(i)).collect();
        let other = self.integer_products(channel, rng, &bits)?;
        add(&mut own, &other);
        Ok(own)
    }
}

impl ChoiceEnd {
    /// The other side of [`ValueEnd::guard`].
    pub(crate) fn guard(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        shares: &[u64],
        condition: &BitShares,
    ) -> Result<Shares, Error> {
        let conditions = repeated(condition, shares.len());
        let mut all = self.multiply(channel, rng, Ring::FULL, &conditions)?;
        let masked = |of: fn(u64, u64) -> u64| -> Shares {
            let masks = (0..shares.len()).map(|i| conditions.get(i).wrapping_neg());
            let masked = shares
                .iter()
                .zip(masks)
                .map(|(share, mask)| of(*share, mask));
            Zeroizing::new(masked.collect())
        };
        let negated = masked(|share, mask| (share ^ mask).wrapping_sub(mask));
        let own = self.integer_products(channel, rng, &negated)?;
        add(&mut all, &own);
        add(&mut all, &masked(|share, mask| share & mask));
        Ok(all)
    }
}

/// The shared bit of each of so many values, whose sets follow each other over and over.
fn repeated(bits: &BitShares, count: usize) -> BitShares {
    BitShares::from_fn(count, |i| bits.get(i % bits.len()))
}

/// Sums modulo 2^64.
fn add(to: &mut [u64], more: &[u64]) {
    let pairs = to.iter_mut().zip(more);
    pairs.for_each(|(to, more)| *to = to.wrapping_add(*more));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{opened, run};
    use vesica_testing::rng;

    /// For each of so many sets whether all of its values, shared as `mask` and the rest, are at least `threshold`.
    fn compare_sets(
        ring: Ring,
        (values, sets): (&[u64], usize),
        mask: u64,
        threshold: u64,
    ) -> Vec<bool> {
        let rest = |value: &u64| ring.reduce(value.wrapping_sub(mask));
        let rest: Vec<u64> = values.iter().map(rest).collect();
        let mask = vec![mask; values.len()];
        let (one, two) = run(
            12,
            |engine, channel| {
                let main = &mut engine.main;
                all_at_least(main, channel, &mut rng(1), ring, (&mask, sets), threshold)
            },
            |engine, channel| {
                let main = &mut engine.main;
                all_at_least(main, channel, &mut rng(2), ring, (&rest, sets), threshold)
            },
        );
        opened(&one, &two)
    }

    fn compare_all(ring: Ring, values: &[u64], mask: u64, threshold: u64) -> bool {
        compare_sets(ring, (values, 1), mask, threshold) == [true]
    }

    fn compare(ring: Ring, value: u64, mask: u64, threshold: u64) -> bool {
        compare_all(ring, &[value], mask, threshold)
    }

    #[test]
    fn several_integers_have_to_reach_the_threshold() {
        for bits in [2, 3, 9, 22, 64] {
            let ring = Ring::new(bits);
            let max = (1u64 << (bits - 1)) - 1;
            for count in 1..10 {
                for below in 0..=count {
                    let value = |i| if i == below { max - 1 } else { max };
                    let values: Vec<u64> = (0..count).map(value).collect();
                    let mask = ring.reduce(0x5bd1_e995_9d1b_a741);
                    let found = compare_all(ring, &values, mask, max);
                    assert_eq!(found, below == count, "{bits} bits, {below} of {count}");
                }
            }
        }
    }

    #[test]
    fn sets_are_compared_each_by_itself() {
        let (ring, threshold) = (Ring::new(7), 20);
        for sets in [1, 2, 3, 64, 65] {
            for each in 1..6 {
                // One value of every third set is below.
                let below = |set: usize| set % 3 == 1;
                let value = |i: usize| match below(i % sets) && i / sets == i % each {
                    true => threshold - 1,
                    false => threshold + i as u64 % 30,
                };
                let values: Vec<u64> = (0..sets * each).map(value).collect();
                let reach = |set: usize| (0..each).all(|row| values[row * sets + set] >= threshold);
                let expected: Vec<bool> = (0..sets).map(reach).collect();
                let found = compare_sets(ring, (&values, sets), 0x2b, threshold);
                assert_eq!(found, expected, "{sets} sets of {each}");
            }
        }
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
        let values = [0, 5, u64::MAX, 1 << 63];
        let masks = [7, 0, 9, u64::MAX];
        for count in 0..=values.len() {
            for bits in 0..4u64 {
                let condition = [bits & 1, bits >> 1].map(|bit| BitShares::from_fn(1, |_| bit));
                let rest: Vec<u64> = (0..count)
                    .map(|i| values[i].wrapping_sub(masks[i]))
                    .collect();
                let (one, two) = run(
                    13,
                    |engine, channel| {
                        let main = &mut engine.main;
                        main.guard(channel, &mut rng(1), &masks[..count], &condition[0])
                    },
                    |engine, channel| {
                        let main = &mut engine.main;
                        main.guard(channel, &mut rng(2), &rest, &condition[1])
                    },
                );
                let opened = one.iter().zip(&*two).map(|(a, b)| a.wrapping_add(*b));
                let shown = if bits.count_ones() == 1 { count } else { 0 };
                let expected = (0..count).map(|i| if i < shown { values[i] } else { 0 });
                assert!(opened.eq(expected), "{count} {bits}");
            }
        }
    }

    #[test]
    fn values_of_each_set_have_a_guard_of_their_own() {
        let (values, masks) = ([1, 2, 3, 4, 5, 6, 7], 0xabcd);
        let conditions = [0b110, 0b011].map(|bits: u64| BitShares::from_fn(3, |i| bits >> i & 1));
        let rest = values.map(|value: u64| value.wrapping_sub(masks));
        let (one, two) = run(
            14,
            |engine, channel| {
                let main = &mut engine.main;
                main.guard(channel, &mut rng(1), &[masks; 7], &conditions[0])
            },
            |engine, channel| {
                let main = &mut engine.main;
                main.guard(channel, &mut rng(2), &rest, &conditions[1])
            },
        );
        let opened = one.iter().zip(&*two).map(|(a, b)| a.wrapping_add(*b));
        assert!(opened.eq([1, 0, 3, 4, 0, 6, 7]));
    }
}
