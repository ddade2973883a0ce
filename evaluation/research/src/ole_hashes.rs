//! Comparisons from dealt tuples with two hash functions and a stash, three, and four: what `ole` has three for.
//!
//! **Paper.** F. Kerschbaum, E.-O. Blass, R. Akhavan Mahdavi, *Faster Secure Comparisons with Offline Phase for Efficient
//! Private Set Intersection*, NDSS 2023 (KBM23), algorithm 1 and table II, online alone.
//!
//! **Adversary.** Semi-honest. Tuples come from a seed that both parties of this process know, so **nothing is hidden**:
//! for counting bits and time.
//!
//! **Parameters.** Bins per item and places of the stash are the paper's; β is [`simple`]'s bound, which is smaller than the
//! paper's, and Q the least prime above all values and two dummies.
//!
//! **The stash.** A bin says part of what an item is, and so only the rest is compared there. A place of the stash says
//! nothing, so its item is compared in full with each of the sender's, modulo a prime of 33 bits for items of 32. The
//! paper's equation (12) counts these comparisons with as many bits as those in bins.

use vesica_encodings::cuckoo::{MAX_HASHES, Parameters, Table};
use vesica_encodings::permuted::{Functions, Places};
use vesica_encodings::simple;
use vesica_oprf::programmable::slots;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_primitives::prime::uniform;
use vesica_wire::{Channel, Error, Kind, Limit, Link};

use crate::runs::{Comparison, Run, both};

/// Frames with c of all bins, and of the stash.
pub const QUERIES: Kind = Kind {
    code: 71,
    name: "queries of bins or of the stash",
};

/// Frames with d of all comparisons.
pub const ANSWERS: Kind = Kind {
    code: 72,
    name: "answers to bins or to the stash",
};

/// Bits of an item.
const WIDTH: u32 = 32;

/// The least prime above 2^32.
const FULL: u64 = (1 << WIDTH) + 15;

/// λ of each event, as in the paper.
const LAMBDA: u32 = 40;

const SESSION: [u8; 32] = [7; 32];

/// A number of hash functions and what goes with it.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// Hash functions.
    pub hashes: usize,
    /// Bins per hundred items.
    pub bins: usize,
    /// Places of the stash.
    pub stash: usize,
}

/// Those of table II for up to 2^22 items.
pub static VARIANTS: [Variant; 3] = [
    Variant {
        name: "k = 2 and a stash",
        hashes: 2,
        bins: 240,
        stash: 3,
    },
    Variant {
        name: "k = 3",
        hashes: 3,
        bins: 127,
        stash: 0,
    },
    Variant {
        name: "k = 4",
        hashes: 4,
        bins: 109,
        stash: 0,
    },
];

/// Comparisons of one value of the receiver's with several: tuples with r = u·s + v modulo a prime.
struct Tuples {
    prime: u64,
    /// Comparisons of each of the receiver's values.
    each: usize,
    s: Vec<u64>,
    u: Vec<u64>,
    v: Vec<u64>,
    r: Vec<u64>,
}

/// u·x + v.
fn line(u: u64, x: u64, v: u64, prime: u64) -> u64 {
    ((u128::from(u) * u128::from(x) + u128::from(v)) % u128::from(prime)) as u64
}

impl Tuples {
    fn deal(prime: u64, values: usize, each: usize, seed: Block) -> Self {
        let mut prg = Prg::new(seed);
        let mut draw = |count: usize, least: u64| {
            let mut drawn = vec![0; count];
            uniform(&mut prg, least, prime, &mut drawn);
            drawn
        };
        let (s, u, v) = (
            draw(values, 0),
            draw(values * each, 1),
            draw(values * each, 0),
        );
        let mut r = vec![0; u.len()];
        parallel::each_item(&mut r, |i, r| *r = line(u[i], s[i / each], v[i], prime));
        Tuples {
            r,
            prime,
            each,
            s,
            u,
            v,
        }
    }

    fn bits(&self) -> u32 {
        u64::BITS - (self.prime - 1).leading_zeros()
    }

    /// Step 2: sends s − x for each value.
    fn ask(&self, channel: &mut dyn Channel, values: &[u64]) -> Result<(), Error> {
        let masked = |at: usize| (self.s[at] + self.prime - values[at]) % self.prime;
        send(channel, QUERIES, values.len(), self.bits(), masked)
    }

    /// Step 3: sends u·(c + y) + v for each value, `each` of them for each of the receiver's.
    fn answer(
        &self,
        channel: &mut dyn Channel,
        value: impl Fn(usize, usize) -> u64,
    ) -> Result<(), Error> {
        let asked = slots::recv::<1>(channel, QUERIES, self.s.len(), self.bits())?;
        send(channel, ANSWERS, self.u.len(), self.bits(), |at| {
            let (place, rank) = (at / self.each, at % self.each);
            let [c] = asked[place];
            line(self.u[at], c + value(place, rank), self.v[at], self.prime)
        })
    }

    /// Step 4: which of the values match.
    fn matched(&self, channel: &mut dyn Channel) -> Result<Vec<bool>, Error> {
        let mut matched = vec![false; self.s.len()];
        let mut at = 0;
        slots::recv_each::<1>(channel, ANSWERS, self.u.len(), self.bits(), |answers| {
            for [d] in answers {
                matched[at / self.each] |= *d == self.r[at];
                at += 1;
            }
        })?;
        Ok(matched)
    }
}

fn send(
    channel: &mut dyn Channel,
    kind: Kind,
    count: usize,
    bits: u32,
    value: impl Fn(usize) -> u64,
) -> Result<(), Error> {
    slots::send::<1>(channel, kind, count, bits, |first, to| {
        for (at, to) in (first..).zip(to) {
            *to = [value(at)];
        }
        Ok(())
    })
}

/// What both parties know of a run.
struct Plan<const K: usize> {
    functions: Functions<K>,
    parameters: Parameters,
    bins: Tuples,
    stash: Tuples,
}

/// The least prime from `least` on.
fn prime(least: u64) -> u64 {
    let is_prime = |n: &u64| {
        let mut divisors = (2..).take_while(|d| d * d <= *n);
        *n > 1 && divisors.all(|d| !n.is_multiple_of(d))
    };
    (least..).find(is_prime).expect("a prime")
}

impl<const K: usize> Plan<K> {
    fn new(variant: &Variant, items: usize, seed: u64) -> Self {
        assert_eq!(variant.hashes, K);
        let bins = (items * variant.bins).div_ceil(100).max(K);
        let parameters = Parameters {
            stash: variant.stash,
            ..Parameters::with_bins(items, K, bins)
        };
        let functions = Functions::new(parameters, WIDTH, &SESSION);
        let each = simple::most_entries_that_may_agree(items, &parameters, LAMBDA);
        // The receiver's dummy and the sender's are the next values.
        let modulus = prime(functions.values() + 2);
        let seed = Block::from(seed) << 1;
        Plan {
            bins: Tuples::deal(modulus, bins, each, seed),
            stash: Tuples::deal(FULL, variant.stash, items, seed | 1),
            functions,
            parameters,
        }
    }

    fn places(&self, items: &[u32]) -> Vec<Places<K>> {
        let numbers: Vec<u128> = items.iter().map(|item| u128::from(*item)).collect();
        let mut places = vec![Places::default(); items.len()];
        self.functions.places(&numbers, &mut places);
        places
    }

    /// The receiver: for each of its items whether it matches.
    fn receive(&self, channel: &mut dyn Channel, items: &[u32]) -> Result<Vec<bool>, Error> {
        channel.begin_phase("bins");
        let places = self.places(items);
        let bins: Vec<[u32; MAX_HASHES]> = places.iter().map(|places| places.bins).collect();
        let table =
            Table::place(self.parameters, &bins).map_err(|e| Error::limit(Limit::Encoding, e))?;
        let nothing = self.functions.values();
        let value = |bin: usize| {
            let entry = table.bin(bin);
            entry.map_or(nothing, |entry| {
                places[entry.item()].values[entry.function()]
            })
        };
        let values: Vec<u64> = (0..table.len()).map(value).collect();
        self.bins.ask(channel, &values)?;
        let left = |place| table.stash().get(place);
        let value = |place| left(place).map_or(1 << WIDTH, |item| items[*item as usize].into());
        let values: Vec<u64> = (0..self.parameters.stash).map(value).collect();
        self.stash.ask(channel, &values)?;
        channel.begin_phase("comparisons");
        let mut matched = vec![false; items.len()];
        for (entry, found) in table.bins().zip(self.bins.matched(channel)?) {
            if let Some(entry) = entry {
                matched[entry.item()] = found;
            }
        }
        for (item, found) in table.stash().iter().zip(self.stash.matched(channel)?) {
            matched[*item as usize] = found;
        }
        Ok(matched)
    }

    /// The sender.
    fn send(&self, channel: &mut dyn Channel, items: &[u32]) -> Result<(), Error> {
        let places = self.places(items);
        let bins = |item: usize| &places[item].bins;
        let table = simple::table_of(self.parameters.bins, K, places.len(), bins);
        if table.fullest() > self.bins.each {
            return Err(Error::limit(Limit::Encoding, "a bin with too many items"));
        }
        let nothing = self.functions.values() + 1;
        self.bins.answer(channel, |bin, rank| {
            let entry = table.bin(bin).get(rank);
            entry.map_or(nothing, |entry| {
                places[entry.item()].values[entry.function()]
            })
        })?;
        self.stash.answer(channel, |_, rank| items[rank].into())?;
        channel.flush()
    }
}

/// Numbers that stand for items: different ones for different i.
fn item(i: usize) -> u32 {
    (i as u32).wrapping_mul(0x9e37_79b1) ^ 0x5bd1_e995
}

/// One run on two sets of so many items, half of them in common.
fn run<const K: usize>(
    variant: &Variant,
    items: usize,
    seed: u64,
    link: Link,
) -> Result<Run, Error> {
    let plan = Plan::<K>::new(variant, items, seed);
    let shift = items - items.div_ceil(2);
    let [ours, theirs] =
        [0, shift].map(|first| (first..first + items).map(item).collect::<Vec<u32>>());
    let ([matched, _], seconds, phases) = both(
        link,
        |channel| plan.receive(channel, &ours),
        |channel| plan.send(channel, &theirs).map(|()| Vec::new()),
    )?;
    Ok(Run {
        seconds,
        phases,
        matches: matched.into_iter().filter(|matched| *matched).count(),
    })
}

fn test(variant: &Variant, items: usize, seed: u64, link: Link) -> Result<Run, Error> {
    match variant.hashes {
        2 => run::<2>(variant, items, seed, link),
        3 => run::<3>(variant, items, seed, link),
        _ => run::<4>(variant, items, seed, link),
    }
}

/// Runs the variants that are wanted and prints what each took online; how many there were.
///
/// # Errors
/// Those of the runs.
pub fn compare(how: &Comparison) -> Result<usize, Error> {
    let [items, _] = how.sizes;
    let subject = format!("{items} items of {WIDTH} bits per side, half in common");
    let named = VARIANTS.iter();
    let named = named.map(|variant| (variant.name.to_owned(), variant));
    how.show(&subject, items, named, |variant, seed| {
        test(variant, items, seed, how.link)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The intersection is found, stash included, in as many bits as equation (12) says, but for those of the stash, which
    /// are of whole items.
    #[test]
    fn every_number_of_functions_finds_the_intersection() {
        for variant in &VARIANTS {
            for items in [64, 1000, 5000] {
                let run = test(variant, items, 1, Link::LAN).unwrap();
                assert_eq!(run.matches, items.div_ceil(2), "{variant:?} {items}");
            }
            let bits = match variant.hashes {
                2 => traffic::<2>(variant, 5000),
                3 => traffic::<3>(variant, 5000),
                _ => traffic::<4>(variant, 5000),
            };
            let run = test(variant, 5000, 1, Link::LAN).unwrap();
            // Frames have headers of five bytes, and end with whole bytes.
            assert!((0..200).contains(&(8 * run.bytes() - bits)), "{variant:?}");
        }
    }

    /// Bits of all messages.
    fn traffic<const K: usize>(variant: &Variant, items: usize) -> u64 {
        let plan = Plan::<K>::new(variant, items, 1);
        let both = [plan.bins, plan.stash].into_iter();
        both.map(|tuples| (tuples.s.len() + tuples.u.len()) as u64 * u64::from(tuples.bits()))
            .sum()
    }

    /// With two functions and hardly any room some items are left without a bin, and found all the same.
    #[test]
    fn a_stash_that_is_used_finds_its_items() {
        let tight = Variant {
            name: "tight",
            hashes: 2,
            bins: 202,
            stash: 40,
        };
        let plan = Plan::<2>::new(&tight, 4000, 1);
        let ours: Vec<u32> = (0..4000).map(item).collect();
        let bins: Vec<_> = plan.places(&ours).iter().map(|p| p.bins).collect();
        assert!(
            !Table::place(plan.parameters, &bins)
                .unwrap()
                .stash()
                .is_empty()
        );
        assert_eq!(test(&tight, 4000, 1, Link::LAN).unwrap().matches, 2000);
    }

    /// As table II has it from 2^20 on; at 2^16 four take 1 % less, since β is smaller here.
    #[test]
    fn three_functions_take_the_fewest_bits_of_large_sets() {
        let of = |items| {
            [
                traffic::<2>(&VARIANTS[0], items),
                traffic::<3>(&VARIANTS[1], items),
                traffic::<4>(&VARIANTS[2], items),
            ]
        };
        let [two, three, four] = of(1 << 18);
        assert!(three < four && four < two, "{two} {three} {four}");
        let [two, three, four] = of(1 << 16);
        assert!(four < three && 100 * three < 101 * four && three < two);
    }

    #[test]
    fn primes_are_the_least() {
        assert_eq!([2, 8, 90, 3415].map(prime), [2, 11, 97, 3433]);
        assert_eq!(prime(1 << WIDTH), FULL);
    }
}
