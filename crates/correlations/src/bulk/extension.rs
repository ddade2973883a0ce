//! The state of the extensions of one size, the same for both parties, and the part of their work that is the same:
//! the matrix.

use vesica_kernels::Backend;
use vesica_kernels::subfield::add_products;
use vesica_primitives::block::{Block, Cipher};
use zeroize::Zeroizing;

use super::Size;
use super::tree::Trees;
use crate::lpn::primal::ROW_WEIGHT;

/// Rows of the matrix made at a time: their blocks, 320, fill the widest AES pipeline and stay in the L1 cache.
const ROWS: usize = 256;

/// Rows whose indices fill whole AES blocks.
const GROUP: usize = 4;

/// AES blocks with the indices of that many rows, of 16 bits each.
const BLOCKS: usize = GROUP * ROW_WEIGHT / 8;

/// The first of the blocks with coefficients, a byte for each.
const COEFFICIENTS: Block = 1 << 127;

/// Extensions of one size, one after the other.
pub(super) struct Extension {
    pub(super) size: &'static Size,
    pub(super) trees: Trees,
    matrix: Cipher,
    /// The base vector, then some COTs or entries for each tree.
    cots: Zeroizing<Vec<Block>>,
    /// Trees of this extension so far.
    done: usize,
    /// Trees of all earlier extensions.
    earlier: u64,
}

/// Some of an extension's trees, which are used up with it.
pub(super) struct Batch<'a> {
    pub(super) extension: &'a Extension,
    /// The number of the first, in all extensions.
    pub(super) first: u64,
    /// [`Size::per_tree`] COTs or entries for each.
    pub(super) cots: &'a [Block],
}

impl Batch<'_> {
    /// Number of trees.
    fn trees(&self) -> usize {
        self.cots.len() / self.extension.size.per_tree()
    }

    /// Bytes of the message.
    pub(super) fn message(&self) -> usize {
        self.trees() * self.extension.size.message()
    }

    /// Room for COTs with the choice bits of the trees, for those that have none of their own.
    pub(super) fn room_for_choices(&self) -> Zeroizing<Vec<Block>> {
        Zeroizing::new(vec![0; self.trees() * self.extension.size.depth])
    }
}

impl Extension {
    /// The first extension, with `cots` as its base vector and the COTs for its trees.
    pub(super) fn new(
        session: &[u8; 32],
        size: &'static Size,
        cots: Zeroizing<Vec<Block>>,
    ) -> Self {
        assert_eq!(cots.len(), size.consumed());
        // Otherwise neighbouring trees would share a block of coefficients.
        assert!(size.field_bits == 1 || size.depth >= 3);
        Extension {
            size,
            trees: Trees::new(session, size.depth),
            matrix: Cipher::public("vesica/1 bulk COT matrix", session),
            cots,
            done: 0,
            earlier: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn cots(&self) -> &[Block] {
        &self.cots
    }

    /// Trees left before the next extension, if `reserved` are kept for that.
    pub(super) fn left(&self, reserved: usize) -> usize {
        self.size.trees() - reserved - self.done
    }

    /// Uses up the next `count` trees.
    pub(super) fn next(&mut self, count: usize) -> Batch<'_> {
        let (first, each) = (self.done, self.size.per_tree());
        self.done += count;
        assert!(self.done <= self.size.trees());
        Batch {
            first: self.earlier + first as u64,
            cots: &self.cots[self.size.base() + first * each..][..count * each],
            extension: self,
        }
    }

    /// Starts the next extension, all trees of this one being used up.
    pub(super) fn renew(&mut self, mut cots: Zeroizing<Vec<Block>>) {
        assert_eq!(self.left(0), 0);
        cots.truncate(self.size.consumed());
        self.cots = cots;
        self.earlier += self.done as u64;
        self.done = 0;
    }

    /// Adds the base vector, multiplied by the rows of the matrix that belong to tree number `tree`, to its leaves.
    ///
    /// Rows 4i to 4i + 3 of the matrix come from the encryptions of 5i to 5i + 4, and the coefficients of rows 8i to
    /// 8i + 7 from those of as many numbers from 2^127 + 5i on: of 256 bytes, 17 or 18 stand for each element of GF(16)
    /// other than 0, and 36 or 37 for one of GF(8). Row numbers go on through all extensions.
    pub(super) fn add_product(&self, tree: u64, leaves: &mut [Block]) {
        match self.size.field_bits {
            1 => self.each_rows(tree, leaves, |base, random, _, leaves| {
                add_rows(base, random.as_flattened(), leaves);
            }),
            3 => self.add_multiples::<3>(tree, leaves),
            4 => self.add_multiples::<4>(tree, leaves),
            _ => unreachable!("no size has such a field"),
        }
    }

    fn add_multiples<const W: u32>(&self, tree: u64, leaves: &mut [Block]) {
        self.each_rows(tree, leaves, |base, places, first, leaves| {
            let mut random = [0; BLOCKS * ROWS / GROUP / 2];
            let random = &mut random[..leaves.len() / GROUP * BLOCKS / 2];
            for (block, number) in random.iter_mut().zip(COEFFICIENTS + first / 2..) {
                *block = number;
            }
            self.matrix.encrypt(random);
            let mut coefficients = [0; ROW_WEIGHT * ROWS];
            let bytes: &[u8] = bytemuck::must_cast_slice(random);
            for (coefficient, byte) in coefficients.iter_mut().zip(bytes) {
                let factor = u16::from(*byte) * ((1 << W) - 1);
                *coefficient = 1 + (factor >> 8) as u8;
            }
            let (coefficients, _) = coefficients.as_chunks();
            let (places, coefficients) = (&places[..leaves.len()], &coefficients[..leaves.len()]);
            add_products::<W, ROW_WEIGHT>(Backend::Best, base, places, coefficients, leaves);
        });
    }

    /// Calls `add` with the base vector, the indices of some rows, the number of the first block that they come from, and
    /// the leaves to which the rows' products are added.
    fn each_rows(
        &self,
        tree: u64,
        leaves: &mut [Block],
        add: impl Fn(&[Block], &[[u16; ROW_WEIGHT]], Block, &mut [Block]),
    ) {
        let base = &self.cots[..self.size.base()];
        let mut random = [0; BLOCKS * ROWS / GROUP];
        let mut counter = Block::from(tree) * (leaves.len() / GROUP * BLOCKS) as Block;
        for leaves in leaves.chunks_mut(ROWS) {
            let first = counter;
            let random = &mut random[..leaves.len() / GROUP * BLOCKS];
            for block in random.iter_mut() {
                *block = counter;
                counter += 1;
            }
            self.matrix.encrypt(random);
            let (rows, _) = bytemuck::must_cast_slice(random).as_chunks();
            add(base, rows, first, leaves);
        }
    }
}

/// Adds to each leaf the entry of each segment of `base` that its indices choose. The length of a segment is a power of
/// two, so that indices are uniform.
fn add_rows(base: &[Block], random: &[u16], leaves: &mut [Block]) {
    // Halves of blocks become one vector register, whole ones do not.
    let base: &[[u64; 2]] = bytemuck::must_cast_slice(base);
    let leaves: &mut [[u64; 2]] = bytemuck::must_cast_slice_mut(leaves);
    let (random, _) = random.as_chunks();
    match base.len() / ROW_WEIGHT {
        0x800 => add_entries::<0x800>(base, random, leaves),
        0x4000 => add_entries::<0x4000>(base, random, leaves),
        0x8000 => add_entries::<0x8000>(base, random, leaves),
        // Those of the tests.
        2 => add_entries::<2>(base, random, leaves),
        4 => add_entries::<4>(base, random, leaves),
        _ => unreachable!("no size has segments of this length"),
    }
}

/// [`add_rows`] for segments of a fixed length, whose indices need no checks.
///
/// The indices are known long before the entries are needed, and the leaves do not depend on each other: the processor
/// has many accesses in flight by itself.
fn add_entries<const LENGTH: usize>(
    base: &[[u64; 2]],
    random: &[[u16; ROW_WEIGHT]],
    leaves: &mut [[u64; 2]],
) {
    let (segments, _) = base.as_chunks::<LENGTH>();
    let segments = segments.first_chunk::<ROW_WEIGHT>().expect("ten segments");
    for (leaf, random) in leaves.iter_mut().zip(random) {
        let mut sum = *leaf;
        for (segment, index) in segments.iter().zip(random) {
            let [low, high] = segment[usize::from(*index) & (LENGTH - 1)];
            sum = [sum[0] ^ low, sum[1] ^ high];
        }
        *leaf = sum;
    }
}
