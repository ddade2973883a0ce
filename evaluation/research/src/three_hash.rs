//! Three-hash oblivious key-value store (OKVS): a key selects three slots of its bin and a short random
//! linear combination of the bin's dense slots.
//!
//! Source: Raghuraman and Rindal, "Blazing Fast PSI from Improved OKVS and Subfield VOLE" (CCS 2022), RR22
//! below: rows of weight three, clusters small enough for the cache with separate binary dense columns, and
//! triangulation by peeling. One step differs: the rows left after peeling are solved exactly, by elimination
//! over all their columns, where RR22 moves some of them into a gap that only the dense columns solve. So
//! encoding fails only if the rows of a bin are linearly dependent or the bin overflows; the module
//! `parameters` states provable bounds on both.

mod parameters;
mod rest;
#[cfg(test)]
mod tests;

use std::ops::Range;

use vesica_encodings::{EncodingFailed, Okvs};
use vesica_primitives::block::{Block, Cipher, Prg};
use vesica_primitives::parallel;

use parameters::Parameters;

/// Keys hashed together.
const BATCH: usize = 128;

/// Minimum number of keys for a thread to sort, so that threads pay off.
const MIN_CHUNK: usize = 1 << 13;

/// Approximate number of keys per bin in one chunk of a decoding: enough for tables to pay off.
const CHUNK_PER_BIN: usize = 1 << 12;

/// Maximum number of keys in one chunk of a decoding, which bounds its memory.
const MAX_CHUNK: usize = 1 << 22;

/// A bin is fetched as a whole when there is at least one key for this many slots.
const FETCH: usize = 16;

/// Cipher blocks per row of a key: one for the sparse part, two for the dense part.
const BLOCKS: usize = 3;

/// The OKVS for a number of keys, with hash functions of one session.
///
/// Encoding takes variable time: it depends on the keys, not on the values. Besides the encoding it needs 12
/// bytes per key for λ = 40 (16 for 64, 24 for 128) and a copy of the values; decoding needs as much for at
/// most 2^22 keys per thread.
pub struct ThreeHash {
    items: usize,
    parameters: Parameters,
    ciphers: [Cipher; BLOCKS],
}

/// What the keys of a chunk select, sorted by bin: three slots, and dense slots in `16·D` bits.
struct Sorted<const D: usize> {
    slots: Vec<[u16; 3]>,
    dense: Vec<[u16; D]>,
    /// Where the rows of each bin start, and the number of rows.
    starts: Vec<usize>,
}

impl<const D: usize> Sorted<D> {
    fn new() -> Self {
        Sorted {
            slots: Vec::new(),
            dense: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn bin(&self, bin: usize) -> Range<usize> {
        self.starts[bin]..self.starts[bin + 1]
    }
}

/// A part of the keys to encode, and their values in the same order.
struct Chunk<const W: usize, const D: usize> {
    sorted: Sorted<D>,
    values: Vec<[u64; W]>,
}

/// All sums of each group of dense slots: eight slots per group for short values, four for long ones, so that
/// the tables stay in the L1 cache.
struct Tables<const W: usize> {
    sums: Vec<[u64; W]>,
}

impl<const W: usize> Tables<W> {
    const BITS: usize = if W <= 2 { 8 } else { 4 };

    fn new() -> Self {
        Tables { sums: Vec::new() }
    }

    /// Prepares lookups of rows with `16·D` bits; slots beyond the last count as zero.
    fn fill<const D: usize>(&mut self, dense: &[[u64; W]]) {
        let zero = [0; W];
        self.sums.clear();
        for group in 0..16 * D / Self::BITS {
            let base = self.sums.len();
            self.sums.push(zero);
            for bit in 0..Self::BITS {
                let slot = dense.get(group * Self::BITS + bit).unwrap_or(&zero);
                for low in 0..1 << bit {
                    self.sums.push(xor(&self.sums[base + low], slot));
                }
            }
        }
    }

    /// The sum of the dense slots that a row selects, added to `value`.
    #[inline]
    fn add<const D: usize>(&self, dense: &[u16; D], mut value: [u64; W]) -> [u64; W] {
        let (width, per_word) = (1 << Self::BITS, 16 / Self::BITS);
        for (word, sums) in dense.iter().zip(self.sums.chunks_exact(width * per_word)) {
            for (group, sums) in sums.chunks_exact(width).enumerate() {
                let which = (*word as usize >> (group * Self::BITS)) & (width - 1);
                value = xor(&value, &sums[which]);
            }
        }
        value
    }
}

#[inline]
fn xor<const W: usize>(a: &[u64; W], b: &[u64; W]) -> [u64; W] {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Buffers for one bin's encoding, reused for the next.
struct Scratch<const W: usize> {
    /// For each slot the number of its remaining rows (high half) and the XOR of their numbers (low half).
    cells: Vec<u32>,
    slots: Vec<[u16; 3]>,
    queue: Vec<u16>,
    /// Peeled rows in order: row, the slot that it determines, its other slots.
    order: Vec<[u16; 4]>,
    targets: Vec<[u64; W]>,
    tables: Tables<W>,
    blocks: Vec<Block>,
}

impl<const W: usize> Scratch<W> {
    fn new() -> Self {
        Scratch {
            cells: Vec::new(),
            slots: Vec::new(),
            queue: Vec::new(),
            order: Vec::new(),
            targets: Vec::new(),
            tables: Tables::new(),
            blocks: Vec::new(),
        }
    }

    /// Orders the rows in `slots` so that each determines a slot that no later row uses. Rows that
    /// cannot be ordered (the 2-core) are left out.
    fn peel(&mut self, width: usize) {
        self.cells.clear();
        self.cells.resize(width, 0);
        let cells = &mut self.cells[..];
        for (row, slots) in self.slots.iter().enumerate() {
            for slot in slots {
                let cell = &mut cells[*slot as usize];
                *cell = (*cell + (1 << 16)) ^ row as u32;
            }
        }
        // A slot enters the queue when its number of rows becomes one: at most once. The spare entry takes
        // writes that are not kept.
        self.queue.clear();
        self.queue.resize(width + 1, 0);
        let queue = &mut self.queue[..];
        let mut tail = 0;
        for (slot, cell) in cells.iter().enumerate() {
            queue[tail] = slot as u16;
            tail += (cell >> 16 == 1) as usize;
        }
        self.order.clear();
        self.order.reserve(self.slots.len());
        let mut head = 0;
        while head < tail {
            let pivot = queue[head];
            head += 1;
            let cell = cells[pivot as usize];
            if cell >> 16 != 1 {
                continue;
            }
            let row = cell as u16;
            let [a, b, c] = self.slots[row as usize];
            self.order.push([
                row,
                pivot,
                if pivot == a { b } else { a },
                if pivot == c { b } else { c },
            ]);
            for slot in [a, b, c] {
                let cell = &mut cells[slot as usize];
                *cell = (*cell - (1 << 16)) ^ row as u32;
                queue[tail] = slot;
                tail += (*cell >> 16 == 1) as usize;
            }
        }
    }
}

impl ThreeHash {
    /// The OKVS for at most `items` keys whose encoding fails with probability at most 2^-λ. Both parties get
    /// the same OKVS from the same arguments, on any machine. `session` binds the hash functions to a run.
    ///
    /// # Panics
    /// If λ is above 128, or `items` above 2^40.
    pub fn new(items: usize, lambda: u32, session: &[u8; 32]) -> Self {
        ThreeHash {
            items,
            parameters: Parameters::new(items, lambda),
            ciphers: [
                "vesica/1 three-hash sparse",
                "vesica/1 three-hash dense 1",
                "vesica/1 three-hash dense 2",
            ]
            .map(|label| Cipher::public(label, session)),
        }
    }

    /// Number of bins, which are encoded independently.
    pub fn bins(&self) -> usize {
        self.parameters.bins
    }

    fn bin_of(&self, key: &Block) -> usize {
        scale((key >> 64) as u64, self.parameters.bins)
    }

    /// Hashes keys and sorts what they select by bin; keys of a bin keep their order. Calls `placed` with
    /// each key's index and its position.
    fn sort<const D: usize>(
        &self,
        keys: &[Block],
        sorted: &mut Sorted<D>,
        mut placed: impl FnMut(usize, usize),
    ) {
        let Sorted {
            slots,
            dense,
            starts,
        } = sorted;
        starts.clear();
        starts.resize(self.parameters.bins + 1, 0);
        for key in keys {
            starts[self.bin_of(key) + 1] += 1;
        }
        for bin in 1..starts.len() {
            starts[bin] += starts[bin - 1];
        }
        let mut next = starts.clone();
        slots.resize(keys.len(), [0; 3]);
        dense.resize(keys.len(), [0; D]);
        let mask = self.parameters.mask::<D>();
        let mut blocks = [[0; BATCH]; BLOCKS];
        // As many dense blocks as the row needs.
        let used = 1 + D.div_ceil(8);
        for (batch, keys) in keys.chunks(BATCH).enumerate() {
            for (blocks, cipher) in blocks[..used].iter_mut().zip(&self.ciphers) {
                let blocks = &mut blocks[..keys.len()];
                blocks.copy_from_slice(keys);
                cipher.feed_forward(blocks);
            }
            for (i, key) in keys.iter().enumerate() {
                let next = &mut next[self.bin_of(key)];
                let place = *next;
                *next += 1;
                slots[place] = distinct(blocks[0][i], self.parameters.sparse as u32);
                dense[place] = std::array::from_fn(|word| {
                    mask[word] & (blocks[1 + word / 8][i] >> (16 * (word % 8))) as u16
                });
                placed(batch * BATCH + i, place);
            }
        }
    }

    fn encode_rows<const W: usize, const D: usize>(
        &self,
        keys: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed> {
        let chunk = keys
            .len()
            .div_ceil(rayon::current_num_threads())
            .max(MIN_CHUNK);
        let chunks = keys.chunks(chunk).zip(values.chunks(chunk));
        let chunks: Vec<Chunk<W, D>> = parallel::map(chunks, |(keys, values)| {
            let mut arranged = vec![[0; W]; values.len()];
            let mut sorted = Sorted::new();
            self.sort(keys, &mut sorted, |index, place| {
                arranged[place] = values[index];
            });
            Chunk {
                sorted,
                values: arranged,
            }
        });
        let mut seeds = vec![0; self.parameters.bins];
        filler.fill(&mut seeds);
        let mut encoding = vec![[0; W]; self.size()];
        let bins = encoding.chunks_exact_mut(self.parameters.width());
        let bins = bins.zip(seeds).enumerate();
        parallel::try_each_with(bins, Scratch::new, |scratch, (bin, (slots, seed))| {
            self.encode_bin(&chunks, bin, slots, Prg::new(seed), scratch)
        })?;
        Ok(encoding)
    }

    fn encode_bin<const W: usize, const D: usize>(
        &self,
        chunks: &[Chunk<W, D>],
        bin: usize,
        out: &mut [[u64; W]],
        mut filler: Prg,
        scratch: &mut Scratch<W>,
    ) -> Result<(), EncodingFailed> {
        scratch.slots.clear();
        for Chunk { sorted, .. } in chunks {
            scratch
                .slots
                .extend_from_slice(&sorted.slots[sorted.bin(bin)]);
        }
        if scratch.slots.len() > self.parameters.load {
            return Err(EncodingFailed);
        }
        scratch.peel(self.parameters.sparse);

        // Slots that no row determines keep these values.
        scratch.blocks.resize(BATCH, 0);
        let mut words = [0; 2 * BATCH];
        for slots in out.chunks_mut(2 * BATCH / W) {
            filler.fill(&mut scratch.blocks);
            for (two, block) in words.chunks_exact_mut(2).zip(&scratch.blocks) {
                two.copy_from_slice(&[*block as u64, (*block >> 64) as u64]);
            }
            for (slot, words) in slots.iter_mut().zip(words.chunks_exact(W)) {
                slot.copy_from_slice(words);
            }
        }
        if scratch.order.len() < scratch.slots.len() {
            rest::solve(self.parameters.sparse, chunks, bin, &scratch.order, out)?;
        }

        let (sparse, dense) = out.split_at_mut(self.parameters.sparse);
        scratch.tables.fill::<D>(dense);
        scratch.targets.clear();
        for Chunk { sorted, values } in chunks {
            let rows = sorted.dense[sorted.bin(bin)].iter();
            scratch.targets.extend(
                rows.zip(&values[sorted.bin(bin)])
                    .map(|(dense, value)| scratch.tables.add(dense, *value)),
            );
        }
        for [row, pivot, first, second] in scratch.order.iter().rev() {
            let others = xor(&sparse[*first as usize], &sparse[*second as usize]);
            sparse[*pivot as usize] = xor(&scratch.targets[*row as usize], &others);
        }
        Ok(())
    }

    fn decode_rows<const W: usize, const D: usize>(
        &self,
        encoding: &[[u64; W]],
        keys: &[Block],
        out: &mut [[u64; W]],
    ) {
        let chunk = keys
            .len()
            .div_ceil(rayon::current_num_threads())
            .min(self.parameters.bins * CHUNK_PER_BIN)
            .clamp(MIN_CHUNK, MAX_CHUNK);
        parallel::each_with(
            keys.chunks(chunk).zip(out.chunks_mut(chunk)),
            || (Sorted::<D>::new(), Vec::new(), Tables::new()),
            |(sorted, values, tables), (keys, out)| {
                self.sort(keys, sorted, |_, _| ());
                values.resize(keys.len(), [0; W]);
                self.decode_sorted(encoding, sorted, tables, values);
                // Back into the order of the keys: every bin's values are read in sequence.
                let mut next = sorted.starts.clone();
                for (key, out) in keys.iter().zip(out) {
                    let next = &mut next[self.bin_of(key)];
                    *out = values[*next];
                    *next += 1;
                }
            },
        );
    }

    fn decode_sorted<const W: usize, const D: usize>(
        &self,
        encoding: &[[u64; W]],
        sorted: &Sorted<D>,
        tables: &mut Tables<W>,
        values: &mut [[u64; W]],
    ) {
        for (bin, slots) in encoding.chunks_exact(self.parameters.width()).enumerate() {
            let rows = sorted.bin(bin);
            if rows.is_empty() {
                continue;
            }
            let (sparse, dense) = slots.split_at(self.parameters.sparse);
            if rows.len() > sparse.len() / FETCH {
                fetch(sparse);
            }
            tables.fill::<D>(dense);
            let selected = sorted.slots[rows.clone()]
                .iter()
                .zip(&sorted.dense[rows.clone()]);
            for ((slots, dense), value) in selected.zip(&mut values[rows]) {
                let [a, b, c] = slots.map(|slot| &sparse[slot as usize]);
                *value = tables.add(dense, xor(&xor(a, b), c));
            }
        }
    }
}

impl Okvs for ThreeHash {
    fn size(&self) -> usize {
        self.parameters.bins * self.parameters.width()
    }

    fn encode<const W: usize>(
        &self,
        keys: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed> {
        assert!(
            keys.len() == values.len() && keys.len() <= self.items,
            "one value a key, and no more keys than announced"
        );
        match self.parameters.dense.div_ceil(16) {
            0..=3 => self.encode_rows::<W, 3>(keys, values, filler),
            4..=5 => self.encode_rows::<W, 5>(keys, values, filler),
            _ => self.encode_rows::<W, 9>(keys, values, filler),
        }
    }

    fn decode<const W: usize>(&self, encoding: &[[u64; W]], keys: &[Block], out: &mut [[u64; W]]) {
        assert!(
            encoding.len() == self.size() && keys.len() == out.len(),
            "an encoding of this store, and one value a key"
        );
        match self.parameters.dense.div_ceil(16) {
            0..=3 => self.decode_rows::<W, 3>(encoding, keys, out),
            4..=5 => self.decode_rows::<W, 5>(encoding, keys, out),
            _ => self.decode_rows::<W, 9>(encoding, keys, out),
        }
    }
}

/// Reads a bin in sequence, which loads it into the cache faster than gathering from it.
fn fetch<const W: usize>(slots: &[[u64; W]]) {
    let line = (64 / size_of::<[u64; W]>()).max(1);
    let sum = slots
        .iter()
        .step_by(line)
        .fold(0, |sum, slot| sum ^ slot[0]);
    std::hint::black_box(sum);
}

/// A number below `bound` from 64 uniform bits; no number is more likely than another by more than a factor
/// of 1 + bound/2^64.
#[inline]
fn scale(bits: u64, bound: usize) -> usize {
    ((bits as u128 * bound as u128) >> 64) as usize
}

/// Three distinct slots below `bound` from 96 bits of a block: all choices are equally likely up to a factor
/// of 1 + 3·bound/2^32.
#[inline]
fn distinct(block: Block, bound: u32) -> [u16; 3] {
    let below = |shift: u32, bound: u32| {
        ((u64::from((block >> shift) as u32) * u64::from(bound)) >> 32) as u32
    };
    let a = below(0, bound);
    // Skip the slots that are taken, smaller one first.
    let b = below(32, bound - 1);
    let b = b + (b >= a) as u32;
    let c = below(64, bound - 2);
    let c = c + (c >= a.min(b)) as u32;
    let c = c + (c >= a.max(b)) as u32;
    [a as u16, b as u16, c as u16]
}
