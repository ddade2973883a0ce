//! The ends of a source of correlated OTs (COTs), with the hashes that turn them into pads.
//!
//! The *value end* holds Δ and q_i and multiplies its values by bits of the peer's; the *choice end* holds t_i =
//! q_i ⊕ x_i·Δ and contributes the bits. x_i is random: where a bit c is wanted, the choice end sends c ⊕ x_i, once
//! for each COT, and the value end exchanges its two pads if that is 1.
//!
//! **The hashes.** Pads that mask bits are TMMO (C. Guo, J. Katz, X. Wang, Y. Yu, S&P 2020), under a key for each session
//! and direction. Pads that mask values have a key each ([`Rekeyed`]): the choice end comes to know many of those that
//! it lacks, since factors are ±1 where bins are counted, and 0 where they are empty; with one key for all it would test
//! one guess at Δ against all of them. Every COT, or every combination of COTs, has a tweak of its own: a counter over
//! the life of the end. Each end takes COTs and tweaks forward only, and before anything is sent, so that no pad is used
//! twice even if a run fails half-way.

use rand_core::CryptoRng;
use rayon::prelude::*;
use vesica_correlations::cot;
use vesica_primitives::block::{Block, CorrelationRobust, Rekeyed};
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

/// Maximum number of COTs taken from a source at once: 1 MiB.
pub(crate) const COTS: usize = 1 << 16;

/// Memory for the pads of a window, in bytes: an operation takes one round trip for each window. Tests cross the
/// edges of windows at smaller sizes.
pub(crate) const WINDOW_BYTES: usize = if cfg!(test) { 1 << 20 } else { 32 << 20 };

/// COTs hashed by one task; they stay in the L1 cache.
const TASK: usize = 512;

/// Which of the two sources of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The PSI receiver has the value end.
    Main,
    /// The PSI sender has the value end.
    Reverse,
}

/// What pads mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Masked {
    /// At most three bits each.
    Bits,
    /// Integers, which the choice end may know.
    Values,
}

/// The hashes of an end, and the tweaks that are left.
struct Hashes {
    bits: CorrelationRobust,
    values: Rekeyed,
    next: u128,
}

impl Hashes {
    fn new(direction: Direction, session: &[u8; 32]) -> Self {
        let [bits, values] = match direction {
            Direction::Main => ["vesica/1 circuit main", "vesica/1 circuit main values"],
            Direction::Reverse => [
                "vesica/1 circuit reverse",
                "vesica/1 circuit reverse values",
            ],
        };
        Hashes {
            bits: CorrelationRobust::new(bits, session),
            values: Rekeyed::new(values, session),
            next: 0,
        }
    }

    /// Reserves `count` tweaks; returns the first.
    fn reserve(&mut self, count: usize) -> u128 {
        let first = self.next;
        self.next += count as u128;
        first
    }
}

/// COTs as they come from a source, with the hashes and the first of the tweaks reserved for them.
pub(crate) struct Batch<'a> {
    pub(crate) rows: &'a [Block],
    hashes: &'a Hashes,
    first: u128,
}

impl Batch<'_> {
    /// Replaces the inputs of tables number `table` and after it by pads for bits.
    pub(crate) fn hash_tables(&self, table: usize, inputs: &mut [Block]) {
        self.hashes.bits.hash(self.first + table as u128, inputs);
    }

    /// The pads of every row plus `offset`.
    fn pads(&self, masked: Masked, offset: Block, hashes: &mut [Block]) {
        hashes
            .par_chunks_mut(TASK)
            .zip(self.rows.par_chunks(TASK))
            .enumerate()
            .for_each(|(task, (hashes, rows))| {
                for (hash, row) in hashes.iter_mut().zip(rows) {
                    *hash = row ^ offset;
                }
                let first = self.first + (task * TASK) as u128;
                match masked {
                    Masked::Bits => self.hashes.bits.hash(first, hashes),
                    Masked::Values => self.hashes.values.hash(first, hashes),
                }
            });
    }
}

/// The first `count` blocks of a buffer, which is wiped and replaced if it is too short.
fn room(buffer: &mut Zeroizing<Vec<Block>>, count: usize) -> &mut [Block] {
    if buffer.len() < count {
        *buffer = Zeroizing::new(vec![0; count]);
    }
    &mut buffer[..count]
}

/// The value end: it holds Δ.
pub struct ValueEnd {
    source: Box<dyn cot::Sender + Send>,
    hashes: Hashes,
    rows: Zeroizing<Vec<Block>>,
}

impl ValueEnd {
    pub(crate) fn new(
        direction: Direction,
        session: &[u8; 32],
        source: Box<dyn cot::Sender + Send>,
    ) -> Self {
        ValueEnd {
            source,
            hashes: Hashes::new(direction, session),
            rows: Zeroizing::default(),
        }
    }

    pub(crate) fn delta(&self) -> Block {
        self.source.delta()
    }

    /// The next COTs, `per_tweak` of them for each of `tweaks` tweaks.
    pub(crate) fn take(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        tweaks: usize,
        per_tweak: usize,
    ) -> Result<Batch<'_>, Error> {
        let first = self.hashes.reserve(tweaks);
        let rows = room(&mut self.rows, tweaks * per_tweak);
        self.source.extend(channel, rng, rows)?;
        Ok(Batch {
            rows,
            hashes: &self.hashes,
            first,
        })
    }

    /// Passes the pads of q_i and q_i ⊕ Δ of the next `count` COTs to `sink`, piece by piece, with the number of
    /// the first.
    pub(crate) fn pads(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        masked: Masked,
        count: usize,
        mut sink: impl FnMut(usize, &[Block], &[Block]),
    ) -> Result<(), Error> {
        let delta = Zeroizing::new(self.delta());
        let mut hashes = [(); 2].map(|()| Zeroizing::new(vec![0; COTS.min(count)]));
        for start in (0..count).step_by(COTS) {
            let batch = self.take(channel, rng, COTS.min(count - start), 1)?;
            let [zero, one] = hashes.each_mut().map(|h| &mut h[..batch.rows.len()]);
            batch.pads(masked, 0, zero);
            batch.pads(masked, *delta, one);
            sink(start, zero, one);
        }
        Ok(())
    }
}

/// The choice end.
pub struct ChoiceEnd {
    source: Box<dyn cot::Receiver + Send>,
    hashes: Hashes,
    rows: Zeroizing<Vec<Block>>,
}

impl ChoiceEnd {
    pub(crate) fn new(
        direction: Direction,
        session: &[u8; 32],
        source: Box<dyn cot::Receiver + Send>,
    ) -> Self {
        ChoiceEnd {
            source,
            hashes: Hashes::new(direction, session),
            rows: Zeroizing::default(),
        }
    }

    /// As [`ValueEnd::take`].
    pub(crate) fn take(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        tweaks: usize,
        per_tweak: usize,
    ) -> Result<Batch<'_>, Error> {
        let first = self.hashes.reserve(tweaks);
        let rows = room(&mut self.rows, tweaks * per_tweak);
        self.source.extend(channel, rng, rows)?;
        Ok(Batch {
            rows,
            hashes: &self.hashes,
            first,
        })
    }

    /// Passes the next `count` COTs t_i, of which x_i is the lowest bit, and their pads to `sink`, piece by
    /// piece, with the number of the first.
    pub(crate) fn pads(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        masked: Masked,
        count: usize,
        mut sink: impl FnMut(usize, &[Block], &[Block]),
    ) -> Result<(), Error> {
        let mut hashes = Zeroizing::new(vec![0; COTS.min(count)]);
        for start in (0..count).step_by(COTS) {
            let batch = self.take(channel, rng, COTS.min(count - start), 1)?;
            let hashes = &mut hashes[..batch.rows.len()];
            batch.pads(masked, 0, hashes);
            sink(start, batch.rows, hashes);
        }
        Ok(())
    }
}
