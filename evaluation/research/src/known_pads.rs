//! Why pads of values have an AES key each: the search that tests one guess against all known pads, on a toy.
//!
//! A party holds rows tᵢ and knows pads H(tᵢ ⊕ Δ, i). Under one permutation, H(x, i) = π(π(x) ⊕ i) ⊕ π(x), so that H(x, i)
//! ⊕ i = π(w) ⊕ w for w = π(x) ⊕ i: whatever w it evaluates, one look-up compares the result with every pad. That
//! finds Δ of b bits from q pads in about 2^b/q evaluations. Under a key for each pad, H(x, i) = π(kᵢ, x) ⊕ x, an
//! evaluation is made under one key, and what other pads it hits means nothing.
//!
//! Blocks have [`BITS`] bits here, and π is a Feistel network, which is as good as any for what is shown.

use std::collections::HashMap;

/// Bits of a block.
pub const BITS: u32 = 24;

const HALF: u32 = BITS / 2;

/// Rounds of the network.
const ROUNDS: u32 = 8;

/// Evaluations of π, in either direction, are counted.
#[derive(Default)]
pub struct Toy {
    /// How many there were.
    pub evaluations: u64,
}

impl Toy {
    fn round(key: u32, round: u32, half: u32) -> u32 {
        let input = u64::from(key) << 32 | u64::from(half << 4 | round);
        let mixed = (input ^ input >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as u32 & ((1 << HALF) - 1)
    }

    /// π under a key.
    pub fn forward(&mut self, key: u32, block: u32) -> u32 {
        self.evaluations += 1;
        let (mut left, mut right) = (block >> HALF, block & ((1 << HALF) - 1));
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ Self::round(key, round, right));
        }
        left << HALF | right
    }

    /// The inverse of π.
    pub fn backward(&mut self, key: u32, block: u32) -> u32 {
        self.evaluations += 1;
        let (mut left, mut right) = (block >> HALF, block & ((1 << HALF) - 1));
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ Self::round(key, round, left), left);
        }
        left << HALF | right
    }
}

/// How pads are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All under this key.
    One(u32),
    /// Pad number i under this key, increased by i.
    Each(u32),
}

impl Keys {
    /// H(x, i).
    pub fn hash(self, toy: &mut Toy, x: u32, i: u32) -> u32 {
        match self {
            Keys::One(key) => {
                let once = toy.forward(key, x);
                toy.forward(key, once ^ i) ^ once
            }
            Keys::Each(first) => toy.forward(first + i, x) ^ x,
        }
    }
}

/// What a party has: its rows, and the pads of the rows that it lacks.
pub struct View {
    /// tᵢ.
    pub rows: Vec<u32>,
    /// H(tᵢ ⊕ Δ, i).
    pub pads: Vec<u32>,
}

/// Searches for Δ with at most so many evaluations.
pub fn search(view: &View, keys: Keys, most: u64) -> (Option<u32>, u64) {
    let mut toy = Toy::default();
    let entry = |i: u32| match keys {
        Keys::One(_) => view.pads[i as usize] ^ i,
        Keys::Each(_) => view.pads[i as usize],
    };
    let mut table: HashMap<u32, Vec<u32>> = HashMap::new();
    let count = view.pads.len() as u32;
    (0..count).for_each(|i| table.entry(entry(i)).or_default().push(i));
    for w in 0..1 << BITS {
        if toy.evaluations >= most {
            break;
        }
        // With a key each there is a choice of one; all are as good.
        let key = match keys {
            Keys::One(key) => key,
            Keys::Each(first) => first + w % count,
        };
        let image = toy.forward(key, w) ^ w;
        for i in table.get(&image).into_iter().flatten() {
            let x = match keys {
                Keys::One(key) => toy.backward(key, w ^ i),
                Keys::Each(_) => w,
            };
            let delta = x ^ view.rows[*i as usize];
            let holds = |j: u32| {
                let guess = view.rows[j as usize] ^ delta;
                keys.hash(&mut toy, guess, j) == view.pads[j as usize]
            };
            if [*i, (i + 1) % count, (i + 2) % count]
                .into_iter()
                .all(holds)
            {
                return (Some(delta), toy.evaluations);
            }
        }
    }
    (None, toy.evaluations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testing::rng;

    fn random(rng: &mut impl rand_core::Rng) -> u32 {
        rng.next_u32() >> (32 - BITS)
    }

    fn view(keys: Keys, delta: u32, count: u32, seed: u64) -> View {
        let (mut rng, mut toy) = (rng(seed), Toy::default());
        let rows: Vec<u32> = (0..count).map(|_| random(&mut rng)).collect();
        let pads = (0..).zip(&rows);
        let pads = pads.map(|(i, row)| keys.hash(&mut toy, row ^ delta, i));
        View {
            pads: pads.collect(),
            rows,
        }
    }

    #[test]
    fn the_toy_is_a_permutation() {
        let mut toy = Toy::default();
        for block in 0..1000 {
            let image = toy.forward(77, block);
            assert!(image >> BITS == 0 && image != toy.forward(78, block));
            assert_eq!(toy.backward(77, image), block);
        }
        assert_eq!(toy.evaluations, 3000);
    }

    /// 2^11 pads: 2^13 evaluations on average, where 2^24 values are possible.
    #[test]
    fn under_one_key_known_pads_are_tested_together() {
        let mut all = 0;
        for seed in 0..8 {
            let delta = random(&mut rng(100 + seed));
            let keys = Keys::One(5 + seed as u32);
            let view = view(keys, delta, 1 << 11, seed);
            let (found, evaluations) = search(&view, keys, 1 << 24);
            assert_eq!(found, Some(delta));
            all += evaluations;
        }
        assert!(all < 8 << 15, "{all}");
    }

    /// With a key each, as many evaluations find nothing.
    #[test]
    fn under_a_key_each_they_are_not() {
        for seed in 0..8 {
            let delta = random(&mut rng(100 + seed));
            let keys = Keys::Each(1000 * seed as u32);
            let view = view(keys, delta, 1 << 11, seed);
            let (found, evaluations) = search(&view, keys, 1 << 17);
            assert_eq!(found, None);
            assert!(evaluations >= 1 << 17);
            // The same search with the right guess among what it evaluates: only at the pad whose key it is.
            let mut toy = Toy::default();
            let hits = (0..1 << 11).filter(|i| {
                let guess = view.rows[7] ^ delta;
                keys.hash(&mut toy, guess, *i) == view.pads[7]
            });
            assert!(hits.eq([7]));
        }
    }
}
