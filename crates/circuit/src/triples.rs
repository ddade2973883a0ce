//! AND of shared bits, by random triples.
//!
//! **Papers.** D. Beaver, *Efficient Multiparty Protocols Using Circuit Randomization*, CRYPTO 1991; triples from
//! OTs as in G. Asharov, Y. Lindell, T. Schneider, M. Zohner, CCS 2013.
//!
//! **Triples.** COT i gives the choice end x_i and m_i, the lowest bit of its pad; the value end r_i and s_i, the
//! lowest bit of its first pad and the sum of those of both: m_i ⊕ r_i = x_i·s_i. Two COTs make a triple without a
//! message: the choice end has a = x₁, b = x₂, the value end a = s₂, b = s₁, and (x₁ ⊕ s₂)(x₂ ⊕ s₁) is shared as
//! x₁x₂ ⊕ m₁ ⊕ m₂ and s₁s₂ ⊕ r₁ ⊕ r₂.
//!
//! **AND.** Both parties open x ⊕ a and y ⊕ b, at the same time.
//!
//! **Adversary.** Semi-honest. Each side sees bits that are masked by the peer's halves of a and b: uniform, since
//! x_i is the peer's random choice, or s_i depends on a pad that this side lacks. **Cost** per AND: 2 COTs, 2 bits
//! from each party, one message flow. Rows of bits are padded to 64 for their triples.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, Masked, ValueEnd};
use crate::messages::{GATES, exchange, stray_bits};

/// Shares of random triples (a, b, a·b), 64 per word.
pub(crate) struct Triples {
    a: Zeroizing<Vec<u64>>,
    b: Zeroizing<Vec<u64>>,
    c: Zeroizing<Vec<u64>>,
    /// Words that have been used.
    used: usize,
}

/// A party of gates, where the two differ.
pub(crate) trait Party {
    /// `word` for the party that adds public constants, 0 for the other.
    fn public(&self, word: u64) -> u64;

    /// The next 64·`words` triples.
    fn triples(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        words: usize,
    ) -> Result<Triples, Error>;
}

fn set(words: &mut [u64], i: usize, bit: Block) {
    words[i / 64] |= (bit as u64 & 1) << (i % 64);
}

impl<const W: u32> Party for ValueEnd<W> {
    fn public(&self, word: u64) -> u64 {
        word
    }

    fn triples(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        words: usize,
    ) -> Result<Triples, Error> {
        let mut r = Zeroizing::new(vec![0; 2 * words]);
        let mut s = r.clone();
        self.pads(
            channel,
            rng,
            Masked::Bits,
            128 * words,
            |start, zero, one| {
                for (i, (zero, one)) in zero.iter().zip(one).enumerate() {
                    set(&mut r, start + i, *zero);
                    set(&mut s, start + i, zero ^ one);
                }
            },
        )?;
        // The first half of the COTs has number 1, the second number 2.
        let b = Zeroizing::new(s[..words].to_vec());
        let a = Zeroizing::new(s[words..].to_vec());
        Ok(Triples::new(a, b, &r))
    }
}

impl<const W: u32> Party for ChoiceEnd<W> {
    fn public(&self, _: u64) -> u64 {
        0
    }

    fn triples(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        words: usize,
    ) -> Result<Triples, Error> {
        let mut x = Zeroizing::new(vec![0; 2 * words]);
        let mut m = x.clone();
        self.pads(
            channel,
            rng,
            Masked::Bits,
            128 * words,
            |start, rows, pads| {
                for (i, (t, pad)) in rows.iter().zip(pads).enumerate() {
                    set(&mut x, start + i, *t);
                    set(&mut m, start + i, *pad);
                }
            },
        )?;
        let a = Zeroizing::new(x[..words].to_vec());
        let b = Zeroizing::new(x[words..].to_vec());
        Ok(Triples::new(a, b, &m))
    }
}

impl Triples {
    /// From a, b, and both halves of what remains to be added to a·b.
    fn new(a: Zeroizing<Vec<u64>>, b: Zeroizing<Vec<u64>>, rest: &[u64]) -> Self {
        let mut c = Zeroizing::new(rest[..a.len()].to_vec());
        for (i, c) in c.iter_mut().enumerate() {
            *c ^= (a[i] & b[i]) ^ rest[a.len() + i];
        }
        Triples { a, b, c, used: 0 }
    }

    /// Masks x and y by the next triples; appends the bits to be opened to `message`.
    fn mask(&self, from: usize, x: &BitShares, y: &BitShares, message: &mut Vec<u8>) {
        for (bits, mask) in [(x, &self.a), (y, &self.b)] {
            let masked = bits.words().iter().zip(&mask[from..]).map(|(x, a)| x ^ a);
            BitShares::write(&masked.collect::<Vec<u64>>(), bits.len(), message);
        }
    }

    /// x·y = c ⊕ d·y ⊕ e·a, with d = x ⊕ a and e = y ⊕ b opened, of which `ours` has this party's shares.
    fn product(&self, at: usize, ours: [u64; 2], theirs: [u64; 2], y: u64) -> u64 {
        let [d, e] = [ours[0] ^ theirs[0], ours[1] ^ theirs[1]];
        self.c[at] ^ (d & y) ^ (e & self.a[at])
    }
}

/// ANDs of rows of shared bits: row i of `left` with row i of `right`. One message flow for all of them.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
///
/// # Panics
/// If there are too few triples, or the rows do not fit.
pub(crate) fn and(
    channel: &mut dyn Channel,
    triples: &mut Triples,
    left: &[&BitShares],
    right: &[&BitShares],
) -> Result<Vec<BitShares>, Error> {
    assert_eq!(left.len(), right.len());
    let mut message = Vec::new();
    let mut at = triples.used;
    for (x, y) in left.iter().zip(right) {
        assert_eq!(x.len(), y.len());
        triples.mask(at, x, y, &mut message);
        at += x.words().len();
    }
    let peer = exchange(channel, GATES, &message)?;
    let (mut ours, mut theirs) = (&message[..], &peer[..]);
    let mut rows = Vec::with_capacity(left.len());
    for (x, y) in left.iter().zip(right) {
        let next = |from: &mut &[u8]| {
            let (row, rest) = from.split_at(BitShares::bytes(x.len()));
            *from = rest;
            BitShares::read(row, x.len()).ok_or_else(|| stray_bits(GATES))
        };
        let (d, e) = (next(&mut ours)?, next(&mut ours)?);
        let (peer_d, peer_e) = (next(&mut theirs)?, next(&mut theirs)?);
        let words = (0..y.words().len()).map(|i| {
            let at = triples.used + i;
            triples.product(at, [d[i], e[i]], [peer_d[i], peer_e[i]], y.words()[i])
        });
        rows.push(BitShares::from_words(
            Zeroizing::new(words.collect()),
            x.len(),
        ));
        triples.used += x.words().len();
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{SIZES, blocks, opened, run, share};
    use vesica_testing::rng;

    #[test]
    fn products_are_those_of_the_shared_bits() {
        for count in SIZES {
            let (x, y) = (blocks(1, count), blocks(2, count));
            let x_shares = share(3, |i| x[i] & 1 == 1, count);
            let y_shares = share(4, |i| y[i] & 1 == 1, count);
            let words = count.div_ceil(64);
            let (one, two) = run(
                5,
                |engine, channel| {
                    let mut triples = engine.main.triples(channel, &mut rng(1), 2 * words)?;
                    let (x, y) = (&x_shares[0], &y_shares[0]);
                    and(channel, &mut triples, &[x, y], &[y, y])
                },
                |engine, channel| {
                    let mut triples = engine.main.triples(channel, &mut rng(2), 2 * words)?;
                    let (x, y) = (&x_shares[1], &y_shares[1]);
                    and(channel, &mut triples, &[x, y], &[y, y])
                },
            );
            let product: Vec<bool> = (0..count).map(|i| x[i] & y[i] & 1 == 1).collect();
            let same: Vec<bool> = y.iter().map(|y| y & 1 == 1).collect();
            assert_eq!(opened(&one[0], &two[0]), product);
            assert_eq!(opened(&one[1], &two[1]), same);
        }
    }

    #[test]
    fn triples_are_products_of_random_bits_and_never_the_same() {
        let words = 700;
        let (ours, theirs) = run(
            6,
            |engine, channel| {
                let first = engine.main.triples(channel, &mut rng(1), words)?;
                Ok([first, engine.main.triples(channel, &mut rng(1), words)?])
            },
            |engine, channel| {
                let first = engine.main.triples(channel, &mut rng(2), words)?;
                Ok([first, engine.main.triples(channel, &mut rng(2), words)?])
            },
        );
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for i in 0..words {
                let (a, b) = (ours.a[i] ^ theirs.a[i], ours.b[i] ^ theirs.b[i]);
                assert_eq!(ours.c[i] ^ theirs.c[i], a & b);
            }
            for row in [&ours.a, &ours.b, &ours.c, &theirs.a, &theirs.b, &theirs.c] {
                let ones: u32 = row.iter().map(|word| word.count_ones()).sum();
                let mean = 32 * words as u32;
                // Five standard deviations.
                assert!(ones.abs_diff(mean) < 5 * 106, "{ones}");
            }
        }
        assert!(ours[0].a[0] != ours[1].a[0] && theirs[0].c[0] != theirs[1].c[0]);
    }
}
