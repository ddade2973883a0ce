//! Sets of digests: their order, a hash of all of them, and one among which others are looked for.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::prelude::*;
use vesica_kernels::prefetch;
use zeroize::Zeroizing;

/// Puts digests in the order of their bytes.
pub fn sort_digests(digests: &mut [[u8; 32]]) {
    digests.sort_unstable_by(by_bytes);
}

/// The different ones of some digests, in the order of their bytes, and where each of them is.
pub struct Distinct {
    digests: Vec<[u8; 32]>,
    /// All places, by digest.
    places: Vec<u32>,
    /// Where those of each digest begin, and where the last end.
    begins: Vec<u32>,
}

impl Distinct {
    /// On all threads.
    ///
    /// # Panics
    /// If there are 2^32 digests or more.
    pub fn of(digests: &[[u8; 32]]) -> Distinct {
        let count = u32::try_from(digests.len()).expect("below 2^32 digests");
        let mut order: Vec<(u64, u32)> = (0..count)
            .into_par_iter()
            .map(|place| (head(&digests[place as usize]), place))
            .collect();
        let of = |place: u32| &digests[place as usize];
        order.par_sort_unstable_by(|(a, first), (b, second)| {
            let by_digest = || of(*first).cmp(of(*second));
            a.cmp(b).then_with(by_digest).then(first.cmp(second))
        });
        let mut distinct = Distinct {
            digests: Vec::with_capacity(digests.len()),
            places: Vec::with_capacity(digests.len()),
            begins: Vec::with_capacity(digests.len() + 1),
        };
        for (_, place) in order {
            if distinct.digests.last() != Some(of(place)) {
                distinct.begins.push(distinct.places.len() as u32);
                distinct.digests.push(*of(place));
            }
            distinct.places.push(place);
        }
        distinct.begins.push(count);
        distinct
    }

    /// The digests.
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// The places of one of them, ascending.
    ///
    /// # Panics
    /// If there is no such digest.
    pub fn places(&self, digest: usize) -> &[u32] {
        &self.places[self.begins[digest] as usize..self.begins[digest + 1] as usize]
    }
}

/// The order of bytes. One word tells nearly all digests apart, and is compared in a fraction of the time that 32 bytes take.
pub(crate) fn by_bytes(a: &[u8; 32], b: &[u8; 32]) -> Ordering {
    head(a).cmp(&head(b)).then_with(|| a.cmp(b))
}

fn head([a, b, c, d, e, f, g, h, ..]: &[u8; 32]) -> u64 {
    u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
}

/// A keyed hash of a set of digests, the same in whatever order they come.
///
/// It is the sum of the keyed hashes of all, modulo 2^256, hashed with their number. Only who knows the key can look for two
/// sets with one hash.
pub struct SetHash {
    key: Zeroizing<[u8; 32]>,
    sum: [u64; 4],
    digests: u64,
}

impl SetHash {
    /// That of no digests.
    pub fn new(key: &[u8; 32]) -> SetHash {
        SetHash {
            key: Zeroizing::new(*key),
            sum: [0; 4],
            digests: 0,
        }
    }

    /// Adds a digest that is not among them yet.
    pub fn add(&mut self, digest: &[u8; 32]) {
        let hash = blake3::keyed_hash(&self.key, digest);
        let mut carry = false;
        for (sum, bytes) in self.sum.iter_mut().zip(hash.as_bytes().as_chunks().0) {
            let (more, over) = sum.overflowing_add(u64::from_le_bytes(*bytes));
            let (more, again) = more.overflowing_add(carry.into());
            (*sum, carry) = (more, over || again);
        }
        self.digests += 1;
    }

    /// The hash of the set.
    pub fn finish(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"a set of so many digests");
        hasher.update(&self.digests.to_le_bytes());
        for word in self.sum {
            hasher.update(&word.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// Digests among which others are looked for.
pub struct DigestSet {
    /// In order.
    digests: Vec<[u8; 32]>,
    /// Where those with the same first bits begin, and where the last end. There are about as many as digests.
    begins: Vec<u32>,
    shift: u32,
}

impl DigestSet {
    /// How many digests before one that is looked for its memory is prefetched: `begins` first, then `digests`.
    const AHEAD: [usize; 2] = [16, 8];

    /// # Panics
    /// If there are 2^32 or more.
    pub fn new(mut digests: Vec<[u8; 32]>) -> DigestSet {
        assert!(u32::try_from(digests.len()).is_ok(), "below 2^32 digests");
        sort_digests(&mut digests);
        let bits = digests.len().max(2).ilog2();
        let shift = u64::BITS - bits;
        let mut begins = Vec::with_capacity((1 << bits) + 1);
        for (place, digest) in (0..).zip(&digests) {
            begins.resize((head(digest) >> shift) as usize + 1, place);
        }
        begins.resize((1 << bits) + 1, digests.len() as u32);
        DigestSet {
            digests,
            begins,
            shift,
        }
    }

    /// Whether each of the digests is one of the set's.
    pub fn has(&self, digests: &[[u8; 32]]) -> impl Iterator<Item = bool> {
        digests.iter().enumerate().map(|(place, digest)| {
            let [far, near] = Self::AHEAD.map(|ahead| digests.get(place + ahead));
            if let Some(far) = far {
                prefetch(&self.begins, (head(far) >> self.shift) as usize);
            }
            if let Some(near) = near {
                prefetch(&self.digests, self.range(near).start);
            }
            self.digests[self.range(digest)]
                .binary_search(digest)
                .is_ok()
        })
    }

    /// Where those are that have the first bits of this digest.
    fn range(&self, digest: &[u8; 32]) -> Range<usize> {
        let first = (head(digest) >> self.shift) as usize;
        self.begins[first] as usize..self.begins[first + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn different_digests_know_their_places(
            bytes in prop::collection::vec((0..4u8, 0..3u8), 0..200),
        ) {
            // Some differ in the last byte alone.
            let digests: Vec<[u8; 32]> = bytes
                .iter()
                .map(|(first, last)| {
                    let mut digest = [*first; 32];
                    digest[31] = *last;
                    digest
                })
                .collect();
            let mut expected = BTreeMap::<[u8; 32], Vec<u32>>::new();
            for (place, digest) in (0..).zip(&digests) {
                expected.entry(*digest).or_default().push(place);
            }
            let distinct = Distinct::of(&digests);
            prop_assert!(distinct.digests().iter().eq(expected.keys()));
            for (number, places) in expected.values().enumerate() {
                prop_assert_eq!(distinct.places(number), &places[..]);
            }
        }
    }

    #[test]
    fn the_hash_of_a_set_is_of_its_digests_in_any_order() {
        let digests: Vec<_> = (0..300u32)
            .map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes())
            .collect();
        let hash = |key: u8, digests: &mut dyn Iterator<Item = &[u8; 32]>| {
            let mut hash = SetHash::new(&[key; 32]);
            digests.for_each(|digest| hash.add(digest));
            hash.finish()
        };
        let whole = hash(1, &mut digests.iter());
        assert_eq!(whole, hash(1, &mut digests.iter().rev()));
        let others = [
            hash(2, &mut digests.iter()),
            hash(1, &mut digests[1..].iter()),
            hash(1, &mut digests[1..].iter().chain([&[0; 32]])),
            hash(1, &mut [].iter()),
        ];
        assert!(others.iter().all(|other| *other != whole));
        // Carries go all the way.
        let mut all_ones = SetHash::new(&[1; 32]);
        all_ones.sum = [u64::MAX; 4];
        let mut none = SetHash::new(&[1; 32]);
        for set in [&mut all_ones, &mut none] {
            set.add(&digests[0]);
        }
        let mut less_one = none.sum;
        less_one[0] -= 1;
        assert_eq!(all_ones.sum, less_one);
    }

    #[test]
    fn the_order_is_that_of_all_bytes() {
        let mut digests: Vec<[u8; 32]> = (0..2000u32)
            .map(|i| {
                let hash = *blake3::hash(&i.to_le_bytes()).as_bytes();
                std::array::from_fn(|byte| hash[byte] % if byte % 9 == 0 { 3 } else { 1 })
            })
            .collect();
        let mut expected = digests.clone();
        expected.sort();
        sort_digests(&mut digests);
        assert_eq!(digests, expected);
    }

    #[test]
    fn a_set_has_its_digests_and_no_others() {
        let digest = |i: u32, kept: u8| {
            let hash = *blake3::hash(&i.to_le_bytes()).as_bytes();
            std::array::from_fn(|byte| {
                if byte < 2 {
                    hash[byte] & kept
                } else {
                    hash[byte]
                }
            })
        };
        for count in [0, 1, 2, 3, 63, 64, 65, 5000] {
            // Uniform ones, and such as all begin with the same bits.
            for kept in [u8::MAX, 0] {
                let asked: Vec<[u8; 32]> = (0..2 * count).map(|i| digest(i, kept)).collect();
                let set = DigestSet::new(asked.iter().copied().step_by(2).collect());
                let has: Vec<bool> = set.has(&asked).collect();
                assert!(has.iter().enumerate().all(|(i, has)| *has == (i % 2 == 0)));
                let ends = [[0; 32], [u8::MAX; 32]];
                assert!(set.has(&ends).all(|has| !has));
                let set = DigestSet::new([&ends[..], &asked].concat());
                assert!(set.has(&ends).chain(set.has(&asked)).all(|has| has));
            }
        }
    }
}
