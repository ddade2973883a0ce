//! 128-bit blocks, and two primitives from AES: a pseudorandom generator and correlation-robust hashes.
//!
//! A [`Block`] is sixteen bytes, least significant first. As an element of GF(2^128) it is c0 + c1·u in the
//! tower of [`vesica_kernels::binary`], where c0 is the low 64 bits.

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::aes::{self, Key};
use zeroize::Zeroizing;

/// A 128-bit string.
pub type Block = u128;

/// Blocks processed together: enough to fill the widest pipeline, few enough for the L1 cache.
const BATCH: usize = 128;

/// AES-128 under one key.
#[derive(Clone)]
pub struct Cipher(Key);

impl Cipher {
    /// Expands the key.
    pub fn new(key: Block) -> Self {
        Cipher(Key::new(key))
    }

    /// AES under a public key that depends on the run and on the purpose: nothing computed before the run
    /// helps against it.
    pub fn public(label: &'static str, session: &[u8; 32]) -> Self {
        let key = blake3::derive_key(label, session);
        let (half, _) = key.split_at(16);
        Cipher::new(Block::from_le_bytes(std::array::from_fn(|i| half[i])))
    }

    /// Encrypts every block in place. Batches of at least 32 reach the machine's full speed.
    #[inline]
    pub fn encrypt(&self, blocks: &mut [Block]) {
        aes::encrypt(Backend::Best, &self.0, blocks);
    }

    /// π(x) ⊕ x for every block in place: one-way where π is a random permutation.
    #[inline]
    pub fn feed_forward(&self, blocks: &mut [Block]) {
        aes::feed_forward(Backend::Best, &self.0, blocks);
    }

    /// Bits of π(x) ⊕ x for all sums x of an input and an offset, in rows of [`aes::hash_bits`].
    ///
    /// # Panics
    /// As that.
    #[inline]
    pub fn hash_bits(&self, offsets: &[Block], inputs: &[Block], out: &mut [u64]) {
        aes::hash_bits(Backend::Best, &self.0, offsets, inputs, out);
    }
}

/// The doubling generators of all trees of one purpose in one run. A node p has the children π₀(p) ⊕ p and
/// π₁(p) ⊕ p, where π₀ and π₁ are AES under two public keys.
///
/// Every level of every tree has its own key pair, the encryptions of (tree, level, side) under a key that
/// depends on the run. These keys are all different, so no evaluation of AES tests guesses at two nodes:
/// whoever searches for the one unknown node of a level gains nothing from the number of levels and trees.
#[derive(Clone)]
pub struct Doubling(Cipher);

/// The key pairs of some levels of one tree.
pub struct LevelKeys(Vec<[Key; 2]>);

impl Doubling {
    /// The generators of one purpose in one run.
    pub fn new(label: &'static str, session: &[u8; 32]) -> Self {
        Doubling(Cipher::public(label, session))
    }

    /// The key pairs of the levels of tree number `tree`, from the root down; level i has the children at
    /// depth i + 1.
    pub fn levels(&self, tree: u64, depth: usize) -> LevelKeys {
        let mut keys: Vec<[Block; 2]> = (0..depth as Block)
            .map(|level| [0, 1].map(|side| Block::from(tree) << 64 | level << 1 | side))
            .collect();
        self.0.encrypt(keys.as_flattened_mut());
        let mut levels = Vec::with_capacity(depth);
        let (fours, rest) = keys.as_chunks::<2>();
        for &[[a, b], [c, d]] in fours {
            let [a, b, c, d] = Key::expand([a, b, c, d]);
            levels.extend([[a, b], [c, d]]);
        }
        levels.extend(rest.iter().map(|pair| Key::expand(*pair)));
        LevelKeys(levels)
    }
}

impl LevelKeys {
    /// Replaces the first half of `nodes`, the nodes of depth `level`, by their children, left and right in
    /// turn. Returns the sums of the left and of the right children.
    ///
    /// # Panics
    /// If the number of blocks is odd or there is no such level.
    #[inline]
    pub fn children(&self, level: usize, nodes: &mut [Block]) -> [Block; 2] {
        aes::children(Backend::Best, &self.0[level], nodes)
    }
}

/// AES-128 in counter mode: a long pseudorandom string from a short seed.
pub struct Prg {
    cipher: Cipher,
    counter: u128,
}

impl Prg {
    /// The generator of a seed; the output is only as secret as the seed.
    pub fn new(seed: Block) -> Self {
        Prg {
            cipher: Cipher::new(seed),
            counter: 0,
        }
    }

    /// The generator of a seed from block number `first` on. Numbers are modulo 2^128.
    pub fn starting_at(seed: Block, first: u128) -> Self {
        Prg {
            counter: first,
            ..Prg::new(seed)
        }
    }

    /// A generator with a fresh seed.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut seed = Zeroizing::new([0; 16]);
        rng.fill_bytes(seed.as_mut());
        Self::new(Block::from_le_bytes(*seed))
    }

    /// The next blocks.
    pub fn fill(&mut self, blocks: &mut [Block]) {
        for chunk in blocks.chunks_mut(BATCH) {
            for block in chunk.iter_mut() {
                *block = self.counter;
                self.counter = self.counter.wrapping_add(1);
            }
            self.cipher.encrypt(chunk);
        }
    }

    /// The next block; slow for many.
    pub fn next_block(&mut self) -> Block {
        let mut block = [0];
        self.fill(&mut block);
        block[0]
    }
}

/// A tweakable hash that hides correlations among its inputs: TMMO of Guo, Katz, Wang and Yu
/// (S&P 2020, section VII-C), H(x, i) = π(π(x) ⊕ i) ⊕ π(x), in the ideal-cipher model.
///
/// Not for masks of values that a party can come to know: of q known hashes one evaluation of AES tests them all,
/// since H(x, i) ⊕ i = π(w) ⊕ w for w = π(x) ⊕ i. Masks of a few bits leave too many candidates for that to help;
/// [`Rekeyed`] is the hash for values. The crate `plan` lists the uses of both, with the bound.
#[derive(Clone)]
pub struct CorrelationRobust(Cipher);

impl CorrelationRobust {
    /// The hash of one purpose in one run.
    pub fn new(label: &'static str, session: &[u8; 32]) -> Self {
        CorrelationRobust(Cipher::public(label, session))
    }

    /// Replaces block number j by its hash with tweak `first + j`. No two inputs of a run may share a
    /// tweak unless they are two choices of one transfer.
    pub fn hash(&self, first: u128, blocks: &mut [Block]) {
        let mut first = first;
        for chunk in blocks.chunks_mut(BATCH) {
            // With y = π(x), the hash is π(y ⊕ i) ⊕ (y ⊕ i) ⊕ i.
            self.0.encrypt(chunk);
            add_counters(first, chunk);
            self.0.feed_forward(chunk);
            add_counters(first, chunk);
            first += chunk.len() as u128;
        }
    }
}

/// A tweakable hash that hides correlations among its inputs, however many other hashes are known: H(x, i) = E(kᵢ, x) ⊕
/// x, where the key kᵢ is the encryption of i under a public key that depends on the run. C. Guo, J. Katz, X. Wang, C.
/// Weng, Y. Yu, *Better Concrete Security for Half-Gates Garbling (in the Multi-Instance Setting)*, CRYPTO 2020. Their
/// orthomorphism of x is left out: it is for messages that depend on Δ, which these hashes must not mask.
///
/// In the ideal-cipher model an evaluation of AES, in either direction, concerns one key and thus one tweak: it tests
/// one guess at Δ in one place.
#[derive(Clone)]
pub struct Rekeyed(Cipher);

impl Rekeyed {
    /// The hash of one purpose in one run.
    pub fn new(label: &'static str, session: &[u8; 32]) -> Self {
        Rekeyed(Cipher::public(label, session))
    }

    /// Replaces block number j by its hash with tweak `first + j`. No two inputs of a run may share a
    /// tweak unless they are two choices of one transfer.
    pub fn hash(&self, first: u128, blocks: &mut [Block]) {
        let mut keys = [0; BATCH];
        let mut first = first;
        for chunk in blocks.chunks_mut(BATCH) {
            self.hash_planes(first, &mut keys[..chunk.len()], chunk);
            first += chunk.len() as u128;
        }
    }

    /// As [`Rekeyed::hash`], for both choices of each transfer: their keys are expanded once.
    ///
    /// # Panics
    /// If there are not as many of each.
    pub fn hash_choices(&self, first: u128, choices: [&mut [Block]; 2]) {
        let [zeros, ones] = choices;
        assert_eq!(zeros.len(), ones.len());
        let mut keys = [0; BATCH];
        let mut planes = [0; 2 * BATCH];
        let mut first = first;
        for (zeros, ones) in zeros.chunks_mut(BATCH).zip(ones.chunks_mut(BATCH)) {
            let count = zeros.len();
            let planes = &mut planes[..2 * count];
            planes[..count].copy_from_slice(zeros);
            planes[count..].copy_from_slice(ones);
            self.hash_planes(first, &mut keys[..count], planes);
            zeros.copy_from_slice(&planes[..count]);
            ones.copy_from_slice(&planes[count..]);
            first += count as u128;
        }
    }

    /// Hashes planes of as many blocks as there is room for keys, each under the keys of the tweaks from `first` on.
    fn hash_planes(&self, first: u128, keys: &mut [Block], planes: &mut [Block]) {
        for (key, tweak) in keys.iter_mut().zip(first..) {
            *key = tweak;
        }
        self.0.encrypt(keys);
        aes::feed_forward_under_each(Backend::Best, keys, planes);
    }

    /// The most blocks that [`Rekeyed::expand`] makes of an input under one key.
    pub const PER_KEY: usize = 4;

    /// Makes several blocks of each input: block number j of input number p is `out`\[j·n + p\] for n inputs. Of
    /// [`PER_KEY`](Rekeyed::PER_KEY) blocks each, block j is the hash of the input plus j. Inputs whose numbers differ by
    /// a multiple of `tweaks`, the choices of one transfer, share their keys. Calls that number transfers from `first` on
    /// take keys that no others take, if all make as many blocks.
    ///
    /// # Panics
    /// If there are more than 128 tweaks, or the inputs are no multiple of them or do not get equally many blocks.
    pub fn expand(&self, first: usize, tweaks: usize, inputs: &[Block], out: &mut [Block]) {
        assert!(inputs.len().is_multiple_of(tweaks) && out.len().is_multiple_of(inputs.len()));
        let mut keys = [0; BATCH];
        let group = Self::PER_KEY * inputs.len();
        let first = first * out.len().div_ceil(group);
        for (number, planes) in out.chunks_mut(group).enumerate() {
            for (j, blocks) in planes.chunks_exact_mut(inputs.len()).enumerate() {
                for (block, input) in blocks.iter_mut().zip(inputs) {
                    *block = input ^ j as Block;
                }
            }
            let tweak = (first + number * tweaks) as u128;
            self.hash_planes(tweak, &mut keys[..tweaks], planes);
        }
    }
}

/// Hashes of pseudorandom inputs that hide correlations among them: H(x) = π(x) ⊕ x, MMO of Guo, Katz, Wang and Yu (S&P
/// 2020, section VII-B), where π is AES under a key for each *tile* of inputs. The keys are the encryptions of the tiles'
/// numbers under a public key that depends on the run. One evaluation of AES per hash.
///
/// Inputs of a tile must differ, as pseudorandom ones do, and messages must not depend on Δ. As [`CorrelationRobust`], and
/// for its reason, not for masks of values that a party can come to know.
#[derive(Clone)]
pub struct TileHash(Cipher);

impl TileHash {
    /// The hashes of one purpose in one run.
    pub fn new(label: &'static str, session: &[u8; 32]) -> Self {
        TileHash(Cipher::public(label, session))
    }

    /// π of tile number `number`.
    pub fn tile(&self, number: u64) -> Cipher {
        let mut key = [number.into()];
        self.0.encrypt(&mut key);
        Cipher::new(key[0])
    }
}

/// Adds `first + j` to block number j.
#[inline(always)]
fn add_counters(first: u128, blocks: &mut [Block]) {
    for (block, counter) in blocks.iter_mut().zip(first..) {
        *block ^= counter;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cipher_is_aes() {
        // FIPS 197, appendix C.1.
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let text: [u8; 16] = std::array::from_fn(|i| (i * 0x11) as u8);
        let mut blocks = [Block::from_le_bytes(text)];
        Cipher::new(Block::from_le_bytes(key)).encrypt(&mut blocks);
        let expected = [
            0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4,
            0xc5, 0x5a,
        ];
        assert_eq!(blocks[0].to_le_bytes(), expected);
    }

    #[test]
    fn the_generator_does_not_depend_on_how_it_is_asked() {
        let mut whole = [0; 300];
        Prg::new(7).fill(&mut whole);
        let mut prg = Prg::new(7);
        let mut parts = [0; 300];
        let (a, b) = parts.split_at_mut(131);
        prg.fill(a);
        prg.fill(b);
        assert_eq!(whole, parts);
        assert_eq!(Prg::new(7).next_block(), whole[0]);
        assert_ne!(Prg::new(8).next_block(), whole[0]);
    }

    #[test]
    fn hashes_follow_their_definition() {
        let session = [3; 32];
        let (hash, pi) = (
            CorrelationRobust::new("vesica test", &session),
            Cipher::public("vesica test", &session),
        );
        let one = |x: Block| {
            let mut block = [x];
            pi.encrypt(&mut block);
            block[0]
        };
        let mut blocks: Vec<Block> = (0..300).map(|i| i * i).collect();
        let mut forward = blocks.clone();
        let expected: Vec<Block> = blocks
            .iter()
            .zip(5u128..)
            .map(|(x, i)| one(one(*x) ^ i) ^ one(*x))
            .collect();
        hash.hash(5, &mut blocks);
        assert_eq!(blocks, expected);
        let expected: Vec<Block> = forward.iter().map(|x| one(*x) ^ x).collect();
        pi.feed_forward(&mut forward);
        assert_eq!(forward, expected);
    }

    #[test]
    fn rekeyed_hashes_follow_their_definition() {
        let session = [3; 32];
        let master = Cipher::public("vesica test", &session);
        let inputs: Vec<Block> = (0..300).map(|i| i * i).collect();
        let mut hashes = inputs.clone();
        Rekeyed::new("vesica test", &session).hash(5, &mut hashes);
        let [mut zeros, mut ones] = [inputs.clone(), hashes.clone()];
        let rekeyed = Rekeyed::new("vesica test", &session);
        rekeyed.hash_choices(5, [&mut zeros, &mut ones]);
        let mut expected = hashes.clone();
        rekeyed.hash(5, &mut expected);
        assert_eq!([zeros, ones], [hashes.clone(), expected]);
        for ((input, hash), tweak) in inputs.iter().zip(&hashes).zip(5..) {
            let mut key = [tweak];
            master.encrypt(&mut key);
            let mut expected = [*input];
            Cipher::new(key[0]).feed_forward(&mut expected);
            assert_eq!(*hash, expected[0]);
        }
    }

    #[test]
    fn inputs_are_expanded_under_a_key_for_four_blocks() {
        let session = [3; 32];
        let master = Cipher::public("vesica test", &session);
        // Two inputs for each of three tweaks, and ten blocks for each.
        let inputs = [4, 8, 15, 16, 23, 42];
        let mut out = [0; 60];
        Rekeyed::new("vesica test", &session).expand(7, 3, &inputs, &mut out);
        for (place, block) in out.into_iter().enumerate() {
            let (j, p) = (place / 6, place % 6);
            let mut key = [(3 * 7 + 3 * (j / 4) + p % 3) as Block];
            master.encrypt(&mut key);
            let mut expected = [inputs[p] ^ (j % 4) as Block];
            Cipher::new(key[0]).feed_forward(&mut expected);
            assert_eq!(block, expected[0], "block {j} of input {p}");
        }
    }

    #[test]
    fn every_tile_has_a_key_of_its_own() {
        let session = [3; 32];
        let hash = TileHash::new("vesica test", &session);
        let mut keys = [5, 6];
        Cipher::public("vesica test", &session).encrypt(&mut keys);
        for (tile, key) in [5, 6].into_iter().zip(keys) {
            let mut sums = [1, 2, 3, 4].map(|offset: Block| offset ^ 99);
            let mut bits = [0];
            hash.tile(tile).hash_bits(&[1, 2, 3, 4], &[99], &mut bits);
            Cipher::new(key).feed_forward(&mut sums);
            let expected = sums
                .iter()
                .rev()
                .fold(0, |bits, sum| bits << 1 | sum >> 127);
            assert_eq!(Block::from(bits[0]), expected);
        }
    }

    #[test]
    fn a_generator_starts_anywhere() {
        let mut whole = [0; 9];
        Prg::new(16).fill(&mut whole);
        assert_eq!(Prg::starting_at(16, 8).next_block(), whole[8]);
    }

    #[test]
    fn children_follow_their_definition() {
        let session = [4; 32];
        let master = Cipher::public("vesica test", &session);
        let key = |tree: Block, level: Block, side: Block| {
            let mut key = [tree << 64 | level << 1 | side];
            master.encrypt(&mut key);
            Cipher::new(key[0])
        };
        for (tree, depth) in [(0, 1), (1, 3), (7, 4)] {
            let keys = Doubling::new("vesica test", &session).levels(tree, depth);
            for level in 0..depth {
                let mut nodes = [5, 6, 0, 0];
                let sums = keys.children(level, &mut nodes);
                let child = |parent: Block, side: usize| {
                    let mut block = [parent];
                    key(tree.into(), level as Block, side as Block).feed_forward(&mut block);
                    block[0]
                };
                assert_eq!(nodes, [child(5, 0), child(5, 1), child(6, 0), child(6, 1)]);
                assert_eq!(sums, [nodes[0] ^ nodes[2], nodes[1] ^ nodes[3]]);
            }
        }
    }
}
