//! Random-band oblivious key-value stores (OKVS): Bienstock, Patel, Seo and Yeo, *Near-Optimal Oblivious
//! Key-Value Stores for Efficient PSI, PSU and Volume-Hiding Multi-Maps*, USENIX Security 2023; the linear
//! systems are those of Dietzfelbinger and Walzer, ESA 2019.
//!
//! A key's row is `width` random bits at a random start. Both come from four blocks of a public cipher
//! keyed for the run, so keys must look uniform: the hashes of salted items. See [`Parameters`] for the
//! probability that a system has no solution.
//!
//! More than [`BIN`] keys are split into bins of one system each, by the same number that gives the start; an
//! encoding is the concatenation of the bins' encodings. This bounds memory and allows encoding bins in
//! parallel. Two threads can share the work on a bin.
//!
//! The order of work, and so time and memory accesses, depend on the keys. Rows and orders of keys are
//! not wiped from memory.

mod halves;
mod parameters;

pub use parameters::{BIN, Parameters};

use std::ops::Range;

use vesica_kernels::band::{Row, WORD, combine};
use vesica_kernels::{Backend, prefetch};
use vesica_primitives::block::{Block, Cipher, Prg};
use vesica_primitives::parallel;

use crate::bins::counting_sort;
use crate::{EncodingFailed, Okvs};
use halves::Halves;

/// Keys hashed together.
const HASHED: usize = 64;

/// Keys whose rows go to the kernels together.
const BATCH: usize = 512;

/// Keys whose bands are placed by one job.
const PLACED: usize = 1 << 14;

/// Keys decoded by one job, if there are as many and unless the encoding is large: they and their
/// values are accessed in the order of their bands, and this many stay in cache.
const JOB: usize = 1 << 18;

/// Keys whose memory is prefetched.
const AHEAD: usize = 16;

/// A random-band OKVS for a number of keys.
pub struct RandomBand {
    backend: Backend,
    parameters: Parameters,
    cipher: Cipher,
    mask: [u64; 7],
}

/// Items in the order of their keys' bands, so that neighbours in memory are read one after the other.
#[derive(Clone)]
pub struct Arrangement {
    /// The number of each item, sorted by the word of slots in which its band starts.
    numbers: Vec<u32>,
    /// Word b's items are `numbers[ends[b - 1]..ends[b]]`.
    ends: Vec<u32>,
}

vesica_primitives::opaque!(Arrangement);

impl Arrangement {
    /// For each position, the index of its item among those given.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The same numbers, by value.
    pub fn into_numbers(self) -> Vec<u32> {
        self.numbers
    }

    /// Writes what `of` makes of the items at these positions, given all items in their own order.
    ///
    /// # Panics
    /// If there are not as many as `to` has room for.
    pub fn gather<T, U>(
        &self,
        places: Range<usize>,
        items: &[T],
        to: &mut [U],
        of: impl Fn(&T) -> U,
    ) {
        assert_eq!(places.len(), to.len());
        for (place, to) in places.zip(to) {
            if let Some(later) = self.numbers.get(place + AHEAD) {
                prefetch(items, *later as usize);
            }
            *to = of(&items[self.numbers[place] as usize]);
        }
    }

    /// The positions of the items of these words.
    fn places(&self, words: Range<usize>) -> Range<usize> {
        self.begin(words.start)..self.begin(words.end)
    }

    /// The word of the item at this position.
    fn word(&self, place: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= place)
    }

    /// The position of the first item of this word or of a later one.
    fn begin(&self, word: usize) -> usize {
        match word {
            0 => 0,
            _ => self.ends[word - 1] as usize,
        }
    }
}

/// Keys with their rows, which are made together, and the words in which these start.
struct Batch {
    words: [u32; BATCH],
    keys: [Block; BATCH],
    rows: [Row; BATCH],
}

impl Batch {
    const EMPTY: Self = Batch {
        words: [0; BATCH],
        keys: [0; BATCH],
        rows: [[0; 8]; BATCH],
    };
}

/// Cuts positions into those of batches.
fn batches(places: Range<usize>) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let firsts = places.clone().step_by(BATCH);
    firsts.map(move |first| first..places.end.min(first + BATCH))
}

impl RandomBand {
    /// The OKVS for up to `items` keys; encoding fails with probability at most 2^-`lambda`.
    pub fn new(items: usize, lambda: u32, session: &[u8; 32]) -> Self {
        Self::with_parameters(Parameters::new(items, lambda), session)
    }

    /// The OKVS with these parameters.
    pub fn with_parameters(parameters: Parameters, session: &[u8; 32]) -> Self {
        let width = parameters.width;
        RandomBand {
            backend: Backend::Best,
            parameters,
            cipher: Cipher::public("vesica/1 random-band", session),
            mask: std::array::from_fn(|i| match width.saturating_sub(64 * i) {
                bits @ 0..64 => (1 << bits) - 1,
                _ => u64::MAX,
            }),
        }
    }

    /// The same OKVS on a chosen version of the kernels.
    pub fn with_backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Sorts items by the word of slots in which their keys' bands start (counting sort). Items of the same word stay in
    /// order.
    ///
    /// # Panics
    /// If there are 2^32 items or more.
    pub fn arrange<T: Sync>(&self, items: &[T], key: impl Fn(&T) -> Block + Sync) -> Arrangement {
        let mut words = vec![0; items.len()];
        self.place_all(items, key, &mut words);
        let all = self.parameters.bins * self.words();
        let word = |item: usize| &words[item..=item];
        let (ends, numbers) = counting_sort(all, items.len(), word, |item, _| item);
        Arrangement { numbers, ends }
    }

    /// Its parameters.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Number of words of slots of a bin; the last word may be incomplete.
    fn words(&self) -> usize {
        self.parameters.columns.div_ceil(WORD)
    }

    /// The bin and the start of a band in it, from a uniform number.
    fn place(&self, number: u64) -> (usize, usize) {
        let starts = self.parameters.starts();
        let total = (self.parameters.bins * starts) as u128;
        let place = ((u128::from(number) * total) >> 64) as usize;
        (place / starts, place % starts)
    }

    /// Block 0 of each key's hash, whose low word is the number that places the band.
    fn place_all<T: Sync>(&self, items: &[T], key: impl Fn(&T) -> Block + Sync, words: &mut [u32]) {
        let per_bin = self.words();
        let jobs = items.chunks(PLACED).zip(words.chunks_mut(PLACED));
        parallel::each(jobs, |(items, words)| {
            let mut blocks = [0; HASHED];
            for (items, words) in items.chunks(HASHED).zip(words.chunks_mut(HASHED)) {
                let blocks = &mut blocks[..items.len()];
                for (block, item) in blocks.iter_mut().zip(items) {
                    *block = key(item);
                }
                self.cipher.feed_forward(blocks);
                for (word, block) in words.iter_mut().zip(blocks) {
                    let (bin, start) = self.place(*block as u64);
                    *word = (bin * per_bin + start / WORD) as u32;
                }
            }
        });
    }

    /// The rows of keys, relative to the word in which each starts.
    fn rows(&self, keys: &[Block], rows: &mut [Row]) {
        let mut blocks = [0; 4 * HASHED];
        for (keys, rows) in keys.chunks(HASHED).zip(rows.chunks_mut(HASHED)) {
            let blocks = &mut blocks[..4 * keys.len()];
            for (blocks, key) in blocks.as_chunks_mut::<4>().0.iter_mut().zip(keys) {
                *blocks = std::array::from_fn(|i| *key ^ i as u128);
            }
            self.cipher.feed_forward(blocks);
            for (row, blocks) in rows.iter_mut().zip(blocks.as_chunks::<4>().0) {
                let (_, start) = self.place(blocks[0] as u64);
                let shift = start % WORD;
                let mut before = 0;
                for (i, word) in row.iter_mut().enumerate() {
                    let bits = match i {
                        7 => 0,
                        _ => (blocks[i.div_ceil(2)] >> (64 * ((i + 1) % 2))) as u64 & self.mask[i],
                    };
                    *word = bits << shift | before >> 1 >> (63 - shift);
                    before = bits;
                }
            }
        }
    }

    /// Fills the batch with arranged keys, at most [`BATCH`]; words count from word `from`.
    fn fill_batch(
        &self,
        batch: &mut Batch,
        arrangement: &Arrangement,
        keys: impl Fn(Range<usize>, &mut [Block]),
        places: Range<usize>,
        from: usize,
    ) {
        let words = &mut batch.words[..places.len()];
        let mut word = arrangement.word(places.start);
        for (place, to) in places.clone().zip(&mut *words) {
            while arrangement.ends[word] as usize <= place {
                word += 1;
            }
            *to = (word - from) as u32;
        }
        let of_batch = &mut batch.keys[..places.len()];
        keys(places.clone(), of_batch);
        self.rows(of_batch, &mut batch.rows[..places.len()]);
    }

    /// [`Okvs::encode`] for arranged keys, with their values at the same positions.
    ///
    /// # Errors
    /// [`EncodingFailed`]
    ///
    /// # Panics
    /// If there are not as many keys as were arranged, or not one value per key, or more keys than the OKVS
    /// was made for.
    pub fn encode_arranged<const W: usize>(
        &self,
        arrangement: &Arrangement,
        keys: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed> {
        assert_eq!(keys.len(), arrangement.numbers.len(), "the arranged keys");
        assert_eq!(keys.len(), values.len(), "one value a key");
        self.encoder(arrangement, copied(keys), copied(values), filler)?
            .whole()
    }

    /// What encodes arranged keys bin by bin: `keys` and `values` write those at some positions.
    ///
    /// # Errors
    /// [`EncodingFailed`] if a bin has more keys than columns.
    ///
    /// # Panics
    /// If there are more keys than the OKVS was made for.
    pub fn encoder<'a, const W: usize, K, V>(
        &'a self,
        arrangement: &'a Arrangement,
        keys: K,
        values: V,
        filler: &mut Prg,
    ) -> Result<Encoder<'a, W, K, V>, EncodingFailed>
    where
        K: Fn(Range<usize>, &mut [Block]) + Sync,
        V: Fn(Range<usize>, &mut [[u64; W]]) + Sync,
    {
        let count = arrangement.numbers.len();
        assert!(count <= self.parameters.items, "too many keys");
        let Parameters { bins, columns, .. } = self.parameters;
        let words = self.words();
        let jobs = (0..bins)
            .map(|bin| {
                let here = arrangement.begin((bin + 1) * words) - arrangement.begin(bin * words);
                match here > columns {
                    true => Err(EncodingFailed),
                    false => Ok((bin, [filler.next_block(), filler.next_block()])),
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Encoder {
            store: self,
            arrangement,
            keys,
            values,
            jobs: jobs.into_iter(),
            systems: Vec::new(),
            slots: Vec::new(),
            taken: 0,
        })
    }

    /// [`Okvs::decode`] for arranged keys: calls `take` with `out[i]` and the value of key i.
    ///
    /// # Panics
    /// If the length of `encoding` is not [`size`](Okvs::size), or `keys` or `out` does not have as many
    /// entries as were arranged.
    pub fn decode_arranged<const W: usize, T: Send>(
        &self,
        arrangement: &Arrangement,
        encoding: &[[u64; W]],
        keys: &[Block],
        out: &mut [T],
        take: impl Fn(&mut T, &[u64; W]) + Sync,
    ) {
        assert_eq!(encoding.len(), self.size(), "an encoding of this store");
        assert_eq!(keys.len(), arrangement.numbers.len(), "the arranged keys");
        assert_eq!(keys.len(), out.len(), "one value a key");
        let Parameters { bins, columns, .. } = self.parameters;
        let words = self.words();
        // As many words of a bin as give every thread some.
        let piece = words.div_ceil(rayon::current_num_threads().div_ceil(bins));
        let mut out = &mut *out;
        let mut jobs = Vec::new();
        for bin in 0..bins {
            let here = bin * words..(bin + 1) * words;
            let slots = &encoding[bin * columns..][..columns];
            jobs.extend(Job::cut(arrangement, here, slots, &mut out, piece));
        }
        self.decode_jobs(arrangement, keys, jobs, take);
    }

    fn decode_jobs<const W: usize, T: Send>(
        &self,
        arrangement: &Arrangement,
        keys: &[Block],
        jobs: Vec<Job<'_, W, T>>,
        take: impl Fn(&mut T, &[u64; W]) + Sync,
    ) {
        parallel::each(jobs.into_iter(), |Job { words, slots, out }| {
            let first = words.start;
            let (mut batch, mut values) = (Batch::EMPTY, [[0; W]; BATCH]);
            for (places, out) in batches(arrangement.places(words)).zip(out.chunks_mut(BATCH)) {
                let count = places.len();
                let values = &mut values[..count];
                self.fill_batch(&mut batch, arrangement, copied(keys), places, first);
                let (words, rows) = (&batch.words[..count], &batch.rows[..count]);
                combine(self.backend, slots, words, rows, values);
                out.iter_mut().zip(values).for_each(|(o, v)| take(o, v));
            }
        });
    }

    /// What decodes an encoding for arranged keys, at the same positions, while it arrives.
    ///
    /// # Panics
    /// If there are not as many keys as were arranged.
    pub fn decoder<'a, const W: usize>(
        &'a self,
        arrangement: &'a Arrangement,
        keys: &'a [Block],
    ) -> Decoder<'a, W> {
        assert_eq!(keys.len(), arrangement.numbers.len(), "the arranged keys");
        Decoder {
            store: self,
            arrangement,
            keys,
            bin: 0,
            word: 0,
            slots: Vec::new(),
        }
    }
}

/// Copies what belongs to arranged keys.
fn copied<T: Copy + Sync>(from: &[T]) -> impl Fn(Range<usize>, &mut [T]) + Sync {
    |places, to| to.copy_from_slice(&from[places])
}

/// Makes an encoding bin by bin: as many at a time as there are threads, and the last with two threads each if some have
/// none. One that fails ends in the middle.
pub struct Encoder<'a, const W: usize, K, V> {
    store: &'a RandomBand,
    arrangement: &'a Arrangement,
    keys: K,
    values: V,
    /// The number of each bin that is left, and the seeds of its free columns.
    jobs: std::vec::IntoIter<(usize, [Block; 2])>,
    /// Reused memory costs less than fresh memory.
    systems: Vec<Halves<W>>,
    /// Whole bins, of which the first slots are [taken](Encoder::read).
    slots: Vec<[u64; W]>,
    taken: usize,
}

impl<const W: usize, K, V> Encoder<'_, W, K, V>
where
    K: Fn(Range<usize>, &mut [Block]) + Sync,
    V: Fn(Range<usize>, &mut [[u64; W]]) + Sync,
{
    /// The next slots of the encoding.
    ///
    /// # Errors
    /// [`EncodingFailed`]
    ///
    /// # Panics
    /// If there are fewer slots left.
    pub fn read(&mut self, mut to: &mut [[u64; W]]) -> Result<(), EncodingFailed> {
        while !to.is_empty() {
            if self.taken == self.slots.len() {
                let mut slots = std::mem::take(&mut self.slots);
                let bins = self.jobs.len().min(rayon::current_num_threads());
                assert!(bins > 0, "slots of the encoding");
                slots.resize(bins * self.store.parameters.columns, [0; W]);
                self.solve(&mut slots)?;
                (self.slots, self.taken) = (slots, 0);
            }
            let from = &self.slots[self.taken..];
            let (here, rest) = to.split_at_mut(from.len().min(to.len()));
            here.copy_from_slice(&from[..here.len()]);
            self.taken += here.len();
            to = rest;
        }
        Ok(())
    }

    /// The encoding, of which nothing was read.
    fn whole(mut self) -> Result<Vec<[u64; W]>, EncodingFailed> {
        let mut encoding = vec![[0; W]; self.store.size()];
        self.solve(&mut encoding)?;
        Ok(encoding)
    }

    /// Encodes the next bins, as many as `slots` has room for.
    fn solve(&mut self, slots: &mut [[u64; W]]) -> Result<(), EncodingFailed> {
        let (store, columns) = (self.store, self.store.parameters.columns);
        let words = store.words();
        let threads = rayon::current_num_threads().min(slots.len() / columns);
        while self.systems.len() < threads {
            self.systems
                .push(Halves::new(store.backend, store.parameters));
        }
        for slots in slots.chunks_mut(threads * columns) {
            let jobs: Vec<_> = self.jobs.by_ref().take(slots.len() / columns).collect();
            let systems = self.systems.iter_mut();
            let bins = slots.chunks_exact_mut(columns).zip(jobs).zip(systems);
            let (keys, values) = (&self.keys, &self.values);
            parallel::try_each(bins, |((slots, (bin, seeds)), system)| {
                let from = bin * words;
                let cut = from + system.cut();
                let halves = [from..cut, cut..from + words].map(|w| self.arrangement.places(w));
                system.solve(slots, halves, seeds, |batch, to, places| {
                    values(places.clone(), to);
                    store.fill_batch(batch, self.arrangement, keys, places, from);
                })
            })
            .map_err(|_| EncodingFailed)?;
        }
        Ok(())
    }
}

/// Decodes an encoding while it arrives: keys whose bands have arrived.
pub struct Decoder<'a, const W: usize> {
    store: &'a RandomBand,
    arrangement: &'a Arrangement,
    keys: &'a [Block],
    /// The first word that is not decoded yet.
    bin: usize,
    word: usize,
    /// The slots that have arrived, from this word on.
    slots: Vec<[u64; W]>,
}

impl<const W: usize> Decoder<'_, W> {
    /// Takes the next slots of the encoding. Calls `each` with the positions of the keys whose slots are complete now,
    /// and their values: each position once, in ascending order.
    ///
    /// # Panics
    /// If there are more slots than an encoding has.
    pub fn write(&mut self, slots: &[[u64; W]], mut each: impl FnMut(Range<usize>, &[[u64; W]])) {
        let Parameters { bins, columns, .. } = self.store.parameters;
        self.slots.extend_from_slice(slots);
        let mut used = 0;
        loop {
            let arrived = &self.slots[used..];
            let left = columns - self.word * WORD;
            // A band is in the eight words from its first on, or ends with the bin.
            let (word, slots) = match arrived.len() < left {
                true => {
                    let complete = (arrived.len() / WORD).saturating_sub(7);
                    (self.word + complete, complete * WORD)
                }
                false => (self.store.words(), left),
            };
            self.decode(word, &arrived[..arrived.len().min(left)], &mut each);
            used += slots;
            self.word = word;
            if slots < left {
                break;
            }
            (self.bin, self.word) = (self.bin + 1, 0);
            if self.bin == bins {
                break;
            }
        }
        self.slots.drain(..used);
        assert!(self.bin < bins || self.slots.is_empty(), "an encoding");
    }

    /// Decodes the words of the bin before `end`.
    fn decode(
        &self,
        end: usize,
        slots: &[[u64; W]],
        each: &mut impl FnMut(Range<usize>, &[[u64; W]]),
    ) {
        let first = self.bin * self.store.words();
        let words = first + self.word..first + end;
        let places = self.arrangement.begin(words.start)..self.arrangement.begin(words.end);
        if places.is_empty() {
            return;
        }
        let mut values = vec![[0; W]; places.len()];
        let piece = words.len().div_ceil(rayon::current_num_threads());
        let jobs = Job::cut(self.arrangement, words, slots, &mut &mut values[..], piece);
        let take = |to: &mut [u64; W], value: &[u64; W]| *to = *value;
        self.store
            .decode_jobs(self.arrangement, self.keys, jobs, take);
        each(places, &values);
    }
}

/// Words to decode, slots from the first of them on, and where the values of their keys go.
struct Job<'a, const W: usize, T> {
    words: Range<usize>,
    slots: &'a [[u64; W]],
    out: &'a mut [T],
}

impl<'a, const W: usize, T> Job<'a, W, T> {
    /// Cuts words of a bin, with the slots from the first of them on, into jobs of `piece` words. Their keys are the
    /// first of `out`.
    fn cut(
        arrangement: &Arrangement,
        words: Range<usize>,
        slots: &'a [[u64; W]],
        out: &mut &'a mut [T],
        piece: usize,
    ) -> Vec<Self> {
        let mut jobs = Vec::new();
        for first in words.clone().step_by(piece.max(1)) {
            let end = words.end.min(first + piece);
            let count = arrangement.begin(end) - arrangement.begin(first);
            let (here, rest) = std::mem::take(out).split_at_mut(count);
            *out = rest;
            jobs.push(Job {
                words: first..end,
                slots: &slots[(first - words.start) * WORD..],
                out: here,
            });
        }
        jobs
    }
}

impl Okvs for RandomBand {
    fn size(&self) -> usize {
        self.parameters.size()
    }

    fn encode<const W: usize>(
        &self,
        keys: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed> {
        assert_eq!(keys.len(), values.len(), "one value a key");
        let arrangement = self.arrange(keys, |key| *key);
        let encoder = self.encoder(
            &arrangement,
            |places, to| arrangement.gather(places, keys, to, |key| *key),
            |places, to| arrangement.gather(places, values, to, |value| *value),
            filler,
        )?;
        encoder.whole()
    }

    fn decode<const W: usize>(&self, encoding: &[[u64; W]], keys: &[Block], out: &mut [[u64; W]]) {
        assert_eq!(encoding.len(), self.size(), "an encoding of this store");
        assert_eq!(keys.len(), out.len(), "one value a key");
        // A job reads the whole encoding, so it should have about one key per four slots.
        let job = keys
            .len()
            .div_ceil(rayon::current_num_threads())
            .clamp(1, JOB.max(encoding.len() / 4));
        let jobs = keys.chunks(job).zip(out.chunks_mut(job));
        parallel::each(jobs, |(keys, out)| {
            let arrangement = self.arrange(keys, |key| *key);
            let mut arranged = vec![0; keys.len()];
            arrangement.gather(0..keys.len(), keys, &mut arranged, |key| *key);
            let mut results = vec![[0; W]; keys.len()];
            self.decode_arranged(
                &arrangement,
                encoding,
                &arranged,
                &mut results,
                |to, value| {
                    *to = *value;
                },
            );
            for (number, result) in arrangement.numbers().iter().zip(results) {
                out[*number as usize] = result;
            }
        });
    }
}

/// Uniform values from a seed.
fn random<const W: usize>(seed: Block, count: usize) -> Vec<[u64; W]> {
    let mut blocks = vec![0; (count * W).div_ceil(2)];
    Prg::new(seed).fill(&mut blocks);
    let mut words = blocks
        .iter()
        .flat_map(|block| [*block as u64, (block >> 64) as u64]);
    (0..count)
        .map(|_| std::array::from_fn(|_| words.next().expect("W words a value")))
        .collect()
}

#[cfg(test)]
mod tests;
