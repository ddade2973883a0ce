//! The ends of a source of correlated OTs (COTs) and of entries of a subfield VOLE, with the hashes that turn them into
//! pads.
//!
//! The *value end* holds Δ and q_i and multiplies its values by bits of the peer's; the *choice end* holds t_i =
//! q_i ⊕ x_i·Δ and contributes the bits. x_i is random: where a bit c is wanted, the choice end sends c ⊕ x_i, once
//! for each COT, and the value end exchanges its two pads if that is 1. Of an entry the value end holds y_i, the choice
//! end z_i = y_i + x_i·Δ with x_i in GF(2^W); [`crate::digits`] has its pads.
//!
//! **The hashes.** Pads of triples are TMMO (C. Guo, J. Katz, X. Wang, Y. Yu, S&P 2020), under a key for each session
//! and direction. Pads that mask values have a key each ([`Rekeyed`]): the choice end comes to know many of those that
//! it lacks, since factors are ±1 where bins are counted, and 0 where they are empty; with one key for all it would test
//! one guess at Δ against all of them. So has each block of a pad that masks a string, whose bytes may be known in part, as
//! what pads a shorter text is. Every COT has tweaks of its own, and entries are in tiles that have a key each
//! ([`TileHash`]): counters over the life of the end. Each end takes COTs, entries, tweaks and tiles forward only, and
//! before anything is sent, so that no pad is used twice even if a run fails half-way.

use rand_core::CryptoRng;
use vesica_correlations::subfield::{self, FromCots, Subfield};
use vesica_primitives::block::{Block, Cipher, CorrelationRobust, Rekeyed, TileHash};
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

/// Bits of a digit. Strings of 63 bits take 21 entries and 391 bits of traffic per bin in three rounds; by digits of 3 bits
/// 31 entries and 310 bits in four, of 2 bits 62 and 310 in six, of 8 bits 9 and 2,239 in two.
pub const WIDTH: u32 = 4;

/// Bits of a digit where bytes count for more than time.
pub const NARROW: u32 = 3;

/// Bits of Δ that are unknown to the choice end and count for entries over GF(2^W).
pub const fn entry_delta_bits<const W: u32>() -> u32 {
    Subfield::<W>::ENTRY.count_ones() - 1
}

/// Maximum number of COTs or entries taken from a source at once: 1 MiB.
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
    /// One bit each.
    Bits,
    /// Integers and strings, which the choice end may know.
    Values,
}

/// The hashes of an end, and the tweaks and tiles that are left.
struct Hashes {
    bits: CorrelationRobust,
    values: Rekeyed,
    digits: TileHash,
    next: u128,
    next_tile: u64,
}

impl Hashes {
    fn new(direction: Direction, session: &[u8; 32]) -> Self {
        let [bits, values, digits] = match direction {
            Direction::Main => [
                "vesica/1 circuit main",
                "vesica/1 circuit main values",
                "vesica/1 circuit main digits",
            ],
            Direction::Reverse => [
                "vesica/1 circuit reverse",
                "vesica/1 circuit reverse values",
                "vesica/1 circuit reverse digits",
            ],
        };
        Hashes {
            bits: CorrelationRobust::new(bits, session),
            values: Rekeyed::new(values, session),
            digits: TileHash::new(digits, session),
            next: 0,
            next_tile: 0,
        }
    }

    /// Reserves `count` tweaks; returns the first.
    fn reserve(&mut self, count: usize) -> u128 {
        let first = self.next;
        self.next += count as u128;
        first
    }

    /// Reserves `count` tiles; returns the first.
    fn reserve_tiles(&mut self, count: usize) -> u64 {
        let first = self.next_tile;
        self.next_tile += count as u64;
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
    /// Block number `block` of the pads of every row.
    fn pads(&self, masked: Masked, block: usize, pads: &mut [Block]) {
        let tasks = pads.chunks_mut(TASK).zip(self.rows.chunks(TASK));
        parallel::each(tasks.enumerate(), |(task, (pads, rows))| {
            let first = self.first + (block * self.rows.len() + task * TASK) as u128;
            pads.copy_from_slice(rows);
            match masked {
                Masked::Bits => self.hashes.bits.hash(first, pads),
                Masked::Values => self.hashes.values.hash(first, pads),
            }
        });
    }

    /// The pads of every row, and of every row plus `delta`.
    fn both_pads(
        &self,
        masked: Masked,
        block: usize,
        delta: Block,
        [zeros, ones]: [&mut [Block]; 2],
    ) {
        let tasks = zeros.chunks_mut(TASK).zip(ones.chunks_mut(TASK));
        let tasks = tasks.zip(self.rows.chunks(TASK)).enumerate();
        parallel::each(tasks, |(task, ((zeros, ones), rows))| {
            let first = self.first + (block * self.rows.len() + task * TASK) as u128;
            zeros.copy_from_slice(rows);
            for (one, row) in ones.iter_mut().zip(rows) {
                *one = row ^ delta;
            }
            match masked {
                Masked::Bits => {
                    self.hashes.bits.hash(first, zeros);
                    self.hashes.bits.hash(first, ones);
                }
                Masked::Values => self.hashes.values.hash_choices(first, [zeros, ones]),
            }
        });
    }
}

/// Tiles of entries as they come from a source, with their hashes.
pub(crate) struct Entries<'a> {
    /// y or z of each entry.
    pub(crate) rows: &'a [Block],
    hashes: &'a Hashes,
    first: u64,
}

impl Entries<'_> {
    /// π of tile number `tile` of these.
    pub(crate) fn tile(&self, tile: usize) -> Cipher {
        self.hashes.digits.tile(self.first + tile as u64)
    }
}

/// The first `count` blocks of a buffer, which is wiped and replaced if it is too short.
fn room(buffer: &mut Zeroizing<Vec<Block>>, count: usize) -> &mut [Block] {
    if buffer.len() < count {
        *buffer = Zeroizing::new(vec![0; count]);
    }
    &mut buffer[..count]
}

/// Where an end has its COTs and entries from.
trait Source {
    fn next_cots(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        rows: &mut [Block],
    ) -> Result<(), Error>;

    fn next_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        rows: &mut [Block],
    ) -> Result<(), Error>;
}

macro_rules! source {
    ($end:path) => {
        impl<const W: u32> Source for Box<dyn $end + Send> {
            fn next_cots(
                &mut self,
                channel: &mut dyn Channel,
                rng: &mut dyn CryptoRng,
                rows: &mut [Block],
            ) -> Result<(), Error> {
                self.extend(channel, rng, rows)
            }

            fn next_entries(
                &mut self,
                channel: &mut dyn Channel,
                rng: &mut dyn CryptoRng,
                rows: &mut [Block],
            ) -> Result<(), Error> {
                self.extend_entries(channel, rng, rows)
            }
        }
    };
}

source!(subfield::Sender<W>);
source!(subfield::Receiver<W>);

/// One of both ends.
pub(crate) struct End<S> {
    source: S,
    hashes: Hashes,
    rows: Zeroizing<Vec<Block>>,
}

/// The value end: it holds Δ.
pub(crate) type ValueEnd<const W: u32 = WIDTH> = End<Box<dyn subfield::Sender<W> + Send>>;

/// The choice end.
pub(crate) type ChoiceEnd<const W: u32 = WIDTH> = End<Box<dyn subfield::Receiver<W> + Send>>;

#[allow(private_bounds, reason = "these are all sources that there are")]
impl<S: Source> End<S> {
    fn over(direction: Direction, session: &[u8; 32], source: S) -> Self {
        End {
            source,
            hashes: Hashes::new(direction, session),
            rows: Zeroizing::default(),
        }
    }

    /// The same end on another source, whose tweaks and tiles go on.
    fn on<T>(self, source: impl FnOnce(S) -> T) -> End<T> {
        End {
            source: source(self.source),
            hashes: self.hashes,
            rows: self.rows,
        }
    }

    /// The next `count` COTs, with tweaks for so many blocks of a pad of each.
    fn take(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        [count, blocks]: [usize; 2],
    ) -> Result<Batch<'_>, Error> {
        let first = self.hashes.reserve(count * blocks);
        let rows = room(&mut self.rows, count);
        self.source.next_cots(channel, rng, rows)?;
        Ok(Batch {
            rows,
            hashes: &self.hashes,
            first,
        })
    }

    /// The next entries, `tiles` tiles of `each`.
    pub(crate) fn entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        tiles: usize,
        each: usize,
    ) -> Result<Entries<'_>, Error> {
        let first = self.hashes.reserve_tiles(tiles);
        let rows = room(&mut self.rows, tiles * each);
        self.source.next_entries(channel, rng, rows)?;
        Ok(Entries {
            rows,
            hashes: &self.hashes,
            first,
        })
    }
}

impl<const W: u32> ValueEnd<W> {
    pub(crate) fn new(
        direction: Direction,
        session: &[u8; 32],
        source: impl subfield::Sender<W> + Send + 'static,
    ) -> Self {
        End::over(direction, session, Box::new(source))
    }

    /// This end once its entries are taken: others would be made of COTs.
    pub(crate) fn for_functions(self) -> ValueEnd {
        self.on(|source| -> Box<dyn subfield::Sender<WIDTH> + Send> {
            Box::new(FromCots::new(source))
        })
    }

    pub(crate) fn delta(&self) -> Block {
        self.source.delta()
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
        let sink = |[start, _]: [usize; 2], zero: &[Block], one: &[Block]| sink(start, zero, one);
        self.pad_blocks(channel, rng, masked, [count, 1], sink)
    }

    /// The same with pads of several blocks. `sink` gets those of a piece block by block, with the number of the first COT
    /// and that of the block.
    pub(crate) fn pad_blocks(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        masked: Masked,
        [count, blocks]: [usize; 2],
        mut sink: impl FnMut([usize; 2], &[Block], &[Block]),
    ) -> Result<(), Error> {
        let delta = Zeroizing::new(self.delta());
        let mut hashes = [(); 2].map(|()| Zeroizing::new(vec![0; COTS.min(count)]));
        for start in (0..count).step_by(COTS) {
            let batch = self.take(channel, rng, [COTS.min(count - start), blocks])?;
            let [zero, one] = hashes.each_mut().map(|h| &mut h[..batch.rows.len()]);
            for block in 0..blocks {
                batch.both_pads(masked, block, *delta, [&mut *zero, &mut *one]);
                sink([start, block], zero, one);
            }
        }
        Ok(())
    }
}

impl<const W: u32> ChoiceEnd<W> {
    pub(crate) fn new(
        direction: Direction,
        session: &[u8; 32],
        source: impl subfield::Receiver<W> + Send + 'static,
    ) -> Self {
        End::over(direction, session, Box::new(source))
    }

    /// As [`ValueEnd::for_functions`].
    pub(crate) fn for_functions(self) -> ChoiceEnd {
        self.on(|source| -> Box<dyn subfield::Receiver<WIDTH> + Send> {
            Box::new(FromCots::new(source))
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
        let sink = |[start, _]: [usize; 2], rows: &[Block], pads: &[Block]| sink(start, rows, pads);
        self.pad_blocks(channel, rng, masked, [count, 1], sink)
    }

    /// As [`ValueEnd::pad_blocks`].
    pub(crate) fn pad_blocks(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        masked: Masked,
        [count, blocks]: [usize; 2],
        mut sink: impl FnMut([usize; 2], &[Block], &[Block]),
    ) -> Result<(), Error> {
        let mut hashes = Zeroizing::new(vec![0; COTS.min(count)]);
        for start in (0..count).step_by(COTS) {
            let batch = self.take(channel, rng, [COTS.min(count - start), blocks])?;
            let hashes = &mut hashes[..batch.rows.len()];
            for block in 0..blocks {
                batch.pads(masked, block, hashes);
                sink([start, block], batch.rows, hashes);
            }
        }
        Ok(())
    }
}
